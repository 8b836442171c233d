// The tables of the page, each with its columns; page.js hands them their rows.

import { bar, sparkline } from "./charts.js";
import { byId, make, mark, put, putKey, putLong } from "./dom.js";
import { bothNames, byteRate, bytes, clock, count, keyName, milliseconds, rate, share, tenantName, who } from "./format.js";
import { Table, long, longKey, tag, text } from "./table.js";

/**
 * @import { BusyClient, Column, KeyClient, Past, Pattern, Rule, ShownKey, ShownSlot, ShownViolation, SlowCommand, Tag } from "./types.d.ts"
 */

const MINUTE_MS = 60e3;

/** @type {Column<{ share: number }>} */
const shareColumn = {
  label: "Share",
  kind: "number",
  sort: (row) => row.share,
  cell: (cell) => {
    const number = make("span", { class: "figure" });
    const drawn = bar();
    cell.append(drawn.element, number);
    return (row) => {
      put(number, share(row.share));
      drawn.show(row.share);
    };
  },
};

/** @type {Column<{ reads: number, writes: number }>} */
const readsAndWrites = {
  label: "Read / write",
  hint: "Reads in blue, writes in orange",
  kind: "number",
  from: 800,
  sort: (row) => row.reads / (row.reads + row.writes || 1),
  cell: (cell) => {
    const drawn = bar("split");
    const number = make("span", { class: "figure" });
    cell.append(drawn.element, number);
    return (row) => {
      const uses = row.reads + row.writes || 1;
      put(number, row.reads >= row.writes ? `${share(row.reads / uses)} r` : `${share(row.writes / uses)} w`);
      drawn.show(row.reads / uses, row.writes / uses);
    };
  },
};

/**
 * @template {string} Name
 * @param {string} label
 * @param {Name} name
 * @param {(value: number | null) => string} format
 * @param {Pick<Column<unknown>, "from" | "hint">} more
 * @returns {Column<Record<Name, number | null>>}
 */
const number = (label, name, format, more = {}) => ({
  label, kind: "number", sort: (row) => row[name], cell: text((row) => format(row[name])), ...more,
});

const hits = number("Hit", "hit_ratio", share, { from: 560, hint: "Reads that found something" });

/**
 * The busiest client of a key, and the number of others; the clients of one app count as one.
 * @param {{ clients: KeyClient[] }} key
 */
function busiest({ clients }) {
  /** @type {Map<string, number>} */
  const parts = new Map();
  for (const client of clients) parts.set(who(client), (parts.get(who(client)) ?? 0) + client.share);
  const [first, ...others] = [...parts].sort((a, b) => b[1] - a[1]);
  return first ? `${first[0]} ${share(first[1])}${others.length ? ` +${others.length}` : ""}` : "–";
}

/**
 * @param {object} options
 * @param {(row: ShownKey) => void} options.open shows a key's details
 * @param {(row: ShownKey) => Past[]} options.history its recent rates
 */
export function keysTable({ open, history }) {
  /** @type {Column<ShownKey>} */
  const name = {
    label: "Key",
    kind: "text",
    sort: (row) => row.key,
    cell: (cell) => {
      const button = make("button", { type: "button", class: "key", "aria-haspopup": "dialog" });
      const hot = make("span", { class: "tag", "data-kind": "hot" }, "hot");
      /** @type {ShownKey | null} */
      let shown = null;
      button.addEventListener("click", () => shown && open(shown));
      const behind = make("span", { class: "soft behind" });
      const tenant = make("span", { class: "soft tenant" });
      // Where there is little room, it stands below the key.
      const cached = [0, 1].map(() => make("span", { class: "tag", "data-kind": "cached", title: "Reads answered from memory" }));
      const moved = [0, 1].map(() => make("span", { class: "tag", "data-kind": "moved", title: "Reads answered by replicas" }));
      cell.append(
        make("span", { class: "pair" }, button, hot, cached[0], moved[0]),
        tenant,
        make("span", { class: "under" }, cached[1], moved[1], behind),
      );
      return (row) => {
        shown = row;
        putKey(button, keyName(row.key));
        putLong(tenant, tenantName(row.tenant));
        hot.hidden = !row.hot;
        for (const each of cached) {
          each.hidden = !row.cached_share;
          put(each, `cached ${share(row.cached_share)}`);
        }
        for (const each of moved) {
          each.hidden = !row.replica_share;
          put(each, `replicas ${share(row.replica_share)}`);
        }
        put(behind, busiest(row));
      };
    },
  };
  /** @type {Column<ShownKey>} */
  const trend = {
    label: "Last minute",
    kind: "number",
    from: 680,
    cell: (cell) => {
      const drawn = sparkline(MINUTE_MS);
      cell.append(drawn.element);
      return (row) => drawn.show(history(row));
    },
  };
  /** @type {Column<ShownKey>} */
  const behind = {
    label: "Who",
    hint: "The busiest client, its share, and how many others there are",
    kind: "text",
    from: 560,
    sort: busiest,
    cell: long(busiest, "long who"),
  };
  /** @type {Column<ShownKey>[]} */
  const columns = [
    name, shareColumn, number("Rate", "rate", rate), trend, readsAndWrites, hits,
    number("Out", "bytes_out", byteRate, { from: 980 }), behind,
  ];
  return new Table(byId("keys-table"), columns, { id: ({ id }) => id, empty: "No key was used in this window", mark: { hot: (row) => row.hot, cached: (row) => row.cached_share > 0, moved: (row) => row.replica_share > 0 } });
}

