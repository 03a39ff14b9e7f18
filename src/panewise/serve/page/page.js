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
// Whole numbers beyond 2^53 would lose digits as numbers; browsers that cannot tell them round them.
const whole = (_, value, context) => typeof value === "number" && !Number.isSafeInteger(value)
  && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
const read = async (response) => JSON.parse(await response.text(), whole);
const get = async (path) => read(await ask(path));
const post = async (path, body) =>
  read(await ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }));

function tell(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401 && $("ask-token").hidden) setTimeout(() => $("token").focus());
  $("ask-token").hidden = error.status !== 401;
  $("trouble").textContent = error.message;
  $("trouble").hidden = error.status === 401;
  isOffline = error.status === 0;
  if (isOffline) $("pulse").textContent = "offline";
}
// A server that does not answer is forgotten when it does; a mistake is shown until something else is done.
let isOffline = false;
function well() { $("trouble").hidden = true; $("ask-token").hidden = true; isOffline = false; }
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
const little = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
function shown(value) {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "bigint") return number.format(value);
  if (typeof value === "number") {
    const size = Math.abs(value);
    if (size >= 1e15 || (size > 0 && size < 1e-6)) return value.toExponential(4);
    return (size < 1 ? little : number).format(value);
  }
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}
// As in answers, without what says that it is UTC: all times here are.
const clock = (time) => time ? time.replace("T", " ").replace(/(\.\d*?)0*Z$/, "$1").replace(/[.Z]$/, "") : "none yet";
const bytes = (count) => count < 1e6 ? `${number.format(count / 1e3)} kB` : `${number.format(count / 1e6)} MB`;
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const seconds = (s) => s === null || s === undefined ? "–" : s < 0.1 ? `${number.format(s)} s` : s < 120 ? `${tenths.format(s)} s`
  : s < 7200 ? `${tenths.format(s / 60)} min` : s < 172800 ? `${tenths.format(s / 3600)} h` : `${tenths.format(s / 86400)} days`;

