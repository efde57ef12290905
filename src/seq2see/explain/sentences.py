"""Sentences for people: which pieces form a word, and how to write what is no text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from unicodedata import category

from seq2see.bundle import Framing
from seq2see.engines.batching import framed
from seq2see.explain.trace import Sentence, Token, Word
from seq2see.text import Tokenizer

SPACE = "▁"
_BYTE = re.compile("<0x[0-9A-F]{2}>")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Scripts that put no space between words: Thai, Lao, Burmese, Khmer, kana, Han."""
_ELIDING = {"ca", "fr", "it"}
_INSIDE = "'’-‑"
"""Punctuation that does not end a word."""


def source_sentence(
    text: str, ids: Sequence[int], framing: Framing, tokenizer: Tokenizer, language: str
) -> Sentence:
    """Return a source with what stands around it."""
    before, after = framing.source_start is not None, framing.source_end is not None
    return _sentence(text, framed(ids, framing), before, after, tokenizer, language)


def target_sentence(
    text: str, ids: Sequence[int], finished: bool, tokenizer: Tokenizer, language: str
) -> Sentence:
    """Return a target, of which the last token is the stop symbol if it is finished."""
    return _sentence(text, ids, False, finished, tokenizer, language)


def start_token(framing: Framing, tokenizer: Tokenizer) -> Token:
    """Return what the decoder is given first."""
    first = framing.target_start
    return Token(id=first, piece=tokenizer.pieces[first], text="⟨start⟩", word=None)


def shown(number: int, tokenizer: Tokenizer) -> str:
    """Return how to write a piece."""
    specials = tokenizer.specials
    names = {specials.pad: "⟨pad⟩", specials.bos: "⟨start⟩", specials.eos: "⟨end⟩"}
    if number in names:
        return names[number]
    if number == specials.unk:
        return "⟨unk⟩"
    piece = tokenizer.pieces[number]
    return piece.replace(SPACE, " ").strip() or SPACE


def word_starts(pieces: Sequence[str], language: str) -> list[bool]:
    """Return for each piece whether a word begins with it. French "l'animal" is two words."""
    if not pieces:
        return []
    elides = language[:2] in _ELIDING
    return [True, *(_parts(left, right, elides) for left, right in pairwise(pieces))]


def _parts(left: str, right: str, elides: bool) -> bool:
    """Whether there is a border of words between two pieces."""
    if right.startswith(SPACE) or (elides and left[-1] in "'’"):
        return True
    if left == SPACE or _BYTE.fullmatch(left) or _BYTE.fullmatch(right):
        return False
    if _UNSPACED.match(right) or _UNSPACED.match(left[-1]):
        return True
    if _is_mark(left[-1]) and _is_mark(right[0]):
        return left[-1] != right[0]  # three dots are one
    return _is_mark(left[-1]) != _is_mark(right[0])


def _is_mark(character: str) -> bool:
    return character not in _INSIDE and category(character)[0] in "PS"


def _sentence(
    text: str,
    ids: Sequence[int],
    before: bool,
    after: bool,
    tokenizer: Tokenizer,
    language: str,
) -> Sentence:
    first, end = int(before), len(ids) - int(after)
    starts = word_starts([tokenizer.pieces[number] for number in ids[first:end]], language)
    begins = [first + place for place, start in enumerate(starts) if start]
    spans = list(pairwise([*begins, end]))
    words = tuple(
        Word(text=tokenizer.decode(ids[a:b]).strip(), first=a, end=b) for a, b in spans if a < b
    )
    owner = {place: w for w, (a, b) in enumerate(spans) for place in range(a, b)}
    tokens = tuple(
        Token(
            id=number,
            piece=tokenizer.pieces[number],
            text=shown(number, tokenizer) if place in owner else _end(place < first),
            word=owner.get(place),
        )
        for place, number in enumerate(ids)
    )
    return Sentence(language=language, text=text, tokens=tokens, words=words)


def _end(is_before: bool) -> str:
    return "⟨start⟩" if is_before else "⟨end⟩"
