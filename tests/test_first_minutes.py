"""What a newcomer types first gives right answers: README's commands, the commands that others propose,
on a busy machine too."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from conftest import BIN, tnb

from transformer_nb import checkpoints
from transformer_nb.cli import train
from transformer_nb.core import InputError, profile
from transformer_nb.data import corpora
from transformer_nb.data.tokenizer import train_tokenizer
from transformer_nb.decode.translator import Translator
from transformer_nb.english_german.grammar import sentence_pairs
from transformer_nb.optimizer import lrate
from transformer_nb.train import autotune
from transformer_nb.train.autotune import (
    choose_threads, default_hparams, expected_steps, torch_settings, warn_of_warmup)
from transformer_nb.train.callbacks import BusyMachine
from transformer_nb.train.trainer import Trainer, TrainingConfig
from transformer_nb.transformer import Transformer, preset

ROOT = Path(__file__).parents[1]
MEASURED = json.loads((ROOT/'benchmarks/results/built_in.json').read_text())
COMMANDS = ('tnb-train', 'tnb-translate', 'tnb-eval', 'tnb-average', 'tnb-parse', 'tnb-demo', 'tnb-progress',
    'tnb-data')


def blocks(kind):
    "The blocks of the README's part *Use*."
    part = (ROOT/'README.md').read_text().split('\n## Use\n')[1].split('\n## ')[0]
    return re.findall(rf'```{kind}\n(.*?)```', part, re.DOTALL)


def shell(script, cwd):
    done = subprocess.run(['bash', '-e', '-c', script], cwd=cwd, capture_output=True, text=True,
        env=os.environ | {'PATH': f"{BIN}{os.pathsep}{os.environ['PATH']}"})
    assert done.returncode == 0, done.stderr
    return done


def scores(table):
    "Split -> BLEU of what tnb-eval printed."
    return {
        split: float(bleu) for split, bleu in re.findall(r'^(\S+) +[\d,]+ pairs +BLEU +([\d.]+)', table, re.MULTILINE)
    }


@pytest.fixture(scope='module')
def used(tmp_path_factory):
    "README's first block of commands, as it stands."
    place = tmp_path_factory.mktemp('use')
    return place, shell(blocks('sh')[0], place)


@pytest.mark.slow
def test_readme_use_gives_the_right_answer(used):
    "As many steps as README says, with the scores that its table gives."
    place, done = used
    answer, table = done.stdout.split('\n', 1)
    assert answer == 'ein Hund läuft .'
    assert checkpoints.load(place/'runs/first').training['step'] == MEASURED['README']['steps']
    found, measured = scores(table), MEASURED['README']['scores']
    assert found.keys() == measured.keys()
    for split, bleu in found.items(): assert bleu > measured[split]['BLEU'] - 2, table


@pytest.mark.slow
def test_readme_use_in_python(used, monkeypatch):
    "The block for Python, on the model that the block of commands has trained."
    monkeypatch.chdir(used[0])
    *lines, last = blocks('python')[0].strip().splitlines()
    names = {}
    exec('\n'.join(lines), names)
    assert eval(last, names) == ['ein Hund läuft .']


@pytest.mark.slow
def test_the_start_and_the_end_say_what_was_planned(used):
    _, done = used
    lines = done.stderr.splitlines()
    where = r'(cpu in float32, 1 thread|cuda in float32)'
    assert re.search(rf'40,000 pairs, 8,000 word pieces, .* on 1 x {where}$', lines[0])
    assert re.search(r'^pre-norm, dropout 0, 1 x 1,536 tokens per step, '
        r'learning rate up to 0.005 in 200 steps, ends after 1,000 steps$', lines[1])
    assert re.search(r'runs/first/averaged: 1,000 of 1,000 steps in [\d.]+ minutes, validation loss', done.stderr)


def test_readme_names_steps_and_a_directory_of_its_own():
    "make demo writes runs/demo: the block must work after it too. And what is promised must not depend on the clock."
    block = blocks('sh')[0]
    assert f"--steps {MEASURED['README']['steps']} " in block and 'minutes' not in block and 'runs/demo' not in block


def test_readme_gives_the_scores_that_were_measured():
    table = (ROOT/'README.md').read_text()
    for name, command in (('README', 'tnb-train --data builtin --steps 1000'), ('demo', 'make demo')):
        row = MEASURED[name]
        test, unseen = (f"{found['BLEU']:.1f} | {found['chrF']:.1f}" for found in row['scores'].values())
        assert f"| `{command}` | {row['steps']:,} | {row['minutes']:.0f} | {row['threads']} | {test} |" in table
        assert f'| the same | | | | {unseen} |' in table and row['answer'] == 'ein Hund läuft .'
    assert MEASURED['demo']['steps'] == profile('cpu').steps and profile('cpu').dtype == 'float32'


@contextmanager
def busy(n):
    "Other programs that take as much of the processor as they can get."
    others = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(n)]
    try: yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@pytest.fixture
def few_to_score(monkeypatch):
    "The built-in corpus with few sentences to score: what has learned for seconds writes long lines."
    few = {name: pairs if name == 'train' else pairs[:8] for name, pairs in sentence_pairs(2000).items()}
    monkeypatch.setattr(corpora, 'sentence_pairs', lambda *args: few)


def weights_of(out): return checkpoints.load(out).model.state_dict()


@pytest.mark.parametrize('others', [0, pytest.param(2, marks=pytest.mark.slow)])  # nothing is measured: see below
def test_a_busy_machine_and_the_number_of_cores_change_no_weight(others, few_to_score, tmp_path):
    "The command of README, shorter: on a machine that seems idle, and beside other programs, with other threads."
    run = dict(data='builtin', corpus_size=2000, vocab_size=300, steps=2, save_every=2, device='cpu')
    train(**run, out=tmp_path/'quiet')
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with busy(others): train(**run, out=tmp_path/'busy')
    finally: torch.set_num_threads(before)
    quiet, other = (checkpoints.load(tmp_path/name) for name in ('quiet', 'busy'))
    assert quiet.training['settings'] == other.training['settings'] and quiet.training['settings']['minutes'] is None
    for name, value in weights_of(tmp_path/'quiet').items():
        assert torch.equal(value, other.model.state_dict()[name]), name


def test_a_run_of_steps_measures_nothing(tmp_path, monkeypatch):
    "Neither the fastest dtype nor the fastest number of threads: what was measured would depend on the machine's load."
    for place in ('transformer_nb.train.autotune.seconds_a_step', 'transformer_nb.cli.choose_threads'):
        monkeypatch.setattr(place, lambda trainer: pytest.fail('measured'))
    monkeypatch.setattr('transformer_nb.train.trainer.fast_dtype', lambda device: pytest.fail('measured'))
    train(data=small_corpus(tmp_path), steps=2, device='cpu', out=tmp_path/'run')
    kept = checkpoints.load(tmp_path/'run').training['settings']
    assert (kept['dtype'], kept['threads']) == ('float32', 1)


def test_the_warm_up_of_a_short_run_is_a_quarter_of_it(tmp_path):
    "Of the small presets; a larger one keeps the paper's, and what is typed is taken."
    data = small_corpus(tmp_path)
    for i, (options, warmup) in enumerate((
            (dict(steps=100), 25), (dict(steps=4000), 200), (dict(steps=100, warmup=50), 50),
            (dict(steps=100, lr_scale=.5), 200), (dict(steps=100, preset='base'), 4000))):
        kept = planned(data=data, device='cpu', out=tmp_path/f'run{i}', **options)
        assert kept.warmup == warmup, options
    peak = lrate(25, 128, 25, planned(data=data, steps=100, device='cpu', out=tmp_path/'run').lr_scale)
    assert peak == pytest.approx(lrate(200, 128, 200, .8))


def planned(**options):
    "The settings with which a run would begin."
    kept = []
    with patch('transformer_nb.cli._run', lambda trainer: kept.append(trainer.cfg)): train(**options)
    return kept[0]


def small_corpus(place):
    "A folder with a few sentences, in place of the built-in corpus, which takes seconds to draw."
    folder = place/'corpus'
    folder.mkdir()
    for name in ('train', 'test'):
        for lang, dog in (('en', 'a dog'), ('de', 'ein Hund')):
            (folder / f'{name}.{lang}').write_text(''.join(f'{dog} {w} .\n' for w in 'abcdefgh'))
    return str(folder)


@pytest.mark.long(15)
def test_demo_proposes_commands_that_work(few_to_score, tmp_path, monkeypatch):
    "A demo on few sentences, then what it prints under Next, with a small corpus in place of FOLDER."
    shutil.copy(ROOT/'settings.ini', tmp_path)
    monkeypatch.setenv('TNB_PROFILE', 'ci')
    status, out, err = tnb('tnb-demo', '--out', 'runs/demo', '--steps', 4, cwd=tmp_path)
    assert status == 0 and 'ends after 4 steps' in err and '4 of 4 steps' in err, err
    splits = scores(out.decode())
    assert set(splits) == {'test', 'unseen'} and (tmp_path/'runs/demo/attention.png').stat().st_size > 10_000
    commands = dict(re.findall(r'^  (translate|learn|go on) +(.*?)(?:   \(.*\))?$', out.decode(), re.MULTILINE))
    assert commands.keys() == {'translate', 'learn', 'go on'}
    sentence = re.search('"(.*)"', commands['translate'])[1]
    answer, = Translator.from_pretrained(tmp_path/'runs/demo').translate([sentence])  # after 4 steps, perhaps no word
    assert shell(commands['translate'], tmp_path).stdout == answer + '\n'
    small_corpus(tmp_path)
    command = re.sub(r'--steps \S+', '--steps 2', commands['go on'].replace('FOLDER', 'corpus'))
    program, *options = shlex.split(command)
    assert command != commands['go on'] and os.access(tmp_path/program, os.X_OK)
    status, _, err = tnb(Path(program).name, *options, cwd=tmp_path)
    assert status == 0 and 'runs/model/averaged' in err, err


def test_a_translation_does_not_wait_for_torchs_compiler():
    "A model built on device meta would import it, and sympy: a second and 57 MB at every start."
    code = """import sys
