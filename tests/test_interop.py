"Hugging Face's Marian models come in and go out: the same numbers, the same tokens, and no program of others is run."
import json
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import few_pairs
from safetensors.torch import load_file, save_file

from transformer_nb import Translator
from transformer_nb.data.batching import pad
from transformer_nb.core import DiskError, HubError, InputError, MemoryFull
from transformer_nb.decode.search import beam_search
from transformer_nb.decode.evaluation import score
from transformer_nb.data.corpora import Split, load_corpus
from transformer_nb.interop.marian import from_marian, paper_order, read_model, to_marian
from transformer_nb.course.viewer import show
from transformer_nb.interop.export import to_ctranslate2, to_onnx
from transformer_nb.data.tokenizer import TokenizerLike, TwoVocabularies, train_tokenizer
from transformer_nb.train.trainer import Trainer, TrainingConfig
from transformer_nb.transformer import Transformer, TransformerConfig

pytest.importorskip('transformers', reason="compares with Hugging Face's library: pip install transformers")
from marian import make, read, write

KINDS = {
    'opus-mt': dict(end=2.4),
    'one layer, ReLU': dict(layers=(1, 1), activation='relu'),
    'six and six': dict(layers=(6, 6), d_model=16, d_ff=32, h=2),
    'deep and shallow, GELU': dict(layers=(4, 1), activation='gelu', end=2.8),
    'shallow and deep': dict(layers=(1, 3), end=3.),
    'one head, narrow': dict(d_model=16, h=1, d_ff=16, end=4.3),
    'many heads, wide': dict(d_model=64, h=16, d_ff=256, activation='relu'),
    'source of its own': dict(shared=False, end=1.8),
    'softmax of its own': dict(tied=False, end=1.6),
    'three matrices': dict(shared=False, tied=False, activation='gelu', end=2.4),
    'no final bias': dict(final_bias=False),
    'learned positions': dict(learned=True, end=1.4),
    'learned positions, source of its own': dict(learned=True, shared=False, activation='relu', end=3.2),
    'two tables of ids': dict(shared=False, separate=True, end=3.3),
}
ENDING = {kind for kind, settings in KINDS.items() if 'end' in settings}  # some of their outputs are not cut off
SENTENCES = [pair[0] for pair in few_pairs(200)]


@pytest.fixture(scope='module', params=KINDS)
def both(request, tmp_path_factory):
    "A folder, Hugging Face's model and tokenizer of it, and ours."
    kind = request.param
    folder = make(tmp_path_factory.mktemp('hub')/'model', [*KINDS].index(kind), **KINDS[kind])
    theirs, their_tokenizer = read(folder)
    return folder, theirs, their_tokenizer, from_marian(folder)


@torch.no_grad()
def largest_difference(theirs, ours, dtype, rows, targets):
    "Of the logits: our model starts with an id that is theirs and one more."
    theirs, ours, cfg = theirs.to(dtype), ours.to(dtype), ours.cfg
    src = pad(rows, 'cpu', cfg.pad_id)
    tgt = pad([[cfg.bos_id, *row] for row in targets], 'cpu', cfg.pad_id)
    start = theirs.config.decoder_start_token_id
    logits = theirs(input_ids=src, attention_mask=(src != cfg.pad_id).long(),
        decoder_input_ids=tgt.masked_fill(tgt == cfg.bos_id, start)).logits
    real = (tgt != cfg.pad_id)[..., None]
    return ((ours(src, tgt)[..., :logits.shape[-1]] - logits)*real).abs().max().item()


def test_logits_are_theirs(both):
    _, theirs, tokenizer, found = both
    rows = [[*row, 0] for row in found.tokenizer.source.encode(SENTENCES[:8])]
    assert rows == tokenizer(SENTENCES[:8]).input_ids
    texts = [pair[1] for pair in few_pairs(8)]
    targets = found.tokenizer.target.encode(texts)
    assert [[*row, 0] for row in targets] == tokenizer(text_target=texts).input_ids
    assert largest_difference(theirs, found.model, torch.float64, rows, targets) < 1e-9
    assert largest_difference(theirs, found.model, torch.float32, rows, targets) < 1e-5


def written(theirs, row, cut=10, **settings):
    "What their `generate` writes for one row of ids, at most `cut` tokens more than the row has."
    out = theirs.generate(torch.tensor([row]), max_new_tokens=len(row) + cut, forced_eos_token_id=None,
        do_sample=False, **settings)
    return [i for i in out[0, 1:].tolist() if i != theirs.config.eos_token_id]


