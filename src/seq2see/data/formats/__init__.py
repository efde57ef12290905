"""Corpus formats: one function per row of `CORPUS_FORMATS` that opens a corpus of that format."""

from __future__ import annotations

from seq2see.data.formats.opened_corpus import (
    CorpusRequest as CorpusRequest,
    OpenedCorpus as OpenedCorpus,
)
