"""A run of commit 2838ad2 loads, translates, resumes, is averaged and exported as that commit did it.

`data/run_of_2838ad2.tar.xz` holds the run as it was at step 300 (`run`), and what 2838ad2 made of it: weights after
step 304 (`later`), the average at the end, translations and scores (`answers.json`). It was made by the command
below, of then, with the preset below. Four steps, as roundings differ from processor to processor: after a hundred
steps the weights have nothing in common (differences up to 0.5)."""
import json
import shutil
import tarfile
from pathlib import Path

import pytest
import torch
from conftest import tnb
from safetensors.torch import load_file

from transformer_nb import checkpoints
from transformer_nb.config import PRESETS
from transformer_nb.decode.translator import Translator

pytestmark = pytest.mark.long(10)  # all: they share a run
TINY = dict(N=1, d_model=16, d_ff=32, h=2)
COMMAND = ('--data builtin --corpus-size 500 --preset stored --steps 304 --every 100 --vocab-size 150 '
           '--batch-tokens 512 --accumulate 2 --warmup 100 --lr-factor 2 --clip 1 --patience 9 --average-last 2 '
           '--max-len 64 --threads 1 --device cpu --seed 3').split()


@pytest.fixture(scope='module')
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp('stored')
    with tarfile.open(Path(__file__).parent/'data'/'run_of_2838ad2.tar.xz') as archive:
        archive.extractall(folder, filter='data')
    return folder


@pytest.fixture(scope='module')
def resumed(stored, tmp_path_factory):
    "The command of then, given again with `--resume`."
    run = tmp_path_factory.mktemp('resumed')/'run'
    shutil.copytree(stored/'run', run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, 'stored', TINY)
        status, _, err = tnb('tnb-train', *COMMAND, '--out', run, '--resume')
    assert status == 0, err
    return run


def weights(checkpoint): return load_file(checkpoint/'model.safetensors')


def assert_same_weights(ours, theirs):
    "Bit for bit where torch has the same kernels; elsewhere roundings differ."
    assert ours.keys() == theirs.keys()
    for name, t in theirs.items(): torch.testing.assert_close(ours[name], t, rtol=0, atol=1e-3)


def assert_same_answers(model, answers, texts):
    "Scores leave out today what is never written (padding and BOS), and are a little higher for it."
    translator = Translator.from_pretrained(model, 'cpu', 'float32')
    assert translator.translate(texts, beam=1) == answers['greedy']
    assert translator.score(texts, texts[::-1]) == pytest.approx(answers['scores'], rel=1e-3)


@pytest.fixture
def answers(stored): return json.loads((stored/'answers.json').read_text())


@pytest.mark.parametrize('place', ['run', 'run/step-0000300'])
def test_it_translates_as_it_did(stored, answers, place):
    assert_same_answers(stored/place, answers['stopped'], answers['texts'])


def test_its_files_are_all_read(stored):
    found = checkpoints.load(stored/'run')
    assert found.training['step'] == 300 and found.training['settings']['accumulate'] == 2
    assert (found.model.cfg.d_model, found.model.cfg.d_k, found.tokenizer.vocab_size) == (16, 8, 150)


def test_it_ends_with_the_same_weights(stored, resumed):
    assert_same_weights(weights(resumed/'step-0000304'), load_file(stored/'later.safetensors'))
    assert_same_weights(weights(resumed/'averaged'), load_file(stored/'averaged.safetensors'))


def test_its_metrics_go_on(stored, resumed):
    steps = [json.loads(line)['step'] for line in (resumed/'metrics.jsonl').read_text().splitlines()]
    before = (stored/'run'/'metrics.jsonl').read_text()
    assert (resumed/'metrics.jsonl').read_text().startswith(before)
    assert sorted({*steps}) == list(range(1, 305))


def test_the_average_by_command(stored, resumed, answers, tmp_path):
    status, _, err = tnb('tnb-average', resumed, tmp_path/'mean', '--last', 2)
    assert status == 0, err
    assert_same_weights(weights(tmp_path/'mean'), load_file(stored/'averaged.safetensors'))
    assert_same_answers(tmp_path/'mean', answers['averaged'], answers['texts'])


def test_the_export_translates_as_it_did(stored, answers, tmp_path):
    status, _, err = tnb('tnb-export', stored/'run', '--out', tmp_path/'marian')
    assert status == 0, err
    assert_same_answers(tmp_path/'marian', answers['stopped'], answers['texts'])
