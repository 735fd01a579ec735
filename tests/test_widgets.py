"""The six widgets: one piece of HTML each, within their size, and in a browser they say what the library computes.

One page holds every widget twice; a script moves the sliders, presses buttons and keys, and writes down what is said.
"""
import re

import pytest
import torch

from transformer_nb.attention import masked_softmax
from transformer_nb.core import InputError
from transformer_nb.course.widgets import (DIVISORS, WIDGETS, WIDTHS, _script, beam_data, clock_data, head_data,
                                           mask_data, score_data, widget)
from transformer_nb.decode.search import beam_search, greedy
from transformer_nb.decode.translator import Translator
from transformer_nb.course.viewer import Viewer, _asset
from transformer_nb.optimizer import lrate

NUMBER = r'(-?\d+(?:\.\d+)?(?:e-?\d+)?)'


@pytest.fixture(scope='module')
def pages(): return {name: widget(name).html for name in WIDGETS}


# One piece of HTML

def test_the_names():
    assert list(WIDGETS) == ['scores', 'masks', 'clock', 'heads', 'warmup', 'beam']
    with pytest.raises(InputError, match="no widget 'beams': choose from scores, masks"): widget('beams')


@pytest.mark.parametrize('name', WIDGETS)
def test_it_needs_nothing_from_elsewhere_and_has_no_ids(name, pages):
    assert not re.search(r'\s(src|href|id)=|@import|url\(|fetch\(|\bimport\b|innerHTML', pages[name])
    assert pages[name].count('<script>') == pages[name].count('</script>') == pages[name].count('</div>') == 1


@pytest.mark.parametrize('name', WIDGETS)
def test_it_is_small(name, pages):
    given = re.search("data-given='(.*?)'>", pages[name], re.S)[1]
    assert len(_script(name).encode()) <= 6_500 and len(given.encode()) <= 30_000


def test_rules_touch_nothing_else():
    rules = [line for line in _asset('widgets/widgets.css').splitlines() if line]
    assert len(rules) > 10 and all(rule.startswith('.tnb-widget ') for rule in rules)


def test_a_saved_page_has_its_own_title(tmp_path):
    widget('masks').save(tmp_path/'masks.html')
    assert '<title>Who may look at whom</title>' in (tmp_path/'masks.html').read_text()


# In a browser

