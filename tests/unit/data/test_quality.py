"""The doctor finds each damage that was done, where it was done, and next to nothing else."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

import numpy as np
import pytest

from seq2see.data import digit_tasks, fables
from seq2see.data.quality.analysis import AcceptedPair, RejectedPair, analyze_corpus, filter_corpus
from seq2see.data.quality.config import RULES, QualityConfig
from seq2see.data.quality.corpus_model import LengthRatioModel, collect_statistics
from seq2see.data.quality.languages import find_other_script
from seq2see.data.quality.line_shifts import find_line_shifts
from seq2see.data.quality.model_suggestion import suggest_model
from seq2see.data.quality.report import CorpusFinding, CorpusReport, Distribution
from seq2see.data.quality.rules import encoding_problem, find_unmatched_markup, numbers_differ
from seq2see.data.quality.words import compute_match_key, extract_words
from seq2see.data.readers import SentencePair
from seq2see.errors import ConfigError, InputError
from seq2see.text import Tokenizer, TokenizerConfig, TokenizerPair

LANGUAGES = ("en", "fr")


def made_up(letters: str, space: str) -> list[SentencePair]:
    """Return pairs of one to eight words of one to three letters each."""
    random = np.random.default_rng(3)

    def line() -> str:
        lengths = random.integers(1, 4, random.integers(1, 9))
        return space.join("".join(random.choice(list(letters), n)) for n in lengths)

    return [SentencePair(line(), line()) for _ in range(1000)]


CORPORA: dict[str, Callable[[], list[SentencePair]]] = {
    "fables": lambda: [
        SentencePair(f.source, f.target) for f in fables.load_fables("train", short=True)
    ],
    "digits": lambda: [
        SentencePair(*pair) for pair in digit_tasks.load_digit_pairs("reverse", "train")
    ],
    "hindi": lambda: [SentencePair(p.source, f"यह {p.target} है।") for p in made_up("कखगमनिीुे", " ")],
    "chinese": lambda: made_up("我你他们的是不在有人", ""),
    "marks": lambda: [SentencePair("!", "！"), SentencePair("...", "…")],
}


@pytest.fixture(scope="module")
def pairs() -> list[SentencePair]:
    """1,200 good pairs, each source once."""
    found = {fable.source: fable.target for fable in fables.load_fables("train", short=True)}
    every = [SentencePair(*pair) for pair in sorted(found.items())]
    return [every[i] for i in drawn(1200, len(every))]


def drawn(count: int, limit: int) -> list[int]:
    """Draw different numbers below a limit, always the same."""
    return [int(i) for i in np.random.default_rng(7).permutation(limit)[:count]]


@pytest.fixture
def lingua() -> None:
    """Use the detector; tests without this go without it, which is quicker."""
    pytest.importorskip("lingua")


@pytest.fixture(autouse=True)
def _no_lingua(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "lingua" not in request.fixturenames:
        monkeypatch.setattr("seq2see.data.quality.languages.is_lingua_installed", lambda: False)


def rejected(
    pairs: Sequence[SentencePair],
    languages: tuple[str, str] | None = LANGUAGES,
    held_out: Iterable[SentencePair] = (),
    config: QualityConfig | None = None,
) -> dict[int, RejectedPair]:
    """Return what cleaning rejects, by line; every pair must come out once, in its order."""
    verdicts = list(filter_corpus(pairs, config, languages, held_out))
    assert [(v.line, v.pair) for v in verdicts] == list(enumerate(pairs, start=1))
    return {v.line: v for v in verdicts if isinstance(v, RejectedPair)}


def named(report: CorpusReport, name: str) -> CorpusFinding:
    (finding,) = (f for f in report.findings if f.name == name)
    return finding


def test_a_good_corpus_is_healthy(pairs: list[SentencePair]) -> None:
    report = analyze_corpus(pairs, languages=LANGUAGES)
    assert report.is_clean
    assert report.num_accepted >= report.num_pairs - 1
    assert not report.shifts
    assert report.overlap is None
    assert report.source.words_per_line.total == sum(
        len(extract_words(pair.source)) for pair in pairs
    )
    assert report.target.characters_per_line.quantiles["100"] == max(
        len(pair.target) for pair in pairs
    )
    assert 1 < report.length_ratio.median < 1.4


@pytest.mark.usefixtures("lingua")
def test_languages_are_found_without_being_stated(pairs: list[SentencePair]) -> None:
    report = analyze_corpus(pairs[:300])
    assert (report.source.detected_language, report.target.detected_language) == LANGUAGES
    assert report.skipped_checks == ()


DAMAGES: dict[str, Callable[[SentencePair, int], SentencePair]] = {
    "empty": lambda pair, i: SentencePair(pair.source, ("", " \u3000", "…", "\u200b")[i % 4]),
    "broken_encoding": lambda pair, i: SentencePair(
        pair.source,
        (
            pair.target + " Chèvre fatiguée".encode().decode("cp1252"),
            pair.target.replace("e", "\ufffd"),
            pair.target + "\x07",
        )[i % 3],
    ),
    "too_long": lambda pair, _: SentencePair(
        pair.source + " word" * 300, pair.target + " mot" * 300
    ),
    "unmatched_markup": lambda pair, i: SentencePair(
        f"<b>{pair.source}</b>" if i % 2 else "&amp;", pair.target
    ),
    "identical": lambda pair, _: SentencePair(pair.source, pair.source),
    "swapped": lambda pair, _: SentencePair(pair.target, pair.source),
    "wrong_language": lambda pair, _: SentencePair(pair.source, f"But today {pair.source}"),
    "length_ratio": lambda pair, _: SentencePair(pair.source, f"{pair.target} " * 9),
}


@pytest.mark.parametrize("rule", DAMAGES)
def test_each_damage_is_found(pairs: list[SentencePair], rule: str) -> None:
    check_that_it_is_found(pairs, rule)


@pytest.mark.usefixtures("lingua")
@pytest.mark.parametrize("rule", ["swapped", "wrong_language"])
def test_lingua_finds_no_less(pairs: list[SentencePair], rule: str) -> None:
    check_that_it_is_found(pairs, rule)


def check_that_it_is_found(pairs: list[SentencePair], rule: str) -> None:
    long = [i for i, pair in enumerate(pairs) if len(extract_words(pair.source)) > 6]
    places = [long[i] for i in drawn(24, len(long))]
    damaged = list(pairs)
    for i, place in enumerate(places):
        damaged[place] = DAMAGES[rule](pairs[place], i)
    found = rejected(damaged)
    rules = Counter(found[place + 1].rule for place in places)
    assert rules[rule] >= 22, rules  # a pair may look better as something else
    assert rules.total() == 24
    assert len(found) <= 24 + 2


def test_repeated_pairs_but_the_first(pairs: list[SentencePair]) -> None:
    found = rejected([*pairs, *pairs[:30]])
    assert [line for line in found if found[line].rule == "duplicate"] == list(range(1201, 1231))


def test_shuffled_targets_are_mostly_found(pairs: list[SentencePair]) -> None:
    places = drawn(60, 1200)
    shuffled = list(pairs)
    for place, other in zip(places, places[1:] + places[:1], strict=True):
        shuffled[place] = SentencePair(pairs[place].source, pairs[other].target)
    found = {line - 1 for line in rejected(shuffled)}
    assert len(found & set(places)) >= 50
    assert len(found - set(places)) <= 3


def test_a_pair_does_not_vouch_for_itself(pairs: list[SentencePair]) -> None:
    """Wrong pairs with a rare name on either side teach nothing about each other."""
    wrong = [
        SentencePair(pairs[i].source + f" zyx{i}", pairs[i + 500].target + f" uvw{i}")
        for i in range(0, 400, 10)
    ]
    found = rejected([*pairs[400:], *wrong])
    assert sum(line > 800 for line in found) >= 30


def shifted(pairs: Sequence[SentencePair], first: int, last: int, lines: int) -> list[SentencePair]:
    """Move the targets of lines first to last, counted from 1, by some lines."""
    inside = list(range(first - 1, last))
    moved = {i: inside[(k - lines) % len(inside)] for k, i in enumerate(inside)}
    return [SentencePair(p.source, pairs[moved.get(i, i)].target) for i, p in enumerate(pairs)]


@pytest.mark.parametrize(
    ("first", "last", "lines"),
    [(704, 1200, 1), (704, 1200, -1), (1, 1200, 2), (1100, 1200, 4), (300, 900, -3)],
)
def test_a_shift_is_found_where_it_begins(
    pairs: list[SentencePair], first: int, last: int, lines: int
) -> None:
    report = analyze_corpus(shifted(pairs, first, last, lines), languages=LANGUAGES)
    (shift,) = report.shifts
    assert shift.line_offset == lines
    assert abs(shift.first_line - first) <= 6
    assert abs(shift.last_line - last) <= 6 + abs(lines)
    finding = named(report, "shifted")
    assert finding.severity == "fault"
    assert f"{abs(lines)} line" in finding.text
    assert ("late" if lines > 0 else "early") in finding.text
    assert all(shift.first_line <= example.line <= shift.last_line for example in finding.examples)
    assert len(finding.examples) == 5


def test_two_shifts(pairs: list[SentencePair]) -> None:
    twice = shifted(shifted(pairs, 200, 500, 1), 800, 1200, -2)
    assert [shift.line_offset for shift in analyze_corpus(twice).shifts] == [1, -2]


def test_lines_in_order_of_length_are_not_shifted(pairs: list[SentencePair]) -> None:
    by_length = sorted(pairs, key=lambda pair: len(pair.source))
    assert not analyze_corpus(by_length).shifts


def test_shifts_at_random_lengths() -> None:
    lengths = np.random.default_rng(0).integers(10, 200, 500)
    assert find_line_shifts(lengths, lengths[::-1].copy(), 5) == ()
    assert [s.line_offset for s in find_line_shifts(lengths, np.roll(lengths, 3), 5)] == [3]


@pytest.mark.usefixtures("lingua")
def test_files_in_the_wrong_order(pairs: list[SentencePair]) -> None:
    crossed = [SentencePair(pair.target, pair.source) for pair in pairs[:100]]
    assert "the other way" in named(analyze_corpus(crossed, languages=LANGUAGES), "sides").text
    assert {v.rule for v in rejected(crossed).values()} == {"swapped"}
    assert not rejected(crossed, ("fr", "en"))


def test_files_of_two_scripts_in_the_wrong_order() -> None:
    """Without lingua, scripts tell Russian from English; French they cannot."""
    russian = [f"Старик медленно идёт домой, уже {i} часов, очень поздно." for i in range(60)]
    english = [f"The old man walks slowly home, it is {i} o'clock, very late." for i in range(60)]
    mixed = [SentencePair(*pair) for pair in zip(russian, english, strict=True)]
    report = analyze_corpus(mixed, languages=("en", "ru"))
    assert named(report, "sides").severity == "fault"
    assert "the other way" in named(report, "sides").text
    assert {v.rule for v in rejected(mixed, ("en", "ru")).values()} == {"swapped"}
    assert not rejected(mixed, ("ru", "en"))


@pytest.mark.usefixtures("lingua")
def test_another_language_than_stated(pairs: list[SentencePair]) -> None:
    report = analyze_corpus(pairs[:300], languages=("en", "de"))
    assert named(report, "sides").text == "Most of the target seems to be fr, but de was stated."
    assert not rejected(pairs[:300], ("en", "fr"))


def test_two_files_that_have_nothing_in_common(pairs: list[SentencePair]) -> None:
    targets = [pairs[i].target for i in drawn(1200, 1200)]
    report = analyze_corpus(
        [SentencePair(p.source, t) for p, t in zip(pairs, targets, strict=True)]
    )
    assert named(report, "unrelated").severity == "fault"


GERMAN = [
    "Ich habe gestern mit meinem Bruder im Garten gegessen und getrunken.",
    "Warum hast du mir nicht gesagt, dass du heute nicht kommen kannst?",
    "Wir müssen noch einkaufen gehen, bevor die Läden schließen.",
    "Der alte Mann saß auf der Bank und fütterte langsam die Vögel.",
    "Es wäre schön, wenn du uns nächste Woche wieder besuchen würdest.",
]
RUSSIAN = "Старый медведь не ест грушу, потому что она слишком горькая."


@pytest.mark.usefixtures("lingua")
def test_third_languages(pairs: list[SentencePair]) -> None:
    lines = [
        *pairs,
        *(SentencePair(pairs[i].source + f" {i}", text) for i, text in enumerate(GERMAN)),
    ]
    found = rejected(lines)
    reasons = [found[line].reason for line in range(1201, 1206) if line in found]
    assert reasons.count("the target seems to be de") >= 4
    assert not any(v.rule == "wrong_language" for line, v in found.items() if line <= 1200)


@pytest.mark.usefixtures("lingua")
def test_many_lines_in_a_third_language(pairs: list[SentencePair]) -> None:
    """Where every fifth line is German, German words are no longer unusual."""
    mixed = [
        SentencePair(pair.source, f"{GERMAN[i % 4]} {GERMAN[-1]} {i}") if i % 5 == 0 else pair
        for i, pair in enumerate(pairs)
    ]
    found = rejected(mixed)
    assert sum(line % 5 == 1 for line in found) >= 230
    assert sum(line % 5 != 1 for line in found) <= 5


def test_without_the_detector_scripts_and_words_remain(pairs: list[SentencePair]) -> None:
    lines = [
        *pairs,
        SentencePair(pairs[0].source + "!", RUSSIAN),
        SentencePair(pairs[0].source, pairs[1].source),
    ]
    found = rejected(lines)
    assert found[1201].reason == "the target seems to be in Cyrillic script"
    assert found[1202].rule == "wrong_language"
    report = analyze_corpus(lines, languages=LANGUAGES)
    assert "seq2see[languages]" in report.skipped_checks[0]
    assert report.source.detected_language is None


@pytest.mark.usefixtures("lingua")
def test_a_language_that_the_detector_does_not_know(pairs: list[SentencePair]) -> None:
    report = analyze_corpus(pairs[:100], languages=("en", "gsw"))
    assert not any(finding.name == "sides" for finding in report.findings)
    assert "`gsw` is not a language that the detector knows." in report.skipped_checks


@pytest.mark.usefixtures("lingua")
def test_names_are_of_no_language() -> None:
    good = [
        SentencePair(f"We met {i} of them there", f"Nous y avons rencontré {i} amis")
        for i in range(99)
    ]
    names = SentencePair("Tōkyō, Kyōto, Ōsaka and Hokkaidō", "Tōkyō, Kyōto, Ōsaka et Hokkaidō")
    assert not rejected([*good, names])


def test_what_is_held_out(pairs: list[SentencePair]) -> None:
    held_out = [
        pairs[0],
        SentencePair(pairs[1].source.upper() + " !", "autre"),
        SentencePair("Unseen.", "Inédit."),
    ]
    report = analyze_corpus(pairs, languages=LANGUAGES, test_pairs=held_out)
    assert report.overlap is not None
    assert report.overlap.num_test_pairs == 3
    assert report.overlap.exact_sources == 1
    assert report.overlap.matching_sources == 2
    assert report.overlap.matching_pairs == 1
    assert "2 of 3 are here, 1 to the letter" in named(report, "in_test_set").text
    found = rejected(pairs, held_out=held_out)
    assert [line for line in found if found[line].rule == "in_test_set"] == [1, 2]


def test_a_held_out_line_without_words_is_nobodys() -> None:
    assert not rejected(
        [SentencePair("!", "！"), SentencePair("?", "？")], None, [SentencePair("…", "…")]
    )


def test_the_same_on_both_sides_is_right_for_names() -> None:
    report = analyze_corpus(
        [SentencePair("Miss Marple", "Miss Marple"), SentencePair("Yes.", "Oui.")]
    )
    assert report.num_accepted == 2
    assert named(report, "same").severity == "note"


@pytest.mark.parametrize(
    ("text", "is_copy"),
    [("Tom is here.", True), ("Tom is here", False), ("Oh, Tom!", False), ("我在这里。", True)],
)
def test_a_sentence_on_both_sides_is_untranslated(text: str, is_copy: bool) -> None:
    report = analyze_corpus([SentencePair(text, text), SentencePair("Yes.", "Oui.")])
    assert any(finding.name == "identical" for finding in report.findings) == is_copy


def test_the_usual_ratio_and_its_spread() -> None:
    source = np.full(1000, 100)
    target = np.random.default_rng(0).normal(200, 40, 1000).astype(int)  # 40 is 2 roots of 100, × 2
    ratio = LengthRatioModel.fit(source, target)
    assert ratio.median_ratio == pytest.approx(2, rel=0.03)
    assert ratio.scale == pytest.approx(2, rel=0.1)
    errors = ratio.compute_deviations(np.array([100, 100, 400]), np.array([200, 320, 800 + 240]))
    assert errors == pytest.approx([0, 3, 3], abs=0.6)  # the same error is less in a longer line


def test_lines_are_counted_over_all_batches() -> None:
    many = [SentencePair(f"source {i}", f"target {i}") for i in range(4200)]
    many[4149] = SentencePair("source", "")
    assert list(rejected(many, None)) == [4150]
    (example,) = named(analyze_corpus(many), "empty").examples
    assert (example.line, example.reason) == (4150, "the target has no words")


def test_sources_with_many_targets(pairs: list[SentencePair]) -> None:
    more = [
        *pairs[:100],
        *(SentencePair(pairs[0].source, f"{pairs[0].target} {i}") for i in range(3)),
    ]
    finding = named(analyze_corpus(more), "many_targets")
    assert finding.count == 1
    assert "up to 4" in finding.text


def test_rules_can_be_left_out(pairs: list[SentencePair]) -> None:
    lines = [*pairs[:100], pairs[0], SentencePair("", "vide")]
    config = QualityConfig(clean_rules=("empty",))
    assert {v.rule for v in rejected(lines, config=config).values()} == {"empty"}
    report = analyze_corpus(lines, config)
    assert "clean" not in named(report, "duplicate").text
    assert "clean" in named(report, "empty").text
    assert report.num_accepted == 101
    with pytest.raises(ConfigError, match="clean_rules"):
        QualityConfig(clean_rules=("typos",))  # type: ignore[arg-type]


def test_counts_are_those_of_cleaning(pairs: list[SentencePair]) -> None:
    lines = [*pairs[:500], *pairs[:3], SentencePair("", "vide"), SentencePair("a" * 10_000, "b")]
    report = analyze_corpus(lines, languages=LANGUAGES)
    found = Counter(v.rule for v in rejected(lines).values())
    assert {f.name: f.count for f in report.findings if f.name in RULES} == found
    assert report.num_accepted == len(lines) - found.total()


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 299, 300])
def test_few_pairs(pairs: list[SentencePair], count: int) -> None:
    report = analyze_corpus(pairs[:count], languages=LANGUAGES)
    assert report.num_pairs == report.num_accepted == count
    assert report.is_clean == (count > 0)
    assert rejected(pairs[:count]) == {}
    json.dumps(report.to_json(), allow_nan=False)


WEIRD = [
    "\ud800",
    "\U0010ffff",
    "e\u0301" * 500,
    "👩‍👩‍👧 🇫🇷",
    "مرحبا بالعالم",
    "\u202e reversed",
    "x" * 100_000,
    "ไม่มีช่องว่างระหว่างคำ",
    "\x00",
    "\t\u2028",
]


def test_weird_lines(pairs: list[SentencePair]) -> None:
    lines = [*pairs[:400], *(SentencePair(a, b) for a in WEIRD for b in WEIRD)]
    report = analyze_corpus(lines, languages=LANGUAGES)
    assert report.num_pairs == 500
    assert all(v.pair in lines for v in filter_corpus(lines) if isinstance(v, AcceptedPair))
    json.dumps(report.to_json(), allow_nan=False)


def test_the_report_is_plain_json(pairs: list[SentencePair]) -> None:
    lines = shifted([*pairs[:500], *pairs[:9]], 200, 500, 1)
    report = analyze_corpus(lines, languages=LANGUAGES, test_pairs=pairs[:2])
    plain = report.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["is_clean"] is False
    assert plain["shifts"][0]["line_offset"] == 1
    assert [f["severity"] for f in plain["findings"]] == sorted(
        (f["severity"] for f in plain["findings"]), key=["fault", "warning", "note"].index
    )


def test_the_same_report_each_time(pairs: list[SentencePair]) -> None:
    lines = [*pairs[:600], *pairs[:50]]
    assert analyze_corpus(lines) == analyze_corpus(lines)


def test_what_can_be_read_once_is_refused(pairs: list[SentencePair]) -> None:
    with pytest.raises(InputError, match="must be a list, a `Corpus` or the like"):
        analyze_corpus(iter(pairs))
    with pytest.raises(InputError, match="but is an iterator instead"):
        next(iter(filter_corpus(iter(pairs))))


def test_a_corpus_is_read_anew_each_time(pairs: list[SentencePair]) -> None:
    readings: list[int] = []

    class File:
        def __iter__(self) -> Iterator[SentencePair]:
            readings.append(1)
            yield from pairs[:100]

    heard: list[tuple[str, int]] = []
    report = analyze_corpus(File(), on_stage=lambda doing, lines: heard.append((doing, lines)))
    assert report == analyze_corpus(pairs[:100])
    assert len(readings) == 2
    assert heard == [("reading", 100), ("judging", 100)]


def test_a_sample_is_drawn_from_all_lines(pairs: list[SentencePair]) -> None:
    numbered = [SentencePair(f"source {i}", f"target {i}") for i in range(20_000)]
    found = collect_statistics(numbered, 1000)
    assert 500 <= len(found.sample) <= 1000
    assert [pair.source for pair in found.sample] == [f"source {i}" for i in found.sample_indices]
    gaps = np.diff(found.sample_indices)
    assert set(gaps) == {1, gaps.max()}
    assert found.sample_indices[-1] > 20_000 - gaps.max() - 64
    assert analyze_corpus(pairs, QualityConfig(max_sample_pairs=600), LANGUAGES).is_clean


def test_characters_that_the_tokenizer_lacks(pairs: list[SentencePair]) -> None:
    config = TokenizerConfig(vocab_size=600)
    lines = [pair.source for pair in pairs[:300]]
    own = Tokenizer.train(lines, config)
    lossy = Tokenizer.train(lines, config.replace(byte_fallback=False, vocab_size=300))
    pair = SentencePair("The 龘 dog x e\u0301", "Le chien ▁ 龘龘")
    report = analyze_corpus([pair], tokenizers=TokenizerPair(own, lossy))
    source, target = report.source.uncovered_characters, report.target.uncovered_characters
    assert source is not None
    assert target is not None
    assert dict(source.most_common) == {"龘": 1, "é": 1}  # as normalisation leaves it
    assert source.encoded_as == "bytes"
    assert dict(target.most_common)["龘"] == 2
    assert target.encoded_as == "unknown"
    severities = {f.text.split("of the ")[1][:6]: f.severity for f in report.findings[:2]}
    assert severities["target"] == "warning"


@pytest.mark.parametrize(
    ("pairs", "preset", "least", "most"),
    [
        (1_000, "tiny", 500, 2_000),
        (30_000, "tiny", 6_000, 8_000),
        (150_000, "small", 10_000, 16_000),
        (1_000_000, "base", 24_000, 32_000),
        (20_000_000, "big", 32_000, 32_000),
    ],
)
def test_suggestions_grow_with_the_corpus(pairs: int, preset: str, least: int, most: int) -> None:
    many = " ".join(map("".join, product("abcdefghijklmnopqrstuvwxyz", repeat=4)))
    suggestion = suggest_model(pairs, pairs * 20, [SentencePair(many[:200_000], many[-200_000:])])
    assert suggestion.preset == preset
    assert least <= suggestion.vocab_size <= most


def test_each_character_gets_its_piece() -> None:
    many = "".join(chr(0x4E00 + i) for i in range(3000))
    suggestion = suggest_model(1_000, 20_000, [SentencePair(many, many)])
    assert suggestion.vocab_size >= 260 + 3000
    assert "different characters need pieces" in suggestion.reason


@pytest.mark.parametrize(
    "values",
    [np.array([3]), np.arange(1000), np.r_[np.ones(999, int), 10**6], np.linspace(0, 9, 50)],
)
def test_a_distribution_counts_everything(values: np.ndarray) -> None:
    found = Distribution.from_values(values)
    assert sum(found.counts) == len(values)
    assert len(found.edges) == len(found.counts) + 1
    assert list(found.edges) == sorted(set(found.edges))
    assert found.quantiles["0"] == values.min()
    assert found.quantiles["100"] == values.max()
    assert found.median == np.median(values)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Fu\u0308r Ärzte – „schön“, Žižek, Ÿ, € 5, ½, naïve Ã l’œuvre", None),
        ("São Tomé, Ångström, ÂME, Île, ÎLE DE RÉ", None),
        ("Привет, 世界, \u00a0!", None),
        ("«LIBERTÉ» «IRMÃ» “MAÑANÃ” JÄ… D’OÙ?", None),
        ("10 â€x", None),
        ("motÂ\u00a0!", "'Â\\xa0' for '\\xa0'"),
        ("25Â°C", "'Â°' for '°'"),
        ("fÃ¼r", "'Ã¼' for 'ü'"),
        ("itâ€™s", "'â€™' for '’'"),
        ("Ð¿Ñ€Ð¸Ð²ÐµÑ‚", "'Ð¿' for 'п'"),
        ("a\ufffdb", "U+FFFD"),
        ("a\x1bb", "U+001B"),
        ("tab\tand\u2028lines", None),
    ],
)
def test_broken_text(text: str, found: str | None) -> None:
    assert encoding_problem(text) == found


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ("a < b & c", "a < b & c", None),
        ("<b>x</b>", "<b>y</b>", None),
        ("<b>x</b>", "y", "<b>"),
        ("R&amp;B", "R&B", "&amp;"),
        ("x", 'y<br class="z"/>', '<br class="z"/>'),
        ("I <3 you", "Je t'<3", None),
    ],
)
def test_markup_on_one_side(source: str, target: str, found: str | None) -> None:
    assert find_unmatched_markup(source, target) == found


@pytest.mark.parametrize(
    ("source", "target", "differ"),
    [
        ("10,000 yen", "1万日元", False),
        ("at 2:30", "à 2 h 30", False),
        ("the 1980s", "die 80er", False),
        ("７ dogs", "7 Hunde", False),
        ("$1,000", "1 000 $", False),
        ("three dogs", "3 Hunde", False),
        ("in 1830", "vers 1930", True),
        ("30,000 men", "5.000 Mann", True),
        ("30 pounds", "14 kg", True),
    ],
)
def test_numbers(source: str, target: str, differ: bool) -> None:
    assert numbers_differ(source, target) is differ


def test_scripts() -> None:
    latin, han = frozenset({"LATIN"}), frozenset({"CJK"})
    assert find_other_script("Ærøskøbing – „œuvre“", latin) is None
    assert find_other_script("Привет, мир", latin) == "CYRILLIC"
    assert find_other_script("《The Doors: Live at The Hollywood Bowl 1968》海报", han) is None
    assert find_other_script("Two old brooms", han) == "LATIN"
    assert find_other_script("123 !", latin) is None


def test_words_and_folding() -> None:
    assert extract_words("It's 3 Dogs' 你好。") == ["it", "s", "3", "dogs", "你", "好"]
    assert compute_match_key(" Straße, NR. 5!") == compute_match_key("STRASSE nr 5")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("हिन्दी में, अच्छा!", ["हिन्दी", "में", "अच्छा"]),
        ("कै‌फ़े, क्‍ष", ["कै‌फ़े", "क्‍ष"]),
        ("تَعَلَّمَ العَرَبِيَّةَ", ["تَعَلَّمَ", "العَرَبِيَّةَ"]),
        ("שָׁלוֹם עוֹלָם", ["שָׁלוֹם", "עוֹלָם"]),
        ("café İzmir", ["café", "izmir"]),
        ("ไม่มี", ["ไ", "ม่", "มี"]),
        ("がく", ["が", "く"]),
        ("́ ❤️ 1️⃣ 👩‍👩‍👧", ["1"]),
    ],
)
def test_marks_are_part_of_their_words(text: str, found: list[str]) -> None:
    normal = [unicodedata.normalize("NFC", word) for word in found]
    for form in ("NFC", "NFD"):
        assert extract_words(unicodedata.normalize(form, text)) == normal


def test_folding_keeps_what_tells_sentences_apart() -> None:
    assert compute_match_key("हिंदी") != compute_match_key("हदा")
    assert compute_match_key("ไม่") != compute_match_key("ไม")
    assert compute_match_key("𞤢𞥄 😀_") == "𞤢𞥄" != compute_match_key("𞤢")
    assert compute_match_key("Café Nöel!") == compute_match_key("CAFÉ, NÖEL") == "cafénöel"
    assert compute_match_key("İZMİR") == compute_match_key("izmir")
    assert compute_match_key("❤️ 1️⃣") == compute_match_key("☀️ 1") == "1"


def test_a_long_line_of_devanagari_is_not_too_long() -> None:
    hindi = "हिन्दी में लिखा हुआ " * 40
    assert not rejected([SentencePair("Written in Hindi " * 40, hindi)], None)


def test_twins_in_two_normal_forms_are_the_same(pairs: list[SentencePair]) -> None:
    decomposed = [SentencePair(unicodedata.normalize("NFD", p.target), "x") for p in pairs[:9]]
    report = analyze_corpus(
        [SentencePair(p.target, p.source) for p in pairs[:9]], test_pairs=decomposed
    )
    assert report.overlap is not None
    assert report.overlap.matching_sources == 9


def test_carriage_returns_inside_lines() -> None:
    old = SentencePair("One.\rTwo.\rThree.", "Un.\rDeux.\rTrois.")
    finding = named(
        analyze_corpus([old, SentencePair("a b", "c d"), SentencePair("e\r\nf", "g\r\nh")]),
        "line_ends",
    )
    assert finding.severity == "warning"
    assert finding.count == 1
    assert finding.text.startswith("1 pair (33 %) has carriage returns inside lines")
    assert finding.examples[0].line == 1
    assert (
        "2 pairs (67 %) have"
        in named(analyze_corpus([old, old, SentencePair("a b", "c d")]), "line_ends").text
    )


def one_of_each() -> list[SentencePair]:
    """Return a corpus in which each finding is about one pair."""
    return [
        SentencePair("This is the same text here", "This is the same text here"),
        SentencePair("A dog runs.", ""),
        SentencePair("Broken � text", "Texte"),
        SentencePair("word " * 300, "mot " * 300),
        SentencePair("<b>Bold</b> words", "Des mots gras"),
        SentencePair("In 1830 he went home", "Vers 1930 il rentra"),
        SentencePair("Miss Marple", "Miss Marple"),
        SentencePair("Twice the same", "Deux fois"),
        SentencePair("Twice the same", "Deux fois"),
        SentencePair("Two targets", "Deux cibles"),
        SentencePair("Two targets", "Deux buts"),
        SentencePair("It is held out", "Mis de côté"),
        SentencePair("Old\rMac", "Vieux\rMac"),
    ]


def test_one_is_singular() -> None:
    tokenizer = Tokenizer.train(["abc " * 9], TokenizerConfig(vocab_size=265))
    held_out = [SentencePair("It is held out", "x"), SentencePair("Not here", "y")]
    report = analyze_corpus(one_of_each(), test_pairs=held_out)
    texts = {finding.name: finding.text for finding in report.findings}
    assert {
        "empty",
        "broken_encoding",
        "too_long",
        "unmatched_markup",
        "identical",
        "duplicate",
    } < texts.keys()
    assert {"in_test_set", "number_mismatch", "same", "many_targets", "line_ends"} < texts.keys()
    assert "1 of 2 is here, 1 to the letter" in texts["in_test_set"]
    assert texts["many_targets"].startswith("1 source has several different targets")
    config = QualityConfig(max_words=1, max_identical_words=1)
    texts |= {f"{f.name} above 1": f.text for f in analyze_corpus(one_of_each(), config).findings}
    lacking = analyze_corpus(
        [SentencePair("abc d", "abc")], tokenizers=TokenizerPair(tokenizer, tokenizer)
    )
    texts |= {f.name: f.text for f in lacking.findings}
    assert texts["characters"].startswith("1 character of the source has no piece")
    assert "it is written as bytes" in texts["characters"]
    texts |= {text: text for text in lacking.skipped_checks} | {
        "suggested": lacking.suggestion.reason
    }
    assert "1 pair is too few to learn which words translate each other." in texts
    for text in texts.values():
        assert not re.search(r"\b1 (pairs|words|sources|characters|lines)\b", text), text
        assert not re.search(r"^1 \w+ (\(\S+ %\) )?(have|seem|are)\b", text), text


def test_a_suggestion_counts_what_passes(pairs: list[SentencePair]) -> None:
    lines = [*pairs[:400], *(SentencePair(p.source, "") for p in pairs[400:])]
    report = analyze_corpus(lines, languages=LANGUAGES)
    kept = [
        v.pair for v in filter_corpus(lines, languages=LANGUAGES) if isinstance(v, AcceptedPair)
    ]
    count = sum(len(extract_words(pair.source)) + len(extract_words(pair.target)) for pair in kept)
    assert report.suggestion.reason.startswith(f"{len(kept):,} pairs of {count:,} words: ")
    nothing = analyze_corpus([SentencePair(p.source, "") for p in pairs[:50]]).suggestion
    assert nothing.reason == "there are no pairs yet"
    assert nothing == analyze_corpus([]).suggestion


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(("fables", count) for count in (1, 30, 100, 1000, 10_000)),
        *((name, count) for name in ("digits", "hindi", "chinese") for count in (1, 30, 1000)),
        ("marks", 2),
    ],
)
def test_suggested_pieces_can_be_learnt(name: str, count: int) -> None:
    """SentencePiece refuses more pieces than it finds, and fewer than there are characters."""
    lines = CORPORA[name]()[:count]
    found = suggest_model(
        count, sum(len(extract_words(line)) for pair in lines for line in pair), lines
    )
    config = TokenizerConfig(vocab_size=found.vocab_size)
    trained = Tokenizer.train([line for pair in lines for line in pair], config)
    assert len(trained.pieces) == found.vocab_size


def test_digits_have_281_pieces() -> None:
    suggestion = analyze_corpus(CORPORA["digits"]()[:2000]).suggestion
    assert suggestion.vocab_size == 281
    assert "limited by the number of distinct characters and words" in suggestion.reason


def test_nothing_in_common_with_what_is_held_out(pairs: list[SentencePair]) -> None:
    report = analyze_corpus(pairs[:200], languages=LANGUAGES, test_pairs=pairs[200:300])
    finding = named(report, "in_test_set")
    assert (finding.severity, finding.count) == ("note", 0)
    assert finding.text == "0 of 100 held-out sources are here."
    assert report.is_clean
    empty = analyze_corpus(pairs[:200], languages=LANGUAGES, test_pairs=[])
    assert named(empty, "in_test_set").text == "Nothing is held out: the test set is empty."
    assert empty.overlap is not None
    assert empty.overlap.num_test_pairs == 0
    assert not any(f.name == "in_test_set" for f in analyze_corpus(pairs[:200]).findings)


def test_examples_are_cut() -> None:
    tag = f"<b {'x' * 10_000}>"
    report = analyze_corpus([SentencePair("a " * 100_000, "b " * 100_000), SentencePair(tag, "c")])
    example = named(report, "too_long").examples[0]
    assert example.source == "a " * 249 + "a…"
    assert len(json.dumps(report.to_json())) < 10_000


def test_the_worst_alignments_are_shown_first(pairs: list[SentencePair]) -> None:
    places = drawn(60, 1200)
    wrong = list(pairs)
    for place, other in zip(places, places[1:] + places[:1], strict=True):
        wrong[place] = SentencePair(pairs[place].source, pairs[other].target)
    few, many = (
        named(
            analyze_corpus(wrong, QualityConfig(num_examples=count), LANGUAGES), "misaligned"
        ).examples
        for count in (5, 1200)
    )
    assert len(many) > 10
    assert few == many[:5]
    sizes = [len(extract_words(example.source + " " + example.target)) for example in many]
    assert sum(sizes[:5]) / 5 > sum(sizes) / len(sizes)  # long pairs have more words against them


def test_a_cleaned_corpus_is_healthy(pairs: list[SentencePair]) -> None:
    damages = list(DAMAGES.values())
    sick = list(pairs)
    for i, place in enumerate(drawn(120, 1200)):
        sick[place] = damages[i % len(damages)](pairs[place], i)
    sick += sick[:50]
    assert not analyze_corpus(sick, languages=LANGUAGES).is_clean
    kept = [v.pair for v in filter_corpus(sick, languages=LANGUAGES) if isinstance(v, AcceptedPair)]
    report = analyze_corpus(kept, languages=LANGUAGES)
    assert report.is_clean, [finding.text for finding in report.findings]
    assert len(kept) >= 1070
