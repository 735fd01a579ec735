"""Which heads of three trained models do what, beside three models without training (paper's §4 and appendix).

    python tools/build_demo_model.py runs/demo1 1   # the recipe of the package's model with another seed: 13 minutes
    python tools/build_demo_model.py runs/demo2 2
    python benchmarks/heads.py                      # demo, runs/demo1 and runs/demo2: about 10 minutes of one core

The corpus is the built-in one. Whoever takes the best of sixteen heads, and says how good it is on the sentences by
which it was found, praises chance as well. So heads are chosen on validation sentences and scored on test sentences:
for alignment those of the two splits of the corpus; for dependencies new sentences of the grammar, of which no
English one is in the training split, in the other set, or in the test split. Models without training, and a head that
always looks the same number of words back, are chosen and scored in the same way.

What counts was written down before the second and the third model were measured. A head follows a dependency if it
looks at the right word more often, by 5 points and on both sets of sentences, than the best fixed distance and than
the best head of each model without training. A claim about heads is seen if it holds in each of the three models.

Writes results/heads.json, which the lessons on heads and on alignment and the page of claims read. Each model is
written at once; a second start goes on with what is missing. Of each trained model it also has the words that it gets
right without each head, and with paths cut.
"""
from collections import Counter
from functools import partial
from statistics import fmean, stdev

import torch
from attention_maps import (NAMES, by_length, by_number, dependencies, hits, measure_edits, most_frequent, of_model,
                            one_link_each, pairs_of, right_words, round_grid, share)
from common import Experiment, digest, with_minutes

from transformer_nb.core import default_device, seed_everything
from transformer_nb.course.viewer import KINDS, forced_attention
from transformer_nb.decode.alignment import between_words
from transformer_nb.decode.translator import Translator
from transformer_nb.english_german.grammar import builtin_corpus
from transformer_nb.experiments.alignment import aer, align, diagonal, head_aer
from transformer_nb.experiments.heads import head_distance, without_heads
from transformer_nb.experiments.variations import t95
from transformer_nb.transformer import Transformer

ALIGNED = 300  # sentences of each split, as in the lesson on alignment
RECIPE = {'sentences to align': ALIGNED, 'sentences of a dependency': 400, 'seed of the test sentences': 1_000_003,
          'seed of the validation sentences': 2_000_003}


# The sentences

def drawn(recipe, corpus):
    "Sentences with each dependency, for choosing and for scoring; the two have no English sentence in common."
    known, n = {e.en for e in corpus['train']}, recipe['sentences of a dependency']
    test = dependencies(NAMES, n, known, recipe['seed of the test sentences'])
    known |= {e.en for e in corpus['test']} | {e.en for rows in test.values() for e, _ in rows}
    return {'validation': dependencies(NAMES, n, known, recipe['seed of the validation sentences']), 'test': test}


def places(rows, kind): return [d.places[kind] for _, d in rows if d.places[kind]]


def fixed_distance(validation, test):
    "The head that always looks so many words back or ahead: the best one of the validation sentences."
    def share_of(distance, found): return round(fmean(column - row == distance for row, column in found), 3)
    (distance, _), = Counter(column - row for row, column in validation).most_common(1)
    return {'distance': distance, 'validation': share_of(distance, validation), 'test': share_of(distance, test)}


def without_a_model(corpus, cases):
    "What fixed distances and the diagonal reach, and the least error of one link for each German word."
    test = corpus['test'][:ALIGNED]
    gold = [set(e.alignment) for e in test]
    links = {'diagonal': [diagonal(len(e.en.split()), len(e.de.split())) for e in test],
             'best possible': one_link_each(gold)}
    found = {'alignment': {name: round(aer(its, gold), 3) for name, its in links.items()},
             'guessing': {name: most_frequent(rows) for name, rows in cases['test'].items()}}
    for name in NAMES:
        found[name] = {kind: fixed_distance(*(places(cases[split][name], kind) for split in ('validation', 'test')))
                       for kind in KINDS if places(cases['test'][name], kind)}
    return found


# Choosing and scoring

def every(grid): return [(value, layer, head) for layer, row in enumerate(grid) for head, value in enumerate(row)]


def chosen(validation, test, best=max):
    "The best head of the validation sentences: what it reaches there and on the test sentences, and the best there."
    value, layer, head = best(every(validation))
    return {'head': [layer, head], 'validation': value, 'test': test[layer][head], 'best on test': best(every(test))[0]}


def from_english(maps):
    "Each English word with the German word that looks at it most, in the mean of all heads."
    weights = maps['cross'].mean((0, 1), keepdim=True)[:, :, :-1]
    words = between_words(weights, maps['target'][:-1], maps['source'])[0, 0, :, :-1]
    return {(i, j) for i, j in enumerate(words.argmax(0).tolist())}


