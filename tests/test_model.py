"""What must hold for the whole model: nothing leaks, one way of decoding, sizes of Table 3, errors in one line."""
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_nb.config import PRESETS
from transformer_nb.core import InputError
from transformer_nb.course import followed
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.parts.look_inside import attention_maps
from transformer_nb.positional_encoding import PositionalEncoding
from transformer_nb.transformer import EncoderLayer, Transformer, TransformerConfig, preset

V, PAD, BOS = 20, 0, 1
SMALL = dict(vocab_size=V, N=2, d_model=16, d_ff=32, h=4, dropout=0.1, max_len=24)
VARIANTS = [dict(norm=norm, positions=positions) for norm in ('post', 'pre') for positions in ('sinusoid', 'learned')]
variants = pytest.mark.parametrize('kind', VARIANTS, ids=lambda kind: '-'.join(kind.values()))
lengths = st.lists(st.integers(1, 7), min_size=1, max_size=4)
seeds = st.integers(0, 2**31)
many = settings(max_examples=25)


@cache
def cached(norm, positions): return build(norm=norm, positions=positions)


def build(**kind):
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**SMALL, **kind)).double().eval().requires_grad_(False)


def batch(lengths, seed, extra=0, bos=False):
    "Random ids of these lengths, padded to the longest and `extra` more."
    g = torch.Generator().manual_seed(seed)
    out = torch.full((len(lengths), max(lengths) + extra), PAD)
    for row, n in zip(out, lengths): row[:n] = torch.randint(3, V, (n,), generator=g)
    if bos: out[:, 0] = BOS
    return out


def close(a, b, atol=1e-12): torch.testing.assert_close(a, b, atol=atol, rtol=0)


# --- Nothing leaks

@variants
@many
@given(seed=seeds, n=st.integers(2, 8), data=st.data())
def test_future_token_changes_no_earlier_logit(kind, seed, n, data):
    model, src, tgt = cached(**kind), batch([5], seed), batch([n], seed + 1, bos=True)
    j = data.draw(st.integers(1, n - 1), label='place changed')
    changed = tgt.clone()
    changed[0, j] = 3 + (changed[0, j] - 2) % (V - 3)      # another real token
    assert changed[0, j] != tgt[0, j]
    before, after = model(src, tgt), model(src, changed)
    close(before[:, :j], after[:, :j], atol=0)
    for i in range(j, n): assert (before[:, i] - after[:, i]).abs().max() > 1e-9   # places from j on do see it


@variants
@many
@given(seed=seeds, src_lengths=lengths, extra=st.integers(1, 3))
def test_padding_of_the_source_is_not_seen(kind, seed, src_lengths, extra):
    model = cached(**kind)
    src, tgt = batch(src_lengths, seed, extra), batch([4]*len(src_lengths), seed + 1, bos=True)
    before = model(src, tgt)
    with disturbed_padding(model): after = model(src, tgt)
    close(before[..., 1:], after[..., 1:])                 # column 0 scores the padding token itself
    word = src.clone()
    word[:, 0] = 3 + (word[:, 0] - 2) % (V - 3)
    assert (model(word, tgt) - before).abs().amax((1, 2)).min() > 1e-9


@variants
@many
@given(seed=seeds, tgt_lengths=lengths, extra=st.integers(1, 3))
def test_padding_of_the_target_is_not_seen(kind, seed, tgt_lengths, extra):
    model = cached(**kind)
    src, tgt = batch([5]*len(tgt_lengths), seed), batch(tgt_lengths, seed + 1, extra, bos=True)
    real = tgt != PAD
    before = model(src, tgt)[real]
    with disturbed_padding(model): after = model(src, tgt)[real]
    close(before[:, 1:], after[:, 1:])


class disturbed_padding:
    "The vector of the padding token is another one inside this block."
    def __init__(self, model): self.row = model.embedding.weight[PAD]
    def __enter__(self):
        self.saved = self.row.clone()
        self.row += 3.
    def __exit__(self, *_): self.row.copy_(self.saved)


