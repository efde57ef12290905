"""Measure the cost of hostile requests: seconds, memory, and the delay of other requests.

    python -m benchmarks.request_cost [--only PART_OF_NAME] [--formats]

The service runs in a separate process with a model of random weights, which never ends a
translation, and whose sentences have no length limit. While a request is processed, /health and a
short translation are requested again and again. `--formats` measures instead how the time to
translate a document grows from 100 kB to 1 MB, for each format and each hostile pattern, without a
model.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from seq2see.bundle import Bundle
from seq2see.errors import Seq2SeeError
from seq2see.model import ModelConfig, Transformer
from seq2see.serve.config import LimitsConfig
from seq2see.serve.errors import ServiceError
from seq2see.serve.uploaded_file_translation import parse_file, translate_uploaded_file
from seq2see.translator import AlignmentLink, Translation, TranslationOptions

MAX_VIRTUAL_BYTES = 24 << 30
MAX_SECONDS = 90.0
"""The measurement of a case ends after this time."""
JSON = {"Content-Type": "application/json"}
WORDPROCESSING = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


@dataclass(frozen=True)
class Case:
    """A hostile request, sent by several clients at the same time."""

    name: str
    path: str
    body: bytes
    headers: dict[str, str]
    clients: int = 1


def json_case(name: str, path: str, body: dict[str, Any], clients: int = 1) -> Case:
    """Return a case whose body is JSON."""
    return Case(name, path, json.dumps(body).encode(), JSON, clients)


def file_case(name: str, file_name: str, content: bytes, source: str = "en") -> Case:
    """Return a case that uploads a file."""
    return Case(name, "/translate_file", *encode_upload(file_name, content, source))


def encode_upload(file_name: str, content: bytes, source: str) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of an upload."""
    fields = "".join(
        f'--B\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("source", source), ("target", "fr"))
    )
    head = f'--B\r\nContent-Disposition: form-data; name="file"; filename="{file_name}"\r\n\r\n'
    body = fields.encode() + head.encode() + content + b"\r\n--B--\r\n"
    return body, {"Content-Type": "multipart/form-data; boundary=B"}


def build_docx(document: bytes, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a Word document with this main part."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", compression) as archive:
        archive.writestr("word/document.xml", document)
    return output.getvalue()


def understate_size(archive: bytes, size: int) -> bytes:
    """Return an archive with one file whose headers state a wrong size."""
    data, directory = bytearray(archive), archive.rindex(b"PK\1\2")
    for offset in (22, directory + 24):
        data[offset : offset + 4] = size.to_bytes(4, "little")
    return bytes(data)


def build_run_copies() -> bytes:
    """Return a Word document with many breaks in runs with long properties."""
    properties = f'<w:rPr><w:rFonts w:ascii="{"x" * 200_000}"/></w:rPr>'
    run = f"<w:r>{properties}{'<w:t>word</w:t><w:br/>' * 2000}</w:r>"
    body = f"<w:body><w:p>{run}</w:p></w:body>"
    return build_docx(f'<w:document xmlns:w="{WORDPROCESSING}">{body}</w:document>'.encode())


