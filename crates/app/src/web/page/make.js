// How parts of the page are made. Whatever comes from jobs becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function make(tag, className, parent) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (parent) parent.append(made);
  return made;
}

export function draw(tag, attributes, parent) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (parent) parent.append(made);
  return made;
}

// Changes only what differs, so that a selection stays where it is.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// Makes the children of `parent` those of `items`, by their keys. What is there already stays, so that focus, selection
// and pointer stay too.
export function keep(parent, items, key, create, fill) {
  const wanted = new Set(items.map((item) => String(key(item))));
  const old = new Map();
  for (const child of [...parent.children]) {
    if (wanted.has(child.dataset.key)) old.set(child.dataset.key, child);
    else child.remove();
  }
  let next = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    const child = old.get(name) || create(item);
    child.dataset.key = name;
    fill(child, item);
    if (child === next) {
      next = child.nextElementSibling;
    } else {
      parent.insertBefore(child, next);
    }
  }
}

// A name as it may be shown: isolated, so that its letters turn nothing round, and of bounded length.
export function setName(node, name) {
  const most = 200;
  setText(node, name.length > most ? name.slice(0, most) + "…" : name);
  setAttribute(node, "title", name.slice(0, 1000));
}

// The colour of a job: the same wherever and whenever it is shown. Two turns of hue apart there is a pattern as well, and
// the number of the job stands beside.
export function colourClass(job) {
  return `c${job % 7} h${Math.floor(job / 7) % 3}`;
}

export function swatch(job, parent) {
  const made = make("i", `swatch ${colourClass(job)}`, parent);
  made.setAttribute("aria-hidden", "true");
  return made;
}

// A link to a job: its colour, its number and its name.
export function jobLink(job, name, parent) {
  const link = make("a", "job", parent);
  link.href = `?job=${job}`;
  link.dataset.job = String(job);
  swatch(job, link);
  make("span", "number", link).textContent = String(job);
  setName(make("bdi", "name", link), name);
  return link;
}

// Lengths of time, as everywhere: 2h 05m.
export function length(seconds) {
  const s = Math.max(0, Math.round(seconds));
  const two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86_400) return `${Math.floor(s / 3600)}h ${two(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86_400)}d ${two(Math.floor((s % 86_400) / 3600))}h`;
}

export function count(n) {
  return Math.round(n).toLocaleString("en");
}

// A number in about four digits.
export function number(n) {
  const size = Math.abs(n);
  if (n === 0) return "0";
  if (size >= 1e-3 && size < 1e6) return String(Number(n.toPrecision(4)));
  return n.toExponential(2);
}

export function several(n, one, more = one + "s") {
  return `${Number.isInteger(n) ? count(n) : number(n)} ${n === 1 ? one : more}`;
}

// A moment in the clock of whoever looks.
export function clock(text) {
  const when = new Date(text);
  if (Number.isNaN(when.getTime())) return text;
  const today = when.toDateString() === new Date().toDateString();
  const time = when.toLocaleTimeString("en-GB");
  return today ? time : `${when.toLocaleDateString("en-CA")} ${time}`;
}

// GPUs, or CPU cores where there are none.
export function devices(gpus, cpus) {
  return gpus > 0 || !(cpus > 0) ? several(gpus, "GPU") : several(cpus, "CPU");
}

// A small curve that says where losses went.
export function sparkline(parent, points) {
  const lasts = points.length ? points[points.length - 1].join() : "";
  const stamp = `${points.length} ${lasts}`;
  if (parent.dataset.stamp === stamp) return;
  parent.dataset.stamp = stamp;
  parent.replaceChildren();
  if (points.length < 2) return;
  const [first, last] = [points[0], points[points.length - 1]];
  const values = points.map((point) => point[1]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (at) => ((at - first[0]) / (last[0] - first[0])) * 98 + 1;
  const y = (value) => (high > low ? 22 - ((value - low) / (high - low)) * 20 : 12);
  const words = `loss from ${number(first[1])} to ${number(last[1])} over ${several(last[0] - first[0], "iteration")}`;
  const svg = draw("svg", { viewBox: "0 0 100 24", preserveAspectRatio: "none", class: "spark", role: "img", "aria-label": words }, parent);
  draw("path", { class: "curve", d: "M" + points.map(([at, value]) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("L") }, svg);
}
