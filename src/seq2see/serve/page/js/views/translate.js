// Translate: as one types, with every word's source, probability and alternatives.
import { ask, newest } from "../api.js";
import { FREE, PATH, beginningsOf, begun, freed, rewritten } from "../beginnings.js";
import { bar, button, choice, fill, h, hint } from "../dom.js";
import { fileDrop } from "../files.js";
import { exact, percent, short, whole } from "../numbers.js";
import { chooseSource, exampleFor, explain, facts, languageOptions, modelOf, pairOf, reasoned, show, showError, told, waiting, withOwn } from "../sentence.js";
import { address, current, set } from "../store.js";
import { languageName, t } from "../text.js";
import { cut, isSentence, spans, words } from "../words.js";

const ALTERNATIVES = 3;

const termsOf = (text = "") => Object.fromEntries(text.split("\n").map((line) => line.split("=").map((side) => side.trim())).filter(([from, to]) => from && to));

// How wide a search may be: as wide as its results are many, and as the operator allows.
function beams({ search }) {
  const least = Math.min(ALTERNATIVES + 1, search.most_n_best, search.most_beam_size);
  return { least, most: search.most_beam_size, usual: Math.max(search.beam_size, least) };
}

function beamOf({ beam }, found) {
  const { least, most, usual } = beams(found);
  return whole(beam, usual, least, Math.max(most, usual));
}

function request(state, found) {
  const { source, target } = pairOf(state, found);
  const wanted = { text: state.text ?? "", source, target, n_best: beams(found).least, alignment: true, token_scores: true };
  if (state.prefix && !state.sentence) wanted.prefix = state.prefix;
  if (state.beam) wanted.beam_size = Math.min(beamOf(state, found), found.search.most_beam_size);
  const glossary = termsOf(state.glossary);
  if (Object.keys(glossary).length) wanted.glossary = glossary;
  return wanted;
}

export function mount(root) {
  const parts = layout();
  root.append(h("h1", {}, t("translate.title")), ...parts.elements);
  const only = newest();
  const view = { ...parts, found: null, answer: null, typed: "", given: {} }; // `typed`, `given`: what came from here
  const later = waiting(() => { view.typed = parts.input.value; set({ ...FREE, text: view.typed }); });
  parts.input.addEventListener("input", () => { highlight(view, []); later(); });
  parts.input.addEventListener("scroll", () => { parts.mirror.scrollTop = parts.input.scrollTop; });
  const offer = fileDrop(parts.drop, () => pairOf(current(), view.found));
  const update = (state) => only(async (signal) => {
    try {
      view.found = await facts(signal);
      if (signal.aborted) return;
      controls(view, state);
      offer(view.found.settings);
      if (!(state.text ?? "").trim()) return blank(view);
      const slow = setTimeout(() => show(view.status, "busy", t("busy")), 200);
      const answer = await translated(state, view.found, signal).finally(() => clearTimeout(slow));
      if (signal.aborted) return;
      show(view.status, "");
      result(view, state, answer, signal);
    } catch (error) {
      if (!signal.aborted) { blank(view); showError(view.status, error, () => update(current())); }
    }
  });
  return { update };
}

async function translated(state, found, signal) {
  const wanted = request(state, found);
  const { translations } = await ask(PATH, wanted, { signal });
  return rewritten(translations[0], state, wanted, signal);
}

function layout() {
  const input = h(
    "textarea",
    { class: "source-text", rows: 6, dir: "auto", spellcheck: "false", "aria-label": t("translate.source"), placeholder: t("translate.placeholder") },
  );
  const mirror = h("div", { class: "mirror", "aria-hidden": "true", dir: "auto" });
  const output = h("div", { class: "target-text", dir: "auto", "aria-label": t("translate.target"), role: "group" });
  const pair = h("div", { class: "controls pair" });
  const below = h("div", { class: "row between below" });
  const side = h("div", { class: "row between below" });
  const status = h("p", { class: "status", role: "status" });
  const word = h("section", { class: "card word-card", "aria-live": "polite", hidden: true });
  const others = h("section", { class: "card", hidden: true });
  const chips = h("div", { class: "row" });
  const drop = h("section", { class: "card drop" });
  const options = h("details", { class: "options" });
  const elements = [
    pair,
    h("div", { class: "columns panes" },
      h("section", { class: "card pane" }, h("div", { class: "layers" }, mirror, input), below),
      h("section", { class: "card pane" }, output, status, chips, side)),
    word, others, options, drop,
  ];
  return { elements, input, mirror, output, pair, below, side, status, word, others, chips, drop, options };
}

