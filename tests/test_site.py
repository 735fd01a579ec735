"""The site: what tools/build_docs.py rewrites, what it refuses, and a small site built from two notebooks."""
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

TOOLS = Path(__file__).parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
pytest.importorskip("smalldocs")
import apidoc  # noqa: E402
import build_docs as bd  # noqa: E402
import site_course as course  # noqa: E402
import site_rewrites as rw  # noqa: E402
from fastcore.nbio import mk_cell  # noqa: E402
from site_checks import PageFacts, check_site, missing  # noqa: E402

from transformer_nb import attention, config  # noqa: E402


def cell(text, kind="markdown", **rest):
    code = dict(outputs=[], execution_count=None) if kind == "code" else {}
    return dict(cell_type=kind, id=f"c{abs(hash(text)):x}"[:9], metadata={}, source=text, **code, **rest)


# ---- rewrites

EQUATION = "Before.\n\n$$\nE = mc^2 \\tag{1}\n$$\n\nAfter equation 1."


def test_fences_keep_what_looks_like_a_reference():
    text = "```python\n@fig-x\n```\n\nand `$$a$$ {#eq-a}`"
    assert rw.outside_code(lambda t: t.replace("@fig-x", "LOST").replace("$$", "LOST"), text) == text


PAGES = {"01_attention.ipynb": "attention.ipynb", "train/01_costs.ipynb": "train/costs.ipynb"}


@pytest.mark.parametrize("link, expected", [  # on a page in the top folder
    ("01_attention.ipynb", "attention.ipynb"),
    ("01_attention.ipynb#r4", "attention.ipynb#r4"),
    ("./01_attention.ipynb", "attention.ipynb"),
    ("train/01_costs.ipynb#r9", "train/costs.ipynb#r9"),
    ("https://host/doc/attention.html#attention", "attention.html#attention"),
    ("https://host/doc/train/costs.html#flops", "train/costs.html#flops"),
    ("https://host/doctor/attention.html", "https://host/doctor/attention.html"),
    ("https://elsewhere/01_attention.ipynb", "https://elsewhere/01_attention.ipynb"),
    ("elsewhere/01_attention.ipynb", "elsewhere/01_attention.ipynb"),
    ("01_attention.ipynb#Why-divide,-and-why?", "attention.ipynb#why-divide-and-why"),  # as JupyterLab has it
    ("#The-paper's-25,000", "#the-papers-25000"),
    ("https://elsewhere/01_attention.ipynb#R", "https://elsewhere/01_attention.ipynb#R"),
])
def test_links_become_relative(link, expected):
    found = rw.rewrite_links(f"[a]({link})", "06_transformer.ipynb", PAGES, "https://host/doc/")
    assert found == f"[a]({expected})"


@pytest.mark.parametrize("link, expected", [
    ("../01_attention.ipynb#r4", "../attention.ipynb#r4"),
    ("01_costs.ipynb", "costs.ipynb"),
    ("../train/01_costs.ipynb", "costs.ipynb"),
    ("https://host/doc/attention.html#attention", "../attention.html#attention"),
    ("https://host/doc/train/costs.html#flops", "costs.html#flops"),
])
def test_links_of_a_notebook_in_a_folder(link, expected):
    found = rw.rewrite_links(f"[a]({link})", "train/02_distributed.ipynb", PAGES, "https://host/doc/")
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


def test_folds_of_languages_become_tabs():
    """In Jupyter a tabset would be raw text, and a lesson's head has no links to its languages. All tabs of the site
    switch together. Other folds stay."""
    summary = cell("<details><summary>In short</summary>\n\nOne.\n\n</details>\n\n"
                   "<details><summary>日本語</summary>\n\n一。\n\n[全文](https://h/languages/ja/a.html)\n\n</details>\n\nMore.")
    hint = cell("<details><summary>Hint</summary>\n\nLook.\n\n</details>")
    rw.tabs_of(cells := [summary, hint], "01_a.ipynb", {})
    tabs = "::: {.panel-tabset group=\"language\"}\n\n## English\n\nOne.\n\n## 日本語\n\n一。\n\n:::\n\nMore."
    assert [c["source"] for c in cells] == [tabs, "<details><summary>Hint</summary>\n\nLook.\n\n</details>"]


