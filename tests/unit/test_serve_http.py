"""Both interfaces over HTTP, with a translator that is none: shapes, words, limits, guards."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from starlette.testclient import TestClient

from seq2see.serve.app import PAGE, create_app
from seq2see.serve.config import LimitsConfig, ServeConfig
from seq2see.serve.guards import POLICY
from seq2see.serve.journal import Journal
from seq2see.serve.keys import ApiKeys, add_key
from seq2see.serve.models import Loaded, Model, Models
from seq2see.serve.problems import Busy
from seq2see.serve.service import Service
from seq2see.translator import Link, Token, Translation, TranslationOptions

HELLO = {"q": "hello world", "source": "en", "target": "de"}
JSON = {"content-type": "application/json"}


class Shouter:
    """A translator that shouts."""

    notes = ()
    limit = 100
    engine = SimpleNamespace(name="fake")

    def __init__(self, source: str, target: str) -> None:
        self.languages = (source, target)
        side = SimpleNamespace(encode_batch=lambda lines: [line.split() for line in lines])
        self.bundle = SimpleNamespace(tokenizers=SimpleNamespace(source=side))
        self.seconds = 0.0

    def translate(
        self, lines: str | Sequence[str], options: TranslationOptions | None = None, **settings: Any
    ) -> Translation | list[Translation]:
        time.sleep(self.seconds)
        options = (options or TranslationOptions()).changed(settings)
        if isinstance(lines, str):
            return self._one(lines, options)
        return [self._one(line, options) for line in lines]

    def _one(self, line: str, options: TranslationOptions) -> Translation:
        if "poison" in line:
            raise RuntimeError(line)
        text = (options.prefix + line).upper()
        tokens = (Token(text, -0.5, 0, len(text)),) if options.token_scores else ()
        links = (Link(0, len(line), 0, len(text), 1.0),) if options.alignment else ()
        found = Translation(text, -0.5, -1.0, tokens=tokens, alignment=links)
        others = [replace(found, text=f"{text}{n}") for n in range(1, options.search.n_best)]
        return replace(found, alternatives=tuple(others))


Serving = Callable[..., TestClient]


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """Services by their settings, each made once; `fresh` ones are the test's own."""
    clients: list[TestClient] = []
    known: dict[str, TestClient] = {}

    def find(fresh: bool = False, **settings: Any) -> TestClient:
        if fresh:
            return start(**settings)
        return known.get(str(settings)) or known.setdefault(str(settings), start(**settings))

    def start(
        pairs: str = "en-de fr-en",
        keys: Path | None = None,
        journal: io.StringIO | None = None,
        runs: Path | None = None,
        settings: dict[str, Any] | None = None,
        **limits: Any,
    ) -> TestClient:
        models = [
            Model(pair, Path(pair), *_loaded(*pair.split("-")))  # type: ignore[arg-type]
            for pair in pairs.split()
        ]
        config = ServeConfig(limits=LimitsConfig(**limits), **settings or {})
        service = Service(
            config,
            Models(models, lambda folder: _loaded(*folder.name.split("-"))),  # type: ignore[arg-type, return-value]
            ApiKeys(keys),
            Journal(journal),
            runs,
        )
        client = TestClient(
            create_app(service), base_url="http://localhost", raise_server_exceptions=False
        )
        client.__enter__()
        client.service = service  # type: ignore[attr-defined]
        clients.append(client)
        return client

    yield find
    for client in clients:
        client.__exit__(None, None, None)


def _loaded(source: str, target: str) -> Loaded:
    one = Shouter(source, target)
    return Loaded(one, one)  # type: ignore[arg-type]


# LibreTranslate's interface.


def test_json_form_and_query_say_the_same(serving: Serving) -> None:
    client = serving()
    answers = [
        client.post("/translate", json=HELLO),
        client.post("/translate", data=HELLO),
        client.post("/translate", params=HELLO),
        client.post("/translate", files={name: (None, value) for name, value in HELLO.items()}),
        client.post("/translate", params={"q": "other"}, data=HELLO),
    ]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert [answer.json() for answer in answers] == [{"translatedText": "HELLO WORLD"}] * 5


