// Sentences of a text that begin as people chose; the others stay as they were. In the address:
//
//   prefix     Zwei Hunde⏎Der Mann   how they begin, a line each, the last that was chosen last
//   sentence   0,3.1                 which they are, and which of the best translations of each is taken
//   base       2                     from which of the best translations of the text the others are
//   pick       1                     which of the best is shown: of the text, or of the last of these sentences
import { ask } from "./api.js";
import { whole } from "./numbers.js";
import { cut } from "./words.js";

export const PATH = "api/v1/translate";
export const FREE = { prefix: null, sentence: null, base: null, pick: null, word: null };

export function beginningsOf({ prefix = "", sentence = "" }) {
  const lines = prefix.split("\n");
  return sentence.split(",").filter(Boolean).map((each, i) => {
    const [at, rank = 0] = each.split(".").map(Number);
    return { at, rank, prefix: lines[i] ?? "" };
  }).filter((each) => each.prefix && Number.isInteger(each.at));
}

// What is shown now, with the pick where it belongs: it stays when something else is chosen.
function settled(state) {
  const chosen = beginningsOf(state);
  const pick = whole(state.pick, 0, 0, 99);
  if (chosen.length) chosen.at(-1).rank = pick;
  return { chosen, base: chosen.length ? whole(state.base, 0, 0, 99) : pick };
}

function written(chosen, base) {
  const last = chosen.at(-1);
  return {
    prefix: chosen.map(({ prefix }) => prefix).join("\n") || null,
    sentence: chosen.map(({ at, rank }) => (rank && at !== last.at ? `${at}.${rank}` : at)).join(",") || null,
    base: (last && base) || null, pick: (last ? last.rank : base) || null, word: null,
  };
}

export function begun(state, at, prefix) {
  const { chosen, base } = settled(state);
  return written([...chosen.filter((each) => each.at !== at), { at, prefix, rank: 0 }], base);
}

export function freed(state, at) {
  const { chosen, base } = settled(state);
  return written(chosen.filter((each) => each.at !== at), base);
}

// The answer about a text, with the sentences that begin otherwise translated anew. `wanted` is what was asked.
export async function rewritten(answer, state, wanted, signal) {
  const ranks = [answer, ...answer.alternatives];
  const base = ranks[whole(state.base, 0, 0, ranks.length - 1)];
  const chosen = beginningsOf(state).filter(({ at }) => base.sentences[at]);
  if (!chosen.length) return answer;
  const found = await Promise.all(chosen.map(async ({ at, prefix }) => {
    const { source_start: start, source_end: end } = base.sentences[at];
    const request = { ...wanted, text: cut(wanted.text, start, end), source: answer.source, prefix };
    const [best] = (await ask(PATH, request, { signal })).translations;
    return [best, ...best.alternatives];
  }));
  const failed = found.map(([best]) => best).find(({ error }) => error);
  if (failed) return { ...answer, ...base, alternatives: [], error: failed.error, reason: failed.reason };
  const last = found.length - 1;
  const rest = chosen.slice(0, last).reduce((text, { at, rank }, i) => put(text, at, found[i][Math.min(rank, found[i].length - 1)]), base);
  const [best, ...alternatives] = found[last].map((part) => put(rest, chosen[last].at, part));
  return { ...answer, ...best, alternatives };
}

const slid = (token, by) => ({ ...token, start: token.start + by, end: token.end + by });

const moved = (link, source, target) => ({
  ...link, source_start: link.source_start + source, source_end: link.source_end + source,
  target_start: link.target_start + target, target_end: link.target_end + target,
});

// What is told of a text, without what only the old sentence brought.
const told = (text, old, now) => [...new Set([...text.filter((each) => !old.includes(each)), ...now])];

// A translation with another one of its sentence `at`. The score is that of the sentence, by which it ranks.
function put(text, at, part) {
  const old = text.sentences[at];
  const { target_start: start, target_end: end } = old;
  const more = [...part.text].length - (end - start);
  const now = { ...old, target_end: end + more, log_prob: part.log_prob, flags: part.flags, unmet: part.unmet };
  const sentences = text.sentences.map((each, i) => (i < at ? each : i > at ? moved(each, 0, more) : now));
  return {
    ...text, sentences, text: cut(text.text, 0, start) + part.text + cut(text.text, end),
    score: part.score, log_prob: text.log_prob - old.log_prob + part.log_prob,
    tokens: [
      ...text.tokens.filter((token) => token.end <= start), ...part.tokens.map((token) => slid(token, start)),
      ...text.tokens.filter((token) => token.start >= end && token.end > end).map((token) => slid(token, more)),
    ],
    alignment: [
      ...text.alignment.filter((link) => link.target_end <= start), ...part.alignment.map((link) => moved(link, old.source_start, start)),
      ...text.alignment.filter((link) => link.target_start >= end).map((link) => moved(link, 0, more)),
    ],
    flags: told(text.flags, old.flags, sentences.flatMap(({ flags }) => flags)),
    unmet: told(text.unmet, old.unmet, sentences.flatMap(({ unmet }) => unmet)),
  };
}
