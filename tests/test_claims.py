"nbs/claims.ipynb: links lead somewhere, numbers are the files' and the paper's, a verdict cannot change unnoticed."

import ast
import json
import re
import shutil
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip('nbdev')
from drawn import unseen
from execnb.shell import CaptureShell
from fastcore.nbio import read_nb
from matplotlib.backend_bases import FigureCanvasBase

ROOT = Path(__file__).parent.parent
DATA = json.loads((ROOT/'nbs/claims.json').read_text(encoding='utf-8'))
CLAIMS = {claim['id']: claim for part in DATA['claims'].values() for claim in part}
VERDICTS = {'comes out', 'in part', 'does not come out', 'setting', 'shown', 'seen', 'not seen', 'opposite',
            'not reproduced'}

# The paper's figures once more, typed from the paper and not copied from claims.json.
FIGURES = {'bleu-de': (28.4, 27.3), 'bleu-fr': (41.8, 38.1), 'margin-de': (2.0, 28.4), 'twelve-hours': (8, 12),
           'layers': (6, 512), 'heads-cost': (8, 64), 'ffn': (512, 2048), 'wavelengths': (2, 10_000),
           'wmt': (4.5, 36, 37_000, 32_000), 'batches': (25_000,), 'p100': (8, 0.4, 1.0),
           'hours': (100_000, 12, 300_000, 3.5), 'adam': (0.9, 0.98, 1e-9), 'rate': (4000,), 'dropout-places': (0.1,),
           'smoothing': (0.1,), 'flops': (9.5, 3.3, 2.3), 'search': (4, 0.6, 50, 5, 20, 10), 'one-head': (0.9,),
           'many-heads': (32, 16), 'parameters': (65, 28, 168), 'parameters-big': (213,),
           'table3-values': (4.92, 25.8, 4.33, 26.4), 'wsj': (4, 1024, 16_000, 40_000, 91.3),
           'semi': (17, 32_000, 92.7), 'dropout-french': (0.1, 0.3), 'tree-limits': (300, 21, 0.3)}
TABLE2 = {'ByteNet': (23.75, None, None, None), 'GNMT + RL': (24.6, 39.92, 2.3e19, 1.4e20),
          'ConvS2S': (25.16, 40.46, 9.6e18, 1.5e20), 'MoE': (26.03, 40.56, 2e19, 1.2e20),
          'GNMT + RL ensemble': (26.3, 41.16, 1.8e20, 1.1e21), 'ConvS2S ensemble': (26.36, 41.29, 7.7e19, 1.2e21),
          'Transformer base': (27.3, 38.1, 3.3e18, 3.3e18), 'Transformer big': (28.4, 41.8, 2.3e19, 2.3e19)}
TABLE4 = [88.3, 90.4, 90.4, 91.7, 91.3, 91.3, 91.3, 92.1, 92.1, 92.7, 93.0, 93.3]


def run_notebook(folder, monkeypatch):
    "Run claims.ipynb of a copy of the project; returns the notebook with fresh outputs, and its names."
    monkeypatch.chdir(folder/'nbs')
    monkeypatch.setattr(FigureCanvasBase, 'print_figure', unseen(FigureCanvasBase.print_figure))
    nb, shell = read_nb(folder/'nbs/claims.ipynb'), CaptureShell()
    shell.run_all(nb, exc_stop=True)
    return nb, shell.user_ns


def texts(nb):
    "What the code cells put out as text, a string for each."
    outputs = [out for cell in nb['cells'] for out in cell.get('outputs', [])]
    return [''.join(out['text'] if 'text' in out else out.get('data', {}).get('text/markdown', '')) for out in outputs]


@pytest.fixture
def copy(tmp_path):
    "What the notebook reads, to be changed."
    (tmp_path/'nbs/further').mkdir(parents=True)
    for name in ('claims.json', 'claims.ipynb', '02_multihead.ipynb', 'further/additive_attention.ipynb'):
        shutil.copy(ROOT/'nbs'/name, tmp_path/'nbs'/name)
    shutil.copytree(ROOT/'benchmarks/results', tmp_path/'benchmarks/results')
    return tmp_path


def change(file, edit):
    data = json.loads(file.read_text(encoding='utf-8'))
    edit(data)
    file.write_text(json.dumps(data), encoding='utf-8')


# ---- the page is up to date

