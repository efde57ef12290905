// Decoding: what was expected at each step, and the whole beam with what became of every hypothesis.
import { beamTree } from "../draw/beam.js";
import { bar, button, choice, fill, h, hint, slider, table } from "../dom.js";
import { exact, percent, real, short, unpack, whole } from "../numbers.js";
import { traceRequest, traceView } from "../sentence.js";
import { current, set } from "../store.js";
import { t } from "../text.js";

const BEAMS = [1, 2, 3, 4, 5, 6, 8, 10, 12]; // wider ones could not be read
const SHOWN = 8; // finished hypotheses in the table

export function mount(root) {
  root.append(h("h1", {}, t("decoding.title")), h("p", { class: "lead" }, t("decoding.lead")));
  const parts = {
    strip: h("div", { class: "strip", role: "group", "aria-label": t("steps") }), step: h("div"),
    lens: h("div", { class: "scroll" }), tree: h("div", { class: "scroll" }),
    node: h("div", { class: "stack", "aria-live": "polite" }), ranking: h("div", { class: "scroll" }),
    beam: h("div", { class: "row" }), trace: null,
  };
  parts.step_slider = slider(t("step"), { min: 0, max: 1, step: 1 }, (value) => set({ step: value }));
  parts.alpha = slider(t("length_penalty"), { min: 0, max: 2, step: 0.05 }, (value, done) => {
    parts.alpha.show(value, short(value, 2));
    if (parts.trace) ranking(parts, parts.trace, value);
    if (done) set({ alpha: value, node: null });
  });
  const body = h("div", { hidden: true },
    h("section", { class: "card" }, h("h2", {}, t("steps.title")), h("p", { class: "note" }, t("steps.note")), parts.strip, h(
      "div", { class: "controls" }, parts.step_slider.element,
    ),
      h("div", { class: "columns" }, parts.step, h("div", {}, h("h3", {}, t("lens")), h("p", { class: "note" }, t("lens.note")), parts.lens))),
    h(
      "section", { class: "card" },
      h("h2", {}, t("beam.title")),
      h("div", { class: "controls" }, parts.beam, parts.alpha.element), parts.tree, parts.node,
    ),
    h("section", { class: "card" }, h("h2", {}, t("ranking.title")), h("p", { class: "note" }, t("ranking.note")), parts.ranking));
  return traceView(root, body, request, (state, trace, found) => draw(parts, state, trace, found));
}

function request(state, found) {
  const wanted = traceRequest(state, found, { detail: { layers: "none", top: 10 } });
  return { ...wanted, beam_size: beamOf(state, found), length_penalty: real(state.alpha, 1, 0, 2) };
}

const widths = ({ search }) => BEAMS.filter((size) => size <= search.most_beam_size || size === 1);

const beamOf = (state, found) => whole(state.beam, found.search.beam_size, 1, widths(found).at(-1));

function draw(parts, state, trace, found) {
  parts.trace = trace;
  const last = trace.steps.length - 1;
  const step = whole(state.step, 0, 0, last);
  parts.step_slider.input.max = last;
  parts.step_slider.show(step, `${step} / ${last}`);
  fill(parts.strip, trace.target.tokens.map((token, i) => hint(button(token.text, () => set({ step: i }), {
    class: "word", "aria-pressed": String(i === step), data: { key: `step:${i}` }, style: { "--doubt": String(1 - trace.steps[i].probability) },
  }), () => percent(trace.steps[i].probability))));
  stepCard(parts.step, trace, step);
  fill(parts.lens, lens(trace, step));
  const beam = beamOf(state, found);
  const sizes = [...new Set([...widths(found), beam])].sort((a, b) => a - b);
  fill(
    parts.beam,
    choice(
      t("beam.size"),
      sizes.map((n) => [String(n), String(n)]), String(beam),
      (value) => set({ beam: value, node: null }), { data: { key: "beam" } },
    ),
  );
  const alpha = real(state.alpha, 1, 0, 2);
  parts.alpha.show(alpha, short(alpha, 2));
  beamCard(parts, state, trace);
  ranking(parts, trace, alpha);
}

function stepCard(home, trace, step) {
  const { probability, log_prob, rank, entropy, top } = trace.steps[step];
  const token = trace.target.tokens[step];
  const given = step ? trace.target.tokens[step - 1].text : trace.start.text;
  const rows = top.map((each) => h("tr", { class: each.id === token.id ? "is" : null }, [
    h("td", {}, each.text), h("td", {}, bar(each.probability, each.id === token.id)), h(
      "td", { data: { number: `top:${each.id}` } }, exact(each.probability),
    ), h("td", {}, short(each.log_prob)),
  ]));
  fill(home, h("dl", { class: "facts" },
    h("dt", {}, t("given")), h("dd", {}, given), h("dt", {}, t("emitted")), h("dd", {}, h("b", {}, token.text)),
    h("dt", {}, t("probability")), h("dd", { data: { number: "probability" } }, exact(probability)),
    h("dt", {}, t("log_prob")), h("dd", { data: { number: "log_prob" } }, exact(log_prob)),
    h("dt", {}, t("rank")), h("dd", {}, rank + 1), h("dt", {}, t("entropy")), h("dd", { data: { number: "entropy" } }, exact(entropy))),
  h("div", { class: "scroll" }, table([t("token"), h("th", { class: "left" }), t("probability"), t("log")], rows)));
}

