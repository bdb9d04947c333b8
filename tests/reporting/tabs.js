// Tabs of a headless Chromium, found through NODE_PATH as axe-core is, and what they report.
"use strict";
const fs = require("node:fs");
const { chromium } = require("playwright-core");

const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const errors = [];
const requests = [];

async function open(browser, options, address) {
  const tab = await (await browser.newContext(options)).newPage();
  tab.on("console", (message) => errors.push(message.text()));
  tab.on("pageerror", (error) => errors.push(error.message));
  tab.on("dialog", (dialog) => { errors.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  tab.on("request", (request) => requests.push(request.url()));
  await tab.goto(`file://${address}`);
  return tab;
}

async function violations(tab) {
  await tab.evaluate(axe);
  const found = await tab.evaluate(() => axe.run());
  return found.violations.map((v) => `${v.id}: ${v.nodes[0].html}`);
}

// Prints what `look` finds, as JSON.
async function print(executablePath, look) {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const found = await look(browser);
  await browser.close();
  console.log(JSON.stringify({ ...found, errors, requests }));
}

module.exports = { open, violations, print };
