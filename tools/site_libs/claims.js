// The claims of one status: rows that have another one are hidden, and so are tables in which no row is left, with
// their headings.
"use strict";
(() => {
  const place = document.querySelector(".claims-choice")
  const select = place.querySelector("select")
  const rows = [...document.querySelectorAll("tr[data-status]")]

  function show() {
    for (const row of rows) row.hidden = Boolean(select.value) && row.dataset.status !== select.value
    for (const table of new Set(rows.map((row) => row.closest(".sd-table")))) {
      const heading = table.previousElementSibling
      table.hidden = heading.hidden = !table.querySelector("tr[data-status]:not([hidden])")
    }
  }

  // An address such as #claim-shift leads to a row that may be hidden
  function follow() {
    const row = document.getElementById(location.hash.slice(1))
    if (!row?.hidden) return
    select.value = ""
    show()
    row.scrollIntoView()
  }

  place.hidden = false
  select.addEventListener("change", show)
  addEventListener("hashchange", follow)
  show() // after "back" a browser may remember the choice
})()
