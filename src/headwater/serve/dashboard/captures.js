import { ask, el, empty, size, table, ago } from "./page.js";

export async function captures(held) {
  const renew = async () => {
    const found = await ask("/captures");
    held.replaceChildren(el("h1", {}, "Captures"), found.length ? table("Captures and their lag",
      [{ name: "capture" }, { name: "state" }, { name: "lag", number: true }, { name: "WAL kept", number: true }, { name: "says" }],
      found.map((one) => [one.name, el("span", { class: `tag ${["copying", "streaming"].includes(one.state) ? "good" : "warn"}` }, one.state),
        one.lag_seconds == null ? "–" : ago(one.lag_seconds * 1000),
        one.retained_bytes == null ? "–" : el("span", { title: "What the database keeps of its write-ahead log for this capture" }, size(one.retained_bytes)), one.said || "–"]), "stacked") : empty('There are no captures; "headwater capture add" makes one.'));
  };
  await renew();
  return renew;
}
