// The drawer of one key and its clients, updated with the other figures.

import { bar, Chart } from "./charts.js";
import { byId, make, mark, put, putFacts } from "./dom.js";
import { byteRate, clock, keyName, rate, share, span, tenantName, who } from "./format.js";
import { fill, incidentsOf } from "./incidents.js";
import { RemedyForm, showStanding } from "./remedies.js";
import { authorization } from "./stream.js";
import { Table } from "./table.js";

/** @import { HotKey, Incident, KeyClient, Kind, Limit, Past, ShownKey, ShownOverview } from "./types.d.ts" */

const dialog = byId("details");

/** @type {Chart<Past>} */
const chart = new Chart({
  title: "Uses per second",
  format: rate,
  least: 10,
  lines: [{ label: "", value: (second) => second.rate }],
});

/** @type {Table<KeyClient>} */
const clients = new Table(
  byId("details-clients"),
  [
    {
      label: "Client",
      cell: (cell) => {
        const name = make("span", { class: "name" });
        const fresh = make("span", { class: "tag", "data-kind": "new" }, "new");
        const more = make("span", { class: "soft" });
        cell.append(make("span", { class: "pair" }, name, fresh), more);
        return (client) => {
          put(name, who(client));
          fresh.hidden = !client.new;
          put(more, described(client));
        };
      },
    },
    {
      label: "Share",
      kind: "number",
      cell: (cell) => {
        const number = make("span", { class: "figure" });
        const drawn = bar();
        cell.append(drawn.element, number);
        return (client) => {
          put(number, share(client.share));
          drawn.show(client.share);
        };
      },
    },
  ],
  { id: (client) => JSON.stringify([client.app, client.user, client.client_name, client.library, client.address]), empty: "No client was traced yet" },
);

/**
 * The fields of a client that its name does not contain.
 * @param {KeyClient} client
 */
function described(client) {
  const name = who(client);
  const user = client.user === "default" ? "" : `user ${client.user}`;
  const parts = [client.client_name, user, client.library, client.address];
  return parts.filter((part) => part && part !== name).join(" · ");
}

/**
 * The change of a key, and its likely cause.
 * @param {HotKey} key
 */
function story(key) {
  const parts = [];
  const [app, part] = busiestApp(key);
  if (app) parts.push(`${share(part)} of it is the app ${app}.`);
  if (key.since) {
    const before = key.before ? rate(key.before) : "not among the busiest keys";
    parts.push(`As busy as now since ${clock(key.since)}. Before: ${before}.`);
  }
  if (key.hit_ratio !== null && key.hit_ratio < 0.05 && key.reads > 2 * key.writes)
    parts.push(`Nearly all reads miss${key.hot ? ": clients read a key that does not exist" : ""}.`);
  const fresh = key.clients.filter((client) => client.new).length;
  if (fresh) parts.push(fresh === 1 ? "One client is new." : `${fresh} clients are new.`);
  return parts.join(" ");
}

/**
 * A word as a shell takes it.
 * @param {string} word
 */
const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/**
 * The app with the largest share of a key, and the share; clients of no app do not count.
 * @param {HotKey} key
 * @returns {[string | null, number]}
 */
function busiestApp(key) {
  /** @type {Map<string, number>} */
  const parts = new Map();
  for (const { app, share: part } of key.clients)
    if (app && app !== "unknown") parts.set(app, (parts.get(app) ?? 0) + part);
  return [...parts].sort((a, b) => b[1] - a[1])[0] ?? [null, 1];
}

/**
 * The limit that an incident advises, else twice the present rate of the key's busiest app: normal uses pass.
 * @param {HotKey} key
 * @param {Incident} [incident]
 * @returns {Limit}
 */
function limitOf(key, incident) {
  if (incident?.cap) return incident.cap;
  const [app, part] = busiestApp(key);
  return { app: app ?? "all", rate: `${roundedUp(2 * key.rate * part)}/s` };
}

const READ = 0.9; // the share of reads from which a local cache helps most, as for incidents

/**
 * The kinds of remedy, the advised one first. Clients that log in to Redis as users of their own get nothing from memory.
 * @param {HotKey} key
 * @returns {Kind[]}
 */
function kindsOf(key) {
  const read = key.reads >= READ * (key.reads + key.writes) && key.clients.every(({ user }) => user === "default");
  return read && !key.cached_share ? ["cache", "cap"] : ["cap", "cache"];
}

/** @param {number} value */
function roundedUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value) ?? power;
}

const DEFAULT_ADMIN = ["http://127.0.0.1:9121", "http://localhost:9121"]; // where `keyrail remedy` looks for it

