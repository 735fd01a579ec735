"""Speed and memory measured in turns: random work, what other programs do meanwhile, and processes that wait.

Nothing is imported here that a benchmark measures: it would count as everybody's memory.
"""
import json
import math
import os
import random
import resource
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from statistics import median

from common import proc


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


# Measuring

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
