"""Which words translate which, as attention sees it: the best head, and AER against gold.

Each target word is linked to the source word that a head of cross-attention looks at most while the
word's pieces are predicted; the target is the gold one. Which head does it best is chosen on
sentences that are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from seq2see.bundle import Bundle, SpecialTokens
from seq2see.data.fables import Fable
from seq2see.data.fables.phrases import WORD_PATTERN
from seq2see.engines.batching import add_special_tokens, batch_by_length, pad_sequences
from seq2see.engines.torch_decoder import AlignmentConfig
from seq2see.model import AttentionListener, AttentionRecord, AttentionSite, StackName, Transformer
from seq2see.text import TokenizerPair
from seq2see.text.tokenizer import Offsets, find_piece_offsets, find_source_offsets

# B sentences, L layers of the decoder, H heads, T target tokens, S source tokens,
# U target words, W source words

MAX_BATCH_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class AlignmentScore:
    """Links that were found beside those that are right, in percent."""

    aer: float
    """The alignment error rate. All gold links are sure: 100 less the F-score of the links."""
    precision: float
    recall: float

    @classmethod
    def from_counts(cls, correct: float, predicted: float, gold: float) -> AlignmentScore:
        """Make it from the numbers of links."""
        return cls(
            100 * (1 - 2 * correct / max(1, predicted + gold)),
            100 * correct / max(1, predicted),
            100 * correct / max(1, gold),
        )


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """How well the best head aligns, and all heads of each layer together."""

    layer: int
    """From 0, from the bottom."""
    head: int
    score: AlignmentScore
    layer_scores: tuple[AlignmentScore, ...]
    """Of the mean of a layer's heads."""

    def to_json(self) -> dict[str, Any]:
        """Return it for machines."""
        return asdict(self)