/**
 * The same as a command line.
 * @param {HotKey} key
 * @param {Kind} kind
 * @param {Incident} [incident]
 */
function command(key, kind, incident) {
  const { app, rate: limit } = limitOf(key, incident);
  const what = kind === "cache" ? "--local-cache --for 2h" : `--cap ${app}=${limit} --for 30m`;
  const which = key.whole ? quoted(key.key) : `--incident ${incident?.id}`;
  const admin = DEFAULT_ADMIN.includes(location.origin) ? "" : ` --admin ${location.origin}`;
  const token = "Authorization" in authorization() ? " --token-file FILE" : "";
  return `keyrail remedy ${which} ${what} --because ${incident?.id ?? "'…'"}${admin}${token}`;
}

export class Details {
  /** @param {() => void} onClose */
  constructor(onClose) {
    /** @type {string | null} */
    this.id = null;
    /** @type {Incident[]} */
    this.incidents = [];
    /** @type {ShownKey | null} */
    this.key = null;
    this.form = new RemedyForm(() => this.showCommand());
    byId("details-chart").append(chart.element);
    byId("details-close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => {
      if (dialog.open) return; // the event is of a moment ago: another key has been opened since
      this.id = null;
      onClose();
    });
    const copy = byId("details-copy");
    copy.addEventListener("click", async () => {
      await navigator.clipboard?.writeText(byId("details-remedy").textContent ?? ""); // there is none without TLS
      put(copy, "Copied");
      setTimeout(() => put(copy, "Copy"), 1500);
    });
  }

  /**
   * @param {ShownKey} key
   * @param {ShownOverview} overview
   * @param {Past[]} history
   */
  open(key, overview, history) {
    this.id = key.id;
    this.show(key, overview, history);
    const known = key.whole || this.incidents.length > 0;
    const choice = { kinds: kindsOf(key), limit: limitOf(key, this.incidents[0]) };
    byId("remedy-form").hidden = !overview.takes_orders || !known;
    byId("details-command").hidden = !known;
    byId("remedy-does").hidden = !known;
    byId("details-unnamed").hidden = known;
    this.form.open(key.key, overview.route, choice, overview.apps, this.incidents[0]);
    this.showCommand();
    if (!dialog.open) dialog.showModal();
  }

  /**
   * @param {ShownKey | undefined} key undefined when it is not among the busiest any more
   * @param {ShownOverview} overview
   * @param {Past[]} history
   */
  show(key, { hotkeys: keys, incidents, remedies, takes_orders: orders }, history) {
    mark(dialog, "data-gone", key === undefined);
    if (key === undefined) {
      put(byId("details-change"), "No longer among the busiest keys. These are the last figures.");
      return;
    }
    put(byId("details-key"), keyName(key.key));
    const error = key.error ? ` ±${share(Math.max(0.001, key.share * (key.error / (key.count - key.error))))}` : "";
    put(byId("details-lead"), `${rate(key.rate)}, ${share(key.share)}${error} of ${rate(keys.rate)}`);
    put(byId("details-change"), story(key));
    this.incidents = incidentsOf(incidents, key);
    fill(byId("details-incidents"), this.incidents);
    showStanding(byId("remedy-standing"), remedies.filter((each) => each.key === key.key), orders);
    chart.show(history);
    const uses = key.reads + key.writes;
    /** @type {[string, string][]} */
    const cached = key.cached_share ? [["Reads from memory", share(key.cached_share)]] : [];
    /** @type {[string, string][]} */
    const moved = key.replica_share ? [["Reads by replicas", share(key.replica_share)]] : [];
    /** @type {[string, string][]} */
    const whose = key.tenant ? [["For its tenant", tenantName(key.tenant)]] : [];
    putFacts(byId("details-facts"), [
      ...whose,
      ["Reads", uses ? share(key.reads / uses) : "–"],
      ["Writes", uses ? share(key.writes / uses) : "–"],
      ["Reads that hit", share(key.hit_ratio)],
      ...cached,
      ...moved,
      ["In", byteRate(key.bytes_in)],
      ["Out", byteRate(key.bytes_out)],
      ["TTL left", key.ttl === -1 ? "none" : span(key.ttl)],
      ["Slot", String(key.slot)],
      ["Pattern", key.pattern ?? "–"],
    ]);
    clients.show(key.clients);
    put(byId("details-others"), key.other_clients > 0 ? `All others: ${share(key.other_clients)}` : "");
    this.key = key;
    this.showCommand();
  }

  showCommand() {
    if (this.key) put(byId("details-remedy"), command(this.key, this.form.kind, this.incidents[0]));
  }
}
