"""This tree beside another, in turns, in one run: is a later commit slower, or does it need more memory?

    git worktree add /tmp/before COMMIT
    python benchmarks/against.py /tmp/before --json              # small and base, training and decoding, float32, int8
    python benchmarks/against.py /tmp/before --preset base --dtype bfloat16

Each round starts train_speed.py and decode_speed.py of both trees, in random order, each with its own library
beside it, and keeps every repetition. A row is a preset with what is measured; its ratio is that of the medians,
above 1 where this tree is faster. Peers are not measured. Method: benchmarks/README.md
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from common import calm, keep, machine

HERE = Path(__file__).parents[1]
SCRIPTS = {'train_speed': ['--rounds', '1'], 'decode_speed': ['--repetitions', '2']}


def measured(tree, script, options):
    "The results that a tree's own script writes."
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder)/'found.json'
        command = [sys.executable, tree/'benchmarks'/f'{script}.py', '--only', '', *options, '--json', file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, 'PYTHONPATH': str(tree)})
        return list(json.loads(file.read_text()).values())


def rows(script, preset, results):
    "Each repetition, with what it is a repetition of, as (name, seconds, bytes, cores of others)."
    for result in results:
        of = f"{result['search']}, {result['batch']}" if script == 'decode_speed' else 'training'
        for name, row in result['rows'].items():
            for r in row['repetitions']:
                yield f"{preset}, {result['dtype']}, {of}, {name}", {**r, 'memory': row['memory']}


def collect(trees, jobs, rounds):
    "For every row and tree its repetitions: in each round all jobs of both trees, in random order."
    rng, found = random.Random(0), {}
    for i in range(rounds):
        for script, preset, dtype in jobs:
            for which in rng.sample(list(trees), len(trees)):
                options = ['--preset', preset, '--dtype', dtype, *SCRIPTS[script]]
                for name, r in rows(script, preset, measured(trees[which], script, options)):
                    found.setdefault(name, {}).setdefault(which, []).append(r)
            print(f'round {i + 1} of {rounds}: {script}, {preset}, {dtype}', file=sys.stderr)
    return found


def compared(both):
    "The medians of the calm repetitions of both trees, and their ratios."
    seconds, memory = {}, {}
    for which, repetitions in both.items():
        seconds[which] = median(r['seconds'] for r in calm(repetitions))
        memory[which] = median(r['memory'] for r in repetitions)
    return {'seconds': seconds, 'memory': memory, 'speed': seconds['before']/seconds['now'],
            'memory_ratio': memory['now']/memory['before'], 'repetitions': both}


def commit(tree):
    told = subprocess.run(['git', '-C', tree, 'describe', '--always', '--dirty'], capture_output=True, text=True)
    return told.stdout.strip() or 'unknown'


def main():
    import torch
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option = parser.add_argument
    option('other', type=Path, help='a checkout of the other commit')
    option('--preset', nargs='+', choices=('small', 'base', 'big'), default=('small', 'base'))
    option('--dtype', nargs='+', choices=('float32', 'bfloat16'), default=('float32',))
    option('--script', nargs='+', choices=list(SCRIPTS), default=list(SCRIPTS))
    option('--rounds', type=int, default=4)
    option('--json', nargs='?', const=HERE/'benchmarks'/'results'/'against.json', type=Path, metavar='FILE')
    args = parser.parse_args()
    trees = {'before': args.other.resolve(), 'now': HERE}
    jobs = [(script, preset, dtype) for script in args.script for preset in args.preset for dtype in args.dtype]
    found = collect(trees, jobs, args.rounds)
    result = {'command': ' '.join(['python benchmarks/against.py', *sys.argv[1:]]), 'torch': torch.__version__,
              'hardware': machine(torch.device('cpu')), 'before': commit(trees['before']), 'now': commit(HERE),
              'rows': {name: compared(both) for name, both in found.items()}}
    print('| | before, s | now, s | speed, now ÷ before | memory, now ÷ before |', '|---|---|---|---|---|', sep='\n')
    for name, row in result['rows'].items():
        print(f"| {name} | {row['seconds']['before']:.3f} | {row['seconds']['now']:.3f} "
              f"| {row['speed']:.3f} | {row['memory_ratio']:.3f} |")
    if args.json: keep(result, args.json, ('hardware', 'before', 'now'))


if __name__ == '__main__': main()
