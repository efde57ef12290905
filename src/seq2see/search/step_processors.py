"""Step processors, which change the log-probabilities of a step before candidates are selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2see.search.config import Phrase
from seq2see.search.hypotheses import Beam

# B rows, K beams, V vocabulary, E output tokens, S inputs, P phrases of an input,
# L tokens of a phrase, W windows, N matches

PHRASE_PAD = -1
"""Pads tensors of phrases; no token has this id."""


class StepProcessor:
    """Base class of step processors.

    A processor forbids tokens (−∞) or lowers their scores. No score may exceed the log-probability
    of the model: stopping criteria rely on this. It has no state, because hypotheses are reordered:
    the beam contains all that it needs of the hypotheses, and `beam.input_index_B` is the index of
    the inputs.
    """

    def is_active(self, length: int) -> bool:  # noqa: ARG002
        """Return whether `process` may change scores when `length` tokens have been output."""
        return True

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:
        """Change `step_scores_BKV` in place; `model_log_probs_BKV` must not be changed."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class MinLength(StepProcessor):
    """Forbids the end symbol before the minimum length."""

    min_lengths_S: Tensor
    eos: int

    def is_active(self, length: int) -> bool:
        """Return whether a translation of any input would be too short now."""
        return length + 1 < int(self.min_lengths_S.max())

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Forbid the end symbol where the length, including it, is below the minimum."""
        is_early_B1 = (beam.length + 1 < self.min_lengths_S[beam.input_index_B])[:, None]
        step_scores_BKV[:, :, self.eos].masked_fill_(is_early_B1, -torch.inf)


@dataclass(frozen=True, slots=True)
class RepetitionPenalty(StepProcessor):
    """Multiplies the log-probability of tokens that the hypothesis already contains by `factor`."""

    factor: float

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Multiply once, regardless of the number of occurrences."""
        emitted_BKE = beam.emitted_BKE
        penalized_BKE = step_scores_BKV.gather(2, emitted_BKE) * self.factor
        step_scores_BKV.scatter_(2, emitted_BKE, penalized_BKE)


@dataclass(frozen=True, slots=True)
class NoRepeatNgram(StepProcessor):
    """Forbids repeated n-grams of size `n`."""

    n: int

    def is_active(self, length: int) -> bool:
        """Return whether there is an n-gram that the next token could repeat."""
        return length >= self.n

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Forbid each token that followed an earlier occurrence of the last n − 1 tokens."""
        emitted_BKE, overlap = beam.emitted_BKE, self.n - 1
        windows_BKWL = emitted_BKE.unfold(2, self.n, 1)
        tail_BK1L = emitted_BKE[:, :, None, emitted_BKE.size(2) - overlap :]
        is_match_BKW = (windows_BKWL[..., :overlap] == tail_BK1L).all(-1)
        mask_tokens(step_scores_BKV, is_match_BKW, windows_BKWL[..., -1])


@dataclass(frozen=True, slots=True)
class ForbiddenPhrases(StepProcessor):
    """Forbids phrases. Of a phrase with several tokens only the last one is forbidden, after the
    others."""

    phrases_SPL: Tensor
    """Right-aligned; padded on the left with `PHRASE_PAD`."""

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Forbid the last token of each phrase whose other tokens were just output."""
        phrases_B1PL = self.phrases_SPL[beam.input_index_B][:, None]
        # Padded on the left by an id that no phrase contains, for phrases longer than the output.
        overlap = phrases_B1PL.size(3) - 1
        padded_BKE = torch.nn.functional.pad(beam.emitted_BKE, (overlap, 0), value=PHRASE_PAD - 1)
        tail_BK1L = padded_BKE[:, :, None, padded_BKE.size(2) - overlap :]
        heads_B1PL, last_B1P = phrases_B1PL[..., :-1], phrases_B1PL[..., -1]
        is_match_BKP = ((heads_B1PL == tail_BK1L) | (heads_B1PL == PHRASE_PAD)).all(-1)
        is_match_BKP = is_match_BKP & (last_B1P != PHRASE_PAD)
        mask_tokens(step_scores_BKV, is_match_BKP, last_B1P.expand_as(is_match_BKP))


@dataclass(frozen=True, slots=True)
class ForcedPrefix(StepProcessor):
    """Forces the first tokens of each translation, regardless of the other processors."""

    prefixes_SL: Tensor
    """Padded with `PHRASE_PAD`."""

    @classmethod
    def from_prefixes(cls, prefixes: Sequence[Phrase], device: torch.device) -> ForcedPrefix:
        """Create the processor from the prefix of each input."""
        return cls(pad_phrases([[prefix] for prefix in prefixes], device)[:, 0])

    def is_active(self, length: int) -> bool:
        """Return whether any prefix is longer than `length`."""
        return length < self.prefixes_SL.size(1)

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:
        """Forbid all tokens except that of the prefix, which gets the model's log-probability."""
        tokens_B = self.prefixes_SL[beam.input_index_B, beam.length]
        rows_N = (tokens_B != PHRASE_PAD).nonzero().flatten()
        tokens_N = tokens_B[rows_N]
        log_probs_NK = model_log_probs_BKV[rows_N, :, tokens_N]
        step_scores_BKV[rows_N] = -torch.inf
        step_scores_BKV[rows_N, :, tokens_N] = log_probs_NK


def mask_tokens(step_scores_BKV: Tensor, masked_BKP: Tensor, tokens_BKP: Tensor) -> None:
    """Set the scores of the tokens where `masked_BKP` is True to −∞."""
    rows_N, beams_N, phrases_N = masked_BKP.nonzero(as_tuple=True)
    step_scores_BKV[rows_N, beams_N, tokens_BKP[rows_N, beams_N, phrases_N]] = -torch.inf


def pad_phrases(
    phrases: Sequence[Sequence[Phrase]], device: torch.device, *, align_right: bool = False
) -> Tensor:
    """Return the phrases of each input, [S, P, L], padded with `PHRASE_PAD`."""
    max_phrases = max(len(of_input) for of_input in phrases)
    max_length = max((len(phrase) for of_input in phrases for phrase in of_input), default=0)
    result = torch.full((len(phrases), max_phrases, max_length), PHRASE_PAD)
    for i, of_input in enumerate(phrases):
        for j, phrase in enumerate(of_input):
            start = max_length - len(phrase) if align_right else 0
            result[i, j, start : start + len(phrase)] = torch.tensor(phrase)
    return result.to(device)
