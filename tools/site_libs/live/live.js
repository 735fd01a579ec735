// One sentence through figure 1: the words enter below, the model of transformer.js (in a worker) writes above, and each box
// of the figure shows what happens there. The first sentence is translated already; the model (1.7 MB) is fetched only when
// somebody asks for more. The words around it are the page's: `say` finds their translations in what words.ja.js and its
// like have brought.
import {mean, spell, toWords, wordsOf} from './maps.js' // of the package's viewer of attention maps

const SVG = 'http://www.w3.org/2000/svg', ROW = 28, WIDTH = 120, PACE = 150
const make = (parent, tag, props = {}) => parent.appendChild(Object.assign(document.createElement(tag), props))
const say = (text, values = {}) => (globalThis.translations?.[text] ?? text).replace(/{(\w+)}/g, (gap, name) => values[name] ?? gap)
const percent = share => say('{n} %', {n: share < .0095 && share > 0 ? '< 1' : Math.round(100*share)})
const product = numbers => numbers.reduce((a, b) => a*b, 1)
const END = say('(end)'), START = say('(start)')  // for </s> and <s>

// ---- What each box is, in a sentence

const LOOKS = {
  encoder: [say('Self-attention'), say('Each English word looks at all of them, and takes from each as much as the line is dark.')],
  decoder: [say('Masked self-attention'), say('To write a German word the decoder looks at those before it; the mask hides the word itself and all later ones.')],
  cross: [say('Attention to the memory'), say('To write a German word the decoder looks at the English ones: lines cross where the order moves.')],
}
const MANY = say('{h} heads in each of {N} layers look at once, each in its own way. Silence some: what can the others do without them?')
const ABOUT = {
  tokens: {
    encoder: [say('Source tokens'), say('The model reads {n} pieces: a frequent word is one piece, a rare one several, and (end) closes the sentence.')],
    decoder: [say('Target tokens'), say('The decoder reads what it has written so far; before there is a word, it reads (start).')],
  },
  embedding: [say('Embedding'), say('Each piece becomes {d_model} numbers, its row of one matrix that also stands before the softmax.')],
  positions: [say('Positions'), say('These sines and cosines of the place are added, for attention by itself knows no order.')],
  attention: LOOKS,
  heads: {
    encoder: [say('Heads of the self-attention'), MANY],
    decoder: [say('Heads of the masked self-attention'), MANY],
    cross: [say('Heads of the attention to the memory'), MANY],
  },
  'feed-forward': [say('Feed-forward'), say('Each word goes alone through {d_ff} numbers, of which those below zero become 0: {left} are left here.')],
  add: [say('Add'), say('What the sub-layer found is added to what came in, which so is never lost.')],
  norm: [say('Norm'), say('Each vector is brought to mean 0 and variance 1, then scaled as learned. This small model does it before each sub-layer, the paper after it.')],
  softmax: [say('Linear, softmax'), say('The last vector is compared with all {vocab_size} pieces, and the softmax makes probabilities of that: here the five largest.')],
  next: [say('Next token'), say('The most probable piece is written, and read in turn, until (end) comes: greedy search.')],
}

// ---- What was computed, as the boxes want it

// Words of both sides, of maps their rows and columns; rows of the decoder are named after the word that is written there.
const inWords = answer => {
  const sides = {source: answer.source, target: answer.target}
  const words = Object.fromEntries(Object.entries(sides).map(([side, pieces]) => [side, wordsOf(pieces)]))
  const named = side => spell(sides[side], words[side]).map(word => word === '</s>' ? END : word)
  return {...answer, words, names: {source: named('source'), target: named('target')}}
}

// What the decoder reads are the words moved by one place: the columns of its map are grouped as pieces before them.
const read = ({target, words, names}) => ({words: wordsOf(['<s>', ...target.slice(0, -1)]), names: [START, ...names.target.slice(0, -1)]})

const axes = (answer, kind) => {
  const {words, names} = answer, heard = read(answer)
  if (kind === 'encoder') return {words: [words.source, words.source], names: [names.source, names.source]}
  if (kind === 'decoder') return {words: [words.target, heard.words], names: [heard.names, names.target]}
  return {words: [words.target, words.source], names: [names.source, names.target]}
}

const mapOf = (me, layer, head) => {
  const maps = me.answer.maps[me.kind], {words} = axes(me.answer, me.kind)
  const heads = layer === 'all' ? maps.flat() : head === 'all' ? maps[layer] : [maps[layer][head]]
  return toWords(mean(heads), words)
}

