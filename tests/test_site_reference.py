"""The site as a reference: Markdown of every page, lists for models, addresses, a lesson's links and its map."""
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

TOOLS = Path(__file__).parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
pytest.importorskip("smalldocs")
import site_reference as sr  # noqa: E402
from notebooks import GROUND, read, text_of  # noqa: E402
from site_checks import PageFacts, check_site  # noqa: E402
from site_map import LESSONS, LIT, figure_map  # noqa: E402
from test_site import build, toy_project  # noqa: E402

CFG = SimpleNamespace(doc_url="https://toy.github.io/toy/", user="toy", repo="toy", branch="main",
                      nbs_path=TOOLS.parent/"nbs", lib_path=TOOLS.parent/"transformer_nb",
                      git_url="https://github.com/toy/toy")


# ---- the map

SVG = "{http://www.w3.org/2000/svg}"


def links_of(svg):
    "The `<a>` elements of the map."
    return ElementTree.fromstring(svg.replace("<svg ", f'<svg xmlns="{SVG[1:-1]}" ')).findall(f".//{SVG}a")


def test_every_box_of_the_map_leads_to_a_lesson_and_says_to_which():
    svg = figure_map(None, "../")
    assert len(svg) <= 15_000 and "#" not in re.sub(r'href="[^"]*"', "", svg)  # colours are those of the theme
    assert {a.get("href") for a in links_of(svg)} == {f"../{page}" for page, _, _ in LESSONS.values()}
    for a in links_of(svg):
        assert a.find(f"{SVG}title").text.startswith(a.find(f"{SVG}text").text)
        assert a.find(f"{SVG}rect") is not None


def test_the_map_lights_the_boxes_of_the_lesson():
    lit = [a.get("href") for a in links_of(figure_map("multihead.html", "")) if a.get("class") == "lit"]
    assert lit == ["multihead.html"] * 3
    assert not [a for a in links_of(figure_map(None, "")) if a.get("class") == "lit"]
    here = [a.get("href") for a in links_of(figure_map("norms.html", "")) if a.get("aria-current")]
    assert set(here) == {"norms.html"}


def test_the_keyboard_stops_once_for_each_lesson():
    stops = [a.get("href") for a in links_of(figure_map("attention.html", "")) if a.get("tabindex") != "-1"]
    assert sorted(stops) == sorted(page for page, _, _ in LESSONS.values())


def test_the_map_knows_only_lessons_that_exist():
    pages = {path.stem.partition("_")[2] + ".html" for path in (TOOLS.parent / "nbs").glob("[0-9]*.ipynb")}
    assert {*LIT} <= pages and set().union(*LIT.values()) <= {*LESSONS}


# ---- a lesson's links

def test_sections_of_the_paper_are_links():
    assert sr.link_sections("(paper §3.2.1, equation 1)") == (
        '(paper <a href="https://arxiv.org/html/1706.03762v7#S3.SS2.SSS1">§3.2.1</a>, equation 1)'
    )
    found = re.findall(r'#([\w.]+)">(§[\d.]+)<', sr.link_sections("§1–§3, §5.3."))
    assert found == [("S1", "§1"), ("S3", "§3"), ("S5.SS3", "§5.3")]


TITLE = '<head></head><header><div class="description">From the paper (§3.1)</div>' + sr.ROOM


def test_a_lesson_links_to_colab_notebook_source_and_markdown():
    renamed = {"parts/02_packing.ipynb": "parts/packing.ipynb"}
    html = sr.add_reference(TITLE, "parts/packing.html", "../", CFG, renamed)
    assert PageFacts(html).links == [
        "https://arxiv.org/html/1706.03762v7#S3.SS1",
        "https://colab.research.google.com/github/toy/toy/blob/main/nbs/parts/02_packing.ipynb",
        "../notebooks/parts/02_packing.ipynb",
        "https://github.com/toy/toy/blob/main/nbs/parts/02_packing.ipynb",
        "packing.html.md",
    ]


STEPS = """<nav class="page-navigation"><div class="nav-page nav-page-previous"></div>
<div class="nav-page nav-page-next"><a href="b.html" class="pagination-link"><span class="nav-page-text">02 B</span></a>
"""