def build_cases() -> Iterator[Case]:
    """Yield all cases."""
    pair = {"source": "en", "target": "fr"}
    form = b'--B\r\nContent-Disposition: form-data; name="q-"\r\n\r\n' + b"b" * 990_000
    multipart = {"Content-Type": "multipart/form-data; boundary=B; charset=punycode"}
    yield Case("multipart punycode", "/translate", form + b"\r\n--B--\r\n", multipart)
    for name, compression in (("bzip2", 12), ("lzma", 14), ("deflate", 8)):
        archive = build_docx(b" " * 300_000_000, compression)
        yield file_case(f"docx {name} bomb", "a.docx", understate_size(archive, 1000))
    yield file_case("docx run copies", "a.docx", build_run_copies())
    search = {"beam_size": 20, "n_best": 6}
    text = "the dog sees a cat and " * 20
    traced = {**pair, "text": text[:500], "beam_size": 20, "n_best": 20}
    yield json_case("explain beam 20", "/api/v1/explain", traced)
    all_layers = {**traced, "trace_options": {"layers": "all"}}
    yield json_case("explain all layers", "/api/v1/explain", all_layers)
    for method in ("integrated_gradients", "occlusion"):
        options = {"attributions": [method], "word_alternatives": True}
        few = {**pair, "text": text[:300], "beam_size": 1, "trace_options": options}
        yield json_case(f"explain {method} twice", "/api/v1/explain", few, clients=2)
    prefix = ("le chien voit un chat et " * 50)[:1000]
    many = {**pair, **search, "text": ["a"] * 128, "prefix": prefix}
    yield json_case("128 texts, prefix", "/api/v1/translate", many, clients=2)
    glossary = {f"a{chr(97 + n % 26)}{n}": "chien" for n in range(49)} | {"a": "mot " * 60}
    terms = {**pair, **search, "text": " ".join(glossary), "glossary": glossary}
    yield json_case("glossary of 50", "/api/v1/translate", terms)
    long_texts = {**pair, **search, "text": [f"{text[:70]}{n}" for n in range(128)]}
    yield json_case("128 texts, beam 20", "/api/v1/translate", long_texts)
    contrast = {"translation": text[:250], "contrastive_translation": "x " * 120}
    ablation = {**pair, "text": text[:250], **contrast}
    yield json_case("head ablation", "/api/v1/head-ablation", ablation)
    yield file_case("newlines 9.9 MB", "a.txt", b"\n" * 9_900_000)
    yield file_case("newlines and spaces, auto", "a.txt", b"a \n" * 3_000_000, "auto")
    yield Case("JSON 11 MB to translate_file", "/translate_file", nested_json(10_900_000), JSON)
    yield Case("JSON 1 MB to translate", "/translate", nested_json(990_000), JSON)
    yield Case("JSON 1 MB to api/v1", "/api/v1/translate", nested_json(990_000), JSON)
    detected = {"text": "ab " * 3000, "target": "fr"}
    yield json_case("detection for a stream", "/api/v1/stream", detected)
    yield Case("150 uploads", *_upload_without_field())
    for pattern, name in (("a %s ", "a.txt"), ("{a} b ", "a.txt"), ("<b>a ", "a.html")):
        content = (pattern * 10_000_000)[:9_900_000].encode()
        yield file_case(f"10 MB of {pattern!r}", name, content)


def nested_json(size: int) -> bytes:
    """Return JSON with many small values."""
    return b'{"q": [' + b",".join([b"[]"] * (size // 3)) + b"]}"


def _upload_without_field() -> tuple[str, bytes, dict[str, str], int]:
    return "/translate_file", *encode_upload("a.txt", b"x" * 9_900_000, "xx"), 150


class Service:
    """`seq2see serve` in a separate process."""

    def __init__(self, model: Path, options: Sequence[str] = ()) -> None:
        command = [sys.executable, "-m", "seq2see", "serve", str(model), "--port", "0", *options]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=limit_memory,  # noqa: PLW1509 this process has no threads yet
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline().strip().rsplit(":", 1)[1])

    def peak_megabytes(self, field: str = "VmHWM") -> float:
        """Return the resident memory of the service, by default its maximum."""
        status = Path(f"/proc/{self._process.pid}/status").read_text("ascii")
        match = re.search(rf"{field}:\s+(\d+)", status)
        return int(match[1]) / 1024 if match else float("nan")

    def reset_peak(self) -> None:
        """Set the maximum of the resident memory to the current value."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5", "ascii")

    def send(self, case: Case, address: str = "127.0.0.1") -> int:
        """Send a request from an address; return its status, or 0 if there was no response."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=MAX_SECONDS, source_address=(address, 0)
        )
        try:
            method = "POST" if case.body else "GET"
            connection.request(method, case.path, case.body or None, case.headers)
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()
        return response.status

    def stop(self) -> None:
        """Stop the service."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()


def limit_memory() -> None:
    """Limit the virtual memory of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_VIRTUAL_BYTES, MAX_VIRTUAL_BYTES))


