"""Subtitles, PO, TMX, XLIFF and Word files; the output is read by independent libraries."""

from __future__ import annotations

import io
import re
import shutil
import struct
import subprocess
import tracemalloc
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docx
import polib
import pysubs2
import pytest
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from lxml import etree

from seq2see.documents import DocumentReport, parse_document, translate_document
from seq2see.documents.po import get_plural_forms_header
from seq2see.errors import InputError
from seq2see.translator import AlignmentLink, Block, Translation, TranslationOptions

WORD = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")


class UppercaseTranslator:
    """Translates words to upper case, in their order or reversed."""

    languages = ("en", "fr")

    def __init__(self, *, is_reversed: bool = False) -> None:
        self.is_reversed = is_reversed

    max_sentences_per_line = 1

    def translate_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        return [self.translate_line(block.text) for block in blocks]

    def translate_line(self, line: str) -> Translation:
        if "POISON" in line:
            return Translation("", 0.0, 0.0, error="cannot be read")
        spans = [match.span() for match in WORD.finditer(line)]
        if self.is_reversed:
            spans = [*spans[-2::-1], spans[-1]]
        text, links = "", []
        for start, end in spans:
            text += " " if text and line[start] not in ".,:!?" else ""
            links.append(AlignmentLink(start, end, len(text), len(text) + end - start, 1.0))
            text += line[start:end].upper()
        return Translation(text, -1.0, -1.0, alignment=tuple(links))


def translate(
    content: str | bytes, extension: str, directory: Path, translator: Any = None, **settings: Any
) -> tuple[bytes, DocumentReport]:
    source, target = directory / f"in{extension}", directory / f"out{extension}"
    source.write_bytes(content.encode() if isinstance(content, str) else content)
    report = translate_document(translator or UppercaseTranslator(), source, target, **settings)
    return target.read_bytes(), report


SRT = """\
1
00:00:01,000 --> 00:00:02,500
<i>Hello there, my dear old friend,</i>
how are you today?

7
00:00:03,000 --> 00:00:04,000 X1:10
- Fine.
- And <b>you</b>?

8
00:01:05,000 --> 00:01:06,000
{\\an8}Two words

and more
9
00:01:07,000 --> 00:01:08,000

"""


def test_srt_cues_are_translate(tmp_path: Path) -> None:
    for content in (SRT, SRT.replace("\n", "\r\n"), "\ufeff" + SRT, SRT.rstrip("\n")):
        written, report = translate(content, ".srt", tmp_path)
        text = written.decode()
        assert text.lower() == content.lower()
        for words in ("<i>HELLO THERE, MY DEAR OLD FRIEND,</i>", "- AND <b>YOU</b>?", "\\an8}TWO"):
            assert words in text
        assert report.num_units == 5
        after = pysubs2.SSAFile.from_string(text.removeprefix("\ufeff"))
        before = pysubs2.SSAFile.from_string(content.removeprefix("\ufeff"))
        assert [(e.start, e.end) for e in after] == [(e.start, e.end) for e in before]


def test_long_cue_is_broken_into_even_lines(tmp_path: Path) -> None:
    words = "aa " * 20
    cue = "1\n00:00:01,000 --> 00:00:02,500\n{}\n"
    translator = UppercaseTranslator()
    translator.translate_line = lambda line: Translation(words.strip(), -1.0, -1.0)  # type: ignore[method-assign]
    one_line, _ = translate(cue.format("One <i>two</i> three"), ".srt", tmp_path, translator)
    lines = one_line.decode().splitlines()[2:]
    assert len(lines) == 2
    assert abs(len(lines[0]) - len(lines[1])) < 10
    assert re.sub("<.*?>", "", " ".join(lines)) == words.strip()


def test_vtt_cues_are_translated_and_notes_copied(tmp_path: Path) -> None:
    content = (
        "WEBVTT - title words\n\nNOTE a note\n00:01 not a cue\n\nSTYLE\n::cue { color: red }\n\n"
        "intro\n00:01.000 --> 00:02.000 align:start\n<v Mary>Hello &amp; <c.red.big>bye</c>\n\n"
        "NOTE the end\n"
    )
    written, _ = translate(content, ".vtt", tmp_path)
    new = "<v Mary>HELLO &amp; <c.red.big>BYE</c>"
    assert written.decode() == content.replace("<v Mary>Hello &amp; <c.red.big>bye</c>", new)


