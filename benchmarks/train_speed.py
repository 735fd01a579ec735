"""Speed and memory of a training step: ours beside torch.nn.Transformer and Hugging Face Marian, in one run.

    make bench                                                      # installs transformers, then runs this script
    python benchmarks/train_speed.py --preset base --dtype bfloat16 --json

Every worker is a fresh process, and one computes at a time. A round starts each of them once, in random order, for a
repetition that warms up and two that are timed, on the same batches. With --here all of them are made in this process,
one model after the other, and the file is written after each. Method and columns: benchmarks/README.md
"""
import gc
import json
import math
import os
import random
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from statistics import median

import torch
import torch.nn.functional as F
from torch import nn

import render
from common import Experiment, machine
from workers import (alike, calm, clip, interleaved, padded, peak_of, random_ids, random_marian, serve, source_lengths,
                     speed, timed)

PEERS = ('torch.nn', 'torch.nn tuned', 'Marian')
PAD, BOS, EOS = range(3)  # data.tokenizer's, which peers do not import: it would count as their memory


# The work, the same for everyone

def corpus(vocab, n, seed=1706):
    "Pairs of random ids: source lengths log-normal around 25, from 3 to 100, and targets about as long."
    rng = random.Random(seed)
    for s in source_lengths(n, rng):
        t = clip(s*rng.lognormvariate(0, .15))
        yield random_ids(s, vocab, rng), random_ids(t, vocab, rng)


def work(preset, vocab, batch_tokens, n=6000):
    "The batches of one repetition: the median of an epoch sorted by length; for the small preset its quartiles."
    batches = [[]]
    for pair in sorted(corpus(vocab, n), key=lambda pair: (max(map(len, pair)), len(pair[1]))):
        longest = max(len(tgt) + 1 for _, tgt in [*batches[-1], pair])  # with EOS
        if longest*(len(batches[-1]) + 1) > batch_tokens: batches.append([])
        batches[-1].append(pair)
    return [batches[len(batches)*quarter//4] for quarter in ((1, 2, 3) if preset == 'small' else (2,))]


# The models: each function gives model, optimizer, loss of a batch, and the batches on the device

def ours(cfg, device, work, compiled=False):
    from transformer_nb.core import keep_memory
    from transformer_nb.data.batching import make_batch
    from transformer_nb.optimizer import adam
    from transformer_nb.parts.exchange import with_fast_dropout
    from transformer_nb.parts.packing import with_packed_attention
    from transformer_nb.train.trainer import batch_loss, compile_layers
    from transformer_nb.transformer import Transformer, TransformerConfig
    model = with_packed_attention(Transformer(TransformerConfig(**cfg)).to(device))  # as the Trainer does
    if device.type == 'cpu':
        keep_memory()
        with_fast_dropout(model)
    if compiled: compile_layers(model)
    batches = [make_batch(pairs).to(device) for pairs in work]
    return model, adam(model), lambda batch: batch_loss(model, batch, compiled)[0], batches


def peer(model, loss, device, work):
    "What the peers share: torch's fused Adam, and batches of source, target after BOS, target before EOS."
    optimizer = torch.optim.Adam(model.to(device).parameters(), betas=(.9, .98), eps=1e-9, fused=True)
    sides = [zip(*((src + [EOS], [BOS] + tgt, tgt + [EOS]) for src, tgt in pairs)) for pairs in work]
    return model, optimizer, loss, [[padded(side, PAD, device) for side in batch] for batch in sides]


class TorchTransformer(nn.Module):
    "torch.nn.Transformer between the paper's embeddings and a tied output layer: what one writes with torch alone."
    def __init__(self, cfg):
        super().__init__()
        d = cfg['d_model']
        self.embedding, self.dropout = nn.Embedding(cfg['vocab_size'], d, PAD), nn.Dropout(cfg['dropout'])
        nn.init.normal_(self.embedding.weight, std=d**-.5)
        angles = torch.arange(512)[:, None]*torch.exp(torch.arange(0, d, 2)*(-math.log(10_000)/d))
        self.register_buffer('positions', torch.stack((angles.sin(), angles.cos()), -1).flatten(1))
        self.core = nn.Transformer(d, cfg['h'], cfg['N'], cfg['N'], cfg['d_ff'], cfg['dropout'], batch_first=True)

    def embed(self, ids): return self.dropout(self.embedding(ids)*self.core.d_model**.5 + self.positions[:ids.shape[1]])

    def forward(self, src, tgt):
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1], device=tgt.device)
        pad = torch.zeros_like(src, dtype=causal.dtype).masked_fill_(src == PAD, -math.inf)
        hidden = self.core(self.embed(src), self.embed(tgt), tgt_mask=causal, tgt_is_causal=True,
                           src_key_padding_mask=pad, memory_key_padding_mask=pad)
        return F.linear(hidden, self.embedding.weight)