const shown = piece => piece === '</s>' ? END : piece === '<s>' ? START : piece.startsWith('▁') ? piece.slice(1) : '…' + piece

// ---- Lines between two columns of words: keys at the left, queries at the right

const drawLine = (svg, from, to, weight) => {
  const drawn = svg.appendChild(document.createElementNS(SVG, 'line'))
  const ends = {x1: 0, y1: ROW*(from + .5), x2: WIDTH, y2: ROW*(to + .5), 'stroke-opacity': weight**.7}
  for (const [name, value] of Object.entries(ends)) drawn.setAttribute(name, value)
}

const spoken = ({kind}, names, {side, i}, looked) => {
  const other = names[1 - side]
  const top = looked.map((weight, k) => [weight, other[k]]).sort((a, b) => b[0] - a[0]).slice(0, 3).filter(([w]) => w > .02)
  const seen = top.map(([weight, word]) => say('“{word}” {percent}', {word, percent: percent(weight)})).join(say(', '))
  const word = names[side][i]
  if (kind === 'encoder') return side ? say('“{word}” looks at {seen}.', {word, seen}) : say('“{word}” is looked at by {seen}.', {word, seen})
  return side ? say('To write “{word}” the model looked at {seen}.', {word, seen}) : say('“{word}” was looked at to write {seen}.', {word, seen})
}

// The arrow keys move inside a column and from one to the other; Tab leaves it.
const arrows = (me, sides, e) => {
  const side = sides.findIndex(s => s.contains(e.target))
  const {ArrowUp: up, ArrowDown: down, ArrowLeft: left, ArrowRight: right} = {[e.key]: true}
  if (e.key === 'Escape') return choose(me, null)
  if (side < 0 || !(up || down || left || right)) return
  e.preventDefault()
  const i = [...sides[side].children].indexOf(e.target) + (down ? 1 : up ? -1 : 0)
  const there = sides[left ? 0 : right ? 1 : side].children
  there[Math.max(0, Math.min(i, there.length - 1))].focus()
}

// A word is {side, i} or null; it is kept until another one is chosen, and while one only points at another.
const choose = (me, kept) => {
  me.kept = kept
  me.update()
}

const lines = (me, box, weightsOf) => {
  const map = make(box, 'div', {className: 'live-map'}), said = make(box, 'p', {className: 'live-looked', ariaLive: 'polite'})
  const side = () => make(map, 'div', {className: 'live-side', role: 'group'})
  const left = side(), svg = map.appendChild(document.createElementNS(SVG, 'svg')), sides = [left, side()]
  let drawn = null  // the names of the words that stand there
  svg.setAttribute('aria-hidden', 'true')
  svg.setAttribute('preserveAspectRatio', 'none')
  const column = (words, side) => {
    sides[side].replaceChildren()
    sides[side].ariaLabel = side ? say('words that look') : say('words that are looked at')
    sides[side].lang = side && me.kind !== 'encoder' || me.kind === 'decoder' ? 'de' : 'en'
    words.forEach((textContent, i) => {
      const word = {side, i}, keep = () => choose(me, word)
      make(sides[side], 'button', {type: 'button', textContent, tabIndex: i ? -1 : 0, onclick: keep, onfocus: keep, onmouseenter: () => draw(word)})
    })
  }
  const draw = word => {
    const weights = weightsOf(), {names} = axes(me.answer, me.kind)
    const chosen = word && word.i < names[word.side].length ? word : null
    svg.replaceChildren()
    weights.forEach((row, i) => row.forEach((weight, j) => {
      if (weight > .02 && (!chosen || (chosen.side ? i : j) === chosen.i)) drawLine(svg, j, i, weight)
    }))
    const looked = chosen && (chosen.side ? weights[chosen.i] : weights.map(row => row[chosen.i]))
    sides.forEach((side, k) => [...side.children].forEach((button, i) => {
      button.classList.toggle('chosen', Boolean(chosen) && k === chosen.side && i === chosen.i)
      const weight = looked && k !== chosen.side ? looked[i] : 0
      button.style.setProperty('--weight', Math.round(60*weight**.7) + '%')
    }))
    said.textContent = chosen ? spoken(me, names, chosen, looked) : say('Point at a word, or go to one with Tab and the arrow keys.')
  }
  map.onkeydown = e => arrows(me, sides, e)
  map.onmouseleave = () => draw(me.kept)
  return () => {
    const {names} = axes(me.answer, me.kind), height = ROW*Math.max(...names.map(side => side.length))
    if (String(names) !== drawn) names.forEach(column)
    drawn = String(names)
    svg.setAttribute('height', height)
    svg.setAttribute('viewBox', `0 0 ${WIDTH} ${height}`)
    draw(me.kept)
  }
}

