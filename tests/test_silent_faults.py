"""What would otherwise go wrong without a word: each is right, or refused in one line that names the remedy."""
import copy
import dataclasses
import errno
import io
import json
import pickle
import random
from types import SimpleNamespace

import numpy as np
import pytest
import sentencepiece as spm
import torch

from transformer_nb import checkpoints, core, devices, files
from transformer_nb.data import sampling, shards, tokenizer
from transformer_nb.data.cleaning import clean
from transformer_nb.data.corpora import Corpus, folder_files, load_corpus
from transformer_nb.data.formats import find_files
from transformer_nb.decode.search import greedy, sample
from transformer_nb.files import atomic_folder, atomic_write, check_file, write_manifest
from transformer_nb.parts import packing
from transformer_nb.attention import additive_attention, attention, causal_mask, fused_attention, masked_softmax
from transformer_nb.data.batching import Batch, Batches, id_pairs, make_batch, pad
from transformer_nb.core import InputError, out_of_memory
from transformer_nb.course.viewer import Viewer
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.optimizer import adam
from transformer_nb.parts.packing import PackedAttention, PackedMask, Packing
from transformer_nb.positional_encoding import PositionalEncoding, sinusoids
from transformer_nb.parts.loss import projected_loss
from transformer_nb.regularization import smoothed_loss
from transformer_nb.data.tokenizer import Tokenizer, train_tokenizer
from transformer_nb.transformer import Transformer, TransformerConfig, preset
from transformer_nb.variants import ExactPositions

TEXT = ["a dog runs .", "ein Hund läuft ."]
SMALL = dict(vocab_size=20, N=2, d_model=16, d_ff=32, h=4, dropout=0., max_len=24)


def make(**changes):
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**SMALL | changes)).eval()


def one_line(error, *named):
    text = str(error.value)
    assert '\n' not in text
    for name in named: assert name in text, text


def refused(call, *named, kind=InputError):
    with pytest.raises(kind) as error: call()
    one_line(error, *named)


def close(a, b, atol=1e-6): torch.testing.assert_close(a, b, atol=atol, rtol=0)


# --- Special ids

OTHER = SimpleNamespace(pad_id=9, bos_id=7, eos_id=8)


def elsewhere(**ids):
    "A vocabulary with SentencePiece's own special ids, or others."
    out = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=out, vocab_size=60, model_type='bpe', minloglevel=2, **ids
    )
    return Tokenizer(out.getvalue())


def test_batches_are_made_with_the_ids_of_the_model():
    pairs = [([11, 12], [21, 22, 23]), ([13], [24])]
    batch = make_batch(pairs, OTHER)
    assert batch.src.tolist() == [[11, 12, 8], [13, 8, 9]]
    assert batch.tgt_in.tolist() == [[7, 21, 22, 23], [7, 24, 9, 9]]
    assert batch.tgt_out.tolist() == [[21, 22, 23, 8], [24, 8, 9, 9]]
    assert (batch.n_tokens, batch.pad_id) == (6, 9)
    assert [(part.n_tokens, part.pad_id) for part in (batch[:1], batch[1:])] == [(4, 9), (2, 9)]
    assert batch.to('cpu').pad_id == batch.to('cpu')[:1].pad_id == 9
    stream = Batches(pairs, special=OTHER)
    step = next(stream.stream())
    assert (
        torch.equal(stream.collate([0, 1]).src, batch.src)
        and step.n_tokens == sum(b.n_tokens for b in step.batches) == 6
    )
    assert pad([[1], [2, 3]], pad_id=9).tolist() == [[1, 9], [2, 3]]


def test_a_token_with_the_usual_id_of_padding_counts():
    # 0 is an ordinary token
    batch = Batch(torch.tensor([[5, 8]]), torch.tensor([[7, 0, 4]]), torch.tensor([[0, 4, 8]]), pad_id=9)
    assert batch.n_tokens == 3


def test_a_tokenizer_knows_its_special_ids():
    ours, theirs = train_tokenizer(TEXT), elsewhere()
    assert (ours.pad_id, ours.bos_id, ours.eos_id, ours.unk_id) == (0, 1, 2, 3)
    assert (theirs.pad_id, theirs.bos_id, theirs.eos_id, theirs.unk_id) == (-1, 1, 2, 0)
    other = elsewhere(pad_id=3, bos_id=1, eos_id=4, unk_id=0)
    ids = other.encode(["a dog"])[0]
    assert other.decode([[1, *ids, 4, 3, 3]]) == ["a dog"]
    assert elsewhere().decode([[0]]) == [' ⁇ ']            # its unknown has the id of our padding


