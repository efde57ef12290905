"""Analysis and filtering of corpora: injected faults are found, and hardly any other pair."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from seq2see.data import digit_tasks, fables, readers
from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig
from seq2see.data.quality import statistics_and_models
from seq2see.data.quality.analysis_and_filtering import (
    accept_or_reject_pairs,
    analyze_corpus,
)
from seq2see.data.quality.languages import detect_unexpected_script
from seq2see.data.quality.line_shifts import find_line_shifts
from seq2see.data.quality.model_suggestion import suggest_model
from seq2see.data.quality.report import CorpusFinding, CorpusReport, Distribution
from seq2see.data.quality.rules import (
    RULES,
    QualityConfig,
    RuleViolation,
    encoding_problem,
    find_first_unmatched_markup,
    find_rule_violations,
    have_no_common_number,
)
from seq2see.data.quality.statistics_and_models import (
    CorpusModel,
    LengthRatioModel,
    collect_per_pair_statistics,
)
from seq2see.data.quality.translation_lexicon import assign_cross_validation_folds
from seq2see.data.quality.words_and_word_ids import compute_match_key, extract_words
from seq2see.data.readers import SentencePair
from seq2see.errors import ConfigError, InputError
from seq2see.text import Tokenizer, TokenizerConfig, TokenizerPair

LANGUAGES = ("en", "fr")


def generate_pairs(letters: str, space: str) -> list[SentencePair]:
    """Return random pairs of one to eight words of one to three letters each."""
    random = np.random.default_rng(3)

    def line() -> str:
        lengths = random.integers(1, 4, random.integers(1, 9))
        return space.join("".join(random.choice(list(letters), n)) for n in lengths)

    return [SentencePair(line(), line()) for _ in range(1000)]


CORPORA: dict[str, Callable[[], list[SentencePair]]] = {
    "fables": lambda: [
        SentencePair(f.source, f.target) for f in fables.load_fables_split("train", short=True)
    ],
    "digits": lambda: [
        SentencePair(*pair) for pair in digit_tasks.load_digit_pairs("reverse", "train")
    ],
    "hindi": lambda: [
        SentencePair(p.source, f"यह {p.target} है।") for p in generate_pairs("कखगमनिीुे", " ")
    ],
    "chinese": lambda: generate_pairs("我你他们的是不在有人", ""),
    "marks": lambda: [SentencePair("!", "！"), SentencePair("...", "…")],
}


@pytest.fixture(scope="module")
def pairs() -> list[SentencePair]:
    """1,200 correct pairs with distinct sources."""
    targets = {
        fable.source: fable.target for fable in fables.load_fables_split("train", short=True)
    }
    unique = [SentencePair(*pair) for pair in sorted(targets.items())]
    return [unique[i] for i in sample_indices(1200, len(unique))]


def sample_indices(count: int, limit: int) -> list[int]:
    """Return distinct random numbers below a limit, with a fixed seed."""
    return [int(i) for i in np.random.default_rng(7).permutation(limit)[:count]]


@pytest.fixture
def lingua() -> None:
    """Use lingua; tests without this fixture run without it, which is faster."""
    pytest.importorskip("lingua")


@pytest.fixture(autouse=True)
def _no_lingua(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "lingua" not in request.fixturenames:
        monkeypatch.setattr("seq2see.data.quality.languages.is_lingua_installed", lambda: False)


def filter_rejected(
    pairs: Sequence[SentencePair],
    languages: tuple[str, str] | None = LANGUAGES,
    test_pairs: Iterable[SentencePair] = (),
    config: QualityConfig | None = None,
) -> dict[int, RuleViolation]:
    """Return the violations by line; check that each pair is returned once, in order."""
    results = list(accept_or_reject_pairs(pairs, config, languages, test_pairs))
    assert [pair for pair, _ in results] == list(pairs)
    return {line: violation for line, (_, violation) in enumerate(results, 1) if violation}


def get_finding(report: CorpusReport, name: str) -> CorpusFinding:
    (finding,) = (f for f in report.findings if f.name == name)
    return finding


def test_correct_corpus_is_clean(pairs: list[SentencePair]) -> None:
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
def test_languages_are_detected_if_not_declared(pairs: list[SentencePair]) -> None:
    report = analyze_corpus(pairs[:300])
    assert (report.source.detected_language, report.target.detected_language) == LANGUAGES
    assert report.skipped_checks == ()


FAULTS: dict[str, Callable[[SentencePair, int], SentencePair]] = {
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


@pytest.mark.parametrize("rule", FAULTS)
def test_each_fault_is_found(pairs: list[SentencePair], rule: str) -> None:
    check_fault_is_found(pairs, rule)


@pytest.mark.usefixtures("lingua")
@pytest.mark.parametrize("rule", ["swapped", "wrong_language"])
def test_lingua_finds_the_same_faults(pairs: list[SentencePair], rule: str) -> None:
    check_fault_is_found(pairs, rule)


def check_fault_is_found(pairs: list[SentencePair], rule: str) -> None:
    long = [i for i, pair in enumerate(pairs) if len(extract_words(pair.source)) > 6]
    indices = [long[i] for i in sample_indices(24, len(long))]
    damaged = list(pairs)
    for i, index in enumerate(indices):
        damaged[index] = FAULTS[rule](pairs[index], i)
    rejected = filter_rejected(damaged)
    rules = Counter(rejected[index + 1].rule for index in indices)
    assert rules[rule] >= 22, rules  # a pair may violate an earlier rule
    assert rules.total() == 24
    assert len(rejected) <= 24 + 2


def test_all_but_the_first_duplicate_are_found(pairs: list[SentencePair]) -> None:
    rejected = filter_rejected([*pairs, *pairs[:30]])
    assert [line for line in rejected if rejected[line].rule == "duplicate"] == list(
        range(1201, 1231)
    )


def test_most_shuffled_targets_are_found(pairs: list[SentencePair]) -> None:
    indices = sample_indices(60, 1200)
    shuffled = list(pairs)
    for index, other in zip(indices, indices[1:] + indices[:1], strict=True):
        shuffled[index] = SentencePair(pairs[index].source, pairs[other].target)
    rejected = {line - 1 for line in filter_rejected(shuffled)}
    assert len(rejected & set(indices)) >= 50
    assert len(rejected - set(indices)) <= 3


def test_pair_is_not_scored_by_its_own_lexicon(pairs: list[SentencePair]) -> None:
    """Wrong pairs with a rare name on each side must not support each other."""
    wrong = [
        SentencePair(pairs[i].source + f" zyx{i}", pairs[i + 500].target + f" uvw{i}")
        for i in range(0, 400, 10)
    ]
    rejected = filter_rejected([*pairs[400:], *wrong])
    assert sum(line > 800 for line in rejected) >= 30


def shifted(pairs: Sequence[SentencePair], first: int, last: int, lines: int) -> list[SentencePair]:
    """Shift the targets of lines first to last, counted from 1, by some lines."""
    inside = list(range(first - 1, last))
    moved = {i: inside[(k - lines) % len(inside)] for k, i in enumerate(inside)}
    return [SentencePair(p.source, pairs[moved.get(i, i)].target) for i, p in enumerate(pairs)]


@pytest.mark.parametrize(
    ("first", "last", "lines"),
    [(704, 1200, 1), (704, 1200, -1), (1, 1200, 2), (1100, 1200, 4), (300, 900, -3)],
)
def test_shift_is_found_at_its_position(
    pairs: list[SentencePair], first: int, last: int, lines: int
) -> None:
    report = analyze_corpus(shifted(pairs, first, last, lines), languages=LANGUAGES)
    (shift,) = report.shifts
    assert shift.line_offset == lines
    assert abs(shift.first_line - first) <= 6
    assert abs(shift.last_line - last) <= 6 + abs(lines)
    finding = get_finding(report, "shifted")
    assert finding.severity == "fault"
    assert f"{abs(lines)} line" in finding.text
    assert ("late" if lines > 0 else "early") in finding.text
    assert all(shift.first_line <= example.line <= shift.last_line for example in finding.examples)
    assert len(finding.examples) == 5


def test_two_shifts_are_found(pairs: list[SentencePair]) -> None:
    twice = shifted(shifted(pairs, 200, 500, 1), 800, 1200, -2)
    assert [shift.line_offset for shift in analyze_corpus(twice).shifts] == [1, -2]


def test_shift_in_a_corpus_that_equals_its_test_set(pairs: list[SentencePair]) -> None:
    moved = shifted(pairs, 200, 500, 1)
    report = analyze_corpus(moved, languages=LANGUAGES, test_pairs=moved)
    assert get_finding(report, "shifted").examples == ()


def test_lines_sorted_by_length_are_not_shifted(pairs: list[SentencePair]) -> None:
    by_length = sorted(pairs, key=lambda pair: len(pair.source))
    assert not analyze_corpus(by_length).shifts


def test_shift_of_random_lengths_is_found() -> None:
    lengths = np.random.default_rng(0).integers(10, 200, 500)
    assert find_line_shifts(lengths, lengths[::-1].copy(), 5) == ()
    assert [s.line_offset for s in find_line_shifts(lengths, np.roll(lengths, 3), 5)] == [3]


@pytest.mark.usefixtures("lingua")
def test_swapped_files_are_found_by_language(pairs: list[SentencePair]) -> None:
    crossed = [SentencePair(pair.target, pair.source) for pair in pairs[:100]]
    assert (
        "swap the two sides"
        in get_finding(analyze_corpus(crossed, languages=LANGUAGES), "side_language").text
    )
    assert {v.rule for v in filter_rejected(crossed).values()} == {"swapped"}
    assert not filter_rejected(crossed, ("fr", "en"))


def test_swapped_files_are_found_by_script() -> None:
    """Without lingua, scripts distinguish Russian from English, but not French."""
    russian = [f"Старик медленно идёт домой, уже {i} часов, очень поздно." for i in range(60)]
    english = [f"The old man walks slowly home, it is {i} o'clock, very late." for i in range(60)]
    mixed = [SentencePair(*pair) for pair in zip(russian, english, strict=True)]
    report = analyze_corpus(mixed, languages=("en", "ru"))
    assert get_finding(report, "side_language").severity == "fault"
    assert "swap the two sides" in get_finding(report, "side_language").text
    assert {v.rule for v in filter_rejected(mixed, ("en", "ru")).values()} == {"swapped"}
    assert not filter_rejected(mixed, ("ru", "en"))


@pytest.mark.usefixtures("lingua")
def test_side_in_another_language_than_declared_is_reported(pairs: list[SentencePair]) -> None:
    report = analyze_corpus(pairs[:300], languages=("en", "de"))
    assert (
        get_finding(report, "side_language").text
        == "Most of the target seems to be fr, but de was declared."
    )
    assert not filter_rejected(pairs[:300], ("en", "fr"))


def test_unrelated_files_are_reported(pairs: list[SentencePair]) -> None:
    targets = [pairs[i].target for i in sample_indices(1200, 1200)]
    report = analyze_corpus(
        [SentencePair(p.source, t) for p, t in zip(pairs, targets, strict=True)]
    )
    assert get_finding(report, "unrelated_sides").severity == "fault"


GERMAN = [
    "Ich habe gestern mit meinem Bruder im Garten gegessen und getrunken.",
    "Warum hast du mir nicht gesagt, dass du heute nicht kommen kannst?",
    "Wir müssen noch einkaufen gehen, bevor die Läden schließen.",
    "Der alte Mann saß auf der Bank und fütterte langsam die Vögel.",
    "Es wäre schön, wenn du uns nächste Woche wieder besuchen würdest.",
]
RUSSIAN = "Старый медведь не ест грушу, потому что она слишком горькая."


@pytest.mark.usefixtures("lingua")
def test_lines_in_a_third_language_are_found(pairs: list[SentencePair]) -> None:
    lines = [
        *pairs,
        *(SentencePair(pairs[i].source + f" {i}", text) for i, text in enumerate(GERMAN)),
    ]
    rejected = filter_rejected(lines)
    reasons = [rejected[line].reason for line in range(1201, 1206) if line in rejected]
    assert reasons.count("the target seems to be de") >= 4
    assert not any(v.rule == "wrong_language" for line, v in rejected.items() if line <= 1200)


@pytest.mark.usefixtures("lingua")
def test_many_lines_in_a_third_language_are_found(pairs: list[SentencePair]) -> None:
    """If every fifth line is German, German words are no longer improbable."""
    mixed = [
        SentencePair(pair.source, f"{GERMAN[i % 4]} {GERMAN[-1]} {i}") if i % 5 == 0 else pair
        for i, pair in enumerate(pairs)
    ]
    rejected = filter_rejected(mixed)
    assert sum(line % 5 == 1 for line in rejected) >= 230
    assert sum(line % 5 != 1 for line in rejected) <= 5


def test_scripts_and_words_are_checked_without_lingua(pairs: list[SentencePair]) -> None:
    lines = [
        *pairs,
        SentencePair(pairs[0].source + "!", RUSSIAN),
        SentencePair(pairs[0].source, pairs[1].source),
    ]
    rejected = filter_rejected(lines)
    assert rejected[1201].reason == "the target seems to be in Cyrillic script"
    assert rejected[1202].rule == "wrong_language"
    report = analyze_corpus(lines, languages=LANGUAGES)
    assert "seq2see[languages]" in report.skipped_checks[0]
    assert report.source.detected_language is None


@pytest.mark.usefixtures("lingua")
def test_unsupported_language_is_reported_as_skipped_check(pairs: list[SentencePair]) -> None:
    report = analyze_corpus(pairs[:100], languages=("en", "gsw"))
    assert not any(finding.name == "side_language" for finding in report.findings)
    assert "The language detector does not support `gsw`." in report.skipped_checks


@pytest.mark.usefixtures("lingua")
def test_names_do_not_indicate_a_language() -> None:
    good = [
        SentencePair(f"We met {i} of them there", f"Nous y avons rencontré {i} amis")
        for i in range(99)
    ]
    names = SentencePair("Tōkyō, Kyōto, Ōsaka and Hokkaidō", "Tōkyō, Kyōto, Ōsaka et Hokkaidō")
    assert not filter_rejected([*good, names])


def test_overlap_with_a_test_set_is_counted(pairs: list[SentencePair]) -> None:
    test_pairs = [
        pairs[0],
        SentencePair(pairs[1].source.upper() + " !", "autre"),
        SentencePair("Unseen.", "Inédit."),
    ]
    report = analyze_corpus(pairs, languages=LANGUAGES, test_pairs=test_pairs)
    assert report.overlap is not None
    assert report.overlap.num_test_pairs == 3
    assert report.overlap.matching_sources == 2
    assert "2 of 3 test sources match" in get_finding(report, "in_test_set").text
    rejected = filter_rejected(pairs, test_pairs=test_pairs)
    assert [line for line in rejected if rejected[line].rule == "in_test_set"] == [1, 2]


def test_test_source_without_words_matches_nothing() -> None:
    assert not filter_rejected(
        [SentencePair("!", "！"), SentencePair("?", "？")], None, [SentencePair("…", "…")]
    )


def test_identical_names_are_accepted() -> None:
    report = analyze_corpus(
        [SentencePair("Miss Marple", "Miss Marple"), SentencePair("Yes.", "Oui.")]
    )
    assert report.num_accepted == 2


@pytest.mark.parametrize(
    ("text", "is_copy"),
    [("Tom is here.", True), ("Tom is here", False), ("Oh, Tom!", False), ("我在这里。", True)],
)
def test_identical_sentences_are_found(text: str, is_copy: bool) -> None:
    report = analyze_corpus([SentencePair(text, text), SentencePair("Yes.", "Oui.")])
    assert any(finding.name == "identical" for finding in report.findings) == is_copy


def test_length_ratio_model_recovers_ratio_and_scale() -> None:
    source = np.full(1000, 100)
    target = np.random.default_rng(0).normal(200, 40, 1000).astype(int)  # 40 = 2 · sqrt(100) · 2
    ratio = LengthRatioModel.fit(source, target)
    assert ratio.median_ratio == pytest.approx(2, rel=0.03)
    assert ratio.scale == pytest.approx(2, rel=0.1)
    errors = ratio.compute_deviations(np.array([100, 100, 400]), np.array([200, 320, 800 + 240]))
    assert errors == pytest.approx([0, 3, 3], abs=0.6)  # relative to the square root of the length


def test_line_numbers_continue_over_chunks() -> None:
    many = [SentencePair(f"source {i}", f"target {i}") for i in range(4200)]
    many[4149] = SentencePair("source", "")
    assert list(filter_rejected(many, None)) == [4150]
    (example,) = get_finding(analyze_corpus(many), "empty").examples
    assert (example.line, example.reason) == (4150, "the target has no words")


def test_only_the_configured_rules_remove_pairs(pairs: list[SentencePair]) -> None:
    lines = [*pairs[:100], pairs[0], SentencePair("", "vide")]
    config = QualityConfig(clean_rules=("empty",))
    assert {v.rule for v in filter_rejected(lines, config=config).values()} == {"empty"}
    report = analyze_corpus(lines, config)
    assert "clean" not in get_finding(report, "duplicate").text
    assert "clean" in get_finding(report, "empty").text
    assert report.num_accepted == 101
    with pytest.raises(ConfigError, match="clean_rules"):
        QualityConfig(clean_rules=("typos",))  # type: ignore[arg-type]


def test_analysis_counts_equal_filter_counts(pairs: list[SentencePair]) -> None:
    lines = [*pairs[:500], *pairs[:3], SentencePair("", "vide"), SentencePair("a" * 10_000, "b")]
    report = analyze_corpus(lines, languages=LANGUAGES)
    counts = Counter(v.rule for v in filter_rejected(lines).values())
    assert {f.name: f.count for f in report.findings if f.name in RULES} == counts
    assert report.num_accepted == len(lines) - counts.total()


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 299, 300])
def test_small_corpora_are_analyzed_and_filtered(pairs: list[SentencePair], count: int) -> None:
    report = analyze_corpus(pairs[:count], languages=LANGUAGES)
    assert report.num_pairs == report.num_accepted == count
    assert report.is_clean == (count > 0)
    assert filter_rejected(pairs[:count]) == {}
    json.dumps(report.to_json(), allow_nan=False)


UNUSUAL = [
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


def test_unusual_characters_are_handled(pairs: list[SentencePair]) -> None:
    lines = [*pairs[:400], *(SentencePair(a, b) for a in UNUSUAL for b in UNUSUAL)]
    report = analyze_corpus(lines, languages=LANGUAGES)
    assert report.num_pairs == 500
    assert all(pair in lines for pair, _ in accept_or_reject_pairs(lines))
    json.dumps(report.to_json(), allow_nan=False)


def test_report_is_json_compatible(pairs: list[SentencePair]) -> None:
    lines = shifted([*pairs[:500], *pairs[:9]], 200, 500, 1)
    report = analyze_corpus(lines, languages=LANGUAGES, test_pairs=pairs[:2])
    plain = report.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["is_clean"] is False
    assert plain["shifts"][0]["line_offset"] == 1
    assert [f["severity"] for f in plain["findings"]] == sorted(
        (f["severity"] for f in plain["findings"]), key=["fault", "warning", "note"].index
    )


def test_report_is_reproducible(pairs: list[SentencePair]) -> None:
    lines = [*pairs[:600], *pairs[:50]]
    assert analyze_corpus(lines) == analyze_corpus(lines)


def test_iterators_are_rejected(pairs: list[SentencePair]) -> None:
    with pytest.raises(
        InputError, match="must be a list, a `Corpus` or another iterable that can be read twice"
    ):
        analyze_corpus(iter(pairs))
    with pytest.raises(InputError, match="but is an iterator instead"):
        next(iter(accept_or_reject_pairs(iter(pairs))))


def test_corpus_is_read_twice_and_progress_reported(pairs: list[SentencePair]) -> None:
    readings: list[int] = []

    class File:
        def __iter__(self) -> Iterator[SentencePair]:
            readings.append(1)
            yield from pairs[:100]

    calls: list[tuple[str, int]] = []
    report = analyze_corpus(File(), on_stage=lambda stage, lines: calls.append((stage, lines)))
    assert report == analyze_corpus(pairs[:100])
    assert len(readings) == 2
    assert calls == [("reading", 100), ("checking", 100)]


def test_sample_covers_the_whole_corpus(
    pairs: list[SentencePair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics_and_models, "MAX_SAMPLE_PAIRS", 1000)
    numbered = [SentencePair(f"source {i}", f"target {i}") for i in range(20_000)]
    statistics = collect_per_pair_statistics(numbered)
    assert 500 <= len(statistics.sample) <= 1000
    assert [pair.source for pair in statistics.sample] == [
        f"source {i}" for i in statistics.sample_indices
    ]
    gaps = np.diff(statistics.sample_indices)
    assert set(gaps) == {1, gaps.max()}
    assert statistics.sample_indices[-1] > 20_000 - gaps.max() - 64
    monkeypatch.setattr(statistics_and_models, "MAX_SAMPLE_PAIRS", 600)
    assert analyze_corpus(pairs, languages=LANGUAGES).is_clean


def test_sample_does_not_depend_on_the_blocks_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics_and_models, "MAX_SAMPLE_PAIRS", 1000)
    numbered = [SentencePair(f"source {i}", f"target {i}") for i in range(20_000)]
    (tmp_path / "a.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in numbered), "utf-8")
    expected = collect_per_pair_statistics(numbered).sample
    monkeypatch.setattr(readers, "LINES_PER_BLOCK", 99)
    from_file = collect_per_pair_statistics(Corpus(CorpusConfig(files=["a.tsv"]), root=tmp_path))
    assert from_file.sample == expected


def test_long_source_keeps_its_fold() -> None:
    """A pair must be scored by the lexicon that was not fitted to it."""
    sources = [f"{i} " + "word " * 2000 + f"end {i}" for i in range(20)]
    statistics = collect_per_pair_statistics([SentencePair(s, "x") for s in sources])
    sampled = assign_cross_validation_folds([pair.source for pair in statistics.sample])
    assert sampled.tolist() == assign_cross_validation_folds(sources).tolist()


def test_sides_are_not_swapped_if_one_language_is_unknown() -> None:
    english = [f"The old man walks slowly home, it is {i} o'clock, very late." for i in range(60)]
    unknown = [f"Staruszek {i} powoli idzie do domu, bo jest już późno." for i in range(60)]
    pairs = list(map(SentencePair, english, unknown)) + [
        SentencePair(f"{english[i]}", f"Tonight {english[-1 - i]}") for i in range(5)
    ]
    model = CorpusModel(collect_per_pair_statistics(pairs), 250, None, frozenset())
    source, target = model.languages.sides
    sides = [replace(source, declared="en"), replace(target, declared=None, detected=None)]
    model.languages.sides = sides
    violations = find_rule_violations(0, pairs, model)
    assert not [v for v in violations if v and v.rule == "swapped"]


def test_characters_without_a_piece_are_reported(pairs: list[SentencePair]) -> None:
    config = TokenizerConfig(vocab_size=600)
    lines = [pair.source for pair in pairs[:300]]
    own = Tokenizer.train(lines, config)
    lossy = Tokenizer.train(lines, config.replace(byte_fallback=False, vocab_size=300))
    pair = SentencePair("The 龘 dog x e\u0301", "Le chien ▁ 龘龘")
    report = analyze_corpus([pair], tokenizers=TokenizerPair(own, lossy))
    texts = {f.text.split("of the ")[1][:6]: f.text for f in report.findings[:2]}
    assert texts["source"].startswith("2 characters")
    assert "龘 é), encoded as bytes" in texts["source"]  # as normalized
    assert "龘" in texts["target"]
    assert "replaced by <unk>" in texts["target"]
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
def test_suggested_model_grows_with_the_corpus(
    pairs: int, preset: str, least: int, most: int
) -> None:
    many = " ".join(map("".join, product("abcdefghijklmnopqrstuvwxyz", repeat=4)))
    suggestion = suggest_model(pairs, pairs * 20, [SentencePair(many[:200_000], many[-200_000:])])
    assert suggestion.preset == preset
    assert least <= suggestion.vocab_size <= most


def test_suggested_vocabulary_covers_all_characters() -> None:
    many = "".join(chr(0x4E00 + i) for i in range(3000))
    suggestion = suggest_model(1_000, 20_000, [SentencePair(many, many)])
    assert suggestion.vocab_size >= 260 + 3000
    assert "characters each need a subword" in suggestion.reason


@pytest.mark.parametrize(
    "values",
    [np.array([3]), np.arange(1000), np.r_[np.ones(999, int), 10**6], np.linspace(0, 9, 50)],
)
def test_distribution_counts_all_values(values: np.ndarray) -> None:
    distribution = Distribution.from_values(values)
    assert sum(distribution.counts) == len(values)
    assert len(distribution.edges) == len(distribution.counts) + 1
    assert list(distribution.edges) == sorted(set(distribution.edges))
    assert distribution.quantiles["0"] == values.min()
    assert distribution.quantiles["100"] == values.max()
    assert distribution.median == np.median(values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fu\u0308r Ärzte – „schön“, Žižek, Ÿ, € 5, ½, naïve à l’œuvre", None),
        ("São Tomé, Ångström, ÂME, Île, ÎLE DE RÉ", None),
        ("Привет, 世界, \u00a0!", None),
        ("«LIBERTÉ» «IRMÃ» “MAÑANÃ” JÄ… D’OÙ?", None),
        ("æ—¥æœ¬", "'æ—¥' for '日'"),
        ("í•œêµì–´", "'í•œ' for '한'"),
        ("CAFÃ‰", "'Ã‰' for 'É'"),
        ("naïve Ã l’œuvre", "'e Ã '"),
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
def test_encoding_problems_are_found(text: str, expected: str | None) -> None:
    assert encoding_problem(text) == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("a < b & c", "a < b & c", None),
        ("<b>x</b>", "<b>y</b>", None),
        ("<b>x</b>", "y", "<b>"),
        ("R&amp;B", "R&B", "&amp;"),
        ("x", 'y<br class="z"/>', '<br class="z"/>'),
        ("I <3 you", "Je t'<3", None),
    ],
)
def test_unmatched_markup_is_found(source: str, target: str, expected: str | None) -> None:
    assert find_first_unmatched_markup(source, target) == expected


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
def test_number_mismatches_are_found(source: str, target: str, differ: bool) -> None:
    assert have_no_common_number(source, target) is differ


def test_other_scripts_are_found() -> None:
    latin, han = frozenset({"LATIN"}), frozenset({"CJK"})
    assert detect_unexpected_script("Ærøskøbing – „œuvre“", latin) is None
    assert detect_unexpected_script("Привет, мир", latin) == "CYRILLIC"
    assert (
        detect_unexpected_script("《The Doors: Live at The Hollywood Bowl 1968》海报", han) is None
    )
    assert detect_unexpected_script("Two old brooms", han) == "LATIN"
    assert detect_unexpected_script("123 !", latin) is None


def test_words_and_match_keys() -> None:
    assert extract_words("It's 3 Dogs' 你好。") == ["it", "s", "3", "dogs", "你", "好"]
    assert compute_match_key(" Straße, NR. 5!") == compute_match_key("STRASSE nr 5")


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_combining_marks_belong_to_their_words(text: str, expected: list[str]) -> None:
    normal = [unicodedata.normalize("NFC", word) for word in expected]
    for form in ("NFC", "NFD"):
        assert extract_words(unicodedata.normalize(form, text)) == normal


def test_match_keys_keep_letters_and_marks() -> None:
    assert compute_match_key("हिंदी") != compute_match_key("हदा")
    assert compute_match_key("ไม่") != compute_match_key("ไม")
    assert compute_match_key("𞤢𞥄 😀_") == "𞤢𞥄" != compute_match_key("𞤢")
    assert compute_match_key("Café Nöel!") == compute_match_key("CAFÉ, NÖEL") == "cafénöel"
    assert compute_match_key("İZMİR") == compute_match_key("izmir")
    assert compute_match_key("❤️ 1️⃣") == compute_match_key("☀️ 1") == "1"


def test_devanagari_marks_do_not_count_as_words() -> None:
    hindi = "हिन्दी में लिखा हुआ " * 40
    assert not filter_rejected([SentencePair("Written in Hindi " * 40, hindi)], None)


def test_overlap_ignores_unicode_normalization(pairs: list[SentencePair]) -> None:
    decomposed = [SentencePair(unicodedata.normalize("NFD", p.target), "x") for p in pairs[:9]]
    report = analyze_corpus(
        [SentencePair(p.target, p.source) for p in pairs[:9]], test_pairs=decomposed
    )
    assert report.overlap is not None
    assert report.overlap.matching_sources == 9


def test_carriage_returns_inside_lines_are_reported() -> None:
    old = SentencePair("One.\rTwo.\rThree.", "Un.\rDeux.\rTrois.")
    finding = get_finding(
        analyze_corpus([old, SentencePair("a b", "c d"), SentencePair("e\r\nf", "g\r\nh")]),
        "carriage_returns",
    )
    assert finding.severity == "warning"
    assert finding.count == 1
    assert finding.text.startswith("1 pair (33 %): carriage returns inside lines")
    assert finding.examples[0].line == 1
    assert (
        "2 pairs (67 %): carriage returns"
        in get_finding(
            analyze_corpus([old, old, SentencePair("a b", "c d")]), "carriage_returns"
        ).text
    )


def one_pair_per_finding() -> list[SentencePair]:
    """Return a corpus in which each finding has one pair."""
    return [
        SentencePair("This is the same text here", "This is the same text here"),
        SentencePair("A dog runs.", ""),
        SentencePair("Broken � text", "Texte"),
        SentencePair("word " * 300, "mot " * 300),
        SentencePair("<b>Bold</b> words", "Des mots gras"),
        SentencePair("In 1830 he went home", "Vers 1930 il rentra"),
        SentencePair("Twice the same", "Deux fois"),
        SentencePair("Twice the same", "Deux fois"),
        SentencePair("It is held out", "Mis de côté"),
        SentencePair("Old\rMac", "Vieux\rMac"),
    ]


def test_counts_of_one_use_the_singular() -> None:
    tokenizer = Tokenizer.train(["abc " * 9], TokenizerConfig(vocab_size=265))
    test_pairs = [SentencePair("It is held out", "x"), SentencePair("Not here", "y")]
    report = analyze_corpus(one_pair_per_finding(), test_pairs=test_pairs)
    texts = {finding.name: finding.text for finding in report.findings}
    assert {
        "empty",
        "broken_encoding",
        "too_long",
        "unmatched_markup",
        "identical",
        "duplicate",
    } < texts.keys()
    assert {"in_test_set", "number_mismatch"} < texts.keys()
    assert "carriage_returns" in texts
    assert "1 of 2 test sources match" in texts["in_test_set"]
    assert texts["empty"].endswith("`seq2see data clean` removes it.")
    config = QualityConfig(max_words=1)
    texts |= {
        f"{f.name} above 1": f.text for f in analyze_corpus(one_pair_per_finding(), config).findings
    }
    with_tokenizers = analyze_corpus(
        [SentencePair("abc d", "abc")], tokenizers=TokenizerPair(tokenizer, tokenizer)
    )
    texts |= {f.name: f.text for f in with_tokenizers.findings}
    uncovered = texts["uncovered_characters"]
    assert uncovered.startswith("1 character of the source without a piece")
    assert "encoded as bytes" in uncovered
    texts |= {text: text for text in with_tokenizers.skipped_checks} | {
        "suggested": with_tokenizers.suggestion.reason
    }
    assert "Misaligned pairs were not searched: the corpus is too small (1 pair)." in texts
    for text in texts.values():
        assert not re.search(r"\b1 (pairs|words|sources|characters|lines)\b", text), text
        assert not re.search(r"^1 \w+ (\(\S+ %\) )?(have|seem|are)\b", text), text


def test_suggestion_is_based_on_accepted_pairs(pairs: list[SentencePair]) -> None:
    lines = [*pairs[:400], *(SentencePair(p.source, "") for p in pairs[400:])]
    report = analyze_corpus(lines, languages=LANGUAGES)
    accepted = [pair for pair, v in accept_or_reject_pairs(lines, languages=LANGUAGES) if v is None]
    count = sum(
        len(extract_words(pair.source)) + len(extract_words(pair.target)) for pair in accepted
    )
    assert report.suggestion.reason.startswith(f"{len(accepted):,} pairs of {count:,} words: ")
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
def test_suggested_vocabulary_size_can_be_trained(name: str, count: int) -> None:
    """SentencePiece refuses more pieces than it finds, and fewer than there are characters."""
    lines = CORPORA[name]()[:count]
    suggestion = suggest_model(
        count, sum(len(extract_words(line)) for pair in lines for line in pair), lines
    )
    config = TokenizerConfig(vocab_size=suggestion.vocab_size)
    trained = Tokenizer.train([line for pair in lines for line in pair], config)
    assert len(trained.pieces) == suggestion.vocab_size


def test_suggested_vocabulary_of_digits() -> None:
    suggestion = analyze_corpus(CORPORA["digits"]()[:2000]).suggestion
    assert suggestion.vocab_size == 281
    assert "limited by the number of distinct characters and words" in suggestion.reason


def test_missing_overlap_is_noted(pairs: list[SentencePair]) -> None:
    report = analyze_corpus(pairs[:200], languages=LANGUAGES, test_pairs=pairs[200:300])
    finding = get_finding(report, "in_test_set")
    assert (finding.severity, finding.count) == ("note", 0)
    assert finding.text == "Test sources that are in the corpus: 0 of 100."
    assert report.is_clean
    empty = analyze_corpus(pairs[:200], languages=LANGUAGES, test_pairs=[])
    assert get_finding(empty, "in_test_set").text == "The test set is empty."
    assert empty.overlap is not None
    assert empty.overlap.num_test_pairs == 0
    assert not any(f.name == "in_test_set" for f in analyze_corpus(pairs[:200]).findings)
    for empty_set in ((), iter(())):
        assert analyze_corpus(pairs[:200], test_pairs=empty_set).overlap is not None


def test_examples_are_truncated() -> None:
    tag = f"<b {'x' * 10_000}>"
    report = analyze_corpus([SentencePair("a " * 100_000, "b " * 100_000), SentencePair(tag, "c")])
    example = get_finding(report, "too_long").examples[0]
    assert example.source == "a " * 249 + "a…"
    assert len(json.dumps(report.to_json())) < 10_000


def test_examples_with_the_highest_scores_come_first(pairs: list[SentencePair]) -> None:
    indices = sample_indices(60, 1200)
    wrong = list(pairs)
    for index, other in zip(indices, indices[1:] + indices[:1], strict=True):
        wrong[index] = SentencePair(pairs[index].source, pairs[other].target)
    few, many = (
        get_finding(
            analyze_corpus(wrong, QualityConfig(num_examples=count), LANGUAGES), "misaligned"
        ).examples
        for count in (5, 1200)
    )
    assert len(many) > 10
    assert few == many[:5]
    sizes = [len(extract_words(example.source + " " + example.target)) for example in many]
    assert sum(sizes[:5]) / 5 > sum(sizes) / len(sizes)  # long pairs have more words against them


def test_filtered_corpus_is_clean(pairs: list[SentencePair]) -> None:
    damages = list(FAULTS.values())
    damaged = list(pairs)
    for i, index in enumerate(sample_indices(120, 1200)):
        damaged[index] = damages[i % len(damages)](pairs[index], i)
    damaged += damaged[:50]
    assert not analyze_corpus(damaged, languages=LANGUAGES).is_clean
    accepted = [
        pair for pair, v in accept_or_reject_pairs(damaged, languages=LANGUAGES) if v is None
    ]
    report = analyze_corpus(accepted, languages=LANGUAGES)
    assert report.is_clean, [finding.text for finding in report.findings]
    assert len(accepted) >= 1070


def find_violated_rules(pairs: list[SentencePair]) -> list[str | None]:
    violations = [violation for _, violation in accept_or_reject_pairs(pairs, ALL_RULES)]
    return [violation.rule if violation else None for violation in violations]


ALL_RULES = QualityConfig(clean_rules=RULES)


def test_header_rows_are_found() -> None:
    pairs = [("en", "de"), ("A dog.", "Ein Hund."), ("it", "es"), ("English", "German")]
    expected = ["header", None, None, "header"]
    assert find_violated_rules([SentencePair(*pair) for pair in pairs]) == expected


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ('"He said ""yes""."', True),
        ('"The first part', True),
        ('the last part"', True),
        ('"Yes."', False),
        ('"Yes," she said, "and no."', False),
        ('A 5" disk', False),
    ],
)
def test_leftover_quotes_are_found(source: str, is_found: bool) -> None:
    expected = ["leftover_quotes" if is_found else None]
    assert find_violated_rules([SentencePair(source, "Ein Satz.")]) == expected
