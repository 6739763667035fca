// Reading needs none of this. It keeps times current, and lets htmx bring parts of a page up to date
// without moving what the reader looks at. A part that is brought up to date has `data-live`.
"use strict";

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
let clockOffset = 0; // the server's clock minus this one, in milliseconds

function spell(seconds, parts) {
  let rest = Math.max(Math.floor(seconds), 0);
  const found = [];
  for (const [size, unit] of UNITS) {
    const count = Math.floor(rest / size);
    rest %= size;
    if (count || found.length) found.push([count, unit]);
  }
  const shown = found.slice(0, parts).filter(([count]) => count);
  return shown.map(([count, unit]) => `${count} ${unit}`).join(" ") || "0 s";
}

const WORDS = {
  ago: (past) => (past >= 1 ? `${spell(past, 1)} ago` : "just now"),
  until: (past) => (past <= -1 ? `in ${spell(-past, 2)}` : "now"),
  since: (past) => spell(past, 2),
};

function tick() {
  const now = Date.now() + clockOffset;
  for (const time of document.querySelectorAll("time[data-time]")) {
    const text = WORDS[time.dataset.time]((now - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
}

// What came with the page or was swapped in: the server's clock, and logs at their ends.
function arrive(region) {
  const told = region.dataset.now ? region : region.querySelector("[data-now]");
  if (told) clockOffset = Date.parse(told.dataset.now) - Date.now();
  for (const log of region.querySelectorAll("pre.log")) showPlace(log);
  for (const box of region.querySelectorAll("[data-all]")) countChosen(box.form);
  tick();
}

// A log begins at the line that was looked for, or else at its end, where the error mostly is.
function showPlace(log) {
  const hit = log.querySelector(".hit");
  if (hit) log.scrollTop = hit.offsetTop - log.offsetTop - log.clientHeight / 3;
  else log.scrollTop = log.dataset.from === "start" ? 0 : log.scrollHeight;
}

function isAtEnd(node) {
  return node.scrollHeight - node.clientHeight - node.scrollTop < 4;
}

// What has to look the same after an exchange: focus, choices, open details, scrolled blocks, and the
// row that is at the top of the window.
function remember(region) {
  const focused = region.contains(document.activeElement) ? document.activeElement : null;
  const details = [...region.querySelectorAll("details[id]")].map((node) => [node.id, node.open]);
  const checked = [...region.querySelectorAll("input[id]:checked")].map((node) => node.id);
  const scrolled = [...region.querySelectorAll("[tabindex][id]")].map((node) => ({
    id: node.id,
    top: node.scrollTop,
    left: node.scrollLeft,
    atEnd: isAtEnd(node),
  }));
  return { details, checked, scrolled, focusPath: focused && pathOf(focused, region), place: placeIn(region) };
}

function pathOf(node, region) {
  if (node.id) return `#${CSS.escape(node.id)}`;
  if (node.tagName === "SUMMARY" && node.parentElement.id) return `#${CSS.escape(node.parentElement.id)} > summary`;
  const href = node.getAttribute("href");
  if (!href) return null;
  const selector = `a[href="${CSS.escape(href)}"]`;
  return { selector, index: [...region.querySelectorAll(selector)].indexOf(node) };
}

// At the top of a list the newest rows are wanted; below, the rows that are read stay where they are.
function placeIn(region) {
  if (region.getBoundingClientRect().top >= 0) return null;
  const row = [...region.querySelectorAll("tr[id]")].find((node) => node.getBoundingClientRect().top >= 0);
  return row && { id: row.id, top: row.getBoundingClientRect().top };
}

function restore(region, { details, checked, scrolled, focusPath, place }) {
  const found = (id) => region.querySelector(`#${CSS.escape(id)}`);
  for (const [id, open] of details) if (found(id)) found(id).open = open;
  for (const id of checked) if (found(id)) found(id).checked = true;
  for (const { id, top, left, atEnd } of scrolled) {
    const node = found(id);
    if (!node) continue;
    node.scrollLeft = left;
    node.scrollTop = atEnd && node.matches(".log") ? node.scrollHeight : top;
  }
  const row = place && found(place.id);
  if (row) scrollBy(0, row.getBoundingClientRect().top - place.top);
  if (!focusPath) return;
  const focused = typeof focusPath === "string"
    ? region.querySelector(focusPath)
    : region.querySelectorAll(focusPath.selector)[focusPath.index];
  focused?.focus({ preventScroll: true });
}

function isBusy(region) {
  const selection = document.getSelection();
  const selects = selection && !selection.isCollapsed && region.contains(selection.anchorNode);
  return document.hidden || selects;
}

const kept = new Map(); // by the region's id, from before a swap until after it

document.addEventListener("htmx:beforeRequest", (event) => {
  const region = event.detail.elt;
  if (region.matches("[data-live]") && isBusy(region)) event.preventDefault();
});

document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr, pathInfo, target } = event.detail;
  const asked = new URL(pathInfo.finalRequestPath, location).pathname;
  // A form that was refused comes back with what is wrong at its fields.
  if (xhr.status === 400) Object.assign(event.detail, { shouldSwap: true, isError: false });
  if (xhr.responseURL && new URL(xhr.responseURL).pathname.startsWith("/login/") && !asked.startsWith("/login/")) {
    event.detail.shouldSwap = false; // signed out meanwhile
    location.reload();
  } else if (target.matches("[data-live]") && isBusy(target)) {
    event.detail.shouldSwap = false;
  } else if (target.id && event.detail.shouldSwap) {
    const log = target.closest(".log"); // which is followed
    kept.set(target.id, { ...remember(target), state: target.dataset.state, follows: log && isAtEnd(log) });
    // What was asked for begins at a place of its own; what comes by itself stays in place.
    if (!target.matches("[data-live]")) kept.get(target.id).scrolled = [];
  }
});

