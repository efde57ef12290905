"""The corpus: sentences drawn from the grammar, distinct, and split for good.

Everything is a function of the seeds below. A change of the grammar or of its words changes the
corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from random import Random
from typing import Literal

from seq2see.data.fables import complex_sentences, morphology, phrases, simple_sentences
from seq2see.data.fables.lexicon import ADJECTIVES, NOUNS
from seq2see.data.fables.phrases import Mark, Phrase, Word, alignment, capitalised, written
from seq2see.data.fables.pronoun_pairs import Twin, famous, reserved, twins
from seq2see.data.fables.simple_sentences import CONSTRUCTIONS
from seq2see.data.fables.word_choice import FULL, SHORT, Writer

Split = Literal["train", "valid", "test"]

GRAMMAR = (simple_sentences, simple_sentences, complex_sentences, complex_sentences)
"""The files that fill the list of constructions when they are imported."""
SEED = 1706
SHORTEST = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what a corpus has."""

    test: int
    valid: int
    train: int
    novel: int
    longest: int
    """In words, punctuation apart."""
    pronouns: float
    """The share of draws that are twins."""


PLANS = {
    False: Plan(test=2000, valid=2000, train=32_000, novel=1000, longest=30, pronouns=0.27),
    True: Plan(test=1000, valid=1000, train=10_000, novel=400, longest=18, pronouns=0.35),
}


@dataclass(frozen=True, slots=True)
class Contrast:
    """A source with a right and a wrong translation, equal but for a pronoun and its agreement."""

    source: str
    right: str
    wrong: str


@dataclass(frozen=True, slots=True)
class Pronoun:
    """An "it" with two candidates. Indices count the `words` of source and target."""

    source: int
    """Where "it" is."""
    target: int
    """Where its translation is."""
    antecedent: int
    """Where the noun is, in the source, that "it" means."""
    rival: int
    """Where the other candidate is, in the source."""
    predicate: int
    """Where the word is, in the source, that decides between them."""
    contrast: Contrast | None
    """None if the candidates agree in gender, so that nothing is to decide."""
    control: Contrast | None
    """The same with the predicate hidden; its twin has right and wrong the other way round."""


