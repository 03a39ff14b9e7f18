// The page of `panewise serve`. Written for Panewise, Apache-2.0; it uses no library and loads nothing from elsewhere.

const $ = (id) => document.getElementById(id);
const LIST_SIZE = 25, ROWS_SIZE = 50, SAMPLES = 120, POLL_MS = 1000;
let token = sessionStorage.getItem("token") || "";

// Requests

class Failed extends Error {
  constructor(status, error) { super(error.message); this.status = status; this.error = error; }
}

async function ask(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed(0, { kind: "Offline", message: "The server does not answer. This page tries again." });
  }
  if (!response.ok) {
    let error = { kind: "Unknown", message: `The server answered with ${response.status}.` };
    try { error = (await response.json()).error || error; } catch { /* not JSON */ }
    throw new Failed(response.status, error);
  }
  return response;
}
const get = async (path) => (await ask(path)).json();
const post = async (path, body) =>
  (await ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();

function tell(error) {
  if (error.name === "AbortError") return;
  $("ask-token").hidden = error.status !== 401;
  $("trouble").textContent = error.message;
  $("trouble").hidden = error.status === 401;
  if (error.status === 0) $("pulse").textContent = "offline";
}
function well() { $("trouble").hidden = true; $("ask-token").hidden = true; }
async function guarded(work) { try { await work(); } catch (error) { tell(error); } }

$("ask-token").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  sessionStorage.setItem("token", token);
  $("token").value = "";
  well();
  begin();
});

// Showing values

function make(name, text, kind) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
}
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
function shown(value) {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "number") return number.format(value);
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}
const bytes = (count) => count < 1e6 ? `${number.format(count / 1e3)} kB` : `${number.format(count / 1e6)} MB`;
const seconds = (s) => s === null || s === undefined ? "–" : s < 120 ? `${number.format(s)} s`
  : s < 7200 ? `${number.format(s / 60)} min` : `${number.format(s / 3600)} h`;

function table(node, rows) {
  const names = rows.length ? Object.keys(rows[0]) : [];
  const isNumber = names.map((name) => rows.some((row) => typeof row[name] === "number"));
  const head = make("tr");
  const kind = (name, place) => /^window_(start|end)$/.test(name) ? name : isNumber[place] ? "number" : "";
  names.forEach((name, place) => head.append(make("th", name, kind(name, place))));
  node.tHead.replaceChildren(head);
  node.tBodies[0].replaceChildren(...rows.map((row) => {
    const line = make("tr");
    names.forEach((name, place) => line.append(make("td", shown(row[name]), kind(name, place))));
    return line;
  }));
}

