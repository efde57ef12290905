"""What each head is good for: the change in BLEU over a test set when it is switched off."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from seq2see import draw
from seq2see.engines.torch import TorchEngine
from seq2see.explain.interventions import HeadsOff, Intervention, every_head
from seq2see.explain.reports import heat_table, report_page
from seq2see.explain.subject import Subject
from seq2see.explain.trace import Record
from seq2see.metrics import Score, score
from seq2see.search import SearchConfig
from seq2see.translator import TranslationOptions, Translator

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
) -> Score:
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
