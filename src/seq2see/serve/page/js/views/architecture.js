// Architecture: the loaded model as a stack of parts; each can be opened.
import { ask } from "../api.js";
import { button, choice, fill, h, table } from "../dom.js";
import { count, percent } from "../numbers.js";
import { facts, modelOf, show, showError } from "../sentence.js";
import { current, set } from "../store.js";
import { t } from "../text.js";

// Parts of a layer in the order in which data passes them, with what follows each.
const SUBLAYERS = { attention: "attention_residual", cross_attention: "cross_attention_residual", feed_forward: "feed_forward_residual" };

export function mount(root) {
  const parts = {
    status: h("p", { class: "status", role: "status" }), bar: h("div", { class: "controls" }),
    stack: h("section", { class: "card scroll" }),
    part: h("section", { class: "card stack part", "aria-live": "polite" }),
  };
  root.append(
    h("h1", {}, t("architecture.title")),
    h("p", { class: "lead" }, t("architecture.lead")), parts.status, parts.bar,
    h("div", { class: "columns wide-left" }, parts.stack, parts.part),
  );
  return { update: (state) => update(parts, state) };
}

async function update(parts, state) {
  try {
    const found = await facts();
    const name = state.model ?? (modelOf(state, found) ?? found.models[0]).name;
    const model = await ask(`api/v1/models/${encodeURIComponent(name)}`);
    if (current() !== state) return;
    show(parts.status, "");
    const options = found.models.map((each) => [each.name, `${each.name} (${each.source} → ${each.target})`]);
    fill(
      parts.bar,
      choice(t("model"), options, name, (value) => set({ model: value, part: null }), { data: { key: "model" } }),
      h("span", { class: "note num" }, t("architecture.sum", { parameters: count(model.parameters), engine: model.engine })),
    );
    draw(parts, state, model);
  } catch (error) {
    showError(parts.status, error, () => update(parts, current()));
  }
}

function partAt(tree, path) {
  return path.split(".").filter(Boolean).reduce((part, name) => part?.parts.find((each) => each.name === name), tree);
}

function draw(parts, state, model) {
  const { tree } = model;
  const path = partAt(tree, state.part ?? "") ? state.part ?? "" : "";
  const box = (at, label, kind) => {
    const part = partAt(tree, at);
    return part && button([
      h("span", {}, label),
      h("small", { class: "num" }, part.parameters ? count(part.parameters) : "–"),
    ], () => set({ part: at === path ? null : at }),
      { class: `block ${kind}`, "aria-pressed": String(at === path), data: { key: `part:${at}`, part: at } });
  };
  const layers = (stack) => (partAt(tree, `${stack}.layers`)?.parts ?? []).map(({ name }) => layer(stack, name, box, tree)).reverse();
  const side = (stack) => h("div", { class: "tower" },
    stack === "decoder" ? box("output", t("part.output"), "out") : null,
    partAt(tree, `${stack}.norm`)?.parameters ? box(`${stack}.norm`, t("part.norm"), "thin") : null,
    layers(stack), box(`${stack}.embeddings`, t("part.embeddings"), "in"), h("h3", { class: "tower-name" }, t(`stack.${stack}`)));
  fill(
    parts.stack,
    h(
      "div", { class: "towers" }, side("encoder"),
      h("div", { class: "bridge", "aria-hidden": "true" }, h("span", {}, `${t("architecture.memory")} →`)),
      side("decoder"),
    ),
  );
  fill(parts.part, details(model, partAt(tree, path), path));
}

function layer(stack, name, box, tree) {
  const at = `${stack}.layers.${name}`;
  const inner = Object.entries(SUBLAYERS).filter(([part]) => partAt(tree, `${at}.${part}`)).flatMap(([part, after]) => [
    box(`${at}.${part}`, t(`part.${part}`), part), box(`${at}.${after}`, t("part.residual"), "thin"),
  ]);
  return h("div", { class: "layer-box" }, box(at, t("layer.n", { layer: name }), "title"), inner.reverse());
}

function shapes(config) {
  const { d_model: d, heads, d_ff: ff } = config;
  return {
    attention: t("flow.self", { d, heads, head: d / heads }),
    cross_attention: t("flow.cross", { d, heads, head: d / heads }), feed_forward: t("flow.feed_forward", { d, ff }),
    embeddings: t("flow.embeddings", { d }), output: t("flow.output", { d }), attention_residual: t("flow.residual"),
    cross_attention_residual: t("flow.residual"), feed_forward_residual: t("flow.residual"),
  };
}

function weightsOf(part, at = "") {
  const own = Object.entries(part.shapes).map(([name, shape]) => [at ? `${at}.${name}` : name, shape]);
  return [...own, ...part.parts.flatMap((each) => weightsOf(each, at ? `${at}.${each.name}` : each.name))];
}

function details(model, part, path) {
  const flow = shapes(model.config)[path.split(".").at(-1)];
  const weights = path ? weightsOf(part) : [];
  const shown = weights.slice(0, 40);
  return [h("h2", {}, path || model.name), flow ? h("p", {}, flow) : null,
    h("dl", { class: "facts" },
      h("dt", {}, t("part.kind")), h("dd", { class: "mono" }, part.kind),
      h("dt", {}, t("part.parameters")), h(
        "dd", {},
        h("span", { data: { number: "parameters" } }, count(part.parameters)),
        model.parameters ? ` (${percent(part.parameters / model.parameters)})` : "",
      ),
      path ? null : settings(model)),
    shown.length ? h(
      "div", { class: "scroll" },
      table(
        [t("part.weight"), t("part.shape"), t("part.count")],
        shown.map(([name, shape]) => [h("td", { class: "mono left" }, name), shape.join(" × "), count(shape.reduce((a, b) => a * b, 1))]),
      ),
    ) : null,
    weights.length > shown.length ? h("p", { class: "note" }, t("part.more", { n: weights.length - shown.length })) : null];
}

function settings({ config, vocabulary, max_length: longest, origin }) {
  const facts = {
    d_model: config.d_model, heads: config.heads, d_ff: config.d_ff, activation: config.activation,
    positions: config.positions.kind, norm: `${config.norm.placement} ${config.norm.kind}`, tie: config.embeddings.tie,
    vocabulary: [...new Set(Object.values(vocabulary))].join(" / "),
    max_length: longest, updates: origin?.updates,
    scores: origin?.scores?.map((score) => `${score.metric} ${score.value.toFixed(1)}`).join(", "),
  };
  return Object.entries(facts).filter(([, value]) => value !== undefined && value !== null && value !== "").map(([name, value]) => [
    h("dt", {}, t(`fact.${name}`)),
    h("dd", {}, value),
  ]);
}
