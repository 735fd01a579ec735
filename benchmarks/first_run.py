"""How a model learns to translate: short runs of the trainer, with translations at every checkpoint (paper §5, §6.1).

    python benchmarks/first_run.py                        # 3 runs of 800 steps: about 12 minutes of one CPU core

Trains the small model on the built-in corpus with the settings that `tnb-train` takes for a few minutes, and writes
results/first_run.json, which the lessons on training and on checkpoints read. After every 50 steps: the loss on the
validation split, how many of its sentences come out as the grammar has them, and what becomes of three of them (greedy
search); at the end the same for the average of the last five checkpoints. The runs differ in their seeds alone.
`minutes` are by the clock, `cpu_minutes` of computing (they differ on a busy machine).
"""
import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from common import cpu_name, write

from transformer_nb import checkpoints
from transformer_nb.core import seed_everything
from transformer_nb.data.batching import pad
from transformer_nb.data.corpora import load_corpus
from transformer_nb.data.tokenizer import EOS, train_tokenizer
from transformer_nb.decode.search import greedy
from transformer_nb.train.trainer import Trainer, TrainingConfig
from transformer_nb.transformer import Transformer, preset

OUT = Path(__file__).parent/'results'/'first_run.json'
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


def train(corpus, tokenizer, steps, seed, folder):
    "One run: its checkpoints, and the average of the last five of them."
    settings = dict(batch_tokens=RECIPE['batch_tokens'], warmup=RECIPE['warmup'], lr_scale=RECIPE['lr_factor'])
    seed_everything(seed)
    model = Transformer(preset(RECIPE['preset'], vocab_size=tokenizer.vocab_size, norm=RECIPE['norm'],
        dropout=RECIPE['dropout']))
    seen, pairs = [], corpus['val'].pairs
    trainer = Trainer(model, tokenizer=tokenizer, train=corpus['train'].pairs, val=pairs, out=folder,
        score=examiner(tokenizer, pairs, seen),
        cfg=TrainingConfig(**settings, steps=steps, save_every=50, seed=seed, device='cpu', threads=1))
    trainer.fit()
    model.load_state_dict(checkpoints.load(folder).model.state_dict())
    averaged = trainer.validate()
    keys = ('step', 'loss', 'val_loss', 'perplexity', 'score')
    rows = [{key: entry[key] for key in keys if key in entry} for entry in [*trainer.log, averaged]]
    *rows, averaged = (row | {'translations': found} for row, found in zip(rows, seen))
    return {'seed': seed, 'checkpoints': rows, 'averaged': averaged}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--steps', type=int, default=800)
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--out', type=Path, default=OUT)
    args = parser.parse_args()
    start, cpu = time.perf_counter(), time.process_time()
    corpus = load_corpus('builtin', n_train=RECIPE['corpus_size'])
    tokenizer = train_tokenizer((side for pair in corpus['train'].pairs for side in pair), RECIPE['vocab_size'])
    shown, runs = corpus['val'].pairs[:SHOWN], []
    for seed in range(args.seeds):
        with TemporaryDirectory() as folder:
            runs.append(train(corpus, tokenizer, args.steps, seed, Path(folder)/'run'))
        write({
            'recipe': RECIPE, 'steps': args.steps, 'command': 'python benchmarks/first_run.py',
            'machine': f'{cpu_name()}, 1 thread', 'torch': torch.__version__,
            'minutes': round((time.perf_counter() - start)/60, 1),
            'cpu_minutes': round((time.process_time() - cpu)/60, 1),
            'sources': [en for en, _ in shown], 'references': [de for _, de in shown],
            'tested': len(corpus['val'].pairs), 'runs': runs}, args.out)


if __name__ == '__main__': main()
