// The nodes of a cluster: their table, and whose slots are whose.

import { byId, make, mark, put } from "./dom.js";
import { bytes, count, milliseconds, rate, share } from "./format.js";
import { Table, long, tag, text } from "./table.js";

/** @import { ClusterNode, ShownNode, Slot } from "./types.d.ts" */

export const COLOURS = 6; // page.css has so many; behind that they come again

const HEALTH = new Map([
  ["ok", "ok"], ["failed", "failed"], ["lost", "cannot be reached"], ["silent", "does not answer"], ["unlinked", "has lost its primary"],
  ["syncing", "gets a copy of its primary's data"], ["foreign", "has other data than its primary"],
]);

/** @param {ClusterNode} node */
const slotsOf = (node) => node.slots.reduce((sum, [first, last]) => sum + last - first + 1, 0);

/** @param {ClusterNode} node */
const health = (node) => HEALTH.get(node.health) ?? node.health;

/**
 * The node that owns a slot, and its place among all: the place gives its colour.
 * @param {ClusterNode[]} nodes
 * @param {number} slot
 */
export function ownerOf(nodes, slot) {
  const place = nodes.findIndex((node) => node.slots.some(([first, last]) => first <= slot && slot <= last));
  return place < 0 ? null : { name: nodes[place].node, place };
}

/**
 * The slots, each with the name of its node.
 * @param {Slot[]} slots
 * @param {ClusterNode[]} nodes
 */
export const placed = (slots, nodes) => slots.map((slot) => ({ ...slot, node: ownerOf(nodes, slot.slot)?.name ?? "" }));

/**
 * A line about the nodes that are not well; none if all are.
 * @param {ClusterNode[]} nodes
 */
export function trouble(nodes) {
  const bad = nodes.filter((node) => node.health !== "ok").map((node) => `${node.node} ${health(node)}`);
  return bad.length ? `${bad.length} of ${nodes.length} nodes of the cluster: ${bad.join(", ")}.` : null;
}

/**
 * The nodes, each with its place among all, and replicas with their share of the reads that replicas answer.
 * @param {ClusterNode[]} nodes
 * @returns {ShownNode[]}
 */
export function numbered(nodes) {
  const all = nodes.reduce((sum, node) => sum + node.reads, 0);
  return nodes.map((node, place) => ({ ...node, place, share: all && node.role === "replica" ? node.reads / all : null }));
}

/** @param {ShownNode} row */
const lag = (row) => (row.lag_seconds === null ? bytes(row.lag) : `${bytes(row.lag)}, ${milliseconds(row.lag_seconds * 1000)}`);

/** @param {ShownNode} row */
function reads(row) {
  if (row.share === null) return "–";
  const failed = row.read_errors ? `, failed ${count(row.read_errors)}×` : "";
  return `${count(row.reads)}, ${share(row.share)}${failed}${row.serves ? "" : ", none now"}`;
}

/** @param {ShownNode} row */
const keys = ({ info }) => (info ? `${count(info.total_keys)}, ${share(info.total_keys ? info.total_expires / info.total_keys : null)} TTL` : "–");

/** @param {ShownNode} row */
function memory({ info }) {
  if (!info) return "–";
  const most = info.maxmemory ? ` of ${bytes(info.maxmemory)}` : "";
  const fragmented = info.mem_fragmentation_ratio ? `, ×${info.mem_fragmentation_ratio}` : "";
  return `${bytes(info.used_memory)}${most}${fragmented}`;
}

/** @returns {Table<ShownNode>} */
export const nodesTable = () => new Table(
  byId("nodes-table"),
  [
    {
      label: "Node",
      kind: "text",
      sort: (row) => row.node,
      cell: (cell) => {
        const swatch = make("i", { class: "swatch", "aria-hidden": "true" });
        const name = make("b");
        cell.append(swatch, name);
        return (row) => {
          put(name, row.node);
          mark(swatch, "data-node", row.slots.length ? row.place % COLOURS : null);
          cell.title = row.id;
        };
      },
    },
    { label: "Role", kind: "text", from: 560, cell: text((row) => (row.role === "primary" ? "primary" : `replica of ${row.primary || "–"}`)) },
    { label: "Health", kind: "text", sort: (row) => row.health, cell: tag((row) => row.health, (row) => (row.health === "ok" ? "" : "hot")) },
    { label: "Slots", kind: "number", sort: slotsOf, cell: text((row) => (slotsOf(row) ? slotsOf(row).toLocaleString("en") : "–")) },
    {
      label: "Rate", hint: "Commands that Keyrail sends to it", kind: "number", from: 560,
      sort: (row) => row.rate, cell: text((row) => rate(row.rate)),
    },
    {
      label: "Lag", hint: "What a replica has still to apply of its primary's writes", kind: "number", from: 560,
      sort: (row) => row.lag, cell: text(lag),
    },
    {
      label: "Reads",
      hint: "Reads that it was sent in its primary's place, its share of those of all replicas, and how often it has failed meanwhile",
      kind: "number", from: 680, sort: (row) => row.share, cell: text(reads),
    },
    {
      label: "PING", hint: "From Keyrail to the node and back", kind: "number", from: 560,
      sort: (row) => row.ping_ms, cell: text((row) => milliseconds(row.ping_ms)),
    },
    { label: "Keys", hint: "How many it has, and the share of them with a TTL", kind: "number", from: 980, sort: (row) => row.info?.total_keys ?? null, cell: text(keys) },
    {
      label: "Memory", hint: "What it uses, of its maxmemory, and how fragmented it is", kind: "number", from: 980,
      sort: (row) => row.info?.used_memory ?? null, cell: text(memory),
    },
    {
      label: "Evicted", hint: "Keys that it has evicted, and keys whose TTL has ended", kind: "number", from: 1180,
      sort: (row) => row.info?.evicted_keys ?? null, cell: text((row) => (row.info ? `${count(row.info.evicted_keys)}, expired ${count(row.info.expired_keys)}` : "–")),
    },
    { label: "Connections", kind: "number", from: 680, sort: (row) => row.connections, cell: text((row) => String(row.connections)) },
    { label: "Address", kind: "text", from: 680, cell: long((row) => row.address) },
  ],
  { id: (row) => row.id, empty: "" },
);
