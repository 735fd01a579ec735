// Paint who may look at whom, and see the weights: what leaks, what is missing, and where nothing is left.
const softmax = scores => {
  const top = Math.max(...scores), e = scores.map(s => Math.exp(s - top)), total = sum(e)
  return e.map(x => x / total)
}
// A closed score becomes −1, or −∞; the library then sets closed weights to 0, also where a whole row is NaN.
const FILLS = [[say('−∞, and 0 after the softmax'), -Infinity, true], [say('−∞ only'), -Infinity, false],
  ['−1', -1, false]]
const weigh = (scores, open, [, value, zero]) => scores.map((row, i) =>
  softmax(row.map((s, j) => open[i][j] ? s : value)).map((w, j) => zero && !open[i][j] ? 0 : w))

const short = w => isNaN(w) ? 'NaN' : w === 0 ? '0' : w.toFixed(2).replace(/^0/, '')

// The grid: one stop of the Tab key, arrow keys inside; a click, Enter or Space turns a cell over, a mouse may paint.
const arrows = (box, cells, columns) => {
  cells.forEach((b, i) => { b.tabIndex = i ? -1 : 0 })
  box.onkeydown = e => {
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns}[e.key]
    const from = cells.indexOf(document.activeElement), next = step && cells[from + step]
    if (step) e.preventDefault()
    if (!next) return
    cells[from].tabIndex = -1
    next.tabIndex = 0
    next.focus()
  }
}

const grid = (me, words) => {
  const about = say('rows: queries, columns: keys')
  const box = add(me.body, 'div', {class: 'tnb-grid', role: 'group', 'aria-label': about})
  box.style.gridTemplateColumns = `auto repeat(${words.length}, 40px)`
  add(box, 'span', {}, say('query ↓ key →'))
  words.forEach(word => add(box, 'span', {}, word))
  const paint = (i, j, value) => { me.open[i][j] = value; me.show() }
  let brush
  const cells = words.flatMap((word, i) => {
    add(box, 'span', {}, word)
    return words.map((_, j) => Object.assign(add(box, 'button', {type: 'button'}), {
      onclick: () => paint(i, j, !me.open[i][j]),
      onpointerdown: () => { brush = [i, j, !me.open[i][j]] },
      onpointerenter: e => {
        if (!brush || e.pointerType !== 'mouse' || !(e.buttons & 1)) return
        paint(...brush)
        paint(i, j, brush[2])
      }}))
  })
  arrows(box, cells, words.length)
  return cells
}

const drawCell = (cell, place, open, meant, w) => {
  const leak = w !== 0 && !meant, missing = meant && w === 0
  cell.textContent = (leak ? '!' : '') + short(w)
  cell.className = [!open && 'tnb-closed', leak && 'tnb-leak', missing && 'tnb-missing'].filter(Boolean).join(' ')
  cell.style.backgroundColor = `color-mix(in srgb, var(--attend) ${55 * (w || 0)}%, transparent)`
  cell.setAttribute('aria-pressed', !!open)
  const about = {...place, state: open ? say('open') : say('closed'), w: short(w)}
  cell.setAttribute('aria-label', say('query {i} {query}, key {j} {key}, {state}, weight {w}', about) +
    (leak ? say(', leak') : missing ? say(', missing') : ''))
}

const placed = (words, i, j) => ({i: i + 1, query: words[i], j: j + 1, key: words[j]})
const spoken = (words, faults) => faults.slice(0, 3).map(([i, j, w]) =>
  say('query {i} “{query}” gives {w} to key {j} “{key}”', {...placed(words, i, j), w: short(w)})).join(say(', ')) +
  (faults.length > 3 ? say(', and more') : '')

begin('masks', (me, {words, scores, meant, presets}) => {
  const list = (name, texts, chosen) => {
    const select = add(add(me.bar, 'label', {}, name), 'select')
    texts.forEach(text => add(select, 'option', {}, text))
    select.onchange = () => { chosen(select.selectedIndex); me.show() }
    return select
  }
  const start = k => {
    me.open = presets[k].rows.map(row => [...row].map(Number))
    me.fill.selectedIndex = presets[k].fill
  }
  list(say('mask'), presets.map(p => say(p.name)), start)
  me.fill = list(say('a closed score becomes'), FILLS.map(([name]) => name), () => {})
  const cells = grid(me, words), n = words.length
  me.show = () => {
    const weights = weigh(scores, me.open, FILLS[me.fill.selectedIndex]), leaks = []
    let missing = 0
    cells.forEach((cell, k) => {
      const i = Math.floor(k / n), j = k % n, w = weights[i][j], wanted = meant[i][j] === '1'
      drawCell(cell, placed(words, i, j), me.open[i][j], wanted, w)
      if (w !== 0 && !wanted) leaks.push([i, j, w])
      if (w === 0 && wanted) missing++
    })
    const broken = weights.filter(row => isNaN(row[0])).length
    me.tell(say('Leaks: {n}, missing: {missing}. ', {n: leaks.length, missing}) + (broken ?
      say('{broken} rows have no key and are NaN: so will be the loss. ', {broken}) :
      leaks.length ? say('{leaks}.', {leaks: spoken(words, leaks)}) : missing ? '' : say('As it is meant.')))
  }
  start(0)
}, 'tnb-beside')
