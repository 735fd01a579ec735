"""The indexes of the search, which `site_libs/search.js` reads: prose, without code and without the exercises' source.
A lesson knows its title in every language of the front page's table, and counts for more than a reference. Pages and
summaries in another language have an index of their own, for its pages, and for whoever types that language."""
import json
import posixpath
import re
from collections import Counter
from functools import partial

from lxml.html import document_fromstring
from notebooks import GROUND
from site_rewrites import SiteError, language_of

LIMIT = 450_000  # bytes
SUMMARY, SHOWN = 300, 80  # letters that are shown, to the end of the sentence: above the first heading, of a section
MORE, FEW = 300, 90  # letters of the words that follow, to be found and not shown: in a lesson, and beside the path
SENTENCE = re.compile(r"[.:?!](?= )|[。？！]")
OTHERS = {"ja", "zh", "ko"}
COMMON, EVERYWHERE = 20, 60  # pages that have a word: more, and it says nothing about a section, or about a page
SKIPPED = {"pre", "script", "style", "svg", "nav", "button", "template", "figcaption", "footer"}
NOT_READ = {"contents", "nav-tabs", "lesson-steps", "lesson-links", "lesson-map", "cell-output-display",
    "quarto-back-to-top"}
BLOCKS = {"p", "li", "td", "th", "tr", "div", "summary", "section", "br", "dd", "dt"}
HEADINGS = {"h2", "h3", "h4", "h5", "h6"}
BOX = re.compile(r'<div class="smalldocs-search".*?</div></div>', re.S)
FUSE = re.compile(r'<script src="[^"]*/fuse\.min\.js"[^>]*></script>')
SEARCH_BOX = (
    '<div class="site-search" role="search"><input type="search" class="form-control form-control-sm"'
    ' placeholder="Search" aria-label="Search" autocomplete="off">'
    '<div class="search-results" hidden><p role="status"></p><ol></ol></div></div>'
)
REFERENCE, ASIDE, LESSON = .15, .2, 1  # how much a page counts
LISTS = "names.html", "commands.html"  # of these all is shown, though a cell has put it out

# ---- pages

def add_search(html):
    "The box of our own search, in place of smalldocs' one."
    return BOX.sub(SEARCH_BOX, FUSE.sub("", html))


class Prose:
    """Title and sections of a page: `[[id, heading, text], ...]`; what stands above the first heading has no id. An
    entry of the API, a heading that a cell has put out, is a name alone: the prose below it belongs to the section. An
    exercise is a section of its own, without its hints and its solution. What stands there in another language is kept
    apart, `{"ja": sections}`."""

    def __init__(self, html, not_read=NOT_READ):
        page, self.not_read = document_fromstring(html), not_read
        self.title, self.sections, self.others = "", [["", "", ""]], {}
        self.lang, self.section = page.get("lang"), self.sections[0]  # whose text is read
        self.read(page.find(".//main"))

    def read(self, element, place="text", is_read=True):
        "Read an element; `place` is where its words go: the title, a heading, or the text of a section."
        names = {element.get("id"), *element.get("class", "").split()}
        is_read = is_read and element.tag not in SKIPPED and self.not_read.isdisjoint(names)
        if self.lang == "en" and element.get("lang", "")[:2] in OTHERS:
            return self.read_other(element, place, is_read)
        if element.tag in HEADINGS and element.get("data-anchor-id"):
            self.sections.append([element.get("data-anchor-id"), "", ""])
            self.section = self.sections[-1] if is_read else self.section
        if "exercise" in names:
            self.section = [element.get("id"), "", ""]
            self.sections.append(self.section)
        in_exercise = self.section[0].startswith("exercise-")
        if in_exercise and element.tag == "details":
            return
        is_title = in_exercise and not self.section[1] and element.tag == "strong"
        is_title |= element.tag in HEADINGS and bool(element.get("data-anchor-id"))
        place = "title" if element.tag == "h1" else "heading" if is_title else place
        self.take(" " if element.tag in BLOCKS else "", place, is_read)
        self.take(element.text, place, is_read)
        for child in element.iterchildren("*"):
            self.take("_" if element.tag == "msub" and child.getprevious() is not None else "", place, is_read)
            self.read(child, place, is_read)
            self.take(" " if child.tag in BLOCKS else "", place, is_read)
            self.take(child.tail, place, is_read)

    def read_other(self, element, place, is_read):
        "Read what an English page says in another language."
        own, self.lang = (self.lang, self.sections, self.section), element.get("lang")
        self.sections = self.others.setdefault(self.lang[:2], [["", "", ""]])
        self.section = self.sections[-1]
        self.read(element, place, is_read)
        self.lang, self.sections, self.section = own

    def take(self, text, place, is_read):
        "Keep a text, or None, where it belongs."
        if place == "title":
            self.title += text or ""
        elif place == "heading":
            self.sections[-1][1] += text or ""
        elif is_read:
            self.section[2] += text or ""


