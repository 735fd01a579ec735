"Table 1's layers take any length, its counts hold for real stacks, its stored figures follow from their raw times."
import json
import math
from itertools import product, repeat
from pathlib import Path

import pytest
import torch
from torch import nn

from transformer_nb.attention import attention
from transformer_nb.experiments.why_self_attention import (
    Convolution, RestrictedSelfAttention, SelfAttention, dependencies, fit_exponent, layer_flops, longest_chain,
    neighbours, one_hop, path_lengths, peak_memory, recall_layers, table1_layers)

MEASURED = json.loads((Path(__file__).parent.parent/'benchmarks'/'results'/'table1.json').read_text())


# The layers

@pytest.mark.parametrize('n, r', [(1, 3), (2, 5), (7, 1), (9, 5), (6, 11)])
def test_restricted_attention_is_a_band_of_full_attention(n, r):
    layer, x, i = RestrictedSelfAttention(8, r), torch.randn(3, n, 8), torch.arange(n)
    band = (i[:, None] - i).abs() <= (r - 1)//2
    assert torch.allclose(layer(x), attention(layer.W_q(x), layer.W_k(x), layer.W_v(x), band)[0], atol=1e-5)


@pytest.mark.parametrize('n', [1, 2, 50])
def test_every_layer_takes_any_length(n):
    for name, layer in table1_layers(8, 5, 7).items(): assert layer(torch.randn(2, n, 8)).shape == (2, n, 8), name


def test_neighbours_of_a_short_sequence_are_zeros():
    found = neighbours(torch.ones(1, 2, 1), 5)[0, :, :, 0]
    assert found.tolist() == [[0, 0, 1, 1, 0], [0, 1, 1, 0, 0]]


# What is counted

def test_real_stacks_see_as_far_as_the_counted_paths():
    "Seven layers of restricted attention (r = 5) reach 14 positions and eight all of 17, by gradients of the stack."
    stack = nn.Sequential(*(RestrictedSelfAttention(8, 5) for _ in range(8))).double()
    x, i = torch.randn(1, 17, 8, dtype=torch.float64), torch.arange(17)
    assert dependencies(stack, x).all()
    assert torch.equal(dependencies(stack[:7], x), (i[:, None] - i).abs() <= 14)
    assert path_lengths(one_hop(17, 5, 5)['restricted']).max() == 8


def test_centred_dilated_kernels_leave_holes_and_those_that_look_back_do_not():
    lengths = path_lengths([dependencies(Convolution(8, 5, 5**level), torch.randn(1, 33, 8)) for level in range(3)])
    assert lengths.isinf().any() and lengths[4, 0].isinf()
    back = path_lengths(one_hop(33, 5, 5)['dilated'])
    assert torch.equal(back.isfinite(), torch.ones(33, 33).tril().bool())


def test_paths_of_a_ring():
    ring = torch.eye(6).roll(1, 1).bool()
    assert path_lengths(repeat(ring)).max() == 5


def test_longest_chain_follows_products_only():
    x = torch.randn(3, 4)
    assert longest_chain(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))(x)) == 2
    # side by side, not one after the other
    assert longest_chain((nn.Linear(4, 4)(x) + nn.Linear(4, 4)(x)).exp().sum()) == 1


def test_counting_leaves_the_layer_where_it_is():
    layer = SelfAttention(8)
    layer_flops(layer, 100_000, 8)
    assert layer.W_q.weight.device.type == 'cpu'


def test_peak_memory_is_no_sum():
    def three_in_turn():
        for _ in range(3): torch.ones(1000)
    assert peak_memory(three_in_turn) == 4000


def test_recall_stacks_are_just_deep_enough():
    for n in (5, 9, 33):
        for name, stack in recall_layers(n, 8, 5, 0).items():
            x = torch.randn(1, n, 8).double()
            assert dependencies(nn.Sequential(*stack).double(), x)[-1, 0], name
            if len(stack) > 1: assert not dependencies(nn.Sequential(*stack[:-1]), x)[-1, 0], name


# The stored measurements

@pytest.mark.parametrize('size', 'nd')
def test_stored_exponents_are_those_of_the_raw_times(size):
    rows, stored = MEASURED[f'by_{size}'], MEASURED['exponents'][size]
    assert rows.keys() == stored.keys()
    for name, row in rows.items():
        for what in ('flops', 'seconds', 'bytes'):
            assert fit_exponent(row[size], row[what]) == pytest.approx(stored[name][what], abs=1e-9)


def test_stored_exponents_are_those_of_table_1():
    fits = MEASURED['exponents']['n']
    assert abs(fits['self-attention']['seconds'][0] - 2) <= .3 and abs(fits['recurrent']['seconds'][0] - 1) <= .2
    assert fits['self-attention']['bytes'][0] > 1.9 and abs(fits['fused self-attention']['bytes'][0] - 1) <= .1
    assert MEASURED['by_n']['self-attention']['n'][0] >= 512        # fitted where n² d outweighs the projections


def test_stored_counts_are_what_is_counted_today():
    for rows in (MEASURED['by_n'], MEASURED['by_d']):
        for name, row in rows.items():
            if name not in table1_layers(8, 3, 3): continue
            # the smallest of the range: recurrence is counted step by step
            n, d = row['n'][0], row['d'][0]
            assert layer_flops(table1_layers(d, **MEASURED['kernel'])[name], n, d) == row['flops'][0]
    chains = {name: row['chain'] for name, row in MEASURED['by_n'].items()}
    assert chains['recurrent'] == MEASURED['by_n']['recurrent']['n'] and set(chains['self-attention']) == {3}


def test_stored_paths_are_the_formulas():
    k, r, hops = (MEASURED['paths'][key] for key in ('k', 'r', 'hops'))
    for i, n in enumerate(MEASURED['paths']['n']):
        assert (hops['self-attention'][i], hops['recurrent'][i]) == (1, n - 1)
        assert hops['convolutional'][i] == hops['separable'][i] == math.ceil(2*(n - 1)/(k - 1))
        assert hops['restricted'][i] == math.ceil(2*(n - 1)/(r - 1))
        assert k**(hops['dilated'][i] - 1) < n <= k**hops['dilated'][i]


def test_stored_recall_runs_are_complete():
    task = MEASURED['recall']
    runs = {(r['layers'], r['distance'], r['seed']) for r in task['runs']}
    assert runs == set(product(recall_layers(5, 8, 5, 0), task['distances'], task['seeds']))
    for r in task['runs']:
        assert r['number'] == len(recall_layers(r['distance'] + 1, 8, task['k'], 0)[r['layers']])
        assert 0 <= r['accuracy'] <= 1
