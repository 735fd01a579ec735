"""Table 2 in small: RNNSearch, ConvS2S and the Transformer with the same training FLOPs (paper §6.1).

    python benchmarks/table2.py                     # the built-in corpus, three seeds: 10 minutes on one CPU core
    python benchmarks/table2.py --multi30k FOLDER   # and Multi30k, one seed: about 4 more

Of the built-in corpus the short sentences are taken.

Writes results/table2.json, which the lesson on Table 2 reads. First each model is trained with a seventh of the
operations and several peaks of the learning rate; of those within 0.1 nats of the lowest validation loss the lowest
is used from then on. Each finished run is written at once; a second start goes on with what is missing. FLOPs are
those of the matrix products on real tokens, forward and backward. BLEU is that of greedy search (sacreBLEU, cased)
with the weights of that moment, nothing averaged. `minutes` are by the clock, `cpu_minutes` of computing, with
validation and decoding; `cpu_seconds` on a curve are of training alone.
"""
import argparse
import time
from functools import cache
from pathlib import Path

import torch
from common import machine, resumed, write

from transformer_nb.batching import encode_pairs
from transformer_nb.core import default_device, seed_everything
from transformer_nb.corpora import load_corpus
from transformer_nb.evaluation import score
from transformer_nb.experiments.table2 import MODELS, build_model, train_for, translations
from transformer_nb.tokenizer import train_tokenizer
from transformer_nb.training import TrainingConfig
from transformer_nb.experiments.variations import short_corpus

OUT = Path(__file__).parent/'results'/'table2.json'
RECIPE = {
    'factors': [0.7, 1.4, 2.8],
    'highest': {'ConvS2S': 1.4},
    'tuning_share': 0.15,
    'marks': [0.1, 0.25, 0.5, 0.75, 1.0],
    'warmup': 100,
    'norm': 'pre',
    'builtin': {'test': 'test', 'sentences': 400, 'drawn': 30_000, 'max_words': 8, 'vocab_size': 1000,
                'batch_tokens': 512, 'flops': 1.2e12, 'seeds': 3},
    'multi30k': {'test': 'test_2016_flickr', 'sentences': 500, 'vocab_size': 3000, 'batch_tokens': 768, 'flops': 2e12,
                 'seeds': 1},
}


@cache
def prepare(name, folder):
    "Tokenizer, ids of training and validation split, sentences to test with."
    recipe = RECIPE[name]
    corpus = load_corpus(str(folder)) if folder else short_corpus(recipe['drawn'], recipe['max_words'])
    tokenizer = train_tokenizer((side for pair in corpus['train'].pairs for side in pair), recipe['vocab_size'])
    ids = [encode_pairs(tokenizer, corpus[split], 256) for split in ('train', 'val')]
    return tokenizer, *ids, corpus[recipe['test']].pairs[:recipe['sentences']]


def tune(model_name, factor, device):
    "Validation loss with a share of the operations, on the built-in corpus."
    cpu, recipe = time.process_time(), RECIPE['builtin']
    tokenizer, train, val, _ = prepare('builtin', None)
    seed_everything(100)
    point, = train_for(build_model(model_name, vocab_size=tokenizer.vocab_size, norm=RECIPE['norm']), train, val,
        settings(recipe, factor, 100, device), [RECIPE['tuning_share']*recipe['flops']])
    return {'model': model_name, 'lr_factor': factor, 'seed': 100, **point,
            'cpu_minutes': round((time.process_time() - cpu) / 60, 2)}


def settings(recipe, factor, seed, device):
    return TrainingConfig(minutes=600, batch_tokens=recipe['batch_tokens'], warmup=RECIPE['warmup'], lr_factor=factor,
                          seed=seed, device=device)


def one_run(corpus_name, model_name, seed, factor, folder, device):
    "A whole curve."
    start, cpu, recipe = time.perf_counter(), time.process_time(), RECIPE[corpus_name]
    tokenizer, train, val, test = prepare(corpus_name, folder)
    seed_everything(seed)
    model = build_model(model_name, vocab_size=tokenizer.vocab_size, norm=RECIPE['norm'])
    src, ref = map(list, zip(*test))

    def measure(model):
        bleu = score(translations(model, tokenizer, src), ref)['BLEU']
        return {'bleu': bleu['score'], 'signature': bleu['signature']}

    curve = train_for(model, train, val, settings(recipe, factor, seed, device),
                      [share * recipe['flops'] for share in RECIPE['marks']], measure)
    return {'corpus': corpus_name, 'model': model_name, 'seed': seed, 'lr_factor': factor,
            'weights': sum(p.numel() for p in model.parameters()), 'signature': curve[0]['signature'],
            'curve': [{key: value for key, value in point.items() if key != 'signature'} for point in curve],
            'minutes': round((time.perf_counter() - start) / 60, 2),
            'cpu_minutes': round((time.process_time() - cpu) / 60, 2)}


def missing(results, corpora):
    "What is still to do: tuning, then seed by seed."
    done = [(run['model'], run['lr_factor']) for run in results['tuning']] + [
        (run['corpus'], run['model'], run['seed']) for run in results['runs']
    ]
    wanted = [(model, factor) for model in MODELS for factor in RECIPE['factors']]
    for seed in range(max(RECIPE[corpus]['seeds'] for corpus in corpora)):
        wanted += [(corpus, model, seed) for corpus in corpora if seed < RECIPE[corpus]['seeds'] for model in MODELS]
    return [run for run in wanted if run not in done]


def best_factor(results, model):
    "The lowest of the factors that are nearly best: what starts fastest with a high peak ends badly."
    losses = {run['lr_factor']: run['val_loss'] for run in results['tuning'] if run['model'] == model}
    taken = min(factor for factor, loss in losses.items() if loss <= min(losses.values()) + .1)
    return min(taken, RECIPE['highest'].get(model, taken))  # with 2.8 ConvS2S diverged on Multi30k


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--multi30k', type=Path, metavar='FOLDER',
                        help='folder of Multi30k (train.en, train.de, … or .gz): train on it too')
    parser.add_argument('--corpora', nargs='+', choices=['builtin', 'multi30k'], help='some of the corpora only')
    parser.add_argument('--most', type=int, help='stop after so many runs; a later start goes on')
    parser.add_argument('--device', default='auto')
    parser.add_argument('--out', type=Path, default=OUT)
    args = parser.parse_args(argv)
    device, corpora = default_device(args.device), args.corpora or ['builtin'] + ['multi30k']*bool(args.multi30k)
    about = {'command': 'python benchmarks/table2.py --multi30k FOLDER', 'recipe': RECIPE, 'machine': machine(device),
             'torch': torch.__version__, 'tuning': [], 'runs': []}
    for task in missing(resumed(args.out, about), corpora)[:args.most]:
        if len(task) == 2:
            kind, found = 'tuning', tune(*task, args.device)
        else:
            kind, found = (
                'runs',
                one_run(*task, best_factor(resumed(args.out, about), task[1]),
                        args.multi30k if task[0] == 'multi30k' else None, args.device),
            )
        results = resumed(args.out, about)  # another process may have added a run meanwhile
        results[kind].append(found)
        results['cpu_minutes'] = round(sum(run['cpu_minutes'] for run in results['tuning'] + results['runs']), 1)
        write(results, args.out)
        print(*task, found, flush=True)


if __name__ == '__main__': main()