class HeadAlignmentScorer:
    """Reads gold translations with a model, and scores what its heads look at."""

    def __init__(
        self, model: Transformer, tokenizers: TokenizerPair, special_tokens: SpecialTokens
    ) -> None:
        self._model = model
        self._tokenizers = tokenizers
        self._framing = special_tokens

    def build_report(
        self, fables: Sequence[Fable], head_selection_fables: Sequence[Fable]
    ) -> AlignmentReport:
        """Choose the best head by some sentences, and score it on others."""
        layer, head = self.find_best_head(head_selection_fables)
        scores = self.score_heads(fables)
        return AlignmentReport(
            layer, head, scores[layer][head], tuple(heads[-1] for heads in scores)
        )

    def find_best_head(self, fables: Sequence[Fable]) -> tuple[int, int]:
        """Return the layer and the head with the fewest errors on these sentences."""
        errors = {
            (layer, head): score.aer
            for layer, heads in enumerate(self.score_heads(fables))
            for head, score in enumerate(heads[:-1])
        }
        return min(errors, key=lambda place: errors[place])

    def score_heads(self, fables: Sequence[Fable]) -> list[list[AlignmentScore]]:
        """Return the score of each head, by layer; behind the heads that of their mean."""
        right_LH, found, gold = torch.zeros(()), 0, 0
        for fable, weights_LHTS in self._read(fables):
            words_LHUW, gold_UW = self._words(fable, weights_LHTS)
            links_LHU = words_LHUW.argmax(-1)
            hits_LHU = gold_UW.gather(1, links_LHU.flatten(0, 1).T).T.view_as(links_LHU)
            right_LH = right_LH + hits_LHU.sum(-1)
            found += len(gold_UW)
            gold += len(fable.alignment)
        return [
            [AlignmentScore.from_counts(n, found, gold) for n in row] for row in right_LH.tolist()
        ]

    def _read(self, fables: Sequence[Fable]) -> Iterator[tuple[Fable, Tensor]]:
        """Yield each fable with the weights of every head, and of their mean behind them."""
        sources = self._tokenizers.source.encode_batch([fable.source for fable in fables])
        targets = self._tokenizers.target.encode_batch([fable.target for fable in fables])
        rows = [add_special_tokens(ids, self._framing) for ids in sources]
        lengths = [max(len(row), len(ids)) + 1 for row, ids in zip(rows, targets, strict=True)]
        for places in batch_by_length(lengths, MAX_BATCH_TOKENS):
            heard = self._heard([rows[i] for i in places], [targets[i] for i in places])
            for place, weights_LHTS in zip(places, heard.unbind(1), strict=True):
                mean_L1TS = weights_LHTS.mean(1, keepdim=True)
                both_LHTS = torch.cat((weights_LHTS, mean_L1TS), dim=1)
                yield fables[place], both_LHTS[:, :, : len(targets[place]), : len(rows[place])]

    @torch.inference_mode()
    def _heard(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Tensor:
        """Return where each step looks, [L, B, H, T, S]; step t predicts token t."""
        pad = self._model.encoder.pad_id
        ears = _CrossEars()
        inputs = [[self._framing.decoder_start_id, *target] for target in targets]
        self._model(pad_sequences(sources, pad), pad_sequences(inputs, pad), ears)
        return torch.stack([ears.weights_BHTS[layer] for layer in sorted(ears.weights_BHTS)])

    def _words(self, fable: Fable, weights_LHTS: Tensor) -> tuple[Tensor, Tensor]:
        """Return what each target word gives each source word, and whether that is right."""
        tokenizers = self._tokenizers
        source = tokenizers.source.encode(fable.source)
        target = tokenizers.target.encode(fable.target)
        start = 0 if self._framing.source_bos_id is None else 1
        pieces_WS = _members(
            fable.source, find_source_offsets(tokenizers.source, source, fable.source)
        )
        pieces_UT = _members(
            fable.target, find_piece_offsets(tokenizers.target, target, fable.target)
        )
        weights_LHTS = weights_LHTS[..., start : start + len(source)]
        words_LHUW = pieces_UT @ weights_LHTS @ pieces_WS.T
        gold_UW = torch.zeros(words_LHUW.shape[-2:])
        for i, j in fable.alignment:
            gold_UW[j, i] = 1
        return words_LHUW, gold_UW


def evaluate_alignment(
    bundle: Bundle, fables: Sequence[Fable], head_selection_fables: Sequence[Fable]
) -> AlignmentReport:
    """Choose the best head of a model by some fables, and score it on others."""
    return HeadAlignmentScorer(
        bundle.build_model(), bundle.tokenizers, bundle.special_tokens
    ).build_report(fables, head_selection_fables)


def with_best_alignment_head(bundle: Bundle, fables: Sequence[Fable]) -> Bundle:
    """Return a model whose translators align by the head that is best on these sentences."""
    aligner = HeadAlignmentScorer(bundle.build_model(), bundle.tokenizers, bundle.special_tokens)
    layer, head = aligner.find_best_head(fables)
    chosen = AlignmentConfig(layer=layer, heads=(head,)).model_dump(mode="json")
    provenance = bundle.provenance.replace(notes={"alignment": chosen})  # beside the other notes
    return replace(bundle, provenance=provenance)


class _CrossEars:
    """Listens to every head of cross-attention."""

    def __init__(self) -> None:
        self.weights_BHTS: dict[int, Tensor] = {}

    def attention_listener(self, site: AttentionSite) -> AttentionListener | None:
        if site.kind != "cross":
            return None

        def take(record: AttentionRecord) -> None:
            self.weights_BHTS[site.layer] = record.weights_BHTS

        return take

    def layer_listener(self, stack: StackName, layer: int) -> None: ...


def _members(text: str, pieces: Sequence[Offsets]) -> Tensor:
    """Return which pieces share a character with which word, [words, pieces]."""
    words = [match.span() for match in WORD_PATTERN.finditer(text)]
    shared = [[float(a < end and b > start) for a, b in pieces] for start, end in words]
    return torch.tensor(shared)
