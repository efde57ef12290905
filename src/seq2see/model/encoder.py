"""The encoder: source ids in, memory out. By itself, with the right parts, it is BERT's."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from seq2see.model.cache import Memory
from seq2see.model.embeddings import Embeddings
from seq2see.model.layers import EncoderLayer
from seq2see.model.norms import Norm
from seq2see.model.recorder import SILENCE, Recorder

# B batch, S source tokens, M features of the model


class Encoder(nn.Module):
    """Embeddings, layers, and a last norm (which does nothing in a post-norm model)."""

    def __init__(
        self,
        embeddings: Embeddings,
        layers: Iterable[EncoderLayer],
        norm: Norm,
        pad_id: int,
    ) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.pad_id = pad_id

    def forward(
        self, ids_BS: Tensor, types_BS: Tensor | None = None, recorder: Recorder = SILENCE
    ) -> Memory:
        """Encode a batch of sources, padded with the pad id."""
        x_BSM = self.embeddings(ids_BS, types_BT=types_BS)
        return self.encode_vectors(x_BSM, ids_BS == self.pad_id, recorder)

    def encode_vectors(
        self, x_BSM: Tensor, padding_BS: Tensor, recorder: Recorder = SILENCE
    ) -> Memory:
        """Encode what was embedded already."""
        memory = Memory(x_BSM, padding_BS)
        for i, layer in enumerate(self.layers):
            x_BSM = layer(x_BSM, padding_BS, memory.mask, recorder)
            recorder.layer_output("encoder", i, x_BSM)
        return Memory(self.norm(x_BSM, padding_BS), padding_BS)
