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

from seq2see.documents.markup import (
    ClosingTag,
    MarkupNode,
    OpeningTag,
    StandaloneTag,
    TextUnit,
)
from seq2see.documents.parsed_document import DocumentLanguages, ParsedDocument, UnitTranslation
from seq2see.documents.xml_inline_markup import append_text, parse_xml, serialize_xml
from seq2see.errors import InputError
from seq2see.text.languages import has_letter

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
"""Namespace of the elements, whose usual prefix is `w`."""
MAX_FORMAT_BYTES = 20_000
"""Maximum size of the format of a run as XML. Each run gets a copy of its format, so a large format
could exhaust the memory; formats that Word writes have some hundred bytes."""

_FILE_TYPE = "a Word document (.docx)"
_DAMAGED_ARCHIVE_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError),
    *(NotImplementedError, ValueError),
)
_MAIN_PART = "word/document.xml"
_TEXT_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
"""Files of the archive that contain paragraphs."""
_SPACE_ATTRIBUTE = "{http://www.w3.org/XML/1998/namespace}space"


def parse(data: bytes, file_name: str) -> ParsedDocument[bytes]:
    """Parse the paragraphs of a document, also in tables, notes, headers and footers.

    It can be rendered once, because rendering changes the XML.
    """
    archive = ZipArchive.from_bytes(data, file_name)
    if _MAIN_PART not in archive.files:
        raise InputError(f"{file_name} must be {_FILE_TYPE}, but has no {_MAIN_PART}")
    parts = {name: archive.files[name] for name in archive.files if _TEXT_PARTS.fullmatch(name)}
    trees = {name: _parse_part(part, f"{name} of {file_name}") for name, part in parts.items()}
    paragraphs = [one for name, tree in trees.items() for one in _find_paragraphs(tree, name)]
    units = [unit for paragraph in paragraphs for unit in paragraph.units]

    def render(translations: Sequence[UnitTranslation], _: DocumentLanguages) -> bytes:
        remaining = iter(translations)
        for paragraph in paragraphs:
            paragraph.rebuild([next(remaining).nodes for _ in paragraph.units])
        changes = {name: serialize_xml(tree, parts[name]) for name, tree in trees.items()}
        return archive.to_bytes(changes)

    return ParsedDocument(units, render)


def _parse_part(content: bytes, name: str) -> etree._ElementTree:
    tree = parse_xml(content, name, "XML")
    if not str(tree.getroot().tag).startswith(W):
        raise InputError(
            f"{name} must be {_FILE_TYPE}, but is Strict Open XML: save it as .docx without Strict"
        )
    return tree


def _find_paragraphs(tree: etree._ElementTree, part_name: str) -> list[DocxParagraph]:
    short_name = part_name.removeprefix("word/").removesuffix(".xml")
    prefix = "" if part_name == _MAIN_PART else f"{short_name}, "
    return [
        DocxParagraph(element, f"{prefix}paragraph {number}")
        for number, element in enumerate(tree.getroot().iter(f"{W}p"), 1)
    ]


@dataclass(frozen=True, slots=True)
class RunFormat:
    """The format of a run. Two formats are equal if their keys are equal."""

    key: bytes
    properties: etree._Element | None

    @classmethod
    def from_run(cls, run: etree._Element) -> RunFormat:
        """Return the format of a run, without its language and spelling marks."""
        properties = run.find(f"{W}rPr")
        if properties is None:
            return cls(b"", None)
        visible = deepcopy(properties)
        visible.tail = None
        for child in [*visible.iterchildren(f"{W}lang"), *visible.iterchildren(f"{W}noProof")]:
            visible.remove(child)
        key = etree.tostring(visible, method="c14n") if len(visible) else b""
        if len(key) > MAX_FORMAT_BYTES:
            raise InputError(
                f"the format of a run must have at most {MAX_FORMAT_BYTES:,} bytes, "
                f"but has {len(key):,} instead: clear the format of its text"
            )
        return cls(key, properties)

    def create_run(self) -> etree._Element:
        """Return an empty run with this format."""
        run = etree.Element(f"{W}r", nsmap={"w": W[1:-1]})
        if self.properties is not None:
            run.append(deepcopy(self.properties))
        return run


