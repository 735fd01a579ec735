"The script of Table 3 goes on where it stopped and mixes no recipes; every row decodes fast as it decodes slowly."
import json
from pathlib import Path

import pytest
import torch

from transformer_nb.data.batching import pad
from transformer_nb.data.corpora import Corpus, Split
from transformer_nb.english_german.grammar import builtin_corpus
from transformer_nb.parts.inference import inference
from transformer_nb.experiments.variations import EXTRAS, build_row

SMALL = {'d_model': 32, 'vocab_size': 400, 'corpus_size': 300, 'batch_tokens': 256, 'steps': 2}


@pytest.fixture
def table3(monkeypatch):
    "The script in miniature: 300 sentences, ten to test with."
    monkeypatch.syspath_prepend(Path(__file__).parents[1]/'benchmarks')
    import table3
    drawn = builtin_corpus(300, 10, 10, 0)
    corpus = Corpus('en', 'de', {name: Split([(e.en, e.de) for e in drawn[name]]) for name in ('train', 'val', 'test')})
    monkeypatch.setattr(table3, 'RECIPE', table3.RECIPE | SMALL)
    monkeypatch.setattr(table3, 'short_corpus', lambda *args: corpus)
    return table3


def test_goes_on_where_it_stopped(table3, tmp_path):
    out = tmp_path/'table3.json'
    run = lambda *rows: table3.main(['--rows', *rows, '--seeds', '1', '--steps', '2', '--out', str(out)])
    read = lambda: json.loads(out.read_text())['runs']
    run('base')
    first = read()
    run('base', 'big', 'untied')
    assert [(r['row'], r['seed'], r['steps']) for r in read()] == [
        ('base', 0, 2), ('big', 0, 6), ('untied', 0, 2)]
    assert read()[:1] == first  # not made again, their minutes are the old ones
    with pytest.raises(SystemExit, match='another recipe'): table3.main(['--steps', '3', '--out', str(out)])


def test_order_of_runs(table3):
    jobs = table3.jobs(['untied', 'big', 'base', 'A1'], 2)
    assert [(job['row'], job['seed']) for job in jobs] == [
        ('big', 0), ('base', 0), ('A1', 0), ('untied', 0), ('base', 1), ('A1', 1), ('untied', 1)]


def test_averaging_takes_the_best_rate_and_goes_on(table3, tmp_path, monkeypatch):
    import averaging
    monkeypatch.setattr(averaging, 'RATES', (.3, .6))
    monkeypatch.setattr(averaging, 'ROWS', ('base', 'wide-average'))
    out = tmp_path/'averaging.json'
    run = lambda seeds: averaging.main(['--seeds', seeds, '--steps', '2', '--out', str(out)])
    read = lambda: json.loads(out.read_text())['runs']
    run('1')
    first = read()
    assert [(r['row'], r['rate']) for r in first] == [(row, rate) for rate in (.3, .6) for row in averaging.ROWS]
    run('2')
    assert read()[:4] == first
    assert [(r['row'], r['seed'], r['rate']) for r in read()[4:]] == [
        (row, 1, averaging.best_rate(first, row, 0)) for row in averaging.ROWS]


@pytest.mark.parametrize('row', ['base', 'E', *EXTRAS])
@torch.no_grad()
def test_fast_decoding_of_every_kind_of_model(row):
    "Also of a model whose parts were exchanged: its logits step by step are those of one pass."
    torch.manual_seed(0)
    model = build_row(row, 32, 2, vocab_size=50, max_len=20).double().eval()
    src, tgt = pad([[5, 6, 7, 2], [8, 9, 2]]), torch.tensor([[1, 4, 7, 9], [1, 8, 5, 6]])
    ready = inference(model)
    cache = ready.start(src, 4)
    steps = torch.stack([ready.step(ids, cache) for ids in tgt.unbind(1)], 1)
    torch.testing.assert_close(steps[..., 2:50], model(src, tgt)[..., 2:], rtol=0, atol=1e-11)
