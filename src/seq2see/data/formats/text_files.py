"""Two text files: each line of one is the translation of the same line of the other."""

from __future__ import annotations

from pathlib import Path

from seq2see.data.formats.opened_corpus import CorpusRequest, OpenedCorpus
from seq2see.data.readers import read_text_files
from seq2see.data.text_encodings import detect_encoding


def open_text_files(request: CorpusRequest) -> OpenedCorpus:
    """Open a source and a target file."""
    source, target = request.paths
    encodings = [detect_encoding(path) for path in request.paths]
    notes = [
        f"{Path(path).name}: {encoding.note}"
        for path, encoding in zip(request.paths, encodings, strict=True)
        if encoding.note
    ]
    names = encodings[0].name, encodings[1].name
    return OpenedCorpus(lambda _: read_text_files(source, target, names), notes=tuple(notes))