def aligned(translator, corpus):
    "Alignment error rates: of each head, and on the test sentences of several heads together."
    splits = {name: corpus[name][:ALIGNED] for name in ('val', 'test')}
    maps = {name: [forced_attention(translator, e.en, e.de) for e in rows] for name, rows in splits.items()}
    gold = {name: [set(e.alignment) for e in rows] for name, rows in splits.items()}
    validation, test = (round_grid(head_aer(maps[name], gold[name])) for name in ('val', 'test'))
    english, german = map(list, zip(*pairs_of(splits['test'])))
    mean_map = [{**m, 'cross': m['cross'].mean((0, 1), keepdim=True)} for m in maps['test']]
    several = {'mean of all heads': [align(m)[0][0] for m in mean_map],
               'Translator.align': [set(a.links) for a in translator.align(english, german)],
               'from English, mean of all heads': [from_english(m) for m in maps['test']]}
    found = {'validation': validation, 'test': test, 'chosen': chosen(validation, test, min),
             'fed': round_grid(head_aer(maps['val'], gold['val'], fed=True))}
    return found | {name: round(aer(links, gold['test']), 3) for name, links in several.items()}, maps['test']


def looked(translator, cases):
    "How often each head looks where a dependency leads, and the head that does so most."
    found = {}
    for name in NAMES:
        validation, test = (hits(translator, cases[split][name]) for split in ('validation', 'test'))
        found[name] = {kind: {'validation': validation[kind]['heads'], 'test': test[kind]['heads'],
                              'chosen': chosen(validation[kind]['heads'], test[kind]['heads'])} for kind in test}
    return found


def words_of(translator, rows):
    "Share of right words: those that depend on a far word, and all others of these sentences."
    dependent, others = right_words(translator, rows)
    return {'dependent': round(fmean(dependent), 4), 'other': share(others)}


def needed(translator, cases, found):
    "What each chosen head costs on the test sentences: right words with it and without it."
    for name, kinds in found.items():
        rows = by_length(cases['test'][name], lambda row: row[0])
        whole = words_of(translator, rows)
        for kind, looks in kinds.items():
            with without_heads(translator.model, [(kind, *looks['chosen']['head'])]):
                looks['chosen'] |= {'right with it': whole, 'right without it': words_of(translator, rows)}


# The runs

def looks(translator, corpus, cases):
    "What the maps of a model show."
    links, maps = aligned(translator, corpus)
    apart = head_distance(maps[:100], 'encoder')
    pairs = apart[~torch.eye(len(apart), dtype=torch.bool)]
    return {'apart': {name: round(float(getattr(pairs, name)()), 3) for name in ('min', 'mean', 'max')},
            'alignment': links, 'dependencies': looked(translator, cases)}


def trained(corpus, cases, device, model):
    translator, test = Translator.from_pretrained(model, str(device)), corpus['test']
    found = looks(translator, corpus, cases)
    needed(translator, cases, found['dependencies'])
    by_validation = {name: {kind: {'heads': grids['validation']} for kind, grids in kinds.items()}
                     for name, kinds in found['dependencies'].items()}
    return {'seed': translator.about['settings']['seed'], **of_model(translator, test), **found,
            'by number': by_number(translator, cases['test']['agreement']),
            **measure_edits(translator, test, cases['test'], by_validation)}


def without_training(corpus, cases, device, seed):
    demo = Translator.from_pretrained('demo', str(device))
    seed_everything(seed)
    return looks(Translator(Transformer(demo.model.cfg).eval().to(device), demo.tokenizer), corpus, cases)


def one_run(corpus, cases, device, model, **job):
    if model == 'untrained': return without_training(corpus, cases, device, **job)
    return trained(corpus, cases, device, model)


def over_models(scores):
    "Mean of what chosen heads reach on the test sentences, and half the width of its 95 % interval over models."
    half = t95(len(scores) - 1)*stdev(scores)/len(scores)**.5 if len(scores) > 1 else None
    return {'mean': round(fmean(scores), 3), 'half': half and round(half, 3), 'scores': scores}


def summary(rules, runs):
    "Each question over the trained models, and over the others."
    groups = {'trained': [run for run in runs if run['model'] != 'untrained'],
              'untrained': [run for run in runs if run['model'] == 'untrained']}
    def over(of): return {group: over_models([of(run)['chosen']['test'] for run in its])
                          for group, its in groups.items() if its}
    return {'without a model': rules, 'over models': {
        'alignment': over(lambda run: run['alignment']),
        **{name: {kind: over(lambda run: run['dependencies'][name][kind]) for kind in runs[0]['dependencies'][name]}
           for name in NAMES}}}


def main():
    experiment = Experiment(__file__, __doc__)
    option = experiment.option
    option('models', nargs='*', default=['demo', 'runs/demo1', 'runs/demo2'], metavar='MODEL',
           help='checkpoint directories; demo is the model of the package')
    option('--seeds', type=int, default=3, help='of models without training')
    option('--sentences', type=int, default=RECIPE['sentences of a dependency'], help='for each kind of dependency')
    option('--device', default='auto')
    args = experiment.begin(models=['demo'], seeds=1, sentences=2, device='cpu')
    recipe = RECIPE | {'sentences of a dependency': args.sentences}
    device, corpus = default_device(args.device), builtin_corpus()
    experiment.facts['corpus'] = digest({name: pairs_of(rows) for name, rows in corpus.items()})
    cases = drawn(recipe, corpus)
    if args.tiny: corpus = {name: corpus[name][:20] for name in ('val', 'test')}
    jobs = [{'model': 'untrained', 'seed': seed} for seed in range(args.seeds)]  # the quick ones first
    jobs += [{'model': model} for model in args.models]
    experiment.grid({'recipe': recipe}, jobs, partial(with_minutes, one_run, corpus, cases, device),
                    partial(summary, without_a_model(corpus, cases)), device=device)


if __name__ == '__main__': main()
