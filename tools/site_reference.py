"""What makes the site a reference: each page again as Markdown (`attention.html.md`), `llms.txt`, the addresses that
search engines ask for, the page for what is not there, and at the top of each lesson its links (Colab, notebook,
source, its translations), the paper's sections and the map.

smalldocs makes Markdown, too (`llms-txt`), but under other names, with each picture as a file once more, with the
scripts of the viewers in the text, and with an index in the order of the alphabet. So only its converter is used."""
import json
import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from smalldocs import llms
from smalldocs.markdown import split_front_matter

from notebooks import GROUND, read, text_of
from site_course import minutes_of
from site_map import LIT, figure_map
from site_rewrites import LANGS, number_of, outside_code, same_lesson

PAPER = "https://arxiv.org/html/1706.03762v7"
COLAB = "https://colab.research.google.com/github"
SECTION = re.compile(r"§(\d)(?:\.(\d))?(?:\.(\d))?")
LESSON = re.compile(r"(?:.*/)?\d\d\w?_\w+\.ipynb")  # a lesson's notebook has a number
ASIDE = ("course/tasks/", "languages/")  # folders of what is written again elsewhere
DESCRIPTION = re.compile(r'(<div class="description">)(.*?)(</div>)', re.S)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
TITLE_BLOCK = re.compile(r'<header id="title-block-header"[^>]*>')
STEP = re.compile(r'<div class="nav-page nav-page-(\w+)"><a href="([^"]*)".*?<span class="nav-page-text">(.*?)</span>')
ROOM = '<div class="quarto-title-meta"></div></header>'  # where smalldocs would name author and date


# ---- pages

def add_reference(html, page, to_root, cfg, renamed):
    "The finished page with its addresses; a lesson also gets its links, and the map if it has a place there."
    if page == "404.html":
        return anywhere(html, urlsplit(cfg.doc_url).path)
    html = html.replace("</head>", f"{addresses(page, cfg)}</head>", 1)
    name = {new.replace(".ipynb", ".html"): old for old, new in renamed.items()}.get(page, "")
    if not is_lesson(name):
        return html
    html = DESCRIPTION.sub(lambda m: m[1] + link_sections(m[2]) + m[3], html, count=1)
    html = add_steps(html, STEP.findall(html))
    links = lesson_links(page, name, to_root, cfg, renamed)
    return html.replace(ROOM, f"{links}</header>{lesson_map(page, to_root)}", 1)


def is_lesson(name):
    "Whether a notebook explains something: the path and what stands beside it."
    return name in GROUND or bool(LESSON.fullmatch(name)) and not name.startswith(ASIDE)


def addresses(page, cfg):
    "Where the page is, and where it is as Markdown."
    url = address(page, cfg).removesuffix("index.html")
    return (
        f'<link rel="canonical" href="{url}"><meta property="og:url" content="{url}">'
        f'<link rel="alternate" type="text/markdown" href="{Path(page).name}.md">'
    )


def address(page, cfg):
    return f"{cfg.doc_url.rstrip('/')}/{page}"


def anywhere(html, home):
    "The page for what is not there is shown at any address: its links start from where it really lies."
    base = f'<base href="{home.rstrip("/")}/404.html">'
    script = f"if (!location.pathname.endsWith('/404.html')) document.write('{base}')"
    return html.replace("<head>", f'<head><meta name="robots" content="noindex"><script>{script}</script>', 1)


def link_sections(text):
    "`§3.2.1` becomes a link to that section of the paper."
    def link(m):
        names = (f"{prefix}{number}" for prefix, number in zip(("S", "SS", "SSS"), m.groups()) if number)
        return f'<a href="{PAPER}#{".".join(names)}">{m[0]}</a>'
    return SECTION.sub(link, text)


def colab(name, cfg):
    "Where a notebook can be run."
    return f"{COLAB}/{cfg.user}/{cfg.repo}/blob/{cfg.branch}/{cfg.nbs_path.name}/{name}"


def add_steps(html, steps):
    "The pages before and after it, `(where, page, title)`, which stand at the end of an English page, at its top."
    links = "".join(f'<a class="step-{where}" href="{page}">{title}</a>' for where, page, title in steps)
    line = f'<p class="lesson-steps">{links}</p>' if links else ""
    return TITLE_BLOCK.sub(lambda m: m[0] + line, html, count=1)


def lesson_links(page, name, to_root, cfg, renamed):
    "How long a lesson takes, in which languages there is it, and where else it can be had."
    read, whole = minutes_of(cfg).get(number_of(name), (0, 0))
    about = f"<span>{read} min, {whole} with exercises</span>" if read else ""
    same = same_lesson(page, renamed)
    about += "".join(f'<a class="language" href="{same[lang]}" lang="{lang}">{title}</a>'
                     for title, lang in LANGS.items() if lang != "en" and lang in same)
    links = {
        "Open in Colab": f'href="{colab(name, cfg)}"',
        "Download notebook": f'href="{to_root}notebooks/{name}" download',
        "View source": f'href="{cfg.git_url}/blob/{cfg.branch}/{cfg.nbs_path.name}/{name}"',
        "As Markdown": f'href="{Path(page).name}.md"',
    }
    return f'<p class="lesson-links">{about}{"".join(f"<a {link}>{text}</a>" for text, link in links.items())}</p>'