PO = r"""# Translators of the world
#, fuzzy
msgid ""
msgstr ""
"Project-Id-Version: x\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\n"

#. extracted
#: src/a.c:10
#, c-format
msgid "Open %s now\n"
msgstr ""

#: src/a.c:11
msgctxt "menu"
msgid "one dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""

#, fuzzy
#| msgid "Closed"
msgid "Close"
msgstr "Fermer"

#| msgid "Old"
msgid ""
"A <b>bold</b> word in a line that is so long that it has to be broken into two "
"lines.\n"
"\tAnd \"more\" \\ of it."
msgstr ""

msgid "Done"
msgstr "Fini"

#~ msgid "gone"
#~ msgstr "parti"
"""


def test_po_messages_are_translated_and_marked_fuzzy(tmp_path: Path) -> None:
    written, report = translate(PO, ".po", tmp_path)
    file = polib.pofile(written.decode(), wrapwidth=78)
    before = polib.pofile(PO)
    assert file.metadata["Language"] == "fr"
    assert file.metadata["Plural-Forms"] == "nplurals=2; plural=(n > 1);"
    assert [entry.msgid for entry in file] == [entry.msgid for entry in before]
    by_id = {entry.msgid: entry for entry in file}
    assert by_id["Open %s now\n"].msgstr == "OPEN %s NOW\n"
    assert by_id["Open %s now\n"].flags == ["fuzzy", "c-format"]
    assert by_id["one dog"].msgstr_plural == {0: "ONE DOG", 1: "%d DOGS"}
    assert (by_id["Close"].msgstr, by_id["Done"].msgstr) == ("Fermer", "Fini")
    assert by_id["Done"].flags == []
    assert by_id["gone"].obsolete
    long = next(entry for entry in file if entry.msgid.startswith("A <b>"))
    assert long.msgstr.startswith("A <b>BOLD</b> WORD IN")
    assert long.msgstr.endswith('LINES.\n\tAND " MORE " \\ OF IT.')
    assert (report.num_units, report.num_already_translated) == (5, 2)
    untouched = [
        line for line in PO.splitlines() if line.startswith(("#:", "#.", "#~", "#|", "# "))
    ]
    assert all(line in written.decode().splitlines() for line in untouched)


def test_msgfmt_accepts_translated_po_file(tmp_path: Path) -> None:
    if not (msgfmt := shutil.which("msgfmt")):
        pytest.skip("gettext is not installed")
    translate(PO, ".po", tmp_path)
    command = [msgfmt, "--check-format", "--check-domain", "-f", "-o", "-", tmp_path / "out.po"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_po_file_has_plural_forms_of_target_language(tmp_path: Path) -> None:
    for language, count in (("ja", 1), ("pl", 3), ("ar", 6), ("pt_BR", 2), ("xx", 2)):
        translator = UppercaseTranslator()
        translator.languages = ("en", language)
        file = polib.pofile(translate(PO, ".po", tmp_path, translator)[0].decode())
        forms = next(entry for entry in file if entry.msgid == "one dog").msgstr_plural
        assert len(forms) == count
        assert forms[count - 1] == "%d DOGS"
        assert file.metadata["Plural-Forms"] == get_plural_forms_header(language)


def test_po_overwrite_and_failed_messages(tmp_path: Path) -> None:
    written, _ = translate(PO, ".po", tmp_path, overwrite=True)
    assert 'msgstr "CLOSE"' in written.decode()
    written, report = translate('msgid "a POISON"\nmsgstr ""\n', ".po", tmp_path)
    assert written == b'msgid "a POISON"\nmsgstr ""\n'
    assert report.errors[0].location == "line 1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_File", "_FILE"),
        ("Save _As…", "SAVE _AS …"),
        ("E_xit", "_EXIT"),
        ("Sa&ve it", "_SAVE IT".replace("_", "&")),
        ("my_name", "MY_NAME"),
        ("AT&T", "AT & T"),
        ("_one _two", "_ONE _TWO"),
        ("<b>_File</b>", "<b>_FILE</b>"),
        ("a &amp; b", "A &amp; B"),
    ],
)
def test_po_accelerators_are_preserved(text: str, expected: str, tmp_path: Path) -> None:
    written, _ = translate(f'msgid "{text}"\nmsgstr ""\n', ".po", tmp_path)
    assert polib.pofile(written.decode())[0].msgstr == expected


