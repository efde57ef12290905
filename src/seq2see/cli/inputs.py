"""Corpora, test sets and paths named on the command line: open and check them."""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from seq2see.errors import ConfigError, InputError, Problem, reading
from seq2see.registries import (
    CORPUS_EXTENSIONS,
    CORPUS_FORMATS,
    PLAIN_TEXT,
    UNSUPPORTED_OFFICE_EXTENSIONS,
    check_extension_supported,
    find_format_by_extension,
)

if TYPE_CHECKING:
    from collections import Counter

    from seq2see.data.corpus_config_and_reading import CombinedCorpus, Corpus, CorpusConfig
    from seq2see.evaluate import EvaluationSet

STANDARD_INPUT = "-"
RECIPE_FILE = "recipe.toml"
"""Name of the recipe in a directory."""
LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
"""Language code such as en or pt-BR."""
_LANGUAGE_PAIR = re.compile(r"(?<![A-Za-z])([a-z]{2})[-_]([a-z]{2})(?![A-Za-z])")


# --- corpora ---


def build_corpus_configs(
    files: Sequence[str],
    columns: str | None = None,
    format_name: str | None = None,
    files_name: str = "FILES",
) -> list[CorpusConfig]:
    """Return the configs of one or several corpora; raise ConfigError if they are invalid.

    Two consecutive text files or subtitle files are one corpus; each other file is one.
    `files_name` is the name of the files in messages.
    """
    from seq2see.data.corpus_config_and_reading import CorpusConfig

    pair: tuple[int | str, int | str] | None = _parse_pair(columns, "--columns")
    if pair and format_name != "jsonl" and all(str(column).isdecimal() for column in pair):
        pair = int(pair[0]), int(pair[1])
    try:
        return [
            CorpusConfig.model_validate({"files": group, "columns": pair, "format": name})
            for group, name in _group_files(files, format_name)
        ]
    except ConfigError as error:
        raise ConfigError(
            *(f"{files_name} {p.message}" if p.field == "files" else p for p in error.problems)
        ) from None


def build_corpus_config(
    files: Sequence[str], columns: str | None, format_name: str | None, files_name: str = "FILES"
) -> CorpusConfig:
    """Return the config of one corpus; raise ConfigError if the files are several corpora."""
    configs = build_corpus_configs(files, columns, format_name, files_name)
    if len(configs) > 1:
        raise ConfigError(f"{files_name} must be one corpus, but has {', '.join(files)} instead")
    return configs[0]


def _group_files(
    files: Sequence[str], format_name: str | None
) -> Iterator[tuple[list[str], str | None]]:
    """Yield the files of each corpus, with the format if the extension does not name it."""
    from seq2see.data.corpus_config_and_reading import BuiltinName
    from seq2see.data.formats.sniffing import find_corpus_format
    from seq2see.data.readers import file_extension

    remaining = list(files)
    while remaining:
        name = remaining.pop(0)
        is_file = name != STANDARD_INPUT and not BuiltinName.parse(name)
        found = format_name or (find_corpus_format(name) if is_file else "tsv") or "text"
        is_named = CORPUS_EXTENSIONS.get(file_extension(name), "text") == found
        group = [name]
        num_files = CORPUS_FORMATS[found].num_files if found in CORPUS_FORMATS else 1
        if num_files == 2 and remaining:
            group.append(remaining.pop(0))
        yield group, format_name or (None if is_named or not is_file else found)


def check_files_exist(files: list[str]) -> None:
    """Raise InputError if one of the files of a corpus does not exist."""
    from seq2see.data.corpus_config_and_reading import BuiltinName

    for name in files:
        if name != STANDARD_INPUT and not BuiltinName.parse(name):
            with reading(name):
                Path(name).stat()


