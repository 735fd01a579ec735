"Decoding: the cache changes nothing, the batch changes nothing, and the search finds what there is."
import random
from functools import cache
from itertools import pairwise, product
from math import inf, log

import numpy as np
import pytest
import torch
from conftest import TORCH

from transformer_nb.parts import kernels
from transformer_nb.checkpoints import load
from transformer_nb.data.batching import make_batch, pad
from transformer_nb.data.corpora import load_builtin
from transformer_nb.core import InputError
from transformer_nb.decode.search import (
    BeamSearch, beam_search, greedy, length_penalty, max_lengths, pick, restrict, sample)
from transformer_nb.parts import inference as inference_module
from transformer_nb.parts.inference import inference
from transformer_nb.parts.kernels import Int8Linear, PrepackedLinear, prepared_linear
from transformer_nb.transformer import Transformer, TransformerConfig

PAD, BOS, EOS = 0, 1, 2
SEEDS = range(6)


@pytest.fixture(autouse=True)
def traced_soon(monkeypatch):
    "So that every search has steps of both kinds, as they are and traced."
    monkeypatch.setattr(inference_module, 'TRACE_AFTER', 4)


def make(seed, V=12, sharp=2., **changes):
    "A random model with clear preferences, in float64."
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(**dict(vocab_size=V, N=2, d_model=16, d_ff=32, h=2, max_len=128) | changes))
    for p in (*model.encoder.parameters(), *model.decoder.parameters()):
        if p.dim() > 1: torch.nn.init.xavier_uniform_(p)  # layers loud enough to matter
    model = model.double().eval()
    for p in model.decoder.parameters(): p.data *= sharp if p.dim() > 1 else 1
    model.embedding.weight.data *= sharp
    return model


def sources(seed, n, V=12, longest=9):
    rng = random.Random(seed)
    return [[rng.randrange(3, V) for _ in range(rng.randint(1, longest))] + [EOS] for _ in range(n)]


def log_probability(model, src, ids, ended=True):
    "Of one output, by teacher forcing; src of shape (1, n)."
    return log_probabilities(model, src, [ids], [ended])[0]


@torch.no_grad()
def log_probabilities(model, src, outputs, ended):
    "Of one output for each row of src, by teacher forcing."
    logits = model(src, pad([[BOS, *ids] for ids in outputs]))
    logits[..., [PAD, BOS]] = float('-inf')
    wanted = [ids + [EOS]*end for ids, end in zip(outputs, ended)]
    return [row[range(len(out)), out].sum().item() for row, out in zip(logits.log_softmax(-1), wanted)]


# --- the cache --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(
    'changes', [{}, dict(norm='pre'), dict(positions='learned'), dict(d_k=3, d_v=5, bias=True), dict(N=1, h=1)]
)
@torch.no_grad()
def test_cached_logits_equal_teacher_forcing(changes):
    model, src = make(0, **changes), pad(sources(1, 7))
    tgt = torch.cat(
        [torch.full((7, 1), BOS), torch.randint(3, 12, (7, 20), generator=torch.Generator().manual_seed(0))], 1
    )
    ready, logits = inference(model), model(src, tgt)
    cache = ready.start(src, tgt.shape[1])
    for i in range(tgt.shape[1]):
        scores = ready.step(tgt[:, i], cache)
        torch.testing.assert_close(scores[:, EOS:12], logits[:, i, EOS:], rtol=0, atol=1e-11)
        assert scores[:, [PAD, BOS]].isneginf().all()  # may never be said
    assert cache.length == tgt.shape[1]


@pytest.mark.parametrize('changes', [{}, dict(norm='pre')])
def test_uncompiled_steps_give_the_same(changes, monkeypatch):
    "Where Python is too new for TorchScript, the same layers run as they are."
    model, src = make(2, **changes), pad(sources(3, 20))
    compiled = inference(model)
    monkeypatch.setattr('sys.version_info', (3, 14))
    plain = inference(model)
    assert greedy(plain, src) == greedy(compiled, src)
    assert list(compiled.traced) == [1] and not plain.traced
    for ours, theirs in zip(beam_search(plain, src, nbest=4), beam_search(compiled, src, nbest=4)):
        assert [ids for _, ids in ours] == [ids for _, ids in theirs]
        assert [score for score, _ in ours] == pytest.approx([score for score, _ in theirs], abs=1e-11)


