// Fetches the model and draws it. What to show is the server's decision; here is only how.

const PERIOD_MS = 5000;
const SOON_MS = 1000;
const DEADLINE_MS = 15000;
const OLD_MS = 30000;
const CHART_HEIGHT = 170;
const SIGNS = { OK: "✓", WARN: "!", REWIND: "↺", STALL: "‖", STOP: "■", UNKNOWN: "?" };

const by = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en");
const count = (number) => (number === null ? "unknown" : whole.format(number));
const rate = (perSecond) => (perSecond === null ? "unknown" : perSecond >= 10 ? count(Math.round(perSecond)) : `${perSecond}`);
const moment = (ms) => new Date(ms).toLocaleString();

function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} days`;
}

// Texts are never parsed as HTML: names of topics and errors come from elsewhere.
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const verdict = (word) => element("span", { className: `verdict ${word}` }, `${SIGNS[word] ?? "?"} ${word}`);

// columns: [title, class, cell(row) -> text or element]
function table(place, columns, rows, empty, isChosen = () => false) {
  by(place).className = "scroll tall";
  if (rows.length === 0) {
    by(place).replaceChildren(element("p", { className: "empty" }, empty));
    return;
  }
  const head = element("tr", {}, ...columns.map(([title, kind]) => element("th", { scope: "col", className: kind }, title)));
  const body = rows.map((row) => element(
    "tr", { className: isChosen(row) ? "chosen" : "" }, ...columns.map(([, kind, cell]) => element("td", { className: kind }, cell(row))),
  ));
  by(place).replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

class Chart {
  constructor(place, name, text) {
    Object.assign(this, { place: by(place), name, text, plot: null });
    new ResizeObserver(() => this.plot?.setSize({ width: this.place.clientWidth || 300, height: CHART_HEIGHT })).observe(this.place);
  }

  show(atMs, values) {
    const data = [atMs.map((ms) => ms / 1000), values];
    const known = values.filter((value) => value !== null);
    this.place.classList.toggle("unknown", known.length === 0);
    this.place.ariaLabel = known.length ? `${this.name} over time: newest ${this.text(known.at(-1))}` : `${this.name}: not known yet`;
    if (this.plot !== null) {
      this.plot.setData(data);
      return;
    }
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false } };
    const line = { label: this.name, stroke: colour("accent"), width: 2, value: (_, value) => (value === null ? "–" : this.text(value)) };
    this.plot = new uPlot({
      width: this.place.clientWidth || 300,
      height: CHART_HEIGHT,
      cursor: { sync: { key: "tubeclient" }, drag: { x: false, y: false } },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [axis, { ...axis, size: 70, values: (_, ticks) => ticks.map((tick) => whole.format(tick)) }],
      series: [{ label: "at" }, line],
    }, data, this.place);
  }
}

const lag = new Chart("lag-chart", "messages behind", count);
const speed = new Chart("rate-chart", "messages per second", rate);
let chosen = named(location.hash.slice(1));
let model = null;
let timer = null;

// The group in the address; none if somebody broke it.
function named(fragment) {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return "";
  }
}

function chooser(row) {
  const button = element("button", { type: "button" }, row.name);
  button.addEventListener("click", () => {
    chosen = row.name;
    history.replaceState(null, "", `#${encodeURIComponent(chosen)}`);
    refresh();
  });
  return button;
}

function answers(row) {
  if (row.failure !== null) return element("span", { className: "verdict STOP" }, "■ no answer");
  return row.answeredInMs === null ? "not in service" : element("span", { className: "verdict OK" }, `✓ in ${row.answeredInMs} ms`);
}

