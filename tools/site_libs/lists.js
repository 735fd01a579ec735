// Lists that can be shortened: to the claims of one status, to the names that have some letters. Other rows are hidden,
// and so are tables in which no row is left, with their headings or their folds.
"use strict";
(() => {
  const place = document.querySelector(".list-choice")
  const choice = place.querySelector("select, input")
  const isFold = choice.tagName === "INPUT"
  const rows = [...document.querySelectorAll(isFold ? "tr:has(> td)" : "tr[data-status]")]
  const tables = new Set(rows.map((row) => row.closest(".sd-table")))

  function isChosen(row) {
    return isFold ? row.cells[0].textContent.toLowerCase().includes(choice.value.trim().toLowerCase())
      : !choice.value || row.dataset.status === choice.value
  }

  function show() {
    for (const row of rows) row.hidden = !isChosen(row)
    for (const table of tables) {
      const isEmpty = !rows.some((row) => !row.hidden && table.contains(row))
      const fold = table.parentElement
      if (isFold) Object.assign(fold, { hidden: isEmpty, open: Boolean(choice.value) })
      else table.hidden = table.previousElementSibling.hidden = isEmpty
    }
  }

  // An address such as #claim-shift leads to a row that may be hidden, #t to a letter that may be folded
  function follow() {
    const target = document.getElementById(location.hash.slice(1))
    const fold = target?.parentElement
    if (target?.closest("[hidden]")) {
      choice.value = ""
      show()
    } else if (fold?.open !== false) return
    if (isFold) fold.open = true
    target.scrollIntoView()
  }

  place.hidden = false
  choice.addEventListener("input", show)
  addEventListener("hashchange", follow)
  show() // after "back" a browser may remember the choice
  follow()
})()
