"The viewer of attention maps in a browser: its arithmetic is the library's; heads, switches and keys do what they say."
import html
import json
import re

import pytest
import torch

from transformer_nb import Translator, show
from transformer_nb.core import COLORS, InputError
from transformer_nb.course.viewer import (KINDS, Viewer, _asset, attention_viewer, compact, expand, forced_attention,
                                          labels, to_words, value_norms)

SENTENCE = 'a thief remembered a bus driver .'


@pytest.fixture(scope='module')
def translator(): return Translator.from_pretrained('demo', 'cpu')


@pytest.fixture(scope='module')
def maps(translator):
    "As the page has them: whole thousandths."
    found = expand(compact(translator.attention(SENTENCE)))
    return found | {'norms': value_norms(translator, found)}


def view_of(page):
    "The data of the first sentence of a viewer."
    return json.loads(html.unescape(re.search(r'data-maps="([^"]*)"', page)[1]))[0]


@pytest.fixture
def answers(browser, tmp_path):
    "What a script puts into the list `found`, after a page has started."
    def play(body, script):
        Viewer(body).save(tmp_path/'page.html')
        browser.open((tmp_path/'page.html').as_uri())
        return browser.play(f'const found = []\n{script}\nreturn found')
    return play


# The numbers

ARITHMETIC = """
const kinds = JSON.parse(document.querySelector('#data').dataset.maps)[0].kinds
for (const {queries, keys, weights, norms, heads} of Object.values(kinds)) {
  const rows = digits => parts(decode(digits), keys.length), words = [queries, keys].map(wordsOf)
  const sink = Math.max(0, keys.indexOf('<' + '/s>'))
  const maps = parts(parts(rows(weights), queries.length), heads)
  const view = {words, keys, sink, maps, norms: parts(rows(norms), heads)}
  const one = (layer, head, switches) => computed(view, [{layer, head}], switches).map
  const all = switches => view.maps.map((row, layer) => row.map((_, head) => one(layer, head, switches)))
  const layer = view.maps[1].map((_, head) => ({layer: 1, head}))
  found.push({plain: all({}), words: all({words: true}), norms: all({norms: true}), hide: all({hide: true}),
    both: all({norms: true, hide: true, words: true}), mean: computed(view, layer, {words: true}).map,
    hidden: computed(view, layer, {hide: true}).hidden, names: [spell(queries, words[0]), spell(keys, words[1])]})
}"""


def scripted(maps, answers):
    "The arithmetic's results for all kinds, by its own script alone."
    data = re.search(r'data-maps="[^"]*"', attention_viewer(maps).html)[0]
    return answers(f'<div id="data" {data}></div><script>{_asset("maps.js")}</script>', ARITHMETIC)


def shares(weights): return weights/weights.sum(-1, keepdim=True).clamp(min=1e-9)


def by_hand(maps, kind, norms=False, hide=False):
    "The maps of one kind as the switches show them."
    weights, sink = maps[kind].clone(), {'encoder': -1, 'decoder': 0, 'cross': -1}[kind]
    if norms: weights = shares(weights*maps['norms'][kind][:, :, None])
    if hide: weights[..., sink] = 0
    return shares(weights) if hide else weights


def near(found, expected, eps=1e-6): assert (torch.tensor(found) - expected).abs().max() < eps


def test_the_pages_arithmetic_is_the_librarys(maps, answers):
    "Words, norms, the hidden sink and means, of every head."
    words = to_words(maps)
    for kind, found in zip(KINDS, scripted(maps, answers)):
        near(found['plain'], maps[kind])
        near(found['words'], words[kind])
        near(found['mean'], words[kind][1].mean(0))
        near(found['hide'], by_hand(maps, kind, hide=True))
        near(found['norms'], by_hand(maps, kind, norms=True), .01)  # the norms have three digits, too
        both = to_words(maps | {kind: by_hand(maps, kind, norms=True, hide=True)})[kind]
        near(found['both'], both, .01)
        assert found['names'] == list(labels(words, kind))
        sink = 0 if kind == 'decoder' else -1
        assert found['hidden'] == pytest.approx(maps[kind][1, :, :, sink].mean().item(), abs=1e-6)