def parse_languages(text: str | None) -> tuple[str, str] | None:
    """Return the two language codes of `--languages`, None if the option is not given."""
    pair = _parse_pair(text, "--languages")
    if pair and not all(map(LANGUAGE_CODE.fullmatch, pair)):
        raise ConfigError(
            Problem("--languages", f"must be two codes such as en,pt-BR, but is {text!r}")
        )
    return pair


def _parse_pair(text: str | None, option: str) -> tuple[str, str] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise ConfigError(
            Problem(option, f"must be two values separated by a comma, but is {text!r}")
        )
    return parts[0], parts[1]


def infer_languages(files: Sequence[str]) -> tuple[str, str] | None:
    """Return the language codes in file names: train.en and train.de.gz, or terms-en-de.csv."""
    from seq2see.data.corpus_config_and_reading import BuiltinName

    builtin = BuiltinName.parse(files[0])
    if builtin and builtin.is_fables:
        return "en", "fr"
    if len(files) == 1:
        return _infer_languages_of_name(Path(files[0]).name)
    source, target = map(infer_language, files)
    return (source, target) if source and target else None


def _infer_languages_of_name(name: str) -> tuple[str, str] | None:
    """Return two language codes that a name contains, such as terms-en-de.csv."""
    from seq2see.text.languages import ISO_639_1

    matches = {match.groups() for match in _LANGUAGE_PAIR.finditer(name)}
    pairs = [(s, t) for s, t in matches if {s, t} <= ISO_639_1 and s != t]
    return pairs[0] if len(pairs) == 1 else None


def infer_language(name: str) -> str | None:
    """Return the language code in the extension of a file, None if it is not a language code."""
    from seq2see.data.readers import file_extension
    from seq2see.text.languages import ISO_639_1

    if CORPUS_EXTENSIONS.get(file_extension(name)) == "subtitles":
        name = Path(name).stem  # film.en.srt
    code = file_extension(name).removeprefix(".")
    return code if code in ISO_639_1 else None


def side_suffixes(languages: tuple[str, str] | None) -> tuple[str, str]:
    """Return the extensions of the source and target file: the language codes if they differ."""
    return languages if languages and languages[0] != languages[1] else ("source", "target")


def format_corpus_name(files: list[str]) -> str:
    """Return the name of a corpus for messages."""
    return "standard input" if files == [STANDARD_INPUT] else " and ".join(files)


def write_clean_corpus(
    corpus: CombinedCorpus, directory: Path, suffixes: Sequence[str], test_set: Corpus | None = None
) -> Counter[str]:
    """Write the accepted and the rejected pairs of a corpus; return the number per rule.

    With one suffix, the corpus is text without translations.
    """
    from seq2see.cli.corpus_and_translation_progress import show_corpus_progress
    from seq2see.data.corpus_splitting_and_writing import write_accepted_and_rejected_pairs
    from seq2see.data.quality.analysis_and_filtering import accept_or_reject_pairs
    from seq2see.data.quality.rules import ONE_SIDED_RULES, QualityConfig

    config = QualityConfig(clean_rules=ONE_SIDED_RULES) if len(suffixes) == 1 else QualityConfig()

    def print_message(message: str) -> None:
        typer.echo(f"seq2see: {message}", err=True)

    with show_corpus_progress() as on_stage:
        results = accept_or_reject_pairs(
            corpus, config, corpus.languages, test_set, on_stage, print_message
        )
        return write_accepted_and_rejected_pairs(results, directory, suffixes)


def is_model(system: str) -> bool:
    """Return whether a system is a model directory, not a file with translations."""
    if not Path(system).exists():
        raise InputError(
            f"{system} does not exist: give a model directory or a file with translations"
        )
    return Path(system).is_dir()


def read_translations(name: str, test_set: EvaluationSet) -> list[str]:
    """Read a file with one translation per sentence of a test set."""
    from seq2see.data.readers import read_lines

    texts = list(read_lines(name))
    if len(texts) != len(test_set):
        raise InputError(
            f"{name} must have one line for each of the {len(test_set):,} sentences of "
            f"{test_set.name}, but has {len(texts):,} lines"
        )
    return texts