@dataclass(frozen=True, slots=True)
class TextRun:
    """Text with one format."""

    text: str
    format: RunFormat

    def append_to(self, parent: etree._Element) -> None:
        """Append a new run with this text to an element."""
        run = self.format.create_run()
        text = etree.SubElement(run, f"{W}t", {_SPACE_ATTRIBUTE: "preserve"})
        append_text(text, self.text.replace("\n", " ").replace("\t", " "))
        parent.append(run)


@dataclass(frozen=True, slots=True)
class NonTextElement:
    """An element in a run that is not text, or an element between runs."""

    element: etree._Element
    format: RunFormat | None = None
    """Format of the run, or None for an element between runs."""

    def append_to(self, parent: etree._Element) -> None:
        """Append the element to a parent, in a new run if it was in a run."""
        if self.format is not None:
            run = self.format.create_run()
            run.append(self.element)
            parent.append(run)
        else:
            parent.append(self.element)
        self.element.tail = None


@dataclass(frozen=True, slots=True)
class RunContainer:
    """An element that contains runs, such as a hyperlink."""

    element: etree._Element

    @property
    def content_element(self) -> etree._Element:
        """The element whose children are the runs; a content control has a separate one."""
        content = self.element.find(f"{W}sdtContent")
        return self.element if content is None else content


@dataclass(frozen=True, slots=True)
class TextUnitBreak:
    """An element that ends a unit: a tab, a line break, or part of an unfinished field."""

    run_element: NonTextElement


def _qualified_names(names: str) -> frozenset[str]:
    return frozenset(W + name for name in names.split())


_CONTAINERS = _qualified_names("hyperlink ins moveTo smartTag customXml bdo dir sdt")
_PROPERTIES = _qualified_names("pPr rPr sdtPr sdtEndPr smartTagPr customXmlPr")
_SOURCE_TEXT_MARKS = _qualified_names("proofErr lastRenderedPageBreak softHyphen")
"""Elements that apply only to the source text and are removed."""
_BREAKS = _qualified_names("tab br cr ptab")
_RANGE_STARTS = _qualified_names("bookmarkStart commentRangeStart permStart moveToRangeStart")
_RANGE_ENDS = _qualified_names("bookmarkEnd commentRangeEnd permEnd moveToRangeEnd")
_FIELD_ELEMENTS = _qualified_names("fldChar instrText delInstrText")

_ParagraphItem = TextRun | TextUnitBreak | OpeningTag | ClosingTag | StandaloneTag


class DocxParagraph:
    """A paragraph, with the text units between its tabs and line breaks."""

    def __init__(self, element: etree._Element, location: str) -> None:
        self._element = element
        self._parts: list[tuple[list[MarkupNode], RunFormat]] = []
        """Nodes and base format of each part between two breaks."""
        self._breaks: list[TextUnitBreak] = []
        items: list[_ParagraphItem] = []
        for item in _read_items(element, is_outermost=True):
            if isinstance(item, TextUnitBreak):
                self._parts.append(_tag_formats(items))
                self._breaks.append(item)
                items = []
            else:
                items.append(item)
        self._parts.append(_tag_formats(items))
        self.units = [
            TextUnit.from_nodes(nodes, location) for nodes, _ in self._parts if _has_letters(nodes)
        ]
        """Units to translate."""

    def rebuild(self, translated: Sequence[Sequence[MarkupNode]]) -> None:
        """Replace the content of the paragraph by the translated nodes of its units."""
        if not self.units:
            return
        _remove_content(self._element)
        new_nodes = iter(translated)
        for index, (nodes, base_format) in enumerate(self._parts):
            content = next(new_nodes) if _has_letters(nodes) else nodes
            _append_nodes(self._element, content, base_format)
            if index < len(self._breaks):
                self._breaks[index].run_element.append_to(self._element)


def _has_letters(nodes: Iterable[MarkupNode]) -> bool:
    return any(isinstance(node, str) and has_letter(node) for node in nodes)


