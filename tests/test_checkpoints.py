"Checkpoints: whole or not at all, every fault one line, nothing unpickled."
import json
import os
import shutil

import pytest
import torch

from transformer_nb import checkpoints
from transformer_nb.core import InputError
from transformer_nb.optimizer import adam
from transformer_nb.tokenizer import train_tokenizer
from transformer_nb.transformer import Transformer, TransformerConfig


def make(seed=0, **changes):
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(**dict(vocab_size=61, N=1, d_model=16, d_ff=32, h=2, max_len=64) | changes)).eval()


def one_step(model, optimizer):
    ids = torch.randint(4, 61, (2, 5), generator=torch.Generator().manual_seed(1))
    for group in optimizer.param_groups: group['lr'] = 1e-3
    optimizer.zero_grad()
    model(ids, ids).logsumexp(-1).mean().backward()
    optimizer.step()


@pytest.fixture(scope='module')
def tokenizer(): return train_tokenizer(["a dog runs .", "ein Hund läuft ."])


@pytest.fixture
def ckpt(tmp_path, tokenizer):
    model = make()
    optimizer = adam(model)
    one_step(model, optimizer)
    checkpoints.save(tmp_path/'ckpt', model, tokenizer, {'step': 1, 'note': 'Größe'}, optimizer)
    return tmp_path/'ckpt'


def files(folder): return {f.name: f.read_bytes() for f in folder.iterdir()}


def refusal(path):
    with pytest.raises(InputError) as e: checkpoints.load(path)
    assert '\n' not in str(e.value) and str(path) in str(e.value)
    return str(e.value)


def test_round_trip_is_bit_equal(tmp_path, tokenizer):
    model = make(positions='learned', norm='pre', bias=True, d_k=4, d_v=6)
    checkpoints.save(tmp_path/'a'/'b'/'ckpt', model, tokenizer, {'step': 7})
    back = checkpoints.load(tmp_path/'a'/'b'/'ckpt')
    assert back.model.cfg == model.cfg and not back.model.training
    assert back.tokenizer.model == tokenizer.model and back.training == {'step': 7}
    assert back.model.state_dict().keys() == model.state_dict().keys()
    for k, v in model.state_dict().items(): assert torch.equal(v, back.model.state_dict()[k]), k
    src = torch.tensor([[5, 6, 7, 2]])
    assert torch.equal(model(src, src), back.model(src, src))


def test_without_tokenizer_and_training(tmp_path):
    checkpoints.save(tmp_path/'c', make())
    back = checkpoints.load(tmp_path/'c')
    assert back.tokenizer is None and back.training == {}
    assert sorted(files(tmp_path/'c')) == ['config.json', 'model.safetensors']


def test_files_have_ordinary_permissions(ckpt):
    assert {f.stat().st_mode for f in ckpt.iterdir()} == {(ckpt/'config.json').stat().st_mode}


# --- faults -----------------------------------------------------------------------------------------------------------

def test_missing_folder(tmp_path): assert 'no such checkpoint directory' in refusal(tmp_path/'none')
def test_empty_folder(tmp_path): assert 'no config.json' in refusal(tmp_path)


@pytest.mark.parametrize('name', ['config.json', 'model.safetensors'])
def test_missing_file(ckpt, name):
    (ckpt/name).unlink()
    assert name in refusal(ckpt)


@pytest.mark.parametrize('name', ['config.json', 'model.safetensors', 'tokenizer.model', 'training.json'])
@pytest.mark.parametrize('share', [0, .3, .9])
def test_cut_off_file(ckpt, name, share):
    os.truncate(ckpt/name, int(share*(ckpt/name).stat().st_size))
    assert name in refusal(ckpt)


@pytest.mark.parametrize('name', ['config.json', 'model.safetensors', 'training.json'])
def test_noise_instead_of_content(ckpt, name):
    (ckpt/name).write_bytes(bytes(range(256))*20)
    assert name in refusal(ckpt)


@pytest.mark.parametrize('text', ['[1, 2]', '3', 'null', '"x"', '{"format": 1', '{}', '{"format": 2}'])
def test_json_that_is_no_config(ckpt, text):
    (ckpt/'config.json').write_text(text)
    assert 'config.json' in refusal(ckpt)


