"""Maps of words are distributions for any text, the viewer works in a browser, and edits of heads leave no trace.

Also here: the gold dependencies against the lexicon, and the stored measurements.
"""
import html
import json
import re
import sys
from pathlib import Path

import pytest
import torch

from transformer_nb.core import InputError
from transformer_nb.course.widgets import grow_tree
from transformer_nb.data.tokenizer import TokenizerLike, train_tokenizer
from transformer_nb.decode.alignment import spell, word_ids
from transformer_nb.decode.text import as_written
from transformer_nb.decode.translator import Translator
from transformer_nb.course.viewer import (KINDS, Viewer, _asset, attention_viewer, compact, expand,
                                          forced_attention, labels, to_words)
from transformer_nb.english_german.agreement import lexicon
from transformer_nb.english_german.constructions import Grammar
from transformer_nb.experiments.alignment import align
from transformer_nb.experiments.heads import (averaged_heads, dependency, per_head, uniform_heads, without_heads,
                                              words_right)
from transformer_nb.experiments.parsing import Tree, encode_trees, linearise, spell as spell_words
from transformer_nb.transformer import Transformer, TransformerConfig

SCRIPTS = Path(__file__).parent.parent/'benchmarks'
sys.path.append(str(SCRIPTS))
import heads  # noqa: E402

RESULTS = SCRIPTS/'results'/'attention_maps.json'
EVIL = '</div><script>document.title = "broken"</script>" \' & <b>'


@pytest.fixture(scope='module')
def translator(small_run): return Translator.from_pretrained(small_run, 'cpu')


def some_maps(n, m, N=2, h=3, seed=0):
    g = torch.Generator().manual_seed(seed)
    shapes = {'encoder': (n, n), 'decoder': (m, m), 'cross': (m, n)}
    words = lambda k: [*(f'▁w{i}' for i in range(k - 1)), '</s>']
    return {'source': words(n), 'target': words(m)} | {
        kind: torch.rand(N, h, *s, generator=g).softmax(-1) for kind, s in shapes.items()}


# The viewer

def data_of(page): return [json.loads(html.unescape(text)) for text in re.findall(r'data-maps="([^"]*)"', page)]


def test_the_viewer_needs_nothing_from_elsewhere_and_has_no_ids():
    page = attention_viewer(some_maps(4, 5)).html
    assert not re.search(r'\s(src|href|id)=|@import|url\(|fetch\(|\bimport\b', page)


def test_tokens_are_data_and_never_markup():
    maps = some_maps(4, 5)
    maps['source'][0] = EVIL
    page = attention_viewer(maps).html
    assert page.count('<script>') == 1 and page.count('<div') == 1
    assert data_of(page)[0][0]['kinds']['encoder']['queries'][0] == EVIL


def test_a_list_of_maps_makes_one_viewer_and_none_is_refused():
    assert len(data_of(attention_viewer([some_maps(3, 3), some_maps(6, 2)]).html)[0]) == 2
    with pytest.raises(InputError, match='no maps to show'): attention_viewer([])


def test_two_viewers_on_a_page_in_a_browser(browser, tmp_path):
    first, second = some_maps(4, 5), some_maps(7, 3, N=1, h=2, seed=1)
    first['source'][0] = EVIL
    page = tmp_path/'maps.html'
    Viewer(attention_viewer(first).html + attention_viewer([second, first]).html).save(page)
    found = browser.html(page)
    assert '<title>Attention maps</title>' in found and found.count('data-ready') >= 2
    assert 'needs JavaScript' not in found and html.escape(EVIL, quote=False) in found
    assert found.count('<canvas') == 2*3 + 1*2                      # a small picture for each head of each viewer
    buttons = re.findall(r'<button[^>]*>', found)
    assert len(buttons) == 6 + (5 + 4) + 2 + (3 + 7)                # heads, queries and keys of each
    assert sum('aria-pressed="true"' in b for b in buttons) == 2
    assert sum('tabindex="0"' in b for b in buttons) == 2*3         # one stop of the Tab key for each group


