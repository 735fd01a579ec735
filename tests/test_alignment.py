"Word alignment: what a table row holds does not depend on its neighbours, and links of one table are those of loops."
from collections import Counter, defaultdict

import pytest
import torch

from transformer_nb.english_german.grammar import builtin_corpus
from transformer_nb.experiments.alignment import (
    aer, aer_draws, diagonal, head_aer, ibm1, number_words, shares, word_table)


@pytest.fixture(scope='module')
def sides():
    examples = builtin_corpus(n_train=300, n_val=1, n_test=1, n_unseen=0)['train']
    return [e.en.split() for e in examples], [e.de.split() for e in examples]


def tables(sides):
    numbers = [number_words(side) for side in sides]
    return [word_table(side, n) for side, n in zip(sides, numbers)], numbers


def test_model_1_is_what_the_loops_find(sides):
    (source, target), numbers = tables(sides)
    p = defaultdict(lambda: 1.)
    for _ in range(3):
        counts, totals = Counter(), Counter()
        for english, german in zip(*sides):
            for f in german:
                total = sum(p[e, f] for e in english)
                for e in english:
                    counts[e, f] += p[e, f]/total
                    totals[e] += p[e, f]/total
        p = {(e, f): n/totals[e] for (e, f), n in counts.items()}
    found = ibm1(source, target, rounds=3)
    for (e, f), value in p.items():
        assert found[numbers[0][e], numbers[1][f]].item() == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize('near', [0., 4.])
def test_padding_changes_nothing(sides, near):
    (source, target), _ = tables(sides)
    wider = [torch.nn.functional.pad(words, (0, 3)) for words in (source, target)]
    p = ibm1(source, target, rounds=2, near=near)
    assert torch.allclose(p, ibm1(*wider, rounds=2, near=near), atol=1e-5)
    weights = shares(p, source, target, near)
    assert torch.allclose(weights, shares(p, *wider, near)[:, :target.shape[1], :source.shape[1]], atol=1e-6)
    assert torch.allclose(weights.sum(-1)[target > 0], torch.ones(int((target > 0).sum())), atol=1e-5)
    assert not weights.masked_select((source == 0)[:, None].expand_as(weights)).any()


def test_an_unknown_word_breaks_nothing(sides):
    (source, target), numbers = tables(sides)
    p = ibm1(source, target, rounds=2)
    new = [word_table([['xylophone', *side[0]]], n) for side, n in zip(sides, numbers)]
    weights = shares(p, *new)
    assert weights.isfinite().all() and not weights[0, 0].any()


def test_draws_of_the_bootstrap():
    gold = [{(i, i) for i in range(n)} for n in (3, 5, 8, 13)]*10
    guess = [diagonal(len(links), len(links) + 1) for links in gold]
    draws = aer_draws(guess, gold, draws=500)
    assert torch.equal(draws, aer_draws(guess, gold, draws=500))
    assert draws.min() < aer(guess, gold) < draws.max() and draws.mean() == pytest.approx(aer(guess, gold), abs=.01)
    assert not aer_draws(gold, gold).any()


def test_each_head_has_its_own_error_rate_in_its_place():
    "Two layers with a head each: the first finds the word in the row that predicts, the second in the row fed with it."
    cross = torch.tensor([[[[.1, .8, .1], [.8, .1, .1]]], [[[.8, .1, .1], [.1, .8, .1]]]])
    maps = dict(source=['▁a', '▁b', '</s>'], target=['▁c', '</s>'], cross=cross)
    assert head_aer([maps], [{(1, 0)}]).tolist() == [[0.], [1.]]
    assert head_aer([maps], [{(1, 0)}], fed=True).tolist() == [[1.], [0.]]
