"Checkpoints: whole or not at all, every fault one line, nothing unpickled."
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
import torch
from conftest import TORCH, script, two_processes

from transformer_nb import checkpoints, files as files_module
from transformer_nb.core import DiskError, InputError, MemoryFull
from transformer_nb.data.tokenizer import TokenizerLike, train_tokenizer
from transformer_nb.interop.marian import read_model
from transformer_nb.optimizer import adam
from transformer_nb.transformer import Transformer, TransformerConfig


def make(seed=0, **changes):
    torch.manual_seed(seed)
    return Transformer(
        TransformerConfig(**dict(vocab_size=61, N=1, d_model=16, d_ff=32, h=2, max_len=64) | changes)
    ).eval()


def one_step(model, optimizer):
    ids = torch.randint(4, 61, (2, 5), generator=torch.Generator().manual_seed(1))
    for group in optimizer.param_groups: group['lr'] = 1e-3
    optimizer.zero_grad()
    model(ids, ids).logsumexp(-1).mean().backward()
    optimizer.step()


def test_a_snapshot_that_is_a_copy_stays_as_it_was():
    "Training goes on while it is written, and changes weights and moments in place."
    model = make()
    optimizer = adam(model)
    one_step(model, optimizer)
    files = checkpoints.snapshot(model, optimizer=optimizer, copy=True)
    held = {name: tensors for name, tensors in files.items() if name.endswith('.safetensors')}
    before = {name: {key: value.clone() for key, value in tensors.items()} for name, tensors in held.items()}
    one_step(model, optimizer)
    assert len(before) == 2 and not torch.equal(model.state_dict()['embedding.weight'],
                                                before['model.safetensors']['embedding.weight'])
    for name, tensors in held.items():
        for key, value in tensors.items(): assert torch.equal(value, before[name][key]), (name, key)


@pytest.fixture(scope='module')
def tokenizer(): return train_tokenizer(["a dog runs .", "ein Hund läuft ."])


@pytest.fixture
def ckpt(tmp_path, tokenizer):
    model = make()
    optimizer = adam(model)
    one_step(model, optimizer)
    checkpoints.save(tmp_path/'ckpt', model, tokenizer, {'step': 1, 'note': 'Größe'}, optimizer)
    return tmp_path/'ckpt'


ALL = ['config.json', 'manifest.json', 'model.safetensors', 'optimizer.safetensors', 'tokenizer.model', 'training.json']


def flip(file, share=.5):
    "Turn one bit over."
    data = bytearray(file.read_bytes())
    data[int(share*(len(data) - 1))] ^= 1
    file.write_bytes(data)


def sign(folder): files_module.write_manifest(folder, 2)  # one that fits what lies there, as an attacker would do


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
    assert sorted(files(tmp_path/'c')) == ['config.json', 'manifest.json', 'model.safetensors']


def test_a_compiled_model_is_saved_as_the_one_inside(tmp_path):
    checkpoints.save(tmp_path/'compiled', torch.compile(model := make()))
    for k, v in checkpoints.load(tmp_path/'compiled').model.state_dict().items():
        assert torch.equal(v, model.state_dict()[k]), k


def test_a_path_that_is_no_utf8_is_kept(tmp_path):
    "As Linux gives it: bytes that are no text stand for themselves."
    corpus = os.fsdecode(b'/data/caf\xe9')
    checkpoints.save(tmp_path/'ckpt', make(), training={'data': corpus})
    assert checkpoints.load(tmp_path/'ckpt').training == {'data': corpus}
    assert r'caf\udce9' in (tmp_path/'ckpt'/'training.json').read_text(encoding='utf-8')


def test_manifest_names_every_file(ckpt):
    manifest = json.loads((ckpt/'manifest.json').read_text())
    assert manifest == {'format': 2, 'files': {name: {'bytes': len(data), 'sha256': hashlib.sha256(data).hexdigest()}
                                               for name, data in files(ckpt).items() if name != 'manifest.json'}}
    assert sorted(files(ckpt)) == ALL


def test_everything_is_synced_before_and_after_the_rename(tmp_path, tokenizer, monkeypatch):
    log, fsync, replace = [], os.fsync, os.replace

    def watched(f):
        log.append(os.path.basename(os.readlink(f'/proc/self/fd/{f}')))
        fsync(f)
    monkeypatch.setattr(os, 'fsync', watched)
    monkeypatch.setattr(os, 'replace', lambda a, b: (log.append('rename'), replace(a, b)))
    model = make()
    checkpoints.save(tmp_path/'c', model, tokenizer, {'step': 1}, adam(model))
    vocabulary, renamed, *first, last, folder, rename, parent = log            # the vocabulary writes itself whole, too
    assert vocabulary == f'.tokenizer.model.{os.getpid()}.tmp' and renamed == 'rename'
    assert sorted([*first, last]) == ALL and last == 'manifest.json'
    assert (folder, rename, parent) == ('.c.tmp', 'rename', tmp_path.name)


