"""Files over HTTP, their checks, and the store of translated files."""

from __future__ import annotations

import errno
import gzip
import io
import shutil
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from lxml import etree
from starlette.testclient import TestClient

from seq2see.errors import InputError
from seq2see.serve.config import LimitsConfig
from seq2see.serve.errors import NotFound
from seq2see.serve.uploaded_file_translation import (
    DownloadStore,
    parse_file,
    sanitize_filename,
)

Serving = Callable[..., TestClient]
Upload = Callable[[TestClient, str, bytes], Any]


def test_file_is_translated_and_downloaded(serving: Serving, upload: Upload) -> None:
    client = serving()
    response = upload(client, "notes.txt", b"hello\n\nworld {name}\n")
    url = response.json()["translatedFileUrl"]
    assert url.startswith("http://localhost/download_file/")
    file = client.get(url)
    assert file.content == b"HELLO\n\nWORLD {name}\n"
    assert file.headers["content-disposition"] == 'attachment; filename="notes_de.txt"'
    assert file.headers["content-type"] == "application/octet-stream"


def test_file_names_cannot_escape_directory_or_header(serving: Serving, upload: Upload) -> None:
    client = serving()
    directory = client.service.downloads.directory  # type: ignore[attr-defined]
    evil = '../../evil"\r\nX-Injected: yes.txt'
    url = upload(client, evil, b"hello").json()["translatedFileUrl"]
    assert {path.parent for path in directory.rglob("*")} == {directory}
    file = client.get(url)
    assert "x-injected" not in file.headers
    assert file.headers["content-disposition"].startswith("attachment; filename")
    assert file.content == b"HELLO"
    (directory.parent / "outside.txt").write_bytes(b"secret")
    for path in ("../outside.txt", "%2e%2e%2foutside.txt", "..%5coutside.txt", "/etc/passwd"):
        response = client.get(f"/download_file/{path}")
        assert response.status_code in {400, 404}
        assert b"secret" not in response.content
    (directory.parent / "outside.txt").unlink()


@pytest.mark.parametrize(
    ("name", "filename"),
    [("../../a<b>.txt", "a_b__de.txt"), ("C:\\x\\a.txt", "a_de.txt"), ("é.txt", "%C3%A9_de.txt")],
)
def test_download_has_a_readable_file_name(
    serving: Serving, upload: Upload, name: str, filename: str
) -> None:
    client = serving()
    file = client.get(upload(client, name, b"hello").json()["translatedFileUrl"])
    parameter = f"filename*=utf-8''{filename}" if "%" in filename else f'filename="{filename}"'
    assert file.headers["content-disposition"] == f"attachment; {parameter}"


def docx_bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", b" " * 3_000_000)
    return buffer.getvalue()


BILLION_LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE tmx [<!ENTITY a "ha">'
    + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + ']><tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>&i;</seg></tuv>'
    "</tu></body></tmx>"
)
EXTERNAL_ENTITY = BILLION_LAUGHS.replace(
    '<!ENTITY a "ha">', '<!ENTITY a SYSTEM "file:///etc/passwd">'
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.txt", b""),
        ("program.exe", b"MZ\0"),
        ("notes.md", b"# hello"),
        ("notes.txt.gz", gzip.compress(b"hello")),
        ("bomb.docx", docx_bomb()),
        ("broken.docx", b"PK\x03\x04 nothing"),
        ("laughs.tmx", BILLION_LAUGHS.encode()),
        ("laughs.xlf", BILLION_LAUGHS.encode("utf-16")),
        ("outside.tmx", EXTERNAL_ENTITY.encode()),
        ("broken.tmx", b"<tmx><body>"),
    ],
)
def test_invalid_files_are_rejected_quickly(
    serving: Serving, upload: Upload, name: str, content: bytes
) -> None:
    start = time.monotonic()
    response = upload(serving(uncompressed_bytes=1_000_000), name, content)
    assert response.status_code == 400, response.text
    assert set(response.json()) == {"error"}
    assert "root:" not in response.text
    assert "seq2see-" not in response.text  # the temporary directory
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(("name", "content"), [("a.md", b"# a"), ("a.docx", docx_bomb())])
def test_files_are_checked_even_without_translation(
    serving: Serving, name: str, content: bytes
) -> None:
    form = {"source": "en", "target": "en"}
    client = serving(uncompressed_bytes=1_000_000)
    response = client.post("/translate_file", data=form, files={"file": (name, content)})
    assert response.status_code == 400, response.text


def docx(text: str) -> bytes:
    """Return a Word document of one paragraph, with other text that is not translated."""
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f"<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>"
    document = f'<w:document xmlns:w="{namespace}">{body}</w:document>'
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("notes.txt", "Ceci est une longue phrase qui ne se traduit pas. " * 20)
        archive.writestr("word/document.xml", document)
    return buffer.getvalue()


