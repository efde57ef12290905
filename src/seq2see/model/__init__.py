"""The Transformer: token ids in, logits out.

A `ModelConfig` describes a model, `ModelBuilder` builds its modules, and `Transformer` combines
them. The parts that an experiment may replace are in the modules of this package.
"""

from seq2see.model.attention import (
    ATTENTION_KINDS as ATTENTION_KINDS,
    AdditiveAttention as AdditiveAttention,
    AttentionFunction as AttentionFunction,
    CrossAttention as CrossAttention,
    DotProductAttention as DotProductAttention,
    LinformerAttention as LinformerAttention,
    MultiHeadAttention as MultiHeadAttention,
    QKNormAttention as QKNormAttention,
    RelativeAttention as RelativeAttention,
    SelfAttention as SelfAttention,
)
from seq2see.model.cache import (
    DecoderCache as DecoderCache,
    EncoderOutput as EncoderOutput,
    KeyValues as KeyValues,
)
from seq2see.model.config import (
    AttentionFunctionConfig as AttentionFunctionConfig,
    DropoutConfig as DropoutConfig,
    EmbeddingAndOutputConfig as EmbeddingAndOutputConfig,
    ModelConfig as ModelConfig,
)
from seq2see.model.layers import (
    Decoder as Decoder,
    DecoderLayer as DecoderLayer,
    Encoder as Encoder,
)
from seq2see.model.masks import (
    CAUSAL_MASK as CAUSAL_MASK,
    NO_MASK as NO_MASK,
    AttentionMask as AttentionMask,
    BatchLayout as BatchLayout,
    build_padded_key_mask as build_padded_key_mask,
    masked_softmax as masked_softmax,
)
from seq2see.model.positional_encodings import (
    POSITIONAL_ENCODINGS as POSITIONAL_ENCODINGS,
    AbsolutePositions as AbsolutePositions,
    RelativePositionEmbeddings as RelativePositionEmbeddings,
    RelativePositions as RelativePositions,
    compute_sinusoids as compute_sinusoids,
)
from seq2see.model.recorder import (
    NULL_RECORDER as NULL_RECORDER,
    AttentionIntermediates as AttentionIntermediates,
    AttentionListener as AttentionListener,
    AttentionModuleId as AttentionModuleId,
    AttentionRecorder as AttentionRecorder,
    LayerListener as LayerListener,
    Recorder as Recorder,
    StackName as StackName,
)
from seq2see.model.summary import (
    count_parameters as count_parameters,
    format_model_summary as format_model_summary,
)
from seq2see.model.transformer import ModelBuilder as ModelBuilder, Transformer as Transformer
