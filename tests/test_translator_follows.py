"A Translator keeps its model, follows it when told to, as far as it can be followed, refuses the rest, and travels."
import io
import multiprocessing
import pickle
import random
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy, deepcopy
from threading import Barrier, BrokenBarrierError, Thread, current_thread, main_thread

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, parametrizations, prune

from transformer_nb import checkpoints
from transformer_nb.course.viewer import forced_attention
from transformer_nb.data.batching import make_batch, pad
from transformer_nb.core import InputError
from transformer_nb.decode.search import beam_search, greedy, sample
from transformer_nb.embeddings import Embedding
from transformer_nb.feed_forward import FeedForward
from transformer_nb.parts import inference as inference_module, kernels
from transformer_nb.parts.inference import inference
from transformer_nb.experiments.heads import averaged_heads, cut_path, uniform_heads, without_heads
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.data.tokenizer import TokenizerLike, train_tokenizer
from transformer_nb.transformer import EncoderLayer, Transformer, TransformerConfig
from transformer_nb.decode.translator import Translator, _side_by_side

WORDS = 'a the dog cat bird tree sees runs sleeps near small big'.split()
TEXTS = [' '.join(random.Random(i).choices(WORDS, k=3 + i % 5)) + ' .' for i in range(60)]
ASKED = TEXTS[:6]
TOKENIZER = train_tokenizer(TEXTS, 40)


def build(seed=0, **changes):
    "A model without training, loud enough that every weight matters."
    torch.manual_seed(seed)
    cfg = TransformerConfig(
        **dict(vocab_size=TOKENIZER.vocab_size, N=2, d_model=16, d_ff=32, h=4, dropout=0.1, max_len=24, norm='pre')
        | changes
    )
    model = Transformer(cfg).eval()
    for p in model.parameters():
        if p.dim() > 1: p.data *= 2
    return model


def answers(translator):
    return [(round(hyp.score, 4), hyp.text) for hyps in translator.nbest(ASKED, beam=2, n=2) for hyp in hyps]


def fresh(model): return answers(Translator(deepcopy(model), TOKENIZER))


# --- it keeps the model it was given ----------------------------------------------------------------------------------

def train_on(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=.5)
    batch = make_batch([(ids, ids) for ids in TOKENIZER.encode(TEXTS[:8])])
    nn.functional.cross_entropy(model.train()(batch.src, batch.tgt_in).transpose(1, 2), batch.tgt_out).backward()
    optimizer.step()
    model.eval()

@torch.no_grad()
def zeros(model): model.decoder[1].cross_attention.W_v.weight.zero_()

def embedding(model): model.embedding.weight.data[5:].mul_(.5)

def other_layer(model): model.decoder[1] = build(5).decoder[1]

def to_float64(model): model.double()


@pytest.mark.parametrize('edit', [train_on, zeros, embedding, other_layer, to_float64], ids=lambda e: e.__name__)
def test_a_change_by_hand_counts_after_refresh(edit):
    "And so does the attention; not before, whatever is asked in between."
    given = build()
    translator = Translator(given, TOKENIZER)
    before = answers(translator)
    edit(translator.model)
    assert translator.model is given and answers(translator) == before
    translator.refresh()
    new = Translator(deepcopy(given), TOKENIZER)
    assert answers(translator) == answers(new) and (answers(new) != before or edit is to_float64)
    assert translator.dtype == given.embedding.weight.dtype
    a, b = translator.attention(ASKED[0]), new.attention(ASKED[0])
    assert a['target'] == b['target'] and all(torch.equal(a[kind], b[kind]) for kind in ('encoder', 'decoder', 'cross'))


@pytest.mark.parametrize('edit', [without_heads, uniform_heads])
def test_edited_heads_come_back(edit):
    translator = Translator(build(), TOKENIZER)
    before = answers(translator)
    with edit(translator.model, [('cross', 1, 0), ('decoder', 0, 2), ('encoder', 0, 1)]):
        translator.refresh()
        assert answers(translator) == fresh(translator.model) != before
    translator.refresh()
    assert answers(translator) == before


@pytest.mark.parametrize('int8', [False, True])
@pytest.mark.parametrize('after', ['replaced', 'gone', 'elsewhere'])
def test_the_files_may_change(int8, after, tmp_path, monkeypatch):
    "A translator needs them no more: translations, scores and attention stay those of the model it has read."
    checkpoints.save(tmp_path/'run', build(), TOKENIZER)
    monkeypatch.chdir(tmp_path)
    translator = Translator.from_pretrained('run', 'cpu', int8=int8)
    before, (expected,) = answers(translator), Translator(build(), TOKENIZER).score(ASKED[:1], ASKED[1:2])
    if after != 'elsewhere': shutil.rmtree('run')
    if after == 'replaced': checkpoints.save('run', build(3), TOKENIZER)
    if after == 'elsewhere': monkeypatch.chdir('/')
    assert translator.score(ASKED[:1], ASKED[1:2]) == [pytest.approx(expected, abs=1e-5)]
    assert translator.attention(ASKED[0])['cross'].isfinite().all() and answers(translator) == before
    assert torch.equal(translator.model.embedding.weight, build().embedding.weight)


