"""The corpus of fables: distinct sentences drawn from the grammar, divided into splits.

Everything is a function of the seeds below. A change of the grammar or of its words changes the
corpus.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, count

from seq2see.data.fables.lexicon import FULL_LEXICON, NOUNS
from seq2see.data.fables.phrases import (
    BilingualPhrase,
    adjust_english_article,
    adjust_to_next_words,
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
    list_noun_hindrance_pairs,
    mask_predicate,
)
from seq2see.data.fables.simple_sentences import CONSTRUCTIONS
from seq2see.data.fables.word_choice import WordChooser
from seq2see.data.readers import SplitName

SEED = 1706
MIN_WORDS = 3
"""Minimum number of words per side, without punctuation."""


# By whether the corpus is the short one.
CORPUS_SIZES = {
    False: {"test": 2000, "valid": 2000, "train": 32_000, "unseen": 1000},
    True: {"test": 1000, "valid": 1000, "train": 10_000, "unseen": 400},
}
"""Minimum number of sentences; `unseen` have unseen pairs of noun and predicate."""
MAX_WORDS = {False: 30, True: 18}
"""Maximum number of words per side, without punctuation."""
PRONOUN_SHARE = {False: 0.27, True: 0.35}
"""Fraction of draws that are minimal pairs."""


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
    chooser = WordChooser(SEED + short, short)
    drawn = chain([build_textbook_minimal_pair(chooser)], _draw_sentences(chooser))
    fables = _build_new_fables(drawn, MAX_WORDS[short])
    splits: tuple[SplitName, ...] = ("test", "valid", "train")  # in the order of generation
    return {split: _take(fables, CORPUS_SIZES[short][split]) for split in splits}


@cache
def _generate_unseen(short: bool) -> tuple[FableSentencePair, ...]:
    chooser = WordChooser(SEED + 2 + short, short)
    drawn = (generate_pronoun_minimal_pair(chooser, unseen=True) for _ in count())
    return _take(_build_new_fables(drawn, MAX_WORDS[short]), CORPUS_SIZES[short]["unseen"])


def _draw_sentences(chooser: WordChooser) -> Iterator[tuple[SentenceDraft, ...]]:
    """Yield single sentences and minimal pairs without end."""
    usable = [each for each in CONSTRUCTIONS if each.in_short_corpus or not chooser.short]
    weighted = [each for each in usable for _ in range(each.weight)]
    while True:
        drafts: tuple[SentenceDraft, ...]
        if chooser.chance(PRONOUN_SHARE[chooser.short]):
            drafts = generate_pronoun_minimal_pair(chooser)
        else:
            construction = chooser.pick(weighted)
            end = build_phrase(construction.mark, construction.mark)
            drafts = (SentenceDraft(construction.name, construction.build(chooser) + end),)
        if not any(_has_reserved_pair(draft.phrase) for draft in drafts):
            yield drafts


def _build_new_fables(
    drawn: Iterator[tuple[SentenceDraft, ...]], max_words: int
) -> Iterator[list[FableSentencePair]]:
    """Yield the sentences that are new and have an allowed length."""
    seen = set[str]()
    for drafts in drawn:
        if all(_fits(draft.phrase, max_words) for draft in drafts):
            fables = [_build_fable(draft) for draft in drafts]
            sources = [fable.source.lower() for fable in fables]
            if seen.isdisjoint(sources):
                seen.update(sources)
                yield fables


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


def _adjust(phrase: BilingualPhrase) -> BilingualPhrase:
    """Return the phrase with capital letters, and words that depend on their neighbors adjusted."""
    en = adjust_to_next_words(phrase.en, adjust_english_article)
    return BilingualPhrase(
        capitalize_sentences(en), capitalize_sentences(contract_and_elide(phrase.fr))
    )


def _render(phrase: BilingualPhrase) -> tuple[str, str]:
    """Return the texts of an adjusted phrase in English and French."""
    return join_words(phrase.en), join_words(phrase.fr, spaced_marks="?!")


def _build_fable(draft: SentenceDraft) -> FableSentencePair:
    phrase = _adjust(draft.phrase)
    pronoun = None
    if isinstance(draft, MinimalPairSentence):
        pronoun = _annotate_pronoun(draft, phrase)
    alignment = compute_alignment(phrase.en, phrase.fr)
    return FableSentencePair(*_render(phrase), alignment, draft.name, pronoun)


def _annotate_pronoun(item: MinimalPairSentence, phrase: BilingualPhrase) -> PronounAnnotation:
    indices = {word.role: index for index, word in enumerate(phrase.en)}
    contrastive_pair = masked_pair = None
    if item.wrong_pronoun:
        contrastive_pair = _build_contrastive_pair(item.phrase, item.wrong_pronoun)
        masked = mask_predicate(item.phrase), mask_predicate(item.wrong_pronoun)
        masked_pair = _build_contrastive_pair(*masked)
    return PronounAnnotation(
        source_index=indices["pronoun"],
        target_index=[word.role for word in phrase.fr].index("pronoun"),
        antecedent_index=indices[item.antecedent],
        distractor_index=indices["object" if item.antecedent == "subject" else "subject"],
        predicate_index=indices["predicate"],
        contrastive_pair=contrastive_pair,
        masked_pair=masked_pair,
    )


def _build_contrastive_pair(correct: BilingualPhrase, wrong: BilingualPhrase) -> ContrastivePair:
    return ContrastivePair(*_render(_adjust(correct)), _render(_adjust(wrong))[1])


@cache
def _reserved_words() -> dict[str, set[str]]:
    """Return for each form of a noun the words that no sentence of the splits may contain."""
    reserved: dict[str, set[str]] = defaultdict(set)
    kinds = tuple({noun.kind for noun in NOUNS})
    for noun, adjective in list_noun_hindrance_pairs(FULL_LEXICON, kinds, reserved=True):
        for form in (noun.en, noun.en_plural):
            reserved[form] |= {adjective.en, adjective.comparative, adjective.superlative}
    return reserved


def _has_reserved_pair(phrase: BilingualPhrase) -> bool:
    words = {word.text for word in phrase.en}
    reserved = _reserved_words()
    return any(not words.isdisjoint(reserved.get(text, ())) for text in words)
