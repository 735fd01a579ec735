"""The model that browsers run writes the same tokens as the library's with int8, and the live sentence can be used
by keyboard."""
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT

from transformer_nb.decode.translator import Translator

sys.path.insert(0, str(ROOT/'tools'))
pytest.importorskip('selenium')
import site_live
from browser import served
from site_front import still
from site_words import SITE_LIBS, said_in, write_words

ODD = ['xylophone', 'Ａ  dog runs', '', 'the dog 犬 🐕🐕 runs .', '½ a dog', 'İstanbul ﬁne ①']

COMPARE = """
const texts = arguments[0], answers = []
const {beamSearch, greedy, unpack} = await import('./site_libs/live/transformer.js')
const {model, tokenizer} = await unpack(await (await fetch('site_libs/live/model.bin')).arrayBuffer())
for (const text of texts) {
  const source = tokenizer.encode(text), ids = [...source, model.cfg.eos_id]
  const before = performance.now(), found = greedy(model, ids)
  const between = performance.now(), beam = beamSearch(model, ids)
  const ms = [between - before, performance.now() - between]
  answers.push({source, greedy: found, beam, text: tokenizer.decode(found), ms})
}
return answers"""


@pytest.fixture(scope='module')
def demo(): return Translator.from_pretrained('demo', int8=True)


@pytest.fixture(scope='module')
def folder(tmp_path_factory, demo):
    "What the live sentence needs, as the site has it."
    place = tmp_path_factory.mktemp('live')
    shutil.copytree(ROOT/'tools/site_libs/live', place/'site_libs/live')
    site_live.write_live(place/'site_libs/live', demo, site_live.known_words())
    write_words(place)
    return place


@pytest.fixture
def played(browser, folder):
    "What a script returns on an empty page of a site."
    def play(script, *arguments, folder=folder):
        (folder/'empty.html').write_text('<!doctype html><html lang="en"><body>')
        with served(folder) as address:
            browser.open(f'{address}/empty.html')
            return browser.play(script, *arguments)
    return play


def test_any_text_has_the_same_pieces(played, demo):
    assert [found['source'] for found in played(COMPARE, ODD)] == [row[:-1] for row in demo.encode(ODD)]


@pytest.mark.parametrize('n', [12, pytest.param(500, marks=pytest.mark.slow)])
def test_tokens_are_those_of_the_library(n, played, demo):
    "Greedy search and beam 4, for sentences that the model was not trained on."
    texts = [source for source, _ in site_live.corpus()['test'].pairs[:n]]
    answers, rows = played(COMPARE, texts), demo.encode(texts)
    wanted = [[demo.search([row], beam, .6, 1)[0][0].ids for row in rows] for beam in (1, 4)]
    for text, row, found, *ids in zip(texts, rows, answers, *wanted, strict=True):
        assert found['source'] == row[:-1], text
        assert [found['greedy'], found['beam']] == ids, text
        assert found['text'] == demo.tokenizer.decode([ids[0]])[0], text
    for name, ids, times in zip(('greedy', 'beam 4'), wanted, zip(*(found['ms'] for found in answers))):
        print(f'{name}: {sum(times)/sum(len(row) + 1 for row in ids):.1f} ms a token')


USE = """
const root = Object.assign(document.body.appendChild(document.createElement('div')), {id: 'live'})
root.dataset.base = 'site_libs/live/'
await import('./site_libs/live/live.js')
const until = async seen => { while (!seen()) await new Promise(again => setTimeout(again, 20)) }
const find = what => document.querySelector('#live ' + what), press = key => {
  document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))
}
const said = () => find('.live-said').textContent
const words = n => [...find(`.live-side:nth-of-type(${n})`).children].map(b => b.textContent)
const seen = {}
await until(() => find('.live-said'))
seen.first = [words(1), words(2), said()]
find('.live-side button').focus()
press('ArrowDown')
seen.down = said()
press('ArrowRight')
seen.right = said()
press('Escape')
seen.escape = said()
find('input').value = 'A xylophone runs'
find('form').requestSubmit()
await until(() => /ms a word piece|Not translated/.test(said()))
seen.own = [find('input').value, words(1), said()]
find('select').value = 1
find('select').onchange()
seen.other = words(2)
return seen"""


