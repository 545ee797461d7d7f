// The lists of the page: jobs that run, that wait and that are over, and nodes. Each shows one page of what there is.

import { byId, clock, colourClass, count, devices, jobLink, keep, length, make, number, setAttribute, setName, setText, several, sparkline } from "./make.js";

// How one list goes through its pages: `ask` gives a page after a number; the rest is counted.
class List {
  constructor(name, path, limit, words) {
    Object.assign(this, { name, path, limit, words, afters: [null], next: null, shown: 0 });
    this.rows = byId(`${name}-rows`);
    const pager = byId(`${name}-pager`);
    this.told = make("span", "soft", pager);
    this.back = this.#button(pager, `Previous ${limit}`, () => this.afters.pop());
    this.more = this.#button(pager, `Next ${limit}`, () => this.afters.push(this.next));
  }

  #button(pager, text, turn) {
    const button = make("button", "", pager);
    button.type = "button";
    button.textContent = text;
    button.hidden = true;
    button.addEventListener("click", () => {
      turn();
      this.turned();
    });
    return button;
  }

  turned() {}

  async refresh(client) {
    const after = this.afters[this.afters.length - 1];
    const page = await client.ask(`${this.path}limit=${this.limit}${after === null ? "" : `&after=${after}`}`);
    if (client.ended) return;
    const items = page.jobs || page.nodes;
    // What stood on later pages may have gone meanwhile.
    if (items.length === 0 && this.afters.length > 1) {
      this.afters = [null];
      await this.refresh(client);
      return;
    }
    this.next = page.next ?? null;
    this.shown = items.length;
    this.show(items);
  }

  // Says how many there are of which these are some.
  tell(all) {
    const hidden = Math.max(0, all - this.shown);
    const begin = (this.afters.length - 1) * this.limit;
    const part = hidden ? `${count(begin + 1)} to ${count(begin + this.shown)} of ${this.words(all)}` : this.words(all);
    setText(this.told, part);
    this.more.hidden = this.next === null;
    this.back.hidden = this.afters.length < 2;
  }
}

function row(parts) {
  const made = make("tr");
  for (const [tag, className] of parts) {
    const cell = make(tag, className, made);
    if (tag === "th") cell.scope = "row";
  }
  return made;
}

function setJob(cell, job) {
  const link = cell.firstElementChild || jobLink(job.id, job.name, cell);
  setName(link.querySelector(".name"), job.name);
  const tenant = cell.children[1] || make("span", "tenant soft", cell);
  setName(tenant, job.tenant);
}

export function setProgress(cell, job) {
  if (!cell.firstElementChild) {
    const bar = make("progress", "", cell);
    bar.max = 1;
    make("span", "", cell);
    make("span", "soft", cell);
  }
  const [bar, words, speed] = cell.children;
  bar.hidden = !job.of_iterations;
  if (job.of_iterations) {
    bar.value = Math.min(1, job.iterations / job.of_iterations);
    setAttribute(bar, "aria-label", `progress of job ${job.id}`);
  }
  setText(words, `${count(job.iterations)}${job.of_iterations ? ` of ${count(job.of_iterations)}` : ""} iterations`);
  setText(speed, job.iterations_per_s > 0 ? `${number(Number(job.iterations_per_s.toPrecision(2)))} a second` : "");
}

export function holdsWords(job) {
  if (job.tasks) return job.tasks_placed ? `a place for ${count(job.tasks_placed)} of ${several(job.tasks, "task")}` : "nothing";
  if (job.workers === 0) return "nothing";
  const what = job.gpus_held > 0 ? several(job.gpus_held, "GPU") : several(job.cpus * job.workers, "CPU");
  return `${what}, ${several(job.workers, "worker")}`;
}

export const tag = (cell, word) => {
  const made = cell.firstElementChild || make("span", "tag", cell);
  setText(made, word.replaceAll("_", " "));
  setAttribute(made, "data-word", word);
};

export function runningList() {
  const list = new List("running", "v1/jobs?state=holding&points=40&", 50, (n) => several(n, "job has devices", "jobs have devices"));
  list.show = (jobs) => keep(list.rows, jobs, (job) => job.id,
    () => row([["th", ""], ["td", ""], ["td", "progress"], ["td", "num"], ["td", "sparks"], ["td", "holds"]]),
    (tr, job) => {
      const [name, state, progress, loss, curve, holds] = tr.cells;
      setJob(name, job);
      tag(state, job.state);
      setProgress(progress, job);
      setText(loss, job.loss === undefined ? "–" : number(job.loss));
      sparkline(curve, job.losses || []);
      if (!holds.firstElementChild) {
        make("span", "", holds);
        make("span", "where soft", holds);
      }
      setText(holds.children[0], holdsWords(job));
      setName(holds.children[1], `on ${job.nodes.join(", ") || "no node"}`);
    });
  return list;
}