@pytest.mark.parametrize('copied', [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_a_tokenizer_is_copied_by_its_bytes(copied):
    first = train_tokenizer(TEXT)
    second = copied(first)
    assert second.model == first.model and second.encode(TEXT) == first.encode(TEXT) and second.pad_id == 0


def test_an_unfitting_tokenizer_is_refused():
    ours = train_tokenizer(TEXT)
    cfg = TransformerConfig(**SMALL | dict(vocab_size=ours.vocab_size))
    tokenizer.check_tokenizer(None, cfg)
    tokenizer.check_tokenizer(ours, cfg)
    refused(
        lambda: tokenizer.check_tokenizer(ours, dataclasses.replace(cfg, vocab_size=99)),
        f'{ours.vocab_size} pieces',
        '99',
        'vocab_size=',
    )
    refused(
        lambda: tokenizer.check_tokenizer(ours, dataclasses.replace(cfg, eos_id=5)), 'eos_id is 2', '5 in the model'
    )
    refused(
        lambda: tokenizer.check_tokenizer(elsewhere(), make(vocab_size=60).cfg), 'pad_id is missing', '0 in the model'
    )


def test_no_checkpoint_holds_an_unfitting_tokenizer(tmp_path):
    refused(lambda: checkpoints.save(tmp_path/'c', make(vocab_size=60), elsewhere()), 'pad_id')
    assert not list(tmp_path.iterdir())


# --- Multi-head attention

@pytest.mark.parametrize('front', [(), (2,), (3, 2), (2, 1, 3)], ids=str)
@pytest.mark.parametrize('need_weights', [False, True])
def test_any_axes_may_stand_in_front(front, need_weights):
    "Each sentence alone, through torch's own layer of the same weights."
    torch.manual_seed(0)
    ours, theirs = MultiHeadAttention(16, 4, bias=True), torch.nn.MultiheadAttention(16, 4, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([m.weight for m in (ours.W_q, ours.W_k, ours.W_v)]))
        theirs.in_proj_bias.copy_(torch.cat([m.bias for m in (ours.W_q, ours.W_k, ours.W_v)]))
        theirs.out_proj.weight.copy_(ours.W_o.weight)
        theirs.out_proj.bias.copy_(ours.W_o.bias)
    q, k, v = torch.randn(*front, 5, 16), torch.randn(*front, 6, 16), torch.randn(*front, 6, 16)
    mask = torch.rand(5, 6) > .3
    mask[:, 0] = True
    out, weights = ours(q, k, v, mask, need_weights)
    rows = [x.reshape(-1, *x.shape[-2:]) for x in (q, k, v)]
    expected, w = theirs(*rows, attn_mask=~mask, average_attn_weights=False)
    assert out.shape == q.shape
    close(out, expected.view(q.shape))
    if need_weights: close(weights, w.view(*front, 4, 5, 6))
    else: assert weights is None


def test_heads_divide_the_width():
    refused(lambda: MultiHeadAttention(500, 8), 'no multiple of h', kind=ValueError)


def test_every_key_needs_its_value():
    module, q, k = MultiHeadAttention(16, 4), torch.randn(2, 3, 16), torch.randn(2, 5, 16)
    for v in (k[:1], k[:, :4], k[0]): refused(lambda: module(q, k, v), 'every key needs its value', kind=ValueError)


def test_packed_sequences_drop_nothing_in_silence():
    module, packed = PackedAttention(MultiHeadAttention(16, 4)), Packing(torch.ones(2, 3, dtype=torch.bool))
    x, mask = torch.randn(6, 16), PackedMask(packed, packed)
    assert module(x, x, x, mask)[0].shape == x.shape
    assert module(x, x, 2*x, mask)[0].allclose(2*module(x, x, x, mask)[0])  # values need not be the keys
    refused(lambda: module(x, x, x, mask, need_weights=True), 'weights', kind=ValueError)


# --- Masks

@pytest.mark.parametrize('mask', [causal_mask(4).float(), causal_mask(4).long(), causal_mask(4).byte(),
    torch.zeros(4, 4).masked_fill(~causal_mask(4), float('-inf'))], ids=['float', 'long', 'byte', 'additive'])
def test_a_mask_of_numbers_is_refused(mask):
    x, module = torch.randn(2, 4, 16), MultiHeadAttention(16, 4)
    W, w = torch.randn(16, 8), torch.randn(8)
    for call in (
        lambda: masked_softmax(torch.randn(4, 4), mask),
        lambda: attention(x, x, x, mask),
        lambda: fused_attention(x, x, x, mask),
        lambda: additive_attention(x, x, x, W, W, w, mask),
        lambda: module(x, x, x, mask),
        lambda: module(x, x, x, mask, need_weights=True),
    ):
        refused(call, 'boolean', 'True = may attend', 'mask.bool()', str(mask.dtype), kind=TypeError)


# --- Ids

SRC, TGT = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]), torch.tensor([[1, 9, 10], [1, 11, 0]])
WAYS = {'forward': lambda m, src, tgt: m(src, tgt),
        'packed': lambda m, src, tgt: packing.packed_decoder_states(packing.with_packed_attention(m), src, tgt),
        'decode': lambda m, src, tgt: m.decode(tgt, m.encode(src), src)}
