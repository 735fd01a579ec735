"""Table 2 in small: RNNSearch, ConvS2S and the Transformer with the same training FLOPs (paper §6.1).

    python benchmarks/table2.py                     # the built-in corpus, three seeds: 1.8 hours on one CPU core
    python benchmarks/table2.py --multi30k FOLDER   # and Multi30k, one seed: about 10 minutes more
    python benchmarks/table2.py --at-once 14        # on 14 cores

Of the built-in corpus the short sentences are taken.

Writes results/table2.json, which the lesson on Table 2 reads. First each model is trained with every peak of the
learning rate and the first warm-up, then with its best peak and the other warm-up, all with the operations of the race
and the first seed: these are the trials. The pair with the lowest validation loss at the end is the model's own from
then on. A run of the race that was a trial is not made again; the other seeds have no part in the choice. Each finished
run is written at once; a second start goes on with what is missing. FLOPs are those of the matrix products on real
tokens, forward and backward. BLEU is that of greedy search (sacreBLEU, cased) with the weights of that moment, nothing
averaged. `minutes` are by the clock, `cpu_minutes` of computing, with validation and decoding; `cpu_seconds` on a curve
are of training alone, and depend on what else the machine does: parallel.py has the speeds.
"""
from functools import cache, partial
from pathlib import Path

from common import Experiment, digest, few, with_minutes

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
    'warmups': [100, 400],
    'marks': [0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0],
    'norm': 'pre',
    'builtin': {'test': 'test', 'sentences': 400, 'drawn': 30_000, 'max_words': 8, 'vocab_size': 1000,
                'batch_tokens': 512, 'flops': 8e12, 'seeds': 3},
    'multi30k': {'test': 'test_2016_flickr', 'sentences': 500, 'vocab_size': 3000, 'batch_tokens': 768, 'flops': 6e12,
                 'seeds': 1},
}
TINY = {'factors': [0.35, 0.7], 'warmups': [2, 4], 'marks': [0.5, 1.0],
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


def settings(recipe, factor, warmup, seed, device):
    return TrainingConfig(minutes=600, batch_tokens=recipe['batch_tokens'], warmup=warmup, lr_scale=factor, seed=seed,
                          device=device)


def one_run(folders, device, corpus, model, seed, lr_factor, warmup):
    "A whole curve."
    recipe = RECIPE[corpus]
    _, tokenizer, train, val, test = prepare(corpus, folders[corpus])
    seed_everything(seed)
    model = build_model(model, vocab_size=tokenizer.vocab_size, norm=RECIPE['norm'])
    src, ref = map(list, zip(*test))

    def measure(model):
        bleu = score(translations(model, tokenizer, src), ref)['BLEU']
        return {'bleu': bleu['score'], 'signature': bleu['signature']}

    curve = train_for(model, train, val, settings(recipe, lr_factor, warmup, seed, device),
                      [share * recipe['flops'] for share in RECIPE['marks']], measure)
    return {'weights': sum(p.numel() for p in model.parameters()), 'signature': curve[0]['signature'],
            'curve': [{key: value for key, value in point.items() if key != 'signature'} for point in curve]}


def best_pair(tuning, model):
    "Factor and warm-up of the trial with the lowest validation loss at its end."
    best = min((run for run in tuning if run['model'] == model), key=lambda run: run['curve'][-1]['val_loss'])
    return best['lr_factor'], best['warmup']


def job(corpus, model, seed, factor, warmup):
    return {'corpus': corpus, 'model': model, 'seed': seed, 'lr_factor': factor, 'warmup': warmup}


def race(corpora, pairs):
    "Which curves the race consists of, seed by seed."
    seeds = {corpus: RECIPE[corpus]['seeds'] for corpus in corpora}
    return [job(corpus, model, seed, *pairs[model]) for seed in range(max(seeds.values()))
            for corpus in corpora if seed < seeds[corpus] for model in MODELS]


def new_or_trial(make, tuning, **job):
    "A run of the race; one that was a trial is not made again."
    made = [trial for trial in tuning if job.items() <= trial.items()]
    return made[0] if made else make(**job)


def run_all(grid, make, corpora):
    "The trials: every factor, then the best one with the other warm-ups; the race."
    first, *others = RECIPE['warmups']
    jobs = [job('builtin', model, 0, factor, first) for model in MODELS for factor in RECIPE['factors']]
    tuning = grid(jobs, make, into='tuning')
    best = {model: best_pair(tuning, model)[0] for model in MODELS}
    jobs += [job('builtin', model, 0, best[model], warmup) for model in MODELS for warmup in others]
    tuning = grid(jobs, make, into='tuning')

    def all_minutes(runs):
        more = [run for run in runs if run not in tuning]
        return {'cpu_minutes': round(sum(run['cpu_minutes'] for run in tuning + more), 1)}
    grid(race(corpora, {model: best_pair(tuning, model) for model in MODELS}), partial(new_or_trial, make, tuning),
         all_minutes)


def main(argv=None):
    experiment = Experiment(__file__, __doc__)
    option = experiment.option
    option('--multi30k', type=Path, metavar='FOLDER',
           help='folder of Multi30k (train.en, train.de, … or .gz): train on it too')
    option('--corpora', nargs='+', choices=['builtin', 'multi30k'], help='some of the corpora only')
    option('--at-once', type=int, default=1, help='runs at the same time, each with one thread (1)')
    option('--device', default='auto')
    args = experiment.begin(argv, device='cpu')
    if args.tiny: RECIPE.update(TINY)
    corpora = args.corpora or ['builtin'] + ['multi30k']*bool(args.multi30k)
    folders = {'builtin': None, 'multi30k': args.multi30k}
    experiment.facts |= {'seeds': list(range(max(RECIPE[name]['seeds'] for name in corpora))),
                         'corpus': {name: digest(prepare(name, folders[name])[0]) for name in corpora}}
    grid = partial(experiment.grid, {'recipe': RECIPE}, growing=True, device=default_device(args.device),
                   at_once=args.at_once)
    run_all(grid, partial(with_minutes, one_run, folders, args.device), corpora)


if __name__ == '__main__': main()
