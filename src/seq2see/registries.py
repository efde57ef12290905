"""The choices that options offer by name: engines, model presets, metrics, file formats.

This module imports nothing slow, such as torch, and no optional dependency: a module that a
table names is imported when it is needed.
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
    """How a metric is shown; `seq2see.metrics` computes it."""

    label: str
    """Name for display."""
    higher_is_better: bool = True
    is_compared: bool = True
    """Whether it is one of the default metrics of a comparison of two systems."""


METRICS: Mapping[str, MetricDefinition] = {
    "bleu": MetricDefinition("BLEU"),
    "chrf": MetricDefinition("chrF2"),
    "ter": MetricDefinition("TER", higher_is_better=False),
    "exact": MetricDefinition("exact match", is_compared=False),
}

if TYPE_CHECKING:
    MetricName = str
    ValidationMetric = str
else:
    MetricName = Literal[tuple(METRICS)]
    ValidationMetric = Literal["loss", *METRICS]


@dataclass(frozen=True, slots=True)
class CorpusFormat:
    """A format of parallel text."""

    name: str
    extensions: tuple[str, ...]
    function: str
    """Module and function of `seq2see.data.formats` that open a corpus."""
    description: str
    columns: Literal["", "columns", "keys", "languages"] = ""
    """What `--columns` selects; empty if there is nothing to select."""
    num_files: int = 1
    extra: str = ""
    """Optional dependency that is required."""
    is_directory: bool = False


CORPUS_FORMATS: Mapping[str, CorpusFormat] = {
    one.name: one
    for one in (
        CorpusFormat(
            "text", (), "text_files.open_text_files", "one sentence per line", num_files=2
        ),
        CorpusFormat("tsv", (".tsv", ".tab"), "tables.open_tsv", "columns between tabs", "columns"),
        CorpusFormat("csv", (".csv",), "tables.open_csv", "comma or semicolon", "columns"),
        CorpusFormat(
            "xlsx", (".xlsx", ".xlsm"), "tables.open_xlsx", "Excel table", "columns", extra="tables"
        ),
        CorpusFormat("json", (".json",), "json_records.open_json", "list of objects", "keys"),
        CorpusFormat(
            "jsonl",
            (".jsonl", ".ndjson"),
            "json_records.open_jsonl",
            "one JSON object per line",
            "keys",
        ),
        CorpusFormat(
            "parquet", (".parquet",), "arrow_tables.open_parquet", "columns", "keys", extra="tables"
        ),
        CorpusFormat(
            "dataset",
            (),
            "arrow_tables.open_dataset",
            "directory of Hugging Face datasets, or with Parquet files",
            "keys",
            extra="tables",
            is_directory=True,
        ),
        CorpusFormat(
            "tmx", (".tmx",), "translation_memories.open_tmx", "translation memory", "languages"
        ),
        CorpusFormat(
            "xliff", (".xlf", ".xliff"), "translation_memories.open_xliff", "translated segments"
        ),
        CorpusFormat("po", (".po",), "localization_files.open_po", "translated messages"),
        CorpusFormat(
            "subtitles",
            (".srt", ".vtt"),
            "subtitle_files.open_subtitles",
            "cues with overlapping times",
            num_files=2,
        ),
    )
}
"""All formats that a corpus can have, in the order in which they are listed to users."""
CORPUS_EXTENSIONS: Mapping[str, str] = {
    extension: one.name for one in CORPUS_FORMATS.values() for extension in one.extensions
}
"""Name of the format by file extension."""
SINGLE_FILE_EXTENSIONS_TEXT = ", ".join(
    extension
    for extension, name in CORPUS_EXTENSIONS.items()
    if CORPUS_FORMATS[name].num_files == 1
)

if TYPE_CHECKING:
    CorpusFormatName = str
else:
    CorpusFormatName = Literal[(*CORPUS_FORMATS, "builtin")]


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
UNSUPPORTED_OFFICE_EXTENSIONS = (
    *(".doc", ".docm", ".dot", ".dotx", ".rtf", ".odt", ".ott", ".fodt", ".pages"),
    *(".xls", ".xlsm", ".xlsx", ".ods", ".numbers", ".ppt", ".pptx", ".odp", ".odg"),
    *(".pdf", ".xps", ".djvu", ".epub", ".mobi", ".azw3", ".eml", ".msg"),
    *(".zip", ".tar", ".tgz", ".bz2", ".7z", ".rar"),
)
UNSUPPORTED_MARKUP_EXTENSIONS = (
    *(".md", ".markdown", ".mdx", ".rst", ".adoc", ".asciidoc", ".org", ".wiki", ".textile"),
    *(".tex", ".latex", ".bib", ".typ", ".xml", ".xhtml", ".svg", ".dita", ".ipynb"),
    *(".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".json5", ".yaml", ".yml", ".toml", ".sql"),
    *(".properties", ".strings", ".arb", ".resx", ".ass", ".ssa", ".sbv", ".ttml", ".dfxp"),
)
"""Formats that can be decoded as text, but whose markup would not survive a translation."""
UNSUPPORTED_EXTENSIONS = (*UNSUPPORTED_OFFICE_EXTENSIONS, *UNSUPPORTED_MARKUP_EXTENSIONS)
"""Extensions of known formats that cannot be translated. All others are plain text, such as those
of languages (`.en`, `.ps`)."""
FIGURE_FORMATS = (".png", ".svg", ".pdf")
COMPRESSED_EXTENSIONS = (".gz", ".xz", ".zst")
SUPPORTED_FORMATS_MESSAGE = (
    f"supported are plain text and {', '.join(DOCUMENT_EXTENSIONS[len(PLAIN_TEXT.extensions) :])}"
)


def find_format_by_extension(path: Path) -> DocumentFormat | None:
    """Return the format of a file extension, or None if there is none."""
    extension = path.suffix.lower()
    return next((one for one in DOCUMENT_FORMATS if extension in one.extensions), None)


def find_document_format(path: Path, name: str | None = None) -> DocumentFormat:
    """Return the format with this name, or by default the format of the file extension.

    A file with an unknown extension, or without one, is plain text.

    Raises InputError if there is no format with this name, or if the extension is that of a format
    that is not supported or of a compressed file.
    """
    by_name = {one.name: one for one in DOCUMENT_FORMATS}
    if name in by_name:
        return by_name[name]
    if name is not None:
        raise InputError(
            f"the document format must be one of {', '.join(by_name)}, but is `{name}` instead"
        )
    check_extension_supported(path)
    if path.suffix.lower() in COMPRESSED_EXTENSIONS:
        raise InputError(f"{path} must be decompressed first: compressed documents are not read")
    return find_format_by_extension(path) or PLAIN_TEXT


def check_extension_supported(path: Path) -> None:
    """Raise InputError if a file has the extension of a known format that is not supported.

    The extension of a compressed file is ignored: `.md.gz` is not supported.
    """
    name = path.stem if path.suffix.lower() in COMPRESSED_EXTENSIONS else path.name
    extension = Path(name).suffix.lower()
    if extension in UNSUPPORTED_EXTENSIONS:
        raise InputError(
            f"{path} cannot be translated: {SUPPORTED_FORMATS_MESSAGE}, but not {extension}: "
            "convert it first"
        )
