"""How fast the three models of Table 2 compute: on one core, on two, on a GPU (paper §1, §4: "more parallelizable").

    python benchmarks/parallel.py                  # one thread and two
    python benchmarks/parallel.py --device cuda    # a GPU

The models of table2.py train on sentences of random tokens, each as long as the others: short ones (10 tokens a side),
and long ones (50). In a round each model makes some steps, in random order. Writes results/parallel.json: FLOPs of the
matrix products a second, by machine, threads and length.
"""
import random
import time
from statistics import median

import torch

from common import Experiment, cpu_name
from train_speed import synchronize
from transformer_nb.data.batching import make_batch
from transformer_nb.experiments.table2 import MODELS, build_model, step_flops
from transformer_nb.optimizer import adam
from transformer_nb.train.trainer import batch_loss, with_fast_parts

VOCAB, LENGTHS = 1000, (10, 50)


def training(name, length, tokens, device):
    "A function that makes a step on the same batch; and its FLOPs."
    torch.manual_seed(0)
    rng = random.Random(0)
    sentence = lambda: [rng.randrange(4, VOCAB) for _ in range(length)]
    model = with_fast_parts(build_model(name, vocab_size=VOCAB).to(device).train())  # as the race does
    batch = make_batch([(sentence(), sentence()) for _ in range(tokens//length)])
    flops, batch, optimizer = step_flops(model, batch), batch.to(device), adam(model)
    def step():
        optimizer.zero_grad()
        batch_loss(model, batch)[0].backward()
        optimizer.step()
    return step, flops


def seconds_of(step, times, device):
    "Of one step: the mean of several in a row."
    synchronize(device)
    start = time.perf_counter()
    for _ in range(times): step()
    synchronize(device)
    return (time.perf_counter() - start)/times


def measured(device, tokens, times, rounds):
    "FLOP/s of each model and length: the median of the rounds, with all of them."
    works = {(name, length): training(name, length, tokens, device) for name in MODELS for length in LENGTHS}
    for step, _ in works.values(): step()  # warms up
    speeds = {work: [] for work in works}
    for _ in range(rounds):
        for work in random.sample(list(works), len(works)):
            step, flops = works[work]
            speeds[work].append(flops/seconds_of(step, times, device))
    return [{'model': name, 'length': length, 'flops_per_second': median(found), 'rounds': found}
            for (name, length), found in speeds.items()]


def main():
    experiment = Experiment(__file__, __doc__)
    option = experiment.option
    option('--device', default='cpu', help='cpu or cuda (cpu)')
    option('--tokens', type=int, nargs='+', help='of a side in a batch (512; on a GPU 512 and 25000)')
    option('--rounds', type=int, default=5, help='(5)')
    args = experiment.begin(tokens=[100], rounds=1)
    device = torch.device(args.device)
    gpu = device.type == 'cuda'
    times = 1 if args.tiny else 20 if gpu else 5
    for threads in [1] if gpu else [1, 2]:
        torch.set_num_threads(threads)
        for tokens in args.tokens or ([512, 25_000] if gpu else [512]):
            experiment.keep({'machine': torch.cuda.get_device_name() if gpu else cpu_name(), 'threads': threads,
                             'tokens': tokens, 'rows': measured(device, tokens, times, args.rounds)},
                            'machine', 'threads', 'tokens')


if __name__ == '__main__': main()
