"""Lexical constraints: prefix, forbidden phrases and glossary of a translation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2see.search import Beam, Phrase, SentenceSearchInput, StepProcessor
from seq2see.search.step_processors import PHRASE_PAD, pad_phrases
from seq2see.text import Tokenizer
from seq2see.text.languages import (
    SPACED_WORD_CHARACTER,
    is_spaced_word_character,
    is_written_without_spaces,
)
from seq2see.text.tokenizer import find_offsets_in_decoded_text
from seq2see.translator.translation import TranslationOptions

# B rows, K beams, V vocabulary, E emitted tokens, S sources, P required phrases of a source,
# L tokens of a phrase, W windows, N matches

MAX_FORBIDDEN_SEARCHES = 8
"""Maximum number of searches per sentence. A search is repeated if a forbidden phrase was produced
with pieces that are not forbidden yet."""


class PhrasePattern:
    """Finds a phrase as whole words: "Herr", but not in "Herrin".

    The regular expression is compiled on first use, because most entries of a glossary are never
    needed.
    """

    def __init__(self, phrase: str, *, ignore_case: bool = False) -> None:
        self._words = phrase.split()
        self._flags = re.IGNORECASE if ignore_case else 0
        self.folded_first_word = _fold_case(self._words[0])
        """The first word with case folded; every text with the phrase contains it."""

    def find_first(self, text: str) -> tuple[int, int] | None:
        """Return the offsets of the first match, or None."""
        return next(self.find_all(text), None)

    def find_all(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the offsets of all matches."""
        return (match.span() for match in self._pattern.finditer(text))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        starts_word = is_spaced_word_character(self._words[0][0])
        ends_word = is_spaced_word_character(self._words[-1][-1])
        before = f"(?<!{SPACED_WORD_CHARACTER})" if starts_word else ""
        after = f"(?!{SPACED_WORD_CHARACTER})" if ends_word else ""
        words = r"\s+".join(map(re.escape, self._words))
        return re.compile(f"{before}{words}{after}", self._flags)


def compile_smart_case_pattern(phrase: str) -> PhrasePattern:
    """Return a pattern that ignores case if the phrase is in lower case."""
    return PhrasePattern(phrase, ignore_case=phrase == phrase.lower())


def find_matching_phrases(patterns: Sequence[PhrasePattern], text: str) -> list[int]:
    """Return the indices of the phrases that occur in a text."""
    folded = _fold_case(text)
    candidates = [i for i, each in enumerate(patterns) if each.folded_first_word in folded]
    return [i for i in candidates if patterns[i].find_first(text)]


def _fold_case(text: str) -> str:
    return "".join(map(_fold_character, text))


@lru_cache(1 << 14)
def _fold_character(character: str) -> str:
    """Return the same value for all characters that `re.IGNORECASE` equates, also İ, ı and i."""
    return character.lower()[0].upper()[0].lower()[0]