@pytest.mark.parametrize('n', [2, pytest.param(200, marks=pytest.mark.slow)])
def test_searches_find_the_same(both, n, request):
    "Greedy search, and a beam of 4 without length penalty: only there the penalties agree."
    (_, theirs, _, found), kind = both, request.node.callspec.params['both']
    t, ended = Translator(found.model, found.tokenizer), 0
    for row in t.encode(SENTENCES[:n]):
        src = torch.tensor([row])
        greedy, beam = written(theirs, row, num_beams=1), written(theirs, row, num_beams=4, length_penalty=0.)
        ended += len(beam) < len(row) + 10
        assert beam_search(t.ready, src, 1, 0., extra=10)[0][0].ids == greedy
        # what the limit cuts off ranks behind all that ended in our list, and by its score in theirs
        assert max(beam_search(t.ready, src, 4, 0., 4, extra=10, keep_greedy=False)[0]).ids == beam
    assert n < 200 or ended or kind not in ENDING


def test_the_way_back_is_exact(both, tmp_path):
    "Every weight as it was, bit for bit; Hugging Face's library reads it; and in again."
    folder, theirs, _, found = both
    to_marian(found, tmp_path/'out')
    before, after = (load_file(place/'model.safetensors') for place in (folder, tmp_path/'out'))
    for name in before:  # one matrix may lie there under several names
        if name == 'model.shared.weight' and not theirs.config.tie_word_embeddings: continue  # nobody uses it
        twin = after.get(name, after.get('model.encoder.embed_tokens.weight'))
        assert torch.equal(twin, before[name]), name
    again = from_marian(tmp_path/'out')
    assert again.model.cfg == found.model.cfg
    weights = again.model.state_dict()
    assert all(torch.equal(t, weights[name]) for name, t in found.model.state_dict().items())
    assert again.tokenizer.source.ids == found.tokenizer.source.ids
    src = torch.tensor([[5, 6, 7, 0]])
    logits = lambda model: model.float()(input_ids=src, decoder_input_ids=src).logits
    model, tokenizer = read(tmp_path/'out')
    assert torch.equal(logits(model), logits(theirs))
    assert tokenizer(SENTENCES[:3]).input_ids == [
        [*row, 0] for row in found.tokenizer.source.encode(SENTENCES[:3])]


# A model of ours goes out

@pytest.fixture(scope='module')
def mine():
    tokenizer = train_tokenizer([side for pair in few_pairs(400) for side in pair], 300)
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(300, 2, 32, 64, 4, max_len=128))
    return Translator(model, tokenizer, {'src': 'en', 'tgt': 'de'})


def test_our_model_goes_out(mine, tmp_path):
    to_marian(mine, tmp_path/'out')
    theirs, tokenizer = read(tmp_path/'out')
    rows = mine.encode(SENTENCES[:20])
    assert tokenizer(SENTENCES[:20]).input_ids == rows
    for row in rows[:4]:
        assert mine.search([row], 1, 0., 1)[0][0].ids == [i for i in theirs.generate(torch.tensor([row]), num_beams=1,
            max_new_tokens=len(row) + 50, forced_eos_token_id=None)[0, 1:].tolist() if i != 2]
    back = from_marian(tmp_path/'out')
    assert back.model.cfg == mine.model.cfg  # also that its attention has no biases
    state = back.model.state_dict()
    assert all(torch.equal(t, state[name]) for name, t in mine.model.state_dict().items())
    assert Translator(back.model, back.tokenizer).translate(SENTENCES[:5]) == mine.translate(SENTENCES[:5])


def test_what_marian_cannot_be_is_refused(mine, tmp_path):
    for change, why in ((dict(norm='pre'), 'pre-norm'), (dict(d_k=4), 'heads whose width')):
        other = Translator(Transformer(TransformerConfig(300, 1, 32, 64, 4, **change)), mine.tokenizer)
        with pytest.raises(InputError, match=why): to_marian(other, tmp_path/'out')
    own = SimpleNamespace(model=mine.model, tokenizer=Own(), training={})
    with pytest.raises(InputError, match='a tokenizer of your own, .*:Own'): to_marian(own, tmp_path/'out')
    none = SimpleNamespace(model=mine.model, tokenizer=None)
    with pytest.raises(InputError, match='no tokenizer: save it with the one'): to_marian(none, tmp_path/'out')
    assert not (tmp_path/'out').exists()


class Own(TokenizerLike):
    "It needs no more to be refused."


def test_languages_that_nobody_knows_are_left_out(mine, tmp_path):
    to_marian(Translator(mine.model, mine.tokenizer), tmp_path/'out')
    assert not {'src', 'tgt'} & from_marian(tmp_path/'out').training.keys()


