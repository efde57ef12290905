"""Texts of experiments and reports in English and Chinese, read from TOML without importing torch.

`experiments/NAME.toml` has a table per experiment; `words.toml` has the words of reports.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
SOURCES = ("S0", "S1", "S2", "S3", "S4")
"""Names of the study notes."""


class Text(NamedTuple):
    """A text in both languages."""

    en: str
    zh: str

    def get(self, language: Language) -> str:
        """Return the text in a language."""
        return self.en if language == "en" else self.zh

    def format(self, **values: object) -> Text:
        """Fill in placeholders in both languages."""
        return Text(self.en.format(**values), self.zh.format(**values))

    def to_json(self) -> dict[str, str]:
        """Return a JSON object with a text per language."""
        return self._asdict()


@dataclass(frozen=True, slots=True)
class PartTexts:
    """Texts of one statement of a claim."""

    claim: Text
    sentences: Mapping[str, Text]
    """The sentence of each outcome, by the name of its verdict or case."""


@dataclass(frozen=True, slots=True)
class ExperimentTexts:
    """All texts of an experiment."""

    number: int
    module: str
    """Name of the Python file and of the TOML file."""
    title: Text
    sources: Mapping[str, str]
    """The complete quotation per study note, in the original language."""
    trains: bool
    """Whether the experiment trains models or needs the trained translator."""
    parts: Mapping[str, PartTexts]
    quantities: Mapping[str, Text]
    """Names of measurements. A `*` in a key matches any text and stands for it in the name."""
    labels: Mapping[str, Text] = field(default_factory=dict)
    """Captions and labels of figures."""

    def find_quantity(self, name: str) -> Text | None:
        """Return the name of a measurement, or None if the name is not one of a measurement."""
        if name in self.quantities:
            return self.quantities[name]
        for key, text in self.quantities.items():
            prefix, star, suffix = key.partition("*")
            if star and name.startswith(prefix) and name.endswith(suffix):
                matched = name[len(prefix) : len(name) - len(suffix)]
                return Text(text.en.replace("*", matched), text.zh.replace("*", matched))
        return None

    def find_label(self, name: str) -> Text:
        """Return the label with this name, else the quantity, else the name itself."""
        return self.labels.get(name) or self.find_quantity(name) or Text(name, name)

    def to_json(self) -> dict[str, Any]:
        """Return what is known before the experiment runs."""
        parts = [{"name": n, "claim": part.claim.to_json()} for n, part in self.parts.items()]
        head = {"number": self.number, "title": self.title.to_json(), "trains": self.trains}
        return {**head, "sources": dict(self.sources), "parts": parts}


@cache
def load_all_texts() -> Mapping[int, ExperimentTexts]:
    """Return the texts of all experiments by number."""
    found: dict[int, ExperimentTexts] = {}
    for path in (files("seq2see.lab") / "experiments").iterdir():
        if path.name.endswith(".toml"):
            for number, table in tomllib.loads(path.read_text("utf-8")).items():
                assert int(number) not in found, f"two experiments have the number {number}"
                texts = _parse_experiment(int(number), path.name.removesuffix(".toml"), table)
                found[int(number)] = texts
    return dict(sorted(found.items()))


def _parse_experiment(number: int, module: str, table: dict[str, Any]) -> ExperimentTexts:
    title, sources = parse_text(table.pop("title")), table.pop("sources", {})
    assert set(sources) <= set(SOURCES), f"experiment {number}: unknown source in {sources}"
    trains = table.pop("trains", False)
    quantities = {name: parse_text(pair) for name, pair in table.pop("quantities", {}).items()}
    labels = {name: parse_text(pair) for name, pair in table.pop("labels", {}).items()}
    parts = {name: _parse_part(each) for name, each in table.items()}
    return ExperimentTexts(number, module, title, sources, trains, parts, quantities, labels)


def _parse_part(table: dict[str, Any]) -> PartTexts:
    texts = {name: parse_text(pair) for name, pair in table.items()}
    return PartTexts(texts.pop("claim"), texts)


def parse_text(value: str | list[str]) -> Text:
    """Return a text from a pair [English, Chinese], or from one string for both languages."""
    return Text(value, value) if isinstance(value, str) else Text(*value)


@cache
def _load_words() -> dict[str, Any]:
    words = tomllib.loads((files("seq2see.lab") / "words.toml").read_text("utf-8"))
    return {
        name: {key: parse_text(value) for key, value in table.items()}
        for name, table in words.items()
    }


def word(name: str) -> Text:
    """Return a word of reports."""
    text: Text = _load_words()["words"][name]
    return text


def verdict_words() -> Mapping[str, Text]:
    """Return the word of each verdict."""
    words: Mapping[str, Text] = _load_words()["verdicts"]
    return words


def source_titles() -> Mapping[str, Text]:
    """Return the title of each study note."""
    titles: Mapping[str, Text] = _load_words()["sources"]
    return titles


def topics() -> Mapping[int, Text]:
    """Return the topics by the number of their first experiment."""
    return {int(first): text for first, text in _load_words()["topics"].items()}


def topic_index(number: int) -> int:
    """Return the index of the topic of an experiment."""
    return sum(first <= number for first in topics()) - 1
