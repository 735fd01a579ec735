"""A recurrent layer cannot use what a processor has more to give: one thread against several (paper §1, §4).

    python benchmarks/threads.py        # about a minute by the clock; best on an idle machine

Forward passes over one sequence of width 512, by self-attention and by a simple recurrent layer, with one thread and
with as many as there are cores (`--threads`). `product` is one matrix product, timed in the same way: what this
machine can gain at best. Times are by the clock, and other programs may be running: passes are short, both numbers of
threads take turns, and the fastest pass of each counts. `chain` is counted, not timed: matrix products that must wait
for one another. Writes results/threads.json, which nbs/further/second_thread.ipynb reads.
"""
import time

import torch
from common import Experiment, cores, cpu_name

from transformer_nb.core import keep_memory
from transformer_nb.experiments.why_self_attention import Recurrent, SelfAttention, longest_chain

D, LENGTHS, RUNS, LIMIT = 512, (8, 16, 32, 64), 300, 5   # at most so many runs, or so many seconds


def fastest(f, threads):
    "Seconds of the fastest run of `f` with each number of threads; they take turns."
    found, end = {str(t): [] for t in threads}, time.perf_counter() + LIMIT
    while time.perf_counter() < end and len(found['1']) <= RUNS:
        for t in threads:
            torch.set_num_threads(t)
            start = time.perf_counter()
            f()
            found[str(t)].append(time.perf_counter() - start)
    return {t: min(seconds[1:]) for t, seconds in found.items()}   # the first run of all warms up


@torch.no_grad()
def measure(threads):
    a = torch.randn(D//2, D//2)
    yield {'layer': 'product', 'seconds': fastest(lambda: a @ a, threads)}
    for name, layer in (('self-attention', SelfAttention(D)), ('recurrent', Recurrent(D))):
        for n in LENGTHS:
            x = torch.randn(1, n, D)
            with torch.enable_grad(): chain = longest_chain(layer(x))
            yield {'layer': name, 'n': n, 'chain': chain, 'seconds': fastest(lambda: layer(x), threads)}


def main():
    experiment = Experiment(__file__, __doc__)
    experiment.option('--threads', type=int, default=cores())
    args = experiment.begin()
    if args.tiny: globals().update(LENGTHS=(8,), RUNS=2)
    keep_memory()
    torch.manual_seed(0)
    recipe = {'machine': cpu_name(), 'threads': args.threads, 'd': D, 'torch': torch.__version__}
    rows = list(measure((1, args.threads)))
    experiment.save({'command': 'python benchmarks/threads.py', 'recipe': recipe, 'rows': rows})
    for row in rows: print(row)


if __name__ == '__main__': main()