def test_files_have_ordinary_permissions(ckpt):
    assert {f.stat().st_mode for f in ckpt.iterdir()} == {(ckpt/'config.json').stat().st_mode}


# --- faults -----------------------------------------------------------------------------------------------------------

def test_missing_folder(tmp_path): assert 'no such checkpoint directory' in refusal(tmp_path/'none')
def test_empty_folder(tmp_path): assert 'no config.json' in refusal(tmp_path)


def test_a_folder_of_another_program(tmp_path):
    "As CTranslate2, ONNX Runtime and Hugging Face's library have it: to copy it again would not help."
    (tmp_path/'config.json').write_text('{"bos_token": "<s>"}')
    assert 'a model for another program; give the checkpoint' in refusal(tmp_path)


FAULTS = {'gone': lambda f: f.unlink(),
          'empty': lambda f: os.truncate(f, 0),
          'cut': lambda f: os.truncate(f, int(.3*f.stat().st_size)),
          # the manifest's last byte is a line end
          'last byte missing': lambda f: os.truncate(f, f.stat().st_size - (2 if f.name == 'manifest.json' else 1)),
          'flip first': lambda f: flip(f, 0),
          'flip': flip,
          'flip last': lambda f: flip(f, 1),
          'noise': lambda f: f.write_bytes(bytes(range(256))*20),
          'longer': lambda f: f.write_bytes(f.read_bytes() + b'x'),
          'folder': lambda f: (f.unlink(), f.mkdir())}


@pytest.mark.parametrize('name', ALL)
@pytest.mark.parametrize('fault', FAULTS)
def test_a_damaged_file_is_refused_and_passed_over(ckpt, tmp_path, name, fault):
    run = tmp_path/'run'
    for step in (100, 200): shutil.copytree(ckpt, run/f'step-{step:07}')
    FAULTS[fault](run/'step-0000200'/name)
    for read in (checkpoints.verify, checkpoints.load):
        with pytest.raises(InputError) as e: read(run/'step-0000200')
        assert name in str(e.value) and str(run/'step-0000200') in str(e.value) and '\n' not in str(e.value)
        if fault in ('empty', 'cut', 'last byte missing'): assert 'cut off' in str(e.value)
    for call, path in (
        (checkpoints.newest, lambda p: p),
        (checkpoints.find, lambda p: p),
        (checkpoints.load, lambda c: c.path),
    ):
        with pytest.warns(UserWarning) as seen: found = call(run)
        assert path(found) == run/'step-0000100'
        assert len(seen) == 1 and 'step-0000200' in str(seen[0].message) and name in str(seen[0].message)
    if name == 'optimizer.safetensors':
        with pytest.raises(InputError, match=name): checkpoints.load_optimizer(run/'step-0000200', adam(make()))
    checkpoints.save(run/'step-0000200', make())  # a resumed run gets there again, and what is damaged is replaced
    checkpoints.verify(run/'step-0000200')


def test_a_whole_run_gives_no_warning(ckpt, tmp_path):
    shutil.copytree(ckpt, tmp_path/'run'/'step-0000001')
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert checkpoints.newest(tmp_path/'run') == checkpoints.find(tmp_path/'run') == tmp_path/'run'/'step-0000001'
        checkpoints.verify(ckpt)
        checkpoints.load(tmp_path/'run')


@pytest.mark.filterwarnings('ignore:a broken checkpoint')
def test_no_valid_checkpoint_is_left(ckpt, tmp_path):
    for step in (100, 200):
        shutil.copytree(ckpt, tmp_path/'run'/f'step-{step:07}')
        flip(tmp_path/'run'/f'step-{step:07}'/'model.safetensors')
    for call in (checkpoints.newest, checkpoints.find, checkpoints.load):
        with pytest.raises(InputError, match='no valid checkpoint.*step-0000200/model.safetensors'):
            call(tmp_path / 'run')
    with pytest.raises(InputError, match='no such checkpoint directory'): checkpoints.newest(tmp_path/'none')


def test_each_file_is_read_once(ckpt, tmp_path, monkeypatch):
    shutil.copytree(ckpt, tmp_path/'run'/'step-0000001')
    opened = []
    monkeypatch.setattr(
        files_module, 'open', lambda file, mode: (opened.append(file.name), open(file, mode))[1], raising=False
    )
    for call in (checkpoints.verify, checkpoints.load): call(ckpt)
    checkpoints.load(tmp_path/'run')
    assert sorted(opened) == sorted(3*[name for name in ALL if name != 'manifest.json'])
    opened.clear()
    checkpoints.load_optimizer(ckpt, adam(make()))
    assert opened == ['optimizer.safetensors']


def test_a_file_that_another_takes_the_name_of_is_not_read(ckpt, tmp_path):
    "What would be read is not what was checked."
    other = tmp_path/'other'
    shutil.copy(ckpt/'model.safetensors', other)
    with open(ckpt/'model.safetensors', 'rb') as f:
        assert checkpoints.read_tensors(f).keys() == make().state_dict().keys()
        other.replace(f.name)
        with pytest.raises(InputError, match='another process replaced it'): checkpoints.read_tensors(f)
        os.unlink(f.name)  # the moment between the two renames: it cannot be opened again
        with pytest.raises(InputError, match='another process replaced it'): checkpoints.read_tensors(f)


