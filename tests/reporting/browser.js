// Opens a page in headless Chromium and prints, as JSON, what a reader would trip over.
// Usage: node browser.js CHROMIUM PAGE; see tabs.js.
"use strict";
const fs = require("node:fs");
const tabs = require("./tabs.js");

const [executablePath, page] = process.argv.slice(2);
const open = (browser, options, hash = "") => tabs.open(browser, options, `${page}${hash}`);

async function look(browser, colorScheme, width) {
  const tab = await open(browser, { colorScheme, viewport: { width, height: 900 } });
  await tab.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
  await tab.locator("#by-question tr.question:visible button").first().click();
  await tab.locator(".detail").first().waitFor();
  const over = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  const wide = await tab.evaluate(() => {
    const detail = document.querySelector(".detail");
    return detail.getBoundingClientRect().right - detail.closest(".scroll").getBoundingClientRect().right;
  });
  const clipped = await tab.evaluate(() =>
    [...document.querySelectorAll("section[aria-labelledby=summary] .scroll")]
      .filter((box) => box.scrollWidth > box.clientWidth)
      .map((box) => box.getAttribute("aria-label")));
  const violations = await tabs.violations(tab);
  await tab.context().close();
  return { over, wide, clipped, violations };
}

// The first chart on a phone: its labels that run into each other or out of its frame.
async function phone(browser) {
  const tab = await open(browser, { viewport: { width: 390, height: 900 } });
  const found = await tab.evaluate(() => {
    const svg = [...document.querySelectorAll("figure svg")].find((drawing) => drawing.checkVisibility());
    const frame = svg.closest("figure").getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    return [
      ...boxes.flatMap(([text, box], i) => boxes.slice(i + 1).filter(([, other]) => meet(box, other)).map(() => text)),
      ...boxes.filter(([, box]) => box.left < frame.left || box.right > frame.right).map(([text]) => text),
    ];
  });
  await tab.context().close();
  return found;
}

// A page at a question.
const row = (tab, number) => tab.locator(`#by-question tr.question[data-number='${number}']`);
const isOpen = (tab, number) => row(tab, number).locator("button").getAttribute("aria-expanded");

async function use(browser) {
  const tab = await open(browser, { viewport: { width: 1280, height: 900 }, acceptDownloads: true }, "#q-2");
  await tab.locator(".detail").waitFor();
  const opened = await isOpen(tab, 2);
  await row(tab, 2).locator("button").press("Enter");
  const closed = await isOpen(tab, 2);
  await tab.evaluate(() => (location.hash = "#q-3"));
  await tab.waitForFunction(() => document.querySelector("#q-3 button").getAttribute("aria-expanded") === "true");
  const said = await tab.locator(".detail").evaluate((detail) => ({
    statements: detail.querySelectorAll(".measured li").length,
    texts: detail.querySelectorAll(".completions tbody tr").length,
    marked: detail.querySelectorAll("mark").length,
  }));
  const heading = tab.locator("table[data-sortable] thead th", { hasText: /Mean (leak|score)/ }).first();
  const sorted = [];
  for (let press = 0; press < 2; press++) {
    await heading.locator("button").press("Enter");
    sorted.push(await heading.evaluate((th) =>
      [...th.closest("table").tBodies[0].rows].map((row) => Number(row.cells[th.cellIndex].dataset.value))));
  }
  const found = await tab.locator("#find").evaluate(async (box) => {
    const counts = [];
    const first = document.querySelector("#q-1 .id").textContent.toUpperCase();
    for (const words of [first, "no such words", ""]) {
      box.value = words;
      box.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((done) => setTimeout(done, 200));
      counts.push(document.querySelector("#found").value);
    }
    return counts;
  });
  const saved = await save(tab);
  await tab.context().close();
  return { opened, closed, said, sorted, found, saved };
}

// The data of the first chart, as a file.
async function save(tab) {
  const coming = tab.waitForEvent("download");
  await tab.locator("header figure .save").first().click();
  return fs.readFileSync(await (await coming).path(), "utf8");
}

// What stands in the first screen: where the cards and the first picture end, in pixels from the top.
async function fold(browser, width, height) {
  const tab = await open(browser, { viewport: { width, height } });
  const found = await tab.evaluate(() => {
    const box = (node) => node.getBoundingClientRect();
    const pictures = [...document.querySelectorAll("header figure svg")].filter((svg) => svg.checkVisibility()).map(box);
    return {
      cards: [...document.querySelectorAll(".verdicts > li")].map((card) => box(card).bottom),
      words: [...document.querySelectorAll(".verdicts .word")].map((word) => word.textContent),
      picture: { top: Math.min(...pictures.map((p) => p.top)), bottom: Math.max(...pictures.map((p) => p.bottom)) },
    };
  });
  await tab.context().close();
  return found;
}

// On paper: how many pages, what is cut at their side, and which controls are there.
async function paper(browser) {
  const tab = await open(browser, { viewport: { width: 716, height: 900 } }); // A4 within its margins
  const pdf = (await tab.pdf({ format: "A4" })).toString("latin1");
  await tab.emulateMedia({ media: "print" });
  const found = await tab.evaluate(() => {
    const seen = (node) => node.checkVisibility() && node.getBoundingClientRect().height > 0;
    const all = (what) => [...document.querySelectorAll(what)].filter(seen);
    return {
      cut: all("table, figure, .verdicts > li").filter((node) => node.getBoundingClientRect().right > innerWidth + 1).length,
      controls: all("nav, form, .save, summary:not(.verdicts *)").map((node) => node.outerHTML.slice(0, 80)),
      folded: all("details:not([open])").length,
    };
  });
  await tab.context().close();
  return { ...found, pages: (pdf.match(/\/Type\s*\/Page\b/g) ?? []).length };
}

async function withoutScript(browser) {
  const tab = await open(browser, { javaScriptEnabled: false });
  const shown = await tab.locator("tr.question:visible").count();
  const form = await tab.locator("#choose").isVisible();
  const picture = await tab.locator("header figure svg").first().isVisible();
  await tab.context().close();
  return { shown, form, picture };
}

tabs.print(executablePath, async (browser) => {
  const looks = [];
  for (const [scheme, width] of [["light", 1440], ["light", 1280], ["dark", 390]]) looks.push(await look(browser, scheme, width));
  return { looks, use: await use(browser), plain: await withoutScript(browser), phone: await phone(browser), wide: await fold(browser, 1280, 800), narrow: await fold(browser, 390, 844), paper: await paper(browser) };
});
