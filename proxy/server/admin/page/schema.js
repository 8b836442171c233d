// The keys that the policy knows: patterns, owners, types, TTLs. It is the answer of /schema, asked for once a minute.
// The filter is that of the report. Without a schema there is nothing to see.

import { byId, put } from "./dom.js";
import { count } from "./format.js";
import { authorization } from "./stream.js";
import { Table, long, longKey } from "./table.js";

/** @import { SchemaAnswer, SchemaEntry } from "./types.d.ts" */

const EACH_MS = 60e3;
/** @type {[string, number][]} */
const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/**
 * A time as policies write it: 1h30m.
 * @param {number} seconds
 */
function duration(seconds) {
  let left = seconds;
  return UNITS.map(([unit, size]) => {
    const whole = Math.floor(left / size);
    left -= whole * size;
    return whole ? whole + unit : "";
  }).join("");
}

/** @param {SchemaEntry["ttl"]} ttl */
function lifetime(ttl) {
  if (ttl === undefined || typeof ttl === "string") return ttl ?? "";
  const said = [
    ttl.default && `${duration(ttl.default)}${ttl.sliding ? ", renewed" : ""}`,
    ttl.required && "required",
    ttl.min && `at least ${duration(ttl.min)}`,
    ttl.max && `at most ${duration(ttl.max)}`,
  ];
  return said.filter(Boolean).join("; ");
}

/** @param {SchemaEntry} entry */
function kind(entry) {
  const fields = Object.entries(entry.fields ?? {}).map(([name, type]) => `${name} ${type}`);
  return `${entry.type ?? "any"}${fields.length ? ` of ${fields.join(", ")}` : ""}`;
}

/** @param {SchemaEntry} entry */
const related = (entry) => (entry.relates_to ?? []).join(", ");

/**
 * What the filter looks at.
 * @param {SchemaEntry} entry
 */
const words = (entry) =>
  [entry.title, entry.key, kind(entry), entry.about, entry.example, related(entry)].join("\n").toLowerCase();

export class SchemaPanel {
  /** @param {{ filter: string | null }} view */
  constructor(view) {
    this.view = view;
    this.route = "";
    this.due = 0;
    /** @type {SchemaAnswer} */
    this.answer = { routes: [] };
    this.table = entriesTable();
  }

  /**
   * Show this route by the filter, and ask again if it is time.
   * @param {string} route
   */
  follow(route) {
    this.route = route;
    if (Date.now() >= this.due) this.load();
    this.draw();
  }

  async load() {
    this.due = Date.now() + EACH_MS;
    try {
      const answer = await fetch("/schema", { headers: authorization(), cache: "no-store" });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      this.answer = found;
      this.draw();
    } catch (error) {
      put(byId("schema-note"), error instanceof Error ? error.message : String(error));
    }
  }

  draw() {
    const entries = this.answer.routes.find(({ route }) => route === this.route)?.entries ?? [];
    byId("schema").hidden = entries.length === 0;
    if (entries.length === 0) return;
    const wanted = (this.view.filter ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const shown = entries.filter((entry) => wanted.every((word) => words(entry).includes(word)));
    this.table.show(shown);
    const filtered = shown.length < entries.length ? `${count(shown.length)} of ` : "";
    put(byId("schema-note"), `${filtered}${count(entries.length)} patterns of keys; / filters them, too`);
  }
}

/** @returns {Table<SchemaEntry>} */
const entriesTable = () => new Table(
  byId("schema-entries"),
  [
    { label: "Keys", kind: "text", sort: (row) => row.key, cell: longKey((row) => row.key) },
    { label: "Owner", kind: "text", from: 560, sort: (row) => row.app ?? "", cell: long((row) => row.app ?? "shared") },
    { label: "Type", kind: "text", sort: kind, cell: long(kind) },
    { label: "TTL", kind: "text", from: 560, cell: long((row) => lifetime(row.ttl)) },
    { label: "Such as", kind: "text", from: 680, cell: longKey((row) => row.example ?? "") },
    { label: "Belongs to", kind: "text", from: 680, cell: long(related) },
    { label: "About", kind: "text", from: 680, cell: long((row) => row.about ?? "") },
  ],
  { id: (row) => row.title, empty: "No pattern matches the filter" },
);
