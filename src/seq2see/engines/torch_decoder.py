"""Step-by-step decoding of one batch with the PyTorch model.

Holds the encoder call, the cached decoder step (with a faster version for CPUs), the output
projection and the recorder of cross-attention weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Protocol

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.config import Config
from seq2see.cpu import PackedLinear, supports_onednn
from seq2see.model import (
    NULL_RECORDER,
    AttentionListener,
    AttentionRecord,
    AttentionSite,
    Decoder,
    DotProductAttention,
    EncoderOutput,
    LayerListener,
    ModelConfig,
    Recorder,
    StackName,
    Transformer,
)
from seq2see.model.attention import CrossAttention, MultiHeadAttention, SelfAttention
from seq2see.model.embeddings import OutputProjection
from seq2see.model.layers import DecoderLayer
from seq2see.model.modules import (
    Dropout,
    FeedForward,
    PostNormResidual,
    PreNormResidual,
    Residual,
    Sublayer,
    XavierLinear,
)
from seq2see.search import StepOutput

# R rows, H heads, T target tokens, S source tokens
# B sources, S source tokens, M features of the model
# R hypotheses, M features of the model, V vocabulary
# B sources, K beams, R = B·K hypotheses, T target tokens so far, C room for such, S source tokens,
# L layers, H heads, G = B·H, D features of a head, M features of the model


class AlignmentConfig(Config):
    """Whose attention stands for "this word comes from that one"."""

    layer: int | None = Field(default=None, ge=0)
    """A layer of the decoder, from 0. Left out, the last but one, but not the first of several: the
    last prepares the output, and the first does not know yet what it looks for."""
    heads: tuple[int, ...] | None = Field(default=None, min_length=1, strict=False)
    """Some of its heads, whose mean is taken; left out, all."""

    def resolve_layer(self, num_layers: int) -> int:
        """Return the layer in a decoder of so many."""
        return max(min(1, num_layers - 1), num_layers - 2) if self.layer is None else self.layer

    def find_problems(self, config: ModelConfig) -> Iterator[str]:
        """Say what a model does not have."""
        if self.resolve_layer(config.decoder_layers) >= config.decoder_layers:
            yield f"`layer` must be below {config.decoder_layers}, but is {self.layer} instead"
        if self.heads and max(self.heads) >= config.heads:
            yield f"`heads` must be below {config.heads}, but has {max(self.heads)} instead"


class CrossAttentionRecorder:
    """A recorder that keeps where the decoder looked last, and lets another one hear all."""

    def __init__(self, layer: int, heads: tuple[int, ...] | None, inner: Recorder = NULL_RECORDER):
        self._site = AttentionSite("decoder", layer, "cross")
        self._heads = None if heads is None else list(heads)
        self._other = inner
        self.weights_RTS: Tensor | None = None

    def attention_listener(self, site: AttentionSite) -> AttentionListener | None:
        """Listen at one place, and wherever the other one does."""
        theirs = self._other.attention_listener(site)
        if site != self._site:
            return theirs

        def take(record: AttentionRecord) -> None:
            weights_RHTS = record.weights_BHTS
            if self._heads is not None:
                weights_RHTS = weights_RHTS[:, self._heads]
            self.weights_RTS = weights_RHTS.mean(1)
            if theirs:
                theirs(record)

        return take

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener | None:
        """Layers are the other one's."""
        return self._other.layer_listener(stack, layer)


MIN_GROUP_TOKENS = 512
"""Sources of different lengths share a group until it has so many tokens."""


def encode_in_groups(
    model: Transformer, source_BS: Tensor, recorder: Recorder = NULL_RECORDER
) -> EncoderOutput:
    """Return what the encoder makes of a batch, best with the longest sources first.

    Other devices than a CPU, and whoever listens, want it whole.
    """
    if source_BS.device.type != "cpu" or recorder is not NULL_RECORDER:
        return model.encode(source_BS, recorder)
    padding_BS = source_BS == model.encoder.pad_id
    lengths = compute_source_lengths(padding_BS).tolist()
    ends = [0, *find_group_ends(lengths)]
    if len(ends) == 2:
        return model.encode(source_BS)
    groups = [source_BS[start:end, : max(lengths[start:end])] for start, end in pairwise(ends)]
    states = [model.encode(group).states_BSM for group in groups]
    states_BSM = states[0].new_zeros(*source_BS.shape, states[0].size(2))
    for own, (start, end) in zip(states, pairwise(ends), strict=True):
        states_BSM[start:end, : own.size(1)] = own
    return EncoderOutput(states_BSM, padding_BS)


def compute_source_lengths(padding_BS: Tensor) -> Tensor:
    """Return how far each source reaches, at least to the first place: padding may be inside."""
    places_S = torch.arange(1, padding_BS.size(1) + 1, device=padding_BS.device)
    return (padding_BS.logical_not() * places_S).amax(1).clamp(min=1)


