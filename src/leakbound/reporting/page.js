// Without this script the page shows its verdict, its pictures and its tables. With it tables sort,
// questions are searched, chosen and opened, and charts can be saved. Texts of others are set as
// text alone, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const SHOWN = 25; // questions at first; the others come at the press of a button

const svg = (name, attributes = {}, ...children) => filled(document.createElementNS(SVG, name), attributes, children);

// --- what the page holds, packed

async function unpacked() {
  const letters = atob(byId("details").textContent);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

let holding = null; // a promise: asked for once, after the first paint
const held = () => (holding ??= unpacked());

// --- charts: rows of data into marks, as the charts that stand on the page

const ROUND = [-4, -3, -2].flatMap((power) => [40, 60, 80, 100, 120, 160, 200, 240, 320].map((step) => Number(`${step}e${power}`)));
const highest = (values) => Math.max(0, ...values.filter((value) => value !== null));
const roundHeight = (values) => ROUND.find((top) => highest(values) <= top) ?? 1;
const short = (k) => (k >= 1e9 ? `${k / 1e9}G` : k >= 1e6 ? `${k / 1e6}M` : k >= 1e3 ? `${k / 1e3}k` : `${k}`);
const figures = (value) => `${Number(value.toPrecision(2))}`;

class Plot {
  // Axes in units of the data; `across` are the least and the largest x.
  constructor(frame, kind, across, top) {
    Object.assign(this, { frame, kind, across, top });
    this.marks = [];
  }
  x(value) {
    const { width, left, right } = this.frame;
    const [least, most] = this.across.map((end) => (this.kind.log ? Math.log(end) : end));
    const at = ((this.kind.log ? Math.log(value) : value) - least) / (most - least || 1);
    return (left + at * (width - left - right)).toFixed(1);
  }
  y(value) {
    const { height, top, bottom } = this.frame;
    return (height - bottom - (value / this.top) * (height - top - bottom)).toFixed(1);
  }
  add(name, attributes, title) {
    this.marks.push(svg(name, attributes, ...(title ? [svg("title", {}, title)] : [])));
  }
  line(points, name) {
    const known = points.filter(([, y]) => y !== null);
    if (known.length) this.add("polyline", { points: known.map(([x, y]) => `${this.x(x)},${this.y(y)}`).join(" "), class: name });
  }
  area(points, name) { // [x, from, to]
    const known = points.filter(([, from, to]) => from !== null && to !== null);
    const edge = (at) => known.map((point) => `${this.x(point[0])},${this.y(point[at])}`);
    if (known.length > 1) this.add("polygon", { points: [...edge(2), ...edge(1).reverse()].join(" "), class: name });
  }
  upright(x, name) {
    this.add("path", { d: `M${this.x(x)} ${this.y(this.top)}V${this.y(0)}`, class: name });
  }
  level(y, name) {
    const { width, left, right } = this.frame;
    this.add("path", { d: `M${left} ${this.y(y)}H${width - right}`, class: name });
  }
  dot(x, y, name, title) {
    this.add("circle", { cx: this.x(x), cy: this.y(y), r: name === "naive" ? 2.6 : 4, class: name }, title);
  }
  ticks() {
    const [least, most] = this.across;
    if (!this.kind.log) return [0, 1, 2, 3, 4].map((i) => least + (i * (most - least)) / 4).map((x) => [x, figures(x).replace("-", "−")]);
    const far = most > 2e6 ? [1, 1e3, 1e6, 1e9] : [1, 10, 100, 1e3, 1e4, 1e5, 1e6];
    const powers = most > 2000 ? far : [1, 2, 8, 32, 128, 512];
    return powers.filter((x) => x >= least && x <= most).map((x) => [x, short(x)]);
  }
  drawn(style, title) {
    const { width, height, left, right, top, bottom } = this.frame;
    const grid = [0, 0.25, 0.5, 0.75, 1].flatMap((step) => {
      const y = this.y(step * this.top);
      const text = svg("text", { x: left - 5, y: Number(y) + 4, class: "end" }, figures(step * this.top));
      return [svg("path", { d: `M${left} ${y}H${width - right}`, class: "grid" }), text];
    });
    const names = this.ticks().map(([x, text]) => svg("text", { x: this.x(x), y: height - bottom + 15, class: "mid" }, text));
    const turn = `translate(12 ${(top + height - bottom) / 2}) rotate(-90)`;
    return svg(
      "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: style },
      svg("title", {}, title), svg("desc", {}, this.kind.note), ...grid, ...names, ...this.marks,
      svg("text", { x: (left + width - right) / 2, y: height - 6, class: "mid label" }, this.kind.x),
      svg("text", { transform: turn, class: "mid label" }, this.kind.y),
    );
  }
}

const DRAW = {
  scores(frame, kind, { rows, mark }) {
    const top = Math.max(Math.ceil(5 * highest(rows.map((row) => row[2]))) / 5, 0.2);
    const plot = new Plot(frame, kind, [0, 1], top);
    const bar = ([from, to, share]) => `M${plot.x(from)} ${plot.y(0)}V${plot.y(share)}H${plot.x(to)}V${plot.y(0)}Z`;
    plot.add("path", { d: rows.map(bar).join(""), class: "bin" });
    if (mark !== null) plot.upright(mark, "greedy-line");
    return plot;
  },
  tail(frame, kind, { rows }, control) {
    const plot = new Plot(frame, kind, [0, 1], 1);
    if (control) plot.line(control.rows, "control-line");
    plot.area(rows.map(([x, , lower, upper]) => [x, lower, upper]), "band");
    plot.line(rows, "line");
    return plot;
  },
  repeated(frame, kind, { rows }, control) {
    const plot = new Plot(frame, kind, [rows[0][0], rows.at(-1)[0]], 1);
    plot.area(rows.map(([k, , lower, upper, proved]) => [k, Math.max(lower, proved ?? 0), upper]), "unknown");
    if (rows.some((row) => row[4])) plot.line(rows.map((row) => [row[0], row[4]]), "proved");
    if (control) plot.line(control.rows, "control-line");
    plot.line(rows, "line");
    for (const [k, , , , , naive] of rows) if (naive !== null) plot.dot(k, naive, "naive");
    return plot;
  },
  course(frame, kind, { rows, mark }) {
    const last = rows.at(-1);
    const top = roundHeight([...rows.flatMap((row) => row.slice(1)), mark]);
    const plot = new Plot(frame, kind, [rows[0][0], last[0]], top);
    if (rows[0][2] !== null) plot.area(rows.map(([n, , lower, upper]) => [n, lower, upper]), "band");
    if (mark !== null) plot.level(mark, "greedy-line");
    plot.line(rows, "line");
    const x = Number(plot.x(last[0]));
    plot.add("rect", { x: x - 4, y: plot.y(last[3]), width: 8, height: Math.max(plot.y(last[2]) - plot.y(last[3]), 1), class: "bar" });
    return plot;
  },
  sureness(frame, kind, { rows, mark }) {
    const sure = rows.map((row) => row[0]);
    const [least, most] = [Math.min(...sure), Math.max(...sure)];
    const room = (most - least) / 20;
    const plot = new Plot(frame, kind, [least - room, most + room], roundHeight(rows.map((row) => row[1])));
    rows.forEach(([x, y, query, text], i) => plot.dot(x, y, i === mark ? "dot" : "spot", `${query}: ${text}`));
    return plot;
  },
};

// --- the cards

if (matchMedia("(max-width: 40rem)").matches) {
  document.querySelectorAll(".verdicts li:not(:first-child) details").forEach((card) => (card.open = false));
}

// --- saving

function save(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  html("a", { href: address, download: name.replace(/[^\p{L}\p{N}.=-]+/gu, "-").slice(0, 120) }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function csv(columns, rows) {
  // As `csv_of` of leakbound.text.rows: no text is a formula, and no line end or tab tears a row.
  const guarded = (value) => (typeof value === "string" && /^'*([\t\r\n]|\s*[=+@\-\uff0b\uff0d\uff1d\uff20])/.test(value) ? `'${value}` : `${value ?? ""}`);
  const quoted = (value) => (/[",;\t\r\n]|^\s|\s$/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  return [columns, ...rows].map((row) => row.map((value) => quoted(guarded(value))).join(",")).join("\r\n") + "\r\n";
}

function alone(drawing) {
  // The chart as a file of its own: with its style, on paper.
  const copy = drawing.cloneNode(true);
  const [, , width, height] = copy.getAttribute("viewBox").split(" ");
  filled(copy, { xmlns: SVG, width, height }, []);
  const paper = svg("rect", { width, height, class: "paper" });
  copy.prepend(svg("style", {}, byId("chart-style").textContent), paper);
  return new XMLSerializer().serializeToString(copy);
}

function savable(figure, name, data) {
  // `data`: a function that gives, or promises, columns and rows.
  const button = (text, does) => {
    const made = html("button", { type: "button", "aria-label": `Save as ${text}: ${name}` }, text);
    made.addEventListener("click", does);
    return made;
  };
  const drawing = figure.querySelector("svg");
  figure.querySelector("figcaption").append(html(
    "span", { class: "save" },
    button("SVG", () => save(`${name}.svg`, "image/svg+xml", alone(drawing))),
    button("CSV", async () => {
      const { columns, rows } = await data();
      save(`${name}.csv`, "text/csv", csv(columns, rows));
    }),
  ));
}

for (const figure of document.querySelectorAll("figure[data-figure]")) {
  const name = figure.querySelector("svg > title").textContent;
  savable(figure, name, async () => (await held()).figures[figure.dataset.figure]);
}

// --- what a question opens to

function chart(all, question, model, one) {
  const scorer = all.scorers[one.scorer];
  const kind = { ...all.kinds[one.kind] };
  kind.y ??= scorer.quantity;
  const beside = model.control === null ? null : question.models[model.control]?.charts;
  const control = beside?.find((other) => other.kind === one.kind && other.scorer === one.scorer);
  const named = all.scorers.length > 1 ? [kind.title, scorer.name] : [kind.title];
  const caption = [...named, ...(one.caption ? [one.caption] : [])].join(", ");
  const title = `${question.id}, ${model.label}: ${caption}`;
  const drawing = DRAW[one.kind](all.frame, kind, one, control).drawn(model.style, title);
  const figure = html("figure", {}, html("figcaption", {}, html("span", {}, caption)), drawing);
  const place = [question.id, model.label, scorer.name];
  savable(figure, title, () => ({
    columns: ["question", "model", "scorer", ...kind.columns],
    rows: one.rows.map((row) => [...place, ...row]),
  }));
  return figure;
}

function marked(pieces) {
  if (pieces.length === 1 && !pieces[0]) return [html("em", {}, "empty")];
  return pieces.map((piece, i) => (i % 2 ? html("mark", {}, piece) : piece));
}

// A thought is folded; its summary says whether a place in it is marked.
function folded(thought) {
  const leaking = thought.length > 1 ? html("mark", {}, "marked words") : "nothing marked";
  return html("details", { class: "thought" }, html("summary", {}, "thought, ", leaking), ...marked(thought));
}

function completion(all, [pieces, kind, ...more]) {
  const leaks = more.pop();
  const text = html("td", { class: "text" });
  if (pieces === null) text.append(html("em", {}, "withheld"));
  else if (Array.isArray(pieces[0])) text.append(folded(pieces[0]), ...marked(pieces[1]));
  else text.append(...marked(pieces));
  const cells = [kind, ...more, leaks ? "leak" : ""].map((value) => html("td", {}, value));
  return html("tr", leaks ? { class: "leak" } : {}, text, ...cells);
}

function completions(all, question, model, said) {
  const often = model.explored ? "Mass, or draws of the remainder" : "Draws";
  const names = ["Completion", often, ...all.scorers.map((scorer) => scorer.name), "Log-probability", "Verdict"];
  const head = html("thead", {}, html("tr", {}, ...names.map((name) => html("th", { scope: "col" }, name))));
  const body = html("tbody", {}, ...said.texts.map((text) => completion(all, text)));
  const table = html("table", { class: "completions" }, head, body);
  return html("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": `Completions of ${question.id}, ${model.label}` }, table);
}

function ofModel(all, question, model, said) {
  const nodes = [html("h4", { class: model.style }, html("span", { class: "key" }), model.label)];
  if (said.failed) return [...nodes, html("p", { class: "warning" }, said.failed)];
  nodes.push(html("ul", { class: "measured" }, ...said.said.map((line) => html("li", {}, line))));
  if (said.charts.length) nodes.push(html("div", { class: "figures" }, ...said.charts.map((one) => chart(all, question, model, one))));
  nodes.push(completions(all, question, model, said));
  if (said.left) nodes.push(html("p", { class: "note" }, said.left));
  return nodes;
}

function detail(all, number) {
  const question = all.questions[number - 1];
  const fact = (name, ...value) => html("div", {}, html("dt", {}, name), html("dd", {}, ...value));
  const answer = question.answer === null ? html("em", {}, "withheld") : question.answer;
  const facts = html("dl", { class: "facts" }, fact("question", question.text), fact("true answer", answer));
  if (question.keywords.length) facts.append(fact("keywords", question.keywords.join(", ")));
  const models = all.models.map((model, i) => [model, question.models[i]]).filter(([, said]) => said);
  return html(
    "div", { class: "detail" }, html("h3", {}, question.id), facts,
    ...models.flatMap(([model, said]) => ofModel(all, question, model, said)),
  );
}

// --- the questions: chosen, searched, opened

const form = byId("choose");
const boxes = [...document.querySelectorAll(".of-scorer")];
const questions = document.querySelectorAll("tr.question");
let every = false; // whether all that match are shown
let haystacks = null; // what is searched of each question, once it is unpacked

const shownBox = () => boxes[Number(byId("scorer")?.value ?? 0)];
const rowsOf = (box) => [...box.querySelectorAll("tr.question")];

async function search() {
  haystacks ??= (await held()).questions.map((question) => {
    const said = question.models.flatMap((model) => model?.texts ?? []);
    const texts = said.map(([pieces]) => pieces?.flat().join("") ?? "");
    return [question.id, question.text, question.answer ?? "", ...question.keywords, ...texts].join("\n").toLowerCase();
  });
  show();
}

function show() {
  const words = byId("find").value.trim().toLowerCase();
  const trait = byId("trait").value;
  const box = shownBox();
  for (const other of boxes) other.hidden = other !== box;
  let count = 0;
  for (const row of rowsOf(box)) {
    const { number, traits } = row.dataset;
    const fits = (!trait || traits.split(" ").includes(trait)) && (!words || !haystacks || haystacks[number - 1].includes(words));
    const late = fits && !every && count >= SHOWN;
    row.hidden = !fits;
    row.classList.toggle("later", late);
    if (row.detail) {
      row.detail.hidden = !fits;
      row.detail.classList.toggle("later", late);
    }
    count += fits;
  }
  byId("none").hidden = count > 0;
  byId("more").hidden = every || count <= SHOWN;
  const all = questions.length / boxes.length;
  byId("found").value = `${count} of ${all} question${all === 1 ? "" : "s"}`;
}

async function toggle(row, wanted = !row.detail) {
  const button = row.querySelector("button");
  if (!wanted || row.detail) {
    if (!wanted) row.detail?.remove(), (row.detail = null);
  } else {
    const all = await held();
    if (row.detail) return; // asked for twice while it was unpacked
    const inside = detail(all, Number(row.dataset.number));
    row.detail = html("tr", { class: "opened", id: `${button.id}-opened` }, html("td", { colspan: row.cells.length }, inside));
    row.after(row.detail);
    button.setAttribute("aria-controls", row.detail.id);
  }
  button.setAttribute("aria-expanded", Boolean(row.detail));
  if (!row.detail) button.removeAttribute("aria-controls");
  byId("announced").textContent = `${row.querySelector(".id").textContent}: ${row.detail ? "opened" : "closed"}`;
}

async function goTo(anchor) {
  const first = byId(anchor);
  first?.closest("summary")?.parentElement.setAttribute("open", "");
  if (!first?.matches("tr.question")) return;
  const box = shownBox();
  const row = rowsOf(box).find((one) => one.dataset.number === first.dataset.number);
  form.reset();
  if (byId("scorer")) byId("scorer").value = boxes.indexOf(box);
  show();
  row.classList.remove("later");
  await toggle(row, true);
  row.scrollIntoView();
  row.querySelector("button").focus({ preventScroll: true });
}

for (const table of document.querySelectorAll("table.by-question")) table.addEventListener("sorted", show);

if (form && !("DecompressionStream" in self)) byId("old").hidden = false;
else if (form) {
  for (const row of questions) {
    const name = row.cells[0];
    const id = `open-${boxes.findIndex((box) => box.contains(row))}-${row.dataset.number}`;
    const button = html("button", { type: "button", id, "aria-expanded": false, class: "opener" }, ...name.childNodes);
    button.addEventListener("click", () => toggle(row));
    name.append(button);
  }
  document.addEventListener("keydown", (event) => {
    const row = event.key === "Escape" && event.target.closest?.("tr.opened")?.previousElementSibling;
    if (row) toggle(row, false).then(() => row.querySelector("button").focus());
  });
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  byId("find").addEventListener("input", search);
  byId("trait").addEventListener("change", show);
  byId("scorer")?.addEventListener("change", show);
  byId("more").querySelector("button").addEventListener("click", () => {
    const next = rowsOf(shownBox()).find((row) => row.classList.contains("later"));
    every = true;
    show();
    next?.querySelector("button").focus();
  });
  show();
  document.body.classList.add("linked");
  for (const mark of document.querySelectorAll("[data-question]")) {
    mark.addEventListener("click", () => { location.hash = mark.dataset.question; });
  }
  addEventListener("hashchange", () => goTo(location.hash.slice(1)));
  if (location.hash) goTo(location.hash.slice(1));
  requestAnimationFrame(() => setTimeout(held)); // after the first paint
}
