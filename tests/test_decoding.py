"Decoding: the cache changes nothing, the batch changes nothing, and the search finds what there is."
import random
from itertools import product

import pytest
import torch

from transformer_nb.batching import make_batch, pad
from transformer_nb.core import InputError
from transformer_nb.decoding import BeamSearch, DecoderCache, beam_search, decode_step, greedy, length_penalty, max_lengths, next_logp
from transformer_nb.transformer import Transformer, TransformerConfig

PAD, BOS, EOS = 0, 1, 2
SEEDS = range(12)


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


@torch.no_grad()
def log_probability(model, src, ids, ended=True):
    "Of one output, by teacher forcing; src of shape (1, n)."
    logits = model(src, torch.tensor([[BOS, *ids]]))[0]
    logits[:, [PAD, BOS]] = float('-inf')
    out = ids + [EOS]*ended
    return logits.log_softmax(-1)[range(len(out)), out].sum().item()


# --- the cache --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('changes', [{}, dict(norm='pre'), dict(positions='learned'), dict(d_k=3, d_v=5, bias=True), dict(N=1, h=1)])
@torch.no_grad()
def test_cached_logits_equal_teacher_forcing(changes):
    model, src = make(0, **changes), pad(sources(1, 7))
    tgt = torch.cat([torch.full((7, 1), BOS), torch.randint(3, 12, (7, 20), generator=torch.Generator().manual_seed(0))], 1)
    cache, logits = DecoderCache(model, src), model(src, tgt)
    for i in range(tgt.shape[1]):
        torch.testing.assert_close(decode_step(model, tgt[:, i], cache), logits[:, i], rtol=0, atol=1e-11)
    assert cache.length == tgt.shape[1]


@torch.no_grad()
def test_cache_follows_its_rows():
    model, src = make(0), pad(sources(1, 5))
    tgt = torch.randint(3, 12, (5, 6), generator=torch.Generator().manual_seed(0))
    rows, cache = torch.tensor([4, 0, 0, 2]), DecoderCache(model, src)
    for i in range(3): decode_step(model, tgt[:, i], cache)
    cache.select(rows)
    for i in range(3, 6): out = decode_step(model, tgt[rows, i], cache)
    torch.testing.assert_close(out, model(src[rows], tgt[rows])[:, -1], rtol=0, atol=1e-11)


@torch.no_grad()
def test_padding_and_start_are_never_said():
    logp = next_logp(make(0), torch.tensor([BOS]), DecoderCache(make(0), pad(sources(1, 1))))
    assert logp[0, [PAD, BOS]].isneginf().all() and logp[0, 2:].isfinite().all()
    assert logp.exp().sum().item() == pytest.approx(1)


# --- greedy and beam --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('seed', SEEDS)
def test_beam_of_one_without_penalty_is_greedy(seed):
    model, src = make(seed), pad(sources(seed, 8))
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


def test_beam_is_at_least_as_good_as_greedy():
    "Not a theorem: greedy's path can fall out of a narrow beam. It must be rare, and the mean must be better."
    pairs = []
    for seed in SEEDS:
        model, src = make(seed), pad(sources(seed, 6))
        one, eight = (beam_search(model, src, beam, 0.) for beam in (1, 8))
        pairs += [(g[0][0], b[0][0]) for g, b in zip(one, eight)]
    assert sum(b >= g - 1e-9 for g, b in pairs) >= .95*len(pairs)
    assert sum(b for _, b in pairs) > sum(g for g, _ in pairs)


@pytest.mark.parametrize('alpha', [0., .6, 2.])
@pytest.mark.parametrize('seed', SEEDS)
def test_wide_beam_finds_the_best_of_all_outputs(seed, alpha):
    "Vocabulary of 6 (4 can be said), at most 4 tokens: 1 + 3 + 9 + 27 outputs that end."
    model, src = make(seed, V=6, max_len=4), torch.tensor([sources(seed, 1, 6, 3)[0]])
    everything = [[*ids] for m in range(4) for ids in product([3, 4, 5], repeat=m)]
    every = sorted(((log_probability(model, src, ids)/length_penalty(len(ids) + 1, alpha), ids) for ids in everything), reverse=True)
    found = beam_search(model, src, 128, alpha, 40)[0]   # 27 beginnings x 4 tokens: nothing is cut
    assert [ids for _, ids in found] == [ids for _, ids in every]
    assert [s for s, _ in found] == pytest.approx([s for s, _ in every], abs=1e-6)
    for beam in (1, 2, 4):                                # nothing that ends can be better
        score, ids = beam_search(model, src, beam, alpha)[0][0]
        assert len(ids) == 4 or score <= every[0][0] + 1e-6


