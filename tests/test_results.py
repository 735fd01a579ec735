"benchmarks/RESULTS.md shows what the files in benchmarks/results/ hold, and no measured number besides."
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT/'benchmarks'))  # after tests/, which has a module `hosts` of its own
import common  # noqa: E402
import render  # noqa: E402

from transformer_nb.data.corpora import load_builtin  # noqa: E402

PAGE = render.PAGE.read_text(encoding='utf-8')
FILES = sorted(path.stem for path in render.RESULTS.glob('*.json'))
NAMES = r'Tables? \d|Figures \d to \d'  # of the paper


def numbers_of_text(page):
    "What stands outside of blocks, code and links, and begins with a digit."
    text = render.BLOCK.sub('', page)
    text = re.sub(rf'`[^`]*`|\]\([^)]*\)|{NAMES}', '', text)
    return re.findall(r'(?<![\w.])\d[\d.,]*', text)


def test_page_is_what_the_files_give():
    assert not render.differing(PAGE, render.contents()), 'run python benchmarks/render.py'


def test_outside_of_blocks_there_is_no_table_and_no_number():
    assert not numbers_of_text(PAGE)
    assert not [line for line in render.BLOCK.sub('', PAGE).splitlines() if line.startswith('|')]


@pytest.mark.parametrize('line, found', [
    ('It is 1.2 times as fast, at 97 %.', ['1.2', '97']), ('| ours | 2,903 |', ['2,903']),
    ('See [Table 2](16a.ipynb), CTranslate2, int8 and `--batch 1 32`.', [])])
def test_a_number_typed_by_hand_is_seen(line, found): assert numbers_of_text(PAGE + line) == found


@pytest.mark.parametrize('name', FILES)
def test_each_file_is_shown_and_can_be_made_again(name):
    assert render.readers(name), 'neither this page nor a lesson shows it'
    assert (ROOT/'benchmarks'/f'{name}.py').exists(), 'no script of its name'


def test_minutes_of_the_scripts_are_those_of_the_files():
    "In the README of the benchmarks; but for tables that are not yet measured whole, and what is measured in seconds."
    text = (ROOT/'benchmarks/README.md').read_text(encoding='utf-8')
    typed = {name: int(n) for name, n in re.findall(r'^\| `python benchmarks/(\w+)\.py` \| (\d+) \|', text, re.M)}
    for name in set(typed) - {'table2', 'table3', 'threads', 'parallel'}:
        found = render.load(name)
        parts = [found[part] for part in ('grammar', 'grammar-semi')] if name == 'parsing' else [
            found if 'cpu_minutes' in found else found['about']]
        assert abs(typed[name] - sum(part['cpu_minutes'] for part in parts)) <= .5, name


def test_a_file_that_nobody_reads_is_noticed(): assert not render.readers('nobody')


@pytest.mark.parametrize('old, new, block', [
    ('| ours | 510 ', '| ours | 511 ', 'training'), ('<!-- /maps -->', '<!-- /map -->', 'maps'),
    ('\n## All files', '<!-- new -->\n1\n<!-- /new -->\n## All files', 'new')])
def test_check_names_the_block(old, new, block, tmp_path, monkeypatch):
    page = tmp_path/'RESULTS.md'
    page.write_text(PAGE.replace(old, new, 1), encoding='utf-8')
    monkeypatch.setattr(render, 'PAGE', page)
    with pytest.raises(SystemExit) as stopped: render.main(check=True)
    assert str(stopped.value) == f'RESULTS.md, out of date: {block}'


def test_what_was_changed_by_hand_is_written_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(render, 'PAGE', tmp_path/'RESULTS.md')
    render.PAGE.write_text(PAGE.replace('| ours | 510 ', '| ours | 511 ', 1), encoding='utf-8')
    render.main(check=False)
    assert render.PAGE.read_text(encoding='utf-8') == PAGE


@pytest.mark.parametrize('values, middle, text', [
    ([479.2, 510.02, 523.4], None, '510 [479 to 523]'), ([556, 621, 645], None, '620 [560 to 640]'),
    ([.8, 1.09], 1.043, '1.0 [0.80 to 1.1]'), ([.9996, .9999, .99992], None, '1.00 [1.00 to 1.00]'),
    ([933.14], None, '930'), ([2761, 2916], 2902.9, '2,900 [2,760 to 2,920]')])
def test_digits_follow_the_range(values, middle, text): assert render.ranged(values, middle) == text


def test_ratios_are_taken_repetition_by_repetition():
    def row(*seconds):
        return {'repetitions': [{'seconds': s} for s in seconds], 'tokens_per_s': 10/sorted(seconds)[1]}
    assert render.times_as_fast(row(1, 2, 3), row(2, 4, 9)) == '2.0 [2.0 to 3.0]'
    assert render.times_as_fast(row(1, 2, 3), row(2, 4)) == '2.0 [0.67 to 4.0]', 'one was left out: any two'


@pytest.mark.parametrize('name', FILES)
def test_every_run_has_a_commit(name):
    "Its own, or that with which it came; then it is still what came with it."
    for key, run in render.runs_of(render.load(name)).items():
        told = render.since(name, key, run)
        assert all(re.search(r'`[0-9a-f]{7}`', each) for each in told), f'{name}, {key}: {told}'
        if told[0].startswith('came with') and 'continued' not in run:
            was = render.CAME_WITH[name][key]['run']
            assert render.digest(run) == was, f'{name}, {key}: it has changed, and does not say by which commit'


def test_what_came_later_names_its_own_commit():
    of = {'commit': 'a'*40 + ', changed', 'date': '2026-11-26 12:00:00'}
    assert render.since('table2', '', {'about': of}) == ['`aaaaaaa`, changed (2026-11-26)']
    assert render.since('table2', '', {'continued': [of]})[0].startswith('came with `')
    assert render.since('nobody', '', {}) == ['not said'] == render.since('nobody', '', {'about': {'commit': None}})


@pytest.mark.slow
def test_the_built_in_corpus_is_that_of_the_files():
    "As today's grammar draws it; with another corpus these files would have to be made again."
    drawn = common.digest(load_builtin())
    assert render.load('attention_maps')['about']['corpus'] == drawn
    assert {render.CAME_WITH[name]['']['corpus'] for name in ('first_run', 'label_smoothing')} | {
        entry['corpus'] for entry in render.CAME_WITH['built_in'].values()} == {drawn}


def test_a_command_is_shown_without_the_paths_of_a_machine():
    assert render.without_paths('python a.py F --out /tmp/x/a.json --rows A') == 'python a.py F --out FILE --rows A'
    assert render.without_paths('python a.py --json a.json') == 'python a.py --json a.json'
    assert '/tmp/' not in PAGE and '/root/' not in PAGE


def test_what_a_file_says_of_itself():
    found = {'a': {'command': 'x'}, 'b': [{'command': 'y'}, {'command': 'x'}], 'commit': 'abc'}
    assert render.said(found, 'command') == ['x', 'y'] and render.said(found, 'commit') == ['abc']
