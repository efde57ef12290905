// Decoding: the distribution at each step, the beam search with the status of every hypothesis, and their ranking.
import { addTooltip, button, facts, h, replaceContent, selectField, shareBar, slider, table } from "../dom.js";
import { beamTree } from "../draw/beam_tree.js";
import { trace as embeddedTrace } from "../embedded.js";
import { decodeTensor, formatExact, formatNumber, formatPercent, parseInteger, parseReal } from "../format.js";
import { t } from "../i18n.js";
import { current, set } from "../state.js";
import { traceRequest, traceView } from "../trace_view.js";

const BEAM_SIZES = [1, 2, 3, 4, 5, 6, 8, 10, 12]; // larger trees are unreadable
const MAX_HYPOTHESES = 8; // finished hypotheses in the table
const STATUSES = ["path", "alive", "finished", "pruned", "stopped"]; // "path": on the best path

export function mount(root) {
  root.append(h("h1", {}, t("decoding.title")), h("p", { class: "lead" }, t("decoding.lead")));
  const parts = {
    tokens: h("div", { class: "strip", role: "group", "aria-label": t("steps") }), step: h("div"),
    lens: h("div", { class: "scroll" }), tree: h("div", { class: "scroll" }),
    node: h("div", { class: "stack", "aria-live": "polite" }), ranking: h("div", { class: "scroll" }),
    beamSize: h("div", { class: "row" }), allSteps: h("div", { class: "scroll" }), alternatives: h("section", { class: "card" }), trace: null,
  };
  parts.stepSlider = slider(t("step"), { min: 0, max: 1, step: 1 }, (value) => set({ step: value }));
  parts.lengthPenalty = slider(t("length_penalty"), { min: 0, max: 2, step: 0.05 }, (value, done) => {
    parts.lengthPenalty.show(value, formatNumber(value, 2));
    if (parts.trace) drawRanking(parts, parts.trace, value);
    if (done) set({ length_penalty: value, node: null });
  });
  const body = h("div", { hidden: true },
    h("section", { class: "card" }, h("h2", {}, t("steps.title")), h("p", { class: "note" }, t("steps.note")), parts.tokens, h(
      "div", { class: "controls" }, parts.stepSlider.element,
    ),
      h("div", { class: "columns" }, parts.step, h("div", {}, h("h3", {}, t("lens")), h("p", { class: "note" }, t("lens.note")), parts.lens)),
      h("details", {}, h("summary", {}, t("steps.all")), parts.allSteps)),
    parts.alternatives,
    h(
      "section", { class: "card" },
      h("h2", {}, t("beam.title")),
      h("div", { class: "controls" }, parts.beamSize, parts.lengthPenalty.element), parts.tree, parts.node,
    ),
    h("section", { class: "card" }, h("h2", {}, t("ranking.title")), h("p", { class: "note" }, t("ranking.note"), embeddedTrace ? "" : ` ${t("ranking.search")}`), parts.ranking));
  return traceView(root, body, request, (state, trace, info) => draw(parts, state, trace, info));
}

function request(state, info) {
  const body = traceRequest(state, info, { traceOptions: { layers: "none", top_k: 10 } });
  return { ...body, beam_size: beamSize(state, info), length_penalty: lengthPenalty(state) };
}

const allowedSizes = ({ search }) => BEAM_SIZES.filter((size) => size <= search.max_beam_size || size === 1);

const beamSize = (state, info) => parseInteger(state.beam_size, info.search.beam_size, 1, allowedSizes(info).at(-1));

const lengthPenalty = (state) => parseReal(state.length_penalty, embeddedTrace?.search.length_penalty ?? 1, 0, 2);