function controls(view, state) {
  const { found } = view;
  const { source, target } = pairOf(state, found);
  const { sources, targets } = languageOptions(found, source);
  const back = languageOptions(found, target).targets.some(([code]) => code === source);
  fill(view.pair,
    choice(t("from"), withOwn([["auto", t("detect")], ...sources], source), source, (code) => chooseSource(code, found), { data: { key: "source" } }),
    button("⇄", () => swap(view, source, target), { disabled: !back, "aria-label": t("swap"), data: { key: "swap" } }),
    choice(t("to"), withOwn(targets, target), target, (code) => set({ ...FREE, target: code }), { data: { key: "target" } }));
  const text = state.text ?? "";
  if (text !== view.typed) view.input.value = view.typed = text; // else people may have typed on
  const limit = found.settings.charLimit;
  fill(view.below,
    h("span", { class: "note num" }, `${[...view.input.value].length} / ${limit}`),
    view.input.value ? button(
      t("clear"),
      () => { view.input.value = view.typed = ""; set({ ...FREE, text: null }); view.input.focus(); },
      { class: "quiet", data: { key: "clear" } },
    )
      : button(
        t("example"),
        () => { set({ text: exampleFor(source === "auto" ? found.models[0].source : source) }); },
        { class: "quiet", data: { key: "example" } },
      ));
  options(view, state);
}

function swap(view, source, target) {
  set({ ...FREE, source: target, target: source, text: view.answer?.text ?? current().text });
}

function options(view, state) {
  view.fields ??= optionFields(view);
  const wanted = { glossary: state.glossary ?? "", beam: String(beamOf(state, view.found)) };
  const other = Object.keys(wanted).filter((name) => view.given[name] !== wanted[name] && document.activeElement !== view.fields[name]);
  for (const name of other) view.fields[name].value = view.given[name] = wanted[name];
  if (other.some((name) => state[name])) view.options.open = true;
}

function optionFields(view) {
  const { least, most } = beams(view.found);
  const glossary = h("textarea", { rows: 3, placeholder: t("glossary.example"), "aria-label": t("glossary") });
  glossary.addEventListener("input", waiting(() => { view.given.glossary = glossary.value; set({ glossary: glossary.value || null }); }));
  const beam = h(
    "input",
    {
      type: "number", min: least, max: most, data: { key: "beam" },
      on: { change: () => { beam.value = view.given.beam = String(beamOf({ beam: beam.value }, view.found)); set({ beam: beam.value }); } },
    },
  );
  fill(view.options, h("summary", {}, t("options")),
    h(
      "div", { class: "card stack" },
      h("label", { class: "field" }, t("beam.size"), beam),
      h("h3", {}, t("glossary")), glossary,
      h("p", { class: "note" }, t("glossary.note")),
    ));
  return { glossary, beam };
}

function blank(view) {
  view.answer = null;
  highlight(view, []);
  for (const home of [view.output, view.chips, view.side]) home.replaceChildren();
  view.word.hidden = view.others.hidden = true;
  show(view.status, "");
}

function result(view, state, answer, signal) {
  const candidates = [answer, ...answer.alternatives];
  const pick = whole(state.pick, 0, 0, candidates.length - 1);
  const chosen = candidates[pick];
  view.answer = chosen;
  view.asked = { source: answer.source, target: answer.target };
  flags(view, state, answer, chosen);
  output(view, state, chosen, signal);
  others(view, candidates, pick);
  fill(view.side,
    !answer.models.length ? h("span") : h(
      "span", { class: "note num" }, t("log_prob"), " ",
      h("span", { data: { number: "log_prob" } }, exact(chosen.log_prob)),
      // Of some sentences alone it says nothing about the text.
      beginningsOf(state).length ? null : [" · ", t("score"), " ", h("span", { data: { number: "score" } }, exact(chosen.score))],
    ),
    h("span", { class: "row" },
      h("a", { class: "button", href: address({ ...shared(state), view: "attention" }) }, t("look.inside")),
      navigator.clipboard && button(
        t("copy"),
        async (event) => { await navigator.clipboard.writeText(chosen.text); event.target.textContent = t("copied"); },
        { data: { key: "copy" } },
      )));
}