# --- input and output of `seq2see translate` ---


def is_document(file: str) -> bool:
    """Return whether the extension of a file is that of a document format other than plain text."""
    return find_format_by_extension(Path(file)) not in {None, PLAIN_TEXT}


def output_format_problem(file: str, output: Path) -> str | None:
    """Return what the output must be if its extension contradicts the format of the input."""
    from seq2see.data.readers import is_compressed

    if is_compressed(str(output)):
        return f"must be an uncompressed file, but is {output}: compress it afterwards"
    input_format = find_format_by_extension(Path(file)) or PLAIN_TEXT
    output_format = find_format_by_extension(output)
    is_unknown = (
        output_format is None and output.suffix.lower() not in UNSUPPORTED_OFFICE_EXTENSIONS
    )
    if is_unknown or output_format == input_format:
        return None
    name = "standard input" if file == STANDARD_INPUT else file
    expected = "plain text" if input_format == PLAIN_TEXT else input_format.name
    return f"must be {expected} like {name}, but is {output}"


def check_model_path_not_file(model: Path, file: str) -> None:
    """Raise InputError if a file is given in the place of the model."""
    if model.is_file():
        hint = f", for example seq2see translate {file} {model}" if Path(file).is_dir() else ""
        raise InputError(f"{model} is a file: give a model directory first, then the text{hint}")


def check_file_to_translate(file: str, model: Path) -> None:
    """Raise InputError if a file does not exist, or is neither text nor a supported document."""
    from seq2see.data.readers import READ_BYTES, is_compressed, open_decompressed_binary
    from seq2see.documents.plain_text import check_is_text, check_no_zero_bytes

    if file == STANDARD_INPUT:
        return
    path = Path(file)
    if " " in file and not os.path.exists(file):  # noqa: PTH110 not an error for a long sentence
        command = f"echo {shlex.quote(file)} | seq2see translate {model}"
        raise InputError(f"{file!r} is not a file: to translate it as text, run {command}")
    with reading(file):
        path.stat()
    if path.is_dir():
        raise InputError(f"{file} cannot be read: {os.strerror(errno.EISDIR)}")
    if is_compressed(file) and is_document(path.stem):
        raise InputError(f"{file} must be decompressed first: compressed documents are not read")
    check_extension_supported(path)
    if path.is_file() and not is_document(file):  # a pipe can be read only once
        with open_decompressed_binary(file) as opened:
            check_is_text(opened.read(READ_BYTES), file)
            for block in iter(lambda: opened.read(READ_BYTES), b""):
                check_no_zero_bytes(block, file)


# --- paths of results ---


def check_extension(path: Path | None, extensions: Sequence[str], option: str) -> None:
    """Raise ConfigError if a path has none of these extensions; None is ignored."""
    if path and path.suffix.lower() not in extensions:
        allowed = ", ".join(extensions)
        raise ConfigError(Problem(option, f"must end with one of {allowed}, but is {path} instead"))


def check_directories_exist(*directories: Path | None) -> None:
    """Raise InputError if one of the paths is not a directory; None is ignored."""
    for directory in directories:
        if directory is not None and not directory.is_dir():
            problem = "is a file" if directory.exists() else "does not exist"
            raise InputError(f"{directory} must be a directory, but {problem}")


def check_output_path(path: Path | None) -> None:
    """Raise InputError if a file cannot be created at a path; None is ignored."""
    if path and path.is_dir():
        raise InputError(f"{path} cannot be written: it is a directory")
    if path and not (directory := path.absolute().parent).is_dir():
        raise InputError(f"{path} cannot be written: there is no directory {directory}")


def check_run_path_not_file(directory: Path) -> None:
    """Raise InputError if the path of a run directory is a file."""
    if directory.exists() and not directory.is_dir():
        raise InputError(
            f"{directory} must be a directory, but is a file: name another with --output"
        )
