// The page: the view, incoming events, and the panels that show them.
//
//   stream.js   events from the server, for ever          panels.js   the tables and their columns
//   details.js  one key and its clients                   table.js    a table whose rows come and go
//   charts.js   lines, bars and the heat map              format.js   numbers
//   incidents.js  open and recent incidents               dom.js      elements
//   remedies.js   limits on one key, or a cache for it     nodes.js    the nodes of a cluster
//   cache.js    the local cache                           report.js   what rules would break, for whom
//   stored.js   what is stored, by the last scan          schema.js   the keys that the policy knows

import { showCache } from "./cache.js";
import { Chart, Heat } from "./charts.js";
import { Details } from "./details.js";
import { byId, mark, notice, put, putFacts, showOptions } from "./dom.js";
import { byteRate, bytes, clock, keyName, milliseconds, rate, share, span, windowName } from "./format.js";
import { incidentsOf, showIncidents } from "./incidents.js";
import { nodesTable, numbered, placed, trouble } from "./nodes.js";
import * as panels from "./panels.js";
import { showStanding } from "./remedies.js";
import { ReportPanel } from "./report.js";
import { SchemaPanel } from "./schema.js";
import { StoredPanel } from "./stored.js";
import { Stream } from "./stream.js";
import { identified } from "./table.js";

/**
 * @import {
 *   ChartOptions, Earlier, Overview, Past, Policy, Rule, ShownKey, ShownOverview, ShownStretch, ShownViolation, Stretch,
 *   Violation
 * } from "./types.d.ts"
 */

const MOST_VIOLATIONS = 100; // of each rule, so that none is lost in a flood of another's
const MOST_SECONDS = 600;
const MOST_REMEMBERED = 200; // keys with a history; those that were seen last

/** @type {ChartOptions<ShownStretch>[]} */
const CHARTS = [
  { title: "Commands", format: rate, least: 10, lines: [{ label: "", value: (second) => second.commands }] },
  {
    title: "At Redis, p99", hint: "From leaving Keyrail to the reply; 99 of 100 commands take no longer",
    format: milliseconds, least: 0.5,
    lines: [{ label: "p99", value: (second) => second.p99_ms }, { label: "p50", value: (second) => second.p50_ms }],
  },
  {
    title: "In Keyrail, p99", hint: "From a command's arrival until it leaves for Redis; 99 of 100 take no longer",
    format: milliseconds, least: 0.5, lines: [{ label: "", value: (second) => second.proxy_p99_ms }],
  },
  {
    title: "Bytes out", hint: "Replies to clients, and commands from them", format: byteRate, least: 1000,
    lines: [{ label: "out", value: (second) => second.bytes_out }, { label: "in", value: (second) => second.bytes_in }],
  },
];

const charts = CHARTS.map((chart) => new Chart(chart));
byId("tiles").append(...charts.map((chart) => chart.element));

/** @type {NodeListOf<HTMLInputElement>} */
const choices = document.querySelectorAll("#windows input");
const asked = new URLSearchParams(location.hash.slice(1));
const chosen = [...choices].find(({ value }) => value === asked.get("window"))?.value ?? "60";
const view = {
  route: asked.get("route"), window: chosen, key: asked.get("key"), paused: false,
  since: asked.get("since"), filter: asked.get("filter"), cell: asked.get("cell"),
};
/** @type {Map<string, ShownStretch>} */
const seconds = new Map();
/** @type {Map<string, Past[]>} */
const pasts = new Map();
/** @type {Map<string, ShownViolation[]>} */
const violations = new Map();
let violationNumber = 0;
/** @type {ShownOverview | null} */
let newest = null;
let fresh = true;

/** @param {{ key: string, slot: number }} key */
const keyId = (key) => `${key.key}\n${key.slot}`;
/** @param {string} id */
const pastOf = (id) => pasts.get(id) ?? [];

