// Opens an index in headless Chromium and prints, as JSON, what a reader sees and trips over.
// Usage: node index_browser.js CHROMIUM FOLDER; see tabs.js.
"use strict";
const tabs = require("./tabs.js");

const [executablePath, folder] = process.argv.slice(2);
const WIDE = { viewport: { width: 1280, height: 900 } };
const open = (browser, options, file = "index.html") =>
  tabs.open(browser, { ...WIDE, ...options }, `${folder}/${file}`);

const names = (tab) => tab.locator("#runs tbody tr:visible th").evaluateAll((cells) =>
  cells.map((cell) => (cell.querySelector("a") ?? cell.firstChild).textContent.trim()));

async function use(tab) {
  const sorted = [];
  for (let press = 0; press < 2; press++) {
    await tab.locator("#runs thead button", { hasText: "Leakage" }).press("Enter");
    sorted.push(await tab.locator("#runs .number").evaluateAll((cells) =>
      cells.map((cell) => cell.dataset.value).filter(Boolean).map(Number)));
  }
  await tab.locator("input[type=search]").fill("NPO");
  const searched = await names(tab);
  await tab.locator("input[type=search]").press("Enter"); // sends nothing
  const count = await tab.locator("output").textContent();
  await tab.locator("input[type=search]").fill("");
  await tab.locator("select[name=state]").selectOption("damaged");
  const damaged = await names(tab);
  await tab.locator("select[name=state]").selectOption("");
  await tab.locator("select[name=verdict]").selectOption("uncontrolled");
  const uncontrolled = await names(tab);
  await tab.locator("#runs tbody a:visible").first().click();
  const page = await tab.locator("h1").textContent();
  await tab.goBack();
  return { sorted, searched, count, damaged, uncontrolled, page, after: await names(tab) };
}

async function look(browser, file, colorScheme, width) {
  const tab = await open(browser, { colorScheme, viewport: { width, height: 900 } }, file);
  const over = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  const violations = await tabs.violations(tab);
  await tab.context().close();
  return { file, width, over, violations };
}

tabs.print(executablePath, async (browser) => {
  const seen = { use: await use(await open(browser, {})), looks: [] };
  const plain = await open(browser, { javaScriptEnabled: false });
  seen.plain = { rows: await plain.locator("#runs tbody tr").count(), form: await plain.locator("form").isVisible() };
  for (const file of ["index.html", "comparison-1.html"]) {
    for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 390]]) {
      seen.looks.push(await look(browser, file, scheme, width));
    }
  }
  return seen;
});
