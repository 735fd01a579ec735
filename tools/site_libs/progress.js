// Ticks at the exercises that are done. They stay in this browser, under one key: {"01.1": true, "01.3": true}.
// The builder marks the places: [data-exercise] at an exercise, [data-exercises] where a lesson's are counted.
"use strict";
(() => {
  const KEY = "transformer_nb-done";
  const say = (text, values) => (globalThis.translations?.[text] ?? text).replace(/{(\w+)}/g, (_, name) => values[name]);
  const all = (selector) => document.querySelectorAll(selector);
  let done = {};

  function read() {
    try { done = { ...JSON.parse(localStorage.getItem(KEY)) }; }
    catch { /* no storage, or something else in it: ticks hold until the page is left */ }
  }

  function keep() {
    try { localStorage.setItem(KEY, JSON.stringify(done)); }
    catch { /* as above */ }
    show();
  }

  function add(place, tag, attributes) {
    const element = document.createElement(tag);
    for (const name in attributes) element.setAttribute(name, attributes[name]);
    place.append(element);
    return element;
  }

  function addBox(place) {
    const id = place.dataset.exercise;
    const label = say("{id} done", { id });
    const box = add(place, "input", { type: "checkbox", class: "form-check-input", title: label, "aria-label": label });
    box.addEventListener("change", () => {
      read(); // another tab may have changed them
      if (box.checked) done[id] = true;
      else delete done[id];
      keep();
    });
  }

  function addForget(place) {
    const button = add(place, "button", { type: "button", class: "btn btn-sm btn-outline-secondary" });
    button.textContent = say("Forget all ticks");
    button.addEventListener("click", () => {
      if (!confirm(say("Forget all {n} ticks?", { n: Object.keys(done).length }))) return;
      done = {};
      keep();
    });
  }

  function showCount(place) {
    const ids = place.dataset.exercises.split(" ");
    const n = ids.filter((id) => done[id]).length;
    const text = say("{n} of {all} done", { n, all: ids.length });
    const short = place.querySelector(".exercises-count"); // in the sidebar; read aloud as words
    const number = n === ids.length ? "✓" : `${n}/${ids.length}`;
    if (short) Object.assign(short, { textContent: number, title: text, ariaLabel: text });
    else place.textContent = text;
    place.hidden = false;
  }

  function show() {
    for (const box of all("[data-exercise] > input")) box.checked = Boolean(done[box.parentElement.dataset.exercise]);
    for (const button of all("[data-forget] > button")) button.disabled = !Object.keys(done).length;
    all("[data-exercises]").forEach(showCount);
  }

  all("[data-exercise]").forEach(addBox);
  all("[data-forget]").forEach(addForget);
  all("a[data-exercises]").forEach((link) => add(link, "span", { class: "exercises-count", role: "img" }));
  const refresh = () => { read(); show(); };
  refresh();
  for (const event of ["storage", "pageshow"]) addEventListener(event, refresh); // another tab, and after "back"
})();
