"Each script of benchmarks/ with --tiny: all of its code runs, and its file says by what it was measured."
import json
import os
import runpy
import sys
import time
from pathlib import Path

import pytest
from conftest import PROCESSES, few_pairs, write_into
from hosts import why_not

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT/'benchmarks'
FAST = ['positions', 'fixed_vector', 'first_run', 'threads', 'table1', 'checkpoint_stall']
SLOW = ['ablations', 'attention_maps', 'averaging', 'built_in', 'decode_speed', 'heads', 'label_smoothing', 'parallel',
        'parsing_rnn', 'parts', 'stream', 'table2', 'table3', 'table3_few', 'table3_short', 'train_speed', 'tying',
        'warmup']
WITH_DATA = {  # what they read lies in the working directory: `data`
    'against': [ROOT], 'dry_run': ['news', '--place', 'place'], 'multi30k': ['corpora/multi30k'],
    'parsing': ['--only', 'grammar', 'treebank', '--treebank', 'treebank'], 'recipes': ['corpora']}
ASKED = {'against', 'checkpoint_stall', 'decode_speed', 'hosts', 'large_corpus', 'parts', 'stream', 'train_speed'}


def begun(script, options, folder):
    "In a process of its own: the script as a terminal starts it."
    os.chdir(folder)
    os.environ['PYTHONPATH'] = str(ROOT)
    os.environ['PATH'] = os.pathsep.join([str(Path(sys.executable).parent), os.environ['PATH']])
    write_into('said')
    sys.argv, sys.path[0:0] = [f'{script}.py', *map(str, options)], [str(SCRIPTS)]
    runpy.run_path(str(SCRIPTS/f'{script}.py'), run_name='__main__')


def tiny(script, folder, *options):
    "What a script has written, as JSON."
    option = '--json' if script in ASKED else '--out'
    before = {file: file.stat().st_mtime_ns for file in (SCRIPTS/'results').iterdir()}
    process = PROCESSES.Process(target=begun, args=(script, [*options, '--tiny', option, 'found.json'], folder))
    process.start()
    process.join()
    said = (folder/'said').read_text()
    assert process.exitcode == 0 and 'left out' not in said, said
    assert before == {file: file.stat().st_mtime_ns for file in (SCRIPTS/'results').iterdir()}
    return json.loads((folder/'found.json').read_text())


def abouts(found):
    "Of the file, or of each row."
    return [found['about']] if 'about' in found else [row['about'] for row in found.values()]


def check(found, script):
    for about in abouts(found):
        assert about['command'].startswith(f'python benchmarks/{script}.py ') and '--tiny' in about['command']
        assert {'torch', 'numpy'} <= set(about['versions']) and about['seeds'] and about['cores'] and about['threads']
        assert {'commit', 'date', 'cpu', 'instructions', 'torch uses'} <= set(about)