def test_nothing_of_others_is_replaced(mine, tmp_path):
    (tmp_path/'out').mkdir()
    (tmp_path/'out/config.json').write_text('mine')
    with pytest.raises(InputError, match='is there already'): to_marian(mine, tmp_path/'out')
    assert [(f.name, f.read_text()) for f in (tmp_path/'out').iterdir()] == [('config.json', 'mine')]
    assert [f.name for f in tmp_path.iterdir()] == ['out']


def test_a_full_disk_leaves_nothing(mine, tmp_path, monkeypatch):
    def full(*_): raise OSError(28, 'No space left on device')
    monkeypatch.setattr('transformer_nb.interop.marian.save_file', full)
    with pytest.raises(DiskError, match='out: cannot be written .*No space left'): to_marian(mine, tmp_path/'out')
    assert not [*tmp_path.iterdir()]


# What a Translator does with an imported model

@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return make(tmp_path_factory.mktemp('opus')/'opus-mt-en-de')


def test_a_translator_of_a_folder(folder):
    t = Translator.from_pretrained(folder)
    plain = Translator(from_marian(folder).model, t.tokenizer)
    out = t.translate(SENTENCES[:6])
    assert out == plain.translate(SENTENCES[:6]) and len(out) == 6 and any(out)
    assert t.about['src'] == 'en' and t.about['generation']['num_beams'] == 4
    maps = t.attention(SENTENCES[0])
    assert maps['source'][-1] == '</s>' and maps['cross'].shape[:2] == (2, 4)
    assert len(t.align(SENTENCES[:2], [pair[1] for pair in few_pairs(2)])) == 2
    assert show(t, SENTENCES[0]).html
    assert pickle.loads(pickle.dumps(t)).translate(SENTENCES[:2]) == out[:2]


def test_scores_are_theirs(folder):
    "The log-probability of a translation, from their logits; the added start has no share in it."
    t, (theirs, _) = Translator.from_pretrained(folder), read(folder)
    source, target = SENTENCES[0], few_pairs(1)[0][1]
    row, = t.encode([source])
    ids = [*t.tokenizer.target.encode([target])[0], 0]
    start = theirs.config.decoder_start_token_id
    with torch.no_grad():
        tgt = torch.tensor([[start, *ids[:-1]]])
        logits = theirs(input_ids=torch.tensor([row]), decoder_input_ids=tgt).logits
        logits[..., theirs.config.pad_token_id] = float('-inf')  # which decoding never says
        logp = logits.log_softmax(-1)
    wanted = logp[0, range(len(ids)), ids].sum().item()
    assert t.score([source], [target])[0] == pytest.approx(wanted, abs=1e-4)


def test_eight_bits(folder):
    t = Translator.from_pretrained(folder, int8=True)
    assert t.int8 and len(t.translate(SENTENCES[:3])) == 3


def test_words_that_may_not_be_written(folder, tmp_path):
    ids = json.loads((folder/'vocab.json').read_text())
    first = Translator.from_pretrained(folder).nbest(SENTENCES[:1])[0][0].tokens[0]
    shutil.copytree(folder, tmp_path/'m')
    generation = json.loads((folder/'generation_config.json').read_text())
    write(tmp_path/'m/generation_config.json', generation | {'bad_words_ids': [[len(ids) - 1], [ids[first]], [3, 4]]})
    with pytest.warns(UserWarning, match=r'several pieces, such as \[3, 4\]'):
        t = Translator.from_pretrained(tmp_path/'m')
    assert t.cfg.suppress_tokens == (ids[first],)
    assert all(first not in found[0].tokens for found in t.nbest(SENTENCES[:10]))


def test_a_tag_says_which_language(tmp_path):
    folder = make(tmp_path/'m', tags=('>>deu<<', '>>fra<<'))
    t, (_, theirs) = Translator.from_pretrained(folder), read(folder)
    texts = ['>>fra<< a dog runs .', '>>deu<<a dog runs .']
    assert t.encode(texts) == theirs(texts).input_ids and t.encode(texts)[0][0] == 3
    with pytest.raises(InputError, match='>>ita<<: the model knows no such language; write one of >>deu<<, >>fra<<'):
        t.translate(['>>ita<< a dog runs .'])
    long = '>>fra<< ' + 'the child is not eating an apple . '*20
    parts, *_ = t._parts(long)
    assert len(parts) > 1 and all(part.startswith('>>fra<<') for part in parts)
    assert ''.join(part.removeprefix('>>fra<<') for part in parts) == long.removeprefix('>>fra<<')


