"""Continuous integration: a test that is skipped for a reason which nobody expects fails the run; the lock holds every
distribution; workflows run pinned actions, and have no more rights than they need."""
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import requires, version
from itertools import chain

import pytest
from conftest import ROOT
from hypothesis import settings
from packaging.requirements import Requirement
from skips import EXPECTED, unexpected

import transformer_nb

FILE = '''
import pytest
def test_works(): pass
@pytest.mark.skipif(True, reason={!r})
def test_does_not(): pass
'''
MODULE = "import pytest\npytest.importorskip('nowhere')\n"
ENV = {name: value for name, value in os.environ.items() if not re.match('CI$|TNB_HAS|PYTEST', name)}


@pytest.mark.parametrize('files, environ, status, workers', [
    ({'it': FILE.format('no time')}, {}, 0, 0),
    ({'it': FILE.format('no time')}, {'CI': 'true'}, 1, 0),
    ({'it': FILE.format('no Chromium')}, {'CI': 'true'}, 0, 0),
    ({'it': FILE.format('no Chromium')}, {'CI': 'true', 'TNB_HAS': 'node chromium'}, 1, 0),
    # xdist's worker sees the skips, the run must fail
    ({'it': FILE.format('no time'), 'whole': MODULE}, {'CI': 'true'}, 1, 1)])
def test_a_skip_must_be_expected(files, environ, status, workers, tmp_path):
    for name, text in files.items(): (tmp_path/f'test_{name}.py').write_text(text)
    (tmp_path/'test_other.py').write_text('def test_works(): pass\n')
    command = [sys.executable, '-m', 'pytest', '-p', 'xdist', '-p', 'skips', '-n', str(workers), '-c', os.devnull, '.']
    env = ENV | environ | {'PYTHONPATH': str(ROOT/'tests'), 'PYTEST_DISABLE_PLUGIN_AUTOLOAD': '1'}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == status, done.stdout
    named = done.stdout.partition('reasons that are not expected')[2]
    for name in files: assert (f'test_{name}.py' in named) == bool(status), done.stdout


def test_each_reason_in_the_tests_is_known():
    "Reasons that are written out; one that is made up at run time is seen when it is given."
    texts = {path.name: path.read_text(encoding='utf-8') for path in (ROOT/'tests').glob('test_*.py')}
    texts.pop('test_ci.py')
    found = [(name, reason) for name, text in texts.items() for _, reason in
        re.findall(r'''(?:reason=|pytest\.skip\()(["'])(.+?)\1[),\n]''', text)]
    assert len(found) > 20
    assert [place for place in found if unexpected([place[1]], set())] == []


# The lock

def pins():
    "Names, as pip compares them, and versions in constraints.txt."
    lines = [line.partition(' ;')[0] for line in (ROOT/'constraints.txt').read_text().splitlines() if line[0] != '#']
    return {name: version for name, version in (line.split('==') for line in lines)}


def normal(name): return re.sub('[-_.]+', '-', name).lower()


PYPROJECT = tomllib.loads((ROOT/'pyproject.toml').read_text())


def group(name):
    "The lines of a group of dependencies, with those of the groups that it includes."
    for line in PYPROJECT['dependency-groups'][name]:
        if isinstance(line, str): yield line
        else: yield from group(line['include-group'])


def needed(lines, extras=('',), found=None):
    "All distributions that these requirements bring here."
    found = {} if found is None else found
    for need in map(Requirement, lines):
        if need.marker and not any(need.marker.evaluate({'extra': extra}) for extra in extras): continue
        key = normal(need.name), tuple(sorted(need.extras))
        if key in found: continue
        found[key] = version(need.name)
        needed(requires(need.name) or [], need.extras or ('',), found)
    return {name: number for (name, _), number in found.items()}


def test_every_distribution_is_pinned():
    "Whatever the notebooks, tests and site need, on this system; and no build of torch, path or host is named."
    pytest.importorskip('nbdev')
    project = PYPROJECT['project']
    theirs = set(needed([*project['dependencies'], *project['optional-dependencies']['interop'], *group('dev')]))
    of_torch = {name for name in theirs if name.startswith(('nvidia', 'cuda', 'triton'))}  # which pins them itself
    assert len(theirs) > 100 and theirs - of_torch <= set(pins())
    assert all(re.fullmatch(r'[\w.]+', number) for number in pins().values())


def test_the_lock_is_within_the_bounds_of_pyproject():
    project, groups = PYPROJECT['project'], PYPROJECT['dependency-groups']
    asked = [*project['dependencies'], *sum(project['optional-dependencies'].values(), []), *chain(*map(group, groups))]
    for need in map(Requirement, asked): assert need.specifier.contains(pins()[normal(need.name)]), need


def test_only_what_users_want_is_published_as_extras():
    "What a clone needs is in groups."
    assert set(PYPROJECT['project']['optional-dependencies']) == {'interop', 'data'}
    assert set(PYPROJECT['dependency-groups']) == {'test', 'dev', 'bench', 'ci'}


def test_the_citation_is_of_this_version():
    said = (ROOT/'CITATION.cff').read_text(encoding='utf-8')
    assert f'\nversion: {transformer_nb.__version__}\n' in said
    assert f'\n## {transformer_nb.__version__}\n' in (ROOT/'CHANGELOG.md').read_text(encoding='utf-8')


