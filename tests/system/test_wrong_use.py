"""What a person may get wrong on the command line: one line that names what was typed."""

from __future__ import annotations

import os
import sys

import pytest
import typer

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


# --- runs ---


def test_a_mistyped_folder_is_seen_before_a_run_begins(
    run, tiny_recipe, tmp_path, monkeypatch
) -> None:
    def follow(*_: object) -> None:
        typer.echo("training", err=True)

    monkeypatch.setattr(sys.modules["seq2see.cli.train"], "follow", follow)
    asked = ["train", tiny_recipe, "-o", tmp_path / "nope"]
    told = f"seq2see: there is nothing to resume in {tmp_path / 'nope'}: beginning anew\n"
    assert run(*asked).err == "training\n"
    assert run(*asked, "--resume").err == f"{told}training\n"
    (tmp_path / "nope").mkdir()
    assert run(*asked, "--resume").err == f"{told}training\n"
    (tmp_path / "nope/run.json").touch()
    assert run(*asked, "--resume").err == "training\n"


def test_the_first_worker_speaks_for_all(run, tiny_recipe, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["seq2see.cli.train"], "follow", lambda *_: None)
    monkeypatch.setenv("RANK", "1")
    assert run("train", tiny_recipe, "-o", tmp_path / "nope", "--resume").err == ""


@pytest.mark.parametrize("verb", ["train", "demo"])
def test_a_run_needs_a_folder(run, tiny_recipe, tmp_path, verb) -> None:
    (tmp_path / "two.txt").write_text("mine\n", "utf-8")
    asked = [verb, tiny_recipe] if verb == "train" else [verb]
    done = run(*asked, "-o", tmp_path / "two.txt")
    assert done.status == 1
    assert done.err == (
        f"seq2see: {tmp_path / 'two.txt'} must be a folder, but is a file: name another with "
        "--output\n"
    )
