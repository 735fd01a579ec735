"The commands as a person at a terminal meets them: bad input, one line out for one line in, nothing half-written."
import gzip
import json
import shutil

import pytest
from conftest import tnb

PAIRS = [(f'a dog sees {w} .', f'ein Hund sieht {w} .') for w in 'Anna Paul Tom Maria Jakob Lena Martin Eva'.split()]


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path/'corpus'
    folder.mkdir()
    for name in ('train', 'val', 'test'):
        for side, lang in enumerate(('en', 'de')): (folder/f'{name}.{lang}').write_text(''.join(p[side] + '\n' for p in PAIRS), encoding='utf-8')
    return folder


def refused(tmp_path, *args, command='tnb-train', stdin=b''):
    "The one line with which a command refuses its input; nothing may be left behind."
    out = tmp_path/'run'
    extra = ('--steps', 2, '--device', 'cpu', '--out', out) if command == 'tnb-train' else ()
    status, stdout, err = tnb(command, *args, *extra, stdin=stdin)
    assert status == 2 and stdout == b'' and len(err.strip().splitlines()) == 1, (status, stdout, err)
    assert not out.exists()
    return err


def test_unequal_line_counts(corpus, tmp_path):
    with (corpus/'train.de').open('a') as f: f.write('noch eine Zeile .\n')
    err = refused(tmp_path, '--data', corpus)
    assert 'train.en' in err and '8 lines' in err and 'train.de has 9' in err


def test_empty_line_is_refused_or_dropped(corpus, tmp_path):
    lines = (corpus/'train.de').read_text().split('\n')
    lines[2] = ' '
    (corpus/'train.de').write_text('\n'.join(lines))
    err = refused(tmp_path, '--data', corpus)
    assert 'train.de:3: empty line' in err and '--drop-empty' in err
    status, _, err = tnb('tnb-train', '--data', corpus, '--drop-empty', '--steps', 1, '--device', 'cpu', '--out', tmp_path/'run')
    assert status == 0 and '7 pairs' in err, err


def test_not_utf8(corpus, tmp_path):
    (corpus/'train.en').write_bytes((corpus/'train.en').read_bytes().replace(b'Tom', b'T\xf6m'))
    assert 'train.en:3: not UTF-8' in refused(tmp_path, '--data', corpus)


def test_empty_file(corpus, tmp_path):
    (corpus/'train.en').write_bytes(b'')
    assert 'train.en: the file is empty' in refused(tmp_path, '--data', corpus)


def test_missing_side_folder_and_file(corpus, tmp_path):
    assert 'no such folder' in refused(tmp_path, '--data', tmp_path/'nowhere')
    assert 'no such file' in refused(tmp_path, '--data', f"{corpus/'train.en'},{corpus/'train.fr'}")
    (corpus/'train.de').unlink()
    assert 'train.de (or .gz) is missing' in refused(tmp_path, '--data', corpus)


def test_cut_off_gzip(corpus, tmp_path):
    whole = gzip.compress((corpus/'train.en').read_bytes())
    (corpus/'train.en').unlink()
    (corpus/'train.en.gz').write_bytes(whole[:-12])
    assert 'train.en.gz: cannot be read' in refused(tmp_path, '--data', corpus)


def test_vocabulary_larger_than_the_text_allows(corpus, tmp_path):
    err = refused(tmp_path, '--data', corpus, '--vocab-size', 5000)
    assert 'more than the text allows' in err and 'choose at most' in err


def test_sentence_longer_than_the_model(corpus, tmp_path):
    err = refused(tmp_path, '--data', corpus, '--max-len', 4)
    assert 'train.en:1:' in err and 'max_len 4' in err


def test_unknown_preset_and_run_that_is_there(corpus, tmp_path, small_run):
    assert 'no such preset' in refused(tmp_path, '--data', corpus, '--preset', 'huge')
    status, _, err = tnb('tnb-train', '--data', corpus, '--steps', 1, '--out', small_run)
    assert status == 2 and '--resume' in err


