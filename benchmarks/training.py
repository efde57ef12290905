"""Compare training with JoeyNMT 2.3 and a plain `torch.nn.Transformer` loop on the same batches.

    scripts/peers && python -m benchmarks.training [--presets tiny base] [--rounds 9]

A turn is one update on each of the batches: forward, loss with label smoothing, backward, Adam. The
systems alternate, each in its own process with one thread per core; seq2see also runs with one
process per core. The matmul peak of the machine (2048³, float32) is measured between the turns. All
figures are medians over the rounds; the first turn of each system is a warm-up.
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
OURS = ("seq2see, one process per core", "seq2see, one thread per core")


def write_batches(path: Path, preset: str, tokens: int) -> list[Pair]:
    """Write batches of pairs of similar length for all systems."""
    pairs = list(ragged_batches(VOCABULARY[preset], tokens, BATCHES[preset], bucketed=True))
    tensors = {}
    for number, pair in enumerate(pairs):
        tensors[f"source.{number}"] = replace_last_by_eos(pair.src_BS)
        tensors[f"target.{number}"] = replace_last_by_eos(pair.tgt_BT)
    save_file(tensors, path)
    return pairs


def replace_last_by_eos(ids_BT: Tensor) -> Tensor:
    """Return the sentences with the end token as last token."""
    last_B1 = (ids_BT != PAD).sum(1, keepdim=True) - 1
    return ids_BT.scatter(1, last_B1, EOS_ID)


def systems(batches: Path, preset: str) -> Iterator[tuple[str, System]]:
    """Start all systems that are installed."""
    arguments = [str(batches), preset, str(VOCABULARY[preset])]
    here, cores = [sys.executable, "-m"], torch.get_num_threads()
    ours = [*here, "benchmarks.trainers.ours", *arguments]
    passive = {"OMP_WAIT_POLICY": "passive"}  # as the seq2see command does
    yield OURS[0], System(ours, threads=1, processes=cores, environment=passive)
    yield OURS[1], System(ours, threads=cores, environment=passive)
    yield "torch.nn.Transformer", System([*here, "benchmarks.trainers.plain", *arguments], cores)
    if PEERS.exists():
        joeynmt = [str(PEERS), "-m", "benchmarks.trainers.joeynmt", *arguments]
        yield "JoeyNMT 2.3", System(joeynmt, cores)
    else:
        print("JoeyNMT is skipped: run scripts/peers first", file=sys.stderr)


def alternate(running: dict[str, System], rounds: int) -> tuple[dict[str, list[Turn]], list[float]]:
    """Run all systems alternately; return their turns and the seconds of the matrix products."""
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
    """Measure one model size and print its table."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        batches = Path(directory, "batches.safetensors")
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
    """Print tokens per second and the ratio to the faster form of seq2see."""
    times = {name: median(turn.seconds for turn in taken) for name, taken in turns.items()}
    best = min(OURS, key=lambda name: times[name])
    work, total = flops(config, pairs), sum(sum(pair.tokens) for pair in pairs)
    print(f"\n{preset}: {len(pairs)} batches, {total:,} tokens; matmul {peak / 1e9:.0f} GFLOP/s")
    print("| system | tokens/s | of the peak | memory, MB | seq2see is faster by |")
    print("|---|---|---|---|---|")
    for name, taken in turns.items():
        ratio = median(
            theirs.seconds / ours.seconds for ours, theirs in zip(turns[best], taken, strict=True)
        )
        memory = max(turn.megabytes for turn in taken)
        speed, fraction = total / times[name], work / times[name] / peak
        print(f"| {name} | {speed:,.0f} | {fraction:.1%} | {memory:,.0f} | {ratio:.2f} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--presets", nargs="+", default=["tiny", "base"], choices=list(BATCHES))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--tokens", type=int, default=4096, help="source and target tokens per batch"
    )
    arguments = parser.parse_args()
    torch.manual_seed(1)
    for preset in arguments.presets:
        compare(preset, arguments.tokens, arguments.rounds)


if __name__ == "__main__":
    main()