def find_group_ends(lengths: Sequence[int]) -> Iterator[int]:
    """Yield where each group ends, one behind its last source."""
    start = 0
    for place in range(1, len(lengths)):
        is_large = (place - start) * lengths[start] >= MIN_GROUP_TOKENS
        if is_large and lengths[place] != lengths[start]:
            yield place
            start = place
    yield len(lengths)


MIN_ROWS_TO_PACK = 32
"""Hypotheses of a search, all batches together: with fewer, its steps gain less than it takes to
pack the weights."""


class SupportsLogProbabilities(Protocol):
    """From states to what may come next."""

    def log_probabilities(self, x_RM: Tensor, /) -> Tensor:
        """Return a log-probability for each piece of the vocabulary, [R, V]."""


def choose_output_projection(
    output: OutputProjection, num_hypotheses: int
) -> SupportsLogProbabilities:
    """Return the fastest form of a model's output layer for a search of so many hypotheses.

    It may hold a copy of the weights as they are now.
    """
    is_float32 = supports_onednn(output.tokens.weight_VM) and not torch.is_autocast_enabled("cpu")
    is_worth_it = num_hypotheses >= MIN_ROWS_TO_PACK and is_float32
    return PackedOutputProjection(output) if is_worth_it and _is_plain(output) else output


def _is_plain(output: OutputProjection) -> bool:
    """Tell whether it is as it was made: what others have put in its place does its own work."""
    is_hooked = output._forward_hooks or output._forward_pre_hooks or "forward" in vars(output)
    return type(output) is OutputProjection and not is_hooked


class PackedOutputProjection:
    """The output layer with its weights in the order that suits the kernel."""

    def __init__(self, output: OutputProjection) -> None:
        self._logits = PackedLinear(output.tokens.weight_VM, output.bias_V)

    def log_probabilities(self, x_RM: Tensor, /) -> Tensor:
        """Return log softmax of the logits, in their own place."""
        logits_RV = self._logits(x_RM)
        return torch.log_softmax(logits_RV, -1, out=logits_RV)


INITIAL_CACHE_LENGTH = 16
"""Tokens of the past that there is room for at first."""


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
"""The parts of a layer whose steps are written down here."""


class StepDecoder(Protocol):
    """The hypotheses of a batch of sources: what the decoder remembers, and how it goes on."""

    def step(self, tokens_R: Tensor) -> Tensor:
        """Take one token more of each hypothesis, and return its state, [R, M]."""

    def reorder(self, sources_B: Tensor, parents_BK: Tensor) -> None:
        """Keep these sources; there, hypothesis k goes on from the old one parents[k].

        As many sources as before means all of them in their order.
        """


def create_step_decoder(
    model: Transformer, memory: EncoderOutput, recorder: Recorder = NULL_RECORDER
) -> StepDecoder:
    """Return the fastest steps that the model, its memory and its listeners allow."""
    is_lean = (
        recorder is NULL_RECORDER
        and memory.states_BSM.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and not memory.padding_BS.all(1).any()  # whoever looks at nothing at all gets zeros
        and supports_fast_cpu_step(model)
    )
    return (
        FastCpuStepDecoder(model, memory) if is_lean else ModelStepDecoder(model, memory, recorder)
    )


def supports_fast_cpu_step(model: Transformer) -> bool:
    """Tell whether a model decodes with known parts, all of them as they were made.

    What somebody has put in their place, or hooked on to them, does its own work.
    """
    decoder = model.decoder
    if type(model) is not Transformer or type(decoder) is not Decoder:
        return False
    inside = [part for layer in decoder.layers for part in layer.modules()]
    heads = {part.heads for part in inside if isinstance(part, MultiHeadAttention)}
    return (
        len(heads) == 1
        and all(type(part) in SUPPORTED_MODULES for part in (*inside, decoder.norm))
        and not any(map(_is_special, (decoder, decoder.norm, *inside)))
    )


def _is_special(part: nn.Module) -> bool:
    is_shared = isinstance(part, MultiHeadAttention) and part.shared_qk
    is_hooked = part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
    return bool(is_shared or is_hooked or part.training)


class ModelStepDecoder:
    """The model's own, which serve every kind of it, and which a recorder may hear."""

    def __init__(
        self, model: Transformer, memory: EncoderOutput, recorder: Recorder = NULL_RECORDER
    ) -> None:
        self._model = model
        self._recorder = recorder
        self._cache = model.init_cache(memory)

    def step(self, tokens_R: Tensor) -> Tensor:
        """Let the model take a step, and remember it in its cache."""
        return self._model.step(tokens_R[:, None], self._cache, self._recorder).squeeze(1)

    def reorder(self, sources_B: Tensor, parents_BK: Tensor) -> None:
        """Let the cache follow."""
        self._cache.reorder(sources_B, parents_BK)