const SVG = "http://www.w3.org/2000/svg";
function draw(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// A line over time; null is a gap.
function chart(values, labels, { width = 720, height = 200, axis = true } = {}) {
  const left = axis ? 64 : 2, bottom = axis ? 20 : 2, top = 8;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const there = values.filter((value) => typeof value === "number");
  svg.append(draw("title", {}, there.length ? `from ${shown(Math.min(...there))} to ${shown(Math.max(...there))}` : "nothing to show"));
  if (!there.length) return svg;
  let low = Math.min(...there), high = Math.max(...there);
  if (low === high) { low -= Math.abs(low) / 2 || 1; high += Math.abs(high) / 2 || 1; }
  const x = (place) => left + (width - left - 6) * (values.length > 1 ? place / (values.length - 1) : 0.5);
  const y = (value) => top + (height - top - bottom) * (1 - (value - low) / (high - low));
  if (axis) {
    for (const value of [low, (low + high) / 2, high]) {
      svg.append(draw("line", { class: "axis", x1: left, x2: width - 6, y1: y(value), y2: y(value) }));
      svg.append(draw("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, shown(value)));
    }
    svg.append(draw("text", { x: left, y: height - 4 }, labels[0]));
    svg.append(draw("text", { x: width - 6, y: height - 4, "text-anchor": "end" }, labels[labels.length - 1]));
  }
  let line = "", pen = "M";
  values.forEach((value, place) => {
    if (typeof value !== "number") { pen = "M"; return; }
    line += `${pen}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  svg.append(draw("path", { d: line }));
  if (axis && values.length <= 200) values.forEach((value, place) => {
    if (typeof value !== "number") return;
    const dot = draw("circle", { cx: x(place).toFixed(1), cy: y(value).toFixed(1), r: 2.5 });
    dot.append(draw("title", {}, `${labels[place]}: ${shown(value)}`));
    svg.append(dot);
  });
  return svg;
}

// Parts of the page

const parts = ["queries", "keys", "plan", "health", "try"];
let part = "queries";
function open() {
  const [name, rest] = location.hash.slice(1).split("/");
  part = parts.includes(name) ? name : "queries";
  for (const one of parts) $(`part-${one}`).hidden = one !== part;
  for (const link of document.querySelectorAll("nav a"))
    if (link.dataset.part === part) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  if (part !== "keys") live.stop();
  if (part === "queries" && rest) guarded(() => choose(decodeURIComponent(rest)));
  if (part === "keys" && rest) { $("key-query").value = decodeURIComponent(rest); guarded(fields); }
  if (part === "plan") guarded(plan);
}
addEventListener("hashchange", open);
addEventListener("keydown", (event) => {
  const isTyping = /INPUT|TEXTAREA|SELECT/.test(event.target.tagName);
  if (event.key === "Escape" && isTyping) event.target.blur();
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); location.hash = "queries"; setTimeout(() => $("search").focus()); }
  if (event.key >= "1" && event.key <= "5") location.hash = parts[event.key - 1];
});

// The list of queries

let offset = 0, listed = [], chosen = null, rowsOffset = 0, columns = [];
async function list() {
  const found = await get(`/v1/queries?limit=${LIST_SIZE}&offset=${offset}&search=${encodeURIComponent($("search").value)}`);
  well();
  listed = found.queries;
  $("found").textContent = found.total ? `${offset + 1} to ${offset + listed.length} of ${number.format(found.total)}` : "none";
  $("before").disabled = offset === 0;
  $("after").disabled = offset + LIST_SIZE >= found.total;
  $("list-empty").hidden = found.total > 0;
  $("list").tBodies[0].replaceChildren(...listed.map((query) => {
    const line = make("tr");
    line.tabIndex = 0;
    line.dataset.name = query.name;
    line.setAttribute("aria-selected", String(query.name === chosen));
    line.append(make("td", query.name), make("td", query.window.replace(/[[\]]/g, "").toLowerCase() || query.kind), make("td", "", "number"), make("td", ""));
    return line;
  }));
  refreshValues();
}
function brief(row, query) {
  return Object.entries(row).filter(([name]) => !name.startsWith("window_") && !query.group_by.includes(name))
    .map(([name, value]) => `${name} ${shown(value)}`).join(", ");
}
// A lookup of all groups takes long if there are a million. Queries whose lookups are slow are asked one by one, and
// then left alone for some time: the page takes a part of the server's time, and shows what it has meanwhile.
const QUICK_MS = 100, PAUSE = 2;
const took = new Map();
let slowDue = 0;
const isQuick = (query) => took.get(query.name) < QUICK_MS;
function showValue(query, answer) {
  const line = [...$("list").tBodies[0].rows].find((one) => one.dataset.name === query.name);
  if (!line) return;
  const [groups, newest] = [line.cells[2], line.cells[3]];
  const count = answer.failed ? "–" : number.format(answer.total_rows);
  const row = answer.rows && answer.rows[0];
  const keyed = row && query.group_by.length ? `${query.group_by.map((name) => shown(row[name])).join(", ")}: ` : "";
  const text = answer.failed || (row ? keyed + brief(row, query) : "no answer yet");
  if (groups.textContent !== count) groups.textContent = count;
  if (newest.textContent !== text) {
    if (newest.textContent) { newest.classList.remove("fresh"); void newest.offsetWidth; newest.classList.add("fresh"); }
    newest.textContent = text;
  }
}
async function value(query) {
  const began = performance.now();
  let answer;
  try {
    answer = await get(`/v1/queries/${encodeURIComponent(query.name)}/answers?limit=1`);
  } catch (error) {
    if (error.status === 0 || error.status === 401) throw error;
    answer = { failed: error.message };
  }
  took.set(query.name, performance.now() - began);
  showValue(query, answer);
}
async function quickValues() {
  const quick = listed.filter(isQuick);
  if (!quick.length) return;
  try {
    const { answers } = await post("/v1/lookup", { queries: quick.map((query) => query.name), limit: 1 });
    quick.forEach((query, place) => showValue(query, answers[place]));
  } catch (error) {
    if (error.status === 0 || error.status === 401) throw error;
    for (const query of quick) await value(query);  // One of them has no answer now; the others do.
  }
}
let slowAsked = [];
async function slowValues() {
  const began = performance.now();
  slowAsked = listed;
  for (const query of slowAsked.filter((one) => !took.has(one.name) || (!isQuick(one) && began >= slowDue))) {
    if (listed !== slowAsked) return;
    await value(query);
    if (!isQuick(query)) slowDue = performance.now() + PAUSE * (performance.now() - began);
  }
}
let quicking = null, slowing = null, topping = null, topDue = 0;
function refreshValues() {
  quicking ||= guarded(quickValues).finally(() => { quicking = null; });
  slowing ||= guarded(slowValues).finally(() => { slowing = null; if (listed !== slowAsked) refreshValues(); });
}
function refreshTop() { if (performance.now() >= topDue) topping ||= guarded(top).finally(() => { topping = null; }); }
let waiting;
$("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => { offset = 0; guarded(list); }, 200); });
$("before").addEventListener("click", () => { offset = Math.max(0, offset - LIST_SIZE); guarded(list); });
$("after").addEventListener("click", () => { offset += LIST_SIZE; guarded(list); });
$("list").addEventListener("click", (event) => {
  const line = event.target.closest("tbody tr");
  if (line) location.hash = `queries/${encodeURIComponent(line.dataset.name)}`;
});
$("list").addEventListener("keydown", (event) => {
  const line = event.target.closest("tbody tr");
  if (!line) return;
  if (event.key === "Enter") line.click();
  const next = { ArrowDown: line.nextElementSibling, ArrowUp: line.previousElementSibling }[event.key];
  if (next) { event.preventDefault(); next.focus(); }
});

async function choose(name) {
  const query = await get(`/v1/queries/${encodeURIComponent(name)}`);
  chosen = name; rowsOffset = 0; columns = [];
  for (const line of $("list").tBodies[0].rows) line.setAttribute("aria-selected", String(line.dataset.name === name));
  $("one").hidden = false;
  $("one-name").textContent = name;
  $("one-statement").textContent = query.statement;
  $("sort").replaceChildren(new Option("the order of groups", ""));
  await top();
  // Where it stands below the list, it must be brought to the eye.
  if (matchMedia("(max-width: 69.99rem)").matches) $("one").scrollIntoView();
}
async function top() {
  if (!chosen) return;
  const name = chosen, sort = $("sort").value, began = performance.now();
  const order = sort ? `&sort=${encodeURIComponent(sort)}&descending=${$("descending").checked}` : "";
  let answer;
  try {
    answer = await get(`/v1/queries/${encodeURIComponent(name)}/answers?limit=${ROWS_SIZE}&offset=${rowsOffset}${order}`);
  } catch (error) {
    if (error.status === 404) { chosen = null; $("one").hidden = true; return; }
    if (error.status === 0 || error.status === 401) throw error;
    $("one-state").textContent = error.message;
    return;
  }
  topDue = performance.now() + (performance.now() - began > QUICK_MS ? PAUSE * (performance.now() - began) : 0);
  if (name !== chosen) return;
  const names = answer.rows.length ? Object.keys(answer.rows[0]) : [];
  if (names.length && names.join() !== columns.join()) {
    columns = names;
    $("sort").replaceChildren(new Option("the order of groups", ""), ...names.map((one) => new Option(one, one)));
    $("sort").value = sort;
  }
  const kind = answer.exact ? "exact" : "intervals";
  const shownRows = answer.total_rows ? `${rowsOffset + 1} to ${rowsOffset + answer.rows.length} of ${number.format(answer.total_rows)} groups` : "no groups";
  $("one-state").textContent = `${shownRows}; ${kind}; watermark ${answer.watermark || "none"}, newest event ${answer.newest_event || "none"}, ${seconds(answer.age_s)} old`;
  table($("rows"), answer.rows);
  $("rows-empty").hidden = answer.rows.length > 0;
  $("rows-before").disabled = rowsOffset === 0;
  $("rows-after").disabled = rowsOffset + ROWS_SIZE >= answer.total_rows;
}
for (const id of ["sort", "descending"]) $(id).addEventListener("change", () => { rowsOffset = 0; guarded(top); });
$("rows-before").addEventListener("click", () => { rowsOffset = Math.max(0, rowsOffset - ROWS_SIZE); guarded(top); });
$("rows-after").addEventListener("click", () => { rowsOffset += ROWS_SIZE; guarded(top); });
$("drop").addEventListener("click", () => guarded(async () => {
  if (!chosen || !confirm(`Drop the query ${chosen}?`)) return;
  await ask(`/v1/queries/${encodeURIComponent(chosen)}`, { method: "DELETE" });
  chosen = null; $("one").hidden = true; location.hash = "queries";
  await list();
}));

// One key

let keyed = null;
const live = {
  abort: null,
  stop() { if (this.abort) this.abort.abort(); this.abort = null; },
  // Follows answers; `fetch` instead of EventSource, which cannot send a token.
  async follow(path, take) {
    this.stop();
    const abort = this.abort = new AbortController();
    let last = null;
    while (!abort.signal.aborted) {
      try {
        const headers = last ? { "Last-Event-ID": last } : {};
        const response = await ask(path, { headers, signal: abort.signal });
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let text = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          text += value;
          let end;
          while ((end = text.indexOf("\n\n")) >= 0) {
            const lines = text.slice(0, end).split("\n");
            text = text.slice(end + 2);
            const of = (name) => (lines.find((line) => line.startsWith(`${name}: `)) || "").slice(name.length + 2);
            if (of("id")) last = of("id");
            if (of("data")) await take(of("event"), JSON.parse(of("data")));
          }
        }
      } catch (error) {
        if (abort.signal.aborted) return;
        tell(error);
        if (error.status && error.status < 500) return;
      }
      await new Promise((done) => setTimeout(done, POLL_MS));
    }
  },
};
let proposing;
$("key-query").addEventListener("input", () => {
  clearTimeout(proposing);
  proposing = setTimeout(() => guarded(async () => {
    const found = await get(`/v1/queries?limit=20&search=${encodeURIComponent($("key-query").value)}`);
    $("key-queries").replaceChildren(...found.queries.map((query) => new Option(query.name, query.name)));
    if (found.queries.some((query) => query.name === $("key-query").value)) await fields();
  }), 150);
});
async function fields() {
  const name = $("key-query").value;
  if (!name) return;
  if (keyed && keyed.name === name && $("key-fields").childElementCount === 2 * keyed.group_by.length) return;
  let query;
  try { query = await get(`/v1/queries/${encodeURIComponent(name)}`); } catch (error) { if (error.status === 404) return; throw error; }
  keyed = query;
  $("key-fields").replaceChildren(...query.group_by.flatMap((attribute) => {
    const label = make("label", attribute), input = make("input");
    input.id = label.htmlFor = `key-${attribute}`;
    input.dataset.attribute = attribute;
    input.required = true;
    input.placeholder = query.types[attribute];
    return [label, input];
  }));
}
function keyOf(query) {
  const key = {};
  for (const input of $("key-fields").querySelectorAll("input")) {
    const kind = query.types[input.dataset.attribute], text = input.value;
    // Integers beyond 2^53 would lose digits as numbers.
    key[input.dataset.attribute] = kind === "BIGINT" && Number.isSafeInteger(Number(text)) ? Number(text)
      : kind === "DOUBLE" ? Number(text) : kind === "BOOLEAN" ? text.toLowerCase() === "true" : text;
  }
  return key;
}
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(async () => {
    await fields();
    if (!keyed || keyed.name !== $("key-query").value) {
      throw new Failed(404, { message: `There is no query ${$("key-query").value}.` });
    }
    const query = keyed, key = keyOf(query);
    const asked = query.group_by.length ? `keys=${encodeURIComponent(JSON.stringify(key))}` : "";
    await history(query, asked);
    well();
    live.follow(`/v1/live?query=${encodeURIComponent(query.name)}&${asked}`, async () => {
      if (part === "keys" && keyed === query) await history(query, asked);
    });
  });
});
let points = [];
async function history(query, asked) {
  const found = await get(`/v1/queries/${encodeURIComponent(query.name)}/history?points=60&${asked}`);
  points = found.points;
  const rows = points.filter((point) => point.row).map((point) => point.row);
  $("key-empty").hidden = rows.length > 0;
  $("key-found").hidden = !rows.length;
  if (!rows.length) { $("key-empty").textContent = "This key has no events in the windows that are held."; return; }
  const numbers = Object.keys(rows[rows.length - 1]).filter((name) => rows.some((row) => typeof row[name] === "number") && !query.group_by.includes(name));
  const before = $("key-value").value;
  if ([...$("key-value").options].map((option) => option.value).join() !== numbers.join()) {
    $("key-value").replaceChildren(...numbers.map((name) => new Option(name, name)));
    if (numbers.includes(before)) $("key-value").value = before;
  }
  $("key-state").textContent = `${rows.length} of the last ${points.length} windows have an answer; ${query.window}`;
  chartKey();
  table($("key-rows"), rows.slice().reverse());
}
function chartKey() {
  const name = $("key-value").value;
  $("key-chart").replaceChildren(chart(points.map((point) => point.row ? point.row[name] : null), points.map((point) => point.at.replace("T", " ").replace("Z", "")), { width: Math.max(320, $("key-chart").clientWidth) }));
}
$("key-value").addEventListener("change", chartKey);

// The plan

// Thousands of queries make a plan of a hundred thousand lines, which a browser lays out for seconds: it comes in parts.
function inParts(button, items, size, show) {
  let shown = 0;
  const more = () => {
    show(items.slice(shown, shown + size), shown);
    shown = Math.min(items.length, shown + size);
    button.hidden = shown === items.length;
    button.textContent = `Show more: ${number.format(items.length - shown)} are left`;
  };
  button.onclick = more;
  more();
}
const LINES = 500, TREES = 50;
async function plan() {
  const found = await get("/v1/plan");
  const data = found.plan;
  $("plan-cost").textContent = `${data.trees.length} execution tree${data.trees.length === 1 ? "" : "s"}; ${number.format(Math.round(data.cost_per_s))} ${data.unit} a second, ${number.format(Math.round(data.no_share_per_s))} if each query were alone.`;
  $("plan-text").replaceChildren();
  inParts($("plan-more"), found.text.split("\n"), LINES, (lines) => $("plan-text").append(`${lines.join("\n")}\n`));
  $("work-empty").hidden = found.work.length > 0;
  $("work").hidden = !found.work.length;
  $("work").tBodies[0].replaceChildren();
  inParts($("work-more"), found.work, TREES, (trees, first) => $("work").tBodies[0].append(...trees.map((tree, place) => {
    const line = make("tr");
    line.append(make("td", `${first + place}: ${tree.stream} by ${tree.group_by.join(", ") || "nothing"}`));
    for (const value of [tree.queries, tree.groups, Math.round(tree.predicted_fed), tree.fed, Math.round(tree.predicted_folded), tree.folded])
      line.append(make("td", shown(value), "number"));
    return line;
  })));
  const picture = await (await ask("/v1/plan.svg")).blob();
  URL.revokeObjectURL($("picture").src);
  $("picture").src = URL.createObjectURL(picture);
}

// The health of the streams

const samples = {};
let held = null;
function sample(streams) {
  const now = performance.now() / 1000;
  for (const stream of streams.streams) {
    const kept = samples[stream.name] ||= [];
    const last = kept[kept.length - 1];
    const passed = last ? now - last.now : 0;
    kept.push({
      now, events: stream.events, version: streams.version, lag: stream.lag_s, age: stream.age_s, late: stream.late_events,
      rate: last && stream.events !== null && passed ? (stream.events - last.events) / passed : null,
      batches: last && passed ? (streams.version - last.version) / passed : null,
      bytes: held && held.streams && held.streams[stream.name] ? held.streams[stream.name].bytes : held && held.lookups ? held.lookups.bytes : null,
    });
    if (kept.length > SAMPLES) kept.shift();
  }
}
const measures = [
  ["rate", "Events a second", (value) => number.format(Math.round(value))], ["lag", "Watermark behind the newest event", seconds],
  ["age", "Age of the newest events", seconds], ["late", "Late events", shown], ["bytes", "State", bytes], ["batches", "Batches a second", shown],
];
function small(title, text, values) {
  const figure = make("figure"), drawing = make("div", undefined, "chart"), last = values[values.length - 1];
  drawing.append(chart(values, [], { width: 220, height: 50, axis: false }));
  figure.append(make("figcaption", title), make("strong", last === null ? "–" : text(last)), drawing);
  return figure;
}
const ofBatch = [
  ["events_per_s", "Events a second", (value) => number.format(Math.round(value))], ["duration_s", "Time of a batch", seconds],
  ["lag_s", "Watermark behind the clock", seconds], ["late_events", "Late events", shown], ["state_bytes", "State on Spark", bytes],
  ["fed", "Partials fed into trees", shown], ["folded", "Fragments folded", shown],
];
function showBatches(batches) {
  $("job").hidden = !batches.length;
  if (!batches.length) return;
  const last = batches[batches.length - 1];
  $("job-about").textContent = `batch ${last.batch} began ${last.began} and had ${number.format(last.events)} events`;
  $("batches").replaceChildren(...ofBatch.map(([name, title, text]) => small(title, text, batches.map((batch) => batch[name]))));
}
function health(streams) {
  $("problem").hidden = !streams.problem;
  $("problem").textContent = streams.problem || "";
  $("streams").replaceChildren(...streams.streams.flatMap((stream) => {
    const grid = make("div", undefined, "small");
    for (const [name, title, text] of measures) {
      const values = samples[stream.name].map((one) => one[name] ?? null);
      if (values.every((value) => value === null)) continue;
      grid.append(small(title, text, values));
    }
    const about = make("p", `watermark ${stream.watermark || "none yet"}, newest event ${stream.newest_event || "none yet"}`);
    return [make("h3", stream.name), about, grid];
  }));
  if (!streams.streams.length) $("streams").replaceChildren(make("p", "There is no stream yet. Add one with CREATE STREAM.", "empty"));
}

// Trying a statement

function mistake(error) {
  $("mistake").hidden = !error;
  $("verdict").textContent = "";
  if (!error) return;
  const isPlaced = error.line !== undefined && error.line !== null;
  $("mistake-text").textContent = isPlaced ? `Line ${error.line}, column ${error.column}: ${error.message}` : error.message;
  $("mistake-hint").textContent = error.hint ? `Hint: ${error.hint}` : "";
  const line = isPlaced ? $("statement").value.split("\n")[error.line - 1] || "" : "";
  $("mistake-place").textContent = isPlaced ? `${line}\n${" ".repeat(error.column - 1)}^` : "";
  $("mistake-place").hidden = !isPlaced;
  if (isPlaced) {
    const begin = $("statement").value.split("\n").slice(0, error.line - 1).reduce((sum, one) => sum + one.length + 1, 0) + error.column - 1;
    $("statement").focus();
    $("statement").setSelectionRange(begin, begin + (/^\w+/.exec(line.slice(error.column - 1)) || ["x"])[0].length);
  }
}
async function run(isCheck) {
  try {
    const done = await post(`/v1/queries?check=${isCheck}`, { statements: $("statement").value });
    mistake(null);
    const what = [["adds", done.added], ["drops", done.dropped]].filter(([, names]) => names.length)
      .map(([verb, names]) => `${verb} ${names.join(", ")}`).join("; ") || "changes nothing";
    $("verdict").textContent = isCheck ? `This is right: it ${what}.` : `Done: it ${what}. It holds ${done.holds}.`;
    if (!isCheck) await list();
  } catch (error) {
    if (error.status === 0 || error.status === 401) throw error;
    mistake(error.error || { message: error.message });
  }
}
$("check").addEventListener("click", () => { if ($("try-form").reportValidity()) guarded(() => run(true)); });
$("try-form").addEventListener("submit", (event) => { event.preventDefault(); guarded(() => run(false)); });

// The heartbeat: one small request a second, and more only if something is new and looked at

let version = -1, beats = 0, timer = null;
async function beat() {
  if (document.hidden) return;
  const streams = await get("/v1/streams");
  well();
  const oldest = streams.streams.map((stream) => stream.age_s).filter((age) => age !== null);
  $("pulse").textContent = `${streams.kind === "engine" ? "engine" : `batch ${streams.batch ?? "none"}`}, ${oldest.length ? `${seconds(Math.max(...oldest))} old` : "no events yet"}`;
  $("add").disabled = $("drop").disabled = !streams.can_add;
  $("add").title = $("drop").title = streams.can_add ? "" : "This server adds and drops no queries.";
  if ((held === null || beats++ % 5 === 0) && part === "health") held = await get("/v1/statistics");
  sample(streams);
  if (part === "health") {
    health(streams);
    if (streams.kind === "folder") showBatches((await get("/v1/batches")).batches);
  }
  if (streams.version !== version) {
    version = streams.version;
    if (part === "queries") { refreshValues(); refreshTop(); }
  }
}
async function pulse() {
  await guarded(beat);
  timer = setTimeout(pulse, POLL_MS);
}
function begin() {
  clearTimeout(timer);
  version = -1;
  guarded(list).then(open).then(pulse);
}
begin();
