"""The ids that stand for no text. This is their only home."""

from __future__ import annotations

from dataclasses import dataclass

PAD_ID = 0
"""Fills a batch up."""
UNK_ID = 1
"""What a tokenizer without byte fallback cannot write."""
BOS_ID = 2
"""Starts a target sentence."""
EOS_ID = 3
"""Ends a sentence."""


@dataclass(frozen=True, slots=True)
class Specials:
    """The special ids of one tokenizer; a file from elsewhere may have others, or lack some."""

    pad: int | None = PAD_ID
    unk: int | None = UNK_ID
    bos: int | None = BOS_ID
    eos: int | None = EOS_ID
