"""The corpus of fables: distinct sentences drawn from the grammar, divided into splits.

Everything is a function of the seeds below. A change of the grammar or of its words changes the
corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count
from random import Random

from seq2see.data.fables.lexicon import ADJECTIVES, FULL_LEXICON, NOUNS, SHORT_LEXICON
from seq2see.data.fables.phrases import (
    BilingualPhrase,
    PronounRole,
    Words,
    adjust_english_articles,
    build_phrase,
    capitalize_sentences,
    compute_alignment,
    contract_and_elide,
    join_words,
)
from seq2see.data.fables.pronoun_pairs import (
    MinimalPairSentence,
    SentenceDraft,
    build_textbook_minimal_pair,
    generate_pronoun_minimal_pair,
    is_reserved_noun_adjective_pair,
)
from seq2see.data.fables.simple_sentences import CONSTRUCTIONS
from seq2see.data.fables.word_choice import WordChooser
from seq2see.data.readers import SplitName

SEED = 1706
MIN_WORDS = 3
"""Minimum number of words per side, without punctuation."""


@dataclass(frozen=True, slots=True)
class FablesCorpusSettings:
    """Numbers of sentences, and other properties of a corpus."""

    test: int
    valid: int
    train: int
    unseen: int
    """Number of sentences with unseen pairs of noun and predicate."""
    max_words: int
    """Maximum number of words per side, without punctuation."""
    pronoun_share: float
    """Fraction of draws that are minimal pairs."""


CORPUS_SIZES = {
    False: FablesCorpusSettings(
        test=2000, valid=2000, train=32_000, unseen=1000, max_words=30, pronoun_share=0.27
    ),
    True: FablesCorpusSettings(
        test=1000, valid=1000, train=10_000, unseen=400, max_words=18, pronoun_share=0.35
    ),
}
"""By whether the corpus is the short one."""


@dataclass(frozen=True, slots=True)
class ContrastivePair:
    """A source with a correct and a wrong translation, which differ in a pronoun's gender."""

    source: str
    correct: str
    wrong: str


@dataclass(frozen=True, slots=True)
class PronounAnnotation:
    """Annotation of an "it" with two possible antecedents.

    Indices are those of the words of source and target, as `split_words` returns them.
    """

    source_index: int
    """Index of "it"."""
    target_index: int
    """Index of its translation."""
    antecedent_index: int
    """Source index of the noun that "it" refers to."""
    distractor_index: int
    """Source index of the other candidate."""
    predicate_index: int
    """Source index of the word that decides between the candidates."""
    contrastive_pair: ContrastivePair | None
    """None if both candidates have the same gender, so that there is nothing to decide."""
    masked_pair: ContrastivePair | None
    """The same with the predicate masked. In the other sentence of the minimal pair, the correct
    and the wrong translation are exchanged."""


