// The model of transformer.js at work, apart from the page, which so never stands still. The page asks with {id, text,
// silenced, masked, beams, vectors}; what it hears has the same id: {got, of} while the model comes, {written} after each word
// piece, then {answer} or {failed}.
import {beamSearch, greedy, read, unpack} from './transformer.js'

// As the corpus writes: signs apart, the first letter small but for names and I, a sign that it knows at the end. The
// package does the same (`as_written` in lesson 16).
const asInTheCorpus = (text, words) => {
  const apart = text.replaceAll('’', "'").replace(/([.,?!])(?=[.,?!]*(?:\s|$))/g, ' $1').replace(/(\S)'s(?=\s|$)/g, "$1 's")
  const parts = apart.split(/\s+/).filter(Boolean), last = parts.length - 1
  if (!parts.length) return ''
  if (words.has(parts[0].toLowerCase())) parts[0] = parts[0].toLowerCase()
  if (parts[last] === '!' && !words.has('!')) parts[last] = '.'
  if (!/[.?!。？！…]$/.test(parts[last])) parts.push('.')
  return parts.join(' ')
}

// How many letters are put in, left out or exchanged between two words.
const distance = (a, b) => {
  let row = Array.from({length: b.length + 1}, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const above = row
    row = [i]
    for (let j = 1; j <= b.length; j++) row.push(Math.min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] !== b[j - 1])))
  }
  return row.at(-1)
}

// The known word that is written most alike, unless half of its letters are others.
const nearest = (word, words) => {
  const [far, near] = [...words].map(known => [distance(word, known), known]).reduce((a, b) => b[0] < a[0] ? b : a)
  return far <= word.length/2 ? near : null
}

// The model comes with the first question, and only once.
let loading = null

const fetched = async tell => {
  const answer = await fetch(new URL('model.bin', import.meta.url))
  if (!answer.ok) throw Object.assign(Error(), {status: answer.status})
  const parts = [], of = +answer.headers.get('Content-Length'), reader = answer.body.getReader()
  for (let got = 0;;) {
    const {done, value} = await reader.read()
    if (done) return unpack(new Blob(parts))
    parts.push(value)
    tell({got: got += value.length, of})
  }
}

const translated = (live, {text, silenced, masked, beams, vectors}, tell) => {
  const {model, tokenizer} = live, plain = asInTheCorpus(text, live.words)
  if (!plain) return {text: ''}
  model.silenced = new Set(silenced)
  const source = [...tokenizer.encode(plain), model.cfg.eos_id], pieces = ids => ids.map(id => tokenizer.pieces[id])
  const before = performance.now()
  const written = beams > 1 ? beamSearch(model, source, beams) : greedy(model, source, ids => tell({written: pieces(ids)}))
  const ms = (performance.now() - before)/(written.length + 1), seen = read(model, source, written, masked)
  const target = [...written, model.cfg.eos_id], strange = plain.split(' ').filter(word => !live.words.has(word))
  return {
    ...seen, vectors: vectors ? seen.vectors : null, text: plain, source: pieces(source), target: pieces(target), ids: {source, target}, ms,
    next: seen.next.map(few => few.map(([id, p]) => [tokenizer.pieces[id], p])),
    unknown: strange.map(word => [word, nearest(word, live.words)]),
  }
}

globalThis.onmessage = async ({data}) => {
  const tell = said => postMessage({id: data.id, ...said})
  let live = null
  try {
    live = await (loading ??= fetched(tell))
    tell({answer: translated(live, data, tell)})
  } catch (error) {
    if (!live) loading = null  // the next question tries again
    tell({failed: {status: error.status, why: live && error.message}})
  }
}
