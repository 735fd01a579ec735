"""Widgets and the viewer where readers run them: JupyterLab in a browser runs a notebook, and gives clicks and keys on
to what it shows."""
import subprocess
import sys
from importlib.util import find_spec

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT/'tools'))
from notebooks import made, written

if not find_spec('jupyterlab'):  # an import of it takes seconds, with --slow or without
    pytest.skip("could not import 'jupyterlab'", allow_module_level=True)
pytestmark = pytest.mark.slow

CELLS = ["from transformer_nb.course.widgets import widget\nwidget('scores')",
         "from transformer_nb import Translator, show\nshow(Translator.from_pretrained('demo'), 'a dog runs .')"]
NOTEBOOK = "[...jupyterapp.shell.widgets('main')][0]"


def cell(number, source):
    return dict(cell_type='code', id=f'cell{number}', metadata={}, source=source, outputs=[], execution_count=None)


@pytest.fixture(scope='module')
def lab(tmp_path_factory):
    "The address of a notebook in a server of its own, which keeps its settings in a folder for this test."
    folder = tmp_path_factory.mktemp('lab')
    (folder/'look.ipynb').write_text(written(made([cell(i, source) for i, source in enumerate(CELLS)])))
    own = [f'JUPYTER_{name}_DIR={folder/name}' for name in ('CONFIG', 'RUNTIME', 'DATA')]
    options = ['--no-browser', '--port=0', '--allow-root', '--IdentityProvider.token=',
               f'--ServerApp.root_dir={folder}', '--LabApp.expose_app_in_browser=True',
               f'--LabApp.workspaces_dir={folder/"workspaces"}',
               f'--LabApp.user_settings_dir={folder/"settings"}']
    command = ['env', *own, f'PYTHONPATH={ROOT}', sys.executable, '-m', 'jupyterlab', *options]
    server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    try: yield next(line.split()[-1] for line in server.stderr if '/lab' in line and 'http://localhost' in line)
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope='module')
def seen(browser, lab):
    "The notebook, whose cells have run."
    browser.open(lab.replace('/lab', '/lab/tree/look.ipynb'), 1200, 1600)
    browser.until("window.jupyterapp && document.querySelectorAll('.jp-Notebook .jp-Cell').length === 2", 120)
    browser.until(f"{NOTEBOOK}.sessionContext.session?.kernel?.status === 'idle'", 120)
    browser.run("void jupyterapp.commands.execute('notebook:run-all-cells')")
    browser.until(f"{NOTEBOOK}.content.widgets.every(cell => cell.model.outputs?.length)", 120)
    browser.until("document.querySelectorAll('.tnb-widget[data-ready], .tnb-attention[data-ready]').length === 2")
    return browser


def test_a_slider_follows_pointer_and_keys(seen):
    slider = "document.querySelector('.tnb-widget input')"
    seen.click(slider, .99)
    assert seen.run(f'{slider}.value') == '9'
    seen.press('ArrowLeft', 'ArrowDown')
    assert seen.run(f'{slider}.value') == '7' and seen.run(f'document.activeElement === {slider}')
    assert seen.run("document.querySelector('.tnb-said').textContent").startswith('d_k = 128, ')


def test_the_viewer_follows_pointer_and_keys(seen):
    status, words = "document.querySelector('.tnb-status').textContent", "document.querySelectorAll('.tnb-side button')"
    seen.click(f'{words}[0]')
    first = seen.run(status)
    seen.press('ArrowDown')
    assert first.startswith('To predict ') and seen.run(status) not in ('', first)
    assert seen.run(f'document.activeElement === {words}[1]')