def test_po_content_is_not_opened_as_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 1"):
        translate("/etc/passwd", ".po", tmp_path)


TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header srclang="en-US" adminlang="en"/>
  <body>
    <!-- a note -->
    <tu tuid="1">
      <tuv xml:lang="en-US"><seg>The <bpt i="1">&lt;b></bpt>big dog<ept i="1">&lt;/b></ept> \
<hi>runs</hi> &amp; jumps<ph/>.</seg></tuv>
    </tu>
    <tu>
      <tuv xml:lang="en"><seg>One</seg></tuv>
      <tuv xml:lang="fr-CA"><seg>Un</seg></tuv>
    </tu>
    <tu><tuv xml:lang="de"><seg>Nein</seg></tuv></tu>
  </body>
</tmx>
"""


def test_tmx_units_get_target_variant(tmp_path: Path) -> None:
    written, report = translate(TMX, ".tmx", tmp_path, UppercaseTranslator(is_reversed=True))
    expected = (
        '\n      <tuv xml:lang="fr" creationid="seq2see"><seg>JUMPS<ph/> &amp; <hi>RUNS</hi> '
        '<bpt i="1">&lt;b&gt;</bpt>DOG BIG<ept i="1">&lt;/b&gt;</ept> THE.</seg></tuv>'
    )
    text = written.decode()
    assert expected in text
    assert text.replace(expected, "").replace("&gt;", ">") == TMX
    assert (report.num_units, report.num_already_translated) == (1, 1)
    overwritten, _ = translate(written, ".tmx", tmp_path, overwrite=True)
    assert "<seg>ONE</seg>" in overwritten.decode()
    assert overwritten.decode().count("<tuv") == text.count("<tuv")


def test_overwritten_tmx_variant_is_marked_as_machine_translation(tmp_path: Path) -> None:
    content = TMX.replace('"fr-CA"', '"fr-CA" creationid="ann" changeid="bob" creationdate="x"')
    written, _ = translate(content, ".tmx", tmp_path, overwrite=True)
    assert '<tuv xml:lang="fr-CA" creationid="seq2see"><seg>ONE</seg>' in written.decode()


def test_tmx_in_utf16_and_without_source_language(tmp_path: Path) -> None:
    utf16 = TMX.replace("UTF-8", "UTF-16").encode("utf-16")
    written, _ = translate(utf16, ".tmx", tmp_path)
    assert "BIG DOG" in written.decode("utf-16")
    with pytest.raises(InputError, match="must have units in en"):
        translate(TMX.replace('"en', '"da'), ".tmx", tmp_path)


XLIFF_1 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file source-language="en" original="a" datatype="html"><body>
  <trans-unit id="1">
   <source>The <g id="1">big <x id="2"/>dog</g> sees \
<mrk mtype="protected">Foo Bar</mrk> <bx id="3" rid="r"/>now<ex id="4" rid="r"/>.</source>
  </trans-unit>
  <trans-unit id="2"><source>One. Two.</source><seg-source><mrk mtype="seg" mid="1">One.</mrk> \
<mrk mtype="seg" mid="2">Two.</mrk></seg-source></trans-unit>
  <group translate="no"><trans-unit id="3"><source>One</source></trans-unit></group>
  <trans-unit id="4"><source>One</source><target>Un</target></trans-unit>
  <trans-unit id="5"><source>One</source><target/></trans-unit>
  <trans-unit id="6"><source>a POISON</source></trans-unit>
 </body></file>
</xliff>
"""


