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
from seq2see.data.quality.analysis import Kept, Rejection, clean, examine
from seq2see.data.quality.config import RULES, DoctorConfig
from seq2see.data.quality.corpus_model import Ratio, survey
from seq2see.data.quality.languages import foreign_script
from seq2see.data.quality.line_shifts import find
from seq2see.data.quality.model_suggestion import suggest
from seq2see.data.quality.report import Distribution, Finding, Report
from seq2see.data.quality.rules import damage, numbers_differ, unmatched_markup
from seq2see.data.quality.words import fold, words
from seq2see.data.readers import Pair
from seq2see.errors import ConfigError, InputError
from seq2see.text import Tokenizer, TokenizerConfig, Tokenizers

LANGUAGES = ("en", "fr")


def made_up(letters: str, space: str) -> list[Pair]:
    """Return pairs of one to eight words of one to three letters each."""
    random = np.random.default_rng(3)

    def line() -> str:
        lengths = random.integers(1, 4, random.integers(1, 9))
        return space.join("".join(random.choice(list(letters), n)) for n in lengths)

    return [Pair(line(), line()) for _ in range(1000)]


CORPORA: dict[str, Callable[[], list[Pair]]] = {
    "fables": lambda: [Pair(f.source, f.target) for f in fables.load("train", short=True)],
    "digits": lambda: [Pair(*pair) for pair in digit_tasks.load("reverse", "train")],
    "hindi": lambda: [Pair(p.source, f"यह {p.target} है।") for p in made_up("कखगमनिीुे", " ")],
    "chinese": lambda: made_up("我你他们的是不在有人", ""),
    "marks": lambda: [Pair("!", "！"), Pair("...", "…")],
}


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    """1,200 good pairs, each source once."""
    found = {fable.source: fable.target for fable in fables.load("train", short=True)}
    every = [Pair(*pair) for pair in sorted(found.items())]
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
        monkeypatch.setattr("seq2see.data.quality.languages.is_installed", lambda: False)


def rejected(
    pairs: Sequence[Pair],
    languages: tuple[str, str] | None = LANGUAGES,
    held_out: Iterable[Pair] = (),
    config: DoctorConfig | None = None,
) -> dict[int, Rejection]:
    """Return what cleaning rejects, by line; every pair must come out once, in its order."""
    verdicts = list(clean(pairs, config, languages, held_out))
    assert [(v.line, v.pair) for v in verdicts] == list(enumerate(pairs, start=1))
    return {v.line: v for v in verdicts if isinstance(v, Rejection)}


def named(report: Report, name: str) -> Finding:
    (finding,) = (f for f in report.findings if f.name == name)
    return finding


def test_a_good_corpus_is_healthy(pairs: list[Pair]) -> None:
    report = examine(pairs, languages=LANGUAGES)
    assert report.healthy
    assert report.passing >= report.pairs - 1
    assert not report.shifts
    assert report.overlap is None
    assert report.source.words.total == sum(len(words(pair.source)) for pair in pairs)
    assert report.target.characters.quantiles["100"] == max(len(pair.target) for pair in pairs)
    assert 1 < report.ratio.median < 1.4


@pytest.mark.usefixtures("lingua")
def test_languages_are_found_without_being_stated(pairs: list[Pair]) -> None:
    report = examine(pairs[:300])
    assert (report.source.found, report.target.found) == LANGUAGES
    assert report.unchecked == ()


DAMAGES: dict[str, Callable[[Pair, int], Pair]] = {
    "empty": lambda pair, i: Pair(pair.source, ("", " \u3000", "…", "\u200b")[i % 4]),
    "damaged": lambda pair, i: Pair(
        pair.source,
        (
            pair.target + " Chèvre fatiguée".encode().decode("cp1252"),
            pair.target.replace("e", "\ufffd"),
            pair.target + "\x07",
        )[i % 3],
    ),
    "too_long": lambda pair, _: Pair(pair.source + " word" * 300, pair.target + " mot" * 300),
    "markup": lambda pair, i: Pair(f"<b>{pair.source}</b>" if i % 2 else "&amp;", pair.target),
    "identical": lambda pair, _: Pair(pair.source, pair.source),
    "swapped": lambda pair, _: Pair(pair.target, pair.source),
    "language": lambda pair, _: Pair(pair.source, f"But today {pair.source}"),
    "ratio": lambda pair, _: Pair(pair.source, f"{pair.target} " * 9),
}