@pytest.mark.parametrize('change', [dict(d_model=32), dict(N=2), dict(N=-1), dict(vocab_size=60), dict(h=3), dict(h=0), dict(N='six'),
                                    dict(vocab_size=10**15), dict(norm='both'), dict(colour='blue'), dict(positions='learned')])
def test_config_of_another_shape(ckpt, change):
    cfg = json.loads((ckpt/'config.json').read_text()) | change
    (ckpt/'config.json').write_text(json.dumps(cfg))
    assert len(refusal(ckpt)) < 700


def test_directory_in_place_of_a_file(ckpt):
    (ckpt/'model.safetensors').unlink()
    (ckpt/'model.safetensors').mkdir()
    assert 'model.safetensors' in refusal(ckpt)


class Trap:
    def __reduce__(self): return os.mkdir, (os.environ['TRAP'],)


@pytest.mark.parametrize('zipped', [True, False])
def test_a_pickle_is_refused_and_not_run(ckpt, tmp_path, monkeypatch, zipped):
    monkeypatch.setenv('TRAP', str(tmp_path/'sprung'))
    for name in ('model.safetensors', 'optimizer.safetensors'):
        torch.save({'weights': Trap()}, ckpt/name, _use_new_zipfile_serialization=zipped)
    assert 'model.safetensors' in refusal(ckpt)
    with pytest.raises(InputError): checkpoints.load_optimizer(ckpt, adam(make()))
    assert not (tmp_path/'sprung').exists()


# --- writing ----------------------------------------------------------------------------------------------------------

class Breaks:
    "A tokenizer whose writing fails half-way."
    def __init__(self, error): self.error = error
    def save(self, path):
        path.write_bytes(b'half')
        raise self.error


@pytest.mark.parametrize('error, seen', [(OSError('no space left on device'), InputError), (RuntimeError('bug'), RuntimeError),
                                         (KeyboardInterrupt(), KeyboardInterrupt)])
def test_a_failure_in_the_middle_leaves_the_old_one_and_nothing_else(ckpt, tmp_path, error, seen):
    before = files(ckpt)
    with pytest.raises(seen): checkpoints.save(ckpt, make(1), Breaks(error))
    assert files(ckpt) == before
    assert [f.name for f in tmp_path.iterdir()] == ['ckpt']
    with pytest.raises(seen): checkpoints.save(tmp_path/'new', make(1), Breaks(error))
    assert [f.name for f in tmp_path.iterdir()] == ['ckpt']


def test_unwritable_training_leaves_nothing(tmp_path):
    with pytest.raises(TypeError): checkpoints.save(tmp_path/'c', make(), training={'no JSON': object()})
    assert not list(tmp_path.iterdir())


def test_a_failed_rename_brings_the_old_one_back(ckpt, tmp_path, monkeypatch):
    before, rename = files(ckpt), os.replace

    def fails_for_the_new(a, b):
        if str(a).endswith('.tmp'): raise OSError('rename failed')
        rename(a, b)
    monkeypatch.setattr(checkpoints.os, 'replace', fails_for_the_new)
    with pytest.raises(InputError, match='rename failed'): checkpoints.save(ckpt, make(1))
    assert files(ckpt) == before and [f.name for f in tmp_path.iterdir()] == ['ckpt']


def test_remains_of_a_crash_are_no_obstacle(ckpt, tmp_path):
    for name in ('.ckpt.tmp', '.ckpt.old'):
        (tmp_path/name).mkdir()
        (tmp_path/name/'rest').write_text('x')
    checkpoints.save(ckpt, make(1))
    assert sorted(files(ckpt)) == ['config.json', 'model.safetensors']  # nothing of the old one stays
    assert [f.name for f in tmp_path.iterdir()] == ['ckpt']


def test_what_is_no_checkpoint_is_never_replaced(tmp_path):
    (tmp_path/'thesis.txt').write_text('years of work')
    (tmp_path/'file').write_text('x')
    for path in (tmp_path, tmp_path/'file', tmp_path/'thesis.txt'):
        with pytest.raises(InputError, match='no checkpoint'): checkpoints.save(path, make())
    with pytest.raises(InputError, match='cannot be written'): checkpoints.save(tmp_path/'file'/'below', make())
    (tmp_path/'empty').mkdir()
    checkpoints.save(tmp_path/'empty', make())
    assert sorted(f.name for f in tmp_path.iterdir()) == ['empty', 'file', 'thesis.txt']


