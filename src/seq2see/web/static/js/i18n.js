// Texts of the page in two languages, and names of languages.
import en from "./locale/en.js";
import zh from "./locale/zh.js";

const LOCALES = { en, zh };
export const LANGUAGES = [["en", "EN"], ["zh", "中文"]];
let language = "en";

export function setLanguage(code) {
  const preferred = code ?? (navigator.language?.startsWith("zh") ? "zh" : "en");
  language = Object.hasOwn(LOCALES, preferred) ? preferred : "en";
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
}

export const currentLanguage = () => language;

export const hasText = (key) => Object.hasOwn(en, key);

// Returns the text with this key and replaces its placeholders: t("layer.n", {layer: 3}).
export function t(key, values = {}) {
  const text = LOCALES[language][key] ?? en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (placeholder, name) => (name in values ? String(values[name]) : placeholder));
}

// Returns the display name of an attention module: attentionName("decoder", 0, "cross").
export const attentionName = (stack, layer, kind) => t("attention.address", { stack: t(`stack.${stack}`), layer, kind: t(`sublayer.${kind}`) });

// Selects the current language of a text that the service sends in both.
export const localized = (text) => (text ? text[language] ?? text.en : "");

export function languageName(code, fallback = code) {
  try {
    return new Intl.DisplayNames([language], { type: "language" }).of(code) ?? fallback;
  } catch {
    return fallback;
  }
}
