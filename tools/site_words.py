"""What stands around the text, in the language of the page. The words that scripts show: a script gives each text to
`say`, which finds it in `site_libs/words.ja.js` or its like. Only pages of that language load such a file; the build
writes it from the translations in `transformer_nb/assets/languages`. And the sidebar: titles in that language, and
links to the lessons that are translated."""
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


# ---- the sidebar

SECTIONS = {
    "Front page": {"ja": "トップページ", "zh": "首页", "ko": "첫 페이지"},
    "Before you start": {"ja": "はじめに", "zh": "开始之前", "ko": "시작하기 전에"},
    "§3 The model": {"ja": "§3 モデル", "zh": "§3 模型", "ko": "§3 모델"},
    "§4 Why self-attention": {
        "ja": "§4 なぜ自己アテンションか", "zh": "§4 为什么用自注意力", "ko": "§4 왜 셀프 어텐션인가",
    },
    "§5 Training": {"ja": "§5 学習", "zh": "§5 训练", "ko": "§5 학습"},
    "§6 Results": {"ja": "§6 結果", "zh": "§6 结果", "ko": "§6 결과"},
    "In practice": {"ja": "実践では", "zh": "实践中", "ko": "실전에서"},
    "Beside the path": {"ja": "本筋の外", "zh": "主线之外", "ko": "본문 밖에서"},
    "Further questions": {"ja": "さらなる疑問", "zh": "更多问题", "ko": "더 깊은 질문"},
    "Workshop: what the library can do more": {
        "ja": "工房：ライブラリの内側", "zh": "工坊：程序库", "ko": "작업실: 라이브러리",
    },
    "Reference": {"ja": "リファレンス", "zh": "参考", "ko": "참고 자료"},
}
SECTION = re.compile(rf'(?<=<span class="menu-text">)({"|".join(map(re.escape, SECTIONS))})(?=</span>)')
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
    html = SIDEBAR.sub(lambda m: ENTRY.sub(entry, SECTION.sub(lambda s: SECTIONS[s[1]][code], m[0])), html, count=1)
    at = next((i for i, (name, _) in enumerate(path) if name == page), None)
    if at is None:
        return html, []
    near = [("previous", at - 1), ("next", at + 1)]
    return html, [(where, posixpath.basename(path[i][0]), path[i][1]) for where, i in near if 0 <= i < len(path)]
