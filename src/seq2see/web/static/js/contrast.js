// What decides between two words in the translations of two sentences: effects of words, patched heads, and attention.
import { facts, h } from "./dom.js";
import { matrix } from "./draw/matrix.js";
import { formatNumber, formatPercent } from "./format.js";
import { onDemand } from "./head_ablation.js";
import { t } from "./i18n.js";

const PATH = "api/v1/contrast";
const MIN_SCALE = 3; // nats: smaller effects look small
const MIN_SHOWN_SHIFT = 0.3; // nats: the attention of heads with smaller effects is not drawn

// request: the texts, the translations and the source word
export const contrastCard = (request, signal) => [
  h("h3", {}, t("contrast.title")), ...onDemand(PATH, request, t("contrast.run"), draw, "contrast", signal),
];

function draw(contrast) {
  const { first_token: first, second_token: second, sentences, pronoun } = contrast;
  const difference = `log p(${first}) − log p(${second})`;
  const rows = sentences.map(({ text, preference, isolated_preference: isolated }, i) => [`${"AB"[i]}: ${text}`, [
    formatNumber(preference), isolated === null ? "" : ` (${t("contrast.isolated", { word: pronoun, value: formatNumber(isolated) })})`,
  ]]);
  return [
    h("p", { class: "note" }, t("contrast.note", { difference })), facts(rows),
    h("h4", {}, t("contrast.words")), wordEffects(contrast),
    h("h4", {}, t("contrast.patching")), contrast.patching_problem ? h("p", { class: "note" }, contrast.patching_problem) : patching(contrast),
    h("h4", {}, t("contrast.attention")), attention(contrast),
  ];
}

// Words that differ are shown as "tired / wide".
function wordLabels({ sentences: [a, b] }) {
  const longer = a.words.length > b.words.length ? a.words : b.words;
  return longer.map((_, i) => [...new Set([a.words[i]?.text, b.words[i]?.text].filter(Boolean))].join(" / "));
}

function labeledMatrix(name, rows, columns, value, scale, text) {
  const svg = matrix({
    name, role: t("matrix"), rows, columns, share: (r, c) => (value(r, c) ?? 0) / scale,
    masked: (r, c) => value(r, c) === undefined, text: (r, c) => `${rows[r]}, ${columns[c]}: ${text(value(r, c) ?? 0)}`,
  }, null);
  svg.dataset.key = `matrix:contrast:${name}`;
  return svg;
}

const signed = (value) => `${value > 0 ? "+" : ""}${formatNumber(value)}`;

function wordEffects(contrast) {
  const { sentences } = contrast;
  const scale = Math.max(MIN_SCALE, ...sentences.flatMap(({ words }) => words.map(({ occlusion }) => Math.abs(occlusion))));
  return labeledMatrix(t("contrast.words"), ["A", "B"], wordLabels(contrast), (r, c) => sentences[r].words[c]?.occlusion, scale, signed);
}

function patching({ patching: effects, sentences: [a, b] }) {
  const heads = effects.filter(({ head }) => head !== null);
  const rows = [...new Set(heads.map(({ address }) => address))];
  const columns = [...new Set(heads.map(({ head }) => head))].sort((x, y) => x - y);
  const shifts = new Map(heads.map(({ address, head, shift }) => [`${address}.${head}`, shift * Math.sign(a.preference - b.preference)]));
  const scale = Math.max(MIN_SCALE, Math.abs(a.preference - b.preference));
  return labeledMatrix(t("contrast.patching"), rows, columns.map(String), (r, c) => shifts.get(`${rows[r]}.${columns[c]}`), scale, signed);
}

function attention(contrast) {
  const heads = contrast.shown_heads.filter(({ shift }) => Math.abs(shift) >= MIN_SHOWN_SHIFT);
  const rows = heads.flatMap(({ address, head, query, attention: weights }) => weights.map((row, i) => [`${"AB"[i]}: ${address}.${head}, ${query}`, row]));
  rows.push(...contrast.sentences.map(({ pronoun_attention: row }, i) => [`${"AB"[i]}: ${contrast.pronoun}`, row]).filter(([, row]) => row.length));
  return labeledMatrix(t("contrast.attention"), rows.map(([label]) => label), wordLabels(contrast), (r, c) => rows[r][1][c], 1, formatPercent);
}
