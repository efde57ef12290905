// Words and where they stand. The service counts characters, JavaScript halves of some of them.
import { t } from "./text.js";

export const cut = (text, start, end) => [...text].slice(start, end).join("");

export const isSentence = (text) => [...new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(text.trim())].length < 2;

const length = (text) => [...text].length;

// Where words stand in a text, one behind the other; null for one that is not found.
export function spans(text, found) {
  let from = 0;
  return found.map((word) => {
    const at = text.indexOf(word, from);
    if (at < 0) return null;
    from = at + word.length;
    const start = length(text.slice(0, at));
    return { start, end: start + length(word) };
  });
}

// The words of a translation: as the alignment has them, or else as its tokens begin them. Each has its
// place, its probability (the product of its tokens') and its links to the source, strongest first.
export function words(translation) {
  const places = new Map();
  for (const link of translation.alignment) places.set(link.target_start, { start: link.target_start, end: link.target_end });
  const covered = (token) => [...places.values()].some((place) => token.start < place.end && token.end > place.start);
  let open = null;
  for (const token of translation.tokens.filter((each) => each.end > each.start && !covered(each))) {
    if (open && open.end === token.start && !token.piece.startsWith("▁")) open.end = token.end;
    else places.set(token.start, open = { start: token.start, end: token.end });
  }
  return [...places.values()].sort((a, b) => a.start - b.start).map((place) => ({
    ...place,
    probability: Math.exp(translation.tokens.filter((token) => token.start < place.end && token.end > place.start).reduce(
      (sum, token) => sum + token.log_prob, 0,
    )),
    links: translation.alignment.filter((link) => link.target_start === place.start).sort((a, b) => b.weight - a.weight),
  }));
}

// The tokens of an axis of an attention: what to write beside it, and to which word each belongs.
export function axis(trace, name, size) {
  if (name === "source") return trace.source.tokens;
  if (name === "output") return trace.target.tokens;
  if (name === "input") return [trace.start, ...trace.target.tokens.slice(0, -1)];
  return Array.from({ length: size }, (_, i) => ({ text: t("mixture.n", { i }), word: null }));
}

// Tokens in groups: each by itself, or those of a word together.
export function groups(trace, name, size, byWord) {
  const tokens = axis(trace, name, size);
  const found = [];
  tokens.forEach((token, i) => {
    const last = found.at(-1);
    if (byWord && token.word !== null && last?.word === token.word) {
      last.members.push(i);
      last.text += token.text;
    } else found.push({ text: token.text, word: token.word, members: [i] });
  });
  return found;
}