def test_a_list_gives_lists(serving: Serving) -> None:
    body = {"q": ["Good morning, my friends.", "a  b"], "source": "auto", "target": "de"}
    answer = serving().post("/translate", json={**body, "alternatives": 2}).json()
    assert answer["translatedText"] == ["GOOD MORNING, MY FRIENDS.", "A  B"]
    assert answer["alternatives"][1] == ["A  B1", "A  B2"]
    assert answer["detectedLanguage"][0]["language"] == "en"
    assert 0 <= answer["detectedLanguage"][0]["confidence"] <= 100


def test_only_what_was_asked_for_is_there(serving: Serving) -> None:
    client = serving()
    one = client.post("/translate", json={**HELLO, "alternatives": "1"}).json()
    assert one == {"translatedText": "HELLO WORLD", "alternatives": ["HELLO WORLD1"]}
    auto = client.post("/translate", json={**HELLO, "q": "Where are you?", "source": "auto"})
    assert set(auto.json()) == {"translatedText", "detectedLanguage"}
    chained = client.post("/translate", json={**HELLO, "source": "fr"}).json()
    assert chained == {"translatedText": "HELLO WORLD", "via": ["en"]}
    same = client.post("/translate", json={**HELLO, "target": "EN-gb"}).json()
    assert same == {"translatedText": "hello world"}


def test_html_keeps_its_tags(serving: Serving) -> None:
    page = "<p class='x'>hello <b>world</b> &amp; all</p><script>var hello = 1 < 2;</script>"
    answer = serving().post("/translate", json={**HELLO, "q": page, "format": "html"}).json()
    text = answer["translatedText"]
    assert "<script>var hello = 1 < 2;</script>" in text
    assert "<p class='x'>" in text
    assert "<b>" in text
    assert "HELLO" in text
    assert "&amp;" in text


STYLED = """<style>/* Ceci est une feuille de style pour toutes les pages de notre site. */</style>
<script>var message = "Bonjour tout le monde, comment allez-vous ?";</script><p>Where are you?</p>
"""


def test_the_language_of_a_page_is_that_of_its_words(serving: Serving) -> None:
    body = {"q": STYLED, "source": "auto", "target": "de", "format": "html"}
    answer = serving().post("/translate", json=body).json()
    assert answer["detectedLanguage"]["language"] == "en"


def test_html_has_alternatives_with_tags(serving: Serving) -> None:
    client = serving()
    page = "<p>hello <b>world</b></p><p>&lt;again&gt;</p>"
    body = {**HELLO, "q": page, "format": "html", "alternatives": 2}
    answer = client.post("/translate", json=body).json()
    best, others = answer["translatedText"], answer["alternatives"]
    assert [other.count("<b>") for other in others] == [1, 1]
    assert [other.count("&lt;AGAIN&gt;") for other in (best, *others)] == [1, 1, 1]
    assert len({best, *others}) == 3
    own = {"text": page, "source": "en", "target": "de", "format": "html", "n_best": 2}
    (found,) = client.post("/api/v1/translate", json=own).json()["translations"]
    assert [found["text"], *(o["text"] for o in found["alternatives"])] == [best, others[0]]
    empty = client.post("/translate", json={**body, "q": "<hr>"}).json()
    assert empty == {"translatedText": "<hr>", "alternatives": []}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": 5}, "Invalid request: q must be a text or a list of texts"),
        ({"q": ["a", None]}, "Invalid request: q must be a text or a list of texts"),
        ({"q": "\ud800"}, "Invalid request: q is not valid Unicode"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"target": ["de"]}, "Invalid request: target must be a text"),
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "zz"}, "zz is not supported"),
        ({"source": "de"}, None),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"alternatives": 99}, "Invalid request: alternatives (99) exceeds limit (5)"),
        ({"alternatives": -1}, "Invalid request: alternatives must be a number from 0 to 5"),
        ({"alternatives": "x"}, "Invalid request: alternatives must be a number from 0 to 5"),
        ({"alternatives": 1.5}, "Invalid request: alternatives must be a number from 0 to 5"),
        ({"q": "x" * 101}, "Invalid request: request (101) exceeds text limit (100)"),
        ({"q": ["x"] * 6}, "Invalid request: request (6) exceeds text limit (5)"),
    ],
)
def test_mistakes_are_400_with_their_reason(
    serving: Serving, change: dict[str, Any], error: str | None
) -> None:
    client = serving(characters=100, texts=5)
    body = json.dumps({k: v for k, v in {**HELLO, **change}.items() if v is not None})
    answer = client.post("/translate", content=body, headers=JSON)
    if error is None:
        assert answer.status_code == 200  # from German to German
    else:
        assert (answer.status_code, answer.json()) == (400, {"error": error})


