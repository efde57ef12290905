"""Attribution of target tokens to source words: five methods, and their rank correlation.

`gradient_x_input`, `integrated_gradients` and `occlusion` explain the log-probability of each
target token given the tokens before it. `attention` and `rollout` use attention weights only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2see.errors import InputError
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.trace import (
    AttentionMap,
    Attribution,
    AttributionMethod,
    MethodCorrelation,
    TokenizedSentence,
    Trace,
)
from seq2see.model import EncoderOutput

# B batch, T steps, S source tokens, W source words, M features of the model, P points, N pieces of
# a way, K their ends

QUADRATURE_POINTS, INITIAL_SEGMENTS, MAX_SEGMENTS, SEGMENTS_PER_BATCH = 4, 8, 256, 8
"""Integrated gradients: points on a piece of the way; pieces at first, at most, and in a batch."""


CONVERGENCE_TOLERANCE = 0.01
"""The share by which they may miss the difference that they should sum to ..."""


MIN_LOG_PROB_CHANGE = 0.1
"""... or of so many nats, where the source makes less of a difference than that."""


FloatArray = NDArray[np.float32]


DoubleArray = NDArray[np.float64]


def compute_attributions(
    explained: ExplainedModel, trace: Trace, methods: Sequence[AttributionMethod]
) -> tuple[Attribution, ...]:
    """Return what each of the methods says, in their order."""
    question = SourceAttributor(explained, trace)
    make = {
        "attention": lambda: _looked(trace, "attention", trace.mean_cross_attention()),
        "rollout": lambda: _looked(trace, "rollout", compute_attention_rollout(trace)),
        "gradient_x_input": question.gradient_x_input,
        "integrated_gradients": question.integrated_gradients,
        "occlusion": question.occlusion,
    }
    return tuple(make[method]() for method in methods)


def sum_by_word(values_TS: FloatArray, source: TokenizedSentence) -> FloatArray:
    """Return the sums over each word's tokens, [T, W]."""
    sums = [values_TS[:, word.first_token : word.end_token].sum(1) for word in source.words]
    return np.stack(sums, axis=1).astype(np.float32)


def compute_attention_rollout(trace: Trace) -> FloatArray:
    """Follow attention down to the source tokens (Abnar and Zuidema, 2020), [T, S].

    Each sublayer passes on half of what it had, by the residual connection, and half of what its
    heads saw on average. What is missing to 1 in a row went to the target tokens.
    """
    maps = {(a.stack, a.layer, a.kind): a for a in trace.attention}
    if any(a.key_axis == "projection" for a in trace.attention):
        raise InputError("`rollout` must be left out with linformer attention, which mixes tokens")
    size = len(trace.source.tokens)
    below_SS: DoubleArray = np.eye(size)
    for layer in range(trace.model.encoder_layers):
        below_SS = _passed(below_SS, maps.get(("encoder", layer, "self")), below_SS)
    to_source_TS: DoubleArray = np.zeros((len(trace.steps), size))
    for layer in range(trace.model.decoder_layers):
        own, cross = (maps.get(("decoder", layer, kind)) for kind in ("self", "cross"))
        to_source_TS = _passed(to_source_TS, own, to_source_TS)
        to_source_TS = _passed(to_source_TS, cross, below_SS)
    return to_source_TS.astype(np.float32)


def _passed(had: DoubleArray, seen: AttentionMap | None, of: DoubleArray) -> DoubleArray:
    if seen is None:  # the layer is off
        return had
    mixed: DoubleArray = (had + seen.weights.mean(0).astype(np.float64) @ of) / 2
    return mixed


def _looked(trace: Trace, method: AttributionMethod, values_TS: FloatArray) -> Attribution:
    words = sum_by_word(values_TS, trace.source)
    return Attribution(method=method, token_scores=values_TS, word_scores=words, is_signed=False)


