"""Item 37: the notes' code for positions, as printed and corrected."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from seq2see.lab.old.bench import Bench
from seq2see.lab.old.closeness import apart
from seq2see.lab.old.expectation import at_most, equal
from seq2see.lab.old.experiment import Finding, Measurement, Text, Verdict, experiment
from seq2see.model import compute_sinusoids

WIDE = 512


@experiment(
    37,
    Text("The notes' position code", "笔记中的位置编码代码"),
    "S3",
    Text(
        "A class with `get_angles(position, i, d_model)` and `positional_encoding` computes the "
        "table.",
        "给出的类用 `get_angles(position, i, d_model)` 与 `positional_encoding` 计算位置编码。",
    ),
    Text(
        "As printed it stops with a TypeError: the call leaves `d_model` out. With it, the table "
        "is the paper's.",
        "照原样运行会抛出 TypeError：调用时漏了 `d_model`。补上之后，结果就是论文的编码。",
    ),
)
def notes_code(_: Bench) -> Finding:
    """Make the call as printed, then as meant."""
    corrected_TM = torch.from_numpy(in_place_table(50, WIDE))
    return Finding(
        Verdict.FALSE,
        Text(
            "the call forgets an argument. Corrected, it agrees with ours to the last digits.",
            "调用漏了一个参数。改正后与我们的结果在最后几位上一致。",
        ),
        (
            Measurement(
                Text("the call without d_model stops (1 = yes)", "漏掉 d_model 时报错（1 = 是）"),
                _stops_without_width(),
                equal(1),
            ),
            Measurement(
                Text("corrected against ours, 50 × 512", "改正后与我们的差，50 × 512"),
                apart(corrected_TM, compute_sinusoids(torch.arange(50), WIDE)),
                at_most(1e-12),
            ),
        ),
    )


def angles(
    position: NDArray[np.int64], dimension: NDArray[np.int64], width: int
) -> NDArray[np.float64]:
    """Return pos / 10000^(2⌊i/2⌋/d), as the notes do: two dimensions share a frequency."""
    return position / np.power(10_000.0, 2 * (dimension // 2) / width)


def in_place_table(positions: int, width: int) -> NDArray[np.float64]:
    """Return the table in the notes' manner: angles first, then sine and cosine in their place."""
    table = angles(np.arange(positions)[:, None], np.arange(width)[None, :], width)
    table[:, 0::2] = np.sin(table[:, 0::2])
    table[:, 1::2] = np.cos(table[:, 1::2])
    return table


def _stops_without_width() -> bool:
    try:
        angles(np.arange(5)[:, None], np.arange(8)[None, :])  # type: ignore[call-arg]
    except TypeError:
        return True
    return False
