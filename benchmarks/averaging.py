"""Heads averaged or concatenated: the small Table 3's base, with averaged heads and with wide ones (paper §3.2.2).

    python benchmarks/averaging.py                           # about 11 minutes on one CPU core

Four models: 'base'; 'average', which averages the heads before W^O and so writes into d_v dimensions only; 'wide',
whose heads have values as wide as the model; 'wide-average', which averages those. Each model is trained with every
learning rate and the first seed, and with its best rate (by validation loss) and the other seeds. Everything else is
the recipe of table3.py, with a third of its steps. Writes results/averaging.json; each finished run is written at
once; a second start goes on.
"""
from functools import partial

import table3
from common import Experiment, digest, with_minutes

from transformer_nb.core import default_device

ROWS, RATES = ('base', 'average', 'wide', 'wide-average'), (0.15, 0.3, 0.6)


def best_rate(runs, row, seed):
    "The learning rate with the lowest validation loss in this seed."
    return min((run for run in runs if (run['row'], run['seed']) == (row, seed)), key=lambda r: r['val_loss'])['rate']


def one_run(recipe, data, device, row, rate, seed):
    return table3.one_run(recipe | {'lr_factor': rate}, *data, device, row, seed)


def main(argv=None):
    experiment = Experiment(__file__, __doc__)
    experiment.option('--seeds', type=int, default=3)
    experiment.option('--steps', type=int, default=400)
    experiment.option('--device', default='auto')
    args = experiment.begin(argv, seeds=2, steps=2, device='cpu')
    rates = RATES[1:] if args.tiny else RATES
    recipe = table3.RECIPE | (table3.TINY if args.tiny else {}) | {'steps': args.steps, 'lr_factor': [*rates]}
    data = table3.prepare(recipe, args.tiny)
    experiment.facts['corpus'] = digest(data[0])
    make = partial(with_minutes, one_run, recipe, data, args.device)
    grid = lambda jobs: experiment.grid({'recipe': recipe}, jobs, make, growing=True,
                                        device=default_device(args.device))
    runs = grid([{'row': row, 'rate': rate, 'seed': 0} for rate in rates for row in ROWS])
    grid([{'row': row, 'rate': best_rate(runs, row, 0), 'seed': seed} for seed in range(1, args.seeds) for row in ROWS])


if __name__ == '__main__': main()
