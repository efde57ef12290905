"""Fables: an English–French corpus made by a grammar, for machines without a network.

    load("train")            32,000 pairs; also "valid" and "test"; `short=True` for a quick demo
    pronoun_cases("test")    the pairs in which "it" is "il" or "elle" by what is said of it
    novel_pairs()            such pairs whose noun and predicate never met in any split
    words(text)              the units that alignments and pronouns count

A `Fable` has a source, a target, the gold alignment of their words and, if "it" has two candidates,
a `Pronoun`: where it stands, what it means, the contrast of a right and a wrong translation, and
the control, the same with the predicate hidden. Cases come as twins that differ in the predicate
alone, so half of the answers to the controls are wrong, whatever one answers.

The way of a sentence: the tables (`nouns`, `adjectives`, `actions`) and a `writer` that chooses
from them; noun phrases and clauses in both languages at once (`nominals`, `clauses`); the
constructions (`statements`, `descriptions`, `questions`, `sentences`, and the `frames` of "it");
what happens where words meet (`french`, `english`); the splits (`corpus`).
"""

from __future__ import annotations

from seq2see.data.fables.corpus import (
    ContrastivePair,
    Fable,
    PronounAnnotation,
    SplitName,
    load_fables,
    load_pronoun_cases,
    load_unseen_pairs,
)
from seq2see.data.fables.phrases import split_words
from seq2see.data.fables.pronoun_pairs import MASKED

__all__ = [
    "MASKED",
    "ContrastivePair",
    "Fable",
    "PronounAnnotation",
    "SplitName",
    "load_fables",
    "load_pronoun_cases",
    "load_unseen_pairs",
    "split_words",
]