def test_no_way_between_two_languages(serving: Serving) -> None:
    answer = serving("en-de fr-en").post("/translate", json={**HELLO, "target": "fr"})
    assert answer.json() == {
        "error": "French (fr) is not available as a target language from English (en)"
    }


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000, b'{"alternatives": ' + b"9" * 5000 + b"}"],
)
def test_bodies_that_are_no_json(serving: Serving, body: bytes) -> None:
    answer = serving().post("/translate", content=body, headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("Invalid request")


def test_a_form_that_cannot_be_read(serving: Serving) -> None:
    headers = {"content-type": "multipart/form-data; boundary=x"}
    answer = serving().post("/translate", content=b"--y\r\nnonsense", headers=headers)
    assert answer.status_code == 400


def test_detect_languages_settings_health(serving: Serving) -> None:
    client = serving()
    guesses = client.post("/detect", data={"q": "Where is the station, please?"}).json()
    assert guesses[0]["language"] == "en"
    assert guesses[0]["confidence"] > 50
    languages = client.request("GET", "/languages", data={"api_key": "x"}).json()
    assert languages[0] == {"code": "en", "name": "English", "targets": ["en", "de"]}
    assert {one["code"]: one["targets"] for one in languages}["fr"] == ["en", "fr", "de"]
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 10_000
    assert settings["keyRequired"] is False
    assert ".docx" in settings["supportedFilesFormat"]
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ready"}


def test_poison_is_the_request_s_own_error(serving: Serving) -> None:
    client = serving()
    answer = client.post("/translate", json={**HELLO, "q": ["good", "poison"]})
    assert (answer.status_code, set(answer.json())) == (500, {"error"})
    found = client.post(
        "/api/v1/translate", json={"text": ["good", "poison"], "source": "en", "target": "de"}
    )
    first, second = found.json()["translations"]
    assert (first["text"], second["text"]) == ("GOOD", "")
    assert second["error"]
    assert found.status_code == 200


# Files.


def sent(client: TestClient, name: str, content: bytes) -> Any:
    form = {"source": "en", "target": "de"}
    return client.post("/translate_file", data=form, files={"file": (name, content)})


def test_a_file_there_and_back(serving: Serving) -> None:
    client = serving()
    answer = sent(client, "notes.txt", b"hello\n\nworld {name}\n")
    url = answer.json()["translatedFileUrl"]
    assert url.startswith("http://localhost/download_file/")
    file = client.get(url)
    assert file.content == b"HELLO\n\nWORLD {name}\n"
    assert file.headers["content-disposition"] == "attachment; filename*=utf-8''notes.txt"
    assert file.headers["content-type"] == "application/octet-stream"


def test_names_cannot_leave_the_folder_or_the_header(serving: Serving) -> None:
    client = serving()
    folder = client.service.files.folder  # type: ignore[attr-defined]
    evil = '../../evil"\r\nX-Injected: yes.txt'
    url = sent(client, evil, b"hello").json()["translatedFileUrl"]
    assert {path.parent for path in folder.rglob("*")} == {folder}
    file = client.get(url)
    assert "x-injected" not in file.headers
    assert file.content == b"HELLO"
    (folder.parent / "outside.txt").write_bytes(b"secret")
    for path in ("../outside.txt", "%2e%2e%2foutside.txt", "..%5coutside.txt", "/etc/passwd"):
        answer = client.get(f"/download_file/{path}")
        assert answer.status_code in {400, 404}
        assert b"secret" not in answer.content
    (folder.parent / "outside.txt").unlink()


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
def test_files_that_are_refused(serving: Serving, name: str, content: bytes) -> None:
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


def test_a_file_tells_how_much_of_it_failed(serving: Serving) -> None:
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
def test_no_file_is_a_bug(serving: Serving, suffix: str, at: int, dirt: bytes, cut: int) -> None:
    """Whole files with some bytes changed end in a translation or in a reason."""
    whole = FILES[suffix]
    at %= len(whole)
    answer = sent(serving(), f"a{suffix}", whole[:at] + dirt + whole[at + cut :] or b"x")
    assert answer.status_code in {200, 400}, (suffix, answer.text)


def test_files_in_work_are_counted(serving: Serving) -> None:
    client = serving(fresh=True, files=2)
    for model in client.service.models:  # type: ignore[attr-defined]
        model.translator.seconds = 0.5
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda n: sent(client, "a.txt", b"hello %d" % n), range(6)))
    assert sorted({answer.status_code for answer in answers}) == [200, 429]
    assert sent(client, "a.txt", b"hello").status_code == 200


