"""Properties of any Unicode text: round trip, subword sampling, sentence splitting."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given, settings, strategies as st

from seq2see.text import (
    UNK_ID,
    TextSpan,
    Tokenizer,
    TokenizerConfig,
    normalize_unicode_and_spaces,
    split_long_sentence,
    split_sentences,
)
from seq2see.text.normalization import escape_meta_space, normalize_and_escape, unescape_meta_space
from seq2see.text.subword_sampling import SegmenterVocabulary, segment_with_unigram
from seq2see.translator import Translation, join_translations

SYMBOLS = ("⟦0⟧", "<x>", "<x>y")
NASTY = [
    *(
        "▁",
        "▁▁",
        "\x1b",
        "\x1b_",
        "\x1b\x1b",
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\0",
        "\x85",
        "\u2028",
    ),
    *("<s>", "</s>", "<pad>", "<unk>", "<0x41>", "▅", "⁇", "\ufeff", "\ufffd", "\u00a0", "\u202f"),
    *("e\u0301", "\u0301", "\u200f", "\u200d", "👩‍👩‍👧", "🇫🇷", "각", "½", "ﬁ", "\u3000"),
    *(
        "the animal",
        "street",
        "Mr. ",
        "A.",
        "A\u2028. B",
        "。",
        "“",
        "”",
        "(",
        ")",
        "... ",
        *SYMBOLS,
    ),
]
unicode = st.text(st.characters(exclude_categories=["Cs"]))
texts = st.lists(unicode | st.sampled_from(NASTY)).map("".join)
normalisations = st.sampled_from(["nfc", "nfkc", "none"])
many = settings(max_examples=150)


def corpus() -> list[str]:
    """Return enough sentences for a few hundred pieces."""
    stems = ["anim", "street", "tir", "cross", "hous", "größ", "lauf", "voilà", "jump", "aaaaa"]
    ends = ["", "s", "ed", "ing", "er", "en", "ation", "'t", "ly", "aaa"]
    words = [start + stem + end for start, stem, end in product(["", "un", "re"], stems, ends)]
    return [" ".join(words[i * k % len(words)] for k in range(1, 9)) + "." for i in range(299)]


KINDS = ["bpe", "unigram"]


@pytest.fixture(scope="session")
def tokenizers() -> dict[tuple[str, str], Tokenizer]:
    return {
        (kind, how): Tokenizer.train(
            corpus(),
            TokenizerConfig(
                model_type=kind, vocab_size=320, normalization=how, user_defined_symbols=SYMBOLS
            ),
        )
        for kind, how in product(KINDS, ["nfc", "nfkc", "none"])
    }


@pytest.mark.parametrize("kind", KINDS)
@many
@given(texts, normalisations)
def test_decoding_returns_the_normalized_text(
    tokenizers: dict[tuple[str, str], Tokenizer], kind: str, text: str, how: str
) -> None:
    tokenizer = tokenizers[kind, how]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == tokenizer.normalize(text)
    assert UNK_ID not in ids
    if how == "none":
        assert tokenizer.decode(ids) == text


@given(unicode | texts, normalisations)
def test_normalization_is_idempotent(text: str, how: str) -> None:
    assert normalize_unicode_and_spaces(
        normalize_unicode_and_spaces(text, how), how
    ) == normalize_unicode_and_spaces(text, how)


MARKS = "\u0301\u0323\u0344\u0345\u0f71\u0f73\u3099\uff9eeé \u1100\u1161"


@given(st.text(st.sampled_from(MARKS), max_size=300), st.sampled_from(["nfc", "nfkc"]))
def test_long_runs_of_marks_are_normalized_as_by_unicodedata(text: str, how: str) -> None:
    text = f"e{text}{text * 9}"
    expected = " ".join(unicodedata.normalize(how.upper(), text).split())
    assert normalize_unicode_and_spaces(text, how) == expected


@given(texts)
def test_escaping_is_reversible(text: str) -> None:
    assert "▁" not in escape_meta_space(text)
    assert unescape_meta_space(escape_meta_space(text)) == text


@given(st.lists(texts), normalisations)
def test_batch_normalization_equals_single_normalization(lines: list[str], how: str) -> None:
    alone = [escape_meta_space(normalize_unicode_and_spaces(line, how)) for line in lines]
    assert normalize_and_escape(lines, how) == alone
    copies = 300 // len(alone) + 1 if alone else 0  # above one block
    assert normalize_and_escape(lines * copies, how) == alone * copies


@given(st.lists(texts), st.integers(1, 3))
def test_batch_encoding_equals_single_encoding(
    tokenizers: dict[tuple[str, str], Tokenizer], lines: list[str], threads: int
) -> None:
    tokenizer = tokenizers["bpe", "nfc"]
    assert tokenizer.encode_batch(lines, threads) == [tokenizer.encode(line) for line in lines]


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.integers(0, 319)))
def test_any_ids_can_be_decoded(
    tokenizers: dict[tuple[str, str], Tokenizer], kind: str, ids: list[int]
) -> None:
    assert isinstance(tokenizers[kind, "nfc"].decode(ids), str)


@pytest.mark.parametrize("kind", KINDS)
@given(texts, normalisations)
def test_symbols_are_never_split(
    tokenizers: dict[tuple[str, str], Tokenizer], kind: str, text: str, how: str
) -> None:
    tokenizer = tokenizers[kind, how]
    kept = tokenizer.normalize(text)
    for ids in (tokenizer.encode(text), tokenizer.sample(text, 0.5, 1, 2, 3)):
        found = {symbol: ids.count(tokenizer.pieces.index(symbol)) for symbol in SYMBOLS}
        assert found["⟦0⟧"] == kept.count("⟦0⟧")
        assert found["<x>y"] == kept.count("<x>y")  # the longest one wins
        assert found["<x>"] == kept.count("<x>") - kept.count("<x>y")


@many
@given(texts, normalisations)
def test_bpe_without_dropout_equals_encode(
    tokenizers: dict[tuple[str, str], Tokenizer], text: str, how: str
) -> None:
    tokenizer = tokenizers["bpe", how]
    assert tokenizer.sample(text, 0.0, 1, 2, 3) == tokenizer.encode(text)
    # so small a rate goes the whole way of sampling, and never comes to a drop
    assert tokenizer.sample(text, 1e-15, 1, 2, 3) == tokenizer.encode(text)


@many
@given(texts, normalisations)
def test_unigram_without_dropout_scores_as_encode(
    tokenizers: dict[tuple[str, str], Tokenizer], text: str, how: str
) -> None:
    """Rounding decides between equal scores, so scores are compared instead of ids."""
    tokenizer = tokenizers["unigram", how]
    ours, theirs = tokenizer.sample(text, 1e-15, 1, 2, 3), tokenizer.encode(text)
    assert tokenizer.sample(text, 0.0, 1, 2, 3) == theirs
    scores = [tokenizer._processor.get_score(i) for i in range(tokenizer.vocab_size)]
    assert sum(scores[i] for i in ours) == pytest.approx(sum(scores[i] for i in theirs), abs=1e-3)


close_scores = st.integers(-30, -10).map(lambda tenths: tenths / 10)
lexicons = st.dictionaries(st.text("abc", min_size=1, max_size=4), close_scores, min_size=1)


def cuts(word: str, start: int = 0) -> Iterator[list[tuple[int, int]]]:
    """Yield all segmentations of a word, as offsets."""
    if start == len(word):
        yield []
    for end in range(start + 1, len(word) + 1):
        yield from ([(start, end), *rest] for rest in cuts(word, end))


@many
@given(lexicons, st.text("abc", max_size=7), st.sets(st.integers(0, 12)))
def test_unigram_finds_the_best_segmentation(
    scores: dict[str, float], word: str, drops: set[int]
) -> None:
    ids = {piece: number for number, piece in enumerate(scores)}
    unknown = len(ids)
    vocabulary = SegmenterVocabulary(ids, scores, [], unknown)
    count, pieces = segment_with_unigram(vocabulary, word, iter(sorted(drops)))
    found = vocabulary.encode_pieces(pieces)
    spans = [(a, b) for a, b in combinations(range(len(word) + 1), 2)]
    decisions = [(a, b) for a, b in spans if b > a + 1 and word[a:b] in scores]
    assert count == len(decisions)
    kept = {span for number, span in enumerate(decisions) if number not in drops}

    def score(cut: list[tuple[int, int]]) -> float:
        if any(b > a + 1 and (a, b) not in kept for a, b in cut):
            return float("-inf")
        return sum(scores.get(word[a:b], min(scores.values()) - 10) for a, b in cut)

    best = max(map(score, cuts(word)))
    values = [*scores.values(), min(scores.values()) - 10]
    assert sum(values[i] for i in found) == pytest.approx(best)


@pytest.mark.parametrize("kind", KINDS)
@many
@given(texts, normalisations, st.floats(0, 1), st.tuples(*[st.integers(0, 2**40)] * 3))
def test_sampled_ids_decode_to_the_same_text(
    tokenizers: dict[tuple[str, str], Tokenizer],
    kind: str,
    text: str,
    how: str,
    rate: float,
    key: tuple[int, int, int],
) -> None:
    tokenizer = tokenizers[kind, how]
    ids = tokenizer.sample(text, rate, *key)
    assert tokenizer.decode(ids) == tokenizer.normalize(text)
    fresh = Tokenizer(tokenizer.serialized_model)  # no memory of earlier words
    assert fresh.sample(text, rate, *key) == ids


languages = st.sampled_from(["en", "de", "fr", "zh", "ja", "ar", "hi", "my", "pt_BR", "xx", ""])


def check_spans(text: str, start: int, spans: list[TextSpan]) -> None:
    """Check that spans are stripped parts of the text, with only white space around them."""
    end = start + len(text)
    gaps = (
        [(start, spans[0].start), *((a.end, b.start) for a, b in pairwise(spans))] if spans else []
    )
    last = spans[-1].end if spans else start
    for left, right in [*gaps, (last, end)]:
        assert left <= right
        assert not text[left - start : right - start].strip()
    for span in spans:
        assert span.text == text[span.start - start : span.end - start] == span.text.strip() != ""


@many
@given(texts, languages)
def test_sentences_and_gaps_form_the_text(text: str, language: str) -> None:
    spans = split_sentences(text, language)
    check_spans(text, 0, spans)
    copies = [Translation(span.text, 0, 0) for span in spans]
    assert join_translations(text, spans, copies).text == text


@many
@given(texts, st.integers(1, 30), st.integers(0, 9))
def test_parts_of_long_sentences_respect_the_limit(
    tokenizers: dict[tuple[str, str], Tokenizer], text: str, limit: int, start: int
) -> None:
    def count(part: str) -> int:
        return len(tokenizers["bpe", "nfc"].encode(part))

    parts = split_long_sentence(TextSpan(text, start), limit, count)
    check_spans(text, start, parts)
    assert all(count(part.text) <= limit or len(part.text) == 1 for part in parts)
    if count(text.strip()) <= limit:
        assert len(parts) <= 1