def test_to_translate_the_prepared_form_is_enough(tmp_path):
    checkpoints.save(tmp_path/'run', build(), TOKENIZER)
    whole, slim = (Translator.from_pretrained(tmp_path/'run', 'cpu', keep_model=keep) for keep in (True, False))
    assert answers(slim) == answers(whole) and slim.cfg == whole.cfg and slim.device == whole.device
    for asked in (lambda: slim.model, slim.refresh, lambda: slim.score(['a'], ['a']), lambda: pickle.dumps(slim)):
        with pytest.raises(InputError, match='keep_model=True'): asked()


@pytest.mark.parametrize('changes', [{}, dict(norm='post', vocab_size=64)])
@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
def test_what_is_prepared_is_a_copy(changes, dtype):
    "Later changes of the model do not reach an Inference, nor a Translator made of it."
    model, src = build(**changes).to(dtype), pad([[5, 6, 7, 2], [8, 2]])
    ready = inference(model)
    before = greedy(ready, src), beam_search(ready, src)
    for t in (*model.parameters(), *model.buffers()): t.data.zero_()
    assert (greedy(ready, src), beam_search(ready, src)) == before
    if changes: return
    translator = Translator(ready, TOKENIZER)
    assert translator.ready is ready
    with pytest.raises(InputError, match='made of a prepared model'): translator.model


def test_attention_while_the_model_trains_drops_nothing():
    translator = Translator(build(dropout=.5), TOKENIZER)
    maps = translator.attention(ASKED[0])
    translator.model.train()
    translator.model.decoder.eval()
    again = translator.attention(ASKED[0])
    assert all(torch.equal(maps[kind], again[kind]) for kind in ('encoder', 'decoder', 'cross'))
    # as it was
    assert (
        translator.model.training and translator.model.encoder[0].training and not translator.model.decoder[0].training
    )


def test_threads_share_a_translator():
    translator = Translator(build(), TOKENIZER)
    expected, maps = answers(translator), translator.attention(ASKED[0])

    def ask(i):
        return (
            answers(translator) == expected
            if i % 3
            else torch.equal(translator.attention(ASKED[0])['cross'], maps['cross'])
        )

    with ThreadPoolExecutor(4) as pool: assert all(pool.map(ask, range(40)))


def test_threads_trace_a_step_once(monkeypatch):
    "While one thread traces, the other one waits: it would wait here until the first one has met it."
    ready, traced, meet = inference(build()), inference_module._traced, Barrier(2, timeout=1)
    calls = []
    def watched(*args):
        calls.append(args)
        with suppress(BrokenBarrierError): meet.wait()
        return traced(*args)
    monkeypatch.setattr(inference_module, '_traced', watched)
    monkeypatch.setattr(inference_module, 'TRACE_AFTER', 1)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: greedy(ready, pad([[5, 6, 7, 2]])), range(2)))
    assert found[0] == found[1] and len(calls) == 1


def test_warnings_of_the_process_stay_as_they_are(monkeypatch):
    "In a thread, `catch_warnings` can leave the filters changed for the whole process."
    inside, enter = [], warnings.catch_warnings.__enter__
    def entering(self):
        if current_thread() is not main_thread(): inside.append(self)
        return enter(self)
    monkeypatch.setattr(warnings.catch_warnings, '__enter__', entering)
    Translator(build(), TOKENIZER).translate(TEXTS, batch_tokens=64, parallel=2)
    assert not inside
    kernels._can_pack.cache_clear()
    with warnings.catch_warnings(record=True, action='always') as told, ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda int8: Translator(build(), TOKENIZER, int8=int8), (False, True)))
    assert not inside and not told
    with pytest.warns(UserWarning, match='still heard'): warnings.warn('still heard')
    with pytest.warns(DeprecationWarning, match='still heard'): warnings.warn('still heard', DeprecationWarning)


# --- what stands in the place of a part -------------------------------------------------------------------------------