def test_xliff_1_units_get_target(tmp_path: Path) -> None:
    written, report = translate(XLIFF_1, ".xlf", tmp_path)
    root = etree.fromstring(written)
    units = {unit.get("id"): unit for unit in root.iter("{*}trans-unit")}
    targets = {key: unit.find("{*}target") for key, unit in units.items()}
    first = etree.tostring(targets["1"], encoding="unicode").split(">", 1)[1]
    assert first.startswith(
        'THE <g id="1">BIG <x id="2"/>DOG</g> SEES <mrk mtype="protected">Foo Bar</mrk> '
        '<bx id="3" rid="r"/>NOW<ex id="4" rid="r"/>.</target>'
    )
    assert targets["1"].get("state-qualifier") == "leveraged-mt"
    assert [mrk.text for mrk in targets["2"]] == ["ONE.", "TWO."]
    assert targets["3"] is None
    assert (targets["4"].text, targets["5"].text) == ("Un", "ONE")
    assert targets["6"] is None
    assert root.find("{*}file").get("target-language") == "fr"
    assert (report.num_already_translated, len(report.errors)) == (1, 1)


def test_xliff_2_segments_get_target(tmp_path: Path) -> None:
    content = (
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">'
        '<file id="f"><unit id="u"><segment><source>The <pc id="1">big dog</pc> likes '
        '<mrk id="m" translate="no">Foo</mrk> and <sc id="2"/>cats<ec startRef="2"/>.</source>'
        '</segment></unit><unit id="v" translate="no"><segment><source>One</source></segment>'
        "</unit></file></xliff>"
    )
    written, _ = translate(content, ".xliff", tmp_path)
    target = (
        '<target>THE <pc id="1">BIG DOG</pc> LIKES <mrk id="m" translate="no">Foo</mrk> AND '
        '<sc id="2"/>CATS<ec startRef="2"/>.</target>'
    )
    assert target in written.decode()
    assert written.decode().count("<target") == 1
    assert etree.fromstring(written).get("trgLang") == "fr"


@pytest.mark.parametrize(
    "change", ['source-language="de"', 'source-language="en" target-language="de"']
)
def test_xliff_in_another_language_is_rejected(change: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="but is de instead"):
        translate(XLIFF_1.replace('source-language="en"', change), ".xlf", tmp_path)


