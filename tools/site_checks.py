"""What must hold of the built site.

No page loads anything from elsewhere, ids are unique, links inside the site lead somewhere, source links to a line, and
what the tools put into every page is there: a replacement that finds nothing is silent."""

import re
from functools import partial
from os.path import dirname, exists, isdir, join, normpath, relpath
from urllib.parse import unquote, urlsplit

from lxml.html import document_fromstring

NO_REQUEST = {"canonical", "alternate", "license", "next", "prev"}  # <link> relations that a browser does not load
CSS_LOAD = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s;]+)")
JS_LOAD = re.compile(r"(?:import|from|fetch\()\s*[\"']((?:https?:)?//[^\"']+)")
RAW = re.compile(r"\]\((?:[^()\s]*\.(?:ipynb|html)|#)[^()\s]*\)")  # a link that is no link

PARTS = {  # of every page, each once, and where it stands
    "the link to the text, first of all": "//body/*[1]/self::a[@class='skip-link']",
    "the text, which the keyboard can reach": "//*[@id='quarto-document-content'][@tabindex='-1']",
    "the search": "//div[@class='site-search']//input",
    "the button of the theme": "//button[contains(@class, 'quarto-color-scheme-toggle')]",
    "the navigation with its name": "//nav[@aria-label='Site']",
    "the script of toggles": "//script[contains(@src, 'site_libs/toggles.js')]",
    "the script of the search": "//script[contains(@src, 'site_libs/search.js')]",
    "the script of the keyboard": "//script[contains(@src, 'site_libs/access.js')]",
}
BESIDE = {  # of every page but the front page
    "the title": "//header[@id='title-block-header']",
    "the sidebar with its name": "//nav[@id='quarto-sidebar'][@aria-label='Lessons']",
    "the contents, under the title as at the side": "//details[@class='contents'] | //main[not(//nav[@id='TOC'])]",
}


class PageFacts:
    "The ids, the links, the loaded addresses and the parts of one page."

    def __init__(self, html):
        page = document_fromstring(html)
        every = partial(page.xpath, smart_strings=False)  # strings that do not hold the page
        self.ids, self.links = every("//@id"), every("//a/@href[. != '']")
        self.raw = RAW.findall("".join(every("//main//text()[not(ancestor::pre | ancestor::code | ancestor::script)]")))
        self.loads = every("//@src | //@srcset | //@poster | //@data")
        self.loads += [link.get("href", "") for link in page.iter("link") if link.get("rel") not in NO_REQUEST]
        self.loads += CSS_LOAD.findall("\n".join(every("//@style | //style/text()")))
        self.loads += JS_LOAD.findall("\n".join(every("//script/text()")))
        self.counts = {part: len(every(where)) for part, where in (PARTS | BESIDE).items()}


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
    target = normpath(join(dirname(path), unquote(parts.path))) if parts.path else path
    target += "/index.html" if isdir(target) else ""
    if not exists(target):
        return True
    return bool(parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids)


def check_page(path, page, pages):
    "Say what is wrong with one page."
    yield from (f"loads {url} from elsewhere" for url in page.loads if is_outside(url))
    yield from (f"id {i!r} comes twice (a heading named like a symbol?)" for i in doubles(page.ids))
    yield from (f"shows {text}, not a link" for text in page.raw)
    yield from (f"{url} leads to no line" for url in page.links if url.endswith("#LNone"))
    inside = [url for url in page.links + page.loads if not is_outside(url)]
    yield from (f"broken link {url}" for url in dict.fromkeys(inside) if broken(path, url, pages))


def missing(page, is_front):
    "Say which part of a finished page is not there once, and where it should be."
    for part, where in (PARTS if is_front else PARTS | BESIDE).items():
        if (count := page.counts[part]) != 1:
            yield f"{part}: {count} times {where}, not once"


def facts_of(path):
    return PageFacts(path.read_text())


def read_pages(folder, each=map):
    "The facts of each page of a site, by its path; `each` may be the `map` of several processes."
    paths = sorted(folder.resolve().rglob("*.html"))
    return dict(zip(map(str, paths), each(facts_of, paths)))


def check_parts(folder, pages):
    "Return one line for each part that a page of the site in `folder` lacks."
    folder = folder.resolve()
    return [f"{relpath(path, folder)}: {line}" for path, page in pages.items()
            for line in missing(page, path == f"{folder}/index.html")]


def check_site(folder, pages=None):
    "Return one line for each thing wrong with the site in `folder`."
    folder = folder.resolve()
    pages = pages or read_pages(folder)
    wrong = [f"{relpath(path, folder)}: {line}" for path, page in pages.items()
             for line in check_page(path, page, pages)]
    for css in sorted(folder.rglob("*.css")):
        wrong += [f"{css.name}: loads {url} from elsewhere" for url in CSS_LOAD.findall(css.read_text())]
    return wrong
