import { ask, count, el, empty, named, shown, size, table, when } from "./page.js";

export async function topics(held) {
  const renew = async () => {
    const found = await ask("/topics");
    held.replaceChildren(el("h1", {}, "Topics"), ...damage(found), found.length ? table("Topics, their sizes and end offsets",
      [{ name: "topic" }, { name: "partitions", number: true }, { name: "records", number: true }, { name: "bytes", number: true }],
      found.filter((one) => !one.offline).map((one) => [el("a", { href: `#/topics/${named(one.name)}` }, one.name), count(one.partitions.length),
        count(one.records), size(one.bytes)])) : empty('There are no topics yet; "headwater topic create NAME" makes one.'));
  };
  await renew();
  return renew;
}

/** A sentence for each topic that is offline, and for each range of offsets that cannot be read. */
export function damage(found) {
  const said = [];
  for (const one of found) {
    if (one.offline) said.push(`Topic ${one.name} is offline: ${one.offline}.`);
    for (const part of one.partitions)
      for (const gap of part.unreadable)
        said.push(`Topic ${one.name}, partition ${part.partition}: offsets ${count(gap.first)} to ${count(gap.end - 1)} cannot be read: ${gap.why}.`);
  }
  return said.slice(0, 20).map((sentence) => el("p", { class: "error", role: "alert" }, sentence));
}

const COLUMNS = [{ name: "offset", number: true }, { name: "time", time: true }, { name: "key", content: true },
  { name: "value", content: true }, { name: "headers", content: true }];

export async function topic(held, name) {
  const described = await ask(`/topics/${named(name)}`);
  const partition = el("select", {}, described.partitions.map((one) => el("option", { value: one.partition }, one.partition)));
  const offset = el("input", { type: "number", step: "1", placeholder: "newest" });
  const time = el("input", { type: "datetime-local", step: "1" });
  const records = el("div", { "aria-live": "polite" });
  let next;
  const read = async (query) => {
    try {
      const found = await ask(`/topics/${named(name)}/records`, { partition: partition.value, limit: 50, value_bytes: 4096, ...query });
      next = found.next;
      const holes = (found.damaged ?? []).map((one) => el("p", { class: "error", role: "status" },
        `Offsets ${count(one.first)} to ${count(one.end - 1)} are left out: ${one.reason}`));
      records.replaceChildren(...holes, found.records.length ? table(`Partition ${found.partition}: offsets ${count(found.first)} to ${count(found.end - 1)}, shown from ${count(found.records[0].offset)}`,
        COLUMNS, found.records.map((one) => [count(one.offset), when(one.timestamp_ms), shown(one.key), shown(one.value),
          one.headers.map((header) => el("div", {}, header.name, "=", shown(header.value)))]), "stacked") : empty("There are no records from this offset on."));
    } catch (error) {
      records.replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
    }
  };
  const seek = (event) => {
    event?.preventDefault();
    if (time.value) return read({ time_ms: Date.parse(`${time.value}Z`) });
    return read({ offset: offset.value === "" ? -50 : offset.value });
  };
  held.replaceChildren(el("h1", {}, name),
    ...damage([described]),
    el("p", { class: "soft" }, `${count(described.records)} records, ${size(described.bytes)}, ${described.partitions.length} partitions`),
    el("form", { onsubmit: seek }, el("label", {}, "Partition", partition), el("label", {}, "Offset", offset),
      el("label", {}, "or time (UTC)", time), el("button", { class: "main" }, "Show"),
      el("button", { type: "button", onclick: () => read({ offset: Math.max(0, next ?? 0) }) }, "Next page")),
    records);
  await seek();
  return () => ask("/health");
}
