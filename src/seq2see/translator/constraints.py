"""Lexical constraints: prefix, forbidden phrases and glossary of a translation."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2see.search import Beam, Phrase, SearchInput, StepProcessor
from seq2see.search.processors import PHRASE_PAD, pad_phrases
from seq2see.text import Tokenizer
from seq2see.text.languages import UNSPACED_CHARACTERS, continues_word, is_written_without_spaces
from seq2see.text.tokenizer import find_piece_offsets
from seq2see.translator.translation import TranslationOptions

# B rows, K beams, V vocabulary, E emitted tokens, S sources, P terms of a source,
# L tokens of a term, W windows, N findings

_HEAD = re.compile(rf"[^\W{UNSPACED_CHARACTERS}]+|\S")


class PhrasePattern:
    """A phrase where its ends are ends of words: "Herr", but not in "Herrin".

    What finds it is compiled at the first text that may have it: most of a glossary never comes up.
    """

    def __init__(self, phrase: str, *, ignore_case: bool = False) -> None:
        self._words = phrase.split()
        self._flags = re.IGNORECASE if ignore_case else 0
        self._opens = continues_word(phrase.lstrip()[0])
        self._closes = continues_word(phrase.rstrip()[-1])

    @property
    def index_key(self) -> str:
        """What `keys` has for every text with this phrase."""
        first = self._words[0]
        head = _HEAD.match(first)
        assert head is not None
        return _folded(first[: head.end() + 1])

    def find_first(self, text: str) -> tuple[int, int] | None:
        """Return where it stands first, if it does."""
        return next(self.find_all(text), None)

    def find_all(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where it stands."""
        place = 0
        while found := self._pattern.search(text, place):
            start, end = found.span()
            is_whole = self._is_whole(text, start, end)
            if is_whole:
                yield start, end
            place = end if is_whole else start + 1

    def _is_whole(self, text: str, start: int, end: int) -> bool:
        before, behind = text[max(0, start - 1) : start], text[end : end + 1]
        return not (self._opens and continues_word(before)) and not (
            self._closes and continues_word(behind)
        )

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(r"\s+".join(map(re.escape, self._words)), self._flags)


def compile_phrase(phrase: str) -> PhrasePattern:
    """Return what finds a phrase as it is written."""
    return PhrasePattern(phrase)


def compile_smart_case_phrase(phrase: str) -> PhrasePattern:
    """As `whole`; a phrase in lower case is found in any case."""
    return PhrasePattern(phrase, ignore_case=phrase == phrase.lower())


class PhraseIndex:
    """Many phrases: those of a text are found without a look at each."""

    def __init__(self, patterns: Sequence[PhrasePattern]) -> None:
        self._phrases = patterns
        self._by_key: dict[str, list[int]] = defaultdict(list)
        for place, phrase in enumerate(patterns):
            self._by_key[phrase.index_key].append(place)

    def find_matches(self, text: str) -> list[int]:
        """Return the places of those that a text has, in their order."""
        likely = (place for key in compute_index_keys(text) for place in self._by_key.get(key, ()))
        return [place for place in sorted(likely) if self._phrases[place].find_first(text)]


def compute_index_keys(text: str) -> set[str]:
    """Return how phrases in a text may begin: with a word of it, or at any other character; and
    the character behind, for scripts in which the beginnings alone are few."""
    heads = list(_HEAD.finditer(text))
    alone = {_folded(head[0]) for head in heads}
    return alone | {_folded(text[head.start() : head.end() + 1]) for head in heads}


def _folded(text: str) -> str:
    return "".join(map(_fold, text))


@lru_cache(1 << 14)
def _fold(character: str) -> str:
    """Return the same for all that `re.IGNORECASE` takes for one: İ, ı and i too."""
    return character.lower()[0].upper()[0].lower()[0]


MAX_FORBIDDEN_SEARCHES = 8
"""How often a sentence is searched anew because a forbidden word came up in yet other pieces."""