/** @returns {Table<Pattern>} */
export const patternsTable = () => new Table(
  byId("patterns-table"),
  [
    {
      label: "Pattern",
      kind: "text",
      sort: (row) => row.pattern,
      cell: (cell) => {
        const name = make("span", { class: "long key" });
        cell.append(name);
        return (row) => {
          putKey(name, keyName(row.pattern));
          mark(name, "data-inferred", !row.schema);
        };
      },
    },
    { label: "App", kind: "text", from: 1180, sort: (row) => row.app, cell: long((row) => (row.app === "unknown" ? "–" : row.app)) },
    number("Rate", "rate", rate),
    { ...readsAndWrites, from: 560 },
    { ...hits, from: 0 },
    number("In", "bytes_in", byteRate, { from: 680 }),
    number("Out", "bytes_out", byteRate, { from: 560 }),
    number("With TTL", "ttl_share", share, { from: 980 }),
    {
      label: "Largest",
      kind: "number",
      from: 680,
      sort: (row) => row.largest,
      cell: (cell) => (row) => {
        put(cell, bytes(row.largest));
        const key = bothNames(row.largest_key, row.largest_tenant);
        cell.title = row.largest_stored ? `${key}: ${bytes(row.largest_stored)} at Redis, compressed` : key;
      },
    },
    number("p50", "p50_ms", milliseconds, { from: 1180, hint: "Half of its commands take no longer at Redis" }),
    number("p99", "p99_ms", milliseconds, { hint: "99 of 100 of its commands take no longer at Redis" }),
    number("N+1", "runs", (runs) => (runs ? rate(runs) : "–"), { from: 980, hint: "Runs of many single GETs by one client" }),
  ],
  { id: (row) => row.pattern, empty: "No key was used in this window" },
);

const rateColumn = number("Rate", "rate", rate);

/** @returns {Table<ShownSlot>} */
export const slotsTable = () => new Table(
  byId("slots-table"),
  [
    { label: "Slot", kind: "text", cell: text((row) => (row.node ? `${row.slot} · ${row.node}` : String(row.slot))) },
    { label: "Busiest key", kind: "text", cell: longKey((row) => (row.keys.length ? bothNames(row.keys[0], row.tenants?.[0]) : "–")) },
    rateColumn,
    shareColumn,
  ],
  { id: (row) => String(row.slot), empty: "No key was used in this window" },
);

/** @returns {Table<Tag>} */
export const tagsTable = () => new Table(
  byId("tags-table"),
  [{ label: "Hash tag", kind: "text", cell: longKey((row) => `{${row.tag}}`) }, rateColumn, shareColumn],
  { id: (row) => row.tag, empty: "" },
);

