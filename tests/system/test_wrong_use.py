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


# --- options ---

LENGTHS = "`--search lengths.max_length` must be at least 1, but is 0 instead"
SETTINGS = {
    "by search": (["--search", "coverage_penalty=-1"], "`--search coverage_penalty` must be at"),
    "unknown": (["--search", "foo=1"], "`--search foo` is not a setting"),
    "in a table": (["--search", "lengths.max_length=0"], LENGTHS),
    "an option too": (["--search", "beam_size=0"], "`--beam-size` must be at least 1, but is 0"),
    "drawn": (["--sample", "--top-k", "0"], "`--top-k` must be at least 1, but is 0 instead"),
    "a word": (["--forbid", " "], "`--forbid` must be words, but has one without a letter"),
}


@pytest.mark.parametrize(("arguments", "words"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_is_named_as_it_is_typed(run, model, arguments, words) -> None:
    done = run("translate", model, *arguments, stdin=b"The dog.\n")
    assert done.status == 2
    assert done.err.startswith(f"seq2see: {words}")


def test_what_is_no_option_of_this_verb_is_not_called_one(run, model) -> None:
    done = run("evaluate", model, "--test", "x", "--search", "n_best=0")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("seq2see: `--search n_best` must be at least 1, but is 0 instead")


def test_translations_that_are_there_need_no_model(run, model, tmp_path) -> None:
    (tmp_path / "a.fr").write_text("un\n", "utf-8")
    judged = ["--hypotheses", tmp_path / "a.fr", "--references", tmp_path / "a.fr"]
    done = run("evaluate", model, *judged, "--metric", "bleurt")
    assert done.status == 2
    assert (
        f"seq2see: the MODEL {model} must be left out with `--hypotheses`; `--metric`" in done.err
    )
    options = ["--beam-size", "3", "--length-penalty", "0", "--search", "groups=1"]
    options += ["--threads", "2"]
    options += ["--ensemble", model, "--precision", "int8", "--engine", "torch", "--device", "cpu"]
    done = run("evaluate", *judged, "-o", tmp_path / "out", *options)
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "seq2see: `--output`, `--beam-size`, `--length-penalty`, `--search`, `--ensemble`, "
        "`--precision`, `--engine`, `--device`, `--threads` must be left out with "
        "`--hypotheses`: nothing is translated\n"
    )
    assert run("evaluate", *judged, "--samples", "0").status == 0


@pytest.mark.parametrize(
    ("place", "words"), [("no/x.txt", "there is no folder"), (".", "it is a folder")]
)
def test_where_translations_cannot_go_is_known_before_they_are_made(
    run, model, tmp_path, place, words
) -> None:
    """The test set is not there either, which would be found first by whoever begins to work."""
    done = run("evaluate", model, "--test", "a.en", "a.fr", "-o", tmp_path / place)
    assert (done.status, done.out) == (1, "")
    assert f"{tmp_path / place} cannot be written: {words}" in done.err