def _remove_content(element: etree._Element) -> None:
    """Remove all children of an element except its properties."""
    for child in list(element):
        if child.tag not in _PROPERTIES:
            element.remove(child)


def _read_items(parent: etree._Element, *, is_outermost: bool) -> Iterator[_ParagraphItem]:
    """Yield the items of a paragraph or of a container of runs."""
    elements = [element for child in parent for element in _read_run(child)]
    field_ends = _find_field_ends(elements)
    index = 0
    while index < len(elements):
        element = elements[index]
        end = index + 1
        if isinstance(element, TextRun):
            yield element
        elif element.element.tag in _FIELD_ELEMENTS:
            end = field_ends.get(index, end)
            yield from _read_field(elements[index:end], is_outermost=is_outermost)
        else:
            yield from _read_element(element, is_outermost=is_outermost)
        index = end


def _read_run(child: etree._Element) -> Iterator[TextRun | NonTextElement]:
    """Yield the elements of a run, or the element itself if it is not a run."""
    if child.tag in _PROPERTIES | _SOURCE_TEXT_MARKS:
        return
    if child.tag != f"{W}r":
        yield NonTextElement(child)
        return
    run_format = RunFormat.from_run(child)
    for element in child:
        if element.tag == f"{W}t":
            yield TextRun(element.text or "", run_format)
        elif element.tag == f"{W}noBreakHyphen":
            yield TextRun("\u2011", run_format)
        elif element.tag not in _PROPERTIES | _SOURCE_TEXT_MARKS:
            yield NonTextElement(element, run_format)


def _read_element(run_element: NonTextElement, *, is_outermost: bool) -> Iterator[_ParagraphItem]:
    tag, identifier = run_element.element.tag, run_element.element.get(f"{W}id")
    if tag in _CONTAINERS:
        container = RunContainer(run_element.element)
        yield OpeningTag(container, container)
        yield from _read_items(container.content_element, is_outermost=False)
        yield ClosingTag(container, container)
    elif tag in _BREAKS and is_outermost:
        yield TextUnitBreak(run_element)
    elif tag in _RANGE_STARTS:
        yield OpeningTag((tag.removesuffix("Start"), identifier), [run_element])
    elif tag in _RANGE_ENDS:
        yield ClosingTag((tag.removesuffix("End"), identifier), [run_element])
    else:
        yield StandaloneTag([run_element])


def _find_field_ends(elements: Sequence[TextRun | NonTextElement]) -> dict[int, int]:
    """Return for the start of each field the index after its end, if it ends in this list."""
    ends: dict[int, int] = {}
    open_fields: list[int] = []
    for index, element in enumerate(elements):
        field_type = _get_field_type(element)
        if field_type == "begin":
            open_fields.append(index)
        elif field_type == "end" and open_fields:
            ends[open_fields.pop()] = index + 1
    return ends


def _get_field_type(element: TextRun | NonTextElement) -> str:
    """Return the type of a field character: begin, separate or end; of others an empty string."""
    if isinstance(element, TextRun) or element.element.tag != f"{W}fldChar":
        return ""
    return element.element.get(f"{W}fldCharType", "")


def _read_field(
    elements: Sequence[TextRun | NonTextElement], *, is_outermost: bool
) -> Iterator[_ParagraphItem]:
    """Yield a field. The text of a hyperlink is translated, the results of other fields are not."""
    if len(elements) == 1:
        (element,) = elements
        assert isinstance(element, NonTextElement)
        yield TextUnitBreak(element) if is_outermost else StandaloneTag([element])
        return
    field_types = [_get_field_type(element) for element in elements]
    code = "".join(
        one.element.text or ""
        for one in elements
        if isinstance(one, NonTextElement) and one.element.tag == f"{W}instrText"
    )
    is_simple = field_types.count("begin") == field_types.count("separate") == 1
    if not code.strip().upper().startswith("HYPERLINK") or not is_simple:
        yield StandaloneTag(list(elements))
        return
    text_start = field_types.index("separate") + 1
    key = object()
    yield OpeningTag(key, list(elements[:text_start]))
    for element in elements[text_start:-1]:
        if isinstance(element, TextRun):
            yield element
        else:
            yield StandaloneTag([element])
    yield ClosingTag(key, [elements[-1]])