function draw(parts, state, trace, info) {
  parts.trace = trace;
  const last = trace.steps.length - 1;
  const step = parseInteger(state.step, 0, 0, last);
  parts.stepSlider.input.max = last;
  parts.stepSlider.show(step, `${step} / ${last}`);
  replaceContent(parts.tokens, trace.target.tokens.map((token, i) => addTooltip(button(token.text, () => set({ step: i }), {
    class: "word", "aria-pressed": String(i === step), data: { key: `step:${i}` }, style: { "--uncertainty": String(1 - trace.steps[i].probability) },
  }), () => formatPercent(trace.steps[i].probability))));
  drawStep(parts.step, trace, step);
  replaceContent(parts.lens, lensTable(trace, step));
  replaceContent(parts.allSteps, stepTable(trace));
  replaceContent(parts.alternatives, alternativeTable(trace));
  parts.alternatives.hidden = !trace.word_alternatives.length;
  if (info) replaceContent(parts.beamSize, beamSizeField(state, info));
  parts.lengthPenalty.show(lengthPenalty(state), formatNumber(lengthPenalty(state), 2));
  drawBeam(parts, state, trace);
  drawRanking(parts, trace, lengthPenalty(state));
}

function beamSizeField(state, info) {
  const size = beamSize(state, info);
  const sizes = [...new Set([...allowedSizes(info), size])].sort((a, b) => a - b).map(String);
  const select = (value) => set({ beam_size: value, node: null });
  return selectField(t("beam.size"), sizes.map((n) => [n, n]), String(size), select, { data: { key: "beam_size" } });
}

const chips = (candidates, chosen) => h("td", { class: "left" }, candidates.map((each) => (
  h("span", { class: each.id === chosen?.id ? "chip is" : "chip" }, each.text, h("small", {}, formatPercent(each.probability))))));

const probabilityCell = (probability) => h("td", { class: "left" }, shareBar(probability), ` ${formatPercent(probability)}`);

// All steps of the translation, with the most likely token of each decoder layer.
function stepTable(trace) {
  const rows = trace.steps.map(({ probability, rank, entropy, top_candidates: candidates }, i) => {
    const token = trace.target.tokens[i];
    return [i, h("td", { class: "left" }, h("b", {}, token.text)), probabilityCell(probability), rank + 1, formatNumber(entropy, 2),
      chips(candidates.slice(0, 5), token), ...trace.logit_lens.map((lens) => chips(lens.top_candidates[i].slice(0, 1), token))];
  });
  const left = (text) => h("th", { class: "left" }, text);
  return table([t("step"), left(t("step.output")), left(t("probability")), t("rank"), t("entropy"), left(t("lens.top")),
    ...trace.logit_lens.map(({ layer }) => left(t("layer.n", { layer })))], rows);
}

function alternativeTable(trace) {
  const rows = trace.word_alternatives.map(({ word_index: index, probability, alternatives }) => [
    h("b", {}, trace.target.words[index].text), probabilityCell(probability), chips(alternatives),
  ]);
  const left = (text) => h("th", { class: "left" }, text);
  return [h("h2", {}, t("alternatives.title")), h("div", { class: "scroll" }, table([t("word"), left(t("probability")), left(t("alternatives.words"))], rows))];
}

function drawStep(parent, trace, step) {
  const { probability, log_prob: logProb, rank, entropy, top_candidates: candidates } = trace.steps[step];
  const token = trace.target.tokens[step];
  const input = step ? trace.target.tokens[step - 1].text : trace.start_token.text;
  const rows = candidates.map((each) => h("tr", { class: each.id === token.id ? "is" : null }, [
    h("td", {}, each.text), h("td", {}, shareBar(each.probability, each.id === token.id)), h(
      "td", { data: { number: `candidate:${each.id}` } }, formatExact(each.probability),
    ), h("td", {}, formatNumber(each.log_prob)),
  ]));
  const number = (name, value) => [t(name), formatExact(value), { data: { number: name } }];
  replaceContent(parent, facts([
    [t("step.input"), input], [t("step.output"), h("b", {}, token.text)],
    number("probability", probability), number("log_prob", logProb), [t("rank"), rank + 1], number("entropy", entropy),
  ]),
  h("div", { class: "scroll" }, table([t("token"), h("th", { class: "left" }), t("probability"), t("log")], rows)));
}

