"""Table 3 in small: every row trained with three seeds on the built-in corpus (paper §6.2).

    python benchmarks/table3.py                              # 20 rows, and 3 of our own: 40 minutes on one CPU core
    python benchmarks/table3.py --rows base C1 --seeds 5     # some rows, more seeds

Writes results/table3.json, which the lesson on variations reads. Each finished run is written at once; a second start
goes on with what is missing, seed by seed, so that a table that was cut short is whole in its first seeds. Base, with
which every row is compared, has two seeds more than the others; big, which takes three times as many steps, has one.

Where it deviates from the paper, apart from size: pre-norm layers, and a shorter, higher learning rate. Three runs of
base with the paper's post-norm ('post') are made beside. Perplexity is that of the validation split, word piece by
word piece and against the hard targets; BLEU is that of a beam of 4 with α 0.6 (sacreBLEU, cased) on the split
'test', of the last step's weights: as in the paper's table, no checkpoints are averaged. `minutes` are by the clock,
`cpu_minutes` of computing (they differ on a busy machine).
"""
import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from common import machine, resumed, write

from transformer_nb.data.batching import Batches, encode_pairs
from transformer_nb.core import default_device, seed_everything
from transformer_nb.data.tokenizer import train_tokenizer
from transformer_nb.train.trainer import TrainingConfig
from transformer_nb.decode.evaluation import score
from transformer_nb.decode.translator import Translator
from transformer_nb.experiments.variations import EXTRAS, LONGER, ROWS, build_row, short_corpus, train_row

OUT = Path(__file__).parent/'results'/'table3.json'
RECIPE = {'d_model': 64, 'N': 3, 'norm': 'pre', 'vocab_size': 1000, 'max_len': 256, 'corpus_size': 20_000,
          'max_words': 7, 'batch_tokens': 768, 'warmup': 120, 'lr_factor': 0.6, 'steps': 400}
OWN = ('average', 'untied', 'post')  # the other EXTRAS are averaging.py's
NOTE = (
    "big: three times the steps of the others (as in the paper), and one seed only; base: two seeds more. "
    "Our own rows: base with averaged heads ('average'), with a softmax matrix of its own ('untied'), with the paper's "
    "post-norm ('post')"
)


def prepare(recipe):
    "Corpus, tokenizer, and the ids of training and validation split."
    corpus = short_corpus(recipe['corpus_size'], recipe['max_words'])
    tokenizer = train_tokenizer((side for pair in corpus['train'].pairs for side in pair), recipe['vocab_size'])
    return corpus, tokenizer, *(encode_pairs(tokenizer, corpus[name], recipe['max_len']) for name in ('train', 'val'))


def one_run(row, seed, recipe, corpus, tokenizer, pairs, val, device):
    start, cpu = time.perf_counter(), time.process_time()
    seed_everything(seed)
    model = build_row(row, recipe['d_model'], recipe['N'], vocab_size=tokenizer.vocab_size, norm=recipe['norm'],
                      max_len=recipe['max_len'])
    settings = TrainingConfig(steps=recipe['steps'] * LONGER.get(row, 1), batch_tokens=recipe['batch_tokens'],
                              warmup=recipe['warmup'], lr_scale=recipe['lr_factor'], seed=seed, device=device)
    found = train_row(model, pairs, val, settings, tempfile.gettempdir())
    src, ref = zip(*corpus['test'].pairs)
    bleu = score(Translator(model, tokenizer).translate(list(src)), list(ref))['BLEU']
    return {'row': row, 'seed': seed, 'steps': settings.steps, 'weights': sum(p.numel() for p in model.parameters()),
            **found, 'bleu': bleu['score'], 'signature': bleu['signature'],
            'minutes': round((time.perf_counter() - start) / 60, 2),
            'cpu_minutes': round((time.process_time() - cpu) / 60, 2)}


def with_totals(results):
    "What the runs have in common, before the runs."
    runs = results['runs']
    common = {'runs_of': dict(Counter(run['row'] for run in runs)), 'signature': runs[0]['signature'],
        **{key: round(sum(run[key] for run in runs), 1) for key in ('minutes', 'cpu_minutes')}}
    return {key: value for key, value in results.items() if key != 'runs'} | common | {'runs': runs}


def n_seeds(row, seeds): return {'base': seeds + 2, 'big': 1}.get(row, seeds)


def missing(results, rows, seeds):
    "Runs still to make: seed by seed, the rows of the table and then those of our own; big at the end of its seed."
    done = {(run['row'], run['seed']) for run in results['runs']}
    ordered = sorted((row for row in (*ROWS, *EXTRAS) if row in rows), key=lambda row: row == 'big')
    return [
        (row, seed)
        for seed in range(seeds + 2)
        for row in ordered
        if seed < n_seeds(row, seeds) and (row, seed) not in done
    ]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rows', nargs='+', choices=[*ROWS, *EXTRAS], default=[*ROWS, *OWN], metavar='ROW')
    parser.add_argument('--seeds', type=int, default=3,
                        help="of every row but 'base', which has two more, and 'big', which has one")
    parser.add_argument('--steps', type=int, default=RECIPE['steps'],
                        help="of every row but 'big', which takes three times as many")
    parser.add_argument('--device', default='auto')
    parser.add_argument('--out', type=Path, default=OUT)
    args = parser.parse_args(argv)
    recipe, device = RECIPE | {'steps': args.steps}, default_device(args.device)
    results = resumed(
        args.out,
        {'command': 'python benchmarks/table3.py', 'note': NOTE, 'recipe': recipe, 'machine': machine(device),
         'torch': torch.__version__, 'runs': []},
    )
    todo, data = missing(results, args.rows, args.seeds), prepare(recipe)
    results |= {'sentences': {name: len(split) for name, split in data[0].splits.items()},
                'steps_per_epoch': Batches(data[2], recipe['batch_tokens']).n_batches}
    for i, (row, seed) in enumerate(todo, 1):
        results['runs'].append(one_run(row, seed, recipe, *data, args.device))
        write(with_totals(results), args.out)
        print(f'{i}/{len(todo)}', {key: value for key, value in results['runs'][-1].items() if key != 'signature'},
              flush=True)


if __name__ == '__main__': main()
