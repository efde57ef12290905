// Which source words mattered, by several methods, and whether these agree.
import { element, find, short, tabs, unpacked } from "./base.js";
import { matrix } from "./figures.js";

const NAMES = {
  attention: "attention", rollout: "rollout", gradient_x_input: "gradient × input",
  integrated_gradients: "integrated gradients", occlusion: "occlusion",
};
const NOTES = {
  attention: "Cross-attention, mean over heads and layers: where the decoder looked.",
  rollout: "Attention followed through all layers down to the source tokens.",
  gradient_x_input: "The slope of the log-probability times the token’s own part of the input.",
  integrated_gradients: "Slopes on the way from an empty sentence to this one; a row sums to what the source adds to the log-probability.",
  occlusion: "What the log-probability loses when nobody can look at the word.",
};

export function attributionView(trace) {
  if (!trace.attributions.length) return;
  find("#attribution").hidden = false;
  agreement(trace);
  choose(trace, trace.attributions.at(-1).method);
}

function choose(trace, method) {
  tabs(find("#methods"), trace.attributions.map((each) => [each.method, NAMES[each.method]]), method, (other) => choose(trace, other));
  const found = trace.attributions.find((each) => each.method === method);
  const values = unpacked(found.words);
  const largest = values.data.reduce((most, x) => Math.max(most, Math.abs(x)), 1e-9);
  const rows = trace.target.tokens.map((token) => token.text);
  const columns = trace.source.words.map((word) => word.text);
  const text = (r, c) => `${columns[c]} for ${rows[r]}: ${short(values.row(r)[c])}${found.signed ? " nats" : ""}`;
  find("#attribution-figure").replaceChildren(matrix({ rows, columns, weight: (r, c) => values.row(r)[c] / largest, text }));
  const sign = found.signed ? " Blue speaks for the token, red against it." : "";
  const gap = found.gap === null ? "" : ` The rows’ sums are right to ${short(100 * found.gap, 1)} %.`;
  find("#attribution-note").textContent = `${NOTES[method]}${sign}${gap} Rows are emitted tokens, columns source words.`;
}

function agreement(trace) {
  if (!trace.agreement) return;
  const { methods } = trace.agreement;
  const table = unpacked(trace.agreement.correlation);
  const head = element("tr", {}, element("th", {}, "rank correlation"), ...methods.map((m) => element("th", {}, NAMES[m])));
  const rows = methods.map((m, i) => element("tr", {}, element("td", {}, NAMES[m]), ...Array.from(table.row(i), (x, j) => element("td", {}, i === j ? "" : short(x, 2)))));
  find("#agreement").replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)), element("p", { class: "note" }, "Spearman’s, of absolute values over source words, mean over steps."));
}
