"""`seq2see init`: from two files to a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.inputs import endings, opened, spoken
from seq2see.cli.options import Columns, Files, Format, Languages
from seq2see.cli.progress import show_corpus_progress
from seq2see.errors import ConfigError, InputError

if TYPE_CHECKING:
    from seq2see.data.corpus import Corpus
    from seq2see.data.quality.report import Report
    from seq2see.data.writers import Part

RECIPE = "recipe.toml"
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
    from seq2see.cli import corpus_report
    from seq2see.data.quality.analysis import examine
    from seq2see.data.writers import new_folder, refuse_existing
    from seq2see.settings import suggest_recipe
    from seq2see.settings.toml_writer import toml

    with opened(files, languages, columns, form) as corpus:
        _refuse_same(corpus.paths)
        refuse_existing(filter(None, [_home(output, corpus.languages)]))  # before the work
        with show_corpus_progress() as told:
            report = examine(corpus, languages=corpus.languages, progress=told)
        sides = _languages(report)
        home = output or Path("-".join(sides))
        refuse_existing([home])
        corpus_report.show(report, spoken(files), examples=1)
        recipe = suggest_recipe.suggest_recipe(report, sides, _parts(files, sides))
        header = _HEADER.format(name=toml(spoken(files)), path=toml(str(home / RECIPE)))
        with new_folder(home) as folder:
            (folder / RECIPE).write_text(header + recipe.to_toml(), "utf-8")
            if corpus.config.kind != "builtin":
                healthy = _cleaned(corpus, sides, folder) if clean else corpus
                counts = _split(healthy, sides, folder, held_out)
                _tell(counts, 0 if clean else report.pairs - report.passing, home)
    advice = "mend the faults above first; then" if report.faults else f"read {home / RECIPE}, then"
    typer.echo(f"Next: {advice} `seq2see train {home / RECIPE}`.", err=True)


def _refuse_same(paths: tuple[str, ...]) -> None:
    """Raise an error if a text would be learnt as its own translation."""
    if len(paths) == 2 and Path(paths[0]).resolve() == Path(paths[1]).resolve():
        raise InputError(f"source and target must be two files, but both are {paths[0]}")


def _home(output: Path | None, sides: tuple[str, str] | None) -> Path | None:
    """Return the folder to write to, as far as it is known."""
    return output or (Path("-".join(sides)) if sides else None)


def _tell(counts: dict[Part, int], bad: int, home: Path) -> None:
    parts = ", ".join(f"{part} {count:,}" for part, count in counts.items())
    typer.echo(f"\nPairs for {parts}.", err=True)
    if bad:
        typer.echo(
            f"Cleaning would remove {bad:,} of them, which are still there: to leave them out, "
            f"remove {home} and run this again with --clean.",
            err=True,
        )


def _languages(report: Report) -> tuple[str, str]:
    """Return the languages as stated, or as the doctor found them."""
    source, target = (side.stated or side.found for side in (report.source, report.target))
    if source is None or target is None:
        raise ConfigError(
            ["`--languages` must be given, since the files do not tell: --languages en,de"]
        )
    return source, target


def _cleaned(corpus: Corpus, sides: tuple[str, str], folder: Path) -> Corpus:
    from seq2see.data.corpus import Corpus, CorpusConfig
    from seq2see.data.quality import analysis
    from seq2see.data.writers import write_clean

    with show_corpus_progress() as told:
        verdicts = analysis.clean(corpus, languages=corpus.languages, progress=told)
        write_clean(verdicts, folder, endings(sides))
    files = [f"clean.{ending}" for ending in endings(sides)]
    return Corpus(CorpusConfig(files=files), sides, folder)


def _split(
    corpus: Corpus, sides: tuple[str, str], folder: Path, held_out: int | None
) -> dict[Part, int]:
    from seq2see.data.writers import Splitter, write_split
    from seq2see.settings import suggest_recipe

    if held_out is None:
        held_out = suggest_recipe.choose_evaluation_size(sum(1 for _ in corpus))
    return write_split(corpus, folder, endings(sides), Splitter(corpus, held_out, held_out))


def _parts(files: list[str], sides: tuple[str, str]) -> dict[str, list[str]]:
    """Return the files of each part: what is built in has parts of its own."""
    if files[0].startswith("builtin:"):
        name = files[0].partition("/")[0]
        return {part: [f"{name}/{part}"] for part in ("train", "valid", "test")}
    return {part: [f"{part}.{e}" for e in endings(sides)] for part in ("train", "valid", "test")}