@variants
@many
@given(
    seed=seeds,
    pairs=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=2, max_size=4),
    extra=st.integers(0, 3),
)
def test_a_sentence_alone_equals_the_sentence_in_a_batch(kind, seed, pairs, extra):
    model, (ns, ms) = cached(**kind), zip(*pairs)
    src, tgt = batch(ns, seed, extra), batch(ms, seed + 1, extra, bos=True)
    together = model(src, tgt)
    for i, (n, m) in enumerate(pairs): close(model(src[i:i+1, :n], tgt[i:i+1, :m]), together[i:i+1, :m], atol=1e-6)


@variants
def test_empty_source_gives_numbers(kind):
    assert cached(**kind)(torch.full((2, 3), PAD), batch([4, 2], 0, bos=True)).isfinite().all()


@variants
def test_order_of_the_source_matters(kind):
    src, tgt = batch([5], 0), batch([4], 1, bos=True)
    assert (cached(**kind)(src, tgt) - cached(**kind)(src.flip(1), tgt)).abs().max() > 1e-3


# --- One model, two ways of running it

@variants
@many
@given(seed=seeds, src_lengths=lengths, steps=st.integers(1, 9))
def test_step_by_step_equals_teacher_forcing(kind, seed, src_lengths, steps):
    model, src = cached(**kind), batch(src_lengths, seed)
    memory, ys, logits = model.encode(src), torch.full((len(src), 1), BOS), []
    for _ in range(steps):
        logits.append(model.embedding.logits(model.decode(ys, memory, src)[:, -1]))
        logits[-1][:, PAD] = -1e9                          # a written padding token would not be seen again
        ys = torch.cat([ys, logits[-1].argmax(-1, keepdim=True)], 1)
    at_once = model(src, ys[:, :-1])
    close(torch.stack(logits, 1)[..., 1:], at_once[..., 1:])


def greedy(model, src, steps):
    memory, ys = model.encode(src), torch.full((len(src), 1), BOS)
    for _ in range(steps):
        best = model.embedding.logits(model.decode(ys, memory, src)[:, -1]).argmax(-1, keepdim=True)
        ys = torch.cat([ys, best], 1)
    return ys[:, 1:]


