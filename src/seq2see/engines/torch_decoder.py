"""Step-by-step decoding of one batch with the PyTorch model.

`TorchDecoder` encodes the sources, runs the cached decoder step and the output projection, and can
record cross-attention weights.

The encoder gets groups of sources of similar length. A search runs faster on large batches with
sources of any length, but the encoder gains nothing from more than a few hundred tokens and loses
by padding: attention computes all positions, and removing padding elsewhere needs copies.

`FastCpuHiddenStateStepper` returns the same values as `Transformer.step`, with less overhead per
call: modules are bypassed, and the key/value cache is preallocated with time as the first axis, so
that a new token is appended without copies and the cache is copied only when hypotheses are
reordered. `ModelHiddenStateStepper` is the reference implementation and supports every model,
device and recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.config import Config
from seq2see.cpu import PackedLinear, can_multiply_with_onednn
from seq2see.errors import Problem
from seq2see.model import (
    NULL_RECORDER,
    AttentionModuleId,
    AttentionRecorder,
    Decoder,
    DotProductAttention,
    EncoderOutput,
    ModelConfig,
    Recorder,
    Transformer,
)
from seq2see.model.attention import CrossAttention, MultiHeadAttention, SelfAttention
from seq2see.model.basic_modules import (
    Dropout,
    FeedForward,
    PostNormResidual,
    PreNormResidual,
    Residual,
    Sublayer,
    XavierLinear,
)
from seq2see.model.embeddings import OutputProjection
from seq2see.model.layers import DecoderLayer
from seq2see.search import StepOutput

# B sources, K beams, R = B·K hypotheses, T target tokens so far, C capacity of the cache, S source
# tokens, L layers, H heads, G = B·H, D features of a head, M features of the model, V vocabulary

LogProbabilityFunction = Callable[[Tensor], Tensor]
"""Returns the log-probabilities of the next token, [R, V], from the states of the decoder."""

MIN_GROUP_TOKENS = 512
"""Sources of different lengths share a group until it has this number of tokens."""
MIN_ROWS_TO_PACK = 32
"""Minimum number of hypotheses of a search (over all batches) for which packing the output weights
saves time."""
INITIAL_CACHE_LENGTH = 16
"""Number of tokens for which the cache is allocated at first."""
SUPPORTED_MODULES = {
    CrossAttention,
    DecoderLayer,
    DotProductAttention,
    Dropout,
    FeedForward,
    XavierLinear,
    PostNormResidual,
    PreNormResidual,
    SelfAttention,
    nn.Identity,
    nn.LayerNorm,
}
"""Modules of a decoder layer that `FastCpuHiddenStateStepper` implements."""


class AlignmentConfig(Config):
    """Layer and heads whose cross-attention weights are used as word alignment."""

    layer: int | None = Field(default=None, ge=0)
    """Decoder layer, from 0. By default the last but one, but not the first of several: the last
    layer prepares the output, and the first has too little context."""
    heads: tuple[int, ...] | None = Field(default=None, min_length=1, strict=False)
    """Heads whose weights are averaged. By default all heads of the layer."""

    def resolve_layer(self, num_layers: int) -> int:
        """Return the layer to use in a decoder with `num_layers` layers."""
        return max(min(1, num_layers - 1), num_layers - 2) if self.layer is None else self.layer

    def create_recorder(
        self, model: Transformer, inner: Recorder = NULL_RECORDER
    ) -> AttentionRecorder:
        """Return a recorder of the cross-attention of the layer; `inner` receives everything."""
        layer = self.resolve_layer(len(model.decoder.layers))
        site = AttentionModuleId("decoder", layer, "cross")
        return AttentionRecorder(lambda each: each == site, inner)

    def average_heads(self, recorder: AttentionRecorder) -> Tensor:
        """Return the recorded weights averaged over the heads, [R, T, S]."""
        (weights_RHTS,) = recorder.weights_BHTS.values()
        return (weights_RHTS if self.heads is None else weights_RHTS[:, list(self.heads)]).mean(1)

    def find_problems(self, config: ModelConfig) -> Iterator[Problem]:
        """Yield a message for each setting that does not fit the model."""
        if self.resolve_layer(config.decoder_layers) >= config.decoder_layers:
            yield Problem(
                "layer", f"must be below {config.decoder_layers}, but is {self.layer} instead"
            )
        if self.heads and max(self.heads) >= config.heads:
            yield Problem(
                "heads", f"must be below {config.heads}, but has {max(self.heads)} instead"
            )


def encode_in_groups(
    model: Transformer, source_BS: Tensor, recorder: Recorder = NULL_RECORDER
) -> EncoderOutput:
    """Return the encoder output of a batch, computed in groups of sources of similar length.

    Sources should be sorted by length, longest first. On other devices than a CPU, and with a
    recorder, the whole batch is encoded at once.
    """
    if source_BS.device.type != "cpu" or recorder is not NULL_RECORDER:
        return model.encode(source_BS, recorder)
    padding_BS = source_BS == model.encoder.pad_id
    positions_S = torch.arange(1, source_BS.size(1) + 1)
    # Up to the last token: a source may contain padding.
    lengths = positions_S.masked_fill(padding_BS, 1).amax(1).tolist()
    ends = [0, *find_length_group_ends(lengths)]
    if len(ends) == 2:
        return model.encode(source_BS)
    states = []
    for start, end in pairwise(ends):
        length = max(lengths[start:end])
        group_BSM = model.encode(source_BS[start:end, :length]).states_BSM
        states.append(F.pad(group_BSM, (0, 0, 0, source_BS.size(1) - length)))
    return EncoderOutput(torch.cat(states), padding_BS)


def find_length_group_ends(lengths: Sequence[int]) -> Iterator[int]:
    """Yield the end (exclusive) of each group of sources."""
    start = 0
    for index in range(1, len(lengths)):
        is_large = (index - start) * lengths[start] >= MIN_GROUP_TOKENS
        if is_large and lengths[index] != lengths[start]:
            yield index
            start = index
    yield len(lengths)


def choose_output_projection(
    output: OutputProjection, num_hypotheses: int
) -> LogProbabilityFunction:
    """Return the fastest output projection for a search with this number of hypotheses.

    It may contain a copy of the current weights, packed for the oneDNN kernel.
    """
    can_be_packed = (
        num_hypotheses >= MIN_ROWS_TO_PACK
        and type(output) is OutputProjection
        and not _is_hooked(output)
        and can_multiply_with_onednn(output.tokens.weight_VM)
        and not torch.is_autocast_enabled("cpu")
    )
    if not can_be_packed:
        return output.log_probabilities
    linear = PackedLinear(output.tokens.weight_VM, output.bias_V)

    def compute_log_probabilities(x_RM: Tensor) -> Tensor:
        logits_RV = linear(x_RM)
        return torch.log_softmax(logits_RV, -1, out=logits_RV)

    return compute_log_probabilities


def _is_hooked(module: nn.Module) -> bool:
    hooks = module._forward_hooks or module._forward_pre_hooks
    return bool(hooks or "forward" in vars(module))


def create_hidden_state_stepper(
    model: Transformer, memory: EncoderOutput, recorder: Recorder = NULL_RECORDER
) -> ModelHiddenStateStepper | FastCpuHiddenStateStepper:
    """Return the fastest step decoder that supports the model, its device and the recorder."""
    supports_fast_step = (
        recorder is NULL_RECORDER
        and memory.states_BSM.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and not memory.padding_BS.all(1).any()  # there attention must be zero, not NaN
        and supports_fast_cpu_step(model)
    )
    if supports_fast_step:
        return FastCpuHiddenStateStepper(model, memory)
    return ModelHiddenStateStepper(model, memory, recorder)


def supports_fast_cpu_step(model: Transformer) -> bool:
    """Return whether the decoder consists of unmodified modules of `SUPPORTED_MODULES`.

    Replaced modules and modules with hooks are not supported.
    """
    decoder = model.decoder
    if type(model) is not Transformer or type(decoder) is not Decoder:
        return False
    modules = [module for layer in decoder.layers for module in layer.modules()]
    num_heads = {module.heads for module in modules if isinstance(module, MultiHeadAttention)}
    return (
        len(num_heads) == 1
        and all(type(module) in SUPPORTED_MODULES for module in (*modules, decoder.norm))
        and not any(map(_is_modified, (decoder, decoder.norm, *modules)))
    )


def _is_modified(module: nn.Module) -> bool:
    is_shared = isinstance(module, MultiHeadAttention) and module.shared_qk
    return is_shared or _is_hooked(module) or module.training


class ModelHiddenStateStepper:
    """Decodes with `Transformer.step`, for every model, device and recorder.

    A step decoder decodes the hypotheses of one batch of sources, one token per step.
    """

    def __init__(
        self, model: Transformer, memory: EncoderOutput, recorder: Recorder = NULL_RECORDER
    ) -> None:
        self._model = model
        self._recorder = recorder
        self._cache = model.init_cache(memory)

    def step(self, tokens_R: Tensor) -> Tensor:
        """Append one token to each hypothesis, and return the decoder states, [R, M]."""
        return self._model.step(tokens_R[:, None], self._cache, self._recorder).squeeze(1)

    def reorder(self, sources_B: Tensor, parents_BK: Tensor) -> None:
        """Keep the given sources, and continue hypothesis k of each from its old one parents[k].

        If the number of sources does not change, `sources_B` must list all of them in order.
        """
        self._cache.reorder(sources_B, parents_BK)


class FastCpuHiddenStateStepper:
    """Decodes with direct calls of torch functions; see the docstring of this module.

    The model must satisfy `supports_fast_cpu_step`. An instance that was created in inference mode
    must be used in inference mode.
    """

    @torch.no_grad()
    def __init__(self, model: Transformer, memory: EncoderOutput) -> None:
        decoder, states_BSM = model.decoder, memory.states_BSM
        self._embed, self._norm = decoder.embeddings, build_norm_function(decoder.norm)
        self._layers = [FastCpuDecoderLayer(layer, memory) for layer in decoder.layers]
        heads, dtype = self._layers[0].heads, states_BSM.dtype
        self._mask_G1S = build_additive_mask(memory.padding_BS, heads, dtype)
        self._num_sources, self._num_beams = len(states_BSM), 1
        shape = (INITIAL_CACHE_LENGTH, len(self._layers), 2, self._num_sources, states_BSM.size(2))
        self._past_CL2RM = states_BSM.new_empty(shape)
        self._length = 0

    @torch.no_grad()
    def step(self, tokens_R: Tensor) -> Tensor:
        """Append one token to each hypothesis, and return the decoder states, [R, M]."""
        if self._length == len(self._past_CL2RM):
            self._past_CL2RM = torch.cat((self._past_CL2RM, torch.empty_like(self._past_CL2RM)))
        x_RM = self._embed(tokens_R[:, None], offset=self._length)[:, 0]
        self._length += 1
        for layer, past_C2RM in zip(self._layers, self._past_CL2RM.unbind(1), strict=True):
            past_T2RM = past_C2RM[: self._length]
            x_RM = layer.step(x_RM, past_T2RM, self._mask_G1S, self._num_beams)
        return self._norm(x_RM)

    @torch.no_grad()
    def reorder(self, sources_B: Tensor, parents_BK: Tensor) -> None:
        """Reorder the cached keys and values; see `ModelHiddenStateStepper.reorder`."""
        index_R = (sources_B[:, None] * self._num_beams + parents_BK).flatten()
        self._num_beams = parents_BK.size(1)
        if len(sources_B) != self._num_sources:
            self._select_sources(sources_B)
        capacity, layers, two, _, features = self._past_CL2RM.shape
        past = self._past_CL2RM.new_empty(capacity, layers, two, len(index_R), features)
        old, new = (each[: self._length].flatten(0, 2) for each in (self._past_CL2RM, past))
        torch.index_select(old, 1, index_R, out=new)
        self._past_CL2RM = past

    def _select_sources(self, sources_B: Tensor) -> None:
        if self._mask_G1S is not None:
            self._mask_G1S = select_sources(self._mask_G1S, sources_B, self._num_sources)
        for layer in self._layers:
            layer.keys_GSD = select_sources(layer.keys_GSD, sources_B, self._num_sources)
            layer.values_GSD = select_sources(layer.values_GSD, sources_B, self._num_sources)
        self._num_sources = len(sources_B)


class FastCpuDecoderLayer:
    """One decoder layer with the keys and values of the sources."""

    def __init__(self, layer: DecoderLayer, memory: EncoderOutput) -> None:
        attention, cross, feed_forward = layer.attention, layer.cross_attention, layer.feed_forward
        self.heads = cross.heads
        self.self_scale, self.cross_scale = map(get_attention_scale, (attention, cross))
        self.self_residual = build_residual_function(layer.attention_residual)
        self.qkv, self.self_output = map(build_linear_function, (attention.qkv, attention.output))
        self.cross_residual = build_residual_function(layer.cross_attention_residual)
        self.query, self.cross_output = map(build_linear_function, (cross.query, cross.output))
        self.feed_forward_residual = build_residual_function(layer.feed_forward_residual)
        self.up, self.down = map(build_linear_function, (feed_forward.up, feed_forward.down))
        self.activation = feed_forward.activation
        keys_and_values = cross.key_value(memory.states_BSM).chunk(2, dim=-1)
        self.keys_GSD, self.values_GSD = (
            fold_heads_into_batch(part_BSM, self.heads) for part_BSM in keys_and_values
        )

    def step(
        self, x_RM: Tensor, past_T2RM: Tensor, mask_G1S: Tensor | None, num_beams: int
    ) -> Tensor:
        """Return the output of the layer, and write keys and values of the token to the cache."""
        x_RM = self.self_residual(x_RM, lambda h_RM: self._self_attention(h_RM, past_T2RM))
        x_RM = self.cross_residual(
            x_RM, lambda h_RM: self._cross_attention(h_RM, mask_G1S, num_beams)
        )
        return self.feed_forward_residual(
            x_RM, lambda h_RM: self.down(self.activation(self.up(h_RM)))
        )

    def _self_attention(self, x_RM: Tensor, past_T2RM: Tensor) -> Tensor:
        qkv_R3M = self.qkv(x_RM).view(len(x_RM), 3, -1)
        past_T2RM[-1].copy_(qkv_R3M[:, 1:].transpose(0, 1))
        queries_RM = qkv_R3M[:, 0] * self.self_scale
        return self.self_output(attend_to_past(queries_RM, past_T2RM, self.heads))

    def _cross_attention(self, x_RM: Tensor, mask_G1S: Tensor | None, num_beams: int) -> Tensor:
        queries_RM = self.query(x_RM).mul_(self.cross_scale)
        queries_GKD = fold_heads_into_batch(
            queries_RM.view(-1, num_beams, queries_RM.size(1)), self.heads
        )
        keys_GDS = self.keys_GSD.transpose(1, 2)
        if mask_G1S is None:
            scores_GKS = torch.bmm(queries_GKD, keys_GDS)
        else:
            scores_GKS = torch.baddbmm(mask_G1S, queries_GKD, keys_GDS)
        context_GKD = torch.bmm(scores_GKS.softmax(-1), self.values_GSD)
        context_BKHD = context_GKD.view(-1, self.heads, *context_GKD.shape[1:]).transpose(1, 2)
        return self.cross_output(context_BKHD.reshape(len(x_RM), -1))


def attend_to_past(queries_RM: Tensor, past_T2RM: Tensor, heads: int) -> Tensor:
    """Return the attention to all past tokens, with one scaled query per hypothesis, [R, M]."""
    keys_TRHD, values_TRHD = past_T2RM.view(*past_T2RM.shape[:-1], heads, -1).unbind(1)
    queries_RHD = queries_RM.view(len(queries_RM), heads, -1)
    weights_TRH = (keys_TRHD * queries_RHD).sum(-1).softmax(0)
    return (values_TRHD * weights_TRH[..., None]).sum(0).view(queries_RM.shape)


def fold_heads_into_batch(x_BSM: Tensor, heads: int) -> Tensor:
    """Return one matrix per head of each row, [G, S, D]."""
    return x_BSM.view(*x_BSM.shape[:-1], heads, -1).transpose(1, 2).flatten(0, 1)


def select_sources(x_G: Tensor, sources_B: Tensor, num_sources: int) -> Tensor:
    """Return the rows of the given sources, with all heads of each."""
    return x_G.view(num_sources, -1, *x_G.shape[1:]).index_select(0, sources_B).flatten(0, 1)


def build_additive_mask(padding_BS: Tensor, heads: int, dtype: torch.dtype) -> Tensor | None:
    """Return a mask with −∞ for padding and 0 elsewhere, [G, 1, S], or None without padding."""
    if not padding_BS.any():
        return None
    mask_BS = padding_BS.new_zeros(padding_BS.shape, dtype=dtype)
    return mask_BS.masked_fill_(padding_BS, -torch.inf)[:, None].repeat_interleave(heads, 0)


def get_attention_scale(module: MultiHeadAttention) -> float:
    """Return the factor on the attention scores."""
    assert isinstance(module.attention, DotProductAttention)
    return module.attention.scale


def build_linear_function(module: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Return a function that computes the linear layer without the overhead of a module call."""
    return partial(F.linear, weight=module.weight, bias=module.bias)


