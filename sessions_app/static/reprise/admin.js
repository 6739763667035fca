// Landmarks that the theme leaves out, for those who move by them.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  document.getElementById("main")?.setAttribute("role", "main");
  const names = { "nav-sidebar-inner": "Records", "tabs-items": "Tabs", "tabs-dropdown": "More tabs" };
  [...document.querySelectorAll("nav:not([aria-label])")].forEach((nav, number) => {
    nav.setAttribute("aria-label", names[nav.id] ?? `Menu ${number + 1}`);
  });
});
