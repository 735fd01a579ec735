"""Table 2 in small: RNNSearch, ConvS2S and the Transformer with the same training FLOPs (paper §6.1).

    python benchmarks/table2.py                     # the built-in corpus, three seeds: 11 minutes on one CPU core
    python benchmarks/table2.py --multi30k FOLDER   # and Multi30k, one seed: about 4 more

Of the built-in corpus the short sentences are taken.

Writes results/table2.json, which the lesson on Table 2 reads. First each model is trained with every peak of the
learning rate, with all the operations of the race, and with its two best peaks once more with a second seed: these are
the trials. The peak with the lower mean validation loss at the end is the model's own from then on. A run of the race
that was a trial is not made again; the last seed has no part in the choice. Each finished run is written at once; a
second start goes on with what is missing. FLOPs are those of the matrix products on real tokens, forward and backward.
BLEU is that of greedy search (sacreBLEU, cased) with the weights of that moment, nothing averaged. `minutes` are by the
clock, `cpu_minutes` of computing, with validation and decoding; `cpu_seconds` on a curve are of training alone.
"""
import time
from functools import cache
from pathlib import Path
from statistics import fmean

from common import Experiment, digest, few

from transformer_nb.data.batching import encode_pairs
from transformer_nb.core import default_device, seed_everything
from transformer_nb.data.corpora import load_corpus
from transformer_nb.decode.evaluation import score
from transformer_nb.experiments.table2 import MODELS, build_model, train_for, translations
from transformer_nb.data.tokenizer import train_tokenizer
from transformer_nb.train.trainer import TrainingConfig
from transformer_nb.experiments.variations import short_corpus

RECIPE = {
    'factors': [0.35, 0.7, 1.4, 2.8],
    'trial_seeds': 2,
    'marks': [0.1, 0.25, 0.5, 0.75, 1.0],
    'warmup': 100,
    'norm': 'pre',
    'builtin': {'test': 'test', 'sentences': 400, 'drawn': 30_000, 'max_words': 8, 'vocab_size': 1000,
                'batch_tokens': 512, 'flops': 8e11, 'seeds': 3},
    'multi30k': {'test': 'test_2016_flickr', 'sentences': 500, 'vocab_size': 3000, 'batch_tokens': 768, 'flops': 2e12,
                 'seeds': 1},
}
TINY = {'factors': [0.35, 0.7], 'trial_seeds': 2, 'marks': [0.5, 1.0],
        'builtin': RECIPE['builtin'] | {'drawn': 2000, 'vocab_size': 300, 'sentences': 3, 'flops': 5e7, 'seeds': 1,
                                         'validated': 3}}


@cache
def prepare(name, folder):
    "Corpus, tokenizer, ids of training and validation split, sentences to test with."
    recipe = RECIPE[name]
    corpus = load_corpus(str(folder)) if folder else short_corpus(recipe['drawn'], recipe['max_words'])
    tokenizer = train_tokenizer((side for pair in corpus['train'].pairs for side in pair), recipe['vocab_size'])
    corpus.splits['val'] = few(corpus, recipe.get('validated'))['val']
    ids = [encode_pairs(tokenizer, corpus[split], 256) for split in ('train', 'val')]
    return corpus, tokenizer, *ids, corpus[recipe['test']].pairs[:recipe['sentences']]


def settings(recipe, factor, seed, device):
    return TrainingConfig(minutes=600, batch_tokens=recipe['batch_tokens'], warmup=RECIPE['warmup'], lr_scale=factor,
                          seed=seed, device=device)


def one_run(corpus_name, model_name, seed, factor, folder, device):
    "A whole curve."
    start, cpu, recipe = time.perf_counter(), time.process_time(), RECIPE[corpus_name]
    _, tokenizer, train, val, test = prepare(corpus_name, folder)
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


def key(run): return run['corpus'], run['model'], run['seed'], run['lr_factor']


def losses(results, model):
    "For each factor the validation losses at the end of its trials, seed by seed."
    ends = {factor: [] for factor in RECIPE['factors']}
    for run in results['tuning']:
        if run['model'] == model: ends[run['lr_factor']].append(run['curve'][-1]['val_loss'])
    return ends


def finalists(results, model):
    "The two factors that are best with the first seed."
    ends = losses(results, model)
    return sorted(ends, key=lambda factor: ends[factor][0])[:2]


def best_factor(results, model):
    "Of the finalists the one with the lower mean loss."
    ends = losses(results, model)
    return min(finalists(results, model), key=lambda factor: fmean(ends[factor]))


def trials(results):
    "What is run to choose the learning rates: every factor with the first seed, the finalists with more."
    first = [('builtin', model, 0, factor) for model in MODELS for factor in RECIPE['factors']]
    if not set(first) <= set(map(key, results['tuning'])): return first
    return first + [('builtin', model, seed, factor) for seed in range(1, RECIPE['trial_seeds']) for model in MODELS
                    for factor in finalists(results, model)]


def race(corpora):
    "Which curves the race consists of, seed by seed."
    return [(corpus, model, seed) for seed in range(max(RECIPE[corpus]['seeds'] for corpus in corpora))
            for corpus in corpora if seed < RECIPE[corpus]['seeds'] for model in MODELS]


def missing(results, corpora):
    "What is still to do: the trials, then the race."
    done = {kind: {key(run) for run in results[kind]} for kind in ('tuning', 'runs')}
    if left := [trial for trial in trials(results) if trial not in done['tuning']]: return 'tuning', left
    chosen = [(*run, best_factor(results, run[1])) for run in race(corpora)]
    return 'runs', [run for run in chosen if run not in done['runs']]


def main(argv=None):
    experiment = Experiment(__file__, __doc__)
    option = experiment.option
    option('--multi30k', type=Path, metavar='FOLDER',
           help='folder of Multi30k (train.en, train.de, … or .gz): train on it too')
    option('--corpora', nargs='+', choices=['builtin', 'multi30k'], help='some of the corpora only')
    option('--most', type=int, help='stop after so many runs; a later start goes on')
    option('--device', default='auto')
    args = experiment.begin(argv, device='cpu')
    if args.tiny: RECIPE.update(TINY)
    corpora = args.corpora or ['builtin'] + ['multi30k']*bool(args.multi30k)
    folders = {'builtin': None, 'multi30k': args.multi30k}
    new = {**experiment.where(default_device(args.device)), 'command': 'python benchmarks/table2.py --multi30k FOLDER',
           'recipe': RECIPE, 'tuning': [], 'runs': []}
    experiment.facts |= {'seeds': list(range(max(RECIPE[name]['seeds'] for name in corpora))),
                         'corpus': {name: digest(prepare(name, folders[name])[0]) for name in corpora}}
    for _ in range(args.most or 1000):
        before = experiment.resumed(new)
        kind, left = missing(before, corpora)
        if not left: break
        made = {key(run): run for run in before['tuning']}.get(left[0])
        found = made or one_run(*left[0], folders[left[0][0]], args.device)
        results = experiment.resumed(new)  # another process may have added a run meanwhile
        results[kind].append(found)
        computed = {key(run): run['cpu_minutes'] for run in results['tuning'] + results['runs']}
        experiment.save(results | {'cpu_minutes': round(sum(computed.values()), 1)})
        print(kind, *left[0], found['curve'][-1], flush=True)


if __name__ == '__main__': main()
