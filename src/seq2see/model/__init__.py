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
from seq2see.model.cache import DecoderCache, EncoderOutput, KeyValues
from seq2see.model.config import (
    PRESETS,
    AttentionConfig,
    DropoutConfig,
    EmbeddingsConfig,
    ModelConfig,
    NormConfig,
    PositionsConfig,
)
from seq2see.model.embeddings import RelativePositionEmbeddings, compute_sinusoids
from seq2see.model.layers import Decoder, Encoder
from seq2see.model.masks import (
    CAUSAL_MASK,
    NO_MASK,
    AttentionMask,
    BatchLayout,
    UnpaddedLayout,
    build_padding_mask,
    masked_softmax,
)
from seq2see.model.recorder import (
    NULL_RECORDER,
    AttentionListener,
    AttentionRecord,
    AttentionSite,
    LayerListener,
    Recorder,
    StackName,
)
from seq2see.model.summary import count_parameters, format_model_summary
from seq2see.model.transformer import ModelBuilder, Transformer

__all__ = [
    "CAUSAL_MASK",
    "NO_MASK",
    "NULL_RECORDER",
    "PRESETS",
    "AdditiveAttention",
    "Attention",
    "AttentionConfig",
    "AttentionListener",
    "AttentionMask",
    "AttentionRecord",
    "AttentionSite",
    "BatchLayout",
    "Decoder",
    "DecoderCache",
    "DotProductAttention",
    "DropoutConfig",
    "EmbeddingsConfig",
    "Encoder",
    "EncoderOutput",
    "KeyValues",
    "LayerListener",
    "LinformerAttention",
    "ModelBuilder",
    "ModelConfig",
    "NormConfig",
    "PositionsConfig",
    "QKNormAttention",
    "Recorder",
    "RelativeAttention",
    "RelativePositionEmbeddings",
    "StackName",
    "Transformer",
    "UnpaddedLayout",
    "build_padding_mask",
    "compute_sinusoids",
    "count_parameters",
    "format_model_summary",
    "masked_softmax",
]