@pytest.mark.parametrize("rule", DAMAGES)
def test_each_damage_is_found(pairs: list[Pair], rule: str) -> None:
    check_that_it_is_found(pairs, rule)


@pytest.mark.usefixtures("lingua")
@pytest.mark.parametrize("rule", ["swapped", "language"])
def test_lingua_finds_no_less(pairs: list[Pair], rule: str) -> None:
    check_that_it_is_found(pairs, rule)


def check_that_it_is_found(pairs: list[Pair], rule: str) -> None:
    long = [i for i, pair in enumerate(pairs) if len(words(pair.source)) > 6]
    places = [long[i] for i in drawn(24, len(long))]
    damaged = list(pairs)
    for i, place in enumerate(places):
        damaged[place] = DAMAGES[rule](pairs[place], i)
    found = rejected(damaged)
    rules = Counter(found[place + 1].rule for place in places)
    assert rules[rule] >= 22, rules  # a pair may look better as something else
    assert rules.total() == 24
    assert len(found) <= 24 + 2


def test_repeated_pairs_but_the_first(pairs: list[Pair]) -> None:
    found = rejected([*pairs, *pairs[:30]])
    assert [line for line in found if found[line].rule == "duplicate"] == list(range(1201, 1231))


def test_shuffled_targets_are_mostly_found(pairs: list[Pair]) -> None:
    places = drawn(60, 1200)
    shuffled = list(pairs)
    for place, other in zip(places, places[1:] + places[:1], strict=True):
        shuffled[place] = Pair(pairs[place].source, pairs[other].target)
    found = {line - 1 for line in rejected(shuffled)}
    assert len(found & set(places)) >= 50
    assert len(found - set(places)) <= 3


def test_a_pair_does_not_vouch_for_itself(pairs: list[Pair]) -> None:
    """Wrong pairs with a rare name on either side teach nothing about each other."""
    wrong = [
        Pair(pairs[i].source + f" zyx{i}", pairs[i + 500].target + f" uvw{i}")
        for i in range(0, 400, 10)
    ]
    found = rejected([*pairs[400:], *wrong])
    assert sum(line > 800 for line in found) >= 30


def shifted(pairs: Sequence[Pair], first: int, last: int, lines: int) -> list[Pair]:
    """Move the targets of lines first to last, counted from 1, by some lines."""
    inside = list(range(first - 1, last))
    moved = {i: inside[(k - lines) % len(inside)] for k, i in enumerate(inside)}
    return [Pair(p.source, pairs[moved.get(i, i)].target) for i, p in enumerate(pairs)]


@pytest.mark.parametrize(
    ("first", "last", "lines"),
    [(704, 1200, 1), (704, 1200, -1), (1, 1200, 2), (1100, 1200, 4), (300, 900, -3)],
)
def test_a_shift_is_found_where_it_begins(
    pairs: list[Pair], first: int, last: int, lines: int
) -> None:
    report = examine(shifted(pairs, first, last, lines), languages=LANGUAGES)
    (shift,) = report.shifts
    assert shift.lines == lines
    assert abs(shift.first - first) <= 6
    assert abs(shift.last - last) <= 6 + abs(lines)
    finding = named(report, "shifted")
    assert finding.severity == "fault"
    assert f"{abs(lines)} line" in finding.text
    assert ("late" if lines > 0 else "early") in finding.text
    assert all(shift.first <= example.line <= shift.last for example in finding.examples)
    assert len(finding.examples) == 5


def test_two_shifts(pairs: list[Pair]) -> None:
    twice = shifted(shifted(pairs, 200, 500, 1), 800, 1200, -2)
    assert [shift.lines for shift in examine(twice).shifts] == [1, -2]


def test_lines_in_order_of_length_are_not_shifted(pairs: list[Pair]) -> None:
    by_length = sorted(pairs, key=lambda pair: len(pair.source))
    assert not examine(by_length).shifts


