"""Special ids, configuration and training of SentencePiece tokenizers."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import sentencepiece
from pydantic import Field
from rich.console import Console

from seq2see.config import Config
from seq2see.errors import ConfigError, InputError
from seq2see.progress import MessageCallback
from seq2see.text.normalization import (
    Normalization,
    check_surrogates,
    escape_meta_space,
    normalize,
    normalize_and_escape,
)
from seq2see.text.sentencepiece_file import embed_config

PAD_ID = 0
"""Fills a batch up."""


UNK_ID = 1
"""What a tokenizer without byte fallback cannot write."""


BOS_ID = 2
"""Starts a target sentence."""


EOS_ID = 3
"""Ends a sentence."""


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """The special ids of one tokenizer; a file from elsewhere may have others, or lack some."""

    pad: int | None = PAD_ID
    unk: int | None = UNK_ID
    bos: int | None = BOS_ID
    eos: int | None = EOS_ID


_TAKEN = re.compile(r"<(pad|unk|s|/s|0x[0-9A-F]{2})>")


_SPECIALS = 4


_NUM_BYTES = 256


class TokenizerConfig(Config):
    """One tokenizer, or two alike where each side has its own."""

    model_type: Literal["bpe", "unigram"] = "bpe"
    """How text is cut: `bpe` merges the most frequent pairs, `unigram` takes the likeliest cut."""
    vocab_size: int = Field(default=8000, ge=1)
    """Pieces, the 4 special ones, the 256 bytes and the symbols included."""
    joint: bool = True
    """One tokenizer learnt from both sides, or one a side."""
    normalization: Normalization = "nfc"
    """`nfc` composes characters and tidies white space, `nfkc` also merges look-alikes (½ and 1⁄2),
    `none` keeps every character as it is."""
    byte_fallback: bool = True
    """Write a character without a piece of its own as bytes. Without it, it is lost as `<unk>`."""
    character_coverage: float = Field(default=0.9995, ge=0.98, le=1)
    """How much of the text's characters get a piece of their own; the rarest go without."""
    user_defined_symbols: tuple[str, ...] = Field(
        default=(), strict=False
    )  # TOML and JSON know lists only
    """Placeholders that are never cut, one id each."""
    max_lines: int = Field(default=1_000_000, ge=1)
    """Learn from at most so many lines, drawn evenly from all."""

    def conflicts(self) -> Iterator[str]:
        """Refuse symbols that could not be found in a text again, and too small a vocabulary."""
        for symbol in self.user_defined_symbols:
            if problem := self._symbol_problem(symbol):
                yield f"`user_defined_symbols` must {problem}, but has {symbol!r} instead"
        if len(set(self.user_defined_symbols)) < len(self.user_defined_symbols):
            yield "`user_defined_symbols` must all be different"
        needed = _SPECIALS + _NUM_BYTES * self.byte_fallback + len(self.user_defined_symbols)
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
        if escape_meta_space(symbol) != symbol or normalize(symbol, self.normalization) != symbol:
            return f"be left alone by normalization {self.normalization}"
        return None


_THREADS = 4
"""Fixed: unigram sums floats a thread at a time, so that another number gives other bytes."""


_LONGEST = 1000
"""Characters; SentencePiece would leave lines above 4,192 bytes out without a word."""


_REFUSED = str.maketrans({"\0": " ", "\n": " ", "\r": " ", "\u2585": " "})
"""SentencePiece leaves a line with NUL or its own boundary mark ▅ out; bytes can write them."""


_STEP = 10_000


def train_sentencepiece(
    lines: Iterable[str], config: TokenizerConfig, on_message: MessageCallback | None = None
) -> bytes:
    """Return a model of these lines, the config inside.

    `report` hears how far it is; without one, a terminal shows it on standard error.
    """
    with _reporter(on_message) as say:
        sample = _draw(_counted(lines, say), config)
        if not any(line.strip() for line in sample):
            raise InputError("the text must have a line that is not blank, but has none")
        say(f"learning {config.vocab_size:,} pieces from {len(sample):,} lines")
        return embed_config(_train(sample, config), config.model_dump_json())


@contextmanager
def _reporter(report: MessageCallback | None) -> Iterator[MessageCallback]:
    console = Console(stderr=True)
    if report is not None:
        yield report
    elif console.is_terminal:
        with console.status("tokenizer") as status:
            yield lambda line: status.update(f"tokenizer: {line}")
    else:
        yield lambda _: None


def _counted(lines: Iterable[str], say: MessageCallback) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        check_surrogates(line, f" of line {number}")
        yield line
        if number % _STEP == 0:
            say(f"read {number:,} lines")


def _draw(lines: Iterable[str], config: TokenizerConfig) -> list[str]:
    """Keep `max_lines`, each line as likely as any other, whatever their number (Algorithm R)."""
    generator = random.Random(0)  # noqa: S311 not a secret: the same lines, the same sample
    kept: list[str] = []
    for number, line in enumerate(lines):
        if number < config.max_lines:
            kept.append(line)
        elif (place := generator.randrange(number + 1)) < config.max_lines:
            kept[place] = line
    return kept


def _chunks(lines: Sequence[str], config: TokenizerConfig) -> Iterator[str]:
    for line in normalize_and_escape(lines, config.normalization):
        text = line.translate(_REFUSED)
        for start in range(0, len(text), _LONGEST):
            yield text[start : start + _LONGEST]


def _train(lines: list[str], config: TokenizerConfig) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_chunks(lines, config),
            model_writer=model,
            model_type=config.model_type,
            vocab_size=config.vocab_size,
            byte_fallback=config.byte_fallback,
            character_coverage=config.character_coverage,
            user_defined_symbols=list(config.user_defined_symbols),
            # our own normalisation came before; SentencePiece's would not be reversible
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            num_threads=_THREADS,
            minloglevel=3,
        )
    except RuntimeError as error:
        raise _explained(str(error), config) from None
    return model.getvalue()


def _explained(message: str, config: TokenizerConfig) -> ConfigError | InputError:
    """Say in our grammar what SentencePiece's trainer says in its own."""
    for pattern, bound in (
        (r"set it to a value <= (\d+)", "at most"),
        (r"smaller than required_chars\. \d+ vs (\d+)", "at least"),
    ):
        if found := re.search(pattern, message):
            limit = f"`vocab_size` must be {bound} {found[1]} for this text"
            return ConfigError([f"{limit}, but is {config.vocab_size} instead"])
    return InputError(f"SentencePiece cannot learn from this text: {message}")
