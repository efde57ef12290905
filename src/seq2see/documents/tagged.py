"""Plain text with tags in it, as in the strings of programs and in subtitles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from seq2see.documents.passages import Closing, Event, Opening, Thing

_MARKUP = re.compile(
    r"<(?P<close>/?)(?P<name>[A-Za-z][\w:-]*|\d+)(?P<rest>(?:[\s./][^<>]*)?)>"  # <b>, <0>, <c.red>
    r"|<[\d:.]+>"  # a time inside a cue
    r"|\{\\[^{}]*\}"  # {\an8}
    r"|&(?:[A-Za-z]+|#\d+|#x[\dA-Fa-f]+);"
)
_VOID = frozenset({"br", "hr", "img", "input", "wbr"})


def events(text: str) -> Iterator[Event]:
    """Yield the words of a text, and the tags between them as they are written."""
    done = 0
    for match in _MARKUP.finditer(text):
        if done < match.start():
            yield text[done : match.start()]
        yield _event(match)
        done = match.end()
    if done < len(text):
        yield text[done:]


def _event(match: re.Match[str]) -> Event:
    name = match["name"]
    if name is None or name.lower() in _VOID or match["rest"].endswith("/"):
        return Thing(match[0])
    return (Closing if match["close"] else Opening)(name.lower(), match[0])


def text_of(row: Iterable[Event]) -> str:
    """Return events as they are written."""
    return "".join(event if isinstance(event, str) else event.payload for event in row)
