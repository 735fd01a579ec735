"""The front page: equation 1, the still sentence, the claims; and what the site leaves out because no page uses it."""
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
pytest.importorskip("smalldocs")
import build_readme
import site_front as front
import site_slim as slim
from site_checks import PageFacts
from site_rewrites import SiteError
from site_words import SITE_LIBS, said_in

CLAIMS = json.loads((ROOT / "nbs/claims.json").read_text())["claims"]
CFG = SimpleNamespace(git_url="https://github.com/o/r", user="o", repo="r", branch="main", nbs_path=Path("nbs"))
OLD = (
    '<body class="nav"><header><nav class="quarto-secondary-nav"><nav>Toy</nav></nav></header>'
    '<div id="quarto-content" class="quarto-container has-sidebar"><nav id="quarto-sidebar"></nav><div>Contents</div>'
    '<main id="text"><header id="title-block-header"><h1>Toy</h1></header><p><a href="https://elsewhere/">nbdev</a></p>'
    '<section id="start"></section><section id="lessons"></section>'
)
TOLD = {  # one layer with two heads; words of one piece and of two
    "source": ["▁a", "▁do", "g", "</s>"], "target": ["▁ein", "▁Hund", "▁<", "b>", "</s>"],
    "chosen": [900, 800, 500, 500, 1000],
    "maps": {"cross": [[
        [[900, 40, 0, 0], [100, 500, 400, 0], [0, 0, 0, 1000], [0, 0, 0, 1000], [0, 0, 0, 1000]],
        [[900, 40, 0, 0], [300, 300, 400, 0], [0, 0, 0, 1000], [0, 0, 0, 1000], [0, 0, 0, 1000]],
    ]]},
}


# ---- the first screen

@pytest.fixture(scope="module")
def page():
    return front.first_screen(OLD, CLAIMS, front.figure(TOLD), {"01": (30, 95)}, CFG)


def test_first_screen_takes_the_place_of_title_and_introduction(page):
    assert page.startswith(
        '<body class="front nav"><header></header><div id="quarto-content" class="quarto-container"><main id="text">'
        '<div class="front-first">'
    )
    assert "elsewhere" not in page and '<section id="start"></section><section id="lessons">' in page
    assert page.count("<h1") == 1
    with pytest.raises(SiteError, match="no title block"):
        front.first_screen("<body><h1>Toy</h1>", CLAIMS, "", {"01": (30, 95)}, CFG)


def test_first_screen_says_what_for_whom_and_why(page):
    lines = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    assert [*lines] == ["What", "For whom", "Why trust it"]
    assert "takes 30 minutes to read, 95 with its exercises" in lines["For whom"]
    assert re.search(r"git clone https://github.com/o/r\ncd r\nmake demo  ", page)


def test_the_counts_of_the_first_screen_are_those_of_the_claims(page):
    "Every status is counted once, and all counts together are all claims."
    every = [claim["verdict"] for part in CLAIMS.values() for claim in part]
    counted = [status for those in front.ANSWERS.values() for status in those]
    assert sorted(counted) == sorted(front.STATUS)
    said = re.search("<dt>Why trust it</dt><dd>(.*?)</dd>", page)[1]
    whole, full, small, part, unseen, otherwise, rest, settings, large = (
        int(n) for n in re.findall(r"\d+", re.sub("<[^>]*>", "", said)))
    assert whole == len(every) == full + small + part + unseen + otherwise + rest and rest == settings + large
    assert full == every.count("shown") + every.count("comes out") and small == every.count("seen")
    assert otherwise == every.count("opposite") + every.count("does not come out")
    assert (part, unseen) == (every.count("in part"), every.count("not seen"))


HEADED = '<section id="{0}" class="level2">\n<h2 class="anchored" data-anchor-id="{0}">{0}</h2>\n'
LEVEL = HEADED + "<p>{0}</p>{1}</section>\n"
INNER = '<section id="mine" class="level3"><h3>Mine</h3></section>\n'


