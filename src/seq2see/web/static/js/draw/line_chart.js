// A line chart with axes, a legend, and the values at the pointer or at the cursor of the keyboard.
import { h, s } from "../dom.js";
import { clamp, formatNumber } from "../format.js";

const MARGIN = { left: 52, right: 12, top: 10, bottom: 30 };
const MAX_DOTS = 60; // curves with at most this many points also show dots
const NUM_COLORS = 6; // classes .c0 to .c5 of the style sheet, each with its own dash pattern
const KEYS = { ArrowLeft: (i) => i - 1, ArrowRight: (i) => i + 1, PageDown: (i) => i - 20, PageUp: (i) => i + 20, Home: () => 0, End: () => Infinity };
const cursorPositions = new Map(); // x of the keyboard cursor by the name of the chart: a chart that grows is drawn again

function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((x) => x * power).find((x) => x >= rough);
  const values = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step / 1e6; x += step) values.push(Math.abs(x) < step / 1e6 ? 0 : x);
  return values;
}

const formatTick = (x) => (Math.abs(x) >= 10_000 ? `${+(x / 1000).toFixed(1)}k` : x !== 0 && Math.abs(x) < 0.001 ? x.toExponential(0) : String(+x.toPrecision(6)));

function range(values, padded) {
  let [low, high] = values.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
  if (!Number.isFinite(low)) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const padding = padded ? 0.05 * (high - low) : 0;
  return [low - padding, high + padding];
}

// series: [{name, points: [[x, y], …]}, …]; options: name of the chart, label of the x axis, number of decimals
export function lineChart(series, { name, x: xLabel = "", digits = 3 }) {
  const [width, height] = [clamp(innerWidth - 90, 280, 560), 240]; // labels stay readable on a phone
  const all = series.flatMap(({ points }) => points);
  const [left, right] = range(all.map(([x]) => x), false);
  const [low, high] = range(all.map(([, y]) => y), true);
  const x = (value) => MARGIN.left + ((value - left) / (right - left)) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => height - MARGIN.bottom - ((value - low) / (high - low)) * (height - MARGIN.top - MARGIN.bottom);
  const svg = s("svg", { class: "curves", viewBox: `0 0 ${width} ${height}`, role: "slider", tabindex: 0, "aria-label": name, data: { key: `curves:${name}` } });
  for (const value of ticks(low, high, 5)) svg.append(
    s("path", { class: "rule", d: `M${MARGIN.left},${y(value)}H${width - MARGIN.right}` }),
    s("text", { class: "faint", x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, formatTick(value)),
  );
  for (const value of ticks(left, right, width / 90)) svg.append(s(
    "text",
    { class: "faint", x: x(value), y: height - MARGIN.bottom + 16, "text-anchor": "middle" }, formatTick(value),
  ));
  svg.append(s("text", { class: "faint", x: width - MARGIN.right, y: height - 2, "text-anchor": "end" }, xLabel));
  series.forEach(({ points }, i) => svg.append(s(
    "path",
    { class: `curve c${i % NUM_COLORS}`, d: points.map(([a, b], p) => `${p ? "L" : "M"}${x(a).toFixed(2)},${y(b).toFixed(2)}`).join("") },
  )));
  series.forEach(({ points }, i) => { if (points.length <= MAX_DOTS) svg.append(...points.map(([a, b]) => s(
    "circle",
    { class: `dot c${i % NUM_COLORS}`, cx: x(a), cy: y(b), r: 2.6 },
  ))); });
  const cursor = s("path", { class: "cursor", visibility: "hidden", d: `M0,${MARGIN.top}V${height - MARGIN.bottom}` });
  svg.append(cursor);
  const valueAt = (share) => left + (share * width - MARGIN.left) / (x(right) - x(left)) * (right - left);
  const output = addReadout(svg, cursor, series, { name, digits, x, valueAt });
  return h("figure", { class: "chart" }, h("figcaption", {}, h("h3", {}, name), legend(series)), svg, output);
}

const nearest = (points, x) => points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best), points[0] ?? [0, NaN]);

// Adds the values at the cursor, which follows the pointer and the keyboard. valueAt(share): x at this share of the width
function addReadout(svg, cursor, series, { name, digits, x, valueAt }) {
  const output = h("output", { class: "note num", "aria-live": "off" });
  const first = series[0].points;
  const moveTo = (value) => {
    const near = series.map(({ points }) => nearest(points, value));
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("transform", `translate(${x(near[0][0])},0)`);
    output.textContent = `${formatTick(near[0][0])}: ${near.map(([, y], i) => `${series[i].name} ${formatNumber(y, digits)}`).join(" · ")}`;
    svg.setAttribute("aria-valuenow", near[0][0]);
    svg.setAttribute("aria-valuetext", output.textContent);
  };
  const keyboardX = () => cursorPositions.get(name) ?? first[0][0];
  const clear = () => { cursor.setAttribute("visibility", "hidden"); output.textContent = ""; };
  svg.setAttribute("aria-valuemin", first[0][0]);
  svg.setAttribute("aria-valuemax", first.at(-1)[0]);
  moveTo(keyboardX());
  clear();
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    moveTo(valueAt((event.clientX - box.left) / box.width));
  });
  svg.addEventListener("pointerleave", clear);
  svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) moveTo(keyboardX()); });
  svg.addEventListener("blur", clear);
  svg.addEventListener("keydown", (event) => {
    if (!KEYS[event.key]) return;
    event.preventDefault();
    const next = first[clamp(KEYS[event.key](first.indexOf(nearest(first, keyboardX()))), 0, first.length - 1)];
    cursorPositions.set(name, next[0]);
    moveTo(next[0]);
  });
  return output;
}

function legend(series) {
  if (series.length < 2) return null;
  return h("p", { class: "legend" }, series.map(({ name }, i) => h("span", { class: "entry" },
    s("svg", { width: 22, height: 8, "aria-hidden": "true" }, s("path", { class: `curve c${i % NUM_COLORS}`, d: "M0,4H22" })), name)));
}
