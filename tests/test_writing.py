"How its corpus is written belongs to a model: texts are written so for it, and its answers as people write."
import io
import json
import random
import timeit
from contextlib import redirect_stderr

import pytest
import torch
from conftest import ROOT

from transformer_nb import checkpoints, cli
from transformer_nb.data.tokenizer import train_tokenizer
from transformer_nb.decode.text import as_written, naturally, writing
from transformer_nb.decode.translator import Translator
from transformer_nb.transformer import Transformer, TransformerConfig

TABLE = [  # what people type, what the demo's corpus would hold
    ('Yesterday, my neighbour bought a new car!', 'yesterday , my neighbour bought a new car .'),
    ('The dog runs', 'the dog runs .'),
    ('the dog runs .', 'the dog runs .'),
    ('I saw the dog.', 'I saw the dog .'),
    ('Anna’s dog runs.', "Anna 's dog runs ."),
    ("Did Anna's mother sing?", "did Anna 's mother sing ?"),
    ('Xylophones run.', 'Xylophones run .'),
    ('Is it so?!', 'is it so ? .'),
    ('It was 3.14, or 1,000.', 'it was 3.14 , or 1,000 .'),
    ('The well-known dog "runs".', 'the well-known dog "runs" .'),
    ('  The   dog\truns . ', 'the dog runs .'),
    ('犬が走る。', '犬が走る。'),
    ('猫は寝ている！', '猫は寝ている！'),
]
NATURAL = 'Gestern kaufte mein Nachbar ein neues Auto.'


@pytest.fixture(scope='module')
def demo(): return Translator.from_pretrained('demo', 'cpu')


@pytest.fixture(scope='module')
def how(demo): return demo.about['writing']['source']


@pytest.mark.parametrize('text, line', TABLE)
def test_a_text_is_written_like_the_corpus(text, line, how):
    assert as_written(text, how) == line == as_written(line, how)
    assert as_written(text, None) == text  # a corpus that is written as usual


def test_the_live_sentence_writes_the_same(how):
    racer = pytest.importorskip('py_mini_racer', reason='no engine for JavaScript')
    script = (ROOT/'tools/site_libs/live/worker.js').read_text()
    start = script.index('const asInTheCorpus')
    js = racer.MiniRacer()
    js.eval(script[start:script.index('// How many letters')].replace('const asInTheCorpus', 'var asInTheCorpus'))
    js.eval(f"var words = new Set({json.dumps(how['words'].split())})")
    for text, line in TABLE: assert js.eval(f'asInTheCorpus({json.dumps(text)}, words)') == line, text


@pytest.mark.parametrize('line', ['Sie schläft .', 'sie schläft .', 'Anna singt .'])
def test_what_the_corpus_could_have_written_stays(line, demo):
    "*Sie* is a word of its own: she, small, is another."
    assert as_written(line, demo.about['writing']['target']) == line


def test_many_signs_take_no_quadratic_time(how):
    def seconds(text): return min(timeit.repeat(lambda: as_written(text, how), number=1, repeat=3))
    assert seconds('.'*16_000 + 'x') < 8*seconds('.'*4000 + 'x') + .01
    assert as_written('The dog runs ...', how) == 'the dog runs . . .'


def test_writing_is_found_in_a_corpus():
    lower = ['the dog ran , and ran .', 'did it ?', 'it ran .']
    assert writing(lower) == {'lower': 'all', 'ends': True, 'words': ', . ? and did dog it ran the'}
    assert writing(['anna ran ,', 'Anna sang ,', 'she is in Ulm ,'])['ends'] is False
    assert writing(['the dog and Anna ran .', 'it sang .'])['lower'] == 'first'
    assert writing(['The dog ran , and ran .', 'It sang .'])['lower'] == ''
    for usual in (['The dog ran.', 'It sang, well.'], ['犬が走る。'], ['no sign'], []): assert writing(usual) is None
    assert writing([f'word{i} .' for i in range(10_001)])['words'] == ''


def test_an_answer_is_written_as_people_write(how):
    assert naturally('gestern , sagte Anna , kam er .', how) == 'Gestern, sagte Anna, kam er.'
    assert naturally('gestern .', None) == 'gestern .' and naturally('', how) == ''
    assert naturally('gestern .', how | {'lower': ''}) == 'gestern.'


def test_natural_texts_are_translated(demo):
    "Before, the demo made nonsense of the first one."
    text, line = TABLE[0]
    assert demo.translate([text, line]) == [NATURAL, 'gestern kaufte mein Nachbar ein neues Auto .']
    assert demo.nbest([text])[0][0].score == pytest.approx(demo.nbest([line])[0][0].score)
    assert demo.translate(['The dog runs. The child sleeps.', '', 'the dog runs .']) == [
        'Der Hund läuft. Das Kind schläft.', '', 'der Hund läuft .']
    assert demo.translate(['犬が走る。']) == demo.translate(['犬が走る。 '])  # no sign is parted, no stop is added


def test_what_is_asked_about_a_translation_is_written_so_too(demo):
    text, line = TABLE[0]
    mine = 'gestern kaufte mein Nachbar ein neues Auto .'
    assert demo.score([text], [NATURAL]) == pytest.approx(demo.score([line], [mine]))
    assert demo.align([text], [NATURAL]) == demo.align([line], [mine]) == demo.align([text])
    assert demo.attention(text)['source'] == demo.attention(line)['source']
    assert demo.sample([text], temperature=1e-3) == [NATURAL]


def test_words_never_seen_are_named(demo, tmp_path, capsys):
    texts = ['The dog runs!', 'A xylophone runs. Two zebras run.', '']
    assert demo.unknown(texts) == [[], ['xylophone', 'zebras'], []]
    assert Translator(demo.model, demo.tokenizer).unknown(['the 犬 runs xylophone']) == [['犬']]  # no list: characters
    (tmp_path/'in.txt').write_text('A xylophone and two zebras run.\n', encoding='utf-8')
    line = 'never seen in training: xylophone, zebras; expect nonsense there'
    with pytest.warns(UserWarning, match=f'^{line}$'): cli.translate('demo', str(tmp_path/'in.txt'))
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_models_without_it_leave_texts_as_they_are():
    "Older ones, and those from elsewhere."
    lines = [' '.join(random.Random(i).choices('a dog cat runs sees .'.split(), k=5)) for i in range(30)]
    tokenizer = train_tokenizer(lines, 30)
    model = Transformer(TransformerConfig(vocab_size=30, N=1, d_model=16, d_ff=32, h=2))
    translator = Translator(model, tokenizer)
    assert [translator._parts(text)[0] for text, _ in TABLE] == [[text] for text, _ in TABLE]
    assert translator._written(['A dog!']) == ['A dog!']


def test_a_run_of_ones_own_knows_its_corpus(tmp_path):
    for side in ('en', 'de'):
        (tmp_path/f'train.{side}').write_text("the dog ran .\nit ran , it ran .\nAnna sang .\n"*10, encoding='utf-8')
    torch.manual_seed(0)
    with redirect_stderr(io.StringIO()):
        cli.train(data=str(tmp_path), out=str(tmp_path/'run'), steps=1, device='cpu', threads=1, warmup=1)
    how = checkpoints.load(tmp_path/'run').training['writing']
    assert how['source'] == how['target'] == {'lower': 'first', 'ends': True, 'words': ', . Anna dog it ran sang the'}
