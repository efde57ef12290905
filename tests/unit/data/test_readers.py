"""Readers return every pair unchanged, or an error that names the line."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from time import process_time
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from seq2see.data import readers
from seq2see.data.formats.json_records import read_jsonl
from seq2see.data.formats.tables import read_tsv
from seq2see.data.formats.translation_memories import read_tmx
from seq2see.data.readers import (
    SentencePair,
    file_extension,
    group_pairs_into_blocks,
    read_lines,
    read_text_files,
    replace_line_breaks,
    zstd,
)
from seq2see.errors import InputError

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    # With a checksum, as the zstd program writes it: without one, damage may go unnoticed.
    ".zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
}
TMX = """<?xml version="1.0"?>
<tmx version="1.4"><header/><body>
<tu><tuv xml:lang="en"><seg>A dog.</seg></tuv><tuv xml:lang="de-DE"><seg>Ein Hund.</seg></tuv></tu>
<tu><tuv xml:lang="EN-US">
<seg>Press <bpt i="1">&lt;b&gt;</bpt>OK<ept i="1">&lt;/b&gt;</ept>.</seg></tuv>
<tuv xml:lang="de"><seg>Auf <hi>OK</hi>
  drücken &amp; warten.</seg></tuv><tuv xml:lang="fr"><seg>non</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>No German.</seg></tuv></tu>