def test_the_live_sentence_by_keyboard(played):
    seen = played(USE)
    hint = 'Point at a word, or go to one with Tab and the arrow keys.'
    english, german = 'did the tram depart last summer ?', 'fuhr die Straßenbahn letzten Sommer ab ?'
    assert seen['first'] == [[*english.split(), '(end)'], [*german.split(), '(end)'], hint]
    assert seen['down'].startswith('“the” was looked at to write “die” ')
    assert seen['right'].startswith('To write “die” the model looked at “the” ') and seen['escape'] == hint
    assert seen['own'][:2] == ['a xylophone runs .', ['a', 'xylophone', 'runs', '.', '(end)']]
    assert seen['own'][2].startswith('The model has never seen “xylophone”: expect nonsense. Translated here, ')
    assert seen['other'] == ['ein', 'Hund', 'läuft', '.', '(end)']


LABELS = """
seen.all = [...document.querySelectorAll('#live label, #live option, #live form button, #live [aria-label]')].flatMap(
  e => [e.firstChild.data, e.ariaLabel]).filter(Boolean)
return seen"""
THE = {
    'ja': '「the」を見て書いたのは「die」',
    'zh': '模型看着“the”写了“die”',
    'ko': '‘the’: 이 단어를 보고 쓴 것은 ‘die’ ',
}
HERE = {'ja': 'この画面で翻訳しました', 'zh': '已在本页翻译', 'ko': '이 화면에서 번역했습니다'}


@pytest.mark.parametrize('language', THE)
def test_the_live_sentence_in_the_language_of_the_page(language, played):
    "It shows no English but the sentences."
    use = USE.replace('Not translated', HERE[language]).replace('return seen', LABELS)
    seen = played(f"await import('./site_libs/words.{language}.js')\n{use}")
    assert seen['down'].startswith(THE[language]) and seen['escape'] == seen['first'][2]
    assert HERE[language] in seen['own'][2] and 'xylophone' in seen['own'][2]
    english = {word for text in said_in(SITE_LIBS) for word in re.findall('[A-Za-z]{3,}', re.sub('{.*?}', '', text))}
    shown = [text for text in seen['all'] if text not in site_live.SENTENCES]
    said = seen['right'], seen['escape'], seen['own'][2]
    shown += (re.sub('「[^」]*」|“[^”]*”|‘[^’]*’', '', text) for text in said)
    assert [text for text in shown if {*re.findall('[A-Za-z]+', text)} & (english - {'Tab'})] == [] and len(shown) > 20


ALONE = """<!doctype html><html lang="en"><title>Live</title><link rel="stylesheet" href="live.css">
<div id="live" data-base="site_libs/live/"></div><script type="module" src="site_libs/live/live.js"></script>"""
SAID = 'document.querySelector("#live .live-said")?.textContent || ""'


@pytest.fixture
def reader(browser, folder):
    (folder/'alone.html').write_text(ALONE)
    (folder/'live.css').write_text((ROOT/'tools/site_libs/css/live.css').read_text())
    with served(folder) as address:
        browser.open(f'{address}/alone.html', 390)
        browser.until(SAID)
        yield browser


