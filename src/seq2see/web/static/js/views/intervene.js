// Intervene: change parts of the model and compare the translations.
import { addTooltip, button, facts, h, replaceContent, segmented, selectField, slider } from "../dom.js";
import { trace as embeddedTrace } from "../embedded.js";
import { formatExact, formatNumber, parseInteger } from "../format.js";
import { attentionName, t } from "../i18n.js";
import {
  NO_INTERVENTIONS, dropMissingTokens, listIncludes, maskedKeys, parseInterventions, positionSetting, toggle, withPositionSetting,
} from "../interventions.js";
import { pronounCard } from "../pronoun.js";
import { withSupportedInterventions } from "../service_info.js";
import { current, set } from "../state.js";
import { groupTokens } from "../tokens.js";
import { explain, traceRequest, traceView } from "../trace_view.js";

const KINDS = [["decoder", "cross"], ["encoder", "self"], ["decoder", "self"]];
const DEFAULT_SHIFT = 3;
const MAX_SHIFT = 64;

export function mount(root) {
  root.append(h("h1", {}, t("intervene.title")));
  if (embeddedTrace) return mountEmbedded(root);
  root.append(h("p", { class: "lead" }, t("intervene.lead")));
  const parts = {
    effect: h("section", { class: "card stack", "aria-live": "polite" }), switches: h("div", { class: "scroll" }),
    scale: h("div", { class: "row" }), mask: h("div"), positions: h("div", { class: "stack" }), pronoun: pronounCard(),
  };
  parts.factor = slider(t("factor"), { min: 0, max: 4, step: 0.1 }, (value, done) => {
    parts.factor.show(value, `× ${formatNumber(value, 1)}`);
    if (done) set({ scale: `${parts.scaled}:${value}` });
  });
  const body = h("div", { hidden: true }, parts.effect,
    h("div", { class: "columns" },
      h("section", { class: "card" }, h("h2", {}, t("switches")), h("p", { class: "note" }, t("switches.note")), parts.switches),
      h("div", {},
        h("section", { class: "card" }, h("h2", {}, t("mask")), h("p", { class: "note" }, t("mask.note")), parts.mask),
        h("section", { class: "card" }, h("h2", {}, t("scale")), h("p", { class: "note" }, t("scale.note")), parts.scale, parts.factor.element),
        h("section", { class: "card" }, h("h2", {}, t("positions")), h("p", { class: "note" }, t("positions.note")), parts.positions))));
  const request = async (state, info, signal) => ({
    ...baselineRequest(state, info), interventions: parseInterventions(await supportedState(state, info, signal)),
  });
  const view = traceView(root, body, request, async (state, trace, info, signal) => draw(parts, await supportedState(state, info, signal), trace));
  root.append(parts.pronoun.element);
  return { update: (state) => { parts.pronoun.update(state); return view.update(state); }, leave: () => { parts.pronoun.leave(); view.leave(); } };
}

// The page of one trace shows its interventions and their effect.
function mountEmbedded(root) {
  const card = h("section", { class: "card stack" });
  const body = h("div", {}, card);
  return traceView(root, body, null, (state, trace) => replaceContent(
    card, effect(trace), h("ul", { class: "mono" }, trace.interventions.map((each) => h("li", {}, formatIntervention(each)))),
  ));
}

function formatIntervention({ kind, ...fields }) {
  const values = Object.entries(fields).filter(([, value]) => value !== null);
  return `${kind}: ${values.map(([name, value]) => `${name} ${value}`).join(", ")}`;
}

const baselineRequest = (state, info) => ({ ...traceRequest(state, info, { traceOptions: { layers: "none" } }), interventions: [] });

// Returns the state with the interventions that are possible for this model and this sentence.
async function supportedState(state, info, signal) {
  const supported = await withSupportedInterventions(state, info, signal);
  const request = baselineRequest(state, info);
  if (!supported.mask || !request.text) return supported;
  return dropMissingTokens(supported, (await explain(request, signal)).source.tokens.length);
}

function draw(parts, state, trace) {
  replaceContent(parts.effect, effect(trace));
  replaceContent(parts.switches, KINDS.map(([stack, kind]) => switches(state, trace.model, stack, kind)));
  const addresses = trace.attention.map((map) => `${map.stack}.${map.layer}.${map.kind}`);
  const [scaled, factor] = (state.scale ?? "").split(":");
  parts.scaled = [scaled, state.attention, "decoder.0.cross"].find((name) => addresses.includes(name)) ?? addresses[0];
  replaceContent(parts.scale, selectField(
    t("attention"), addresses.map((name) => [name, attentionName(...name.split("."))]), parts.scaled,
    (name) => set(state.scale ? { scale: `${name}:${factor}` } : { attention: name }),
    { data: { key: "scaled" } },
  ),
    button(t("undo"), () => set({ scale: null }), { disabled: !state.scale, data: { key: "unscale" } }));
  parts.factor.show(Number(factor ?? 1), `× ${formatNumber(Number(factor ?? 1), 1)}`);
  drawMask(parts, state, trace);
  replaceContent(parts.positions, ["encoder", "decoder"].map((stack) => positionControl(state, stack)));
}

