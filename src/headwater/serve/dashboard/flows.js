// Flows as a graph: topics on the left, what is made of them on the right, and on the way how many rows went where.
import { ago, ask, count, counted, el, empty, named, size, svg, table, when } from "./page.js";

const WIDE = 214, HIGH = 52, GAP = 22, STEP = 312;

function graphOf(flows, viewNames) {
  const boxes = new Map(), arrows = [], several = new Set(flows.map((flow) => flow.name.split(".")[0])).size > 1;
  const box = (id, more) => boxes.get(id) ?? boxes.set(id, { id, ...more }).get(id);
  for (const flow of flows) {
    const app = flow.name.split(".")[0];
    for (const name of flow.topics) {
      box(`topic ${name}`, { title: name, under: "topic", href: `#/topics/${named(name)}` });
      arrows.push([`topic ${name}`, `flow ${flow.name}`]);
    }
    box(`flow ${flow.name}`, { title: several ? flow.name : flow.name.slice(app.length + 1), flow, under: `batch ${count(flow.batch)} · lag ${count(flow.lag)}` });
    for (const output of flow.outputs) {
      const isView = viewNames.has(`${app}.${output.name}`), under = `${counted(output.total.out, "row")} out`;
      const id = isView ? `view ${app}.${output.name}` : `topic ${output.name}`;
      const href = isView ? `#/views/${named(`${app}.${output.name}`)}` : `#/topics/${named(output.name)}`;
      box(id, { title: output.name, under: `${isView ? "view" : "output"} · ${under}`, href });
      arrows.push([`flow ${flow.name}`, id]);
    }
  }
  return { boxes, arrows };
}

function placed({ boxes, arrows }) {
  const column = new Map([...boxes.keys()].map((id) => [id, 0]));
  for (let round = 0; round < boxes.size; round += 1) {
    for (const [from, to] of arrows) column.set(to, Math.min(12, Math.max(column.get(to), column.get(from) + 1)));
    if (arrows.every(([from, to]) => column.get(to) > column.get(from))) break;
  }
  const filled = [];
  for (const box of boxes.values()) {
    const index = column.get(box.id);
    filled[index] = (filled[index] ?? 0) + 1;
    box.x = 8 + index * STEP;
    box.y = 8 + (filled[index] - 1) * (HIGH + GAP);
  }
  // Short columns stand beside the middle of the long ones.
  const most = Math.max(...filled);
  for (const box of boxes.values()) box.y += (most - filled[column.get(box.id)]) * (HIGH + GAP) / 2;
  return { width: 24 + (filled.length - 1) * STEP + WIDE, height: Math.max(...filled) * (HIGH + GAP) + 8 };
}

