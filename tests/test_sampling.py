"Several corpora with weights, BPE dropout, and fine-tuning: counts, determinism, and what a resumed run sees."
import io
import json
import math
import subprocess
import sys
from collections import Counter
from itertools import islice

import numpy as np
import pytest
import sentencepiece as spm
import torch
from conftest import few_pairs, tnb
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_nb import checkpoints
from transformer_nb.cli import _where, train
from transformer_nb.config import preset
from transformer_nb.core import InputError
from transformer_nb.data.batching import Batches, id_pairs, make_batch
from transformer_nb.data.corpora import Split
from transformer_nb.data.sampling import Mixture, ResampledPairs, as_ids, load_mixture, weighted
from transformer_nb.data.tokenizer import Tokenizer, TokenizerLike, train_tokenizer
from transformer_nb.interop.marian import read_model
from transformer_nb.parts.packing import with_packed_attention
from transformer_nb.train.trainer import batch_loss

PAIRS = few_pairs(400)
NEW = [(src, ' '.join(tgt.split()[::-1])) for src, tgt in PAIRS[:200]]
KINDS = ['bpe', 'unigram']
RUN = dict(device='cpu', threads=1, batch_tokens=512, src='en', tgt='de')
corpora = st.lists(st.tuples(st.integers(1, 12), st.sampled_from([.3, .5, 1., 1.25, 2., 3.])), min_size=1, max_size=3)


def mixture(sizes):
    "Pairs of different lengths; the first source id is the pair's own number."
    starts = np.cumsum([4, *(n for n, _ in sizes)])
    rows = [[row for i in range(a, b) for row in ([i] + [5]*(i % 7), [6])] for a, b in zip(starts, starts[1:])]
    return Mixture(map(id_pairs, rows), [weight for _, weight in sizes])


def same(a, b):
    return a.n_tokens == b.n_tokens and len(a.batches) == len(b.batches) and all(
        torch.equal(x.src, y.src) and torch.equal(x.tgt_out, y.tgt_out) for x, y in zip(a.batches, b.batches))


@settings(max_examples=40)
@given(corpora, st.integers(0, 9))
def test_weights_say_how_often(sizes, seed):
    "Through any number of epochs, a pair comes as often as its weight wants, rounded up or down."
    mixed, seen = mixture(sizes), Counter()
    for epoch in range(7):
        seen.update(mixed.drawn(seed, epoch).tolist())
        for k, (n, weight) in enumerate(sizes):
            counts = [seen[i + int(mixed.starts[k])] for i in range(n)]
            assert abs(sum(counts) - n*weight*(epoch + 1)) < 1 + 1e-6 and max(counts) - min(counts) <= 1


@settings(max_examples=40)
@given(corpora, st.integers(5, 40), st.integers(1, 3), st.integers(0, 25))
def test_a_mixture_resumes_anywhere_with_any_number_of_processes(sizes, budget, per_step, start):
    whole = list(islice(Batches(mixture(sizes), budget, 3, per_step).stream(), start + 6))
    assert all(map(same, whole[start:], Batches(mixture(sizes), budget, 3, per_step).stream(start)))
    ranks = [Batches(mixture(sizes), budget, 3, per_step, r, per_step).stream(start) for r in range(per_step)]
    for step, *shares in zip(whole[start:], *ranks):
        assert {share.n_tokens for share in shares} == {step.n_tokens}
        assert all(torch.equal(share.batches[0].src, b.src) for share, b in zip(shares, step.batches, strict=True))


def test_one_corpus_of_weight_one_is_that_corpus():
    mixed = mixture([(30, 1.)])
    assert all(map(same, islice(Batches(mixed, 30).stream(), 40), Batches(mixed.parts[0], 30).stream()))


@pytest.fixture(scope='module')
def tokenizers(): return [train_tokenizer((side for pair in PAIRS for side in pair), 250, kind) for kind in KINDS]


@pytest.fixture(params=range(len(KINDS)), ids=KINDS)
def resampled(request, tokenizers): return ResampledPairs(tokenizers[request.param], Split(PAIRS[:60]), 256, .1)


