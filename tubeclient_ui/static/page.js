"use strict";
// Lines of numbers over time, and what happens when the program is gone.
function draw(place) {
  const samples = JSON.parse(place.dataset.samples), style = getComputedStyle(place);
  const axis = {stroke: style.color, grid: {stroke: style.borderTopColor, width: 1}, ticks: {show: false}, font: style.font};
  const time = (tick, at = new Date(tick * 1000)) => samples.at(-1)[0] - samples[0][0] > 86400 ? at.toLocaleDateString() : at.toTimeString().slice(0, 8);
  const size = {width: place.clientWidth, height: 160};
  new uPlot({...size, legend: {show: false}, cursor: {y: false},
    scales: {y: {range: (_, low, high) => [0, Math.max(high, 1) * 1.1]}},
    axes: [{...axis, space: 80, values: (_, ticks) => ticks.map((tick) => time(tick))}, {...axis, size: 70, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString())}],
    series: [{}, {label: place.dataset.label, stroke: style.accentColor, width: 2, points: {show: false}}],
  }, [samples.map((sample) => sample[0]), samples.map((sample) => sample[1])], place);
}
addEventListener("htmx:afterSettle", () => {
  document.querySelectorAll(".line:empty").forEach(draw);
  document.getElementById("lost").hidden = true;
});
// The form that answers while somebody types keeps the address, and the link to the other language, as they are now.
addEventListener("htmx:afterRequest", ({target, detail}) => {
  if (target.id !== "try") return;
  history.replaceState(null, "", detail.pathInfo.finalRequestPath);
  document.querySelectorAll(".lang").forEach((other) => { other.href = `${location.href}&lang=${other.lang}`; });
});
for (const fault of ["htmx:sendError", "htmx:timeout", "htmx:responseError"])
  addEventListener(fault, () => { document.getElementById("lost").hidden = false; });
