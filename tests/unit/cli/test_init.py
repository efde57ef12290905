"""`seq2see init`: several files, their order and languages, and an existing output directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2see.cli.data import clean
from seq2see.cli.init_splits_and_recipe import init
from seq2see.cli.options import CorpusOptions
from seq2see.errors import InputError

PAIRS = [(f"The dog number {i} runs.", f"Der Hund Nummer {i} läuft.") for i in range(60)]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.en").write_text("".join(f"{s}\n" for s, _ in PAIRS[:20]), "utf-8")
    (tmp_path / "a.de").write_text("".join(f"{t}\n" for _, t in PAIRS[:20]), "utf-8")
    rows = "".join(f"{t};{s}\n" for s, t in PAIRS[20:40])
    (tmp_path / "b.csv").write_text(f"German;English\n{rows}", "utf-8")
    rows = "".join(f"{s}\t{t}\n" for s, t in PAIRS[40:])
    (tmp_path / "c.txt").write_text(rows, "utf-8")
    return tmp_path


def run(*files: str, **settings) -> None:
    init(corpus_options=CorpusOptions(list(files)), **settings)


def read_splits(directory: Path) -> set[tuple[str, str]]:
    names = ("train", "valid", "test")
    sides = (
        [
            line
            for name in names
            for line in (directory / f"{name}.{side}").read_text("utf-8").splitlines()
        ]
        for side in ("en", "de")
    )
    return set(zip(*sides, strict=True))


def test_several_files_are_one_corpus(directory: Path, capsys: pytest.CaptureFixture) -> None:
    run("c.txt", "a.de", "a.en", "b.csv", output=Path("out"), evaluation_size=5)
    assert "b.csv: the columns are separated by semicolons" in capsys.readouterr().err


@pytest.mark.parametrize(
    "files", [["a.en", "a.de", "b.csv", "c.txt"], ["a.en", "a.de", "c.txt", "b.csv"]]
)
def test_files_in_the_other_order_are_exchanged(directory: Path, files: list[str]) -> None:
    run(*files, evaluation_size=5)
    assert read_splits(directory / "en-de") == set(PAIRS)


def test_text_files_are_exchanged_for_the_languages_of_a_table(directory: Path) -> None:
    run("b.csv", "a.en", "a.de", evaluation_size=5)
    assert read_splits(directory / "de-en") == set(PAIRS[:40])


def test_existing_directory_is_replaced_only_with_force(directory: Path) -> None:
    run("a.en", "a.de", evaluation_size=5)
    with pytest.raises(InputError, match="en-de already exists: replace it with --force"):
        run("a.en", "a.de", evaluation_size=5)
    run("a.en", "a.de", "b.csv", evaluation_size=5, force=True)
    assert len(read_splits(directory / "en-de")) == 40
    with pytest.raises(InputError, match="cannot be replaced, because the corpus is in it"):
        run("en-de/train.en", "en-de/train.de", output=Path("en-de"), force=True)
    (directory / "en-de" / "notes.txt").touch()
    with pytest.raises(InputError, match="because it has notes.txt, which is not a file of"):
        run("a.en", "a.de", force=True)


def test_text_without_translations_is_cleaned(directory: Path) -> None:
    lines = ["Der Hund läuft.", "", "Die Katze \ufffd.", "Der Hund läuft.", "Ein Satz."]
    (directory / "mono.de").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    options = {"languages": None, "columns": None, "format_name": None, "test_files": None}
    clean(output=Path("out"), files=["mono.de"], **options)
    assert (directory / "out" / "clean.de").read_text("utf-8") == "Der Hund läuft.\nEin Satz.\n"
    rows = (directory / "out" / "rejected.tsv").read_text("utf-8").splitlines()
    assert [row.split("\t")[:2] for row in rows] == [
        ["2", "empty"],
        ["3", "broken_encoding"],
        ["4", "duplicate"],
    ]
    assert rows[2].split("\t")[3:] == ["Der Hund läuft."]
