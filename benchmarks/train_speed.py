"""Speed of one training step: our model and loss beside torch.nn.Transformer, interleaved in one run on the same batch.

python benchmarks/train_speed.py [--preset small] [--vocab 10000] [--rounds 5] [--device cpu]
Prints target tokens/s of each (median over the rounds) and the ratio. A ratio is worth more than a number: machines are noisy.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from transformer_nb.batching import make_batch
from transformer_nb.core import default_device
from transformer_nb.optimizer import adam
from transformer_nb.tokenizer import PAD
from transformer_nb.training import batch_loss
from transformer_nb.transformer import Transformer, preset


class TorchTransformer(nn.Module):
    "torch.nn.Transformer with the paper's embeddings around it: what one writes with torch alone."
    def __init__(self, cfg):
        super().__init__()
        ours = Transformer(cfg)
        self.cfg, self.embed, self.embedding = cfg, ours.embed, ours.embedding
        self.core = nn.Transformer(cfg.d_model, cfg.h, cfg.N, cfg.N, cfg.d_ff, cfg.dropout, batch_first=True)

    def loss(self, batch):
        causal = nn.Transformer.generate_square_subsequent_mask(batch.tgt_in.shape[1], device=batch.src.device, dtype=torch.bool)
        hidden = self.core(self.embed(batch.src), self.embed(batch.tgt_in), tgt_mask=causal, src_key_padding_mask=batch.src == PAD,
            tgt_key_padding_mask=batch.tgt_in == PAD, memory_key_padding_mask=batch.src == PAD)
        return F.cross_entropy(self.embedding.logits(hidden).flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD, label_smoothing=self.cfg.label_smoothing)


class Ours(Transformer):
    def loss(self, batch): return batch_loss(self, batch)[0]


def random_batch(vocab, rows, device):
    "Sentences of 20 to 28 random tokens."
    torch.manual_seed(0)
    sentence = lambda: torch.randint(4, vocab, (int(torch.randint(20, 29, ())),)).tolist()
    return make_batch([(sentence(), sentence()) for _ in range(rows)]).to(device)


def step_seconds(model, optimizer, batch):
    start = time.perf_counter()
    optimizer.zero_grad()
    model.loss(batch).backward()
    optimizer.step()
    if batch.src.is_cuda: torch.cuda.synchronize()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--preset', default='small')
    parser.add_argument('--vocab', type=int, default=10_000)
    parser.add_argument('--rows', type=int, default=96, help='sentences in the batch')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--device', default='auto')
    args = parser.parse_args()
    cfg, device = preset(args.preset, vocab_size=args.vocab, dropout=.1), default_device(args.device)
    batch = random_batch(args.vocab, args.rows, device)
    runs = {name: (model, adam(model), []) for name, model in (('ours', Ours(cfg).to(device)), ('torch.nn', TorchTransformer(cfg).to(device)))}
    for i in range(args.rounds + 1):
        for model, optimizer, seconds in runs.values():
            s = step_seconds(model, optimizer, batch)
            if i: seconds.append(s)  # the first round warms up
    speed = {name: batch.n_tokens/statistics.median(seconds) for name, (_, _, seconds) in runs.items()}
    print(f'{args.preset}, vocabulary {args.vocab:,}, {device}, torch {torch.__version__}, {torch.get_num_threads()} threads, {args.rounds} rounds')
    for name, tokens in speed.items(): print(f'{name:<10} {tokens:>10,.0f} target tokens/s   {tokens/speed["torch.nn"]:.2f}x torch.nn')


if __name__ == '__main__': main()
