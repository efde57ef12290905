"""Records the search of one sentence, and builds the parts of its trace from the record."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from seq2see.config import Config
from seq2see.errors import Problem
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.interventions import (
    Intervention,
    collect_head_changes,
    named_attention_modules,
)
from seq2see.explain.trace_format import (
    AttentionModuleTrace,
    AttributionMethod,
    BeamNode,
    DecodingStep,
    HeadSummary,
    LayerLogitLens,
    LayerOutputNorms,
    TokenAxis,
    TokenCandidate,
    to_numpy,
)
from seq2see.model import (
    AttentionIntermediates,
    AttentionListener,
    AttentionModuleId,
    DotProductAttention,
    LayerListener,
    LinformerAttention,
    MultiHeadAttention,
    StackName,
    Transformer,
)
from seq2see.search import CandidateStatus, Hypothesis, SearchConfig, StepRecord

# B searches, K beams, R = B·K hypotheses, H heads, T steps or queries, S source tokens or keys,
# D features per head, M features of the model, C candidates, V vocabulary, N most likely tokens

AttentionTensors = dict[str, Tensor]
"""Tensors of an attention module by their names in `AttentionModuleTrace`: `weights` and `mask`,
and with details `scores`, `queries`, `keys` and `values`."""

LayerNames = Annotated[tuple[str, ...], Field(strict=False)]
_LAYER_NAME = re.compile(r"(encoder|decoder)\.\d+")
LOGIT_LENS_TOKENS = 3
"""Number of most likely tokens per layer and step."""


@dataclass(frozen=True, slots=True)
class StepInternals:
    """What the model computed in one decoding step of one hypothesis."""

    attention: dict[AttentionModuleId, AttentionTensors]
    """Of one query: weights [H, S], vectors [H, D]. Keys and values of self-attention are those of
    the newest token: the others are in their own steps."""
    layer_outputs: dict[int, Tensor]
    """By layer, [M]."""
    top: tuple[list[int], list[float]]
    """Ids and log-probabilities of the most likely tokens."""
    entropy: float


@dataclass(frozen=True, slots=True)
class RecordedNode:
    """A node of the beam tree, with the step that predicted its token."""

    node: BeamNode
    parent: RecordedNode | None
    internals: StepInternals
    token_rank: int
    """Number of tokens that the model considers more likely."""


class TraceOptions(Config):
    """What a trace contains. Attention weights of all heads are always included."""

    layers: Literal["none", "last", "all"] | LayerNames = "last"
    """Layers with scores, queries, keys and values: `none`, `all`, `last` (of each stack),
    or names such as `decoder.1`."""
    top_k: int = Field(default=8, ge=1, le=100)
    """Number of most likely tokens per step."""
    attributions: tuple[AttributionMethod, ...] = Field(default=(), strict=False, max_length=5)
    """Attribution methods to compute."""
    word_alternatives: bool = False
    """Find alternatives for each word of the translation."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a problem for an invalid name of a layer, and for a repeated method."""
        names = () if isinstance(self.layers, str) else self.layers
        if invalid := [name for name in names if not _LAYER_NAME.fullmatch(name)]:
            allowed = "none, last, all or layers such as encoder.0,decoder.1"
            yield Problem("layers", f"must be {allowed}, but has {invalid[0]!r} instead")
        methods = self.attributions
        if repeated := [method for method in methods if methods.count(method) > 1]:
            yield Problem("attributions", f"must differ, but {repeated[0]} is repeated")

    def find_problems(self, model: Transformer) -> Iterator[Problem]:
        """Yield a problem if the model does not have a layer of `layers`."""
        known = _list_layers(model)
        if unknown := [name for name in self.detailed_layers(model) if name not in known]:
            yield Problem(
                "layers",
                f"must be none, last, all or some of {', '.join(known)}, "
                f"but has {unknown[0]} instead",
            )

    def detailed_layers(self, model: Transformer) -> Collection[str]:
        """Return the names of the layers of a model with scores, queries, keys and values."""
        if isinstance(self.layers, tuple):
            return self.layers
        known = _list_layers(model)
        last = {name.partition(".")[0]: name for name in known}
        return {"none": (), "last": last.values(), "all": known}[self.layers]


def _list_layers(model: Transformer) -> list[str]:
    num_layers = {"encoder": len(model.encoder.layers), "decoder": len(model.decoder.layers)}
    return [f"{stack}.{i}" for stack, number in num_layers.items() for i in range(number)]