@dataclass(frozen=True, slots=True)
class WordBoundaryProcessor(StepProcessor):
    """Where a term has just appeared for the first time, nothing may go on with its last word.

    Otherwise "▁Herr" would be met by "▁Herr in". Once it was there whole, "Herrin" may come too.
    """

    required_SPL: Tensor
    """Each at the end of its row, with `NO_TOKEN` in front."""
    continues_word_V: Tensor
    """Pieces that go on with a word."""

    @classmethod
    def from_phrases(
        cls, required: Sequence[Sequence[Phrase]], continues_word_V: Tensor
    ) -> WordBoundaryProcessor:
        """Make it from the terms of each source."""
        turned = [[term[::-1] for term in source] for source in required]
        return cls(pad_phrases(turned, continues_word_V.device).flip(2), continues_word_V)

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Forbid pieces that are no beginning of a word."""
        terms_B1P1L = self.required_SPL[beam.input_index_B][:, None, :, None]
        size = terms_B1P1L.size(4)
        padded_BKE = F.pad(beam.emitted_BKE, (size - 1, 0), value=PHRASE_PAD - 1)
        if padded_BKE.size(2) < size:
            return  # nothing was emitted yet
        windows_BK1WL = padded_BKE.unfold(2, size, 1)[:, :, None]
        same_BKPW = ((windows_BK1WL == terms_B1P1L) | (terms_B1P1L == PHRASE_PAD)).all(4)
        first_BKP = same_BKPW[..., -1] & (same_BKPW.sum(3) == 1)
        real_B1P = (terms_B1P1L[..., 0, :] != PHRASE_PAD).any(3)
        rows_N, beams_N = (first_BKP & real_B1P).any(2).nonzero(as_tuple=True)
        values_NV = step_scores_BKV[rows_N, beams_N].masked_fill(self.continues_word_V, -torch.inf)
        step_scores_BKV[rows_N, beams_N] = values_NV


class LexicalConstraints:
    """The wishes of some options, for the tokenizer of the target."""

    def __init__(self, options: TranslationOptions, tokenizer: Tokenizer, language: str) -> None:
        self._target = tokenizer
        self._unspaced = is_written_without_spaces(language)
        self._prefix = tuple(tokenizer.encode(options.prefix)) if options.prefix else ()
        self._words = tuple(dict.fromkeys(options.forbidden))
        self._forbidden = [compile_phrase(word) for word in self._words]
        self._forbidden_of = PhraseIndex(self._forbidden).find_matches
        self._terms_of = PhraseIndex(
            [compile_smart_case_phrase(source) for source in options.glossary]
        ).find_matches
        texts = list(options.glossary.values())
        self._terms = [
            GlossaryEntry(text, compile_phrase(text), self._inner(ids))
            for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True)
        ]

    def constrain_input(
        self, search_input: SearchInput, sentence: str, is_first: bool
    ) -> SearchInput:
        """Return the source with what its translation must have; a prefix starts a line only."""
        terms = tuple(term.ids for term in self._of(sentence) if self._can_be_written(term.ids))
        return replace(search_input, prefix=self._prefix if is_first else (), required=terms)

    def find_unmet(self, sentence: str, text: str) -> tuple[str, ...]:
        """Return what the text fails to fulfil: this is read from the text, not from the ids."""
        lacking = [term.text for term in self._of(sentence) if not term.pattern.find_first(text)]
        return (*lacking, *(self._words[place] for place in self._forbidden_of(text)))

    def find_violations(self, ids: Sequence[int], text: str) -> Iterator[Phrase]:
        """Yield the pieces in which forbidden words came up."""
        places = self._forbidden_of(text)
        found = [span for place in places for span in self._forbidden[place].find_all(text)]
        if not found:
            return
        spans = find_piece_offsets(self._target, ids, text)
        for start, end in found:
            inside = [i for i, (a, b) in enumerate(spans) if a < end and b > start]
            yield tuple(ids[inside[0] : inside[-1] + 1])

    def build_processors(
        self, inputs: Sequence[SearchInput], device: torch.device
    ) -> Sequence[StepProcessor]:
        """Return what keeps the ends of terms ends of words."""
        if not any(source.required for source in inputs):
            return ()
        return [
            WordBoundaryProcessor.from_phrases(
                [source.required for source in inputs], self._inside_V.to(device)
            )
        ]

    @cached_property
    def _inside_V(self) -> Tensor:
        return torch.tensor([_is_inside(piece) for piece in self._target.pieces])

    def _of(self, sentence: str) -> list[GlossaryEntry]:
        return [self._terms[place] for place in self._terms_of(sentence)]

    def _inner(self, ids: Sequence[int]) -> Phrase:
        """Return the ids of a term in the middle of a sentence."""
        pieces = [self._target.pieces[i] for i in ids]
        if not self._unspaced or not pieces or not pieces[0].startswith("▁"):
            return tuple(ids)
        if pieces[0] == "▁":
            return tuple(ids[1:])
        rest = self._ids_by_piece.get(pieces[0][1:])
        return tuple(ids) if rest is None else (rest, *ids[1:])

    @cached_property
    def _ids_by_piece(self) -> Mapping[str, int]:
        return {piece: i for i, piece in enumerate(self._target.pieces)}

    def _can_be_written(self, ids: Phrase) -> bool:
        return bool(ids) and self._target.special_ids.unk not in ids


@dataclass(frozen=True, slots=True)
class GlossaryEntry:
    """What a line of a glossary asks for."""

    text: str
    pattern: PhrasePattern
    ids: Phrase


def _is_inside(piece: str) -> bool:
    """Tell whether a piece goes on with the word before it; a single byte might."""
    is_byte = len(piece) == 6 and piece.startswith("<0x")
    return is_byte or continues_word(piece[:1] or " ")