@pytest.mark.parametrize('k', [2, 3])
@torch.no_grad()
def test_beams_share_a_pool(k):
    "Random places changed at every step, sentences leaving: each beam's scores are those of its own past."
    model, src, random_ = make(0), pad(sources(1, 6)), torch.Generator().manual_seed(k)
    ready, past, alive = inference(model), torch.full((6, k, 1), BOS), torch.arange(6)
    cache = ready.start(src, 40, k)
    for step in range(40):
        scores = ready.step(past[:, :, -1].flatten(), cache)
        whole = model(src[alive].repeat_interleave(k, 0), past.flatten(0, 1))[:, -1]
        torch.testing.assert_close(scores[:, EOS:12], whole[:, EOS:], rtol=0, atol=1e-11)
        parent = torch.randint(0, k, (len(alive), k), generator=random_)
        cache.reorder(parent)
        new = torch.randint(3, 12, (len(alive), k, 1), generator=random_)
        past = torch.cat([past.gather(1, parent[:, :, None].expand_as(past)), new], -1)
        if step % 9 == 5:
            going = torch.ones(len(alive), dtype=torch.bool)
            going[step % len(alive)] = False
            order = cache.drop_finished(going)
            alive, past = alive[order], past[order]
    assert len(alive) == 2 and cache.used < 40*k


@pytest.mark.parametrize('out', [48, 192])
@pytest.mark.parametrize('rows', [1, 4, 33])
def test_prepared_products(rows, out):
    torch.manual_seed(rows)
    linear, x = torch.nn.Linear(32, out), torch.randn(rows, 32)
    exact = linear(x).detach()
    torch.testing.assert_close(PrepackedLinear(linear)(x), exact)
    torch.testing.assert_close(PrepackedLinear(linear)(x[:, None]), exact[:, None])
    small = Int8Linear(linear)
    assert (small(x) - exact).abs().max() < .03*exact.abs().max()
    assert small(x*0).allclose(linear.bias)
    assert small(torch.cat([x, 100*x]))[:rows].equal(small(x))  # no row changes another one


def test_the_largest_8_bit_products_do_not_overflow():
    "On this processor, whatever it is: older ones sum pairs of products in 16 bits and cut off what is too large."
    for sign in (1, -1):
        linear = torch.nn.Linear(64, 16, bias=False)
        torch.nn.init.constant_(linear.weight, sign)
        x = torch.ones(2, 64)
        torch.testing.assert_close(Int8Linear(linear)(x), linear(x).detach())


def test_without_the_private_functions_the_plain_product_stays(monkeypatch):
    "They may go some day, or give something else: decoding stays right."
    monkeypatch.setattr(kernels, 'SMALL', 0)
    model, src = make(0).float(), torch.tensor([[5, 6, 7, EOS]])
    expected, linear = greedy(model, src), torch.nn.Linear(8, 64)
    def missing(weight): raise AttributeError('no such operator')
    for other in (missing, lambda weight: packed(2*weight)):
        packed = kernels._packed
        kernels._can_pack.cache_clear()
        with monkeypatch.context() as m:
            m.setattr(kernels, '_packed', other)
            assert prepared_linear(linear) is linear and greedy(model, src) == expected
    kernels._can_pack.cache_clear()
    assert type(prepared_linear(linear)) is PrepackedLinear


def test_a_small_matrix_stays_as_it_is():
    small, large = torch.nn.Linear(128, 384), torch.nn.Linear(512, 256)
    assert prepared_linear(small) is small and type(prepared_linear(large)) is PrepackedLinear


