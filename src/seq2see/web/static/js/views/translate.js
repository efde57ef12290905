// Translate: translates while the user types, with the probability, source words and alternatives of each word.
import { fetchJson } from "../api.js";
import { addTooltip, button, facts, h, replaceContent, selectField, shareBar } from "../dom.js";
import { errorText, loadingView, localizedError, showStatus } from "../errors.js";
import { fileUpload } from "../file_upload.js";
import { formatExact, formatNumber, formatPercent, parseInteger } from "../format.js";
import { languageName, t } from "../i18n.js";
import { NO_PREFIXES, changePrefix, parsePrefixes } from "../prefixes.js";
import { chooseSource, directModel, exampleSentence, languageOptions, languagePair, serviceInfo, withCurrent } from "../service_info.js";
import { address, current, set } from "../state.js";
import { alignedWords, findOffsets, isSingleSentence, sliceCharacters } from "../tokens.js";
import { debounce, explain } from "../trace_view.js";

const NUM_ALTERNATIVES = 3;

const parseGlossary = (text = "") => Object.fromEntries(text.split("\n").map((line) => line.split("=").map((side) => side.trim())).filter(([source, target]) => source && target));

// Returns the range of beam sizes: at least the number of results, at most what the service allows.
function beamSizeRange({ search }) {
  const min = Math.min(NUM_ALTERNATIVES + 1, search.max_n_best, search.max_beam_size);
  return { min, max: search.max_beam_size, default: Math.max(search.beam_size, min) };
}

function beamSize(state, info) {
  const range = beamSizeRange(info);
  return parseInteger(state.beam_size, range.default, range.min, Math.max(range.max, range.default));
}

function buildRequest(state, info) {
  const { source, target } = languagePair(state, info);
  const request = { text: state.text ?? "", source, target, n_best: beamSizeRange(info).min, alignment: true, token_scores: true };
  if (state.prefix) request.prefixes = Object.fromEntries(parsePrefixes(state));
  if (state.beam_size) request.beam_size = Math.min(beamSize(state, info), info.search.max_beam_size);
  const glossary = parseGlossary(state.glossary);
  if (Object.keys(glossary).length) request.glossary = glossary;
  return request;
}

export function mount(root) {
  const elements = createElements();
  root.append(h("h1", {}, t("translate.title")), ...elements.children);
  const view = { ...elements, info: null, translation: null, typedText: "", typedOptions: {} }; // typed: set from these fields
  const setText = debounce(() => { view.typedText = view.input.value; set({ ...NO_PREFIXES, text: view.typedText }); });
  view.input.addEventListener("input", () => { highlight(view, []); setText(); });
  view.input.addEventListener("scroll", () => { view.mirror.scrollTop = view.input.scrollTop; });
  const showUpload = fileUpload(view.upload, () => languagePair(current(), view.info));
  async function load(state, signal) {
    view.info = await serviceInfo(signal);
    if (signal.aborted) return null;
    drawControls(view, state);
    showUpload(view.info.settings);
    if (!(state.text ?? "").trim()) return null;
    const { translations } = await fetchJson("api/v1/translate", buildRequest(state, view.info), { signal });
    return translations[0];
  }
  const draw = (state, translation, signal) => (translation ? drawResult(view, state, translation, signal) : clear(view));
  return loadingView(view.status, load, draw, () => clear(view));
}

function createElements() {
  const input = h(
    "textarea",
    { class: "source-text", rows: 6, dir: "auto", spellcheck: "false", "aria-label": t("translate.source"), placeholder: t("translate.placeholder") },
  );
  const mirror = h("div", { class: "mirror", "aria-hidden": "true", dir: "auto" });
  const output = h("div", { class: "target-text", dir: "auto", "aria-label": t("translate.target"), role: "group" });
  const pair = h("div", { class: "controls pair" });
  const inputFooter = h("div", { class: "row between below" });
  const outputFooter = h("div", { class: "row between below" });
  const status = h("p", { class: "status", role: "status" });
  const wordCard = h("section", { class: "card word-card", "aria-live": "polite", hidden: true });
  const candidateCard = h("section", { class: "card", hidden: true });
  const chips = h("div", { class: "row" });
  const upload = h("section", { class: "card drop" });
  const options = h("details", { class: "options" });
  const children = [
    pair,
    h("div", { class: "columns panes" },
      h("section", { class: "card pane" }, h("div", { class: "layers" }, mirror, input), inputFooter),
      h("section", { class: "card pane" }, output, status, chips, outputFooter)),
    wordCard, candidateCard, options, upload,
  ];
  return { children, input, mirror, output, pair, inputFooter, outputFooter, status, wordCard, candidateCard, chips, upload, options };
}

