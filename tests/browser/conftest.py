"""A service with a small random model, and a browser in which nothing may go wrong."""

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
from seq2see.serve.auth import ApiKeyStore
from seq2see.serve.config import ServeConfig
from seq2see.serve.model_registry import ModelRegistry, load_served_model
from seq2see.serve.monitoring import JsonLog
from seq2see.serve.server import create_server, open_socket
from seq2see.serve.service import Service
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
    "intervene": ".switch",
    "positions": ".positions .heat",
    "lab": ".experiment",
    "architecture": ".block",
    "training": ".curves",
}
"""What each has once it is there."""
LINES = [
    f"the old animal number {n} didn't cross the wide street because it slept" for n in range(80)
]
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None
)
PATIENCE = 20_000
"""Milliseconds: two cores may be busy with other things."""


class Site:
    """The running service, as a program sees it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.loads(answer.read())

    def translated(self, **wishes: Any) -> Any:
        """Return what it tells of the sentence."""
        body = {"text": SENTENCE, **PAIR, **wishes}
        return self.ask("api/v1/translate", body)["translations"][0]

    def explained(self, **wishes: Any) -> Any:
        """Return the sentence's trace."""
        return self.ask("api/v1/explain", {"text": SENTENCE, **PAIR, **wishes})


def bundle() -> Bundle:
    """Make a model that understands nothing, always says the same, and soon comes to an end."""
    pieces = TokenizerConfig(vocab_size=90, byte_fallback=False)
    tokenizers = TokenizerPair.train(LINES, LINES, pieces)
    sizes = {"d_model": 32, "d_ff": 64, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    settings: Any = {**sizes, "embeddings": {"tie": "none", "output_bias": True}}
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **settings)
    torch.manual_seed(5)
    weights = Transformer.from_config(config).state_dict()
    weights["output.bias_V"][EOS_ID] = 1.0
    return Bundle(config, tokenizers, ("en", "de"), weights, max_length=200)


def write_run(folder: Path) -> None:
    folder.mkdir(parents=True)
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
    (folder / "log.jsonl").write_text(lines)


@pytest.fixture(scope="session")
def sentence() -> str:
    return SENTENCE


@pytest.fixture(scope="session")
def views() -> tuple[str, ...]:
    """The names of all."""
    return tuple(VIEWS)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Serve from a thread of this process."""
    home = tmp_path_factory.mktemp("page")
    bundle().save(home / "tiny")
    write_run(home / "runs" / "first")
    config = ServeConfig(port=0, threads=1)
    models = ModelRegistry.load(
        [home / "tiny"], lambda folder: load_served_model(folder, "torch", 1)
    )
    service = Service(config, models, ApiKeyStore(None), JsonLog(), home / "runs")
    with open_socket(config) as listener:
        one = create_server(service)
        thread = threading.Thread(target=one.run, kwargs={"sockets": [listener]})
        thread.start()
        while not one.started:
            time.sleep(0.01)
        yield Site(listener.getsockname()[1])
        one.should_exit = True
        thread.join(20)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield started
        started.close()


class Screen:
    """A page, and what people do with it and read there; all else is that of Playwright's."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def __getattr__(self, name: str) -> Any:
        return getattr(self._page, name)

    def shown(self, name: str) -> float:
        """Return a number as people read it."""
        text = self._page.locator(f'[data-number="{name}"]').first.text_content()
        assert text is not None
        return float(text.replace("−", "-").replace("\u202f", ""))

    def assert_shows(self, name: str, value: float) -> None:
        assert self.shown(name) == pytest.approx(value, abs=1e-6), name

    def until(self, condition: str, arg: Any = None) -> None:
        """Wait for a condition; `wait_for_function` would need `eval`, which the page forbids."""
        for _ in range(400):
            if self._page.evaluate(condition, arg):
                return
            self._page.wait_for_timeout(50)
        raise AssertionError(condition)

    def go(self, view: str, **names: Any) -> None:
        """Change the address, as a link would."""
        self._page.evaluate("hash => { location.hash = hash; }", address(view, **names))

    def turn_to(self, view: str) -> None:
        """Click a view's name above."""
        self._page.locator(f'.views a[href^="#{view}"]').click()

    def wait(self, view: str) -> None:
        """Wait until a view is there and nothing is on its way."""
        self._page.wait_for_selector(VIEWS[view])
        self.until("!document.querySelector('.busy')")


def address(view: str, **names: Any) -> str:
    return f"#{view}?{urlencode({'text': SENTENCE, **PAIR, **names})}"


class Watched:
    """A browser's context whose pages may ask nobody but the service, and whose errors count."""

    def __init__(self, context: BrowserContext, home: str) -> None:
        self.context, self.home = context, home
        self.strayed: list[str] = []
        self.errors: list[str] = []
        context.set_default_timeout(PATIENCE)
        context.on("request", lambda request: self._see(request.url))
        context.on("console", lambda message: self._hear(message.type, message.text))
        context.on("weberror", lambda error: self.errors.append(str(error.error)))

    def _see(self, url: str) -> None:
        if not url.startswith((self.home, "data:", "blob:")):
            self.strayed.append(url)

    def _hear(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.errors.append(text)

    def open(self, view: str, **names: Any) -> Screen:
        """Open a view, of the sentence if nothing else is said."""
        return self.visit(self.home + address(view, **names))

    def visit(self, url: str) -> Screen:
        page = self.context.new_page()
        page.goto(url)
        return Screen(page)


Opener = Callable[..., Watched]


@pytest.fixture
def watched(site: Site, browser: Browser) -> Iterator[Opener]:
    """Contexts of any size and colours; at the end nobody had an error or asked elsewhere."""
    made: list[Watched] = []

    def make(width: int = 1280, **settings: Any) -> Watched:
        settings = {"viewport": {"width": width, "height": 900}, "locale": "en", **settings}
        made.append(Watched(browser.new_context(**settings), site.url))
        return made[-1]

    yield make
    for each in made:
        each.context.close()
    assert [error for each in made for error in each.errors] == []
    assert [url for each in made for url in each.strayed] == []
