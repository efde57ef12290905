#!/usr/bin/env python
"""Count and list the source files whose functions run on the main paths of seq2see.

    .venv/bin/python scripts/count_path_files.py                   # all paths, about two minutes
    .venv/bin/python scripts/count_path_files.py translate serve   # some of them
    .venv/bin/python scripts/count_path_files.py --root ../other   # another checkout

translate  Token ids to hypotheses in the torch engine: the files that are neither part of the model
           nor of the translator around the engine.
train      `seq2see train` up to the first checkpoint, with one and with two processes: the files of
           cli, settings, config, data, training and bundle.
serve      `POST /translate` with one line to a service that has answered a request before.
explain    `seq2see explain MODEL TEXT -o x.html`.

A file of `src/seq2see` counts if one of its functions is called. Code that runs when a module is
imported does not count. Calls are recorded with `sys.setprofile` in all threads and worker
processes. The script trains its own tiny model. It uses only the command line, `seq2see.load` and
HTTP, so that it also runs on older checkouts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

NOT_ENGINE = ("model/", "text/", "translator/", "bundle/", "config.py", "errors.py", "__init__.py")
"""Files that `translate` does not count."""
TRAINING = ("cli/", "settings/", "config.py", "data/", "training/", "bundle/")
"""Files that `train` counts."""
TIMEOUT = 300
"""Seconds to wait for a checkpoint or for the service."""

RECORDER = '''
"""Write the files whose functions run to COUNT_OUTPUT, in one list per process."""
import inspect, os, signal, sys, threading

_source = os.environ["COUNT_SOURCE"] + os.sep
_output = os.environ["COUNT_OUTPUT"]
_recorded = set()


def _is_importing(frame):
    while frame is not None:
        code, name = frame.f_code, frame.f_globals.get("__name__")
        if code.co_name == "<module>" and code.co_filename.startswith(_source):
            if name != "__main__":
                return True
        frame = frame.f_back
    return False


def _record(frame, event, argument):
    code = frame.f_code
    file = code.co_filename
    if event != "call" or file in _recorded or not file.startswith(_source):
        return
    is_function = code.co_flags & inspect.CO_OPTIMIZED  # not the body of a module or class
    if is_function and not _is_importing(frame):
        _recorded.add(file)
        with open(os.path.join(_output, str(os.getpid())), "a") as output:
            output.write(file[len(_source):] + "\\n")


def _reset(*_):
    _recorded.clear()
    for name in os.listdir(_output):
        os.remove(os.path.join(_output, name))


signal.signal(signal.SIGUSR1, _reset)
threading.setprofile(_record)
sys.setprofile(_record)
'''

TRANSLATE = """
import os, signal, sys, seq2see
translator = seq2see.load(sys.argv[1], engine="torch")
translator.translate(["the dog sees some water."])
os.kill(os.getpid(), signal.SIGUSR1)
translator.translate(["the dog sees a red house.", "a cat likes bread."])
sys.setprofile(None)
"""

RECIPE = """
[data]
languages = ["en", "de"]
train = [{files = ["train.en", "train.de"]}]
valid = {files = ["valid.en", "valid.de"]}
[tokenizer]
vocab_size = 320
[batches]
max_tokens = 2048
[train]
max_updates = 20
processes = 1
threads = 1
[schedule]
warmup_updates = 5
[checkpoints]
interval = 10
[model]
preset = "tiny"
d_model = 32
d_ff = 32
encoder_layers = 2
decoder_layers = 2
"""
OLD_KEYS = {
    "max_tokens": "tokens",
    "max_updates": "updates",
    "warmup_updates": "warmup",
    "interval": "every",
}
"""Keys of the recipe up to commit c352247."""


class Checkout:
    """A checkout of the repository whose commands are run in a temporary directory."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.source = root.resolve() / "src" / "seq2see"
        self.directory = directory
        recorder = directory / "recorder"
        recorder.mkdir()
        (recorder / "sitecustomize.py").write_text(RECORDER, "utf-8")
        (directory / "recipe.toml").write_text(self.adapt_keys(RECIPE), "utf-8")
        write_corpus(directory)

    def adapt_keys(self, text: str) -> str:
        """Replace the keys of a recipe by those of the checkout, if it is an old one."""
        config = (self.source / "training" / "config.py").read_text("utf-8")
        keys = {} if "max_updates" in config else OLD_KEYS
        for new, old in keys.items():
            text = re.sub(rf"\b{new}\b", old, text)
        return text

    def seq2see(self, *arguments: str) -> list[str]:
        """Return the arguments of a process that runs a seq2see command."""
        return [sys.executable, "-m", "seq2see", *arguments]

    def environment(self, record: str | None = None) -> dict[str, str]:
        """Return the environment of a process; `record` is where it writes the files that run."""
        paths, own = [str(self.source.parent)], {"OMP_NUM_THREADS": "1"}
        if record is not None:
            output = self.directory / record
            output.mkdir()
            paths.insert(0, str(self.directory / "recorder"))
            own |= {"COUNT_SOURCE": str(self.source), "COUNT_OUTPUT": str(output)}
        return {**os.environ, **own, "PYTHONPATH": os.pathsep.join(paths)}

    def run(self, command: Sequence[str], record: str | None = None) -> None:
        """Run a process to its end."""
        environment = self.environment(record)
        done = subprocess.run(
            command, check=False, cwd=self.directory, env=environment, capture_output=True
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr.decode()}")

    @contextmanager
    def running(self, command: Sequence[str], record: str) -> Iterator[Path]:
        """Run a process and its children until the block ends; yield the file with its output."""
        log = self.directory / f"{record}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=self.environment(record),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                yield log
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def recorded(self, record: str) -> set[str]:
        """Return the files that ran in a process and its children."""
        lists = (self.directory / record).iterdir()
        return {line for path in lists for line in path.read_text("utf-8").splitlines()}


