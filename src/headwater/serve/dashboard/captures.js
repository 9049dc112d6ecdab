import { ask, el, empty, table, ago } from "./page.js";

export async function captures(held) {
  const renew = async () => {
    const found = await ask("/captures");
    held.replaceChildren(el("h1", {}, "Captures"), found.length ? table("Captures and how far they are behind",
      [{ name: "capture" }, { name: "state" }, { name: "behind" }, { name: "says" }],
      found.map((one) => [one.name, el("span", { class: `tag ${["copying", "streaming"].includes(one.state) ? "good" : "warn"}` }, one.state),
        one.lag_seconds == null ? "–" : ago(one.lag_seconds * 1000), one.said || "–"]), "stacked") : empty('There are no captures; "headwater capture add" makes one.'));
  };
  await renew();
  return renew;
}
