"""Multi30k to the end of the published recipe: Transformer-Tiny (2.6 million parameters), 8,000 updates of 8k tokens.

    python benchmarks/multi30k.py FOLDER                              # every run, one after the other
    python benchmarks/multi30k.py FOLDER en-de en-fr --seeds 0 1 2 --at-once 6 --device cuda --dtype bfloat16

FOLDER holds task 1, raw, as its publishers give it. The recipe is that of Wu et al. 2021 (Good for Misconceived
Reasons, arXiv 2105.14462; 41.0 BLEU on test_2016 en-de, lower-cased and tokenised): vocabulary 10,000, rates that rise
to 0.005 in 2,000 steps, dropout 0.3, the last ten checkpoints averaged, a beam of 5. Trains into runs/multi30k/NAME;
a run that was stopped goes on where it was, one that is there is only scored. Writes results/multi30k.json.
"""
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import sacrebleu
import torch
from common import ROOT, Experiment, cpu_name, digest
from recipes import scored

from transformer_nb.data.corpora import load_corpus
from transformer_nb.experiments.table2 import paper_bleu

RUNS = ROOT/'runs'/'multi30k'
TEST = 'test_2016_flickr'
RECIPE = '--norm post --vocab-size 10000 --warmup 2000 --lr-scale 2.5 --average-last 10 --checkpoints 40'
WAYS = {'en-de': '', 'de-en': '', 'en-fr': '', 'en-de bpe-dropout': '--bpe-dropout 0.1'}


def measured(way, seed, args):
    "Train, unless it is done, and score; and the corpus' digest."
    out, (src, tgt) = RUNS/f"{way.replace(' ', '-')}-{seed}", way.split()[0].split('-')
    options = (f'--src {src} --tgt {tgt} --seed {seed} --steps {args.steps} --batch-tokens {args.batch_tokens} '
               f'--dtype {args.dtype} {RECIPE} {WAYS[way]} {args.more}')
    command = ['tnb-train', '--data', args.folder, *options.split(), '--device', args.device]
    done = subprocess.run([*command, '--out', out, '--resume', 'auto'], capture_output=True, text=True)
    if done.returncode: raise SystemExit(f'{out}: {done.stderr.strip()[-500:]}')
    corpus = load_corpus(str(args.folder), src, tgt)
    found, row = scored(out, corpus[TEST].pairs, 5, args.device)
    (out/f'{TEST}.{tgt}').write_text('\n'.join(found) + '\n', encoding='utf-8')
    references, lower = [ref for _, ref in corpus[TEST].pairs], sacrebleu.BLEU(lowercase=True)
    return {'way': way, 'seed': seed, 'test': TEST, 'sentences': len(found), 'beam': 5, **row,
            'command': f'tnb-train --data multi30k {options}', 'at once': args.at_once,
            'lower-cased': lower.corpus_score(found, [references]).score, 'its signature': str(lower.get_signature()),
            'lower-cased, tokenised as in the paper':
                paper_bleu([line.lower() for line in found], [line.lower() for line in references])['score'],
            'hardware': torch.cuda.get_device_name() if args.device == 'cuda' else cpu_name(),
            'torch': torch.__version__}, digest(corpus)


def main():
    experiment = Experiment(__file__, __doc__)
    option = experiment.option
    option('folder', type=Path, help='Folder of the corpus')
    option('ways', nargs='*', metavar='WAY', help=f'Runs (default: all): {", ".join(WAYS)}')
    option('--seeds', type=int, nargs='+', default=[0], help='Seeds of each (0)')
    option('--steps', type=int, default=8000, help='Updates (8000)')
    option('--batch-tokens', type=int, default=8192, help='Tokens of an update (8192)')
    option('--at-once', type=int, default=1, help='Runs at the same time (1)')
    option('--device', default='cpu', help='cpu or cuda (cpu)')
    option('--dtype', default='float32', help='float32 or bfloat16 (float32)')
    option('--more', default='', help='More options of tnb-train, such as "--minutes 4"')
    args = experiment.begin(ways=['en-de'], steps=2, batch_tokens=512, more='--vocab-size 300 --checkpoints 2')
    if args.tiny: globals().update(RUNS=experiment.file.parent/'runs')
    with ThreadPoolExecutor(args.at_once) as pool:
        for run in [pool.submit(measured, *run, args) for run in product(args.ways or WAYS, args.seeds)]:
            row, corpus = run.result()
            experiment.keep(row, 'way', 'seed', corpus=corpus, seeds=[row['seed']])
            print(json.dumps(row, indent=1, ensure_ascii=False), flush=True)


if __name__ == '__main__': main()