function drawControls(view, state) {
  const { info } = view;
  const { source, target } = languagePair(state, info);
  const { sources, targets } = languageOptions(info, source);
  const canSwap = languageOptions(info, target).targets.some(([code]) => code === source);
  replaceContent(view.pair,
    selectField(t("from"), withCurrent([["auto", t("detect")], ...sources], source), source, (code) => chooseSource(code, info), { data: { key: "source" } }),
    button("⇄", () => swapLanguages(view, source, target), { disabled: !canSwap, "aria-label": t("swap"), data: { key: "swap" } }),
    selectField(t("to"), withCurrent(targets, target), target, (code) => set({ ...NO_PREFIXES, target: code }), { data: { key: "target" } }));
  const text = state.text ?? "";
  if (text !== view.typedText) view.input.value = view.typedText = text; // otherwise the field may contain newer text
  const limit = info.settings.charLimit;
  replaceContent(view.inputFooter,
    h("span", { class: "note num" }, `${[...view.input.value].length} / ${limit}`),
    view.input.value ? button(
      t("clear"),
      () => { view.input.value = view.typedText = ""; set({ ...NO_PREFIXES, text: null }); view.input.focus(); },
      { class: "quiet", data: { key: "clear" } },
    )
      : button(
        t("example"),
        () => { set({ text: exampleSentence(source === "auto" ? info.models[0].source : source) }); },
        { class: "quiet", data: { key: "example" } },
      ));
  drawOptions(view, state);
}

function swapLanguages(view, source, target) {
  set({ ...NO_PREFIXES, source: target, target: source, text: view.translation?.text ?? current().text });
}

function drawOptions(view, state) {
  view.fields ??= createOptionFields(view);
  const values = { glossary: state.glossary ?? "", beam_size: String(beamSize(state, view.info)) };
  const changed = Object.keys(values).filter((name) => view.typedOptions[name] !== values[name] && document.activeElement !== view.fields[name]);
  for (const name of changed) view.fields[name].value = view.typedOptions[name] = values[name];
  if (changed.some((name) => state[name])) view.options.open = true;
}

function createOptionFields(view) {
  const { min, max } = beamSizeRange(view.info);
  const glossary = h("textarea", { rows: 3, placeholder: t("glossary.example"), "aria-label": t("glossary") });
  glossary.addEventListener("input", debounce(() => { view.typedOptions.glossary = glossary.value; set({ glossary: glossary.value || null }); }));
  const size = h(
    "input",
    {
      type: "number", min, max, data: { key: "beam_size" },
      on: { change: () => { size.value = view.typedOptions.beam_size = String(beamSize({ beam_size: size.value }, view.info)); set({ beam_size: size.value }); } },
    },
  );
  replaceContent(view.options, h("summary", {}, t("options")),
    h(
      "div", { class: "card stack" },
      h("label", { class: "field" }, t("beam.size"), size),
      h("h3", {}, t("glossary")), glossary,
      h("p", { class: "note" }, t("glossary.note")),
    ));
  return { glossary, beam_size: size };
}

function clear(view) {
  view.translation = null;
  highlight(view, []);
  for (const element of [view.output, view.chips, view.outputFooter]) element.replaceChildren();
  view.wordCard.hidden = view.candidateCard.hidden = true;
  showStatus(view.status, "");
}

function drawResult(view, state, translation, signal) {
  const candidates = [translation, ...translation.alternatives];
  const index = parseInteger(state.candidate, 0, 0, candidates.length - 1);
  const candidate = candidates[index];
  view.translation = candidate;
  view.pairOfTranslation = { source: translation.source, target: translation.target };
  drawChips(view, state, translation, candidate);
  drawOutput(view, state, candidate, signal);
  drawCandidates(view, candidates, index);
  replaceContent(view.outputFooter,
    !translation.models.length ? h("span") : h(
      "span", { class: "note num" }, t("log_prob"), " ",
      h("span", { data: { number: "log_prob" } }, formatExact(candidate.log_prob)),
      " · ", t("score"), " ", h("span", { data: { number: "score" } }, formatExact(candidate.score)),
    ),
    h("span", { class: "row" },
      h("a", { class: "button", href: address({ ...sharedKeys(state), view: "attention" }) }, t("show_attention")),
      navigator.clipboard && button(
        t("copy"),
        async (event) => { await navigator.clipboard.writeText(candidate.text); event.target.textContent = t("copied"); },
        { data: { key: "copy" } },
      )));
}

