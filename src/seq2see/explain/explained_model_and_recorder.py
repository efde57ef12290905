"""A model with its tokenizers, and the recorder of its attention, predictions and beam search."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from seq2see.bundle import Bundle, StartAndEndTokenIds
from seq2see.engines.base import resolve_search_config
from seq2see.engines.batching import DEFAULT_SPECIAL_TOKENS, add_special_tokens
from seq2see.engines.loading import read_alignment_config, read_default_stop_rule
from seq2see.engines.torch_decoder import AlignmentConfig, CrossAttentionRecorder, TorchDecoder
from seq2see.errors import InputError
from seq2see.explain.interventions import Intervention
from seq2see.explain.patched_model import copy_model_with_interventions
from seq2see.model import (
    NULL_RECORDER,
    AttentionIntermediates,
    AttentionListener,
    AttentionModuleId,
    LayerListener,
    StackName,
    Transformer,
)
from seq2see.search import (
    Beam,
    Hypothesis,
    IncrementalDecoder,
    LengthConfig,
    SearchConfig,
    SentenceSearchInput,
    StepOutput,
    StepProcessor,
    StepRecord,
    StopRule,
    search,
)
from seq2see.text import Tokenizer, TokenizerPair

# B searches, K beams, R = B·K hypotheses, H heads, S source tokens or keys, D features per head,
# M features of the model, C candidates, V vocabulary, N most likely tokens

SPACE_MARKER = "▁"
"""SentencePiece's mark for a space."""


def display_token(token_id: int, tokenizer: Tokenizer) -> str:
    """Return a token as text for display: without the space marker, special tokens in brackets."""
    specials = tokenizer.special_ids
    names = {specials.pad: "⟨pad⟩", specials.bos: "⟨start⟩", specials.eos: "⟨end⟩"}
    if token_id in names:
        return names[token_id]
    if token_id == specials.unk:
        return "⟨unk⟩"
    piece = tokenizer.pieces[token_id]
    return piece.replace(SPACE_MARKER, " ").strip() or SPACE_MARKER


@dataclass(frozen=True, slots=True)
class ModuleStepAttention:
    """One attention module in one decoding step: one query per hypothesis."""

    weights_RHS: Tensor
    masked_RHS: Tensor | None
    scores_RHS: Tensor | None = None
    queries_RHD: Tensor | None = None
    keys_RHD: Tensor | None = None
    """Key of the newest token only: the other keys are in their own steps."""
    values_RHD: Tensor | None = None


@dataclass(slots=True)
class RecordedStep:
    """One decoding step of all hypotheses."""

    attention: dict[AttentionModuleId, ModuleStepAttention] = field(default_factory=dict)
    layer_outputs: dict[int, Tensor] = field(default_factory=dict)
    """By layer, [R, M]."""
    top_RN: tuple[Tensor, Tensor] | None = None
    """Log-probabilities and ids of the most likely tokens."""
    entropy_R: Tensor | None = None
    beam_size: int = 1
    search_index_B: Tensor | None = None
    candidates: dict[str, Tensor] = field(default_factory=dict)
    """Tensors [B, C]: parents, tokens, token_log_probs, log_probs, scores, statuses, next_beams,
    ranks."""


