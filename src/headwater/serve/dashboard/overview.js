import { ask, brief, chart, count, el, empty, named, size, table, ago } from "./page.js";
import { stateOf } from "./flows.js";
import { damage } from "./topics.js";

const KEPT = 90, DAY_EVERY_MS = 30_000;
const past = { rate: [], lag: [], late: [], poisoned: [], behind: [] };
let before, since = "minutes", day = null;

// What the node has kept of the last day. Asked for again when it has taken another sample.
async function dayOf() {
  if (!day || performance.now() - day.asked > DAY_EVERY_MS) {
    const said = await ask("/history");
    const of = (name) => said.samples.map((one) => one[name]);
    day = { asked: performance.now(), everyMs: said.every_ms,
      past: { rate: of("rate"), lag: of("lag"), late: of("late"), poisoned: of("poisoned"), behind: of("behind_seconds") } };
  }
  return day;
}

// A group under which a flow notes how far it is has no members, and is as well as its flow is.
const aboutGroup = (group, flows) => {
  const flow = flows.find((one) => one.name === group.name);
  if (!flow) return [group.state, count(group.members)];
  const state = stateOf(flow), how = { failed: "has failed", retrying: "fails, and is tried again" }[state];
  return [`offsets of a flow, which ${how ?? `is ${state}`}`, "–"];
};

function sums(topics, groups, flows) {
  const written = topics.flatMap((one) => one.partitions).reduce((sum, one) => sum + one.end, 0);
  const accounts = flows.flatMap((flow) => flow.outputs.map((one) => one.total));
  // A record that cannot be decoded is poisoned for every output of its flow, and is one all the same.
  const poisoned = flows.reduce((sum, flow) => sum + Math.max(0, ...flow.outputs.map((one) => one.total.poisoned ?? 0)), 0);
  const now = performance.now();
  const rate = before && now > before.now ? Math.max(0, (written - before.written) * 1000 / (now - before.now)) : 0;
  before = { now, written };
  const added = (list, name) => list.reduce((sum, one) => sum + (one[name] ?? 0), 0);
  const behind = Math.max(0, ...flows.filter((flow) => flow.running).map((flow) => (flow.behind_us ?? 0) / 1e6));
  return { rate, behind, lag: added(groups, "lag"), late: added(accounts, "late"), poisoned };
}

export async function overview(held) {
  const renew = async () => {
    const [topics, groups, flows, views] = await Promise.all(["/topics", "/groups", "/flows", "/views"].map((one) => ask(one)));
    const now = sums(topics, groups, flows);
    for (const name of Object.keys(past)) past[name] = [...past[name], now[name]].slice(-KEPT);
    const { past: drawn, everyMs } = since === "day" ? await dayOf() : { past, everyMs: undefined };
    // Buttons, because a list that is open would close whenever the page is renewed.
    const over = [["minutes", "the last minutes"], ["day", "the last day"]].map(([value, name]) => el("button",
      { type: "button", id: `over-${value}`, "aria-pressed": String(value === since), onclick: () => { since = value; renew(); } }, name));
    const card = (name, figure, picture) =>
      el("div", { class: "card" }, el("div", { class: "name" }, name), el("div", { class: "figure" }, figure), picture);
    const link = (kind, name) => el("a", { href: `#/${kind}/${named(name)}` }, name);
    held.replaceChildren(
      el("h1", {}, "Overview"), ...damage(topics),
      el("p", { class: "over", role: "group", "aria-label": "Charts of" }, el("span", { class: "soft" }, "Charts of"), over),
      el("div", { class: "cards charts" },
        card("Records per second", count(now.rate), chart(drawn.rate, "Records per second", everyMs)),
        card("Lag of groups", count(now.lag), chart(drawn.lag, "Lag of groups", everyMs)),
        card("Watermark lag, seconds", count(now.behind), chart(drawn.behind, "Watermark lag, seconds", everyMs)),
        card("Late rows", count(now.late), chart(drawn.late, "Late rows", everyMs)),
        card("Poisoned rows", count(now.poisoned), chart(drawn.poisoned, "Poisoned rows", everyMs))),
      el("div", { class: "cards small" },
        card("Topics", count(topics.length)), card("Views", count(views.length)), card("Flows", count(flows.length)),
        card("On disk", size(topics.reduce((sum, one) => sum + one.bytes, 0)))),
      el("h2", {}, "Groups"),
      groups.length ? table("Consumer groups and their lag",
        [{ name: "group" }, { name: "state" }, { name: "members", number: true }, { name: "lag", number: true }],
        groups.map((one) => [one.name, ...aboutGroup(one, flows), count(one.lag)])) : empty("No group has read anything yet."),
      el("h2", {}, "Views"),
      views.length ? table("Views and when they were last written",
        [{ name: "view" }, { name: "key" }, { name: "writes", number: true }, { name: "last write", time: true }],
        views.map((one) => [link("views", one.name), brief(one.key), count(one.change),
          one.updated_ms ? `${ago(Date.now() - one.updated_ms)} ago` : "–"])) : empty("There are no views yet."));
  };
  await renew();
  return renew;
}
