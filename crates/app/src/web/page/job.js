// One job: what it is, what it holds, its losses, and why.

import { Away, Refused } from "./client.js";
import { byId, clock, devices, draw, keep, length, make, number, setAttribute, setName, setText, several, swatch } from "./make.js";
import { holdsWords, setProgress, tag } from "./lists.js";
import { isFlat, logTicks, ticks } from "./ticks.js";

// Why is asked at most so often, and less often where a forecast takes the daemon long.
const WHY_MS = 10_000;
const WHY_EASE = 10;
// Of so many tasks it is shown where they are.
const MOST_TASKS = 200;

let shown = null;

// The frame for a job; it stays for as long as the job is shown.
function frame(id) {
  const card = byId("job-card");
  card.replaceChildren();
  const head = make("h3", "job-head", card);
  swatch(id, head);
  make("span", "number", head).textContent = String(id);
  const name = make("bdi", "name", head);
  const state = make("span", "", head);
  const progress = make("div", "progress", card);
  const early = new Early(id, card);
  const figure = make("figure", "lines", card);
  const caption = make("figcaption", "", figure);
  const facts = make("dl", "facts", card);
  const tasks = new Tasks(card);
  const because = make("div", "why", card);
  make("h4", "", because).textContent = "Why";
  const words = make("div", "words", because);
  words.tabIndex = 0;
  words.setAttribute("role", "region");
  make("span", "soft", make("p", "", words)).textContent = "the daemon is asked";
  words.setAttribute("aria-label", "Why the job runs or waits, and when it will start");
  const command = make("p", "command", card);
  make("span", "soft", command).textContent = "runs ";
  make("code", "", command);
  shown = { id, name, state, progress, early, caption, figure, facts, tasks, words, command, chart: new Chart(figure), whyDue: 0, whyState: "" };
}

export function closeJob() {
  shown = null;
  byId("job-card").hidden = byId("job-close").hidden = true;
  byId("job-none").hidden = false;
}

// What is written of a job, as pairs of a label and words.
function facts(job) {
  const workers = job.workers_min === job.workers_max ? several(job.workers_min, "worker") : `${job.workers_min} to ${job.workers_max} workers`;
  const rest = [
    ["tenant", job.tenant],
    ["asks for", job.tasks ? `${several(job.tasks, "task")}, together ${devices(job.gpus, job.cpus)}` : `${workers}, each ${devices(job.gpus, job.cpus)}`],
    ["holds", job.nodes.length ? `${holdsWords(job)} on ${job.nodes.join(", ")}` : "nothing"],
    // Of one that was cut short it stands above.
    ["because", job.cut_short ? undefined : job.because],
    ["loss", job.loss === undefined ? undefined : number(job.loss)],
    ["how it looks", job.loss_health],
    ["saved", job.saved > 0 ? several(job.saved, "iteration") : undefined],
    ["submitted", clock(job.submitted)],
    ["first started", job.started && clock(job.started)],
    ["ended", job.ended && clock(job.ended)],
    ["waited, ran", `${length(job.waited_s)}, ${length(job.executed_s)}`],
    ["attempts", `${job.attempt}; preempted ${job.preemptions}, moved ${job.moves}, lost ${job.failures}`],
    ["its cluster says", job.said],
  ];
  return rest.filter(([, words]) => words);
}

// Asks why beside everything else, since a forecast may take its time.
async function askWhy(client, job) {
  const asked = shown;
  const state = `${job.state} ${job.reason}`;
  const began = performance.now();
  if (asked.isAsking || (began < asked.whyDue && asked.whyState === state)) return;
  Object.assign(asked, { isAsking: true, whyState: state });
  let words = "";
  try {
    words = await client.ask(`v1/jobs/${job.id}/why`, "text/plain");
  } catch (error) {
    if (!(error instanceof Away || error instanceof Refused)) throw error;
    words = error instanceof Refused ? error.message : "";
  } finally {
    const ended = performance.now();
    Object.assign(asked, { isAsking: false, whyDue: ended + Math.max(WHY_MS, WHY_EASE * (ended - began)) });
  }
  if (!words) return;
  const lines = words.trimEnd().split("\n").map((line, i) => ({ i, ...labelled(line) }));
  keep(asked.words, lines, ({ i, label }) => `${i} ${label !== null}`, ({ label }) => {
    const line = make("p");
    if (label !== null) make("span", "soft", line);
    make("span", "", line);
    return line;
  }, (line, { label, rest }) => {
    if (label !== null) setText(line.firstElementChild, label);
    setText(line.lastElementChild, rest);
  });
}

// A line of the answer begins with a label of nine letters, or is a sentence.
function labelled(line) {
  const [, label, rest] = /^ {2}(\S[^:]{8}) (.+)$/.exec(line) || [];
  return label === undefined ? { label: null, rest: line.trim() } : { label: label.trim(), rest };
}

