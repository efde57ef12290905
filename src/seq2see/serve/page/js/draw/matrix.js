// A matrix of numbers: large with its labels, as lines, or small. Rows are queries, columns are keys.
import { colour, h, hint, s, widest } from "../dom.js";
import { clamp } from "../numbers.js";

const FAINT = 0.004; // what is below is not drawn: nobody would see it

const paint = (share) => `rgb(var(--${share < 0 ? "against" : "mark"}) / ${Math.min(1, Math.abs(share)).toFixed(3)})`;

// `picked` is a [row, column], or null where nothing is to be picked.
// figure: {name, role, rows, columns, share(r, c) from −1 to 1, hidden(r, c), text(r, c)};
// `room` is the width of its place, where that is not the page's.
export function matrix(figure, picked, pick) {
  const { rows, columns } = figure;
  const beside = widest(rows) + widest(columns.slice(-2)) * 0.5 + 22;
  const space = figure.room ? figure.room - beside : innerWidth - 170;
  const size = clamp(Math.floor(Math.min(620, space) / Math.max(rows.length, columns.length)), 13, 30);
  const label = Math.min(12.5, 0.82 * size);
  const left = widest(rows, label) + 14;
  const top = widest(columns, label) * 0.87 + 14;
  const width = left + columns.length * size + widest(columns.slice(-2), label) * 0.5 + 8;
  const height = top + rows.length * size + 3;
  const svg = s("svg", { class: "matrix", width, height, viewBox: `0 0 ${width} ${height}`, tabindex: picked ? 0 : null, role: picked ? "application" : "img",
    "aria-label": figure.name, "aria-roledescription": figure.role, data: { key: "matrix" }, style: { "--label": `${label}px` } });
  columns.forEach((text, i) => svg.append(s(
    "text",
    { transform: `translate(${left + (i + 0.62) * size},${top - 5}) rotate(-60)`, class: i === picked?.[1] ? "picked" : null },
    text,
  )));
  rows.forEach((text, i) => svg.append(s(
    "text",
    { x: left - 7, y: top + (i + 0.5) * size + label * 0.35, "text-anchor": "end", class: i === picked?.[0] ? "picked" : null },
    text,
  )));
  cells(svg, figure, left, top, size);
  svg.append(grid(left, top, rows.length, columns.length, size));
  if (picked) svg.append(s("rect", { class: "picked-row", x: left, y: top + picked[0] * size, width: columns.length * size, height: size }));
  if (picked) svg.append(s("rect", { class: "picked-cell", x: left + picked[1] * size, y: top + picked[0] * size, width: size, height: size }));
  hear(svg, figure, [left, top, size], picked, pick);
  return svg;
}

function cells(svg, figure, left, top, size) {
  for (let r = 0; r < figure.rows.length; r += 1) {
    for (let c = 0; c < figure.columns.length; c += 1) {
      const place = { x: left + c * size, y: top + r * size, width: size, height: size };
      const share = figure.share(r, c);
      if (figure.hidden(r, c)) svg.append(s("path", { class: "hidden-cell", d: `M${place.x},${place.y + size}l${size},${-size}` }));
      else if (Math.abs(share) > FAINT) svg.append(s("rect", { ...place, style: { fill: paint(share) } }));
    }
  }
}

function grid(left, top, rows, columns, size) {
  const every = size >= 17 ? 1 : 5;
  const at = (count) => Array.from({ length: Math.floor((count - 1) / every) }, (_, i) => (i + 1) * every * size);
  const down = at(columns).map((x) => `M${left + x},${top}v${rows * size}`);
  const across = at(rows).map((y) => `M${left},${top + y}h${columns * size}`);
  return s(
    "g", { class: "grid" },
    s("rect", { x: left, y: top, width: columns * size, height: rows * size }),
    s("path", { d: [...down, ...across].join("") }),
  );
}

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function hear(svg, figure, [left, top, size], picked, pick) {
  const bounded = ([r, c]) => [clamp(r, 0, figure.rows.length - 1), clamp(c, 0, figure.columns.length - 1)];
  const surface = s("rect", { class: "surface", x: left, y: top, width: figure.columns.length * size, height: figure.rows.length * size });
  let cell = picked ?? [0, 0];
  const locate = (event) => {
    const box = surface.getBoundingClientRect();
    const scale = size * (box.width / (figure.columns.length * size));
    cell = bounded([Math.floor((event.clientY - box.top) / scale), Math.floor((event.clientX - box.left) / scale)]);
  };
  surface.addEventListener("pointermove", locate);
  hint(surface, () => figure.text(...cell));
  svg.append(surface);
  if (!picked) return;
  surface.addEventListener("click", (event) => { locate(event); pick(...cell); });
  svg.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    pick(...bounded([picked[0] + move[0], picked[1] + move[1]]));
  });
}

// Queries on the left, keys on the right; the stronger, the thicker.
export function lines(figure, picked, pick) {
  const { rows, columns } = figure;
  const step = 23;
  const left = widest(rows) + 16;
  const right = left + clamp(innerWidth - 2 * left - 80, 120, 300);
  const width = right + widest(columns) + 16;
  const height = Math.max(rows.length, columns.length) * step + 8;
  const y = (i) => i * step + step / 2 + 4;
  const svg = s("svg", { class: "lines", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": figure.name });
  for (let r = 0; r < rows.length; r += 1) {
    for (let c = 0; c < columns.length; c += 1) {
      const share = figure.hidden(r, c) ? 0 : figure.share(r, c);
      if (Math.abs(share) <= 0.02) continue;
      const bend = (right - left) * 0.45;
      const line = s("path", { class: "line", d: `M${left},${y(r)}C${left + bend},${y(r)} ${right - bend},${y(c)} ${right},${y(c)}`,
        "stroke-width": 0.6 + 4 * Math.abs(share), style: { stroke: paint((r === picked[0] ? 0.95 : 0.4) * Math.sign(share) * (0.15 + 0.85 * Math.abs(share))) } });
      svg.append(hint(line, () => figure.text(r, c)));
    }
  }
  rows.forEach((text, r) => svg.append(s("text", {
    x: left - 6, y: y(r) + 4, "text-anchor": "end", class: r === picked[0] ? "picked pick" : "pick", role: "button", tabindex: 0, data: { key: `line:${r}` },
    on: {
      click: () => pick(r, picked[1]),
      keydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(r, picked[1]); } },
    },
  }, text)));
  columns.forEach((text, c) => svg.append(s("text", { x: right + 6, y: y(c) + 4, "font-weight": c === picked[1] ? 700 : null }, text)));
  return svg;
}

// A matrix at a glance, one pixel a cell: share(r, c) from −1 to 1.
export function thumbnail(rows, columns, share, size) {
  const canvas = h("canvas", { width: columns, height: rows, style: {
    width: `${Math.max(8, Math.round(size * Math.min(1, columns / rows)))}px`, height: `${Math.max(8, Math.round(size * Math.min(1, rows / columns)))}px`,
  } });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const [mark, against] = [colour("mark"), colour("against")];
  for (let r = 0; r < rows; r += 1) {
    for (let c = 0; c < columns; c += 1) {
      const value = share(r, c);
      image.data.set([...(value < 0 ? against : mark), Math.round(255 * Math.min(1, Math.sqrt(Math.abs(value))))], 4 * (r * columns + c));
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
