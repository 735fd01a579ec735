// What stands beside the live figure, by the part whose box was chosen: words that look at words, maps of heads, vectors,
// the five next pieces. Each view builds its own, and returns what brings it up to date. `me` is the figure of live.js.
import {mean, spell, toWords, wordsOf} from './maps.js' // of the package's viewer of attention maps

const SVG = 'http://www.w3.org/2000/svg', ROW = 28, WIDTH = 120
export const make = (parent, tag, props = {}) => parent.appendChild(Object.assign(document.createElement(tag), props))
// A text in the page's language, which words.ja.js and its like have brought.
export const say = (text, values = {}) => (globalThis.translations?.[text] ?? text).replace(/{(\w+)}/g, (gap, name) => values[name] ?? gap)
export const percent = share => say('{n} %', {n: share < .0095 && share > 0 ? '< 1' : Math.round(100*share)})
const END = say('(end)'), START = say('(start)')  // for </s> and <s>

// ---- What was computed, as the boxes want it

// Words of both sides, of maps their rows and columns; rows of the decoder are named after the word that is written there.
export const inWords = answer => {
  const sides = {source: answer.source, target: answer.target}
  const words = Object.fromEntries(Object.entries(sides).map(([side, pieces]) => [side, wordsOf(pieces)]))
  const named = side => spell(sides[side], words[side]).map(word => word === '</s>' ? END : word)
  const told = {...answer, words, names: {source: named('source'), target: named('target')}}
  return {...told, axes: axesOf(told)}
}

// What the decoder reads are the words moved by one place: the columns of its map are grouped as pieces before them.
export const read = ({target, words, names}) => ({words: wordsOf(['<s>', ...target.slice(0, -1)]), names: [START, ...names.target.slice(0, -1)]})

const axesOf = answer => {
  const {words, names} = answer, heard = read(answer)
  return {
    encoder: {words: [words.source, words.source], names: [names.source, names.source]},
    decoder: {words: [words.target, heard.words], names: [heard.names, names.target]},
    cross: {words: [words.target, words.source], names: [names.source, names.target]},
  }
}

const mapOf = (me, layer, head) => {
  const maps = me.answer.maps[me.kind], {words} = me.answer.axes[me.kind]
  const heads = layer === 'all' ? maps.flat() : head === 'all' ? maps[layer] : [maps[layer][head]]
  return toWords(mean(heads), words)
}

const shown = piece => piece === '</s>' ? END : piece === '<s>' ? START : piece.startsWith('▁') ? piece.slice(1) : '…' + piece

// ---- Lines between two columns of words: keys at the left, queries at the right

const drawLine = (svg, from, to, weight) => {
  const drawn = svg.appendChild(document.createElementNS(SVG, 'line'))
  const ends = {x1: 0, y1: ROW*(from + .5), x2: WIDTH, y2: ROW*(to + .5), 'stroke-opacity': weight**.7,
                'vector-effect': 'non-scaling-stroke'}
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
export const choose = (me, kept) => {
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
    const weights = weightsOf(), {names} = me.answer.axes[me.kind]
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
    const {names} = me.answer.axes[me.kind], height = ROW*Math.max(...names.map(side => side.length))
    if (String(names) !== drawn) names.forEach(column)
    drawn = String(names)
    svg.setAttribute('height', height)
    svg.setAttribute('viewBox', `0 0 ${WIDTH} ${height}`)
    draw(me.kept)
  }
}

// ---- The views

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
    me.compute()
  }
}

const attention = (me, box) => {
  const bar = make(box, 'div', {className: 'live-bar'})
  layerPicker(me, bar, [[say('all together'), 'all']])
  maskSwitch(me, bar)
  return lines(me, box, () => mapOf(me, me.layer, 'all'))
}

// A field for each number from 0 to 1, in rows, and in the colour that letters have in an element, as `inkOf` found it.
const paint = (canvas, numbers, width, ink) => {
  const image = new ImageData(width, numbers.length/width)
  numbers.forEach((strength, k) => {
    image.data.set(ink, 4*k)
    image.data[4*k + 3] = 255*strength
  })
  Object.assign(canvas, {width, height: image.height})
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
      me.compute()
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
  const paintAll = () => {
    const ink = inkOf(grid)
    for (const {layer, head, canvas} of thumbs) {
      const map = mapOf(me, layer, head)
      paint(canvas, map.flat(), map[0].length, ink)
    }
  }
  return () => {
    for (const {layer, head, button} of thumbs) {
      const mine = layer === me.layer && head === me.head
      button.ariaPressed = String(mine)
      button.tabIndex = mine ? 0 : -1
      button.classList.toggle('silent', me.silenced.has(named(layer, head)))
    }
    requestAnimationFrame(paintAll)  // in a turn of its own, so that no frame has to wait for everything
    switches.forEach(switched => switched())
    update()
  }
}

// Vectors as rows of small fields: the darker, the larger the number.
const strips = (me, box, numbersOf, hasLayers = true) => {
  if (me.layer === 'all') me.layer = me.model.N - 1
  if (hasLayers) layerPicker(me, make(box, 'div', {className: 'live-bar'}))
  const table = make(box, 'div', {className: 'live-strips'})
  return () => {
    const {vectors, source, target} = me.answer, numbers = vectors && numbersOf(vectors[me.side])
    table.replaceChildren()
    if (!numbers) return me.compute()
    const names = me.side === 'encoder' ? source : ['<s>', ...target.slice(0, -1)]
    const low = Math.min(...numbers), high = Math.max(...numbers)
    for (const name of names) make(table, 'span', {textContent: shown(name), lang: me.side === 'encoder' ? 'en' : 'de'})
    const canvas = make(table, 'canvas')
    canvas.style.gridRow = `1 / span ${names.length}`
    paint(canvas, numbers.map(v => (v - low)/(high - low)), numbers.length/names.length, inkOf(table))
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
    const answer = await me.beam()
    if (!answer) return
    const text = plainText(answer.target), same = text === plainText(me.answer.target)
    line.textContent = same ? say('Beam search, four at a time, finds the same.') : say('Beam search, four at a time, finds “{text}”.', {text})
  }
}

export const plainText = target => target.slice(0, -1).join('').replaceAll('▁', ' ').trim()

const tokens = (me, box) => {
  const list = make(box, 'ol', {className: 'live-pieces', lang: me.side === 'encoder' ? 'en' : 'de'})
  return () => {
    const {source, target, ids} = me.answer, isSource = me.side === 'encoder'
    const pieces = isSource ? source : ['<s>', ...target.slice(0, -1)], numbers = isSource ? ids.source : [me.model.bos_id, ...ids.target.slice(0, -1)]
    list.replaceChildren()
    pieces.forEach((piece, i) => make(make(list, 'li', {textContent: shown(piece)}), 'small', {textContent: numbers[i]}))
  }
}

export const VECTORS = ['embedding', 'positions', 'feed-forward', 'add', 'norm']
export const VIEWS = {
  tokens, attention, heads, next, softmax: next,
  embedding: (me, box) => strips(me, box, vectors => vectors.embedding, false),
  positions: (me, box) => strips(me, box, vectors => vectors.positions, false),
  'feed-forward': (me, box) => strips(me, box, vectors => vectors.layers[me.layer].hidden),
  add: (me, box) => strips(me, box, vectors => vectors.layers[me.layer].add[me.sublayer]),
  norm: (me, box) => strips(me, box, vectors => vectors.layers[me.layer].norm[me.sublayer]),
}
