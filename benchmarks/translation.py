"""Translation beside `transformers`, JoeyNMT 2.3 and ctranslate2 itself: the same weights for all.

    scripts/peers && python -m benchmarks.translation MARIAN [FILE] [--reference FILE]
        [--lines 1000] [--rounds 5] [--threads 2]

MARIAN is a model in Hugging Face's form, which is converted for each system. Text goes in and text
comes out; ctranslate2 itself gets ready-made tokens instead. They take turns, so that a busy
machine is unfair to none; the figures are medians. Each has sorted batches of the size that suits
it best, tried out first, and ctranslate2 a worker for each thread. Latency is that of one sentence
after the other. `transformers` and JoeyNMT have processes of their own, JoeyNMT also its own
environment; where there is none, it is left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from sacrebleu import corpus_bleu

import seq2see
from benchmarks.machine import seconds
from benchmarks.translators import hugging_face, ready
from benchmarks.translators.joeynmt_copy import PEERS, SIZES, JoeyNMT
from seq2see import interop
from seq2see.data.readers import read_lines
from seq2see.text import Tokenizer

Translate = Callable[[list[str]], Any]
BEAMS = (1, 5)
LATENCY_LINES = 60
PROBES = 16
TRIED_LINES = 512
"""On so many the best size of a batch is found, for systems that are slow."""
OURS, FAST, QUICK = "ours, torch", "ours, ctranslate2", "ours, ctranslate2 int8"
READY = "ctranslate2, ready tokens"


def test_set(language: str) -> Path:
    """Return a side of multi30k's test set."""
    data = Path(os.environ.get("SEQ2SEE_DATA", "../shared/data"))
    return data / f"multi30k/test_2016_flickr.{language}.gz"


def systems(
    marian: Path, home: Path, beam: int, threads: int, lines: list[str], stack: ExitStack
) -> Iterator[tuple[str, Translate]]:
    """Yield each system by its name, at its best size of batch."""
    own = seq2see.load(home, "torch", threads=threads)
    fast = seq2see.load(home, "ctranslate2", threads=threads)
    quick = seq2see.load(home, "ctranslate2", threads=threads, precision="int8")
    yield OURS, texts(own, beam)
    yield FAST, texts(fast, beam)
    yield ", ".join((QUICK, *quick.engine_notes)), texts(quick, beam)
    yield best(READY, partial(ready.translator, fast, beam), ready.SIZES, lines)
    peer = hugging_face.HuggingFace(marian, own, beam, threads)
    stack.enter_context(peer.process)
    few = lines[:TRIED_LINES]
    yield best("transformers", peer.translator, hugging_face.SIZES, few)
    if PEERS.exists():
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        joeynmt = JoeyNMT(own, folder, beam, threads)
        stack.enter_context(joeynmt.system)
        yield best("JoeyNMT 2.3", joeynmt.translator, SIZES, few)
    else:
        print("JoeyNMT is left out: run scripts/peers first", file=sys.stderr)


def texts(translator: seq2see.Translator, beam: int) -> Translate:
    """Return our own translation as a function from lines to texts."""
    return lambda lines: [t.text for t in translator.translate(lines, beam_size=beam)]


def best(
    name: str, make: Callable[[int], Translate], sizes: Sequence[int], lines: list[str]
) -> tuple[str, Translate]:
    """Return a system in batches of the size with which it is fastest."""
    made = {size: make(size) for size in sizes}
    for translate in made.values():
        translate(lines[:32])
    times = {s: seconds(lambda t=t: t(lines)) for s, t in made.items()}  # type: ignore[misc]
    size = min(times, key=lambda size: times[size])
    return f"{name}, batches of {size}", made[size]


def measure(
    chosen: dict[str, Translate],
    lines: list[str],
    reference: list[str] | None,
    rounds: int,
    tokenizer: Tokenizer,
) -> None:
    """Let all take turns and print their table; tokens are those of our own translations."""
    found = {name: translate(lines) for name, translate in chosen.items()}
    tokens = sum(map(len, tokenizer.encode_batch(found[OURS]))) / len(lines)
    times = [
        {name: seconds(lambda t=t: t(lines)) for name, t in chosen.items()}  # type: ignore[misc]
        for _ in range(rounds)
    ]
    print("| | sentences/s | tokens/s | torch is faster by | p50, ms | p95, ms | BLEU | as torch |")
    print("|---|---|---|---|---|---|---|---|")
    for name, translate in chosen.items():
        speed = median(len(lines) / spent[name] for spent in times)
        ratio = median(spent[name] / spent[OURS] for spent in times)
        middle, high = latency(translate, lines[:LATENCY_LINES])
        quality = judged(found[name], found[OURS], reference)
        pace = f"{speed:,.0f} | {speed * tokens:,.0f} | {ratio:.2f}"
        print(f"| {name} | {pace} | {middle:.1f} | {high:.1f} | {quality} |")
    ready_name = next(name for name in chosen if name.startswith(READY))
    ratio = median(spent[ready_name] / spent[FAST] for spent in times)
    print(f"\nours on ctranslate2 has {ratio:.2f} of its speed on ready tokens")


def judged(found: Any, ours: list[str], reference: list[str] | None) -> str:
    """Return BLEU and the share of lines that are those of our own engine, where there is text."""
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        return " | "
    same = sum(map(str.__eq__, found, ours)) / len(ours)
    score = f"{corpus_bleu(found, [reference]).score:.2f}" if reference else ""
    return f"{score} | {same:.1%}"


def latency(translate: Translate, lines: Sequence[str]) -> tuple[float, float]:
    """Return median and 95th percentile of one sentence at a time, in milliseconds."""
    times = [1000 * seconds(lambda line=line: translate([line])) for line in lines]  # type: ignore[misc]
    return median(times), quantiles(times, n=20)[-1]


def measure_start(home: Path, line: str) -> None:
    """Print how long a process takes to its first translation, and its peak memory."""
    for engine in ("torch", "ctranslate2"):
        code = (
            f"import seq2see; seq2see.load({str(home)!r}, {engine!r}).translate({line!r});"
            "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
        )
        command = [sys.executable, "-c", code]
        peaks: list[int] = []

        def run(command: list[str] = command, peaks: list[int] = peaks) -> None:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            peaks.append(int(done.stdout))

        spent = median(seconds(run) for _ in range(3))
        print(f"{engine}: first translation after {spent:.1f} s, {max(peaks) / 1000:,.0f} MB")


def options() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("marian", type=Path)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    return parser.parse_args()


def main() -> None:
    """Print a table for each beam."""
    asked = options()
    source = asked.file or test_set(asked.languages[0])
    target = asked.reference or (None if asked.file else test_set(asked.languages[1]))
    lines = list(read_lines(str(source)))[: asked.lines]
    reference = list(read_lines(str(target)))[: asked.lines] if target else None
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "model")
        bundle = interop.import_marian(asked.marian, tuple(asked.languages))
        bundle.save(home)
        pieces = bundle.tokenizers.target
        Path(home, "probes.txt").write_text("\n".join(lines[-PROBES:]))  # for int8's check
        for beam in BEAMS:
            print(f"\nbeam {beam}, {len(lines):,} lines, {asked.threads} threads\n", flush=True)
            with ExitStack() as stack:
                made = systems(asked.marian, home, beam, asked.threads, lines, stack)
                measure(dict(made), lines, reference, asked.rounds, pieces)
        print()
        measure_start(home, lines[0])


if __name__ == "__main__":
    main()
