// Every hypothesis that there was, as a tree that grows to the right.
import { drawn, find, hint, short, textWidth } from "./base.js";

const FATES = { alive: "went on", finished: "finished", pruned: "pruned", stopped: "alive when the search was over" };

export function beamTree(trace) {
  const { nodes, path } = trace.beam;
  const onPath = new Set(path);
  const ranks = Math.max(...nodes.map((node) => node.rank)) + 1;
  const members = Math.max(...nodes.map((node) => node.member)) + 1;
  const steps = Math.max(...nodes.map((node) => node.step)) + 1;
  const widths = Array(steps).fill(30);
  for (const node of nodes) widths[node.step] = Math.max(widths[node.step], textWidth(node.text, 12) + 34);
  const starts = widths.map((_, i) => 12 + widths.slice(0, i).reduce((a, b) => a + b, 0));
  const rise = 24;
  const x = (node) => starts[node.step] + 6;
  const y = (node) => 26 + (node.member * (ranks + 1) + node.rank) * rise;
  const width = starts.at(-1) + widths.at(-1) + 20;
  const height = 30 + members * (ranks + 1) * rise - rise;
  const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  starts.forEach((start, step) => svg.append(drawn("text", { class: "faint", x: start, y: 11 }, String(step))));
  for (const node of nodes) {
    if (node.parent === null) continue;
    const from = nodes[node.parent];
    const left = x(from) + textWidth(from.text, 12.5) * (onPath.has(from.id) ? 1.12 : 1) + 13;
    const bend = (x(node) - left) / 2;
    const kind = onPath.has(node.id) ? "edge path" : "edge";
    svg.append(drawn("path", { class: kind, d: `M${left},${y(from)}c${bend},0 ${bend},${y(node) - y(from)} ${x(node) - 6 - left},${y(node) - y(from)}` }));
  }
  for (const node of nodes) svg.append(mark(node, x(node), y(node), onPath.has(node.id), nodes));
  find("#beam .body").replaceChildren(svg);
  find("#beam-note").textContent = note(trace, nodes);
}

function mark(node, x, y, winner, nodes) {
  const group = drawn("g", {}, drawn("circle", { class: `node ${node.fate}${winner ? " path" : ""}`, cx: x, cy: y, r: 4.5 }));
  const look = node.fate === "pruned" ? { class: "faint" } : winner ? { "font-weight": 600 } : {};
  group.append(drawn("text", { x: x + 9, y: y + 4, ...look }, node.text));
  return hint(group, () => {
    const words = [];
    for (let at = node; at; at = at.parent === null ? null : nodes[at.parent]) words.unshift(at.text);
    return `${words.join(" ")}\n${FATES[node.fate]}, rank ${node.rank} of its step\nlog-probability ${short(node.log_prob)}, this token ${short(node.token_log_prob)}\npenalty ${short(node.penalty)}, score ${short(node.score)}`;
  });
}

function note(trace, nodes) {
  if (trace.forced) return "The translation was given, so its tokens were forced and there was nothing to search.";
  const count = (fate) => nodes.filter((node) => node.fate === fate).length;
  return `Beam of ${trace.search.beam_size}: ${nodes.length} hypotheses in ${trace.steps.length} steps of the winner; ${count("finished")} finished (green), ${count("pruned")} pruned (empty), ${count("stopped")} alive when the search was over. The winner is orange; rows are ranks.`;
}
