// What is stored, by the last scan that is in the state folder: owners, findings and the largest keys. It is the answer of
// /stored, asked for once a minute; without a scan there is nothing to see.

import { byId, put } from "./dom.js";
import { bothNames, bytes, count } from "./format.js";
import { authorization } from "./stream.js";
import { Table, long, longKey, text } from "./table.js";

/** @import { Stored, StoredApp, StoredFinding, StoredKey } from "./types.d.ts" */

const EACH_MS = 60e3;

/** @param {string} app */
const owner = (app) => app || "nobody's";

/** @param {StoredKey} row */
const inDatabase = (row) => (row.database ? `db${row.database} ` : "") + (row.tenant ? bothNames(row.key, row.tenant) : row.key);

/** @param {string} moment */
const minute = (moment) => `${moment.slice(0, 16).replace("T", " ")} UTC`;

export class StoredPanel {
  constructor() {
    this.due = 0;
    this.owners = ownersTable();
    this.findings = findingsTable();
    this.largest = largestTable();
  }

  /** Ask again if it is time. */
  follow() {
    if (Date.now() >= this.due) this.load();
  }

  async load() {
    this.due = Date.now() + EACH_MS;
    try {
      const answer = await fetch("/stored", { headers: authorization(), cache: "no-store" });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      this.show(found);
    } catch (error) {
      put(byId("stored-note"), error instanceof Error ? error.message : String(error));
    }
  }

  /** @param {Stored} found */
  show({ scan, left_off: leftOff }) {
    byId("stored").hidden = scan === null;
    if (!scan) return;
    const about = scan.sample ? `an estimate by a sample of ${count(scan.sample.drawn)} keys: about ` : "";
    put(byId("stored-note"), `${about}${count(scan.keys)} keys, ${bytes(scan.bytes)} in ${scan.upstream}, ${minute(scan.ended)}`);
    this.owners.show(scan.apps);
    this.findings.show(scan.findings);
    this.largest.show(scan.largest);
    const more = Object.entries(leftOff).map(([name, rows]) => `${count(rows)} more ${name}`);
    put(byId("stored-more"), more.length ? `${more.join(", ")}: keyrail scan --json has all` : "");
  }
}

/** @returns {Table<StoredApp>} */
const ownersTable = () => new Table(
  byId("stored-owners"),
  [
    { label: "Owner", kind: "text", sort: (row) => owner(row.app), cell: long((row) => owner(row.app)) },
    { label: "Team", kind: "text", from: 560, cell: long((row) => row.team) },
    { label: "Keys", kind: "number", sort: (row) => row.keys, cell: text((row) => count(row.keys)) },
    { label: "Bytes", kind: "number", sort: (row) => row.bytes, cell: text((row) => bytes(row.bytes)) },
    { label: "No TTL", kind: "number", sort: (row) => row.without_ttl, cell: text((row) => count(row.without_ttl)) },
  ],
  { id: (row) => row.app, empty: "No key is stored" },
);

/** @returns {Table<StoredFinding>} */
const findingsTable = () => new Table(
  byId("stored-findings"),
  [
    { label: "Findings", kind: "text", sort: (row) => row.pattern, cell: longKey((row) => row.pattern) },
    { label: "Fault", kind: "text", sort: (row) => row.fault, cell: text((row) => row.fault) },
    { label: "Owner", kind: "text", from: 560, sort: (row) => owner(row.app), cell: long((row) => owner(row.app)) },
    { label: "Keys", kind: "number", sort: (row) => row.keys, cell: text((row) => count(row.keys)) },
    { label: "Why", kind: "text", from: 680, cell: long((row) => `${row.rule} (${row.mode}): ${row.text}`) },
    { label: "Such as", kind: "text", from: 680, cell: longKey((row) => row.exemplars[0] ?? "") },
  ],
  { id: (row) => `${row.rule}\n${row.fault}\n${row.pattern}\n${row.app}\n${row.mode}\n${row.sure}`, empty: "No finding" },
);

/** @returns {Table<StoredKey>} */
const largestTable = () => new Table(
  byId("stored-largest"),
  [
    { label: "Largest keys", kind: "text", sort: inDatabase, cell: longKey(inDatabase) },
    { label: "Owner", kind: "text", from: 560, sort: (row) => owner(row.app), cell: long((row) => owner(row.app)) },
    { label: "Type", kind: "text", from: 560, cell: text((row) => row.type) },
    { label: "Members", kind: "number", from: 560, sort: (row) => row.members, cell: text((row) => count(row.members)) },
    { label: "Bytes", kind: "number", sort: (row) => row.memory, cell: text((row) => bytes(row.memory)) },
  ],
  { id: (row) => `${row.node}\n${inDatabase(row)}`, empty: "None" },
);
