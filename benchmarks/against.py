"""This tree beside another, both at work in one run: is a later commit slower, or does it need more memory?

    git worktree add /tmp/before COMMIT
    python benchmarks/against.py /tmp/before --json              # small and base, training and decoding, float32, int8
    python benchmarks/against.py /tmp/before --preset base --dtype bfloat16 --script train_speed

For every row each tree has a process of its own, with its own library; in a round each makes one repetition, in random
order. So a machine that is slow for a minute is slow for both. The ratio of a row is the median of its rounds', above 1
where this tree is faster. Peers are not measured. Method: benchmarks/README.md
"""
import json
import os
import random
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from itertools import islice, product
from pathlib import Path
from statistics import median
from time import perf_counter

ROOT = Path(__file__).parents[1]
VOCAB, BATCH_TOKENS, FIRST = 10_000, 4096, None


# A worker: this script started with `serve TREE TASK`

def repetition_of(task, stack):
    "One repetition of the tree's own benchmark, as a function."
    import torch
    if 'search' in task:
        from decode_speed import decoding
        return decoding(task, stack)
    from train_speed import training

    from transformer_nb.transformer import preset
    torch.manual_seed(7)
    return training({**task, 'cfg': asdict(preset(task['preset'], vocab_size=task['vocab']))}, torch.device('cpu'))


def serve(tree, task):
    "One repetition for every line that comes in; the answer is its seconds, and the peak of memory so far."
    sys.path[:0] = [tree, f'{tree}/benchmarks']  # before anything of this tree is imported
    from common import peak_memory
    with ExitStack() as stack:
        repetition = repetition_of(task, stack)
        repetition()  # warms up
        print('ready', flush=True)
        for _ in sys.stdin:
            start = perf_counter()
            repetition()
            print(perf_counter() - start, peak_memory(), flush=True)


@contextmanager
def worker(tree, task):
    "A function that lets a process of the tree make one repetition."
    command = [sys.executable, '-W', 'ignore', __file__, 'serve', str(tree), json.dumps(task)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        if process.stdout.readline() != 'ready\n': raise SystemExit(f'{tree}: cannot measure {task}')
        def repeat():
            process.stdin.write('once more\n')
            return tuple(map(float, process.stdout.readline().split()))
        yield repeat


# The driver

def rows(presets, dtypes, scripts, folder, threads):
    "What is measured: a name, and what a worker is told."
    import decode_speed
    common = {'vocab': VOCAB, 'device': 'cpu', 'threads': threads, 'streams': threads}
    for preset, dtype in product(presets, dtypes):
        task = {**common, 'preset': preset, 'dtype': dtype, 'folder': f'{folder}/{preset}'}
        if 'train_speed' in scripts:
            yield f'{preset}, {dtype}, training', {**task, 'name': 'ours', 'batch_tokens': BATCH_TOKENS, 'passes': 1}
        if 'decode_speed' not in scripts: continue
        for search, batch in product(decode_speed.SEARCHES, decode_speed.BATCHES):
            for name in decode_speed.names(batch, 'cpu', threads):
                if not name.startswith('ours') or 'int8' in name and dtype != 'float32': continue
                yield f'{preset}, {dtype}, {search}, {batch}, {name}', {
                    **task, 'search': search, 'batch': batch, 'name': name}


def compare(trees, task, rounds):
    "Seconds and memory of both trees, and the ratios."
    rng, found = random.Random(0), {which: [] for which in trees}
    with ExitStack() as stack:
        workers = {which: stack.enter_context(worker(tree, task)) for which, tree in trees.items()}
        for _ in range(rounds):
            for which in rng.sample([*workers], 2): found[which].append(workers[which]())
    seconds = {which: [s for s, _ in repetitions] for which, repetitions in found.items()}
    memory = {which: max(m for _, m in repetitions) for which, repetitions in found.items()}
    return {'seconds': seconds, 'memory': memory, 'memory_ratio': memory['now']/memory['before'],
            'speed': median(b/n for b, n in zip(seconds['before'], seconds['now']))}


def described(tree):
    told = subprocess.run(['git', '-C', tree, 'describe', '--always', '--dirty'], capture_output=True, text=True)
    return told.stdout.strip() or 'unknown'


def main():
    import decode_speed
    import torch
    from common import Experiment, head, machine

    from transformer_nb.transformer import preset
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
    head('before, s', 'now, s', 'speed, now ÷ before', 'memory, now ÷ before')
    with tempfile.TemporaryDirectory() as folder:
        for size in args.preset if 'decode_speed' in args.script else ():
            decode_speed.converted(asdict(preset(size, vocab_size=VOCAB)), 'relu', f'{folder}/{size}', False)
        for name, task in islice(rows(args.preset, args.dtype, args.script, folder, threads), FIRST):
            row = result['rows'][name] = compare(trees, task, args.rounds)
            before, now = (median(row['seconds'][which]) for which in ('before', 'now'))
            print(f"| {name} | {before:.3f} | {now:.3f} | {row['speed']:.3f} | {row['memory_ratio']:.3f} |", flush=True)
            experiment.keep(result, 'hardware', 'before', 'now', seeds=[7])


if __name__ == '__main__': serve(sys.argv[2], json.loads(sys.argv[3])) if sys.argv[1:2] == ['serve'] else main()