const details = new Details(() => remember({ key: null }));
const report = new ReportPanel(view, remember);
const stored = new StoredPanel();
const schema = new SchemaPanel(view);
const heat = new Heat(byId("heat"));
const tables = {
  keys: panels.keysTable({ open: openDetails, history: (key) => pastOf(key.id) }),
  patterns: panels.patternsTable(),
  slots: panels.slotsTable(),
  tags: panels.tagsTable(),
  clients: panels.clientsTable(),
  slow: panels.slowTable(),
  violations: panels.violationsTable(),
  rules: panels.rulesTable(),
  nodes: nodesTable(),
};

// The view, kept in the address so that it can be shared

/** @param {Partial<typeof view>} change */
function remember(change) {
  Object.assign(view, change);
  const kept = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...view, paused: null })) if (value) kept.set(name, value);
  history.replaceState(null, "", `#${kept}`);
}

/** @param {ShownKey} key */
function openDetails(key) {
  remember({ key: key.key });
  if (newest) details.open(key, newest, pastOf(key.id));
}

// Incoming events

/**
 * @param {string} name of an event
 * @param {any} data a History, the new Violations or an Overview
 */
function take(name, data) {
  if (name === "history") {
    fresh = true;
    violations.clear();
    addTens(data.tens, data.seconds);
    addEarlier(data.keys);
    addSeconds(data.seconds);
  } else if (name === "violations") {
    addViolations(data);
  } else if (name === "overview") {
    addSeconds(data.seconds);
    newest = addPasts(data);
    if (!view.paused) show(newest);
  }
}

/**
 * Before the known seconds there are only sums of ten.
 * @param {Stretch[]} tens
 * @param {Stretch[]} newer
 */
function addTens(tens, newer) {
  const first = Date.parse(newer[0]?.at ?? "");
  for (const ten of tens) {
    const time = Date.parse(ten.at);
    if (time + 10e3 > first || seconds.has(ten.at)) continue;
    const average = { commands: ten.commands / 10, bytes_in: ten.bytes_in / 10, bytes_out: ten.bytes_out / 10 };
    seconds.set(ten.at, { ...ten, ...average, time: time + 5e3 });
  }
}

/** @param {Stretch[]} more */
function addSeconds(more) {
  for (const second of more) seconds.set(second.at, { ...second, time: Date.parse(second.at) });
  keepNewest(seconds, MOST_SECONDS);
}

/**
 * @param {Map<string, unknown>} map
 * @param {number} most
 */
function keepNewest(map, most) {
  for (const oldest of map.keys()) {
    if (map.size <= most) return;
    map.delete(oldest);
  }
}

/** @param {Violation[]} more */
function addViolations(more) {
  for (const violation of more) {
    const known = violations.get(violation.rule) ?? [];
    violationNumber += 1;
    violations.set(violation.rule, [...known, { ...violation, number: violationNumber }].slice(-MOST_VIOLATIONS));
  }
}

/**
 * The past of the busiest keys, from before the page was opened.
 * @param {Earlier} earlier
 */
function addEarlier({ at, keys }) {
  const times = at.map((moment) => Date.parse(moment));
  for (const [id, { rates }] of identified(keys, keyId)) pasts.set(id, rates.map((each, i) => ({ time: times[i], rate: each })));
}

/**
 * Their present rates; a key of an open incident is hot, whatever its average in the window.
 * @param {Overview} overview
 * @returns {ShownOverview}
 */
function addPasts(overview) {
  const time = Date.parse(overview.at);
  const keys = identified(overview.hotkeys.keys, keyId).map(([id, key]) => {
    const past = [...pastOf(id), { time, rate: key.now }].slice(-MOST_SECONDS);
    pasts.delete(id);
    pasts.set(id, past);
    return { ...key, id, hot: key.hot || incidentsOf(overview.incidents, key).length > 0 };
  });
  keepNewest(pasts, MOST_REMEMBERED);
  return { ...overview, hotkeys: { ...overview.hotkeys, keys } };
}

// The panels

