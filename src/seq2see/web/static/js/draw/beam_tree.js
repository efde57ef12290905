// The tree of a beam search: one column per step, one row per rank. The best path is drawn last, so that it is on top.
import { addTooltip, maxTextWidth, pressable, s, textWidth } from "../dom.js";

const ROW_HEIGHT = 24;
const TOP = 30;

function columnStarts(nodes) {
  const starts = [];
  let x = 14;
  for (let step = 0; step <= Math.max(...nodes.map((node) => node.step)); step += 1) {
    starts.push(x);
    x += maxTextWidth(nodes.filter((node) => node.step === step).map((node) => node.text)) * 1.08 + 46;
  }
  return { starts, width: x };
}

// selected: id of the selected node; text(node): its tooltip
export function beamTree({ nodes, best_path: path }, selected, onSelect, text) {
  const onPath = new Set(path);
  const { starts, width } = columnStarts(nodes);
  const ranks = Math.max(...nodes.map((node) => node.rank)) + 1;
  const searches = Math.max(...nodes.map((node) => node.search_index)) + 1;
  const x = (node) => starts[node.step];
  const y = (node) => TOP + (node.search_index * (ranks + 1) + node.rank) * ROW_HEIGHT;
  const height = TOP + searches * (ranks + 1) * ROW_HEIGHT - ROW_HEIGHT;
  const svg = s("svg", { class: "beam", width, height, viewBox: `0 0 ${width} ${height}`, role: "group" });
  starts.forEach((start, step) => svg.append(s("text", { class: "faint", x: start - 4, y: 12 }, String(step))));
  const bestLast = [...nodes].sort((a, b) => onPath.has(a.id) - onPath.has(b.id));
  for (const node of bestLast) {
    if (node.parent === null) continue;
    const parent = nodes[node.parent];
    const left = x(parent) + textWidth(parent.text) * (onPath.has(parent.id) ? 1.1 : 1) + 14;
    const bend = (x(node) - left) / 2;
    const rise = y(node) - y(parent);
    svg.append(s(
      "path",
      {
        class: `edge ${node.status}${onPath.has(node.id) ? " path" : ""}`,
        d: `M${left},${y(parent)}c${bend},0 ${bend},${rise} ${x(node) - 7 - left},${rise}`,
      },
    ));
  }
  svg.addEventListener("keydown", (event) => moveFocus(event, nodes));
  for (const node of bestLast) svg.append(drawNode(node, x(node), y(node), onPath.has(node.id), node.id === selected, onSelect, text));
  return svg;
}

// Arrow keys: to the parent, to the first child, to the neighbors of the same step.
const NEIGHBORS = {
  ArrowLeft: (nodes, node) => nodes[node.parent],
  ArrowRight: (nodes, node) => nodes.find((other) => other.parent === node.id),
  ArrowUp: (nodes, node) => nodes.find((other) => isSameStep(other, node) && other.rank === node.rank - 1),
  ArrowDown: (nodes, node) => nodes.find((other) => isSameStep(other, node) && other.rank === node.rank + 1),
};

const isSameStep = (a, b) => a.step === b.step && a.search_index === b.search_index;

function moveFocus(event, nodes) {
  const id = event.target.closest?.("[data-key]")?.dataset.key?.split(":")[1];
  const next = id && NEIGHBORS[event.key]?.(nodes, nodes[id]);
  if (!next) return;
  event.preventDefault();
  event.currentTarget.querySelector(`[data-key="node:${next.id}"]`).focus();
}

function drawNode(node, x, y, isOnPath, isSelected, onSelect, text) {
  const className = `node ${node.status}${isOnPath ? " path" : ""}${isSelected ? " selected" : ""}`;
  const shape = node.status === "finished" ? s("rect", { x: x - 5, y: y - 5, width: 10, height: 10, rx: 2 }) : s("circle", { cx: x, cy: y, r: 5 });
  const group = s("g", {
    class: className, role: "button", tabindex: isOnPath || isSelected ? 0 : -1, "aria-label": text(node), data: { key: `node:${node.id}` },
    on: pressable(() => onSelect(node.id)),
  }, shape, s("text", { x: x + 10, y: y + 4 }, node.text));
  return addTooltip(group, () => text(node));
}
