"""What the paragraphs of a Word document are made of."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from lxml import etree

from seq2see.documents import xml
from seq2see.errors import InputError

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
        xml.append_text(text, self.text.replace("\n", " ").replace("\t", " "))
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