def build_residual_function(module: Residual) -> Callable[[Tensor, Sublayer], Tensor]:
    """Return a function that computes the residual connection, without dropout."""
    norm = build_norm_function(module.norm)
    if isinstance(module, PreNormResidual):
        return lambda x_RM, sublayer: sublayer(norm(x_RM)).add_(x_RM)
    return lambda x_RM, sublayer: norm(sublayer(x_RM).add_(x_RM))


def build_norm_function(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return a function that computes the norm without the overhead of a module call."""
    if type(module) is not nn.LayerNorm:
        return module
    shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


class TorchDecoder:
    """Decodes one batch of encoded sources step by step; see `IncrementalDecoder`.

    Args:
        model: The model.
        source_BS: Source ids with special tokens and padding.
        recorder: Records the encoder and the decoder.
        alignment: If given, each step also returns the cross-attention weights of these heads;
            attention then uses the plain implementation.
        output_projection: Replaces the output projection of the model.
    """

    def __init__(
        self,
        model: Transformer,
        source_BS: Tensor,
        recorder: Recorder = NULL_RECORDER,
        alignment: AlignmentConfig | None = None,
        output_projection: LogProbabilityFunction | None = None,
    ) -> None:
        self._compute_log_probabilities = output_projection or model.output.log_probabilities
        self._alignment = alignment
        self._recorder = alignment.create_recorder(model, recorder) if alignment else None
        self._state_stepper = create_hidden_state_stepper(
            model, encode_in_groups(model, source_BS, recorder), self._recorder or recorder
        )

    def step(self, tokens_BK: Tensor) -> StepOutput:
        """Append one token to each hypothesis, and return the scores of the next token."""
        states_RM = self._state_stepper.step(tokens_BK.flatten())
        log_probs_BKV = self._compute_log_probabilities(states_RM).view(*tokens_BK.shape, -1)
        if self._alignment is None or self._recorder is None:
            return StepOutput(log_probs_BKV)
        weights_RS = self._alignment.average_heads(self._recorder)[:, -1]
        return StepOutput(log_probs_BKV, weights_RS.view(*tokens_BK.shape, -1))

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Keep the given sentences and the surviving beams of each."""
        self._state_stepper.reorder(rows_B, parents_BK)
