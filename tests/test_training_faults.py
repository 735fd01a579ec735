"""What training once got silently wrong: frozen weights, float16, seeds, the caller's random numbers, special ids,
shares and errors of several processes; and what it would get wrong on a GPU, imitated."""

import errno
import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from shutil import which
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import BIN, TORCH, tnb, two_processes
from test_first_minutes import TEXT, new_trainer

from transformer_nb import checkpoints, cli, devices
from transformer_nb.core import DiskError, InputError, MemoryFull, ProcessLost
from transformer_nb.data import shards
from transformer_nb.data.batching import Batches, IdPairs, encode_pairs
from transformer_nb.data.corpora import Split
from transformer_nb.data.tokenizer import Special, train_tokenizer
from transformer_nb.parts.loss import _chunk_by_chunk, _compiled, _of_logits, projected_loss
from transformer_nb.train import costs, distributed, runs, trainer as trainer_module
from transformer_nb.train.autotune import torch_settings
from transformer_nb.train.callbacks import Callback, Metrics
from transformer_nb.train.distributed import DistributedContext, parallel
from transformer_nb.train.runs import NotFinite
from transformer_nb.train.trainer import Objective, Trainer, TrainingConfig, batch_loss
from transformer_nb.transformer import Transformer, preset

ENV = os.environ | {'OMP_NUM_THREADS': '1'}
TOGETHER = [BIN/'torchrun', '--standalone', '--nproc-per-node', '2']


def weights(trainer): return {name: w.detach().clone() for name, w in trainer.model.named_parameters()}


def assert_equal(a, b): assert all(torch.equal(a[name], b[name]) for name in a)


def test_frozen_weights_stay_and_the_others_learn(tmp_path):
    trainer = new_trainer(tmp_path/'run')
    trainer.model.embedding.weight.requires_grad_(False)
    before = weights(trainer)
    trainer.fit(quiet=True)
    after = weights(trainer)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == before.keys() - {'embedding.weight'}


def test_a_frozen_run_is_resumed_to_the_last_bit(tmp_path):
    def run(name, steps, resume=False):
        trainer = new_trainer(tmp_path/name, steps=steps, cfg={'dropout': .2}, save_every=3)
        for p in trainer.model.encoder.parameters(): p.requires_grad_(False)
        if resume: trainer.resume()
        trainer.fit(quiet=True)
        return weights(trainer)
    whole = run('whole', 6)
    run('parts', 3)
    assert_equal(run('parts', 6, resume=True), whole)


def test_nothing_to_train_is_refused(tmp_path):
    tokenizer = train_tokenizer(TEXT)
    model = Transformer(preset('tiny', vocab_size=tokenizer.vocab_size, N=1, d_model=16, h=2)).requires_grad_(False)
    with pytest.raises(InputError, match='nothing to train'):
        Trainer(model, tokenizer=tokenizer, train=[([5], [6])], cfg=TrainingConfig(steps=1, device='cpu'), out=tmp_path)


def test_float16_trains_and_resumes_with_its_scale(tmp_path):
    "On a CPU here; a GPU without bfloat16 takes the same way."
    def run(name, steps, resume=False):
        trainer = new_trainer(tmp_path/name, steps=steps, dtype='float16', save_every=6)
        if resume: trainer.resume()
        trainer.fit(quiet=True)
        return trainer
    whole = run('whole', 12)
    losses = [line['loss'] for line in map(json.loads, open(tmp_path/'whole'/'metrics.jsonl')) if 'loss' in line]
    assert losses[-1] < losses[0]
    run('parts', 6)
    parts = run('parts', 12, resume=True)
    assert_equal(weights(parts), weights(whole))
    assert parts.scaler.state_dict() == whole.scaler.state_dict()


def test_an_overflow_of_float16_is_left_out_and_the_scale_halved(tmp_path):
    trainer = new_trainer(tmp_path/'run', dtype='float16')
    stream, before = trainer.batches.stream(), weights(trainer)
    trainer.scaler = torch.amp.GradScaler('cpu', init_scale=2.**60)
    trainer.train_step(next(stream))
    assert_equal(weights(trainer), before)
    assert trainer.scaler.get_scale() == 2.**59 and trainer.step == 1
    trainer.model.encoder[0].feed_forward.W_1.weight.data[0, 0] = float('nan')  # no scale can help here
    with pytest.raises(NotFinite): trainer.train_step(next(stream))


def test_a_full_disk_does_not_hide_what_was_not_finite(tmp_path, monkeypatch):
    trainer = new_trainer(tmp_path/'run')
    def full(*args): raise OSError(errno.ENOSPC, 'No space left on device')
    monkeypatch.setattr(runs, 'atomic_write', full)
    with pytest.raises(NotFinite, match='batch is in lost .No space left on device'):
        runs.refuse_step(trainer, next(trainer.batches.stream()), float('nan'), 1.)