function draw() {
  by("version").textContent = `pyspark-tubeclient ${model.version}. This page changes nothing.`;
  const word = model.headline.verdict;
  by("headline").className = word;
  if (by("headline").lastChild?.textContent !== model.headline.text || by("headline").firstChild.textContent !== verdict(word).textContent) {
    by("headline").replaceChildren(verdict(word), element("p", {}, model.headline.text));
  }
  document.title = `${word === "OK" || word === "UNKNOWN" ? "" : `${word} · `}TubeMQ consumer groups`;
  by("failures").replaceChildren(...model.failures.map((one) => element("li", {}, element("b", {}, `${one.name} ${one.place}`), `: ${one.failure}`)));
  by("groups-part").hidden = model.groups === null;
  const focused = document.activeElement?.closest("#groups button")?.textContent;
  table("groups", [
    ["Group", "name", chooser],
    ["Verdict", "", (row) => verdict(row.verdict)],
    ["Why", "text", (row) => row.sentence],
    ["Messages behind", "number", (row) => count(row.rowsBehind)],
    ["Messages/s", "number", (row) => rate(row.rowsPerSecond)],
    ["Last commit", "number", (row) => `${span(model.asOf - row.updatedAt)} ago`],
    ["Partitions", "number", (row) => count(row.partitions)],
  ], model.groups ?? [], "No group has anything in the offsets table.", (row) => row.name === model.details?.name);
  if (focused !== undefined) [...document.querySelectorAll("#groups button")].find((one) => one.textContent === focused)?.focus();
  by("detail").hidden = model.details === null;
  if (model.details !== null) drawDetail(model.groups.find((group) => group.name === model.details.name), model.details);
  by("brokers-part").hidden = model.brokers === null;
  table("brokers", [
    ["Id", "number", (row) => `${row.id}`],
    ["Address", "", (row) => row.address],
    ["Answers", "", answers],
    ["Master says", "", (row) => row.says],
    ["Why not", "text", (row) => row.failure ?? "–"],
  ], model.brokers ?? [], "The master lists no broker.");
}

function drawDetail(group, detail) {
  by("detail-title").textContent = group.name;
  const figures = [
    ["Messages behind, at most", count(group.rowsBehind)],
    ["Messages read per second", rate(group.rowsPerSecond)],
    ["Nodes", count(group.nodes)],
    ["Clients at the master", group.clients === null ? "–" : count(group.clients)],
    ["Run since", group.runEpoch === 0 ? "–" : moment(group.runEpoch)],
  ];
  by("figures").replaceChildren(...figures.map(([title, value]) => element("div", {}, element("dt", {}, title), element("dd", {}, value))));
  lag.show(detail.series.at, detail.series.rowsBehind);
  speed.show(detail.series.at, detail.series.rowsPerSecond);
  table("nodes", [
    ["Node", "number", (row) => `${row.node ?? "none"}`],
    ["Host", "", (row) => row.host ?? "–"],
    ["Partitions", "number", (row) => count(row.partitions)],
    ["Which", "text", (row) => row.which],
  ], detail.nodes, "There are no partitions.");
  table("partitions", [
    ["Partition", "name", (row) => row.partition],
    ["Messages behind, at most", "number", (row) => count(row.rowsBehind)],
    ["Node", "number", (row) => `${row.node ?? "–"}`],
    ["Next offset", "number", (row) => (row.nextOffset === null ? "–" : count(row.nextOffset))],
    ["End offset", "number", (row) => count(row.endOffset)],
    ["Note", "text", (row) => row.note],
  ], detail.worst, "There are no partitions.");
}

async function refresh() {
  clearTimeout(timer);
  try {
    const answer = await fetch(`data.json?${new URLSearchParams({ group: chosen })}`, { signal: AbortSignal.timeout(DEADLINE_MS) });
    model = await answer.json();
    const old = Date.now() - model.asOf;
    by("age").textContent = old > OLD_MS ? `There is nothing newer for ${span(old)}: something does not answer` : `As of ${moment(model.asOf)}`;
    draw();
  } catch (error) {
    by("age").textContent = `The dashboard itself does not answer. Was it ended? (${error.message})`;
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, model === null || model.groups === null ? SOON_MS : PERIOD_MS);
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
refresh();
