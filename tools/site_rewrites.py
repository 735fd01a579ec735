"""The rewrites between nbdev and smalldocs: cells of processed notebooks, and the language marks of finished pages."""
import posixpath
import re

from notebooks import text_of
from smalldocs.markdown import pandoc_id

ANSWER = re.compile(r"<!--((?:[\s,]*R\d+)+)\s*-->")
CODE = re.compile(r"(^(`{3,}).*?^\2`*[ \t]*$|`[^`\n]*`)", re.S | re.M)
FORMULA = re.compile(r'([(\[“‘]*)<span class="math inline">[^<]*</span>([^\w\s<&(\[“‘]*)')
LANGS = {"English": "en", "日本語": "ja", "中文": "zh-Hans", "한국어": "ko"}
FOLD = rf"^<details(?: open)?><summary>(?:In short|{'|'.join(LANGS)})</summary>$.*?^</details>$"
WHOLE = re.compile(r"\n\n\[[^\]]*\]\(\S*languages/\S*\)$")  # of a lesson: the site has its languages above it
FOLDS = re.compile(rf"(?:{FOLD}\n*)+", re.M | re.S)
TASKS = "course/tasks"  # the folder of what checks the exercises, which is not on the site
TASK_LINK = re.compile(rf"\[(`[^`]*`)\]\([^)\s]*{TASKS}/\w+\.html[^)]*\)")  # where nbdev errs


class SiteError(Exception):
    "Something in the notebooks that a reader would stumble over; the message names the notebook."


# ---- cells

def tabs_of(cells, name, renamed):
    "Folds of one text in several languages, which can be read in Jupyter and on GitHub, become tabs of `name`."
    def tabs(m):
        found = re.findall(r"<summary>(.*?)</summary>$(.*?)^</details>$", m[0], re.M | re.S)
        found = [("English" if title == "In short" else title, WHOLE.sub("", text.strip())) for title, text in found]
        parts = [f"## {title}\n\n{to_translations(text, LANGS[title], name, renamed)}\n\n" for title, text in found]
        return f'::: {{.panel-tabset group="language"}}\n\n{"".join(parts)}:::\n\n'  # chosen once, on every page
    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = FOLDS.sub(tabs, text_of(cell)).rstrip("\n")


def to_translations(text, lang, name, renamed):
    """Links in a tab lead to the lesson in the tab's language, where it is translated. Other headings than the answers
    to questions are called otherwise there: links to them stay."""
    folder = posixpath.dirname(name)
    def link(m):
        target = posixpath.normpath(posixpath.join("languages", lang[:2], folder, m[1]))
        return f"]({posixpath.relpath(target, folder or '.')}{m[2] or ''})" if target in renamed else m[0]
    return re.sub(r"\]\(([\w./-]+\.ipynb)(#r\d+)?\)", link, text)


def outside_code(rewrite, text):
    "Apply `rewrite` to a Markdown text, leaving fenced and inline code as it is."
    out, at = [], 0
    for m in CODE.finditer(text):
        out += [rewrite(text[at:m.start()]), m[0]]
        at = m.end()
    return "".join(out) + rewrite(text[at:])


def rewrite_links(text, name, renamed, doc_url):
    """Links in notebook `name` to other notebooks lead to their pages, and links to this site become relative. A
    heading's anchor is written as Jupyter makes it, `#Why-divide?`, and becomes the site's, `#why-divide`."""
    folder = posixpath.dirname(name)  # of the notebook; its page is in the same

    def to_page(m):
        target = posixpath.normpath(posixpath.join(folder, m[1]))
        return f"]({posixpath.relpath(renamed[target], folder or '.')}{m[2]})" if target in renamed else m[0]

    text = re.sub(r"(?<=\]\()([\w./-]+\.ipynb|)#([^)\s]+)", lambda m: f"{m[1]}#{pandoc_id(m[2])}", text)
    text = re.sub(r"\]\(([\w./-]+\.ipynb)(#[^)]*|)\)", to_page, text)
    site = rf"\]\({re.escape(doc_url.rstrip('/'))}/([^)#]*)"
    return re.sub(site, lambda m: f"]({posixpath.relpath(m[1] or '.', folder or '.')}", text)


def rewrite_headings(text, taken):
    "Headings of the API get the ids that nbdev's links use, and keep their underscores; `Step` and `step` get two."

    def heading(m):
        name = m[2].lower()
        taken.append(name)
        number = f"-{taken.count(name)}" if taken.count(name) > 1 else ""
        return f"{m[1]} {m[2].replace('_', chr(92) + '_')} {{#{name}{number}}}"
    return re.sub(r"^(#{2,6}) (\S+)$", heading, text, count=1, flags=re.M)