const shared = ({ text, source, target, lang }) => ({ text, source, target, lang });

function flags(view, state, answer, chosen) {
  const chips = [];
  if (answer.error) chips.push(h("span", { class: "chip warn" }, t("error.own", { error: reasoned(answer.error, answer.reason) })));
  if (answer.detected) chips.push(h(
    "span", { class: "chip" },
    t("detected", { language: languageName(answer.detected.language), sure: Math.round(100 * answer.detected.confidence) }),
  ));
  if (!answer.models.length) chips.push(h("span", { class: "chip" }, t("same.language", { language: languageName(answer.target) })));
  if (answer.via.length) chips.push(h("span", { class: "chip" }, t("via", { languages: answer.via.map((code) => languageName(code)).join(", ") })));
  const where = (kind, one) => sentencesWith(chosen, state.text, (each) => each[kind].includes(one));
  for (const flag of chosen.flags) chips.push(warning(t(`flag.${flag}`), [t(`flag.${flag}.why`), ...where("flags", flag)]));
  for (const term of chosen.unmet) chips.push(warning(t("unmet", { term }), where("unmet", term)));
  const begins = beginningsOf(state).map(({ at, prefix }) => [prefix, () => set(freed(state, at))]);
  if (state.prefix && !state.sentence) begins.push([state.prefix, () => set({ prefix: null, word: null })]);
  for (const [prefix, clear] of begins) {
    chips.push(h(
      "span", { class: "chip is", dir: "auto" }, t("begins", { prefix }),
      button("✕", clear, { class: "quiet tiny", "aria-label": t("begins.clear") }),
    ));
  }
  fill(view.chips, chips);
}

function warning(label, lines) {
  const chip = h("span", { class: "chip warn", tabindex: lines.length ? 0 : null }, label);
  return lines.length ? hint(chip, lines.join("\n")) : chip;
}

// The sentences of the source of which something is told, where there are several.
function sentencesWith(chosen, text, is) {
  if (chosen.sentences.length < 2) return [];
  return chosen.sentences.filter(is).map((each) => `“${cut(text, each.source_start, each.source_end)}”`);
}

function output(view, state, chosen, signal) {
  const found = words(chosen);
  const picked = state.word === undefined ? -1 : whole(state.word, 0, 0, found.length - 1);
  let end = 0;
  const parts = found.flatMap((word, i) => {
    const gap = cut(chosen.text, end, word.start);
    end = word.end;
    const label = cut(chosen.text, word.start, word.end);
    const made = button(label, () => set({ word: picked === i ? null : i }), {
      class: "word", "aria-expanded": String(picked === i), data: { key: `word:${i}` }, style: { "--doubt": String(1 - word.probability) },
      on: {
        pointerenter: () => highlight(view, word.links),
        pointerleave: () => highlight(view, picked < 0 ? [] : found[picked].links),
        focus: () => highlight(view, word.links),
      },
    });
    hint(
      made,
      () => `${percent(word.probability)}${word.links.length ? `\n← ${sourceWords(word.links).map(([text, weight]) => `${text} ${percent(weight)}`).join(", ")}` : ""}`,
    );
    return [gap, made];
  });
  fill(view.output, parts, cut(chosen.text, end));
  highlight(view, picked < 0 ? [] : found[picked].links);
  view.word.hidden = picked < 0;
  if (picked >= 0) wordCard(view, chosen, found[picked], signal);
}

function sourceWords(links) {
  const text = current().text ?? "";
  return links.map((link) => [cut(text, link.source_start, link.source_end), link.weight]);
}

// Marks words of the source behind the text that one types into.
function highlight(view, links) {
  const text = view.input.value;
  let end = 0;
  const parts = [...links].sort((a, b) => a.source_start - b.source_start).flatMap((link) => {
    const gap = cut(text, end, link.source_start);
    end = link.source_end;
    return [gap, h("mark", { style: { "--weight": String(link.weight) } }, cut(text, link.source_start, link.source_end))];
  });
  view.mirror.replaceChildren(...parts, cut(text, end), "\n");
  view.mirror.scrollTop = view.input.scrollTop;
}

