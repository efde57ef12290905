// The sentence that several views look at: its text, its languages, and its trace.
import { Refused, apiKey, ask, isSaved } from "./api.js";
import { FREE } from "./beginnings.js";
import { button, choice, fill, h } from "./dom.js";
import { fitting } from "./interventions.js";
import { current, set } from "./store.js";
import { languageName, t } from "./text.js";
import { isSentence } from "./words.js";

const PAUSE = 350; // ms without a key before the service is asked
const WHOLE = 160; // characters up to which every layer comes with its scores and vectors

// Why the service refuses, where it is said in the page's own words; of others its English is shown.
const REASONS = new Set([
  "bug", "busy", "deadline", "draining", "failed", "forbidden", "format", "impossible", "indirect", "language", "rate", "slow", "too_large", "too_long", "too_many_tokens"
]);

const EXAMPLES = {
  en: "The animal didn't cross the street because it was too tired.",
  de: "Zwei Hunde laufen über die Wiese.",
  fr: "Le chat dort sur le lit.",
  zh: "两只狗在草地上奔跑。",
};

let known = null; // {models, search, languages, settings}

export async function facts(signal) {
  known ??= await (async () => {
    const [{ models, search }, languages, settings] = await Promise.all([
      ask("api/v1/models", undefined, { signal }), ask("languages", undefined, { signal }), ask("frontend/settings", undefined, { signal }),
    ]);
    return { models, search, languages, settings };
  })();
  for (const path of ["api/v1/models", "languages", "frontend/settings"]) await ask(path); // they belong to every state
  return known;
}

// The languages; what the address leaves out is that of the first model that fits the rest.
export function pairOf({ source, target }, { models }) {
  const fits = (model) => [undefined, "auto", model.source].includes(source) && [undefined, model.target].includes(target);
  const first = models.find(fits) ?? models[0];
  return { source: source ?? first.source, target: target ?? first.target };
}

// The model that leads directly from one language to the other, or null.
export function modelOf(state, found) {
  const { source, target } = pairOf(state, found);
  return found.models.find((model) => model.target === target && (source === "auto" || model.source === source)) ?? null;
}

// The settings of that model, such as its layers; null where no model leads there directly.
export async function configOf(state, found, signal) {
  const model = modelOf(state, found);
  return model && (await ask(`api/v1/models/${encodeURIComponent(model.name)}`, undefined, { signal })).config;
}

// The state with what this model has of its interventions.
export async function fitted(state, found, signal) {
  const model = state.off || state.scale ? await configOf(state, found, signal) : null;
  return model ? fitting(state, model) : state;
}

export const exampleFor = (language) => EXAMPLES[language] ?? EXAMPLES.en;

// The text of the state; views that show a trace begin with an example.
const textOf = (state, found) => state.text ?? exampleFor(pairOf(state, found).source);

export const isLong = (state, found) => textOf(state, found).trim().length > WHOLE;

export function traceRequest(state, found, { layers, ...more } = {}) {
  const text = textOf(state, found).trim();
  const detail = { layers: !isLong(state, found) ? "all" : layers ? [layers] : "last", top: 8, ...more.detail };
  const wishes = { ...more };
  delete wishes.detail;
  return { text, ...pairOf(state, found), ...wishes, detail };
}

export const explain = (request, signal) => ask("api/v1/explain", request, { signal });

export const reasoned = (message, reason) => (REASONS.has(reason) ? t(`reason.${reason}`, { limit: message.match(/\d+(?=\D*$)/) }) : message);

// What went wrong, in words that help.
export function told(error) {
  if (error instanceof Refused && isSaved()) return t("error.saved");
  if (error instanceof Refused) return REASONS.has(error.reason) ? reasoned(error.message, error.reason) : t("error.refused", { error: error.message });
  if (error instanceof TypeError && /fetch|network/i.test(error.message)) return t("error.gone");
  console.error(error);
  return String(error.message ?? error);
}

export function show(status, kind, words = "") {
  status.className = `status ${kind}`;
  fill(status, words);
}