function effect(trace) {
  const { intervention_effect: result, translation } = trace;
  const reset = !embeddedTrace && button(t("reset"), () => set(NO_INTERVENTIONS), { disabled: !result, data: { key: "reset" } });
  const title = h("div", { class: "row between" }, h("h2", {}, t("effect.title")), reset);
  if (!result) return [title, h("p", { class: "note" }, t("effect.none"))];
  const starts = { removed: 0, added: 0 }; // where the next word is searched in the old and in the new translation
  const words = result.word_diff.flatMap(([kind, word]) => {
    let gap = "";
    for (const side of kind === "same" ? ["removed", "added"] : [kind]) {
      const text = side === "removed" ? result.baseline.text : translation.text;
      const start = text.indexOf(word, starts[side]);
      gap = /\s$/.test(text.slice(0, start)) ? " " : "";
      starts[side] = start + word.length;
    }
    return [gap, h("span", { class: kind === "same" ? null : kind }, word)];
  });
  const change = result.baseline_log_prob_after - result.baseline.log_prob;
  return [title,
    h("p", { class: "difference", dir: "auto" }, words),
    facts([
      [t("effect.original"), result.baseline.text, { dir: "auto" }],
      [t("effect.before"), formatExact(result.baseline.log_prob), { data: { number: "before" } }],
      [t("effect.after"), [
        h("span", { data: { number: "after" } }, formatExact(result.baseline_log_prob_after)), ` (${change >= 0 ? "+" : ""}${formatNumber(change)})`,
      ]],
      [t("effect.new"), formatExact(translation.log_prob), { data: { number: "new" } }],
    ])];
}

function switches(state, model, stack, kind) {
  const layers = model[`${stack}_layers`];
  const ablationSwitch = (address, label) => addTooltip(
    button(
      label, () => set({ ablate: toggle(current().ablate, address) }),
      { class: "switch", "aria-pressed": String(!listIncludes(state.ablate, address)), "aria-label": address, data: { key: `ablate:${address}` } },
    ),
    address,
  );
  const sublayers = kind === "self" ? ["self", "feed_forward"] : ["cross"];
  const rows = Array.from({ length: layers }, (_, layer) => h("tr", {}, h("th", { scope: "row" }, t("layer.n", { layer })),
    Array.from({ length: model.heads }, (__, head) => h("td", {}, ablationSwitch(`${stack}.${layer}.${kind}.${head}`, String(head)))),
    sublayers.map((sublayer) => h("td", {}, ablationSwitch(`${stack}.${layer}.${sublayer}`, t(`sublayer.${sublayer}`)))),
    kind === "self" ? h("td", {}, ablationSwitch(`${stack}.${layer}`, t("sublayer.layer"))) : null));
  return [h("h3", {}, t(`kind.${stack}.${kind}`)), h("table", { class: "switches" }, h("tbody", {}, rows))];
}

function drawMask(parts, state, trace) {
  const address = (state.mask ?? "").split(":")[0] || state.mask_at || "decoder.cross";
  const keys = maskedKeys(state.mask, address);
  const options = [["decoder.cross", t("kind.decoder.cross")], ["encoder.self", t("kind.encoder.self")]];
  const moveMask = (name) => set(keys.length ? { mask: `${name}:${keys}`, mask_at: name } : { mask_at: name });
  const words = groupTokens(trace, "source", 0, true).map(({ text, members }) => {
    const masked = members.every((key) => keys.includes(key));
    const next = masked ? keys.filter((key) => !members.includes(key)) : [...keys, ...members].sort((a, b) => a - b);
    return button(
      text,
      () => set({ mask: next.length ? `${address}:${next}` : null, mask_at: address }),
      { class: masked ? "chip removed" : "chip", "aria-pressed": String(masked), data: { key: `mask:${members[0]}` } },
    );
  });
  replaceContent(parts.mask, h("div", { class: "controls" }, segmented(t("mask.at"), options, address, moveMask)), h("div", { class: "row" }, words));
}

function positionControl(state, stack) {
  const setting = positionSetting(state.positions, stack);
  const mode = setting === null ? "unchanged" : setting === "off" ? "off" : "shift";
  const setPositions = (value) => set({ positions: withPositionSetting(current().positions, stack, value) });
  const shift = h(
    "input",
    {
      type: "number", min: 1, max: MAX_SHIFT, value: mode === "shift" ? setting : DEFAULT_SHIFT, "aria-label": t("positions.by"),
      data: { key: `shift:${stack}` },
      on: { change: (event) => setPositions(parseInteger(event.target.value, DEFAULT_SHIFT, 1, MAX_SHIFT)) },
    },
  );
  return h("div", { class: "row" }, h("span", { class: "soft" }, t(`stack.${stack}`)),
    segmented(
      `${t("positions")}: ${t(`stack.${stack}`)}`,
      [["unchanged", t("positions.unchanged")], ["off", t("positions.off")], ["shift", t("positions.shift")]], mode,
      (value) => setPositions(value === "unchanged" ? null : value === "off" ? "off" : DEFAULT_SHIFT),
    ),
    mode === "shift" ? shift : null);
}
