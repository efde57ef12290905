"""What the verbs that read a corpus have in common: its options, and progress while it is read."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.verb import CODE
from seq2see.errors import ConfigError, InputError

if TYPE_CHECKING:
    from seq2see.data.corpora import Corpus

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES…",
        help="Two text files side by side, or one .tsv, .jsonl or .tmx (also .gz, .xz, .zst); "
        "`-` is a TSV on standard input; `builtin:fables` is our own.",
    ),
]
Languages = Annotated[
    str | None,
    typer.Option(metavar="SOURCE,TARGET", help="Codes such as en,de. By default from the names."),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE,TARGET",
        help="TSV: numbers from 1. JSONL: keys. TMX: languages. By default the first two, or the "
        "languages.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="text|tsv|jsonl|tmx", help="Where the names do not tell."),
]
_CODES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy
da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu
hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb
lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om
or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw
ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
_ISO_639_1 = frozenset(_CODES.split())
"""Endings of files that name a language: `txt` does not."""


@contextmanager
def opened(
    files: list[str], languages: str | None, columns: str | None, form: str | None
) -> Iterator[Corpus]:
    """Give the corpus that the options name. Standard input is kept aside, to be read again."""
    from seq2see.data.corpora import Corpus, CorpusConfig

    with tempfile.TemporaryDirectory() as folder:
        if files == ["-"]:
            files = [str(_kept_aside(Path(folder)))]
        table = {"files": files, "columns": columns_of(columns, form or ""), "format": form}
        config = CorpusConfig.model_validate(table)
        refuse_missing(files)
        yield Corpus(config, stated(languages) or languages_of(files))


def refuse_missing(files: list[str]) -> None:
    """Complain of a file that is not there before anything else."""
    for name in files:
        if name != "-" and not name.startswith("builtin:") and not Path(name).exists():
            raise InputError(f"{name} cannot be read: {os.strerror(errno.ENOENT)}")


def _kept_aside(folder: Path) -> Path:
    path = folder / "standard-input.tsv"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def stated(text: str | None) -> tuple[str, str] | None:
    """Return the languages that an option names."""
    pair = _pair(text, "--languages")
    if pair and not all(map(CODE.fullmatch, pair)):
        raise ConfigError([f"`--languages` must be two codes such as en,pt-BR, but is {text!r}"])
    return pair


def columns_of(text: str | None, form: str) -> tuple[int | str, int | str] | None:
    """Return the columns that an option names."""
    pair = _pair(text, "--columns")
    if pair and form != "jsonl" and all(column.isdecimal() for column in pair):
        return int(pair[0]), int(pair[1])
    return pair


def _pair(text: str | None, option: str) -> tuple[str, str] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise ConfigError([f"`{option}` must be two with a comma between, but is {text!r}"])
    return parts[0], parts[1]


def languages_of(files: list[str]) -> tuple[str, str] | None:
    """Read the languages off the names, such as train.en and train.de.gz."""
    if files[0].startswith("builtin:fables"):
        return "en", "fr"
    codes = [_ending(name) for name in files]
    if len(codes) == 2 and _ISO_639_1.issuperset(codes):
        return codes[0], codes[1]
    return None


def language_of(name: str) -> str | None:
    """Return the language that a file's name ends with, if it is one."""
    code = _ending(name)
    return code if code in _ISO_639_1 else None


def _ending(name: str) -> str:
    from seq2see.data.corpora import PACKED

    path = Path(name)
    return (Path(path.stem) if path.suffix in PACKED else path).suffix.removeprefix(".")


@contextmanager
def progress() -> Iterator[Callable[[str, int], None]]:
    """Show on a terminal what is being done and how many lines are."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("reading")
        yield lambda doing, lines: bar.update(task, description=f"{doing}, {lines:,} lines")


def endings(languages: tuple[str, str] | None) -> tuple[str, str]:
    """Return what files of these languages end with: their codes, if they tell the sides apart."""
    return languages if languages and languages[0] != languages[1] else ("source", "target")


def spoken(files: list[str]) -> str:
    """Return a corpus' name for messages."""
    return "standard input" if files == ["-"] else " and ".join(files)
