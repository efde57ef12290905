"""Text to the bytes of a SentencePiece model: quiet, and the same bytes for the same lines."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import sentencepiece
from rich.console import Console

from seq2see.errors import ConfigError, InputError
from seq2see.text.config import TokenizerConfig
from seq2see.text.model_file import with_settings
from seq2see.text.normalise import prepare, refuse_surrogates
from seq2see.text.specials import BOS_ID, EOS_ID, PAD_ID, UNK_ID

Report = Callable[[str], None]
"""Takes a line that says how far the training is."""

_THREADS = 4
"""Fixed: unigram sums floats a thread at a time, so that another number gives other bytes."""
_LONGEST = 1000
"""Characters; SentencePiece would leave lines above 4,192 bytes out without a word."""
_REFUSED = str.maketrans({"\0": " ", "\n": " ", "\r": " ", "\u2585": " "})
"""SentencePiece leaves a line with NUL or its own boundary mark ▅ out; bytes can write them."""
_STEP = 10_000


def learn(lines: Iterable[str], config: TokenizerConfig, report: Report | None = None) -> bytes:
    """Return a model of these lines, the config inside.

    `report` hears how far it is; without one, a terminal shows it on standard error.
    """
    with _reporter(report) as say:
        sample = _draw(_counted(lines, say), config)
        if not any(line.strip() for line in sample):
            raise InputError("the text must have a line that is not blank, but has none")
        say(f"learning {config.vocab_size:,} pieces from {len(sample):,} lines")
        return with_settings(_train(sample, config), config.model_dump_json())


@contextmanager
def _reporter(report: Report | None) -> Iterator[Report]:
    console = Console(stderr=True)
    if report is not None:
        yield report
    elif console.is_terminal:
        with console.status("tokenizer") as status:
            yield lambda line: status.update(f"tokenizer: {line}")
    else:
        yield lambda _: None


def _counted(lines: Iterable[str], say: Report) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        refuse_surrogates(line, f" of line {number}")
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
    for line in prepare(lines, config.normalisation):
        text = line.translate(_REFUSED)
        for start in range(0, len(text), _LONGEST):
            yield text[start : start + _LONGEST]


def _train(lines: list[str], config: TokenizerConfig) -> bytes:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_chunks(lines, config),
            model_writer=model,
            model_type=config.kind,
            vocab_size=config.vocab_size,
            byte_fallback=config.byte_fallback,
            character_coverage=config.character_coverage,
            user_defined_symbols=list(config.symbols),
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
