// A view of one trace: a card with the sentence and its languages, and the figures of the view below.
import { fetchJson } from "./api.js";
import { h, replaceContent, selectField } from "./dom.js";
import { trace as embeddedTrace } from "./embedded.js";
import { loadingView, showStatus } from "./errors.js";
import { formatNumber } from "./format.js";
import { languageName, t } from "./i18n.js";
import { chooseSource, directModel, exampleSentence, languageOptions, languagePair, serviceInfo, withCurrent } from "./service_info.js";
import { set } from "./state.js";
import { splitSentences } from "./tokens.js";

const DEBOUNCE = 350; // milliseconds after the last key before a request is sent
const MAX_FULL_DETAIL = 160; // characters up to which the trace contains scores and vectors of all layers

// Returns the text of the state; views of a trace start with an example.
const textOf = (state, info) => state.text ?? exampleSentence(languagePair(state, info).source);

export const isLongText = (state, info) => explainedText(state, info).length > MAX_FULL_DETAIL;

// Returns what is explained: the text, or its selected sentence if it has more sentences than the model's training lines.
function explainedText(state, info) {
  const text = textOf(state, info).trim();
  const sentences = choices(state, info);
  return sentences.length ? sentences[Math.min(Number(state.sentence ?? 0), sentences.length - 1)] : text;
}

// Returns the sentences to choose from; none if the text is explained as a whole.
function choices(state, info) {
  const sentences = splitSentences(textOf(state, info));
  return sentences.length > (directModel(state, info)?.max_sentences_per_line ?? Infinity) ? sentences : [];
}

// Returns the body of a request to explain. `layers` names the detailed layer of a long text.
export function traceRequest(state, info, { layers, traceOptions, ...more } = {}) {
  const text = explainedText(state, info);
  const options = { layers: !isLongText(state, info) ? "all" : layers ? [layers] : "last", top_k: 8, ...traceOptions };
  return { text, ...languagePair(state, info), ...more, trace_options: options };
}

export const explain = (request, signal) => fetchJson("api/v1/explain", request, { signal });

// Returns a function that calls `callback` once its arguments have not changed for a while.
export function debounce(callback) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => callback(...args), DEBOUNCE);
  };
}

function sentenceCard() {
  const input = h("textarea", { rows: 2, dir: "auto", spellcheck: "false", "aria-label": t("sentence"), data: { key: "sentence" } });
  let typed = null; // the last text that was set from this field
  input.addEventListener("input", debounce(() => set({ text: typed = input.value })));
  const pair = h("div", { class: "row" });
  const choice = h("div", { class: "row" });
  const output = h("div", { "aria-live": "polite" });
  const status = h("p", { class: "status", role: "status" });
  const element = h(
    "section", { class: "card sentence" },
    h("div", { class: "row between" }, h("h2", {}, t("sentence")), pair), input, choice, output, status,
  );

  function update(state, info) {
    const text = textOf(state, info);
    if (text !== typed) input.value = typed = text; // otherwise the field may contain newer text
    const { source, target } = languagePair(state, info);
    const { sources, targets } = languageOptions(info, source);
    replaceContent(pair,
      selectField(t("from"), withCurrent(sources, source), source, (code) => chooseSource(code, info), { data: { key: "source" } }),
      selectField(t("to"), withCurrent(targets, target), target, (code) => set({ target: code }), { data: { key: "target" } }));
    updateChoice(state, info);
  }

  function updateChoice(state, info) {
    const sentences = choices(state, info);
    const options = sentences.map((sentence, index) => [String(index), `${index + 1}. ${sentence}`]);
    replaceContent(choice, options.length ? selectField(
      t("sentence.choose"), options, state.sentence ?? "0", (index) => set({ sentence: index }), { data: { key: "choice" } },
    ) : []);
  }

  return { element, status, output, update };
}

function translationOf(trace) {
  const { model, search, translation } = trace;
  const facts = t("trace.facts", {
    log_prob: formatNumber(translation.log_prob, 2), score: formatNumber(translation.score),
    decoding: trace.is_forced ? t("decoding.forced") : t("decoding.beam", { size: search.beam_size }),
    layers: `${model.encoder_layers} + ${model.decoder_layers}`, heads: model.heads, size: model.d_model,
  });
  return [h("p", { class: "output", dir: "auto" }, translation.text), h("p", { class: "note num" }, facts)];
}

// Creates a view that draws the trace in the page, or loads a trace for each state and draws it:
// request(state, info, signal), draw(state, trace, info, signal); without a service, `info` is undefined.
export function traceView(root, body, request, draw) {
  if (embeddedTrace) {
    const { source, target } = embeddedTrace;
    const title = h("h2", {}, `${t("sentence")} (${languageName(source.language)} → ${languageName(target.language)})`);
    root.append(h("section", { class: "card sentence" }, title, h("p", { dir: "auto" }, source.text), translationOf(embeddedTrace)), body);
    body.hidden = false;
    return { update: (state) => draw(state, embeddedTrace) };
  }
  const card = sentenceCard();
  root.append(card.element, body);
  const clear = () => { body.hidden = true; card.output.replaceChildren(); };
  async function load(state, signal) {
    const info = await serviceInfo(signal);
    if (!signal.aborted) card.update(state, info);
    const traceBody = await request(state, info, signal);
    return { info, text: traceBody.text, trace: traceBody.text ? await explain(traceBody, signal) : null };
  }
  return loadingView(card.status, load, (state, { info, text, trace }, signal) => {
    showStatus(card.status, "", !text ? t("empty") : "");
    if (!trace) return clear();
    body.hidden = false;
    replaceContent(card.output, translationOf(trace));
    return draw(state, trace, info, signal);
  }, clear);
}