def test_below_the_first_screen_each_section_is_folded_but_the_lessons():
    html = OLD + LEVEL.format("use", INNER) + LEVEL.format("lessons", "") + LEVEL.format("licence", "") + "</main>"
    page = front.first_screen(html, CLAIMS, "", {"01": (30, 95)}, CFG).partition("<details")
    folds = re.findall(r'<details class="front-fold"( open)?><summary><h2 .*?>(\w+)</h2></summary>'
                       r'<section id="(\w+)">\s*(.*?)</section></details>', "".join(page[1:]), re.S)
    assert [(name, place, bool(is_open)) for is_open, name, place, _ in folds] == [
        ("use", "use", False), ("lessons", "lessons", True), ("licence", "licence", False)]
    assert folds[0][3] == "<p>use</p>" + INNER.strip() + "\n" and "level2" not in page[2]


def test_the_claims_are_one_stop_of_the_keyboard(page, browser, tmp_path):
    (tmp_path / "page.html").write_text(page)
    browser.open((tmp_path / "page.html").as_uri())
    claims = "document.querySelectorAll('.front-claims a')"
    assert browser.until(f"[...{claims}].filter(claim => claim.tabIndex === 0).length") == 1
    browser.execute_script(f"{claims}[0].focus()")
    said = []
    for key in "ArrowLeft", "ArrowRight", "ArrowRight", "ArrowLeft":
        browser.press(key)
        said.append(browser.run("document.activeElement.ariaLabel.split(',')[0]"))
    assert said == ["Claim 1", "Claim 2", "Claim 3", "Claim 2"]


def test_the_list_of_lessons_has_their_minutes():
    row = '<td><a href="{}.html">{}</a></td>'
    html = row.format("attention", "01 Attention") + row.format("grammar", "The corpus")
    assert front.with_minutes(html, {"01": (30, 95)}) == html.replace(
        "</a>", '</a> <span class="minutes">30 min</span>', 1)


def test_first_link_stays_and_the_paper_is_linked(page):
    links = PageFacts(page).links
    assert not links[0].startswith("http") and "overview.html" in links
    assert "https://arxiv.org/abs/1706.03762" in links
    assert "https://colab.research.google.com/github/o/r/blob/main/nbs/00_overview.ipynb" in links


def test_figure_and_sentence_are_there_without_scripts(page):
    live = re.search(r'<div id="live".*?</section>\s*</div>', page, re.S)[0]
    english, german = ["a", "dog", "(end)"], ["ein", "Hund", "&lt;b&gt;", "(end)"]
    assert re.findall(r"<span>([^<]*)", live) == german + english + english + german
    assert re.findall(r"<small>([^<]*)", live) == ["90 %", "80 %", "25 %", "100 %"]  # of both pieces: .5 times .5
    assert 'data-base="site_libs/live/"' in live and "<script" not in live and live.count("data-station=") == 26


def test_the_figure_says_what_its_script_says():
    assert {front.TITLE, front.SENTENCE} <= {*said_in(SITE_LIBS)}


def test_the_page_of_a_language_has_the_figure_with_its_words_and_its_lessons(tmp_path):
    page = tmp_path / "languages/ja.html"
    (tmp_path / "languages/ja").mkdir(parents=True)
    (tmp_path / "languages/ja/attention.html").touch()
    page.write_text('<header id="title-block-header"><h1>日本語</h1></header><p>Text')
    html = front.with_figure(page, TOLD, tmp_path)
    assert html.index("日本語") < html.index('id="live"') < html.index("live/live.js") < html.index("<p>Text")
    assert '"../languages/ja/attention.html"' in html and '"../decoding.html"' in html
    assert "（終わり）" in html and "90%" in html and "(end)" not in html
    boxes = re.findall(r"<title>([^:]*): .*?</title>.*?<text[^>]*>([^<]*)", html)
    assert ("feed-forward", "フィードフォワード") in boxes and ("+ positions", "+ 位置") in boxes
    assert not [said for _, said in boxes if said.isascii()] and ">メモリへのアテンション<" in html
    page.write_text("<p>Text")
    with pytest.raises(SiteError, match="ja.html: no title block"):
        front.with_figure(page, TOLD, tmp_path)


