"""The words that scripts show, in the language of the page: a script gives each text to `say`, which finds it in
`site_libs/words.ja.js` or its like. Only pages of that language load such a file; the build writes it from the
translations in `transformer_nb/assets/languages`."""
import json
import re
from pathlib import Path

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


def translations(code):
    "The general words in a language."
    return json.loads((TRANSLATIONS / code / "general.json").read_text(encoding="utf-8"))["words"]


def write_words(out):
    "Write into the site's folder `out` a script for each language, with the words that all other scripts show."
    for code in CODES:
        table = translations(code)
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
