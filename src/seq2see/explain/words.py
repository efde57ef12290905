"""Words of a sentence, and alternatives for each word of a translation."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from unicodedata import category

import torch
from torch import Tensor

from seq2see.engines.batching import add_special_tokens, collect_in_order
from seq2see.explain.explained_model import SPACE_MARKER, ExplainedModel, display_token
from seq2see.explain.trace_format import (
    SentenceToken,
    SentenceWord,
    TokenCandidate,
    TokenizedSentence,
    Trace,
    WordAlternatives,
)
from seq2see.search import (
    Beam,
    Hypothesis,
    LengthConfig,
    SearchConfig,
    SentenceSearchInput,
    StepProcessor,
)
from seq2see.text import Tokenizer
from seq2see.text.languages import UNSPACED_CHARACTER

# B searches, K beams, V vocabulary

MAX_ALTERNATIVES = 4
MAX_WORD_PIECES = 12
"""Maximum number of pieces of an alternative; longer words are cut off."""

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_ELIDING_LANGUAGES = {"ca", "fr", "it"}
_WORD_PUNCTUATION = "'’-‑"
"""Punctuation that does not end a word."""


def build_source_sentence(
    explained: ExplainedModel, text: str, ids: Sequence[int]
) -> TokenizedSentence:
    """Return a source sentence with its special tokens; `ids` are without them."""
    special_tokens = explained.special_tokens
    first = int(special_tokens.source_bos_id is not None)
    inner = range(first, first + len(ids))
    all_ids = add_special_tokens(ids, special_tokens)
    return _build_sentence(
        text, all_ids, inner, explained.tokenizers.source, explained.languages[0]
    )


def build_target_sentence(explained: ExplainedModel, hypothesis: Hypothesis) -> TokenizedSentence:
    """Return a translation; if it is finished, its last token is the end token."""
    tokenizer, ids = explained.tokenizers.target, hypothesis.tokens_without_eos
    inner, text = range(len(ids)), tokenizer.decode(ids)
    return _build_sentence(text, hypothesis.tokens, inner, tokenizer, explained.languages[1])


def build_start_token(explained: ExplainedModel) -> SentenceToken:
    """Return the first input of the decoder."""
    token_id = explained.special_tokens.decoder_start_id
    piece = explained.tokenizers.target.pieces[token_id]
    return SentenceToken(id=token_id, piece=piece, text="⟨start⟩", word=None)


def mark_word_starts(pieces: Sequence[str], language: str) -> list[bool]:
    """Return for each piece whether it starts a word. French "l'animal" is two words."""
    if not pieces:
        return []
    elides = language[:2] in _ELIDING_LANGUAGES
    return [True, *(_is_boundary(left, right, elides) for left, right in pairwise(pieces))]


def _is_boundary(left: str, right: str, elides: bool) -> bool:
    """Return whether there is a word boundary between two pieces."""
    if right.startswith(SPACE_MARKER) or (elides and left[-1] in "'’"):
        return True
    if left == SPACE_MARKER or _BYTE.fullmatch(left) or _BYTE.fullmatch(right):
        return False
    if UNSPACED_CHARACTER.match(right) or UNSPACED_CHARACTER.match(left[-1]):
        return True
    if _is_punctuation(left[-1]) and _is_punctuation(right[0]):
        return left[-1] != right[0]  # three dots are one word
    return _is_punctuation(left[-1]) != _is_punctuation(right[0])


def _is_punctuation(character: str) -> bool:
    return character not in _WORD_PUNCTUATION and category(character)[0] in "PS"


def _build_sentence(
    text: str, ids: Sequence[int], inner: range, tokenizer: Tokenizer, language: str
) -> TokenizedSentence:
    """Return a sentence; `inner` are the indices of the tokens that are not special."""
    pieces = [tokenizer.pieces[token_id] for token_id in ids]
    starts = mark_word_starts([pieces[index] for index in inner], language)
    bounds = [index for index, is_start in zip(inner, starts, strict=True) if is_start]
    ranges = list(pairwise([*bounds, inner.stop]))
    words = [
        SentenceWord(text=tokenizer.decode(ids[a:b]).strip(), first_token=a, end_token=b)
        for a, b in ranges
    ]
    word_of_token = {index: word for word, (a, b) in enumerate(ranges) for index in range(a, b)}
    tokens = []
    for index, (token_id, piece) in enumerate(zip(ids, pieces, strict=True)):
        special = "⟨start⟩" if index < inner.start else "⟨end⟩"
        text_of_token = display_token(token_id, tokenizer) if index in inner else special
        tokens.append(
            SentenceToken(
                id=token_id, piece=piece, text=text_of_token, word=word_of_token.get(index)
            )
        )
    return TokenizedSentence(language=language, text=text, tokens=tokens, words=words)


def find_word_alternatives(explained: ExplainedModel, trace: Trace) -> list[WordAlternatives]:
    """Return likely alternatives for each word of a translation.

    The most likely other first pieces of each word are completed greedily to whole words.
    """
    tokens, words = [token.id for token in trace.target.tokens], trace.target.words
    starts = [_find_other_starts(explained, trace, word.first_token) for word in words]
    prefixes = [
        (*tokens[: word.first_token], other)
        for word, others in zip(words, starts, strict=True)
        for other in others
    ]
    hypotheses = iter(_complete_words(explained, trace, prefixes))
    result = []
    for index, (word, others) in enumerate(zip(words, starts, strict=True)):
        first = word.first_token
        alternatives = [_extract_word(explained, next(hypotheses), first) for _ in others]
        log_prob = sum(step.log_prob for step in trace.steps[first : word.end_token])
        result.append(
            WordAlternatives(
                word_index=index,
                log_prob=log_prob,
                probability=math.exp(log_prob),
                alternatives=sorted(alternatives, key=lambda each: -each.log_prob),
            )
        )
    return result


def _find_other_starts(explained: ExplainedModel, trace: Trace, step: int) -> list[int]:
    """Return the most likely other tokens of a step that can start a word."""
    special_tokens = explained.special_tokens
    excluded = {
        special_tokens.target_eos_id,
        special_tokens.decoder_start_id,
        explained.engine.pad_id,
        trace.target.tokens[step].id,
    }
    ids = [candidate.id for candidate in trace.steps[step].top_candidates]
    return [i for i in ids if i not in excluded][:MAX_ALTERNATIVES]


def _complete_words(
    explained: ExplainedModel, trace: Trace, prefixes: Sequence[tuple[int, ...]]
) -> list[Hypothesis]:
    """Return the greedy continuation of each prefix to the end of its last word."""
    source_ids = [token.id for token in trace.source.tokens]
    max_length = max(map(len, prefixes), default=0) + MAX_WORD_PIECES
    limits = LengthConfig(max_ratio=0.0, max_extra=max_length, max_length=max_length)
    pieces = explained.tokenizers.target.pieces
    starts_word = [mark_word_starts(["a", piece], "")[1] for piece in pieces]
    eos = explained.special_tokens.target_eos_id

    def build_processors(
        inputs: Sequence[SentenceSearchInput], device: torch.device
    ) -> list[StepProcessor]:
        prefix_lengths = torch.tensor([len(each.prefix) for each in inputs], device=device)
        return [StopAfterWord(torch.tensor(starts_word, device=device), prefix_lengths, eos)]

    results = explained.engine.search(
        [SentenceSearchInput(source_ids, prefix=prefix) for prefix in prefixes],
        SearchConfig(beam_size=1, length=limits),
        build_processors,
    )
    return [hypotheses[0] for hypotheses in collect_in_order(results)]


def _extract_word(explained: ExplainedModel, hypothesis: Hypothesis, first: int) -> TokenCandidate:
    """Return the word that starts at token `first`."""
    tokenizer, ids = explained.tokenizers.target, hypothesis.tokens_without_eos[first:]
    pieces = [tokenizer.pieces[token_id] for token_id in ids]
    starts = mark_word_starts(pieces, explained.languages[1])
    ids = ids[: next((i for i, is_start in enumerate(starts) if is_start and i), len(ids))]
    log_prob = sum(hypothesis.token_log_probs[first : first + len(ids)])
    return TokenCandidate(
        id=ids[0],
        piece=pieces[0],
        text=tokenizer.decode(ids).strip() or pieces[0],
        log_prob=log_prob,
        probability=math.exp(log_prob),
    )


@dataclass(frozen=True, slots=True)
class StopAfterWord(StepProcessor):
    """Allows only the end token once a new word has started after the prefix."""

    starts_word_V: Tensor
    prefix_lengths_B: Tensor
    """By search input."""
    eos: int

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Set the scores of all tokens but the end token to -inf where a new word has started."""
        is_after_prefix_B = beam.length > self.prefix_lengths_B[beam.input_index_B]
        has_ended_BK = self.starts_word_V[beam.tokens_BKT[:, :, -1]] & is_after_prefix_B[:, None]
        eos_scores_BK = step_scores_BKV[:, :, self.eos].clone()
        step_scores_BKV.masked_fill_(has_ended_BK[:, :, None], -torch.inf)
        step_scores_BKV[:, :, self.eos] = eos_scores_BK
