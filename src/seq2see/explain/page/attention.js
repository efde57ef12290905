// The attention view: thumbnails of all heads, and one head as a matrix or as lines.
import { addTooltip, decodeTensor, fillTabs, formatNumber, h, query } from "./dom.js";
import { attentionLines, cellText, matrix, thumbnail } from "./matrix.js";

const KINDS = { "decoder.cross": "cross-attention", "encoder.self": "encoder", "decoder.self": "decoder" };

export function axisLabels(trace, axis, size) {
  const target = trace.target.tokens.map((token) => token.text);
  if (axis === "source") return trace.source.tokens.map((token) => token.text);
  if (axis === "target") return target;
  if (axis === "decoder_input") return [trace.start_token.text, ...target.slice(0, -1)];
  return Array.from({ length: size }, (_, i) => `projection ${i}`);
}

export class AttentionView {
  constructor(trace, onChange) {
    this.trace = trace;
    this.onChange = onChange;
    this.maps = trace.attention.map((map) => ({ ...map, weights: decodeTensor(map.weights), mask: map.mask && decodeTensor(map.mask) }));
    this.kinds = Object.entries(KINDS).filter(([kind]) => this.mapsOfKind(kind).length);
    this.form = "matrix";
    this.query = null;
    this.selectKind(this.kinds[0][0]);
  }

  mapsOfKind(kind) {
    return this.maps.filter((map) => `${map.stack}.${map.kind}` === kind);
  }

  selectKind(kind) {
    this.kind = kind;
    this.selectHead(this.mapsOfKind(kind).at(-1), 0);
  }

  selectHead(map, head) {
    this.map = map;
    this.head = head; // a number, or "mean" for the mean of all heads
    this.query = null;
    this.draw();
  }

  // Returns the query whose computation is shown: the selected one, or that of the last word.
  currentQuery() {
    return this.query ?? Math.max(0, this.map.weights.shape[1] - 3);
  }

  selectQuery(index) {
    this.query = this.query === index && this.form === "lines" ? null : index;
    this.draw();
  }

  weight(r, c) {
    if (this.head !== "mean") return this.map.weights.row(this.head, r)[c];
    let sum = 0;
    for (let head = 0; head < this.map.weights.shape[0]; head += 1) sum += this.map.weights.row(head, r)[c];
    return sum / this.map.weights.shape[0];
  }

  isMasked(r, c) {
    const { mask } = this.map;
    if (!mask) return false;
    return (mask.shape.length === 2 ? mask.row(r) : mask.row(this.head === "mean" ? 0 : this.head, r))[c] === 1;
  }

  figure() {
    const { map } = this;
    const [, rows, columns] = map.weights.shape;
    const figure = {
      rows: axisLabels(this.trace, map.query_axis, rows),
      columns: axisLabels(this.trace, map.key_axis, columns),
      weight: (r, c) => this.weight(r, c),
      masked: (r, c) => this.isMasked(r, c),
    };
    figure.text = (r, c) => (figure.masked(r, c) ? `masked: ${figure.rows[r]} → ${figure.columns[c]}` : cellText(figure, r, c, figure.weight(r, c)));
    return figure;
  }

  draw() {
    fillTabs(query("#kinds"), this.kinds, this.kind, (kind) => this.selectKind(kind));
    fillTabs(query("#forms"), [["matrix", "matrix"], ["lines", "lines"]], this.form, (form) => { this.form = form; this.draw(); });
    const head = this.head === "mean" ? "mean of all heads" : `head ${this.head}`;
    const entropy = this.head === "mean" ? "" : `  ·  entropy ${formatNumber(this.map.head_summaries[this.head].entropy, 2)}`;
    const ablated = this.map.ablated_heads.includes(this.head) ? "  ·  ablated" : "";
    query("#selected").textContent = `${this.map.stack} layer ${this.map.layer}, ${this.map.kind}, ${head}${entropy}${ablated}`;
    const select = (index) => this.selectQuery(index);
    query("#figure").replaceChildren(this.form === "matrix" ? matrix(this.figure(), this.currentQuery(), select) : attentionLines(this.figure(), this.query, select));
    this.drawHeads();
    this.onChange(this);
  }

  drawHeads() {
    const maps = this.mapsOfKind(this.kind);
    const heads = maps[0].weights.shape[0];
    const size = Math.max(34, Math.min(74, Math.floor(560 / (heads + 1)) - 8));
    const grid = h("div", { class: "heads-grid", style: `grid-template-columns: repeat(${heads + 1}, max-content)` });
    grid.append(h("span", {}), ...Array.from({ length: heads }, (_, head) => h("span", { class: "name" }, `head ${head}`)));
    for (const map of [...maps].reverse()) {
      const mean = h("button", { type: "button", "aria-pressed": map === this.map && this.head === "mean", style: "line-height:1.2;padding:6px 8px" }, `layer ${map.layer}`);
      mean.addEventListener("click", () => this.selectHead(map, "mean"));
      grid.append(addTooltip(mean, "mean of the heads of this layer"));
      for (let head = 0; head < heads; head += 1) grid.append(this.headButton(map, head, size));
    }
    query("#heads").replaceChildren(grid);
  }

  headButton(map, head, size) {
    const canvas = thumbnail(map.weights, head, size, this.color());
    const isSelected = map === this.map && head === this.head;
    const button = h("button", { type: "button", "aria-pressed": isSelected, "aria-label": `layer ${map.layer}, head ${head}` }, canvas);
    if (map.ablated_heads.includes(head)) button.classList.add("ablated");
    button.addEventListener("click", () => this.selectHead(map, head));
    const { entropy, max_weight: maxWeight, distance } = map.head_summaries[head];
    const distanceText = distance === null ? "" : `\nmean distance ${formatNumber(distance, 1)} tokens`;
    return addTooltip(button, `layer ${map.layer}, head ${head}\nentropy ${formatNumber(entropy, 2)}, largest weight ${formatNumber(maxWeight, 2)}${distanceText}`);
  }

  color() {
    const hex = getComputedStyle(document.documentElement).getPropertyValue("--positive").trim();
    return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  }
}
