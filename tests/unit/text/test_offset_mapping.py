"""Offsets of a normalized text in the original text."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import pytest

from seq2see.text.languages import find_word_offsets
from seq2see.text.tokenizer import build_offset_mapper

NOISE = 0.03
"""Seconds of timing noise that are tolerated."""
SENTENCE = "The dog  saw ２ cats under the old ﬁg tree; nobody \u200b knows why. "


def assert_linear(work: Callable[[int], object], size: int) -> None:
    seconds = []
    for each in (size, 4 * size):
        start = process_time()
        work(each)
        seconds.append(process_time() - start)
    assert seconds[1] < 8 * max(seconds[0], NOISE)


def normalize(text: str) -> str:
    return " ".join(text.replace("２", "2").replace("ﬁ", "fi").replace("\u200b", "").split())


@pytest.mark.parametrize("count", [1, 3, 20])
def test_words_have_the_offsets_of_the_original_text(count: int) -> None:
    text = SENTENCE * count
    normalized = normalize(text)
    map_offset = build_offset_mapper(normalized, text)
    for word in ("dog", "cats", "nobody", "why"):
        expected, found, start = [], [], -1
        while (start := text.find(word, start + 1)) >= 0:
            expected.append((start, start + len(word)))
        while (start := normalized.find(word, start + 1)) >= 0:
            found.append((map_offset(start), map_offset(start + len(word) - 1) + 1))
        assert found == expected
    offsets = [map_offset(offset) for offset in range(len(normalized) + 1)]
    assert offsets == sorted(offsets)


@pytest.mark.parametrize("removed", ["字" * 200, " " * 5000])
def test_offsets_after_a_long_removed_part_are_right(removed: str) -> None:
    words = " ".join(f"word{number}" for number in range(200))
    text = f"Some {removed} {words}"
    normalized = f"Some ⁇ {words}" if removed.strip() else f"Some {words}"
    map_offset = build_offset_mapper(normalized, text)
    for number in (0, 9, 150):
        word = f"word{number} "
        assert map_offset(normalized.index(word)) == text.index(word)


@pytest.mark.parametrize(
    ("normalized", "text"),
    [
        ("a s ", "a %s "),
        ("a ⁇ s ", "a %s "),
        ("{ a } b ", "{a} b "),
        ("< p > a ", "<p>a"),
        ("a ", "a  "),
        ("xyz", "abc"),
    ],
)
def test_offsets_are_mapped_in_linear_time(normalized: str, text: str) -> None:
    def map_all(count: int) -> None:
        map_offset = build_offset_mapper(normalized * count, text * count)
        for offset in range(count):
            map_offset(offset)

    assert_linear(map_all, 80)


def test_words_of_unspaced_scripts_are_found_in_linear_time() -> None:
    assert_linear(lambda n: find_word_offsets("猫 " * n, set(range(2 * n))), 1000)
