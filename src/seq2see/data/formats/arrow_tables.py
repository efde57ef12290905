"""Parquet files, and directories of Hugging Face `datasets`, read with pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from seq2see.data.formats.json_records import NumberedRecord, open_records
from seq2see.data.formats.opened_corpus import CorpusRequest, OpenedCorpus
from seq2see.data.formats.optional_packages import import_package
from seq2see.errors import InputError

_BATCH_ROWS = 8192
_TRAINING_SPLIT = "train"


def open_parquet(request: CorpusRequest) -> OpenedCorpus:
    """Open a Parquet file; `a.b` is the field b inside the column a."""
    return open_records(partial(_read_files, [Path(request.path)], request.path), request)


def open_dataset(request: CorpusRequest) -> OpenedCorpus:
    """Open a directory: a data set as `save_to_disk` writes it, or one with Parquet files.

    Of several splits, the training split is read.
    """
    directory = Path(request.path)
    files, note = _find_files(directory)
    opened = open_records(partial(_read_files, files, request.path), request)
    notes = (f"{request.name}: {note}",) if note else ()
    return OpenedCorpus(opened.read, opened.languages, (*notes, *opened.notes))


def _find_files(directory: Path) -> tuple[list[Path], str]:
    """Return the files of a data set in order, and a note on the split."""
    if (directory / "dataset_dict.json").is_file():
        splits = _read_json(directory / "dataset_dict.json").get("splits", [])
        if _TRAINING_SPLIT not in splits:
            raise InputError(f"{directory} must have the split train: name one of {splits}")
        unread = ", ".join(str(directory / one) for one in splits if one != _TRAINING_SPLIT)
        note = f"the split train is read, not {unread}" if unread else ""
        return _find_files(directory / _TRAINING_SPLIT)[0], note
    if (directory / "state.json").is_file():
        files = _read_json(directory / "state.json").get("_data_files", [])
        return [directory / each["filename"] for each in files], ""
    files = sorted(directory.rglob("*.parquet"))
    if not files:
        raise InputError(
            f"{directory} must be a directory of Hugging Face datasets, or with Parquet files, but "
            "has neither"
        )
    training = [path for path in files if path.stem.startswith(_TRAINING_SPLIT)]
    others = [path.name for path in files if path not in training]
    if training and others:
        return training, f"the split train is read, not {', '.join(others)}"
    return files, ""


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}") from None


def _read_files(paths: list[Path], name: str) -> Iterator[NumberedRecord]:
    """Yield the rows of all files as nested dictionaries."""
    number = 0
    for path in paths:
        for batch in _read_batches(path, name):
            for record in batch.to_pylist():
                number += 1
                yield f"row {number}", record


def _read_batches(path: Path, name: str) -> Iterator[Any]:
    """Yield the record batches of a Parquet or Arrow file."""
    pyarrow = import_package("pyarrow", name)
    if path.suffix == ".parquet":
        parquet = import_package("pyarrow.parquet", name)
        with _reporting_damage(pyarrow, path), parquet.ParquetFile(path) as file:
            yield from file.iter_batches(_BATCH_ROWS)
        return
    ipc = import_package("pyarrow.ipc", name)
    with _reporting_damage(pyarrow, path), pyarrow.memory_map(str(path)) as file:
        yield from ipc.open_stream(file)


@contextmanager
def _reporting_damage(pyarrow: Any, path: Path) -> Iterator[None]:
    try:
        yield
    except (pyarrow.ArrowException, ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        message = " ".join(str(error).split())
        raise InputError(f"{path} cannot be read: {message}") from None
