"""Attribution of target tokens to source words: five methods, and their rank correlation.

`gradient_x_input`, `integrated_gradients` and `occlusion` explain the log-probability of each
target token given the tokens before it. `attention` and `rollout` use attention weights only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2see.cancellation import check_cancelled
from seq2see.errors import InputError
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.trace_format import (
    AttentionModuleTrace,
    AttributionMethod,
    MethodCorrelationMatrix,
    SourceAttribution,
    TokenizedSentence,
    Trace,
    to_numpy,
)
from seq2see.model import EncoderOutput, Transformer

# B batch, T steps, S source tokens, W source words, M features of the model, P quadrature points,
# N segments of the path, K their ends, A attribution methods

QUADRATURE_POINTS, INITIAL_SEGMENTS, MAX_SEGMENTS, SEGMENTS_PER_BATCH = 4, 8, 256, 8
"""Integrated gradients: points per segment of the path; initial and maximum number of segments;
segments per batch."""
MAX_BATCH_LOGITS = 1 << 22
"""Maximum number of logits of a batch of integrated gradients with several segments."""
CONVERGENCE_TOLERANCE = 0.01
"""Maximum error of the sum of attributions, relative to the change in log-probability."""
MIN_LOG_PROB_CHANGE = 0.1
"""In nats: the error is relative to this value if the log-probability changes less."""
MIN_CORRELATED_WORDS = 3
"""Minimum number of source words for a rank correlation."""

FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]


def compute_attribution(
    explained: ExplainedModel, trace: Trace, method: AttributionMethod
) -> SourceAttribution:
    """Return the attribution of a trace by a method.

    Raises:
        InputError: If `rollout` is computed for a model with Linformer attention.
    """
    attributor = SourceAttributor(explained, trace)
    values_TS: FloatArray | None = None
    delta: float | None = None
    match method:
        case "attention":
            values_TS = trace.mean_cross_attention()
        case "rollout":
            values_TS = compute_attention_rollout(trace)
        case "gradient_x_input":
            values_TS = attributor.gradient_x_input()
        case "integrated_gradients":
            values_TS, delta = attributor.integrated_gradients()
        case "occlusion":  # of whole words
            words_TW = attributor.occlusion()
    if values_TS is not None:
        words_TW = sum_by_word(values_TS, trace.source)
    return SourceAttribution(
        method=method,
        token_scores=values_TS,
        word_scores=words_TW,
        is_signed=method not in {"attention", "rollout"},
        convergence_delta=delta,
    )


def sum_by_word(values_TS: FloatArray, source: TokenizedSentence) -> FloatArray:
    """Return the sums over the tokens of each source word, [T, W]."""
    sums = [values_TS[:, word.first_token : word.end_token].sum(1) for word in source.words]
    return np.stack(sums, axis=1).astype(np.float32)


def compute_attention_rollout(trace: Trace) -> FloatArray:
    """Return the attention rollout to the source tokens (Abnar and Zuidema, 2020), [T, S].

    Each sublayer passes on half of its input by the residual connection, and half of the mean
    output of its heads that are not ablated. The rows sum to less than 1: the rest belongs to
    target tokens.

    Raises:
        InputError: If the model has Linformer attention.
    """
    maps = {(a.stack, a.layer, a.kind): a for a in trace.attention}
    if any(a.key_axis == "projection" for a in trace.attention):
        raise InputError("`rollout` is not defined for linformer attention, which projects tokens")
    size = len(trace.source.tokens)
    encoder_SS: DoubleArray = np.eye(size)
    for layer in range(trace.model.encoder_layers):
        encoder_SS = _roll_out(encoder_SS, maps.get(("encoder", layer, "self")), encoder_SS)
    rollout_TS: DoubleArray = np.zeros((len(trace.steps), size))
    for layer in range(trace.model.decoder_layers):
        own, cross = (maps.get(("decoder", layer, kind)) for kind in ("self", "cross"))
        rollout_TS = _roll_out(rollout_TS, own, rollout_TS)
        rollout_TS = _roll_out(rollout_TS, cross, encoder_SS)
    return rollout_TS.astype(np.float32)


def _roll_out(
    residual: DoubleArray, attention_map: AttentionModuleTrace | None, values: DoubleArray
) -> DoubleArray:
    """Return the rollout after one sublayer, or the residual if it is ablated."""
    mean_weights = attention_map.mean_weights() if attention_map else None
    if mean_weights is None:
        return residual
    attended = mean_weights.astype(np.float64) @ values
    result: DoubleArray = (residual + attended) / 2
    return result


class SourceAttributor:
    """Computes attributions to the source with gradients or perturbed inputs."""

    def __init__(self, explained: ExplainedModel, trace: Trace) -> None:
        self.model = explained.model
        self.source = trace.source
        with torch.inference_mode(False):  # inference tensors have no gradients
            device = explained.engine.device
            target = [token.id for token in trace.target.tokens]
            decoder_input = [trace.start_token.id, *target[:-1]]
            self.source_1S = torch.tensor([[t.id for t in trace.source.tokens]], device=device)
            self.decoder_input_1T = torch.tensor([decoder_input], device=device)
            self.target_T = torch.tensor(target, device=device)

    def compute_log_probs(self, encoder_output: EncoderOutput) -> Tensor:
        """Return the log-probabilities of the target tokens for each encoder output, [B, T]."""
        check_cancelled()
        input_BT = self.decoder_input_1T.expand(len(encoder_output.states_BSM), -1)
        states_BTM = self.model.decode(input_BT, encoder_output)
        log_probs_BTV = self.model.output.log_probabilities(states_BTM)
        target_BT1 = self.target_T.expand(len(input_BT), -1)[..., None]
        return log_probs_BTV.gather(2, target_BT1)[..., 0]

    def occlusion(self) -> FloatArray:
        """Return the decrease in log-probability when each source word is masked in turn, [T, W].

        The tokens of the word are replaced by padding, so that the other positions do not change.
        """
        sources = [self.source_1S]
        for word in self.source.words:
            masked_1S = self.source_1S.clone()
            masked_1S[:, word.first_token : word.end_token] = self.model.encoder.pad_id
            sources.append(masked_1S)
        log_probs = [self.compute_log_probs(self.model.encode(ids_1S)) for ids_1S in sources]
        original_T, *occluded = (row_1T[0] for row_1T in log_probs)
        return to_numpy(torch.stack([original_T - row_T for row_T in occluded], dim=1))

    def gradient_x_input(self) -> FloatArray:
        """Return the gradient times the token embedding, without its position, [T, S]."""
        with torch.inference_mode(False), torch.enable_grad():
            baseline, tokens = split_source_embeddings(self.model, self.source_1S)
            gradients = self._compute_gradients(baseline + tokens)
            return to_numpy(torch.stack([(each * tokens).sum(-1)[0] for each in gradients]))

    def integrated_gradients(self) -> tuple[FloatArray, float]:
        """Integrate gradients along the path from the baseline to the input.

        The baseline has positions without token embeddings. On each segment of the path, the
        attributions must sum to the change in log-probability (Sundararajan et al., 2017);
        segments with large errors are halved.

        Returns the integrals, [T, S], and the largest relative error of the sum of a row.
        """
        with torch.inference_mode(False), torch.enable_grad():
            baseline, tokens = split_source_embeddings(self.model, self.source_1S)
            ends = torch.linspace(0, 1, INITIAL_SEGMENTS + 1).to(tokens)
            range_N2 = torch.stack((ends[:-1], ends[1:]), dim=1)
            values_NTS, change_NT = self._integrate(baseline, tokens, range_N2)
            scale_T = change_NT.sum(0).abs().clamp(min=MIN_LOG_PROB_CHANGE)
            while len(range_N2) < MAX_SEGMENTS:
                deltas_NT = (values_NTS.sum(2) - change_NT) / scale_T
                if _has_converged(deltas_NT):
                    break
                errors_N = deltas_NT.abs().amax(1)
                is_inexact_N = errors_N >= errors_N.max() / 4
                halves_N2 = _split_in_half(range_N2[is_inexact_N])
                halved = (halves_N2, *self._integrate(baseline, tokens, halves_N2))
                kept = (x_N[~is_inexact_N] for x_N in (range_N2, values_NTS, change_NT))
                range_N2, values_NTS, change_NT = map(torch.cat, zip(kept, halved, strict=True))
        delta_T = (values_NTS.sum(2) - change_NT).sum(0)
        return to_numpy(values_NTS.sum(0)), float((delta_T.abs() / scale_T).max())

    def _encode(self, x_BSM: Tensor) -> EncoderOutput:
        padding_BS = torch.zeros(x_BSM.shape[:2], dtype=torch.bool, device=x_BSM.device)
        return self.model.encoder.encode_embeddings(x_BSM, padding_BS)

    def _compute_gradients(self, x_BSM: Tensor) -> list[Tensor]:
        """Return the gradient of the log-probability of each step, with the shape of `x`."""
        x_BSM = x_BSM.detach().requires_grad_()
        # The rows of the batch are independent, so the gradient of their sum is that of each row.
        sums_T = self.compute_log_probs(self._encode(x_BSM)).sum(0)
        if not sums_T.requires_grad:  # all decoder layers are ablated: the source has no effect
            return [torch.zeros_like(x_BSM)] * len(sums_T)
        gradients: list[Tensor] = []
        for one in sums_T.unbind():
            check_cancelled()
            gradients += torch.autograd.grad(one, x_BSM, retain_graph=True, materialize_grads=True)
        return gradients

    def _integrate(
        self, baseline: Tensor, tokens: Tensor, range_N2: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Integrate gradients over segments of the path, given by their start and end.

        Returns the integrals of each segment, [N, T, S], and its change in log-probability, [N, T].
        """
        values, changes = [], []
        vocab_size = len(self.model.output.tokens.weight_VM)
        logits_per_segment = QUADRATURE_POINTS * len(self.target_T) * vocab_size
        num_segments = min(SEGMENTS_PER_BATCH, max(1, MAX_BATCH_LOGITS // logits_per_segment))
        for batch_N2 in range_N2.split(num_segments):
            points_P, weights_P = _quadrature(batch_N2)
            gradients = self._compute_gradients(baseline + points_P[:, None, None] * tokens)
            values_TPS = torch.stack(
                [torch.einsum("p,psm,sm->ps", weights_P, each, tokens[0]) for each in gradients]
            )
            values.append(values_TPS.unflatten(1, (len(batch_N2), -1)).sum(2).transpose(0, 1))
            with torch.no_grad():
                ends_KSM = baseline + batch_N2.flatten()[:, None, None] * tokens
                log_probs_KT = self.compute_log_probs(self._encode(ends_KSM))
            changes.append(log_probs_KT[1::2] - log_probs_KT[::2])
        return torch.cat(values), torch.cat(changes)


@torch.no_grad()
def split_source_embeddings(model: Transformer, ids_1S: Tensor) -> tuple[Tensor, Tensor]:
    """Return the embedding of positions without tokens, and what the tokens add, both [1, S, M]."""
    embeddings = model.encoder.embeddings
    input_1SM = embeddings(ids_1S)
    baseline_1SM = embeddings.norm(embeddings.positions(torch.zeros_like(input_1SM)))
    return baseline_1SM, input_1SM - baseline_1SM


def _split_in_half(range_N2: Tensor) -> Tensor:
    """Return both halves of each segment, given by their start and end."""
    middle_N = range_N2.mean(1)
    halves_N4 = torch.stack((range_N2[:, 0], middle_N, middle_N, range_N2[:, 1]), dim=1)
    return halves_N4.view(-1, 2)


def _has_converged(deltas_NT: Tensor) -> bool:
    """Return whether the total error is small, and not only because errors cancel out."""
    total, absolute = deltas_NT.sum(0).abs().max(), deltas_NT.abs().sum(0).max()
    return bool(total <= CONVERGENCE_TOLERANCE and absolute <= 10 * CONVERGENCE_TOLERANCE)


def _quadrature(range_N2: Tensor) -> tuple[Tensor, Tensor]:
    """Return points and weights of Gauss-Legendre quadrature on each segment, flattened."""
    nodes, weights = np.polynomial.legendre.leggauss(QUADRATURE_POINTS)
    start_N1, end_N1 = range_N2[:, :1], range_N2[:, 1:]
    offsets = torch.as_tensor((nodes + 1) / 2).to(range_N2)
    points = start_N1 + (end_N1 - start_N1) * offsets
    scaled_weights = (end_N1 - start_N1) * torch.as_tensor(weights / 2).to(range_N2)
    return points.flatten(), scaled_weights.flatten()


def correlate_attribution_methods(
    attributions: Sequence[SourceAttribution],
) -> MethodCorrelationMatrix | None:
    """Return Spearman's rank correlation between methods, or None with fewer than two methods.

    The result is also None if the source has fewer than `MIN_CORRELATED_WORDS` words.
    """
    if len(attributions) < 2 or attributions[0].word_scores.shape[1] < MIN_CORRELATED_WORDS:
        return None
    ranks_ATW = np.array(
        [[average_ranks(row) for row in np.abs(each.word_scores)] for each in attributions]
    )
    ranks_ATW -= ranks_ATW.mean(2, keepdims=True)
    with np.errstate(invalid="ignore"):  # the correlation with a constant row is undefined
        ranks_ATW /= np.linalg.norm(ranks_ATW, axis=2, keepdims=True)
    correlation_TAA = np.einsum("atw,btw->tab", ranks_ATW, ranks_ATW)
    is_defined_TAA = ~np.isnan(correlation_TAA)
    means_AA = np.nansum(correlation_TAA, 0) / np.maximum(is_defined_TAA.sum(0), 1)
    return MethodCorrelationMatrix(
        methods=[each.method for each in attributions], correlation=means_AA.astype(np.float32)
    )


def average_ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rank of each value from 0; equal values get their mean rank."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: NDArray[np.float64] = ends - (counts + 1) / 2
    return means[group]