def test_through_a_link(ckpt, tmp_path):
    (tmp_path/'link').symlink_to(ckpt)
    checkpoints.save(tmp_path/'link', make(3))
    assert (tmp_path/'link').is_symlink() and sorted(files(ckpt)) == ['config.json', 'model.safetensors']


# --- runs, optimizer, average -----------------------------------------------------------------------------------------

def test_find_and_steps(tmp_path):
    run = tmp_path/'run'
    for step in (9_999_999, 10_000_000, 20): checkpoints.save(run/f'step-{step:07}', make())
    assert [int(p.name[5:]) for p in checkpoints.steps(run)] == [20, 9_999_999, 10_000_000]
    assert checkpoints.find(run).name == 'step-10000000'
    (run/'step-99999999').mkdir()  # a crash left an empty directory
    assert checkpoints.find(run).name == 'step-10000000'
    checkpoints.save(run/'averaged', make())
    assert checkpoints.find(run).name == 'averaged'
    assert checkpoints.steps(tmp_path/'none') == []


def test_optimizer_goes_on_bit_for_bit(ckpt):
    model = checkpoints.load(ckpt).model
    optimizer = adam(model)
    checkpoints.load_optimizer(ckpt, optimizer)
    whole = make()
    straight = adam(whole)
    one_step(whole, straight)
    for i, s in straight.state_dict()['state'].items():
        for k, v in s.items(): assert torch.equal(v, optimizer.state_dict()['state'][i][k])
    for m, o in ((whole, straight), (model, optimizer)):
        for _ in range(3): one_step(m, o)
    for a, b in zip(whole.parameters(), model.parameters()): assert torch.equal(a, b)


def test_optimizer_of_another_model_is_refused(ckpt):
    for other in (make(d_model=32), make(N=0)):
        with pytest.raises(InputError, match='another model'): checkpoints.load_optimizer(ckpt, adam(other))
    (ckpt/'optimizer.safetensors').unlink()
    with pytest.raises(InputError, match='missing'): checkpoints.load_optimizer(ckpt, adam(make()))


def test_average_is_the_mean(tmp_path, tokenizer):
    models = [make(seed) for seed in range(3)]
    for i, m in enumerate(models): checkpoints.save(tmp_path/f'step-{i:07}', m, tokenizer, {'step': i})
    mean = checkpoints.average(checkpoints.steps(tmp_path), tmp_path/'averaged')
    for k, v in mean.model.state_dict().items():
        manual = torch.stack([m.state_dict()[k].double() for m in models]).mean(0).float()
        assert torch.equal(v, manual), k
    assert mean.training == {'step': 2, 'averaged': ['step-0000000', 'step-0000001', 'step-0000002']}
    assert mean.tokenizer.model == tokenizer.model and mean.path == tmp_path/'averaged'
    again = checkpoints.average([tmp_path/'averaged']*3, tmp_path/'averaged')  # in place, of equal models
    for k, v in mean.model.state_dict().items(): assert torch.equal(v, again.model.state_dict()[k])


def test_average_of_different_models_is_refused(tmp_path, tokenizer):
    checkpoints.save(tmp_path/'a', make(), tokenizer)
    checkpoints.save(tmp_path/'b', make(d_ff=64), tokenizer)
    checkpoints.save(tmp_path/'c', make(), train_tokenizer(["other words", "stand here"]))
    checkpoints.save(tmp_path/'d', make(h=4), tokenizer)  # equal shapes, other heads
    for other in 'bcd':
        with pytest.raises(InputError, match='not of the same model'): checkpoints.average([tmp_path/other, tmp_path/'a'], tmp_path/'out')
    with pytest.raises(InputError, match='nothing to average'): checkpoints.average([], tmp_path/'out')
    with pytest.raises(InputError): checkpoints.average([tmp_path/'a', tmp_path/'none'], tmp_path/'out')
    assert not (tmp_path/'out').exists()
    shutil.rmtree(tmp_path/'d')