def test_shifts_at_random_lengths() -> None:
    lengths = np.random.default_rng(0).integers(10, 200, 500)
    assert find(lengths, lengths[::-1].copy(), 5) == ()
    assert [s.lines for s in find(lengths, np.roll(lengths, 3), 5)] == [3]


@pytest.mark.usefixtures("lingua")
def test_files_in_the_wrong_order(pairs: list[Pair]) -> None:
    crossed = [Pair(pair.target, pair.source) for pair in pairs[:100]]
    assert "the other way" in named(examine(crossed, languages=LANGUAGES), "sides").text
    assert {v.rule for v in rejected(crossed).values()} == {"swapped"}
    assert not rejected(crossed, ("fr", "en"))


def test_files_of_two_scripts_in_the_wrong_order() -> None:
    """Without lingua, scripts tell Russian from English; French they cannot."""
    russian = [f"Старик медленно идёт домой, уже {i} часов, очень поздно." for i in range(60)]
    english = [f"The old man walks slowly home, it is {i} o'clock, very late." for i in range(60)]
    mixed = [Pair(*pair) for pair in zip(russian, english, strict=True)]
    report = examine(mixed, languages=("en", "ru"))
    assert named(report, "sides").severity == "fault"
    assert "the other way" in named(report, "sides").text
    assert {v.rule for v in rejected(mixed, ("en", "ru")).values()} == {"swapped"}
    assert not rejected(mixed, ("ru", "en"))


@pytest.mark.usefixtures("lingua")
def test_another_language_than_stated(pairs: list[Pair]) -> None:
    report = examine(pairs[:300], languages=("en", "de"))
    assert named(report, "sides").text == "Most of the target seems to be fr, but de was stated."
    assert not rejected(pairs[:300], ("en", "fr"))


def test_two_files_that_have_nothing_in_common(pairs: list[Pair]) -> None:
    targets = [pairs[i].target for i in drawn(1200, 1200)]
    report = examine([Pair(p.source, t) for p, t in zip(pairs, targets, strict=True)])
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
def test_third_languages(pairs: list[Pair]) -> None:
    lines = [*pairs, *(Pair(pairs[i].source + f" {i}", text) for i, text in enumerate(GERMAN))]
    found = rejected(lines)
    reasons = [found[line].reason for line in range(1201, 1206) if line in found]
    assert reasons.count("the target seems to be de") >= 4
    assert not any(v.rule == "language" for line, v in found.items() if line <= 1200)


@pytest.mark.usefixtures("lingua")
def test_many_lines_in_a_third_language(pairs: list[Pair]) -> None:
    """Where every fifth line is German, German words are no longer unusual."""
    mixed = [
        Pair(pair.source, f"{GERMAN[i % 4]} {GERMAN[-1]} {i}") if i % 5 == 0 else pair
        for i, pair in enumerate(pairs)
    ]
    found = rejected(mixed)
    assert sum(line % 5 == 1 for line in found) >= 230
    assert sum(line % 5 != 1 for line in found) <= 5


def test_without_the_detector_scripts_and_words_remain(pairs: list[Pair]) -> None:
    lines = [*pairs, Pair(pairs[0].source + "!", RUSSIAN), Pair(pairs[0].source, pairs[1].source)]
    found = rejected(lines)
    assert found[1201].reason == "the target seems to be in Cyrillic script"
    assert found[1202].rule == "language"
    report = examine(lines, languages=LANGUAGES)
    assert "seq2see[languages]" in report.unchecked[0]
    assert report.source.found is None


@pytest.mark.usefixtures("lingua")
def test_a_language_that_the_detector_does_not_know(pairs: list[Pair]) -> None:
    report = examine(pairs[:100], languages=("en", "gsw"))
    assert not any(finding.name == "sides" for finding in report.findings)
    assert "`gsw` is not a language that the detector knows." in report.unchecked


@pytest.mark.usefixtures("lingua")
def test_names_are_of_no_language() -> None:
    good = [
        Pair(f"We met {i} of them there", f"Nous y avons rencontré {i} amis") for i in range(99)
    ]
    names = Pair("Tōkyō, Kyōto, Ōsaka and Hokkaidō", "Tōkyō, Kyōto, Ōsaka et Hokkaidō")
    assert not rejected([*good, names])