class LoRA(nn.Module):
    "A low-rank adapter around a projection; as some libraries make them, without `weight` and `bias`."
    def __init__(self, base, r=2):
        super().__init__()
        self.base, self.A, self.B, self.drop, self.scale = (
            base,
            nn.Linear(base.in_features, r, bias=False),
            nn.Linear(r, base.out_features, bias=False),
            nn.Dropout(0.5),
            0.7,
        )

    def forward(self, x): return self.base(x) + self.scale*self.B(self.A(self.drop(x)))

class LoRAWithWeight(LoRA):
    @property
    def weight(self): return self.base.weight
    @property
    def bias(self): return self.base.bias

class Scaled(nn.Linear):
    def forward(self, x): return 2*super().forward(x)

def scaled(linear):
    found = Scaled(linear.in_features, linear.out_features)
    found.load_state_dict(linear.state_dict(), strict=False)
    return found

class Doubled(nn.Module):
    def forward(self, W): return 2*W

def pruning(linear):
    prune.l1_unstructured(linear, 'weight', .5)
    return linear

def doubling(linear):
    parametrize.register_parametrization(linear, 'weight', Doubled())
    return linear

def spectral(linear): return parametrizations.spectral_norm(linear)

def hooked(linear):
    linear.register_forward_hook(lambda m, args, y: y + 1.)
    return linear

PLACES = [
    f'{side}.1.{part}'
    for side in ('encoder', 'decoder')
    for part in (
        'self_attention.W_q',
        'self_attention.W_k',
        'self_attention.W_v',
        'self_attention.W_o',
        'feed_forward.W_1',
        'feed_forward.W_2',
    )
]
PLACES += [f'decoder.0.cross_attention.W_{x}' for x in 'qkvo']

def exchange(model, places, change):
    for place in places:
        above, name = model.get_submodule(place.rpartition('.')[0]), place.rpartition('.')[2]
        setattr(above, name, change(getattr(above, name)))
    return model

@torch.no_grad()
def decodes_as_the_model(model):
    """Step by step with the prepared form, or all at once by the model itself.
    (Padded tables, no `packed`, which asks for `weight`.)"""
    src, tgt = pad([[5, 6, 7, 2], [8, 9, 2]]), torch.tensor([[1, 4, 7, 9], [1, 8, 5, 6]])
    ready = inference(model)
    cache = ready.start(src, 4)
    steps = torch.stack([ready.step(ids, cache) for ids in tgt.unbind(1)], 1)
    torch.testing.assert_close(steps[..., 2:model.cfg.vocab_size], model.eval()(src, tgt)[..., 2:], rtol=0, atol=1e-9)


@pytest.mark.parametrize('change', [LoRA, LoRAWithWeight, scaled, pruning, doubling, spectral, hooked])
@pytest.mark.parametrize('training', [False, True])
def test_affine_maps_of_any_kind_are_followed(change, training):
    model = exchange(build().double(), PLACES, change).double()
    decodes_as_the_model(model.train(training))
    plain = build().double()
    assert beam_search(model, pad([[5, 6, 7, 2]])) != beam_search(plain, pad([[5, 6, 7, 2]]))


@pytest.mark.parametrize('norm', ['pre', 'post'])
def test_heads_that_were_taken_away_are_followed(norm):
    model = build(norm=norm, d_model=32)
    model.decoder[0].self_attention = MultiHeadAttention(32, 3, 8, 8)
    model.decoder[1].cross_attention = MultiHeadAttention(32, 1, 12, 5, bias=True)
    model.encoder[1].self_attention = MultiHeadAttention(32, 2, 6, 10)
    model.encoder[0].feed_forward = FeedForward(32, 7)
    cut = model.decoder[1].self_attention  # two of four heads, and nobody told d_k
    cut.W_q, cut.W_k, cut.W_v, cut.W_o, cut.h = (
        nn.Linear(32, 16),
        nn.Linear(32, 16),
        nn.Linear(32, 16),
        nn.Linear(16, 32),
        2,
    )
    decodes_as_the_model(model.double())
    src = pad([[5, 6, 7, 2], [8, 9, 2]])
    assert [h[0][1] for h in beam_search(model, src, 1, 0.)] == greedy(model, src)


class Gated(FeedForward):
    def forward(self, x): return self.W_2(self.W_1(x).sigmoid())

class Changed(Transformer):
    def encode(self, src): return 2*super().encode(src)

class Adapted(EncoderLayer):
    def forward(self, x, mask=None): return super().forward(x, mask) + 1

