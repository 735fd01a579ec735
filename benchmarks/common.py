"""What the benchmarks share: options, results in a file with what they were measured by, the machine.

Nothing is imported here that a benchmark measures: it would count as everybody's memory.
"""
import argparse
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT/'benchmarks'/'results'
LIBRARIES, PEERS = ('torch', 'sentencepiece', 'numpy', 'sacrebleu'), ('transformers', 'ctranslate2')
INSTRUCTIONS = ('avx avx2 fma f16c avx512f avx512bw avx512_vnni avx_vnni avx512_bf16 amx_tile amx_int8 amx_bf16 '
                'asimd bf16 i8mm sve').split()


# An experiment

class Experiment:
    """One start of a script: its options (`args`), its file of results, and `about`: what they were measured by.

    `script` and `doc` are the script's __file__ and __doc__. It writes into results/NAME.json or --out FILE; if it is
    `asked` first, only with --json. With --tiny it writes elsewhere: those are no results.
    """
    def __init__(self, script, doc, asked=False):
        self.name, self.began, self.goes_on = Path(script).stem, both_clocks(), None
        self.peers = ()  # what workers alone import
        self.parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.option, file = self.parser.add_argument, RESULTS/f'{self.name}.json'
        if asked: self.option('--json', dest='file', nargs='?', const=file, type=Path, metavar='FILE',
                              help=f'keep the results, in FILE (benchmarks/results/{file.name})')
        else: self.option('--out', dest='file', default=file, type=Path, metavar='FILE',
                          help=f'file of the results (benchmarks/results/{file.name})')
        self.option('--tiny', action='store_true', help='the smallest work that runs through all of the code')

    def begin(self, argv=None, **tiny):
        "The options as typed; with --tiny those in `tiny` have other defaults."
        typed = sys.argv[1:] if argv is None else argv
        self.args = self.parser.parse_args(typed)
        if self.args.tiny:
            self.parser.set_defaults(**tiny)
            self.args = self.parser.parse_args(typed)
        self.file = self.args.file
        if self.args.tiny and (self.file is None or self.file.resolve().parent == RESULTS):
            self.file = Path(tempfile.mkdtemp(), f'{self.name}.json')
            print(f'--tiny: {self.file}', file=sys.stderr)
        self.facts = {
            'command': shlex.join(['python', f'benchmarks/{self.name}.py', *typed]),
            'date': time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime()),
            'commit': commit(), 'seeds': seeds(self.args)}
        return self.args

    @property
    def about(self):
        "What results are measured by: the command as typed, commit, versions, processor, seeds; `facts` may have more."
        return self.facts | circumstances(self.peers)

    def minutes(self):
        "Since the start: by the clock, and of computing."
        return minutes_since(self.began, 1)

    def where(self, device=None):
        "Command without its options, machine and torch, as every file of results has them."
        import torch
        return {'command': f'python benchmarks/{self.name}.py', 'machine': machine(device or torch.device('cpu')),
                'torch': torch.__version__}

    def keep(self, result, *keys, **facts):
        "Write a run into the file, beside those that differ in one of the `keys`; `facts` are of this run alone."
        if not self.file: return
        results = json.loads(self.file.read_text(encoding='utf-8')) if self.file.exists() else {}
        results[', '.join(str(result[key]) for key in keys)] = result | {'about': self.about | facts}
        write(results, self.file)

    def save(self, results):
        "Write the file as a whole; `continued` says by what a run was measured that a later start has added."
        mine = self.about
        if not self.goes_on: signed = {'about': mine}
        else: signed = {'continued': [*(a for a in results.get('continued', ()) if a['date'] != mine['date']), mine]}
        if self.file: write(results | signed, self.file)

    def resumed(self, new, recipe=('recipe',), growing=True):
        """What is in the file already, or `new` where there is none; a file of another recipe is not added to. One that
        does not grow is gone on with only while it lacks runs (`left`): once whole, the next start makes it anew."""
        old = json.loads(self.file.read_text(encoding='utf-8')) if self.file.exists() else {}
        kept = old and (growing or 'left' in old)
        if self.goes_on is None: self.goes_on = bool(kept)
        if not kept: return new
        for key, wanted in json.loads(json.dumps({key: new[key] for key in recipe})).items():
            if old.get(key) == wanted: continue
            raise SystemExit(f'{self.file}: made with another {key}, {old.get(key)}; delete it, or give another --out')
        return old

    def grid(self, recipe, jobs, make, summary=lambda runs: {}, growing=False, device=None, at_once=1, into='runs'):
        """The runs of a grid: `make(**job)` for each job, a dict of what tells it from the others. The file has the
        `recipe`, the `summary` of all runs, and the runs, a list under the name `into`; it is written after each.
        Started again after an interruption, a script goes on with what is missing. Jobs may run `at_once`, each with
        one thread."""
        if at_once > 1: one_thread()
        results = self.resumed({**self.where(device), **recipe, 'minutes': 0., 'cpu_minutes': 0.}, recipe, growing)
        runs, before = results.pop(into, []), results.copy()
        results.pop('left', None)
        missing = [job for job in jobs if not any(job.items() <= run.items() for run in runs)]
        for left, run in zip(reversed(range(len(missing))), made(make, missing, at_once)):
            runs.append(run)
            results |= spent(runs, before, self.minutes()) | summary(runs)
            self.save(results | ({'left': left} if left else {}) | {into: runs})
            print(f'{left} left:', {key: value for key, value in runs[-1].items() if len(str(value)) < 80}, flush=True)
        return runs


