"""Faults of the model's code and of experiments, as context managers.

`FAULTS` has one fault per experiment, which must change its conclusion. A fault of trained models
is applied at evaluation: models are evaluated after loading, so the cache does not hide it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from seq2see.explain.activation_patching import isolate_source_tokens
from seq2see.lab.experiments import dot_product, embeddings, gallery, six_words
from seq2see.model import (
    CAUSAL_MASK,
    NO_MASK,
    AdditiveAttention,
    AttentionFunction,
    AttentionMask,
    BatchLayout,
    DotProductAttention,
    Encoder,
    EncoderOutput,
    KeyValues,
    LinformerAttention,
    ModelBuilder,
    MultiHeadAttention,
    QKNormAttention,
    Recorder,
    RelativePositionEmbeddings,
    SelfAttention,
    compute_sinusoids,
    masked_softmax,
)
from seq2see.model.attention import AttentionInputs
from seq2see.model.basic_modules import (
    ACTIVATIONS,
    FeedForward,
    PostNormResidual,
    Sublayer,
    XavierLinear,
)
from seq2see.model.embeddings import OutputProjection, TokenEmbedding
from seq2see.model.layers import EncoderLayer
from seq2see.model.positional_encodings import SinusoidalPositions
from seq2see.search.candidate_selection import select_top_k
from seq2see.search.hypotheses import Beam, Candidates
from seq2see.text import Tokenizer

Fault = Callable[[], AbstractContextManager[Any]]


@contextmanager
def replaced_function(original: Any, replacement: Any) -> Iterator[None]:
    """Replace a function or class in every module of the project that imported it."""
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("seq2see"):
                for key, value in list(vars(module).items()):
                    if value is original:
                        stack.enter_context(patch.object(module, key, replacement))
        yield


def replaced_method(owner: type, name: str, replacement: Any) -> Fault:
    """Return a fault that replaces a method."""
    return partial(patch.object, owner, name, replacement)


unscaled_scores = replaced_method(
    DotProductAttention, "compute_scores", lambda self, q, k: q @ k.mT
)


def _scores_of_queries(self: DotProductAttention, q: Tensor, k: Tensor) -> Tensor:
    return self.scale * q @ (q if q.shape == k.shape else k).mT


queries_as_keys = replaced_method(DotProductAttention, "compute_scores", _scores_of_queries)


def _scores_of_rolled_keys(self: DotProductAttention, q: Tensor, k: Tensor) -> Tensor:
    return self.scale * q @ k.roll(1, dims=-1).mT


rolled_keys = replaced_method(DotProductAttention, "compute_scores", _scores_of_rolled_keys)


def changed_softmax(change: Callable[[Tensor], Tensor]) -> Fault:
    """Return a fault that changes the scores before softmax."""

    def replacement(scores: Tensor, masked: Tensor | None) -> Tensor:
        return masked_softmax(change(scores), masked)

    return partial(replaced_function, masked_softmax, replacement)


def _normalized_without_exponential(scores: Tensor, masked: Tensor | None) -> Tensor:
    del masked
    return scores / scores.sum(dim=-1, keepdim=True)


no_exponential = partial(replaced_function, masked_softmax, _normalized_without_exponential)


uniform_softmax = changed_softmax(torch.zeros_like)


def _norms_as_scaling(self: QKNormAttention, inputs: AttentionInputs) -> AttentionInputs:
    factor = inputs.queries_BHTD.size(-1) ** -0.5 / inputs.queries_BHTD.var()
    return inputs._replace(queries_BHTD=inputs.queries_BHTD * factor)


def _softmax_without_mask(scores: Tensor, masked: Tensor | None) -> Tensor:
    del masked
    return masked_softmax(scores, None)


def _softmax_over_queries(scores: Tensor, masked: Tensor) -> Tensor:
    return scores.masked_fill(masked, -1e9).softmax(dim=-2).masked_fill(masked, 0)


softmax_over_queries = partial(replaced_function, masked_softmax, _softmax_over_queries)
ignored_mask = partial(replaced_function, masked_softmax, _softmax_without_mask)


def _weighted_sum_in_a_loop(self: AttentionFunction, weights: Tensor, values: Tensor) -> Tensor:
    del self
    total = torch.zeros(())
    for weight, value in zip(weights.split(1, -1), values.split(1, -2), strict=True):
        total = total + weight * value
    return total


def _scores_of_padded_heads(self: DotProductAttention, q: Tensor, k: Tensor) -> Tensor:
    q, k = (torch.nn.functional.pad(x, (0, 512 - x.size(-1))) for x in (q, k))
    return self.scale * q @ k.mT


def _scores_of_products(self: AdditiveAttention, q: Tensor, k: Tensor) -> Tensor:
    del self
    return q @ k.mT


def _attend_without_transpose(
    self: MultiHeadAttention,
    queries: Tensor,
    key_values: KeyValues,
    layout: BatchLayout,
    mask: AttentionMask,
    recorder: Recorder,
) -> Tensor:
    listener = recorder.attention_listener(self.site)
    output = self.attention(queries, key_values.keys_BHSD, key_values.values_BHSD, mask, listener)
    return self.output(layout.flatten(output.reshape(len(output), output.size(2), -1)))


lost_transpose = replaced_method(MultiHeadAttention, "attend", _attend_without_transpose)


def _build_wide_projections(self: SelfAttention, d_model: int, bias: bool) -> None:
    self.qkv = XavierLinear(d_model, d_model * self.heads, bias, num_stacked=3)


def _split_without_transpose(self: MultiHeadAttention, x: Tensor) -> Tensor:
    return x.reshape(x.size(0), self.heads, x.size(1), -1)


no_causal_mask = partial(replaced_function, CAUSAL_MASK, NO_MASK)


def _select_from_best_prefix(
    beam: Beam, model_log_probs_BKV: Tensor, step_scores_BKV: Tensor, beam_size: int
) -> Candidates:
    totals_BK = beam.beam_scores_BK + step_scores_BKV.amax(dim=-1)
    others_BK = totals_BK < totals_BK.amax(dim=1, keepdim=True)
    scores_BKV = step_scores_BKV.masked_fill(others_BK[..., None], -torch.inf)
    return select_top_k(beam, model_log_probs_BKV, scores_BKV, beam_size)


def _shared_encoder_layers(self: ModelBuilder, index: int) -> EncoderLayer:
    if index == 0 or not hasattr(self, "first"):
        self.first = build_encoder_layer(self, index)  # type: ignore[attr-defined]
    return self.first  # type: ignore[attr-defined, no-any-return]


build_encoder_layer = ModelBuilder.build_encoder_layer
no_layers = replaced_method(
    Encoder,
    "encode_embeddings",
    lambda self, x_BSM, padding_BS, recorder: EncoderOutput(x_BSM, padding_BS),
)


def _encode_letters(self: Tokenizer, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
    return [list(chain(*encode_batch(self, list(line), threads))) for line in lines]


encode_batch = Tokenizer.encode_batch


def _init_from_unit_normal(self: TokenEmbedding, vocab_size: int, d_model: int) -> None:
    torch.nn.Module.__init__(self)
    self.weight_VM = torch.nn.Parameter(torch.randn(vocab_size, d_model))


@contextmanager
def changed_sinusoids(change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Change the position vectors that the model adds, which it otherwise caches."""

    def replacement(self: SinusoidalPositions, x_BTM: Tensor, offset: int = 0) -> Tensor:
        positions_T = torch.arange(offset, offset + x_BTM.size(1))
        vectors_TM = compute_sinusoids(positions_T, x_BTM.size(2), self.layout, self.frequencies)
        return x_BTM + change(vectors_TM).to(x_BTM.dtype)

    with patch.object(SinusoidalPositions, "forward", replacement):
        yield


