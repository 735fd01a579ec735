"Every notebook runs from top to bottom without an error, as `nbdev-test` runs it, each in a process of its own."
import os
import sys
from multiprocessing import get_context

import pytest
from conftest import ROOT
from nbdev import test as nbdev_test
from nbdev.config import get_config
from nbdev.doclinks import nbglob

CONFIG = get_config(ROOT)
# claims.ipynb is run by test_claims.py, which compares its outputs with the saved ones
NOTEBOOKS = [path for path in sorted(nbglob(CONFIG.nbs_path, as_path=True)) if path.stem != 'claims']
# Processes are copies of one that has imported what every notebook needs, and has run nothing.
PROCESSES = get_context('forkserver')
PROCESSES.set_forkserver_preload(['torch', 'matplotlib.pyplot', 'nbdev.test', 'transformer_nb.cli'])


def run(path, log):
    "In the new process: its exit code is 1 if a cell fails; what it writes goes to the log."
    with open(log, 'wb') as file:
        for fd in (1, 2): os.dup2(file.fileno(), fd)
    passed, _ = nbdev_test.test_nb(
        path, skip_flags=CONFIG.tst_flags.split(), basepath=CONFIG.config_path, cell_timeout=CONFIG.cell_timeout
    )
    sys.__stderr__.flush()
    sys.exit(not passed)


@pytest.mark.parametrize('path', NOTEBOOKS, ids=lambda path: str(path.relative_to(CONFIG.nbs_path)))
def test_notebook_runs(path, tmp_path):
    process = PROCESSES.Process(target=run, args=(path.absolute(), tmp_path/'log'))
    process.start()
    process.join()
    assert process.exitcode == 0, (tmp_path/'log').read_text(errors='replace')