ways = pytest.mark.parametrize('way', WAYS)


@ways
@pytest.mark.parametrize('side', ['source', 'target'])
@pytest.mark.parametrize(
    'wrong, named',
    [
        (lambda ids: ids[0], 'a table (sentences, tokens)'),
        (lambda ids: ids[None], 'a table (sentences, tokens)'),
        (lambda ids: ids.float(), 'whole numbers'),
        (lambda ids: ids.bool(), 'whole numbers'),
    ],
    ids=['1-D', '3-D', 'float', 'bool'],
)
def test_ids_are_a_table_of_whole_numbers(way, side, wrong, named):
    src, tgt = (wrong(SRC), TGT) if side == 'source' else (SRC, wrong(TGT))
    refused(lambda: WAYS[way](make(), src, tgt), f'{side} ids', named)


@ways
def test_every_source_needs_its_target(way):
    for src, tgt in ((SRC[:1], TGT), (SRC, TGT[:1]), (SRC, TGT.repeat(2, 1))):
        refused(lambda: WAYS[way](make(), src, tgt), f'{len(src)} source and {len(tgt)} target sentences')


def test_a_memory_of_other_sources_is_refused():
    "Where the mask is a single column, it would be used for every key."
    model = make()
    refused(lambda: model.decode(TGT, model.encode(SRC), SRC[:, :1]), '(2, 4, 16)', '(2, 1)', 'the memory was made of')


@ways
@pytest.mark.parametrize('positions', ['sinusoid', 'learned'])
def test_padding_at_the_left_is_refused(way, positions):
    model, left = make(positions=positions), SRC.clone()
    left[1] = torch.tensor([0, 0, 8, 2])
    refused(lambda: WAYS[way](model, left, TGT), 'row 1', 'padding belongs on the right')
    refused(
        lambda: WAYS[way](model, SRC, torch.tensor([[1, 0, 5], [1, 4, 0]])), 'row 0', 'padding belongs on the right'
    )


def test_packing_refuses_padding_at_the_left():
    refused(lambda: Packing(torch.tensor([[True, True], [False, True]])), 'row 1')
    for real in (
        torch.zeros(2, 3, dtype=torch.bool),
        torch.ones(0, 3, dtype=torch.bool),
        torch.ones(2, 0, dtype=torch.bool),
    ):
        Packing(real)


@ways
def test_an_empty_batch_passes(way):
    out = WAYS[way](make(), SRC[:0], TGT[:0])
    assert out.shape[0] == 0


def test_int32_ids_and_the_meta_device_pass():
    model = make()
    close(model(SRC.int(), TGT.int()), model(SRC, TGT), atol=0)
    assert model.to('meta')(SRC.to('meta'), TGT.to('meta')).shape == (2, 3, 20)


def test_compiled_and_exported_as_a_whole():
    "The question whether padding stands on the left depends on the data: it would break the graph."
    model = make()
    expected = model(SRC, TGT)
    close(torch.compile(model, fullgraph=True, backend='eager')(SRC, TGT), expected)
    b, n, m = (torch.export.Dim(name, min=2, max=16) for name in 'bnm')
    shapes = {'src': {0: b, 1: n}, 'tgt': {0: b, 1: m}}
    exported = torch.export.export(model, (SRC, TGT), dynamic_shapes=shapes).module()
    close(exported(SRC, TGT), expected)
    src, tgt = SRC.repeat(2, 2)[:3].clamp(3), TGT.repeat(2, 2)[:3].clamp(3)
    close(exported(src, tgt), model(src, tgt))


# --- Configuration

def test_derived_widths_follow_the_heads():
    base = TransformerConfig()
    for cfg, widths in (
        (dataclasses.replace(base, h=4), (128, 128)),
        (dataclasses.replace(base, d_model=1024, h=16), (64, 64)),
        (dataclasses.replace(dataclasses.replace(base, h=4), h=2), (256, 256)),
        (dataclasses.replace(preset('B1'), h=4), (16, 128)),
        (dataclasses.replace(base, d_k=64, h=4), (64, 128)),
        (copy.deepcopy(dataclasses.replace(base, h=4)), (128, 128)),
    ):
        assert (cfg.d_k, cfg.d_v) == widths
        assert (
            Transformer(dataclasses.replace(cfg, vocab_size=10, N=1)).encoder[0].self_attention.W_q.out_features
            == cfg.h * cfg.d_k
        )
    assert (
        base == TransformerConfig(d_k=64, d_v=64)
        and hash(base) == hash(TransformerConfig(d_k=64, d_v=64))
        and base.d_k == 64
    )
    refused(lambda: dataclasses.replace(base, h=7), 'no multiple of h 7', kind=ValueError)


