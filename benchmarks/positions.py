"""Can sinusoids extrapolate? Two tasks, trained on short sequences and tested on longer ones (paper §3.5).

    python benchmarks/positions.py                        # 25 runs: about 3 minutes on one CPU core

`before`: one encoder layer names, at every position, the token before it. `copy`: an encoder and a decoder of one layer
each write the source down. Tokens are random, so only positions help. Training draws lengths from 4 to 20, and the test
goes up to 40; the decoder is given the right tokens so far. Each task is trained with sinusoids and with a learned
table (it has rows for 40 tokens, the second half of them never trained), `before` also with rotary attention, and with
five seeds. `right` is the share of right answers at each of `lengths`, `at` the share at each position of the longest
sequences (`before`: from the second on). Writes results/positions.json, which the lesson on positions reads.
"""
import torch
import torch.nn.functional as F
from common import Experiment, descend, seeds
from torch import nn

from transformer_nb.attention import attention
from transformer_nb.embeddings import Embedding
from transformer_nb.feed_forward import FeedForward
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.positional_encoding import PositionalEncoding, sinusoids
from transformer_nb.transformer import Transformer, TransformerConfig

WORDS, FIRST, BOS = 16, 3, 1        # ids 0 to 2 are special
SHORTEST, LONGEST, TEST, D = 4, 20, 40, 64
LENGTHS = range(SHORTEST, TEST + 1, 4)
STEPS = {'before': 900, 'copy': 1200}
RATE, BATCH = 5e-3, 32
KINDS = {'before': ('sinusoids', 'learned', 'rotary'), 'copy': ('sinusoids', 'learned')}


# The tasks: what goes in, and what is to come out at each position

def source(n, b, generator): return torch.randint(WORDS, (b, n), generator=generator) + FIRST


def answers(task, ids): return ids.roll(1, 1) if task == 'before' else ids


# The models

def rotate(x):
    pe = sinusoids(x.shape[-2], x.shape[-1]).to(x)
    sin, cos = pe[:, 0::2], pe[:, 1::2]
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a*cos - b*sin, a*sin + b*cos], dim=-1).flatten(-2)


class RotaryAttention(MultiHeadAttention):
    "Queries and keys turned by their positions; values as they are."
    def forward(self, q, k, v):
        Q, K, V = self.project(q, k, v)
        heads = attention(rotate(Q), rotate(K), V)[0]
        return self.W_o(heads.transpose(1, 2).flatten(-2)), None


class OneLayer(nn.Module):
    "The lesson's encoder of one layer."
    def __init__(self, kind):
        super().__init__()
        rotary = kind == 'rotary'
        self.emb = Embedding(WORDS + FIRST, D)
        self.pos = nn.Identity() if rotary else PositionalEncoding(D, TEST, learned=kind == 'learned')
        self.attend = (RotaryAttention if rotary else MultiHeadAttention)(D, 2)
        self.ff, self.norm1, self.norm2 = FeedForward(D, 4*D), nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, ids):
        x = self.pos(self.emb(ids))
        x = self.norm1(x + self.attend(x, x, x)[0])
        return self.emb.logits(self.norm2(x + self.ff(x)))


def build(task, kind, seed):
    torch.manual_seed(seed)
    if task == 'before': return OneLayer(kind)
    positions = 'learned' if kind == 'learned' else 'sinusoid'
    return Transformer(TransformerConfig(vocab_size=WORDS + FIRST, N=1, d_model=D, d_ff=4*D, h=2, dropout=0.,
                                         max_len=TEST, positions=positions))


def logits(task, model, ids, truth):
    "Scores at every position that has an answer, and the answers."
    if task == 'before': return model(ids)[:, 1:], truth[:, 1:]
    return model(ids, F.pad(truth[:, :-1], (1, 0), value=BOS)), truth


# Training and test

def train(task, model, seed):
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS[task], pct_start=.1)
    for _ in range(STEPS[task]):
        n = torch.randint(SHORTEST, LONGEST + 1, (1,), generator=generator).item()
        ids = source(n, BATCH, generator)
        scores, truth = logits(task, model, ids, answers(task, ids))
        descend(optimizer, F.cross_entropy(scores.flatten(0, 1), truth.flatten()))
        schedule.step()


@torch.no_grad()
def test(task, model, n):
    "Share of right answers at each position, on 300 new sequences of n tokens."
    ids = source(n, 300, torch.Generator().manual_seed(10**6 + n))
    scores, truth = logits(task, model, ids, answers(task, ids))
    return (scores.argmax(-1) == truth).float().mean(0)


def run(task, kind, seed):
    model = build(task, kind, seed)
    train(task, model, seed)
    return {'right': [round(test(task, model.eval(), n).mean().item(), 4) for n in LENGTHS],
            'at': [round(x, 3) for x in test(task, model, TEST).tolist()]}


def main():
    experiment = Experiment(__file__, __doc__)
    experiment.option('--seeds', type=int, default=5)
    args = experiment.begin(seeds=1)
    if args.tiny: globals().update(STEPS={'before': 4, 'copy': 4}, LENGTHS=(SHORTEST, TEST))
    recipe = {'steps': STEPS, 'rate': RATE, 'seeds': seeds(args), 'longest': LONGEST, 'lengths': list(LENGTHS)}
    experiment.grid(recipe, [{'task': task, 'kind': kind, 'seed': seed} for task, kinds in KINDS.items()
                             for kind in kinds for seed in seeds(args)], run)


if __name__ == '__main__': main()