def test_all_callbacks_are_closed_and_a_lost_process_needs_no_message(tmp_path, monkeypatch):
    closed = []
    class One(Callback):
        def close(self, trainer):
            closed.append(self)
            raise OSError('full')
    class Lost(Callback):
        def on_fit_start(self, trainer): raise RuntimeError
    trainer = new_trainer(tmp_path/'run')
    trainer.callbacks = [One(), One()]
    with pytest.raises(OSError, match='full'): trainer.fit(quiet=True)
    assert closed == trainer.callbacks
    monkeypatch.setattr('transformer_nb.train.trainer.lost_process', lambda e: True)
    lost = new_trainer(tmp_path/'lost')
    lost.callbacks = [Lost()]
    with pytest.raises(ProcessLost, match='another process is gone'): lost.fit(quiet=True)


def test_what_is_known_of_another_run_does_not_become_this_ones_state(tmp_path):
    "Who tunes a model hands on what its checkpoint says; the steps and the log are those of the new run."
    about = {'step': 4, 'log': ['old'], 'data': 'news'}
    trainer = new_trainer(tmp_path/'run')
    trainer.about = about
    training = json.loads(trainer.snapshot()['training.json'])
    assert (training['step'], training['log'], training['data']) == (0, [], 'news')


def test_a_corpus_in_a_folder_whose_name_is_not_utf_8_is_kept(tmp_path):
    trainer = new_trainer(tmp_path/'run')
    trainer.about = {'data': os.fsdecode(b'/home/M\xfcller')}
    trainer.fit(quiet=True)
    assert checkpoints.load(tmp_path/'run').training['data'] == trainer.about['data']


@pytest.mark.parametrize('seed', [0, 2**40, 10**30])
def test_seeds_of_any_size(seed, tmp_path):
    def run(name, seed):
        trainer = new_trainer(tmp_path/name, cfg={'dropout': .3}, seed=seed)
        trainer.fit(quiet=True)
        return weights(trainer)
    first = run('a', seed)
    assert_equal(run('b', seed), first)
    assert not torch.equal(run('c', seed + 1)['embedding.weight'], first['embedding.weight'])


def test_the_callers_random_numbers_are_left_alone(tmp_path):
    trainer = new_trainer(tmp_path/'run', cfg={'dropout': .3})
    def state(): return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    before = state()
    trainer.fit(quiet=True)
    checkpoints.load(tmp_path/'run')
    assert state() == before


def test_another_tokenizer_is_refused(tmp_path):
    tokenizer = train_tokenizer(TEXT)
    model = Transformer(preset('tiny', vocab_size=tokenizer.vocab_size + 1, N=1, d_model=16, h=2))
    with pytest.raises(InputError, match='pieces'):
        Trainer(model, tokenizer=tokenizer, train=[([5], [6])], cfg=TrainingConfig(steps=1, device='cpu'), out=tmp_path)


def test_special_ids_of_the_model_rule_in_training(tmp_path):
    "Tokens renamed, special ones too: the same losses."
    new = torch.tensor([7, 4, 5, 3, 0, 1, 2, 6])  # new name of each token
    ids = dict(zip(('pad_id', 'bos_id', 'eos_id'), new[:3].tolist()))
    torch.manual_seed(0)
    a = Transformer(preset('tiny', vocab_size=8, N=1, d_model=16, d_ff=32, h=2, dropout=0.))
    b = Transformer(replace(a.cfg, **ids))
    b.load_state_dict(a.state_dict())
    b.embedding.weight.data[new] = a.embedding.weight.data
    pairs = [([4, 5], [6, 7, 4]), ([5], [4]), ([6, 7, 7], [5, 5])]*4
    renamed = [tuple(new[list(side)].tolist() for side in pair) for pair in pairs]
    cfg = TrainingConfig(steps=4, batch_tokens=16, warmup=2, device='cpu')
    trainers = [Trainer(m, train=p, cfg=cfg, out=tmp_path/'run') for m, p in ((a, pairs), (b, renamed))]
    losses = [[t.train_step(step) for step, _ in zip(t.batches.stream(), range(4))] for t in trainers]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    batch = Batches(renamed, 64, special=Special(**ids)).collate(range(3))
    assert batch.n_tokens == 4 + 2 + 3 and torch.isfinite(batch_loss(b, batch)[0])


# Several processes

def world(size):
    return SimpleNamespace(rank=0, size=size, device=torch.device('cpu'), broadcast_from_rank0=lambda make: make())


def test_unequal_shares_of_a_sharded_run_are_refused(tmp_path):
    "Each forward pass of a shard is an exchange: unequal numbers of them would wait for each other for ever."
    tokenizer = train_tokenizer(TEXT)
    model = Transformer(preset('tiny', vocab_size=tokenizer.vocab_size, N=1, d_model=16, h=2))
    cfg = TrainingConfig(steps=1, grad_accum_steps=3, shard=True, device='cpu')
    with pytest.raises(InputError, match='choose a multiple of 2'):
        Trainer(model, tokenizer=tokenizer, train=[([5], [6])]*9, cfg=cfg, out=tmp_path, world=world(2))