@dataclass(slots=True, eq=False)
class TraceRecorder:
    """Records attention, layer outputs and the search; it is both a `Recorder` and an observer.

    A recorded node refers to its parent, so that the internals of hypotheses that were pruned are
    freed: those of live hypotheses and of the best finished one remain.
    """

    explained: ExplainedModel
    search: SearchConfig
    options: TraceOptions
    nodes: list[BeamNode] = field(default_factory=list)
    """All hypotheses of the search, parents before children."""
    encoder_attention: dict[AttentionModuleId, AttentionTensors] = field(default_factory=dict)
    encoder_outputs: dict[int, Tensor] = field(default_factory=dict)
    source_keys_values: dict[AttentionModuleId, AttentionTensors] = field(default_factory=dict)
    """Keys and values of cross-attention, equal in all steps and hypotheses, [H, S, D]."""
    _attention: dict[AttentionModuleId, AttentionTensors] = field(default_factory=dict)
    _layer_outputs: dict[int, Tensor] = field(default_factory=dict)
    _live: dict[tuple[int, int], RecordedNode] = field(default_factory=dict)
    """By index of the search and of the beam."""
    _finished: list[RecordedNode] = field(default_factory=list)

    @property
    def detailed_layers(self) -> Collection[str]:
        """Layers whose scores, queries, keys and values are recorded too."""
        return self.options.detailed_layers(self.explained.model)

    def attention_listener(self, site: AttentionModuleId) -> AttentionListener:
        """Return a listener for an attention module."""
        return lambda record: self._record_attention(site, record)

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener:
        """Return a listener for the output of a layer."""
        if stack == "encoder":
            return lambda x_BSM: self.encoder_outputs.update({layer: x_BSM[0]})
        return lambda x_R1M: self._layer_outputs.update({layer: x_R1M[:, -1]})

    def _record_attention(self, site: AttentionModuleId, record: AttentionIntermediates) -> None:
        tensors = {"weights": record.weights_BHTS}
        if record.masked_BHTS is not None:
            tensors["mask"] = record.masked_BHTS.expand_as(record.weights_BHTS)
        if f"{site.stack}.{site.layer}" in self.detailed_layers:
            tensors |= {"scores": record.scores_BHTS, "queries": record.queries_BHTD}
            keys_values = {"keys": record.keys_BHSD, "values": record.values_BHSD}
            if site.kind == "self":
                tensors |= keys_values
            else:
                first = {name: tensor[0] for name, tensor in keys_values.items()}
                self.source_keys_values[site] = first
        if site.stack == "encoder":
            self.encoder_attention[site] = {name: tensor[0] for name, tensor in tensors.items()}
        else:
            self._attention[site] = {name: tensor[:, :, -1] for name, tensor in tensors.items()}

    def step(self, record: StepRecord) -> None:
        """Record the candidates of a step and the distributions that they were chosen from."""
        internals = list(self._take_internals(record.log_probs_BKV.flatten(0, 1)))
        parents, self._live = self._live, {}
        for row, rank in (record.statuses_BC != CandidateStatus.NONE).nonzero().tolist():
            self._record_candidate(record, row, rank, internals, parents)

    def _record_candidate(
        self,
        record: StepRecord,
        row: int,
        rank: int,
        internals: Sequence[StepInternals],
        parents: Mapping[tuple[int, int], RecordedNode],
    ) -> None:
        """Add the node of the candidate with this rank in a row."""
        candidates, step = record.candidates, record.beam.length
        search_index = int(record.beam.search_index_B[row])
        parent_beam = int(candidates.parents_BC[row, rank])
        parent = parents.get((search_index, parent_beam))
        token_id = int(candidates.tokens_BC[row, rank])
        piece, text = self.explained.display_target_token(token_id)
        log_prob = float(candidates.log_probs_BC[row, rank])
        score = float(record.scores_BC[row, rank])
        node = BeamNode(
            id=len(self.nodes),
            parent=parent.node.id if parent else None,
            step=step,
            search_index=search_index,
            token_id=token_id,
            piece=piece,
            text=text,
            token_log_prob=float(candidates.model_log_probs_BC[row, rank]),
            log_prob=log_prob,
            penalty=log_prob / (step + 1) ** self.search.length_penalty - score,
            score=score,
            rank=rank,
            status=CandidateStatus(int(record.statuses_BC[row, rank])).name.lower(),
        )
        self.nodes.append(node)
        log_probs_V = record.log_probs_BKV[row, parent_beam]
        token_rank = int((log_probs_V > log_probs_V[token_id]).sum())
        of_parent = internals[row * record.log_probs_BKV.size(1) + parent_beam]
        recorded = RecordedNode(node, parent, of_parent, token_rank)
        if node.status == "alive":
            self._live[search_index, int(record.next_beam_BC[row, rank])] = recorded
        elif node.status == "finished":
            self._keep_finished(recorded)

    def _keep_finished(self, recorded: RecordedNode) -> None:
        """Keep a finished hypothesis if it may be the result, so that those of others are freed."""
        if not self.search.sampling:
            best = max(each.node.score for each in (*self._finished, recorded))
            self._finished = [each for each in self._finished if each.node.score == best]
            if recorded.node.score < best:
                return
        self._finished.append(recorded)

    def _take_internals(self, log_probs_RV: Tensor) -> Iterator[StepInternals]:
        """Yield the internals of each hypothesis; copies, which do not keep the batch alive."""
        best = log_probs_RV.topk(min(self.options.top_k, log_probs_RV.size(1)), dim=1)
        entropy_R = -(log_probs_RV.exp() * log_probs_RV).nan_to_num(0).sum(1)
        attention, outputs = self._attention, self._layer_outputs
        self._attention, self._layer_outputs = {}, {}
        for row, entropy in enumerate(entropy_R.tolist()):
            yield StepInternals(
                {
                    site: {name: tensor[row].clone() for name, tensor in tensors.items()}
                    for site, tensors in attention.items()
                },
                {layer: states_RM[row].clone() for layer, states_RM in outputs.items()},
                (best.indices[row].tolist(), best.values[row].tolist()),
                entropy,
            )

    def find_path(self, hypothesis: Hypothesis) -> list[RecordedNode]:
        """Return the nodes of the best hypothesis, from its first token to its last."""
        for end in sorted(self._finished, key=lambda each: -each.node.score):
            path, parent = [end], end.parent
            while parent:
                path.insert(0, parent)
                parent = parent.parent
            if tuple(each.node.token_id for each in path) == hypothesis.tokens:
                return path
        raise AssertionError("all finished hypotheses are recorded")


