"The exported modules are what the notebooks say, and the notebooks are executed and clean."
import json
import re
from pathlib import Path

import pytest
from nbdev.export import nb_export

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT/'nbs').glob('*.ipynb'))
MODULES = {re.search(r'#\| *default_exp (\w+)', nb.read_text())[1]: nb for nb in NOTEBOOKS if 'default_exp' in nb.read_text()}


def test_every_module_has_a_notebook():
    assert {p.stem for p in (ROOT/'transformer_nb').glob('*.py')} - {'__init__', '_modidx'} == set(MODULES)


@pytest.mark.parametrize('module', MODULES)
def test_module_is_in_step_with_its_notebook(module, tmp_path):
    nb_export(MODULES[module], tmp_path)
    exported = (tmp_path/f'{module}.py').read_text()
    exported = re.sub(r'(# %%|File to edit:) \S*nbs/', r'\1 ../nbs/', exported)     # paths are relative to the target,
    exported = exported.replace('from transformer_nb.', 'from .').replace('from transformer_nb ', 'from . ')  # imports to the package
    assert exported == (ROOT/f'transformer_nb/{module}.py').read_text(), 'run nbdev-export'


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_is_executed_without_errors(path):
    code = [c for c in json.loads(path.read_text())['cells'] if c['cell_type'] == 'code' and ''.join(c['source']).strip()]
    outputs = [o for c in code for o in c['outputs']]
    assert not [o for o in outputs if o['output_type'] == 'error']
    assert outputs or not code, 'no stored output at all: execute the notebook'


def test_modules_import_only_lower_floors():
    "Each module imports only modules whose lesson has no higher number."
    order = {module: int(nb.stem[:2]) for module, nb in MODULES.items()}
    for module in MODULES:
        text = (ROOT/f'transformer_nb/{module}.py').read_text()
        used = set(re.findall(r'from \.(\w+) import', text)) | {
            name.strip().split(' ')[0] for names in re.findall(r'from \. import (.*)', text) for name in names.split(',')} - {'__version__'}
        assert used or module in ('core', 'attention', 'feed_forward', 'agreement', 'optimizer', 'regularization'), f'{module}: no import found'
        assert all(order[m] <= order[module] for m in used), f'{module} imports {sorted(used)}'
