// Equation 1's divisor: how far random scores spread as their width grows, and what the softmax makes of eight of them.
const softmax = scores => {
  const top = Math.max(...scores), e = scores.map(s => Math.exp(s - top)), total = sum(e)
  return e.map(x => x / total)
}
const entropy = p => -sum(p.map(x => x && x * Math.log(x)))
// The size of diag(p) − p pᵀ, the softmax's matrix of derivatives (lesson 01)
const jacobian = p => Math.hypot(...p.flatMap((a, i) => p.map((b, j) => (i === j ? a : 0) - a * b)))

const drawSpread = (svg, counts) => {
  svg.replaceChildren()
  const total = sum(counts), most = Math.max(...counts)
  add(svg, 'text', {x: 2, y: 12}, say('how often a score of this size comes'))
  counts.forEach((n, i) => {
    const height = 110 * n / most, beyond = i === 0 || i === counts.length - 1
    const look = {fill: 'currentColor', 'fill-opacity': beyond ? .75 : .4}
    add(svg, 'rect', {x: 2 + 10.5 * i, y: 135 - height, width: 9.5, height, ...look})
  })
  add(svg, 'line', {x1: 2, x2: 338, y1: 135.5, y2: 135.5, stroke: 'currentColor'})
  for (const [x, text, anchor] of [[2, '< −7.5', 'start'], [170, '0', 'middle'], [338, '> 7.5', 'end']]) {
    add(svg, 'text', {x, y: 150, 'text-anchor': anchor}, text)
  }
  return 100 * (counts[0] + counts.at(-1)) / total
}

const drawWeights = (svg, weights) => {
  svg.replaceChildren()
  add(svg, 'text', {x: 2, y: 12}, say('weights of eight keys'))
  weights.forEach((w, i) => {
    const x = 2 + 42 * i, height = 96 * w
    add(svg, 'rect', {x, y: 135 - height, width: 38, height, fill: 'var(--attend)'})
    add(svg, 'text', {x: x + 19, y: 131 - height, 'text-anchor': 'middle'}, w.toFixed(2))
    add(svg, 'text', {x: x + 19, y: 150, 'text-anchor': 'middle'}, 'k' + (i + 1))
  })
  add(svg, 'line', {x1: 2, x2: 338, y1: 135.5, y2: 135.5, stroke: 'currentColor'})
}

begin('scores', (me, {widths, divisors, keys, counts, gradients}) => {
  slider(me, 'width', 'd_k', widths, 64)
  choice(me, 'by', say('scores divided by'), divisors.map(([name]) => say(name)))
  const spread = picture(me, 156, say('Histogram of random scores'))
  const shares = picture(me, 156, say('Weights of eight keys'))
  me.show = () => {
    const {width, by} = me.at, row = widths.indexOf(width), divisor = divisors[by][1][row]
    const weights = softmax(keys[row].map(s => s / divisor))
    const beyond = drawSpread(spread, counts[row][by])
    drawWeights(shares, weights)
    const found = {d_k: width, by: say(divisors[by][0]), beyond: beyond.toFixed(0),
      most: Math.max(...weights).toFixed(3), entropy: entropy(weights).toFixed(2), size: jacobian(weights).toFixed(3)}
    me.tell(say('d_k = {d_k}, divided by {by}: {beyond} % of the scores lie beyond ±7.5. ', found) +
      say('Largest weight {most}, entropy {entropy} of 2.08 nats, size of the Jacobian {size}. ', found) +
      say('The gradient at a typical query: {g}.', {g: gradients[row][by].toPrecision(2)}))
  }
})
