"Copy, reverse and sort, learned through the command line to 99 % exact sequences (as Sockeye's system tests do)."
import json
import random

import pytest
from conftest import tnb

SETTINGS = '--steps 500 --norm pre --dropout 0 --warmup 150 --lr-scale 0.4 --batch-tokens 768 --max-len 64'.split()
TASKS = {'copy': list, 'reverse': lambda s: s[::-1], 'sort': sorted}


def write_corpus(folder, task, n=12_000):
    "Sequences of 3 to 8 different letters, each sequence once: train, val and test share none."
    rng, rows = random.Random(0), {}
    while len(rows) < n: rows[tuple(rng.sample('abcdefghijklmnopqrst', rng.randint(3, 8)))] = None
    rows = list(rows)
    for name, part in (('val', rows[:100]), ('test', rows[100:400]), ('train', rows[400:])):
        for lang, f in (('in', list), ('out', TASKS[task])):
            (folder/f'{name}.{lang}').write_text(''.join(' '.join(f(s)) + '\n' for s in part))


def ok(*args, **kwargs):
    status, out, err = tnb(*args, **kwargs)
    assert status == 0, err
    return out.decode()


def mixed(lines):
    "The lines with an empty one before each third."
    return ''.join('\n'*(i % 3 == 0) + line + '\n' for i, line in enumerate(lines))


@pytest.mark.slow  # README's block (tests/test_first_minutes.py) goes the same way every time
@pytest.mark.parametrize('task', TASKS)
def test_task_is_learned(task, tmp_path):
    "train → average → translate, empty lines mixed in → eval."
    write_corpus(tmp_path, task)
    where = ('--data', tmp_path, '--src', 'in', '--tgt', 'out', '--out', tmp_path/'run')
    ok('tnb-train', *where, '--device', 'cpu', *SETTINGS)
    ok('tnb-average', tmp_path/'run', tmp_path/'mean', '--last', 3)
    given, right = (mixed((tmp_path/f'test.{lang}').read_text().splitlines()) for lang in ('in', 'out'))
    found = ok('tnb-translate', tmp_path/'mean', '--device', 'cpu', stdin=given.encode())
    pairs = list(zip(found.splitlines(), right.splitlines(), strict=True))
    assert all(f == '' for f, r in pairs if r == '')
    pairs = [p for p in pairs if p[1]]
    exact = sum(f == r for f, r in pairs)/len(pairs)
    assert exact >= .99, f'{exact:.1%} exact, for example {next(p for p in pairs if p[0] != p[1])}'
    scores = json.loads(ok('tnb-eval', tmp_path/'mean', '--device', 'cpu', '--json'))
    assert scores['test']['pairs'] == len(pairs) and scores['test']['BLEU']['score'] > 97
