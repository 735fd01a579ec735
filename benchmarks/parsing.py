"""English constituency parsing (paper §6.3, Table 4): F1 on the built-in grammar and on the Penn Treebank, WSJ only
and self-trained.

    python benchmarks/parsing.py                                  # the grammar's two parts: 10 minutes of one CPU core
    python benchmarks/parsing.py --treebank treebank.zip --news news.en.gz      # all four parts: about 50
    python benchmarks/parsing.py --only grammar                   # a part, or several; the others keep their figures

    grammar         40,000 gold trees; F1 on the splits 'test' and 'unseen', by beam; about 7 minutes
    grammar-semi    800 gold trees, then these with silver trees of 6,000 unlabelled sentences; about 3
    treebank        learning curve over 1/4, 1/2 and all training trees, the same steps for each; about 27
    treebank-semi   all gold trees, with silver trees of the --news sentences; needs the part treebank; about 10

--treebank is NLTK's treebank.zip (python -m nltk.downloader treebank: 3,914 trees), or a folder with the .mrg files
of the whole Penn Treebank (then sections 2-21, 22 and 23 are taken, as in the paper). --news are text files, one
sentence a line, also .gz. Every part is written into results/parsing.json as soon as it is done; `minutes` are by the
clock, `cpu_minutes` of computing. A part's last parser stays under --runs; try it with tnb-parse. The paper's sizes,
for a GPU:
    --treebank WSJ --d-model 1024 --d-ff 4096 --h 16 --batch-tokens 8192 --steps 100000 --warmup 4000 --lr-factor 1
"""
import gzip
import json
import random
import re
import sys
import time
import zipfile
from pathlib import Path

from common import Experiment, both_clocks, digest

from transformer_nb.core import default_device
from transformer_nb.english_german.grammar import builtin_corpus
from transformer_nb.experiments.parsing import (
    Parser, Tree, choose, f1, leaves, linearise, plain, read_trees, silver, spell, train_parser, words_of)

SETTINGS = {  # steps and sizes of each part
    'grammar': dict(steps=3200, d_model=128, d_ff=256, dropout=0.0, batch_tokens=1024, warmup=300, lr_factor=0.6),
    'grammar-semi': dict(steps=400, d_model=64, d_ff=128, dropout=0.1, batch_tokens=1024),
    'treebank': dict(steps=3000, d_model=128, d_ff=256, dropout=0.1, batch_tokens=1024, warmup=300, lr_factor=0.6,
                     least=5),
    'treebank-semi': dict(steps=3000, d_model=128, d_ff=256, dropout=0.1, batch_tokens=1024, warmup=300, lr_factor=0.6,
                          least=5),
}
BEAM, FEW = 21, None    # hypotheses; trees to test with, if not all
TUNABLE = dict(steps=int, d_model=int, d_ff=int, h=int, dropout=float, batch_tokens=int, warmup=int, lr_factor=float,
               least=int)


# Trees

def grammar_trees(**sizes):
    "The built-in corpus as trees, by split."
    return {name: [read_trees(e.tree)[0] for e in examples[:None if name == 'train' else FEW]]
            for name, examples in builtin_corpus(**sizes).items()}


def mrg_files(path):
    "Name and text of every file of a treebank, in order."
    if path.is_dir():
        return [
            (f.name, f.read_text(encoding='latin-1')) for f in sorted(path.rglob('wsj_*.mrg'), key=lambda f: f.name)
        ]
    with zipfile.ZipFile(path) as z:
        return [
            (Path(name).name, z.read(name).decode('latin-1'))
            for name in sorted(z.namelist())
            if re.search(r'wsj_\d+\.mrg$', name)
        ]