def test_a_loaded_configuration_behaves_as_the_one_that_was_saved(tmp_path):
    checkpoints.save(tmp_path/'derived', make())
    checkpoints.save(tmp_path/'given', make(d_k=4))
    derived, given = (checkpoints.load(tmp_path/name).model.cfg for name in ('derived', 'given'))
    assert derived == make().cfg and (dataclasses.replace(derived, h=2).d_k, dataclasses.replace(given, h=2).d_k) == (
        8,
        4,
    )
    assert json.loads((tmp_path/'derived'/'config.json').read_text())['d_k'] is None
    old = dataclasses.asdict(make().cfg)                   # a checkpoint of before: every width is a number
    assert json.loads(json.dumps(old))['d_k'] == 4
    (tmp_path/'derived'/'config.json').write_text(json.dumps(old))
    write_manifest(tmp_path/'derived', checkpoints.FORMAT)
    assert checkpoints.load(tmp_path/'derived').model.cfg == make().cfg


WHOLE = ['vocab_size', 'N', 'd_model', 'd_ff', 'h', 'd_k', 'd_v', 'max_len']


@pytest.mark.parametrize(
    'name, value',
    [(name, value) for name in WHOLE for value in (0, -1, True, '8', 8.0)]
    + [
        (name, value)
        for name in ('dropout', 'label_smoothing')
        for value in (-0.1, 1.0, 1, float('nan'), '0.1', True, None)
    ]
    + [(name, value) for name in ('pad_id', 'bos_id', 'eos_id') for value in (-1, 20, 1.0, '1', True, None)]
    + [('bias', 1), ('bias', 'no'), ('norm', None), ('positions', 3), ('d_model', 15)],
)
def test_every_field_has_its_range(name, value):
    refused(
        lambda: TransformerConfig(**SMALL | ({'h': 5} if value == 15 else {}) | {name: value}),
        name,
        repr(value),
        kind=ValueError,
    )


def test_special_ids_are_in_the_vocabulary_of_the_source():
    two = dict(SMALL, tie='none', src_vocab_size=3)
    refused(lambda: TransformerConfig(**two, eos_id=4), 'src_vocab_size 3', 'eos_id 4')
    assert TransformerConfig(**two, bos_id=4).bos_id == 4  # no source begins with it


def test_special_ids_differ():
    for ids in (dict(pad_id=1), dict(bos_id=2), dict(eos_id=0)):
        refused(lambda: TransformerConfig(**ids), 'three different ids', kind=ValueError)


def test_what_is_in_range_passes():
    TransformerConfig(vocab_size=3, N=1, d_model=2, d_ff=1, h=1, max_len=1, dropout=0, label_smoothing=0)
    TransformerConfig(d_model=15, h=5, positions='learned', dropout=.99, d_k=1, d_v=1)
    assert TransformerConfig(vocab_size=10, pad_id=9, bos_id=7, eos_id=8).pad_id == 9


# --- Positions

@pytest.mark.parametrize('meta', [False, True])
def test_an_emptied_model_has_its_positions_again(meta):
    good = make()
    with torch.device('meta' if meta else 'cpu'): model = Transformer(good.cfg)
    if not meta: model.positions.table.fill_(float('nan'))  # what an emptied table may hold
    model = model.to_empty(device='cpu')
    model.load_state_dict(good.state_dict())
    assert torch.equal(model.positions.table, good.positions.table)
    close(model.eval()(SRC, TGT), good(SRC, TGT), atol=0)


def test_positions_move_and_change_type_as_before():
    layer = ExactPositions(16, 24)
    assert torch.equal(layer.double().table, sinusoids(24, 16).double()) and torch.equal(
        layer.half().table, sinusoids(24, 16).half()
    )
    assert torch.equal(layer.float().table, sinusoids(24, 16))  # what was rounded comes back exact
    assert layer.to('meta').table.is_meta
    own = ExactPositions(16, 24)
    own.table = own.table.flip(1)                           # somebody else's order of the columns is kept
    assert torch.equal(own.double().table, sinusoids(24, 16).flip(1).double())
    learned = PositionalEncoding(16, 24, learned=True)
    before = learned.table.detach().clone()
    assert torch.equal(learned.double().table, before.double())


def test_a_call_of_the_model_waits_for_a_gpu_once(monkeypatch):
    "Each number of a tensor that Python asks for is a wait; padding is looked for on both sides at once."
    model, waits = make(), []
    for name in ('item', 'tolist', '__bool__', '__int__'):
        plain = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, lambda t, plain=plain, name=name: waits.append(name) or plain(t))
    model(SRC, TGT)
    assert len(waits) == 1
    refused(lambda: model(SRC.flip(1), TGT), 'padding stands before a token')
    refused(lambda: model(SRC, TGT.flip(1)), 'padding stands before a token')


# --- Device, seeds, profile, dtype

