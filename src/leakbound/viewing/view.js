
// --- the list of runs, and a run that grows: what has changed is fetched, and nothing else moves

const runs = byId("runs");
const live = byId("live");

function kept() {
  // What the reader has chosen, so that he finds it again when he comes back.
  const heading = runs.querySelector("thead th[aria-sort]");
  return {
    find: byId("find").value,
    state: byId("state").value,
    verdict: byId("verdict").value,
    sort: heading && [heading.cellIndex, heading.getAttribute("aria-sort")],
    ticked: ticks().filter((tick) => tick.checked).map((tick) => tick.value),
  };
}

const ticks = () => [...document.querySelectorAll("input[name=run]")];

function shownRuns() {
  const words = byId("find").value.trim().toLowerCase();
  const [state, verdict] = ["state", "verdict"].map((id) => byId(id).value);
  const rows = [...runs.tBodies[0].rows];
  let count = 0;
  for (const row of rows) {
    const kind = (!state || row.dataset.state === state) && (!verdict || row.dataset.verdict === verdict);
    const fits = kind && row.textContent.toLowerCase().includes(words);
    row.hidden = !fits;
    count += fits;
  }
  const ticked = ticks().filter((tick) => tick.checked).length;
  byId("none").hidden = count > 0;
  byId("found").value = `${count} of ${rows.length} runs`;
  byId("compare").querySelector("button").disabled = ticked < 2;
  byId("ticked").value = ticked < 2 ? "Tick two complete runs or more." : `${ticked} ticked; the first of them is the baseline.`;
  history.replaceState(kept(), "");
}

function restored(state) {
  byId("find").value = state.find;
  byId("state").value = state.state;
  byId("verdict").value = state.verdict;
  for (const tick of ticks()) tick.checked = state.ticked.includes(tick.value);
  if (state.sort) {
    runs.tHead.rows[0].cells[state.sort[0]].setAttribute("aria-sort", state.sort[1]);
    arrange(runs);
  }
}

function renewRow(row, now) {
  if (row.dataset.state !== now.dataset.state) {
    byId("announced").textContent = `${row.querySelector("th").textContent}: ${now.querySelector(".state").textContent}`;
  }
  Object.assign(row.dataset, now.dataset);
  [...now.cells].forEach((cell, i) => {
    const before = row.cells[i];
    if (before.querySelector("details")?.open) cell.querySelector("details")?.setAttribute("open", "");
    if (before.outerHTML === cell.outerHTML) return;
    const focused = before.contains(document.activeElement);
    before.replaceWith(document.importNode(cell, true));
    if (focused) row.cells[i].querySelector("a, input, summary")?.focus({ preventScroll: true });
  });
}

function renewList(page) {
  const now = page.getElementById("runs");
  if (!runs.tHead || !now.tHead) {
    if (Boolean(runs.tHead) !== Boolean(now.tHead)) location.reload();
    return;
  }
  const body = runs.tBodies[0];
  const known = new Map([...body.rows].map((row) => [row.id, row]));
  const there = new Set();
  for (const row of now.tBodies[0].rows) {
    there.add(row.id);
    const before = known.get(row.id);
    if (before) renewRow(before, row);
    else body.append(document.importNode(row, true));
  }
  for (const [id, row] of known) if (!there.has(id)) row.remove();
  runs.caption.firstElementChild.textContent = now.caption.textContent;
  runs.className = now.className;
  runs.dataset.pause = now.dataset.pause;
  arrange(runs);
  shownRuns();
}

let last = null; // what the server said of the run
const sorting = (table) => {
  const heading = table.querySelector("thead th[aria-sort]");
  return heading && [heading.cellIndex, heading.getAttribute("aria-sort")];
};

function renewRun(page) {
  const now = document.importNode(page.getElementById("live"), true);
  if (now.innerHTML === last) return;
  last = now.innerHTML;
  const open = new Set([...live.querySelectorAll("details[open]")].map((one) => one.id));
  const before = [...live.querySelectorAll("table")].map(sorting);
  const scrolled = [...live.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  if (live.querySelector("details")) for (const one of now.querySelectorAll("details")) one.open = open.has(one.id);
  live.replaceChildren(...now.childNodes);
  [...live.querySelectorAll("table")].forEach((table, i) => {
    sortable(table);
    if (!before[i]) return;
    table.tHead.rows[0].cells[before[i][0]].setAttribute("aria-sort", before[i][1]);
    arrange(table);
  });
  [...live.querySelectorAll(".scroll")].forEach((box, i) => { box.scrollLeft = scrolled[i] ?? 0; });
  document.title = page.title;
}

async function look() {
  const at = runs ?? live;
  if (document.hidden) return void setTimeout(look, 1000); // nobody looks
  let pause = Number(at.dataset.pause);
  try {
    const answer = await fetch(location.pathname, { cache: "no-store" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.ok) (runs ? renewList : renewRun)(page);
    else if (answer.status === 404) return location.reload(); // the run is gone: the page says so
    byId("ended").hidden = true;
    pause = Number(at.dataset.pause);
  } catch {
    byId("ended").hidden = false;
    pause = 10;
  }
  setTimeout(look, 1000 * pause);
}

if (runs?.tHead) {
  byId("choose").hidden = false;
  byId("choose").addEventListener("submit", (event) => event.preventDefault());
  byId("find").addEventListener("input", shownRuns);
  for (const id of ["state", "verdict"]) byId(id).addEventListener("change", shownRuns);
  runs.addEventListener("change", shownRuns);
  runs.addEventListener("sorted", shownRuns);
  if (history.state) restored(history.state);
  shownRuns();
}
if (runs || live) setTimeout(look, 1000 * Number((runs ?? live).dataset.pause));