def rewrite_answers(text, taken):
    "A comment such as `<!-- R4 -->`, which marks the answer to a question, becomes the anchor `#r4` above its cell."
    ids = [i.lower() for m in ANSWER.finditer(text) for i in re.findall(r"R\d+", m[1])]
    new = [i for i in dict.fromkeys(ids) if i not in taken]
    taken += new
    anchors = "".join(f'<span class="answer" id="{i}"></span>' for i in new)
    return (anchors + "\n\n" if anchors else "") + text


def rewrite_cell(cell, relink, taken):
    "Rewrite one cell of a processed notebook, in place; `relink` rewrites links, `taken` collects the ids it makes."
    source = text_of(cell)
    if cell["cell_type"] == "markdown":
        cell["source"] = rewrite_text(rewrite_answers(source, taken), relink)
    for data in (out.get("data", {}) for out in cell.get("outputs", [])):
        if "text/markdown" in data:
            text = "".join(data["text/markdown"])
            text = rewrite_headings(text, taken) if "show_doc(" in source else text
            data["text/markdown"] = rewrite_text(text, relink)


def rewrite_text(text, relink):
    "Rewrite what stands in a Markdown cell, or what a code cell shows as Markdown."
    return outside_code(relink, TASK_LINK.sub(r"\1", text))


# ---- pages

def language_of(name):
    "The language of a notebook, by its folder; English needs no word."
    found = re.match(r"languages/(\w\w)\b", name)
    return found and {lang[:2]: lang for lang in LANGS.values()}[found[1]]


def number_of(name):
    "The number of a lesson, as the texts speak of it; in other folders notebooks are counted anew."
    found = re.match(r"(?:languages/\w\w/)?(\d\d[a-z]?)_", name)
    return found and found[1]


def source_of(name):
    "Where a notebook's text stands in the repository: of a translation only the text, the notebook is made of it."
    return re.sub(r"^(languages/\w\w)(/.*)?\.ipynb$", lambda m: m[1] + (m[2] + ".json" if m[2] else ""), name)


def same_lesson(page, renamed):
    "A lesson's page in each language that has it: `{'en': 'attention.html', 'ja': 'languages/ja/attention.html'}`."
    lesson = re.sub(r"^languages/\w\w/", "", page)
    pages = {new.replace(".ipynb", ".html"): language_of(old) or "en" for old, new in renamed.items()}
    return {lang: name for name, lang in pages.items() if re.sub(r"^languages/\w\w/", "", name) == lesson}


def add_alternates(html, page, doc_url, renamed):
    "Tell search engines where the same lesson stands in other languages."
    same = same_lesson(page, renamed)
    if len(same) < 2:
        return html
    links = "".join(f'<link rel="alternate" hreflang="{lang}" href="{doc_url.rstrip("/")}/{name}">'
                    for lang, name in same.items())
    return html.replace("</head>", f"{links}</head>", 1)


def mark_languages(html):
    "Tell browsers the language of sections, tabs and table columns, so that Chinese characters take the right shape."
    for name, lang in LANGS.items():
        html = re.sub(rf"<section (?=[^>]*>\s*<h\d[^>]*>{name}<)", f'<section lang="{lang}" ', html)
        for tab in re.findall(rf'id="(tabset-\d+-\d+)-tab"[^>]*>{name}<', html):
            html = html.replace(f'<div id="{tab}" ', f'<div id="{tab}" lang="{lang}" ')
            html = html.replace(f'id="{tab}-tab" ', f'id="{tab}-tab" lang="{lang}" ')
    return re.sub(r"<table.*?</table>", mark_columns, html, flags=re.S)


def keep_punctuation(html):
    "Hold a formula and the bracket before it or the full stop after it together: browsers may break the line there."
    return FORMULA.sub(lambda m: f'<span class="with-formula">{m[0]}</span>' if m[1] or m[2] else m[0], html)


def plain_description(html):
    "Search engines show a page's description as it is: without its links."
    def plain(m):
        return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", m[0])
    return re.sub(r'<meta name="description" [^>]*>', plain, html, count=1)


def mark_columns(table):
    "Give the cells of a table's 日本語, 中文 and 한국어 columns their language."
    langs = [LANGS.get(head.strip()) for head in re.findall(r"<th[^>]*>(.*?)</th>", table[0], flags=re.S)]
    if not any(langs):
        return table[0]
    def row(m):
        column = iter(langs)
        return re.sub(r"<(t[hd])\b", lambda c: f'<{c[1]} lang="{lang}"' if (lang := next(column, None)) else c[0], m[0])
    return re.sub(r"<tr.*?</tr>", row, table[0], flags=re.S)
