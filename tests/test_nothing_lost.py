"No command and no function deletes or rewrites what its own run did not make; a used directory is refused."

import shutil
from pathlib import Path

import pytest
import torch
from conftest import tnb
from test_first_minutes import new_trainer

from transformer_nb import checkpoints
from transformer_nb.cli import average, demo, train
from transformer_nb.core import InputError
from transformer_nb.train.runs import NotFinite


def files(folder):
    "Every file below a folder with its bytes."
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob('*')) if path.is_file()}


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    "A run of its own, with somebody's notes beside the checkpoints."
    out = tmp_path_factory.mktemp('finished')/'run'
    new_trainer(out, save_every=1).fit(quiet=True)
    (out/'step-notes').mkdir()
    (out/'step-notes'/'notes.txt').write_text('mine')
    return out


def test_demo_refuses_a_directory_that_is_there(tmp_path):
    thesis = tmp_path/'thesis'
    thesis.mkdir()
    (thesis/'thesis.tex').write_text('years of work')
    with pytest.raises(InputError, match='is there already; choose another --out'): demo(out=thesis, minutes=.01)
    status, _, err = tnb('tnb-demo', '--out', thesis)
    assert status == 2 and len(err.splitlines()) == 1 and 'choose another --out' in err
    assert files(thesis) == {Path('thesis.tex'): b'years of work'}


@pytest.mark.parametrize('begin', [lambda out: new_trainer(out).fit(quiet=True), lambda out: new_trainer(out).save(),
    lambda out: train(corpus_size=2000, steps=1, device='cpu', out=out)], ids=['fit', 'save', 'train'])
def test_another_runs_directory_is_refused(begin, finished):
    before = files(finished)
    with pytest.raises(InputError, match='already holds a run; resume it'): begin(finished)
    assert files(finished) == before


def test_a_run_killed_before_its_first_checkpoint_keeps_its_metrics(tmp_path):
    for line, message in (('{"step": 1, "loss": 9.2, "tokens_per_s": 810}\n',
                           'metrics.jsonl: of a run that ended before its first checkpoint; remove it'),
                          ('{"step": 1}\n', 'metrics.jsonl: of another program; choose another directory')):
        (tmp_path/'metrics.jsonl').write_text(line)
        with pytest.raises(InputError, match=message): new_trainer(tmp_path).fit(quiet=True)
        assert (tmp_path/'metrics.jsonl').read_text() == line


def test_resuming_removes_own_old_checkpoints_and_nothing_else(finished, tmp_path):
    out = tmp_path/'run'
    shutil.copytree(finished, out)
    oldest = checkpoints.steps(out)[0]
    (oldest/'why-this-one.txt').write_text('mine too')
    again = new_trainer(out, save_every=1, steps=12)
    again.resume()
    again.fit(quiet=True)
    assert (out/'step-notes'/'notes.txt').read_text() == 'mine'
    assert (oldest/'why-this-one.txt').read_text() == 'mine too' and not (oldest/'model.safetensors').exists()
    assert len([path for path in checkpoints.steps(out) if (path/'model.safetensors').exists()]) == 5
    assert checkpoints.load(out/'averaged').training['step'] == 12
    again.fit(quiet=True)  # the same trainer may go on in its own directory


def test_a_directory_called_step_something_is_no_checkpoint(finished, tmp_path):
    out = tmp_path/'run'
    shutil.copytree(finished, out)
    assert out/'step-notes' not in checkpoints.steps(out)
    checkpoints.prune(out, 1)
    assert len(checkpoints.steps(out)) == 1 and (out/'step-notes'/'notes.txt').read_text() == 'mine'


def test_average_does_not_write_over_a_checkpoint(finished, tmp_path):
    before = files(finished)
    with pytest.raises(InputError, match='is there already; choose another'):
        average(str(finished), str(finished / 'averaged'))
    assert files(finished) == before
    average(str(finished), str(tmp_path/'mean'), last=2)
    weights = [checkpoints.load(path).model.embedding.weight for path in checkpoints.steps(finished)[-2:]]
    assert not torch.equal(*weights)
    torch.testing.assert_close(checkpoints.load(tmp_path/'mean').model.embedding.weight, sum(weights)/2)


def test_a_file_of_ones_own_in_the_average_is_told_before_the_run(finished, tmp_path):
    "Not at its end, when the average is to be written."
    out = tmp_path/'run'
    shutil.copytree(finished, out)
    (out/'averaged'/'test.de').write_text('mine')
    again = new_trainer(out, save_every=1, steps=12)
    again.resume()
    before = files(out)
    with pytest.raises(InputError, match='test.de lies in it'): again.fit(quiet=True)
    assert files(out) == before


def test_a_run_that_ended_before_its_first_checkpoint_names_a_remedy_that_works(tmp_path):
    trainer = new_trainer(tmp_path/'run', steps=50)
    trainer.model.encoder[0].feed_forward.W_1.weight.data[0, 0] = float('nan')
    with pytest.raises(NotFinite, match='begin again in a new directory, or remove .*metrics.jsonl'):
        trainer.fit(quiet=True)
    (tmp_path/'run'/'metrics.jsonl').unlink()
    new_trainer(tmp_path/'run').fit(quiet=True)
