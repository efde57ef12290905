"""A model with its tokenizers, and the recorder that stores what happens while it translates."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from seq2see.bundle import Bundle, SpecialTokens
from seq2see.engines.base import resolve_search_config
from seq2see.engines.batching import DEFAULT_SPECIAL_TOKENS, add_special_tokens
from seq2see.engines.loading import read_alignment_config, read_stop_rule
from seq2see.engines.torch_decoder import AlignmentConfig, CrossAttentionRecorder, TorchDecoder
from seq2see.errors import InputError
from seq2see.explain.interventions import Intervention
from seq2see.explain.patched import patch_model
from seq2see.model import (
    NULL_RECORDER,
    AttentionListener,
    AttentionRecord,
    AttentionSite,
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
    SearchInput,
    StepOutput,
    StepProcessor,
    StepRecord,
    StopRule,
    search,
)
from seq2see.text import Tokenizer, TokenizerPair

# B rows of the search, K beams, R = B·K, H heads, S keys, D features of a head, M of the model,
# C candidates, V vocabulary, N likeliest tokens
# B rows, K beams, V vocabulary, S source tokens

SPACE_MARKER = "▁"


def display_token(token_id: int, tokenizer: Tokenizer) -> str:
    """Return how to write a piece."""
    specials = tokenizer.special_ids
    names = {specials.pad: "⟨pad⟩", specials.bos: "⟨start⟩", specials.eos: "⟨end⟩"}
    if token_id in names:
        return names[token_id]
    if token_id == specials.unk:
        return "⟨unk⟩"
    piece = tokenizer.pieces[token_id]
    return piece.replace(SPACE_MARKER, " ").strip() or SPACE_MARKER


@dataclass(frozen=True, slots=True)
class StepAttention:
    """One attention in one step: a query for each hypothesis."""

    weights_RHS: Tensor
    masked_RHS: Tensor | None
    scores_RHS: Tensor | None = None
    queries_RHD: Tensor | None = None
    keys_RHD: Tensor | None = None
    """Of the newest token alone: those of the others are in their own steps."""
    values_RHD: Tensor | None = None


@dataclass(slots=True)
class RecordedStep:
    """One step of all hypotheses."""

    attention: dict[AttentionSite, StepAttention] = field(default_factory=dict)
    layer_outputs: dict[int, Tensor] = field(default_factory=dict)
    """Of each layer, [R, M]."""
    top_RN: tuple[Tensor, Tensor] | None = None
    """Log-probabilities and tokens of the likeliest."""
    entropy_R: Tensor | None = None
    beam_size: int = 1
    search_index_B: Tensor | None = None
    candidates: dict[str, Tensor] = field(default_factory=dict)
    """By row and candidate: parents, tokens, own, log_probs, scores, fates, beams, ranks."""


class TraceRecorder:
    """Listens to all attentions, and keeps all of the steps of those layers that are asked for."""

    def __init__(self, detailed_layers: Collection[tuple[StackName, int]], top_k: int) -> None:
        self.detailed_layers = detailed_layers
        self.top_k = top_k
        self.encoder_attention: dict[AttentionSite, AttentionRecord] = {}
        self.encoder_outputs: dict[int, Tensor] = {}
        self.source_keys_values: dict[AttentionSite, tuple[Tensor, Tensor]] = {}
        """Keys and values of the source, the same for every step and hypothesis, [H, S, D]."""
        self.steps: list[RecordedStep] = []
        self._now = RecordedStep()
        self._log_probs_BKV: Tensor | None = None

    def attention_listener(self, site: AttentionSite) -> AttentionListener:
        """Listen everywhere."""
        if site.stack == "encoder":
            return lambda record: self.encoder_attention.update({site: record})
        return lambda record: self._hear(site, record)

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener:
        """Take the outputs of every layer."""
        if stack == "encoder":
            return lambda x_BSM: self.encoder_outputs.update({layer: x_BSM[0]})
        return lambda x_R1M: self._now.layer_outputs.update({layer: x_R1M[:, -1].clone()})

    def record_prediction(self, log_probs_BKV: Tensor) -> None:
        """Take what the model expects, before the search forbids anything."""
        log_probs_RV = log_probs_BKV.flatten(0, 1)
        best = log_probs_RV.topk(min(self.top_k, log_probs_RV.size(1)), dim=1)
        self._now.top_RN = best.values, best.indices
        self._now.entropy_R = -(log_probs_RV.exp() * log_probs_RV).nan_to_num(0).sum(1)
        self._log_probs_BKV = log_probs_BKV.clone()

    def step(self, record: StepRecord) -> None:
        """Close a step with what became of its candidates."""
        now, found = self._now, record.candidates
        now.beam_size = record.beam.tokens_BKT.size(1)
        now.search_index_B = record.beam.search_index_B
        now.candidates = {
            "parents": found.parents_BC,
            "tokens": found.tokens_BC,
            "own": found.model_log_probs_BC,
            "log_probs": found.log_probs_BC,
            "scores": record.scores_BC,
            "fates": record.statuses_BC,
            "beams": record.next_beam_BC,
            "ranks": self._ranks(found.parents_BC, found.tokens_BC),
        }
        self.steps.append(now)
        self._now = RecordedStep()

    def select_attention(
        self, site: AttentionSite, path_rows: Sequence[int]
    ) -> list[StepAttention]:
        """Return the attention along a path: for each step the row of the hypothesis."""
        taken = []
        for step, row in zip(self.steps, path_rows, strict=False):
            rows = step.attention[site]
            parts = (getattr(rows, name) for name in StepAttention.__slots__)
            taken.append(StepAttention(*(None if x is None else x[row] for x in parts)))  # type: ignore[arg-type]
        return taken

    def _hear(self, site: AttentionSite, record: AttentionRecord) -> None:
        hidden = record.masked_BHTS
        weights_RHS = record.weights_BHTS[:, :, -1]
        if hidden is not None:
            hidden = hidden.expand_as(record.weights_BHTS)[:, :, -1]
        if (site.stack, site.layer) not in self.detailed_layers:
            self._now.attention[site] = StepAttention(weights_RHS, hidden)
            return
        if site.kind == "cross":
            self.source_keys_values.setdefault(site, (record.keys_BHSD[0], record.values_BHSD[0]))
        self._now.attention[site] = StepAttention(
            weights_RHS,
            hidden,
            record.scores_BHTS[:, :, -1],
            record.queries_BHTD[:, :, -1],
            record.keys_BHSD[:, :, -1].clone(),  # a view would keep the whole past alive
            record.values_BHSD[:, :, -1].clone(),
        )

    def _ranks(self, parents_BC: Tensor, tokens_BC: Tensor) -> Tensor:
        """Return how many tokens the model likes better than each candidate."""
        assert self._log_probs_BKV is not None
        rows_B1 = torch.arange(len(parents_BC), device=parents_BC.device)[:, None]
        theirs_BCV = self._log_probs_BKV[rows_B1, parents_BC]
        own_BC1 = theirs_BCV.gather(2, tokens_BC[:, :, None])
        return (theirs_BCV > own_BC1).sum(2)


@dataclass(frozen=True, slots=True)
class RecordingDecoder:
    """A decoder whose predictions are written down."""

    inner: IncrementalDecoder
    recorder: TraceRecorder

    def step(self, tokens_BK: Tensor) -> StepOutput:
        """Look one token ahead."""
        prediction = self.inner.step(tokens_BK)
        self.recorder.record_prediction(prediction.log_probs_BKV)
        return prediction

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Follow the search."""
        self.inner.reorder(rows_B, parents_BK)


