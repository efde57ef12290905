"""Weights that are means of weights: smoother than any single ones, and better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from seq2see.training.checkpoints import undamaged
from seq2see.training.parts import Progress, untied
from seq2see.training.sharding import put
from seq2see.training.step import StepReport


def mean_of_checkpoints(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights in these files, summed in float64."""
    total: dict[str, Tensor] = {}
    for file in files:
        with undamaged(file.parent):
            weights = load_file(file)
        for name, tensor in weights.items():
            total[name] = total.get(name, 0) + tensor.double()
    return {name: (t / len(files)).to(weights[name].dtype) for name, t in total.items()}


class MovingAverage:
    """An exponential moving average of the weights: each update keeps `decay` of what it was.

    It starts as the plain mean of the first updates, so that it soon forgets the first weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model = model
        self._decay = decay
        self._average = {name: t.detach().clone() for name, t in untied(model).items()}

    def after_update(self, progress: Progress, report: StepReport) -> None:
        """Take the new weights in."""
        del report
        decay = min(self._decay, (progress.update - 1) / progress.update)
        for name, tensor in untied(self._model).items():
            if tensor.is_floating_point():
                self._average[name].lerp_(tensor.detach(), 1 - decay)
            else:
                self._average[name].copy_(tensor.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Return the average."""
        return dict(self._average)

    def state(self) -> dict[str, Any]:
        """Return nothing: the tensors are all."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Take an average over."""
        del state
        with torch.no_grad():
            for name, tensor in self._average.items():
                put(tensors[name], tensor)
