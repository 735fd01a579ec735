"The exported modules are what the notebooks say; notebooks are executed and clean; no floor imports one above it."
import ast
import json
import re
from pathlib import Path

import pytest

pytest.importorskip('nbdev')
from nbdev.export import nb_export

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT/'transformer_nb'
NOTEBOOKS = sorted((ROOT/'nbs').rglob('[!.]*.ipynb'))
# 'engine.packing': its notebook
MODULES = {m[1]: nb for nb in NOTEBOOKS if (m := re.search(r'#\| *default_exp ([\w.]+)', nb.read_text()))}

FLOORS = [  # from the ground up: a module imports from its own floor and from those before it
    {'core'},
    {'config', 'regularization'},
    {'attention', 'multihead', 'feed_forward', 'embeddings', 'positional_encoding', 'variants', 'transformer'},  # §3
    {'english_german.agreement', 'english_german.clauses', 'english_german.constructions', 'english_german.grammar'},
    {'corpora', 'tokenizer', 'batching', 'optimizer', 'checkpoints', 'evaluation'},
    {'engine.parts', 'engine.look_inside',
     'engine.packing', 'engine.costs', 'engine.distributed', 'engine.products', 'engine.inference', 'engine.runs',
     'engine.formats', 'engine.cleaning', 'engine.shards', 'engine.recipes'},
    {'serving', 'engine.marian_nmt'},
    {'interop'},
    {'training', 'decoding', 'translation'},
    {'parsing', 'attention_maps'},
    {'experiments.why_self_attention', 'experiments.baselines', 'experiments.table2', 'experiments.variations',
     'experiments.heads', 'experiments.alignment', 'experiments.drawings', 'experiments.widgets'},
    {'exercises'},
    {module for module in MODULES if module.startswith('tasks.')},
    {'cli'}]
MODEL = FLOORS[2]
KNOW_NO_MODEL = FLOORS[3] | {'corpora', 'tokenizer', 'batching', 'engine.formats', 'engine.cleaning', 'engine.shards'}


def file_of(module):
    return PACKAGE/f"{module.replace('.', '/')}.py"


def imports(module):
    "The modules of this package that a module names in an import, wherever it stands in it."
    inside = ['transformer_nb', *module.split('.')[:-1]]
    for node in ast.walk(ast.parse(file_of(module).read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        named = node.module.split('.') if node.module else []
        if node.level: path = inside[1:len(inside) - node.level + 1] + named
        elif named[0] == 'transformer_nb': path = named[1:]
        else: continue
        whole = ['.'.join([*path, name.name]) for name in node.names]
        yield from ['.'.join(path)] if '.'.join(path) in MODULES else [name for name in whole if name in MODULES]


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


def test_every_module_stands_on_a_floor():
    assert set().union(*FLOORS) == set(MODULES)


@pytest.mark.parametrize('module', MODULES)
def test_modules_import_only_lower_floors(module):
    floor = next(i for i, modules in enumerate(FLOORS) if module in modules)
    wrong = set(imports(module)) - set().union(*FLOORS[:floor + 1])
    assert not wrong, f'{module} imports {sorted(wrong)}'


@pytest.mark.parametrize('module', sorted(KNOW_NO_MODEL))
def test_data_know_no_model(module):
    assert not set(imports(module)) & MODEL


def test_imports_are_found():
    "Or the tests above would see nothing."
    assert {'core', 'engine.packing', 'transformer'} <= set(imports('training'))
    assert 'english_german.clauses' in set(imports('english_german.grammar'))
