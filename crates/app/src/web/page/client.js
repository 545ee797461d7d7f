// The way to the daemon: a token, questions, and the stream of its steps.

const KEPT = "trainyard-token";
// The daemon says something at least every 15 s, be it only that it is there.
const SILENCE_MS = 40_000;
const QUESTION_MS = 35_000;

// Where a browser allows no storage, a token lives as long as the page.
const storage = (() => {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
})();

// What the daemon refused, with its own words.
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `the daemon answered with status ${status}`);
    this.status = status;
    this.remedy = problem.try || "";
  }
}

// Nobody answered, or the answer broke off.
export class Away extends Error {}

const away = (error) => {
  throw new Away(String(error));
};

// A token in the address is taken out of it at once, so that it is in no history and in no link; then it is kept for
// this tab only.
export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (location.hash.includes("token=")) history.replaceState(history.state, "", location.pathname + location.search);
  if (given) keepToken(given.trim());
  return given ? given.trim() : storage?.getItem(KEPT);
}

export function keepToken(token) {
  storage?.setItem(KEPT, token);
}

export function forgetToken() {
  storage?.removeItem(KEPT);
}

async function refusal(response) {
  const problem = await response.json().catch(() => ({}));
  return new Refused(response.status, problem);
}

export class Client {
  // `changed` is told how things stand: live, connecting, reconnecting or refused.
  constructor(token, changed) {
    this.token = token;
    this.changed = changed;
    // Whether the token may change anything; known once the daemon was asked.
    this.mayWrite = false;
    this.ends = new AbortController();
  }

  // No more questions and no more steps.
  end() {
    this.ends.abort();
  }

  get ended() {
    return this.ends.signal.aborted;
  }

  headers(more) {
    return { Authorization: `Bearer ${this.token}`, ...more };
  }

  // Asks for JSON, or for text.
  ask(path, accept = "application/json") {
    return this.#send("GET", path, accept);
  }

  // Asks for something to be done; the answer is what came of it.
  order(path) {
    return this.#send("POST", path, "application/json");
  }

  async #send(method, path, accept) {
    const signal = AbortSignal.any([this.ends.signal, AbortSignal.timeout(QUESTION_MS)]);
    const response = await fetch(path, { method, headers: this.headers({ Accept: accept }), cache: "no-store", signal }).catch(away);
    if (!response.ok) throw await refusal(response);
    return (accept === "application/json" ? response.json() : response.text()).catch(away);
  }

  // Follows the steps until the end, whatever happens to the connection. `begin` says after which step, given the last
  // one that was seen; `take` gets each.
  async follow(begin, take) {
    let last = null;
    let failures = 0;
    while (!this.ended) {
      try {
        const after = await begin(last);
        await this.#read(after, (step) => {
          last = step.id;
          take(step);
        }, () => {
          failures = 0;
          this.changed("live");
        });
      } catch (error) {
        if (this.ended) return;
        if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
          this.changed("refused", error);
          return;
        }
        if (!(error instanceof Away || error instanceof Refused)) reportError(error);
      }
      if (this.ended) return;
      failures += 1;
      await this.#pause(Math.min(15_000, 250 * 2 ** Math.min(failures, 7)) * (0.75 + Math.random() / 2));
    }
  }

  async #pause(ms) {
    const until = Date.now() + ms;
    while (!this.ended && Date.now() < until) {
      this.changed("reconnecting", Math.ceil((until - Date.now()) / 1000));
      await new Promise((done) => setTimeout(done, Math.min(1000, until - Date.now())));
    }
  }

  async #read(after, take, opened) {
    const silence = new AbortController();
    let timer = 0;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
    };
    try {
      heard();
      const response = await fetch("v1/events", {
        headers: this.headers({ Accept: "text/event-stream", "Last-Event-ID": String(after) }),
        cache: "no-store",
        signal: AbortSignal.any([this.ends.signal, silence.signal]),
      }).catch(away);
      if (!response.ok) throw await refusal(response);
      opened();
      const reader = response.body.getReader();
      const letters = new TextDecoder();
      let rest = "";
      let data = "";
      for (;;) {
        const { done, value } = await reader.read().catch(away);
        if (done) return;
        heard();
        const lines = (rest + letters.decode(value, { stream: true })).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          if (line.startsWith("data:")) data += line.slice(5);
          if (line !== "" || !data) continue;
          take(JSON.parse(data));
          data = "";
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }
}
