// Architecture: the modules of the loaded model; each can be selected.
import { fetchJson } from "../api.js";
import { button, facts, h, replaceContent, selectField, table } from "../dom.js";
import { loadingView } from "../errors.js";
import { formatCount, formatPercent } from "../format.js";
import { t } from "../i18n.js";
import { directModel, serviceInfo } from "../service_info.js";
import { set } from "../state.js";

// Sublayers in the order of the data flow, each with the residual connection that follows it.
const SUBLAYERS = { attention: "attention_residual", cross_attention: "cross_attention_residual", feed_forward: "feed_forward_residual" };
const MAX_WEIGHTS = 40; // rows of the table of weights

export function mount(root) {
  const parts = {
    status: h("p", { class: "status", role: "status" }), bar: h("div", { class: "controls" }),
    diagram: h("section", { class: "card scroll" }),
    details: h("section", { class: "card stack details", "aria-live": "polite" }),
  };
  root.append(
    h("h1", {}, t("architecture.title")),
    h("p", { class: "lead" }, t("architecture.lead")), parts.status, parts.bar,
    h("div", { class: "columns wide-left" }, parts.diagram, parts.details),
  );
  return loadingView(parts.status, load, (state, { info, model }) => {
    const options = info.models.map((each) => [each.name, `${each.name} (${each.source} → ${each.target})`]);
    replaceContent(
      parts.bar,
      selectField(t("model"), options, model.name, (value) => set({ model: value, module: null }), { data: { key: "model" } }),
      h("span", { class: "note num" }, t("architecture.sum", { parameters: formatCount(model.parameters), engine: model.engine })),
    );
    draw(parts, state, model);
  });
}

async function load(state, signal) {
  const info = await serviceInfo(signal);
  const name = state.model ?? (directModel(state, info) ?? info.models[0]).name;
  return { info, model: await fetchJson(`api/v1/models/${encodeURIComponent(name)}`, undefined, { signal }) };
}

// Returns the module with this path, such as "encoder.layers.0", or undefined.
function findModule(tree, path) {
  return path.split(".").filter(Boolean).reduce((module, name) => module?.children.find((each) => each.name === name), tree);
}

function draw(parts, state, model) {
  const { module_tree: tree } = model;
  const selected = findModule(tree, state.module ?? "") ? state.module ?? "" : "";
  const block = (path, label, className) => {
    const module = findModule(tree, path);
    return module && button([
      h("span", {}, label),
      h("small", { class: "num" }, module.parameters ? formatCount(module.parameters) : "–"),
    ], () => set({ module: path === selected ? null : path }),
      { class: `block ${className}`, "aria-pressed": String(path === selected), data: { key: `module:${path}`, module: path } });
  };
  const layers = (stack) => (findModule(tree, `${stack}.layers`)?.children ?? []).map(({ name }) => layerBlocks(stack, name, block, tree)).reverse();
  const tower = (stack) => h("div", { class: "tower" },
    stack === "decoder" ? block("output", t("module.output"), "out") : null,
    findModule(tree, `${stack}.norm`)?.parameters ? block(`${stack}.norm`, t("module.norm"), "thin") : null,
    layers(stack), block(`${stack}.embeddings`, t("module.embeddings"), "in"), h("h3", { class: "tower-name" }, t(`stack.${stack}`)));
  replaceContent(
    parts.diagram,
    h(
      "div", { class: "towers" }, tower("encoder"),
      h("div", { class: "bridge", "aria-hidden": "true" }, h("span", {}, `${t("architecture.memory")} →`)),
      tower("decoder"),
    ),
  );
  replaceContent(parts.details, details(model, findModule(tree, selected), selected));
}

function layerBlocks(stack, name, block, tree) {
  const path = `${stack}.layers.${name}`;
  const sublayers = Object.entries(SUBLAYERS).filter(([sublayer]) => findModule(tree, `${path}.${sublayer}`)).flatMap(([sublayer, residual]) => [
    block(`${path}.${sublayer}`, t(`module.${sublayer}`), sublayer), block(`${path}.${residual}`, t("module.residual"), "thin"),
  ]);
  return h("div", { class: "layer-box" }, block(path, t("layer.n", { layer: name }), "title"), sublayers.reverse());
}

// Returns the shapes of inputs and outputs, by the name of the module.
function dataFlow(config) {
  const { d_model: d, heads, d_ff: ff } = config;
  return {
    attention: t("flow.self", { d, heads, head: d / heads }),
    cross_attention: t("flow.cross", { d, heads, head: d / heads }), feed_forward: t("flow.feed_forward", { d, ff }),
    embeddings: t("flow.embeddings", { d }), output: t("flow.output", { d }), attention_residual: t("flow.residual"),
    cross_attention_residual: t("flow.residual"), feed_forward_residual: t("flow.residual"),
  };
}

function listWeights(module, path = "") {
  const own = Object.entries(module.shapes).map(([name, shape]) => [path ? `${path}.${name}` : name, shape]);
  return [...own, ...module.children.flatMap((each) => listWeights(each, path ? `${path}.${each.name}` : each.name))];
}

function details(model, module, path) {
  const flow = dataFlow(model.config)[path.split(".").at(-1)];
  const weights = path ? listWeights(module) : [];
  const listed = weights.slice(0, MAX_WEIGHTS);
  return [h("h2", {}, path || model.name), flow ? h("p", {}, flow) : null,
    facts([
      [t("module.class"), module.kind, { class: "mono" }],
      [t("module.parameters"), [
        h("span", { data: { number: "parameters" } }, formatCount(module.parameters)),
        model.parameters ? ` (${formatPercent(module.parameters / model.parameters)})` : "",
      ]],
      ...(path ? [] : modelFacts(model)),
    ]),
    listed.length ? h(
      "div", { class: "scroll" },
      table(
        [t("module.weight"), t("module.shape"), t("module.count")],
        listed.map(([name, shape]) => [h("td", { class: "mono left" }, name), shape.join(" × "), formatCount(shape.reduce((a, b) => a * b, 1))]),
      ),
    ) : null,
    weights.length > listed.length ? h("p", { class: "note" }, t("module.more", { n: weights.length - listed.length })) : null];
}

function modelFacts({ config, vocabulary, max_length: maxLength, provenance }) {
  const values = {
    d_model: config.d_model, heads: config.heads, d_ff: config.d_ff, activation: config.activation,
    positions: config.positions.kind, norm: `${config.norm.placement} ${config.norm.kind}`, tie: config.embeddings.tie,
    vocabulary: [...new Set(Object.values(vocabulary))].join(" / "),
    max_length: maxLength, updates: provenance?.updates,
    scores: provenance?.scores?.map((score) => `${score.metric} ${score.value.toFixed(1)}`).join(", "),
  };
  const known = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return known.map(([name, value]) => [t(`fact.${name}`), value]);
}
