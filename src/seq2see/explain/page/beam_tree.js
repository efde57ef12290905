// The tree of a beam search: one column per step, one row per rank.
import { addTooltip, formatNumber, query, s, textWidth } from "./dom.js";

const STATUSES = { alive: "kept", finished: "finished", pruned: "pruned", stopped: "unfinished" };
const ROW_HEIGHT = 24;

export function drawBeamTree(trace) {
  const { nodes, best_path: path } = trace.beam;
  const onPath = new Set(path);
  const ranks = Math.max(...nodes.map((node) => node.rank)) + 1;
  const searches = Math.max(...nodes.map((node) => node.search_index)) + 1;
  const steps = Math.max(...nodes.map((node) => node.step)) + 1;
  const widths = Array(steps).fill(30);
  for (const node of nodes) widths[node.step] = Math.max(widths[node.step], textWidth(node.text, 12) + 34);
  const starts = widths.map((_, i) => 12 + widths.slice(0, i).reduce((a, b) => a + b, 0));
  const x = (node) => starts[node.step] + 6;
  const y = (node) => 26 + (node.search_index * (ranks + 1) + node.rank) * ROW_HEIGHT;
  const width = starts.at(-1) + widths.at(-1) + 20;
  const height = 30 + searches * (ranks + 1) * ROW_HEIGHT - ROW_HEIGHT;
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  starts.forEach((start, step) => svg.append(s("text", { class: "faint", x: start, y: 11 }, String(step))));
  for (const node of nodes) {
    if (node.parent === null) continue;
    const parent = nodes[node.parent];
    const left = x(parent) + textWidth(parent.text, 12.5) * (onPath.has(parent.id) ? 1.12 : 1) + 13;
    const bend = (x(node) - left) / 2;
    const className = onPath.has(node.id) ? "edge path" : "edge";
    svg.append(s("path", { class: className, d: `M${left},${y(parent)}c${bend},0 ${bend},${y(node) - y(parent)} ${x(node) - 6 - left},${y(node) - y(parent)}` }));
  }
  for (const node of nodes) svg.append(drawNode(node, x(node), y(node), onPath.has(node.id), nodes));
  query("#beam-note").textContent = beamNote(trace, nodes);
  query("#beam .body").replaceChildren(svg);
}

function drawNode(node, x, y, isOnPath, nodes) {
  const group = s("g", {}, s("circle", { class: `node ${node.status}${isOnPath ? " path" : ""}`, cx: x, cy: y, r: 4.5 }));
  const style = node.status === "pruned" ? { class: "faint" } : isOnPath ? { "font-weight": 600 } : {};
  group.append(s("text", { x: x + 9, y: y + 4, ...style }, node.text));
  return addTooltip(group, () => {
    const words = [];
    for (let each = node; each; each = each.parent === null ? null : nodes[each.parent]) words.unshift(each.text);
    return `${words.join(" ")}\n${STATUSES[node.status]}, rank ${node.rank} of its step\nlog-probability ${formatNumber(node.log_prob)}, this token ${formatNumber(node.token_log_prob)}\npenalty ${formatNumber(node.penalty)}, score ${formatNumber(node.score)}`;
  });
}

function beamNote(trace, nodes) {
  if (trace.is_forced) return "The translation was given (forced decoding); there is no beam search.";
  const count = (status) => nodes.filter((node) => node.status === status).length;
  return `Beam size ${trace.search.beam_size}, ${trace.steps.length} steps, ${nodes.length} hypotheses: ${count("finished")} finished (green), ${count("pruned")} pruned (empty), ${count("stopped")} unfinished when the search stopped. The best path is orange; rows are ranks.`;
}
