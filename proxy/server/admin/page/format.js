// Numbers as people read them: three digits are enough, and an unknown value is a dash.

/** @import { Client, Tenant } from "./types.d.ts" */

const NONE = "–";

/**
 * @param {number} value
 * @param {number} step
 * @param {string[]} units
 */
function scaled(value, step, units) {
  let i = 0;
  while (value >= step * 0.9995 && i < units.length - 1) {
    value /= step;
    i += 1;
  }
  const digits = value >= 99.95 || (i === 0 && Number.isInteger(value)) ? 0 : value >= 9.995 ? 1 : 2;
  return [i === 0 && value >= 9.995 ? value.toFixed(0) : trimmed(value.toFixed(digits)), units[i]];
}

/** @param {string} text */
const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

/** @param {number | null | undefined} value */
export function count(value) {
  if (value === null || value === undefined) return NONE;
  const [number, unit] = scaled(value, 1000, ["", "k", "M", "G"]);
  return number + unit;
}

/** @param {number | null | undefined} value */
export const rate = (value) => (value === null || value === undefined ? NONE : `${count(value)}/s`);

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  return scaled(value, 1000, ["B", "KB", "MB", "GB", "TB"]).join(" ");
}

/** @param {number | null | undefined} value */
export const byteRate = (value) => (value === null || value === undefined ? NONE : `${bytes(value)}/s`);

/** @param {number | null | undefined} value */
export function share(value) {
  if (value === null || value === undefined) return NONE;
  const percent = value * 100;
  if (percent > 0 && percent < 0.1) return "<0.1 %";
  return `${percent >= 9.95 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

/** @param {number | null | undefined} value */
export function milliseconds(value) {
  if (value === null || value === undefined) return NONE;
  if (value > 0 && value < 0.01) return "<0.01 ms";
  if (value >= 999.5) return `${(value / 1000).toFixed(value >= 9995 ? 0 : 1)} s`;
  return `${value >= 9.95 ? value.toFixed(0) : value >= 0.995 ? value.toFixed(1) : value.toFixed(2)} ms`;
}

/** @param {string | Date | null | undefined} moment */
export const clock = (moment) =>
  moment ? new Date(moment).toLocaleTimeString([], { hour12: false }) : NONE;

/** @param {number | null} seconds */
export function span(seconds) {
  if (seconds === null) return NONE;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

const WINDOWS = new Map([[5, "5 seconds"], [10, "10 seconds"], [60, "minute"], [600, "10 minutes"], [3600, "hour"]]);

/** @param {number} seconds */
export const windowName = (seconds) => WINDOWS.get(seconds) ?? `${seconds} s`;

/**
 * A key, also where its name is empty.
 * @param {string} key
 */
export const keyName = (key) => (key === "" ? '""' : key);

/**
 * The name that its tenant knows, and the tenant; empty for a key of none.
 * @param {Tenant | null | undefined} tenant
 */
export const tenantName = (tenant) => (tenant ? `${keyName(tenant.key)} of ${tenant.app ? `tenant ${tenant.app}` : "a tenant"}` : "");

/**
 * A key with both of its names.
 * @param {string} key
 * @param {Tenant | null} [tenant]
 */
export const bothNames = (key, tenant) => (tenant ? `${keyName(key)} (${tenantName(tenant)})` : keyName(key));

/**
 * A client in a few words: its app where the policy knows one, else its name, user or address.
 * @param {Partial<Client>} client
 */
export function who(client) {
  if (client.app && client.app !== "unknown") return client.app;
  if (client.client_name) return client.client_name;
  return client.user && client.user !== "default" ? client.user : client.address ?? "";
}
