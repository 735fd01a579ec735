// Keyboard and phone: the sidebar says where one is and gives the focus back, and what scrolls can be scrolled by keys.
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
  addEventListener("load", markScrolling)
  addEventListener("resize", markScrolling)
})()
