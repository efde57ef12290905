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

from seq2see import draw
from seq2see.cli.usage import CODE
from seq2see.data.corpus import PACKED
from seq2see.data.readers import BLOCK, STANDARD_INPUT, open_bytes, read_lines
from seq2see.documents import formats
from seq2see.documents.plain_text import refuse_no_text
from seq2see.documents.translate import UNREADABLE, refuse_unreadable
from seq2see.errors import ConfigError, InputError
from seq2see.evaluate import (
    HeldOut,
)

if TYPE_CHECKING:
    from seq2see.data.corpus import Corpus, CorpusConfig
    from seq2see.evaluate import HeldOut

_CODES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy
da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu
hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb
lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om
or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw
ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""


_ISO_639_1 = frozenset(_CODES.split())
"""Endings of files that name a language: `txt` does not."""


@contextmanager
def opened(
    files: list[str], languages: str | None, columns: str | None, form: str | None
) -> Iterator[Corpus]:
    """Give the corpus that the options name. Standard input is kept aside, to be read again."""
    from seq2see.data.corpus import Corpus, CorpusConfig

    with tempfile.TemporaryDirectory() as folder:
        if files == ["-"]:
            files = [str(_kept_aside(Path(folder)))]
        table = {"files": files, "columns": columns_of(columns, form or ""), "format": form}
        config = CorpusConfig.model_validate(table)
        refuse_missing(files)
        yield Corpus(config, stated(languages) or languages_of(files))


def refuse_missing(files: list[str]) -> None:
    """Complain of a file that is not there before anything else."""
    for name in files:
        if name != "-" and not name.startswith("builtin:") and not Path(name).exists():
            raise InputError(f"{name} cannot be read: {os.strerror(errno.ENOENT)}")


def _kept_aside(folder: Path) -> Path:
    path = folder / "standard-input.tsv"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def stated(text: str | None) -> tuple[str, str] | None:
    """Return the languages that an option names."""
    pair = _pair(text, "--languages")
    if pair and not all(map(CODE.fullmatch, pair)):
        raise ConfigError([f"`--languages` must be two codes such as en,pt-BR, but is {text!r}"])
    return pair


def columns_of(text: str | None, form: str) -> tuple[int | str, int | str] | None:
    """Return the columns that an option names."""
    pair = _pair(text, "--columns")
    if pair and form != "jsonl" and all(column.isdecimal() for column in pair):
        return int(pair[0]), int(pair[1])
    return pair


def _pair(text: str | None, option: str) -> tuple[str, str] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise ConfigError([f"`{option}` must be two with a comma between, but is {text!r}"])
    return parts[0], parts[1]


def languages_of(files: list[str]) -> tuple[str, str] | None:
    """Read the languages off the names, such as train.en and train.de.gz."""
    if files[0].startswith("builtin:fables"):
        return "en", "fr"
    codes = [_ending(name) for name in files]
    if len(codes) == 2 and _ISO_639_1.issuperset(codes):
        return codes[0], codes[1]
    return None


def language_of(name: str) -> str | None:
    """Return the language that a file's name ends with, if it is one."""
    code = _ending(name)
    return code if code in _ISO_639_1 else None


def _ending(name: str) -> str:
    from seq2see.data.corpus import PACKED

    path = Path(name)
    return (Path(path.stem) if path.suffix in PACKED else path).suffix.removeprefix(".")


def endings(languages: tuple[str, str] | None) -> tuple[str, str]:
    """Return what files of these languages end with: their codes, if they tell the sides apart."""
    return languages if languages and languages[0] != languages[1] else ("source", "target")


def spoken(files: list[str]) -> str:
    """Return a corpus' name for messages."""
    return "standard input" if files == ["-"] else " and ".join(files)


def corpus_config(
    test: list[str], columns: str | None = None, form: str | None = None
) -> CorpusConfig | None:
    """Return what sources and references are to be read from, if from anything."""
    from seq2see.data.corpus import CorpusConfig

    if not test:
        return None
    table = {"files": test, "columns": columns_of(columns, form or ""), "format": form}
    try:
        return CorpusConfig.model_validate(table)
    except ConfigError as error:
        problems = [problem.replace("`files`", "`--test`", 1) for problem in error.problems]
        raise ConfigError(problems) from None


