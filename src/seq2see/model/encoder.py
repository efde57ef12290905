"""The encoder: source ids in, memory out. By itself, with the right parts, it is BERT's."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from seq2see.model.cache import Memory
from seq2see.model.embeddings import Embeddings
from seq2see.model.layers import EncoderLayer
from seq2see.model.layout import Layout
from seq2see.model.masks import padding_mask
from seq2see.model.recorder import SILENCE, Recorder

# B batch, S source tokens, N tokens in a row, M features of the model


class Encoder(nn.Module):
    """Embeddings, layers, and a last norm (which does nothing in a post-norm model).

    A share of padding above `least_padding` is left out.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        layers: Iterable[EncoderLayer],
        norm: nn.Module,
        pad_id: int,
        least_padding: float = 0.0,
    ) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.pad_id = pad_id
        self.least_padding = least_padding

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
        layout, mask = Layout.without(padding_BS, self.least_padding), padding_mask(padding_BS)
        x_NM = layout.row(x_BSM)
        for i, layer in enumerate(self.layers):
            x_NM = layer(x_NM, layout, mask, recorder)
            if listener := recorder.layer_listener("encoder", i):
                listener(layout.sentences(x_NM))
        return Memory(layout.sentences(self.norm(x_NM)), padding_BS)
