// Lines over time, sparklines, bars, and the heat map of slots. All of it is SVG that scales with its place.

import { draw, make, mark, put } from "./dom.js";
import { clock, share } from "./format.js";
import { COLOURS, ownerOf } from "./nodes.js";

/** @import { ChartOptions, ClusterNode, Line, Past } from "./types.d.ts" */

const WIDTH = 300;
const HEIGHT = 60;

/**
 * Points as a path; null is a gap.
 * @param {([number, number] | null)[]} points
 */
function line(points) {
  let path = "";
  let pen = "M";
  for (const point of points) {
    if (point === null) {
      pen = "M";
      continue;
    }
    path += `${pen}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    pen = "L";
  }
  return path;
}

/**
 * The same, filled down to the ground; made of one piece.
 * @param {([number, number] | null)[]} points
 */
function area(points) {
  const known = points.filter((point) => point !== null);
  const [first, last] = [known[0], known.at(-1)];
  if (!last || first === last) return "";
  return `${line(known)}L${last[0].toFixed(1)} ${HEIGHT}L${first[0].toFixed(1)} ${HEIGHT}Z`;
}

/**
 * The next round number: 1, 2, 5, 10, 20 …
 * @param {number} value
 */
function ceiling(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * ([1, 2, 5].find((step) => step * unit >= value * 0.999) ?? 10);
}

/**
 * A figure with its newest value in large, and one or two lines over the last minutes.
 * @template {{ time: number }} Second
 */
export class Chart {
  /** @param {ChartOptions<Second>} options */
  constructor({ title, hint, format, lines, least }) {
    this.format = format;
    this.lines = lines;
    this.least = least;
    /** @type {Second[]} */
    this.seconds = [];
    this.from = 0;
    this.reach = 0;
    /** @type {number | null} */
    this.pointed = null;
    this.value = make("strong");
    this.others = lines.slice(1).map(({ value }) => ({ value, shown: make("b") }));
    this.top = make("span", { class: "top" });
    this.left = make("span");
    this.right = make("span", {}, "now");
    this.fill = draw("path", { class: "fill" });
    this.paths = lines.map((_, i) => draw("path", { class: `line line-${i}` }));
    this.cursor = draw("path", { class: "cursor", d: "" });
    this.picture = draw(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      draw("path", { class: "grid", d: `M0 0H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}` }),
      this.fill, ...this.paths.toReversed(), this.cursor,
    );
    this.element = make(
      "figure",
      { title: hint },
      make("figcaption", {}, title),
      make("p", { class: "values" }, this.value, ...this.others.map(({ shown }, i) => make("span", { class: "second" }, lines[i + 1].label, " ", shown))),
      make("div", { class: "plot" }, this.picture, this.top),
      make("p", { class: "axis" }, this.left, this.right),
    );
    this.picture.addEventListener("pointermove", (event) => this.point(event));
    this.picture.addEventListener("pointerleave", () => this.point(null));
  }

  /**
   * Show these seconds, the oldest first; each has `time` in milliseconds.
   * @param {Second[]} seconds
   */
  show(seconds) {
    this.seconds = seconds;
    const newest = seconds.at(-1)?.time ?? 0;
    const reach = Math.min(600e3, Math.max(60e3, newest - (seconds[0]?.time ?? 0)));
    this.from = newest - reach;
    this.reach = reach;
    const shown = seconds.filter((second) => second.time >= this.from);
    const most = Math.max(0, ...shown.flatMap((second) => this.lines.map(({ value }) => value(second) ?? 0)));
    const top = ceiling(Math.max(most, this.least));
    this.lines.forEach(({ value }, i) => {
      const points = shown.map((second) => this.place(second, value, top));
      mark(this.paths[i], "d", line(points));
      if (i === 0) mark(this.fill, "d", area(points));
    });
    put(this.top, this.format(top));
    this.tell();
  }

  /**
   * @param {Second} second
   * @param {Line<Second>["value"]} value
   * @param {number} top
   * @returns {[number, number] | null}
   */
  place(second, value, top) {
    const known = value(second);
    return known === null ? null : [((second.time - this.from) / this.reach) * WIDTH, HEIGHT * (1 - known / top)];
  }

  /** @param {PointerEvent | null} event */
  point(event) {
    if (event === null || !this.seconds.length) {
      this.pointed = null;
    } else {
      const box = this.picture.getBoundingClientRect();
      this.pointed = this.from + ((event.clientX - box.left) / box.width) * this.reach;
    }
    this.tell();
  }

  /** The newest values, or those where the pointer is. */
  tell() {
    const { pointed, seconds } = this;
    const second = pointed === null ? seconds.at(-1) : seconds.reduce((best, each) =>
      Math.abs(each.time - pointed) < Math.abs(best.time - pointed) ? each : best);
    /** @param {Line<Second>["value"]} value */
    const text = (value) => (second ? this.format(value(second)) : "–");
    put(this.value, text(this.lines[0].value));
    for (const { value, shown } of this.others) put(shown, text(value));
    const x = pointed === null || !second ? null : ((second.time - this.from) / this.reach) * WIDTH;
    mark(this.cursor, "d", x === null ? "" : `M${x.toFixed(1)} 0V${HEIGHT}`);
    const minutes = this.reach >= 90e3 ? `${Math.round(this.reach / 60e3)} min ago` : "1 min ago";
    put(this.left, pointed === null || !second ? minutes : clock(new Date(second.time)));
    put(this.right, "now");
  }
}

/**
 * A small line without figures; show(points) draws those of the last so many milliseconds, the newest last.
 * @param {number} reach
 */
export function sparkline(reach) {
  const fill = draw("path", { class: "fill" });
  const path = draw("path", { class: "line line-0" });
  const element = draw(
    "svg",
    { class: "spark", viewBox: `0 -2 ${WIDTH} ${HEIGHT + 3}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    fill, path,
  );
  /** @param {Past[]} past */
  const show = (past) => {
    const newest = past.at(-1)?.time ?? 0;
    const shown = past.filter(({ time }) => newest - time <= reach);
    const top = Math.max(1, ...shown.map(({ rate }) => rate));
    /** @type {[number, number][]} */
    const points = shown.map(({ time, rate }) => [WIDTH * (1 - (newest - time) / reach), HEIGHT * (1 - rate / top)]);
    mark(path, "d", line(points));
    mark(fill, "d", area(points));
  };
  return { element, show };
}

