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
from seq2see.data.fables.phrases import (
    AlignedWord,
    BilingualPhrase,
    PronounRole,
    capitalize_sentences,
    compute_alignment,
    render_text,
)
from seq2see.data.fables.pronoun_pairs import (
    MinimalPairItem,
    generate_minimal_pair,
    is_reserved,
    textbook_pair,
)
from seq2see.data.fables.simple_sentences import CONSTRUCTIONS
from seq2see.data.fables.word_choice import FULL_LEXICON, SHORT_LEXICON, WordChooser

SplitName = Literal["train", "valid", "test"]

GRAMMAR = (simple_sentences, simple_sentences, complex_sentences, complex_sentences)
"""The files that fill the list of constructions when they are imported."""
SEED = 1706
MIN_WORDS = 3


@dataclass(frozen=True, slots=True)
class CorpusSizes:
    """How much of what a corpus has."""

    test: int
    valid: int
    train: int
    unseen: int
    max_words: int
    """In words, punctuation apart."""
    pronoun_share: float
    """The share of draws that are twins."""


CORPUS_SIZES = {
    False: CorpusSizes(
        test=2000, valid=2000, train=32_000, unseen=1000, max_words=30, pronoun_share=0.27
    ),
    True: CorpusSizes(
        test=1000, valid=1000, train=10_000, unseen=400, max_words=18, pronoun_share=0.35
    ),
}


@dataclass(frozen=True, slots=True)
class ContrastivePair:
    """A source with a right and a wrong translation, equal but for a pronoun and its agreement."""

    source: str
    correct: str
    wrong: str


@dataclass(frozen=True, slots=True)
class PronounAnnotation:
    """An "it" with two candidates. Indices count the `words` of source and target."""

    source_index: int
    """Where "it" is."""
    target_index: int
    """Where its translation is."""
    antecedent_index: int
    """Where the noun is, in the source, that "it" means."""
    distractor_index: int
    """Where the other candidate is, in the source."""
    predicate_index: int
    """Where the word is, in the source, that decides between them."""
    contrastive_pair: ContrastivePair | None
    """None if the candidates agree in gender, so that nothing is to decide."""
    masked_pair: ContrastivePair | None
    """The same with the predicate hidden; its twin has right and wrong the other way round."""


