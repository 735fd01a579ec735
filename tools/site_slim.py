"""What no page uses does not travel: rules of the theme that match nothing, icons that nobody sees, and Bootstrap's
script, of which `site_libs/toggles.js` does the two things that the pages need. The front page brings its
rules along."""
import base64
import logging
import re
from io import BytesIO

from fontTools import subset
from fontTools.ttLib import TTFont

from site_rewrites import SiteError

COMMENT = re.compile(r"/\*.*?\*/", re.S)
TOKEN = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[{};]", re.S)
COMMA = re.compile(r",(?![^()]*\))")  # between selectors, not inside :is(a, b)
INSIDE = re.compile(r"\((?:[^()]|\([^()]*\))*\)")
NAME = re.compile(r"[.#]([\w-]+)")
ATTRIBUTE = re.compile(r"\b(?:class|id)=[\"']([^\"']*)")
STYLE = re.compile(r"<style>.*?</style>", re.S)
SCRIPT = re.compile(r"<script\b.*?</script>", re.S)
WORD = re.compile(r"[\w-]+")
BUNDLE = re.compile(r'<script src="([^"]*)site_libs/bootstrap/bootstrap\.bundle\.min\.js"></script>')
TOGGLES = {"collapse", "tab"}  # of Bootstrap's, what toggles.js knows
FONT = re.compile(r"src:url\(\"fonts/bootstrap-icons\.[^}]*")
CODE = re.compile(r"\\(f[0-9a-f]{3})\b")
SHEET = re.compile(r'<link rel="stylesheet" href="([^"]+)"([^>]*)>')
SOURCE = re.compile(r'<script\b[^>]* src="([^"]+)"')
# Bootstrap asks an attribute for the dark theme, smalldocs sets another one before it paints
DARK = "[data-bs-theme=dark]", ":is([data-bs-theme=dark],[data-scheme=alternate])"


# ---- pages

def slim_page(html):
    "A page with `toggles.js` instead of Bootstrap's script, and with the styles of its widgets in the head, each once."
    unknown = set(re.findall(r'data-bs-toggle="(\w+)"', html)) - TOGGLES
    if unknown:
        raise SiteError(f"toggles.js does not know {', '.join(sorted(unknown))}")
    html = BUNDLE.sub(r'<script src="\1site_libs/toggles.js" defer></script>', html)
    head, end, body = html.partition("</head>")
    return head + "".join(dict.fromkeys(STYLE.findall(body))) + end + STYLE.sub("", body)


# ---- style sheets

def slim_styles(out):
    "Keep of the themes, of smalldocs' own style sheet and of the icons what the finished pages in `out` can use."
    used = used_words(out)
    icons = out / "site_libs/bootstrap-icons/bootstrap-icons.min.css"
    for path in [*out.glob("site_libs/themes/*.css"), out / "site_libs/smalldocs.css", icons]:
        path.write_text(kept(COMMENT.sub("", path.read_text()), used).replace(*DARK))
    codes = {code for path in out.rglob("*.css") for code in CODE.findall(path.read_text())}
    icons.write_text(FONT.sub(f'src:url("{icon_font(icons.parent, codes)}") format("woff")', icons.read_text()))
    for file in [*icons.parent.glob("fonts/*"), out / "site_libs/bootstrap/bootstrap.bundle.min.js"]:
        file.unlink()


def used_words(out):
    "Every class and id of the pages, and every word of their scripts: these may set classes."
    words = set().union(*(words_of(path.read_text()) for path in out.rglob("*.html")))
    for script in out.glob("site_libs/**/*.js"):
        if script.parent.name != "bootstrap":
            words.update(WORD.findall(script.read_text()))
    return words


def words_of(html):
    "The classes and ids of one page, and the words of the scripts that stand in it."
    return {word for text in ATTRIBUTE.findall(html) + SCRIPT.findall(html) for word in WORD.findall(text)}


def bring_styles(path):
    """Put into a page the rules that it can use, in place of links to style sheets: it is drawn after one answer of the
    server, not after two. The links of the two themes, by which scripts choose one, stay, but nothing is loaded."""
    html, seen = path.read_text(), {}
    used = words_of(html).union(*(WORD.findall((path.parent / file).read_text()) for file in SOURCE.findall(html)))

    def rules(m):
        kind = f'<link rel="alternate" type="text/css" href="{m[1]}"{m[2]}>' if "quarto-color-scheme" in m[2] else ""
        if m[1] in seen:
            return kind
        seen[m[1]] = kept(COMMENT.sub("", (path.parent / m[1]).read_text()), used)
        return kind + f'<style>{" ".join(seen[m[1]].split())}</style>'
    path.write_text(SHEET.sub(rules, html))


def blocks(css):
    "The outermost rules of a style sheet: what stands before the brace, and between the braces."
    depth, start, before = 0, 0, ""
    for m in TOKEN.finditer(css):
        if m[0] == "{":
            if not depth:
                before, start = css[start:m.start()].strip(), m.end()
            depth += 1
        elif m[0] == "}":
            depth -= 1
            if not depth:
                yield before, css[start:m.start()]
                start = m.end()
        elif m[0] == ";" and not depth:
            start = m.end()  # @charset, which is UTF-8 anyway


def kept(css, used):
    "The rules that can match when only the classes and ids in `used` exist."
    out = []
    for before, inside in blocks(css):
        if before.startswith(("@media", "@supports")):
            inside = kept(inside, used)
        elif not before.startswith("@"):
            before = ",".join(s.strip() for s in COMMA.split(before) if can_match(s, used))
        if before and inside:
            out.append(f"{before}{{{inside.strip()}}}")
    return "".join(out)


def can_match(selector, used):
    "Whether everything that a selector asks for exists; what stands in brackets, as in :not(.x), need not."
    return all(name in used for name in NAME.findall(INSIDE.sub("", selector)))


def icon_font(folder, codes):
    "The icons of these codes as a font in a data URI: two kilobytes, and no icon appears late."
    logging.getLogger("fontTools").setLevel(logging.ERROR)  # it warns of two bytes too many in Bootstrap's font
    font = TTFont(folder / "fonts/bootstrap-icons.woff", recalcTimestamp=False)
    few = subset.Subsetter()
    few.populate(unicodes=[int(code, 16) for code in codes])
    few.subset(font)
    file = BytesIO()
    font.save(file)
    return "data:font/woff;base64," + base64.b64encode(file.getvalue()).decode()
