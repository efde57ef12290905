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
from seq2see.documents.document_translator import DocumentTranslator
from seq2see.documents.markup import (
    CloseTag,
    MarkupNode,
    OpenTag,
    StandaloneTag,
    TextUnit,
    has_letter,
)
from seq2see.errors import InputError

_KIND = "a Word document (.docx)"


_MAIN = "word/document.xml"


_STORY = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
"""Parts that hold paragraphs."""


def translate(data: bytes, file_name: str, translator: DocumentTranslator) -> bytes:
    """Translate the paragraphs of a document, in its tables, notes, headers and footers too."""
    archive = ZipArchive.from_bytes(data, file_name, _KIND)
    if _MAIN not in archive.files:
        raise InputError(f"{file_name} must be {_KIND}, but has no {_MAIN}")
    stories = {part: archive.files[part] for part in archive.files if _STORY.fullmatch(part)}
    trees = {part: _parsed(content, f"{part} of {file_name}") for part, content in stories.items()}
    paragraphs = [one for part, tree in trees.items() for one in _paragraphs(tree, part)]
    passages = [passage for paragraph in paragraphs for passage in paragraph.units]
    found = iter(translator.translate(passages))
    for paragraph in paragraphs:
        paragraph.rebuild([next(found).nodes for _ in paragraph.units])
    written = {part: inline_xml.serialize_xml(tree, stories[part]) for part, tree in trees.items()}
    return archive.to_bytes(written)


def _parsed(content: bytes, name: str) -> etree._ElementTree:
    tree = inline_xml.parse_xml(content, name, "XML")
    if not str(tree.getroot().tag).startswith(W):
        raise InputError(
            f"{name} must be {_KIND} of the usual kind, not Strict Open XML: save it so"
        )
    return tree


def _paragraphs(tree: etree._ElementTree, part: str) -> list[DocxParagraph]:
    story = part.removeprefix("word/").removesuffix(".xml")
    where = "" if part == _MAIN else f"{story}, "
    return [
        DocxParagraph(element, f"{where}paragraph {number}")
        for number, element in enumerate(tree.getroot().iter(f"{W}p"), 1)
    ]


W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


MAX_FORMAT_BYTES = 20_000
"""Bytes, in plain XML. Each stretch of words gets a copy of its own, so a huge one could fill the
memory; those that Word writes have some hundreds."""


_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


@dataclass(frozen=True, slots=True)
class RunFormat:
    """How a run looks; runs with the same key look the same."""

    key: bytes
    properties: etree._Element | None

    @classmethod
    def from_run(cls, run: etree._Element) -> RunFormat:
        """Return the format of a run."""
        properties = run.find(f"{W}rPr")
        if properties is None:
            return cls(b"", None)
        look = deepcopy(properties)
        look.tail = None
        for note in [*look.iterchildren(f"{W}lang"), *look.iterchildren(f"{W}noProof")]:
            look.remove(note)
        key = etree.tostring(look, method="c14n") if len(look) else b""
        if len(key) > MAX_FORMAT_BYTES:
            raise InputError(
                f"the format of a run must have at most {MAX_FORMAT_BYTES:,} bytes, "
                f"but has {len(key):,} instead: clear the format of its words"
            )
        return cls(key, properties)

    def create_run(self) -> etree._Element:
        """Return an empty run of this format."""
        run = etree.Element(f"{W}r", nsmap={"w": W[1:-1]})
        if self.properties is not None:
            run.append(deepcopy(self.properties))
        return run


@dataclass(frozen=True, slots=True)
class TextRun:
    """Words of one format."""

    text: str
    format: RunFormat

    def append_to(self, parent: etree._Element) -> None:
        """Put them at the end of a parent, in a run of their own."""
        run = self.format.create_run()
        text = etree.SubElement(run, f"{W}t", {_SPACE: "preserve"})
        inline_xml.append_text(text, self.text.replace("\n", " ").replace("\t", " "))
        parent.append(run)


@dataclass(frozen=True, slots=True)
class RunElement:
    """A part of a run that is no words, or an element between runs."""

    element: etree._Element
    format: RunFormat | None = None
    """None: it stands between runs."""

    def append_to(self, parent: etree._Element) -> None:
        """Put it at the end of a parent, in a run of its own if it needs one."""
        if self.format is not None:
            run = self.format.create_run()
            run.append(self.element)
            parent.append(run)
        else:
            parent.append(self.element)
        self.element.tail = None


@dataclass(frozen=True, slots=True)
class RunContainer:
    """An element around runs."""

    element: etree._Element

    @property
    def content_element(self) -> etree._Element:
        """Where the runs are: in itself, or in the content of a control."""
        content = self.element.find(f"{W}sdtContent")
        return self.element if content is None else content


