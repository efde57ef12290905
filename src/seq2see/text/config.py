"""What a tokenizer is to be. Subword sampling is not here: it belongs to the training data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from seq2see.config import Config
from seq2see.text.normalise import Normalisation, normalise, protect

_TAKEN = re.compile(r"<(pad|unk|s|/s|0x[0-9A-F]{2})>")
_SPECIALS = 4
_BYTES = 256


class TokenizerConfig(Config):
    """One tokenizer, or two alike where each side has its own."""

    kind: Literal["bpe", "unigram"] = "bpe"
    """How text is cut: `bpe` merges the most frequent pairs, `unigram` takes the likeliest cut."""
    vocab_size: int = Field(default=8000, ge=1)
    """Pieces, the 4 special ones, the 256 bytes and the symbols included."""
    joint: bool = True
    """One tokenizer learnt from both sides, or one a side."""
    normalisation: Normalisation = "nfc"
    """`nfc` composes characters and tidies white space, `nfkc` also merges look-alikes (½ and 1⁄2),
    `none` keeps every character as it is."""
    byte_fallback: bool = True
    """Write a character without a piece of its own as bytes. Without it, it is lost as `<unk>`."""
    character_coverage: float = Field(default=0.9995, ge=0.98, le=1)
    """How much of the text's characters get a piece of their own; the rarest go without."""
    symbols: tuple[str, ...] = Field(default=(), strict=False)  # TOML and JSON know lists only
    """Placeholders that are never cut, one id each."""
    max_lines: int = Field(default=1_000_000, ge=1)
    """Learn from at most so many lines, drawn evenly from all."""

    def conflicts(self) -> Iterator[str]:
        """Refuse symbols that could not be found in a text again, and too small a vocabulary."""
        for symbol in self.symbols:
            if problem := self._symbol_problem(symbol):
                yield f"`symbols` must {problem}, but has {symbol!r} instead"
        if len(set(self.symbols)) < len(self.symbols):
            yield "`symbols` must all be different"
        needed = _SPECIALS + _BYTES * self.byte_fallback + len(self.symbols)
        if self.vocab_size <= needed:
            yield (
                f"`vocab_size` must be above {needed}, the special pieces, bytes and symbols, "
                f"but is {self.vocab_size} instead"
            )

    def _symbol_problem(self, symbol: str) -> str | None:
        if not symbol or not symbol.isprintable() or any(c.isspace() for c in symbol):
            return "have visible characters and no spaces"
        if _TAKEN.fullmatch(symbol):
            return "not be names of special pieces"
        if protect(symbol) != symbol or normalise(symbol, self.normalisation) != symbol:
            return f"be left alone by normalisation {self.normalisation}"
        return None
