"""The first screen of the site: `tools/front.html` filled with how many claims hold, the claims by their status, and
figure 1 with a sentence that runs through it, in place of the introduction."""
import json
import re
from html import escape
from pathlib import Path
from string import Template

import numpy as np
from notebooks import text_of
from site_course import minutes_of
from site_map import figure_map
from site_math import coloured, set_formula
from site_reference import colab
from site_rewrites import SiteError
from site_words import general, words_at

TEMPLATE = Path(__file__).parent / "front.html"
BAR = re.compile(r'<nav [^>]*quarto-secondary-nav.*?(?=</header>)', re.S)  # on a phone, to open the sidebar
SIDES = re.compile(r'(?<=<div id="quarto-content") .*?(?=<main )', re.S)
INTRODUCTION = re.compile(r'<header id="title-block-header".*?(?=<section id=)', re.S)
SECTION = re.compile(  # of the second level, up to the next one or the end of the text
    r'<section([^>]*) class="level2">\s*(<h2.*?</h2>)(.*?)</section>'
    r'(?=\s*<(?:section[^>]* class="level2"|nav|/main))', re.S)
TITLE_END = re.compile(r'<header id="title-block-header".*?</header>(?:<details class="contents">.*?</details>)?', re.S)
FOLD = '<details class="front-fold">'
LETTER = re.compile(r'(<h2) id="(\w)" (class=")([^>]*>\w</h2>)\s*<div class="sd-table">(.*?</div>)', re.S)
STYLES = '<link rel="stylesheet" href="{}site_libs/front.css">'
LIST = f'{STYLES.format("")}<script src="site_libs/lists.js" defer></script></head>'
LISTED = re.compile(r'(?<=">)(\d\d\w?) [^<]*</a>(?=</td>)')
ROW = re.compile(r"<tr>(\s*<td[^>]*>)(\d+)(?=</td>)")
ROW_HEIGHT, LINES_WIDTH = 28, 120  # as in site_libs/live/live.js, which takes over
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
ANSWERS = {  # what the first screen says of the claims, by their status
    "full": ("shown", "comes out"),
    "small": ("seen",),
    "part": ("in part",),
    "unseen": ("not seen",),
    "otherwise": ("opposite", "does not come out"),
    "settings": ("setting",),
    "large": ("not reproduced",),
}


def add_front(cfg, out):
    """Give the front page in `out` its first screen, if the project has claims to show; its parts lead to their rows.
    And fold the list of all names."""
    file = cfg.nbs_path / "claims.json"
    if not file.exists():
        return
    parts = json.loads(file.read_text())["claims"]
    index, claims, names = (out / f"{name}.html" for name in ("index", "claims", "names"))
    claims.write_text(mark_claims(claims.read_text(), [claim for part in parts.values() for claim in part]))
    names.write_text(fold_letters(names.read_text()))
    first = json.loads((out / "site_libs/live/sentences.json").read_text())["first"]
    index.write_text(first_screen(index.read_text(), parts, figure(first), minutes_of(cfg), cfg))
    for page in (out / "languages").glob("*.html"):
        page.write_text(with_figure(page, first, out))


def first_screen(html, parts, live, minutes, cfg):
    "The front page, which begins with the template; `minutes` has those of each lesson, without and with exercises."
    every = [claim for part in parts.values() for claim in part]
    found = [claim["verdict"] for claim in every]
    answers = {name: sum(map(found.count, those)) for name, those in ANSWERS.items()}
    filled = Template(TEMPLATE.read_text()).substitute(
        figure=live,
        colab=colab("00_overview.ipynb", cfg),
        repository=cfg.git_url,
        folder=cfg.repo,
        read=minutes["01"][0],
        whole=minutes["01"][1],
        count=len(every),
        rest=answers["settings"] + answers["large"],
        **answers,
        claims=claim_cells(parts),
        legend=legend(every),
    )
    html = with_minutes(html, minutes)
    html, found = INTRODUCTION.subn(lambda m: filled, html, count=1)
    if not found:
        raise SiteError("index.html: no title block before the first section")
    html = SECTION.sub(folded, html)
    html = SIDES.sub(' class="quarto-container">', BAR.sub("", html))  # the page itself says where everything is
    return html.replace('<body class="', '<body class="front ', 1).replace("</head>", f"{STYLES.format('')}</head>", 1)


