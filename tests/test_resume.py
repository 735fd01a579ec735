"""A run that is killed, stopped, starved of disk or fed with bad data loses nothing, and ends with the same bits
as one that was left alone."""

import json
import os
import random
import re
import shutil
import signal
import time
from functools import partial

import pytest
import torch
from conftest import begin, tnb

from transformer_nb import checkpoints
from transformer_nb.core import InputError, ProcessLost, seed_everything
from transformer_nb.train.callbacks import Checkpointing, Stopped
from transformer_nb.train.runs import NotFinite
from transformer_nb.train.trainer import Trainer, TrainingConfig
from transformer_nb.transformer import Transformer, preset

pytestmark = pytest.mark.long(30)  # all: most go on from the same two runs

STEPS = 16
WORDS = 'a the dog cat bird house sees likes finds green small old and near under'.split()
SETTINGS = ('--vocab-size 60 --batch-tokens 128 --grad-accum-steps 2 --warmup 20 --lr-scale 0.3 --max-len 64 '
            '--save-every 4 --average-last 3 --device cpu --seed 3').split()


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    rng, folder = random.Random(0), tmp_path_factory.mktemp('data')
    for name, n in (('train', 300), ('val', 20)):
        rows = [[rng.choice(WORDS) for _ in range(rng.randint(2, 12))] for _ in range(n)]
        for lang, f in (('en', list), ('de', reversed)):
            (folder / f'{name}.{lang}').write_text(''.join(' '.join(f(row)) + '\n' for row in rows))
    return folder


def arguments(data, out, *more): return ['--data', data, '--out', out, *SETTINGS, '--steps', STEPS, *more]


def run(data, out, *more):
    "The whole command; its exit code and messages."
    status, _, err = tnb('tnb-train', *arguments(data, out, *more))
    return status, err


def start(data, out, log, *more, first=None):
    "The command as a process that something can happen to."
    return begin(['tnb-train', *arguments(data, out, *more)], log, first=first)


@pytest.fixture(scope='module')
def whole(data, tmp_path_factory):
    "The run that nothing happened to."
    out = tmp_path_factory.mktemp('whole')/'run'
    status, err = run(data, out)
    assert status == 0, err
    return out


def bits(run):
    return {
        path.name: {f.name: f.read_bytes() for f in path.glob('*.safetensors')}
        for path in (*checkpoints.steps(run), run / 'averaged')
    }


def losses(run):
    return [(line['step'], line['loss']) for line in map(json.loads, open(run / 'metrics.jsonl')) if 'loss' in line]


def assert_same(run, whole):
    assert bits(run) == bits(whole)
    assert losses(run) == losses(whole)


def struck_after(step, sig):
    "In the process of a run: the signal comes in the middle of the next step, however fast or slow the machine is."
    gradients = Trainer._accumulate
    def struck(self, micro_batches):
        found = gradients(self, micro_batches)
        if self.step == step: os.kill(os.getpid(), sig)
        return found
    Trainer._accumulate = struck


def strike(data, out, step, sig, *more):
    "Start (or resume) the run, which gets a signal when it has done so many steps; its exit code and messages."
    log = out.with_name('log')
    process = start(data, out, log, *more, first=partial(struck_after, step, sig))
    process.join()
    return process.exitcode, log.read_text()


@pytest.mark.parametrize('times', [3, pytest.param(6, marks=pytest.mark.slow)])
def test_killed_several_times_same_bits(times, data, whole, tmp_path):
    out, steps = tmp_path/'run', sorted(random.Random(0).sample(range(2, STEPS - 1), times))
    for i, step in enumerate(steps):
        sig = (signal.SIGKILL, signal.SIGTERM)[i % 2]
        resume = ['--resume'] if checkpoints.steps(out) else []
        # killed before its first checkpoint: nothing to go on from
        if not resume: shutil.rmtree(out, ignore_errors=True)
        status, err = strike(data, out, step, sig, *resume)
        assert status == (-9 if sig == signal.SIGKILL else 143), (steps, step, err)
        assert sig == signal.SIGKILL or 'go on with --resume' in err
    status, err = run(data, out, '--resume')
    assert status == 0, err
    assert_same(out, whole)


