"Exercises: the lessons show what their source says, and whatever a reader gives, `check` answers with a line."
import json
import os
import re
import shutil
import subprocess
import sys
import types
from itertools import islice
from math import cos, sin
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import ROOT, begin, script

from transformer_nb import variants
from transformer_nb.core import InputError
from transformer_nb.course import exercises as ex
from transformer_nb.data.tokenizer import BOS, EOS
from transformer_nb.experiments.why_self_attention import path_lengths

ALL = ex.exercises()
FIRST = [e for e in ALL if ex.is_first(ex.find(e.id))]


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv('TNB_PROGRESS', str(tmp_path/'home'/'progress.json'))


def test_lessons_show_what_the_source_says():
    assert script(ROOT/'tools/build_exercises.py', '--check') == (0, '')


def test_the_notebook_shows_todays_list():
    "The site shows what notebooks hold, and runs none of them."
    cells = json.loads((ROOT/'nbs/22_exercises.ipynb').read_text(encoding='utf-8'))['cells']
    shown, = [c['outputs'] for c in cells if ''.join(c['source']).endswith('library.exercises()')]
    assert ''.join(shown[0]['data']['text/plain']) == repr(ALL)


def test_a_lesson_out_of_step_is_noticed(tmp_path):
    for folder in ('nbs', 'tools'): (tmp_path/folder).mkdir()
    for name in ('build_exercises.py', 'notebooks.py'): shutil.copy(ROOT/'tools'/name, tmp_path/'tools')
    for path in ROOT.glob('nbs/*.ipynb'):
        text = path.read_text().replace('Your turn first: Equation 1', 'Your turn first: Equation 2')
        (tmp_path/'nbs'/path.name).write_text(text)
    status, said = script(tmp_path/'tools/build_exercises.py', '--check', cwd=tmp_path)
    assert status == 1 and said.strip() == 'run tools/build_exercises.py for 01_attention.ipynb'


def test_ids_are_a_lesson_and_a_number():
    for lesson in dict.fromkeys(e.lesson for e in ALL):
        mine = [e for e in ALL if e.lesson == lesson]
        assert [e.id for e in mine] == [f'{lesson}.{n}' for n in range(1, len(mine) + 1)]
        assert len(list(ROOT.glob(f'nbs/{lesson}_*.ipynb'))) == 1
    assert {e.kind for e in ALL} <= {'write', 'predict', 'find the bug', 'explain'}
    assert {e.level for e in ALL} <= {1, 2, 3} and all(1 <= e.minutes <= 60 for e in ALL)
    assert all(ex.find(e.id).hints for e in ALL)


def test_every_task_tests_itself_where_it_is_written():
    "`self_test` runs right answers, a different right one, wrong ones and garbage."
    text = ''.join(''.join(c['source']) for path in ROOT.glob('nbs/course/tasks/*.ipynb')
                   for c in json.loads(path.read_text())['cells'] if c['cell_type'] == 'code')
    assert [e.id for e in ALL if f"self_test('{e.id}'" not in text] == []


@pytest.mark.parametrize('entry', FIRST, ids=lambda e: e.id)
def test_an_empty_stub_is_told_to_be_written(entry):
    given = []
    names = {'check': lambda id, mine: given.append(mine)}
    exec('import torch\nfrom torch import Tensor, nn', names)
    exec(compile('from __future__ import annotations\n' + ex.begin(ex.find(entry.id)), '?', 'exec'), names)
    found = ex.check(entry.id, *given)
    assert not found.right and found.mistake in ('nothing', 'type', 'error'), found
    assert '○ part ' not in str(found), found   # whoever has one body to write is told of no second one
    assert ex.progress() == {} or found.mistake != 'nothing'


def test_what_was_answered_is_remembered():
    assert ex.progress() == {} and not ex.check('01.7').right and ex.progress() == {}
    assert ex.check('01.7', 800).mistake == 'first-rows'
    assert ex.progress()['01.7']['right'] is False and '01.7: the first rows' in ex.cards()
    assert ex.check('01.7', 772).right and not ex.check('01.7', 800).right
    assert ex.progress()['01.7'] | {'text': ''} == {'right': True, 'mistake': 'first-rows', 'text': '', 'tries': 3}
    assert '✓ 01.7' in repr(ex.exercises('01'))