@pytest.mark.parametrize('k', [1, 3])
def test_large_matrices_of_several_layers_decode_as_the_model(k):
    "Prepared ones, in float32, as they are and traced: the same tokens as those of the plain matrices."
    model, src = make(4, d_model=512, d_ff=512, h=4, sharp=1.2).float(), pad(sources(4, 6))
    ready = inference(model)
    assert any(type(m) is PrepackedLinear for m in ready.model.modules())
    with pytest.MonkeyPatch.context() as m:
        m.setattr(kernels, 'SMALL', 10**9)
        plain = inference(model)
    assert not any(type(m) is PrepackedLinear for m in plain.model.modules())
    for ours, theirs in zip(beam_search(ready, src, k), beam_search(plain, src, k)):
        assert ours[0].ids == theirs[0].ids and ours[0].score == pytest.approx(theirs[0].score, abs=1e-3)
    assert ready.traced and plain.traced


OLD_CPU = torch.backends.cpu.get_cpu_capability() == 'DEFAULT'


@pytest.mark.skipif('fbgemm' not in torch.backends.quantized.supported_engines, reason='needs an x86 CPU')
@pytest.mark.skipif(TORCH < (2, 13), reason='oneDNN takes another order: then there is no table')
@pytest.mark.skipif(OLD_CPU, reason='a processor without AVX2: there oneDNN takes another order')
def test_the_table_is_the_prepared_matrix_itself():
    "If oneDNN takes another order one day, decoding stays right, but a single sentence loses speed."
    linear = torch.nn.Linear(256, 512)
    prepared = PrepackedLinear(linear)
    assert prepared.table.data_ptr() == torch.ops.mkldnn.data_ptr(prepared.packed)
    assert prepared.table[256 + 3].equal(linear.weight[64:128, 3])   # second block of outputs, input 3


# --- greedy and beam --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('seed', SEEDS)
def test_beam_of_one_without_penalty_is_greedy(seed):
    model, src = inference(make(seed)), pad(sources(seed, 8))
    assert [hyps[0][1] for hyps in beam_search(model, src, 1, 0.)] == greedy(model, src)


@pytest.mark.parametrize('seed', range(4))
def test_greedy_takes_the_best_token_every_time(seed):
    model, src = make(seed), pad(sources(seed, 4))
    for row, ids in zip(src, greedy(model, src)):
        row = row[row != PAD][None]
        logits = model(row, torch.tensor([[BOS, *ids]]))[0]
        logits[:, [PAD, BOS]] = float('-inf')
        assert logits.argmax(-1)[:len(ids)].tolist() == ids
        assert logits[-1].argmax() == EOS or len(ids) == max_lengths(model, row)


@pytest.mark.parametrize('alpha', [0., .6, 1.5])
def test_scores_are_those_of_the_model(alpha):
    model, rows = make(3), sources(3, 6)
    for row, hyps in zip(rows, beam_search(model, pad(rows), 4, alpha, 4)):
        for score, ids in hyps:
            ended = len(ids) < len(row) + 50
            expected = log_probability(model, torch.tensor([row]), ids, ended)/length_penalty(len(ids) + ended, alpha)
            assert score == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize('beam, alpha', [(2, .6), (4, 0.), *(pytest.param(*more, marks=pytest.mark.slow)
                                                            for more in ((2, 0.), (4, .6)))])
def test_a_beam_that_keeps_the_greedy_path_is_never_worse(beam, alpha):
    "100 sentences: the score of the greedy output, computed by the model, is no better than the beam's."
    better = 0
    for seed in range(2):
        model, rows = make(seed), sources(seed, 50)
        src, ready = pad(rows), inference(model)
        outputs = greedy(ready, src)
        ends = [len(ids) < len(row) + 50 for row, ids in zip(rows, outputs)]
        sums = log_probabilities(model, src, outputs, ends)
        beams = beam_search(ready, src, beam, alpha, keep_greedy=True)
        for row, ids, ended, total, hyps in zip(rows, outputs, ends, sums, beams):
            score, length = total/length_penalty(len(ids) + ended, alpha), len(hyps[0][1])
            if ended or length == len(row) + 50: assert hyps[0][0] >= score - 1e-9
            better += hyps[0][0] > score + 1e-9
    assert better > 10


