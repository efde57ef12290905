// Attribution of target tokens to source words by several methods, and the rank correlation of the methods.
import { decodeTensor, fillTabs, formatNumber, h, query } from "./dom.js";
import { matrix } from "./matrix.js";

const METHOD_NAMES = {
  attention: "attention", rollout: "rollout", gradient_x_input: "gradient × input",
  integrated_gradients: "integrated gradients", occlusion: "occlusion",
};
const METHOD_NOTES = {
  attention: "Cross-attention weights, mean over heads and layers.",
  rollout: "Attention rollout through all layers down to the source tokens.",
  gradient_x_input: "Gradient of the log-probability times the token embedding.",
  integrated_gradients: "Gradients integrated from a baseline without token embeddings to the input; a row sums to the change in log-probability.",
  occlusion: "Decrease of the log-probability when the word is masked.",
};

export function drawAttribution(trace) {
  if (!trace.attributions.length) return;
  query("#attribution").hidden = false;
  drawCorrelation(trace);
  drawMethod(trace, trace.attributions.at(-1).method);
}

function drawMethod(trace, method) {
  fillTabs(query("#methods"), trace.attributions.map((each) => [each.method, METHOD_NAMES[each.method]]), method, (other) => drawMethod(trace, other));
  const { word_scores: scores, is_signed: isSigned, convergence_delta: delta } = trace.attributions.find((each) => each.method === method);
  const values = decodeTensor(scores);
  const largest = values.data.reduce((max, x) => Math.max(max, Math.abs(x)), 1e-9);
  const rows = trace.target.tokens.map((token) => token.text);
  const columns = trace.source.words.map((word) => word.text);
  const text = (r, c) => `${columns[c]} for ${rows[r]}: ${formatNumber(values.row(r)[c])}${isSigned ? " nats" : ""}`;
  query("#attribution-figure").replaceChildren(matrix({ rows, columns, weight: (r, c) => values.row(r)[c] / largest, text }));
  const signNote = isSigned ? " Blue increases the log-probability of the token, red decreases it." : "";
  const deltaNote = delta === null ? "" : ` Relative error of the row sums: at most ${formatNumber(100 * delta, 1)} %.`;
  query("#attribution-note").textContent = `${METHOD_NOTES[method]}${signNote}${deltaNote} Rows are target tokens, columns are source words.`;
}

function drawCorrelation(trace) {
  if (!trace.rank_correlation) return;
  const { methods } = trace.rank_correlation;
  const values = decodeTensor(trace.rank_correlation.correlation);
  const headers = h("tr", {}, h("th", {}, "rank correlation"), ...methods.map((method) => h("th", {}, METHOD_NAMES[method])));
  const rows = methods.map((method, i) => h("tr", {}, h("td", {}, METHOD_NAMES[method]), ...Array.from(values.row(i), (x, j) => h("td", {}, i === j ? "" : formatNumber(x, 2)))));
  query("#correlation").replaceChildren(h("table", {}, h("thead", {}, headers), h("tbody", {}, ...rows)), h("p", { class: "note" }, "Spearman’s rank correlation of absolute values over source words, mean over steps."));
}
