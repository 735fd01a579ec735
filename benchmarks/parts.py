"""What each exchanged part earns alone: the same work with everything in place, and with one part taken back.

    python benchmarks/parts.py --json                          # training and decoding, small and base
    python benchmarks/parts.py --preset small --work training

Every row is a process of its own, one computes at a time, and a round starts each once, in random order. The ratio is
the time without the part over the time with it: 1.10 means that the part earns a tenth. Rows marked `instead` put what
torch itself offers in its place. Method: benchmarks/README.md
"""
import json
import random
import sys
from dataclasses import asdict
from functools import partial
from statistics import median
from types import SimpleNamespace
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

import train_speed
from common import Experiment, alike, calm, interleaved, machine, random_ids, serve, source_lengths
from render import table
from transformer_nb import core, optimizer
from transformer_nb.data.batching import make_batch
from transformer_nb.decode.search import beam_search, greedy
from transformer_nb.parts import inference, kernels
from transformer_nb.parts.exchange import with_fast_dropout
from transformer_nb.parts.packing import packed_decoder_states, with_packed_attention
from transformer_nb.parts.loss import projected_loss
from transformer_nb.regularization import smoothed_loss
from transformer_nb.transformer import Transformer, TransformerConfig, preset

STEPS = 40  # of decoding: so many tokens for everyone


# Training: a part is a function of the task's parts that takes one back

def padded_states(model, batch):
    "The decoder's output at the real tokens, from tables with their padding."
    states = model.decode(batch.tgt_in, model.encode(batch.src), batch.src)
    return states[batch.tgt_in != model.cfg.pad_id]

def packed_states(model, batch):
    return packed_decoder_states(model, batch.src, batch.tgt_in, tuple(map(sum, batch.lengths)))

def whole_loss(x, W, y, smoothing): return smoothed_loss(F.linear(x, W), y, smoothing)

def torchs_loss(x, W, y, smoothing):
    "Torch's own; its path in chunks takes no label smoothing (2.13)."
    return F.linear_cross_entropy(x, W, y, label_smoothing=smoothing), None

FAST = dict(states=packed_states, loss=projected_loss, dropout=True, memory=True, fused=True)
TRAINING = {
    'everything': {},
    'packed sequences': dict(states=padded_states),
    'loss in chunks': dict(loss=whole_loss),
    'loss in chunks; instead F.linear_cross_entropy': dict(loss=torchs_loss),
    'dropout of 16 bits': dict(dropout=False),
    'fused Adam': dict(fused=False),
    'malloc that keeps its memory': dict(memory=False),
}


def training(task, stack):
    "A function that makes one repetition: a step on every batch."
    parts = FAST | TRAINING[task['name']]
    model = Transformer(TransformerConfig(**task['cfg']))
    if parts['states'] is packed_states: with_packed_attention(model)
    if parts['dropout']: with_fast_dropout(model)
    if parts['memory']: core.keep_memory()
    with patch.object(optimizer, '_can_fuse', lambda *_: parts['fused']): adam = optimizer.adam(model)
    for group in adam.param_groups: group['lr'] = 1e-4
    batches = [make_batch(pairs) for pairs in train_speed.work(task['preset'], *task['work_of'])]
    model.train()
    def repetition():
        for batch in batches:
            adam.zero_grad()
            with torch.autocast('cpu', torch.bfloat16, enabled=task['dtype'] == 'bfloat16'):
                states = parts['states'](model, batch)
                loss, _ = parts['loss'](states, model.embedding.weight, batch.targets, model.cfg.label_smoothing)
            loss.backward()
            adam.step()
        return {'loss': loss.item()}
    return repetition


# Decoding: a part is what is patched while the model is prepared and used

def plain_linear(linear, int8=False): return linear

DECODING = {
    'everything': [],
    'weights laid out': [(inference, 'prepared_linear', plain_linear)],
    'one row as a sum of rows': [(kernels, '_table', lambda packed, weight: None)],
    'step without Python (TorchScript)': [(inference, '_traceable', lambda step: False)],
    'instead, 8 bits': 'int8',
}
SEARCHES = {'greedy, 1': (greedy, 1), 'greedy, 32': (greedy, 32), 'beam 4, 1': (partial(beam_search, beam=4), 1),
            'beam 4, 32': (partial(beam_search, beam=4), 32)}


