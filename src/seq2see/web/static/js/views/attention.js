// Attention: thumbnails of all heads, one attention map, and the computation of its weights.
import { attentionSteps, isMaskedKey } from "../attention_steps.js";
import { addTooltip, button, h, replaceContent, segmented } from "../dom.js";
import { attentionLines, matrix, thumbnail } from "../draw/matrix.js";
import { trace as embeddedTrace } from "../embedded.js";
import { decodeTensor, formatExact, formatNumber, formatPercent, parseInteger } from "../format.js";
import { t } from "../i18n.js";
import { modelConfig } from "../service_info.js";
import { set } from "../state.js";
import { groupTokens } from "../tokens.js";
import { isLongText, traceRequest, traceView } from "../trace_view.js";

const KINDS = ["decoder.cross", "encoder.self", "decoder.self"];
const STAGES = ["weights", "masked", "scores"];

export function mount(root) {
  root.append(h("h1", {}, t("attention.title")), h("p", { class: "lead" }, t("attention.lead")));
  const parts = {
    controls: h("div", { class: "controls" }), heads: h("div", { class: "scroll" }),
    figure: h("div", { class: "scroll" }),
    readout: h("p", { class: "readout num", "aria-live": "polite" }), summary: h("p", { class: "note num" }),
    steps: h("section", { class: "card" }),
  };
  const body = h("div", { hidden: true }, parts.controls,
    h("div", { class: "columns heads-and-figure" },
      h("section", { class: "card" }, h("h2", {}, t("heads")), h("p", { class: "note" }, t("heads.note")), parts.heads),
      h("section", { class: "card" }, parts.summary, parts.readout, parts.figure)),
    parts.steps);
  const request = async (state, info, signal) => traceRequest(state, info, { layers: await detailedLayer(state, info, signal) });
  return traceView(root, body, request, (state, trace) => draw(parts, state, trace));
}

// Returns the layer that a long text needs scores of: the selected one, if the model has it.
async function detailedLayer(state, info, signal) {
  const config = state.layer && isLongText(state, info) ? await modelConfig(state, info, signal) : null;
  if (!config) return undefined;
  const [stack] = (KINDS.includes(state.kind) ? state.kind : KINDS[0]).split(".");
  const last = config[`${stack}_layers`] - 1;
  return `${stack}.${parseInteger(state.layer, last, 0, last)}`;
}

function selectMap(state, trace) {
  const kinds = KINDS.filter((kind) => trace.attention.some((map) => `${map.stack}.${map.kind}` === kind));
  const kind = kinds.includes(state.kind) ? state.kind : kinds[0];
  const maps = trace.attention.filter((map) => `${map.stack}.${map.kind}` === kind);
  const map = maps[parseInteger(state.layer, maps.length - 1, 0, maps.length - 1)];
  const heads = map.weights.shape[0];
  const head = state.head === "mean" ? "mean" : parseInteger(state.head, 0, 0, heads - 1);
  return { kinds, kind, maps, map, head, heads };
}

// Values of one head of an attention map, by token or by word, for the functions of draw/matrix.js.
class HeadFigure {
  constructor(trace, map, head, stage, byWord) {
    const [, rows, columns] = map.weights.shape;
    Object.assign(this, { map, head, stage });
    this.values = decodeTensor(stage === "weights" || !map.scores ? map.weights : map.scores);
    this.rowGroups = groupTokens(trace, map.query_axis, rows, byWord);
    this.columnGroups = groupTokens(trace, map.key_axis, columns, byWord && map.key_axis !== "projection");
    this.rows = this.rowGroups.map(({ text }) => text);
    this.columns = this.columnGroups.map(({ text }) => text);
    this.largest = stage === "weights" ? 1 : this.largestValue();
  }

  largestValue() {
    let largest = 1e-9;
    this.rows.forEach((_, r) => this.columns.forEach((__, c) => { if (!this.isInMask(r, c)) largest = Math.max(largest, Math.abs(this.value(r, c))); }));
    return largest;
  }

  heads() {
    return this.head === "mean" ? Array.from({ length: this.map.weights.shape[0] }, (_, i) => i) : [this.head];
  }

  // Weights are summed over the keys of a word and averaged over its queries.
  value(r, c) {
    const [queries, keys] = [this.rowGroups[r].members, this.columnGroups[c].members];
    let sum = 0;
    for (const head of this.heads()) for (const q of queries) for (const k of keys) sum += this.values.row(head, q)[k];
    return sum / (this.heads().length * queries.length * (this.stage === "weights" ? 1 : keys.length));
  }

  isInMask(r, c) {
    return isMaskedKey(this.map, this.head === "mean" ? 0 : this.head, this.rowGroups[r].members.at(-1), this.columnGroups[c].members[0]);
  }

  // Raw scores are not masked, but the later keys of the decoder have none.
  masked(r, c) {
    return this.isInMask(r, c) && (this.stage !== "scores" || this.value(r, c) === 0);
  }

  share(r, c) {
    return this.value(r, c) / this.largest;
  }

  text(r, c) {
    if (this.masked(r, c)) return t("attention.masked", { row: this.rows[r], column: this.columns[c] });
    const value = this.value(r, c);
    return `${this.rows[r]} → ${this.columns[c]}: ${this.stage === "weights" ? formatPercent(value) : formatNumber(value)}`;
  }
}