class Patient(BeamSearch):
    "Never stops early."
    def bound(self): return torch.full_like(self.logp[:, 0], 1e9)


@pytest.mark.parametrize('alpha', [0., .6, 1.])
@pytest.mark.parametrize('nbest', [1, 3])
@torch.inference_mode()
def test_stopping_early_changes_nothing(alpha, nbest):
    saved = 0
    for seed in range(4):
        model, src = make(seed), pad(sources(seed, 5))
        early, late = BeamSearch(model, src, 4, alpha, nbest), Patient(model, src, 4, alpha, nbest)
        for a, b in zip(early.run(), late.run()):
            assert [ids for _, ids in a[:nbest]] == [ids for _, ids in b[:nbest]]
        saved += late.cache.length - early.cache.length
    assert saved >= 0


# --- batches, limits, order -------------------------------------------------------------------------------------------

def close(a, b):
    "Equal outputs, scores equal but for rounding."
    assert [[ids for _, ids in hyps] for hyps in a] == [[ids for _, ids in hyps] for hyps in b]
    for x, y in zip(a, b): assert [s for s, _ in x] == pytest.approx([s for s, _ in y], abs=1e-9)


@pytest.mark.parametrize('seed', range(4))
def test_a_batch_changes_nothing(seed):
    model, rows = make(seed), sources(seed, 9)
    together = beam_search(model, pad(rows), 4, .6, 4)
    close(together, [beam_search(model, pad([row]), 4, .6, 4)[0] for row in rows])
    close(together, [hyps for i in range(0, 9, 3) for hyps in beam_search(model, pad(rows[i:i + 3]), 4, .6, 4)])
    order = random.Random(seed).sample(range(9), 9)
    shuffled = beam_search(model, pad([rows[i] for i in order]), 4, .6, 4)
    close([together[i] for i in order], shuffled)
    extra = torch.cat([pad(rows), torch.full((9, 11), PAD)], 1)  # more padding
    close(together, beam_search(model, extra, 4, .6, 4))
    assert greedy(model, pad(rows)) == [greedy(model, pad([row]))[0] for row in rows] == greedy(model, extra)


@pytest.mark.parametrize('seed', range(4))
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


@pytest.mark.parametrize('beam, nbest', [(1, 1), (4, 1), (4, 4), (5, 2), (9, 9)])
def test_nbest_is_sorted_and_distinct(beam, nbest):
    for hyps in beam_search(make(1), pad(sources(1, 6)), beam, .6, nbest):
        assert 1 <= len(hyps) <= nbest
        assert [s for s, _ in hyps] == sorted((s for s, _ in hyps), reverse=True)
        assert len({tuple(ids) for _, ids in hyps}) == len(hyps)


def test_more_hypotheses_than_outputs():
    "A vocabulary of one real word and outputs of at most 2 tokens: '', 'w' and nothing else end."
    hyps = beam_search(make(0, V=4, max_len=2), torch.tensor([[3, EOS]]), 8, .6, 8)[0]
    assert sorted(ids for _, ids in hyps) == [[], [3]]


def test_length_penalty():
    assert length_penalty(1, .6) == 1 and length_penalty(7, 0) == 1
    assert length_penalty(7, 1) == 2 and length_penalty(13, .6) == pytest.approx(3**.6)
    assert length_penalty(torch.tensor([1, 7]), 1.).tolist() == [1, 2]


@pytest.mark.parametrize('wrong', [dict(beam=0), dict(beam=-1), dict(nbest=0), dict(beam=2, nbest=3), dict(alpha=-.1), dict(alpha=float('nan'))])
def test_settings_without_sense_are_refused(wrong):
    with pytest.raises(InputError) as e: beam_search(make(0), pad(sources(0, 1)), **wrong)
    assert '\n' not in str(e.value)


def test_a_trained_model_decodes_what_it_learned():
    torch.manual_seed(0)
    model, rng = Transformer(TransformerConfig(vocab_size=10, N=1, d_model=32, d_ff=64, h=4, dropout=0., max_len=64)), random.Random(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    draw = lambda: (lambda s: (s, s))([rng.randrange(4, 10) for _ in range(rng.randint(2, 5))])  # copy
    for _ in range(250):
        batch = make_batch([draw() for _ in range(32)])
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch.src, batch.tgt_in).transpose(1, 2), batch.tgt_out, ignore_index=PAD).backward()
        optimizer.step()
    rows = [draw()[0] for _ in range(50)]
    src = pad([row + [EOS] for row in rows])
    for outputs in (greedy(model.eval(), src), [h[0][1] for h in beam_search(model, src)]):
        assert sum(out == row for out, row in zip(outputs, rows)) >= 45
