// Looks at reports with a real browser and prints what is wrong with them, as one JSON document:
//   { "found": [{ "file", "check", "what" }], "seen": { ... } }
// Usage: node check.mjs CHROMIUM SCREENSHOT_FOLDER REPORT...
// It decides nothing; the test that starts it does.
import fs from "node:fs";
import path from "node:path";
import { chromium } from "playwright-core";
import { alternatives, contrast, headings, letters, overflow, structure } from "./inspect.mjs";

const [chromiumPath, shots, ...files] = process.argv.slice(2);
const found = [];
const seen = {};

const browser = await chromium.launch({ executablePath: chromiumPath, args: ["--no-sandbox"] });
// Pictures are counted in a page of their own, since reports forbid everything.
const counter = await browser.newPage();

// Opens a file and notes all that goes wrong while it is open.
async function open(file, options, work) {
  const say = (check, what) => found.push({ file: path.basename(path.dirname(file)), check, what: String(what) });
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const own = "file://" + file;
  page.on("request", (request) => request.url().split("#")[0] === own || say("network", request.url()));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && say("console", message.text()));
  page.on("pageerror", (error) => say("console", error.message));
  page.setDefaultTimeout(10_000);
  try {
    await page.goto(own);
    await work(page, say);
  } catch (error) {
    say("crash", error.stack);
  }
  await context.close();
}

// How many colours a picture has, how much of it has the commonest one, and how bright it is.
async function colours(png) {
  return counter.evaluate(async (data) => {
    const blob = await (await fetch("data:image/png;base64," + data)).blob();
    const image = await createImageBitmap(blob);
    const canvas = new OffscreenCanvas(image.width, Math.min(image.height, 4000));
    const draw = canvas.getContext("2d");
    draw.drawImage(image, 0, 0);
    const { data: bytes } = draw.getImageData(0, 0, canvas.width, canvas.height);
    const counts = new Map();
    let light = 0;
    for (let i = 0; i < bytes.length; i += 4) {
      const key = (bytes[i] << 16) | (bytes[i + 1] << 8) | bytes[i + 2];
      counts.set(key, (counts.get(key) || 0) + 1);
      light += (bytes[i] + bytes[i + 1] + bytes[i + 2]) / 765;
    }
    const pixels = bytes.length / 4;
    return { colours: counts.size, commonest: Math.max(...counts.values()) / pixels, light: light / pixels };
  }, png.toString("base64"));
}

async function looks(file, colorScheme, width) {
  await open(file, { colorScheme, viewport: { width, height: 900 } }, async (page, say) => {
    for (const what of await page.evaluate(overflow)) say("overflow", `${width} px: ${what}`);
    const name = `${path.basename(path.dirname(file))}-${colorScheme}-${width}.png`;
    const png = await page.screenshot({ path: path.join(shots, name), fullPage: true });
    const { colours: many, commonest, light } = await colours(png);
    if (many < 40 || commonest > 0.97) say("blank", `${name}: ${many} colours, ${commonest} of one`);
    if (colorScheme === "light" ? light < 0.75 : light > 0.3) say("scheme", `${name}: brightness ${light}`);
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
    for (const what of await page.evaluate(overflow)) say("overflow", `${width} px, all open: ${what}`);
    for (const what of await page.evaluate(contrast)) say("contrast", `${colorScheme}: ${what}`);
    if (width > 1000) for (const what of await page.evaluate(letters)) say("contrast", `${colorScheme}: ${what}`);
  });
}

async function isAccessible(file) {
  await open(file, { reducedMotion: "reduce" }, async (page, say) => {
    for (const what of await page.evaluate(headings)) say("headings", what);
    for (const what of await page.evaluate(alternatives)) say("alternatives", what);
    for (const what of await page.evaluate(structure)) say("structure", what);
    const moves = await page.evaluate(() =>
      [...document.querySelectorAll("*")].some((one) => parseFloat(getComputedStyle(one).transitionDuration) > 0),
    );
    if (moves) say("motion", "something moves although less motion was asked for");
    // Walk through the page by keyboard: whatever has the focus must be seen to have it.
    let stops = 0;
    for (; stops < 80; stops++) {
      await page.keyboard.press("Tab");
      const focus = await page.evaluate(() => {
        const one = document.activeElement;
        if (!one || one === document.body) return null;
        const shown = one.matches("input[type=radio]") ? document.querySelector(`label[for="${one.id}"]`) : one;
        const { outlineStyle, outlineWidth } = getComputedStyle(shown);
        const visible = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
        return { name: one.outerHTML.slice(0, 80), visible };
      });
      if (!focus) break;
      if (!focus.visible) say("focus", `no outline on ${focus.name}`);
    }
    if (stops < 10) say("focus", `only ${stops} stops`);
  });
}

// What a read-out says, or nothing.
const told = async (figure) => {
  const box = figure.locator(".readout");
  return (await box.isVisible()) ? (await box.innerText()).replace(/\s+/g, " ") : "";
};

async function readsOut(file) {
  await open(file, {}, async (page, say) => {
    const lines = page.locator("figure.lines:has(.canvas)").first();
    if (!(await lines.count())) return;
    const isDistribution = (await lines.locator(".ytitle").innerText()) === "of the jobs";
    const curves = await lines.locator("path.curve").count();
    const canvas = lines.locator(".canvas");
    const { width, height } = await canvas.boundingBox();
    await canvas.hover({ position: { x: width / 2, y: height / 2 } });
    const middle = await told(lines);
    if (isDistribution && (middle.match(/ %/g) || []).length !== curves) say("lines", `in the middle ${curves} curves read ${middle}`);
    await canvas.focus();
    await page.keyboard.press("End");
    const end = await told(lines);
    if (isDistribution && (end.match(/100\.0 %/g) || []).length !== curves) say("lines", `at the end ${curves} curves read ${end}`);
    await page.keyboard.press("Home");
    if (!(await told(lines)) || end === (await told(lines))) say("lines", "keys change nothing");
    await page.keyboard.press("Escape");
    if (await told(lines)) say("lines", "the read-out stays");
  });
}

