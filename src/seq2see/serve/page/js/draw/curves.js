// Curves with axes, a legend, and the numbers under the pointer, or where the arrow keys have led.
import { h, s } from "../dom.js";
import { clamp, short } from "../numbers.js";

const MARGIN = { left: 52, right: 12, top: 10, bottom: 30 };
const FEW = 60; // points that are drawn one by one, too
const COLOURS = 6; // of the style sheet: .c0 to .c5, each with a dash of its own
const KEYS = { ArrowLeft: (i) => i - 1, ArrowRight: (i) => i + 1, PageDown: (i) => i - 20, PageUp: (i) => i + 20, Home: () => 0, End: () => Infinity };
const leftAt = new Map(); // a figure's name → x where the keys left it: a curve that grows is drawn anew

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((x) => x * power).find((x) => x >= rough);
  const found = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step / 1e6; x += step) found.push(Math.abs(x) < step / 1e6 ? 0 : x);
  return found;
}

const written = (x) => (Math.abs(x) >= 10_000 ? `${+(x / 1000).toFixed(1)}k` : x !== 0 && Math.abs(x) < 0.001 ? x.toExponential(0) : String(+x.toPrecision(6)));

function extent(values, padded) {
  let [low, high] = values.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
  if (!Number.isFinite(low)) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const more = padded ? 0.05 * (high - low) : 0;
  return [low - more, high + more];
}

// series: [{name, points: [[x, y], …]}]; options: the figure's name, what x is, decimals
export function curves(series, { name, x: axis = "", digits = 3 }) {
  const [width, height] = [clamp(innerWidth - 90, 280, 560), 240]; // letters stay readable on a phone
  const all = series.flatMap(({ points }) => points);
  const [left, right] = extent(all.map(([x]) => x), false);
  const [low, high] = extent(all.map(([, y]) => y), true);
  const x = (value) => MARGIN.left + ((value - left) / (right - left)) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => height - MARGIN.bottom - ((value - low) / (high - low)) * (height - MARGIN.top - MARGIN.bottom);
  const svg = s("svg", { class: "curves", viewBox: `0 0 ${width} ${height}`, role: "slider", tabindex: 0, "aria-label": name, data: { key: `curves:${name}` } });
  for (const value of ticks(low, high, 5)) svg.append(
    s("path", { class: "rule", d: `M${MARGIN.left},${y(value)}H${width - MARGIN.right}` }),
    s("text", { class: "faint", x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, written(value)),
  );
  for (const value of ticks(left, right, width / 90)) svg.append(s(
    "text",
    { class: "faint", x: x(value), y: height - MARGIN.bottom + 16, "text-anchor": "middle" }, written(value),
  ));
  svg.append(s("text", { class: "faint", x: width - MARGIN.right, y: height - 2, "text-anchor": "end" }, axis));
  series.forEach(({ points }, i) => svg.append(s(
    "path",
    { class: `curve c${i % COLOURS}`, d: points.map(([a, b], at) => `${at ? "L" : "M"}${x(a).toFixed(2)},${y(b).toFixed(2)}`).join("") },
  )));
  series.forEach(({ points }, i) => { if (points.length <= FEW) svg.append(...points.map(([a, b]) => s(
    "circle",
    { class: `dot c${i % COLOURS}`, cx: x(a), cy: y(b), r: 2.6 },
  ))); });
  const cursor = s("path", { class: "cursor", visibility: "hidden", d: `M0,${MARGIN.top}V${height - MARGIN.bottom}` });
  svg.append(cursor);
  const shown = readout(svg, cursor, series, { name, digits, x, at: (share) => left + (share * width - MARGIN.left) / (x(right) - x(left)) * (right - left) });
  return h("figure", { class: "chart" }, h("figcaption", {}, h("h3", {}, name), legend(series)), svg, shown);
}

const nearest = (points, at) => points.reduce((best, point) => (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best), points[0] ?? [0, NaN]);

// The numbers at the cursor, which follows the pointer and the keys; at(share) is x at a share of the width.
function readout(svg, cursor, series, { name, digits, x, at }) {
  const shown = h("output", { class: "note num", "aria-live": "off" });
  const first = series[0].points;
  const put = (place) => {
    const near = series.map(({ points }) => nearest(points, place));
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("transform", `translate(${x(near[0][0])},0)`);
    shown.textContent = `${written(near[0][0])}: ${near.map(([, value], i) => `${series[i].name} ${short(value, digits)}`).join(" · ")}`;
    svg.setAttribute("aria-valuenow", near[0][0]);
    svg.setAttribute("aria-valuetext", shown.textContent);
  };
  const focused = () => leftAt.get(name) ?? first[0][0];
  const clear = () => { cursor.setAttribute("visibility", "hidden"); shown.textContent = ""; };
  svg.setAttribute("aria-valuemin", first[0][0]);
  svg.setAttribute("aria-valuemax", first.at(-1)[0]);
  put(focused());
  clear();
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    put(at((event.clientX - box.left) / box.width));
  });
  svg.addEventListener("pointerleave", clear);
  svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) put(focused()); });
  svg.addEventListener("blur", clear);
  svg.addEventListener("keydown", (event) => {
    if (!KEYS[event.key]) return;
    event.preventDefault();
    const next = first[clamp(KEYS[event.key](first.indexOf(nearest(first, focused()))), 0, first.length - 1)];
    leftAt.set(name, next[0]);
    put(next[0]);
  });
  return shown;
}

function legend(series) {
  if (series.length < 2) return null;
  return h("p", { class: "legend" }, series.map(({ name }, i) => h("span", { class: "entry" },
    s("svg", { width: 22, height: 8, "aria-hidden": "true" }, s("path", { class: `curve c${i % COLOURS}`, d: "M0,4H22" })), name)));
}
