"""The service with a real model, over real sockets: clients, faults, load, fuzzing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from seq2see.bundle import Bundle, Origin, files
from seq2see.engines.torch_engine import TorchEngine
from seq2see.explain import explainer
from seq2see.explain.explained_model import Tape
from seq2see.model import ModelConfig, Transformer
from seq2see.search.observer import StepRecord
from seq2see.serve import lab_runner, server as serving, unbatched
from seq2see.serve.config import LimitsConfig, ServeConfig
from seq2see.serve.errors import Late
from seq2see.serve.model_registry import Loaded, Model, Models, read
from seq2see.serve.server import listen, server
from seq2see.serve.service import Service
from seq2see.serve.text_translation import Manner
from seq2see.serve.work_queue import Call
from seq2see.text import TokenizerConfig, Tokenizers
from seq2see.translator import Translation, TranslationOptions

LINES = [f"the old animal number {n} crossed the wide street" for n in range(80)]
TEXTS = [
    "The animal crossed the street.",
    "A",
    "The street was wide. The animal was old, and number 7 was tired.",
    "Hello, {name}: 50 % of https://example.org/x is yours.",
    "  - first\n  - second line of it\n",
]
HELLO = {"q": "The animal crossed.", "source": "en", "target": "de"}
SETTINGS = TranslationOptions(split="always")


def bundle(seed: int) -> Bundle:
    """Make a model of no understanding, which takes real time and always says the same."""
    torch.manual_seed(seed)
    tokenizers = Tokenizers.train(LINES, LINES, TokenizerConfig(vocab_size=300))
    sizes = {"d_model": 32, "d_ff": 64, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **sizes)  # type: ignore[arg-type]
    weights = Transformer.from_config(config).state_dict()
    return Bundle(config, tokenizers, ("en", "de"), weights, max_length=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("models") / "tiny"
    bundle(1).save(home)
    return home


def read_torch(home: Path) -> Loaded:
    return read(home, "torch")


@contextmanager
def running(service: Service) -> Iterator[int]:
    """Serve from a thread of this process, and give the port."""
    with listen(service.config) as listener:
        one = server(service)
        thread = threading.Thread(target=one.run, kwargs={"sockets": [listener]})
        thread.start()
        while not one.started:
            time.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            one.should_exit = True
            thread.join(20)


def ask(port: int, path: str, body: dict[str, Any] | None = None, timeout: float = 30) -> Any:
    """Return status and JSON, by nothing but the standard library."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


# A real process.


