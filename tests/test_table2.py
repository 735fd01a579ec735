"""The paper's prices are days × GPUs × rate, and RNNSearch and ConvS2S are models as the Transformer is one.

Their operations are those that torch counts, padding and future have no effect, and the script of Table 2 goes on
where it stopped.
"""
import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_nb.data.corpora import Corpus, Split
from transformer_nb.data.tokenizer import BOS, EOS, PAD
from transformer_nb.english_german.grammar import builtin_corpus
from transformer_nb.experiments.table2 import MODELS, RUNS, TABLE2, build_model, greedy_anew
from transformer_nb.parts.packing import packed_decoder_states, with_packed_attention
from transformer_nb.transformer import Transformer

BENCHMARKS = Path(__file__).parents[1]/'benchmarks'
SMALL = {
    'builtin': {'test': 'test', 'sentences': 3, 'drawn': 300, 'max_words': 8, 'vocab_size': 300, 'batch_tokens': 256,
                'flops': 5e8, 'seeds': 1},
    'multi30k': {'test': 'test', 'sentences': 3, 'vocab_size': 300, 'batch_tokens': 256, 'flops': 5e8, 'seeds': 1},
    'factors': [0.5, 1.0],
    'marks': [0.5, 1.0],
}
OTHERS = [name for name in MODELS if name != 'Transformer']


@pytest.mark.parametrize('name', OTHERS)
@pytest.mark.parametrize('n, m', [(3, 11), (20, 7)])
def test_flops(name, n, m):
    "The formula against torch's counter: exact forward, and backward but for the gradients of constants."
    model = build_model(name, vocab_size=90, d_model=32)
    src, tgt = torch.randint(3, 90, (4, n)), torch.randint(3, 90, (4, m))
    with FlopCounterMode(display=False) as forward: logits = model(src, tgt)
    with FlopCounterMode(display=False) as backward: logits.sum().backward()
    formula = model.flops([n]*4, [m]*4)
    assert 3*forward.get_total_flops() == formula
    assert .93 < (forward.get_total_flops() + backward.get_total_flops())/formula <= 1


@pytest.mark.parametrize('name', MODELS)
def test_padding_and_future(name):
    torch.manual_seed(0)
    model = build_model(name, vocab_size=50, d_model=32).eval()
    src, tgt = torch.randint(3, 50, (2, 9)), torch.randint(3, 50, (2, 8))
    src[1, 4:], tgt[1, 5:], tgt[:, 0] = PAD, PAD, BOS
    both = model(src, tgt)
    assert torch.allclose(both[1:, :5], model(src[1:, :4], tgt[1:, :5]), atol=1e-5)
    other = tgt.clone()
    other[0, 4] = (tgt[0, 4] - 2) % 47 + 3
    assert torch.allclose(model(src, other)[0, :4], both[0, :4], atol=1e-5)
    assert not torch.allclose(model(src, other)[0, 4], both[0, 4], atol=1e-3)
    if isinstance(model, Transformer): states = packed_decoder_states(with_packed_attention(model), src, tgt)
    else: states = model.hidden(src, tgt)
    assert torch.allclose(model.embedding.logits(states), both[tgt != PAD], atol=1e-5)