def corpus(folder):
    for name in ('train', 'val'):
        for lang in ('en', 'de'):
            (folder / f'{name}.{lang}').write_text(
                '\n'.join(' '.join('abcdefgh'[i % n] for i in range(n)) for n in range(2, 9) for _ in range(20)) + '\n'
            )


@pytest.mark.slow
@pytest.mark.skipif(TORCH < (2, 9), reason='sharding on a CPU')
def test_bleu_of_a_sharded_run_is_that_of_the_whole_model(tmp_path):
    corpus(tmp_path)
    settings = (
        '--steps 16 --save-every 8 --batch-tokens 128 --grad-accum-steps 2 --max-len 32 --warmup 8 --device cpu '
        '--bleu 20'.split()
    )
    command = ['tnb-train', '--data', tmp_path, *settings, '--out']
    status, _, err = tnb(*command, tmp_path/'alone')
    assert status == 0, err
    status, log = two_processes(*command, tmp_path/'sharded', '--shard')
    assert status == [0, 0], log
    scores = {
        name: [line['score'] for line in map(json.loads, open(tmp_path/name/'metrics.jsonl')) if 'score' in line]
        for name in ('alone', 'sharded')
    }
    assert len(scores['alone']) == 2 and scores['alone'][1] > 0
    assert scores['sharded'] == pytest.approx(scores['alone'], abs=.01)


WATCHED = '''
import json, sys
sys.path.insert(0, sys.argv[1])
from test_first_minutes import TEXT, new_trainer
from transformer_nb.data.batching import Batches
from transformer_nb.train import callbacks
from transformer_nb.train.trainer import Objective

trainer = new_trainer(sys.argv[2], grad_accum_steps=2, steps=40, save_every=2, patience=3)
words = trainer.tokenizer.encode(TEXT)
trainer.val = Batches(list(zip(words, words[::-1]))*5, 16, special=trainer.model.cfg)
rank, seen, val_loss, forward = trainer.world.rank, [], callbacks._val_loss, Objective.forward
def watched(self, batch):
    if not self.model.training: seen.append(len(batch.src))
    return forward(self, batch)
Objective.forward = watched
shared = trainer.validate()
def loss(trainer):
    val_loss(trainer)
    return -trainer.step if rank else trainer.step  # in process 1 it falls, in process 0 it rises
callbacks._val_loss = loss
trainer.fit(quiet=True)
whole = [len(batch.src) for batch in trainer.val.validation_batches()]
print(json.dumps([rank, shared['val_loss'], seen[:len(seen)//(1 + len(trainer.log))], whole, trainer.step]), flush=True)
trainer.world.close()
'''


def test_processes_share_the_validation_and_stop_early_together(tmp_path):
    "Process 0 decides: with losses of its own, another one would go on, and wait for ever."
    script = tmp_path/'watched.py'
    script.write_text(WATCHED)
    status, log = two_processes(script, os.path.dirname(__file__), tmp_path/'run')
    assert status == [0, 0], log
    a, b = sorted(json.loads(line) for line in log.splitlines() if line.startswith('['))
    assert a[1] == b[1] and a[4] == b[4] < 40
    assert sorted(a[2] + b[2]) == sorted(a[3]) and a[2] and b[2]


FAULT = '''
import sys
sys.path.insert(0, sys.argv[1])
from test_first_minutes import new_trainer
from transformer_nb.train.trainer import Trainer

trainer = new_trainer(sys.argv[2], grad_accum_steps=2, steps=50)
step, rank = Trainer.train_step, trainer.world.rank
def faulty(self, batch):
    if self.step == 3 and rank == 1: raise RuntimeError('mat1 and mat2 shapes cannot be multiplied (my own fault)')
    return step(self, batch)
Trainer.train_step = faulty
trainer.fit(quiet=True)
'''


@pytest.mark.parametrize('by_torchrun', [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.long(11)])])
def test_an_error_in_one_process_arrives_with_its_own_traceback(by_torchrun, tmp_path):
    script = tmp_path/'fault.py'
    script.write_text(FAULT)
    command = [script, os.path.dirname(__file__), tmp_path/'run']
    if by_torchrun:
        together = list(map(str, [*TOGETHER, *command]))
        done = subprocess.run(together, capture_output=True, text=True, env=ENV, timeout=300)
        status, said = [done.returncode], done.stderr
    else: status, said = two_processes(*command)
    assert 0 not in status and 'in faulty' in said, said
    assert 'RuntimeError: mat1 and mat2 shapes cannot be multiplied (my own fault)' in said
    assert 'gone, its own message says why (mat1' not in said


