"""The same numbers as torch's own layers: outputs and gradients, with copied weights, under every mask."""
from copy import deepcopy

import pytest
import torch
from torch import nn

from transformer_nb.attention import attention, causal_mask, fused_attention, padding_mask
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.transformer import DecoderLayer, EncoderLayer, Transformer, TransformerConfig

D, H, FF, B = 16, 4, 24, 3   # d_model, heads, d_ff, sentences
MASKS = 'none', 'padding', 'causal', 'both'


def config(norm='post', **other):
    return TransformerConfig(
        vocab_size=20, N=2, d_model=D, d_ff=FF, h=H, dropout=0.0, norm=norm, bias=True, max_len=32, **other
    )


def ids(n, *lengths):
    "Random token ids of the given lengths, padded with 0 to n."
    out = torch.randint(3, 20, (len(lengths), n))
    for row, length in zip(out, lengths): row[length:] = 0
    return out


def ours_and_torchs(kind, tokens):
    "A mask of ours, and torch's arguments for the same: there True means 'may not'."
    n = tokens.shape[1]
    causal = causal_mask(n) if kind in ('causal', 'both') else None
    padding = padding_mask(tokens, 0) if kind in ('padding', 'both') else None
    both = [m for m in (causal, padding) if m is not None]
    ours = None if not both else both[0] if len(both) == 1 else both[0] & both[1]
    return ours, None if causal is None else ~causal, None if padding is None else ~padding[:, 0, 0]


# Pairs of (our parameter, torch's parameter, rows of it)
def attention_pairs(ours, theirs):
    for i, W in enumerate((ours.W_q, ours.W_k, ours.W_v)):
        rows = slice(i*D, (i+1)*D)
        yield W.weight, theirs.in_proj_weight, rows
        yield W.bias, theirs.in_proj_bias, rows
    yield from module_pairs(ours.W_o, theirs.out_proj)


def module_pairs(ours, theirs):
    yield ours.weight, theirs.weight, slice(None)
    yield ours.bias, theirs.bias, slice(None)


def layer_pairs(ours, theirs):
    yield from attention_pairs(ours.self_attention, theirs.self_attn)
    if hasattr(ours, 'cross_attention'): yield from attention_pairs(ours.cross_attention, theirs.multihead_attn)
    yield from module_pairs(ours.feed_forward.W_1, theirs.linear1)
    yield from module_pairs(ours.feed_forward.W_2, theirs.linear2)
    for i, residual in enumerate(ours.residuals): yield from module_pairs(residual.norm, getattr(theirs, f'norm{i+1}'))


def copy_weights(pairs, ours):
    "Give torch's module random weights, biases and gains too, and copy them into ours: into every parameter of ours."
    pairs = list(pairs)
    with torch.no_grad():
        for theirs in {id(t): t for _, t, _ in pairs}.values(): theirs.normal_(0, .4)
        for p, theirs, rows in pairs: p.copy_(theirs[rows])
    assert {id(p) for p, _, _ in pairs} == {id(p) for p in ours.parameters()}
    return pairs


def close(a, b, atol=1e-10):
    assert a.isfinite().all()
    torch.testing.assert_close(a, b, atol=atol, rtol=0)


def compare(ours, pairs, mine, theirs, *inputs):
    "Outputs, then gradients of a random projection: of every parameter of `ours` and every input (ours, torch's)."
    close(mine, theirs)
    direction = torch.randn_like(mine)
    (mine * direction).sum().backward()
    (theirs * direction).sum().backward()
    no_effect = {id(m.W_k.bias) for m in ours.modules() if isinstance(m, MultiHeadAttention)}  # softmax takes it away
    for p, q, rows in pairs:
        assert (p.grad.abs().max() < 1e-9) == (id(p) in no_effect)
        close(p.grad, q.grad[rows])
    for a, b in inputs: close(a.grad, b.grad)


def twins(*shape):
    a = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    return a, a.detach().clone().requires_grad_()


@pytest.fixture(autouse=True)
def seed(): torch.manual_seed(0)