def test_what_is_held_out(pairs: list[Pair]) -> None:
    held_out = [pairs[0], Pair(pairs[1].source.upper() + " !", "autre"), Pair("Unseen.", "Inédit.")]
    report = examine(pairs, languages=LANGUAGES, held_out=held_out)
    assert report.overlap is not None
    assert report.overlap.held_out == 3
    assert report.overlap.sources == 1
    assert report.overlap.sources_folded == 2
    assert report.overlap.pairs_folded == 1
    assert "2 of 3 are here, 1 to the letter" in named(report, "held_out").text
    found = rejected(pairs, held_out=held_out)
    assert [line for line in found if found[line].rule == "held_out"] == [1, 2]


def test_a_held_out_line_without_words_is_nobodys() -> None:
    assert not rejected([Pair("!", "！"), Pair("?", "？")], None, [Pair("…", "…")])


def test_the_same_on_both_sides_is_right_for_names() -> None:
    report = examine([Pair("Miss Marple", "Miss Marple"), Pair("Yes.", "Oui.")])
    assert report.passing == 2
    assert named(report, "same").severity == "note"


@pytest.mark.parametrize(
    ("text", "is_copy"),
    [("Tom is here.", True), ("Tom is here", False), ("Oh, Tom!", False), ("我在这里。", True)],
)
def test_a_sentence_on_both_sides_is_untranslated(text: str, is_copy: bool) -> None:
    report = examine([Pair(text, text), Pair("Yes.", "Oui.")])
    assert any(finding.name == "identical" for finding in report.findings) == is_copy


def test_the_usual_ratio_and_its_spread() -> None:
    source = np.full(1000, 100)
    target = np.random.default_rng(0).normal(200, 40, 1000).astype(int)  # 40 is 2 roots of 100, × 2
    ratio = Ratio.learn(source, target)
    assert ratio.typical == pytest.approx(2, rel=0.03)
    assert ratio.spread == pytest.approx(2, rel=0.1)
    errors = ratio.errors(np.array([100, 100, 400]), np.array([200, 320, 800 + 240]))
    assert errors == pytest.approx([0, 3, 3], abs=0.6)  # the same error is less in a longer line


def test_lines_are_counted_over_all_batches() -> None:
    many = [Pair(f"source {i}", f"target {i}") for i in range(4200)]
    many[4149] = Pair("source", "")
    assert list(rejected(many, None)) == [4150]
    (example,) = named(examine(many), "empty").examples
    assert (example.line, example.why) == (4150, "the target has no words")


def test_sources_with_many_targets(pairs: list[Pair]) -> None:
    more = [*pairs[:100], *(Pair(pairs[0].source, f"{pairs[0].target} {i}") for i in range(3))]
    finding = named(examine(more), "many_targets")
    assert finding.count == 1
    assert "up to 4" in finding.text


def test_rules_can_be_left_out(pairs: list[Pair]) -> None:
    lines = [*pairs[:100], pairs[0], Pair("", "vide")]
    config = DoctorConfig(remove=("empty",))
    assert {v.rule for v in rejected(lines, config=config).values()} == {"empty"}
    report = examine(lines, config)
    assert "clean" not in named(report, "duplicate").text
    assert "clean" in named(report, "empty").text
    assert report.passing == 101
    with pytest.raises(ConfigError, match="remove"):
        DoctorConfig(remove=("typos",))  # type: ignore[arg-type]


def test_counts_are_those_of_cleaning(pairs: list[Pair]) -> None:
    lines = [*pairs[:500], *pairs[:3], Pair("", "vide"), Pair("a" * 10_000, "b")]
    report = examine(lines, languages=LANGUAGES)
    found = Counter(v.rule for v in rejected(lines).values())
    assert {f.name: f.count for f in report.findings if f.name in RULES} == found
    assert report.passing == len(lines) - found.total()


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 299, 300])
def test_few_pairs(pairs: list[Pair], count: int) -> None:
    report = examine(pairs[:count], languages=LANGUAGES)
    assert report.pairs == report.passing == count
    assert report.healthy == (count > 0)
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


