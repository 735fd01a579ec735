"""Figures and code of the site: pictures are files, keep every dot and have a text; drawing is folded; code wraps."""
import base64
import json
import re
import sys
from html import unescape
from io import BytesIO

import pytest
from conftest import ROOT
from PIL import Image, ImageChops

sys.path.insert(0, str(ROOT / "tools"))
pytest.importorskip("smalldocs")
from site_figures import MOST, check_figures, fewer_tags, pictures_as_files
from smalldocs.notebook import cell_options
from test_site import TOY, build, cell, toy_project


def png(color, **about):
    "A small picture with a gradient in it, as base64."
    picture = Image.linear_gradient("L").resize((300, 200)).convert("RGB")
    picture.paste(color, (10, 10, 50, 50))
    file = BytesIO()
    picture.save(file, "png", **about)
    return base64.b64encode(file.getvalue()).decode()


def image(data): return f'<img alt="A" src="data:image/png;base64,{data}" class="img-fluid">'


# ---- pictures

def test_a_picture_is_a_file_once_and_keeps_every_dot(tmp_path):
    one, other = png("red"), png("blue")
    html = pictures_as_files(image(one) + image(other) + image(one), tmp_path, "../")
    names = re.findall(r'<img alt="A" src="\.\./figures/(\w+\.webp)"', html)
    assert names[0] == names[2] != names[1] and {path.name for path in tmp_path.iterdir()} == set(names)
    for name, data in zip(names, (one, other)):
        before = Image.open(BytesIO(base64.b64decode(data)))
        after = Image.open(tmp_path / name)
        assert after.format == "WEBP" and ImageChops.difference(before, after.convert("RGB")).getbbox() is None


def test_the_first_picture_of_a_page_is_loaded_at_once(tmp_path):
    first, *rest = pictures_as_files(image(png("red")) * 3, tmp_path, "").split("<img")[1:]
    assert "loading=" not in first and all('loading="lazy"' in img for img in rest)
    assert all('decoding="async" class="img-fluid">' in img for img in (first, *rest))


@pytest.mark.parametrize("about, size", [
    ({}, (300, 200)),
    (dict(dpi=(72, 72)), (300, 200)),
    (dict(dpi=(200, 200)), (150, 100)),
    (dict(dpi=(144, 144)), (208, 139)),
])
def test_figures_have_a_hundred_dots_to_the_inch(tmp_path, about, size):
    html = pictures_as_files(image(png("red", **about)), tmp_path, "")
    assert 'width="{}" height="{}"'.format(*size) in html


# ---- code

CODE = ('<code class="sourceCode python">f(<span class="st">&#x27;</span><span class="st">a &lt; &quot;b&quot;</span>'
        '<span class="st">&#x27;</span>, <a title="&quot;c&quot;" href="c">c</a><span class="op">+</span>1)</code>')


def test_code_with_fewer_tags_is_the_same_code():
    code = fewer_tags(CODE)
    def text(html): return unescape(re.sub("<[^>]*>", "", html))
    assert text(code) == text(CODE) == """f('a < "b"', c+1)"""
    assert """<span class="st">'a &lt; "b"'</span>""" in code
    assert '<a title="&quot;c&quot;" href="c">' in code and '<span class="op">+</span>' in code


# ---- what is refused

@pytest.mark.parametrize("html, complaint", [
    ('<img alt="" src="a.webp"><img src="b.webp">', "deep/page.html: picture 2 has no alt text"),
    ('<img alt="" src="data:image/svg+xml,x">', "deep/page.html: picture 1 is inside the page"),
    ("x" * (MOST + 1), f"deep/page.html: {MOST + 1:,} bytes of HTML, more than {MOST:,}"),
])
def test_what_a_page_must_not_have(tmp_path, html, complaint):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/page.html").write_text(html)
    found, = check_figures(tmp_path)
    assert found.startswith(complaint)


# ---- a whole site

LONG = "total = " + " + ".join(f"a_long_name_{n}" for n in range(40))


