"""A paragraph of a Word document: its runs to events, and events to runs again.

A paragraph is a row of runs, each with its own format. The format that most of its words have is
the ground; runs in another are marks on it, as hyperlinks are, and go where their words went.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from lxml import etree

from seq2see.documents.docx_runs import Around, Break, Format, Part, W, Words
from seq2see.documents.letters import has_letter
from seq2see.documents.passages import Closing, Event, Opening, Passage, Thing


def _tags(names: str) -> frozenset[str]:
    return frozenset(W + name for name in names.split())


_AROUND = _tags("hyperlink ins moveTo smartTag customXml bdo dir sdt")
_PROPERTIES = _tags("pPr rPr sdtPr sdtEndPr smartTagPr customXmlPr")
_OUTDATED = _tags("proofErr lastRenderedPageBreak softHyphen")
"""Notes about the old words."""
_BREAKS = _tags("tab br cr ptab")
_STARTS = _tags("bookmarkStart commentRangeStart permStart moveToRangeStart")
_ENDS = _tags("bookmarkEnd commentRangeEnd permEnd moveToRangeEnd")
_FIELD = _tags("fldChar instrText delInstrText")


_Item = Words | Break | Opening | Closing | Thing


class Paragraph:
    """A paragraph, and the passages between its tabs and line breaks."""

    def __init__(self, element: etree._Element, place: str) -> None:
        self._element = element
        items = list(_items(element, is_outer=True))
        self._rows: list[tuple[list[Event], Format]] = []
        self._breaks: list[Break] = []
        row: list[_Item] = []
        for item in items:
            if isinstance(item, Break):
                self._rows.append(_marked(row))
                self._breaks.append(item)
                row = []
            else:
                row.append(item)
        self._rows.append(_marked(row))
        self.passages = [
            Passage.of(events, place) for events, _ in self._rows if _has_letters(events)
        ]
        """What there is to translate."""

    def rebuild(self, translated: Sequence[Sequence[Event]]) -> None:
        """Put the translated events of each passage in its place."""
        if not self.passages:
            return
        for child in list(self._element):
            if child.tag not in _PROPERTIES:
                self._element.remove(child)
        found = iter(translated)
        for number, (events, ground) in enumerate(self._rows):
            _write(self._element, next(found) if _has_letters(events) else events, ground)
            if number < len(self._breaks):
                self._breaks[number].part.placed(self._element)


def _has_letters(events: Iterable[Event]) -> bool:
    return any(isinstance(event, str) and has_letter(event) for event in events)


def _items(parent: etree._Element, *, is_outer: bool) -> Iterator[_Item]:
    """Yield what is in a paragraph, or in an element around runs."""
    row = [part for child in parent for part in _parts(child)]
    ends = _ends_of_fields(row)
    place = 0
    while place < len(row):
        part = row[place]
        end = place + 1
        if isinstance(part, Words):
            yield part
        elif part.element.tag in _FIELD:
            end = ends.get(place, end)
            yield from _field(row[place:end], is_outer=is_outer)
        else:
            yield from _item(part, is_outer=is_outer)
        place = end


def _parts(child: etree._Element) -> Iterator[Words | Part]:
    """Yield the parts of a run, or the element itself."""
    if child.tag in _PROPERTIES | _OUTDATED:
        return
    if child.tag != f"{W}r":
        yield Part(child)
        return
    look = Format.of(child)
    for part in child:
        if part.tag == f"{W}t":
            yield Words(part.text or "", look)
        elif part.tag == f"{W}noBreakHyphen":
            yield Words("\u2011", look)
        elif part.tag not in _PROPERTIES | _OUTDATED:
            yield Part(part, look)


def _item(part: Part, *, is_outer: bool) -> Iterator[_Item]:
    tag, number = part.element.tag, part.element.get(f"{W}id")
    if tag in _AROUND:
        around = Around(part.element)
        yield Opening(around, around)
        yield from _items(around.holder, is_outer=False)
        yield Closing(around, around)
    elif tag in _BREAKS and is_outer:
        yield Break(part)
    elif tag in _STARTS:
        yield Opening((tag.removesuffix("Start"), number), [part])
    elif tag in _ENDS:
        yield Closing((tag.removesuffix("End"), number), [part])
    else:
        yield Thing([part])


def _ends_of_fields(row: Sequence[Words | Part]) -> dict[int, int]:
    """Return the place behind each field that starts and ends in this row."""
    ends: dict[int, int] = {}
    still_open: list[int] = []
    for place, part in enumerate(row):
        kind = _field_kind(part)
        if kind == "begin":
            still_open.append(place)
        elif kind == "end" and still_open:
            ends[still_open.pop()] = place + 1
    return ends


def _field_kind(part: Words | Part) -> str:
    is_mark = isinstance(part, Part) and part.element.tag == f"{W}fldChar"
    return part.element.get(f"{W}fldCharType", "") if is_mark else ""  # type: ignore[union-attr]


def _field(row: Sequence[Words | Part], *, is_outer: bool) -> Iterator[_Item]:
    """Yield a field: a link's words are translated, the results of others are not."""
    if len(row) == 1:
        (part,) = row
        assert isinstance(part, Part)
        yield Break(part) if is_outer else Thing([part])
        return
    kinds = [_field_kind(part) for part in row]
    code = "".join(
        p.element.text or ""
        for p in row
        if isinstance(p, Part) and p.element.tag == f"{W}instrText"
    )
    is_simple = kinds.count("begin") == kinds.count("separate") == 1
    if not code.strip().upper().startswith("HYPERLINK") or not is_simple:
        yield Thing(list(row))
        return
    middle = kinds.index("separate") + 1
    key = object()
    yield Opening(key, list(row[:middle]))
    for part in row[middle:-1]:
        if isinstance(part, Words):
            yield part
        else:
            yield Thing([part])
    yield Closing(key, [row[-1]])