def torch_nn(cfg, device, work, tuned=False):
    "As documented, or `tuned`: dropout only where the paper has it, not in attention's weights or after ReLU."
    model = TorchTransformer(cfg)
    for module in model.modules() if tuned else ():
        if isinstance(module, nn.MultiheadAttention): module.dropout = 0.
        if isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)): module.dropout.p = 0.
    def loss(batch):
        src, tgt_in, tgt_out = batch
        logits = model(src, tgt_in).flatten(0, 1)
        return F.cross_entropy(logits, tgt_out.flatten(), ignore_index=PAD, label_smoothing=cfg['label_smoothing'])
    return peer(model, loss, device, work)


def marian(cfg, device, work):
    "Marian, with the label smoothing of Hugging Face's own trainer."
    from transformers.trainer_pt_utils import LabelSmoother
    model = random_marian(cfg, PAD, BOS, EOS)
    smoothed = LabelSmoother(cfg['label_smoothing'], ignore_index=PAD)
    def loss(batch):
        src, tgt_in, tgt_out = batch
        mask = (src != PAD).long()
        return smoothed(model(input_ids=src, attention_mask=mask, decoder_input_ids=tgt_in, use_cache=False), tgt_out)
    return peer(model, loss, device, work)


MODELS = {'ours': ours, 'ours compiled': partial(ours, compiled=True),
          'torch.nn': torch_nn, 'torch.nn tuned': partial(torch_nn, tuned=True), 'Marian': marian}


# A worker

def synchronize(device):
    if device.type != 'cpu': torch.accelerator.synchronize()


def training(task, device):
    "A function that makes one repetition: a step on every batch; on a GPU many times over."
    batches = work(task['preset'], task['vocab'], task['batch_tokens'], task.get('pairs', 6000))
    model, optimizer, loss, batches = MODELS[task['name']](task['cfg'], device, batches)
    for group in optimizer.param_groups: group['lr'] = 1e-4
    def step(batch):
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=task['dtype'] == 'bfloat16'): value = loss(batch)
        value.backward()
        optimizer.step()
        return value.detach()
    def repetition():
        losses = [step(batch) for _ in range(task['passes']) for batch in batches]
        synchronize(device)
        return {'loss': losses[-1].item()}
    model.train()
    return repetition


def matmul(task, device):
    "The ceiling: FLOP/s of a large square matrix product, the median of nine."
    n = task['product']
    a, b, out = (torch.randn(n, n, device=device).to(getattr(torch, task['dtype'])) for _ in range(3))
    def flops():
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        synchronize(device)
        return 2*n**3/(time.perf_counter() - start)
    return lambda: {'flops': median(flops() for _ in range(9))}


def repetition_of(task, stack):
    torch.manual_seed(7)
    os.environ['HF_HUB_OFFLINE'] = '1'
    return (matmul if task['name'] == 'matmul' else training)(task, torch.device(task['device']))


# The driver