DRIVE = """
const roots = name => document.querySelectorAll(`[data-widget=${name}]`)
const set = (root, i, value) => {
  const input = root.querySelectorAll('input')[i]
  input.value = value
  input.dispatchEvent(new Event('input'))
}
const said = root => root.querySelector('.tnb-said').textContent
const texts = (root, selector) => [...root.querySelectorAll(selector)].map(e => e.textContent)
const press = (element, key) => element.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))
const found = {}
{
  const root = roots('scores')[1], buttons = root.querySelectorAll('button')
  found.scores = [...Array(10).keys()].map(i => {
    set(root, 0, i)
    return [...buttons].map(b => { b.click(); return said(root) })
  })
}
{
  const root = roots('masks')[1], [masks, fill] = root.querySelectorAll('select')
  const look = () => [said(root), texts(root, '.tnb-grid button')]
  found.masks = [...masks.options].map((_, k) => {
    masks.selectedIndex = k
    masks.dispatchEvent(new Event('change'))
    return look()
  })
  masks.selectedIndex = 0
  masks.dispatchEvent(new Event('change'))
  const cells = root.querySelectorAll('.tnb-grid button')
  cells[0].focus()
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowRight', 'ArrowRight']) {
    press(document.activeElement, key)
  }
  document.activeElement.click()  // row 2, column 3: "the" looks ahead
  found.painted = [...look(), [...cells].indexOf(document.activeElement), [...cells].filter(c => !c.tabIndex).length]
}
{
  const root = roots('clock')[1]
  found.clock = [[17, 20], [60, 63], [0, 100]].map(([a, b]) => { set(root, 0, a); set(root, 1, b); return said(root) })
  found.hands = [...root.querySelectorAll('svg line')].slice(0, 16).map(l =>
    ['x1', 'y1', 'x2', 'y2'].map(k => +l.getAttribute(k)))
}
{
  const root = roots('heads')[1]
  found.heads = [0, 1, 2, 3].map(i => {
    set(root, 0, i)
    return [said(root), ...[...root.querySelectorAll('svg')].map(svg => texts(svg, 'rect + text'))]
  })
}
{
  const root = roots('warmup')[1]
  found.warmup = [[6, 3, 2], [2, 0, 4], [8, 4, 0], [0, 3, 2]].map(at => {
    at.forEach((value, i) => set(root, i, value))
    return said(root)
  })
}
{
  const root = roots('beam')[1]
  const [first, second, back, forward, end] = root.querySelectorAll('button')
  found.beam = [first, second].map(sentence => [0, 1, 2, 3].map(k => [0, 1, 2, 3, 4, 5].map(a => {
    sentence.click()
    set(root, 0, k)
    set(root, 1, a)
    end.click()
    return [said(root), texts(root, 'li')]
  })))
  for (let i = 0; i < 20; i++) back.click()
  found.first = said(root)
  forward.click()
  found.second = said(root)
  found.dropped = [first, second].map(sentence => [0, 1, 2, 3].map(k => {
    sentence.click()
    set(root, 0, k)
    for (let i = 0; i < 20; i++) back.click()
    return texts(root, '.tnb-dropped + text')
  }))
}
const small = [...document.querySelectorAll('.tnb-widget :is(input, select, button)')].filter(e => {
  const {width, height} = e.getBoundingClientRect()
  return width < 40 || height < 40
})
found.small = small.map(e => e.outerHTML)
found.wide = [...document.querySelectorAll('.tnb-widget')].filter(e => e.scrollWidth > e.clientWidth).map(
  e => e.dataset.widget)
found.nameless = [...document.querySelectorAll('.tnb-widget :is(input, select, button, svg)')].filter(e =>
  !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label')?.textContent.trim())).length
return found"""


@pytest.fixture(scope='module')
def found(browser, pages, tmp_path_factory):
    "What the script has written down, in a place as narrow as a phone's."
    page = tmp_path_factory.mktemp('widgets')/'page.html'
    body = ''.join(2*page for page in pages.values())
    Viewer(f'<div style="width: 340px">{body}</div>').save(page)
    browser.open(page.as_uri())
    return browser.play(DRIVE)


def numbers(pattern, text): return [float(n) for n in re.search(pattern.replace('N', NUMBER), text).groups()]


def test_fingers_find_everything_on_a_phone(found):
    assert not found['small'] and not found['wide'] and found['nameless'] == 0


def test_scores_say_what_the_library_computes(found):
    data = score_data()
    for i, d_k in enumerate(WIDTHS):
        for j, by in enumerate(DIVISORS.values()):
            p = (torch.tensor(data['keys'][i])/by(d_k)).softmax(-1)
            jacobian = torch.diag(p) - p[:, None]*p
            said = numbers('Largest weight N, entropy N of .* Jacobian N. .* query: N.$', found['scores'][i][j])
            expected = p.max(), torch.special.entr(p).sum(), jacobian.norm(), data['gradients'][i][j]
            assert said == pytest.approx([float(x) for x in expected], abs=6e-3, rel=.06), (d_k, j)


def test_gradients_fall_without_the_root():
    gradients = score_data()['gradients']
    assert gradients[9][0] < gradients[9][1]/50 and gradients[9][2] < gradients[9][1]/10
    assert .5 < gradients[9][1]/gradients[2][1] < 2


def shown(weights): return ['NaN' if w != w else '0' if w == 0 else f'{w:.2f}'.removeprefix('0') for w in weights]


def weights_of(data, preset):
    "By the library, or with what a broken mask does instead."
    scores = torch.tensor(data['scores'], dtype=torch.double)
    mask = torch.tensor([[int(cell) for cell in row] for row in preset['rows']]).bool()
    if preset['fill'] == 0: return masked_softmax(scores, mask)
    return scores.masked_fill(~mask, {1: -torch.inf, 2: -1.}[preset['fill']]).softmax(-1)


