"""Translations and scores as lines: JSON for machines, or columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from seq2see.data.writers import one_line

if TYPE_CHECKING:
    from seq2see.translator import Scored, Translation

Form = Callable[["Translation"], str]


def as_text(translation: Translation) -> str:
    """Return the text; alternatives stand behind it, with tabs between them."""
    texts = [translation.text, *(other.text for other in translation.alternatives)]
    return one_line(texts[0]) if len(texts) == 1 else "\t".join(map(_cell, texts))


def with_scores(translation: Translation) -> str:
    """Return score and text of the translation and of its alternatives, with tabs between them."""
    every = (translation, *translation.alternatives)
    return "\t".join(f"{each.score:.4f}\t{_cell(each.text)}" for each in every)


def as_json(translation: Translation) -> str:
    """Return an object."""
    return json.dumps(dict(_fields(translation)), ensure_ascii=False)


FORMS: Mapping[str, Form] = {"json": as_json, "scores": with_scores, "text": as_text}
"""What `--json` and `--scores` choose from."""


def _fields(translation: Translation) -> Iterator[tuple[str, Any]]:
    """Give text and scores always, and the rest where there is any."""
    yield "text", translation.text
    yield "score", translation.score
    yield "log_prob", translation.log_prob
    if translation.alternatives:
        yield "alternatives", [dict(_fields(each)) for each in translation.alternatives]
    if translation.tokens:
        yield "tokens", [asdict(token) for token in translation.tokens]
    if translation.alignment:
        yield "alignment", [asdict(link) for link in translation.alignment]
    if translation.flags:
        yield "flags", [str(flag) for flag in translation.flags]
    if translation.unmet:
        yield "unmet", list(translation.unmet)
    if translation.error is not None:
        yield "error", translation.error


def _cell(text: str) -> str:
    return one_line(text).replace("\t", " ")


def scored_as_text(scored: Scored | str) -> str:
    """Return the log-probability, that of a token on average, and the number of tokens."""
    if isinstance(scored, str):
        return ""
    return f"{scored.log_prob:.4f}\t{scored.score:.4f}\t{len(scored.tokens)}"


def scored_as_json(scored: Scored | str) -> str:
    """Return an object; a text says why there is no score."""
    if isinstance(scored, str):
        return json.dumps({"error": scored}, ensure_ascii=False)
    return json.dumps(asdict(scored), ensure_ascii=False)
