// Attribution: how much each source word contributes to each target token, by several methods.
import { h, replaceContent, segmented, table } from "../dom.js";
import { matrix } from "../draw/matrix.js";
import { trace as embeddedTrace } from "../embedded.js";
import { decodeTensor, formatExact, formatNumber, parseInteger } from "../format.js";
import { t } from "../i18n.js";
import { set } from "../state.js";
import { traceRequest, traceView } from "../trace_view.js";

const METHODS = embeddedTrace?.attributions.map(({ method }) => method)
  ?? ["attention", "rollout", "gradient_x_input", "integrated_gradients", "occlusion"];
const COMPARE = "compare"; // shows the rank correlation of all methods instead of one of them
const DEFAULT_METHOD = METHODS.includes("gradient_x_input") ? "gradient_x_input" : METHODS[0];

const selectedMethod = ({ method }) => ([...METHODS, COMPARE].includes(method) ? method : DEFAULT_METHOD);

export function mount(root) {
  root.append(h("h1", {}, t("attribution.title")), h("p", { class: "lead" }, t("attribution.lead")));
  const parts = { controls: h("div", { class: "controls" }), card: h("section", { class: "card" }) };
  const request = (state, info) => {
    const attributions = selectedMethod(state) === COMPARE ? METHODS : [selectedMethod(state)];
    return traceRequest(state, info, { traceOptions: { layers: "none", attributions } });
  };
  return traceView(root, h("div", { hidden: true }, parts.controls, parts.card), request, (state, trace) => {
    const options = [...METHODS, ...(METHODS.length > 1 ? [COMPARE] : [])].map((name) => [name, t(`method.${name}`)]);
    const select = (method) => set({ method, row: null, column: null });
    replaceContent(parts.controls, segmented(t("attribution.method"), options, selectedMethod(state), select));
    const isComparison = selectedMethod(state) === COMPARE;
    replaceContent(parts.card, isComparison ? correlation(trace.rank_correlation) : attribution(state, trace));
  });
}

function attribution(state, trace) {
  const method = selectedMethod(state);
  const { word_scores: scores, is_signed: isSigned, convergence_delta: delta } = trace.attributions.find((each) => each.method === method);
  const values = decodeTensor(scores);
  const largest = values.data.reduce((max, x) => Math.max(max, Math.abs(x)), 1e-9);
  const rows = trace.target.tokens.map(({ text }) => text);
  const columns = trace.source.words.map(({ text }) => text);
  const row = parseInteger(state.row, 0, 0, rows.length - 1);
  const strongest = values.row(row).reduce((best, x, c, all) => (Math.abs(x) > Math.abs(all[best]) ? c : best), 0);
  const column = parseInteger(state.column, strongest, 0, columns.length - 1);
  const figure = {
    name: t("attribution.figure", { method: t(`method.${method}`) }), role: t("matrix"), rows, columns, masked: () => false,
    share: (r, c) => values.row(r)[c] / largest, text: (r, c) => `${columns[c]} → ${rows[r]}: ${formatNumber(values.row(r)[c])}`,
  };
  return [
    h("p", { class: "note" }, t(`method.${method}.note`), isSigned ? ` ${t("attribution.signed")}` : "",
      delta === null ? "" : ` ${t("attribution.delta", { value: formatNumber(100 * delta, 1) })}`),
    h("p", { class: "readout num", "aria-live": "polite" }, h("b", { dir: "auto" }, columns[column]), " → ", h("b", { dir: "auto" }, rows[row]), " ",
      h("span", { data: { number: "cell" } }, formatExact(values.row(row)[column]))),
    h("div", { class: "scroll" }, matrix(figure, [row, column], (r, c) => set({ row: r, column: c }))),
  ];
}

function correlation(result) {
  if (!result) return h("p", { class: "note" }, t("correlation.none"));
  const values = decodeTensor(result.correlation);
  const rows = result.methods.map((method, i) => [t(`method.${method}`), ...Array.from(values.row(i), (x) => formatNumber(x, 2))]);
  return [
    h("h2", {}, t("correlation.title")), h("p", { class: "note" }, t("correlation.note")),
    h("div", { class: "scroll" }, table(["", ...result.methods.map((method) => t(`method.${method}`))], rows)),
  ];
}