@contextmanager
def poll(service: Service, case: Case, pause: float) -> Iterator[list[float]]:
    """Send a request again and again, and yield the list of its seconds."""
    seconds: list[float] = []
    end = threading.Event()

    def run() -> None:
        while not end.is_set():
            start = time.perf_counter()
            service.send(case, "127.0.0.2")  # another client, for the fairness of the queue
            seconds.append(time.perf_counter() - start)
            end.wait(pause)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield seconds
    finally:
        end.set()
        thread.join()


HEALTH = Case("health", "/health", b"", {})
SHORT = json_case("short", "/api/v1/translate", {"text": "A dog.", "source": "en", "target": "fr"})


def measure(service: Service, case: Case) -> str:
    """Send a case and return a row of the table."""
    before = service.peak_megabytes("VmRSS")
    service.reset_peak()
    with poll(service, HEALTH, 0.02) as idle:
        time.sleep(2.0)
    start = time.perf_counter()
    with (
        poll(service, HEALTH, 0.02) as health,
        poll(service, SHORT, 0.2) as other,
        ThreadPoolExecutor(case.clients) as pool,
    ):
        statuses = list(pool.map(service.send, [case] * case.clients))
        elapsed = time.perf_counter() - start
    counts = ", ".join(f"{n}: {statuses.count(n)}" for n in sorted(set(statuses)))
    return (
        f"| {case.name} | {counts} | {elapsed:.1f} | {service.peak_megabytes() - before:,.0f} "
        f"| {1000 * max(health):,.0f} ({1000 * max(idle):,.0f}) | {max(other):.1f} |"
    )


def save_endless_model(directory: Path) -> None:
    """Write a model directory with random weights and without a length limit."""
    golden = Bundle.load(Path(__file__).parents[1] / "tests/golden/model")
    config = ModelConfig(
        vocab_size=golden.config.vocab_size,
        d_model=128,
        d_ff=512,
        heads=4,
        encoder_layers=4,
        decoder_layers=4,
    )
    torch.manual_seed(1)
    weights = Transformer.from_config(config).state_dict()
    Bundle(config, golden.tokenizers, ("en", "fr"), weights).save(directory)


def measure_requests(only: str) -> None:
    """Print the table of the cost of requests."""
    with tempfile.TemporaryDirectory() as directory:
        save_endless_model(Path(directory))
        print("| request | responses | seconds | MB | /health, ms (idle) | other, s |", flush=True)
        for case in build_cases():
            if only in case.name:
                service = Service(Path(directory))
                try:
                    print(measure(service, case), flush=True)
                finally:
                    service.stop()


class CopyingTranslator:
    """Copies blocks, so that only the time of the documents is measured."""

    languages = ("en", "fr")
    max_sentences_per_line = 1

    def translate_blocks(self, blocks: Sequence[Any], _: Any) -> list[Any]:
        """Return each block as its own translation."""
        return [
            Translation(
                block.text,
                -1.0,
                -1.0,
                alignment=tuple(
                    AlignmentLink(*match.span(), *match.span(), 1.0)
                    for match in re.finditer(r"\w+", block.text)
                ),
            )
            for block in blocks
        ]


