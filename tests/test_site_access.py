"""Fingers, keyboards, searches: what tools/site_access.py, site_math.py and site_search.py make of pages, and a small
site looked at by axe-core and used by keyboard in chromium."""
import json
import re
import sys

import pytest
import yaml
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
pytest.importorskip("smalldocs")
pytest.importorskip("py_mini_racer", reason="without an engine for JavaScript no formula is set")
pytest.importorskip("selenium")
pytest.importorskip("axe_playwright_python")
import site_access as access
import site_axe
import site_math as math
import site_search as search
import site_words
from browser import served
from build_math_font import known_signs
from site_checks import PageFacts
from site_rewrites import CODE, SiteError
from test_site import TOY, build, cell, toy_project

FORMULA = re.compile(r"(?<![\\$])\$\$?((?! )[^$`]+?)(?<! )\$\$?")


# ---- formulas

def test_a_formula_becomes_mathml():
    html = math.set_formulas('<body><main><span class="math inline">\\(d_{model} \\lt 9\\)</span></main>')
    assert "<msub><mi>d</mi><mtext>model</mtext></msub>" in html and "&lt;" in html and "\\" not in html


def test_letters_below_stay_letters():
    assert "<mi>i</mi><mi>j</mi>" in math.mathml("a_{ij}")


def test_the_number_of_an_equation_stands_beside_it():
    html = math.set_formula(r"E = mc^2 \tag{2}", display=True)
    assert html.startswith('<span class="numbered">') and html.endswith("</math></span><span>(2)</span></span>")


def test_a_long_formula_in_the_text_may_break():
    assert "<wbr>" in math.broken(r"4 n d_{model} d_{ff} = 16 n d_{model}^2")
    assert "<wbr>" not in math.broken(r"d_k = 64")


@pytest.mark.parametrize("lesson, tex, roles", [
    ("attention", r"\mathrm{softmax}(QK^\top/\sqrt{d_k})\,V", "Q: query, K: key, V: value"),
    ("attention", r"o_i = \sum_j \alpha_{ij} v_j", "o_i: output, v_j: value"),
    ("attention", r"\tanh(W_q^\top q_i + W_k^\top k_j)", "W_q: query, q_i: query, W_k: key, k_j: key"),
    ("multihead", r"\mathrm{Concat}(QW_i^Q, KW_i^K)\,W^O", "Q: query, W_i^Q: query, K: key, W_i^K: key, W^O: output"),
    ("positional_encoding", r"PE_{pos+k}, M_k, W^Q", "W^Q: query"),
    ("embeddings", r"V \cdot d_{model}", ""),
    ("ja", r"(V, d)", ""),
    ("ja", r"V", "V: value"),
])
def test_queries_keys_values_and_outputs_have_their_colours(lesson, tex, roles):
    done = math.coloured(tex, math.MEANT.get(lesson, ""))
    assert ", ".join(f"{symbol}: {role}" for role, symbol in re.findall(r"\\class\{of-(\w+)}\{(.*?)}", done)) == roles
    html = math.set_formulas(f'<body><main><span class="math inline">\\({tex}\\)</span>', lesson)
    assert re.findall('class="of-([a-z]+)"', html) == re.findall(r": (\w+)", roles)


def test_the_colours_are_those_of_the_site():
    css = (ROOT / "tools/site_libs/css/identity.css").read_text()
    assert all(f".{role} " in css for role in math.ROLES.values())


@pytest.mark.parametrize("html, formulas", [
    ("<p>divided by √d_k;</p>", 1),
    ("<p>除以 √d_k；d_model</p>", 2),
    ("<th>P_drop</th><th>ε_ls</th>", 2),
    ("<p>of d_key, a.d_k, my_d_k</p>", 0),
    ("<pre>√d_k</pre><code>d_k</code><svg><text>d_k</text></svg>", 0),
    ('<p><img alt="√d_k"></p>', 0),
])
def test_roots_in_the_text_become_formulas(html, formulas):
    done = math.set_plain(f"<title>√d_k</title><body>{html}")
    assert done.count("<math>") == formulas and "<title>√d_k</title>" in done


