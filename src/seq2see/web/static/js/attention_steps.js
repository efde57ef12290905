// The six steps of one attention head for one query, with the numbers of the trace.
import { h, shareBar, table } from "./dom.js";
import { trace as embeddedTrace } from "./embedded.js";
import { decodeTensor, dotProduct, formatExact, formatNumber } from "./format.js";
import { attentionName, t } from "./i18n.js";
import { axisTokens } from "./tokens.js";

const SHOWN_FEATURES = 4; // numbers of a vector that are displayed

const formatVector = (v) => `${Array.from(v.slice(0, SHOWN_FEATURES), (x) => formatNumber(x, 2)).join("  ")}${v.length > SHOWN_FEATURES ? "  …" : ""}`;
const cell = (className, ...content) => h("td", { class: className }, ...content);

export function attentionSteps(trace, map, head, query) {
  const title = h("h2", {}, t("computation.title"));
  if (head === "mean") return [title, h("p", { class: "note" }, t("computation.one"))];
  if (!map.scores) return [title, h("p", { class: "note" }, missingNote(map))];
  const [, queries, keys] = map.weights.shape;
  const label = axisTokens(trace, map.query_axis, queries)[query].text;
  const name = `${attentionName(map.stack, map.layer, map.kind)} · ${t("head.n", { head })}`;
  const steps = ["project", "product", "scale", "mask", "softmax", "sum"].map((step) => h("li", {}, t(`computation.${step}`)));
  return [title,
    h("p", { class: "note" }, t("computation.note", { name, query: label, size: map.queries.shape[2] })),
    h("ol", { class: "six" }, steps),
    h("p", { class: "mono scroll" }, `q = [ ${formatVector(decodeTensor(map.queries).row(head, query))} ]`),
    h("div", { class: "scroll" }, computationTable(map, head, query, axisTokens(trace, map.key_axis, keys), hasRelativePositions(trace, map)))];
}

const missingNote = (map) => t(embeddedTrace ? "attention.unrecorded" : "computation.missing", { layer: `${map.stack}.${map.layer}` });

// Relative positions also have value vectors, which are not part of the trace.
const hasRelativePositions = (trace, map) => trace.model.positions === "relative" && map.kind === "self";

export function isMaskedKey(map, head, query, key) {
  const mask = decodeTensor(map.mask);
  if (!mask) return false;
  return (mask.shape.length === 2 ? mask.row(query) : mask.row(head, query))[key] === 1;
}

function computationTable(map, head, query, tokens, isRelative) {
  const [queries, keys, values, scores, weights] = ["queries", "keys", "values", "scores", "weights"].map((name) => decodeTensor(map[name]));
  const q = queries.row(head, query);
  const z = new Float64Array(q.length);
  const rows = tokens.map((token, key) => {
    const [k, v, score, weight] = [keys.row(head, key), values.row(head, key), scores.row(head, query)[key], weights.row(head, query)[key]];
    const masked = isMaskedKey(map, head, query, key);
    const isLater = masked && score === 0; // a key of a later decoding step
    v.forEach((x, i) => { z[i] += weight * x; });
    return [token.text, cell("vector", formatVector(k)), isLater ? "" : formatNumber(dotProduct(q, k)), isLater ? "" : formatNumber(score),
      masked ? "−∞" : formatNumber(score), cell("", shareBar(weight), " ", formatExact(weight)), cell("vector", formatVector(v))];
  });
  const total = weights.row(head, query).reduce((sum, x) => sum + x, 0);
  rows.push(h("tr", { class: "is" }, [
    h("td", {}, isRelative ? t("computation.partial") : "z"), h("td"), h("td"), h("td"), h("td"),
    h("td", {}, formatExact(total)), cell("vector", formatVector(z)),
  ]));
  const scaled = map.scale === null ? `3 · ${t("computation.score")}` : `3 · × ${formatNumber(map.scale, 4)}`;
  return table([
    t("computation.key"), "1 · k", "2 · q·k", scaled, `4 · ${t("computation.masked")}`, "5 · softmax", `6 · ${t("computation.values")}`,
  ], rows);
}
