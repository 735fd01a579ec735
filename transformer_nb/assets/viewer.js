// The tools: `make` adds an element, its text always as text, so that no token is ever read as markup; `arrows` makes a
// group of buttons one stop of the Tab key, with the arrow keys moving inside.
const make = (parent, tag, props = {}) => parent.appendChild(Object.assign(document.createElement(tag), props))
const percent = w => (100 * w).toFixed(w < .1 ? 1 : 0) + ' %'

const picker = (parent, name, options, current, choose) => {
  const list = make(make(parent, 'label', {textContent: name + ' '}), 'select', {onchange: () => choose(+list.value)})
  options.forEach((text, i) => make(list, 'option', {textContent: text, value: i, selected: i === current}))
  return list
}

const checkbox = (parent, name, choose) => {
  const label = make(parent, 'label'), box = make(label, 'input', {type: 'checkbox'})
  box.onchange = () => choose(box.checked)
  label.append(' ' + name)
}

const arrows = (box, columns, arrive = () => {}) => {
  const buttons = () => [...box.querySelectorAll('button')]
  box.onfocusin = e => buttons().forEach(b => { b.tabIndex = b === e.target ? 0 : -1 })
  box.onkeydown = e => {
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns}[e.key]
    const next = step && buttons()[buttons().indexOf(document.activeElement) + step]
    if (step) e.preventDefault()
    if (!next) return
    next.focus()
    arrive(next)
  }
}

// What is said: a sentence with the numbers of each head, and a line about what the switches do.
const largest = (weights, names, most) => {
  const top = weights.map((w, k) => [w, names[k]]).filter(([w]) => w >= .01).sort((a, b) => b[0] - a[0]).slice(0, most)
  return top.map(([w, name]) => `“${name}” ${percent(w)}`).join(', ') || 'nothing else'
}

const tell = ({view, shown, status}, token, strips) => {
  const {side, i} = token || {}
  const start = side ? 'Looking at ' : view.lead
  const help = 'Point at a token, or go to one with Tab and the arrow keys. A click keeps it.'
  status.replaceChildren()
  make(status, 'span', {textContent: token ? `${start}“${view.names[side][i]}”: ` : help})
  shown.forEach(({name, color}, n) => {
    const line = make(status, 'span', {className: name && 'tnb-name'})
    if (name) make(line, 'span', {className: 'tnb-dot'}).style.background = color
    const numbers = token ? [largest(strips[n].weights, view.names[1 - side], shown.length > 1 ? 2 : 4)] : []
    line.append((name ? [name, ...numbers] : numbers).join(': '))
  })
}

const noteOf = ({view, shown, at}) => {
  const hidden = `Hidden: ${percent(sum(shown.map(one => one.hidden)) / shown.length)} on “${view.keys[view.sink]}”`
  const rest = at.hide ? `${hidden}, in the mean of all rows; the rest of each row is shown as 100 %.` : ''
  return (at.norms ? 'Weights times the length of what the head makes of the value: how much arrives. ' : '') + rest
}

// What happens when a head is chosen. `me` is a viewer: its maps and elements; `at` is the choice, `shown` the result.
const MODES = ['one', 'several', 'all of a layer', 'mean of a layer', 'mean of all']
const same = (a, b) => a.layer === b.layer && a.head === b.head
const isMean = mode => mode.startsWith('mean')
const colorOf = (me, {slot}) => me.colors[slot % me.colors.length]
const nameOf = ({layer, head}) => `layer ${layer + 1}, head ${head + 1}`

// A head comes or goes, but the last one stays. `slot` counts colours: the others keep theirs.
const toggled = (chosen, place) => {
  const rest = chosen.filter(other => !same(other, place))
  if (rest.length < chosen.length) return rest.length ? rest : chosen
  const slot = [...chosen, place].findIndex((_, n) => !chosen.some(other => other.slot === n))
  return [...chosen, {...place, slot}]
}

const pick = (me, place, mode) => {
  const wanted = other => mode === 'mean of all' || (mode === 'one' ? same(other, place) : other.layer === place.layer)
  const all = me.places.filter(wanted).map((other, n) => ({...other, slot: isMean(mode) ? 0 : n}))
  Object.assign(me.at, {mode, chosen: mode === 'several' ? toggled(me.at.chosen, place) : all})
  settle(me)
}

const settle = me => {
  const {chosen, mode} = me.at, name = heads => heads.length > 1 ? `mean of ${heads.length} heads` : nameOf(heads[0])
  me.shown = (isMean(mode) ? [chosen] : chosen.map(place => [place])).map(heads => (
    {name: chosen.length > 1 ? name(heads) : '', color: colorOf(me, heads[0]), ...computed(me.view, heads, me.at)}))
  me.modes.value = MODES.indexOf(mode)
  me.heads.querySelectorAll('button').forEach((b, i) => {
    const mine = chosen.find(place => same(place, me.places[i]))
    b.setAttribute('aria-pressed', !!mine)
    b.style.color = mine ? colorOf(me, mine) : ''
  })
  me.note.textContent = noteOf(me)
  light(me, me.at.pinned)
}

const light = (me, token) => {
  const weights = map => token.side ? column(map, token.i) : map[token.i]
  const strips = token ? me.shown.map(({map, color}) => ({color, weights: weights(map)})) : []
  drawLines(me.svg, me.shown, (i, j) => !token || (token.side ? j : i) === token.i)
  me.sides.forEach((side, k) => shade(side, token && token.side !== k ? strips : []))
  tell(me, token, strips)
}

