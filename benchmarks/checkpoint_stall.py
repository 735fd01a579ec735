"""How long training waits for a checkpoint: written by a thread, as runs do it, beside waiting for the disk, and
beside PyTorch's own way to do both (`torch.distributed.checkpoint`).

    python benchmarks/checkpoint_stall.py --json            # base and big, 3 rounds: 4 minutes; big takes 9 GB memory
    python benchmarks/checkpoint_stall.py --presets small   # no memory to speak of

A checkpoint holds the weights and Adam's two averages. Each round takes every way once, in turns. `stall` is the time
until the next step may begin, `written` until the checkpoint is on the disk and the one before is removed. PyTorch's
writes no checksums, and waits for the disk (`fsync`) only if told to; here it is told to.
"""
import tempfile
import time
from pathlib import Path

import render
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from common import Experiment, machine

from transformer_nb import checkpoints
from transformer_nb.train.callbacks import Checkpointing
from transformer_nb.train.trainer import Trainer, TrainingConfig
from transformer_nb.transformer import Transformer, preset

VOCAB = 37_000


def trainer_of(name, out):
    "A trainer in the middle of a run: weights, and an optimizer that has made a step."
    cfg = TrainingConfig(steps=10, device='cpu')
    trainer = Trainer(Transformer(preset(name, vocab_size=VOCAB)), train=[([5, 6], [7, 8])], cfg=cfg, out=out,
        callbacks=[Checkpointing()])
    for p in trainer.model.parameters(): p.grad = torch.full_like(p, 1e-3)
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()
    trainer.loss = 1.
    return trainer


def timed(begin, end):
    "Seconds until `begin` comes back, and until `end` has been waited for."
    start = time.perf_counter()
    begun = begin()
    stall = time.perf_counter() - start
    end(begun)
    return stall, time.perf_counter() - start


def ways(trainer, out):
    "Name -> a function that writes one checkpoint: (seconds of stall, seconds until it is written)."
    def states(): return {'model': trainer.model.state_dict(), 'optimizer': trainer.optimizer.state_dict()}
    def disk(): return dcp.FileSystemWriter(out/'dcp', overwrite=True, sync_files=True)
    saving, = trainer.callbacks
    def begun(): saving.save(trainer)
    def done(_=None): saving.wait()
    return {
        'ours': lambda: timed(begun, done),
        'ours, waiting': lambda: timed(lambda: done(begun()), lambda _: None),
        'DCP async_save': lambda: timed(lambda: dcp.async_save(states(), storage_writer=disk()), lambda f: f.result()),
        'DCP save': lambda: timed(lambda: dcp.save(states(), storage_writer=disk()), lambda _: None),
    }


def measure(name, rounds):
    with tempfile.TemporaryDirectory(dir='.') as folder:
        trainer = trainer_of(name, Path(folder)/'run')
        found = {way: [] for way in ways(trainer, Path(folder))}
        for i in range(rounds + 1):
            for way, write in ways(trainer, Path(folder)).items():
                trainer.step += 1
                trainer.log = [{'step': trainer.step}]  # a regular one: those before go
                seconds = write()
                if i: found[way].append(seconds)  # the first round warms up
        size = sum(file.stat().st_size for file in checkpoints.newest(trainer.out).iterdir())
    rows = {way: {'stall_s': [round(s, 3) for s, _ in seconds], 'written_s': [round(w, 3) for _, w in seconds]}
            for way, seconds in found.items()}
    return {'name': name, 'bytes': size, 'torch': torch.__version__, 'on': machine(trainer.device), 'ways': rows}


def main():
    experiment = Experiment(__file__, __doc__, asked=True)
    experiment.option('--presets', nargs='+', default=['base', 'big'])
    experiment.option('--rounds', type=int, default=3)
    args = experiment.begin(presets=['tiny'], rounds=1)
    if args.tiny: globals().update(VOCAB=500)
    dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)  # async_save wants one
    for name in args.presets:
        row = measure(name, args.rounds)
        print(render.checkpoints({name: row}))
        experiment.keep(row, 'name')
    dist.destroy_process_group()


if __name__ == '__main__': main()
