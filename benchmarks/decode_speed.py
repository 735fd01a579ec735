"""Speed and memory of decoding: ours beside Hugging Face Marian and CTranslate2, in one run, with the same weights.

    pip install -e . --group bench
    python benchmarks/decode_speed.py --preset base --json
    python benchmarks/decode_speed.py --preset base --search greedy --batch 1 32 --only Marian

Every model lives in a process of its own, and one computes at a time: repetition i of all of them, in random order,
comes before repetition i + 1 of any. Method and columns: benchmarks/README.md
"""
import json
import os
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import render
from common import PEERS, Experiment, machine
from workers import alike, interleaved, padded, random_ids, random_marian, serve, source_lengths, speed

SEARCHES, BATCHES, BEAM = ('greedy', 'beam'), ('1', '32', 'all'), 4
OPUS_VOCAB = 58_101  # pieces of opus-mt-en-de


# The work, the same for everyone

def work(preset, vocab, batch, drawn=200):
    "The batches of one repetition, out of 200 random sources sorted by length, or of the first of them."
    rng = random.Random(2017)
    sources = sorted([random_ids(n, vocab, rng) for n in source_lengths(200, rng)], key=len)[:drawn]
    if batch == '1':
        step = 10 if preset == 'small' else 20
        return [[source] for source in sources[step//2::step]]
    batches = [sources[i:i + 32] for i in range(0, drawn, 32)]
    return batches[1:6:2] if batch == '32' else batches


def tokens_asked(batch):
    "How many tokens each sentence of a batch is to get."
    return max(map(len, batch)) + 10


# The models: each function gives one that decodes batch number i and counts the tokens of every sentence

def ours(task, batches, int8=False):
    import torch
    from transformer_nb.decode.search import beam_search, greedy
    from transformer_nb.interop.marian import from_marian
    from transformer_nb.parts import inference
    inference.TRACE_AFTER = 1  # in the repetition that warms up
    model = from_marian(f"{task['folder']}/marian", task['device']).model
    cfg = model.cfg
    model = inference.inference(model.to(torch.float32 if int8 else getattr(torch, task['dtype'])), int8, release=True)
    sources = [padded([source + [cfg.eos_id] for source in batch], cfg.pad_id, task['device']) for batch in batches]
    def decode(i):
        limited = copy(model)  # of the object alone: several threads may decode at a time
        # less than input + 50: this is now everybody's limit
        limited.cfg = replace(cfg, max_len=tokens_asked(batches[i]))
        if task['search'] == 'greedy': return [len(ids) for ids in greedy(limited, sources[i])]
        return [len(ids) for (_, ids), *_ in beam_search(limited, sources[i], BEAM)]
    return decode


def marian_ids(vocab): return {'pad': vocab - 1, 'bos': vocab - 1, 'eos': 0}


def marian(task, batches):
    import torch
    from transformers import MarianMTModel
    ids = marian_ids(task['vocab'])
    model = MarianMTModel.from_pretrained(f"{task['folder']}/marian")
    model = model.to(task['device'], getattr(torch, task['dtype'])).eval()
    sources = [padded([source + [ids['eos']] for source in batch], ids['pad'], task['device']) for batch in batches]
    settings = {'num_beams': 1} if task['search'] == 'greedy' else {'num_beams': BEAM, 'length_penalty': .6}
    @torch.inference_mode()
    def decode(i):
        n = tokens_asked(batches[i])
        outputs = model.generate(input_ids=sources[i], attention_mask=(sources[i] != ids['pad']).long(),
                                 do_sample=False, max_new_tokens=n, **settings)
        return (outputs[:, 1:] != ids['eos']).sum(1).tolist()
    return decode


def words(vocab): return ['</s>', '<unk>', *(f't{i}' for i in range(2, vocab - 1)), '<pad>']


def write_marian(cfg, activation, folder):
    "Random weights in Hugging Face's format, which everyone reads; its bias keeps EOS away: no sentence ends early."
    import torch
    from transformer_nb.data.tokenizer import train_tokenizer
    torch.manual_seed(7)
    model = random_marian(cfg, **marian_ids(cfg['vocab_size']), activation=activation)
    with torch.no_grad(): model.final_logits_bias[0, 0] = -1e4
    model.save_pretrained(folder)
    pieces = train_tokenizer(['nobody reads this'], 30).model  # ids go in and come out; but a folder has such files
    for side in ('source', 'target'): (folder/f'{side}.spm').write_bytes(pieces)
    (folder/'vocab.json').write_text(json.dumps({word: i for i, word in enumerate(words(cfg['vocab_size']))}))


def convert(cfg, activation, folder, ct2):
    "Write the folder, and with `ct2` the same for CTranslate2 in float32 and in int8."
    import torch
    place = Path(folder)/'marian'
    write_marian(cfg, activation, place)
    if not ct2: return
    from ctranslate2.converters.transformers import MarianMTLoader
    from transformers import MarianMTModel
    class Tokenizer:  # all that the converter asks of one
        eos_token, unk_token, pad_token = '</s>', '<unk>', '<pad>'
        def get_vocab(self): return {word: i for i, word in enumerate(words(cfg['vocab_size']))}
    for quantization in (None, 'int8'):
        with torch.no_grad(): spec = MarianMTLoader()(MarianMTModel.from_pretrained(place).eval(), Tokenizer())
        spec.validate()
        spec.optimize(quantization=quantization)
        (Path(folder)/(quantization or 'float32')).mkdir()
        spec.save(f"{folder}/{quantization or 'float32'}")


def ct2(task, batches, dtype='float32', threads=None, streams=1):
    from ctranslate2 import Translator
    translator = Translator(f"{task['folder']}/{dtype}", compute_type=dtype, inter_threads=streams,
                            intra_threads=threads or task['threads'])
    sources = [[[f't{i}' for i in source] + ['</s>'] for source in batch] for batch in batches]
    settings = {'beam_size': 1} if task['search'] == 'greedy' else {'beam_size': BEAM, 'length_penalty': .6}
    def decode(i):
        n = tokens_asked(batches[i])
        results = translator.translate_batch(sources[i], max_batch_size=32, max_decoding_length=n, **settings)
        return [len(result.hypotheses[0]) for result in results]
    return decode


MODELS = {
    'ours': ours,
    'ours int8': partial(ours, int8=True),
    'Marian': marian,
    'CTranslate2 float32': ct2,
    'CTranslate2 int8': partial(ct2, dtype='int8'),
    'CTranslate2 int8, 1 thread': partial(ct2, dtype='int8', threads=1),
}


def names(batch, device, streams):
    "Whom to measure: for all 200 sentences also batches side by side, and CTranslate2's streams, of one thread each."
    if device != 'cpu': return ['ours', 'Marian']
    if batch != 'all': return list(MODELS)
    return ['ours int8', f'ours int8, {streams} side by side', 'Marian', 'CTranslate2 int8',
            f'CTranslate2 int8, {streams} streams']


# A worker

def decoder(task, batches, stack):
    "What decodes a batch, given by its number, and the `map` that has it decode many; `stack` ends the threads."
    name, n = task['name'], task['streams']
    if name.endswith('side by side'):
        import torch
        pool = ThreadPoolExecutor(n, initializer=torch.set_num_threads, initargs=(1,))
        return ours(task, batches, int8=True), stack.enter_context(pool).map
    if name.endswith('streams'): return ct2(task, batches, 'int8', 1, n), stack.enter_context(ThreadPoolExecutor(n)).map
    return MODELS[name](task, batches), map


def decoding(task, stack):
    "A function that makes one repetition: it decodes every batch, longest first, and sees that no token is missing."
    batches = work(task['preset'], task['vocab'], task['batch'], task.get('drawn', 200))
    order = range(len(batches))[::-1]
    decode, many = decoder(task, batches, stack)
    def repetition():
        for i, counts in zip(order, many(decode, order)):
            n = tokens_asked(batches[i])
            if counts != [n] * len(batches[i]):
                raise RuntimeError(f'each sentence of batch {i} was to get {n} tokens, they got {counts}')
        return {}
    return repetition


# The driver

def converted(*args):
    "`convert` in a process of its own."
    process = get_context('spawn').Process(target=convert, args=args)
    process.start()
    process.join()


def cell(task, folder, only, repetitions, drawn):
    "One search with one size of batch: the results of everyone."
    batches = work(task['preset'], task['vocab'], task['batch'], drawn)
    task = {**task, 'streams': min(task['threads'], len(batches))}
    wanted = [name for name in names(task['batch'], task['device'], task['streams']) if name.startswith(only)]
    sentences, tokens = sum(map(len, batches)), sum(len(batch)*tokens_asked(batch) for batch in batches)
    found = interleaved(alike(wanted, __file__, {**task, 'folder': folder, 'drawn': drawn}), repetitions)
    rows = {name: speed(found[name], tokens) for name in found}
    return {**task, 'sentences': sentences, 'tokens': tokens, 'rows': rows}


def begun():
    experiment = Experiment(__file__, __doc__, asked=True)
    option = experiment.option
    option('--preset', choices=('tiny', 'small', 'base', 'big', 'opus-mt'), default='small',
           help=f'size of the model (small); opus-mt: base with SiLU and {OPUS_VOCAB:,} pieces')
    option('--vocab', type=int, help='size of the shared vocabulary (10000)')
    option('--search', nargs='+', choices=SEARCHES, default=SEARCHES, help=f'greedy, beam: of {BEAM} (both)')
    option('--batch', nargs='+', choices=BATCHES, default=BATCHES,
           help='1, 32, all: 200 sentences in batches of 32 (all three)')
    option('--device', default='auto', help='cpu, cuda, … (auto: a GPU where there is one)')
    option('--dtype', choices=('float32', 'bfloat16'), help='of ours and Marian (bfloat16 on a GPU, else float32)')
    option('--repetitions', type=int, default=5, help='timed repetitions of each (5)')
    option('--only', help='nothing but ours and what starts with one of these: Marian,CTranslate2')
    tiny = dict(preset='tiny', vocab=200, search=['beam'], batch=['all'], repetitions=1, device='cpu')
    return experiment, experiment.begin(**tiny)


def main():
    import torch
    from transformer_nb.core import default_device
    from transformer_nb.transformer import preset
    experiment, args = begun()
    opus = args.preset == 'opus-mt'
    size, vocab = 'base' if opus else args.preset, args.vocab or (OPUS_VOCAB if opus else 10_000)
    device, threads, cfg = default_device(args.device), torch.get_num_threads(), asdict(preset(size, vocab_size=vocab))
    only = '' if args.only is None else ('ours', *filter(None, args.only.split(',')))
    os.environ |= {'OMP_NUM_THREADS': str(threads), 'HF_HUB_OFFLINE': '1', 'TRANSFORMERS_VERBOSITY': 'error'}
    task = {'preset': args.preset, 'vocab': vocab, 'cfg': cfg, 'device': str(device), 'threads': threads,
            'dtype': args.dtype or ('bfloat16' if device.type == 'cuda' else 'float32'),
            'hardware': machine(device),
            'versions': {name: version(name) for name in ('torch', *PEERS) if find_spec(name)}}
    results = []
    with tempfile.TemporaryDirectory() as folder:
        ct2 = device.type == 'cpu' and 'CTranslate2' in (args.only or 'CTranslate2')
        converted(cfg, 'swish' if opus else 'relu', folder, ct2)
        experiment.peers = PEERS[:1 + ct2]
        for search, batch in product(args.search, args.batch):
            task |= {'search': search, 'batch': batch}
            results.append(cell(task, folder, only, args.repetitions, 4 if args.tiny else 200))
            experiment.keep(results[-1], 'hardware', 'preset', 'vocab', 'dtype', 'search', 'batch', seeds=[7])
            print(render.decoding(results), flush=True)


if __name__ == '__main__': serve(decoding, json.loads(sys.argv[2])) if sys.argv[1:2] == ['worker'] else main()