# Texts

def test_a_trainer_takes_texts_ids_and_splits(tmp_path):
    "The same pairs in three forms: the same run."
    tokenizer = train_tokenizer(TEXT)
    texts = [(TEXT[i], TEXT[i + 1]) for i in (0, 2)]*4
    ids = list(zip(*(tokenizer.encode([pair[side] for pair in texts]) for side in (0, 1))))
    def run(pairs):
        torch.manual_seed(0)
        model = Transformer(preset('tiny', vocab_size=tokenizer.vocab_size, N=1, d_model=16, h=2, max_len=32))
        cfg = TrainingConfig(steps=2, batch_tokens=64, device='cpu')
        trainer = Trainer(model, tokenizer=tokenizer, train=pairs, val=pairs, cfg=cfg, out=tmp_path/'run')
        return trainer.train_step(next(trainer.batches.stream())), trainer.validate()
    assert run(texts) == run(ids) == run(Split(texts))


def test_texts_that_cannot_be_trained_on_are_refused_with_their_place(tmp_path):
    tokenizer = train_tokenizer(TEXT)
    model = Transformer(preset('tiny', vocab_size=tokenizer.vocab_size, N=1, d_model=16, h=2, max_len=32))
    settings = {'cfg': TrainingConfig(steps=1, device='cpu'), 'out': tmp_path}
    fine, too_long = (TEXT[0], TEXT[1]), (TEXT[0], TEXT[1]*40)
    for pairs, place in (([fine, too_long], 'train target:2: '), (Split([too_long], 'a.en', 'a.de', [7]), 'a.de:7: ')):
        with pytest.raises(InputError, match=place): Trainer(model, tokenizer=tokenizer, train=pairs, **settings)
    with pytest.raises(InputError, match='give the tokenizer'): Trainer(model, train=[fine], **settings)


REFUSED = [  # a sentence of ids, and what is said of it
    ([5, 0, 6], 'train source:3: id 0 is padding'), ([5, 40], 'train source:3: id 40 is not in the vocabulary of 40'),
    ([5, -1], 'train source:3: id -1 is not'), ([5]*16, 'train source:3: 16 tokens do not fit'),
    ([5, 2.5], 'train source:3: .* whole numbers')]


@pytest.mark.parametrize('ids, why', REFUSED)
def test_what_forward_refuses_training_refuses_at_the_start(ids, why, tmp_path):
    "Before the first step, with the number of the pair; in lists, in one row of ids, and on the side of the targets."
    model = Transformer(preset('tiny', vocab_size=40, N=1, d_model=16, h=2, max_len=16))
    settings = {'cfg': TrainingConfig(steps=1, device='cpu'), 'out': tmp_path/'run'}
    fine = ([5, 6], [7]), ([], [8])
    for name, pairs, swap in (('train', [*fine, (ids, [9])], False), ('train', [*fine, ([9], ids)], True),
                              ('val', [*fine, (ids, [9])], False)):
        splits = {'train': list(fine)} | {name: pairs}
        message = why.replace('train', name).replace('source', 'target' if swap else 'source')
        with pytest.raises(InputError, match=message) as e: Trainer(model, **splits, **settings)
        assert len(str(e.value).splitlines()) == 1
    if ids[-1] == 2.5: return
    row = IdPairs(np.array([5, 6, 7, *ids, 9]), np.array([0, 2, 3, 3 + len(ids), 4 + len(ids)]))
    with pytest.raises(InputError, match=why.replace(':3', ':2')): Trainer(model, train=row, **settings)
    assert not (tmp_path/'run').exists()


def test_a_source_vocabulary_of_its_own_has_its_own_bound(tmp_path):
    model = Transformer(preset('tiny', vocab_size=40, src_vocab_size=60, tie='output', N=1, d_model=16, h=2))
    settings = {'cfg': TrainingConfig(steps=1, device='cpu'), 'out': tmp_path}
    Trainer(model, train=[([59], [39])], **settings)
    with pytest.raises(InputError, match='target:1: id 40'): Trainer(model, train=[([59], [40])], **settings)
    with pytest.raises(InputError, match='source:1: id 60'): Trainer(model, train=[([60], [39])], **settings)


def test_a_tokenizer_that_gives_what_it_has_not_is_refused_with_the_line(tmp_path):
    class Wrong(type(train_tokenizer(TEXT))):
        def encode(self, texts): return [[0 if word == 'dog' else 8 for word in text.split()] for text in texts]
    tokenizer = Wrong(train_tokenizer(TEXT).model)
    split = Split([('a cat', 'b')]*10_001 + [('a dog', 'b')], 'x.en', 'x.de', [*range(10_001), 20_000])
    with pytest.raises(InputError, match='x.en:20000: id 0 is padding'): encode_pairs(tokenizer, split, 100)


