"""The fused cross-entropy beside the plain one: time of forward and backward, and peak memory.

    python -m benchmarks.loss [--rounds 15]

Both go from the states of the decoder to the label-smoothed loss and back to the gradients of
states and output matrix; the plain one is torch's linear layer and torch's cross-entropy. Both keep
freed memory. They take turns, and the figures are medians. Memory is what a process needs above
what it has before, each measured in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.machine import seconds
from seq2see.cpu import tune_malloc
from seq2see.loss import OutputWeights, cross_entropy

SIZES = [(8_000, 128, 2048), (8_000, 128, 4096), (32_000, 512, 2048)]
SMOOTHING = 0.1

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]

# N tokens in a row, M features, V vocabulary


def fused(states_NM: Tensor, weight_VM: Tensor, labels_N: Tensor) -> Tensor:
    """Return our loss."""
    return cross_entropy(states_NM, OutputWeights(weight_VM), labels_N, SMOOTHING).total


def plain(states_NM: Tensor, weight_VM: Tensor, labels_N: Tensor) -> Tensor:
    """Return torch's."""
    logits_NV = F.linear(states_NM, weight_VM)
    return F.cross_entropy(logits_NV, labels_N, reduction="sum", label_smoothing=SMOOTHING)


def inputs(vocabulary: int, features: int, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw states, weights and labels."""
    states_NM = torch.randn(tokens, features).requires_grad_()
    weight_VM = torch.randn(vocabulary, features).mul_(features**-0.5).requires_grad_()
    return states_NM, weight_VM, torch.randint(vocabulary, (tokens,))


def step(loss: Loss, states_NM: Tensor, weight_VM: Tensor, labels_N: Tensor) -> None:
    """Run forward and backward once."""
    loss(states_NM, weight_VM, labels_N).backward()
    states_NM.grad = weight_VM.grad = None


def peak_memory(loss: Loss, size: tuple[int, int, int]) -> float:
    """Return the MB by which two steps raise the peak of this process."""
    given = inputs(*size)
    step(loss, *inputs(10, size[1], 10))  # what threads and libraries take for themselves
    before = highest_memory()
    for _ in range(2):
        step(loss, *given)
    return highest_memory() - before


def highest_memory() -> float:
    """Return the peak of this process in MB, or NaN where the system is not Linux.

    `resource.getrusage` would begin with the peak of the process that started this one.
    """
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    return next((int(x.split()[1]) / 1024 for x in lines if x.startswith("VmHWM")), float("nan"))


def times(size: tuple[int, int, int], rounds: int) -> tuple[float, float]:
    """Let the two take turns, each going first as often as the other."""
    given = inputs(*size)
    rows: dict[Loss, list[float]] = {fused: [], plain: []}
    for turn in range(rounds + 1):
        for loss in (fused, plain) if turn % 2 else (plain, fused):
            rows[loss].append(seconds(partial(step, loss, *given)))
    return median(rows[fused][1:]), median(rows[plain][1:])  # the first warms up


def compare(size: tuple[int, int, int], rounds: int) -> None:
    """Print a row."""
    ours, theirs = times(size, rounds)
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        our_mb, their_mb = pool.starmap(peak_memory, [(fused, size), (plain, size)], chunksize=1)
    vocabulary, features, tokens = size
    print(
        f"{vocabulary:>10,} {features:>8} {tokens:>6,} {ours * 1e3:>8.0f} {theirs * 1e3:>8.0f} "
        f"{theirs / ours:>6.2f}× {our_mb:>8.0f} {their_mb:>8.0f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    torch.manual_seed(1)
    tune_malloc()
    print("vocabulary features tokens fused ms plain ms  ratio fused MB plain MB")
    for size in SIZES:
        compare(size, args.rounds)


if __name__ == "__main__":
    main()