@dataclass(frozen=True, slots=True)
class FableSentencePair:
    """A sentence with its translation and annotations."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]
    """Links as pairs of a source index and a target index of words (see `split_words`)."""
    construction: str
    """Name of the construction or pronoun frame."""
    pronoun: PronounAnnotation | None = None


def load_fables_split(split: SplitName, short: bool = False) -> list[FableSentencePair]:
    """Return a split of the corpus, or of the short corpus."""
    return list(_generate_splits(short)[split])


def select_pronoun_fables(split: SplitName, short: bool = False) -> list[FableSentencePair]:
    """Return the fables of a split in which the predicate decides between "il" and "elle"."""
    return [f for f in load_fables_split(split, short) if f.pronoun and f.pronoun.contrastive_pair]


def load_unseen_pronoun_cases(short: bool = False) -> list[FableSentencePair]:
    """Return decisive cases whose antecedent and predicate are in no other sentence together."""
    return list(_generate_unseen(short))


@cache
def _generate_splits(short: bool) -> dict[SplitName, tuple[FableSentencePair, ...]]:
    chooser = _create_chooser(SEED + short, short)
    sizes, textbook = CORPUS_SIZES[short], build_textbook_minimal_pair(chooser)
    seen = {_english_key(item) for item in textbook}
    fables = _accept(_draw_sentences(chooser, sizes, short), sizes.max_words, seen)
    return {
        "test": (*map(_build_fable, textbook), *_take(fables, sizes.test - len(textbook))),
        "valid": _take(fables, sizes.valid),
        "train": _take(fables, sizes.train),
    }


@cache
def _generate_unseen(short: bool) -> tuple[FableSentencePair, ...]:
    chooser, sizes = _create_chooser(SEED + 2 + short, short), CORPUS_SIZES[short]
    drawn = (generate_pronoun_minimal_pair(chooser, short, unseen=True) for _ in count())
    return _take(_accept(drawn, sizes.max_words, set()), sizes.unseen)


def _create_chooser(seed: int, short: bool) -> WordChooser:
    return WordChooser(Random(seed), SHORT_LEXICON if short else FULL_LEXICON)  # noqa: S311


def _draw_sentences(
    chooser: WordChooser, sizes: FablesCorpusSettings, short: bool
) -> Iterator[tuple[SentenceDraft, ...]]:
    """Yield single sentences and minimal pairs without end."""
    usable = [each for each in CONSTRUCTIONS if each.in_short_corpus or not short]
    weighted = [each for each in usable for _ in range(each.weight)]
    while True:
        drafts: tuple[SentenceDraft, ...]
        if chooser.chance(sizes.pronoun_share):
            drafts = generate_pronoun_minimal_pair(chooser, short)
        else:
            construction = chooser.pick(weighted)
            end = build_phrase(construction.mark, construction.mark)
            drafts = (SentenceDraft(construction.name, construction.build(chooser) + end),)
        if not any(_has_reserved_pair(draft.phrase) for draft in drafts):
            yield drafts


def _accept(
    drawn: Iterator[tuple[SentenceDraft, ...]], max_words: int, seen: set[str]
) -> Iterator[list[FableSentencePair]]:
    """Yield the sentences that are new and have an allowed length."""
    for drafts in drawn:
        sources = [_english_key(draft) for draft in drafts]
        if seen.isdisjoint(sources) and all(_fits(draft.phrase, max_words) for draft in drafts):
            seen.update(sources)
            yield [_build_fable(draft) for draft in drafts]


def _take(fables: Iterator[list[FableSentencePair]], number: int) -> tuple[FableSentencePair, ...]:
    """Take at least `number` fables; minimal pairs are not split."""
    taken: list[FableSentencePair] = []
    while len(taken) < number:
        taken.extend(next(fables))
    return tuple(taken)


def _fits(phrase: BilingualPhrase, max_words: int) -> bool:
    """Return whether the numbers of words of both sides, without punctuation, are allowed."""
    lengths = [sum(word.text not in ".,?!" for word in side) for side in (phrase.en, phrase.fr)]
    return min(lengths) >= MIN_WORDS and max(lengths) <= max_words


@lru_cache(maxsize=16)  # called several times in a row for each phrase
def _adjust(phrase: BilingualPhrase) -> BilingualPhrase:
    """Return the phrase with capital letters, and words that depend on their neighbors adjusted."""
    en, fr = adjust_english_articles(phrase.en), contract_and_elide(phrase.fr)
    return BilingualPhrase(capitalize_sentences(en), capitalize_sentences(fr))


def _render(phrase: BilingualPhrase) -> tuple[str, str]:
    """Return the texts of a phrase in English and French."""
    adjusted = _adjust(phrase)
    return join_words(adjusted.en), join_words(adjusted.fr, spaced_marks="?!")


def _english_key(draft: SentenceDraft) -> str:
    return _render(draft.phrase)[0].lower()


def _build_fable(draft: SentenceDraft) -> FableSentencePair:
    adjusted = _adjust(draft.phrase)
    alignment = compute_alignment(adjusted.en, adjusted.fr)
    pronoun = _annotate_pronoun(draft) if isinstance(draft, MinimalPairSentence) else None
    return FableSentencePair(*_render(draft.phrase), alignment, draft.name, pronoun)


def _annotate_pronoun(item: MinimalPairSentence) -> PronounAnnotation:
    adjusted = _adjust(item.phrase)
    en, fr = adjusted.en, adjusted.fr
    contrastive_pair = masked_pair = None
    if item.variants:
        wrong, masked, masked_wrong = item.variants
        contrastive_pair = _build_contrastive_pair(item.phrase, wrong)
        masked_pair = _build_contrastive_pair(masked, masked_wrong)
    return PronounAnnotation(
        source_index=_find_role(en, "pronoun"),
        target_index=_find_role(fr, "pronoun"),
        antecedent_index=_find_role(en, item.antecedent),
        distractor_index=_find_role(en, "object" if item.antecedent == "subject" else "subject"),
        predicate_index=_find_role(en, "predicate"),
        contrastive_pair=contrastive_pair,
        masked_pair=masked_pair,
    )


def _build_contrastive_pair(correct: BilingualPhrase, wrong: BilingualPhrase) -> ContrastivePair:
    return ContrastivePair(*_render(correct), _render(wrong)[1])


def _find_role(sentence: Words, role: PronounRole) -> int:
    return next(i for i, word in enumerate(sentence) if word.role == role)


@cache
def _reserved_words() -> dict[str, frozenset[str]]:
    """Return for each form of a noun the words that no sentence of the splits may contain."""
    reserved: dict[str, frozenset[str]] = {}
    for noun in NOUNS:
        adjectives = [each for each in ADJECTIVES if is_reserved_noun_adjective_pair(noun, each)]
        forms = frozenset(f for a in adjectives for f in (a.en, a.comparative, a.superlative))
        reserved[noun.en] = reserved[noun.en_plural] = forms
    return reserved


def _has_reserved_pair(phrase: BilingualPhrase) -> bool:
    words = {word.text for word in phrase.en}
    reserved = _reserved_words()
    return any(not words.isdisjoint(reserved.get(text, ())) for text in words)
