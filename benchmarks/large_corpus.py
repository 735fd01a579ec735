"""How a corpus of any size is prepared and trained on: a generated one, beside the same kind in memory.

    python benchmarks/large_corpus.py generate FOLDER --pairs 5_000_000   # about 1.6 GB of text
    python benchmarks/large_corpus.py prepare FOLDER                        # pairs a minute and core, peak memory
    python benchmarks/large_corpus.py train FOLDER                          # first step, memory; and of 10,000 pairs
    python benchmarks/large_corpus.py speed FOLDER                          # tokens/s, beside the same pairs in memory
    python benchmarks/large_corpus.py order FOLDER                          # every pair once an epoch, the same again

Words are drawn by Zipf's law from a made vocabulary, so text and lengths are like those of news; no sentence means
anything. `train` compares with 10,000 pairs (memory) and with the pairs of some shards in memory (tokens/s).
"""
import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice, product
from pathlib import Path

import numpy as np
import psutil
import torch
from common import Experiment, cpu_name

WORDS, PART, VOCAB, FEW = 200_000, 10_000, '32000', 10_000
MODEL = ['--preset', 'tiny', '--batch-tokens', '4096', '--device', 'cpu', '--threads', '1', '--seed', '1']


def made_words(n, seed):
    "Words of two to four syllables, none twice; the frequent ones are the short ones."
    rng, found = random.Random(seed), {}
    syllables = [''.join(part) for part in product('bdfghklmnprstvwz', 'a e i o u ei au'.split(), ('', *'nrst'))]
    while len(found) < n: found[''.join(rng.choices(syllables, k=1 + rng.choice((1, 1, 2, 2, 3))))] = None
    return np.array(sorted(found, key=len))


def generate(folder, n_pairs, seed=0):
    "train.en and train.de: a target has its source's words in another language, in nearly the same order."
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    sides = made_words(WORDS, seed), made_words(WORDS, seed + 1)
    chances = 1/(np.arange(WORDS) + 2.7)
    steps = np.cumsum(chances/chances.sum())
    with open(folder/'train.en', 'w') as en, open(folder/'train.de', 'w') as de:
        for _ in range(0, n_pairs, PART):
            lengths = np.clip(np.round(rng.lognormal(np.log(20) - .18, .6, PART)), 2, 90).astype(int)
            ids = np.minimum(np.searchsorted(steps, rng.random(lengths.sum())), WORDS - 1)
            for file, words in zip((en, de), sides):
                ends = np.cumsum(lengths)[:-1]
                file.writelines(' '.join(part) + ' .\n' for part in np.split(words[ids], ends))


