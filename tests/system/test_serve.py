"""The service with a real model over real sockets: clients, failures, load, fuzzing."""

from __future__ import annotations

import io
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

from seq2see.bundle import Bundle, Provenance, StartAndEndTokenIds, files
from seq2see.engines.torch_engine import TorchEngine
from seq2see.explain import tracing
from seq2see.explain.trace_builder import TraceRecorder
from seq2see.model import ModelConfig, Transformer
from seq2see.search.hypotheses import StepRecord
from seq2see.serve import lab, request_translation, uvicorn_server as serving
from seq2see.serve.config import LimitsConfig, ServeConfig
from seq2see.serve.errors import DeadlineExceeded
from seq2see.serve.model_registry import (
    DefaultAndTorchTranslators,
    ModelRegistry,
    ServedModel,
    load_served_model,
)
from seq2see.serve.request_translation import TextTranslationOptions
from seq2see.serve.requests import ExplainRequest, TranslateRequest
from seq2see.serve.service import Service
from seq2see.serve.uvicorn_server import create_server, open_socket
from seq2see.serve.work_queue import RequestContext
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.translator import SourceSegment, Translation, TranslationOptions, Translator

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


def build_bundle(seed: int) -> Bundle:
    """Return an untrained model, which is deterministic and takes realistic time."""
    torch.manual_seed(seed)
    tokenizers = TokenizerPair.train(LINES, LINES, TokenizerConfig(vocab_size=300))
    sizes = {"d_model": 32, "d_ff": 64, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **sizes)  # type: ignore[arg-type]
    weights = Transformer.from_config(config).state_dict()
    return Bundle(config, tokenizers, ("en", "de"), weights, max_length=60)


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "tiny"
    build_bundle(1).save(directory)
    return directory


def load_torch(directory: Path) -> DefaultAndTorchTranslators:
    return load_served_model(directory, "torch")


@contextmanager
def running(service: Service) -> Iterator[int]:
    """Serve from a thread of this process and yield the port."""
    with open_socket(service.config) as listener:
        server = create_server(service)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(20)


