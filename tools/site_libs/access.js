// Keyboard and phone: the sidebar says where one is and gives the focus back, and what scrolls can be scrolled by keys.
// Paper: what is folded is open, and hints and solutions stand at the end.
"use strict";
(() => {
  const sidebar = document.querySelector("#quarto-sidebar")
  const toggles = document.querySelectorAll(".quarto-btn-toggle") // smalldocs.js opens the sidebar when one is clicked
  const SCROLLS = "main pre, main .sd-table, main .cell-output-display, main .math.display"

  function showActive() {
    const active = sidebar.querySelector('[aria-current="page"]')
    if (!active) return
    const box = sidebar.getBoundingClientRect()
    sidebar.scrollTop += active.getBoundingClientRect().top - box.top - box.height / 3
  }

  function isOpen() {
    return sidebar.classList.contains("show")
  }

  function sayWhetherOpen() {
    for (const toggle of toggles) toggle.setAttribute("aria-expanded", isOpen())
  }

  function openedOrClosed() {
    sayWhetherOpen()
    if (!isOpen()) return
    showActive()
    const first = sidebar.querySelector('[aria-current="page"]') || sidebar.querySelector("a")
    first.focus()
  }

  function closeOnEscape(event) {
    if (event.key !== "Escape" || !isOpen()) return
    toggles[0].click()
    toggles[0].focus()
  }

  // A box that scrolls takes the focus, so that arrow keys scroll it; one that does not would only be in the way
  function markScrolling() {
    for (const box of document.querySelectorAll(SCROLLS)) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0
      else box.removeAttribute("tabindex")
    }
  }

  if (sidebar) {
    showActive()
    sayWhetherOpen()
    for (const toggle of toggles) toggle.addEventListener("click", openedOrClosed)
    sidebar.addEventListener("keydown", closeOnEscape)
  }
  let answers = null // on paper, what belongs to the exercises
  let places = [] // where it came from
  let opened = []

  // The folds that follow an exercise, up to the next one or a heading
  function foldsOf(exercise) {
    const folds = []
    let next = exercise.closest("p").nextElementSibling
    while (next && !next.querySelector(".exercise") && !/^(H\d|SECTION)$/.test(next.tagName)) {
      if (next.tagName === "DETAILS") folds.push(next)
      next = next.nextElementSibling
    }
    return folds
  }

  function forPaper() {
    if (answers) return
    answers = document.createElement("section")
    answers.className = "answers"
    for (const exercise of document.querySelectorAll("main .exercise")) {
      const folds = foldsOf(exercise)
      if (!folds.length) continue
      const name = document.createElement("h4")
      name.textContent = exercise.parentElement.querySelector("strong")?.textContent
      places.push(...folds.map((fold) => [fold, fold.nextSibling, fold.parentElement]))
      answers.append(name, ...folds)
    }
    document.querySelector("main").append(answers)
    opened = [...document.querySelectorAll("main details:not([open], .code-fold, .api)")]
    for (const fold of opened) fold.open = true
  }

  function forScreen() {
    for (const fold of opened) fold.open = false
    for (const [fold, before, parent] of places.reverse()) parent.insertBefore(fold, before)
    answers?.remove()
    answers = null
    places = opened = []
  }

  // Paper does not wait for pictures: where there is room to print from, they come when the page has
  function loadPictures() {
    for (const picture of document.images) picture.loading = "eager"
  }

  if (innerWidth >= 768) addEventListener("load", () => setTimeout(loadPictures, 2000))
  addEventListener("beforeprint", forPaper)
  addEventListener("afterprint", forScreen)
  addEventListener("load", markScrolling)
  addEventListener("resize", markScrolling)
})()
