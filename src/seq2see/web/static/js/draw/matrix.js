// A matrix with labels, as cells or as lines, as a thumbnail, and as a heatmap. Rows are queries, columns are keys.
import { addTooltip, h, maxTextWidth, pressable, s, themeColor } from "../dom.js";
import { clamp, formatNumber } from "../format.js";

const MIN_VISIBLE_SHARE = 0.004; // smaller shares would be invisible and are not drawn

const cellColor = (share) => `rgb(var(--${share < 0 ? "negative" : "positive"}) / ${Math.min(1, Math.abs(share)).toFixed(3)})`;

// selected: [row, column], or null if cells cannot be selected
// figure: {name, role, rows, columns, share(r, c) from −1 to 1, masked(r, c), text(r, c), availableWidth}; `availableWidth`
// is the width of the parent if that is not the page's.
export function matrix(figure, selected, onSelect) {
  const { rows, columns } = figure;
  const labelWidth = maxTextWidth(rows) + maxTextWidth(columns.slice(-2)) * 0.5 + 22;
  const space = figure.availableWidth ? figure.availableWidth - labelWidth : innerWidth - 170;
  const size = clamp(Math.floor(Math.min(620, space) / Math.max(rows.length, columns.length)), 13, 30);
  const fontSize = Math.min(12.5, 0.82 * size);
  const left = maxTextWidth(rows, fontSize) + 14;
  const top = maxTextWidth(columns, fontSize) * 0.87 + 14;
  const width = left + columns.length * size + maxTextWidth(columns.slice(-2), fontSize) * 0.5 + 8;
  const height = top + rows.length * size + 3;
  const svg = s("svg", { class: "matrix", width, height, viewBox: `0 0 ${width} ${height}`, tabindex: selected ? 0 : null, role: selected ? "application" : "img",
    "aria-label": figure.name, "aria-roledescription": figure.role, data: { key: "matrix" }, style: { "--label": `${fontSize}px` } });
  columns.forEach((text, i) => svg.append(s(
    "text",
    { transform: `translate(${left + (i + 0.62) * size},${top - 5}) rotate(-60)`, class: i === selected?.[1] ? "selected" : null },
    text,
  )));
  rows.forEach((text, i) => svg.append(s(
    "text",
    { x: left - 7, y: top + (i + 0.5) * size + fontSize * 0.35, "text-anchor": "end", class: i === selected?.[0] ? "selected" : null },
    text,
  )));
  drawCells(svg, figure, left, top, size);
  svg.append(grid(left, top, rows.length, columns.length, size));
  if (selected) svg.append(s("rect", { class: "selected-row", x: left, y: top + selected[0] * size, width: columns.length * size, height: size }));
  if (selected) svg.append(s("rect", { class: "selected-cell", x: left + selected[1] * size, y: top + selected[0] * size, width: size, height: size }));
  // One transparent surface handles the pointer for all cells.
  const surface = s("rect", { class: "surface", x: left, y: top, width: columns.length * size, height: rows.length * size });
  svg.append(surface);
  addCellEvents(surface, svg, [rows.length, columns.length], selected, selected && onSelect, figure.text);
  return svg;
}

function drawCells(svg, figure, left, top, size) {
  for (let r = 0; r < figure.rows.length; r += 1) {
    for (let c = 0; c < figure.columns.length; c += 1) {
      const box = { x: left + c * size, y: top + r * size, width: size, height: size };
      const share = figure.share(r, c);
      if (figure.masked(r, c)) svg.append(s("path", { class: "masked-cell", d: `M${box.x},${box.y + size}l${size},${-size}` }));
      else if (Math.abs(share) > MIN_VISIBLE_SHARE) svg.append(s("rect", { ...box, style: { fill: cellColor(share) } }));
    }
  }
}

function grid(left, top, rows, columns, size) {
  const every = size >= 17 ? 1 : 5;
  const offsets = (count) => Array.from({ length: Math.floor((count - 1) / every) }, (_, i) => (i + 1) * every * size);
  const vertical = offsets(columns).map((x) => `M${left + x},${top}v${rows * size}`);
  const horizontal = offsets(rows).map((y) => `M${left},${top + y}h${columns * size}`);
  return s(
    "g", { class: "grid" },
    s("rect", { x: left, y: top, width: columns * size, height: rows * size }),
    s("path", { d: [...vertical, ...horizontal].join("") }),
  );
}

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// Adds a tooltip for each cell of a surface, the click that selects it, and the arrow keys, which `focusable` receives.
function addCellEvents(surface, focusable, [height, width], selected, onSelect, text) {
  const clampCell = ([r, c]) => [clamp(r, 0, height - 1), clamp(c, 0, width - 1)];
  let cell = selected ?? [0, 0];
  const locate = (event) => {
    const box = surface.getBoundingClientRect();
    cell = clampCell([Math.floor((event.clientY - box.top) / box.height * height), Math.floor((event.clientX - box.left) / box.width * width)]);
  };
  surface.addEventListener("pointermove", locate);
  addTooltip(surface, () => text(...cell));
  if (!onSelect) return;
  surface.addEventListener("click", (event) => { locate(event); onSelect(...cell); });
  focusable.addEventListener("keydown", (event) => {
    const move = selected && MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    onSelect(...clampCell([selected[0] + move[0], selected[1] + move[1]]));
  });
}