const isNumeric = (value) => typeof value === "number" || typeof value === "bigint";
const isWindow = (name) => name === "window_start" || name === "window_end";
// `hidden` names columns that are told elsewhere; `link` gives the address of a row's group.
function table(node, rows, { hidden = [], link = null, linked = null } = {}) {
  const names = (rows.length ? Object.keys(rows[0]) : []).filter((name) => !hidden.includes(name));
  const isNumber = names.map((name) => rows.some((row) => isNumeric(row[name])));
  const head = make("tr");
  const kind = (name, place) => isWindow(name) ? name : isNumber[place] ? "number" : "";
  names.forEach((name, place) => head.append(make("th", name, kind(name, place))));
  node.tHead.replaceChildren(head);
  node.tBodies[0].replaceChildren(...rows.map((row) => {
    const line = make("tr");
    names.forEach((name, place) => {
      const cell = make("td", undefined, kind(name, place)), text = isWindow(name) ? clock(row[name]) : shown(row[name]);
      const target = name === linked ? link(row) : null;
      if (target) { const to = make("a", text); to.href = target; cell.append(to); } else cell.textContent = text;
      line.append(cell);
    });
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

// A line over time; null is a gap. With an axis, `point` is told the place that the mouse is at.
// `at` is the place that it was at before.
function chart(values, labels, { width = 720, height = 200, axis = true, fromZero = false, point = null, at = null } = {}) {
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  values = values.map((value) => typeof value === "bigint" ? Number(value) : value);
  const there = values.filter((value) => typeof value === "number");
  svg.append(draw("title", {}, there.length ? `from ${shown(Math.min(...there))} to ${shown(Math.max(...there))}` : "nothing to show"));
  if (!there.length) return svg;
  let low = Math.min(...there), high = Math.max(...there);
  if (fromZero) { low = Math.min(0, low); high = Math.max(0, high); }
  if (low === high) { if (!fromZero) low -= Math.abs(low) / 2 || 1; high += Math.abs(high) / 2 || 1; }
  const ticks = [low, (low + high) / 2, high];
  const left = axis ? 12 + 7 * Math.max(...ticks.map((value) => shown(value).length)) : 2;
  const bottom = axis ? 20 : 3, top = axis ? 8 : 3, right = axis ? 6 : 3;
  const x = (place) => left + (width - left - right) * (values.length > 1 ? place / (values.length - 1) : 0.5);
  const y = (value) => top + (height - top - bottom) * (1 - (value - low) / (high - low));
  if (axis) {
    for (const value of ticks) {
      svg.append(draw("line", { class: "axis", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
      svg.append(draw("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, shown(value)));
    }
    svg.append(draw("text", { x: left, y: height - 4 }, labels[0]));
    svg.append(draw("text", { x: width - right, y: height - 4, "text-anchor": "end" }, labels[labels.length - 1]));
  }
  let line = "", pen = "M";
  values.forEach((value, place) => {
    if (typeof value !== "number") { pen = "M"; return; }
    line += `${pen}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  svg.append(draw("path", { d: line }));
  if (!axis) return svg;
  const marks = values.map((value, place) => typeof value !== "number" ? null
    : draw("circle", { cx: x(place).toFixed(1), cy: y(value).toFixed(1), r: values.length <= 100 ? 2.5 : 1 }));
  svg.append(...marks.filter((mark) => mark));
  if (point) {
    const line = draw("line", { class: "pointed", y1: top, y2: height - bottom });
    const show = (place) => {
      line.setAttribute("visibility", place === null || place >= values.length ? "hidden" : "visible");
      for (const end of ["x1", "x2"]) line.setAttribute(end, x(place ?? 0));
      point(place);
    };
    svg.append(line);
    show(at);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const part = ((event.clientX - box.left) * width / box.width - left) / (width - left - right);
      show(Math.min(values.length - 1, Math.max(0, Math.round(part * (values.length - 1)))));
    });
    svg.addEventListener("pointerleave", () => show(null));
  }
  return svg;
}

// Parts of the page

const parts = ["queries", "keys", "plan", "health", "try"];
let part = "queries";
function open() {
  const [name, rest, key] = location.hash.slice(1).split("/").map(decoded);
  part = parts.includes(name) ? name : "queries";
  if (!isOffline) $("trouble").hidden = true;
  document.title = `${$(`title-${part}`).textContent} – Panewise`;
  for (const one of parts) $(`part-${one}`).hidden = one !== part;
  for (const link of document.querySelectorAll("nav a"))
    if (link.dataset.part === part) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  if (part !== "keys") live.stop();
  if (part === "queries") { if (rest) guarded(() => choose(rest)); else leave(); }
  if (part === "keys" && rest) guarded(() => openKey(rest, key));
  if (part === "plan") guarded(plan);
}
function decoded(text) { try { return decodeURIComponent(text); } catch { return text; } }
addEventListener("hashchange", open);
addEventListener("keydown", (event) => {
  const isTyping = /INPUT|TEXTAREA|SELECT/.test(event.target.tagName);
  if (event.key === "Escape" && isTyping) event.target.blur();
  else if (event.key === "Escape" && part === "queries" && chosen) location.hash = "queries";
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); location.hash = "queries"; setTimeout(() => $("search").focus()); }
  if (event.key >= "1" && event.key <= "5") location.hash = parts[event.key - 1];
});

// The list of queries

let offset = 0, listed = [], chosen = null, chosenQuery = null, rowsOffset = 0, columns = [];
async function list() {
  const found = await get(`/v1/queries?limit=${LIST_SIZE}&offset=${offset}&search=${encodeURIComponent($("search").value)}`);
  listed = found.queries;
  $("found").textContent = found.total ? `${offset + 1} to ${offset + listed.length} of ${number.format(found.total)}` : "none";
  $("before").disabled = offset === 0;
  $("after").disabled = offset + LIST_SIZE >= found.total;
  $("list-empty").hidden = found.total > 0;
  const focused = document.activeElement.closest?.("#list tbody tr")?.dataset.name;
  $("list").tBodies[0].replaceChildren(...listed.map((query) => {
    const line = make("tr"), name = make("td"), link = make("a", query.name);
    link.href = `#queries/${encodeURIComponent(query.name)}`;
    name.append(link);
    line.dataset.name = query.name;
    line.append(name, make("td", query.window.replace(/[[\]]/g, "").toLowerCase() || query.kind), make("td", "", "number"), make("td", ""));
    return line;
  }));
  mark();
  if (focused) lineOf(focused)?.querySelector("a").focus();
  refreshValues();
}
const lineOf = (name) => [...$("list").tBodies[0].rows].find((one) => one.dataset.name === name);
function mark() {
  for (const line of $("list").tBodies[0].rows) {
    line.className = line.dataset.name === chosen ? "chosen" : "";
    if (line.className) line.querySelector("a").setAttribute("aria-current", "true"); else line.querySelector("a").removeAttribute("aria-current");
  }
}
function brief(row, query) {
  return Object.entries(row).filter(([name]) => !isWindow(name) && !query.group_columns.includes(name))
    .map(([name, value]) => `${name} ${shown(value)}`).join(", ");
}
// A lookup of all groups takes long if there are a million. Queries whose lookups are slow are asked one by one, and
// then left alone for some time: the page takes a part of the server's time, and shows what it has meanwhile.
const QUICK_MS = 100, PAUSE = 2;
const took = new Map();
let slowDue = 0;
const isQuick = (query) => took.get(query.name) < QUICK_MS;
function showValue(query, answer) {
  const line = lineOf(query.name);
  if (!line) return;
  const [groups, newest] = [line.cells[2], line.cells[3]];
  const count = answer.failed ? "–" : number.format(answer.total_rows);
  const row = answer.rows && answer.rows[0];
  const keyed = row && query.group_by.length ? `${query.group_columns.map((name) => shown(row[name])).join(", ")}: ` : "";
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
  if (line && !event.target.closest("a")) line.querySelector("a").click();
});
$("list").addEventListener("keydown", (event) => {
  const line = event.target.closest("tbody tr");
  if (!line) return;
  const next = { ArrowDown: line.nextElementSibling, ArrowUp: line.previousElementSibling }[event.key];
  if (next) { event.preventDefault(); next.querySelector("a").focus(); }
});

function leave() {
  chosen = chosenQuery = null;
  $("one").hidden = true;
  mark();
}
async function choose(name) {
  let query;
  try { query = await get(`/v1/queries/${encodeURIComponent(name)}`); } catch (error) { leave(); throw error; }
  const isOther = chosen !== name;
  chosen = name; chosenQuery = query;
  mark();
  $("one").hidden = false;
  if (isOther) {
    rowsOffset = 0; columns = [];
    $("one-name").textContent = name;
    $("one-statement").textContent = query.statement;
    $("one-state").textContent = "asking";
    $("sort").replaceChildren(new Option("the order of groups", ""));
    $("order").hidden = true;
    for (const rows of [$("rows").tHead, $("rows").tBodies[0]]) rows.replaceChildren();
    for (const id of ["rows-empty", "rows-keys"]) $(id).hidden = true;
    $("one").scrollTop = 0;
  }
  await top();
  // Where it stands below the list, it must be brought to the eye.
  if (isOther && matchMedia("(max-width: 69.99rem)").matches) $("one").scrollIntoView();
}
// Where the windows of a row's group are shown; a key is a list in the order of GROUP BY.
const keyAddress = (query, row) => `#keys/${encodeURIComponent(query.name)}/${encodeURIComponent(JSON.stringify(query.group_columns.map((name) => typeof row[name] === "bigint" ? String(row[name]) : row[name])))}`;
const topAsked = () => [chosen, $("sort").value, $("descending").checked, rowsOffset].join("\n");
// What somebody waits for is marked as old until it comes.
function askTop() {
  $("rows").setAttribute("aria-busy", "true");
  guarded(top);
}
async function top() {
  if (!chosen) return;
  const name = chosen, sort = $("sort").value, began = performance.now(), first = rowsOffset;
  const order = sort ? `&sort=${encodeURIComponent(sort)}&descending=${$("descending").checked}` : "";
  const asked = topAsked();
  let answer;
  try {
    answer = await get(`/v1/queries/${encodeURIComponent(name)}/answers?limit=${ROWS_SIZE}&offset=${first}${order}`);
  } catch (error) {
    if (asked !== topAsked()) return;
    $("rows").removeAttribute("aria-busy");
    if (error.status === 404) { leave(); return; }
    if (error.status === 0 || error.status === 401) throw error;
    $("one-state").textContent = error.message;
    return;
  }
  topDue = performance.now() + (performance.now() - began > QUICK_MS ? PAUSE * (performance.now() - began) : 0);
  if (asked !== topAsked()) return;  // Something else has been asked meanwhile.
  $("rows").removeAttribute("aria-busy");
  const names = answer.rows.length ? Object.keys(answer.rows[0]) : [];
  if (names.length && names.join() !== columns.join()) {
    columns = names;
    $("sort").replaceChildren(new Option("the order of groups", ""), ...names.map((one) => new Option(one, one)));
    $("sort").value = sort;
  }
  const query = chosenQuery, what = query.group_by.length ? "groups" : "rows";
  const shownRows = answer.total_rows ? `${rowsOffset + 1} to ${rowsOffset + answer.rows.length} of ${number.format(answer.total_rows)} ${what}` : `no ${what}`;
  // Most often all groups have one window, which is told once.
  const [row] = answer.rows;
  const isOne = row && row.window_end && answer.rows.every((one) => one.window_start === row.window_start && one.window_end === row.window_end);
  const windowed = isOne ? `; window from ${clock(row.window_start)} to ${clock(row.window_end)}` : "";
  $("one-state").textContent = `${shownRows}; ${answer.exact ? "exact" : "intervals"}${windowed}; watermark ${clock(answer.watermark)}, newest event ${clock(answer.newest_event)}, ${answer.age_s === null ? "no events yet" : `${seconds(answer.age_s)} old`}`;
  const canLink = query.group_by.length && query.has_history;
  table($("rows"), answer.rows, {
    hidden: isOne ? ["window_start", "window_end"] : [], linked: canLink ? query.group_columns[0] : null, link: (row) => keyAddress(query, row),
  });
  $("rows-keys").hidden = !canLink || !answer.rows.length;
  $("order").hidden = !sort;
  $("rows-empty").hidden = answer.rows.length > 0;
  $("rows-before").disabled = rowsOffset === 0;
  $("rows-after").disabled = rowsOffset + ROWS_SIZE >= answer.total_rows;
}
for (const id of ["sort", "descending"]) $(id).addEventListener("change", () => { rowsOffset = 0; askTop(); });
$("rows-before").addEventListener("click", () => { rowsOffset = Math.max(0, rowsOffset - ROWS_SIZE); askTop(); });
$("rows-after").addEventListener("click", () => { rowsOffset += ROWS_SIZE; askTop(); });
$("drop").addEventListener("click", () => guarded(async () => {
  if (!chosen || !confirm(`Drop the query ${chosen}?`)) return;
  await ask(`/v1/queries/${encodeURIComponent(chosen)}`, { method: "DELETE" });
  location.hash = "queries";
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
  return query.group_by.map((attribute) => {
    const kind = query.types[attribute], text = $(`key-${attribute}`).value;
    // Integers beyond 2^53 would lose digits as numbers.
    return kind === "BIGINT" && text.trim() && Number.isSafeInteger(Number(text)) ? Number(text)
      : kind === "DOUBLE" && Number.isFinite(Number(text)) ? Number(text)
      : kind === "BOOLEAN" && /^(true|false)$/i.test(text) ? text.toLowerCase() === "true" : text;
  });
}
// The address has the query and the key, so that it can be kept and sent.
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(async () => {
    await fields();
    if (!keyed || keyed.name !== $("key-query").value) {
      throw new Failed(404, { message: `There is no query ${$("key-query").value}.` });
    }
    const address = `#keys/${encodeURIComponent(keyed.name)}/${encodeURIComponent(JSON.stringify(keyOf(keyed)))}`;
    if (location.hash === address) open(); else location.hash = address;
  });
});
$("key-points").addEventListener("change", () => { if (location.hash.split("/").length === 3) open(); });
async function openKey(name, key) {
  live.stop();
  pointed = null;
  $("key-query").value = name;
  await fields();
  if (!keyed || keyed.name !== name) throw new Failed(404, { message: `There is no query ${name}.` });
  if (key === undefined) return;
  const query = keyed;
  let values = null;
  try { values = JSON.parse(key, whole); } catch { /* told below */ }
  if (!Array.isArray(values) || values.length !== query.group_by.length) {
    throw new Failed(400, { message: `The address names no key of ${name}, which groups by ${query.group_by.join(", ") || "nothing"}.` });
  }
  query.group_by.forEach((attribute, place) => { $(`key-${attribute}`).value = values[place] === null ? "" : String(values[place]); });
  const asked = query.group_by.length ? `keys=${encodeURIComponent(JSON.stringify([values]))}` : "";
  $("key-found").hidden = true;
  $("key-empty").hidden = false;
  $("key-empty").textContent = "asking";
  try { await history(query, asked); } catch (error) { $("key-empty").textContent = "No windows to show."; throw error; }
  live.follow(`/v1/live?query=${encodeURIComponent(query.name)}&${asked}`, async () => {
    if (part === "keys" && keyed === query) await history(query, asked);
  });
}
let points = [];
async function history(query, asked) {
  const found = await get(`/v1/queries/${encodeURIComponent(query.name)}/history?points=${$("key-points").value}&${asked}`);
  points = found.points;
  const rows = points.filter((point) => point.row).map((point) => point.row);
  $("key-empty").hidden = rows.length > 0;
  $("key-found").hidden = !rows.length;
  if (!rows.length) { $("key-empty").textContent = "This key has no events in the windows that are held."; return; }
  const numbers = Object.keys(rows[rows.length - 1]).filter((name) => rows.some((row) => isNumeric(row[name])) && !query.group_columns.includes(name));
  const before = $("key-value").value;
  if ([...$("key-value").options].map((option) => option.value).join() !== numbers.join()) {
    $("key-value").replaceChildren(...numbers.map((name) => new Option(name, name)));
    if (numbers.includes(before)) $("key-value").value = before;
  }
  const few = points.length < Number($("key-points").value) ? "; older windows are not held" : "";
  $("key-state").textContent = `${rows.length} of the last ${points.length} windows have an answer; ${query.window}${few}`;
  chartKey();
  table($("key-rows"), rows.slice().reverse(), { hidden: query.group_columns });
}
let pointed = null;
function readPoint(place) {
  pointed = place;
  const point = place === null ? null : points[place];
  $("key-read").textContent = point ? `${clock(point.at)}: ${point.row ? shown(point.row[$("key-value").value]) : "no answer"}` : "";
}
function chartKey() {
  const name = $("key-value").value;
  $("key-chart").hidden = !name;
  if (!name) return;
  $("key-chart").replaceChildren(chart(points.map((point) => point.row ? point.row[name] : null), points.map((point) => clock(point.at)),
    { width: Math.max(320, $("key-chart").clientWidth), point: readPoint, at: pointed }));
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
  if ($("plan-found").hidden) $("plan-cost").textContent = "The plan is being made.";
  let found;
  try { found = await get("/v1/plan"); } catch (error) {
    $("plan-found").hidden = true;
    $("plan-cost").textContent = "There is no plan to show.";
    throw error;
  }
  const data = found.plan;
  $("plan-found").hidden = false;
  $("plan-cost").textContent = `${data.trees.length} execution tree${data.trees.length === 1 ? "" : "s"}; ${number.format(Math.round(data.cost_per_s))} ${data.unit} a second, ${number.format(Math.round(data.no_share_per_s))} if each query were alone.`;
  $("plan-text").replaceChildren();
  inParts($("plan-more"), found.text.split("\n"), LINES, (lines) => $("plan-text").append(`${lines.join("\n")}\n`));
  $("work-about").textContent = found.work.length ? "What the trees were predicted to take since the plan began, and what they took."
    : streamsNow?.kind === "folder" ? workOfJob(data, (await get("/v1/batches")).batches) : "No query slides, so no tree works.";
  $("work").hidden = !found.work.length;
  $("work").tBodies[0].replaceChildren();
  inParts($("work-more"), found.work, TREES, (trees, first) => $("work").tBodies[0].append(...trees.map((tree, place) => {
    const line = make("tr");
    line.append(make("td", `${first + place}: ${tree.stream} ${tree.group_by.length ? `by ${tree.group_by.join(", ")}` : "without groups"}`));
    for (const value of [tree.queries, tree.groups, Math.round(tree.predicted_fed), tree.fed, Math.round(tree.predicted_folded), tree.folded])
      line.append(make("td", shown(value), "number"));
    return line;
  })));
  const picture = await (await ask("/v1/plan.svg")).blob();
  URL.revokeObjectURL($("picture").src);
  $("picture").src = URL.createObjectURL(picture);
}

// The trees of a job work on Spark, whose metrics tell of all of them together.
function workOfJob(data, batches) {
  const last = batches.slice(-30).filter((batch) => batch.fed !== null);
  if (last.length < 2) return "The trees work on Spark. What they do is shown if the server is started with --metrics FILE.";
  const passed = (Date.parse(last[last.length - 1].began) - Date.parse(last[0].began)) / 1000;
  const done = last.slice(1).reduce((sum, batch) => sum + batch.fed + batch.folded, 0);
  return `The trees work on Spark. At the rate that the job was planned for, they take ${number.format(Math.round(data.cost_per_s))} ${data.unit} a second; in the last ${last.length} batches they took ${number.format(Math.round(done / passed))}.`;
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
  const there = values.filter((value) => value !== null);
  const range = there.length > 1 ? `${text(Math.min(...there))} to ${text(Math.max(...there))}` : "";
  drawing.append(chart(values, [], { width: 220, height: 50, axis: false, fromZero: true }));
  figure.append(make("figcaption", title), make("strong", last === null ? "–" : text(last)), make("p", range), drawing);
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
  $("job-about").textContent = `batch ${last.batch} began ${clock(last.began)} and had ${number.format(last.events)} events`;
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
    const about = make("p", `watermark ${clock(stream.watermark)}, newest event ${clock(stream.newest_event)}`);
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
// What statements can name: streams with their attributes and types.
let attributesShown = "";
function attributes(streams) {
  const told = JSON.stringify(streams.streams.map((stream) => [stream.name, stream.attributes]));
  if (told === attributesShown) return;
  attributesShown = told;
  const list = make("dl");
  for (const stream of streams.streams) {
    list.append(make("dt", stream.name), make("dd", Object.entries(stream.attributes)
      .map(([name, kind]) => `${name} ${kind}${name === stream.timestamp ? " (the time)" : ""}`).join(", ")));
  }
  $("attributes").replaceChildren(streams.streams.length ? list : make("p", "There is no stream yet. Add one with CREATE STREAM.", "empty"));
  const [first] = streams.streams;
  if (first) $("statement").placeholder = `CREATE QUERY last_hour AS\n  SELECT COUNT(*) AS events FROM ${first.name} [RANGE 1 HOUR];`;
}
async function run(isCheck) {
  mistake(null);
  $("verdict").textContent = isCheck ? "checking" : "adding";
  for (const id of ["check", "add"]) $(id).disabled = true;
  try {
    const done = await post(`/v1/queries?check=${isCheck}`, { statements: $("statement").value });
    const what = [["adds", done.added], ["drops", done.dropped]].filter(([, names]) => names.length)
      .map(([verb, names]) => `${verb} ${names.join(", ")}`).join("; ") || "changes nothing";
    $("verdict").textContent = isCheck ? `This is right: it ${what}.` : `Done: it ${what}. It holds ${done.holds}. `;
    if (!isCheck && done.holds === "now" && done.added.length) {
      const link = make("a", `Show ${done.added[0]}`);
      link.href = `#queries/${encodeURIComponent(done.added[0])}`;
      $("verdict").append(link);
    }
    if (!isCheck) await list();
  } catch (error) {
    $("verdict").textContent = "";
    if (error.status === 0 || error.status === 401) throw error;
    mistake(error.error || { message: error.message });
  } finally {
    $("check").disabled = false;
    $("add").disabled = !streamsNow?.can_add;
  }
}
$("statement").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); $("check").click(); }
});
$("check").addEventListener("click", () => { if ($("try-form").reportValidity()) guarded(() => run(true)); });
$("try-form").addEventListener("submit", (event) => { event.preventDefault(); guarded(() => run(false)); });

// The heartbeat: one small request a second, and more only if something is new and looked at

let version = -1, beats = 0, timer = null, streamsNow = null;
async function beat() {
  if (document.hidden) return;
  const streams = await get("/v1/streams");
  if (isOffline || !$("ask-token").hidden) well();
  const isChanged = streamsNow !== null && streams.queries !== streamsNow.queries;
  streamsNow = streams;
  attributes(streams);
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
  if (isChanged && part === "queries") await list();
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
