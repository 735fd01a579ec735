"""What the attention heads of a trained model look at, and what happens without them (paper's appendix).

The corpus is the built-in one.

    python benchmarks/attention_maps.py                     # the model that comes with the package
    python benchmarks/attention_maps.py --model runs/demo   # another one that was trained on this corpus

Writes results/attention_maps.json: the maps of four sentences, which the lessons draw. What is counted of heads stands
here, too: heads.py counts it in three trained models, and chooses heads by other sentences than those that it scores
them by.
"""
from collections import Counter
from contextlib import ExitStack
from itertools import combinations, count
from statistics import mean

import torch
from common import Experiment, cpu_name, digest

from transformer_nb.core import default_device
from transformer_nb.decode.evaluation import score
from transformer_nb.decode.translator import Translator
from transformer_nb.course.viewer import KINDS, compact, forced_attention, to_words
from transformer_nb.english_german.agreement import lexicon
from transformer_nb.english_german.constructions import Grammar
from transformer_nb.english_german.grammar import builtin_corpus
from transformer_nb.experiments.heads import (averaged_heads, between, cut_path, dependency, looks_at, per_head,
                                              uniform_heads, without_heads, words_right)

NAMES = {'pronoun': ('far_pronoun',), 'agreement': ('relative_clause',), 'bracket': ('perfect', 'modal', 'separable')}


def pairs_of(examples): return [(e.en, e.de) for e in examples]


# What is measured

def dependencies(names, n, seen, seed):
    "Fresh sentences of some constructions that hold the dependency of that name: pairs (Example, Dependency)."
    out = {}
    for name, constructions in names.items():
        g, found = Grammar(seed), {}
        for k in count():
            if len(found) == n: break
            e = g.sample(constructions[k % len(constructions)])
            d = dependency(e)
            if d and d.name == name and d.distance >= 3 and e.en not in seen: found[e.en] = e, d
        out[name] = list(found.values())
    return out


def round_grid(grid): return [[round(float(v), 3) for v in row] for row in grid]


def one_link_each(gold):
    "Of each target word one of the source words that it belongs to: the best that one link a word can do."
    last_of = [{j: i for i, j in links} for links in gold]
    return [{(i, j) for j, i in links.items()} for links in last_of]


def most_frequent(rows):
    "Share of the most frequent dependent word: what a model without any idea could reach."
    return round(Counter(e.de.split()[d.word] for e, d in rows).most_common(1)[0][1]/len(rows), 3)


def hits(translator, cases):
    "Share of the sentences in which a head looks where the dependency leads; the best that a fixed distance reaches."
    found, offsets = {kind: [] for kind in KINDS}, {kind: Counter() for kind in KINDS}
    for e, d in cases:
        words = to_words(forced_attention(translator, e.en, e.de))
        for kind in KINDS:
            if d.places[kind] is None: continue
            found[kind].append(looks_at(words, kind, d.places[kind]))
            offsets[kind][d.places[kind][1] - d.places[kind][0]] += 1
    return {kind: {'heads': round_grid(torch.stack(rows).float().mean(0)),
                   'fixed distance': round(offsets[kind].most_common(1)[0][1]/len(rows), 3)}
            for kind, rows in found.items() if rows}


def by_length(rows, example):
    "Sorted, so that sentences of similar length share a batch."
    return sorted(rows, key=lambda row: len(example(row).en))


def share(found): return round(mean(right for words in found for right in words), 4)


def right_words(translator, rows):
    "Of each sentence: is the word that depends on a far one right? And which of its others are?"
    found = words_right(translator, pairs_of(e for e, _ in rows))
    return ([right[d.word] for right, (_, d) in zip(found, rows)],
            [right[:d.word] + right[d.word + 1:] for right, (_, d) in zip(found, rows)])


def accuracy(translator, cases, others):
    "Share of right words: those that depend on a far word, all others of these sentences, those of the test split."
    found, rest = {}, []
    for name, rows in cases.items():
        dependent, other = right_words(translator, rows)
        found[name] = round(mean(dependent), 4)
        rest += other
    return found | {'other words': share(rest), 'test split': share(words_right(translator, pairs_of(others)))}


def grids(cells): return {key: [[cell[key] for cell in row] for row in cells] for key in cells[0][0]}


def ablation(translator, cases, others):
    model = translator.model
    by_name, test_words = (
        lambda: accuracy(translator, cases, others), lambda: share(words_right(translator, pairs_of(others))))
    result = {'whole': by_name(), 'without': {}, 'uniform': {}, 'all uniform': {}, 'averaged': {}}
    for kind in KINDS:
        result['without'][kind] = grids(per_head(model, kind, without_heads, by_name))
        result['uniform'][kind] = per_head(model, kind, uniform_heads, test_words)
        every = [(kind, layer, head) for layer in range(model.cfg.N) for head in range(model.cfg.h)]
        with uniform_heads(model, every): result['all uniform'][kind] = test_words()
        with averaged_heads(model, [kind]): result['averaged'][kind] = test_words()
        print(f'  {kind}: each head taken away', flush=True)
    return result


