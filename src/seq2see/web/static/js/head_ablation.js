// Effect of each attention head on a contrastive pair: the log-probability difference with each head ablated in turn.
import { cachedResponse, fetchJson } from "./api.js";
import { button, h, replaceContent } from "./dom.js";
import { matrix } from "./draw/matrix.js";
import { isServed } from "./embedded.js";
import { showError, showStatus } from "./errors.js";
import { formatExact, formatNumber } from "./format.js";
import { t } from "./i18n.js";
import { findOffsets, sliceCharacters } from "./tokens.js";

const PATH = "api/v1/head-ablation";

// Returns the translation with each of the two words in place of the token `index`.
export function contrastivePair(trace, index, [wordA, wordB]) {
  const { text } = trace.translation;
  const offsets = findOffsets(text, trace.target.tokens.map((token) => token.text))[index];
  const withWord = (word) => sliceCharacters(text, 0, offsets.start) + word + sliceCharacters(text, offsets.end);
  return offsets && { translation: withWord(wordA), contrastive_translation: withWord(wordB) };
}

export const headAblationCard = (request, words, key, signal) => [
  h("h3", {}, t("ablation.title", { word_a: words[0], word_b: words[1] })),
  ...onDemand(PATH, request, t("ablation.run"), (response) => figureOf(response, key), `head-ablation:${key}`, signal),
];

// Returns a button that sends the request, or what is drawn of the response if it is cached.
export function onDemand(path, request, label, draw, key, signal) {
  const status = h("p", { class: "status", role: "status" });
  const body = h("div", { class: "scroll" });
  const start = button(label, () => run(), { disabled: !isServed, data: { key } });
  const response = cachedResponse(path, request);
  if (response) replaceContent(body, draw(response));
  async function run() {
    start.disabled = true;
    showStatus(status, "busy", t("busy"));
    try {
      replaceContent(body, draw(await fetchJson(path, request, { signal })));
      showStatus(status, "");
      start.remove();
    } catch (error) {
      start.disabled = false;
      showStatus(status, "");
      if (!signal.aborted) showError(status, error, run);
    }
  }
  return [response ? null : start, status, body];
}

function figureOf({ ablations }, key) {
  const rows = [...new Set(ablations.map(attentionAddress))];
  const heads = [...new Set(ablations.map(({ head }) => head))].sort((a, b) => a - b);
  const changes = new Map(ablations.map((each) => [`${attentionAddress(each)}.${each.head}`, each.change]));
  const changeAt = (r, c) => changes.get(`${rows[r]}.${heads[c]}`) ?? null;
  const largest = Math.max(1e-9, ...ablations.map(({ change }) => Math.abs(change)));
  const svg = matrix({
    name: t("ablation.name"), role: t("matrix"), rows, columns: heads.map(String),
    share: (r, c) => (changeAt(r, c) ?? 0) / largest, masked: (r, c) => changeAt(r, c) === null,
    text: (r, c) => `${rows[r]}.${heads[c]}: ${changeAt(r, c) > 0 ? "+" : ""}${formatNumber(changeAt(r, c) ?? 0)}`,
  }, null);
  svg.dataset.key = `matrix:head-ablation:${key}`;
  return [svg, h("p", { class: "note" }, t("ablation.note"), " ", h("span", { data: { number: `head-ablation:${key}` } }, formatExact(largest)))];
}

const attentionAddress = ({ stack, layer, attention }) => `${stack}.${layer}.${attention}`;
