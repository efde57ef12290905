// Attention weights as a matrix, as lines, and as a thumbnail. Rows are queries, columns are keys.
import { addTooltip, formatPercent, h, maxTextWidth, s } from "./dom.js";

const MIN_VISIBLE_WEIGHT = 0.004; // smaller weights would be invisible and are not drawn

function cellSize(rows, columns) {
  return Math.max(14, Math.min(30, Math.floor(860 / Math.max(rows, columns))));
}

function columnLabels(labels, left, top, size) {
  return labels.map((label, i) => s("text", {
    transform: `translate(${left + (i + 0.62) * size},${top - 6}) rotate(-60)`,
  }, label));
}

function rowLabels(labels, left, top, size) {
  return labels.map((label, i) => s("text", {
    x: left - 8, y: top + (i + 0.5) * size + 4, "text-anchor": "end",
  }, label));
}

// figure: {rows, columns, weight(row, column) from −1 to 1, masked(row, column), text(row, column)}
export function matrix(figure, selectedRow = null, onSelect = null) {
  const { rows, columns } = figure;
  const size = cellSize(rows.length, columns.length);
  const left = maxTextWidth(rows) + 18;
  const top = maxTextWidth(columns) * 0.87 + 16;
  const right = maxTextWidth(columns.slice(-2)) * 0.5 + 12;
  const width = left + columns.length * size + right;
  const height = top + rows.length * size + 4;
  const fontSize = `--label: ${Math.min(12.5, 0.8 * size)}px`; // labels of rows do not overlap
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", style: fontSize });
  svg.append(...columnLabels(columns, left, top, size), ...rowLabels(rows, left, top, size));
  for (let r = 0; r < rows.length; r += 1) {
    for (let c = 0; c < columns.length; c += 1) {
      const box = { x: left + c * size, y: top + r * size, width: size, height: size };
      const weight = figure.weight(r, c);
      if (figure.masked?.(r, c)) svg.append(s("rect", { ...box, class: "masked" }));
      else if (Math.abs(weight) > MIN_VISIBLE_WEIGHT) {
        const fill = weight < 0 ? "var(--negative)" : "var(--positive)";
        svg.append(s("rect", { ...box, fill, "fill-opacity": Math.min(1, Math.abs(weight)) }));
      }
    }
  }
  svg.append(...gridLines(left, top, rows.length, columns.length, size));
  if (selectedRow !== null) {
    svg.append(s("rect", { class: "selected", x: left, y: top + selectedRow * size, width: columns.length * size, height: size }));
  }
  svg.append(pointerSurface(figure, left, top, size, onSelect));
  return svg;
}

function gridLines(left, top, rows, columns, size) {
  const lines = [s("rect", { class: "grid", x: left, y: top, width: columns * size, height: rows * size })];
  const every = size >= 18 ? 1 : 5;
  for (let c = every; c < columns; c += every) lines.push(s("path", { class: "grid", "stroke-opacity": 0.5, d: `M${left + c * size},${top}v${rows * size}` }));
  for (let r = every; r < rows; r += every) lines.push(s("path", { class: "grid", "stroke-opacity": 0.5, d: `M${left},${top + r * size}h${columns * size}` }));
  return lines;
}

// Returns one transparent surface that handles the pointer for all cells.
function pointerSurface(figure, left, top, size, onSelect) {
  const { rows, columns } = figure;
  const area = s("rect", { class: "surface", x: left, y: top, width: columns.length * size, height: rows.length * size });
  let cell = [0, 0];
  const locate = (event) => {
    const box = area.getBoundingClientRect();
    const index = (x, count) => Math.max(0, Math.min(count - 1, Math.floor(x / size)));
    cell = [index(event.clientY - box.top, rows.length), index(event.clientX - box.left, columns.length)];
  };
  area.addEventListener("pointermove", locate);
  addTooltip(area, () => figure.text(...cell));
  if (onSelect) area.addEventListener("click", (event) => { locate(event); onSelect(cell[0]); });
  return area;
}

// Draws queries on the left and keys on the right, connected by lines whose width shows the weight.
export function attentionLines(figure, selectedRow = null, onSelect = null) {
  const { rows, columns } = figure;
  const rowHeight = 22;
  const left = maxTextWidth(rows) + 18;
  const right = left + 300;
  const height = Math.max(rows.length, columns.length) * rowHeight + 12;
  const width = right + maxTextWidth(columns) + 18;
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  const y = (i) => i * rowHeight + rowHeight / 2 + 6;
  for (let r = 0; r < rows.length; r += 1) {
    for (let c = 0; c < columns.length; c += 1) {
      const weight = figure.weight(r, c);
      if (weight <= 0.02 || (selectedRow !== null && selectedRow !== r)) continue;
      const bend = `C${left + 140},${y(r)} ${right - 140},${y(c)} ${right},${y(c)}`;
      const line = s("path", { d: `M${left},${y(r)}${bend}`, fill: "none", stroke: "var(--positive)", "stroke-width": 0.5 + 4 * weight, "stroke-opacity": 0.15 + 0.8 * weight });
      svg.append(addTooltip(line, figure.text(r, c)));
    }
  }
  rows.forEach((label, r) => {
    const text = s("text", { x: left - 6, y: y(r) + 4, "text-anchor": "end", style: "cursor:pointer" }, label);
    if (r === selectedRow) text.setAttribute("font-weight", 700);
    if (onSelect) text.addEventListener("click", () => onSelect(r));
    svg.append(text);
  });
  columns.forEach((label, c) => svg.append(s("text", { x: right + 6, y: y(c) + 4 }, label)));
  return svg;
}

// Draws one head as a small image with one pixel per cell.
export function thumbnail(weights, head, size, color) {
  const [, rows, columns] = weights.shape;
  const canvas = h("canvas", { width: columns, height: rows });
  canvas.style.width = `${Math.round(size * Math.min(1, columns / rows))}px`;
  canvas.style.height = `${Math.round(size * Math.min(1, rows / columns))}px`;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let r = 0; r < rows; r += 1) {
    weights.row(head, r).forEach((weight, c) => {
      image.data.set([...color, Math.round(255 * Math.sqrt(weight))], 4 * (r * columns + c));
    });
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

export const cellText = (figure, r, c, weight) => `${figure.rows[r]} → ${figure.columns[c]}: ${formatPercent(weight)}`;