function lens(trace, step) {
  const token = trace.target.tokens[step];
  const rows = [...trace.lens].reverse().map((each) => [t("layer.n", { layer: each.layer }),
    h(
      "td", { class: "left" },
      each.top[step].slice(0, 3).map((other) => h(
        "span", { class: other.id === token.id ? "chip is" : "chip" }, other.text,
        h("small", {}, percent(other.probability)),
      )),
    ),
    exact(unpack(each.probability).data[step])]);
  return table([t("layer"), h("th", { class: "left" }, t("lens.top")), t("lens.of", { token: token.text })], rows);
}

function sentenceOf(nodes, node) {
  const pieces = [];
  for (let at = node; at; at = at.parent === null ? null : nodes[at.parent]) pieces.unshift(at.piece);
  return pieces.join("").replaceAll("▁", " ").replace(/<\/s>$/, "").trim();
}

function why(trace, node) {
  const { nodes } = trace.beam;
  const rivals = nodes.filter((other) => other.step === node.step && other.member === node.member);
  if (node.fate === "pruned") {
    const kept = rivals.filter((other) => other.fate !== "pruned" && other.rank < node.rank);
    const weakest = kept.reduce((worst, other) => (worst && worst.rank > other.rank ? worst : other), null);
    return weakest ? t(
      "fate.pruned.why",
      { rank: node.rank, kept: kept.length, word: weakest.text, log_prob: short(weakest.log_prob), own: short(node.log_prob) },
    ) : t("fate.pruned");
  }
  return t(`fate.${node.fate}.why`, { place: node.rank + 1 });
}

function beamCard(parts, state, trace) {
  const { nodes, path } = trace.beam;
  if (trace.forced || !nodes.length) return fill(parts.tree, h("p", { class: "note" }, t("beam.forced"))), fill(parts.node);
  const chosen = nodes[whole(state.node, path.at(-1), 0, nodes.length - 1)];
  const brief = (node) => `${sentenceOf(nodes, node)}\n${t(`fate.${node.fate}`)} · ${t("log_prob")} ${short(node.log_prob)} · ${t("score")} ${short(node.score)}`;
  const left = parts.tree.scrollLeft;
  fill(
    parts.tree,
    beamTree(trace.beam, chosen.id, (id) => set({ node: id, step: nodes[id].step < trace.steps.length ? nodes[id].step : current().step }), brief),
  );
  parts.tree.scrollLeft = left;
  fill(parts.node,
    h(
      "p", { class: "legend" },
      ["path", "alive", "finished", "pruned", "stopped"].map((fate) => h("span", { class: `key ${fate}` }, t(`fate.${fate}`))),
    ),
    h("p", {}, h("b", { dir: "auto" }, sentenceOf(nodes, chosen)), " — ", why(trace, chosen)),
    h(
      "p", { class: "mono num" },
      t(
        "node.sum",
        {
          log_prob: exact(chosen.log_prob), length: chosen.step + 1, alpha: short(trace.search.length_penalty, 2),
          penalty: exact(chosen.penalty), score: exact(chosen.score),
        },
      ),
    ));
}

function ranking(parts, trace, alpha) {
  const { nodes, path } = trace.beam;
  const winner = nodes[path.at(-1)];
  const done = nodes.filter((node) => node.fate === "finished").map((node) => ({
    node,
    score: node.log_prob / (node.step + 1) ** alpha - node.penalty,
  }));
  done.sort((a, b) => b.score - a.score);
  if (!done.length) return fill(parts.ranking, h("p", { class: "note" }, t("ranking.none")));
  const rows = done.slice(0, SHOWN).map(({ node, score }, i) => h("tr", { class: node === winner ? "is" : null }, [
    h("td", {}, i + 1), h(
      "td", { class: "left wrap", dir: "auto" }, sentenceOf(nodes, node),
    ), h("td", {}, node.step + 1), h("td", {}, short(node.log_prob)), h("td", { data: { number: `score:${node.id}` } }, exact(score)),
  ]));
  return fill(
    parts.ranking,
    table(["", h("th", { class: "left" }, t("hypothesis")), t("length"), t("log_prob"), t("ranking.score", { alpha: short(alpha, 2) })], rows),
  );
}