@dataclass(frozen=True, slots=True)
class Fable:
    """A sentence and its translation."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]
    """Pairs of a source index and a target index, which count `words`."""
    construction: str
    pronoun: Pronoun | None = None


def load(split: Split, short: bool = False) -> list[Fable]:
    """Return a split of the corpus, or of its short form."""
    return list(_corpus(short)[split])


def pronoun_cases(split: Split, short: bool = False) -> list[Fable]:
    """Return those of a split in which the predicate decides between "il" and "elle"."""
    return [f for f in load(split, short) if f.pronoun and f.pronoun.contrast]


def novel_pairs(short: bool = False) -> list[Fable]:
    """Return decisive cases whose antecedent and predicate no split has in one sentence."""
    return list(_novel(short))


@cache
def _corpus(short: bool) -> dict[Split, tuple[Fable, ...]]:
    w = Writer(Random(SEED + short), SHORT if short else FULL)  # noqa: S311 - a corpus, no secret
    plan, first = PLANS[short], famous(w)
    seen = {written(_english(twin.phrase)).lower() for twin in first}
    stream = _accepted(_ordinary(w, plan, short), plan.longest, seen)
    return {
        "test": (*map(_case, first), *_taken(stream, plan.test - len(first))),
        "valid": _taken(stream, plan.valid),
        "train": _taken(stream, plan.train),
    }


@cache
def _novel(short: bool) -> tuple[Fable, ...]:
    w = Writer(Random(SEED + 2 + short), SHORT if short else FULL)  # noqa: S311
    plan = PLANS[short]
    return _taken(_accepted(_unseen(w, short), plan.longest, set()), plan.novel)


Draft = Twin | tuple[str, Phrase]
"""A twin, or the name of a construction and what it made."""


def _unseen(w: Writer, short: bool) -> Iterator[tuple[Draft, ...]]:
    while True:
        yield twins(w, short, novel=True)


def _ordinary(w: Writer, plan: Plan, short: bool) -> Iterator[tuple[Draft, ...]]:
    """Draw without end; twins stay together."""
    usable = [each for each in CONSTRUCTIONS if each.short or not short]
    weighted = [each for each in usable for _ in range(each.weight)]
    while True:
        drafts: tuple[Draft, ...]
        if w.chance(plan.pronouns):
            drafts = twins(w, short)
        else:
            construction = w.pick(weighted)
            drafts = ((construction.name, construction.make(w)),)
        if not any(_touches_reserved(_phrase(draft)) for draft in drafts):
            yield drafts


def _accepted(
    stream: Iterator[tuple[Draft, ...]], longest: int, seen: set[str]
) -> Iterator[list[Fable]]:
    """Pass on what is new and of the right length."""
    for drafts in stream:
        keys = [written(_english(_phrase(draft))).lower() for draft in drafts]
        if seen.isdisjoint(keys) and all(_fits(_phrase(draft), longest) for draft in drafts):
            seen.update(keys)
            yield [_case(d) if isinstance(d, Twin) else _fable(d[1], d[0]) for d in drafts]


def _phrase(draft: Draft) -> Phrase:
    return draft.phrase if isinstance(draft, Twin) else draft[1]


def _taken(stream: Iterator[list[Fable]], count: int) -> tuple[Fable, ...]:
    """Take at least so many, and the twin of the last."""
    taken: list[Fable] = []
    while len(taken) < count:
        taken.extend(next(stream))
    return tuple(taken)


def _fits(phrase: Phrase, longest: int) -> bool:
    """Count the words of both languages, punctuation apart."""
    lengths = [sum(word.text not in ".,?!" for word in side) for side in (phrase.en, phrase.fr)]
    return min(lengths) >= SHORTEST and max(lengths) <= longest


@lru_cache(maxsize=16)  # each is asked for several times on end
def _english(phrase: Phrase) -> tuple[Word, ...]:
    return capitalised(phrases.adjust_english_articles(phrase.en))


@lru_cache(maxsize=16)
def _french(phrase: Phrase) -> tuple[Word, ...]:
    return capitalised(phrases.finished(phrase.fr))


def _target(phrase: Phrase) -> str:
    return written(_french(phrase), spaced="?!")


def _fable(phrase: Phrase, construction: str, pronoun: Pronoun | None = None) -> Fable:
    """Return a phrase without the grammar."""
    en, fr = _english(phrase), _french(phrase)
    texts = written(en), written(fr, spaced="?!")
    return Fable(*texts, alignment(en, fr), construction, pronoun)


def _case(twin: Twin) -> Fable:
    """Return a twin as a fable with its pronoun."""
    en, fr = _english(twin.phrase), _french(twin.phrase)
    rival: Mark = "thing" if twin.meant == "doer" else "doer"
    places = (_place(en, "it"), _place(fr, "it"), _place(en, twin.meant), _place(en, rival))
    contrasts = _contrasts(twin) if twin.decisive else (None, None)
    return _fable(twin.phrase, twin.name, Pronoun(*places, _place(en, "predicate"), *contrasts))


def _contrasts(twin: Twin) -> tuple[Contrast, Contrast]:
    """Return right and wrong with the predicate, and without."""
    wrong, hidden = twin.told(right=False), twin.told(right=True, hidden=True)
    hidden_wrong = twin.told(right=False, hidden=True)
    return (
        Contrast(written(_english(twin.phrase)), _target(twin.phrase), _target(wrong)),
        Contrast(written(_english(hidden)), _target(hidden), _target(hidden_wrong)),
    )


def _place(sentence: tuple[Word, ...], mark: Mark) -> int:
    return next(i for i, word in enumerate(sentence) if word.mark == mark)


@cache
def _apart() -> dict[str, frozenset[str]]:
    """Return, for each form of a noun, the words that no sentence may have beside it."""
    apart: dict[str, frozenset[str]] = {}
    for noun in NOUNS:
        kept = [adjective.en for adjective in ADJECTIVES if reserved(noun, adjective)]
        forms = {word for en in kept for word in _forms(en)}
        apart[noun.en] = apart[noun.en_plural] = frozenset(forms)
    return apart


def _forms(adjective: str) -> tuple[str, ...]:
    graded = morphology.comparative(adjective), morphology.superlative(adjective)
    return adjective, *(word for word in graded if " " not in word)


def _touches_reserved(phrase: Phrase) -> bool:
    present = {word.text for word in phrase.en}
    apart = _apart()
    return any(not present.isdisjoint(apart.get(text, ())) for text in present)
