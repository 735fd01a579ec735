"""README.md is what nbs/index.ipynb says."""
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "benchmarks")]
pytest.importorskip("nbdev")
import build_readme  # noqa: E402
import render  # noqa: E402

from transformer_nb.core import Profile  # noqa: E402

LANGUAGES = {"en": "English", "de": "German", "fr": "French", "ja": "Japanese", "jp": "Japanese", "ko": "Korean"}


def run(root, *args):
    return subprocess.run(
        [sys.executable, ROOT / "tools/build_readme.py", *args], cwd=root, capture_output=True, text=True
    )


@pytest.fixture
def copy(tmp_path):
    "A copy of what the README is made from."
    (tmp_path / "nbs").mkdir()
    for name in ("pyproject.toml", "README.md", "nbs/index.ipynb"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_readme_is_up_to_date():
    done = run(ROOT, "--check")
    assert done.returncode == 0, done.stderr


def scores():
    "The rows of the table under 'What it reaches', without head."
    part = (ROOT / "README.md").read_text().split("## What it reaches")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_number_of_the_scores_is_in_a_file():
    """All columns are what benchmarks/render.py makes of the files, but the first, which names the corpus; the pairs of
    the built-in corpus are the default of `tnb-train`."""
    built_in = f"{Profile().corpus_size:,}"
    found = [[pairs.replace(built_in, ""), *cells] for _, pairs, *cells in scores()]
    assert sorted(found) == sorted(render.quality())
    assert not [corpus for corpus, *_ in scores() if re.search(r"(?<!\w)\d", corpus)]
    assert {corpus.split(",")[0] for corpus, pairs, *_ in scores() if pairs in (built_in, "")} == {"built-in"}


def test_corpora_of_the_scores_are_those_that_were_measured():
    rows = {recipe.strip("`"): (corpus, pairs) for corpus, pairs, recipe, *_ in scores()}
    for name, run in render.load("recipes").items():
        source, target = (LANGUAGES[code[:2]] for code in run["direction"].split("-"))
        corpus, pairs = rows[name]
        assert corpus.startswith(run["corpus"].split(" (")[0]) and corpus.endswith(f", {source} to {target}"), name
        assert pairs == f"{run['pairs']:,}", name


def test_the_signature_and_the_seed_are_those_of_the_files():
    "The intervals' files add `bs` and `seed`, which belong to the bootstrap."
    text = (ROOT / "README.md").read_text()
    files = [*render.load("built_in").values(), *render.load("recipes").values()]
    signature, = {re.sub(r"bs:\d+\|seed:\d+\|", "", run["signature"]) for run in files}
    assert f"`{signature}`); seed {files[0]['seed']}," in text and len({run["seed"] for run in files}) == 1


def test_the_sizes_of_the_tests_are_those_of_the_files():
    "The older rows of recipes.json do not say theirs; Multi30k's test is also that of multi30k.json."
    built_in = {split["pairs"] for run in render.load("built_in").values() for split in run["scores"].values()}
    multi30k = {run["sentences"] for run in render.load("multi30k").values()}
    assert (built_in, multi30k) == ({500}, {1000})
    assert "of which there are 1,000 (500 of the built-in corpus," in (ROOT / "README.md").read_text()


def test_check_fails_when_the_notebook_has_changed(copy):
    assert run(copy, "--check").returncode == 0
    path = copy / "nbs/index.ipynb"
    nb = json.loads(path.read_text())
    nb["cells"][-1]["source"] = ["Something new."]
    path.write_text(json.dumps(nb))
    stale = run(copy, "--check")
    assert stale.returncode == 1 and "out of date" in stale.stderr
    assert run(copy).returncode == 0 and run(copy, "--check").returncode == 0
    assert "Something new." in (copy / "README.md").read_text()


def test_check_fails_when_the_readme_was_edited_or_is_missing(copy):
    (copy / "README.md").write_text("By hand.\n")
    assert run(copy, "--check").returncode == 1
    (copy / "README.md").unlink()
    assert run(copy, "--check").returncode == 1


def test_every_link_is_absolute():
    "The README is shown by package indexes too, where a path of the repository leads nowhere."
    text = re.sub(r"^```.*?^```", "", (ROOT / "README.md").read_text(), flags=re.S | re.M)
    links = re.findall(r"\]\(([^\s)]+)|\b(?:href|src)=[\"']([^\"']+)|^\[[^\]]+\]:\s*(\S+)", text, re.M)
    links = [url for found in links for url in found if url]
    assert len(links) > 30 and all(url.startswith(("https://", "#")) for url in links), [
        url for url in links if not url.startswith(("https://", "#"))
    ]


def test_links_to_the_repository_lead_to_its_files(copy):
    here = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"] + "/blob/main/"
    paths = re.findall(re.escape(here) + r"([^\s)#]+)", (ROOT / "README.md").read_text())
    assert len(paths) > 30 and not [path for path in paths if not (ROOT / path).is_file()]
    (copy / "pyproject.toml").write_text(
        (ROOT / "pyproject.toml").read_text().replace(here.removesuffix("/blob/main/"), "https://example.org/elsewhere")
    )
    assert (
        run(copy).returncode == 0
        and "](https://example.org/elsewhere/blob/main/nbs/01_attention.ipynb)" in (copy / "README.md").read_text()
    )


def notebook(path, *cells):
    cells = [
        dict(
            cell_type=kind,
            metadata={},
            source=text,
            **({"outputs": outputs, "execution_count": 1} if kind == "code" else {}),
        )
        for kind, text, *outputs in cells
    ]
    path.write_text(json.dumps(dict(cells=cells, metadata={}, nbformat=4, nbformat_minor=5)))
    return path


def test_cells_as_github_shows_them(tmp_path):
    (tmp_path / "nbs").mkdir()
    out = dict(output_type="stream", name="stdout", text="4\n")
    text = build_readme.readme(
        notebook(
            tmp_path / "nbs/index.ipynb",
            ("markdown", "[a](01_a.ipynb#x) [b](../LICENSE) [c](#top) [d](https://e.org/f.ipynb) [e](mailto:a@b.c)"),
            ("code", "#| hide\nsecret()"),
            ("code", "2 + 2", out),
            ("markdown", "```md\n[g](03_g.ipynb)\n```"),
        ),
        "https://h/p/blob/main",
    )
    assert (
        "[a](https://h/p/blob/main/nbs/01_a.ipynb#x) [b](https://h/p/blob/main/LICENSE)" in text
        and "secret" not in text
    )
    assert "[c](#top) [d](https://e.org/f.ipynb) [e](mailto:a@b.c)" in text and "[g](03_g.ipynb)" in text
    assert "```python\n2 + 2\n```\n\n    4\n" in text


def test_a_traceback_does_not_get_into_the_readme(tmp_path):
    out = dict(output_type="error", ename="E", evalue="", traceback=[])
    with pytest.raises(ValueError, match="traceback"):
        build_readme.readme(notebook(tmp_path / "index.ipynb", ("code", "oops", out)), "https://h/p/blob/main")