def other_class(model): model.encoder[0].feed_forward = Gated(16, 32)
def other_kind_of_layer(model): model.encoder[0] = Adapted(model.cfg)
def other_norm(model): model.decoder[0].residuals[1].norm = nn.Sequential(nn.LayerNorm(16), nn.Tanh())
def no_matrix(model): model.decoder[0].feed_forward.W_1 = nn.Sequential(nn.Linear(16, 32), nn.GELU())
def hook(model): model.encoder[0].self_attention.register_forward_hook(lambda m, args, out: None)
def pre_hook(model): model.decoder[1].register_forward_pre_hook(lambda m, args: None)
class Negated(Embedding):
    def logits(self, x): return -super().logits(x)
def logits(model): model.embedding = Negated(model.cfg.vocab_size, model.cfg.d_model)

@pytest.mark.parametrize('change', [other_class, other_kind_of_layer, other_norm, no_matrix, hook, pre_hook])
def test_parts_of_other_kinds_are_followed(change):
    "What is not plain is not exchanged: decoding computes what the model computes."
    model = build().double()
    change(model)
    model.double()
    decodes_as_the_model(model)


def test_hooks_are_called_at_every_step():
    model, calls = build(), []
    model.decoder[1].register_forward_hook(lambda m, args, y: calls.append(y.shape) or -y)
    steps = len(greedy(model, pad([[5, 6, 7, 2]]))[0])
    assert len(calls) >= steps > 1 and greedy(model, pad([[5, 6, 7, 2]])) != greedy(build(), pad([[5, 6, 7, 2]]))


def test_what_cannot_be_followed_is_refused_by_name():
    model, translator = build(), Translator(build(), TOKENIZER)
    for call in (
        lambda: (logits(model), inference(model)),
        lambda: (logits(translator.model), translator.refresh()),
    ):
        with pytest.raises(InputError) as e: call()
        message = str(e.value)
        assert message.startswith('embedding: ') and '\n' not in message and 'call the model itself' in message


def test_a_model_of_ones_own_is_taken_unless_it_computes_otherwise():
    class Named(Transformer):
        def __init__(self, cfg, name):
            super().__init__(cfg)
            self.name = name
        def training_step(self, batch): pass
    assert len(greedy(Named(build().cfg, 'mine').eval(), torch.tensor([[5, 2]]))) == 1
    with pytest.raises(InputError, match='the model: Changed'): inference(Changed(build().cfg))


def test_exchanged_attention_is_refused_while_it_lasts():
    translator = Translator(build(), TOKENIZER)
    before = answers(translator)
    for edit in (
        averaged_heads(translator.model, ['cross']),
        cut_path(translator.model, 'encoder', torch.zeros(4, 4, dtype=torch.bool)),
    ):
        with edit, pytest.raises(InputError, match='attention: _OtherAttention attends in a way of its own'):
            translator.refresh()
        assert answers(translator) == before
    # by the model itself
    with averaged_heads(translator.model, ['cross']): forced_attention(translator, ASKED[0], ASKED[1])


def test_a_released_model_is_refused():
    translator = Translator(build(), TOKENIZER)
    inference(translator.model, release=True)
    with pytest.raises(InputError, match='load it again'): translator.refresh()


# --- copies -----------------------------------------------------------------------------------------------------------

def by_torch(translator):
    file = io.BytesIO()
    torch.save(translator, file)
    file.seek(0)
    return torch.load(file, weights_only=False)

@pytest.mark.parametrize('way', [deepcopy, copy, lambda t: pickle.loads(pickle.dumps(t)), by_torch])
def test_copies_translate_alike(way, tmp_path):
    translator = Translator(build(), TOKENIZER, {'src': 'en'})
    twin = way(translator)
    assert answers(twin) == answers(translator) and twin.about['src'] == 'en' and type(twin) is Translator
    if way is copy: return
    embedding(twin.model)
    twin.refresh()
    translator.refresh()
    assert answers(twin) != answers(translator)           # and then goes its own way


def test_int8_stays_int8_in_a_copy():
    with warnings.catch_warnings(action='ignore'):
        translator = Translator(build(), TOKENIZER, int8=True)
        assert pickle.loads(pickle.dumps(translator)).ready.int8 and deepcopy(translator).ready.int8
        translator.refresh()
        assert answers(translator) and translator.ready.int8


def test_a_spawned_process_translates_alike(tmp_path):
    checkpoints.save(tmp_path/'run', build(), TOKENIZER)
    translator = Translator.from_pretrained(tmp_path/'run', 'cpu')
    with multiprocessing.get_context('spawn').Pool(1) as pool:
        assert pool.map(answers, [translator]) == [answers(translator)]


