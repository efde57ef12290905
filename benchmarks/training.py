"""Training beside JoeyNMT 2.3 and a plain `torch.nn.Transformer` loop: same model, same batches.

    scripts/peers && python -m benchmarks.training [--presets tiny base] [--rounds 9]

A turn is one update on each of the batches, from ids to new weights: forward, loss with smoothing,
backward, Adam. The systems take turns, each in a process of its own with two threads; ours also in
its other form, one process a core. The machine's matmul peak (2048³, float32) is measured between
them, so that a noisy machine is the same for all. Figures are medians over the rounds; the first
turn of each warms up.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import torch
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.machine import matmul_work, seconds
from benchmarks.model import PAD, VOCABULARY, Pair, flops, ragged_batches
from benchmarks.turns import System, Turn
from seq2see.model import ModelConfig
from seq2see.text import EOS_ID

BATCHES = {"tiny": 6, "base": 1}
PEERS = Path(".peers/bin/python")
OURS = ("seq2see, a process a core", "seq2see, a thread a core")


def write_batches(path: Path, preset: str, tokens: int) -> list[Pair]:
    """Write batches of real lengths, similar ones together, for every system to read."""
    pairs = list(ragged_batches(VOCABULARY[preset], tokens, BATCHES[preset], bucketed=True))
    tensors = {}
    for number, pair in enumerate(pairs):
        tensors[f"source.{number}"] = ended(pair.src_BS)
        tensors[f"target.{number}"] = ended(pair.tgt_BT)
    save_file(tensors, path)
    return pairs


def ended(ids_BT: Tensor) -> Tensor:
    """Return sentences whose last token is the end symbol."""
    last_B1 = (ids_BT != PAD).sum(1, keepdim=True) - 1
    return ids_BT.scatter(1, last_B1, EOS_ID)


def systems(batches: Path, preset: str) -> Iterator[tuple[str, System]]:
    """Start every system that is here."""
    arguments = [str(batches), preset, str(VOCABULARY[preset])]
    here, cores = [sys.executable, "-m"], torch.get_num_threads()
    ours = [*here, "benchmarks.trainers.ours", *arguments]
    passive = {"OMP_WAIT_POLICY": "passive"}  # as the program sets it for itself
    yield OURS[0], System(ours, threads=1, processes=cores, environment=passive)
    yield OURS[1], System(ours, threads=cores, environment=passive)
    yield "torch.nn.Transformer", System([*here, "benchmarks.trainers.plain", *arguments], cores)
    if PEERS.exists():
        joeynmt = [str(PEERS), "-m", "benchmarks.trainers.joeynmt", *arguments]
        yield "JoeyNMT 2.3", System(joeynmt, cores)
    else:
        print("JoeyNMT is left out: run scripts/peers first", file=sys.stderr)


def alternate(running: dict[str, System], rounds: int) -> tuple[dict[str, list[Turn]], list[float]]:
    """Let all take turns; also return the seconds of the matmul between them."""
    matmul, _ = matmul_work()
    turns: dict[str, list[Turn]] = {name: [] for name in running}
    peaks = []
    for number in range(rounds + 1):
        order = list(running.items())
        for name, system in order if number % 2 else reversed(order):
            turns[name].append(system.turn())
            peaks.append(min(seconds(matmul) for _ in range(3)))
    return {name: taken[1:] for name, taken in turns.items()}, peaks


def compare(preset: str, tokens: int, rounds: int) -> None:
    """Measure one size of model and print its table."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        batches = Path(folder, "batches.safetensors")
        pairs = write_batches(batches, preset, tokens)
        running = {name: stack.enter_context(system) for name, system in systems(batches, preset)}
        turns, peaks = alternate(running, rounds)
    config = ModelConfig.from_preset(preset, vocab_size=VOCABULARY[preset])
    report(preset, turns, matmul_work()[1] / median(peaks), pairs, config)


def report(
    preset: str,
    turns: dict[str, list[Turn]],
    peak: float,
    pairs: list[Pair],
    config: ModelConfig,
) -> None:
    """Print tokens per second, source and target, and what our best form is to each system."""
    times = {name: median(turn.seconds for turn in taken) for name, taken in turns.items()}
    best = min(OURS, key=lambda name: times[name])
    work, total = flops(config, pairs), sum(sum(pair.tokens) for pair in pairs)
    print(f"\n{preset}: {len(pairs)} batches, {total:,} tokens; matmul {peak / 1e9:.0f} GFLOP/s")
    print("| system | tokens/s | of the peak | memory, MB | ours is faster by |")
    print("|---|---|---|---|---|")
    for name, taken in turns.items():
        ratio = median(
            theirs.seconds / ours.seconds for ours, theirs in zip(turns[best], taken, strict=True)
        )
        memory = max(turn.megabytes for turn in taken)
        speed, share = total / times[name], work / times[name] / peak
        print(f"| {name} | {speed:,.0f} | {share:.1%} | {memory:,.0f} | {ratio:.2f} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--presets", nargs="+", default=["tiny", "base"], choices=list(BATCHES))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=4096, help="of source and target, a batch")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    for preset in arguments.presets:
        compare(preset, arguments.tokens, arguments.rounds)


if __name__ == "__main__":
    main()