# ---- the index

def prose_of(href, out):
    return Prose((out / href).read_text(), NOT_READ - {"cell-output-display"} if href in LISTS else NOT_READ)


def write_index(out, renamed, titles, each=map):
    """Replace smalldocs' index in the folder of the finished site. `renamed` names its pages by their notebooks, and
    `titles` what lessons are called in other languages; `each` may be the `map` of several processes."""
    notebooks = {page.replace(".ipynb", ".html"): notebook for notebook, page in renamed.items()}
    pages = dict(zip(notebooks, each(partial(prose_of, out=out), notebooks)))
    weights = {href: weight_of(notebook) for href, notebook in notebooks.items()}
    for name, chosen in by_language(pages).items():
        common = [common_words(chosen.values(), most) for most in (COMMON, EVERYWHERE)]
        index = [
            {"href": href, "weight": weights[href],
             "titles": [tidy(pages[href].title), *titles.get(notebooks[href], {}).values()],
             "sections": condensed(sections, *common, MORE if weights[href] == LESSON else FEW, href in LISTS)}
            for href, sections in chosen.items()
        ]
        text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
        if len(text.encode()) > LIMIT:
            raise SiteError(f"{name} has {len(text.encode()):,} bytes, more than {LIMIT:,}")
        (out / name).write_text(text)


def by_language(pages):
    "The sections of each index: `{'search.json': {'index.html': [...]}, 'search.ja.json': {'index.html': ...}}`."
    found = {"search.json": {}}
    for href, page in pages.items():
        lang = language_of(href)
        found.setdefault(f"search.{lang[:2]}.json" if lang else "search.json", {})[href] = page.sections
        for other, sections in page.others.items():
            found.setdefault(f"search.{other}.json", {})[href] = sections
    return found


def weight_of(notebook):
    "A lesson counts for more than what stands beside the path, and that for more than a reference."
    folder, name = posixpath.split(notebook)
    if name == "index.ipynb":
        return LESSON
    if notebook in GROUND or folder == "further":
        return ASIDE
    if not name[0].isdigit():
        return REFERENCE
    return ASIDE if folder and not folder.startswith("languages/") else LESSON


def common_words(pages, most):
    "The words that more than so many pages have."
    count = Counter(word for sections in pages for word in set(words(" ".join(text for *_, text in sections))))
    return {word for word, n in count.items() if n > most}


def condensed(sections, common, everywhere, more=MORE, whole=False):
    """The sections of a page, `[id, heading, the beginning of its text, words]`: the words are those that are not
    common and come first on this page. What stands above the first heading tells of the page: more words count."""
    out, seen = [], set(everywhere)
    for id, heading, text in sections:
        heading, (shown, rest) = tidy(heading), cut(tidy(text), LIMIT if whole else SHOWN if id else SUMMARY)
        seen.update(words(shown))
        kept = ""
        for word in words(rest):
            if word not in seen and not word.isdigit() and len(kept) < more:
                kept += f" {word}"
                seen.add(word)
        out += [[id, heading, shown, kept.strip()]] if heading or text else []
        seen.update(common)
    return out


def cut(text, letters):
    "The beginning of a text, to the end of a sentence or, where that is far, of a word; and what comes after it."
    if len(text) <= letters:
        return text, ""
    sentence = SENTENCE.search(text, letters, 2*letters)
    end = sentence.end() if sentence else text.find(" ", letters, 2*letters)
    end = end if end > 0 else letters
    return text[:end] + ("" if sentence else " …"), text[end:]


def tidy(text):
    return " ".join(text.split())


def words(text):
    return re.findall(r"\w+", text.lower())
