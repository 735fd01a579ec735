"""What each exchanged part earns alone: the same work with everything in place, and with one part taken back.

    pip install -e . --group bench
    python benchmarks/parts.py --json                          # training and decoding, small and base
    python benchmarks/parts.py --preset small --work training
    python benchmarks/parts.py --preset small --work ladder --json   # one part after another put into the plain model

Every row is a process of its own, one computes at a time, and a round starts each once, in random order. The ratio is
the time without the part over the time with it: 1.10 means that the part earns a tenth. Rows marked `instead` put what
torch itself offers in its place. The ladder's ratio is the time of a row over that of the plain model with plain
attention. Method: benchmarks/README.md
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
from transformer_nb import core, multihead
from transformer_nb.attention import attention
from transformer_nb.decode import search
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


def unfused(parameters, Adam=torch.optim.Adam, **settings): return Adam(parameters, **settings | {'fused': False})


TRAINING = {  # what is patched while train_speed.py does its work
    'everything': [],
    'packed sequences': [(packing, 'with_packed_attention', same), (trainer, 'packed_decoder_states', padded_states)],
    'loss in chunks': [(trainer, 'projected_loss', whole_loss)],
    'loss in chunks; instead F.linear_cross_entropy': [(trainer, 'projected_loss', torchs_loss)],
    'dropout of 16 bits': [(exchange, 'with_fast_dropout', same)],
    'fused Adam': [(torch.optim, 'Adam', unfused)],
    'malloc that keeps its memory': [(core, 'keep_memory', lambda: None)],
    'short attention multiplied out (bfloat16)': [(packing, 'SHORT', 0)],
}
DECODING = {  # and decode_speed.py
    'everything': [],
    'weights laid out': [(inference, 'prepared_linear', same)],
    'one row as a sum of rows': [(kernels, '_table', lambda packed, weight: None)],
    'keys of lost hypotheses taken out': [(inference.KVCache, 'compact', same)],
    'step without Python (TorchScript)': [(inference, '_traceable', lambda step: False)],
    'instead, 8 bits': [],
}
SEARCHES = 'greedy, 1', 'greedy, 32', 'beam, 1', 'beam, 32', 'beam, 32, long'
LONG = 300  # tokens that a sentence of `long` gets, as many as a tree that is written as a line


def without(*parts): return [change for part in parts for change in TRAINING[part]]


def ladder():
    "What is taken back on each rung; it has what the rungs above it have, and the part that it is called by."
    plain_attention = multihead, 'fused_attention', lambda *args: attention(*args)[0]
    rungs = 'packed sequences', 'dropout of 16 bits', 'loss in chunks', 'fused Adam', 'malloc that keeps its memory'
    yield 'plain', [plain_attention, *without(*rungs)]
    yield 'fused attention', without(*rungs)
    for i, rung in enumerate(rungs, 1): yield rung, without(*rungs[i:])
    yield from (('bfloat16', []), ('compiled', []))


LADDER = dict(ladder())
LONGER = [(decode_speed, 'tokens_asked', lambda batch: LONG),
          (search, 'max_lengths', lambda model, src, *_: torch.full((len(src),), model.cfg.max_len))]


def repetition_of(task, stack):
    "A function that makes one repetition of what `ours` does in the other script."
    script, parts = (decode_speed.decoding, DECODING) if 'search' in task else (train_speed.repetition_of, TRAINING)
    changes = (LADDER if task['work'] == 'ladder' else parts)[task['part']]
    for change in changes + (LONGER if task['work'].endswith('long') else []):
        stack.enter_context(patch.object(*change))
    name = {'instead, 8 bits': 'ours int8', 'compiled': 'ours compiled'}.get(task['part'], 'ours')
    return script(task | {'name': name}, stack)


def tasks_of(work, task):
    "The workers of one kind of work, by the part that each lacks; of the ladder, by the one that each has more."
    task = task | {'work': work}
    if work == 'training': return {part: (__file__, task | {'part': part}) for part in TRAINING}
    if work == 'ladder': return {
        rung: (__file__, task | {'part': rung, 'dtype': 'bfloat16' if rung in ('bfloat16', 'compiled') else 'float32'})
        for rung in LADDER}
    kind, batch, *long = work.split(', ')
    task |= {'search': kind, 'batch': batch, 'drawn': 64 if long else 200}  # of the long ones there is one batch
    return {part: (__file__, task | {'part': part}) for part in DECODING}


# The driver

def report(title, answers, whole):
    "Each row's time and memory over those of the row `whole`, the first."
    found = {row: calm(repetitions) for row, repetitions in answers.items()}
    seconds = {row: median(r['seconds'] for r in repetitions) for row, repetitions in found.items()}
    memory = {row: median(r['memory'] for r in repetitions) for row, repetitions in answers.items()}
    ratios = [[row, *(f"{of[row]/of[whole]:.2f}" for of in (seconds, memory))] for row in seconds]
    print(f"\n{title}\n\n{table(['', 'time', 'memory'], ratios)}", flush=True)
    return {row: {'time': seconds[row]/seconds[whole], 'memory': memory[row]/memory[whole],
                  'seconds': seconds[row], 'repetitions': found[row]} for row in seconds}


def main():
    experiment = Experiment(__file__, __doc__, asked=True)
    option = experiment.option
    option('--preset', nargs='+', choices=('tiny', 'small', 'base', 'big'), default=('small', 'base'))
    option('--dtype', choices=('float32', 'bfloat16'), default='float32')
    option('--work', nargs='+', choices=('training', 'ladder', *SEARCHES), default=('training', *SEARCHES))
    option('--rounds', type=int, default=3)
    option('--batch-tokens', type=int, default=4096)
    args = experiment.begin(preset=['tiny'], work=['training', 'ladder', 'greedy, 1'], rounds=1, batch_tokens=256)
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
                          'rows': report(f'{size}, {work}', answers, next(iter(answers)))}
                experiment.keep(result, 'hardware', 'preset', 'work', 'dtype', 'batch_tokens', seeds=[7])


if __name__ == '__main__': serve(repetition_of, json.loads(sys.argv[2])) if sys.argv[1:2] == ['worker'] else main()
