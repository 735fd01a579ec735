"The commands as a person at a terminal meets them: bad input, one line out for one line in, nothing half-written."
import errno
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess

import pytest
import torch
from conftest import BIN, tnb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transformer_nb import checkpoints
from transformer_nb.cli import _bleu, train
from transformer_nb.decode.evaluation import score
from transformer_nb.decode.translator import Translator
from transformer_nb.parts import inference

PAIRS = [(f'a dog sees {w} .', f'ein Hund sieht {w} .') for w in 'Anna Paul Tom Maria Jakob Lena Martin Eva'.split()]


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path/'corpus'
    folder.mkdir()
    for name in ('train', 'val', 'test'):
        for side, lang in enumerate(('en', 'de')):
            (folder / f'{name}.{lang}').write_text(''.join(p[side] + '\n' for p in PAIRS), encoding='utf-8')
    return folder


def refused(tmp_path, *args, command='tnb-train', stdin=b''):
    "The one line with which a command refuses its input; nothing may be left behind."
    out = tmp_path/'run'
    extra = ('--steps', 2, '--device', 'cpu', '--out', out) if command == 'tnb-train' else ()
    status, stdout, err = tnb(command, *args, *extra, stdin=stdin)
    assert status == 2 and stdout == b'' and len(err.strip().splitlines()) == 1, (status, stdout, err)
    assert not out.exists()
    return err


def test_unequal_line_counts(corpus, tmp_path):
    with (corpus/'train.de').open('a') as f: f.write('noch eine Zeile .\n')
    err = refused(tmp_path, '--data', corpus)
    assert 'train.en' in err and '8 lines' in err and 'train.de has 9' in err


def test_empty_line_is_refused_or_dropped(corpus, tmp_path):
    lines = (corpus/'train.de').read_text().split('\n')
    lines[2] = ' '
    (corpus/'train.de').write_text('\n'.join(lines))
    err = refused(tmp_path, '--data', corpus)
    assert 'train.de:3: empty line' in err and '--drop-empty' in err
    status, _, err = tnb(
        'tnb-train', '--data', corpus, '--drop-empty', '--steps', 1, '--device', 'cpu', '--out', tmp_path / 'run'
    )
    assert status == 0 and '7 pairs' in err, err


def test_not_utf8(corpus, tmp_path):
    (corpus/'train.en').write_bytes((corpus/'train.en').read_bytes().replace(b'Tom', b'T\xf6m'))
    assert 'train.en:3: not UTF-8' in refused(tmp_path, '--data', corpus)


def test_empty_file(corpus, tmp_path):
    (corpus/'train.en').write_bytes(b'')
    assert 'train.en: the file is empty' in refused(tmp_path, '--data', corpus)


def test_missing_side_folder_and_file(corpus, tmp_path):
    assert 'no such folder' in refused(tmp_path, '--data', tmp_path/'nowhere')
    assert 'no such file' in refused(tmp_path, '--data', f"{corpus/'train.en'},{corpus/'train.fr'}")
    (corpus/'train.de').unlink()
    assert 'train.de (or .gz) is missing' in refused(tmp_path, '--data', corpus)


def test_cut_off_gzip(corpus, tmp_path):
    whole = gzip.compress((corpus/'train.en').read_bytes())
    (corpus/'train.en').unlink()
    (corpus/'train.en.gz').write_bytes(whole[:-12])
    assert 'train.en.gz: cannot be read' in refused(tmp_path, '--data', corpus)


@pytest.mark.parametrize('size', [5000, 10**11])
def test_vocabulary_larger_than_the_text_allows(size, corpus, tmp_path):
    err = refused(tmp_path, '--data', corpus, '--vocab-size', size)
    assert 'more than the text allows' in err and 'choose at most' in err


def test_sentence_longer_than_the_model(corpus, tmp_path):
    err = refused(tmp_path, '--data', corpus, '--max-len', 4)
    assert 'train.en:1:' in err and 'max_len 4' in err


def test_unknown_preset_and_run_that_is_there(corpus, tmp_path, small_run):
    assert 'no such preset' in refused(tmp_path, '--data', corpus, '--preset', 'huge')
    status, _, err = tnb('tnb-train', '--data', corpus, '--steps', 1, '--out', small_run)
    assert status == 2 and '--resume' in err