@torch.no_grad()
def by_the_book(model, src, beam, most):
    "Plain beam search without a penalty, in lists; src of shape (1, n). Of all that ended among the k best, the best."
    open_, ended = [(0., [])], []
    for _ in range(most):
        logits = model(src.expand(len(open_), -1), torch.tensor([[BOS, *ids] for _, ids in open_]))[:, -1]
        logits[:, [PAD, BOS]] = float('-inf')
        rows = logits.log_softmax(-1).tolist()
        found = sorted(((total + logp, [*ids, token]) for (total, ids), row in zip(open_, rows)
                        for token, logp in enumerate(row)), reverse=True)[:2*beam]
        ended += [(total, ids[:-1]) for total, ids in found[:beam] if ids[-1] == EOS]
        open_ = [(total, ids) for total, ids in found if ids[-1] != EOS][:beam]
        if ended and max(ended)[0] >= open_[0][0]: break  # sums only fall
    return max(ended, default=None)


def test_by_default_the_beam_is_the_published_one():
    "No row is kept for the greedy path: the outputs are those of plain beam search, also where the other kind differs."
    model, rows = make(8, V=6, max_len=12, sharp=1.5), sources(8, 30, 6, 4)
    src = pad(rows)
    kept, plain = (beam_search(model, src, 2, 0., **extra) for extra in (dict(keep_greedy=True), {}))
    differ = 0
    for row, a, b in zip(rows, kept, plain):
        if not (best := by_the_book(model, torch.tensor([row]), 2, 12)): continue
        assert b[0].ids == best[1] and b[0].score == pytest.approx(best[0], abs=1e-9)
        differ += a[0].ids != b[0].ids
    assert differ > 5


@pytest.mark.slow
@torch.no_grad()
def test_500_sentences_as_by_the_model_itself():
    "float32, the model of the package: greedy and beam search against searches that call the plain model each time."
    found = load('demo')
    model, rows = found.model.float(), found.tokenizer.encode([english for english, _ in load_builtin()['test']])
    rows = [[*ids, EOS] for ids in rows]
    ready, src = inference(model), pad(rows)
    assert len(rows) == 500
    by_greedy, by_beam = greedy(ready, src), [hyps[0] for hyps in beam_search(ready, src, 4, 0.)]
    for row, ids, best in zip(rows, by_greedy, by_beam):
        row = torch.tensor([row])
        expected, plain = by_the_book(model, row, 4, row.shape[1] + 50), by_the_book(model, row, 1, row.shape[1] + 50)
        assert ids == plain[1] and best.ids == expected[1]
        assert best.score == pytest.approx(expected[0], abs=1e-4)


@cache
def with_all_outputs(seed):
    "A model, a source, and all outputs with their log-probabilities."
    model, src = make(seed, V=6, max_len=4), torch.tensor([sources(seed, 1, 6, 3)[0]])
    every = [[*ids] for m in range(4) for ids in product([3, 4, 5], repeat=m)]
    totals = log_probabilities(model, src.expand(len(every), -1), every, [True]*len(every))
    return inference(model), src, [*zip(totals, every)]


@pytest.mark.parametrize('alpha', [0., .6, 2.])
@pytest.mark.parametrize('seed', SEEDS)
def test_wide_beam_finds_the_best_of_all_outputs(seed, alpha):
    "Vocabulary of 6 (4 can be said), at most 4 tokens: 1 + 3 + 9 + 27 outputs that end."
    ready, src, outputs = with_all_outputs(seed)
    every = sorted(((total/length_penalty(len(ids) + 1, alpha), ids) for total, ids in outputs), reverse=True)
    found = beam_search(ready, src, 128, alpha, 40)[0]   # 27 beginnings x 4 tokens: nothing is cut
    assert [ids for _, ids in found] == [ids for _, ids in every]
    assert [s for s, _ in found] == pytest.approx([s for s, _ in every], abs=1e-6)
    for beam in (1, 2, 4):                                # nothing that ends can be better
        score, ids = beam_search(ready, src, beam, alpha)[0][0]
        assert len(ids) == 4 or score <= every[0][0] + 1e-6


