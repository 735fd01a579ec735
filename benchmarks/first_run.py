"""How a model learns to translate: short runs of the trainer, with translations at every checkpoint (paper §5, §6.1).

    python benchmarks/first_run.py                        # 3 runs of 800 steps: about 11 minutes of one CPU core

Trains the small model on the built-in corpus with the settings that `tnb-train` takes for a few minutes, and writes
results/first_run.json, which the lessons on training and on checkpoints read. After every 50 steps: the loss on the
validation split, how many of its sentences come out as the grammar has them, and what becomes of three of them (greedy
search); at the end the same for the average of the last five checkpoints. The runs differ in their seeds alone.
`minutes` are by the clock, `cpu_minutes` of computing (they differ on a busy machine).
"""
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from common import Experiment, digest, few, seeds

from transformer_nb import checkpoints
from transformer_nb.core import seed_everything
from transformer_nb.data.batching import pad
from transformer_nb.data.corpora import load_corpus
from transformer_nb.data.tokenizer import EOS, train_tokenizer
from transformer_nb.decode.search import greedy
from transformer_nb.train.trainer import Trainer, TrainingConfig
from transformer_nb.transformer import Transformer, preset

RECIPE = {'preset': 'tiny', 'norm': 'pre', 'dropout': 0., 'vocab_size': 2000, 'batch_tokens': 1536, 'warmup': 200,
          'lr_factor': .8, 'corpus_size': 40_000}
SHOWN = 3  # sentences whose translations are kept


def examiner(tokenizer, pairs, seen):
    "A function of the model for the trainer's `score`: how many sentences are right; `seen` gets some translations."
    sources, references = zip(*pairs)
    src = pad([[*ids, EOS] for ids in tokenizer.encode(list(sources))])

    def examine(model):
        found = tokenizer.decode(greedy(model, src))
        seen.append(found[:SHOWN])
        return sum(a == b for a, b in zip(found, references))
    return examine


def one_run(corpus, tokenizer, steps, seed):
    "Its checkpoints, and the average of the last five of them."
    with TemporaryDirectory() as folder: return train(corpus, tokenizer, steps, seed, Path(folder)/'run')


def train(corpus, tokenizer, steps, seed, folder):
    settings = dict(batch_tokens=RECIPE['batch_tokens'], warmup=RECIPE['warmup'], lr_scale=RECIPE['lr_factor'])
    seed_everything(seed)
    model = Transformer(preset(RECIPE['preset'], vocab_size=tokenizer.vocab_size, norm=RECIPE['norm'],
        dropout=RECIPE['dropout']))
    seen, pairs = [], corpus['val'].pairs
    trainer = Trainer(model, tokenizer=tokenizer, train=corpus['train'].pairs, val=pairs, out=folder,
        score=examiner(tokenizer, pairs, seen),
        cfg=TrainingConfig(**settings, steps=steps, save_every=min(steps, 50), seed=seed, device='cpu', threads=1))
    trainer.fit()
    model.load_state_dict(checkpoints.load(folder).model.state_dict())
    averaged = trainer.validate()
    keys = ('step', 'loss', 'val_loss', 'perplexity', 'score')
    rows = [{key: entry[key] for key in keys if key in entry} for entry in [*trainer.log, averaged]]
    *rows, averaged = (row | {'translations': found} for row, found in zip(rows, seen))
    return {'checkpoints': rows, 'averaged': averaged}


def main():
    experiment = Experiment(__file__, __doc__)
    experiment.option('--steps', type=int, default=800)
    experiment.option('--seeds', type=int, default=3)
    args = experiment.begin(steps=2, seeds=1)
    if args.tiny: RECIPE.update(corpus_size=2000, vocab_size=300)
    torch.set_num_threads(1)
    corpus = load_corpus('builtin', n_train=RECIPE['corpus_size'])
    if args.tiny: corpus.splits['val'] = few(corpus, 3)['val']
    experiment.facts['corpus'] = digest(corpus)
    tokenizer = train_tokenizer((side for pair in corpus['train'].pairs for side in pair), RECIPE['vocab_size'])
    shown = corpus['val'].pairs[:SHOWN]
    experiment.grid({'recipe': RECIPE, 'steps': args.steps, 'sources': [en for en, _ in shown],
                     'references': [de for _, de in shown], 'tested': len(corpus['val'].pairs)},
                    [{'seed': seed} for seed in seeds(args)], partial(one_run, corpus, tokenizer, args.steps))


if __name__ == '__main__': main()
