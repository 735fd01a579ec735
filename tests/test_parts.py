"Parts that training and decoding put in place of the model's: the same numbers, the same names, and nothing lost."
from copy import deepcopy

import pytest
import torch
from torch import nn

from transformer_nb.core import InputError
from transformer_nb.data.batching import make_batch, pad
from transformer_nb.decode.search import greedy
from transformer_nb.embeddings import Embedding
from transformer_nb.experiments.table2 import build_model
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.parts.exchange import FastDropout, exchange, kind_of, with_fast_dropout
from transformer_nb.parts.inference import CachedAttention, inference, with_cached_attention
from transformer_nb.parts.look_inside import attention_maps
from transformer_nb.parts.packing import PackedAttention, packed_decoder_states, with_packed_attention
from transformer_nb.train.trainer import Trainer, TrainingConfig, batch_loss
from transformer_nb.transformer import DecoderLayer, EncoderLayer, Transformer, TransformerConfig

KINDS = [{}, dict(norm='pre', positions='learned'), dict(label_smoothing=0.),
         dict(tie='none', src_vocab_size=25, softmax_bias=True, positions='learned', bias=True, activation='gelu')]
PAIRS = [([5, 6, 7, 8], [9, 10]), ([11], [12, 13, 14]), ([15, 16], [17])]


def make(**changes):
    torch.manual_seed(0)
    return Transformer(TransformerConfig(
        **dict(vocab_size=20, N=2, d_model=16, d_ff=32, h=4, dropout=0., max_len=24) | changes))


def attentions(model): return [m for m in model.modules() if isinstance(m, MultiHeadAttention)]


# --- the packed loss and the model's own

@pytest.mark.parametrize('kind', KINDS)
def test_the_packed_loss_is_the_models_own(kind):
    "And so are its gradients."
    model, batch = make(**kind).double(), make_batch(PAIRS)
    plain, found = {}, {}
    ours = model.loss(batch.src, batch.tgt_in, batch.tgt_out)
    packed = batch_loss(with_packed_attention(model), batch)
    for losses, grads in ((ours, plain), (packed, found)):
        model.zero_grad()
        losses[0].backward()
        grads.update({name: p.grad.clone() for name, p in model.named_parameters()}, loss=losses[0], nll=losses[1])
    for name in plain: torch.testing.assert_close(found[name], plain[name], rtol=0, atol=1e-12)


def test_dropout_is_drawn_for_both_embeddings_before_any_layer():
    "Another order of the draws would train other weights from the same seed, and a resumed run would leave its way."
    model, batch, drawn = with_packed_attention(make(dropout=.5)), make_batch(PAIRS), []
    for name, m in model.named_modules():
        if isinstance(m, nn.Dropout): m.register_forward_hook(lambda *_, name=name: drawn.append(name))
    packed_decoder_states(model, batch.src, batch.tgt_in)
    assert drawn[:2] == ['dropout', 'dropout'] and drawn[2].startswith('encoder.0.') and len(drawn) == 2 + 4 + 6


# --- attention

def test_packed_attention_has_the_same_parameters_under_the_same_names():
    model = make()
    before, weights = deepcopy(model), [*model.parameters()]
    assert with_packed_attention(model) is model and with_packed_attention(model) is model
    assert {type(m) for m in attentions(model)} == {PackedAttention}
    assert [id(p) for p in model.parameters()] == [id(p) for p in weights]
    assert [*model.state_dict()] == [*before.state_dict()]
    before.load_state_dict(model.state_dict())


def test_a_trained_model_works_on_tables():
    "Padded tables, maps of attention, copies, decoding: as before its parts were exchanged."
    model, batch = make().eval(), make_batch(PAIRS)
    plain = deepcopy(model)
    packed_decoder_states(with_packed_attention(model), batch.src, batch.tgt_in)
    for other in (model, deepcopy(model), with_cached_attention(deepcopy(model))):
        assert torch.equal(other(batch.src, batch.tgt_in), plain(batch.src, batch.tgt_in))
        maps, expected = (attention_maps(m, batch.src, batch.tgt_in) for m in (other, plain))
        for kind in expected: assert torch.equal(maps[kind], expected[kind])
    src = pad([[5, 6, 7, 2], [8, 2]])
    assert greedy(model, src) == greedy(plain, src)


