// Open and search questions. Without this script the page has its verdict, charts and tables.

const form = byId("choose");
const rows = () => [...document.querySelectorAll("#by-question tr.question")];
let held = null; // a promise of the details of each question
const details = () => (held ??= unpacked());
async function unpacked() {
  const bytes = Uint8Array.from(atob(byId("details").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const template = html("template");
  template.innerHTML = await new Response(stream).text(); // written with this page, all texts escaped
  return [null, ...template.content.children];
}

async function toggle(row, wanted = !row.detail) {
  const inside = (await details())[row.dataset.number];
  row.detail?.remove();
  row.detail = wanted ? html("tr", { class: "opened" }, html("td", { colspan: row.cells.length }, inside)) : null;
  if (wanted) row.after(row.detail);
  row.querySelector("button").setAttribute("aria-expanded", wanted);
}

async function show() {
  const [words, trait] = [byId("find").value.trim().toLowerCase(), byId("trait").value];
  const texts = words ? (await details()).map((one) => one?.textContent.toLowerCase()) : [];
  const fits = ({ number, traits }) => (!trait || traits.split(" ").includes(trait)) && (!words || texts[number].includes(words));
  for (const row of rows()) {
    row.hidden = !fits(row.dataset);
    if (row.detail) row.detail.hidden = row.hidden;
  }
  const count = rows().filter((row) => !row.hidden).length;
  byId("none").hidden = count > 0;
  byId("found").value = `${count} of ${rows().length} questions`;
}

async function goTo(anchor) {
  const target = byId(anchor);
  for (let at = target?.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
  if (!target?.matches("tr.question")) return;
  form.reset();
  await show();
  await toggle(target, true);
  target.scrollIntoView();
}

if (matchMedia("(max-width: 40rem)").matches) {
  document.querySelectorAll(".verdicts li:not(:first-child) details").forEach((card) => (card.open = false));
}
if (form && "DecompressionStream" in self) {
  for (const row of rows()) {
    const name = row.cells[0];
    name.append(html("button", { type: "button", class: "opener", "aria-expanded": false }, ...name.childNodes));
    name.lastChild.addEventListener("click", () => toggle(row));
  }
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  addEventListener("hashchange", () => goTo(location.hash.slice(1)));
  show().then(() => goTo(location.hash.slice(1)));
}
