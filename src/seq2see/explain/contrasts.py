"""Two translations of a sentence: which one a model prefers, and which heads make it so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seq2see.data.fables import Contrast
from seq2see.engines.torch import TorchEngine
from seq2see.errors import InputError
from seq2see.explain.interventions import Intervention, every_head
from seq2see.explain.subject import Subject
from seq2see.explain.trace import Record


class Removal(Record):
    """What is left of the preference without one head."""

    stack: str
    layer: int
    attention: str
    head: int
    preference: float
    change: float

    @property
    def name(self) -> str:
        """Where the head is."""
        return f"{self.stack}.{self.layer}.{self.attention}"


class Removals(Record):
    """A preference, and what is left of it without each head."""

    preference: float
    """log p(right) − log p(wrong) of the first piece in which they differ."""
    removals: tuple[Removal, ...]


def preferences(subject: Subject, pairs: Sequence[Contrast], whole: bool = True) -> list[float]:
    """Return log p(right) − log p(wrong) of each pair: as a whole, or where they first differ."""
    engine = TorchEngine(subject.model, subject.framing)
    rights = targets(subject, [pair.right for pair in pairs])
    wrongs = targets(subject, [pair.wrong for pair in pairs])
    sources = [subject.source_ids(pair.source) for pair in pairs]
    given = [*zip(sources, rights, strict=True), *zip(sources, wrongs, strict=True)]
    found = engine.force(given)
    result = []
    for number, (right, wrong) in enumerate(zip(rights, wrongs, strict=True)):
        ours, theirs = found[number].log_probs, found[number + len(pairs)].log_probs
        place = first_difference(right, wrong)
        result.append(sum(ours) - sum(theirs) if whole else ours[place] - theirs[place])
    return result


def removals(
    subject: Subject,
    pair: Contrast,
    interventions: Sequence[Intervention] = (),
    between: Callable[[], None] = lambda: None,
) -> Removals:
    """Switch each head off in turn, on top of these interventions.

    `between` is called before each head: whoever no longer wants the answer may raise there.
    """
    heads = every_head(subject.model)
    (before,) = preferences(subject.altered(interventions), [pair], whole=False)
    found = []
    for off in heads:
        assert off.heads is not None
        between()
        (now,) = preferences(subject.altered([*interventions, off]), [pair], whole=False)
        found.append(
            Removal(
                stack=off.stack,
                layer=off.layer,
                attention=off.attention,
                head=off.heads[0],
                preference=now,
                change=now - before,
            )
        )
    return Removals(preference=before, removals=tuple(found))


def targets(subject: Subject, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of translations, each with its end."""
    ids = subject.tokenizers.target.encode_batch(list(texts))
    return [[*sentence, subject.framing.target_end] for sentence in ids]


def first_difference(right: Sequence[int], wrong: Sequence[int]) -> int:
    """Return the place of the first piece that is not the same."""
    pairs = zip(right, wrong, strict=False)
    found = next((place for place, (a, b) in enumerate(pairs) if a != b), None)
    if found is None:
        raise InputError("the two translations must differ, but are the same")
    return found
