"""Characters that a tokenizer has no piece for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from seq2see.data.doctor.report import Lacking
from seq2see.text import Tokenizer

_SPACE = "\u2581"
_SHOWN = 20


class Coverage:
    """Counts the characters of one side."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.counts = Counter[str]()

    def look_at(self, lines: Sequence[str]) -> None:
        """Count the characters of these lines, as the tokenizer gets to see them."""
        normal = (line if line.isascii() else self.tokenizer.normalise(line) for line in lines)
        self.counts.update("".join(normal))

    def lacking(self) -> Lacking:
        """Return those without a piece. White space is always written somehow."""
        pieces = set(self.tokenizer.pieces)
        written = {*pieces, _SPACE, *filter(str.isspace, self.counts)}
        lacking = Counter({c: n for c, n in self.counts.items() if c not in written})
        return Lacking(
            characters=len(lacking),
            occurrences=lacking.total(),
            share=lacking.total() / max(self.counts.total(), 1),
            commonest=tuple(lacking.most_common(_SHOWN)),
            fate="bytes" if "<0x00>" in pieces else "unknown",
        )
