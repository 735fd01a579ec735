"""What must hold for every stream of batches: each pair once an epoch, the same steps for any number of processes,
resumed anywhere, made in another thread."""
import threading
from itertools import chain, count, islice, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_nb.core import InputError
from transformer_nb.data.batching import Batch, Batches, batch_by_tokens, make_batch, pad, prefetch
from transformer_nb.data.tokenizer import BOS, EOS, PAD

many = settings(max_examples=60)
ids = st.lists(st.integers(4, 50_000), max_size=12)
corpora = st.lists(st.tuples(ids, ids), min_size=1, max_size=30)
budgets = st.integers(1, 60)
seeds = st.integers(0, 2**31)


@st.composite
def numbered(draw):
    "Pairs of any lengths whose first source token is their own number, so that they are known again in a batch."
    sizes = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
    return [([4 + i] + [7]*n, [8]*m) for i, (n, m) in enumerate(sizes)]


@st.composite
def layouts(draw):
    "(per_step, world): micro-batches per step and processes."
    world = draw(st.integers(1, 4))
    return draw(st.integers(world, 7)), world


def test_ids_are_int64_whatever_padding_is():
    "NumPy 1 takes int32 for a plain number on Windows."
    assert pad([[1], [2, 3]], pad_id=np.int32(0)).dtype == torch.int64


def pairs_of(batch): return [i - 4 for i in batch.src[:, 0].tolist()]


def same(a, b):
    return a.n_tokens == b.n_tokens and all(
        torch.equal(getattr(a, name), getattr(b, name)) for name in ('src', 'tgt_in', 'tgt_out')
    )


def same_step(a, b):
    return (
        a.places == b.places
        and a.n_tokens == b.n_tokens
        and len(a.batches) == len(b.batches)
        and all(map(same, a.batches, b.batches))
    )


# --- Tables

@many
@given(corpora, st.booleans())
def test_tables_hold_the_ids_and_nothing_else(pairs, arrays):
    raw = [(np.array(s, np.int32), np.array(t, np.int32)) for s, t in pairs] if arrays else pairs
    batch = make_batch(raw)
    for table, rows in (
        (batch.src, [s + [EOS] for s, t in pairs]),
        (batch.tgt_in, [[BOS] + t for s, t in pairs]),
        (batch.tgt_out, [t + [EOS] for s, t in pairs]),
    ):
        longest = max(map(len, rows))
        assert table.dtype == torch.int64
        assert table.tolist() == [row + [PAD]*(longest - len(row)) for row in rows]
    assert batch.n_tokens == sum(len(t) + 1 for s, t in pairs) == Batch(batch.src, batch.tgt_in, batch.tgt_out).n_tokens


@many
@given(st.lists(ids, min_size=1, max_size=12))
def test_pad_is_a_rectangle(rows):
    table = pad(rows)
    assert table.shape == (len(rows), max(map(len, rows))) and table.dtype == torch.int64
    for row, padded in zip(rows, table.tolist()): assert padded == row + [PAD]*(len(padded) - len(row))


@many
@given(st.lists(st.integers(1, 20), max_size=40), budgets, seeds)
def test_cut_keeps_order_and_budget(lengths, budget, seed):
    order = np.random.default_rng(seed).permutation(len(lengths))
    batches = batch_by_tokens(lengths, order, budget)
    assert list(chain(*batches)) == order.tolist()
    assert all(batches) and all(type(i) is int for i in chain(*batches))
    for batch in batches: assert len(batch) == 1 or len(batch)*max(lengths[i] for i in batch) <= budget
    for batch, (following, *_) in pairwise(batches):  # which would not have fitted
        assert (len(batch) + 1)*max(lengths[i] for i in [*batch, following]) > budget


# --- Epochs

@many
@given(numbered(), budgets, seeds, st.integers(0, 5))
def test_every_pair_once_an_epoch(pairs, budget, seed, e):
    batches = Batches(pairs, budget, seed)
    n = batches.n_batches
    assert len(batches.epoch(e)) == n
    seen = [i for step in islice(batches.stream(e*n), n) for batch in step.batches for i in pairs_of(batch)]
    assert sorted(seen) == list(range(len(pairs)))
    assert sorted(i for batch in batches.validation_batches() for i in pairs_of(batch)) == list(range(len(pairs)))


