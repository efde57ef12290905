"""Pronoun test: which noun "it" refers to, measured on contrastive pairs of the fables corpus.

French must choose *il* or *elle* and so depends on whether the animal was too tired or the street
too wide. Proportions have Wilson intervals; results no better than chance are reported as such.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2see import draw
from seq2see.data import fables
from seq2see.data.fables import Contrast, Fable
from seq2see.data.fables.phrases import WORD
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError
from seq2see.explain.explained_model import Subject
from seq2see.explain.head_ablation import Removal, first_difference, preferences, removals, targets
from seq2see.explain.output import heat_table, plain_table, report_page
from seq2see.explain.trace import Record
from seq2see.explain.words import source_sentence
from seq2see.model import AttentionRecord, Site, Stack
from seq2see.text.tokenizer import source_spans

# B sentences, H heads, T queries, S keys

SURE = 1.96
"""Standard deviations of a 95 % interval."""


class Share(Record):
    """How often something holds, with the 95 % interval that this is sure to."""

    count: int
    of: int
    low: float
    high: float

    @classmethod
    def counted(cls, count: int, of: int, deviations: float = SURE) -> Share:
        """Return the share with Wilson's interval."""
        square = deviations**2
        middle = (count + square / 2) / (of + square)
        half = (
            deviations / (of + square) * math.sqrt(count * (of - count) / of + square / 4)
            if of
            else 0.5
        )
        return cls(count=count, of=of, low=max(0.0, middle - half), high=min(1.0, middle + half))

    @property
    def value(self) -> float:
        """The share itself."""
        return self.count / self.of if self.of else math.nan

    @property
    def beats_chance(self) -> bool:
        """Whether it is more than half, beyond doubt."""
        return self.low > 0.5

    def told(self) -> str:
        """Return it in words."""
        return f"{self.value:.1%} of {self.of} (95 %: {self.low:.1%} to {self.high:.1%})"

    def judged(self) -> str:
        """Return it in words, and say if it may be chance."""
        return self.told() if self.beats_chance else f"{self.told()}, no better than chance"


def deviations(tried: int) -> float:
    """Return how many deviations the best of so many must be away, by Bonferroni's correction."""
    wanted, low, high = 0.05 / (2 * tried), 0.0, 10.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        tail = math.erfc(middle / math.sqrt(2)) / 2
        low, high = (middle, high) if tail > wanted else (low, middle)
    return high


CASES = 300
"""Pairs that are asked by default: enough for intervals of six points."""


class HeadLook(Record):
    """One head of the encoder, at "it"."""

    layer: int
    head: int
    weights: tuple[float, ...]
    """To each source token."""


class PronounCase(Record):
    """One sentence with "it"."""

    source: str
    tokens: tuple[str, ...]
    right: str
    wrong: str
    """The first piece in which right and wrong differ: *il* and *elle*."""
    probability_right: float
    probability_wrong: float
    preference: float
    """log p(right) − log p(wrong): above 0 the model is right."""
    looks: tuple[HeadLook, ...]
    removals: tuple[Removal, ...]

    def told(self) -> str:
        """Return what the model prefers, and without which head that changes most."""
        most = max(self.removals, key=lambda removal: abs(removal.change))
        return (
            f"p({self.right}) = {self.probability_right:.3f}, p({self.wrong}) = "
            f"{self.probability_wrong:.3f}: a preference of {self.preference:+.2f} nats for what "
            f"is right. Without {most.name}.{most.head} it is {most.preference:+.2f}, the largest "
            f"change of {len(self.removals)} heads."
        )


class HeadFollows(Record):
    """How often a head of the encoder looks from "it" more at what is meant than at the rival."""

    layer: int
    head: int
    share: Share


