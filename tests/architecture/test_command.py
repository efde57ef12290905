"""The command line: help for every command, one line for every error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import typer
from typer.testing import CliRunner

from seq2see import __version__
from seq2see.cli import app
from seq2see.registries import PRESETS, PresetName

COMMANDS = [
    "demo",
    "init",
    "train",
    "translate",
    "evaluate",
    "compare",
    "score",
    "explain",
    "serve",
    "info",
    "import",
    "data",
    "lab",
]


def seq2see(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "seq2see", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_commands_are_listed_in_order() -> None:
    assert [command.name for command in typer.main.get_command(app).commands.values()] == COMMANDS  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", [["translate"], ["data", "check"], ["lab", "run"], []])
def test_help_shows_no_value_for_flags(command: list[str]) -> None:
    assert "<bool>" not in seq2see(*command, "--help").stdout


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("init", "init [OPTIONS] FILES..."),
        ("train", "train [OPTIONS] RECIPE [section.key=value]..."),
        ("translate", "translate [OPTIONS] MODEL [INPUT]"),
        ("evaluate", "evaluate [OPTIONS] SYSTEM [FILES]..."),
        ("explain", "explain [OPTIONS] MODEL [TEXT]"),
        ("lab run", "lab run [OPTIONS] {NUMBER|all}..."),
    ],
)
def test_usage_marks_optional_and_repeated_arguments(command: str, usage: str) -> None:
    lines = [line.strip() for line in seq2see(*command.split(), "--help").stdout.splitlines()]
    assert f"Usage: seq2see {usage}" in lines


def test_help_shows_default_without_brackets() -> None:
    help_text = " ".join(seq2see("demo", "--help").stdout.replace("│", " ").split())
    assert "Default: 8." in help_text
    assert "(8)" not in help_text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    done = seq2see(command, "--help")
    assert done.returncode == 0
    assert f"seq2see {command}" in done.stdout


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("seq2see tra", ["train", "translate"]),
        ("seq2see translate --eng", ["--engine"]),
        ("seq2see translate --engine c", ["ctranslate2"]),
    ],
)
def test_bash_completes_commands_options_and_choices(
    line: str, completions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_SEQ2SEE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    assert seq2see().stdout.split() == completions


def test_version() -> None:
    assert seq2see("--version").stdout == f"seq2see {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["info", "--help"]])
def test_help_does_not_import_torch_or_numpy(arguments: list[str]) -> None:
    """`--help` is fast only without these imports."""
    code = (
        "import sys, atexit, runpy\n"
        f"sys.argv = ['seq2see', *{arguments}]\n"
        "heavy = lambda: [m for m in ('torch', 'numpy') if m in sys.modules]\n"
        "atexit.register(lambda: print('heavy:', heavy()))\n"
        "runpy.run_module('seq2see', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "heavy: []" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["info", "huge"], 1, "huge must be a model directory or one of tiny,"),
        (["info", "tiny", "--vocab-size", "0"], 2, "--vocab-size"),
        (["info", "tiny", "--vocab-size", "9" * 20], 2, "--vocab-size"),
        (["demo", "--seed", "9" * 20], 2, "--seed"),
        (["inof"], 2, "seq2see: `inof` is not a command; did you mean `info`?"),
        (["demo", "--max-epochs", "0"], 2, "--max-epochs"),
        (
            ["lab", "run", "1", "--markdown", "nowhere"],
            1,
            "nowhere must be a directory, but does not exist",
        ),
        (["train", "nowhere.toml"], 1, "nowhere.toml cannot be read: No such file or directory"),
        (["train", "nowhere.toml", "x"], 2, "seq2see: `x` must be section.key=value"),
        (["import", "nowhere", "-o", "x", "--languages", "en"], 2, "--languages"),
    ],
)
def test_usage_error_is_one_line_with_its_status(
    arguments: list[str], status: int, line: str
) -> None:
    done = seq2see(*arguments)
    assert done.returncode == status
    assert line in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_unknown_experiment_number_exits_with_status_2() -> None:
    done = CliRunner().invoke(app, ["lab", "run", "999"])
    assert done.exit_code == 2


def test_info_prints_modules_and_json() -> None:
    tree = seq2see("info", "base").stdout
    assert "63,082,496" in tree.splitlines()[0]
    data = json.loads(seq2see("info", "base", "--json").stdout)
    assert data["parameters"] == 63_082_496
    assert data["config"]["d_model"] == 512


def test_preset_names_equal_model_presets() -> None:
    assert get_args(PresetName) == tuple(PRESETS)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_unencodable_characters_are_replaced(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    command = [sys.executable, "-m", "seq2see", "info", "tiny"]
    done = subprocess.run(command, capture_output=True, check=True)
    assert b"6,061,056" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_disk_prints_one_line(unbuffered: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "seq2see", "info", "big"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "seq2see: standard output cannot be written: No space left on device\n"


def test_closed_pipe_prints_no_traceback() -> None:
    command = [sys.executable, "-m", "seq2see", "info", "big"]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipe, text=True) as running:  # type: ignore[call-overload]
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 1