def together(translator, cases, others, dependencies):
    "Accuracy without the 1 to 4 heads that look most often at the far end, and without those that do so least."
    out = {}
    for name, kinds in (('pronoun', KINDS), ('bracket', ['decoder'])):
        looks = {(kind, layer, head): v for kind in kinds
                 for layer, row in enumerate(dependencies[name][kind]['heads']) for head, v in enumerate(row)}
        ranked = sorted(looks, key=lambda place: -looks[place])
        out[name] = {'heads': ranked[:4], 'other heads': ranked[:-5:-1]}
        for key, heads in (('without them', ranked[:4]), ('without others', ranked[:-5:-1])):
            out[name][key] = []
            for k in range(1, 5):
                with without_heads(translator.model, heads[:k]):
                    out[name][key].append(accuracy(translator, cases, others))
    return out


def paths(translator, rows, kinds):
    "Share of right words that depend on a far noun, if no head of these kinds sees it or the two words before it."
    right = 0
    for e, d in rows:
        maps = forced_attention(translator, e.en, e.de)
        with ExitStack() as stack:
            for kind in kinds:
                row, column = d.places[kind]
                blocked = between(maps, kind, [row], range(max(0, column - 2), column + 1))
                stack.enter_context(cut_path(translator.model, kind, blocked))
            right += words_right(translator, [(e.en, e.de)])[0][d.word]
    return round(right/len(rows), 3)


def by_number(translator, rows):
    "Share of right verbs after singular and after plural subjects."
    right = {'singular': [], 'plural': []}
    plural = {n.en_plural.split()[-1] for n in lexicon().nouns}
    for (e, d), words in zip(rows, words_right(translator, pairs_of(e for e, _ in rows))):
        right['plural' if e.en.split()[d.places['encoder'][1]] in plural else 'singular'].append(words[d.word])
    return {number: {'sentences': len(r), 'right': round(mean(r), 3)} for number, r in right.items()}


def examples_of(translator, cases, test):
    "One short sentence of each kind that is translated without a fault."
    pieces, chosen = lambda e: sum(map(len, translator._pairs([e.en], [e.de])[0])), {}
    for name, examples in {'test': test, **{name: [e for e, _ in rows] for name, rows in cases.items()}}.items():
        short = sorted((e for e in examples if len(e.en.split()) >= 8), key=pieces)[:40]
        found = translator.translate([e.en for e in short])
        e = next(e for e, said in zip(short, found) if said == e.de)
        chosen[name] = {'en': e.en, 'de': e.de} | compact(forced_attention(translator, e.en, e.de))
    return chosen


# The run

def measure_edits(translator, test, cases, dependencies):
    "What the model loses without heads and paths."
    fewer = {name: by_length(rows[:100], lambda row: row[0]) for name, rows in cases.items()}
    others = by_length(test[:100], lambda e: e)
    result = {'ablation': ablation(translator, fewer, others),
              'together': together(translator, fewer, others, dependencies)}
    ways = [kinds for n in range(4) for kinds in combinations(KINDS, n)]
    result['paths'] = {name: {' + '.join(kinds) or 'none': paths(translator, cases[name], kinds)
                              for kinds in ways} for name in ('pronoun', 'agreement')}
    return result


def of_model(translator, test):
    "What was trained how long, and how well it translates."
    bleu = score(translator.translate([e.en for e in test]), [e.de for e in test])['BLEU']
    return {'steps': translator.about['step'],
            'trained for': f"{translator.about.get('minutes') or translator.about['seconds']/60:.1f} minutes",
            'bleu': bleu['score'], 'signature': bleu['signature']}


def main():
    experiment = Experiment(__file__, __doc__)
    option = experiment.option
    option('--model', default='demo', help='checkpoint directory; demo is the model of the package')
    option('--seed', type=int, default=0, help='of the sentences that are drawn')
    option('--sentences', type=int, default=400, help='for each kind of dependency')
    option('--device', default='auto')
    args = experiment.begin(sentences=2, device='cpu')
    device, corpus = default_device(args.device), builtin_corpus()
    test = corpus['test'][:60 if args.tiny else None]
    cases = dependencies(NAMES, args.sentences, {e.en for e in corpus['train']}, 1_000_003 + args.seed)
    translator = Translator.from_pretrained(args.model, str(device))
    experiment.facts |= {'corpus': digest({name: pairs_of(rows) for name, rows in corpus.items()}),
                         'model': args.model, 'seed': args.seed, **of_model(translator, test),
                         'machine': f'{device}, {torch.get_num_threads()} threads, {cpu_name()}',
                         'torch': torch.__version__}
    experiment.facts |= experiment.minutes()
    experiment.save({'examples': examples_of(translator, cases, test)})
    print(f"{experiment.file}: {experiment.file.stat().st_size//1000} kB, {experiment.about}")


if __name__ == '__main__': main()
