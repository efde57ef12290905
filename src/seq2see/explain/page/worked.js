// The six steps inside one head, with real numbers, for one query.
import { element, find, percent, short, unpacked } from "./base.js";
import { labels } from "./attention.js";

const SHOWN = 4; // features of a vector that are written out

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const vector = (v) => `[${Array.from(v.slice(0, SHOWN), (x) => short(x, 2)).join("  ")}${v.length > SHOWN ? "  …" : ""}]`;

function row(...cells) {
  return element("tr", {}, ...cells.map(([text, kind]) => element("td", kind ? { class: kind } : {}, text)));
}

export function worked(view) {
  const home = find("#worked .body");
  const { map, trace } = view;
  const note = find("#worked-note");
  if (view.head === "mean") {
    note.textContent = "Choose one head to see how it comes to its weights.";
    home.replaceChildren();
    return;
  }
  if (!map.scores) {
    note.textContent = `The numbers inside this layer were not kept; ask for them with --layers ${map.stack}.${map.layer} or --layers all.`;
    home.replaceChildren();
    return;
  }
  const query = view.shownQuery();
  const rows = labels(trace, map.rows, map.weights.shape[1]);
  const columns = labels(trace, map.columns, map.weights.shape[2]);
  note.textContent = `${map.stack} layer ${map.layer}, ${map.kind}, head ${view.head}; the query of “${rows[query]}”. Click a row of the matrix for another. Vectors have ${map.queries.shape[2]} numbers, of which the first are shown.`;
  home.replaceChildren(table(view, query, columns));
}

function table(view, query, columns) {
  const { map, head, trace } = view;
  const relative = trace.model.positions === "relative" && map.kind === "self"; // distances have values too
  const [queries, keys, values, scores] = ["queries", "keys", "values", "scores"].map((name) => unpacked(map[name]));
  const q = queries.row(head, query);
  const weights = map.weights.row(head, query);
  const made = element("table", {}, element("thead", {}, titles(map, q)));
  const body = element("tbody");
  const mixed = new Float32Array(q.length);
  columns.forEach((label, c) => {
    const hidden = view.hidden(query, c);
    const product = dot(q, keys.row(head, c));
    const score = scores.row(head, query)[c];
    const v = values.row(head, c);
    v.forEach((x, i) => { mixed[i] += weights[c] * x; });
    body.append(row(
      [label], [vector(keys.row(head, c)), "vector"], [hidden && score === 0 ? "" : short(product)],
      [hidden && score === 0 ? "" : short(score)], [hidden ? "−∞" : short(score)], [percent(weights[c])], [vector(v), "vector"],
    ));
  });
  body.append(row([relative ? "sum, without the values of the distances" : "sum: z"], [""], [""], [""], [""], [percent(weights.reduce((a, b) => a + b, 0))], [vector(mixed), "vector"]));
  made.append(body);
  return made;
}

function titles(map, q) {
  const scaled = map.scale === null ? "3. the score" : `3. × ${short(map.scale, 4)}`;
  const names = ["key", "1. k", "2. q·k", scaled, "4. mask", "5. softmax", "6. weight × v"];
  const head = element("tr", {}, ...names.map((name, i) => element("th", { class: i ? "" : "left" }, name)));
  const top = element("tr", {}, element("th", { class: "left", colspan: 7 }, element("span", { class: "formula" }, `q = ${vector(q)}`)));
  const both = document.createDocumentFragment();
  both.append(top, head);
  return both;
}