def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 0)
    monkeypatch.setattr(torch.mps, 'device_count', lambda: 0)
    for name in ('cuda', 'cuda:7', 'mps', 'xpu'): refused(lambda: core.default_device(name), name, 'choose auto or cpu')
    for name in ('toaster', 'cuda:x', ''): refused(lambda: core.default_device(name), repr(name), 'choose auto')
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 2)
    refused(lambda: core.default_device('cuda:7'), 'cuda:0 to cuda:1')
    assert [core.default_device(name).index for name in ('cuda', 'cuda:0', 'cuda:1')] == [None, 0, 1]
    assert core.default_device('cpu') == torch.device('cpu')


def draw(): return random.random(), np.random.rand(), torch.rand(1).item()


@pytest.mark.parametrize('seed', [0, 7, 2**32, 2**63 - 1])
def test_seeds_give_the_streams_they_always_gave(seed):
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    before = draw()
    core.seed_everything(seed)
    assert draw() == before


def test_seeds_of_any_size():
    for seed in (2**64, 10**30):
        core.seed_everything(seed)
        before = draw()
        core.seed_everything(seed)
        assert draw() == before
    refused(lambda: core.seed_everything(-1), '-1', 'negative')


@pytest.mark.parametrize('seed', [np.int64(5), np.uint8(5), torch.tensor(5)])
def test_seeds_that_are_numbers_of_numpy(seed):
    core.seed_everything(seed)
    found = random.random(), np.random.rand(), torch.rand(1).item()
    core.seed_everything(5)
    assert found == (random.random(), np.random.rand(), torch.rand(1).item())


def test_seeded_puts_all_generators_back():
    core.seed_everything(3)
    undisturbed = draw(), draw()
    core.seed_everything(3)
    first = draw()
    with core.seeded(5): inside = draw()
    with pytest.raises(KeyError):
        with core.seeded(5):
            assert draw() == inside
            raise KeyError
    with pytest.raises(InputError):
        with core.seeded(-5): pass
    assert (first, draw()) == undisturbed


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    "A folder with no settings.ini above it, and no profile in the environment."
    (tmp_path/'a').mkdir()
    monkeypatch.chdir(tmp_path/'a')
    monkeypatch.delenv('TNB_PROFILE', raising=False)
    return tmp_path


@pytest.mark.parametrize(
    'text',
    [
        '[isort]\nline_length = 100\n',
        'no section\n',
        '[a]\nx = 1\n[a]\nx = 2\n',
        '[DEFAULT]\nlib_name = x\n',
        b'\xff\xfe',
    ],
    ids=['other sections', 'no section', 'section twice', 'nbdev', 'no text'],
)
def test_a_foreign_settings_file_is_passed_over(nowhere, text):
    (nowhere/'settings.ini').write_bytes(text if isinstance(text, bytes) else text.encode())
    assert core.profile('cpu').steps == core.Profile().steps
    assert core.profile().name in ('cpu', 'gpu')
    refused(lambda: core.profile('gpuu'), '[gpuu]', 'cpu, gpu or ci')


def test_the_own_settings_file_behind_a_foreign_one_is_found(nowhere):
    (nowhere/'settings.ini').write_text('[ci]\nsteps = 5\ndtype = float32\n')
    (nowhere/'a'/'settings.ini').write_text('[isort]\nline_length = 100\n')
    assert core.profile('ci').steps == 5
    refused(lambda: core.profile('gpu'), 'settings.ini: no profile [gpu]; it has ci')


@pytest.mark.parametrize('line, why', [
    ('name = laptop', "no setting 'name'"), ('corpus_sise = 3', "no setting 'corpus_sise'"), ('steps = many', 'many'),
    ('steps = 0', 'at least 1'), ('corpus_size = -5', 'at least 1'), ('dtype = flaot32', "'flaot32': choose one of")])
def test_a_bad_setting_of_ones_own_is_named(nowhere, line, why):
    (nowhere/'a'/'settings.ini').write_text(f'[mine]\n{line}\n')
    refused(lambda: core.profile('mine'), 'settings.ini', '[mine]', why)


def test_a_settings_file_with_the_mark_of_windows_is_read(nowhere):
    (nowhere/'settings.ini').write_text('[cpu]\nsteps = 5\n', encoding='utf-8-sig')
    assert core.profile('cpu').steps == 5


def test_a_broken_settings_file_of_ones_own_is_named(nowhere):
    "It would be passed over, and the course run on the defaults."
    (nowhere/'a'/'settings.ini').write_text('[cpu]\nsteps = 5\nsteps = 6\n')
    refused(lambda: core.profile('cpu'), 'settings.ini: ', 'line 3', "'steps'", 'already exists')


