"The Translator: any text in, one line out for each; and the scores."
import pickle
import random
import threading
import time
from contextlib import nullcontext
from threading import Barrier, Event
from urllib.error import URLError

import numpy as np
import pytest
import sacrebleu
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from transformer_nb.core import InputError
from transformer_nb.data.batching import make_batch
from transformer_nb.data.tokenizer import EOS, PAD, train_tokenizer
from transformer_nb.decode import translator as translator_module
from transformer_nb.decode.evaluation import compare, score
from transformer_nb.decode.search import beam_search, length_penalty
from transformer_nb.decode.alignment import between_words
from transformer_nb.decode.text import clean, rejoin, split_text
from transformer_nb.decode.translator import TooLong, Translator, _side_by_side
from transformer_nb.course.viewer import plot_attention
from transformer_nb.parts import inference as inference_module
from transformer_nb.experiments.table2 import paper_bleu, paper_tokens
from transformer_nb.transformer import Transformer, TransformerConfig

WORDS = 'a the dog cat bird tree sees runs sleeps near small big Hund Katze 犬 猫 が 。 走る 비 옵니다 집'.split()
SENTENCES = [' '.join(random.Random(i).choices(WORDS, k=3 + i % 9)) + ' .' for i in range(400)]
ANY = st.text(st.characters(exclude_categories=('Cs',)), max_size=5000)     # every character but lone surrogates
SPLIT = st.text(st.one_of(st.sampled_from('.,!?。、！？ \n\t"」ab다요니죠'), st.characters()), max_size=300)
FAST = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


def make(max_len=32, **changes):
    "A small model without training; it ends its sentences soon."
    tokenizer = train_tokenizer(SENTENCES, 80)
    torch.manual_seed(0)
    cfg = TransformerConfig(
        **dict(vocab_size=tokenizer.vocab_size, N=1, d_model=16, d_ff=32, h=2, dropout=0.0, max_len=max_len) | changes
    )
    return Translator(Transformer(cfg), tokenizer)


@pytest.fixture(scope='module')
def translator(): return make()


@pytest.fixture(scope='module')
def copier():
    "A model that has learned to copy short sentences."
    found = make(64, d_model=64, d_ff=128, h=4)
    model, rows = found.model.train(), found.tokenizer.encode(SENTENCES[:300])
    optimizer, rng = torch.optim.Adam(model.parameters(), lr=2e-3), random.Random(0)
    for _ in range(300):
        batch = make_batch([(row, row) for row in rng.choices(rows, k=24)])
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(
            model(batch.src, batch.tgt_in).transpose(1, 2), batch.tgt_out, ignore_index=PAD
        ).backward()
        optimizer.step()
    return Translator(model, found.tokenizer)


def reads_again(translator, hyp):
    "An output that has an end (`max_len` cuts one off without) and is cut into the same pieces when it is read again."
    if len(hyp.tokens) >= translator.cfg.max_len: return False
    row, = translator.tokenizer.target.encode([hyp.text])
    return translator.tokenizer.target.pieces(row) == hyp.tokens


# --- any text in, one line out ----------------------------------------------------------------------------------------

@FAST
@given(st.lists(ANY, max_size=3))
def test_one_line_for_each_text(translator, texts):
    found = translator.translate(texts, beam=1)
    assert len(found) == len(texts)
    for text, out in zip(texts, found):
        assert isinstance(out, str) and len(out.splitlines()) <= 1, (text, out)
        if not text.strip(): assert out == ''


@FAST
@given(ANY)
def test_beams_and_nbest_take_any_text_too(translator, text):
    hyps = translator.nbest([text, ''], beam=2, n=2)
    assert hyps[1] == [('', 0., [])] and 1 <= len(hyps[0]) <= 2
    assert all(len(hyp.text.splitlines()) <= 1 for hyp in hyps[0])


