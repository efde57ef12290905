// A large matrix without labels, one pixel per cell: blue for positive values, orange for negative ones.
import { addTooltip, h, themeColor } from "../dom.js";
import { clamp, formatNumber } from "../format.js";

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// rows: vectors; selected: [row, column], or null if the whole heatmap is a button
export function heatmap(rows, selected, onSelect, name) {
  const [height, width] = [rows.length, rows[0].length];
  const canvas = h("canvas", { class: "heat", width, height, role: selected ? "application" : "button", "aria-label": name, tabindex: 0, data: { key: `heat:${name}` } });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const [positive, negative] = [themeColor("positive"), themeColor("negative")];
  const largest = rows.reduce((max, row) => row.reduce((a, x) => Math.max(a, Math.abs(x)), max), 1e-12);
  rows.forEach((row, r) => row.forEach((x, c) => image.data.set(
    [...(x < 0 ? negative : positive), Math.round(255 * Math.abs(x) / largest)], 4 * (r * width + c),
  )));
  context.putImageData(image, 0, 0);
  let cell = selected ?? [0, 0];
  const locate = (event) => {
    const box = canvas.getBoundingClientRect();
    cell = [
      clamp(Math.floor((event.clientY - box.top) / box.height * height), 0, height - 1),
      clamp(Math.floor((event.clientX - box.left) / box.width * width), 0, width - 1),
    ];
  };
  canvas.addEventListener("pointermove", locate);
  canvas.addEventListener("click", (event) => { locate(event); onSelect(...cell); });
  canvas.addEventListener("keydown", (event) => {
    const move = selected && MOVES[event.key];
    if (!move && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (move) onSelect(clamp(selected[0] + move[0], 0, height - 1), clamp(selected[1] + move[1], 0, width - 1));
    else onSelect(...cell);
  });
  return addTooltip(canvas, () => `${name}\n${cell[0]}, ${cell[1]}: ${formatNumber(rows[cell[0]][cell[1]], 4)}`);
}
