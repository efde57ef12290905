"""Word documents: the words of paragraphs change, and all other parts of the file stay."""

from __future__ import annotations

import re

from lxml import etree

from seq2see.documents import xml
from seq2see.documents.archive import Archive
from seq2see.documents.docx_paragraphs import Paragraph
from seq2see.documents.docx_runs import W
from seq2see.documents.job import Job
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
    written = {part: xml.serialise(tree, stories[part]) for part, tree in trees.items()}
    return archive.write(written)


def _parsed(content: bytes, name: str) -> etree._ElementTree:
    tree = xml.parse(content, name, "XML")
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
