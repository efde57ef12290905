"""Parallel text by its name: files of any format, or a corpus that is built in.

    builtin:fables  builtin:fables-short    English to French, made by a grammar
    builtin:copy  builtin:reverse  builtin:sort    digits

A built-in corpus is its training split unless another is named: `builtin:fables/test`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

from pydantic import Field

from seq2see.config import Config
from seq2see.data import digits, fables
from seq2see.data.readers import (
    STANDARD_INPUT,
    Block,
    Pair,
    in_blocks,
    parallel_blocks,
    read_jsonl,
    read_tmx,
    tsv_blocks,
)
from seq2see.errors import ConfigError, InputError

Format = Literal["text", "tsv", "jsonl", "tmx", "builtin"]
Split = Literal["train", "valid", "test"]
Columns = Annotated[tuple[int | str, int | str], Field(strict=False)]  # TOML knows lists only

Skipped = Callable[[int], None]
"""Hears the number of a unit that does not have both languages."""

BUILTIN = "builtin:"
PACKED = {".gz", ".xz", ".zst"}
_ENDINGS: Mapping[str, Format] = {".tsv": "tsv", ".jsonl": "jsonl", ".tmx": "tmx"}
_BUILTINS: Mapping[str, Callable[[Split], list[Pair]]] = {
    "fables": lambda split: [Pair(f.source, f.target) for f in fables.load(split)],
    "fables-short": lambda split: [Pair(f.source, f.target) for f in fables.load(split, True)],
    "copy": lambda split: [Pair(*pair) for pair in digits.load("copy", split)],
    "reverse": lambda split: [Pair(*pair) for pair in digits.load("reverse", split)],
    "sort": lambda split: [Pair(*pair) for pair in digits.load("sort", split)],
}


class CorpusConfig(Config):
    """A body of parallel text."""

    files: tuple[str, ...] = Field(min_length=1, max_length=2, strict=False)
    """Two text files with as many lines each, or one file with both sides (`.tsv`, `.jsonl`,
    `.tmx`), each plain or packed (`.gz`, `.xz`, `.zst`); or `builtin:fables`."""
    format: Format | None = None
    """What the files are, where their names do not tell."""
    columns: Columns | None = None
    """Source and target in a file that has both: columns of TSV counted from 1 (the first two
    unless given), keys of JSONL, languages of TMX (the languages of the data unless given)."""

    def conflicts(self) -> Iterator[str]:
        """Refuse names that are no corpus."""
        count = 2 if self.kind == "text" else 1
        given = ", ".join(self.files)
        if len(self.files) != count:
            wanted = "two text files, or one .tsv, .jsonl or .tmx" if count == 2 else "one"
            yield f"`files` must be {wanted}, but has {given} instead"
        elif count == 2 and STANDARD_INPUT in self.files:
            yield f"`files` must be one if it is standard input, but has {given} instead"
        elif self.kind == "builtin" and (problem := _builtin_problem(self.files[0])):
            yield problem
        if self.columns and self.kind in {"text", "builtin"}:
            yield f"`columns` must be left out for {self.kind}"
        elif self.columns and not all(_is_column(column, self.kind) for column in self.columns):
            wanted = "numbers from 1 on" if self.kind == "tsv" else "names"
            yield f"`columns` must be {wanted} for {self.kind}, but are {self.columns} instead"

    @property
    def kind(self) -> Format:
        """The format, as given or by the name of the first file."""
        if self.format:
            return self.format
        name = self.files[0]
        if name.startswith(BUILTIN):
            return "builtin"
        if name == STANDARD_INPUT:
            return "tsv"
        endings = [e for e in Path(name.lower()).suffixes if e not in PACKED]
        return _ENDINGS.get(endings[-1], "text") if endings else "text"


class TrainingCorpusConfig(CorpusConfig):
    """Text to learn from, and how much it counts."""

    weight: float = Field(default=1.0, gt=0, le=1000)
    """How often an epoch has each line: 2 is twice, 0.5 every other epoch."""
    tag: str = ""
    """A symbol before each source, such as `<bt>` for text that was translated back."""


def _is_column(column: int | str, kind: Format) -> bool:
    return isinstance(column, int) and column >= 1 if kind == "tsv" else isinstance(column, str)


def _builtin_problem(name: str) -> str | None:
    corpus, _, split = name.removeprefix(BUILTIN).partition("/")
    if corpus not in _BUILTINS:
        known = ", ".join(_BUILTINS)
        return f"`files` must name a built-in corpus ({known}), but has {name} instead"
    if split and split not in get_args(Split):
        return f"`files` must name the split train, valid or test, but has {name} instead"
    return None


@dataclass(frozen=True)
class Corpus:
    """Parallel text that can be read again and again (standard input once)."""

    config: CorpusConfig
    languages: tuple[str, str] | None = None
    """Which columns to take where the config names none."""
    root: Path = Path()
    """Where the names of files start from."""

    def __iter__(self) -> Iterator[Pair]:
        return chain.from_iterable(block.pairs() for block in self.blocks())

    def blocks(self, skipped: Skipped = lambda _: None) -> Iterator[Block]:
        """Yield many pairs at a time, which is faster."""
        return _READERS[self.config.kind](self, skipped)

    @property
    def name(self) -> str:
        """The files without their folders, for messages."""
        builtin = self.config.kind == "builtin"
        return " and ".join(f if builtin else Path(f).name for f in self.config.files)

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the files are."""
        return tuple(f if f == STANDARD_INPUT else str(self.root / f) for f in self.config.files)

    @property
    def keys(self) -> tuple[str, str]:
        """What tells the sides apart inside a file: the names of columns, or the languages."""
        is_one = self.languages is not None and self.languages[0] == self.languages[1]
        keys = self.config.columns or (None if is_one else self.languages)
        if keys is None:
            problem = f"`columns` must be given for {self.name}: the names of source and target"
            raise ConfigError([problem])
        return str(keys[0]), str(keys[1])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the files, as they were when it was first asked for, and of their reading."""
        return self.current_fingerprint()

    def current_fingerprint(self) -> str:
        """Return the fingerprint of the files as they are now."""
        how = (self.config.kind, self.config.columns, self.languages, self.config.files)
        digest = hashlib.sha256(repr(how if self.config.kind == "builtin" else how[:3]).encode())
        for path in self._decisive_files():
            digest.update(_digest(path))
        return digest.hexdigest()

    def _decisive_files(self) -> list[Path]:
        """Return the files that decide what is read: for what is built in, its code."""
        if self.config.kind != "builtin":
            return [Path(path) for path in self.paths]
        grammar = Path(fables.__file__).parent
        return [*sorted(grammar.glob("*.py")), Path(digits.__file__)]


def _digest(path: Path) -> bytes:
    if str(path) == STANDARD_INPUT:
        raise InputError("standard input can be read once only: save it in a file first")
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def _tsv_blocks(corpus: Corpus, _: Skipped) -> Iterator[Block]:
    first, second = corpus.config.columns or (1, 2)
    return tsv_blocks(corpus.paths[0], (int(first), int(second)))


def _read_builtin(corpus: Corpus) -> Iterator[Pair]:
    name, _, split = corpus.config.files[0].removeprefix(BUILTIN).partition("/")
    return iter(_BUILTINS[name](cast("Split", split or "train")))


_READERS: Mapping[Format, Callable[[Corpus, Skipped], Iterator[Block]]] = {
    "text": lambda corpus, _: parallel_blocks(*corpus.paths),
    "tsv": _tsv_blocks,
    "jsonl": lambda corpus, _: in_blocks(read_jsonl(corpus.paths[0], corpus.keys)),
    "tmx": lambda corpus, skipped: in_blocks(read_tmx(corpus.paths[0], corpus.keys, skipped)),
    "builtin": lambda corpus, _: in_blocks(_read_builtin(corpus)),
}