@dataclass(frozen=True, slots=True)
class UnitBreak:
    """What ends a passage: a tab, a line break, a field that goes on elsewhere."""

    run_element: RunElement


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


_Item = TextRun | UnitBreak | OpenTag | CloseTag | StandaloneTag


class DocxParagraph:
    """A paragraph, and the passages between its tabs and line breaks."""

    def __init__(self, element: etree._Element, location: str) -> None:
        self._element = element
        items = list(_items(element, is_outer=True))
        self._rows: list[tuple[list[MarkupNode], RunFormat]] = []
        self._breaks: list[UnitBreak] = []
        row: list[_Item] = []
        for item in items:
            if isinstance(item, UnitBreak):
                self._rows.append(_marked(row))
                self._breaks.append(item)
                row = []
            else:
                row.append(item)
        self._rows.append(_marked(row))
        self.units = [
            TextUnit.from_nodes(events, location)
            for events, _ in self._rows
            if _has_letters(events)
        ]
        """What there is to translate."""

    def rebuild(self, translated: Sequence[Sequence[MarkupNode]]) -> None:
        """Put the translated events of each passage in its place."""
        if not self.units:
            return
        for child in list(self._element):
            if child.tag not in _PROPERTIES:
                self._element.remove(child)
        found = iter(translated)
        for number, (events, ground) in enumerate(self._rows):
            _write(self._element, next(found) if _has_letters(events) else events, ground)
            if number < len(self._breaks):
                self._breaks[number].run_element.append_to(self._element)


def _has_letters(events: Iterable[MarkupNode]) -> bool:
    return any(isinstance(event, str) and has_letter(event) for event in events)


def _items(parent: etree._Element, *, is_outer: bool) -> Iterator[_Item]:
    """Yield what is in a paragraph, or in an element around runs."""
    row = [part for child in parent for part in _parts(child)]
    ends = _ends_of_fields(row)
    place = 0
    while place < len(row):
        part = row[place]
        end = place + 1
        if isinstance(part, TextRun):
            yield part
        elif part.element.tag in _FIELD:
            end = ends.get(place, end)
            yield from _field(row[place:end], is_outer=is_outer)
        else:
            yield from _item(part, is_outer=is_outer)
        place = end


def _parts(child: etree._Element) -> Iterator[TextRun | RunElement]:
    """Yield the parts of a run, or the element itself."""
    if child.tag in _PROPERTIES | _OUTDATED:
        return
    if child.tag != f"{W}r":
        yield RunElement(child)
        return
    look = RunFormat.from_run(child)
    for part in child:
        if part.tag == f"{W}t":
            yield TextRun(part.text or "", look)
        elif part.tag == f"{W}noBreakHyphen":
            yield TextRun("\u2011", look)
        elif part.tag not in _PROPERTIES | _OUTDATED:
            yield RunElement(part, look)


def _item(part: RunElement, *, is_outer: bool) -> Iterator[_Item]:
    tag, number = part.element.tag, part.element.get(f"{W}id")
    if tag in _AROUND:
        around = RunContainer(part.element)
        yield OpenTag(around, around)
        yield from _items(around.content_element, is_outer=False)
        yield CloseTag(around, around)
    elif tag in _BREAKS and is_outer:
        yield UnitBreak(part)
    elif tag in _STARTS:
        yield OpenTag((tag.removesuffix("Start"), number), [part])
    elif tag in _ENDS:
        yield CloseTag((tag.removesuffix("End"), number), [part])
    else:
        yield StandaloneTag([part])


def _ends_of_fields(row: Sequence[TextRun | RunElement]) -> dict[int, int]:
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


def _field_kind(part: TextRun | RunElement) -> str:
    is_mark = isinstance(part, RunElement) and part.element.tag == f"{W}fldChar"
    return part.element.get(f"{W}fldCharType", "") if is_mark else ""  # type: ignore[union-attr]


def _field(row: Sequence[TextRun | RunElement], *, is_outer: bool) -> Iterator[_Item]:
    """Yield a field: a link's words are translated, the results of others are not."""
    if len(row) == 1:
        (part,) = row
        assert isinstance(part, RunElement)
        yield UnitBreak(part) if is_outer else StandaloneTag([part])
        return
    kinds = [_field_kind(part) for part in row]
    code = "".join(
        p.element.text or ""
        for p in row
        if isinstance(p, RunElement) and p.element.tag == f"{W}instrText"
    )
    is_simple = kinds.count("begin") == kinds.count("separate") == 1
    if not code.strip().upper().startswith("HYPERLINK") or not is_simple:
        yield StandaloneTag(list(row))
        return
    middle = kinds.index("separate") + 1
    key = object()
    yield OpenTag(key, list(row[:middle]))
    for part in row[middle:-1]:
        if isinstance(part, TextRun):
            yield part
        else:
            yield StandaloneTag([part])
    yield CloseTag(key, [row[-1]])


