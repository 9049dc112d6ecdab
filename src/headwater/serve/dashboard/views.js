import { ask, ago, brief, count, counted, el, empty, named, parseJson, sortingHead, table } from "./page.js";
import { drawnValue, picture } from "./pictures.js";
import { searchBox } from "./search.js";

export async function views(held) {
  const renew = async () => {
    const found = await ask("/views");
    held.replaceChildren(el("h1", {}, "Views"), found.length ? table("Views, their columns and positions",
      [{ name: "view" }, { name: "key" }, { name: "columns" }, { name: "writes", number: true }, { name: "last write", time: true }],
      found.map((one) => [el("a", { href: `#/views/${named(one.name)}` }, one.name), brief(one.key),
        one.columns.map((column) => `${column.name} ${column.type}`).join(", "), count(one.change),
        one.updated_ms ? `${ago(Date.now() - one.updated_ms)} ago` : "–"]), "stacked") : empty('There are no views yet; "headwater run APP.py" makes those an app declares.'));
  };
  await renew();
  return renew;
}

const SHOWN_MAX = 200, PICTURE_EVERY_MS = 1000;
const NUMBERS = /^(byte|short|int|long|float|double|decimal|integer|bigint|smallint|tinyint)/;

export async function view(held, name, { alive, connectionLost, closing }) {
  const described = await ask(`/views/${named(name)}`);
  const names = described.columns.map((one) => one.name);
  const rows = new Map();
  const state = el("p", { class: "soft", role: "status" });
  const failed = el("p", { class: "bad", role: "alert" });
  const body = el("tbody");
  let source, last = "", drawn = false, fresh = new Set(), pictured = 0;
  const figures = described.columns.filter((one) => NUMBERS.test(one.type) && !described.key.includes(one.name)).map((one) => one.name);
  const where = el("input", { placeholder: figures.length ? `${figures.at(-1)} > 100` : `${names[0]} = A`, size: "28" });
  const figure = el("select", { onchange: () => depict() }, figures.map((one) => el("option", { value: one }, one)));
  figure.value = figures.at(-1) ?? "";
  const drawing = el("div"), none = empty("No rows yet. They appear here as soon as there are any.");
  none.hidden = true;
  const pictures = el("div", { class: "card picture", hidden: true }, el("label", {}, "Chart of", figure), drawing);
  // Windows are read from their end: the newest first.
  const first = names.includes("window_start") ? "window_start" : names.includes("at") ? "at" : null;
  let order = first ? { name: first, down: true } : null;
  const compared = (one, other) => {
    const numeric = NUMBERS.test(described.columns.find((column) => column.name === order.name).type);
    const [left, right] = [one, other].map((row) => (numeric && row[order.name] != null ? Number(row[order.name]) : row[order.name]));
    if (left == null || right == null) return (left == null) - (right == null);
    return (left < right ? -1 : left > right ? 1 : 0) * (order.down ? -1 : 1);
  };

  const cell = (row, column) =>
    el("td", { class: NUMBERS.test(column.type) ? "number" : column.type.startsWith("timestamp") ? "time" : null }, drawnValue(row[column.name]));
  const depict = () => {
    pictured = performance.now();
    const found = figures.length ? picture([...rows.values()], described.key, figure.value) : null;
    pictures.hidden = !found;
    drawing.replaceChildren(...(found ?? []).filter(Boolean));
  };
  const draw = () => {
    drawn = false;
    if (performance.now() - pictured >= PICTURE_EVERY_MS) depict();
    else setTimeout(() => alive() && depict(), PICTURE_EVERY_MS);
    const sorted = order ? [...rows].sort(([, one], [, other]) => compared(one, other)) : [...rows];
    const kept = sorted.slice(0, SHOWN_MAX);
    body.replaceChildren(...kept.map(([key, row]) =>
      el("tr", { class: fresh.has(key) ? "fresh" : null }, described.columns.map((column) => cell(row, column)))));
    fresh = new Set();
    none.hidden = rows.size > 0;
    state.textContent = rows.size > SHOWN_MAX ? `${count(rows.size)} rows, the first ${SHOWN_MAX} are shown` : `${counted(rows.size, "row")}, live`;
  };
  const later = () => { if (!drawn) { drawn = true; requestAnimationFrame(draw); } };
  const keyed = (key) => JSON.stringify(described.key.map((one) => key[one]));
  let loose = 0;
  const put = (key, row, changed) => {
    const id = described.key.length ? keyed(key) : `row ${loose += 1}`;
    rows.set(id, row);
    if (changed) fresh.add(id);
  };
  const open = () => {
    source?.close();
    const query = new URLSearchParams();
    if (where.value) query.append("where", where.value);
    if (last) query.append("after", last);
    source = new EventSource(`../views/${named(name)}/live?${query}`);
    source.addEventListener("snapshot", (event) => {
      const said = parseJson(event.data);
      if (said.begin) rows.clear();
      for (const row of said.rows) put(row, row, false);
      last = event.lastEventId || last;
      later();
    });
    source.addEventListener("changes", (event) => {
      for (const one of parseJson(event.data).changes) {
        if (one.op === "delete") rows.delete(keyed(one.key));
        else put(one.key, one.row, true);
      }
      last = event.lastEventId || last;
      later();
    });
    source.addEventListener("end", () => { source.close(); again(); });
    source.onopen = () => connectionLost(false);
    source.onerror = () => {
      connectionLost(true);
      if (source.readyState === EventSource.CLOSED) again();
    };
  };
  const again = () => setTimeout(() => alive() && open(), 1000);
  closing(() => source?.close());
  const filter = async (event) => {
    event.preventDefault();
    failed.textContent = "";
    try {
      await ask(`/views/${named(name)}/rows`, { where: where.value, limit: 1 });
    } catch (error) {
      failed.textContent = error.message;
      return;
    }
    last = "";
    rows.clear();
    open();
  };
  const headLine = el("tr");
  const drawHeads = () => headLine.replaceChildren(...described.columns.map((one, number) => sortingHead(
    { name: one.name, number: NUMBERS.test(one.type), time: one.type.startsWith("timestamp") }, `sort-row-${number}`, order, (chosen) => {
      order = chosen;
      drawHeads();
      draw();
      headLine.querySelector("[aria-sort] button")?.focus();
    })));
  drawHeads();
  held.replaceChildren(el("h1", {}, described.name), ...searchBox(described),
    el("form", { onsubmit: filter }, el("label", {}, "Only rows where", where), el("button", { class: "main" }, "Filter")),
    failed, state, pictures,
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Rows of ${described.name}` },
      el("table", {}, el("caption", {}, `Key: ${described.key.join(", ") || "none"}`), el("thead", {}, headLine), body)), none);
  open();
  return () => ask("/health");
}