function drawn(graph, choose) {
  const { width, height } = placed(graph);
  const cut = (text) => (text.length > 25 ? `${text.slice(0, 24)}…` : text);
  const lines = graph.arrows.map(([from, to]) => {
    const start = graph.boxes.get(from), end = graph.boxes.get(to);
    const x1 = start.x + WIDE, y1 = start.y + HIGH / 2, x2 = end.x, y2 = end.y + HIGH / 2, middle = (x1 + x2) / 2;
    return svg("path", { d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` });
  });
  const shapes = [...graph.boxes.values()].map((box) => {
    const inside = [svg("title", {}, box.title), svg("rect", { x: box.x, y: box.y, width: WIDE, height: HIGH, rx: 9 }),
      svg("text", { x: box.x + 12, y: box.y + 22 }, cut(box.title)),
      svg("text", { x: box.x + 12, y: box.y + 40, class: "under" }, cut(box.under))];
    if (!box.flow) return svg("a", { href: box.href }, inside);
    const pick = (event) => {
      if (event.type === "keydown" && !["Enter", " "].includes(event.key)) return;
      event.preventDefault();
      choose(box.flow.name);
    };
    if (FAILING.includes(stateOf(box.flow))) inside.push(svg("text", { x: box.x + WIDE - 12, y: box.y + 22, class: "mark", "text-anchor": "end" }, "⚠"));
    const label = `Flow ${box.flow.name}, ${stateOf(box.flow)}: show its figures`;
    return svg("g", { class: `flow ${stateOf(box.flow) === "running" ? "" : FAILING.includes(stateOf(box.flow)) ? "failing" : "stopped"}`, role: "button", tabindex: "0",
      "aria-label": label, onclick: pick, onkeydown: pick }, inside);
  });
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Graph of flows" }, svg("svg", { class: "graph", width, height, viewBox: `0 0 ${width} ${height}`,
    role: "group", "aria-label": "Flows, from topics to views" }, lines, shapes));
}

export const stateOf = (flow) => flow.state ?? (flow.paused ? "paused" : flow.running ? "running" : "stopped");
const FAILING = ["failed", "retrying"];

// Why a flow fails or has failed, how often, and when it is tried again.
function trouble(flow) {
  const pairs = {};
  if (flow.reason) pairs.reason = flow.reason;
  if (flow.reason && flow.failed_count) {
    pairs["failed since"] = when(flow.failed_first_ms);
    pairs["failed last"] = `${when(flow.failed_last_ms)}, ${counted(flow.failed_count, "time")} in a row`;
  }
  if (stateOf(flow) === "retrying") pairs["next attempt"] = flow.next_attempt_ms == null ? "under way" : when(flow.next_attempt_ms);
  if (!flow.reason && flow.healed_ms) pairs["runs again since"] = `${when(flow.healed_ms)}, after ${counted(flow.failed_count, "failure")}`;
  (flow.warnings ?? []).forEach((one, index) => { pairs[index ? `warning ${index + 1}` : "warning"] = one.text; });
  return pairs;
}

// What can be asked of a flow; the process that runs it obeys within a second.
function controls(flow) {
  const said = el("span", { role: "status", class: "soft" });
  const asking = (what) => async () => {
    const answer = await fetch(`../flows/${named(flow.name)}/${what}`, { method: "POST" });
    said.textContent = answer.ok ? "requested" : (await answer.json()).message;
  };
  const button = (what, words) => el("button", { type: "button", id: `${what}-flow`, onclick: asking(what) }, words);
  return el("p", { class: "controls" }, flow.paused ? button("resume", "Resume") : button("pause", "Pause"), " ",
    button("restart", "Restart"), " ", said);
}

const KINDS = ["in", "expanded", "out", "filtered", "duplicates", "late", "poisoned"];

function figures(flow) {
  const pairs = { status: stateOf(flow), ...trouble(flow), batch: count(flow.batch), lag: `${count(flow.lag)} records`,
    "last batch": flow.since_ms == null ? "–" : `${ago(flow.since_ms)} ago`, "rows per second": count(flow.per_second),
    state: size(flow.state_bytes), watermark: flow.watermark_us == null ? "–" : when(flow.watermark_us / 1000),
    "not waited for": flow.idle.join(", ") || "–" };
  return [el("h2", {}, flow.name), controls(flow), el("div", { class: "card" }, el("dl", {}, Object.entries(pairs).flatMap(([name, value]) =>
    [el("dt", {}, name), el("dd", {}, value)]))), table("Every row accounted for: in + expanded = all the others",
    [{ name: "output" }, ...KINDS.map((name) => ({ name, number: true })), { name: "balance" }, { name: "keys expired", number: true }],
    flow.outputs.map((one) => [one.name, ...KINDS.map((kind) => count(one.total[kind])),
      el("span", { class: `tag ${one.balanced ? "good" : "bad"}` }, one.balanced ? "balanced" : "does not add up"), count(one.total.expired ?? 0)]))];
}

export async function flows(held) {
  let chosen, seen = "";
  const graph = el("div"), details = el("div", { "aria-live": "polite" });
  const renew = async () => {
    const [found, known] = await Promise.all([ask("/flows"), ask("/views")]);
    if (!held.contains(graph)) held.replaceChildren(el("h1", {}, "Flows"), graph, details);
    if (!found.length) return graph.replaceChildren(empty('No flow has run here yet; "headwater run APP.py" runs those of an app.'));
    const render = () => {
      const flow = found.find((one) => one.name === chosen) ?? found[0];
      details.replaceChildren(...figures(flow));
    };
    const now = JSON.stringify(found.map((one) => [one.name, one.batch, one.lag, stateOf(one), one.outputs]));
    if (now !== seen) {
      seen = now;
      const focused = document.activeElement?.getAttribute("aria-label");
      graph.replaceChildren(drawn(graphOf(found, new Set(known.map((one) => one.name))), (name) => { chosen = name; render(); }));
      if (focused) [...graph.querySelectorAll("[aria-label]")].find((one) => one.getAttribute("aria-label") === focused)?.focus();
    }
    render();
    return undefined;
  };
  await renew();
  return renew;
}