def test_every_claim_is_a_link_with_a_name(page):
    cells = re.findall(r'<a href="claims.html#claim-([\w-]+)" data-status="([^"]+)" aria-label="Claim (\d+), ', page)
    claims = [claim for part in CLAIMS.values() for claim in part]
    every = [claim["verdict"] for claim in claims]
    assert cells == [(claim["id"], claim["verdict"], str(n)) for n, claim in enumerate(claims, 1)]
    counts = {text: int(n) for n, text in re.findall(r'aria-hidden="true">(\d+)</span> ([^<]+)</li>', page)}
    assert counts == {front.STATUS[v]: every.count(v) for v in every}  # a status that no claim has is not shown


def test_every_status_has_a_colour():
    css = (CSS_FOLDER / "front.css").read_text()
    assert set(re.findall(r'\[data-status="([^"]+)"\]', css)) == set(front.STATUS)


def test_equation_has_coloured_letters():
    math = re.search('<div class="live-equation">(.*?)</div>', front.figure(TOLD))[1]
    assert re.findall('class="of-(\\w+)"[^>]*>(\\w)<', math) == [
        ("query", "Q"), ("key", "K"), ("value", "V"), ("query", "Q"), ("key", "K"), ("value", "V")]
    assert len(math) < 2_000 and "<msqrt>" in math


def test_lines_lead_from_new_words_to_old_ones():
    svg = front.figure(TOLD).partition("front-still")[2]
    height, width = front.ROW_HEIGHT, front.LINES_WIDTH
    line = f'<line x1="0" y1="{height/2:g}" x2="{width}" y2="{height*1.5:g}" stroke-opacity="0.32"/>'
    assert line in svg  # 0.2 to the power of 0.7
    assert svg.count("<line") == 6  # and none of nothing
    script = (ROOT / "tools/site_libs/live/views.js").read_text()
    assert f"ROW = {height}, WIDTH = {width}" in script  # the words stay where they are


ROWS = '<h3>Part</h3>\n<div class="sd-table"><table><tr>\n<td>{}</td>\n<td>text</td></tr></table></div>'
CLAIMS_PAGE = "<head></head><body>" + ROWS.format(1) + '<h2 id="the-claims">All</h2>' + ROWS.format(1) + ROWS.format(2)


TWO_CLAIMS = [{"id": "a", "verdict": "shown"}, {"id": "b", "verdict": "not seen"}]


def test_rows_of_claims_get_addresses():
    marked = front.mark_claims(CLAIMS_PAGE, TWO_CLAIMS)
    facts = PageFacts(marked)
    assert facts.ids == ["the-claims", "claim-a", "claim-b"] and facts.links == ["#claim-a", "#claim-b"]
    assert re.findall(r'<tr id="claim-(\w)" data-status="([^"]*)"', marked) == [("a", "shown"), ("b", "not seen")]
    assert '<option value="not seen">not seen (1)</option>' in marked and '<p class="list-choice" hidden>' in marked
    with pytest.raises(SiteError, match="2 rows for 3 claims"):
        front.mark_claims(CLAIMS_PAGE, [*TWO_CLAIMS, TWO_CLAIMS[0]])


