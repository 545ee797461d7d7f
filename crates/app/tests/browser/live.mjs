// Tells stories about the live page to a real browser and prints what went wrong, as one JSON document on the last line:
//   { "found": [[check, what], ...], "told": [story, ...] }
// Usage: node live.mjs '{"chromium", "pictures", "url", "admin", "place", "stories", "plant", "patience_ms"}'
// It decides nothing; the test that starts it does, and it ends and begins the daemon when it is asked to.
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { chromium } from "playwright-core";
import { alternatives, contrast, headings, overflow, structure } from "./inspect.mjs";

const given = JSON.parse(process.argv[2]);
const found = [];
const told = [];
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const browser = await chromium.launch({ executablePath: given.chromium, args: ["--no-sandbox"] });
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
process.removeAllListeners("warning");

const say = (check, what) => found.push([check, String(what).slice(0, 600)]);

async function tellTest(what) {
  console.log(what);
  await lines.next();
}

// Asks the daemon as any client does.
async function api(method, place, body, token = given.admin) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const response = await fetch(given.url + place, { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${place}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

// Waits until something holds, and says so if it does not.
async function until(check, what, look) {
  const end = Date.now() + given.patience_ms;
  let last;
  do {
    last = await look();
    if (last) return last;
    await new Promise((done) => setTimeout(done, 50));
  } while (Date.now() < end);
  say(check, `${what} does not happen: ${last}`);
  if (given.plant) throw new Error("one fault is enough");
  return null;
}

// A page in a context of its own. What goes wrong in it is noted; `expects` are beginnings of messages that belong to the
// story. What a planted fault asks for elsewhere must be seen even where the browser would not be there to refuse it.
async function open(options, work, expects = []) {
  const bypassCSP = Boolean(given.plant?.[2].includes("//"));
  const context = await browser.newContext({ viewport: { width: 1400, height: 1000 }, ignoreHTTPSErrors: true, bypassCSP, ...options });
  const page = await context.newPage();
  const asked = [];
  page.on("request", (request) => {
    asked.push([request.url(), Date.now(), request.headers().authorization]);
    if (new URL(request.url()).origin !== given.url) say("network", request.url());
  });
  const isExpected = (text) => expects.some((part) => text.includes(part));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && !isExpected(message.text()) && say("console", message.text()));
  page.on("pageerror", (error) => say("console", error.message));
  page.setDefaultTimeout(given.patience_ms);
  if (given.plant) {
    const [file, from, to] = given.plant;
    await page.route(`**/page/${file}`, async (route) => {
      const response = await route.fetch();
      const text = await response.text();
      if (!text.includes(from)) throw new Error(`${file} lacks ${from}`);
      await route.fulfill({ response, body: text.replace(from, () => to) });
    });
  }
  try {
    await work(page, asked);
  } catch (error) {
    say("crash", error.stack);
  }
  await context.close();
}

const state = (page) => page.locator("#state").getAttribute("data-state");
const isLive = (page) => until("state", "live", async () => (await state(page)) === "live");
const textOf = (page, selector) => page.locator(selector).evaluate((one) => one.innerText);
const shows = (page, check, selector, words) =>
  until(check, `${selector} shows ${words}`, async () => (await page.locator(selector).count()) > 0 && (await textOf(page, selector)).includes(words));
const kept = (page) => page.evaluate(() => [sessionStorage.length, localStorage.length, document.cookie.length].join());

async function signedIn(options, token, work, expects) {
  await open(options, async (page, asked) => {
    await page.goto(`${given.url}/#token=${token}`);
    await isLive(page);
    await work(page, asked);
  }, expects);
}

// A job that reports losses until a file is there.
function training(name, release, more) {
  const report = 'i=$((i+1)); printf "{\\"iteration\\": %d, \\"loss\\": %d.%d}\\n" $i $((200 / i)) $((i % 7)) >> "$TRAINYARD_PROGRESS_FILE"; sleep 0.1';
  return { name, tenant: "crimson", cpus: 0.1, gpus: 0, iterations: 1000, command: ["sh", "-c", `i=0; while [ ! -e '${release}' ]; do ${report}; done`], ...more };
}

// A job whose accuracy grows, and that goes on from where it was. It has had enough at a fifth.
function learning(name, more) {
  const learn = 'I=$TRAINYARD_RESUME_ITERATION; while [ $I -lt 40 ]; do I=$((I+1)); A=$(printf "0.%02d" $((I*2))); ' +
    'echo "{\\"iteration\\":$I,\\"saved\\":$I,\\"accuracy\\":$A}" >> "$TRAINYARD_PROGRESS_FILE"; sleep 0.1; done';
  return { name, tenant: "crimson", cpus: 0.1, gpus: 1, iterations: 1000, stop: { accuracy: 0.2 }, command: ["sh", "-c", learn], ...more };
}

const sleeping = (name, more) => ({ name, tenant: "crimson", cpus: 0.1, gpus: 0, command: ["sleep", "1000"], ...more });
const submit = async (job, token) => (await api("POST", "/v1/jobs", job, token)).job.id;
const cancel = (job) => api("DELETE", `/v1/jobs/${job}`);

async function clear() {
  const { jobs } = await api("GET", "/v1/jobs?state=active&limit=1000");
  for (const job of jobs) await cancel(job.id);
  await until("clear", "all over", async () => (await api("GET", "/v1/jobs?state=active")).jobs.length === 0);
}

const stories = {
  // The page holds nothing and asks for nothing before there is a token, which is then kept for the tab only.
  async signs_in() {
    await open({}, async (page, asked) => {
      await page.goto(`${given.url}/`);
      await page.locator("#token").waitFor();
      if (asked.some(([url]) => url.includes("/v1/"))) say("token", "something is asked for without one");
      await page.locator("#token").fill(given.admin);
      await page.keyboard.press("Enter");
      await isLive(page);
      await shows(page, "sign-in", "#tiles", "nodes up");
      await shows(page, "sign-in", "#who", "admin");
      if ((await kept(page)) !== "1,0,0") say("token", `kept in ${await kept(page)}`);
      if (asked.some(([url]) => url.includes(given.admin))) say("token", "it is in an address");
      await page.locator("#leave").click();
      await page.locator("#token").waitFor();
      if ((await kept(page)) !== "0,0,0" || (await page.locator("#tiles").innerText())) say("token", "signing out leaves something");
    });
  },

  // A token in the fragment is taken out of the address and out of the history.
  async fragment() {
    await open({}, async (page) => {
      await page.goto(`${given.url}/?job=7#token=${given.admin}`);
      await isLive(page);
      if (page.url() !== `${given.url}/?job=7`) say("token", `the address is ${page.url()}`);
      await page.reload();
      await isLive(page);
      await page.goto("about:blank").catch(() => {});
      await page.goBack();
      if (page.url().includes("token")) say("token", `the history has ${page.url()}`);
    }, ["404"]);
  },

  async wrong_token() {
    await open({}, async (page) => {
      await page.goto(`${given.url}/#token=trainyard_wrong`);
      await shows(page, "refused", "#refusal", "does not know this token");
      if ((await state(page)) !== "refused" || (await kept(page)) !== "0,0,0") say("refused", `${await state(page)} ${await kept(page)}`);
      if (await page.locator("#live").isVisible()) say("refused", "the lists are to be seen");
      await page.locator("#token").fill("two words");
      await page.keyboard.press("Enter");
      await shows(page, "refused", "#refusal", "Copy it again");
      await page.locator("#token").fill(given.admin);
      await page.keyboard.press("Enter");
      await isLive(page);
      if (await page.locator("#refusal").isVisible()) say("refused", "the refusal stays");
    }, ["401"]);
  },

  // A job comes, waits or runs, reports losses and ends, all before one's eyes.
  async follows() {
    await signedIn({}, given.admin, async (page) => {
      await page.evaluate(() => (document.body.dataset.mark = "the same page"));
      const release = path.join(given.place, `release-${Date.now()}`);
      const job = await submit(training("resnet", release));
      const all = await submit(sleeping("large", { gpus: 1, workers: 8 }));
      const waits = await submit(sleeping("patient", { gpus: 1, workers: 8 }));
      const row = `#running-rows tr[data-key="${job}"]`;
      await shows(page, "running", row, "resnet");
      await shows(page, "running", row, "running");
      await until("losses", "a sparkline", async () => await page.locator(`${row} .spark path`).count());
      const { because } = await api("GET", `/v1/jobs/${waits}`);
      await shows(page, "queue", `#queue-rows tr[data-key="${waits}"]`, because);
      await shows(page, "queue", "#queue-pager", "1 job waits");
      await shows(page, "nodes", '#nodes-rows tr[data-key="2"]', "resnet");
      const gpus = () => page.locator('#nodes-rows tr[data-key="0"] .part').evaluateAll((parts) => parts.map((part) => part.textContent).join());
      await until("nodes", "four GPUs of one job", async () => (await gpus()) === Array(4).fill(all).join());
      const colours = await page.locator(`a[data-job="${all}"] .swatch, #nodes-rows .part:text-is("${all}")`).evaluateAll((all) => [...new Set(all.map((one) => getComputedStyle(one).backgroundColor + getComputedStyle(one).backgroundImage))]);
      if (colours.length !== 1) say("nodes", `a job has the colours ${colours}`);

      await page.locator(`${row} a.job`).click();
      await shows(page, "job", "#job-card", "resnet");
      await shows(page, "job", "#job-card .words", "runs at");
      await until("losses", "a curve", async () => ((await page.locator("#job-card path.curve").getAttribute("d")) || "").includes("L"));
      const before = await textOf(page, "#job-card figcaption");
      await until("losses", "a curve that goes on", async () => (await textOf(page, "#job-card figcaption")) !== before);
      await page.locator("#job-card .canvas").focus();
      await page.keyboard.press("Home");
      await shows(page, "losses", "#job-card .readout", "iteration 1: loss 200.1");
      const { width, height } = await page.locator("#job-card .canvas").boundingBox();
      await page.locator("#job-card .canvas").hover({ position: { x: width - 2, y: height / 2 } });
      await until("losses", "a value under the pointer", async () => !(await textOf(page, "#job-card .readout")).includes("iteration 1:"));

      fs.writeFileSync(release, "");
      await shows(page, "ended", `#ended-rows tr[data-key="${job}"]`, "completed");
      await shows(page, "job", "#job-card .job-head", "completed");
      const entries = () => page.locator(`#log li:has(a[data-job="${job}"])`).allInnerTexts();
      for (const words of ["was submitted", "shall start with 1 worker on cores", "because it is its turn", "is over: completed"]) {
        await until("log", words, async () => (await entries()).some((text) => text.replace(/\s+/g, " ").includes(words)));
      }
      await page.goBack();
      await until("job", "that the way back closes it", async () => !(await page.locator("#job-card").isVisible()));
      if ((await page.evaluate(() => document.body.dataset.mark)) !== "the same page") say("follows", "it was loaded again");
    });
  },

  // Nothing of another tenant is anywhere in the page, while what is in use is.
  async tenants() {
    await submit(sleeping("secret", { gpus: 1, workers: 2 }));
    const token = (await api("POST", "/v1/tokens", { role: "user", tenant: "azure" })).token;
    const own = await submit(sleeping("mine", { tenant: "azure", gpus: 1 }), token);
    await signedIn({}, token, async (page) => {
      await shows(page, "tenants", `#running-rows tr[data-key="${own}"]`, "mine");
      await shows(page, "tenants", "#who", "user of azure");
      await until("tenants", "devices in use by others", async () => (await page.locator("#nodes-rows .other").count()) === 2);
      await until("tenants", "its own step", async () => await page.locator(`#log a[data-job="${own}"]`).count());
      const all = await page.evaluate(() => document.documentElement.outerHTML);
      for (const word of ["secret", "crimson"]) if (all.includes(word)) say("tenants", `${word} is in the page`);
      const rows = await page.locator("#running-rows tr").count();
      if (rows !== 1) say("tenants", `${rows} jobs run`);
    });
  },

  async withdrawn() {
    const made = await api("POST", "/v1/tokens", { role: "viewer" });
    await signedIn({}, made.token, async (page) => {
      await shows(page, "withdrawn", "#who", "viewer");
      await api("DELETE", `/v1/tokens/${made.id}`);
      await shows(page, "withdrawn", "#refusal", "any more");
      if ((await kept(page)) !== "0,0,0" || (await page.locator("#tiles").innerText())) say("withdrawn", "something stays");
    }, ["401"]);
  },

  // What cut a job short is told to all who see it, and those who may write take it up again.
  async early() {
    const job = await submit(learning("learner"));
    const cut = await until("early", "cut short", async () => {
      const now = await api("GET", `/v1/jobs/${job}`);
      return now.cut_short && now;
    });
    const look = async (token, work) => {
      await open({}, async (page, asked) => {
        await page.goto(`${given.url}/?job=${job}#token=${token}`);
        await isLive(page);
        await shows(page, "early", "#job-card .early", `It was ${cut.because}.`);
        await shows(page, "early", `#ended-rows tr[data-key="${job}"]`, cut.because);
        await work(page, page.locator("#job-card .early button"), asked);
      }, ["409"]);
    };
    for (const words of ["stopped at 0.2", "of 0.200 needed", "GPU-hours saved"]) if (!cut.because.includes(words)) say("early", cut.because);
    const viewer = (await api("POST", "/v1/tokens", { role: "viewer", tenant: "crimson" })).token;
    await look(viewer, async (page, button) => {
      if (await button.isVisible()) say("early", "who may only look has a button");
    });
    const owner = (await api("POST", "/v1/tokens", { role: "user", tenant: "crimson" })).token;
    await look(owner, async (page, button, asked) => {
      // A daemon that refuses is quoted, and may be asked again.
      const problem = { detail: "<b>not now</b>", try: "wait a little" };
      await page.route("**/resume", (route) => route.fulfill({ status: 409, contentType: "application/problem+json", json: problem }));
      await button.click();
      await shows(page, "early", "#job-card .early", "<b>not now</b>; wait a little");
      await page.unroute("**/resume");
      await button.focus();
      await page.keyboard.press("Enter");
      await until("early", "that it is taken up", async () => !(await page.locator("#job-card .early").isVisible()));
      if ((await page.evaluate(() => document.activeElement.id)) !== "job") say("early", "the focus is lost");
      await until("early", "the step", async () => (await page.locator("#log").innerText()).includes("was taken up again"));
      await shows(page, "early", "#job-card .job-head", "completed");
      if (await page.locator("#job-card .early").isVisible()) say("early", "it is told as if it had been cut short again");
      const orders = asked.filter(([url]) => url.endsWith("/resume"));
      if (orders.length !== 2 || orders.some(([, , header]) => header !== `Bearer ${owner}`)) say("early", `the orders are ${JSON.stringify(orders)}`);
    });
    const ended = await api("GET", `/v1/jobs/${job}`);
    if (ended.outcome !== "completed" || ended.attempt !== 2) say("early", JSON.stringify(ended));
  },

  // Of a job of tasks it is shown where each of them is, and what those without a place ask for.
  async tasks() {
    const job = await submit(sleeping("graph", { cpus: undefined, gpus: undefined, tasks: [{ cpus: 0.5 }, { gpus: 1 }, { cpus: 0.25 }] }));
    const { nodes } = await until("tasks", "running", async () => {
      const now = await api("GET", `/v1/jobs/${job}`);
      return now.state === "running" && now;
    });
    await open({}, async (page) => {
      // This daemon gives a place to all or none; another has one task waiting and one on its way.
      let isMixed = false;
      await page.route(`**/v1/jobs/${job}`, async (route) => {
        const response = await route.fetch();
        const shown = await response.json();
        if (isMixed) {
          shown.tasks_placed = 2;
          shown.each_task[2] = { task: 2, state: "waiting", cpus: 0.25, gpus: 0, memory_bytes: 0 };
          Object.assign(shown.each_task[0], { state: "moving", node: "n<0>", to: "n1" });
        }
        await route.fulfill({ response, json: shown });
      });
      await page.goto(`${given.url}/?job=${job}#token=${given.admin}`);
      await isLive(page);
      await shows(page, "tasks", "#job-card .facts", `a place for 3 of 3 tasks on ${nodes.join(", ")}`);
      await shows(page, "tasks", "#running-rows", "a place for 3 of 3 tasks");
      const rows = () => page.locator("#job-card .tasks tbody tr").allInnerTexts();
      const cells = async () => (await rows()).map((row) => row.replace(/\s+/g, " ").trim());
      const all = await until("tasks", "three rows", async () => (await cells()).length === 3 && (await cells()));
      if (!all.every((row, i) => row.startsWith(`${i} running `)) || !all[1].endsWith(", GPU 0")) say("tasks", all.join("; "));
      isMixed = true;
      await shows(page, "tasks", "#job-card .facts", "a place for 2 of 3 tasks");
      const mixed = await cells();
      if (mixed[0] !== "0 moving n<0>, and shall be on n1" || mixed[2] !== "2 waiting asks for 0.25 CPUs") say("tasks", mixed.join("; "));
      for (const look of [structure, overflow]) for (const what of await page.evaluate(look)) say("tasks", what);
    });
    const plain = await submit(sleeping("plain"));
    await signedIn({}, given.admin, async (page) => {
      await page.locator(`#running-rows a[data-job="${plain}"]`).click();
      await shows(page, "tasks", "#job-card", "plain");
      if (await page.locator("#job-card .tasks").isVisible()) say("tasks", "a job without tasks has a list of them");
    });
  },

  // Names are text, however they look and however long they are.
  async hostile() {
    const names = ["<img src=x onerror=window.got=1>", '"><script>window.got=1<\u2028script>', "\u202egnihton", "a & b &lt; c", "x".repeat(200)];
    const jobs = [];
    for (const name of names) jobs.push(await submit(sleeping(name, { command: ["sleep", "1000", name].slice(0, 2) })));
    await submit(sleeping("filler", { gpus: 1, workers: 8 }));
    const waits = await submit(sleeping("<b>waits", { gpus: 1, workers: 8 }));
    for (const width of [1400, 360]) {
      await open({ viewport: { width, height: 900 } }, async (page) => {
        // What this daemon would not take as a name, another might.
        await page.route("**/v1/jobs?state=waiting*", async (route) => {
          const response = await route.fetch();
          const list = await response.json();
          for (const job of list.jobs) [job.name, job.tenant, job.because] = ["long ".repeat(2000), "y".repeat(10_000), "<i>z</i>".repeat(500)];
          await route.fulfill({ response, json: list });
        });
        await page.goto(`${given.url}/?job=${jobs[0]}#token=${given.admin}`);
        await isLive(page);
        for (const [i, name] of names.entries()) {
          const cell = `#running-rows tr[data-key="${jobs[i]}"] .name`;
          await until("hostile", `the name ${name}`, async () => (await page.locator(cell).count()) && (await page.locator(cell).textContent()) === name);
        }
        await shows(page, "hostile", "#job-card", "sleep");
        await until("hostile", "a long name", async () => ((await page.locator(`#queue-rows tr[data-key="${waits}"] .name`).textContent()) || "").startsWith("long long"));
        if (await page.evaluate(() => window.got || document.querySelector("main img, main b, main i:not(.swatch), main script"))) say("hostile", "a name became markup");
        for (const what of await page.evaluate(overflow)) say("overflow", `${width} px: ${what}`);
      });
    }
  },

  // All can be reached and read without a pointer, and nothing moves that should not.
  async keyboard() {
    const job = await submit(training("by-keyboard", path.join(given.place, "never")));
    await signedIn({ reducedMotion: "reduce" }, given.admin, async (page) => {
      await shows(page, "keyboard", `#running-rows tr[data-key="${job}"]`, "by-keyboard");
      const link = page.locator(`#running-rows a[data-job="${job}"]`);
      await link.focus();
      await page.keyboard.press("Enter");
      await shows(page, "keyboard", "#job-card", "by-keyboard");
      await until("keyboard", "a curve", async () => await page.locator("#job-card path.curve").getAttribute("d"));
      for (const [check, look] of Object.entries({ headings, alternatives, structure })) {
        for (const what of await page.evaluate(look)) say(check, what);
      }
      const moves = await page.evaluate(() => [...document.querySelectorAll("*")].some((one) => {
        const { animationName, transitionDuration } = getComputedStyle(one);
        return animationName !== "none" || parseFloat(transitionDuration) > 0;
      }));
      if (moves) say("motion", "something moves although less motion was asked for");
      await page.locator(".skip").focus();
      const reached = new Set();
      for (let stops = 0; stops < 120; stops++) {
        await page.keyboard.press("Tab");
        const focus = await page.evaluate(() => {
          const one = document.activeElement;
          const { outlineStyle, outlineWidth } = getComputedStyle(one);
          const section = one.closest("section, nav, header");
          return { place: section ? section.id || section.tagName : "", name: one.outerHTML.slice(0, 90), visible: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 };
        });
        if (reached.size > 3 && focus.place === "") break;
        reached.add(focus.place);
        if (focus.place && !focus.visible) say("focus", `no outline on ${focus.name}`);
      }
      for (const place of ["contents", "running", "queue", "nodes", "ended", "job", "decisions"]) if (!reached.has(place)) say("focus", `${place} is not reached: ${[...reached]}`);
      // What is renewed does not take the focus away.
      await link.focus();
      const before = Number(await page.evaluate(() => document.body.dataset.refreshed));
      await until("keyboard", "three renewals", async () => Number(await page.evaluate(() => document.body.dataset.refreshed)) > before + 3);
      if (!(await link.evaluate((one) => one === document.activeElement))) say("focus", "a renewal takes it away");
    });
  },

  // Light, dark, wide and narrow; pictures are left to be looked at.
  async looks() {
    const jobs = [];
    for (const [name, workers] of [["resnet50", 2], ["bert-large", 3], ["gpt-small", 2]]) {
      jobs.push(await submit(training(name, path.join(given.place, "never"), { gpus: 1, workers })));
    }
    for (const name of ["waits-for-four", "waits-too"]) jobs.push(await submit(sleeping(name, { gpus: 1, workers: 4, tenant: "azure" })));
    for (const colorScheme of ["light", "dark"]) {
      for (const width of [1400, 360]) {
        await open({ colorScheme, viewport: { width, height: 900 } }, async (page) => {
          await page.goto(`${given.url}/`);
          await page.locator("#token").waitFor();
          await page.screenshot({ path: path.join(given.pictures, `sign-in-${colorScheme}-${width}.png`) });
          await page.goto(`${given.url}/?job=${jobs[0]}#token=${given.admin}`);
          await isLive(page);
          await until("looks", "a curve", async () => (await page.locator("#job-card path.curve[d]").count()) && (await page.locator("#queue-rows tr").count()));
          await page.screenshot({ path: path.join(given.pictures, `page-${colorScheme}-${width}.png`), fullPage: true });
          for (const what of await page.evaluate(overflow)) say("overflow", `${width} px: ${what}`);
          for (const what of await page.evaluate(contrast)) say("contrast", `${colorScheme}: ${what}`);
        });
      }
    }
  },

  // Long lists are shown in parts, and a burst of steps is not a burst of questions.
  async many() {
    await submit(sleeping("filler", { gpus: 1, workers: 8 }));
    await signedIn({}, given.admin, async (page, asked) => {
      const began = Date.now();
      for (let i = 0; i < 120; i++) await submit(sleeping(`many-${i}`, { gpus: 1, workers: 8 }));
      await shows(page, "many", "#queue-pager", "1 to 50 of 120 jobs wait");
      const rounds = asked.filter(([url, at]) => url.endsWith("/v1/summary") && at >= began).length;
      if (rounds > 3 + (Date.now() - began) / 500) say("pace", `${rounds} rounds in ${Date.now() - began} ms`);
      const names = () => page.locator("#queue-rows .name").allInnerTexts();
      if ((await names()).length !== 50) say("many", `${(await names()).length} rows`);
      await page.locator("#queue-pager button", { hasText: "Next" }).click();
      await shows(page, "many", "#queue-pager", "51 to 100 of 120 jobs wait");
      if ((await names())[0] !== "many-50") say("many", `the second part begins with ${(await names())[0]}`);
      await page.locator("#queue-pager button", { hasText: "Previous" }).click();
      await until("many", "the first part again", async () => (await names())[0] === "many-0");
    });
  },

  // The daemon goes and comes back; the page says so and goes on by itself, without a step lost or told twice.
  async restart() {
    await signedIn({}, given.admin, async (page) => {
      await page.evaluate(() => (document.body.dataset.mark = "the same page"));
      const before = await submit(sleeping("before"));
      await shows(page, "restart", `#running-rows tr[data-key="${before}"]`, "before");
      await tellTest("end the daemon");
      await until("restart", "a word about it", async () => (await state(page)) === "reconnecting");
      await tellTest("begin the daemon");
      const after = await submit(sleeping("after"));
      await until("restart", "live again", async () => (await state(page)) === "live");
      await shows(page, "restart", `#running-rows tr[data-key="${after}"]`, "after");
      await until("restart", "the step after it", async () => await page.locator(`#log a[data-job="${after}"]`).count());
      const steps = await page.locator("#log .when").allInnerTexts();
      const numbers = steps.map((text) => Number(/step (\d+)/.exec(text)[1]));
      if (numbers.some((number, i) => i && number >= numbers[i - 1])) say("restart", `the steps are ${numbers}`);
      if ((await page.evaluate(() => document.body.dataset.mark)) !== "the same page") say("restart", "it was loaded again");
    }, ["net::ERR_", "502"]);
  },
};

for (const name of given.stories) {
  try {
    await clear();
    await stories[name]();
  } catch (error) {
    say("crash", `${name}: ${error.stack}`);
  }
  told.push(name);
}
await clear();
await browser.close();
console.log(JSON.stringify({ found, told }));
process.exit(0);