def build_token_candidates(
    explained: ExplainedModel, ids: Sequence[int], log_probs: Sequence[float]
) -> Iterator[TokenCandidate]:
    """Yield candidates for the next token."""
    for token_id, log_prob in zip(ids, log_probs, strict=True):
        piece, text = explained.display_target_token(token_id)
        yield TokenCandidate(
            id=token_id, piece=piece, text=text, log_prob=log_prob, probability=math.exp(log_prob)
        )


def build_decoding_steps(
    explained: ExplainedModel, path: Sequence[RecordedNode], start_piece: str
) -> Iterator[DecodingStep]:
    """Yield one decoding step for each token of the path."""
    input_pieces = [start_piece, *(each.node.piece for each in path)]
    for input_piece, recorded in zip(input_pieces, path, strict=False):
        yield DecodingStep(
            input_piece=input_piece,
            log_prob=recorded.node.token_log_prob,
            probability=math.exp(recorded.node.token_log_prob),
            rank=recorded.token_rank,
            entropy=recorded.internals.entropy,
            top_candidates=build_token_candidates(explained, *recorded.internals.top),
        )


def _stack_layer_outputs(path: Sequence[RecordedNode]) -> dict[int, Tensor]:
    """Return the outputs of each decoder layer along a path, [T, M]."""
    return {
        layer: torch.stack([each.internals.layer_outputs[layer] for each in path])
        for layer in sorted(path[0].internals.layer_outputs)
    }


def build_layer_outputs(
    recorder: TraceRecorder, path: Sequence[RecordedNode]
) -> Iterator[LayerOutputNorms]:
    """Yield the norms of the output of each layer, of the decoder along a path."""
    for stack, outputs in (
        ("encoder", recorder.encoder_outputs),
        ("decoder", _stack_layer_outputs(path)),
    ):
        for layer, states_TM in sorted(outputs.items()):
            yield LayerOutputNorms(stack=stack, layer=layer, norms=to_numpy(states_TM.norm(dim=-1)))