function lensTable(trace, step) {
  const token = trace.target.tokens[step];
  const rows = [...trace.logit_lens].reverse().map((each) => [t("layer.n", { layer: each.layer }),
    chips(each.top_candidates[step].slice(0, 3), token), formatExact(decodeTensor(each.probability).data[step])]);
  return table([t("layer"), h("th", { class: "left" }, t("lens.top")), t("lens.of", { token: token.text })], rows);
}

function hypothesisText(nodes, node) {
  const pieces = [];
  for (let each = node; each; each = each.parent === null ? null : nodes[each.parent]) pieces.unshift(each.piece);
  return pieces.join("").replaceAll("▁", " ").replace(/<\/s>$/, "").trim();
}

function explainStatus(trace, node) {
  const { nodes } = trace.beam;
  const sameStep = nodes.filter((other) => other.step === node.step && other.search_index === node.search_index);
  if (node.status === "pruned") {
    const kept = sameStep.filter((other) => other.status !== "pruned" && other.rank < node.rank);
    const worst = kept.reduce((last, other) => (last && last.rank > other.rank ? last : other), null);
    return worst ? t(
      "status.pruned.why",
      { rank: node.rank, kept: kept.length, word: worst.text, log_prob: formatNumber(worst.log_prob), own: formatNumber(node.log_prob) },
    ) : t("status.pruned");
  }
  return t(`status.${node.status}.why`, { rank: node.rank + 1 });
}

function drawBeam(parts, state, trace) {
  const { nodes, best_path: path } = trace.beam;
  if (trace.is_forced || !nodes.length) return replaceContent(parts.tree, h("p", { class: "note" }, t("beam.forced"))), replaceContent(parts.node);
  const selected = nodes[parseInteger(state.node, path.at(-1), 0, nodes.length - 1)];
  const summary = (node) => `${hypothesisText(nodes, node)}\n${t(`status.${node.status}`)} · ${t("log_prob")} ${formatNumber(node.log_prob)} · ${t("score")} ${formatNumber(node.score)}`;
  const scrollLeft = parts.tree.scrollLeft;
  replaceContent(
    parts.tree,
    beamTree(trace.beam, selected.id, (id) => set({ node: id, step: nodes[id].step < trace.steps.length ? nodes[id].step : current().step }), summary),
  );
  parts.tree.scrollLeft = scrollLeft;
  replaceContent(parts.node,
    h("p", { class: "legend" }, STATUSES.map((status) => h("span", { class: `key ${status}` }, t(`status.${status}`)))),
    h("p", {}, h("b", { dir: "auto" }, hypothesisText(nodes, selected)), " — ", explainStatus(trace, selected)),
    h(
      "p", { class: "mono num" },
      t(
        "node.score",
        {
          log_prob: formatExact(selected.log_prob), length: selected.step + 1, alpha: formatNumber(trace.search.length_penalty, 2),
          penalty: formatExact(selected.penalty), score: formatExact(selected.score),
        },
      ),
    ));
}

function drawRanking(parts, trace, alpha) {
  const { nodes, best_path: path } = trace.beam;
  const best = nodes[path.at(-1)];
  const finished = nodes.filter((node) => node.status === "finished").map((node) => ({
    node,
    score: node.log_prob / (node.step + 1) ** alpha - node.penalty,
  }));
  finished.sort((a, b) => b.score - a.score);
  if (!finished.length) return replaceContent(parts.ranking, h("p", { class: "note" }, t("ranking.none")));
  const rows = finished.slice(0, MAX_HYPOTHESES).map(({ node, score }, i) => h("tr", { class: node === best ? "is" : null }, [
    h("td", {}, i + 1), h(
      "td", { class: "left wrap", dir: "auto" }, hypothesisText(nodes, node),
    ), h("td", {}, node.step + 1), h("td", {}, formatNumber(node.log_prob)), h("td", { data: { number: `score:${node.id}` } }, formatExact(score)),
  ]));
  return replaceContent(
    parts.ranking,
    table(["", h("th", { class: "left" }, t("hypothesis")), t("length"), t("log_prob"), t("ranking.score", { alpha: formatNumber(alpha, 2) })], rows),
  );
}