class Process:
    """`seq2see serve` as people start it."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "seq2see", "serve", "--port", "0", *arguments]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.log: str | None = None
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.finish()
        self.port = int(self.url.rsplit(":", 1)[1])
        while True:
            try:
                if ask(self.port, "/ready")[0] == 200:
                    break
            except OSError:
                time.sleep(0.05)

    def finish(self, sent: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        if self.process.poll() is None:
            self.process.send_signal(sent)
        if self.log is None:
            self.log = "".join(self.process.communicate(timeout=60))
        return self.process.returncode, self.log


@pytest.fixture(scope="module")
def processes(folder: Path) -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for one in started:
        one.finish()


@pytest.fixture
def process(folder: Path, processes: list[Process]) -> Process:
    """Give the process that the tests share; one that a test has ended is followed by another."""
    if not processes or processes[-1].process.poll() is not None:
        processes.append(Process(str(folder), "--limit", "seconds=20"))
    return processes[-1]


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, str]:
    """What the service must say of plain lines: what the translator says of each alone."""
    translator = read_torch(folder).translator
    return {text: translator.translate(text, SETTINGS).text for text in TEXTS[:3]}


def test_the_client_from_pypi_works_unchanged(process: Process, expected: dict[str, str]) -> None:
    from libretranslatepy import LibreTranslateAPI  # noqa: PLC0415

    client = LibreTranslateAPI(process.url)
    for text, translation in expected.items():
        assert client.translate(text, "en", "de") == translation
    assert client.detect("Where is the station?")[0]["language"] == "en"
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["en", "de"]},
        {"code": "de", "name": "German", "targets": ["de"]},
    ]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("how", ["json", "form", "query", "multipart"])
def test_curl(process: Process, expected: dict[str, str], how: str) -> None:
    text = TEXTS[0]
    ways = {
        "json": ["-H", "Content-Type: application/json", "-d", json.dumps({**HELLO, "q": text})],
        "form": ["-d", "source=en", "-d", "target=de", "--data-urlencode", f"q={text}"],
        "query": ["-G", "-X", "POST", "--data-urlencode", f"q={text}", "-d", "source=en&target=de"],
        "multipart": ["-F", f"q={text}", "-F", "source=en", "-F", "target=de"],
    }
    command = ["curl", "-s", f"{process.url}/translate", *ways[how]]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert json.loads(done.stdout) == {"translatedText": expected[text]}


def test_the_other_examples_of_the_spec_run(process: Process) -> None:
    document = ask(process.port, "/spec")[1]
    content = document["paths"]["/api/v1/explain"]["post"]["requestBody"]["content"]
    status, trace = ask(process.port, "/api/v1/explain", content["application/json"]["example"])
    assert (status, trace["format"]) == (200, "seq2see-trace")
    content = document["paths"]["/api/v1/heads"]["post"]["requestBody"]["content"]
    example = content["application/json"]["example"]
    status, found = ask(process.port, "/api/v1/heads", example)
    assert (status, len(found["removals"])) == (200, 6)  # of two heads in three attentions
    status, refusal = ask(process.port, "/api/v1/heads", {**example, "other": example["one"]})
    assert (status, "must differ" in refusal["error"]) == (400, True)
    status, parts = ask(process.port, "/api/v1/models/tiny")
    assert status == 200
    assert parts["tree"]["parameters"] == parts["parameters"] > 10_000


def events(process: Process, body: dict[str, Any]) -> list[tuple[str, Any]]:
    request = urllib.request.Request(  # noqa: S310
        f"{process.url}/api/v1/stream",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        assert answer.headers["content-type"].startswith("text/event-stream")
        blocks = answer.read().decode().strip().split("\n\n")
    pairs = [block.split("\n") for block in blocks]
    return [(e.removeprefix("event: "), json.loads(d.removeprefix("data: "))) for e, d in pairs]


def test_tokens_come_as_they_are_found(process: Process) -> None:
    body = {"text": TEXTS[2], "source": "en", "target": "de"}
    found = events(process, body)
    texts = [data["text"] for kind, data in found if kind == "text"]
    assert len(texts) > 10
    kind, last = found[-1]
    assert kind == "done"
    whole = ask(process.port, "/api/v1/translate", body)[1]["translations"][0]
    assert last["translations"][0]["text"] == whole["text"] == texts[-1]
    assert last["translations"][0]["log_prob"] == pytest.approx(whole["log_prob"], rel=1e-4)


def test_a_stream_that_cannot_be_is_refused_before_it_begins(process: Process) -> None:
    body = {"text": ["a", "b"], "source": "en", "target": "de"}
    assert ask(process.port, "/api/v1/stream", body)[0] == 400


def _kind(error: BaseException) -> str:
    """Tell a connection that was never taken from an answer that was lost."""
    reason = getattr(error, "reason", error)
    return (
        "refused" if isinstance(reason, ConnectionRefusedError | ConnectionResetError) else "lost"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        ([], 2, "give a model directory"),
        (["x", "--limit", "characters"], 2, "NAME=VALUE"),
        (["x", "--limit", "charakters=5"], 2, "did you mean"),
        (["x", "--new-key", "alice"], 2, "--api-keys"),
        (["x", "--host", "192.0.2.1"], 1, "cannot listen on"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], status: int, line: str) -> None:
    command = [sys.executable, "-m", "seq2see", "serve", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (status, "")
    assert line in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_a_new_key_is_printed_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    command = [sys.executable, "-m", "seq2see", "serve", "--api-keys", str(path), "--new-key", "a"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert len(done.stdout.strip()) == 43
    assert done.stdout.strip() not in path.read_text("utf-8")


def test_sigterm_under_load_loses_nothing_and_leaves_no_text_in_the_log(process: Process) -> None:
    """The last test of this process, which it ends."""
    answers: Counter[Any] = Counter()
    stop = threading.Event()

    def client(number: int) -> None:
        body = {**HELLO, "q": [f"{text} secret{number}" for text in TEXTS]}
        while not stop.is_set():
            try:
                status, answer = ask(process.port, "/translate", body)
            except (OSError, urllib.error.URLError) as error:
                answers[_kind(error)] += 1
                return
            answers[status] += 1
            assert status in {200, 429, 503}, answer

    query = urlencode({**HELLO, "q": "secret"})
    assert ask(process.port, f"/translate?{query}", {})[0] == 200
    with ThreadPoolExecutor(8) as pool:
        for number in range(8):
            pool.submit(client, number)
        while answers[200] < 20:
            time.sleep(0.01)
        start = time.monotonic()
        status, log = process.finish()
        seconds = time.monotonic() - start
        stop.set()
    assert status == 0
    assert seconds < 20
    assert set(answers) <= {200, 429, 503, "refused"}, answers
    assert "secret" not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {"request", "draining"} <= {line["event"] for line in lines}


# Batches.


def counted(service: Service) -> tuple[float, float]:
    """Return how many batches there were, and how many items in them."""
    rows = dict(line.rsplit(" ", 1) for line in service.metrics.text().decode().splitlines())
    return float(rows["seq2see_batch_items_count"]), float(rows["seq2see_batch_items_sum"])


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_batched_answer_equals_the_answer_alone(folder: Path, engine: Any) -> None:
    service = Service(ServeConfig(), Models.load([folder], lambda home: read(home, engine)))
    service.start()
    texts = [*TEXTS, *LINES[:6], "x " * 30]
    short = SETTINGS.changed({"beam_size": 2, "lengths": {"max_ratio": 1.0, "max_extra": 2}})
    wishes = [short, short.changed({"n_best": 2, "alignment": True})]

    def answer(number: int, many: Sequence[str]) -> list[Translation]:
        manner = Manner(wishes[number % 2])
        found = service.translate(Call.within(300, str(number % 3)), many, "en", "de", manner)
        return [one.translation for one in found]

    alone = {(n, text): answer(n, [text])[0] for n in (0, 1) for text in texts}
    groups = [texts[n % 7 :: 1 + n % 5] for n in range(24)]
    batches, items = counted(service)
    with ThreadPoolExecutor(16) as pool:
        batched = list(pool.map(answer, range(24), groups))
    shared = [
        after - before for after, before in zip(counted(service), (batches, items), strict=True)
    ]
    assert shared[0] < 24  # requests did share batches
    service.close()
    for number, (group, found) in enumerate(zip(groups, batched, strict=True)):
        for text, translation in zip(group, found, strict=True):
            lone = alone[number % 2, text]
            assert translation.text == lone.text
            assert [a.text for a in translation.alternatives] == [a.text for a in lone.alternatives]
            assert translation.log_prob == pytest.approx(lone.log_prob, rel=1e-4)


# Faults.


class Slow:
    """A translator that takes a second for anything, and remembers what it got."""

    languages = ("en", "de")

    def __init__(self, seconds: float) -> None:
        side = SimpleNamespace(encode_batch=lambda lines: [line.split() for line in lines])
        self.bundle = SimpleNamespace(tokenizers=SimpleNamespace(source=side))
        self.seconds, self.seen = seconds, [""]

    def translate(self, lines: Sequence[str], options: TranslationOptions) -> list[Translation]:
        self.seen += lines
        time.sleep(self.seconds)
        return [Translation(line.upper(), 0.0, 0.0) for line in lines]


def slow_service(pace: float, **limits: Any) -> tuple[Service, Slow]:
    translator = Slow(pace)
    loaded = Loaded(translator, translator)  # type: ignore[arg-type]
    models = Models([Model("slow", Path("slow"), *loaded)], lambda _: loaded)
    config = ServeConfig(port=0, workers=1, limits=LimitsConfig(**limits))
    return Service(config, models), translator


def until(happens: Callable[[], bool]) -> None:
    """Wait for it, but not for ever."""
    end = time.monotonic() + 20
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_client_that_leaves_never_enters_a_batch() -> None:
    service, translator = slow_service(0.5)
    with running(service) as port, ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, port, "/translate", {**HELLO, "q": "first"})
        until(lambda: "first" in translator.seen)
        body = json.dumps({**HELLO, "q": "gone"}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        with socket.create_connection(("127.0.0.1", port)) as leaving:
            leaving.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            until(lambda: service.queue.waiting > 0)
        assert first.result(20)[1] == {"translatedText": "FIRST"}
        assert ask(port, "/translate", {**HELLO, "q": "next"})[1] == {"translatedText": "NEXT"}
        assert service.queue.waiting == 0
    assert "gone" not in translator.seen


def test_a_client_that_leaves_a_stream_ends_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[object] = []
    step = unbatched._ListeningEngine.step

    def slow_step(self: Any, record: StepRecord) -> None:
        steps.append(record)
        time.sleep(0.02)
        step(self, record)

    monkeypatch.setattr(unbatched._ListeningEngine, "step", slow_step)
    sentences = 50
    text = " ".join(["The animal crossed the street."] * sentences)
    body = json.dumps({"text": text, "source": "en", "target": "de"}).encode()
    head = f"POST /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"

    def is_over() -> bool:
        before = len(steps)
        time.sleep(0.5)
        return len(steps) == before

    service = Service(ServeConfig(port=0), Models.load([folder], read_torch))
    with running(service) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as leaving:
            leaving.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            heard = [b""]
            while b"event: text" not in b"".join(heard):
                heard.append(leaving.recv(1000))
                assert heard[-1]
        until(is_over)
        assert len(steps) < 5 * sentences
        assert b'seq2see_refusals_total{reason="gone"} 1.0' in service.metrics.text()
        assert ask(port, "/translate", HELLO)[0] == 200


@pytest.fixture
def service(folder: Path) -> Iterator[Service]:
    """Give a service that runs without HTTP."""
    one = Service(ServeConfig(workers=1), Models.load([folder], read_torch))
    one.start()
    yield one
    one.close()


def test_a_stream_ends_with_its_deadline(service: Service) -> None:
    call, heard = Call.within(30), list[str]()
    route = service.route("en", "de")

    def emit(text: str) -> None:
        heard.append(text)
        call.deadline = time.monotonic()

    with pytest.raises(Late):
        service.stream(call, TEXTS[2], route, SETTINGS, emit)
    until(lambda: service.queue.running == 0)
    assert len(heard) == 1


@pytest.mark.parametrize("ends_at", ["step", "attribution"])
def test_a_trace_ends_with_its_deadline(
    service: Service, monkeypatch: pytest.MonkeyPatch, ends_at: str
) -> None:
    call, seen = Call.within(30), list[object]()

    def over(*given: Any) -> tuple[()]:
        seen.append(given)
        call.deadline = time.monotonic()
        return ()

    owner: object = Tape if ends_at == "step" else explainer
    monkeypatch.setattr(owner, "step" if ends_at == "step" else "attributions", over)
    methods = ("attention", "rollout", "occlusion")
    wanted = explain_request(translation="The animal.", detail={"methods": methods})
    with pytest.raises(Late):
        service.explain(call, wanted)
    until(lambda: service.queue.running == 0)
    assert len(seen) == 1


@pytest.mark.parametrize("stuck", [False, True])
def test_a_batch_that_outlives_the_drain_is_left(
    monkeypatch: pytest.MonkeyPatch, stuck: bool
) -> None:
    """Python could not end the process in good order while a thread is in the engine."""
    exits: list[int] = []
    monkeypatch.setattr(serving, "os", SimpleNamespace(_exit=exits.append))
    service, _ = slow_service(1.5 if stuck else 0.0)
    service.start()
    with suppress(Late):
        service.translate(Call.within(0.1 if stuck else 9), ["a"], "en", "de", Manner(SETTINGS))
    service.close()
    serving.leave(service)
    assert exits == [0] * stuck


_heard: list[list[Any]] = []


def _hear(event: str, given: tuple[Any, ...]) -> None:
    for each in _heard:
        if event == "socket.connect":
            each.append(given[1][0])
        elif event == "socket.getaddrinfo":
            each.append(given[0])


def test_nothing_is_fetched_from_the_network(folder: Path, tmp_path: Path) -> None:
    """From its start to its end the process connects to nobody; the requests here are ours."""
    sys.addaudithook(_hear)  # there is no way back, so it has to know when to listen
    _heard.append(found := [])
    hello = {"text": "The animal.", "source": "auto", "target": "de", "alignment": True}
    service = Service(ServeConfig(port=0), Models.load([folder], read))
    with running(service) as port:
        assert ask(port, "/api/v1/translate", hello)[0] == 200
        assert (
            ask(port, "/translate", {**HELLO, "format": "html", "q": "<img src=//a.b/c>A"})[0]
            == 200
        )
        assert ask(port, "/api/v1/explain", {"text": "The animal.", "target": "de"})[0] == 200
        assert ask(port, "/api/v1/lab")[0] == 200
        assert ask(port, "/api/v1/models/tiny/positions")[0] == 200
        page = b'<!DOCTYPE html SYSTEM "http://a.example/x.dtd"><link href="http://a.example/y">A'
        service.translate_file(Call.within(30), page, "a.html", "auto", "de")
    _heard.clear()
    assert set(found) == {"127.0.0.1"}


def test_the_server_does_not_tell_what_it_is() -> None:
    service, _ = slow_service(0.0)
    with running(service) as port:
        url = f"http://127.0.0.1:{port}/health"
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert "server" not in answer.headers


def test_half_a_request_holds_nobody_up() -> None:
    service, _ = slow_service(0.0, seconds=0.5)
    with running(service) as port, socket.create_connection(("127.0.0.1", port)) as half:
        head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        half.sendall(head + b"Content-Length: 99\r\n\r\n{")
        assert ask(port, "/translate", HELLO)[0] == 200
        half.settimeout(10)
        assert b" 408 " in half.recv(1000).split(b"\r\n")[0] + b" "


def test_nobody_says_which_address_is_theirs() -> None:
    """Without a proxy, which --public-url tells of; else everyone had as many rates as names."""
    service, _ = slow_service(0.0, requests_per_minute=1)
    statuses = []
    with running(service) as port:
        for number in range(2):
            connection = HTTPConnection("127.0.0.1", port, timeout=30)
            headers = {"x-forwarded-for": f"192.0.2.{number}", "content-type": "application/json"}
            connection.request("POST", "/translate", json.dumps(HELLO), headers)
            statuses.append(connection.getresponse().status)
            connection.close()
    assert statuses == [200, 429]


def test_three_times_too_many_requests_end_in_results_or_429_in_time() -> None:
    """The queue holds half a second of work, of which far more is sent; the deadline is far off,
    so that a machine that others use as well does not decide."""
    deadline = 8.0
    service, _ = slow_service(0.1, batch_tokens=16, queue_tokens=80, seconds=deadline, requests=64)

    def client(number: int) -> list[tuple[int, float]]:
        answers = []
        for turn in range(4):
            start = time.monotonic()
            status, answer = ask(port, "/translate", {**HELLO, "q": [f"a{number}-{turn}"] * 4})
            assert status != 200 or answer["translatedText"] == [f"A{number}-{turn}"] * 4
            answers.append((status, time.monotonic() - start))
        return answers

    with running(service) as port, ThreadPoolExecutor(60) as pool:
        answers = [answer for many in pool.map(client, range(60)) for answer in many]
    assert len(answers) == 240
    assert Counter(status for status, _ in answers).keys() == {200, 429}
    assert max(seconds for _, seconds in answers) < deadline


def test_what_is_seen_through_searches_as_what_is_served(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    notes = {"stop": "beam_full", "alignment": {"layer": 0, "heads": [1]}}
    replace(bundle(1), origin=Origin(notes=notes)).save(tmp_path)
    served, glass = read(tmp_path, "ctranslate2", precision="int8")
    assert any("int8 is not used" in note for note in served.notes)  # it has no probes
    assert isinstance(glass.engine, TorchEngine)
    assert (glass.engine.stop, glass.engine.alignment.heads) == ("beam_full", (1,))


def test_a_model_is_replaced_or_damaged_while_it_serves(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "model"
    shutil.copytree(folder, home)
    service = Service(ServeConfig(port=0, reload_seconds=60), Models.load([home], read_torch))
    service.start()
    (model,) = service.models

    def said() -> str:
        (answer,) = service.translate(
            Call.within(30), [TEXTS[0]], "en", "de", Manner(SETTINGS.changed({"beam_size": 1}))
        )
        assert answer.translation.error is None
        return answer.translation.text

    old = said()
    bundle(2).save(home)
    service.look_after()  # it may still be moving
    assert said() == old
    service.look_after()
    new = said()
    assert new != old

    weights = home / files.WEIGHTS
    whole = weights.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", whole[:-4] + b"abcd"):
        weights.write_bytes(damage)  # in place: the file that was mapped is cut
        service.look_after()
        service.look_after()
        assert "model.safetensors" in (model.problem or "")
        assert said() == new
        assert service.is_ready
        explained = json.loads(service.explain(Call.within(30), explain_request()))
        assert explained["format"] == "seq2see-trace"
    shutil.rmtree(home)
    service.look_after()
    service.look_after()
    assert "is not there" in (model.problem or "")
    assert said() == new
    shutil.copytree(folder, home)
    service.look_after()
    service.look_after()
    assert (model.problem, said()) == (None, old)
    service.close()


def explain_request(**wishes: Any) -> Any:
    from seq2see.serve.requests import ExplainRequest  # noqa: PLC0415

    return ExplainRequest(text="The animal.", source="en", target="de", **wishes)


# Fuzzing.


@pytest.fixture(scope="module")
def operations(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Give the operations of the specification, by their names."""
    import schemathesis  # noqa: PLC0415

    runs = tmp_path_factory.mktemp("runs")
    (runs / "tiny").mkdir()
    (runs / "tiny" / "log.jsonl").write_text('{"update": 1}\n')
    limits = LimitsConfig(characters=300, explain_characters=80, file_bytes=20_000, seconds=60)
    config = ServeConfig(port=0, limits=limits, beam_size=2)
    service = Service(config, Models.load([folder], read_torch), runs=runs)
    with running(service) as port, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab_runner, "_outcome", lambda _, number: {"number": number})  # takes minutes
        schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/spec")
        yield {one.ok().label: one.ok() for one in schema.get_all_operations()}


