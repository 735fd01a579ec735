"""One matrix for embedding and softmax, or two: what does sharing cost and gain (paper §3.4)?

    python benchmarks/tying.py                            # 18 runs: about 4 minutes on one CPU core

A tiny Transformer learns short sentences of the built-in corpus. `tied` has one matrix for source words, target words
and softmax, as in the paper; `untied` one for the words and one for the softmax. Both are trained at three rates with
three seeds. Half of the held-out sentences choose the rate and the step (`chosen_by`), so nobody is stopped too late;
the other half gives what is reported. `loss` is the cross-entropy in nats per word piece, `by_count` the same for
target pieces by how often they occur among the targets of training (`counts`). Writes results/tying.json, which the
lesson on embeddings reads.
"""
from functools import partial
from itertools import islice

import torch
import torch.nn.functional as F
from common import Experiment, descend, digest, rounded, seeds

from transformer_nb.data.batching import Batches, encode_pairs
from transformer_nb.data.corpora import Split
from transformer_nb.data.tokenizer import PAD, train_tokenizer
from transformer_nb.experiments.variations import short_corpus, untie
from transformer_nb.transformer import Transformer, TransformerConfig

RECIPE = {'sentences': 800, 'max_words': 7, 'vocab_size': 1000, 'N': 1, 'd_model': 64, 'd_ff': 256, 'h': 4,
          'norm': 'pre', 'dropout': .1, 'batch_tokens': 256, 'steps': 1200, 'every': 120, 'rise': 100}
KINDS, RATES = ('tied', 'untied'), (.002, .004, .008)
COUNTS = ((0, 10), (11, 50), (51, 10**6))  # how often a piece occurs among the training targets


def build(kind, seed):
    torch.manual_seed(seed)
    sizes = {key: RECIPE[key] for key in ('vocab_size', 'N', 'd_model', 'd_ff', 'h', 'norm', 'dropout')}
    model = Transformer(TransformerConfig(**sizes, max_len=64))
    return untie(model) if kind == 'untied' else model


def losses(model, batch):
    "Cross-entropy of every real target piece, and the pieces."
    logits = model(batch.src, batch.tgt_in)[batch.tgt_out != PAD]
    return F.cross_entropy(logits, batch.targets, reduction='none'), batch.targets


@torch.no_grad()
def validate(model, pairs, count):
    "Mean loss of all pieces, and by their number in training."
    model.eval()
    parts = [losses(model, batch) for batch in Batches(pairs, 4096).validation_batches()]
    model.train()
    loss, seen = torch.cat([nll for nll, _ in parts]), count[torch.cat([ids for _, ids in parts])]
    groups = [loss[(seen >= low) & (seen <= high)] for low, high in COUNTS]
    return {'loss': loss.mean().item(), 'by_count': [group.mean().item() for group in groups],
            'pieces': [len(group) for group in groups]}


def run(train, halves, count, kind, rate, seed):
    model, curve = build(kind, seed), []
    optimizer = torch.optim.Adam(model.parameters(), betas=(.9, .98), eps=1e-9)
    batches, steps, rise = Batches(train, RECIPE['batch_tokens'], seed), RECIPE['steps'], RECIPE['rise']
    for step, (_, rows) in enumerate(islice(batches.micro_batches(), steps), 1):
        loss = losses(model, batches.collate(rows))[0].mean()
        descend(optimizer, loss, rate * min(step/rise, (rise/step)**.5))
        if step % RECIPE['every'] == 0:
            curve.append({'step': step, 'chosen_by': validate(model, halves[0], count)['loss'],
                          **validate(model, halves[1], count)})
    best = min(curve, key=lambda point: point['chosen_by'])
    return rounded({'parameters': sum(p.numel() for p in model.parameters()), 'best': best, 'last': curve[-1],
                    'curve': [point['loss'] for point in curve]})


def main():
    experiment = Experiment(__file__, __doc__)
    experiment.option('--seeds', type=int, default=3)
    experiment.option('--rates', type=float, nargs='+', default=RATES)
    args = experiment.begin(seeds=1, rates=RATES[:1])
    if args.tiny: RECIPE.update(steps=2, every=1)
    corpus = short_corpus(max_words=RECIPE['max_words'])
    experiment.facts['corpus'] = digest(corpus)
    sentences, others = corpus['train'][:RECIPE['sentences']], corpus['val'].pairs + corpus['test'].pairs
    tokenizer = train_tokenizer((side for pair in sentences for side in pair), RECIPE['vocab_size'])
    train, val = (encode_pairs(tokenizer, Split(pairs), 64) for pairs in (sentences, others))
    count = torch.bincount(torch.tensor([int(i) for _, tgt in train for i in tgt]), minlength=RECIPE['vocab_size'])
    count[tokenizer.eos_id] = len(train)
    jobs = [{'kind': kind, 'rate': rate, 'seed': seed} for seed in seeds(args) for rate in args.rates for kind in KINDS]
    recipe = {'recipe': RECIPE, 'pairs': len(train), 'validation': len(val), 'counts': COUNTS, 'rates': args.rates,
              'seeds': seeds(args)}
    experiment.grid(recipe, jobs, partial(run, train, (val[::2], val[1::2]), count))


if __name__ == '__main__': main()
