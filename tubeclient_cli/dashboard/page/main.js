// Fetches the model and draws it. What to show is the server's decision; here is only how.

import { lagChart, rateChart } from "./charts.js";
import { count, element, moment, rate, span, verdict } from "./format.js";
import { PartitionMap } from "./map.js";
import { SortedTable } from "./tables.js";

const PERIOD_MS = 5000;
const SOON_MS = 1000;
const DEADLINE_MS = 15000;
const RANKS = ["STOP", "STALL", "REWIND", "WARN", "OK", "UNKNOWN"];

const by = (id) => document.getElementById(id);
let chosen = named(location.hash.slice(1));
let model = null;
let lostSince = null;
let timer = null;

const number = (name, title, more = {}) => ({ name, title, number: true, cell: (row) => count(row[name]), ...more });

const groups = new SortedTable(by("groups"), "Groups", [
  { name: "name", title: "Group", wide: true, cell: chooser },
  { name: "verdict", title: "Verdict", value: (row) => RANKS.indexOf(row.verdict), cell: (row) => verdict(row.verdict) },
  { name: "sentence", title: "Why", text: true, cell: (row) => row.sentence },
  number("rowsBehind", "Messages behind"),
  number("rowsPerSecond", "Messages/s", { cell: (row) => rate(row.rowsPerSecond) }),
  number("updatedAt", "Last commit", { cell: (row) => `${span(model.now - row.updatedAt)} ago` }),
  number("partitions", "Partitions"),
  number("nodes", "Nodes"),
], { empty: "No group has anything in the offsets table.", isChosen: (row) => row.name === shownGroup() });

const partitions = new SortedTable(by("partitions"), "Partitions, worst first", [
  { name: "partition", title: "Partition", wide: true, cell: (row) => row.partition },
  number("rowsBehind", "Messages behind, at most"),
  number("nodeId", "Node", { cell: (row) => row.nodeId ?? "–" }),
  number("nextOffset", "Next offset", { cell: (row) => (row.nextOffset === null ? "–" : count(row.nextOffset)) }),
  number("endOffset", "End offset"),
  { name: "note", title: "Note", text: true, value: note, cell: note },
], { tall: true, empty: "No partition matches." });

const sums = (title) => [
  number("partitions", "Partitions"),
  number("behind", "Behind"),
  number("rowsBehind", title),
];
const nodes = new SortedTable(by("nodes"), "Nodes", [
  number("name", "Node", { cell: (row) => row.name ?? "none" }),
  { name: "host", title: "Host", cell: (row) => row.host ?? "–" },
  ...sums("Messages behind, about"),
], { tall: true });
const topics = new SortedTable(by("topics"), "Topics", [
  { name: "name", title: "Topic", wide: true, cell: (row) => row.name }, ...sums("Messages behind"),
], { tall: true });
const onBrokers = new SortedTable(by("by-broker"), "The group's partitions by broker", [
  number("name", "Broker"), ...sums("Messages behind"),
], { tall: true });
const brokers = new SortedTable(by("brokers"), "Brokers", [
  number("id", "Id", { cell: (row) => String(row.id) }),
  { name: "address", title: "Address", cell: (row) => row.address },
  { name: "answers", title: "Answers", cell: answers },
  { name: "runs", title: "Master says", cell: (row) => `${row.runs}, ${row.managed}` },
  number("stores", "Stores"),
  { name: "failure", title: "Why not", text: true, cell: (row) => row.failure ?? "–" },
], { empty: "The master lists no broker." });
const bad = new SortedTable(by("bad"), "Reasons of bad records", [
  { name: "group", title: "Group", wide: true, cell: (row) => row.group },
  { name: "state", title: "State", cell: (row) => row.state },
  { name: "reason", title: "Reason", text: true, cell: (row) => row.reason },
  number("records", "Records"),
  number("newest", "Newest", { cell: (row) => moment(row.newest, model.now) }),
], { tall: true, empty: "There are no bad records." });

const lag = lagChart(by("lag-chart"));
const speed = rateChart(by("rate-chart"));
const map = new PartitionMap(by("map"), by("map-by"), by("map-says"), by("legend"), (cell) => {
  by("search").value = cell.name;
  search();
  by("search").focus();
});

// The group in the address; none if somebody broke it.
function named(fragment) {
  try {
    return decodeURIComponent(fragment) || null;
  } catch {
    return null;
  }
}

function chooser(row) {
  const button = element("button", { type: "button", key: row.name }, row.name);
  if (row.name === shownGroup()) button.setAttribute("aria-current", "true");
  button.addEventListener("click", () => choose(row.name));
  return button;
}

function answers(row) {
  if (row.failure !== null) return element("span", { className: "verdict STOP" }, "■ no answer");
  return row.answers ? element("span", { className: "verdict OK" }, `✓ in ${row.answeredInMs} ms`) : "not in service";
}

function note(row) {
  const notes = [];
  if (row.brokerSilent) notes.push("its broker does not answer: as of the last commit");
  if (row.expired) notes.push(`${count(row.expired)} unread messages expired`);
  if (row.nextOffset === null) notes.push("nothing read yet");
  if (row.reason) notes.push(row.reason);
  return notes.join("; ");
}

function choose(name) {
  chosen = name;
  history.replaceState(null, "", name === null ? location.pathname : `#${encodeURIComponent(name)}`);
  by("search").value = "";
  refresh();
}

