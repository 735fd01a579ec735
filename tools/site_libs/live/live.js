// The live sentence: choose one or write one, and the model in transformer.js translates it here, in the browser. Lines show
// where each word of the translation looked; a pointer, a finger or the arrow keys choose a word. A dozen sentences are
// translated already, so the model (1.7 MB) is fetched only when somebody asks for more. The words around them are the
// page's: `say` finds their translations in what words.ja.js and its like have brought.
import {mean, spell, toWords, wordsOf} from './maps.js' // of the package's viewer of attention maps
import {beamSearch, crossAttention, greedy, unpack} from './transformer.js'

const SVG = 'http://www.w3.org/2000/svg', ROW = 32, WIDTH = 120
const make = (parent, tag, props = {}) => parent.appendChild(Object.assign(document.createElement(tag), props))
const say = (text, values) => (globalThis.translations?.[text] ?? text).replace(/{(\w+)}/g, (_, name) => values[name])
const percent = weight => say('{n} %', {n: Math.round(100*weight)})

// The answer of the model: words of both sides, and cross[layer][head][word of the translation][word of the sentence].
const translate = ({model, tokenizer}, text, beams) => {
  const source = [...tokenizer.encode(text), model.cfg.eos_id], before = performance.now()
  const written = beams > 1 ? beamSearch(model, source, beams) : greedy(model, source)
  const ms = (performance.now() - before)/(written.length + 1)
  const pieces = [[...written, model.cfg.eos_id], source].map(ids => ids.map(id => tokenizer.pieces[id]))
  const words = pieces.map(wordsOf), [said, read] = pieces.map((own, side) => spell(own, words[side]))
  const cross = crossAttention(model, source, written).map(heads => heads.map(map => toWords(map, words)))
  return {source: read, target: said, cross, ms}
}

// As the corpus writes: signs apart, the first letter small but for names and I, a sign that it knows at the end. The
// package does the same (`as_written` in lesson 16).
const asInTheCorpus = (text, words) => {
  const apart = text.replaceAll('’', "'").replace(/([.,?!])(?=[.,?!]*(?:\s|$))/g, ' $1').replace(/(\S)'s(?=\s|$)/g, "$1 's")
  const parts = apart.split(/\s+/).filter(Boolean), last = parts.length - 1
  if (!parts.length) return ''
  if (words.has(parts[0].toLowerCase())) parts[0] = parts[0].toLowerCase()
  if (parts[last] === '!' && !words.has('!')) parts[last] = '.'
  if (!/[.?!。？！…]$/.test(parts[last])) parts.push('.')
  return parts.join(' ')
}

// ---- What is drawn: two columns of words and the lines between them

const line = (svg, from, to, weight) => {
  const drawn = svg.appendChild(document.createElementNS(SVG, 'line'))
  const ends = {x1: 0, y1: ROW*(from + .5), x2: WIDTH, y2: ROW*(to + .5), 'stroke-opacity': weight**.7}
  for (const [name, value] of Object.entries(ends)) drawn.setAttribute(name, value)
}

const weightsOf = me => {
  const {cross} = me.shown
  if (me.heads.value === 'all') return mean(cross.map(mean))
  const [layer, head] = me.heads.value.split(',')
  return head === 'all' ? mean(cross[layer]) : cross[layer][head]
}

// `chosen` is {side: 0 or 1, i} or null; side 0 is the sentence, side 1 its translation.
const draw = (me, chosen) => {
  const weights = weightsOf(me)
  me.svg.replaceChildren()
  weights.forEach((row, i) => row.forEach((weight, j) => {
    if (weight > .02 && (!chosen || (chosen.side ? i : j) === chosen.i)) line(me.svg, j, i, weight)
  }))
  const looked = chosen && (chosen.side ? weights[chosen.i] : weights.map(row => row[chosen.i]))
  me.sides.forEach((side, k) => [...side.children].forEach((button, i) => {
    button.classList.toggle('chosen', Boolean(chosen) && k === chosen.side && i === chosen.i)
    const weight = looked && k !== chosen.side ? looked[i] : 0
    button.style.setProperty('--weight', Math.round(60*weight**.7) + '%')
  }))
  me.said.textContent = chosen ? spoken(me.shown, chosen, looked) : me.note
}

const spoken = ({source, target}, {side, i}, looked) => {
  const [own, other] = side ? [target, source] : [source, target]
  const top = looked.map((weight, k) => [weight, other[k]]).sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([w]) => w > .02)
  const seen = top.map(([weight, word]) => say('“{word}” {percent}', {word, percent: percent(weight)})).join(say(', '))
  if (side) return say('To write “{word}” the model looked at {seen}.', {word: own[i], seen})
  return say('“{word}” was looked at to write {seen}.', {word: own[i], seen})
}

const column = (me, words, side) => {
  me.sides[side].replaceChildren()
  words.forEach((textContent, i) => {
    const chosen = {side, i}, keep = () => draw(me, me.kept = chosen)
    make(me.sides[side], 'button', {
      type: 'button', textContent, tabIndex: i ? -1 : 0, onclick: keep, onfocus: keep, onmouseenter: () => draw(me, chosen),
    })
  })
}

