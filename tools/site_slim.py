"""What no page uses does not travel: rules of the theme that match nothing, icons that nobody sees, comments, and
Bootstrap's script, of which `site_libs/toggles.js` does what the pages need. The front page brings its rules along."""
import base64
import logging
import re
from io import BytesIO

import lightningcss
from fontTools import subset
from fontTools.ttLib import TTFont

from site_rewrites import SiteError

NAME = re.compile(r"[.#]([\w-]+)")
ATTRIBUTE = re.compile(r"\b(?:class|id)=[\"']([^\"']*)")
STYLE = re.compile(r"<style>.*?</style>", re.S)
SCRIPT = re.compile(r"<script\b.*?</script>", re.S)
WORD = re.compile(r"[\w-]+")
COMMENT = re.compile(r"^ *//.*\n", re.M)
BUNDLE = re.compile(r'<script src="([^"]*)site_libs/bootstrap/bootstrap\.bundle\.min\.js"></script>')
FONT = re.compile(r"src:url\(fonts/bootstrap-icons\.[^}]*")
ICON = re.compile(r"\\(f[0-9a-f]{3})\b|([\uf101-\uf8ff])")
SHEET = re.compile(r'<link rel="stylesheet" href="([^"]+)"([^>]*)>')
SOURCE = re.compile(r'<(?:script\b[^>]* src|link rel="modulepreload" href)="([^"]+)"')
# Bootstrap asks an attribute for the dark theme, smalldocs sets another one before it paints
DARK = "[data-bs-theme=dark]", ":is([data-bs-theme=dark],[data-scheme=alternate])"


# ---- pages

def slim_page(html):
    "A page with `toggles.js` instead of Bootstrap's script, and with the styles of its widgets in the head, each once."
    unknown = set(re.findall(r'data-bs-toggle="(\w+)"', html)) - {"tab"}
    if unknown:
        raise SiteError(f"toggles.js does not know {', '.join(sorted(unknown))}")
    html = BUNDLE.sub(r'<script src="\1site_libs/toggles.js" defer></script>', html)
    head, end, body = html.partition("</head>")
    return head + "".join(dict.fromkeys(STYLE.findall(body))) + end + STYLE.sub("", body)


def slim_scripts(out):
    "Our scripts and smalldocs' own without their comments, which stand in lines of their own."
    for script in [*out.glob("site_libs/*.js"), *out.glob("site_libs/live/*.js")]:
        script.write_text(COMMENT.sub("", script.read_text()))


# ---- style sheets

def slim_styles(out):
    "Keep of all style sheets what the finished pages in `out` can use."
    used = used_words(out)
    icons = out / "site_libs/bootstrap-icons/bootstrap-icons.min.css"
    for path in [out / "styles.css", *out.glob("site_libs/*.css"), *out.glob("site_libs/themes/*.css"), icons]:
        path.write_text(kept(path.read_text(), used).replace(*DARK))
    found = [icon for path in out.rglob("*.css") for icon in ICON.findall(path.read_text())]
    codes = {int(code, 16) if code else ord(sign) for code, sign in found}
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
        seen[m[1]] = kept((path.parent / m[1]).read_text(), used)
        return f"{kind}<style>{seen[m[1]]}</style>"
    path.write_text(SHEET.sub(rules, html))


def kept(css, used):
    "The rules that can match when only the classes and ids in `used` exist, as browsers since 2021 read them."
    unused = {*NAME.findall(css)} - used
    return lightningcss.process_stylesheet(css, unused_symbols=unused, browsers_list=["safari >= 15"])


def icon_font(folder, codes):
    "The icons of these codes as a font in a data URI: two kilobytes, and no icon appears late."
    logging.getLogger("fontTools").setLevel(logging.ERROR)  # it warns of two bytes too many in Bootstrap's font
    font = TTFont(folder / "fonts/bootstrap-icons.woff", recalcTimestamp=False)
    few = subset.Subsetter()
    few.populate(unicodes=codes)
    few.subset(font)
    file = BytesIO()
    font.save(file)
    return "data:font/woff;base64," + base64.b64encode(file.getvalue()).decode()
