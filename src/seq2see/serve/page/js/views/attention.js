// Attention: all heads at a glance, one large, and how it comes to its weights.
import { lines, matrix, thumbnail } from "../draw/matrix.js";
import { button, fill, h, hint, segmented } from "../dom.js";
import { exact, percent, short, unpack, whole } from "../numbers.js";
import { configOf, isLong, traceRequest, traceView } from "../sentence.js";
import { set } from "../store.js";
import { t } from "../text.js";
import { groups } from "../words.js";
import { worked } from "../worked.js";

const KINDS = ["decoder.cross", "encoder.self", "decoder.self"];
const STAGES = ["weights", "masked", "scores"];

export function mount(root) {
  root.append(h("h1", {}, t("attention.title")), h("p", { class: "lead" }, t("attention.lead")));
  const parts = {
    controls: h("div", { class: "controls" }), heads: h("div", { class: "scroll" }),
    figure: h("div", { class: "scroll" }),
    readout: h("p", { class: "readout num", "aria-live": "polite" }), about: h("p", { class: "note num" }),
    worked: h("section", { class: "card" }),
  };
  const body = h("div", { hidden: true }, parts.controls,
    h("div", { class: "columns heads-and-figure" },
      h("section", { class: "card" }, h("h2", {}, t("heads")), h("p", { class: "note" }, t("heads.note")), parts.heads),
      h("section", { class: "card" }, parts.about, parts.readout, parts.figure)),
    parts.worked);
  const wanted = async (state, found, signal) => traceRequest(state, found, { layers: await layerOf(state, found, signal) });
  return traceView(root, body, wanted, (state, trace) => draw(parts, state, trace));
}

// The layer that comes with its scores where not all do: the one that is looked at, if the model has it.
async function layerOf(state, found, signal) {
  const model = state.layer && isLong(state, found) ? await configOf(state, found, signal) : null;
  if (!model) return undefined;
  const [stack] = (KINDS.includes(state.kind) ? state.kind : KINDS[0]).split(".");
  const last = model[`${stack}_layers`] - 1;
  return `${stack}.${whole(state.layer, last, 0, last)}`;
}

function choose(state, trace) {
  const kinds = KINDS.filter((kind) => trace.attention.some((map) => `${map.stack}.${map.kind}` === kind));
  const kind = kinds.includes(state.kind) ? state.kind : kinds[0];
  const maps = trace.attention.filter((map) => `${map.stack}.${map.kind}` === kind);
  const map = maps[whole(state.layer, maps.length - 1, 0, maps.length - 1)];
  const heads = map.weights.shape[0];
  const head = state.head === "mean" ? "mean" : whole(state.head, 0, 0, heads - 1);
  return { kinds, kind, maps, map, head, heads };
}

// The numbers of one head of one attention, token by token or word by word.
class HeadFigure {
  constructor(trace, map, head, stage, byWord) {
    const [, rows, columns] = map.weights.shape;
    Object.assign(this, { map, head, stage });
    this.source = unpack(stage === "weights" || !map.scores ? map.weights : map.scores);
    this.mask = unpack(map.mask);
    this.rowGroups = groups(trace, map.rows, rows, byWord);
    this.columnGroups = groups(trace, map.columns, columns, byWord && map.columns !== "mixture");
    this.rows = this.rowGroups.map(({ text }) => text);
    this.columns = this.columnGroups.map(({ text }) => text);
    this.largest = stage === "weights" ? 1 : this.extent();
  }

  extent() {
    let most = 1e-9;
    this.rows.forEach((_, r) => this.columns.forEach((__, c) => { if (!this.mustNot(r, c)) most = Math.max(most, Math.abs(this.value(r, c))); }));
    return most;
  }

  heads() {
    return this.head === "mean" ? Array.from({ length: this.map.weights.shape[0] }, (_, i) => i) : [this.head];
  }

  // A word is looked at by the sum of its tokens' weights, and looks by their mean.
  value(r, c) {
    const [queries, keys] = [this.rowGroups[r].members, this.columnGroups[c].members];
    let sum = 0;
    for (const head of this.heads()) for (const q of queries) for (const k of keys) sum += this.source.row(head, q)[k];
    return sum / (this.heads().length * queries.length * (this.stage === "weights" ? 1 : keys.length));
  }

  mustNot(r, c) {
    if (!this.mask) return false;
    const [q, k] = [this.rowGroups[r].members.at(-1), this.columnGroups[c].members[0]];
    const row = this.mask.shape.length === 2 ? this.mask.row(q) : this.mask.row(this.head === "mean" ? 0 : this.head, q);
    return row[k] === 1;
  }

  // Before the mask there is nothing hidden; but the decoder's later keys did not exist yet.
  hidden(r, c) {
    return this.mustNot(r, c) && (this.stage !== "scores" || this.value(r, c) === 0);
  }

