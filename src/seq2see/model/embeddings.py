"""From ids to vectors, and from vectors to scores over the vocabulary."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.errors import InputError
from seq2see.model.dropout import Dropout
from seq2see.model.positions import Positions

# B batch, T tokens, M features of the model, V vocabulary


class TokenTable(nn.Module):
    """A vector for each id, from N(0, 1/d_model): times √d_model it has variance 1.

    No id is special here. In some models the start symbol is the padding id, so the padding needs a
    vector like every other.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight_VM = nn.Parameter(torch.randn(vocab_size, d_model) * d_model**-0.5)

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Return the vector of each id."""
        try:
            return F.embedding(ids_BT, self.weight_VM)
        except IndexError:  # on a CPU; other devices do not tell which id it was
            last = len(self.weight_VM) - 1
            wrong = ids_BT[(ids_BT < 0) | (ids_BT > last)][0].item()
            raise InputError(
                f"an id must be from 0 to {last}, the table's last, but is {wrong} instead"
            ) from None


class Embeddings(nn.Module):
    """The input of a stack: √d_model · token + position (+ token type), normalised if asked for."""

    def __init__(
        self,
        tokens: TokenTable,
        positions: Positions,
        dropout: Dropout,
        scale: bool,
        norm: nn.Module,
        types: TokenTable | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.types = types
        self.norm = norm
        self.dropout = dropout
        self.factor = math.sqrt(tokens.weight_VM.size(1)) if scale else 1.0

    def forward(self, ids_BT: Tensor, offset: int = 0, types_BT: Tensor | None = None) -> Tensor:
        """Embed tokens, the first of which stands at position `offset`."""
        check_ids(ids_BT)
        x_BTM = self.tokens(ids_BT) * self.factor
        if self.types is not None:
            x_BTM = x_BTM + self.types(_types_of(ids_BT, types_BT))
        elif types_BT is not None:
            raise InputError(
                "token types must be left out: this model has none (`embeddings.token_types` is 0)"
            )
        return self.dropout(self.norm(self.positions(x_BTM, offset)))


def _types_of(ids_BT: Tensor, types_BT: Tensor | None) -> Tensor:
    """Return the given types, if they fit the ids, or type 0 for all."""
    if types_BT is None:
        return torch.zeros_like(ids_BT)
    check_ids(types_BT)
    if types_BT.shape != ids_BT.shape:
        raise InputError(
            f"token types must have the shape of the ids, {_shape(ids_BT)}, "
            f"but have {_shape(types_BT)} instead"
        )
    return types_BT


class Output(nn.Module):
    """A score for each piece of the vocabulary: a linear layer, its matrix often a token table."""

    def __init__(self, tokens: TokenTable, bias: bool) -> None:
        super().__init__()
        self.tokens = tokens
        self.bias_V = nn.Parameter(torch.zeros(len(tokens.weight_VM))) if bias else None

    def forward(self, x_BTM: Tensor) -> Tensor:
        """Return the logits, [B, T, V]."""
        return F.linear(x_BTM, self.tokens.weight_VM, self.bias_V)

    def log_probabilities(self, x_BTM: Tensor) -> Tensor:
        """Return log softmax of the logits, in float32 at least, finite at any magnitude."""
        logits_BTV = self(x_BTM)
        precision = torch.promote_types(logits_BTV.dtype, torch.float32)
        if precision == logits_BTV.dtype and logits_BTV.is_inference():
            # In their own place: a second tensor of that size costs more than the sum itself.
            return torch.log_softmax(logits_BTV, -1, out=logits_BTV)
        return logits_BTV.log_softmax(dim=-1, dtype=precision)


def check_ids(ids_BT: Tensor) -> None:
    """Refuse what is not a batch of ids. Whether each is in the vocabulary, the look-up tells."""
    if not isinstance(ids_BT, Tensor):
        raise InputError(f"ids must be a tensor, but are {type(ids_BT).__name__} instead")
    if ids_BT.dim() != 2:
        raise InputError(f"ids must have two axes [batch, tokens], but have {ids_BT.dim()} instead")
    if ids_BT.dtype not in {torch.int64, torch.int32}:
        raise InputError(f"ids must be int64 or int32, but are {ids_BT.dtype} instead")
    if ids_BT.numel() == 0:
        raise InputError(
            f"a batch must have at least one sentence of one token, but is {_shape(ids_BT)} instead"
        )


def _shape(x: Tensor) -> str:
    return " × ".join(map(str, x.shape))
