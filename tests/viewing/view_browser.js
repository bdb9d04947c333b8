// The local page in a real browser: node view_browser.js CHROMIUM ADDRESS
// playwright-core and axe-core are found through NODE_PATH.
"use strict";
const fs = require("node:fs");
const { chromium } = require("playwright-core");

const [executablePath, address] = process.argv.slice(2);
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const errors = [];
const requests = [];

async function open(browser, options, path = "") {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const tab = await context.newPage();
  tab.on("console", (message) => errors.push(message.text()));
  tab.on("pageerror", (error) => errors.push(error.message));
  tab.on("dialog", (dialog) => { errors.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  tab.on("request", (request) => requests.push(request.url()));
  await tab.goto(address + path);
  return tab;
}

const nextPart = (tab) => tab.request.get(`${address}next-part`);  // of the run that grows
const names = (tab) => tab.locator("#runs tbody tr:visible th").allTextContents();
const made = (tab) => tab.waitForFunction(() => !document.body.textContent.includes("goes on by itself"));

async function look(browser, paths) {
  const looks = [];
  for (const [colorScheme, width] of [["light", 1440], ["light", 1280], ["dark", 390]]) {
    for (const path of paths) {
      const tab = await open(browser, { colorScheme, viewport: { width, height: 900 } }, path);
      await made(tab);
      await tab.waitForFunction(() => !document.querySelector("tr[data-state=read]"));
      const over = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      await tab.evaluate(axe);
      const { violations } = await tab.evaluate(() => axe.run());
      looks.push({ path, width, over, violations: violations.map((v) => `${v.id}: ${v.nodes[0].html}`) });
      await tab.context().close();
    }
  }
  return looks;
}

// The list: sorted, searched, and found again as it was after another page.
async function list(tab) {
  const sorted = [];
  for (let press = 0; press < 2; press++) {
    await tab.locator("#runs thead button", { hasText: "How much" }).press("Enter");
    sorted.push(await tab.locator("#runs tbody tr:visible").evaluateAll((rows) =>
      rows.map((row) => row.querySelector(".number").dataset.value).filter(Boolean).map(Number)));
  }
  const disabled = await tab.locator("#compare button").isDisabled();
  await tab.locator("#find").fill("npo");
  const found = await names(tab);
  await tab.locator("#find").fill("");
  await tab.locator("#state").selectOption("damaged");
  const damaged = await names(tab);
  await tab.locator("#state").selectOption("");
  const verdicts = {};
  for (const kind of ["uncontrolled", "leaks", ""]) {
    await tab.locator("#verdict").selectOption(kind);
    verdicts[kind] = { names: await names(tab), none: await tab.locator("#none").isVisible() };
  }
  for (const name of ["full", "npo/run"]) {
    await tab.locator("#runs tr", { has: tab.getByText(name, { exact: true }) }).locator("input").check();
  }
  return { sorted, disabled, found, damaged, verdicts };
}

// A run that grows meanwhile: the list moves and keeps its place; its own page, until it is done.
async function follow(tab) {
  const row = tab.locator("#runs tr", { hasText: "growing" }).first();
  const progress = () => row.locator(".done").textContent().catch(() => "");
  await row.locator("progress").waitFor();
  await tab.locator("#find").fill("n");
  await tab.locator("#find").focus();
  const before = await progress();
  await nextPart(tab);
  await tab.waitForFunction((said) => document.querySelector("tr[data-state=growing] .done")?.textContent !== said, before);
  const kept = {
    find: await tab.locator("#find").inputValue(),
    ticked: await tab.locator("input[name=run]:checked").count(),
    sort: await tab.locator("#runs thead th[aria-sort]").getAttribute("aria-sort"),
    focused: await tab.evaluate(() => document.activeElement.id),
  };
  await row.locator("a").click();
  const sentences = new Set();
  const link = tab.getByText("Open its report");
  for (let i = 1; !(await link.count()); i++) {
    const before = sentences.size;
    for (const said of await tab.locator(".headlines li").allTextContents()) sentences.add(said.trim());
    if (sentences.size > before || i % 100 === 0) await nextPart(tab);
    await tab.waitForTimeout(100);
  }
  await link.click();
  await made(tab);
  const report = await tab.locator("h1").textContent();
  await tab.goBack();
  await tab.goBack();
  await tab.locator("#choose").waitFor();
  const again = { find: await tab.locator("#find").inputValue(), ticked: await tab.locator("input[name=run]:checked").count() };
  return { kept, sentences: [...sentences], report, again };
}

async function compared(tab) {
  await tab.locator("#compare button").click();
  await made(tab);
  const titles = await tab.locator("caption").allTextContents();
  const said = await tab.locator(".headlines li").allTextContents();
  const pictures = tab.getByRole("img", { name: "question by question" });
  const ends = await pictures.first().locator("g line").evaluateAll((lines) =>
    lines.map((line) => { const box = line.getBoundingClientRect(); return [box.left, box.right, box.height]; }));
  const frame = await tab.locator("figure").first().boundingBox();
  const picture = { ends, left: frame.x, right: frame.x + frame.width, bottom: frame.y + frame.height };
  const sortable = await tab.locator("thead button").count();
  const coming = tab.waitForEvent("download");
  await tab.getByText("CSV", { exact: true }).click();
  const csv = fs.readFileSync(await (await coming).path(), "utf8");
  return { titles, said, picture, sortable, csv, at: new URL(tab.url()).search };
}

// Where nothing answers any more, the page says so.
async function ended(browser, path) {
  const context = await browser.newContext();
  const tab = await context.newPage();
  await tab.goto(address + path);
  const before = await tab.locator("#ended").isVisible();
  await context.setOffline(true);
  await tab.locator("#ended").waitFor();
  await context.close();
  return before;
}

(async () => {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const tab = await open(browser, { acceptDownloads: true });
  await tab.waitForFunction(() => !document.querySelector("tr[data-state=read]"), null, { timeout: 20_000 });
  const seen = { list: await list(tab), follow: await follow(tab) };
  seen.compared = await compared(tab);
  await tab.context().close();
  const plain = await open(browser, { javaScriptEnabled: false });
  seen.plain = { rows: await plain.locator("#runs tbody tr").count(), form: await plain.locator("#choose").isVisible() };
  await plain.context().close();
  const page = await open(browser, {});
  const paths = await page.locator("#runs tbody a").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
  const unfinished = paths.filter((path) => path.startsWith("run/"));
  seen.links = paths.length;
  await page.context().close();
  seen.ended = await ended(browser, unfinished[0]);
  seen.looks = await look(browser, ["", `compare${seen.compared.at}`, ...unfinished]);
  await browser.close();
  console.log(JSON.stringify({ ...seen, errors, requests }));
})();