def test_hooks_and_modes_go_with_the_place():
    model, seen = make(dropout=.5), []
    model.encoder[0].self_attention.register_forward_hook(lambda m, args, out: seen.append(type(m)))
    model.encoder[0].residuals[0].dropout.eval()
    with_fast_dropout(with_packed_attention(model))
    packed_decoder_states(model, make_batch(PAIRS).src, make_batch(PAIRS).tgt_in)
    assert seen == [PackedAttention]
    assert [m.training for m in model.encoder[0].residuals[0].modules() if isinstance(m, FastDropout)] == [False]
    assert model.dropout.training and model.dropout.p == .5


def test_what_a_part_stands_for():
    attention = MultiHeadAttention(16, 4)
    assert [kind_of(part) for part in (attention, PackedAttention(attention), CachedAttention(attention))] == [
        MultiHeadAttention]*3
    assert kind_of(FastDropout(nn.Dropout())) is nn.Dropout and kind_of(nn.Linear(1, 1)) is nn.Linear


def test_an_attention_of_ones_own_stays_where_it_is():
    class Mine(MultiHeadAttention): pass
    model = make()
    model.encoder[0].self_attention = Mine(16, 4)
    with_packed_attention(model)
    assert type(model.encoder[0].self_attention) is Mine
    with pytest.raises(ValueError, match='encoder.0.self_attention: Mine attends in a way of its own'): inference(model)


def test_eight_bits_of_a_prepared_model_are_not_promised():
    ready = inference(make())
    assert inference(ready) is ready
    with pytest.raises(InputError, match='prepared already, without int8'): inference(ready, int8=True)


# --- dropout

@pytest.mark.parametrize('p', [.1, .3, .5])
def test_fast_dropout_drops_as_torch_does(p):
    torch.manual_seed(0)
    ones = torch.ones(1000, 1000)
    for dropout in (nn.Dropout(p), FastDropout(nn.Dropout(p))):
        found = dropout(ones)
        zeros = (found == 0).double()
        assert abs(zeros.mean() - p) < .002 and abs(found.mean() - 1) < .003
        assert abs(zeros.mean(0).std()*(1000/(p*(1 - p)))**.5 - 1) < .1  # as independent draws vary, column by column
        assert torch.equal(found.unique(), torch.tensor([0., 1.])/(1 - p))


def test_its_random_numbers_are_those_of_sixteen_bits():
    "A run that was begun with an earlier version goes on with the same ones."
    x, p = torch.randn(3, 7), .3
    torch.manual_seed(5)
    found = FastDropout(nn.Dropout(p))(x)
    torch.manual_seed(5)
    bits = torch.empty(6, dtype=torch.int64).random_(-2**63, None).view(torch.int16)[:21].view(3, 7)
    assert torch.equal(found, x*(bits >= round(p*2**16) - 2**15)*(1/(1 - p)))


def test_the_ends_of_its_range():
    x = torch.randn(50)
    assert not FastDropout(nn.Dropout(1 - 1e-9))(x).any()  # nearer to 1 than 16 bits can say
    assert torch.equal(FastDropout(nn.Dropout(0.))(x), x) and not FastDropout(nn.Dropout(1.))(x).any()
    assert torch.equal(FastDropout(nn.Dropout(.5)).eval()(x), x)


def test_exchange_takes_no_subclass():
    class Own(nn.Dropout): pass
    net = nn.Sequential(nn.Dropout(), Own(), nn.ModuleDict({'a': nn.Dropout()}))
    exchange(net, (nn.Dropout,), FastDropout)
    assert [type(m) for m in (net[0], net[1], net[2]['a'])] == [FastDropout, Own, FastDropout]


def test_a_part_in_two_places_is_exchanged_in_both():
    net = nn.Module()
    net.a = net.b = nn.Dropout()
    assert [type(m) for m in (with_fast_dropout(net).a, net.b)] == [FastDropout]*2
    model = make().double().eval()
    for layer in model.decoder: layer.cross_attention = layer.self_attention
    src = pad([[5, 6, 7, 2]])
    with torch.no_grad():
        ready = inference(model)
        logits = ready.step(torch.tensor([1]), ready.start(src, 3))
        torch.testing.assert_close(logits[0, 2:], model(src, torch.tensor([[1]]))[0, 0, 2:])


