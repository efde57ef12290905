"""`seq2see lab`: lists and runs experiments, writes reports, and checks options before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seq2see.cli import app
from seq2see.lab.core import REGISTERED, Context
from seq2see.lab.runner import Lab, load_experiment, select_experiments


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2see.lab.runner.count_available_cores", lambda: 1)


@pytest.fixture
def different_result() -> Iterator[None]:
    """Let experiment 5 measure numbers that no case of it allows."""

    def measure(context: Context) -> dict[str, float]:
        names = ("shift_difference", "largest_equal", "largest_1", "largest_10")
        return dict.fromkeys(names, float("inf"))

    original = load_experiment(5)
    REGISTERED[5] = replace(original, measure=measure)
    yield
    REGISTERED[5] = original


@pytest.mark.parametrize(("language", "mark"), [("en", "(trains)"), ("zh", "(需训练)")])
def test_lab_list_uses_the_chosen_language(language: str, mark: str) -> None:
    listed = CliRunner().invoke(app, ["lab", "list", "--language", language]).stdout
    (line,) = (line for line in listed.splitlines() if line.startswith(" 17 "))
    assert line.endswith(mark)


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["all", "--html", "nowhere/lab.html"], 1, "nowhere/lab.html cannot be written"),
        (["all", "--html", "."], 1, "it is a directory"),
        (["5", "--markdown", "."], 2, "`--markdown` needs the argument `all`"),
        (["5", "--html", "lab.pdf"], 2, "`--html` must end with one of .html, .htm, but is"),
        (["5", "--seeds", "1,a"], 2, "`--seeds` must be integers separated by commas"),
        (["5", "--seeds", "1,1"], 2, "`--seeds` must be 1 to 10 different integers"),
    ],
)
def test_invalid_options_are_rejected_before_the_work(
    arguments: list[str],
    status: int,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Lab, "run_all", pytest.fail)
    done = CliRunner().invoke(app, ["lab", "run", *arguments, "--cache", str(tmp_path)])
    assert done.exit_code == status
    assert line in f"{done.exception} {done.stderr}"
    assert list(tmp_path.iterdir()) == []


def test_lab_runs_and_writes_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "lab.html"
    five = select_experiments(["5"])
    monkeypatch.setattr("seq2see.lab.runner.select_experiments", lambda names: five)
    arguments = ["lab", "run", "all", "--json", "--html", str(page), "--markdown", str(tmp_path)]
    done = CliRunner().invoke(app, [*arguments, "--seeds", "3,9", "--cache", str(tmp_path)])
    assert done.exit_code == 0
    (record,) = json.loads(done.stdout)
    assert (record["status"], record["seeds"]) == ("ok", [3, 9])
    assert "Softmax saturates by differences" in page.read_text("utf-8")
    assert "| 5 |" in (tmp_path / "lab.md").read_text("utf-8")
    assert "不成立" in (tmp_path / "lab.zh.md").read_text("utf-8")


@pytest.mark.usefixtures("different_result")
def test_different_result_exits_with_status_1_and_keeps_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    five = select_experiments(["5"])
    monkeypatch.setattr("seq2see.lab.runner.select_experiments", lambda names: five)
    done = CliRunner().invoke(app, ["lab", "run", "all", "--json", "--markdown", str(tmp_path)])
    assert done.exit_code == 1
    assert "results differ from the published ones in experiment 5" in done.stderr
    (record,) = json.loads(done.stdout, parse_constant=pytest.fail)
    assert record["measurements"][0]["value"] is None
    assert list(tmp_path.iterdir()) == []