def _permuted_values(self: AttentionFunction, weights: Tensor, values: Tensor) -> Tensor:
    del self
    return weights @ (values * torch.linspace(1, 2, values.size(-2), dtype=values.dtype)[:, None])


def _scores_without_distances(
    self: RelativePositionEmbeddings, queries_BHTD: Tensor, num_keys: int
) -> Tensor:
    del self
    return torch.zeros(queries_BHTD.size(2), num_keys, dtype=queries_BHTD.dtype)


def _without_residual(self: PostNormResidual, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
    normalized_NM: Tensor = self.norm(self.dropout(sublayer(x_NM)))
    return normalized_NM


def _norm_before_sublayer(self: PostNormResidual, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
    sum_NM: Tensor = x_NM + self.dropout(sublayer(self.norm(x_NM)))
    return sum_NM


def _dropout_of_sum(self: PostNormResidual, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
    normalized_NM: Tensor = self.norm(self.dropout(x_NM + sublayer(x_NM)))
    return normalized_NM


def _norm_over_tokens(self: nn.LayerNorm, x: Tensor) -> Tensor:
    return (x - x.mean(dim=0)) / (x.var(dim=0, correction=0) + self.eps).sqrt()


def _mixing_network(self: FeedForward, x_NM: Tensor) -> Tensor:
    output_NM: Tensor = self.down(self.activation(self.up(x_NM + x_NM.mean(dim=0))))
    return output_NM


def _linear_network(self: FeedForward, x_NM: Tensor) -> Tensor:
    output_NM: Tensor = self.down(self.up(x_NM))
    return output_NM


def _random_gelu(x: Tensor) -> Tensor:
    return x * torch.bernoulli(torch.special.ndtr(x.detach()))


FAULTS: dict[int, Fault] = {
    1: unscaled_scores,
    2: partial(
        patch.object,
        dot_product,
        "draw_with_mean",
        lambda context, name, mean: context.normal(name, 2_000_000, dtype=torch.float64),
    ),
    3: partial(
        patch.object, dot_product, "dot_product_scores", lambda q, k, scale=1.0: (q + k).sum(1)
    ),
    4: changed_softmax(lambda scores: 2 * scores),
    5: no_exponential,
    6: changed_softmax(lambda scores: 2 * scores),
    7: changed_softmax(lambda scores: scores / 100),
    8: unscaled_scores,
    9: unscaled_scores,
    11: replaced_method(QKNormAttention, "prepare_inputs", _norms_as_scaling),
    13: unscaled_scores,
    14: unscaled_scores,
    15: queries_as_keys,
    16: rolled_keys,
    17: rolled_keys,
    18: replaced_method(AdditiveAttention, "compute_scores", _scores_of_products),
    19: partial(replaced_function, isolate_source_tokens, lambda model, _: model),
    20: ignored_mask,
    21: softmax_over_queries,
    22: replaced_method(AttentionFunction, "weighted_sum", _weighted_sum_in_a_loop),
    23: replaced_method(MultiHeadAttention, "split_heads", _split_without_transpose),
    24: unscaled_scores,
    25: lost_transpose,
    26: replaced_method(SelfAttention, "build_projections", _build_wide_projections),
    27: replaced_method(DotProductAttention, "compute_scores", _scores_of_padded_heads),
    28: uniform_softmax,
    29: lost_transpose,
    59: replaced_method(LinformerAttention, "prepare_inputs", lambda self, inputs: inputs),
    45: ignored_mask,
    46: ignored_mask,
    47: ignored_mask,
    48: ignored_mask,
    49: ignored_mask,
    50: replaced_method(Tokenizer, "encode_batch", _encode_letters),
    51: partial(
        patch.object,
        embeddings,
        "count_base_parameters",
        partial(lambda count, _: count("none"), embeddings.count_base_parameters),
    ),
    52: replaced_method(TokenEmbedding, "__init__", _init_from_unit_normal),
    53: replaced_method(ModelBuilder, "build_encoder_layer", _shared_encoder_layers),
    54: no_layers,
    55: replaced_method(OutputProjection, "log_probabilities", OutputProjection.forward),
    56: partial(
        patch.object,
        six_words,
        "one_hot_targets",
        lambda labels, size: torch.nn.functional.one_hot((labels + 1) % size, size).float(),
    ),
    57: partial(replaced_function, select_top_k, _select_from_best_prefix),
    58: no_causal_mask,
    30: replaced_method(AttentionFunction, "weighted_sum", _permuted_values),
    31: partial(changed_sinusoids, lambda vectors: 1.5 * vectors),
    32: partial(changed_sinusoids, lambda vectors: vectors.roll(1, dims=1)),
    33: partial(changed_sinusoids, lambda vectors: vectors.square()),
    34: partial(changed_sinusoids, lambda vectors: vectors.flip(0)),
    35: partial(changed_sinusoids, lambda vectors: vectors.roll(2, dims=1) * 0.01),
    36: replaced_method(RelativePositionEmbeddings, "compute_scores", _scores_without_distances),
    37: partial(changed_sinusoids, lambda vectors: vectors.flip(1)),
    38: replaced_method(PostNormResidual, "forward", _without_residual),
    39: replaced_method(PostNormResidual, "forward", _norm_before_sublayer),
    40: replaced_method(nn.LayerNorm, "forward", _norm_over_tokens),
    41: replaced_method(PostNormResidual, "forward", _dropout_of_sum),
    42: replaced_method(FeedForward, "forward", _mixing_network),
    43: replaced_method(FeedForward, "forward", _linear_network),
    44: partial(patch.dict, ACTIVATIONS, {"gelu": _random_gelu}),
    60: partial(patch.dict, gallery.FIGURES_OF_LINKS, {56: {}}),
}