def test_maps_of_an_attention_that_layers_share():
    model = make(N=3)
    for layer in model.encoder: layer.self_attention = model.encoder[0].self_attention
    maps = attention_maps(model.eval(), pad([[5, 6, 2]]), pad([[1, 7]]))
    assert [len(maps[kind]) for kind in maps] == [3, 3, 3]
    assert not torch.equal(maps['encoder'][0], maps['encoder'][1])  # of other inputs


# --- layers of another kind

class OtherEncoderLayer(EncoderLayer):
    "Adds what stands before: of a row, other sentences, too."
    def forward(self, x, mask=None): return super().forward(x + x.cumsum(-2), mask)

class OtherDecoderLayer(DecoderLayer):
    def forward(self, y, memory, self_mask=None, memory_mask=None):
        return super().forward(y + y.cumsum(-2), memory, self_mask, memory_mask)

def test_a_layer_that_looks_at_neighbours_sees_its_own_sentence():
    "In training, and in decoding, which refuses such a layer of the decoder."
    model, batch = make().double().eval(), make_batch(PAIRS)
    model.encoder[1] = OtherEncoderLayer(model.cfg).double().eval()
    src, alone = pad([[5, 6, 7, 2], [8, 2], [9, 10, 2]]), pad([[9, 10, 2]])
    ready, first = inference(model), torch.tensor([1, 1, 1])
    with torch.no_grad():
        together = ready.step(first, ready.start(src, 3))[2]
        torch.testing.assert_close(together[2:], model(alone, torch.tensor([[1]]))[0, 0, 2:])
    model.decoder[0] = OtherDecoderLayer(model.cfg).double().eval()
    plain = model.loss(batch.src, batch.tgt_in, batch.tgt_out)
    torch.testing.assert_close(batch_loss(with_packed_attention(model), batch), plain, rtol=0, atol=1e-12)


# --- models of another kind

class Louder(Transformer):
    def embed(self, ids, start=0, source=False): return 3*super().embed(ids, start, source)

class Doubled(Transformer):
    def encode(self, src): return 2*super().encode(src)
    def forward(self, src, tgt): return self.embedding.logits(self.decode(tgt, self.encode(src), src))

class Unsmoothed(Transformer):
    def loss(self, src, tgt_in, targets):
        real = targets != self.cfg.pad_id
        nll = nn.functional.cross_entropy(self(src, tgt_in)[real], targets[real])
        return nll, nll

class Negated(Embedding):
    def logits(self, x): return -super().logits(x)

def with_other_logits(cfg):
    model = Transformer(cfg)
    model.embedding = Negated(cfg.vocab_size, cfg.d_model)
    return model

@pytest.mark.parametrize('kind', [Louder, Doubled, Unsmoothed, with_other_logits])
def test_a_model_that_computes_otherwise_is_trained_as_it_computes(kind):
    "Its packed loss would be another model's."
    torch.manual_seed(0)
    model, batch = kind(make().cfg).double(), make_batch(PAIRS)
    expected = model.loss(batch.src, batch.tgt_in, batch.tgt_out)
    torch.testing.assert_close(batch_loss(with_packed_attention(model), batch), expected)


# --- the trainer puts them in place

@pytest.mark.parametrize('name', ['Transformer', 'RNNSearch', 'ConvS2S'])
def test_the_trainer_exchanges_parts(name, tmp_path):
    model = build_model(name, vocab_size=20, d_model=16)
    names = [*model.state_dict()]
    trainer = Trainer(model, train=PAIRS, cfg=TrainingConfig(steps=1, device='cpu'), out=tmp_path)
    assert {type(m) for m in model.modules() if isinstance(m, nn.Dropout)} == {FastDropout}
    assert {type(m) for m in attentions(model)} == ({PackedAttention} if name == 'Transformer' else set())
    trainer.train_step(next(trainer.batches.stream()))
    assert [*model.state_dict()] == names
