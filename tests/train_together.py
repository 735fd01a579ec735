"""A few steps of training in float64 for tests/test_distributed.py, alone or by torchrun:

    train_together.py OUT STEPS [--shard] [--resume] [--auto] [--bfloat16] [--ema] [--hold STEP] [--hold-disk STEP]

`--auto` goes on where there is something to go on from. With `--hold` a run that has done so many steps waits as long
as there is a file `hold` beside OUT, so that something can happen meanwhile; with `--hold-disk` what it writes of later
checkpoints waits, in the middle of a file.
"""

import os
import re
import sys
import time
from pathlib import Path

import torch

from transformer_nb import checkpoints
from transformer_nb.core import seed_everything
from transformer_nb.train.trainer import Trainer, TrainingConfig
from transformer_nb.transformer import Transformer, preset

out, steps, options = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
torch.set_num_threads(1)
seed_everything(0)
model = Transformer(preset('tiny', vocab_size=40, N=2, d_model=16, d_ff=32, h=2, dropout=.2, max_len=32)).double()
words = lambda: torch.randint(3, 40, (int(torch.randint(3, 12, ())),)).tolist()
pairs = [(words(), words()) for _ in range(120)]
if '--bfloat16' in options: model.float()
cfg = TrainingConfig(steps=steps, batch_tokens=64, grad_accum_steps=4, warmup=4, max_grad_norm=1., save_every=2,
    device='cpu', ema=.5 if '--ema' in options else None,
    shard='--shard' in options, dtype='bfloat16' if '--bfloat16' in options else 'float32')
trainer = Trainer(model, train=pairs, val=pairs[:20], cfg=cfg, out=out)
begun = trainer.world.broadcast_from_rank0(lambda: bool(out.exists() and checkpoints.steps(out)))  # all see it, or none
if '--resume' in options or '--auto' in options and begun: trainer.resume()
def hold():
    "Whoever is told to stop waits no longer."
    while out.with_name('hold').exists() and not trainer.stop_signal: time.sleep(.01)

if '--hold' in options:
    at_once, after = trainer.train_step, int(options[options.index('--hold') + 1])
    def held(step):
        if trainer.step >= after: hold()
        return at_once(step)
    trainer.train_step = held
if '--hold-disk' in options:
    fsync, beyond = os.fsync, int(options[options.index('--hold-disk') + 1])
    def held_up(file):  # not by the trainer's step: it may be ahead of the checkpoint that is being written
        written = re.search(r'\.step-(\d+)\.tmp', os.readlink(f'/proc/self/fd/{file}'))
        if written and int(written[1]) > beyond: hold()
        fsync(file)
    os.fsync = held_up
print('begins at step', trainer.step, flush=True)
trainer.fit(quiet=True)
trainer.world.close()
