"""On a GPU: a model trains in each type, goes on where it stopped, decodes as on the CPU, and makes do with its memory.
What other tests imitate on the CPU is done here."""
import json

import pytest
import torch
from test_decoding import make, sources
from test_first_minutes import new_trainer

from transformer_nb import checkpoints
from transformer_nb.data.batching import pad
from transformer_nb.decode.search import beam_search, greedy
from transformer_nb.decode.translator import Translator
from transformer_nb.train.trainer import Trainer, TrainingConfig
from transformer_nb.transformer import Transformer, preset

GPU = 'cuda'
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason='no GPU')]
LINES = ['a dog runs .', 'the cat sleeps .', 'two birds see the old house .', 'my neighbour buys a new car .']
SHORT = [pytest.param('bfloat16', .1), pytest.param('float16', .05)]  # how far losses may be off


def losses(out):
    lines = map(json.loads, (out/'metrics.jsonl').read_text().splitlines())
    return [line['loss'] for line in lines if 'loss' in line]


def trained(out, device=GPU, resume=False, cfg=None, **settings):
    trainer = new_trainer(out, cfg=cfg or {'dropout': 0.}, device=device, **settings)
    if resume: trainer.resume()
    trainer.fit(quiet=True)
    return trainer


def test_losses_are_those_of_the_cpu(tmp_path):
    """Products have 11 bits at least: torch's precision 'high', which training allows on a GPU. At the full rate this
    model jumps about, and after ten steps such rounding alone, also on a CPU, moves its loss by 9 %; at a third of it
    by less than a thousandth."""
    for name, device in (('there', GPU), ('here', 'cpu')): trained(tmp_path/name, device, steps=12, lr_scale=.3)
    assert losses(tmp_path/'there') == pytest.approx(losses(tmp_path/'here'), rel=.002)


@pytest.mark.parametrize('dtype, off', SHORT)
def test_short_types_learn_what_float32_learns(dtype, off, tmp_path):
    for name in ('float32', dtype): trainer = trained(tmp_path/name, dtype=name, steps=40)
    whole, short = losses(tmp_path/'float32'), losses(tmp_path/dtype)
    assert short[-1] < short[0]/2 and short[:3] == pytest.approx(whole[:3], abs=off) and short != whole
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
    assert {p.device.type for p in trainer.model.parameters()} == {GPU}


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'float16'])
def test_a_run_goes_on_where_it_stopped(dtype, tmp_path):
    "With the GPU's random numbers, which dropout draws. Sums on a GPU come in any order: not to the last bit."
    settings = dict(dtype=dtype, save_every=3, cfg={'dropout': .3})
    whole = trained(tmp_path/'whole', steps=6, **settings)
    trained(tmp_path/'parts', steps=3, **settings)
    torch.rand(10, device=GPU)
    parts = trained(tmp_path/'parts', steps=6, resume=True, **settings)
    assert losses(tmp_path/'parts') == pytest.approx(losses(tmp_path/'whole'), rel=1e-3)
    for a, b in zip(parts.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-3)


def test_a_checkpoint_of_a_gpu_is_read_anywhere(tmp_path):
    trainer = trained(tmp_path/'run', steps=6)
    found = checkpoints.load(checkpoints.newest(tmp_path/'run'), device='cpu').model
    for ours, read in zip(trainer.model.parameters(), found.parameters(), strict=True):
        assert read.device.type == 'cpu' and torch.equal(ours.cpu(), read)


@pytest.mark.parametrize('seed', range(4))
def test_decoding_is_that_of_the_cpu(seed):
    "In float64: the same tokens, and the same scores."
    model, src = make(seed), pad(sources(seed, 6))
    with torch.no_grad():
        on_cpu, there = (beam_search(model, src, 4, .6, nbest=2), greedy(model, src)), make(seed).to(GPU)
        on_gpu = beam_search(there, src.to(GPU), 4, .6, nbest=2), greedy(there, src.to(GPU))
    assert on_gpu[1] == on_cpu[1]
    for ours, theirs in zip(*(found[0] for found in (on_gpu, on_cpu)), strict=True):
        assert [hyp.ids for hyp in ours] == [hyp.ids for hyp in theirs]
        assert [hyp.score for hyp in ours] == pytest.approx([hyp.score for hyp in theirs], abs=1e-9)


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'float16'])
def test_the_demo_translates_as_on_the_cpu(dtype):
    ours = Translator.from_pretrained('demo', device=GPU, dtype=dtype)
    theirs = Translator.from_pretrained('demo', device='cpu')
    translations = theirs.translate(LINES)
    assert ours.translate(LINES) == translations
    off = {'float32': 1e-3, 'bfloat16': .5, 'float16': .05}[dtype]
    scores = [[p.score(LINES, translations)] for p in (ours, theirs)]
    torch.testing.assert_close(*map(torch.as_tensor, scores), rtol=0, atol=off, check_dtype=False)


@pytest.fixture
def limit():
    "Let this process have only so many bytes of the GPU's memory."
    total = torch.cuda.get_device_properties(0).total_memory
    def limited(size):
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(min(1., size/total))
    yield limited
    limited(total)


def large(out, steps=2):
    "Steps of 64 pairs of 200 tokens, which need far more memory than the weights."
    torch.manual_seed(0)
    model = Transformer(preset('tiny', vocab_size=2000, N=4, d_model=256, d_ff=1024, h=4, dropout=0., max_len=256))
    pairs = [(torch.randint(3, 2000, (199,)).tolist(), torch.randint(3, 2000, (199,)).tolist()) for _ in range(64)]
    cfg = TrainingConfig(steps=steps, batch_tokens=64*200, warmup=4, device=GPU)
    return Trainer(model, train=pairs, cfg=cfg, out=out)


def test_what_does_not_fit_is_split(tmp_path, limit, capsys):
    "The whole step needs its peak; with three quarters of it, it is done in halves, and learns the same."
    torch.cuda.reset_peak_memory_stats()
    large(tmp_path/'whole').fit(quiet=True)
    peak = torch.cuda.max_memory_reserved()
    limit(.75*peak)
    large(tmp_path/'halves').fit(quiet=True)
    assert 'out of memory on a batch of 64 pairs; split in two' in capsys.readouterr().err
    assert losses(tmp_path/'halves') == pytest.approx(losses(tmp_path/'whole'), rel=.01)


def test_one_pair_that_does_not_fit_ends_the_run(tmp_path, limit):
    trainer = large(tmp_path/'run')
    limit(torch.cuda.memory_allocated() + 2**20)  # what the weights have taken, and no more
    with pytest.raises(Exception, match='out of memory') as e: trainer.fit(quiet=True)
    assert len(str(e.value).splitlines()) == 1
