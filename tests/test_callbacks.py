"""Callbacks and what is given instead of the paper's: their state is resumed, the best and the mean of all weights are
whole and right, weight decay leaves norms and biases alone; older names of settings are read."""

import errno
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import tnb
from test_first_minutes import new_trainer, small_corpus

from transformer_nb import checkpoints
from transformer_nb.core import DiskError, InputError
from transformer_nb.data.tokenizer import BOS
from transformer_nb.optimizer import adam
from transformer_nb.train.callbacks import (
    EMA, BestCheckpoint, Callback, Checkpointing, EarlyStopping, Metrics, SampleTranslations, Stopped,
    default_callbacks)
from transformer_nb.train.recipes import FOLDER, load_recipe
from transformer_nb.train.runs import NotFinite
from transformer_nb.train.trainer import OLD_NAMES, Trainer, TrainingConfig


def weights(path): return checkpoints.load(path).model.state_dict()


def assert_equal(a, b): assert a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def stop_after(trainer, last):
    "As Ctrl-C would, in the middle of a step."
    def train_step(step):
        if trainer.step == last - 1: trainer.stop_signal = 2
        return Trainer.train_step(trainer, step)
    trainer.train_step = train_step
    with pytest.raises(Stopped): trainer.fit(quiet=True)


@pytest.mark.parametrize('last', [1, 4, 5])
def test_a_moving_average_is_resumed_to_the_last_bit(tmp_path, last):
    settings = dict(steps=8, save_every=2, ema=.9, keep_best=True, weight_decay=.1)
    whole = new_trainer(tmp_path/'whole', cfg={'dropout': .2}, **settings)
    whole.fit(quiet=True)
    stop_after(new_trainer(tmp_path/'parts', cfg={'dropout': .2}, **settings), last)
    again = new_trainer(tmp_path/'parts', cfg={'dropout': .2}, **settings)
    again.resume()
    assert again.step == last
    again.fit(quiet=True)
    for name in ('ema', 'best', 'averaged', 'step-0000008'):
        assert_equal(weights(tmp_path/'parts'/name), weights(tmp_path/'whole'/name))


def test_the_moving_average_is_that_of_its_definition(tmp_path):
    trainer = new_trainer(tmp_path/'run', steps=6, save_every=3, ema=.6)
    mean, frozen = {}, trainer.model.encoder[0].feed_forward.W_1.weight.requires_grad_(False)
    class Check(Callback):
        def on_step_end(self, trainer, step, seconds):
            keep = min(.6, (1 + trainer.step)/(10 + trainer.step))
            for name, w in trainer.model.state_dict().items():
                mean[name] = torch.lerp(mean[name], w, 1 - keep) if name in mean else w.clone()
    trainer.callbacks.append(Check())
    trainer.fit(quiet=True)
    found = weights(tmp_path/'run'/'ema')
    torch.testing.assert_close(found, mean)
    assert torch.equal(found['encoder.0.feed_forward.W_1.weight'], frozen)
    assert checkpoints.load(tmp_path/'run'/'ema').training['step'] == 6
    assert not (tmp_path/'run'/'ema'/'optimizer.safetensors').exists()  # to translate with, not to go on from


@pytest.mark.parametrize('scores, best', [([1, 3, 2], 2), ([3, 3, 1], 1), ([1, 2, 3], 3), (None, None)])
def test_the_best_checkpoint_is_kept(tmp_path, scores, best):
    "By score, the first of equals; without a score by the loss. The others go as before."
    trainer = new_trainer(tmp_path/'run', steps=3, save_every=1, keep_best=True, average_last=1)
    rest = iter(scores or [])
    trainer.score = (lambda model: next(rest)) if scores else None
    trainer.fit(quiet=True)
    losses = [entry['val_loss'] for entry in trainer.log]
    best = best or losses.index(min(losses)) + 1
    assert checkpoints.load(tmp_path/'run'/'best').training['step'] == best
    assert [path.name for path in checkpoints.steps(tmp_path/'run')] == ['step-0000003']