@many
@given(numbered(), budgets, seeds, layouts())
def test_steps_cut_one_row(pairs, budget, seed, layout):
    "Whatever per_step is, the micro-batches are the same, in the same order."
    one, many = Batches(pairs, budget, seed), Batches(pairs, budget, seed, per_step=layout[0])
    row = [batch for step in islice(many.stream(), 4) for batch in step.batches]
    assert all(map(same, row, (step.batches[0] for step in one.stream())))


def test_order_depends_on_seed_and_epoch_alone():
    pairs = [([4 + i], [5]) for i in range(200)]
    a, b = Batches(pairs, 16, seed=3), Batches(pairs, 16, seed=3)
    b.epoch(9)
    assert a.epoch(2) == b.epoch(2) != a.epoch(3)
    assert a.epoch(2) != Batches(pairs, 16, seed=4).epoch(2)
    assert set(map(frozenset, a.epoch(2))) != set(map(frozenset, a.epoch(3)))   # sentences of equal length meet others


# --- Processes

@many
@given(numbered(), budgets, seeds, layouts(), st.integers(0, 40))
def test_ranks_share_the_step_of_one_process(pairs, budget, seed, layout, start):
    per_step, world = layout
    whole = Batches(pairs, budget, seed, per_step).stream(start)
    ranks = [Batches(pairs, budget, seed, per_step, rank, world).stream(start) for rank in range(world)]
    for step, *parts in islice(zip(whole, *ranks), 3):
        places = [place for part in parts for place in part.places]
        assert sorted(places) == list(range(per_step)) == step.places                      # no overlap, nothing missing
        assert all(place % world == rank for rank, part in enumerate(parts) for place in part.places)
        assert all(
            same(batch, step.batches[place])
            for part in parts
            for place, batch in zip(part.places, part.batches, strict=True)
        )
        assert {part.n_tokens for part in parts} == {step.n_tokens}
        assert step.n_tokens == sum(batch.n_tokens for part in parts for batch in part.batches)


@many
@given(numbered(), budgets, seeds, layouts(), st.integers(0, 30), st.integers(0, 7))
def test_resume_at_any_step_with_any_world(pairs, budget, seed, layout, stop, taken):
    "`taken` steps from `stop` on with `world` processes, then the rest alone: what one process sees without a break."
    per_step, world = layout
    ranks = [islice(Batches(pairs, budget, seed, per_step, rank, world).stream(stop), taken) for rank in range(world)]
    before = []
    for parts in zip(*ranks):
        dealt = {place: batch for part in parts for place, batch in zip(part.places, part.batches)}
        before += [dealt[place] for place in range(per_step)]
    after = [
        batch
        for step in islice(Batches(pairs, budget, seed, per_step).stream(stop + taken), 2)
        for batch in step.batches
    ]
    plain = [
        batch
        for step in islice(Batches(pairs, budget, seed, per_step).stream(), stop + taken + 2)
        for batch in step.batches
    ]
    assert len(before + after) == len(plain[stop*per_step:])
    assert all(map(same, before + after, plain[stop*per_step:]))


def test_impossible_layouts_are_refused():
    pairs = [([5], [6])]
    with pytest.raises(InputError, match='2 micro-batches per step are too few for 3 processes: take at least 3'):
        Batches(pairs, per_step=2, world=3)
    for rank in (-1, 2):
        with pytest.raises(ValueError, match='ranks go from 0 to 1'): Batches(pairs, per_step=2, rank=rank, world=2)
    with pytest.raises(ValueError, match='at least one'): Batches([])
    with pytest.raises(InputError, match=r'pair 0 \(from 0\): 3 sides'): Batches([([5], [6], [7]), ([8], [9], [10])])


# --- Prefetching

class Bad(Exception): pass


def ended(threads):
    "All threads but these are gone."
    return set(threading.enumerate()) <= set(threads)


@many
@given(st.lists(st.integers() | st.none(), max_size=20), st.integers(1, 5))
def test_prefetch_changes_nothing(items, size):
    threads = threading.enumerate()
    assert list(prefetch(items, size)) == items
    assert ended(threads)