@pytest.mark.parametrize('max_len', [1, 2, 3, 4, 7])
def test_models_that_hold_hardly_anything(max_len):
    found = make(max_len).translate(['', 'ﷺ', 'Hund sees dog . ' * 9, '犬' * 50, '\U000f0000' * 50, 'x' * 100])
    assert len(found) == 6 and found[0] == ''


@pytest.mark.parametrize(
    'text',
    [
        '',
        ' ',
        '\u3000\t',
        '\0',
        '\x00\x1f\x7f\x9f',
        '\r\n',
        '\u2028\x85',
        '\ufeff\u200b\xad\u2060',
        '\ud800\udfff',
        '\x1c\x1d',
    ],
)
def test_nothing_visible_is_an_empty_line(translator, text):
    assert clean(text) == '' and translator.translate([text, 'dog', text]) == ['', *translator.translate(['dog']), '']


def test_lone_surrogates_and_controls_are_taken_out(translator):
    assert clean('do\x07g\ud83d') == 'dog'
    assert translator.translate(['do\x07g\ud83d']) == translator.translate(['dog'])


def test_a_newline_of_the_vocabulary_stays_inside_its_line():
    class Lines:
        target = property(lambda self: self)
        def __getattr__(self, name): return getattr(inner, name)
        def decode(self, ids): return ['one\ntwo\u2028three\r\n' for _ in ids]
    found = make()
    inner, found.tokenizer = found.tokenizer, Lines()
    assert found.translate(['dog', 'cat']) == ['one two three']*2


@pytest.mark.parametrize('alpha', [0., .6, 1.])
def test_scores_of_nbest_and_score_agree(copier, alpha):
    "With the same length penalty; both leave out what is never said. (Cut into other pieces, it is another output.)"
    asked, compared = SENTENCES[:15], 0
    for text, hyps in zip(asked, copier.nbest(asked, alpha=alpha, n=3)):
        for hyp in hyps:
            if not reads_again(copier, hyp): continue
            assert copier.score(text, hyp.text, alpha=alpha) == pytest.approx(hyp.score, abs=1e-4)
            compared += 1
    assert compared >= 30                                                       # of 45
    pairs = [(text, hyps[0]) for text, hyps in zip(asked, copier.nbest(asked, alpha=alpha))
             if reads_again(copier, hyps[0])]
    found = copier.score([text for text, _ in pairs], [hyp.text for _, hyp in pairs], alpha=alpha)
    assert found == pytest.approx([hyp.score for _, hyp in pairs], abs=1e-4) and len(pairs) >= 12


def test_a_text_in_parts_has_the_sum_of_its_parts_scores(copier):
    "`score` does not take a text apart: which part of a translation belongs to which part of a text, nobody has said."
    lines = [line for line in SENTENCES if '。' not in line and '니다' not in line][200:230]
    whole, parts = copier.nbest(' '.join(lines))[0], copier.nbest(lines)
    assert whole.score == pytest.approx(sum(hyps[0].score for hyps in parts), abs=1e-3)
    with pytest.raises(TooLong): copier.score(' '.join(lines), whole.text)


def test_scores_differ_by_the_length_penalty(copier):
    "`nbest` divides by it, `score` does not unless it is told to."
    for alpha in (0., .6):
        best = [(text, hyps[0]) for text, hyps in zip(SENTENCES[:8], copier.nbest(SENTENCES[:8], alpha=alpha))]
        pairs = [(text, hyp) for text, hyp in best if reads_again(copier, hyp)]
        assert len(pairs) >= 6
        for text, hyp in pairs:
            whole = hyp.score*length_penalty(len(hyp.tokens) + 1, alpha)
            assert copier.score([text], [hyp.text]) == [pytest.approx(whole, abs=1e-4)]


def test_the_greedy_path_is_kept_when_asked_for(monkeypatch):
    "By `translate` and by `nbest`; otherwise the search is the published one."
    asked = []
    def watched(*args, keep_greedy=False, **settings):
        asked.append(keep_greedy)
        return beam_search(*args, keep_greedy=keep_greedy, **settings)
    monkeypatch.setattr(translator_module, 'beam_search', watched)
    found = make()
    for ask in (found.translate, found.nbest):
        ask(['dog'])
        ask(['dog'], keep_greedy=True)
    assert asked == [False, True]*2


