"""Table 3 in small: every row trained with five seeds on the built-in corpus (paper §6.2).

    python benchmarks/table3.py                              # 20 rows, and 3 of our own: 3.5 hours on one CPU core
    python benchmarks/table3.py --rows base C1 --seeds 9     # some rows, more seeds
    python benchmarks/table3.py --at-once 14                 # on 14 cores

Writes results/table3.json, which the lesson on variations reads. Each finished run is written at once; a second start
goes on with what is missing, seed by seed, so that a table that was cut short is whole in its first seeds; `left` in
the file says how many runs are missing. Big, which takes three times as many steps, has one seed. Base has the same
seeds as the others: a run of base whose seed no other row has would say nothing about a difference from base.

Where it deviates from the paper, apart from size: pre-norm layers, and a shorter, higher learning rate. Runs of
base with the paper's post-norm ('post') are made beside. Perplexity is that of the validation split, word piece by
word piece and against the hard targets; BLEU is that of a beam of 4 with α 0.6 (sacreBLEU, cased) on the split
'test', of the last step's weights: as in the paper's table, no checkpoints are averaged. `minutes` are by the clock,
`cpu_minutes` of computing (they differ on a busy machine). table3_short.py makes the same with a third of the steps,
table3_few.py the rows D with half of the sentences.
"""
import tempfile
from collections import Counter
from functools import partial
from math import ceil

from common import Experiment, digest, few, with_minutes

from transformer_nb.data.batching import Batches, encode_pairs
from transformer_nb.core import default_device, seed_everything
from transformer_nb.data.tokenizer import train_tokenizer
from transformer_nb.train.trainer import TrainingConfig
from transformer_nb.decode.evaluation import score
from transformer_nb.decode.translator import Translator
from transformer_nb.experiments.variations import EXTRAS, LONGER, ROWS, build_row, short_corpus, train_row

RECIPE = {'d_model': 64, 'N': 3, 'norm': 'pre', 'vocab_size': 1000, 'max_len': 256, 'corpus_size': 20_000,
          'max_words': 7, 'batch_tokens': 768, 'warmup': 120, 'lr_factor': 0.6, 'steps': 1200}
TINY = {'d_model': 32, 'vocab_size': 400, 'corpus_size': 2000, 'batch_tokens': 256}  # and three sentences to test with
OWN = ('average', 'untied', 'post')  # the other EXTRAS are averaging.py's
NOTE = (
    "big: three times the steps of the others (as in the paper), and one seed only. "
    "Our own rows: base with averaged heads ('average'), with a softmax matrix of its own ('untied'), with the paper's "
    "post-norm ('post')"
)


def prepare(recipe, tiny):
    "Corpus, tokenizer, and the ids of training and validation split."
    corpus = short_corpus(recipe['corpus_size'], recipe['max_words'])
    if tiny: corpus.splits |= {name: few(corpus, 3)[name] for name in ('val', 'test')}
    if 'pairs' in recipe: corpus.splits['train'] = few(corpus, recipe['pairs'])['train']
    tokenizer = train_tokenizer((side for pair in corpus['train'].pairs for side in pair), recipe['vocab_size'])
    return corpus, tokenizer, *(encode_pairs(tokenizer, corpus[name], recipe['max_len']) for name in ('train', 'val'))


def one_run(recipe, corpus, tokenizer, pairs, val, device, row, seed):
    seed_everything(seed)
    model = build_row(row, recipe['d_model'], recipe['N'], vocab_size=tokenizer.vocab_size, norm=recipe['norm'],
                      max_len=recipe['max_len'])
    settings = TrainingConfig(steps=recipe['steps'] * LONGER.get(row, 1), batch_tokens=recipe['batch_tokens'],
                              warmup=recipe['warmup'], lr_scale=recipe['lr_factor'], seed=seed, device=device)
    every = ceil(settings.steps/recipe['points']) if 'points' in recipe else None
    found = train_row(model, pairs, val, settings, tempfile.gettempdir(), every)
    src, ref = zip(*corpus['test'].pairs)
    bleu = score(Translator(model, tokenizer).translate(list(src)), list(ref))['BLEU']
    return {'steps': settings.steps, 'weights': sum(p.numel() for p in model.parameters()), **found,
            'bleu': bleu['score'], 'signature': bleu['signature']}


def n_seeds(row, seeds): return 1 if row == 'big' else seeds


def jobs(rows, seeds):
    "The runs: seed by seed; big, the longest, first in its seed, then the table's rows and then those of our own."
    ordered = sorted((row for row in (*ROWS, *EXTRAS) if row in rows), key=lambda row: row != 'big')
    return [{'row': row, 'seed': seed} for seed in range(seeds) for row in ordered if seed < n_seeds(row, seeds)]


def main(argv=None, script=__file__, doc=__doc__, seeds=5, steps=RECIPE['steps'], rows=(*ROWS, *OWN), note=NOTE,
         **more):
    "`more` is what the recipe has besides: the first `pairs` for training alone, `points` of a curve."
    experiment = Experiment(script, doc)
    option = experiment.option
    option('--rows', nargs='+', choices=[*ROWS, *EXTRAS], default=[*rows], metavar='ROW')
    option('--seeds', type=int, default=seeds, help="of every row but 'big', which has one")
    option('--steps', type=int, default=steps, help="of every row but 'big', which takes three times as many")
    option('--at-once', type=int, default=1, help='runs at the same time, each with one thread (1)')
    option('--device', default='auto')
    tiny = [row for row in ('base', 'B1', 'D1', 'untied', 'big') if row in rows]
    args = experiment.begin(argv, rows=tiny, seeds=1, steps=2, device='cpu')
    recipe = RECIPE | more | (TINY if args.tiny else {}) | {'steps': args.steps}
    corpus, *data = prepare(recipe, args.tiny)
    experiment.facts['corpus'] = digest(corpus)
    of_data = {'sentences': {name: len(split) for name, split in corpus.splits.items()},
               'steps_per_epoch': Batches(data[1], recipe['batch_tokens']).n_batches}
    summary = lambda runs: {'note': note, **of_data, 'runs_of': dict(Counter(run['row'] for run in runs)),
                            'signature': runs[0]['signature']}
    experiment.grid({'recipe': recipe}, jobs(args.rows, args.seeds),
                    partial(with_minutes, one_run, recipe, corpus, *data, args.device), summary, growing=True,
                    device=default_device(args.device), at_once=args.at_once)


if __name__ == '__main__': main()
