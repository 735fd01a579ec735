"Shared by all tests: the --slow flag, the package's commands, a small trained model."
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


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
    out = tmp_path_factory.mktemp('small')/'run'
    status, _, err = tnb('tnb-train', '--data', 'builtin', '--corpus-size', 500, '--steps', 12, '--vocab-size', 800,
        '--batch-tokens', 512, '--max-len', 64, '--device', 'cpu', '--out', out)
    assert status == 0, err
    return out