def test_weird_lines(pairs: list[Pair]) -> None:
    lines = [*pairs[:400], *(Pair(a, b) for a in WEIRD for b in WEIRD)]
    report = examine(lines, languages=LANGUAGES)
    assert report.pairs == 500
    assert all(v.pair in lines for v in clean(lines) if isinstance(v, Kept))
    json.dumps(report.to_json(), allow_nan=False)


def test_the_report_is_plain_json(pairs: list[Pair]) -> None:
    lines = shifted([*pairs[:500], *pairs[:9]], 200, 500, 1)
    report = examine(lines, languages=LANGUAGES, held_out=pairs[:2])
    plain = report.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["healthy"] is False
    assert plain["shifts"][0]["lines"] == 1
    assert [f["severity"] for f in plain["findings"]] == sorted(
        (f["severity"] for f in plain["findings"]), key=["fault", "warning", "note"].index
    )


def test_the_same_report_each_time(pairs: list[Pair]) -> None:
    lines = [*pairs[:600], *pairs[:50]]
    assert examine(lines) == examine(lines)


def test_what_can_be_read_once_is_refused(pairs: list[Pair]) -> None:
    with pytest.raises(InputError, match="must be a list, a `Corpus` or the like"):
        examine(iter(pairs))
    with pytest.raises(InputError, match="but is an iterator instead"):
        next(iter(clean(iter(pairs))))


def test_a_corpus_is_read_anew_each_time(pairs: list[Pair]) -> None:
    readings: list[int] = []

    class File:
        def __iter__(self) -> Iterator[Pair]:
            readings.append(1)
            yield from pairs[:100]

    heard: list[tuple[str, int]] = []
    report = examine(File(), progress=lambda doing, lines: heard.append((doing, lines)))
    assert report == examine(pairs[:100])
    assert len(readings) == 2
    assert heard == [("reading", 100), ("judging", 100)]


def test_a_sample_is_drawn_from_all_lines(pairs: list[Pair]) -> None:
    numbered = [Pair(f"source {i}", f"target {i}") for i in range(20_000)]
    found = survey(numbered, 1000)
    assert 500 <= len(found.sample) <= 1000
    assert [pair.source for pair in found.sample] == [f"source {i}" for i in found.sampled]
    gaps = np.diff(found.sampled)
    assert set(gaps) == {1, gaps.max()}
    assert found.sampled[-1] > 20_000 - gaps.max() - 64
    assert examine(pairs, DoctorConfig(sample=600), LANGUAGES).healthy


def test_characters_that_the_tokenizer_lacks(pairs: list[Pair]) -> None:
    config = TokenizerConfig(vocab_size=600)
    lines = [pair.source for pair in pairs[:300]]
    own = Tokenizer.train(lines, config)
    lossy = Tokenizer.train(lines, config.replace(byte_fallback=False, vocab_size=300))
    pair = Pair("The 龘 dog x e\u0301", "Le chien ▁ 龘龘")
    report = examine([pair], tokenizers=Tokenizers(own, lossy))
    source, target = report.source.lacking, report.target.lacking
    assert source is not None
    assert target is not None
    assert dict(source.commonest) == {"龘": 1, "é": 1}  # as normalisation leaves it
    assert source.fate == "bytes"
    assert dict(target.commonest)["龘"] == 2
    assert target.fate == "unknown"
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
    suggestion = suggest(pairs, pairs * 20, [Pair(many[:200_000], many[-200_000:])])
    assert suggestion.preset == preset
    assert least <= suggestion.vocab_size <= most


def test_each_character_gets_its_piece() -> None:
    many = "".join(chr(0x4E00 + i) for i in range(3000))
    suggestion = suggest(1_000, 20_000, [Pair(many, many)])
    assert suggestion.vocab_size >= 260 + 3000
    assert "different characters need pieces" in suggestion.reason


