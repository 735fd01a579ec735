// A vector for each word is cut into heads: the right way, and the way that only looks right.
const CELL = 26

// One table of numbers; a number is told by its place in the input. A dashed frame: it stands in another word's row.
const drawTable = (svg, {words, features}, x, numbers, lit) => numbers.flatMap((row, r) => row.map((number, c) => {
  const word = Math.floor(number / features), wrong = word !== r, y = 34 + CELL * r
  add(svg, 'rect', {x: x + CELL * c, y, width: CELL - 3, height: CELL - 3, rx: 3, fill: 'var(--query)',
    'fill-opacity': word === lit ? .6 : .1, stroke: 'currentColor', 'stroke-opacity': wrong ? 1 : .3,
    'stroke-width': wrong ? 2 : 1, 'stroke-dasharray': wrong ? '4 3' : 'none'})
  add(svg, 'text', {x: x + CELL * (c + .5) - 1.5, y: y + 16, 'text-anchor': 'middle',
    'font-weight': word === lit ? 700 : 400}, words[word][0] + (number % features + 1))
  return wrong
})).filter(Boolean).length

const drawHeads = (svg, given, title, heads, lit) => {
  svg.replaceChildren()
  add(svg, 'text', {x: 0, y: 12}, title)
  given.words.forEach((word, r) => add(svg, 'text', {x: 44, y: 50 + CELL * r, 'text-anchor': 'end'}, word))
  return sum(heads.map((numbers, i) => {
    const width = CELL * numbers[0].length, x = 50 + (width + 11) * i
    if (heads.length > 1) add(svg, 'text', {x: x + width / 2, y: 28, 'text-anchor': 'middle'}, i + 1)
    return drawTable(svg, given, x, numbers, lit)
  }))
}

begin('heads', (me, given) => {
  const {words, features, cuts} = given, all = words.length * features
  slider(me, 'h', say('heads h'), cuts.map(cut => cut.h), 2)
  choice(me, 'word', say('follow the word'), words, 1)
  const names = [say('Queries of three words'), say('Cut the right way'), say('Cut the wrong way')]
  const [whole, right, wrong] = names.map(name => picture(me, 116, name))
  me.show = () => {
    const {h, word} = me.at, cut = cuts.find(c => c.h === h), holds = cut.wrong.flatMap((numbers, i) =>
      numbers.flat().some(number => Math.floor(number / features) === word) ? [i + 1] : [])
    drawHeads(whole, given, say('queries of three words, {features} features each', given), [cut.whole], word)
    drawHeads(right, given, say('right: reshape(n, h, d_k).transpose(0, 1)'), cut.right, word)
    const strange = drawHeads(wrong, given, say('wrong: reshape(h, n, d_k)'), cut.wrong, word)
    const found = {h, d_k: features / h, features, strange, all, word: words[word], heads: holds.join(say(', '))}
    const where = holds.length === h ? say('It has “{word}” in every head, but in rows of other words.', found) :
      holds.length === 1 ? say('“{word}” should be in every head; the wrong cut has it in head {heads}.', found) :
        say('“{word}” should be in every head; the wrong cut has it in heads {heads}.', found)
    me.tell(say('h = {h}: each head gets {d_k} of the {features} features of every word. ', found) +
      say('The wrong cut puts {strange} of {all} numbers into the row of another word. ', found) + (strange ? where : ''))
  }
})
