// Pictures of a view: lines over time where its rows are windows, else bars of its largest rows.
import { el, svg } from "./page.js";

const HIGH = 230, LEFT = 58, RIGHT = 14, ABOVE = 12, BELOW = 26, LINES_MAX = 8, BARS_MAX = 10, BAR = 24;
const START = "window_start", END = "window_end";
const brief = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });

// Where an axis ends: a round number that is not below the largest value.
export function rounded(most) {
  if (!(most > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((one) => one * unit).find((one) => one >= most * (1 - 1e-9));
}

// Drawn as wide as it will be shown, so that letters have their own size on every screen.
const room = () => Math.max(300, Math.min(1110, document.documentElement.clientWidth - 54));
const clock = (ms) => new Date(ms).toISOString().slice(11, 19);
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function linesOf(rows, key, figure) {
  const lines = new Map();
  for (const row of rows) {
    const at = Date.parse(row[START]), value = Number(row[figure]);
    if (row[figure] == null || Number.isNaN(at) || Number.isNaN(value)) continue;
    const name = key.map((one) => row[one]).join(", ");
    if (!lines.has(name)) lines.set(name, []);
    lines.get(name).push([at, value]);
  }
  for (const points of lines.values()) points.sort((one, other) => one[0] - other[0]);
  return new Map([...lines].sort(([one], [other]) => (one < other ? -1 : 1)));
}

function drawnLines(lines, figure) {
  const WIDE = room();
  const all = [...lines.values()].flat(), first = Math.min(...all.map((one) => one[0])), last = Math.max(...all.map((one) => one[0]));
  const top = rounded(Math.max(...all.map((one) => one[1]))), low = Math.min(0, ...all.map((one) => one[1])), bottom = low < 0 ? -rounded(-low) : 0;
  const x = (at) => LEFT + (last === first ? 1 : (at - first) / (last - first)) * (WIDE - LEFT - RIGHT);
  const y = (value) => ABOVE + (top - value) / (top - bottom) * (HIGH - ABOVE - BELOW);
  const levels = [bottom, (bottom + top) / 2, top].map((value) => [svg("path", { class: "rule", d: `M${LEFT} ${y(value)}H${WIDE - RIGHT}` }),
    svg("text", { class: "under end", x: LEFT - 8, y: y(value) + 4 }, brief.format(value))]);
  const moments = (last === first ? [last] : (WIDE < 500 ? [0, 1] : [0, 1 / 3, 2 / 3, 1]).map((one) => first + one * (last - first))).map((at, index, { length }) =>
    svg("text", { class: `under ${index === length - 1 ? "end" : index ? "middle" : ""}`, x: x(at), y: HIGH - 6 }, clock(at)));
  const drawn = [...lines.values()].map((points, index) => points.length > 1
    ? svg("polyline", { class: `series s${index}`, points: points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ") })
    : svg("circle", { class: `spot s${index}`, cx: x(points[0][0]), cy: y(points[0][1]), r: 4 }));
  const newest = [...lines].map(([name, points]) => `${name ? `${name}: ` : ""}${exact.format(points.at(-1)[1])}`).join("; ");
  const picture = svg("svg", { class: "plot", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img",
    "aria-label": `${figure} over time, from ${clock(first)} to ${clock(last)} UTC; newest: ${newest}` }, levels, moments, drawn);
  const names = [...lines.keys()].filter(Boolean);
  return [picture, names.length ? el("ul", { class: "legend" }, names.map((name, index) => el("li", {},
    svg("svg", { viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true" }, svg("rect", { class: `swatch s${index}`, width: 12, height: 12, rx: 3 })),
    cut(name, 40)))) : null];
}

function drawnBars(rows, key, figure) {
  const largest = rows.map((row) => [key.map((one) => row[one] ?? "–").join(", "), Number(row[figure])])
    .filter(([, value]) => value > 0).sort((one, other) => other[1] - one[1]).slice(0, BARS_MAX);
  if (!largest.length) return null;
  const WIDE = room(), left = Math.min(250, WIDE * 0.38), most = rounded(largest[0][1]), high = largest.length * BAR + 8;
  const bars = largest.map(([name, value], index) => {
    const width = Math.max(2, value / most * (WIDE - left - 70)), y = 4 + index * BAR;
    return [svg("text", { class: "end", x: left - 10, y: y + 16 }, svg("title", {}, name), cut(name, Math.floor(left / 7.2))),
      svg("rect", { class: "swatch s0", x: left, y: y + 3, width, height: BAR - 7, rx: 4 }),
      svg("text", { class: "under", x: left + width + 8, y: y + 16 }, exact.format(value))];
  });
  return [svg("svg", { class: "plot", viewBox: `0 0 ${WIDE} ${high}`, role: "img",
    "aria-label": `The ${largest.length} rows with the largest ${figure}: ${largest.map(([name, value]) => `${name} ${exact.format(value)}`).join("; ")}` }, bars)];
}

// Lines where there are few and they have a time; else the largest of what is newest.
export function picture(rows, key, figure) {
  const windowed = rows.length > 0 && START in rows[0], groups = key.filter((one) => one !== START && one !== END);
  if (windowed) {
    const lines = linesOf(rows, groups, figure);
    if (lines.size && lines.size <= LINES_MAX) return drawnLines(lines, figure);
  }
  if (!windowed) return drawnBars(rows, groups, figure);
  const newest = rows.reduce((last, row) => (row[START] > last[START] ? row : last));
  const bars = drawnBars(rows.filter((row) => row[START] === newest[START]), groups, figure);
  const until = newest[END] == null ? "" : ` to ${plain(newest[END])}`;
  return bars && [el("p", { class: "soft window" }, `The newest window: ${plain(newest[START])}${until} UTC`), ...bars];
}

// A value of a column, for people: lists of small things on one line.
export function plain(value) {
  if (value == null) return "–";
  if (Array.isArray(value)) return value.map((one) => (one !== null && typeof one === "object" ? Object.values(one).map(plain).join(" ") : plain(one))).join(" · ") || "–";
  if (typeof value === "object") return JSON.stringify(value);
  if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(12)));
  return String(value).replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?(Z|\+00:00)$/, "$1 $2");
}

const INNER_MAX = 20;

// A value of a column as it stands in a table: a list of structs is a table of its own, a struct a list of its fields.
export function drawnValue(value) {
  const isStruct = (one) => one !== null && typeof one === "object" && !Array.isArray(one);
  if (Array.isArray(value) && value.length && value.every(isStruct)) {
    const names = [...new Set(value.flatMap((one) => Object.keys(one)))], more = value.length - INNER_MAX;
    return [el("table", { class: "inner" }, el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, value.slice(0, INNER_MAX).map((one) => el("tr", {}, names.map((name) => el("td", {}, drawnValue(one[name]))))))),
    more > 0 ? el("div", { class: "soft" }, `and ${more} more`) : null];
  }
  if (isStruct(value)) return el("dl", { class: "inner" }, Object.entries(value).flatMap(([name, one]) => [el("dt", {}, name), el("dd", {}, drawnValue(one))]));
  return plain(value);
}
