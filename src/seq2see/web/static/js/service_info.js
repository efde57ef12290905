// Models and languages of the service.
import { fetchJson } from "./api.js";
import { dropUnsupported } from "./interventions.js";
import { languageName, t } from "./i18n.js";
import { NO_PREFIXES } from "./prefixes.js";
import { current, set } from "./state.js";

const PATHS = ["api/v1/models", "languages", "frontend/settings"];

const EXAMPLES = {
  en: "The animal didn't cross the street because it was too tired.",
  de: "Zwei Hunde laufen über die Wiese.",
  fr: "Le chat dort sur le lit.",
  zh: "两只狗在草地上奔跑。",
};

let cached = null;

// Returns {models, search, languages, settings}.
export async function serviceInfo(signal) {
  cached ??= await (async () => {
    const [{ models, search }, languages, settings] = await Promise.all(PATHS.map((path) => fetchJson(path, undefined, { signal })));
    return { models, search, languages, settings };
  })();
  for (const path of PATHS) await fetchJson(path); // marks these responses as used by the current state
  return cached;
}

// Returns the languages of the state; missing ones are those of the first model that fits.
export function languagePair({ source, target }, { models }) {
  const fits = (model) => [undefined, "auto", model.source].includes(source) && [undefined, model.target].includes(target);
  const first = models.find(fits) ?? models[0];
  return { source: source ?? first.source, target: target ?? first.target };
}

// Returns the model that translates directly between the languages of the state, or null.
export function directModel(state, info) {
  const { source, target } = languagePair(state, info);
  return info.models.find((model) => model.target === target && (source === "auto" || model.source === source)) ?? null;
}

// Returns the configuration of that model, or null.
export async function modelConfig(state, info, signal) {
  const model = directModel(state, info);
  return model && (await fetchJson(`api/v1/models/${encodeURIComponent(model.name)}`, undefined, { signal })).config;
}

// Returns the state without interventions on layers and heads that the model does not have.
export async function withSupportedInterventions(state, info, signal) {
  const config = state.ablate || state.scale ? await modelConfig(state, info, signal) : null;
  return config ? dropUnsupported(state, config) : state;
}

export const exampleSentence = (language) => EXAMPLES[language] ?? EXAMPLES.en;

// Returns the options of the two language fields: [[code, name], …]
export function languageOptions(info, source) {
  const option = (code) => [code, languageName(code, info.languages.find((each) => each.code === code)?.name)];
  const sources = [...new Set(info.languages.filter((each) => each.targets.some((code) => code !== each.code)).map((each) => each.code))];
  const reachable = source === "auto" ? info.languages.flatMap((each) => each.targets.filter((code) => code !== each.code))
    : info.languages.find((each) => each.code === source)?.targets.filter((code) => code !== source) ?? [];
  return { sources: sources.map(option), targets: [...new Set(reachable)].map(option) };
}

// Adds the language of the URL if the service does not offer it, so that the field shows what an error is about.
export const withCurrent = (options, code) => (options.some(([each]) => each === code) ? options
  : [...options, [code, code === "auto" ? t("detect") : languageName(code)]]);

export function chooseSource(source, info) {
  const { targets } = languageOptions(info, source);
  const { target } = languagePair(current(), info);
  set({ ...NO_PREFIXES, source, target: targets.some(([code]) => code === target) ? target : targets[0]?.[0] });
}
