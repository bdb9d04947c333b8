// What the site finds, opened from its folder: node search_browser.js CHROMIUM PAGE WORDS
// playwright-core is found through NODE_PATH.
"use strict";
const { chromium } = require("playwright-core");
const [executablePath, page, words] = process.argv.slice(2);

(async () => {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const tab = await browser.newPage();
  const errors = [];
  const requests = [];
  tab.on("console", (message) => errors.push(message.text()));
  tab.on("pageerror", (error) => errors.push(error.message));
  tab.on("request", (request) => requests.push(request.url()));
  await tab.goto(page);
  await tab.locator("[data-md-component=search-query]").click();
  await tab.keyboard.type(words);
  await tab.locator(".md-search-result__item").first().waitFor();
  const found = await tab.locator(".md-search-result__item h1").allTextContents();
  await tab.locator(".md-search-result__link").first().click();
  console.log(JSON.stringify({ found, opened: tab.url(), errors, requests }));
  await browser.close();
})();
