// A limit on one key, or a local cache for it: first its effect on the last minute, then in force, then undone. It needs the token.

import { byId, make, mark, put } from "./dom.js";
import { bothNames, clock, count, rate } from "./format.js";
import { authorization } from "./stream.js";

/** @import { Choice, Effect, Incident, Kind, Remedy } from "./types.d.ts" */

const ALL = "all";
const USUAL_TIME = { cache: "2h", cap: "30m" };
const DOES = {
  cache: "Keyrail answers reads of this key for all clients. Nobody is refused anything, and a client reads its own writes.",
  cap: "Commands with this key over the limit are refused.",
};

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
    const limit = { cache: "reads answered from memory", cap: `at most ${remedy.rate}`, refuse: "refused", close: "refused and closed" }[remedy.action];
    const what = remedy.key !== null ? bothNames(remedy.key, remedy.tenant) : [remedy.command ?? "all commands", remedy.client ? `of client ${remedy.client}` : ""].filter(Boolean).join(" ");
    const done = remedy.local_cache ? `answered ${count(remedy.answered)}` : `refused ${count(remedy.refused)}`;
    const words = `remedy ${remedy.id}: ${what} ${limit} for ${app}, until ${clock(remedy.until)} (${remedy.because}); ${done}`;
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
  /** @param {() => void} onKind another kind of remedy is chosen */
  constructor(onKind) {
    /** @type {Kind} */
    this.kind = "cap";
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
    byId("remedy-kinds").addEventListener("change", ({ target }) => {
      if (target instanceof HTMLInputElement) this.choose(/** @type {Kind} */ (target.value));
      onKind();
    });
  }

  /**
   * Show the form for a key and its incident, if there is one.
   * @param {string} key
   * @param {string} route
   * @param {Choice} choice
   * @param {string[]} apps
   * @param {Incident} [incident]
   */
  open(key, route, { kinds, limit }, apps, incident) {
    this.key = key;
    this.route = route;
    this.incident = incident;
    byId("remedy-app").replaceChildren(...[...apps, ALL].map((app) => make("option", { value: app }, app)));
    byId("remedy-app").value = apps.includes(limit.app) ? limit.app : ALL;
    byId("remedy-rate").value = limit.rate;
    byId("remedy-because").value = incident?.id ?? "";
    put(byId("remedy-told"), "");
    this.offer(kinds);
  }

  /**
   * The advised kind comes first.
   * @param {Kind[]} kinds
   */
  offer(kinds) {
    const list = byId("remedy-kinds");
    list.hidden = kinds.length < 2;
    for (const kind of kinds) {
      const choice = /** @type {HTMLInputElement} */ (list.querySelector(`[value="${kind}"]`));
      choice.checked = kind === kinds[0];
      if (choice.parentElement) list.append(choice.parentElement);
    }
    this.choose(kinds[0]);
  }

  /** @param {Kind} kind */
  choose(kind) {
    this.kind = kind;
    byId("remedy-limit").hidden = kind === "cache";
    byId("remedy-limit").disabled = kind === "cache";
    byId("remedy-for").value = USUAL_TIME[kind];
    put(byId("remedy-does"), DOES[kind]);
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
    const what = this.kind === "cache" ? { local_cache: true } : { app: value("app"), rate: value("rate") };
    return { ...which, ...what, for: value("for"), because: value("because") };
  }

  async tryIt() {
    const order = this.order();
    /** @param {{ effect: Effect }} told */
    const words = ({ effect }) => {
      const would = this.kind === "cache" ? `${rate(effect.reads)} of this only read it.` : `this would have refused ${rate(effect.refused)}.`;
      return `In the last minute it was used ${rate(effect.used)}; ${would}`;
    };
    if (await tell(() => ask("POST", "/remedies", { ...order, dry_run: true }), words)) mark(this.doIt, "disabled", false);
  }

  async put() {
    this.changed();
    /** @param {Remedy} remedy */
    const words = ({ id, until }) => `Remedy ${id} is in force until ${clock(until)}.`;
    await tell(() => ask("POST", "/remedies", this.order()), words);
  }
}