class Patient(BeamSearch):
    "Never stops early."
    def bound(self, i): return 1e9


@pytest.mark.parametrize('alpha', [0., .6, 1.])
@pytest.mark.parametrize('nbest', [1, 3])
@torch.inference_mode()
def test_stopping_early_changes_nothing(alpha, nbest):
    saved = 0
    for seed in range(2):
        model, src = inference(make(seed)), pad(sources(seed, 5))
        early, late = BeamSearch(model, src, 4, alpha, nbest), Patient(model, src, 4, alpha, nbest)
        for a, b in zip(early.run(), late.run()):
            assert [ids for _, ids in a[:nbest]] == [ids for _, ids in b[:nbest]]
        saved += late.cache.length - early.cache.length
    assert saved > 0


# --- batches, limits, order -------------------------------------------------------------------------------------------

def close(a, b):
    "Equal outputs, scores equal but for rounding."
    assert [[ids for _, ids in hyps] for hyps in a] == [[ids for _, ids in hyps] for hyps in b]
    for x, y in zip(a, b): assert [s for s, _ in x] == pytest.approx([s for s, _ in y], abs=1e-9)


@pytest.mark.parametrize('seed', range(2))
def test_a_batch_changes_nothing(seed):
    model, rows = inference(make(seed)), sources(seed, 9)
    together = beam_search(model, pad(rows), 4, .6, 4)
    close(together, [beam_search(model, pad([row]), 4, .6, 4)[0] for row in rows])
    close(together, [hyps for i in range(0, 9, 3) for hyps in beam_search(model, pad(rows[i:i + 3]), 4, .6, 4)])
    order = random.Random(seed).sample(range(9), 9)
    shuffled = beam_search(model, pad([rows[i] for i in order]), 4, .6, 4)
    close([together[i] for i in order], shuffled)
    extra = torch.cat([pad(rows), torch.full((9, 11), PAD)], 1)  # more padding
    close(together, beam_search(model, extra, 4, .6, 4))
    assert greedy(model, pad(rows)) == [greedy(model, pad([row]))[0] for row in rows] == greedy(model, extra)


@pytest.mark.parametrize('seed', range(2))
def test_outputs_never_exceed_input_plus_50(seed):
    model, rows = make(seed), sources(seed, 8)
    model.embedding.weight.data[EOS] = 0.  # hardly ever an end
    outputs = [h[0][1] for beam in (1, 4) for h in beam_search(model, pad(rows), beam)] + greedy(model, pad(rows))
    assert all(len(ids) <= len(row) + 50 for ids, row in zip(outputs, rows*3))
    assert max(map(len, outputs)) > 50
    for ids in outputs: assert not {PAD, BOS, EOS} & set(ids)


def test_outputs_fit_into_the_model():
    model, rows = make(0, max_len=9), sources(0, 8, longest=6)
    model.embedding.weight.data[EOS] = 0.
    assert max_lengths(model, pad(rows)).tolist() == [9]*8
    for ids in [h[0][1] for h in beam_search(model, pad(rows))] + greedy(model, pad(rows)): assert len(ids) <= 9


class Steps:
    "A cache that keeps nothing but the length."
    length = 0
    def reorder(self, parent): pass
    def drop_finished(self, going): return going.nonzero()[:, 0]


class Table:
    "Logits of the next token (column), given the newest (row): all that a search wants of a model."
    def __init__(self, logits): self.logits, self.cfg = logits, TransformerConfig(vocab_size=len(logits), max_len=9)
    def start(self, src, longest, k=1): return Steps()
    def step(self, ids, cache):
        cache.length += 1
        return self.logits[ids]


