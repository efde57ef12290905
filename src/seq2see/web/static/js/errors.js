// Status lines and error messages.
import { RequestError, apiKey } from "./api.js";
import { button, h, replaceContent } from "./dom.js";
import { isServed } from "./embedded.js";
import { hasText, t } from "./i18n.js";
import { current } from "./state.js";

// Returns the text of an error code, or the English message of the service for a code without a text.
export const localizedError = (message, code, limit) => (hasText(`error_code.${code}`) ? t(`error_code.${code}`, { limit }) : message);

// Returns the message for an exception.
export function errorText(error) {
  if (error instanceof RequestError && !isServed) return t("error.saved");
  if (error instanceof RequestError) return localizedError(t("error.request", { error: error.message }), error.code, error.limit);
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
function whileBusy(status, promise) {
  const timer = setTimeout(() => showStatus(status, "busy", t("busy")), 200);
  return promise.finally(() => clearTimeout(timer));
}

// Returns the functions `update` and `leave` of a view. update(state) awaits load(state, signal) and passes the result to
// draw(state, result, signal); it aborts the previous update. After an error, `clear` is called and the error is shown.
export function loadingView(status, load, draw, clear = () => {}) {
  let controller = null;
  async function update(state) {
    controller?.abort();
    const { signal } = controller = new AbortController();
    try {
      const result = await whileBusy(status, load(state, signal));
      if (signal.aborted) return;
      showStatus(status, "");
      await draw(state, result, signal);
    } catch (error) {
      if (signal.aborted) return;
      clear();
      showError(status, error, () => update(current()));
    }
  }
  return { update, leave: () => controller?.abort() };
}