def test_epochs_are_cut_otherwise_and_a_resumed_run_sees_the_same(resampled):
    batches = Batches(resampled, 600, seed=2, per_step=2)
    batch = batches.epoch(0)[0]
    assert not torch.equal(batches.collate(batch, 0).src, batches.collate(batch, 1).src)
    decode = resampled.tokenizer.decode
    assert [tuple(decode(list(pair))) for pair in resampled.take(batch, 2, 1)] == [PAIRS[i] for i in batch]
    whole = list(islice(batches.stream(), 30))
    assert all(map(same, whole[17:], Batches(resampled, 600, seed=2, per_step=2).stream(17)))
    shares = [islice(Batches(resampled, 600, 2, 2, rank, 2).stream(), 30) for rank in range(2)]
    for step, *parts in zip(whole, *shares, strict=True):
        assert {part.n_tokens for part in parts} == {step.n_tokens} == {sum(b.n_tokens for b in step.batches)}
        assert all(torch.equal(part.batches[0].src, b.src) for part, b in zip(parts, step.batches))


ANEW = """import sys
from transformer_nb.data.tokenizer import Tokenizer
for file in sys.argv[1:]:
    print(Tokenizer.from_file(file).resample(['a dog runs in the garden .', 'über 9 Hunde'], .3, seed=5))"""


def test_another_process_cuts_alike(tokenizers, tmp_path):
    "SentencePiece's own drawing does not, since its version 0.2.2."
    files = [tmp_path/f'{kind}.model' for kind in KINDS]
    for file, tokenizer in zip(files, tokenizers): tokenizer.save(file)
    said = subprocess.run([sys.executable, '-c', ANEW, *files], capture_output=True, text=True, check=True).stdout
    ours = [one.resample(['a dog runs in the garden .', 'über 9 Hunde'], .3, seed=5) for one in tokenizers]
    assert said == ''.join(f'{cuts}\n' for cuts in ours)


@pytest.mark.parametrize('kind, p', [('bpe', 0.), ('unigram', 1e5), ('word', .5), ('char', .5)])
def test_a_vocabulary_that_leaves_nothing_to_chance_cuts_as_usual(kind, p):
    texts = [side for pair in PAIRS for side in pair]
    tokenizer = train_tokenizer(texts, None, kind)
    assert tokenizer.resample(texts, p, seed=0) == tokenizer.encode(texts)


def of_ones_own(kind, **settings):
    "A vocabulary that SentencePiece has learned with other settings than ours."
    out, texts = io.BytesIO(), [side for pair in PAIRS for side in pair]
    spm.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=out, vocab_size=500, model_type=kind,
        pad_id=0, bos_id=1, eos_id=2, unk_id=3, minloglevel=2, **settings)
    return Tokenizer(out.getvalue())


@pytest.mark.parametrize('kind', KINDS)
def test_symbols_of_ones_own_are_never_cut(kind):
    tokenizer = of_ones_own(kind, user_defined_symbols=['<2de>', '<2>', '[x]'])
    texts = ['<2de> a dog runs .', 'the<2>cat [x]']
    kept = [[piece for piece in tokenizer.pieces(row) if piece[0] in '<['] for row in tokenizer.encode(texts)]
    assert kept == [['<2de>'], ['<2>', '[x]']]
    found = [tokenizer.resample(texts, .3, seed) for seed in range(20)]
    for rows in found:
        assert [[piece for piece in tokenizer.pieces(row) if piece[0] in '<['] for row in rows] == kept
        assert tokenizer.decode(rows) == texts
    assert len({str(rows) for rows in found}) > 1
    if kind == 'bpe': assert tokenizer.resample(texts, 0., 0) == tokenizer.encode(texts)


@pytest.mark.parametrize('kind', KINDS)
def test_what_has_no_piece_is_written_in_bytes_where_the_model_has_them(kind):
    "Or a run would learn to write <unk> in their place."
    tokenizer = of_ones_own(kind, byte_fallback=True)
    found = [tokenizer.resample(['a ☃ runs', 'Größe 犬'], .3, seed) for seed in range(5)]
    assert all(tokenizer.decode(rows) == ['a ☃ runs', 'Größe 犬'] for rows in found) and found[0] != found[1]


