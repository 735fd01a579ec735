// What these pages need of Bootstrap's script, under its name: tabs (`data-bs-toggle="tab"`). The arrow keys go from tab to
// tab.
const targetsOf = tab => document.querySelectorAll(tab.dataset.bsTarget || tab.getAttribute('href'))
const tabsBeside = tab => [...tab.closest('[role="tablist"]').querySelectorAll('[data-bs-toggle="tab"]')]

const show = tab => tabsBeside(tab).forEach(each => {
  each.classList.toggle('active', each === tab)
  each.setAttribute('aria-selected', each === tab)
  targetsOf(each).forEach(pane => pane.classList.toggle('active', each === tab))
})

document.addEventListener('click', event => {
  const tab = event.target.closest('[data-bs-toggle="tab"]')
  if (!tab) return
  event.preventDefault()
  show(tab)
})

document.addEventListener('keydown', event => {
  const tab = event.target.closest('[data-bs-toggle="tab"]'), step = {ArrowLeft: -1, ArrowRight: 1}[event.key]
  if (!tab || !step) return
  const tabs = tabsBeside(tab), next = tabs.at((tabs.indexOf(tab) + step) % tabs.length)
  event.preventDefault()
  next.focus()
  next.click()
})