def test_order_empty_lines_and_batch_budget(copier):
    rng = random.Random(1)
    lines = [rng.choice(['', '  ', *SENTENCES[300:]]) for _ in range(60)]
    found = copier.translate(lines)
    assert [out == '' for out in found] == [line.strip() == '' for line in lines]
    for budget in (1, 40, 300, 10**6): assert copier.translate(lines, batch_tokens=budget) == found
    order = rng.sample(range(60), 60)
    assert copier.translate([lines[i] for i in order]) == [found[i] for i in order]
    assert [copier.translate([line])[0] for line in lines[:12]] == found[:12]


def test_a_str_gives_a_str_and_a_list_a_list(translator):
    text, many = 'the dog sees', ['the dog sees', 'cat']
    for call in (translator.translate, translator.nbest, translator.sample, translator.unknown,
                 lambda texts: translator.align(texts, texts), lambda texts: translator.score(texts, texts)):
        assert call(text) == call([text])[0] and len(call(many)) == 2 and call([]) == []
    assert isinstance(translator.translate(text), str) and isinstance(translator.score(text, text), float)
    assert translator.translate('') == '' and translator.nbest('') == [('', 0., [])]
    with pytest.raises(TypeError, match='put the sentence into a list'): translator.encode(text)
    with pytest.raises(InputError, match='1 texts and 2 translations'): translator.score(text, many)


def test_texts_may_come_one_by_one(copier):
    texts = SENTENCES[:3]
    assert copier.translate(iter(texts)) == copier.translate(texts)
    assert copier.align(iter(texts)) == copier.align(texts)


def test_a_sentence_that_is_too_long_is_told_by_another_process():
    "A pool waits for ever for an error that cannot be sent."
    error = TooLong(2, 3000, 1024)
    twin = pickle.loads(pickle.dumps(error))
    assert (str(twin), twin.index) == (str(error), 2) and 'sentence 3: 3,000 tokens' in str(twin)


def test_a_seed_of_numpy_is_a_whole_number(translator):
    assert translator.sample(SENTENCES[0], seed=np.int64(4)) == translator.sample(SENTENCES[0], seed=4)
    with pytest.raises(InputError, match='seed 1.5 must be a whole number'): translator.sample('a dog', seed=1.5)


def test_no_translation_is_longer_than_it_may_be(translator):
    for limit in (1, 2, 5):
        found = translator.nbest(SENTENCES[:20], max_new_tokens=limit)
        assert max(len(hyp.tokens) for hyps in found for hyp in hyps) <= limit
        assert translator.translate(SENTENCES[:20], max_new_tokens=limit) == [hyps[0].text for hyps in found]
    assert all(len(translator.tokenizer.target.encode([line])[0]) <= 9
               for line in translator.sample(SENTENCES[:20], max_new_tokens=3))
    assert translator.translate(SENTENCES[:20], max_new_tokens=999) == translator.translate(SENTENCES[:20])
    with pytest.raises(InputError, match='max_new_tokens 0'): translator.translate('dog', max_new_tokens=0)


@pytest.mark.parametrize(
    'wrong',
    [
        dict(beam=0),
        dict(alpha=-1.0),
        dict(alpha=float('nan')),
        dict(parallel=0),
        dict(batch_tokens=0),
        dict(batch_tokens=-5),
    ],
)
def test_settings_without_sense_are_refused(translator, wrong):
    with pytest.raises(InputError): translator.translate(['dog'], **wrong)


# --- long texts -------------------------------------------------------------------------------------------------------

@settings(max_examples=300, deadline=None)
@given(SPLIT, st.integers(1, 40))
def test_splitting_loses_nothing(text, most):
    parts = split_text(text, lambda part: len(part) <= most)
    assert ''.join(parts) == text
    assert all(len(part) <= most for part in parts) and (all(parts) or not text)


