// Positions: the vectors of a model's positional encodings, and variants of sinusoids for comparison.
import { fetchJson } from "../api.js";
import { h, replaceContent, segmented, selectField, slider } from "../dom.js";
import { lineChart } from "../draw/line_chart.js";
import { heatmap } from "../draw/matrix.js";
import { loadingView } from "../errors.js";
import { decodeTensor, dotProduct, formatExact, parseInteger } from "../format.js";
import { t } from "../i18n.js";
import { directModel, serviceInfo } from "../service_info.js";
import { FREQUENCIES, LAYOUTS, sinusoid } from "../sinusoid.js";
import { set } from "../state.js";

const SIZES = [16, 32, 64, 128, 256, 512, 1024];
const NUM_POSITIONS = 64;

export function mount(root) {
  const parts = {
    lead: h("p", { class: "lead" }), status: h("p", { class: "status", role: "status" }), controls: h("div", { class: "row" }),
    heatmap: h("div", { class: "scroll" }),
    readout: h("p", { class: "readout num", "aria-live": "polite" }), charts: h("div", { class: "columns" }),
    variants: h("div", { class: "gallery" }),
  };
  parts.dimension = slider(t("dimension"), { min: 0, max: 1, step: 1 }, (column) => set({ column }));
  parts.position = slider(t("position"), { min: 0, max: NUM_POSITIONS - 1, step: 1 }, (row) => set({ row }));
  root.append(h("h1", {}, t("positions.title")), parts.lead, parts.status,
    h(
      "section", { class: "card" },
      h("div", { class: "controls" }, parts.controls), parts.heatmap, parts.readout,
      h("div", { class: "row" }, parts.position.element, parts.dimension.element),
    ),
    parts.charts,
    h("section", { class: "card" }, h("h2", {}, t("positions.variants")), h("p", { class: "note" }, t("positions.variants.note")), parts.variants));
  return loadingView(parts.status, load, (state, { model, own }) => draw(parts, state, model, own));
}

async function load(state, signal) {
  const info = await serviceInfo(signal);
  const model = directModel(state, info) ?? info.models[0];
  return { model, own: await fetchJson(`api/v1/models/${encodeURIComponent(model.name)}/positions`, undefined, { signal }) };
}

function modelVectors(own) {
  const vectors = decodeTensor(own.vectors);
  return Array.from({ length: vectors.shape[0] }, (_, i) => vectors.row(i));
}

function buildVariants(size, model, own) {
  const sinusoids = LAYOUTS.flatMap((layout) => FREQUENCIES.map((frequencies) => ({
    id: `${layout}.${frequencies}`,
    name: `${t(`layout.${layout}`)}, ${t(`frequencies.${frequencies}`)}`,
    vectors: sinusoid(NUM_POSITIONS, size, layout, frequencies),
  })));
  return [{ id: "model", name: t("positions.model", { model: model.name, kind: own.kind }), vectors: modelVectors(own) }, ...sinusoids];
}

// Returns which introduction describes a variant: that of the layout for sinusoids, else that of the kind of positions.
const leadOf = (id, own) => (id !== "model" ? id.split(".")[0] : own.kind === "sinusoid" ? own.layout : own.is_relative ? "relative" : own.kind);

function draw(parts, state, model, own) {
  const size = parseInteger(state.size, own.vectors.shape[1], 2, 2048);
  const variants = buildVariants(size, model, own);
  const selected = variants.find(({ id }) => id === state.variant) ?? variants[0];
  replaceContent(parts.lead, t(`positions.lead.${leadOf(selected.id, own)}`));
  const width = selected.vectors[0].length;
  const row = parseInteger(state.row, 5, 0, selected.vectors.length - 1);
  const column = parseInteger(state.column, 0, 0, width - 1);
  replaceContent(parts.controls,
    segmented(
      t("positions.variant"),
      variants.map(({ id }) => [id, id === "model" ? t("positions.own") : t(`variant.${id}`)]), selected.id,
      (variant) => set({ variant }),
    ),
    selectField(
      t("positions.size"),
      [...new Set([...SIZES, size])].sort((a, b) => a - b).map((n) => [String(n), String(n)]), String(size),
      (value) => set({ size: value }), { disabled: selected.id === "model", data: { key: "size" } },
    ));
  parts.dimension.input.max = width - 1;
  parts.dimension.show(column);
  parts.position.show(row);
  replaceContent(parts.heatmap, heatmap(selected.vectors, [row, column], (r, c) => set({ row: r, column: c }), t("positions.heatmap")));
  replaceContent(parts.readout, t("positions.cell", { row, column }), " = ", h("span", { data: { number: "position" } }, formatExact(selected.vectors[row][column])));
  drawCharts(parts, variants, selected, column, row);
  replaceContent(parts.variants, variants.map(({ id, name, vectors }) => {
    const canvas = heatmap(vectors, null, () => set({ variant: id }), name);
    canvas.setAttribute("aria-pressed", String(id === selected.id));
    return h("figure", { class: id === selected.id ? "variant is" : "variant" }, canvas, h("figcaption", { class: "note" }, name));
  }));
}

function drawCharts(parts, variants, selected, column, row) {
  const width = selected.vectors[0].length;
  const dimensions = [...new Set([column, column + 2, column + 4, column + 8].filter((d) => d < width))];
  const values = dimensions.map((d) => ({ name: t("dimension.n", { d }), points: selected.vectors.map((vector, p) => [p, vector[d]]) }));
  const products = variants.map(({ name, vectors }) => ({
    name,
    points: vectors.map((vector, p) => [p - row, dotProduct(vectors[Math.min(row, vectors.length - 1)], vector)]),
  }));
  replaceContent(parts.charts,
    h("section", { class: "card" }, lineChart(values, { name: t("positions.waves"), x: t("position"), digits: 6 })),
    h(
      "section", { class: "card" },
      lineChart(products, { name: t("positions.products", { row }), x: t("positions.offset"), digits: 6 }),
      h("p", { class: "note" }, t("positions.products.note")),
    ));
}