# Workflows

WORKFLOWS = {path.stem: path.read_text(encoding='utf-8') for path in (ROOT/'.github/workflows').glob('*.yml')}


def jobs(text):
    "The text of each job of a workflow."
    names = re.split(r'^  (\w+):.*\n', text.partition('\njobs:\n')[2], flags=re.M)[1:]
    return dict(zip(names[::2], names[1::2], strict=True))


def test_workflows_name_what_is_known():
    "TNB_HAS says what a runner has in words of the list."
    lines = [line for text in WORKFLOWS.values() for line in re.findall('^ +TNB_HAS: (.+)', text, re.M)]
    named = {name for line in lines for name in line.split()}
    assert named and named <= {name.replace(' ', '-') for name in EXPECTED}


def test_actions_are_pinned_by_commit():
    "A tag can be moved. What the commit is called stands behind it."
    used = [line for text in WORKFLOWS.values() for line in re.findall('uses: (.+)', text)]
    ours = {line for line in used if line.startswith('./')}
    pinned = {line for line in used if re.fullmatch(r'[\w/-]+@[0-9a-f]{40}  # v[\d.]+', line)}
    assert len(used) > 10 and set(used) == ours | pinned and all((ROOT/line).exists() for line in ours)


def test_only_who_publishes_may_write():
    rights = {(name, job): re.findall(r'^ +([\w-]+: write)', text, re.M)
        for name, workflow in WORKFLOWS.items() for job, text in jobs(workflow).items()}
    assert {where: found for where, found in rights.items() if found} == {
        ('docs', 'deploy'): ['pages: write', 'id-token: write'], ('release', 'publish'): ['id-token: write']}
    for text in WORKFLOWS.values(): assert re.search(r'\npermissions:\n  contents: read\n\n', text)


def test_nothing_is_published_before_the_tests():
    assert 'needs: test\n' in jobs(WORKFLOWS['docs'])['deploy']
    assert 'needs: [test, build]\n' in jobs(WORKFLOWS['release'])['publish']


def test_what_is_being_published_is_not_broken_off():
    for text in (jobs(WORKFLOWS['docs'])['deploy'], WORKFLOWS['release']):
        assert re.findall('cancel-in-progress: (.+?)(?: +#.*)?\n', text) == ['false']


def test_torch_comes_without_the_libraries_of_gpus():
    install = {name for name, text in WORKFLOWS.items() if re.search(r'run: .*\b(make|pip) ', text)}
    index = '\n  PIP_EXTRA_INDEX_URL: https://download.pytorch.org/whl/cpu\n'
    assert install == {name for name, text in WORKFLOWS.items() if index in text} == {'test', 'slow', 'release'}


def test_the_systems_and_versions_that_are_named_are_tested():
    named = PYPROJECT['project']['classifiers']
    minors = [line.rpartition(' ')[2] for line in named if ':: Python :: 3.' in line]
    assert f'python: {minors}'.replace("'", '"') in jobs(WORKFLOWS['test'])['test']
    assert 'Operating System :: OS Independent' in named
    assert 'system: [macos-latest, windows-latest]' in jobs(WORKFLOWS['test'])['systems']


def test_the_weekly_examples_are_others():
    name, = re.findall('--hypothesis-profile ([a-z]+)', WORKFLOWS['slow'])
    assert not settings.get_profile(name).derandomize and settings.get_profile('fixed').derandomize


# pyproject.toml and Makefile

STRICT = """
import warnings
import pytest
{}
def test_it():
    warnings.warn_explicit('old', DeprecationWarning, 'file.py', 1, module={!r})
"""


def test_pytest_is_strict(tmp_path):
    "A marker nobody knows, an expected failure that is none, a warning of our own code."
    files = {'fine': ('', 'elsewhere', 'PASSED test_fine.py::test_it'),
             'ours': ('', 'transformer_nb.core', 'FAILED test_ours.py::test_it - DeprecationWarning: old'),
             'mark': ('@pytest.mark.slwo', 'elsewhere', "'slwo' not found"),
             'xfail': ('@pytest.mark.xfail', 'elsewhere', 'FAILED test_xfail.py::test_it - [XPASS(strict)]')}
    for name, (mark, module, _) in files.items(): (tmp_path/f'test_{name}.py').write_text(STRICT.format(mark, module))
    command = [sys.executable, '-m', 'pytest', '-c', ROOT/'pyproject.toml', '--rootdir=.', '-rA',
               '--continue-on-collection-errors', *(f'test_{name}.py' for name in files)]
    done = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    for *_, said in files.values(): assert said in done.stdout, done.stdout


@pytest.mark.skipif(not shutil.which('make'), reason='there is no program make')
@pytest.mark.parametrize('verb, installed', [
    ('demo', ['-e .']), ('test', ['-e .', "'pip>=25.1'", "-e '.[interop]' --group dev"])])
def test_make_installs_what_a_verb_needs(verb, installed, tmp_path):
    for name in ('Makefile', 'pyproject.toml', 'constraints.txt'): shutil.copy(ROOT/name, tmp_path)
    done = subprocess.run(['make', '-n', verb], cwd=tmp_path, capture_output=True, text=True)
    assert re.findall(r'--no-compile (.+?)(?: +#.*)?\n', done.stdout) == installed, done
