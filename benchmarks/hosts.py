"""What several hosts exchange, and what they gain: bytes and seconds, beside the formula. And how long it takes until a
run goes on after one of them was lost.

    sudo .venv/bin/python benchmarks/hosts.py exchange --json          # 3 minutes, 3 GB of memory
    sudo .venv/bin/python benchmarks/hosts.py exchange --hosts 2 --models tiny --rounds 1   # a minute
    sudo .venv/bin/python benchmarks/hosts.py lost --json              # 20 minutes, most of it silence

The hosts are network namespaces on one machine (`tests/hosts.py`); `tc` limits their cables in both directions.
Each has one process with one thread. The same processes measure everything, in turns, so that noise meets all alike;
shown is the median turn.
`exchange`: one all-reduce of a model's gradient, and the gradients of a step of the small model, shared out among the
hosts. Bytes are counted by the network card of each host: what it has sent.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

import psutil
import render
from common import ROOT, Experiment, cpu_name, rounded
from workers import random_ids

sys.path.insert(0, str(ROOT/'tests'))
from hosts import Host, Hosts, Run, run, why_not

RATES = {'none': None, '10 Gbit/s': 10, '1 Gbit/s': 1}
MODELS = {'tiny': 1000, 'small': 10_000, 'base': 37_000}  # with their vocabularies
MICRO_BATCHES = 2, 4, 8                                   # per step, over all hosts
PAIRS, LENGTH = 16, 20                                    # of a micro-batch: 336 target tokens with EOS


# On each host: one process on one core that waits for orders

class Worker:
    "Computes, exchanges, or both, with the first n hosts; each method returns its seconds."
    def __init__(self, rank, size):
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group('gloo', rank=rank, world_size=size)
        self.dist, self.torch, self.rank = dist, torch, rank
        self.groups = {n: dist.new_group(range(n)) for n in range(1, size + 1)}
        self.gradients = {name: torch.ones(size//4) for name, size in gradient_bytes().items()}
        self.batch, self.nets = self.micro_batch(), {}

    def micro_batch(self):
        from transformer_nb.data.batching import make_batch
        rng, vocab = random.Random(0), MODELS['small']
        return make_batch([(random_ids(LENGTH, vocab, rng), random_ids(LENGTH, vocab, rng)) for _ in range(PAIRS)])

    def net(self, n):
        "The small model, for n hosts; alone it is a module that exchanges nothing."
        from torch.nn.parallel import DistributedDataParallel

        from transformer_nb.train.trainer import Objective, with_fast_parts
        from transformer_nb.transformer import Transformer, preset
        if n not in self.nets:
            net = Objective(with_fast_parts(Transformer(preset('small', vocab_size=MODELS['small']))))
            self.nets[n] = DistributedDataParallel(net, process_group=self.groups[n]) if n > 1 else net
        return self.nets[n]

    def timed(self, n, work):
        self.dist.barrier(self.groups[n])
        start = perf_counter()
        work()
        return perf_counter() - start

    def exchange(self, n, model):
        "One all-reduce of a model's gradient."
        gradient = self.gradients[model]
        return self.timed(n, lambda: self.dist.all_reduce(gradient, group=self.groups[n]))

    def step(self, n, total, exchange=True):
        "The gradients of a step of `total` micro-batches, of which each host has its share."
        net = self.net(n)
        def work():
            net.zero_grad()
            for i in range(total//n):
                net.require_backward_grad_sync = exchange and i == total//n - 1
                net(self.batch)[0].backward()
        return self.timed(n, work)

    def computing(self, n, total):
        "A step without its exchange."
        return self.step(n, total, exchange=False)

    def obey(self):
        print('ready', flush=True)
        for line in sys.stdin:
            name, *about = json.loads(line)
            print(getattr(self, name)(*about), flush=True)


# Outside: who gives the orders, and reads the counters

class Office:
    def __init__(self, hosts):
        self.hosts = hosts
        common = {'MASTER_ADDR': hosts[0].address, 'MASTER_PORT': '29500'}
        self.workers = [
            host.start(sys.executable, __file__, 'exchange', '--worker', rank, '--hosts', len(hosts), environ=common,
                text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for rank, host in enumerate(hosts)
        ]
        for worker in self.workers: assert worker.stdout.readline() == 'ready\n'

    def order(self, name, n, about):
        "Seconds of the slowest of n hosts, and the bytes that each has sent."
        before = [host.sent() for host in self.hosts[:n]]
        for worker in self.workers[:n]: print(json.dumps([name, n, about]), file=worker.stdin, flush=True)
        seconds = max(float(worker.stdout.readline()) for worker in self.workers[:n])
        return seconds, [host.sent() - earlier for host, earlier in zip(self.hosts, before)]

    def close(self):
        for worker in self.workers: worker.stdin.close()
        for worker in self.workers: worker.wait()


def orders(most, models):
    "What is measured in a round, under each rate: (order, number of hosts, what about)."
    exchanges = [('exchange', n, model) for model in models for n in range(2, most + 1)]
    together = 1, 2  # more hosts than the cores of a small machine cannot compute at the same time
    steps = [('step', n, total) for n in together for total in MICRO_BATCHES]
    return exchanges + steps + [('computing', 2, total) for total in MICRO_BATCHES]


def measure(args):
    found = {}
    with Hosts(args.hosts) as (front, *hosts):
        office = Office(hosts)
        for turn in range(args.rounds + 1):  # the first one makes connections and is forgotten
            for rate, limit in RATES.items():
                for host in hosts: host.limit(limit)
                for name, n, about in orders(args.hosts, args.models):
                    if limit and (n == 1 or name == 'computing'): continue  # nothing passes the cable
                    seconds, sent = office.order(name, n, about)
                    if turn: found.setdefault((name, n, about, rate), []).append((seconds, sent))
            print(f'round {turn} of {args.rounds}', file=sys.stderr)
        office.close()
    return found


def rows_of(found):
    "One row an order and a rate, with every repetition."
    about = {'exchange': 'model', 'step': 'micro_batches', 'computing': 'micro_batches'}
    return {
        'machine': f'{cpu_name()}, {os.cpu_count()} cores, one thread a host', 'torch': version('torch'),
        'gradient_bytes': gradient_bytes(),
        **{
            name: [
                {'hosts': n, about[name]: what, 'rate': rate, 'seconds': [seconds for seconds, _ in turns],
                 'sent_by_each': median(sum(sent)/n for _, sent in turns)}
                for (order, n, what, rate), turns in found.items() if order == name
            ]
            for name in about
        },
    }


def gradient_bytes():
    from transformer_nb.train.costs import n_weights
    from transformer_nb.transformer import preset
    return {name: 4*n_weights(preset(name, vocab_size=vocab)) for name, vocab in MODELS.items()}


# A host is lost

LOSSES = {  # how rank 0's host goes, who comes for it, and how often TCP asks again (Linux's setting `tcp_retries2`)
    'killed, replaced': (Host.kill, 'same', 15),
    'silent, replaced under its address': (Host.lose, 'same', 15),
    'silent, replaced by another': (Host.lose, 'other', 15),
    'silent, nobody comes, tcp_retries2 5': (Host.lose, None, 5),
    'silent, nobody comes, tcp_retries2 15': (Host.lose, None, 15),
}


def lose(how, comes, retries):
    "Seconds until the other host's process has ended, and until the next step of the run."
    script = ROOT/'tests'/'train_together.py'
    with Hosts(3) as (front, *hosts), tempfile.TemporaryDirectory() as folder:
        for host in hosts: run(*host.command('sysctl', '-w', f'net.ipv4.tcp_retries2={retries}'))
        out = Path(folder)/'run'
        held = out.with_name('hold')
        held.touch()
        both = Run(front, out, [script, out, 20, '--auto', '--hold', 6])
        for host in hosts[:2]: both.begin(host)
        both.wait_for_step(6)
        waiting = psutil.Process(both.agents[hosts[1]].pid).children()[0]
        done, start = (out/'metrics.jsonl').stat().st_size, perf_counter()
        how(hosts[0])
        held.unlink()
        if comes == 'same': hosts[0].plug_in()
        if comes: both.begin(hosts[0 if comes == 'same' else 2])
        noticed = goes_on = None
        while not (noticed and (goes_on or not comes)):
            since = perf_counter() - start
            if not noticed and (not waiting.is_running() or waiting.status() == 'zombie'): noticed = since
            if noticed and not goes_on and (out/'metrics.jsonl').stat().st_size > done: goes_on = since
            sleep(.01)
    return {'noticed_s': noticed, 'goes_on_s': goes_on}


def main():
    experiment = Experiment(__file__, __doc__, asked=True)
    option = experiment.option
    option('what', choices=('exchange', 'lost'))
    option('--hosts', type=int, default=4, help='The most hosts that exchange')
    option('--models', nargs='+', default=list(MODELS), choices=MODELS)
    option('--rounds', type=int, default=3)
    option('--worker', type=int, help=argparse.SUPPRESS)  # what runs on a host: its number
    args = experiment.begin(hosts=2, models=['tiny'], rounds=1)
    if args.worker is not None: return Worker(args.worker, args.hosts).obey()
    if reason := why_not(): sys.exit(f'hosts.py: {reason}')
    if args.what == 'exchange':
        results = rows_of(measure(args))
        print(*(render.exchange(results, model) for model in args.models), render.shared_step(results), sep='\n\n')
    else:
        results = {'lost': {}}
        for name, case in list(LOSSES.items())[:1 if args.tiny else None]:
            results['lost'][name] = lose(*case)
        print(render.lost(results))
    if not experiment.file: return
    before = experiment.resumed({}, recipe=())
    experiment.save(rounded(before | results))


if __name__ == '__main__': main()