@settings(max_examples=300, deadline=None)
@given(SPLIT, st.integers(1, 40))
def test_rejoining_loses_nothing_but_space(text, most):
    parts = split_text(text, lambda part: len(part) <= most)
    line, squeezed = rejoin(parts, [' '.join(part.split()) for part in parts]), ''.join(text.split())
    assert ''.join(line.split()) == squeezed and len(line.splitlines()) <= 1


@pytest.mark.parametrize('most, text, parts', [
    (9, 'It rains. We stay! Do you? Yes', ['It rains. ', 'We stay! ', 'Do you? ', 'Yes']),
    (14, 'He said "no." She left.', ['He said "no." ', 'She left.']),
    (9, '3.14 and 2.71 are both', ['3.14 and ', '2.71 ', 'are both']),
    (5, '犬。「猫？」鳥！！魚', ['犬。', '「猫？」', '鳥！！', '魚']),
    (9, '비가 옵니다 집에 가세요 그래', ['비가 옵니다 ', '집에 가세요 ', '그래']),
    (14, 'one, two, three, four', ['one, two, ', 'three, four']),
    (9, 'one\ntwo\n\nthree', ['one\n', 'two\n\n', 'three']),
    (9, 'abcdefghijklmnop', ['abcdefgh', 'ijklmnop']),
    (99, 'It rains. We stay.', ['It rains. We stay.']),
])
def test_where_texts_are_cut(most, text, parts):
    assert split_text(text, lambda part: len(part.strip()) <= most) == parts