/** @param {ShownOverview} overview */
function show(overview) {
  const { hotkeys, patterns, slots, clients, slow, policy, nodes } = overview;
  // The newest second is still growing.
  const whole = [...seconds.values()].sort((a, b) => a.time - b.time).slice(0, -1);
  for (const chart of charts) chart.show(whole);
  tables.keys.show(hotkeys.keys);
  put(byId("keys-note"), `${rate(hotkeys.rate)} key uses, last ${windowName(hotkeys.window)}`);
  heat.show(slots.heat, nodes);
  tables.slots.show(placed(slots.slots, nodes));
  tables.nodes.show(numbered(nodes));
  byId("nodes").hidden = nodes.length === 0;
  notice("nodes", trouble(nodes));
  tables.tags.show(slots.tags.slice(0, 6));
  byId("tags-table").hidden = slots.tags.length === 0;
  put(byId("slots-note"), slots.crossslot ? `${rate(slots.crossslot)} over several slots` : "");
  tables.patterns.show(patterns.patterns);
  put(byId("patterns-note"), patterns.other.patterns ? `${patterns.other.patterns} others: ${rate(patterns.other.rate)}` : "");
  tables.clients.show(clients.clients);
  put(byId("clients-note"), clients.other.clients ? `${clients.other.clients} others: ${rate(clients.other.rate)}` : "");
  tables.slow.show(slow.commands);
  showViolations();
  showPolicy(policy);
  showKeyrail(overview);
  showCache(overview.local_cache);
  showIncidents(overview, openDetails);
  showStanding(byId("standing"), overview.remedies, false);
  showKey(overview);
  report.follow(overview.route);
  stored.follow();
  schema.follow(overview.route);
}

function showViolations() {
  const select = byId("violations-of");
  const rules = [...violations.keys()].sort();
  showOptions(select, ["", ...rules], (rule) => rule || "All rules");
  const shown = select.value ? [select.value] : rules;
  const found = shown.flatMap((rule) => violations.get(rule) ?? []);
  tables.violations.show(found.sort((a, b) => b.number - a.number).slice(0, MOST_VIOLATIONS));
}

/**
 * What a rule that compresses saves; nothing of others.
 * @param {Rule} rule
 * @returns {[string, string, string?][]}
 */
function compressed({ rule, mode, compressed: its }) {
  if (!its || its.ratio === null) return [];
  const cpu = `${(its.seconds + its.decompressed_seconds).toFixed(1)} s of CPU time`;
  const would = mode.startsWith("enforce") ? "Compressed" : "Would be compressed";
  return [[rule, `${bytes(its.saved_bytes)} saved, ${its.ratio.toFixed(1)}×, ${cpu}`, `${would}: plain bytes by stored ones, since the start`]];
}

/** @param {Policy} policy */
function showPolicy(policy) {
  const { kill_switch: pause } = policy;
  tables.rules.show(policy.rules);
  put(byId("policy-note"), policy.other_rules ? `and ${policy.other_rules} more rules` : "");
  /** @type {[string, string, string?][]} */
  const failures = policy.reload_failures ? [["Failed reloads", String(policy.reload_failures)]] : [];
  putFacts(byId("policy-facts"), [
    ["Source", policy.source],
    ["Generation", String(policy.generation)],
    ["Kill switch", pause.on ? `on until ${clock(pause.until)}` : "off"],
    ...failures,
    ...policy.rules.flatMap((rule) => compressed(rule)),
  ]);
  const because = pause.because ? ` (${pause.because})` : "";
  notice("pause", pause.on ? `The kill switch is on until ${clock(pause.until)}${because}: only locked rules are enforced.` : null);
}

/** @param {ShownOverview} overview */
function showKeyrail({ keyrail, routes, route, hotkeys, version }) {
  const clients = `${keyrail.clients} client${keyrail.clients === 1 ? "" : "s"}`;
  const workers = `${keyrail.workers} worker${keyrail.workers === 1 ? "" : "s"}`;
  put(byId("facts"), [keyrail.upstream, clients, workers, `Keyrail ${version}`].filter(Boolean).join(" · "));
  notice("ready", keyrail.reasons.length ? `Not ready: ${keyrail.reasons.join("; ")}` : null);
  notice("warning", keyrail.warnings.length ? keyrail.warnings.join("; ") : null);
  notice("age", hotkeys.age > 5 ? `No worker has reported for ${span(hotkeys.age)}.` : null);
  notice("counted", hotkeys.counted ? null : "Keyrail counts no keys under the policy none. To see them, serve the policy default: it only refuses dangerous commands.");
  showRoutes(routes, route);
  const [top] = hotkeys.keys;
  const busiest = top ? `${top.hot ? "● " : ""}${keyName(top.key)} ${share(top.share)} · Keyrail` : "Keyrail";
  document.title = keyrail.reasons.length ? "Not ready · Keyrail" : busiest;
}