const shownGroup = () => (model === null ? null : Object.keys(model.details)[0] ?? null);

function draw() {
  by("version").textContent = `pyspark-tubeclient ${model.version}. This page changes nothing.`;
  const word = model.headline.verdict;
  by("headline").className = word;
  if (by("headline").textContent !== `${verdict(word).textContent}${model.headline.text}`) {
    by("headline").replaceChildren(verdict(word), element("p", {}, model.headline.text));
  }
  document.title = `${word === "OK" || word === "UNKNOWN" ? "" : `${word} · `}TubeMQ consumer groups`;
  by("sources").replaceChildren(...model.sources.filter((source) => source.failure !== null).map((source) => element(
    "li", {}, element("b", {}, `${source.name} ${source.place}`), `: ${source.failure}. `,
    source.asOf === null ? "There is no data of it yet." : `What is shown of it is ${span(model.now - source.asOf)} old.`,
  )));
  by("groups-part").hidden = model.groups === null;
  groups.show(model.groups ?? []);
  const name = shownGroup();
  by("detail").hidden = name === null;
  if (name !== null) drawDetail(model.groups.find((group) => group.name === name), model.details[name]);
  by("brokers-part").hidden = model.brokers === null;
  brokers.show(model.brokers ?? []);
  by("bad-part").hidden = model.badRecords === null;
  if (model.badRecords !== null) {
    by("bad-sum").textContent = `${count(model.badRecords.records)} in all, by their most frequent reasons:`;
    bad.show(model.badRecords.reasons);
  }
}

function drawDetail(group, detail) {
  by("detail-title").textContent = group.name;
  const figures = [
    ["Messages behind, at most", count(group.rowsBehind)],
    ["Messages read per second", rate(group.rowsPerSecond)],
    ["Partitions", count(group.partitions)],
    ["Nodes", count(group.nodes)],
    ["Clients at the master", group.clients === null ? "–" : count(group.clients)],
    ["Run since", group.runEpoch === 0 ? "–" : moment(group.runEpoch, model.now)],
  ];
  by("figures").replaceChildren(...figures.map(([title, value]) => element(
    "div", {}, element("dt", {}, title), element("dd", {}, value),
  )));
  lag.show(detail.series.at, detail.series.rowsBehind);
  speed.show(detail.series.at, detail.series.rowsPerSecond);
  by("reads-on").hidden = !detail.readsOn;
  map.show(detail.map);
  nodes.show(detail.nodes);
  topics.show(detail.topics);
  onBrokers.show(detail.brokers);
  by("events").replaceChildren(...detail.events.map((event) => element(
    "li", {}, element("time", { dateTime: new Date(event.at).toISOString() }, when(event)), said(event),
  )));
  if (detail.events.length === 0) by("events").append(element("li", { className: "quiet" }, "nothing in the commits that are kept"));
  if (by("search").value.trim() === "") showPartitions(detail.worst, group.partitions);
  else search();
}

function when(event) {
  const end = moment(event.at, model.now);
  return event.since === event.at ? end : `${moment(event.since, model.now)} – ${end}`;
}

const said = (event) => element(event.kind === "read" ? "span" : "b", {}, event.text);

function showPartitions(rows, found) {
  partitions.show(rows);
  by("found").textContent = rows.length < found ? `${count(found)} found; the ${rows.length} furthest behind are shown` : `${count(found)} found`;
}

let searching = null;
async function search() {
  clearTimeout(searching);
  const text = by("search").value.trim();
  const name = shownGroup();
  if (name === null) return;
  if (text === "") {
    showPartitions(model.details[name].worst, model.groups.find((group) => group.name === name).partitions);
    return;
  }
  try {
    const answer = await ask(`partitions.json?${new URLSearchParams({ group: name, text })}`);
    if (by("search").value.trim() === text) showPartitions(answer.partitions, answer.found);
  } catch {
    by("found").textContent = "the dashboard does not answer";
  }
}
by("search").addEventListener("input", () => {
  clearTimeout(searching);
  searching = setTimeout(search, 200);
});

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(DEADLINE_MS) });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

async function refresh() {
  clearTimeout(timer);
  try {
    model = await ask(`data.json?${new URLSearchParams(chosen === null ? { group: "" } : { group: chosen })}`);
    lostSince = null;
    draw();
  } catch (error) {
    if (error.message === "400" && chosen !== null) choose(null); // the address names what cannot be a group
    else if (error instanceof TypeError || error.name === "TimeoutError" || error instanceof SyntaxError || /^\d+$/.test(error.message)) lostSince ??= Date.now();
    else throw error;
  } finally {
    tellAge();
    const soon = model === null || model.groups === null || Object.values(model.details).some((detail) => detail.readsOn);
    clearTimeout(timer);
    timer = setTimeout(refresh, soon ? SOON_MS : PERIOD_MS);
  }
}

function tellAge() {
  if (lostSince !== null) {
    by("age").textContent = `The dashboard itself has not answered for ${span(Date.now() - lostSince)}. Was it ended?`;
  } else if (model !== null) {
    const read = model.sources.map((source) => (source.asOf === null ? `${source.name}: not read yet` : `${source.name} ${moment(source.asOf, model.now)}`));
    by("age").textContent = `Read: ${read.join(" · ")}`;
  }
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
refresh();
