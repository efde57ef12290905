// A large matrix without labels, one pixel a cell, blue above zero and orange below.
import { colour, h, hint } from "../dom.js";
import { clamp, short } from "../numbers.js";

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// rows: vectors; picked: [row, column], or null where the whole is a button
export function heatMap(rows, picked, pick, name) {
  const [height, width] = [rows.length, rows[0].length];
  const canvas = h("canvas", { class: "heat", width, height, role: picked ? "application" : "button", "aria-label": name, tabindex: 0, data: { key: `heat:${name}` } });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const [mark, against] = [colour("mark"), colour("against")];
  const most = rows.reduce((max, row) => row.reduce((a, x) => Math.max(a, Math.abs(x)), max), 1e-12);
  rows.forEach((row, r) => row.forEach((x, c) => image.data.set(
    [...(x < 0 ? against : mark), Math.round(255 * Math.abs(x) / most)], 4 * (r * width + c),
  )));
  context.putImageData(image, 0, 0);
  let cell = picked ?? [0, 0];
  const locate = (event) => {
    const box = canvas.getBoundingClientRect();
    cell = [
      clamp(Math.floor((event.clientY - box.top) / box.height * height), 0, height - 1),
      clamp(Math.floor((event.clientX - box.left) / box.width * width), 0, width - 1),
    ];
  };
  canvas.addEventListener("pointermove", locate);
  canvas.addEventListener("click", (event) => { locate(event); pick(...cell); });
  canvas.addEventListener("keydown", (event) => {
    const move = picked && MOVES[event.key];
    if (!move && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (move) pick(clamp(picked[0] + move[0], 0, height - 1), clamp(picked[1] + move[1], 0, width - 1));
    else pick(...cell);
  });
  return hint(canvas, () => `${name}\n${cell[0]}, ${cell[1]}: ${short(rows[cell[0]][cell[1]], 4)}`);
}
