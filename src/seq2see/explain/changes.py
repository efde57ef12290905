"""What interventions did: seen from the translation without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

from seq2see.errors import InputError
from seq2see.explain.interventions import Force, Intervention
from seq2see.explain.sentences import target_sentence
from seq2see.explain.subject import Subject
from seq2see.explain.trace import Change, Outcome, Trace
from seq2see.search import Hypothesis
from seq2see.text.languages import is_unspaced


def outcome(subject: Subject, found: Hypothesis) -> Outcome:
    """Return a hypothesis in words."""
    return Outcome(
        text=subject.text(found),
        log_prob=found.log_prob,
        score=found.score,
        finished=found.finished,
    )


def forced_prefix(
    subject: Subject, baseline: Hypothesis, interventions: Sequence[Intervention]
) -> list[int]:
    """Return how the translation must start: the baseline's first words, and what is forced."""
    forces = [each for each in interventions if isinstance(each, Force)]
    if not forces:
        return []
    if len(forces) > 1:
        raise InputError("a text must be forced at one place, but two are given")
    tokenizer = subject.tokenizers.target
    words = target_sentence(
        "", baseline.tokens, baseline.finished, tokenizer, subject.languages[1]
    ).words
    if forces[0].word > len(words):
        raise InputError(
            f"`word` must be at most {len(words)}, the words of the translation, "
            f"but is {forces[0].word} instead"
        )
    ends = [0, *(word.end for word in words)]
    before = tokenizer.decode(baseline.tokens[: ends[forces[0].word]])
    space = "" if before.endswith(("'", "’")) or is_unspaced(subject.languages[1]) else " "
    return tokenizer.encode(f"{before}{space}{forces[0].text}")


def with_change(made: Trace, subject: Subject, baseline: Hypothesis, now: Hypothesis) -> Trace:
    """Return a trace that says what the interventions did."""
    before = target_sentence(
        "", baseline.tokens, baseline.finished, subject.tokenizers.target, subject.languages[1]
    )
    change = Change(
        baseline=outcome(subject, baseline),
        baseline_now=now.log_prob,
        words=tuple(
            difference([w.text for w in before.words], [w.text for w in made.target.words])
        ),
    )
    return made.model_copy(update={"change": change})


def difference(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[Literal["same", "gone", "new"], str]]:
    """Yield the words of both in one row, each with what became of it."""
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (("same", word) for word in after[c:d])
        else:
            yield from (("gone", word) for word in before[a:b])
            yield from (("new", word) for word in after[c:d])
