"""Take one part of the layers away, train, and look (paper §3.1, §3.3 to 3.5); and what the base model is at its start.

    python benchmarks/ablations.py                        # 165 runs of 300 steps: about 8 minutes on one CPU core

A stack of N = 6 encoder layers reads sentences of four words in two forms, plain and marked. It gives each word back,
in the other form if its left neighbour is marked. Each variant lacks one part and is trained at three rates with five
seeds, the same for all. Some are trained again from Xavier's start, which is louder than PyTorch's own. `right` is the
share of right answers on 500 sentences that no run has seen, `loss` the cross-entropy there in nats; `curve` is the
training loss, mean of ten steps.

`start` is the paper's base model (6 + 6 layers, d_model 512) before its first step: the gradient of W_2 in each decoder
layer, and how far one step of Adam moves the decoder's output, as a share of the output itself, at the peak of the
paper's schedule, a tenth, a hundredth and a 4,000th of it, which is where the schedule begins. Writes
results/ablations.json, which the lesson on norms reads.
"""
import torch
import torch.nn.functional as F
from common import Experiment, descend, rounded, seeds
from torch import nn

from transformer_nb.optimizer import lrate
from transformer_nb.transformer import Transformer, TransformerConfig

WORDS, LENGTH, FIRST = 4, 8, 3     # ids 0 to 2 are special
RATES, STEPS, RISE = (.001, .003, .01), 300, 40
NORMS = 'post', 'pre'                # of the base model
PARTS = 1, 10, 100, 4000            # of the peak of the paper's schedule


# The task

def sentences(n, generator):
    "Words in a plain (even) or marked (odd) form, and the answers: the other form after a marked word."
    ids = torch.randint(2*WORDS, (n, LENGTH), generator=generator)
    left = F.pad(ids, (1, 0))[:, :-1]
    return ids + FIRST, (ids ^ (left % 2)) + FIRST


# What is taken away

class Wrap(nn.Module):
    "A wrapper of a sub-layer f by any rule of x, f and a LayerNorm."
    def __init__(self, rule, d_model):
        super().__init__()
        self.norm, self.rule = nn.LayerNorm(d_model), rule

    def forward(self, x, sublayer): return self.rule(x, sublayer, self.norm)


def wrap(rule, which=slice(None)):
    def change(model):
        for layer in model.encoder:
            for i in range(2)[which]: layer.residuals[i] = Wrap(rule, model.cfg.d_model)
    return change


def pass_by(x, f, norm): return x
def plain_words(model): model.embedding.scale = 1.
def no_positions(model): model.positions.table.zero_()


VARIANTS = {
    'as printed': None,
    'pre-norm': None,
    'no residual': wrap(lambda x, f, norm: norm(f(x))),
    'no LayerNorm': wrap(lambda x, f, norm: x + f(x)),
    'neither': wrap(lambda x, f, norm: f(x)),
    'no attention': wrap(pass_by, slice(0, 1)),
    'no feed-forward': wrap(pass_by, slice(1, 2)),
    'no positions': no_positions,
    'no √d_model': plain_words}


def xavier(model):
    for p in (*model.encoder.parameters(), *model.decoder.parameters()):
        if p.dim() > 1: nn.init.xavier_uniform_(p)


def build(name, seed, start):
    torch.manual_seed(seed)
    sizes = dict(vocab_size=2*WORDS + FIRST, N=6, d_model=32, d_ff=128, h=4, dropout=0., max_len=LENGTH)
    model = Transformer(TransformerConfig(**sizes, norm='pre' if name == 'pre-norm' else 'post'))
    del model.decoder[:]
    if VARIANTS[name]: VARIANTS[name](model)
    if start == 'Xavier': xavier(model)
    return model


# Training

def answer(model, ids): return model.embedding.logits(model.encode(ids)).flatten(0, 1)


def run(variant, start, rate, seed):
    model, generator, losses = build(variant, seed, start), torch.Generator().manual_seed(seed), []
    optimizer = torch.optim.Adam(model.parameters(), betas=(.9, .98), eps=1e-9)
    for step in range(1, STEPS + 1):
        ids, truth = sentences(32, generator)
        loss = F.cross_entropy(answer(model, ids), truth.flatten())
        descend(optimizer, loss, rate * min(1, step/RISE) * (1 - step/(STEPS + 1))**.5)
        losses.append(loss.item())
    return rounded(test(model) | {'curve': torch.tensor(losses).view(-1, 10).mean(1).tolist()})


@torch.no_grad()
def test(model):
    ids, truth = sentences(500, torch.Generator().manual_seed(10**6))
    logits, truth = answer(model, ids), truth.flatten()
    return {'right': (logits.argmax(-1) == truth).float().mean().item(), 'loss': F.cross_entropy(logits, truth).item()}


# The base model at its start

def at_start(norm, start, seed):
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(vocab_size=1000, dropout=0., norm=norm))
    if start == 'Xavier': xavier(model)
    batch = torch.randint(3, 1000, (3, 8, 20))
    before = output(model, *batch)
    F.cross_entropy(model.embedding.logits(before).flatten(0, 1), batch[2].flatten()).backward()
    gradients = [layer.feed_forward.W_2.weight.grad.norm().item() for layer in model.decoder]
    weights, moved = [p.detach().clone() for p in model.parameters()], {}
    for part in PARTS:
        torch.optim.Adam(model.parameters(), lr=lrate(4000, 512)/part, betas=(.9, .98), eps=1e-9).step()
        with torch.no_grad():
            moved[str(part)] = ((output(model, *batch) - before).norm()/before.norm()).item()
            for p, old in zip(model.parameters(), weights): p.copy_(old)
    print(f'base, {norm}-norm, {start}, seed {seed}: moved', *(f'{x:.4f}' for x in moved.values()), flush=True)
    return {'norm': norm, 'start': start, 'seed': seed} | rounded({'gradients': gradients, 'moved': moved})


def output(model, src, tgt, _): return model.decode(tgt, model.encode(src), src)


def main():
    experiment = Experiment(__file__, __doc__)
    experiment.option('--seeds', type=int, default=5)
    args = experiment.begin(seeds=1)
    if args.tiny: globals().update(STEPS=10, RATES=(.003,), NORMS=('post',), PARTS=(1,))
    work = [*((name, 'PyTorch') for name in VARIANTS), ('as printed', 'Xavier'), ('no LayerNorm', 'Xavier')]
    jobs = [{'variant': name, 'start': start, 'rate': rate, 'seed': seed}
            for name, start in work for rate in RATES for seed in seeds(args)]
    base = [at_start(norm, start, seed) for norm in NORMS for start in ('PyTorch', 'Xavier') for seed in seeds(args)]
    recipe = {'steps': STEPS, 'rates': RATES, 'seeds': seeds(args)}
    experiment.grid(recipe, jobs, run, lambda runs: {'start': base})


if __name__ == '__main__': main()
