// Incidents: their lines are the same in the log, in a terminal and here.

import { byId, make, mark, put } from "./dom.js";
import { clock } from "./format.js";

/** @import { Incident, ShownKey, ShownOverview } from "./types.d.ts" */

const RECENT_MS = 3600e3; // those that are over are shown for so long

const KINDS = ["hot-key", "hot-slot", "big-value"]; // the most urgent first

/**
 * Open incidents first, then those of the last hour; hot keys before all others, and the newest first.
 * @param {Incident[]} incidents
 * @param {string} now
 */
function recent(incidents, now) {
  /** @param {Incident} incident */
  const rank = ({ ended, kind }) => (ended === null ? 0 : KINDS.length) + KINDS.indexOf(kind);
  return incidents
    .filter(({ ended }) => ended === null || Date.parse(now) - Date.parse(ended) < RECENT_MS)
    .sort((a, b) => rank(a) - rank(b));
}

/**
 * The incidents about a key that are not over. Where keys are not shown as they are, the slot tells them apart.
 * @param {Incident[]} incidents
 * @param {{ key: string, slot: number }} key
 */
export const incidentsOf = (incidents, { key, slot }) =>
  incidents.filter((incident) => incident.ended === null && incident.subject === key && incident.slot === slot);

/**
 * `openKey(key)` shows the details of a key: each incident about one that is known here has a button for it.
 * @param {ShownOverview} overview
 * @param {(key: ShownKey) => void} openKey
 */
export function showIncidents(overview, openKey) {
  const shown = recent(overview.incidents, overview.at);
  const open = shown.filter(({ ended }) => ended === null).length;
  byId("incidents").hidden = shown.length === 0;
  put(byId("incidents-note"), open ? `${open} open` : "of the last hour");
  const keys = overview.hotkeys.keys;
  fill(byId("incidents-list"), shown, (incident) => {
    const key = keys.find((each) => incidentsOf([incident], each).length > 0);
    return key ? () => openKey(key) : null;
  });
}

/**
 * Items of a list, one for each incident; `opener` gives the action of its button, or null for none.
 * @param {Element} list
 * @param {Incident[]} incidents
 * @param {(incident: Incident) => (() => void) | null} opener
 */
export function fill(list, incidents, opener = () => null) {
  while (list.children.length > incidents.length) list.lastElementChild?.remove();
  incidents.forEach((incident, i) => {
    if (!list.children[i]) list.append(item());
    const [head, lines] = list.children[i].children;
    const [tag, when] = head.children;
    const button = /** @type {HTMLButtonElement} */ (head.lastElementChild);
    const open = opener(incident);
    button.onclick = open;
    button.hidden = !open;
    put(tag, incident.id);
    mark(tag, "data-kind", incident.ended === null ? "hot" : "over");
    put(when, incident.ended === null ? `since ${clock(incident.began)}` : `${clock(incident.began)} to ${clock(incident.ended)}`);
    const [first, ...others] = incident.lines;
    const [summary, more] = lines.children;
    put(summary, first);
    put(more, others.map((line) => `\n${line}`).join(""));
  });
}

const item = () =>
  make("li", {}, make("p", {}, make("span", { class: "tag" }), make("span", { class: "soft" }), make("button", { type: "button", "aria-haspopup": "dialog" }, "Details")), make("pre", {}, make("b"), make("span")));