// Shows a job as it is now.
export async function showJob(client, id) {
  const [job, losses] = await Promise.all([client.ask(`v1/jobs/${id}`), client.ask(`v1/jobs/${id}/losses`)]);
  if (client.ended) return;
  if (!shown || shown.id !== id) frame(id);
  byId("job-card").hidden = byId("job-close").hidden = false;
  byId("job-none").hidden = true;
  setName(shown.name, job.name);
  tag(shown.state, job.outcome || job.state);
  setProgress(shown.progress, job);
  shown.early.show(client, job);
  shown.tasks.show(job);
  shown.chart.show(losses.points, losses.better);
  keep(shown.facts, facts(job), ([label]) => label, ([label]) => {
    const pair = make("div");
    make("dt", "", pair).textContent = label;
    make("dd", "", pair);
    return pair;
  }, (pair, [, words]) => setText(pair.lastElementChild, words));
  setText(shown.command.lastElementChild, job.command.join(" ").slice(0, 2000));
  askWhy(client, job).catch(reportError);
}

// Why a job was cut short, and the way to take it up again for those who may.
class Early {
  constructor(id, card) {
    this.id = id;
    this.part = make("div", "early", card);
    this.words = make("p", "", this.part);
    this.button = make("button", "", this.part);
    this.button.type = "button";
    this.button.textContent = "Take it up again";
    this.refusal = make("p", "warning", this.part);
    this.refusal.setAttribute("role", "alert");
    this.refuse("");
    this.button.addEventListener("click", () => this.takeUp().catch(reportError));
    this.part.hidden = true;
  }

  refuse(words) {
    this.refusal.hidden = !words;
    setText(this.refusal, words);
  }

  show(client, job) {
    this.client = client;
    if (!job.cut_short) this.refuse("");
    this.part.hidden = !job.cut_short;
    setText(this.words, job.cut_short ? `It was ${job.because}.` : "");
    this.button.hidden = !client.mayWrite;
  }

  async takeUp() {
    this.button.disabled = true;
    this.refuse("");
    try {
      await this.client.order(`v1/jobs/${this.id}/resume`);
      // The button goes, and what had the focus is gone with it.
      byId("job").focus({ preventScroll: true });
      if (shown?.id === this.id) await showJob(this.client, this.id);
    } catch (error) {
      if (error instanceof Refused) this.refuse([error.message, error.remedy].filter(Boolean).join("; "));
      else if (error instanceof Away) this.refuse("the daemon does not answer; try it again");
      else throw error;
    } finally {
      this.button.disabled = false;
    }
  }
}

// Where each task of a job is, and what those without a place ask for.
class Tasks {
  constructor(card) {
    this.part = make("div", "tasks", card);
    make("h4", "", this.part).textContent = "Tasks";
    const region = make("div", "scroll", this.part);
    region.tabIndex = 0;
    region.setAttribute("role", "region");
    region.setAttribute("aria-label", "Where each task is");
    const table = make("table", "", region);
    make("span", "", make("caption", "", table)).textContent = "Where each is, and what those without a place ask for";
    const head = make("tr", "", make("thead", "", table));
    for (const label of ["task", "state", "where"]) {
      const cell = make("th", "", head);
      cell.scope = "col";
      cell.textContent = label;
    }
    this.rows = make("tbody", "", table);
    this.more = make("p", "soft", this.part);
    this.part.hidden = true;
  }

  show(job) {
    const all = job.each_task || [];
    this.part.hidden = all.length === 0;
    setText(this.more, all.length > MOST_TASKS ? `and ${several(all.length - MOST_TASKS, "task")} more` : "");
    keep(this.rows, all.slice(0, MOST_TASKS), ({ task }) => task, ({ task }) => {
      const row = make("tr");
      const name = make("th", "", row);
      name.scope = "row";
      name.textContent = String(task);
      make("td", "", row);
      make("td", "reason", row);
      return row;
    }, (row, task) => {
      tag(row.cells[1], task.state);
      setText(row.cells[2], taskWords(task));
    });
  }
}

function taskWords({ node, to, devices: held = [], gpus, cpus }) {
  const at = held.length ? `${node}, GPU ${held.join(", ")}` : node;
  if (at) return to ? `${at}, and shall be on ${to}` : at;
  return to ? `shall be on ${to}` : `asks for ${devices(gpus, cpus)}`;
}