async function tellsOfJobs(file) {
  await open(file, {}, async (page, say) => {
    if (!(await page.locator("figure.gantt").count())) return;
    const radios = page.locator(".picker input");
    const panels = Math.max(1, await radios.count());
    for (let i = 0; i < panels; i++) {
      if (i > 0) {
        await radios.nth(i - 1).focus();
        await page.keyboard.press("ArrowRight");
      }
      const figure = page.locator("figure.gantt").nth(i);
      const visible = await page.locator("figure.gantt:visible").count();
      if (!(await figure.isVisible()) || visible !== 1) {
        say("picker", `panel ${i} is not the one that is seen`);
        continue;
      }
      const data = JSON.parse(await figure.locator("script").textContent());
      const bars = data.bars.length / 8;
      seen.bars = (seen.bars || 0) + bars;
      // The longest bar that stands for one job.
      let best = null;
      for (let k = 0; k < data.bars.length; k += 8) {
        const bar = data.bars.slice(k, k + 8);
        if (bar[7] === 1 && (!best || bar[4] > best[4])) best = bar;
      }
      const [row, device, devices, from, span, job, end] = best;
      const [node, top, tall, gpus] = data.nodes[row];
      const until = Number(data.axis.split(" ")[2]);
      const canvas = figure.locator(".canvas");
      await canvas.scrollIntoViewIfNeeded();
      const { width } = await canvas.boundingBox();
      const x = ((from + span / 2) / until) * width;
      await canvas.hover({ position: { x, y: top + ((device + devices / 2) * tall) / gpus } });
      const text = await told(figure);
      for (const word of [data.jobs[job][0], data.jobs[job][1], node, data.ends[end], "from", "to", "GPUs"]) {
        if (!text.includes(word)) say("gantt", `panel ${i}: "${text}" lacks "${word}"`);
      }
      await canvas.focus();
      const texts = [];
      for (const key of ["Home", "ArrowRight", "ArrowDown"]) {
        await page.keyboard.press(key);
        texts.push(await told(figure));
      }
      const rows = new Set(data.bars.filter((_, k) => k % 8 === 0)).size;
      if (texts[0] === texts[1] || (rows > 1 && texts[1] === texts[2])) {
        say("gantt", `panel ${i}: keys change nothing: ${texts}`);
      }
      await page.keyboard.press("Escape");
      if (await told(figure)) say("gantt", `panel ${i}: Escape does not close the read-out`);
    }
  });
}

async function sorts(file) {
  await open(file, {}, async (page, say) => {
    const table = page.locator("table[data-sortable]").first();
    if (!(await table.count())) return;
    const values = () =>
      table.locator("tbody tr").evaluateAll((rows) => rows.map((row) => Number(row.cells[1].dataset.value)));
    const button = table.locator("thead button").nth(1);
    for (const order of [1, -1]) {
      await button.click();
      const now = (await values()).filter((value) => !Number.isNaN(value));
      const sorted = [...now].sort((a, b) => order * (a - b));
      if (now.length < 2 || String(now) !== String(sorted)) say("sorting", now);
    }
  });
}

async function worksWithoutScripts(file) {
  const count = (page) =>
    page.evaluate(() => ["svg[role=img]", "tr", "path.bar", "h2"].map((one) => document.querySelectorAll(one).length));
  let with_;
  await open(file, {}, async (page) => (with_ = String(await count(page))));
  await open(file, { javaScriptEnabled: false }, async (page, say) => {
    // Evaluating is the browser's doing, not the page's.
    const without = String(await count(page));
    if (without !== with_) say("no scripts", `${with_} with scripts, ${without} without`);
    const labels = page.locator(".picker label");
    if ((await labels.count()) > 1) {
      await labels.nth(1).click();
      if (!(await page.locator("figure.gantt").nth(1).isVisible())) say("no scripts", "no policy can be picked");
    }
    const charts = await page.locator("figure.gantt").count();
    if (charts && !(await page.locator("figure.gantt:visible").count())) say("no scripts", "no chart of what ran where");
  });
}

async function prints(file) {
  await open(file, { viewport: { width: 703, height: 1000 } }, async (page, say) => {
    await page.emulateMedia({ media: "print" });
    for (const what of await page.evaluate(overflow)) say("print", what);
    await page.emulateMedia({ media: null });
    const name = path.join(shots, path.basename(path.dirname(file)) + ".pdf");
    const pdf = await page.pdf({ path: name, preferCSSPageSize: true });
    const pages = (pdf.toString("latin1").match(/\/Type\s*\/Page\b/g) || []).length;
    if (pdf.subarray(0, 5).toString() !== "%PDF-" || pages < 1 || pages > 14) say("print", `${pages} pages`);
  });
}

for (const file of files.map((file) => path.resolve(file))) {
  seen[path.basename(path.dirname(file))] = { bytes: fs.statSync(file).size };
  for (const scheme of ["light", "dark"]) for (const width of [1280, 360]) await looks(file, scheme, width);
  for (const check of [isAccessible, readsOut, tellsOfJobs, sorts, worksWithoutScripts, prints]) await check(file);
}
await browser.close();
console.log(JSON.stringify({ found, seen }, null, 1));
