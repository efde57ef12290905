"""Corpora, test sets and paths named on the command line: open and check them."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seq2see.cli.usage_errors import LANGUAGE_CODE
from seq2see.errors import ConfigError, InputError, Problem, reading
from seq2see.registries import (
    PLAIN_TEXT,
    UNSUPPORTED_OFFICE_EXTENSIONS,
    check_extension_supported,
    find_format_by_extension,
)

if TYPE_CHECKING:
    from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig
    from seq2see.evaluate import EvaluationSet

STANDARD_INPUT = "-"

_CODES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy
da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu
hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb
lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om
or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw
ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
ISO_639_1 = frozenset(_CODES.split())
"""File extensions that are language codes, unlike `txt`."""


# --- corpora ---


@contextmanager
def open_corpus(
    files: list[str], languages: str | None, columns: str | None, format_name: str | None
) -> Iterator[Corpus]:
    """Yield the corpus that the options describe.

    Standard input is copied to a temporary file, so that the corpus can be read several times.
    """
    from seq2see.data.corpus_config_and_reading import Corpus

    with tempfile.TemporaryDirectory() as directory:
        if files == [STANDARD_INPUT]:
            files = [str(Path(directory, "standard-input.tsv"))]
            with Path(files[0]).open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        config = build_corpus_config(files, columns, format_name)
        check_files_exist(files)
        yield Corpus(config, parse_languages(languages) or infer_languages(files))


def build_corpus_config(
    files: list[str], columns: str | None, format_name: str | None
) -> CorpusConfig:
    """Return the config of a corpus from the options; raise ConfigError if they are invalid."""
    from seq2see.data.corpus_config_and_reading import CorpusConfig

    pair: tuple[int | str, int | str] | None = _parse_pair(columns, "--columns")
    if pair and format_name != "jsonl" and all(str(column).isdecimal() for column in pair):
        pair = int(pair[0]), int(pair[1])
    return CorpusConfig.model_validate({"files": files, "columns": pair, "format": format_name})


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


def infer_languages(files: list[str]) -> tuple[str, str] | None:
    """Return the language codes in the file extensions, such as train.en and train.de.gz."""
    from seq2see.data.corpus_config_and_reading import BuiltinName

    builtin = BuiltinName.parse(files[0])
    if builtin and builtin.is_fables:
        return "en", "fr"
    source, *targets = map(infer_language, files)
    target = targets[0] if targets else None
    return (source, target) if source and target else None


def infer_language(name: str) -> str | None:
    """Return the language code in the extension of a file, None if it is not a language code."""
    from seq2see.data.readers import file_extension

    code = file_extension(name).removeprefix(".")
    return code if code in ISO_639_1 else None


def side_suffixes(languages: tuple[str, str] | None) -> tuple[str, str]:
    """Return the extensions of the source and target file: the language codes if they differ."""
    return languages if languages and languages[0] != languages[1] else ("source", "target")


def format_corpus_name(files: list[str]) -> str:
    """Return the name of a corpus for messages."""
    return "standard input" if files == [STANDARD_INPUT] else " and ".join(files)


# --- test sets ---


def build_test_set_config(
    test_files: list[str] | None,
    references: list[str] | None,
    arguments: list[str],
    has_model: bool,
    columns: str | None,
    format_name: str | None,
) -> tuple[CorpusConfig | None, list[str]]:
    """Return the config of the test set, None without one, and the additional reference files.

    Args:
        test_files: files of `--test-set`
        references: files of `--reference`
        arguments: further files of these options: Click parses `--test-set a.en a.de` as an option
            and an argument
        has_model: whether a model translates the test set, which must be given then
        columns: see `build_corpus_config`
        format_name: see `build_corpus_config`
    """
    all_test_files, all_references = list(test_files or ()), list(references or ())
    (all_test_files if test_files or has_model else all_references).extend(arguments)
    if has_model and not all_test_files:
        raise ConfigError(
            Problem("--test-set", "must be given: the sentences that the model translates")
        )
    config = build_corpus_config(all_test_files, columns, format_name) if all_test_files else None
    return config, all_references


def read_test_set(
    config: CorpusConfig | None,
    reference_files: list[str],
    languages: tuple[str, str] | None = None,
    language: str | None = None,
) -> EvaluationSet:
    """Read a test set with sources and references, further reference files, or both.

    Args:
        config: the test set; None if only references are given
        reference_files: files with one reference per line
        languages: languages of the model, if there is one
        language: language of the references as stated by the user
    """
    from seq2see.data.corpus_config_and_reading import Corpus
    from seq2see.data.readers import read_lines
    from seq2see.evaluate import EvaluationSet

    if not config and not reference_files:
        raise ConfigError(Problem("--test-set", "or `--reference` must be given"))
    references = [list(read_lines(name)) for name in reference_files]
    if not config:
        name = " and ".join(Path(name).name for name in reference_files)
        target_language = language or infer_language(reference_files[0])
        return EvaluationSet(name, tuple(references), None, (None, target_language))
    files = list(config.files)
    corpus = Corpus(config, languages or infer_languages(files))
    test_set = EvaluationSet.from_corpus(corpus, references)
    source, target = test_set.languages
    inferred = next(filter(None, map(infer_language, [files[-1], *reference_files])), None)
    target = language or target or inferred
    return replace(test_set, name=format_corpus_name(files), languages=(source, target))


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
    """Return a message if the extension of the output contradicts the format of the input."""
    from seq2see.data.readers import is_compressed

    if is_compressed(str(output)):
        return f"`--output` must be an uncompressed file, but is {output}: compress it afterwards"
    input_format = find_format_by_extension(Path(file)) or PLAIN_TEXT
    output_format = find_format_by_extension(output)
    is_unknown = (
        output_format is None and output.suffix.lower() not in UNSUPPORTED_OFFICE_EXTENSIONS
    )
    if is_unknown or output_format == input_format:
        return None
    name = "standard input" if file == STANDARD_INPUT else file
    expected = "plain text" if input_format == PLAIN_TEXT else input_format.name
    return f"`--output` must be {expected} like {name}, but is {output}"


def check_model_path_not_file(model: Path, file: str) -> None:
    """Raise InputError if a file is given in the place of the model."""
    if model.is_file():
        hint = f", for example seq2see translate {file} {model}" if Path(file).is_dir() else ""
        raise InputError(f"{model} is a file: give a model directory first, then the text{hint}")


def check_file_to_translate(file: str, model: Path) -> None:
    """Raise InputError if a file does not exist, or is neither text nor a supported document."""
    from seq2see.data.readers import READ_BYTES, is_compressed, open_decompressed_binary
    from seq2see.documents.plain_text import check_is_text

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


# --- paths of results ---


def check_extension(path: Path, extensions: Sequence[str], option: str) -> None:
    """Raise ConfigError if a path has none of these extensions."""
    if path.suffix.lower() not in extensions:
        allowed = ", ".join(extensions)
        raise ConfigError(Problem(option, f"must end with one of {allowed}, but is {path} instead"))


def check_plot_path(path: Path | None) -> None:
    """Raise ConfigError if the extension is not that of a figure."""
    from seq2see import draw

    if path:
        check_extension(path, draw.FIGURE_FORMATS, "--plot")


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
