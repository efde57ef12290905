"""Rules of all experiments: each bound matters, cases exclude each other, sentences fit."""

from __future__ import annotations

import math
import re
from string import Formatter

import pytest

from seq2see.lab.core import Check, Measurement, Part, Verdict
from seq2see.lab.runner import load_experiment
from seq2see.lab.texts import load_all_texts

NUMBERS = sorted(load_all_texts())


def parts(number: int) -> list[Part]:
    return list(load_experiment(number).parts)


def find_value_inside(checks: list[Check]) -> float:
    """Return a value that meets all checks, which are of the same quantity."""
    low, high = max(check.low for check in checks), min(check.high for check in checks)
    assert low <= high, checks
    if math.isinf(low):
        return high
    return low if math.isinf(high) else (low + high) / 2


def meet(checks: list[Check] | tuple[Check, ...]) -> dict[str, float]:
    names = {check.name for check in checks}
    return {name: find_value_inside([c for c in checks if c.name == name]) for name in names}


def decide(number: int, part: Part, values: dict[str, float]) -> bool:
    """Return whether the conclusion is the published one; quantities without a value are NaN."""
    names = {check.name for check in part.checks} | set(_placeholders(number, part))
    found = {name: Measurement(name, (values.get(name, math.nan),)) for name in names}
    return part.decide(found, load_all_texts()[number].parts[part.name]).as_published


def _placeholders(number: int, part: Part) -> list[str]:
    sentences = load_all_texts()[number].parts[part.name].sentences.values()
    fields = [f for text in sentences for _, f, _, _ in Formatter().parse(text.en) if f]
    return [re.split(r"[.\[]", field)[0] for field in fields]


@pytest.mark.parametrize("number", NUMBERS)
def test_number_outside_its_bound_changes_the_conclusion(number: int) -> None:
    for part in parts(number):
        required = [*part.controls, *part.cases[0].checks]
        if part.cases[0].verdict == Verdict.UNDECIDED and not required:
            continue
        inside = meet(required)
        assert decide(number, part, inside), (part.name, inside)
        for check in required:
            for bound, direction in ((check.low, -1), (check.high, 1)):
                if math.isfinite(bound):
                    outside = bound + direction * max(abs(bound), 1e-9) * 1e-3
                    changed = {**inside, check.name: outside}
                    assert not decide(number, part, changed), (part.name, str(check))


@pytest.mark.parametrize("number", NUMBERS)
def test_cases_of_different_verdicts_exclude_each_other(number: int) -> None:
    for part in parts(number):
        for i, one in enumerate(part.cases):
            for other in part.cases[i + 1 :]:
                if Verdict.UNDECIDED in {one.verdict, other.verdict}:
                    continue
                assert any(
                    a.name == b.name and (a.high < b.low or b.high < a.low)
                    for a in one.checks
                    for b in other.checks
                ), f"{part.name}: a quantity of both cases needs bounds with a gap between them"


@pytest.mark.parametrize("number", NUMBERS)
def test_sentences_fit_the_rules_in_both_languages(number: int) -> None:
    texts = load_all_texts()[number]
    for part in parts(number):
        part_texts = texts.parts[part.name]
        assert set(part_texts.sentences) == {case.text for case in part.cases}
        assert re.search(r"[\u4e00-\u9fff]", part_texts.claim.zh)
        for name, text in part_texts.sentences.items():
            english, chinese = (
                {(f, s) for _, f, s, _ in Formatter().parse(language) if f} for language in text
            )
            assert english == chinese, (part.name, name)
        for placeholder in _placeholders(number, part):
            assert texts.find_quantity(placeholder), placeholder
        for check in part.checks:
            assert texts.find_quantity(check.name), check.name


@pytest.mark.parametrize("number", NUMBERS)
def test_every_decided_case_has_a_check_and_every_experiment_a_quotation(number: int) -> None:
    assert load_all_texts()[number].sources
    for part in parts(number):
        assert all(case.checks for case in part.cases if case.verdict != Verdict.UNDECIDED)