@pytest.mark.parametrize('source, target', [
    ('12,5 %   of   it', 'Ärger'), ('犬が走る。', 'ein Hund'), ('x', 'y z'), ('<s> a </s>', 'ein ▁▁ x')])
def test_words_of_any_text(translator, source, target, answers):
    maps = expand(compact(forced_attention(translator, source, target)))
    words = to_words(maps)
    for kind, found in zip(KINDS, scripted(maps | {'norms': value_norms(translator, maps)}, answers)):
        near(found['words'], words[kind])
        assert found['names'] == list(labels(words, kind))


def test_norms_are_the_lengths_of_what_arrives(translator, maps):
    "By the outputs of the attention modules: all heads but one are silenced, and all weight lies on one key."
    norms, seen, translation = value_norms(translator, maps), [], translator.translate([SENTENCE])[0]
    cross = translator.model.decoder[1].cross_attention
    hook = cross.register_forward_hook(lambda module, inputs, output: seen.append(inputs[2]))
    forced_attention(translator, SENTENCE, translation)
    hook.remove()
    v = torch.zeros_like(cross.W_v(seen[0]))
    own = slice(2*cross.d_v, 3*cross.d_v)
    v[..., own] = cross.W_v(seen[0])[..., own]  # of head 3 alone
    assert torch.allclose(cross.W_o(v)[0].norm(dim=-1), norms['cross'][1, 2], atol=1e-4)


def test_a_page_holds_less_than_two_characters_a_weight(maps):
    packed = {kind: len(view['weights']) for kind, view in view_of(attention_viewer(maps).html)['kinds'].items()}
    assert all(packed[kind] < 2*maps[kind].numel() for kind in KINDS)
    lists = json.dumps([compact(maps)[kind] for kind in KINDS], separators=(',', ':'))
    assert sum(packed.values()) < .6*len(lists)
    assert len((_asset('viewer.css') + _asset('maps.js') + _asset('viewer.js')).encode()) < 16_000


# Heads

TOOLS = """
const $ = selector => [...document.querySelectorAll(selector)]
const heads = $('.tnb-heads button'), [attention, modes] = $('select').slice(-2)
const click = (k, keys = {}) => heads[k].dispatchEvent(new MouseEvent('click', {bubbles: true, ...keys}))
const press = (b, key) => b.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}))
const set = (list, value) => { list.value = value; list.dispatchEvent(new Event('change')) }
const point = (side, i) => $('.tnb-side')[side].children[i].dispatchEvent(new Event('mouseenter'))
const status = () => $('.tnb-status')[0].textContent
const pressed = () => heads.flatMap((b, k) => b.ariaPressed === 'true' ? [k] : [])
const colors = () => [...new Set($('line').map(line => line.getAttribute('stroke')))]
"""


def played(maps, script, answers): return answers(attention_viewer(maps).html, TOOLS + script)


def test_several_heads_by_mouse(maps, answers):
    script = """
click(5); found.push(pressed(), colors(), modes.selectedIndex)
click(10, {shiftKey: true}); found.push(pressed(), colors(), modes.selectedIndex)
click(0, {ctrlKey: true}); found.push(pressed(), colors())
point(0, 0); found.push(status())
click(5); found.push(pressed(), colors())            // now a click takes a head away; the others keep their colours
click(10); click(0); found.push(pressed())            // the last one stays"""
    one, color, mode, two, colors, several, three, more, said, less, kept, last = played(maps, script, answers)
    assert (one, color, mode) == ([5], [COLORS[0]], 0)
    assert (two, colors, several) == ([5, 10], [*COLORS[:2]], 1)
    assert (three, more) == ([0, 5, 10], [*COLORS[:3]])
    numbers = r': “[^%]* %(, “[^%]* %)?'
    lines = [f'layer {k}, head {k}{numbers}' for k in (2, 3, 1)]
    assert re.fullmatch(''.join(['To predict “▁ein”: ', *lines]), said)
    assert (less, kept, last) == ([0, 10], [*COLORS[1:3]], [0])


