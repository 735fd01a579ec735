// One sentence through figure 1: the words enter below, the model of transformer.js (in a worker) writes above, and each box
// of the figure shows what happens there (views.js). The first sentence is translated already; the model (1.7 MB) is fetched
// only when somebody asks for more.
import {spell, wordsOf} from './maps.js'
import {VECTORS, VIEWS, choose, inWords, make, percent, plainText, read, say} from './views.js'

const PACE = 150  // milliseconds that a word is seen before the next one comes
const product = numbers => numbers.reduce((a, b) => a*b, 1)

// ---- What each box is, in a sentence

const LOOKS = {
  encoder: [say('Self-attention'), say('Each English word looks at all of them, and takes from each as much as the line is dark.')],
  decoder: [say('Masked self-attention'), say('To write a German word the decoder looks at those before it; the mask hides the word itself and all later ones.')],
  cross: [say('Attention to the memory'), say('To write a German word the decoder looks at the English ones: lines cross where the order moves.')],
}
const MANY = say('{h} heads in each of {N} layers look at once, each in its own way. Silence some: what can the others do without them?')
const ABOUT = {
  tokens: {
    encoder: [say('Source tokens'), say('The model reads {n} pieces: a frequent word is one piece, a rare one several, and (end) closes the sentence.')],
    decoder: [say('Target tokens'), say('The decoder reads what it has written so far; before there is a word, it reads (start).')],
  },
  embedding: [say('Embedding'), say('Each piece becomes {d_model} numbers, its row of one matrix that also stands before the softmax.')],
  positions: [say('Positions'), say('These sines and cosines of the place are added, for attention by itself knows no order.')],
  attention: LOOKS,
  heads: {
    encoder: [say('Heads of the self-attention'), MANY],
    decoder: [say('Heads of the masked self-attention'), MANY],
    cross: [say('Heads of the attention to the memory'), MANY],
  },
  'feed-forward': [say('Feed-forward'), say('Each word goes alone through {d_ff} numbers, of which those below zero become 0: {left} are left here.')],
  add: [say('Add'), say('What the sub-layer found is added to what came in, which so is never lost.')],
  norm: [say('Norm'), say('Each vector is brought to mean 0 and variance 1, then scaled as learned. This small model does it before each sub-layer, the paper after it.')],
  softmax: [say('Linear, softmax'), say('The last vector is compared with all {vocab_size} pieces, and the softmax makes probabilities of that: here the five largest.')],
  next: [say('Next token'), say('The most probable piece is written, and read in turn, until (end) comes: greedy search.')],
}

// ---- The figure: its words, and its boxes as buttons

// The words of one place of the figure, as buttons that are one stop of the keyboard.
const wordRow = (row, words, notes, onclick) => {
  row.replaceChildren()
  words.forEach((word, i) => {
    const button = make(row, 'button', {type: 'button', textContent: word, tabIndex: i ? -1 : 0, onclick: () => onclick(i)})
    if (notes) make(button, 'small', {textContent: notes[i] ?? ''})
  })
  row.onkeydown = e => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[e.key], next = step && row.children[[...row.children].indexOf(e.target) + step]
    if (step) e.preventDefault()
    next?.focus()
  }
}

const drawWords = me => {
  const {names, words, chosen} = me.answer
  wordRow(me.out, names.target, words.target.map(word => percent(product(word.map(i => chosen[i])))), i => {
    me.step = words.target[i][0]
    choose(me, me.kind === 'encoder' ? null : {side: 1, i})
  })
  wordRow(me.in, names.source, null, i => choose(me, me.kind === 'decoder' ? null : {side: me.kind === 'encoder' ? 1 : 0, i}))
  me.heard.textContent = read(me.answer).names.join(' ')
  if (me.plain) [...me.out.children].forEach((button, i) => button.classList.toggle('other', me.plain.names.target[i] !== names.target[i]))
}

const about = me => {
  const of = ABOUT[me.part], [title, text] = Array.isArray(of) ? of : of[me.kind] ?? of[me.side]
  const hidden = me.part === 'feed-forward' && me.answer.vectors?.[me.side].layers[me.layer].hidden
  const left = hidden ? percent(hidden.filter(v => v > 0).length/hidden.length) : '…', n = me.answer.source.length
  return [title, say(text, {...me.model, left, n})]
}

// A box opens what stands beside the figure; its own link is the door to the lesson.
const open = (me, box) => {
  const [part, side, sublayer] = box.dataset.station.split(' ')
  const kind = side === 'decoder' && sublayer === '1' ? 'cross' : side
  Object.assign(me, {part, side, kind, sublayer: +sublayer, kept: null})
  for (const other of me.boxes) {
    other.classList.toggle('lit', other === box)
    other.setAttribute('aria-pressed', other === box)
    other.setAttribute('tabindex', other === box ? 0 : -1)
  }
  me.equation.hidden = part !== 'attention'
  me.body.replaceChildren()
  const update = VIEWS[part](me, me.body)
  me.update = () => {
    const [title, text] = about(me)
    me.title.textContent = title
    me.sentence.textContent = text + ' '
    make(me.sentence, 'a', {href: box.href.baseVal, textContent: say('Lesson {n}', {n: box.dataset.lesson}) + ' →'})
    update()
  }
  me.update()
}