// ---- What stands beside the figure, by the part whose box was chosen: each builds its own, and returns what brings it up
// to date

const picker = (parent, name, options, value, onchange) => {
  const select = make(make(parent, 'label', {textContent: name + ' '}), 'select')
  options.forEach(([textContent, own]) => make(select, 'option', {textContent, value: own}))
  select.value = value
  select.onchange = () => onchange(select.value)
  return select
}

const layers = me => Array.from({length: me.model.N}, (_, n) => [say('layer {n}', {n: n + 1}), n])

const layerPicker = (me, parent, more = []) => picker(parent, say('Layer'), [...more, ...layers(me)], me.layer, value => {
  me.layer = value === 'all' ? value : +value
  me.update()
})

const maskSwitch = (me, parent) => {
  if (me.kind !== 'decoder') return
  const label = make(parent, 'label', {className: 'live-switch'}), box = make(label, 'input', {type: 'checkbox', checked: me.masked})
  label.append(' ' + say('mask'))
  box.onchange = () => {
    me.masked = box.checked
    compute(me)
  }
}

const attention = (me, box) => {
  const bar = make(box, 'div', {className: 'live-bar'})
  layerPicker(me, bar, [[say('all together'), 'all']])
  maskSwitch(me, bar)
  return lines(me, box, () => mapOf(me, me.layer, 'all'))
}

// A field for each number from 0 to 1, in the colour that letters have in an element, as `inkOf` found it.
const paint = (canvas, rows, ink) => {
  const width = rows[0].length, image = new ImageData(width, rows.length)
  rows.forEach((row, i) => row.forEach((strength, j) => image.data.set([...ink, 255*strength], 4*(i*width + j))))
  Object.assign(canvas, {width, height: rows.length})
  canvas.getContext('2d').putImageData(image, 0, 0)
}

const inkOf = element => getComputedStyle(element).color.match(/\d+/g).slice(0, 3).map(Number)

const heads = (me, box) => {
  if (me.layer === 'all') me.layer = me.model.N - 1
  const {N, h} = me.model, named = (layer, head) => `${me.kind}.${layer}.${head}`
  const bar = make(box, 'div', {className: 'live-bar'}), body = make(box, 'div', {className: 'live-heads'})
  const grid = make(body, 'div', {className: 'live-grid', role: 'group', ariaLabel: say('layers and heads')})
  grid.style.gridTemplateColumns = `repeat(${h}, auto)`
  const thumbs = Array.from({length: N*h}, (_, k) => {
    const [layer, head] = [Math.floor(k/h), k % h]
    const onclick = () => {
      Object.assign(me, {layer, head})
      me.update()
    }
    const button = make(grid, 'button', {type: 'button', onclick, ariaLabel: say('layer {n}, head {head}', {n: layer + 1, head: head + 1})})
    return {layer, head, button, canvas: make(button, 'canvas')}
  })
  grid.onkeydown = e => {
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -h, ArrowDown: h}[e.key]
    if (step) e.preventDefault()
    thumbs[thumbs.findIndex(({button}) => button === e.target) + step]?.button.click()
    grid.querySelector('[aria-pressed=true]').focus()
  }
  const silence = (text, those) => {
    const button = make(bar, 'button', {type: 'button', onclick: () => {
      const all = those().every(name => me.silenced.has(name))
      those().forEach(name => me.silenced[all ? 'delete' : 'add'](name))
      compute(me)
    }})
    return () => {
      button.textContent = text()
      button.ariaPressed = String(those().every(name => me.silenced.has(name)))
    }
  }
  const layerHeads = () => Array.from({length: h}, (_, head) => named(me.layer, head))
  const switches = [
    silence(() => say('silence this head'), () => [named(me.layer, me.head)]),
    silence(() => say('silence layer {n}', {n: me.layer + 1}), layerHeads),
    silence(() => say('silence all'), () => thumbs.map(({layer, head}) => named(layer, head))),
  ]
  maskSwitch(me, bar)
  const own = make(body, 'div'), update = lines(me, own, () => mapOf(me, me.layer, me.head))
  return () => {
    const ink = inkOf(grid)
    for (const {layer, head, button, canvas} of thumbs) {
      const mine = layer === me.layer && head === me.head
      button.ariaPressed = String(mine)
      button.tabIndex = mine ? 0 : -1
      button.classList.toggle('silent', me.silenced.has(named(layer, head)))
      paint(canvas, mapOf(me, layer, head), ink)
    }
    switches.forEach(switched => switched())
    update()
  }
}

