// Status lines and error messages.
import { RequestError, apiKey } from "./api.js";
import { button, h, replaceContent } from "./dom.js";
import { isServed } from "./embedded.js";
import { t } from "./i18n.js";

// Error codes of the service with a text in both languages. For other codes the English message of the service is shown.
const ERROR_CODES = new Set([
  "body_too_large", "constraints_unsatisfiable", "deadline_exceeded", "direct_model_required", "engine_error", "forbidden", "internal_error",
  "overloaded", "rate_limited", "request_timeout", "shutting_down", "text_too_long", "too_many_tokens", "unsupported_format",
  "unsupported_language"
]);

export const localizedError = (message, code, limit) => (ERROR_CODES.has(code) ? t(`error_code.${code}`, { limit }) : message);

// Returns the message for an exception.
export function errorText(error) {
  if (error instanceof RequestError && !isServed) return t("error.saved");
  if (error instanceof RequestError) return ERROR_CODES.has(error.code) ? localizedError(error.message, error.code, error.limit) : t("error.request", { error: error.message });
  if (error instanceof TypeError && /fetch|network/i.test(error.message)) return t("error.unreachable");
  console.error(error);
  return String(error.message ?? error);
}

// kind: "", "busy" or "error"
export function showStatus(status, kind, text = "") {
  status.className = `status ${kind}`;
  replaceContent(status, text);
}

// Shows an error. If the service requires an API key, asks for it and calls `retry`.
export function showError(status, error, retry) {
  showStatus(status, "error", errorText(error));
  if (!(error instanceof RequestError) || error.status !== 403) return;
  const input = h("input", { type: "password", "aria-label": t("key"), placeholder: t("key"), autocomplete: "off" });
  const send = () => { apiKey(input.value); retry(); };
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") send(); });
  status.append(" ", input, " ", button(t("key.use"), send));
}

// Shows "working …" if the promise takes longer than 200 ms.
export function whileBusy(status, promise) {
  const timer = setTimeout(() => showStatus(status, "busy", t("busy")), 200);
  return promise.finally(() => clearTimeout(timer));
}