def test_a_lesson_says_how_long_it_takes_and_what_comes_next():
    html = f'<header id="title-block-header" class="a">{TITLE}{STEPS}'
    html = sr.add_reference(html, "attention.html", "", CFG, {"01_attention.ipynb": "attention.ipynb"})
    assert 'class="a"><p class="lesson-steps"><a class="step-next" href="b.html">02 B</a></p>' in html
    read, whole = sr.minutes_of(CFG)["01"]
    assert f'<p class="lesson-links"><span>{read} min, {whole} with exercises</span><a ' in html and 0 < read < whole


@pytest.mark.parametrize("old, new", [
    ("course/tasks/01_a.ipynb", "course/tasks/a.ipynb"), ("glossary.ipynb", "glossary.ipynb")])
def test_a_page_that_is_no_lesson_has_no_such_links(old, new):
    html = sr.add_reference(TITLE, new.replace("ipynb", "html"), "", CFG, {old: new})
    assert PageFacts(html).links == []


def test_pages_say_where_they_are():
    for page, url in (("a/b.html", "https://toy.github.io/toy/a/b.html"), ("index.html", "https://toy.github.io/toy/")):
        html = sr.add_reference(TITLE, page, "", CFG, {})
        assert f'<link rel="canonical" href="{url}">' in html and f'<meta property="og:url" content="{url}">' in html
        assert f'<link rel="alternate" type="text/markdown" href="{Path(page).name}.md">' in html


# ---- Markdown

NOISY = """::: {.panel-tabset group="language"}

## English
Hello, [you](02_b.ipynb#x){lang=en}.

:::

### causal\\_mask {#causal_mask}

<span class="exercise" data-exercise="01.1"></span>**01.1 A** <!-- R1 -->

<details><summary>Hint: `x`</summary>

`<div>` and <code>y</code>, see [there](https://host/a.html) or [here](deep/a.html).

</details>"""


def test_markdown_has_no_noise_and_leads_to_markdown():
    text = re.sub(r"\n{2,}", "\n", sr.plain(NOISY)).strip()
    assert text.split("\n") == [
        "## English", "Hello, [you](02_b.html.md#x).", "### causal\\_mask", "**01.1 A** ", "**Hint: `x`**",
        "`<div>` and `y`, see [there](https://host/a.html) or [here](deep/a.html.md).",
    ]


@pytest.mark.parametrize("data, shown", [
    ({"text/html": "<script>run()</script>", "text/plain": "<Viewer>"}, "*Interactive: see [the page](a.html).*"),
    ({"image/png": "iVBO", "text/plain": "<Figure>"}, "*Figure: Waves. Two lines.*"),
    ({"text/markdown": "| a |\n|---|\n<p>b</p>"}, "| a |\n|---|\nb"),
])
def test_outputs_become_text(data, shown):
    code = "#| fig-cap: Waves.\n#| fig-alt: Two lines.\nplot()"
    out = sr.plain_output({"output_type": "display_data", "data": data}, code, "deep/a.ipynb")
    assert out["data"] == {"text/markdown": shown}


# ---- Colab, where a notebook comes alone

COLAB = """import os, sys
if 'google.colab' in sys.modules:   # which has neither the package nor the files that the lessons read
    os.system('git clone --depth 1 https://github.com/transformer-nb/transformer_nb && pip install -q ./transformer_nb')
    os.chdir('/content/transformer_nb/{}')"""
FOLDERS = "data", "parts", "train", "decode", "interop", "experiments", "english_german"
PATTERNS = "[0-9]*.ipynb", *GROUND, *(f"{folder}/*.ipynb" for folder in FOLDERS)
PACKAGE = re.compile(r"^(?:from|import) transformer_nb\b", re.M)


@pytest.mark.parametrize("path", [path for pattern in PATTERNS for path in sorted(CFG.nbs_path.glob(pattern))],
                         ids=lambda path: path.stem)
def test_a_hidden_cell_fetches_package_and_files_before_they_are_needed(path):
    lines = COLAB.format(path.parent.relative_to(TOOLS.parent).as_posix())
    code = [text_of(c) for c in read(path)["cells"] if c["cell_type"] == "code"]
    (fetching,) = (text for text in code if lines in text)
    assert "#| hide" in fetching
    before = "\n".join(code[:code.index(fetching)]) + fetching.partition(lines)[0]
    assert not PACKAGE.search(before)