/** A horizontal bar; show(part, second) are parts of the whole. */
export function bar(kind = "") {
  const first = make("i");
  const second = make("i");
  const element = make("span", { class: `meter ${kind}`, "aria-hidden": "true" }, first, second);
  /** @param {number} part */
  const show = (part, other = 0) => {
    first.style.width = `${(Math.min(1, part) * 100).toFixed(2)}%`;
    second.style.width = `${(Math.min(1, other) * 100).toFixed(2)}%`;
  };
  return { element, show };
}

const EACH = 16384 / 256; // slots of a cell
const COLUMNS = 32;
const CALM = 6 / 256; // a cell with so much is at least needed for the full colour: even traffic stays pale

/**
 * A cell for each 64 slots, in rows from left to right.
 * @param {string} kind
 */
const cells = (kind) => Array.from({ length: 256 }, (_, i) => {
  const place = { x: (i % COLUMNS) * 10 + 0.5, y: Math.floor(i / COLUMNS) * 10 + 0.5 };
  return draw("rect", { ...place, width: 9, height: 9, rx: 1.5, class: kind });
});

/** The heat map of the hash slots: 256 cells of 64 slots each. */
export class Heat {
  /** @param {Element} element */
  constructor(element) {
    /** @type {number[]} */
    this.shares = new Array(256).fill(0);
    /** @type {ClusterNode[]} */
    this.nodes = [];
    this.hot = cells("warm");
    this.ground = cells("cell");
    this.picture = draw("svg", { viewBox: "0 0 320 80", role: "img" }, ...this.ground, ...this.hot);
    this.readout = make("p", { class: "readout" });
    this.legend = make("ul", { class: "legend" });
    element.append(this.picture, this.readout, this.legend);
    /** @type {number | null} */
    this.pointed = null;
    this.picture.addEventListener("pointermove", (event) => {
      const box = this.picture.getBoundingClientRect();
      const column = Math.min(COLUMNS - 1, Math.floor(((event.clientX - box.left) / box.width) * COLUMNS));
      const row = Math.min(7, Math.floor(((event.clientY - box.top) / box.height) * 8));
      this.pointed = Math.max(0, row) * COLUMNS + Math.max(0, column);
      this.tell();
    });
    this.picture.addEventListener("pointerleave", () => {
      this.pointed = null;
      this.tell();
    });
  }

  /**
   * @param {number[]} shares
   * @param {ClusterNode[]} nodes of a cluster, to whom the slots belong
   */
  show(shares, nodes) {
    this.shares = shares;
    this.nodes = nodes;
    this.showNodes();
    const most = Math.max(CALM, ...shares);
    for (const [i, cell] of this.hot.entries()) mark(cell, "fill-opacity", Math.sqrt(shares[i] / most).toFixed(3));
    mark(this.picture, "aria-label", `Share of each 64 hash slots. ${this.sentence(this.hottest())}`);
    this.tell();
  }

  /** The ground of each cell has the colour of the node that owns its first slot. */
  showNodes() {
    /** @type {Map<number, number>} */
    const parts = new Map();
    for (const [i, cell] of this.ground.entries()) {
      const owner = ownerOf(this.nodes, i * EACH);
      mark(cell, "data-node", owner && owner.place % COLOURS);
      if (owner) parts.set(owner.place, (parts.get(owner.place) ?? 0) + this.shares[i]);
    }
    const owners = [...parts].sort(([first], [second]) => first - second);
    while (this.legend.children.length > owners.length) this.legend.lastElementChild?.remove();
    for (const [i, [place, part]] of owners.entries()) {
      if (!this.legend.children[i]) this.legend.append(make("li", {}, make("i", { class: "swatch", "aria-hidden": "true" }), make("span")));
      const [swatch, words] = this.legend.children[i].children;
      mark(swatch, "data-node", place % COLOURS);
      put(words, `${this.nodes[place].node} ${share(part)}`);
    }
  }

  hottest() {
    return this.shares.indexOf(Math.max(...this.shares));
  }

  /** @param {number} cell */
  sentence(cell) {
    const owner = ownerOf(this.nodes, cell * EACH);
    return `Slots ${cell * EACH} to ${cell * EACH + EACH - 1}${owner ? ` of ${owner.name}` : ""}: ${share(this.shares[cell])}`;
  }

  tell() {
    const quiet = this.shares.every((each) => each === 0);
    put(this.readout, quiet ? "No keys yet" : this.pointed === null ? `Hottest: ${this.sentence(this.hottest()).toLowerCase()}` : this.sentence(this.pointed));
  }
}