POINT = """<script>
const list = document.querySelectorAll('select'), side = k => document.querySelectorAll('.tnb-side')[k].children
list[0].value = 1; list[0].dispatchEvent(new Event('change'))              // the second sentence
list[1].value = 0; list[1].dispatchEvent(new Event('change'))              // its encoder
document.querySelectorAll('.tnb-heads button')[4].click()                  // layer 2, head 2
side(0)[2].dispatchEvent(new Event('mouseenter'))
const lines = document.querySelectorAll('svg line').length
document.title = document.querySelector('.tnb-status').textContent + ' | ' + lines
</script>"""


def test_pointing_at_a_token_in_a_browser(browser, tmp_path):
    first, second = some_maps(4, 5), some_maps(5, 4, seed=1)
    second['encoder'][1, 1, 2] = torch.tensor([0., .7, .3, 0., 0.])
    page = tmp_path/'maps.html'
    Viewer(attention_viewer([first, second]).html + POINT).save(page)
    assert '<title>From “▁w2”: “▁w1” 70 %, “▁w2” 30 % | 2</title>' in browser.html(page)


def test_the_viewers_rules_touch_nothing_else():
    rules = [line for line in _asset('viewer.css').splitlines() if line]
    assert len(rules) > 10 and all(rule.startswith('.tnb-attention ') for rule in rules)
    assert '</' not in _asset('viewer.js')                                 # nothing that would end the script early


def test_compact_is_json_and_expands():
    maps = some_maps(5, 4)
    again = expand(json.loads(json.dumps(compact(maps))))
    for kind in KINDS: assert (again[kind] - maps[kind]).abs().max() <= 5.1e-4


# Maps of words

@pytest.mark.parametrize(
    'source, target',
    [('a dog runs .', 'ein Hund läuft .'), ('x', 'y z'), ('12,5 %   of   it', 'Ärger'), ('犬が走る。', 'ein Hund')])
def test_maps_of_words_are_distributions(translator, source, target):
    maps = forced_attention(translator, source, target)
    words = to_words(maps)
    sides = [as_written(text, translator.about['writing'][side]).split()
        for side, text in (('source', source), ('target', target))]
    assert [len(words['source']), len(words['target'])] == [len(side) + 1 for side in sides]
    for kind in KINDS:
        assert words[kind].shape[2:] == tuple(map(len, labels(words, kind)))
        assert torch.allclose(words[kind].sum(-1), torch.ones(()), atol=1e-5)
    for fed in (False, True):
        links = [link for layer in align(maps, fed) for head in layer for link in head]
        assert all(0 <= i < len(sides[0]) and 0 <= j < len(sides[1]) for i, j in links)


def test_words_right_has_one_answer_a_word(translator):
    examples = Grammar(3).samples(40)
    pairs = [(e.en, e.de) for e in examples]
    assert [len(row) for row in words_right(translator, pairs, batch=7)] == [len(e.de.split()) for e in examples]
    assert words_right(translator, pairs, batch=7) == words_right(translator, pairs, batch=40)


class Sides(TokenizerLike):
    "Two vocabularies of one size, as models from elsewhere have them."
    source, target = train_tokenizer(['a dog runs .', 'a cat sees it .'], 40), train_tokenizer(['ein Hund läuft .'], 40)
    pad_id, bos_id, eos_id, unk_id, vocab_size, model = 0, 1, 2, 3, 40, b''


def test_each_side_has_its_own_vocabulary():
    "Given translations are cut by the vocabulary of the target; in the source's they would be unknown letters."
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocab_size=40, N=1, d_model=16, d_ff=32, h=2))
    translator = Translator(model, Sides())
    maps = forced_attention(translator, 'a dog runs .', 'ein Hund läuft .')
    target = Sides.target.encode(['ein Hund läuft .'])[0]
    assert maps['target'] == [*Sides.target.pieces(target), '</s>'] and '<unk>' not in maps['target']
    assert spell(maps['source'][:-1]) == 'a dog runs .'.split()
    (right,) = words_right(translator, [('a dog runs .', 'ein Hund läuft .')])
    assert len(right) == 4  # one answer for each word of the translation
    tree = grow_tree(translator, 'a dog runs .', 2, 2)['tree']
    assert {node[0] for node in tree} <= {*Sides.target.pieces(range(40))}
    sentence = Tree('S', [Tree('NN', 'dog'), Tree('VBZ', 'runs')])
    (source, target), = encode_trees(Sides(), [sentence])
    assert source == Sides.source.encode([spell_words(Sides(), ['dog', 'runs'])])[0]
    assert target == Sides.target.encode([linearise(sentence)])[0]


