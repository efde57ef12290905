// Tokens and words. The service counts offsets in code points, JavaScript strings in UTF-16 units.
import { t } from "./i18n.js";

export const sliceCharacters = (text, start, end) => [...text].slice(start, end).join("");

// Returns the sentences of a text, without white space around them.
export const splitSentences = (text) => [...new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(text)]
  .map(({ segment }) => segment.trim()).filter(Boolean);

export const isSingleSentence = (text) => splitSentences(text).length < 2;

const characterCount = (text) => [...text].length;

// Returns the offsets of consecutive words in a text; null for a word that does not occur.
export function findOffsets(text, words) {
  let from = 0;
  return words.map((word) => {
    const index = text.indexOf(word, from);
    if (index < 0) return null;
    from = index + word.length;
    const start = characterCount(text.slice(0, index));
    return { start, end: start + characterCount(word) };
  });
}

const overlaps = (token, { start, end }) => token.start < end && token.end > start;

// Returns the words of a translation, split as in its alignment, or else where its tokens begin a word. Each has its
// offsets, its probability (the product over its tokens) and its links to the source, strongest first.
export function alignedWords(translation) {
  const offsets = new Map();
  for (const link of translation.alignment) offsets.set(link.target_start, { start: link.target_start, end: link.target_end });
  const isCovered = (token) => [...offsets.values()].some((word) => overlaps(token, word));
  let open = null;
  for (const token of translation.tokens.filter((each) => each.end > each.start && !isCovered(each))) {
    if (open && open.end === token.start && !token.piece.startsWith("▁")) open.end = token.end;
    else offsets.set(token.start, open = { start: token.start, end: token.end });
  }
  return [...offsets.values()].sort((a, b) => a.start - b.start).map((word) => ({
    ...word,
    probability: Math.exp(translation.tokens.filter((token) => overlaps(token, word)).reduce(
      (sum, token) => sum + token.log_prob, 0,
    )),
    links: translation.alignment.filter((link) => link.target_start === word.start).sort((a, b) => b.weight - a.weight),
  }));
}

// Returns the tokens along one axis of an attention map: their text, and the word that each belongs to.
export function axisTokens(trace, axis, size) {
  if (axis === "source") return trace.source.tokens;
  if (axis === "target") return trace.target.tokens;
  if (axis === "decoder_input") return [trace.start_token, ...trace.target.tokens.slice(0, -1)];
  return Array.from({ length: size }, (_, i) => ({ text: t("projection.n", { i }), word: null }));
}

// Groups the tokens of an axis: one group per token, or per word.
export function groupTokens(trace, axis, size, byWord) {
  const tokens = axisTokens(trace, axis, size);
  const groups = [];
  tokens.forEach((token, i) => {
    const last = groups.at(-1);
    if (byWord && token.word !== null && last?.word === token.word) {
      last.members.push(i);
      last.text += token.text;
    } else groups.push({ text: token.text, word: token.word, members: [i] });
  });
  return groups;
}
