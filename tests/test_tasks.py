"Copy, reverse and sort, learned through the command line to 99 % exact sequences (as Sockeye's system tests do)."
import random

import pytest
from conftest import tnb

SETTINGS = '--steps 1500 --norm pre --dropout 0 --warmup 300 --lr-factor 0.6 --batch-tokens 1536 --max-len 64'.split()
TASKS = {'copy': list, 'reverse': lambda s: s[::-1], 'sort': sorted}


def write_corpus(folder, task, n=12_000):
    "Sequences of 3 to 8 different letters, each sequence once: train, val and test share none."
    rng, rows = random.Random(0), {}
    while len(rows) < n: rows[tuple(rng.sample('abcdefghijklmnopqrst', rng.randint(3, 8)))] = None
    rows = list(rows)
    for name, part in (('val', rows[:100]), ('test', rows[100:400]), ('train', rows[400:])):
        for lang, f in (('in', list), ('out', TASKS[task])):
            (folder/f'{name}.{lang}').write_text(''.join(' '.join(f(s)) + '\n' for s in part))


@pytest.mark.parametrize('task', TASKS)
def test_task_is_learned(task, tmp_path):
    write_corpus(tmp_path, task)
    status, _, err = tnb('tnb-train', '--data', tmp_path, '--src', 'in', '--tgt', 'out', '--out', tmp_path/'run', '--device', 'cpu', *SETTINGS)
    assert status == 0, err
    status, out, err = tnb('tnb-translate', tmp_path/'run', tmp_path/'test.in', '--device', 'cpu')
    assert status == 0, err
    pairs = list(zip(out.decode().splitlines(), (tmp_path/'test.out').read_text().splitlines(), strict=True))
    exact = sum(found == right for found, right in pairs)/len(pairs)
    assert exact >= .99, f'{exact:.1%} exact, for example {next(p for p in pairs if p[0] != p[1])}'
