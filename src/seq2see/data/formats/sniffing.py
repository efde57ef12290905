"""Recognize the format of a file by its content, if its extension does not name one."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from seq2see.data.readers import file_extension, open_decompressed_binary
from seq2see.errors import InputError
from seq2see.registries import CORPUS_EXTENSIONS
from seq2see.text.languages import ISO_639_1

_SAMPLE_BYTES = 1 << 14
_MIN_TABLE_ROWS = 2
_ENTRY_OF_PO = re.compile(r'^msgid\s+"', re.MULTILINE)
_TIMES_OF_CUE = re.compile(r"^\d+:\d+:\d+[.,]\d+\s*-->", re.MULTILINE)


def find_corpus_format(path: str) -> str | None:
    """Return the name of the format of a file or directory, or None if it is plain text.

    Raises InputError if the file cannot be read.
    """
    extension = file_extension(path)
    if extension in CORPUS_EXTENSIONS:
        return CORPUS_EXTENSIONS[extension]
    if Path(path).is_dir():
        return "dataset"
    if not Path(path).is_file() or extension[1:] in ISO_639_1:
        return None
    with open_decompressed_binary(path) as file:
        sample = file.read(_SAMPLE_BYTES)
    if sample.startswith(b"PAR1"):
        return "parquet"
    if sample.startswith(b"PK\x03\x04"):
        return _find_office_format(path)
    encoding = "utf-16" if sample.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return _find_text_format(sample.decode(encoding, "replace"))


def _find_office_format(path: str) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            if any(name.startswith("xl/") for name in archive.namelist()):
                return "xlsx"
    except (OSError, zipfile.BadZipFile):
        pass
    raise InputError(f"{path} must be text or a table, but is an archive: extract it first")


def _find_text_format(text: str) -> str | None:
    start = text.lstrip()
    if start.startswith("<"):
        return "tmx" if "<tmx" in start else "xliff" if "<xliff" in start else None
    if start.startswith("WEBVTT") or _TIMES_OF_CUE.search(start):
        return "subtitles"
    if _ENTRY_OF_PO.search(text):
        return "po"
    if re.match(r'[\[{]\s*["{\[]', start):
        return "json" if start.startswith("[") else "jsonl"
    lines = [line for line in text.split("\n")[:-1] if line.strip()]
    is_table = len(lines) >= _MIN_TABLE_ROWS and all("\t" in line.strip("\r") for line in lines)
    return "tsv" if is_table else None
