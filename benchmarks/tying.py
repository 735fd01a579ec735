"""One matrix for embedding and softmax, or two: what does sharing cost and gain (paper §3.4)?

    python benchmarks/tying.py                            # 18 runs: about 5 minutes on one CPU core

A tiny Transformer learns short sentences of the built-in corpus. `tied` has one matrix for source words, target words
and softmax, as in the paper; `untied` one for the words and one for the softmax. Both are trained at three rates with
three seeds. Half of the held-out sentences choose the rate and the step (`chosen_by`), so nobody is stopped too late;
the other half gives what is reported. `loss` is the cross-entropy in nats per word piece, `by_count` the same for
target pieces by how often they occur among the targets of training (`counts`). Writes results/tying.json, which the
lesson on embeddings reads.
"""
import argparse
import time
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from common import machine, rounded, write

from transformer_nb.data.batching import Batches, encode_pairs
from transformer_nb.data.corpora import Split
from transformer_nb.data.tokenizer import PAD, train_tokenizer
from transformer_nb.experiments.variations import short_corpus, untie
from transformer_nb.transformer import Transformer, TransformerConfig

OUT = Path(__file__).parent/'results'/'tying.json'
RECIPE = {'sentences': 800, 'max_words': 7, 'vocab_size': 1000, 'N': 1, 'd_model': 64, 'd_ff': 256, 'h': 4,
          'norm': 'pre', 'dropout': .1, 'batch_tokens': 256, 'steps': 1200, 'every': 120, 'rise': 100}
KINDS, RATES, SEEDS = ('tied', 'untied'), (.002, .004, .008), range(3)
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


def run(kind, rate, seed, train, halves, count):
    start, model, curve = time.process_time(), build(kind, seed), []
    optimizer = torch.optim.Adam(model.parameters(), betas=(.9, .98), eps=1e-9)
    batches, steps, rise = Batches(train, RECIPE['batch_tokens'], seed), RECIPE['steps'], RECIPE['rise']
    for step, (_, rows) in enumerate(islice(batches.micro_batches(), steps), 1):
        optimizer.param_groups[0]['lr'] = rate * min(step/rise, (rise/step)**.5)
        loss = losses(model, batches.collate(rows))[0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % RECIPE['every'] == 0:
            curve.append({'step': step, 'chosen_by': validate(model, halves[0], count)['loss'],
                          **validate(model, halves[1], count)})
    best = min(curve, key=lambda point: point['chosen_by'])
    print(f"{kind:6} rate {rate:<5} seed {seed}: best {best['loss']:.3f} at step {best['step']}, last "
          f"{curve[-1]['loss']:.3f}, {time.process_time() - start:.0f} s", flush=True)
    return {'kind': kind, 'rate': rate, 'seed': seed, 'parameters': sum(p.numel() for p in model.parameters()),
            'best': best, 'last': curve[-1], 'curve': [point['loss'] for point in curve]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seeds', type=int, default=len(SEEDS))
    parser.add_argument('--rates', type=float, nargs='+', default=RATES)
    parser.add_argument('--out', type=Path, default=OUT)
    args = parser.parse_args()
    clock, cpu, seeds = time.perf_counter(), time.process_time(), list(range(args.seeds))
    corpus = short_corpus(max_words=RECIPE['max_words'])
    sentences, others = corpus['train'][:RECIPE['sentences']], corpus['val'].pairs + corpus['test'].pairs
    tokenizer = train_tokenizer((side for pair in sentences for side in pair), RECIPE['vocab_size'])
    train, val = (encode_pairs(tokenizer, Split(pairs), 64) for pairs in (sentences, others))
    count = torch.bincount(torch.tensor([i for _, tgt in train for i in tgt]), minlength=RECIPE['vocab_size'])
    count[tokenizer.eos_id] = len(train)
    work = [(kind, rate, seed) for seed in seeds for rate in args.rates for kind in KINDS]
    runs = [rounded(run(*job, train, (val[::2], val[1::2]), count)) for job in work]
    about = {'recipe': RECIPE, 'pairs': len(train), 'validation': len(val), 'counts': COUNTS, 'rates': args.rates,
             'seeds': seeds, 'command': 'python benchmarks/tying.py', 'machine': machine(torch.device('cpu')),
             'torch': torch.__version__, 'minutes': round((time.perf_counter() - clock)/60, 1),
             'cpu_minutes': round((time.process_time() - cpu)/60, 1)}
    write(about | {'runs': runs}, args.out)


if __name__ == '__main__': main()
