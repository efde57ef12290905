"""What is explained: a model with its tokenizers, and how it is asked to translate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from seq2see.bundle import Bundle, Framing
from seq2see.engines.batching import FRAMING, framed
from seq2see.engines.listening import AlignmentConfig, CrossEar
from seq2see.engines.protocol import bounded
from seq2see.engines.selection import alignment_of, stop_of
from seq2see.engines.torch import TorchDecoder
from seq2see.errors import InputError
from seq2see.explain.interventions import Intervention, altered
from seq2see.explain.sentences import shown
from seq2see.explain.tape import Tape, TapedDecoder
from seq2see.model import SILENCE, Transformer
from seq2see.search import (
    Beam,
    Decoder,
    Hypothesis,
    LengthsConfig,
    SearchConfig,
    Source,
    StepProcessor,
    Stop,
    search,
)
from seq2see.text import Tokenizers

# B rows, K beams, V vocabulary, S source tokens


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
