// Positions: the vectors that say where a token stands, and what the variants have in common.
import { ask } from "../api.js";
import { curves } from "../draw/curves.js";
import { heatMap } from "../draw/heat.js";
import { choice, fill, h, segmented, slider } from "../dom.js";
import { dot, exact, unpack, whole } from "../numbers.js";
import { facts, modelOf, show, showError } from "../sentence.js";
import { FREQUENCIES, LAYOUTS, sinusoid } from "../sinusoid.js";
import { current, set } from "../store.js";
import { t } from "../text.js";

const SIZES = [16, 32, 64, 128, 256, 512, 1024];
const COUNT = 64;

export function mount(root) {
  const parts = {
    lead: h("p", { class: "lead" }), status: h("p", { class: "status", role: "status" }), controls: h("div", { class: "row" }),
    heat: h("div", { class: "scroll" }),
    readout: h("p", { class: "readout num", "aria-live": "polite" }), charts: h("div", { class: "columns" }),
    variants: h("div", { class: "gallery" }),
  };
  parts.dimension = slider(t("dimension"), { min: 0, max: 1, step: 1 }, (column) => set({ column }));
  parts.position = slider(t("position"), { min: 0, max: COUNT - 1, step: 1 }, (row) => set({ row }));
  root.append(h("h1", {}, t("positions.title")), parts.lead, parts.status,
    h(
      "section", { class: "card" },
      h("div", { class: "controls" }, parts.controls), parts.heat, parts.readout,
      h("div", { class: "row" }, parts.position.element, parts.dimension.element),
    ),
    parts.charts,
    h("section", { class: "card" }, h("h2", {}, t("positions.variants")), h("p", { class: "note" }, t("positions.variants.note")), parts.variants));
  return { update: (state) => update(parts, state) };
}

async function update(parts, state) {
  try {
    const found = await facts();
    const model = modelOf(state, found) ?? found.models[0];
    const own = await ask(`api/v1/models/${encodeURIComponent(model.name)}/positions`);
    if (current() !== state) return;
    show(parts.status, "");
    draw(parts, state, model, own);
  } catch (error) {
    showError(parts.status, error, () => update(parts, current()));
  }
}

function rowsOf(own) {
  const vectors = unpack(own.vectors);
  return Array.from({ length: vectors.shape[0] }, (_, i) => vectors.row(i));
}

function variantsOf(size, model, own) {
  const made = LAYOUTS.flatMap((layout) => FREQUENCIES.map((frequencies) => ({
    id: `${layout}.${frequencies}`,
    name: `${t(`layout.${layout}`)}, ${t(`frequencies.${frequencies}`)}`,
    vectors: sinusoid(COUNT, size, layout, frequencies),
  })));
  return [{ id: "model", name: t("positions.model", { model: model.name, kind: own.kind }), vectors: rowsOf(own) }, ...made];
}

// What is told of a variant above: of sinusoids by their layout.
const leadOf = (id, own) => (id !== "model" ? id.split(".")[0] : own.kind === "sinusoid" ? own.layout : own.kind);

function draw(parts, state, model, own) {
  const size = whole(state.size, own.vectors.shape[1], 2, 2048);
  const variants = variantsOf(size, model, own);
  const chosen = variants.find(({ id }) => id === state.variant) ?? variants[0];
  fill(parts.lead, t(`positions.lead.${leadOf(chosen.id, own)}`));
  const width = chosen.vectors[0].length;
  const row = whole(state.row, 5, 0, chosen.vectors.length - 1);
  const column = whole(state.column, 0, 0, width - 1);
  fill(parts.controls,
    segmented(
      t("positions.variant"),
      variants.map(({ id }) => [id, id === "model" ? t("positions.own") : t(`variant.${id}`)]), chosen.id,
      (variant) => set({ variant }),
    ),
    choice(
      t("positions.size"),
      [...new Set([...SIZES, size])].sort((a, b) => a - b).map((n) => [String(n), String(n)]), String(size),
      (value) => set({ size: value }), { disabled: chosen.id === "model", data: { key: "size" } },
    ));
  parts.dimension.input.max = width - 1;
  parts.dimension.show(column);
  parts.position.show(row);
  fill(parts.heat, heatMap(chosen.vectors, [row, column], (r, c) => set({ row: r, column: c }), t("positions.heat")));
  fill(parts.readout, t("positions.cell", { row, column }), " = ", h("span", { data: { number: "position" } }, exact(chosen.vectors[row][column])));
  charts(parts, variants, chosen, column, row);
  fill(parts.variants, variants.map(({ id, name, vectors }) => {
    const drawn = heatMap(vectors, null, () => set({ variant: id }), name);
    drawn.setAttribute("aria-pressed", String(id === chosen.id));
    return h("figure", { class: id === chosen.id ? "variant is" : "variant" }, drawn, h("figcaption", { class: "note" }, name));
  }));
}

function charts(parts, variants, chosen, column, row) {
  const width = chosen.vectors[0].length;
  const dimensions = [...new Set([column, column + 2, column + 4, column + 8].filter((d) => d < width))];
  const waves = dimensions.map((d) => ({ name: t("dimension.n", { d }), points: chosen.vectors.map((vector, p) => [p, vector[d]]) }));
  const products = variants.map(({ name, vectors }) => ({
    name,
    points: vectors.map((vector, p) => [p - row, dot(vectors[Math.min(row, vectors.length - 1)], vector)]),
  }));
  fill(parts.charts,
    h("section", { class: "card" }, curves(waves, { name: t("positions.waves"), x: t("position"), digits: 6 })),
    h(
      "section", { class: "card" },
      curves(products, { name: t("positions.products", { row }), x: t("positions.offset"), digits: 6 }),
      h("p", { class: "note" }, t("positions.products.note")),
    ));
}