export function queueList() {
  const list = new List("queue", "v1/jobs?state=waiting&", 50, (n) => several(n, "job waits", "jobs wait"));
  list.show = (jobs) => keep(list.rows, jobs, (job) => job.id,
    () => row([["th", ""], ["td", "num"], ["td", "num"], ["td", "reason"]]),
    (tr, job) => {
      const [name, asks, waited, reason] = tr.cells;
      setJob(name, job);
      setText(asks, devices(job.gpus * job.workers_min, job.cpus * job.workers_min));
      setText(waited, length(job.waited_s));
      setText(reason, job.because || "no decision has looked at it yet");
    });
  return list;
}

export function endedList() {
  const list = new List("ended", "v1/jobs?state=ended&order=newest&points=40&", 15, (n) => several(n, "job is over", "jobs are over"));
  list.show = (jobs) => keep(list.rows, jobs, (job) => job.id,
    () => row([["th", ""], ["td", "how"], ["td", "num"], ["td", "sparks"], ["td", "num"], ["td", "num"], ["td", "moment"]]),
    (tr, job) => {
      const [name, how, loss, curve, waited, ran, ended] = tr.cells;
      setJob(name, job);
      tag(how, job.outcome || "ended");
      const because = how.children[1] || make("span", "because soft", how);
      setText(because, job.because || "");
      setText(loss, job.loss === undefined ? "–" : number(job.loss));
      sparkline(curve, job.losses || []);
      setText(waited, length(job.waited_s));
      setText(ran, length(job.executed_s));
      setText(ended, job.ended ? clock(job.ended) : "");
    });
  return list;
}

// What fills a device, from left to right: those jobs that may be seen, and whatever else is in use.
function partsOf(held, used) {
  const seen = held.reduce((sum, part) => sum + part.share, 0);
  const other = used - seen;
  return other > 0.0005 ? [...held, { job: null, name: "", share: other }] : held;
}

// The devices of a node: each GPU, or all cores together where there are no GPUs.
function devicesOf(node) {
  if (node.gpus > 0) {
    return node.gpu_use.map((used, gpu) => {
      const held = node.holds.filter((hold) => hold.gpus.includes(gpu));
      return { what: `GPU ${gpu}`, size: 1, parts: partsOf(held, used) };
    });
  }
  const size = node.cpus || node.cpus_used;
  if (!size) return [];
  const held = node.holds.filter((hold) => hold.cpus > 0).map(({ job, name, cpus }) => ({ job, name, share: cpus / size }));
  return [{ what: several(size, "core"), size, parts: partsOf(held, node.cpus_used / size) }];
}

const who = (part) => (part.job === null ? "somebody else's job" : `job ${part.job} ${part.name.slice(0, 100)}`);

const deviceWords = ({ what, size, parts }) => {
  const of = (part) => (size > 1 ? `${number(part.share * size)} of ` : part.share < 0.9995 ? `${number(part.share * 100)} % of ` : "");
  return `${what}: ${parts.map((part) => of(part) + who(part)).join(", ") || "free"}`;
};

function setDevices(cell, node) {
  const all = devicesOf(node);
  const row = cell.firstElementChild || make("div", "devices", cell);
  row.setAttribute("role", "img");
  setAttribute(row, "aria-label", `${node.name.slice(0, 100)}: ${all.map(deviceWords).join("; ") || "nothing to hold"}`);
  keep(row, all, (device) => device.what, () => make("div", "device"), (box, device) => {
    setAttribute(box, "title", deviceWords(device));
    box.classList.toggle("cores", device.size > 1);
    keep(box, device.parts.map((part, i) => ({ ...part, key: `${part.job} ${i}` })), (part) => part.key,
      (part) => make("span", part.job === null ? "part other" : `part ${colourClass(part.job)}`),
      (piece, part) => {
        piece.style.flexBasis = `${Math.min(100, part.share * 100).toFixed(2)}%`;
        setText(piece, part.job === null ? "" : String(part.job));
      });
  });
}

export function nodesList() {
  const list = new List("nodes", "v1/nodes?", 60, (n) => several(n, "node"));
  list.show = (nodes) => keep(list.rows, nodes, (node) => node.id,
    () => row([["th", "node"], ["td", ""], ["td", ""], ["td", "there"]]),
    (tr, node) => {
      const [name, state, cells, there] = tr.cells;
      if (!name.firstElementChild) {
        make("bdi", "name", name);
        make("span", "soft", name);
      }
      setName(name.children[0], node.name);
      setText(name.children[1], node.gpu_type || "");
      tag(state, node.state);
      setDevices(cells, node);
      const jobs = [...new Map(node.holds.map((hold) => [hold.job, hold])).values()];
      const some = jobs.slice(0, 6).map((hold) => ({ ...hold, key: String(hold.job) }));
      if (jobs.length > some.length) some.push({ key: "more", more: jobs.length - some.length });
      keep(there, some, (hold) => hold.key,
        (hold) => (hold.more ? make("span", "soft") : jobLink(hold.job, hold.name)),
        (one, hold) => hold.more && setText(one, `and ${hold.more} more`));
    });
  return list;
}