def _marked(row: Sequence[_Item]) -> tuple[list[Event], Format]:
    """Return events in which words of another format than the ground have marks around them."""
    sizes = Counter[bytes]()
    looks: dict[bytes, Format] = {}
    for item in row:
        if isinstance(item, Words):
            sizes[item.format.key] += len(item.text)
            looks.setdefault(item.format.key, item.format)
    ground = looks[sizes.most_common(1)[0][0]] if sizes else Format(b"", None)
    events: list[Event] = []
    for words in _joined(row):
        if not isinstance(words, Words):
            assert not isinstance(words, Break)
            events.append(words)
        elif words.format.key == ground.key:
            events.append(words.text)
        else:
            key = object()
            events += [Opening(key, words.format), words.text, Closing(key, words.format)]
    return events, ground


def _joined(row: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the items; neighbours of the same format are one, since Word cuts runs anywhere."""
    for _, same in groupby(
        row, key=lambda item: item.format.key if isinstance(item, Words) else None
    ):
        first, *others = same
        if isinstance(first, Words):
            texts = [first.text, *(item.text for item in others if isinstance(item, Words))]
            yield Words("".join(texts), first.format)
        else:
            yield from (first, *others)


def _write(paragraph: etree._Element, events: Iterable[Event], ground: Format) -> None:
    """Put events at the end of a paragraph."""
    parents, looks = [paragraph], [ground]
    for event in events:
        if isinstance(event, str):
            Words(event, looks[-1]).placed(parents[-1])
        elif isinstance(event.payload, list):
            for part in event.payload:
                part.placed(parents[-1])
        elif isinstance(event, Opening):
            _enter(event.payload, parents, looks)
        else:
            (parents if isinstance(event.payload, Around) else looks).pop()


def _enter(payload: Around | Format, parents: list[etree._Element], looks: list[Format]) -> None:
    if isinstance(payload, Format):
        looks.append(payload)
        return
    holder = payload.holder
    for child in list(holder):
        if child.tag not in _PROPERTIES:
            holder.remove(child)
    parents[-1].append(payload.element)
    payload.element.tail = None
    parents.append(holder)
