"""The site: what tools/build_docs.py rewrites, what it refuses, and a small site built from two notebooks."""
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
pytest.importorskip("smalldocs")
import apidoc  # noqa: E402
import build_docs as bd  # noqa: E402
import site_rewrites as rw  # noqa: E402
from site_checks import PageFacts, check_site  # noqa: E402


def cell(text, kind="markdown", **rest):
    code = dict(outputs=[], execution_count=None) if kind == "code" else {}
    return dict(cell_type=kind, id=f"c{abs(hash(text)):x}"[:9], metadata={}, source=text, **code, **rest)


# ---- rewrites

EQUATION = "Before.\n\n$$\nE = mc^2\n$$ {#eq-energy}\n\nAfter @eq-energy, not `@eq-energy`."


def test_equations_are_numbered():
    numbers = rw.number_labels([cell("$$a$$ and $$b$$ {#eq-b}"), cell(EQUATION)])
    assert numbers == {"eq-b": ("Equation", 1), "eq-energy": ("Equation", 2)}
    text = rw.rewrite_equations(EQUATION, numbers)
    assert "::: {#eq-energy}\n$$\nE = mc^2 \\tag{2}\n$$\n:::" in text
    assert text.startswith("Before.") and "After" in text


def test_references_become_links_outside_code():
    text = rw.outside_code(lambda t: rw.rewrite_references(t, {"eq-energy": ("Equation", 2)}), EQUATION)
    assert "After [Equation 2](#eq-energy), not `@eq-energy`." in text


def test_unknown_reference_names_the_notebook(tmp_path):
    (tmp_path / "01_a.ipynb").write_text(json.dumps({"cells": [cell("See @fig-none.")]}))
    with pytest.raises(rw.SiteError, match=r"01_a.ipynb: unresolved reference @fig-none"):
        bd.rewrite_notebook(tmp_path, "01_a.ipynb", {"01_a.ipynb": "a.ipynb"}, "https://host/doc/")


def test_figures_get_a_number_in_their_caption():
    fig = cell("#| label: fig-waves\n#| fig-cap: Sines and cosines\nplot()", "code")
    numbers = rw.number_labels([fig])
    rw.rewrite_cell(fig, numbers, str, [])
    assert '#| fig-cap: "Figure 1: Sines and cosines"' in fig["source"]


def test_fences_keep_what_looks_like_a_reference():
    text = "```python\n@fig-x\n```\n\nand `$$a$$ {#eq-a}`"
    assert rw.outside_code(lambda t: t.replace("@fig-x", "LOST").replace("$$", "LOST"), text) == text


PAGES = {"01_attention.ipynb": "attention.ipynb", "engine/02_costs.ipynb": "engine/costs.ipynb"}


@pytest.mark.parametrize("link, expected", [  # on a page in the top folder
    ("01_attention.ipynb", "attention.ipynb"),
    ("01_attention.ipynb#r4", "attention.ipynb#r4"),
    ("./01_attention.ipynb", "attention.ipynb"),
    ("engine/02_costs.ipynb#r9", "engine/costs.ipynb#r9"),
    ("https://host/doc/attention.html#attention", "attention.html#attention"),
    ("https://host/doc/engine/costs.html#flops", "engine/costs.html#flops"),
    ("https://host/doctor/attention.html", "https://host/doctor/attention.html"),
    ("https://elsewhere/01_attention.ipynb", "https://elsewhere/01_attention.ipynb"),
    ("elsewhere/01_attention.ipynb", "elsewhere/01_attention.ipynb"),
])
def test_links_become_relative(link, expected):
    found = rw.rewrite_links(f"[a]({link})", "06_transformer.ipynb", PAGES, "https://host/doc/")
    assert found == f"[a]({expected})"


@pytest.mark.parametrize("link, expected", [
    ("../01_attention.ipynb#r4", "../attention.ipynb#r4"),
    ("02_costs.ipynb", "costs.ipynb"),
    ("../engine/02_costs.ipynb", "costs.ipynb"),
    ("https://host/doc/attention.html#attention", "../attention.html#attention"),
    ("https://host/doc/engine/costs.html#flops", "costs.html#flops"),
])
def test_links_of_a_notebook_in_a_folder(link, expected):
    found = rw.rewrite_links(f"[a]({link})", "engine/01_packing.ipynb", PAGES, "https://host/doc/")
    assert found == f"[a]({expected})"