def figure(options, data):
    "A cell that shows a picture."
    shown = dict(output_type="display_data", metadata={}, data={"image/png": data, "text/plain": "<Figure>"})
    return cell(f"{options}plot()", "code") | dict(outputs=[shown])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    "A lesson with two figures and a long line; a page in a folder shows one of them again, and says nothing to it."
    root, once = tmp_path_factory.mktemp("figures"), png("red", dpi=(200, 200))
    options = "#| code-fold: true\n#| fig-cap: Red\n#| fig-alt: A red square.\n"
    lesson = [figure(options, once), figure(options, png("blue")), cell(LONG, "code")]
    inner = [*TOY["deep/01_inner.ipynb"], figure("", once)]
    toy_project(root, {**TOY, "01_toy.ipynb": [*TOY["01_toy.ipynb"], *lesson], "deep/01_inner.ipynb": inner})
    run = build(root)
    return root / "_docs", run


def test_figures_of_a_site_are_files_with_caption_and_text(site):
    folder, _ = site
    html = (folder / "toy.html").read_text()
    assert len(list((folder / "figures").iterdir())) == 2
    assert re.search(r'<img alt="A red square\." src="figures/\w+\.webp" width="150" height="100" decoding', html)
    assert "<figcaption>Red</figcaption>" in html
    assert 'src="../figures/' in (folder / "deep/inner.html").read_text() and "data:image/png" not in html


def test_the_build_fails_for_a_figure_without_text(site):
    folder, run = site
    assert run.returncode == 1
    complaint, = re.findall("^.* has no alt text", run.stdout, re.M)
    assert complaint == "deep/inner.html: picture 1 has no alt text"


def test_drawing_is_folded_on_a_site(site):
    html = (site[0] / "toy.html").read_text()
    folds = re.findall(r'<details class="code-fold">\s*<summary>Code</summary>(.*?)</details>', html, re.S)
    assert len(folds) == 2 and all("plot()" in re.sub("<[^>]*>", "", fold) for fold in folds)


LOOK = """
document.documentElement.classList.toggle("quarto-dark", arguments[0])
const [pre] = document.querySelectorAll("div.sourceCode pre"), lines = pre.textContent.trim().split("\\n").length
pre.firstElementChild.append("x".repeat(500))
const { lineHeight, paddingTop, overflowX } = getComputedStyle(pre), page = document.documentElement
const rows = Math.round((pre.clientHeight - 2*parseFloat(paddingTop))/parseFloat(lineHeight))
const scrolls = rows <= lines + 1 && overflowX === "auto" && pre.scrollWidth > 3000 && page.scrollWidth <= innerWidth
const [card, img] = [".figure > p", ".figure img"].map(e => getComputedStyle(document.querySelector(e)))
return `${scrolls} ${card.backgroundColor} ${img.mixBlendMode} ${img.width}`"""


@pytest.mark.parametrize("dark, seen", [
    (False, "true rgba(0, 0, 0, 0) multiply 150px"),
    (True, "true rgb(228, 228, 228) multiply 150px"),
])
def test_code_scrolls_in_its_box_and_figures_stand_on_a_card_in_the_dark(site, browser, dark, seen):
    browser.open((site[0] / "toy.html").as_uri())
    assert browser.play(LOOK, dark) == seen


# ---- the notebooks

NOTEBOOKS = sorted(path for path in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_figures_have_texts_and_their_drawing_is_folded(path):
    "A call of two or three lines need not be."
    for n, c in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        if not any("image/png" in out.get("data", {}) for out in c.get("outputs", [])):
            continue
        options, code = re.fullmatch(r"((?:#\|.*\n)*)(.*)", "".join(c["source"]), re.S).groups()
        said, _ = cell_options(re.sub(r"#\| slow\n", "", options))  # nbdev takes this one before
        assert {"fig-cap", "fig-alt"} <= set(said), f"cell {n}: not there, or no YAML: a colon needs quotes"
        assert "#| code-fold: true" in options or len(code.splitlines()) <= 3, f"cell {n}"