class TraceRecorder:
    """Records attention, layer outputs and the search; it is both a `Recorder` and an observer.

    Hypotheses change their rows from step to step. Each step keeps its own rows; the rows of one
    hypothesis follow from its parents.

    Args:
        detailed_layers: Layers whose scores, queries, keys and values are recorded too.
        top_k: Number of most likely tokens to record per step.
    """

    def __init__(self, detailed_layers: Collection[tuple[StackName, int]], top_k: int) -> None:
        self.detailed_layers = detailed_layers
        self.top_k = top_k
        self.encoder_attention: dict[AttentionModuleId, AttentionIntermediates] = {}
        self.encoder_outputs: dict[int, Tensor] = {}
        self.source_keys_values: dict[AttentionModuleId, tuple[Tensor, Tensor]] = {}
        """Keys and values of cross-attention, equal in all steps and hypotheses, [H, S, D]."""
        self.steps: list[RecordedStep] = []
        self._current_step = RecordedStep()
        self._log_probs_BKV: Tensor | None = None

    def attention_listener(self, site: AttentionModuleId) -> AttentionListener:
        """Return a listener for an attention module."""
        if site.stack == "encoder":
            return lambda record: self.encoder_attention.update({site: record})
        return lambda record: self._record_attention(site, record)

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener:
        """Return a listener for the output of a layer."""
        if stack == "encoder":
            return lambda x_BSM: self.encoder_outputs.update({layer: x_BSM[0]})
        return lambda x_R1M: self._current_step.layer_outputs.update({layer: x_R1M[:, -1].clone()})

    def record_prediction(self, log_probs_BKV: Tensor) -> None:
        """Record the distribution of the model, before processors change it."""
        log_probs_RV = log_probs_BKV.flatten(0, 1)
        best = log_probs_RV.topk(min(self.top_k, log_probs_RV.size(1)), dim=1)
        self._current_step.top_RN = best.values, best.indices
        self._current_step.entropy_R = -(log_probs_RV.exp() * log_probs_RV).nan_to_num(0).sum(1)
        self._log_probs_BKV = log_probs_BKV.clone()

    def step(self, record: StepRecord) -> None:
        """Finish a step with its candidates and their status."""
        step, candidates = self._current_step, record.candidates
        step.beam_size = record.beam.tokens_BKT.size(1)
        step.search_index_B = record.beam.search_index_B
        step.candidates = {
            "parents": candidates.parents_BC,
            "tokens": candidates.tokens_BC,
            "token_log_probs": candidates.model_log_probs_BC,
            "log_probs": candidates.log_probs_BC,
            "scores": record.scores_BC,
            "statuses": record.statuses_BC,
            "next_beams": record.next_beam_BC,
            "ranks": self._rank_candidates(candidates.parents_BC, candidates.tokens_BC),
        }
        self.steps.append(step)
        self._current_step = RecordedStep()

    def select_attention(
        self, site: AttentionModuleId, path_rows: Sequence[int]
    ) -> list[ModuleStepAttention]:
        """Return the attention of one hypothesis, given its row in each step."""
        selected = []
        for step, row in zip(self.steps, path_rows, strict=False):
            attention = step.attention[site]
            fields = (getattr(attention, name) for name in ModuleStepAttention.__slots__)
            selected.append(ModuleStepAttention(*(None if x is None else x[row] for x in fields)))  # type: ignore[arg-type]
        return selected

    def _record_attention(self, site: AttentionModuleId, record: AttentionIntermediates) -> None:
        masked = record.masked_BHTS
        weights_RHS = record.weights_BHTS[:, :, -1]
        if masked is not None:
            masked = masked.expand_as(record.weights_BHTS)[:, :, -1]
        if (site.stack, site.layer) not in self.detailed_layers:
            self._current_step.attention[site] = ModuleStepAttention(weights_RHS, masked)
            return
        if site.kind == "cross":
            self.source_keys_values.setdefault(site, (record.keys_BHSD[0], record.values_BHSD[0]))
        self._current_step.attention[site] = ModuleStepAttention(
            weights_RHS,
            masked,
            record.scores_BHTS[:, :, -1],
            record.queries_BHTD[:, :, -1],
            record.keys_BHSD[:, :, -1].clone(),  # a view would keep the tensors of all steps alive
            record.values_BHSD[:, :, -1].clone(),
        )

    def _rank_candidates(self, parents_BC: Tensor, tokens_BC: Tensor) -> Tensor:
        """Return the number of tokens that the model considers more likely than each candidate."""
        assert self._log_probs_BKV is not None
        rows_B1 = torch.arange(len(parents_BC), device=parents_BC.device)[:, None]
        log_probs_BCV = self._log_probs_BKV[rows_B1, parents_BC]
        candidate_BC1 = log_probs_BCV.gather(2, tokens_BC[:, :, None])
        return (log_probs_BCV > candidate_BC1).sum(2)


