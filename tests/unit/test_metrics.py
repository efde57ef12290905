"""Scores, intervals and significance tests equal those of sacrebleu."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from seq2see.errors import InputError
from seq2see.metrics import (
    MetricStatistics,
    bootstrap_scores,
    compare_statistics,
    compute_metric_score,
    find_fallback_tokenization,
)
from seq2see.registries import METRICS
from seq2see.training.config import ValidationConfig
from seq2see.training.validation import ValidationResult

WORDS = ["A", "the", "Dog", "dog", "runs", "over", ",", ".", "Straße", "läuft", "!", "3.5", "don't"]


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)  # noqa: S311
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 14))) for _ in range(count)]


def worse(lines: list[str], rate: float, seed: int) -> list[str]:
    """Return the lines with some words replaced."""
    draw = random.Random(seed)  # noqa: S311
    return [
        " ".join(draw.choice(WORDS) if draw.random() < rate else w for w in line.split())
        for line in lines
    ]


REFERENCES = sentences(80, 1)
OTHERS = worse(REFERENCES, 0.2, 2)
GOOD, BAD = worse(REFERENCES, 0.25, 3), worse(REFERENCES, 0.35, 4)
GOOD[7] = ""
THEIRS = {"bleu": BLEU, "chrf": CHRF, "ter": TER}
SACREBLEU_METRICS = list(THEIRS)


def compare_scores(first, second, references, metric="bleu", samples=None, seed=12345):
    statistics = MetricStatistics(metric, [first, second], references, {})
    return compare_statistics(statistics, samples, seed)


# --- by hand ---


@pytest.mark.parametrize(("metric", "best"), [("bleu", 100), ("chrf", 100), ("ter", 0)])
def test_reference_has_the_best_score(metric, best) -> None:
    perfect, real = (
        compute_metric_score(lines, REFERENCES, metric) for lines in (REFERENCES, GOOD)
    )
    assert perfect.value == pytest.approx(best)
    assert (real.value < perfect.value) == perfect.higher_is_better
    assert real.value != best


def test_bleu_of_hand_counted_example() -> None:
    """Matches: 5 of 6 unigrams, 3 of 5 bigrams, 2 of 4 trigrams, 1 of 3 4-grams; 6 words for 7."""
    result = compute_metric_score(["a b c d e x"], ["a b c d y e z"], tokenize="none")
    precisions = (5 / 6, 3 / 5, 2 / 4, 1 / 3)
    penalty = 2.718281828459045 ** (1 - 7 / 6)
    assert result.details["precisions"] == pytest.approx([100 * p for p in precisions])
    assert result.details["brevity_penalty"] == pytest.approx(penalty)
    assert result.details["length_ratio"] == pytest.approx(6 / 7)
    product = precisions[0] * precisions[1] * precisions[2] * precisions[3]
    assert result.value == pytest.approx(100 * penalty * product**0.25)


def test_ter_of_hand_counted_example() -> None:
    assert compute_metric_score(["a b c"], ["a b c d"], "ter").value == pytest.approx(25)
    assert compute_metric_score(["c d a b"], ["a b c d"], "ter").value == pytest.approx(
        25
    )  # a shift is one edit


def test_exact_match_of_hand_counted_example() -> None:
    hypotheses, others = ["a b", "c ", "D"], ["x", "c", "x"]
    ours = compute_metric_score(hypotheses, [["a b", "x", "d"], others], "exact")
    assert ours.value == pytest.approx(100 * 2 / 3)  # the second by its second reference
    assert ours.signature.startswith("nrefs:2|case:mixed|")
    assert compute_metric_score(hypotheses, ["a b", "c", "d"], "exact", lowercase=True).value == 100
    statistics = MetricStatistics("exact", [hypotheses], others, {})
    assert statistics.compute_sentence_values(0).tolist() == [0, 100, 0]


def test_exact_match_interval_and_comparison() -> None:
    half = [line if number % 2 else "x" for number, line in enumerate(REFERENCES)]
    low, high = compute_metric_score(half, REFERENCES, "exact", samples=200).interval
    assert 30 < low < 50 < high < 70
    assert (
        compare_scores(half, REFERENCES, REFERENCES, "exact", samples=200).p_values["bootstrap"]
        < 0.01
    )


# --- as sacrebleu has it ---


@pytest.mark.parametrize("metric", SACREBLEU_METRICS)
@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, OTHERS]], ids=["one", "two"])
def test_scores_equal_the_sacrebleu_api(metric, references) -> None:
    theirs = THEIRS[metric]()
    result = theirs.corpus_score(GOOD, references)
    ours = compute_metric_score(GOOD, references if len(references) > 1 else references[0], metric)
    assert ours.value == result.score
    assert ours.signature == str(theirs.get_signature())
    assert ours.name == result.name
    assert f"nrefs:{len(references)}|" in ours.signature
    assert ours.interval is None
    assert compute_metric_score(GOOD, references, metric) == ours
    if metric == "bleu":
        assert ours.details["precisions"] == result.precisions
        assert ours.details["brevity_penalty"] == result.bp
    else:
        assert ours.details is None


COMMANDS = {
    "": [{}, {}, {}],
    "-tok none -lc --chrf-lowercase --ter-case-sensitive": [
        {"tokenize": "none", "lowercase": True},
        {"lowercase": True},
        {"lowercase": False},
    ],
    "-tok zh --ter-normalized --ter-asian-support": [{"language": "zh-Hans"}] * 3,
    "-tok intl": [{"tokenize": "intl"}] * 3,
    "-tok char": [{"tokenize": "char", "language": "en"}] * 3,
}


@pytest.mark.parametrize("flags", COMMANDS)
def test_scores_equal_the_sacrebleu_command(flags: str, tmp_path: Path) -> None:
    for name, lines in (("hyp", GOOD), ("ref", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-f", "json", "-w", "12"]
    command += ["--force", "-m", *SACREBLEU_METRICS, *flags.split()]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, text=True)
    for metric, options, theirs in zip(
        SACREBLEU_METRICS, COMMANDS[flags], json.loads(ran.stdout), strict=True
    ):
        ours = compute_metric_score(GOOD, REFERENCES, metric, **options)
        assert ours.value == pytest.approx(theirs["score"], abs=1e-11)
        assert ours.signature == theirs["signature"]
        assert ours.name == theirs["name"]


@pytest.mark.parametrize("metric", SACREBLEU_METRICS)
def test_interval_equals_sacrebleu(metric, monkeypatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    theirs = THEIRS[metric]()
    result = theirs.corpus_score(GOOD, [REFERENCES], n_bootstrap=200)
    ours = compute_metric_score(GOOD, REFERENCES, metric, samples=200, seed=7)
    low, high = ours.interval
    assert (high - low) / 2 == pytest.approx(result._ci, abs=1e-4)
    assert low < ours.value < high
    assert ours.signature == str(theirs.get_signature())
    assert "|bs:200|seed:7|" in ours.signature


@pytest.mark.parametrize("metric", SACREBLEU_METRICS)
@pytest.mark.parametrize("rate", [0.26, 0.3])
@pytest.mark.parametrize(
    ("test", "theirs", "samples"), [("bootstrap", "bs", 300), ("randomization", "ar", 400)]
)
def test_p_value_equals_sacrebleu(metric, rate, test, theirs, samples, monkeypatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "11")
    second = worse(REFERENCES, rate, 5)
    paired = PairedTest(
        [("a", GOOD), ("b", second)],
        {metric: THEIRS[metric]()},
        [REFERENCES],
        test_type=theirs,
        n_samples=samples,
        n_ar_confidence=samples if theirs == "ar" else -1,
    )
    signatures, results = paired()
    ours = compare_scores(GOOD, second, REFERENCES, metric, samples, seed=11)
    first, last = results[ours.first.name]
    assert (ours.first.value, ours.second.value) == (first.score, last.score)
    if (metric, test) == ("ter", "randomization"):  # few edits: chance often does just as much
        assert last.p_value < ours.p_values[test] < last.p_value + 0.1
    else:
        assert ours.p_values[test] == last.p_value
    assert 0.005 < ours.p_values[test] <= 1
    assert ours.signatures[test] == str(signatures[ours.first.name])


# --- comparing ---


def test_significant_and_insignificant_difference() -> None:
    real = compare_scores(BAD, REFERENCES, REFERENCES, "chrf", samples=200)
    assert real.difference == pytest.approx(
        100 - compute_metric_score(BAD, REFERENCES, "chrf").value
    )
    assert list(real.p_values.values()) == pytest.approx([1 / 201, 1 / 201])
    assert real.interval[0] > 0
    assert real.better == "second"
    none = compare_scores(BAD, BAD, REFERENCES, "chrf", samples=200)
    assert (none.difference, none.interval, none.better) == (0, (0, 0), None)
    assert none.p_values == {"bootstrap": 1, "randomization": 1}


def test_comparison_resamples_once(monkeypatch) -> None:
    drawn: list[int] = []

    def counted(statistics: MetricStatistics, samples: int, seed: int):
        drawn.append(samples)
        return bootstrap_scores(statistics, samples, seed)

    monkeypatch.setattr("seq2see.metrics.bootstrap_scores", counted)
    compare_statistics(MetricStatistics("exact", [GOOD, BAD], REFERENCES, {}))
    assert drawn == [1000]


def test_lower_ter_is_better() -> None:
    result = compare_scores(REFERENCES, BAD, REFERENCES, "ter", samples=50)
    assert result.difference > 0
    assert result.better == "first"
    assert compare_scores(BAD, REFERENCES, REFERENCES, "ter", samples=50).better == "second"


def test_samples_depend_on_the_seed() -> None:
    def run(seed: int):
        return compare_scores(GOOD, BAD, REFERENCES, "bleu", 60, seed)

    assert run(0) == run(0)
    assert run(0).interval != run(1).interval


# --- several sentences ---


@pytest.mark.parametrize("metric", ["chrf", "ter"])
@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, OTHERS]], ids=["one", "two"])
def test_sentence_values_equal_single_scores(metric, references) -> None:
    ours = MetricStatistics(metric, [GOOD], references, {}).compute_sentence_values(0)
    for line, value, *lines in zip(GOOD, ours, *references, strict=True):
        assert value == THEIRS[metric]().sentence_score(line, lines).score
    assert len(set(ours)) > 10


# --- signatures ---


def test_tokenized_and_lower_cased_bleu() -> None:
    """The BLEU of papers on multi30k."""
    ours = compute_metric_score(
        ["A dog 's bone ."], ["a dog 's bone ."], tokenize="none", lowercase=True
    )
    assert ours.value == pytest.approx(100)
    assert "|case:lc|" in ours.signature
    assert "|tok:none|" in ours.signature
    assert compute_metric_score(["A dog."], ["a dog ."], lowercase=True, tokenize="none").value < 50
    assert compute_metric_score(["A dog's bone ."], ["a dog's bone ."]).value < 100
    assert str(ours) == f"BLEU 100.00 ({ours.signature})"


def test_tokenized_text_gives_no_warning(caplog) -> None:
    lines = ["a dog runs ."] * 200
    compute_metric_score(lines, lines)
    assert not caplog.records


@pytest.mark.parametrize(
    ("language", "tok"),
    [(None, "13a"), ("de", "13a"), ("zh", "zh"), ("zh_CN", "zh"), ("ZH-Hant", "zh"), ("yue", "zh")],
)
def test_default_tokenization_of_languages(language, tok) -> None:
    ours = compute_metric_score(["我喜欢猫。"], ["我喜欢狗。"], language=language)
    assert f"|tok:{tok}|" in ours.signature
    assert (ours.value > 0) == (tok == "zh")


def test_chinese_ter_counts_characters() -> None:
    ours = compute_metric_score(["我喜欢猫。"], ["我喜欢狗。"], "ter", language="zh")
    assert ours.value == pytest.approx(20)
    assert "|norm:yes|" in ours.signature
    assert "|asian:yes|" in ours.signature


THAI, NEARLY = "แมวนอนบนโต๊ะ", "แมวนอนบนเตียง"


@pytest.mark.parametrize("language", ["th", "th-TH", "lo", "km", "my", "bo"])
def test_languages_without_words_count_characters(language) -> None:
    """13a and Tercom split at spaces only, so a sentence would be one wrong word."""
    bleu = compute_metric_score([NEARLY], [THAI], language=language)
    assert (
        bleu.value
        == compute_metric_score([" ".join(NEARLY)], [" ".join(THAI)], tokenize="none").value
        > 50
    )
    assert "|tok:char|" in bleu.signature
    ter = compute_metric_score([NEARLY], [THAI], "ter", language=language)
    assert ter.value == compute_metric_score([" ".join(NEARLY)], [" ".join(THAI)], "ter").value < 50
    assert "|tok:char|" in ter.signature
    assert compute_metric_score([THAI], [THAI], "ter", language=language).value == 0


def test_character_ter_respects_case() -> None:
    assert compute_metric_score(["กA"], ["กa"], "ter", language="th").value == 0
    assert compute_metric_score(["กA"], ["กa"], "ter", language="th", lowercase=False).value == 50


@pytest.mark.parametrize(("language", "extra"), [("ja", "japanese"), ("ko", "korean")])
def test_missing_package_is_named(language, extra, monkeypatch) -> None:
    module = pytest.importorskip(f"sacrebleu.tokenizers.tokenizer_{language}_mecab")
    monkeypatch.setattr(module, "MeCab", None)
    message = rf"{language}-mecab needs .* pip install 'seq2see\[{extra}\]'.* char"
    with pytest.raises(InputError, match=message):
        compute_metric_score(["猫"], ["猫"], language=language)
    assert compute_metric_score(["猫"], ["猫"], "chrf", language=language).value == pytest.approx(
        100
    )
    assert (
        find_fallback_tokenization(language),
        find_fallback_tokenization("zh"),
        find_fallback_tokenization("de"),
    ) == ("char", None, None)


# --- edges ---


@pytest.mark.parametrize("metric", SACREBLEU_METRICS)
def test_empty_hypotheses(metric) -> None:
    worst = compute_metric_score(["", ""], ["a dog", "a cat"], metric)
    assert worst.value == (100 if metric == "ter" else 0)
    assert compare_scores(["", ""], ["", ""], ["a dog", "a cat"], metric, samples=5).difference == 0


@pytest.mark.parametrize("metric", SACREBLEU_METRICS)
def test_one_sentence(metric) -> None:
    ours = compute_metric_score(
        ["the cat sat on the mat"], ["the cat sat on a mat"], metric, samples=40
    )
    assert ours.interval == pytest.approx((ours.value, ours.value))


def test_different_numbers_of_lines_raise_input_error() -> None:
    with pytest.raises(InputError, match="2 hypotheses and 3 references"):
        compute_metric_score(["a", "b"], ["a", "b", "c"])
    with pytest.raises(InputError, match="2 hypotheses and 2, 1 references"):
        compute_metric_score(["a", "b"], [["a", "b"], ["c"]])
    with pytest.raises(InputError, match="1 hypotheses and 0 references"):
        compute_metric_score(["a"], [])
    for nothing in ([], [[]], [[], []]):
        with pytest.raises(InputError, match="at least one sentence"):
            compute_metric_score([], nothing)
    with pytest.raises(InputError, match="2, 1 hypotheses and 2 references"):
        compare_scores(["a", "b"], ["a"], ["a", "b"])


@pytest.mark.parametrize(
    "arguments",
    [("text", ["t", "e", "x", "t"]), (["a"], "a"), (["a", None], ["a", "b"]), (["a"], [None])],
)
def test_other_types_raise_input_error(arguments) -> None:
    with pytest.raises(InputError, match="must be lists of texts"):
        compute_metric_score(*arguments)


def test_invalid_options_raise_input_error() -> None:
    for wrong, message in (
        ({"metric": "bleurt"}, "`metric` must be one of bleu, chrf, ter, exact, but is bleurt"),
        ({"tokenize": "flores200"}, "`tokenize` must be one of 13a, .*, but is flores200"),
        ({"samples": -1}, "`samples` must be at least 1, but is -1"),
    ):
        with pytest.raises(InputError, match=message):
            compute_metric_score(["a"], ["a"], **wrong)
    with pytest.raises(InputError, match="`samples` must be at least 1, but is 0"):
        compare_scores(["a"], ["a"], ["a"], samples=0)


def test_metrics_do_not_import_torch(tmp_path: Path) -> None:
    code = "import sys, seq2see.metrics; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_two_sentences_are_never_significant(test) -> None:
    references = ["the cat sleeps on the mat", "the dog runs in the park"]
    worse = ["the cat sleeps on the mat", "a cow is there"]
    assert compare_scores(references, worse, references).p_values[test] > 0.2


@pytest.mark.parametrize("metric", METRICS)
def test_every_registered_metric_can_be_computed_and_validated_with(metric: str) -> None:
    good, bad = (
        compute_metric_score([text], ["A dog runs."], metric) for text in ("A dog runs.", "x")
    )
    assert (good.value > bad.value) == METRICS[metric].higher_is_better
    assert str(good).startswith(METRICS[metric].label)
    assert ValidationConfig(metric=metric).metric == metric
    values = [
        ValidationResult(1.0, {metric: each}, []).metric_value(metric) for each in (good, bad)
    ]
    assert values[0] > values[1]