def test_missing_or_broken_checkpoint(tmp_path, small_run):
    assert 'no such checkpoint' in refused(tmp_path, tmp_path/'nowhere', command='tnb-translate')
    broken = tmp_path/'broken'
    shutil.copytree(small_run/'averaged', broken)
    data = (broken/'model.safetensors').read_bytes()
    (broken/'model.safetensors').write_bytes(data[:len(data)//2])
    assert 'model.safetensors: broken, cut off' in refused(tmp_path, broken, command='tnb-translate')
    (broken/'model.safetensors').unlink()
    assert 'model.safetensors: missing' in refused(tmp_path, broken, command='tnb-translate')
    (broken/'config.json').write_text('{"format": 1, "vocab')
    assert 'config.json: broken' in refused(tmp_path, broken, command='tnb-eval')


def test_one_line_out_for_one_line_in(small_run):
    lines = ['a dog runs .', '', '   ', 'two\u2028halves', 'x\x0by', 'größe ☃ 犬', 'the end .']
    given = '\n'.join(lines).encode()
    status, out, err = tnb('tnb-translate', small_run, '--device', 'cpu', stdin=given)
    assert status == 0, err
    found = out.decode().split('\n')
    assert len(found) == len(lines) + 1 and found[-1] == ''
    assert found[1] == found[2] == ''


def test_translate_without_input_and_from_a_file(small_run, tmp_path):
    assert tnb('tnb-translate', small_run)[:2] == (0, b'')
    (tmp_path/'in.txt').write_text('a dog runs .\nthe cat sleeps .\n')
    from_file = tnb('tnb-translate', small_run, tmp_path/'in.txt')[1]
    assert from_file == tnb('tnb-translate', small_run, stdin=(tmp_path/'in.txt').read_bytes())[1]
    assert from_file.count(b'\n') == 2


BAD = b'a dog .\n\xff\xfe\nthe cat .\n'


def test_bad_bytes_name_the_line_and_lose_nothing_before_it(small_run):
    "In a process as a terminal starts it, where lines that hold nothing are lines, too."
    status, out, err = tnb('tnb-translate', small_run, stdin=b'\n   \n' + BAD, process=True)
    assert (status, out.count(b'\n'), len(err.splitlines())) == (2, 3, 1) and out.startswith(b'\n\n'), err
    assert 'stdin:4: not UTF-8 (byte 1)' in err and '--on-error skip' in err


def test_bad_bytes_can_be_skipped(small_run):
    status, out, err = tnb('tnb-translate', small_run, '--on-error', 'skip', stdin=BAD)
    assert status == 0 and len(err.splitlines()) == 1 and 'stdin:2: not UTF-8' in err
    first, second, third, end = out.split(b'\n')
    assert first and third and second == end == b''


def test_unknown_choice_is_refused(tmp_path, small_run):
    assert 'choose one of stop, skip' in refused(tmp_path, small_run, '--on-error', 'ignore', command='tnb-translate')
    assert '--lines 0: give at least 1' in refused(tmp_path, small_run, '--lines', 0, command='tnb-translate')


@pytest.fixture
def translating(small_run):
    "tnb-translate with open pipes."
    # as in a terminal: what a shell starts in the background ignores Ctrl-C
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    started = subprocess.Popen(
        [BIN / 'tnb-translate', small_run],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed,
        env={name: value for name, value in os.environ.items() if name != 'PYTHONUNBUFFERED'},  # nobody else flushes
    )
    yield started
    started.kill()
    started.wait()
    for pipe in (started.stdin, started.stdout, started.stderr): pipe.close()


def test_first_line_comes_before_the_last_is_given_and_an_interrupt_ends_the_waiting(translating):
    for line in (b'a dog runs .\n', b'\n', b'the cat sleeps .\n'):  # the test would hang if lines were held back
        translating.stdin.write(line)
        translating.stdin.flush()
        assert bool(translating.stdout.readline().strip()) == bool(line.strip())
    translating.send_signal(signal.SIGINT)
    assert translating.wait(60) == 130 and translating.stderr.read() == b''


def test_closed_pipe_ends_quietly_though_more_input_may_come(translating):
    translating.stdin.write(b'a dog runs .\n')
    translating.stdin.flush()
    translating.stdout.readline()
    translating.stdout.close()
    translating.stdin.write(b'the cat sleeps .\n')
    translating.stdin.flush()
    assert translating.wait(60) == 128 + signal.SIGPIPE and translating.stderr.read() == b''


def test_int8_and_batches_side_by_side_keep_order_and_number():
    nouns = 'dog cat bird horse child man woman girl'.split()
    lines = ''.join(f'the {a} sees the {b} .\n\n' for a in nouns for b in nouns).encode()
    command = ('tnb-translate', 'demo', '--device', 'cpu', '--beam', 1)
    one = tnb(*command, stdin=lines)[1]
    assert len(set(one.split(b'\n'))) > 50, 'or an order could not be seen'
    assert tnb(*command, '--batch-tokens', 256, '--parallel', 2, stdin=lines)[:2] == (0, one)
    status, out, err = tnb(*command, '--int8', stdin=lines)
    assert status == 0 and [bool(line) for line in out.split(b'\n')] == [bool(line) for line in one.split(b'\n')], err


LINES = st.text(st.characters(exclude_categories=['Cs'], exclude_characters='\n'), max_size=5000)


@pytest.mark.parametrize('n', [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_lines_stay_as_many(n, small_run):
    "All of Unicode, control characters, up to 5,000 characters: a line in, a line out."
    lines, rng = [], random.Random(0)

    @settings(max_examples=2*n, suppress_health_check=list(HealthCheck))
    @given(LINES)
    def collect(text): lines.append(text)

    collect()
    while len(lines) < n: lines.append(rng.choice(lines))
    lines = lines[:n]
    # hypothesis prefers short ones
    for i in rng.sample(range(n), n//50): lines[i] = (lines[i]*5000)[:rng.randint(0, 5000)]
    text = ''.join(line + '\n' for line in lines).encode()
    status, out, err = tnb('tnb-translate', small_run, '--beam', 1, '--max-new-tokens', 8, stdin=text)
    assert (status, out.count(b'\n')) == (0, n), err
    assert all(line.startswith('tnb-translate: never seen in training: ') for line in err.splitlines()), err
    assert all(not found for line, found in zip(lines, out.split(b'\n')) if not line)


def test_nbest_prints_number_text_and_score(small_run):
    status, out, err = tnb('tnb-translate', small_run, '--nbest', 2, '--lines', 1,  # numbers go on from group to group
                           stdin=b'a dog runs .\nthe cat sleeps .\n')
    assert status == 0, err
    rows = [line.split(' ||| ') for line in out.decode().splitlines()]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows) and {row[0] for row in rows} == {'1', '2'}
    for number in '12':
        scores = [float(row[2]) for row in rows if row[0] == number]
        assert 1 <= len(scores) <= 2 and scores == sorted(scores, reverse=True)
    assert all(re.fullmatch(r'-\d+\.\d{4}', row[2]) for row in rows)


def test_sentence_longer_than_the_model_is_translated_in_parts(small_run):
    status, out, err = tnb('tnb-translate', small_run, '--beam', 1, stdin=b'a dog .\n' + b'dog '*400 + b'\n')
    assert status == 0 and out.count(b'\n') == 2 and all(line.strip() for line in out.splitlines()), err


def test_eval_as_table_and_json(small_run, corpus):
    "Both show the scores of what the model translates."
    status, table, err = tnb('tnb-eval', small_run, '--data', corpus, '--beam', 1)
    assert status == 0, err
    sources, references = map(list, zip(*PAIRS))
    expected = score(Translator.from_pretrained(small_run, 'cpu').translate(sources, beam=1), references)
    rows = [line.split() for line in table.decode().splitlines()]
    assert rows == [['test', '8', 'pairs', name, f"{s['score']:.2f}", s['signature']] for name, s in expected.items()]
    status, out, err = tnb('tnb-eval', small_run, '--data', corpus, '--beam', 1, '--json')
    assert json.loads(out) == {'test': {'pairs': 8} | expected} and 'tok:13a' in expected['BLEU']['signature'], err


def test_eval_without_a_test_split_names_the_remedy(corpus, tmp_path):
    for file in corpus.glob('test.*'): file.unlink()
    train(data=str(corpus), steps=1, device='cpu', out=tmp_path/'run')
    err = refused(tmp_path/'nothing', tmp_path/'run', command='tnb-eval')
    assert f'{corpus}: no test split (test*.en) in it; name one with --data FILE.en,FILE.de' in err
    assert tnb('tnb-eval', tmp_path/'run', '--beam', 1, '--data', corpus)[1].startswith(b'train ')  # what was asked for


def test_the_row_for_the_greedy_path_is_an_option_of_both_commands(small_run, corpus, monkeypatch):
    "Without it the search is the published one."
    kept, search = [], Translator.search
    def noted(*args): return kept.append(args[5]) or search(*args)
    monkeypatch.setattr(Translator, 'search', noted)
    for options in ((), ('--keep-greedy',)):
        assert tnb('tnb-translate', small_run, *options, stdin=b'a dog runs .\n')[0] == 0
        assert tnb('tnb-eval', small_run, '--data', corpus, *options)[0] == 0
    assert kept == [False, False, True, True]


def test_translate_takes_a_limit_and_a_type(small_run):
    lines = b'a dog runs .\na dog runs .\n'
    status, out, err = tnb('tnb-translate', small_run, '--dtype', 'float32', '--max-new-tokens', 1, stdin=lines)
    assert status == 0 and out.count(b'\n') == 2 and all(len(line.split()) <= 1 for line in out.splitlines()), err
    for options, message in ((('--dtype', 'half'), "dtype 'half'"), (('--max-new-tokens', 0), 'at least 1')):
        status, _, err = tnb('tnb-translate', small_run, *options, stdin=lines)
        assert status == 2 and message in err


def test_eval_reads_the_test_files_alone(corpus, tmp_path):
    "After --drop-empty, and without the training text."
    for lang in ('en', 'de'):
        lines = (corpus/f'train.{lang}').read_text().split('\n')
        (corpus/f'train.{lang}').write_text('\n'.join(['' if lang == 'de' else 'more .', *lines]))
    run = ('--data', corpus, '--steps', 1, '--device', 'cpu', '--out', tmp_path/'run')
    status, _, err = tnb('tnb-train', *run, '--drop-empty')
    assert status == 0, err
    status, out, err = tnb('tnb-eval', tmp_path/'run', '--beam', 1)
    assert status == 0 and out.startswith(b'test ') and b' 8 pairs' in out, err
    for file in corpus.glob('train.*'): file.write_bytes(b'\xff')
    assert tnb('tnb-eval', tmp_path/'run', '--beam', 1)[1] == out
    assert tnb('tnb-eval', tmp_path/'run', '--beam', 1, '--data', corpus)[1] == out
    for file in corpus.glob('train.*'): file.unlink()
    assert tnb('tnb-eval', tmp_path/'run', '--beam', 1)[1] == out


def test_empty_lines_of_a_test_set_are_dropped_if_that_was_said(corpus, tmp_path):
    "In training, for the corpus of the training; or to tnb-eval."
    for lang, line in (('en', 'more .\n'), ('de', '\n')):
        with (corpus/f'test.{lang}').open('a') as file: file.write(line)
    run = ('--data', corpus, '--steps', 1, '--device', 'cpu', '--out', tmp_path/'run')
    assert tnb('tnb-train', *run, '--drop-empty')[0] == 0
    assert b' 8 pairs' in tnb('tnb-eval', tmp_path/'run', '--beam', 1)[1]
    status, _, err = tnb('tnb-eval', tmp_path/'run', '--beam', 1, '--data', corpus)
    assert status == 2 and 'test.de:9: empty line' in err and len(err.splitlines()) == 1, err
    assert b' 8 pairs' in tnb('tnb-eval', tmp_path/'run', '--beam', 1, '--data', corpus, '--drop-empty')[1]


def test_eval_without_the_corpus_names_the_remedy(corpus, tmp_path):
    train(data=str(corpus), steps=1, device='cpu', out=tmp_path/'run')
    corpus.rename(tmp_path/'elsewhere')
    err = refused(tmp_path/'nothing', tmp_path/'run', command='tnb-eval')
    assert f'{corpus}: the corpus that the model was trained on is not here; name one with --data FILE.en' in err


def test_a_comma_may_stand_in_the_name_of_a_folder(corpus, tmp_path):
    folder = corpus.rename(tmp_path/'news, 2014')
    train(data=str(folder), steps=1, device='cpu', out=tmp_path/'run')
    status, out, err = tnb('tnb-eval', tmp_path/'run', '--beam', 1)
    assert status == 0 and out.startswith(b'test '), err
    train(steps=1, device='cpu', out=tmp_path/'run', resume='newest')  # there is no step to do, but its corpus is read


def test_average_of_the_last_checkpoints(small_run, tmp_path):
    status, _, err = tnb('tnb-average', small_run, tmp_path/'mean', '--last', 3)
    assert status == 0 and err.count('step-') == 3, err
    states = [checkpoints.load(path).model.state_dict() for path in checkpoints.steps(small_run)[-3:]]
    found = checkpoints.load(tmp_path/'mean').model.state_dict()
    assert not torch.equal(states[0]['embedding.weight'], states[2]['embedding.weight'])
    for name, value in found.items(): torch.testing.assert_close(value, sum(state[name] for state in states)/3)
    status, out, _ = tnb('tnb-translate', tmp_path/'mean', stdin=b'a dog runs .\n')
    assert status == 0 and out.strip()


def test_average_refuses_what_it_cannot_do(small_run, tmp_path):
    for args, why in (
        ((tmp_path / 'none', tmp_path / 'mean'), 'holds no step-* checkpoints'),
        ((small_run, tmp_path / 'mean', '--last', 0), 'at least one'),
        ((small_run, small_run), 'is there already'),
    ):
        status, out, err = tnb('tnb-average', *args)
        assert status == 2 and why in err and len(err.splitlines()) == 1, err
    assert not (tmp_path/'mean').exists()


@pytest.mark.parametrize('command', ['tnb-train', 'tnb-average', 'tnb-translate', 'tnb-eval', 'tnb-demo'])
def test_help_explains_every_option(command):
    status, out, _ = tnb(command, '-h')
    text = out.decode().partition('options:')[2]
    entries = re.split(r'\n  (?=-)', text)[1:]
    assert status == 0 and len(entries) >= 2
    for entry in entries: assert len(re.split(r'\s{2,}|\n', entry.strip())) > 1, f'no help: {entry}'


def test_resume_goes_on(corpus, tmp_path):
    args = ('--data', corpus, '--device', 'cpu', '--out', tmp_path/'run')
    assert tnb('tnb-train', *args, '--steps', 2)[0] == 0
    status, _, err = tnb('tnb-train', *args, '--steps', 4, '--resume')
    assert status == 0 and '4 steps' in err, err
    assert [path.name for path in checkpoints.steps(tmp_path/'run')][-1] == 'step-0000004'
    (corpus/'train.en').write_text('a dog runs .\n')
    (corpus/'train.de').write_text('ein Hund läuft .\n', encoding='utf-8')
    status, _, err = tnb('tnb-train', *args, '--steps', 5, '--resume')  # the corpus has changed meanwhile
    assert status == 2 and len(err.splitlines()) == 1 and 'its run has pairs 8, not 1; give the same command' in err


def test_a_program_may_give_paths(corpus, small_run, tmp_path):
    "As `train` is called where nothing is typed; what is kept of them is text."
    train(corpus, out=tmp_path/'run', init=small_run, steps=1, save_every=1, device='cpu')
    kept = checkpoints.load(tmp_path/'run').training
    assert kept['data'] == os.path.realpath(corpus) and kept['init'] == str(small_run)


def test_a_resumed_run_takes_the_length_that_is_given_or_its_own(corpus, tmp_path):
    "Never steps of one command and minutes of another."
    run = dict(data=str(corpus), batch_tokens=256, device='cpu', out=tmp_path/'run')
    def length():
        settings = checkpoints.load(checkpoints.newest(tmp_path/'run')).training['settings']
        return settings['steps'], settings['minutes']
    train(**run, steps=2, minutes=5., lr_scale=1., threads=1)
    assert length() == (2, 5.)
    train(**run, steps=3, resume=True)
    assert length() == (3, None)
    train(**run, resume=True)
    assert length() == (3, None)


def test_a_resumed_run_keeps_its_corpus_and_its_bleu(corpus, tmp_path):
    "Whatever chose its pairs, and the sentences to translate at each checkpoint."
    (corpus/'train.en').write_text((corpus/'train.en').read_text() + ' \n')
    (corpus/'train.de').write_text((corpus/'train.de').read_text() + 'nichts\n')
    run = dict(out=tmp_path/'run', device='cpu', batch_tokens=256)
    train(data=str(corpus), drop_empty=True, corpus_size=2000, bleu=2, steps=2, checkpoints=2, **run)
    train(resume=True, steps=4, **run)
    log = checkpoints.load(tmp_path/'run').training['log']
    assert log[-1]['step'] == 4 and all('score' in entry for entry in log)
    train(resume=True, bleu=0, steps=5, **run)
    assert 'score' not in checkpoints.load(tmp_path/'run').training['log'][-1]


def test_bleu_at_a_checkpoint_traces_nothing(monkeypatch):
    "TorchScript never frees what it has traced, and each checkpoint has another model."
    monkeypatch.setattr(inference, 'TRACE_AFTER', 1)
    monkeypatch.setattr(inference, '_traced', lambda *_: pytest.fail('traced'))
    translator = Translator.from_pretrained('demo')
    assert 0 <= _bleu(translator.tokenizer, [('a dog runs .', 'ein hund rennt .')])(translator.model) <= 100


def test_bleu_without_validation_pairs_is_refused(corpus, tmp_path):
    for file in corpus.glob('val.*'): file.unlink()
    assert '--bleu 5: there are no validation pairs' in refused(tmp_path, '--data', corpus, '--bleu', 5)


@pytest.mark.parametrize('lacks, said', [('settings', "'settings' is missing, so there is no run to go on with"),
    ('tokenizer', 'a checkpoint without tokenizer, so not of tnb-train; go on with')])
def test_a_checkpoint_of_another_program_is_not_gone_on_from(lacks, said, corpus, small_run, tmp_path):
    "It may lack what the command keeps there: said in one line, and nothing is changed."
    found, out = checkpoints.load(small_run), tmp_path/'run'
    training = {key: value for key, value in found.training.items() if key != lacks}
    tokenizer = None if lacks == 'tokenizer' else found.tokenizer
    checkpoints.save(out/'step-0000001', found.model, tokenizer, training)
    status, _, err = tnb('tnb-train', '--data', corpus, '--steps', 2, '--device', 'cpu', '--out', out, '--resume')
    assert status == 2 and len(err.splitlines()) == 1, err
    assert 'step-0000001' in err and said in err
    assert [path.name for path in out.iterdir()] == ['step-0000001']


@pytest.mark.parametrize('name', ['runs/frist', 'mine/averaged', 'mine/step-0000100'])
def test_a_mistyped_run_is_missing_and_not_looked_for_elsewhere(name, tmp_path, monkeypatch):
    "Though `runs` does not exist, so that the name could be an id of the Hub."
    hub = pytest.importorskip('huggingface_hub')
    monkeypatch.setattr(hub, 'snapshot_download', lambda *args, **options: pytest.fail('asked the Hub'))
    for command in ('tnb-translate', 'tnb-eval', 'tnb-export', 'tnb-parse'):
        status, out, err = tnb(command, name, cwd=tmp_path)
        assert (status, out, len(err.splitlines())) == (2, b'', 1), err
        assert f'{name}: no such checkpoint directory; train one with tnb-train --out {name}' in err


@pytest.mark.parametrize('error, line', [
    (torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2 GiB'), 'the memory is full: close other programs'),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), 'the memory is full'),
    (OSError(28, 'No space left on device'), 'output: No space left on device; make room'),
    (OSError(errno.ENAMETOOLONG, 'File name too long', 'a'*300), f'{"a"*300}: File name too long; is it a path?'),
    (RuntimeError('mat1 and mat2 shapes cannot be multiplied'), None)])
def test_what_is_no_fault_of_ours_is_one_line(error, line, monkeypatch):
    "A full memory and a full disk, wherever they come up; a fault of our own keeps its traceback."
    def fail(*_, **__): raise error
    monkeypatch.setattr(Translator, 'nbest', fail)
    status, out, err = tnb('tnb-translate', 'demo', '--device', 'cpu', stdin=b'a dog runs .\n')
    assert status == 1 and out == b''
    if line: assert err.startswith(f'tnb-translate: {line}') and len(err.splitlines()) == 1
    else: assert 'Traceback' in err and str(error) in err


def test_output_on_a_full_disk_is_one_line():
    with open('/dev/full', 'wb') as full:
        done = subprocess.run([BIN/'tnb-translate', 'demo', '--device', 'cpu'], input=b'a dog runs .\n', stdout=full,
            stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr == b'tnb-translate: output: No space left on device; make room, or see to its permissions\n'


def test_without_an_output_nothing_is_written_and_nothing_fails():
    "As a service may be started: `>&-`."
    done = subprocess.run([BIN/'tnb-translate', 'demo', '--device', 'cpu'], input=b'a dog runs .\n',
        preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b'')