@pytest.mark.parametrize("name, link, expected", [
    ("glossary.ipynb", "01_a.ipynb", "languages/ja/01_a.ipynb"),
    ("glossary.ipynb", "01_a.ipynb#r4", "languages/ja/01_a.ipynb#r4"),
    ("train/01_b.ipynb", "../01_a.ipynb", "../languages/ja/01_a.ipynb"),
    ("glossary.ipynb", "01_a.ipynb#a-heading", "01_a.ipynb#a-heading"),
    ("glossary.ipynb", "02_c.ipynb", "02_c.ipynb"),
    ("train/01_b.ipynb", "01_a.ipynb", "01_a.ipynb"),  # of its own folder
])
def test_a_tab_leads_to_lessons_in_its_language(name, link, expected):
    folds = "\n\n".join(f"<details{how}</summary>\n\n[a]({link})\n\n</details>" for how in (
        " open><summary>English", "><summary>日本語"))
    renamed = {page: page.replace("01_", "") for page in ("01_a.ipynb", "languages/ja/01_a.ipynb")}
    rw.tabs_of(cells := [cell(folds)], name, renamed)
    assert re.findall(r"\]\((.*?)\)", cells[0]["source"]) == [link, expected]


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


def test_descriptions_are_plain_for_search_engines():
    html = '<meta name="description" content="Tasks of [one](../01.html), then more"><p>[two](b)</p>'
    assert rw.plain_description(html) == '<meta name="description" content="Tasks of one, then more"><p>[two](b)</p>'


def test_formulas_keep_their_punctuation():
    math = '<span class="math inline">\\(x\\)</span>'
    for before, text, after in [("if ", f"({math}", " or"), ("for ", f"{math}.", " So"), ("値は ", f"{math}。", "次")]:
        kept = rw.keep_punctuation(before + text + after)
        assert kept == f'{before}<span class="with-formula">{text}</span>{after}'
    assert rw.keep_punctuation(f"so {math} and {math}이면") == f"so {math} and {math}이면"


# ---- the course

def test_no_word_leads_to_the_exercises_answers():
    text = "A [`split`](https://x.io/y/course/tasks/multihead.html#split), as in `tasks`."
    assert rw.rewrite_text(text, lambda part: part) == "A `split`, as in `tasks`."
    link = "[`tasks`](https://github.com/a/b/nbs/course/tasks/01_attention.ipynb)"
    assert rw.rewrite_text(link, lambda part: part) == link


def test_exercises_get_a_place_for_a_tick():
    cells = [cell("Read.\n\n**01.1 Your turn first: A** (write)."), cell("## Exercises\n\nHow.\n\n**01.2 B** (write).")]
    course.mark_lesson(cells, ["01.1", "01.2"])
    tick = '<span class="exercise" id="exercise-01.1" data-exercise="01.1"></span>'
    assert f"\n\n{tick}**01.1 Your turn" in cells[0]["source"]
    assert '## Exercises\n\n<p class="exercises" data-exercises="01.1 01.2" hidden></p>\n\nHow.' in cells[1]["source"]


@pytest.mark.parametrize("text", [
    "**01.1 A**",
    "**01.1 A**\n\n**01.1 A**\n\n**01.2 B**",
    "See **01.2 B**\n\n**01.1 A**",
])
def test_an_exercise_that_a_lesson_does_not_show_once_is_refused(text):
    with pytest.raises(rw.SiteError, match="shows the exercises 01.1.*, not 01.1, 01.2"):
        course.mark_lesson([cell(text)], ["01.1", "01.2"])


def result(text):
    return [{"output_type": "execute_result", "data": {"text/plain": [text]}, "metadata": {}, "execution_count": 1}]


def test_a_stub_that_nobody_has_filled_in_shows_nothing():
    said = ["01.1 ○ nothing came back: write the body. A hint: hint('01.1')", "01.1 ✓ right", "two ○ three"]
    cells = [cell("check('01.1', f)", "code") | {"outputs": result(text)} for text in said]
    course.mark_lesson(cells, [])
    assert [bool(c["outputs"]) for c in cells] == [False, True, True]