def test_a_file_that_is_not_ours_stays_as_it_is(tmp_path, monkeypatch):
    "And an answer that cannot be remembered is still checked."
    (tmp_path/'mine.txt').write_text('my notes')
    for place in ('mine.txt', 'mine.txt/progress.json'):
        monkeypatch.setenv('TNB_PROGRESS', str(tmp_path/place))
        with pytest.warns(UserWarning, match='this answer is not remembered'): assert ex.check('01.7', 772).right
    assert (tmp_path/'mine.txt').read_text() == 'my notes'
    assert [path.name for path in tmp_path.iterdir()] == ['mine.txt']


def test_no_exercise_is_named_with_those_of_its_lesson():
    with pytest.raises(InputError, match='no exercise .01.99.; this lesson has 01.1, '): ex.check('01.99', 1)
    with pytest.raises(InputError, match="give lesson and number, as in '01.2'"): ex.check('77.1', 1)


# Answers as readers write them: what `check` finds, or None for right

def own_softmax(scores, biggest):
    powers = (scores - biggest).exp()
    return powers/powers.sum(-1, keepdim=True)


def lost_maximum(q, k, v):
    scores = q @ k.transpose(-2, -1)/q.shape[-1]**.5
    weights = own_softmax(scores, scores.amax(-1))
    return weights @ v, weights


def lost_mean(q, k, v):
    "The same error as with a sum without its axis, but it is an addition that fails."
    scores = q @ k.transpose(-2, -1)/q.shape[-1]**.5
    weights = (scores + scores.mean(-1)).softmax(-1)
    return weights @ v, weights


def lost_sum(q, k, v):
    "With the method in place of the operator."
    powers = (q.matmul(k.mT)*q.shape[-1]**-.5).exp()
    weights = powers.div(powers.sum(-1))
    return weights.matmul(v), weights


def with_if(x, W_1, b_1, W_2, b_2):
    h = x @ W_1 + b_1
    if h < 0: h = 0
    return h @ W_2 + b_2


def all_below(x, W_1, b_1, W_2, b_2):
    h = x @ W_1 + b_1
    while h < 0: h = h + 1
    return h @ W_2 + b_2


def divided_by(divisor):
    def attention(q, k, v):
        weights = (q @ k.transpose(-2, -1)*divisor(q.shape[-1])).softmax(-1)
        return weights @ v, weights
    return attention


