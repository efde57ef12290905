"""Check corpora before training: reject empty corpora and swapped sides."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from seq2see.data.corpus import COMPRESSED_EXTENSIONS, Corpus
from seq2see.data.quality.languages import SideLanguage, find_dominant_scripts
from seq2see.data.quality.words import extract_words
from seq2see.data.readers import SentencePair
from seq2see.errors import InputError
from seq2see.text.language_detection import (
    LinguaDetector,
    are_confusable,
    detector_code,
    is_lingua_installed,
)

SAMPLE_SIZE = 300
"""Pairs of each corpus that are looked at."""


_ENOUGH = 20
"""Lines with words that the detector wants, to be sure of a language."""


_LONG = 4
"""Words of a line that tells its language."""


_MORE = 0.2
"""Of its words, how many more a swapped side shares with the other side's training text."""


def check_corpora(
    train: Sequence[Corpus], others: Sequence[Corpus], languages: tuple[str, str]
) -> None:
    """Refuse a corpus that is empty, or whose sides were swapped."""
    samples = [(corpus, sample_pairs(corpus)) for corpus in (*train, *others)]
    for corpus, pairs in samples:
        if corpus.config.resolved_format != "builtin":
            _refuse_names(corpus, languages)
            _refuse_languages(corpus, pairs, languages)
    known = [pair for _, pairs in samples[: len(train)] for pair in pairs]
    for corpus, pairs in samples[len(train) :]:
        _refuse_words(corpus, pairs, known)


def sample_pairs(corpus: Corpus) -> list[SentencePair]:
    """Return some pairs, each as likely as any other; refuse a corpus without any."""
    generator = random.Random(0)  # noqa: S311 not a secret: the same text, the same sample
    kept: list[SentencePair] = []
    full = (pair for pair in corpus if pair.source.strip() and pair.target.strip())
    for number, pair in enumerate(full):
        if number < SAMPLE_SIZE:
            kept.append(pair)
        elif (place := generator.randrange(number + 1)) < SAMPLE_SIZE:
            kept[place] = pair
    if not kept:
        raise InputError(f"{corpus.name} must have pairs of text, but is empty")
    return kept


def _refuse_names(corpus: Corpus, languages: tuple[str, str]) -> None:
    """Refuse train.de and train.en for a translator from English to German."""
    if corpus.config.resolved_format != "text":
        return
    source, target = (_ending(name) for name in corpus.config.files)
    one, other = (detector_code(language) for language in languages)
    if one != other and (detector_code(source), detector_code(target)) == (other, one):
        raise _swapped(
            corpus,
            f"the source is {languages[0]} by the recipe, but its file is named "
            f"{Path(corpus.config.files[0]).name}",
        )


def _ending(name: str) -> str:
    endings = [e for e in Path(name.lower()).suffixes if e not in COMPRESSED_EXTENSIONS]
    return endings[-1].removeprefix(".") if endings else ""


def _refuse_languages(
    corpus: Corpus, pairs: Sequence[SentencePair], languages: tuple[str, str]
) -> None:
    """Refuse a side that is in the other side's language."""
    stated = [detector_code(language) for language in languages]
    if stated[0] == stated[1] or are_confusable(*stated):
        return
    detector = LinguaDetector() if is_lingua_installed() else None
    for side, name in enumerate(("source", "target")):
        found = _side([pair[side] for pair in pairs], stated[side], detector)
        if found.is_mismatch and found.may_be(stated[1 - side]):
            raise _swapped(
                corpus,
                f"the {name} must be in {languages[side]}, but looks like {languages[1 - side]}",
            )


def _side(lines: Sequence[str], stated: str, detector: LinguaDetector | None) -> SideLanguage:
    voters = [line for line in lines if len(extract_words(line)) >= _LONG]
    sure = detector is not None and detector.supports(stated) and len(voters) >= _ENOUGH
    found = detector.detect_majority_language(voters) if detector and sure else None
    return SideLanguage(stated, found, find_dominant_scripts(lines))


def _refuse_words(
    corpus: Corpus, pairs: Sequence[SentencePair], known: Sequence[SentencePair]
) -> None:
    """Refuse sides that both share more words with the other side of the training text."""
    of_training = [_vocabulary(known, side) for side in (0, 1)]
    for side in (0, 1):
        own = _vocabulary(pairs, side)
        shared, crossed = (
            len(own & theirs) for theirs in (of_training[side], of_training[1 - side])
        )
        if crossed <= shared + _MORE * len(own):
            return
    raise _swapped(corpus, "its source has the words of the training text's target")


def _vocabulary(pairs: Sequence[SentencePair], side: int) -> set[str]:
    return {word for pair in pairs for word in extract_words(pair[side].lower())}


def _swapped(corpus: Corpus, reason: str) -> InputError:
    what = "files" if corpus.config.resolved_format == "text" else "columns"
    return InputError(
        f"{corpus.name} seems to have source and target swapped: {reason}; "
        f"swap its `{what}`, or `data.languages`"
    )
