// What the viewer computes and draws. A map is a list of rows, one for each query; a row has a weight for each key. In
// the page they are thousandths: a small letter (a is 0), or two digits to the base 36. `words` are lists of pieces.
const sum = numbers => numbers.reduce((a, b) => a + b, 0)
const column = (map, j) => map.map(row => row[j])

const decode = digits => digits.match(/[a-z]|../g).map(n => (n < 'a' ? parseInt(n, 36) : n.charCodeAt(0) - 97) / 1000)
const parts = (list, size) => Array.from({length: list.length / size}, (_, i) => list.slice(i * size, (i + 1) * size))

const mean = maps => maps[0].map((row, i) => row.map((_, j) => sum(maps.map(map => map[i][j])) / maps.length))
const scaled = (map, factors) => map.map(row => row.map((w, j) => w * factors[j]))
const shares = map => map.map(row => {
  const all = sum(row) || 1
  return row.map(w => w / all)
})

// From pieces to words, as `to_words` does it: the columns of a word's pieces are summed, its rows averaged.
const wordsOf = pieces => pieces.reduce((words, piece, i) => {
  if (!i || /^▁|^<\/?s>$/.test(piece)) words.push([i])
  else words.at(-1).push(i)
  return words
}, [])

const spell = (pieces, words) => words.map(word => word.map(i => pieces[i].replace(/^▁/, '')).join(''))

const toWords = (map, [rows, columns]) => {
  const summed = map.map(row => columns.map(word => sum(word.map(j => row[j]))))
  return rows.map(word => columns.map((_, k) => sum(word.map(i => summed[i][k])) / word.length))
}

// One head, or the mean of some, as the switches want it: times the norms of the values, without the sink, in words.
const computed = (view, heads, {norms, hide, words}) => {
  const own = ({layer, head}) => view.maps[layer][head], factors = ({layer, head}) => view.norms[layer][head]
  let map = mean(heads.map(place => norms ? scaled(own(place), factors(place)) : own(place)))
  if (norms) map = shares(map)
  const hidden = hide ? sum(column(map, view.sink)) / map.length : 0
  if (hide) map = shares(scaled(map, view.keys.map((_, j) => Number(j !== view.sink))))
  return {hidden, map: words ? toWords(map, view.words) : map}
}

// What is drawn: a small picture of each head, lines between two columns of tokens, the other side shaded.
const thumbnail = (canvas, map) => {
  Object.assign(canvas, {width: map[0].length, height: map.length})
  const pen = canvas.getContext('2d')
  map.forEach((row, i) => row.forEach((w, j) => {
    pen.fillStyle = `rgba(53,132,228,${w})`
    pen.fillRect(j, i, 1, 1)
  }))
}

const drawLine = (svg, y1, y2, stroke, weight) => {
  const line = svg.appendChild(document.createElementNS(svg.namespaceURI, 'line'))
  const look = {x1: 0, y1, x2: 110, y2, stroke, 'stroke-opacity': weight ** .7}
  for (const [name, value] of Object.entries(look)) line.setAttribute(name, value)
}

const drawLines = (svg, shown, visible) => {
  svg.replaceChildren()
  shown.forEach(({map, color}, n) => {  // lines of two heads to one token lie side by side
    const y = k => 24 * k + 12 + (n - (shown.length - 1) / 2) * Math.min(3, 18 / shown.length)
    map.forEach((row, i) => row.forEach((w, j) => {
      if (w >= .01 && visible(i, j)) drawLine(svg, y(i), y(j), color, w)
    }))
  })
}

const tint = (color, strength) => color + Math.round(255 * strength).toString(16).padStart(2, '0')

const shade = (side, strips) => [...side.children].forEach((b, k) => {
  const ends = n => [n, n + 1].map(end => `${100 * end / strips.length}%`).join(' ')
  const parts = strips.map(({color, weights}, n) => `${tint(color, .5 * weights[k] ** .7)} ${ends(n)}`)
  b.style.backgroundImage = strips.length ? `linear-gradient(90deg, ${parts})` : ''
})