@pytest.mark.parametrize("name", [".tmx", ".xlf"])
@pytest.mark.parametrize(
    "content",
    [
        '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><tmx><seg>&b;</seg></tmx>',
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><xliff version="1.2">&a;</xliff>',
        '<!DOCTYPE x [<!ENTITY % a SYSTEM "http://a.invalid/x"> %a;]><xliff version="1.2"/>',
        "<a>" * 500 + "</a>" * 500,
    ],
)
def test_malicious_xml_is_rejected(name: str, content: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        translate(content, name, tmp_path)
    assert not (tmp_path / f"out{name}").exists()


def test_entities_of_external_dtd_are_not_loaded(tmp_path: Path) -> None:
    """The file itself declares no entities, so it is accepted."""
    declarations = tmp_path / "a.dtd"
    declarations.write_text('<!ENTITY a "stolen">')
    content = TMX.replace("tmx14.dtd", declarations.as_uri()).replace(">One<", ">One &a;<")
    written, _ = translate(content, ".tmx", tmp_path)
    assert b"stolen" not in written.lower()


def build_docx() -> bytes:
    document = docx.Document()
    document.add_heading("A big title", 1)
    paragraph = document.add_paragraph("The ")
    paragraph.add_run("big ").bold = True
    paragraph.add_run("dog").bold = True
    paragraph.add_run(" sees ")
    paragraph.add_run("the red house").italic = True
    paragraph.add_run(". It is glad.")
    document.add_paragraph("Name:\tone value")
    linked = document.add_paragraph("See ")
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"
    link, run, text = (OxmlElement(f"w:{tag}") for tag in ("hyperlink", "r", "t"))
    link.set(qn("r:id"), document.part.relate_to("http://x.org/", kind, is_external=True))
    text.text = "our site"
    run.append(text)
    link.append(run)
    linked._p.append(link)
    linked.add_run(" for more.")
    table = document.add_table(rows=1, cols=2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Red cat", "42"
    document.sections[0].header.paragraphs[0].text = "A header"
    document.sections[0].footer.paragraphs[0].text = "A footer"
    document.add_paragraph("Hello {name}, bye")
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def test_docx_text_formats_and_links_are_translate(tmp_path: Path) -> None:
    source = build_docx()
    written, report = translate(source, ".docx", tmp_path, UppercaseTranslator(is_reversed=True))
    document = docx.Document(io.BytesIO(written))
    title, body, tabbed, linked, named = document.paragraphs
    assert (title.style.name, title.text) == ("Heading 1", "BIG A TITLE")
    runs = [(run.text, run.bold, run.italic) for run in body.runs]
    assert runs == [
        ("HOUSE RED THE", None, True),
        (" SEES ", None, None),
        ("DOG BIG", True, None),
        (" THE. GLAD IS IT.", None, None),
    ]
    assert tabbed.text == "NAME:\tONE VALUE"
    assert [(link.text, link.address) for link in linked.hyperlinks] == [
        ("SITE OUR", "http://x.org/")
    ]
    assert linked.text == "MORE FOR SITE OUR SEE."
    assert named.text.count("{name}") == 1
    assert [cell.text for cell in document.tables[0].rows[0].cells] == ["RED CAT", "42"]
    section = document.sections[0]
    assert (section.header.paragraphs[0].text, section.footer.paragraphs[0].text) == (
        "A HEADER",
        "A FOOTER",
    )
    assert report.num_units == 9
    with zipfile.ZipFile(io.BytesIO(source)) as old, zipfile.ZipFile(io.BytesIO(written)) as new:
        assert old.namelist() == new.namelist()
        others = [name for name in old.namelist() if "document" not in name and "er1" not in name]
        assert all(old.read(name) == new.read(name) for name in others)
        assert old.read("word/styles.xml") == new.read("word/styles.xml")


W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def build_docx_with_body(body: str, namespace: str = W) -> bytes:
    """Return a document with this body and a part that is not XML."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/other.bin", b"\x00\x01")
        content = f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>'
        archive.writestr("word/document.xml", content)
    return file.getvalue()


def read_body(written: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        text = archive.read("word/document.xml").decode()
    return re.sub(r' xml:space="preserve"', "", text.split("<w:body>")[1].split("</w:body>")[0])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (  # a note follows its word; marks of the spelling checker are removed
            "<w:p><w:r><w:t>A dog</w:t></w:r><w:proofErr/>"
            "<w:r><w:footnoteReference w:id='2'/></w:r><w:r><w:t> runs</w:t></w:r></w:p>",
            '<w:p><w:r><w:t>A DOG</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r>'
            "<w:r><w:t> RUNS</w:t></w:r></w:p>",
        ),
        (  # a page number is a field and is copied
            "<w:p><w:r><w:t>Page </w:t></w:r><w:r><w:fldChar w:fldCharType='begin'/></w:r>"
            "<w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:fldChar w:fldCharType='separate'/>"
            "</w:r><w:r><w:t>seven</w:t></w:r><w:r><w:fldChar w:fldCharType='end'/></w:r></w:p>",
            "<w:p><w:r><w:t>PAGE </w:t></w:r>"
            '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
            '<w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/>'
            '</w:r><w:r><w:t>seven</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>',
        ),
        (  # deleted text is copied; bookmarks stay around their text
            "<w:p><w:bookmarkStart w:id='1' w:name='b'/><w:r><w:t>one</w:t></w:r>"
            "<w:commentRangeEnd w:id='1'/><w:bookmarkEnd w:id='1'/>"
            "<w:del><w:r><w:delText>two</w:delText></w:r></w:del></w:p>",
            '<w:p><w:bookmarkStart w:id="1" w:name="b"/><w:r><w:t>ONE</w:t></w:r>'
            '<w:commentRangeEnd w:id="1"/><w:bookmarkEnd w:id="1"/>'
            "<w:del><w:r><w:delText>two</w:delText></w:r></w:del></w:p>",
        ),
        (  # a content control keeps its properties
            "<w:p><w:sdt><w:sdtPr><w:text/></w:sdtPr><w:sdtContent><w:r><w:t>one</w:t></w:r>"
            "</w:sdtContent></w:sdt></w:p>",
            "<w:p><w:sdt><w:sdtPr><w:text/></w:sdtPr><w:sdtContent><w:r><w:t>ONE</w:t></w:r>"
            "</w:sdtContent></w:sdt></w:p>",
        ),
        (
            "<w:p><w:r><w:t>12</w:t><w:tab/></w:r></w:p>",
            "<w:p><w:r><w:t>12</w:t><w:tab/></w:r></w:p>",
        ),
    ],
)
def test_docx_paragraph_elements_are_preserved(body: str, expected: str, tmp_path: Path) -> None:
    written, _ = translate(build_docx_with_body(body), ".docx", tmp_path)
    assert read_body(written) == expected


def test_docx_text_boxes_are_translate(tmp_path: Path) -> None:
    body = (
        "<w:p><w:r><w:t>one </w:t><w:pict><w:txbxContent><w:p><w:r><w:t>two</w:t></w:r></w:p>"
        "</w:txbxContent></w:pict></w:r><w:r><w:t>three</w:t></w:r></w:p>"
    )
    written, _ = translate(build_docx_with_body(body), ".docx", tmp_path)
    assert re.findall(r"<w:t>(.*?)</w:t>", read_body(written)) == ["ONE ", "TWO", "THREE"]


def test_zip_bombs_are_rejected_before_decompression(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"0" * 50_000_000)
    with pytest.raises(InputError, match="compressed more than 200 times"):
        translate(file.getvalue(), ".docx", tmp_path)
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(10_001):
            archive.writestr(str(number), b"")
    with pytest.raises(InputError, match="10,001 files"):
        translate(many.getvalue(), ".docx", tmp_path)


def build_bomb(method: int, stated_size: int) -> bytes:
    """Return a document of 20 MB of spaces that states another size and the checksum for it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("word/document.xml", b" " * 20_000_000)
    content = bytearray(file.getvalue())
    checksum = zlib.crc32(b" " * stated_size)
    for signature, offset in ((b"PK\x03\x04", 14), (b"PK\x01\x02", 16)):
        start = content.index(signature) + offset
        struct.pack_into("<I", content, start, checksum)
        struct.pack_into("<I", content, start + 8, stated_size)
    return bytes(content)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("stated_size", [0, 1000])
def test_archive_is_not_decompressed_beyond_stated_size(method: int, stated_size: int) -> None:
    content = build_bomb(method, stated_size)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"\A[^\n]*must be [^\n]*\Z"):
            parse_document(content, "a.docx")
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_archive_is_rejected_by_total_size() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:  # not compressed, so no file exceeds the ratio
        for number in range(3):
            archive.writestr(str(number), b"0" * 400_000)
    with pytest.raises(InputError, match="has 3 files and 1,200,000 bytes"):
        parse_document(file.getvalue(), "a.docx", max_uncompressed_bytes=1_000_000)


@pytest.mark.parametrize("offset", [60, 2000, 5000, -30])
def test_damaged_docx_raises_one_line_error(offset: int, tmp_path: Path) -> None:
    content = bytearray(build_docx())
    content[offset : offset + 20] = b"\xff" * 20
    with pytest.raises(InputError, match=r"\A[^\n]*Word document[^\n]*\Z"):
        translate(bytes(content), ".docx", tmp_path)


def test_docx_with_unsupported_compression_is_rejected(tmp_path: Path) -> None:
    content = bytearray(build_docx())
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = content.index(signature) + offset
        content[start : start + 2] = b"\x63\x00"
    with pytest.raises(InputError, match="must be a Word document .*but: .*compression"):
        translate(bytes(content), ".docx", tmp_path)


def test_other_zip_archives_are_rejected(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    with pytest.raises(InputError, match="has no word/document.xml"):
        translate(file.getvalue(), ".docx", tmp_path)
    with pytest.raises(InputError, match="Strict"):
        translate(build_docx_with_body("", "http://purl.oclc.org/ooxml/x"), ".docx", tmp_path)
