// The six steps of one attention head for one query, with the numbers of the trace.
import { axisLabels } from "./attention.js";
import { decodeTensor, formatNumber, formatPercent, h, query } from "./dom.js";

const SHOWN_FEATURES = 4; // numbers of a vector that are displayed

const dotProduct = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const formatVector = (v) => `[${Array.from(v.slice(0, SHOWN_FEATURES), (x) => formatNumber(x, 2)).join("  ")}${v.length > SHOWN_FEATURES ? "  …" : ""}]`;

function tableRow(...cells) {
  return h("tr", {}, ...cells.map(([text, className]) => h("td", className ? { class: className } : {}, text)));
}

export function drawAttentionSteps(view) {
  const body = query("#computation .body");
  const { map, trace } = view;
  const note = query("#computation-note");
  if (view.head === "mean") {
    note.textContent = "Select one head to see how its weights are computed.";
    body.replaceChildren();
    return;
  }
  if (!map.scores) {
    note.textContent = `The trace does not contain the scores of this layer; create it with --layers ${map.stack}.${map.layer} or --layers all.`;
    body.replaceChildren();
    return;
  }
  const index = view.currentQuery();
  const rows = axisLabels(trace, map.query_axis, map.weights.shape[1]);
  const columns = axisLabels(trace, map.key_axis, map.weights.shape[2]);
  note.textContent = `${map.stack} layer ${map.layer}, ${map.kind}, head ${view.head}, query “${rows[index]}”. Click another row of the matrix for another query. Vectors have ${map.queries.shape[2]} numbers; the first are shown.`;
  body.replaceChildren(computationTable(view, index, columns));
}

function computationTable(view, index, columns) {
  const { map, head, trace } = view;
  const isRelative = trace.model.positions === "relative" && map.kind === "self"; // relative positions have values too
  const [queries, keys, values, scores] = ["queries", "keys", "values", "scores"].map((name) => decodeTensor(map[name]));
  const q = queries.row(head, index);
  const weights = map.weights.row(head, index);
  const body = h("tbody");
  const z = new Float32Array(q.length);
  columns.forEach((label, c) => {
    const masked = view.isMasked(index, c);
    const product = dotProduct(q, keys.row(head, c));
    const score = scores.row(head, index)[c];
    const isLater = masked && score === 0; // a key of a later decoding step
    const v = values.row(head, c);
    v.forEach((x, i) => { z[i] += weights[c] * x; });
    body.append(tableRow(
      [label], [formatVector(keys.row(head, c)), "vector"], [isLater ? "" : formatNumber(product)],
      [isLater ? "" : formatNumber(score)], [masked ? "−∞" : formatNumber(score)], [formatPercent(weights[c])], [formatVector(v), "vector"],
    ));
  });
  const sumLabel = isRelative ? "sum, without the relative position values" : "sum: z";
  body.append(tableRow([sumLabel], [""], [""], [""], [""], [formatPercent(weights.reduce((a, b) => a + b, 0))], [formatVector(z), "vector"]));
  return h("table", {}, h("thead", {}, ...headerRows(map, q)), body);
}

function headerRows(map, q) {
  const scaled = map.scale === null ? "3. score" : `3. × ${formatNumber(map.scale, 4)}`;
  const names = ["key", "1. k", "2. q·k", scaled, "4. mask", "5. softmax", "6. weight × v"];
  return [
    h("tr", {}, h("th", { class: "left", colspan: 7 }, h("span", { class: "formula" }, `q = ${formatVector(q)}`))),
    h("tr", {}, ...names.map((name, i) => h("th", { class: i ? "" : "left" }, name))),
  ];
}
