import { ask, el, empty, table, ago, when, named } from "./page.js";

const tag = (state) => el("span", { class: `tag ${state === "quiet" || state === "resolved" ? "good" : state === "raised" || state === "repeated" ? "bad" : "warn"}` }, state);
const words = (row) => Object.entries(row).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");

export async function alerts(held) {
  const renew = async () => {
    const found = await ask("/alerts"), there = new Set((await ask("/topics")).map((one) => one.name)), now = Date.now();
    const apps = [...new Set(found.map((one) => one.app))];
    held.replaceChildren(el("h1", {}, "Alerts"),
      found.length ? table("Alerts and their states",
        [{ name: "alert" }, { name: "state" }, { name: "raised", number: true }, { name: "pending", number: true }, { name: "notifies" }, { name: "says" }],
        found.map((one) => [el("a", { href: `#/views/${named(one.name)}`, title: one.about }, one.name), tag(one.state), one.raised, one.pending,
          one.targets.join(", "), one.said || one.about || "–"]), "stacked") : empty("There are no alerts; app.alert(...) declares one."),
      ...found.filter((one) => one.keys.length).map((one) => el("section", {}, el("h2", {}, one.name),
        table(`What ${one.name} holds`, [{ name: "key", content: true }, { name: "state" }, { name: "for" }, { name: "notified", number: true }, { name: "values", content: true }],
          one.keys.map((key) => [words(key.key) || "all", tag(key.state), ago(now - key.since_ms), key.notifications, words(key.row)]), "stacked"))),
      ...await Promise.all(apps.map((app) => history(app, there))));
  };
  await renew();
  return renew;
}

// The last events and deliveries, newest first; the topics exist once an alert was evaluated.
async function history(app, there) {
  const [events, deliveries] = await Promise.all([`${app}.alerts`, `${app}.deliveries`].map((topic) => (there.has(topic) ? last(topic) : [])));
  return el("section", {}, el("h2", {}, `Recent events of ${app}`),
    events.length ? table(`Alert history of ${app}`, [{ name: "when", time: true }, { name: "state" }, { name: "what", content: true }],
      events.map((one) => [when(one.at_ms), tag(one.state), one.text]), "stacked") : empty("Nothing yet."),
    deliveries.length ? table(`Deliveries of ${app}`, [{ name: "when", time: true }, { name: "target" }, { name: "outcome" }, { name: "attempt", number: true }, { name: "id", content: true }, { name: "says", content: true }],
      deliveries.map((one) => [when(one.at_ms), one.target, el("span", { class: `tag ${one.outcome === "delivered" ? "good" : "warn"}` }, one.outcome), one.attempt, one.id, one.said]), "stacked") : []);
}

async function last(topic) {
  const found = await ask(`/topics/${named(topic)}/records`, { offset: -20, limit: 20 });
  return found.records.map((one) => JSON.parse(one.value.text)).reverse();
}
