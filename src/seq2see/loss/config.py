"""What a recipe says of the loss."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from seq2see.config import Config


class LossConfig(Config):
    """What training makes small."""

    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """The share of each target that is spread evenly over the vocabulary; 0: plain
    cross-entropy."""
    r_drop: float = Field(default=0.0, ge=0)
    """The weight of the symmetric KL divergence between two passes with different dropout (R-Drop;
    5 in its paper). A step takes twice as long. 0: one pass."""
    distillation: float = Field(default=0.0, ge=0, le=1)
    """The share of the KL divergence to a teacher; cross-entropy keeps the rest. 0: no teacher."""
    teacher: str | None = None
    """With `distillation`: the model directory of the teacher, seen from the recipe. Its tokenizer
    is taken over."""

    def conflicts(self) -> Iterator[str]:
        """Refuse two extra terms at once."""
        if self.r_drop and self.distillation:
            yield "`r_drop` must be 0 with `distillation`: each wants to be the only extra term"
