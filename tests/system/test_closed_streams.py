"""Commands whose standard streams are closed: one line at most, never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from seq2see.cli import app

# Arguments of a short call of each command; `{m}` is a model, `{t}` a text, `{o}` an output.
CALLS = {
    "translate": "translate {m} --beam-size 1",
    "score": "score {m} {c}",
    "explain": "explain {m} - --beam-size 1",
    "info": "info base --json",
    "data": "data check",
    "lab": "lab list",
    "compare": "compare {t} {t} --reference {t}",
    "evaluate": "evaluate {m} --test-set {c}",
    "init": "init {c} --languages en,fr -o {o}",
    "import": "import {m} -o {o}",
    "train": "train {t} -o {o}",
    "demo": "demo --help",
    "serve": "serve --help",
}
FAST = {"translate", "lab"}


def test_every_command_is_covered() -> None:
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    names |= {group.typer_instance.info.name for group in app.registered_groups}
    assert names == set(CALLS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in CALLS]
)
@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams_give_no_traceback(name: str, closed: str, model, tmp_path: Path) -> None:
    text, corpus = tmp_path / "a.txt", tmp_path / "a.tsv"
    text.write_text("The dog sleeps.\n", "utf-8")
    corpus.write_text("The dog sleeps.\tLe chien dort.\n", "utf-8")
    arguments = CALLS[name].format(m=model, t=text, c=corpus, o=tmp_path / "out")
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m seq2see {arguments} {closed}"],
        check=False,
        input="The dog sleeps.\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in {0, 1, 2}
    for sign in ("Traceback", "Exception ignored", "NoneType"):
        assert sign not in done.stderr
    if (name, closed) in {("translate", "<&-"), ("explain", "<&-")}:
        assert done.stderr == "seq2see: standard input cannot be read: Bad file descriptor\n"
    if (name, closed) in {("translate", ">&-"), ("info", ">&-"), ("lab", ">&-")}:
        assert done.returncode == 1
        assert done.stderr == "seq2see: standard output cannot be written: Bad file descriptor\n"
