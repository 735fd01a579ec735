"""Heads averaged or concatenated: the small Table 3's base, with averaged heads and with wide ones (paper §3.2.2).

    python benchmarks/averaging.py                           # about 12 minutes on one CPU core

Four models: 'base'; 'average', which averages the heads before W^O and so writes into d_v dimensions only; 'wide',
whose heads have values as wide as the model; 'wide-average', which averages those. Each model is trained with every
learning rate and the first seed, and with its best rate (by validation loss) and the other seeds. Everything else is
the recipe of table3.py. Writes results/averaging.json; each finished run is written at once; a second start goes on.
"""
import argparse
from pathlib import Path

import table3
import torch
from common import machine, resumed, write

from transformer_nb.core import default_device

OUT = Path(__file__).parent/'results'/'averaging.json'
ROWS, RATES = ('base', 'average', 'wide', 'wide-average'), (0.15, 0.3, 0.6)


def best_rate(runs, row, seed):
    "The learning rate with the lowest validation loss in this seed."
    return min((run for run in runs if (run['row'], run['seed']) == (row, seed)), key=lambda r: r['val_loss'])['rate']


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--steps', type=int, default=table3.RECIPE['steps'])
    parser.add_argument('--device', default='auto')
    parser.add_argument('--out', type=Path, default=OUT)
    args = parser.parse_args(argv)
    recipe, device = table3.RECIPE | {'steps': args.steps, 'lr_factor': [*RATES]}, default_device(args.device)
    results = resumed(args.out, {'command': 'python benchmarks/averaging.py', 'recipe': recipe,
                                 'machine': machine(device), 'torch': torch.__version__, 'cpu_minutes': 0., 'runs': []})
    runs, data = results['runs'], table3.prepare(recipe)

    def ensure(row, rate, seed):
        if any((run['row'], run['rate'], run['seed']) == (row, rate, seed) for run in runs): return
        runs.append({'rate': rate} | table3.one_run(row, seed, recipe | {'lr_factor': rate}, *data, args.device))
        results['cpu_minutes'] = round(sum(run['cpu_minutes'] for run in runs), 1)
        write(results, args.out)
        print({key: value for key, value in runs[-1].items() if key != 'signature'}, flush=True)

    for rate in RATES:
        for row in ROWS: ensure(row, rate, 0)
    for seed in range(1, args.seeds):
        for row in ROWS: ensure(row, best_rate(runs, row, 0), seed)


if __name__ == '__main__': main()
