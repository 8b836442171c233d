// A table that stays the same table while its figures change: rows are kept by their id, moved as little as can be, and
// the focus stays.

import { make, mark, put, putKey, putLong } from "./dom.js";

/** @import { Cell, Column } from "./types.d.ts" */

/** @template Row */
export class Table {
  /**
   * @param {HTMLTableElement} element
   * @param {Column<NoInfer<Row>>[]} columns
   * @param {object} options
   * @param {(row: NoInfer<Row>) => string} options.id
   * @param {string} options.empty the text without rows; before the first rows it shows none, since nothing is known
   * @param {Record<string, (row: NoInfer<Row>) => boolean>} [options.mark] `data-` attributes of rows
   */
  constructor(element, columns, { id, empty, mark: marks = {} }) {
    this.columns = columns;
    this.id = id;
    this.marks = marks;
    /** @type {Map<string, { element: HTMLTableRowElement, fill: ((row: Row) => void)[] }>} */
    this.rows = new Map();
    /** @type {{ column: Column<Row>, way: "ascending" | "descending" } | null} */
    this.order = null;
    /** @type {Row[]} */
    this.last = [];
    this.heads = columns.map((column) => this.head(column));
    this.body = make("tbody");
    this.none = make("tr", { class: "none" }, make("td", { colspan: columns.length }, empty));
    element.replaceChildren(make("thead", {}, make("tr", {}, ...this.heads)), this.body);
  }

  /** @param {Column<Row>} column */
  head(column) {
    const head = make("th", { scope: "col", class: classes(column) });
    if (column.hint) head.title = column.hint;
    if (!column.sort) {
      head.append(column.label);
      return head;
    }
    const button = make("button", { type: "button" }, column.label);
    button.addEventListener("click", () => this.sortBy(column));
    head.append(button);
    return head;
  }

  /**
   * By this column, the other way round, and then as it was.
   * @param {Column<Row>} column
   */
  sortBy(column) {
    const first = column.kind === "text" ? "ascending" : "descending";
    const second = first === "ascending" ? "descending" : "ascending";
    if (this.order?.column !== column) this.order = { column, way: first };
    else if (this.order.way === first) this.order = { column, way: second };
    else this.order = null;
    for (const [i, head] of this.heads.entries()) mark(head, "aria-sort", this.columns[i] === this.order?.column && this.order.way);
    this.show(this.last);
  }

  /** @param {Row[]} rows */
  show(rows) {
    this.last = rows;
    const focused = document.activeElement;
    const shown = new Map(identified(this.sorted(rows), this.id));
    for (const [id, row] of this.rows) {
      if (!shown.has(id)) {
        row.element.remove();
        this.rows.delete(id);
      }
    }
    let place = 0;
    for (const [id, row] of shown) {
      const known = this.rows.get(id) ?? this.add(id);
      for (const fill of known.fill) fill(row);
      for (const [name, value] of Object.entries(this.marks)) mark(known.element, `data-${name}`, value(row));
      if (this.body.children[place] !== known.element) this.body.insertBefore(known.element, this.body.children[place] ?? null);
      place += 1;
    }
    if (shown.size) this.none.remove();
    else this.body.append(this.none);
    if (focused instanceof HTMLElement && focused !== document.activeElement && this.body.contains(focused)) focused.focus({ preventScroll: true });
  }

  /** @param {string} id */
  add(id) {
    const cells = this.columns.map((column, i) =>
      i === 0 ? make("th", { scope: "row", class: classes(column) }) : make("td", { class: classes(column) }));
    const known = {
      element: make("tr", {}, ...cells),
      fill: this.columns.map((column, i) => column.cell(cells[i])),
    };
    this.rows.set(id, known);
    return known;
  }

  /** @param {Row[]} rows */
  sorted(rows) {
    const { column, way } = this.order ?? {};
    const sort = column?.sort;
    if (!sort) return rows;
    const sign = way === "ascending" ? 1 : -1;
    return rows.toSorted((a, b) => {
      const [first, second] = [sort(a), sort(b)];
      if (first === null || second === null) return Number(first === null) - Number(second === null);
      return sign * (typeof first === "string" ? first.localeCompare(String(second)) : first - Number(second));
    });
  }
}

/** @param {{ kind?: string, from?: number }} column */
const classes = ({ kind = "text", from = 0 }) => (from ? `${kind} from-${from}` : kind);

/**
 * Rows with ids that differ: where keys are shown by their shape alone, several look the same.
 * @template Row
 * @param {Row[]} rows
 * @param {(row: Row) => string} id
 * @returns {[string, Row][]}
 */
export function identified(rows, id) {
  const seen = new Map();
  return rows.map((row) => {
    const name = id(row);
    const before = seen.get(name) ?? 0;
    seen.set(name, before + 1);
    return [before ? `${name}\n${before}` : name, row];
  });
}

// Cells of the usual kinds

/**
 * @template Row
 * @param {(row: Row) => string} value
 * @returns {Cell<Row>}
 */
export const text = (value) => (cell) => (row) => put(cell, value(row));

/**
 * @template Row
 * @param {(row: Row) => string} value
 * @returns {Cell<Row>}
 */
export const long = (value, name = "long") => (cell) => {
  const inner = make("span", { class: name });
  cell.append(inner);
  return (row) => putLong(inner, value(row));
};

/**
 * @template Row
 * @param {(row: Row) => string} key
 * @returns {Cell<Row>}
 */
export const longKey = (key) => (cell) => {
  const inner = make("span", { class: "long key" });
  cell.append(inner);
  return (row) => putKey(inner, key(row));
};

/**
 * @template Row
 * @param {(row: Row) => string} value
 * @param {(row: Row) => string} kind
 * @returns {Cell<Row>}
 */
export const tag = (value, kind) => (cell) => {
  const inner = make("span", { class: "tag" });
  cell.append(inner);
  return (row) => {
    put(inner, value(row));
    mark(inner, "data-kind", kind(row));
  };
};
