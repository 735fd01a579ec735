// What these pages need of Bootstrap's script, under its names: parts that fold (`data-bs-toggle="collapse"`) and tabs
// (`data-bs-toggle="tab"`). The arrow keys go from tab to tab.
const targetsOf = toggle => document.querySelectorAll(toggle.dataset.bsTarget || toggle.getAttribute('href'))

const fold = toggle => {
  const open = toggle.getAttribute('aria-expanded') !== 'true'
  targetsOf(toggle).forEach(part => part.classList.toggle('show', open))
  // A section's name and its arrow fold the same part
  document.querySelectorAll(`[data-bs-target="${toggle.dataset.bsTarget}"]`).forEach(each => {
    each.setAttribute('aria-expanded', open)
    each.classList.toggle('collapsed', !open)
  })
}

const tabsBeside = tab => [...tab.closest('[role="tablist"]').querySelectorAll('[data-bs-toggle="tab"]')]

const show = tab => tabsBeside(tab).forEach(each => {
  each.classList.toggle('active', each === tab)
  each.setAttribute('aria-selected', each === tab)
  targetsOf(each).forEach(pane => pane.classList.toggle('active', each === tab))
})

document.addEventListener('click', event => {
  const toggle = event.target.closest('[data-bs-toggle]')
  if (!toggle) return
  event.preventDefault()
  toggle.dataset.bsToggle === 'tab' ? show(toggle) : fold(toggle)
})

document.addEventListener('keydown', event => {
  const tab = event.target.closest('[data-bs-toggle="tab"]'), step = {ArrowLeft: -1, ArrowRight: 1}[event.key]
  if (!tab || !step) return
  const tabs = tabsBeside(tab), next = tabs.at((tabs.indexOf(tab) + step) % tabs.length)
  event.preventDefault()
  next.focus()
  next.click()
})
