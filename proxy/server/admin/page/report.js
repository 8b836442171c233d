// What rules would break: a matrix of rules and apps, the worst first, and the details of one cell. It is the answer of
// /report, asked for once a minute; the filter, the time and the opened cell are in the address.

import { bar, sparkline } from "./charts.js";
import { byId, make, mark, put, putFacts } from "./dom.js";
import { count, share } from "./format.js";
import { authorization } from "./stream.js";
import { Table, long, longKey, text } from "./table.js";

/** @import { Cell, Column, Exception, Finding, FindingClient, MatrixCell, MatrixRow, Past, Report, ReportView } from "./types.d.ts" */

const EACH_MS = 60e3;
const AGAIN_MS = 10e3;
const HOUR_MS = 3600e3;
const MOST_POINTS = 84; // as wide as the line is
const USUAL = "7d";

const dialog = byId("finding");

/**
 * Text that others chose, on one line: what is not printed, such as a sign that turns letters around, as its number.
 * @param {string} text
 */
const printed = (text) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`);

/** @param {string} moment */
const minute = (moment) => `${moment.slice(0, 16).replace("T", " ")} UTC`;

/** @param {number} value */
const exact = (value) => value.toLocaleString("en");

/** @type {Record<string, string>} */
const ALREADY = {
  error: "made the rule itself fail", skipped: "left as they are, since the rule could not be applied", noticed: "noticed in a reply",
};

/** @param {Finding} finding */
const outcome = ({ outcome, mode }) => ALREADY[outcome] ?? (mode.startsWith("enforce") ? outcome : `would be ${outcome}`);

/** @param {Exception} each */
function exception(each) {
  const keys = each.keys ? ` on keys ${each.keys}` : "";
  return printed(`${each.where}${keys} for ${each.app || "all apps"}, ${each.until ? `until ${each.until}` : "without an end"}`);
}

/**
 * What the filter looks at.
 * @param {Finding} finding
 * @param {string[]} names of the app and the team
 */
function words(finding, names) {
  const clients = finding.clients.flatMap(({ user, client_name, library, address }) => [user, client_name, library, address]);
  const what = [...finding.commands.map(({ command }) => command), ...finding.shapes.map(({ shape }) => shape)];
  return [...names, finding.rule, finding.outcome, ...clients, ...what].join("\n").toLowerCase();
}

/**
 * The counts over the time of the report, at times in milliseconds: of each hour, or of several, so that a month is not
 * more points than can be seen. It begins with one before that time.
 * @param {Finding[]} findings
 * @param {Report} report
 * @returns {Past[]}
 */
function trend(findings, { since, until }) {
  const first = Math.floor(Date.parse(since ?? "") / HOUR_MS) * HOUR_MS;
  const step = HOUR_MS * Math.max(1, Math.ceil((Date.parse(until ?? "") - first) / HOUR_MS / MOST_POINTS));
  const points = Array.from({ length: Math.floor((Date.parse(until ?? "") - first) / step) + 2 }, (_, i) => ({ time: first + (i - 1) * step, rate: 0 }));
  for (const { hours } of findings)
    for (const [hour, many] of hours) {
      const point = points[Math.floor((hour * 1000 - first) / step) + 1];
      if (point) point.rate += many;
    }
  return points;
}

/**
 * A line that is drawn over the time of the report.
 * @param {Element} place
 * @param {Past[]} past
 */
function drawTrend(place, past) {
  const drawn = sparkline(Math.max(HOUR_MS, (past.at(-1)?.time ?? 0) - (past[0]?.time ?? 0)));
  drawn.show(past);
  place.append(drawn.element);
}

/**
 * The rules of a route as rows, with a cell for each app; in both, the worst comes first.
 * @param {Report} report
 * @param {string} route
 * @param {string} filter
 * @returns {{ rows: MatrixRow[], apps: string[] }}
 */
function matrix(report, route, filter) {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  /** @type {Map<string, Map<string, Finding[]>>} */
  const rules = new Map();
  for (const { team, contact, apps } of report.teams)
    for (const { app, findings } of apps)
      for (const each of findings) {
        const finding = { ...each, contact: each.contact || contact };
        if (finding.route !== route) continue;
        const its = words(finding, [app, team]);
        if (!wanted.every((word) => its.includes(word))) continue;
        const row = rules.get(finding.rule) ?? new Map();
        rules.set(finding.rule, row.set(app, [...(row.get(app) ?? []), finding]));
      }
  /** @type {Map<string, number>} */
  const weights = new Map();
  const rows = [...rules].map(([rule, its]) => {
    const cells = new Map([...its].map(([app, findings]) => [app, cellOf(findings, report)]));
    for (const [app, cell] of cells) weights.set(app, (weights.get(app) ?? 0) + weight(cell));
    return { rule, cells, weight: [...cells.values()].reduce((sum, cell) => sum + weight(cell), 0) };
  });
  return {
    rows: rows.sort((a, b) => b.weight - a.weight),
    apps: [...weights].sort((a, b) => b[1] - a[1]).map(([app]) => app),
  };
}

/** @param {MatrixCell} cell */
const weight = ({ breaks, count }) => (breaks ? 1e12 : 1) + count; // whatever breaks is worse than all that does not

/**
 * @param {Finding[]} findings of one rule and app; what breaks hides what does not
 * @param {Report} report
 * @returns {MatrixCell}
 */
function cellOf(findings, report) {
  const breaking = findings.filter(({ harmless }) => !harmless);
  const shown = breaking.length ? breaking : findings;
  const sum = shown.reduce((all, each) => all + each.count, 0);
  const outOf = Math.max(sum, ...shown.map(({ out_of }) => out_of));
  return { findings, breaks: breaking.length > 0, count: sum, out_of: outOf, share: sum / outOf, past: trend(shown, report) };
}

/**
 * @param {string} rule
 * @param {string} app
 */
const cellId = (rule, app) => `${rule}/${app}`;

/**
 * A column for each app.
 * @param {string} app
 * @param {(id: string) => void} open
 * @returns {Column<MatrixRow>}
 */
function appColumn(app, open) {
  return {
    label: printed(app),
    kind: "number",
    sort: (row) => row.cells.get(app)?.count ?? null,
    cell: (cell) => {
      const figure = make("span");
      const line = make("span");
      const button = make("button", { type: "button", "aria-haspopup": "dialog" }, figure, line);
      cell.append(button);
      let id = "";
      button.addEventListener("click", () => open(id));
      return (row) => {
        const its = row.cells.get(app);
        button.hidden = !its;
        if (!its) return;
        id = cellId(row.rule, app);
        mark(button, "data-breaks", its.breaks && "");
        put(figure, `${count(its.count)} · ${share(its.share)}`);
        mark(button, "aria-label", `${row.rule}, ${printed(app)}: ${exact(its.count)} of ${exact(its.out_of)} ${outcome(its.findings[0])}`);
        line.replaceChildren();
        drawTrend(line, its.past);
      };
    },
  };
}

/**
 * A table of what has done it, with its count and a bar.
 * @template {{ count: number }} Row
 * @param {string} label
 * @param {Row[]} rows
 * @param {Cell<Row>} name
 */
function counted(label, rows, name) {
  const element = make("table", { "aria-label": label });
  /** @type {Table<Row>} */
  const table = new Table(element, [
    { label, kind: "text", cell: name },
    { label: "Count", kind: "number", cell: (cell) => {
      const drawn = bar();
      const figure = make("span", { class: "figure" });
      cell.append(drawn.element, figure);
      return (row) => {
        drawn.show(row.count / rows[0].count);
        put(figure, exact(row.count));
      };
    } },
  ], { id: (row) => JSON.stringify(row), empty: "" });
  table.show(rows);
  return rows.length ? [element] : [];
}

/** @param {FindingClient} client */
const clientText = (client) => printed(
  [`user ${client.user}`, client.client_name, client.library, client.address].filter(Boolean).join(" · "),
);

/**
 * The details of one finding.
 * @param {Finding} finding
 * @param {Report} report
 */
function part(finding, report) {
  const facts = make("dl", { class: "facts-list" });
  /** @type {[string, string][]} */
  const said = [["Reason", finding.because], ["What to do instead", finding.instead], ["Contact", finding.contact]];
  putFacts(facts, [
    ...said.filter(([, value]) => value),
    ["Mode", `${finding.mode}, ${finding.where}`],
    ["First", minute(finding.first_seen)],
    ["Last", minute(finding.last_seen)],
    ...finding.exceptions.map((each) => /** @type {[string, string]} */ (["Exception", exception(each)])),
  ]);
  const figures = `${exact(finding.count)} of ${exact(finding.out_of)} commands (${share(finding.share)})`;
  const element = make(
    "section", { "data-breaks": finding.harmless ? undefined : "" },
    make("p", { class: "lead" }, `${figures} ${outcome(finding)}${finding.harmless ? "; no client notices" : ""}`),
    facts,
  );
  drawTrend(element, trend([finding], report));
  element.append(
    ...counted("Clients", finding.clients, text(clientText)),
    ...counted("Commands", finding.commands, longKey((row) => printed(row.command))),
    ...counted("Shapes of keys", finding.shapes, longKey((row) => printed(row.shape))),
  );
  if (finding.not_told_apart) element.append(make("p", { class: "note" }, `${exact(finding.not_told_apart)} of them are counted, but not told apart.`));
  if (finding.exemplars.length) {
    const lines = finding.exemplars.map(({ words, why, prefix }) => make(
      "li", {}, make("span", { class: "key" }, printed(words.join(" "))),
      make("span", { class: "soft" }, prefix && ` in Redis behind ${prefix}`), make("p", { class: "soft key" }, printed(why)),
    ));
    element.append(make("h3", {}, "Such as (values are replaced by their lengths)"), make("ul", {}, ...lines));
  }
  return element;
}

export class ReportPanel {
  /**
   * @param {ReportView} view
   * @param {(change: Partial<ReportView>) => void} remember
   */
  constructor(view, remember) {
    this.view = view;
    this.remember = remember;
    /** @type {Report | null} */
    this.report = null;
    this.route = "";
    this.due = 0;
    this.number = 0;
    this.apps = "";
    /** @type {Table<MatrixRow>} */
    this.table = this.newTable([]);
    const since = byId("report-since");
    if (![...since.options].some(({ value }) => value === view.since)) remember({ since: null });
    since.value = view.since ?? USUAL;
    since.addEventListener("change", () => {
      remember({ since: since.value === USUAL ? null : since.value });
      this.load();
    });
    const filter = byId("report-filter");
    filter.value = view.filter ?? "";
    filter.addEventListener("input", () => {
      remember({ filter: filter.value || null });
      this.draw();
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target instanceof Element && event.target.closest("input, select, textarea");
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || typing || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      filter.focus();
    });
    byId("finding-close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => dialog.open || remember({ cell: null }));
  }

  /**
   * Show this route, and what is new in a minute.
   * @param {string} route
   */
  follow(route) {
    if (route !== this.route) {
      this.route = route;
      this.draw();
    }
    if (Date.now() >= this.due) this.load();
  }

  async load() {
    this.due = Date.now() + EACH_MS;
    const number = ++this.number;
    try {
      const answer = await fetch(`/report?since=${this.view.since ?? USUAL}`, { headers: authorization(), cache: "no-store" });
      const found = await answer.json();
      if (number !== this.number) return;
      if (!answer.ok) throw new Error(found.error);
      this.report = found;
      this.draw();
    } catch (error) {
      this.due = Date.now() + AGAIN_MS;
      put(byId("report-note"), `The report cannot be had: ${error instanceof Error ? error.message : error}`);
    }
  }

  /** @param {string[]} apps */
  newTable(apps) {
    this.apps = apps.join("\n");
    /** @type {Column<MatrixRow>} */
    const rule = { label: "Rule", kind: "text", sort: (row) => row.rule, cell: long((row) => row.rule) };
    const columns = apps.map((app) => appColumn(app, (id) => this.open(id)));
    return new Table(byId("report-table"), [rule, ...columns], { id: (row) => row.rule, empty: "No rule has found anything" });
  }

  draw() {
    const { report } = this;
    if (!report) return;
    const { rows, apps } = matrix(report, this.route, this.view.filter ?? "");
    if (apps.join("\n") !== this.apps) this.table = this.newTable(apps);
    this.table.show(rows);
    const gaps = report.gaps.length ? `; ${report.gaps.length} gaps, in which nobody watched` : "";
    const lost = Object.values(report.lost).reduce((sum, each) => sum + each, 0);
    const seen = report.since ? `${exact(report.commands)} commands since ${minute(report.since)}` : "Nothing was seen yet";
    put(byId("report-note"), `${seen}${gaps}${lost ? `; ${exact(lost)} not recorded` : ""}`);
    this.drawSilent(report);
    if (this.view.cell) this.open(this.view.cell);
  }

  /** @param {Report} report */
  drawSilent({ silent }) {
    const shown = silent.filter(({ route }) => route === this.route);
    const element = byId("report-silent");
    element.hidden = shown.length === 0;
    put(element.children[0], `Rules without a finding: ${shown.length}`);
    element.children[1].replaceChildren(...shown.map((each) => make("li", {}, `${each.rule}: ${each.proof}`)));
  }

  /**
   * Show the details of a cell, if it is there: those of all its findings, whatever the filter.
   * @param {string} id
   */
  open(id) {
    const { report } = this;
    if (!report) return;
    const row = matrix(report, this.route, "").rows.find(({ rule, cells }) => [...cells.keys()].some((app) => cellId(rule, app) === id));
    const app = row && [...row.cells.keys()].find((each) => cellId(row.rule, each) === id);
    if (!row || app === undefined) return;
    this.remember({ cell: id });
    put(byId("finding-title"), `${row.rule}, ${printed(app)}`);
    byId("finding-parts").replaceChildren(...(row.cells.get(app)?.findings ?? []).map((finding) => part(finding, report)));
    if (!dialog.open && !document.querySelector("dialog[open]")) dialog.showModal();
  }
}
