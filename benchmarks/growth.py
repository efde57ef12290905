"""Training speed against the size of a batch, the length of a sentence and the size of the model.

    python -m benchmarks.growth [--rounds 5] [--plot docs/growth.png] [--max-tokens 16384]

One process with all its threads. The ids are random, and all sentences of a batch have the same
length, so that there is no padding; updates include the optimizer step. Each round measures all
points, and the result of a point is the median of its rounds. Source and target tokens are counted.

Expected shape of the curves: an update has a fixed cost (the optimizer's pass over all weights, and
some thousand calls of torch), which matters for small batches; the work of attention grows with the
square of the length, all other work linearly; and larger matrices come closer to the peak of the
machine, while the work per token grows with the number of weights.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from benchmarks.machine import matmul_work, seconds
from benchmarks.model import Pair, flops
from seq2see import draw
from seq2see.cpu import tune_malloc
from seq2see.data.batch_loader import Batch
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig, Transformer, count_parameters
from seq2see.registries import PRESETS
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.objective import Objective
from seq2see.training.optimization import (
    LearningRateSchedule,
    OptimizerConfig,
    ScheduleConfig,
    build_optimizer,
)
from seq2see.training.trainer import ModelUpdater

VOCABULARY = 8000
TOKENS, LENGTH, PRESET = 4096, 24, "tiny"
"""Values of two of the parameters while the third one is varied."""
BATCHES = [256, 512, 1024, 2048, 4096, 8192, 16384]
LENGTHS = [8, 16, 32, 64, 128, 256, 512, 1024]


@dataclass(frozen=True)
class Point:
    """Model preset, tokens per batch and sentence length of a measurement."""

    preset: str
    tokens: int
    length: int

    def batch(self) -> Batch:
        """Return random sentences of one length with about this number of tokens."""
        num_sentences = max(1, self.tokens // (2 * self.length))
        source_BS = torch.randint(4, VOCABULARY, (num_sentences, self.length))
        return Batch(source_BS, torch.randint(4, VOCABULARY, (num_sentences, self.length + 1)))


class Bench:
    """Times updates; it keeps one model per preset."""

    def __init__(self) -> None:
        self._updaters: dict[str, ModelUpdater] = {}

    def speed(self, point: Point) -> float:
        """Return the number of tokens per second."""
        batch, updater = point.batch(), self.updater(point.preset)
        num_tokens = batch.num_source_tokens + batch.num_target_tokens
        return num_tokens / seconds(lambda: updater(1, [batch]))

    def updater(self, preset: str) -> ModelUpdater:
        """Return the updater of this model."""
        if preset not in self._updaters:
            model = Transformer.from_config(ModelConfig.from_preset(preset, vocab_size=VOCABULARY))
            objective = Objective(model, LossConfig(), pad_id=0)
            self._updaters[preset] = ModelUpdater(
                objective,
                build_optimizer(OptimizerConfig(), objective),
                LearningRateSchedule(ScheduleConfig(kind="constant", peak_lr=1e-4), 1, 1),
                max_grad_norm=0.0,
                seed=1,
                workers=WorkerCommunicator(),
            )
        return self._updaters[preset]

    def parameters(self, preset: str) -> int:
        """Return the number of weights of the model."""
        return count_parameters(self.updater(preset).objective)


def points(max_tokens: int, presets: list[str]) -> Iterator[Point]:
    """Yield every point once."""
    all_points = (
        *(Point(PRESET, tokens, LENGTH) for tokens in BATCHES if tokens <= max_tokens),
        *(Point(PRESET, TOKENS, length) for length in LENGTHS if 2 * length <= max_tokens),
        *(Point(preset, TOKENS, LENGTH) for preset in presets),
    )
    yield from dict.fromkeys(all_points)


def measure(bench: Bench, points: list[Point], rounds: int) -> tuple[dict[Point, float], float]:
    """Return the speed of each point, and the matmul peak in GFLOP/s, measured in each round."""
    matmul, operations = matmul_work()
    for point in points:
        bench.speed(point)  # warm-up
    speeds: dict[Point, list[float]] = {point: [] for point in points}
    peaks = []
    for number in range(rounds):
        peaks.append(operations / seconds(matmul) / 1e9)
        for point in points:
            speeds[point].append(bench.speed(point))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return {point: median(values) for point, values in speeds.items()}, median(peaks)


def report(bench: Bench, speeds: Mapping[Point, float], peak: float) -> None:
    """Print a table. The fraction of the peak counts 6 operations per weight and token."""
    print(f"matmul peak {peak:.0f} GFLOP/s, {torch.get_num_threads()} threads\n")
    print("| model | weights | tokens per batch | length | tokens/s | of the peak |")
    print("|---|---|---|---|---|---|")
    for point, speed in speeds.items():
        size = f"{bench.parameters(point.preset) / 1e6:.1f}M"
        fraction = speed * operations_per_token(point.preset) / 1e9 / peak
        print(
            f"| {point.preset} | {size} | {point.tokens:,} | {point.length} | {speed:,.0f} "
            f"| {fraction:.0%} |"
        )


def operations_per_token(preset: str) -> float:
    """Return the mean number of operations per source or target token."""
    one = torch.ones(1, 1, dtype=torch.int64)
    pair = Pair(one, torch.ones(1, 2, dtype=torch.int64), torch.empty(0))
    return flops(ModelConfig.from_preset(preset, vocab_size=VOCABULARY), [pair]) / 2


def plot(bench: Bench, speeds: Mapping[Point, float], peak: float, path: Path) -> None:
    """Plot the speed by each parameter, and the fraction of the peak by model size."""

    def bars(title: str, points: Mapping[float, Point]) -> draw.BarChart:
        values = {f"{x:,}": speeds[point] for x, point in points.items() if point in speeds}
        return draw.BarChart(title, values, [draw.BLUE] * len(values))

    sizes = {
        preset: bench.parameters(preset)
        for preset in PRESETS
        if Point(preset, TOKENS, LENGTH) in speeds
    }
    percentages = {
        f"{size:,}": 100
        * speeds[Point(preset, TOKENS, LENGTH)]
        * operations_per_token(preset)
        / 1e9
        / peak
        for preset, size in sizes.items()
    }
    charts = [
        bars(
            f"Tokens per second by tokens per batch ({PRESET}, length {LENGTH})",
            {tokens: Point(PRESET, tokens, LENGTH) for tokens in BATCHES},
        ),
        bars(
            f"Tokens per second by sentence length ({PRESET}, batches of {TOKENS:,})",
            {length: Point(PRESET, TOKENS, length) for length in LENGTHS},
        ),
        bars(
            f"Tokens per second by weights (batches of {TOKENS:,}, length {LENGTH})",
            {size: Point(preset, TOKENS, LENGTH) for preset, size in sizes.items()},
        ),
        draw.BarChart(
            "Percent of the matmul peak by weights", percentages, [draw.BLUE] * len(percentages)
        ),
    ]
    draw.save_charts(path, "Training speed", charts)


def main() -> None:
    """Measure, print the table and draw the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default 5)")
    parser.add_argument("--plot", type=Path, help="PNG file to write")
    parser.add_argument(
        "--max-tokens", type=int, default=BATCHES[-1], help="maximum tokens per batch"
    )
    parser.add_argument("--presets", nargs="+", default=[*PRESETS], choices=[*PRESETS])
    options = parser.parse_args()
    tune_malloc()
    torch.manual_seed(1)
    bench = Bench()
    all_points = list(points(options.max_tokens, options.presets))
    speeds, peak = measure(bench, all_points, options.rounds)
    report(bench, speeds, peak)
    if options.plot:
        plot(bench, speeds, peak, options.plot)


if __name__ == "__main__":
    main()