@dataclass(frozen=True, slots=True)
class RequiredPhraseBoundaryProcessor(StepProcessor):
    """Forbids the continuation of the last word of a required phrase at its first occurrence.

    Otherwise "▁Herr in" would satisfy "▁Herr". After the phrase has occurred as whole words,
    "Herrin" is allowed too.
    """

    required_SPL: Tensor
    """Required phrases, aligned to the end of the row and padded with `PHRASE_PAD` in front."""
    continues_word_V: Tensor
    """True for pieces that continue a word."""

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Mask pieces that would continue the last word of a phrase that has just occurred."""
        required_B1P1L = self.required_SPL[beam.input_index_B][:, None, :, None]
        size = required_B1P1L.size(4)
        padded_BKE = F.pad(beam.emitted_BKE, (size - 1, 0), value=PHRASE_PAD - 1)
        if padded_BKE.size(2) < size:
            return  # no tokens were emitted yet
        windows_BK1WL = padded_BKE.unfold(2, size, 1)[:, :, None]
        matches_BKPW = ((windows_BK1WL == required_B1P1L) | (required_B1P1L == PHRASE_PAD)).all(4)
        is_first_BKP = matches_BKPW[..., -1] & (matches_BKPW.sum(3) == 1)
        is_phrase_B1P = (required_B1P1L[..., 0, :] != PHRASE_PAD).any(3)
        rows_N, beams_N = (is_first_BKP & is_phrase_B1P).any(2).nonzero(as_tuple=True)
        scores_NV = step_scores_BKV[rows_N, beams_N].masked_fill(self.continues_word_V, -torch.inf)
        step_scores_BKV[rows_N, beams_N] = scores_NV


class LexicalConstraints:
    """Constraints of a translation, applied to the ids of the target tokenizer.

    `prefix` of the options is ignored: each sentence has its own.
    """

    def __init__(self, options: TranslationOptions, tokenizer: Tokenizer, language: str) -> None:
        self._tokenizer = tokenizer
        self._has_no_spaces = is_written_without_spaces(language)
        self._forbidden_phrases = tuple(dict.fromkeys(options.forbidden))
        self._forbidden_patterns = [PhrasePattern(phrase) for phrase in self._forbidden_phrases]
        self._glossary_sources = [compile_smart_case_pattern(each) for each in options.glossary]
        texts = list(options.glossary.values())
        self._glossary_entries = [
            GlossaryTarget(text, PhrasePattern(text), self._remove_leading_space(ids))
            for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True)
        ]

    def constrain_input(
        self, search_input: SentenceSearchInput, sentence: str, prefix: str
    ) -> SentenceSearchInput:
        """Return the input with the prefix and the constraints of a sentence."""
        unk = self._tokenizer.special_ids.unk
        ids = [entry.ids for entry in self._find_entries(sentence)]
        required = tuple(phrase for phrase in ids if phrase and unk not in phrase)
        prefix_ids = tuple(self._tokenizer.encode(prefix))
        return replace(search_input, prefix=prefix_ids, required=required)

    def find_unmet(self, sentence: str, text: str) -> tuple[str, ...]:
        """Return the glossary terms that the text lacks, and the forbidden phrases that it has.

        They are searched in the text, not in the ids.
        """
        entries = self._find_entries(sentence)
        missing = [entry.text for entry in entries if not entry.pattern.find_first(text)]
        present = (
            self._forbidden_phrases[i]
            for i in find_matching_phrases(self._forbidden_patterns, text)
        )
        return tuple(dict.fromkeys([*missing, *present]))

    def find_violations(self, ids: Sequence[int]) -> Iterator[Phrase]:
        """Yield the ids of each forbidden phrase in the text of these ids."""
        text = self._tokenizer.decode(ids)
        matches = [
            offsets
            for index in find_matching_phrases(self._forbidden_patterns, text)
            for offsets in self._forbidden_patterns[index].find_all(text)
        ]
        if not matches:
            return
        pieces = find_offsets_in_decoded_text(self._tokenizer, ids, text)
        for start, end in matches:
            overlapping = [i for i, (a, b) in enumerate(pieces) if a < end and b > start]
            yield tuple(ids[overlapping[0] : overlapping[-1] + 1])

    def build_processors(
        self, inputs: Sequence[SentenceSearchInput], device: torch.device
    ) -> Sequence[StepProcessor]:
        """Return the step processors that keep required phrases at word boundaries."""
        required = [search_input.required for search_input in inputs]
        if not any(required):
            return ()
        required_SPL = pad_phrases(required, device, align_right=True)
        return [RequiredPhraseBoundaryProcessor(required_SPL, self._continues_word_V.to(device))]

    @cached_property
    def _continues_word_V(self) -> Tensor:
        return torch.tensor([_is_continuation(piece) for piece in self._tokenizer.pieces])

    def _find_entries(self, sentence: str) -> list[GlossaryTarget]:
        """Return the glossary entries whose source term occurs in a sentence."""
        return [
            self._glossary_entries[i]
            for i in find_matching_phrases(self._glossary_sources, sentence)
        ]

    def _remove_leading_space(self, ids: Sequence[int]) -> Phrase:
        """Return the ids of a term inside a sentence, without a space in scripts without spaces."""
        pieces = [self._tokenizer.pieces[i] for i in ids]
        if not self._has_no_spaces or not pieces or not pieces[0].startswith("▁"):
            return tuple(ids)
        if pieces[0] == "▁":
            return tuple(ids[1:])
        first = self._ids_by_piece.get(pieces[0][1:])
        return tuple(ids) if first is None else (first, *ids[1:])

    @cached_property
    def _ids_by_piece(self) -> Mapping[str, int]:
        return {piece: i for i, piece in enumerate(self._tokenizer.pieces)}


@dataclass(frozen=True, slots=True)
class GlossaryTarget:
    """Target term of a glossary entry."""

    text: str
    """The target term."""
    pattern: PhrasePattern
    ids: Phrase


def _is_continuation(piece: str) -> bool:
    """Return whether a piece may continue the word before it; bytes may."""
    is_byte = len(piece) == 6 and piece.startswith("<0x")
    return is_byte or is_spaced_word_character(piece[:1] or " ")