// The loss curve, with axes, and with values under the pointer and the arrow keys.
class Chart {
  constructor(figure) {
    this.points = [];
    this.at = 0;
    this.caption = figure.querySelector("figcaption");
    this.plot = make("div", "plot", figure);
    this.title = make("p", "ytitle", this.plot);
    this.yticks = make("div", "yticks", this.plot);
    this.canvas = make("div", "canvas", this.plot);
    this.svg = draw("svg", { viewBox: "0 0 1000 1000", preserveAspectRatio: "none", role: "img" }, this.canvas);
    this.grid = draw("path", { class: "grid" }, this.svg);
    this.curve = draw("path", { class: "curve" }, this.svg);
    this.cursor = make("div", "cursor", this.canvas);
    this.dot = make("div", "dot", this.canvas);
    this.xticks = make("div", "xticks", this.plot);
    make("p", "xtitle", this.plot).textContent = "iteration";
    this.readout = make("p", "readout", figure);
    this.readout.setAttribute("role", "status");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "group");
    this.canvas.setAttribute("aria-label", "Loss curve: read values with the left and right keys");
    this.canvas.addEventListener("pointermove", (event) => {
      const { left, width } = this.canvas.getBoundingClientRect();
      this.readNear((event.clientX - left) / width);
    });
    this.canvas.addEventListener("pointerleave", () => this.hide());
    this.canvas.addEventListener("blur", () => this.hide());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.hide();
  }

  key(event) {
    const last = this.points.length - 1;
    const to = { ArrowLeft: this.at - 1, ArrowRight: this.at + 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") this.hide();
    if (to === undefined) return;
    event.preventDefault();
    this.read(Math.max(0, Math.min(last, to)));
  }

  show(points, better) {
    const stamp = JSON.stringify([points.length, points.at(-1), better]);
    if (stamp === this.stamp) return;
    const follows = this.at >= this.points.length - 1;
    this.stamp = stamp;
    this.points = points;
    if (follows) this.at = Math.max(0, points.length - 1);
    this.plot.hidden = points.length < 2;
    this.readout.hidden = points.length < 2;
    if (points.length < 2) {
      setText(this.caption, points.length ? `Loss ${number(points[0][1])} at iteration ${number(points[0][0])}` : "It has reported no losses yet");
      return;
    }
    this.#scale(points);
    this.#axes();
    const [first, last] = [points[0], points[points.length - 1]];
    const best = points.reduce((a, b) => ((better === "higher" ? b[1] > a[1] : b[1] < a[1]) ? b : a));
    const words = `from ${number(first[1])} to ${number(last[1])}; best ${number(best[1])} at iteration ${number(best[0])}`;
    setText(this.caption, `Loss ${words}`);
    setAttribute(this.svg, "aria-label", `Loss curve ${words}`);
    const place = ([iteration, loss]) => `${(this.x(iteration) * 1000).toFixed(1)} ${(this.y(loss) * 1000).toFixed(1)}`;
    this.curve.setAttribute("d", "M" + points.map(place).join("L"));
    if (this.cursor.hidden) this.hide();
    else this.read(Math.min(this.at, points.length - 1));
  }

  // Losses that fall by orders of magnitude are drawn by their logarithm.
  #scale(points) {
    const values = points.map((point) => point[1]);
    let [low, high] = [Math.min(...values), Math.max(...values)];
    this.isLog = low > 0 && high / low > 50;
    if (isFlat(low, high)) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
    let [from, until] = [points[0][0], points[points.length - 1][0]];
    if (isFlat(from, until)) [from, until] = [from - 0.5, until + 0.5];
    Object.assign(this, { low, high, from, until });
    this.x = (iteration) => (iteration - from) / (until - from);
    this.y = this.isLog
      ? (loss) => 0.97 - (Math.log(loss / low) / Math.log(high / low)) * 0.94
      : (loss) => 0.97 - ((loss - low) / (high - low)) * 0.94;
  }

  #axes() {
    setText(this.title, this.isLog ? "loss, by its logarithm" : "loss");
    const ys = this.isLog ? logTicks(this.low, this.high) : ticks(this.low, this.high, 4);
    const xs = ticks(this.from, this.until, 4);
    keep(this.yticks, ys, (at) => at, () => make("span"), (span, at) => {
      setText(span, number(at));
      span.style.top = `${this.y(at) * 100}%`;
    });
    keep(this.xticks, xs, (at) => at, () => make("span"), (span, at) => {
      setText(span, number(at));
      span.style.left = `${this.x(at) * 100}%`;
    });
    this.grid.setAttribute("d", ys.map((at) => `M0 ${(this.y(at) * 1000).toFixed(1)}H1000`).join(""));
  }

  readNear(part) {
    const iteration = this.from + part * (this.until - this.from);
    const distance = (i) => Math.abs(this.points[i][0] - iteration);
    this.read(this.points.reduce((best, _, i) => (distance(i) < distance(best) ? i : best), 0));
  }

  read(index) {
    this.at = index;
    const [iteration, loss] = this.points[index];
    this.cursor.hidden = this.dot.hidden = false;
    this.cursor.style.left = this.dot.style.left = `${this.x(iteration) * 100}%`;
    this.dot.style.top = `${this.y(loss) * 100}%`;
    setText(this.readout, `iteration ${number(iteration)}: loss ${number(loss)}`);
  }

  hide() {
    this.cursor.hidden = this.dot.hidden = true;
    setText(this.readout, "\u00a0");
  }
}