function draw(parts, state, trace) {
  const { kinds, kind, maps, map, head, heads } = selectMap(state, trace);
  const stage = STAGES.includes(state.stage) ? state.stage : "weights";
  const form = state.form === "lines" ? "lines" : "matrix";
  const byWord = state.unit === "words";
  replaceContent(parts.controls,
    segmented(
      t("attention.kind"), kinds.map((name) => [name, t(`kind.${name}`)]), kind,
      (name) => set({ kind: name, layer: null, row: null, column: null }),
    ),
    segmented(t("attention.form"), [["matrix", t("matrix")], ["lines", t("lines")]], form, (name) => set({ form: name })),
    segmented(
      t("attention.unit"), [["tokens", t("subwords")], ["words", t("words")]], byWord ? "words" : "tokens",
      (name) => set({ unit: name, row: null, column: null }),
    ),
    segmented(
      t("attention.stage"), STAGES.map((name) => [name, t(`stage.${name}`)]), stage,
      (name) => set({ stage: name, ...(name === "weights" ? {} : { layer: maps.indexOf(map) }) }),
    ));
  replaceContent(parts.heads, headTable(trace, maps, map, head, heads));
  const figure = Object.assign(new HeadFigure(trace, map, head, stage, byWord), { role: t("matrix") });
  figure.name = t("attention.figure", { name: `${map.stack}.${map.layer}.${map.kind}` });
  const row = parseInteger(state.row, Math.max(0, figure.rows.length - 3), 0, figure.rows.length - 1);
  const selected = [row, parseInteger(state.column, strongestColumn(figure, row), 0, figure.columns.length - 1)];
  const select = (r, c) => set({ row: r, column: c });
  drawSummary(parts, map, head);
  drawReadout(parts, figure, selected);
  replaceContent(
    parts.figure,
    stage !== "weights" && !map.scores ? h(
      "p", { class: "note" }, t(embeddedTrace ? "attention.unrecorded" : "attention.missing", { layer: `${map.stack}.${map.layer}` }),
    ) : form === "lines" ? attentionLines(figure, selected, select) : matrix(figure, selected, select),
  );
  replaceContent(parts.steps, attentionSteps(trace, map, head, figure.rowGroups[row].members.at(-1)));
}

function strongestColumn(figure, row) {
  return figure.columns.reduce((best, _, c) => (figure.value(row, c) > figure.value(row, best) ? c : best), 0);
}

function drawSummary(parts, map, head) {
  const name = head === "mean" ? t("head.mean") : t("head.n", { head });
  const texts = [t("attention.layer", { stack: t(`stack.${map.stack}`), layer: map.layer }), name];
  if (head !== "mean") {
    const { entropy, max_weight: maxWeight, distance } = map.head_summaries[head];
    texts.push(t("head.entropy", { value: formatNumber(entropy, 2) }), t("head.max_weight", { value: formatPercent(maxWeight) }));
    if (distance !== null) texts.push(t("head.distance", { value: formatNumber(distance, 1) }));
    if (map.ablated_heads.includes(head)) texts.push(t("head.ablated"));
  }
  parts.summary.textContent = texts.join(" · ");
}

function drawReadout(parts, figure, [r, c]) {
  const value = figure.value(r, c);
  replaceContent(parts.readout, h("b", { dir: "auto" }, figure.rows[r]), " → ", h("b", { dir: "auto" }, figure.columns[c]), " ",
    figure.masked(r, c) ? t("masked") : h("span", { data: { number: "cell" } }, formatExact(value)));
}

function headTable(trace, maps, selectedMap, selectedHead, heads) {
  const space = Math.min(520, innerWidth - 110); // five columns fit on a phone
  const size = Math.max(38, Math.min(84, Math.floor(space / (heads + 1)) - 12));
  const [, rows, columns] = selectedMap.weights.shape;
  const cell = (map, head) => {
    const figure = new HeadFigure(trace, map, head, "weights", false);
    const label = `${map.stack}.${map.layer}.${map.kind}.${head}`;
    const tooltip = () => {
      const { entropy, max_weight: maxWeight } = map.head_summaries[head];
      return `${label}\n${t("head.entropy", { value: formatNumber(entropy, 2) })}, ${t("head.max_weight", { value: formatPercent(maxWeight) })}`;
    };
    return h("td", {}, addTooltip(
      button(thumbnail(rows, columns, (r, c) => figure.value(r, c), size), () => set({ layer: maps.indexOf(map), head, row: null, column: null }), {
        class: map.ablated_heads.includes(head) ? "thumb ablated" : "thumb", "aria-label": label,
        "aria-pressed": String(map === selectedMap && head === selectedHead), data: { key: label },
      }),
      head === "mean" ? label : tooltip,
    ));
  };
  const allHeads = [...Array(heads).keys(), "mean"];
  return h("table", { class: "heads" },
    h("thead", {}, h("tr", {}, h("th", {}), allHeads.map((head) => h("th", { scope: "col" }, head === "mean" ? t("mean") : head)))),
    h(
      "tbody", {},
      maps.map((map) => h("tr", {}, h("th", { scope: "row" }, t("layer.n", { layer: map.layer })), allHeads.map((head) => cell(map, head)))),
    ));
}