def folded(m):
    "A section below the first screen, under its heading; a link to it opens it. The list of lessons stands open."
    heading = m[2].replace('class="', 'class="no-anchor ', 1)  # in a summary no link can be reached
    fold = FOLD.replace(">", " open>") if 'id="lessons"' in m[1] else FOLD
    return f"{fold}<summary>{heading}</summary><section{m[1]}>{m[3]}</section></details>"


def with_minutes(html, minutes):
    "The list of lessons, with how long it takes to read each."
    def add(m):
        return f'{m[0]} <span class="minutes">{minutes[m[1]][0]} min</span>' if m[1] in minutes else m[0]
    return LISTED.sub(add, html)


# ---- figure 1 and a sentence, until the script of the live one has come

EQUATION = r"\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V"
TITLE = "Attention to the memory"  # what live.js says of the box that is open first
SENTENCE = "To write a German word the decoder looks at the English ones: lines cross where the order moves."
LIVE_SCRIPT = '<script type="module" src="../site_libs/live/live.js"></script>'


def figure(told, to_root="", page_of=str, words=None):
    """Figure 1 between the words that enter and those that leave, and beside it where each word looked: in the same
    places as those of live.js, so that nothing moves when they come."""
    (source, columns), (target, rows) = (words_of(told[side]) for side in ("source", "target"))
    shares = np.multiply.reduceat(np.array(told["chosen"])/1000, rows)
    say = lambda text: (words or {}).get(text, text)
    source[-1] = target[-1] = say("(end)")
    said = [word + f"<small>{say('{n} %').format(n=round(100*share))}</small>" for word, share in zip(target, shares)]
    pieces = np.add.reduceat(np.mean(told["maps"]["cross"][-1], 0)/1000, columns, 1)
    weights = np.add.reduceat(pieces, rows)/np.diff([*rows, len(pieces)])[:, None]
    drawn = figure_map(None, to_root, page_of, stations=True, say=say)
    lesson = f'<a href="{to_root}{page_of("attention.html")}">{say("Lesson {n}").format(n="01")} →</a>'
    return f'''<div id="live" class="live" data-base="{to_root}site_libs/live/">
<div class="live-figure">
{side(said, "de", "live-words live-out")}
{drawn}
<div class="live-below">{side(source, "en", "live-words live-in")}
<p class="live-heard" lang="de">{" ".join([say("(start)"), *target[:-1]])}</p></div>
<form class="live-form"></form>
<p class="live-said" aria-live="polite"></p>
<p class="live-hint"></p>
</div>
<section class="live-view" aria-labelledby="live-title">
<h2 id="live-title" class="live-title">{say(TITLE)}</h2>
<p class="live-sentence">{say(SENTENCE)} {lesson}</p>
<p class="live-changed" aria-live="polite"></p>
<div class="live-equation">{set_formula(coloured(EQUATION, "QKV"), True)}</div>
<div class="live-body"><div class="live-bar"></div>{still(source, target, weights)}<p class="live-looked"></p></div>
</section>
</div>'''


def words_of(pieces):
    "The words that pieces of the vocabulary are, and where each begins."
    starts = [i for i, piece in enumerate(pieces) if piece.startswith("▁") or piece == "</s>"]
    ends = [*starts[1:], len(pieces)]
    words = ["".join(pieces[start:end]).removeprefix("▁") for start, end in zip(starts, ends)]
    return [escape(word) for word in words], starts


def still(source, target, weights):
    "Two columns of words, and lines from each word of the translation to where the heads of the last layer looked."
    height = ROW_HEIGHT*max(len(source), len(target))
    lines = [line(i, j, weight) for i, row in enumerate(weights) for j, weight in enumerate(row) if weight > .02]
    said = f"{' '.join(source[:-1])} in English, {' '.join(target[:-1])} in German; lines show where each word looked"
    size = f'height="{height}" viewBox="0 0 {LINES_WIDTH} {height}" preserveAspectRatio="none"'
    return (
        f'<div class="live-map front-still" role="img" aria-label="{said}">{side(source, "en")}'
        f'<svg {size}>{"".join(lines)}</svg>{side(target, "de")}</div>'
    )


def line(i, j, weight):
    "From word `j` of the sentence to word `i` of the translation."
    y, to = (ROW_HEIGHT*(n + .5) for n in (j, i))
    return f'<line x1="0" y1="{y:g}" x2="{LINES_WIDTH}" y2="{to:g}" stroke-opacity="{weight**.7:.2f}"/>'