def split_of(name, whole):
    "Split that a file belongs to; the sample has sections 0 and 1 only."
    number = int(re.search(r'\d+', name)[0])
    if not whole: return 'train' if number < 160 else 'dev' if number < 180 else 'test'
    return {22: 'dev', 23: 'test'}.get(number//100, 'train' if 2 <= number//100 <= 21 else None)


def treebank(path):
    "Plain trees by split."
    files, splits = mrg_files(path), {'train': [], 'dev': [], 'test': []}
    if not files:
        sys.exit(f'{path}: holds no files wsj_*.mrg; give the treebank.zip of NLTK, or the folder of the Penn Treebank')
    whole = any(int(re.search(r'\d+', name)[0]) >= 200 for name, _ in files)
    for name, text in files:
        if split := split_of(name, whole): splits[split] += filter(None, map(plain, read_trees(text, name)))
    return splits


def ptb_words(line):
    "A line of news as the treebank writes it: punctuation apart, contractions cut, directed quotes."
    line = re.sub(r'(^|[\s(])["“]', r'\1 `` ', line)
    line = re.sub(r'["”]', " '' ", line).replace('’', "'")
    line = re.sub(r"([.?!])(\s*'')?\s*$", r' \1\2', line)
    line = re.sub(r'(?<!\d),|,(?!\d)|[;:?!()$%]|--', r' \g<0> ', line)
    line = re.sub(r"n't\b", " n't", line)
    return re.sub(r"(?<=\w)'(s|re|ve|ll|d|m)?(?=\s|$)", r" '\1", line).split()


def news(files, seen, most=25):
    "Sentences of at most `most` words that are not in the treebank."
    for file in files:
        with (gzip.open if file.suffix == '.gz' else open)(file, 'rt', encoding='utf-8', newline='\n') as lines:
            sentences = [
                ' '.join(words) for words in map(ptb_words, lines) if 3 < len(words) <= most and words[-1] in '.?!'
            ]
        yield from (s for s in sentences if s not in seen)


# Measuring

def sentences_of(trees): return [' '.join(words_of(t)) for t in trees]


def evaluate(parser, gold, beam=None):
    """Scores of the best well-formed trees, in percent, and under 'first' those of the search's first hypotheses.

    'sound' are the outputs that needed no repair.
    """
    beam = beam or BEAM
    ranked = parser.hypotheses(sentences_of(gold), beam=beam)
    return scores(gold, map(choose, ranked)) | {'beam': beam, 'first': scores(gold, [parses[0] for parses in ranked])}


def scores(gold, found):
    found = list(found)
    return f1(gold, [p.tree for p in found]) | {'sound': round(100*sum(p.sound for p in found)/len(found), 2)}


def evaluate_weak(parser, gold):
    """The same of a parser that often finds no tree: the scores are those of `Parser.parse`.

    Those under 'chosen' and 'first' are without its second search.
    """
    sentences = sentences_of(gold)
    ranked = parser.hypotheses(sentences, beam=BEAM)
    chosen = list(map(choose, ranked))
    return f1(gold, [p.tree for p in parser.insist(sentences, chosen, beam=BEAM)]) | {
        'beam': BEAM, 'chosen': scores(gold, chosen), 'first': scores(gold, [parses[0] for parses in ranked])}


def right_branching(tree):
    "A parser that knows one thing about English."
    *body, chain = leaves(tree)
    for leaf in reversed(body): chain = Tree('VP', (leaf, chain))
    return Tree('S', chain.kids if body else (chain,))


def train(part, trees, args, name=None, scale=1.):
    "A parser with the settings of a part, or with those of the command line."
    settings = SETTINGS[part] | given(args)
    settings['steps'] = round(scale*settings['steps'])
    out = args.runs/f'parsing-{name or part}'
    if out.exists(): raise SystemExit(f'{out}: is there already; remove it, or choose another --runs')
    start = time.process_time()
    parser = train_parser(trees, out, seed=args.seed, device=args.device, **settings)
    print(f"  {len(trees):,} trees, {settings['steps']:,} steps: {(time.process_time() - start) / 60:.1f} CPU minutes",
          flush=True)
    return parser, settings


def given(args): return {name: getattr(args, name) for name in TUNABLE if getattr(args, name) is not None}


def about(parser, settings):
    return {'settings': settings, 'parameters': sum(p.numel() for p in parser.model.parameters()),
            'vocabulary': parser.tokenizer.vocab_size}


# The parts

def grammar(args, keep):
    trees = grammar_trees(n_train=args.n_trees)
    parser, settings = train('grammar', trees['train'], args)
    scores = {name: evaluate(parser, trees[name]) for name in ('test', 'unseen')}
    beams = {beam: evaluate(parser, trees['test'], beam)['f1'] for beam in (1, 4)} | {BEAM: scores['test']['f1']}
    keep(trees, about(parser, settings) | {'trees': len(trees['train']), 'scores': scores, 'beams': beams})


def grammar_semi(args, keep):
    trees, n = grammar_trees(n_train=6800), 800
    truth = {s: t for s, t in zip(sentences_of(trees['train']), trees['train'])}
    parser, _ = train('grammar-semi', trees['train'][:n], args, 'grammar-few')
    added = silver(parser, sentences_of(trees['train'][n:]))
    both, settings = train('grammar-semi', trees['train'][:n] + added, args, scale=2.)
    longer, _ = train('grammar-semi', trees['train'][:n], args, 'grammar-few-longer', scale=2.)
    scores = {'gold': evaluate(longer, trees['test']), 'gold, half the steps': evaluate(parser, trees['test']),
              'gold+silver': evaluate(both, trees['test'])}
    keep(trees, about(both, settings) | {'gold_trees': n, 'silver_trees': len(added), 'scores': scores,
        'silver_f1': f1([truth[s] for s in sentences_of(added)], added)['f1']})


def lengths(trees):
    "What the limits of input + 50 and + 300 would cut, in percent of the trees."
    more = [len(linearise(t).split()) - len(leaves(t)) for t in trees]
    return {f'over_{extra}': round(100 * sum(m > extra for m in more) / len(more), 2) for extra in (50, 300)} | {
        'longest_extra': max(more)
    }


def unknown(tokenizer, trees):
    "Words that a vocabulary lacks, in percent."
    words = [word for t in trees for word in words_of(t)]
    return round(100*sum(a != b for a, b in zip(words, spell(tokenizer, words).split()))/len(words), 2)


def curve(args, keep):
    "The learning curve; a share that is trained again takes the place of its old figures."
    trees = treebank(args.treebank)
    print({name: len(split) for name, split in trees.items()}, flush=True)
    random.Random(args.seed).shuffle(trees['train'])
    for share in args.shares:
        cpu, some = time.process_time(), trees['train'][:round(share*len(trees['train']))]
        name = 'treebank' if share == 1 else f'treebank-{share}'
        parser, settings = train('treebank', some, args, name)
        run = about(parser, settings) | {'trees': len(some), 'unknown': unknown(parser.tokenizer, trees['test']),
            'scores': evaluate_weak(parser, trees['test']), 'cpu_minutes': round((time.process_time() - cpu)/60, 1)}
        print(f"  {run['scores']}", flush=True)
        others = [r for r in results(args).get('treebank', {}).get('runs', []) if r['trees'] != len(some)]
        runs = sorted([*others, run], key=lambda r: r['trees'])
        keep(trees, {'runs': runs, 'cpu_minutes': round(sum(r['cpu_minutes'] for r in runs), 1),
                     'baseline': f1(trees['test'], list(map(right_branching, trees['test']))),
                     'lengths': lengths(trees['train'])})


def treebank_semi(args, keep):
    trees = treebank(args.treebank)
    if not (args.runs / 'parsing-treebank').is_dir():
        sys.exit('treebank-semi needs the parser of the part treebank: run --only treebank first')
    parser = Parser.from_pretrained(args.runs/'parsing-treebank', args.device)
    unlabelled = list(news(args.news, set(sentences_of(trees['dev'] + trees['test']))))[:args.n_news]
    added = silver(parser, unlabelled)
    both, settings = train('treebank-semi', trees['train'] + added, args)
    scores = {'gold': evaluate_weak(parser, trees['test']), 'gold+silver': evaluate_weak(both, trees['test'])}
    keep(trees, about(both, settings) | {'gold_trees': len(trees['train']), 'unlabelled': len(unlabelled),
                                         'silver_trees': len(added), 'scores': scores})


PARTS = {'grammar': grammar, 'grammar-semi': grammar_semi, 'treebank': curve, 'treebank-semi': treebank_semi}


def wanted(args):
    "The parts to run, in order."
    possible = {'treebank': args.treebank, 'treebank-semi': args.treebank and args.news}
    if args.only:
        for part in args.only:
            if not possible.get(part, True):
                sys.exit(f"{part} needs --treebank{' and --news' if part == 'treebank-semi' else ''}")
    return [part for part in PARTS if (part in args.only if args.only else possible.get(part, True))]


def begun():
    experiment = Experiment(__file__, __doc__)
    option = experiment.option
    option('--only', nargs='+', choices=PARTS, help='parts to run (default: all that the given data allow)')
    option('--treebank', type=Path, help="NLTK's treebank.zip, or a folder with .mrg files")
    option('--news', type=Path, nargs='+', default=[], help='files of unlabelled sentences')
    option('--n-news', type=int, default=2500, help='unlabelled sentences to parse')
    option('--n-trees', type=int, default=40_000, help='trees of the part grammar')
    option('--shares', type=float, nargs='+', default=[0.25, 0.5, 1.0],
           help='of the training trees, for the learning curve')
    option('--seed', type=int, default=0)
    option('--device', default='auto')
    option('--runs', type=Path, default=Path('runs'))
    for name, kind in TUNABLE.items():
        option('--' + name.replace('_', '-'), type=kind, help="instead of the part's own")
    # parsers that have learned nothing find no silver trees: no tiny parts of theirs
    args = experiment.begin(only=['grammar'], n_trees=300, n_news=3, shares=[1.], steps=3, d_model=16, d_ff=16, h=2,
                            batch_tokens=256, device='cpu')
    if args.tiny: globals().update(BEAM=2, FEW=3)
    return experiment, args


def results(args): return json.loads(args.file.read_text()) if args.file.exists() else {}


def keeper(part, experiment):
    "A function that writes what a part has found so far, with the time it took."
    args = experiment.args
    experiment.began = both_clocks()

    def keep(trees, found):
        found = {'part': part, 'seed': args.seed, **experiment.where(default_device(args.device)),
                 'command': experiment.facts['command'], **experiment.minutes(), **found}
        rows = {name: [[linearise(t)] for t in split] for name, split in trees.items()}
        experiment.keep(found, 'part', corpus=digest(rows))
        print(json.dumps({k: found[k] for k in ('scores', 'beams', 'cpu_minutes', 'minutes') if k in found}),
              flush=True)

    return keep


def main():
    experiment, args = begun()
    for part in wanted(args):
        print(part, flush=True)
        PARTS[part](args, keeper(part, experiment))


if __name__ == '__main__': main()