def test_masks_show_the_weights_of_the_library(found):
    data = mask_data()
    meant = weights_of(data, data['presets'][0]) > 0
    for preset, (said, cells) in zip(data['presets'], found['masks'], strict=True):
        weights = weights_of(data, preset)
        assert [cell.lstrip('!') for cell in cells] == shown(weights.flatten().tolist()), preset['name']
        leaks = (weights != 0) & ~meant
        assert numbers('^Leaks: N, missing: N. ', said) == [leaks.sum(), (meant & (weights == 0)).sum()]
        assert [cell.startswith('!') for cell in cells] == leaks.flatten().tolist()
    assert 'As it is meant' in found['masks'][0][0] and '2 rows have no key and are NaN' in found['masks'][-1][0]


def test_a_cell_is_painted_by_keys(found):
    data = mask_data()
    said, cells, place, stops = found['painted']
    rows = [*data['presets'][0]['rows']]
    rows[2] = '001100'
    assert place == 2*6 + 3 and stops == 1           # the grid is one stop of the Tab key
    expected = weights_of(data, {'rows': rows, 'fill': 0})
    assert [cell.lstrip('!') for cell in cells] == shown(expected.flatten().tolist())
    assert said.startswith('Leaks: 1, missing: 0.') and 'query 3 “the” gives' in said and 'to key 4 “dog”' in said


def test_the_clock_is_the_table(found):
    data = clock_data()
    table = torch.tensor(data['table'])
    for (a, b), said in zip(((17, 20), (60, 63), (0, 100)), found['clock']):
        dot = (table[a]*table[b]).sum().item()
        said = numbers('has made N turns, .* distance N, dot product N of 8; .* is N.$', said)
        assert said == pytest.approx([a/data['waves'][0], abs(a - b), dot, dot], abs=.006)
    for clock in range(8):                               # the hands of positions 100 (thin) and 0 (thick)
        for position, (x1, y1, x2, y2) in zip((100, 0), found['hands'][2*clock:2*clock + 2]):
            hand = (x2 - x1)/30, (y1 - y2)/30
            assert hand == pytest.approx(table[position, 2*clock:2*clock + 2].tolist(), abs=1e-4)


