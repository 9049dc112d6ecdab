import { ask, brief, chart, count, el, empty, named, size, table, ago } from "./page.js";

const KEPT = 90;
const past = { rate: [], lag: [], late: [], poisoned: [], behind: [] };
let before;

function sums(topics, groups, flows) {
  const written = topics.flatMap((one) => one.partitions).reduce((sum, one) => sum + one.end, 0);
  const accounts = flows.flatMap((flow) => flow.outputs.map((one) => one.total));
  const now = performance.now();
  const rate = before && now > before.now ? Math.max(0, (written - before.written) * 1000 / (now - before.now)) : 0;
  before = { now, written };
  const added = (list, name) => list.reduce((sum, one) => sum + (one[name] ?? 0), 0);
  const behind = Math.max(0, ...flows.filter((flow) => flow.running).map((flow) => (flow.behind_us ?? 0) / 1e6));
  return { rate, behind, lag: added(groups, "lag"), late: added(accounts, "late"), poisoned: added(accounts, "poisoned") };
}

export async function overview(held) {
  const renew = async () => {
    const [topics, groups, flows, views] = await Promise.all(["/topics", "/groups", "/flows", "/views"].map((one) => ask(one)));
    const now = sums(topics, groups, flows);
    for (const name of Object.keys(past)) past[name] = [...past[name], now[name]].slice(-KEPT);
    const card = (name, figure, picture) =>
      el("div", { class: "card" }, el("div", { class: "name" }, name), el("div", { class: "figure" }, figure), picture);
    const link = (kind, name) => el("a", { href: `#/${kind}/${named(name)}` }, name);
    held.replaceChildren(
      el("h1", {}, "Overview"),
      el("div", { class: "cards charts" },
        card("Records per second", count(now.rate), chart(past.rate, "Records per second")),
        card("Lag of groups", count(now.lag), chart(past.lag, "Lag of groups")),
        card("Watermark behind, seconds", count(now.behind), chart(past.behind, "Watermark behind, seconds")),
        card("Late rows", count(now.late), chart(past.late, "Late rows")),
        card("Poisoned rows", count(now.poisoned), chart(past.poisoned, "Poisoned rows"))),
      el("div", { class: "cards small" },
        card("Topics", count(topics.length)), card("Views", count(views.length)), card("Flows", count(flows.length)),
        card("On disk", size(topics.reduce((sum, one) => sum + one.bytes, 0)))),
      el("h2", {}, "Groups"),
      groups.length ? table("Consumer groups and what they have not read yet",
        [{ name: "group" }, { name: "state" }, { name: "members", number: true }, { name: "lag", number: true }],
        groups.map((one) => [one.name, one.state, count(one.members), count(one.lag)])) : empty("No group has read anything yet."),
      el("h2", {}, "Views"),
      views.length ? table("Views and when they were last written",
        [{ name: "view" }, { name: "key" }, { name: "writes", number: true }, { name: "last write", time: true }],
        views.map((one) => [link("views", one.name), brief(one.key), count(one.change),
          one.updated_ms ? `${ago(Date.now() - one.updated_ms)} ago` : "–"])) : empty("There are no views yet."));
  };
  await renew();
  return renew;
}