class FastCpuStepDecoder:
    """The kernels alone, for a model of known parts. Made in inference mode, it is used there."""

    @torch.no_grad()
    def __init__(self, model: Transformer, memory: EncoderOutput) -> None:
        decoder, states_BSM = model.decoder, memory.states_BSM
        self._embed = decoder.embeddings
        self._norm = unwrap_norm(decoder.norm)
        self._layers = [FastCpuDecoderLayer(layer, memory) for layer in decoder.layers]
        self._hidden_G1S = build_additive_mask(
            memory.padding_BS, self._layers[0].heads, states_BSM.dtype
        )
        self._sources, self._beams = len(states_BSM), 1
        shape = (INITIAL_CACHE_LENGTH, len(self._layers), 2, self._sources, states_BSM.size(2))
        self._past_CL2RM = states_BSM.new_empty(shape)
        self._length = 0

    @torch.no_grad()
    def step(self, tokens_R: Tensor) -> Tensor:
        """Write the token behind the past of each layer, and look at all of it."""
        assert len(tokens_R) == self._sources * self._beams, "a token for each hypothesis"
        if self._length == len(self._past_CL2RM):
            self._past_CL2RM = torch.cat((self._past_CL2RM, torch.empty_like(self._past_CL2RM)))
        x_RM = self._embed(tokens_R[:, None], offset=self._length)[:, 0]
        self._length += 1
        for layer, past_C2RM in zip(self._layers, self._past_CL2RM.unbind(1), strict=True):
            past_T2RM = past_C2RM[: self._length]
            x_RM = layer.step(x_RM, past_T2RM, self._hidden_G1S, self._beams)
        return self._norm(x_RM)

    @torch.no_grad()
    def reorder(self, sources_B: Tensor, parents_BK: Tensor) -> None:
        """Let the past of the hypotheses change places; sources that are left keep theirs."""
        index_R = (sources_B[:, None] * self._beams + parents_BK).flatten()
        self._beams = parents_BK.size(1)
        if len(sources_B) != self._sources:
            self._keep(sources_B)
        room, layers, two, _, features = self._past_CL2RM.shape
        past = self._past_CL2RM.new_empty(room, layers, two, len(index_R), features)
        old, new = (each[: self._length].flatten(0, 2) for each in (self._past_CL2RM, past))
        torch.index_select(old, 1, index_R, out=new)
        self._past_CL2RM = past

    def _keep(self, sources_B: Tensor) -> None:
        if self._hidden_G1S is not None:
            self._hidden_G1S = select_sources(self._hidden_G1S, sources_B, self._sources)
        for layer in self._layers:
            layer.keys_GSD = select_sources(layer.keys_GSD, sources_B, self._sources)
            layer.values_GSD = select_sources(layer.values_GSD, sources_B, self._sources)
        self._sources = len(sources_B)


class FastCpuDecoderLayer:
    """A layer of the decoder, with its keys and values of the sources."""

    def __init__(self, layer: DecoderLayer, memory: EncoderOutput) -> None:
        own, cross, between = layer.attention, layer.cross_attention, layer.feed_forward
        self.heads = cross.heads
        self.own_scale, self.cross_scale = map(get_attention_scale, (own, cross))
        self.activation = between.activation
        self.residuals = [
            unwrap_residual(residual)
            for residual in (
                layer.attention_residual,
                layer.cross_attention_residual,
                layer.feed_forward_residual,
            )
        ]
        linears = (own.qkv, own.output, cross.query, cross.output, between.up, between.down)
        self.qkv, self.own_output, self.query, self.cross_output, self.up, self.down = (
            partial(F.linear, weight=linear.weight, bias=linear.bias) for linear in linears
        )
        memories = cross.key_value(memory.states_BSM).chunk(2, dim=-1)
        self.keys_GSD, self.values_GSD = (
            split_heads(part_BSM, self.heads) for part_BSM in memories
        )

    def step(
        self, x_RM: Tensor, past_T2RM: Tensor, hidden_G1S: Tensor | None, beams: int
    ) -> Tensor:
        """Return the next layer's input, and write the token's keys and values into the past."""
        add_own, add_source, add_between = self.residuals
        x_RM = add_own(x_RM, lambda h_RM: self._look_back(h_RM, past_T2RM))
        x_RM = add_source(x_RM, lambda h_RM: self._look_at_source(h_RM, hidden_G1S, beams))
        return add_between(x_RM, lambda h_RM: self.down(self.activation(self.up(h_RM))))

    def _look_back(self, x_RM: Tensor, past_T2RM: Tensor) -> Tensor:
        all_R3M = self.qkv(x_RM).view(len(x_RM), 3, -1)
        past_T2RM[-1].copy_(all_R3M[:, 1:].transpose(0, 1))
        queries_RM = all_R3M[:, 0] * self.own_scale
        return self.own_output(attend_to_past(queries_RM, past_T2RM, self.heads))

    def _look_at_source(self, x_RM: Tensor, hidden_G1S: Tensor | None, beams: int) -> Tensor:
        queries_RM = self.query(x_RM).mul_(self.cross_scale)
        queries_GKD = split_heads(queries_RM.view(-1, beams, queries_RM.size(1)), self.heads)
        keys_GDS = self.keys_GSD.transpose(1, 2)
        if hidden_G1S is None:
            scores_GKS = torch.bmm(queries_GKD, keys_GDS)
        else:
            scores_GKS = torch.baddbmm(hidden_G1S, queries_GKD, keys_GDS)
        mixed_GKD = torch.bmm(scores_GKS.softmax(-1), self.values_GSD)
        mixed_BKHD = mixed_GKD.view(-1, self.heads, *mixed_GKD.shape[1:]).transpose(1, 2)
        return self.cross_output(mixed_BKHD.reshape(len(x_RM), -1))


