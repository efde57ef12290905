"""Alignment error rate (AER) of the heads of cross-attention.

The reference translation is decoded, and words are linked as in translations, by
`seq2see.translator.align_words`. The best head is selected on other sentences than those on which
it is scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from seq2see.bundle import Bundle, StartAndEndTokenIds
from seq2see.data.fables import FableSentencePair
from seq2see.data.fables.phrases import WORD_PATTERN
from seq2see.engines.batching import add_special_tokens, batch_by_length, pad_sequences
from seq2see.engines.torch_decoder import AlignmentConfig
from seq2see.model import AttentionRecorder, Transformer
from seq2see.text import TokenizerPair
from seq2see.text.tokenizer import Offsets
from seq2see.translator import align_words

# B sentences, L layers of the decoder, H heads, T target tokens, S source tokens,
# U target words, W source words, V and X target and source words of the gold alignment

MAX_BATCH_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """The head that aligns words best, with its alignment error rate."""

    layer: int
    """The lowest layer is 0."""
    head: int
    aer: float
    """In percent. All gold links are sure links, so it is 100 minus the F-score."""


@dataclass(frozen=True, slots=True)
class HeadAlignmentScorer:
    """Decodes reference translations with a model and scores the attention of its heads."""

    model: Transformer
    tokenizers: TokenizerPair
    special_tokens: StartAndEndTokenIds

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Self:
        """Return the scorer of the heads of a model."""
        return cls(bundle.build_model(), bundle.tokenizers, bundle.special_tokens)

    def build_report(
        self,
        fables: Sequence[FableSentencePair],
        head_selection_fables: Sequence[FableSentencePair],
    ) -> AlignmentReport:
        """Select the best head on some fables and score it on others."""
        layer, head = self.find_best_head(head_selection_fables)
        return AlignmentReport(layer, head, float(self.compute_error_rates(fables)[layer, head]))

    def find_best_head(self, fables: Sequence[FableSentencePair]) -> tuple[int, int]:
        """Return the layer and the index of the head with the lowest alignment error rate."""
        error_rates_LH = self.compute_error_rates(fables)
        return divmod(int(error_rates_LH.argmin()), error_rates_LH.size(1))

    def compute_error_rates(self, fables: Sequence[FableSentencePair]) -> Tensor:
        """Return the alignment error rate of each layer and head, [L, H], in percent."""
        correct_LH = predicted_LH = torch.zeros((), dtype=torch.float64)
        for fable, weights_LHTS in self._iterate_weights(fables):
            predicted_LHVX, gold_VX = self._align_gold_words(fable, weights_LHTS)
            correct_LH = correct_LH + (predicted_LHVX & gold_VX).sum((-2, -1))
            predicted_LH = predicted_LH + predicted_LHVX.sum((-2, -1))
        gold = sum(len(fable.alignment) for fable in fables)
        return 100 * (1 - 2 * correct_LH / (predicted_LH + gold))

    def _iterate_weights(
        self, fables: Sequence[FableSentencePair]
    ) -> Iterator[tuple[FableSentencePair, Tensor]]:
        """Yield each fable with the weights of all heads."""
        source_ids = self.tokenizers.source.encode_batch([fable.source for fable in fables])
        targets = self.tokenizers.target.encode_batch([fable.target for fable in fables])
        sources = [add_special_tokens(ids, self.special_tokens) for ids in source_ids]
        lengths = [max(len(s), len(t)) + 1 for s, t in zip(sources, targets, strict=True)]
        for indices in batch_by_length(lengths, MAX_BATCH_TOKENS):
            weights_LBHTS = self._compute_weights(
                [sources[i] for i in indices], [targets[i] for i in indices]
            )
            for index, weights_LHTS in zip(indices, weights_LBHTS.unbind(1), strict=True):
                own_LHTS = weights_LHTS[:, :, : len(targets[index]), : len(sources[index])]
                yield fables[index], own_LHTS

    @torch.inference_mode()
    def _compute_weights(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> Tensor:
        """Return the weights of cross-attention, [L, B, H, T, S]; step t predicts token t."""
        pad_id = self.model.encoder.pad_id
        recorder = AttentionRecorder(lambda site: site.kind == "cross")
        inputs = [[self.special_tokens.decoder_start_id, *target] for target in targets]
        self.model(pad_sequences(sources, pad_id), pad_sequences(inputs, pad_id), recorder)
        weights = recorder.weights_BHTS
        return torch.stack([weights[layer] for layer in sorted(weights)])

    def _align_gold_words(
        self, fable: FableSentencePair, weights_LHTS: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return which words are linked in the alignment of each head, and in the gold alignment.

        The words are those of the gold alignment. A link between longer words links all of their
        parts.
        """
        source_ids = self.tokenizers.source.encode(fable.source)
        target_ids = self.tokenizers.target.encode(fable.target)
        start = 0 if self.special_tokens.source_bos_id is None else 1
        alignment = align_words(
            self.tokenizers,
            (fable.source, source_ids),
            (fable.target, target_ids),
            weights_LHTS[..., start : start + len(source_ids)],
        )
        overlaps_VU = _match_gold_words(fable.target, alignment.target_words)
        overlaps_XW = _match_gold_words(fable.source, alignment.source_words)
        predicted_LHVX = overlaps_VU @ alignment.is_link_UW.float() @ overlaps_XW.T > 0
        gold_VX = torch.zeros(predicted_LHVX.shape[-2:], dtype=torch.bool)
        for source_index, target_index in fable.alignment:
            gold_VX[target_index, source_index] = True
        return predicted_LHVX, gold_VX


def with_best_alignment_head(bundle: Bundle, fables: Sequence[FableSentencePair]) -> Bundle:
    """Return a model whose translators align words by the head that is best on these fables."""
    layer, head = HeadAlignmentScorer.from_bundle(bundle).find_best_head(fables)
    config = AlignmentConfig(layer=layer, heads=(head,)).model_dump(mode="json")
    provenance = bundle.provenance.replace(notes={"alignment": config})  # other notes are kept
    return replace(bundle, provenance=provenance)


def _match_gold_words(text: str, words: Sequence[Offsets]) -> Tensor:
    """Return 1 for each word of the gold alignment and each other word that overlap, else 0."""
    gold_words = [match.span() for match in WORD_PATTERN.finditer(text)]
    overlaps = [[float(a < end and b > start) for a, b in words] for start, end in gold_words]
    return torch.tensor(overlaps)