def test_contents_show_formulas():
    heading = '<h2 data-anchor-id="a">Why <span class="math inline">\\(d_k\\)</span></h2>'
    done = math.set_formulas(f'<a href="#a" id="toc-a" class="b">Why d_k</a><body>{heading}')
    assert re.search(r'id="toc-a" class="b">Why <span class="math inline"><math>', done)


def test_a_wrong_formula_is_named():
    with pytest.raises(SiteError, match="frak"):
        math.set_formulas('<body><span class="math inline">\\(\\frak{\\)</span>')


def test_the_font_has_every_sign_of_the_formulas():
    formulas = {tex for path in (ROOT / "nbs").rglob("*.ipynb") for tex in formulas_of(path)}
    signs = set(re.sub("<[^>]*>", "", "".join(math.mathml(tex, r"\tag" in tex) for tex in formulas)))
    assert len(formulas) > 500 and not signs - known_signs()


def formulas_of(path):
    "What stands between dollar signs in a notebook's text."
    cells = json.loads(path.read_text())["cells"]
    texts = [CODE.sub("", "".join(c["source"])) for c in cells if c["cell_type"] == "markdown"]
    return [tex for text in texts for tex in FORMULA.findall(text)]


# ---- pages

TABLE = """<table class="a"><thead><tr><th></th><th>Type</th><th>Details</th></tr></thead>
<tbody><tr><td>q</td><td lang="en"></td><td>Queries, shape (..., n, d), one row for each</td></tr></tbody></table>"""


def test_a_table_with_prose_names_its_cells():
    html = access.readable(TABLE)
    assert html.startswith('<table class="stacks a"><thead><tr><td></td><th>Type</th>')
    assert '<td data-label="">q</td><td data-label="Type" lang="en"></td><td data-label="Details">Queries' in html


def test_a_table_of_numbers_stays():
    table = TABLE.replace("Queries, shape (..., n, d), one row for each", "0.5")
    assert access.readable(table) == table.replace("<th></th>", "<td></td>")
    row = re.search("<tr><td>q.*</tr>", TABLE)[0]
    for others, stacks in (3, True), (4, False):  # one row with prose among many does not make it a list
        more = row.replace("Queries, shape (..., n, d), one row for each", "1")*others
        html = access.readable(TABLE.replace("</tbody>", more + "</tbody>"))
        assert html.startswith('<table class="stacks') == stacks


# ---- a small site