def test_checkpoints_are_compared_by_the_measure_of_the_last_one(tmp_path):
    "A run that had scores and is resumed without them: a BLEU of 20 is no loss of -20."
    scored = new_trainer(tmp_path/'run', steps=2, save_every=1, keep_best=True)
    scored.score = lambda model: 20.
    scored.fit(quiet=True)
    again = new_trainer(tmp_path/'run', steps=6, save_every=1, keep_best=True, lr_scale=3.)
    again.resume()
    again.fit(quiet=True)
    losses = [entry['val_loss'] for entry in again.log]
    best = losses.index(min(losses)) + 1
    assert best > 2 and checkpoints.load(tmp_path/'run'/'best').training['step'] == best


def test_what_needs_validation_pairs_is_refused_without_them(tmp_path):
    model = new_trainer(tmp_path).model
    for name, value in (('keep_best', True), ('patience', 2)):
        cfg = TrainingConfig(steps=1, device='cpu', **{name: value})
        with pytest.raises(InputError, match=f'{name}: there are no validation pairs'):
            Trainer(model, train=[([5], [6])], cfg=cfg, out=tmp_path/'run')


def test_somebodys_own_files_in_the_place_of_the_best_are_told_first(tmp_path):
    for name in ('best', 'ema'):
        (tmp_path/name/name).mkdir(parents=True)
        (tmp_path/name/name/'mine.txt').write_text('mine')
        with pytest.raises(InputError, match='mine.txt lies in it'):
            new_trainer(tmp_path/name, keep_best=True, ema=.9).fit(quiet=True)
        assert [path.name for path in (tmp_path/name).rglob('*')] == [name, 'mine.txt']


class Counter(Callback):
    "Remembers something, and notes which hooks were called."
    def __init__(self): self.steps, self.called = 0, []
    def on_fit_start(self, trainer): self.called.append('start')
    def on_validation(self, trainer, numbers): numbers['twice'] = 2*trainer.step
    def on_checkpoint(self, trainer, numbers): self.called.append(('checkpoint', trainer.step, numbers['twice']))
    def on_fit_end(self, trainer): self.called.append('end')
    def on_error(self, trainer, error): self.called.append(type(error).__name__)
    def close(self, trainer): self.called.append('close')
    def on_step_end(self, trainer, step, seconds): self.steps += 1
    def state_dict(self): return {'steps': self.steps}
    def load_state_dict(self, state): self.steps = state['steps']


