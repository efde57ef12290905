"""Input of `seq2see translate`: what is read, and what is rejected before anything is written."""

from __future__ import annotations

import gzip

import pytest

TEXT = "The dog sleeps.\nThe cat sat.\n"


UNREADABLE = {
    "wide.txt": (TEXT.encode("utf-16"), "must be UTF-8, but is UTF-16 or UTF-32: convert it"),
    "wider": (TEXT.encode("utf-32"), "iconv -f UTF-16 -t UTF-8"),
    "unmarked.txt": (TEXT.encode("utf-16-le"), "has zero bytes"),
    "late.txt": (TEXT.encode() * 20_000 + b"The\0 dog\n", "has zero bytes"),
    "compressed.gz": (gzip.compress(TEXT.encode("utf-16")), "must be UTF-8, but is UTF-16"),
    "a.pdf": (b"%PDF-1.4\n1 0 obj\n", "but not .pdf: convert it first"),
    "a.RTF": (rb"{\rtf1 The dog}", "supported are plain text and .html, .htm, .srt, .vtt, .po"),
    "a.odt": (b"PK", "but not .odt"),
    "notes.md": (b"# Title\n", "but not .md: convert it first"),
    "notes.MD.gz": (gzip.compress(b"# Title\n"), "but not .md: convert it first"),
    "none.html": (None, "none.html cannot be read: No such file or directory"),
    "none.pdf": (None, "none.pdf cannot be read: No such file or directory"),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("has_output", [True, False])
def test_unreadable_input_is_rejected_before_writing(run, tmp_path, name, has_output) -> None:
    content, problem = UNREADABLE[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    output = ["-o", tmp_path / "out"] if has_output else []
    done = run("translate", "no model", tmp_path / name, *output)
    assert (done.status, done.out) == (1, "")
    assert problem in done.err
    assert len(done.err.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} <= {name}


def test_document_is_read_before_the_model(run, tmp_path) -> None:
    (tmp_path / "a.html").write_bytes(b"<p>The dog\0 sleeps.</p>")
    done = run("translate", "no model", tmp_path / "a.html", "-o", tmp_path / "b.html")
    assert (done.status, done.out) == (1, "")
    assert "a.html must be text in UTF-8, but has zero bytes" in done.err


def test_standard_input_may_contain_zero_bytes(run, model) -> None:
    done = run("translate", model, "--beam-size", "1", stdin=b"The dog\0 sleeps.\n")
    assert done.status == 0
    assert len(done.out.splitlines()) == 1


def test_byte_order_mark_is_ignored(run, model, tmp_path) -> None:
    marked = b"\xef\xbb\xbf" + TEXT.encode()
    (tmp_path / "in.txt").write_bytes(marked)
    arguments = ["translate", model, "--beam-size", "1"]
    plain = run(*arguments, stdin=TEXT.encode())
    assert run(*arguments, stdin=marked).out == plain.out
    assert run(*arguments, tmp_path / "in.txt").out == plain.out


def test_text_file_is_translated_like_standard_input(run, model, tmp_path) -> None:
    """The number of a list item is part of its line, as in standard input."""
    (tmp_path / "in.txt").write_text("1. The dog sleeps.\n", "utf-8")
    arguments = ["translate", model, "--beam-size", "1"]
    done = run(*arguments, tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    assert done.status == 0
    expected = run(*arguments, stdin=b"1. The dog sleeps.\n").out
    assert (tmp_path / "out.txt").read_text("utf-8") == expected