def test_several_heads_by_keyboard(maps, answers):
    script = """
heads[0].focus(); press(heads[0], 'ArrowRight'); found.push(pressed())    // alone, the choice goes where the focus goes
press(heads[1], ' '); press(heads[1], 'ArrowDown'); found.push(pressed(), heads.indexOf(document.activeElement))
press(heads[5], ' '); found.push(pressed(), heads.filter(b => b.tabIndex === 0).length)
set(modes, 0); found.push(pressed())"""
    assert played(maps, script, answers) == [[1], [1], 5, [1, 5], 1, [1]]


def test_layers_and_means(maps, answers):
    script = """
click(6); set(modes, 2); found.push(pressed(), colors().length)
set(modes, 3); point(0, 0); found.push(pressed(), colors().length, status())
set(modes, 4); point(0, 0); found.push(pressed().length, status())
click(9); found.push(pressed(), modes.selectedIndex)"""
    layer, many, mean, one, said, every, all_said, again, mode = played(maps, script, answers)
    assert (layer, many, mean, one) == ([4, 5, 6, 7], 4, [4, 5, 6, 7], 1)
    for text, weights in ((said, maps['cross'][1].mean(0)), (all_said, maps['cross'].mean((0, 1)))):
        top = weights[0].max()
        assert f"“{maps['source'][weights[0].argmax()]}” {100*top:.0f} %" in text
    assert 'mean of 4 heads' in said and 'mean of 16 heads' in all_said
    assert (every, again, mode) == (16, [9], 0)


# Switches

def test_switches(maps, answers):
    script = """
const [words, sink, norms] = $('input'), names = side => [...$('.tnb-side')[side].children].map(b => b.textContent)
const note = () => $('.tnb-note')[0].textContent
found.push(note(), names(1))
words.click(); found.push(names(1)); words.click()
set(modes, 4); sink.click(); point(0, 3); found.push(note(), status())
norms.click(); found.push(note()); sink.click(); found.push(note())
set(attention, 1); sink.click(); point(0, 0); found.push(note(), status())"""
    silent, pieces, words, hidden, said, both, norms, decoder, nothing = played(maps, script, answers)
    assert silent == '' and pieces == maps['source'] and words == to_words(maps)['source']
    share = maps['cross'][..., -1].mean().item()
    percent = f'{100*share:.{int(share < .1)}f} %'
    assert hidden == f'Hidden: {percent} on “</s>”, in the mean of all rows; the rest of each row is shown as 100 %.'
    assert '</s>' not in said and 'how much arrives' in both and 'Hidden' in both and 'Hidden' not in norms
    assert 'on “<s>”' in decoder and nothing.endswith('nothing else')   # the first row sees <s> alone


def test_what_there_is_to_switch(maps):
    "Maps of words have no pieces, maps without norms no norms: the page has nothing of either."
    words = view_of(attention_viewer(to_words(maps)).html)['kinds']['cross']
    assert 'norms' not in words and not any('▁' in name for name in words['queries'] + words['keys'])
    assert 'norms' in view_of(attention_viewer(maps).html)['kinds']['cross']


# A reader's own model

def test_show(translator, tmp_path):
    viewer = show(translator, 'a dog runs .')
    assert isinstance(viewer, Viewer) and viewer._repr_html_() == viewer.html
    view = view_of(viewer.html)
    assert view['title'] == 'a dog runs .' and all('norms' in view['kinds'][kind] for kind in KINDS)
    with pytest.raises(InputError, match='empty sentence'): show(translator, '')
    with pytest.raises(InputError, match='do not fit'): show(translator, 'the dog sleeps . '*300)
    viewer.save(tmp_path/'maps.html')
    assert (tmp_path/'maps.html').stat().st_size < 40_000


def test_show_leaves_the_translator_as_it_was(translator):
    before = translator.ready
    show(translator, 'a dog runs .')
    assert translator.ready is before