def sources(batch, vocab, pad, eos):
    rng = random.Random(2017)
    rows = sorted(source_lengths(200, rng))
    rows = [rows[100]] if batch == 1 else rows[84:116]
    ids = [torch.tensor([*random_ids(n, vocab, rng), eos]) for n in rows]
    return pad_sequence(ids, batch_first=True, padding_value=pad)


def decoding(task, stack):
    "A function that makes one repetition: every sentence gets the same number of tokens."
    torch.manual_seed(7)
    search, batch = SEARCHES[task['search']]
    model = Transformer(TransformerConfig(**task['cfg'])).eval()
    changes, int8 = DECODING[task['name']], DECODING[task['name']] == 'int8'
    for change in ([] if int8 else changes): stack.enter_context(patch.object(*change))
    inference.TRACE_AFTER = 1  # in the repetition that warms up
    prepared = inference.inference(model, int8)
    prepared.cfg = SimpleNamespace(**asdict(model.cfg) | {'eos_id': -1})  # no token: nobody ends early
    src = sources(batch, model.cfg.vocab_size, model.cfg.pad_id, model.cfg.eos_id)
    def repetition():
        for _ in range(task['times']): search(prepared, src, max_new_tokens=STEPS)
        return {}
    return repetition


# A worker, and the driver

def repetition_of(task, stack):
    torch.manual_seed(7)
    return (training if task['work'] == 'training' else decoding)(task, stack)


def report(title, answers):
    "Time without the part over the time with it; memory likewise."
    found = {row: calm(repetitions) for row, repetitions in answers.items()}
    seconds = {row: median(r['seconds'] for r in repetitions) for row, repetitions in found.items()}
    memory = {row: median(r['memory'] for r in repetitions) for row, repetitions in answers.items()}
    ratios = [[row, *(f"{of[row]/of['everything']:.2f}" for of in (seconds, memory))] for row in seconds]
    print(f"\n{title}\n\n{table(['', 'time', 'memory'], ratios)}", flush=True)
    return {row: {'time': seconds[row]/seconds['everything'], 'memory': memory[row]/memory['everything'],
                  'seconds': seconds[row], 'repetitions': found[row]} for row in seconds}


def main():
    experiment = Experiment(__file__, __doc__, asked=True)
    option = experiment.option
    option('--preset', nargs='+', choices=('tiny', 'small', 'base', 'big'), default=('small', 'base'))
    option('--dtype', choices=('float32', 'bfloat16'), default='float32', help='of training')
    option('--work', nargs='+', choices=('training', *SEARCHES), default=('training', *SEARCHES))
    option('--rounds', type=int, default=3)
    option('--batch-tokens', type=int, default=4096)
    args = experiment.begin(preset=['tiny'], work=['training', 'greedy, 1'], rounds=1, batch_tokens=256)
    vocab, pairs, times = (200, 60, 1) if args.tiny else (10_000, 6000, 3)
    for size in args.preset:
        for work in args.work:
            rows = TRAINING if work == 'training' else DECODING
            task = {'preset': size, 'cfg': asdict(preset(size, vocab_size=vocab)), 'work': work, 'search': work,
                    'dtype': args.dtype, 'device': 'cpu', 'work_of': [vocab, args.batch_tokens, pairs],
                    'times': times if work.endswith(', 1') else 1}
            found = report(f'{size}, {work}', interleaved(alike(rows, __file__, task), args.rounds, times, anew=True))
            result = {'hardware': machine(torch.device('cpu')), 'torch': torch.__version__, 'preset': size,
                      'work': work, 'dtype': args.dtype, 'rows': found}
            experiment.keep(result, 'hardware', 'preset', 'work', 'dtype', seeds=[7])


if __name__ == '__main__': serve(repetition_of, json.loads(sys.argv[2])) if sys.argv[1:2] == ['worker'] else main()