@dataclass(frozen=True, slots=True)
class PredictionRecordingDecoder:
    """A decoder that passes its predictions to a recorder."""

    inner: IncrementalDecoder
    recorder: TraceRecorder

    def step(self, tokens_BK: Tensor) -> StepOutput:
        """Decode one step and record its log-probabilities."""
        output = self.inner.step(tokens_BK)
        self.recorder.record_prediction(output.log_probs_BKV)
        return output

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Move the caches to the surviving hypotheses."""
        self.inner.reorder(rows_B, parents_BK)


@dataclass(frozen=True, slots=True)
class ExplainedModel:
    """A model in eval mode with its tokenizers, languages and search defaults."""

    model: Transformer
    tokenizers: TokenizerPair
    languages: tuple[str, str]
    special_tokens: StartAndEndTokenIds = DEFAULT_SPECIAL_TOKENS
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    """Heads whose attention a coverage penalty uses."""
    stop_rule: StopRule = "exact"
    """Stop rule of beam search, unless the search configuration sets one."""
    max_length: int | None = None
    """Maximum number of tokens of one segment; None for no limit."""

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> ExplainedModel:
        """Build the model of a bundle."""
        return cls(
            bundle.build_model(),
            bundle.tokenizers,
            bundle.languages,
            bundle.special_tokens,
            read_alignment_config(bundle),
            read_default_stop_rule(bundle),
            bundle.max_length,
        )

    def with_interventions(self, interventions: Sequence[Intervention]) -> ExplainedModel:
        """Return a copy with a patched model. Without interventions, attention runs unfused."""
        return replace(self, model=copy_model_with_interventions(self.model, interventions))

    def encode_source(self, text: str) -> list[int]:
        """Return the token ids of a source text. Raise InputError if it has none."""
        ids = self.tokenizers.source.encode(text)
        if not ids:
            raise InputError("the sentence must contain text, but is empty")
        return ids

    def build_source_BS(self, ids: Sequence[int]) -> Tensor:
        """Return the source with special tokens as a batch of one."""
        return torch.tensor([add_special_tokens(ids, self.special_tokens)], device=self.device)

    def display_target_token(self, token_id: int) -> tuple[str, str]:
        """Return the piece of a target token, and its text for display."""
        tokenizer = self.tokenizers.target
        is_eos = token_id == self.special_tokens.target_eos_id
        text = "⟨end⟩" if is_eos else display_token(token_id, tokenizer)
        return tokenizer.pieces[token_id], text

    def decode_hypothesis(self, hypothesis: Hypothesis) -> str:
        """Return the text of a hypothesis."""
        return self.tokenizers.target.decode(hypothesis.tokens_without_eos)

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.model.parameters()).device

    def search(
        self,
        ids: Sequence[int],
        config: SearchConfig,
        *,
        prefix: Sequence[int] = (),
        forced_tokens: Sequence[int] = (),
        recorder: TraceRecorder | None = None,
    ) -> Hypothesis:
        """Return the best hypothesis, with the same search as the torch engine.

        Args:
            ids: Source ids without special tokens.
            config: Search configuration.
            prefix: Ids that the translation must start with.
            forced_tokens: All ids of the translation including the end token (forced decoding).
            recorder: Records the search.

        Raises:
            InputError: If no translation satisfies the prefix and the length limits.
        """
        config = resolve_search_config(
            config, self.stop_rule, self.model.decoder.embeddings.positions.max_positions
        )
        if forced_tokens:
            config = _forced_search_config(config, len(forced_tokens))
        source_BS = self.build_source_BS(ids)
        (hypotheses,) = search(
            self._build_decoder(source_BS, config, recorder),
            [SentenceSearchInput(source_BS[0].tolist(), prefix=tuple(prefix))],
            config,
            bos=self.special_tokens.decoder_start_id,
            eos=self.special_tokens.target_eos_id,
            pad=self.model.encoder.pad_id,
            processors=[ForceTokensProcessor(tuple(forced_tokens))] if forced_tokens else (),
            observer=recorder,
            device=self.device,
        )
        if not hypotheses:
            raise InputError("no translation satisfies the forced prefix and the length limits")
        return hypotheses[0]

    def _build_decoder(
        self, source_BS: Tensor, config: SearchConfig, trace_recorder: TraceRecorder | None
    ) -> IncrementalDecoder:
        recorder, cross_recorder = trace_recorder or NULL_RECORDER, None
        if config.coverage_penalty:
            layer = self.alignment.resolve_layer(len(self.model.decoder.layers))
            cross_recorder = CrossAttentionRecorder(layer, self.alignment.heads, recorder)
        decoder = TorchDecoder(self.model, source_BS, recorder, cross_recorder)
        return PredictionRecordingDecoder(decoder, trace_recorder) if trace_recorder else decoder


@dataclass(frozen=True, slots=True)
class ForceTokensProcessor(StepProcessor):
    """Allows only the given token at each step."""

    tokens: tuple[int, ...]

    def is_active(self, length: int) -> bool:
        """Return whether a forced token is left at this length."""
        return length < len(self.tokens)

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:
        """Set the scores of all other tokens to -inf."""
        token = self.tokens[beam.length]
        step_scores_BKV.fill_(-torch.inf)
        step_scores_BKV[:, :, token] = model_log_probs_BKV[:, :, token]


def _forced_search_config(config: SearchConfig, length: int) -> SearchConfig:
    """Return a greedy search of exactly this length with the same length penalty."""
    limits = LengthConfig(max_ratio=0.0, max_extra=length, max_length=length)
    return SearchConfig(beam_size=1, length_penalty=config.length_penalty, length=limits)
