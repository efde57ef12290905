"""Settings of a search, and its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from seq2see.config import Config
from seq2see.errors import Problem

DEFAULT_BEAM_SIZE = 5
StopRule = Literal["exact", "beam_full"]


class LengthConfig(Config):
    """Limits of the output length. All lengths, of source and target, include the end symbol."""

    min_ratio: float = Field(default=0.0, ge=0, le=1000)
    """Minimum number of target tokens per source token."""
    max_ratio: float = Field(default=2.0, ge=0, le=1000)
    """Maximum number of target tokens per source token; `max_extra` is added."""
    max_extra: int = Field(default=20, ge=1)
    """Number of tokens that a target may have in addition to `max_ratio` · source length."""
    max_length: int = Field(default=512, ge=1)
    """Maximum number of target tokens for any source. A translation that reaches a limit is cut and
    marked as such."""

    def min_target_length(self, source_length: int) -> int:
        """Return the minimum length of a translation, which is at most its maximum length."""
        return min(int(self.min_ratio * source_length), self.max_target_length(source_length))

    def max_target_length(self, source_length: int) -> int:
        """Return the maximum length of a translation."""
        return min(int(self.max_ratio * source_length) + self.max_extra, self.max_length)


class SamplingConfig(Config):
    """Sample each token instead of choosing the best."""

    temperature: float = Field(default=1.0, ge=1e-6)
    """Divides the log-probabilities. Values below 1 sharpen the distribution."""
    top_k: int | None = Field(default=None, ge=1)
    """Sample from the `top_k` most likely tokens. By default all tokens."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample from the smallest set of most likely tokens whose probabilities sum up to this."""
    seed: int = 0
    """The same seed, source and model give the same samples, regardless of the other lines."""


class SearchConfig(Config):
    """The search for a translation."""

    beam_size: int = Field(default=DEFAULT_BEAM_SIZE, ge=1, le=1000)
    """Number of hypotheses per sentence at each step. 1 is greedy search. Sampling has no beam."""
    n_best: int = Field(default=1, ge=1)
    """Number of translations per sentence: the best ones, or with sampling that many samples."""
    length_penalty: float = Field(default=1.0, ge=0, le=10)
    """α: the score is the log-probability divided by length^α. 0 favors short translations; 1 is
    the mean log-probability of the tokens."""
    coverage_penalty: float = Field(default=0.0, ge=0)
    """β: β·|log c| is subtracted from the score for each source token whose attention weights sum
    up to c below 1."""
    length: LengthConfig = LengthConfig()
    stop_rule: StopRule | None = None
    """When the search for a sentence ends. `exact`: no live hypothesis can still enter the n-best
    list. `beam_full`: `beam_size` hypotheses have finished, as in CTranslate2 (without penalties:
    the most likely hypothesis has finished); faster, but may miss better translations. By default
    the rule that is stored with the model, otherwise `exact`."""
    repetition_penalty: float = Field(default=1.0, ge=1)
    """Factor of the log-probability of tokens that the hypothesis already contains."""
    no_repeat_ngram_size: int = Field(default=0, ge=0)
    """Forbid repeated n-grams of this size. 0 (default) disables the check."""
    sampling: SamplingConfig | None = None
    num_beam_groups: int = Field(default=1, ge=1)
    """Diverse beam search: number of groups that the beam is divided into. Tokens that earlier
    groups chose are penalized."""
    diversity_penalty: float = Field(default=0.0, ge=0)
    """Penalty of a token for each time that an earlier group chose it in the same step."""

    @property
    def searches_per_input(self) -> int:
        """The number of independent searches for each sentence: the samples or the beam groups."""
        return self.n_best if self.sampling else self.num_beam_groups

    @property
    def beams_per_search(self) -> int:
        """The number of hypotheses that each search keeps."""
        return 1 if self.sampling else self.beam_size // self.num_beam_groups

    @property
    def n_best_per_search(self) -> int:
        """The number of finished hypotheses that each search returns."""
        return min(self.n_best, self.beams_per_search)

    def conflicts(self) -> Iterator[Problem]:
        """Yield a message for each invalid combination of settings."""
        if self.sampling:
            yield from self._sampling_conflicts()
        elif self.n_best > self.beam_size:
            yield Problem(
                "n_best",
                f"must be at most beam_size = {self.beam_size}, but is {self.n_best} instead",
            )
        if self.beam_size % self.num_beam_groups:
            yield Problem(
                "num_beam_groups",
                f"must divide beam_size = {self.beam_size}, but is {self.num_beam_groups} instead",
            )
        if self.diversity_penalty and self.num_beam_groups == 1:
            yield Problem(
                "diversity_penalty",
                f"must be 0 if num_beam_groups is 1, but is {self.diversity_penalty} instead",
            )
        if self.num_beam_groups > 1 and not self.diversity_penalty:
            yield Problem(
                "diversity_penalty",
                "must be above 0 if num_beam_groups is above 1, "
                "otherwise all groups find the same translations",
            )

    def _sampling_conflicts(self) -> Iterator[Problem]:
        if self.beam_size not in {1, DEFAULT_BEAM_SIZE}:
            yield Problem(
                "beam_size",
                "must be left out with sampling, which has no beam, "
                f"but is {self.beam_size} instead",
            )
        if self.num_beam_groups > 1:
            yield Problem(
                "num_beam_groups", f"must be 1 with sampling, but is {self.num_beam_groups} instead"
            )


Phrase = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SentenceSearchInput:
    """One sentence to translate, with the constraints on its translation."""

    source_ids: Sequence[int]
    """Ids of the source with its special tokens."""
    prefix: Phrase = ()
    """The first tokens of the translation. It overrides all other constraints; the translation may
    always be longer."""
    forbidden: tuple[Phrase, ...] = ()
    """Phrases of one or more tokens that the translation must not contain."""
    required: tuple[Phrase, ...] = ()
    """Phrases that the translation must contain at least once. If the length does not suffice for
    all, the first ones have priority."""

    def max_target_length(self, length: LengthConfig) -> int:
        """Return the maximum length of the translation, which is longer than the prefix."""
        return max(length.max_target_length(len(self.source_ids)), len(self.prefix) + 1)
