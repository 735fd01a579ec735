"""Write the blank course: `python tools/build_blank.py [FOLDER]`, by default `blank`.

FOLDER becomes a copy of the project in which every function that an exercise builds is a stub. Fill one in, in its
notebook, and run `nbdev-export` there: the same lessons, tests, trainer and demo then run on your code. `check`
compares with the package `solved`, which lies beside it. START.md in FOLDER says all this to whoever unpacks it.

`python tools/build_blank.py --nbgrader FOLDER` writes the exercises as assignments for nbgrader instead, one for each
lesson, without solutions."""
import ast
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from notebooks import made, read, text_of, written

from transformer_nb.course.exercises import Write, begin, exercises, find, is_first, markdown

ROOT = Path(__file__).parents[1]
PARTS = ('nbs', 'transformer_nb', 'tests', 'tools', 'benchmarks', 'settings.ini', 'pyproject.toml', 'constraints.txt',
         'Makefile', 'README.md', 'LICENSE', 'MANIFEST.in', '.github')
OTHERS = '__pycache__', '.ipynb_checkpoints', '*.egg-info', 'runs'
START = """# The blank course

This is the project without its answers. {n} functions and classes, those that the lessons' exercises build, are stubs.
Write one in its notebook; the first is in `nbs/{first}`. Then `nbdev-export` copies it into the package
`transformer_nb`, and lessons, tests, trainer and translator run on your code. A stub that is still empty raises
`NotImplementedError` and names its exercise and notebook. `check` compares with the package `solved`, which lies beside
`transformer_nb`.

You need Python 3.11 or newer. Begin, in this folder, with `make lab`, or, where there is no `make`:

```sh
python -m venv .venv
.venv/bin/python -m pip install -c constraints.txt 'pip>=25.1'
.venv/bin/python -m pip install -c constraints.txt -e '.[interop]' --group dev
.venv/bin/jupyter lab nbs
```

(On Windows, `.venv/bin` is `.venv\\Scripts`.) When you have written something:

```sh
.venv/bin/nbdev-export
.venv/bin/nbdev-test --path-re {first}
make demo   # when all is written: train, score, translate
```
"""


@cache
def homes():
    "The notebook of each module."
    return {module: path for path in sorted((ROOT/'nbs').rglob('*.ipynb')) if (module := module_of(path))}


def module_of(path):
    "What a notebook is exported to; None: nothing."
    found = re.search(r'#\| default_exp ([\w.]+)', path.read_text(encoding='utf-8'))
    return found and found[1]


def parted(name):
    "What an exercise builds as module and the name in it: `attention`, `AdditiveAttention.forward`."
    module = next(module for module in homes() if name.startswith(f'{module}.'))
    return module, name.removeprefix(f'{module}.')


def built():
    "Notebook and exercise of everything that an exercise builds, by name: `attention`, `Embedding.forward`."
    building = [(*parted(e.builds), e.id) for e in exercises() if e.builds]
    return {name: (homes()[module].relative_to(ROOT/'nbs').as_posix(), id) for module, name, id in building}


def functions(tree):
    "Every function of a cell with its name; a method has that of its class before it."
    for node in tree.body:
        if isinstance(node, ast.FunctionDef): yield node, node.name
        if isinstance(node, ast.ClassDef):
            yield from ((f, f'{node.name}.{f.name}') for f in node.body if isinstance(f, ast.FunctionDef))


def bodies(tree, names):
    "The functions to be emptied: those of these names, and the `forward` of a class of these names."
    for node, name in functions(tree):
        found = [wanted for wanted in (name, name.removesuffix('.forward')) if wanted in names]
        if found: yield node, found[0]


def emptied(text, names):
    "A cell in which the functions of these names are stubs; `names` says where each stands and which exercise it is."
    lines = text.splitlines()
    for node, name in reversed(list(bodies(ast.parse(text), names))):
        notebook, id = names[name]
        line = f'raise NotImplementedError("{id}: write {name} in nbs/{notebook}, then run nbdev-export")'
        first = node.body[ast.get_docstring(node) is not None and len(node.body) > 1]
        before = lines[first.lineno - 1][:first.col_offset]
        lines[first.lineno - 1:node.end_lineno] = [before + line]
    return '\n'.join(lines)


def rewrite(path, change):
    "Every code cell of a notebook; one that changes loses its outputs, and is not folded: there is something to write."
    nb = read(path)
    for cell in nb['cells']:
        text = text_of(cell)
        if cell['cell_type'] != 'code' or (new := change(text)) == text: continue
        cell |= {'source': new.splitlines(True), 'outputs': [], 'metadata': {}}
    path.write_text(written(nb), encoding='utf-8')


def without_pictures(path):
    "The outputs of a notebook stay, but of a figure only its size in words: a download of 20 MB would be figures."
    nb = read(path)
    for cell in nb['cells']:
        for out in cell.get('outputs', []): out.get('data', {}).pop('image/png', None)
    path.write_text(written(nb), encoding='utf-8')


def exported(text): return re.search(r'^#\| *export', text, re.M) is not None


