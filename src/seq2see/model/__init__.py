"""The Transformer: token ids in, logits out.

A `ModelConfig` describes a model, `ModelBuilder` builds its modules, and `Transformer` combines
them. The parts that an experiment may replace are in the modules of this package.
"""

from seq2see.model.attention import (
    ATTENTION_KINDS,
    AdditiveAttention,
    AttentionFunction,
    CrossAttention,
    DotProductAttention,
    LinformerAttention,
    MultiHeadAttention,
    QKNormAttention,
    RelativeAttention,
    SelfAttention,
)
from seq2see.model.cache import DecoderCache, EncoderOutput, KeyValues
from seq2see.model.config import (
    AttentionFunctionConfig,
    DropoutConfig,
    EmbeddingAndOutputConfig,
    ModelConfig,
)
from seq2see.model.layers import Decoder, DecoderLayer, Encoder
from seq2see.model.masks import (
    CAUSAL_MASK,
    NO_MASK,
    AttentionMask,
    BatchLayout,
    build_padded_key_mask,
    masked_softmax,
)
from seq2see.model.positional_encodings import (
    POSITIONAL_ENCODINGS,
    AbsolutePositions,
    RelativePositionEmbeddings,
    RelativePositions,
    compute_sinusoids,
)
from seq2see.model.recorder import (
    NULL_RECORDER,
    AttentionIntermediates,
    AttentionListener,
    AttentionModuleId,
    AttentionRecorder,
    LayerListener,
    Recorder,
    StackName,
)
from seq2see.model.summary import count_parameters, format_model_summary
from seq2see.model.transformer import ModelBuilder, Transformer

__all__ = [
    "ATTENTION_KINDS",
    "CAUSAL_MASK",
    "NO_MASK",
    "NULL_RECORDER",
    "POSITIONAL_ENCODINGS",
    "AbsolutePositions",
    "AdditiveAttention",
    "AttentionFunction",
    "AttentionFunctionConfig",
    "AttentionIntermediates",
    "AttentionListener",
    "AttentionMask",
    "AttentionModuleId",
    "AttentionRecorder",
    "BatchLayout",
    "CrossAttention",
    "Decoder",
    "DecoderCache",
    "DecoderLayer",
    "DotProductAttention",
    "DropoutConfig",
    "EmbeddingAndOutputConfig",
    "Encoder",
    "EncoderOutput",
    "KeyValues",
    "LayerListener",
    "LinformerAttention",
    "ModelBuilder",
    "ModelConfig",
    "MultiHeadAttention",
    "QKNormAttention",
    "Recorder",
    "RelativeAttention",
    "RelativePositionEmbeddings",
    "RelativePositions",
    "SelfAttention",
    "StackName",
    "Transformer",
    "build_padded_key_mask",
    "compute_sinusoids",
    "count_parameters",
    "format_model_summary",
    "masked_softmax",
]
