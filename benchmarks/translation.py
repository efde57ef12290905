"""Translation beside `transformers` and ctranslate2 itself: text in, text out, the same weights.

    python -m benchmarks.translation MARIAN [FILE] [--lines 1000] [--rounds 5] [--threads 2]

MARIAN is a model in Hugging Face's form, which all systems can read. They take turns, so that a
busy machine is unfair to none; the figures are medians. `transformers` sorts the sentences by
length and has the batch size that suits it best; ctranslate2 gets ready-made tokens and a worker
for each thread. Ours go from text to text. Latency is that of one sentence after the other.

JoeyNMT would need packages of other versions: `peers` is where a system that runs in a virtual
environment of its own is added, as a command that translates a file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch

import seq2see
from benchmarks.machine import seconds
from seq2see import interop
from seq2see.data.readers import read_lines
from seq2see.engines.batching import framed
from seq2see.engines.selection import Engines

Translate = Callable[[list[str]], Any]
BEAMS = (1, 5)
LATENCY_LINES = 60


def default_file() -> Path:
    """Return multi30k's test set."""
    data = Path(os.environ.get("SEQ2SEE_DATA", "../shared/data"))
    return data / "multi30k/test_2016_flickr.en.gz"


def systems(marian: Path, home: Path, beam: int, threads: int) -> Iterator[tuple[str, Translate]]:
    """Yield each system by its name."""
    torch_one = seq2see.load(home, "torch", threads=threads)
    fast = seq2see.load(home, "ctranslate2", threads=threads)
    yield "ours, torch", lambda lines: torch_one.translate(lines, beam_size=beam)
    yield "ours, ctranslate2", lambda lines: fast.translate(lines, beam_size=beam)
    yield "ctranslate2, ready tokens", ready_tokens(fast, beam)
    yield "transformers", hugging_face(marian, torch_one, beam)
    yield from peers(beam)


def peers(beam: int) -> Iterator[tuple[str, Translate]]:
    """Yield systems that run in virtual environments of their own."""
    del beam
    yield from ()


def ready_tokens(translator: seq2see.Translator, beam: int) -> Translate:
    """Return ctranslate2's own loop; tokens are looked up outside of the time."""
    engine, tokenizer = translator.engine, translator.tokenizers.source
    assert isinstance(engine, Engines)
    model, known = engine.fast.model, dict[tuple[str, ...], list[list[str]]]()

    def tokens(lines: tuple[str, ...]) -> list[list[str]]:
        return [[tokenizer.pieces[i] for i in framed(ids)] for ids in tokenizer.encode_batch(lines)]

    def translate(lines: list[str]) -> Any:
        key = tuple(lines)
        if key not in known:
            known[key] = tokens(key)
        settings = {"beam_size": beam, "max_batch_size": 64, "max_input_length": 0}
        return model.translate_batch(known[key], return_scores=True, **settings)

    return translate


def hugging_face(marian: Path, ours: seq2see.Translator, beam: int, batch: int = 32) -> Translate:
    """Return `generate` over sorted batches, with our tokenizer at both ends."""
    from transformers import MarianMTModel  # noqa: PLC0415

    model: Any = MarianMTModel.from_pretrained(marian)
    model.eval()
    source, target = ours.tokenizers.source, ours.tokenizers.target
    pad = model.config.pad_token_id

    @torch.inference_mode()
    def translate(lines: list[str]) -> list[str]:
        rows = [framed(ids) for ids in source.encode_batch(lines)]
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place]))
        texts = [""] * len(rows)
        for start in range(0, len(order), batch):
            places = order[start : start + batch]
            width = max(len(rows[place]) for place in places)
            ids = torch.tensor([rows[p] + [pad] * (width - len(rows[p])) for p in places])
            found = model.generate(
                input_ids=ids,
                attention_mask=(ids != pad).long(),
                num_beams=beam,
                max_new_tokens=2 * width + 20,
            )
            for place, tokens in zip(places, found.tolist(), strict=True):
                texts[place] = target.decode(tokens)
        return texts

    return translate


def measure(marian: Path, home: Path, lines: list[str], rounds: int, threads: int) -> None:
    """Print a table for each beam."""
    for beam in BEAMS:
        chosen = dict(systems(marian, home, beam, threads))
        for translate in chosen.values():
            translate(lines[:32])
        times = [
            {name: seconds(lambda t=t: t(lines)) for name, t in chosen.items()}  # type: ignore[misc]
            for _ in range(rounds)
        ]
        print(f"\nbeam {beam}, {len(lines):,} lines, {threads} threads, {rounds} rounds\n")
        print("| | sentences/s | of ours, torch | p50, ms | p95, ms |\n|---|---|---|---|---|")
        for name, translate in chosen.items():
            speed = median(len(lines) / spent[name] for spent in times)
            share = median(spent["ours, torch"] / spent[name] for spent in times)
            middle, high = latency(translate, lines[:LATENCY_LINES])
            print(f"| {name} | {speed:,.0f} | {share:.2f} | {middle:.1f} | {high:.1f} |")
        ratio = median(s["ctranslate2, ready tokens"] / s["ours, ctranslate2"] for s in times)
        print(f"\nours on ctranslate2 has {ratio:.2f} of its speed on ready tokens")


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


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("marian", type=Path)
    parser.add_argument("file", nargs="?", type=Path, default=default_file())
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    options = parser.parse_args()
    lines = [line for line, _ in zip(read_lines(options.file), range(options.lines), strict=False)]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "model")
        interop.read(options.marian, tuple(options.languages)).save(home)
        measure(options.marian, home, lines, options.rounds, options.threads)
        measure_start(home, lines[0])


if __name__ == "__main__":
    main()
