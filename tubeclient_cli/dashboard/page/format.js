// Numbers, times and elements.

const whole = new Intl.NumberFormat("en");
const SIGNS = { OK: "✓", WARN: "!", REWIND: "↺", STALL: "‖", STOP: "■", UNKNOWN: "?" };

export const count = (number) => (number === null || number === undefined ? "unknown" : whole.format(number));

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "unknown";
  return perSecond >= 10 || perSecond === 0 ? whole.format(Math.round(perSecond)) : perSecond.toFixed(2);
}

export function brief(number) {
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(number) >= size) return `${+(number / size).toPrecision(3)} ${letter}`;
  }
  return `${+number.toPrecision(3)}`;
}

export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

const two = (number) => String(number).padStart(2, "0");

// In the reader's zone, as 2026-11-23 10:31:05; without the date if it is today's.
export function moment(ms, now) {
  const at = new Date(ms);
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (at.toDateString() === new Date(now).toDateString()) return clock;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}`;
}

// An element. Texts are never parsed as HTML: names of topics and errors come from elsewhere.
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "for") made.setAttribute(name, value);
    else if (name === "key") made.dataset.key = value;
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function verdict(word) {
  const sign = element("span", { "aria-hidden": "true" }, `${SIGNS[word] ?? "?"} `);
  return element("span", { className: `verdict ${word}` }, sign, word);
}