@pytest.mark.parametrize(
    "values",
    [np.array([3]), np.arange(1000), np.r_[np.ones(999, int), 10**6], np.linspace(0, 9, 50)],
)
def test_a_distribution_counts_everything(values: np.ndarray) -> None:
    found = Distribution.of(values)
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
    assert damage(text) == found


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
    assert unmatched_markup(source, target) == found


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
    assert foreign_script("Ærøskøbing – „œuvre“", latin) is None
    assert foreign_script("Привет, мир", latin) == "CYRILLIC"
    assert foreign_script("《The Doors: Live at The Hollywood Bowl 1968》海报", han) is None
    assert foreign_script("Two old brooms", han) == "LATIN"
    assert foreign_script("123 !", latin) is None


def test_words_and_folding() -> None:
    assert words("It's 3 Dogs' 你好。") == ["it", "s", "3", "dogs", "你", "好"]
    assert fold(" Straße, NR. 5!") == fold("STRASSE nr 5")


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
        assert words(unicodedata.normalize(form, text)) == normal


def test_folding_keeps_what_tells_sentences_apart() -> None:
    assert fold("हिंदी") != fold("हदा")
    assert fold("ไม่") != fold("ไม")
    assert fold("𞤢𞥄 😀_") == "𞤢𞥄" != fold("𞤢")
    assert fold("Café Nöel!") == fold("CAFÉ, NÖEL") == "cafénöel"
    assert fold("İZMİR") == fold("izmir")
    assert fold("❤️ 1️⃣") == fold("☀️ 1") == "1"


def test_a_long_line_of_devanagari_is_not_too_long() -> None:
    hindi = "हिन्दी में लिखा हुआ " * 40
    assert not rejected([Pair("Written in Hindi " * 40, hindi)], None)


def test_twins_in_two_normal_forms_are_the_same(pairs: list[Pair]) -> None:
    decomposed = [Pair(unicodedata.normalize("NFD", p.target), "x") for p in pairs[:9]]
    report = examine([Pair(p.target, p.source) for p in pairs[:9]], held_out=decomposed)
    assert report.overlap is not None
    assert report.overlap.sources_folded == 9


def test_carriage_returns_inside_lines() -> None:
    old = Pair("One.\rTwo.\rThree.", "Un.\rDeux.\rTrois.")
    finding = named(examine([old, Pair("a b", "c d"), Pair("e\r\nf", "g\r\nh")]), "line_ends")
    assert finding.severity == "warning"
    assert finding.count == 1
    assert finding.text.startswith("1 pair (33 %) has carriage returns inside lines")
    assert finding.examples[0].line == 1
    assert "2 pairs (67 %) have" in named(examine([old, old, Pair("a b", "c d")]), "line_ends").text


def one_of_each() -> list[Pair]:
    """Return a corpus in which each finding is about one pair."""
    return [
        Pair("This is the same text here", "This is the same text here"),
        Pair("A dog runs.", ""),
        Pair("Broken � text", "Texte"),
        Pair("word " * 300, "mot " * 300),
        Pair("<b>Bold</b> words", "Des mots gras"),
        Pair("In 1830 he went home", "Vers 1930 il rentra"),
        Pair("Miss Marple", "Miss Marple"),
        Pair("Twice the same", "Deux fois"),
        Pair("Twice the same", "Deux fois"),
        Pair("Two targets", "Deux cibles"),
        Pair("Two targets", "Deux buts"),
        Pair("It is held out", "Mis de côté"),
        Pair("Old\rMac", "Vieux\rMac"),
    ]


def test_one_is_singular() -> None:
    tokenizer = Tokenizer.train(["abc " * 9], TokenizerConfig(vocab_size=265))
    held_out = [Pair("It is held out", "x"), Pair("Not here", "y")]
    report = examine(one_of_each(), held_out=held_out)
    texts = {finding.name: finding.text for finding in report.findings}
    assert {"empty", "damaged", "too_long", "markup", "identical", "duplicate"} < texts.keys()
    assert {"held_out", "numbers", "same", "many_targets", "line_ends"} < texts.keys()
    assert "1 of 2 is here, 1 to the letter" in texts["held_out"]
    assert texts["many_targets"].startswith("1 source has several different targets")
    config = DoctorConfig(max_words=1, identical_words=1)
    texts |= {f"{f.name} above 1": f.text for f in examine(one_of_each(), config).findings}
    lacking = examine([Pair("abc d", "abc")], tokenizers=Tokenizers(tokenizer, tokenizer))
    texts |= {f.name: f.text for f in lacking.findings}
    assert texts["characters"].startswith("1 character of the source has no piece")
    assert "it is written as bytes" in texts["characters"]
    texts |= {text: text for text in lacking.unchecked} | {"suggested": lacking.suggestion.reason}
    assert "1 pair is too few to learn which words translate each other." in texts
    for text in texts.values():
        assert not re.search(r"\b1 (pairs|words|sources|characters|lines)\b", text), text
        assert not re.search(r"^1 \w+ (\(\S+ %\) )?(have|seem|are)\b", text), text