def test_padding_in_a_sentence_makes_no_batch():
    "Its step would count one token more than the batch has targets."
    for pair in (([5, 6], [7, 0, 8]), ([5, 0], [7])):
        batches = Batches([([5], [6]), pair], 64)
        with pytest.raises(InputError, match='pair 1 .* padding'): batches.collate([0, 1])


def test_shards_longer_than_the_model_or_of_another_vocabulary_are_refused(tmp_path):
    for lang in ('en', 'de'): (tmp_path/f'train.{lang}').write_text('\n'.join(TEXT)*4)
    shards.prepare(tmp_path, tmp_path/'shards', vocab_size=40, sample=16)
    pairs = shards.Shards(tmp_path/'shards')
    too_short, too_few = {'max_len': 4}, {'vocab_size': 39}
    for change, why in ((too_short, 'train source:1: .* tokens do not fit'), (too_few, 'tokenizer has')):
        sizes = {'vocab_size': pairs.tokenizer.vocab_size} | change
        model = Transformer(preset('tiny', N=1, d_model=16, h=2, **sizes))
        with pytest.raises(InputError, match=why):
            Trainer(model, train=pairs, cfg=TrainingConfig(steps=1, device='cpu'), out=tmp_path)


def test_messages_of_the_library_name_no_option_of_a_command(tmp_path):
    trainer = new_trainer(tmp_path/'run', steps=50)
    trainer.model.encoder[0].feed_forward.W_1.weight.data[0, 0] = float('nan')
    trainer.save()
    step = next(trainer.batches.stream())
    with pytest.raises(NotFinite, match=r'go on with resume\(\)') as e: trainer.train_step(step)
    with pytest.raises(InputError, match='already holds a run') as f: new_trainer(tmp_path/'run').fit(quiet=True)
    assert '--' not in f'{e.value}{f.value}'


def test_numbers_of_numpy_are_numbers(tmp_path):
    "And they are written as JSON, as are a device and a flag of another kind."
    given = dict(steps=np.int64(2), minutes=np.float32(3), seed=np.uint8(1), device=torch.device('cpu'),
        tensorboard=np.bool_(False), batch_tokens=np.int32(64))
    cfg = TrainingConfig(**given)
    assert cfg == TrainingConfig(steps=2, minutes=3., seed=1, device='cpu', batch_tokens=64)
    new_trainer(tmp_path/'run', **given).fit(quiet=True)
    for wrong in ({'steps': 2.5}, {'steps': '5'}, {'minutes': '3'}, {'minutes': float('nan')},
                  {'max_grad_norm': np.float32(0)}):
        with pytest.raises(InputError, match=f'{next(iter(wrong))} .* must be'): TrainingConfig(**{'steps': 1} | wrong)


@pytest.mark.parametrize('training', [
    None, {'step': 3}, {name: 0 for name in Trainer.STATE_FIELDS} | {'settings': {'seed': 0}}])
def test_what_no_run_has_written_cannot_be_resumed(tmp_path, training):
    "In one line, by the library and by the command."
    trainer = new_trainer(tmp_path/'run')
    checkpoints.save(tmp_path/'run'/'step-0000003', trainer.model, trainer.tokenizer, training, trainer.optimizer)
    with pytest.raises(InputError, match='training.json: .* is missing, so there is no run to go on with'):
        trainer.resume()
    status, _, err = tnb('tnb-train', '--out', tmp_path/'run', '--resume', '--device', 'cpu')
    assert status == 2 and 'is missing, so there is no run to go on with' in err and len(err.splitlines()) == 1, err


def test_a_resumed_command_keeps_its_switches(tmp_path, monkeypatch):
    "An option that is not given again is the run's own; sharding needs several processes of today."
    corpus(tmp_path)
    command = ['tnb-train', '--data', tmp_path, '--out', tmp_path/'run', '--batch-tokens', 128, '--device', 'cpu']
    status, _, err = tnb(*command, '--steps', 2, '--keep-best')
    assert status == 0, err
    seen = []
    monkeypatch.setattr(cli, '_run', lambda trainer: seen.append(trainer.cfg))
    monkeypatch.setattr(trainer_module, 'compile_layers', lambda model: None)
    plain = checkpoints.load
    def load(*args, **options):
        found = plain(*args, **options)
        found.training['settings'] |= {'shard': True, 'compile': True}
        return found
    monkeypatch.setattr(checkpoints, 'load', load)
    status, _, err = tnb(*command, '--resume')
    assert status == 0, err
    assert (seen[0].keep_best, seen[0].compile, seen[0].shard) == (True, True, False)


def test_a_program_that_trains_keeps_its_memory_only_meanwhile(tmp_path):
    "What malloc is told holds for the whole program: it is told in `fit`, and undone."
    told = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(devices, '_glibc', lambda name, *numbers: told.append((name, *numbers)))
        trainer = new_trainer(tmp_path/'run')
        assert not told
        trainer.fit(quiet=True)
    limits = [numbers for name, *numbers in told if name == 'mallopt']
    assert limits[:2] == [[-3, 2**30], [-1, 2**30]] and limits[-2:] == [[-3, 2**25], [-1, 2**26]]
    assert told[-1] == ('malloc_trim', 0)