def test_on_the_site_claims_stand_before_their_calculations():
    headings = "The claims are data", "How many", "The calculations", "The claims", "More", "Exercises"
    cells = [{"source": "# Claims"}, *({"source": f"## {heading}\n\nText"} for heading in headings)]
    cells.insert(4, {"source": "found()"})
    front.claims_first(cells)
    assert [cell["source"].split("\n")[0].removeprefix("## ") for cell in cells] == [
        "# Claims", "How many", "The claims", "More", "The claims are data", "The calculations", "found()", "Exercises"]
    saved = json.loads((ROOT / "nbs/claims.ipynb").read_text())["cells"]
    front.claims_first(saved)  # finds these headings there


def test_code_of_the_claims_is_folded():
    cells = json.loads((ROOT / "nbs/claims.ipynb").read_text())["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    assert not [text for text in code if not re.search(r"^#\| *(hide$|code-fold: true)", text, re.M)]


CHOOSE = """
const [select] = document.querySelectorAll(".list-choice select"), seen = []
const shown = () => seen.push([...document.querySelectorAll("tr[data-status]:not([hidden])")].map((row) => row.id))
const choose = (status) => { select.value = status; select.dispatchEvent(new Event("input")); shown() }
choose("not seen")
const parts = [...document.querySelectorAll("h3, .sd-table")].map((part) => part.hidden)
choose("")
choose("not seen")
location.hash = "claim-a"
await new Promise((done) => addEventListener("hashchange", done))
shown()
return [parts, select.closest("p").hidden, ...seen]"""


def test_claims_of_one_status_are_shown(browser, tmp_path):
    (tmp_path / "site_libs").mkdir()
    (tmp_path / "site_libs/lists.js").write_text((ROOT / "tools/site_libs/lists.js").read_text())
    (tmp_path / "page.html").write_text(front.mark_claims(CLAIMS_PAGE, TWO_CLAIMS))
    browser.open((tmp_path / "page.html").as_uri())
    both = ["claim-a", "claim-b"]
    hidden = [False, False, True, True, False, False]
    assert browser.play(CHOOSE) == [hidden, False, ["claim-b"], both, ["claim-b"], both]


LETTER = """<h2 id="{0}" class="anchored" data-anchor-id="{0}">{1}</h2>
<div class="sd-table">
<table><thead><tr><th>name</th></tr></thead><tbody>{2}</tbody></table>
</div>
"""
NAMES = '<tr><td><a href="#"><code>{0}</code></a></td><td>what {0} is</td></tr>'.format
NAMES_PAGE = '<head></head><body class="nav"><details class="contents"></details>' + "".join([
    LETTER.format("a", "A", NAMES("attention")), LETTER.format("b", "B", NAMES("beam_search") + NAMES("BeamSearch"))])


def test_each_letter_of_the_names_is_a_fold():
    html = front.fold_letters(NAMES_PAGE)
    folds = re.findall(r'<details class="front-fold"><summary><h2 class="no-anchor .*?>(\w)</h2> <span>(\d+)</span>'
                       r'</summary><div class="sd-table" id="(\w)">.*?</div></details>', html, re.S)
    assert folds == [("A", "1", "a"), ("B", "2", "b")] and html.count("<h2") == 2
    assert '<body class="names nav"><details class="contents" open>' in html


SHORTEN = """
const [field] = document.querySelectorAll(".list-choice input")
const folds = [...document.querySelectorAll(".front-fold")]
const shown = () => document.querySelectorAll("tbody tr:not([hidden])").length
const state = () => [folds.map((fold) => !fold.hidden && fold.open), shown()]
const type = (text) => { field.value = text; field.dispatchEvent(new Event("input")); return state() }
const seen = [state(), type("Search "), type("none"), type("")]
type("attention")
location.hash = "b"
await new Promise((done) => addEventListener("hashchange", done))
return [...seen, state()]"""


def test_names_with_some_letters_are_shown_and_links_open_a_fold(browser, tmp_path):
    (tmp_path / "site_libs").mkdir()
    (tmp_path / "site_libs/lists.js").write_text((ROOT / "tools/site_libs/lists.js").read_text())
    (tmp_path / "page.html").write_text(front.fold_letters(NAMES_PAGE))
    browser.open((tmp_path / "page.html").as_uri())
    closed, opened = [[False, False], 3], [[False, True], 3]
    assert browser.play(SHORTEN) == [closed, [[False, True], 2], [[False, False], 0], closed, opened]
    browser.open((tmp_path / "page.html").as_uri() + "#b")
    assert browser.until("document.querySelector('#b').parentElement.open")


# ---- the README's pictures

def test_pictures_are_light_and_have_words():
    cells = [c for c in json.loads((ROOT / "nbs/index.ipynb").read_text())["cells"] if c["cell_type"] == "markdown"]
    pictures = dict(re.findall(r"!\[([^\]]{40,})\]\(([^)]+)\)", "".join("".join(c["source"]) for c in cells)))
    assert pictures
    for file in pictures.values():
        assert 10_000 < (ROOT / "nbs" / file).stat().st_size < 150_000


def test_pictures_are_shown_wherever_the_readme_is(tmp_path):
    cell = dict(cell_type="markdown", metadata={}, source=["[![A](images/a.png)](https://s) [b](b.ipynb)"])
    (tmp_path / "nbs").mkdir()
    (tmp_path / "nbs/index.ipynb").write_text(json.dumps(dict(cells=[cell], metadata={})))
    text = build_readme.readme(tmp_path / "nbs/index.ipynb", "https://h/o/r/blob/main")
    assert text.splitlines()[-1] == (
        "[![A](https://h/o/r/raw/main/nbs/images/a.png)](https://s) [b](https://h/o/r/blob/main/nbs/b.ipynb)"
    )


# ---- colours

CSS_FOLDER = ROOT / "tools/site_libs/css"
GROUNDS = "--bs-body-bg", "--bs-tertiary-bg", "--sd-code-bg", "--tnb-soft", "--tnb-card"
LETTERS = (
    "--bs-body-color", "--bs-emphasis-color", "--bs-secondary-color", "--bs-link-color", "--bs-link-hover-color",
    "--sd-inline-code", "--tnb-query-text", "--tnb-key-text", "--tnb-value-text", "--tnb-output-text",
    "--tnb-attend-text",
)


def variables(dark):
    "The colours of a theme: what the dark one does not set stays as in the light one."
    css = (CSS_FOLDER / "identity.css").read_text() + (CSS_FOLDER / "colors.css").read_text()
    found = {}
    for selector, inside in re.findall(r"([^{}]*)\{([^{}]*)\}", re.sub(r"/\*.*?\*/", "", css, flags=re.S)):
        selector = selector.strip()
        if selector.startswith(":root") or dark and selector.startswith(("html[data-scheme", ".quarto-dark")):
            found |= dict(re.findall(r"(--[\w-]+): (#\w+)", inside))
    return found


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2*c for c in colour[1:])
    parts = (int(digits[i:i + 2], 16)/255 for i in (0, 2, 4))
    linear = [v/12.92 if v <= .03928 else ((v + .055)/1.055)**2.4 for v in parts]
    return .2126*linear[0] + .7152*linear[1] + .0722*linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + .05)/(low + .05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(dark):
    assert contrast("#fff", "#000") == 21 and round(contrast("#777", "#fff"), 2) == 4.48
    of = variables(dark)
    faint = {(a, b): round(c, 2) for a in LETTERS for b in GROUNDS if (c := contrast(of[a], of[b])) < 4.5}
    assert not faint


def test_claims_can_be_read():
    css = (CSS_FOLDER / "front.css").read_text()
    pairs = re.findall(r"background: (#\w+); color: (#\w+)", css)
    assert len(pairs) == 6 and all(contrast(*pair) >= 4.5 for pair in pairs)


# ---- what is left out

CSS = """@charset "UTF-8"; /* .gone { } */
.used, .gone > a { color: red; content: "}"; } .gone.used { color: blue } a:not(.gone) { x: y }
.used:is(.gone, .b) { x: y } .used:is(.gone, p) { x: z }
@media print { .gone { x: y } } @media print { #used { x: y } } @font-face { src: url("f,{g") }"""


def test_rules_that_can_match_are_kept():
    assert slim.kept(CSS, {"used"}) == (
        '.used,.gone>a{color:red;content:"}"}a:not(.gone){x:y}.used:is(.gone,p){x:z}'
        "@media print{#used{x:y}}@font-face{src:url(f,{g)}"
    )


def test_words_of_scripts_and_attributes_count(tmp_path):
    (tmp_path / "site_libs").mkdir()
    (tmp_path / "site_libs/a.js").write_text("e.classList.add('made-by-script')")
    (tmp_path / "a.html").write_text('<p class="one two" id="three">four</p><script>x = "five"</script>')
    used = slim.used_words(tmp_path)
    assert {"made-by-script", "one", "two", "three", "five"} <= used and "four" not in used


def test_scripts_travel_without_their_comments(tmp_path):
    (tmp_path / "site_libs/live").mkdir(parents=True)
    for name in "a.js", "live/b.js":
        (tmp_path / "site_libs" / name).write_text("// Says\nconst a = '// kept' // kept\n  // more\n\nuse(a)\n")
    slim.slim_scripts(tmp_path)
    for name in "a.js", "live/b.js":
        assert (tmp_path / "site_libs" / name).read_text() == "const a = '// kept' // kept\n\nuse(a)\n"


LINKED = """<link rel="stylesheet" href="a.css" class="quarto-color-scheme" id="light" media="screen">
<link rel="stylesheet" href="a.css" class="quarto-color-scheme" id="dark"><link rel="stylesheet" href="libs/b.css">
<script src="a.js"></script><p class="used">"""


def test_a_page_brings_the_rules_that_it_can_use(tmp_path):
    (tmp_path / "libs").mkdir()
    (tmp_path / "a.css").write_text(".used { color:  red }\n.gone { color: blue } .by-script > p { x: y }")
    (tmp_path / "libs/b.css").write_text("/* b */ p { x: z }")
    (tmp_path / "a.js").write_text("p.className = 'by-script'")
    (tmp_path / "page.html").write_text(LINKED)
    slim.bring_styles(tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    assert re.findall("<style>(.*?)</style>", html) == [".used{color:red}.by-script>p{x:y}", "p{x:z}"]
    assert "stylesheet" not in html and re.findall('id="(light|dark)"', html) == ["light", "dark"]


PAGE = """<script src="../site_libs/bootstrap/bootstrap.bundle.min.js"></script><a data-bs-toggle="{}"></a>"""


def test_bootstraps_script_stays_at_home():
    html = slim.slim_page(PAGE.format("tab"))
    assert '<script src="../site_libs/toggles.js" defer></script>' in html and "bundle" not in html
    with pytest.raises(SiteError, match="does not know collapse"):
        slim.slim_page(PAGE.format("collapse"))


TABS = """<body>
<ul role="tablist"><li><a href="" class="active" id="t1" data-bs-toggle="tab" data-bs-target="#p1">1</a></li>
<li><a href="" id="t2" data-bs-toggle="tab" data-bs-target="#p2">2</a></li></ul>
<div id="p1" class="tab-pane active"></div><div id="p2" class="tab-pane"></div>
<script src="toggles.js"></script><script>
document.querySelector('#t1').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))
</script></body>"""


def test_arrow_keys_change_tabs(browser, tmp_path):
    (tmp_path / "toggles.js").write_text((ROOT / "tools/site_libs/toggles.js").read_text())
    (tmp_path / "page.html").write_text(TABS)
    html = browser.html(tmp_path / "page.html")
    assert 'id="p1" class="tab-pane"' in html and 'id="p2" class="tab-pane active"' in html
    assert re.search(r'id="t2"[^>]*aria-selected="true"', html)
