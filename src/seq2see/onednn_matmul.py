"""Matrix products by oneDNN on a CPU.

On a CPU, oneDNN multiplies matrices that are as wide as a vocabulary in five sixths of the time of
the library that torch uses by default. Torch exposes it through operators for its own compiler,
which compute no gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor

# N rows, I inputs, O outputs


@torch.no_grad()
def matmul(x_NI: Tensor, weight_IO: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return x · weight + bias, [N, O], computed by oneDNN where it is available."""
    if can_multiply_with_onednn(x_NI, weight_IO) and len(x_NI) > 0:
        return _linear(x_NI, weight_IO.t(), bias_O)
    return x_NI @ weight_IO if bias_O is None else torch.addmm(bias_O, x_NI, weight_IO)


class PackedLinear:
    """Computes x · weightᵀ + bias with weights that are stored in the layout of the oneDNN kernel.

    Packing the weights takes about as long as is saved by a product with 250 rows.
    """

    @torch.no_grad()
    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None = None) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight_OI)
        self._bias_O = bias_O

    @torch.no_grad()
    def __call__(self, x_NI: Tensor) -> Tensor:
        """Return the product, [N, O]."""
        return _linear(x_NI, self._packed, self._bias_O)


def can_multiply_with_onednn(*tensors: Tensor) -> bool:
    """Return whether oneDNN can multiply these tensors."""
    return torch.backends.mkldnn.is_available() and all(
        tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors
    )


def _linear(x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x_NI, weight_OI, bias_O, "none", [], "")
    return result
