"""Parsing beside a recurrent model: RNNSearch and the Transformer learn from the same trees (paper §6.3).

    python benchmarks/parsing_rnn.py        # the built-in grammar, three seeds: 24 minutes of one CPU core

The paper says that the Transformer parses well even when it learns from 40,000 trees alone, "in contrast to RNN
sequence-to-sequence models". Here both models of table2.py, of nearly equal size, learn from 2,000 and from 40,000
trees of the grammar, by the same tokenizer, the same batches and for the same number of steps, which cost nearly the
same operations. (One step of each was measured before sizes and steps were chosen.) Of fewer trees, each is seen more
often.

Writes results/parsing_rnn.json, which a page beside the lesson on parsing reads. First each model is trained on 2,000
trees with every peak of the learning rate, all with seed 0: these are the trials. The peak with the lowest validation
loss is the model's own from then on, for both numbers of trees; the seeds of the comparison are others. Every output is
that of greedy search, at most 50 tokens longer than its sentence, and put right by `repair`; `sound` are those, in
percent, that needed no repair. Nothing is averaged, and no second search forbids what is not a tree. A run is written
as soon as it is done; a second start goes on with what is missing.
"""
import tempfile
import time
from functools import cache, partial

from common import Experiment, digest, with_minutes
from parsing import grammar_trees

from transformer_nb.core import default_device, seed_everything
from transformer_nb.experiments.parsing import encode_trees, f1, linearise, repair, spell, tree_tokenizer, words_of
from transformer_nb.experiments.table2 import build_model, step_flops, translations
from transformer_nb.train.trainer import Trainer, TrainingConfig

MODELS = 'Transformer', 'RNNSearch'
RECIPE = {
    'trees': [2000, 40_000], 'seeds': [1, 2, 3], 'trials': {'trees': 2000, 'seed': 0},
    'factors': [0.175, 0.35, 0.7, 1.4, 2.8], 'warmup': 200,
    'batch_tokens': 1024, 'norm': 'pre', 'dropout': 0.1,
    'extra': 50,                    # tokens that an output may have more than its sentence
    'tested': {'400': ['test'], '800': ['test', 'unseen']}}  # at which step on which splits
TINY = {'trees': [100, 200], 'seeds': [1], 'trials': {'trees': 100, 'seed': 0}, 'factors': [0.35, 0.7],
        'warmup': 2, 'batch_tokens': 256, 'extra': 2, 'tested': {'1': ['test'], '2': ['test', 'unseen']}}
SIZES = {}  # of the corpus, where they are not its own


@cache
def corpus(): return grammar_trees(n_train=max(RECIPE['trees']), **SIZES)


@cache
def prepare(n):
    "A tokenizer that knows the words of the first n trees; their ids, and those of the validation split."
    trees = corpus()['train'][:n]
    tokenizer = tree_tokenizer(trees)
    return tokenizer, encode_trees(tokenizer, trees), encode_trees(tokenizer, corpus()['val'])


def scores(model, tokenizer, gold):
    "What greedy search finds: F1 and its like, and how many outputs needed no repair, in percent."
    words = [words_of(tree) for tree in gold]
    lines = translations(model, tokenizer, [spell(tokenizer, ws) for ws in words], extra=RECIPE['extra'])
    found = [repair(*each) for each in zip(lines, words)]
    sound = sum(linearise(tree) == line for tree, line in zip(found, lines))
    return f1(gold, found) | {'sound': round(100*sound/len(gold), 2)}


def one_run(device, tested, model, trees, seed, lr_factor):
    "Train to the last step, with what was measured on the way."
    seed_everything(seed)
    tokenizer, train, val = prepare(trees)
    model = build_model(model, vocab_size=tokenizer.vocab_size, norm=RECIPE['norm'], dropout=RECIPE['dropout'])
    cfg = TrainingConfig(steps=max(map(int, RECIPE['tested'])), batch_tokens=RECIPE['batch_tokens'],
                         warmup=RECIPE['warmup'], lr_scale=lr_factor, seed=seed, device=device)
    trainer = Trainer(model.train(), train=train, val=val, cfg=cfg, out=tempfile.gettempdir())
    stream, flops, seen, seconds, curve = trainer.batches.stream(), 0, 0, 0., []
    for last, splits in RECIPE['tested'].items():
        start = time.process_time()
        while trainer.step < int(last):
            step = next(stream)
            trainer.train_step(step)
            flops += sum(step_flops(model, batch) for batch in step.batches)
            seen += sum(len(batch.src) for batch in step.batches)
        seconds += time.process_time() - start
        point = {'step': trainer.step, 'trees_seen': seen, 'flops': flops, 'cpu_seconds': round(seconds, 1),
                 **trainer.validate()}
        found = {split: scores(model.eval(), tokenizer, corpus()[split]) for split in splits if tested}
        curve.append(point | found)
        model.train()
    return {'weights': sum(p.numel() for p in model.parameters()), 'vocabulary': tokenizer.vocab_size, 'curve': curve}


def best_factor(tuning, model):
    "The peak of the trial with the lowest validation loss at its end."
    trials = [run for run in tuning if run['model'] == model]
    return min(trials, key=lambda run: run['curve'][-1]['val_loss'])['lr_factor']


def run_all(grid, make):
    "The trials; the comparison, seed by seed."
    trials = [{'model': model, **RECIPE['trials'], 'lr_factor': factor} for model in MODELS
              for factor in RECIPE['factors']]
    tuning = grid(trials, partial(make, False), into='tuning')
    best = {model: best_factor(tuning, model) for model in MODELS}

    def all_minutes(runs): return {'cpu_minutes': round(sum(run['cpu_minutes'] for run in tuning + runs), 1)}
    grid([{'model': model, 'trees': trees, 'seed': seed, 'lr_factor': best[model]} for seed in RECIPE['seeds']
          for trees in RECIPE['trees'] for model in MODELS], partial(make, True), all_minutes)


def main(argv=None):
    experiment = Experiment(__file__, __doc__)
    experiment.option('--at-once', type=int, default=1, help='runs at the same time, each with one thread (1)')
    experiment.option('--device', default='auto')
    args = experiment.begin(argv, device='cpu')
    if args.tiny:
        RECIPE.update(TINY)
        SIZES.update(n_val=3, n_test=3, n_unseen=3)
    rows = {split: [[' '.join(words_of(tree)), linearise(tree)] for tree in trees] for split, trees in corpus().items()}
    experiment.facts |= {'seeds': RECIPE['seeds'], 'corpus': digest(rows)}
    grid = partial(experiment.grid, {'recipe': RECIPE}, growing=True, device=default_device(args.device),
                   at_once=args.at_once)
    run_all(grid, partial(with_minutes, partial(one_run, args.device)))


if __name__ == '__main__': main()
