"""Label smoothing: perplexity against BLEU (paper §5.4 and Table 3, row D), on the built-in corpus.

    python benchmarks/label_smoothing.py                  # 15 runs of 700 steps: about 44 minutes on one CPU core

Trains the model of `make demo` with ε 0, 0.1 and 0.2 and five seeds each, and writes results/label_smoothing.json,
which the lesson on regularization reads; a start with more seeds adds them. Perplexity and accuracy are those of the
validation split, against the hard targets and word piece by word piece; BLEU is that of a beam of 4 (sacreBLEU, cased)
on the split 'test' and on 'unseen' combinations of words. `minutes` are by the clock, `cpu_minutes` of computing (they
differ on a busy machine).
"""
import math
import statistics
import tempfile
from functools import partial

import torch
import torch.nn.functional as F
from common import Experiment, digest, few, seeds, with_minutes

from transformer_nb.core import default_device, seed_everything
from transformer_nb.data.batching import Batches, encode_pairs
from transformer_nb.data.corpora import load_corpus
from transformer_nb.data.tokenizer import PAD, train_tokenizer
from transformer_nb.decode.evaluation import score
from transformer_nb.decode.translator import Translator
from transformer_nb.experiments.variations import train_row
from transformer_nb.train.trainer import TrainingConfig
from transformer_nb.transformer import Transformer, preset

RECIPE = {'preset': 'tiny', 'norm': 'pre', 'dropout': 0., 'vocab_size': 2000, 'batch_tokens': 1536, 'warmup': 200,
          'lr_factor': .8, 'corpus_size': 40_000}


@torch.no_grad()
def validate(model, pairs):
    "Perplexity and accuracy per word piece, both against the hard targets; and the share that it is sure of."
    nll = right = sure = tokens = 0
    batches = Batches(pairs)
    for rows in batches.epoch(0):
        batch = batches.collate(rows).to(next(model.parameters()).device)
        logits, y = model(batch.src, batch.tgt_in)[batch.tgt_out != PAD].float(), batch.targets
        nll += F.cross_entropy(logits, y, reduction='sum').item()
        right += (logits.argmax(-1) == y).sum().item()
        sure += logits.softmax(-1).amax(-1).sum().item()
        tokens += len(y)
    return {'perplexity': math.exp(nll/tokens), 'accuracy': right/tokens, 'confidence': sure/tokens}


def one_run(corpus, tokenizer, steps, device, smoothing, seed):
    seed_everything(seed)
    cfg = preset(RECIPE['preset'], vocab_size=tokenizer.vocab_size, norm=RECIPE['norm'], dropout=RECIPE['dropout'],
        label_smoothing=smoothing)
    model = Transformer(cfg)
    encode = lambda name: encode_pairs(tokenizer, corpus[name], model.cfg.max_len)
    settings = TrainingConfig(steps=steps, batch_tokens=RECIPE['batch_tokens'], warmup=RECIPE['warmup'],
                              lr_scale=RECIPE['lr_factor'], seed=seed, device=str(device))
    train_row(model, encode('train'), encode('val'), settings, tempfile.gettempdir())
    found = validate(model.eval(), encode('val'))
    for name in corpus.tests:
        src, ref = zip(*corpus[name].pairs)
        bleu = score(Translator(model, tokenizer).translate(list(src)), list(ref))['BLEU']
        found |= {f'bleu_{name}': bleu['score'], 'signature': bleu['signature']}
    return found


def means(runs):
    "One row per smoothing: the mean over the seeds."
    keys = [k for k, v in runs[0].items() if isinstance(v, float) and k not in ('smoothing', 'minutes', 'cpu_minutes')]
    rows = {}
    for run in runs: rows.setdefault(run['smoothing'], []).append(run)
    return [
        {'smoothing': s, 'seeds': len(group)} | {k: statistics.mean(r[k] for r in group) for k in keys}
        for s, group in rows.items()
    ]


def main():
    experiment = Experiment(__file__, __doc__)
    experiment.option('--steps', type=int, default=700)
    experiment.option('--seeds', type=int, default=5)
    experiment.option('--smoothing', type=float, nargs='+', default=[0., .1, .2])
    experiment.option('--device', default='auto')
    args = experiment.begin(steps=2, seeds=1, smoothing=[0., .1], device='cpu')
    if args.tiny: RECIPE.update(corpus_size=2000, vocab_size=300)
    corpus, device = load_corpus('builtin', n_train=RECIPE['corpus_size']), default_device(args.device)
    if args.tiny: corpus.splits |= {name: few(corpus, 3)[name] for name in corpus.splits if name != 'train'}
    experiment.facts['corpus'] = digest(corpus)
    tokenizer = train_tokenizer((side for pair in corpus['train'].pairs for side in pair), RECIPE['vocab_size'])
    runs = experiment.grid(
        {'recipe': RECIPE, 'steps': args.steps},
        [{'smoothing': smoothing, 'seed': seed} for seed in seeds(args) for smoothing in args.smoothing],
        partial(with_minutes, one_run, corpus, tokenizer, args.steps, device),
        lambda runs: {'seeds': sorted({run['seed'] for run in runs}), 'signature': runs[0]['signature'],
                      'means': means(runs)}, growing=True, device=device)
    for row in means(runs):
        print('  '.join(f'{k} {v:.3f}' if isinstance(v, float) else f'{k} {v}' for k, v in row.items()))


if __name__ == '__main__': main()