@pytest.mark.parametrize('script', [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_script_runs(script, tmp_path): check(tiny(script, tmp_path), script)


@pytest.mark.slow
def test_train_speed_in_one_process(tmp_path):
    run, = tiny('train_speed', tmp_path, '--here').values()
    assert {'ours', 'torch.nn'} <= set(run['rows']) and all(len(r['repetitions']) == 2 for r in run['rows'].values())
    assert run['about']['commit'] and run['ceiling'] > 0


@pytest.fixture
def data(tmp_path):
    "A working directory with a few pairs and trees under the names that scripts look for."
    from transformer_nb.english_german.grammar import builtin_corpus
    pairs = few_pairs(1400)
    write_pairs(tmp_path/'corpora'/'multi30k', {'train': pairs[:300], 'val': pairs[300:303],
                                                'test_2016_flickr': pairs[303:306]})
    years = ['news-test2008', 'newssyscomb2009', *(f'newstest{year}' for year in range(2009, 2013))]
    write_pairs(tmp_path/'news', {year: pairs[40*i:40*i + 40] for i, year in enumerate(years)}
                | {'newstest2013': pairs[400:1400]})
    trees = [e.tree for e in builtin_corpus(300)['train']]
    (tmp_path/'treebank').mkdir()
    for name, part in (('0001', trees[:200]), ('0170', trees[200:203]), ('0190', trees[203:206])):
        (tmp_path/'treebank'/f'wsj_{name}.mrg').write_text('\n'.join(part))
    return tmp_path


def write_pairs(folder, splits):
    folder.mkdir(parents=True)
    for name, pairs in splits.items():
        for lang, side in zip(('en', 'de'), zip(*pairs)):
            (folder/f'{name}.{lang}').write_text(''.join(f'{line}\n' for line in side), encoding='utf-8')


@pytest.mark.slow
@pytest.mark.parametrize('script', WITH_DATA)
def test_script_that_reads_files_runs(script, data): check(tiny(script, data, *WITH_DATA[script]), script)


@pytest.mark.slow
def test_large_corpus_runs(tmp_path):
    for part in ('generate', 'prepare', 'train', 'speed', 'order'):
        if part == 'generate': (tmp_path/'found.json').write_text('{}')  # which it does not write
        found = tiny('large_corpus', tmp_path, part, 'folder')
    assert list(found) == ['prepare', 'train', 'speed', 'order'] and abouts(found)[0]['corpus']
    check(found, 'large_corpus')


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=why_not() or '')
@pytest.mark.parametrize('what', ['exchange', 'lost'])
def test_hosts_run(what, tmp_path): check(tiny('hosts', tmp_path, what), 'hosts')


def test_every_script_is_run():
    named = {*FAST, *SLOW, *WITH_DATA, 'large_corpus', 'hosts'}
    assert named == {file.stem for file in SCRIPTS.glob('*.py')} - {'common', 'render', 'workers'}


# What all share

@pytest.fixture
def experiment(monkeypatch, tmp_path):
    "A function that starts an experiment with some options."
    monkeypatch.syspath_prepend(SCRIPTS)
    from common import Experiment

    def start(*typed, **tiny):
        new = Experiment(SCRIPTS/'some.py', 'A script')
        new.option('--seeds', type=int, default=3)
        new.begin([*typed, '--out', str(tmp_path/'some.json')], **tiny)
        return new
    return start


def read(experiment): return json.loads(experiment.file.read_text())


def grid(experiment, made, stop=None, recipe=3, **more):
    "The squares of 0 to 3; with `stop` it is interrupted there."
    def make(n):
        if n == stop: raise KeyboardInterrupt
        made.append(n)
        return {'square': n*n}
    return experiment.grid({'recipe': recipe}, [{'n': n} for n in range(4)], make, **more)


def test_grid_goes_on_where_it_was_interrupted(experiment):
    made, first = [], experiment()
    with pytest.raises(KeyboardInterrupt): grid(first, made, stop=2)
    assert read(first)['left'] == 2 and 'continued' not in read(first)
    second = experiment('--seeds', '2')
    second.facts['date'] = 'later'
    assert [run['square'] for run in grid(second, made)] == [0, 1, 4, 9] and made == [0, 1, 2, 3]
    found = read(second)
    assert found['about']['seeds'] == [0, 1, 2] and [about['seeds'] for about in found['continued']] == [[0, 1]]
    assert 'left' not in found and len(found['runs']) == 4
    grid(experiment(), made)  # it was whole: all is measured anew
    assert made == [0, 1, 2, 3]*2 and 'continued' not in read(second)


def test_a_growing_file_is_added_to_and_never_with_another_recipe(experiment):
    made = []
    for _ in range(2): grid(experiment(), made, growing=True)
    assert made == [0, 1, 2, 3]
    with pytest.raises(SystemExit, match='another recipe'): grid(experiment(), made, growing=True, recipe=4)


def squared(n):
    "In a process of its own, which says how many threads it has; where the file 'broken' lies, 2 breaks after another."
    import torch
    if n == 2 and Path('broken').exists():
        while not Path('some.json').exists(): time.sleep(.01)
        raise ValueError('broken')
    return {'square': n*n, 'process': os.getpid(), 'threads': torch.get_num_threads()}


def test_jobs_at_once_are_processes_and_each_is_kept(experiment, tmp_path, monkeypatch):
    import torch
    monkeypatch.chdir(tmp_path)
    threads, jobs = torch.get_num_threads(), [{'n': n} for n in range(4)]
    def start(): return experiment().grid({'recipe': 3}, jobs, squared, at_once=2)
    try:
        Path('broken').touch()
        with pytest.raises(ValueError, match='broken'): start()
        found = read(experiment())
        assert 2 not in {run['n'] for run in found['runs']} and found['left'] == 4 - len(found['runs'])
        Path('broken').unlink()
        runs = start()
    finally: torch.set_num_threads(threads)
    assert sorted((run['n'], run['square']) for run in runs) == [(n, n*n) for n in range(4)]
    assert {run['threads'] for run in runs} == {1} and os.getpid() not in {run['process'] for run in runs}
    assert len(read(experiment())['runs']) == 4 and 'left' not in read(experiment())


def test_tiny_has_other_defaults_and_never_writes_into_results(experiment, tmp_path):
    from common import RESULTS, Experiment
    assert experiment('--tiny', seeds=1).args.seeds == 1 and experiment(seeds=1).args.seeds == 3
    assert experiment('--tiny', '--seeds', '2', seeds=1).args.seeds == 2
    for asked, typed in ((False, ()), (True, ()), (True, ['--json']), (False, ['--out', str(RESULTS/'a.json')])):
        new = Experiment(SCRIPTS/'some.py', 'A script', asked)
        new.begin(['--tiny', *typed])
        assert new.file.parent.exists() and RESULTS not in new.file.parents


def test_commit_is_none_outside_git(experiment, monkeypatch, tmp_path):
    import common
    monkeypatch.setattr(common, 'ROOT', tmp_path)
    assert experiment().about['commit'] is None
    monkeypatch.setenv('COMMIT', 'the one that was copied')
    assert experiment().about['commit'] == 'the one that was copied'


def test_peers_have_versions_if_workers_import_them(experiment, monkeypatch):
    for name in ('ctranslate2', 'transformers'): monkeypatch.delitem(sys.modules, name, raising=False)  # other tests'
    new = experiment()
    assert 'ctranslate2' not in new.about['versions']
    pytest.importorskip('ctranslate2')
    new.peers = ['ctranslate2']
    assert new.about['versions']['ctranslate2']


def test_digest_is_of_every_sentence(experiment):
    from common import digest
    one = digest({'train': [('a', 'b')], 'val': [('c', 'd')]})
    assert len(one) == 16 and one == digest({'train': [['a', 'b']], 'val': [['c', 'd']]})
    assert one != digest({'train': [('a', 'b')], 'val': [('c', 'e')]})
