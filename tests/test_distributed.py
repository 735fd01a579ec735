"""Several processes train as one would: the same losses, the same weights, on two processes, on one, sharded,
resumed; and they end together."""

import json
import os
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


@pytest.mark.slow  # a run that is resumed has whole weights, too: see below
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


def texts(folder):
    for lang in ('en', 'de'):
        (folder/f'train.{lang}').write_text(
            '\n'.join(' '.join('abcdefgh'[i % n] for i in range(n)) for n in range(2, 9) for _ in range(40)) + '\n'
        )
    settings = '--batch-tokens 128 --grad-accum-steps 2 --max-len 32 --save-every 3 --device cpu --data'.split()
    return folder/'run', [*settings, folder, '--out', folder/'run']


def interrupt(settings, ready, strike, by_torchrun):
    "A long run of two processes: once something is ready it is struck; the exit codes and what was said."
    command = ['tnb-train', *settings, '--steps', 100_000]
    if not by_torchrun:
        def meanwhile(running):
            while all(process.is_alive() for process in running) and not ready(): time.sleep(.01)
            strike([process.pid for process in running])
        return two_processes(*command, meanwhile=meanwhile)
    command = list(map(str, [*TOGETHER, '--no-python', BIN/command[0], *command[1:]]))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as group:
        while group.poll() is None and not ready(): time.sleep(.01)
        workers = {p.environ().get('RANK'): p.pid for p in psutil.Process(group.pid).children(recursive=True)}
        strike([workers['0'], workers['1'], group.pid])
        err = group.communicate(timeout=600)[1]
    return [group.returncode], err


@pytest.mark.parametrize('by_torchrun, victim', [(False, 1), *(pytest.param(*more, marks=pytest.mark.slow)
                                                              for more in ((False, 0), (True, 0), (True, 1)))])
def test_one_killed_process_ends_the_run(tmp_path, by_torchrun, victim):
    "The others do not wait for ever, and what is on disk can be resumed, here by one process."
    out, settings = texts(tmp_path)
    def ready(): return out.exists() and checkpoints.steps(out)
    def strike(pids): os.kill(pids[victim], signal.SIGKILL)
    status, err = interrupt(settings, ready, strike, by_torchrun)
    assert 0 not in status and (by_torchrun or status[victim] == -signal.SIGKILL)
    assert victim == 0 or 'another process is gone' in err, err
    step = checkpoints.load(checkpoints.newest(out)).training['step']
    status, _, err = tnb('tnb-train', *settings, '--steps', step + 2, '--resume')
    assert status == 0, err
    assert checkpoints.load(out/'averaged').training['step'] == step + 2


@pytest.mark.parametrize('by_torchrun', [False, pytest.param(True, marks=pytest.mark.slow)])
def test_stopped_together(tmp_path, by_torchrun):
    "Ctrl-C or SIGTERM (to torchrun) reaches every process; they leave after the same step with one checkpoint."
    out, settings = texts(tmp_path)
    metrics = out/'metrics.jsonl'
    def ready(): return metrics.exists() and metrics.stat().st_size  # one step
    def strike(pids):
        for pid in pids[2:] or pids: os.kill(pid, signal.SIGTERM)
    status, err = interrupt(settings, ready, strike, by_torchrun)
    assert 'go on with --resume' in err and (by_torchrun or status == [143, 143]), err
    checkpoints.verify(checkpoints.newest(out))
