// What somebody was woken for: the lines are the same in the alert, in a terminal and here.

import { byId, make, mark, put } from "./dom.js";
import { clock } from "./format.js";

const RECENT_MS = 3600e3; // those that are over are shown for so long

/** Those that are worth a look now, the newest first. */
export function recent(incidents, now) {
  return incidents.filter(({ ended }) => ended === null || Date.parse(now) - Date.parse(ended) < RECENT_MS);
}

export function showIncidents(overview) {
  const shown = recent(overview.incidents, overview.at);
  const open = shown.filter(({ ended }) => ended === null).length;
  byId("incidents").hidden = shown.length === 0;
  put(byId("incidents-note"), open ? `${open} not over` : "of the last hour");
  fill(byId("incidents-list"), shown);
}

/** Items of a list, one for each incident. */
export function fill(list, incidents) {
  while (list.children.length > incidents.length) list.lastElementChild.remove();
  incidents.forEach((incident, i) => {
    if (!list.children[i]) list.append(item());
    const [head, lines] = list.children[i].children;
    const [tag, when] = head.children;
    put(tag, incident.id);
    mark(tag, "data-kind", incident.ended === null ? "hot" : "over");
    put(when, incident.ended === null ? `since ${clock(incident.began)}` : `${clock(incident.began)} to ${clock(incident.ended)}`);
    const [first, ...others] = incident.lines;
    put(lines.firstElementChild, first);
    put(lines.lastElementChild, others.map((line) => `\n${line}`).join(""));
  });
}

const item = () =>
  make("li", {}, make("p", {}, make("span", { class: "tag" }), make("span", { class: "soft" })), make("pre", {}, make("b"), make("span")));