@pytest.fixture(scope='module')
def stopped_once(data, tmp_path_factory):
    "A run that was stopped before its end."
    out = tmp_path_factory.mktemp('stopped')/'run'
    assert strike(data, out, 8, signal.SIGTERM)[0] == 143
    return out


@pytest.fixture
def stopped(stopped_once, tmp_path):
    "A copy of it, for each test its own."
    return shutil.copytree(stopped_once, tmp_path/'run')


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ('flip', 'delete')]  # see test_checkpoints.py, too


@pytest.mark.parametrize('damage', ['cut', *SLOW])
def test_damaged_newest_checkpoint(data, whole, stopped, damage):
    file = checkpoints.steps(stopped)[-1]/'model.safetensors'
    content = bytearray(file.read_bytes())
    if damage == 'delete': file.unlink()
    else:
        content[len(content)//2] ^= 1
        file.write_bytes(content if damage == 'flip' else content[:-100])
    status, err = run(data, stopped, '--resume')
    assert status == 0 and str(file) in err, err
    assert_same(stopped, whole)


def fill_disk():
    import resource  # not on Windows
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


def test_full_disk(data, whole, stopped, tmp_path):
    before, log = bits_of(checkpoints.newest(stopped)), tmp_path/'log'
    process = start(data, stopped, log, '--resume', first=fill_disk)
    process.join()
    err = log.read_text()
    assert process.exitcode == 1 and 'cannot be written' in err and 'make room' in err, err
    assert bits_of(checkpoints.newest(stopped)) == before and not list(stopped.glob('.*'))
    assert run(data, stopped, '--resume')[0] == 0
    assert_same(stopped, whole)


def bits_of(path): return {f.name: f.read_bytes() for f in path.iterdir()}


def test_line_that_became_unreadable(data, whole, stopped):
    before, file = bits_of(checkpoints.newest(stopped)), data/'train.de'
    good = file.read_bytes()
    lines = good.split(b'\n')
    lines[149] = b'\xff' + lines[149]
    file.write_bytes(b'\n'.join(lines))
    status, err = run(data, stopped, '--resume')
    file.write_bytes(good)
    assert status == 2 and 'train.de:150: not UTF-8' in err and len(err.splitlines()) == 1, err
    assert bits_of(checkpoints.newest(stopped)) == before
    assert run(data, stopped, '--resume')[0] == 0
    assert_same(stopped, whole)


def test_another_model_or_corpus_is_refused(data, whole):
    for more, word in ((['--preset', 'small'], 'N is 4, not 3'), (['--src', 'de', '--tgt', 'en'], "src 'en', not 'de'"),
                       (['--grad-accum-steps', '3'], 'grad_accum_steps 2, not 3')):
        status, err = run(data, whole, '--resume', *more)
        assert status == 2 and word in err and len(err.splitlines()) == 1, err


def test_loss_that_is_no_number(data, tmp_path):
    status, err = run(data, tmp_path/'run', '--lr-scale', '1e30')
    assert status == 1, err
    message = err.splitlines()[-1]
    file, = (tmp_path/'run').glob('not-finite-*.json')
    assert 'stopped before the update' in message and str(file) in message
    assert {'src', 'tgt', 'src_text', 'tgt_text'} == json.loads(file.read_text())['pairs'][0].keys()


def trainer(out, score=None, **settings):
    seed_everything(0)
    model = Transformer(preset('tiny', vocab_size=40, N=1, d_model=16, d_ff=32, h=2, max_len=32))
    words = lambda: torch.randint(3, 40, (int(torch.randint(3, 12, ())),)).tolist()
    pairs = [(words(), words()) for _ in range(60)]
    cfg = TrainingConfig(**{'steps': 6, 'batch_tokens': 64, 'warmup': 4, 'save_every': 2, 'device': 'cpu'} | settings)
    return Trainer(model, train=pairs, val=pairs[:10], cfg=cfg, out=out, score=score)


def test_stopped_while_validating(tmp_path):
    stops = iter([False, True])
    def score(model):
        if next(stops, False): os.kill(os.getpid(), signal.SIGTERM)
        return 0.
    with pytest.raises(Stopped): trainer(tmp_path/'run', score).fit(quiet=True)
    assert checkpoints.newest(tmp_path/'run').name == 'step-0000004'
    again = trainer(tmp_path/'run', score)
    again.resume()
    again.fit(quiet=True)
    trainer(tmp_path/'whole', lambda model: 0.).fit(quiet=True)
    assert bits(tmp_path/'run') == bits(tmp_path/'whole')


def test_a_checkpoint_that_is_given_brings_its_weights(tmp_path):
    whole = trainer(tmp_path/'run')
    whole.fit(quiet=True)
    found, again = checkpoints.load(tmp_path/'run'/'step-0000004'), trainer(tmp_path/'run')
    again.resume(found)
    assert again.step == 4
    for name, value in again.model.state_dict().items(): assert torch.equal(value, found.model.state_dict()[name])
    other = Transformer(preset('tiny', vocab_size=40, N=1, d_model=32, d_ff=32, h=2, max_len=32))
    with pytest.raises(InputError, match='of another model .d_model is 16, not 32'):
        Trainer(other, train=whole.batches.pairs, cfg=whole.cfg, out=tmp_path/'run').resume(found)


def test_infinite_gradient_with_a_finite_loss(tmp_path):
    broken = trainer(tmp_path)
    broken.model.embedding.weight.register_hook(lambda grad: grad + float('inf'))
    before = [p.clone() for p in broken.model.parameters()]
    with pytest.raises(NotFinite, match='gradient norm'): broken.fit(quiet=True)
    assert all(torch.equal(a, b) for a, b in zip(before, broken.model.parameters()))


def test_early_stopping(tmp_path):
    # a rate at which nothing improves
    patient = trainer(tmp_path, steps=400, save_every=1, warmup=1, lr_scale=10., patience=2)
    patient.fit(quiet=True)
    losses = [entry['val_loss'] for entry in patient.log]
    assert patient.step < 400 and losses.index(min(losses)) == len(losses) - 3


def test_a_run_made_longer_keeps_its_rhythm(tmp_path):
    trainer(tmp_path, steps=8, checkpoints=4, save_every=None).fit(quiet=True)
    longer = trainer(tmp_path, steps=16, checkpoints=4, save_every=None)
    longer.resume()
    longer.fit(quiet=True)
    assert longer.checkpoint_steps == [2, 4, 6, 8, 12, 16]


def test_metrics_reach_tensorboard(tmp_path):
    pytest.importorskip('tensorboard')
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    trainer(tmp_path, tensorboard=True).fit(quiet=True)
    board = EventAccumulator(str(tmp_path/'tensorboard')).Reload()
    assert [event.step for event in board.Scalars('loss')] == [1, 2, 3, 4, 5, 6]
    assert [event.value for event in board.Scalars('loss')] == pytest.approx([loss for _, loss in losses(tmp_path)])


@pytest.mark.parametrize('last', range(1, 6))
def test_stopped_at_any_step(tmp_path, last):
    "Also in the step that ends at a regular checkpoint, before that is written."
    runs = {name: trainer(tmp_path/name) for name in ('whole', 'parts')}
    runs['whole'].fit(quiet=True)
    def train_step(step, stopped=runs['parts']):
        if stopped.step == last - 1: stopped.stop_signal = signal.SIGINT
        return Trainer.train_step(stopped, step)
    runs['parts'].train_step = train_step
    with pytest.raises(Stopped): runs['parts'].fit(quiet=True)
    again = trainer(tmp_path/'parts')
    again.resume()
    assert again.step == last
    again.fit(quiet=True)
    assert_same(tmp_path/'parts', tmp_path/'whole')
    untimed = lambda run: [{k: v for k, v in entry.items() if k != 'seconds'} for entry in run.log]
    assert untimed(again) == untimed(runs['whole'])


def test_auto_begins_and_goes_on(data, whole, tmp_path):
    "The same command whenever the machine comes back: before the first checkpoint, after some, after the end."
    out = tmp_path/'run'
    for step in (2, 8):
        assert strike(data, out, step, signal.SIGKILL, '--resume', 'auto')[0] == -9
        assert bool(checkpoints.steps(out)) == (step > 2)
    for _ in range(2):
        status, err = run(data, out, '--resume', 'auto')
        assert status == 0, err
        assert_same(out, whole)


def test_auto_leaves_alone_what_is_not_its_own(data, whole, tmp_path):
    foreign, only_average = tmp_path/'foreign'/'metrics.jsonl', tmp_path/'average'
    foreign.parent.mkdir()
    foreign.write_text('{"step": 1, "accuracy": 0.5}\n')
    shutil.copytree(whole/'averaged', only_average/'averaged')
    for out, word in ((foreign.parent, 'metrics.jsonl'), (only_average, 'already holds a run')):
        before = {path: path.read_bytes() for path in out.rglob('*') if path.is_file()}
        status, err = run(data, out, '--resume', 'auto')
        assert status == 2 and word in err and len(err.splitlines()) == 1, err
        assert before == {path: path.read_bytes() for path in out.rglob('*') if path.is_file()}


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    "On a disk that needs longer than a step, each file still holds the weights of its own step."
    slow, whole, later = trainer(tmp_path/'slow'), trainer(tmp_path/'whole'), {}
    def slow_sign(folder, format, sign=checkpoints.write_manifest):
        if folder.name.startswith('.step'):
            step = int(re.findall('[0-9]+', folder.name)[0])
            while slow.step == step < 6: time.sleep(.001)
            later[step] = slow.step - step
        sign(folder, format)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, 'write_manifest', slow_sign)
        slow.fit(quiet=True)
    assert later[2] in (1, 2) and later[4] in (1, 2) and later[6] == 0  # from then on it is waited for
    class AtOnce(Checkpointing):
        def save(self, trainer):
            super().save(trainer)
            self.wait()
    whole.callbacks[[*map(type, whole.callbacks)].index(Checkpointing)] = AtOnce()
    whole.fit(quiet=True)
    assert_same(tmp_path/'slow', tmp_path/'whole')


