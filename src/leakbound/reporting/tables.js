"use strict";
// Shared by all pages: make nodes from text, sort a column by its heading, filter rows by a form.

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

function arrange(table) { // in the order that its headings state
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

// --- filters: a form with data-filters="ID" shows the rows of that table which match all its fields

function matches(row, field) {
  const wanted = field.value.trim().toLowerCase();
  return field.name ? !wanted || row.dataset[field.name] === field.value : row.textContent.toLowerCase().includes(wanted);
}

function filterable(form) {
  const { rows } = byId(form.dataset.filters).tBodies[0];
  const fields = [...form.querySelectorAll("input, select")];
  const show = () => {
    for (const row of rows) row.hidden = !fields.every((field) => matches(row, field));
    const count = [...rows].filter((row) => !row.hidden).length;
    form.querySelector("output").value = `${count} of ${rows.length} shown`;
  };
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  addEventListener("pageshow", show); // the browser refills the fields when the user comes back
  show();
}

document.querySelectorAll("form[data-filters]").forEach(filterable);
