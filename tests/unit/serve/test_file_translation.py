"""Files over HTTP: there and back, and what is refused."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, strategies as st
from starlette.testclient import TestClient

HELLO = {"q": "hello world", "source": "en", "target": "de"}
Serving = Callable[..., TestClient]
Sender = Callable[[TestClient, str, bytes], Any]


def test_a_file_there_and_back(serving: Serving, sent: Sender) -> None:
    client = serving()
    answer = sent(client, "notes.txt", b"hello\n\nworld {name}\n")
    url = answer.json()["translatedFileUrl"]
    assert url.startswith("http://localhost/download_file/")
    file = client.get(url)
    assert file.content == b"HELLO\n\nWORLD {name}\n"
    assert file.headers["content-disposition"] == "attachment; filename*=utf-8''notes_de.txt"
    assert file.headers["content-type"] == "application/octet-stream"


def test_names_cannot_leave_the_folder_or_the_header(serving: Serving, sent: Sender) -> None:
    client = serving()
    folder = client.service.files.folder  # type: ignore[attr-defined]
    evil = '../../evil"\r\nX-Injected: yes.txt'
    url = sent(client, evil, b"hello").json()["translatedFileUrl"]
    assert {path.parent for path in folder.rglob("*")} == {folder}
    file = client.get(url)
    assert "x-injected" not in file.headers
    assert file.headers["content-disposition"].startswith("attachment; filename*=utf-8''evil")
    assert file.content == b"HELLO"
    (folder.parent / "outside.txt").write_bytes(b"secret")
    for path in ("../outside.txt", "%2e%2e%2foutside.txt", "..%5coutside.txt", "/etc/passwd"):
        answer = client.get(f"/download_file/{path}")
        assert answer.status_code in {400, 404}
        assert b"secret" not in answer.content
    (folder.parent / "outside.txt").unlink()


@pytest.mark.parametrize(
    ("name", "shown"), [("../../a<b>.txt", "a_b__de.txt"), ("C:\\x\\a.txt", "a_de.txt")]
)
def test_a_result_is_called_what_anyone_may_read(
    serving: Serving, sent: Sender, name: str, shown: str
) -> None:
    client = serving()
    file = client.get(sent(client, name, b"hello").json()["translatedFileUrl"])
    assert file.headers["content-disposition"] == f"attachment; filename*=utf-8''{shown}"


def docx_bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", b" " * 3_000_000)
    return buffer.getvalue()


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE tmx [<!ENTITY a "ha">'
    + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + ']><tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>&i;</seg></tuv>'
    "</tu></body></tmx>"
)
OUTSIDE = LAUGHS.replace('<!ENTITY a "ha">', '<!ENTITY a SYSTEM "file:///etc/passwd">')


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.txt", b""),
        ("program.exe", b"MZ"),
        ("noending", b"hello"),
        ("bomb.docx", docx_bomb()),
        ("broken.docx", b"PK\x03\x04 nothing"),
        ("laughs.tmx", LAUGHS.encode()),
        ("laughs.xlf", LAUGHS.encode("utf-16")),
        ("outside.tmx", OUTSIDE.encode()),
        ("broken.tmx", b"<tmx><body>"),
    ],
)
def test_files_that_are_refused(serving: Serving, sent: Sender, name: str, content: bytes) -> None:
    start = time.monotonic()
    answer = sent(serving(unpacked_bytes=1_000_000), name, content)
    assert answer.status_code == 400, answer.text
    assert set(answer.json()) == {"error"}
    assert "root:" not in answer.text
    assert "seq2see-" not in answer.text  # the folder
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(("name", "content"), [("a.exe", b"MZ"), ("a.docx", docx_bomb())])
def test_a_file_in_the_right_language_already_is_refused_too(
    serving: Serving, name: str, content: bytes
) -> None:
    form = {"source": "en", "target": "en"}
    client = serving(unpacked_bytes=1_000_000)
    answer = client.post("/translate_file", data=form, files={"file": (name, content)})
    assert answer.status_code == 400, answer.text


def docx(text: str) -> bytes:
    """Return a Word document of one paragraph, beside a lot that is none."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f"<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("notes.txt", "Ceci est une longue phrase qui ne se traduit pas. " * 20)
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{space}">{body}</w:document>')
    return buffer.getvalue()


ENGLISH = "My neighbours have got a new car, and it is very loud."
STYLED = """<style>/* Ceci est une feuille de style pour toutes les pages de notre site. */</style>
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
        ("a.html", STYLED.encode()),
        ("a.xlf", XLIFF.encode()),  # it says what it is, and must be believed
    ],
)
def test_the_language_of_a_file_is_that_of_its_words(
    serving: Serving, name: str, content: bytes
) -> None:
    """From French there is no way to German here."""
    client = serving(pairs="fr-it en-de")
    form = {"source": "auto", "target": "de"}
    answer = client.post("/translate_file", data=form, files={"file": (name, content)})
    assert answer.status_code == 200, answer.text


def test_the_language_of_a_page_is_that_of_its_words(serving: Serving) -> None:
    body = {"q": STYLED, "source": "auto", "target": "de", "format": "html"}
    answer = serving().post("/translate", json=body).json()
    assert answer["detectedLanguage"]["language"] == "en"


def test_a_file_tells_how_much_of_it_failed(serving: Serving, sent: Sender) -> None:
    client = serving()
    some = sent(client, "a.txt", b"hello\npoison\npoison\n").json()
    assert some["errors"] == 2
    assert client.get(some["translatedFileUrl"]).content == b"HELLO\npoison\npoison\n"
    assert set(sent(client, "a.txt", b"hello\n").json()) == {"translatedFileUrl"}
    all_of_it = sent(client, "a.txt", b"poison\npoison\n")
    assert (all_of_it.status_code, set(all_of_it.json())) == (500, {"error"})


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
def test_no_file_is_a_bug(
    serving: Serving, sent: Sender, suffix: str, at: int, dirt: bytes, cut: int
) -> None:
    """Whole files with some bytes changed end in a translation or in a reason."""
    whole = FILES[suffix]
    at %= len(whole)
    answer = sent(serving(), f"a{suffix}", whole[:at] + dirt + whole[at + cut :] or b"x")
    assert answer.status_code in {200, 400}, (suffix, answer.text)


def test_files_in_work_are_counted(serving: Serving, sent: Sender) -> None:
    client = serving(fresh=True, files=2)
    for model in client.service.models:  # type: ignore[attr-defined]
        model.translator.seconds = 0.5
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda n: sent(client, "a.txt", b"hello %d" % n), range(6)))
    assert sorted({answer.status_code for answer in answers}) == [200, 429]
    assert sent(client, "a.txt", b"hello").status_code == 200


def test_files_can_be_switched_off(serving: Serving, sent: Sender) -> None:
    client = serving(settings={"files": False})
    assert sent(client, "a.txt", b"hello").status_code == 403
    assert client.get("/frontend/settings").json()["supportedFilesFormat"] == []
