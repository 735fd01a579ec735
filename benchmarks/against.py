"""This tree beside another, both at work in one run: is a later commit slower, or does it need more memory?

    git worktree add /tmp/before COMMIT
    python benchmarks/against.py /tmp/before --json              # small and base, training and decoding, float32, int8
    python benchmarks/against.py /tmp/before --preset base --dtype bfloat16 --script train_speed

For every row each tree has a process of its own, with its own library; in a round each makes one repetition, in random
order. So a machine that is slow for a minute is slow for both. The ratio of a row is the median of its rounds', above 1
where this tree is faster. Peers are not measured. Method: benchmarks/README.md
"""
import os
import subprocess
import tempfile
from dataclasses import asdict
from itertools import islice, product
from pathlib import Path
from statistics import median

import torch
from common import ROOT, Experiment, machine
from workers import interleaved

import decode_speed
from transformer_nb.transformer import preset

VOCAB, BATCH_TOKENS, FIRST = 10_000, 4096, None


def rows(presets, dtypes, scripts, folder, threads):
    "What is measured: a name, the script, and what its worker is told."
    common = {'vocab': VOCAB, 'device': 'cpu', 'threads': threads, 'streams': threads}
    for size, dtype in product(presets, dtypes):
        cfg = asdict(preset(size, vocab_size=VOCAB))
        task = {**common, 'preset': size, 'dtype': dtype, 'folder': f'{folder}/{size}'}
        if 'train_speed' in scripts:
            yield f'{size}, {dtype}, training', 'train_speed', {
                **task, 'name': 'ours', 'cfg': cfg, 'batch_tokens': BATCH_TOKENS, 'passes': 1}
        if 'decode_speed' not in scripts: continue
        for search, batch in product(decode_speed.SEARCHES, decode_speed.BATCHES):
            for name in decode_speed.names(batch, 'cpu', threads):
                if not name.startswith('ours') or 'int8' in name and dtype != 'float32': continue
                yield f'{size}, {dtype}, {search}, {batch}, {name}', 'decode_speed', {
                    **task, 'search': search, 'batch': batch, 'name': name}


def compare(trees, script, task, rounds):
    "Seconds and memory of both trees, and the ratios; each works with its own library and its own script."
    found = interleaved({which: (tree/'benchmarks'/f'{script}.py', task) for which, tree in trees.items()}, rounds)
    if len(found) < len(trees): raise SystemExit(f'cannot measure {task}')
    seconds = {which: [r['seconds'] for r in repetitions] for which, repetitions in found.items()}
    memory = {which: max(r['memory'] for r in repetitions) for which, repetitions in found.items()}
    return {'seconds': seconds, 'memory': memory, 'memory_ratio': memory['now']/memory['before'],
            'speed': median(b/n for b, n in zip(seconds['before'], seconds['now']))}


def described(tree):
    told = subprocess.run(['git', '-C', tree, 'describe', '--always', '--dirty'], capture_output=True, text=True)
    return told.stdout.strip() or 'unknown'


def main():
    experiment = Experiment(__file__, __doc__, asked=True)
    option = experiment.option
    option('other', type=Path, help='a checkout of the other commit')
    option('--preset', nargs='+', choices=('tiny', 'small', 'base', 'big'), default=('small', 'base'))
    option('--dtype', nargs='+', choices=('float32', 'bfloat16'), default=('float32',))
    option('--script', nargs='+', choices=('train_speed', 'decode_speed'), default=('train_speed', 'decode_speed'))
    option('--rounds', type=int, default=8)
    args = experiment.begin(preset=['tiny'], rounds=1)
    if args.tiny: globals().update(VOCAB=200, BATCH_TOKENS=256, FIRST=2)
    trees, threads = {'before': args.other.resolve(), 'now': ROOT}, torch.get_num_threads()
    os.environ |= {'OMP_NUM_THREADS': str(threads), 'HF_HUB_OFFLINE': '1', 'TRANSFORMERS_VERBOSITY': 'error'}
    result = {'command': experiment.facts['command'], 'torch': torch.__version__,
              'hardware': machine(torch.device('cpu')), 'before': described(trees['before']), 'now': described(ROOT),
              'rows': {}}
    with tempfile.TemporaryDirectory() as folder:
        for size in args.preset if 'decode_speed' in args.script else ():
            decode_speed.converted(asdict(preset(size, vocab_size=VOCAB)), 'relu', f'{folder}/{size}', False)
        for name, script, task in islice(rows(args.preset, args.dtype, args.script, folder, threads), FIRST):
            row = result['rows'][name] = compare(trees, script, task, args.rounds)
            print(f"{name}: {row['speed']:.3f} times as fast, {row['memory_ratio']:.3f} of the memory", flush=True)
            experiment.keep(result, 'hardware', 'before', 'now', seeds=[7])


if __name__ == '__main__': main()