@pytest.mark.parametrize('seed', range(4))
def test_a_search_asks_for_logits_alone(seed):
    "On a table, the best of all outputs of at most 3 tokens is found by a wide beam, greedy search by hand."
    logits = torch.randn(6, 6, generator=torch.Generator().manual_seed(seed)).double()*2
    logits[:, [PAD, BOS]] = float('-inf')
    table, src, logp = Table(logits), torch.tensor([[3, EOS]]), logits.log_softmax(-1)
    total = lambda ids: sum(logp[a, b].item() for a, b in zip([BOS, *ids], [*ids, EOS]))
    every = [[*ids] for m in range(3) for ids in product([3, 4, 5], repeat=m)]
    best = max((total(ids)/length_penalty(len(ids) + 1, .6), ids) for ids in every)
    (found,), = beam_search(table, src, 30, .6, max_new_tokens=3)
    assert found.ids == best[1] and found.score == pytest.approx(best[0], abs=1e-9)
    ids = [BOS]
    while ids[-1] != EOS and len(ids) < 10: ids.append(int(logits[ids[-1]].argmax()))
    assert greedy(table, src) == [[token for token in ids[1:] if token != EOS]]
    assert sample(table, src, top_k=1) == greedy(table, src)


def test_a_row_of_padding_decodes_as_the_model():
    "It has no key, and every attention to it gives zeros; its neighbours do not notice."
    model, src = make(0), pad([[5, 6, 7, EOS], [], [8, EOS]])
    outputs = greedy(model, src)
    assert outputs[::2] == greedy(model, src[::2]) and len(outputs[1]) > 0 and not {PAD, BOS} & set(outputs[1])
    ids = [BOS]
    while ids[-1] != EOS and len(ids) <= max_lengths(model, src)[1]:
        with torch.no_grad(): scores = model(src[1:2], torch.tensor([ids]))[0, -1]
        scores[[PAD, BOS]] = float('-inf')
        ids.append(int(scores.argmax()))
    assert outputs[1] == [token for token in ids[1:] if token != EOS]
    assert all(hyps for hyps in beam_search(model, src))


def test_a_table_of_nothing_but_padding():
    model, src = make(0), torch.zeros(2, 3, dtype=torch.long)
    assert greedy(model, src, max_new_tokens=3) == greedy(model, pad([[], [5, EOS]]), max_new_tokens=3)[:1]*2
    assert len(beam_search(model, src)) == 2


def test_no_output_is_shorter_than_a_token():
    assert max_lengths(make(0), pad([[5, 6, EOS]]), extra=-9).tolist() == [1]
    assert len(beam_search(make(0), pad([[5, 6, EOS]]), extra=-9)[0]) == 1


@pytest.mark.parametrize('search', [greedy, beam_search, sample])
def test_scores_that_are_no_numbers_are_told(search):
    "A training that diverged, or sums too large for 16 bits."
    model = make(0)
    model.decoder[0].feed_forward.W_1.weight.data[:] = float('nan')
    with pytest.raises(InputError, match='no numbers'): search(model, pad([[5, 6, EOS], [7, EOS]]))


def test_seeds_and_temperatures():
    model, src = inference(make(0)), pad([[5, 6, EOS]])
    assert sample(model, src, seed=np.int64(3)) == sample(model, src, seed=3) == sample(model, src, seed=[3])
    with pytest.raises(InputError, match='temperature inf must be above 0, and finite'): sample(model, src, inf)


def test_threads_are_compared_step_by_step():
    "Several programs' threads may share the trial, and have more steps of one kind than of the other."
    threads = inference_module.FewerThreads()
    threads.trial = {False: [.1]*8, True: [.1]*4}
    threads.watch(.1, 2., 2, True)
    assert not threads.trial and not threads.alone