def write_corpus(directory: Path) -> None:
    """Write training and validation sets of simple sentences, English and German."""
    subjects = {"the dog": "der Hund", "a cat": "eine Katze", "my friend": "mein Freund"}
    subjects |= {"the old man": "der alte Mann", "her sister": "ihre Schwester"}
    verbs = {"sees": "sieht", "buys": "kauft", "likes": "mag", "finds": "findet", "has": "hat"}
    objects = {"a red house": "ein rotes Haus", "this book": "dieses Buch", "bread": "Brot"}
    objects |= {"the blue car": "das blaue Auto", "some water": "etwas Wasser"}
    times = {"today": "heute", "again": "wieder", "every day": "jeden Tag", "here": "hier"}
    pairs = [
        (f"{s} {v} {o} {t}.", f"{subjects[s]} {verbs[v]} {objects[o]} {times[t]}.")
        for s in subjects
        for v in verbs
        for o in objects
        for t in times
    ]
    sets = {"valid": pairs[::10], "train": [p for i, p in enumerate(pairs) if i % 10]}
    for name, part in sets.items():
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in part)
            (directory / f"{name}.{language}").write_text(text, "utf-8")


def wait_for(find: Callable[[], T | None]) -> T:
    """Return the result of a function as soon as it is not None."""
    end = time.monotonic() + TIMEOUT
    while (found := find()) is None:
        if time.monotonic() > end:
            raise SystemExit(f"no result within {TIMEOUT} seconds")
        time.sleep(0.05)
    return found


def record_translate(checkout: Checkout, model: str) -> set[str]:
    """Return the files from token ids to hypotheses."""
    checkout.run([sys.executable, "-c", TRANSLATE, model], "translate")
    return {name for name in checkout.recorded("translate") if not name.startswith(NOT_ENGINE)}


def record_train(checkout: Checkout, processes: int) -> set[str]:
    """Return the files of a training run up to its first checkpoint."""
    run = checkout.directory / f"run-{processes}"
    record = f"train-{processes}"
    limits = checkout.adapt_keys("train.max_updates=100000 validation.interval=100000").split()
    settings = [f"train.processes={processes}", *limits]
    command = checkout.seq2see("train", "recipe.toml", "-o", str(run), *settings)
    with checkout.running(command, record):
        wait_for(lambda: next(run.glob("**/*checkpoint*/**/*.safetensors"), None))
        time.sleep(1)  # the following updates use the same files
    return {name for name in checkout.recorded(record) if name.startswith(TRAINING)}


def record_serve(checkout: Checkout, model: str) -> set[str]:
    """Return the files of one request to a service that has answered a request before."""
    command = checkout.seq2see("serve", model, "--port", "0", "--engine", "torch")
    with checkout.running(command, "serve") as log:
        address = re.compile(r"http://127\.0\.0\.1:\d+")
        url = wait_for(lambda: address.search(log.read_text("utf-8")))[0]
        post_translate(url, "a cat likes bread here.")
        time.sleep(0.5)  # until the request is logged
        (process,) = (checkout.directory / "serve").iterdir()
        os.kill(int(process.name), signal.SIGUSR1)
        time.sleep(0.5)
        post_translate(url, "the dog sees a red house.")
        time.sleep(0.5)
        return checkout.recorded("serve")


def post_translate(url: str, text: str) -> None:
    """Translate a text with a service."""
    body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/translate", body, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        response.read()


def record_explain(checkout: Checkout, model: str) -> set[str]:
    """Return the files of an explanation that is written as a page."""
    text = "the dog sees a red house."
    command = checkout.seq2see("explain", model, text, "-o", "x.html", "--engine", "torch")
    checkout.run(command, "explain")
    return checkout.recorded("explain")


MODEL_PATHS = {"translate": record_translate, "serve": record_serve, "explain": record_explain}
PATHS = ("translate", "train", "serve", "explain")


def count_files(root: Path, paths: Sequence[str]) -> Iterator[tuple[str, set[str]]]:
    """Yield the title of each path and the files whose functions run on it."""
    with tempfile.TemporaryDirectory() as directory:
        checkout = Checkout(root, Path(directory))
        model = str(checkout.directory / "model")
        if set(paths) & MODEL_PATHS.keys():
            checkout.run(checkout.seq2see("train", "recipe.toml", "-o", model))
        for path in paths:
            if path in MODEL_PATHS:
                yield path, MODEL_PATHS[path](checkout, model)
            else:
                yield "train, one process", record_train(checkout, 1)
                yield "train, two processes", record_train(checkout, 2)


def main() -> None:
    """Print the files of the paths that are named on the command line."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", help=f"{', '.join(PATHS)} (all)")
    root = Path(__file__).parent.parent
    parser.add_argument("--root", type=Path, default=root, help="checkout to examine (this one)")
    arguments = parser.parse_args()
    if unknown := set(arguments.paths) - set(PATHS):
        parser.error(f"PATH must be one of {', '.join(PATHS)}, but is {', '.join(unknown)}")
    for title, files in count_files(arguments.root, arguments.paths or PATHS):
        print(f"{title}: {len(files)} files")
        print("".join(f"    {name}\n" for name in sorted(files)), flush=True)


if __name__ == "__main__":
    main()
