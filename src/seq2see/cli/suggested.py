"""The recipe that fits a corpus, as the doctor has seen it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seq2see.data.batches import BatchConfig
from seq2see.data.doctor import Report
from seq2see.settings import Recipe

_EPOCHS = {"tiny": 60.0, "small": 30.0, "base": 15.0, "big": 10.0}
"""Small corpora must be seen more often."""
_DROPOUT = {"tiny": 0.3, "small": 0.2, "base": 0.1, "big": 0.3}
"""Small corpora are sooner learnt by heart; `base` and `big` have the paper's."""
_PEAKS = {"tiny": 0.004, "small": 0.002, "base": 0.001, "big": 0.0007}
"""Learning rates: the wider a model, the smaller its steps. That of `tiny` was measured."""
_LEAST_UPDATES = 1000
"""However small the corpus: fewer teach a model nothing."""
_PIECES_A_WORD = 1.4
"""About, with the pieces that are suggested."""
_MOST_HELD_OUT = 1000


def recipe(report: Report, sides: tuple[str, str], parts: Mapping[str, Sequence[str]]) -> Recipe:
    """Return it for these files of each part: train, valid, test."""
    files = {part: {"files": list(names)} for part, names in parts.items()}
    updates, preset = updates_of(report), report.suggestion.preset
    dropout = {"embedding": _DROPOUT[preset], "residual": _DROPOUT[preset]}
    often = {"every": min(500, updates // 10)}
    return Recipe.model_validate(
        {
            "data": {**files, "languages": sides, "train": [files["train"]]},
            "tokenizer": {"vocab_size": report.suggestion.vocab_size},
            "train": {"epochs": _epochs(report)},
            "schedule": {
                "kind": "cosine",
                "peak": _PEAKS[preset],
                "warmup": min(1000, updates // 5),
            },
            "validation": often,
            "checkpoints": often,
            # With the norm behind, a small model hardly learns at such rates.
            "model": {"preset": preset, "norm": {"placement": "pre"}, "dropout": dropout},
        }
    )


def updates_of(report: Report) -> int:
    """Return about how many updates it takes."""
    return int(_epochs(report) * _updates_per_epoch(report))


def held_out(pairs: int) -> int:
    """Return how many pairs to keep for validation, and as many for the test."""
    return min(_MOST_HELD_OUT, max(1, pairs // 20))


def _epochs(report: Report) -> float:
    least = round(_LEAST_UPDATES / _updates_per_epoch(report))
    return float(max(_EPOCHS[report.suggestion.preset], least))


def _updates_per_epoch(report: Report) -> float:
    words = sum(side.words.mean for side in (report.source, report.target))
    return max(1.0, report.pairs * (_PIECES_A_WORD * words + 2) / BatchConfig().tokens)
