// Beam search through a stored tree: a node is [piece, log-probability, children], children best first.
const END = '</s>'
const spelt = pieces => pieces.join('').replaceAll('▁', ' ').trim()
const chance = ({logp}) => logp < Math.log(.0005) ? '<.001' : Math.exp(logp).toFixed(3).replace(/^0/, '')

// One step. Of the k best candidates those that end are put away, and the k best that do not end are kept. At most k + 1
// pieces of a prefix are kept or end; two more are there to be drawn as dropped.
const extend = (going, k) => {
  const candidates = going.flatMap((parent, from) => parent.next.slice(0, k + 3).map(([piece, logp, next]) =>
    ({piece, from, next, logp: parent.logp + logp, pieces: [...parent.pieces, piece]})))
  candidates.sort((a, b) => b.logp - a.logp)
  candidates.slice(0, k).filter(c => c.piece === END).forEach(c => { c.state = 'ended' })
  candidates.filter(c => c.piece !== END).slice(0, k).forEach(c => { c.state = 'kept' })
  return candidates
}

// The whole search, a list of candidates for each step; it stops when no open prefix can beat the best end any more, or
// where the stored tree does.
const search = ({tree, limit}, k, alpha) => {
  const score = (logp, length) => logp / ((5 + length) / 6) ** alpha
  let going = [{pieces: [], logp: 0, next: tree}]
  const steps = [], ends = []
  while (going.some(c => c.next) && !(ends.length && ends[0].score >= score(going[0].logp, limit))) {
    const candidates = extend(going, k)
    steps.push(candidates)
    candidates.filter(c => c.state === 'ended').forEach(({pieces, logp}) => {
      const text = spelt(pieces.slice(0, -1))
      ends.push({text, logp, score: score(logp, pieces.length), at: steps.length})
    })
    ends.sort((a, b) => b.score - a.score)
    going = candidates.filter(c => c.state === 'kept')
  }
  return {steps, ends}
}

const MARKS = {kept: '', ended: ' ■', dropped: ' ×'}
const drawNode = (svg, c, x, y) => {
  const state = c.state || 'dropped'
  add(svg, 'rect', {x, y, width: 84, height: 32, rx: 5, class: 'tnb-' + state})
  add(svg, 'text', {x: x + 42, y: y + 13}, (c.piece === END ? say('end') : c.piece) + MARKS[state])
  add(svg, 'text', {x: x + 42, y: y + 27}, chance(c))
}

// A column for each step, best candidates first, lines from a prefix to what continues it.
const drawTree = (svg, steps) => {
  svg.replaceChildren()
  let before = [], tall = 0
  steps.forEach((candidates, t) => {
    let spare = 2  // of those that are dropped, the two best are drawn
    const drawn = candidates.filter(c => c.state || spare-- > 0), x = 100 * t
    drawn.forEach((c, row) => {
      if (t) add(svg, 'line', {x1: x - 14, x2: x + 2, y1: before[c.from], y2: 18 + 38 * row})
      drawNode(svg, c, x + 2, 2 + 38 * row)
    })
    before = drawn.flatMap((c, row) => c.state === 'kept' ? [18 + 38 * row] : [])
    tall = Math.max(tall, 38 * drawn.length)
  })
  svg.setAttribute('width', 100 * steps.length)
  svg.setAttribute('height', tall)
}

const told = end => ({text: end.text, p: chance(end), score: end.score.toFixed(3)})
const verdict = (best, greedy) => say('Best: “{text}”, score {score}. ', told(best)) +
  (best.text === greedy.text ? say('Greedy search finds the same.') :
    say('Greedy search writes “{text}”: P {p} against {best}.', {...told(greedy), best: chance(best)}))

begin('beam', (me, {trees}) => {
  choice(me, 'text', say('sentence'), trees.map(tree => tree.source))
  slider(me, 'beam', say('beam'), [1, 2, 3, 4], 2)
  slider(me, 'alpha', 'α', [0, .2, .4, .6, .8, 1], .6)
  const row = add(me.bar, 'div', {class: 'tnb-buttons'})
  const move = (text, by) => {
    const button = add(row, 'button', {type: 'button'}, text)
    button.onclick = () => { me.at.step += by; me.show() }
  }
  move(say('‹ back'), -1)
  move(say('forward ›'), 1)
  move(say('to the end'), Infinity)
  const place = {class: 'tnb-scroll', tabindex: 0, role: 'region', 'aria-label': say('tree of the search')}
  const box = add(me.body, 'div', place)
  const svg = add(box, 'svg', {role: 'img', 'aria-label': say('candidates of each step, best first')})
  const found = add(me.body, 'ol', {'aria-label': say('finished')})
  me.at.step = Infinity
  me.show = () => {
    const given = trees[me.at.text], {steps, ends} = search(given, me.at.beam, me.at.alpha)
    me.at.step = Math.max(1, Math.min(me.at.step, steps.length))
    const step = me.at.step, kept = steps[step - 1].filter(c => c.state === 'kept')
    drawTree(svg, steps.slice(0, step))
    found.replaceChildren()
    ends.filter(end => end.at <= step).forEach(end =>
      add(found, 'li', {}, say('{text} (P {p}, score {score})', told(end))))
    box.scrollLeft = box.scrollWidth
    // What goes on after a full stop would read like a mistake
    const likely = kept.filter(c => chance(c) !== '<.001')
    const names = likely.map(c => say('“{text}” {p}', {text: spelt(c.pieces), p: chance(c)})).join(say(', '))
      || say('only what is below .001')
    me.tell(say('Step {step} of {all}, kept: {names}. ', {step, all: steps.length, names}) +
      (step < steps.length ? '' : verdict(ends[0], search(given, 1, 0).ends[0])))
  }
})
