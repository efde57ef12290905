// Prefixes that the user chose for sentences of a translation. The other sentences do not change. In the URL:
//
//   prefix          Zwei Hunde⏎Der Mann   the prefixes, one per line, the most recent last
//   sentence        0,3.1                 the indices of their sentences, each with the index of the chosen candidate
//   base_candidate  2                     the candidate of the whole text from which the other sentences are taken
//   candidate       1                     the candidate that is shown: of the text, or of the last sentence with a prefix
import { fetchJson } from "./api.js";
import { parseInteger } from "./format.js";
import { sliceCharacters } from "./tokens.js";

export const TRANSLATE_PATH = "api/v1/translate";
export const NO_PREFIXES = { prefix: null, sentence: null, base_candidate: null, candidate: null, word: null };

// Returns [{index, rank, prefix}, …]: the sentence, its candidate and its prefix.
export function parsePrefixes({ prefix = "", sentence = "" }) {
  const lines = prefix.split("\n");
  return sentence.split(",").filter(Boolean).map((each, i) => {
    const [index, rank = 0] = each.split(".").map(Number);
    return { index, rank, prefix: lines[i] ?? "" };
  }).filter((each) => each.prefix && Number.isInteger(each.index));
}

// Returns the prefixes and the base candidate, with the shown candidate stored where it belongs.
function resolveCandidates(state) {
  const chosen = parsePrefixes(state);
  const candidate = parseInteger(state.candidate, 0, 0, 99);
  if (chosen.length) chosen.at(-1).rank = candidate;
  return { chosen, base: chosen.length ? parseInteger(state.base_candidate, 0, 0, 99) : candidate };
}

function formatPrefixes(chosen, base) {
  const last = chosen.at(-1);
  return {
    prefix: chosen.map(({ prefix }) => prefix).join("\n") || null,
    sentence: chosen.map(({ index, rank }) => (rank && index !== last.index ? `${index}.${rank}` : index)).join(",") || null,
    base_candidate: (last && base) || null, candidate: (last ? last.rank : base) || null, word: null,
  };
}

export function withPrefix(state, index, prefix) {
  const { chosen, base } = resolveCandidates(state);
  return formatPrefixes([...chosen.filter((each) => each.index !== index), { index, prefix, rank: 0 }], base);
}

export function withoutPrefix(state, index) {
  const { chosen, base } = resolveCandidates(state);
  return formatPrefixes(chosen.filter((each) => each.index !== index), base);
}

// Returns the translation with the sentences that have a prefix translated again. `request` is the request of the translation.
export async function applyPrefixes(translation, state, request, signal) {
  const candidates = [translation, ...translation.alternatives];
  const base = candidates[parseInteger(state.base_candidate, 0, 0, candidates.length - 1)];
  const chosen = parsePrefixes(state).filter(({ index }) => base.sentences[index]);
  if (!chosen.length) return translation;
  const translated = await Promise.all(chosen.map(async ({ index, prefix }) => {
    const { source_start: start, source_end: end } = base.sentences[index];
    const body = { ...request, text: sliceCharacters(request.text, start, end), source: translation.source, prefix };
    const [best] = (await fetchJson(TRANSLATE_PATH, body, { signal })).translations;
    return [best, ...best.alternatives];
  }));
  const failed = translated.map(([best]) => best).find(({ error }) => error);
  if (failed) return { ...translation, ...base, alternatives: [], error: failed.error, error_code: failed.error_code };
  const last = translated.length - 1;
  const others = chosen.slice(0, last).reduce(
    (text, { index, rank }, i) => replaceSentence(text, index, translated[i][Math.min(rank, translated[i].length - 1)]), base,
  );
  const [best, ...alternatives] = translated[last].map((part) => replaceSentence(others, chosen[last].index, part));
  return { ...translation, ...best, alternatives };
}

const shiftToken = (token, offset) => ({ ...token, start: token.start + offset, end: token.end + offset });

const shiftLink = (link, source, target) => ({
  ...link, source_start: link.source_start + source, source_end: link.source_end + source,
  target_start: link.target_start + target, target_end: link.target_end + target,
});

// Returns the flags of a text with those of the old sentence replaced.
const replaceFlags = (flags, old, now) => [...new Set([...flags.filter((each) => !old.includes(each)), ...now])];

// Returns a translation with another translation of the sentence `index`. Its score is that of the sentence.
function replaceSentence(text, index, part) {
  const old = text.sentences[index];
  const { target_start: start, target_end: end } = old;
  const growth = [...part.text].length - (end - start);
  const now = { ...old, target_end: end + growth, log_prob: part.log_prob, flags: part.flags, unmet_constraints: part.unmet_constraints };
  const sentences = text.sentences.map((each, i) => (i < index ? each : i > index ? shiftLink(each, 0, growth) : now));
  return {
    ...text, sentences, text: sliceCharacters(text.text, 0, start) + part.text + sliceCharacters(text.text, end),
    score: part.score, log_prob: text.log_prob - old.log_prob + part.log_prob,
    tokens: [
      ...text.tokens.filter((token) => token.end <= start), ...part.tokens.map((token) => shiftToken(token, start)),
      ...text.tokens.filter((token) => token.start >= end && token.end > end).map((token) => shiftToken(token, growth)),
    ],
    alignment: [
      ...text.alignment.filter((link) => link.target_end <= start), ...part.alignment.map((link) => shiftLink(link, old.source_start, start)),
      ...text.alignment.filter((link) => link.target_start >= end).map((link) => shiftLink(link, 0, growth)),
    ],
    flags: replaceFlags(text.flags, old.flags, sentences.flatMap(({ flags }) => flags)),
    unmet_constraints: replaceFlags(text.unmet_constraints, old.unmet_constraints, sentences.flatMap((each) => each.unmet_constraints)),
  };
}