def one_thread():
    import torch
    torch.set_num_threads(1)  # processes that are forked inherit it


def made(make, jobs, at_once):
    "Each job with what it makes, as they end; several at once by a process each, begun in their order."
    if at_once == 1: yield from (job | make(**job) for job in jobs)
    else:
        pool = ProcessPoolExecutor(at_once, get_context('fork'))
        try:
            job_of = {pool.submit(make, **job): job for job in jobs}
            for done in as_completed(job_of): yield job_of[done] | done.result()
        finally: pool.shutdown(cancel_futures=True)


def both_clocks(): return time.perf_counter(), time.process_time()


def minutes_since(began, digits):
    clock, cpu = (now - then for now, then in zip(both_clocks(), began))
    return {'minutes': round(clock/60, digits), 'cpu_minutes': round(cpu/60, digits)}


def with_minutes(make, *args, **job):
    "What a run has found, and what it took: by the clock, and of computing."
    began = both_clocks()
    return make(*args, **job) | minutes_since(began, 2)


def spent(runs, before, now):
    "Minutes of all runs: the sum of their own, where they say them; if not, of this start and of those before."
    return {key: round(sum(run[key] for run in runs) if key in runs[0] else before[key] + now[key], 1)
            for key in now if key in before}


# What results are measured by

def git(*command):
    done = subprocess.run(['git', '-C', ROOT, *command], capture_output=True, text=True)
    return done.stdout.strip()


def commit():
    "Of the tree of this script, with 'changed' if it is not quite that one; outside git what COMMIT says, or None."
    if not (ROOT/'.git').exists(): return os.environ.get('COMMIT')
    with suppress(OSError):  # there is no git
        head = git('rev-parse', 'HEAD')
        changed = git('status', '--porcelain', '--untracked-files=no', '--', '.', ':!benchmarks/results')
        return head + ', changed'*bool(changed) if head else None


def seeds(args):
    "What --seeds (a number, or a list) or --seed said; 0 where a script has neither."
    said = getattr(args, 'seeds', [getattr(args, 'seed', 0)])
    return list(range(said)) if isinstance(said, int) else said


def circumstances(peers):
    "Versions (`peers` are those that only workers import), processor with its sets of instructions, threads, cores."
    import torch
    names = [*LIBRARIES, *(name for name in PEERS if name in sys.modules or name in peers)]
    flags = proc('cpuinfo', 'flags', proc('cpuinfo', 'Features', '')).split()
    return {'python': platform.python_version(), 'versions': {name: version(name) for name in names if find_spec(name)},
            'cpu': cpu_name(), 'instructions': [name for name in INSTRUCTIONS if name in flags],
            'torch uses': torch.backends.cpu.get_cpu_capability(), 'threads': torch.get_num_threads(), 'cores': cores()}


def cores():
    "How many this process may use."
    return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()


def digest(splits):
    "The beginning of the SHA-256 of a corpus, or of a dict of rows of texts: the name of each split, a row a line."
    found = hashlib.sha256()
    for name, rows in getattr(splits, 'splits', splits).items():
        lines = ['\t'.join(row) for row in getattr(rows, 'pairs', rows)]
        found.update('\n'.join([name, *lines, '']).encode())
    return found.hexdigest()[:16]


def few(corpus, n):
    "A corpus with the first n pairs of each split."
    return type(corpus)(corpus.src, corpus.tgt, {name: type(s)(s.pairs[:n]) for name, s in corpus.splits.items()})


# The machine

def proc(file, name, default):
    "What Linux says of `name` in a file of /proc."
    lines = Path('/proc', file).read_text().splitlines() if Path('/proc', file).exists() else ()
    return next((line.removeprefix(name).strip('\t :') for line in lines if line.startswith(name)), default)


def cpu_name(): return proc('cpuinfo', 'model name', platform.processor())


def machine(device):
    "The GPU, or the CPU with the number of threads, and the set of instructions that it was told to keep to."
    import torch
    if device.type == 'cuda': return torch.cuda.get_device_name(device)
    told = os.environ.get('ATEN_CPU_CAPABILITY')
    return f'{cpu_name()}, {torch.get_num_threads()} threads' + f', {told} only'*bool(told)


# Small pieces

def descend(optimizer, loss, rate=None):
    "A step of the optimizer, at that learning rate."
    if rate is not None: optimizer.param_groups[0]['lr'] = rate
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


# Files of results

def rounded(found):
    "Five digits of a number are enough in a file."
    if isinstance(found, dict): return {key: rounded(value) for key, value in found.items()}
    if isinstance(found, list): return [rounded(value) for value in found]
    return float(f'{found:.5g}') if isinstance(found, float) else found


def lines(results):
    "JSON with one run per line."
    return re.sub(r'\n {3,}|\n {2}(?=[\]}])', ' ', json.dumps(results, ensure_ascii=False, indent=1))


def write(results, file):
    "Replace a file of results as a whole, so that nobody reads half of it."
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix('.part')
    part.write_text(lines(results) + '\n', encoding='utf-8')
    part.replace(file)
