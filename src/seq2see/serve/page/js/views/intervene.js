// Intervene: change the model on its way, and see what becomes of the translation.
import { button, choice, fill, h, hint, segmented, slider } from "../dom.js";
import { NONE, includes, interventionsOf, keysOf, positionsOf, toggled, withPositions, within } from "../interventions.js";
import { exact, short, whole } from "../numbers.js";
import { pronounCard } from "../pronoun.js";
import { explain, fitted, traceRequest, traceView } from "../sentence.js";
import { current, set } from "../store.js";
import { siteName, t } from "../text.js";
import { groups } from "../words.js";

const KINDS = [["decoder", "cross"], ["encoder", "self"], ["decoder", "self"]];

export function mount(root) {
  root.append(h("h1", {}, t("intervene.title")), h("p", { class: "lead" }, t("intervene.lead")));
  const parts = {
    result: h("section", { class: "card stack", "aria-live": "polite" }), heads: h("div", { class: "scroll" }),
    scale: h("div", { class: "row" }), hide: h("div"), positions: h("div", { class: "stack" }), pronoun: pronounCard(),
  };
  parts.factor = slider(t("factor"), { min: 0, max: 4, step: 0.1 }, (value, done) => {
    parts.factor.show(value, `× ${short(value, 1)}`);
    if (done) set({ scale: `${parts.site}:${value}` });
  });
  const body = h("div", { hidden: true }, parts.result,
    h("div", { class: "columns" },
      h("section", { class: "card" }, h("h2", {}, t("switches")), h("p", { class: "note" }, t("switches.note")), parts.heads),
      h("div", {},
        h("section", { class: "card" }, h("h2", {}, t("hide")), h("p", { class: "note" }, t("hide.note")), parts.hide),
        h("section", { class: "card" }, h("h2", {}, t("scale")), h("p", { class: "note" }, t("scale.note")), parts.scale, parts.factor.element),
        h("section", { class: "card" }, h("h2", {}, t("positions")), h("p", { class: "note" }, t("positions.note")), parts.positions))));
  const wanted = async (state, found, signal) => ({
    ...plain(state, found), interventions: interventionsOf(await possible(state, found, signal)),
  });
  const view = traceView(root, body, wanted, async (state, trace, found, signal) => draw(parts, await possible(state, found, signal), trace));
  root.append(parts.pronoun.element);
  return { update: (state) => { parts.pronoun.update(state); return view.update(state); }, leave: () => { parts.pronoun.leave(); view.leave(); } };
}

const plain = (state, found) => ({ ...traceRequest(state, found, { detail: { layers: "none" } }), interventions: [] });

// The state with the interventions that this model and this sentence have a place for.
async function possible(state, found, signal) {
  const fit = await fitted(state, found, signal);
  const request = plain(state, found);
  if (!fit.hide || !request.text) return fit;
  return within(fit, (await explain(request, signal)).source.tokens.length);
}

function draw(parts, state, trace) {
  fill(parts.result, result(trace));
  fill(parts.heads, KINDS.map(([stack, kind]) => switches(state, trace.model, stack, kind)));
  const sites = trace.attention.map((map) => `${map.stack}.${map.layer}.${map.kind}`);
  const [scaled, factor] = (state.scale ?? "").split(":");
  parts.site = [scaled, state.site, "decoder.0.cross"].find((name) => sites.includes(name)) ?? sites[0];
  fill(parts.scale, choice(
    t("attention"), sites.map((name) => [name, siteName(...name.split("."))]), parts.site,
    (name) => set(state.scale ? { scale: `${name}:${factor}` } : { site: name }),
    { data: { key: "site" } },
  ),
    button(t("undo"), () => set({ scale: null }), { disabled: !state.scale, data: { key: "unscale" } }));
  parts.factor.show(Number(factor ?? 1), `× ${short(Number(factor ?? 1), 1)}`);
  hideControl(parts, state, trace);
  fill(parts.positions, ["encoder", "decoder"].map((stack) => positionControl(state, stack)));
}