def side(words, lang, name="live-side"):
    return f'<div class="{name}" lang="{lang}">{"".join(f"<span>{word}</span>" for word in words)}</div>'


def with_figure(page, told, out):
    "The page of a language, which begins with the live figure; boxes lead to lessons in it, if there are any."
    def page_of(lesson):
        return f"languages/{page.stem}/{lesson}" if (out / "languages" / page.stem / lesson).exists() else lesson
    words = general(page.stem)["words"]
    words = {text.lower(): said for text, said in words.items()} | words | words_at("figure", page.stem)
    live = figure(told, "../", page_of, words) + LIVE_SCRIPT
    html, found = TITLE_END.subn(lambda m: m[0] + live, page.read_text(), count=1)
    if not found:
        raise SiteError(f"{page.name}: no title block")
    return html.replace("</head>", f"{STYLES.format('../')}</head>", 1)


# ---- lists: the claims, and all names

def claim_cells(parts):
    "A small link for each claim; those of a part of the paper stand together."
    cells, number = [], 0
    for part, claims in parts.items():
        inside = []
        for claim in claims:
            number += 1
            said = f"Claim {number}, {STATUS[claim['verdict']]}: {claim['claim']}"
            inside.append(
                f'<li><a href="claims.html#claim-{claim["id"]}" data-status="{claim["verdict"]}" '
                f'aria-label="{escape(said)}">{number}</a></li>'
            )
        cells.append(f'<li><ol aria-label="{escape(part)}">{"".join(inside)}</ol></li>')
    return "\n".join(cells)


def legend(claims):
    "What the colours mean, and how many claims have each."
    found = [claim["verdict"] for claim in claims]
    return "\n".join(
        f'<li><span data-status="{status}" aria-hidden="true">{found.count(status)}</span> {text}</li>'
        for status, text in STATUS.items() if status in found
    )


def claims_first(cells):
    "The cells of claims.ipynb: its tables need the calculations above them, but readers of the site want them first."
    sections, name = {}, ""
    for cell in cells:
        found = re.match("## (.*)", text_of(cell))
        name = found[1] if found else name
        sections.setdefault(name, []).append(cell)
    order = [*sections]
    for name in "The claims are data", "The calculations", "Exercises":
        order.append(order.pop(order.index(name)))
    cells[:] = [cell for name in order for cell in sections[name]]


def mark_claims(html, claims):
    "An address for the row of each claim, to which its number leads, and a choice of the status that is shown."
    before, start, tables = html.partition('id="the-claims"')
    if (count := len(ROW.findall(tables))) != len(claims):
        raise SiteError(f"claims.html: {count} rows for {len(claims)} claims")
    left = iter(claims)

    def mark(m):
        claim = next(left)
        place = f"claim-{claim['id']}"  # which stays when there are more claims
        return f'<tr id="{place}" data-status="{claim["verdict"]}">{m[1]}<a href="#{place}">{m[2]}</a>'
    tables = ROW.sub(mark, tables).replace("</h2>", f"</h2>{choice([claim['verdict'] for claim in claims])}", 1)
    return f"{before}{start}{tables}".replace("</head>", LIST, 1)


def choice(found):
    "Which claims are shown."
    options = {"": f"all {len(found)} claims"} | {s: f"{STATUS[s]} ({found.count(s)})" for s in STATUS if s in found}
    inside = "".join(f'<option value="{status}">{text}</option>' for status, text in options.items())
    return chosen_by(f'Show <select class="form-select">{inside}</select>')


def chosen_by(field):
    "What chooses the rows of a list: for site_libs/lists.js, without which it stays hidden."
    return f'<p class="list-choice" hidden><label>{field}</label></p>'


def fold_letters(html):
    "The page of all names: a row of letters, a field for a part of a name, and a fold for each letter."
    def fold(m):
        summary = f'{m[1]} {m[3]}no-anchor {m[4]} <span>{m[5].count("<tr") - 1}</span></summary>'
        return f'{FOLD}<summary>{summary}<div class="sd-table" id="{m[2]}">{m[5]}</details>'
    html = LETTER.sub(fold, html)
    field = chosen_by('Names with <input type="search" class="form-control" autocomplete="off" spellcheck="false">')
    html = html.replace(FOLD, field + FOLD, 1)
    html = html.replace('<details class="contents">', '<details class="contents" open>', 1).replace("</head>", LIST, 1)
    return html.replace('<body class="', '<body class="names ', 1)