// Asks for a key where the service wants one, then tries again.
export function showError(status, error, again) {
  show(status, "error", told(error));
  if (!(error instanceof Refused) || error.status !== 403) return;
  const input = h("input", { type: "password", "aria-label": t("key"), placeholder: t("key"), autocomplete: "off" });
  const send = () => { apiKey(input.value); known = null; again(); };
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") send(); });
  status.append(" ", input, " ", button(t("key.use"), send));
}

export function languageOptions(found, source) {
  const named = (code) => [code, languageName(code, found.languages.find((each) => each.code === code)?.name)];
  const sources = [...new Set(found.languages.filter((each) => each.targets.some((code) => code !== each.code)).map((each) => each.code))];
  const reachable = source === "auto" ? found.languages.flatMap((each) => each.targets.filter((code) => code !== each.code))
    : found.languages.find((each) => each.code === source)?.targets.filter((code) => code !== source) ?? [];
  return { sources: sources.map(named), targets: [...new Set(reachable)].map(named) };
}

// Options with what the address says, where the service does not offer it: an error names what is chosen.
export const withOwn = (options, code) => (options.some(([each]) => each === code) ? options
  : [...options, [code, code === "auto" ? t("detect") : languageName(code)]]);

export function chooseSource(source, found) {
  const { targets } = languageOptions(found, source);
  const { target } = pairOf(current(), found);
  set({ ...FREE, source, target: targets.some(([code]) => code === target) ? target : targets[0]?.[0] });
}

export function waiting(hear) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => hear(...given), PAUSE);
  };
}

// A card with the sentence, for the views that look into its translation.
function sentenceCard() {
  const input = h("textarea", { rows: 2, dir: "auto", spellcheck: "false", "aria-label": t("sentence"), data: { key: "sentence" } });
  let typed = null; // the text that came from here
  const later = waiting(() => set({ text: typed = input.value }));
  input.addEventListener("input", later);
  const pair = h("div", { class: "row" });
  const output = h("p", { class: "output", dir: "auto", "aria-live": "polite" });
  const status = h("p", { class: "status", role: "status" });
  const element = h(
    "section", { class: "card sentence" },
    h("div", { class: "row between" }, h("h2", {}, t("sentence")), pair), input, output, status,
  );

  function update(state, found) {
    const text = textOf(state, found);
    if (text !== typed) input.value = typed = text; // else people may have typed on
    const { source, target } = pairOf(state, found);
    const { sources, targets } = languageOptions(found, source);
    fill(pair,
      choice(t("from"), withOwn(sources, source), source, (code) => chooseSource(code, found), { data: { key: "source" } }),
      choice(t("to"), withOwn(targets, target), target, (code) => set({ target: code }), { data: { key: "target" } }));
  }

  return { element, status, output, update };
}

// A view of a trace: loads it for each state, and draws. `request(state, found)` says which.
export function traceView(root, body, request, draw) {
  const card = sentenceCard();
  root.append(card.element, body);
  let job = null;
  async function update(state) {
    job?.abort();
    const mine = job = new AbortController();
    const { signal } = mine;
    try {
      const found = await facts(signal);
      if (signal.aborted) return;
      card.update(state, found);
      const wanted = await request(state, found, signal);
      if (signal.aborted) return;
      if (!wanted.text) {
        body.hidden = true;
        card.output.textContent = "";
        show(card.status, "", t("empty"));
        return;
      }
      const slow = setTimeout(() => show(card.status, "busy", t("busy")), 200);
      const trace = await explain(wanted, signal).finally(() => clearTimeout(slow));
      if (signal.aborted) return;
      show(card.status, "", isSentence(wanted.text) ? "" : t("sentence.several"));
      body.hidden = false;
      card.output.textContent = trace.translation.text;
      await draw(state, trace, found, signal);
    } catch (error) {
      if (signal.aborted) return;
      body.hidden = true;
      card.output.textContent = "";
      showError(card.status, error, () => update(current()));
    }
  }
  return { update, leave: () => job?.abort() };
}