// Vectors as rows of small fields: the darker, the larger the number.
const strips = (me, box, rowsOf, hasLayers = true) => {
  if (me.layer === 'all') me.layer = me.model.N - 1
  if (hasLayers) layerPicker(me, make(box, 'div', {className: 'live-bar'}))
  const table = make(box, 'div', {className: 'live-strips'})
  return () => {
    const rows = me.answer.vectors && rowsOf(me.answer.vectors[me.side]), pieces = me.answer[me.side === 'encoder' ? 'source' : 'target']
    table.replaceChildren()
    if (!rows) return compute(me)
    const names = me.side === 'encoder' ? pieces : ['<s>', ...pieces.slice(0, -1)]
    const all = rows.flatMap(row => [...row]), low = Math.min(...all), high = Math.max(...all), ink = inkOf(table)
    for (const name of names) make(table, 'span', {textContent: shown(name), lang: me.side === 'encoder' ? 'en' : 'de'})
    const canvas = make(table, 'canvas')
    canvas.style.gridRow = `1 / span ${rows.length}`
    paint(canvas, rows.map(row => [...row].map(v => (v - low)/(high - low))), ink)
  }
}

// The five most probable pieces of a step, and which step it is.
const next = (me, box) => {
  const bar = make(box, 'div', {className: 'live-bar'})
  const go = by => () => {
    me.step += by
    me.update()
  }
  const back = make(bar, 'button', {type: 'button', textContent: say('‹ back'), onclick: go(-1)})
  const forward = make(bar, 'button', {type: 'button', textContent: say('forward ›'), onclick: go(1)})
  const after = make(box, 'p', {className: 'live-after', ariaLive: 'polite'}), list = make(box, 'ol', {className: 'live-five'})
  if (me.part === 'next') beam(me, box)
  return () => {
    const {next, target} = me.answer, last = target.length - 1, step = me.step = Math.max(0, Math.min(me.step, last))
    back.ariaDisabled = String(!step)
    forward.ariaDisabled = String(step === last)
    const before = target.slice(0, step).join('').replaceAll('▁', ' ').trim()
    after.textContent = before ? say('After “{before}”, step {step} of {all}:', {before, step: step + 1, all: last + 1}) : say('At the start, step {step} of {all}:', {step: step + 1, all: last + 1})
    list.replaceChildren()
    for (const [piece, p] of next[step]) {
      const row = make(list, 'li', {className: piece === target[step] ? 'chosen' : ''})
      make(row, 'span', {textContent: shown(piece), lang: 'de'})
      make(row, 'i').style.width = `${50*p}%`
      make(row, 'span', {textContent: percent(p)})
    }
  }
}

const beam = (me, box) => {
  const line = make(box, 'p', {className: 'live-beam', ariaLive: 'polite'})
  const button = make(line, 'button', {type: 'button', textContent: say('And beam search, four at a time?')})
  button.onclick = async () => {
    try {
      const {target} = await ask(me, {...question(me), beams: 4}), text = plainText(target)
      const same = text === plainText(me.answer.target)
      line.textContent = same ? say('Beam search, four at a time, finds the same.') : say('Beam search, four at a time, finds “{text}”.', {text})
    } catch (error) { fail(me, error) }
  }
}

const plainText = target => target.slice(0, -1).join('').replaceAll('▁', ' ').trim()

const tokens = (me, box) => {
  const list = make(box, 'ol', {className: 'live-pieces', lang: me.side === 'encoder' ? 'en' : 'de'})
  return () => {
    const {source, target, ids} = me.answer, isSource = me.side === 'encoder'
    const pieces = isSource ? source : ['<s>', ...target.slice(0, -1)], numbers = isSource ? ids.source : [me.model.bos_id, ...ids.target.slice(0, -1)]
    list.replaceChildren()
    pieces.forEach((piece, i) => make(make(list, 'li', {textContent: shown(piece)}), 'small', {textContent: numbers[i]}))
  }
}

