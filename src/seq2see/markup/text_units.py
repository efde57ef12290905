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

ROOT = -1
"""Parent index of the outermost tags."""
_MAX_DEPTH = 64
"""Maximum nesting depth of tags; deeper tags are treated as standalone tags."""


@dataclass(frozen=True, slots=True, eq=False)
class OpeningTag:
    """An opening tag. `key` identifies the closing tag that belongs to it."""

    key: object
    payload: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class ClosingTag:
    """A closing tag. It closes the innermost open tag with the same key."""

    key: object
    payload: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class StandaloneTag:
    """A tag without content that is translated, such as an image or a code element."""

    payload: Any = None
    text: str = ""
    """Text of the tag that the model sees but must not change, without surrounding white space."""


MarkupNode = str | OpeningTag | ClosingTag | StandaloneTag


class IndexRange(NamedTuple):
    """A half-open range of character offsets or token indices."""

    start: int
    end: int

    def shift(self, number: int) -> IndexRange:
        """Return the range moved by a number of characters or tokens."""
        return IndexRange(self.start + number, self.end + number)


class TargetTagPosition(NamedTuple):
    """Position of a tag in a translation, and the index of the pair of tags around it."""

    start: int
    end: int
    parent: int


@dataclass(frozen=True, slots=True)
class InlineTag:
    """A standalone tag or a pair of tags, with its position in the text of a unit."""

    start: int
    end: int
    parent: int
    """Index of the innermost pair of tags around it, or `ROOT`."""
    node: OpeningTag | ClosingTag | StandaloneTag
    close_tag: ClosingTag | None = None

    @property
    def is_pair(self) -> bool:
        """Return whether this is a pair of tags, which can contain other tags."""
        return self.close_tag is not None

    @property
    def is_protected(self) -> bool:
        """Return whether the tag has text of its own, which must not be translated."""
        return isinstance(self.node, StandaloneTag) and self.start < self.end


@dataclass(frozen=True, slots=True)
class TextUnit:
    """Text that is translated together, with its inline tags; outer tags precede inner ones."""

    text: str
    tags: tuple[InlineTag, ...] = ()
    location: str = ""
    """Position in the document, as shown in the report."""

    @classmethod
    def from_nodes(cls, nodes: Iterable[MarkupNode], location: str = "") -> TextUnit:
        """Join the strings of the nodes and store the tags with their positions.

        An opening or closing tag without a partner becomes a standalone tag.
        """
        nodes = list(nodes)
        partners = _match_tags(nodes)
        tags: list[InlineTag] = []
        open_tags: list[int] = []
        texts, length = [], 0
        for index, node in enumerate(nodes):
            parent = open_tags[-1] if open_tags else ROOT
            if isinstance(node, str):
                texts.append(node)
                length += len(node)
            elif isinstance(node, StandaloneTag):
                tags.append(InlineTag(length, length + len(node.text), parent, node))
                texts.append(node.text)
                length += len(node.text)
            elif index not in partners:
                tags.append(InlineTag(length, length, parent, node))
            elif isinstance(node, OpeningTag):
                close_tag = nodes[partners[index]]
                assert isinstance(close_tag, ClosingTag)
                open_tags.append(len(tags))
                tags.append(InlineTag(length, length, parent, node, close_tag))
            else:
                opened = open_tags.pop()
                tag = tags[opened]
                tags[opened] = InlineTag(tag.start, length, tag.parent, tag.node, tag.close_tag)
        return cls("".join(texts), tuple(tags), location)

    @property
    def protected_ranges(self) -> tuple[IndexRange, ...]:
        """Ranges of the text that the model sees but must not change."""
        return tuple(IndexRange(tag.start, tag.end) for tag in self.tags if tag.is_protected)

    def to_nodes(self, text: str, positions: Sequence[TargetTagPosition]) -> Iterator[MarkupNode]:
        """Yield the nodes of a translation, in which `positions` are the positions of the tags."""
        children: dict[int, list[int]] = {}
        for index, position in enumerate(positions):
            children.setdefault(position.parent, []).append(index)
        for siblings in children.values():
            siblings.sort(key=lambda index: (positions[index].start, positions[index].end, index))
        outermost = TargetTagPosition(0, len(text), ROOT)
        yield from self._content_nodes(text, outermost, ROOT, children, positions)

    def _content_nodes(
        self,
        text: str,
        bounds: TargetTagPosition,
        parent: int,
        children: Mapping[int, Sequence[int]],
        positions: Sequence[TargetTagPosition],
    ) -> Iterator[MarkupNode]:
        """Yield the nodes inside a pair of tags, whose content has these bounds."""
        done = bounds.start
        for index in children.get(parent, ()):
            tag, position = self.tags[index], positions[index]
            start, end = position.start, position.end
            if done < start:
                yield text[done:start]
            if start == end and self._needs_space_before(tag, text, start):
                yield " "
            yield tag.node
            if tag.close_tag:
                yield from self._content_nodes(text, position, index, children, positions)
                yield tag.close_tag
            if start == end and self._needs_space_after(tag, text, end):
                yield " "
            done = max(done, end)
        if done < bounds.end:
            yield text[done : bounds.end]

    def _needs_space_before(self, tag: InlineTag, text: str, offset: int) -> bool:
        had_space = tag.start > 0 and self.text[tag.start - 1].isspace()
        return had_space and offset > 0 and not text[offset - 1].isspace()

    def _needs_space_after(self, tag: InlineTag, text: str, offset: int) -> bool:
        had_space = tag.end < len(self.text) and self.text[tag.end].isspace()
        return had_space and offset < len(text) and not text[offset].isspace()


