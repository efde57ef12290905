"""The linear layer as the Transformer starts it."""

from __future__ import annotations

from torch import nn


class Linear(nn.Linear):
    """`nn.Linear` that starts with Xavier weights and zero biases.

    `blocks` matrices may be stacked into one (Q, K and V): each starts as if it stood alone, since
    Xavier looks at the shape.
    """

    def __init__(self, inputs: int, outputs: int, bias: bool = True, blocks: int = 1) -> None:
        self.blocks = blocks
        super().__init__(inputs, outputs * blocks, bias)

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        for weight in self.weight.chunk(self.blocks):
            nn.init.xavier_uniform_(weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