def test_files_can_be_switched_off(serving: Serving) -> None:
    client = serving(settings={"files": False})
    assert sent(client, "a.txt", b"hello").status_code == 403
    assert client.get("/frontend/settings").json()["supportedFilesFormat"] == []


# Our own interface.


def test_all_that_is_known_about_a_translation(serving: Serving) -> None:
    wanted = {"text": "hello", "source": "en", "target": "de", "n_best": 2, "alignment": True}
    answer = serving().post("/api/v1/translate", json={**wanted, "token_scores": True})
    (found,) = answer.json()["translations"]
    assert found["text"] == "HELLO"
    assert found["alternatives"][0]["text"] == "HELLO1"
    assert found["alignment"] == [
        {"source_start": 0, "source_end": 5, "target_start": 0, "target_end": 5, "weight": 1.0}
    ]
    assert found["tokens"][0]["log_prob"] == -0.5
    assert (found["source"], found["target"], found["models"]) == ("en", "de", ["en-de"])
    assert (found["via"], found["detected"], found["error"]) == ([], None, None)


def test_the_answer_says_which_way_it_went(serving: Serving) -> None:
    body = {"text": "bonjour", "source": "fr", "target": "de", "prefix": "ja "}
    (found,) = serving().post("/api/v1/translate", json=body).json()["translations"]
    assert (found["text"], found["via"], found["models"]) == (
        "JA BONJOUR",
        ["en"],
        ["fr-en", "en-de"],
    )


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"target": ""}, "`target` must be given, or `model`"),
        ({"tarket": "de"}, "`tarket` is not a setting; did you mean `target`?"),
        ({"text": 3}, "`text` must be a text, but is 3 instead"),
        ({"beam_size": 21}, "`beam_size` must be at most 20"),
        ({"n_best": 7}, "`n_best` must be at most 6"),
        ({"model": "nobody"}, "nobody is not a model here"),
        ({"glossary": {" ": "x"}}, "`glossary` must be words, but has one without a letter"),
        ({"n_best": 3, "beam_size": 2}, "`n_best` must be at most beam_size = 2"),
        ({"format": "html", "alignment": True}, "`alignment` must be left out"),
        ({"format": "html", "token_scores": True}, "`token_scores` must be left out"),
    ],
)
def test_own_mistakes(serving: Serving, change: dict[str, Any], error: str) -> None:
    body = {"text": "hello", "source": "en", "target": "de", **change}
    answer = serving().post("/api/v1/translate", json=body)
    assert answer.status_code == 400
    assert error in answer.json()["error"]


SHIFT = {"kind": "positions_shift", "stack": "encoder"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"interventions": [{**SHIFT, "by": 10**9}]}, "at most 10000"),
        ({"detail": {"methods": ["occlusion"] * 400}}, "a list of at most 5"),
        ({"detail": {"methods": ["occlusion"] * 2}}, "occlusion is there more than once"),
        ({"detail": {"top": 101}}, "at most 100"),
        ({"n_best": 3, "beam_size": 2}, "`n_best` must be at most beam_size = 2"),
    ],
)
def test_a_trace_has_its_bounds(serving: Serving, change: dict[str, Any], error: str) -> None:
    body = {"text": "hello", "source": "en", "target": "de", **change}
    answer = serving().post("/api/v1/explain", json=body)
    assert (answer.status_code, error in answer.json()["error"]) == (400, True), answer.text