const boxes = me => {
  me.boxes = [...me.figure.querySelectorAll('a')]
  for (const box of me.boxes) {
    const [part, side, sublayer] = box.dataset.station.split(' '), of = ABOUT[part]
    box.setAttribute('role', 'button')
    box.setAttribute('aria-label', Array.isArray(of) ? of[0] : (of[sublayer === '1' ? 'cross' : side] ?? of[side])[0])
    box.addEventListener('click', e => {
      if (e.ctrlKey || e.metaKey || e.shiftKey) return  // a new tab for the lesson
      e.preventDefault()
      open(me, box)
      if (me.view.getBoundingClientRect().top > innerHeight - 300) me.view.scrollIntoView({block: 'nearest', behavior: 'smooth'})
    })
  }
  me.figure.onkeydown = e => {
    const at = me.boxes.indexOf(e.target), step = {ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1}[e.key]
    if (at < 0 || !step && e.key !== ' ') return
    e.preventDefault()
    if (step) me.boxes[at + step]?.focus()
    else open(me, me.boxes[at])
  }
}

// ---- Asking the worker

// What it has to say comes by the number of the question; the file of the model by none.
const ask = (me, question, hear = () => {}) => new Promise((done, fail) => {
  me.worker ??= worker(me)
  me.asked.push({done, fail, hear})
  me.worker.postMessage({...question, id: me.asked.length - 1})
})

const worker = me => {
  const worker = new Worker(new URL('worker.js', import.meta.url), {type: 'module'})
  worker.onmessage = ({data: {id, got, of, written, answer, failed}}) => {
    if (got) Object.assign(me.bar, {hidden: got === of, value: got, max: of || got*2})
    if (written) me.asked[id].hear(written)
    if (answer) me.asked[id].done(answer)
    if (failed) me.asked[id].fail(failed)
  }
  worker.onerror = () => {  // it did not come; the next question tries again
    me.worker = null
    me.asked.forEach(({fail}) => fail({}))
  }
  return worker
}

const question = me => ({text: me.answer.text, silenced: [...me.silenced], masked: me.masked, vectors: VECTORS.includes(me.part)})

const fail = (me, {status, why}) => {
  me.bar.hidden = true
  const missing = say('the model could not be fetched ({status})', {status})
  const offline = say('the model could not be fetched: is there a network?')
  me.said.textContent = say('Not translated: {why}.', {why: why ?? (status ? missing : offline)})
}

const busy = (me, is) => {
  me.isBusy = is
  me.root.classList.toggle('running', is)
  me.root.ariaBusy = String(is)
}

// The answer, after all words that were written on the way have been seen; null if there is none, which is told.
const answered = async (me, question, hear) => {
  if (me.isBusy) return null
  busy(me, true)
  me.said.textContent = me.worker ? say('Translating …') : say('Fetching the model, 1.7 MB …')
  try {
    const answer = await ask(me, question, hear)
    await me.played
    return answer
  } catch (failure) {
    fail(me, failure)
    return null
  } finally { busy(me, false) }
}

const calm = matchMedia('(prefers-reduced-motion: reduce)')

// Words appear as they are chosen, none faster than the eye follows.
const writing = async (me, pieces) => {
  me.said.textContent = say('Translating …')
  wordRow(me.out, spell(pieces, wordsOf(pieces)), null, () => {})
  if (!calm.matches) await new Promise(done => setTimeout(done, PACE))
}

// A sentence of the reader.
const translate = async me => {
  const asked = {...question(me), text: me.input.value, silenced: [], masked: true}
  const answer = await answered(me, asked, written => { me.played = me.played.then(() => writing(me, written)) })
  if (!answer) return
  if (!answer.text) return me.said.textContent = say('Write an English sentence.')
  me.silenced.clear()
  me.masked = true
  me.plain = inWords(answer)
  me.input.value = answer.text
  show(me, me.plain)
  tell(me)
}

// The same sentence once more, as the switches want it.
const compute = async me => {
  const answer = await answered(me, question(me))
  if (!answer) return
  const told = inWords(answer)
  if (!me.silenced.size && me.masked) me.plain = told
  show(me, told)
  tell(me)
}

const show = (me, answer) => {
  me.answer = answer
  me.kept = null
  me.root.classList.toggle('unmasked', !me.masked)
  for (const box of me.boxes) {
    const [part, side, sublayer] = box.dataset.station.split(' '), kind = side === 'decoder' && sublayer === '1' ? 'cross' : side
    box.classList.toggle('silent', part === 'heads' && [...me.silenced].some(name => name.startsWith(kind)))
  }
  drawWords(me)
  me.update()
}

