"A tokenizer of one's own: what the library asks of it, and that a run with it is trained, saved, resumed and loaded."
import json
import shutil
import sys

import pytest
import torch
from conftest import few_pairs

from transformer_nb import Trainer, TrainingConfig, Transformer, TransformerConfig, Translator, checkpoints
from transformer_nb.core import InputError
from transformer_nb.data import tokenizer as tokenizers
from transformer_nb.data.tokenizer import TokenizerLike, TwoVocabularies, Vocabulary, read_tokenizer, train_tokenizer
from transformer_nb.course.viewer import forced_attention, norms_of_ids, show, value_norms
from transformer_nb.files import write_manifest

PAIRS = few_pairs(40)
TEXTS = [side for pair in PAIRS for side in pair]
ALPHABET = ''.join(sorted(set(''.join(TEXTS))))


class Letters(TokenizerLike):
    "Each letter is a piece; of the rest of the protocol it has what `TokenizerLike` gives."
    pad_id, bos_id, eos_id, unk_id = range(4)
    def __init__(self, letters): self.letters, self.model = letters, letters.encode()
    @property
    def vocab_size(self): return len(self.letters) + 4
    def encode(self, texts): return [[self.letters.find(c) + 4 if c in self.letters else 3 for c in t] for t in texts]
    def pieces(self, ids): return [self.letters[i - 4] if i > 3 else '' for i in ids]
    def decode(self, ids): return [''.join(self.pieces(row)) for row in ids]


class Json(Letters):
    "Its bytes begin as those of two vocabularies do."
    def __init__(self, letters):
        super().__init__(letters)
        self.model = b'{"source": 3, "target": 3}'


def trainer(tokenizer, out, steps):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(tokenizer.vocab_size, 1, 16, 32, 2, max_len=256))
    cfg = TrainingConfig(steps=steps, batch_tokens=2000, warmup=5, save_every=2, device='cpu')
    return Trainer(model, tokenizer=tokenizer, train=PAIRS, cfg=cfg, out=out)


@pytest.fixture(scope='module', params=[Letters, Json])
def run(request, tmp_path_factory):
    "Trained to its end, where checkpoints are averaged, and gone on with: the tokenizer, and the directory."
    tokenizer, out = request.param(ALPHABET), tmp_path_factory.mktemp('own')/'run'
    trainer(tokenizer, out, 4).fit(quiet=True)
    again = trainer(tokenizer, out, 6)
    again.resume()
    again.fit(quiet=True)
    return tokenizer, out


def test_a_run_is_loaded_with_its_tokenizer(run):
    tokenizer, out = run
    assert checkpoints.load(out, tokenizer=tokenizer).tokenizer is tokenizer
    translator = Translator.from_pretrained(out, device='cpu', tokenizer=tokenizer)
    assert translator.tokenizer is tokenizer and len(translator.translate([PAIRS[0][0]], beam=1)) == 1


def test_without_it_one_line_says_so(run):
    _, out = run
    for load in (checkpoints.load, Translator.from_pretrained):
        with pytest.raises(InputError, match=r'tokenizer\.model: .*tokenizer of your own.*tokenizer=') as e: load(out)
        assert '\n' not in str(e.value)


def test_a_registered_class_is_loaded_by_its_name(run, monkeypatch):
    "Not before the program has registered it: until then the message says which import is missing."
    tokenizer, out = run
    kind = type(tokenizer)
    name = f'{kind.__module__}:{kind.__name__}'
    assert json.loads((checkpoints.find(out)/'config.json').read_text())['tokenizer'] == name
    with pytest.raises(InputError, match=f'of a tokenizer of your own, {name}: import {kind.__module__}, where'):
        checkpoints.load(out)
    monkeypatch.setattr(tokenizers, 'TOKENIZERS', {})
    tokenizers.register_tokenizer(kind, lambda data: kind(ALPHABET))
    assert type(checkpoints.load(out).tokenizer) is kind
    translator = Translator.from_pretrained(out, device='cpu')
    assert translator.tokenizer.encode(TEXTS[:2]) == tokenizer.encode(TEXTS[:2])


def test_a_name_in_a_folder_imports_nothing(run, tmp_path):
    tokenizer, out = run
    folder = tmp_path/'model'
    shutil.copytree(checkpoints.find(out), folder)
    cfg = json.loads((folder/'config.json').read_text())
    for name in ('antigravity:fly', 'os:system', ['os'], 3, None):
        (folder/'config.json').write_text(json.dumps(cfg | {'tokenizer': name}))
        write_manifest(folder, checkpoints.FORMAT)
        with pytest.raises(InputError, match='tokenizer of your own'): checkpoints.load(folder)
    assert 'antigravity' not in sys.modules
    assert checkpoints.load(folder, tokenizer=tokenizer).tokenizer is tokenizer


def test_the_librarys_own_have_no_name(tmp_path):
    "So that older versions read them."
    pieces = train_tokenizer(TEXTS, 200)
    checkpoints.save(tmp_path/'model', Transformer(TransformerConfig(200, 1, 16, 32, 2)), pieces)
    assert 'tokenizer' not in json.loads((tmp_path/'model'/'config.json').read_text())


