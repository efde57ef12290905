"""Compare translation with `transformers`, JoeyNMT 2.3 and CTranslate2 with the same weights.

    scripts/peers && python -m benchmarks.translation MARIAN [FILE] [--reference FILE]
        [--lines 1000] [--rounds 5] [--threads 2]

MARIAN is a Marian model in the Hugging Face format, which is converted for each system. Input and
output are text, except for CTranslate2 alone, which gets tokens. The systems alternate, and all
figures are medians. Each uses sorted batches of its fastest size, which is measured first, and
CTranslate2 one worker per thread. Latency is measured with one sentence at a time. `transformers`
and JoeyNMT run in separate processes, JoeyNMT in its own environment; it is skipped if that is
missing.
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
"""Number of lines to find the fastest batch size of slow systems."""
OURS, OURS_CT2, OURS_INT8 = "seq2see torch", "seq2see ctranslate2", "seq2see ctranslate2 int8"
TOKENS_ONLY = "ctranslate2 on tokens"


def test_set(language: str) -> Path:
    """Return the path of one side of the multi30k test set."""
    data = Path(os.environ.get("SEQ2SEE_DATA", "../shared/data"))
    return data / f"multi30k/test_2016_flickr.{language}.gz"


def systems(
    marian: Path, model_directory: Path, beam: int, threads: int, lines: list[str], stack: ExitStack
) -> Iterator[tuple[str, Translate]]:
    """Yield the name and the translation function of each system, with its fastest batch size."""
    ours = seq2see.load(model_directory, "torch", threads=threads)
    ours_ct2 = seq2see.load(model_directory, "ctranslate2", threads=threads)
    ours_int8 = seq2see.load(model_directory, "ctranslate2", threads=threads, precision="int8")
    yield OURS, texts(ours, beam)
    yield OURS_CT2, texts(ours_ct2, beam)
    yield ", ".join((OURS_INT8, *ours_int8.engine_notes)), texts(ours_int8, beam)
    yield best(TOKENS_ONLY, partial(ready.translator, ours_ct2, beam), ready.SIZES, lines)
    peer = hugging_face.HuggingFace(marian, ours, beam, threads)
    stack.enter_context(peer.process)
    sample = lines[:TRIED_LINES]
    yield best("transformers", peer.translator, hugging_face.SIZES, sample)
    if PEERS.exists():
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        joeynmt = JoeyNMT(ours, directory, beam, threads)
        stack.enter_context(joeynmt.system)
        yield best("JoeyNMT 2.3", joeynmt.translator, SIZES, sample)
    else:
        print("JoeyNMT is skipped: run scripts/peers first", file=sys.stderr)


def texts(translator: seq2see.Translator, beam: int) -> Translate:
    """Return a function that translates lines with seq2see."""
    return lambda lines: [t.text for t in translator.translate(lines, beam_size=beam)]


def best(
    name: str, make: Callable[[int], Translate], sizes: Sequence[int], lines: list[str]
) -> tuple[str, Translate]:
    """Return a system with its fastest batch size."""
    candidates = {size: make(size) for size in sizes}
    for translate in candidates.values():
        translate(lines[:32])
    times = {s: seconds(lambda t=t: t(lines)) for s, t in candidates.items()}  # type: ignore[misc]
    size = min(times, key=lambda size: times[size])
    return f"{name}, batches of {size}", candidates[size]


def measure(
    chosen: dict[str, Translate],
    lines: list[str],
    reference: list[str] | None,
    rounds: int,
    tokenizer: Tokenizer,
) -> None:
    """Run all systems alternately and print their table; tokens are counted in our translations."""
    outputs = {name: translate(lines) for name, translate in chosen.items()}
    tokens = sum(map(len, tokenizer.encode_batch(outputs[OURS]))) / len(lines)
    times = [
        {name: seconds(lambda t=t: t(lines)) for name, t in chosen.items()}  # type: ignore[misc]
        for _ in range(rounds)
    ]
    print(
        "| | sentences/s | tokens/s | seq2see torch is faster by | p50, ms | p95, ms | BLEU "
        "| same as torch |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, translate in chosen.items():
        speed = median(len(lines) / spent[name] for spent in times)
        ratio = median(spent[name] / spent[OURS] for spent in times)
        middle, high = latency(translate, lines[:LATENCY_LINES])
        quality = format_quality(outputs[name], outputs[OURS], reference)
        pace = f"{speed:,.0f} | {speed * tokens:,.0f} | {ratio:.2f}"
        print(f"| {name} | {pace} | {middle:.1f} | {high:.1f} | {quality} |")
    tokens_name = next(name for name in chosen if name.startswith(TOKENS_ONLY))
    ratio = median(spent[tokens_name] / spent[OURS_CT2] for spent in times)
    print(f"\nseq2see with ctranslate2 has {ratio:.2f} of the speed of ctranslate2 on tokens")


def format_quality(outputs: Any, ours: list[str], reference: list[str] | None) -> str:
    """Return BLEU and the fraction of lines equal to those of seq2see; empty without text."""
    if not isinstance(outputs, list) or not all(isinstance(text, str) for text in outputs):
        return " | "
    same = sum(map(str.__eq__, outputs, ours)) / len(ours)
    score = f"{corpus_bleu(outputs, [reference]).score:.2f}" if reference else ""
    return f"{score} | {same:.1%}"


def latency(translate: Translate, lines: Sequence[str]) -> tuple[float, float]:
    """Return median and 95th percentile of the latency of one sentence, in milliseconds."""
    times = [1000 * seconds(lambda line=line: translate([line])) for line in lines]  # type: ignore[misc]
    return median(times), quantiles(times, n=20)[-1]


def measure_start(model_directory: Path, line: str) -> None:
    """Print the time from process start to the first translation, and the peak memory."""
    for engine in ("torch", "ctranslate2"):
        code = (
            "import seq2see;"
            f"seq2see.load({str(model_directory)!r}, {engine!r}).translate({line!r});"
            "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
        )
        command = [sys.executable, "-c", code]
        peaks: list[int] = []

        def run(command: list[str] = command, peaks: list[int] = peaks) -> None:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            peaks.append(int(done.stdout))

        spent = median(seconds(run) for _ in range(3))
        print(f"{engine}: first translation after {spent:.1f} s, {max(peaks) / 1000:,.0f} MB")


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
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
    """Print a table for each beam size."""
    args = parse_arguments()
    source = args.file or test_set(args.languages[0])
    target = args.reference or (None if args.file else test_set(args.languages[1]))
    lines = list(read_lines(str(source)))[: args.lines]
    reference = list(read_lines(str(target)))[: args.lines] if target else None
    with tempfile.TemporaryDirectory() as directory:
        model_directory = Path(directory, "model")
        bundle = interop.import_model(args.marian, tuple(args.languages))
        bundle.save(model_directory)
        tokenizer = bundle.tokenizers.target
        Path(model_directory, "probes.txt").write_text("\n".join(lines[-PROBES:]))  # to check int8
        for beam in BEAMS:
            print(f"\nbeam {beam}, {len(lines):,} lines, {args.threads} threads\n", flush=True)
            with ExitStack() as stack:
                available = systems(args.marian, model_directory, beam, args.threads, lines, stack)
                measure(dict(available), lines, reference, args.rounds, tokenizer)
        print()
        measure_start(model_directory, lines[0])


if __name__ == "__main__":
    main()
