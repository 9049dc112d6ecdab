// What all pages share. Everything that comes from records, names or rows becomes text, never markup.

export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child != null) node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

// Whole numbers that JavaScript cannot hold stay as they are written.
export function parseJson(text) {
  return JSON.parse(text, (key, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context
      ? context.source : value);
}

export class Failed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function ask(path, query = {}) {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== "" && one != null) words.append(key, one);
  }
  const response = await fetch(`..${path}${words.size ? `?${words}` : ""}`);
  const said = parseJson(await response.text());
  if (!response.ok) throw new Failed(response.status, said.message);
  return said;
}

export const named = encodeURIComponent;
const whole = new Intl.NumberFormat("en");
export const count = (number) => (number == null ? "–" : whole.format(Math.round(number)));

export function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let index = 0;
  for (; bytes >= 1000 && index < units.length - 1; index += 1) bytes /= 1000;
  return `${index ? bytes.toFixed(1) : bytes} ${units[index]}`;
}

export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export const when = (ms) => (ms >= 0 ? `${new Date(ms).toISOString().replace("T", " ").slice(0, 23)} UTC` : "–");

export function ago(ms) {
  if (ms == null) return "–";
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 90) return `${seconds.toFixed(0)} s`;
  return seconds < 5400 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(0)} h`;
}

const UNITS = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, s: 1, min: 60, h: 3600 };

// How large something is that is shown as a number, with or without a unit; what is no number is the smallest.
export function weight(text) {
  if (/^\d{4}-\d\d-\d\d /.test(text)) return Date.parse(text.replace(" UTC", "Z").replace(" ", "T"));
  const found = /^(-?[\d,]*\.?\d+)(?:\s*([A-Za-z]+))?/.exec(text.trim());
  return found ? Number(found[1].replaceAll(",", "")) * (UNITS[found[2]] ?? 1) : -Infinity;
}

const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
const textOf = (cell) => (cell instanceof Node ? cell.textContent : String(cell ?? ""));

// The head of a column that sorts: a button, and an arrow for the order that holds.
export function sortingHead(column, id, order, choose) {
  const own = order?.name === column.name;
  return el("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": own ? (order.down ? "descending" : "ascending") : null },
    el("button", { type: "button", class: "sort", id, onclick: () => choose({ name: column.name, down: own ? !order.down : Boolean(column.number || column.time) }) },
      column.name, el("span", { "aria-hidden": "true" }, own ? (order.down ? " ↓" : " ↑") : "")));
}

// By the caption of a table: the column that the user has chosen, also when the table is drawn again.
const orders = new Map();

// A table of the kind "stacked" has a line for each cell where there is no room for columns.
export function table(caption, columns, rows, kind = null) {
  const name = caption.replace(/[^A-Za-z]+/g, "-"), order = orders.get(name);
  const index = order ? columns.findIndex((one) => one.name === order.name) : -1;
  if (index >= 0) {
    const numeric = columns[index].number || columns[index].time;
    const compare = (one, other) => (numeric ? weight(one) - weight(other) || 0 : words.compare(one, other));
    rows = [...rows].sort((one, other) => compare(textOf(one[index]), textOf(other[index])) * (order.down ? -1 : 1));
  }
  let drawn;
  const choose = (chosen) => {
    orders.set(name, chosen);
    const next = table(caption, columns, rows, kind);
    drawn.replaceWith(next);
    next.querySelector(`[aria-sort] button`)?.focus();
  };
  const heads = columns.map((one, number) => sortingHead(one, `sort-${name}-${number}`, order, choose));
  drawn = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { class: kind }, el("caption", {}, caption), el("thead", {}, el("tr", {}, heads)),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, index) => {
        const column = columns[index];
        return el("td", { "data-name": column.name, class: column.number ? "number" : column.content ? "content" : column.time ? "time" : null }, cell ?? "–");
      }))))));
  return drawn;
}

// The key of a view; windows are one thing, though they have two columns.
export const brief = (key) => key.join(", ").replace("window_start, window_end", "window");

export const empty = (...words) => el("p", { class: "empty" }, ...words);

// A small picture of the last minutes; what it shows is also said, for those who do not see it.
export function chart(values, about, everyMs = 2000) {
  const width = 200, height = 44, most = Math.max(1, ...values);
  const points = values.map((value, index) =>
    `${(index * width / Math.max(1, values.length - 1)).toFixed(1)},${(height - 3 - value / most * (height - 6)).toFixed(1)}`);
  const label = `${about}: now ${count(values.at(-1) ?? 0)}, most ${count(Math.max(0, ...values))}`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    points.length > 1 ? [svg("polygon", { class: "area", points: `0,${height} ${points.join(" ")} ${width},${height}` }),
      svg("polyline", { class: "line", points: points.join(" ") })] : []);
  return [picture, el("div", { class: "axis", "aria-hidden": "true" }, el("span", {}, values.length > 1 ? `${ago((values.length - 1) * everyMs)} ago` : ""),
    el("span", {}, `most ${count(Math.max(0, ...values))}`))];
}

export function shown(content) {
  if (content == null) return el("span", { class: "soft" }, "null");
  const text = content.json ?? content.text ?? content.base64;
  return el("span", { title: `${content.bytes} bytes` }, content.json == null && content.text == null ? "base64 " : "",
    text, content.cut ? "…" : "");
}
