"""The model: ids in, logits out. Tensors know ids here, never words.

A `ModelConfig` names the parts, the `Builder` makes them, and a `Transformer` holds them together.
Everything that a later experiment may want to pass in or take out is public.
"""

from seq2see.model.attention import (
    AdditiveAttention,
    Attention,
    DotProductAttention,
    LinformerAttention,
    QKNormAttention,
    RelativeAttention,
)
from seq2see.model.cache import DecoderCache, KeyValues, Memory
from seq2see.model.config import (
    PRESETS,
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    ModelConfig,
    NormConfig,
    PositionsConfig,
)
from seq2see.model.embeddings import RelativeDistances, sinusoid
from seq2see.model.layers import Decoder, Encoder
from seq2see.model.masks import (
    CAUSAL,
    OPEN,
    Layout,
    Mask,
    RaggedLayout,
    masked_softmax,
    padding_mask,
)
from seq2see.model.recorder import (
    SILENCE,
    AttentionListener,
    AttentionRecord,
    LayerListener,
    Recorder,
    Site,
    Stack,
)
from seq2see.model.summary import count_parameters, summary
from seq2see.model.transformer import Builder, Transformer

__all__ = [
    "CAUSAL",
    "OPEN",
    "PRESETS",
    "SILENCE",
    "AdditiveAttention",
    "Attention",
    "AttentionConfig",
    "AttentionListener",
    "AttentionRecord",
    "Builder",
    "Decoder",
    "DecoderCache",
    "DotProductAttention",
    "DropoutConfig",
    "EmbeddingsConfig",
    "Encoder",
    "KeyValues",
    "LayerListener",
    "Layout",
    "LinformerAttention",
    "Mask",
    "Memory",
    "ModelConfig",
    "NormConfig",
    "PositionsConfig",
    "QKNormAttention",
    "RaggedLayout",
    "Recorder",
    "RelativeAttention",
    "RelativeDistances",
    "Site",
    "Stack",
    "Transformer",
    "count_parameters",
    "masked_softmax",
    "padding_mask",
    "sinusoid",
    "summary",
]
