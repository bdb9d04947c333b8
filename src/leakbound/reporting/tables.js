"use strict";
// What pages with tables share: nodes are made of text, and a heading sorts its column.

const byId = (id) => document.getElementById(id);

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
const html = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);

// --- tables

function keyOf(cell) {
  const value = cell.dataset.value ?? "";
  return value === "" ? cell.textContent.trim() : Number(value);
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b, undefined, { numeric: true });
}

function sortBy(table, heading) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  arrange(table);
  table.dispatchEvent(new Event("sorted"));
}

function arrange(table) { // as its headings say
  const heading = table.querySelector("thead th[aria-sort]");
  if (!heading) return;
  const down = heading.getAttribute("aria-sort") === "descending";
  const body = table.tBodies[0];
  const rows = [...body.rows].filter((row) => !row.classList.contains("opened"));
  const keyed = rows.map((row) => [keyOf(row.cells[heading.cellIndex]), row]);
  keyed.sort(([a], [b]) => compare(a, b) * (down ? -1 : 1));
  body.append(...keyed.flatMap(([, row]) => (row.detail ? [row, row.detail] : [row])));
}

function sortable(table) {
  for (const heading of table.tHead.rows[0].cells) {
    if (!heading.textContent.trim() || heading.matches(".plain")) continue;
    const button = html("button", { type: "button" }, ...heading.childNodes);
    button.addEventListener("click", () => sortBy(table, heading));
    heading.append(button);
  }
}

document.querySelectorAll("table[data-sortable], table.by-question").forEach(sortable);
