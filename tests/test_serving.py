"Exports: ONNX, CTranslate2 and the Hub write the same tokens as ours; every fault is one line and leaves nothing."
import errno
import json
import sys
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import few_pairs

pytest.importorskip('ctranslate2')  # of the extra interop, as onnx and huggingface_hub are
pytest.importorskip('onnx')
import torch
from onnx_model import OnnxModel
from torch.nn.utils import prune

from transformer_nb.checkpoints import load
from transformer_nb.core import DiskError, HubError, InputError, MemoryFull
from transformer_nb.data.batching import pad
from transformer_nb.data.corpora import load_builtin
from transformer_nb.data.tokenizer import Tokenizer, train_tokenizer
from transformer_nb.decode.evaluation import score
from transformer_nb.decode.search import beam_search, greedy
from transformer_nb.decode.translator import Translator
from transformer_nb.feed_forward import FeedForward
from transformer_nb.interop import export as export_module
from transformer_nb.interop.export import OneStep, SourceSide, to_carry, to_ctranslate2, to_onnx
from transformer_nb.interop.hub import model_card, push_to_hub
from transformer_nb.interop.marian import from_marian, to_marian
from transformer_nb.parts.inference import inference
from transformer_nb.transformer import Transformer, TransformerConfig

SMALL = dict(N=1, d_model=32, d_ff=48, h=4, max_len=40)
FORMS = {  # what differs from the paper's model
    'as in the paper': {},
    'pre-norm, biases': dict(norm='pre', bias=True),
    'wide heads, learned positions': dict(d_k=12, d_v=12, positions='learned'),
    'silu, deeper encoder': dict(activation='silu', N=2, N_decoder=1),
    'gelu, deeper decoder, bias of the softmax': dict(activation='gelu', N_decoder=3, softmax_bias=True),
    'own source': dict(tie='output', src_vocab_size=220, positions='learned'),
    'three matrices': dict(tie='none', src_vocab_size=220, norm='pre', suppress_tokens=(5, 6, 7, 8)),
    'own softmax matrix': dict(tie='input', softmax_bias=True, bias=True),
}


@cache
def words(size):
    "A vocabulary of so many pieces."
    return train_tokenizer([side for pair in few_pairs(300) for side in pair], size)


class TwoSides:
    "A vocabulary for each language."
    def __init__(self, source, target): self.source, self.target = source, target
    def __getattr__(self, name): return getattr(self.target, name)


def make(seed=0, **changes):
    "Something to export; it is changed until it does not say the same token again and again, whatever the source."
    torch.manual_seed(seed)
    cfg = TransformerConfig(**dict(vocab_size=200) | SMALL | changes)
    model = Transformer(cfg).eval().requires_grad_(False)
    for name, p in model.named_parameters():
        if 'norm.weight' in name: p += torch.randn_like(p)
        elif name.endswith('bias'): p += .1*torch.randn_like(p)
        elif 'W_' in name: p *= 3
    source, target = words(cfg.src_vocab_size or cfg.vocab_size), words(cfg.vocab_size)
    return SimpleNamespace(model=model, tokenizer=target if source is target else TwoSides(source, target))


def sources(found, number=60):
    "Rows of ids of all lengths up to the model's limit; no empty one, to which CTranslate2 always answers nothing."
    cfg, rng = found.model.cfg, np.random.default_rng(0)
    lengths = rng.integers(2, cfg.max_len, number)
    return [[*rng.integers(4, found.tokenizer.source.vocab_size, n - 1).tolist(), cfg.eos_id] for n in lengths]


def limits(found, rows): return [min(len(row) + 50, found.model.cfg.max_len) for row in rows]


def ct2_program(folder):
    return pytest.importorskip('ctranslate2').Translator(str(folder), intra_threads=1, inter_threads=1)


def by_ctranslate2(found, folder, rows, **settings):
    "What CTranslate2 writes, as ids; an empty output only where it may."
    tokens, most = [found.tokenizer.source.pieces(row[:-1]) for row in rows], max(limits(found, rows))
    settings |= {'max_decoding_length': most, 'min_decoding_length': 0, 'max_batch_size': 16}
    answers = ct2_program(folder).translate_batch(tokens, **settings)
    return [found.tokenizer.target.ids_of(answer.hypotheses[0]) for answer in answers]


