"""What came out as text: for the terminal, and as Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from seq2see.lab.old import words
from seq2see.lab.old.experiment import Language, Text
from seq2see.lab.old.runner import Outcome

_OTHER: dict[Language, tuple[str, str]] = {"en": ("lab.zh.md", "中文"), "zh": ("lab.md", "English")}
_MADE = Text(
    "Made by `seq2see lab run all --markdown docs`. With pictures and code: "
    "`seq2see lab run all --html lab.html`.",
    "由 `seq2see lab run all --markdown docs` 生成。含图与代码的版本："
    "`seq2see lab run all --language zh --html lab.html`。",
)


def plain(outcome: Outcome, language: Language) -> str:
    """Return an outcome for the terminal."""
    each, finding = outcome.experiment, outcome.finding
    verdict = _verdict(outcome, language)
    lines = [f"{each.number:>3}  {each.title.said(language)}: {verdict}"]
    if finding:
        lines.append(f"     {finding.reason.said(language)}")
        for measured in finding.measurements:
            what = f"{measured.mark} {measured.what.said(language)}"
            lines.append(f"     {what} = {measured}  [{measured.expected}]")
    return "\n".join([*lines, outcome.error]).rstrip()


def markdown(outcomes: Sequence[Outcome], language: Language) -> str:
    """Return the documentation: the table of verdicts, then every experiment."""
    other, name = _OTHER[language]
    lines = [
        f"# {words.TITLE.said(language)}",
        f"[{name}]({other})",
        words.ABOUT.said(language),
        f"{_MADE.said(language)} {words.SEEDS.said(language)}",
        _notes(language),
        "\n".join(_verdicts(outcomes, language)),
    ]
    topics = groupby(outcomes, lambda outcome: words.topic_of(outcome.experiment.number))
    for topic, some in topics:
        lines.append(f"## {topic.said(language)}")
        lines.extend(part for outcome in some for part in _section(outcome, language))
    return "\n\n".join(lines) + "\n"


def _verdict(outcome: Outcome, language: Language) -> str:
    if outcome.finding is None:
        wanted = words.FAILED if outcome.error else words.NEEDS_FULL
        return wanted.said(language)
    failed = f" ({words.FAILED.said(language)})" if outcome.status == "failed" else ""
    return outcome.finding.verdict.text.said(language) + failed


def _notes(language: Language) -> str:
    return "\n".join(f"- {note}: {text.said(language)}" for note, text in words.NOTES.items())


def _verdicts(outcomes: Sequence[Outcome], language: Language) -> Iterator[str]:
    yield f"| | {words.EXPERIMENT.said(language)} | {words.VERDICT.said(language)} |"
    yield "|---:|---|---|"
    for outcome in outcomes:
        each = outcome.experiment
        title = _cell(each.title.said(language))
        yield f"| {each.number} | {title} | {_verdict(outcome, language)} |"


def _section(outcome: Outcome, language: Language) -> Iterator[str]:
    each, finding = outcome.experiment, outcome.finding
    yield f"### {each.number}. {each.title.said(language)}"
    notes = ", ".join(each.notes)
    yield f"**{words.CLAIM.said(language)}** ({notes}). {_prose(each.claim.said(language))}"
    yield f"**{words.PREDICTION.said(language)}.** {_prose(each.prediction.said(language))}"
    if finding is None:
        yield f"**{_verdict(outcome, language)}**"
        return
    reason = _prose(finding.reason.said(language))
    yield f"**{words.VERDICT.said(language)}: {_verdict(outcome, language)}** {reason}"
    heads = (words.MEASURED, words.VALUE, words.EXPECTED)
    rows = [f"| {' | '.join(head.said(language) for head in heads)} |", "|---|---|---|"]
    for measured in finding.measurements:
        cells = (measured.what.said(language), str(measured), str(measured.expected))
        rows.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    yield "\n".join(rows)


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")


def _prose(text: str) -> str:
    """Let Markdown take no sign for its own, but those of code, in which there are no others."""
    parts = text.split("`")  # every other one is code
    return "`".join(part if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _escaped(text: str) -> str:
    return text.replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;").replace("[", "\\[")
