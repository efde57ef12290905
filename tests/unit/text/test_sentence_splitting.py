"""Splitting of texts and long sentences."""

from __future__ import annotations

import time

import pytest

from seq2see.errors import InputError
from seq2see.text import TextSpan, sentence_splitting, split_long_sentence, split_sentences
from seq2see.translator import Translation, join_translations

HUNDRED_THOUSAND = 100_000


def texts(spans: list[TextSpan]) -> list[str]:
    return [span.text for span in spans]


def copy_spans(text: str, spans: list[TextSpan]) -> str:
    """Return the text with each span replaced by its own text."""
    return join_translations(text, spans, [Translation(span.text, 0, 0) for span in spans]).text


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Mr. Smith is here.  How are you?\n\nFine!", 3),
        ("de", "Das ist z. B. gut. Der 3. Mai war schön.", 2),
        ("fr", "Quoi\u00a0? Oui\u202f! Bon.", 3),
        ("zh", "你好。今天天气很好！我们去吧？", 3),
        ("zh", "我病了。2天前他来了！14。“好。”3点。", 5),
        ("zh", "『好。』【我走了！】他来了。“『好。』”他说。", 4),
        ("ja", "『はい。』", 1),
        ("zh", "今天是2.14，他付了3.5美元。", 1),
        ("zh_Hant", "你好。今天天氣很好！", 2),
        ("ja", "そうです。行きましょう。", 2),
        ("hi", "यह एक है। यह दो है।", 2),
        ("EN-gb", "One. Two.", 2),
        ("tlh", "One. Two.", 2),
        ("", "One. Two.", 2),
        ("en", "no end", 1),
        ("en", "", 0),
        ("en", " \n\t ", 0),
    ],
)
def test_number_of_sentences(language: str, text: str, expected: int) -> None:
    spans = split_sentences(text, language)
    assert len(spans) == expected
    assert all(text[span.start : span.end] == span.text == span.text.strip() for span in spans)
    assert copy_spans(text, spans) == text


def test_closing_marks_belong_to_the_sentence_before_them() -> None:
    assert texts(split_sentences("『好。』他来了。", "zh")) == ["『好。』", "他来了。"]
    assert texts(split_sentences("【好！】』他来了。", "zh")) == ["【好！】』", "他来了。"]


def words(text: str) -> int:
    return len(text.split())


def cut(text: str, limit: int) -> list[str]:
    return texts(split_long_sentence(TextSpan(text, 0), limit, len))


def test_short_span_is_not_split() -> None:
    span = TextSpan("some words, and more", 5)
    assert split_long_sentence(span, 4, words) == [span]


def test_split_at_clauses_first() -> None:
    assert cut("one two, three; four five", 16) == ["one two, three;", "four five"]
    assert cut("costs 1,000 or 2,000, not more", 22) == ["costs 1,000 or 2,000,", "not more"]
    assert cut("一二三，四五六、七八九。", 5) == ["一二三，", "四五六、", "七八九。"]


def test_long_clause_is_split_at_white_space() -> None:
    assert cut("one two three four", 9) == ["one two", "three", "four"]
    assert cut("a, one two three, b", 9) == ["a,", "one two", "three,", "b"]


def test_long_word_is_split_between_grapheme_clusters() -> None:
    assert cut("abcdefgh", 3) == ["abc", "def", "gh"]
    assert cut("e\u0301e\u0301e\u0301", 3) == ["e\u0301"] * 3
    assert cut("👩‍👩‍👧👩‍👩‍👧", 7) == ["👩‍👩‍👧"] * 2
    assert cut("🇫🇷🇩🇪🇪🇸", 3) == ["🇫🇷", "🇩🇪", "🇪🇸"]
    assert cut("👍🏽👍🏽", 3) == ["👍🏽", "👍🏽"]
    assert cut("\u1100\u1161\u11a8\u1100\u1161\u11a8", 4) == ["\u1100\u1161\u11a8"] * 2
    assert cut("कि कि", 2) == ["कि", "कि"]


def test_long_cluster_is_split_between_code_points() -> None:
    assert cut("e\u0301\u0302\u0303", 2) == ["e\u0301", "\u0302\u0303"]
    assert texts(split_long_sentence(TextSpan("漢字", 0), 2, lambda text: 3 * len(text))) == [
        "漢",
        "字",
    ]


def test_offsets_refer_to_the_whole_text() -> None:
    text = "First. A rather long second sentence."
    second = split_sentences(text, "en")[1]
    parts = split_long_sentence(second, 10, len)
    assert all(text[part.start : part.end] == part.text for part in parts)
    assert copy_spans(text, parts) == text


def test_max_tokens_must_be_positive() -> None:
    with pytest.raises(InputError, match="`max_tokens` must be at least 1, but is 0 instead"):
        split_long_sentence(TextSpan("a", 0), 0, len)


@pytest.mark.parametrize(
    "unit",
    [
        *("a", ".", "\n", " ", "A. ", "你好。", "«a. ", '"', "(", "word ", "a.", "A.\n\n"),
        *("e\u0301", "🇫", ", ", "，", "Mr. ", "\u200d", "\0", "... ", "1,0"),
    ],
)
def test_long_text_is_split_in_linear_time(unit: str) -> None:
    text = (unit * HUNDRED_THOUSAND)[:HUNDRED_THOUSAND]
    start = time.process_time()
    spans = split_sentences(text, "en")
    parts = [part for span in spans for part in split_long_sentence(span, 100, len)]
    assert time.process_time() - start < 2
    assert copy_spans(text, spans) == text
    assert copy_spans(text, parts) == text


def test_sentences_do_not_depend_on_the_window() -> None:
    """Sentence ends must not depend on the position of the window."""
    text = "The animal did not cross the street. It was too tired! " * 300
    assert len(split_sentences(text, "en")) == 600
    assert (
        len(split_sentences("word " * 2000 + "end. Next one. " + "word " * 2000 + "end.", "en"))
        == 3
    )


def test_panic_of_sentencex_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    def panic(code: str, text: str) -> list[str]:
        raise PanicException

    monkeypatch.setattr(sentence_splitting.sentencex, "segment", panic)
    assert texts(split_sentences(" One. Two. ", "en")) == ["One. Two."]


@pytest.mark.parametrize("space", ["\u2028", "\x85", "\u00a0", "\u3000"])
def test_non_ascii_space_before_full_stop(space: str, capfd: pytest.CaptureFixture[str]) -> None:
    """These characters make sentencex panic."""
    text = f"i.e.A{space}. “B”"
    assert copy_spans(text, split_sentences(text, "pt")) == text
    assert capfd.readouterr().err == ""


def test_unpaired_surrogate_raises_input_error() -> None:
    with pytest.raises(InputError, match="half of a surrogate pair"):
        split_sentences("One\ud83d. Two.", "en")
