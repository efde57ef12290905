"""Multi-head attention: project, split into heads, attend in each, join them by W^O.

Whatever the number of heads, the four matrices hold 4·d_model² weights. Q, K and V are made by one
product where they come from the same place.
"""

from __future__ import annotations

from torch import Tensor, nn

from seq2see.model.attention import Attention
from seq2see.model.cache import KeyValues
from seq2see.model.layout import Layout
from seq2see.model.linear import Linear
from seq2see.model.masks import Mask
from seq2see.model.recorder import SILENCE, Recorder, Site

# N tokens in a row, B batch, R targets, H heads, T queries, S keys, D features of a head,
# M features of the model


class MultiHead(nn.Module):
    """What the two kinds have in common: the heads, the attention inside them, and W^O."""

    def __init__(
        self,
        d_model: int,
        heads: int,
        attention: Attention,
        site: Site,
        bias: bool = True,
        shared_qk: bool = False,
    ) -> None:
        super().__init__()
        assert d_model % heads == 0, f"{heads} heads do not divide d_model {d_model}"
        self.heads = heads
        self.site = site
        self.shared_qk = shared_qk
        self.make_projections(d_model, bias)
        self.attention = attention
        self.output = Linear(d_model, d_model, bias)

    def make_projections(self, d_model: int, bias: bool) -> None:
        """Make W^Q, W^K and W^V, fused as far as they have the same input."""
        raise NotImplementedError

    def split(self, x_BTM: Tensor) -> Tensor:
        """Cut the features into heads, [B, H, T, D]."""
        return x_BTM.view(*x_BTM.shape[:-1], self.heads, -1).transpose(1, 2)

    def attend(
        self,
        queries_BHTD: Tensor,
        memory: KeyValues,
        layout: Layout,
        mask: Mask,
        recorder: Recorder,
    ) -> Tensor:
        """Attend in each head and join the heads, [N, M]."""
        listener = recorder.attention_listener(self.site)
        mixed_BHTD = self.attention(
            queries_BHTD, memory.keys_BHSD, memory.values_BHSD, mask, listener
        )
        return self.output(layout.row(mixed_BHTD.transpose(1, 2).flatten(2)))

    def extra_repr(self) -> str:
        """Show the number of heads."""
        return f"heads={self.heads}"


class SelfAttention(MultiHead):
    """Tokens look at the tokens of their own sentence."""

    def make_projections(self, d_model: int, bias: bool) -> None:
        """Make one matrix for all three; a shared one serves queries and keys."""
        self.qkv = Linear(d_model, d_model, bias, blocks=2 if self.shared_qk else 3)

    def project(self, x_NM: Tensor, layout: Layout) -> tuple[Tensor, KeyValues]:
        """Return the queries, and the keys and values, of each head."""
        parts_BTM = layout.sentences(self.qkv(x_NM)).chunk(self.qkv.blocks, dim=-1)
        first, *others = (self.split(part_BTM) for part_BTM in parts_BTM)
        keys, values = [first, *others] if self.shared_qk else others
        return first, KeyValues(keys, values)

    def forward(
        self,
        x_NM: Tensor,
        layout: Layout,
        mask: Mask,
        recorder: Recorder = SILENCE,
        past: KeyValues | None = None,
    ) -> tuple[Tensor, KeyValues]:
        """Attend to these tokens and those of the past; return also what the next step needs."""
        queries_BHTD, memory = self.project(x_NM, layout)
        if past is not None:
            memory = past.append(memory)
        return self.attend(queries_BHTD, memory, layout, mask, recorder), memory


class CrossAttention(MultiHead):
    """Target tokens look at the memory of the source."""

    def make_projections(self, d_model: int, bias: bool) -> None:
        """Make one matrix for the target and one for the memory; a shared W^Q makes keys too."""
        self.query = Linear(d_model, d_model, bias)
        self.key_value = Linear(d_model, d_model, bias, blocks=1 if self.shared_qk else 2)

    def remember(self, memory_NM: Tensor, layout: Layout) -> KeyValues:
        """Return keys and values of the memory, which stay the same for every step."""
        parts_BSM = layout.sentences(self.key_value(memory_NM)).chunk(self.key_value.blocks, dim=-1)
        keys_BSM = layout.sentences(self.query(memory_NM)) if self.shared_qk else parts_BSM[0]
        return KeyValues(self.split(keys_BSM), self.split(parts_BSM[-1]))

    def forward(
        self,
        x_NM: Tensor,
        memory: KeyValues,
        layout: Layout,
        mask: Mask,
        recorder: Recorder = SILENCE,
    ) -> Tensor:
        """Attend to the memory, of which each row may serve several targets."""
        queries_RTM = layout.sentences(self.query(x_NM))
        sources = len(memory.keys_BHSD)
        sharers = len(queries_RTM) // sources
        if sharers > 1 and recorder.attention_listener(self.site):
            memory, mask = _apart(memory, mask, sharers)  # a record has a row for each target
        elif sharers > 1:  # the memory cannot tell if they are tokens of one target or of several
            queries_RTM = queries_RTM.reshape(sources, -1, queries_RTM.size(2))
        return self.attend(self.split(queries_RTM), memory, layout, mask, recorder)


def _apart(memory: KeyValues, mask: Mask, sharers: int) -> tuple[KeyValues, Mask]:
    """Return memory and mask with a row for each of those that share one."""
    parts = (memory.keys_BHSD, memory.values_BHSD)
    copies = KeyValues(*(part.repeat_interleave(sharers, 0) for part in parts))
    if mask.hidden is None:
        return copies, mask
    return copies, Mask(mask.hidden.repeat_interleave(sharers, 0), mask.causal)
