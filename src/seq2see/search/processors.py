"""What may follow: each processor changes the log-probabilities of a step before the choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2see.search.config import Phrase
from seq2see.search.hypotheses import Beam

# B rows, K beams, V vocabulary, E emitted tokens, S sources, P phrases of a source,
# L tokens of a phrase, W windows, N findings

PHRASE_PAD = -1
"""Fills tables of phrases up; no token has this id."""


class StepProcessor:
    """Forbids tokens (−∞) or makes them dearer, never cheaper: stop rules rely on it.

    It keeps nothing from step to step, since hypotheses change places: all that it may know of
    them is in the beam, and `beam.sources_B` leads to what it knows of each source.
    """

    def is_active(self, length: int) -> bool:  # noqa: ARG002
        """Whether it has anything to say when hypotheses have emitted so many tokens."""
        return True

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:
        """Change `values` in place; `own` is what the model said, and stays."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class MinLength(StepProcessor):
    """No stop symbol before the least length."""

    min_lengths_S: Tensor
    eos: int

    def is_active(self, length: int) -> bool:
        """Say whether a stop symbol now would come too early for any source."""
        return length + 1 < int(self.min_lengths_S.max())

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Forbid it where a length that counts it would be too short."""
        early_B1 = (beam.length + 1 < self.min_lengths_S[beam.input_index_B])[:, None]
        step_scores_BKV[:, :, self.eos].masked_fill_(early_B1, -torch.inf)


@dataclass(frozen=True, slots=True)
class RepetitionPenalty(StepProcessor):
    """What was emitted once is dearer again."""

    factor: float

    def is_active(self, length: int) -> bool:
        """There must be something to repeat."""
        return length > 0

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Multiply once, however often a token was emitted."""
        emitted_BKE = beam.emitted_BKE
        dearer_BKE = step_scores_BKV.gather(2, emitted_BKE) * self.factor
        step_scores_BKV.scatter_(2, emitted_BKE, dearer_BKE)


@dataclass(frozen=True, slots=True)
class NoRepeatNgram(StepProcessor):
    """No n tokens in a row twice."""

    n: int

    def is_active(self, length: int) -> bool:
        """The next token can repeat an n-gram only if there is one."""
        return length >= self.n

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Find where the last n − 1 tokens stood before, and forbid what followed there."""
        emitted_BKE, overlap = beam.emitted_BKE, self.n - 1
        windows_BKWL = emitted_BKE.unfold(2, self.n, 1)
        tail_BK1L = emitted_BKE[:, :, None, emitted_BKE.size(2) - overlap :]
        again_BKW = (windows_BKWL[..., :overlap] == tail_BK1L).all(-1)
        mask_tokens(step_scores_BKV, again_BKW, windows_BKWL[..., -1])


@dataclass(frozen=True, slots=True)
class ForbiddenPhrases(StepProcessor):
    """Phrases that must not come up. A phrase of several tokens loses only its last one."""

    phrases_SPL: Tensor
    """Each at the end of its row, with `NO_TOKEN` in front."""

    @classmethod
    def from_phrases(
        cls, phrases: Sequence[Sequence[Phrase]], device: torch.device
    ) -> ForbiddenPhrases:
        """Make it from the phrases of each source."""
        turned = [[phrase[::-1] for phrase in source] for source in phrases]
        return cls(pad_phrases(turned, device).flip(2))

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Forbid the last token of each phrase whose others were just emitted."""
        phrases_B1PL = self.phrases_SPL[beam.input_index_B][:, None]
        # Tokens in front of the first one, which no phrase has, for phrases longer than the text.
        overlap = phrases_B1PL.size(3) - 1
        padded_BKE = torch.nn.functional.pad(beam.emitted_BKE, (overlap, 0), value=PHRASE_PAD - 1)
        tail_BK1L = padded_BKE[:, :, None, padded_BKE.size(2) - overlap :]
        heads_B1PL, last_B1P = phrases_B1PL[..., :-1], phrases_B1PL[..., -1]
        begun_BKP = ((heads_B1PL == tail_BK1L) | (heads_B1PL == PHRASE_PAD)).all(-1)
        mask_tokens(
            step_scores_BKV, begun_BKP & (last_B1P != PHRASE_PAD), last_B1P.expand_as(begun_BKP)
        )


@dataclass(frozen=True, slots=True)
class ForcedPrefix(StepProcessor):
    """How each translation starts, whatever the other processors say."""

    prefixes_SL: Tensor
    """Filled up with `NO_TOKEN`."""

    @classmethod
    def from_prefixes(cls, prefixes: Sequence[Phrase], device: torch.device) -> ForcedPrefix:
        """Make it from the prefix of each source."""
        return cls(pad_phrases([[prefix] for prefix in prefixes], device)[:, 0])

    def is_active(self, length: int) -> bool:
        """Say whether any prefix is as long."""
        return length < self.prefixes_SL.size(1)

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:
        """Leave nothing but the prefix's token, worth what the model thinks of it."""
        tokens_B = self.prefixes_SL[beam.input_index_B, beam.length]
        rows_N = (tokens_B != PHRASE_PAD).nonzero().flatten()
        tokens_N = tokens_B[rows_N]
        own_NK = model_log_probs_BKV[rows_N, :, tokens_N]
        step_scores_BKV[rows_N] = -torch.inf
        step_scores_BKV[rows_N, :, tokens_N] = own_NK


def mask_tokens(step_scores_BKV: Tensor, masked_BKP: Tensor, tokens_BKP: Tensor) -> None:
    """Write −∞ over the tokens that were found."""
    rows_N, beams_N, places_N = masked_BKP.nonzero(as_tuple=True)
    step_scores_BKV[rows_N, beams_N, tokens_BKP[rows_N, beams_N, places_N]] = -torch.inf


def pad_phrases(phrases: Sequence[Sequence[Phrase]], device: torch.device) -> Tensor:
    """Return the phrases of each source, [S, P, L], filled up behind with `NO_TOKEN`."""
    most = max(len(source) for source in phrases)
    longest = max((len(phrase) for source in phrases for phrase in source), default=0)
    result = torch.full((len(phrases), most, longest), PHRASE_PAD)
    for i, source in enumerate(phrases):
        for j, phrase in enumerate(source):
            result[i, j, : len(phrase)] = torch.tensor(phrase)
    return result.to(device)