ENGLISH = "My neighbours have got a new car, and it is very loud."
HTML_WITH_FRENCH_CODE = """\
<style>/* Ceci est une feuille de style pour toutes les pages de notre site. */</style>
<script>var message = "Bonjour tout le monde, comment allez-vous ?";</script><p>Where are you?</p>
"""
XLIFF = (
    '<xliff version="1.2"><file source-language="en" target-language="de"><body><trans-unit id="1">'
    "<source>Il fait très beau.</source></trans-unit></body></file></xliff>"
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", docx(ENGLISH)),
        ("a.html", HTML_WITH_FRENCH_CODE.encode()),
        ("a.xlf", XLIFF.encode()),  # states its language, which takes precedence
    ],
)
def test_language_of_file_is_detected_from_translatable_text(
    serving: Serving, name: str, content: bytes
) -> None:
    """There is no route from French to German, so English must be detected."""
    client = serving(pairs="fr-it en-de")
    form = {"source": "auto", "target": "de"}
    response = client.post("/translate_file", data=form, files={"file": (name, content)})
    assert response.status_code == 200, response.text


def test_file_is_parsed_once_to_detect_its_language(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[bytes] = []
    parse = etree.fromstring
    monkeypatch.setattr(
        etree, "fromstring", lambda data, parser: parsed.append(data) or parse(data, parser)
    )
    client = serving(pairs="fr-it en-de")
    form = {"source": "auto", "target": "de"}
    for name in ("a.xlf", "a.tmx"):
        content = FILES[f".{name[2:]}"]
        response = client.post("/translate_file", data=form, files={"file": (name, content)})
        assert response.status_code == 200, response.text
    assert parsed == [FILES[".xlf"], FILES[".tmx"]]


def test_language_of_html_is_detected_from_translatable_text(serving: Serving) -> None:
    body = {"q": HTML_WITH_FRENCH_CODE, "source": "auto", "target": "de", "format": "html"}
    response = serving().post("/translate", json=body).json()
    assert response["detectedLanguage"]["language"] == "en"


def test_failed_sentences_of_file_are_counted(serving: Serving, upload: Upload) -> None:
    client = serving()
    partial = upload(client, "a.txt", b"hello\npoison\npoison\n").json()
    assert partial["errors"] == 2
    assert client.get(partial["translatedFileUrl"]).content == b"HELLO\npoison\npoison\n"
    assert set(upload(client, "a.txt", b"hello\n").json()) == {"translatedFileUrl"}
    failed = upload(client, "a.txt", b"poison\npoison\n")
    assert (failed.status_code, set(failed.json())) == (500, {"error"})


FILES = {
    ".txt": b"hello\nworld\n",
    ".html": b"<p>hello <b>world</b></p>",
    ".srt": b"1\n00:00:01,000 --> 00:00:02,000\nhello\n\n",
    ".vtt": b"WEBVTT\n\n00:01.000 --> 00:02.000\nhello\n",
    ".po": b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    b'msgid "a"\nmsgstr ""\n',
    ".tmx": b'<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en">'
    b"<seg>a</seg></tuv></tu></body></tmx>",
    ".xlf": b'<xliff version="1.2"><file source-language="en" target-language="de"><body>'
    b'<trans-unit id="1"><source>a</source></trans-unit></body></file></xliff>',
    ".docx": b"PK\x03\x04",
}


@given(
    st.sampled_from(sorted(FILES)), st.integers(0, 200), st.binary(max_size=12), st.integers(0, 9)
)
def test_damaged_files_never_cause_internal_errors(
    serving: Serving, upload: Upload, suffix: str, index: int, inserted: bytes, num_removed: int
) -> None:
    """A valid file with some bytes changed is either translated or rejected with 400."""
    valid = FILES[suffix]
    index %= len(valid)
    damaged = valid[:index] + inserted + valid[index + num_removed :] or b"x"
    response = upload(serving(), f"a{suffix}", damaged)
    assert response.status_code in {200, 400}, (suffix, response.text)


def test_concurrent_files_are_limited(serving: Serving, upload: Upload) -> None:
    client = serving(fresh=True, concurrent_files=2)
    for model in client.service.models:  # type: ignore[attr-defined]
        model.translator.seconds = 0.5
    with ThreadPoolExecutor(6) as pool:
        responses = list(pool.map(lambda n: upload(client, "a.txt", b"hello %d" % n), range(6)))
    assert sorted({response.status_code for response in responses}) == [200, 429]
    assert upload(client, "a.txt", b"hello").status_code == 200


def test_file_translation_can_be_disabled(serving: Serving, upload: Upload) -> None:
    client = serving(settings={"files": False})
    assert upload(client, "a.txt", b"hello").status_code == 403
    assert client.get("/frontend/settings").json()["supportedFilesFormat"] == []


def test_file_names_are_sanitized() -> None:
    assert sanitize_filename("../../etc/passwd") == "passwd"
    assert sanitize_filename("C:\\x\\report.docx") == "report.docx"
    assert sanitize_filename('a"\r\nSet-Cookie: b.txt') == "a_Set-Cookie_ b.txt"
    assert sanitize_filename("...") == "file"
    assert sanitize_filename("数据.txt") == "数据.txt"


def test_stored_file_is_found_only_by_its_random_name() -> None:
    store = DownloadStore(60, 1000)
    name = store.add(b"text", "report.txt")
    (store.directory / "other.txt").write_bytes(b"secret")
    assert store.find(name).path.read_bytes() == b"text"
    directory = store.directory.name
    for wrong in ("other.txt", f"../{directory}/{name}", f"./{name}", "", "/etc/passwd"):
        with pytest.raises(NotFound):
            store.find(wrong)
    unusual = store.add(b"", "x./../../y")
    assert (store.directory / unusual).parent == store.directory
    assert store.add(b"", "x.t\r\nt").isalnum()  # the name becomes part of a URL
    store.close()
    assert not store.directory.exists()


def test_stored_files_expire_by_time_and_by_size() -> None:
    store = DownloadStore(0.05, 1000)
    name = store.add(b"text", "a.txt")
    time.sleep(0.1)
    with pytest.raises(NotFound):
        store.find(name)
    assert list(store.directory.iterdir()) == []
    small_store = DownloadStore(60, 10)
    first, second = small_store.add(b"x" * 8, "a.txt"), small_store.add(b"y" * 8, "b.txt")
    with pytest.raises(NotFound):
        small_store.find(first)
    assert small_store.find(second)
    store.close()
    small_store.close()


def test_full_disk_leaves_no_file_and_is_reported(
    serving: Serving, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, write = serving(fresh=True), Path.write_bytes

    def write_part(path: Path, content: bytes) -> int:
        write(path, content[:1])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_part)
    response = upload(client, "a.txt", b"hello")
    assert (response.status_code, response.headers["x-error-code"]) == (503, "storage_error")
    assert list(client.service.downloads.directory.iterdir()) == []  # type: ignore[attr-defined]


WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def build_docx(num_runs: int) -> bytes:
    buffer = io.BytesIO()
    runs = "<w:r><w:t>w</w:t></w:r>" * num_runs
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        xml = f'<w:document xmlns:w="{WORD}"><w:body><w:p>{runs}</w:p></w:body></w:document>'
        archive.writestr("word/document.xml", xml)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "num_elements"),
    [
        ("a.txt", b"\n" * 101, 101),
        ("a.txt", b"\r" * 101, 101),
        ("a.html", b"<b>a</b>" * 51, 102),
        ("a.docx", build_docx(30), 126),
    ],
)
def test_number_of_lines_and_tags_of_a_file_is_limited(
    serving: Serving, upload: Upload, name: str, content: bytes, num_elements: int
) -> None:
    response = upload(serving(file_elements=100), name, content)
    assert response.status_code == 400
    assert f"but has {num_elements}: split the document" in response.json()["error"]
    assert upload(serving(), name, content).status_code == 200


