"""Detect the encoding of text files: UTF-8, UTF-16, UTF-32, Windows-1252 and GB18030 are read.

Text in another encoding is rejected with the encoding that it probably has.
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from charset_normalizer import from_bytes

from seq2see.data.readers import READ_BYTES, STANDARD_INPUT, open_decompressed_binary
from seq2see.errors import InputError

_MAX_ASCII_BYTES = 1 << 26
"""Number of bytes that are searched for the first byte that is not ASCII."""
_SAMPLE_BYTES = 1 << 16
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""The mark of little-endian UTF-32 begins with that of UTF-16."""
_CONVERTED = {"cp1252": "Windows-1252", "gb18030": "GB18030"}
"""Encodings without a mark that are read, and how messages name them."""
_CANDIDATES = [
    *("cp1252", "gb18030", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257"),
    *("shift_jis", "euc_jp", "euc_kr", "big5", "koi8_r", "iso8859_2", "cp874"),
]
_BINARY_SIGNATURES = {b"PK\x03\x04": "a ZIP archive or an office document", b"PAR1": "Parquet"}
_ALPHABETS = {
    "cp1254": [frozenset("çğıöşüi̇")],
    "cp1250": [
        *map(frozenset, ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű")),
        *map(frozenset, ("čćđšž", "čšž", "ăâîşţ")),
    ],
    "cp1252": [
        *map(frozenset, ("äöüßé", "àâæçéèêëîïôœùûüÿ", "áéíñóúü¿¡", "ãáàâçéêíóôõú", "àèéìòù")),
        *map(frozenset, ("åäöé", "æøåé", "ëïéèöüá", "áéíóúýþæöð", "àçèéíïòóúü", "õäöüšž")),
    ],
}
"""Letters of languages that are not ASCII, by encoding; if several fit, the last one is taken."""
_HIGH_BYTES = re.compile(rb"[\x80-\xff]+")
_MIN_SINGLE = 0.7
"""Minimum share of single bytes among the runs of bytes that are not ASCII, in Latin letters."""
_MIN_SHARE = 0.95


class TextEncoding(NamedTuple):
    """The encoding of a file."""

    name: str
    """Python's name."""
    note: str = ""
    """What the user should know, or an empty string."""


UTF_8 = TextEncoding("utf-8")


def detect_encoding(path: str) -> TextEncoding:
    """Return the encoding of a text file, which may be compressed; standard input is UTF-8.

    Raises InputError for binary files, and for encodings that are not read.
    """
    if path == STANDARD_INPUT or not Path(path).is_file():
        return UTF_8
    with open_decompressed_binary(path) as file:
        sample = start = file.read(READ_BYTES)
        num_bytes = len(sample)
        while sample.isascii() and num_bytes < _MAX_ASCII_BYTES:
            sample = file.read(READ_BYTES)
            num_bytes += len(sample)
            if not sample:
                break
    if encoding := _detect_by_mark(start):
        note = "" if encoding == "utf-8" else f"read as {encoding.upper()}"
        return TextEncoding(encoding, note)
    _check_is_text(start, path)
    sample = sample[: sample.rfind(b"\n") + 1] or sample
    if sample.isascii() or _is_utf8(sample):
        return UTF_8
    return _detect_by_content(sample, path)


def _detect_by_mark(data: bytes) -> str | None:
    """Return the encoding of a byte order mark, or of UTF-16 without one."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return encoding
    sample = data[:1000]
    zeros = sample[0::2].count(0), sample[1::2].count(0)
    if len(sample) >= 4 and max(zeros) > len(sample) * 0.2 and min(zeros) == 0:
        return "utf-16-be" if zeros[0] else "utf-16-le"
    return None


def _check_is_text(data: bytes, path: str) -> None:
    """Raise InputError if the beginning of a file is not text."""
    if b"\0" in data:
        signatures = _BINARY_SIGNATURES.items()
        kind = next((kind for start, kind in signatures if data.startswith(start)), "binary")
        raise InputError(f"{path} must be text, but is {kind}")


def _is_utf8(data: bytes) -> bool:
    """Return whether most of a text is UTF-8: a single wrong byte is reported with its line."""
    lines = data.split(b"\n")
    lines = [line for line in lines if not line.isascii()]
    num_wrong = 0
    for line in lines:
        try:
            line.decode()
        except UnicodeDecodeError:
            num_wrong += 1
    return num_wrong <= len(lines) // 2


def _detect_by_content(sample: bytes, path: str) -> TextEncoding:
    lines = [line for line in sample.split(b"\n") if not line.isascii()]
    text = b"\n".join(lines)[:_SAMPLE_BYTES]
    encoding = _detect_by_alphabet(text)
    if encoding is None:
        match = from_bytes(text, cp_isolation=_CANDIDATES).best()
        encoding = match.encoding if match else ""
    if encoding in _CONVERTED:
        return TextEncoding(encoding, f"read as {_CONVERTED[encoding]}")
    if not encoding:
        raise InputError(f"{path} must be UTF-8, but its encoding is unknown: convert it to UTF-8")
    label = encoding.upper().replace("_", "-")
    quoted = shlex.quote(path)
    raise InputError(
        f"{path} must be UTF-8, but is probably {label}: convert it with "
        f"`iconv -f {label} -t UTF-8 {quoted} > {shlex.quote(f'{path}.utf8')}`"
    )


def _detect_by_alphabet(text: bytes) -> str | None:
    """Return the encoding in which a text in Latin letters fits the alphabet of a language.

    If no single alphabet fits, two are combined: the text may have two languages. Returns None if
    most letters that are not ASCII are next to each other, as in other scripts.
    """
    runs = _HIGH_BYTES.findall(text)
    num_single = sum(len(run) == 1 for run in runs)
    if num_single < _MIN_SINGLE * len(runs):
        return None
    for num_languages in (1, 2):
        share, _, encoding = max(
            (_compute_share(text, encoding, frozenset().union(*alphabets)), rank, encoding)
            for rank, encoding in enumerate(_ALPHABETS)
            for alphabets in combinations(_ALPHABETS[encoding], num_languages)
        )
        if share >= _MIN_SHARE:
            return encoding
    return None


def _compute_share(text: bytes, encoding: str, alphabet: frozenset[str]) -> float:
    """Return the share of the letters that are not ASCII that are in an alphabet."""
    counts = Counter(text.decode(encoding, "replace").casefold())
    letters = {
        c: n for c, n in counts.items() if (c.isalpha() and not c.isascii()) or c in "\ufffd¿¡"
    }
    total = sum(letters.values())
    return sum(n for c, n in letters.items() if c in alphabet) / total if total else 0.0