def test_a_folder_that_is_replaced_between_manifest_and_files_is_not_called_broken(ckpt, monkeypatch):
    check_file = checkpoints.check_file
    def replaced_before(*given):
        monkeypatch.undo()
        checkpoints.save(ckpt, make(1))
        return check_file(*given)
    monkeypatch.setattr(checkpoints, 'check_file', replaced_before)
    with pytest.raises(InputError, match='ckpt: another process replaced it while it was read; read it again'):
        checkpoints.load(ckpt)
    assert checkpoints.load(ckpt).tokenizer is None  # which the one before had


def test_the_optimizers_state_comes_in_one_order(ckpt, monkeypatch):
    """safetensors gives the tensors of a file in an order that differs from process to process; processes that share
    the weights out gather what they hold one after the other, each its own first."""
    read = checkpoints.read_tensors
    def order(direction):
        monkeypatch.setattr(checkpoints, 'read_tensors', lambda file: dict(sorted(read(file).items())[::direction]))
        optimizer = adam(make())
        checkpoints.load_optimizer(ckpt, optimizer)
        return [(i, *state) for i, state in optimizer.state_dict()['state'].items()]
    assert order(1) == order(-1) and len(order(1)[0]) > 2


@pytest.mark.parametrize('text', ['[1, 2]', '3', 'null', '"x"', '{"d_model": 1', '{}', '['*100_000])
def test_json_that_is_no_config(ckpt, text):
    (ckpt/'config.json').write_text(text)
    assert 'config.json' in refusal(ckpt)
    sign(ckpt)
    if text != '{}': assert 'config.json' in refusal(ckpt)
    else: assert 'does not fit config.json' in refusal(ckpt)


def manifest_of(files): return json.dumps({'format': 2, 'files': files})


ENTRY = {'bytes': 1, 'sha256': 'x'}


@pytest.mark.parametrize(
    'text',
    [
        '[]',
        '{',
        '{"format": 2}',
        *map(
            manifest_of,
            [
                3,
                {},
                [],
                {'config.json': ENTRY},
                {'config.json': ENTRY, 'model.safetensors': 3},
                {'config.json': ENTRY, 'model.safetensors': {'bytes': 'x', 'sha256': 'x'}},
                {'config.json': ENTRY, 'model.safetensors': ENTRY, '../../etc/passwd': ENTRY},
            ],
        ),
    ],
)
def test_json_that_is_no_manifest(ckpt, text):
    (ckpt/'manifest.json').write_text(text)
    assert 'manifest.json: broken' in refusal(ckpt)


def test_other_formats_are_refused_with_the_remedy(ckpt, tmp_path, monkeypatch):
    old = tmp_path/'old'  # as format 1 was written
    shutil.copytree(ckpt, old)
    (old/'manifest.json').unlink()
    (old/'config.json').write_text(json.dumps({'format': 1} | json.loads((ckpt/'config.json').read_text())))
    monkeypatch.setattr(checkpoints, 'FORMAT', 3)
    checkpoints.save(tmp_path/'new', make())
    monkeypatch.undo()
    for path, its in ((old, 1), (tmp_path/'new', 3)):
        text = refusal(path)
        assert f'of format {its}, and this version reads format 2; train again, or use the version' in text
        with pytest.raises(InputError): checkpoints.load_optimizer(path, adam(make()))
    checkpoints.save(old, make())  # an old one may be replaced
    checkpoints.verify(old)


@pytest.mark.parametrize(
    'change',
    [
        dict(d_model=32),
        dict(N=2),
        dict(N=-1),
        dict(vocab_size=60),
        dict(h=3),
        dict(h=0),
        dict(N='six'),
        dict(vocab_size=10**15),
        dict(norm='both'),
        dict(colour='blue'),
        dict(positions='learned'),
    ],
)
def test_config_of_another_shape(ckpt, change):
    cfg = json.loads((ckpt/'config.json').read_text()) | change
    (ckpt/'config.json').write_text(json.dumps(cfg))
    sign(ckpt)
    assert len(refusal(ckpt)) < 700


def test_the_former_name_of_suppressed_tokens_is_read(ckpt):
    cfg = json.loads((ckpt/'config.json').read_text())
    del cfg['suppress_tokens']
    (ckpt/'config.json').write_text(json.dumps(cfg | {'banned': [5]}))
    sign(ckpt)
    assert checkpoints.load(ckpt).model.cfg.suppress_tokens == (5,)


