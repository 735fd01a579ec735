"""What each exchanged part earns alone: the same work with everything in place, and with one part taken back.

    pip install -e . --group bench
    python benchmarks/parts.py --json                          # training and decoding, small and base
    python benchmarks/parts.py --preset small --work training

Every row is a process of its own, one computes at a time, and a round starts each once, in random order. The ratio is
the time without the part over the time with it: 1.10 means that the part earns a tenth. Rows marked `instead` put what
torch itself offers in its place. Method: benchmarks/README.md
"""
import json
import sys
import tempfile
from dataclasses import asdict
from statistics import median
from unittest.mock import patch

import torch
import torch.nn.functional as F

import decode_speed
import train_speed
from common import Experiment, machine
from render import table
from workers import calm, interleaved, serve
from transformer_nb import core, optimizer
from transformer_nb.parts import exchange, inference, kernels, packing
from transformer_nb.regularization import smoothed_loss
from transformer_nb.train import trainer
from transformer_nb.transformer import preset


# What takes the place of a part that is taken back

def same(module, *_, **__): return module


def padded_states(model, src, tgt, n_tokens):
    "The decoder's output at the real tokens, from tables with their padding."
    return model.decode(tgt, model.encode(src), src)[tgt != model.cfg.pad_id]


def whole_loss(x, W, y, smoothing): return smoothed_loss(F.linear(x, W), y, smoothing)


def torchs_loss(x, W, y, smoothing):
    "Torch's own; its path in chunks takes no label smoothing (2.13)."
    return F.linear_cross_entropy(x, W, y, label_smoothing=smoothing), None


TRAINING = {  # what is patched while train_speed.py does its work
    'everything': [],
    'packed sequences': [(packing, 'with_packed_attention', same), (trainer, 'packed_decoder_states', padded_states)],
    'loss in chunks': [(trainer, 'projected_loss', whole_loss)],
    'loss in chunks; instead F.linear_cross_entropy': [(trainer, 'projected_loss', torchs_loss)],
    'dropout of 16 bits': [(exchange, 'with_fast_dropout', same)],
    'fused Adam': [(optimizer, '_can_fuse', lambda *_: False)],
    'malloc that keeps its memory': [(core, 'keep_memory', lambda: None)],
}
DECODING = {  # and decode_speed.py
    'everything': [],
    'weights laid out': [(inference, 'prepared_linear', same)],
    'one row as a sum of rows': [(kernels, '_table', lambda packed, weight: None)],
    'step without Python (TorchScript)': [(inference, '_traceable', lambda step: False)],
    'instead, 8 bits': [],
}
SEARCHES = 'greedy, 1', 'greedy, 32', 'beam, 1', 'beam, 32'


def repetition_of(task, stack):
    "A function that makes one repetition of what `ours` does in the other script."
    script, parts = (decode_speed.decoding, DECODING) if 'search' in task else (train_speed.repetition_of, TRAINING)
    for change in parts[task['part']]: stack.enter_context(patch.object(*change))
    return script(task | {'name': 'ours int8' if '8 bits' in task['part'] else 'ours'}, stack)


def tasks_of(work, task):
    "The workers of one kind of work, by the part that each lacks."
    if work == 'training': return {part: (__file__, task | {'part': part}) for part in TRAINING}
    search, batch = work.split(', ')
    return {part: (__file__, task | {'search': search, 'batch': batch, 'part': part}) for part in DECODING}


# The driver

def report(title, answers):
    "Time without the part over the time with it; memory likewise."
    found = {row: calm(repetitions) for row, repetitions in answers.items()}
    seconds = {row: median(r['seconds'] for r in repetitions) for row, repetitions in found.items()}
    memory = {row: median(r['memory'] for r in repetitions) for row, repetitions in answers.items()}
    ratios = [[row, *(f"{of[row]/of['everything']:.2f}" for of in (seconds, memory))] for row in seconds]
    print(f"\n{title}\n\n{table(['', 'time', 'memory'], ratios)}", flush=True)
    return {row: {'time': seconds[row]/seconds['everything'], 'memory': memory[row]/memory['everything'],
                  'seconds': seconds[row], 'repetitions': found[row]} for row in seconds}


def main():
    experiment = Experiment(__file__, __doc__, asked=True)
    option = experiment.option
    option('--preset', nargs='+', choices=('tiny', 'small', 'base', 'big'), default=('small', 'base'))
    option('--dtype', choices=('float32', 'bfloat16'), default='float32')
    option('--work', nargs='+', choices=('training', *SEARCHES), default=('training', *SEARCHES))
    option('--rounds', type=int, default=3)
    option('--batch-tokens', type=int, default=4096)
    args = experiment.begin(preset=['tiny'], work=['training', 'greedy, 1'], rounds=1, batch_tokens=256)
    vocab, pairs, times = (200, 60, 1) if args.tiny else (10_000, 6000, 3)
    hardware = machine(torch.device('cpu'))
    with tempfile.TemporaryDirectory() as folder:
        for size in args.preset:
            cfg = asdict(preset(size, vocab_size=vocab))
            decode_speed.converted(cfg, 'relu', f'{folder}/{size}', False)
            task = {'preset': size, 'cfg': cfg, 'vocab': vocab, 'dtype': args.dtype, 'device': 'cpu', 'passes': 1,
                    'batch_tokens': args.batch_tokens, 'pairs': pairs, 'folder': f'{folder}/{size}', 'streams': 1}
            for work in args.work:
                answers = interleaved(tasks_of(work, task), args.rounds, times, anew=True)
                result = {'hardware': hardware, 'torch': torch.__version__, 'preset': size, 'work': work,
                          'dtype': args.dtype, 'batch_tokens': args.batch_tokens,
                          'rows': report(f'{size}, {work}', answers)}
                experiment.keep(result, 'hardware', 'preset', 'work', 'dtype', 'batch_tokens', seeds=[7])


if __name__ == '__main__': serve(repetition_of, json.loads(sys.argv[2])) if sys.argv[1:2] == ['worker'] else main()
