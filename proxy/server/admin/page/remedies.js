// A limit on one key: first its effect on the last minute, then in force, then undone. It needs the token.

import { byId, make, mark, put } from "./dom.js";
import { clock, count, rate } from "./format.js";
import { authorization } from "./stream.js";

/** @import { Effect, Incident, Limit, Remedy } from "./types.d.ts" */

const ALL = "all";

/**
 * @param {string} method
 * @param {string} path
 * @param {object} [order]
 * @returns {Promise<any>}
 */
async function ask(method, path, order) {
  const body = order && JSON.stringify(order);
  const answer = await fetch(path, { method, body, headers: authorization(), cache: "no-store" });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error);
  return told;
}

/**
 * The remedies in force, each with a button to undo it if that is allowed from here.
 * @param {HTMLElement} list
 * @param {Remedy[]} remedies
 * @param {boolean} withUndo
 */
export function showStanding(list, remedies, withUndo) {
  const ids = remedies.map(({ id }) => `${id}`).join();
  if (list.dataset.ids !== ids) {
    list.dataset.ids = ids;
    list.replaceChildren(...remedies.map(({ id }) => standing(id, withUndo)));
  }
  remedies.forEach((remedy, i) => {
    const app = remedy.app === ALL ? "all" : remedy.app;
    const limit = remedy.local_cache ? "reads answered from memory" : `at most ${remedy.rate}`;
    const done = remedy.local_cache ? `answered ${count(remedy.answered)}` : `refused ${count(remedy.refused)}`;
    const words = `remedy ${remedy.id}: ${remedy.key} ${limit} for ${app}, until ${clock(remedy.until)} (${remedy.because}); ${done}`;
    const [line] = list.children[i].children;
    put(line, words);
  });
}

/**
 * @param {number} id
 * @param {boolean} withUndo
 */
function standing(id, withUndo) {
  const words = make("span");
  if (!withUndo) return make("li", {}, words);
  const undo = make("button", { type: "button" }, "Undo");
  undo.addEventListener("click", () => tell(() => ask("DELETE", `/remedies/${id}`), () => `Remedy ${id} is undone.`));
  return make("li", {}, words, undo);
}

/**
 * Do something, and show its result.
 * @template Told
 * @param {() => Promise<Told>} work
 * @param {(told: Told) => string} words
 */
async function tell(work, words) {
  const told = byId("remedy-told");
  try {
    put(told, words(await work()));
    return true;
  } catch (error) {
    put(told, `Failed: ${error instanceof Error ? error.message : error}`);
    return false;
  }
}

export class RemedyForm {
  constructor() {
    this.key = "";
    this.route = "";
    /** @type {Incident | undefined} */
    this.incident = undefined;
    this.form = byId("remedy-form");
    this.doIt = byId("remedy-do");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.tryIt();
    });
    this.form.addEventListener("input", () => this.changed());
    this.doIt.addEventListener("click", () => this.put());
  }

  /**
   * Show the form for a key and its incident, if there is one.
   * @param {string} key
   * @param {string} route
   * @param {Limit} limit
   * @param {string[]} apps
   * @param {Incident} [incident]
   */
  open(key, route, limit, apps, incident) {
    this.key = key;
    this.route = route;
    this.incident = incident;
    byId("remedy-app").replaceChildren(...[...apps, ALL].map((app) => make("option", { value: app }, app)));
    byId("remedy-app").value = apps.includes(limit.app) ? limit.app : ALL;
    byId("remedy-rate").value = limit.rate;
    byId("remedy-because").value = incident?.id ?? "";
    put(byId("remedy-told"), "");
    this.changed();
  }

  /** Another limit has another effect: it must be shown first. */
  changed() {
    mark(this.doIt, "disabled", "");
  }

  order() {
    // An incident knows its key even if the policy hides it.
    const which = this.incident ? { incident: this.incident.id } : { key: this.key, route: this.route };
    /** @param {"app" | "rate" | "for" | "because"} name */
    const value = (name) => byId(`remedy-${name}`).value.trim();
    return { ...which, app: value("app"), rate: value("rate"), for: value("for"), because: value("because") };
  }

  async tryIt() {
    const order = this.order();
    /** @param {{ effect: Effect }} told */
    const words = ({ effect }) =>
      `In the last minute it was used ${rate(effect.used)}; this would have refused ${rate(effect.refused)}.`;
    if (await tell(() => ask("POST", "/remedies", { ...order, dry_run: true }), words)) mark(this.doIt, "disabled", false);
  }

  async put() {
    this.changed();
    /** @param {Remedy} remedy */
    const words = ({ id, until }) => `Remedy ${id} is in force until ${clock(until)}.`;
    await tell(() => ask("POST", "/remedies", this.order()), words);
  }
}