def test_cuts_come_as_often_as_their_probabilities_say():
    "A unigram vocabulary: each cut of a word as often as the product of its pieces' probabilities, to the power of α."
    cuts, word, alpha = train_tokenizer([side for pair in PAIRS for side in pair], 250, 'unigram').cuts, 'garden', .3
    ways = [['▁']]
    for letter in word: ways = [[*way[:-1], way[-1] + letter] for way in ways] + [[*way, letter] for way in ways]
    ways = [way for way in ways if set(way) <= cuts.score.keys()]
    p = {' '.join(way): math.exp(alpha*sum(map(cuts.score.get, way))) for way in ways}
    found = Counter(' '.join(cuts.resample([word], alpha, seed)[0]) for seed in range(4000))
    assert len(p) > 2 and found.keys() <= p.keys()
    for way, share in p.items(): assert found[way]/4000 == pytest.approx(share/sum(p.values()), abs=.03)


def test_what_cannot_be_resampled_is_said(resampled):
    class Plain(TokenizerLike): pass
    with pytest.raises(InputError, match='Plain has no method `resample`'): ResampledPairs(Plain(), Split([]), 9, .1)
    with pytest.raises(InputError, match='between 0 and 1'): ResampledPairs(resampled.tokenizer, Split([]), 9, 1.)


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    "Two corpora, the first with a test; and one in another order of words, which the small model has not learned."
    folder = tmp_path_factory.mktemp('text')
    for name, pairs in (('a', PAIRS[:200]), ('b', PAIRS[200:260]), ('new', NEW)):
        (folder/name).mkdir()
        for split in ('train', 'test') if name == 'a' else ('train',):
            for side, lang in enumerate(('en', 'de')):
                lines = ''.join(pair[side] + '\n' for pair in (pairs[:20] if split == 'test' else pairs))
                (folder/name/f'{split}.{lang}').write_text(lines, encoding='utf-8')
    return folder


def weights(path): return checkpoints.load(path).model.state_dict()


def equal(a, b): return all(torch.equal(a[name], b[name]) for name in a)


def test_a_run_with_both_resumes_bit_by_bit(text, tmp_path):
    run = RUN | dict(data=[str(text/'a'), f"{text/'b'}=1.5"], bpe_dropout=.2, vocab_size=250, save_every=2,
                     batch_tokens=400)
    train(**run, steps=6, warmup=3, out=tmp_path/'whole')
    train(**run, steps=6, warmup=3, out=tmp_path/'cut')
    for step in (4, 6): checkpoints.remove(tmp_path/'cut'/f'step-{step:07}')
    checkpoints.remove(tmp_path/'cut'/'averaged')
    train(device='cpu', out=tmp_path/'cut', resume=True)
    assert equal(weights(tmp_path/'whole'/'step-0000006'), weights(tmp_path/'cut'/'step-0000006'))
    with pytest.raises(InputError, match='its run has data'):
        train(**run | dict(data=str(text/'a')), out=tmp_path/'cut', resume=True)
    with pytest.raises(InputError, match='bpe_dropout 0.2, not'):
        train(device='cpu', out=tmp_path/'cut', bpe_dropout=.1, resume=True)


def test_no_dropout_is_todays_run(text, tmp_path):
    for name, more in (('a', {}), ('b', dict(bpe_dropout=0.)), ('c', dict(data=[f"{text/'a'}=1"]))):
        train(**RUN | dict(data=str(text/'a'), vocab_size=250, steps=2, save_every=2) | more, out=tmp_path/name)
    assert equal(weights(tmp_path/'a'), weights(tmp_path/'b')) and equal(weights(tmp_path/'a'), weights(tmp_path/'c'))


def test_a_weight_is_kept_to_its_last_digit(text, tmp_path):
    "A resumed run reads it again, and must draw the same pairs."
    train(**RUN | dict(data=[f"{text/'a'}=.3333333333"], vocab_size=250, steps=1), out=tmp_path/'run')
    assert weighted(checkpoints.load(tmp_path/'run').training['data'])[1] == .3333333333


@pytest.mark.parametrize('given, said', [('=0', 'weight above 0'), ('=x', 'no such folder')])
def test_a_weight_that_is_none(text, given, said):
    with pytest.raises(InputError, match=said): load_mixture([str(text/'a'), str(text/'b') + given])


def test_a_weight_is_read_as_it_was_written():
    "Python writes small ones with an exponent, and a resumed run would look for a folder of that name."
    for weight in (.5, 2, 1e-5, 1.25e-7): assert weighted(_where(f'builtin={weight:.9f}')) == ('builtin', weight)


@pytest.mark.parametrize('data', [[], '', ['']])
def test_no_corpus_is_no_folder(data):
    "Of an empty name Path makes the present folder."
    with pytest.raises(InputError, match='no corpus is named'): load_mixture(data)


