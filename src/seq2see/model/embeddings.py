"""Input embeddings of encoder and decoder, and the output projection."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.errors import InputError
from seq2see.model.basic_modules import Dropout
from seq2see.model.positional_encodings import AbsolutePositions

# B batch, T tokens, M features of the model, V vocabulary


class TokenEmbedding(nn.Module):
    """A vector per id, initialized from N(0, 1/d_model): multiplied by √d_model it has variance 1.

    The padding id has a vector like all other ids: in some models it is also the start symbol.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight_VM = nn.Parameter(torch.randn(vocab_size, d_model) * d_model**-0.5)

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Return the vector of each id, [B, T, M].

        Raises `InputError` on a CPU if there is no row for an id.
        """
        try:
            return F.embedding(ids_BT, self.weight_VM)
        except IndexError:  # on a CPU; other devices do not report which id is invalid
            last = len(self.weight_VM) - 1
            invalid = ids_BT[(ids_BT < 0) | (ids_BT > last)][0].item()
            raise InputError(
                f"an id must be from 0 to {last}, the last row of the embedding, "
                f"but is {invalid} instead"
            ) from None


class Embeddings(nn.Module):
    """Input of the encoder or decoder: √d_model · token + position (+ token type), then a norm."""

    def __init__(
        self,
        tokens: TokenEmbedding,
        positions: AbsolutePositions,
        dropout: Dropout,
        scale: bool,
        norm: nn.Module,
        types: TokenEmbedding | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.types = types
        self.norm = norm
        self.dropout = dropout
        self.factor = math.sqrt(tokens.weight_VM.size(1)) if scale else 1.0

    def forward(self, ids_BT: Tensor, offset: int = 0, types_BT: Tensor | None = None) -> Tensor:
        """Return the embeddings of tokens, the first of which is at position `offset`.

        Raises `InputError` if the ids or the token types are invalid.
        """
        check_ids_shape_and_dtype(ids_BT)
        x_BTM = self.tokens(ids_BT) * self.factor
        if self.types is not None:
            x_BTM = x_BTM + self.types(torch.zeros_like(ids_BT) if types_BT is None else types_BT)
        elif types_BT is not None:
            raise InputError(
                "token types must be left out: this model has none (`embeddings.token_types` is 0)"
            )
        return self.dropout(self.norm(self.positions(x_BTM, offset)))


class OutputProjection(nn.Module):
    """Linear layer from states to logits; its matrix is often shared with a token embedding."""

    def __init__(self, tokens: TokenEmbedding, bias: bool) -> None:
        super().__init__()
        self.tokens = tokens
        self.bias_V = nn.Parameter(torch.zeros(len(tokens.weight_VM))) if bias else None

    def forward(self, x_BTM: Tensor) -> Tensor:
        """Return the logits, [B, T, V]."""
        return F.linear(x_BTM, self.tokens.weight_VM, self.bias_V)

    def log_probabilities(self, x_BTM: Tensor) -> Tensor:
        """Return the log softmax of the logits, [B, T, V], in float32 or higher precision."""
        logits_BTV = self(x_BTM)
        precision = torch.promote_types(logits_BTV.dtype, torch.float32)
        if precision == logits_BTV.dtype and logits_BTV.is_inference():
            # In place: allocating a second tensor of this size costs more than the computation.
            return torch.log_softmax(logits_BTV, -1, out=logits_BTV)
        return logits_BTV.log_softmax(dim=-1, dtype=precision)


def check_ids_shape_and_dtype(ids_BT: Tensor) -> None:
    """Raise `InputError` if `ids_BT` is not a batch of ids.

    Whether the ids are in the vocabulary is checked by `TokenEmbedding`.
    """
    if not isinstance(ids_BT, Tensor):
        raise InputError(f"ids must be a tensor, but are {type(ids_BT).__name__} instead")
    if ids_BT.dim() != 2:
        raise InputError(f"ids must have two axes [batch, tokens], but have {ids_BT.dim()} instead")
    if ids_BT.dtype not in {torch.int64, torch.int32}:
        raise InputError(f"ids must be int64 or int32, but are {ids_BT.dtype} instead")
    if ids_BT.numel() == 0:
        raise InputError(
            "a batch must have at least one sentence of one token, "
            f"but is {' × '.join(map(str, ids_BT.shape))} instead"
        )