/**
 * @param {string[]} routes
 * @param {string} route
 */
function showRoutes(routes, route) {
  const select = byId("route");
  byId("routes").hidden = routes.length < 2;
  showOptions(select, routes, (name) => name);
  if (document.activeElement !== select) select.value = route;
}

/**
 * The key whose details are open, or that the address asks for.
 * @param {ShownOverview} overview
 */
function showKey(overview) {
  const { keys } = overview.hotkeys;
  if (details.id !== null) {
    details.show(keys.find((key) => key.id === details.id), overview, pastOf(details.id));
  } else if (view.key && fresh) {
    const key = keys.find((each) => each.key === view.key);
    if (key) openDetails(key);
  }
  fresh = false;
}

// The connection

const stream = new Stream(take, (state) => {
  mark(document.body, "data-lost", state.kind !== "live");
  byId("details-lost").hidden = state.kind === "live";
  notice("connection", null);
  if (state.kind === "live") {
    told(view.paused ? "paused" : "live", view.paused ? "paused" : "live");
  } else if (state.kind === "token") {
    told("waiting", "token wanted");
    askToken(state.wrong);
  } else if (state.kind === "refused" && state.status === 400 && view.route) {
    remember({ route: null }); // the address may name a route that is gone
    follow();
  } else if (state.kind === "refused") {
    told("lost", "refused");
    notice("connection", `Keyrail refuses: ${state.text}`);
  } else {
    told("lost", "connection lost");
    const figures = newest ? ` These figures are from ${clock(newest.at)}.` : "";
    notice("connection", `Connection lost at ${clock(state.since)}; trying again.${figures}`);
    if (newest) document.title = "Connection lost · Keyrail";
  }
});

/**
 * @param {string} kind
 * @param {string} words
 */
function told(kind, words) {
  mark(byId("state"), "data-kind", kind);
  put(byId("state-text"), words);
}

/** @param {boolean} wrong whether a token was given, now or earlier in this tab */
function askToken(wrong) {
  if (wrong) put(byId("token-text"), "Keyrail does not accept this token. Give the admin token; it is kept until this tab is closed.");
  if (byId("token").open) return; // somebody may be typing
  byId("token-input").value = "";
  byId("token").showModal();
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = byId("token-input").value.trim();
  byId("token").close();
  if (/^[\x20-\x7e]+$/.test(token)) stream.useToken(token);
  else askToken(true); // a header cannot carry it
});
byId("token").addEventListener("cancel", (event) => event.preventDefault());

byId("violations-of").addEventListener("change", showViolations);

function follow() {
  const query = new URLSearchParams({ window: view.window });
  if (view.route) query.set("route", view.route);
  stream.open(`/events?${query}`);
}

byId("route").addEventListener("change", () => {
  remember({ route: byId("route").value, key: null, cell: null });
  seconds.clear();
  pasts.clear();
  follow();
});

for (const choice of choices) {
  choice.checked = choice.value === view.window;
  choice.addEventListener("change", () => {
    remember({ window: choice.value });
    follow();
  });
}

byId("pause").addEventListener("click", () => {
  view.paused = !view.paused;
  mark(byId("pause"), "data-on", view.paused);
  put(byId("pause"), view.paused ? "Resume" : "Pause");
  if (newest && byId("state").dataset.kind !== "lost") told(view.paused ? "paused" : "live", view.paused ? "paused" : "live");
  if (newest && !view.paused) show(newest);
});

follow();
