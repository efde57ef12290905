"""The sentences of a text that a translator sees."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from seq2see.documents.guards import find, united
from seq2see.documents.letters import has_letter
from seq2see.documents.passages import Extent
from seq2see.text import Span, split


def find_sentences(text: str, language: str, kept: Sequence[Extent] = ()) -> list[Extent]:
    """Return the sentences that have a letter.

    None ends inside of a placeholder, or of what else must stay whole.
    """
    if not has_letter(text):
        return []
    whole = _merged(split(text, language), united([*kept, *find(text)]))
    return [one for one in whole if has_letter(text[one.start : one.end])]


def _merged(spans: Sequence[Span], whole: Sequence[Extent]) -> list[Extent]:
    """Return the sentences, joined where one would end inside of what must stay whole."""
    result: list[Extent] = []
    for span in spans:
        before = bisect_left(whole, span.start, key=lambda extent: extent.start) - 1
        if result and before >= 0 and span.start < whole[before].end:
            result[-1] = Extent(result[-1].start, span.end)
        else:
            result.append(Extent(span.start, span.end))
    return result