def test_page_shows_what_the_files_say(monkeypatch):
    fresh, names = run_notebook(ROOT, monkeypatch)
    saved = json.loads((ROOT/'nbs/claims.ipynb').read_text(encoding='utf-8'))
    for old, new in zip(texts(saved), texts(fresh), strict=True):
        assert old == new, 'a number has drifted: run nbs/claims.ipynb again, and read it'
    assert set(names['FOUND']) == set(CLAIMS)


# ---- a verdict that changes

HEADS = 'benchmarks/results/heads.json'


def one_head_is_better(data):
    for run in data['runs']:
        if run['row'] == 'A1': run |= {'bleu': run['bleu'] + 10, 'val_loss': run['val_loss'] - .5}


def no_dropout_is_better(data):
    for run in data['runs']:
        if run['row'] == 'D1': run |= {'bleu': run['bleu'] + 30, 'val_loss': run['val_loss'] - 3}


def recurrence_remembers(data):
    for run in data['recall']['runs']:
        if (run['layers'], run['distance']) == ('recurrent', 64): run['accuracy'] = 1.


def waves_go_on(data):
    for run in data['runs']:
        if run['kind'] == 'sinusoids': run['at'] = [1.]*len(run['at'])


def all_find(kind, where, models=3, layers=2, splits=('validation', 'test')):
    "A change of heads.json: in the last so many trained models every head of the first layers looks at the right word."
    def edit(data):
        trained = [run['dependencies'] for run in data['runs'] if run['model'] != 'untrained']
        for far in trained[-models:]:
            for split in splits:
                for layer in far[kind][where][split][:layers]: layer[:] = [.99]*len(layer)
    return edit


def silver_helps(data): data['grammar-semi']['scores']['gold+silver']['f1'] = 99.
def nobody_is_ahead(data):
    for run in data['runs']:
        for split in ('test', 'unseen'): run['curve'][-1][split]['f1'] = 90. + run['seed']


def no_divisor_is_needed(notebook):
    "Numbers that are read from a lesson's output: without divisor as good as with it."
    for cell in notebook['cells']:
        for out in cell.get('outputs', []):
            lines = [re.sub('^nothing .*', 'nothing 100 100 100 100 100', line) for line in out.get('text', [])]
            if lines: out['text'] = lines


CHANGES = {'one-head': ('benchmarks/results/table3.json', one_head_is_better, 'opposite'),
           'dropout': ('benchmarks/results/table3_few.json', no_dropout_is_better, 'opposite'),
           'anaphora': (HEADS, all_find('pronoun', 'encoder', layers=1), 'seen'),
           'structure': (HEADS, all_find('agreement', 'encoder'), 'seen'),
           'distant': (HEADS, all_find('bracket', 'decoder'), 'seen'),
           'extrapolation': ('benchmarks/results/positions.json', waves_go_on, 'seen'),
           'short-paths': ('benchmarks/results/table1.json', recurrence_remembers, 'not seen'),
           'semi-helps': ('benchmarks/results/parsing.json', silver_helps, 'seen'),
           'few-trees': ('benchmarks/results/parsing_rnn.json', nobody_is_ahead, 'not seen'),
           'additive-learns': ('nbs/further/additive_attention.ipynb', no_divisor_is_needed, 'not seen')}
TWO = [name for name in CHANGES if name != 'structure'], ['structure']  # heads for pronouns are none yet


@pytest.mark.parametrize('names', TWO, ids=['most', 'structure'])
def test_results_that_change_verdicts_stop_the_page(names, copy, monkeypatch):
    "It names the claims, each with both verdicts; no other claim has drifted."
    for file, edit, _ in map(CHANGES.get, names): change(copy/file, edit)
    with pytest.raises(AssertionError) as stopped: run_notebook(copy, monkeypatch)
    drifted, advice = str(stopped.value).split('. ')
    assert {*drifted.split('; ')} == {
        f"claim {list(CLAIMS).index(name) + 1}, {name}: the numbers give '{CHANGES[name][2]}', "
        f"claims.json says '{CLAIMS[name]['verdict']}'" for name in names}
    assert advice == 'Read the numbers; then change the verdict in claims.json'