# --- surroundings -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('kind', [dict(), dict(int8=True)])
def test_mixed_precision_around_it_changes_nothing(kind):
    with warnings.catch_warnings(action='ignore'): translator = Translator(build(), TOKENIZER, **kind)
    model, src = translator.ready, pad([[5, 6, 7, 2], [8, 2]])
    def everything():
        maps = translator.attention(ASKED[0])
        return (
            answers(translator),
            answers_of(model, src),
            maps['target'],
            [maps[kind].tolist() for kind in ('encoder', 'decoder', 'cross')],
            [translator.translate(ASKED, parallel=2)],
        )

    def answers_of(model, src): return greedy(model, src), beam_search(model, src), sample(model, src)
    plain = everything()
    with torch.autocast('cpu', dtype=torch.bfloat16):
        assert everything() == plain
        assert answers_of(build(), src) == plain[1] or kind
        assert torch.is_autocast_enabled('cpu')
    with torch.autocast('cpu', dtype=torch.bfloat16), warnings.catch_warnings(action='ignore'):
        assert answers(Translator(build(), TOKENIZER, **kind)) == plain[0]


def numbers_of_threads():
    "What this thread has, and what a new one gets."
    found = []
    thread = Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return torch.get_num_threads(), *found


def test_batches_side_by_side_leave_the_number_of_threads(monkeypatch):
    "For the caller and for threads that begin during or after; the workers have one core each."
    translator, before, seen = Translator(build(), TOKENIZER), torch.get_num_threads(), []
    torch.set_num_threads(3)
    try:
        search, both = Translator.search, Barrier(2, timeout=60)
        def watched(self, *args):
            both.wait()
            seen.append(numbers_of_threads())
            return search(self, *args)
        monkeypatch.setattr(Translator, 'search', watched)
        _side_by_side(lambda rows: translator.search(rows, 1, 0., 1), [[[5, 6, 2]]]*4, 2)
        assert seen == [(1, 3)]*4 and numbers_of_threads() == (3, 3)
        def failing(self, *args): raise InputError('no')
        monkeypatch.setattr(Translator, 'search', failing)
        with pytest.raises(InputError, match='no'): translator.translate(TEXTS, batch_tokens=64, parallel=2)
        assert numbers_of_threads() == (3, 3)
    finally: torch.set_num_threads(before)


def test_a_tokenizer_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(InputError) as e: Translator(build(vocab_size=50), TOKENIZER)
    assert '40' in str(e.value) and '50' in str(e.value) and '\n' not in str(e.value)
    with pytest.raises(InputError, match='pad_id'): Translator(build(pad_id=3), TOKENIZER)
    with pytest.raises(InputError, match='eos_id'): Translator(inference(build(eos_id=5)), TOKENIZER)


# --- other special ids ------------------------------------------------------------------------------------------------

# old id -> new id: PAD 0 -> 3, BOS 1 -> 0, EOS 2 -> 1, unknown 3 -> 2
NEW = torch.tensor([3, 0, 1, 2, *range(4, 40)])

class Renamed(TokenizerLike):
    "The tokenizer with the new ids."
    pad_id, bos_id, eos_id, unk_id, vocab_size, model = 3, 0, 1, 2, 40, b'renamed'
    def encode(self, texts): return [NEW[ids].tolist() for ids in TOKENIZER.encode(texts)]
    def decode(self, rows): return TOKENIZER.decode([NEW.argsort()[ids].tolist() for ids in rows])
    def pieces(self, ids): return TOKENIZER.pieces(NEW.argsort()[ids].tolist())

def renamed():
    "The same model, its tokens permuted."
    model = build(pad_id=3, bos_id=0, eos_id=1)
    model.embedding.weight.data = model.embedding.weight.data[NEW.argsort()]
    return model


def test_the_configuration_says_which_ids_are_special():
    ours, other = build(), renamed()
    src = pad([ids + [2] for ids in TOKENIZER.encode(ASKED)])
    new = lambda rows: [NEW[ids].tolist() for ids in rows]
    assert greedy(other, NEW[src]) == new(greedy(ours, src))
    hyps = lambda model, src: [ids for hyps in beam_search(model, src, 3, nbest=3) for _, ids in hyps]
    assert hyps(other, NEW[src]) == new(hyps(ours, src))
    plain, translator = Translator(ours, TOKENIZER), Translator(other, Renamed())
    assert answers(translator) == answers(plain)
    a, b = plain.attention(ASKED[0]), translator.attention(ASKED[0])
    assert (a['source'], a['target']) == (b['source'], b['target'])
    torch.testing.assert_close(a['cross'], b['cross'])
    a, b = forced_attention(plain, ASKED[0], ASKED[1]), forced_attention(translator, ASKED[0], ASKED[1])
    assert a['target'] == b['target']
    torch.testing.assert_close(a['decoder'], b['decoder'])