def solved(text):
    "Tasks compare with the solutions, not with the reader's own code; widgets show what is right before it is written."
    text = text.replace("LIBRARY = 'transformer_nb'", "LIBRARY = 'solved'")
    return re.sub(r'^(\s*from) transformer_nb\.(?!course\.exercises)', r'\1 solved.', text, flags=re.M)


def copy(folder):
    "The project, and the package once more as `solved`."
    for part in PARTS:
        source = ROOT/part
        if source.is_dir(): shutil.copytree(source, folder/part, ignore=shutil.ignore_patterns(*OTHERS))
        elif source.exists(): shutil.copy(source, folder/part)
    own = shutil.ignore_patterns(*OTHERS, 'assets')  # it reads those of transformer_nb
    shutil.copytree(ROOT/'transformer_nb', folder/'solved', ignore=own)
    project, ours = folder/'pyproject.toml', '"transformer_nb.*"'
    project.write_text(project.read_text().replace(f'{ours}]', f'{ours}, "solved", "solved.*"]'))  # installed, too


def main(folder):
    folder.mkdir(parents=True)
    copy(folder)
    for path in (folder/'nbs').rglob('*.ipynb'): without_pictures(path)
    names = built()
    for notebook in dict.fromkeys(notebook for notebook, _ in names.values()):
        own = {name: place for name, place in names.items() if place[0] == notebook}  # others may use a name, too
        rewrite(folder/'nbs'/notebook, lambda text: emptied(text, own) if exported(text) else text)
    nbs = folder/'nbs'
    compared = [nbs/'22_exercises.ipynb', nbs/'course/widgets.ipynb', *(nbs/'course/tasks').glob('*.ipynb')]
    for path in compared: rewrite(path, solved)
    subprocess.run([Path(sys.executable).with_name('nbdev-export')], cwd=folder, check=True)
    first, _ = next(iter(names.values()))
    (folder/'START.md').write_text(START.format(n=len(names), first=first), encoding='utf-8')
    print(f'{folder}: {len(names)} functions and classes to write; START.md there says how')
    print(f'  begin     cd {folder} && make lab')


# ---- for nbgrader

IMPORTS = """import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_nb.attention import *
from transformer_nb.course.exercises import check, hint
from transformer_nb.multihead import *"""


def cell(kind, text, **about):
    code = dict(outputs=[], execution_count=None) if kind == 'code' else {}
    return dict(cell_type=kind, metadata=about, source=text.splitlines(True), **code)


def imports(lesson):
    "What the answers of a lesson may need: also what the lesson exports, and the modules that its exercises build."
    own = module_of(next(ROOT.glob(f'nbs/{lesson}_*.ipynb')))
    modules = dict.fromkeys(filter(None, [own, *(parted(e.builds)[0] for e in exercises(lesson) if e.builds)]))
    return IMPORTS + ''.join(f'\nfrom transformer_nb.{module} import *' for module in modules)


def assignment(lesson):
    "Cells of the exercises of a lesson: each a task, a place for the answer, and a locked cell that gives the points."
    tasks = [find(e.id) for e in exercises(lesson)]
    for part in ([e for e in tasks if is_first(e)], [e for e in tasks if not is_first(e)]):
        if part: yield cell('code', imports(lesson))  # anew: tasks at the end may use the lesson's own code
        for e in part:
            stub = begin(e).rsplit('\n\n', 1)[0] if issubclass(e, Write) else 'answer = ...  # your answer'
            name = re.search(r'^(?:def |class )?(\w+)', stub, re.M)[1]
            own = f"assert {name}.__module__ == '__main__', 'the answer must be yours'\n"*issubclass(e, Write)
            points = dict(grade=True, grade_id=e.id.replace('.', '-'), locked=True, points=e.level, schema_version=3,
                          solution=False, task=False)
            yield cell('markdown', markdown(e).split('<details><summary>Solution')[0])
            yield cell('code', stub)
            yield cell('code', f"from transformer_nb.course.exercises import check\n\n{own}"
                       f"result = check('{e.id}', {name})\n"
                       'assert result.right, result', nbgrader=points)


def assignments(folder):
    "The exercises of all lessons, where nbgrader looks for them: `source/lesson_01/lesson_01.ipynb`."
    for lesson in dict.fromkeys(e.lesson for e in exercises()):
        path = folder/f'source/lesson_{lesson}/lesson_{lesson}.ipynb'
        path.parent.mkdir(parents=True)
        nb = made([*assignment(lesson)]) | {'nbformat_minor': 4}  # its cells have no ids
        path.write_text(written(nb), encoding='utf-8')


if __name__ == '__main__':
    for_class = '--nbgrader' in sys.argv
    named = [argument for argument in sys.argv[1:] if argument != '--nbgrader']
    make, default = (assignments, 'nbgrader') if for_class else (main, 'blank')
    folder = Path(named[0] if named else default).resolve()
    if folder.exists(): raise SystemExit(f'{folder}: is there already; move it away, or name another folder')
    make(folder)