const VECTORS = ['embedding', 'positions', 'feed-forward', 'add', 'norm']
const VIEWS = {
  tokens, attention, heads, next, softmax: next,
  embedding: (me, box) => strips(me, box, vectors => vectors.embedding, false),
  positions: (me, box) => strips(me, box, vectors => vectors.positions, false),
  'feed-forward': (me, box) => strips(me, box, vectors => vectors.layers[me.layer].hidden),
  add: (me, box) => strips(me, box, vectors => vectors.layers[me.layer].add[me.sublayer]),
  norm: (me, box) => strips(me, box, vectors => vectors.layers[me.layer].norm[me.sublayer]),
}

// ---- The figure: its words, and its boxes as buttons

// The words of one place of the figure, as buttons that are one stop of the keyboard.
const wordRow = (row, words, notes, onclick) => {
  row.replaceChildren()
  words.forEach((word, i) => {
    const button = make(row, 'button', {type: 'button', textContent: word, tabIndex: i ? -1 : 0, onclick: () => onclick(i)})
    if (notes) make(button, 'small', {textContent: notes[i] ?? ''})
  })
  row.onkeydown = e => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[e.key], next = step && row.children[[...row.children].indexOf(e.target) + step]
    if (step) e.preventDefault()
    next?.focus()
  }
}

const drawWords = me => {
  const {names, words, chosen} = me.answer
  wordRow(me.out, names.target, words.target.map(word => percent(product(word.map(i => chosen[i])))), i => {
    me.step = words.target[i][0]
    choose(me, me.kind === 'encoder' ? null : {side: 1, i})
  })
  wordRow(me.in, names.source, null, i => choose(me, me.kind === 'decoder' ? null : {side: me.kind === 'encoder' ? 1 : 0, i}))
  me.heard.textContent = read(me.answer).names.join(' ')
  if (me.plain) [...me.out.children].forEach((button, i) => button.classList.toggle('other', me.plain.names.target[i] !== names.target[i]))
}

const about = me => {
  const of = ABOUT[me.part], [title, text] = Array.isArray(of) ? of : of[me.kind] ?? of[me.side]
  const hidden = me.answer.vectors?.[me.side].layers[+me.layer || 0].hidden.flatMap(row => [...row])
  const left = hidden ? percent(hidden.filter(v => v > 0).length/hidden.length) : '…', n = me.answer.source.length
  return [title, say(text, {...me.model, left, n})]
}

// A box opens what stands beside the figure; its own link is the door to the lesson.
const open = (me, box) => {
  const [part, side, sublayer] = box.dataset.station.split(' ')
  const kind = side === 'decoder' && sublayer === '1' ? 'cross' : side
  Object.assign(me, {part, side, kind, sublayer: +sublayer, kept: null})
  for (const other of me.boxes) {
    other.classList.toggle('lit', other === box)
    other.setAttribute('aria-pressed', other === box)
    other.setAttribute('tabindex', other === box ? 0 : -1)
  }
  me.equation.hidden = part !== 'attention'
  me.body.replaceChildren()
  const update = VIEWS[part](me, me.body)
  me.update = () => {
    const [title, text] = about(me)
    me.title.textContent = title
    me.sentence.textContent = text + ' '
    make(me.sentence, 'a', {href: box.href.baseVal, textContent: say('Lesson {n}', {n: box.dataset.lesson}) + ' →'})
    update()
  }
  me.update()
}

const boxes = me => {
  me.boxes = [...me.figure.querySelectorAll('a')]
  for (const box of me.boxes) {
    const [part, side, sublayer] = box.dataset.station.split(' '), of = ABOUT[part]
    box.setAttribute('role', 'button')
    box.setAttribute('aria-label', Array.isArray(of) ? of[0] : (of[sublayer === '1' ? 'cross' : side] ?? of[side])[0])
    box.addEventListener('click', e => {
      if (e.ctrlKey || e.metaKey || e.shiftKey) return  // a new tab for the lesson
      e.preventDefault()
      open(me, box)
      if (me.view.getBoundingClientRect().top > innerHeight - 300) me.view.scrollIntoView({block: 'nearest', behavior: 'smooth'})
    })
  }
  me.figure.onkeydown = e => {
    const at = me.boxes.indexOf(e.target), step = {ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1}[e.key]
    if (at < 0 || !step && e.key !== ' ') return
    e.preventDefault()
    if (step) me.boxes[at + step]?.focus()
    else open(me, me.boxes[at])
  }
}