def send(port: int, path: str, body: dict[str, Any] | None = None, timeout: float = 30) -> Any:
    """Send a request with the standard library; return the status and the JSON body."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


# The command in a process of its own.


class Process:
    """A process of `seq2see serve`."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "seq2see", "serve", "--port", "0", *arguments]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.log: str | None = None
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.stop()
        self.port = int(self.url.rsplit(":", 1)[1])
        while True:
            try:
                if send(self.port, "/ready")[0] == 200:
                    break
            except OSError:
                time.sleep(0.05)

    def stop(self) -> tuple[int, str]:
        """Send SIGTERM; return the exit status and the output."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        if self.log is None:
            self.log = "".join(self.process.communicate(timeout=60))
        return self.process.returncode, self.log


@pytest.fixture(scope="module")
def processes(model_directory: Path) -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for each in started:
        each.stop()


@pytest.fixture
def process(model_directory: Path, processes: list[Process]) -> Process:
    """The process shared by the tests; if a test has stopped it, a new one is started."""
    if not processes or processes[-1].process.poll() is not None:
        processes.append(Process(str(model_directory), "--limit", "request_seconds=20"))
    return processes[-1]


@pytest.fixture(scope="module")
def expected(model_directory: Path) -> dict[str, str]:
    """Translations of texts by the translator alone, which the service must return too."""
    translator = load_torch(model_directory).translator
    return {text: translator.translate(text, SETTINGS).text for text in TEXTS[:3]}


def test_libretranslatepy_client_works(process: Process, expected: dict[str, str]) -> None:
    from libretranslatepy import LibreTranslateAPI  # noqa: PLC0415

    client = LibreTranslateAPI(process.url)
    for text, translation in expected.items():
        assert client.translate(text, "en", "de") == translation
    assert client.detect("Where is the station?")[0]["language"] == "en"
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["en", "de"]},
        {"code": "de", "name": "German", "targets": ["de"]},
    ]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("encoding", ["json", "form", "query", "multipart"])
def test_curl_request_is_translated(
    process: Process, expected: dict[str, str], encoding: str
) -> None:
    text = TEXTS[0]
    options = {
        "json": ["-H", "Content-Type: application/json", "-d", json.dumps({**HELLO, "q": text})],
        "form": ["-d", "source=en", "-d", "target=de", "--data-urlencode", f"q={text}"],
        "query": ["-G", "-X", "POST", "--data-urlencode", f"q={text}", "-d", "source=en&target=de"],
        "multipart": ["-F", f"q={text}", "-F", "source=en", "-F", "target=de"],
    }
    command = ["curl", "-s", f"{process.url}/translate", *options[encoding]]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert json.loads(finished.stdout) == {"translatedText": expected[text]}


def test_openapi_examples_that_need_a_model_succeed(process: Process) -> None:
    document = send(process.port, "/spec")[1]
    content = document["paths"]["/api/v1/explain"]["post"]["requestBody"]["content"]
    status, trace = send(process.port, "/api/v1/explain", content["application/json"]["example"])
    assert (status, trace["format"]) == (200, "seq2see-trace")
    content = document["paths"]["/api/v1/head-ablation"]["post"]["requestBody"]["content"]
    example = content["application/json"]["example"]
    status, result = send(process.port, "/api/v1/head-ablation", example)
    assert (status, len(result["ablations"])) == (200, 6)  # two heads in three attentions
    equal = {**example, "contrastive_translation": example["translation"]}
    status, error = send(process.port, "/api/v1/head-ablation", equal)
    assert (status, "must differ" in error["error"]) == (400, True)
    status, model = send(process.port, "/api/v1/models/tiny")
    assert status == 200
    assert model["module_tree"]["parameters"] == model["parameters"] > 10_000


def stream_events(process: Process, body: dict[str, Any]) -> list[tuple[str, Any]]:
    request = urllib.request.Request(  # noqa: S310
        f"{process.url}/api/v1/stream",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        assert response.headers["content-type"].startswith("text/event-stream")
        blocks = response.read().decode().strip().split("\n\n")
    pairs = [block.split("\n") for block in blocks]
    return [(e.removeprefix("event: "), json.loads(d.removeprefix("data: "))) for e, d in pairs]


def test_stream_reports_text_at_every_step(process: Process) -> None:
    body = {"text": TEXTS[2], "source": "en", "target": "de"}
    events = stream_events(process, body)
    texts = [data["text"] for kind, data in events if kind == "text"]
    assert len(texts) > 10
    kind, last = events[-1]
    assert kind == "done"
    complete = send(process.port, "/api/v1/translate", body)[1]["translations"][0]
    assert last["translations"][0]["text"] == complete["text"] == texts[-1]
    assert last["translations"][0]["log_prob"] == pytest.approx(complete["log_prob"], rel=1e-4)


def test_stream_of_long_sentence_reports_its_parts_in_order(process: Process) -> None:
    words = " ".join(LINES[:12])
    assert len(words) > 2 * 60  # characters; the model accepts 60 tokens at once
    events = stream_events(process, {"text": words, "source": "en", "target": "de"})
    *texts, _ = [data["text"] for kind, data in events if kind == "text"]
    final = events[-1][1]["translations"][0]["text"]
    longest = max(texts, key=len)
    assert len(longest) > 0.9 * len(final)
    assert final.startswith(longest[: len(final) // 2])


def test_stream_of_several_texts_is_rejected(process: Process) -> None:
    body = {"text": ["a", "b"], "source": "en", "target": "de"}
    assert send(process.port, "/api/v1/stream", body)[0] == 400


def _classify(error: BaseException) -> str:
    """Return "refused" if the connection was not accepted, "lost" if a response is missing."""
    reason = getattr(error, "reason", error)
    return (
        "refused" if isinstance(reason, ConnectionRefusedError | ConnectionResetError) else "lost"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        ([], 2, "at least one model directory"),
        (["x", "--limit", "characters"], 2, "KEY=VALUE"),
        (["x", "--limit", "charakters=5"], 2, "did you mean"),
        (["x", "--create-key", "alice"], 2, "--api-keys"),
        (["x", "--host", "192.0.2.1"], 1, "cannot listen on"),
    ],
)
def test_invalid_options_are_reported_in_one_line(
    arguments: list[str], status: int, line: str
) -> None:
    command = [sys.executable, "-m", "seq2see", "serve", "--port", "0", *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (finished.returncode, finished.stdout) == (status, "")
    assert line in finished.stderr.replace("\n", " ")
    assert "Traceback" not in finished.stderr


def test_created_key_is_printed_and_stored_as_hash(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    command = [
        sys.executable,
        "-m",
        "seq2see",
        "serve",
        "--api-keys",
        str(path),
        "--create-key",
        "a",
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert len(finished.stdout.strip()) == 43
    assert finished.stdout.strip() not in path.read_text("utf-8")


def test_sigterm_under_load_loses_no_response_and_logs_no_text(process: Process) -> None:
    """Stops the shared process."""
    counts: Counter[Any] = Counter()
    stop = threading.Event()

    def client(number: int) -> None:
        body = {**HELLO, "q": [f"{text} secret{number}" for text in TEXTS]}
        while not stop.is_set():
            try:
                status, result = send(process.port, "/translate", body)
            except (OSError, urllib.error.URLError) as error:
                counts[_classify(error)] += 1
                return
            counts[status] += 1
            assert status in {200, 429, 503}, result

    query = urlencode({**HELLO, "q": "secret"})
    assert send(process.port, f"/translate?{query}", {})[0] == 200
    with ThreadPoolExecutor(8) as pool:
        for number in range(8):
            pool.submit(client, number)
        while counts[200] < 20:
            time.sleep(0.01)
        start = time.monotonic()
        status, log = process.stop()
        seconds = time.monotonic() - start
        stop.set()
    assert status == 0
    assert seconds < 20
    assert set(counts) <= {200, 429, 503, "refused"}, counts
    assert "secret" not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {"request", "shutting_down"} <= {line["event"] for line in lines}


# Batches.


def count_batches(service: Service) -> tuple[float, float]:
    """Return the number of batches so far and the number of items in them."""
    rows = dict(line.rsplit(" ", 1) for line in service.metrics.render().decode().splitlines())
    return float(rows["seq2see_batch_items_count"]), float(rows["seq2see_batch_items_sum"])


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_batched_translation_equals_single_translation(model_directory: Path, engine: Any) -> None:
    models = ModelRegistry.load([model_directory], lambda path: load_served_model(path, engine))
    service = Service(ServeConfig(), models)
    service.start()
    texts = [*TEXTS, *LINES[:6], "x " * 30]
    short = SETTINGS.with_settings({"beam_size": 2, "length": {"max_ratio": 1.0, "max_extra": 2}})
    options = [short, short.with_settings({"n_best": 2, "alignment": True})]

    def translate(number: int, some_texts: Sequence[str]) -> list[Translation]:
        context = RequestContext.with_timeout(300, str(number % 3))
        request_options = TextTranslationOptions(options[number % 2])
        results = service.translate(context, some_texts, "en", "de", request_options)
        return [*results]

    single = {(n, text): translate(n, [text])[0] for n in (0, 1) for text in texts}
    groups = [texts[n % 7 :: 1 + n % 5] for n in range(24)]
    batches_before, _ = count_batches(service)
    with ThreadPoolExecutor(16) as pool:
        batched = list(pool.map(translate, range(24), groups))
    assert count_batches(service)[0] - batches_before < 24  # requests did share batches
    service.close()
    for number, (group, translations) in enumerate(zip(groups, batched, strict=True)):
        for text, translation in zip(group, translations, strict=True):
            expected = single[number % 2, text]
            assert translation.text == expected.text
            alternatives = [other.text for other in translation.alternatives]
            assert alternatives == [other.text for other in expected.alternatives]
            assert translation.log_prob == pytest.approx(expected.log_prob, rel=1e-4)


# Failures.


class SlowTranslator(Translator):
    """A translator that takes a given time per batch and records the lines."""

    def __init__(self, seconds: float) -> None:
        tokenizer = SimpleNamespace(
            encode=str.split, encode_batch=lambda lines, *_: [each.split() for each in lines]
        )
        engine = SimpleNamespace(name="slow", special_tokens=StartAndEndTokenIds())
        tokenizers = SimpleNamespace(source=tokenizer)
        super().__init__(engine, tokenizers, ("en", "de"))  # type: ignore[arg-type]
        self.seconds, self.lines = seconds, [""]

    def translate_segments(
        self, segments: Sequence[SourceSegment], *_: object, **__: object
    ) -> list[Translation]:
        lines = [segment.span.text for segment in segments]
        self.lines += lines
        time.sleep(self.seconds)
        return [Translation(line.upper(), 0.0, 0.0) for line in lines]


def slow_service(seconds: float, **limits: Any) -> tuple[Service, SlowTranslator]:
    """Return a service that takes the given time per batch, and its translator."""
    translator = SlowTranslator(seconds)
    loaded = DefaultAndTorchTranslators(translator, translator)
    models = ModelRegistry([ServedModel("slow", Path("slow"), *loaded)], lambda _: loaded)
    config = ServeConfig(port=0, worker_threads=1, limits=LimitsConfig(**limits))
    return Service(config, models), translator


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, for at most 20 seconds."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def raw_request(path: str, body: bytes) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        "Content-Type: application/json\r\n\r\n"
    ).encode() + body


def test_work_of_disconnected_client_never_enters_a_batch() -> None:
    service, translator = slow_service(0.5)
    with running(service) as port, ThreadPoolExecutor(2) as pool:
        first = pool.submit(send, port, "/translate", {**HELLO, "q": "first"})
        wait_until(lambda: "first" in translator.lines)
        body = json.dumps({**HELLO, "q": "gone"}).encode()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(raw_request("/translate", body))
            wait_until(lambda: service.queue.waiting_tokens > 0)
        assert first.result(20)[1] == {"translatedText": "FIRST"}
        assert send(port, "/translate", {**HELLO, "q": "next"})[1] == {"translatedText": "NEXT"}
        assert service.queue.waiting_tokens == 0
    assert "gone" not in translator.lines


def test_disconnect_ends_a_stream(model_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[object] = []
    step = request_translation._SearchReporter.step

    def slow_step(self: Any, record: StepRecord) -> None:
        steps.append(record)
        time.sleep(0.02)
        step(self, record)

    monkeypatch.setattr(request_translation._SearchReporter, "step", slow_step)
    num_sentences = 50
    text = " ".join(["The animal crossed the street."] * num_sentences)
    body = json.dumps({"text": text, "source": "en", "target": "de"}).encode()

    def has_ended() -> bool:
        before = len(steps)
        time.sleep(0.5)
        return len(steps) == before

    service = Service(ServeConfig(port=0), ModelRegistry.load([model_directory], load_torch))
    with running(service) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(raw_request("/api/v1/stream", body))
            received = [b""]
            while b"event: text" not in b"".join(received):
                received.append(connection.recv(1000))
                assert received[-1]
        wait_until(has_ended)
        assert len(steps) < 5 * num_sentences
        metrics = service.metrics.render()
        assert b'seq2see_errors_total{error_code="client_disconnected"} 1.0' in metrics
        assert send(port, "/translate", HELLO)[0] == 200


@pytest.fixture
def service(model_directory: Path) -> Iterator[Service]:
    """A running service without HTTP."""
    models = ModelRegistry.load([model_directory], load_torch)
    running_service = Service(ServeConfig(worker_threads=1), models)
    running_service.start()
    yield running_service
    running_service.close()


def test_stream_ends_at_its_deadline(service: Service) -> None:
    context, partial_texts = RequestContext.with_timeout(30), list[str]()
    request = TranslateRequest(text=TEXTS[2], source="en", target="de")

    def on_partial_text(text: str) -> None:
        partial_texts.append(text)
        context.deadline = time.monotonic()

    with pytest.raises(DeadlineExceeded):
        service.stream(context, request, request.to_options(service.config), on_partial_text)
    wait_until(lambda: service.queue.running_tokens == 0)
    assert len(partial_texts) == 1


@pytest.mark.parametrize("stage", ["step", "attribution"])
def test_trace_ends_at_its_deadline(
    service: Service, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    context, calls = RequestContext.with_timeout(30), list[object]()

    def pass_deadline(*arguments: Any) -> tuple[()]:
        calls.append(arguments)
        context.deadline = time.monotonic()
        return ()

    if stage == "step":
        record_step = TraceRecorder.step

        def step(recorder: TraceRecorder, record: StepRecord) -> None:
            pass_deadline(record)
            record_step(recorder, record)

        monkeypatch.setattr(TraceRecorder, "step", step)
    else:
        monkeypatch.setattr(tracing, "compute_attribution", pass_deadline)
    methods = ("attention", "rollout", "occlusion")
    request = explain_request(translation="The animal.", trace_options={"attributions": methods})
    with pytest.raises(DeadlineExceeded):
        service.explain(context, request)
    wait_until(lambda: service.queue.running_tokens == 0)
    assert len(calls) == 1


@pytest.mark.parametrize("is_stuck", [False, True])
def test_batch_that_outlives_the_shutdown_is_abandoned(
    monkeypatch: pytest.MonkeyPatch, is_stuck: bool
) -> None:
    """Python cannot end the process normally while a thread is inside the engine."""
    exits: list[int] = []
    monkeypatch.setattr(serving, "os", SimpleNamespace(_exit=exits.append))
    service, _ = slow_service(1.5 if is_stuck else 0.0)
    service.start()
    context = RequestContext.with_timeout(0.1 if is_stuck else 9)
    with suppress(DeadlineExceeded):
        service.translate(context, ["a"], "en", "de", TextTranslationOptions(SETTINGS))
    service.close()
    serving.exit_if_batch_running(service)
    assert exits == [0] * is_stuck


_connections: list[list[Any]] = []


def _record_connections(event: str, arguments: tuple[Any, ...]) -> None:
    for each in _connections:
        if event == "socket.connect":
            each.append(arguments[1][0])
        elif event == "socket.getaddrinfo":
            each.append(arguments[0])


def test_service_makes_no_network_connections(model_directory: Path) -> None:
    """The only connections of the process are the requests of this test."""
    sys.addaudithook(_record_connections)  # cannot be removed; idle while the list is empty
    _connections.append(hosts := [])
    hello = {"text": "The animal.", "source": "auto", "target": "de", "alignment": True}
    html = {**HELLO, "format": "html", "q": "<img src=//a.b/c>A"}
    models = ModelRegistry.load([model_directory], load_served_model)
    service = Service(ServeConfig(port=0), models)
    with running(service) as port:
        assert send(port, "/api/v1/translate", hello)[0] == 200
        assert send(port, "/translate", html)[0] == 200
        assert send(port, "/api/v1/explain", {"text": "The animal.", "target": "de"})[0] == 200
        assert send(port, "/api/v1/lab")[0] == 200
        assert send(port, "/api/v1/models/tiny/positions")[0] == 200
        page = b'<!DOCTYPE html SYSTEM "http://a.example/x.dtd"><link href="http://a.example/y">A'
        service.translate_file(
            RequestContext.with_timeout(30), io.BytesIO(page), "a.html", "auto", "de"
        )
    _connections.clear()
    assert set(hosts) == {"127.0.0.1"}


def test_response_has_no_server_header() -> None:
    service, _ = slow_service(0.0)
    with running(service) as port:
        url = f"http://127.0.0.1:{port}/health"
        with urllib.request.urlopen(url, timeout=30) as response:
            assert "server" not in response.headers


def test_incomplete_request_times_out_without_blocking_others() -> None:
    service, _ = slow_service(0.0, request_seconds=0.5)
    with running(service) as port, socket.create_connection(("127.0.0.1", port)) as incomplete:
        head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        incomplete.sendall(head + b"Content-Length: 99\r\n\r\n{")
        assert send(port, "/translate", HELLO)[0] == 200
        incomplete.settimeout(10)
        assert b" 408 " in incomplete.recv(1000).split(b"\r\n")[0] + b" "


def test_clients_cannot_choose_their_address() -> None:
    """Without --public-url there is no proxy, and X-Forwarded-For must not change the rate."""
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


def test_overload_ends_in_results_or_429_in_time() -> None:
    """The queue holds half a second of work, and far more is sent. The deadline is long, so that
    other load on the machine does not matter."""
    deadline = 8.0
    service, _ = slow_service(
        0.1, batch_tokens=16, queue_tokens=80, request_seconds=deadline, concurrent_requests=64
    )

    def send_four(number: int) -> list[tuple[int, float]]:
        outcomes = []
        for turn in range(4):
            start = time.monotonic()
            body = {**HELLO, "q": [f"a{number}-{turn}"] * 4}
            status, result = send(port, "/translate", body)
            assert status != 200 or result["translatedText"] == [f"A{number}-{turn}"] * 4
            outcomes.append((status, time.monotonic() - start))
        return outcomes

    with running(service) as port, ThreadPoolExecutor(60) as pool:
        outcomes = [outcome for group in pool.map(send_four, range(60)) for outcome in group]
    assert len(outcomes) == 240
    assert Counter(status for status, _ in outcomes).keys() == {200, 429}
    assert max(seconds for _, seconds in outcomes) < deadline


def test_torch_translator_searches_like_served_translator(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    notes = {"stop_rule": "beam_full", "alignment": {"layer": 0, "heads": [1]}}
    replace(build_bundle(1), provenance=Provenance(notes=notes)).save(tmp_path)
    served, with_torch = load_served_model(tmp_path, "ctranslate2", precision="int8")
    assert any("int8 is not used" in note for note in served.engine_notes)  # it has no probes
    engine = with_torch.engine
    assert isinstance(engine, TorchEngine)
    assert (engine.stop_rule, engine.alignment.heads) == ("beam_full", (1,))


def test_model_directory_is_replaced_or_damaged_while_serving(
    model_directory: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "model"
    shutil.copytree(model_directory, directory)
    models = ModelRegistry.load([directory], load_torch)
    service = Service(ServeConfig(port=0, reload_seconds=60), models)
    service.start()

    def translate() -> str:
        options = TextTranslationOptions(SETTINGS.with_settings({"beam_size": 1}))
        context = RequestContext.with_timeout(30)
        (result,) = service.translate(context, [TEXTS[0]], "en", "de", options)
        assert result.error is None
        return result.text

    old = translate()
    build_bundle(2).save(directory)
    service.run_maintenance()  # the files may still change
    assert translate() == old
    service.run_maintenance()
    new = translate()
    assert new != old

    weights = directory / files.WEIGHTS_FILE
    intact = weights.read_bytes()
    for damaged in (intact[: len(intact) // 2], b"", intact[:-4] + b"abcd"):
        weights.write_bytes(damaged)  # in place: truncates the memory-mapped file
        service.run_maintenance()
        service.run_maintenance()
        assert "model.safetensors" in (models.first.reload_error or "")
        assert translate() == new
        assert service.is_ready
        context = RequestContext.with_timeout(30)
        trace = json.loads(service.explain(context, explain_request()))
        assert trace["format"] == "seq2see-trace"
    shutil.rmtree(directory)
    service.run_maintenance()
    service.run_maintenance()
    assert "does not exist" in (models.first.reload_error or "")
    assert translate() == new
    shutil.copytree(model_directory, directory)
    service.run_maintenance()
    service.run_maintenance()
    assert (models.first.reload_error, translate()) == (None, old)
    service.close()


def explain_request(**parameters: Any) -> Any:
    return ExplainRequest(text="The animal.", source="en", target="de", **parameters)


# Fuzzing.


@pytest.fixture(scope="module")
def operations(
    model_directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """The operations of the OpenAPI document by their labels."""
    import schemathesis  # noqa: PLC0415

    runs = tmp_path_factory.mktemp("runs")
    (runs / "tiny").mkdir()
    (runs / "tiny" / "log.jsonl").write_text('{"update": 1}\n')
    limits = LimitsConfig(
        characters=300, explain_characters=80, file_bytes=20_000, request_seconds=60
    )
    config = ServeConfig(port=0, limits=limits, beam_size=2)
    models = ModelRegistry.load([model_directory], load_torch)
    service = Service(config, models, runs_directory=runs)
    with running(service) as port, pytest.MonkeyPatch.context() as patch:
        # An experiment takes minutes.
        patch.setattr(lab, "_run_subprocess", lambda _, number: {"number": number})
        schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/spec")
        yield {each.ok().label: each.ok() for each in schema.get_all_operations()}


def fuzz(operation: Any, num_examples: int) -> Counter[int]:
    """Send valid and invalid requests; check that no response is 500 and that each conforms to
    the OpenAPI document; return the number of responses per status."""
    from schemathesis.checks import not_a_server_error  # noqa: PLC0415
    from schemathesis.generation import GenerationMode  # noqa: PLC0415
    from schemathesis.specs.openapi import checks  # noqa: PLC0415

    statuses: Counter[int] = Counter()
    conformance = (
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    )

    def send_case(case: Any) -> None:
        size = len(str(case.body))
        if isinstance(case.body, dict) and size % 4:  # else all fail at the languages
            case.body.update(source="en", target="de")
            case.body.pop("model", None)
            if operation.label in SEARCH_OPERATIONS and size % 2:  # else all fail at the limits
                case.body.update(beam_size=1 + size % 3, n_best=1 + size % 5)
        if "name" in case.path_parameters and size % 2:  # of a model or a run
            case.path_parameters["name"] = "tiny"
        response = case.call()
        statuses[response.status_code] += 1
        case.validate_response(response, checks=conformance)

    fuzz_settings = settings(
        max_examples=num_examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        with suppress(Unsatisfiable):  # a GET without parameters cannot be invalid
            fuzz_settings(given(case=operation.as_strategy(generation_mode=mode))(send_case))()
    return statuses


OPERATIONS_WITH_INPUT = [
    "POST /translate",
    "POST /detect",
    "POST /translate_file",
    "POST /api/v1/translate",
    "POST /api/v1/stream",
    "POST /api/v1/explain",
    "POST /api/v1/contrast",
    "POST /api/v1/head-ablation",
    "GET /api/v1/runs/{name}",
    "POST /api/v1/lab/{number}",
]
OTHER_OPERATIONS = [
    *("GET /languages", "GET /frontend/settings", "GET /health", "GET /metrics", "GET /ready"),
    *("GET /download_file/{name}", "GET /api/v1/runs", "GET /api/v1/lab"),
    *("GET /api/v1/models", "GET /api/v1/models/{name}", "GET /api/v1/models/{name}/positions"),
]
SEARCH_OPERATIONS = {"POST /api/v1/translate", "POST /api/v1/stream", "POST /api/v1/explain"}


@pytest.mark.filterwarnings("ignore")  # warnings of schemathesis and its dependencies
@pytest.mark.parametrize("label", OPERATIONS_WITH_INPUT)
def test_fuzzing_finds_no_500(operations: dict[str, Any], label: str) -> None:
    assert fuzz(operations[label], 10).keys() <= {200, 400, 404, 413, 429}


def test_every_operation_is_fuzzed(operations: dict[str, Any]) -> None:
    assert sorted(operations) == sorted([*OPERATIONS_WITH_INPUT, *OTHER_OPERATIONS])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", [*OPERATIONS_WITH_INPUT, *OTHER_OPERATIONS])
def test_long_fuzzing_finds_no_500(operations: dict[str, Any], label: str) -> None:
    has_input = label in OPERATIONS_WITH_INPUT
    statuses = fuzz(operations[label], 400 if has_input else 40)
    assert statuses.keys() <= {200, 400, 404, 413, 429}
    assert statuses[200] > 20 or not has_input or label == "POST /translate_file" or "{" in label


def test_connections_disable_nagles_algorithm() -> None:
    """Otherwise the second response on a connection waits for the client's ACK."""
    with open_socket(ServeConfig(port=0)) as listener:
        client = socket.create_connection(listener.getsockname())
        connection, _ = listener.accept()
        with client, connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
