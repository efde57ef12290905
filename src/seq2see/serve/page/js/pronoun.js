// The pronoun: two sentences that differ in one word, and in what "it" means.
import { newest } from "./api.js";
import { matrix } from "./draw/matrix.js";
import { bar, fill, h } from "./dom.js";
import { interventionsOf } from "./interventions.js";
import { exact, percent, short, unpack } from "./numbers.js";
import { contrast, removalsCard } from "./removals.js";
import { explain, facts, fitted, modelOf, pairOf, show, showError, waiting } from "./sentence.js";
import { current, set } from "./store.js";
import { t } from "./text.js";

const STEM = "The animal didn't cross the street because it was too ";
const SENTENCES = { a: `${STEM}tired.`, b: `${STEM}wide.` };
const RIVALS = { fr: ["il", "elle"], de: ["es", "sie"] };

export function pronounCard() {
  const inputs = Object.fromEntries(["a", "b", "it", "he", "she"].map((name) => [
    name,
    h("input", { type: "text", dir: "auto", spellcheck: "false", "aria-label": t(`pronoun.${name}`), data: { key: `pronoun:${name}` } }),
  ]));
  const later = waiting(() => set(Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value]))));
  for (const input of Object.values(inputs)) input.addEventListener("input", later);
  const status = h("p", { class: "status", role: "status" });
  const body = h("div", { class: "columns" });
  const field = (name) => h("label", { class: `field ${name.length > 1 ? "" : "wide"}` }, h("span", {}, t(`pronoun.${name}`)), inputs[name]);
  const element = h("section", { class: "card pronoun" }, h("h2", {}, t("pronoun.title")), h("p", { class: "note" }, t("pronoun.note")),
    h("div", { class: "row" }, field("a"), field("b")), h("div", { class: "row" }, field("it"), field("he"), field("she")), status, body);
  const only = newest();
  const update = (state) => only(async (signal) => {
    try {
      const found = await facts(signal);
      const { source, target } = pairOf(state, found);
      element.hidden = !modelOf(state, found);
      const wanted = wishes(state, source, target);
      for (const [name, input] of Object.entries(inputs)) if (document.activeElement !== input) input.value = wanted[name];
      if (!wanted.a || !wanted.b || element.hidden) return show(status, "");
      const off = interventionsOf({ ...await fitted(state, found, signal), hide: null });
      const asked = (text) => explain({ text, source, target, interventions: off, detail: { layers: "none", top: 60 } }, signal);
      const heads = (trace, place, rivals, i) => {
        const pair = contrast(trace, place, rivals);
        return pair && removalsCard({ text: trace.source.text, source, target, ...pair, interventions: off }, rivals, i, signal);
      };
      const slow = setTimeout(() => show(status, "busy", t("busy")), 200);
      const traces = await (async () => [await asked(wanted.a), await asked(wanted.b)])().finally(() => clearTimeout(slow));
      if (signal.aborted) return;
      show(status, "");
      const room = parseFloat(getComputedStyle(body).gridTemplateColumns); // the first of its columns
      fill(body, traces.map((trace, i) => side(trace, { ...wanted, room }, i, heads)));
    } catch (error) {
      if (!signal.aborted) showError(status, error, () => update(current()));
    }
  });
  return { element, update, leave: () => only(() => {}) };
}

function wishes(state, source, target) {
  const [he, she] = RIVALS[target] ?? ["", ""];
  const known = source === "en" || source === "auto";
  return {
    a: state.a ?? (known ? SENTENCES.a : ""), b: state.b ?? (known ? SENTENCES.b : ""), it: state.it ?? "it",
    he: state.he ?? he, she: state.she ?? she,
  };
}

const same = (text, word) => text.toLowerCase() === word.trim().toLowerCase();

function side(trace, { it, he, she, room }, index, heads) {
  const place = trace.target.tokens.findIndex((token) => same(token.text, he) || same(token.text, she));
  return h("div", { class: "stack" }, h("p", { class: "soft", dir: "auto" }, trace.source.text), h(
    "p", { class: "output", dir: "auto" }, trace.translation.text,
  ),
    place < 0 ? h("p", { class: "note" }, t("pronoun.absent")) : preference(trace, place, [he, she], index), looks(trace, it, index, room),
    place < 0 ? null : heads(trace, place, [he, she], index));
}

function preference(trace, place, rivals, index) {
  const chances = rivals.map((word) => trace.steps[place].top.find((each) => same(each.text, word)) ?? null);
  const rows = chances.map((chance, i) => [
    h("dt", {}, `p(${rivals[i]})`),
    h(
      "dd", {}, bar(chance?.probability ?? 0, i === 1), " ",
      h("span", { data: { number: `pronoun:${index}:${i}` } }, chance ? exact(chance.probability) : t("pronoun.small")),
    ),
  ]);
  const gap = chances[0] && chances[1] ? chances[0].log_prob - chances[1].log_prob : null;
  return h("dl", { class: "facts" }, rows, gap === null ? null : [h("dt", {}, `log p(${rivals[0]}) − log p(${rivals[1]})`), h("dd", {}, short(gap))]);
}

// Where every head of the encoder looks from the word: a row for each.
function looks(trace, it, index, room) {
  const query = trace.source.tokens.findIndex((token) => same(token.text, it));
  if (query < 0) return h("p", { class: "note" }, t("pronoun.missing", { word: it }));
  const rows = trace.attention.filter((map) => map.stack === "encoder").flatMap((map) => map.heads.map((_, head) => ({
    name: `${map.layer}.${head}`, weights: unpack(map.weights).row(head, query),
  })));
  const figure = {
    name: t("pronoun.looks", { word: it }), role: t("matrix"), room, rows: rows.map(({ name }) => name), columns: trace.source.tokens.map((token) => token.text),
    share: (r, c) => rows[r].weights[c], hidden: () => false, text: (r, c) => `${it} → ${trace.source.tokens[c].text}, ${t("pronoun.head", { head: rows[r].name })}: ${percent(rows[r].weights[c])}`,
  };
  const drawn = matrix(figure, null);
  drawn.dataset.key = `matrix:pronoun:${index}`;
  return [h("h3", {}, figure.name), h("div", { class: "scroll" }, drawn)];
}
