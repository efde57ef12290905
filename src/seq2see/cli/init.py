"""`seq2see init`: from two files to a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.corpora import Columns, Files, Format, Languages, opened, progress, spoken
from seq2see.errors import InputError

if TYPE_CHECKING:
    from seq2see.data.corpora import Corpus
    from seq2see.data.doctor import Report
    from seq2see.data.split import Part
    from seq2see.settings import Recipe

RECIPE = "recipe.toml"
_EPOCHS = {"tiny": 60.0, "small": 30.0, "base": 15.0, "big": 10.0}
"""Small corpora must be seen more often."""
_LEAST_UPDATES = 1000
"""However small the corpus: fewer teach a model nothing."""
_PIECES_A_WORD = 1.4
"""About, with the pieces that are suggested."""

_HEADER = """\
# A recipe for seq2see, from {name}.
# Train:    seq2see train {path}
# Change:   here, or on the command line: section.key=value
# Explain:  `# text` explains a key; `#key = value` is a key that is not set, with what holds then.

"""


def init(
    files: Files,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The folder to write to, e.g. en-de.")
    ] = None,
    languages: Languages = None,
    columns: Columns = None,
    form: Format = None,
    held_out: Annotated[
        int | None,
        typer.Option(min=1, help="Pairs for validation, and as many for the test."),
    ] = None,
    clean: Annotated[bool, typer.Option(help="Leave out what the doctor would remove.")] = False,
) -> None:
    """Look at your files, split off validation and test sets, and write a recipe for training."""
    from seq2see.cli import diagnosis
    from seq2see.data.doctor import examine
    from seq2see.data.writers import new_folder, refuse_existing
    from seq2see.settings.commented import toml

    refuse_existing([output] if output else [])  # before the work
    with opened(files, languages, columns, form) as corpus:
        with progress() as told:
            report = examine(corpus, languages=corpus.languages, progress=told)
        diagnosis.show(report, spoken(files), examples=1)
        sides = _languages(report)
        home = output or Path("-".join(sides))
        recipe = _recipe(report, sides, _parts(files, sides))
        header = _HEADER.format(name=toml(spoken(files)), path=toml(str(home / RECIPE)))
        with new_folder(home) as folder:
            (folder / RECIPE).write_text(header + recipe.to_toml(), "utf-8")
            if corpus.config.kind != "builtin":
                healthy = _cleaned(corpus, sides, folder) if clean else corpus
                counts = _split(healthy, sides, folder, held_out)
                parts = ", ".join(f"{part} {count:,}" for part, count in counts.items())
                typer.echo(f"\nPairs for {parts}.", err=True)
    grave = [f for f in report.findings if f.severity == "fault"]
    advice = "mend the faults above first; then" if grave else f"read {home / RECIPE}, then"
    typer.echo(f"Next: {advice} `seq2see train {home / RECIPE}`.", err=True)


def _languages(report: Report) -> tuple[str, str]:
    """Return the languages as stated, or as the doctor found them."""
    source, target = (side.stated or side.found for side in (report.source, report.target))
    if source is None or target is None:
        raise InputError(
            "the languages must be given, since the files do not tell: --languages en,de"
        )
    return source, target


def _cleaned(corpus: Corpus, sides: tuple[str, str], folder: Path) -> Corpus:
    from seq2see.data import doctor
    from seq2see.data.cleaning import write_clean
    from seq2see.data.corpora import Corpus, CorpusConfig

    with progress() as told:
        verdicts = doctor.clean(corpus, languages=corpus.languages, progress=told)
        write_clean(verdicts, folder, sides)
    return Corpus(CorpusConfig(files=[f"clean.{side}" for side in sides]), sides, folder)


def _split(
    corpus: Corpus, sides: tuple[str, str], folder: Path, held_out: int | None
) -> dict[Part, int]:
    from seq2see.data.split import Splitter, write_split

    if held_out is None:
        held_out = min(1000, max(1, sum(1 for _ in corpus) // 20))
    return write_split(corpus, folder, sides, Splitter(corpus, held_out, held_out))


def _parts(files: list[str], sides: tuple[str, str]) -> dict[str, list[str]]:
    """Return the files of each part: what is built in has parts of its own."""
    if files[0].startswith("builtin:"):
        name = files[0].partition("/")[0]
        return {part: [f"{name}/{part}"] for part in ("train", "valid", "test")}
    return {part: [f"{part}.{side}" for side in sides] for part in ("train", "valid", "test")}


def _updates_per_epoch(report: Report) -> float:
    from seq2see.data.batches import BatchConfig

    words = sum(side.words.mean for side in (report.source, report.target))
    return max(1.0, report.pairs * (_PIECES_A_WORD * words + 2) / BatchConfig().tokens)


def _recipe(report: Report, sides: tuple[str, str], parts: dict[str, list[str]]) -> Recipe:
    from seq2see.settings import Recipe

    files = {part: {"files": names} for part, names in parts.items()}
    per_epoch = _updates_per_epoch(report)
    epochs = max(_EPOCHS[report.suggestion.preset], round(_LEAST_UPDATES / per_epoch))
    updates = int(epochs * per_epoch)
    often = {"every": min(500, updates // 10)}
    return Recipe.model_validate(
        {
            "data": {**files, "languages": sides, "train": [files["train"]]},
            "tokenizer": {"vocab_size": report.suggestion.vocab_size},
            "train": {"epochs": float(epochs)},
            "schedule": {"warmup": min(2000, updates // 5)},
            "validation": often,
            "checkpoints": often,
            "model": {"preset": report.suggestion.preset},
        }
    )
