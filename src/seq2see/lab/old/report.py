"""The report: one HTML file with every experiment and its pictures, for any browser, from disk."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from types import CodeType, FunctionType

from seq2see.lab.old import words
from seq2see.lab.old.experiment import Figure, Finding, Language, Measurement, Run, Text
from seq2see.lab.old.runner import Outcome


def report(outcomes: Sequence[Outcome], language: Language) -> str:
    """Return the whole page; it needs nothing but itself."""
    return _Page(language).whole(outcomes)


class _Page:
    """Writes the parts of the page in one language."""

    def __init__(self, language: Language) -> None:
        self.language = language

    def say(self, text: Text) -> str:
        return escape(text.said(self.language))

    def whole(self, outcomes: Sequence[Outcome]) -> str:
        style = (files("seq2see.lab.old") / "report.css").read_text("utf-8")
        script = (files("seq2see.lab.old") / "report.js").read_text("utf-8")
        topics = groupby(outcomes, lambda outcome: words.topic_of(outcome.experiment.number))
        body = [
            f"<header><h1>seq2see · {self.say(words.TITLE)}</h1><p>{self.say(words.ABOUT)}</p>",
            f"{self.notes()}</header>",
            self.contents(outcomes),
            *(part for topic, some in topics for part in self.topic(topic, list(some))),
            self.gallery(outcomes),
        ]
        return (
            f'<!doctype html>\n<html lang="{self.language}"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>seq2see lab</title><style>{style}</style></head>"
            f"<body><main>{''.join(body)}</main><script>{script}</script></body></html>\n"
        )

    def notes(self) -> str:
        named = (f"<b>{note}</b> {self.say(text)}" for note, text in words.NOTES.items())
        return f'<p class="notes">{" · ".join(named)}<br>{self.say(words.SEEDS)}</p>'

    def contents(self, outcomes: Sequence[Outcome]) -> str:
        rows = "".join(
            f'<tr data-verdict="{_kind(outcome)}"><td>{outcome.experiment.number}</td>'
            f'<td><a href="#e{outcome.experiment.number}">{self.say(outcome.experiment.title)}</a>'
            f"</td><td>{self.badge(outcome)}</td></tr>"
            for outcome in outcomes
        )
        buttons = f'<div id="filter" data-all="{self.say(words.ALL)}"></div>'
        return f"<nav>{buttons}<table>{rows}</table></nav>"

    def badge(self, outcome: Outcome) -> str:
        finding = outcome.finding
        verdict = finding.verdict.text if finding else words.NEEDS_FULL
        parts = (
            [] if outcome.error else [f'<span class="{_kind(outcome)}">{self.say(verdict)}</span>']
        )
        if outcome.status == "failed":
            parts.append(f'<span class="failed">{self.say(words.FAILED)}</span>')
        return f'<span class="badge">{"".join(parts)}</span>'

    def topic(self, topic: Text, outcomes: Sequence[Outcome]) -> Iterator[str]:
        yield f"<h2>{self.say(topic)}</h2>"
        yield from (self.article(outcome) for outcome in outcomes)

    def article(self, outcome: Outcome) -> str:
        each = outcome.experiment
        notes = " ".join(f"<abbr>{note}</abbr>" for note in each.notes)
        trains = f"<abbr>{self.say(words.TRAINS)}</abbr>" if each.trains else ""
        return (
            f'<article id="e{each.number}"><h3><a href="#e{each.number}">{each.number}</a> '
            f"{self.say(each.title)} {self.badge(outcome)}</h3>"
            f'<p class="where">{notes} {trains}</p>'
            f"<dl><dt>{self.say(words.CLAIM)}</dt><dd>{self.say(each.claim)}</dd>"
            f"<dt>{self.say(words.PREDICTION)}</dt><dd>{self.say(each.prediction)}</dd>"
            f"{self.finding(outcome.finding)}</dl>{self.error(outcome)}"
            f"{self.measurements(outcome.finding)}{self.figures(outcome)}{self.code(outcome)}"
            "</article>"
        )

    def finding(self, finding: Finding | None) -> str:
        if finding is None:
            return ""
        verdict, reason = self.say(finding.verdict.text), self.say(finding.reason)
        return f"<dt>{self.say(words.VERDICT)}</dt><dd><b>{verdict}</b> {reason}</dd>"

    def error(self, outcome: Outcome) -> str:
        if not outcome.error:
            return ""
        return f"<p>{self.say(words.BROKEN)}</p><pre>{escape(outcome.error)}</pre>"

    def measurements(self, finding: Finding | None) -> str:
        if finding is None:
            return ""
        titles = (words.MEASURED, words.VALUE, words.EXPECTED)
        head = "".join(f"<th>{self.say(title)}</th>" for title in titles)
        rows = "".join(self.row(measurement) for measurement in finding.measurements)
        return f'<table class="measured"><tr>{head}<th></th></tr>{rows}</table>'

    def row(self, measurement: Measurement) -> str:
        return (
            f'<tr class="{"met" if measurement.met else "unmet"}">'
            f"<td>{self.say(measurement.what)}</td><td>{escape(str(measurement))}</td>"
            f"<td>{escape(str(measurement.expected))}</td><td>{measurement.mark}</td></tr>"
        )

    def figures(self, outcome: Outcome) -> str:
        figures = outcome.finding.figures if outcome.finding else ()
        return "".join(
            f'<figure id="{_name(outcome, place)}">{self.drawing(figure, _name(outcome, place))}'
            f"<figcaption>{self.say(figure.caption)}</figcaption></figure>"
            for place, figure in enumerate(figures)
        )

    def drawing(self, figure: Figure, name: str) -> str:
        width = float(_box(figure).split()[2])
        opening = f'<svg id="{name}-drawing" style="width: {1.5 * width:.0f}px"'
        return figure.drawn(self.language).replace("<svg", opening, 1)

    def code(self, outcome: Outcome) -> str:
        title, body = self.say(words.CODE), escape(_source(outcome.experiment.run))
        return f"<details><summary>{title}</summary><pre>{body}</pre></details>"

    def gallery(self, outcomes: Sequence[Outcome]) -> str:
        pictures = "".join(
            f'<a href="#{_name(outcome, place)}" title="{self.say(figure.caption)}">'
            f"{self.thumbnail(figure, _name(outcome, place))}"
            f"<span>{outcome.experiment.number}. {self.say(outcome.experiment.title)}</span></a>"
            for outcome in outcomes
            if outcome.finding
            for place, figure in enumerate(outcome.finding.figures)
        )
        return (
            f'<h2 id="gallery">{self.say(words.GALLERY)}</h2><div class="gallery">{pictures}</div>'
        )

    def thumbnail(self, figure: Figure, name: str) -> str:
        """Show a picture of the page once more: it is drawn twice, and stands in the file once."""
        return f'<svg viewBox="{_box(figure)}"><use href="#{name}-drawing"/></svg>'


def _source(run: Run) -> str:
    """Return an experiment as code, and behind it the parts of it that its module has."""
    whole, *parts = map(inspect.getsource, _parts(run))
    body = whole[whole.find("\ndef ") + 1 :]  # behind the decorator, which the page shows
    return "\n\n".join([body, *parts])


def _parts(run: Run) -> list[FunctionType | type]:
    """Return the function, then those and the classes that it needs, as they stand in the file."""
    home = inspect.unwrap(run)
    assert isinstance(home, FunctionType)
    found: list[FunctionType | type] = [home]
    for each in found:  # it grows on the way
        for name in _names(each.__code__) if isinstance(each, FunctionType) else ():
            part = inspect.unwrap(home.__globals__.get(name))  # type: ignore[arg-type]
            if (
                isinstance(part, FunctionType | type)
                and part.__module__ == home.__module__
                and part not in found
            ):
                found.append(part)
    return [home, *sorted(found[1:], key=lambda part: inspect.getsourcelines(part)[1])]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):  # a comprehension, or a function within
            yield from _names(inner)


def _box(figure: Figure) -> str:
    """Return left, top, width and height of a picture."""
    return figure.svg.split('viewBox="', 1)[1].split('"', 1)[0]


def _name(outcome: Outcome, place: int) -> str:
    return f"e{outcome.experiment.number}-{place + 1}"


def _kind(outcome: Outcome) -> str:
    """Return the class of the verdict, for its colour."""
    if outcome.finding is None:
        return "full"
    return outcome.finding.verdict.value.replace(" ", "-")
