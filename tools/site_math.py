"""Formulas are set when the site is built: Temml, run once in an embedded engine, turns TeX into MathML, which browsers
draw themselves. A page needs no script for its formulas, only a font of 34 kB (`site_libs/math`)."""
import re
from functools import cache
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

from py_mini_racer import JSEvalException, MiniRacer
from site_rewrites import SiteError

TEMML = Path(__file__).parent / "temml/temml.min.js"
RENDER = """function render(tex, displayMode, wrap) {
  return temml.renderToString(tex, {displayMode, wrap, throwOnError: true, trust: true})
}"""
KATEX = re.compile(r'<link rel="stylesheet" href="[^"]*/katex[^"]*">|<script src="[^"]*/katex[^"]*"[^>]*></script>')
FORMULA = re.compile(r'<span class="math (inline|display)">\\[(\[](.*?)\\[)\]]</span>', re.S)
TAG = re.compile(r"\\tag\{(\d+)\}")
WORD = re.compile(r"_\{((?![ijkl]+\})[a-z]{2,})\}")  # d_{model} has a word below, a_{ij} two letters
PLAIN = re.compile(  # in prose and heads of tables without dollar signs
    r"(√?)(?<![A-Za-z0-9_/.])(d_(?:k|v|ff|model)|P_drop|ε_ls)(?![A-Za-z0-9_])"
)
NOT_PROSE = re.compile(r"(<(pre|code|script|style|svg|math|title|textarea|option)\b.*?</\2>|<[^>]*>)", re.S)
TOC_LINK = re.compile(r'(<a href="#([^"]+)" id="toc-[^>]*>)[^<]*(?=</a>)')
LONG = 16  # letters of a formula in the text that may break into lines
ROLES = {"q": "of-query", "k": "of-key", "v": "of-value", "o": "of-output"}  # classes of css/identity.css
MEANT = {  # letters that stand for queries, keys, values and outputs on a page; elsewhere k may be a shift
    "overview": "QKV", "attention": "QKVqkvo", "multihead": "QKV", "feed_forward": "kv", "attention_maps": "v",
    "heads": "KVv", "ja": "QKV", "zh": "QKV", "ko": "QKV",
}
SYMBOL = re.compile(  # what is not coloured, then W^Q and W_i^Q, W_q, then a letter with what stands below it
    r"\\(?:mathrm|text) *\{[^{}]*\}|\\[A-Za-z]+"
    r"|(?P<matrix>W(?:_\{?\w\}?)?\^\{?([QKVO])\}?(?:_\{?\w\}?)?|W_([qkv]))"
    r"|[_^](?:\{[^{}]*\}|\w)|(?P<letter>[QKV]|(?<![a-z])[qkvo](?![a-z]))(?:_(?:\{\w+\}|\w))?"
)


def set_formulas(html, lesson=""):
    "A finished page with its formulas as MathML, also in its contents, and without smalldocs' links to KaTeX."
    def formula(m):
        return set_formula(coloured(unescape(m[2]), MEANT.get(lesson, "")), m[1] == "display")
    return set_contents(set_plain(FORMULA.sub(formula, KATEX.sub("", html))))


def coloured(tex, letters):
    "A formula in which queries, keys, values and outputs have their classes, if they are among these `letters`."
    if "V" in tex and tex != "V" and not re.search(r"[QK]|\^\{?V", tex):
        letters = letters.replace("V", "")  # the size of the vocabulary

    def symbol(m):
        name = m["letter"] or m["matrix"] and (m[2] or m[3])
        known = name and (m["matrix"] and name.isupper() or name in letters)
        return rf"\class{{{ROLES[name.lower()]}}}{{{m[0]}}}" if known else m[0]
    return SYMBOL.sub(symbol, tex)


@cache
def engine():
    "A JavaScript engine that has read Temml."
    js = MiniRacer()
    js.eval(TEMML.read_text())
    js.eval(RENDER)
    return js


@cache
def mathml(tex, display=False, wrap="none"):
    "A formula as MathML; `wrap='tex'` makes a row of each part after which a line may break."
    try:
        made = engine().call("render", WORD.sub(r"_{\\text{\1}}", tex), display, wrap)
    except JSEvalException as e:
        raise SiteError(f"formula {tex!r}: {str(e).splitlines()[0]}") from None
    return made.replace(' class="tml-display" style="display:block math;"', "")


def set_formula(tex, display):
    "One formula in its span; the number of an equation stands beside it, outside of what scrolls on a phone."
    tex = tex.replace(r"\!\left", r"\left")  # Temml leaves no gap there that would have to be closed
    if not display:
        return f'<span class="math inline">{broken(tex)}</span>'
    number = TAG.search(tex)
    made = mathml(TAG.sub("", tex).strip(), True)
    if not number:
        return f'<span class="math display">{made}</span>'
    return f'<span class="numbered"><span class="math display">{made}</span><span>({number[1]})</span></span>'


def broken(tex):
    "A formula in the text; one that is long becomes several, between which the line may break."
    whole = mathml(tex)
    if len("".join(ElementTree.fromstring(whole).itertext())) <= LONG:
        return whole
    parts = ElementTree.fromstring(mathml(tex, wrap="tex"))
    rows = [ElementTree.tostring(part, encoding="unicode") for part in parts]
    return "<wbr>".join(f"<math>{row}</math>" for row in rows)


def set_plain(html):
    "`√d_k` and its like, written without dollar signs in the page's text, as formulas; its head and code stay."
    head, body, rest = html.partition("<body")
    parts = NOT_PROSE.split(body + rest)  # text, tag, the tag's name, text, ...
    return head + "".join(
        PLAIN.sub(plain_formula, part) if i % 3 == 0 else part for i, part in enumerate(parts) if i % 3 < 2 and part
    )


def plain_formula(m):
    letter, below = m[2].replace("ε", r"\epsilon ").split("_")
    below = f"{letter}_{{{below}}}"
    return f'<span class="math inline">{mathml(f"{chr(92)}sqrt{{{below}}}" if m[1] else below)}</span>'


def set_contents(html):
    "The contents show a heading with formulas as the heading does."
    def link(m):
        heading = re.search(rf'data-anchor-id="{re.escape(m[2])}">(.*?)</h\d>', html, re.S)
        return m[1] + heading[1] if heading and "<math" in heading[1] else m[0]
    return TOC_LINK.sub(link, html)
