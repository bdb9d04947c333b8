// Opens a page in headless Chromium and prints, as JSON, what a reader would trip over.
// Usage: node browser.js CHROMIUM PAGE; playwright-core and axe-core are found through NODE_PATH.
"use strict";
const fs = require("node:fs");
const { chromium } = require("playwright-core");

const [executablePath, page] = process.argv.slice(2);
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const errors = [];
const requests = [];

async function open(browser, options, hash = "") {
  const context = await browser.newContext(options);
  const tab = await context.newPage();
  tab.on("console", (message) => errors.push(message.text()));
  tab.on("pageerror", (error) => errors.push(error.message));
  tab.on("request", (request) => requests.push(request.url()));
  await tab.goto(`file://${page}${hash}`);
  return tab;
}

async function look(browser, colorScheme, width) {
  const tab = await open(browser, { colorScheme, viewport: { width, height: 900 } });
  await tab.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
  const over = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  const clipped = await tab.evaluate(() =>
    [...document.querySelectorAll("section[aria-labelledby=summary] .scroll")]
      .filter((box) => box.scrollWidth > box.clientWidth)
      .map((box) => box.getAttribute("aria-label")));
  await tab.evaluate(axe);
  const { violations } = await tab.evaluate(() => axe.run());
  await tab.context().close();
  return { over, clipped, violations: violations.map((v) => `${v.id}: ${v.nodes[0].html}`) };
}

async function use(browser) {
  const tab = await open(browser, { viewport: { width: 1280, height: 900 } }, "#q-2");
  const opened = await tab.locator("#q-2").evaluate((question) => question.open);
  await tab.selectOption("#question", "q-1");
  const chosen = await tab.locator(".question:visible").count();
  await tab.locator("[data-question='q-3']").first().dispatchEvent("click");
  await tab.waitForFunction(() => document.getElementById("q-3").open);
  const heading = tab.locator("table[data-sortable] thead th", { hasText: "leak@1" }).first();
  const sorted = [];
  for (let press = 0; press < 2; press++) {
    await heading.locator("button").press("Enter");
    sorted.push(await heading.evaluate((th) =>
      [...th.closest("table").tBodies[0].rows].map((row) => Number(row.cells[th.cellIndex].dataset.value))));
  }
  await tab.context().close();
  return { opened, chosen, sorted };
}

async function withoutScript(browser) {
  const tab = await open(browser, { javaScriptEnabled: false });
  const shown = await tab.locator(".question:visible").count();
  const form = await tab.locator("#choose").isVisible();
  await tab.context().close();
  return { shown, form };
}

(async () => {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const looks = [];
  for (const [scheme, width] of [["light", 1440], ["light", 1280], ["dark", 390]]) looks.push(await look(browser, scheme, width));
  const result = { looks, use: await use(browser), plain: await withoutScript(browser), errors, requests };
  await browser.close();
  console.log(JSON.stringify(result));
})();
