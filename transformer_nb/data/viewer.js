// The tools: `make` adds an element, its text always as text, so that no token is ever read as markup; `arrows` makes a group of
// buttons one stop of the Tab key, with the arrow keys moving inside.
const make = (parent, tag, props = {}) => parent.appendChild(Object.assign(document.createElement(tag), props))
const percent = w => (w / 10).toFixed(w < 100 ? 1 : 0) + ' %'

const picker = (parent, name, options, current, choose) => {
  const list = make(make(parent, 'label', {textContent: name + ' '}), 'select')
  options.forEach((text, i) => make(list, 'option', {textContent: text, value: i, selected: i === current}))
  list.onchange = () => choose(+list.value)
}

const arrows = (box, columns) => box.onkeydown = e => {
  const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns}[e.key]
  const all = [...box.querySelectorAll('button')], next = step && all[all.indexOf(document.activeElement) + step]
  if (step) e.preventDefault()
  if (next) next.focus()
}

// What is drawn: the small pictures of all heads, lines between two columns of tokens, the other side shaded, a sentence with the numbers.
const thumbnail = (button, weights) => {
  const canvas = make(button, 'canvas', {width: weights[0].length, height: weights.length}), pen = canvas.getContext('2d')
  weights.forEach((row, i) => row.forEach((w, j) => { pen.fillStyle = `rgba(53,132,228,${w / 1000})`; pen.fillRect(j, i, 1, 1) }))
}

const drawLines = (svg, weights, shown) => {
  svg.replaceChildren()
  weights.forEach((row, i) => row.forEach((w, j) => {
    if (w < 10 || !shown(i, j)) return
    const line = svg.appendChild(document.createElementNS(svg.namespaceURI, 'line'))
    const ends = {x1: 0, y1: 24 * i + 12, x2: 110, y2: 24 * j + 12, 'stroke-opacity': (w / 1000) ** .7}
    for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value)
  }))
}

const shade = (side, weights) => [...side.children].forEach((b, k) => {
  b.style.background = weights ? `rgba(53,132,228,${.75 * (weights[k] / 1000) ** .7})` : ''
})

const spoken = (view, weights, token) => {
  if (!token) return 'Point at a token, or go to one with Tab and the arrow keys. A click keeps it.'
  const [own, other] = token.side ? [view.keys, view.queries] : [view.queries, view.keys]
  const top = weights.map((w, k) => [w, other[k]]).sort((a, b) => b[0] - a[0]).slice(0, 4).filter(([w]) => w >= 10)
  return (token.side ? 'Looking at ' : view.lead) + `“${own[token.i]}”` + ': ' + top.map(([w, t]) => `“${t}” ${percent(w)}`).join(', ')
}

// What happens when something is chosen. `me` is one viewer: its maps, its elements, and `at`, the present choice.
const viewOf = me => me.views[me.at.sentence].kinds[me.kinds[me.at.kind]]

const light = (me, token) => {
  const view = viewOf(me), weights = view.weights[me.at.layer][me.at.head]
  const on = token && (token.side ? weights.map(row => row[token.i]) : weights[token.i])
  drawLines(me.svg, weights, (i, j) => !token || (token.side ? j : i) === token.i)
  me.sides.forEach((side, k) => shade(side, token && token.side !== k && on))
  me.status.textContent = spoken(view, on, token)
}

const choose = (me, layer, head) => {
  Object.assign(me.at, {layer, head})
  me.heads.querySelectorAll('button').forEach(b => {
    const mine = b.dataset.place === layer + ',' + head
    b.setAttribute('aria-pressed', mine)
    b.tabIndex = mine ? 0 : -1
  })
  light(me, me.at.pinned)
}

// What depends on sentence and kind, made anew when these change: a button for each head, a button for each token.
const headGrid = (me, weights) => {
  const h = weights[0].length
  me.heads.replaceChildren()
  me.heads.style.gridTemplateColumns = `auto repeat(${h}, auto)`
  arrows(me.heads, h)
  for (let k = 0; k <= h; k++) make(me.heads, 'span', {textContent: k ? 'head ' + k : ''})
  weights.forEach((row, layer) => {
    make(me.heads, 'span', {textContent: `layer ${layer + 1}`})
    row.forEach((map, head) => {
      const pick = () => choose(me, layer, head), b = make(me.heads, 'button', {type: 'button', onclick: pick, onfocus: pick})
      b.dataset.place = layer + ',' + head
      b.setAttribute('aria-label', `layer ${layer + 1}, head ${head + 1}`)
      thumbnail(b, map)
    })
  })
}

const tokens = (me, texts, side) => {
  me.sides[side].replaceChildren()
  arrows(me.sides[side], 1)
  texts.forEach((textContent, i) => {
    const token = {side, i}, keep = () => light(me, me.at.pinned = token)
    make(me.sides[side], 'button', {type: 'button', textContent, tabIndex: i ? -1 : 0, onmouseenter: () => light(me, token), onclick: keep, onfocus: keep})
  })
}

const show = (me, change) => {
  Object.assign(me.at, change, {pinned: null})
  const {queries, keys, weights} = viewOf(me)
  headGrid(me, weights)
  ;[queries, keys].forEach((texts, side) => tokens(me, texts, side))
  me.svg.setAttribute('height', 24 * Math.max(keys.length, queries.length))
  choose(me, Math.min(me.at.layer, weights.length - 1), Math.min(me.at.head, weights[0].length - 1))
}

// The start: read the data, lay out the page, show the first sentence. Every viewer of the page that has not been started is, and is marked.
const start = root => {
  const views = JSON.parse(root.dataset.maps), kinds = Object.keys(views[0].kinds)
  root.replaceChildren()
  const [bar, status, body] = ['tnb-bar', 'tnb-status', 'tnb-body'].map(className => make(root, 'div', {className}))
  const heads = make(body, 'div', {className: 'tnb-heads'}), links = make(body, 'div', {className: 'tnb-links'})
  const sides = [0, 1].map(() => make(links, 'div', {className: 'tnb-side'}))
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg')
  for (const [element, name, value] of [[heads, 'role', 'group'], [heads, 'aria-label', 'layers and heads'], [svg, 'aria-hidden', true], [status, 'aria-live', 'polite']])
    element.setAttribute(name, value)
  sides[0].after(svg)
  const me = {views, kinds, heads, sides, svg, status, at: {sentence: 0, kind: kinds.length - 1, layer: 0, head: 0}}
  links.onmouseleave = () => light(me, me.at.pinned)
  links.addEventListener('keydown', e => { if (e.key === 'Escape') light(me, me.at.pinned = null) })
  if (views.length > 1) picker(bar, 'sentence', views.map(v => v.title), 0, sentence => show(me, {sentence}))
  picker(bar, 'attention', kinds.map(k => views[0].kinds[k].title), me.at.kind, kind => show(me, {kind}))
  show(me)
}
document.querySelectorAll('.tnb-attention:not([data-ready])').forEach(root => { root.dataset.ready = ''; start(root) })