# Kinds of errors

def test_a_batch_that_does_not_fit_is_no_fault_of_the_input(tmp_path, monkeypatch):
    trainer = new_trainer(tmp_path/'run', batch_tokens=1)
    def full(self, step): raise torch.OutOfMemoryError
    monkeypatch.setattr(Trainer, '_accumulate', full)
    with pytest.raises(MemoryFull, match='out of memory on a batch of 1 pairs; choose smaller batch_tokens'):
        trainer.fit(quiet=True)


def test_metrics_on_a_full_disk_are_one_line(tmp_path):
    trainer = new_trainer(tmp_path/'run')
    def full(step):
        metrics, = (c for c in trainer.callbacks if isinstance(c, Metrics))
        metrics.file.close()
        metrics.file = open('/dev/full', 'w', buffering=1)
        return Trainer.train_step(trainer, step)
    trainer.train_step = full
    with pytest.raises(DiskError, match='metrics.jsonl: cannot be written .*No space left'): trainer.fit(quiet=True)
    (tmp_path/'file').write_text('x')
    with pytest.raises(DiskError, match='cannot be written'): new_trainer(tmp_path/'file'/'run').fit(quiet=True)


@pytest.mark.parametrize('message, lost', [
    ('[third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:43', True),
    ('[gloo/transport/tcp/pair.cc:5] Read error [127.0.0.1]:1: Connection reset by peer', True),
    ('[gloo/transport/tcp/unbound_buffer.cc:7] Timed out waiting 1800000ms for recv operation to complete', True),
    ('[enforce fail at third_party/gloo/gloo/allreduce.cc:21] opts.elements == in.size. 4 vs 8', False),
    (r'[D:\a\third_party\gloo\gloo\transport\uv\pair.cc:5] Connection reset by peer', True),
    ('ProcessGroupGloo does not support this dtype: gloo has no float8', False), ('Broken pipe', False),
    ('the gloo of my own program: its timeout is -1', False)])
def test_only_a_connection_that_has_ended_is_a_lost_process(message, lost):
    "gloo complains of other things too, and those are faults of a program: their traceback must be seen."
    assert distributed.lost_process(RuntimeError(message)) == lost


@pytest.mark.parametrize('kind, message, lost', [
    ('Backend', 'NCCL error in: NCCLUtils.cpp:5, remote process exited or there was a network error', True),
    ('Backend', 'NCCL communicator was aborted on rank 0.', True),
    ('Backend', 'NCCL error in: NCCLUtils.cpp:5, invalid usage. Duplicate GPU detected : rank 0 and rank 1', False),
    ('Backend', 'NCCL error in: NCCLUtils.cpp:5, unhandled cuda error. Cuda failure 2 out of memory', False),
    ('Network', 'The client socket has failed to connect', True), ('Store', 'wait', True)])
def test_an_error_of_nccl_may_be_of_this_process(kind, message, lost):
    assert distributed.lost_process(getattr(torch.distributed, f'Dist{kind}Error')(message)) == lost


# GPUs, imitated

OURS = {'transformer_nb.' + name for name in
    'train.trainer train.callbacks data.batching parts.loss optimizer train.distributed train.runs'.split()}


def test_a_step_waits_for_the_gpu_once(tmp_path, monkeypatch):
    "Whatever gives Python a number of a tensor, or needs one to know a shape, would wait for the GPU."
    trainer = new_trainer(tmp_path/'run', grad_accum_steps=3, max_grad_norm=1.)
    step, waits = next(trainer.batches.stream()), Counter()
    def watched(name, plain):
        def call(*args, **options):
            caller = sys._getframe(1).f_globals['__name__']
            if caller in OURS: waits[caller, name] += 1
            return plain(*args, **options)
        return call
    for name in ('item', 'tolist', 'nonzero', '__bool__', '__float__', '__int__', 'cpu', 'numpy'):
        monkeypatch.setattr(torch.Tensor, name, watched(name, getattr(torch.Tensor, name)))
    select = torch.Tensor.__getitem__
    def getitem(tensor, index):
        if isinstance(index, torch.Tensor) and index.dtype == torch.bool: waits['a boolean index'] += 1
        return select(tensor, index)
    monkeypatch.setattr(torch.Tensor, '__getitem__', getitem)
    trainer.train_step(step)
    assert waits == {('transformer_nb.train.distributed', 'tolist'): 1}


