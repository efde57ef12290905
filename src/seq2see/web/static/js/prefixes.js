// Prefixes that the user chose for sentences of a translation. In the URL:
//
//   prefix    Zwei Hunde⏎Der Mann   the prefixes, one per line, the most recent last
//   sentence  0,37                  the offsets of their sentences in the source

export const NO_PREFIXES = { prefix: null, sentence: null, candidate: null, word: null };

// Returns [[offset of the sentence, prefix], …].
export function parsePrefixes({ prefix = "", sentence = "0" }) {
  const offsets = sentence.split(",").map(Number);
  return prefix.split("\n").map((each, i) => [offsets[i], each]).filter(([offset, each]) => each && Number.isInteger(offset));
}

// Returns the change of the state that sets the prefix of a sentence; null removes it. The shown candidate stays, so
// that the other sentences do not change.
export function changePrefix(state, offset, prefix) {
  const chosen = parsePrefixes(state).filter(([each]) => each !== offset);
  if (prefix !== null) chosen.push([offset, prefix]);
  const [sentence, lines] = [chosen.map(([each]) => each), chosen.map(([, each]) => each)];
  return { prefix: lines.join("\n") || null, sentence: sentence.join(",") || null, word: null };
}