FRONT = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Front</title><style>%s</style><script>%s</script>
<body class="front"><div id="quarto-content" class="quarto-container"><main class="content">
<div class="front-first"><div class="front-words"><h1>Words</h1></div>
<div id="live" class="front-live" data-base="site_libs/live/">%s</div></div><p>Below</p></main></div>
<script type="module" src="site_libs/live/live.js"></script>"""


def test_a_sentence_of_ones_own_by_real_keys(reader):
    reader.press('Tab', 'ArrowDown')
    assert reader.run('document.querySelector("#live input").value') == site_live.SENTENCES[1]
    reader.press('Tab', *'A dog', ' ', *'runs', 'Enter')  # Tab has marked what stood there
    assert reader.until(f'/Translated here|Not translated/.test({SAID}) && {SAID}').startswith('Translated here, ')
    assert reader.run('document.querySelector("#live input").value') == 'a dog runs .'
    reader.press(*4*['Tab'], 'ArrowDown')
    assert reader.run(SAID).startswith('“dog” was looked at to write “Hund” ')
    reader.press('Tab', 'ArrowDown')
    assert reader.run(SAID).startswith('To write “Hund” the model looked at “dog” ')


def test_a_word_by_finger(reader):
    reader.touch('document.querySelectorAll(".live-side button")[1]')
    assert reader.run(SAID).startswith('“the” was looked at to write “die” ')


def test_the_first_sentence_has_an_order_that_moves(demo):
    "A verb in two parts and one at the start: the words that are looked at most do not stand in order."
    first = site_live.told(demo, site_live.SENTENCES[0])
    weights = torch.tensor(first['cross']).float().mean((0, 1))
    looked = weights[:-1, :-1].argmax(-1)
    assert (looked.diff() < 0).any() and {'fuhr', 'ab'} <= {*first['target']}


JUMPS = """
window.jumps = []
const note = list => list.getEntries().forEach(({value, sources}) => jumps.push([value, sources.length]))
new PerformanceObserver(note).observe({type: 'layout-shift', buffered: true})
addEventListener('DOMContentLoaded', () => {
  const range = document.createRange()
  const letters = e => {
    range.selectNodeContents(e)
    return (({x, y, width, height}) => [x, y, width, height].map(Math.round))(range.getBoundingClientRect())
  }
  const words = () => [...document.querySelectorAll('.live-side > *')].map(letters)
  window.now = () => [document.querySelector('#live').offsetHeight, words()]
  window.before = now()
})"""


@pytest.mark.parametrize('width', [1440, 1280, 900, 390])
def test_nothing_jumps_when_the_live_sentence_comes(browser, folder, width):
    "The panel has the same height before and after, and each word stays where it stood."
    assets = Path(pytest.importorskip('smalldocs').__file__).parent/'assets'
    theme = assets/'vendor/bootstrap/bootstrap.min.css', assets/'smalldocs.css'
    css = [*theme, ROOT/'nbs/styles.css', *sorted((ROOT/'tools/site_libs/css').glob('*.css'))]
    told = json.loads((folder/'site_libs/live/sentences.json').read_text())[0]
    (folder/'front.html').write_text(FRONT % ('\n'.join(file.read_text() for file in css), JUMPS, still(told)))
    with served(folder) as address:
        browser.open(f'{address}/front.html', width)
        browser.until(SAID)
        height, words = browser.run('before')
        assert browser.run('now()') == [height, words] and len(words) == len(told['source'] + told['target'])
        assert browser.run('jumps') == []


def test_a_model_that_is_missing_is_told(played, folder, tmp_path):
    shutil.copytree(folder/'site_libs', tmp_path/'site_libs')
    (tmp_path/'site_libs/live/model.bin').unlink()
    seen = played(USE, folder=tmp_path)
    assert seen['own'][2] == 'Not translated: the model could not be fetched (404).'


def test_sixteen_bits_lose_nothing(demo):
    "The model is stored in half precision: what the browser is not given in 8 bits it has whole."
    assert all(torch.equal(numbers.half().float(), numbers) for numbers in demo.model.float().state_dict().values())


def test_size(folder):
    "What the first click fetches, and what stands there before."
    live = folder/'site_libs/live'
    assert (live/'model.bin').stat().st_size <= 1_700_000 and (live/'sentences.json').stat().st_size <= 60_000
    assert sum((live/name).stat().st_size for name in ('live.js', 'transformer.js')) <= 25_000