def lesson_map(page, to_root):
    "Figure 1 beside the first lines; on a phone it is folded."
    if page not in LIT:
        return ""
    fold = "<script>if (innerWidth < 768) document.currentScript.parentNode.open = false</script>"
    figure = figure_map(page, to_root)
    return f'<details class="lesson-map" open><summary>Where we are in figure 1</summary>{fold}{figure}</details>'


# ---- files beside the pages

def write_reference(cfg, work, out, renamed):
    "Write the Markdown of all pages, the list for language models, and the notebooks to download."
    nbs = {new: read(work / new) for new in renamed.values()}
    for new, nb in nbs.items():
        (out / twin_of(new)).write_text(markdown(nb, new))
    sections = [*listed(yaml.safe_load((work / "sidebar.yml").read_text())["website"]["sidebar"]["contents"])]
    (out / "llms.txt").write_text(index(sections, nbs, cfg))
    for old in renamed:
        if is_lesson(old):
            (out / "notebooks" / old).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(cfg.nbs_path / old, out / "notebooks" / old)
    sitemap = out / "sitemap.xml"
    sitemap.write_text(re.sub(r"\s*<url>\s*<loc>[^<]*/404\.html</loc>.*?</url>", "", sitemap.read_text(), flags=re.S))


def twin_of(notebook):
    "`parts/packing.html.md` for `parts/packing.ipynb`."
    return notebook.replace(".ipynb", ".html.md")


def listed(contents, section="Start"):
    "The pages of the sidebar by its sections."
    pages = [item["href"] for item in contents if "href" in item]
    if pages:
        yield section, pages
    for item in contents:
        if "contents" in item:
            yield from listed(item["contents"], item["section"])


def front(nb):
    "Title and description of a page."
    found = split_front_matter(text_of(nb["cells"][0]))[0]
    return found.get("title") or "", plain(found.get("description") or "")


def index(sections, nbs, cfg):
    "`llms.txt`, in the order of the sidebar; what is written again elsewhere may be left out and comes last."
    lines, aside = [], []
    for section, pages in sections:
        lines += ["", f"## {section}", ""] if not all(page.startswith(ASIDE) for page in pages) else []
        for page in pages:
            title, description = front(nbs[page])
            about = LINK.sub(r"\1", f": {description}" if description else "")
            entry = f"- [{title}]({address(twin_of(page), cfg)}){about}"
            (aside if page.startswith(ASIDE) else lines).append(entry)
    title, description = front(nbs["index.ipynb"])
    return "\n".join([f"# {title}", "", f"> {description}", *lines, "", "## Optional", "", *aside, ""])


# ---- Markdown

NOISE = {  # what a page needs and a reader of Markdown does not, outside code
    re.compile(r"<!--.*?-->\n?", re.S): "",
    re.compile(r"^:::.*\n?", re.M): "",
    re.compile(r"</?(?:div|span|p|details|a)\b[^>]*>"): "",
    re.compile(r"</?summary>"): "**",
    re.compile(r"</?code>"): "`",
    re.compile(r"<br ?/?>"): " ",
    re.compile(r"(?<=\))\{(?:lang|target|\.)[^}]*\}"): "",  # attributes of a link
    re.compile(r"[ \t]*\{#[^}\n]*\}[ \t]*$", re.M): "",  # the id of a heading
    re.compile(r"(\]\((?![a-z]+:)[^()\s#]+)\.(?:ipynb|html)(?=[#)])"): r"\1.html.md",
}


def plain(text):
    "Markdown without what is meant for browsers; links lead to Markdown."
    def tidy(part):
        for noise, instead in NOISE.items():
            part = noise.sub(instead, part)
        return part
    return outside_code(tidy, text)


def markdown(nb, page):
    "A processed notebook as Markdown: prose, code, outputs, the API."
    cells = [plain_cell(cell, page) for cell in nb["cells"]]
    body, _ = llms.notebook(json.dumps(nb | {"cells": cells}), {}, "", llms.Prose(str, {}), str)
    return re.sub(r"\n{3,}", "\n\n", llms.page_markdown(*front(nb), body))


def plain_cell(cell, page):
    "A cell whose text and outputs are Markdown or plain text."
    if cell["cell_type"] == "markdown":
        return cell | {"source": plain(text_of(cell))}
    if cell["cell_type"] == "code":
        return cell | {"outputs": [plain_output(out, text_of(cell), page) for out in cell["outputs"]]}
    return cell


def plain_output(out, code, page):
    "An output that can be read: of a picture its caption and what it shows, of a script that there is one."
    data = out.get("data", {})
    if "text/html" in data:
        shown = f"*Interactive: see [the page]({Path(page).with_suffix('.html').name}).*"
    elif any(kind.startswith("image/") for kind in data):
        said = re.findall(r"^#\| *fig-(?:cap|alt): *[\"']?(.*?)[\"']?$", code, re.M)
        shown = f"*Figure: {'. '.join(text.rstrip('.') for text in said)}.*" if said else "*A figure.*"
    elif "text/markdown" in data:
        shown = plain("".join(data["text/markdown"]))
    else:
        return out
    return {"output_type": "display_data", "data": {"text/markdown": shown}, "metadata": {}}