@pytest.mark.parametrize('alpha, ids, score', [(0., [], log(.55)), (1., [3, 4, 5], log(.45)*6/9)])
def test_a_longer_output_may_overtake_one_that_has_ended(alpha, ids, score):
    "Empty with probability 0.55, or three certain tokens: under the length penalty these have the higher score."
    logits = torch.full((6, 6), -60.).double()
    logits[BOS, EOS], logits[BOS, 3] = log(.55), log(.45)
    for token, following in pairwise([3, 4, 5, EOS]): logits[token, following] = 0.
    (found,), = beam_search(Table(logits), torch.tensor([[3, EOS]]), 2, alpha)
    assert found.ids == ids and found.score == pytest.approx(score)


@pytest.mark.parametrize('alpha', [-.1, 11., 1e308, float('inf'), float('nan')])
def test_a_length_penalty_that_no_number_can_hold_is_refused(alpha):
    with pytest.raises(InputError, match='alpha .* must be from 0 to 10'):
        beam_search(make(0), pad(sources(0, 2)), 4, alpha)


@pytest.mark.parametrize('most', [1, 3])
def test_a_limit_of_tokens(most):
    model, src = inference(make(0)), pad(sources(0, 8))
    for outputs in (greedy(model, src, max_new_tokens=most), sample(model, src, max_new_tokens=most),
                    [h[0].ids for h in beam_search(model, src, max_new_tokens=most)]):
        assert max(map(len, outputs)) <= most
    assert max_lengths(model, src, max_new_tokens=most).tolist() == [most]*8
    with pytest.raises(InputError, match='max_new_tokens 0 must be at least 1'): greedy(model, src, max_new_tokens=0)


@pytest.mark.parametrize('beam, nbest', [(1, 1), (4, 1), (4, 4), (5, 2), (9, 9)])
def test_nbest_is_sorted_and_distinct(beam, nbest):
    rows = sources(1, 6)
    for row, hyps in zip(rows, beam_search(make(1), pad(rows), beam, .6, nbest)):
        assert 1 <= len(hyps) <= nbest
        cut = [len(ids) == len(row) + 50 for _, ids in hyps]
        assert hyps == sorted(hyps, key=lambda h: (len(h[1]) < len(row) + 50, h[0]), reverse=True) and cut == sorted(
            cut
        )
        assert len({tuple(ids) for _, ids in hyps}) == len(hyps)


def test_more_hypotheses_than_outputs():
    "A vocabulary of one real word and outputs of at most 2 tokens: '' and 'w' end, 'w w' is cut off and comes last."
    hyps = beam_search(make(0, V=4, max_len=2), torch.tensor([[3, EOS]]), 8, .6, 8)[0]
    assert sorted(ids for _, ids in hyps[:2]) == [[], [3]] and [ids for _, ids in hyps[2:]] == [[3, 3]]


@pytest.mark.parametrize('seed', range(2))
def test_nbest_is_filled(seed):
    model, src = inference(make(seed)), pad(sources(seed, 8))
    for beam in (2, 4, 7):
        one, all_ = beam_search(model, src, beam), beam_search(model, src, beam, nbest=beam)
        assert [len(hyps) for hyps in all_] == [beam]*8
        assert [hyps[0][1] for hyps in one] == [hyps[0][1] for hyps in all_]


# --- sampling, int8 ---------------------------------------------------------------------------------------------------

def test_sampling_depends_on_sentence_and_seed_alone():
    model, rows = inference(make(0, sharp=1.)), sources(0, 20)
    src = pad(rows)
    once = sample(model, src, seed=3)
    order = random.Random(0).sample(range(20), 20)
    assert sample(model, src[order], seed=3) == [once[i] for i in order]
    assert [sample(model, pad([row]), seed=3)[0] for row in rows] == once == sample(model, src, seed=[3]*20)
    assert sample(model, src, seed=4) != once
    assert (
        sample(model, src, top_k=1)
        == greedy(model, src)
        == sample(model, src, temperature=1e-4)
        == sample(model, src, top_p=1e-6)
    )


