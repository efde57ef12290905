"""Each fault changes the conclusion of its experiment."""

from __future__ import annotations

import pytest

from seq2see.lab.runner import Lab
from seq2see.lab.texts import load_all_texts
from tests.lab.faults import FAULTS

SLOW = {number for number, texts in load_all_texts().items() if texts.trains}
NUMBERS = [
    pytest.param(number, marks=[pytest.mark.slow] if number in SLOW else [])
    for number in sorted(FAULTS)
]


@pytest.mark.parametrize("number", NUMBERS)
def test_fault_changes_the_conclusion(number: int, lab: Lab) -> None:
    result = lab.run(number)
    assert result.as_published, result.traceback or result.conclusions  # else nothing is proved
    with FAULTS[number]():
        assert not lab.run(number).as_published
