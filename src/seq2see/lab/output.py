"""Results as text: for the terminal, as Markdown for the documentation, and as an HTML page."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby

from seq2see.lab.core import Conclusion, Verdict
from seq2see.lab.figures import DeclaredFigure
from seq2see.lab.runner import Result, load_experiment
from seq2see.lab.texts import (
    Language,
    Text,
    source_titles,
    topic_index,
    topics,
    verdict_words,
    word,
)

_OTHER_LANGUAGE = {"en": ("中文", "lab.zh.md"), "zh": ("English", "lab.md")}


class _Writer:
    """Texts of results in one language."""

    def __init__(self, language: Language) -> None:
        self.language = language

    def word(self, name: str) -> str:
        return word(name).get(self.language)

    def get(self, text: Text) -> str:
        return text.get(self.language)

    def verdict(self, verdict: Verdict) -> str:
        return self.get(verdict_words()[verdict.value])

    def status(self, result: Result) -> str:
        """Return the verdict of an experiment, and whether it differs from the published one."""
        if result.error:
            return self.word("failed")
        verdict = self.verdict(result.verdict)
        return verdict if result.as_published else f"{verdict} ({self.word('differs')})"

    def claim(self, result: Result, conclusion: Conclusion) -> str:
        return self.get(result.texts.parts[conclusion.part].claim)

    def rules(self, result: Result, conclusion: Conclusion) -> str:
        """Return the cases of a part, such as "false: ratio ≥ 1.5"."""
        parts = load_experiment(result.number).parts
        (part,) = (part for part in parts if part.name == conclusion.part)
        return "; ".join(
            f"{self.verdict(case.verdict)}{self.word('colon')}"
            + (", ".join(map(str, case.checks)) or self.word("otherwise"))
            for case in part.cases
        )

    def measurements(self, result: Result) -> Iterator[tuple[str, str, str]]:
        """Yield name, description and value of each measurement."""
        for each in result.measurements:
            what = result.texts.find_quantity(each.name)
            assert what is not None
            yield each.name, self.get(what), str(each)

    def topics(self, results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
        """Yield each topic with its results."""
        names = list(topics().values())
        for index, group in groupby(results, lambda result: topic_index(result.number)):
            yield self.get(names[index]), list(group)


def format_plain(result: Result, language: Language) -> str:
    """Return a result for the terminal."""
    writer = _Writer(language)
    lines = [f"{result.number:>3}  {writer.get(result.texts.title)}: {writer.status(result)}"]
    for each in result.conclusions:
        mark = "✓" if each.as_published else "✗"
        lines.append(f"     {mark} {writer.claim(result, each)}")
        lines.append(f"       {writer.verdict(each.verdict)}: {writer.get(each.text)}")
        lines.append(f"       [{writer.rules(result, each)}]")
    for name, what, value in writer.measurements(result):
        lines.append(f"     {what}: {name} = {value}")
    return "\n".join([*lines, result.traceback]).rstrip()


def format_markdown(results: Sequence[Result], language: Language) -> str:
    """Return the documentation: a table of verdicts, then every experiment."""
    writer = _Writer(language)
    name, file = _OTHER_LANGUAGE[language]
    seeds, colon = ", ".join(map(str, results[0].seeds)), writer.word("colon")
    blocks = [
        f"# {writer.word('title')}",
        f"[{name}]({file})",
        writer.word("about"),
        f"{writer.word('made_by')} {writer.word('intervals')} {writer.word('seeds')}{colon}{seeds}",
        "\n".join(f"- {key}: {writer.get(title)}" for key, title in source_titles().items()),
        "\n".join(
            [
                f"| | {writer.word('experiment')} | {writer.word('verdict')} |\n|---:|---|---|",
                *(
                    f"| {r.number} | {_cell(writer.get(r.texts.title))} | {writer.status(r)} |"
                    for r in results
                ),
            ]
        ),
    ]
    for topic, group in writer.topics(results):
        blocks.append(f"## {topic}")
        blocks.extend(block for result in group for block in _markdown_section(writer, result))
    return "\n\n".join(blocks) + "\n"


def _markdown_section(writer: _Writer, result: Result) -> Iterator[str]:
    yield f"### {result.number}. {_escape_markdown(writer.get(result.texts.title))}"
    yield f"**{writer.word('verdict')}{writer.word('colon')}{writer.status(result)}**"
    for source, quotation in result.texts.sources.items():
        yield f"> {source}{writer.word('colon')}{_escape_markdown(quotation).replace(chr(10), ' ')}"
    for each in result.conclusions:
        claim, text = writer.claim(result, each), writer.get(each.text)
        yield (
            f"- {_escape_markdown(claim)}\n"
            f"  **{writer.verdict(each.verdict)}{writer.word('colon').strip()}** "
            f"{_escape_markdown(text)}\n"
            f"  *({_escape_markdown(writer.rules(result, each))})*"
        )
    rows = [f"| {writer.word('measured')} | | {writer.word('value')} |", "|---|---|---|"]
    for name, what, value in writer.measurements(result):
        rows.append(f"| {_cell(what)} | `{name}` | {_cell(value)} |")
    yield "\n".join(rows)


def _cell(text: str) -> str:
    return _escape_markdown(text).replace("|", "\\|")


def _escape_markdown(text: str) -> str:
    """Escape the characters with a meaning in Markdown, except in code."""
    parts = text.split("`")  # every second part is code
    for index in range(0, len(parts), 2):
        for character in "*_[]":
            parts[index] = parts[index].replace(character, f"\\{character}")
        parts[index] = parts[index].replace("](", "]\\(").replace("<", "&lt;")
    return "`".join(parts)


def format_html(results: Sequence[Result], language: Language) -> str:
    """Return a page with all results and figures that needs no other file."""
    page = _Page(language)
    style, script = (
        (files("seq2see.lab") / name).read_text("utf-8") for name in ("report.css", "report.js")
    )
    titles = (f"<b>{s}</b> {page.html(title)}" for s, title in source_titles().items())
    body = [
        f"<h1>seq2see · {page.word('title')}</h1><p>{page.word('about')}</p>",
        f'<p class="notes">{" · ".join(titles)}<br>{page.word("intervals")}</p>',
        page.contents(results),
    ]
    for topic, group in page.topics(results):
        body.append(f"<h2>{escape(topic)}</h2>")
        body.extend(page.article(result) for result in group)
    return (
        f'<!doctype html>\n<html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>seq2see lab</title><style>{style}</style></head>"
        f"<body><main>{''.join(body)}</main><script>{script}</script></body></html>\n"
    )


class _Page(_Writer):
    """Parts of the HTML page."""

    def html(self, text: Text) -> str:
        return escape(self.get(text))

    def contents(self, results: Sequence[Result]) -> str:
        rows = "".join(
            f'<tr data-verdict="{_css_class(r.verdict)}"><td>{r.number}</td>'
            f'<td><a href="#e{r.number}">{self.html(r.texts.title)}</a></td>'
            f"<td>{self.badge(r)}</td></tr>"
            for r in results
        )
        buttons = f'<div id="filter" data-all="{self.word("all")}"></div>'
        return f"<nav>{buttons}<table>{rows}</table></nav>"

    def badge(self, result: Result) -> str:
        kind = _css_class(result.verdict) if result.as_published else "failed"
        return f'<span class="badge"><span class="{kind}">{self.status(result)}</span></span>'

    def article(self, result: Result) -> str:
        declared = load_experiment(result.number).figures
        quotations = "".join(
            f"<blockquote>{source}: {escape(quotation)}</blockquote>"
            for source, quotation in result.texts.sources.items()
        )
        return (
            f'<article id="e{result.number}"><h3><a href="#e{result.number}">{result.number}</a> '
            f"{self.html(result.texts.title)} {self.badge(result)}</h3>{quotations}"
            f"{''.join(self.part(result, each) for each in result.conclusions)}"
            f"{self.measured(result)}{self.figures(result, declared)}"
            f"<details><summary>{self.word('code')}</summary>"
            f"<pre>{escape(inspect.getsource(load_experiment(result.number).measure))}</pre>"
            "</details></article>"
        )

    def part(self, result: Result, each: Conclusion) -> str:
        return (
            f"<dl><dt>{self.word('claim')}</dt><dd>{escape(self.claim(result, each))}</dd>"
            f"<dt>{self.word('verdict')}</dt><dd><b>{self.verdict(each.verdict)}</b> "
            f"{self.html(each.text)}</dd><dt>{self.word('rule')}</dt>"
            f'<dd class="where">{escape(self.rules(result, each))}</dd></dl>'
        )

    def measured(self, result: Result) -> str:
        rows = "".join(
            f"<tr><td>{escape(what)}</td><td>{escape(name)}</td><td>{escape(value)}</td></tr>"
            for name, what, value in self.measurements(result)
        )
        return f'<table class="measured">{rows}</table>'

    def figures(self, result: Result, declared: Sequence[DeclaredFigure]) -> str:
        return "".join(
            f"<figure>{each.render(result, self.language)}<figcaption>"
            f"{self.html(result.texts.find_label(each.caption))}</figcaption></figure>"
            for each in ([] if result.error else declared)
        )


def _css_class(verdict: Verdict) -> str:
    return verdict.value.replace(" ", "-")