class PronounReport(Record):
    """What "it" means to a model."""

    corpus: str
    famous: tuple[PronounCase, ...]
    prefers_right: Share
    """Of whole translations that differ in the pronoun and its agreement."""
    control: Share
    """The same with the deciding word hidden: half is right, whatever one prefers."""
    heads: tuple[HeadFollows, ...]

    @property
    def best_head(self) -> HeadFollows:
        """The head that follows the meaning most often."""
        return max(self.heads, key=lambda head: head.share.value)

    def verdict(self) -> Iterator[str]:
        """Yield what was found, null results too, and the two famous sentences."""
        yield from self.shares()
        yield from (f"{case.source} {case.told()}" for case in self.famous)

    def shares(self) -> Iterator[str]:
        """Yield how often the model is right, and whether attention shows why."""
        yield f"The model prefers the right pronoun in {self.prefers_right.judged()}."
        yield f"With the deciding word hidden: {self.control.judged()}."
        best, tried = self.best_head, len(self.heads)
        told = f'encoder layer {best.layer}, head {best.head}: "it" looks at what is meant in'
        fair = Share.counted(best.share.count, best.share.of, deviations(tried))
        if fair.beats_chance:
            yield f"Attention shows it: {told} {best.share.told()}, the best of {tried} heads."
        else:
            yield (
                f"Attention does not show it: the best of {tried} heads, {told} "
                f"{best.share.told()}, which the best of so many may reach by chance."
            )

    def save(self, path: Path) -> None:
        """Write .json, .html or a picture, as the name says."""
        ending = path.suffix.lower()
        if ending in draw.FORMATS:
            draw.grids(path, 'Where "it" looks, in each head of the encoder', _grids(self))
            return
        text = self.model_dump_json() if ending == ".json" else self.to_html()
        path.write_text(text, encoding="utf-8")

    def to_html(self) -> str:
        """Return a page of tables."""
        return report_page("What “it” means", self.shares(), "".join(_body(self)))


def pronoun_report(subject: Subject, short: bool = False, cases: int = CASES) -> PronounReport:
    """Ask a model from English to French what "it" means."""
    if tuple(language[:2] for language in subject.languages) != ("en", "fr"):
        raise InputError(
            f"the model must translate from en to fr to be asked about “it”, "
            f"but translates from {' to '.join(subject.languages)} instead"
        )
    decisive = fables.pronoun_cases("test", short)
    famous, asked = decisive[:2], decisive[:cases]
    pronouns = [fable.pronoun for fable in asked if fable.pronoun]
    return PronounReport(
        corpus="builtin:fables-short/test" if short else "builtin:fables/test",
        famous=tuple(_case(subject, fable) for fable in famous),
        prefers_right=_preferred(subject, [p.contrast for p in pronouns if p.contrast]),
        control=_preferred(subject, [p.control for p in pronouns if p.control]),
        heads=tuple(_following(subject, asked)),
    )


def _preferred(subject: Subject, pairs: Sequence[Contrast]) -> Share:
    found = preferences(subject, pairs)
    return Share.counted(sum(value > 0 for value in found), len(found))


def _case(subject: Subject, fable: Fable) -> PronounCase:
    assert fable.pronoun
    assert fable.pronoun.contrast
    contrast = fable.pronoun.contrast
    right, wrong = targets(subject, [contrast.right, contrast.wrong])
    place = first_difference(right, wrong)
    source = subject.source_ids(fable.source)
    engine = TorchEngine(subject.altered([]).model, subject.framing)
    ours, theirs = engine.force([(source, right), (source, wrong)])
    without = removals(subject, contrast)
    tokenizer = subject.tokenizers.source
    sentence = source_sentence(
        fable.source, source, subject.framing, tokenizer, subject.languages[0]
    )
    return PronounCase(
        source=fable.source,
        tokens=tuple(token.text for token in sentence.tokens),
        right=subject.shown(right[place])[1],
        wrong=subject.shown(wrong[place])[1],
        probability_right=math.exp(ours.log_probs[place]),
        probability_wrong=math.exp(theirs.log_probs[place]),
        preference=without.preference,
        looks=tuple(_looks(subject, fable)),
        removals=without.removals,
    )


class _EncoderEars:
    """Listens to every head of the encoder."""

    def __init__(self) -> None:
        self.weights_HTS: dict[int, Tensor] = {}

    def attention_listener(self, site: Site) -> Any:
        def take(record: AttentionRecord) -> None:
            self.weights_HTS[site.layer] = record.weights_BHTS[0]

        return take

    def layer_listener(self, stack: Stack, layer: int) -> None: ...


