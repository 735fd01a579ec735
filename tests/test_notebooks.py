"""Every notebook runs from top to bottom without an error, as `nbdev-test` runs it, each in a process of its own;
with --slow the cells marked `#| slow`, too: experiments of some seconds, and what uses their results."""
import json
import re
import sys
from statistics import median

import pytest

pytest.importorskip('nbdev')
from conftest import ROOT, run_notebook
from fastcore.nbio import mk_cell, new_nb, read_nb, write_nb
from nbdev.config import get_config
from nbdev.doclinks import nbglob

sys.path.insert(0, str(ROOT/'tools'))
import build_languages

CONFIG = get_config(ROOT)
FOLDER = CONFIG.nbs_path
# Without what tools/build_languages.py makes of them
PATHS = sorted(path.absolute() for path in nbglob(FOLDER, as_path=True) if 'languages' not in path.parts)
# Run by test_claims.py and test_cards.py, which compare what comes out with what is saved
ELSEWHERE = 'claims', 'cards'
NAMES = {str(path.relative_to(FOLDER).with_suffix('')): path for path in PATHS}
NOTEBOOKS = {name: path for name, path in NAMES.items() if name not in ELSEWHERE}
# Seconds of those that take long: begun first, so that the workers end together
LONG = {
    '20_interop': 6,
    '14_training': 5,
    '06_transformer': 5,
    '07_why_self_attention': 4,
    '07a_baselines': 4,
    'train/01_costs': 4,
    '10_batching': 3,
    '18_parsing': 3,
    'course/tasks/15_decoding': 3,
    'train/06_trainer': 3,
}


def marks(name): return [pytest.mark.long(LONG[name])] if name in LONG else []


@pytest.mark.parametrize('name', [pytest.param(name, marks=marks(name)) for name in NOTEBOOKS])
def test_notebook_runs(name, tmp_path, request):
    skip = [] if request.config.getoption('--slow') else CONFIG.tst_flags.split()
    status, log = run_notebook(NOTEBOOKS[name], tmp_path, skip)
    assert status == 0, log


@pytest.mark.slow
@pytest.mark.parametrize('name', [name for name in NOTEBOOKS if re.match('0[0-6]', name)])
def test_a_cell_of_the_first_lessons_may_be_run_again(name, tmp_path):
    "Lesson 00 promises that nothing can be broken by it: no cell spoils what it reads."
    nb = read_nb(NOTEBOOKS[name])
    nb.cells = [again for cell in nb.cells for again in [cell]*(2 if cell.cell_type == 'code' else 1)]
    path = beside_the_others(tmp_path, f'{name}.ipynb')
    write_nb(nb, path)
    status, log = run_notebook(path, tmp_path, CONFIG.tst_flags.split())
    assert status == 0, log


def beside_the_others(tmp_path, name):
    "A place for a notebook from which it finds the other lessons and the results."
    (tmp_path/'nbs').mkdir()
    (tmp_path/'benchmarks').symlink_to(ROOT/'benchmarks')
    for other in [FOLDER/'sidebar.yml', *FOLDER.glob('*.ipynb')]:
        if other.name != name: (tmp_path/'nbs'/other.name).symlink_to(other)
    return tmp_path/'nbs'/name


@pytest.mark.slow
@pytest.mark.parametrize('language, number', [('ja', '04'), ('zh', '06'), ('ko', '00')])
def test_a_lesson_in_another_language_runs_in_its_folder(language, number, tmp_path):
    "Lesson 04 reads a file, lesson 00 the other lessons."
    name, _ = build_languages.lesson(number)
    path = beside_the_others(tmp_path, f'languages/{language}/{name}')
    path.parent.mkdir(parents=True)
    path.write_text(build_languages.notebook(language, number), encoding='utf-8')
    status, log = run_notebook(path, tmp_path, CONFIG.tst_flags.split())
    assert status == 0, log


def test_a_cell_that_fails_is_noticed(tmp_path):
    write_nb(new_nb([mk_cell('x = 1'), mk_cell("assert x == 2, 'not two'")]), tmp_path/'wrong.ipynb')
    status, log = run_notebook(tmp_path/'wrong.ipynb', tmp_path)
    assert status == 1 and 'AssertionError: not two' in re.sub(r'\x1b\[[\d;]*m', '', log)


def test_a_figure_that_cannot_be_drawn_is_noticed(tmp_path):
    source = "from matplotlib import pyplot\npyplot.gca().set_title(r'$\\frac$')"
    write_nb(new_nb([mk_cell(source)]), tmp_path/'wrong.ipynb')
    status, log = run_notebook(tmp_path/'wrong.ipynb', tmp_path)
    assert status == 1 and r'Expected \frac{num}{den}' in log


def test_the_stored_table_of_stalls_is_that_of_the_results():
    "A result that is measured anew must not leave the old numbers in the lesson."
    results = json.loads((ROOT/'benchmarks/results/checkpoint_stall.json').read_text(encoding='utf-8'))
    lesson = json.loads((FOLDER/'train/03_hosts.ipynb').read_text(encoding='utf-8'))
    stored, = (''.join(out['data']['text/markdown']) for cell in lesson['cells'] for out in cell.get('outputs', [])
               if 'checkpoint_stall.json' in ''.join(cell['source']))
    for name, row in results.items():
        for way, times in row['ways'].items():
            waits, written = (median(times[part]) for part in ('stall_s', 'written_s'))
            assert f"| {name} | {way} | {row['bytes']/1e9:.2f} | {waits:.2f} | {written:.2f} |" in stored, way
