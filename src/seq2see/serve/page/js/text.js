// The page's own words, in two languages, and the names of languages.
import en from "./locale/en.js";
import zh from "./locale/zh.js";

const LOCALES = { en, zh };
export const LANGUAGES = [["en", "EN"], ["zh", "中文"]];
let language = "en";

export function speak(wanted) {
  const preferred = wanted ?? (navigator.language?.startsWith("zh") ? "zh" : "en");
  language = Object.hasOwn(LOCALES, preferred) ? preferred : "en";
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
}

export const spoken = () => language;

// t("steps.of", {n: 3}): the words by that name, with its {n} filled in.
export function t(name, values = {}) {
  const words = LOCALES[language][name] ?? en[name] ?? name;
  return words.replace(/\{(\w+)\}/g, (all, key) => (key in values ? String(values[key]) : all));
}

// An attention, in words: siteName("decoder", 0, "cross").
export const siteName = (stack, layer, kind) => t("attention.site", { stack: t(`stack.${stack}`), layer, kind: t(`sublayer.${kind}`) });

// What the service says in both languages.
export const both = (text) => (text ? text[language] ?? text.en : "");

export function languageName(code, fallback = code) {
  try {
    return new Intl.DisplayNames([language], { type: "language" }).of(code) ?? fallback;
  } catch {
    return fallback;
  }
}
