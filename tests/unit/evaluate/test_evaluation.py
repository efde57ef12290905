"""Reports on translations: hand-worked cases, and what cannot be is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from sacrebleu.metrics.base import Metric

from seq2see import metrics
from seq2see.bundle import Bundle, Provenance, SpecialTokens
from seq2see.data import fables
from seq2see.data.corpus import Corpus, CorpusConfig
from seq2see.data.fables import Fable
from seq2see.engines.loading import load_torch_engine
from seq2see.errors import InputError
from seq2see.evaluate import (
    EvaluationSet,
    HeadAlignmentScorer,
    ScoringConfig,
    compare_systems,
    compute_bleu_and_chrf,
    compute_pronoun_accuracy,
    evaluate,
    score_translations,
    with_best_alignment_head,
)
from seq2see.evaluate.alignment import AlignmentScore
from seq2see.evaluate.comparison import diff_words
from seq2see.evaluate.evaluation import split_into_length_buckets
from seq2see.model import ModelConfig, Transformer
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.translator import Translation, TranslationFlag, Translator

SOURCES = ["a dog", "the cat sat on a mat", "yes", "two men are walking in a park"]
REFERENCES = ["ein Hund", "die Katze saß auf einer Matte", "ja", "zwei Männer gehen im Park"]
QUICK = ScoringConfig(resamples=20)


class Parrot:
    """A translator that knows the answers."""

    languages = ("en", "de")

    def __init__(self, answers: Iterable[Translation]) -> None:
        self._answers = list(answers)

    def stream(self, lines: Iterable[str], options: object = None) -> Iterator[Translation]:
        assert list(lines) == SOURCES
        return iter(self._answers)


def held_out(**changes) -> EvaluationSet:
    whole = EvaluationSet("test", (REFERENCES,), SOURCES, ("en", "de"))
    return replace(whole, **changes)


# --- what is judged ---


def test_a_corpus_is_read_with_its_fables() -> None:
    corpus = Corpus(CorpusConfig(files=("builtin:fables-short/test",)), ("en", "fr"))
    found = EvaluationSet.from_corpus(corpus)
    test = fables.load_fables("test", short=True)
    assert found.references == ([fable.target for fable in test],)
    assert list(found.fables) == test
    assert set(found.head_selection_fables) <= set(fables.load_fables("valid", short=True))
    assert (
        EvaluationSet.from_corpus(Corpus(CorpusConfig(files=("builtin:copy/test",)))).fables == []
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": SOURCES[1:]}, "as long, but have 3 and 4 lines"),
        ({"references": (REFERENCES, ["ja"])}, "as long, but have 4 and 4 and 1 lines"),
        ({"references": ([],), "sources": None}, "at least one sentence"),
    ],
)
def test_sides_must_fit(changes, message) -> None:
    with pytest.raises(InputError, match=message):
        held_out(**changes)


def test_length_is_in_words_or_characters() -> None:
    assert held_out().sentence_lengths == [2, 6, 1, 7]
    assert held_out(sources=None).sentence_lengths == [2, 6, 1, 5]
    assert EvaluationSet("test", (["我喜欢猫。"],), None, (None, "zh")).sentence_lengths == [5]
    assert EvaluationSet("test", (["แมวนอน"],), None, (None, "th")).sentence_lengths == [6]


# --- reports ---


def test_a_report_counts_everything() -> None:
    answers = [Translation(text, 0.0, 0.0) for text in REFERENCES]
    answers[0] = replace(answers[0], text="ein Hund Hund", flags=(TranslationFlag.REPETITION,))
    answers[2] = replace(answers[2], text="", error="too long")
    heard: list[int] = []
    report = evaluate(Parrot(answers), held_out(), None, QUICK, heard.append)  # type: ignore[arg-type]
    assert report.translations == ["ein Hund Hund", REFERENCES[1], "", REFERENCES[3]]
    assert report.scores["exact"].value == 50
    assert report.flags == {"repetition": 1}
    assert report.errors == {3: "too long"}
    assert heard == [1, 2, 3, 4]
    assert report.pronoun_accuracy is None
    record = report.to_json()
    assert record["num_sentences"] == 4
    assert record["scores"]["bleu"]["signature"].startswith("nrefs:1|bs:20|")


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_what_cannot_be_scored_is_not_translated(language, monkeypatch) -> None:
    module = pytest.importorskip(f"sacrebleu.tokenizers.tokenizer_{language}_mecab")
    monkeypatch.setattr(module, "MeCab", None)
    given = held_out(languages=("en", language))
    with pytest.raises(InputError, match="needs a package more"):
        evaluate(None, given)  # type: ignore[arg-type]
    found = compute_bleu_and_chrf(["猫が好き"], ["猫が好き"], language)
    assert found["bleu"].value == pytest.approx(100)
    assert "tok:char" in found["bleu"].signature


def test_buckets_add_up_to_the_whole() -> None:
    report = score_translations([*REFERENCES[:3], "nein"], held_out(), QUICK)
    assert sum(bucket.num_sentences for bucket in report.length_buckets) == 4
    assert [(b.min_length, b.max_length) for b in report.length_buckets] == [
        (1, 1),
        (2, 2),
        (6, 6),
        (7, 7),
    ]
    assert [b.values["exact"] for b in report.length_buckets] == [100, 100, 100, 0]


def test_a_bucket_has_the_score_of_its_sentences_alone() -> None:
    texts, references = (
        [" ".join(line.split()[: 2 + number % 7]) for number, line in enumerate(lines)]
        for lines in (BROKEN, MANY)
    )
    test = EvaluationSet("test", (references,))
    report = score_translations(texts, test, QUICK)
    assert len(report.length_buckets) == 5
    for bucket, places in zip(
        report.length_buckets, split_into_length_buckets(test.sentence_lengths), strict=True
    ):
        chosen = [[lines[place] for place in places] for lines in (texts, references)]
        assert bucket.values == {m: s.value for m, s in metrics.score_metrics(*chosen).items()}


@pytest.mark.parametrize("report", ["judged", "compared"])
def test_each_metric_counts_each_line_once(report: str, monkeypatch) -> None:
    counted: Counter[str] = Counter()
    count = Metric._extract_corpus_statistics

    def heard(metric: Metric, *given):
        counted[type(metric).__name__] += 1
        return count(metric, *given)

    monkeypatch.setattr(Metric, "_extract_corpus_statistics", heard)
    if report == "judged":
        score_translations(BROKEN, many(), QUICK)
    else:
        compare_systems(("a", "b"), MANY, BROKEN, many(), QUICK, resamples=20)
    systems = 1 if report == "judged" else 2
    assert counted == dict.fromkeys(("BLEU", "CHRF", "TER", "ExactMatch"), systems)


def test_several_references_and_the_papers_form() -> None:
    more = held_out(references=(REFERENCES, ["x", "x", "jawohl", "x"]))
    texts = ["EIN HUND", *REFERENCES[1:2], "jawohl", REFERENCES[3]]
    assert score_translations(texts, more, QUICK).scores["exact"].value == 75
    lower = QUICK.replace(tokenize="none", lowercase=True)
    report = score_translations(texts, more, lower)
    assert report.scores["exact"].value == 100
    assert report.scores["bleu"].value == pytest.approx(100)
    assert "nrefs:2|" in report.scores["bleu"].signature
    assert "|case:lc|" in report.scores["bleu"].signature


def test_chinese_is_cut_by_its_language() -> None:
    test = EvaluationSet("test", (["我喜欢狗。"],), None, (None, "zh"))
    report = score_translations(["我喜欢猫。"], test, QUICK)
    assert "|tok:zh|" in report.scores["bleu"].signature
    assert report.scores["ter"].value == pytest.approx(20)


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_every_sentence_is_in_one_bucket(count) -> None:
    lengths = [(number * 7919) % 23 + 1 for number in range(count)]
    parts = split_into_length_buckets(lengths)
    assert sorted(place for part in parts for place in part) == list(range(count))
    spans = [(min(lengths[p] for p in part), max(lengths[p] for p in part)) for part in parts]
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert 1 <= len(parts) <= 5


def test_equal_lengths_are_one_bucket() -> None:
    assert split_into_length_buckets([4, 4, 4]) == [[0, 1, 2]]


# --- pronouns ---


def test_pronouns_by_hand() -> None:
    cases = fables.load_pronoun_cases("test", short=True)[:10]
    others = [fable for fable in fables.load_fables("test", short=True) if not fable.pronoun][:3]
    right = [fable.target for fable in cases]
    wrong = [fable.pronoun.contrastive_pair.wrong for fable in cases]
    mixed = right[:4] + wrong[4:] + [fable.target for fable in others]
    found = compute_pronoun_accuracy([*cases, *others], mixed)
    assert (found.total, found.correct, found.accuracy) == (10, 4, 40)
    assert compute_pronoun_accuracy(cases, [""] * 10).correct == 0
    assert compute_pronoun_accuracy(others, ["", "", ""]).total == 0


# --- two systems ---


def test_words_that_differ() -> None:
    found = diff_words("der kleine Hund läuft.", "der Hund lief, oder?")
    assert [stretch for stretch in found if stretch.side != "both"] == [
        ("first", " kleine"),
        ("first", "läuft."),
        ("second", "lief, oder?"),
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a b c", "a x c"),
        ("", "a"),
        ("我喜欢猫。", "我喜欢狗。"),
        ("a\tb  c", "b c"),
        ("é", "e\u0301"),
    ],
)
def test_a_diff_holds_both_texts(first, second) -> None:
    stretches = diff_words(first, second)
    assert "".join(text for side, text in stretches if side != "second") == first
    assert "".join(text for side, text in stretches if side != "first") == second


def test_characters_of_chinese_are_compared() -> None:
    assert [s.text for s in diff_words("我喜欢猫。", "我喜欢狗。")] == ["我喜欢", "猫", "狗", "。"]


MANY = [f"das ist der Satz {n} von vielen hier" for n in range(60)]
BROKEN = [line.replace("von vielen", "x y") if n % 2 else line for n, line in enumerate(MANY)]


def many() -> EvaluationSet:
    return EvaluationSet("test", (MANY,))


def test_a_clear_difference() -> None:
    found = compare_systems(("good", "bad"), MANY, BROKEN, many(), resamples=100)
    assert found.verdict.startswith("good is better than bad: BLEU 100.00 and ")
    assert (found.wins, found.losses, found.identical) == (0, 30, 30)
    assert all(difference.gain < 0 for difference in found.differences)
    sizes = [abs(difference.gain) for difference in found.differences]
    assert sizes == sorted(sizes, reverse=True)
    assert found.differences[0].line % 2 == 0  # counted from 1
    back = compare_systems(("bad", "good"), BROKEN, MANY, many(), resamples=100)
    assert back.verdict.startswith("good is better than bad")
    assert (back.wins, back.losses) == (30, 0)


def test_no_difference() -> None:
    other = [MANY[0], *BROKEN[:2], *MANY[3:]]
    found = compare_systems(("a", "b"), BROKEN[:2] + MANY[2:], other, many(), resamples=100)
    assert found.verdict.startswith("No difference can be shown: BLEU ")
    same = compare_systems(("a", "b"), MANY, MANY, many(), resamples=100)
    assert same.verdict == "a and b translate all 60 sentences alike."
    assert same.differences == []


def test_an_interval_that_touches_0_shows_nothing() -> None:
    clear = compare_systems(
        ("good", "bad"), MANY, BROKEN, many(), ScoringConfig(metrics=("bleu",)), 100
    )
    (tests,) = clear.metrics.values()
    touching = {test: replace(one, interval=(-9.0, 0.0)) for test, one in tests.items()}
    unclear = replace(clear, metrics={"bleu": touching})
    assert unclear.verdict.startswith("No difference can be shown: BLEU ")


def test_metrics_that_disagree_are_named() -> None:
    """One system is always nearly right; the other is exactly right, or lost."""
    scoring = ScoringConfig(metrics=("exact", "bleu"))
    nearly = [f"{line} ja" for line in MANY]
    half = [line if n % 4 else "x" for n, line in enumerate(MANY)]
    found = compare_systems(("nearly", "half"), nearly, half, many(), scoring, 100)
    assert found.verdict.startswith("half is better than nearly: exact match 0.00 and 75.00")
    assert found.verdict.endswith(", but BLEU says the contrary.")


def test_a_comparison_as_json() -> None:
    found = compare_systems(("good", "bad"), MANY, BROKEN, many(), resamples=50).to_json(3)
    assert len(found["differences"]) == 3
    assert found["metrics"]["ter"]["better"] == "first"
    assert found["metrics"]["bleu"]["tests"]["randomization"]["p_value"] == pytest.approx(1 / 51)
    assert "|ar:50|" in found["metrics"]["bleu"]["tests"]["randomization"]["signature"]


# --- alignment ---


def test_aer_by_hand() -> None:
    """3 of 4 links found are right, of 5 that there are: F = 2·3 / 9."""
    score = AlignmentScore.from_counts(3, 4, 5)
    assert score.aer == pytest.approx(100 * (1 - 6 / 9))
    assert (score.precision, score.recall) == (75, 60)


FABLE = Fable("The dog sleeps.", "Le chien dort.", ((0, 0), (1, 1), (2, 2), (3, 3)), "statement")
SHIFTED = replace(FABLE, alignment=((1, 0), (2, 1), (3, 2), (0, 3)))


class Bespoke(HeadAlignmentScorer):
    """Its second head of the first layer looks where it should, piece by piece."""

    def _heard(self, sources, targets):
        weights_LBHTS = torch.full((2, len(sources), 2, 40, 40), 0.01)
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            for t in range(len(target)):
                place = min(t * (len(source) - 1) // len(target), len(source) - 2)
                weights_LBHTS[0, row, 1, t, place] = 1
        return weights_LBHTS


@pytest.fixture(scope="module")
def words() -> TokenizerPair:
    """Every word is a piece."""
    lines = ["The dog sleeps.", "Le chien dort."] * 50
    config = TokenizerConfig(vocab_size=300)
    return TokenizerPair.train(lines, lines, config)


def test_the_best_head_is_found(words) -> None:
    pieces = [len(words.source.encode(text)) for text in (FABLE.source, FABLE.target)]
    assert pieces == [4, 4]
    aligner = Bespoke(None, words, SpecialTokens())
    assert aligner.find_best_head([FABLE]) == (0, 1)
    scores = aligner.score_heads([FABLE])
    assert scores[0][1].aer == 0
    assert scores[0][2].aer == 0  # the mean of the heads
    assert aligner.score_heads([SHIFTED])[0][1].aer == 100
    report = aligner.build_report([FABLE, SHIFTED], [FABLE])
    assert (report.layer, report.head, report.score.aer) == (0, 1, 50)


def test_a_model_can_keep_its_best_head(words) -> None:
    sizes = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 2}
    config = ModelConfig(vocab_size=words.source.vocab_size, **sizes)
    weights = Transformer.from_config(config).state_dict()
    origin = Provenance(notes={"kept": "as it was"})
    bundle = Bundle(config, words, ("en", "fr"), weights, provenance=origin)
    cases = fables.load_fables("test", short=True)[:20]
    tuned = with_best_alignment_head(bundle, cases)
    layer, head = HeadAlignmentScorer(
        bundle.build_model(), words, bundle.special_tokens
    ).find_best_head(cases)
    assert tuned.provenance.notes == {
        "kept": "as it was",
        "alignment": {"layer": layer, "heads": [head]},
    }
    links = (
        Translator(load_torch_engine(tuned), words).translate("The dog.", alignment=True).alignment
    )
    assert links


def test_alignment_does_not_depend_on_the_batch(words) -> None:
    config = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 2}
    size = words.source.vocab_size
    model = Transformer.from_config(ModelConfig(vocab_size=size, **config)).eval()
    aligner = HeadAlignmentScorer(model, words, SpecialTokens(source_bos_id=3))
    cases = fables.load_fables("test", short=True)[:12]
    together = aligner.score_heads(cases)
    assert [len(heads) for heads in together] == [3, 3]
    alone = [aligner.score_heads([case])[1][0] for case in cases]
    right = sum(
        score.recall * len(case.alignment) for score, case in zip(alone, cases, strict=True)
    )
    whole = sum(len(case.alignment) for case in cases)
    assert together[1][0].recall == pytest.approx(right / whole)