def cut(outputs, most):
    "Each output to its own limit, which CTranslate2 does not know."
    return [ids[:n] for ids, n in zip(outputs, most)]


@pytest.fixture(scope='module')
def small(): return make()


@pytest.fixture(scope='module')
def graphs(tmp_path_factory, small):
    "The small model as ONNX."
    pytest.importorskip('onnxscript')
    folder = tmp_path_factory.mktemp('graphs')/'onnx'
    to_onnx(small, folder)
    return folder


@pytest.fixture(scope='module')
def test_split(): return load_builtin()['test']


@pytest.fixture(scope='module')
def demo(): return replace(load('demo'), model=load('demo').model.float())


# The same tokens

@pytest.mark.parametrize('form', FORMS)
def test_the_two_halves_are_the_model(form):
    "Scores of every step equal those of `forward`; what is never written has −∞."
    found = make(**FORMS[form])
    model, cfg = found.model.double(), found.model.cfg  # in which no kernel's rounding counts
    src, seeded = pad(sources(found, 5)), torch.Generator().manual_seed(0)
    tgt = torch.cat([torch.full((5, 1), cfg.bos_id), torch.randint(9, cfg.vocab_size, (5, 6), generator=seeded)], 1)
    expected, memory, step = model(src, tgt), SourceSide(model)(src), OneStep(model)
    barred = {cfg.pad_id, cfg.bos_id, *cfg.suppress_tokens}
    past = [torch.zeros(5, cfg.h, 0, d).double() for _ in model.decoder for d in (cfg.d_k, cfg.d_v)]
    for i in range(tgt.shape[1]):
        scores, past = step(tgt[:, i], torch.tensor(i), src, memory, past)
        assert {*scores[0].isinf().nonzero()[:, 0].tolist()} == barred
        free = scores.isfinite()
        torch.testing.assert_close(scores[free], expected[:, i][free], atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize('form', FORMS)
def test_ctranslate2_writes_our_tokens(form, tmp_path):
    found = make(**FORMS[form])
    to_ctranslate2(found, tmp_path/'ct2')
    rows = sources(found)
    expected = greedy(found.model, pad(rows))
    assert len({*map(tuple, expected)}) > 30  # or the source would not matter
    assert cut(by_ctranslate2(found, tmp_path/'ct2', rows, beam_size=1), limits(found, rows)) == expected
    program = ct2_program(tmp_path/'ct2')
    assert max(score_difference(found, program, row, ids[:20]) for row, ids in zip(rows, expected)) < 1e-4


def score_difference(found, program, row, ids):
    "How far CTranslate2's log-probability of any token of a translation is from ours."
    cfg, source, target = found.model.cfg, found.tokenizer.source, found.tokenizer.target
    theirs = program.score_batch([source.pieces(row[:-1])], [target.pieces(ids)])[0].log_probs
    logits = found.model(pad([row]), torch.tensor([[cfg.bos_id, *ids]]))[0] + export_module.never(found.model)
    ours = logits.log_softmax(-1)[range(len(ids) + 1), [*ids, cfg.eos_id]]
    return (ours - torch.tensor(theirs)).abs().max().item()


def test_ctranslate2_searches_as_we_do(tmp_path, demo):
    "Beam search without length penalties, on the demo model, whose outputs end before any limit."
    to_ctranslate2(demo, tmp_path/'ct2')
    rows = encoded(demo, few_pairs(60, 'test'))
    ours = [hyps[0].ids for hyps in beam_search(demo.model, pad(rows), 4, 0.)]
    assert by_ctranslate2(demo, tmp_path/'ct2', rows, beam_size=4, length_penalty=0) == ours


def encoded(found, pairs):
    return [[*ids, found.model.cfg.eos_id] for ids in found.tokenizer.encode([source for source, _ in pairs])]


@pytest.mark.parametrize('quantization', ['int8', 'int16', 'float16', 'bfloat16'])
def test_shorter_numbers_leave_the_model_alone(quantization, tmp_path, small):
    "CTranslate2 rounds in place: it must be a copy. And the file is smaller."
    before = deepcopy(small.model.state_dict())
    to_ctranslate2(small, tmp_path/'float32')
    to_ctranslate2(small, tmp_path/'short', quantization)
    for name, t in small.model.state_dict().items(): assert torch.equal(t, before[name]), name
    sizes = [(tmp_path/name/'model.bin').stat().st_size for name in ('float32', 'short')]
    assert sizes[1] < .7*sizes[0]
    assert len(by_ctranslate2(small, tmp_path/'short', sources(small, 3), beam_size=2)) == 3


def test_onnx_writes_our_tokens(graphs, small):
    "In batches of all sizes, one sentence, one token, and a source as long as the model can hold."
    model, rows = OnnxModel(graphs, threads=1), sources(small)
    expected = greedy(small.model, pad(rows))
    assert model.greedy(rows) == expected
    for b in (1, 2, 7): assert model.greedy(rows[:b]) == expected[:b]
    eos, most = small.model.cfg.eos_id, small.model.cfg.max_len
    for row in ([eos], [9]*(most - 1) + [eos]): assert model.greedy([row]) == greedy(small.model, pad([row]))


def test_other_models_as_onnx(tmp_path, monkeypatch):
    "All that may differ from the paper does; and the weights lie beside the graph, as those of large models do."
    monkeypatch.setattr(export_module, 'ONE_FILE', 0)
    pytest.importorskip('onnxscript')
    special = dict(pad_id=3, bos_id=0, eos_id=1)  # imported models have other ones, too
    found = make(norm='pre', positions='learned', tie='none', src_vocab_size=220, activation='gelu', N=2, N_decoder=1,
                 bias=True, softmax_bias=True, d_k=4, d_v=12, suppress_tokens=(5, 6, 7, 8), **special)
    vars(found.tokenizer).update(special)
    to_onnx(found, tmp_path/'onnx')
    assert {'encoder.onnx.data', 'decoder.onnx.data'} <= {file.name for file in (tmp_path/'onnx').iterdir()}
    rows = sources(found, 20)
    assert OnnxModel(tmp_path/'onnx', threads=1).greedy(rows) == greedy(found.model, pad(rows, 'cpu', 3))


def test_an_imported_model_goes_out(tmp_path, monkeypatch):
    "By way of Hugging Face's Marian, which has a SentencePiece file for each side and one table of pieces for both."
    monkeypatch.setattr(export_module, '_write_graph', lambda *given: {})  # other ids stand in the one above
    pytest.importorskip('onnxscript')
    to_marian(make(bias=True, softmax_bias=True, activation='silu'), tmp_path/'marian')
    found = from_marian(tmp_path/'marian')
    rows = sources(found, 20)
    expected = greedy(found.model, pad(rows))
    to_ctranslate2(found, tmp_path/'ct2')
    assert cut(by_ctranslate2(found, tmp_path/'ct2', rows, beam_size=1), limits(found, rows)) == expected
    to_onnx(found, tmp_path/'onnx')
    for folder in (tmp_path/'ct2', tmp_path/'onnx'):
        ids = json.loads((folder/'vocab.json').read_text(encoding='utf-8'))
        assert ids == found.tokenizer.source.ids == found.tokenizer.target.ids
        assert (folder/'source.spm').read_bytes() == found.tokenizer.source.model


def test_graphs_are_as_config_says(graphs, small):
    "Opset, names, shapes: what ONNX itself reads from the files."
    onnx = pytest.importorskip('onnx')
    config, cfg = json.loads((graphs/'config.json').read_text()), small.model.cfg
    assert (config['pad_id'], config['bos_id'], config['eos_id']) == (cfg.pad_id, cfg.bos_id, cfg.eos_id)
    for half, sides in config['graphs'].items():
        model = onnx.load(str(graphs/f'{half}.onnx'))
        onnx.checker.check_model(model, full_check=True)
        ours = str(Path(export_module.__file__).parent).encode()  # a path of this machine
        assert ours not in (graphs/f'{half}.onnx').read_bytes()
        assert [(o.domain, o.version) for o in model.opset_import] == [('', config['opset'])]
        for side, values in (('inputs', model.graph.input), ('outputs', model.graph.output)):
            assert {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values} \
                == sides[side]
    assert config['graphs']['decoder']['inputs']['past_value_0'] == ['b', cfg.h, 'm', cfg.d_v]
    assert config['graphs']['decoder']['outputs']['new_value_0'] == ['b', cfg.h, 'm + 1', cfg.d_v]


# Who may be exported

def test_any_holder_of_a_model_will_do(tmp_path, demo):
    "A translator whose matrices were given up reads its model again; 16 bits become 32."
    to_ctranslate2(Translator.from_pretrained('demo'), tmp_path/'ct2')
    to_ctranslate2(demo, tmp_path/'other')
    assert (tmp_path/'ct2'/'model.bin').read_bytes() == (tmp_path/'other'/'model.bin').read_bytes()


def test_a_plain_model_is_plain(small):
    "Its numbers, its precision and what has been done with it are no changes; no random number is drawn."
    state = torch.get_rng_state()
    for model in (small.model, deepcopy(small.model).half(), torch.compile(small.model)):
        assert to_carry(SimpleNamespace(model=model, tokenizer=small.tokenizer)).embedding.weight.dtype == torch.float32
    greedy(small.model, pad(sources(small, 2)))
    Translator(small.model, words(200))
    to_carry(small)
    assert torch.equal(state, torch.get_rng_state())


def part(model): model.decoder[0].feed_forward = torch.nn.Identity()
def more(model): model.extra = torch.nn.Linear(2, 2)
def fewer(model): model.encoder[0].residuals = model.encoder[0].residuals[:1]
def shape(model): model.encoder[0].feed_forward.W_1 = torch.nn.Linear(32, 20)
def kind(model): model.encoder[0].feed_forward.__class__ = type('Mine', (FeedForward,), {})
def pruned(model): prune.l1_unstructured(model.encoder[0].feed_forward.W_1, 'weight', .5)


@pytest.mark.parametrize('change, name', [
    (part, 'decoder.0.feed_forward.'), (more, 'extra.weight:'), (fewer, 'encoder.0.residuals.1'),
    (shape, 'encoder.0.feed_forward.W_1.weight:'), (kind, 'encoder.0.feed_forward:'),
    (pruned, 'encoder.0.feed_forward.W_1.weight')])
@pytest.mark.parametrize('export', [to_onnx, to_ctranslate2])
def test_changed_models_are_refused(export, change, name, tmp_path):
    found = make()
    change(found.model)
    assert name in refusal(export, found, tmp_path/'out')


def refusal(function, *args, kind=InputError):
    "The one line with which it refuses, an error of this kind; it has written nothing."
    folder = next((arg.parent for arg in args if hasattr(arg, 'parent')), None)
    before = contents(folder) if folder else None
    with pytest.raises(kind) as e: function(*args)
    assert '\n' not in str(e.value)
    if folder: assert contents(folder) == before
    return str(e.value)


def contents(folder): return {str(f): f.read_bytes() if f.is_file() else None for f in sorted(folder.rglob('*'))}


def test_what_ctranslate2_does_not_have_is_refused(tmp_path, monkeypatch):
    assert 'one width for both' in refusal(to_ctranslate2, make(d_k=4), tmp_path/'out')
    assert "choose one of int8, " in refusal(to_ctranslate2, make(), tmp_path/'out', 'int4')
    monkeypatch.setattr(words(200), 'pieces', lambda ids: ['▁a']*len(ids), raising=False)
    assert "'▁a' twice" in refusal(to_ctranslate2, make(), tmp_path/'out')


@pytest.mark.parametrize('export', [to_onnx, to_ctranslate2])
def test_without_the_models_tokenizer(export, tmp_path, small):
    assert 'no tokenizer' in refusal(export, SimpleNamespace(model=small.model, tokenizer=None), tmp_path/'out')
    assert '220 pieces' in refusal(export, SimpleNamespace(model=small.model, tokenizer=words(220)), tmp_path/'out')


# Faults

@pytest.mark.parametrize('export, packages', [
    (to_onnx, ['onnx', 'onnxscript']), (to_ctranslate2, ['ctranslate2.specs.model_spec']),
    (push_to_hub, ['huggingface_hub'])])
def test_a_missing_extra_is_named(export, packages, tmp_path, small, monkeypatch):
    for package in packages:
        with monkeypatch.context() as without:
            without.setitem(sys.modules, package, None)
            said = refusal(export, small, 'me/model') if export is push_to_hub else refusal(export, small, tmp_path/'o')
            assert package in said and "pip install 'transformer_nb[interop]'" in said


@pytest.mark.parametrize('export', [to_onnx, to_ctranslate2])
def test_folders_of_others_stay(export, tmp_path, small):
    "A folder with the very same files, a file."
    foreign = tmp_path/'foreign'
    foreign.mkdir()
    for name in ('model.bin', 'config.json', 'encoder.onnx'): (foreign/name).write_text('precious')
    assert 'is there already and is no empty folder (config.json lies in it)' in refusal(export, small, foreign)
    (tmp_path/'file').write_text('precious')
    assert 'is there already' in refusal(export, small, tmp_path/'file')


def test_an_older_export_stays(tmp_path, small):
    to_ctranslate2(small, tmp_path/'ct2')
    assert 'is there already' in refusal(to_ctranslate2, small, tmp_path/'ct2', 'int8')
    assert sorted(f.name for f in tmp_path.iterdir()) == ['ct2']
    (tmp_path/'empty').mkdir()
    to_ctranslate2(small, tmp_path/'empty')


def full(*args, **kwargs): raise OSError(errno.ENOSPC, 'No space left on device')


@pytest.mark.parametrize('export, place', [
    (to_onnx, 'weights'), (to_onnx, 'tokenizer'), (to_onnx, 'last file'),
    (to_ctranslate2, 'weights'), (to_ctranslate2, 'tokenizer')])  # which is its last file
def test_a_full_disk_leaves_what_was_there(export, place, tmp_path, small, monkeypatch):
    ctranslate2 = pytest.importorskip('ctranslate2')
    to_ctranslate2(small, tmp_path/'out')  # an older export
    if place == 'weights':
        monkeypatch.setattr(ctranslate2.specs.ModelSpec, '_serialize', full)
        program = SimpleNamespace(model=SimpleNamespace(graph=()), save=full)
        monkeypatch.setattr(torch.onnx, 'export', lambda *given, **settings: program)
    elif place == 'tokenizer': monkeypatch.setattr(Tokenizer, 'save', full)
    else: monkeypatch.setattr(export_module, 'to_json', full)
    if place == 'last file': monkeypatch.setattr(export_module, '_write_graph', lambda *given: [{}, {}])  # in no time
    said = refusal(export, small, tmp_path/'new', kind=DiskError)
    assert str(tmp_path/'new') in said and 'No space left on device' in said and 'make room' in said


# The Hub

class Hub:
    "Stands for the Hub's interface: keeps what is uploaded."
    def __init__(self, token=None): self.kept['token'] = token
    def create_repo(self, repo_id, private, exist_ok):
        self.kept |= {'private': private}
        return SimpleNamespace(repo_id=repo_id)
    def upload_folder(self, repo_id, folder_path, revision, commit_message, **more):
        self.kept |= {'repo_id': repo_id, 'revision': revision, 'files': contents(folder_path),
                      'checkpoint': load(folder_path)}
        return f'https://hub/{repo_id}/commit/1'


@pytest.fixture
def hub(monkeypatch):
    mixin = pytest.importorskip('huggingface_hub.hub_mixin')
    monkeypatch.setattr(Hub, 'kept', {}, raising=False)
    monkeypatch.setattr(mixin, 'HfApi', Hub)
    return Hub.kept


def test_a_checkpoint_and_its_card_are_uploaded(hub, demo):
    url = push_to_hub(demo, 'me/model', license='mit', private=True, token='hf_x', branch='new')
    assert url == 'https://hub/me/model/commit/1'
    assert (hub['token'], hub['private'], hub['revision'], hub['repo_id']) == ('hf_x', True, 'new', 'me/model')
    for name, t in demo.model.state_dict().items():
        assert torch.equal(t, hub['checkpoint'].model.state_dict()[name])
    assert hub['checkpoint'].tokenizer.model == demo.tokenizer.model and hub['checkpoint'].training == demo.training
    card = next(data.decode() for name, data in hub['files'].items() if name.endswith('README.md'))
    assert card == model_card(demo, 'me/model', 'mit')


def test_the_card_says_what_is_known(demo):
    hub = pytest.importorskip('huggingface_hub')
    card = hub.ModelCard(model_card(demo, 'me/model', 'cc-by-4.0'))
    bleu = demo.training['scores']['test']['BLEU']
    assert card.data.language == ['en', 'de'] and card.data.license == 'cc-by-4.0'
    first = card.data.eval_results[0]
    assert (first.metric_type, first.metric_value, first.metric_config) == ('bleu', bleu['score'], bleu['signature'])
    for said in ('builtin', '3000', 'en to de', bleu['signature'], "'me/model'"): assert said in card.text, said
    assert model_card(Translator.from_pretrained('demo'), 'me/model') == model_card(demo, 'me/model')
    unsaid = replace(demo, training={'src': None, 'tgt': 'de'})
    assert hub.ModelCard(model_card(unsaid, 'me/model')).data.language == ['de']


def test_a_card_of_what_nothing_is_known(small):
    card = model_card(small, 'me/model')
    assert 'license: unknown' in card and 'Not measured.' in card and 'corpus: not known' in card


def test_no_path_of_the_author_is_told(hub, demo):
    secret = {'data': '/home/me/secret/train.en,/home/me/secret/train.de', 'src': 'en', 'tgt': 'de', 'step': 3,
        'init': '/home/me/first'}
    push_to_hub(replace(demo, training=secret), 'me/model')
    assert not [name for name, data in hub['files'].items() if data and b'home/me' in data]
    assert hub['checkpoint'].training == secret | {'data': 'train.en, train.de', 'init': 'first'}


def test_a_card_of_several_corpora(demo):
    about = {'data': ['/home/me/news', 'web=0.5'], 'src': 'en', 'tgt': 'de'}
    assert 'corpus: news, web=0.5' in model_card(replace(demo, training=about), 'me/model')


@pytest.mark.parametrize('error, kind', [
    (ConnectionError('no route'), HubError), (ValueError('401: who are you?'), HubError),
    (OSError(errno.ENOSPC, 'No space left on device'), DiskError), (InputError('not this model'), InputError)])
def test_the_hub_says_no(hub, demo, error, kind, monkeypatch):
    "The Hub's fault, the disk's and the user's are of different kinds."
    def refuse(*args, **kwargs): raise error
    monkeypatch.setattr(Hub, 'create_repo', refuse)
    said = refusal(push_to_hub, demo, 'me/model', kind=kind)
    assert str(error) in said and ('me/model' in said or kind is InputError)


@pytest.mark.parametrize('error', [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")])
@pytest.mark.parametrize('export', [to_onnx, to_ctranslate2])
def test_a_full_memory_is_told(export, error, tmp_path, small, monkeypatch):
    "One line that names the export; another error of torch stays what it is."
    def full(*given): raise error
    monkeypatch.setattr(export_module, 'deepcopy', full)
    assert 'export: the memory is full' in refusal(export, small, tmp_path/'out', kind=MemoryFull)
    error = RuntimeError('of another kind')
    with pytest.raises(RuntimeError, match='of another kind'): export(small, tmp_path/'out')


# 500 sentences of the test split

@pytest.mark.slow
def test_500_sentences_by_onnx(tmp_path, demo, test_split):
    to_onnx(demo, tmp_path/'onnx')
    model, ours, rows = OnnxModel(tmp_path/'onnx', threads=1), inference(demo.model), encoded(demo, test_split)
    assert len(rows) == 500
    for b in (50, 1):
        parts = [rows[i:i + b] for i in range(0, 500, b)]
        assert [model.greedy(part) for part in parts] == [greedy(ours, pad(part)) for part in parts]


@pytest.mark.slow
def test_500_sentences_by_ctranslate2(tmp_path, demo, test_split):
    "float32: the same tokens by greedy search and by beam search. int8: our BLEU; that of CTranslate2's is only shown."
    rows, references = encoded(demo, test_split), [target for _, target in test_split]
    assert len(rows) == 500
    for kind in (None, 'int8'): to_ctranslate2(demo, tmp_path/str(kind), kind)
    assert by_ctranslate2(demo, tmp_path/'None', rows, beam_size=1) == greedy(demo.model, pad(rows))
    ours = [hyps[0].ids for hyps in beam_search(demo.model, pad(rows), 4, 0.)]
    assert by_ctranslate2(demo, tmp_path/'None', rows, beam_size=4, length_penalty=0) == ours
    theirs = by_ctranslate2(demo, tmp_path/'int8', rows, beam_size=4, length_penalty=0)
    print('BLEU of CTranslate2 with 8 bits:', bleu(demo, theirs, references))  # of its kernels on this processor
    if 'fbgemm' not in torch.backends.quantized.supported_engines: return
    eight = beam_search(inference(demo.model, int8=True), pad(rows), 4, 0., keep_greedy=False)
    assert abs(bleu(demo, ours, references) - bleu(demo, [hyps[0].ids for hyps in eight], references)) < .1


def bleu(found, ids, references): return score(found.tokenizer.decode(ids), references)['BLEU']['score']
