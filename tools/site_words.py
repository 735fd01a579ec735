"""What stands around the text, in the language of the page, from `general.json` in `transformer_nb/assets/languages`.
The words that scripts show: a script gives each text to `say`, which finds it in `site_libs/words.ja.js` or its like,
which only pages of that language load. The frame: buttons, and the sidebar, whose titles are in that language and whose
links lead to the lessons that are translated."""
import json
import posixpath
import re
from functools import cache
from pathlib import Path

from notebooks import read, text_of
from site_access import LANG
from site_rewrites import LANGS

SITE_LIBS = Path(__file__).parent / "site_libs"
TRANSLATIONS = Path(__file__).parents[1] / "transformer_nb/assets/languages"
CODES = [lang[:2] for lang in LANGS.values() if lang != "en"]
SAID = re.compile(r"""\bsay\((['"])(.*?)\1""")


def said_in(folder):
    "What the scripts in a folder give to `say`, each text once."
    scripts = (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.js")))
    return list(dict.fromkeys(text for script in scripts for _, text in SAID.findall(script)))


@cache
def general(code):
    "The words of no lesson in a language: `words` by their English, what stands on the `site` by its place and name."
    return json.loads((TRANSLATIONS / code / "general.json").read_text(encoding="utf-8"))


def words_at(place, code):
    "The words of one place of the site, `frame` or `figure`, in a language, by the English ones."
    return {said["en"]: said[code] for id, said in general(code)["site"].items() if id.startswith(f"{place}/")}


def write_words(out):
    "Write into the site's folder `out` a script for each language, with the words that all other scripts show."
    for code in CODES:
        table = general(code)["words"]
        words = {text: table[text] for text in said_in(SITE_LIBS) if text in table}
        script = f"globalThis.translations = {json.dumps(words, ensure_ascii=False, separators=(',', ':'))}\n"
        (out / f"site_libs/words.{code}.js").write_text(script, encoding="utf-8")


def add_scripts(html, to_root):
    "The scripts of every page, and before them the words that they show in its language."
    code = LANG.search(html)[1]
    words = [f"words.{code}"] if code in CODES else []
    names = [*words, "search", "access", "progress"]
    tags = "".join(f'<script src="{to_root}site_libs/{name}.js" defer></script>' for name in names)
    return html.replace("</head>", f"{tags}</head>", 1)


# ---- the frame

def in_their_words(html):
    "The frame of a page in the page's language."
    code = LANG.search(html)[1]
    if code not in CODES:
        return html
    words = words_at("frame", code)
    framed = rf"""((?:>|placeholder=") ?)({"|".join(map(re.escape, words))})(?=</(?:a|h2|summary|span)>|" aria-label)"""
    return re.sub(framed, lambda m: m[1] + words[m[2]], html)


# ---- the sidebar

ENTRY = re.compile(
    r'href="([^"#:]*)" class="(sidebar-item-text sidebar-link)"><span class="menu-text">(\d\d\w? )?([^<]*)'
)
ROW = re.compile(r"^\|[^|]*\| *\[[^\]]*\]\(([\w/]+\.ipynb)\) *\|[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|$", re.M)
SIDEBAR = re.compile(r'<nav [^>]*id="quarto-sidebar".*?</nav>', re.S)


@cache
def titles_in(nbs):
    "The titles of the front page's table: `{'01_attention.ipynb': {'ja': 'アテンション'}}`."
    text = "\n".join(text_of(cell) for cell in read(nbs / "index.ipynb")["cells"])
    return {name: dict(zip(CODES, map(str.strip, titles))) for name, *titles in ROW.findall(text)}


def speak_sidebar(html, page, nbs, renamed):
    "The page with a sidebar in its language; and the lessons of that language before and after it, by page and title."
    code, folder = LANG.search(html)[1], posixpath.dirname(page)
    if code not in CODES:
        return html, []
    pages, path = {new.replace(".ipynb", ".html"): old for old, new in renamed.items()}, []

    def entry(m):
        target, css = posixpath.normpath(posixpath.join(folder, m[1])), m[2]
        own = f"languages/{code}/{target}"
        title = (m[3] or "") + titles_in(nbs).get(pages.get(target), {}).get(code, m[4])
        target = own if own in pages else target
        if target == own:
            path.append((own, title))
        css = f'{css} active" aria-current="page' if target == page else css
        return f'href="{posixpath.relpath(target, folder)}" class="{css}"><span class="menu-text">{title}'
    html = SIDEBAR.sub(lambda m: ENTRY.sub(entry, m[0]), html, count=1)
    at = next((i for i, (name, _) in enumerate(path) if name == page), None)
    if at is None:
        return html, []
    near = [("previous", at - 1), ("next", at + 1)]
    return html, [(where, posixpath.basename(path[i][0]), path[i][1]) for where, i in near if 0 <= i < len(path)]
