"""Translate Word documents (.docx): the text of paragraphs changes, all other parts are copied.

A paragraph is a sequence of runs, each with its own format. The format of most characters is the
base format; runs in another format are inline tags, like hyperlinks, and are transferred with their
text.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby

from lxml import etree

from seq2see.documents import inline_xml
from seq2see.documents.document_translator import Job
from seq2see.documents.markup import Closing, Event, Opening, Passage, Thing, has_letter
from seq2see.errors import InputError

_KIND = "a Word document (.docx)"


_MAIN = "word/document.xml"


_STORY = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
"""Parts that hold paragraphs."""


def translate(data: bytes, name: str, job: Job) -> bytes:
    """Translate the paragraphs of a document, in its tables, notes, headers and footers too."""
    archive = Archive.read(data, name, _KIND)
    if _MAIN not in archive.files:
        raise InputError(f"{name} must be {_KIND}, but has no {_MAIN}")
    stories = {part: archive.files[part] for part in archive.files if _STORY.fullmatch(part)}
    trees = {part: _parsed(content, f"{part} of {name}") for part, content in stories.items()}
    paragraphs = [one for part, tree in trees.items() for one in _paragraphs(tree, part)]
    passages = [passage for paragraph in paragraphs for passage in paragraph.passages]
    found = iter(job.translate(passages))
    for paragraph in paragraphs:
        paragraph.rebuild([next(found).events for _ in paragraph.passages])
    written = {part: inline_xml.serialise(tree, stories[part]) for part, tree in trees.items()}
    return archive.write(written)


def _parsed(content: bytes, name: str) -> etree._ElementTree:
    tree = inline_xml.parse(content, name, "XML")
    if not str(tree.getroot().tag).startswith(W):
        raise InputError(
            f"{name} must be {_KIND} of the usual kind, not Strict Open XML: save it so"
        )
    return tree


def _paragraphs(tree: etree._ElementTree, part: str) -> list[Paragraph]:
    story = part.removeprefix("word/").removesuffix(".xml")
    where = "" if part == _MAIN else f"{story}, "
    return [
        Paragraph(element, f"{where}paragraph {number}")
        for number, element in enumerate(tree.getroot().iter(f"{W}p"), 1)
    ]


W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


LARGEST_FORMAT = 20_000
"""Bytes, in plain XML. Each stretch of words gets a copy of its own, so a huge one could fill the
memory; those that Word writes have some hundreds."""


_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


@dataclass(frozen=True, slots=True)
class Format:
    """How a run looks; runs with the same key look the same."""

    key: bytes
    properties: etree._Element | None

    @classmethod
    def of(cls, run: etree._Element) -> Format:
        """Return the format of a run."""
        properties = run.find(f"{W}rPr")
        if properties is None:
            return cls(b"", None)
        look = deepcopy(properties)
        look.tail = None
        for note in [*look.iterchildren(f"{W}lang"), *look.iterchildren(f"{W}noProof")]:
            look.remove(note)
        key = etree.tostring(look, method="c14n") if len(look) else b""
        if len(key) > LARGEST_FORMAT:
            raise InputError(
                f"the format of a run must have at most {LARGEST_FORMAT:,} bytes, "
                f"but has {len(key):,} instead: clear the format of its words"
            )
        return cls(key, properties)

    def run(self) -> etree._Element:
        """Return an empty run of this format."""
        run = etree.Element(f"{W}r", nsmap={"w": W[1:-1]})
        if self.properties is not None:
            run.append(deepcopy(self.properties))
        return run


@dataclass(frozen=True, slots=True)
class Words:
    """Words of one format."""

    text: str
    format: Format

    def placed(self, parent: etree._Element) -> None:
        """Put them at the end of a parent, in a run of their own."""
        run = self.format.run()
        text = etree.SubElement(run, f"{W}t", {_SPACE: "preserve"})
        inline_xml.append_text(text, self.text.replace("\n", " ").replace("\t", " "))
        parent.append(run)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a run that is no words, or an element between runs."""

    element: etree._Element
    format: Format | None = None
    """None: it stands between runs."""

    def placed(self, parent: etree._Element) -> None:
        """Put it at the end of a parent, in a run of its own if it needs one."""
        if self.format is not None:
            run = self.format.run()
            run.append(self.element)
            parent.append(run)
        else:
            parent.append(self.element)
        self.element.tail = None


@dataclass(frozen=True, slots=True)
class Around:
    """An element around runs."""

    element: etree._Element

    @property
    def holder(self) -> etree._Element:
        """Where the runs are: in itself, or in the content of a control."""
        content = self.element.find(f"{W}sdtContent")
        return self.element if content is None else content


@dataclass(frozen=True, slots=True)
class Break:
    """What ends a passage: a tab, a line break, a field that goes on elsewhere."""

    part: Part


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


MOST_FILES = 10_000


LARGEST = 512 * 1024 * 1024
"""Bytes of all files together, unpacked."""


MOST_RATIO = 200
"""How many times as large a file of more than a megabyte may become."""


_SMALL = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Archive:
    """The files of an archive, and how they were packed."""

    files: dict[str, bytes]
    _infos: list[zipfile.ZipInfo]

    @classmethod
    def read(cls, data: bytes, name: str, kind: str) -> Archive:
        """Unpack an archive into memory; what would grow beyond all measure is refused."""
        try:
            with zipfile.ZipFile(BytesIO(data)) as archive:
                infos = archive.infolist()
                _refuse_bombs(infos, name)
                if len({info.filename for info in infos}) < len(infos):
                    raise InputError(f"{name} must be {kind}, but has a part twice")
                return cls({info.filename: archive.read(info) for info in infos}, infos)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
            raise InputError(f"{name} must be {kind}, but: {error}") from None
        except RuntimeError:
            raise InputError(f"{name} must be {kind} without a password, but has one") from None

    def write(self, changes: Mapping[str, bytes]) -> bytes:
        """Pack the files again, some of them with other content."""
        packed = BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for info in self._infos:
                new = zipfile.ZipInfo(info.filename, info.date_time)
                new.compress_type = info.compress_type
                new.external_attr = info.external_attr
                archive.writestr(new, changes.get(info.filename, self.files[info.filename]))
        return packed.getvalue()


def _refuse_bombs(infos: list[zipfile.ZipInfo], name: str) -> None:
    total = sum(info.file_size for info in infos)
    grown = any(info.file_size > max(_SMALL, MOST_RATIO * info.compress_size) for info in infos)
    if len(infos) > MOST_FILES or total > LARGEST or grown:
        raise InputError(
            f"{name} must have at most {MOST_FILES} files and {LARGEST >> 20} MB, no file packed "
            f"more than {MOST_RATIO} times, but has {len(infos)} files and {total >> 20} MB"
        )