// ---- Asking the worker

// What it has to say comes by the number of the question; the file of the model by none.
const ask = (me, question, hear = () => {}) => new Promise((done, fail) => {
  me.worker ??= worker(me)
  me.asked.push({done, fail, hear})
  me.worker.postMessage({...question, id: me.asked.length - 1})
})

const worker = me => {
  const worker = new Worker(new URL('worker.js', import.meta.url), {type: 'module'})
  worker.onmessage = ({data: {id, got, of, written, answer, failed}}) => {
    if (got) Object.assign(me.bar, {hidden: got === of, value: got, max: of || got*2})
    if (written) me.asked[id].hear(written)
    if (answer) me.asked[id].done(answer)
    if (failed) me.asked[id].fail(failed)
  }
  worker.onerror = () => {  // it did not come; the next question tries again
    me.worker = null
    me.asked.forEach(({fail}) => fail({}))
  }
  return worker
}

const question = me => ({text: me.answer.text, silenced: [...me.silenced], masked: me.masked, vectors: VECTORS.includes(me.part)})

const fail = (me, {status, why}) => {
  me.bar.hidden = true
  const missing = say('the model could not be fetched ({status})', {status})
  const offline = say('the model could not be fetched: is there a network?')
  me.said.textContent = say('Not translated: {why}.', {why: why ?? (status ? missing : offline)})
}

const busy = (me, is) => {
  me.isBusy = is
  me.root.classList.toggle('running', is)
  me.root.ariaBusy = String(is)
}

// The answer, after all words that were written on the way have been seen; null if there is none, which is told.
const answered = async (me, question, hear) => {
  if (me.isBusy) return null
  busy(me, true)
  me.said.textContent = me.worker ? say('Translating …') : say('Fetching the model, 1.7 MB …')
  try {
    const answer = await ask(me, question, hear)
    await me.played
    return answer
  } catch (failure) {
    fail(me, failure)
    return null
  } finally { busy(me, false) }
}

const calm = matchMedia('(prefers-reduced-motion: reduce)')

// Words appear as they are chosen, none faster than the eye follows.
const writing = async (me, pieces) => {
  me.said.textContent = say('Translating …')
  wordRow(me.out, spell(pieces, wordsOf(pieces)), null, () => {})
  if (!calm.matches) await new Promise(done => setTimeout(done, PACE))
}

// A sentence of the reader.
const translate = async me => {
  const asked = {...question(me), text: me.input.value, silenced: [], masked: true}
  const answer = await answered(me, asked, written => { me.played = me.played.then(() => writing(me, written)) })
  if (!answer) return
  if (!answer.text) return me.said.textContent = say('Write an English sentence.')
  me.silenced.clear()
  me.masked = true
  me.plain = inWords(answer)
  me.input.value = answer.text
  show(me, me.plain)
  tell(me)
}

// The same sentence once more, as the switches want it.
const compute = async me => {
  const answer = await answered(me, question(me))
  if (!answer) return
  const told = inWords(answer)
  if (!me.silenced.size && me.masked) me.plain = told
  show(me, told)
  tell(me)
}

const show = (me, answer) => {
  me.answer = answer
  me.kept = null
  me.root.classList.toggle('unmasked', !me.masked)
  for (const box of me.boxes) {
    const [part, side, sublayer] = box.dataset.station.split(' '), kind = side === 'decoder' && sublayer === '1' ? 'cross' : side
    box.classList.toggle('silent', part === 'heads' && [...me.silenced].some(name => name.startsWith(kind)))
  }
  drawWords(me)
  me.update()
}

