// Which heads decide: the preference between two words, with one head after the other off.
import { ask, isSaved, known } from "./api.js";
import { matrix } from "./draw/matrix.js";
import { button, fill, h } from "./dom.js";
import { exact, short } from "./numbers.js";
import { show, showError } from "./sentence.js";
import { t } from "./text.js";
import { cut, spans } from "./words.js";

const PATH = "api/v1/heads";

// The translation with each of the words at this place.
export function contrast(trace, place, [one, other]) {
  const { text } = trace.translation;
  const span = spans(text, trace.target.tokens.map((token) => token.text))[place];
  const put = (word) => cut(text, 0, span.start) + word + cut(text, span.end);
  return span && { one: put(one), other: put(other) };
}

// A button that asks, or what was answered before. `request` is for the service.
export function removalsCard(request, rivals, key, signal) {
  const status = h("p", { class: "status", role: "status" });
  const body = h("div", { class: "scroll" });
  const start = button(t("removals.run"), () => run(), { disabled: isSaved(), data: { key: `removals:${key}` } });
  const answer = known(PATH, request);
  if (answer) fill(body, drawn(answer, key));
  async function run() {
    start.disabled = true;
    show(status, "busy", t("busy"));
    try {
      fill(body, drawn(await ask(PATH, request, { signal }), key));
      show(status, "");
      start.remove();
    } catch (error) {
      start.disabled = false;
      show(status, "");
      if (!signal.aborted) showError(status, error, run);
    }
  }
  return [h("h3", {}, t("removals.title", { one: rivals[0], other: rivals[1] })), answer ? null : start, status, body];
}

function drawn({ removals }, key) {
  const sites = [...new Set(removals.map(siteOf))];
  const heads = [...new Set(removals.map(({ head }) => head))].sort((a, b) => a - b);
  const changes = new Map(removals.map((each) => [`${siteOf(each)}.${each.head}`, each.change]));
  const at = (r, c) => changes.get(`${sites[r]}.${heads[c]}`) ?? null;
  const most = Math.max(1e-9, ...removals.map(({ change }) => Math.abs(change)));
  const figure = {
    name: t("removals.name"), role: t("matrix"), rows: sites, columns: heads.map(String),
    share: (r, c) => (at(r, c) ?? 0) / most, hidden: (r, c) => at(r, c) === null, text: (r, c) => `${sites[r]}.${heads[c]}: ${at(r, c) > 0 ? "+" : ""}${short(at(r, c) ?? 0)}`,
  };
  const picture = matrix(figure, null);
  picture.dataset.key = `matrix:removals:${key}`;
  return [picture, h("p", { class: "note" }, t("removals.note"), " ", h("span", { data: { number: `removals:${key}` } }, exact(most)))];
}

const siteOf = ({ stack, layer, attention }) => `${stack}.${layer}.${attention}`;