def test_what_somebody_puts_into_a_folder_while_it_is_made_stays(tmp_path):
    "Cleaning a corpus may take hours."
    new = atomic_folder(tmp_path/'out', (), 'new folder')
    with pytest.raises(InputError, match='thesis.tex lies in it'), new as made:
        (made/'train.en').write_text('a dog')
        (tmp_path/'out').mkdir()
        (tmp_path/'out'/'thesis.tex').write_text('mine')
    assert [file.name for file in (tmp_path/'out').iterdir()] == ['thesis.tex'] and len(list(tmp_path.iterdir())) == 1


def test_two_processes_do_not_fill_one_folder(tmp_path):
    "The second one would empty it under the first one's hands."
    out = tmp_path/'out'
    with atomic_folder(out, (), 'new folder') as made:
        (made/'train.en').write_text('a dog')
        refused(lambda: atomic_folder(out, (), 'new folder').__enter__(), 'out: another process is writing it')
    assert (out/'train.en').read_text() == 'a dog' and [file.name for file in tmp_path.iterdir()] == ['out']


def test_a_disk_without_locks_is_written_all_the_same(tmp_path, monkeypatch):
    def unknown(*_): raise OSError(errno.ENOLCK, 'No locks available')
    monkeypatch.setattr(files.fcntl, 'flock', unknown)
    with atomic_folder(tmp_path/'out', (), 'new folder') as made: (made/'train.en').write_text('a dog')
    assert (tmp_path/'out'/'train.en').exists()


def test_a_line_is_not_put_into_another_one():
    for kind in (InputError, files.DiskError):
        with pytest.raises(kind) as e, files.reading_errors_as('all.model', 'copy it', 'broken', ValueError):
            raise kind('letters.txt:3: two letters in a line; leave one')
        assert str(e.value) == 'letters.txt:3: two letters in a line; leave one'


@pytest.mark.parametrize('write', [
    lambda file: Tokenizer.save(SimpleNamespace(model=b'new'), file),
    lambda file: Viewer('new').save(file)], ids=['vocabulary', 'page'])
def test_a_disk_that_is_full_leaves_the_old_file(tmp_path, monkeypatch, write):
    (tmp_path/'a').write_text('old')
    def full(_): raise OSError(errno.ENOSPC, 'No space left on device')
    monkeypatch.setattr(files, 'fsync_and_hash', full)
    with pytest.raises(OSError, match='No space left'): write(tmp_path/'a')
    assert (tmp_path/'a').read_text() == 'old' and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize('tokens', [7, ('a',), (5.,), None])
def test_suppressed_tokens_are_ids(tokens):
    refused(lambda: TransformerConfig(suppress_tokens=tokens), 'suppress_tokens must be a list of ids', repr(tokens))


def test_a_comma_names_two_files(tmp_path):
    (tmp_path/'a').write_text('one\n')
    for data in (f"{tmp_path/'a'},", ','): refused(lambda: find_files(data, 'en', 'de'), 'no such file')


def test_the_root_is_a_folder_like_others():
    def fill():
        with atomic_folder('/', (), 'empty folder'): pytest.fail('it was taken')
    refused(fill, '/: is there already and is no empty folder')
    for path in ('/', ''): refused(lambda: checkpoints.find(path), 'holds no checkpoint')


def test_fewer_processes_than_one_are_refused():
    refused(lambda: list(shards.in_order(len, [('a',)], -1)), 'workers -1', 'at least 1')


def test_numbers_of_numpy_make_a_model():
    cfg = TransformerConfig(vocab_size=np.int64(60), dropout=np.float32(.5), bias=np.bool_(True))
    assert cfg == TransformerConfig(60, dropout=.5, bias=True)
    assert json.loads(json.dumps(dataclasses.asdict(cfg)))['vocab_size'] == 60


def test_an_older_glibc_gets_a_threshold_that_it_takes(monkeypatch):
    "A refused one would leave its own, and no longer a moving one: every larger tensor would be mapped anew."
    told = []
    def mallopt(which, size):
        told.append((which, size))
        return int(which == -1 or size <= 2**25)
    monkeypatch.setattr(devices, '_glibc', lambda name, *args: mallopt(*args))
    devices.keep_memory()
    assert told == [(-3, 2**30), (-3, 2**25), (-1, 2**30)]


def test_memory_that_is_full_on_windows_is_known():
    assert out_of_memory(RuntimeError('DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes.'))


@pytest.mark.parametrize('text', [
    'CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported', 'MPS backend out of memory (...)',
    'CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`'])
def test_memory_of_an_accelerator_that_is_full_is_known(text):
    "Not every full one is a `torch.OutOfMemoryError`: a context, cuBLAS and Apple's chips say it in words."
    assert out_of_memory(RuntimeError(text)) and not out_of_memory(RuntimeError('CUDA error: device-side assert'))


@pytest.mark.parametrize('rows, place', [
    ([[1, 2], [[3, 4]]], 'pair 0 (from 0), target: [[3, 4]]'), ([[1, 2], [[3], [4, 5]]], 'target: [[3], [4, 5]]'),
    ([[[1]], [[2]]], 'source: [[1]]'), ([[1, 2], 3], 'target: 3'), ([[1], [1.7]], 'target: [1.7]'),
    ([[], ['a']], "target: ['a']")])