function wordCard(view, chosen, word, signal) {
  const alternatives = h("div", { class: "stack" });
  const sources = sourceWords(word.links).map(([text, weight]) => h(
    "span", { class: "chip" },
    h("b", { dir: "auto" }, text),
    h("small", {}, percent(weight)),
  ));
  fill(view.word,
    h(
      "div", { class: "row between" },
      h("h2", { dir: "auto" }, cut(chosen.text, word.start, word.end)),
      button("✕", () => set({ word: null }), { class: "quiet", "aria-label": t("close"), data: { key: "close" } }),
    ),
    h("dl", { class: "facts" },
      h("dt", {}, t("probability")), h("dd", {}, bar(word.probability), " ", h("span", { data: { number: "word" } }, exact(word.probability))),
      h("dt", {}, t("looks.at")), h("dd", { class: "row" }, sources.length ? sources : "–")),
    h("h3", {}, t("instead")), alternatives);
  loadAlternatives(view, chosen, word, alternatives, signal);
}

// The sentence that a word is in: its number or −1 where there is but one, its texts, and where it starts.
function sentenceOf(chosen, word, text) {
  const at = chosen.sentences.findIndex((each) => word.start < each.target_end && word.end > each.target_start);
  // Behind placeholders the service does not tell where sentences stand.
  if (at < 0) return isSentence(text) ? { at, text: text.trim(), translation: chosen.text, start: 0 } : null;
  const { source_start, source_end, target_start, target_end } = chosen.sentences[at];
  return {
    at: chosen.sentences.length > 1 ? at : -1, text: cut(text, source_start, source_end),
    translation: cut(chosen.text, target_start, target_end), start: target_start,
  };
}

async function loadAlternatives(view, chosen, word, home, signal) {
  const state = current();
  if (!modelOf(state, view.found)) return fill(home, h("p", { class: "note" }, t("instead.direct")));
  const sentence = sentenceOf(chosen, word, state.text);
  if (!sentence) return fill(home, h("p", { class: "note" }, t("instead.unknown")));
  show(home.appendChild(h("p", {})), "busy", t("busy"));
  try {
    const { text, translation, start } = sentence;
    const trace = await explain({ text, translation, ...view.asked, detail: { layers: "none", words: true } }, signal);
    if (signal.aborted) return;
    const places = spans(trace.translation.text, trace.target.words.map(({ text }) => text));
    const rows = trace.words.filter(({ word: i }) => places[i] && start + places[i].start < word.end && start + places[i].end > word.start);
    fill(home, rows.map((each) => choices(trace, each, places[each.word], sentence.at)));
    if (!rows.length) fill(home, h("p", { class: "note" }, t("instead.none")));
  } catch (error) {
    if (!signal.aborted) fill(home, h("p", { class: "note" }, told(error)));
  }
}

function choices(trace, each, place, at) {
  const before = cut(trace.translation.text, 0, place.start);
  const buttons = each.alternatives.map((other) => button([h("span", { dir: "auto" }, other.text), " ", h("small", {}, percent(other.probability))],
    () => set(at < 0 ? { ...FREE, prefix: before + other.text } : begun(current(), at, before + other.text)), {
      class: "chip", "aria-label": t("instead.use", { word: other.text }), data: { key: `instead:${other.id}` },
    }));
  return h("div", { class: "row" }, h("span", { class: "soft", dir: "auto" }, `${trace.target.words[each.word].text} →`), buttons);
}

function others(view, candidates, pick) {
  view.others.hidden = candidates.length < 2;
  fill(view.others, h("h2", {}, t("alternatives")),
    h("ol", { class: "others" }, candidates.map((each, i) => h("li", {},
      button(
        h("span", { dir: "auto" }, each.text), () => set({ pick: i || null, word: null }),
        { class: "quiet other", "aria-pressed": String(i === pick), data: { key: `other:${i}` } },
      ),
      h("span", { class: "note num" }, short(each.score, 3))))));
}
