"""The choices that options offer by name: engines, model presets, metrics, document formats.

This module imports nothing slow, such as torch, and no optional dependency: a constructor or module
that a table names is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seq2see.errors import InputError

EngineName = Literal["auto", "torch", "ctranslate2"]
Precision = Literal["float32", "int8"]

PresetName = Literal["tiny", "small", "base", "big"]

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "tiny": {"d_model": 128, "d_ff": 256, "heads": 4, "encoder_layers": 4, "decoder_layers": 4},
    "small": {"d_model": 256, "d_ff": 1024, "heads": 4},
    "base": {},
    "big": {
        "d_model": 1024,
        "d_ff": 4096,
        "heads": 16,
        "dropout": {"embedding": 0.3, "residual": 0.3},
    },
}
"""Settings of `ModelConfig` by the name of the preset; `base` and `big` are those of the paper."""

Tokenization = Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none"]
"""Tokenizers of BLEU. sacrebleu has more, but those download their models."""


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """How a metric is computed and shown."""

    label: str
    """Name for display."""
    constructor: str
    """Function that returns the sacrebleu metric for `MetricOptions`, as module:function."""
    higher_is_better: bool = True
    is_compared: bool = True
    """Whether it is one of the default metrics of a comparison of two systems."""


_MODULE = "seq2see.metrics.sacrebleu_metrics"
METRICS: Mapping[str, MetricDefinition] = {
    "bleu": MetricDefinition("BLEU", f"{_MODULE}:build_bleu"),
    "chrf": MetricDefinition("chrF2", f"{_MODULE}:build_chrf"),
    "ter": MetricDefinition("TER", f"{_MODULE}:build_ter", higher_is_better=False),
    "exact": MetricDefinition("exact match", f"{_MODULE}:ExactMatch", is_compared=False),
}

if TYPE_CHECKING:
    MetricName = str
    ValidationMetric = str
else:
    MetricName = Literal[tuple(METRICS)]
    ValidationMetric = Literal["loss", *METRICS]


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A document format. No format needs optional dependencies."""

    name: str
    extensions: tuple[str, ...]
    module: str
    """Module of `seq2see.documents` that has the function `parse` for the format."""


PLAIN_TEXT = DocumentFormat("txt", (".txt", ".text"), "plain_text")
"""`seq2see translate` translates such files line by line, as it does with unknown extensions."""
DOCUMENT_FORMATS = (
    PLAIN_TEXT,
    DocumentFormat("html", (".html", ".htm"), "html"),
    DocumentFormat("srt", (".srt",), "subtitles"),
    DocumentFormat("vtt", (".vtt",), "subtitles"),
    DocumentFormat("po", (".po", ".pot"), "po"),
    DocumentFormat("docx", (".docx",), "docx"),
    DocumentFormat("tmx", (".tmx",), "tmx"),
    DocumentFormat("xliff", (".xlf", ".xliff"), "xliff"),
)
"""All formats that can be translated, in the order in which they are listed to users."""
DOCUMENT_EXTENSIONS = tuple(extension for one in DOCUMENT_FORMATS for extension in one.extensions)
UNSUPPORTED_EXTENSIONS = {
    *(".doc", ".docm", ".dot", ".dotx", ".rtf", ".odt", ".ott", ".fodt", ".pages"),
    *(".xls", ".xlsm", ".xlsx", ".ods", ".numbers", ".ppt", ".pptx", ".odp", ".odg"),
    *(".pdf", ".ps", ".xps", ".djvu", ".epub", ".mobi", ".azw3"),
}
"""Extensions of documents that cannot be translated. Some of them could be decoded as text."""


def find_format_by_extension(path: Path) -> DocumentFormat | None:
    """Return the format of a file extension, or None if there is none."""
    extension = path.suffix.lower()
    return next((one for one in DOCUMENT_FORMATS if extension in one.extensions), None)


def find_document_format(path: Path, name: str | None = None) -> DocumentFormat:
    """Return the format with this name, or by default the format of the file extension.

    Raises InputError if there is no such format.
    """
    by_name = {one.name: one for one in DOCUMENT_FORMATS}
    found = find_format_by_extension(path) if name is None else by_name.get(name)
    if found is None:
        actual = f"{path}" if name is None else f"`{name}`"
        raise InputError(
            f"the document format must be one of {', '.join(by_name)}, but is {actual} instead"
        )
    return found


def check_not_unsupported_document(path: Path) -> None:
    """Raise InputError if a file has the extension of an unsupported document format."""
    if path.suffix.lower() in UNSUPPORTED_EXTENSIONS:
        raise InputError(
            f"{path} must be one of {', '.join(DOCUMENT_EXTENSIONS)}, but is {path.suffix} "
            "instead: convert it first"
        )
