// The live page: signs in, follows the steps of the daemon, and asks anew for what is shown, at most twice a second.

import { Away, Client, Refused, forgetToken, keepToken, takeToken } from "./client.js";
import { addStep, clearLog } from "./log.js";
import { byId, count, keep, make, number, setText, several } from "./make.js";
import { closeJob, showJob } from "./job.js";
import { endedList, nodesList, queueList, runningList } from "./lists.js";

// Everything is asked for at most so often, and less often where that takes long.
const GAP_MS = 500;
const EASE = 4;
// After the last step it is asked once more, since a step is told a little before its effects can be seen.
const SETTLE_MS = 1500;
// Without any step, too: waiting times go on.
const IDLE_MS = 10_000;
// After a gap of more steps than that they are not asked for one by one.
const LONGEST_GAP = 400;
// Over this time decisions are counted to say how many there are a second.
const RATE_MS = 30_000;

const lists = { running: runningList(), queue: queueList(), nodes: nodesList(), ended: endedList() };
let client = null;
let selected = null;
let decisions = [];

// Asks for all that is shown, again and again, but never twice at one time.
class Refresher {
  constructor(work) {
    Object.assign(this, { work, timer: 0, isBusy: false, isDue: false, took: 0, ended: -Infinity });
  }

  soon() {
    this.isDue = true;
    if (this.isBusy || this.timer || document.hidden) return;
    const gap = Math.max(GAP_MS, EASE * this.took);
    this.timer = setTimeout(() => this.#run(), Math.max(50, this.ended + gap - performance.now()));
  }

  async #run() {
    Object.assign(this, { timer: 0, isBusy: true, isDue: false });
    const began = performance.now();
    await this.work().catch(reportError);
    this.ended = performance.now();
    this.took = this.ended - began;
    this.isBusy = false;
    if (this.isDue) this.soon();
  }
}

const refresher = new Refresher(refresh);
let settling = 0;
let idling = 0;

function stir() {
  refresher.soon();
  clearTimeout(settling);
  settling = setTimeout(() => refresher.soon(), SETTLE_MS);
}

async function refresh() {
  const asked = client;
  if (!asked) return;
  clearTimeout(idling);
  idling = setTimeout(() => refresher.soon(), IDLE_MS);
  try {
    const [summary] = await Promise.all([
      asked.ask("v1/summary"),
      ...Object.values(lists).map((list) => list.refresh(asked)),
    ]);
    if (asked !== client) return;
    asked.mayWrite = summary.role !== "viewer";
    glance(summary);
    if (selected !== null) await oneJob(asked);
    markSelected();
    document.body.dataset.refreshed = String(Number(document.body.dataset.refreshed || 0) + 1);
  } catch (error) {
    if (asked !== client || asked.ended) return;
    if (error instanceof Refused && error.status === 401) signOut(refusedWords(asked));
    else if (error instanceof Refused) trouble(error.message);
    else if (!(error instanceof Away)) throw error;
    // That the daemon is away is told by the stream of steps.
  }
}

