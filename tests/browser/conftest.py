"""Fixtures: a service with a small random model, and browsers whose errors fail the test."""

from __future__ import annotations

import json
import shutil
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
import torch

from seq2see.bundle import Bundle
from seq2see.model import ModelConfig, Transformer
from seq2see.serve.authentication import ApiKeyStore
from seq2see.serve.config import ServeConfig
from seq2see.serve.model_registry import ModelRegistry, load_served_model
from seq2see.serve.monitoring import JsonLog
from seq2see.serve.service import Service
from seq2see.serve.uvicorn_server import create_server, open_socket
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.text.tokenizer_training import EOS_ID

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

SENTENCE = "the old animal slept because it was wide ."
PAIR = {"source": "en", "target": "de"}
VIEWS = {
    "translate": ".target-text .word",
    "attention": "svg.matrix",
    "decoding": "svg.beam",
    "attribution": "svg.matrix",
    "intervene": ".switch",
    "positions": ".positions .heat",
    "lab": ".experiment",
    "architecture": ".block",
    "training": ".curves",
}
"""A selector for each view that matches when the view is drawn."""
LINES = [
    f"the old animal number {n} didn't cross the wide street because it slept" for n in range(80)
]
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None
)
TIMEOUT_MS = 20_000
"""Timeout of browser actions in milliseconds; long, because the CPU may be busy."""


class RunningService:
    """A client of the running service."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"

    def request(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            return json.loads(response.read())

    def translate(self, **options: Any) -> Any:
        """Return the translation of the sentence."""
        body = {"text": SENTENCE, **PAIR, **options}
        return self.request("api/v1/translate", body)["translations"][0]

    def explain(self, **options: Any) -> Any:
        """Return the trace of the sentence."""
        return self.request("api/v1/explain", {"text": SENTENCE, **PAIR, **options})


def bundle() -> Bundle:
    """Build a random model that is deterministic and soon predicts the end token."""
    tokenizer = TokenizerConfig(vocab_size=90, byte_fallback=False)
    tokenizers = TokenizerPair.train(LINES, LINES, tokenizer)
    sizes = {"d_model": 32, "d_ff": 64, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    settings: Any = {**sizes, "embeddings": {"tie": "none", "output_bias": True}}
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **settings)
    torch.manual_seed(5)
    weights = Transformer.from_config(config).state_dict()
    weights["output.bias_V"][EOS_ID] = 1.0
    return Bundle(config, tokenizers, ("en", "de"), weights, max_length=200)


def write_run(directory: Path) -> None:
    directory.mkdir(parents=True)
    train = [
        {"kind": "train", "update": n, "epoch": 0, "nll": 9 - n / 10, "loss": 9 - n / 10}
        | {"learning_rate": n / 1e4, "gradient_norm": 1.5, "tokens_per_second": 5000.0}
        for n in range(1, 21)
    ]
    sample = ["<b>a</b>", "ein", "<img src=x onerror=window.hacked=1>"]
    validation = {
        "kind": "validation",
        "update": 20,
        "nll": 7.5,
        "bleu": 12.25,
        "examples": [sample],
    }
    lines = "".join(json.dumps(record) + "\n" for record in [*train, validation])
    (directory / "log.jsonl").write_text(lines)


@pytest.fixture(scope="session")
def sentence() -> str:
    return SENTENCE


@pytest.fixture(scope="session")
def views() -> tuple[str, ...]:
    """Return the names of all views."""
    return tuple(VIEWS)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """Run the service in a thread."""
    directory = tmp_path_factory.mktemp("page")
    bundle().save(directory / "tiny")
    write_run(directory / "runs" / "first")
    config = ServeConfig(port=0)
    models = ModelRegistry.load(
        [directory / "tiny"], lambda path: load_served_model(path, "torch", 1)
    )
    backend = Service(config, models, ApiKeyStore(None), JsonLog(), directory / "runs")
    with open_socket(config) as listener:
        server = create_server(backend)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield RunningService(listener.getsockname()[1])
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


class ViewPage:
    """A page of the browser with helpers; other attributes are those of Playwright's page."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def __getattr__(self, name: str) -> Any:
        return getattr(self._page, name)

    def read_number(self, name: str) -> float:
        """Return the displayed number with this data-number attribute."""
        text = self._page.locator(f'[data-number="{name}"]').first.text_content()
        assert text is not None
        return float(text.replace("−", "-").replace("\u202f", ""))

    def assert_shows(self, name: str, value: float) -> None:
        # Six decimals are shown, of a float32 sum whose rounding differs between CPUs.
        assert self.read_number(name) == pytest.approx(value, rel=2e-7, abs=1e-6), name

    def wait_until(self, condition: str, arg: Any = None) -> None:
        """Wait for a JavaScript condition.

        `wait_for_function` would need `eval`, which the page forbids.
        """
        for _ in range(400):
            if self._page.evaluate(condition, arg):
                return
            self._page.wait_for_timeout(50)
        raise AssertionError(condition)

    def set_state(self, view: str, **names: Any) -> None:
        """Change the state in the URL, as a link does."""
        self._page.evaluate("hash => { location.hash = hash; }", address(view, **names))

    def open_view(self, view: str) -> None:
        """Click the name of a view in the navigation."""
        self._page.locator(f'.views a[href^="#{view}"]').click()

    def wait(self, view: str) -> None:
        """Wait until a view is drawn and no request is running."""
        self._page.wait_for_selector(VIEWS[view])
        self.wait_until("!document.querySelector('.busy')")


def address(view: str, **names: Any) -> str:
    return f"#{view}?{urlencode({'text': SENTENCE, **PAIR, **names})}"


class CheckedBrowser:
    """A browser context that records errors and requests to other hosts than the service."""

    def __init__(self, context: BrowserContext, home: str) -> None:
        self.context, self.home = context, home
        self.other_requests: list[str] = []
        self.errors: list[str] = []
        context.set_default_timeout(TIMEOUT_MS)
        context.on("request", lambda request: self._record_request(request.url))
        context.on("console", lambda message: self._record_message(message.type, message.text))
        context.on("weberror", lambda error: self.errors.append(str(error.error)))

    def _record_request(self, url: str) -> None:
        if not url.startswith((self.home, "data:", "blob:")):
            self.other_requests.append(url)

    def _record_message(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.errors.append(text)

    def open(self, view: str, **names: Any) -> ViewPage:
        """Open a view, by default of the test sentence."""
        return self.visit(self.home + address(view, **names))

    def visit(self, url: str) -> ViewPage:
        page = self.context.new_page()
        page.goto(url)
        return ViewPage(page)


BrowserFactory = Callable[..., CheckedBrowser]


@pytest.fixture
def open_browser(service: RunningService, browser: Browser) -> Iterator[BrowserFactory]:
    """Return a function that opens browsers; afterwards they must have no errors."""
    opened: list[CheckedBrowser] = []

    def open_context(width: int = 1280, **settings: Any) -> CheckedBrowser:
        settings = {"viewport": {"width": width, "height": 900}, "locale": "en", **settings}
        opened.append(CheckedBrowser(browser.new_context(**settings), service.url))
        return opened[-1]

    yield open_context
    for each in opened:
        each.context.close()
    assert [error for each in opened for error in each.errors] == []
    assert [url for each in opened for url in each.other_requests] == []