def test_heads_count_in_all_models_and_on_both_sets_of_sentences(copy, monkeypatch):
    "In two models of three, or only where they were chosen or scored, they change no verdict; the numbers are shown."
    for edit in (all_find('pronoun', 'encoder', layers=1, models=2),
                 all_find('bracket', 'decoder', splits=['validation']),
                 all_find('agreement', 'encoder', splits=['test'])): change(copy/HEADS, edit)
    nb, names = run_notebook(copy, monkeypatch)
    for name, said in {'anaphora': '0, [4-9] and [4-9] of 16 encoder heads .* holds in 2 of the 3 models',
                       'distant': '[0-3], [0-3] and [0-3] of 16 decoder heads .* holds in 0 of the 3 models',
                       'structure': 'Any two .* But 0, [4-9] and [4-9] of 16'}.items():
        assert re.search(rf"○ {names['NUMBER'][name]} 3 models[:.] {said}", '\n'.join(texts(nb))), name


def test_a_verdict_that_was_read_is_shown(copy, monkeypatch):
    "The same change, and the verdict changed after it: the page says so."
    change(copy/'benchmarks/results/table3.json', one_head_is_better)
    file = copy/'nbs/claims.json'
    text, start = file.read_text(encoding='utf-8'), '{"id": "one-head"'
    before, after = text.split(start)
    file.write_text(before + start + after.replace('"verdict": "seen"', '"verdict": "opposite"', 1), encoding='utf-8')
    nb, names = run_notebook(copy, monkeypatch)
    page, number = '\n'.join(texts(nb)), names['NUMBER']['one-head']
    assert re.search(rf'\| {number} \| A single head .* \| ▼ the opposite seen \| A1: \+\d', page)


def test_a_wrong_figure_stops_the_page(copy, monkeypatch):
    def paths(data): data['paths']['hops']['dilated'][-1] += 1
    change(copy/'benchmarks/results/table1.json', paths)
    with pytest.raises(AssertionError): run_notebook(copy, monkeypatch)


# ---- links

@cache
def lines_of(page):
    "Kind of cell and text, for each line of a notebook."
    cells = json.loads((ROOT/'nbs'/f'{page}.ipynb').read_text(encoding='utf-8'))['cells']
    return [(cell['cell_type'], line) for cell in cells for line in ''.join(cell['source']).splitlines()]


def code_under(page, heading):
    "The lines of code from a heading of a notebook to the next one; fails if there is not exactly one such heading."
    lines = lines_of(page)
    is_heading = lambda kind, line: kind == 'markdown' and re.match('#{2,3} ', line)
    starts = [i for i, (kind, line) in enumerate(lines) if is_heading(kind, line) and line.lstrip('# ') == heading]
    assert len(starts) == 1, f'{page}: {len(starts)} headings {heading!r}'
    end = next((i for i in range(starts[0] + 1, len(lines)) if is_heading(*lines[i])), len(lines))
    return [line for kind, line in lines[starts[0]:end] if kind == 'code']


@pytest.mark.parametrize('name', CLAIMS)
def test_claim_leads_to_its_check(name):
    claim = CLAIMS[name]
    open_, typed = claim['verdict'] == 'not reproduced', 'found' in claim
    assert claim['verdict'] in VERDICTS and claim['see'] and open_ == ('needs' in claim) == typed
    for place in claim['see']:
        page, heading = place.split('#', 1)
        code_under(page or 'claims', heading)
        anchor = heading.replace('*', '').replace(' ', '-')  # as Jupyter makes it
        assert f'#{anchor})' in tables(), place
    if 'asserted' in claim: assert is_run(claim['asserted'], *claim['see'][0].split('#', 1)), 'the check has gone'
    assert typed or re.search(rf"'{name}',\s", source_of_page()), 'nothing calculates it'


def is_run(statement, page, heading):
    "Is this a statement under a heading of a notebook, outside of functions (and no comment, no part of a text)?"
    lines = [line for line in code_under(page, heading) if not line.startswith(('%', '!'))]
    wanted, = ast.parse(statement).body
    return ast.dump(wanted) in map(ast.dump, ast.parse('\n'.join(lines)).body)


def test_a_statement_must_be_run(monkeypatch):
    "What only looks like the statement does not count."
    def lines(page): return [('markdown', '## Here'), *(('code', line) for line in code.splitlines())]
    monkeypatch.setitem(globals(), 'lines_of', lines)
    for code, counts in {'test_eq(a, b)': True, 'test_eq(a,  b)  # so': True, '# test_eq(a, b)': False,
                         'x = "test_eq(a, b)"': False, 'not_test_eq(a, b)': False,
                         'def f():\n    test_eq(a, b)': False}.items():
        assert is_run('test_eq(a, b)', 'page', 'Here') == counts, code