def test_missing_or_broken_checkpoint(tmp_path, small_run):
    assert 'no such checkpoint' in refused(tmp_path, tmp_path/'nowhere', command='tnb-translate')
    broken = tmp_path/'broken'
    shutil.copytree(small_run/'averaged', broken)
    data = (broken/'model.safetensors').read_bytes()
    (broken/'model.safetensors').write_bytes(data[:len(data)//2])
    assert 'model.safetensors: broken, cut off' in refused(tmp_path, broken, command='tnb-translate')
    (broken/'model.safetensors').unlink()
    assert 'model.safetensors: missing' in refused(tmp_path, broken, command='tnb-translate')
    (broken/'config.json').write_text('{"format": 1, "vocab')
    assert 'config.json: broken' in refused(tmp_path, broken, command='tnb-eval')


def test_one_line_out_for_one_line_in(small_run):
    lines = ['a dog runs .', '', '   ', 'two\u2028halves', 'x\x0by', 'größe ☃ 犬', 'the end .']
    status, out, err = tnb('tnb-translate', small_run, '--device', 'cpu', stdin='\n'.join(lines).encode())
    assert status == 0, err
    found = out.decode().split('\n')
    assert len(found) == len(lines) + 1 and found[-1] == ''
    assert found[1] == found[2] == ''


def test_translate_without_input_and_from_a_file(small_run, tmp_path):
    assert tnb('tnb-translate', small_run)[:2] == (0, b'')
    (tmp_path/'in.txt').write_text('a dog runs .\nthe cat sleeps .\n')
    from_file = tnb('tnb-translate', small_run, tmp_path/'in.txt')[1]
    assert from_file == tnb('tnb-translate', small_run, stdin=(tmp_path/'in.txt').read_bytes())[1]
    assert from_file.count(b'\n') == 2


def test_bad_bytes_to_translate_name_the_line(tmp_path, small_run):
    assert 'stdin:2: not UTF-8' in refused(tmp_path, small_run, command='tnb-translate', stdin=b'a dog .\n\xff\xfe\n')


def test_nbest_prints_number_text_and_score(small_run):
    status, out, err = tnb('tnb-translate', small_run, '--nbest', 2, stdin=b'a dog runs .\nthe cat sleeps .\n')
    assert status == 0, err
    rows = [line.split(' ||| ') for line in out.decode().splitlines()]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows) and {row[0] for row in rows} == {'1', '2'}
    for number in '12':
        scores = [float(row[2]) for row in rows if row[0] == number]
        assert 1 <= len(scores) <= 2 and scores == sorted(scores, reverse=True)


def test_sentence_longer_than_the_model_is_translated_in_parts(small_run):
    status, out, err = tnb('tnb-translate', small_run, '--beam', 1, stdin=b'a dog .\n' + b'dog '*400 + b'\n')
    assert status == 0 and out.count(b'\n') == 2 and all(line.strip() for line in out.splitlines()), err


def test_eval_as_table_and_json(small_run, corpus):
    status, out, err = tnb('tnb-eval', small_run, '--data', corpus, '--beam', 1)
    assert status == 0 and b'tok:13a' in out, err
    status, out, err = tnb('tnb-eval', small_run, '--data', corpus, '--beam', 1, '--json')
    scores = json.loads(out)
    assert set(scores['test']) == {'pairs', 'BLEU', 'chrF'} and scores['test']['pairs'] == len(PAIRS)


@pytest.mark.parametrize('command', ['tnb-train', 'tnb-translate', 'tnb-eval'])
def test_help_explains_every_option(command):
    status, out, _ = tnb(command, '-h')
    options = [line for line in out.decode().splitlines() if line.startswith('  --')]
    assert status == 0 and len(options) > 4


def test_resume_goes_on(corpus, tmp_path):
    args = ('--data', corpus, '--device', 'cpu', '--out', tmp_path/'run')
    assert tnb('tnb-train', *args, '--steps', 2)[0] == 0
    status, _, err = tnb('tnb-train', *args, '--steps', 4, '--resume')
    assert status == 0 and '4 steps' in err, err
