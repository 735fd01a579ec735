// Positional encodings as clocks: each pair of sine and cosine is a hand, from fast to slow.
const hand = (svg, x, y, [sine, cosine], color, width) =>
  add(svg, 'line', {x1: x, y1: y, x2: x + 30 * sine, y2: y - 30 * cosine, stroke: color, 'stroke-width': width,
    'stroke-linecap': 'round'})
const pairs = row => row.flatMap((sine, i) => i % 2 ? [] : [[sine, row[i + 1]]])
const dot = (a, b) => sum(a.map((x, i) => x * b[i]))

const drawClocks = (svg, waves, a, b) => {
  svg.replaceChildren()
  waves.forEach((wave, i) => {
    const x = 42 + 85 * (i % 4), y = 38 + 98 * Math.floor(i / 4)
    add(svg, 'circle', {cx: x, cy: y, r: 34, fill: 'none', stroke: 'currentColor', 'stroke-opacity': .5})
    hand(svg, x, y, pairs(b)[i], 'var(--key)', 3)
    hand(svg, x, y, pairs(a)[i], 'var(--query)', 5)
    add(svg, 'text', {x, y: y + 50, 'text-anchor': 'middle'}, `${wave < 100 ? wave.toFixed(1) : wave.toFixed(0)}`)
  })
}

const drawCurve = (svg, dots, distance) => {
  svg.replaceChildren()
  const x = k => 24 + 3 * k, y = d => 152 - 16 * d
  add(svg, 'text', {x: 24, y: 12}, say('dot product of two encodings'))
  for (const d of [0, 4, 8]) {
    add(svg, 'text', {x: 16, y: y(d) + 4, 'text-anchor': 'end'}, d)
    add(svg, 'line', {x1: 24, x2: 324, y1: y(d), y2: y(d), stroke: 'currentColor', 'stroke-opacity': d ? .2 : .8})
  }
  for (const k of [0, 50, 100]) add(svg, 'text', {x: x(k), y: 168, 'text-anchor': 'middle'}, k)
  add(svg, 'text', {x: x(75), y: 168, 'text-anchor': 'middle'}, say('distance'))
  const points = dots.map((d, k) => `${x(k)},${y(d)}`).join(' ')
  add(svg, 'polyline', {points, fill: 'none', stroke: 'currentColor', 'stroke-width': 2})
  add(svg, 'circle', {cx: x(distance), cy: y(dots[distance]), r: 6, fill: 'var(--attend)', stroke: 'currentColor'})
}

begin('clock', (me, {table, waves}) => {
  const positions = table.map((_, p) => p), dots = table.map(row => dot(table[0], row))
  slider(me, 'a', say('position of the query (thick)'), positions, 17)
  slider(me, 'b', say('position of the key (thin)'), positions, 20)
  const clocks = picture(me, 190, say('Eight clocks with two hands each; below each, the positions of one turn'))
  const curve = picture(me, 190, say('Dot product of two encodings against their distance'))
  me.show = () => {
    const {a, b} = me.at, distance = Math.abs(a - b)
    drawClocks(clocks, waves, table[a], table[b])
    drawCurve(curve, dots, distance)
    const found = {a, b, distance, n: waves.length, fast: (a / waves[0]).toFixed(2),
      slow: (a / waves.at(-1)).toFixed(4), dot: dot(table[a], table[b]).toFixed(2), same: dots[distance].toFixed(2)}
    me.tell(say('At position {a} the fastest hand has made {fast} turns, the slowest {slow}. ', found) +
      say('Positions {a} and {b}: distance {distance}, dot product {dot} of {n}; ', found) +
      say('for 0 and {distance} it is {same}.', found))
  }
})