from transformer_nb import Translator
Translator.from_pretrained('demo', 'cpu').translate('a dog runs .')
print(sorted({'sympy', 'torch._dynamo'} & sys.modules.keys()))"""
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout == '[]\n'


@pytest.mark.parametrize('command', COMMANDS)
def test_version(command):
    "As a process where no other test starts the command as one."
    status, out, err = tnb(command, '--version', process=command == 'tnb-average')
    assert status == 0 and re.fullmatch(rb'transformer_nb \d+\.\d+\.\d+\n', out), err


# Defaults

def test_settings_suit_the_length():
    few, many, steps = (default_hparams('tiny', **length) for length in
        (dict(minutes=3), dict(minutes=30), dict(steps=20_000)))
    assert (few['norm'], many['norm'], steps['norm']) == ('pre', 'post', 'post')
    assert few['warmup'] < many['warmup'] < steps['warmup'] and default_hparams('tiny') == steps
    assert default_hparams('tiny', steps=1000) == few | {'threads': 1} and few['threads'] is None  # which are measured
    papers = {'norm': 'post', 'batch_tokens': 4096, 'warmup': 4000, 'lr_scale': 1.0, 'threads': None}
    assert default_hparams('base', minutes=3) == default_hparams('base', steps=3) == default_hparams('base') == papers
    for name, d_model in (('tiny', 128), ('small', 256)):  # the highest rate of a short run is that of a long one
        peaks = [lrate(s['warmup'], d_model, s['warmup'], s['lr_scale'])
                 for s in (default_hparams(name), default_hparams(name, steps=3), default_hparams(name, minutes=3))]
        assert peaks == [pytest.approx(peaks[0], rel=.05)]*3


TEXT = ['a dog runs .', 'ein Hund läuft .', 'the cat sleeps .', 'die Katze schläft .']


def new_trainer(out, cfg=None, **settings):
    tokenizer = train_tokenizer(TEXT)
    torch.manual_seed(0)
    model = Transformer(
        preset('tiny', vocab_size=tokenizer.vocab_size, N=1, d_model=16, d_ff=32, h=2, max_len=32, **(cfg or {}))
    )
    pairs = list(zip(tokenizer.encode(TEXT), tokenizer.encode(TEXT)))*8
    cfg = TrainingConfig(**{'batch_tokens': 64, 'warmup': 4, 'device': 'cpu', 'steps': 6} | settings)
    return Trainer(model, tokenizer=tokenizer, train=pairs, val=pairs[:4], cfg=cfg, out=out)


def test_a_run_that_ends_inside_its_warmup_says_so_first(tmp_path, capsys):
    new_trainer(tmp_path/'a', steps=4, warmup=4).fit()
    assert (
        'the run ends inside its warm-up: about 4 steps, and the learning rate rises for 4;' in capsys.readouterr().err
    )
    new_trainer(tmp_path/'b', steps=5, warmup=4).fit()
    assert 'warm-up' not in capsys.readouterr().err


def test_a_schedule_of_ones_own_has_no_warm_up_of_ours(tmp_path, capsys):
    made = new_trainer(tmp_path/'a', steps=4, warmup=4)
    Trainer(made.model, train=made.batches.pairs, cfg=made.cfg, out=tmp_path/'b', schedule=lambda step: .001).fit()
    assert 'warm-up' not in capsys.readouterr().err


def test_minutes_are_turned_into_steps_by_measuring(tmp_path, capsys):
    trainer = new_trainer(tmp_path/'a', steps=None, minutes=1., warmup=100, threads=1)
    trainer.step_seconds = {1: 60.}
    assert expected_steps(trainer) == 1
    warn_of_warmup(trainer)
    assert 'about 1 steps' in capsys.readouterr().err
    measured = new_trainer(tmp_path/'b', steps=None, minutes=1., threads=1)
    modes, gradients = [], measured.gradients
    def watched(step):
        modes.append(measured.model.training)
        return gradients(step)
    measured.gradients = watched
    measured.model.eval()  # as one is that was read, to start from
    assert expected_steps(measured) == round(60/measured.step_seconds[1]) and all(modes)


def test_a_resumed_run_keeps_what_was_chosen(tmp_path):
    "Settings that were chosen, not given: the same command with --resume goes on with them."
    out = tmp_path/'run'
    args = ('--data', small_corpus(tmp_path), '--device', 'cpu', '--out', out)
    status, _, err = tnb('tnb-train', *args, '--minutes', 0.001)
    assert status == 0, err
    first = checkpoints.load(checkpoints.newest(out)).training
    assert first['settings']['dtype'] in ('float32', 'bfloat16') and first['settings']['threads'] >= 1
    status, _, err = tnb('tnb-train', *args, '--minutes', 600, '--steps', first['step'] + 2, '--resume')
    assert status == 0, err
    then, length = checkpoints.load(checkpoints.newest(out)).training, {'minutes': None, 'steps': None}
    assert then['step'] == first['step'] + 2 and then['settings'] | length == first['settings'] | length


def test_resuming_with_the_same_or_a_shorter_command_is_the_same_run(tmp_path):
    "A given rate is not stretched, what auto has measured is not measured again, and the length of the run is kept."
    run = dict(data=small_corpus(tmp_path), batch_tokens=256, device='cpu', out=tmp_path/'run')
    train(**run, steps=4, save_every=2, average_last=3, lr_scale=2., dtype='auto', threads=1)
    kept = checkpoints.load(checkpoints.newest(tmp_path/'run')).training['settings']
    train(**run, resume=True)                        # ended already: averaged again
    train(**run, steps=6, lr_scale=2., dtype='auto', resume=True)
    found = checkpoints.load(checkpoints.newest(tmp_path/'run')).training
    assert found['step'] == 6 and found['settings'] | {'steps': 4} == kept and kept['dtype'] in ('float32', 'bfloat16')
    train(**run | {'out': tmp_path/'other'}, minutes=.002, lr_scale=2.)
    assert checkpoints.load(tmp_path/'other').training['settings']['lr_scale'] == 2.


@pytest.mark.parametrize(
    'args, what',
    [
        (('--steps', -1), 'steps -1 must be'),
        (('--steps', 0), 'steps 0 must be'),
        (('--minutes', -1), 'minutes -1.0 must be'),
        (('--minutes', 0), 'minutes 0.0 must be'),
        (('--minutes', 'nan'), 'minutes nan must be'),
        (('--warmup', 0), 'warmup 0 must be'),
        (('--dropout', 2), 'dropout'),
        (('--seed', -1), 'seed -1 must be'),
        (('--dtype', 'fp16'), "dtype 'fp16': choose one of float32"),
        (('--norm', 'mid'), 'norm'),
        (('--threads', 0), 'threads 0'),
        (('--batch-tokens', 0), 'batch_tokens 0'),
        (('--max-len', 0), 'max_len'),
        (('--bleu', -1), '--bleu -1'),
        (('--max-grad-norm', 0), 'max_grad_norm 0.0'),
        (('--lr-scale', 0), 'lr_scale 0.0'),
        (('--save-every', 0), 'save_every 0'),
        (('--patience', 0), 'patience 0'),
        (('--corpus-size', 0), 'built-in corpus'),
        (('--device', 'cuda'), 'cuda'),
    ],
)
def test_a_setting_that_makes_no_sense_is_one_line(args, what, tmp_path):
    if what == 'cuda' and torch.cuda.is_available(): pytest.skip('there is one')
    options = {name.lstrip('-').replace('-', '_'): value for name, value in zip(args[::2], args[1::2])}
    kinds = {'minutes': float, 'max_grad_norm': float, 'lr_scale': float, 'dropout': float}
    options = {name: kinds.get(name, lambda v: v)(value) for name, value in options.items()}
    with pytest.raises(InputError) as e:
        train(
            **{
                'corpus_size': 2000,
                'steps': None if 'minutes' in options else 1,
                'device': 'cpu',
                'out': tmp_path / 'run',
            }
            | options
        )
    assert what in str(e.value) and '\n' not in str(e.value) and not (tmp_path/'run').exists()


def test_a_command_called_from_python_raises_instead_of_ending_python(tmp_path):
    with pytest.raises(InputError, match='no such preset'): train(preset='huge', out=tmp_path/'run')
    state = torch.get_rng_state()
    train(data=small_corpus(tmp_path), steps=1, batch_tokens=256, device='cpu', out=tmp_path/'run')
    assert torch.equal(torch.get_rng_state(), state)
    assert Translator.from_pretrained(tmp_path/'run', device='cpu').translate(['a dog runs .'])


# A busy machine

def test_threads_are_chosen_by_measuring_and_given_back(tmp_path, monkeypatch):
    trainer, before = new_trainer(tmp_path/'run'), torch.get_num_threads()
    seconds = {1: 10., 2: 6., 4: 5.5, 8: 1.}  # from 2 to 4 little is won: there it stops
    monkeypatch.setattr(autotune, 'seconds_a_step', lambda trainer, threads: seconds[threads])
    monkeypatch.setattr(torch, 'get_num_threads', lambda: 8)
    choose_threads(trainer)
    assert trainer.cfg.threads == 2
    monkeypatch.undo()
    given = new_trainer(tmp_path/'run', threads=1)
    choose_threads(given)
    assert given.cfg.threads == 1
    given.fit(quiet=True)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize('length, remedy', [(dict(minutes=3.), 'more minutes'), (dict(steps=6), 'or wait')])
def test_a_run_says_once_that_other_programs_take_the_processor(length, remedy, tmp_path, capsys):
    trainer, machine = new_trainer(tmp_path/'run', **{'steps': None} | length), BusyMachine()
    with torch_settings(trainer.device, 2):
        for _ in range(4): machine.watch(trainer, took=6., used=12.)   # quiet
        assert capsys.readouterr().err == ''
        for _ in range(6): machine.watch(trainer, took=6., used=6.)
    err = capsys.readouterr().err
    assert err.count('other programs use the processor') == 1 and 'threads=1' in err and remedy in err


def test_a_run_with_one_thread_is_not_told_to_take_fewer(tmp_path, capsys):
    trainer, machine = new_trainer(tmp_path/'run'), BusyMachine()
    with torch_settings(trainer.device, 1):
        for _ in range(2): machine.watch(trainer, took=6., used=3.)
    assert 'other programs' in (err := capsys.readouterr().err) and 'threads' not in err
