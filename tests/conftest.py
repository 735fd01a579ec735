"Shared by all tests: one thread a process, the --slow flag, the package's commands, a small trained model."
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from filelock import FileLock

os.environ['OMP_NUM_THREADS'] = '1'  # torch is not imported yet; the commands that tests start inherit it
if not find_spec('nbdev'): collect_ignore = ['test_export.py']

BIN = Path(sys.executable).parent
TORCH = tuple(map(int, version('torch').split('.')[:2]))


def pytest_addoption(parser):
    parser.addoption('--slow', action='store_true', help='also run the tests marked slow (minutes each)')


def pytest_collection_modifyitems(config, items):
    if config.getoption('--slow'): return
    for item in items:
        if 'slow' in item.keywords: item.add_marker(pytest.mark.skip(reason='slow: run with --slow'))


def tnb(command, *args, stdin=b'', cwd=None):
    "Run a command of the package as a terminal does: bytes in, (exit code, stdout, stderr) out."
    done = subprocess.run([BIN/command, *map(str, args)], input=stdin, capture_output=True, cwd=cwd)
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.fixture(scope='session')
def small_run(tmp_path_factory):
    "A run of a few steps on the built-in corpus: it translates badly, but it translates."
    folder = tmp_path_factory.getbasetemp()
    if 'PYTEST_XDIST_WORKER' in os.environ: folder = folder.parent  # which all workers share: the run is made once
    out = folder/'small'/'run'
    with FileLock(folder/'small.lock'):
        if not out.exists(): train_small(out)
    return out


def train_small(out):
    status, _, err = tnb('tnb-train', '--data', 'builtin', '--corpus-size', 500, '--steps', 12, '--vocab-size', 800,
        '--batch-tokens', 512, '--max-len', 64, '--device', 'cpu', '--out', out)
    assert status == 0, err
