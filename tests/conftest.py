"Shared by all tests: one thread a process, --slow, the order, the package's commands, a small trained model."
import gc
import os
import runpy
import subprocess
import sys
import threading
import tomllib
import traceback
import warnings
from contextlib import chdir, contextmanager
from functools import cache
from importlib.metadata import version
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from pkgutil import resolve_name
from shutil import rmtree
from tempfile import TemporaryDirectory, TemporaryFile, mkdtemp
from unittest.mock import patch

import pytest
from filelock import FileLock
from hypothesis import settings

os.environ['OMP_NUM_THREADS'] = '1'  # torch is not imported yet; the commands that tests start inherit it

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT/'tools'))
from drawn import FOLDER, drawn_once  # noqa: E402
from skips import pytest_sessionfinish, pytest_terminal_summary  # noqa: E402, F401

from transformer_nb.english_german import grammar  # noqa: E402

# The same examples every time; once a week others: pytest --hypothesis-profile random
settings.register_profile('fixed', derandomize=True, database=None, deadline=None)
settings.register_profile('random', derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile('fixed')

BIN = Path(sys.executable).parent
TORCH = tuple(map(int, version('torch').split('.')[:2]))
COMMANDS = tomllib.loads((ROOT/'pyproject.toml').read_text())['project']['scripts']


def pytest_addoption(parser):
    parser.addoption('--slow', action='store_true', help='also run the tests marked slow (minutes each)')


def pytest_configure(config):
    line = 'long(seconds): begun first; those of a module with the same number stay together'
    config.addinivalue_line('markers', line)
    if FOLDER not in os.environ:  # in no worker of xdist
        os.environ[FOLDER] = mkdtemp()
        config.add_cleanup(lambda: rmtree(os.environ.pop(FOLDER)))
    grammar.builtin_corpus = drawn_once(grammar.builtin_corpus)
    gc.disable()  # until all is imported


@pytest.hookimpl(trylast=True)  # after pytest has ordered them itself
def pytest_collection_modifyitems(config, items):
    if not config.getoption('--slow'):
        for item in items:
            if 'slow' in item.keywords: item.add_marker(pytest.mark.skip(reason='slow: run with --slow'))
    items[:] = longest_first(items, int(os.environ.get('PYTEST_XDIST_WORKER_COUNT', 1)))
    gc.freeze()  # what is here now stays: nobody looks through it again
    gc.enable()


def longest_first(items, workers):
    """In the order of which xdist's `worksteal` gives each worker a part of equal length: each gets a share of the long
    tests and begins with them. What is left for stealing when a worker is done are the short ones."""
    blocks, short = {}, []
    for item in items:
        if mark := item.get_closest_marker('long'): blocks.setdefault((mark.args[0], item.path), []).append(item)
        else: short.append(item)
    longest = [blocks[key] for key in sorted(blocks, reverse=True)]
    ordered = []
    for worker in range(workers):
        part = [item for block in longest[worker::workers] for item in block]
        n_short = max(0, (len(items) - len(ordered))//(workers - worker) - len(part))
        ordered += part + short[:n_short]
        short = short[n_short:]
    return ordered + short


# Sentences

@cache
def small_builtin():
    """The built-in corpus with 2,000 training pairs, drawn once: the fewer words a corpus has, the longer is the search
    for unseen combinations of them."""
    from transformer_nb.data.corpora import load_builtin
    return load_builtin(2000)


def few_pairs(n, split='train'): return small_builtin()[split].pairs[:n]


# A browser

@pytest.fixture(scope='session')
def browser():
    "One for all tests of a process; a test that wants it is skipped without."
    pytest.importorskip('selenium', reason="could not import 'selenium'")
    from browser import CHROMIUM, DRIVER, Browser
    if not (CHROMIUM and DRIVER): pytest.skip('no Chromium with a chromedriver')
    with Browser() as seen: yield seen


# The package's commands

def tnb(command, *args, stdin=b'', cwd=None, process=False):
    "Run a command of the package: bytes in, (exit code, stdout, stderr) out; as a process of its own if that matters."
    run = in_a_process if process else in_this_process
    status, out, err = run([command, *map(str, args)], stdin, cwd)
    return status, out, err.decode()


def in_a_process(argv, stdin, cwd):
    "As a terminal does it."
    done = subprocess.run([BIN/argv[0], *argv[1:]], input=stdin, capture_output=True, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


def in_this_process(argv, stdin, cwd):
    "The function that the command stands for, called as the command calls it: no seconds for a new Python and torch."
    function = resolve_name(COMMANDS[argv[0]])
    with chdir(cwd or '.'), patch.object(sys, 'argv', argv), new_warnings(), new_files(stdin) as (out, err):
        status = exit_code(function)
        for file in (sys.stdout, sys.stderr): file.flush()
        return status, written(out), written(err)


def exit_code(function):
    "What Python makes of the end of a program."
    try: function()
    except SystemExit as e:
        if isinstance(e.code, str): print(e.code, file=sys.stderr)
        return 1 if isinstance(e.code, str) else e.code or 0
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def written(file):
    file.seek(0)
    return file.read()


@contextmanager
def new_warnings():
    "Warnings as a new Python shows them: pytest shows more."
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter('ignore', kind)
        yield


@contextmanager
def new_files(stdin):
    "Descriptors 0, 1 and 2 and Python's names for them are files of their own: what C code writes is seen too."
    before = sys.stdin, sys.stdout, sys.stderr
    for file in before[1:]: file.flush()
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        kept = [os.dup(fd) for fd in range(3)]
        for fd, file in enumerate((given, out, err)): os.dup2(file.fileno(), fd)
        try:
            sys.stdin, sys.stdout = open(0, closefd=False), open(1, 'w', closefd=False)
            sys.stderr = open(2, 'w', buffering=1, errors='backslashreplace', closefd=False)
            yield out, err
        finally:
            for thread in threading.enumerate():  # what still reads would take lines from the next command
                if thread.name.endswith('(read)'): thread.join(1)
            sys.stdin, sys.stdout, sys.stderr = before
            for fd, copy in enumerate(kept):
                os.dup2(copy, fd)
                os.close(copy)


# Processes

# Copies of one that has imported what most need: no seconds for a new Python and torch. (It is imported from the
# working directory, the project's; where pytest is called elsewhere, the copies import it all themselves.) A copy also
# imports the module of what it is to do: this one is there already, a module of tests takes its time in every copy.
FORKS = 'forkserver' in get_all_start_methods()  # not on Windows
PROCESSES = get_context('forkserver' if FORKS else 'spawn')
if FORKS: PROCESSES.set_forkserver_preload(['tests.preloaded'])


def two_processes(*command, meanwhile=lambda running: None):
    """Start a script, or a command of the package, twice as torchrun does it: the exit codes and what both wrote.
    `meanwhile` gets both processes, to do something to them."""
    from torch.distributed import TCPStore
    # As torchrun's agent, this process keeps the store: a free port given to them may be another's when they open it
    store = TCPStore('localhost', 0, is_master=True, wait_for_workers=False)
    with TemporaryDirectory() as folder:
        logs = [Path(folder)/f'process-{rank}' for rank in (0, 1)]
        environs = [of_two(rank, store.port) | {'TORCHELASTIC_USE_AGENT_STORE': 'True'} for rank in (0, 1)]
        running = [begin(command, *of_one) for of_one in zip(logs, environs, strict=True)]
        meanwhile(running)
        for process in running: process.join()
        return [process.exitcode for process in running], '\n'.join(log.read_text() for log in logs)


def of_two(rank, port):
    "What torchrun says to each of two processes."
    return {'RANK': str(rank), 'LOCAL_RANK': str(rank), 'WORLD_SIZE': '2', 'LOCAL_WORLD_SIZE': '2',
            'MASTER_ADDR': 'localhost', 'MASTER_PORT': str(port)}


def begin(command, log, environ=None, first=None):
    "Start a script, or a command of the package, in a process that something can happen to; `first` is called in it."
    process = PROCESSES.Process(target=begun, args=(list(map(str, command)), log, environ or {}, first))
    process.start()
    return process


def begun(argv, log, environ, first):
    "In the new process."
    os.environ |= environ
    if first: first()
    write_into(log)
    sys.argv = argv
    if argv[0] in COMMANDS: resolve_name(COMMANDS[argv[0]])()
    else: runpy.run_path(argv[0])


def script(path, *args, cwd=None):
    "Run a script of the project to its end, in a copy that has imported torch and the package: exit code and output."
    with TemporaryDirectory() as folder:
        process = PROCESSES.Process(target=run_script, args=([str(path), *map(str, args)], cwd or os.getcwd(), folder))
        process.start()
        process.join()
        return process.exitcode, (Path(folder)/'log').read_text(encoding='utf-8')


def run_script(argv, cwd, folder):
    "In the new process: as `python argv` in that folder."
    write_into(Path(folder)/'log')
    os.chdir(cwd)
    sys.argv, sys.path[:0] = argv, [str(Path(argv[0]).parent)]
    runpy.run_path(argv[0], run_name='__main__')


def run_notebook(path, folder, skip=()):
    "As `nbdev-test` does, without the cells that have one of these flags: exit code, 1 if a cell fails, and output."
    process = PROCESSES.Process(target=run_cells, args=(path, folder/'log', skip))
    process.start()
    process.join()
    return process.exitcode, (folder/'log').read_text(errors='replace')


def run_cells(path, log, skip):
    "In the new process. What cannot be shown, such as a figure that cannot be drawn, fails no cell: IPython tells it."
    from execnb.shell import CaptureShell
    from nbdev import test
    from nbdev.config import get_config
    write_into(log)
    told = []
    CaptureShell.showtraceback = lambda *_, **__: told.append(traceback.format_exc())
    config = get_config(ROOT)
    passed, _ = test.test_nb(path, skip_flags=skip, basepath=config.config_path, cell_timeout=config.cell_timeout)
    if passed: print(*told, file=sys.__stderr__)
    sys.__stderr__.flush()
    sys.exit(not passed or bool(told))


def write_into(log):
    "What this process writes from now on goes into a file."
    with open(log, 'wb') as file:
        for fd in (1, 2): os.dup2(file.fileno(), fd)


@pytest.fixture(scope='session')
def small_run(tmp_path_factory):
    "A run of a few steps on the built-in corpus: it translates badly, but it translates."
    folder = tmp_path_factory.getbasetemp()
    if 'PYTEST_XDIST_WORKER' in os.environ: folder = folder.parent  # which all workers share: the run is made once
    out = folder/'small'/'run'
    with FileLock(folder/'small.lock'):
        if not out.exists():
            train_small(out.with_name('half'))
            out.with_name('half').rename(out)  # a run that failed in one worker is not taken for whole by the others
    return out


def train_small(out):
    status, _, err = tnb('tnb-train', '--data', 'builtin', '--corpus-size', 2000, '--steps', 12, '--vocab-size', 800,
        '--batch-tokens', 512, '--max-len', 64, '--save-every', 4, '--device', 'cpu', '--out', out)
    assert status == 0, err
