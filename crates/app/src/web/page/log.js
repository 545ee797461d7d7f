// What happened and what was decided, as it comes.

import { byId, clock, jobLink, make } from "./make.js";

// So many entries are kept.
const MOST = 200;
// Of one step so many things are told.
const MOST_OF_STEP = 12;

// What is said of each thing; `detail` and `nodes` go where they are named.
const HAPPENED = {
  submitted: "was submitted",
  withdrawn: "was taken back",
  resumed: "was taken up again",
  started: "runs",
  start_failed: "could not be started",
  resized: "has its new size",
  stopped: "has stopped",
  merged: "has merged",
  lost: "was lost",
  ended: "is over: DETAIL",
};
const ORDERED = {
  start: "shall start with DETAIL on NODES",
  stop: "shall stop",
  resize: "shall have DETAIL on NODES",
  merge: "shall merge",
};
const WITHOUT_JOB = {
  node_changed: "node NODES is DETAIL",
  policy_changed: "policy DETAIL decides from now on",
  cycle_lost: "a cycle was lost: DETAIL",
};

function words(pattern, happening) {
  const nodes = happening.nodes || [];
  const named = nodes.slice(0, 4).join(", ") + (nodes.length > 4 ? ` and ${nodes.length - 4} more` : "");
  const detail = (happening.detail || "").replaceAll("_", " ").slice(0, 300);
  return pattern.replace("DETAIL", () => (detail === "1 workers" ? "1 worker" : detail)).replace("NODES", () => named);
}

function tell(parent, happening, table, kind) {
  const line = make("p", kind, parent);
  const pattern = table[happening.what] || WITHOUT_JOB[happening.what] || happening.what.replaceAll("_", " ");
  if (happening.job !== undefined) {
    jobLink(happening.job, happening.name, line);
    line.append(" ");
  }
  make("span", "", line).textContent = words(pattern, happening);
  if (happening.because) make("span", "soft because", line).textContent = `because ${happening.because}`;
}

// Progress is what the curves show, and a job that finished is told as one that is over.
const isTold = (happening) => happening.what !== "progress" && happening.what !== "finished";

export function addStep(step) {
  const happened = step.happened.filter(isTold).map((one) => [one, HAPPENED, "happened"]);
  const ordered = step.ordered.map((one) => [one, ORDERED, "ordered"]);
  const all = [...happened, ...ordered];
  if (all.length === 0) return;
  const log = byId("log");
  const entry = make("li");
  const head = make("p", "when soft", entry);
  const time = make("time", "", head);
  time.dateTime = step.time;
  time.textContent = clock(step.time);
  head.append(` step ${step.id}`);
  if (ordered.length) make("span", "tag", head).textContent = "decided";
  for (const [one, table, kind] of all.slice(0, MOST_OF_STEP)) tell(entry, one, table, kind);
  if (all.length > MOST_OF_STEP) make("p", "soft", entry).textContent = `and ${all.length - MOST_OF_STEP} more`;
  log.prepend(entry);
  while (log.children.length > MOST) log.lastElementChild.remove();
}

export function clearLog() {
  byId("log").replaceChildren();
}