NOTEBOOKS = sorted((TOOLS.parent / "nbs").rglob("[!.]*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_links_between_notebooks_lead_to_files(path):
    "GitHub shows the notebooks themselves: a link there is relative to the notebook's folder."
    cells = json.loads(path.read_text())["cells"]
    shown = [data for c in cells for out in c.get("outputs", []) if (data := out.get("data", {}).get("text/markdown"))]
    text = "\n".join("".join(part) for part in [*shown, *(c["source"] for c in cells if c["cell_type"] == "markdown")])
    links = set(re.findall(r"\]\((?!https?:)([^)#\s]+\.ipynb)", text))
    assert not [link for link in links if not (path.parent / link).is_file()]


def test_language_tabs_switch_together():
    tabs = cell("::: {.panel-tabset}\n\n## English\nOne.\n\n## 日本語\n一。\n\n:::")
    rw.rewrite_cell(tabs, {}, str, [])
    assert tabs["source"].startswith('::: {.panel-tabset group="language"}\n\n## English')


def test_answers_become_anchors_once():
    taken = []
    assert rw.rewrite_answers("<!-- R4, R7 -->\nText", taken).startswith(
        '<span class="answer" id="r4"></span><span class="answer" id="r7">'
    )
    assert rw.rewrite_answers("<!-- R4 -->\nAgain", taken) == "<!-- R4 -->\nAgain"
    assert taken == ["r4", "r7"]


def test_api_headings_keep_underscores_and_unique_ids():
    taken = []
    assert rw.rewrite_headings("### causal_mask", taken) == "### causal\\_mask {#causal_mask}"
    assert [rw.rewrite_headings(f"### {n}", taken)[-12:] for n in ("Profile", "profile")] == [
        "e {#profile}",
        "{#profile-2}",
    ]


def test_sidebar_lists_what_exists():
    contents = [
        {"href": "index.ipynb"},
        {"section": "§4", "contents": [{"href": "07_why.ipynb"}]},
        {"section": "§3", "contents": [{"href": "01_a.ipynb"}]},
    ]
    assert bd.listed(contents, {"index.ipynb": "index.ipynb", "01_a.ipynb": "a.ipynb"}) == [
        {"href": "index.ipynb"}, {"section": "§3", "contents": [{"href": "a.ipynb"}]}]


def test_table_columns_get_their_language():
    html = "<table><tr><th>English</th><th>日本語</th></tr><tr><td>key</td><td>キー</td></tr></table>"
    assert '<td lang="en">key</td><td lang="ja">キー</td>' in rw.mark_languages(html)


# ---- the API

def show(sym):
    return apidoc.TableRenderer(sym)._repr_markdown_()


class Shape:
    "A thing with a method."

    def __init__(self,
        width:int,  # Width, in tokens
    ):
        self.width = width

    def area(self,
        height:int=2,  # Height, in heads
        device=None,   # Where
    ) -> int:          # The product
        "Multiply."
        return self.width * height


def test_functions_classes_and_methods_have_tables():
    assert "| width | int | Width, in tokens |" in show(Shape)
    table = show(Shape.area)
    assert "| height | int | 2 | Height, in heads |" in table
    assert "| device |  | None | Where |" in table and "NoneType" not in table
    assert "**The product**" in table


def test_every_exported_symbol_has_a_table():
    from transformer_nb import attention
    tables = [show(getattr(attention, name)) for name in attention.__all__ if callable(getattr(attention, name))]
    assert tables and all("| --- |" in t and "**Details**" in t for t in tables)


def test_source_links_lead_to_the_line():
    from transformer_nb import transformer
    from transformer_nb.engine import packing
    for sym in (packing.Packing, packing.Packing.pack, transformer.Transformer.encode):
        file, line = re.search(r"blob/main/(transformer_nb/[\w/]+\.py)#L(\d+)\)", show(sym)).groups()
        source = (TOOLS.parent / file).read_text().splitlines()[int(line) - 1:][:2]  # a decorator may stand above
        assert re.search(rf"(def|class) {sym.__name__}\b", "\n".join(source))


# ---- checks

@pytest.mark.parametrize("html, complaint", [
    ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js from elsewhere"),
    ('<script type="module">import m from "https://cdn.example/m.mjs"</script>', "loads https://cdn.example/m.mjs"),
    ('<link rel="stylesheet" href="//cdn.example/x.css">', "loads //cdn.example/x.css"),
    ('<style>@import url("https://fonts.example/f");</style>', "loads https://fonts.example/f"),
    ('<img src="https://example/pixel.png">', "loads https://example/pixel.png"),
    ('<p id="a"></p><p id="a"></p>', "id 'a' comes twice"),
    ('<a href="none.html">x</a>', "broken link none.html"),
    ('<a href="other.html#none">x</a>', "broken link other.html#none"),
])
def test_what_a_page_must_not_have(tmp_path, html, complaint):
    (tmp_path / "other.html").write_text('<p id="there"></p>')
    (tmp_path / "page.html").write_text(html)
    assert any(complaint in line for line in check_site(tmp_path))


def test_what_a_page_may_have(tmp_path):
    (tmp_path / "other.html").write_text('<p id="there"></p>')
    (tmp_path / "page.html").write_text(
        '<link rel="canonical" href="https://host/page.html"><a href="https://elsewhere/">x</a>'
        '<a href="other.html#there">y</a><a href="#">top</a><img src="data:image/png;base64,AA">'
    )
    assert check_site(tmp_path) == []


def test_a_stylesheet_must_not_load_from_elsewhere(tmp_path):
    (tmp_path / "theme.css").write_text(
        '@font-face{src:url(https://fonts.example/f.woff2)} a{background:url(data:image/svg+xml,%3Csvg)}'
    )
    assert check_site(tmp_path) == ["theme.css: loads https://fonts.example/f.woff2 from elsewhere"]


# ---- a whole site

DOUBLE = """#| export
def twice(
    x:int  # A number
) -> int:  # Its double
    "Double it."
    return 2*x"""
CALLED = """#| export
class Twice:
    "Doubles."
    def __call__(self,
        x:int  # Another number
    ): return 2*x"""
TOY = {
    "index.ipynb": [cell("# Toy\n\n> Three pages"), cell("See [the lesson](01_toy.ipynb#r1), [a page](cards/a.pdf).")],
    "01_toy.ipynb": [
        cell("# A lesson\n\n> With everything\n\nBelow the title."),
        cell("#| default_exp toy", "code"),
        cell("::: {.panel-tabset}\n\n## English\nHello.\n\n## 日本語\nこんにちは。\n\n:::"),
        cell(EQUATION),
        cell("<!-- R1 -->\nThe answer."),
        cell(DOUBLE, "code"),
        cell(CALLED, "code"),
    ],
    "deep/01_inner.ipynb": [
        cell("# Deeper\n\n> In a folder"),
        cell("#| default_exp deep.inner", "code"),
        cell("From [the lesson](../01_toy.ipynb#r1), [at the front](../index.ipynb). $x^2$"),
        cell("[`twice`](https://toy.github.io/toy/toy.html#twice)"),
    ],
}
PYPROJECT = """[project]
name = "toy"
description = "Three pages"
version = "0"
[project.urls]
Repository = "https://github.com/toy/toy"
Documentation = "https://toy.github.io/toy/"
[tool.nbdev]
title = "toy"
custom_sidebar = true
"""
SIDEBAR = """website:
  sidebar:
    contents:
      - href: index.ipynb
      - href: 01_toy.ipynb
      - section: "A folder"
        contents:
          - href: deep/01_inner.ipynb
"""


def toy_project(root, notebooks=TOY):
    nbs = root / "nbs"
    nbs.mkdir()
    (root / "toy" / "deep").mkdir(parents=True)
    (root / "toy" / "__init__.py").write_text('__version__ = "0"\n')
    for module in ("toy.py", "deep/__init__.py", "deep/inner.py"):
        (root / "toy" / module).write_text("")
    (root / "pyproject.toml").write_text(PYPROJECT)
    real = TOOLS.parent / "nbs"
    config = (real / "_quarto.yml").read_text()
    (nbs / "_quarto.yml").write_text(config.replace("glossary.ipynb", "index.ipynb"))
    (nbs / "styles.css").write_text((real / "styles.css").read_text())
    (nbs / "sidebar.yml").write_text(SIDEBAR)
    meta = dict(kernelspec=dict(display_name="python3", language="python", name="python3"))
    (nbs / "deep").mkdir()
    (nbs / "cards").mkdir()
    (nbs / "cards/a.pdf").write_bytes(b"%PDF")
    for name, cells in notebooks.items():
        (nbs / name).write_text(json.dumps(dict(cells=cells, metadata=meta, nbformat=4, nbformat_minor=5)))


def build(root):
    return subprocess.run([sys.executable, TOOLS / "build_docs.py"], cwd=root, capture_output=True, text=True)


@pytest.fixture(scope="module")
def toy_site(tmp_path_factory):
    root = tmp_path_factory.mktemp("toy")
    toy_project(root)
    run = build(root)
    assert run.returncode == 0, run.stdout + run.stderr
    return root / "_docs"


HTML = {"index.html", "toy.html", "deep/inner.html"}


def test_no_page_asks_for_anything_from_elsewhere(toy_site):
    assert {p.relative_to(toy_site).as_posix() for p in toy_site.rglob("*.html")} == HTML
    assert check_site(toy_site) == []


def test_files_that_a_page_links_to_are_on_the_site(toy_site):
    assert (toy_site / "cards/a.pdf").read_bytes() == b"%PDF"
    assert "cards/a.pdf" in PageFacts((toy_site / "index.html").read_text()).links


def test_katex_comes_from_the_site(toy_site):
    for path in (toy_site / "toy.html", toy_site / "deep/inner.html"):
        katex = [url for url in PageFacts(path.read_text()).loads if "katex" in url]
        assert len(katex) == 3 and all((path.parent / url).is_file() for url in katex)
    assert list((toy_site / "site_libs/katex/fonts").glob("*.woff2"))


def test_search_index_covers_the_pages(toy_site):
    text = (toy_site / "search.json").read_text()
    assert {e["href"].partition("#")[0] for e in json.loads(text)} == HTML
    assert "こんにちは" in text


def test_lesson_has_tabs_equation_answer_and_api(toy_site):
    html = (toy_site / "toy.html").read_text()
    assert html.count('role="tabpanel"') == 2 and 'lang="ja" class="tab-pane"' in html
    assert "\\tag{1}" in html and 'href="#eq-energy">Equation 1</a>' in html
    assert {"eq-energy", "r1", "twice", "twice-2", "twice.__call__"} <= set(PageFacts(html).ids)
    assert "Below the title." in html
    assert "A number" in html and "Another number" in html and "<strong>Its double</strong>" in html


def test_pages_of_a_folder_keep_it(toy_site):
    inner = PageFacts((toy_site / "deep/inner.html").read_text())
    source = "https://github.com/toy/toy/blob/main/nbs"
    assert {"../toy.html#r1", "../toy.html#twice", "../index.html", f"{source}/deep/01_inner.ipynb"} <= set(inner.links)
    toy = PageFacts((toy_site / "toy.html").read_text())
    assert {"deep/inner.html", f"{source}/01_toy.ipynb"} <= set(toy.links)  # the sidebar, and 'View source'


FAULTS = "[gone](02_gone.ipynb) [gone](01_toy.ipynb#gone) ![pixel](https://example.com/pixel.png)"


def test_build_fails_and_says_why(tmp_path):
    lesson = [*TOY["01_toy.ipynb"][:3], cell("## twice"), *TOY["01_toy.ipynb"][3:]]
    toy_project(tmp_path, {**TOY, "index.ipynb": [*TOY["index.ipynb"], cell(FAULTS)], "01_toy.ipynb": lesson})
    run = build(tmp_path)
    assert run.returncode == 1
    for complaint in (
        "broken link 02_gone.html",
        "broken link toy.html#gone",
        "loads https://example.com/pixel.png from elsewhere",
        "id 'twice' comes twice",
    ):
        assert complaint in run.stdout


def test_build_fails_for_an_unresolved_reference(tmp_path):
    toy_project(tmp_path, {**TOY, "index.ipynb": [*TOY["index.ipynb"], cell("See @eq-gone.")]})
    run = build(tmp_path)
    assert run.returncode == 1 and "build_docs: index.ipynb: unresolved reference @eq-gone" in run.stderr


def test_sidebar_must_not_forget_a_notebook(tmp_path):
    (tmp_path / "sidebar.yml").write_text(SIDEBAR)
    with pytest.raises(rw.SiteError, match="does not list 02_oy.ipynb"):  # whose page's name is part of another's
        bd.rewrite_config(
            tmp_path, {"index.ipynb": "index.ipynb", "01_toy.ipynb": "toy.ipynb", "02_oy.ipynb": "oy.ipynb"}
        )