@pytest.mark.parametrize(
    'text',
    ['. ' * 25_000, '.' * 50_000, ' ' * 50_000, 'a' * 50_000, '다 ' * 25_000, ', ' * 25_000, '\n' * 50_000],
)
def test_splitting_takes_no_quadratic_time(text):
    "Counted in characters that are looked at: twice the text takes little more than twice as many."
    def looked_at(text):
        seen = 0
        def fits(part):
            nonlocal seen
            seen += len(part)
            return len(part) <= 1000
        assert ''.join(split_text(text, fits)) == text
        return seen
    assert looked_at(text) < 2.5*looked_at(text[:len(text)//2])


def test_a_long_text_is_translated_as_its_sentences_are(copier):
    lines = [line for line in SENTENCES if '。' not in line and '니다' not in line][200:230]
    long = ' '.join(lines)
    with pytest.raises(TooLong) as e: copier.encode(['', long])
    assert e.value.index == 1
    with pytest.raises(TooLong): copier.attention(long)
    single = copier.translate(lines)
    parts = copier._parts(long)[0]
    assert [part.strip() for part in parts] == lines
    assert copier.translate([long, '']) == [rejoin(parts, single), ''] and rejoin(parts, single).replace(
        ' ', ''
    ) == ''.join(single).replace(' ', '')
    _, *others = copier.nbest([long], beam=2, n=2)[0]
    assert len(others) == 1


def test_joints():
    assert rejoin(['雨だ。', '家だ。'], ['Rain.', 'Home.']) == 'Rain. Home.'
    assert rejoin(['Rain. ', 'Home.'], ['雨だ。', '家だ。']) == '雨だ。家だ。'
    assert rejoin(['비다. ', '집이다.'], ['Rain.', '']) == 'Rain.'
    assert rejoin(['abc', 'def'], ['abc', 'def']) == 'abcdef'
    assert rejoin([], []) == ''


def test_attention_of_strange_text(translator):
    maps = translator.attention('Hund\0 \ud800犬')
    n, m = len(maps['source']), len(maps['target'])
    assert maps['cross'].shape == (1, 2, m, n)
    with pytest.raises(InputError, match='empty'): translator.attention('\u3000\0')


# --- threads ----------------------------------------------------------------------------------------------------------

def test_a_search_with_little_to_do_takes_one_thread(translator, monkeypatch):
    "For many threads wait for each other, on a busy machine for seconds; afterwards there are as many as before."
    seen, step, threads = [], translator.ready.step, torch.get_num_threads()
    def watched(*args):
        seen.append(torch.get_num_threads())
        return step(*args)
    monkeypatch.setattr(translator.ready, 'step', watched)
    monkeypatch.setattr(translator.ready, 'threads', nullcontext)
    try:
        torch.set_num_threads(2)
        translator.translate('a dog runs .')
        assert {*seen} == {1} and torch.get_num_threads() == 2
        seen.clear()
        monkeypatch.setattr(inference_module, 'LITTLE', 0)
        translator.translate('a dog runs .')
        assert {*seen} == {2}
    finally: torch.set_num_threads(threads)


# --- side by side -----------------------------------------------------------------------------------------------------

def test_batches_side_by_side_do_what_one_by_one_does(copier):
    lines, threads = [*SENTENCES[:100], '', ' '.join(SENTENCES[300:330])], torch.get_num_threads()
    alone = copier.nbest(lines, beam=2, n=2, batch_tokens=512)
    shared = copier.nbest(lines, beam=2, n=2, batch_tokens=512, parallel=3)
    flat = lambda found, name: [getattr(hyp, name) for hyps in found for hyp in hyps]
    for name in ('text', 'tokens'): assert flat(shared, name) == flat(alone, name)
    assert flat(shared, 'score') == pytest.approx(flat(alone, 'score'), abs=1e-4)
    assert torch.get_num_threads() == threads
    assert copier.translate([], parallel=2) == [] and copier.translate(['']*3, parallel=2) == ['']*3


def test_batches_really_run_side_by_side(copier, monkeypatch):
    "Each waits for the other, so that neither would end alone; and each has one core."
    meet, cores, search = Barrier(2, timeout=60), [], Translator.search
    def waiting(self, *args):
        meet.wait()
        cores.append(torch.get_num_threads())
        return search(self, *args)
    monkeypatch.setattr(Translator, 'search', waiting)
    rows, before = [[5, 6, EOS]]*4, torch.get_num_threads()
    torch.set_num_threads(2)
    try: _side_by_side(lambda rows: copier.search(rows, 1, 0., 1), [rows]*4, 2)
    finally: torch.set_num_threads(before)
    assert cores == [1]*4


def test_two_that_begin_side_by_side_leave_the_number_of_cores(monkeypatch):
    "While the first begins, one core is what every new thread would take, and the second would leave it so."
    class Slow(Barrier):
        def wait(self):
            super().wait()
            all_are_set.set()
            time.sleep(.1)
    monkeypatch.setattr(translator_module, 'Barrier', Slow)
    all_are_set, before, found = Event(), torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        threads = [threading.Thread(target=_side_by_side, args=(lambda n: n, [1, 2], 2)) for _ in range(2)]
        threads[0].start()
        all_are_set.wait()
        threads[1].start()
        for thread in threads: thread.join()
        later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        later.start()
        later.join()
        assert found == [2]
    finally: torch.set_num_threads(before)


def test_an_error_in_one_batch_begins_no_further_one(copier):
    before, begun, over = {*threading.enumerate()}, [], Event()
    def failing(rows):
        begun.append(rows)
        if not rows: raise InputError('no')
        over.wait(60)
    with pytest.raises(InputError, match='no'): _side_by_side(failing, [[]] + [[[5, EOS]]]*50, 2)
    over.set()
    for thread in {*threading.enumerate()} - before: thread.join(60)
    assert len(begun) <= 3   # the one that failed, its neighbour, and the next one of its thread
    with pytest.raises(InputError): copier.translate(SENTENCES, beam=0, parallel=2)
    assert copier.translate(SENTENCES[:9], parallel=2) == copier.translate(SENTENCES[:9])   # and goes on


def test_attention_in_16_bits_can_be_drawn():
    "A GPU computes in bfloat16 by itself; maps are numbers to look at."
    maps = Translator.from_pretrained('demo', 'cpu', dtype='bfloat16').attention('a dog runs .')
    for kind in ('encoder', 'decoder', 'cross'): assert maps[kind].dtype == torch.float32
    plot_attention(maps['cross'][-1].mean(0), maps['target'], maps['source'])
    assert between_words(maps['cross'], maps['target'], maps['source']).dtype == torch.float32


# --- 8 bits -----------------------------------------------------------------------------------------------------------

def test_int8_stays_near(copier):
    small = Translator(copier.model, copier.tokenizer, int8=True)
    plain, eight = copier.translate(SENTENCES[300:]), small.translate(SENTENCES[300:])
    assert score(plain, SENTENCES[300:])['BLEU']['score'] > 50                # it has learned something
    assert score(eight, plain)['BLEU']['score'] > 90
    assert copier.translate(SENTENCES[300:]) == plain                         # the model itself is untouched


def test_int8_from_a_checkpoint(small_run, monkeypatch):
    "Where there is a GPU, auto means the CPU: only there are 8-bit products."
    with monkeypatch.context() as seems:
        seems.setattr(torch.cuda, 'is_available', lambda: True)
        small = Translator.from_pretrained(small_run, int8=True)
    assert small.device == torch.device('cpu')
    assert small.ready.int8 and len(small.translate(['a dog runs .', ''])) == 2
    plain = Translator.from_pretrained(small_run, 'cpu').nbest(SENTENCES[:16], beam=1, batch_tokens=64)
    alone = small.nbest(SENTENCES[:16], beam=1, batch_tokens=64)
    shared = small.nbest(SENTENCES[:16], beam=1, batch_tokens=64, parallel=2)
    scores = lambda found: [hyp.score for hyps in found for hyp in hyps]
    assert scores(shared) == pytest.approx(scores(alone), abs=1e-4)
    # or float32 in the threads would not be seen
    assert scores(plain) != pytest.approx(scores(alone), abs=1e-4)


# --- scores -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize('text, words', [
    ('Der EU-Bericht.', 'Der EU ##AT##-##AT## Bericht .'),
    ('Nord-Süd-Gefälle', 'Nord ##AT##-##AT## Süd ##AT##-##AT## Gefälle'),
    ('ja - nein', 'ja - nein'),
    ('1,5 oder 1.000, und', '1,5 oder 1.000 , und'),
    ('„Nein“, sagte er.', '„ Nein “ , sagte er .'),
    ("Wie geht's?", "Wie geht ' s ?"),
    ('Am 3. Mai, z.B. J. Meier (usw.)...', 'Am 3. Mai , z.B. J. Meier ( usw . ) ...'),
    ('', ''), ('.', '.'), ('...', '...'), ('a_b', 'a _ b'),
])
def test_words_of_the_paper(text, words): assert paper_tokens(text) == words


