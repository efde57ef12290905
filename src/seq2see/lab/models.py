"""Parts of the project's model with recorded intermediate results, and measures of computations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from seq2see.lab.core import Context
from seq2see.model import (
    NO_MASK,
    AttentionFunctionConfig,
    AttentionIntermediates,
    AttentionMask,
    AttentionModuleId,
    BatchLayout,
    DotProductAttention,
    ModelBuilder,
    ModelConfig,
    SelfAttention,
    StackName,
    Transformer,
)
from seq2see.model.basic_modules import Dropout

# B batch, T tokens or queries, S keys, H heads, D features of a head, M features of the model

SITE = AttentionModuleId("encoder", 0, "self")
"""The name under which a single attention module is recorded."""


class IntermediatesRecorder:
    """Keeps all intermediate results of the attention modules and the outputs of the layers."""

    def __init__(self) -> None:
        self.attention: dict[AttentionModuleId, AttentionIntermediates] = {}
        self.layers: dict[tuple[StackName, int], Tensor] = {}

    def attention_listener(
        self, site: AttentionModuleId
    ) -> Callable[[AttentionIntermediates], None]:
        """Return a listener that keeps the last call of this module."""
        return lambda record: self.attention.update({site: record})

    def layer_listener(self, stack: StackName, layer: int) -> Callable[[Tensor], None]:
        """Return a listener that keeps the last output of this layer."""
        return lambda states_BTM: self.layers.update({(stack, layer): states_BTM})

    def encoder(self) -> list[AttentionIntermediates]:
        """Return the records of the encoder's self-attention from bottom to top."""
        return [record for site, record in self.attention.items() if site.stack == "encoder"]


def build_self_attention(
    context: Context, d_model: int = 512, heads: int = 8, **settings: object
) -> SelfAttention:
    """Return a self-attention module of the paper's size in float64 with initial weights.

    `settings` are those of `model.attention`, such as `shared_qk=True`.
    """
    torch.manual_seed(context.mix_seed("weights"))
    config = ModelConfig(vocab_size=1, d_model=d_model, heads=heads)
    return (
        ModelBuilder(config)
        .build_self_attention(AttentionFunctionConfig.model_validate(settings), SITE)
        .double()
    )


def attend(
    attention: SelfAttention, x_BTM: Tensor, mask: AttentionMask = NO_MASK
) -> tuple[Tensor, AttentionIntermediates]:
    """Apply a self-attention module; return its output [B, T, M] and all steps."""
    recorder = IntermediatesRecorder()
    layout = BatchLayout(x_BTM.size(0), x_BTM.size(1))
    output_NM, _ = attention(layout.flatten(x_BTM), layout, mask, recorder)
    return output_NM.view_as(x_BTM), recorder.attention[SITE]


@torch.no_grad()
def record_self_attention(
    context: Context, tokens: int = 8, sentences: int = 1, d_model: int = 512, **settings: Any
) -> AttentionIntermediates:
    """Return all steps of a self-attention with initial weights over random vectors N(0, 1)."""
    x_BTM = context.normal("tokens", sentences, tokens, d_model, dtype=torch.float64)
    return attend(build_self_attention(context, d_model, **settings), x_BTM)[1]


def attend_dot_product(
    q_BHTD: Tensor, k_BHSD: Tensor, v_BHSD: Tensor, scale: float
) -> tuple[Tensor, AttentionIntermediates]:
    """Apply the model's dot-product attention to given queries, keys and values."""
    records: list[AttentionIntermediates] = []
    attention = DotProductAttention(scale, Dropout(0.0))
    return attention(q_BHTD, k_BHSD, v_BHSD, NO_MASK, records.append), records[0]


def dot_product_scores(q_ND: Tensor, k_ND: Tensor, scale: float = 1.0) -> Tensor:
    """Return the score of each pair of rows as the model's attention computes it, [N]."""
    attention = DotProductAttention(scale, Dropout(0.0))
    return attention.compute_scores(q_ND[:, None, None], k_ND[:, None, None]).flatten()


@torch.no_grad()
def record_model(
    model: Transformer, source_BS: Tensor, decoder_input_BT: Tensor | None = None
) -> IntermediatesRecorder:
    """Run a model, or only its encoder if there is no target, and return what it computed."""
    recorder = IntermediatesRecorder()
    if decoder_input_BT is None:
        model.encode(source_BS, recorder)
    else:
        model(source_BS, decoder_input_BT, recorder)
    return recorder


def diagonal_argmax_share(weights_BHTS: Tensor, is_real_BT: Tensor | None = None) -> Tensor:
    """Return the share of the tokens of each head whose largest weight is their own, [H]."""
    best_BHT = weights_BHTS.argmax(dim=-1)
    own_BHT = best_BHT == torch.arange(weights_BHTS.size(-1))
    if is_real_BT is None:
        return own_BHT.double().mean(dim=(0, 2))
    return (own_BHT & is_real_BT[:, None]).double().sum(dim=(0, 2)) / is_real_BT.sum()


def max_abs_diff(a: Tensor, b: Tensor) -> float:
    """Return the largest absolute difference of two elements at the same position."""
    return float((a - b).detach().abs().max())


def count_different(a: Tensor, b: Tensor) -> int:
    """Return the number of elements that are not equal to the last bit."""
    return int(torch.count_nonzero(a != b))


def raises(error: type[Exception], call: Callable[[], object]) -> bool:
    """Return whether a call raises this exception."""
    try:
        call()
    except error:
        return True
    return False


def count_flops(call: Callable[[], object]) -> int:
    """Return the number of floating-point operations of the matrix products of a call."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def saved_bytes(call: Callable[[], object]) -> int:
    """Return the bytes of distinct tensors that a call keeps for the backward pass."""
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = call()  # while `result` lives, addresses are not used twice
    del result
    return sum(storages.values())


def kurtosis(values: Tensor) -> float:
    """Return the fourth moment over the squared variance; 3 for a normal variable."""
    centered = values.double() - values.double().mean()
    return float(centered.pow(4).mean() / centered.pow(2).mean() ** 2)
