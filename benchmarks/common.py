"""What the benchmarks of speed share: the lengths of sentences, one timed repetition, the machine, results in a file.

Nothing is imported here that a benchmark measures: it would count as everybody's memory.
"""
import json
import math
import os
import platform
import re
import resource
import time
from pathlib import Path


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


def keep(result, file, keys):
    "Write a run into `file`, beside those that differ in one of the `keys`."
    results = json.loads(file.read_text()) if file.exists() else {}
    results[', '.join(str(result[key]) for key in keys)] = result
    write(results, file)


def rounded(found):
    "Five digits of a number are enough in a file."
    if isinstance(found, dict): return {key: rounded(value) for key, value in found.items()}
    if isinstance(found, list): return [rounded(value) for value in found]
    return float(f'{found:.5g}') if isinstance(found, float) else found


def indented(results): return json.dumps(results, ensure_ascii=False, indent=1)


def lines(results):
    "With one run per line."
    return re.sub(r'\n {3,}|\n {2}(?=[\]}])', ' ', indented(results))


def one_line(results): return json.dumps(results, ensure_ascii=False, separators=(',', ':'))


def write(results, file, form=indented):
    "Replace a file of results as a whole, so that nobody reads half of it; `form` makes the JSON."
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix('.part')
    part.write_text(form(results) + '\n', encoding='utf-8')
    part.replace(file)


def resumed(file, about):
    "What is in `file` already, or `about` where there is none; a file of another recipe is not added to."
    if not file.exists(): return about
    results = json.loads(file.read_text())
    if results['recipe'] != about['recipe']:
        raise SystemExit(f'{file}: made with another recipe, {results["recipe"]}; delete it, or give another --out')
    return results
