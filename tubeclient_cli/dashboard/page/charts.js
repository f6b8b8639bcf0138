// Two lines over time, drawn by uPlot.

import { brief, count, rate } from "./format.js";

const HEIGHT = 170;
const SYNC = "tubeclient";

export class Chart {
  constructor(place, name, text) {
    this.place = place;
    this.name = name;
    this.text = text;
    this.plot = null;
    this.data = [[], []];
    new ResizeObserver(() => this.resize()).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(atMs, values) {
    this.data = [atMs.map((ms) => ms / 1000), values];
    const known = values.filter((value) => value !== null);
    const says = known.length === 0
      ? "not known yet"
      : `newest ${this.text(known.at(-1))}, highest ${this.text(Math.max(...known))}, lowest ${this.text(Math.min(...known))}`;
    this.place.setAttribute("aria-label", `${this.name} over time: ${says}`);
    this.place.classList.toggle("unknown", known.length === 0);
    if (this.plot === null) this.draw();
    else this.plot.setData(this.data);
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot !== null && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  draw() {
    this.plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false } };
    const options = {
      width: this.place.clientWidth || 300,
      height: HEIGHT,
      padding: [8, 30, 0, 0],
      cursor: { sync: { key: SYNC }, drag: { x: false, y: false } },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [
        { ...axis, size: 34, space: 80, values: (_, ticks) => timeTicks(ticks) },
        { ...axis, size: 62, values: (_, ticks) => ticks.map(brief) },
      ],
      series: [
        { label: "at", value: (_, at) => (at === null ? "–" : new Date(at * 1000).toLocaleString()) },
        {
          label: this.name,
          stroke: colour("accent"),
          fill: `color-mix(in srgb, ${colour("accent")} 12%, transparent)`,
          width: 2,
          spanGaps: false,
          points: { show: this.data[0].length < 60, size: 5 },
          value: (_, value) => (value === null ? "–" : this.text(value)),
        },
      ],
    };
    this.plot = new uPlot(options, this.data, this.place);
  }
}

function timeTicks(ticks) {
  const far = ticks.length > 1 && ticks.at(-1) - ticks[0] > 86400;
  const close = ticks.length > 1 && ticks[1] - ticks[0] < 60;
  const two = (number) => String(number).padStart(2, "0");
  return ticks.map((second) => {
    if (second % 1 !== 0) return "";
    const at = new Date(second * 1000);
    if (far) return `${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
    return `${two(at.getHours())}:${two(at.getMinutes())}${close ? `:${two(at.getSeconds())}` : ""}`;
  });
}

export const lagChart = (place) => new Chart(place, "messages behind", count);
export const rateChart = (place) => new Chart(place, "messages per second", rate);
