// Says in words what the chosen crontab means.
"use strict";

{
  const words = JSON.parse(document.getElementById("readable-crontabs").textContent);
  const choice = document.getElementById("id_crontab");
  if (choice) {
    const told = document.createElement("p");
    told.setAttribute("role", "status");
    choice.parentElement.after(told);
    const tell = () => { told.textContent = words[choice.value] ?? ""; };
    choice.addEventListener("change", tell);
    tell();
  }
}