// What stands under the figure: what is odd; and beside it: what was changed.
const tell = me => {
  const {answer, plain, said, changed} = me
  said.replaceChildren()
  changed.replaceChildren()
  if (!me.masked) changed.append(cheating(answer) + ' ')
  if (me.silenced.size) changed.append(without(me, answer, plain) + ' ')
  if (!me.masked || me.silenced.size) {
    return make(changed, 'button', {type: 'button', textContent: say('As it was'), onclick: () => {
      me.silenced.clear()
      me.masked = true
      show(me, me.plain)
      open(me, me.boxes.find(box => box.classList.contains('lit')))
      tell(me)
    }})
  }
  for (const [word, near] of answer.unknown ?? []) {
    said.append(say('The model has never seen “{word}”: expect nonsense. ', {word}))
    if (near) make(said, 'button', {type: 'button', textContent: say('Try “{near}”', {near}), onclick: () => {
      me.input.value = answer.text.split(' ').map(other => other === word ? near : other).join(' ')
      translate(me)
    }})
  }
  if (answer.ms) said.append(say('Translated here, {ms} ms a word piece. ', {ms: answer.ms.toFixed(1)}))
}

// Without the mask: where the decoder would now say something else, and how often that is a piece which stands further on.
const cheating = ({target, next}) => {
  const other = next.map(([[piece]], i) => [piece, i]).filter(([piece, i]) => piece !== target[i])
  const ahead = other.filter(([piece, i]) => target.indexOf(piece, i + 1) > 0)
  return say('Mask off: the decoder can cheat, for it sees the words that it is to name. But it was trained with the mask: at {n} of {all} places it now names another piece, at {ahead} of these one that stands further on.', {n: other.length, all: target.length, ahead: ahead.length})
}

const without = (me, answer, plain) => {
  const n = me.silenced.size, before = plainText(plain.target), p = ({chosen}) => percent(product(chosen))
  const values = {n, before, was: p(plain), is: p(answer)}
  if (plainText(answer.target) !== before) return say('Without {n} of the heads the translation is another; before: “{before}”.', values)
  return say('Without {n} of the heads the translation stays; its probability is {is}, before {was}.', values)
}

// ---- The start

const controls = (me, sentences) => {
  const form = me.root.querySelector('form')
  form.onsubmit = e => {
    e.preventDefault()
    translate(me)
  }
  me.input = make(form, 'input', {type: 'text', value: sentences[0], maxLength: 120, spellcheck: false, ariaLabel: say('English sentence'), lang: 'en', autocapitalize: 'off'})
  me.pick = make(form, 'select', {ariaLabel: say('Sentences to try')})
  make(me.pick, 'option', {textContent: say('Sentences to try'), value: ''})
  sentences.forEach(textContent => make(me.pick, 'option', {textContent, value: textContent, lang: 'en'}))
  me.pick.onchange = () => {
    if (me.pick.value) me.input.value = me.pick.value
    if (me.pick.value) translate(me)
  }
  make(form, 'button', {type: 'submit', textContent: say('Translate'), className: 'live-go'})
}

// Stored weights and probabilities are whole thousandths.
const inShares = numbers => Array.isArray(numbers) ? numbers.map(inShares) : typeof numbers === 'number' ? numbers/1000 : numbers

const start = async root => {
  const {sentences, model, first} = await (await fetch(root.dataset.base + 'sentences.json')).json()
  const find = name => root.querySelector(`.live-${name}`), me = {root, model, asked: [], played: Promise.resolve(), silenced: new Set(), masked: true, layer: model.N - 1, head: 0, step: 0}
  for (const name of ['out', 'in', 'heard', 'said', 'changed', 'hint', 'view', 'title', 'sentence', 'equation', 'body']) me[name] = find(name)
  me.figure = root.querySelector('svg')
  me.bar = make(me.said.parentNode, 'progress', {hidden: true, ariaLabel: say('The file of the model')})
  const maps = Object.fromEntries(Object.entries(first.maps).map(([kind, own]) => [kind, inShares(own)]))
  me.plain = me.answer = inWords({...first, maps, next: inShares(first.next), chosen: inShares(first.chosen)})
  me.equation.firstElementChild.setAttribute('aria-label', say('Attention of Q, K, V equals softmax of Q times K transposed over the square root of d k, times V'))
  me.figure.setAttribute('aria-label', say('Figure 1 of the paper'))
  me.out.ariaLabel = say('German translation')
  me.in.ariaLabel = say('English sentence')
  me.hint.textContent = say('Click a box: see what it does to this sentence.')
  controls(me, sentences)
  boxes(me)
  drawWords(me)
  open(me, me.boxes.find(({dataset}) => dataset.station === 'attention decoder 1'))
  tell(me)
  new MutationObserver(() => me.update()).observe(document.documentElement, {attributes: true, attributeFilter: ['data-scheme', 'data-bs-theme']})
}

document.querySelectorAll('#live').forEach(start)
