"""Text with inline tags.

A format parses its text into nodes: strings, opening and closing tags, and standalone tags such as
images. `TextUnit` joins the strings to one text and stores the tags with their positions; it
renders the same tags around a translation. Each tag occurs exactly once in the output, and tags
that were nested stay nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


def has_letter(text: str) -> bool:
    """Tell if a text has a letter: numbers, signs and emoji are the same in every language."""
    return any(map(str.isalpha, text))


@dataclass(frozen=True, slots=True, eq=False)
class OpenTag:
    """A tag that opens; `key` finds the one that closes it."""

    key: object
    payload: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class CloseTag:
    """A tag that closes the nearest open one of the same key."""

    key: object
    payload: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class StandaloneTag:
    """Something that is kept as it is."""

    payload: Any = None
    text: str = ""
    """What the model is shown of it, to place it well; without white space around."""


MarkupNode = str | OpenTag | CloseTag | StandaloneTag


class IndexRange(NamedTuple):
    """Characters of a text, from `start` up to `end`."""

    start: int
    end: int


class TagPosition(NamedTuple):
    """Where a mark stands in a translation, and the pair that it is in."""

    start: int
    end: int
    parent: int


ROOT = -1
"""The parent of the outermost marks."""


_DEEPEST = 64
"""Tags beyond so many open ones are things by themselves."""


@dataclass(frozen=True, slots=True)
class InlineTag:
    """Where an event, or a pair of them, stands in the words of a passage."""

    start: int
    end: int
    parent: int
    """The place of the innermost pair around it in the list of marks, or `ROOT`."""
    node: OpenTag | CloseTag | StandaloneTag
    close_tag: CloseTag | None = None

    @property
    def is_pair(self) -> bool:
        """Tell if other marks may be inside it."""
        return self.close_tag is not None

    @property
    def is_protected(self) -> bool:
        """Tell if its own words stand in the text, and must not be translated."""
        return isinstance(self.node, StandaloneTag) and self.start < self.end


@dataclass(frozen=True, slots=True)
class TextUnit:
    """The words of a passage, and what stands between them, outer marks before inner."""

    text: str
    tags: tuple[InlineTag, ...] = ()
    location: str = ""
    """Where it is in its document, for the report."""

    @classmethod
    def from_nodes(cls, nodes: Iterable[MarkupNode], location: str = "") -> TextUnit:
        """Make one text of the words. A tag without its other half becomes a thing of its own."""
        row = list(nodes)
        partners = _partners(row)
        marks: list[InlineTag] = []
        open_marks: list[int] = []
        words, length = [], 0
        for number, event in enumerate(row):
            parent = open_marks[-1] if open_marks else ROOT
            if isinstance(event, str):
                words.append(event)
                length += len(event)
            elif isinstance(event, StandaloneTag):
                marks.append(InlineTag(length, length + len(event.text), parent, event))
                words.append(event.text)
                length += len(event.text)
            elif number not in partners:
                marks.append(InlineTag(length, length, parent, event))
            elif isinstance(event, OpenTag):
                closing = row[partners[number]]
                assert isinstance(closing, CloseTag)
                open_marks.append(len(marks))
                marks.append(InlineTag(length, length, parent, event, closing))
            else:
                opened = open_marks.pop()
                mark = marks[opened]
                marks[opened] = InlineTag(
                    mark.start, length, mark.parent, mark.node, mark.close_tag
                )
        return cls("".join(words), tuple(marks), location)

    @property
    def protected_ranges(self) -> tuple[IndexRange, ...]:
        """Words that the model may see, but not change."""
        return tuple(IndexRange(mark.start, mark.end) for mark in self.tags if mark.is_protected)

    def to_nodes(self, text: str, positions: Sequence[TagPosition]) -> Iterator[MarkupNode]:
        """Yield the events again, around another text in which each mark has its new spot."""
        children: dict[int, list[int]] = {}
        for number, spot in enumerate(positions):
            children.setdefault(spot.parent, []).append(number)
        for inside in children.values():
            inside.sort(key=lambda number: (positions[number].start, positions[number].end, number))
        yield from self._inside(text, TagPosition(0, len(text), ROOT), ROOT, children, positions)

    def _inside(
        self,
        text: str,
        around: TagPosition,
        parent: int,
        children: Mapping[int, Sequence[int]],
        spots: Sequence[TagPosition],
    ) -> Iterator[MarkupNode]:
        done = around.start
        for number in children.get(parent, ()):
            mark, spot = self.tags[number], spots[number]
            start, end = spot.start, spot.end
            if done < start:
                yield text[done:start]
            if start == end and self._wants_space_before(mark, text, start):
                yield " "
            yield mark.node
            if mark.close_tag:
                yield from self._inside(text, spot, number, children, spots)
                yield mark.close_tag
            if start == end and self._wants_space_behind(mark, text, end):
                yield " "
            done = max(done, end)
        if done < around.end:
            yield text[done : around.end]

    def _wants_space_before(self, mark: InlineTag, text: str, place: int) -> bool:
        apart = mark.start > 0 and self.text[mark.start - 1].isspace()
        return apart and place > 0 and not text[place - 1].isspace()

    def _wants_space_behind(self, mark: InlineTag, text: str, place: int) -> bool:
        apart = mark.end < len(self.text) and self.text[mark.end].isspace()
        return apart and place < len(text) and not text[place].isspace()


def _partners(row: Sequence[MarkupNode]) -> dict[int, int]:
    """Return the place of each tag's other half, for the tags that nest."""
    partners: dict[int, int] = {}
    still_open: list[tuple[object, int]] = []
    for number, event in enumerate(row):
        if isinstance(event, OpenTag):
            if len(still_open) < _DEEPEST:
                still_open.append((event.key, number))
        elif isinstance(event, CloseTag):
            depth = _innermost(still_open, event.key)
            if depth is not None:
                partners[number] = opened = still_open[depth][1]
                partners[opened] = number
                del still_open[depth:]
    return partners


def _innermost(still_open: Sequence[tuple[object, int]], key: object) -> int | None:
    for depth in range(len(still_open) - 1, -1, -1):
        if still_open[depth][0] == key:
            return depth
    return None


_MARKUP = re.compile(
    r"<(?P<close>/?)(?P<name>[A-Za-z][\w:-]*|\d+)(?P<rest>(?:[\s./][^<>]*)?)>"  # <b>, <0>, <c.red>
    r"|<[\d:.]+>"  # a time inside a cue
    r"|\{\\[^{}]*\}"  # {\an8}
    r"|&(?:[A-Za-z]+|#\d+|#x[\dA-Fa-f]+);"
)


_VOID = frozenset({"br", "hr", "img", "input", "wbr"})


def parse_inline_tags(text: str) -> Iterator[MarkupNode]:
    """Yield the words of a text, and the tags between them as they are written."""
    done = 0
    for match in _MARKUP.finditer(text):
        if done < match.start():
            yield text[done : match.start()]
        yield _event(match)
        done = match.end()
    if done < len(text):
        yield text[done:]


def _event(match: re.Match[str]) -> MarkupNode:
    name = match["name"]
    if name is None or name.lower() in _VOID or match["rest"].endswith("/"):
        return StandaloneTag(match[0])
    return (CloseTag if match["close"] else OpenTag)(name.lower(), match[0])


def render_inline_tags(nodes: Iterable[MarkupNode]) -> str:
    """Return events as they are written."""
    return "".join(event if isinstance(event, str) else event.payload for event in nodes)