TITLES = """| § | Lesson | What it is about | 日本語 | 中文 | 한국어 |
|---|---|---|---|---|---|
| 3.2 | [Attention](01_toy.ipynb) | From a dict | アテンション | 注意力 | 어텐션 |
| 5.4 | [Regularization](12_careful.ipynb) | Dropout | 正則化 | 正则化 | 정칙화 |
"""
WORDS = """| English | 日本語 | 中文 | 한국어 | What it means |
|---|---|---|---|---|
| attention | アテンション | 注意力 | 어텐션 | A weighted mean of values; the weights say how well a query fits |
| regularization | 正則化 | 正则化 | 정칙화 | What keeps a model from learning its examples by heart |
"""
MORE = {
    "index.ipynb": [*TOY["index.ipynb"], cell(TITLES)],
    "01_toy.ipynb": [
        cell("# Attention\n\n> From a dict to √d_k"),
        *TOY["01_toy.ipynb"][1:],
        cell("## A query among keys\n\nEach query, $d_k = 64$ wide, asks.\n\n```python\nsecret = 1\n```"),
    ],
    "12_careful.ipynb": [
        cell("# Regularization\n\n> Dropout"),
        cell("## Less\n\nA query is dropped."),
    ],
    "glossary.ipynb": [cell("# Glossary\n\n> Words"), cell("## Attention and query\n\n" + WORDS)],
    "course/tasks/01_toy.ipynb": [cell("# Tasks of lesson 1\n\n> Attention"), cell("## A query\n\nWrite attention.")],
}
SIDEBAR = """website:
  sidebar:
    contents:
      - href: index.ipynb
      - section: "The model"
        contents: [{href: 01_toy.ipynb}, {href: 12_careful.ipynb}]
      - section: "Beside the path"
        contents:
          - section: "The rest"
            contents:
              - href: glossary.ipynb
              - section: Deep
                contents: [{href: deep/01_inner.ipynb}]
              - href: languages/ja.ipynb
              - href: course/tasks/01_toy.ipynb
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    root = tmp_path_factory.mktemp("access")
    toy_project(root, TOY | MORE)
    (root / "nbs/sidebar.yml").write_text(SIDEBAR)
    run = build(root)
    assert run.returncode == 0, run.stdout + run.stderr
    return root / "_docs"


def test_the_text_is_the_first_stop_of_the_keyboard(site):
    html = (site / "toy.html").read_text()
    stops = re.findall(r"<(?:a [^>]*href|button|input|summary)[^>]*>", html.partition("<body")[2])
    assert 'class="skip-link" href="#quarto-document-content"' in stops[0]
    assert html.count('id="quarto-document-content" tabindex="-1"') == 1
    assert 'class="skip-link" href="#quarto-document-content">本文へ' in (site / "languages/ja.html").read_text()


def test_contents_are_folded_under_the_title(site):
    html = (site / "toy.html").read_text()
    assert re.search(r'</header><details class="contents"><summary>On this page</summary><ul><li><a href="#', html)
    assert "このページの内容" in (site / "languages/ja.html").read_text()
    assert [i for i in PageFacts(html).ids if i.startswith("toc-")]


def test_the_frame_of_a_page_speaks_its_language(site):
    lesson, other = ((site / name).read_text() for name in ("toy.html", "languages/ja/toy.html"))
    buttons = "To the text", "On this page", "Back to top", "View source", "Report an issue", "Glossary", "Search"
    for words in buttons:
        assert f">{words}<" in lesson or f"> {words}<" in lesson or f'"{words}"' in lesson
        assert f">{words}<" not in other and f"> {words}<" not in other and f'="{words}" aria' not in other
    assert 'placeholder="検索"' in other and "> 先頭へ戻る</a>" in other


@pytest.mark.parametrize("code", site_words.CODES)
def test_the_frame_and_every_open_section_of_the_sidebar_have_words(code):
    sidebar = yaml.safe_load((ROOT / "nbs/sidebar.yml").read_text())["website"]["sidebar"]["contents"]
    outer = [part["section"] for part in sidebar if "section" in part]
    words = site_words.words_at("frame", code)
    assert {*outer, "Front page", "Search", "Code"} <= {*words} and not {*words} & {*words.values()}
    assert site_words.general(code)["site"].keys() == site_words.general("ja")["site"].keys()


def test_a_lesson_in_another_language_has_its_sidebar_and_its_neighbours(tmp_path):
    (tmp_path / "index.ipynb").write_text(json.dumps({"cells": [cell(TITLES)]}))
    link = 'class="sidebar-item-text sidebar-link"><span class="menu-text">'
    entry = '<li><a data-exercises="01.1" href="../../{}" ' + link + "{}</span>"
    entries = entry.format("toy.html", "01 Attention") + entry.format("careful.html", "12 Regularization")
    section = '<span class="menu-text">In practice</span>'
    html = f'<html lang="ja"><nav aria-label="Lessons" id="quarto-sidebar">{section}{entries}</nav>'
    pages = {"01_toy.ipynb": "toy.ipynb", "12_careful.ipynb": "careful.ipynb"}
    own = {f"languages/ja/{old}": f"languages/ja/{new}" for old, new in pages.items()}
    html = site_words.in_their_words(html)
    done, steps = site_words.speak_sidebar(html, "languages/ja/toy.html", tmp_path, pages | own)
    assert "実践では" in done
    assert 'href="toy.html" class="sidebar-item-text sidebar-link active" aria-current="page"' in done
    assert steps == [("next", "careful.html", "12 正則化")] and ">01 アテンション<" in done
    done, steps = site_words.speak_sidebar(html, "languages/ja/toy.html", tmp_path, pages)
    assert 'href="../../careful.html"' in done and steps == []


SECTIONS = re.compile(r'<details( open)?><summary class="sidebar-link"><span class="menu-text">(.*?)</span></summary>')


def test_the_path_is_open_and_of_the_rest_only_the_section_of_the_page(site):
    html = (site / "toy.html").read_text()
    names = "The model", "Beside the path", "The rest", "Deep"
    assert SECTIONS.findall(html) == [*zip((" open", " open", "", ""), names)]
    inner = (site / "deep/inner.html").read_text()
    assert SECTIONS.findall(inner) == [*zip((" open",)*4, names)]
    sidebar = re.search('id="quarto-sidebar".*?</nav>', inner, re.S)[0]
    assert sidebar.count("<details") == sidebar.count("</details>") == 4
    assert 'data-exercises="01.1 01.2" href="toy.html" class="sidebar' in html


def test_no_page_needs_a_script_for_its_formulas(site):
    html = (site / "toy.html").read_text()
    assert "katex" not in html and "\\(" not in html and "<msub><mi>d</mi><mi>k</mi></msub>" in html
    assert (site / "site_libs/math/stix-two-math.woff2").is_file()


def test_the_index_has_prose_and_titles_in_all_languages(site):
    text = (site / "search.json").read_text()
    pages = {page["href"]: page for page in json.loads(text)}
    assert len(pages) == 5 and "course/tasks/toy.html" not in pages
    assert pages["careful.html"]["titles"] == ["12 Regularization", "正則化", "正则化", "정칙화"]
    assert pages["toy.html"]["weight"] > pages["deep/inner.html"]["weight"] > pages["glossary.html"]["weight"]
    sections = {id: (heading, text) for id, heading, text, _ in pages["toy.html"]["sections"]}
    assert sections["a-query-among-keys"] == ("A query among keys", "Each query, d_k=64 wide, asks.")
    assert sections["twice"] == ("twice", "") and "secret" not in text  # an entry of the API: its name alone


def test_an_index_that_grows_too_large_is_refused(site, monkeypatch):
    monkeypatch.setattr(search, "LIMIT", 100)
    with pytest.raises(SiteError, match="search.json has"):
        search.write_index(site, {"index.ipynb": "index.ipynb"}, {})


def test_each_word_is_kept_once():
    long, longer = "x" * search.SHOWN, "y" * search.SUMMARY
    sections = [["", "", f"{longer} one end two the two three"], ["a", "A", f"two {long} two one four 5 many"]]
    assert search.condensed(sections, {"the", "many"}, {"the"}) == [
        ["", "", f"{longer} …", "one end two three"], ["a", "A", f"two {long} …", "four"]
    ]


def test_what_is_shown_ends_with_a_sentence_or_a_word():
    long = "x" * 40
    assert search.cut(f"{long} ends. Here it begins.", 30) == (f"{long} ends.", " Here it begins.")
    assert search.cut(f"{long} and so on for ever", 30) == (f"{long} …", " and so on for ever")
    assert search.cut("Short.", 30) == ("Short.", "")


RESULTS = "document.querySelector('.search-results')"
INPUT = "document.querySelector('.site-search input')"
LINKS = f"[...{RESULTS}.querySelectorAll('a')]"


@pytest.fixture
def seen(site, browser):
    "A lesson of the small site, in a browser."
    with served(site) as address:
        browser.open(f"{address}/toy.html")
        yield browser


def found(seen, text):
    "Where the results lead when a reader has typed this."
    seen.execute_script(f"{RESULTS}.querySelector('p').textContent = ''; {INPUT}.value = ''; {INPUT}.focus()")
    seen.press(*text)
    seen.until(f"{RESULTS}.querySelector('p').textContent")  # the index is fetched when the box is first used
    return seen.run(f"{LINKS}.map(link => link.getAttribute('href'))")


def test_search_in_four_languages(seen):
    assert found(seen, "query")[:2] == ["./toy.html#a-query-among-keys", "./glossary.html#attention-and-query"]
    assert not any("tasks" in href for href in found(seen, "query"))
    assert [found(seen, text)[0] for text in ("attention", "어텐션")] == ["./toy.html"]*2
    assert [found(seen, text)[0] for text in ("正則化", "正则化", "정칙화")] == ["./careful.html"]*3
    assert found(seen, "xylophone") == [] and seen.run(f"{RESULTS}.textContent") == "Nothing found"


def test_search_by_keyboard(seen):
    def at(place): return seen.run(f"document.activeElement === {place}")
    found(seen, "query")
    assert not seen.run(f"{RESULTS}.hidden")
    seen.press("Escape")
    assert seen.run(f"{RESULTS}.hidden") and at(INPUT)
    found(seen, "query")
    seen.press("ArrowDown")
    assert at(f"{LINKS}[0]")
    seen.press("ArrowUp")
    assert at(INPUT)
    seen.press("Enter")
    assert seen.run(f"{RESULTS}.hidden && location.hash") == "#a-query-among-keys"


SIDEBAR_SEEN = """(() => {
  const [sidebar, toggle] = ["#quarto-sidebar", ".quarto-btn-toggle"].map(one => document.querySelector(one))
  return [getComputedStyle(sidebar).visibility, toggle.ariaExpanded]
})()"""


CELL = """<div class="cell"><div class="cell-output cell-output-markdown">
<hr />
<p><a href="" style="float:right">source</a></p>
<h3 id="{0}" class="anchored" data-anchor-id="{0}">{0}</h3>
<div><div>def {0}</div></div>
</div>
</div>"""


def test_what_leads_to_a_name_opens_its_entry(browser, tmp_path):
    "The API is folded: the code that it repeats stands above."
    cells = CELL.format("one") + CELL.replace('<p><a href="" style="float:right">source</a></p>\n', "").format("two")
    (tmp_path / "page.html").write_text(access.add_access(f"<body><main><h2>A</h2>{cells}</main>"))
    browser.open((tmp_path / "page.html").as_uri() + "#two")
    folds = "[...document.querySelectorAll('.api')].map((fold) => [fold.open, fold.innerText.split('\\n')[0]])"
    assert browser.run(folds) == [[False, "one"], [True, "two"]]
    assert browser.run("document.querySelectorAll('.api > div > div').length") == 2


HEADER = """(() => {
  const seen = ["#quarto-header", ".site-search input", ".quarto-color-scheme-toggle", ".quarto-btn-toggle"].map(
    (one) => document.querySelector(one).getBoundingClientRect())
  return seen.every((box) => box.width > 20 && box.left >= 0 && box.right <= innerWidth && box.bottom < 70)
})()"""


def test_on_a_phone_the_header_is_one_row_and_hides_nothing(seen):
    seen.open(seen.current_url, 390)
    assert seen.run(HEADER) and seen.run("document.querySelector('[data-bs-toggle=collapse]')") is None


def test_the_sidebar_on_a_phone_takes_the_focus_and_gives_it_back(seen):
    seen.open(seen.current_url, 390)
    assert seen.run("getComputedStyle(document.querySelector('.contents')).display") != "none"
    assert seen.run(SIDEBAR_SEEN) == ["hidden", "false"]
    seen.click("document.querySelector('.quarto-btn-toggle')")
    assert seen.run(SIDEBAR_SEEN) == ["visible", "true"]
    assert seen.run("document.activeElement.getAttribute('href')") == "toy.html"
    seen.press("Escape")
    assert seen.run(SIDEBAR_SEEN) == ["hidden", "false"]
    assert seen.run("document.activeElement.className").startswith("quarto-btn-toggle")


# ---- axe-core

BAD = """<!doctype html><html lang="en"><title>Bad</title><body><main><h1>Bad</h1><img src="a.png">
<p style="color: color-mix(in srgb, #aaa 90%, white)">Pale</p>
<div style="width: 500px">Wide</div></main></body></html>"""


def test_axe_sees_what_is_bad(browser, tmp_path):
    (tmp_path / "bad.html").write_text(BAD)
    (answer,) = site_axe.look(browser, tmp_path, ["bad.html"])
    said = "\n".join(site_axe.complaints(answer))
    for part in ("(light): image-alt at ['img']", "(dark): color-contrast at ['p']", "pixels wider than a phone"):
        assert part in said


def grave(browser, folder, pages):
    answers = site_axe.look(browser, folder, pages)
    return [line for answer in answers for line in site_axe.complaints(answer)]


def test_axe_finds_nothing_grave_on_a_small_site(browser, site):
    "But for one lesson, which has nothing that the other has not."
    assert grave(browser, site, [page for page in site_axe.pages_of(site) if page != "careful.html"]) == []


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "_docs/index.html").exists(), reason="the site is not built: make docs")
def test_axe_finds_nothing_grave_on_the_site(browser):
    assert grave(browser, ROOT / "_docs", site_axe.pages_of(ROOT / "_docs")) == []
