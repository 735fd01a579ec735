"""The exported modules are what the notebooks say; notebooks are executed and clean; no floor imports one above it,
no folder one that imports it."""
import ast
import json
import re
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytest.importorskip('nbdev')
from nbdev.export import nb_export
from notebooks import read, text_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT/'transformer_nb'
NOTEBOOKS = sorted((ROOT/'nbs').rglob('[!.]*.ipynb'))
# 'parts.packing': its notebook
MODULES = {m[1]: nb for nb in NOTEBOOKS if (m := re.search(r'#\| *default_exp ([\w.]+)', nb.read_text()))}

FLOORS = [  # from the ground up: a module imports from its own floor and from those before it
    ['errors', 'devices', 'core', 'files', 'config'],
    ['attention', 'multihead', 'feed_forward', 'embeddings', 'positional_encoding', 'regularization', 'variants',
     'transformer'],  # §3: the model, and what it computes its loss with
    ['parts.*'],  # what takes the place of parts of the model
    ['english_german.*'],
    ['data.*'],  # §5.1
    ['optimizer', 'checkpoints'],  # §5.3
    ['train.*'],  # §5.2
    ['interop.*'],
    ['decode.*'],  # §6.1
    ['experiments.*'],  # §4, 6.2, 6.3
    ['course.*'],
    ['cli']]
KNOW_NO_MODEL = 'english_german.*', 'data.*'
# Imports that still run upward, or round in a circle, all of them inside a function; no other may come.
UPWARD = {
    ('transformer', 'checkpoints'):
        '`Transformer.from_pretrained` reads a checkpoint, wherever the class came from',
}
# Modules that import by a name known only at run time: tasks and right answers; packages of others.
COMPUTED = {'course.exercises', 'interop.export'}


@pytest.mark.parametrize('module', MODULES)
def test_no_heading_is_called_as_what_is_exported(module):
    "On the site both would have the same address, which then leads to the first of them."
    text = '\n'.join(text_of(cell) for cell in read(MODULES[module])['cells'] if cell['cell_type'] == 'markdown')
    headings = {re.sub(r'[^\w-]', '', h.lower().replace(' ', '-')) for h in re.findall(r'^##+ +(.+)$', text, re.M)}
    names = {node.name.lower() for node in ast.parse(file_of(module).read_text(encoding='utf-8')).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert not headings & names


def file_of(module):
    return PACKAGE/f"{module.replace('.', '/')}.py"


def on(module, floor): return any(fnmatch(module, pattern) for pattern in floor)


def imports(module):
    "The modules of this package that a module names, wherever it stands in it."
    return named_in(file_of(module).read_text(), module) & set(MODULES)


def named_in(text, module):
    "What a module's text imports of this package, at its top or inside functions, by a statement or by a string."
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom): found |= {*from_names(node, module)}
        elif isinstance(node, ast.Import): found |= {inside(name.name) for name in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str): found.add(inside(node.value))
    return found - {None}


def inside(name):
    "A module's name within the package; None for what is elsewhere."
    return name.removeprefix('transformer_nb.') if re.fullmatch(r'transformer_nb(\.\w+)+', name) else None


def from_names(node, module):
    "`from ..data import corpora, tokenizer`: both modules, and the folder, too."
    folder = ['transformer_nb', *module.split('.')[:-1]]
    start = folder[:len(folder) - node.level + 1] if node.level else []
    path = '.'.join([*start, *filter(None, [node.module])])
    return [inside(path), *(inside(f'{path}.{name.name}') for name in node.names)]


def test_every_module_has_a_notebook():
    files = {path.relative_to(PACKAGE).with_suffix('') for path in PACKAGE.rglob('*.py')}
    assert {'.'.join(path.parts) for path in files if path.name not in ('__init__', '_modidx')} == set(MODULES)


@pytest.mark.parametrize('module', MODULES)
def test_module_is_in_step_with_its_notebook(module, tmp_path):
    package = tmp_path/'transformer_nb'  # the package's name decides how imports are written
    nb_export(MODULES[module], package)
    exported = (package/f"{module.replace('.', '/')}.py").read_text()
    assert in_place(exported) == in_place(file_of(module).read_text()), 'run nbdev-export'


def in_place(text):
    "Without what depends on where the file stands."
    text = re.sub(r'(# %%|File to edit:) \S*nbs/', r'\1 nbs/', text)
    return re.sub(r'^( *from )(\.+|transformer_nb\b\.?)', r'\1.', text, flags=re.M)


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_is_executed_without_errors(path):
    cells = [c for c in json.loads(path.read_text())['cells'] if c['cell_type'] == 'code']
    outputs = [o for c in cells if ''.join(c['source']).strip() for o in c['outputs']]
    assert not [o for o in outputs if o['output_type'] == 'error']
    assert outputs or not cells, 'no stored output at all: execute the notebook'


def test_every_module_stands_on_one_floor():
    assert {module: sum(on(module, floor) for floor in FLOORS) for module in MODULES} == dict.fromkeys(MODULES, 1)


@pytest.mark.parametrize('module', MODULES)
def test_modules_import_only_lower_floors(module):
    below = FLOORS[:next(i for i, floor in enumerate(FLOORS) if on(module, floor)) + 1]
    wrong = {name for name in imports(module) if not any(on(name, floor) for floor in below)}
    wrong -= {to for start, to in UPWARD if start == module}
    assert not wrong, f'{module} imports {sorted(wrong)}'


@pytest.mark.parametrize('module', [module for module in MODULES if on(module, KNOW_NO_MODEL)])
def test_data_know_no_model(module):
    assert not [name for name in imports(module) if on(name, FLOORS[1])]


def folder(module):
    "Its folder; a module that lies in none is a place of its own."
    return module.partition('.')[0]


@pytest.mark.parametrize('place', [folder, str], ids=['folders', 'modules'])
def test_nothing_imports_what_imports_it(place):
    "Not in a circle of several, either."
    arrows = {(place(a), place(b)) for a in MODULES for b in imports(a) if (a, b) not in UPWARD}
    graph = {}
    for start, end in arrows:
        if start != end: graph.setdefault(start, set()).add(end)
    try: TopologicalSorter(graph).prepare()
    except CycleError as e: pytest.fail(' ← '.join(e.args[1]))


def test_exceptions_are_still_needed():
    assert not [(start, end) for start, end in UPWARD if end not in imports(start)], 'strike them out of UPWARD'


def test_no_other_module_computes_what_it_imports():
    "Or the tests above could not see it."
    def is_computed(node):
        called = isinstance(node, ast.Call) and getattr(node.func, 'attr', getattr(node.func, 'id', ''))
        return called in ('import_module', '__import__') and not isinstance(node.args[0], ast.Constant)
    found = {module for module in MODULES if any(map(is_computed, ast.walk(ast.parse(file_of(module).read_text()))))}
    assert found == COMPUTED


def test_imports_are_found():
    "Or the tests above would see nothing."
    text = """from ..core import InputError
from .runs import *
from .. import checkpoints
def later():
    from ..data import corpora as c
    import transformer_nb.cli, os
    return import_module('transformer_nb.course.viewer').viewed"""
    found = named_in(text, 'train.trainer') & set(MODULES)
    assert found == {'core', 'train.runs', 'checkpoints', 'data.corpora', 'cli', 'course.viewer'}