def test_an_empty_sentence_is_refused(translator):
    with pytest.raises(InputError, match='empty sentence'): forced_attention(translator, '', 'ein Hund')


def test_word_ids_without_a_mark(): assert word_ids(['x', 'y', '▁z']) == [0, 0, 1]


# Gold dependencies

PRONOUNS = {'m': {'er', 'ihn', 'ihm'}, 'f': {'sie', 'ihr'}, 'n': {'es', 'ihm'}}


def test_pronouns_lead_to_a_noun_of_their_gender():
    genders = {form: n.gender for n in lexicon().nouns for form in {n.de, n.genitive}}
    g, singular = Grammar(11), 0
    for _ in range(300):
        e = g.sample('far_pronoun')
        d = dependency(e)
        row, column = d.places['decoder']
        assert d.name == 'pronoun' and row == d.word and e.en.split()[d.places['encoder'][0]] in ('it', 'they', 'them')
        if e.en.split()[d.places['encoder'][0]] != 'it': continue
        singular += 1
        assert e.de.split()[row] in PRONOUNS[genders[e.de.split()[column - 1]]], (e.en, e.de)
    assert singular > 100


@pytest.mark.parametrize('construction', ['relative_clause', 'perfect', 'modal', 'separable'])
def test_places_lie_inside_the_sentence(construction):
    g, found = Grammar(12), 0
    for _ in range(200):
        e = g.sample(construction)
        d = dependency(e)
        if d is None: continue
        found += 1
        n, m = len(e.en.split()), len(e.de.split())
        sizes = {'encoder': (n, n), 'decoder': (m, m + 1), 'cross': (m, n)}
        assert all(place is None or all(0 <= p < s for p, s in zip(place, sizes[kind]))
                   for kind, place in d.places.items())
        assert d.places['decoder'][1] <= d.word and d.distance > 0
    assert found > 20


# Edits of heads

def weights(model): return {name: p.clone() for name, p in model.state_dict().items()}


@pytest.mark.parametrize('edit', [without_heads, uniform_heads])
def test_edits_are_undone_even_after_an_error(translator, edit):
    before = weights(translator.model)
    with pytest.raises(KeyError):
        with edit(translator.model, [('encoder', 0, 1), ('cross', 1, 0)]): raise KeyError
    for name, p in translator.model.state_dict().items(): assert torch.equal(p, before[name]), name


def test_a_uniform_decoder_head_still_sees_no_future(translator):
    with uniform_heads(translator.model, [('decoder', 0, 0)]):
        maps = forced_attention(translator, 'a dog', 'ein Hund läuft')
    m = maps['decoder'].shape[-1]
    expected = torch.ones(m, m).tril()
    assert torch.allclose(maps['decoder'][0, 0], expected/expected.sum(-1, keepdim=True), atol=1e-6)


def test_averaged_heads_share_one_map_and_come_back(translator):
    plain = forced_attention(translator, 'a dog runs .', 'ein Hund läuft .')
    with averaged_heads(translator.model, ['encoder']):
        shared = forced_attention(translator, 'a dog runs .', 'ein Hund läuft .')
    assert torch.allclose(shared['encoder'], shared['encoder'][:, :1].expand_as(shared['encoder']))
    # below the first layer nothing has changed yet
    assert torch.allclose(shared['encoder'][0, 0], plain['encoder'][0].mean(0), atol=1e-6)
    again = forced_attention(translator, 'a dog runs .', 'ein Hund läuft .')
    for kind in KINDS: assert torch.equal(again[kind], plain[kind])


def test_per_head_measures_every_head_alone(translator):
    before, cfg = weights(translator.model), translator.model.cfg
    changed = lambda: sum(not torch.equal(p, before[name]) for name, p in translator.model.state_dict().items())
    assert per_head(translator.model, 'cross', without_heads, changed) == [[1]*cfg.h]*cfg.N
    uneven = Transformer(TransformerConfig(20, N=1, N_decoder=3, d_model=8, d_ff=8, h=2))
    for kind, layers in (('encoder', 1), ('decoder', 3), ('cross', 3)):
        assert per_head(uneven, kind, without_heads, lambda: 0) == [[0, 0]]*layers


