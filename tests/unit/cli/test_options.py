"""Options that commands share: groups of options, and test sets."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from seq2see.cli.options import EvaluationSetOptions, expand_option_groups


@pytest.mark.parametrize(
    ("files", "references", "language"),
    [
        (("news.en", "news.zh"), [], "zh"),
        (("news.txt", "news.zh"), [], "zh"),
        (("news.tsv",), ["other.zh"], "zh"),
        (("news.txt", "news.ref"), ["other.ref", "other.zh"], "zh"),
        (("news.tsv",), [], None),
    ],
)
def test_language_of_references_is_inferred_from_extensions(
    tmp_path: Path, files: tuple[str, ...], references: list[str], language: str | None
) -> None:
    for name in (*files, *references):
        (tmp_path / name).write_text("a\tb\n" if name.endswith(".tsv") else "a\n", "utf-8")
    options = EvaluationSetOptions(
        [str(tmp_path / name) for name in files], [str(tmp_path / name) for name in references]
    )
    assert options.read().languages[1] == language


@dataclass(frozen=True)
class Sizes:
    """A group of options."""

    width: Annotated[int, typer.Option("--wide")] = 1
    height: int = 2


def test_group_becomes_the_options_of_its_fields() -> None:
    calls = []

    def command(name: str, *, sizes: Sizes, flag: bool = False) -> None:
        calls.append((name, sizes, flag))

    run = expand_option_groups(command)
    assert list(inspect.signature(run).parameters) == ["name", "width", "height", "flag"]
    run(name="a", width=3, height=4, flag=True)
    app = typer.Typer()
    app.command()(run)
    assert CliRunner().invoke(app, ["b", "--wide", "5"]).exit_code == 0
    assert calls == [("a", Sizes(3, 4), True), ("b", Sizes(5, 2), False)]
