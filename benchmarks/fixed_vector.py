"""What one vector forgets: lists of words read and written again, share of right words against length (paper §1, §2).

    python benchmarks/fixed_vector.py               # 13 runs of 2,000 steps: about 12 minutes of one CPU core

The task is the simplest translation there is: the model reads a list of 1 to 20 random words, and must write the same
words in the same order. Three models, trained alike and with about the same number of weights:

- one vector: a recurrent encoder–decoder; the decoder is given the two last states of the encoder, and nothing else
- all vectors: the same network (RNNSearch); the decoder looks, by attention, at the states of all words
- Transformer

All three at one learning rate, with three seeds. So that the first is not held down by its size or by its rate, it is
also trained with states of twice the width, and with half and twice the rate. Greedy search writes 100 new lists of
each length; counted are the words that are `right`, at their position, and those `kept` at any position. Writes
results/fixed_vector.json, which nbs/further/fixed_vector.ipynb reads. `cpu_minutes` are of computing, training and
search together.
"""
from collections import Counter
from functools import partial

import torch
import torch.nn.functional as F
from common import Experiment, descend, with_minutes

from transformer_nb.core import default_device, seed_everything
from transformer_nb.data.tokenizer import BOS, EOS, PAD, UNK
from transformer_nb.experiments.baselines import RNNSearch
from transformer_nb.experiments.table2 import greedy_anew
from transformer_nb.optimizer import adam, lrate
from transformer_nb.transformer import Transformer, preset

WORDS = ('dog cat child woman man boy girl garden house key book car sun king duck farm hill river road bread milk '
         'song doll hat shoe tree bird door').split()
FIRST = UNK + 1  # id of the first word
RECIPE = {
    'words': WORDS, 'longest': 20, 'lists_per_length': 100, 'lengths': list(range(2, 21, 2)), 'batch_tokens': 512,
    'steps': 2000, 'marks': [500, 1000, 2000], 'warmup': 100, 'd_model': 64, 'state': 88,
    'transformer': {'N': 2, 'h': 4, 'd_ff': 256, 'norm': 'pre'},
}
# model, width of a state, factor on the learning rate, seeds
RUNS = [('one vector', 88, 1., 3), ('all vectors', 88, 1., 3), ('Transformer', None, 1., 3), ('one vector', 176, 1., 2),
        ('one vector', 88, .5, 1), ('one vector', 88, 2., 1)]
EXAMPLES = (6, 16)  # lengths of lists of which the file keeps what was written


class OneVector(RNNSearch):
    "RNNSearch with a memory of a single row: both last states of the encoder, side by side."
    def encode(self,
        src  # Source ids, shape (b, n), padded on the right
    ):       # What the decoder is given, shape (b, 1, 2·d_h)
        states, last = super().encode(src), (src != PAD).sum(1) - 1
        rightwards = states[torch.arange(len(src)), last, :self.d_h]
        return torch.cat([rightwards, states[:, 0, self.d_h:]], -1)[:, None]

    def decode(self,
        tgt,     # Target ids shifted right, shape (b, m)
        memory,  # From `encode`: attention has one row to look at, so its weight is 1 at every step
        src      # Source ids, shape (b, n)
    ):           # Readout before the softmax map, shape (b, m, d_model)
        return super().decode(tgt, memory, src[:, :1])


def build(name, state):
    "An untrained model."
    cfg = preset('tiny', vocab_size=FIRST + len(WORDS), d_model=RECIPE['d_model'], dropout=0., label_smoothing=0.,
                 max_len=64, **RECIPE['transformer'])
    if name == 'Transformer': return Transformer(cfg)
    return OneVector(cfg, state) if name == 'one vector' else RNNSearch(cfg, state)


def lists(count, length, generator):
    "Random lists of words: source, target shifted right, target."
    words = torch.randint(FIRST, FIRST + len(WORDS), (count, length), generator=generator)
    end, begin = torch.full((count, 1), EOS), torch.full((count, 1), BOS)
    return torch.cat([words, end], 1), torch.cat([begin, words], 1), torch.cat([words, end], 1)


def some_batch(generator):
    "Lists of one length, which is drawn first."
    length = torch.randint(1, RECIPE['longest'] + 1, (1,), generator=generator).item()
    return lists(max(4, RECIPE['batch_tokens']//(length + 1)), length, generator)


def written(model, src):
    "What a model writes for a batch of lists, ids without EOS."
    device = model.embedding.weight.device
    return greedy_anew(model.eval(), src.to(device))


def score(model, length):
    "Shares of the words of new lists of this length: written at their position, and written anywhere."
    generator = torch.Generator().manual_seed(1000 + length)
    src, _, target = lists(RECIPE['lists_per_length'], length, generator)
    right = kept = 0
    for ids, row in zip(written(model, src), target[:, :-1].tolist()):
        right += sum(a == b for a, b in zip(ids, row))
        kept += (Counter(ids) & Counter(row)).total()
    return round(right/target[:, :-1].numel(), 4), round(kept/target[:, :-1].numel(), 4)


def train_to(model, optimizer, steps, factor, generator):
    "Train for some more steps; `steps` are their numbers, counted from 1."
    model.train()
    device = model.embedding.weight.device
    for step in steps:
        src, tgt_in, tgt_out = (ids.to(device) for ids in some_batch(generator))
        loss = F.cross_entropy(model(src, tgt_in).flatten(0, 1), tgt_out.flatten())
        descend(optimizer, loss, lrate(step, RECIPE['d_model'], RECIPE['warmup'], factor))


def example(model, length):
    "A list, and what the model wrote."
    src, _, target = lists(1, length, torch.Generator().manual_seed(length))
    name = lambda ids: ' '.join(WORDS[i - FIRST] if i >= FIRST else '?' for i in ids)
    return {'read': name(target[0, :-1].tolist()), 'written': name(written(model, src)[0])}


def one_run(device, model, state, lr_factor, seed):
    "Train a model, and measure at each mark."
    seed_everything(seed)
    model, generator, done = build(model, state).to(device), torch.Generator().manual_seed(seed), 0
    optimizer, right, kept = adam(model), {}, {}
    for mark in RECIPE['marks']:
        train_to(model, optimizer, range(done + 1, mark + 1), lr_factor, generator)
        right[mark], kept[mark] = zip(*(score(model, length) for length in RECIPE['lengths']))
        done = mark
    return {'weights': sum(p.numel() for p in model.parameters()), 'right': right, 'kept': kept,
            'examples': [example(model, length) for length in EXAMPLES]}


def main():
    experiment = Experiment(__file__, __doc__)
    experiment.option('--device', default='auto')
    args = experiment.begin(device='cpu')
    if args.tiny:
        RECIPE.update(steps=2, marks=[1, 2], lists_per_length=2, lengths=[2, 6])
        globals().update(RUNS=[(name, state, factor, 1) for name, state, factor, _ in RUNS[:3]])
    device, most = default_device(args.device), max(run[-1] for run in RUNS)
    experiment.facts['seeds'] = list(range(most))
    jobs = [{'model': name, 'state': state, 'lr_factor': factor, 'seed': seed}
            for name, state, factor, seeds in RUNS for seed in range(seeds)]
    experiment.grid({'recipe': RECIPE}, jobs, partial(with_minutes, one_run, device), device=device)


if __name__ == '__main__': main()
