// The search: which page, and which of its sections, a reader means. The index is search.json, and on pages of another
// language, or for words in its letters, search.ja.json, too, made by tools/site_search.py:
// [{href, weight, titles: [title, the same in other languages...], sections: [[id, heading, text, more words]...]}...]
"use strict";
(() => {
  const box = document.querySelector(".site-search")
  if (!box) return
  const input = box.querySelector("input")
  const results = box.querySelector(".search-results")
  const status = results.querySelector("p")
  const list = results.querySelector("ol")
  const root = document.querySelector('meta[name="smalldocs:offset"]').content
  const MOST = 12 // results that are shown
  const AROUND = 110 // letters of a section that are shown
  const say = (text, values) => (globalThis.translations?.[text] ?? text).replace(/{(\w+)}/g, (_, name) => values[name])
  const TITLE = 30, SUMMARY = 5, HEADING = 10, TEXT = 1 // what a match counts there; a page begins with its summary
  const EXACT = 4, WHOLE = 3, BEGINS = 2, INSIDE = 1 // how well a text answers a word
  const LETTER = "[\\p{L}\\p{N}_]"
  const CHINESE = /\p{Script=Han}/u, KOREAN = /\p{Script=Hangul}/u
  const JAPANESE = /[\p{Script=Hiragana}\p{Script=Katakana}]/u
  const STOP = new RegExp(`^(?:${["a|an|and|are|as|at|be|by|can|do|does|exercise|for|from|how|i|in|is|it|its|lesson|me|my",
    "of|on|or|our|own|so|take|takes|that|the|this|to|use|we|what|when|where|which|who|why|with|you|your"].join("|")})$`)
  const ALSO = { backpropagation: "gradient", bpe: "tokenizer", license: "licence", sqrt: "root", warmup: "warm-up" }
  const ENDING = /(?:ies|y|ings?|ed|es?|(?<!s)s)$/ // of an English word
  const WORDS = /(?:table|figure|equation|section) \d\w*|[^\s,;:!?，。、？"'()]+(?<!\.)/g // "table 3" is one
  const files = {} // what has been asked for
  let index = []

  const plain = (text) => text.normalize("NFKC").toLowerCase()
  const isSpaced = (word) => !CHINESE.test(word) && !JAPANESE.test(word)
  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")

  // What to look for: a word and its other name, without their endings; each with how it is found
  function asked(word) {
    const names = [word, ALSO[word]].filter(Boolean)
    if (!isSpaced(word)) return { names, stems: names, begins: new RegExp(escaped(word), "u"), whole: /$^/ }
    const stems = names.map((name) => /^[a-z-]{5,}$/.test(name) ? name.replace(ENDING, "") : name)
    return {
      names, stems,
      begins: new RegExp(`(?<!${LETTER})(?:${stems.map(escaped).join("|")})`, "u"),
      whole: new RegExp(`(?<!${LETTER})(?:${names.map(escaped).join("|")})s?(?!${LETTER})`, "u"),
    }
  }

  function match(text, { names, stems, begins, whole }) {
    if (!stems.some((stem) => text.includes(stem))) return 0
    if (names.includes(text)) return EXACT
    return whole.test(text) ? WHOLE : begins.test(text) ? BEGINS : INSIDE
  }

  // In a title or a heading a word counts for more, the less else there is
  function matchName(name, word) {
    return match(name, word) * Math.min(1, .5 + word.names[0].length / (name.length + 1))
  }

  // The words of a question without those that say nothing, and none twice
  function wordsOf(text) {
    const all = plain(text).match(WORDS) ?? []
    const telling = all.filter((word) => !STOP.test(word))
    return [...new Set(telling.length ? telling : all)]
  }

  const has = (page, word) => word.stems.some((stem) => page.plain.all.includes(stem))
  const isKnown = (word) => index.some((page) => has(page, asked(word)))

  // A word that stands nowhere: one that differs by a letter, or its parts, or what of it stands somewhere
  function known(word) {
    if (isKnown(word)) return [word]
    if (!isSpaced(word) || KOREAN.test(word)) {
      const pairs = [...word].slice(1).map((letter, i) => [...word][i] + letter)
      return pairs.filter(isKnown)
    }
    const near = word.length > 4 && nearest(word)
    return near ? [near] : word.split(/[^\p{L}\p{N}_]+/u).filter((part) => part && part !== word && isKnown(part))
  }

  // The word, of all that stand in an index, that most pages have and that is one letter away: more, less, another
  function nearest(word) {
    const count = new Map()
    for (const page of index) {
      for (const other of new Set(page.plain.all.match(/[\p{L}\p{N}_]+/gu))) {
        if (isOneAway(word, other)) count.set(other, (count.get(other) ?? 0) + 1)
      }
    }
    return [...count].sort((a, b) => b[1] - a[1])[0]?.[0]
  }

  function isOneAway(a, b) {
    if (Math.abs(a.length - b.length) > 1) return false
    let i = 0, end = 0
    while (i < a.length && a[i] === b[i]) i++
    while (end < Math.min(a.length, b.length) - i && a.at(-1 - end) === b.at(-1 - end)) end++
    const rest = Math.max(a.length, b.length) - i - end
    const swapped = a.length === b.length && rest === 2 && a[i] === b[i + 1] && a[i + 1] === b[i]
    return rest <= 1 || swapped
  }

  function inSection([id, heading, text, more], words, phrase) {
    const weight = id ? TEXT : SUMMARY
    const found = words.map((word) => {
      const inText = weight * Math.max(match(text, word), match(more, word) / 2)
      return Math.max((id.startsWith("exercise-") ? HEADING / 2 : HEADING) * matchName(heading, word), inText)
    })
    const together = phrase && (heading.includes(phrase) ? HEADING : text.includes(phrase) ? 2*weight : 0)
    return { found, score: found.reduce((sum, x, i) => sum + x * words[i].rare, 0) + WHOLE * together }
  }

  // A page counts by its title and its two best sections, and by how many of the words it has: rare ones count for more
  function inPage(page, words, phrase) {
    const titles = words.map((word) => TITLE * Math.max(...page.plain.titles.map((title) => matchName(title, word))))
    const sections = page.plain.sections.map((section) => inSection(section, words, phrase))
    const scores = sections.map((section) => section.score)
    const [first = 0, second = 0] = [...scores].sort((a, b) => b - a)
    const found = words.filter((_, i) => titles[i] || sections.some((section) => section.found[i]))
    const share = found.reduce((sum, word) => sum + word.rare, 0)
    const named = titles.reduce((sum, x, i) => sum + x * words[i].rare, 0)
    const score = (named + first + second / 2 + scores.filter(Boolean).length / 3) * share ** 2 * page.weight
    const best = page.sections[scores.indexOf(first)]
    const isTitle = titles.some((x) => x >= TITLE * EXACT) || (named && first < HEADING * BEGINS)
    return { page, score, section: isTitle || !first ? null : best }
  }

  function search(text) {
    const words = [...new Set(wordsOf(text).flatMap(known))].map(asked)
    for (const word of words) {
      const n = index.filter((page) => has(page, word)).length
      word.rare = Math.log(1 + index.length / Math.max(1, n))
    }
    const phrase = words.length > 1 && plain(text)
    const hits = words.length ? index.map((page) => inPage(page, words, phrase)).filter((hit) => hit.score) : []
    return { words, hits: hits.sort((a, b) => b.score - a.score).slice(0, MOST) }
  }

  async function get(lang) {
    try { return await (await fetch(`${root}search.${lang && `${lang}.`}json`)).json() }
    catch (error) {
      delete files[lang] // the next letter asks again
      throw error
    }
  }

  // The indexes that this page and these letters need; what two of them say of one page is joined
  async function load(text = "") {
    const wanted = new Set(["", document.documentElement.lang.slice(0, 2).replace("en", "")])
    if (KOREAN.test(text)) wanted.add("ko")
    if (JAPANESE.test(text)) wanted.add("ja")
    else if (CHINESE.test(text)) wanted.add("zh").add("ja")
    const lists = await Promise.all([...wanted].sort().map((lang) => files[lang] ??= get(lang)))
    if (lists.length === load.count) return
    const pages = {}
    for (const page of lists.flat()) {
      const same = pages[page.href]
      pages[page.href] = same ? { ...same, sections: [...same.sections, ...page.sections] } : page
    }
    index = Object.values(pages).map((page) => ({ ...page, plain: plainOf(page) }))
    load.count = lists.length
  }

  function plainOf(page) {
    const names = [...page.titles, page.titles[0].replace(/^\d\d\w? /, "")] // with a lesson's number, and without
    const titles = names.map(plain)
    const sections = page.sections.map((section) => section.map(plain))
    return { titles, sections, all: [...titles, ...sections.flat()].join("\n") }
  }

  function add(place, tag, text = "", className = "") {
    const element = document.createElement(tag)
    if (className) element.className = className
    element.append(text)
    place.append(element)
    return element
  }

  // A part of a text, cut between words, around the first word that it has, which is marked
  function addText(place, text, words) {
    const names = words.flatMap((word) => word.names)
    const small = text.toLowerCase() // letter by letter the text, which a plain one is not: it has three dots for …
    const word = names.find((one) => small.includes(one)) || ""
    const at = small.indexOf(word)
    const start = at + word.length > AROUND ? text.lastIndexOf(" ", at - 30) + 1 : 0
    const space = text.indexOf(" ", start + AROUND)
    const end = space < 0 ? text.length : Math.max(space, at + word.length)
    const line = add(place, "span", (start ? "… " : "") + text.slice(start, at), "search-text")
    if (word) add(line, "mark", text.slice(at, at + word.length))
    line.append(text.slice(at + word.length, end) + (end < text.length ? " …" : ""))
  }

  function addResult({ page, section }, words) {
    const [id, heading, text] = section || page.sections[0] || ["", "", ""]
    const link = add(add(list, "li"), "a")
    link.href = root + page.href + (section && id ? `#${id}` : "")
    const named = page.titles.slice(1).find((title) => words.some((word) => match(plain(title), word))) // elsewhere
    add(link, "span", page.titles[0] + (named ? ` · ${named}` : ""), "search-title")
    if (section && heading) add(link, "span", heading, "search-heading")
    if (text) addText(link, text, words)
  }

  async function show() {
    const text = input.value.trim()
    if (!text) return close()
    await load(text)
    if (text !== input.value.trim()) return // more has been typed
    const { words, hits } = search(text)
    list.replaceChildren()
    for (const hit of hits) addResult(hit, words)
    const n = hits.length
    status.textContent = n === MOST ? say("The best {n} found", { n }) : n ? say("{n} found", { n }) : say("Nothing found")
    results.hidden = false
  }

  function close() {
    results.hidden = true
  }

  // Up and down lead from the box through the results and back
  function step(by) {
    const stops = [input, ...list.querySelectorAll("a")]
    const next = stops[stops.indexOf(document.activeElement) + by]
    if (next) next.focus()
  }

  function onKey(event) {
    if (event.key === "Escape" && !results.hidden) {
      close()
      input.focus()
    } else if (event.key === "ArrowDown") step(1)
    else if (event.key === "ArrowUp") step(-1)
    else if (event.key === "Enter" && event.target === input && !results.hidden) list.querySelector("a")?.click()
    else return
    event.preventDefault()
  }

  function onPageKey(event) {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable
    const asked = (event.key === "/" && !typing) || ((event.ctrlKey || event.metaKey) && event.key === "k")
    if (!asked || !input.offsetParent) return
    event.preventDefault()
    input.focus()
  }

  input.addEventListener("focus", () => load())
  input.addEventListener("input", show)
  box.addEventListener("keydown", onKey)
  box.addEventListener("focusout", (event) => { if (event.relatedTarget && !box.contains(event.relatedTarget)) close() })
  list.addEventListener("click", close)
  document.addEventListener("click", (event) => { if (!box.contains(event.target)) close() })
  document.addEventListener("keydown", onPageKey)
})()
