"""What the verbs that read a corpus have in common: its options, and progress while it is read."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from seq2see.data.corpora import Corpus

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES…",
        help="Two text files side by side, or one .tsv, .jsonl or .tmx (also .gz, .xz, .zst); "
        "`-` is standard input; `builtin:fables`.",
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
_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z]{2,4})?")
_PACKED = {".gz", ".xz", ".zst"}


@contextmanager
def opened(files: list[str], languages: str | None, columns: str | None) -> Iterator[Corpus]:
    """Give the corpus that the options name. Standard input is kept aside, to be read again."""
    from seq2see.data.corpora import Corpus, CorpusConfig

    with tempfile.TemporaryDirectory() as folder:
        if files == ["-"]:
            files = [str(_kept_aside(Path(folder)))]
        config = CorpusConfig(files=files, columns=_columns(columns))
        yield Corpus(config, _pair(languages, "--languages") or _codes(files))


def _kept_aside(folder: Path) -> Path:
    path = folder / "standard-input.tsv"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def _columns(text: str | None) -> tuple[int | str, int | str] | None:
    pair = _pair(text, "--columns")
    if pair and all(column.isdecimal() for column in pair):
        return int(pair[0]), int(pair[1])
    return pair


def _pair(text: str | None, option: str) -> tuple[str, str] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise typer.BadParameter(
            f"must be two with a comma between them, but is {text!r}", param_hint=option
        )
    return parts[0], parts[1]


def _codes(files: list[str]) -> tuple[str, str] | None:
    """Read the languages off the names: train.en and train.de.gz; or a lone en-de.tsv."""
    if files[0].startswith("builtin:fables"):
        return "en", "fr"
    endings = [_ending(name) for name in files]
    if len(endings) == 2 and all(_CODE.fullmatch(ending) for ending in endings):
        return endings[0], endings[1]
    return None


def _ending(name: str) -> str:
    path = Path(name)
    return (Path(path.stem) if path.suffix in _PACKED else path).suffix.removeprefix(".")


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


def endings(corpus: Corpus) -> tuple[str, str]:
    """Return what files of this corpus end with: the languages, if they are known."""
    return corpus.languages or ("source", "target")


def spoken(files: list[str]) -> str:
    """Return a corpus' name for messages."""
    return "standard input" if files == ["-"] else " and ".join(files)