// What stands under the figure: what is odd; and beside it: what was changed.
const tell = me => {
  const {answer, plain, said, changed} = me
  said.replaceChildren()
  changed.replaceChildren()
  if (!me.masked) changed.append(cheating(answer) + ' ')
  if (me.silenced.size) changed.append(without(me, answer, plain) + ' ')
  if (!me.masked || me.silenced.size) {
    return make(changed, 'button', {type: 'button', textContent: say('As it was'), onclick: () => {
      me.silenced.clear()
      me.masked = true
      show(me, me.plain)
      open(me, me.boxes.find(box => box.classList.contains('lit')))
      tell(me)
    }})
  }
  for (const [word, near] of answer.unknown ?? []) {
    said.append(say('The model has never seen “{word}”: expect nonsense. ', {word}))
    if (near) make(said, 'button', {type: 'button', textContent: say('Try “{near}”', {near}), onclick: () => {
      me.input.value = answer.text.split(' ').map(other => other === word ? near : other).join(' ')
      translate(me)
    }})
  }
  if (answer.ms) said.append(say('Translated here, {ms} ms a word piece. ', {ms: answer.ms.toFixed(1)}))
  if (product(answer.chosen) < .05) said.append(say('The model is not sure: it knows one small grammar, and this sentence may lie outside of it.'))
}

// Without the mask: where the decoder would now say something else, and how often that is a piece which stands further on.
const cheating = ({target, next}) => {
  const other = next.map(([[piece]], i) => [piece, i]).filter(([piece, i]) => piece !== target[i])
  const ahead = other.filter(([piece, i]) => target.indexOf(piece, i + 1) > 0)
  return say('Mask off: the decoder can cheat, for it sees the words that it is to name. But it was trained with the mask: at {n} of {all} places it now names another piece, at {ahead} of these one that stands further on.', {n: other.length, all: target.length, ahead: ahead.length})
}

const without = (me, answer, plain) => {
  const n = me.silenced.size, before = plainText(plain.target), p = ({chosen}) => percent(product(chosen))
  const values = {n, before, was: p(plain), is: p(answer)}
  if (plainText(answer.target) !== before) return say('Without {n} of the heads the translation is another; before: “{before}”.', values)
  return say('Without {n} of the heads the translation stays; its probability is {is}, before {was}.', values)
}

// ---- The start

const controls = (me, sentences) => {
  const form = me.root.querySelector('form')
  form.onsubmit = e => {
    e.preventDefault()
    translate(me)
  }
  me.input = make(form, 'input', {type: 'text', value: sentences[0], maxLength: 120, spellcheck: false, ariaLabel: say('English sentence'), lang: 'en', autocapitalize: 'off'})
  me.pick = make(form, 'select', {ariaLabel: say('Sentences to try')})
  make(me.pick, 'option', {textContent: say('Sentences to try'), value: ''})
  sentences.forEach(textContent => make(me.pick, 'option', {textContent, value: textContent, lang: 'en'}))
  me.pick.onchange = () => {
    if (me.pick.value) me.input.value = me.pick.value
    if (me.pick.value) translate(me)
  }
  make(form, 'button', {type: 'submit', textContent: say('Translate'), className: 'live-go'})
}

// Stored weights and probabilities are whole thousandths.
const inShares = numbers => Array.isArray(numbers) ? numbers.map(inShares) : typeof numbers === 'number' ? numbers/1000 : numbers

const start = async root => {
  const {sentences, model, first} = await (await fetch(root.dataset.base + 'sentences.json')).json()
  const find = name => root.querySelector(`.live-${name}`), me = {root, model, asked: [], played: Promise.resolve(), silenced: new Set(), masked: true, layer: model.N - 1, head: 0, step: 0}
  for (const name of ['out', 'in', 'heard', 'said', 'changed', 'hint', 'view', 'title', 'sentence', 'equation', 'body']) me[name] = find(name)
  me.compute = () => compute(me)
  me.beam = () => answered(me, {...question(me), beams: 4})
  me.figure = root.querySelector('svg')
  me.bar = make(me.said.parentNode, 'progress', {hidden: true, ariaLabel: say('The file of the model')})
  const maps = Object.fromEntries(Object.entries(first.maps).map(([kind, own]) => [kind, inShares(own)]))
  me.plain = me.answer = inWords({...first, maps, next: inShares(first.next), chosen: inShares(first.chosen)})
  me.figure.setAttribute('aria-label', say('Figure 1 of the paper'))
  me.out.ariaLabel = say('German translation')
  me.in.ariaLabel = say('English sentence')
  me.hint.textContent = say('Click a box: see what it does to this sentence.')
  controls(me, sentences)
  boxes(me)
  drawWords(me)
  open(me, me.boxes.find(({dataset}) => dataset.station === 'attention decoder 1'))
  tell(me)
  new MutationObserver(() => me.update()).observe(document.documentElement, {attributes: true, attributeFilter: ['data-scheme', 'data-bs-theme']})
}

document.querySelectorAll('#live').forEach(start)
