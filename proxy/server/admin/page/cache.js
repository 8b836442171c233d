// What the local cache does; nothing while no rule is about it.

import { byId, put, putFacts } from "./dom.js";
import { byteRate, bytes, count, rate, share, span } from "./format.js";

/** @import { FromMemory, LocalCache } from "./types.d.ts" */

/** @param {FromMemory} figures */
const saved = (figures) => `${share(figures.saved_redis_seconds)} of a core`;

/** @param {LocalCache} cache */
export function showCache(cache) {
  byId("cache").hidden = cache.rules.length === 0;
  put(byId("cache-note"), `${cache.rules.join(", ")}; last ${span(cache.window)}`);
  const { enforce: does, audit: would } = cache;
  /** @type {[string, string, string?][]} */
  const audited = would.hits ? [
    ["Would have answered", rate(would.hits), "Rules that do not enforce: Redis has answered"],
    ["Would have saved Redis", saved(would), "CPU time, an estimate"],
    ["Would have sent", byteRate(would.bytes)],
  ] : [];
  /** @type {[string, string, string?][]} */
  const off = cache.off ? [["Off", `${cache.off} without a connection`, "Databases of workers that have no connection for invalidations: Redis answers all their reads"]] : [];
  putFacts(byId("cache-facts"), [
    ...off,
    ["Answered from memory", rate(does.hits)],
    ["Hit", share(cache.hit_ratio), "Reads of cached keys whose reply was in memory"],
    ["Redis CPU saved", saved(does), "An estimate, from the time that Redis takes for a command"],
    ["Sent from memory", byteRate(does.bytes)],
    ...audited,
    ["Replies", count(cache.entries)],
    ["Memory", `${bytes(cache.memory_bytes)} of ${bytes(cache.memory_limit_bytes)}`, "Of all rules and workers"],
    ["Mean age", cache.mean_age === null ? "–" : `${cache.mean_age.toFixed(cache.mean_age < 10 ? 1 : 0)} s`, "Of the replies that were sent"],
    ["Misses", rate(cache.misses)],
    ["Fills", cache.fills_in_vain ? `${rate(cache.fills)}, ${rate(cache.fills_in_vain)} in vain` : rate(cache.fills), "Replies fetched; in vain if the key changed meanwhile"],
    ["Invalidations", rate(cache.invalidations), "Keys that Redis said have changed"],
    ["Evictions", rate(cache.evictions), "Replies that left for lack of room"],
  ]);
}