@pytest.mark.parametrize('kind', MASKS)
def test_multi_head_attention(kind):
    tokens = ids(7, 7, 5, 2)
    mask, attn_mask, pad = ours_and_torchs(kind, tokens)
    ours, theirs = MultiHeadAttention(D, H, bias=True).double(), nn.MultiheadAttention(D, H, batch_first=True).double()
    pairs = copy_weights(attention_pairs(ours, theirs), ours)
    (q, q2), (k, k2), (v, v2) = twins(B, 7, D), twins(B, 7, D), twins(B, 7, D)
    out, weights = ours(q, k, v, mask, need_weights=True)
    expected, w = theirs(q2, k2, v2, key_padding_mask=pad, attn_mask=attn_mask, average_attn_weights=False)
    close(weights, w)
    close(ours(q, k, v, mask)[0], expected)     # the fused way
    compare(ours, pairs, out, expected, (q, q2), (k, k2), (v, v2))


@pytest.mark.parametrize('norm', ['post', 'pre'])
@pytest.mark.parametrize('kind', MASKS)
def test_encoder_layer(norm, kind):
    mask, attn_mask, pad = ours_and_torchs(kind, ids(7, 7, 5, 2))
    ours = EncoderLayer(config(norm)).double()
    theirs = nn.TransformerEncoderLayer(D, H, FF, dropout=0., batch_first=True, norm_first=norm == 'pre').double()
    pairs = copy_weights(layer_pairs(ours, theirs), ours)
    x, x2 = twins(B, 7, D)
    compare(ours, pairs, ours(x, mask), theirs(x2, src_mask=attn_mask, src_key_padding_mask=pad), (x, x2))


@pytest.mark.parametrize('norm', ['post', 'pre'])
@pytest.mark.parametrize('kind', MASKS)
@pytest.mark.parametrize('memory_kind', ['none', 'padding'])
def test_decoder_layer(norm, kind, memory_kind):
    mask, attn_mask, pad = ours_and_torchs(kind, ids(6, 6, 4, 1))
    memory_mask, _, memory_pad = ours_and_torchs(memory_kind, ids(8, 3, 8, 5))
    ours = DecoderLayer(config(norm)).double()
    theirs = nn.TransformerDecoderLayer(D, H, FF, dropout=0., batch_first=True, norm_first=norm == 'pre').double()
    pairs = copy_weights(layer_pairs(ours, theirs), ours)
    (y, y2), (memory, memory2) = twins(B, 6, D), twins(B, 8, D)
    expected = theirs(y2, memory2, tgt_mask=attn_mask, tgt_key_padding_mask=pad, memory_key_padding_mask=memory_pad)
    compare(ours, pairs, ours(y, memory, mask, memory_mask), expected, (y, y2), (memory, memory2))


def torch_transformer(norm, N=2):
    "torch.nn.Transformer with our placing of the norms: it would add final ones to a post-norm model too."
    pre = norm == 'pre'
    make = dict(d_model=D, nhead=H, dim_feedforward=FF, dropout=0., batch_first=True, norm_first=pre)
    final = lambda: nn.LayerNorm(D) if pre else None
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**make), N, norm=final(), enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**make), N, norm=final())
    return nn.Transformer(D, H, custom_encoder=encoder, custom_decoder=decoder, batch_first=True).double()


def stack_pairs(ours, theirs):
    for mine, its in ((ours.encoder, theirs.encoder), (ours.decoder, theirs.decoder)):
        for a, b in zip(mine, its.layers, strict=True): yield from layer_pairs(a, b)
        if its.norm:
            yield from module_pairs(ours.encoder_norm if its is theirs.encoder else ours.decoder_norm, its.norm)


@pytest.mark.parametrize('norm', ['post', 'pre'])
@pytest.mark.parametrize('positions', ['sinusoid', 'learned'])
def test_whole_model(norm, positions):
    src, tgt = ids(8, 3, 8, 5), ids(6, 6, 4, 1)
    ours, theirs = Transformer(config(norm, positions=positions)).double(), torch_transformer(norm)
    ends = deepcopy(ours)           # the twin's embeddings, positions and softmax map
    own = list(ours.embedding.parameters()) + list(ours.positions.parameters())
    shared = list(ends.embedding.parameters()) + list(ends.positions.parameters())
    pairs = copy_weights([*stack_pairs(ours, theirs), *((p, q, slice(None)) for p, q in zip(own, shared))], ours)
    pad_src, pad_tgt = src == 0, tgt == 0
    states = theirs(ends.embed(src), ends.embed(tgt), tgt_mask=~causal_mask(6), src_key_padding_mask=pad_src,
                    tgt_key_padding_mask=pad_tgt, memory_key_padding_mask=pad_src)
    compare(ours, pairs, ours(src, tgt), ends.embedding.logits(states))


