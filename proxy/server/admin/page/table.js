// A table that stays the same table while its figures change: rows are kept by their id, moved as little as can be, and
// what has the focus keeps it.

import { make, mark, put, putLong } from "./dom.js";

/** Columns say what they show. {
 *    label, hint,
 *    kind: "number" or "text",
 *    from: 0 (always), or the width in pixels that the panel must have for it; page.css knows which there are,
 *    sort: row => number or text (the header becomes a button),
 *    cell: (td) => (row) => void (builds the cell once and returns what fills it)
 *  } */
export class Table {
  constructor(element, columns, { id, empty, mark: marks = {} }) {
    Object.assign(this, { columns, id, marks, rows: new Map(), order: null, last: [] });
    this.heads = columns.map((column) => this.head(column));
    this.body = make("tbody");
    this.none = make("tr", { class: "none" }, make("td", { colspan: columns.length }, empty));
    element.replaceChildren(make("thead", {}, make("tr", {}, ...this.heads)), this.body);
    this.show([]);
  }

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

  /** By this column, the other way round, and then as it was. */
  sortBy(column) {
    const first = column.kind === "text" ? "ascending" : "descending";
    const second = first === "ascending" ? "descending" : "ascending";
    if (this.order?.column !== column) this.order = { column, way: first };
    else if (this.order.way === first) this.order = { column, way: second };
    else this.order = null;
    this.heads.forEach((head, i) => mark(head, "aria-sort", this.columns[i] === this.order?.column && this.order.way));
    this.show(this.last);
  }

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
      known.fill.forEach((fill) => fill(row));
      for (const [name, value] of Object.entries(this.marks)) mark(known.element, `data-${name}`, value(row));
      if (this.body.children[place] !== known.element) this.body.insertBefore(known.element, this.body.children[place] ?? null);
      place += 1;
    }
    if (shown.size) this.none.remove();
    else this.body.append(this.none);
    if (focused !== document.activeElement && this.body.contains(focused)) focused.focus({ preventScroll: true });
  }

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

  sorted(rows) {
    if (!this.order) return rows;
    const { column, way } = this.order;
    const sign = way === "ascending" ? 1 : -1;
    return rows.toSorted((a, b) => {
      const [first, second] = [column.sort(a), column.sort(b)];
      if (first === null || second === null) return (first === null) - (second === null);
      return sign * (typeof first === "string" ? first.localeCompare(second) : first - second);
    });
  }
}

const classes = ({ kind = "text", from = 0 }) => (from ? `${kind} from-${from}` : kind);

/** Rows with ids that differ: where keys are shown by their shape alone, several look the same. */
export function identified(rows, id) {
  const seen = new Map();
  return rows.map((row) => {
    const name = id(row);
    const before = seen.get(name) ?? 0;
    seen.set(name, before + 1);
    return [before ? `${name}\n${before}` : name, row];
  });
}

/** Cells of the usual kinds. */
export const text = (value) => (cell) => (row) => put(cell, value(row));
export const long = (value, name = "long") => (cell) => {
  const inner = make("span", { class: name });
  cell.append(inner);
  return (row) => putLong(inner, value(row));
};
export const tag = (value, kind) => (cell) => {
  const inner = make("span", { class: "tag" });
  cell.append(inner);
  return (row) => {
    put(inner, value(row));
    mark(inner, "data-kind", kind(row));
  };
};