def waves_of_whole_numbers(n, d_model):
    table = torch.zeros(n, d_model)
    for pos in range(n):
        for i in range(d_model//2):
            angle = pos/10000**(2*i//d_model)
            table[pos, 2*i], table[pos, 2*i + 1] = sin(angle), cos(angle)
    return table


def with_its_own_eps(x, g=1., b=0., eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return g*centred/(centred.pow(2).mean(-1, keepdim=True) + 1e-5)**.5 + b


def float_start(ids, bos_id): return torch.cat([torch.full((len(ids), 1), float(bos_id)), ids[:, :-1]], 1)


def put_in_place(place):
    "Write beside, then put the new file there by `place(new, path, text)`."
    def save(path, text, write):
        new = path.with_suffix('.tmp')
        try:
            write(new, text)
            place(new, path, text)
        finally:
            if new.exists(): new.unlink()
    return save


def removed_then_renamed(new, path, text):
    if path.exists(): os.remove(path)
    os.rename(new, path)


def greedy_of(most, mode=lambda model: model):
    def greedy(model, src):
        ids = []
        while len(ids) < most(mode(model)):
            ids.append(model(src, torch.tensor([[BOS, *ids]]))[0, -1].argmax().item())
            if ids[-1] == EOS: return ids[:-1]
        return ids
    return greedy


def numbers_of(id, kind):
    "The right answer, in numbers of another library."
    def answer(*args): return kind(ex.find(id).answer()(*args))
    return answer


def nested(kind): return lambda found: [list(map(kind, part)) for part in found]


def penalty(n, alpha): return ((5 + n)/6)**alpha


JUDGED = [
    ('01.1', lost_maximum, 'lost-axis-of-maximum'), ('01.1', lost_mean, 'error'), ('01.1', lost_sum, 'lost-axis'),
    ('01.1', divided_by(lambda d_k: d_k**-1/2), 'precedence'), ('01.1', divided_by(lambda d_k: d_k**-.5), None),
    ('01.1', divided_by(lambda d_k: 1/(d_k**1/2)), 'precedence'),
    ('03.1', with_if, 'one-if'), ('03.1', all_below, 'one-if'),
    ('03.1', lambda x, W_1, b_1, W_2, b_2: max(x @ W_1 + b_1, 0) @ W_2 + b_2, 'pythons-max'),
    ('05.1', waves_of_whole_numbers, 'rounded-down'),
    ('06.1', with_its_own_eps, 'fixed-eps'), ('06.4', float_start, 'floats'),
    ('06.4', lambda ids, bos_id: float_start(ids, bos_id).int(), None),
    ('01.10', 11.503, 'all-keys'), ('01.10', 11.5019, None), ('01.10', 11.5, 'digits'),
    ('07.2', lambda hops: path_lengths(list(islice(hops, 10**6))), 'never-stops'),
    ('13.2', put_in_place(removed_then_renamed), 'removed-before-the-rename'),
    ('13.2', put_in_place(lambda new, path, text: shutil.copy(new, path)), 'copied'),
    ('13.2', put_in_place(lambda new, path, text: path.write_text(text)), 'copied'),
    ('13.2', put_in_place(lambda new, path, text: new.replace(path)), None),
    ('13.2', put_in_place(lambda new, path, text: shutil.move(new, path)), None),
    ('15.1', greedy_of(lambda model: 6), 'a-fixed-limit'), ('15.1', greedy_of(lambda model: model.cfg.max_len), None),
    ('15.1', greedy_of(lambda model: 1000), 'no-limit'), ('15.1', numbers_of('15.1', lambda found: found), None),
    ('15.3', lambda found, going, length, limit, alpha: bool(found) and
     max(found)*penalty(limit, alpha) > max(going), 'only-a-better-one'),
    ('15.3', lambda found, going, length, limit, alpha: bool(found) and
     max(found)*penalty(limit, alpha) >= max(going), None),
    ('15b.6', 89.5, 'digits'), ('15b.6', .895, 'scale'), ('15b.6', .8948, 'scale'), ('15b.6', 89.4839, None),
    ('17.7', 'd', 'rate'),
    # Numbers are numbers
    ('01.7', np.int64(772), None), ('00.1', np.float32(.8), None), ('00.1', torch.tensor(.8), None),
    ('00.2', np.array(3), None), ('03.3', np.float64(21.2), None),
    ('07.4', numbers_of('07.4', torch.tensor), None), ('10.3', numbers_of('10.3', torch.tensor), None),
    ('10.7', numbers_of('10.7', torch.tensor), None), ('10.7', numbers_of('10.7', np.float32), None),
    ('10.2', numbers_of('10.2', nested(np.int64)), None), ('10.2', numbers_of('10.2', nested(torch.tensor)), None),
    ('10.2', numbers_of('10.2', lambda found: [np.array(part) for part in found]), 'type'),
    ('14.4', numbers_of('14.4', list), None), ('14.4', numbers_of('14.4', lambda found: np.array(found)), 'type'),
]


@pytest.mark.parametrize('id, answer, mistake', JUDGED, ids=[f'{id}-{mistake}' for id, _, mistake in JUDGED])
def test_an_answer_is_judged_by_what_it_does(id, answer, mistake):
    found = ex.check(id, answer, seed=4)
    assert (found.right, found.mistake) == (mistake is None, mistake), found


def converted(x, kind):
    "With numbers of NumPy or of torch in place of Python's."
    if isinstance(x, (bool, int, float)): return kind(x)
    if type(x) in (list, tuple): return type(x)(converted(y, kind) for y in x)
    return {k: converted(y, kind) for k, y in x.items()} if type(x) is dict else x


@pytest.mark.parametrize('kind', [lambda x: np.array(x)[()], torch.tensor], ids=['numpy', 'torch'])
def test_numbers_are_numbers_in_every_exercise(kind):
    "But for 14.5, whose answer is a state that a run takes up again: it is used, not compared."
    for e in map(ex.find, (e.id for e in ALL if e.id != '14.5')):
        if issubclass(e, ex.Value): answer = converted(e.right, kind)
        elif isinstance(e.answer(), type): continue
        else: answer = numbers_of(e.id, lambda found: converted(found, kind))
        assert (found := ex.check(e.id, answer, seed=1)).right, found


def test_a_truth_is_no_number():
    assert ex.allclose(True, True) and ex.allclose([1], [1.])
    assert not ex.allclose(True, 1) and not ex.allclose(1., True) and not ex.allclose([0], [False])


def test_an_answer_leaves_the_next_one_its_model():
    "A model in training mode drops units, and the models of the exercises are made once."
    def in_training(model): return model.train().cfg.max_len
    ex.check('15.1', greedy_of(in_training))
    assert ex.check('15.1', greedy_of(lambda model: model.cfg.max_len)).right


class Residual(torch.nn.Module):
    "What 06.2 asks for: post-norm, whatever `cfg.norm` says."
    def __init__(self, cfg):
        super().__init__()
        self.norm, self.dropout = torch.nn.LayerNorm(cfg.d_model), torch.nn.Dropout(cfg.dropout)

    def forward(self, x, sublayer): return self.norm(x + self.dropout(sublayer(x)))


def decoder_layer(forward):
    "The reader's class of 06.3, in a notebook where `Residual` is still that of 06.2."
    names = {'torch': torch, 'nn': torch.nn, 'Tensor': torch.Tensor, 'variants': variants, 'Residual': Residual,
             'check': lambda *_: None}
    exec(ex.begin(ex.find('06.3')), names)
    return type('Mine', (names['DecoderLayer'],), {'forward': forward})


def in_wrappers(self, y, memory, self_mask=None, memory_mask=None):
    y = self.residuals[0](y, lambda y: self.self_attention(y, y, y, self_mask)[0])
    y = self.residuals[1](y, lambda y: self.cross_attention(y, memory, memory, memory_mask)[0])
    return self.residuals[2](y, self.feed_forward)


def without_wrappers(self, y, memory, self_mask=None, memory_mask=None):
    y = self.residuals[0].norm(y + self.self_attention(y, y, y, self_mask)[0])
    y = self.residuals[1].norm(y + self.cross_attention(y, memory, memory, memory_mask)[0])
    return self.residuals[2].norm(y + self.feed_forward(y))


def test_a_decoder_layer_is_right_with_the_reader_s_own_wrapper():
    "It uses the wrapper as 06.3 asks; that this one knows no pre-norm is what 06.2 asked for."
    assert ex.check('06.2', Residual).right
    assert (found := ex.check('06.3', decoder_layer(in_wrappers))).right, found
    assert ex.check('06.3', decoder_layer(without_wrappers)).mistake == 'by-hand'


def test_a_list_with_wrong_numbers_hears_of_the_numbers():
    found = ex.check('14.4', lambda losses, patience: [1, 1], seed=0)
    assert 'the answer is 4, yours is 1' in found.text and 'list' not in found.text


def test_an_error_that_nobody_knows_is_shown():
    "Not named after a known mistake that happens to end in the same words."
    found = ex.check('01.1', lost_mean, seed=0)
    assert 'must match the size' in found.text and 'the sum' not in found.text


def test_a_clock_that_did_not_strike_leaves_no_trace(tmp_path):
    "On Python 3.11 a profiler would otherwise wait for ever in the next call."
    (tmp_path/'clocks.py').write_text(
        "import sys\nfrom transformer_nb.course.exercises import outcome\n"
        "for _ in range(3):\n outcome(lambda: 7)\n"
        " sys.setprofile(lambda *event: None)\n (lambda: 7)()\n sys.setprofile(None)\nprint('done')")
    process = begin([tmp_path/'clocks.py'], tmp_path/'said')
    process.join(60)
    process.kill()
    assert (tmp_path/'said').read_text() == 'done\n'


def test_wrong_answers_of_17_7_are_what_the_table_says():
    "The lower rates were worse, and both rows have their best loss at the highest."
    runs = json.loads((ROOT/'benchmarks/results/averaging.json').read_text())['runs']
    for row, losses in ('base', None), ('average', {.3: '1.94', .15: '2.84'}):
        tried = {run['rate']: run['val_loss'] for run in runs if (run['row'], run['seed']) == (row, 0)}
        assert min(tried, key=tried.get) == max(tried) == .6
        if losses: assert {rate: f'{tried[rate]:.2f}' for rate in losses} == losses
    assert 'at lower rates: 1.94 and 2.84' in ex.find('17.7').wrong['d'][1]


def test_what_an_exercise_asks_does_not_hang_on_a_folded_hint():
    "The model of 15.7 is in its task, and 15.8 gives the numbers instead of having them guessed."
    task = ex.find('15.7').parts()[1]
    assert 'babbler = Transformer(' in task and 'last hint' not in task
    assert 'nine of' in ex.flowing(ex.find('15.8').parts()[1])


def test_hints_and_solution_speak_of_the_same_library():
    assert 'torch.randint' in ' '.join(ex.find('05.6').hints) and 'torch.randint' in ex.source(ex.find('05.6').right)


def test_the_lesson_lists_every_exercise():
    cells = json.loads((ROOT/'nbs/22_exercises.ipynb').read_text())['cells']
    table, = (c for c in cells if c['id'] == 'allexerc')
    text = ''.join(table['outputs'][0]['data']['text/plain'])
    assert re.findall(r'^. (\S+) .*$', text, re.M) == [e.id for e in ALL]


def test_a_stub_has_the_name_that_the_task_gives():
    for e in map(ex.find, (e.id for e in ALL)): assert not re.search(r'def right|, right\)', ex.begin(e)), ex.begin(e)


# The reader's language

@pytest.mark.parametrize('given, language', {
    'ja': 'ja', 'jp': 'ja', 'ja_JP.UTF-8': 'ja', 'JA-jp': 'ja', 'zh_CN': 'zh', 'cn': 'zh', 'zh-Hans': 'zh', 'kr': 'ko',
    'ko_KR.eucKR': 'ko', 'en_GB.UTF-8': 'en', '': 'en'}.items())
def test_a_language_has_several_names(given, language, monkeypatch, recwarn):
    monkeypatch.setenv('TNB_LANG', given)
    assert ex.language() == language and not recwarn.list


def test_a_language_that_is_not_known_is_said_in_one_line(monkeypatch):
    monkeypatch.setenv('TNB_LANG', 'jam')
    with pytest.warns(UserWarning, match=r'^TNB_LANG=jam: .*en, ja, zh, ko.*$'):
        assert ex.check('01.7', 772).text == 'right'


def test_what_is_not_translated_is_english_throughout(monkeypatch):
    "No Japanese full stop behind an English diagnosis or hint; where the text is translated, all of it is."
    monkeypatch.setenv('TNB_LANG', 'ja')
    e, table = ex.find('10.7'), ex.exercise_translations('ja')
    summed = dict(e.mistakes())['summed']
    for name in ('fault/summed', 'hint/1'): monkeypatch.delitem(table, f'10.7/{name}')
    english = ex.check('10.7', summed).text
    assert english.isascii() and english.endswith(". A hint: hint('10.7')")
    assert ex.hint('10.7').isascii() and ex.hint('10.7').endswith("(One more: hint('10.7', 2))")
    translated = ex.check('01.2', dict(ex.find('01.2').mistakes())['inverted']).text
    assert translated.endswith("。ヒント：hint('01.2')") and '（次のヒント：' in ex.hint('01.2')
    assert ex.check('10.7', 3).text.endswith("渡してください。ヒント：hint('10.7')")


def unwritten(*text):
    "A body that raises `NotImplementedError`."
    def body(*args): raise NotImplementedError(*text)
    return body


def test_a_stub_that_raises_is_answered_in_one_language(monkeypatch):
    "What the blank course's stubs say is said in the reader's language; the words of another stub stay as they are."
    monkeypatch.setenv('TNB_LANG', 'ja')
    assert ex.check('10.7', unwritten('Write me')).text == "Write me. A hint: hint('10.7')"
    assert ex.check('10.7', unwritten('Shall I?')).text == "Shall I? A hint: hint('10.7')"
    stub = '01.1: write attention in nbs/01_attention.ipynb, then run nbdev-export'
    said = ex.check('01.1', unwritten(stub)).text
    assert said.startswith('01.1：nbs/01_attention.ipynb に attention を書いて')
    assert said.endswith("。ヒント：hint('01.1')")
    monkeypatch.setenv('TNB_LANG', 'en')
    assert ex.check('01.1', unwritten(stub)).text == f"{stub}. A hint: hint('01.1')"


@pytest.mark.parametrize('text', [(), ('',), (' ',)])
def test_a_stub_that_raises_without_a_word_is_answered_like_an_empty_one(text):
    empty = ex.check('01.1', lambda *_: None)
    assert empty.mistake == 'nothing' and ex.check('01.1', unwritten(*text)) == empty


# The blank course

@pytest.fixture(scope='module')
def blank(tmp_path_factory):
    pytest.importorskip('nbdev')  # exports what is left of the lessons
    folder = tmp_path_factory.mktemp('blank')/'course'
    status, said = script(ROOT/'tools/build_blank.py', folder)
    assert status == 0, said
    return folder


def test_the_blank_course_is_a_small_download(blank):
    "What lessons print stays, pictures do not; the data are there once."
    texts = [path.read_text(encoding='utf-8') for path in (blank/'nbs').rglob('*.ipynb')]
    assert not any('"image/png"' in text for text in texts) and sum('"name": "stdout"' in text for text in texts) > 20
    assert (blank/'transformer_nb/assets').is_dir() and not (blank/'solved/assets').exists()


def in_blank(blank, *command):
    env = os.environ | {'PYTHONPATH': str(blank)}
    return subprocess.run([sys.executable, *command], cwd=blank, env=env, capture_output=True, text=True)


EMPTY = """
import inspect
from pkgutil import resolve_name
from transformer_nb.course.exercises import exercises
for e in exercises():
    if not e.builds: continue
    f = resolve_name(f'transformer_nb.{e.builds}')
    if inspect.isclass(f): f = f.forward
    needed = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty]
    try: f(*[None for _ in needed])
    except NotImplementedError as error: print(e.id, e.builds, error, sep='|')
"""
DRAW = """
from transformer_nb.course.widgets import WIDGETS, widget
for name in WIDGETS: widget(name)
"""


def test_before_anything_is_written_widgets_work_and_every_stub_says_what_to_write(blank):
    done = in_blank(blank, '-c', EMPTY + DRAW)
    assert done.returncode == 0, done.stderr
    rows = [line.split('|', 2) for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == [e.id for e in ALL if e.builds]
    for id, builds, answer in rows:
        said = re.fullmatch(r'([\w.]+): write ([\w.]+) in (nbs/[\w/]+\.ipynb), then run nbdev-export', answer)
        assert said and said[2].split('.')[0] in builds and (ROOT/said[3]).exists(), answer
        assert said[1].split('.')[0] == id.split('.')[0]


def code_cells(path): return {c['id']: c for c in json.loads(path.read_text())['cells'] if c['cell_type'] == 'code'}


@pytest.fixture(scope='module')
def filled(blank, tmp_path_factory):
    "Cell by cell, the solutions are written where the stubs stand."
    folder = tmp_path_factory.mktemp('filled')/'course'
    shutil.copytree(blank, folder, ignore=shutil.ignore_patterns('tests', 'benchmarks'))
    written = []
    for path in (folder/'nbs').rglob('*.ipynb'):
        nb = json.loads(path.read_text())
        stubs = [cell for cell in nb['cells'] if 'raise NotImplementedError("' in ''.join(cell['source'])]
        if not stubs: continue
        solutions = code_cells(ROOT/path.relative_to(folder))
        for cell in stubs: cell['source'] = solutions[cell['id']]['source']
        path.write_text(json.dumps(nb, indent=1, ensure_ascii=False, sort_keys=True) + '\n')
        written.append(path.name)
    export = Path(sys.executable).with_name('nbdev-export')
    subprocess.run([export, '--file-re', '|'.join(written)], cwd=folder, check=True)
    return folder


def place_of(parts):
    "The file of a name: `attention.attention`, `experiments.baselines.GRU`."
    files = (f"transformer_nb/{'/'.join(parts[:n])}.py" for n in range(1, len(parts)))
    return next(file for file in files if (ROOT/file).exists())


def test_the_blank_course_filled_in_is_the_library(blank, filled):
    for place in {place_of(e.builds.split('.')) for e in ALL if e.builds}:
        assert (blank/place).read_text() != (ROOT/place).read_text() == (filled/place).read_text(), place


TRAIN = """
import json, sys
from transformer_nb.cli import train
import transformer_nb
train(out=sys.argv[1], steps=30, corpus_size=2000, seed=3, dtype='float32')
lines = [json.loads(line) for line in open(f'{sys.argv[1]}/metrics.jsonl')]
print(transformer_nb.__file__, *[line['loss'] for line in lines if 'loss' in line], sep='|')
"""


@pytest.mark.slow
def test_the_filled_in_course_trains_as_the_library_does(filled, tmp_path):
    runs = [in_blank(folder, '-c', TRAIN, str(tmp_path/folder.name)) for folder in (filled, ROOT)]
    (file, *mine), (other, *library) = (run.stdout.strip().split('|') for run in runs)
    assert str(filled) in file and str(ROOT) in other and len(mine) == 30
    assert [float(loss) for loss in mine] == pytest.approx([float(loss) for loss in library], abs=1e-5)


def test_the_blank_course_installs_the_solutions_too(blank):
    assert '"transformer_nb.*", "solved", "solved.*"]' in (blank/'pyproject.toml').read_text()


def test_the_blank_course_says_how_to_begin(blank):
    "To whoever has downloaded it from the site, and to those without make."
    start = (blank/'START.md').read_text()
    n = sum(bool(e.builds) for e in ALL)
    first = re.search(r'the first is in `(nbs/[\w.]+)`', start)[1]
    assert f'{n} functions and classes' in start and (blank/first).exists()
    pip = '.venv/bin/python -m pip install -c constraints.txt'
    assert 'make lab' in start and f"{pip} 'pip>=25.1'\n{pip} -e '.[interop]' --group dev\n" in start
    assert (blank/'constraints.txt').exists() and f'nbdev-test --path-re {first.removeprefix("nbs/")}' in start


def test_nothing_is_overwritten(tmp_path):
    status, said = script(ROOT/'tools/build_blank.py', tmp_path)
    assert status == 1 and said.strip() == f'{tmp_path}: is there already; move it away, or name another folder'


# The exercises for nbgrader

@pytest.fixture(scope='module')
def for_class(tmp_path_factory):
    folder = tmp_path_factory.mktemp('class')/'course'
    command = [ROOT/'tools/build_blank.py', '--nbgrader', folder]
    status, said = script(*command)
    assert status == 0, said
    status, said = script(*command)
    assert status == 1 and 'is there already' in said
    return {path.stem: json.loads(path.read_text())['cells'] for path in (folder/'source').glob('*/*.ipynb')}


def test_every_exercise_has_a_locked_cell_that_gives_its_points(for_class):
    assert set(for_class) == {f'lesson_{e.lesson}' for e in ALL}
    graded = [c for cells in for_class.values() for c in cells if 'nbgrader' in c['metadata']]
    about = {c['metadata']['nbgrader']['grade_id']: c['metadata']['nbgrader'] for c in graded}
    assert {id: given['points'] for id, given in about.items()} == {e.id.replace('.', '-'): e.level for e in ALL}
    wanted = dict(grade=True, locked=True, solution=False, task=False, schema_version=3)
    assert len(graded) == len(ALL) and all(given.items() >= wanted.items() for given in about.values())
    assert '<summary>Solution' not in json.dumps(for_class)


def own(answer):
    "The library's answer as if it had been written in the notebook."
    if isinstance(answer, type): return type(answer.__name__, (answer,), {'__module__': '__main__'})
    parts = answer.__code__, answer.__globals__, answer.__name__, answer.__defaults__, answer.__closure__
    copy = types.FunctionType(*parts)
    copy.__module__ = '__main__'
    return copy


def points(cells, answer):
    "Run an assignment; `answer` makes something of the right answer to each exercise."
    names, sums = {'__name__': '__main__'}, []
    for cell in cells:
        text, given = ''.join(cell['source']), cell['metadata'].get('nbgrader')
        if given:
            id, name = re.search(r"check\('(.+)', (\w+)\)", text).groups()
            e = ex.find(id)
            right = e.right if issubclass(e, ex.Value) else e.answer()
            names[name] = answer(right, names[name])
        if cell['cell_type'] == 'markdown': continue
        try: exec(text, names)
        except AssertionError: assert given
        else: sums.append(given['points'] if given else 0)
    return sum(sums)


@pytest.mark.parametrize('lesson', sorted({e.lesson for e in ALL}))
def test_points_are_for_right_answers_of_ones_own(lesson, for_class):
    cells, most = for_class[f'lesson_{lesson}'], sum(e.level for e in ALL if e.lesson == lesson)
    values = sum(e.level for e in ALL if e.lesson == lesson and issubclass(ex.find(e.id), ex.Value))
    assert points(cells, lambda right, stub: own(right) if callable(right) else right) == most
    assert points(cells, lambda right, stub: stub) == 0
    assert points(cells, lambda right, stub: right) < most or values == most  # what is imported gives no points
