// Pronoun test: two sentences that differ in one word, which decides what "it" refers to.
import { contrastCard } from "./contrast.js";
import { facts, h, replaceContent, shareBar } from "./dom.js";
import { loadingView } from "./errors.js";
import { formatExact, formatNumber } from "./format.js";
import { contrastivePair, headAblationCard } from "./head_ablation.js";
import { t } from "./i18n.js";
import { parseInterventions } from "./interventions.js";
import { directModel, languagePair, serviceInfo, withSupportedInterventions } from "./service_info.js";
import { set } from "./state.js";
import { debounce, explain } from "./trace_view.js";

const STEM = "The animal didn't cross the street because it was too ";
const SENTENCES = { sentence_a: `${STEM}tired.`, sentence_b: `${STEM}wide.` };
const PRONOUNS = { fr: ["il", "elle"], de: ["es", "sie"] };
const FIELDS = ["sentence_a", "sentence_b", "source_word", "word_a", "word_b"]; // keys of the URL

export function pronounCard() {
  const inputs = Object.fromEntries(FIELDS.map((name) => [
    name,
    h("input", { type: "text", dir: "auto", spellcheck: "false", "aria-label": t(`pronoun.${name}`), data: { key: `pronoun:${name}` } }),
  ]));
  const setState = debounce(() => set(Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value]))));
  for (const input of Object.values(inputs)) input.addEventListener("input", setState);
  const status = h("p", { class: "status", role: "status" });
  const body = h("div", { class: "columns" });
  const contrast = h("div", { class: "stack" });
  const field = (name) => h("label", { class: `field ${name.startsWith("sentence") ? "wide" : ""}` }, h("span", {}, t(`pronoun.${name}`)), inputs[name]);
  const element = h("section", { class: "card pronoun" }, h("h2", {}, t("pronoun.title")), h("p", { class: "note" }, t("pronoun.note")),
    h("div", { class: "row" }, FIELDS.slice(0, 2).map(field)), h("div", { class: "row" }, FIELDS.slice(2).map(field)), status, body, contrast);
  async function load(state, signal) {
    const info = await serviceInfo(signal);
    const { source, target } = languagePair(state, info);
    element.hidden = !directModel(state, info);
    const values = fieldValues(state, source, target);
    for (const [name, input] of Object.entries(inputs)) if (document.activeElement !== input) input.value = values[name];
    if (!values.sentence_a || !values.sentence_b || element.hidden) return null;
    const interventions = parseInterventions({ ...await withSupportedInterventions(state, info, signal), mask: null });
    const traceOf = (text) => explain({ text, source, target, interventions, trace_options: { layers: "none", top_k: 60 } }, signal);
    const traces = [await traceOf(values.sentence_a), await traceOf(values.sentence_b)];
    return { values, traces, request: { source, target, interventions } };
  }
  return { element, ...loadingView(status, load, (state, loaded, signal) => {
    if (!loaded) return;
    const { values, traces, request } = loaded;
    const ablation = (trace, index, words, i) => {
      const pair = contrastivePair(trace, index, words);
      return pair && headAblationCard({ text: trace.source.text, ...request, ...pair }, words, i, signal);
    };
    replaceContent(body, traces.map((trace, i) => column(trace, values, i, ablation)));
    replaceContent(contrast, contrastOf(traces, values, request, signal));
  }) };
}

function fieldValues(state, source, target) {
  const [wordA, wordB] = PRONOUNS[target] ?? ["", ""];
  const sentences = source === "en" || source === "auto" ? SENTENCES : { sentence_a: "", sentence_b: "" };
  const defaults = { ...sentences, source_word: "it", word_a: wordA, word_b: wordB };
  return Object.fromEntries(FIELDS.map((name) => [name, state[name] ?? defaults[name]]));
}

// Returns what decides between the two words, or nothing if the first translation has neither.
function contrastOf([a, b], values, { source, target }, signal) {
  const words = [values.word_a, values.word_b];
  const index = findWord(a, words);
  const pair = index < 0 ? null : contrastivePair(a, index, words);
  return pair && contrastCard({ text: a.source.text, contrastive_text: b.source.text, word: values.source_word, source, target, ...pair }, signal);
}

const findWord = (trace, words) => trace.target.tokens.findIndex((token) => words.some((word) => isSameWord(token.text, word)));

const isSameWord = (text, word) => text.toLowerCase() === word.trim().toLowerCase();

function column(trace, values, i, ablation) {
  const words = [values.word_a, values.word_b];
  const index = findWord(trace, words);
  return h("div", { class: "stack" }, h("p", { class: "soft", dir: "auto" }, trace.source.text), h(
    "p", { class: "output", dir: "auto" }, trace.translation.text,
  ),
    index < 0 ? h("p", { class: "note" }, t("pronoun.absent")) : probabilities(trace, index, words, i),
    index < 0 ? null : ablation(trace, index, words, i));
}

function probabilities(trace, index, words, i) {
  const candidates = words.map((word) => trace.steps[index].top_candidates.find((each) => isSameWord(each.text, word)) ?? null);
  const rows = candidates.map((candidate, w) => [`p(${words[w]})`, [
    shareBar(candidate?.probability ?? 0, w === 1), " ",
    h("span", { data: { number: `pronoun:${i}:${w}` } }, candidate ? formatExact(candidate.probability) : t("pronoun.unlikely")),
  ]]);
  if (candidates[0] && candidates[1]) {
    rows.push([`log p(${words[0]}) − log p(${words[1]})`, formatNumber(candidates[0].log_prob - candidates[1].log_prob)]);
  }
  return facts(rows);
}