def test_paper_bleu_by_hand():
    hyp, ref = ['Der EU-Bericht lobt Ulm.'], ['Der EU-Plan lobt Ulm.']
    # words: Der EU ##AT##-##AT## X lobt Ulm . ; of 7, 6, 5, 4 n-grams 6, 4, 2, 0 are right, hence 0 without smoothing
    assert paper_bleu(hyp, ref)['score'] == 0
    hyp, ref = ['Der alte EU-Bericht lobt Ulm.'], ['Der neue EU-Bericht lobt Ulm.']
    # 8 words, one wrong: 7/8, 5/7, 4/6, 3/5
    assert paper_bleu(hyp, ref)['score'] == pytest.approx(100*(7/8*5/7*4/6*3/5)**.25, abs=.01)
    assert paper_bleu(['der alte EU-Bericht lobt Ulm.'], ref)['score'] < paper_bleu(hyp, ref)['score']   # cased
    found = paper_bleu(ref, ref)
    assert (
        found['score'] == 100
        and 'tok:moses-like+compounds' in found['signature']
        and 'smooth:none' in found['signature']
    )


def test_score_is_sacrebleus():
    hyp, ref = (
        ['Das ist ein Hund.', 'Die Katze schläft heute.', 'Er sieht den alten Baum.'],
        ['Das ist der Hund.', 'Die Katze schläft.', 'Er sieht den alten Baum.'],
    )
    found = score(hyp, ref)
    assert found['BLEU']['score'] == round(sacrebleu.corpus_bleu(hyp, [ref]).score, 2)
    assert found['chrF']['score'] == round(sacrebleu.corpus_chrf(hyp, [ref]).score, 2)
    assert set(found['BLEU']) == {'score', 'signature'} and 'tok:13a' in found['BLEU']['signature']
    for name, value in score(hyp*30, ref*30, intervals=True).items():
        low, high = value['interval']
        assert 0 <= low < value['score'] < high <= 100 and 'bs:1000' in value['signature'], name
    assert score(['x'], ['y'], intervals=True)['BLEU']['score'] == 0


