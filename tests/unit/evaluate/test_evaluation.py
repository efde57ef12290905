"""Scores, comparisons and alignment error rates, checked against hand-computed values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from sacrebleu.metrics.base import Metric

from seq2see import metrics
from seq2see.bundle import Bundle, Provenance, StartAndEndTokenIds
from seq2see.data import fables
from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig
from seq2see.data.fables import FableSentencePair
from seq2see.engines.loading import load_torch_engine
from seq2see.errors import InputError
from seq2see.evaluate import (
    EvaluationSet,
    HeadAlignmentScorer,
    MetricsConfig,
    alignment_error_rate,
    compare_systems,
    compute_pronoun_accuracy,
    evaluate,
    score_translations,
    score_validation_translations,
    with_best_alignment_head,
)
from seq2see.evaluate.comparison import diff_words
from seq2see.evaluate.evaluation import split_into_length_buckets
from seq2see.model import ModelConfig, Transformer
from seq2see.registries import METRICS
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.translator import (
    SentencePairOffsets,
    Translation,
    TranslationFlag,
    Translator,
    align_words,
)

SOURCES = ["a dog", "the cat sat on a mat", "yes", "two men are walking in a park"]
REFERENCES = ["ein Hund", "die Katze saß auf einer Matte", "ja", "zwei Männer gehen im Park"]
QUICK = MetricsConfig(resamples=20)


class FixedTranslator:
    """Returns fixed translations."""

    languages = ("en", "de")

    def __init__(self, translations: Iterable[Translation]) -> None:
        self._translations = list(translations)

    def stream(self, lines: Iterable[str], options: object = None) -> Iterator[Translation]:
        assert list(lines) == SOURCES
        return iter(self._translations)


def build_test_set(**changes) -> EvaluationSet:
    test_set = EvaluationSet("test", (REFERENCES,), SOURCES, ("en", "de"))
    return replace(test_set, **changes)


# --- evaluation sets ---


def test_builtin_corpus_includes_its_fables() -> None:
    corpus = Corpus(CorpusConfig(files=("builtin:fables-short/test",)), ("en", "fr"))
    found = EvaluationSet.from_corpus(corpus)
    test = fables.load_fables_split("test", short=True)
    assert found.references == ([fable.target for fable in test],)
    assert list(found.fables) == test
    assert set(found.head_selection_fables) <= set(fables.load_fables_split("valid", short=True))
    assert (
        EvaluationSet.from_corpus(Corpus(CorpusConfig(files=("builtin:copy/test",)))).fables == []
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": SOURCES[1:]}, "same number of lines, but have 3 and 4"),
        ({"references": (REFERENCES, ["ja"])}, "same number of lines, but have 4 and 4 and 1"),
        ({"references": ([],), "sources": None}, "at least one sentence"),
    ],
)
def test_sources_and_references_must_have_equal_lengths(changes, message) -> None:
    with pytest.raises(InputError, match=message):
        build_test_set(**changes)


def test_sentence_lengths_count_words_or_characters() -> None:
    assert build_test_set().sentence_lengths == [2, 6, 1, 7]
    assert build_test_set(sources=None).sentence_lengths == [2, 6, 1, 5]
    assert EvaluationSet("test", (["我喜欢猫。"],), None, (None, "zh")).sentence_lengths == [5]
    assert EvaluationSet("test", (["แมวนอน"],), None, (None, "th")).sentence_lengths == [6]


# --- evaluations ---


def test_evaluation_counts_scores_flags_and_errors() -> None:
    answers = [Translation(text, 0.0, 0.0) for text in REFERENCES]
    answers[0] = replace(answers[0], text="ein Hund Hund", flags=(TranslationFlag.REPETITION,))
    answers[2] = replace(answers[2], text="", error="too long")
    progress: list[tuple[int, int]] = []
    translator = FixedTranslator(answers)
    report = evaluate(translator, build_test_set(), None, QUICK, lambda *now: progress.append(now))  # type: ignore[arg-type]
    assert report.translations == ["ein Hund Hund", REFERENCES[1], "", REFERENCES[3]]
    assert report.scores["exact"].value == 50
    assert report.flags == {"repetition": 1}
    assert report.errors == {3: "too long"}
    assert progress == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert report.pronoun_accuracy is None
    record = report.to_json()
    assert record["num_sentences"] == 4
    assert record["scores"]["bleu"]["signature"].startswith("nrefs:1|bs:20|")


@pytest.mark.parametrize("num_parts", [1, 2])
def test_signature_records_that_lines_were_split(num_parts: int) -> None:
    answers = [Translation(text, 0.0, 0.0) for text in REFERENCES]
    parts = (SentencePairOffsets(0, 1, 0, 1, 0.0),) * num_parts
    answers[1] = replace(answers[1], sentences=parts)
    report = evaluate(FixedTranslator(answers), build_test_set(), None, QUICK)  # type: ignore[arg-type]
    for score in report.scores.values():
        assert score.signature.endswith("|split:auto") == (num_parts > 1)


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_missing_tokenizer_raises_before_translation(language, monkeypatch) -> None:
    module = pytest.importorskip(f"sacrebleu.tokenizers.tokenizer_{language}_mecab")
    monkeypatch.setattr(module, "MeCab", None)
    test_set = build_test_set(languages=("en", language))
    with pytest.raises(InputError, match="needs an optional package"):
        evaluate(None, test_set)  # type: ignore[arg-type]
    found = score_validation_translations(["猫が好き"], ["猫が好き"], language)
    assert found["bleu"].value == pytest.approx(100)
    assert "tok:char" in found["bleu"].signature


def test_length_buckets_contain_all_sentences() -> None:
    report = score_translations([*REFERENCES[:3], "nein"], build_test_set(), QUICK)
    assert sum(bucket.num_sentences for bucket in report.length_buckets) == 4
    assert [(b.min_length, b.max_length) for b in report.length_buckets] == [
        (1, 1),
        (2, 2),
        (6, 6),
        (7, 7),
    ]
    assert [b.values["exact"] for b in report.length_buckets] == [100, 100, 100, 0]


def test_bucket_score_equals_score_of_its_sentences() -> None:
    texts, references = (
        [" ".join(line.split()[: 2 + number % 7]) for number, line in enumerate(lines)]
        for lines in (BROKEN, MANY)
    )
    test = EvaluationSet("test", (references,))
    report = score_translations(texts, test, QUICK)
    assert len(report.length_buckets) == 5
    for bucket, indices in zip(
        report.length_buckets, split_into_length_buckets(test.sentence_lengths), strict=True
    ):
        sentences = [[lines[index] for index in indices] for lines in (texts, references)]
        assert bucket.values == {
            metric: metrics.compute_metric_score(*sentences, metric).value for metric in METRICS
        }


@pytest.mark.parametrize("function", ["score", "compare"])
def test_each_metric_processes_each_line_once(function: str, monkeypatch) -> None:
    counted: Counter[str] = Counter()
    original = Metric._extract_corpus_statistics

    def extract(metric: Metric, *arguments):
        counted[type(metric).__name__] += 1
        return original(metric, *arguments)

    monkeypatch.setattr(Metric, "_extract_corpus_statistics", extract)
    if function == "score":
        score_translations(BROKEN, build_large_test_set(), QUICK)
    else:
        compare_systems(("a", "b"), MANY, BROKEN, build_large_test_set(), QUICK, resamples=20)
    systems = 1 if function == "score" else 2
    assert counted == dict.fromkeys(("BLEU", "CHRF", "TER", "ExactMatch"), systems)


def test_multiple_references_and_lowercase_scoring() -> None:
    more = build_test_set(references=(REFERENCES, ["x", "x", "jawohl", "x"]))
    texts = ["EIN HUND", *REFERENCES[1:2], "jawohl", REFERENCES[3]]
    assert score_translations(texts, more, QUICK).scores["exact"].value == 75
    lower = QUICK.replace(tokenize="none", lowercase=True)
    report = score_translations(texts, more, lower)
    assert report.scores["exact"].value == 100
    assert report.scores["bleu"].value == pytest.approx(100)
    assert "nrefs:2|" in report.scores["bleu"].signature
    assert "|case:lc|" in report.scores["bleu"].signature


def test_chinese_is_tokenized_by_language() -> None:
    test = EvaluationSet("test", (["我喜欢狗。"],), None, (None, "zh"))
    report = score_translations(["我喜欢猫。"], test, QUICK)
    assert "|tok:zh|" in report.scores["bleu"].signature
    assert report.scores["ter"].value == pytest.approx(20)


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_each_sentence_is_in_one_bucket(count) -> None:
    lengths = [(number * 7919) % 23 + 1 for number in range(count)]
    parts = split_into_length_buckets(lengths)
    assert sorted(index for part in parts for index in part) == list(range(count))
    spans = [(min(lengths[p] for p in part), max(lengths[p] for p in part)) for part in parts]
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert 1 <= len(parts) <= 5


def test_equal_lengths_share_one_bucket() -> None:
    assert split_into_length_buckets([4, 4, 4]) == [[0, 1, 2]]


# --- pronouns ---


def test_pronoun_accuracy_of_known_translations() -> None:
    cases = fables.select_pronoun_fables("test", short=True)[:10]
    others = [fable for fable in fables.load_fables_split("test", short=True) if not fable.pronoun][
        :3
    ]
    correct = [fable.target for fable in cases]
    wrong = [fable.pronoun.contrastive_pair.wrong for fable in cases]
    mixed = correct[:4] + wrong[4:] + [fable.target for fable in others]
    found = compute_pronoun_accuracy([*cases, *others], mixed)
    assert (found.total, found.correct, found.accuracy) == (10, 4, 40)
    assert compute_pronoun_accuracy(cases, [""] * 10).correct == 0
    assert compute_pronoun_accuracy(others, ["", "", ""]).total == 0


# --- comparisons ---


def test_diff_lists_differing_words() -> None:
    found = diff_words("der kleine Hund läuft.", "der Hund lief, oder?")
    assert [span for span in found if span.side != "both"] == [
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
def test_diff_contains_both_texts(first, second) -> None:
    spans = diff_words(first, second)
    assert "".join(text for side, text in spans if side != "second") == first
    assert "".join(text for side, text in spans if side != "first") == second


def test_chinese_diff_compares_characters() -> None:
    assert [s.text for s in diff_words("我喜欢猫。", "我喜欢狗。")] == ["我喜欢", "猫", "狗", "。"]


MANY = [f"das ist der Satz {n} von vielen hier" for n in range(60)]
BROKEN = [line.replace("von vielen", "x y") if n % 2 else line for n, line in enumerate(MANY)]


def build_large_test_set() -> EvaluationSet:
    return EvaluationSet("test", (MANY,))


def test_clearly_better_system_is_named() -> None:
    found = compare_systems(("good", "bad"), MANY, BROKEN, build_large_test_set(), resamples=100)
    assert found.verdict.startswith("good is better than bad: BLEU 100.00 and ")
    assert (found.wins, found.losses, found.identical) == (0, 30, 30)
    assert all(difference.gain < 0 for difference in found.differences)
    sizes = [abs(difference.gain) for difference in found.differences]
    assert sizes == sorted(sizes, reverse=True)
    assert found.differences[0].line % 2 == 0  # lines are numbered from 1
    back = compare_systems(("bad", "good"), BROKEN, MANY, build_large_test_set(), resamples=100)
    assert back.verdict.startswith("good is better than bad")
    assert (back.wins, back.losses) == (30, 0)


def test_similar_systems_have_no_significant_difference() -> None:
    other = [MANY[0], *BROKEN[:2], *MANY[3:]]
    found = compare_systems(
        ("a", "b"), BROKEN[:2] + MANY[2:], other, build_large_test_set(), resamples=100
    )
    assert found.verdict.startswith("No significant difference: BLEU ")
    same = compare_systems(("a", "b"), MANY, MANY, build_large_test_set(), resamples=100)
    assert same.verdict == "a and b translate all 60 sentences the same."
    assert same.differences == []


def test_interval_with_0_is_not_significant() -> None:
    clear = compare_systems(
        ("good", "bad"), MANY, BROKEN, build_large_test_set(), MetricsConfig(metrics=("bleu",)), 100
    )
    touching = replace(clear.metrics["bleu"], interval=(-9.0, 0.0))
    unclear = replace(clear, metrics={"bleu": touching})
    assert unclear.verdict.startswith("No significant difference: BLEU ")


def test_verdict_names_metrics_that_disagree() -> None:
    """One system is always nearly correct; the other is correct or completely wrong."""
    scoring = MetricsConfig(metrics=("exact", "bleu"))
    nearly = [f"{line} ja" for line in MANY]
    half = [line if n % 4 else "x" for n, line in enumerate(MANY)]
    found = compare_systems(("nearly", "half"), nearly, half, build_large_test_set(), scoring, 100)
    assert found.verdict.startswith("half is better than nearly: exact match 0.00 and 75.00")
    assert found.verdict.endswith(", but BLEU shows the opposite.")


def test_comparison_to_json() -> None:
    found = compare_systems(
        ("good", "bad"), MANY, BROKEN, build_large_test_set(), resamples=50
    ).to_json(3)
    assert len(found["differences"]) == 3
    assert found["metrics"]["ter"]["better"] == "first"
    assert found["metrics"]["bleu"]["p_values"]["randomization"] == pytest.approx(1 / 51)
    assert "|ar:50|" in found["metrics"]["bleu"]["signatures"]["randomization"]


# --- alignment ---


FABLE = FableSentencePair(
    "The dog sleeps.", "Le chien dort.", ((0, 0), (1, 1), (2, 2), (3, 3)), "statement"
)
SHIFTED = replace(FABLE, alignment=((1, 0), (2, 1), (3, 2), (0, 3)))


class FixedAttentionScorer(HeadAlignmentScorer):
    """The second head of the first layer attends to the correct piece at each step."""

    def _compute_weights(self, sources, targets):
        weights_LBHTS = torch.full((2, len(sources), 2, 40, 40), 0.001)
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            for t in range(len(target)):
                index = min(t * (len(source) - 1) // len(target), len(source) - 2)
                weights_LBHTS[0, row, 1, t, index] = 1
        return weights_LBHTS


@pytest.fixture(scope="module")
def words() -> TokenizerPair:
    """Return tokenizers in which every word is one piece."""
    lines = ["The dog sleeps.", "Le chien dort."] * 50
    config = TokenizerConfig(vocab_size=300)
    return TokenizerPair.train(lines, lines, config)


def test_best_head_is_found(words) -> None:
    pieces = [len(words.source.encode(text)) for text in (FABLE.source, FABLE.target)]
    assert pieces == [4, 4]
    scorer = FixedAttentionScorer(None, words, StartAndEndTokenIds())
    assert scorer.find_best_head([FABLE]) == (0, 1)
    assert scorer.compute_error_rates([FABLE])[0, 1] == 0
    assert scorer.compute_error_rates([SHIFTED])[0, 1] == 100
    report = scorer.build_report([FABLE, SHIFTED], [FABLE])
    assert (report.layer, report.head, report.aer) == (0, 1, 50)


def test_alignment_is_scored_as_in_translations(words) -> None:
    """All links that a translation would have count, not only the strongest of each word."""
    sizes = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 2}
    config = ModelConfig(vocab_size=words.source.vocab_size, **sizes)
    weights = Transformer.from_config(config).state_dict()
    provenance = Provenance(notes={"alignment": {"layer": 1, "heads": [0]}})
    bundle = Bundle(config, words, ("en", "fr"), weights, provenance=provenance)
    engine = load_torch_engine(bundle)
    ids = [words.source.encode(FABLE.source), words.target.encode(FABLE.target)]
    (scores,) = engine.score_targets([(ids[0], [*ids[1], 2])], attention=True)
    attention_ES = scores.attention_ES[:, : len(ids[0])]
    links = align_words(words, (FABLE.source, ids[0]), (FABLE.target, ids[1]), attention_ES)
    num_links = int(links.is_link_UW.sum())
    correct = sum(bool(links.is_link_UW[t, s]) for s, t in FABLE.alignment)
    expected = 100 * (1 - 2 * correct / (num_links + len(FABLE.alignment)))  # 1 - F
    scorer = HeadAlignmentScorer(bundle.build_model(), words, bundle.special_tokens)
    assert scorer.compute_error_rates([FABLE])[1, 0].item() == pytest.approx(expected)
    assert num_links > len(links.target_words)


def test_best_alignment_head_is_stored_in_bundle(words) -> None:
    sizes = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 2}
    config = ModelConfig(vocab_size=words.source.vocab_size, **sizes)
    weights = Transformer.from_config(config).state_dict()
    provenance = Provenance(notes={"other": "unchanged"})
    bundle = Bundle(config, words, ("en", "fr"), weights, provenance=provenance)
    cases = fables.load_fables_split("test", short=True)[:20]
    tuned = with_best_alignment_head(bundle, cases)
    layer, head = HeadAlignmentScorer(
        bundle.build_model(), words, bundle.special_tokens
    ).find_best_head(cases)
    assert tuned.provenance.notes == {
        "other": "unchanged",
        "alignment": {"layer": layer, "heads": [head]},
    }
    links = (
        Translator(load_torch_engine(tuned), words).translate("The dog.", alignment=True).alignment
    )
    assert links


def test_alignment_score_does_not_depend_on_batch(words, monkeypatch) -> None:
    config = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 2}
    size = words.source.vocab_size
    model = Transformer.from_config(ModelConfig(vocab_size=size, **config)).eval()
    scorer = HeadAlignmentScorer(model, words, StartAndEndTokenIds(source_bos_id=3))
    cases = fables.load_fables_split("test", short=True)[:12]
    together = scorer.compute_error_rates(cases)
    assert together.shape == (2, 2)
    monkeypatch.setattr(alignment_error_rate, "MAX_BATCH_TOKENS", 1)
    assert torch.allclose(scorer.compute_error_rates(cases), together)