def test_training_goes_on(folder, tmp_path):
    "An imported model learns, the bias of its softmax too, and is a checkpoint of ours from then on."
    found, pairs = from_marian(folder), few_pairs(60)
    before, t = found.model.embedding.bias.detach().clone(), Translator(found.model, found.tokenizer)
    old = sum(t.score(*zip(*pairs)))
    Trainer(found.model, tokenizer=found.tokenizer, train=Split(pairs), cfg=TrainingConfig(
        steps=20, batch_tokens=600, warmup=10, save_every=20), out=tmp_path/'run').fit()
    assert sum(t.score(*zip(*pairs))) > old and not torch.equal(found.model.embedding.bias[:-1], before[:-1])
    t.refresh()
    again = Translator.from_pretrained(tmp_path/'run')
    assert again.translate(SENTENCES[:4]) == t.translate(SENTENCES[:4])
    assert again.tokenizer.source.ids == found.tokenizer.source.ids


def test_waves_of_the_decoder_alone_are_kept(tmp_path):
    "Positions that the encoder has learned are not dropped with the decoder's, which are the paper's."
    folder = make(tmp_path/'m', learned=True)
    state = load_file(folder/'model.safetensors')
    waves = make(tmp_path/'waves')
    state['model.decoder.embed_positions.weight'] = read(waves)[0].model.decoder.embed_positions.weight.detach().clone()
    save_file(state, folder/'model.safetensors', {'format': 'pt'})
    model = from_marian(folder).model
    learned = model.source_positions.table
    order = paper_order(32)
    assert torch.equal(learned, state['model.encoder.embed_positions.weight'][:, order])
    assert torch.equal(model.positions.table, state['model.decoder.embed_positions.weight'][:, order])


def test_the_device_may_be_left_to_the_machine_and_a_folder_has_no_revision(folder):
    assert read_model(folder, 'auto').model.embedding.weight.device.type in ('cpu', 'cuda', 'mps')
    for place in (folder, 'demo'):
        with pytest.raises(InputError, match='no id on the Hub.*leave revision out'): read_model(place, revision='v1')
    with pytest.raises(InputError, match='no id on the Hub.*leave revision out'): from_marian(folder, revision='v1')


# What is broken is named, and nothing is run

def altered(folder, tmp_path, **files):
    "A copy of the folder in which some files have another content, or, for None, are gone."
    place = shutil.copytree(folder, tmp_path/'m')
    for name, content in files.items():
        file = place/name
        if content is None: file.unlink()
        else: file.write_bytes(content)
    return place


def test_a_missing_file_is_named(folder, tmp_path):
    for name in ('config.json', 'vocab.json', 'source.spm', 'target.spm'):
        place = altered(folder, tmp_path/name, **{name: None})
        with pytest.raises(InputError, match=f'{name}: cannot be read|{name}: .*missing'): from_marian(place)
    place = altered(folder, tmp_path/'weights', **{'model.safetensors': None})
    with pytest.raises(InputError, match='holds neither model.safetensors nor pytorch_model.bin'): from_marian(place)


def test_a_table_of_the_targets_own_is_used_where_the_folder_says_so_and_missed_where_it_is_gone(tmp_path):
    folder = make(tmp_path/'two', shared=False, separate=True)
    assert from_marian(folder).tokenizer.target.ids == json.loads((folder/'target_vocab.json').read_text())
    gone = altered(folder, tmp_path/'gone', **{'target_vocab.json': None})
    with pytest.raises(InputError, match='target_vocab.json: missing; download'): from_marian(gone)
    unsaid = altered(folder, tmp_path/'unsaid', **{'tokenizer_config.json': None})
    assert from_marian(unsaid).tokenizer.target.ids == from_marian(folder).tokenizer.target.ids
    about = json.loads((folder/'tokenizer_config.json').read_text()) | {'separate_vocabs': False}
    left_over = altered(folder, tmp_path/'left', **{'tokenizer_config.json': json.dumps(about).encode()})
    shared = from_marian(left_over).tokenizer.target
    assert shared.ids == json.loads((folder/'vocab.json').read_text())  # as Hugging Face's tokenizer has it
    target = read(left_over)[1](text_target=SENTENCES[:1]).input_ids
    assert target == [[*row, 0] for row in shared.encode(SENTENCES[:1])]


@pytest.mark.parametrize('words', [5, [5], [[[5]]], [[5], ['a']]])
def test_words_that_are_no_lists_of_ids_are_named(words, folder, tmp_path):
    place = altered(folder, tmp_path, **{'generation_config.json': json.dumps({'bad_words_ids': words}).encode()})
    with pytest.raises(InputError, match='generation_config.json: its bad_words_ids are no lists'): from_marian(place)


