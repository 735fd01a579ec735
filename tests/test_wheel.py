"The wheel works where only it and its dependencies are: no checkout, no notebooks."
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = '''
import sys, transformer_nb
from pathlib import Path
assert Path(transformer_nb.__file__).is_relative_to(sys.prefix), transformer_nb.__file__
import transformer_nb.cli
from transformer_nb.grammar import Grammar
from transformer_nb.translation import Translator
assert len(Grammar(0).samples(3)) == 3                                  # the lexicon travels with the wheel
from transformer_nb.attention_maps import _asset
assert _asset('viewer.js') and _asset('viewer.css')                       # and so does the viewer of attention maps
translator = Translator.from_pretrained(sys.argv[1], device='cpu')
found = translator.translate(['a dog runs .', ''], beam=4, alpha=0.6)
assert len(found) == 2 and found[1] == '', found
'''


def build_wheel(folder):
    subprocess.run([sys.executable, '-m', 'build', '--wheel', '--no-isolation', '--outdir', folder, ROOT], check=True, capture_output=True)
    return next(Path(folder).glob('*.whl'))


def new_environment(folder):
    venv.create(folder, with_pip=False)
    return folder/'bin/python'


def check(python, run, cwd):
    done = subprocess.run([python, '-I', '-c', SCRIPT, run], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([python.parent/'tnb-translate', run, '--device', 'cpu'], input='a dog runs .\n', cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count('\n') == 1, done.stderr


def test_wheel_imports_and_translates(small_run, tmp_path):
    "The dependencies are lent by this environment (a .pth file); the package itself is not: its own link is not followed from there."
    python = new_environment(tmp_path/'env')
    site = Path(subprocess.run([python, '-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'], check=True, capture_output=True, text=True).stdout.strip())
    (site/'dependencies.pth').write_text(sysconfig.get_path('purelib'))
    wheel = build_wheel(tmp_path)
    subprocess.run([sys.executable, '-m', 'pip', '--python', python, 'install', '-q', '--no-deps', '--no-index', wheel], check=True, capture_output=True)
    check(python, small_run, tmp_path)


@pytest.mark.slow
def test_wheel_with_dependencies_of_its_own(small_run, tmp_path):
    "Everything installed anew, as `pip install` does it."
    python = new_environment(tmp_path/'env')
    subprocess.run([sys.executable, '-m', 'pip', '--python', python, 'install', '-q', '-c', ROOT/'constraints.txt', build_wheel(tmp_path)], check=True, capture_output=True)
    check(python, small_run, tmp_path)