// Which job is shown can be seen wherever it is named.
function markSelected() {
  for (const link of document.querySelectorAll("a.job")) {
    if (Number(link.dataset.job) === selected) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

async function oneJob(asked) {
  try {
    await showJob(asked, selected);
  } catch (error) {
    if (!(error instanceof Refused) || error.status === 401) throw error;
    closeJob();
    setText(byId("job-none"), `Job ${selected}: ${error.message}.`);
  }
}

function trouble(words) {
  byId("trouble").hidden = !words;
  setText(byId("trouble"), words || "");
}

// Decisions a second, over the last half minute.
function rate(total) {
  const now = performance.now();
  if (decisions.length && total < decisions.at(-1)[1]) decisions = [];
  decisions.push([now, total]);
  while (decisions.length > 2 && now - decisions[0][0] > RATE_MS) decisions.shift();
  const [then, before] = decisions[0];
  return now - then < 1000 ? null : (total - before) / ((now - then) / 1000);
}

function glance(summary) {
  const { jobs, nodes } = summary;
  const holding = jobs.running + jobs.starting + jobs.stopping;
  const all = holding + jobs.waiting + jobs.ended;
  const a_second = rate(summary.decisions);
  const used = (what, part, of) => [`${what} in use`, `${number(Number(part.toFixed(2)))} of ${count(of)}`, of > 0 ? `${Math.round((100 * part) / of)} %` : ""];
  const moving = [[jobs.starting, "starting"], [jobs.stopping, "stopping"]].filter(([n]) => n).map(([n, word]) => `${n} ${word}`);
  const down = Object.entries(nodes).filter(([state]) => state !== "up").map(([state, n]) => `${n} ${state}`);
  const tiles = [
    ["policy", summary.policy.name, summary.draining ? "takes no new jobs" : summary.cluster],
    ["running", count(holding), moving.join(", ") || `${several(all, "job")} in all`],
    ["waiting", count(jobs.waiting), ""],
    ["ended", count(jobs.ended), ""],
    ...(summary.gpus > 0 ? [used("GPUs", summary.gpus_used, summary.gpus)] : []),
    ...(summary.gpus > 0 || !(summary.cpus > 0) ? [] : [used("CPUs", summary.cpus_used, summary.cpus)]),
    ["nodes up", `${count(nodes.up || 0)} of ${count(Object.values(nodes).reduce((a, b) => a + b, 0))}`, down.join(", ")],
    ["decisions", count(summary.decisions), a_second === null ? "" : `${number(Number(a_second.toFixed(2)))} a second`],
  ];
  keep(byId("tiles"), tiles, ([label]) => label, ([label]) => {
    const tile = make("div");
    make("dt", "", tile).textContent = label;
    make("dd", "", tile);
    make("dd", "meaning", tile);
    return tile;
  }, (tile, [, value, meaning]) => {
    setText(tile.children[1], value);
    setText(tile.children[2], meaning);
  });
  lists.running.tell(holding);
  lists.queue.tell(jobs.waiting);
  lists.ended.tell(jobs.ended);
  lists.nodes.tell(Object.values(nodes).reduce((a, b) => a + b, 0));
  setText(byId("who"), `${summary.role}${summary.tenant ? ` of ${summary.tenant}` : ", all tenants"}`);
  document.title = `${holding} running, ${jobs.waiting} waiting: Trainyard`;
  setText(byId("version"), `Trainyard ${summary.version}`);
  trouble(summary.stalled && `The journal cannot be written, so nothing is decided: ${summary.stalled}`);
}

// The seconds until the next try are for the eye only.
function stand(state, seconds) {
  byId("state").dataset.state = state;
  setText(byId("state-word"), state.replace("-", " "));
  setText(byId("state-more"), state === "reconnecting" ? `, next try in ${seconds} s` : "");
}

const refusedWords = (own) =>
  own.wasLive
    ? "The daemon does not take this token any more. Ask an operator for another."
    : "The daemon does not know this token. Check that all of it was copied, or ask an operator for another.";

const show = (...ids) => ids.forEach((id) => (byId(id).hidden = false));
const hide = (...ids) => ids.forEach((id) => (byId(id).hidden = true));

function signOut(words) {
  client?.end();
  client = null;
  forgetToken();
  clearTimeout(settling);
  clearTimeout(idling);
  clearLog();
  closeJob();
  for (const list of Object.values(lists)) {
    list.rows.replaceChildren();
    list.afters = [null];
  }
  byId("tiles").replaceChildren();
  document.title = "Trainyard: live cluster";
  hide("live", "contents", "leave", "who");
  show("sign-in");
  byId("refusal").hidden = !words;
  setText(byId("refusal"), words || "");
  stand(words ? "refused" : "signed-out");
  byId("token").value = "";
  byId("token").focus();
}

// Signs in with a token, if the daemon knows it.
async function signIn(token) {
  client?.end();
  const own = new Client(token, (state, more) => {
    if (own !== client) return;
    if (state === "refused") return signOut(refusedWords(own));
    stand(state, more);
    if (state !== "live") return;
    own.wasLive = true;
    show("live", "contents", "who");
    stir();
  });
  client = own;
  keepToken(token);
  stand("connecting");
  decisions = [];
  clearLog();
  hide("sign-in");
  show("leave");
  await own.follow((last) => begin(own, last), (step) => {
    addStep(step);
    stir();
  });
}

// After which step to follow: the last one that was seen, unless too much has happened since, or the daemon begins anew.
// Then the log begins anew, too.
async function begin(own, last) {
  const { steps, latest } = await own.ask("v1/steps");
  if (last !== null && last <= latest && latest - last <= LONGEST_GAP) return last;
  clearLog();
  steps.forEach(addStep);
  return latest;
}

// Which job is shown stands in the address, so that it can be kept and gone back from.
function select(job, isNew) {
  selected = job;
  const query = job === null ? location.pathname : `?job=${job}`;
  if (isNew) history.pushState(null, "", query);
  markSelected();
  if (job === null) closeJob();
  else refresher.soon();
}

function jobOfAddress() {
  const word = new URLSearchParams(location.search).get("job");
  return /^\d{1,9}$/.test(word || "") ? Number(word) : null;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a.job");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  select(Number(link.dataset.job), true);
  const panel = byId("job");
  panel.focus({ preventScroll: true });
  if (matchMedia("(max-width: 70rem)").matches) panel.scrollIntoView();
});
window.addEventListener("popstate", () => select(jobOfAddress(), false));
window.addEventListener("hashchange", () => {
  if (!location.hash.includes("token=")) return;
  const token = takeToken();
  if (token) signIn(token);
});
document.addEventListener("visibilitychange", () => refresher.isDue && refresher.soon());
for (const list of Object.values(lists)) list.turned = () => refresher.soon();
byId("job-close").addEventListener("click", () => select(null, true));
byId("leave").addEventListener("click", () => signOut());
byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = byId("token").value.trim();
  if (!/^[!-~]+$/.test(token)) signOut("A token has letters, digits and signs only. Copy it again.");
  else signIn(token);
});

selected = jobOfAddress();
const token = takeToken();
if (token) signIn(token);
else signOut();