def test_a_full_memory_is_no_broken_checkpoint(ckpt, monkeypatch):
    "Whether a configuration fits the weights is seen before there is memory for a model."
    def full(*_): raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
    monkeypatch.setattr(checkpoints, 'filled', full)
    with pytest.raises(MemoryFull, match='reading a model: the memory is full'): read_model(ckpt)
    with pytest.raises(RuntimeError, match="^DefaultCPUAllocator"): checkpoints.load(ckpt)
    cfg = json.loads((ckpt/'config.json').read_text()) | {'vocab_size': 10**15}
    (ckpt/'config.json').write_text(json.dumps(cfg))
    sign(ckpt)
    assert 'does not fit config.json beside it (6,352 numbers, not 16,000,' in refusal(ckpt)


def test_a_file_that_may_not_be_read_is_the_disks_fault(ckpt, monkeypatch):
    "In a run its checkpoint is passed over; where no other is left, this is said."
    for step in (1, 2): shutil.copytree(ckpt, ckpt.parent/'run'/f'step-{step}')
    denied = []
    def refuse(file, mode):
        if file in denied: raise PermissionError(13, 'Permission denied')
        return open(file, mode)
    monkeypatch.setattr(files_module, 'open', refuse, raising=False)
    first, second = (ckpt.parent/'run'/f'step-{step}' for step in (1, 2))
    denied.append(second/'model.safetensors')
    with pytest.raises(DiskError, match='step-2/model.safetensors: cannot be read .Permission denied'):
        checkpoints.load(second)
    with pytest.warns(UserWarning, match='passed over.*Permission denied'):
        assert checkpoints.newest(ckpt.parent/'run') == first
    denied.append(first/'config.json')
    with pytest.warns(UserWarning), pytest.raises(DiskError, match='holds no valid checkpoint.*Permission denied'):
        checkpoints.load(ckpt.parent/'run')


@pytest.mark.parametrize('name', ['model.safetensors', 'tokenizer.model', 'training.json'])
def test_noise_with_a_fitting_manifest(ckpt, name):
    (ckpt/name).write_bytes(bytes(range(256))*20)
    sign(ckpt)
    assert name in refusal(ckpt)


class Trap:
    def __reduce__(self): return os.mkdir, (os.environ['TRAP'],)


@pytest.mark.parametrize('zipped', [True, False])
@pytest.mark.parametrize('signed', [True, False])
def test_a_pickle_is_refused_and_not_run(ckpt, tmp_path, monkeypatch, zipped, signed):
    monkeypatch.setenv('TRAP', str(tmp_path/'sprung'))
    for name in ('model.safetensors', 'optimizer.safetensors'):
        torch.save({'weights': Trap()}, ckpt/name, _use_new_zipfile_serialization=zipped)
    if signed: sign(ckpt)
    assert 'model.safetensors' in refusal(ckpt)
    with pytest.raises(InputError): checkpoints.load_optimizer(ckpt, adam(make()))
    assert not (tmp_path/'sprung').exists()


# --- writing ----------------------------------------------------------------------------------------------------------

class Breaks(TokenizerLike):
    "A tokenizer whose writing fails half-way."
    vocab_size, pad_id, bos_id, eos_id, unk_id, model = 61, 0, 1, 2, 3, b'half'
    def __init__(self, error): self.error = error
    def save(self, path):
        path.write_bytes(b'half')
        raise self.error