// What depends on sentence, kind and switches, made anew when these change: a button for each head and for each token.
const headButton = (me, place) => {
  const {at} = me, b = make(me.heads, 'button', {type: 'button', tabIndex: same(place, at.chosen[0]) ? 0 : -1})
  const usual = () => at.mode === 'mean of all' ? 'one' : at.mode
  b.onclick = e => pick(me, place, e.shiftKey || e.ctrlKey || e.metaKey ? 'several' : usual())
  b.onkeydown = e => {
    if (e.key !== ' ') return
    e.preventDefault()
    pick(me, place, 'several')
  }
  b.setAttribute('aria-label', nameOf(place))
  thumbnail(make(b, 'canvas'), computed(me.view, [place], at).map)
}

const headGrid = me => {
  const h = me.view.maps[0].length
  me.heads.replaceChildren()
  me.heads.style.gridTemplateColumns = `auto repeat(${h}, auto)`
  arrows(me.heads, h, b => me.at.mode === 'several' || b.click())
  for (let k = 0; k <= h; k++) make(me.heads, 'span', {textContent: k ? 'head ' + k : ''})
  me.places.forEach(place => {
    if (!place.head) make(me.heads, 'span', {textContent: `layer ${place.layer + 1}`})
    headButton(me, place)
  })
}

const tokens = (me, side) => {
  me.sides[side].replaceChildren()
  arrows(me.sides[side], 1)
  me.view.names[side].forEach((textContent, i) => {
    const token = {side, i}, keep = () => light(me, me.at.pinned = token)
    const does = {onmouseenter: () => light(me, token), onclick: keep, onfocus: keep}
    make(me.sides[side], 'button', {type: 'button', textContent, tabIndex: i ? -1 : 0, ...does})
  })
}

const viewOf = ({queries, keys, weights, norms, heads, lead}, inWords) => {
  const rows = digits => parts(decode(digits), keys.length), words = [queries, keys].map(wordsOf)
  const names = [queries, keys].map((pieces, side) => inWords ? spell(pieces, words[side]) : pieces)
  const sink = Math.max(0, keys.indexOf('<\/s>'))  // in the decoder <s>, the first
  const maps = parts(parts(rows(weights), queries.length), heads)
  return {keys, lead, words, names, sink, maps, norms: norms && parts(rows(norms), heads)}
}

const show = (me, change) => {
  const at = Object.assign(me.at, change, {pinned: null})
  me.view = viewOf(me.views[at.sentence].kinds[me.kinds[at.kind]], at.words)
  me.places = me.view.maps.flatMap((row, layer) => row.map((_, head) => ({layer, head})))
  at.chosen = at.chosen.filter(other => me.places.some(place => same(place, other)))
  if (!at.chosen.length) at.chosen = [{...me.places.filter(({head}) => !head).at(-1), slot: 0}]  // of the last layer
  headGrid(me)
  for (const side of [0, 1]) tokens(me, side)
  me.svg.setAttribute('height', 24 * Math.max(...me.view.names.map(names => names.length)))
  settle(me)
}

// The start: read the data, lay out the page, show the first sentence.
const switches = (me, bar) => {
  const {views, kinds, at} = me, {queries, norms} = views[0].kinds[kinds[0]]
  if (views.length > 1) picker(bar, 'sentence', views.map(v => v.title), 0, sentence => show(me, {sentence}))
  picker(bar, 'attention', kinds.map(k => views[0].kinds[k].title), at.kind, kind => show(me, {kind}))
  me.modes = picker(bar, 'heads', MODES, 0, i => {
    at.chosen = at.chosen.slice(0, 1)
    pick(me, at.chosen[0], MODES[i])
  })
  if (queries.some(piece => piece.startsWith('▁'))) checkbox(bar, 'words', words => show(me, {words}))
  checkbox(bar, 'hide the sink', hide => show(me, {hide}))
  if (norms) checkbox(bar, '× norms of the values', norms => show(me, {norms}))
}

const start = root => {
  const views = JSON.parse(root.dataset.maps), colors = root.dataset.colors.split(' ')
  const kinds = Object.keys(views[0].kinds), div = (parent, name) => make(parent, 'div', {className: 'tnb-' + name})
  root.replaceChildren()
  const [bar, status, note, body] = ['bar', 'status', 'note', 'body'].map(name => div(root, name))
  const [heads, links] = ['heads', 'links'].map(name => div(body, name)), sides = [0, 1].map(() => div(links, 'side'))
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg')
  for (const [element, name, value] of [[heads, 'role', 'group'], [heads, 'aria-label', 'layers and heads'],
    [svg, 'aria-hidden', true], [status, 'aria-live', 'polite']]) element.setAttribute(name, value)
  sides[0].after(svg)
  const at = {sentence: 0, kind: kinds.length - 1, mode: 'one', chosen: []}
  const me = {views, kinds, colors, heads, sides, svg, status, note, at}
  links.onmouseleave = () => light(me, at.pinned)
  links.addEventListener('keydown', e => { if (e.key === 'Escape') light(me, at.pinned = null) })
  switches(me, bar)
  show(me)
}

// Every viewer of the page that has not been started is, and is marked. Keys are for it alone, not for JupyterLab.
document.querySelectorAll('.tnb-attention:not([data-ready])').forEach(root => {
  root.dataset.ready = ''
  root.onkeydown = e => e.stopPropagation()
  start(root)
})
