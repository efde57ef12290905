// Attention as a matrix, as lines, and small. Rows are queries, columns are keys.
import { drawn, element, hint, percent, widest } from "./base.js";

const FAINT = 0.004; // weights below are not drawn: nobody would see them

export function cellSize(rows, columns) {
  return Math.max(14, Math.min(30, Math.floor(860 / Math.max(rows, columns))));
}

function columnLabels(labels, left, top, size) {
  return labels.map((label, i) => drawn("text", {
    transform: `translate(${left + (i + 0.62) * size},${top - 6}) rotate(-60)`,
  }, label));
}

function rowLabels(labels, left, top, size) {
  return labels.map((label, i) => drawn("text", {
    x: left - 8, y: top + (i + 0.5) * size + 4, "text-anchor": "end",
  }, label));
}

// figure: {rows, columns, weight(row, column) from -1 to 1, hidden(row, column), text(row, column)}
export function matrix(figure, picked = null, pick = null) {
  const { rows, columns } = figure;
  const size = cellSize(rows.length, columns.length);
  const left = widest(rows) + 18;
  const top = widest(columns) * 0.87 + 16;
  const right = widest(columns.slice(-2)) * 0.5 + 12;
  const width = left + columns.length * size + right;
  const height = top + rows.length * size + 4;
  const label = `--label: ${Math.min(12.5, 0.8 * size)}px`; // rows must not touch
  const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", style: label });
  svg.append(...columnLabels(columns, left, top, size), ...rowLabels(rows, left, top, size));
  for (let r = 0; r < rows.length; r += 1) {
    for (let c = 0; c < columns.length; c += 1) {
      const place = { x: left + c * size, y: top + r * size, width: size, height: size };
      const weight = figure.weight(r, c);
      if (figure.hidden?.(r, c)) svg.append(drawn("rect", { ...place, class: "hidden" }));
      else if (Math.abs(weight) > FAINT) {
        const fill = weight < 0 ? "var(--against)" : "var(--mark)";
        svg.append(drawn("rect", { ...place, fill, "fill-opacity": Math.min(1, Math.abs(weight)) }));
      }
    }
  }
  svg.append(...frame(left, top, rows.length, columns.length, size));
  if (picked !== null) {
    svg.append(drawn("rect", { class: "picked", x: left, y: top + picked * size, width: columns.length * size, height: size }));
  }
  svg.append(surface(figure, left, top, size, pick));
  return svg;
}

function frame(left, top, rows, columns, size) {
  const lines = [drawn("rect", { class: "grid", x: left, y: top, width: columns * size, height: rows * size })];
  const every = size >= 18 ? 1 : 5;
  for (let c = every; c < columns; c += every) lines.push(drawn("path", { class: "grid", "stroke-opacity": 0.5, d: `M${left + c * size},${top}v${rows * size}` }));
  for (let r = every; r < rows; r += every) lines.push(drawn("path", { class: "grid", "stroke-opacity": 0.5, d: `M${left},${top + r * size}h${columns * size}` }));
  return lines;
}

// One transparent surface hears the pointer for all cells.
function surface(figure, left, top, size, pick) {
  const { rows, columns } = figure;
  const area = drawn("rect", { class: "hit", x: left, y: top, width: columns.length * size, height: rows.length * size });
  let cell = [0, 0];
  const locate = (event) => {
    const box = area.getBoundingClientRect();
    const inside = (x, count) => Math.max(0, Math.min(count - 1, Math.floor(x / size)));
    cell = [inside(event.clientY - box.top, rows.length), inside(event.clientX - box.left, columns.length)];
  };
  area.addEventListener("pointermove", locate);
  hint(area, () => figure.text(...cell));
  if (pick) area.addEventListener("click", (event) => { locate(event); pick(cell[0]); });
  return area;
}

// Queries on the left, keys on the right; the stronger, the thicker.
export function lines(figure, picked = null, pick = null) {
  const { rows, columns } = figure;
  const step = 22;
  const left = widest(rows) + 18;
  const right = left + 300;
  const height = Math.max(rows.length, columns.length) * step + 12;
  const width = right + widest(columns) + 18;
  const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  const y = (i) => i * step + step / 2 + 6;
  for (let r = 0; r < rows.length; r += 1) {
    for (let c = 0; c < columns.length; c += 1) {
      const weight = figure.weight(r, c);
      if (weight <= 0.02 || (picked !== null && picked !== r)) continue;
      const bend = `C${left + 140},${y(r)} ${right - 140},${y(c)} ${right},${y(c)}`;
      const line = drawn("path", { d: `M${left},${y(r)}${bend}`, fill: "none", stroke: "var(--mark)", "stroke-width": 0.5 + 4 * weight, "stroke-opacity": 0.15 + 0.8 * weight });
      svg.append(hint(line, figure.text(r, c)));
    }
  }
  rows.forEach((label, r) => {
    const text = drawn("text", { x: left - 6, y: y(r) + 4, "text-anchor": "end", style: "cursor:pointer" }, label);
    if (r === picked) text.setAttribute("font-weight", 700);
    if (pick) text.addEventListener("click", () => pick(r));
    svg.append(text);
  });
  columns.forEach((label, c) => svg.append(drawn("text", { x: right + 6, y: y(c) + 4 }, label)));
  return svg;
}

// A head at a glance: one pixel a cell.
export function thumbnail(weights, size) {
  const [, rows, columns] = weights.shape;
  const canvas = element("canvas", { width: columns, height: rows });
  canvas.style.width = `${Math.round(size * Math.min(1, columns / rows))}px`;
  canvas.style.height = `${Math.round(size * Math.min(1, rows / columns))}px`;
  return canvas;
}

export function paint(canvas, weights, head, colour) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let r = 0; r < canvas.height; r += 1) {
    weights.row(head, r).forEach((weight, c) => {
      image.data.set([...colour, Math.round(255 * Math.sqrt(weight))], 4 * (r * canvas.width + c));
    });
  }
  context.putImageData(image, 0, 0);
}

export const cellText = (figure, r, c, weight) => `${figure.rows[r]} → ${figure.columns[c]}: ${percent(weight)}`;
