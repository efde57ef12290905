"""Compare the fused cross-entropy with torch's: time of forward and backward, and peak memory.

    python -m benchmarks.loss [--rounds 15]

Both compute the label-smoothed loss from the decoder states, and the gradients of the states and of
the output matrix; the plain version uses torch's linear layer and cross-entropy. Both keep freed
memory. The runs alternate, and all figures are medians. Memory is the increase of the peak,
measured in a separate process for each version.
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
from seq2see.loss import LossConfig, OutputWeights, compute_loss_from_states

SIZES = [(8_000, 128, 2048), (8_000, 128, 4096), (32_000, 512, 2048)]
SMOOTHING = 0.1

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]

# N tokens, M features, V vocabulary


def fused(states_NM: Tensor, weight_VM: Tensor, labels_N: Tensor) -> Tensor:
    """Return the fused loss of seq2see."""
    config = LossConfig(label_smoothing=SMOOTHING)
    return compute_loss_from_states(config, states_NM, OutputWeights(weight_VM), labels_N).total


def plain(states_NM: Tensor, weight_VM: Tensor, labels_N: Tensor) -> Tensor:
    """Return the loss of torch."""
    logits_NV = F.linear(states_NM, weight_VM)
    return F.cross_entropy(logits_NV, labels_N, reduction="sum", label_smoothing=SMOOTHING)


def inputs(vocabulary: int, features: int, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return random states, weights and labels."""
    states_NM = torch.randn(tokens, features).requires_grad_()
    weight_VM = torch.randn(vocabulary, features).mul_(features**-0.5).requires_grad_()
    return states_NM, weight_VM, torch.randint(vocabulary, (tokens,))


def step(loss: Loss, states_NM: Tensor, weight_VM: Tensor, labels_N: Tensor) -> None:
    """Run forward and backward once."""
    loss(states_NM, weight_VM, labels_N).backward()
    states_NM.grad = weight_VM.grad = None


def peak_memory(loss: Loss, size: tuple[int, int, int]) -> float:
    """Return by how many MB two steps raise the peak memory of this process."""
    tensors = inputs(*size)
    step(loss, *inputs(10, size[1], 10))  # memory of threads and libraries
    before = read_peak_memory()
    for _ in range(2):
        step(loss, *tensors)
    return read_peak_memory() - before


def read_peak_memory() -> float:
    """Return the peak memory of this process in MB, or NaN if the system is not Linux.

    `resource.getrusage` would start with the peak of the parent process.
    """
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    return next((int(x.split()[1]) / 1024 for x in lines if x.startswith("VmHWM")), float("nan"))


def measure_seconds(size: tuple[int, int, int], rounds: int) -> tuple[float, float]:
    """Return the median seconds of both losses; their order alternates."""
    tensors = inputs(*size)
    times: dict[Loss, list[float]] = {fused: [], plain: []}
    for number in range(rounds + 1):
        for loss in (fused, plain) if number % 2 else (plain, fused):
            times[loss].append(seconds(partial(step, loss, *tensors)))
    return median(times[fused][1:]), median(times[plain][1:])  # without the warm-up


def compare(size: tuple[int, int, int], rounds: int) -> None:
    """Measure one size and print its row."""
    ours, theirs = measure_seconds(size, rounds)
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