class Watch:
    "Runs a command; the most memory that it and its processes used together, its time, its lines on stderr."
    def __init__(self, command):
        self.began, self.peak, self.lines = time.perf_counter(), 0, []
        self.process = subprocess.Popen([sys.executable, '-c', *command], stderr=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        self.lines = [line.rstrip() for line in self.process.stderr]
        self.status = self.process.wait()
        self.seconds = time.perf_counter() - self.began

    def watch(self):
        while self.process.poll() is None:
            try: self.peak = max(self.peak, sum(map(proportional, family(self.process.pid))))
            except psutil.Error: pass
            time.sleep(.2)


def family(pid):
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def proportional(process):
    "Bytes in memory; pages shared with other processes count in part."
    try: return process.memory_full_info().pss
    except psutil.NoSuchProcess: return 0


PREPARE = 'from transformer_nb.cli import data_command; data_command()'


def prepare(folder, workers):
    n_pairs = int(subprocess.check_output(['wc', '-l', folder/'train.en']).split()[0])
    run = Watch([PREPARE, 'prepare', str(folder), '--out', str(folder/'shards'), '--vocab-size', VOCAB,
                 '--workers', str(workers)])
    print(*run.lines[-1:], sep='\n')
    assert run.status == 0
    return {'pairs': n_pairs, 'workers': workers, 'seconds': round(run.seconds, 1),
            'pairs_per_minute_and_core': round(n_pairs/run.seconds*60/workers), 'peak_gib': round(run.peak/2**30, 2)}


TRAIN = """
import sys, time
began = float(sys.argv.pop(1))
from transformer_nb.train.trainer import Trainer
step = Trainer.train_step
def told(self, batch):
    loss = step(self, batch)
    if self.step == 1: print('first step after', time.time() - began, file=sys.stderr, flush=True)
    return loss
Trainer.train_step = told
from transformer_nb.cli import train_command
train_command()
peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))
print('largest', peak, file=sys.stderr)
"""


def trained(data, out, steps):
    "One run: seconds to its first step, peak memory of its process (pages of mapped files included)."
    run = Watch([TRAIN, str(time.time()), '--data', str(data), '--out', str(out), '--steps', str(steps),
                 '--save-every', str(steps), *MODEL])
    assert run.status == 0, run.lines
    first, largest = (float(re.search(f'{what} ([0-9.]+)', '\n'.join(run.lines))[1]) for what in ('after', 'largest'))
    return {'first_step_s': round(first, 1), 'peak_gib': round(largest/2**20, 3),
            'peak_with_shares_gib': round(run.peak/2**30, 3)}


def few(folder, n_pairs):
    "The first pairs of the corpus, prepared with a vocabulary of the same size."
    out = folder/f'first-{n_pairs}'
    if (out/'shards').exists(): return out/'shards'
    out.mkdir(exist_ok=True)
    for name in ('train.en', 'train.de'):
        with open(folder/name) as file, open(out/name, 'w') as copy:
            copy.writelines(islice(file, n_pairs))
    command = [PREPARE, 'prepare', out, '--out', out/'shards', '--vocab-size', VOCAB]
    subprocess.run([sys.executable, '-c', *command], check=True)
    return out/'shards'


def train(folder, steps):
    "Shards of the whole corpus beside 10,000 pairs: the time to the first step, and the memory."
    with tempfile.TemporaryDirectory() as runs:
        return {name: trained(data, Path(runs)/name, steps) for name, data in (
            ('all pairs', folder/'shards'), ('10,000 pairs', few(folder, FEW)))}


def speed(folder, rounds):
    """The same batches from disk and from memory, in turns of one step of one model: their tokens per second, and the
    ratio of the two, the median over all batches. Other programs slow down both."""
    from transformer_nb.data.batching import Batches, IdPairs, prefetch
    from transformer_nb.data.shards import Shards
    from transformer_nb.train.trainer import Trainer, TrainingConfig
    from transformer_nb.transformer import Transformer, preset
    torch.set_num_threads(1)
    shards = Shards(folder/'shards')
    lengths = np.concatenate([[0], shards.lengths.ravel()])
    memory = IdPairs(np.concatenate([part.ids for part in shards.parts]), np.cumsum(lengths))
    stores = {'shards': shards, 'memory': memory}
    cfg = TrainingConfig(steps=10**6, batch_tokens=4096, device='cpu', seed=1)
    trainer = Trainer(Transformer(preset('tiny', vocab_size=int(VOCAB))), train=memory, cfg=cfg, out='unused')
    streams = {name: prefetch(Batches(store, 4096, 1).stream()) for name, store in stores.items()}
    rates = {name: [] for name in streams}
    for turn in range(rounds + 1):
        for name in sorted(streams, reverse=turn % 2):
            began = time.perf_counter()
            step = next(streams[name])
            trainer.train_step(step)
            rates[name].append(step.n_tokens/(time.perf_counter() - began))
    shards, memory = (np.array(rates[name][1:]) for name in ('shards', 'memory'))
    return {'tokens_per_s': round(float(np.median(shards))), 'of_memory': round(float(np.median(shards/memory)), 3)}


def order(folder, epochs=2):
    "Does every pair come once an epoch, and does a stream that begins later go on with the same steps?"
    from transformer_nb.data.batching import Batches
    from transformer_nb.data.shards import Shards
    shards = Shards(folder/'shards')
    batches = Batches(shards, 25_000, seed=1)
    for e in range(epochs):
        seen = np.zeros(len(shards), np.int32)
        for batch in batches.epoch(e): seen[batch] += 1
        assert (seen == 1).all()
    start = max(0, batches.n_batches - 20)  # over the seam of two epochs
    one, other = batches.stream(start), Batches(shards, 25_000, seed=1).stream(start + 15)
    for a, b in zip(islice(one, 15, 40), other): assert a.batches[0].src.equal(b.batches[0].src)
    pairs = [shards[i] for i in next(batches.micro_batches())[1]]
    real = sum(len(side) + 1 for pair in pairs for side in pair)
    return {'pairs': len(shards), 'batches': batches.n_batches, 'tokens_in_first': real}


PARTS = {
    'generate': lambda args: generate(args.folder, args.pairs),
    'prepare': lambda args: prepare(args.folder, args.workers),
    'train': lambda args: train(args.folder, args.steps),
    'speed': lambda args: speed(args.folder, args.steps),
    'order': lambda args: order(args.folder)}


def main():
    from transformer_nb.data.shards import Shards
    experiment = Experiment(__file__, __doc__, asked=True)
    experiment.option('what', choices=PARTS)
    experiment.option('folder', type=Path)
    experiment.option('--pairs', type=int, default=5_000_000)
    experiment.option('--workers', type=int, default=2)
    experiment.option('--steps', type=int, default=60)
    args = experiment.begin(pairs=4000, workers=1, steps=2)
    if args.tiny: globals().update(WORDS=2000, PART=1000, VOCAB='600', FEW=1000)
    found = PARTS[args.what](args)
    print(json.dumps(found, indent=1))
    if found: experiment.keep({'what': args.what, 'found': found, 'on': cpu_name()}, 'what',
                              corpus=Shards(args.folder/'shards').digest)


if __name__ == '__main__': main()
