"""Training speed against the size of a batch, the length of a sentence and the size of the model.

    python -m benchmarks.growth [--rounds 5] [--picture docs/growth.png] [--most 16384]

One process, all its threads. Random ids, all sentences of a batch equally long, so that nothing is
padding; whole updates with the optimiser's step. Each round goes through all points, and a point's
figure is the median of its rounds. A token is one of source or target.

What to expect where it bends: an update has a fixed cost (the optimiser's pass over all weights,
and some thousand calls into torch), which small batches share among few tokens; attention's work
grows with the square of the length, everything else in proportion; and larger matrices come closer
to the machine's peak, while the work of a token grows with the weights.
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
from seq2see.training.objective import Objective
from seq2see.training.optimizer import OptimizerConfig, build_optimizer
from seq2see.training.schedule import ScheduleConfig, build_schedule
from seq2see.training.trainer import ModelUpdater
from seq2see.training.workers import WorkerGroup

VOCABULARY = 8000
TOKENS, LENGTH, PRESET = 4096, 24, "tiny"
"""Where two of the three stay while the third grows."""
BATCHES = [256, 512, 1024, 2048, 4096, 8192, 16384]
LENGTHS = [8, 16, 32, 64, 128, 256, 512, 1024]
PRESETS = ["tiny", "small", "base", "big"]


@dataclass(frozen=True)
class Point:
    """What an update is made of."""

    preset: str
    tokens: int
    length: int

    def batch(self) -> Batch:
        """Draw sentences of one length, as many as the tokens are enough for."""
        count = max(1, self.tokens // (2 * self.length))
        source_BS = torch.randint(4, VOCABULARY, (count, self.length))
        return Batch(source_BS, torch.randint(4, VOCABULARY, (count, self.length + 1)))


class Bench:
    """Times updates; models are kept, one a preset."""

    def __init__(self) -> None:
        self._steppers: dict[str, ModelUpdater] = {}

    def speed(self, point: Point) -> float:
        """Return tokens a second."""
        batch, stepper = point.batch(), self.stepper(point.preset)
        return batch.num_tokens / seconds(lambda: stepper(1, [batch]))

    def stepper(self, preset: str) -> ModelUpdater:
        """Return what makes updates of this model."""
        if preset not in self._steppers:
            model = Transformer.from_config(ModelConfig.from_preset(preset, vocab_size=VOCABULARY))
            objective = Objective(model, LossConfig(), pad_id=0)
            self._steppers[preset] = ModelUpdater(
                objective,
                build_optimizer(OptimizerConfig(), objective),
                build_schedule(ScheduleConfig(kind="constant", peak_lr=1e-4), 1, 1),
                max_grad_norm=0.0,
                seed=1,
                workers=WorkerGroup(),
            )
        return self._steppers[preset]

    def parameters(self, preset: str) -> int:
        """Return how many weights the model has."""
        return count_parameters(self.stepper(preset).objective)


def points(most: int, presets: list[str]) -> Iterator[Point]:
    """Yield every point once."""
    every = (
        *(Point(PRESET, tokens, LENGTH) for tokens in BATCHES if tokens <= most),
        *(Point(PRESET, TOKENS, length) for length in LENGTHS if 2 * length <= most),
        *(Point(preset, TOKENS, LENGTH) for preset in presets),
    )
    yield from dict.fromkeys(every)


def measured(bench: Bench, every: list[Point], rounds: int) -> tuple[dict[Point, float], float]:
    """Return the speed of each point, and the matmul peak in GFLOP/s, measured between them."""
    product, operations = matmul_work()
    for point in every:
        bench.speed(point)  # the first one warms up
    speeds: dict[Point, list[float]] = {point: [] for point in every}
    peaks = []
    for number in range(rounds):
        peaks.append(operations / seconds(product) / 1e9)
        for point in every:
            speeds[point].append(bench.speed(point))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return {point: median(values) for point, values in speeds.items()}, median(peaks)


def report(bench: Bench, speeds: Mapping[Point, float], peak: float) -> None:
    """Print a table; the share of the peak counts 6 operations for each weight that is passed."""
    print(f"matmul peak {peak:.0f} GFLOP/s, {torch.get_num_threads()} threads\n")
    print("| model | weights | tokens of a batch | length | tokens/s | of the peak |")
    print("|---|---|---|---|---|---|")
    for point, speed in speeds.items():
        size = f"{bench.parameters(point.preset) / 1e6:.1f}M"
        share = speed * work_of_a_token(point.preset) / 1e9 / peak
        print(
            f"| {point.preset} | {size} | {point.tokens:,} | {point.length} | {speed:,.0f} "
            f"| {share:.0%} |"
        )


def work_of_a_token(preset: str) -> float:
    """Return the operations of a token, half of them of a source and half of a target."""
    one = torch.ones(1, 1, dtype=torch.int64)
    pair = Pair(one, torch.ones(1, 2, dtype=torch.int64), torch.empty(0))
    return flops(ModelConfig.from_preset(preset, vocab_size=VOCABULARY), [pair]) / 2


def picture(bench: Bench, speeds: Mapping[Point, float], peak: float, path: Path) -> None:
    """Draw the speed by each of the three, and by the size also the share of the peak."""

    def curve(title: str, label: str, xs: Mapping[float, Point]) -> draw.LineChart:
        found = {x: speeds[point] for x, point in xs.items() if point in speeds}
        line = list(found), list(found.values())
        return draw.LineChart(title, label, {"tokens/s": line}, has_log_x=True)

    sizes = {
        preset: bench.parameters(preset)
        for preset in PRESETS
        if Point(preset, TOKENS, LENGTH) in speeds
    }
    shares = [
        100 * speeds[Point(preset, TOKENS, LENGTH)] * work_of_a_token(preset) / 1e9 / peak
        for preset in sizes
    ]
    by_size = f"weights (batches of {TOKENS:,}, length {LENGTH})"
    parts = [
        curve(
            "Tokens a second, by tokens of a batch",
            f"tokens of a batch ({PRESET}, length {LENGTH})",
            {tokens: Point(PRESET, tokens, LENGTH) for tokens in BATCHES},
        ),
        curve(
            "Tokens a second, by length",
            f"tokens of a sentence ({PRESET}, batches of {TOKENS:,})",
            {length: Point(PRESET, TOKENS, length) for length in LENGTHS},
        ),
        curve(
            "Tokens a second, by size of the model",
            by_size,
            {size: Point(preset, TOKENS, LENGTH) for preset, size in sizes.items()},
        ),
        draw.LineChart(
            "Percent of the matmul peak, by size of the model",
            by_size,
            {"percent": (list(sizes.values()), shares)},
            has_log_x=True,
        ),
    ]
    draw.draw_charts(path, "How training speed grows", parts)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--most", type=int, default=BATCHES[-1], help="tokens of a batch")
    parser.add_argument("--presets", nargs="+", default=PRESETS, choices=PRESETS)
    options = parser.parse_args()
    tune_malloc()
    torch.manual_seed(1)
    bench = Bench()
    every = list(points(options.most, options.presets))
    speeds, peak = measured(bench, every, options.rounds)
    report(bench, speeds, peak)
    if options.picture:
        picture(bench, speeds, peak, options.picture)


if __name__ == "__main__":
    main()
