"""With a warm-up or without: a grid of peak rates, for post-norm and pre-norm, with two starts of the weights (§5.3).

    OMP_NUM_THREADS=1 python benchmarks/warmup.py        # 248 runs of 300 steps: about 13 minutes on one CPU core

Task and model are those of ablations.py: six encoder layers of width 32 give each word of a sentence back, in its other
form if the left neighbour is marked. Adam's rate rises linearly to its peak during the first quarter of the run, or
stands at the peak from the first step. Both then fall in the same way, so a pair of runs differs in the rise alone.
Every peak is tried with and without the rise, with the same seeds: five with PyTorch's start of the weights, three with
Xavier's. Is it Adam's very first steps that do harm? To find out, the highest usable rate without the rise, and twice
this rate, are also tried with a rise of 2, 5 and 20 steps, and without a rise with RAdam, which makes the first steps
small by itself. `loss` is the cross-entropy in nats on 500 sentences that no run has seen. Each finished run is written
to results/warmup.json at once; started again, the script goes on with what is missing. The lesson on the optimizer
reads the file.
"""
from itertools import product

import torch
import torch.nn.functional as F
from ablations import answer, build, sentences, test
from common import Experiment, descend

from transformer_nb.optimizer import adam

STEPS = 300
RISES = {'with': STEPS//4, 'without': 1}            # steps until the peak is reached
FIRST_STEPS = {'2 steps': 2, '5 steps': 5, '20 steps': 20, 'RAdam': 1}
NEAR_THE_LIMIT = {'post': [.004, .008], 'pre': [.008, .016]}  # rates at which they are tried, with PyTorch's start
NORMS = {'post': 'as printed', 'pre': 'pre-norm'}   # and what ablations.py calls them
SEEDS = {'PyTorch': 5, 'Xavier': 3}                 # of each start of the weights
RATES = {'PyTorch': [.001, .002, .004, .008, .016, .032], 'Xavier': [.002, .004, .008, .016]}
TINY = {'STEPS': 2, 'SEEDS': {'PyTorch': 1, 'Xavier': 1}, 'RATES': {'PyTorch': [.001], 'Xavier': [.002]},
        'NEAR_THE_LIMIT': {'post': [.004]}}


def rate_at(step, peak, rise): return peak * min(1, step/rise) * (1 - step/(STEPS + 1))**.5


def radam(model):
    "Adam of Liu et al. (2020), whose first steps are small, with the constants of `adam`."
    return torch.optim.RAdam(model.parameters(), lr=0., betas=(.9, .98), eps=1e-9)


def run(start, norm, warmup, rate, seed):
    "The loss after the training."
    model, generator = build(NORMS[norm], seed, start), torch.Generator().manual_seed(seed)
    optimizer = radam(model) if warmup == 'RAdam' else adam(model)
    for step in range(1, STEPS + 1):
        ids, truth = sentences(32, generator)
        loss = F.cross_entropy(answer(model, ids), truth.flatten())
        descend(optimizer, loss, rate_at(step, rate, (RISES | FIRST_STEPS)[warmup]))
    return {'loss': round(test(model)['loss'], 3)}


def planned():
    "Start, norm, warm-up, peak rate and seed of every run: first the grid, then the first steps."
    for start, n in SEEDS.items(): yield from product([start], NORMS, RISES, RATES[start], range(n))
    for norm, peaks in NEAR_THE_LIMIT.items():
        yield from product(['PyTorch'], [norm], FIRST_STEPS, peaks, range(SEEDS['PyTorch']))


def main():
    experiment = Experiment(__file__, __doc__)
    args = experiment.begin()
    if args.tiny: globals().update(TINY)
    recipe = {'steps': STEPS, 'rises': RISES, 'rates': RATES, 'seeds': SEEDS,
              'first_steps': {'rises': FIRST_STEPS, 'rates': NEAR_THE_LIMIT}}
    experiment.facts['seeds'] = SEEDS
    jobs = [dict(zip(('start', 'norm', 'warmup', 'rate', 'seed'), job)) for job in planned()]
    experiment.grid({'recipe': recipe}, jobs, run, growing=True)


if __name__ == '__main__': main()