def test_rows_that_hold_no_ids_are_named(rows, place):
    refused(lambda: id_pairs(rows), place, 'is no row of ids')
    if rows[1] != 3: refused(lambda: pad(rows), 'row ', 'is no row of ids')


def test_a_file_that_grew_is_not_whole(tmp_path):
    entry = atomic_write(tmp_path/'a', b'some bytes')
    (tmp_path/'a').write_bytes(b'some bytes and more')
    refused(lambda: check_file(tmp_path/'a', entry, 'copy it again', hashed=True), 'longer than it was written')


@pytest.mark.parametrize('more, named', [('train.en.gz', 'train.en.gz: train.en is there, too'),
    ('train.de.xz', 'train.de.xz: train.de is there, too'), ('valid.en', 'valid.en: val.en is there, too')])
def test_two_files_of_one_side_are_told(tmp_path, more, named):
    "One of them would be taken, and its lines paired with those of the other side's newer file."
    for name in ('train.en', 'train.de', 'val.en', 'val.de', more): (tmp_path/name).write_text('a\n')
    refused(lambda: folder_files(tmp_path, 'en', 'de'), named, 'leave one of the two')


def test_corpora_of_different_languages_are_not_mixed(monkeypatch):
    def load(name, src, *_): return Corpus('fr' if name == 'shards' else src, 'en', {'train': [('a', 'b')]})
    monkeypatch.setattr(sampling, 'load_data', load)
    refused(lambda: sampling.load_mixture(['news', 'shards'], 'de', 'en'), 'different languages, de-en, fr-en')
    assert len(sampling.load_mixture(['news', 'web'], 'de', 'en')['train']) == 2


def test_a_mask_of_numpy_is_told_its_kind():
    refused(lambda: attention(*torch.ones(3, 1, 2, 4), np.ones((2, 2), bool)), 'a boolean tensor', 'not ndarray',
            kind=TypeError)


@pytest.mark.parametrize('temperature', [1e-4, 1e-38, 1e-300])
def test_a_low_temperature_is_greedy_search_in_any_precision(temperature):
    model, src = make(), torch.tensor([[5, 6, 7, 2]])
    with torch.no_grad():
        for p in model.parameters(): p.mul_(20)  # scores in the thousands
    model = model.bfloat16()
    assert sample(model, src, temperature, max_new_tokens=6) == greedy(model, src, max_new_tokens=6)


def test_a_comma_in_the_name_of_a_folder_and_a_lone_test_set(tmp_path):
    (tmp_path/'a,b').mkdir()
    for lang in ('en', 'de'): (tmp_path/'a,b'/f'train.{lang}').write_text('a dog runs .\n')
    (tmp_path/'test.tsv').write_text('a dog runs .\ta dog runs .\n')
    assert [file.name for file in find_files(tmp_path/'a,b', 'en', 'de')['train']] == ['train.en', 'train.de']
    assert load_corpus(str(tmp_path/'a,b'))['train'].pairs == [('a dog runs .',)*2]
    assert clean(str(tmp_path/'a,b'), tests=str(tmp_path/'test.tsv'), workers=1, language=False).pairs == 1


def test_a_kind_of_vocabulary_that_is_none():
    refused(lambda: train_tokenizer(TEXT, kind='bpee'), "'bpee'", 'bpe or unigram')
    refused(lambda: train_tokenizer('a dog runs .\na cat sleeps .'), 'a list of sentences is needed')  # or of letters


def test_a_broken_manifest_of_shards_is_named(tmp_path):
    (tmp_path/'shards.json').write_text('{"format": 1}')
    refused(lambda: shards.read_manifest(tmp_path), "shards.json: has no 'plan'", 'tnb-data prepare again')


@pytest.mark.parametrize(
    'capability, dtype',
    [((6, 0), 'float32'), ((7, 0), 'float16'), ((7, 5), 'float16'), ((8, 0), 'bfloat16'), ((9, 0), 'bfloat16')],
)
def test_dtype_of_a_gpu_is_what_its_units_multiply(monkeypatch, capability, dtype):
    monkeypatch.setattr(torch.cuda, 'get_device_capability', lambda device=None: capability)
    assert core.fast_dtype(torch.device('cuda')) == dtype