// The arrow keys move inside a column and from one to the other; Tab leaves it.
const arrows = (me, e) => {
  const side = me.sides.findIndex(s => s.contains(e.target))
  const {ArrowUp: up, ArrowDown: down, ArrowLeft: left, ArrowRight: right} = {[e.key]: true}
  if (e.key === 'Escape') return draw(me, me.kept = null)
  if (side < 0 || !(up || down || left || right)) return
  e.preventDefault()
  const i = [...me.sides[side].children].indexOf(e.target) + (down ? 1 : up ? -1 : 0)
  const there = me.sides[left ? 0 : right ? 1 : side].children
  there[Math.max(0, Math.min(i, there.length - 1))].focus()
}

const show = (me, answer, note) => {
  Object.assign(me, {shown: answer, note, kept: null})
  for (const side of [answer.source, answer.target]) side[side.length - 1] = say('(end)') // for </s>
  column(me, answer.source, 0)
  column(me, answer.target, 1)
  const height = ROW*Math.max(answer.source.length, answer.target.length)
  me.svg.setAttribute('height', height)
  me.svg.setAttribute('viewBox', `0 0 ${WIDTH} ${height}`)
  draw(me, null)
}

// ---- What happens

const HINT = say('Point at a word, or go to one with Tab and the arrow keys.')

// The model comes with the first click, and only once.
const loaded = me => me.loading ??= fetch(me.base + 'model.bin').then(answer => {
  if (!answer.ok) throw Error(say('the model could not be fetched ({status})', answer))
  return answer.arrayBuffer()
}).then(unpack)

const ask = async me => {
  me.note = me.said.textContent = say('Fetching the model, 1.7 MB …')
  try {
    const live = await loaded(me), text = asInTheCorpus(me.input.value, live.words)
    if (!text) return me.said.textContent = say('Write an English sentence.')
    me.input.value = text
    const answer = translate(live, text, +me.search.value), strange = text.split(' ').filter(word => !live.words.has(word))
    const words = strange.map(word => say('“{word}”', {word})).join(say(', '))
    const unknown = words && say('The model has never seen {words}: expect nonsense. ', {words})
    show(me, answer, unknown + say('Translated here, {ms} ms a word piece. ', {ms: answer.ms.toFixed(1)}) + HINT)
  } catch (error) {
    me.loading = null  // the next click tries again
    me.said.textContent = say('Not translated: {why}.', {why: error.message})
  }
}

const picker = (parent, name, options, onchange) => {
  const select = make(make(parent, 'label', {textContent: name + ' '}), 'select', {onchange})
  options.forEach(([textContent, value]) => make(select, 'option', {textContent, value}))
  return select
}

const headNames = ({cross}) => [[say('all together'), 'all'], ...cross.flatMap((heads, layer) => [
  [say('layer {n}, all heads', {n: layer + 1}), `${layer},all`],
  ...heads.map((_, head) => [say('layer {n}, head {head}', {n: layer + 1, head: head + 1}), `${layer},${head}`]),
])]

const controls = (me, stored) => {
  const form = make(me.root, 'form', {className: 'live-form', onsubmit: e => { e.preventDefault(); ask(me) }})
  const chosen = () => {
    me.input.value = stored[me.pick.value].text
    show(me, stored[me.pick.value], HINT)
  }
  me.pick = picker(form, say('Sentence'), stored.map(({text}, i) => [text, i]), chosen)
  me.input = make(make(form, 'label', {textContent: say('or your own') + ' '}), 'input', {type: 'text', value: stored[0].text, maxLength: 120, spellcheck: false})
  me.search = picker(form, say('Search'), [[say('beam 4'), 4], [say('greedy'), 1]])
  me.heads = picker(form, say('Heads'), headNames(stored[0]), () => draw(me, me.kept))
  make(form, 'button', {type: 'submit', textContent: say('Translate'), className: 'live-go'})
}

// Stored weights are whole thousandths.
const inShares = told => ({...told, cross: told.cross.map(heads => heads.map(map => map.map(row => row.map(w => w/1000))))})

const start = async root => {
  const me = {root, base: root.dataset.base}, stored = (await (await fetch(me.base + 'sentences.json')).json()).map(inShares)
  root.replaceChildren()
  controls(me, stored)
  const map = make(root, 'div', {className: 'live-map', onkeydown: e => arrows(me, e), onmouseleave: () => draw(me, me.kept)})
  const side = label => make(map, 'div', {className: 'live-side', role: 'group', ariaLabel: label})
  const english = side(say('English sentence'))
  me.svg = map.appendChild(document.createElementNS(SVG, 'svg'))
  me.svg.ariaHidden = true
  me.svg.setAttribute('preserveAspectRatio', 'none')
  me.sides = [english, side(say('German translation'))]
  english.lang = 'en'
  me.sides[1].lang = 'de'
  me.said = make(root, 'p', {className: 'live-said', ariaLive: 'polite'})
  show(me, stored[0], HINT)
}

if (typeof document !== 'undefined') document.querySelectorAll('#live').forEach(start)
