// The six steps inside one head, with its real numbers, for one query.
import { bar, h, table } from "./dom.js";
import { dot, exact, short, unpack } from "./numbers.js";
import { siteName, t } from "./text.js";
import { axis } from "./words.js";

const SHOWN = 4; // numbers of a vector that are written out

const vector = (v) => `${Array.from(v.slice(0, SHOWN), (x) => short(x, 2)).join("  ")}${v.length > SHOWN ? "  …" : ""}`;
const cell = (kind, ...inside) => h("td", { class: kind }, ...inside);

export function worked(trace, map, head, query) {
  const title = h("h2", {}, t("worked.title"));
  if (head === "mean") return [title, h("p", { class: "note" }, t("worked.one"))];
  if (!map.scores) return [title, h("p", { class: "note" }, t("worked.missing"))];
  const [, queries, keys] = map.weights.shape;
  const label = axis(trace, map.rows, queries)[query].text;
  const name = `${siteName(map.stack, map.layer, map.kind)} · ${t("head.n", { head })}`;
  const steps = ["project", "product", "scale", "mask", "softmax", "mix"].map((step) => h("li", {}, t(`worked.${step}`)));
  return [title,
    h("p", { class: "note" }, t("worked.note", { name, query: label, size: map.queries.shape[2] })),
    h("ol", { class: "six" }, steps),
    h("p", { class: "mono scroll" }, `q = [ ${vector(unpack(map.queries).row(head, query))} ]`),
    h("div", { class: "scroll" }, sums(map, head, query, axis(trace, map.columns, keys), hasDistances(trace, map)))];
}

// Relative positions give each distance a value too, which the trace does not have.
const hasDistances = (trace, map) => trace.model.positions === "relative" && map.kind === "self";

function isHidden(map, head, query, key) {
  const mask = unpack(map.mask);
  if (!mask) return false;
  return (mask.shape.length === 2 ? mask.row(query) : mask.row(head, query))[key] === 1;
}

function sums(map, head, query, tokens, distances) {
  const [queries, keys, values, scores, weights] = ["queries", "keys", "values", "scores", "weights"].map((name) => unpack(map[name]));
  const q = queries.row(head, query);
  const mixed = new Float64Array(q.length);
  const rows = tokens.map((token, key) => {
    const [k, v, score, weight] = [keys.row(head, key), values.row(head, key), scores.row(head, query)[key], weights.row(head, query)[key]];
    const hidden = isHidden(map, head, query, key);
    const unborn = hidden && score === 0; // a key of a later step
    v.forEach((x, i) => { mixed[i] += weight * x; });
    return [token.text, cell("vector", vector(k)), unborn ? "" : short(dot(q, k)), unborn ? "" : short(score), hidden ? "−∞" : short(score),
      cell("", bar(weight), " ", exact(weight)), cell("vector", vector(v))];
  });
  const total = weights.row(head, query).reduce((sum, x) => sum + x, 0);
  rows.push(h(
    "tr", { class: "is" },
    [h("td", {}, distances ? t("worked.partial") : "z"), h("td"), h("td"), h("td"), h("td"), h("td", {}, exact(total)), cell("vector", vector(mixed))],
  ));
  const scaled = map.scale === null ? `3 · ${t("worked.score")}` : `3 · × ${short(map.scale, 4)}`;
  return table([t("worked.key"), "1 · k", "2 · q·k", scaled, `4 · ${t("worked.masked")}`, "5 · softmax", `6 · ${t("worked.values")}`], rows);
}
