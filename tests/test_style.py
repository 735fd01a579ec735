"Ruff's rules of pyproject.toml hold in code and lessons, functions are short, and notebooks can be read in Jupyter."
import ast
import json
import posixpath
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = ("transformer_nb", "tests", "tools", "benchmarks")
MOST = 30  # lines of a function's body, without signature and docstring
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def ruff(*places):
    "What ruff finds in files and folders, a line each."
    pytest.importorskip("ruff", reason="ruff is not installed: pip install --group dev")
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--no-cache", "--output-format=concise"]
    command += ["--config", ROOT / "pyproject.toml", *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode < 2, done.stderr
    return done.stdout.splitlines()


def is_of_nbdev(found):
    "Is a line too long in which nbdev lists what a module exports? It writes up to 130 characters."
    file, line, *_ = found.split(":")
    if "E501" not in found or not file.startswith("transformer_nb/"): return False
    text = (ROOT / file).read_text().splitlines()[int(line) - 1]
    return text.startswith("__all__ = [") and len(text) <= 130


@pytest.mark.parametrize("place", [*CODE, "nbs"])
def test_rules_hold(place):
    wrong = [found for found in ruff(place) if not is_of_nbdev(found)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("line, rule", [
    ("a = 1; b = 2", "E702"), ("x = " + "1 + " * 40 + "1", "E501"), ("import os", "F401"), ("print(nobody)", "F821")])
def test_rules_are_looked_for_in_code_and_lessons(line, rule, tmp_path):
    "Or the test above would see nothing; and a lesson may call IPython's own commands."
    (tmp_path / "a.py").write_text(line + "\n")
    cells = [dict(cell_type="code", metadata={}, source=s, outputs=[], execution_count=None) for s in ("%time 1", line)]
    (tmp_path / "a.ipynb").write_text(json.dumps(dict(cells=cells, metadata={}, nbformat=4, nbformat_minor=5)))
    found = ruff(tmp_path)
    assert {Path(found.split(":")[0]).name for found in found} == {"a.py", "a.ipynb"} and all(rule in f for f in found)


def body_lines(function):
    "How many lines a function's body has, from its first statement to its last."
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return statements[-1].end_lineno - statements[0].lineno + 1 if statements else 0


def long_functions(text):
    "Name and length of each function in a module whose body is too long."
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, FUNCTIONS)]
    return [(f.name, body_lines(f)) for f in functions if body_lines(f) > MOST]


@pytest.mark.parametrize("place", CODE)
def test_functions_are_short(place):
    files = sorted((ROOT / place).rglob("*.py"))
    too_long = {str(f.relative_to(ROOT)): found for f in files if (found := long_functions(f.read_text()))}
    assert files and not too_long


def test_lengths_are_those_of_bodies():
    "Signature and docstring do not count, a function inside a method does."
    def method(lines):
        body = "\n".join(["            a = 1"] * lines)
        return f'class C:\n    def outer(self,\n        a=0\n    ):\n        "Doc."\n        def inner():\n{body}\n'
    assert long_functions(method(29)) == []
    assert long_functions(method(30)) == [("outer", 31)]
    assert long_functions(method(31)) == [("outer", 32), ("inner", 31)]


# ---- notebooks in Jupyter

NOTEBOOKS = {path.relative_to(ROOT / "nbs").as_posix(): path for path in sorted((ROOT / "nbs").rglob("*.ipynb"))
             if not {".ipynb_checkpoints", "languages"} & {*path.parts}}


def cells_of(name, kind):
    "The cells of a notebook of one kind."
    return [c for c in json.loads(NOTEBOOKS[name].read_text(encoding="utf-8"))["cells"] if c["cell_type"] == kind]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_what_the_site_folds_is_folded_in_jupyterlab(name):
    "And nothing else is; an answer that stands open below its exercise is given away."
    for c in cells_of(name, "code"):
        on_the_site = re.search("^#[|] *code-fold: *true$", "".join(c["source"]), re.M) is not None
        assert on_the_site == c["metadata"].get("jupyter", {}).get("source_hidden", False), c["id"]


def headings(name):
    "The headings of a notebook, of its text and of what its code shows."
    shown = [out["data"]["text/markdown"] for c in cells_of(name, "code") for out in c["outputs"]
             if "text/markdown" in out.get("data", {})]
    texts = [*shown, *(c["source"] for c in cells_of(name, "markdown"))]
    text = re.sub("^```.*?^```", "", "\n".join("".join(part) for part in texts), flags=re.M | re.S)
    return re.findall("^#+ (.*)$", text, re.M), text


def leads_nowhere(place, target):
    "Has a notebook no such heading, as JupyterLab spells its anchor, and no such answer to a question?"
    if target not in NOTEBOOKS: return False  # tests/test_site.py asks for files
    found, text = headings(target)
    anchors = [re.sub("[`*]", "", heading).replace(" ", "-") for heading in found]
    answers = [n.lower() for ids in re.findall("<!--(.*?)-->", text) for n in re.findall(r"R\d+", ids)]
    return place not in answers and not (place in anchors and re.fullmatch(r"[\w.,:;?!'&-]+", place, re.ASCII))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_to_headings_work_in_jupyterlab(name):
    "Its anchors keep capitals and marks; of what is not ASCII a browser makes another one."
    text = re.sub("`[^`\n]*`", "", headings(name)[1])
    links = re.findall(r"\]\(([\w./-]+\.ipynb|)#([^)]+)\)", text)
    folder = posixpath.dirname(name)
    targets = {(file, place): posixpath.normpath(posixpath.join(folder, file)) if file else name
               for file, place in links}
    assert not [link for link, target in targets.items() if leads_nowhere(link[1], target)]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_mark_is_left_that_only_quarto_reads(name):
    text = "\n".join("".join(c["source"]) for c in cells_of(name, "markdown"))
    assert not re.findall(r"(?<!`)@(?:eq|fig|tbl|sec)-\w+|\{#(?:eq|fig|tbl|sec)-", text)
