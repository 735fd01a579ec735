// What all widgets use. `add` makes an element of HTML or SVG inside another one, its text always as text.
const add = (parent, tag, attributes = {}, text = '') => {
  const space = tag === 'svg' ? 'http://www.w3.org/2000/svg' : parent.namespaceURI
  const element = parent.appendChild(document.createElementNS(space, tag))
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.textContent = text
  return element
}
// A text in the reader's language, if `translations` has it; values stand in place of {names}.
const say = (text, values) => (translations[text] ?? text).replace(/{(\w+)}/g, (_, name) => values[name])
const sum = numbers => numbers.reduce((a, b) => a + b, 0)

// A widget is `me`: the places of controls and pictures, what is chosen (`at`), `tell` for words, `show` draws. The class
// tnb-beside puts its one picture beside the controls, where there is room.
const begin = (name, build, look = 'tnb-below') => document.querySelectorAll(`[data-widget=${name}]:not([data-ready])`).forEach(root => {
  root.dataset.ready = ''
  root.classList.add(look)
  // Keys are for the widget alone, not for JupyterLab.
  root.onkeydown = e => e.stopPropagation()
  root.replaceChildren()
  const [bar, body] = ['tnb-bar', 'tnb-body'].map(c => add(root, 'div', {class: c}))
  const said = add(root, 'p', {class: 'tnb-said', 'aria-live': 'polite'})
  const me = {bar, body, at: {}, tell: text => { said.textContent = text }}
  build(me, JSON.parse(root.dataset.given))
  me.show()
})

// A slider over a list of values; `spell` is how a value is written, and read aloud.
const slider = (me, key, name, values, first, spell = String) => {
  const label = add(me.bar, 'label'), title = add(label, 'span')
  const input = add(label, 'input', {type: 'range', min: 0, max: values.length - 1, value: values.indexOf(first)})
  const choose = () => {
    me.at[key] = values[input.value]
    title.textContent = `${name} = ${spell(me.at[key])}`
    input.setAttribute('aria-valuetext', spell(me.at[key]))
  }
  choose()
  input.oninput = () => { choose(); me.show() }
}

// Buttons of which one is pressed, for a list of names; what is chosen is its number.
const choice = (me, key, name, names, first = 0) => {
  const box = add(me.bar, 'div', {class: 'tnb-choice', role: 'group', 'aria-label': name})
  add(box, 'span', {}, name)
  const row = add(box, 'div', {class: 'tnb-buttons'})
  const press = i => {
    me.at[key] = i
    ;[...row.children].forEach((b, k) => b.setAttribute('aria-pressed', k === i))
  }
  names.forEach((text, i) => { add(row, 'button', {type: 'button'}, text).onclick = () => { press(i); me.show() } })
  press(first)
}

// A picture 340 wide, to draw in anew at each change.
const picture = (me, height, about) =>
  add(me.body, 'svg', {viewBox: `0 0 340 ${height}`, role: 'img', 'aria-label': about})
