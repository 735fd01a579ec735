"The public face: light to import, and what a Translator can do besides translating is what its model says."
import subprocess
import sys
import typing
from pathlib import Path

import pytest
import torch
from conftest import small_run  # noqa: F401

import transformer_nb
from transformer_nb import Transformer, Translator, checkpoints
from transformer_nb.core import InputError
from transformer_nb.decode.alignment import Alignment
from transformer_nb.decode.translator import Translation
from transformer_nb.english_german.grammar import builtin_corpus
from transformer_nb.experiments.alignment import aer, diagonal

NAMES = ['Tokenizer', 'Trainer', 'TrainingConfig', 'Transformer', 'TransformerConfig', 'Translator', 'preset', 'show']
SENTENCES = ['a dog runs .', 'the old man sees two red cars .', 'the brothers have not seen the dog .', 'who sings ?']
LONG = 'the dog sleeps . '*300  # more than the model holds


@pytest.fixture(scope='module')
def demo(): return Translator.from_pretrained('demo', 'cpu')


def python(code, cwd=None):
    "What a new Python process prints."
    done = subprocess.run([sys.executable, '-c', code], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- the names --------------------------------------------------------------------------------------------------------

def test_importing_the_package_imports_nothing_else():
    "Until a name is used; and the cheap ones stay cheap."
    code = '''
import sys, transformer_nb
names = transformer_nb.__all__, transformer_nb.__version__, dir(transformer_nb)
heavy = ('torch', 'numpy', 'fastcore', 'sentencepiece', 'matplotlib', 'safetensors')
assert not [name for name in sys.modules if name.partition('.')[0] in heavy or name.startswith('transformer_nb.')]
from transformer_nb import Translator
assert 'torch' in sys.modules and 'matplotlib' not in sys.modules
'''
    python(code)


def test_the_names_are_there():
    assert transformer_nb.__all__ == NAMES and {*NAMES, '__version__'} <= {*dir(transformer_nb)}
    for name in NAMES: assert getattr(transformer_nb, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Traducer'"): transformer_nb.Traducer
    with pytest.raises(ImportError): from transformer_nb import Traducer  # noqa: F401


def test_editors_see_the_same_names(monkeypatch):
    "What type checkers read instead of `__getattr__` gives the very same objects."
    monkeypatch.setattr(typing, 'TYPE_CHECKING', True)
    file = Path(transformer_nb.__file__)
    seen = {'__name__': 'transformer_nb', '__package__': 'transformer_nb'}
    exec(compile(file.read_text(), file, 'exec'), seen)
    for name in NAMES: assert seen[name] is getattr(transformer_nb, name)


def test_from_transformer_nb_import_gives_a_whole_transformer():
    "Its `from_pretrained` is defined in another module, which must have been imported."
    assert python("from transformer_nb import Transformer; print(Transformer.from_pretrained('demo').cfg.N)") == '4\n'


# --- models by name ---------------------------------------------------------------------------------------------------

def test_the_demo_model_is_small_good_and_tells_its_scores(demo):
    folder = checkpoints.find('demo')
    checkpoints.verify(folder)
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 3_500_000
    assert demo.translate(['a dog runs .', '']) == ['ein Hund läuft .', '']
    for split, least in ('test', 97), ('unseen', 95):
        scores = demo.about['scores'][split]
        assert scores['BLEU']['score'] >= least and 'version:2' in scores['BLEU']['signature']
    settings = demo.about['settings']
    assert demo.about['step'] == settings['steps'] and settings['seed'] == 0 and demo.about['minutes'] > 0


@pytest.mark.slow
def test_its_scores_are_what_it_reaches(demo):
    from transformer_nb.decode.evaluation import score
    pairs = [(e.en, e.de) for e in builtin_corpus()['test']]
    found = score(demo.translate([en for en, _ in pairs]), [de for _, de in pairs])
    for name in ('BLEU', 'chrF'):
        assert found[name]['score'] == pytest.approx(demo.about['scores']['test'][name]['score'], abs=.3), name


def test_a_directory_called_demo_goes_first(tmp_path, monkeypatch, small_run):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    assert Transformer.from_pretrained('demo').cfg.vocab_size == 2000
    (tmp_path/'demo').symlink_to(checkpoints.find(small_run))
    assert Transformer.from_pretrained('demo').cfg.vocab_size == 800
    assert Translator.from_pretrained('demo', 'cpu').cfg.vocab_size == 800


def test_a_transformer_alone(tmp_path, small_run):  # noqa: F811
    found, whole = Transformer.from_pretrained(small_run), checkpoints.load(small_run).model
    assert type(found) is Transformer and not found.training and found.cfg == whole.cfg
    for name, weight in whole.state_dict().items(): assert torch.equal(found.state_dict()[name], weight), name
    assert {p.dtype for p in Transformer.from_pretrained('demo').parameters()} == {torch.float32}
    assert {p.dtype for p in checkpoints.load('demo').model.parameters()} == {torch.float16}  # as it is stored
    with pytest.raises(InputError, match='no such checkpoint directory'): Transformer.from_pretrained(tmp_path/'none')


@pytest.mark.parametrize('code', [
    """from transformer_nb.transformer import Transformer
import torch
model, ids = Transformer.from_pretrained('demo'), torch.tensor([[5, 2]])
print(model.cfg.N if model.loss(ids, ids, ids)[0] > 0 else 'no loss')""",
    """from transformer_nb.decode.translator import Translator
print(4 if 'Hund' in Translator.from_pretrained('demo', 'cpu').translate('a dog runs .') else 'no dog')"""])
def test_methods_need_no_other_import(code):
    "They are the class's own, wherever it is imported from."
    assert python(code) == '4\n'


# --- precision --------------------------------------------------------------------------------------------------------

def test_dtype():
    exact = Translator.from_pretrained('demo', 'cpu')
    assert exact.dtype == exact.model.embedding.weight.dtype == torch.float32
    expected = [hyp[0] for hyp in exact.nbest(SENTENCES)]
    for name in ('bfloat16', 'float16'):
        half = Translator.from_pretrained('demo', 'cpu', name)
        weights = half.ready.embedding.weight, half.model.embedding.weight
        assert half.dtype == getattr(torch, name) and all(weight.dtype == half.dtype for weight in weights)
        found = [hyp[0] for hyp in half.nbest(SENTENCES)]
        assert [hyp.text for hyp in found] == [hyp.text for hyp in expected]
        # added up in 32 bits: the errors of 16 bits are those of single tokens
        assert [hyp.score for hyp in found] == pytest.approx([hyp.score for hyp in expected], abs=.05)
        assert half.score(SENTENCES, [hyp.text for hyp in expected]) == pytest.approx(
            exact.score(SENTENCES, [hyp.text for hyp in expected]), abs=.1)
        assert half.sample(SENTENCES, temperature=1e-3) == half.translate(SENTENCES, beam=1)
        assert half.align(SENTENCES)[0] == exact.align(SENTENCES)[0]


@pytest.mark.parametrize('capability, name', [((9, 0), 'bfloat16'), ((7, 5), 'float16'), ((6, 0), 'float32')])
def test_auto_is_what_a_gpu_is_fastest_in(monkeypatch, capability, name):
    from transformer_nb.decode.translator import _dtype
    monkeypatch.setattr(torch.cuda, 'get_device_capability', lambda device: capability)
    assert _dtype('auto', torch.device('cuda')) == getattr(torch, name)
    assert _dtype('auto', torch.device('cpu')) == torch.float32
    assert _dtype('float16', torch.device('cpu')) == torch.float16


@pytest.mark.parametrize('wrong', ['half', 'float64', True, None, torch.float16])
def test_other_dtypes_are_refused(wrong):
    with pytest.raises(InputError, match='choose one of float32, bfloat16, float16, auto'):
        Translator.from_pretrained('demo', 'cpu', wrong)


# --- named results ----------------------------------------------------------------------------------------------------

def test_translations_have_names(demo):
    (best, second), = demo.nbest(SENTENCES[:1], n=2)
    assert isinstance(best, Translation) and best.text == 'ein Hund läuft .' and best.score > second.score
    assert best.tokens == demo.tokenizer.pieces(demo.tokenizer.encode([best.text])[0])
    hyp = demo.search(demo.encode(SENTENCES[:1]), 2, .6, 1)[0][0]
    assert hyp.score == pytest.approx(best.score, abs=1e-4) and demo.tokenizer.pieces(hyp.ids) == best.tokens


# --- drawn at random --------------------------------------------------------------------------------------------------

def test_a_seed_draws_the_same_again_beside_any_neighbours(demo):
    drawn = demo.sample(SENTENCES, temperature=1.5, seed=5)
    assert demo.sample(SENTENCES, temperature=1.5, seed=5) == drawn
    assert demo.sample(SENTENCES[::-1], temperature=1.5, seed=5) == drawn[::-1]
    assert [demo.sample([text], temperature=1.5, seed=5)[0] for text in SENTENCES] == drawn
    assert demo.sample(['', *SENTENCES], temperature=1.5, seed=5, batch_tokens=1) == ['', *drawn]
    assert len({demo.sample(SENTENCES[:1], temperature=3., seed=seed)[0] for seed in range(9)}) > 4


def test_without_chance_sampling_is_greedy_search(demo):
    greedy = demo.translate(SENTENCES, beam=1)
    assert demo.sample(SENTENCES, temperature=1e-4) == demo.sample(SENTENCES, top_k=1) == greedy
    assert demo.sample(SENTENCES, temperature=9., top_p=1e-6) == greedy


@pytest.mark.parametrize('wrong', [dict(temperature=0), dict(temperature=-1.), dict(top_k=-1), dict(top_p=0.),
                                   dict(top_p=1.1), dict(seed=[1, 2]), dict(batch_tokens=0)])
def test_samples_without_sense_are_refused(demo, wrong):
    with pytest.raises(InputError) as e: demo.sample(SENTENCES[:2], **wrong)
    assert '\n' not in str(e.value)


# --- scores of given translations -------------------------------------------------------------------------------------

@torch.no_grad()
def by_hand(translator, text, translation):
    "One sentence, one position after the other."
    model, special = translator.model, translator.cfg
    src, ids = translator.tokenizer.encode([text])[0], [*translator.tokenizer.encode([translation])[0], special.eos_id]
    total = 0.
    for i, token in enumerate(ids):
        logits = model(torch.tensor([[*src, special.eos_id]]), torch.tensor([[special.bos_id, *ids[:i]]]))[0, -1]
        logits[[special.pad_id, special.bos_id]] = float('-inf')  # which no search writes
        total += logits.log_softmax(-1)[token].item()
    return total


def test_a_score_is_the_sum_of_the_log_softmax(demo):
    pairs = [(text, other) for text in [*SENTENCES, ''] for other in ['', 'ein Hund läuft .', 'die alte Frau singt .']]
    texts, translations = map(list, zip(*pairs))
    found = demo.score(texts, translations)
    expected = [by_hand(demo, *pair) if any(pair) else 0. for pair in pairs]
    assert found == pytest.approx(expected, abs=1e-3)
    assert demo.score(texts, translations, batch_tokens=1) == pytest.approx(found, abs=1e-3)
    assert found[1] > found[4] and found[1] > found[2] and demo.score([], []) == []


def test_a_score_is_that_of_the_search(demo):
    hyps = [found[0] for found in demo.nbest(SENTENCES, alpha=0.)]
    assert demo.score(SENTENCES, [hyp.text for hyp in hyps]) == pytest.approx([hyp.score for hyp in hyps], abs=1e-2)


def test_scores_follow_the_model_and_leave_it_as_it_is(demo):
    translator = Translator(Transformer.from_pretrained('demo'), demo.tokenizer)
    before = translator.score(SENTENCES, SENTENCES)
    translator.model.train()
    assert translator.score(SENTENCES, SENTENCES) == before and translator.model.training  # no dropout, and as it was
    with torch.autocast('cpu', torch.bfloat16): assert translator.score(SENTENCES, SENTENCES) == before
    translator.model.decoder_norm.weight.data.mul_(.5)
    assert translator.score(SENTENCES, SENTENCES) != pytest.approx(before, abs=.1)


@pytest.mark.parametrize('name', ['score', 'align'])
def test_pairs_that_are_none_are_refused(demo, name):
    call = getattr(demo, name)
    with pytest.raises(InputError, match='^4 texts and 1 translations: give one for each$'): call(SENTENCES, ['x'])
    with pytest.raises(InputError, match='^sentence 2: .* do not fit'): call(['a', LONG], ['a', 'b'])
    with pytest.raises(InputError, match='^sentence 2: .* do not fit'): call(['a', 'b'], ['a', LONG])
    with pytest.raises(InputError, match='^1 texts and 4 translations: give one for each$'): call('a dog', SENTENCES)
    assert call('a dog', 'b') == call(['a dog'], ['b'])[0] and demo.sample('a dog') == demo.sample(['a dog'])[0]


# --- alignments -------------------------------------------------------------------------------------------------------

def test_words_that_changed_places_are_linked(demo):
    found, = demo.align(['the brothers have not seen the dog .'], ['die Brüder haben den Hund nicht gesehen .'])
    assert isinstance(found, Alignment)
    assert (found.source[3:5], found.target[3:5]) == (['not', 'seen'], ['den', 'Hund'])
    assert found.links == [(0, 0), (1, 1), (2, 2), (5, 3), (6, 4), (3, 5), (4, 6), (7, 7)]


def test_links_are_near_to_the_gold_ones(demo):
    "Alignment error rate; words by their place alone have more than 0.5, one link a word at best about 0.06."
    sample = builtin_corpus(n_train=2000)['test'][:150]
    gold = [set(e.alignment) for e in sample]
    found = demo.align([e.en for e in sample], [e.de for e in sample])
    assert all((a.source, a.target) == (e.en.split(), e.de.split()) for a, e in zip(found, sample))
    assert aer([set(a.links) for a in found], gold) < .14
    assert aer([diagonal(len(a.source), len(a.target)) for a in found], gold) > .4


def test_alignments_of_the_models_own_translations_and_of_nothing(demo):
    assert demo.align(SENTENCES) == demo.align(SENTENCES, demo.translate(SENTENCES))
    nothing = demo.align(['', 'dog', ''], ['', '', 'Hund'])  # words get the full stop that ends each line of the corpus
    assert nothing == [([], [], []), (['dog', '.'], [], []), ([], ['Hund', '.'], [])]
    assert demo.align([]) == []


def test_words_are_what_stands_between_spaces(demo):
    found, = demo.align(['Xylophone-players  wönder .'], ['Xylophonspieler'])
    assert [len(found.source), len(found.target)] == [3, 2] and found.links[0][1] == 0  # a full stop was added