def test_sigterm_does_not_cut_off_the_last_checkpoint(tmp_path, monkeypatch):
    "torchrun sends it to all processes as soon as one is gone."
    lost, unnoted = trainer(tmp_path), []
    def train_step(step):
        if lost.step == 3: raise RuntimeError('[gloo/transport/tcp/pair.cc:534] Connection closed by peer')
        return Trainer.train_step(lost, step)
    def write_files(path, files, write=checkpoints.write_files):
        if path.name == 'step-0000003': os.kill(os.getpid(), signal.SIGTERM)
        write(path, files)
    lost.train_step = train_step
    monkeypatch.setattr(checkpoints, 'write_files', write_files)
    before = signal.signal(signal.SIGTERM, lambda *_: unnoted.append('the process would have died'))
    try:
        with pytest.raises(ProcessLost, match='another process is gone'): lost.fit(quiet=True)
    finally: signal.signal(signal.SIGTERM, before)
    assert not unnoted and checkpoints.newest(tmp_path).name == 'step-0000003'


def test_what_a_killed_process_had_half_written_goes(tmp_path):
    half, notes = tmp_path/'.step-0000003.tmp', tmp_path/'.notes.tmp'
    for folder in (half, notes):
        folder.mkdir()
        (folder/'config.json').write_text('{}')
    trainer(tmp_path).fit(quiet=True)
    assert not half.exists() and notes.exists()
