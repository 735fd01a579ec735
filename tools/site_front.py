"""The first screen of the site: `tools/front.html` filled with equation 1, a sentence and where its translation looked,
the claims by their status, and figure 1 as a map, in place of the title and the introduction of the front page."""
import json
import re
from html import escape
from pathlib import Path
from string import Template

import numpy as np
from site_map import figure_map
from site_reference import colab
from site_rewrites import SiteError

TEMPLATE = Path(__file__).parent / "front.html"
BAR = re.compile(r'<nav [^>]*quarto-secondary-nav.*?(?=</header>)', re.S)  # on a phone, to open the sidebar
SIDES = re.compile(r'(?<=<div id="quarto-content") .*?(?=<main )', re.S)
INTRODUCTION = re.compile(r'<header id="title-block-header".*?(?=<section id=)', re.S)
ROW = re.compile(r"<tr>(?=\s*<td[^>]*>(\d+)</td>)")
ROW_HEIGHT = 40
STATUS = {  # of a claim, in claims.json and in words
    "shown": "shown exactly",
    "comes out": "the paper's arithmetic comes out",
    "seen": "seen at small scale",
    "in part": "its arithmetic comes out in part",
    "setting": "a setting of this library",
    "not seen": "not seen",
    "opposite": "the opposite seen",
    "does not come out": "its arithmetic does not come out",
    "not reproduced": "not reproduced, command given",
}


def add_front(cfg, out):
    "Give the front page in `out` its first screen, if the project has claims to show; its parts lead to their rows."
    file = cfg.nbs_path / "claims.json"
    if not file.exists():
        return
    parts = json.loads(file.read_text())["claims"]
    index, claims, sentences = (out / name for name in ("index.html", "claims.html", "site_libs/live/sentences.json"))
    claims.write_text(mark_claims(claims.read_text(), sum(map(len, parts.values()))))
    sentence = still(json.loads(sentences.read_text())[0])
    index.write_text(first_screen(index.read_text(), parts, sentence, cfg))


def first_screen(html, parts, sentence, cfg):
    "The front page, which begins with the template."
    every = [claim for part in parts.values() for claim in part]
    filled = Template(TEMPLATE.read_text()).substitute(
        equation=equation(),
        sentence=sentence,
        colab=colab("00_overview.ipynb", cfg),
        count=len(every),
        claims=claim_cells(parts),
        legend=legend(every),
        map=figure_map(None, ""),
    )
    html, found = INTRODUCTION.subn(lambda m: filled, html, count=1)
    if not found:
        raise SiteError("index.html: no title block before the first section")
    html = SIDES.sub(' class="quarto-container">', BAR.sub("", html))  # the page itself says where everything is
    return html.replace('<body class="', '<body class="front ', 1)


# ---- equation 1

EQUATION = r"$\mathrm{Attention}(Q,\,K,\,V) = \mathrm{softmax}\left(\frac{QK^\mathrm{T}}{\sqrt{d_k}}\right)V$"
SPOKEN = "Attention of Q, K, V equals softmax of Q times K transposed over the square root of d k, times V"
COLOURED = {"$Q$": "of-query", "$K$": "of-key", "$V$": "of-value"}
DRAWN = {1: "M", 2: "l", 3: "q", 4: "c", 79: "z"}  # matplotlib's steps of a path, in the words of SVG


def outlines(tex):
    "The outlines of a formula, whose units are fifths of a pixel: `(name, x, y, scale, vertices, steps)` of each."
    import matplotlib  # half a second
    from matplotlib.textpath import FontProperties, text_to_path

    with matplotlib.rc_context({"mathtext.fontset": "cm"}):
        letters, shapes, lines = text_to_path.get_glyphs_mathtext(FontProperties(size=20), tex)
    return [(name, x, y, s, *shapes[name]) for name, x, y, s in letters] + [("", 0, 0, 1, *line) for line in lines]