def test_torchs_final_norms_would_show():
    "The twin above is the right one: plain torch.nn.Transformer normalises once more, which a gain of 2 makes visible."
    ours, theirs = Transformer(config()).double(), nn.Transformer(D, H, 2, 2, FF, 0., batch_first=True).double()
    assert theirs.encoder.norm is not None and isinstance(ours.encoder_norm, nn.Identity)
    x = torch.randn(B, 5, D, dtype=torch.float64)
    copy_weights([p for a, b in zip(ours.encoder, theirs.encoder.layers) for p in layer_pairs(a, b)], ours.encoder)
    y = x
    for layer in ours.encoder: y = layer(y)
    with torch.no_grad(): theirs.encoder.norm.weight.fill_(2.)
    assert (theirs.encoder(x) - y).abs().max() > .1


def every_mask(n, m):
    "Masks for queries n and keys m, by name; those named 'empty' have rows that may attend to nothing."
    yield 'none', None
    yield 'causal', causal_mask(max(n, m))[:n, :m]
    yield 'padding', padding_mask(ids(m, m, 4, 1), 0)
    yield 'both', causal_mask(max(n, m))[:n, :m] & padding_mask(ids(m, m, 4, 1), 0)
    yield 'random', (torch.rand(B, 1, n, m) < .5) | torch.eye(n, m, dtype=torch.bool)
    yield 'per head', (torch.rand(B, H, n, m) < .5) | torch.eye(n, m, dtype=torch.bool)
    yield 'empty sentence', padding_mask(ids(m, m, 4, 0), 0)
    yield 'empty rows', causal_mask(max(n, m)).tril(-1)[:n, :m]
    yield 'empty everywhere', torch.zeros(n, m, dtype=torch.bool)


@pytest.mark.parametrize('dtype,atol', [(torch.float32, 3e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize('n,m', [(7, 7), (5, 9)])
@pytest.mark.parametrize('scale', [None, .3])
def test_fused_equals_readable(dtype, atol, n, m, scale):
    for name, mask in every_mask(n, m):
        a = [torch.randn(B, H, length, 8, dtype=dtype, requires_grad=True) for length in (n, m, m)]
        b = [x.detach().clone().requires_grad_() for x in a]
        out, weights = attention(*a, mask, scale)
        fused = fused_attention(*b, mask, scale)
        close(fused, out, atol)
        direction = torch.randn_like(out)
        (out * direction).sum().backward()
        (fused * direction).sum().backward()
        for x, y in zip(a, b): close(x.grad, y.grad, 10*atol)
        if mask is None: continue
        empty = ~mask.expand(B, H, n, m).any(-1)
        assert empty.any() == name.startswith('empty'), name
        assert (weights[empty] == 0).all() and (out[empty] == 0).all() and (fused[empty] == 0).all()
        assert (weights[~mask.expand_as(weights)] == 0).all()
        close(weights.sum(-1)[~empty], torch.ones_like(weights.sum(-1)[~empty]), 10*atol)


@pytest.mark.parametrize('dtype,atol', [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_multi_head_fused_equals_readable(dtype, atol):
    layer = MultiHeadAttention(D, H, d_k=3, d_v=5).to(dtype)
    for name, mask in every_mask(7, 7):
        x, results = torch.randn(B, 7, D, dtype=dtype), []
        for need in (True, False):
            layer.zero_grad()
            out, weights = layer(x, x, x, mask, need_weights=need)
            assert (weights is not None) == need
            out.square().sum().backward()
            results.append([out, *(p.grad.clone() for p in layer.parameters())])
        for a, b in zip(*results): close(a, b, 10*atol)


def test_a_mask_is_stronger_than_any_score():
    "−∞, not a large number: scores of −10⁶ at the allowed places still get all the weight."
    q, k, v = torch.full((1, 1, 4, 1), -1e3), torch.full((1, 1, 4, 1), 1e3), torch.randn(1, 1, 4, 8)
    out, weights = attention(q, k, v, causal_mask(4))
    close(weights[0, 0], causal_mask(4) / torch.arange(1., 5)[:, None], 1e-6)
    close(fused_attention(q, k, v, causal_mask(4)), out, 1e-6)
