// What is asked of a page from inside it. Each function runs in the browser, stands alone, and gives a list of faults.

// Whether the page itself can be moved sideways, and by what.
export function overflow() {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  const wide = [...document.querySelectorAll("body *")].filter(
    (one) => one.getBoundingClientRect().right > room + 1 && !one.closest(".scroll"),
  );
  return [`${document.documentElement.scrollWidth} > ${room}: ${wide.slice(0, 3).map((one) => one.outerHTML.slice(0, 90))}`];
}

export function headings() {
  const all = [...document.querySelectorAll("h1,h2,h3,h4,h5,h6")];
  const levels = all.map((heading) => Number(heading.tagName[1]));
  const wrong = levels.map((level, i) => [level, i]).filter(([level, i]) => level > (i ? levels[i - 1] : 0) + 1);
  const faults = wrong.map(([level, i]) => `h${level} after h${levels[i - 1]}: ${all[i].textContent}`);
  if (levels.filter((level) => level === 1).length !== 1) faults.push("not just one h1");
  return faults.concat(all.filter((one) => !one.textContent.trim()).map(() => "an empty heading"));
}

export function alternatives() {
  const mute = (one) => one.closest("[aria-hidden=true]");
  const named = (one) => (one.getAttribute("aria-label") || "").trim().length > 5;
  const bad = [...document.querySelectorAll("svg, [role=img]")].filter(
    (one) => !mute(one) && !(one.getAttribute("role") === "img" && named(one)),
  );
  return bad.map((one) => one.outerHTML.slice(0, 120));
}

export function structure() {
  const faults = [];
  const must = (holds, what) => holds || faults.push(what);
  const all = (selector) => [...document.querySelectorAll(selector)];
  must(document.documentElement.lang, "no language");
  must(document.title.length > 10, "no title");
  for (const landmark of ["body > header", "main", "body > footer", "nav[aria-label]"]) {
    must(all(landmark).length === 1, `not one ${landmark}`);
  }
  for (const table of all("table")) {
    must(table.caption && table.caption.textContent.trim(), `no caption: ${table.outerHTML.slice(0, 80)}`);
  }
  for (const head of all("th")) must(head.scope, `no scope: ${head.outerHTML.slice(0, 80)}`);
  for (const input of all("input")) must(input.labels.length, `no label: ${input.outerHTML}`);
  for (const region of all("[role=region], section, [tabindex='0']")) {
    const name = region.getAttribute("aria-label") || document.getElementById(region.getAttribute("aria-labelledby"));
    must(name, `no name: ${region.outerHTML.slice(0, 80)}`);
  }
  const ids = all("[id]").map((one) => one.id);
  must(new Set(ids).size === ids.length, "an id comes twice");
  for (const link of all("a[href^='#']")) must(document.querySelector(link.getAttribute("href")), `a link to nowhere: ${link}`);
  return faults;
}

// Text whose contrast with what is behind it is too small (WCAG 2.2, 1.4.3).
export function contrast() {
  const draw = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      draw.clearRect(0, 0, 1, 1);
      draw.fillStyle = colour;
      draw.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = draw.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = (top, below) => {
    const a = top[3];
    return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a)).concat(1);
  };
  const behind = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faults = new Map();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim();
    const one = walk.currentNode.parentElement;
    if (!text || !one.checkVisibility() || one.closest("script, style, .unseen, .skip, .letters")) continue;
    texts++;
    const style = getComputedStyle(one);
    const below = behind(one);
    let fore = rgba(style.color);
    for (let at = one; at; at = at.parentElement) fore = [...fore.slice(0, 3), fore[3] * getComputedStyle(at).opacity];
    const [a, b] = [light(over(fore, below)), light(below)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) faults.set(one.className + style.color + below, `${ratio.toFixed(2)} "${text.slice(0, 40)}"`);
  }
  if (texts < 30) faults.set("", `only ${texts} pieces of text were looked at`);
  return [...faults.values()];
}

// The same for letters on bars, which stand on a drawing.
export function letters() {
  const draw = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    draw.fillStyle = colour;
    draw.fillRect(0, 0, 1, 1);
    const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = [...draw.getImageData(0, 0, 1, 1).data].map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const letter = document.querySelector(".letters i");
  if (!letter) return [];
  const ink = light(getComputedStyle(letter).color);
  const bars = [...document.querySelectorAll("path.bar:not(.several)")].map((bar) => getComputedStyle(bar).fill);
  const low = [...new Set(bars)].filter((fill) => {
    const below = light(fill);
    return (Math.max(ink, below) + 0.05) / (Math.min(ink, below) + 0.05) < 4.5;
  });
  return low.map((fill) => `letters on ${fill}`);
}