def drawn(x, y, scale, vertices, steps):
    "An outline as SVG writes it: whole numbers, counted from where the pen is."
    from matplotlib.path import Path as Outline

    out, pen = [], np.zeros(2)
    placed = Outline((np.array(vertices)*scale + (x, y))*(1, -1), steps)
    for points, step in placed.iter_segments(simplify=False):
        points = points.reshape(-1, 2).round()
        from_pen = points if step == 1 else points - pen
        out.append(DRAWN[step] + ("" if step == 79 else " ".join(f"{v:.0f}" for v in from_pen.flat)))
        pen = points[-1]
    return "".join(out).replace(" -", "-")


def equation():
    "Equation 1 as outlines, which look alike in every browser; the letters Q, K and V have their colours."
    colours = {outlines(tex)[0][0]: colour for tex, colour in COLOURED.items()}
    paths = {}
    for name, *outline in outlines(EQUATION):
        colour = colours.get(name, "")
        paths[colour] = paths.get(colour, "") + drawn(*outline)
    shapes = "".join(f'<path class="{colour}" d="{d}"/>' for colour, d in paths.items())
    return f'<svg class="front-equation" viewBox="0 -140 1675 210" role="img" aria-label="{SPOKEN}">{shapes}</svg>'


# ---- a sentence, until the script of the live one has come

def still(told):
    "Two columns of words, and lines from each word of the translation to where it looked, on average of all heads."
    source, target, weights = told["source"], told["target"], np.mean(told["cross"], (0, 1))/1000
    height = ROW_HEIGHT*max(len(source), len(target))
    lines = [line(i, j, weight) for i, row in enumerate(weights) for j, weight in enumerate(row) if weight > .02]
    words = [word(text, 86, i, "end") for i, text in enumerate(source)]
    words += [word(text, 254, i, "start") for i, text in enumerate(target)]
    said = f"{' '.join(source[:-1])} in English, {' '.join(target[:-1])} in German; lines show where each word looked"
    return (
        f'<svg class="front-still" viewBox="0 0 340 {height}" role="img" aria-label="{escape(said)}">'
        + "".join(lines + words) + "</svg>"
    )


def line(i, j, weight):
    "From word `i` of the translation to word `j` of the sentence."
    y, to = (ROW_HEIGHT*(n + .5) for n in (i, j))
    return f'<path d="M244 {y:g}L96 {to:g}" opacity="{weight**.7:.2f}"/>'


def word(text, x, row, anchor):
    return f'<text x="{x}" y="{ROW_HEIGHT*(row + .5) + 7:g}" text-anchor="{anchor}">{escape(text)}</text>'


# ---- the claims

def claim_cells(parts):
    "A small link for each claim; those of a part of the paper stand together."
    cells, number = [], 0
    for part, claims in parts.items():
        inside = []
        for claim in claims:
            number += 1
            said = f"Claim {number}, {STATUS[claim['verdict']]}: {claim['claim']}"
            inside.append(
                f'<li><a href="claims.html#claim-{number}" data-status="{claim["verdict"]}" '
                f'aria-label="{escape(said)}">{number}</a></li>'
            )
        cells.append(f'<li><ol aria-label="{escape(part)}">{"".join(inside)}</ol></li>')
    return "\n".join(cells)


def legend(claims):
    "What the colours mean, and how many claims have each."
    found = [claim["verdict"] for claim in claims]
    return "\n".join(
        f'<li><span data-status="{status}" aria-hidden="true">{found.count(status)}</span> {text}</li>'
        for status, text in STATUS.items()
    )


def mark_claims(html, count):
    "An id for the row of each claim."
    before, start, tables = html.partition('id="the-claims"')
    tables, found = ROW.subn(r'<tr id="claim-\1">', tables)
    if found != count:
        raise SiteError(f"claims.html: {found} rows for {count} claims")
    return before + start + tables