def build_document(name: str, pattern: str, size: int) -> bytes:
    """Return a document with a repeated pattern in paragraphs as long as the limit allows."""
    count = LimitsConfig().paragraph_characters // len(pattern)
    paragraph = pattern * min(count, size // len(pattern.encode()))
    number = max(1, size // len(paragraph.encode()))
    before, build, after = WRAPPERS[name]
    if name == "docx":
        return build_docx((before + build(paragraph) * number + after).encode())
    return (before + build(paragraph) * number + after).encode()


def escape_po(text: str) -> str:
    """Return text for a PO file."""
    return text.replace('"', '\\"').replace("\n", "\\n")


def escape_xml(text: str) -> str:
    """Return text for XML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


WRAPPERS: dict[str, tuple[str, Callable[[str], str], str]] = {
    "txt": ("", lambda text: f"{text}\n", ""),
    "html": ("", lambda text: f"<p>{text}", ""),
    "srt": ("", lambda text: f"1\n00:00:01,0 --> 00:00:02,0\n{text}\n\n", ""),
    "vtt": ("WEBVTT\n\n", lambda text: f"00:01.000 --> 00:02.000\n{text}\n\n", ""),
    "po": ("", lambda text: f'msgid "{escape_po(text)}"\nmsgstr ""\n\n', ""),
    "docx": (
        f'<w:document xmlns:w="{WORDPROCESSING}"><w:body>',
        lambda text: f"<w:p><w:r><w:t>{escape_xml(text)}</w:t></w:r></w:p>",
        "</w:body></w:document>",
    ),
    "tmx": (
        '<tmx version="1.4"><header srclang="en"/><body>',
        lambda text: f'<tu><tuv xml:lang="en"><seg>{escape_xml(text)}</seg></tuv></tu>',
        "</body></tmx>",
    ),
    "xliff": (
        '<xliff version="1.2"><file><body>',
        lambda text: f'<trans-unit id="1"><source>{escape_xml(text)}</source></trans-unit>',
        "</body></file></xliff>",
    ),
}
"""Start of a document, function that wraps a paragraph, and end of the document, by extension."""
PATTERNS = (
    *("a %s ", "{a} b ", "<p>a", "\n", "a\n", "<b>a ", "a ", "a. ", "“", "a@", "(", "&amp;"),
    *("<b>a</b> ", "<a href=x>a</a> ", "http://a ", "1 ", "%", "{", "[", '"', "a\t", "é", "字"),
    *("<!--", "a,plural,{", "&", "_a", "\\\\", "a-->", "--> ", "- a\n", "a \n \n", "- a - b "),
)


def measure_document(name: str, pattern: str, size: int) -> float:
    """Return the CPU seconds to translate a document of one pattern."""
    content, limits = build_document(name, pattern, size), LimitsConfig()
    start = time.process_time()
    try:
        document = parse_file(content, f"x.{name}", limits)
        options, max_characters = TranslationOptions(), limits.paragraph_characters
        translate_uploaded_file(CopyingTranslator(), document, options, max_characters)
    except (Seq2SeeError, ServiceError):
        pass  # it exceeds a limit
    return time.process_time() - start


def measure_formats(only: str) -> None:
    """Print the growth of the time of each format and pattern, and the memory of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    print("| document | 10 kB, s | 100 kB, s | 1 MB, s | ratio | peak MB |")
    for name in WRAPPERS:
        for pattern in PATTERNS:
            label = f"{name} {pattern!r}"
            if only in label:
                seconds = [measure_document(name, pattern, 10_000)]
                for size in (100_000, 1_000_000):
                    if seconds[-1] < 2.0:
                        seconds.append(measure_document(name, pattern, size))
                ratio = seconds[-1] / max(seconds[-2], 0.05)
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                cells = [f"{each:.2f}" for each in seconds] + ["–"] * (3 - len(seconds))
                mark = "" if ratio <= 12 and len(seconds) == 3 else " !"
                print(
                    f"| {label} | {' | '.join(cells)} | {ratio:.1f}{mark} | {peak:,.0f} |",
                    flush=True,
                )


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--formats", action="store_true")
    arguments = parser.parse_args()
    (measure_formats if arguments.formats else measure_requests)(arguments.only)


if __name__ == "__main__":
    main()
