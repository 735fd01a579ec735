"""What the benchmarks share: options, results in a file with what they were measured by, the machine, timed work.

Nothing is imported here that a benchmark measures: it would count as everybody's memory.
"""
import argparse
import hashlib
import json
import math
import os
import platform
import random
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import median

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


# The work

def clip(length): return min(100, max(3, round(length)))


def source_lengths(n, rng):
    "Log-normal around 25, from 3 to 100."
    return [clip(rng.lognormvariate(math.log(25) - .6**2/2, .6)) for _ in range(n)]


def random_ids(length, vocab, rng): return [rng.randrange(8, vocab - 8) for _ in range(length)]


def padded(rows, pad, device):
    import torch
    longest = max(map(len, rows))
    return torch.tensor([row + [pad]*(longest - len(row)) for row in rows], device=device)


def random_marian(cfg, pad, bos, eos, activation='relu'):
    "Hugging Face Marian in the sizes of our configuration."
    from transformers import MarianConfig, MarianMTModel
    sizes = {f'{side}_{key}': cfg[ours] for side in ('encoder', 'decoder')
             for key, ours in (('layers', 'N'), ('attention_heads', 'h'), ('ffn_dim', 'd_ff'))}
    return MarianMTModel(
        MarianConfig(**sizes, vocab_size=cfg['vocab_size'], d_model=cfg['d_model'], dropout=cfg['dropout'],
                     activation_function=activation, scale_embedding=True, tie_word_embeddings=True,
                     max_position_embeddings=512, pad_token_id=pad, decoder_start_token_id=bos, eos_token_id=eos,
                     forced_eos_token_id=None)
    )


# The machine

def proc(file, name, default):
    "What Linux says of `name` in a file of /proc."
    lines = Path('/proc', file).read_text().splitlines() if Path('/proc', file).exists() else ()
    return next((line.removeprefix(name).strip('\t :') for line in lines if line.startswith(name)), default)


def cpu_name(): return proc('cpuinfo', 'model name', platform.processor())


def machine(device):
    "The GPU, or the CPU with the number of threads."
    import torch

    return (
        torch.cuda.get_device_name(device)
        if device.type == 'cuda'
        else f'{cpu_name()}, {torch.get_num_threads()} threads'
    )


def peak_memory():
    "Bytes: the largest resident size of this process."
    size = proc('self/status', 'VmHWM', f'{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss//1024} kB')
    return 1024*int(size.split()[0])


def peak_of(device):
    "Bytes: the largest size so far, on a GPU of what was allocated there."
    if not device.startswith('cuda'): return peak_memory()
    import torch
    return torch.cuda.max_memory_allocated()


def busy():
    "Processor seconds so far of all other programs."
    user, nice, system, _, _, irq, softirq, steal = map(int, proc('stat', 'cpu ', '0 '*8).split()[:8])
    return (user + nice + system + irq + softirq + steal)/os.sysconf('SC_CLK_TCK') - sum(os.times()[:4])


# Measuring

def timed(repetition):
    "One repetition, and how many cores the other programs used meanwhile."
    others, start = busy(), time.perf_counter()
    result = repetition()
    seconds = time.perf_counter() - start
    return {**result, 'seconds': seconds, 'others': max(0., busy() - others)/seconds}


def undisturbed(repetition):
    "Where others used more than 0.15 cores the repetition is made once more, and the quieter one kept."
    first = timed(repetition)
    return first if first['others'] <= .15 else min(first, timed(repetition), key=lambda r: r['others'])


def calm(repetitions):
    "Without those that others disturbed by more than 0.3 cores, if three calm ones remain."
    found = [r for r in repetitions if r['others'] <= .3]
    return found if len(found) >= 3 else repetitions


def speed(repetitions, tokens):
    "A row of a table: tokens a second, the peak of memory, and what others used meanwhile."
    found = calm(repetitions)
    speeds = [tokens/r['seconds'] for r in found]
    return {'tokens_per_s': median(speeds), 'lowest': min(speeds), 'highest': max(speeds),
            'memory': max(r['memory'] for r in found), 'others': max(r['others'] for r in found), 'repetitions': found}


# Workers: processes of a script, started with `worker TASK`; one computes at a time

def serve(repetition_of, task):
    "In a worker: a repetition for every line that comes in; its answers are JSON, a line each."
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    def answer(found): print(json.dumps(found), file=answers, flush=True)
    with ExitStack() as stack:
        try:
            repetition = repetition_of(task, stack)
            repetition()  # warms up
            answer({})
            for _ in sys.stdin: answer(undisturbed(repetition) | {'memory': peak_of(task['device'])})
        except Exception as error: answer({'error': f'{type(error).__name__}: {error}'.splitlines()[0]})


class Worker:
    "A process of a script, with the library of the script's tree."
    def __init__(self, script, task):
        command = [sys.executable, '-W', 'ignore', script, 'worker', json.dumps(task)]
        env = os.environ | {'PYTHONPATH': str(Path(script).resolve().parents[1])}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def answer(self):
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {'error': 'its process ended (out of memory?)'}
        if 'error' in answer: raise RuntimeError(answer['error'])
        return answer

    def repeat(self):
        with suppress(BrokenPipeError): print('once more', file=self.process.stdin, flush=True)
        return self.answer()

    def close(self):
        with suppress(BrokenPipeError): self.process.communicate()


@contextmanager
def workers(tasks):
    "Those that could be started and have warmed up, by name; `tasks` has of each the script and what it is told."
    found = {}
    try:
        for name, (script, task) in tasks.items():
            found[name] = Worker(script, task)
            try: found[name].answer()
            except RuntimeError as error:
                print(f'{name} is left out: {error}', file=sys.stderr)
                found.pop(name).close()
        yield found
    finally:
        for worker in found.values(): worker.close()


def alike(names, script, task):
    "The same task for workers of one script that differ in their names."
    return {name: (script, task | {'name': name}) for name in names}


def interleaved(tasks, rounds, times=1, anew=False):
    """The repetitions of every worker, by name: in a round each of them makes so many `times`, in random order. They
    live as long as all rounds; with `anew` each is started for a round."""
    rng = random.Random(0)
    with workers({} if anew else tasks) as living:
        found = {name: [] for name in (tasks if anew else living)}
        for i, name in ((i, name) for i in range(rounds) for name in rng.sample(list(found), len(found))):
            with workers({name: tasks[name]}) if anew else nullcontext(living) as here:
                new = [here[name].repeat() for _ in range(times)] if name in here else []
            if not new:
                del found[name]
                continue
            found[name] += new
            print(f'round {i + 1} of {rounds}: {name}:', *(f"{r['seconds']:.2f} s" for r in new),
                  f"(others: {max(r['others'] for r in new):.2f} cores)", file=sys.stderr)
    return found


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