def test_a_broken_file_is_named(folder, tmp_path):
    weights = (folder/'model.safetensors').read_bytes()
    config = json.loads((folder/'config.json').read_text())
    ids = json.loads((folder/'vocab.json').read_text())
    cases = {
        'config.json': (b'{"model_type": ', 'config.json: broken or cut off'),
        'vocab.json': (json.dumps(ids | {'<pad>': 7}).encode(), 'vocab.json: <pad> is 7'),
        'source.spm': (b'garbage', 'its .spm file is no SentencePiece model'),
        'model.safetensors': (weights[:len(weights)//2], 'model.safetensors: broken')}
    for name, (content, why) in cases.items():
        with pytest.raises(InputError, match=why): from_marian(altered(folder, tmp_path/name, **{name: content}))
    for k, change in enumerate(({'d_model': 16}, {'pad_token_id': 10**6})):
        place = altered(folder, tmp_path/f'c{k}', **{'config.json': json.dumps(config | change).encode()})
        with pytest.raises(InputError, match='does not fit the settings beside it'): from_marian(place)
    state = load_file(folder/'model.safetensors')
    del state['model.decoder.layers.1.fc1.weight']
    place = altered(folder, tmp_path/'hole')
    save_file(state, place/'model.safetensors')
    with pytest.raises(InputError, match='model.decoder.layers.1.fc1.weight is missing'): from_marian(place)


def test_weights_that_nobody_asks_for_are_refused(folder, tmp_path):
    "Another architecture with our names, or a config.json that says too little: neither is passed over in silence."
    state = load_file(folder/'model.safetensors')
    place = altered(folder, tmp_path/'more')
    save_file(state | {'model.decoder.layers.0.rnn.weight': torch.zeros(3)}, place/'model.safetensors')
    with pytest.raises(InputError, match='model.decoder.layers.0.rnn.weight has no place'): from_marian(place)
    config = json.loads((folder/'config.json').read_text())
    place = altered(folder, tmp_path/'fewer', **{'config.json': json.dumps(config | {'encoder_layers': 1}).encode()})
    with pytest.raises(InputError, match='model.encoder.layers.1.* has no place'): from_marian(place)


@pytest.mark.parametrize('change, why', [
    ({'model_type': 'bart'}, "config.json: an architecture called 'bart'"),
    ({'model_type': None}, 'an architecture called None'),
    ({'scale_embedding': False}, 'scale_embedding is off'),
    ({'activation_function': 'gelu_new'}, "activation_function is 'gelu_new'"),
    ({'decoder_attention_heads': 2}, 'decoder_attention_heads differ'),
    ({'d_model': None}, 'd_model is missing')])
def test_an_unknown_architecture_is_refused(folder, tmp_path, change, why):
    config = json.loads((folder/'config.json').read_text())
    place = altered(folder, tmp_path, **{'config.json': json.dumps(config | change).encode()})
    with pytest.raises(InputError, match=why): from_marian(place)


def test_a_pickle_is_read_for_its_numbers_alone(folder, tmp_path):
    place = altered(folder, tmp_path, **{'model.safetensors': None})
    torch.save(load_file(folder/'model.safetensors'), place/'pytorch_model.bin')
    with pytest.warns(UserWarning, match='a pickle, read for its numbers alone'): found = from_marian(place)
    safe = from_marian(folder).model.state_dict()
    assert all(torch.equal(t, safe[name]) for name, t in found.model.state_dict().items())


class Program:
    def __init__(self, file): self.file = file
    def __reduce__(self): return open, (str(self.file), 'w')


@pytest.mark.parametrize('kind', ['torch', 'plain', 'cut off'])
def test_a_program_in_a_pickle_is_not_run(folder, tmp_path, kind):
    place = altered(folder, tmp_path, **{'model.safetensors': None})
    content = {'model.shared.weight': Program(tmp_path/'it_ran')}
    if kind == 'torch': torch.save(content, place/'pytorch_model.bin')
    else: (place/'pytorch_model.bin').write_bytes(pickle.dumps(content)[:None if kind == 'plain' else 30])
    why = 'pytorch_model.bin: broken, or not of numbers alone'
    with pytest.warns(UserWarning), pytest.raises(InputError, match=why):
        from_marian(place)
    assert not (tmp_path/'it_ran').exists()


# The Hub

def test_the_hubs_cache_is_used_without_a_network(folder, tmp_path, monkeypatch):
    hub = pytest.importorskip('huggingface_hub')
    repo = tmp_path/'models--Some-Body--opus-mt-en-de'
    for revision in ('1'*40, '2'*40): shutil.copytree(folder, repo/'snapshots'/revision)
    write(repo/'snapshots'/('2'*40)/'tokenizer_config.json', {'source_lang': 'en', 'target_lang': 'nl'})
    (repo/'refs').mkdir()
    (repo/'refs/main').write_text('1'*40)
    monkeypatch.setattr(hub.constants, 'HF_HUB_CACHE', str(tmp_path))
    monkeypatch.setattr(hub.constants, 'HF_HUB_OFFLINE', True)
    t = Translator.from_pretrained('Some-Body/opus-mt-en-de')
    assert t.about['tgt'] == 'de' and len(t.translate(SENTENCES[:1])) == 1
    assert Translator.from_pretrained('Some-Body/opus-mt-en-de', revision='2'*40).about['tgt'] == 'nl'
    with pytest.raises(HubError, match='Some-Body/nothing: no such folder here, and not on the Hub'):
        Translator.from_pretrained('Some-Body/nothing')


class Timeout(Exception): "As httpx has them, with which the Hub is asked: no OSError, no ValueError."


@pytest.mark.parametrize('error, kind', [
    (OSError(28, 'No space left on device'), DiskError), (ConnectionError('no route'), HubError),
    (Timeout('too slow'), HubError)])
def test_what_fails_while_fetching_has_its_kind(error, kind, monkeypatch):
    "The disk is not the Hub; and the network's own errors, which are no OSError, are one line, too."
    def fail(*_, **__): raise error
    monkeypatch.setattr('huggingface_hub.snapshot_download', fail)
    with pytest.raises(kind, match='Some-Body/model: .*not on the Hub') as e: read_model('Some-Body/model')
    assert '\n' not in str(e.value)


@pytest.mark.parametrize('name', ['config.json', 'model.safetensors', 'source.spm'])
def test_a_file_that_may_not_be_read_is_the_disks_fault(folder, name, monkeypatch):
    def refusing(read):
        def refuse(path, *args):
            if path.name == name: raise PermissionError(13, 'Permission denied')
            return read(path, *args)
        return refuse
    monkeypatch.setattr(Path, 'read_bytes', refusing(Path.read_bytes))
    monkeypatch.setattr('transformer_nb.interop.marian.open', refusing(open), raising=False)
    with pytest.raises(DiskError, match=f'{name}: cannot be read .*Permission denied'): from_marian(folder)


def test_a_full_memory_is_no_broken_file(folder, monkeypatch):
    def full(*_, **__): raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
    monkeypatch.setattr('transformer_nb.checkpoints.read_tensors', full)
    with pytest.raises(MemoryFull, match='reading a model: the memory is full'): from_marian(folder)
    monkeypatch.undo()
    monkeypatch.setattr(Transformer, 'load_state_dict', full)
    with pytest.raises(MemoryFull, match='reading a model: the memory is full'): from_marian(folder)


def test_without_the_extra_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
    with pytest.raises(InputError, match=r"pip install 'transformer_nb\[interop\]'"):
        read_model('Some-Body/opus-mt-en-de')


def test_a_path_is_not_taken_for_an_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path/'runs').mkdir()
    with pytest.raises(InputError, match='runs/mine: no such checkpoint directory; train one'): read_model('runs/mine')


def test_vocabularies_are_pickled(folder):
    tokenizer = from_marian(folder).tokenizer
    twin = pickle.loads(pickle.dumps(tokenizer))
    assert isinstance(twin, TwoVocabularies) and twin.model == tokenizer.model
    assert twin.source.encode(SENTENCES[:3]) == tokenizer.source.encode(SENTENCES[:3])


# Marian NMT's own files

def marian_names(state):
    "The weights of the layers under Marian NMT's names; matrices are turned round."
    weights, names = {}, {'self_attn': 'self', 'encoder_attn': 'context'}
    for name, t in state.items():
        _, side, _, i, part, *more = name.split('.')
        scope, last = f'{side}_l{int(i) + 1}_', 'W' if name.endswith('weight') else 'b'
        scale = 'scale' if last == 'W' else 'bias'
        turned = t.T if t.ndim == 2 else t[None]
        if part in names: weights[f'{scope}{names[part]}_{last}{more[0][0]}'] = turned
        elif part.startswith('fc'): weights[f'{scope}ffn_{last}{part[-1]}'] = turned
        elif part == 'final_layer_norm': weights[f'{scope}ffn_ffn_ln_{scale}'] = turned
        else: weights[f"{scope}{names[part.removesuffix('_layer_norm')]}_Wo_ln_{scale}"] = turned
    return weights


def npz(folder, kind):
    "The same model as Marian NMT would write it, made of Hugging Face's file; no padding, no start."
    state = {name: t.numpy() for name, t in load_file(folder/'model.safetensors').items()}
    config = json.loads((folder/'config.json').read_text())
    weights = {'decoder_ff_logit_out_b': state['final_logits_bias'][:, :-1]}
    if 'model.shared.weight' in state: weights['Wemb'] = state['model.shared.weight'][:-1]
    else:
        for side in ('encoder', 'decoder'): weights[f'{side}_Wemb'] = state[f'model.{side}.embed_tokens.weight'][:-1]
    if 'lm_head.weight' in state: weights['decoder_ff_logit_out_W'] = state['lm_head.weight'][:-1].T
    weights |= marian_names({name: t for name, t in state.items() if '.layers.' in name})
    settings = {
        'type': 'transformer', 'dim-emb': config['d_model'], 'enc-depth': config['encoder_layers'],
        'dec-depth': config['decoder_layers'], 'transformer-heads': config['encoder_attention_heads'],
        'transformer-dim-ffn': config['encoder_ffn_dim'], 'transformer-ffn-activation': config['activation_function'],
        'transformer-preprocess': '', 'transformer-postprocess': 'dan', 'transformer-postprocess-emb': 'd',
        'transformer-decoder-autoreg': 'self-attention', 'transformer-no-projection': False,
        'transformer-guided-alignment-layer': 'last'} | kind
    text = json.dumps(settings).encode() + b'\0'  # JSON is YAML
    place = folder.parent/f'{folder.name}.npz'
    place.mkdir()
    np.savez(place/'model.npz', **weights, **{'special:model.yml': np.frombuffer(text, dtype=np.int8)})
    ids = json.loads((folder/'vocab.json').read_text())
    lines = [f'{json.dumps(piece, ensure_ascii=False)}: {i}\n' for piece, i in ids.items() if piece != '<pad>']
    (place/'vocab.yml').write_text(''.join(lines), encoding='utf-8')
    for name in ('source.spm', 'target.spm'): shutil.copy(folder/name, place)
    write(place/'decoder.yml', {'models': ['model.npz'], 'vocabs': ['vocab.yml', 'vocab.yml'], 'relative-paths': True})
    return place


@pytest.mark.parametrize('kind', ['opus-mt', 'one layer, ReLU', 'source of its own', 'three matrices'])
def test_a_model_of_marian_nmt(kind, tmp_path):
    "The same translations as CTranslate2's own reader of such files gives."
    ctranslate2 = pytest.importorskip('ctranslate2')
    activation = 'swish' if kind == 'opus-mt' else 'relu'
    folder = make(tmp_path/'m', **KINDS[kind] | {'activation': activation})
    place = npz(folder, {})
    converter = ctranslate2.converters.MarianConverter(str(place/'model.npz'), [str(place/'vocab.yml')]*2)
    converter.convert(str(tmp_path/'ct2'))
    theirs, t = ctranslate2.Translator(str(tmp_path/'ct2'), intra_threads=1), Translator.from_pretrained(place)
    rows, side = t.encode(SENTENCES[:20]), t.tokenizer.target
    tokens = [t.tokenizer.source.pieces(row[:-1]) for row in rows]
    found = theirs.translate_batch(tokens, beam_size=1, min_decoding_length=0, max_decoding_length=20)
    for row, result in zip(rows, found):
        assert side.pieces(t.search([row], 1, 0., 1)[0][0].ids)[:20] == result.hypotheses[0]


def test_a_student_is_refused(folder, tmp_path):
    place = shutil.move(npz(folder, {'transformer-decoder-autoreg': 'rnn', 'dec-cell': 'ssru'}), tmp_path/'student')
    why = "model.npz: transformer-decoder-autoreg is 'rnn'.* not a student"
    with pytest.raises(InputError, match=why): read_model(place)


def test_a_broken_npz_is_named(folder, tmp_path):
    place = shutil.move(npz(folder, {}), tmp_path/'npz')
    whole = (place/'model.npz').read_bytes()
    for content, why in ((whole[:1000], 'model.npz: broken'), (b'', 'model.npz: broken')):
        (place/'model.npz').write_bytes(content)
        with pytest.raises(InputError, match=why): read_model(place)
    with open(place/'model.npz', 'wb') as f: np.savez(f, **{'x': np.array([Program(tmp_path/'it_ran')], dtype=object)})
    with pytest.raises(InputError, match='model.npz: broken'): read_model(place)
    assert not (tmp_path/'it_ran').exists()
    (place/'model.npz').unlink()
    with pytest.raises(InputError, match='model.npz: missing'): read_model(place)


def rows_cut(place, side, n):
    "Marian NMT's model with a vocabulary of its own for one side, of n pieces; the other keeps all."
    weights = dict(np.load(place/'model.npz'))
    weights[f'{side}_Wemb'] = weights[f'{side}_Wemb'][:n]
    if side == 'decoder': weights['decoder_ff_logit_out_b'] = weights['decoder_ff_logit_out_b'][:, :n]
    np.savez(place/'model.npz', **weights)
    lines = (place/'vocab.yml').read_text(encoding='utf-8').splitlines(keepends=True)
    (place/'short.yml').write_text(''.join(lines[:n]), encoding='utf-8')
    files = ['short.yml', 'vocab.yml']
    write(place/'decoder.yml', {'models': ['model.npz'], 'vocabs': files if side == 'encoder' else files[::-1]})


def test_vocabularies_of_two_sizes(tmp_path):
    "Padding is the last id of the longer one, on both sides; what no piece has is never written."
    folder = make(tmp_path/'m', **KINDS['source of its own'])
    for side in ('encoder', 'decoder'):
        place = shutil.move(npz(folder, {}), tmp_path/side)
        whole = Translator.from_pretrained(place)
        n = whole.cfg.pad_id - 5
        rows_cut(place, side, n)
        t = Translator.from_pretrained(place)
        assert t.cfg.pad_id == whole.cfg.pad_id and t.translate(['']) == ['']
        if side == 'encoder': assert t.translate(SENTENCES[:4]) == whole.translate(SENTENCES[:4])
        else: assert (t.model.embedding.bias[n:] == -1e4).all() and max(map(max, t.encode(SENTENCES[:4]))) < n


def test_a_file_may_be_named_without_a_list(folder, tmp_path):
    place = shutil.move(npz(folder, {}), tmp_path/'npz')
    write(place/'decoder.yml', {'models': 'model.npz', 'vocabs': 'vocab.yml'})
    assert read_model(place).model.cfg == replace(from_marian(folder).model.cfg, max_len=1024)
    weights = dict(np.load(place/'model.npz'))
    weights['special:model.yml'] = np.frombuffer(b'dim-emb: \xff', dtype=np.int8)
    np.savez(place/'model.npz', **weights)
    with pytest.raises(InputError, match='model.npz: broken'): read_model(place)


@pytest.mark.slow
def test_a_trained_model_says_the_same_everywhere(tmp_path):
    "A post-norm model of ours, trained for some minutes: 500 sentences by Hugging Face, CTranslate2 and ONNX Runtime."
    ctranslate2, OnnxModel = pytest.importorskip('ctranslate2'), pytest.importorskip('onnx_model').OnnxModel
    corpus = load_corpus('builtin', 'en', 'de', 4000)
    tokenizer = train_tokenizer((side for pair in corpus['train'] for side in pair), 1000)
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(1000, 2, 96, 256, 4, dropout=0.))
    Trainer(model, tokenizer=tokenizer, train=corpus['train'], out=tmp_path/'run', cfg=TrainingConfig(
        steps=700, warmup=200, batch_tokens=2000, lr_scale=.7, save_every=1000)).fit()
    t = Translator(model, tokenizer, {'src': 'en', 'tgt': 'de'})
    sources, references = zip(*corpus['test'].pairs[:500])
    rows = t.encode(sources)
    greedy = lambda t: [t.search([row], 1, 0., 1)[0][0].ids for row in rows]
    ours = greedy(t)
    to_marian(t, tmp_path/'hf')
    theirs, asked = read(tmp_path/'hf')
    assert asked(list(sources)).input_ids == rows
    assert [written(theirs, row, num_beams=1, cut=50) for row in rows] == ours
    beams = [max(beam_search(t.ready, torch.tensor([row]), 4, 0., 4, keep_greedy=False)[0]).ids for row in rows]
    assert [written(theirs, row, num_beams=4, length_penalty=0., cut=50) for row in rows] == beams
    to_onnx(t, tmp_path/'onnx')
    assert OnnxModel(tmp_path/'onnx').greedy(rows) == ours
    tokens = [tokenizer.pieces(row[:-1]) for row in rows]
    for quantization in (None, 'int8'):
        to_ctranslate2(t, tmp_path/f'ct2-{quantization}', quantization)
        other = ctranslate2.Translator(str(tmp_path/f'ct2-{quantization}'), intra_threads=1)
        found = other.translate_batch(tokens, beam_size=1, min_decoding_length=0, max_decoding_length=60)
        ids = [tokenizer.ids_of(result.hypotheses[0]) for result in found]
        if quantization is None: assert ids == ours
        else: print('int8, BLEU: CTranslate2', bleu(tokenizer, ids, references), 'ours',
                    bleu(tokenizer, greedy(Translator(model, tokenizer, int8=True)), references),
                    'float32', bleu(tokenizer, ours, references))


def bleu(tokenizer, ids, references):
    return score(tokenizer.decode(ids), list(references))['BLEU']['score']