@torch.inference_mode()
def _from_it(subject: Subject, fable: Fable) -> dict[int, Tensor]:
    """Return where "it" looks in each layer of the encoder, [H, S], its pieces together."""
    assert fable.pronoun
    ids = subject.source_ids(fable.source)
    ears = _EncoderEars()
    subject.model.encode(subject.source_BS(ids), ears)
    places = _tokens_of(subject, fable.source, ids, fable.pronoun.source)
    return {layer: weights[:, places].mean(1) for layer, weights in ears.weights_HTS.items()}


def _looks(subject: Subject, fable: Fable) -> Iterator[HeadLook]:
    for layer, weights_HS in sorted(_from_it(subject, fable).items()):
        for head, weights in enumerate(weights_HS.tolist()):
            yield HeadLook(layer=layer, head=head, weights=tuple(weights))


def _tokens_of(subject: Subject, text: str, ids: Sequence[int], word: int) -> list[int]:
    """Return the tokens of a word that the fables count, as the model reads them."""
    start, end = [match.span() for match in WORD.finditer(text)][word]
    first = 0 if subject.framing.source_start is None else 1
    spans = source_spans(subject.tokenizers.source, ids, text)
    return [first + place for place, (a, b) in enumerate(spans) if a < end and b > start]


def _following(subject: Subject, cases: Sequence[Fable]) -> Iterator[HeadFollows]:
    """Count for each head how often the noun that is meant gets more than its rival."""
    counts: dict[tuple[int, int], int] = {}
    for fable in cases:
        assert fable.pronoun
        ids = subject.source_ids(fable.source)
        meant, rival = (
            _tokens_of(subject, fable.source, ids, word)
            for word in (fable.pronoun.antecedent, fable.pronoun.rival)
        )
        for layer, weights_HS in _from_it(subject, fable).items():
            more_H = weights_HS[:, meant].sum(1) > weights_HS[:, rival].sum(1)
            for head, more in enumerate(more_H.tolist()):
                counts[layer, head] = counts.get((layer, head), 0) + more
    for (layer, head), count in sorted(counts.items()):
        yield HeadFollows(layer=layer, head=head, share=Share.counted(count, len(cases)))


def _grids(report: PronounReport) -> list[draw.Grid]:
    return [
        draw.Grid(
            f"{case.source}  p({case.right}) = {case.probability_right:.2f}, "
            f"p({case.wrong}) = {case.probability_wrong:.2f}",
            [f"layer {look.layer}, head {look.head}" for look in case.looks],
            case.tokens,
            [look.weights for look in case.looks],
        )
        for case in report.famous
    ]


def _body(report: PronounReport) -> Iterator[str]:
    for case in report.famous:
        yield f"<section><h2>{case.source}</h2>"
        yield f"<p>{case.told()}</p>"
        yield "<p class='note'>Where “it” looks, in each head of the encoder:</p>"
        names = [f"layer {look.layer}, head {look.head}" for look in case.looks]
        weights = [look.weights for look in case.looks]
        yield heat_table(draw.Signed("", names, case.tokens, weights), 1, shares=True)
        yield '<p class="note">How the preference changes without each head, in nats:</p>'
        yield _removal_table(case.removals)
        yield "</section>"
    yield "<section><h2>How often “it” looks more at what is meant than at the other noun</h2>"
    rows = [[f"layer {h.layer}, head {h.head}", h.share.judged()] for h in report.heads]
    yield plain_table(["head of the encoder", f"in the cases of {report.corpus}"], rows)
    yield "</section>"


def _removal_table(removals: Sequence[Removal]) -> str:
    names = list(dict.fromkeys(removal.name for removal in removals))
    heads = sorted({removal.head for removal in removals})
    values = {(r.name, r.head): r.change for r in removals}
    table = draw.Signed(
        "",
        names,
        [f"head {head}" for head in heads],
        [[values.get((name, head), math.nan) for head in heads] for name in names],
    )
    return heat_table(table, max([1e-9, *(abs(r.change) for r in removals)]))
