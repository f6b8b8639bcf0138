// Tables that sort by a click or a key on a column's head.

import { element } from "./format.js";

// columns: {name, title, number, text, cell(row) -> text or element, value(row) -> what it sorts by}
export class SortedTable {
  constructor(place, caption, columns, { tall = false, empty = "nothing", isChosen = () => false } = {}) {
    this.columns = columns;
    this.rows = [];
    this.sortedBy = null;
    this.downwards = false;
    this.isChosen = isChosen;
    this.empty = element("p", { className: "empty" }, empty);
    this.body = element("tbody");
    this.heads = columns.map((column) => {
      const button = element("button", { type: "button" }, column.title);
      button.addEventListener("click", () => this.sort(column));
      return element("th", { scope: "col", className: column.number ? "number" : "" }, button);
    });
    const head = element("thead", {}, element("tr", {}, ...this.heads));
    this.table = element("table", { "aria-label": caption }, head, this.body);
    place.className = tall ? "scroll tall" : "scroll";
    // A region that scrolls can be reached by keyboard.
    place.tabIndex = 0;
    place.setAttribute("role", "region");
    place.setAttribute("aria-label", caption);
    place.replaceChildren(this.table, this.empty);
    this.place = place;
    place.addEventListener("scroll", () => this.hint(), { passive: true });
    const resized = new ResizeObserver(() => this.hint());
    resized.observe(place);
    resized.observe(this.table);
  }

  // Phones show no scroll bar: the edge fades where columns go on behind it.
  hint() {
    const { scrollLeft, clientWidth, scrollWidth } = this.place;
    this.place.classList.toggle("before", scrollLeft > 1);
    this.place.classList.toggle("after", scrollLeft + clientWidth < scrollWidth - 1);
  }

  sort(column) {
    this.downwards = this.sortedBy === column ? !this.downwards : Boolean(column.number);
    this.sortedBy = column;
    this.draw();
  }

  show(rows) {
    this.rows = rows;
    this.draw();
  }

  draw() {
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    let rows = [...this.rows];
    if (this.sortedBy !== null) {
      const value = this.sortedBy.value ?? ((row) => row[this.sortedBy.name]);
      rows.sort((a, b) => compare(value(a), value(b)) * (this.downwards ? -1 : 1));
    }
    this.heads.forEach((head, index) => {
      const sorted = this.columns[index] === this.sortedBy;
      const sign = !sorted ? "" : this.downwards ? " ↓" : " ↑";
      head.firstChild.textContent = this.columns[index].title + sign;
      if (sorted) head.setAttribute("aria-sort", this.downwards ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.body.replaceChildren(...rows.map((row) => this.row(row)));
    this.table.hidden = rows.length === 0;
    this.empty.hidden = rows.length !== 0;
    if (focused !== undefined) {
      [...this.body.querySelectorAll("[data-key]")].find((found) => found.dataset.key === focused)?.focus();
    }
  }

  row(row) {
    const cells = this.columns.map((column) => {
      const kind = column.number ? "number" : column.text ? "text" : column.wide ? "name" : "";
      return element("td", { className: kind }, column.cell(row));
    });
    return element("tr", { className: this.isChosen(row) ? "chosen" : "" }, ...cells);
  }
}

// Unknown values count as the highest: they may be the worst.
function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
