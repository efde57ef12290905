"""The effect of ablating each attention head, on BLEU and on a contrastive pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from seq2see import draw
from seq2see.data.fables import Contrast
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError
from seq2see.explain.explained_model import Subject
from seq2see.explain.interventions import HeadsOff, Intervention, every_head
from seq2see.explain.output import heat_table, report_page
from seq2see.explain.trace import Record
from seq2see.metrics import MetricScore, score
from seq2see.search import SearchConfig
from seq2see.translator import TranslationOptions, Translator


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


GREEDY = SearchConfig(beam_size=1)


class HeadScore(Record):
    """The test set without one head."""

    stack: str
    layer: int
    attention: str
    head: int
    bleu: float
    change: float
    """Against the baseline: below 0 the head was of use."""

    @property
    def site(self) -> str:
        """The attention that it is a head of, without its layer."""
        return f"{self.stack}, {self.attention}-attention"


class HeadReport(Record):
    """A test set without each head of a model."""

    sentences: int
    baseline: float
    signature: str
    """How BLEU was counted."""
    heads: tuple[HeadScore, ...]

    @property
    def title(self) -> str:
        """What the numbers are."""
        return (
            f"Change in BLEU without each head (baseline {self.baseline:.1f}, "
            f"{self.sentences:,} sentences)"
        )

    def tables(self) -> list[draw.Signed]:
        """Return a grid for each kind of attention: layers by heads."""
        return [self._table(site) for site in dict.fromkeys(head.site for head in self.heads)]

    def _table(self, site: str) -> draw.Signed:
        own = [head for head in self.heads if head.site == site]
        layers = sorted({head.layer for head in own}, reverse=True)
        heads = sorted({head.head for head in own})
        values = {(head.layer, head.head): head.change for head in own}
        return draw.Signed(
            site,
            [f"layer {layer}" for layer in layers],
            [f"head {head}" for head in heads],
            [[values.get((layer, head), math.nan) for head in heads] for layer in layers],
        )

    def save(self, path: Path) -> None:
        """Write .json, .html or a picture, as the name says."""
        if path.suffix.lower() in draw.FORMATS:
            draw.signed(path, self.title, self.tables())
        elif path.suffix.lower() == ".json":
            path.write_text(self.model_dump_json(), encoding="utf-8")
        else:
            path.write_text(self.to_html(), encoding="utf-8")

    def to_html(self) -> str:
        """Return a page with a table for each kind of attention."""
        tables = self.tables()
        most = max([1e-9, *(abs(head.change) for head in self.heads)])
        body = "".join(f"<h2>{t.title}</h2>{heat_table(t, most)}" for t in tables)
        notes = ["Blue: BLEU falls without the head.", self.signature]
        return report_page(self.title, notes, body)


def head_importance(
    subject: Subject,
    sources: Sequence[str],
    references: Sequence[str],
    search: SearchConfig = GREEDY,
    told: Callable[[int, int], None] | None = None,
) -> HeadReport:
    """Translate a test set without each head in turn."""
    heads = every_head(subject.model)
    baseline = bleu(subject, sources, references, search, [])
    found = []
    for number, off in enumerate(heads, 1):
        if told:
            told(number, len(heads))
        now = bleu(subject, sources, references, search, [off]).value
        found.append(_head_score(off, now, baseline.value))
    return HeadReport(
        sentences=len(sources),
        baseline=baseline.value,
        signature=baseline.signature,
        heads=tuple(found),
    )


def bleu(
    subject: Subject,
    sources: Sequence[str],
    references: Sequence[str],
    search: SearchConfig,
    interventions: Sequence[Intervention],
) -> MetricScore:
    """Return the BLEU of a model with interventions; without any, of its plain form."""
    engine = TorchEngine(
        subject.altered(interventions).model, subject.framing, subject.alignment, subject.stop
    )
    translator = Translator(engine, subject.tokenizers, subject.languages, subject.max_length)
    options = TranslationOptions(search=search)
    texts = [found.text for found in translator.translate(list(sources), options)]
    return score(texts, list(references), "bleu", language=subject.languages[1])


def _head_score(off: HeadsOff, now: float, baseline: float) -> HeadScore:
    assert off.heads is not None
    return HeadScore(
        stack=off.stack,
        layer=off.layer,
        attention=off.attention,
        head=off.heads[0],
        bleu=now,
        change=now - baseline,
    )
