// All partitions as cells on a canvas: a darker cell (a brighter one on a dark page) is further behind.

import { element } from "./format.js";

const LABEL_HEIGHT = 22;
const GAP_BELOW = 8;

export class PartitionMap {
  constructor(canvas, by, says, legend, find) {
    Object.assign(this, { canvas, by, says, legend, find });
    this.cells = [];
    this.lines = [];
    this.cursor = null;
    by.addEventListener("change", () => this.arrange());
    canvas.addEventListener("pointermove", (event) => this.point(this.at(event.offsetX, event.offsetY)));
    canvas.addEventListener("click", () => this.cursor !== null && find(this.cells[this.cursor]));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.point(null));
    canvas.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.arrange()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // model: {runs, levels, nodes}, see map_json of the server.
  show(model) {
    this.cells = [];
    for (const [broker, topic, first, many] of model.runs) {
      for (let id = first; id < first + many; id++) {
        const index = this.cells.length;
        this.cells.push({ broker, topic, name: `${broker}:${topic}:${id}`, level: model.levels[index], node: model.nodes[index] });
      }
    }
    this.arrange();
  }

  label(cell) {
    if (this.by.value === "topic") return cell.topic;
    if (this.by.value === "node") return cell.node < 0 ? "no node" : `node ${cell.node}`;
    return `broker ${cell.broker} · ${cell.topic}`;
  }

  arrange() {
    const groups = new Map();
    this.cells.forEach((cell, index) => {
      const label = this.label(cell);
      if (!groups.has(label)) groups.set(label, []);
      groups.get(label).push(index);
    });
    const width = this.canvas.clientWidth || 300;
    const many = this.cells.length;
    this.pitch = many <= 60 ? 26 : many <= 600 ? 17 : many <= 3000 ? 11 : 8;
    const across = Math.max(1, Math.floor(width / this.pitch));
    const labels = [...groups.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    this.lines = [];
    let y = 0;
    for (const label of labels) {
      const some = groups.get(label);
      this.lines.push({ label, y, cells: [], many: some.length });
      y += LABEL_HEIGHT;
      for (let start = 0; start < some.length; start += across) {
        this.lines.push({ label: null, y, cells: some.slice(start, start + across) });
        y += this.pitch;
      }
      y += GAP_BELOW;
    }
    this.width = width;
    this.height = Math.max(1, y);
    this.canvas.style.height = `${this.height}px`;
    this.draw();
  }

  draw() {
    const dots = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * dots);
    this.canvas.height = Math.round(this.height * dots);
    const pen = this.canvas.getContext("2d");
    pen.scale(dots, dots);
    const colours = palette();
    const size = this.pitch - (this.pitch > 10 ? 2 : 1);
    pen.textBaseline = "middle";
    pen.font = "13px system-ui, sans-serif";
    for (const line of this.lines) {
      if (line.label !== null) {
        pen.fillStyle = colours.quiet;
        pen.fillText(`${line.label} (${line.many.toLocaleString("en")})`, 0, line.y + LABEL_HEIGHT / 2, this.width);
      }
      line.cells.forEach((index, column) => cell(pen, this.cells[index].level, column * this.pitch, line.y, size, colours));
    }
    this.drawCursor(pen, colours, size);
    this.drawLegend(colours);
  }

  drawCursor(pen, colours, size) {
    const line = this.lines.find((some) => some.cells.includes(this.cursor));
    if (this.cursor === null || line === undefined) return;
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 2;
    pen.strokeRect(line.cells.indexOf(this.cursor) * this.pitch - 1, line.y - 1, size + 2, size + 2);
  }

  drawLegend(colours) {
    const levels = [...new Set(this.cells.map((some) => some.level))].sort();
    this.legend.replaceChildren(...levels.map((level) => {
      const swatch = element("canvas", { width: 24, height: 24, "aria-hidden": "true" });
      const pen = swatch.getContext("2d");
      pen.scale(2, 2);
      cell(pen, level, 0, 0, 12, colours);
      return element("li", {}, swatch, levelText(level));
    }));
  }

  at(x, y) {
    const line = this.lines.find((some) => some.cells.length && y >= some.y && y < some.y + this.pitch);
    return line?.cells[Math.floor(x / this.pitch)] ?? null;
  }

  point(index) {
    if (index === this.cursor) return;
    this.cursor = index;
    const some = index === null ? null : this.cells[index];
    const node = some === null || some.node < 0 ? "no node" : `node ${some.node}`;
    this.says.textContent = some === null ? "" : `${some.name}: ${levelText(some.level)}, ${node}`;
    this.draw();
  }

  key(event) {
    const rows = this.lines.filter((line) => line.cells.length);
    const row = rows.findIndex((line) => line.cells.includes(this.cursor));
    const column = row < 0 ? 0 : rows[row].cells.indexOf(this.cursor);
    const order = rows.flatMap((line) => line.cells);
    const place = order.indexOf(this.cursor);
    const to = {
      ArrowRight: () => order[Math.min(order.length - 1, place + 1)],
      ArrowLeft: () => order[Math.max(0, place - 1)],
      ArrowDown: () => inRow(rows[Math.min(rows.length - 1, row + 1)], column),
      ArrowUp: () => inRow(rows[Math.max(0, row - 1)], column),
      Home: () => order[0],
      End: () => order.at(-1),
    }[event.key];
    if (event.key === "Enter" && this.cursor !== null) this.find(this.cells[this.cursor]);
    else if (event.key === "Escape") this.point(null);
    else if (to !== undefined && order.length > 0) {
      this.point(to());
      event.preventDefault();
    }
  }
}

const inRow = (line, column) => line.cells[Math.min(column, line.cells.length - 1)];

export function levelText(level) {
  if (level === "u") return "unknown";
  if (level === "s") return "broker does not answer";
  if (level === "0") return "nothing behind";
  if (level === "1") return "1 to 9 messages behind";
  const low = 10 ** (Number(level) - 1);
  return level === "9" ? `${low.toLocaleString("en")} or more` : `${low.toLocaleString("en")} to ${(low * 10 - 1).toLocaleString("en")}`;
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const levels = [...Array(10).keys()].map((level) => colour(`level-${level}`));
  return { levels, ink: colour("ink"), quiet: colour("quiet"), bad: colour("bad") };
}

// Unknown cells are hollow and those of silent brokers crossed out, so that no colour is needed to see them.
function cell(pen, level, x, y, size, colours) {
  if (level !== "u" && level !== "s") {
    pen.fillStyle = colours.levels[Number(level)];
    pen.fillRect(x, y, size, size);
    return;
  }
  pen.strokeStyle = level === "s" ? colours.bad : colours.quiet;
  pen.lineWidth = 1;
  pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  if (level === "s") {
    pen.beginPath();
    pen.moveTo(x, y + size);
    pen.lineTo(x + size, y);
    pen.stroke();
  }
}
