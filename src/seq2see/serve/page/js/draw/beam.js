// The whole beam: a column a step, a row a rank. The winner's way is drawn last, so that it lies on top.
import { hint, s, textWidth, widest } from "../dom.js";

const RISE = 24;
const TOP = 30;

function columns(nodes) {
  const starts = [];
  let x = 14;
  for (let step = 0; step <= Math.max(...nodes.map((node) => node.step)); step += 1) {
    starts.push(x);
    x += widest(nodes.filter((node) => node.step === step).map((node) => node.text)) * 1.08 + 46;
  }
  return { starts, width: x };
}

// tree: {nodes, path}; `chosen` is the id of the node that is told about, `text(node)` tells at a glance
export function beamTree({ nodes, path }, chosen, choose, text) {
  const onPath = new Set(path);
  const { starts, width } = columns(nodes);
  const ranks = Math.max(...nodes.map((node) => node.rank)) + 1;
  const members = Math.max(...nodes.map((node) => node.member)) + 1;
  const x = (node) => starts[node.step];
  const y = (node) => TOP + (node.member * (ranks + 1) + node.rank) * RISE;
  const height = TOP + members * (ranks + 1) * RISE - RISE;
  const svg = s("svg", { class: "beam", width, height, viewBox: `0 0 ${width} ${height}`, role: "group" });
  starts.forEach((start, step) => svg.append(s("text", { class: "faint", x: start - 4, y: 12 }, String(step))));
  const winnersLast = [...nodes].sort((a, b) => onPath.has(a.id) - onPath.has(b.id));
  for (const node of winnersLast) {
    if (node.parent === null) continue;
    const from = nodes[node.parent];
    const left = x(from) + textWidth(from.text) * (onPath.has(from.id) ? 1.1 : 1) + 14;
    const bend = (x(node) - left) / 2;
    const rise = y(node) - y(from);
    svg.append(s(
      "path",
      {
        class: `edge ${node.fate}${onPath.has(node.id) ? " path" : ""}`,
        d: `M${left},${y(from)}c${bend},0 ${bend},${rise} ${x(node) - 7 - left},${rise}`,
      },
    ));
  }
  svg.addEventListener("keydown", (event) => walk(event, nodes));
  for (const node of winnersLast) svg.append(mark(node, x(node), y(node), onPath.has(node.id), node.id === chosen, choose, text));
  return svg;
}

// Where an arrow leads: to what went before, to what came of it, to the neighbours of its step.
const STEPS = {
  ArrowLeft: (nodes, node) => nodes[node.parent],
  ArrowRight: (nodes, node) => nodes.find((other) => other.parent === node.id),
  ArrowUp: (nodes, node) => nodes.find((other) => other.step === node.step && other.member === node.member && other.rank === node.rank - 1),
  ArrowDown: (nodes, node) => nodes.find((other) => other.step === node.step && other.member === node.member && other.rank === node.rank + 1),
};

function walk(event, nodes) {
  const from = event.target.closest?.("[data-key]")?.dataset.key?.split(":")[1];
  const next = from && STEPS[event.key]?.(nodes, nodes[from]);
  if (!next) return;
  event.preventDefault();
  event.currentTarget.querySelector(`[data-key="node:${next.id}"]`).focus();
}

function mark(node, x, y, winner, chosen, choose, text) {
  const kind = `node ${node.fate}${winner ? " path" : ""}${chosen ? " chosen" : ""}`;
  const shape = node.fate === "finished" ? s("rect", { x: x - 5, y: y - 5, width: 10, height: 10, rx: 2 }) : s("circle", { cx: x, cy: y, r: 5 });
  const press = () => choose(node.id);
  const group = s("g", { class: kind, role: "button", tabindex: winner || chosen ? 0 : -1, "aria-label": text(node), data: { key: `node:${node.id}` }, on: {
    click: press, keydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); press(); } },
  } }, shape, s("text", { x: x + 10, y: y + 4 }, node.text));
  return hint(group, () => text(node));
}