class SourceAttributor:
    """Why these tokens? Asked of the model, by changing its input."""

    def __init__(self, explained: ExplainedModel, trace: Trace) -> None:
        self.model = explained.model
        self.source = trace.source
        with torch.inference_mode(False):  # gradients need ordinary tensors
            device = explained.device
            emitted = [token.id for token in trace.target.tokens]
            self.source_1S = torch.tensor([[t.id for t in trace.source.tokens]], device=device)
            self.decoder_input_1T = torch.tensor(
                [[trace.start_token.id, *emitted[:-1]]], device=device
            )
            self.target_T = torch.tensor(emitted, device=device)

    def compute_log_probs(self, memory: EncoderOutput) -> Tensor:
        """Return the log-probability of each emitted token for each memory, [B, T]."""
        given_BT = self.decoder_input_1T.expand(len(memory.states_BSM), -1)
        log_probs_BTV = self.model.output.log_probabilities(self.model.decode(given_BT, memory))
        index_BT1 = self.target_T.expand(len(given_BT), -1)[..., None]
        return log_probs_BTV.gather(2, index_BT1)[..., 0]

    def occlusion(self) -> Attribution:
        """Hide one word after the other, in its place, from everybody."""
        rows = [self.source_1S]
        for word in self.source.words:
            hidden_1S = self.source_1S.clone()
            hidden_1S[:, word.first_token : word.end_token] = self.model.encoder.pad_id
            rows.append(hidden_1S)
        found = [self.compute_log_probs(self.model.encode(ids_1S)) for ids_1S in rows]
        whole_T, *without = (row_1T[0] for row_1T in found)
        words = torch.stack([whole_T - row_T for row_T in without], dim=1)
        return Attribution(
            method="occlusion", token_scores=None, word_scores=_array(words), is_signed=True
        )

    def gradient_x_input(self) -> Attribution:
        """Multiply the slope with each token's own part of the input, which is not its position."""
        with torch.inference_mode(False), torch.enable_grad():
            empty, own = self._input()
            slopes = self._slopes(empty + own)
            values_TS = torch.stack([(slope * own).sum(-1)[0] for slope in slopes])
        return self._attribution("gradient_x_input", values_TS)

    def integrated_gradients(self) -> Attribution:
        """Sum the slopes on the way from positions without tokens to the sentence.

        Between any two points of the way they must sum to the difference of the log-probabilities
        (Sundararajan et al., 2017): where they do not yet, the way is cut in two.
        """
        with torch.inference_mode(False), torch.enable_grad():
            empty, own = self._input()
            spans = [
                (i / INITIAL_SEGMENTS, (i + 1) / INITIAL_SEGMENTS) for i in range(INITIAL_SEGMENTS)
            ]
            pieces = self._pieces(empty, own, spans)
            change_T = torch.stack([piece.log_prob_change_T for piece in pieces]).sum(0)
            scale_T = change_T.abs().clamp(min=MIN_LOG_PROB_CHANGE)
            while len(pieces) < MAX_SEGMENTS:
                missing_NT = torch.stack([piece.delta_T for piece in pieces]) / scale_T
                if _is_small(missing_NT):
                    break
                wrong, right = _worst_first(pieces, missing_NT)
                halves = [half for piece in wrong for half in piece.split_in_half()]
                pieces = right + self._pieces(empty, own, halves)
        values_TS = torch.stack([piece.attributions_TS for piece in pieces]).sum(0)
        missing_T = torch.stack([piece.delta_T for piece in pieces]).sum(0)
        gap = float((missing_T.abs() / scale_T).max())
        return self._attribution("integrated_gradients", values_TS, gap)

    def _input(self) -> tuple[Tensor, Tensor]:
        """Return the input without tokens, and what the tokens add to it."""
        embeddings = self.model.encoder.embeddings
        with torch.no_grad():
            whole_1SM = embeddings(self.source_1S)
            nothing_1SM = torch.zeros_like(whole_1SM)
            empty_1SM = embeddings.norm(embeddings.positions(nothing_1SM))
        return empty_1SM, whole_1SM - empty_1SM

    def _values(self, x_BSM: Tensor) -> Tensor:
        with torch.no_grad():
            return self.compute_log_probs(self._memory(x_BSM))

    def _memory(self, x_BSM: Tensor) -> EncoderOutput:
        padding_BS = torch.zeros(x_BSM.shape[:2], dtype=torch.bool, device=x_BSM.device)
        return self.model.encoder.encode_embeddings(x_BSM, padding_BS)

    def _slopes(self, x_BSM: Tensor) -> list[Tensor]:
        """Return for each step the gradient of its log-probability."""
        x_BSM = x_BSM.detach().requires_grad_()
        sums_T = self.compute_log_probs(self._memory(x_BSM)).sum(
            0
        )  # sentences do not touch each other
        return [torch.autograd.grad(one, x_BSM, retain_graph=True)[0] for one in sums_T.unbind()]

    def _pieces(
        self, empty: Tensor, own: Tensor, spans: Sequence[tuple[float, float]]
    ) -> list[PathSegment]:
        """Integrate over each of these parts of the way."""
        found: list[PathSegment] = []
        for first in range(0, len(spans), SEGMENTS_PER_BATCH):
            some = spans[first : first + SEGMENTS_PER_BATCH]
            span_N2 = torch.tensor(some, dtype=own.dtype, device=own.device)
            points_P, widths_P = _points(span_N2)
            slopes = self._slopes(empty + points_P[:, None, None] * own)
            values_TPS = torch.stack(
                [torch.einsum("p,psm,sm->ps", widths_P, slope, own[0]) for slope in slopes]
            )
            values_TNS = values_TPS.unflatten(1, (len(some), -1)).sum(2)
            ends_KT = self._values(empty + span_N2.flatten()[:, None, None] * own)
            change_NT = ends_KT[1::2] - ends_KT[::2]
            for number, (start, end) in enumerate(some):
                found.append(PathSegment(start, end, values_TNS[:, number], change_NT[number]))
        return found

    def _attribution(
        self, method: AttributionMethod, values_TS: Tensor, gap: float | None = None
    ) -> Attribution:
        tokens = _array(values_TS)
        words = sum_by_word(tokens, self.source)
        return Attribution(
            method=method,
            token_scores=tokens,
            word_scores=words,
            is_signed=True,
            convergence_delta=gap,
        )