def test_a_step_tells_its_time_and_its_stop_with_its_loss(tmp_path):
    "Two exchanges between the processes would be two waits."
    trainer = new_trainer(tmp_path/'run')
    calls, add_up = [], trainer.world.all_reduce_sum
    trainer.world.all_reduce_sum = lambda *values: calls.append(len(values)) or add_up(*values)
    trainer.stop_signal = 15
    before = trainer.seconds
    trainer.train_step(next(trainer.batches.stream()))
    assert calls == [4] and trainer.stopping and trainer.seconds > before


def test_float32_uses_tensor_cores_in_a_run_and_nowhere_else(tmp_path, monkeypatch):
    precision = torch.get_float32_matmul_precision
    assert precision() == 'highest'
    with torch_settings(torch.device('cpu')): assert precision() == 'highest'
    with pytest.raises(KeyError), torch_settings(torch.device('cuda'), 1):
        assert precision() == 'high'
        raise KeyError
    assert precision() == 'highest'
    torch.set_float32_matmul_precision('medium')   # somebody's own choice stays
    try:
        with torch_settings(torch.device('cuda')): assert precision() == 'medium'
    finally: torch.set_float32_matmul_precision('highest')


def test_measuring_the_machine_makes_do_with_the_memory_that_is_left(monkeypatch):
    plain, most = torch.mm, 1000
    def mm(a, b, out):
        if len(a) > most: raise torch.OutOfMemoryError
        return plain(a, b, out=out)
    monkeypatch.setattr(torch, 'mm', mm)
    measure = lambda: costs._measured_rate.__wrapped__(torch.device('cpu'), torch.float32, 1)
    assert measure() > 0
    most = 0
    with pytest.raises(torch.OutOfMemoryError): measure()


def test_what_lies_in_the_place_of_a_run_or_of_its_metrics_is_named(tmp_path):
    "In one line, and not as a disk to make room on."
    (tmp_path/'file').write_text('mine')
    (tmp_path/'folder'/'metrics.jsonl').mkdir(parents=True)
    for out, said in (('file', 'file: is a file; choose a directory'),
                      ('folder', 'metrics.jsonl: is no file; choose another directory')):
        with pytest.raises(InputError, match=said): new_trainer(tmp_path/out).fit(quiet=True)


@pytest.mark.parametrize('threads', [1, 3, 4, 64])
def test_the_machine_is_measured_with_enough_for_each_thread_and_no_more(threads, monkeypatch):
    "Every run pays for it: 5 GFLOP a thread are some hundredths of a second, 50 MFLOP some tenths of a millisecond."
    sizes = []
    monkeypatch.setattr(costs, 'matmul_seconds', lambda n, *_: sizes.append(n) or 1.)
    costs._measured_rate.__wrapped__(torch.device('cpu'), torch.float32, threads)
    assert 50e6 < 2*sizes[0]**3/threads < 5e9


def test_the_machine_is_measured_for_each_number_of_threads(monkeypatch):
    "Two runs in one process may differ in it."
    monkeypatch.setattr(costs, 'matmul_seconds', lambda n, *_: n**3/torch.get_num_threads())
    before = torch.get_num_threads()
    costs._measured_rate.cache_clear()
    try:
        for n in (1, 2, 1):
            torch.set_num_threads(n)
            assert costs.matmul_rate('cpu', torch.float64) == 2*n
    finally:
        torch.set_num_threads(before)
        costs._measured_rate.cache_clear()


def test_weight_decay_is_not_dropped_where_the_optimizer_is_ones_own(tmp_path):
    made = new_trainer(tmp_path/'run')
    sgd = lambda model: torch.optim.SGD(model.parameters(), lr=.1)
    with pytest.raises(InputError, match='weight_decay is .*give it to your own'):
        Trainer(made.model, train=[([4], [4])], out=tmp_path/'run', optimizer=sgd,
            cfg=TrainingConfig(steps=1, device='cpu', weight_decay=.1))


@pytest.mark.parametrize('wrong', [
    dict(compile='false'), dict(shard=1), dict(keep_best=None), dict(steps=True), dict(lr_scale=True)])
def test_a_setting_of_another_type_is_refused(wrong):
    with pytest.raises(InputError, match=f'{min(wrong)} .* must be'): TrainingConfig(**{'steps': 1} | wrong)


def test_the_loss_makes_no_tensor_elsewhere():
    "On the meta device, a table that stood on the CPU would be seen."
    x, W, y = (torch.empty(*shape, dtype=kind, device='meta')
        for shape, kind in (((10, 8), torch.float32), ((20, 8), torch.float32), ((10,), torch.int64)))
    for dtype in (torch.float32, torch.bfloat16):
        assert {t.device.type for t in _chunk_by_chunk(x, W, y, .1, 4, dtype)} == {'meta'}


