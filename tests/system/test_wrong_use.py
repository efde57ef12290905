"""What a person may get wrong on the command line: one line that names what was typed."""

from __future__ import annotations

import os
import sys

import pytest

from seq2see.cli.text import opened_target
from seq2see.errors import InputError

# --- files that are read and written ---


def test_a_text_is_not_replaced_by_its_translation(run, model, tmp_path) -> None:
    text, link = tmp_path / "in.txt", tmp_path / "link.txt"
    text.write_text("The dog sleeps.\n", "utf-8")
    os.link(text, link)
    for output in (text, link):
        done = run("translate", model, text, "-o", output, "--beam-size", "1")
        assert (done.status, done.out) == (1, "")
        assert done.err == f"seq2see: {output} must be another file than the text, {text}\n"
    assert text.read_text("utf-8") == "The dog sleeps.\n"


def test_nor_is_what_standard_input_reads(model, tmp_path, monkeypatch) -> None:
    text = tmp_path / "in.txt"
    text.write_text("The dog sleeps.\n", "utf-8")
    with text.open(encoding="utf-8") as opened:
        monkeypatch.setattr(sys, "stdin", opened)
        opened_target("-", tmp_path / "out.txt", model, {}, resume=False)
        with pytest.raises(InputError, match="must be another file than the text, standard input"):
            opened_target("-", text, model, {}, resume=False)