def test_the_cuts_are_those_of_the_module(found):
    for cut, (said, whole, right, wrong) in zip(head_data()['cuts'], found['heads'], strict=True):
        def names(table): return ['tdr'[i // 8] + str(i % 8 + 1) for i in torch.tensor(table).flatten().tolist()]
        assert (whole, right, wrong) == (names(cut['whole']), names(cut['right']), names(cut['wrong']))
        rows = torch.arange(3)[:, None] != torch.tensor(cut['wrong'])//8
        assert f'puts {rows.sum()} of 24 numbers' in said and f"h = {cut['h']}: each head gets {8//cut['h']} of" in said


def test_the_rate_is_equation_3(found):
    settings = (4000, 512, 1), (200, 64, 4), (16000, 1024, .25), (1, 512, 1)
    for (warmup, d_model, factor), said in zip(settings, found['warmup'], strict=True):
        expected = [lrate(step, d_model, warmup, factor) for step in (warmup, 4*warmup, 100)]
        peak, later, at_100 = numbers('peak N and has fallen to N at .* it is N. The paper', said)
        assert [peak, later, at_100] == pytest.approx(expected, rel=6e-3)
    assert found['warmup'][0].endswith('0.000699: the same.')


@pytest.fixture(scope='module')
def translator(): return Translator.from_pretrained('demo', 'cpu', dtype='float32')


# By real keys, and by a finger

@pytest.fixture(scope='module')
def reader(browser, tmp_path_factory):
    "Shows a widget in a browser as wide as a phone."
    folder = tmp_path_factory.mktemp('reader')

    def show(name):
        widget(name).save(folder/f'{name}.html')
        browser.open((folder/f'{name}.html').as_uri(), 390)
        return browser
    return show


BY_KEYS = {  # keys from the top of the page, and what is said then
    'scores': [['Tab', 'ArrowRight', 'ArrowRight', 'Tab', 'Tab', 'Enter'], r'd_k = 256, divided by √d_k: 0 % '],
    'masks': [['Tab', 'ArrowDown', 'Tab', 'Tab', 'ArrowDown', *2*['ArrowRight'], ' '], r'Leaks: 12, missing: 0\.'],
    'clock': [['Tab', 'Home', 'Tab', 'End', 'ArrowLeft'], r'At position 0 .* Positions 0 and 99: distance 99'],
    'heads': [['Tab', 'End', 'Tab', ' '], r'h = 8: each head gets 1 of .* “the” should be in every head'],
    'warmup': [['Tab', 'ArrowRight', *2*['Tab'], 'ArrowRight'], r'The rate rises for 8000 steps to its peak 0\.000988'],
    'beam': [[*5*['Tab'], 'Enter', 'Enter', 'Tab', ' '], r'Step 5 of 6, kept'],
}
BY_FINGER = {  # what is touched, and where the finger is drawn to
    'scores': ['input', .99, r'd_k = 512, '], 'masks': ['.tnb-grid button', .5, r'Leaks: 1, missing: 0\.'],
    'clock': ['input', .01, r'At position 0 '], 'heads': ['input', .99, r'h = 8: '],
    'warmup': ['input', .01, r'The rate rises for 1 step'], 'beam': ['button:nth-child(2)', .5, r'Step 6 of 12, '],
}
SAID = 'document.querySelector(".tnb-said").textContent'


@pytest.mark.parametrize('name', WIDGETS)
def test_keys_reach_and_change_a_widget(name, reader):
    seen = reader(name)
    keys, said = BY_KEYS[name]
    assert not re.match(said, seen.run(SAID))
    seen.press(*keys)
    assert re.match(said, seen.run(SAID)), seen.run(SAID)
    assert seen.run('getComputedStyle(document.activeElement).outlineStyle') == 'solid'  # one sees where one is


@pytest.mark.parametrize('name', WIDGETS)
def test_a_finger_changes_a_widget(name, reader):
    seen = reader(name)
    selector, share, said = BY_FINGER[name]
    assert not re.match(said, seen.run(SAID))
    seen.touch(f'document.querySelector("{selector}")', share)
    assert re.match(said, seen.run(SAID)), seen.run(SAID)


TREES = {tree['source']: tree for tree in beam_data()['trees']}


@pytest.mark.parametrize('n, source', [*enumerate(TREES)])
def test_the_beam_finds_what_the_library_finds(n, source, found, translator):
    src = torch.tensor(translator.encode([source]))
    def say(ids): return translator.tokenizer.decode([ids])[0]
    for k, of_beam in enumerate(found['beam'][n], 1):
        for a, (said, ends) in enumerate(of_beam):
            best = beam_search(translator.ready, src, k, .2*a)[0][0]
            assert f'Best: “{say(best.ids)}”' in said and ends[0].startswith(say(best.ids)), (k, a)
            assert numbers(', score N. Greedy', said) == pytest.approx([best.score], abs=2e-3)
    assert say(greedy(translator.ready, src)[0]) in found['beam'][n][0][0][0]


def test_greedy_search_loses_and_a_penalty_decides(found):
    bakers, tourist = found['beam']
    assert 'Greedy search writes “lag die Bäcker ?”: P .046 against .154.' in bakers[3][3][0]
    assert 'stellt uns vor' in tourist[3][0][0] and 'stellt uns uns vor' in tourist[3][5][1][0]
    assert found['first'].startswith('Step 1 of') and found['second'].startswith('Step 2 of')


def test_the_two_best_that_are_dropped_are_drawn(found):
    for drawn, tree in zip(found['dropped'], TREES.values(), strict=True):
        first = [piece + ' ×' for piece, *_ in tree['tree']]
        assert drawn == [first[k:k + 2] for k in (1, 2, 3, 4)]


@pytest.mark.parametrize('source', TREES)
def test_a_stored_tree_holds_probabilities(source):
    def check(children):
        logps = [node[1] for node in children]
        assert logps == sorted(logps, reverse=True) and torch.tensor(logps).exp().sum() <= 1.001
        assert max(logps) <= 0 and len(children) == 7
        for node in children:
            if len(node) > 2: check(node[2])
    check(TREES[source]['tree'])
