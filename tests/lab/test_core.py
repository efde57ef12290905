"""Measurements, checks, conclusions and texts."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from seq2see.lab.core import (
    Measurement,
    Part,
    Verdict,
    at_least,
    at_most,
    between,
    false,
    format_number,
    holds,
    near,
    undecided,
)
from seq2see.lab.texts import ExperimentTexts, PartTexts, Text

SAME = Text("It is {x:.1f} ({x.low:.1f}).", "为 {x:.1f}（{x.low:.1f}）。")
TEXTS = PartTexts(Text("claim", "论断"), dict.fromkeys(("holds", "false", "undecided"), SAME))
PART = Part("part", holds(at_least("x", 2)), false(at_most("x", 1)))


def measure(*values: float, is_log: bool = False) -> dict[str, Measurement]:
    return {"x": Measurement("x", values, is_log)}


def test_interval_is_the_t_interval_of_the_mean() -> None:
    low, high = measure(1.0, 2.0, 3.0)["x"].interval
    assert low == pytest.approx(2 - 2.92 / 3**0.5)
    assert high == pytest.approx(2 + 2.92 / 3**0.5)


def test_ratios_have_a_geometric_mean() -> None:
    ratio = measure(0.5, 2.0, is_log=True)["x"]
    assert ratio.mean == pytest.approx(1)
    assert ratio.low == pytest.approx(1 / ratio.high)


def test_equal_values_have_no_interval() -> None:
    assert str(measure(0.25, 0.25)["x"]) == "0.25"
    assert "(" in str(measure(0.25, 0.5)["x"])


@pytest.mark.parametrize("values", [(1.0, math.inf), (1.0, math.nan), (math.nan, math.nan)])
def test_diverged_training_meets_no_check(values: tuple[float, ...]) -> None:
    found = measure(*values)
    assert not any(check.is_met(found) for check in (at_least("x", -9e9), at_most("x", 9e9)))


def test_check_needs_the_whole_interval() -> None:
    assert at_least("x", 0.9).is_met(measure(1.0, 1.01, 1.02))
    assert not at_least("x", 1.0).is_met(measure(1.0, 1.01, 1.02))
    assert str(near("x", 1, 0.5)) == "0.5 ≤ x ≤ 1.5"
    assert str(between("x", 3, 3)) == "x = 3"


@pytest.mark.parametrize(
    ("values", "verdict", "as_published"),
    [
        ((3.0,), Verdict.HOLDS, True),
        ((0.5,), Verdict.FALSE, False),
        ((1.5,), Verdict.UNDECIDED, False),
        ((1.9, 2.5), Verdict.UNDECIDED, False),
    ],
)
def test_verdict_follows_the_numbers(
    values: tuple[float, ...], verdict: Verdict, as_published: bool
) -> None:
    conclusion = PART.decide(measure(*values), TEXTS)
    assert (conclusion.verdict, conclusion.as_published) == (verdict, as_published)


def test_sentence_contains_the_numbers() -> None:
    assert PART.decide(measure(3.0), TEXTS).text == ("It is 3.0 (3.0).", "为 3.0（3.0）。")
    assert "x = 1.5" in PART.decide(measure(1.5), TEXTS).text.en


def test_published_undecided_yields_to_other_cases() -> None:
    part = Part("part", undecided(), false(at_most("x", 1)))
    assert part.decide(measure(1.5), TEXTS).as_published
    assert part.decide(measure(0.5), TEXTS).verdict == Verdict.FALSE


def test_unmet_control_leaves_the_part_undecided() -> None:
    part = Part("part", holds(at_least("x", 2)), controls=[at_most("x", 5)])
    assert part.decide(measure(3.0), TEXTS).as_published
    conclusion = part.decide(measure(6.0), TEXTS)
    assert (conclusion.verdict, conclusion.as_published) == (Verdict.UNDECIDED, False)


def test_part_that_needs_full_waits_for_it() -> None:
    part = Part("part", holds(at_least("x", 2)), needs_full=True)
    conclusion = part.decide(measure(0.0), TEXTS, full=False)
    assert (conclusion.verdict, conclusion.as_published) == (Verdict.UNDECIDED, True)
    assert not part.decide(measure(0.0), TEXTS, full=True).as_published


@pytest.mark.parametrize(
    ("value", "text"),
    [(1_048_576, "1,048,576"), (0.123456, "0.1235"), (1.00619, "1.00619"), (9.1e-44, "9.1e-44"),
     (1e-5, "1e-5"), (math.inf, "∞"), (-math.inf, "-∞"), (math.nan, "nan")],
)  # fmt: skip
def test_numbers_are_written_with_four_digits(value: float, text: str) -> None:
    assert format_number(value) == text


def test_star_in_a_quantity_matches_any_text() -> None:
    title = Text("title", "标题")
    texts = ExperimentTexts(0, "", title, {}, False, {}, {"d_*": Text("width *", "宽度 *")})
    assert texts.find_quantity("d_64") == ("width 64", "宽度 64")
    assert texts.find_quantity("e_64") is None
    assert texts.find_label("e_64") == ("e_64", "e_64")


def test_listing_experiments_does_not_import_torch() -> None:
    code = (
        "import sys, seq2see.lab.texts as t; t.load_all_texts(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