@pytest.mark.parametrize("is_there, asked", [
    (True, ["git clone --depth 1 https://github.com/transformer-nb/transformer_nb && pip install -q ./transformer_nb",
            "/content/transformer_nb/nbs/train"]),
    (False, [])])
def test_elsewhere_than_in_colab_the_lines_do_nothing(is_there, asked, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab" if is_there else "nobody", SimpleNamespace())
    done = []
    monkeypatch.setattr("os.system", done.append)
    monkeypatch.setattr("os.chdir", done.append)
    exec(COLAB.format("nbs/train"), {})
    assert done == asked


# ---- a whole site

MISSING = "---\ntitle: There is no such page\nsearch: false\n---\n\nBack to [the front page](index.html).\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    root = tmp_path_factory.mktemp("reference")
    toy_project(root)
    (root / "nbs/404.qmd").write_text(MISSING)
    (root / "nbs/robots.txt").write_text("User-agent: *\n")
    run = build(root)
    assert run.returncode == 0, run.stdout + run.stderr
    return root / "_docs"


def test_every_page_has_its_markdown(site):
    text = (site / "toy.html.md").read_text()
    assert text.startswith("# 01 A lesson\n\nWith everything\n\nBelow the title.")
    assert "    x:int, # A number\n)->int: # Its double" in text and "### twice\n" in text
    assert "target=" not in text
    assert "$$\nE = mc^2 \\tag{1}\n$$" in text and "hidden = 1" not in text
    assert not re.search(r"<(div|span|p|details)\b|^:::", text, re.M)
    assert "[the lesson](../toy.html.md#r1)" in (site / "deep/inner.html.md").read_text()


def test_llms_txt_lists_the_pages_in_the_order_of_the_sidebar(site):
    text = (site / "llms.txt").read_text()
    assert text.startswith("# Toy\n\n> Four pages\n")
    heads = re.findall(r"^## (.*)", text, re.M)
    assert heads == ["Start", "A folder", "Optional"]
    assert text.rstrip().endswith("- [日本語](https://toy.github.io/toy/languages/ja.html.md): 短く")
    assert "inner.html.md): In a folder of the lesson\n" in text
    assert "- [01 A lesson](https://toy.github.io/toy/toy.html.md): With everything" in text


def test_the_notebook_of_a_lesson_can_be_downloaded(site):
    for name in ("01_toy.ipynb", "deep/01_inner.ipynb"):
        assert json.loads((site / "notebooks" / name).read_text())["cells"]
    assert not (site / "notebooks/index.ipynb").exists()


def test_pages_have_a_card_an_icon_and_robots(site):
    html = (site / "deep/inner.html").read_text()
    assert '<meta property="og:image" content="https://toy.github.io/toy/site_libs/share.png">' in html
    assert '<link rel="icon" href="../site_libs/favicon.svg">' in html
    assert (site / "site_libs/share.png").stat().st_size <= 100_000 and (site / "robots.txt").exists()


def test_the_page_for_what_is_not_there_is_not_listed(site):
    for name in ("sitemap.xml", "search.json", "llms.txt"):
        assert "404" not in (site / name).read_text()
    html = (site / "404.html").read_text()
    assert 'content="noindex"' in html and "canonical" not in html and not (site / "404.html.md").exists()


@pytest.mark.parametrize("name, is_moved", [("deep/gone/page.html", True), ("404.html", False)])
def test_the_page_for_what_is_not_there_finds_its_files_from_everywhere(site, browser, tmp_path, name, is_moved):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text((site / "404.html").read_text())
    assert ('</script><base href="/toy/404.html">' in browser.html(tmp_path / name)) == is_moved


def test_a_link_to_a_source_without_a_line_is_said(tmp_path):
    (tmp_path / "page.html").write_text('<a href="https://host/blob/main/a.py#LNone">source</a>')
    assert check_site(tmp_path) == ["page.html: https://host/blob/main/a.py#LNone leads to no line"]