@cache
def tables():
    saved = json.loads((ROOT/'nbs/claims.ipynb').read_text(encoding='utf-8'))
    return next(text for text in texts(saved) if text.startswith('### Summary'))


def source_of_page(): return '\n'.join(line for _, line in lines_of('claims'))


def test_a_heading_that_is_gone_is_noticed():
    with pytest.raises(AssertionError, match='0 headings'): code_under('01_attention', 'No such heading')


@pytest.mark.parametrize('place', sorted({place for claim in CLAIMS.values() for place in claim.get('results', [])}))
def test_result_is_in_its_file(place):
    file, keys = place.split('#')
    value = json.loads((ROOT/'benchmarks/results'/file).read_text(encoding='utf-8'))
    for key in keys.split('/'): value = value[key]
    assert value not in ({}, [], None)


# ---- figures

def figures_in(text):
    "The numbers of a claim, without those of tables and without powers."
    text = re.sub(r'Table \d', '', text)
    return [
        float(n.replace(',', ''))
        for n in re.findall(r'(?<![\w.])\d[\d,]*(?:\.\d+)?', text.translate(str.maketrans('', '', '⁰¹²³⁴⁵⁶⁷⁸⁹')))
    ]


def test_figures_are_the_papers():
    for name, claim in CLAIMS.items():
        assert not set(figures_in(claim['claim'])) - set(claim['paper']), name
        assert set(FIGURES.get(name, ())) <= set(claim['paper']), name
    assert {row[0]: tuple(row[2:]) for row in DATA['table2']['rows'] if row[0] in TABLE2} == TABLE2
    assert [row[-1] for row in DATA['table4']['rows']] == TABLE4


def test_table3_of_the_lesson_is_the_papers():
    from transformer_nb.experiments.variations import PAPER
    bleu = {row: b for row, (_, b, _) in PAPER.items()}
    assert bleu == dict(base=25.8, A1=24.9, A2=25.5, A3=25.8, A4=25.4, B1=25.1, B2=25.4, C1=23.7, C2=25.3, C3=25.5,
                        C4=24.5, C5=26.0, C6=25.4, C7=26.2, D1=24.6, D2=25.5, D3=25.3, D4=25.7, E=25.7, big=26.4)
    assert {row: m for row, (_, _, m) in PAPER.items() if m} == dict(
        base=65, B1=58, B2=60, C1=36, C2=50, C3=80, C4=28, C5=168, C6=53, C7=90, big=213)


# ---- commands

COMMANDS = 'cli.py', 'train/trainer.py'  # the commands, and TrainingConfig, whose settings are options of tnb-train


def options_of(program):
    "The options that a command of the package or a script accepts."
    if program.startswith('benchmarks/'): text = (ROOT/program).read_text(encoding='utf-8')
    else: text = '\n'.join((ROOT/'transformer_nb'/file).read_text(encoding='utf-8') for file in COMMANDS)
    declared = set(re.findall(r"'(--[a-z][a-z-]*)'", text)) | {
        '--' + name.replace('_', '-') for name in re.findall(r'^    (\w+):\w', text, re.M)
    }
    return declared | {
        '--' + name.replace('_', '-')
        for names in re.findall(r'^TUNABLE = dict\((.*?)\)$', text, re.M | re.S)
        for name in re.findall(r'(\w+)=', names)
    }


@pytest.mark.parametrize('command', [command for recipe in DATA['recipes'].values() for command in recipe['commands']])
def test_command_has_these_options(command):
    own = command.split('--no-python ')[-1].removeprefix('python ')
    program, *rest = own.split()
    assert program in ('tnb-train', 'tnb-eval') or (ROOT/program).exists()
    given = {word for word in rest if word.startswith('--')}
    assert given <= {option.replace('_', '-') for option in options_of(program)}, given


def test_each_recipe_is_needed():
    assert {claim['needs'] for claim in CLAIMS.values() if 'needs' in claim} == set(DATA['recipes'])


def test_names_in_recipes_exist():
    "`module.name` in the text of a recipe."
    said = ' '.join(recipe['what'] for recipe in DATA['recipes'].values())
    dotted = set(re.findall(r'`([a-z_0-9]+\.[a-z_0-9]+\.[a-z_]+)`', said))
    assert dotted
    for module, _, name in (name.rpartition('.') for name in dotted):
        assert hasattr(import_module(f'transformer_nb.{module}'), name), name
