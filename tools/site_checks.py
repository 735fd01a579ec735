"""What must hold of the built site.

No page loads anything from elsewhere, ids are unique, links inside the site lead somewhere, source links to a line."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

NO_REQUEST = {"canonical", "alternate", "license", "next", "prev"}  # <link> relations that a browser does not load
CSS_LOAD = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s;]+)")
JS_LOAD = re.compile(r"(?:import|from|fetch\()\s*[\"']((?:https?:)?//[^\"']+)")


class PageFacts(HTMLParser):
    "The ids, the links and the loaded addresses of one page."

    def __init__(self, html):
        super().__init__()
        self.ids, self.links, self.loads, self.within = [], [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.within = tag
        a = dict(attrs)
        if a.get("id"):
            self.ids.append(a["id"])
        if tag == "a" and a.get("href"):
            self.links.append(a["href"])
        elif tag == "link" and a.get("rel") not in NO_REQUEST:
            self.loads.append(a.get("href") or "")
        self.loads += [a[k] for k in ("src", "srcset", "poster", "data") if a.get(k)]
        self.loads += CSS_LOAD.findall(a.get("style") or "")

    def handle_data(self, data):
        if self.within in ("script", "style"):
            self.loads += (JS_LOAD if self.within == "script" else CSS_LOAD).findall(data)

    def handle_endtag(self, tag):
        self.within = ""


def is_outside(url):
    "Whether an address leaves the site."
    return bool(urlsplit(url).netloc)


def doubles(items):
    "The items that come more than once."
    return sorted({i for i in items if items.count(i) > 1})


def broken(path, url, pages):
    "Whether a link inside the site leads nowhere: no such file, or no such id on the page it leads to."
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return True
    return bool(parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids)


def check_page(path, page, pages):
    "Say what is wrong with one page."
    yield from (f"loads {url} from elsewhere" for url in page.loads if is_outside(url))
    yield from (f"id {i!r} comes twice (a heading named like a symbol?)" for i in doubles(page.ids))
    yield from (f"{url} leads to no line" for url in page.links if url.endswith("#LNone"))
    inside = [url for url in page.links + page.loads if not is_outside(url)]
    yield from (f"broken link {url}" for url in dict.fromkeys(inside) if broken(path, url, pages))


def check_site(folder: Path):
    "Return one line for each thing wrong with the site in `folder`."
    folder = folder.resolve()
    pages = {p: PageFacts(p.read_text()) for p in sorted(folder.rglob("*.html"))}
    wrong = [f"{p.relative_to(folder)}: {line}" for p, page in pages.items() for line in check_page(p, page, pages)]
    for css in sorted(folder.rglob("*.css")):
        wrong += [f"{css.name}: loads {url} from elsewhere" for url in CSS_LOAD.findall(css.read_text())]
    return wrong
