"""Check corpora before training: raise an error for empty corpora and swapped sides.

Swapped sides are recognized by file names; by languages, from scripts and from lingua if it is
installed; and by the words of the training corpora.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from seq2see.data.corpus_config_and_reading import Corpus
from seq2see.data.quality.languages import detect_side_language
from seq2see.data.quality.words_and_word_ids import extract_words
from seq2see.data.readers import SentencePair, file_extension
from seq2see.errors import InputError
from seq2see.keyed_random import sample_reservoir
from seq2see.text.language_detection import (
    LinguaDetector,
    are_confusable_languages,
    detector_code,
    is_lingua_installed,
)

SAMPLE_SIZE = 300
"""Number of pairs of each corpus that are checked."""
_MIN_SHARED_DIFFERENCE = 0.2
"""A side counts as swapped if it shares this fraction more of its distinct words with the other
side of the training corpora than with its own."""


class CorpusSample(NamedTuple):
    """A uniform sample of the non-empty pairs of a corpus."""

    corpus: Corpus
    pairs: list[SentencePair]


def sample_pairs(corpus: Corpus) -> CorpusSample:
    """Read a corpus and return a sample of it."""
    non_empty = (pair for pair in corpus if pair.source.strip() and pair.target.strip())
    return CorpusSample(corpus, sample_reservoir(non_empty, SAMPLE_SIZE))


def check_not_empty_or_swapped(
    train: Sequence[CorpusSample], evaluation: Sequence[CorpusSample], languages: tuple[str, str]
) -> None:
    """Raise InputError if a corpus is empty or its sides seem to be swapped.

    `evaluation` are the validation and test sets, whose words are compared with `train`.
    """
    for corpus, pairs in (*train, *evaluation):
        if not pairs:
            raise InputError(f"{corpus.name} has no pair with text on both sides")
        if corpus.config.resolved_format != "builtin":
            _check_file_names(corpus, languages)
            _check_languages(corpus, pairs, languages)
    train_pairs = [pair for sample in train for pair in sample.pairs]
    for corpus, pairs in evaluation:
        _check_words(corpus, pairs, train_pairs)


def _check_file_names(corpus: Corpus, languages: tuple[str, str]) -> None:
    """Raise InputError for train.de and train.en if the languages are English and German."""
    if corpus.config.resolved_format != "text":
        return
    extensions = [detector_code(file_extension(name)[1:]) for name in corpus.config.files]
    source, target = (detector_code(language) for language in languages)
    if source != target and extensions == [target, source]:
        raise _swapped_error(
            corpus,
            f"the source language is {languages[0]}, but the source file is "
            f"{Path(corpus.config.files[0]).name}",
        )


def _check_languages(
    corpus: Corpus, pairs: Sequence[SentencePair], languages: tuple[str, str]
) -> None:
    """Raise InputError if a side is in the language of the other side."""
    declared = [detector_code(language) for language in languages]
    if declared[0] == declared[1] or are_confusable_languages(*declared):
        return
    detector = LinguaDetector() if is_lingua_installed() else None
    for side, name in enumerate(("source", "target")):
        lines = [pair[side] for pair in pairs]
        word_counts = [len(extract_words(line)) for line in lines]
        language = detect_side_language(lines, word_counts, declared[side], detector)
        if language.is_mismatch and language.may_be(declared[1 - side]):
            raise _swapped_error(
                corpus,
                f"the {name} must be in {languages[side]}, but seems to be {languages[1 - side]}",
            )


def _check_words(
    corpus: Corpus, pairs: Sequence[SentencePair], train_pairs: Sequence[SentencePair]
) -> None:
    """Raise InputError if both sides share more words with the other side of the training data."""
    train_words = [_distinct_words(train_pairs, side) for side in (0, 1)]
    for side in (0, 1):
        own = _distinct_words(pairs, side)
        num_same, num_other = len(own & train_words[side]), len(own & train_words[1 - side])
        if num_other <= num_same + _MIN_SHARED_DIFFERENCE * len(own):
            return
    raise _swapped_error(corpus, "its source has the words of the training target")


def _distinct_words(pairs: Sequence[SentencePair], side: int) -> set[str]:
    return {word for pair in pairs for word in extract_words(pair[side].lower())}


def _swapped_error(corpus: Corpus, reason: str) -> InputError:
    key = "files" if corpus.config.resolved_format == "text" else "columns"
    return InputError(
        f"source and target of {corpus.name} seem to be swapped: {reason}; "
        f"swap its `{key}`, or `data.languages`"
    )