@many
@given(numbered(), budgets, layouts(), st.integers(1, 3))
def test_prefetched_steps_are_the_same(pairs, budget, layout, size):
    batches = Batches(pairs, budget, per_step=layout[0])
    steps = prefetch(batches.stream(), size)
    assert all(map(same_step, islice(steps, 5), batches.stream()))
    steps.close()


@many
@given(st.integers(0, 8), st.integers(1, 4))
def test_prefetch_passes_exceptions(good, size):
    def broken():
        yield from range(good)
        raise Bad('line 3')
    threads, got = threading.enumerate(), []
    with pytest.raises(Bad, match='line 3') as e:
        for item in prefetch(broken(), size): got.append(item)
    assert got == list(range(good)) and ended(threads)
    assert any(frame.name == 'broken' for frame in e.traceback)   # the place in the thread is shown


@many
@given(st.integers(0, 6), st.integers(1, 4), st.booleans())
def test_prefetch_ends_its_thread_when_closed_early(taken, size, by_hand):
    threads, items = threading.enumerate(), prefetch(count(), size)
    assert list(islice(items, taken)) == list(range(taken))
    if by_hand: items.close()
    else: del items   # dropped: the same
    assert ended(threads)


def test_prefetch_ends_its_thread_when_the_consumer_fails():
    threads = threading.enumerate()
    def consume():
        for item in prefetch(count()):
            if item == 3: raise Bad
    with pytest.raises(Bad): consume()
    assert ended(threads)


@many
@given(st.integers(1, 4), st.integers(1, 5))
def test_prefetch_is_at_most_size_ahead(size, taken):
    made, threads = 0, threading.enumerate()
    enough, too_many = threading.Event(), threading.Event()
    def items():
        nonlocal made
        for made in count(1):
            if made == taken + size: enough.set()
            if made > taken + size: too_many.set()
            yield made
    ahead = prefetch(items(), size)
    for _ in range(taken): next(ahead)
    assert enough.wait(60) and not too_many.wait(.002)   # a thread that went on would be seen here
    ahead.close()      # the thread waits for a free place now: it must be woken
    assert ended(threads)


def test_prefetch_of_nothing_iterable_raises_and_does_not_hang():
    threads = threading.enumerate()
    with pytest.raises(TypeError, match='not iterable'): next(prefetch(5))
    assert ended(threads)


def test_prefetch_runs_off_the_main_thread():
    def who(): yield threading.get_ident()
    assert list(prefetch(who())) != [threading.get_ident()]


def test_prefetch_draws_nothing_from_the_global_generator():
    pairs = [([4 + i]*3, [5]) for i in range(50)]
    torch.manual_seed(0)
    state = torch.get_rng_state()
    list(islice(prefetch(Batches(pairs, 16).stream()), 30))
    assert torch.equal(torch.get_rng_state(), state)


# --- GPUs, imitated

def test_everything_moves_with_the_batch():
    "On the meta device nothing could be read, so nothing has been forgotten, and nothing is asked for."
    batch = make_batch([([5], [6, 7]), ([8, 9], [5])]).to('meta')
    assert {value.device.type for value in vars(batch).values() if isinstance(value, torch.Tensor)} == {'meta'}
    assert (batch.n_tokens, batch.lengths, len(batch.targets)) == (5, ([2, 3], [3, 2]), 5)


def test_a_gpu_reads_from_pinned_memory(monkeypatch):
    "Elsewhere a transfer that nobody waits for is none, and it must be pinned before it is sent."
    batch, pinned, sent = make_batch([([5], [6, 7])]), [], []
    def pin(table):
        pinned.append(table.clone())
        return pinned[-1]
    def send(table, device, non_blocking=False):
        sent.append((any(table is copy for copy in pinned), torch.device(device).type, non_blocking))
        return table
    monkeypatch.setattr(torch.Tensor, 'pin_memory', pin)
    monkeypatch.setattr(torch.Tensor, 'to', send)
    moved = batch.to('cuda:0')
    assert sent == [(True, 'cuda', True)]*4 and moved.n_tokens == 3
    batch.to('cpu')
    assert len(pinned) == 4   # and nothing is pinned for a CPU
