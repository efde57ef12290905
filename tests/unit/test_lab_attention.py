"""Experiments 1 to 29 that need no training: every number is as expected, and would it not be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from seq2see.lab.old.attention.steps import self_attention
from seq2see.lab.old.bench import Bench
from seq2see.lab.old.experiment import Finding, Verdict
from seq2see.lab.old.gallery.catalogue import ELSEWHERE
from seq2see.lab.old.heads import multihead
from seq2see.lab.old.registry import chosen
from seq2see.lab.old.runner import run_one
from seq2see.lab.old.scaling.softmax import third
from seq2see.model import DotProductAttention
from seq2see.model.attention import SelfAttention

HOLDS, HOLDS_IF, FALSE = Verdict.HOLDS, Verdict.HOLDS_IF, Verdict.FALSE
VERDICTS = {
    1: HOLDS,
    2: FALSE,
    3: FALSE,
    4: HOLDS,
    5: FALSE,
    6: HOLDS,
    7: FALSE,
    8: HOLDS,
    9: FALSE,
    13: HOLDS,
    14: HOLDS,
    20: HOLDS,
    21: HOLDS_IF,
    22: HOLDS,
    23: HOLDS_IF,
    24: HOLDS_IF,
    25: HOLDS,
    26: HOLDS,
    27: HOLDS,
    29: FALSE,
}


def found(number: int, cache: Path) -> Finding:
    (each,) = chosen([str(number)])
    outcome = run_one(each, Bench(cache))
    assert outcome.finding, outcome.error
    return outcome.finding


@pytest.mark.parametrize("number", VERDICTS)
def test_what_was_measured_is_as_expected(number: int, tmp_path: Path) -> None:
    finding = found(number, tmp_path)
    assert [f"{m.what.en} = {m}" for m in finding.measurements if not m.met] == []
    assert finding.verdict == VERDICTS[number]
    for text in (finding.reason, *(figure.caption for figure in finding.figures)):
        assert text.en
        assert text.zh


@pytest.mark.parametrize(
    ("a", "y3"), [(1, 0.5761168847658291), (10, 0.999909208384341), (100, 1.0), (355, 1.0)]
)
def test_the_worked_example_to_twelve_digits(a: float, y3: float) -> None:
    assert third(a) == pytest.approx(y3, abs=1e-12)


@pytest.mark.parametrize("number", [1, 8, 13, 24])
def test_a_model_that_forgets_its_scale_is_found_out(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unscaled(self: DotProductAttention, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        return queries_BHTD @ keys_BHSD.transpose(-2, -1)

    def fused(self: DotProductAttention, inputs: object) -> None:
        return None

    monkeypatch.setattr(DotProductAttention, "compute_scores", unscaled)
    monkeypatch.setattr(DotProductAttention, "fused_forward", fused)
    assert not found(number, tmp_path).met


def test_a_softmax_that_does_not_take_the_maximum_away_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def naive(scores: Tensor, hidden: Tensor | None) -> Tensor:
        return scores.exp() / scores.exp().sum(-1, keepdim=True)

    monkeypatch.setattr("seq2see.lab.old.scaling.softmax.masked_softmax", naive)
    assert not found(4, tmp_path).met
    assert torch.isnan(torch.tensor(third(400)))


def test_what_is_timed_of_heads_is_attention_and_not_the_making_of_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    while_timed: list[int] = []

    def making(*sizes: int) -> SelfAttention:
        made.append(1)
        return self_attention(*sizes)

    def timing(work: Callable[[], object], *_: object) -> float:
        before = len(made)
        work()
        while_timed.append(len(made) - before)
        return 1.0

    monkeypatch.setattr(multihead, "self_attention", making)
    for name in ("seconds", "cpu_seconds"):
        monkeypatch.setattr(multihead, name, timing, raising=False)
    found(27, tmp_path)
    assert made
    assert while_timed == [0, 0, 0]


@pytest.mark.parametrize(
    ("number", "clock"), [(27, "heads.multihead.cpu_seconds"), (22, "attention.reach.seconds")]
)
@pytest.mark.parametrize(
    ("first", "second", "said"), [(1.0, 0.25, ("0.25", "4")), (1.0, 3.0, ("3", "0.33"))]
)
def test_what_is_said_of_time_is_what_was_measured(
    number: int,
    clock: str,
    first: float,
    second: float,
    said: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first is one head, or the RNN at each of three lengths; the second comes behind it."""
    times = iter([first] * (1 if number == 27 else 3) + [second] * 3)
    monkeypatch.setattr(f"seq2see.lab.old.{clock}", lambda work, repeats=1: next(times))
    reason = found(number, tmp_path).reason
    assert f"{said[number == 22]} times as long" in reason.en
    assert f"{said[number == 22]} 倍" in reason.zh


@pytest.mark.parametrize("number", [number for number in ELSEWHERE if number in VERDICTS])
def test_an_item_that_stands_for_a_picture_of_the_notes_has_one(
    number: int, tmp_path: Path
) -> None:
    assert found(number, tmp_path).figures