def _tag_formats(items: Sequence[_ParagraphItem]) -> tuple[list[MarkupNode], RunFormat]:
    """Return the nodes, with tags around text that is not in the base format, and that format."""
    num_characters = Counter[bytes]()
    formats: dict[bytes, RunFormat] = {}
    for item in items:
        if isinstance(item, TextRun):
            num_characters[item.format.key] += len(item.text)
            formats.setdefault(item.format.key, item.format)
    most_common = num_characters.most_common(1)
    base_format = formats[most_common[0][0]] if most_common else RunFormat(b"", None)
    nodes: list[MarkupNode] = []
    for item in _join_runs(items):
        if not isinstance(item, TextRun):
            assert not isinstance(item, TextUnitBreak)
            nodes.append(item)
        elif item.format.key == base_format.key:
            nodes.append(item.text)
        else:
            key = object()
            nodes += [OpeningTag(key, item.format), item.text, ClosingTag(key, item.format)]
    return nodes, base_format


def _join_runs(items: Iterable[_ParagraphItem]) -> Iterator[_ParagraphItem]:
    """Join adjacent runs of the same format, because Word splits runs anywhere."""
    for _, group in groupby(
        items, key=lambda item: item.format.key if isinstance(item, TextRun) else None
    ):
        first, *others = group
        if isinstance(first, TextRun):
            texts = [first.text, *(item.text for item in others if isinstance(item, TextRun))]
            yield TextRun("".join(texts), first.format)
        else:
            yield from (first, *others)


def _append_nodes(
    paragraph: etree._Element, nodes: Iterable[MarkupNode], base_format: RunFormat
) -> None:
    """Append nodes to a paragraph as runs and containers."""
    parents, formats = [paragraph], [base_format]
    for node in nodes:
        if isinstance(node, str):
            TextRun(node, formats[-1]).append_to(parents[-1])
        elif isinstance(node.payload, list):
            for element in node.payload:
                element.append_to(parents[-1])
        elif isinstance(node, OpeningTag):
            _open_tag(node.payload, parents, formats)
        else:
            (parents if isinstance(node.payload, RunContainer) else formats).pop()


def _open_tag(
    payload: RunContainer | RunFormat, parents: list[etree._Element], formats: list[RunFormat]
) -> None:
    """Start a format, or append an empty container."""
    if isinstance(payload, RunFormat):
        formats.append(payload)
        return
    content = payload.content_element
    _remove_content(content)
    parents[-1].append(payload.element)
    payload.element.tail = None
    parents.append(content)


@dataclass(frozen=True, slots=True)
class ZipArchive:
    """The files of a ZIP archive in memory."""

    files: dict[str, bytes]
    _infos: list[zipfile.ZipInfo]

    @classmethod
    def from_bytes(cls, data: bytes, file_name: str) -> ZipArchive:
        """Decompress an archive; raise InputError if it is damaged."""
        try:
            with zipfile.ZipFile(BytesIO(data)) as archive:
                infos = archive.infolist()
                files = {info.filename: archive.read(info) for info in infos}
        except _DAMAGED_ARCHIVE_ERRORS as error:
            raise InputError(f"{file_name} must be {_FILE_TYPE}, but: {error}") from None
        except RuntimeError:
            raise InputError(
                f"{file_name} must be {_FILE_TYPE} without a password, but has one"
            ) from None
        if len(files) < len(infos):
            raise InputError(f"{file_name} must be {_FILE_TYPE}, but has a part twice")
        return cls(files, infos)

    def to_bytes(self, changes: Mapping[str, bytes]) -> bytes:
        """Return the archive with the content of some files replaced, in the same order."""
        output = BytesIO()
        with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
            for info in self._infos:
                new = zipfile.ZipInfo(info.filename, info.date_time)
                new.compress_type = info.compress_type
                new.external_attr = info.external_attr
                archive.writestr(new, changes.get(info.filename, self.files[info.filename]))
        return output.getvalue()