def test_characters_of_a_paragraph_are_limited(serving: Serving, upload: Upload) -> None:
    client = serving(paragraph_characters=100)
    response = upload(client, "a.txt", b"a\n" + b"b" * 101)
    assert (response.status_code, response.json()["limit"]) == (400, 100)
    assert response.json()["error"].startswith("Invalid request: line 2 has 101 characters")
    assert upload(client, "a.txt", b"a\n" + b"b" * 100).status_code == 200


def test_units_are_translated_in_groups(
    serving: Serving, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seq2see.serve.uploaded_file_translation._GROUP_CHARACTERS", 20)
    client = serving()
    lines = "".join(f"line {number}{' poison' * (number == 7)}.\n" for number in range(20))
    response = upload(client, "a.txt", lines.encode()).json()
    assert response["errors"] == 1
    translated = client.get(response["translatedFileUrl"]).text
    assert translated == lines.upper().replace("LINE 7 POISON", "line 7 poison")


def test_parsing_stops_at_the_deadline(serving: Serving, upload: Upload) -> None:
    client = serving(file_seconds=0.2, file_elements=10**6)
    start = time.monotonic()
    response = upload(client, "a.html", b"<b>a </b>" * 200_000)
    assert response.status_code == 504
    assert time.monotonic() - start < 3


def test_removed_directory_of_results_is_created_again(serving: Serving, upload: Upload) -> None:
    client = serving(fresh=True)
    first = upload(client, "a.txt", b"hello").json()["translatedFileUrl"]
    shutil.rmtree(client.service.downloads.directory)  # type: ignore[attr-defined]
    assert client.get(first).status_code == 404
    second = upload(client, "a.txt", b"hello").json()["translatedFileUrl"]
    assert client.get(second).content == b"HELLO"


def zip_archive(size: int, num_members: int = 1) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(num_members):
            archive.writestr(f"{number}.xml", b"0" * size)
    return buffer.getvalue()


def test_archives_with_too_many_bytes_or_members_are_rejected() -> None:
    limits = LimitsConfig(uncompressed_bytes=1000)
    parse_file(b"no archive", "a.txt", limits)
    for bomb in (zip_archive(1001), zip_archive(501, 2), zip_archive(0, 10_001)):
        with pytest.raises(InputError, match="must have at most 10,000 files and 1,000 unc"):
            parse_file(bomb, "a.docx", limits)
    damaged = b"x" * 100 + zip_archive(10)[-22:]
    with pytest.raises(InputError, match="must be a Word document"):
        parse_file(damaged, "a.docx", limits)
