"use strict";
// Without this script the page shows everything; with it, tables sort and questions can be chosen.

function numberOr(cell) {
  const text = cell.dataset.value ?? "";
  return text === "" ? cell.textContent.trim() : Number(text);
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b, undefined, { numeric: true });
}

function sortBy(table, heading) {
  const column = heading.cellIndex;
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => compare(numberOr(a.cells[column]), numberOr(b.cells[column])) * (down ? -1 : 1));
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table[data-sortable]")) {
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sortBy(table, heading));
    heading.append(button);
  }
}

const questions = [...document.querySelectorAll(".question")];
const form = document.getElementById("choose");
const chosen = document.getElementById("question");
const find = document.getElementById("find");
const leaking = document.getElementById("leaking");

function show() {
  const words = find.value.trim().toLowerCase();
  let count = 0;
  for (const question of questions) {
    const fits =
      (!chosen.value || question.id === chosen.value) &&
      (!leaking.checked || "leaks" in question.dataset) &&
      (!words || question.textContent.toLowerCase().includes(words));
    question.hidden = !fits;
    count += fits;
  }
  document.getElementById("none").hidden = count > 0;
  document.getElementById("found").value = `${count} of ${questions.length} questions`;
}

function open(anchor) {
  const question = document.getElementById(anchor);
  if (!question?.matches(".question")) return;
  form.reset();
  show();
  question.open = true;
  question.scrollIntoView();
  question.querySelector("summary").focus({ preventScroll: true });
}

form.hidden = false;
form.addEventListener("submit", (event) => event.preventDefault());
find.addEventListener("input", show);
leaking.addEventListener("change", show);
chosen.addEventListener("change", () => {
  show();
  if (chosen.value) document.getElementById(chosen.value).open = true;
});
show();

document.body.classList.add("linked");
for (const mark of document.querySelectorAll("[data-question]")) {
  mark.addEventListener("click", () => { location.hash = mark.dataset.question; });
}
addEventListener("hashchange", () => open(location.hash.slice(1)));
if (location.hash) open(location.hash.slice(1));
