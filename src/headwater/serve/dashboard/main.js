// Which page is shown, and whether the node answers. Pages are functions: (main, words, alive) -> what to do every so often.
import { el, Failed } from "./page.js";
import { overview } from "./overview.js";
import { topics, topic } from "./topics.js";
import { flows } from "./flows.js";
import { views, view } from "./views.js";
import { query } from "./query.js";
import { captures } from "./captures.js";
import { alerts } from "./alerts.js";
import { problems } from "./problems.js";

const PAGES = { "": overview, topics, flows, views, query, captures, alerts };
const ONE = { topics: topic, views: view };
const EVERY_MS = 2000;
const main = document.getElementById("main"), state = document.getElementById("state");
let leave = () => {}, turn = 0;

function connectionLost(lost) {
  const words = lost ? "not reachable, trying again" : "connected";
  if (state.textContent !== words) state.textContent = words;
  state.classList.toggle("lost", Boolean(lost));
}

async function show() {
  leave();
  const mine = ++turn, alive = () => mine === turn;
  const [root, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const page = (rest[0] ? ONE[root] : PAGES[root]) ?? PAGES[""];
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash.replace(/^#\/?/, "") === root) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${rest[0] ?? (root || "overview")} · headwater`;
  const held = el("div"), closing = [];
  leave = () => closing.forEach((close) => close());
  main.replaceChildren(held);
  let renew;
  const attempt = async () => {
    try {
      const active = held.contains(document.activeElement) ? document.activeElement : null;
      const scrolled = new Map([...held.querySelectorAll(".scroll")].map((one) => [one.getAttribute("aria-label"), one.scrollLeft]));
      const focused = active?.matches(".scroll") ? `.scroll[aria-label="${CSS.escape(active.getAttribute("aria-label"))}"]` : active?.id ? `#${CSS.escape(active.id)}` : active?.hasAttribute("href") ? `a[href="${CSS.escape(active.getAttribute("href"))}"]` : "";
      if (renew) await renew();
      else renew = await page(held, rest[0], { alive, connectionLost, closing: (close) => closing.push(close) });
      for (const one of held.querySelectorAll(".scroll")) one.scrollLeft ||= scrolled.get(one.getAttribute("aria-label")) ?? 0;
      if (focused) held.querySelector(focused)?.focus({ preventScroll: true });
      if (alive()) connectionLost(false);
    } catch (error) {
      if (!alive()) return;
      if (error instanceof Failed && error.status === 401) return logIn(held);
      if (error instanceof Failed) held.replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
      else connectionLost(true);
    }
    if (alive()) setTimeout(() => alive() && attempt(), EVERY_MS);
  };
  await attempt();
}

function logIn(held) {
  const field = el("input", { type: "password", autocomplete: "current-password", required: true });
  const send = async (event) => {
    event.preventDefault();
    const answer = await fetch("../session", { method: "POST", body: JSON.stringify({ token: field.value }) });
    if (answer.ok) show();
    else said.textContent = "This token is not known.";
  };
  const said = el("p", { role: "alert", class: "bad" });
  held.replaceChildren(el("h1", {}, "Sign in with a token"),
    el("p", {}, 'Other machines need a token: "headwater token add NAME" creates one.'),
    el("form", { onsubmit: send }, el("label", {}, "Token", field), el("button", { class: "main" }, "Sign in")), said);
  field.focus();
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});
if (localStorage.getItem("theme")) document.documentElement.dataset.theme = localStorage.getItem("theme");
addEventListener("hashchange", () => show().then(() => main.focus()));
problems(document.getElementById("problems"), EVERY_MS);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
show();