def _marked(row: Sequence[_Item]) -> tuple[list[MarkupNode], RunFormat]:
    """Return events in which words of another format than the ground have marks around them."""
    sizes = Counter[bytes]()
    looks: dict[bytes, RunFormat] = {}
    for item in row:
        if isinstance(item, TextRun):
            sizes[item.format.key] += len(item.text)
            looks.setdefault(item.format.key, item.format)
    ground = looks[sizes.most_common(1)[0][0]] if sizes else RunFormat(b"", None)
    events: list[MarkupNode] = []
    for words in _joined(row):
        if not isinstance(words, TextRun):
            assert not isinstance(words, UnitBreak)
            events.append(words)
        elif words.format.key == ground.key:
            events.append(words.text)
        else:
            key = object()
            events += [OpenTag(key, words.format), words.text, CloseTag(key, words.format)]
    return events, ground


def _joined(row: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the items; neighbours of the same format are one, since Word cuts runs anywhere."""
    for _, same in groupby(
        row, key=lambda item: item.format.key if isinstance(item, TextRun) else None
    ):
        first, *others = same
        if isinstance(first, TextRun):
            texts = [first.text, *(item.text for item in others if isinstance(item, TextRun))]
            yield TextRun("".join(texts), first.format)
        else:
            yield from (first, *others)


def _write(paragraph: etree._Element, events: Iterable[MarkupNode], ground: RunFormat) -> None:
    """Put events at the end of a paragraph."""
    parents, looks = [paragraph], [ground]
    for event in events:
        if isinstance(event, str):
            TextRun(event, looks[-1]).append_to(parents[-1])
        elif isinstance(event.payload, list):
            for part in event.payload:
                part.append_to(parents[-1])
        elif isinstance(event, OpenTag):
            _enter(event.payload, parents, looks)
        else:
            (parents if isinstance(event.payload, RunContainer) else looks).pop()


def _enter(
    payload: RunContainer | RunFormat, parents: list[etree._Element], looks: list[RunFormat]
) -> None:
    if isinstance(payload, RunFormat):
        looks.append(payload)
        return
    holder = payload.content_element
    for child in list(holder):
        if child.tag not in _PROPERTIES:
            holder.remove(child)
    parents[-1].append(payload.element)
    payload.element.tail = None
    parents.append(holder)


MAX_ARCHIVE_FILES = 10_000


MAX_ARCHIVE_BYTES = 512 * 1024 * 1024
"""Bytes of all files together, unpacked."""


MAX_COMPRESSION_RATIO = 200
"""How many times as large a file of more than a megabyte may become."""


_SMALL = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ZipArchive:
    """The files of an archive, and how they were packed."""

    files: dict[str, bytes]
    _infos: list[zipfile.ZipInfo]

    @classmethod
    def from_bytes(cls, data: bytes, file_name: str, expected_type: str) -> ZipArchive:
        """Unpack an archive into memory; what would grow beyond all measure is refused."""
        try:
            with zipfile.ZipFile(BytesIO(data)) as archive:
                infos = archive.infolist()
                _refuse_bombs(infos, file_name)
                if len({info.filename for info in infos}) < len(infos):
                    raise InputError(f"{file_name} must be {expected_type}, but has a part twice")
                return cls({info.filename: archive.read(info) for info in infos}, infos)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
            raise InputError(f"{file_name} must be {expected_type}, but: {error}") from None
        except RuntimeError:
            raise InputError(
                f"{file_name} must be {expected_type} without a password, but has one"
            ) from None

    def to_bytes(self, changes: Mapping[str, bytes]) -> bytes:
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
    grown = any(
        info.file_size > max(_SMALL, MAX_COMPRESSION_RATIO * info.compress_size) for info in infos
    )
    if len(infos) > MAX_ARCHIVE_FILES or total > MAX_ARCHIVE_BYTES or grown:
        raise InputError(
            f"{name} must have at most {MAX_ARCHIVE_FILES} files and {MAX_ARCHIVE_BYTES >> 20} MB, "
            f"no file packed more than {MAX_COMPRESSION_RATIO} times, but has {len(infos)} files "
            f"and {total >> 20} MB"
        )