def test_another_tokenizer_is_refused(run, tmp_path):
    tokenizer, out = run
    if type(tokenizer) is Letters:
        with pytest.raises(InputError, match='tokenizer of your own'):
            checkpoints.load(out, tokenizer=Letters(ALPHABET[::-1]))
    pieces = train_tokenizer(TEXTS, 200)
    trainer(pieces, tmp_path/'run', 2).fit(quiet=True)
    with pytest.raises(InputError, match="of another vocabulary .piece 0 is '<pad>', not ''"):
        checkpoints.load(tmp_path/'run', tokenizer=tokenizer)
    assert checkpoints.load(tmp_path/'run', tokenizer=pieces).tokenizer is pieces


@pytest.mark.parametrize('name', ['vocab_size', 'unk_id', 'model', 'encode', 'pieces', 'source', 'tag', 'save'])
def test_what_is_missing_is_named_before_training(name, tmp_path):
    "By the first look at a tokenizer, and not by a traceback in the middle of something."
    class Partial:
        def __getattr__(self, asked):
            if asked == name or asked.startswith('_'): raise AttributeError(asked)
            return getattr(Letters(ALPHABET), asked)
    model = Transformer(TransformerConfig(len(ALPHABET) + 4, 1, 16, 32, 2))
    with pytest.raises(InputError, match=f"Partial is no tokenizer, it has no '{name}'.*TokenizerLike"):
        checkpoints.save(tmp_path/'out', model, Partial())
    assert not (tmp_path/'out').exists()


def test_the_librarys_own_fulfil_the_protocol():
    "Also that of two vocabularies, whose `encode` is its source's."
    pieces = train_tokenizer(TEXTS, 200)
    ids = {piece: i for i, piece in enumerate(pieces.pieces(range(200)))}
    two = TwoVocabularies(*(Vocabulary(pieces.model, ids, 200) for _ in range(2)), bos_id=1)
    for tokenizer in (pieces, two, read_tokenizer(two.model)):
        model = Transformer(TransformerConfig(200, 1, 16, 32, 2))
        Translator(model, tokenizer)
        assert tokenizer.decode(tokenizer.encode(TEXTS[:3])) == TEXTS[:3]


def test_attention_is_shown_with_a_tokenizer_that_cannot_spell_back(run):
    "A viewer needs no ids of pieces: the protocol has none."
    tokenizer, out = run
    translator = Translator.from_pretrained(out, device='cpu', tokenizer=tokenizer)
    assert 'norms' in show(translator, 'a dog runs .').html


def test_a_checkpoint_without_a_tokenizer_says_so(tmp_path):
    checkpoints.save(tmp_path/'bare', Transformer(TransformerConfig(50, 1, 16, 32, 2)))
    with pytest.raises(InputError, match='saved without a tokenizer; leave tokenizer= out'):
        checkpoints.load(tmp_path/'bare', tokenizer=Letters(ALPHABET))


TWO = TransformerConfig(200, 1, 16, 32, 2, pad_id=199, eos_id=0, bos_id=1, tie='output', src_vocab_size=200)


def _pieces():
    "A SentencePiece model, and ids for its pieces as a Marian model has them."
    pieces = train_tokenizer(TEXTS, 200)
    named = ['</s>', '<unk>', *pieces.pieces(list(range(4, 200)))]
    return pieces, {piece: i for i, piece in enumerate(named)} | {'<pad>': 199}


def test_two_vocabularies_that_differ_in_the_source_are_told_apart(tmp_path):
    pieces, ids = _pieces()
    other = {piece: i for i, piece in zip(ids.values(), reversed(ids))} | {'<pad>': 199, '</s>': 0, '<unk>': 1}
    ours = TwoVocabularies(Vocabulary(pieces.model, other, 200), Vocabulary(pieces.model, ids, 200), 1)
    theirs = TwoVocabularies(Vocabulary(pieces.model, ids, 200), Vocabulary(pieces.model, ids, 200), 1)
    model = Transformer(TWO)
    checkpoints.save(tmp_path/'two', model, theirs)
    with pytest.raises(InputError, match=r'another vocabulary \(piece \d+ is'):
        checkpoints.load(tmp_path/'two', tokenizer=ours)


def test_what_looks_like_a_tag_in_the_middle_of_a_text_is_a_word():
    "`unknown` and `translate` read the same text in the same way."
    pieces, ids = _pieces()
    two = TwoVocabularies(*(Vocabulary(pieces.model, ids, 200) for _ in range(2)), bos_id=1)
    model = Transformer(TWO)
    translator = Translator(model, two)
    assert translator.unknown('a >>b<< dog') == ['>>b<<']
    with pytest.raises(InputError, match='knows no such language'): translator.unknown('>>b<< a dog')


def test_norms_of_maps_need_a_way_back_to_ids():
    "Which the protocol does not ask for; the ids themselves will do."
    letters = Letters(ALPHABET)
    model = Transformer(TransformerConfig(letters.vocab_size, 1, 16, 32, 2, max_len=256))
    translator = Translator(model, letters)
    maps = forced_attention(translator, *PAIRS[0])
    with pytest.raises(InputError, match='Letters has no method `ids_of`.*norms_of_ids'): value_norms(translator, maps)
    (source, target), = translator._pairs([PAIRS[0][0]], [PAIRS[0][1]])
    assert norms_of_ids(translator, source, target[:-1])['cross'].shape == (1, 2, len(source))