def _match_tags(nodes: Sequence[MarkupNode]) -> dict[int, int]:
    """Return for each tag with a partner the index of the partner; pairs do not overlap."""
    partners: dict[int, int] = {}
    open_tags: list[tuple[object, int]] = []
    for index, node in enumerate(nodes):
        if isinstance(node, OpeningTag):
            if len(open_tags) < _MAX_DEPTH:
                open_tags.append((node.key, index))
        elif isinstance(node, ClosingTag):
            depths = (depth for depth, (key, _) in enumerate(open_tags) if key == node.key)
            if (innermost := max(depths, default=None)) is not None:
                partners[index] = opened = open_tags[innermost][1]
                partners[opened] = index
                del open_tags[innermost:]
    return partners


_TAG = re.compile(
    r"<(?P<close>/?)(?P<name>[A-Za-z][\w:-]*|\d+)(?P<rest>(?:[\s./][^<>]*)?)>"  # <b>, <0>, <c.red>
    r"|<[\d:.]+>"  # timestamp in a cue
    r"|\{\\[^{}]*\}"  # {\an8}
    r"|&(?:[A-Za-z]+|#\d+|#x[\dA-Fa-f]+);"
)
_VOID_ELEMENTS = frozenset({"br", "hr", "img", "input", "wbr"})


def parse_markup_nodes(text: str) -> Iterator[MarkupNode]:
    """Yield the nodes of a plain string that contains tags, as in PO files and subtitles."""
    done = 0
    for match in _TAG.finditer(text):
        if done < match.start():
            yield text[done : match.start()]
        yield _to_node(match)
        done = match.end()
    if done < len(text):
        yield text[done:]


def _to_node(match: re.Match[str]) -> MarkupNode:
    name = match["name"]
    if name is None or name.lower() in _VOID_ELEMENTS or match["rest"].endswith("/"):
        return StandaloneTag(match[0])
    return (ClosingTag if match["close"] else OpeningTag)(name.lower(), match[0])


def render_markup_nodes(nodes: Iterable[MarkupNode]) -> str:
    """Return the string of nodes that `parse_markup_nodes` has parsed."""
    return "".join(node if isinstance(node, str) else node.payload for node in nodes)