def here(names, task, times):
    "In this process: yields the repetitions of all so far after each; no two models live at the same time."
    found = {}
    for name in names:
        gc.collect()
        if task['device'].startswith('cuda'):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        try:
            repetition = repetition_of(task | {'name': name}, ExitStack())
            repetition()  # warms up
            found[name] = [timed(repetition) | {'memory': peak_of(task['device'])} for _ in range(times)]
        except Exception as error: print(f'{name} is left out: {type(error).__name__}: {error}', file=sys.stderr)
        repetition = None  # nor its model
        yield found


def begun():
    experiment = Experiment(__file__, __doc__, asked=True)
    option = experiment.option
    option('--preset', choices=('tiny', 'small', 'base', 'big'), default='small', help='size of the model (small)')
    option('--vocab', type=int, default=10_000, help='size of the shared vocabulary (10000)')
    option('--dtype', choices=('float32', 'bfloat16'), default='float32', help='bfloat16: by autocast (float32)')
    option('--device', default='auto', help='cpu, cuda, … (auto: a GPU where there is one)')
    option('--rounds', type=int, default=3, help='rounds of two timed repetitions (3)')
    option('--batch-tokens', type=int, default=4096, help='padded target tokens of a batch (4096)')
    option('--passes', type=int, help='times that a repetition goes over its batches (CPU 1, GPU 20)')
    option('--compile', action='store_true', help='ours under torch.compile as well')
    option('--here', action='store_true', help='all in this process: where a GPU is lent for minutes')
    option('--only', help='nothing but ours and these, comma-separated: Marian,torch.nn')
    return experiment, experiment.begin(preset='tiny', vocab=200, rounds=1, batch_tokens=256, device='cpu')


def main():
    from transformer_nb.core import default_device
    from transformer_nb.train.costs import train_flops
    from transformer_nb.transformer import preset
    experiment, args = begun()
    cfg, device = preset(args.preset, vocab_size=args.vocab), default_device(args.device)
    on_cpu = device.type == 'cpu'
    task = {'cfg': asdict(cfg), 'device': str(device), 'passes': args.passes or (1 if on_cpu else 20),
            **{key: getattr(args, key) for key in ('preset', 'vocab', 'dtype', 'batch_tokens')}}
    of_worker = {'pairs': 60 if args.tiny else 6000, 'product': 64 if args.tiny else 2048 if on_cpu else 8192}
    peers = PEERS if args.only is None else [name for name in PEERS if name in args.only.split(',')]
    names = ['matmul', 'ours', *['ours compiled']*args.compile, *peers]
    pairs = sum(work(args.preset, args.vocab, args.batch_tokens, of_worker['pairs']), [])*task['passes']
    src_lengths, tgt_lengths = ([len(side) + 1 for side in sides] for sides in zip(*pairs))  # with EOS
    tokens, flops = sum(tgt_lengths), train_flops(cfg, src_lengths, tgt_lengths)
    if args.here: rounds = here(names, task | of_worker, 2*args.rounds)
    else: rounds = [interleaved(alike(names, __file__, task | of_worker), args.rounds, times=2, anew=True)]
    for answers in rounds:
        if not {'matmul', 'ours'} <= answers.keys(): continue
        ceiling = median(r['flops'] for r in calm(answers['matmul']))
        rows = {name: speed(found, tokens) for name, found in answers.items() if name != 'matmul'}
        for row in rows.values(): row['utilisation'] = flops*row['tokens_per_s']/tokens/ceiling
        result = {**task, 'hardware': machine(device), 'torch': torch.__version__, 'ceiling': ceiling,
                  'tokens': tokens, 'rows': rows}
        experiment.peers = ['transformers']*('Marian' in rows)
        experiment.keep(result, 'hardware', 'preset', 'vocab', 'dtype', 'batch_tokens', seeds=[7])
    if not {'matmul', 'ours'} <= answers.keys(): sys.exit('the matrix product or ours failed: nothing to compare')
    print(render.training_run(result))


if __name__ == '__main__': serve(repetition_of, json.loads(sys.argv[2])) if sys.argv[1:2] == ['worker'] else main()
