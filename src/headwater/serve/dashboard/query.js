// An editor for SELECT over views: completed, answered as a table or a chart, saved in this browser, followed live.
import { ask, count, counted, el, empty, Failed, parseJson, sortingHead } from "./page.js";
import { drawnValue, picture } from "./pictures.js";

const SHOWN_MAX = 500, WAIT_MS = 10000, AGAIN_MS = 1000, OFFERED_MAX = 8;
const NUMBERS = /^(byte|short|int|long|float|double|decimal|integer|bigint|smallint|tinyint)/;
const WORDS = "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT USING DISTINCT UNION BETWEEN count sum avg min max round".split(" ");
const SAVED = "queries", TYPED = "query";

async function posted(body, signal) {
  const response = await fetch("../query", { method: "POST", body: JSON.stringify(body), signal, headers: { "content-type": "application/json" } });
  const said = parseJson(await response.text());
  if (response.ok) return said;
  const failed = new Failed(response.status, said.message);
  failed.kind = said.error;
  throw failed;
}

// Views of several jobs are read at one position where there can be one; where there cannot, the answer says so.
async function asked(sql, more, signal) {
  try {
    return await posted({ sql, one_position: true, ...more }, signal);
  } catch (error) {
    if (error.kind !== "NotComparable") throw error;
    return { ...(await posted({ sql, ...more }, signal)), apart: true };
  }
}

function saved() {
  try {
    const found = JSON.parse(localStorage.getItem(SAVED) ?? "{}");
    return Object.fromEntries(Object.entries(found ?? {}).filter(([, sql]) => typeof sql === "string"));
  } catch {
    return {};
  }
}

const positionOf = (offsets) => Object.entries(offsets).flatMap(([topic, parts]) =>
  Object.entries(parts).filter(([, offset]) => offset > 0).map(([number, offset]) => `${topic}/${number}@${offset - 1}`)).join(", ") || "nothing yet";

function footer(answer) {
  const rows = answer.cut ? `the first ${counted(answer.rows.length, "row")}; there are more` : counted(answer.rows.length, "row");
  const places = answer.position ? [`at position ${positionOf(answer.position)}`]
    : Object.entries(answer.views).map(([name, offsets]) => `${name} at ${positionOf(offsets)}`);
  return [rows, ...(Object.keys(answer.views).length ? places : []), answer.apart ? "the views share no topic, so each is at its own position" : null].filter(Boolean).join(" · ");
}

function sorted(rows, columns, order) {
  if (!order) return rows;
  const numeric = NUMBERS.test(columns.find((one) => one.name === order.name)?.type ?? "");
  const key = (row) => (numeric && row[order.name] != null ? Number(row[order.name]) : row[order.name]);
  return [...rows].sort((one, other) => {
    const left = key(one), right = key(other);
    if (left == null || right == null) return (left == null) - (right == null);
    return (left < right ? -1 : left > right ? 1 : 0) * (order.down ? -1 : 1);
  });
}

// The word before the cursor, and what could be meant.
function offers(editor, names) {
  const word = /[\w.]*$/.exec(editor.value.slice(0, editor.selectionStart))[0];
  const found = word ? names.filter((one) => one.toLowerCase().startsWith(word.toLowerCase()) && one !== word) : [];
  return { word, found: found.slice(0, OFFERED_MAX) };
}