def compute_logit_lenses(
    explained: ExplainedModel, path: Sequence[RecordedNode]
) -> Iterator[LayerLogitLens]:
    """Yield the output distribution that the model computes from each decoder layer on a path."""
    model = explained.model
    target_T = torch.tensor([each.node.token_id for each in path])
    for layer, states_TM in _stack_layer_outputs(path).items():
        log_probs_TV = model.output.log_probabilities(model.decoder.norm(states_TM)).cpu()
        best = log_probs_TV.topk(min(LOGIT_LENS_TOKENS, log_probs_TV.size(1)), dim=1)
        yield LayerLogitLens(
            layer=layer,
            probability=to_numpy(log_probs_TV.gather(1, target_T[:, None])[:, 0].exp()),
            top_candidates=[
                [*build_token_candidates(explained, ids, log_probs)]
                for ids, log_probs in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ],
        )


def build_attention_maps(
    recorder: TraceRecorder, path: Sequence[RecordedNode], interventions: Sequence[Intervention]
) -> Iterator[AttentionModuleTrace]:
    """Yield the map of each recorded attention module, of the decoder along a path."""
    for _, module in named_attention_modules(recorder.explained.model):
        site, attention = module.site, module.attention
        if site in recorder.encoder_attention:
            tensors = recorder.encoder_attention[site]
        elif site in path[0].internals.attention:
            tensors = _stack_attention([each.internals.attention[site] for each in path])
            tensors |= recorder.source_keys_values.get(site, {})
        else:  # the layer is ablated
            continue
        query_axis, key_axis = _find_axes(module)
        changes = collect_head_changes(module, interventions)
        scale = attention.scale if isinstance(attention, DotProductAttention) else None
        weights_HTS = tensors["weights"]
        mask_HTS = tensors.pop("mask", torch.zeros_like(weights_HTS, dtype=torch.bool))
        yield AttentionModuleTrace(
            stack=site.stack,
            layer=site.layer,
            kind=site.kind,
            query_axis=query_axis,
            key_axis=key_axis,
            mask=_simplify_mask(mask_HTS, is_causal=site[::2] == ("decoder", "self")),
            head_summaries=summarize_heads(weights_HTS, query_axis == key_axis),
            ablated_heads=sorted(changes.ablated),
            scale=None if changes.score_scales else scale,
            **{name: to_numpy(tensor) for name, tensor in tensors.items()},
        )


def _find_axes(module: MultiHeadAttention) -> tuple[TokenAxis, TokenAxis]:
    """Return the tokens of the queries and of the keys."""
    if module.site.kind == "cross":
        return "target", "source"
    if module.site.stack == "decoder":
        return "decoder_input", "decoder_input"
    is_projected = isinstance(module.attention, LinformerAttention)
    return "source", "projection" if is_projected else "source"


def _stack_attention(steps: Sequence[AttentionTensors]) -> AttentionTensors:
    """Return tensors with an axis of T steps, [H, T, S] or [H, T, D].

    Keys that do not exist yet are padded with zeros.
    """
    stacked = {}
    for name in steps[0]:
        rows = [tensors[name].mT for tensors in steps]
        stacked[name] = pad_sequence(rows, batch_first=True).permute(2, 0, 1).contiguous()
    return stacked


def _simplify_mask(mask_HTS: Tensor, is_causal: bool) -> Any:
    """Return the masked keys of each query, or None if there are none.

    The mask has an axis of heads only if it differs between them. With `is_causal`, keys of later
    steps are masked; they do not exist during decoding.
    """
    if is_causal:
        mask_HTS = mask_HTS | torch.ones_like(mask_HTS).triu(1)
    if not mask_HTS.any():
        return None
    is_shared = bool((mask_HTS == mask_HTS[:1]).all())
    return to_numpy(mask_HTS[0] if is_shared else mask_HTS, np.uint8)


def summarize_heads(weights_HTS: Tensor, same_tokens: bool) -> Iterator[HeadSummary]:
    """Yield statistics of each head.

    Args:
        weights_HTS: Attention weights.
        same_tokens: Whether queries and keys are the same tokens, so that they have a distance.
    """
    entropy_H = torch.special.entr(weights_HTS).sum(-1).mean(-1).tolist()
    max_weight_H = weights_HTS.amax(-1).mean(-1).tolist()
    _, num_queries, num_keys = weights_HTS.shape
    keys_S = torch.arange(num_keys, device=weights_HTS.device)
    distance_TS = (keys_S - torch.arange(num_queries, device=keys_S.device)[:, None]).abs()
    distance_H = (weights_HTS * distance_TS).sum(-1).mean(-1).tolist()
    for entropy, max_weight, distance in zip(entropy_H, max_weight_H, distance_H, strict=True):
        yield HeadSummary(
            entropy=entropy, max_weight=max_weight, distance=distance if same_tokens else None
        )
