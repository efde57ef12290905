"""A model with its tokenizers, and the recorder that stores what happens while it translates."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from seq2see.bundle import Bundle, Framing
from seq2see.engines.base import bounded
from seq2see.engines.batching import FRAMING, framed
from seq2see.engines.loading import alignment_of, stop_of
from seq2see.engines.torch_decoder import AlignmentConfig, CrossEar, TorchDecoder
from seq2see.errors import InputError
from seq2see.explain.interventions import Intervention
from seq2see.explain.patched import altered
from seq2see.model import (
    SILENCE,
    AttentionListener,
    AttentionRecord,
    LayerListener,
    Site,
    Stack,
    Transformer,
)
from seq2see.search import (
    Beam,
    Decoder,
    Hypothesis,
    LengthsConfig,
    Prediction,
    SearchConfig,
    Source,
    StepProcessor,
    StepRecord,
    Stop,
    search,
)
from seq2see.text import Tokenizer, Tokenizers

# B rows of the search, K beams, R = B·K, H heads, S keys, D features of a head, M of the model,
# C candidates, V vocabulary, N likeliest tokens
# B rows, K beams, V vocabulary, S source tokens

SPACE = "▁"


def shown(number: int, tokenizer: Tokenizer) -> str:
    """Return how to write a piece."""
    specials = tokenizer.specials
    names = {specials.pad: "⟨pad⟩", specials.bos: "⟨start⟩", specials.eos: "⟨end⟩"}
    if number in names:
        return names[number]
    if number == specials.unk:
        return "⟨unk⟩"
    piece = tokenizer.pieces[number]
    return piece.replace(SPACE, " ").strip() or SPACE


@dataclass(frozen=True, slots=True)
class Rows:
    """One attention in one step: a query for each hypothesis."""

    weights_RHS: Tensor
    hidden_RHS: Tensor | None
    scores_RHS: Tensor | None = None
    queries_RHD: Tensor | None = None
    keys_RHD: Tensor | None = None
    """Of the newest token alone: those of the others are in their own steps."""
    values_RHD: Tensor | None = None


@dataclass(slots=True)
class StepTape:
    """One step of all hypotheses."""

    attention: dict[Site, Rows] = field(default_factory=dict)
    outputs: dict[int, Tensor] = field(default_factory=dict)
    """Of each layer, [R, M]."""
    top_RN: tuple[Tensor, Tensor] | None = None
    """Log-probabilities and tokens of the likeliest."""
    entropy_R: Tensor | None = None
    beams: int = 1
    members_B: Tensor | None = None
    candidates: dict[str, Tensor] = field(default_factory=dict)
    """By row and candidate: parents, tokens, own, log_probs, scores, fates, beams, ranks."""


class Tape:
    """Listens to all attentions, and keeps all of the steps of those layers that are asked for."""

    def __init__(self, whole: Collection[tuple[Stack, int]], top: int) -> None:
        self.whole = whole
        self.top = top
        self.encoder: dict[Site, AttentionRecord] = {}
        self.encoder_outputs: dict[int, Tensor] = {}
        self.memory: dict[Site, tuple[Tensor, Tensor]] = {}
        """Keys and values of the source, the same for every step and hypothesis, [H, S, D]."""
        self.steps: list[StepTape] = []
        self._now = StepTape()
        self._log_probs_BKV: Tensor | None = None

    def attention_listener(self, site: Site) -> AttentionListener:
        """Listen everywhere."""
        if site.stack == "encoder":
            return lambda record: self.encoder.update({site: record})
        return lambda record: self._hear(site, record)

    def layer_listener(self, stack: Stack, layer: int) -> LayerListener:
        """Take the outputs of every layer."""
        if stack == "encoder":
            return lambda x_BSM: self.encoder_outputs.update({layer: x_BSM[0]})
        return lambda x_R1M: self._now.outputs.update({layer: x_R1M[:, -1].clone()})

    def predicted(self, log_probs_BKV: Tensor) -> None:
        """Take what the model expects, before the search forbids anything."""
        log_probs_RV = log_probs_BKV.flatten(0, 1)
        best = log_probs_RV.topk(min(self.top, log_probs_RV.size(1)), dim=1)
        self._now.top_RN = best.values, best.indices
        self._now.entropy_R = -(log_probs_RV.exp() * log_probs_RV).nan_to_num(0).sum(1)
        self._log_probs_BKV = log_probs_BKV.clone()

    def step(self, record: StepRecord) -> None:
        """Close a step with what became of its candidates."""
        now, found = self._now, record.candidates
        now.beams = record.beam.tokens_BKT.size(1)
        now.members_B = record.beam.members_B
        now.candidates = {
            "parents": found.parents_BC,
            "tokens": found.tokens_BC,
            "own": found.own_BC,
            "log_probs": found.log_probs_BC,
            "scores": record.scores_BC,
            "fates": record.fates_BC,
            "beams": record.beams_BC,
            "ranks": self._ranks(found.parents_BC, found.tokens_BC),
        }
        self.steps.append(now)
        self._now = StepTape()

    def rows(self, site: Site, path: Sequence[int]) -> list[Rows]:
        """Return the attention along a path: for each step the row of the hypothesis."""
        taken = []
        for step, row in zip(self.steps, path, strict=False):
            rows = step.attention[site]
            parts = (getattr(rows, name) for name in Rows.__slots__)
            taken.append(Rows(*(None if x is None else x[row] for x in parts)))  # type: ignore[arg-type]
        return taken

    def _hear(self, site: Site, record: AttentionRecord) -> None:
        hidden = record.hidden_BHTS
        weights_RHS = record.weights_BHTS[:, :, -1]
        if hidden is not None:
            hidden = hidden.expand_as(record.weights_BHTS)[:, :, -1]
        if (site.stack, site.layer) not in self.whole:
            self._now.attention[site] = Rows(weights_RHS, hidden)
            return
        if site.kind == "cross":
            self.memory.setdefault(site, (record.keys_BHSD[0], record.values_BHSD[0]))
        self._now.attention[site] = Rows(
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
class TapedDecoder:
    """A decoder whose predictions are written down."""

    inner: Decoder
    tape: Tape

    def step(self, tokens_BK: Tensor) -> Prediction:
        """Look one token ahead."""
        prediction = self.inner.step(tokens_BK)
        self.tape.predicted(prediction.log_probs_BKV)
        return prediction

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Follow the search."""
        self.inner.reorder(rows_B, parents_BK)


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that is not in training, and all that is needed to translate with it."""

    model: Transformer
    tokenizers: Tokenizers
    languages: tuple[str, str]
    framing: Framing = FRAMING
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    """Whose attention a coverage penalty counts."""
    stop: Stop = "exact"
    """When its beams stop, unless another rule is named."""
    max_length: int | None = None
    """The most tokens that it translates at once."""

    @classmethod
    def of(cls, bundle: Bundle) -> Subject:
        """Return what a bundle holds."""
        return cls(
            bundle.model(),
            bundle.tokenizers,
            bundle.languages,
            bundle.framing,
            alignment_of(bundle),
            stop_of(bundle),
            bundle.max_length,
        )

    def altered(self, interventions: Sequence[Intervention]) -> Subject:
        """Return the same with changes in its model; without any, in the plain form."""
        return replace(self, model=altered(self.model, interventions))

    def source_ids(self, text: str) -> list[int]:
        """Return the ids of a source, or say why it has none."""
        ids = self.tokenizers.source.encode(text)
        if not ids:
            raise InputError("the sentence must have words, but has none")
        return ids

    def source_BS(self, ids: Sequence[int]) -> Tensor:
        """Return a source as the model reads it."""
        return torch.tensor([framed(ids, self.framing)], device=self.device)

    def shown(self, number: int) -> tuple[str, str]:
        """Return a target piece, and how to write it."""
        tokenizer = self.tokenizers.target
        text = "⟨end⟩" if number == self.framing.target_end else shown(number, tokenizer)
        return tokenizer.pieces[number], text

    def text(self, hypothesis: Hypothesis) -> str:
        """Return what a hypothesis says."""
        return self.tokenizers.target.decode(hypothesis.content)

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
        forced: Sequence[int] = (),
        tape: Tape | None = None,
    ) -> Hypothesis:
        """Translate, in the way of the torch engine; or force these tokens, the stop symbol too."""
        config = bounded(config, self.stop, self.model.decoder.embeddings.positions.longest)
        if forced:
            config = _for_forcing(config, len(forced))
        source_BS = self.source_BS(ids)
        found = search(
            self._decoder(source_BS, config, tape),
            [Source(source_BS.size(1), prefix=tuple(prefix))],
            config,
            bos=self.framing.target_start,
            eos=self.framing.target_end,
            pad=self.model.encoder.pad_id,
            processors=[Forced(tuple(forced))] if forced else (),
            observer=tape,
            device=self.device,
        )
        if not found[0]:
            raise InputError("the translation must be possible, but nothing may follow what is set")
        return found[0][0]

    def _decoder(self, source_BS: Tensor, config: SearchConfig, tape: Tape | None) -> Decoder:
        recorder, ear = tape or SILENCE, None
        if config.coverage_penalty:
            layer = self.alignment.resolved(len(self.model.decoder.layers))
            ear = CrossEar(layer, self.alignment.heads, recorder)
        decoder = TorchDecoder(self.model, source_BS, recorder, ear)
        return TapedDecoder(decoder, tape) if tape else decoder


@dataclass(frozen=True, slots=True)
class Forced(StepProcessor):
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
    lengths = LengthsConfig(max_ratio=0.0, max_extra=length, max_length=length)
    return SearchConfig(beam_size=1, length_penalty=config.length_penalty, lengths=lengths)