function result(trace) {
  const { change, translation } = trace;
  const reset = button(t("reset"), () => set(NONE), { disabled: !change, data: { key: "reset" } });
  if (!change) return [h("div", { class: "row between" }, h("h2", {}, t("change.title")), reset), h("p", { class: "note" }, t("change.none"))];
  const words = change.words.flatMap(([kind, word], i) => [
    gap(trace, change.words[i - 1]?.[1], word),
    h("span", { class: kind === "same" ? null : kind }, word),
  ]);
  const cost = change.baseline_now - change.baseline.log_prob;
  return [h("div", { class: "row between" }, h("h2", {}, t("change.title")), reset),
    h("p", { class: "difference", dir: "auto" }, words),
    h("dl", { class: "facts" },
      h("dt", {}, t("change.before")), h("dd", {}, h("span", { data: { number: "before" } }, exact(change.baseline.log_prob))),
      h("dt", {}, t("change.now")), h(
        "dd", {},
        h("span", { data: { number: "now" } }, exact(change.baseline_now)), ` (${cost >= 0 ? "+" : ""}${short(cost)})`,
      ),
      h("dt", {}, t("change.new")), h("dd", {}, h("span", { data: { number: "new" } }, exact(translation.log_prob))))];
}

// What stands between two words: nothing in Chinese, behind an apostrophe, and before a full stop.
function gap(trace, before, word) {
  const joined = before === undefined || /^(zh|ja)/.test(trace.target.language) || /['’]$/.test(before) || /^[.,;:!?…)\]}»”]+$/.test(word);
  return joined ? "" : " ";
}

function switches(state, model, stack, kind) {
  const layers = model[`${stack}_layers`];
  const key = (name, label) => hint(
    button(
      label, () => set({ off: toggled(current().off, name) }),
      { class: "switch", "aria-pressed": String(!includes(state.off, name)), "aria-label": name, data: { key: `off:${name}` } },
    ),
    name,
  );
  const extra = kind === "self" ? ["self", "feed_forward"] : ["cross"];
  const rows = Array.from({ length: layers }, (_, layer) => h("tr", {}, h("th", { scope: "row" }, t("layer.n", { layer })),
    Array.from({ length: model.heads }, (__, head) => h("td", {}, key(`${stack}.${layer}.${kind}.${head}`, String(head)))),
    extra.map((part) => h("td", {}, key(`${stack}.${layer}.${part}`, t(`sublayer.${part}`)))),
    kind === "self" ? h("td", {}, key(`${stack}.${layer}`, t("sublayer.layer"))) : null));
  return [h("h3", {}, t(`kind.${stack}.${kind}`)), h("table", { class: "switches" }, h("tbody", {}, rows))];
}

function hideControl(parts, state, trace) {
  const at = (state.hide ?? "").split(":")[0] || state.eye || "decoder.cross";
  const keys = keysOf(state.hide, at);
  const eyes = [["decoder.cross", t("kind.decoder.cross")], ["encoder.self", t("kind.encoder.self")]];
  const move = (name) => set(keys.length ? { hide: `${name}:${keys}`, eye: name } : { eye: name });
  const words = groups(trace, "source", 0, true).map(({ text, members }) => {
    const off = members.every((key) => keys.includes(key));
    const next = off ? keys.filter((key) => !members.includes(key)) : [...keys, ...members].sort((a, b) => a - b);
    return button(
      text,
      () => set({ hide: next.length ? `${at}:${next}` : null, eye: at }),
      { class: off ? "chip gone" : "chip", "aria-pressed": String(off), data: { key: `hide:${members[0]}` } },
    );
  });
  fill(parts.hide, h("div", { class: "controls" }, segmented(t("hide.who"), eyes, at, move)), h("div", { class: "row" }, words));
}

function positionControl(state, stack) {
  const now = positionsOf(state.pos, stack);
  const how = now === null ? "as is" : now === "off" ? "off" : "shift";
  const put = (value) => set({ pos: withPositions(current().pos, stack, value) });
  const by = h(
    "input",
    {
      type: "number", min: 1, max: 64, value: how === "shift" ? now : 3, "aria-label": t("positions.by"),
      data: { key: `by:${stack}` },
      on: { change: (event) => put(whole(event.target.value, 3, 1, 64)) },
    },
  );
  return h("div", { class: "row" }, h("span", { class: "soft" }, t(`stack.${stack}`)),
    segmented(
      `${t("positions")}: ${t(`stack.${stack}`)}`,
      [["as is", t("positions.keep")], ["off", t("positions.off")], ["shift", t("positions.shift")]], how,
      (value) => put(value === "as is" ? null : value === "off" ? "off" : 3),
    ),
    how === "shift" ? by : null);
}