def attend_to_past(queries_RM: Tensor, past_T2RM: Tensor, heads: int) -> Tensor:
    """Attend to the past with one query a hypothesis, already scaled."""
    keys_TRHD, values_TRHD = past_T2RM.view(*past_T2RM.shape[:-1], heads, -1).unbind(1)
    queries_RHD = queries_RM.view(len(queries_RM), heads, -1)
    weights_TRH = (keys_TRHD * queries_RHD).sum(-1).softmax(0)
    return (values_TRHD * weights_TRH[..., None]).sum(0).view(queries_RM.shape)


def split_heads(x_BSM: Tensor, heads: int) -> Tensor:
    """Return a matrix for each head of each row, [G, S, D]."""
    return x_BSM.view(*x_BSM.shape[:-1], heads, -1).transpose(1, 2).flatten(0, 1)


def select_sources(x_G: Tensor, sources_B: Tensor, num_sources: int) -> Tensor:
    """Return what these of so many sources have, all heads of each."""
    return x_G.view(num_sources, -1, *x_G.shape[1:]).index_select(0, sources_B).flatten(0, 1)


def build_additive_mask(padding_BS: Tensor, heads: int, dtype: torch.dtype) -> Tensor | None:
    """Return −∞ for the padding and 0 for the rest, to be added to the scores of each head."""
    if not padding_BS.any():
        return None
    mask_BS = padding_BS.new_zeros(padding_BS.shape, dtype=dtype)
    return mask_BS.masked_fill_(padding_BS, -torch.inf)[:, None].repeat_interleave(heads, 0)


def get_attention_scale(module: MultiHeadAttention) -> float:
    """Return what the scores of some heads are multiplied by."""
    assert isinstance(module.attention, DotProductAttention)
    return module.attention.scale


def unwrap_residual(module: Residual) -> Callable[[Tensor, Sublayer], Tensor]:
    """Return what a residual connection does."""
    norm = unwrap_norm(module.norm)
    if isinstance(module, PreNormResidual):
        return lambda x_RM, sublayer: sublayer(norm(x_RM)).add_(x_RM)
    return lambda x_RM, sublayer: norm(sublayer(x_RM).add_(x_RM))


def unwrap_norm(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return what a norm does, without the way of a module to it."""
    if type(module) is not nn.LayerNorm:
        return module
    shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


class TorchDecoder:
    """A model that has read a batch of sources; see `seq2see.search.Decoder`.

    A recorder hears the encoder at once and the decoder at each step. With an ear it tells where
    it looks, which keeps attention from its fused form. The output layer may be another form of
    the model's own.
    """

    def __init__(
        self,
        model: Transformer,
        source_BS: Tensor,
        recorder: Recorder = NULL_RECORDER,
        attention_recorder: CrossAttentionRecorder | None = None,
        output_projection: SupportsLogProbabilities | None = None,
    ) -> None:
        self._output: SupportsLogProbabilities = output_projection or model.output
        self._ear = attention_recorder
        self._steps = create_step_decoder(
            model, encode_in_groups(model, source_BS, recorder), attention_recorder or recorder
        )

    def step(self, tokens_BK: Tensor) -> StepOutput:
        """Look one token ahead."""
        states_RM = self._steps.step(tokens_BK.flatten())
        log_probs_RV = self._output.log_probabilities(states_RM)
        log_probs_BKV = log_probs_RV.view(*tokens_BK.shape, -1)
        if self._ear is None:
            return StepOutput(log_probs_BKV)
        assert self._ear.weights_RTS is not None
        return StepOutput(log_probs_BKV, self._ear.weights_RTS[:, -1].view(*tokens_BK.shape, -1))

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Keep some sentences, and in each the beams that go on."""
        self._steps.reorder(rows_B, parents_BK)