def test_forms_of_other_sites_are_no_requests(serving: Serving) -> None:
    body = json.dumps({"text": "hello", "target": "de"})
    answer = serving().post(
        "/api/v1/translate", content=body, headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 400


def heard(client: TestClient, text: str) -> list[tuple[str, Any]]:
    body = {"text": text, "source": "en", "target": "de"}
    answer = client.post("/api/v1/stream", json=body)
    assert answer.status_code == 200, answer.text
    pairs = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    return [(e.removeprefix("event: "), json.loads(d.removeprefix("data: "))) for e, d in pairs]


def test_a_stream_ends_with_the_whole_text(serving: Serving) -> None:
    *texts, (kind, last) = heard(serving(), "Hello there. Who is it?")
    assert {kind for kind, _ in texts} == {"text"}
    assert (kind, last["translations"][0]["text"]) == ("done", "HELLO THERE. WHO IS IT?")
    assert texts[-1][1] == {"text": "HELLO THERE. WHO IS IT?"}


def test_a_stream_that_breaks_says_so(serving: Serving) -> None:
    assert [kind for kind, _ in heard(serving(), "Hello there. A poison.")][-1] == "error"


def test_a_stream_that_is_refused_has_the_status_of_any_refusal(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serving()
    queue = client.service.queue  # type: ignore[attr-defined]

    def refuse(*_: Any) -> None:
        raise Busy("Slowdown: too many requests at the moment", 7.0)

    monkeypatch.setattr(queue, "_refuse_overload", refuse)
    body = {"text": "hello", "source": "en", "target": "de"}
    answer = client.post("/api/v1/stream", json=body)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize(
    ("settings", "status"),
    [({}, 404), ({"public_url": "https://a.example"}, 403), ({"host": "0.0.0.0"}, 403)],  # noqa: S104
)
def test_the_lab_is_for_this_machine(
    serving: Serving, settings: dict[str, Any], status: int
) -> None:
    """Of a number that no experiment has."""
    assert serving(settings=settings).post("/api/v1/lab/0").status_code == status


def test_runs(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "log.jsonl").write_text('{"update": 1}\n', "utf-8")
    client = serving(runs=tmp_path)
    assert [run["name"] for run in client.get("/api/v1/runs").json()["runs"]] == ["one"]
    answer = client.get("/api/v1/runs/one").json()
    assert answer == {"name": "one", "records": [{"update": 1}], "next": 14, "restarted": False}
    assert client.get("/api/v1/runs/one", params={"after": 14}).json()["records"] == []
    assert client.get("/api/v1/runs/one", params={"after": "x"}).status_code == 400
    assert client.get("/api/v1/runs/..%2fone").status_code == 404
    assert client.get("/api/v1/runs/two").status_code == 404


def test_models(serving: Serving) -> None:
    (first, second) = serving().get("/api/v1/models").json()["models"]
    assert (first["name"], first["source"], first["target"]) == ("en-de", "en", "de")
    assert (second["name"], second["problem"]) == ("fr-en", None)


# Keys, rates, limits.


def test_a_key_lets_in(serving: Serving, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    key = add_key(path, "alice")
    client = serving(keys=path)
    assert client.post("/translate", json=HELLO).status_code == 403
    wrong = client.post("/translate", json={**HELLO, "api_key": "x"})
    assert (wrong.status_code, wrong.json()) == (403, {"error": "Invalid API key"})
    bearer = {"authorization": f"Bearer {key}"}
    right = [
        client.post("/translate", json={**HELLO, "api_key": key}),
        client.post("/translate", data={**HELLO, "api_key": key}),
        client.post("/translate", params={**HELLO, "api_key": key}),
        client.post("/translate", json=HELLO, headers=bearer),
        client.post("/api/v1/translate", json={"text": "a", "target": "de"}, headers=bearer),
        client.get("/api/v1/models", headers=bearer),
        client.get("/metrics", headers=bearer),
    ]
    assert [answer.status_code for answer in right] == [200] * 7
    closed = [
        "/metrics",
        "/api/v1/models",
        "/api/v1/models/en-de",
        "/api/v1/runs",
        "/api/v1/runs/x",
    ]
    assert [client.get(path).status_code for path in closed] == [403] * 5
    assert client.post("/detect", json={"q": "x"}).status_code == 403
    assert client.post("/api/v1/explain", json={}).status_code == 403
    assert client.post("/api/v1/stream", json={}).status_code == 403
    assert sent(client, "a.txt", b"x").status_code == 403
    assert client.get("/languages").status_code == 200
    assert client.get("/frontend/settings").json()["keyRequired"] is True


def test_rates_are_429_with_a_time(serving: Serving) -> None:
    client = serving(fresh=True, requests_per_minute=2)
    answers = [client.post("/translate", json=HELLO) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30
    assert answers[2].json() == {"error": "Slowdown: 2 per 1 minute"}


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_have_an_end(serving: Serving, chunked: bool) -> None:
    client = serving(body_bytes=1000)
    body = json.dumps({**HELLO, "q": "x" * 2000}).encode()

    def chunks() -> Iterator[bytes]:
        yield from (body[i : i + 100] for i in range(0, len(body), 100))

    answer = client.post("/translate", content=chunks() if chunked else body, headers=JSON)
    assert answer.status_code == 413
    assert "1000 bytes" in answer.json()["error"]
    assert client.post("/translate", json=HELLO).status_code == 200


def test_files_may_be_longer_than_other_bodies(serving: Serving) -> None:
    client = serving(body_bytes=1000, file_bytes=5000)
    assert sent(client, "a.txt", b"word " * 900).status_code == 200
    assert sent(client, "a.txt", b"word " * 2000).status_code == 413


def test_a_deadline_gives_an_error_in_time(serving: Serving) -> None:
    client = serving(fresh=True, seconds=0.3)
    first = next(iter(client.service.models))  # type: ignore[attr-defined]
    first.translator.seconds = 1.0
    start = time.monotonic()
    answer = client.post("/translate", json=HELLO)
    assert answer.status_code == 504
    assert time.monotonic() - start < 0.8


def test_draining_refuses_and_says_so(serving: Serving) -> None:
    client = serving(fresh=True)
    client.service.drain()  # type: ignore[attr-defined]
    assert client.get("/health").status_code == 200
    assert client.get("/ready").status_code == 503
    answer = client.post("/translate", json=HELLO)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


# What browsers are told, and what is written down.


@pytest.mark.parametrize("path", ["/", "/docs", "/health", "/api/v1/models", "/nothing", "/spec"])
def test_every_answer_is_sealed(serving: Serving, path: str) -> None:
    headers = serving().get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == ("no-cache" if path == "/" else "no-store")
    assert "server" not in headers


def test_errors_are_sealed_too(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = io.StringIO()
    client = serving(journal=journal)
    monkeypatch.setattr(client.service, "translate", lambda *_, **__: 1 / 0)  # type: ignore[attr-defined]
    answer = client.post("/translate", json=HELLO)
    assert answer.status_code == 500
    assert answer.json() == {"error": "the service has a bug, which its log shows"}
    assert answer.headers["content-security-policy"] == POLICY
    assert "ZeroDivisionError" in journal.getvalue()


def test_pages_of_others_may_use_the_one_interface_and_not_the_other(serving: Serving) -> None:
    client = serving()
    origin = {"origin": "https://example.org"}
    for path in ("/translate", "/detect", "/languages"):
        asked = client.options(path, headers=origin)
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, "*")
        assert "Content-Type" in asked.headers["access-control-allow-headers"]
    assert client.post("/translate", json=HELLO).headers["access-control-allow-origin"] == "*"
    for path in ("/api/v1/models", "/metrics", "/"):
        assert "access-control-allow-origin" not in client.get(path, headers=origin).headers
        assert "access-control-allow-origin" not in client.options(path, headers=origin).headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:5000", 200),
        ("127.0.0.1:5000", 200),
        ("[::1]:5000", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
        ("local/host", 400),
        ("localhost\t", 400),
    ],
)
def test_a_local_service_answers_to_local_names(serving: Serving, host: str, status: int) -> None:
    assert serving().get("/health", headers={"host": host}).status_code == status


def test_the_public_name_is_another_name(serving: Serving) -> None:
    client = serving(settings={"public_url": "https://translate.example.org"})
    host = {"host": "translate.example.org"}
    assert client.get("/health", headers=host).status_code == 200
    url = sent(client, "a.txt", b"hello").json()["translatedFileUrl"]
    assert url.startswith("https://translate.example.org/download_file/")


def test_open_services_answer_to_any_name_that_is_one(serving: Serving) -> None:
    client = serving(settings={"host": "0.0.0.0"})  # noqa: S104
    assert client.get("/health", headers={"host": "any.example"}).status_code == 200
    assert client.get("/health", headers={"host": "a b"}).status_code == 400


@pytest.mark.parametrize("path", ["/../config.py", "/%2e%2e/config.py", "/..%2f..%2fconfig.py"])
def test_the_page_s_folder_is_all_that_is_served(serving: Serving, path: str) -> None:
    assert (PAGE.parent / "config.py").exists()
    assert serving().get(path).status_code in {400, 404}


def test_the_log_knows_how_much_and_not_what(serving: Serving, tmp_path: Path) -> None:
    journal, path = io.StringIO(), tmp_path / "keys.toml"
    key = add_key(path, "alice")
    client = serving(journal=journal, keys=path)
    secret = {**HELLO, "q": "my secret poison"}
    client.post("/translate", params={**secret, "api_key": key})
    client.post("/translate", json={**secret, "target": "secret", "api_key": key})
    client.post("/secret/path")
    sent(client, "secret.txt", b"secret")
    lines = [json.loads(line) for line in journal.getvalue().splitlines()]
    assert "secret" not in journal.getvalue()
    assert key not in journal.getvalue()
    (first, *_) = (line for line in lines if line["event"] == "request")
    assert first["route"] == "/translate"
    assert (first["characters"], first["key"], first["status"]) == (16, "alice", 500)


def test_metrics_count_with_few_labels(serving: Serving) -> None:
    client = serving(fresh=True, requests_per_minute=2)
    for path in ("/health", "/a", "/b", "/c"):
        client.get(path)
    for _ in range(3):
        client.post("/translate", json=HELLO)
    text = client.get("/metrics").text
    assert 'seq2see_requests_total{route="/translate",status="200"} 2.0' in text
    assert 'seq2see_requests_total{route="/translate",status="429"} 1.0' in text
    assert 'seq2see_refusals_total{reason="rate"} 1.0' in text
    assert "seq2see_tokens_total 6.0" in text
    assert "/a" not in text
    assert "testclient" not in text


def test_the_docs_page_loads_nothing_from_elsewhere(serving: Serving) -> None:
    page = serving().get("/docs").text
    assert "<script" not in page
    assert "/api/v1/translate" in page
    assert 'src="http' not in page


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://localhost:8080/translate"),
        ({"public_url": "https://a.example/t/"}, "https://a.example/t/translate"),
    ],
)
def test_the_examples_of_the_docs_name_the_service(
    serving: Serving, settings: dict[str, Any], url: str
) -> None:
    page = serving(settings=settings).get("/docs", headers={"host": "localhost:8080"}).text
    assert f"curl {url} " in page


def test_another_method_is_405(serving: Serving) -> None:
    client = serving()
    answers = [client.get("/translate"), client.post("/health"), client.delete("/api/v1/models")]
    assert [answer.status_code for answer in answers] == [405] * 3
    assert answers[0].headers["allow"] == "POST"
    assert set(answers[0].json()) == {"error"}
    assert client.get("/nothing").status_code == 404
    assert client.get("/").status_code == 200


def test_every_example_of_the_spec_runs(serving: Serving) -> None:
    client = serving()
    document = client.get("/spec").json()
    tried = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "422" not in operation["responses"]
            for kind, media in operation.get("requestBody", {}).get("content", {}).items():
                if path in {"/api/v1/explain", "/api/v1/heads", "/api/v1/stream"}:
                    continue  # with a real model, in tests/system
                answer = _example(client, method, path, kind, media["example"])
                assert answer.status_code == 200, (path, kind, answer.text)
                tried += 1
    assert tried == 6


def _example(client: TestClient, method: str, path: str, kind: str, body: dict[str, Any]) -> Any:
    if kind == "application/json":
        return client.request(method, path, json=body)
    if kind == "multipart/form-data":
        files = {"file": ("a.txt", body.pop("file").encode())}
        return client.request(method, path, data=body, files=files)
    return client.request(method, path, data=body)