@pytest.mark.parametrize('norm', ['post', 'pre'])
def test_learns_one_batch_by_heart(norm):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**SMALL | dict(d_model=32, d_ff=64, dropout=0.), norm=norm))
    src, truth = batch([5, 3, 7, 4], 3), batch([6, 4, 5, 7], 4)
    tgt = F.pad(truth, (1, 0), value=BOS)[:, :-1]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        loss = F.cross_entropy(model(src, tgt).flatten(0, 1), truth.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < .02
    written = greedy(model.eval(), src, truth.shape[1])
    assert (written == truth)[truth != PAD].all()


def test_dropout_only_in_training():
    model, src, tgt = build(), batch([5], 0), batch([4], 1, bos=True)
    close(model(src, tgt), model(src, tgt), atol=0)
    model.train()
    assert (model(src, tgt) - model(src, tgt)).abs().max() > 1e-3


@variants
def test_what_goes_into_the_stacks(kind):
    "§3.4 and §3.5: √d_model times the embedding plus the position; with `start` the positions begin later."
    model, ids = cached(**kind), batch([6, 6], 0)
    whole = model.embed(ids)
    close(whole, 4 * model.embedding.weight[ids] + model.positions.table[:6])    # √16 = 4
    close(model.embed(ids[:, 2:], start=2), whole[:, 2:])


def share_of_zeros(x): return (x == 0).double().mean().item()


@pytest.mark.parametrize('norm', ['post', 'pre'])
def test_dropout_stands_where_the_paper_puts_it(norm):
    "§5.4: on the sum of embedding and position, and on each sub-layer's output before it is added."
    torch.manual_seed(0)
    model, ids = build(norm=norm).train(), batch([20]*30, 0)
    assert abs(share_of_zeros(model.embed(ids)) - SMALL['dropout']) < .02
    x = torch.zeros(30, 20, 16, dtype=torch.float64)
    for residual in (*model.encoder[0].residuals, *model.decoder[-1].residuals):
        if norm == 'post': residual.norm = torch.nn.Identity()  # which would move what is zero
        assert abs(share_of_zeros(residual(x, torch.ones_like)) - SMALL['dropout']) < .02
    model.eval()
    assert share_of_zeros(model.embed(ids)) < .01 and share_of_zeros(residual(x, torch.ones_like)) == 0


def test_logits_are_of_moderate_size_at_the_start():
    for norm in ('post', 'pre'):
        assert .5 < build(norm=norm)(batch([6]*8, 0), batch([6]*8, 1)).std() < 2


# --- Sizes (Table 3)

PAPER = dict(base=65, B1=58, B2=60, C1=36, C2=50, C3=80, C4=28, C5=168, C6=53, C7=90)


@cache
def millions(name, vocab_size=37_000, **overrides):
    with torch.device('meta'): model = Transformer(preset(name, vocab_size=vocab_size, **overrides))
    return sum(p.numel() for p in model.parameters()) / 1e6


def test_totals_of_base_and_big(): assert (millions('base'), millions('big')) == (63.045632, 214.171648)


@pytest.mark.parametrize('name', ['B1', 'B2', 'C1', 'C2', 'C3', 'C6', 'C7'])
@pytest.mark.parametrize('vocab_size', [32_000, 37_000])
def test_difference_to_base_as_in_the_paper(name, vocab_size):
    ours = millions(name, vocab_size) - millions('base', vocab_size)
    assert abs(ours - (PAPER[name] - PAPER['base'])) < 1   # both of the paper's figures are rounded


@pytest.mark.parametrize('name', PAPER)
def test_rows_at_the_vocabulary_that_gives_65(name): assert abs(millions(name, 40_817) - PAPER[name]) < 1


@pytest.mark.parametrize('name', ['A1', 'A2', 'A3', 'A4', 'D1', 'D2', 'D3', 'D4'])
def test_rows_that_keep_the_size(name): assert millions(name) == millions('base')


def test_switches_that_change_the_size():
    norm, attention_biases, positions = 2*2*512, 18*4*512, 1024*512
    assert round((millions('base', norm='pre') - millions('base'))*1e6) == norm
    assert round((millions('base', bias=True) - millions('base'))*1e6) == attention_biases
    assert round((millions('E') - millions('base'))*1e6) == positions


def test_presets_are_the_rows_of_table_3():
    rows = 'base big A1 A2 A3 A4 B1 B2 C1 C2 C3 C4 C5 C6 C7 D1 D2 D3 D4 E tiny small'.split()
    assert list(PRESETS) == rows
    widths = {name: (preset(name).h, preset(name).d_k, preset(name).d_v) for name in rows}
    assert [widths[f'A{i}'] for i in (1, 2, 3, 4)] == [(1, 512, 512), (4, 128, 128), (16, 32, 32), (32, 16, 16)]
    assert [widths[name] for name in ('base', 'big', 'B1', 'B2', 'C4', 'C5')] == [
        (8, 64, 64), (16, 64, 64), (8, 16, 64), (8, 32, 64), (8, 32, 32), (8, 128, 128)]
    assert [preset(name).dropout for name in ('base', 'big', 'D1', 'D2')] == [.1, .3, 0., .2]
    assert [preset(name).label_smoothing for name in ('base', 'D3', 'D4')] == [.1, 0., .2]
    assert preset('E').positions == 'learned' and preset('base').norm == 'post'


# --- Errors: one line that names the wrong thing and the remedy

@pytest.mark.parametrize(
    'wrong,named',
    [
        (dict(norm='middle'), "'middle'"),
        (dict(positions='none'), "'none'"),
        (dict(d_model=100, h=7), 'd_model 100 is no multiple of h 7'),
        (dict(d_model=100, h=7, d_k=10), 'give d_k and d_v'),
    ],
)
def test_wrong_configuration(wrong, named):
    with pytest.raises(ValueError) as error: TransformerConfig(**wrong)
    assert named in str(error.value) and '\n' not in str(error.value)


def test_any_heads_with_given_widths():
    assert (c := TransformerConfig(d_model=100, h=7, d_k=10, d_v=12)).d_k == 10 and c.d_v == 12


@pytest.mark.parametrize('given, d_k, d_v', [({}, 4, 4), ({'d_k': 2}, 2, 4), ({'d_v': 2}, 4, 2)])
def test_a_width_that_is_not_given_is_the_papers_whatever_the_other_is(given, d_k, d_v):
    alone = MultiHeadAttention(16, 4, **given)
    assert (alone.d_k, alone.d_v) == (d_k, d_v) and alone.W_o.in_features == 4*d_v


def test_configuration_is_frozen():
    with pytest.raises(AttributeError): TransformerConfig().N = 3


def test_unknown_preset():
    with pytest.raises(ValueError, match="no preset 'huge'; there are base, big, A1"): preset('huge')


@pytest.mark.parametrize('side', ['source', 'target'])
@pytest.mark.parametrize('bad', [V, -1, 10**6])
def test_id_outside_the_vocabulary(side, bad):
    src, tgt = batch([5, 3], 0), batch([4, 2], 1, bos=True)
    (src if side == 'source' else tgt)[1, 1] = bad
    with pytest.raises(InputError) as error: cached('post', 'sinusoid')(src, tgt)
    assert (
        f'token id {bad} ' in str(error.value)
        and f'vocabulary of {V}' in str(error.value)
        and '\n' not in str(error.value)
    )


@variants
def test_too_long_sequence(kind):
    model, longest = cached(**kind), SMALL['max_len']
    fits, too_long = torch.full((1, longest), 5), torch.full((1, longest + 1), 5)
    model(fits, fits)
    for src, tgt in ((too_long, fits), (fits, too_long)):
        with pytest.raises(InputError) as error: model(src, tgt)
        assert (
            f'{longest + 1} tokens' in str(error.value)
            and f'max_len {longest}' in str(error.value)
            and '\n' not in str(error.value)
        )


@pytest.mark.parametrize('learned', [False, True])
def test_positions_end_with_the_table_wherever_they_begin(learned):
    "One row of it too few would be added to both positions."
    positions, two = PositionalEncoding(16, 10, learned), torch.zeros(1, 2, 16)
    close(positions(two, start=8)[0], positions.table[8:10])
    with pytest.raises(InputError): positions(two, start=9)


def test_learned_positions_begin_as_loud_as_embeddings():
    torch.manual_seed(0)
    assert PositionalEncoding(64, 500, learned=True).table.std().item() == pytest.approx(64**-.5, rel=.02)


# --- Attention maps

@variants
@many
@given(
    seed=seeds,
    pairs=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=3),
    extra=st.integers(0, 2),
)
def test_attention_maps(kind, seed, pairs, extra):
    model, (ns, ms) = cached(**kind), zip(*pairs)
    src, tgt = batch(ns, seed, extra), batch(ms, seed + 1, extra, bos=True)
    before = model(src, tgt)
    maps = attention_maps(model, src, tgt)
    b, n, m = len(pairs), src.shape[1], tgt.shape[1]
    assert {k: tuple(w.shape) for k, w in maps.items()} == {
        'encoder': (2, b, 4, n, n),
        'decoder': (2, b, 4, m, m),
        'cross': (2, b, 4, m, n),
    }
    for w in maps.values(): close(w.sum(-1), torch.ones_like(w.sum(-1)))
    for w, ids in ((maps['encoder'], src), (maps['cross'], src), (maps['decoder'], tgt)):
        padding = (ids == PAD)[None, :, None, None].expand_as(w)
        assert (w[padding] == 0).all()
    assert (maps['decoder'].triu(1) == 0).all() and (maps['decoder'][..., 0, 0] == 1).all()
    close(model(src, tgt), before, atol=0)                 # the hooks are gone
    assert not any(a._forward_hooks or a._forward_pre_hooks for a in model.modules())


def test_hooks_go_away_after_an_error():
    model = build()
    with pytest.raises(InputError): attention_maps(model, batch([5], 0), torch.tensor([[BOS, V]]))
    assert not any(a._forward_hooks or a._forward_pre_hooks for a in model.modules())


def test_the_followed_word_comes_out_of_the_layer_as_by_hand():
    layer = EncoderLayer(TransformerConfig(d_model=4, d_ff=6, h=2, dropout=0.)).requires_grad_(False)
    for part, names in ((layer.self_attention, ('W_q', 'W_k', 'W_v', 'W_o')), (layer.feed_forward, ('W_1', 'W_2'))):
        for name in names: getattr(part, name).weight.copy_(getattr(followed, name).T)
    for name in ('W_1', 'W_2'): getattr(layer.feed_forward, name).bias.zero_()
    torch.testing.assert_close(layer(followed.x[None])[0, 1], followed.follow()['z'])