const sharedKeys = ({ text, source, target, lang }) => ({ text, source, target, lang });

// Draws errors, the detected language, flags, unmet constraints and prefixes.
function drawChips(view, state, translation, candidate) {
  const chips = [];
  if (translation.error) chips.push(h("span", { class: "chip warn" }, t("error.translation", { error: localizedError(translation.error, translation.error_code) })));
  if (translation.detected) chips.push(h(
    "span", { class: "chip" },
    t("detected", { language: languageName(translation.detected.language), confidence: Math.round(100 * translation.detected.confidence) }),
  ));
  if (!translation.models.length) chips.push(h("span", { class: "chip" }, t("same.language", { language: languageName(translation.target) })));
  if (translation.via.length) chips.push(h("span", { class: "chip" }, t("via", { languages: translation.via.map((code) => languageName(code)).join(", ") })));
  const affected = (field, value) => sentencesWith(candidate, state.text, (each) => each[field].includes(value));
  for (const flag of candidate.flags) chips.push(warning(t(`flag.${flag}`), [t(`flag.${flag}.why`), ...affected("flags", flag)]));
  for (const term of candidate.unmet_constraints) chips.push(warning(t("unmet", { term }), affected("unmet_constraints", term)));
  for (const [offset, prefix] of parsePrefixes(state)) {
    chips.push(h(
      "span", { class: "chip is", dir: "auto" }, t("prefix", { prefix }),
      button("✕", () => set(changePrefix(state, offset, null)), { class: "quiet tiny", "aria-label": t("prefix.remove") }),
    ));
  }
  replaceContent(view.chips, chips);
}

function warning(label, lines) {
  const chip = h("span", { class: "chip warn", tabindex: lines.length ? 0 : null }, label);
  return lines.length ? addTooltip(chip, lines.join("\n")) : chip;
}

// Returns the source sentences that a warning is about; empty for a text of one sentence.
function sentencesWith(candidate, text, hasWarning) {
  if (candidate.sentences.length < 2) return [];
  return candidate.sentences.filter(hasWarning).map((each) => `“${sliceCharacters(text, each.source_start, each.source_end)}”`);
}

function drawOutput(view, state, candidate, signal) {
  const words = alignedWords(candidate);
  const selected = state.word === undefined ? -1 : parseInteger(state.word, 0, 0, words.length - 1);
  const selectedLinks = selected < 0 ? [] : words[selected].links;
  let end = 0;
  const content = words.flatMap((word, i) => {
    const gap = sliceCharacters(candidate.text, end, word.start);
    end = word.end;
    const label = sliceCharacters(candidate.text, word.start, word.end);
    const element = button(label, () => set({ word: selected === i ? null : i }), {
      class: "word", "aria-expanded": String(selected === i), data: { key: `word:${i}` }, style: { "--uncertainty": String(1 - word.probability) },
      on: {
        pointerenter: () => highlight(view, word.links),
        pointerleave: () => highlight(view, selectedLinks),
        focus: () => highlight(view, word.links),
      },
    });
    addTooltip(
      element,
      () => `${formatPercent(word.probability)}${word.links.length ? `\n← ${sourceWords(word.links).map(([text, weight]) => `${text} ${formatPercent(weight)}`).join(", ")}` : ""}`,
    );
    return [gap, element];
  });
  replaceContent(view.output, content, sliceCharacters(candidate.text, end));
  highlight(view, selectedLinks);
  view.wordCard.hidden = selected < 0;
  if (selected >= 0) drawWordCard(view, candidate, words[selected], signal);
}

function sourceWords(links) {
  const text = current().text ?? "";
  return links.map((link) => [sliceCharacters(text, link.source_start, link.source_end), link.weight]);
}

// Highlights linked words of the source, in an element behind the text field.
function highlight(view, links) {
  const text = view.input.value;
  let end = 0;
  const content = [...links].sort((a, b) => a.source_start - b.source_start).flatMap((link) => {
    const gap = sliceCharacters(text, end, link.source_start);
    end = link.source_end;
    return [gap, h("mark", { style: { "--weight": String(link.weight) } }, sliceCharacters(text, link.source_start, link.source_end))];
  });
  view.mirror.replaceChildren(...content, sliceCharacters(text, end), "\n");
  view.mirror.scrollTop = view.input.scrollTop;
}