  share(r, c) {
    return this.value(r, c) / this.largest;
  }

  text(r, c) {
    if (this.hidden(r, c)) return t("attention.hidden", { row: this.rows[r], column: this.columns[c] });
    const value = this.value(r, c);
    return `${this.rows[r]} → ${this.columns[c]}: ${this.stage === "weights" ? percent(value) : short(value)}`;
  }
}

function draw(parts, state, trace) {
  const { kinds, kind, maps, map, head, heads } = choose(state, trace);
  const stage = STAGES.includes(state.stage) ? state.stage : "weights";
  const form = state.form === "lines" ? "lines" : "matrix";
  const byWord = state.unit === "words";
  fill(parts.controls,
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
  fill(parts.heads, grid(trace, maps, map, head, heads));
  const figure = Object.assign(new HeadFigure(trace, map, head, stage, byWord), { role: t("matrix") });
  figure.name = t("attention.figure", { name: `${map.stack}.${map.layer}.${map.kind}` });
  const picked = [
    whole(state.row, Math.max(0, figure.rows.length - 3), 0, figure.rows.length - 1),
    whole(state.column, strongest(figure, state), 0, figure.columns.length - 1),
  ];
  const pick = (row, column) => set({ row, column });
  about(parts, map, head);
  readout(parts, figure, picked);
  fill(
    parts.figure,
    stage !== "weights" && !map.scores ? h(
      "p", { class: "note" }, t("attention.missing"),
    ) : form === "lines" ? lines(figure, picked, pick) : matrix(figure, picked, pick),
  );
  fill(parts.worked, worked(trace, map, head, figure.rowGroups[picked[0]].members.at(-1)));
}

function strongest(figure, state) {
  const row = whole(state.row, Math.max(0, figure.rows.length - 3), 0, figure.rows.length - 1);
  return figure.columns.reduce((best, _, c) => (figure.value(row, c) > figure.value(row, best) ? c : best), 0);
}

function about(parts, map, head) {
  const name = head === "mean" ? t("head.mean") : t("head.n", { head });
  const told = [t("attention.where", { stack: t(`stack.${map.stack}`), layer: map.layer }), name];
  if (head !== "mean") {
    const { entropy, peak, distance } = map.heads[head];
    told.push(t("head.entropy", { value: short(entropy, 2) }), t("head.peak", { value: percent(peak) }));
    if (distance !== null) told.push(t("head.distance", { value: short(distance, 1) }));
    if (map.off.includes(head)) told.push(t("head.off"));
  }
  parts.about.textContent = told.join(" · ");
}

function readout(parts, figure, [r, c]) {
  const value = figure.value(r, c);
  fill(parts.readout, h("b", { dir: "auto" }, figure.rows[r]), " → ", h("b", { dir: "auto" }, figure.columns[c]), " ",
    figure.hidden(r, c) ? t("hidden") : h("span", { data: { number: "cell" } }, exact(value)));
}

function grid(trace, maps, map, head, heads) {
  const room = Math.min(520, innerWidth - 110); // so that five columns fit on a phone
  const size = Math.max(38, Math.min(84, Math.floor(room / (heads + 1)) - 12));
  const [, rows, columns] = map.weights.shape;
  const cell = (each, which) => {
    const weights = unpack(each.weights);
    const share = which === "mean" ? (r, c) => mean(weights, heads, r, c) : (r, c) => weights.row(which, r)[c];
    const label = `${each.stack}.${each.layer}.${each.kind}.${which}`;
    const made = button(thumbnail(rows, columns, share, size), () => set({ layer: maps.indexOf(each), head: which, row: null, column: null }), {
      class: each.off.includes(which) ? "thumb off" : "thumb", "aria-label": label, "aria-pressed": String(each === map && which === head), data: { key: label },
    });
    return h(
      "td", {},
      hint(
        made,
        which === "mean" ? label : () => `${label}\n${t("head.entropy", { value: short(each.heads[which].entropy, 2) })}, ${t("head.peak", { value: percent(each.heads[which].peak) })}`,
      ),
    );
  };
  const every = [...Array(heads).keys(), "mean"];
  return h("table", { class: "heads" },
    h("thead", {}, h("tr", {}, h("th", {}), every.map((which) => h("th", { scope: "col" }, which === "mean" ? t("mean") : which)))),
    h(
      "tbody", {},
      maps.map((each) => h("tr", {}, h("th", { scope: "row" }, t("layer.n", { layer: each.layer })), every.map((which) => cell(each, which)))),
    ));
}

function mean(weights, heads, r, c) {
  let sum = 0;
  for (let head = 0; head < heads; head += 1) sum += weights.row(head, r)[c];
  return sum / heads;
}
