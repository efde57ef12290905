"""Where each piece stands in its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from seq2see.text import Tokenizer

Span = tuple[int, int]


def piece_spans(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[Span]:
    """Return the characters of each id in the text that they decode to, without spaces before.

    A character that several ids spell out, byte by byte, belongs to the last of them.
    """
    ends = [0]
    for count in range(1, len(ids) + 1):
        so_far = tokenizer.decode(ids[:count])
        ends.append(len(so_far) if text.startswith(so_far) else ends[-1])  # half a character
    ends[-1] = len(text)
    return [(_behind_space(text, a, b), b) for a, b in pairwise(ends)]


def source_spans(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[Span]:
    """Return the characters of each id in the text that they were made from."""
    read = tokenizer.decode(ids)
    carry = carried(read, text)
    return [(carry(start), carry(end)) for start, end in piece_spans(tokenizer, ids, read)]


def carried(read: str, text: str) -> Callable[[int], int]:
    """Return what leads from a place in a normalised text to the place in the text itself."""
    start = text.find(read)
    if start >= 0:
        return lambda place: place + start
    blocks = SequenceMatcher(None, read, text, autojunk=False).get_matching_blocks()

    def carry(place: int) -> int:
        best = blocks[0]
        for block in blocks:
            if block.a <= place:
                best = block
        return min(best.b + min(place - best.a, best.size), len(text)) if place >= best.a else 0

    return carry


def _behind_space(text: str, start: int, end: int) -> int:
    return start + len(text[start:end]) - len(text[start:end].lstrip())