// Draws queries on the left and keys on the right, connected by lines whose width shows the weight.
export function attentionLines(figure, selected, onSelect) {
  const { rows, columns } = figure;
  const rowHeight = 23;
  const left = maxTextWidth(rows) + 16;
  const right = left + clamp(innerWidth - 2 * left - 80, 120, 300);
  const width = right + maxTextWidth(columns) + 16;
  const height = Math.max(rows.length, columns.length) * rowHeight + 8;
  const y = (i) => i * rowHeight + rowHeight / 2 + 4;
  const svg = s("svg", { class: "lines", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": figure.name });
  for (let r = 0; r < rows.length; r += 1) {
    for (let c = 0; c < columns.length; c += 1) {
      const share = figure.masked(r, c) ? 0 : figure.share(r, c);
      if (Math.abs(share) <= 0.02) continue;
      const bend = (right - left) * 0.45;
      const line = s("path", { class: "line", d: `M${left},${y(r)}C${left + bend},${y(r)} ${right - bend},${y(c)} ${right},${y(c)}`,
        "stroke-width": 0.6 + 4 * Math.abs(share), style: { stroke: cellColor((r === selected[0] ? 0.95 : 0.4) * Math.sign(share) * (0.15 + 0.85 * Math.abs(share))) } });
      svg.append(addTooltip(line, () => figure.text(r, c)));
    }
  }
  rows.forEach((text, r) => svg.append(s("text", {
    x: left - 6, y: y(r) + 4, "text-anchor": "end", class: r === selected[0] ? "selected selectable" : "selectable", role: "button", tabindex: 0, data: { key: `line:${r}` },
    on: pressable(() => onSelect(r, selected[1])),
  }, text)));
  columns.forEach((text, c) => svg.append(s("text", { x: right + 6, y: y(c) + 4, "font-weight": c === selected[1] ? 700 : null }, text)));
  return svg;
}

// Draws a small matrix, in which small shares are visible too: share(r, c) from −1 to 1.
export function thumbnail(rows, columns, share, size) {
  const pixels = (ratio) => `${Math.max(8, Math.round(size * Math.min(1, ratio)))}px`;
  const canvas = h("canvas", { width: columns, height: rows, style: { width: pixels(columns / rows), height: pixels(rows / columns) } });
  const enhance = (x) => Math.sign(x) * Math.min(1, Math.sqrt(Math.abs(x)));
  return drawPixels(canvas, (r, c) => enhance(share(r, c)));
}

// Draws a large matrix without labels: blue for positive values, orange for negative ones.
// rows: vectors; selected: [row, column], or null if the whole heatmap is a button
export function heatmap(rows, selected, onSelect, name) {
  const [height, width] = [rows.length, rows[0].length];
  const role = selected ? "application" : "button";
  const canvas = h("canvas", { class: "heat", width, height, role, "aria-label": name, tabindex: 0, data: { key: `heat:${name}` }, on: selected ? {} : pressable(onSelect) });
  const largest = rows.reduce((max, row) => row.reduce((a, x) => Math.max(a, Math.abs(x)), max), 1e-12);
  addCellEvents(canvas, canvas, [height, width], selected, selected && onSelect, (r, c) => `${name}\n${r}, ${c}: ${formatNumber(rows[r][c], 4)}`);
  return drawPixels(canvas, (r, c) => rows[r][c] / largest);
}

// Draws one pixel per cell: share(r, c) from −1 to 1.
function drawPixels(canvas, share) {
  const { width: columns, height: rows } = canvas;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const [positive, negative] = [themeColor("positive"), themeColor("negative")];
  for (let r = 0; r < rows; r += 1) {
    for (let c = 0; c < columns; c += 1) {
      const value = share(r, c);
      image.data.set([...(value < 0 ? negative : positive), Math.round(255 * Math.abs(value))], 4 * (r * columns + c));
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
