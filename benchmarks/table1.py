"""Why self-attention (paper §4, Table 1), measured: operations, time, memory, sequential operations, path lengths,
and what is learned.

    OMP_NUM_THREADS=1 python benchmarks/table1.py        # about 5 minutes on one CPU core

Writes results/table1.json, which the lesson on self-attention reads. Times are processor seconds of one thread (the
best of several repetitions), forward and backward; memory is the most that forward and backward hold at once. The
recall task trains small models to name the first token of a sequence at its last position.
"""
import math
import time

import render
import torch
from common import Experiment
from torch import nn

from transformer_nb.attention import attention
from transformer_nb.core import keep_memory, seed_everything
from transformer_nb.experiments.why_self_attention import (
    FusedSelfAttention, Recurrent, SelfAttention, fit_exponent, layer_flops, longest_chain, one_hop, path_lengths,
    peak_memory, recall_layers, seconds, table1_layers, train_recall)

KERNEL = {'k': 7, 'r': 33}                             # positions that a convolution, a restricted attention sees
LENGTHS = (512, 724, 1024, 1448, 2048, 2896, 4096)     # at d = 64
WIDTHS = (128, 181, 256, 362, 512, 724, 1024)          # at n = 256
PATHS = {'k': 5, 'r': 5, 'n': (17, 33, 65, 129, 257, 513)}
# n by batch size
CROSSING = {'d': (64, 128, 256, 512), 'n': {1: (64, 128, 256, 512, 1024, 2048, 4096), 32: (32, 64, 128, 256, 512)}}
TINY = {'LENGTHS': (64, 128, 192), 'WIDTHS': (16, 32, 48), 'PATHS': {'k': 5, 'r': 5, 'n': (17, 33)},
        'CROSSING': {'d': (16,), 'n': {1: (32,), 4: (32,)}}}
RECALL = {'d': 32, 'k': 5, 'distances': (2, 4, 8, 16, 32, 64), 'steps': 400, 'seeds': (0, 1, 2)}


class AttentionAlone(nn.Module):
    "Equation 1 without the projections of its input: what Table 1 counts."
    def forward(self, x): return attention(x, x, x)[0]


def layers(d):
    return table1_layers(d, **KERNEL) | {'attention alone': AttentionAlone(),
                                         'fused self-attention': FusedSelfAttention(d)}


def training_step(layer, b, n, d):
    "A function that runs the layer forward and backward on b sequences."
    x = torch.randn(b, n, d, requires_grad=True)
    return lambda: layer(x).sum().backward()


def measure(layer, n, d, b=1):
    "Processor seconds of a step; fewer repetitions where one is long."
    step = training_step(layer, b, n, d)
    once = seconds(step, 1, time.process_time)
    return once if once > 1 else min(once, seconds(step, 4 if once < .3 else 1, time.process_time))


def scaling(sizes):
    "All figures of every layer for the (n, d) in `sizes`."
    found = {}
    for n, d in sizes:
        for name, layer in layers(d).items():
            row = found.setdefault(name, {'n': [], 'd': [], 'seconds': [], 'bytes': [], 'flops': [], 'chain': []})
            step = training_step(layer, 1, n, d)
            values = {'n': n, 'd': d, 'seconds': measure(layer, n, d), 'bytes': peak_memory(step),
                      'flops': layer_flops(layer, n, d),
                      'chain': longest_chain(layer(torch.randn(1, n, d, requires_grad=True)))}
            for key, value in values.items(): row[key].append(value)
        print(f'n {n}, d {d}:', ', '.join(f"{name} {1000*row['seconds'][-1]:.1f} ms" for name, row in found.items()),
              flush=True)
    # torch counts nothing inside the fused kernel; its products are those of the plain one
    for key in ('flops', 'chain'):
        found['fused self-attention'][key] = found['self-attention'][key]
    return found


def exponents(found, size):
    "Fitted exponent and its 95 % interval of operations, time and memory in `size` ('n' or 'd')."
    return {name: {key: fit_exponent(row[size], row[key]) for key in ('flops', 'seconds', 'bytes')}
            for name, row in found.items()}


def paths():
    "Greatest number of hops between two positions, counted."
    rows = {n: one_hop(n, PATHS['k'], PATHS['r']) for n in PATHS['n']}
    longest = lambda hops: int(max(v for v in path_lengths(hops).flatten().tolist() if math.isfinite(v)))
    return {name: [longest(rows[n][name]) for n in PATHS['n']] for name in rows[PATHS['n'][0]]}


def crossing():
    "Seconds of attention and recurrence against n, for several d, one sequence or a batch of 32."
    kinds = {'self-attention': SelfAttention, 'fused self-attention': FusedSelfAttention, 'recurrent': Recurrent}
    found = []
    for b, lengths in CROSSING['n'].items():
        for d in CROSSING['d']:
            times = {name: [measure(kind(d), n, d, b) for n in lengths] for name, kind in kinds.items()}
            found.append({'batch': b, 'd': d, 'n': lengths, 'seconds': times})
            print(f'batch {b}, d {d}: done', flush=True)
    return found


def recall():
    "Accuracy of naming the first token at the last position, for every kind of layer, distance and seed."
    runs = []
    for distance in RECALL['distances']:
        for seed in RECALL['seeds']:
            for name, stack in recall_layers(distance + 1, RECALL['d'], RECALL['k'], seed).items():
                start = time.process_time()
                _, accuracy = train_recall(stack, distance + 1, RECALL['d'], RECALL['steps'], seed)
                runs.append({'layers': name, 'number': len(stack), 'distance': distance, 'seed': seed,
                             'accuracy': accuracy, 'cpu_seconds': round(time.process_time() - start, 2)})
        reached = (f"{r['layers']} {r['accuracy']:.2f}" for r in runs if r['distance'] == distance)
        print(f'recall over {distance}:', ', '.join(reached), flush=True)
    return runs


def main():
    experiment = Experiment(__file__, __doc__)
    if experiment.begin().tiny:
        globals().update(TINY)
        RECALL.update(distances=(2,), steps=2, seeds=(0,))
    keep_memory()
    torch.set_num_threads(1)
    seed_everything(0)
    experiment.facts['seeds'] = RECALL['seeds']
    by_n, by_d = scaling([(n, 64) for n in LENGTHS]), scaling([(256, d) for d in WIDTHS])
    result = experiment.where() | {
        'seed': 0, 'kernel': KERNEL, 'by_n': by_n, 'by_d': by_d,
        'exponents': {'n': exponents(by_n, 'n'), 'd': exponents(by_d, 'd')}, 'paths': PATHS | {'hops': paths()},
        'crossing': crossing(), 'recall': RECALL | {'runs': recall()}}
    result |= experiment.minutes()
    experiment.save(result)
    print(render.table1(result))


if __name__ == '__main__': main()
