"The source distribution makes the wheel, which works where only it and its dependencies are, without checkout."

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = '''
from transformer_nb import Translator
assert Translator.from_pretrained('demo').translate(['a dog runs .']) == ['ein Hund läuft .']  # the small trained model

import sys, transformer_nb
from importlib.metadata import distribution
from pathlib import Path
assert Path(transformer_nb.__file__).is_relative_to(sys.prefix), transformer_nb.__file__
commands = distribution('transformer_nb').entry_points.select(group='console_scripts')
assert len(commands) > 5 and all(callable(command.load()) for command in commands)
from transformer_nb.decode.translator import Translator
from transformer_nb.english_german.grammar import Grammar
assert len(Grammar(0).samples(3)) == 3                                  # the lexicon travels with the wheel
from transformer_nb.course.viewer import _asset
assert all(map(_asset, ('maps.js', 'viewer.js', 'viewer.css')))           # and so does the viewer of attention maps
translator = Translator.from_pretrained(sys.argv[1], device='cpu')
found = translator.translate(['a dog runs .', ''], beam=4, alpha=0.6)
assert len(found) == 2 and found[1] == '', found
'''


def build(kind, source, folder):
    "Build an 'sdist' or a 'wheel' as it would be for a release; the file."
    done = subprocess.run(
        [sys.executable, '-m', 'build', f'--{kind}', '--no-isolation', '--outdir', folder, source],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob('*.tar.gz' if kind == 'sdist' else '*.whl'))


@pytest.fixture(scope='module')
def sdist(tmp_path_factory):
    "The source distribution, built from a copy: a build leaves files where it works."
    copy, out = tmp_path_factory.mktemp('checkout')/'project', tmp_path_factory.mktemp('sdist')
    others = (
        '.git',
        '.venv',
        '.*_cache',
        '__pycache__',
        '*.egg-info',
        'build',
        'dist',
        'runs',
        '_docs',
        '_proc',
        '_site_src',
    )
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*others))
    return build('sdist', copy, out)


@pytest.fixture(scope='module')
def wheel(sdist, tmp_path_factory):
    "The wheel, built from nothing but the source distribution."
    folder = tmp_path_factory.mktemp('wheel')
    with tarfile.open(sdist) as tar: tar.extractall(folder, filter='data')
    return build('wheel', folder/sdist.name.removesuffix('.tar.gz'), folder)


def package_files():
    "Every file of the package: modules in all folders, data."
    files = [path for path in (ROOT/'transformer_nb').rglob('*') if path.is_file() and '__pycache__' not in path.parts]
    assert {'py.typed', 'core.py', 'packing.py', 'viewer.js'} <= {path.name for path in files}
    return {str(path.relative_to(ROOT)) for path in files}


def test_source_distribution_is_the_package_alone(sdist):
    with tarfile.open(sdist) as tar: held = {member.name.partition('/')[2] for member in tar if member.isfile()}
    package = package_files()
    assert 'transformer_nb/assets/demo/model.safetensors' in package
    assert package | {'pyproject.toml', 'README.md', 'LICENSE'} <= held
    assert {path.split('/')[0] for path in held if '/' in path} == {'transformer_nb', 'transformer_nb.egg-info'}


def test_wheel_of_the_source_distribution_is_whole(wheel):
    with zipfile.ZipFile(wheel) as held:
        assert {name for name in held.namelist() if '.dist-info/' not in name} == package_files()
        metadata = held.read(next(name for name in held.namelist() if name.endswith('/METADATA'))).decode()
    assert (
        'Classifier: Programming Language :: Python :: 3.13' in metadata
        and '\nDescription-Content-Type: text/markdown' in metadata
    )


def test_lower_bounds_are_those_that_are_tested():
    "constraints-oldest.txt pins the oldest version that each bound of pyproject.toml admits."
    project = tomllib.loads((ROOT/'pyproject.toml').read_text())['project']
    needed = [line.split('>=') for line in project['dependencies']]
    extra = [line.split('>=') for line in project['optional-dependencies']['data'] if not line.startswith('mtdata')]
    pins = dict(line.split('==') for line in (ROOT/'constraints-oldest.txt').read_text().split() if '==' in line)
    parts = lambda version: ([int(n) for n in version.split('.')] + [0, 0])[:3]
    assert {name: parts(pins[name]) for name, _ in needed + extra} == {name: parts(v) for name, v in needed + extra}


def new_environment(folder):
    venv.create(folder, with_pip=False)
    return folder/'bin/python'


def check(python, run, cwd):
    done = subprocess.run([python, '-I', '-c', SCRIPT, run], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [python.parent / 'tnb-translate', run, '--device', 'cpu'],
        input='a dog runs .\n',
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.count('\n') == 1, done.stderr


def test_wheel_imports_and_translates(small_run, wheel, tmp_path):
    "This environment lends the dependencies (a .pth file), not the package: its own link is not followed from there."
    python = new_environment(tmp_path/'env')
    site = Path(
        subprocess.run(
            [python, '-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    )
    (site/'dependencies.pth').write_text(sysconfig.get_path('purelib'))
    subprocess.run(
        [sys.executable, '-m', 'pip', '--python', python, 'install', '-q', '--no-deps', '--no-index', wheel],
        check=True,
        capture_output=True,
    )
    check(python, small_run, tmp_path)


@pytest.mark.slow
def test_wheel_with_dependencies_of_its_own(small_run, wheel, tmp_path):
    "Everything installed anew, as `pip install` does it."
    python = new_environment(tmp_path/'env')
    subprocess.run(
        [sys.executable, '-m', 'pip', '--python', python, 'install', '-q', '-c', ROOT / 'constraints.txt', wheel],
        check=True,
        capture_output=True,
    )
    check(python, small_run, tmp_path)