export async function query(held, _, { alive, connectionLost, closing }) {
  const views = await ask("/views");
  const names = [...new Set([...views.flatMap((one) => [one.view, one.name, ...one.columns.map((column) => column.name)]), ...WORDS])];
  const editor = el("textarea", { id: "sql", rows: 6, spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-describedby": "offers",
    oninput: () => { localStorage.setItem(TYPED, editor.value); offer(); }, onclick: () => offer(), onkeydown: (event) => pressed(event) });
  editor.value = localStorage.getItem(TYPED) ?? (views.length ? `SELECT * FROM ${views[0].name} LIMIT 100` : "");
  const offered = el("div", { id: "offers", class: "chips", "aria-label": "Completions" });
  const follow = el("input", { type: "checkbox", id: "follow" }), title = el("input", { size: "16", placeholder: "a name" });
  const kept = el("div", { class: "chips" }), failed = el("p", { class: "bad", role: "alert" }), state = el("p", { class: "soft", role: "status" });
  const result = el("div");
  let running = null, order = null, figure = null, answer = null;

  const insert = (name, word) => {
    const at = editor.selectionStart;
    editor.setRangeText(name, at - word.length, at, "end");
    localStorage.setItem(TYPED, editor.value);
    editor.focus();
    offer();
  };
  const offer = () => {
    const { word, found } = offers(editor, names);
    offered.replaceChildren(...found.map((name) => el("button", { type: "button", class: "chip", onclick: () => insert(name, word) }, name)));
  };
  // Tab moves on, as everywhere, where nothing is offered.
  const pressed = (event) => {
    const { word, found } = offers(editor, names);
    if (event.key === "Tab" && !event.shiftKey && found.length) {
      event.preventDefault();
      insert(found[0], word);
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  };

  const show = () => {
    const columns = answer.columns, figures = columns.filter((one) => NUMBERS.test(one.type)).map((one) => one.name);
    if (!figures.includes(figure)) figure = figures.at(-1) ?? null;
    if (!columns.some((one) => one.name === order?.name)) order = null;
    const key = columns.map((one) => one.name).filter((one) => !figures.includes(one));
    const drawn = figure && answer.rows.length > 1 ? picture(answer.rows, key, figure)?.filter(Boolean) : null;
    const choose = el("select", { onchange: () => { figure = choose.value; show(); } }, figures.map((one) => el("option", { value: one, selected: one === figure }, one)));
    const rows = sorted(answer.rows, columns, order).slice(0, SHOWN_MAX);
    const heads = columns.map((one, index) => sortingHead({ name: one.name, number: NUMBERS.test(one.type), time: one.type.startsWith("timestamp") }, `sort-result-${index}`, order,
      (chosen) => { order = chosen; show(); result.querySelector("[aria-sort] button")?.focus(); }));
    state.textContent = `${footer(answer)}${answer.rows.length > SHOWN_MAX ? ` · the first ${count(SHOWN_MAX)} are shown` : ""}${running?.live ? " · followed" : ""}`;
    result.replaceChildren(...(drawn?.length ? [el("div", { class: "card picture" }, el("label", {}, "Chart of", choose), el("div", {}, drawn))] : []),
      answer.rows.length ? el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Result" },
        el("table", {}, el("caption", {}, columns.map((one) => `${one.name} ${one.type}`).join(", ")), el("thead", {}, el("tr", {}, heads)),
          el("tbody", {}, rows.map((row) => el("tr", {}, columns.map((one) =>
            el("td", { class: NUMBERS.test(one.type) ? "number" : one.type.startsWith("timestamp") ? "time" : null }, drawnValue(row[one.name])))))))) : empty("No rows."));
  };

  const stop = () => { running?.control.abort(); running = null; };
  closing(stop);
  const run = async () => {
    stop();
    const mine = running = { control: new AbortController(), live: follow.checked }, sql = editor.value;
    const current = () => alive() && running === mine;
    failed.textContent = "";
    state.textContent = "asking …";
    let version = "";
    do {
      try {
        const found = await asked(sql, version ? { after: version, timeout_ms: WAIT_MS } : {}, mine.control.signal);
        if (!current()) return;
        connectionLost(false);
        if (!found.unchanged) {
          answer = found;
          version = found.version;
          show();
        }
      } catch (error) {
        if (!current()) return;
        const later = mine.live && version && !(error instanceof Failed && ![412, 429, 503].includes(error.status));
        if (!(error instanceof Failed)) connectionLost(true);
        if (!later) {
          failed.textContent = error instanceof Failed ? error.message : "The node does not answer.";
          state.textContent = "";
          result.replaceChildren();
          running = null;
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    } while (mine.live && current());
  };
  follow.addEventListener("change", () => (follow.checked ? run() : (stop(), answer && show())));

  const list = () => kept.replaceChildren(...Object.entries(saved()).sort().map(([name, sql]) => el("span", { class: "chip" },
    el("button", { type: "button", onclick: () => { editor.value = sql; title.value = name; localStorage.setItem(TYPED, sql); run(); } }, name),
    el("button", { type: "button", "aria-label": `Forget ${name}`, onclick: () => {
      const { [name]: dropped, ...others } = saved();
      localStorage.setItem(SAVED, JSON.stringify(others));
      list();
    } }, "×"))));
  const keep = (event) => {
    event.preventDefault();
    if (!title.value.trim()) return title.focus();
    localStorage.setItem(SAVED, JSON.stringify({ ...saved(), [title.value.trim()]: editor.value }));
    list();
  };
  list();
  held.replaceChildren(el("h1", {}, "Query"),
    el("form", { class: "query", onsubmit: (event) => { event.preventDefault(); run(); } },
      el("label", { class: "editor" }, "SELECT over views, in Spark's dialect", editor), offered,
      el("button", { class: "main", title: "Ctrl+Enter" }, "Ask"),
      el("label", { class: "check" }, follow, "Follow")),
    el("form", { onsubmit: keep }, el("label", {}, "Save as", title), el("button", {}, "Save"), kept),
    failed, state, result);
  return () => ask("/health");
}
