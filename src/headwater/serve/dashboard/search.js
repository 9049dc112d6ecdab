import { ask, counted, el, empty, named, table } from "./page.js";
import { drawnValue } from "./pictures.js";

// A box for words, above a view that can be searched; nothing above others.
export function searchBox(described) {
  if (!described.searchable) return [];
  const words = el("input", { type: "search", size: "28", placeholder: "words, \"a phrase\", -without" });
  const found = el("div", { "aria-live": "polite" });
  const search = async (event) => {
    event.preventDefault();
    if (!words.value) return found.replaceChildren();
    try {
      const { rows } = await ask(`/search/${named(described.name)}`, { q: words.value });
      found.replaceChildren(rows.length ? table(`${counted(rows.length, "row")} with ${words.value}, best first`,
        described.columns.map((one) => ({ name: one.name, content: true })),
        rows.map(({ row }) => described.columns.map((one) => drawnValue(row[one.name])))) : empty("No row has these words."));
    } catch (error) {
      found.replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
    }
  };
  return [el("form", { role: "search", onsubmit: search }, el("label", {}, "Search", words), el("button", { class: "main" }, "Search")), found];
}