def fuzz(operation: Any, examples: int) -> Counter[int]:
    """Send what the specification allows, and what it does not; return how often there was which
    status: none is 500, and each is as the document says."""
    from schemathesis.checks import not_a_server_error  # noqa: PLC0415
    from schemathesis.generation import GenerationMode  # noqa: PLC0415
    from schemathesis.specs.openapi import checks  # noqa: PLC0415

    seen: Counter[int] = Counter()
    conformance = (
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    )

    def send(case: Any) -> None:
        size = len(str(case.body))
        if isinstance(case.body, dict) and size % 4:  # else all end at the languages
            case.body.update(source="en", target="de")
            case.body.pop("model", None)
            if operation.label in SEARCHING and size % 2:  # else all end at the limits
                case.body.update(beam_size=1 + size % 3, n_best=1 + size % 5)
        if "name" in case.path_parameters and size % 2:  # of a model, and of a run
            case.path_parameters["name"] = "tiny"
        answer = case.call()
        seen[answer.status_code] += 1
        case.validate_response(answer, checks=conformance)

    quiet = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        with suppress(Unsatisfiable):  # a GET without parameters cannot be wrong
            quiet(given(case=operation.as_strategy(generation_mode=mode))(send))()
    return seen


WORKING = [
    "POST /translate",
    "POST /detect",
    "POST /translate_file",
    "POST /api/v1/translate",
    "POST /api/v1/stream",
    "POST /api/v1/explain",
    "POST /api/v1/heads",
    "GET /api/v1/runs/{name}",
    "POST /api/v1/lab/{number}",
]
READING = [
    *("GET /languages", "GET /frontend/settings", "GET /health", "GET /metrics", "GET /ready"),
    *("GET /download_file/{name}", "GET /api/v1/runs", "GET /api/v1/lab"),
    *("GET /api/v1/models", "GET /api/v1/models/{name}", "GET /api/v1/models/{name}/positions"),
]
SEARCHING = {"POST /api/v1/translate", "POST /api/v1/stream", "POST /api/v1/explain"}


@pytest.mark.filterwarnings("ignore")  # those of the tool and of its parts are not ours
@pytest.mark.parametrize("label", WORKING)
def test_fuzzing_finds_no_500(operations: dict[str, Any], label: str) -> None:
    assert fuzz(operations[label], 10).keys() <= {200, 400, 404, 413, 429}


def test_every_operation_is_fuzzed(operations: dict[str, Any]) -> None:
    assert sorted(operations) == sorted([*WORKING, *READING])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", [*WORKING, *READING])
def test_fuzzing_long_finds_no_500(operations: dict[str, Any], label: str) -> None:
    seen = fuzz(operations[label], 400 if label in WORKING else 40)
    assert seen.keys() <= {200, 400, 404, 413, 429}
    assert seen[200] > 20 or label in {*READING, "POST /translate_file"} or "{" in label


def test_an_answer_does_not_wait_for_the_receipt_of_its_first_part() -> None:
    with listen(ServeConfig(port=0)) as listener:
        client = socket.create_connection(listener.getsockname())
        connection, _ = listener.accept()
        with client, connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
