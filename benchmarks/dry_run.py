"""A rehearsal of a recipe: every command from raw text to a score and a translation, as typed, in a small size.

    python benchmarks/dry_run.py FOLDER                                             # about 15 minutes
    python benchmarks/dry_run.py FOLDER --recipe wmt14-en-de-base --minutes 12

FOLDER holds WMT's news test sets up to 2013, as NAME.en(.gz) and NAME.de(.gz): those of 2008 to 2012 are the training
text, and of newstest2013 the first 500 pairs are the test and the next 500 the validation. They are laid out as mtdata
does it, then the commands of `tnb-data recipe` follow. What is typed besides, such as --preset tiny, is in `SMALLER`. A
model trained for minutes on 13,573 pairs does not translate: the walk is tested, not the score. Each command, its
answer and its minutes go into results/dry_run.json.
"""
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from common import ROOT, Experiment, cores, cpu_name, digest

from transformer_nb.data.corpora import load_corpus, read_parallel
from transformer_nb.train.recipes import commands, load_recipe

TRAIN = ['news-test2008', 'newssyscomb2009', *(f'newstest{year}' for year in range(2009, 2013))]
HELD_OUT, PAIRS = 'newstest2013', 500
PROGRESS = re.compile(r'^ *\d+% \|.*\n', re.M)
SMALLER = {  # more options of each command; of an option that is typed twice the second counts
    'prepare': '--vocab-size 4000',
    'train': '--preset tiny --batch-tokens 1536 --grad-accum-steps 1 --warmup 300 --save-every 100 --threads 1 '
             '--minutes {minutes:g}',
    'eval': '--json'}
TINY = {  # to run through all of the code
    'prepare': '--vocab-size 300', 'eval': '--json',
    'train': '--preset tiny --batch-tokens 512 --grad-accum-steps 1 --warmup 2 --save-every 1 --threads 1 --steps 3'}


def pairs_of(folder, name, src, tgt):
    "The pairs of a test set; languages have two letters in its files, three in mtdata's."
    files = [sorted(folder.glob(f'{name}.{lang[:2]}*')) for lang in (src, tgt)]
    if not all(files): raise SystemExit(f'{folder}: no {name}.{src[:2]} or no {name}.{tgt[:2]} (also .gz) in it')
    return read_parallel(*(found[0] for found in files), drop_empty=True).pairs


def lay_out(folder, out, src, tgt):
    "Training, validation and test text, as mtdata names them."
    held_out = pairs_of(folder, HELD_OUT, src, tgt)
    train = [pair for name in TRAIN for pair in pairs_of(folder, name, src, tgt)]
    out.mkdir(parents=True)
    for name, pairs in (('train', train), ('test1', held_out[:PAIRS]), ('dev', held_out[PAIRS:2*PAIRS])):
        for lang, side in zip((src, tgt), zip(*pairs)):
            (out/f'{name}.{lang}').write_text(''.join(f'{line}\n' for line in side), encoding='utf-8')
    return len(train)


def typed(what, command, place, minutes):
    "A command as a terminal runs it; its answer and its minutes are printed and kept."
    command = f"{command} {SMALLER.get(what, '').format(minutes=minutes)}".strip()
    print(f'$ {command}', flush=True)
    env = os.environ | {'PATH': f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    start = time.perf_counter()
    done = subprocess.run(command, shell=True, cwd=place, env=env, capture_output=True, text=True)
    took = (time.perf_counter() - start)/60
    answer = PROGRESS.sub('', (done.stdout + done.stderr).strip())
    print(f'{answer}\n({took:.1f} minutes)\n', flush=True)
    if done.returncode: raise SystemExit(f'{what} ended with {done.returncode}')
    return {'what': what, 'command': command, 'minutes': took, 'answer': answer}, done.stdout


def rehearse(recipe, folder, place, minutes):
    "All commands but those that fetch; what came of them, and the corpus' digest."
    data = recipe.data
    pairs = lay_out(folder, place/data['folder'], data['src'], data['tgt'])
    steps, answers = [], {}
    for what, command in commands(recipe):
        if what == 'fetch': continue
        step, answers[what] = typed(what, command, place, minutes)
        steps.append(step)
    (test, scores), = json.loads(answers['eval']).items()
    corpus = load_corpus(str(place/data['folder']), data['src'], data['tgt'])
    return {'recipe': recipe.name, 'pairs': pairs, 'test': f'{HELD_OUT}, first {len(corpus[test]):,} pairs',
            'steps': steps, 'bleu': scores['BLEU']['score'], 'signature': scores['BLEU']['signature'],
            'source': data['example'], 'translation': answers['translate'].strip(),
            'cores': cores(), 'cpu': cpu_name()}, digest(corpus)


def main():
    experiment = Experiment(__file__, __doc__)
    option = experiment.option
    option('folder', type=Path, help='Folder of the test sets')
    option('--recipe', default='wmt14-en-de-base', help='Whose commands are typed')
    option('--minutes', type=float, default=12, help='Of training')
    option('--place', type=Path, default=ROOT/'runs'/'dry-run', help='Directory to work in; must be new')
    args = experiment.begin()
    if args.tiny: SMALLER.update(TINY)
    if args.place.exists(): raise SystemExit(f'{args.place}: is there already; choose another one with --place')
    found, experiment.facts['corpus'] = rehearse(load_recipe(args.recipe), args.folder, args.place, args.minutes)
    experiment.save(found)
    print(f"BLEU {found['bleu']:.2f} {found['signature']}\n{found['source']}\n{found['translation']}")


if __name__ == '__main__': main()