@pytest.mark.parametrize('pairs, said', [
    ([src for src, _ in PAIRS], r"train: 'a.*', pair 0 \(from 0\), is no pair of texts"),
    ([pair[:1] for pair in PAIRS], 'pair 0 .* is no pair'), ([*PAIRS[:3], ('a dog', None)], 'pair 3 .* is no pair'),
    ([([5], [6], [7]), ([8], [9], [10])], r'pair 0 \(from 0\): 3 sides')])
def test_what_are_no_pairs_is_said(tokenizers, pairs, said):
    "Letters would be taken for sentences, and sentences for the translations of others."
    with pytest.raises(InputError, match=said): as_ids(pairs, 'train', tokenizers[0], preset('tiny', vocab_size=250))


def test_a_mixture_may_have_an_empty_part_and_no_mixture(tokenizers):
    cfg = preset('tiny', vocab_size=250)
    mixed = as_ids(Mixture([[], PAIRS[:5]], [1, 2]), 'train', tokenizers[0], cfg)
    assert Batches(mixed, 10**5).epoch(0)[0].count(4) == 2
    with pytest.raises(InputError, match='a mixture in a mixture'): Mixture([mixed], [1])


def loss(found, pairs):
    "Mean over pairs, without dropout, in nats per token."
    sides = found.tokenizer.source, found.tokenizer.target
    ids = list(zip(*(side.encode([pair[i] for pair in pairs]) for i, side in enumerate(sides))))
    model = with_packed_attention(found.model).eval()
    with torch.no_grad(): return batch_loss(model, make_batch(ids, model.cfg))[1].item()


def test_the_small_model_learns_two_hundred_pairs(text, tmp_path):
    "It keeps its vocabulary and its sizes; the resumed run needs it no more."
    demo = checkpoints.load('demo')
    train(**RUN | dict(init='demo', data=str(text/'new'), steps=20, save_every=20), out=tmp_path/'run')
    tuned = checkpoints.load(tmp_path/'run')
    assert loss(tuned, NEW) < .7*loss(demo, NEW)
    assert tuned.tokenizer.model == demo.tokenizer.model and tuned.model.cfg == demo.model.cfg
    assert tuned.training['init'] == 'demo'
    train(device='cpu', steps=21, out=tmp_path/'run', resume=True)
    assert checkpoints.load(tmp_path/'run').training['init'] == 'demo'
    with pytest.raises(InputError, match='its vocab_size is'):
        train(device='cpu', vocab_size=99, out=tmp_path/'run', resume=True)
    with pytest.raises(InputError, match="its run has init 'demo', not 'other'"):
        train(device='cpu', init='other', out=tmp_path/'run', resume=True)


def test_a_model_of_marians_kind_is_fine_tuned(text, tmp_path):
    pytest.importorskip('transformers')
    import marian
    folder = marian.make(tmp_path/'marian', separate=True)
    train(**RUN | dict(init=str(folder), data=str(text/'a'), steps=10, save_every=5, dropout=0., lr_scale=1.),
        out=tmp_path/'run')
    tuned, theirs = checkpoints.load(tmp_path/'run'), read_model(folder)
    assert loss(tuned, PAIRS[:50]) < loss(theirs, PAIRS[:50]) and tuned.tokenizer.model == theirs.tokenizer.model


@pytest.mark.parametrize('more, said', [(['--preset', 'base'], 'its N is 4, not 6'),
    (['--vocab-size', 500], 'its vocab_size is'), (['--max-len', 77], 'its max_len is')])
def test_what_disagrees_with_the_model_is_refused_in_a_line(more, said, text, tmp_path):
    status, _, err = tnb('tnb-train', '--init', 'demo', '--data', text/'a', *more, '--out', tmp_path/'run')
    assert status == 2 and len(err.splitlines()) == 1 and said in err and 'leave out' in err, err
    assert not (tmp_path/'run').exists()


def test_the_first_corpus_is_scored(text, tmp_path):
    train(**RUN | dict(data=[str(text/'a'), str(text/'b')], vocab_size=250, steps=1, save_every=1), out=tmp_path/'run')
    status, out, err = tnb('tnb-eval', tmp_path/'run', '--beam', 1, '--json', '--device', 'cpu')
    assert status == 0 and json.loads(out)['test']['pairs'] == 20, err
