// Reading needs none of this. It keeps times current, and brings a page of a chain that is not
// over up to date every few seconds, without moving what the reader looks at.
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

function arrive(region) {
  clockOffset = Date.parse(region.dataset.now) - Date.now();
  for (const log of region.querySelectorAll("pre.log")) log.scrollTop = log.scrollHeight;
  tick();
}

// What has to look the same after the exchange: focus, open details, scrolled blocks.
function remember(region) {
  const focused = region.contains(document.activeElement) ? document.activeElement : null;
  const details = [...region.querySelectorAll("details[id]")].map((node) => [node.id, node.open]);
  const scrolled = [...region.querySelectorAll("[tabindex][id]")].map((node) => ({
    id: node.id,
    top: node.scrollTop,
    left: node.scrollLeft,
    atEnd: node.scrollHeight - node.clientHeight - node.scrollTop < 4,
  }));
  const focusPath = focused && pathOf(focused, region);
  return { details, scrolled, focusPath };
}

function pathOf(node, region) {
  if (node.id) return `#${CSS.escape(node.id)}`;
  if (node.tagName === "SUMMARY" && node.parentElement.id) return `#${CSS.escape(node.parentElement.id)} > summary`;
  const href = node.getAttribute("href");
  if (!href) return null;
  const selector = `a[href="${CSS.escape(href)}"]`;
  return { selector, index: [...region.querySelectorAll(selector)].indexOf(node) };
}

function restore(region, { details, scrolled, focusPath }) {
  for (const [id, open] of details) {
    const node = document.getElementById(id);
    if (node) node.open = open;
  }
  for (const { id, top, left, atEnd } of scrolled) {
    const node = document.getElementById(id);
    if (!node) continue;
    node.scrollLeft = left;
    node.scrollTop = atEnd && node.matches(".log") ? node.scrollHeight : top;
  }
  if (!focusPath) return;
  const found = typeof focusPath === "string"
    ? region.querySelector(focusPath)
    : region.querySelectorAll(focusPath.selector)[focusPath.index];
  found?.focus({ preventScroll: true });
}

function isBusy(region) {
  const selection = document.getSelection();
  const selects = selection && !selection.isCollapsed && region.contains(selection.anchorNode);
  return document.hidden || selects;
}

async function refresh(region) {
  const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store" });
  if (answer.redirected) location.reload(); // signed out meanwhile
  if (!answer.ok || answer.redirected) return region;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("live");
  if (!fresh || isBusy(region)) return region;
  const kept = remember(region);
  region.replaceWith(fresh);
  arrive(fresh);
  restore(fresh, kept);
  if (fresh.dataset.state !== region.dataset.state) {
    document.getElementById("announce").textContent = fresh.dataset.state ?? "";
  }
  return fresh;
}

async function keepFresh(region) {
  while (region.dataset.live) {
    await new Promise((done) => setTimeout(done, Number(region.dataset.live) * 1000));
    if (isBusy(region)) continue;
    try {
      region = await refresh(region);
    } catch {
      // The server cannot be reached just now; the next round tries again.
    }
  }
}

const region = document.getElementById("live");
if (region) {
  arrive(region);
  setInterval(tick, 1000);
  keepFresh(region);
}
