"""With a warm-up or without: a grid of peak rates, for post-norm and pre-norm, with two starts of the weights (§5.3).

    OMP_NUM_THREADS=1 python benchmarks/warmup.py        # 168 runs of 300 steps: about 9 minutes on one CPU core

Task and model are those of ablations.py: six encoder layers of width 32 give each word of a sentence back, in its other
form if the left neighbour is marked. Adam's rate rises linearly to its peak during the first quarter of the run, or
stands at the peak from the first step. Both then fall in the same way, so a pair of runs differs in the rise alone.
Every peak is tried with and without the rise, with the same seeds: five with PyTorch's start of the weights, three with
Xavier's. `loss` is the cross-entropy in nats on 500 sentences that no run has seen. Each finished run is written to
results/warmup.json at once; started again, the script goes on with what is missing. The lesson on the optimizer reads
the file.
"""
import argparse
import time
from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F
from ablations import answer, sentences, test, variant
from common import lines, machine, resumed, write

from transformer_nb.optimizer import adam

OUT = Path(__file__).parent/'results'/'warmup.json'
STEPS = 300
RISES = {'with': STEPS//4, 'without': 1}            # steps until the peak is reached
NORMS = {'post': 'as printed', 'pre': 'pre-norm'}   # and what ablations.py calls them
SEEDS = {'PyTorch': 5, 'Xavier': 3}                 # of each start of the weights
RATES = {'PyTorch': [.001, .002, .004, .008, .016, .032], 'Xavier': [.002, .004, .008, .016]}
RECIPE = {'steps': STEPS, 'rises': RISES, 'rates': RATES, 'seeds': SEEDS}


def rate(step, peak, rise): return peak * min(1, step/rise) * (1 - step/(STEPS + 1))**.5


def run(start, norm, warmup, peak, seed):
    "The loss after the training."
    model, generator = variant(NORMS[norm], seed, start), torch.Generator().manual_seed(seed)
    optimizer = adam(model)
    for step in range(1, STEPS + 1):
        optimizer.param_groups[0]['lr'] = rate(step, peak, RISES[warmup])
        ids, truth = sentences(32, generator)
        loss = F.cross_entropy(answer(model, ids), truth.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return round(test(model)['loss'], 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', type=Path, default=OUT)
    args = parser.parse_args()
    found = resumed(args.out, {'command': 'python benchmarks/warmup.py', 'recipe': RECIPE, 'torch': torch.__version__,
                               'machine': machine(torch.device('cpu')), 'cpu_minutes': 0, 'runs': []})
    done, before = [list(row.values())[:-1] for row in found['runs']], found['cpu_minutes']
    for start, n in SEEDS.items():
        for norm, warmup, peak, seed in product(NORMS, RISES, RATES[start], range(n)):
            row = {'start': start, 'norm': norm, 'warmup': warmup, 'rate': peak, 'seed': seed}
            if list(row.values()) in done: continue
            found['runs'].append(row | {'loss': run(*row.values())})
            found['cpu_minutes'] = round(before + time.process_time()/60, 1)
            write(found, args.out, lines)
            print(found['runs'][-1], flush=True)


if __name__ == '__main__': main()
