// The search: which page, and which of its sections, a reader means. The index is search.json, and on pages of another
// language search.ja.json, too, made by tools/site_search.py:
// [{href, weight, titles: [title, the same in other languages...], sections: [[id, heading, text]...]}...]
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
  const TITLE = 100, SUMMARY = 12, HEADING = 10, TEXT = 1 // what a match counts there; a page begins with its summary
  let index = null

  const plain = (text) => text.normalize("NFKC").toLowerCase()

  // How well a text answers a word: it is the word, begins with it, has a word that begins with it, or has it inside
  function match(text, word) {
    const at = text.indexOf(word)
    if (at < 0) return 0
    if (text === word) return 4
    if (at === 0) return 3
    return /[\p{L}\p{N}]/u.test(text[at - 1]) ? 1 : 2
  }

  function inSection([id, heading, text], words) {
    const weight = id ? TEXT : SUMMARY
    const best = words.map((word) => Math.max(HEADING * match(heading, word), weight * match(text, word)))
    return { found: best.map(Boolean), score: best.reduce((sum, x) => sum + x, 0) }
  }

  // A page counts by its title and its two best sections; how many sections have a word decides between equals
  function inPage(page, words) {
    const titles = words.map((word) => TITLE * Math.max(...page.plain.titles.map((title) => match(title, word))))
    const sections = page.plain.sections.map((section) => inSection(section, words))
    const scores = sections.map((section) => section.score)
    const [first = 0, second = 0] = [...scores].sort((a, b) => b - a)
    const found = words.filter((_, i) => titles[i] || sections.some((section) => section.found[i])).length
    const often = scores.filter(Boolean).length
    const score = titles.reduce((sum, x) => sum + x, 0) + first + second + often / 10
    const section = titles.some(Boolean) ? null : page.sections[scores.indexOf(first)]
    return { page, found, score: score * page.weight, section }
  }

  function search(text) {
    const words = plain(text).split(/\s+/).filter(Boolean)
    const hits = index.map((page) => inPage(page, words)).filter((hit) => hit.found)
    return hits.sort((a, b) => b.found - a.found || b.score - a.score).slice(0, MOST)
  }

  async function load() {
    if (index) return
    const own = document.documentElement.lang.slice(0, 2)
    const files = own && own !== "en" ? [`search.${own}.json`, "search.json"] : ["search.json"]
    const pages = (await Promise.all(files.map(async (file) => (await fetch(root + file)).json()))).flat()
    for (const page of pages) {
      const names = [...page.titles, page.titles[0].replace(/^\d\d\w? /, "")] // with a lesson's number, and without
      page.plain = { titles: names.map(plain), sections: page.sections.map((section) => section.map(plain)) }
    }
    index = pages
  }

  function add(place, tag, text = "", className = "") {
    const element = document.createElement(tag)
    if (className) element.className = className
    element.append(text)
    place.append(element)
    return element
  }

  // A part of a text, around the first word that it has, which is marked
  function addText(place, text, words) {
    const word = words.find((one) => plain(text).includes(one)) || ""
    const at = plain(text).indexOf(word)
    const start = at + word.length > AROUND ? at - 30 : 0
    const line = add(place, "span", (start ? "… " : "") + text.slice(start, at), "search-text")
    if (word) add(line, "mark", text.slice(at, at + word.length))
    line.append(text.slice(at + word.length, start + AROUND))
  }

  function addResult({ page, section }, words) {
    const [id, heading, text] = section || page.sections[0] || ["", "", ""]
    const link = add(add(list, "li"), "a")
    link.href = root + page.href + (section && id ? `#${id}` : "")
    const asked = (title) => words.some((word) => plain(title).includes(word))
    const named = page.titles.slice(1).find(asked) // in another language
    add(link, "span", page.titles[0] + (named ? ` · ${named}` : ""), "search-title")
    if (section && heading) add(link, "span", heading, "search-heading")
    if (text) addText(link, text, words)
  }

  async function show() {
    const text = input.value.trim()
    if (!text) return close()
    await load()
    const hits = search(text)
    list.replaceChildren()
    for (const hit of hits) addResult(hit, plain(text).split(/\s+/))
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

  input.addEventListener("focus", load)
  input.addEventListener("input", show)
  box.addEventListener("keydown", onKey)
  box.addEventListener("focusout", (event) => { if (event.relatedTarget && !box.contains(event.relatedTarget)) close() })
  list.addEventListener("click", () => {
    close()
    document.querySelector('.navbar-toggler[aria-expanded="true"]')?.click() // on a phone the box stands in a menu
  })
  document.addEventListener("click", (event) => { if (!box.contains(event.target)) close() })
  document.addEventListener("keydown", onPageKey)
})()