@pytest.mark.parametrize(
    'seconds, dtype',
    [((1.0, 0.3), 'bfloat16'), ((1.0, 0.66), 'bfloat16'), ((1.0, 0.7), 'float32'), ((1.0, 3.0), 'float32')],
)
def test_dtype_of_a_cpu_is_measured_once(monkeypatch, seconds, dtype):
    "Whatever instructions it claims to have."
    asked = []
    for flag in ('_is_avx512_bf16_supported', '_is_amx_tile_supported'):
        monkeypatch.setattr(torch.cpu, flag, lambda: dtype == 'float32', raising=False)
    def measured(n, device, kind):
        asked.append(kind)
        return seconds[kind == torch.bfloat16]

    monkeypatch.setattr(devices, 'matmul_seconds', measured)
    devices._cpu_dtype.cache_clear()
    assert [core.fast_dtype(torch.device('cpu')) for _ in range(3)] == [dtype]*3
    assert asked == [torch.float32, torch.bfloat16]
    devices._cpu_dtype.cache_clear()


def test_measuring_a_product_draws_no_random_numbers():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    times = [core.matmul_seconds(64, 'cpu', dtype) for dtype in (torch.float32, torch.bfloat16)]
    assert min(times) > 0 and torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize('capability, takes', [((7, 0), False), ((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_the_gpu_kernel_is_left_out_where_it_cannot_run(monkeypatch, capability, takes):
    monkeypatch.setattr(torch.cuda, 'get_device_capability', lambda device=None: capability)
    monkeypatch.setattr(packing, '_kernel', lambda: True)
    q = SimpleNamespace(is_cuda=True, dtype=torch.float16, shape=(2, 5, 64), device=torch.device('cuda'))
    assert packing._varlen(q, q, q) is takes


# --- Nothing at all

def test_no_rows_and_no_pairs():
    assert pad([]).shape == (0, 0) and pad([]).dtype == torch.int64
    refused(lambda: make_batch([]), 'at least one')
    refused(lambda: Batches([]), 'at least one', 'give a corpus')


# --- Frozen parameters

@pytest.mark.parametrize('x_learns, W_learns', [(True, False), (False, True), (True, True)])
def test_loss_of_a_frozen_part(x_learns, W_learns):
    torch.manual_seed(0)
    x, W, targets = torch.randn(7, 4, dtype=torch.double), torch.randn(5, 4, dtype=torch.double), torch.randint(5, (7,))
    x.requires_grad_(x_learns)
    W.requires_grad_(W_learns)
    projected_loss(x, W, targets, .1, chunk=3)[0].backward()
    found = x.grad, W.grad
    x.grad = W.grad = None
    smoothed_loss(x @ W.T, targets, .1)[0].backward()
    for ours, expected, learns in zip(found, (x.grad, W.grad), (x_learns, W_learns)):
        assert (ours is not None) == learns
        if learns: close(ours, expected, atol=1e-12)


def test_loss_with_nothing_to_learn():
    x, W = torch.randn(7, 4), torch.randn(5, 4)
    loss, nll = projected_loss(x, W, torch.zeros(7, dtype=torch.long))
    assert not loss.requires_grad and loss.isfinite() and nll.isfinite()


@pytest.mark.parametrize('autocast', [True, False])
def test_loss_of_logits_in_16_bits_is_added_up_in_32(autocast):
    "With gradients and without, as in training and in validation."
    torch.manual_seed(0)
    x, W, y = torch.randn(300, 16).bfloat16(), torch.randn(50, 16).bfloat16(), torch.randint(50, (300,))
    if autocast: x, W = x.float(), W.float()
    with torch.autocast('cpu', torch.bfloat16, enabled=autocast):
        trained = projected_loss(x, W, y, chunk=7)
        with torch.no_grad(): judged = projected_loss(x, W, y, chunk=7)
    for a, b in zip(trained, judged): close(a, b, atol=2e-5)


def test_adam_leaves_frozen_parameters_alone(tmp_path):
    model = make()
    model.encoder.requires_grad_(False)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = adam(model)
    def step(model, optimizer):
        for group in optimizer.param_groups: group['lr'] = .01
        optimizer.zero_grad()
        model(SRC, TGT).logsumexp(-1).mean().backward()
        optimizer.step()
    step(model, optimizer)
    for name, p in model.named_parameters(): assert torch.equal(p, before[name]) == name.startswith('encoder'), name
    checkpoints.save(tmp_path/'c', model, optimizer=optimizer)
    again = checkpoints.load(tmp_path/'c').model
    again.encoder.requires_grad_(False)
    resumed = adam(again)
    checkpoints.load_optimizer(tmp_path/'c', resumed)
    for m, o in ((model, optimizer), (again, resumed)): step(m, o)
    for a, b in zip(model.parameters(), again.parameters()): assert torch.equal(a, b)


def test_adam_with_nothing_to_train():
    refused(lambda: adam(make().requires_grad_(False)), 'nothing to train', 'requires_grad_()')


def test_adam_is_torchs_fused_form():
    device = devices.default_device()
    model = torch.nn.Linear(3, 2, device=device)
    model(torch.ones(1, 3, device=device)).sum().backward()
    optimizer = adam(model)
    optimizer.step()
    assert optimizer.defaults['fused'] and optimizer.defaults['betas'] == (.9, .98)
