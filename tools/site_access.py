"""For fingers, keyboards and those who listen: a link to the text, contents on phones, a sidebar that folds by itself,
the API folded under the code that it repeats, tables that can be read on 390 pixels. Here finished pages are rewritten;
`site_libs/access.js` and `access.css` do the rest."""
import re
from html import escape, unescape

LANG = re.compile(r'<html lang="([a-z]+)')
CONTENTS = re.compile(r'<nav id="TOC".*?(<ul>.*</ul>)\s*</nav>', re.S)
TITLE_BLOCK = re.compile(r'<header id="title-block-header".*?</header>', re.S)
SIDEBAR = re.compile(r'<nav id="quarto-sidebar".*?</nav>', re.S)
SECTION = re.compile(
    r'<li class="sidebar-item sidebar-item-section"><div class="sidebar-item-container"><a [^>]*>(.*?)</a>'
    r'<a [^>]*>.*?</a></div><ul id="quarto-sidebar-section-\d+" class="collapse ([^"]*?)( show)?">'
)
SCHEME = re.compile(r'<a (class="quarto-color-scheme-toggle[^>]*?) href=""([^>]*?)onclick="([^"]*)"([^>]*)>(.*?)</a>')
MENU = re.compile(r'<button class="navbar-toggler".*?</button>')  # a phone has room for what it would hide
API = re.compile(  # what nbdev says of a name: source, heading, signature, table
    r'(output-markdown">\s*)<hr />\s*(<p><a [^>]*>source</a></p>)?\s*(<h[2-4]) id="([^"]*)" class="(.*?</h[2-4]>)'
    r'(.*?)(?=</div>\s*</div>(?!\s*</div>))', re.S)
ENTRY = r'\1<details class="api"><summary>\3 class="no-anchor \5</summary><div id="\4">\2\6</div></details>'
TO_TOP = 'onclick="window.scrollTo(0, 0); return false;" role="button"'
LANDMARKS = {  # what a screen reader calls the parts of a page
    '<nav class="navbar ': "Site",
    '<nav class="quarto-secondary-nav"': "Sidebar",
    '<nav id="quarto-sidebar"': "Lessons",
    '<div id="quarto-margin-sidebar"': "About this page",
    '<nav id="TOC"': "Contents",
    '<nav class="page-navigation"': "Before and after",
}
TOC_NAME = re.compile(r'(<a href="#[^"]*" id="toc-[^>]*>)([^<]*)(?=</a>)')
TABLE = re.compile(r"<table\b.*?</table>", re.S)
ROW = re.compile(r"<tr\b.*?</tr>", re.S)
HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.S)
EMPTY_HEAD = re.compile(r"<th[^>]*></th>")
CELL = re.compile(r"<td\b([^>]*)>(.*?)</td>", re.S)
PROSE = 30  # letters in a cell which is read rather than looked up


def add_access(html):
    "A finished page, easier to reach and to read."
    html = add_contents(add_skip_link(html))
    html = MENU.sub("", html).replace("navbar-expand-lg", "navbar-expand")
    html = API.sub(ENTRY, html)
    html = TOC_NAME.sub(lambda m: m[1] + re.sub(r"(?<=\w)\.(?=\w)", ".<wbr>", m[2]), html)  # Class.<wbr>method
    html = SIDEBAR.sub(fold_sections, html)
    html = SCHEME.sub(r'<button type="button" \1\2onclick="\3"\4>\5</button>', html)
    html = html.replace(TO_TOP, 'href="#"').replace('role="img"></i>', 'aria-hidden="true"></i>')
    html = name_landmarks(html)
    return TABLE.sub(lambda m: readable(m[0]), html)


def add_skip_link(html):
    "The first thing that the keyboard reaches leads to the text."
    link = '<a class="skip-link" href="#quarto-document-content">To the text</a>'
    html = re.sub(r"<body[^>]*>", lambda m: m[0] + link, html, count=1)
    return html.replace('id="quarto-document-content"', 'id="quarto-document-content" tabindex="-1"', 1)


def add_contents(html):
    "The contents once more, folded under the title, where a screen has no room for them at the side."
    contents = CONTENTS.search(html)
    if not contents:
        return html
    links = re.sub(r' (?:id|class|data-scroll-target)="[^"]*"', "", contents[1])
    folded = f'<details class="contents"><summary>On this page</summary>{links}</details>'
    return TITLE_BLOCK.sub(lambda m: m[0] + folded, html, count=1)


def fold_sections(m):
    "The sidebar's sections, which the keyboard can fold; open are the outer ones, and inside them that of the page."
    def begin(section):
        text, classes, is_open = section.groups()
        return (
            f'<li class="sidebar-item sidebar-item-section"><details{" open" if is_open else ""}>'
            f'<summary class="sidebar-link">{text}</summary><ul class="{classes}">'
        )
    return SECTION.sub(begin, m[0]).replace("</ul></li>", "</ul></details></li>")


def name_landmarks(html):
    "A name for each part that one can jump to, of which there are several."
    for start, name in LANDMARKS.items():
        role = ' role="complementary"' if start.startswith("<div") else ""
        html = html.replace(start, start.replace(" ", f'{role} aria-label="{name}" ', 1), 1)
    return html


# ---- tables

def readable(table):
    """On a phone a table with prose becomes a list, whose entries name their columns. A head without a word is no head,
    and a number stays beside its spread."""
    table = table.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
    heads = [plain(head) for head in HEAD.findall(table.partition("</thead>")[0])]
    table = EMPTY_HEAD.sub("<td></td>", table)
    cells = [plain(cell) for _, cell in CELL.findall(table)]
    if len(heads) < 3 or 4*sum(len(cell) > PROSE for cell in cells) < len(cells)//len(heads):  # a quarter of the rows
        return table
    return ROW.sub(lambda m: name_cells(m[0], heads), table).replace('class="', 'class="stacks ', 1)


def name_cells(row, heads):
    "Each cell of a row with its column's name, for the phone; a row of heads stays."
    if "<th" in row:
        return row
    names = iter(heads)
    return CELL.sub(lambda m: f'<td data-label="{escape(next(names, ""))}"{m[1]}>{m[2]}</td>', row)


def plain(html):
    "The text of a bit of HTML."
    return unescape(re.sub(r"<[^>]*>", "", html)).strip()
