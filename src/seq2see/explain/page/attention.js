// The chosen attention: thumbnails of all heads, one of them large.
import { element, find, hint, short, tabs, unpacked } from "./base.js";
import { cellText, lines, matrix, paint, thumbnail } from "./figures.js";

const KINDS = { "decoder.cross": "cross-attention", "encoder.self": "encoder", "decoder.self": "decoder" };

export function labels(trace, axis, size) {
  const emitted = trace.target.tokens.map((token) => token.text);
  if (axis === "source") return trace.source.tokens.map((token) => token.text);
  if (axis === "output") return emitted;
  if (axis === "input") return [trace.start.text, ...emitted.slice(0, -1)];
  return Array.from({ length: size }, (_, i) => `mixture ${i}`);
}

export class AttentionView {
  constructor(trace, onChange) {
    this.trace = trace;
    this.onChange = onChange;
    this.maps = trace.attention.map((map) => ({ ...map, weights: unpacked(map.weights), mask: map.mask && unpacked(map.mask) }));
    this.kinds = Object.entries(KINDS).filter(([kind]) => this.ofKind(kind).length);
    this.form = "matrix";
    this.query = null;
    this.chooseKind(this.kinds[0][0]);
  }

  ofKind(kind) {
    return this.maps.filter((map) => `${map.stack}.${map.kind}` === kind);
  }

  chooseKind(kind) {
    this.kind = kind;
    this.choose(this.ofKind(kind).at(-1), 0);
  }

  choose(map, head) {
    this.map = map;
    this.head = head; // "mean" is the mean over all
    this.query = null;
    this.draw();
  }

  // The query to work out: the one that was picked, or the last word's.
  shownQuery() {
    return this.query ?? Math.max(0, this.map.weights.shape[1] - 3);
  }

  pick(query) {
    this.query = this.query === query && this.form === "lines" ? null : query;
    this.draw();
  }

  weight(r, c) {
    if (this.head !== "mean") return this.map.weights.row(this.head, r)[c];
    let sum = 0;
    for (let h = 0; h < this.map.weights.shape[0]; h += 1) sum += this.map.weights.row(h, r)[c];
    return sum / this.map.weights.shape[0];
  }

  hidden(r, c) {
    const { mask } = this.map;
    if (!mask) return false;
    return (mask.shape.length === 2 ? mask.row(r) : mask.row(this.head === "mean" ? 0 : this.head, r))[c] === 1;
  }

  figure() {
    const { map } = this;
    const [, rows, columns] = map.weights.shape;
    const figure = {
      rows: labels(this.trace, map.rows, rows),
      columns: labels(this.trace, map.columns, columns),
      weight: (r, c) => this.weight(r, c),
      hidden: (r, c) => this.hidden(r, c),
    };
    figure.text = (r, c) => (figure.hidden(r, c) ? `${figure.rows[r]} must not look at ${figure.columns[c]}` : cellText(figure, r, c, figure.weight(r, c)));
    return figure;
  }

  draw() {
    tabs(find("#kinds"), this.kinds, this.kind, (kind) => this.chooseKind(kind));
    tabs(find("#forms"), [["matrix", "matrix"], ["lines", "lines"]], this.form, (form) => { this.form = form; this.draw(); });
    const head = this.head === "mean" ? "mean of all heads" : `head ${this.head}`;
    const about = this.head === "mean" ? "" : `  ·  entropy ${short(this.map.heads[this.head].entropy, 2)}`;
    const off = this.map.off.includes(this.head) ? "  ·  switched off" : "";
    find("#chosen").textContent = `${this.map.stack} layer ${this.map.layer}, ${this.map.kind}, ${head}${about}${off}`;
    const pick = (query) => this.pick(query);
    find("#figure").replaceChildren(this.form === "matrix" ? matrix(this.figure(), this.shownQuery(), pick) : lines(this.figure(), this.query, pick));
    this.drawHeads();
    this.onChange(this);
  }

  drawHeads() {
    const maps = this.ofKind(this.kind);
    const heads = maps[0].weights.shape[0];
    const size = Math.max(34, Math.min(74, Math.floor(560 / (heads + 1)) - 8));
    const grid = element("div", { class: "heads-grid", style: `grid-template-columns: repeat(${heads + 1}, max-content)` });
    grid.append(element("span", {}), ...Array.from({ length: heads }, (_, h) => element("span", { class: "name" }, `head ${h}`)));
    for (const map of [...maps].reverse()) {
      const mean = element("button", { type: "button", "aria-pressed": map === this.map && this.head === "mean", style: "line-height:1.2;padding:6px 8px" }, `layer ${map.layer}`);
      mean.addEventListener("click", () => this.choose(map, "mean"));
      grid.append(hint(mean, "the mean of its heads"));
      for (let h = 0; h < heads; h += 1) grid.append(this.headButton(map, h, size));
    }
    find("#heads").replaceChildren(grid);
  }

  headButton(map, head, size) {
    const canvas = thumbnail(map.weights, size);
    paint(canvas, map.weights, head, this.colour());
    const chosen = map === this.map && head === this.head;
    const button = element("button", { type: "button", "aria-pressed": chosen, "aria-label": `layer ${map.layer}, head ${head}` }, canvas);
    if (map.off.includes(head)) button.classList.add("off");
    button.addEventListener("click", () => this.choose(map, head));
    const { entropy, peak, distance } = map.heads[head];
    const far = distance === null ? "" : `\nlooks ${short(distance, 1)} tokens far`;
    return hint(button, `layer ${map.layer}, head ${head}\nentropy ${short(entropy, 2)}, largest weight ${short(peak, 2)}${far}`);
  }

  colour() {
    const hex = getComputedStyle(document.documentElement).getPropertyValue("--mark").trim();
    return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  }
}