def test_a_suggestion_counts_what_passes(pairs: list[Pair]) -> None:
    lines = [*pairs[:400], *(Pair(p.source, "") for p in pairs[400:])]
    report = examine(lines, languages=LANGUAGES)
    kept = [v.pair for v in clean(lines, languages=LANGUAGES) if isinstance(v, Kept)]
    count = sum(len(words(pair.source)) + len(words(pair.target)) for pair in kept)
    assert report.suggestion.reason.startswith(f"{len(kept):,} pairs of {count:,} words: ")
    nothing = examine([Pair(p.source, "") for p in pairs[:50]]).suggestion
    assert nothing.reason == "no pairs to learn from yet"
    assert nothing == examine([]).suggestion


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
    found = suggest(count, sum(len(words(line)) for pair in lines for line in pair), lines)
    config = TokenizerConfig(vocab_size=found.vocab_size)
    trained = Tokenizer.train([line for pair in lines for line in pair], config)
    assert len(trained.pieces) == found.vocab_size


def test_digits_have_281_pieces() -> None:
    suggestion = examine(CORPORA["digits"]()[:2000]).suggestion
    assert suggestion.vocab_size == 281
    assert "as many as it has different characters and words" in suggestion.reason


def test_nothing_in_common_with_what_is_held_out(pairs: list[Pair]) -> None:
    report = examine(pairs[:200], languages=LANGUAGES, held_out=pairs[200:300])
    finding = named(report, "held_out")
    assert (finding.severity, finding.count) == ("note", 0)
    assert finding.text == "0 of 100 held-out sources are here."
    assert report.healthy
    empty = examine(pairs[:200], languages=LANGUAGES, held_out=[])
    assert named(empty, "held_out").text == "Nothing is held out: the test set is empty."
    assert empty.overlap is not None
    assert empty.overlap.held_out == 0
    assert not any(f.name == "held_out" for f in examine(pairs[:200]).findings)


def test_examples_are_cut() -> None:
    tag = f"<b {'x' * 10_000}>"
    report = examine([Pair("a " * 100_000, "b " * 100_000), Pair(tag, "c")])
    example = named(report, "too_long").examples[0]
    assert example.source == "a " * 249 + "a…"
    assert len(json.dumps(report.to_json())) < 10_000


def test_the_worst_alignments_are_shown_first(pairs: list[Pair]) -> None:
    places = drawn(60, 1200)
    wrong = list(pairs)
    for place, other in zip(places, places[1:] + places[:1], strict=True):
        wrong[place] = Pair(pairs[place].source, pairs[other].target)
    few, many = (
        named(examine(wrong, DoctorConfig(examples=count), LANGUAGES), "misaligned").examples
        for count in (5, 1200)
    )
    assert len(many) > 10
    assert few == many[:5]
    sizes = [len(words(example.source + " " + example.target)) for example in many]
    assert sum(sizes[:5]) / 5 > sum(sizes) / len(sizes)  # long pairs have more words against them


def test_a_cleaned_corpus_is_healthy(pairs: list[Pair]) -> None:
    damages = list(DAMAGES.values())
    sick = list(pairs)
    for i, place in enumerate(drawn(120, 1200)):
        sick[place] = damages[i % len(damages)](pairs[place], i)
    sick += sick[:50]
    assert not examine(sick, languages=LANGUAGES).healthy
    kept = [v.pair for v in clean(sick, languages=LANGUAGES) if isinstance(v, Kept)]
    report = examine(kept, languages=LANGUAGES)
    assert report.healthy, [finding.text for finding in report.findings]
    assert len(kept) >= 1070