@dataclass(frozen=True, slots=True)
class PathSegment:
    """A part of the way from an empty sentence to the whole one."""

    start: float
    end: float
    attributions_TS: Tensor
    """What each token adds, by its slope."""
    log_prob_change_T: Tensor
    """What the log-probabilities gain on this part of the way."""

    @property
    def delta_T(self) -> Tensor:
        """How far the sums are from what they should be."""
        return self.attributions_TS.sum(1) - self.log_prob_change_T

    def split_in_half(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return it cut in two."""
        middle = (self.start + self.end) / 2
        return (self.start, middle), (middle, self.end)


def _is_small(missing_NT: Tensor) -> bool:
    """Whether what is missing is little in all, and not only because much cancels out."""
    whole, without_signs = missing_NT.sum(0).abs().max(), missing_NT.abs().sum(0).max()
    return bool(whole <= CONVERGENCE_TOLERANCE) and bool(
        without_signs <= 10 * CONVERGENCE_TOLERANCE
    )


def _worst_first(
    pieces: Sequence[PathSegment], missing_NT: Tensor
) -> tuple[list[PathSegment], list[PathSegment]]:
    """Return those of which most is missing, and the others."""
    errors = missing_NT.abs().amax(1).tolist()
    wrong = [p for p, error in zip(pieces, errors, strict=True) if error >= max(errors) / 4]
    right = [p for p, error in zip(pieces, errors, strict=True) if error < max(errors) / 4]
    return wrong, right


def _points(span_N2: Tensor) -> tuple[Tensor, Tensor]:
    """Return where to look on each part of the way, and how much that counts, by Gauss's rule."""
    nodes, widths = np.polynomial.legendre.leggauss(QUADRATURE_POINTS)
    start_N1, end_N1 = span_N2[:, :1], span_N2[:, 1:]
    inside = torch.as_tensor((nodes + 1) / 2).to(span_N2)
    points = start_N1 + (end_N1 - start_N1) * inside
    counts = (end_N1 - start_N1) * torch.as_tensor(widths / 2).to(span_N2)
    return points.flatten(), counts.flatten()


def _array(values: Tensor) -> FloatArray:
    found: FloatArray = values.detach().cpu().numpy().astype(np.float32)
    return found


MIN_CORRELATED_WORDS = 3
"""Fewer have no order worth comparing."""


def compute_rank_correlation(attributions: Sequence[Attribution]) -> MethodCorrelation | None:
    """Return how alike the methods rank source words, or None where there is nothing to compare."""
    if len(attributions) < 2 or attributions[0].word_scores.shape[1] < MIN_CORRELATED_WORDS:
        return None
    ranked = [
        np.stack([average_ranks(row) for row in np.abs(each.word_scores)]) for each in attributions
    ]
    table = [[_mean_correlation(a, b) for b in ranked] for a in ranked]
    return MethodCorrelation(
        methods=tuple(each.method for each in attributions), correlation=np.array(table, np.float32)
    )


def average_ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rank of each value, the mean rank of equals."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: NDArray[np.float64] = ends - (counts + 1) / 2
    return means[group]


def _mean_correlation(a_TW: NDArray[np.float64], b_TW: NDArray[np.float64]) -> float:
    a_TW = a_TW - a_TW.mean(1, keepdims=True)
    b_TW = b_TW - b_TW.mean(1, keepdims=True)
    spread_T = np.sqrt((a_TW**2).sum(1) * (b_TW**2).sum(1))
    told = spread_T > 0  # a row of equals says nothing
    if not told.any():
        return 0.0
    return float(((a_TW * b_TW).sum(1)[told] / spread_T[told]).mean())