@pytest.mark.parametrize('name', OTHERS)
def test_learns_to_copy(name):
    "A hundred steps on random words: the search gives the source back."
    torch.manual_seed(0)
    model = build_model(name, vocab_size=12, d_model=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    end = torch.full((32, 1), EOS)
    for _ in range(150):
        words = torch.randint(3, 12, (32, 4))
        src, tgt = torch.cat([words, end], 1), torch.cat([end*0 + BOS, words], 1)
        loss = torch.nn.functional.cross_entropy(model(src, tgt).flatten(0, 1), src.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = greedy_anew(model.eval(), src)
    assert sum(row == words.tolist() for row, words in zip(found, words)) >= 28


def test_runs_give_the_prices_of_the_table():
    "Every row with a German price has both its runs, and each comes to the printed price, as far as that is rounded."
    column = {'en-de': 2, 'en-fr': 3}
    assert set(RUNS) == {(name, pair) for name, row in TABLE2.items() if row[2] for pair in column}
    for (name, pair), run in RUNS.items():
        assert run.flops == pytest.approx(TABLE2[name][column[pair]], rel=.04), (name, pair)


@pytest.fixture
def table2(monkeypatch):
    "The script in miniature."
    monkeypatch.syspath_prepend(BENCHMARKS)
    import table2
    drawn = builtin_corpus(300, 10, 10, 0)
    corpus = Corpus('en', 'de', {name: Split([(e.en, e.de) for e in drawn[name]]) for name in ('train', 'val', 'test')})
    monkeypatch.setattr(table2, 'RECIPE', table2.RECIPE | SMALL)
    for name in ('load_corpus', 'short_corpus'): monkeypatch.setattr(table2, name, lambda *args: corpus)
    table2.prepare.cache_clear()
    yield table2
    table2.prepare.cache_clear()


def test_goes_on_where_it_stopped(table2, tmp_path, monkeypatch):
    out, one_run, made = tmp_path/'table2.json', table2.one_run, []
    def counted(*args, **job):
        if len(made) == 4: raise KeyboardInterrupt
        made.append(job)
        return one_run(*args, **job)
    monkeypatch.setattr(table2, 'one_run', counted)
    with pytest.raises(KeyboardInterrupt): table2.main(['--out', str(out), '--device', 'cpu'])
    first = json.loads(out.read_text())
    assert len(first['tuning']) == 4 and 'runs' not in first
    monkeypatch.setattr(table2, 'one_run', one_run)
    table2.main(['--out', str(out), '--device', 'cpu'])
    second = json.loads(out.read_text())
    assert second['tuning'][:4] == first['tuning'] and len(second['tuning']) == 9  # not made again
    assert all(run in second['tuning'] for run in second['runs']) and len(second['runs']) == 3  # nor are trials
    table2.main(['--multi30k', 'somewhere', '--out', str(out), '--device', 'cpu'])
    results = json.loads(out.read_text())
    assert results['tuning'] == second['tuning'] and results['runs'][:3] == second['runs']
    assert [(run['corpus'], run['model']) for run in results['runs']] == [
        (corpus, model) for corpus in ('builtin', 'multi30k') for model in MODELS
    ]
    assert all(
        [point['flops'] >= share * 5e8 for point, share in zip(run['curve'], table2.RECIPE['marks'])] == [True] * 2
        for run in results['runs']
    )
    monkeypatch.setattr(table2, 'RECIPE', table2.RECIPE | {'warmups': [5]})
    with pytest.raises(SystemExit, match='another recipe'): table2.main(['--out', str(out)])


def test_results_are_fair():
    "In the stored results all models used the same operations on the same corpus."
    results = json.loads((BENCHMARKS/'results'/'table2.json').read_text())
    for run in results['runs']:
        recipe = results['recipe'][run['corpus']]
        assert [round(point['flops'] / recipe['flops'], 2) for point in run['curve']] == pytest.approx(
            results['recipe']['marks'], abs=0.02)


def test_weights_that_are_idle_with_one_vector(monkeypatch):
    "The page prints how many parameters of the model with one vector get no gradient; with all vectors each does."
    monkeypatch.syspath_prepend(BENCHMARKS)
    import fixed_vector
    state = fixed_vector.RECIPE['state']
    idle = {}
    for name in 'one vector', 'all vectors':
        torch.manual_seed(0)
        model = fixed_vector.build(name, state)
        src, tgt, answer = fixed_vector.lists(8, 6, torch.Generator().manual_seed(0))
        torch.nn.functional.cross_entropy(model(src, tgt).flatten(0, 1), answer.flatten()).backward()
        idle[name] = sum(p.numel() for p in model.parameters() if p.grad is None or not p.grad.any())
    lesson = json.loads((BENCHMARKS.parent/'nbs/further/fixed_vector.ipynb').read_text(encoding='utf-8'))
    outputs = [out for cell in lesson['cells'] for out in cell.get('outputs', [])]
    printed = ''.join(line for out in outputs for line in out.get('text', []))
    assert idle['all vectors'] == 0 and f"choose where to look: {idle['one vector']:,}, 9.6% of all" in printed
