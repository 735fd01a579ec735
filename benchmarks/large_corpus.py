"""How a corpus of any size is prepared and trained on: a generated one, beside the same kind in memory.

    python benchmarks/large_corpus.py generate FOLDER --pairs 5_000_000   # about 1.6 GB of text
    python benchmarks/large_corpus.py prepare FOLDER                      # pairs a minute and core, peak memory
    python benchmarks/large_corpus.py train FOLDER                        # first step, peak memory, tokens/s, order

Words are drawn by Zipf's law from a made vocabulary, so text and lengths are like those of news; no sentence means
anything. `train` compares with 10,000 pairs (memory) and with the pairs of some shards in memory (tokens/s).
"""
import argparse
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil

WORDS, PART = 200_000, 10_000
MODEL = ['--preset', 'small', '--batch-tokens', '4096', '--device', 'cpu', '--threads', '1', '--seed', '1']


def made_words(n, seed):
    "Words of two to four syllables, none twice; the frequent ones are the short ones."
    rng, found = random.Random(seed), {}
    syllables = [a + b + c for a in 'bdfghklmnprstvwz' for b in ('a', 'e', 'i', 'o', 'u', 'ei', 'au') for c in ('', 'n', 'r', 's', 't')]
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
    "Runs a command; the most memory that it and its processes used together, and when a line first appeared on stderr."
    def __init__(self, command, marker=None):
        self.began, self.peak, self.peak_own, self.marked, self.lines = time.perf_counter(), 0, 0, None, []
        self.process = subprocess.Popen([sys.executable, '-c', command[0], *command[1:]], stderr=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            if marker and marker in line and not self.marked: self.marked = time.perf_counter() - self.began
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
    run = Watch([PREPARE, 'prepare', str(folder), '--out', str(folder/'shards'), '--vocab-size', '32000',
                 '--workers', str(workers)])
    print(*run.lines[-1:], sep='\n')
    assert run.status == 0
    return {'pairs': n_pairs, 'workers': workers, 'seconds': round(run.seconds, 1),
            'pairs_per_minute_and_core': round(n_pairs/run.seconds*60/workers), 'peak_gib': round(run.peak/2**30, 2)}