function drawWordCard(view, candidate, word, signal) {
  const alternatives = h("div", { class: "stack" });
  const sources = sourceWords(word.links).map(([text, weight]) => h(
    "span", { class: "chip" },
    h("b", { dir: "auto" }, text),
    h("small", {}, formatPercent(weight)),
  ));
  replaceContent(view.wordCard,
    h(
      "div", { class: "row between" },
      h("h2", { dir: "auto" }, sliceCharacters(candidate.text, word.start, word.end)),
      button("✕", () => set({ word: null }), { class: "quiet", "aria-label": t("close"), data: { key: "close" } }),
    ),
    facts([
      [t("probability"), [shareBar(word.probability), " ", h("span", { data: { number: "word" } }, formatExact(word.probability))]],
      [t("attends_to"), sources.length ? sources : "–", { class: "row" }],
    ]),
    h("h3", {}, t("word_alternatives")), alternatives);
  loadAlternatives(view, candidate, word, alternatives, signal);
}

// Returns the sentence of a word: its offset and text in the source, its translation and start in the translation.
function findSentence(candidate, word, text) {
  const index = candidate.sentences.findIndex((each) => word.start < each.target_end && word.end > each.target_start);
  // The service does not report sentence offsets for texts with placeholders.
  if (index < 0) return isSingleSentence(text) ? { offset: text.length - text.trimStart().length, text: text.trim(), translation: candidate.text, start: 0 } : null;
  const { source_start: sourceStart, source_end: sourceEnd, target_start: start, target_end: end } = candidate.sentences[index];
  return { offset: sourceStart, text: sliceCharacters(text, sourceStart, sourceEnd), translation: sliceCharacters(candidate.text, start, end), start };
}

async function loadAlternatives(view, candidate, word, parent, signal) {
  const state = current();
  const showNote = (text) => replaceContent(parent, h("p", { class: "note" }, text));
  if (!directModel(state, view.info)) return showNote(t("word_alternatives.direct"));
  const sentence = findSentence(candidate, word, state.text);
  if (!sentence) return showNote(t("word_alternatives.unknown"));
  showStatus(parent.appendChild(h("p", {})), "busy", t("busy"));
  try {
    const { text, translation, start } = sentence;
    const trace = await explain({ text, translation, ...view.pairOfTranslation, trace_options: { layers: "none", word_alternatives: true } }, signal);
    if (signal.aborted) return;
    const offsets = findOffsets(trace.translation.text, trace.target.words.map((each) => each.text));
    const overlaps = ({ word_index: i }) => offsets[i] && start + offsets[i].start < word.end && start + offsets[i].end > word.start;
    const rows = trace.word_alternatives.filter(overlaps);
    replaceContent(parent, rows.map((each) => alternativeButtons(trace, each, offsets[each.word_index], sentence.offset)));
    if (!rows.length) showNote(t("word_alternatives.none"));
  } catch (error) {
    if (!signal.aborted) showNote(errorText(error));
  }
}

function alternativeButtons(trace, { word_index: wordIndex, alternatives }, offsets, sentenceOffset) {
  const before = sliceCharacters(trace.translation.text, 0, offsets.start);
  const choose = (text) => set(changePrefix(current(), sentenceOffset, before + text));
  const buttons = alternatives.map(({ id, text, probability }) => button(
    [h("span", { dir: "auto" }, text), " ", h("small", {}, formatPercent(probability))], () => choose(text),
    { class: "chip", "aria-label": t("word_alternatives.use", { word: text }), data: { key: `alternative:${id}` } },
  ));
  return h("div", { class: "row" }, h("span", { class: "soft", dir: "auto" }, `${trace.target.words[wordIndex].text} →`), buttons);
}

function drawCandidates(view, candidates, selected) {
  view.candidateCard.hidden = candidates.length < 2;
  replaceContent(view.candidateCard, h("h2", {}, t("alternatives")),
    h("ol", { class: "candidates" }, candidates.map((each, i) => h("li", {},
      button(
        h("span", { dir: "auto" }, each.text), () => set({ candidate: i || null, word: null }),
        { class: "quiet candidate", "aria-pressed": String(i === selected), data: { key: `candidate:${i}` } },
      ),
      h("span", { class: "note num" }, formatNumber(each.score, 3))))));
}