@dataclass(frozen=True, slots=True)
class ExplainedModel:
    """A model that is not in training, and all that is needed to translate with it."""

    model: Transformer
    tokenizers: TokenizerPair
    languages: tuple[str, str]
    special_tokens: SpecialTokens = DEFAULT_SPECIAL_TOKENS
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    """Whose attention a coverage penalty counts."""
    stop_rule: StopRule = "exact"
    """When its beams stop, unless another rule is named."""
    max_length: int | None = None
    """The most tokens that it translates at once."""

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> ExplainedModel:
        """Return what a bundle holds."""
        return cls(
            bundle.build_model(),
            bundle.tokenizers,
            bundle.languages,
            bundle.special_tokens,
            read_alignment_config(bundle),
            read_stop_rule(bundle),
            bundle.max_length,
        )

    def with_interventions(self, interventions: Sequence[Intervention]) -> ExplainedModel:
        """Return the same with changes in its model; without any, in the plain form."""
        return replace(self, model=patch_model(self.model, interventions))

    def encode_source(self, text: str) -> list[int]:
        """Return the ids of a source, or say why it has none."""
        ids = self.tokenizers.source.encode(text)
        if not ids:
            raise InputError("the sentence must have words, but has none")
        return ids

    def build_source_BS(self, ids: Sequence[int]) -> Tensor:
        """Return a source as the model reads it."""
        return torch.tensor([add_special_tokens(ids, self.special_tokens)], device=self.device)

    def display_target_token(self, token_id: int) -> tuple[str, str]:
        """Return a target piece, and how to write it."""
        tokenizer = self.tokenizers.target
        text = (
            "⟨end⟩"
            if token_id == self.special_tokens.target_eos_id
            else display_token(token_id, tokenizer)
        )
        return tokenizer.pieces[token_id], text

    def decode_hypothesis(self, hypothesis: Hypothesis) -> str:
        """Return what a hypothesis says."""
        return self.tokenizers.target.decode(hypothesis.tokens_without_eos)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
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
        """Translate, in the way of the torch engine; or force these tokens, the stop symbol too."""
        config = resolve_search_config(
            config, self.stop_rule, self.model.decoder.embeddings.positions.max_positions
        )
        if forced_tokens:
            config = _for_forcing(config, len(forced_tokens))
        source_BS = self.build_source_BS(ids)
        found = search(
            self._decoder(source_BS, config, recorder),
            [SearchInput(source_BS.size(1), prefix=tuple(prefix))],
            config,
            bos=self.special_tokens.decoder_start_id,
            eos=self.special_tokens.target_eos_id,
            pad=self.model.encoder.pad_id,
            processors=[ForcedTokens(tuple(forced_tokens))] if forced_tokens else (),
            observer=recorder,
            device=self.device,
        )
        if not found[0]:
            raise InputError("the translation must be possible, but nothing may follow what is set")
        return found[0][0]

    def _decoder(
        self, source_BS: Tensor, config: SearchConfig, tape: TraceRecorder | None
    ) -> IncrementalDecoder:
        recorder, ear = tape or NULL_RECORDER, None
        if config.coverage_penalty:
            layer = self.alignment.resolve_layer(len(self.model.decoder.layers))
            ear = CrossAttentionRecorder(layer, self.alignment.heads, recorder)
        decoder = TorchDecoder(self.model, source_BS, recorder, ear)
        return RecordingDecoder(decoder, tape) if tape else decoder


@dataclass(frozen=True, slots=True)
class ForcedTokens(StepProcessor):
    """Leaves nothing but these tokens."""

    tokens: tuple[int, ...]

    def active(self, length: int) -> bool:
        """Say whether there is one left."""
        return length < len(self.tokens)

    def process(self, beam: Beam, values_BKV: Tensor, own_BKV: Tensor) -> None:
        """Forbid all others."""
        token = self.tokens[beam.length]
        values_BKV.fill_(-torch.inf)
        values_BKV[:, :, token] = own_BKV[:, :, token]


def _for_forcing(config: SearchConfig, length: int) -> SearchConfig:
    """Return a search that ends exactly there, with the same score."""
    lengths = LengthConfig(max_ratio=0.0, max_extra=length, max_length=length)
    return SearchConfig(beam_size=1, length_penalty=config.length_penalty, length=lengths)