def test_gradients_in_bfloat16_are_as_exact_as_those_of_torchs_cross_entropy():
    "Where the model is nearly as sure as the target asks: there p - (1-ε) is the difference of nearly equal numbers."
    g = torch.Generator().manual_seed(0)
    W, y = torch.randn(2000, 128, generator=g)*128**-.5, torch.randint(2000, (512,), generator=g)
    x = torch.randn(512, 128, generator=g) + 12*W[y]
    def gradients(loss, dtype=torch.float32):
        leaves = [table.to(dtype, copy=True).requires_grad_() for table in (x, W)]
        with torch.autocast('cpu', torch.bfloat16, enabled=dtype == torch.float32): value = loss(*leaves)
        value.backward()
        return [value.detach(), *(leaf.grad for leaf in leaves)]
    def torchs(x, W): return torch.nn.functional.cross_entropy(x @ W.T, y, label_smoothing=.1)
    exact = gradients(torchs, torch.float64)
    def errors(loss): return [float((a - b).norm()/b.norm()) for a, b in zip(gradients(loss), exact)]
    for ours, theirs in zip(errors(lambda x, W: projected_loss(x, W, y)[0])[1:], errors(torchs)[1:]):
        assert ours < 1.05*theirs


@pytest.mark.slow
@pytest.mark.skipif(not which('c++'), reason='no C++ compiler')
@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
def test_the_compiled_loss_is_the_plain_one(dtype):
    "Two lengths, so that the second meets code that was made for the first."
    g = torch.Generator().manual_seed(0)
    for t in (40, 70):
        x, W = (torch.randn(n, 16, generator=g)/4 for n in (t, 90))
        y = torch.randint(90, (t,), generator=g)
        plain, compiled = (_chunk_by_chunk(x, W, y, .1, 32, dtype, way) for way in (_of_logits, _compiled()))
        for ours, theirs in zip(compiled, plain): torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('dtype, gathered', [(torch.bfloat16, torch.bfloat16), (torch.float32, None)])
def test_shards_of_layers_are_gathered_in_the_type_of_the_products(monkeypatch, dtype, gathered):
    fsdp = pytest.importorskip('torch.distributed.fsdp')
    sharded = []
    def shard(module, mesh, mp_policy=None):
        assert mesh == ('cuda', (2,))  # the run's own devices, not whatever accelerator the machine has
        types = (mp_policy.param_dtype, mp_policy.reduce_dtype) if mp_policy else None
        sharded.append((type(module).__name__, types))
        return module
    monkeypatch.setattr(fsdp, 'fully_shard', shard)
    monkeypatch.setattr(distributed, 'init_device_mesh', lambda *mesh: mesh)
    monkeypatch.setattr(torch.distributed, 'is_initialized', lambda: True)
    net = Objective(Transformer(preset('tiny', vocab_size=8, N=1, d_model=16, h=2)))
    parallel(net, SimpleNamespace(size=2, device=torch.device('cuda')), shard=True, dtype=dtype)
    types = gathered, gathered and torch.float32   # of the weights, and of the sums of their gradients
    assert sharded == [('EncoderLayer', types), ('DecoderLayer', types), ('Objective', None)]


@pytest.mark.parametrize('name, value', [('WORLD_SIZE', '2'), ('RANK', '0')])
def test_half_of_what_torchrun_says_makes_no_group(name, value, monkeypatch):
    "A cluster may set one of them; the process is alone, and trains."
    for known in ('RANK', 'WORLD_SIZE'): monkeypatch.delenv(known, raising=False)
    monkeypatch.setenv(name, value)
    world = DistributedContext('cpu')
    assert (world.rank, world.size, world.all_reduce_sum(2.)) == (0, 1, [2.])


def test_a_process_that_does_not_know_its_gpu_says_so(monkeypatch):
    for name, value in {'RANK': '0', 'WORLD_SIZE': '2'}.items(): monkeypatch.setenv(name, value)
    monkeypatch.delenv('LOCAL_RANK', raising=False)
    monkeypatch.setattr(distributed, 'default_device', torch.device)
    with pytest.raises(InputError, match='LOCAL_RANK is not set'): DistributedContext('cuda')


@pytest.mark.parametrize('device, backend', [('cuda', 'nccl'), ('cpu', 'gloo')])
def test_processes_wait_for_the_slow_work_of_the_first(monkeypatch, device, backend):
    "A vocabulary, or a score, may take longer than NCCL's ten minutes."
    groups, devices = [], []
    for name, value in {'RANK': '1', 'WORLD_SIZE': '2', 'LOCAL_RANK': '1'}.items(): monkeypatch.setenv(name, value)
    monkeypatch.setattr(distributed, 'default_device', torch.device)
    monkeypatch.setattr(torch.cuda, 'set_device', devices.append)
    monkeypatch.setattr(torch.distributed, 'init_process_group', lambda kind, timeout: groups.append((kind, timeout)))
    world = DistributedContext(device)
    assert groups == [(backend, timedelta(hours=1))] and (world.rank, world.size) == (1, 2)
    assert devices == ([torch.device('cuda', 1)] if device == 'cuda' else [])
