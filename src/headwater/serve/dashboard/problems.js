// A banner on every page: flows that fail, topics that are damaged, and everything else that needs attention. It disappears when there is nothing left.
import { ask, counted, el, named, when } from "./page.js";

const SHOWN = 5;

function line(one) {
  if (one.topic) {
    // A topic that is offline has no page of its own.
    const link = one.kind === "offline" ? "#/topics" : `#/topics/${named(one.topic)}`;
    return el("li", { class: one.kind }, "topic ", el("a", { href: link }, one.topic), one.kind === "offline" ? " is offline: " : ": ", one.text);
  }
  const again = one.kind === "retrying" ? (one.next_attempt_ms == null ? "; another attempt is under way" : `; tried again at ${when(one.next_attempt_ms)}`) : "";
  const failed = one.kind === "warning" ? "" : ` Failed ${counted(one.count ?? 1, "time")} since ${when(one.since_ms)}${again}.`;
  const head = { failed: "failed", retrying: "fails, and is tried again", warning: "warning" }[one.kind] ?? one.kind;
  return el("li", { class: one.kind }, el("a", { href: "#/flows" }, one.flow), ` ${head}: `, one.text, failed);
}

export function problems(banner, everyMs) {
  let shown = "";
  const renew = async () => {
    try {
      const found = await ask("/problems"), now = JSON.stringify(found);
      if (now !== shown) {
        shown = now;
        const rest = found.length > SHOWN ? [el("li", {}, `and ${found.length - SHOWN} more`)] : [];
        banner.replaceChildren(...(found.length ? [el("ul", {}, found.slice(0, SHOWN).map(line), rest)] : []));
        banner.className = found.some((one) => one.kind !== "warning") ? "failing" : "warning";
        banner.hidden = !found.length;
      }
    } catch {
      // The page says that the node is not reachable, or asks for a token.
    }
    setTimeout(renew, everyMs);
  };
  renew();
}
