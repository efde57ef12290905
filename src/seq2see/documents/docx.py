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
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from itertools import groupby
from typing import Any

from lxml import etree

from seq2see.documents.parsed_document import DocumentLanguages, ParsedDocument, UnitTranslation
from seq2see.documents.xml_inline_markup import append_text, parse_xml, serialize_xml
from seq2see.errors import InputError
from seq2see.markup.text_units import (
    ClosingTag,
    MarkupNode,
    OpeningTag,
    StandaloneTag,
    TextUnit,
)
from seq2see.text.languages import has_letter

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
"""Namespace of the elements, whose usual prefix is `w`."""
MAX_FORMAT_BYTES = 8 * 1024 * 1024
"""Maximum size of the formats of all runs in a translation, in addition to twice the size of the
original XML. A run is divided at its tabs, breaks and tags, and each part has a copy of its format,
which can be 40 times as large in memory as in XML."""

_FILE_TYPE = "a Word document (.docx)"
_DAMAGED_ARCHIVE_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError),
    *(NotImplementedError, ValueError),
)
_MAIN_PART = "word/document.xml"
_TEXT_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
"""Files of the archive that contain paragraphs."""
_COMPRESSION_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The methods that the standard allows. Python decompresses others without a limit."""
_SPACE_ATTRIBUTE = "{http://www.w3.org/XML/1998/namespace}space"


def parse(data: bytes, file_name: str) -> ParsedDocument[bytes]:
    """Parse the paragraphs of a document, also in tables, notes, headers and footers.

    It can be rendered once, because rendering changes the XML.
    """
    files = _read_archive(data, file_name)
    parts = _select_text_parts(files)
    if _MAIN_PART not in parts:
        raise InputError(f"{file_name} must be {_FILE_TYPE}, but has no {_MAIN_PART}")
    trees = {name: _parse_part(part, f"{name} of {file_name}") for name, part in parts.items()}
    paragraphs = [one for name, tree in trees.items() for one in _find_paragraphs(tree, name)]
    units = [unit for paragraph in paragraphs for unit in paragraph.units]

    def render(translations: Sequence[UnitTranslation], _: DocumentLanguages) -> bytes:
        remaining = iter(translations)
        writer = RunWriter(file_name, MAX_FORMAT_BYTES + 2 * sum(map(len, parts.values())))
        for paragraph in paragraphs:
            paragraph.rebuild([next(remaining).nodes for _ in paragraph.units], writer)
        changes = {name: serialize_xml(tree, parts[name]) for name, tree in trees.items()}
        return _write_archive(files, changes)

    return ParsedDocument(units, render)


def find_text_parts(data: bytes, file_name: str) -> Iterable[bytes]:
    """Return the files with paragraphs; raise InputError if the archive is damaged."""
    return _select_text_parts(_read_archive(data, file_name)).values()


def _select_text_parts(files: Mapping[zipfile.ZipInfo, bytes]) -> dict[str, bytes]:
    return {info.filename: files[info] for info in files if _TEXT_PARTS.fullmatch(info.filename)}


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


@dataclass(frozen=True)
class RunFormat:
    """The format of a run. Two formats are equal if their keys are equal."""

    key: bytes
    properties: etree._Element | None = field(compare=False)

    @classmethod
    def from_run(cls, run: etree._Element) -> RunFormat:
        """Return the format of a run. Language and spelling marks are not part of the key."""
        properties = run.find(f"{W}rPr")
        children = () if properties is None else properties
        key = b"".join(
            etree.tostring(child, method="c14n", exclusive=True, with_tail=False)
            for child in children
            if child.tag not in _INVISIBLE_FORMATS
        )
        return cls(key, properties)

    @cached_property
    def num_bytes(self) -> int:
        """Size of the format as XML."""
        if self.properties is None:
            return 0
        return len(etree.tostring(self.properties, method="c14n", exclusive=True))


@dataclass(frozen=True, slots=True)
class RunContent:
    """Text, an element in a run that is not text, or an element between runs."""

    content: Any
    """A string or an XML element."""
    format: RunFormat | None
    """Format of the run, or None for an element between runs."""

    @property
    def tag(self) -> str:
        """Name of the element, or an empty string for text."""
        return "" if isinstance(self.content, str) else str(self.content.tag)


class RunWriter:
    """Writes runs, up to a maximum size of the copies of their formats."""

    def __init__(self, file_name: str, max_format_bytes: int) -> None:
        self._file_name, self._max_format_bytes = file_name, max_format_bytes
        self._num_format_bytes = 0

    def append(self, parent: etree._Element, item: RunContent) -> None:
        """Append content to an element, in a new run if it was in a run."""
        if item.format is not None:
            parent = etree.SubElement(parent, f"{W}r", nsmap={"w": W[1:-1]})
            self._append_format(parent, item.format)
        if isinstance(item.content, str):
            text = etree.SubElement(parent, f"{W}t", {_SPACE_ATTRIBUTE: "preserve"})
            append_text(text, item.content.replace("\n", " ").replace("\t", " "))
        else:
            parent.append(item.content)
            item.content.tail = None

    def _append_format(self, run: etree._Element, run_format: RunFormat) -> None:
        self._num_format_bytes += run_format.num_bytes
        if self._num_format_bytes > self._max_format_bytes:
            raise InputError(
                f"the formats of the translation of {self._file_name} must have at most "
                f"{self._max_format_bytes:,} bytes, but have more: clear the format of its text"
            )
        if run_format.properties is not None:
            run.append(deepcopy(run_format.properties))


def _qualified_names(names: str) -> frozenset[str]:
    return frozenset(W + name for name in names.split())


_CONTAINERS = _qualified_names("hyperlink ins moveTo smartTag customXml bdo dir sdt")
"""Elements that contain runs."""
_PROPERTIES = _qualified_names("pPr rPr sdtPr sdtEndPr smartTagPr customXmlPr")
_INVISIBLE_FORMATS = _qualified_names("lang noProof")
_SOURCE_TEXT_MARKS = _qualified_names("proofErr lastRenderedPageBreak softHyphen")
"""Elements that apply only to the source text and are removed."""
_BREAKS = _qualified_names("tab br cr ptab")
_RANGE_STARTS = _qualified_names("bookmarkStart commentRangeStart permStart moveToRangeStart")
_RANGE_ENDS = _qualified_names("bookmarkEnd commentRangeEnd permEnd moveToRangeEnd")
_FIELD_ELEMENTS = _qualified_names("fldChar instrText delInstrText")

_ParagraphItem = RunContent | OpeningTag | ClosingTag | StandaloneTag
"""Text, a tag, or an element that ends a unit: a tab, a line break, or part of a broken field."""


class DocxParagraph:
    """A paragraph, with the text units between its tabs and line breaks."""

    def __init__(self, element: etree._Element, location: str) -> None:
        self._element = element
        self._parts: list[tuple[list[MarkupNode], RunFormat, RunContent | None]] = []
        """Nodes and base format of each part between two breaks, and the break after it."""
        items: list[_ParagraphItem] = []
        for item in _read_items(element, is_outermost=True):
            if isinstance(item, RunContent) and item.tag:
                self._parts.append((*_tag_formats(items), item))
                items = []
            else:
                items.append(item)
        self._parts.append((*_tag_formats(items), None))
        self.units = [
            TextUnit.from_nodes(nodes, location) for nodes, *_ in self._parts if _has_letters(nodes)
        ]
        """Units to translate."""

    def rebuild(self, translated: Sequence[Sequence[MarkupNode]], writer: RunWriter) -> None:
        """Replace the content of the paragraph by the translated nodes of its units."""
        if not self.units:
            return
        _remove_content(self._element)
        new_nodes = iter(translated)
        for nodes, base_format, end in self._parts:
            content = next(new_nodes) if _has_letters(nodes) else nodes
            _append_nodes(self._element, content, base_format, writer)
            if end:
                writer.append(self._element, end)


def _has_letters(nodes: Iterable[MarkupNode]) -> bool:
    return any(isinstance(node, str) and has_letter(node) for node in nodes)


def _remove_content(element: etree._Element) -> None:
    """Remove all children of an element except its properties."""
    for child in list(element):
        if child.tag not in _PROPERTIES:
            element.remove(child)


def _read_items(parent: etree._Element, *, is_outermost: bool) -> Iterator[_ParagraphItem]:
    """Yield the items of a paragraph or of a container of runs."""
    contents = [content for child in parent for content in _read_run(child)]
    field_ends = _find_field_ends(contents)
    index = 0
    while index < len(contents):
        end = field_ends.get(index, index + 1)
        if end > index + 1:
            yield from _read_field(contents[index:end])
        else:
            yield from _read_content(contents[index], is_outermost=is_outermost)
        index = end


def _read_run(child: etree._Element) -> Iterator[RunContent]:
    """Yield the contents of a run, or the element itself if it is not a run."""
    if child.tag in _PROPERTIES | _SOURCE_TEXT_MARKS:
        return
    if child.tag != f"{W}r":
        yield RunContent(child, None)
        return
    run_format = RunFormat.from_run(child)
    for element in child:
        if element.tag == f"{W}t":
            yield RunContent(element.text or "", run_format)
        elif element.tag == f"{W}noBreakHyphen":
            yield RunContent("\u2011", run_format)
        elif element.tag not in _PROPERTIES | _SOURCE_TEXT_MARKS:
            yield RunContent(element, run_format)


def _read_content(item: RunContent, *, is_outermost: bool) -> Iterator[_ParagraphItem]:
    if isinstance(item.content, str):
        yield item
        return
    tag, identifier = item.tag, item.content.get(f"{W}id")
    if tag in _CONTAINERS:
        yield OpeningTag(item.content, item.content)
        yield from _read_items(_get_content_element(item.content), is_outermost=False)
        yield ClosingTag(item.content, item.content)
    elif tag in _BREAKS | _FIELD_ELEMENTS and is_outermost:
        yield item
    elif tag in _RANGE_STARTS:
        yield OpeningTag((tag.removesuffix("Start"), identifier), [item])
    elif tag in _RANGE_ENDS:
        yield ClosingTag((tag.removesuffix("End"), identifier), [item])
    else:
        yield StandaloneTag([item])


def _get_content_element(container: etree._Element) -> etree._Element:
    """Return the element whose children are the runs; a content control has a separate one."""
    content = container.find(f"{W}sdtContent")
    return container if content is None else content


def _find_field_ends(contents: Sequence[RunContent]) -> dict[int, int]:
    """Return for the start of each field the index after its end, if it ends in this list."""
    ends: dict[int, int] = {}
    open_fields: list[int] = []
    for index, content in enumerate(contents):
        field_type = _get_field_type(content)
        if field_type == "begin":
            open_fields.append(index)
        elif field_type == "end" and open_fields:
            ends[open_fields.pop()] = index + 1
    return ends


def _get_field_type(item: RunContent) -> Any:
    """Return the type of a field character: begin, separate or end; of others an empty string."""
    return item.content.get(f"{W}fldCharType", "") if item.tag == f"{W}fldChar" else ""


def _read_field(contents: Sequence[RunContent]) -> Iterator[_ParagraphItem]:
    """Yield a field. The text of a hyperlink is translated, the results of other fields are not."""
    field_types = [_get_field_type(one) for one in contents]
    code = "".join(one.content.text or "" for one in contents if one.tag == f"{W}instrText")
    is_simple = field_types.count("begin") == field_types.count("separate") == 1
    if not code.strip().upper().startswith("HYPERLINK") or not is_simple:
        yield StandaloneTag(list(contents))
        return
    text_start = field_types.index("separate") + 1
    key = object()
    yield OpeningTag(key, list(contents[:text_start]))
    for one in contents[text_start:-1]:
        yield StandaloneTag([one]) if one.tag else one
    yield ClosingTag(key, [contents[-1]])


def _tag_formats(items: Iterable[_ParagraphItem]) -> tuple[list[MarkupNode], RunFormat]:
    """Return the nodes, with tags around text that is not in the base format, and that format.

    Adjacent runs of the same format are joined, because Word splits runs anywhere.
    """
    num_characters = Counter[RunFormat]()
    for item in items:
        if isinstance(item, RunContent) and item.format:
            num_characters[item.format] += len(item.content)
    most_common = num_characters.most_common(1)
    base_format = most_common[0][0] if most_common else RunFormat(b"", None)
    nodes: list[MarkupNode] = []
    for run_format, group in groupby(items, key=lambda item: getattr(item, "format", None)):
        if run_format is None:
            nodes += [item for item in group if not isinstance(item, RunContent)]
            continue
        text = "".join(item.content for item in group if isinstance(item, RunContent))
        if run_format == base_format:
            nodes.append(text)
        else:
            key = object()
            nodes += [OpeningTag(key, run_format), text, ClosingTag(key, run_format)]
    return nodes, base_format


def _append_nodes(
    paragraph: etree._Element,
    nodes: Iterable[MarkupNode],
    base_format: RunFormat,
    writer: RunWriter,
) -> None:
    """Append nodes to a paragraph as runs and containers."""
    parents, formats = [paragraph], [base_format]
    for node in nodes:
        if isinstance(node, str):
            writer.append(parents[-1], RunContent(node, formats[-1]))
        elif isinstance(node.payload, list):
            for content in node.payload:
                writer.append(parents[-1], content)
        elif isinstance(node, ClosingTag):
            (formats if isinstance(node.payload, RunFormat) else parents).pop()
        elif isinstance(node.payload, RunFormat):
            formats.append(node.payload)
        else:
            content_element = _get_content_element(node.payload)
            _remove_content(content_element)
            writer.append(parents[-1], RunContent(node.payload, None))
            parents.append(content_element)


def _read_archive(data: bytes, file_name: str) -> dict[zipfile.ZipInfo, bytes]:
    """Return the files of an archive; raise InputError if it is damaged.

    A file is never decompressed beyond the size that the archive states.
    """
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            files = {info: _read_file(archive, info) for info in archive.infolist()}
    except _DAMAGED_ARCHIVE_ERRORS as error:
        raise InputError(f"{file_name} must be {_FILE_TYPE}, but: {error}") from None
    except RuntimeError:
        raise InputError(
            f"{file_name} must be {_FILE_TYPE} without a password, but has one"
        ) from None
    if len({info.filename for info in files}) < len(files):
        raise InputError(f"{file_name} must be {_FILE_TYPE}, but has a part twice")
    return files


def _read_file(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type not in _COMPRESSION_METHODS:
        raise NotImplementedError("its compression method must be deflate")
    with archive.open(info) as file:
        return file.read(info.file_size + 1)  # without a number, all of it is decompressed first


def _write_archive(files: Mapping[zipfile.ZipInfo, bytes], changes: Mapping[str, bytes]) -> bytes:
    """Return an archive of the files, with the content of some replaced, in the same order."""
    output = BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        for info, content in files.items():
            new = zipfile.ZipInfo(info.filename, info.date_time)
            new.compress_type = info.compress_type
            new.external_attr = info.external_attr
            archive.writestr(new, changes.get(info.filename, content))
    return output.getvalue()