/** @returns {Table<BusyClient>} */
export const clientsTable = () => new Table(
  byId("clients-table"),
  [
    {
      label: "Client",
      kind: "text",
      sort: who,
      cell: (cell) => {
        const name = make("span", { class: "name" });
        const more = make("span", { class: "soft" });
        cell.append(make("span", { class: "long" }, name, " ", more));
        return (row) => {
          put(name, who(row));
          put(more, [row.client_name, row.library, row.address, row.id].filter((part) => part && part !== who(row)).join(" · "));
          cell.title = more.textContent;
        };
      },
    },
    rateColumn,
    shareColumn,
    number("Out", "bytes_out", byteRate, { from: 560 }),
    number("Conn/s", "connects", (value) => (value ? rate(value) : "–"), { from: 680, hint: "Connections that have ended, each second" }),
    number("Time", "redis_time", (value) => (value ? share(value) : "–"), { from: 680, hint: "Of each second at Redis, without the way there and back" }),
    number("Refused", "refused", (value) => (value ? rate(value) : "–"), { from: 560 }),
  ],
  { id: (row) => JSON.stringify([row.app, row.user, row.client_name, row.library, row.address]), empty: "No client was traced in this window" },
);

/** @returns {Table<SlowCommand>} */
export const slowTable = () => new Table(
  byId("slow-table"),
  [
    {
      label: "Command",
      kind: "text",
      cell: (cell) => {
        const command = make("b");
        const key = make("span", { class: "key" });
        cell.append(make("span", { class: "long" }, command, " ", key));
        return (row) => {
          put(command, row.command);
          put(key, row.key === null ? "" : bothNames(row.key, row.tenant));
          cell.title = key.textContent;
        };
      },
    },
    { label: "Who", kind: "text", from: 560, cell: long(who) },
    number("At Redis", "at_redis_ms", milliseconds),
    number("In Keyrail", "in_proxy_ms", milliseconds, { from: 560 }),
    number("Reply", "bytes_out", bytes, { from: 560 }),
    { label: "When", kind: "number", cell: text((row) => clock(row.time)) },
  ],
  { id: (row) => `${row.time} ${row.command} ${row.key} ${row.at_redis_ms}`, empty: "No command was traced yet" },
);

const OUTCOMES = new Map([["rewritten", "rewrite"], ["skipped", "not rewritten"], ["error", "rule failed"]]);

/**
 * The outcome of a violation; in a mode that does not enforce, the outcome that it would have.
 * @param {ShownViolation} row
 */
function outcome(row) {
  if (row.dropped) return "more";
  const what = OUTCOMES.get(row.what ?? "") ?? row.what ?? "";
  return row.mode === "enforce" ? what : `${row.mode}: ${what}`;
}

/** @returns {Table<ShownViolation>} */
export const violationsTable = () => new Table(
  byId("violations-table"),
  [
    { label: "Time", kind: "text", cell: text((row) => clock(row.time)) },
    { label: "Rule", kind: "text", cell: long((row) => row.rule, "long rule") },
    { label: "", kind: "text", cell: tag(outcome, (row) => (row.dropped ? "" : row.what === "error" ? "enforce" : row.mode ?? "")) },
    {
      label: "Command",
      kind: "text",
      cell: (cell) => {
        const command = make("b");
        const key = make("span", { class: "key" });
        const why = make("span", { class: "soft" });
        cell.append(make("span", { class: "long" }, command, " ", key, " ", why));
        return (row) => {
          put(command, row.dropped ? `and ${count(row.dropped)} more` : row.command ?? "");
          put(key, row.key === undefined ? "" : bothNames(row.key, row.tenant));
          put(why, row.why ?? "");
          cell.title = [row.command, key.textContent, row.why].filter(Boolean).join(" ");
        };
      },
    },
    { label: "Who", kind: "text", from: 560, cell: long((row) => (row.dropped ? "" : who(row))) },
  ],
  { id: (row) => String(row.number), empty: "Nothing has broken a rule yet" },
);

/** @returns {Table<Rule>} */
export const rulesTable = () => new Table(
  byId("rules-table"),
  [
    {
      label: "Rule",
      kind: "text",
      cell: (cell) => {
        const inner = make("span", { class: "long rule" });
        cell.append(inner);
        return (row) => {
          put(inner, row.rule);
          cell.title = `${row.rule}, ${row.where}`;
        };
      },
    },
    { label: "Mode", kind: "text", cell: tag((row) => row.mode, (row) => (row.mode.startsWith("enforce") ? "on" : row.mode)) },
    { label: "Hits", kind: "number", cell: text((row) => count(Object.values(row.hits).reduce((sum, each) => sum + each, 0))) },
  ],
  { id: (row) => row.rule, empty: "The policy has no rules" },
);
