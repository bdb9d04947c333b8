// Opens a page in headless Chromium and prints, as JSON, the milliseconds of what a reader waits for.
// Usage: node report.js CHROMIUM PAGE; playwright-core is found through NODE_PATH.
"use strict";
const { chromium } = require("playwright-core");

const [executablePath, page] = process.argv.slice(2);
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

// From an act until the frame that shows what it did.
function shown(act) {
  return new Promise((done) => {
    const start = performance.now();
    act();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
  });
}

(async () => {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const tab = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await tab.goto(`file://${page}`);
  const paint = await tab.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  const timed = async (acts) => {
    const times = [];
    for (const act of acts) times.push(await tab.evaluate(`(${shown})(() => { ${act} })`));
    return Math.max(...times);
  };
  const find = (words) => `const box = document.querySelector("#find"); box.value = ${JSON.stringify(words)}; box.dispatchEvent(new Event("input"))`;
  await tab.evaluate(find("zz")); // unpacks what is searched
  await tab.waitForFunction(() => document.querySelector("#found").value.startsWith("0 "));
  const search = await timed(["ka", "kalo", "made-up:0123", "no such words", ""].map(find));
  const press = (column) => `document.querySelectorAll(".by-question thead button")[${column}].click()`;
  const sort = await timed([1, 1, 2, 2, 0].map(press));
  const all = await timed([`document.querySelector("#more button").click()`]);
  const sortAll = await timed([1, 1, 2, 2, 0].map(press));
  const searchAll = await timed(["ka", "kalo", "no such words", ""].map(find));
  const opens = [];
  for (const row of [3, 30, 300]) {
    const start = Date.now();
    await tab.evaluate((i) => document.querySelectorAll("tr.question button")[i]?.click(), row);
    await tab.waitForFunction((n) => document.querySelectorAll("tr.opened").length >= n, opens.length + 1);
    opens.push(Date.now() - start);
  }
  await browser.close();
  console.log(JSON.stringify({
    "first paint ms": paint, "sort ms": sort, "search ms": search, "sort all shown ms": sortAll,
    "search all shown ms": searchAll, "show all ms": all, "open a question ms": median(opens),
  }));
})();