@pytest.mark.parametrize(
    'error, seen',
    [
        (OSError('no space left on device'), DiskError),
        (RuntimeError('bug'), RuntimeError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_failure_in_the_middle_leaves_the_old_one_and_nothing_else(ckpt, tmp_path, error, seen):
    before = files(ckpt)
    with pytest.raises(seen): checkpoints.save(ckpt, make(1), Breaks(error))
    assert files(ckpt) == before
    assert [f.name for f in tmp_path.iterdir()] == ['ckpt']
    with pytest.raises(seen): checkpoints.save(tmp_path/'new', make(1), Breaks(error))
    assert [f.name for f in tmp_path.iterdir()] == ['ckpt']


def save_all(folder):
    "Save over `ckpt` and to a new place in `folder`; gives back what goes wrong."
    model, lines = make(1), []
    for name in ('ckpt', 'new'):
        try: checkpoints.save(folder/name, model, training={'step': 2}, optimizer=adam(model))
        except DiskError as e: lines.append(str(e))
    return lines


def child(code, folder):
    "Run code beside this file in a process of its own: exit code and output."
    with TemporaryDirectory() as place:
        file = Path(place)/'code.py'
        file.write_text(f'import sys\nsys.path.append({os.path.dirname(__file__)!r})\n{code}')
        return script(file, cwd=folder)


@pytest.mark.skipif(sys.platform == 'win32', reason='no limits on files')
def test_files_may_not_grow(ckpt, tmp_path):
    before = files(ckpt)
    status, log = child("""
import resource
from pathlib import Path
from test_checkpoints import save_all
before, lines = resource.getrlimit(resource.RLIMIT_FSIZE), []
for limit in (20_000, 100):  # it fails at the weights; at config.json
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    lines += save_all(Path('.').resolve())
resource.setrlimit(resource.RLIMIT_FSIZE, before)  # what is printed goes into a file, too
print(*lines, sep='\\n')
""", tmp_path)
    assert status == 0, log
    lines = log.splitlines()
    assert [line.split(':')[0] for line in lines] == [str(tmp_path/'ckpt'), str(tmp_path/'new')]*2
    for line in lines: assert 'File too large' in line and 'make room' in line
    assert files(ckpt) == before and [f.name for f in tmp_path.iterdir()] == ['ckpt']


@pytest.fixture
def small_disk(tmp_path):
    "A disk of 1 MiB, where the machine lets us have one."
    disk = tmp_path/'disk'
    disk.mkdir()
    mounted = (
        shutil.which('mount')
        and subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', disk], capture_output=True).returncode
        == 0
    )
    if not mounted: pytest.skip('mounting a small disk is not permitted')
    yield disk
    subprocess.run(['umount', disk], check=True)


@pytest.mark.parametrize('free', [0, 8192, 32_768])  # bytes; the weights have 28,344
def test_a_disk_that_is_full(ckpt, small_disk, free):
    shutil.copytree(ckpt, small_disk/'ckpt')
    stat = os.statvfs(small_disk)
    (small_disk/'filler').write_bytes(bytes(stat.f_bavail*stat.f_frsize - free))
    before = files(small_disk/'ckpt')
    lines = save_all(small_disk)
    assert [line.split(':')[0] for line in lines] == [str(small_disk/'ckpt'), str(small_disk/'new')]
    for line in lines: assert 'No space left on device' in line and 'make room' in line
    assert files(small_disk/'ckpt') == before and sorted(f.name for f in small_disk.iterdir()) == ['ckpt', 'filler']
    (small_disk/'filler').unlink()
    assert save_all(small_disk) == []  # and there is room again
    for name in ('ckpt', 'new'): checkpoints.verify(small_disk/name)


@pytest.mark.parametrize('number', [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
@pytest.mark.parametrize('place', ['ckpt', 'manifest', 'weights'])
def test_every_way_to_be_full(ckpt, tmp_path, monkeypatch, number, place):
    def full(*args): raise OSError(number, os.strerror(number))
    # network disks and quotas say it as late as this
    if place == 'ckpt': monkeypatch.setattr(os, 'fsync', full)
    elif place == 'manifest': monkeypatch.setattr(checkpoints, 'write_manifest', full)
    else: monkeypatch.setattr(checkpoints, 'save_file', full)
    before = files(ckpt)
    with pytest.raises(DiskError) as e: checkpoints.save(ckpt, make(1))
    assert str(ckpt) in str(e.value) and os.strerror(number) in str(e.value) and 'make room' in str(e.value)
    assert files(ckpt) == before and [f.name for f in tmp_path.iterdir()] == ['ckpt']


def test_a_resumed_run_hashes_each_file_once(tmp_path, monkeypatch):
    "To choose the newest, process 0 has read all of it."
    from test_first_minutes import new_trainer
    new_trainer(tmp_path/'run').fit(quiet=True)
    again, newest, hashed = new_trainer(tmp_path/'run'), checkpoints.newest(tmp_path/'run'), []
    sha256, file_digest = hashlib.sha256, hashlib.file_digest
    monkeypatch.setattr(hashlib, 'sha256', lambda data: hashed.append(len(data)) or sha256(data))
    monkeypatch.setattr(hashlib, 'file_digest',
        lambda file, kind: hashed.append(os.fstat(file.fileno()).st_size) or file_digest(file, kind))
    again.resume()
    assert sorted(hashed) == sorted(file.stat().st_size for file in newest.iterdir() if file.name != 'manifest.json')
    found = checkpoints.load(newest)
    (newest/'optimizer.safetensors').write_bytes(bytes((newest/'optimizer.safetensors').stat().st_size))
    with pytest.raises(InputError, match='altered'): again.resume(found)  # read at another time, and so looked at again


def test_unwritable_training_leaves_nothing(tmp_path):
    with pytest.raises(TypeError): checkpoints.save(tmp_path/'c', make(), training={'no JSON': object()})
    assert not list(tmp_path.iterdir())


def test_a_failed_rename_brings_the_old_one_back(ckpt, tmp_path, monkeypatch):
    before, rename = files(ckpt), os.replace

    def fails_for_the_new(a, b):
        if str(a).endswith('.tmp'): raise OSError('rename failed')
        rename(a, b)
    monkeypatch.setattr(os, 'replace', fails_for_the_new)
    with pytest.raises(DiskError, match='rename failed'): checkpoints.save(ckpt, make(1))
    assert files(ckpt) == before and [f.name for f in tmp_path.iterdir()] == ['ckpt']


@pytest.mark.parametrize('kind', [KeyboardInterrupt, SystemExit])
def test_an_interrupt_between_the_renames(ckpt, tmp_path, monkeypatch, kind):
    before, rename = files(ckpt), os.replace

    def interrupted(a, b):
        if str(a).endswith('.tmp'): raise kind
        rename(a, b)
    monkeypatch.setattr(os, 'replace', interrupted)
    with pytest.raises(kind): checkpoints.save(ckpt, make(1))
    assert files(ckpt) == before and [f.name for f in tmp_path.iterdir()] == ['ckpt']


def test_a_crash_between_the_renames(ckpt, tmp_path):
    before = files(ckpt)
    code = """
import os
from test_checkpoints import checkpoints, make
rename = os.replace
os.replace = lambda a, b: os._exit(7) if str(a).endswith('.tmp') else rename(a, b)   # as if the power went
checkpoints.save('ckpt', make(1))
"""
    assert child(code, tmp_path)[0] == 7
    assert not ckpt.exists() and sorted(f.name for f in tmp_path.iterdir()) == ['.ckpt.old', '.ckpt.tmp']
    assert files(tmp_path/'.ckpt.old') == before
    back = checkpoints.load(ckpt)  # the old one is found
    for k, v in make().state_dict().items(): assert back.model.state_dict()[k].shape == v.shape
    assert back.training['note'] == 'Größe' and checkpoints.find(ckpt) == tmp_path/'.ckpt.old'
    with pytest.raises(TypeError): checkpoints.save(ckpt, make(1), training={'no JSON': object()})
    assert files(checkpoints.find(ckpt)) == before  # a second failure does not lose it either
    checkpoints.save(ckpt, make(1))
    assert [f.name for f in tmp_path.iterdir()] == ['ckpt'] and checkpoints.load(ckpt).training == {}


def test_remains_of_a_crash_are_no_obstacle(ckpt, tmp_path):
    for name in ('.ckpt.tmp', '.ckpt.old'):
        (tmp_path/name).mkdir()
        (tmp_path/name/'rest').write_text('x')
    checkpoints.save(ckpt, make(1))
    assert sorted(files(ckpt)) == ['config.json', 'manifest.json', 'model.safetensors']  # nothing of the old one stays
    assert [f.name for f in tmp_path.iterdir()] == ['ckpt']


def test_what_is_no_checkpoint_is_never_replaced(tmp_path):
    (tmp_path/'thesis.txt').write_text('years of work')
    (tmp_path/'file').write_text('x')
    (tmp_path/'config.json').write_text('{}')  # a file, named like one of a checkpoint
    for path in (tmp_path, tmp_path/'file', tmp_path/'thesis.txt', tmp_path/'config.json'):
        with pytest.raises(InputError, match='no checkpoint'): checkpoints.save(path, make())
    with pytest.raises(DiskError, match='cannot be written'): checkpoints.save(tmp_path/'file'/'below', make())
    (tmp_path/'empty').mkdir()
    checkpoints.save(tmp_path/'empty', make())
    assert sorted(f.name for f in tmp_path.iterdir()) == ['config.json', 'empty', 'file', 'thesis.txt']


def test_a_checkpoint_with_notes_in_it_is_not_replaced(ckpt):
    (ckpt/'notes.txt').write_text('the best one')
    checkpoints.verify(ckpt)
    with pytest.raises(InputError, match='no checkpoint'): checkpoints.save(ckpt, make())
    assert (ckpt/'notes.txt').is_file()


def test_through_a_link(ckpt, tmp_path):
    (tmp_path/'link').symlink_to(ckpt)
    checkpoints.save(tmp_path/'link', make(3))
    assert (tmp_path / 'link').is_symlink() and sorted(files(ckpt)) == [
        'config.json',
        'manifest.json',
        'model.safetensors',
    ]


# --- runs, optimizer, average -----------------------------------------------------------------------------------------

def test_find_and_steps(tmp_path):
    run = tmp_path/'run'
    for step in (9_999_999, 10_000_000, 20): checkpoints.save(run/f'step-{step:07}', make())
    assert [int(p.name[5:]) for p in checkpoints.steps(run)] == [20, 9_999_999, 10_000_000]
    assert checkpoints.find(run).name == 'step-10000000'
    (run/'step-99999999').mkdir()  # a crash left an empty directory
    (run/'step-note.txt').write_text('x')
    (run/'step-²').mkdir()  # a digit to Unicode, and no number
    with pytest.warns(UserWarning, match='step-99999999'): assert checkpoints.find(run).name == 'step-10000000'
    (run/'step-99999999').rmdir()
    checkpoints.save(run/'averaged', make())
    assert checkpoints.find(run).name == 'averaged'
    assert checkpoints.newest(run).name == 'step-10000000'
    flip(run/'averaged'/'model.safetensors')
    with pytest.warns(UserWarning, match='averaged/model.safetensors'):
        assert checkpoints.find(run).name == 'step-10000000'
    assert checkpoints.steps(tmp_path/'none') == []


def names(run): return [int(p.name[5:]) for p in checkpoints.steps(run)]


def test_prune_keeps_the_last_whole_ones(tmp_path):
    for step in range(1, 7): checkpoints.save(tmp_path/f'step-{step:07}', make())
    checkpoints.save(tmp_path/'averaged', make())
    checkpoints.prune(tmp_path, 9)
    assert names(tmp_path) == [1, 2, 3, 4, 5, 6]
    checkpoints.prune(tmp_path, 5)
    assert names(tmp_path) == [2, 3, 4, 5, 6]
    os.truncate(tmp_path/'step-0000006'/'model.safetensors', 100)
    (tmp_path/'step-0000005'/'config.json').unlink()
    checkpoints.prune(tmp_path, 2)  # 5 and 6 are broken: 3 and 4 are the last two
    assert names(tmp_path) == [3, 4, 5, 6]
    checkpoints.prune(tmp_path, 3)  # not as many as that are whole
    assert names(tmp_path) == [3, 4, 5, 6]
    checkpoints.save(tmp_path/'step-0000007', make())
    checkpoints.prune(tmp_path, 1)
    assert names(tmp_path) == [7] and (tmp_path/'averaged').is_dir()
    with pytest.raises(ValueError): checkpoints.prune(tmp_path, 0)
    assert names(tmp_path) == [7]


def test_check_fits(ckpt, tokenizer):
    found = checkpoints.load(ckpt)
    cfg = found.model.cfg
    checkpoints.check_fits(found, cfg, tokenizer)
    for change in (
        dict(d_ff=64),
        dict(N=2),
        dict(dropout=0.3),
        dict(norm='pre'),
        dict(h=4, d_k=8, d_v=8),
        dict(positions='learned'),
        dict(vocab_size=62),
    ):
        name, ours = list(change.items())[0]
        with pytest.raises(InputError) as e: checkpoints.check_fits(found, make(**change).cfg, tokenizer)
        assert f'{name} is {getattr(cfg, name)!r}, not {ours!r}' in str(e.value) and str(ckpt) in str(e.value)
        assert 'another in a new directory' in str(e.value)
    changed = train_tokenizer(["a dog runs .", "ein Hund lief ."])
    names = [t.pieces(list(range(min(tokenizer.vocab_size, changed.vocab_size)))) for t in (tokenizer, changed)]
    i, theirs, ours = next((i, a, b) for i, (a, b) in enumerate(zip(*names)) if a != b)
    with pytest.raises(InputError) as e: checkpoints.check_fits(found, cfg, changed)
    assert f'another vocabulary (piece {i} is {theirs!r}, not {ours!r})' in str(e.value)
    with pytest.raises(InputError, match='another vocabulary'): checkpoints.check_fits(found, cfg, None)
    found.tokenizer = None
    with pytest.raises(InputError, match='another vocabulary'): checkpoints.check_fits(found, cfg, tokenizer)
    checkpoints.check_fits(found, cfg, None)


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
    for other in (make(d_model=32), make(vocab_size=62)):
        with pytest.raises(InputError, match='another model'): checkpoints.load_optimizer(ckpt, adam(other))
    (ckpt/'optimizer.safetensors').unlink()
    with pytest.raises(InputError, match='missing'): checkpoints.load_optimizer(ckpt, adam(make()))
    sign(ckpt)  # as an average: without one from the start
    with pytest.raises(InputError, match='missing'): checkpoints.load_optimizer(ckpt, adam(make()))


class Sharded:
    "A tensor in pieces, as far as gathering goes."
    def __init__(self, whole, log): self.whole, self.log = whole, log
    def full_tensor(self):
        self.log.append(self.whole.shape)
        return self.whole


@pytest.mark.parametrize('write', [True, False])
def test_every_process_helps_to_gather(tmp_path, write):
    model, log = make(), []
    optimizer = adam(model)
    one_step(model, optimizer)
    moments = {i: {k: Sharded(v, log) for k, v in s.items()} for i, s in optimizer.state_dict()['state'].items()}
    sharded = SimpleNamespace(
        cfg=model.cfg, state_dict=lambda: {k: Sharded(v, log) for k, v in model.state_dict().items()}
    )
    checkpoints._state, plain = (
        lambda o: {f'{i}.{k}': v for i, s in moments.items() for k, v in s.items()},
        checkpoints._state,
    )
    try: checkpoints.save(tmp_path/'c', sharded, optimizer=optimizer, write=write)
    finally: checkpoints._state = plain
    assert len(log) == len(model.state_dict()) + sum(map(len, moments.values()))
    assert (tmp_path/'c').exists() == write
    if write:
        for k, v in checkpoints.load(tmp_path / 'c').model.state_dict().items():
            assert torch.equal(v, model.state_dict()[k])


PROCESS = """
import sys
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from test_checkpoints import adam, checkpoints, make, one_step

out = sys.argv[1]
dist.init_process_group('gloo')
rank = dist.get_rank()
mesh = dist.device_mesh.init_device_mesh('cpu', (2,))
model = fully_shard(make(), mesh=mesh)
optimizer = adam(model)
one_step(model, optimizer)
checkpoints.save(f'{out}/sharded', model, optimizer=optimizer, write=rank == 0)
dist.barrier()
again = fully_shard(make(5), mesh=mesh)
resumed = adam(again)
checkpoints.load_optimizer(f'{out}/sharded', resumed)
for i, s in optimizer.state_dict()['state'].items():
    for k, v in s.items():
        b = resumed.state_dict()['state'][i][k]
        assert type(v) is type(b), (i, k, type(v), type(b))
        if hasattr(v, 'to_local'): v, b = v.to_local(), b.to_local()
        assert torch.equal(v, b), (i, k)
one_step(again, resumed)  # and it can go on
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.skipif(TORCH < (2, 9), reason='sharding on a CPU')
def test_a_model_spread_over_two_processes(tmp_path):
    script = tmp_path/'process.py'
    script.write_text(PROCESS)
    status, log = two_processes(script, tmp_path)
    assert status == [0, 0], log
    whole = make()
    optimizer = adam(whole)
    one_step(whole, optimizer)
    back = checkpoints.load(tmp_path/'sharded')
    for k, v in whole.state_dict().items():
        torch.testing.assert_close(back.model.state_dict()[k], v, rtol=1e-4, atol=1e-6)
    resumed = adam(back.model)
    checkpoints.load_optimizer(tmp_path/'sharded', resumed)
    for i, s in optimizer.state_dict()['state'].items():
        for k, v in s.items(): torch.testing.assert_close(resumed.state_dict()['state'][i][k], v, rtol=1e-4, atol=1e-7)


def test_average_is_the_mean(tmp_path, tokenizer):
    models = [make(seed) for seed in range(3)]
    for i, m in enumerate(models): checkpoints.save(tmp_path/f'step-{i:07}', m, tokenizer, {'step': i})
    mean = checkpoints.average(iter(checkpoints.steps(tmp_path)), tmp_path/'averaged')
    for k, v in mean.model.state_dict().items():
        manual = torch.stack([m.state_dict()[k].double() for m in models]).mean(0).float()
        assert torch.equal(v, manual), k
    assert mean.training == {'step': 2, 'averaged': ['step-0000000', 'step-0000001', 'step-0000002']}
    assert mean.tokenizer.model == tokenizer.model and mean.path == tmp_path/'averaged'
    again = checkpoints.average([tmp_path/'averaged']*3, tmp_path/'averaged')  # in place, of equal models
    for k, v in mean.model.state_dict().items(): assert torch.equal(v, again.model.state_dict()[k])


def test_average_reads_every_checkpoint_once(tmp_path, monkeypatch):
    for i in range(3): checkpoints.save(tmp_path/f'step-{i:07}', make(i))
    read, load = [], checkpoints.load
    monkeypatch.setattr(checkpoints, 'load', lambda path, **more: (read.append(path.name), load(path, **more))[1])
    mean = checkpoints.average(checkpoints.steps(tmp_path), tmp_path/'averaged')
    assert sorted(read) == ['step-0000000', 'step-0000001', 'step-0000002']
    for k, v in load(tmp_path/'averaged').model.state_dict().items(): assert torch.equal(v, mean.model.state_dict()[k])
    flip(tmp_path/'step-0000001'/'model.safetensors')
    with pytest.raises(InputError, match='step-0000001/model.safetensors'):
        checkpoints.average(checkpoints.steps(tmp_path), tmp_path / 'averaged')


def test_average_of_different_models_is_refused(tmp_path, tokenizer):
    checkpoints.save(tmp_path/'a', make(), tokenizer)
    checkpoints.save(tmp_path/'b', make(d_ff=64), tokenizer)
    # as many pieces, but others
    checkpoints.save(tmp_path/'c', make(), train_tokenizer(["a fog runs .", "ein Hund läuft ."]))
    checkpoints.save(tmp_path/'d', make(h=4), tokenizer)  # equal shapes, other heads
    for other in 'bcd':
        with pytest.raises(InputError, match='of another (model|vocabulary)'):
            checkpoints.average([tmp_path / other, tmp_path / 'a'], tmp_path / 'out')
    for none in ([], iter([])):
        with pytest.raises(InputError, match='nothing to average'): checkpoints.average(none, tmp_path/'out')
    for single in (tmp_path/'a', str(tmp_path/'a')):
        with pytest.raises(InputError, match='a: one path; give a list'): checkpoints.average(single, tmp_path/'out')
    with pytest.raises(InputError): checkpoints.average([tmp_path/'a', tmp_path/'none'], tmp_path/'out')
    assert not (tmp_path/'out').exists()
    shutil.rmtree(tmp_path/'d')


def test_an_optimizer_that_keeps_rows_and_columns_is_resumed(tmp_path):
    "Adafactor has no number for each entry of a matrix."
    model = make()
    optimizer = torch.optim.Adafactor(model.parameters())
    one_step(model, optimizer)
    checkpoints.save(tmp_path/'c', model, optimizer=optimizer)
    again = torch.optim.Adafactor(model.parameters())
    checkpoints.load_optimizer(tmp_path/'c', again)
    for i, state in optimizer.state_dict()['state'].items():
        for name, value in state.items(): assert torch.equal(value, again.state_dict()['state'][i][name])
