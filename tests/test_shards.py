"""A corpus as shards: the same stream as in memory, every pair once, and whatever happens to the preparation or to its
files is named in one line, and mended by the same command."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, script, tnb, two_processes

from transformer_nb import checkpoints
from transformer_nb.core import DiskError, InputError, ProcessLost
from transformer_nb.data import shards as sh
from transformer_nb.data.batching import Batches, IdPairs, encode_pairs
from transformer_nb.data.corpora import load_folder
from transformer_nb.data.shards import Shards, load_data, prepare

SETTINGS = dict(vocab_size=60, sample=200, workers=1)
WORDS = 'a the dog cat bird house sees likes finds green small old and near under'.split()


@pytest.fixture(autouse=True)
def small_shards(monkeypatch): monkeypatch.setattr(sh, 'PER_SHARD', 100)


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    rng, folder = random.Random(0), tmp_path_factory.mktemp('text')
    for name, n in (('train', 450), ('val', 20), ('test', 20)):
        rows = [[rng.choice(WORDS) for _ in range(rng.randint(2, 12))] for _ in range(n)]
        for lang, f in (('en', list), ('de', reversed)):
            (folder/f'{name}.{lang}').write_text(''.join(' '.join(f(row)) + '\n' for row in rows))
    return folder


@pytest.fixture(scope='module')
def whole(text, tmp_path_factory):
    "What a preparation makes to which nothing happens."
    out = tmp_path_factory.mktemp('whole')/'shards'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sh, 'PER_SHARD', 100)
        prepare(text, out, **SETTINGS)
    return out


def bytes_of(folder): return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def same(a, b): assert bytes_of(a) == bytes_of(b)


def one_line(error, *named):
    text = str(error.value)
    assert '\n' not in text
    for name in named: assert name in text, text


# The stream

def test_pairs_and_steps_are_those_of_memory(text, whole):
    shards = Shards(whole)
    memory = encode_pairs(shards.tokenizer, load_folder(text, 'en', 'de')['train'], 64)
    assert len(shards.parts) == 5 and len(shards) == len(memory) == 450
    assert shards.lengths.tolist() == memory.lengths.tolist()
    for a, b in zip(shards, memory): assert all(map(np.array_equal, a, b))
    one, other = (Batches(pairs, 128, seed=3, per_step=2).stream(7) for pairs in (shards, memory))
    for a, b in islice(zip(one, other), 100):
        for x, y in zip(a.batches, b.batches, strict=True):
            assert all(getattr(x, name).equal(getattr(y, name)) for name in ('src', 'tgt_in', 'tgt_out'))


def test_every_pair_comes_once_an_epoch_and_ranks_share_a_step(whole):
    ranks = [Batches(Shards(whole), 128, per_step=2, rank=rank, world=2) for rank in (0, 1)]
    seen = sorted(i for batch in ranks[0].epoch(3) for i in batch)
    assert seen == list(range(450))
    for a, b in islice(zip(*(rank.stream(5) for rank in ranks)), 20):
        assert (a.places, b.places) == ([0], [1]) and a.n_tokens == b.n_tokens


def test_ids_are_mapped_not_read(whole):
    shards = Shards(whole)
    for part, pages in zip(shards.parts, shards.pages, strict=True):
        assert part.ids.dtype == np.uint16 and np.shares_memory(part.ids, np.frombuffer(pages, np.uint8))


@pytest.mark.slow
@pytest.mark.skipif(not Path('/proc/self/smaps').exists(), reason='Linux says which pages are in use')
def test_pages_that_were_touched_are_given_back(tmp_path):
    class One:
        vocab_size, pad_id = 100, 0
        source = target = property(lambda self: self)
        def encode(self, texts): return [[7]*500 for _ in texts]
    shards, n = Shards.__new__(Shards), 8192
    sh.write_shard(tmp_path/'large', One(), [('a', 'b')]*n, 1000)
    shards.pages, shards.looked_up, shards.starts = [sh.map_file(tmp_path/'large')], 0, np.array([0, n])
    shards.parts = [sh.read_shard(shards.pages[0], n, 'uint16')]
    in_use = []
    for i in range(n):
        shards[i][0].sum()
        if i % 128 == 126: in_use.append(mapped(tmp_path/'large'))
    assert 0 < max(in_use) < 16_400/2  # kilobytes of all pages


def mapped(file):
    "Kilobytes of a mapped file that count as memory of this process."
    lines = Path('/proc/self/smaps').read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.endswith(str(file)))
    return next(int(line.split()[1]) for line in lines[start:] if line.startswith('Rss:'))


@pytest.mark.parametrize('n_ids, dtype', [(2**16, np.uint16), (2**16 + 1, np.uint32)])
def test_large_vocabularies_take_four_bytes(tmp_path, n_ids, dtype):
    class Long:
        vocab_size, pad_id = n_ids, 0
        source = target = property(lambda self: self)
        def encode(self, texts): return [[n_ids - 1]*len(text) for text in texts]
    entry = sh.write_shard(tmp_path/'s', Long(), [('aa', 'b'), ('c', 'dddd')], 100)
    read = sh.read_shard(sh.map_file(tmp_path/'s'), entry['pairs'], np.dtype(dtype).name)
    assert [[ids.tolist() for ids in pair] for pair in read] == [
        [[n_ids - 1]*n for n in pair] for pair in ((2, 1), (1, 4))]
    assert entry['bytes'] == 4*5 + 8*np.dtype(dtype).itemsize


def test_id_pairs_are_a_list_of_pairs():
    pairs = IdPairs(np.arange(6), np.array([0, 1, 3, 3, 6]))
    assert [[side.tolist() for side in pair] for pair in pairs] == [[[0], [1, 2]], [[], [3, 4, 5]]]
    assert pairs[-1][1].tolist() == [3, 4, 5] and len(pairs[:9]) == 2
    with pytest.raises(IndexError): pairs[2]


def test_long_pairs_are_left_out_and_counted(text, tmp_path):
    made = prepare(text, tmp_path/'shards', **SETTINGS, max_len=20)
    assert sum(entry['pairs'] + entry['too_long'] for entry in made['shards']) == 450
    assert 0 < sum(entry['too_long'] for entry in made['shards']) < 450
    assert Shards(tmp_path/'shards').lengths.max() < 20


def test_workers_change_nothing(text, whole, tmp_path):
    prepare(text, tmp_path/'two', **SETTINGS | {'workers': 2})
    same(tmp_path/'two', whole)


# Faults

KILLED = '''
import os, signal, sys
from transformer_nb.data import shards as sh
sh.PER_SHARD, write, count, last = 100, sh.atomic_write, 0, int(sys.argv[3])
def killed(file, *parts):
    global count
    if file.name == sh.JOURNAL: return write(file, *parts)
    count += 1
    if count == last and sys.argv[4] == 'before': os.kill(os.getpid(), signal.SIGKILL)
    if count == last and sys.argv[4] == 'half': open(file.with_name('.' + file.name + '.7.tmp'), 'wb').write(b'half')
    found = write(file, *parts) if (count, sys.argv[4]) != (last, 'half') else None
    if count == last: os.kill(os.getpid(), signal.SIGKILL)
    return found
sh.atomic_write = killed
sh.prepare(sys.argv[1], sys.argv[2], vocab_size=60, sample=200, workers=1)
'''


@pytest.mark.parametrize('last, when', [(1, 'before'), (1, 'after'), (3, 'half'), (4, 'after'), (6, 'before'),
    (8, 'half'), (11, 'before'), (11, 'after')])
def test_kill_9_at_any_file_and_on_again(text, whole, tmp_path, last, when):
    out = tmp_path/'shards'
    (tmp_path/'killed.py').write_text(KILLED)
    assert script(tmp_path/'killed.py', text, out, last, when)[0] == -signal.SIGKILL
    complete = (last, when) == (11, 'after')
    assert (out/sh.MANIFEST).exists() == complete
    if not complete:
        with pytest.raises(InputError) as e: load_data(str(out))
        one_line(e, 'shards.json: missing', 'tnb-data prepare')
    there = {file.name: file.stat().st_mtime_ns for file in out.glob('shard-*.bin')}
    prepare(text, out, **SETTINGS)
    same(out, whole)
    again = [name for name, time in there.items() if (out/name).stat().st_mtime_ns != time]
    assert len(again) <= 1  # the one that had its name, and no line in the journal


def test_a_worker_that_was_ended_is_a_lost_process():
    with pytest.raises(ProcessLost, match='with fewer workers'): list(sh.in_order(os._exit, [(1,)]*3, 2))


AT_WORK = '''
import os, sys, time
from pathlib import Path
from transformer_nb.data.shards import in_order

def begin(folder):
    Path(folder, str(os.getpid())).touch()  # a worker that has begun
    time.sleep(3600)

if __name__ == '__main__': list(in_order(begin, ((sys.argv[1],) for _ in range(9)), 2))
'''


def test_kill_9_of_the_first_process_ends_its_workers(tmp_path):
    import psutil
    (tmp_path/'script.py').write_text(AT_WORK)
    begun = tmp_path/'begun'
    begun.mkdir()
    env = os.environ | {'PYTHONPATH': str(ROOT)}
    process = subprocess.Popen([sys.executable, tmp_path/'script.py', begun], env=env)
    while len(list(begun.iterdir())) < 2:
        assert process.poll() is None
        time.sleep(.01)
    children = [psutil.Process(int(file.name)) for file in begun.iterdir()]
    process.kill()
    process.wait()
    gone, alive = psutil.wait_procs(children, timeout=120)
    for child in alive: child.kill()
    assert len(gone) == 2 and not alive


@pytest.mark.parametrize('damage, named', [
    (lambda file: file.unlink(), 'missing'),
    (lambda file: file.write_bytes(file.read_bytes()[:-1]), 'cut off'),
    (lambda file: file.write_bytes(file.read_bytes()[:-1] + b'?'), 'altered')])
@pytest.mark.parametrize('name', ['shard-00003.bin', 'tokenizer.model', 'val.de'])
def test_a_damaged_file_is_named_and_made_anew(text, whole, tmp_path, name, damage, named):
    shutil.copytree(whole, tmp_path/'shards')
    damage(tmp_path/'shards'/name)
    with pytest.raises(InputError) as e: load_data(str(tmp_path/'shards'))
    one_line(e, name, named, 'prepare again')
    prepare(text, tmp_path/'shards', **SETTINGS)
    same(tmp_path/'shards', whole)


@pytest.mark.parametrize('position', range(0, 1600, 160))
def test_each_flipped_bit_is_seen(whole, tmp_path, position):
    shutil.copytree(whole, tmp_path/'shards')
    data = bytearray((tmp_path/'shards'/'shard-00001.bin').read_bytes())
    data[position] ^= 1 << position % 8
    (tmp_path/'shards'/'shard-00001.bin').write_bytes(data)
    with pytest.raises(InputError) as e: Shards(tmp_path/'shards')
    one_line(e, 'shard-00001.bin', 'altered')


def test_a_full_disk_is_named_and_nothing_lost(text, whole, tmp_path, monkeypatch):
    written, fsync = [], os.fsync
    def full(descriptor):
        written.append(1)
        if len(written) == 9: raise OSError(28, 'No space left on device')
        fsync(descriptor)
    monkeypatch.setattr(os, 'fsync', full)
    with pytest.raises(DiskError) as e: prepare(text, tmp_path/'shards', **SETTINGS)
    one_line(e, 'No space left on device', 'make room', 'goes on')
    assert not list((tmp_path/'shards').glob('.*.tmp')) and list((tmp_path/'shards').glob('shard-*'))
    prepare(text, tmp_path/'shards', **SETTINGS)
    same(tmp_path/'shards', whole)


@pytest.mark.skipif(not shutil.which('mount') or os.geteuid() != 0, reason='mounting a small disk needs root')
def test_a_disk_that_is_really_full(text, tmp_path):
    disk = tmp_path/'disk'
    disk.mkdir()
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', disk], capture_output=True).returncode:
        pytest.skip('no right to mount')
    try:
        status, _, err = tnb('tnb-data', 'prepare', text, '--out', disk/'shards', '--vocab-size', 60, '--workers', 2)
        assert status == 1 and 'No space left on device' in err and len(err.splitlines()) == 1, err
    finally: subprocess.run(['umount', disk], check=True)


@pytest.mark.parametrize('change, why', [({'sample': 0}, 'sample 0: give at least 1'),
    ({'max_len': 1}, 'max_len 1: give at least 2'), ({'max_len': 2}, 'every pair has a side of 2 tokens or more')])
def test_settings_that_leave_nothing_are_refused(text, tmp_path, change, why):
    with pytest.raises(InputError) as e: prepare(text, tmp_path/'shards', **SETTINGS | change)
    one_line(e, why)
    assert not (tmp_path/'shards'/'shards.json').exists()


def test_two_at_once(text, tmp_path):
    "The second one is told so, and the first goes on."
    out = tmp_path/'shards'
    with sh._alone(out):
        status, _, err = tnb('tnb-data', 'prepare', text, '--out', out, '--vocab-size', 60)
        assert status == 2 and 'another process is preparing it' in err and len(err.splitlines()) == 1
    prepare(text, out, **SETTINGS)
    assert len(Shards(out)) == 450


def test_other_settings_and_foreign_folders_are_refused(text, whole, tmp_path):
    before = bytes_of(whole)
    for change in ({'seed': 5}, {'vocab_size': 70}, {'src': 'de', 'tgt': 'en'}):
        with pytest.raises(InputError) as e: prepare(text, whole, **SETTINGS | change)
        one_line(e, 'other settings', 'choose another directory')
    assert bytes_of(whole) == before
    (tmp_path/'notes').write_text('mine')
    with pytest.raises(InputError) as e: prepare(text, tmp_path, **SETTINGS)
    one_line(e, 'notes', 'choose another directory')
    with pytest.raises(InputError) as e: prepare(text, tmp_path/'notes', **SETTINGS)
    one_line(e, 'notes', 'choose another directory')
    assert os.listdir(tmp_path) == ['notes']


def test_settings_may_be_numbers_of_numpy(text, whole, tmp_path):
    "A manifest is JSON, which cannot hold them."
    prepare(text, tmp_path/'shards', vocab_size=np.int64(60), sample=np.int64(200), max_len=np.int32(1024), workers=1)
    same(tmp_path/'shards', whole)


def test_bad_text_is_refused_before_anything_is_made(text, tmp_path):
    folder = tmp_path/'text'
    shutil.copytree(text, folder)
    with open(folder/'train.en', 'a') as file: file.write('one more\n')
    with pytest.raises(InputError) as e: prepare(folder, tmp_path/'shards', **SETTINGS)
    one_line(e, 'train.en: 451 lines', 'has 450')
    with open(folder/'train.de', 'a') as file: file.write(' \n')
    with pytest.raises(InputError) as e: prepare(folder, tmp_path/'more', **SETTINGS)
    one_line(e, 'train.de:451: empty line', '--drop-empty')
    prepare(folder, tmp_path/'even', **SETTINGS, drop_empty=True)
    assert len(Shards(tmp_path/'even')) == 450


def test_a_validation_set_of_nothing_but_empty_lines_is_no_reason_to_refuse_the_shards(text, tmp_path):
    folder = tmp_path/'text'
    shutil.copytree(text, folder)
    for file in folder.iterdir():
        if not file.name.startswith('train'): file.unlink()
    for lang in ('en', 'de'): (folder/f'val.{lang}').write_text('\n')
    prepare(folder, tmp_path/'shards', **SETTINGS, drop_empty=True)
    assert list(load_data(tmp_path/'shards').splits) == ['train']


# Training on them

TRAIN = ('--batch-tokens 256 --grad-accum-steps 2 --warmup 20 --lr-scale 0.3 --max-len 64 --save-every 4 --device cpu '
         '--seed 3 --dropout 0.1 --norm post').split()


def train(data, out, steps, *more):
    return tnb('tnb-train', '--data', data, '--out', out, *TRAIN, '--steps', steps, *more)


def bits(run): return (checkpoints.find(run/'averaged')/'model.safetensors').read_bytes()


def losses(run):
    return [(line['step'], line['loss']) for line in map(json.loads, open(run/'metrics.jsonl')) if 'loss' in line]


@pytest.fixture(scope='module')
def trained(whole, tmp_path_factory):
    out = tmp_path_factory.mktemp('trained')/'run'
    status, _, err = train(whole, out, 10)
    assert status == 0 and '450 pairs, 60 word pieces' in err, err
    return out


def test_training_is_that_on_the_text(text, whole, trained, tmp_path):
    "The same vocabulary, the same batches, the same losses."
    tokenizer, corpus = Shards(whole).tokenizer, load_folder(text, 'en', 'de')
    from transformer_nb.cli import model_preset
    from transformer_nb.core import seeded
    from transformer_nb.train.trainer import Trainer, TrainingConfig
    from transformer_nb.transformer import Transformer
    with seeded(3): model = Transformer(model_preset('tiny', vocab_size=60, max_len=64, dropout=.1))
    cfg = TrainingConfig(steps=10, batch_tokens=256, grad_accum_steps=2, warmup=20, lr_scale=.3, save_every=4,
        device='cpu', seed=3)
    Trainer(model, tokenizer=tokenizer, train=corpus['train'], val=corpus['val'], cfg=cfg, out=tmp_path/'run').fit(True)
    assert losses(tmp_path/'run') == losses(trained)
    assert bits(tmp_path/'run') == bits(trained)


def test_a_resumed_run_ends_with_the_same_bits(whole, trained, tmp_path):
    assert train(whole, tmp_path/'run', 6)[0] == 0
    status, _, err = train(whole, tmp_path/'run', 10, '--resume')
    assert status == 0, err
    assert losses(tmp_path/'run') == losses(trained)
    last = checkpoints.newest(tmp_path/'run'), checkpoints.newest(trained)
    assert len({(path/'model.safetensors').read_bytes() for path in last}) == 1


def test_two_processes_have_the_losses_of_one(whole, trained, tmp_path):
    status, log = two_processes('tnb-train', '--data', whole, '--out', tmp_path/'run', *TRAIN, '--steps', 10)
    assert status == [0, 0], log
    together, alone = ([loss for _, loss in losses(run)] for run in (tmp_path/'run', trained))
    assert together == pytest.approx(alone, abs=1e-4)


def test_a_run_knows_its_shards_again(text, whole, trained, tmp_path):
    run = tmp_path/'run'
    shutil.copytree(trained, run)
    other = tmp_path/'whole'/'shards'
    prepare(text, other, **SETTINGS | {'seed': 1, 'sample': 100})
    moved = whole.with_name('before')
    whole.rename(moved)
    try:
        shutil.copytree(other, whole)
        status, _, err = train(whole, run, 20, '--resume')
        assert status == 2 and 'its run has' in err and len(err.splitlines()) == 1, err
        shutil.rmtree(whole)
    finally: moved.rename(whole)


def test_test_sets_are_found_from_the_run(trained):
    status, out, err = tnb('tnb-eval', trained, '--device', 'cpu', '--json', '--beam', 1)
    assert status == 0 and json.loads(out)['test']['pairs'] == 20, err


def test_what_does_not_fit_is_refused(whole, tmp_path):
    for more, named in ((('--vocab-size', 50), 'vocabulary of 60'), (('--max-len', 8), 'max_len 8')):
        command = ['tnb-train', '--data', whole, '--out', tmp_path/'run', '--steps', 1, '--device', 'cpu', *more]
        status, _, err = tnb(*command)
        assert status == 2 and named in err and len(err.splitlines()) == 1, err


# The command

def test_the_command_prepares_and_says_what_it_made(text, tmp_path):
    status, out, err = tnb('tnb-data', 'prepare', text, '--out', tmp_path/'shards', '--vocab-size', 60)
    assert status == 0 and out == b'' and re.search(': 450 pairs, .* 60 word pieces, 5 shards; 0 pairs were', err), err
    assert (tmp_path/'shards'/sh.MANIFEST).exists()
    for args in ((), ('polish',)):
        status, _, err = tnb('tnb-data', *args)
        assert status == 2 and 'clean' in err
    status, out, _ = tnb('tnb-data', '-h')
    assert status == 0 and all(verb in out.decode() for verb in ('clean', 'check', 'prepare'))