@dataclass(frozen=True, slots=True)
class Fable:
    """A sentence and its translation."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]
    """Pairs of a source index and a target index, which count `words`."""
    construction: str
    pronoun: PronounAnnotation | None = None


def load_fables(split: SplitName, short: bool = False) -> list[Fable]:
    """Return a split of the corpus, or of its short form."""
    return list(_corpus(short)[split])


def load_pronoun_cases(split: SplitName, short: bool = False) -> list[Fable]:
    """Return those of a split in which the predicate decides between "il" and "elle"."""
    return [f for f in load_fables(split, short) if f.pronoun and f.pronoun.contrastive_pair]


def load_unseen_pairs(short: bool = False) -> list[Fable]:
    """Return decisive cases whose antecedent and predicate no split has in one sentence."""
    return list(_novel(short))


@cache
def _corpus(short: bool) -> dict[SplitName, tuple[Fable, ...]]:
    w = WordChooser(Random(SEED + short), SHORT_LEXICON if short else FULL_LEXICON)  # noqa: S311 - a corpus, no secret
    plan, first = CORPUS_SIZES[short], textbook_pair(w)
    seen = {render_text(_english(twin.phrase)).lower() for twin in first}
    stream = _accepted(_ordinary(w, plan, short), plan.max_words, seen)
    return {
        "test": (*map(_case, first), *_taken(stream, plan.test - len(first))),
        "valid": _taken(stream, plan.valid),
        "train": _taken(stream, plan.train),
    }


@cache
def _novel(short: bool) -> tuple[Fable, ...]:
    w = WordChooser(Random(SEED + 2 + short), SHORT_LEXICON if short else FULL_LEXICON)  # noqa: S311
    plan = CORPUS_SIZES[short]
    return _taken(_accepted(_unseen(w, short), plan.max_words, set()), plan.unseen)


SentenceDraft = MinimalPairItem | tuple[str, BilingualPhrase]
"""A twin, or the name of a construction and what it made."""


def _unseen(w: WordChooser, short: bool) -> Iterator[tuple[SentenceDraft, ...]]:
    while True:
        yield generate_minimal_pair(w, short, unseen=True)


def _ordinary(
    w: WordChooser, plan: CorpusSizes, short: bool
) -> Iterator[tuple[SentenceDraft, ...]]:
    """Draw without end; twins stay together."""
    usable = [each for each in CONSTRUCTIONS if each.in_short_corpus or not short]
    weighted = [each for each in usable for _ in range(each.weight)]
    while True:
        drafts: tuple[SentenceDraft, ...]
        if w.chance(plan.pronoun_share):
            drafts = generate_minimal_pair(w, short)
        else:
            construction = w.pick(weighted)
            drafts = ((construction.name, construction.build(w)),)
        if not any(_touches_reserved(_phrase(draft)) for draft in drafts):
            yield drafts


def _accepted(
    stream: Iterator[tuple[SentenceDraft, ...]], longest: int, seen: set[str]
) -> Iterator[list[Fable]]:
    """Pass on what is new and of the right length."""
    for drafts in stream:
        keys = [render_text(_english(_phrase(draft))).lower() for draft in drafts]
        if seen.isdisjoint(keys) and all(_fits(_phrase(draft), longest) for draft in drafts):
            seen.update(keys)
            yield [
                _case(d) if isinstance(d, MinimalPairItem) else _fable(d[1], d[0]) for d in drafts
            ]


def _phrase(draft: SentenceDraft) -> BilingualPhrase:
    return draft.phrase if isinstance(draft, MinimalPairItem) else draft[1]


def _taken(stream: Iterator[list[Fable]], count: int) -> tuple[Fable, ...]:
    """Take at least so many, and the twin of the last."""
    taken: list[Fable] = []
    while len(taken) < count:
        taken.extend(next(stream))
    return tuple(taken)


def _fits(phrase: BilingualPhrase, longest: int) -> bool:
    """Count the words of both languages, punctuation apart."""
    lengths = [sum(word.text not in ".,?!" for word in side) for side in (phrase.en, phrase.fr)]
    return min(lengths) >= MIN_WORDS and max(lengths) <= longest


@lru_cache(maxsize=16)  # each is asked for several times on end
def _english(phrase: BilingualPhrase) -> tuple[AlignedWord, ...]:
    return capitalize_sentences(phrases.adjust_english_articles(phrase.en))


@lru_cache(maxsize=16)
def _french(phrase: BilingualPhrase) -> tuple[AlignedWord, ...]:
    return capitalize_sentences(phrases.contract_and_elide(phrase.fr))


def _target(phrase: BilingualPhrase) -> str:
    return render_text(_french(phrase), spaced_marks="?!")


def _fable(
    phrase: BilingualPhrase, construction: str, pronoun: PronounAnnotation | None = None
) -> Fable:
    """Return a phrase without the grammar."""
    en, fr = _english(phrase), _french(phrase)
    texts = render_text(en), render_text(fr, spaced_marks="?!")
    return Fable(*texts, compute_alignment(en, fr), construction, pronoun)


def _case(twin: MinimalPairItem) -> Fable:
    """Return a twin as a fable with its pronoun."""
    en, fr = _english(twin.phrase), _french(twin.phrase)
    rival: PronounRole = "thing" if twin.antecedent == "doer" else "doer"
    places = (_place(en, "it"), _place(fr, "it"), _place(en, twin.antecedent), _place(en, rival))
    contrasts = _contrasts(twin) if twin.is_decisive else (None, None)
    return _fable(
        twin.phrase, twin.name, PronounAnnotation(*places, _place(en, "predicate"), *contrasts)
    )


def _contrasts(twin: MinimalPairItem) -> tuple[ContrastivePair, ContrastivePair]:
    """Return right and wrong with the predicate, and without."""
    wrong, hidden = twin.rebuild(correct=False), twin.rebuild(correct=True, masked=True)
    hidden_wrong = twin.rebuild(correct=False, masked=True)
    return (
        ContrastivePair(render_text(_english(twin.phrase)), _target(twin.phrase), _target(wrong)),
        ContrastivePair(render_text(_english(hidden)), _target(hidden), _target(hidden_wrong)),
    )


def _place(sentence: tuple[AlignedWord, ...], mark: PronounRole) -> int:
    return next(i for i, word in enumerate(sentence) if word.role == mark)


@cache
def _apart() -> dict[str, frozenset[str]]:
    """Return, for each form of a noun, the words that no sentence may have beside it."""
    apart: dict[str, frozenset[str]] = {}
    for noun in NOUNS:
        kept = [adjective.en for adjective in ADJECTIVES if is_reserved(noun, adjective)]
        forms = {word for en in kept for word in _forms(en)}
        apart[noun.en] = apart[noun.en_plural] = frozenset(forms)
    return apart


def _forms(adjective: str) -> tuple[str, ...]:
    graded = morphology.comparative_form(adjective), morphology.superlative_form(adjective)
    return adjective, *(word for word in graded if " " not in word)


def _touches_reserved(phrase: BilingualPhrase) -> bool:
    present = {word.text for word in phrase.en}
    apart = _apart()
    return any(not present.isdisjoint(apart.get(text, ())) for text in present)
