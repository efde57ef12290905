"""Special ids, configuration and training of SentencePiece tokenizers."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import sentencepiece
from pydantic import Field

from seq2see.config import Config
from seq2see.errors import ConfigError, InputError, Problem
from seq2see.keyed_random import sample_reservoir
from seq2see.text.normalization import (
    Normalization,
    check_surrogates,
    escape_meta_space,
    normalize_and_escape,
    normalize_unicode_and_spaces,
)
from seq2see.text.sentencepiece_file import embed_config

PAD_ID = 0
"""Padding."""
UNK_ID = 1
"""Characters that a tokenizer without byte fallback cannot encode."""
BOS_ID = 2
"""Start of a target sentence."""
EOS_ID = 3
"""End of a sentence."""

_RESERVED = re.compile(r"<(pad|unk|s|/s|0x[0-9A-F]{2})>")
_NUM_SPECIAL_IDS = 4
_NUM_BYTES = 256
_NUM_THREADS = 4
"""Fixed, because unigram training sums floats per thread: another number gives another model."""
_MAX_CHARACTERS = 1000
"""Longer lines are split, because SentencePiece skips lines above 4,192 bytes without an error."""
_REPLACED = str.maketrans({"\0": " ", "\n": " ", "\r": " ", "\u2585": " "})
"""SentencePiece skips lines with NUL or its own boundary mark ▅. Byte fallback can encode them."""


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Special ids of a tokenizer. A file of another system may have other ids, or lack some."""

    pad: int | None = PAD_ID
    unk: int | None = UNK_ID
    bos: int | None = BOS_ID
    eos: int | None = EOS_ID


class TokenizerConfig(Config):
    """Settings of a joint tokenizer, or of two tokenizers with the same settings."""

    model_type: Literal["bpe", "unigram"] = "bpe"
    """Segmentation algorithm: `bpe` merges the most frequent pairs, `unigram` selects the most
    probable segmentation."""
    vocab_size: int = Field(default=8000, ge=1)
    """Number of pieces, including 4 special pieces, 256 bytes and the user-defined symbols."""
    joint: bool = True
    """Train one tokenizer on both sides. Otherwise each side has its own."""
    normalization: Normalization = "nfc"
    """Unicode normalization. `nfc` composes characters and collapses white space, `nfkc` also
    unifies compatible characters (½ and 1⁄2), `none` keeps every character."""
    byte_fallback: bool = True
    """Encode characters without a piece as bytes. Otherwise they become `<unk>` and are lost."""
    character_coverage: float = Field(default=0.9995, ge=0.98, le=1)
    """Share of the characters of the text that get a piece; the rarest characters do not."""
    user_defined_symbols: tuple[str, ...] = Field(default=(), strict=False)
    """Placeholders that are never split, one id each."""
    max_lines: int = Field(default=1_000_000, ge=1)
    """Maximum number of lines to train on, a uniform sample of all lines."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a message for each invalid symbol, and if the vocabulary is too small."""
        for symbol in self.user_defined_symbols:
            if problem := self._symbol_problem(symbol):
                yield Problem("user_defined_symbols", f"must {problem}, but has {symbol!r} instead")
        if len(set(self.user_defined_symbols)) < len(self.user_defined_symbols):
            yield Problem("user_defined_symbols", "must all be different")
        needed = _NUM_SPECIAL_IDS + _NUM_BYTES * self.byte_fallback + len(self.user_defined_symbols)
        if self.vocab_size <= needed:
            yield Problem(
                "vocab_size",
                f"must be above {needed}, the special pieces, bytes and symbols, "
                f"but is {self.vocab_size} instead",
            )

    def _symbol_problem(self, symbol: str) -> str | None:
        if not symbol or not symbol.isprintable() or any(c.isspace() for c in symbol):
            return "have visible characters and no spaces"
        if _RESERVED.fullmatch(symbol):
            return "not be names of special pieces"
        if (
            escape_meta_space(symbol) != symbol
            or normalize_unicode_and_spaces(symbol, self.normalization) != symbol
        ):
            return f"not be changed by normalization {self.normalization}"
        return None


def train_sentencepiece(lines: Iterable[str], config: TokenizerConfig) -> bytes:
    """Train a tokenizer, and return the serialized model with its config.

    The same lines give the same bytes.

    Raises:
        InputError: If the text is blank or SentencePiece cannot train on it.
        ConfigError: If the vocabulary size does not fit the text.
    """
    sample = sample_reservoir(_check_lines(lines), config.max_lines)
    if not any(line.strip() for line in sample):
        raise InputError("the text must have a line that is not blank, but has none")
    return embed_config(_train(sample, config), config.model_dump_json())


def _check_lines(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        check_surrogates(line, f" of line {number}")
        yield line


def _split_lines(lines: Sequence[str], config: TokenizerConfig) -> Iterator[str]:
    for line in normalize_and_escape(lines, config.normalization):
        text = line.translate(_REPLACED)
        for start in range(0, len(text), _MAX_CHARACTERS):
            yield text[start : start + _MAX_CHARACTERS]


def _train(lines: list[str], config: TokenizerConfig) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_split_lines(lines, config),
            model_writer=model,
            model_type=config.model_type,
            vocab_size=config.vocab_size,
            byte_fallback=config.byte_fallback,
            character_coverage=config.character_coverage,
            user_defined_symbols=list(config.user_defined_symbols),
            # the text is normalized already; SentencePiece's normalization is not reversible
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            num_threads=_NUM_THREADS,
            minloglevel=3,
        )
    except RuntimeError as error:
        raise _convert_error(str(error), config) from None
    return model.getvalue()


def _convert_error(message: str, config: TokenizerConfig) -> ConfigError | InputError:
    """Return the error for a message of SentencePiece."""
    for pattern, bound in (
        (r"set it to a value <= (\d+)", "at most"),
        (r"smaller than required_chars\. \d+ vs (\d+)", "at least"),
    ):
        if match := re.search(pattern, message):
            limit = f"must be {bound} {match[1]} for this text"
            return ConfigError(
                Problem("vocab_size", f"{limit}, but is {config.vocab_size} instead")
            )
    return InputError(f"SentencePiece cannot be trained on this text: {message}")