@pytest.mark.parametrize('steps, n', [(100, 100), (100, 29), (29, 7), (5, 20)])
def test_regular_checkpoints_come_exactly_when_they_are_due(steps, n, tmp_path):
    "29/100*100 is a little less than 29."
    trainer, found = new_trainer(tmp_path, steps=steps, checkpoints=n), []
    for trainer.step in range(1, steps + 1):
        if not Checkpointing().is_due(trainer): continue
        found.append(trainer.step)
        trainer.log.append({'step': trainer.step, 'seconds': 0.})
    assert found == sorted({-(-k*steps//n) for k in range(1, n + 1)})


def entries(*losses): return [{'step': i, 'val_loss': loss} for i, loss in enumerate(losses, 1)]


def test_a_loss_that_is_no_number_is_never_the_best():
    nan = float('nan')
    for losses, kept in (((nan, 3.), True), ((2., nan), False), ((nan,), False)):
        run = SimpleNamespace(log=entries(*losses), out=Path('run'), checkpoint_dir=lambda: 'step')
        folders = {'step': {}}
        BestCheckpoint().on_snapshot(run, folders)
        assert (Path('run/best') in folders) == kept, losses
    run = SimpleNamespace(log=entries(nan, 3., 2., 1.))
    EarlyStopping(2).on_checkpoint(run, {})
    assert not run.stopped_early


def test_the_lines_of_a_part_done_again_go_whole_or_not_at_all(tmp_path, monkeypatch):
    "A full disk must not take the history of a run."
    new_trainer(tmp_path/'run', steps=3, save_every=1).fit(quiet=True)
    file = tmp_path/'run'/'metrics.jsonl'
    before, again = file.read_text(), new_trainer(tmp_path/'run', steps=3, save_every=1)
    again.resume(checkpoints.load(tmp_path/'run'/'step-0000001'))
    def full(*args): raise OSError(errno.ENOSPC, 'No space left on device')
    monkeypatch.setattr(os, 'replace', full)
    with pytest.raises(DiskError, match='metrics.jsonl'): Metrics().on_fit_start(again)
    assert file.read_text() == before


@pytest.mark.parametrize('line', ['{"step": 1, "lo', '{"loss": 2.5}', '7', '{"step": "one"}'])
def test_a_broken_line_of_the_metrics_is_named(line, tmp_path):
    new_trainer(tmp_path/'run', steps=2).fit(quiet=True)
    file = tmp_path/'run'/'metrics.jsonl'
    lines = file.read_text().splitlines()
    file.write_text('\n'.join([lines[0], line, *lines[1:]]) + '\n')
    again = new_trainer(tmp_path/'run', steps=3)
    again.resume()
    with pytest.raises(InputError, match='metrics.jsonl:2: .*; remove this line') as e: again.fit(quiet=True)
    assert '\n' not in str(e.value)


def with_counter(out, **settings):
    trainer, counter = new_trainer(out, steps=6, save_every=2, **settings), Counter()
    trainer.callbacks.append(counter)
    return trainer, counter


def test_the_state_of_a_callback_is_resumed_and_its_hooks_are_called(tmp_path):
    trainer, counter = with_counter(tmp_path/'run')
    stop_after(trainer, 3)
    assert counter.called == ['start', ('checkpoint', 2, 4), 'Stopped', 'close']
    again, counter = with_counter(tmp_path/'run')
    again.resume()
    assert counter.steps == 3
    again.fit(quiet=True)
    assert counter.steps == 6
    assert counter.called == ['start', ('checkpoint', 4, 8), ('checkpoint', 6, 12), 'end', 'close']
    assert [entry['twice'] for entry in again.log] == [4, 8, 12]
    kept = json.loads((tmp_path/'run'/'step-0000006'/'training.json').read_text())
    assert kept['callbacks'] == {'Counter': {'steps': 6}}
    plain = new_trainer(tmp_path/'run', steps=6)  # a state that nobody asks for is left alone
    plain.resume()


def test_a_list_of_callbacks_takes_the_place_of_the_usual_ones(tmp_path):
    cfg = TrainingConfig(steps=2, device='cpu', keep_best=True, ema=.9, patience=2, tensorboard=True)
    assert {EMA, BestCheckpoint} <= {type(c) for c in default_callbacks(cfg)}
    trainer = new_trainer(tmp_path/'run', steps=2)
    assert [type(c) for c in trainer.callbacks] == [type(c) for c in default_callbacks(trainer.cfg)]
    alone = Trainer(trainer.model, train=[([5], [6])], cfg=trainer.cfg, out=tmp_path/'none', callbacks=[])
    alone.fit()
    assert alone.step == 2 and not (tmp_path/'none').exists()


def test_an_optimizer_and_a_schedule_of_ones_own(tmp_path):
    "Resumed with what the optimizer remembers."
    def run(name, steps, resume=False):
        made = new_trainer(tmp_path/name)
        sgd = lambda model: torch.optim.SGD(model.parameters(), lr=0., momentum=.9)
        cfg = TrainingConfig(steps=steps, batch_tokens=64, save_every=2, device='cpu')
        trainer = Trainer(made.model, tokenizer=made.tokenizer, train=made.batches.pairs, cfg=cfg, out=tmp_path/name,
            optimizer=sgd, schedule=lambda step: .1/step)
        if resume: trainer.resume()
        trainer.fit(quiet=True)
        return trainer
    whole = run('whole', 4)
    assert whole.optimizer.param_groups[0]['lr'] == .1/4
    run('parts', 2)
    assert_equal(run('parts', 4, resume=True).model.state_dict(), whole.model.state_dict())


@pytest.mark.parametrize('kind', [np.float32, torch.tensor])
def test_a_score_and_a_rate_may_be_of_numpy_or_torch(kind, tmp_path):
    "JSON cannot hold them, and the first checkpoint of a run would be its end."
    trainer = new_trainer(tmp_path/'run', steps=2, save_every=2)
    trainer.score, trainer.schedule = (lambda model: kind(12.5)), lambda step: kind(.25)
    trainer.fit(quiet=True)
    assert trainer.log[-1]['score'] == 12.5 and trainer.optimizer.param_groups[0]['lr'] == .25


def test_what_a_checkpoint_cannot_hold_is_refused_before_the_first_step(tmp_path):
    made = new_trainer(tmp_path/'run')
    with pytest.raises(TypeError, match='not JSON serializable'):
        Trainer(made.model, train=made.batches.pairs, cfg=made.cfg, out=tmp_path/'run', about={'data': tmp_path})


def test_a_run_that_is_refused_leaves_the_model_as_it_was(tmp_path):
    new_trainer(tmp_path/'run', save_every=2).fit(quiet=True)
    other = new_trainer(tmp_path/'run', seed=5)
    before = {name: w.clone() for name, w in other.model.state_dict().items()}
    with pytest.raises(InputError, match='its run has seed 0, not 5'): other.resume()
    assert_equal(other.model.state_dict(), before)


def test_a_checkpoint_that_is_being_written_when_a_run_fails_can_be_resumed(tmp_path, monkeypatch):
    trainer, write = new_trainer(tmp_path/'run', save_every=2), checkpoints.write_files
    def slowly(path, files):
        time.sleep(.3)
        write(path, files)
    def train_step(step):
        if trainer.step == 2: raise NotFinite('a loss that is none')
        return Trainer.train_step(trainer, step)
    monkeypatch.setattr(checkpoints, 'write_files', slowly)
    trainer.train_step = train_step
    with pytest.raises(NotFinite): trainer.fit(quiet=True)
    assert checkpoints.newest(tmp_path/'run').name == 'step-0000002'


def test_the_weights_are_averaged_where_the_optimizer_remembers_nothing(tmp_path):
    "The average of SGD without momentum, which keeps no state of its own; resumed to the last bit."
    def run(name, steps, resume=False):
        made = new_trainer(tmp_path/name)
        cfg = TrainingConfig(steps=steps, batch_tokens=64, save_every=2, device='cpu', ema=.6)
        trainer = Trainer(made.model, tokenizer=made.tokenizer, train=made.batches.pairs, cfg=cfg, out=tmp_path/name,
            optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.), schedule=lambda step: .1)
        if resume: trainer.resume()
        trainer.fit(quiet=True)
        return weights(tmp_path/name/'ema')
    whole = run('whole', 4)
    kept = weights(tmp_path/'whole'/'step-0000004')
    assert not torch.equal(whole['embedding.weight'], kept['embedding.weight'])
    run('parts', 2)
    assert_equal(run('parts', 4, resume=True), whole)


def test_samples_of_translations_are_printed_and_change_nothing(tmp_path, capsys):
    def translate(model, texts):
        assert not model.training
        torch.rand(3)
        return [str(model(torch.tensor([[5, 2]]), torch.tensor([[BOS]])).argmax().item()) for _ in texts]
    plain, seen = new_trainer(tmp_path/'plain', cfg={'dropout': .2}), new_trainer(tmp_path/'seen', cfg={'dropout': .2})
    seen.callbacks.append(SampleTranslations(['a dog runs .', 'x'], translate))
    for trainer in (plain, seen): trainer.fit(quiet=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3*len(seen.log) and lines[0] == 'step 1' and lines[1].startswith('  a dog runs .  ->  ')
    assert_equal(seen.model.state_dict(), plain.model.state_dict())


def test_weight_decay_leaves_norms_and_biases_alone(tmp_path):
    model = new_trainer(tmp_path/'run').model
    groups = adam(model, .1).param_groups
    decayed = {id(p) for group in groups if group['weight_decay'] == .1 for p in group['params']}
    names = {name for name, p in model.named_parameters() if id(p) not in decayed}
    assert names == {name for name, p in model.named_parameters() if p.dim() == 1}
    assert all('norm' in name or 'b' in name.rsplit('.', 1)[-1] for name in names) and names
    other = new_trainer(tmp_path/'run', weight_decay=.1)
    new_trainer(tmp_path/'run').save()
    with pytest.raises(InputError, match='weight_decay None, not 0.1'): other.resume()
    for wrong in (dict(weight_decay=0.), dict(ema=1.), dict(ema=0.)):
        with pytest.raises(InputError): TrainingConfig(steps=1, **wrong)


# Older names

def as_before(cfg):
    "Settings as they were written before the names of today, and without those that did not exist."
    new = {name: old for old, name in OLD_NAMES.items()}
    return {new.get(k, k): v for k, v in asdict(cfg).items() if k not in ('weight_decay', 'ema', 'keep_best')}


def test_a_run_that_was_written_before_is_resumed(tmp_path):
    "Its training.json has older names of settings, and no states of callbacks."
    whole = new_trainer(tmp_path/'whole', steps=4, save_every=2, grad_accum_steps=2)
    whole.fit(quiet=True)
    old, about = checkpoints.load(tmp_path/'whole'/'step-0000002'), {}
    about = {k: v for k, v in old.training.items() if k != 'callbacks'} | {'settings': as_before(whole.cfg)}
    start = new_trainer(tmp_path/'old', steps=4, save_every=2, grad_accum_steps=2)
    checkpoints.load_optimizer(old.path, start.optimizer)
    checkpoints.save(tmp_path/'old'/'step-0000002', old.model, old.tokenizer, about, start.optimizer)
    again = new_trainer(tmp_path/'old', steps=4, save_every=2, grad_accum_steps=2)
    again.resume()
    again.fit(quiet=True)
    assert_equal(again.model.state_dict(), whole.model.state_dict())


def test_a_command_reads_older_spellings_and_shows_none(tmp_path):
    command = ['tnb-train', '--data', small_corpus(tmp_path), '--out', tmp_path/'run', '--device', 'cpu', '--steps', 2]
    status, _, err = tnb(*command, '--every', 1, '--lr-factor', .5, '--clip', 1, '--accumulate', 2, '--ema', .5,
        '--weight-decay', .01)
    assert status == 0, err
    kept = checkpoints.load(tmp_path/'run').training['settings']
    assert [kept[name] for name in OLD_NAMES.values()] == [2, 1., 1, .5] and kept['weight_decay'] == .01
    assert {'ema', 'averaged'} <= {path.name for path in (tmp_path/'run').iterdir()}
    status, out, _ = tnb('tnb-train', '-h')
    assert status == 0 and b'--save-every' in out and b'--lr-factor' not in out and b'--every' not in out


def test_a_recipe_may_have_older_spellings(tmp_path):
    text = (FOLDER/'wmt14-en-de-base.toml').read_text()
    for old, new in OLD_NAMES.items(): text = text.replace(f'\n{new} = ', f'\n{old} = ')
    assert '\naccumulate = 8' in text
    (tmp_path/'mine.toml').write_text(text)
    assert load_recipe(tmp_path/'mine.toml').train == load_recipe('wmt14-en-de-base').train
