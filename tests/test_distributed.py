"""Several processes train as one would: the same losses, the same weights, on two processes, on one, sharded,
resumed; and they end together."""

import json
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest
import torch
from conftest import BIN, TORCH, tnb, two_processes

from transformer_nb import checkpoints

pytestmark = pytest.mark.long(70)  # all: most are compared with the same run

TOGETHER = [BIN/'torchrun', '--standalone', '--nproc-per-node', '2']


def train(out, steps, *options, processes=1):
    command = [str(Path(__file__).with_name('train_together.py')), str(out), str(steps), *options]
    if processes == 1:
        with patch.object(sys, 'argv', command): runpy.run_path(command[0])
    else:
        status, log = two_processes(*command)
        assert status == [0, 0], log
    return out


def losses(run): return [line['loss'] for line in map(json.loads, open(run/'metrics.jsonl')) if 'loss' in line]
def weights(run): return checkpoints.load(run/'averaged').model.state_dict()


def assert_same(run, other):
    assert len(losses(run)) == len(losses(other)) == 6
    assert losses(run) == pytest.approx(losses(other), abs=1e-10, rel=0)
    a, b = weights(run), weights(other)
    # checkpoints hold the averages in float32
    assert all(torch.allclose(a[name], b[name], rtol=0, atol=1e-6) for name in a)


@pytest.fixture(scope='module')
def alone(tmp_path_factory): return train(tmp_path_factory.mktemp('alone'), 6)


def test_two_processes_are_one(alone, tmp_path): assert_same(train(tmp_path, 6, processes=2), alone)


@pytest.mark.skipif(
    TORCH < (2, 9), reason='on a CPU, sharding fails in torch 2.6, and doubles the gradients in 2.7 and 2.8'
)
def test_sharded_weights_are_whole_weights(alone, tmp_path):
    assert_same(train(tmp_path, 6, '--shard', processes=2), alone)


@pytest.mark.skipif(TORCH < (2, 9), reason='sharding on a CPU')
def test_sharded_layers_gather_bfloat16_and_learn_in_float32(tmp_path):
    "The weights that are gathered have the type of the products; what is kept, saved and added up has not."
    alone, shards = (tmp_path/name for name in ('alone', 'shards'))
    train(alone, 6, '--bfloat16')
    train(shards, 6, '--bfloat16', '--shard', processes=2)
    assert losses(shards) == pytest.approx(losses(alone), abs=.02) and losses(shards) != losses(alone)
    assert {w.dtype for w in weights(shards).values()} == {torch.float32}


@pytest.mark.skipif(TORCH < (2, 9), reason='sharding on a CPU')
def test_a_moving_average_is_cut_into_pieces_with_its_weights(tmp_path):
    "And resumed by another number of processes."
    train(tmp_path/'alone', 6, '--ema')
    train(tmp_path/'shards', 4, '--ema', '--shard', processes=2)
    train(tmp_path/'shards', 6, '--ema', '--resume')
    a, b = (checkpoints.load(tmp_path/name/'ema').model.state_dict() for name in ('alone', 'shards'))
    assert all(torch.allclose(a[name], b[name], rtol=0, atol=1e-6) for name in a)
    assert not torch.equal(a['embedding.weight'], weights(tmp_path/'alone')['embedding.weight'])


def test_resume_with_another_number_of_processes(alone, tmp_path):
    train(tmp_path, 2, processes=2)
    train(tmp_path, 4, '--resume')
    assert_same(train(tmp_path, 6, '--resume', processes=2), alone)


@pytest.mark.skipif(TORCH < (2, 9), reason='sharding on a CPU')
def test_a_sharded_run_is_resumed(alone, tmp_path):
    "Its weights and its optimizer's moments are cut into pieces again."
    train(tmp_path, 2, '--shard', processes=2)
    assert_same(train(tmp_path, 6, '--shard', '--resume', processes=2), alone)


@pytest.mark.parametrize('victim', [pytest.param(0, marks=pytest.mark.slow), 1])
def test_one_killed_process_ends_the_run(tmp_path, victim):
    "The others do not wait for ever, and what is on disk can be resumed, here by one process."
    for lang in ('en', 'de'):
        (tmp_path / f'train.{lang}').write_text(
            '\n'.join(' '.join('abcdefgh'[i % n] for i in range(n)) for n in range(2, 9) for _ in range(40)) + '\n'
        )
    out, settings = (
        tmp_path / 'run',
        '--batch-tokens 128 --grad-accum-steps 2 --max-len 32 --save-every 3 --device cpu --data'.split()
        + [tmp_path, '--out', tmp_path / 'run'],
    )
    command = ['--no-python', BIN/'tnb-train', *settings, '--steps', 100_000]
    with subprocess.Popen(list(map(str, [*TOGETHER, *command])), stderr=subprocess.PIPE, text=True) as group:
        while group.poll() is None and not (out.exists() and checkpoints.steps(out)): time.sleep(.01)
        workers = [
            p for p in psutil.Process(group.pid).children(recursive=True) if p.environ().get('RANK') == str(victim)
        ]
        for worker in workers: worker.send_signal(signal.SIGKILL)
        err = group.communicate(timeout=600)[1]
    assert workers and group.returncode != 0
    assert victim == 0 or 'another process is gone' in err, err
    step = checkpoints.load(checkpoints.newest(out)).training['step']
    status, _, err = tnb('tnb-train', *settings, '--steps', step + 2, '--resume')
    assert status == 0, err
    assert checkpoints.load(out/'averaged').training['step'] == step + 2


def test_stopped_together(tmp_path):
    "Ctrl-C or SIGTERM to torchrun reaches every process; they leave after the same step with one checkpoint."
    for lang in ('en', 'de'): (tmp_path/f'train.{lang}').write_text('a b c d e f\n'*99)
    out = tmp_path/'run'
    command = [
        '--no-python',
        BIN / 'tnb-train',
        *'--batch-tokens 128 --max-len 32 --device cpu --steps 100000'.split(),
        '--data',
        tmp_path,
        '--out',
        out,
    ]
    with subprocess.Popen(list(map(str, [*TOGETHER, *command])), stderr=subprocess.PIPE, text=True) as group:
        metrics = out/'metrics.jsonl'
        while group.poll() is None and not (metrics.exists() and metrics.stat().st_size): time.sleep(.01)  # one step
        group.send_signal(signal.SIGTERM)
        err = group.communicate(timeout=600)[1]
    assert 'go on with --resume' in err, err
    checkpoints.verify(checkpoints.newest(out))