// A log that is followed is swapped as lines; the reader who is at its end stays there.
document.addEventListener("htmx:afterSettle", () => {
  const before = kept.get("log-more");
  kept.delete("log-more");
  const log = document.getElementById("log");
  if (before?.follows && log) log.scrollTop = log.scrollHeight;
});

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id === "log-more") return;
  const region = document.getElementById(event.detail.target.id);
  if (!region) return;
  arrive(region);
  const before = kept.get(region.id);
  kept.delete(region.id);
  if (!before) return;
  restore(region, before);
  // Whoever is told that a field is wrong types on in it.
  if (event.detail.xhr.status === 400) region.querySelector("[aria-invalid]")?.focus();
  for (const box of region.querySelectorAll("[data-all]")) countChosen(box.form);
  if (region.dataset.state !== before.state) say(region.dataset.state ?? "");
});

function say(text) {
  document.getElementById("announce").textContent = text;
}

// Rows that are chosen: one box for all of the page, and the number of those that are.
function countChosen(form) {
  const boxes = [...form.elements].filter((box) => box.name === "id" && box.type === "checkbox");
  const count = boxes.filter((box) => box.checked).length;
  for (const all of form.querySelectorAll("[data-all]")) {
    all.checked = count > 0 && count === boxes.length;
    all.indeterminate = count > 0 && count < boxes.length;
  }
  for (const place of form.querySelectorAll("[data-chosen]")) place.textContent = count;
  form.classList.toggle("choosing", count > 0);
}

document.addEventListener("change", (event) => {
  const box = event.target;
  if (!box.form || box.type !== "checkbox") return;
  if (box.matches("[data-all]")) {
    for (const each of box.form.elements) if (each.name === "id" && each.type === "checkbox") each.checked = box.checked;
  }
  if (box.form.querySelector("[data-all]")) countChosen(box.form);
});

arrive(document.body);
setInterval(tick, 1000);