def test_draws_follow_the_probabilities():
    p = torch.tensor([[.1, 0., .5, .4, 0.]])
    u = torch.linspace(0, 1, 1001)
    assert (
        torch.bincount(pick(p.expand(1001, -1), u), minlength=5).sub(torch.tensor([100, 0, 500, 400, 0])).abs().max()
        <= 1
    )
    assert restrict(p, 1, 1.).tolist() == restrict(p, 0, .5).tolist() == [[0, 0, .5, 0, 0]]
    assert (
        restrict(p, 0, 0.51).gt(0).tolist() == restrict(p, 2, 0.9).gt(0).tolist() == [[False, False, True, True, False]]
    )
    assert restrict(p, 99, 1.).equal(p)


@pytest.mark.parametrize(
    'wrong',
    [
        dict(temperature=0),
        dict(temperature=-1.0),
        dict(top_k=-1),
        dict(top_p=0.0),
        dict(top_p=1.1),
        dict(temperature=float('nan')),
        dict(seed=[1, 2]),
    ],
)
def test_sampling_without_sense_is_refused(wrong):
    with pytest.raises(InputError): sample(make(0), pad(sources(0, 1)), **wrong)


def test_no_sentences_give_no_outputs():
    model, src = make(0), pad(sources(0, 2))[:0]
    for none in (src, torch.empty(0, 0, dtype=torch.int64)):
        for search in (greedy, beam_search, sample):
            assert search(model, none) == search(inference(model), none) == []
    with pytest.raises(InputError): beam_search(model, src, beam=0)


@pytest.mark.parametrize('beam', [13, 64, pytest.param(200, marks=pytest.mark.slow)])
def test_more_beams_than_tokens(beam):
    hyps = beam_search(make(0), pad(sources(0, 2)), beam, nbest=beam)
    assert all(0 < len(h) <= beam and len({tuple(ids) for _, ids in h}) == len(h) for h in hyps)


def test_length_penalty():
    assert length_penalty(1, .6) == 1 and length_penalty(7, 0) == 1
    assert length_penalty(7, 1) == 2 and length_penalty(13, .6) == pytest.approx(3**.6)
    assert length_penalty(torch.tensor([1, 7]), 1.).tolist() == [1, 2]


@pytest.mark.parametrize(
    'wrong',
    [
        dict(beam=0),
        dict(beam=-1),
        dict(nbest=0),
        dict(beam=2, nbest=3),
        dict(alpha=-0.1),
        dict(alpha=float('nan')),
        dict(alpha=float('inf')),
    ],
)
def test_settings_without_sense_are_refused(wrong):
    with pytest.raises(InputError) as e: beam_search(make(0), pad(sources(0, 1)), **wrong)
    assert '\n' not in str(e.value)


def test_a_trained_model_decodes_what_it_learned():
    torch.manual_seed(0)
    model, rng = (
        Transformer(TransformerConfig(vocab_size=10, N=1, d_model=32, d_ff=64, h=4, dropout=0.0, max_len=64)),
        random.Random(0),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    draw = lambda: (lambda s: (s, s))([rng.randrange(4, 10) for _ in range(rng.randint(2, 5))])  # copy
    for _ in range(250):
        batch = make_batch([draw() for _ in range(32)])
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(
            model(batch.src, batch.tgt_in).transpose(1, 2), batch.tgt_out, ignore_index=PAD
        ).backward()
        optimizer.step()
    rows = [draw()[0] for _ in range(64)]
    src, model = pad([row + [EOS] for row in rows]), model.eval()
    for ready in (model, inference(model), inference(model, int8=True)):
        for outputs in (greedy(ready, src), [h[0][1] for h in beam_search(ready, src)]):
            assert sum(out == row for out, row in zip(outputs, rows)) >= 58
    order, ready, src = random.Random(1).sample(range(24), 24), inference(model), src[:24]
    for search in (greedy, beam_search, sample):  # in float32: tokens are the same in any batch and order
        ids = lambda rows: [out if search is not beam_search else out[0][1] for out in search(ready, rows)]
        all_ = ids(src)
        for n in (1, 7): assert [out for i in range(0, 24, n) for out in ids(src[i:i + n])] == all_
        assert ids(src[order]) == [all_[i] for i in order]
