"""The output layer of a search on a CPU: the model's own numbers, sooner."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from seq2see.kernels import PackedLinear, is_for_onednn
from seq2see.model.embeddings import Output

# R hypotheses, M features of the model, V vocabulary

WORTH_PACKING = 32
"""Hypotheses of a search, all batches together: with fewer, its steps gain less than it takes to
pack the weights."""


class OutputLayer(Protocol):
    """From states to what may come next."""

    def log_probabilities(self, x_RM: Tensor, /) -> Tensor:
        """Return a log-probability for each piece of the vocabulary, [R, V]."""


def output_layer(output: Output, hypotheses: int) -> OutputLayer:
    """Return the fastest form of a model's output layer for a search of so many hypotheses.

    It may hold a copy of the weights as they are now.
    """
    is_float32 = is_for_onednn(output.tokens.weight_VM) and not torch.is_autocast_enabled("cpu")
    is_worth_it = hypotheses >= WORTH_PACKING and is_float32
    return PackedOutput(output) if is_worth_it and _is_plain(output) else output


def _is_plain(output: Output) -> bool:
    """Tell whether it is as it was made: what others have put in its place does its own work."""
    is_hooked = output._forward_hooks or output._forward_pre_hooks or "forward" in vars(output)
    return type(output) is Output and not is_hooked


class PackedOutput:
    """The output layer with its weights in the order that suits the kernel."""

    def __init__(self, output: Output) -> None:
        self._logits = PackedLinear(output.tokens.weight_VM, output.bias_V)

    def log_probabilities(self, x_RM: Tensor, /) -> Tensor:
        """Return log softmax of the logits, in their own place."""
        logits_RV = self._logits(x_RM)
        return torch.log_softmax(logits_RV, -1, out=logits_RV)
