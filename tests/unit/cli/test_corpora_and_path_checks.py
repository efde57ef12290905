"""Test sets named on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2see.cli.corpora_and_path_checks import read_test_set
from seq2see.data.corpus_config_and_reading import CorpusConfig


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
    config = CorpusConfig(files=tuple(str(tmp_path / name) for name in files))
    test_set = read_test_set(config, [str(tmp_path / name) for name in references])
    assert test_set.languages[1] == language
