// Tables of the decoding steps and of the alternatives for each word.
import { decodeTensor, formatNumber, formatPercent, h, query } from "./dom.js";

function probabilityBar(p) {
  return [h("span", { class: "bar" }, h("i", { style: `width:${100 * p}%` })), formatPercent(p)];
}

function candidateChip(candidate, outputId) {
  const className = candidate.id === outputId ? "chip is" : "chip";
  return h("span", { class: className }, h("b", {}, candidate.text), h("small", {}, formatPercent(candidate.probability)));
}

const cell = (className, ...content) => h("td", className ? { class: className } : {}, ...content);
const header = (text, className = "") => h("th", { class: className }, text);

export function drawSteps(trace) {
  const lenses = trace.logit_lens.map((lens) => ({ ...lens, probability: decodeTensor(lens.probability).data }));
  const headers = h(
    "tr", {}, header("input"), header("output", "left"), header("probability", "left"), header("rank"), header("entropy"),
    header("most likely", "left"), ...lenses.map(({ layer }) => header(`layer ${layer}`, "left")),
  );
  const rows = trace.steps.map((step, t) => {
    const token = trace.target.tokens[t];
    const input = t ? trace.target.tokens[t - 1].text : trace.start_token.text;
    const layers = lenses.map(({ top_candidates: candidates, probability }) => cell(
      "left", candidateChip(candidates[t][0], token.id),
      candidates[t][0].id === token.id ? "" : h("small", { class: "formula" }, formatPercent(probability[t])),
    ));
    return h(
      "tr", {}, cell("", input), cell("left", h("b", {}, token.text)), cell("left", ...probabilityBar(step.probability)), cell("", String(step.rank)),
      cell("", formatNumber(step.entropy, 2)), cell("left", ...step.top_candidates.slice(0, 5).map((each) => candidateChip(each, token.id))), ...layers,
    );
  });
  query("#steps .body").replaceChildren(h("table", {}, h("thead", {}, headers), h("tbody", {}, ...rows)));
}

export function drawWordAlternatives(trace) {
  if (!trace.word_alternatives.length) return;
  query("#words").hidden = false;
  const headers = h("tr", {}, header("word"), header("probability", "left"), header("alternatives", "left"));
  const rows = trace.word_alternatives.map(({ word_index: index, probability, alternatives }) => h(
    "tr", {}, cell("", h("b", {}, trace.target.words[index].text)), cell("left", ...probabilityBar(probability)),
    cell("left", ...alternatives.map((each) => candidateChip(each, -1))),
  ));
  query("#words .body").replaceChildren(h("table", {}, h("thead", {}, headers), h("tbody", {}, ...rows)));
}