</body></tmx>
"""


def write(directory: Path, name: str, content: bytes | str) -> str:
    path = directory / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


@pytest.mark.parametrize("extension", COMPRESSORS)
def test_plain_and_compressed_files_are_read(tmp_path: Path, extension: str) -> None:
    path = write(tmp_path, "a.txt" + extension, COMPRESSORS[extension](b"one\ntwo\n\nfour"))
    assert list(read_lines(path)) == ["one", "two", "", "four"]


def test_extensions_in_upper_case_are_decompressed(tmp_path: Path) -> None:
    for extension in (".gz", ".xz", ".zst"):
        path = write(tmp_path, "train.en" + extension.upper(), COMPRESSORS[extension](b"one\n"))
        assert list(read_lines(path)) == ["one"]
        assert file_extension(path) == ".en"


def test_several_compressed_streams_are_read(tmp_path: Path) -> None:
    for extension, compress in COMPRESSORS.items():
        path = write(tmp_path, "a" + extension, compress(b"one\n") + compress(b"two\n"))
        assert list(read_lines(path)) == ["one", "two"]


def test_lines_end_only_at_newlines(tmp_path: Path) -> None:
    text = "a\u2028b\x0cc\x0bd\x85e\x1cf\rg\r\nsecond\n"
    path = write(tmp_path, "a", text)
    assert list(read_lines(path)) == ["a\u2028b\x0cc\x0bd\x85e\x1cf\rg", "second"]


def test_byte_order_mark_is_removed_only_at_the_start(tmp_path: Path) -> None:
    path = write(tmp_path, "a", b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert list(read_lines(path)) == ["one", "\ufefftwo"]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\tb\nc\td\n")))
    assert list(read_tsv("-")) == [SentencePair("a", "b"), SentencePair("c", "d")]


def test_tsv_columns_and_quotes_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", '1\t"He said\t"\n2\tx\ty\n')
    assert list(read_tsv(path, (3, 1))) == [SentencePair('"', "1"), SentencePair("y", "2")]


def test_jsonl_keys_may_be_nested(tmp_path: Path) -> None:
    record = {"translation": {"en": "a\u2028\n", "de": "b"}}
    path = write(tmp_path, "a.jsonl", json.dumps(record, ensure_ascii=False) + "\n")
    assert list(read_jsonl(path, ("translation.en", "translation.de"))) == [
        SentencePair("a\u2028\n", "b")
    ]


def test_tmx_languages_inline_codes_and_skipped_units(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tmx", TMX)
    skipped: list[int] = []
    assert list(read_tmx(path, ("en", "de"), skipped.append)) == [
        SentencePair("A dog.", "Ein Hund."),
        SentencePair("Press OK.", "Auf OK drücken & warten."),
    ]
    assert skipped == [3]


def test_tmx_regions_with_hyphen_or_underscore(tmp_path: Path) -> None:
    text = TMX.replace("de-DE", "de_DE").replace("EN-US", "EN_US")
    path = write(tmp_path, "a.tmx", text)
    for languages in (("en", "de"), ("en", "DE-de"), ("en", "de_DE")):
        assert next(read_tmx(path, languages)) == SentencePair("A dog.", "Ein Hund.")
    assert len(list(read_tmx(path, ("en", "de")))) == 2


def test_white_space_of_a_tmx_segment_is_normalized_once(tmp_path: Path) -> None:
    segment = "Hello <hi>\n big </hi>world"
    path = write(tmp_path, "a.tmx", TMX.replace("A dog.", segment))
    assert next(read_tmx(path, ("en", "de"))).source == "Hello big world"


def test_one_tmx_variant_is_not_both_sides(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tmx", TMX)
    with pytest.raises(
        InputError, match="must have units in both de and de-AT, but has de, de-de, en"
    ):
        list(read_tmx(path, ("de", "de-AT")))


def with_entity(declared: str) -> str:
    """Return a TMX file with an entity in its first sentence."""
    kind = f"<!DOCTYPE tmx [<!ENTITY x {declared}>]>"
    return TMX.replace("<tmx", kind + "<tmx", 1).replace("A dog.", "A &x; dog.")


def test_tmx_does_not_read_external_files(tmp_path: Path) -> None:
    secret = write(tmp_path, "hidden", "secret")
    path = write(tmp_path, "a.tmx", with_entity(f'SYSTEM "file://{secret}"'))
    with pytest.raises(InputError, match="`&x;`") as error:
        list(read_tmx(path, ("en", "de")))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("extension", ["", ".gz", ".xz"])
def test_long_line_is_not_copied_for_each_block(tmp_path: Path, extension: str) -> None:
    path = write(tmp_path, "a" + extension, COMPRESSORS[extension](b"x" * 40_000_000 + b"\nend"))
    began = process_time()
    assert [len(line) for line in read_lines(path)] == [40_000_000, 3]
    assert process_time() - began < 2  # copying for each block takes a minute


def test_xz_with_zeros_between_streams_is_read(tmp_path: Path) -> None:
    one, two = lzma.compress(b"one\n"), lzma.compress(b"two\n" * 500_000)
    path = write(tmp_path, "a.xz", one + bytes(8) + two + bytes(4))
    assert list(read_lines(path)) == ["one"] + ["two"] * 500_000


INVALID_FILES: dict[str, tuple[dict[str, bytes], Callable[[str], Iterable[SentencePair]], str]] = {
    "not UTF-8": (
        {"a": b"good\tx\nb\xffd\tx\n"},
        lambda d: read_tsv(f"{d}/a"),
        "a, line 2 must be UTF-8, but has the byte 0xff at column 2",
    ),
    "a shorter file": (
        {"a": b"1\n2\n3\n", "b": b"1\n2\n"},
        lambda d: read_text_files(f"{d}/a", f"{d}/b"),
        "b must have as many lines as .*a, but ends after 2",
    ),
    "a missing column": (
        {"a": b"1\t2\n3\n"},
        lambda d: read_tsv(f"{d}/a"),
        "a, line 2 must have at least 2 columns, but has 1 instead",
    ),
    "not JSON": (
        {"a": b'{"s": "x", "t": "y"}\n{"s":\n'},
        lambda d: read_jsonl(f"{d}/a", ("s", "t")),
        "a, line 2 must be JSON",
    ),
    "a missing key": (
        {"a": b'{"s": "x"}\n'},
        lambda d: read_jsonl(f"{d}/a", ("s", "t")),
        "a, line 1: `t` must be a string, but is missing",
    ),
    "not a string": (
        {"a": b'{"s": "x", "t": 3}\n'},
        lambda d: read_jsonl(f"{d}/a", ("s", "t")),
        "`t` must be a string, but is int instead",
    ),
    "a lone surrogate": (
        {"a": b'{"s": {"x": "\\ud83d\\ude00"}, "t": "y"}\n{"s": {"x": "a\\ud800"}, "t": "y"}\n'},
        lambda d: read_jsonl(f"{d}/a", ("s.x", "t")),
        "half of a surrogate pair, '.ud800', as character 2 of `s.x` in .*a, line 2",
    ),
    "truncated gz": (
        {"a.gz": gzip.compress(b"1\t2\n" * 999)[:-9]},
        lambda d: read_tsv(f"{d}/a.gz"),
        "a.gz is damaged",
    ),
    "truncated xz": (
        {"a.xz": lzma.compress(b"1\t2\n" * 999)[:-9]},
        lambda d: read_tsv(f"{d}/a.xz"),
        "a.xz is damaged",
    ),
    "truncated zst": (
        {"a.zst": zstd.compress(b"1\t2\n" * 999)[:-2]},
        lambda d: read_tsv(f"{d}/a.zst"),
        "a.zst is damaged",
    ),
    "an empty xz": ({"a.xz": b""}, lambda d: read_tsv(f"{d}/a.xz"), "a.xz is damaged"),
    **{
        f"garbage after {extension}": (
            {f"a{extension}": COMPRESSORS[extension](b"1\t2\n" * 999) + b"garbage"},
            lambda d, name=f"a{extension}": read_tsv(f"{d}/{name}"),
            f"a{extension} is damaged",
        )
        for extension in (".gz", ".xz", ".zst")
    },
    "garbage between two xz": (
        {"a.xz": lzma.compress(b"1\t2\n") + b"garbage!" + lzma.compress(b"1\t2\n")},
        lambda d: read_tsv(f"{d}/a.xz"),
        "a.xz is damaged",
    ),
    "not gz": ({"a.gz": b"text"}, lambda d: read_tsv(f"{d}/a.gz"), "a.gz is damaged"),
    "a missing file": ({}, lambda d: read_tsv(f"{d}/a"), "a cannot be read: No such file"),
    "a directory": ({}, read_tsv, "cannot be read: Is a directory"),
    "truncated tmx": (
        {"a": TMX[:400].encode()},
        lambda d: read_tmx(f"{d}/a", ("en", "de")),
        "a must be TMX, but: ",
    ),
    "an entity": (
        {"a": with_entity('"big"').encode()},
        lambda d: read_tmx(f"{d}/a", ("en", "de")),
        "a, unit 1 must not contain entities, but has the entity `&x;`: replace it by its text",
    ),
    "an entity of an external DTD": (
        {
            "a": TMX.replace("<tmx", '<!DOCTYPE tmx SYSTEM "no.dtd"><tmx', 1)
            .replace("warten", "&nbsp;")
            .encode()
        },
        lambda d: read_tmx(f"{d}/a", ("en", "de")),
        "a, unit 2 must not contain entities, but has the entity `&nbsp;`: replace it by its text",
    ),
    "an entity bomb": (
        {
            "a": with_entity('"' + "&y;" * 99 + '"')
            .replace("<!ENTITY x", '<!ENTITY y "' + "z" * 9999 + '"><!ENTITY x')
            .encode()
        },
        lambda d: read_tmx(f"{d}/a", ("en", "de")),
        "has the entity `&x;`: replace it by its text",
    ),
    "other languages": (
        {"a": TMX.encode()},
        lambda d: read_tmx(f"{d}/a", ("en", "ja")),
        "a must have units in both en and ja, but has de, de-de, en, en-us, fr instead",
    ),
    "no units": (
        {"a": b"<tmx><body/></tmx>"},
        lambda d: read_tmx(f"{d}/a", ("en", "de")),
        "a must have units in both en and de, but has none$",
    ),
    "no language tags": (
        {"a": b"<tmx><body><tu><tuv><seg>x</seg></tuv></tu></body></tmx>"},
        lambda d: read_tmx(f"{d}/a", ("en", "de")),
        "must have units in both en and de, but has units without language tags instead",
    ),
}


@pytest.mark.parametrize(("files", "read", "message"), INVALID_FILES.values(), ids=INVALID_FILES)
def test_error_names_file_and_line(
    tmp_path: Path,
    files: dict[str, bytes],
    read: Callable[[str], Iterable[SentencePair]],
    message: str,
) -> None:
    for name, content in files.items():
        write(tmp_path, name, content)
    with pytest.raises(InputError, match=message) as error:
        list(read(str(tmp_path)))
    assert "\n" not in str(error.value)


lines = st.lists(st.text(st.characters(exclude_characters="\n\r\t", exclude_categories=["Cs"])))


@given(lines)
def test_written_pairs_are_read_back(tmp_path: Path, texts: list[str]) -> None:
    pairs = [SentencePair(text, str(i)) for i, text in enumerate(texts)]
    if pairs and pairs[0].source.startswith("\ufeff"):
        pairs[0] = SentencePair("x", "0")
    tsv = write(tmp_path, "a.tsv", "".join(f"{s}\t{t}\n" for s, t in pairs))
    assert list(read_tsv(tsv)) == pairs
    source = write(tmp_path, "a", "".join(f"{s}\n" for s, _ in pairs))
    target = write(tmp_path, "b", "".join(f"{t}\r\n" for _, t in pairs))
    assert list(read_text_files(source, target)) == pairs
    records = "".join(json.dumps(pair._asdict()) + "\n" for pair in pairs)
    jsonl = write(tmp_path, "a.jsonl", records)
    assert list(read_jsonl(jsonl, ("source", "target"))) == pairs


@given(st.lists(st.tuples(lines.map("".join), st.integers(0, 2)), min_size=1))
def test_extra_tsv_columns_are_ignored(tmp_path: Path, rows: list[tuple[str, int]]) -> None:
    if rows[0][0].startswith("\ufeff"):
        rows[0] = ("x", 0)
    texts = [f"{text}\t{number}" + "\tmore" * extra for number, (text, extra) in enumerate(rows)]
    path = write(tmp_path, "a.tsv", "\n".join(texts))
    assert list(read_tsv(path, (2, 1))) == [
        SentencePair(str(number), text) for number, (text, _) in enumerate(rows)
    ]


def test_text_files_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "LINES_PER_BLOCK", 3)
    source = write(tmp_path, "a", "".join(f"{n}\n" for n in range(7)))
    target = write(tmp_path, "b", "".join(f"{n}\n" for n in range(8)))
    blocks = group_pairs_into_blocks(read_text_files(source, source))
    sources = [[pair.source for pair in block] for block in blocks]
    assert sources == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    with pytest.raises(InputError, match="a must have as many lines as .*b, but ends after 7"):
        list(read_text_files(source, target))


GOOD = {
    "a.tsv": "".join(f"source {i}\ttarget {i}\n" for i in range(30)).encode(),
    "a.jsonl": "".join(f'{{"s": "source {i}", "t": "target {i}"}}\n' for i in range(30)).encode(),
    "a.tmx": (
        "<tmx><body>"
        + "".join(
            f'<tu><tuv xml:lang="en"><seg>source {i}</seg></tuv>'
            f'<tuv xml:lang="de"><seg>target {i}</seg></tuv></tu>'
            for i in range(30)
        )
        + "</body></tmx>"
    ).encode(),
}
READERS: dict[str, Callable[[str], Iterable[SentencePair]]] = {
    "a.tsv": read_tsv,
    "a.jsonl": lambda path: read_jsonl(path, ("s", "t")),
    "a.tmx": lambda path: read_tmx(path, ("en", "de")),
}


@pytest.mark.parametrize("extension", COMPRESSORS)
@pytest.mark.parametrize("name", GOOD)
@given(damage=st.data())
def test_damaged_files_give_an_error_or_aligned_pairs(
    tmp_path: Path, name: str, extension: str, damage: st.DataObject
) -> None:
    """Change, remove or insert bytes; a pair that is still read never mixes two lines."""
    content = bytearray(COMPRESSORS[extension](GOOD[name]))
    start = damage.draw(st.integers(0, len(content) - 1))
    end = damage.draw(st.integers(start, min(start + 8, len(content))))
    content[start:end] = damage.draw(st.binary(max_size=8))
    path = write(tmp_path, name + extension, bytes(content))
    try:
        pairs = list(READERS[name](path))
    except InputError:
        return
    num_mixed = 0
    for source, target in pairs:
        if source.startswith("source ") and target.startswith("target "):
            num_mixed += source.removeprefix("source ") != target.removeprefix("target ")
    assert num_mixed <= 2  # the damage affects at most two neighboring lines


def test_line_breaks_are_replaced_in_linear_time() -> None:
    returns = "\r" * 100_000
    start = process_time()
    assert replace_line_breaks(f"{returns} x{returns}\ny\rz\r") == f"{returns} x y\rz "
    assert process_time() - start < 2