def read_held_out(
    test: CorpusConfig | None,
    references: list[str],
    languages: tuple[str, str] | None = None,
    language: str | None = None,
) -> HeldOut:
    """Read what is given: sources with references, references alone, or both.

    `languages` are those of a model; `language`, that of the references, is stated by the user.
    """
    from seq2see.data.corpus import Corpus
    from seq2see.data.readers import read_lines
    from seq2see.evaluate import HeldOut

    if not test and not references:
        raise ConfigError(["`--test` or `--references` must be given"])
    further = [list(read_lines(name)) for name in references]
    if not test:
        name = " and ".join(Path(name).name for name in references)
        return HeldOut(name, tuple(further), None, (None, language or language_of(references[0])))
    files = list(test.files)
    held_out = HeldOut.of(Corpus(test, languages or languages_of(files)), further)
    source, target = held_out.languages
    return replace(held_out, name=spoken(files), languages=(source, language or target))


def read_translations(name: str, held_out: HeldOut) -> list[str]:
    """Read a file with a line for each sentence of a test set."""
    texts = list(read_lines(name))
    if len(texts) != len(held_out):
        raise InputError(
            f"{name} must have a line for each of the {len(held_out):,} of {held_out.name}, "
            f"but has {len(texts):,} instead"
        )
    return texts


PLAIN = "txt"
"""The one that is translated line by line instead."""


def is_document(file: str) -> bool:
    """Tell by its ending whether a file has words between other things."""
    return _format(Path(file)) not in {None, PLAIN}


def is_packed(file: str) -> bool:
    """Tell by its ending whether a file is packed."""
    return Path(file).suffix.lower() in PACKED


def misnamed(file: str, output: Path) -> str | None:
    """Say what is wrong if the translation of a file would not be what its name says."""
    if is_packed(str(output)):
        return f"`--output` must be a plain file, but is {output} instead: pack it afterwards"
    own, named = _format(Path(file)) or PLAIN, _format(output)
    if named == own or (named is None and output.suffix.lower() not in UNREADABLE):
        return None
    name = "standard input" if file == STANDARD_INPUT else file
    kind = "plain text" if own == PLAIN else own
    return f"`--output` must be {kind} as {name} is, but is {output} instead"


def _format(path: Path) -> str | None:
    ending = path.suffix.lower()
    return next((each.name for each in formats() if ending in each.endings), None)


def refuse_swapped(model: Path, file: str) -> None:
    """Raise an error if there is a file in the place of the model."""
    if model.is_file():
        again = f", such as seq2see translate {file} {model}" if Path(file).is_dir() else ""
        raise InputError(f"{model} is a file: give the directory of a model, then the text{again}")


def refuse_input(file: str, model: Path) -> None:
    """Raise an error if there is nothing to read, or what is there is neither text nor document."""
    if file == STANDARD_INPUT:
        return
    path = Path(file)
    if not _exists(path):
        if " " in file:
            again = f"echo {shlex.quote(file)} | seq2see translate {model}"
            raise InputError(f"{file!r} is not a file: to translate it as text, {again}")
        raise InputError(f"{file} cannot be read: {os.strerror(errno.ENOENT)}")
    if path.is_dir():
        raise InputError(f"{file} cannot be read: {os.strerror(errno.EISDIR)}")
    if is_packed(file) and is_document(path.stem):
        raise InputError(f"{file} must be unpacked first: a document is not read packed")
    refuse_unreadable(path)
    if path.is_file() and not is_document(file):  # a pipe can be read only once
        with open_bytes(file) as opened:
            refuse_no_text(opened.read(BLOCK), file)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a sentence may be too long for a name
        return False


def refuse_ending(path: Path, endings: Sequence[str], option: str) -> None:
    """Refuse a name that no file of these kinds has."""
    if path.suffix.lower() not in endings:
        wanted = ", ".join(endings)
        raise ConfigError([f"`{option}` must end with one of {wanted}, but is {path} instead"])


def refuse_plot(plot: Path | None) -> None:
    """Refuse a name that no picture can have, before the work."""

    if plot:
        refuse_ending(plot, draw.FORMATS, "--plot")


def refuse_no_folder(*folders: Path | None) -> None:
    """Refuse folders that are none, before the work."""
    for folder in folders:
        if folder is not None and not folder.is_dir():
            kind = "a file" if folder.exists() else "not there"
            raise InputError(f"{folder} must be a folder, but is {kind}")


def refuse_place(path: Path | None) -> None:
    """Refuse a file that cannot be written where it shall be, before the work."""
    if path and path.is_dir():
        raise InputError(f"{path} cannot be written: it is a folder")
    if path and not (folder := path.absolute().parent).is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {folder}")


def refuse_file(folder: Path) -> None:
    """Complain before the work of a name that no folder can have."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} must be a folder, but is a file: name another with --output")
