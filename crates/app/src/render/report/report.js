// What a page can do beyond being read: values under the pointer or the arrow keys, and tables that can be sorted.
// Everything is there without it.
"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (tag, name, parent) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (parent) parent.append(made);
    return made;
  };

  const length = (s) => {
    if (s < 1) return s.toFixed(2) + " s";
    s = Math.round(s);
    const pad = (n) => String(n).padStart(2, "0");
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + "m " + pad(s % 60) + "s";
    if (s < 86400) return Math.floor(s / 3600) + "h " + pad(Math.floor((s % 3600) / 60)) + "m";
    return Math.floor(s / 86400) + "d " + pad(Math.floor((s % 86400) / 3600)) + "h";
  };
  const show = {
    length,
    count: (n) => (n < 10 ? n.toFixed(1) : Math.round(n).toLocaleString("en")),
    part: (p) => (p * 100).toFixed(1) + " %",
    number: (n) => (n === 0 || (Math.abs(n) >= 0.001 && Math.abs(n) < 1e6) ? String(+n.toPrecision(5)) : n.toExponential(3)),
  };
  const axis = (text) => {
    const [scale, from, to, measure] = text.split(" ");
    const [a, b] = [Number(from), Number(to)];
    const value = scale === "log" ? (p) => a * Math.pow(b / a, p) : (p) => a + p * (b - a);
    return { value, words: (p) => show[measure](value(p)) };
  };

  // A box with words near a place of a drawing; it is also read aloud.
  const readout = (plot) => {
    const box = make("div", "readout", plot);
    box.setAttribute("role", "status");
    box.hidden = true;
    return {
      box,
      put(x, y) {
        box.hidden = false;
        const room = plot.clientWidth - box.offsetWidth;
        box.style.left = Math.max(0, Math.min(room, x + (x > room - 14 ? -box.offsetWidth - 14 : 14))) + "px";
        box.style.top = Math.max(0, y) + "px";
      },
    };
  };

  // Line charts.
  const points = (path) => {
    const line = [];
    let [x, y] = [0, 0];
    for (const [, step, numbers] of path.getAttribute("d").matchAll(/([MLHV])([^MLHV]+)/g)) {
      const [a, b] = numbers.split(" ").map(Number);
      if (step !== "V") x = a;
      if (step === "V") y = a;
      else if (step !== "H") y = b;
      line.push([x, y]);
    }
    return line;
  };
  const valueAt = (line, x) => {
    let [low, high] = [0, line.length - 1];
    if (high < 0 || x < line[0][0]) return null;
    if (x >= line[high][0]) return line[high][1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (line[middle][0] <= x) low = middle;
      else high = middle;
    }
    const [[x0, y0], [x1, y1]] = [line[low], line[high]];
    return x1 > x0 ? y0 + ((x - x0) / (x1 - x0)) * (y1 - y0) : y1;
  };
  for (const figure of all("figure.lines")) {
    const plot = figure.querySelector(".plot");
    if (!plot) continue;
    const canvas = plot.querySelector(".canvas");
    const [xAxis, yAxis] = [axis(plot.dataset.x), axis(plot.dataset.y)];
    const height = canvas.querySelector("svg").viewBox.baseVal.height;
    const curves = all(".curve", canvas).map((path) => ({ path, line: null }));
    const cursor = make("div", "cursor", canvas);
    cursor.hidden = true;
    const out = readout(plot);
    let at = 0.5;
    const tell = (part) => {
      at = Math.max(0, Math.min(1, part));
      const found = [];
      for (const curve of curves) {
        curve.line = curve.line || points(curve.path);
        const y = valueAt(curve.line, at * 1000);
        if (y !== null) found.push({ path: curve.path, y });
      }
      found.sort((a, b) => a.y - b.y);
      out.box.replaceChildren();
      make("b", "", out.box).textContent = xAxis.words(at);
      const list = make("ul", "", out.box);
      for (const { path, y } of found) {
        const item = make("li", "", list);
        const sign = document.querySelector(`[data-series="${path.dataset.series}"] > .swatch, tr .swatch`);
        if (sign && curves.length > 1) {
          const copy = sign.cloneNode(true);
          copy.firstElementChild.setAttribute("stroke", path.getAttribute("stroke"));
          copy.firstElementChild.setAttribute("stroke-dasharray", path.getAttribute("stroke-dasharray"));
          item.append(copy);
        }
        make("span", "", item).textContent = path.dataset.name;
        make("span", "", item).textContent = yAxis.words(1 - y / height);
      }
      cursor.hidden = false;
      cursor.style.left = at * 100 + "%";
      out.put(canvas.offsetLeft + at * canvas.clientWidth, canvas.offsetTop + 6);
    };
    const hide = () => {
      cursor.hidden = out.box.hidden = true;
    };
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "group");
    canvas.setAttribute("aria-label", figure.querySelector(".title").textContent + ": read values with the left and right keys");
    canvas.addEventListener("pointermove", (event) => {
      const frame = canvas.getBoundingClientRect();
      tell((event.clientX - frame.left) / frame.width);
    });
    canvas.addEventListener("pointerleave", hide);
    canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && tell(at));
    canvas.addEventListener("blur", hide);
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -0.01, ArrowRight: 0.01, PageUp: -0.1, PageDown: 0.1, Home: -1, End: 1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step) return;
      event.preventDefault();
      tell(at + step);
    });
  }

  // Charts of what ran where. Of each bar seven numbers and a count are known: row, first lane, lanes, from, length,
  // job, end, stretches.
  const FIELDS = 8;
  for (const figure of all("figure.gantt")) {
    const plot = figure.querySelector(".plot");
    const canvas = plot.querySelector(".canvas");
    const data = JSON.parse(figure.querySelector("script").textContent);
    const time = axis(data.axis);
    const until = time.value(1);
    const frames = [];
    for (let i = 0; i < data.bars.length; i += FIELDS) {
      const [row, device, devices, from, span, job, end, stretches] = data.bars.slice(i, i + FIELDS);
      const [, top, height, gpus] = data.nodes[row];
      const lane = height / gpus;
      frames.push({ row, from, span, job, end, stretches, devices, top: top + device * lane, height: devices * lane });
    }
    const hit = make("div", "hit", canvas);
    hit.hidden = true;
    const out = readout(plot);
    let current = -1;
    const hide = () => {
      hit.hidden = out.box.hidden = true;
    };
    const tell = (i) => {
      current = i;
      const bar = frames[i];
      const [name, tenant, gpus] = data.jobs[bar.job];
      out.box.replaceChildren();
      make("b", "", out.box).textContent =
        bar.stretches > 1 ? bar.stretches + " short stretches, the first of " + name : name;
      const list = make("ul", "", out.box);
      const fact = (term, text) => {
        const item = make("li", "", list);
        make("span", "soft", item).textContent = term;
        make("span", "", item).textContent = text;
      };
      if (tenant) fact("tenant", tenant);
      if (gpus) fact("GPUs", bar.devices + " here, wants " + gpus);
      fact("node", data.nodes[bar.row][0]);
      fact("from", length(bar.from));
      fact("to", length(bar.from + bar.span));
      fact("for", length(bar.span));
      if (bar.stretches === 1) fact("end", data.ends[bar.end]);
      const [x, width] = [(bar.from / until) * 100, (bar.span / until) * 100];
      Object.assign(hit.style, { left: x + "%", width: width + "%", top: bar.top + "px", height: bar.height + "px" });
      hit.hidden = false;
      const below = canvas.offsetTop + bar.top + bar.height + 8;
      out.put(canvas.offsetLeft + ((bar.from + bar.span / 2) / until) * canvas.clientWidth, below);
    };
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "group");
    canvas.setAttribute("aria-label", "What ran where: go from job to job with the arrow keys");
    canvas.addEventListener("pointermove", (event) => {
      const frame = canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
      const slack = (2 / frame.width) * until;
      const at = (x / frame.width) * until;
      const inside = (bar) =>
        bar.top <= y && y <= bar.top + bar.height && bar.from - slack <= at && at <= bar.from + bar.span + slack;
      const found = frames.findIndex(inside);
      if (found < 0) hide();
      else tell(found);
    });
    canvas.addEventListener("pointerleave", hide);
    canvas.addEventListener("blur", hide);
    canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && frames.length && tell(Math.max(current, 0)));
    // The bar in the next row that is nearest in time.
    const beside = (down) => {
      const bar = frames[current];
      const rows = [...new Set(frames.map((other) => other.row))];
      const row = rows[rows.indexOf(bar.row) + (down ? 1 : -1)];
      if (row === undefined) return current;
      const away = (other) => (other.row === row ? Math.abs(other.from - bar.from) : Infinity);
      return frames.reduce((best, other, i) => (away(other) < away(frames[best]) ? i : best), frames.findIndex((f) => f.row === row));
    };
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
      if (!frames.length || !/^(Arrow|Home$|End$)/.test(event.key)) return;
      event.preventDefault();
      current = Math.max(current, 0);
      if (event.key === "Home") return tell(0);
      if (event.key === "End") return tell(frames.length - 1);
      if (event.key === "ArrowRight") tell(Math.min(current + 1, frames.length - 1));
      else if (event.key === "ArrowLeft") tell(Math.max(current - 1, 0));
      else tell(beside(event.key === "ArrowDown"));
    });
  }

  // A legend lights up its line in all charts beside it.
  for (const legend of all(".legend[aria-label=Lines]")) {
    const within = legend.parentElement;
    const light = (series) => {
      all("figure.lines svg", within).forEach((svg) => svg.classList.toggle("dim", series !== null));
      all(".curve", within).forEach((path) => path.classList.toggle("lit", path.dataset.series === series));
    };
    all("li", legend).forEach((item) => {
      item.addEventListener("pointerenter", () => light(item.dataset.series));
      item.addEventListener("pointerleave", () => light(null));
    });
  }

  // Tables.
  for (const table of all("table[data-sortable]")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const key = (row, column) => {
      const cell = row.cells[column];
      if (column === 0) return cell.textContent;
      return cell.dataset.value === undefined ? Infinity : Number(cell.dataset.value);
    };
    heads.forEach((head, column) => {
      const button = make("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [key(a, column), key(b, column)];
          const order = x < y ? -1 : x > y ? 1 : 0;
          return x === Infinity || y === Infinity ? order : down ? -order : order;
        });
        body.append(...rows);
      });
    });
  }
})();