def test_stubs_are_found_as_the_notebooks_have_them():
    "In every lesson of the path that has stubs, none of what `check` says of an untouched one is left."
    seen = 0
    for path in (TOOLS.parent / "nbs").glob("[01]*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        seen += sum("○ nothing" in json.dumps(c.get("outputs", ""), ensure_ascii=False) for c in cells)
        course.mark_lesson(cells, [])
        assert "○ nothing" not in json.dumps([c.get("outputs", "") for c in cells], ensure_ascii=False), path.name
    assert seen > 30


def test_table_columns_get_their_language():
    html = "<table><tr><th>English</th><th>日本語</th></tr><tr><td>key</td><td>キー</td></tr></table>"
    assert '<td lang="en">key</td><td lang="ja">キー</td>' in rw.mark_languages(html)


# ---- the API

def show(sym):
    return apidoc.Entry(sym)._repr_markdown_()


def signs(
    ids:list, # With </s>
    pad=None, # Their end
):
    "Give <unk> or `<s>`."


def test_signs_in_angle_brackets_are_text():
    "A browser would take `</s>` for markup and show nothing."
    assert "*Give &lt;unk> or `<s>`.*" in show(signs)
    assert "    ids:list, # With </s>\n    pad=None, # Their end\n" in show(signs)  # in the signature, which is code


@pytest.mark.parametrize("code, linked", [
    (["from transformer_nb.cli import train", "show_doc(Translator.score)"], ("#translator.score", "train", "")),
    (["show_doc(score)"], ("#score", "", "")),
    (["import torch"], ("", "", "")),
    ([], ("score", "train", "save")),  # a page without code
])
def test_plain_words_link_to_what_the_lesson_shows_or_imports(code, linked):
    for word, place in zip(("score", "train", "save"), linked):
        place = place if place.startswith("#") else place and f"https://host/doc/{place}.html#{place}"
        assert link_in(code, word) == (f"[`{word}`]({place})" if place else f"`{word}`")


def test_names_without_an_entry_are_not_linked():
    assert "causal_mask" in attention.__all__ and "_check_together" not in config.__all__ and config._check_together
    assert link_in(["import torch"], "causal_mask") == "[`causal_mask`](https://host/doc/causal_mask.html#causal_mask)"
    assert link_in(["import torch"], "_check_together") == "`_check_together`"


def link_in(code, name):
    "What becomes of a link to a name in a notebook with these cells of code."
    nb = SimpleNamespace(cells=[mk_cell(text) for text in code])
    links = apidoc.link_names(nb)
    apidoc.note_imports(nb).begin()
    links.begin()
    return apidoc.NAME_LINK.sub(links.link, f"[`{name}`](https://host/doc/{name}.html#{name})")


def test_source_links_lead_to_the_line():
    from transformer_nb import transformer
    from transformer_nb.parts import packing
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
    ('<main>[<a href="#"><code>x</code></a>](a.ipynb#b)</main>', "shows ](a.ipynb#b), not a link"),
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
TWO = """#| export
def first(): "Stands above."
def second(): return first()"""
TASK = """#| export
class Task:
    "Nothing to be made."
    def inputs(g): yield g"""
TOY = {
    "index.ipynb": [
        cell("# Toy\n\n> Four pages"),
        cell("See [the lesson](01_toy.ipynb#r1), [a page](cards/a.pdf) and "
             "[the rest](https://toy.github.io/toy/blank.zip)."),
        cell("#| exec_doc\nfrom IPython.display import Markdown\nMarkdown('*Made* anew')", "code"),
    ],
    "01_toy.ipynb": [
        cell("# A lesson\n\n> With everything\n\nBelow the title."),
        cell("#| default_exp toy", "code"),
        cell("<details><summary>In short</summary>\n\nHello.\n\n</details>\n\n"
             "<details><summary>日本語</summary>\n\nこんにちは。\n\n</details>\n\n## What it says\n\nMuch."),
        cell(EQUATION),
        cell("<!-- R1 -->\nThe answer."),
        cell(DOUBLE, "code"),
        cell(CALLED, "code"),
        cell(TWO, "code"),
        cell(TASK, "code"),
        cell("Not on the page.", "code") | {"source": "#| hide\nhidden = 1"},
        cell("import os\nos.getpid()", "code") | {"outputs": result("as it was")},
        cell("**01.1 Your turn first: Twice** (write, level 1, 2 minutes). Write it."),
        cell("## Exercises\n\nHow. <span data-forget></span>\n\n**01.2 Half** (predict, level 1, 2 minutes). Guess."),
    ],
    "deep/01_inner.ipynb": [
        cell("# Deeper\n\n> In a folder of [the lesson](../01_toy.ipynb)"),
        cell("#| default_exp deep.inner", "code"),
        cell("From [the lesson](../01_toy.ipynb#r1), [at the front](../index.ipynb). $x^2$"),
        cell("[double](https://toy.github.io/toy/toy.html#twice), [`twice`](../01_toy.ipynb#r1)"),
    ],
    "languages/ja.ipynb": [
        cell("# 日本語\n> 短く"),
        cell("## [01 おもちゃ](ja/01_toy.ipynb)\n\nいろいろ。"),
    ],
    "languages/ja/01_toy.ipynb": [
        cell("# おもちゃ\n> いろいろ"),
        cell("[English](../../01_toy.ipynb)"),
        cell("## 練習問題"),
        cell("**01.1 二倍** (実装)\n\n書いてください。"),
        cell("**01.2 半分** (予想)"),
    ],
}
EXERCISES = """from types import SimpleNamespace

def exercises(): return [SimpleNamespace(id=f"01.{n}", lesson="01") for n in (1, 2)]
"""
BLANK = """import sys
from pathlib import Path

Path(sys.argv[1]).mkdir()
(Path(sys.argv[1])/"START.md").write_text("Begin")
"""
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
          - href: languages/ja.ipynb
"""


def toy_project(root, notebooks=TOY):
    nbs = root / "nbs"
    nbs.mkdir()
    (root / "toy" / "deep").mkdir(parents=True)
    (root / "toy" / "__init__.py").write_text('__version__ = "0"\n')
    exported = "\n".join(c["source"] for c in notebooks["01_toy.ipynb"] if c["source"].startswith("#| export"))
    for module, code in ("toy.py", exported), ("deep/__init__.py", ""), ("deep/inner.py", ""):
        (root / "toy" / module).write_text(code)
    (root / "toy/course").mkdir()
    (root / "toy/course/exercises.py").write_text(EXERCISES)
    (root / "tools").mkdir()
    (root / "tools/build_blank.py").write_text(BLANK)
    (root / "pyproject.toml").write_text(PYPROJECT)
    real = TOOLS.parent / "nbs"
    config = (real / "_quarto.yml").read_text()
    (nbs / "_quarto.yml").write_text(config.replace("glossary.ipynb", "index.ipynb"))
    (nbs / "styles.css").write_text((real / "styles.css").read_text())
    (nbs / "sidebar.yml").write_text(SIDEBAR)
    meta = dict(kernelspec=dict(display_name="python3", language="python", name="python3"))
    for folder in ("deep", "languages/ja", "cards", "course/tasks"):
        (nbs / folder).mkdir(parents=True)
    (nbs / "cards/a.pdf").write_bytes(b"%PDF")
    for name, cells in notebooks.items():
        (nbs / name).write_text(json.dumps(dict(cells=cells, metadata=meta, nbformat=4, nbformat_minor=5)))


def build(root):
    command, env = [sys.executable, TOOLS / "build_docs.py"], os.environ | {"PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def toy_site(tmp_path_factory):
    root = tmp_path_factory.mktemp("toy")
    toy_project(root)
    run = build(root)
    assert run.returncode == 0, run.stdout + run.stderr
    return root / "_docs"


HTML = {"index.html", "toy.html", "deep/inner.html", "languages/ja.html", "languages/ja/toy.html"}


def test_no_page_asks_for_anything_from_elsewhere(toy_site):
    assert {p.relative_to(toy_site).as_posix() for p in toy_site.rglob("*.html")} == HTML
    assert check_site(toy_site) == []


@pytest.mark.parametrize("before, after, part", [
    (r'class="skip-link"', 'class="skip"', "the link to the text"),
    (r' tabindex="-1"', "", "the text, which"),
    (r'<div class="site-search".*?</div></div>', "", "the search"),
    (r"quarto-color-scheme-toggle", "color-scheme-toggle", "the button of the theme"),
    (r"site_libs/search\.js", "site_libs/find.js", "the script of the search"),
    (r'id="quarto-sidebar"', 'id="sidebar"', "the sidebar"),
    (r'<details class="contents">', "<details>", "the contents"),
])
def test_a_page_in_which_something_was_not_found_is_told_of(before, after, part, toy_site):
    "The renderer wrote a class, a script's name or a block otherwise, and a replacement found nothing."
    html = (toy_site / "toy.html").read_text()
    assert list(missing(PageFacts(html), is_front=False)) == []
    line, = missing(PageFacts(re.sub(before, after, html, flags=re.S)), is_front=False)
    assert line.startswith(part) and "not once" in line


def test_files_that_a_page_links_to_are_on_the_site(toy_site):
    assert (toy_site / "cards/a.pdf").read_bytes() == b"%PDF"
    assert "cards/a.pdf" in PageFacts((toy_site / "index.html").read_text()).links


def test_lesson_has_tabs_equation_answer_and_api(toy_site):
    html = (toy_site / "toy.html").read_text()
    assert html.count('role="tabpanel"') == 2 and 'lang="ja" class="tab-pane"' in html
    assert "<span>(1)</span>" in html
    assert {"r1", "twice", "twice-2", "twice.__call__"} <= set(PageFacts(html).ids)
    assert "Below the title." in html
    assert "# A number" in html and "# Another number" in html and "# Its double" in html


def test_pages_of_a_folder_keep_it(toy_site):
    inner = PageFacts((toy_site / "deep/inner.html").read_text())
    source = "https://github.com/toy/toy/blob/main/nbs"
    assert {"../toy.html#r1", "../toy.html#twice", "../index.html", f"{source}/deep/01_inner.ipynb"} <= set(inner.links)
    toy = PageFacts((toy_site / "toy.html").read_text())
    assert {"deep/inner.html", f"{source}/01_toy.ipynb"} <= set(toy.links)  # the sidebar, and 'View source'


def test_code_that_is_exported_is_shown_and_what_is_hidden_is_not(toy_site):
    html = (toy_site / "toy.html").read_text()
    code = re.sub("<[^>]*>", "", html)
    assert "return 2*x" in code and "def inputs(g): yield g" in code and "hidden = 1" not in code
    ids = PageFacts(html).ids
    assert ids.index("first") < ids.index("second") < ids.index("task")
    assert "task.inputs" not in ids and "kwargs" not in code  # a record is not made; a bare method says nothing


def test_only_what_is_marked_is_run(toy_site):
    lesson, front = ((toy_site / name).read_text() for name in ("toy.html", "index.html"))
    assert "<pre><code>as it was</code></pre>" in lesson and "<em>Made</em> anew" in front


def test_a_language_has_its_page(toy_site):
    html = (toy_site / "languages/ja.html").read_text()
    assert '<html lang="ja">' in html and "<title>日本語" in html
    assert "ja/toy.html" in PageFacts(html).links


def test_a_lesson_and_its_translation_know_each_other(toy_site):
    lesson, other = ((toy_site / name).read_text() for name in ("toy.html", "languages/ja/toy.html"))
    assert '<html lang="ja">' in other and "../../toy.html" in PageFacts(other).links
    assert '<a class="language" href="languages/ja/toy.html" lang="ja">日本語</a><a href="https://colab' in lesson
    assert lesson.count('"languages/ja/toy.html"') == 1
    for page in (lesson, other):
        assert '<link rel="alternate" hreflang="en" href="https://toy.github.io/toy/toy.html">' in page
        assert '<link rel="alternate" hreflang="ja" href="https://toy.github.io/toy/languages/ja/toy.html">' in page
    assert "hreflang" not in (toy_site / "index.html").read_text()
    assert "https://github.com/toy/toy/blob/main/nbs/languages/ja/01_toy.json" in PageFacts(other).links


def test_lessons_have_their_number_everywhere(toy_site):
    front, lesson, inner = ((toy_site / name).read_text() for name in ("index.html", "toy.html", "deep/inner.html"))
    assert '<h1 class="title">01 A lesson</h1>' in lesson and "<title>01 A lesson" in lesson
    assert re.search('href="../toy.html" class="sidebar-item-text [^>]*><span class="menu-text">01 A lesson<', inner)
    assert '<h1 class="title">01 おもちゃ</h1>' in (toy_site / "languages/ja/toy.html").read_text()
    assert '<h1 class="title">Deeper</h1>' in inner  # counted anew in its folder
    assert '<p class="lesson-steps"><a class="step-previous" href="index.html">Toy</a>' in lesson
    assert '<p class="lesson-steps"><a class="step-previous" href="../toy.html">01 A lesson</a>' in inner
    assert "lesson-steps" not in front and front.count("01 A lesson") >= 2  # in the sidebar, and as the next page


def test_the_list_of_lessons_on_the_front_page_has_the_numbers_of_the_notebooks():
    cells = json.loads((TOOLS.parent / "nbs/index.ipynb").read_text())["cells"]
    text = "\n".join("".join(c["source"]) for c in cells)
    listed = re.findall(r"^\| [^|]*\| \[([^\]]*)\]\((\d\d\w?)_\w+\.ipynb\)", text, re.M)
    assert len(listed) > 20 and not [title for title, number in listed if not title.startswith(f"{number} ")]


def test_each_language_has_its_own_index(toy_site):
    pages = {name: {entry["href"] for entry in json.loads((toy_site / name).read_text())}
             for name in ("search.json", "search.ja.json")}
    own = {"languages/ja.html", "languages/ja/toy.html"}
    assert pages["search.ja.json"] == own | {"toy.html"}  # which has a summary in Japanese
    assert pages["search.json"] == {"index.html", "toy.html", "deep/inner.html"}


def test_the_blank_course_is_beside_the_pages(toy_site):
    assert zipfile.ZipFile(toy_site / "blank.zip").read("blank/START.md") == b"Begin"
    assert "blank.zip" in PageFacts((toy_site / "index.html").read_text()).links


def test_links_in_a_description_lead_to_pages(toy_site):
    html = (toy_site / "deep/inner.html").read_text()
    assert 'content="In a folder of the lesson"' in html and 'In a folder of <a href="../toy.html">' in html


# ---- the ticks

def opened(browser, page, done="null"):
    "A lesson in the browser of a reader who has done this."
    browser.open(page.as_uri())
    browser.execute_script("localStorage.setItem('transformer_nb-done', arguments[0])", done)
    browser.refresh()
    return browser


def test_without_a_script_there_is_nothing_to_tick(toy_site):
    html = (toy_site / "toy.html").read_text()
    assert '<span class="exercise" id="exercise-01.1" data-exercise="01.1"></span><strong>01.1' in html
    assert '<p class="exercises" data-exercises="01.1 01.2" hidden></p>' in html
    assert 'data-exercises="01.1 01.2" href="toy.html" class="sidebar' in html
    assert 'data-exercises="01.1 01.2" href="../toy.html"' in (toy_site / "deep/inner.html").read_text()


KEPT = "localStorage.getItem('transformer_nb-done')"


def test_ticks_are_kept_and_counted(toy_site, browser):
    seen = opened(browser, toy_site / "toy.html")
    seen.click("document.querySelector('[data-exercise] > input')")
    assert seen.run(KEPT) == '{"01.1":true}'
    assert re.search(r'<input type="checkbox"[^>]*aria-label="01.1 done">', seen.page_source)
    assert ">1 of 2 done</p>" in seen.page_source
    assert re.search(r'aria-label="1 of 2 done"[^>]*>1/2</span>', seen.page_source)


@pytest.mark.parametrize("done, short, long", [
    ('{"01.1": true, "01.2": true, "99.1": true}', "✓", "2 問中 2 問完了"),
    ("null", "0/2", "2 問中 0 問完了"),
    ("[not ours", "0/2", "2 問中 0 問完了"),
])
def test_ticks_are_found_again_in_the_language_of_the_page(toy_site, browser, done, short, long):
    html = opened(browser, toy_site / "languages/ja/toy.html", done).page_source
    assert f">{short}</span>" in html and f">{long}</p>" in html and 'aria-label="01.2 完了"' in html


@pytest.mark.parametrize("answer, kept, count", [("accept", "{}", 0), ("dismiss", '{"01.1": true}', 1)])
def test_ticks_are_forgotten_after_a_question(toy_site, browser, answer, kept, count):
    seen = opened(browser, toy_site / "toy.html", '{"01.1": true}')
    seen.click("document.querySelector('[data-forget] > button')")
    getattr(seen.switch_to.alert, answer)()
    assert seen.run(KEPT) == kept and f">{count} of 2 done</p>" in seen.page_source


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


def test_sidebar_must_not_forget_a_notebook(tmp_path):
    (tmp_path / "sidebar.yml").write_text(SIDEBAR)
    with pytest.raises(rw.SiteError, match="does not list 02_oy.ipynb"):  # whose page's name is part of another's
        bd.rewrite_config(
            tmp_path, {"index.ipynb": "index.ipynb", "01_toy.ipynb": "toy.ipynb", "02_oy.ipynb": "oy.ipynb"}
        )