def test_a_kind_that_there_is_not_is_not_taken_for_the_decoder(translator):
    with pytest.raises(KeyError), averaged_heads(translator.model, 'encoder'): pass  # a list is meant: ['encoder']


# What was measured

def test_stored_measurements():
    assert RESULTS.stat().st_size <= 100_000
    measured = json.loads(RESULTS.read_text(encoding='utf-8'))
    assert set(measured['about']) >= {'command', 'seed', 'steps', 'minutes', 'machine', 'bleu', 'signature'}
    for e in measured['examples'].values():
        maps = expand(e)
        for kind in KINDS: assert (maps[kind].sum(-1) - 1).abs().max() < .02


# Chosen on some sentences, scored on others

def test_a_head_is_chosen_on_validation_and_scored_on_test():
    validation, test = [[.1, .9], [.5, .2]], [[.8, .3], [.4, .7]]
    assert heads.chosen(validation, test) == {'head': [0, 1], 'validation': .9, 'test': .3, 'best on test': .8}
    assert heads.chosen(validation, test, min) == {'head': [0, 0], 'validation': .1, 'test': .8, 'best on test': .3}


def test_a_fixed_distance_is_chosen_on_validation_and_scored_on_test():
    "Two back is best on validation, three back would be on test."
    validation, test = [(5, 3), (7, 5), (4, 1)], [(5, 2), (6, 3), (4, 1), (5, 3)]
    assert heads.fixed_distance(validation, test) == {'distance': -2, 'validation': .667, 'test': .25}


def test_sentences_to_choose_by_are_not_those_to_score_by():
    corpus = {name: Grammar(seed).samples(300) for name, seed in (('train', 21), ('test', 22))}
    found = heads.drawn(heads.RECIPE | {'sentences of a dependency': 20}, corpus)
    sides = {name: {e.en for rows in part.values() for e, _ in rows} for name, part in found.items()}
    assert len(sides['validation']) == len(sides['test']) == 60
    known = {e.en for e in corpus['train']}
    assert not known & sides['test'] and not (known | sides['test']) & sides['validation']
    assert not {e.en for e in corpus['test']} & sides['validation']


COUNTED = json.loads((SCRIPTS/'results'/'heads.json').read_text(encoding='utf-8'))


def questions(run):
    "What a head is chosen for: its shares or errors on both sets of sentences, and which is best."
    yield run['alignment'], min
    for kinds in run['dependencies'].values(): yield from ((looks, max) for looks in kinds.values())


def test_three_models_with_training_and_three_without():
    trained = [run for run in COUNTED['runs'] if run['model'] != 'untrained']
    assert [run['seed'] for run in trained] == [0, 1, 2] and len({run['steps'] for run in trained}) == 1
    assert len(COUNTED['runs']) == 6 and 'left' not in COUNTED and min(run['bleu'] for run in trained) > 95


@pytest.mark.parametrize('run', COUNTED['runs'], ids=lambda run: f"{run['model']} {run['seed']}")
def test_stored_heads_are_chosen_on_validation_and_scored_on_test(run):
    for found, best in questions(run):
        (layer, head), grids = found['chosen']['head'], {split: found[split] for split in ('validation', 'test')}
        assert found['chosen']['validation'] == best(map(best, grids['validation'])) == grids['validation'][layer][head]
        assert found['chosen']['test'] == grids['test'][layer][head]
        assert found['chosen']['best on test'] == best(map(best, grids['test']))


def test_means_are_over_what_chosen_heads_reach_on_test():
    trained = [run for run in COUNTED['runs'] if run['model'] != 'untrained']
    for name, kinds in trained[0]['dependencies'].items():
        for kind in kinds:
            scores = [run['dependencies'][name][kind]['chosen']['test'] for run in trained]
            assert COUNTED['over models'][name][kind]['trained']['scores'] == scores
    found = COUNTED['over models']['alignment']['trained']
    a, b, c = found['scores']
    assert found['mean'] == pytest.approx((a + b + c)/3, abs=6e-4)
    spread = sum((x - (a + b + c)/3)**2 for x in (a, b, c))/2
    assert found['half'] == pytest.approx(4.303*(spread/3)**.5, abs=1e-3)
