// Landmarks and names that the theme and its parts leave out, for those who do not see the page.
"use strict";

function labelOf(select) {
  return select && (select.getAttribute("aria-label") || select.labels?.[0]?.textContent.trim());
}

// Select2 replaces a select by elements without its name; a list of two boxes names its tips alone.
function nameParts() {
  document.querySelectorAll(".help-tooltip").forEach((tip) => tip.setAttribute("role", "img"));
  for (const box of document.querySelectorAll(".select2-container")) {
    const name = labelOf(box.previousElementSibling) || "Choice";
    for (const part of box.querySelectorAll("[role=combobox], [role=textbox], input")) {
      if (part.getAttribute("aria-label") === name) continue;
      part.removeAttribute("aria-labelledby");
      part.setAttribute("aria-label", name);
    }
    box.querySelector("ul.select2-selection__rendered")?.setAttribute("role", "none");
  }
}

function nameRegions() {
  document.querySelectorAll(".simplebar-content-wrapper").forEach((region, number) => {
    region.setAttribute("aria-label", `Scrollable content ${number + 1}`);
  });
  document.querySelectorAll(".scroll-x").forEach((region) => {
    region.tabIndex = 0;
    region.setAttribute("role", "region");
    const table = region.querySelector("table");
    region.setAttribute("aria-label", `Table ${table?.id ?? ""}`.trim());
  });
}

document.addEventListener("DOMContentLoaded", () => {
  document.getElementById("main")?.setAttribute("role", "main");
  const names = { "nav-sidebar-inner": "Records", "tabs-items": "Tabs", "tabs-dropdown": "More tabs" };
  [...document.querySelectorAll("nav:not([aria-label])")].forEach((nav, number) => {
    nav.setAttribute("aria-label", names[nav.id] ?? `Menu ${number + 1}`);
  });
});

// The parts are made after the page was read.
window.addEventListener("load", () => {
  nameRegions();
  nameParts();
  new MutationObserver(nameParts).observe(document.body, { childList: true, subtree: true });
});
