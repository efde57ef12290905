"""`seq2see lab`: lists and runs experiments, writes reports, and checks options before."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seq2see.cli import app
from seq2see.lab.bench import Bench
from seq2see.lab.expectation import near
from seq2see.lab.experiment import Finding, Measurement, Text, Verdict
from seq2see.lab.registry import chosen

SAME = Text("width", "宽度")
(FIFTH,) = chosen(["5"])


def test_json_has_no_infinite_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure_infinity(bench: Bench) -> Finding:
        measured = Measurement.mean(SAME, [1.0, math.inf])
        return Finding(Verdict.OPEN, SAME, (measured,))

    experiments = (replace(FIFTH, run=measure_infinity),)
    monkeypatch.setattr("seq2see.lab.registry.chosen", lambda names: experiments)
    done = CliRunner().invoke(app, ["lab", "run", "5", "--json", "--cache", str(tmp_path)])
    (record,) = json.loads(done.stdout, parse_constant=pytest.fail)
    assert record["measurements"][0]["value"] is None
    assert record["measurements"][0]["values"] == [1.0, None]


@pytest.mark.parametrize(
    ("language", "marks"), [("en", "trains, needs --full"), ("zh", "需训练, 需要 --full")]
)
def test_lab_list_uses_the_chosen_language(
    language: str, marks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = replace(FIFTH, trains=True, needs_full=True)
    monkeypatch.setattr("seq2see.lab.registry.experiments", lambda: (each,))
    listed = CliRunner().invoke(app, ["lab", "list", "--language", language])
    assert listed.stdout == f"  5  {each.title.said(language)}  ({marks})\n"  # type: ignore[arg-type]


def fail_if_run(bench: Bench) -> Finding:
    raise AssertionError("the options must be rejected before")


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["all", "--html", "nowhere/lab.html"], 1, "nowhere/lab.html cannot be written"),
        (["all", "--html", "."], 1, "it is a directory"),
        (["5", "--markdown", "."], 2, "`--markdown` needs the argument `all`"),
        (["5", "--html", "lab.pdf"], 2, "`--html` must end with one of .html, .htm, but is"),
    ],
)
def test_unwritable_report_is_rejected_before_the_work(
    arguments: list[str],
    status: int,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    experiments = (replace(FIFTH, run=fail_if_run),)
    monkeypatch.setattr("seq2see.lab.registry.chosen", lambda names: experiments)
    done = CliRunner().invoke(app, ["lab", "run", *arguments, "--cache", str(tmp_path)])
    assert done.exit_code == status
    assert line in f"{done.exception} {done.stderr}"
    assert list(tmp_path.iterdir()) == []


def test_lab_lists_runs_and_writes_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = CliRunner().invoke(app, ["lab", "list", "--language", "zh"])
    assert "softmax 的雅可比矩阵" in listed.stdout
    page = tmp_path / "lab.html"
    monkeypatch.setattr("seq2see.lab.registry.chosen", lambda names: (FIFTH,))
    arguments = ["lab", "run", "all", "--json", "--html", str(page), "--markdown", str(tmp_path)]
    done = CliRunner().invoke(app, [*arguments, "--cache", str(tmp_path)])
    assert done.exit_code == 0
    (record,) = json.loads(done.stdout)
    assert record["status"] == "met"
    assert "Differences saturate softmax" in page.read_text("utf-8")
    assert "| 5 |" in (tmp_path / "lab.md").read_text("utf-8")
    assert "不成立" in (tmp_path / "lab.zh.md").read_text("utf-8")


def test_unexpected_measurement_exits_with_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure_nine(bench: Bench) -> Finding:
        return Finding(Verdict.FALSE, SAME, (Measurement(SAME, 9, near(1, 0.5)),))

    experiments = (replace(FIFTH, run=measure_nine),)
    monkeypatch.setattr("seq2see.lab.registry.chosen", lambda names: experiments)
    done = CliRunner().invoke(app, ["lab", "run", "5", "--cache", str(tmp_path)])
    assert done.exit_code == 1
    assert "✗ width = 9  [1 ± 0.5]" in done.stdout
    assert "unexpected measurements in experiment 5" in done.stderr