@pytest.mark.parametrize('function', [score, paper_bleu, lambda h, r: compare(h, h, r), lambda h, r: compare(r, h, r)])
def test_unequal_numbers_of_lines_are_refused(function):
    with pytest.raises(InputError, match='2 translations, but 1 references'): function(['a', 'b'], ['a'])
    with pytest.raises(InputError, match='nothing to score'): function([], [])


@pytest.mark.parametrize('function', [score, lambda h, r: compare(h, h, r), lambda h, r: compare([h], [h], r)])
def test_a_str_is_no_list_of_lines(function):
    "Its characters would be the lines."
    with pytest.raises(TypeError, match='put a single one into a list'): function('a dog', 'a cat')


def test_a_tokenizer_that_cannot_be_downloaded_is_told(monkeypatch):
    def offline(**_): raise URLError('Name or service not known')
    monkeypatch.setattr(sacrebleu, 'BLEU', offline)
    refused = pytest.raises(InputError, match="tokenizer 'flores200': .* cannot download")
    with refused: score(['a'], ['a'], tokenize='flores200')


def test_compare():
    rng = random.Random(0)
    ref = SENTENCES[:80]
    noisy = lambda share: [' '.join(w if rng.random() > share else 'x' for w in line.split()) for line in ref]
    bad, good = noisy(.4), noisy(.1)
    found = compare(bad, good, ref)
    for name in ('BLEU', 'chrF'):
        assert found[name]['p'] < .01 and found[name]['difference'] > 0
        assert found[name]['difference'] == pytest.approx(found[name]['scores'][1] - found[name]['scores'][0], abs=.011)
        assert found[name]['scores'][1] == score(good, ref)[name]['score']
        assert 'ar:10000' in found[name]['signature']
    assert compare(good, good, ref)['BLEU'] | {'signature': ''} == {
        'scores': (score(good, ref)['BLEU']['score'],) * 2,
        'difference': 0,
        'p': 1.0,
        'signature': '',
    }


def test_compare_takes_words_as_score_does():
    "Japanese without spaces: by 13a a sentence is one word, and the difference would be of another BLEU."
    good, ref = ['犬が公園を歩いている。', '猫が家で寝ている。']*5, ['犬が公園を走っている。', '猫は家で寝ている。']*5
    bad = ['犬が歩く。', '猫が寝る。']*5
    found = compare(bad, good, ref, tokenize='char')['BLEU']
    assert found['scores'] == tuple(score(out, ref, tokenize='char')['BLEU']['score'] for out in (bad, good))
    assert found['difference'] > 20 and 'tok:char' in found['signature']
    with pytest.raises(InputError, match='none of this name'): compare(bad, good, ref, tokenize='words')


def test_compare_sees_no_proof_in_few_sentences():
    "Where k translations differ, no permutation test can give less than 2^(1-k)."
    ref = SENTENCES[:20]
    for k, least in ((1, 1.), (2, .5), (3, .25), (4, .125)):
        assert compare(['x']*k + ref[k:], ref, ref)['BLEU']['p'] >= least
