"""Settings of a search, and the sentences that it searches for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from pydantic import Field

from seq2see.config import Config
from seq2see.errors import InputError

DEFAULT_BEAM_SIZE = 5


StopRule = Literal["exact", "beam_full"]


class LengthConfig(Config):
    """How long a translation may be. Every length counts the stop symbol, on both sides."""

    min_ratio: float = Field(default=0.0, ge=0, le=1000)
    """At least so many tokens for each of the source's."""
    max_ratio: float = Field(default=2.0, ge=0, le=1000)
    """At most so many tokens for each of the source's, and `max_extra` more."""
    max_extra: int = Field(default=20, ge=1)
    """What even the shortest source may grow by."""
    max_length: int = Field(default=512, ge=1)
    """At most so many tokens, whatever the source. What reaches a limit is cut and says so."""

    def min_target_length(self, source_length: int) -> int:
        """Return the least length of a source's translation, never above its greatest."""
        return min(int(self.min_ratio * source_length), self.max_target_length(source_length))

    def max_target_length(self, source_length: int) -> int:
        """Return the greatest length of a source's translation."""
        return min(int(self.max_ratio * source_length) + self.max_extra, self.max_length)


class SamplingConfig(Config):
    """Draw each token instead of taking the best; the draws depend on the seed and the line."""

    temperature: float = Field(default=1.0, ge=1e-6)
    """Divides the log-probabilities: below 1 the likely gets likelier."""
    top_k: int | None = Field(default=None, ge=1)
    """Draw from the so many likeliest tokens."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Draw from the fewest likeliest tokens whose probabilities reach this sum."""
    seed: int = 0
    """The same seed, line and model give the same text, whatever else is translated beside it."""


class SearchConfig(Config):
    """One search."""

    beam_size: int = Field(default=DEFAULT_BEAM_SIZE, ge=1, le=1000)
    """Hypotheses kept at each step; 1 is greedy. Sampling keeps none."""
    n_best: int = Field(default=1, ge=1)
    """Translations of each sentence: the best, or with sampling so many draws in their order."""
    length_penalty: float = Field(default=1.0, ge=0, le=10)
    """α: the score is the log-probability divided by length^α. 0 favours the short, 1 is the mean
    of the tokens' log-probabilities."""
    coverage_penalty: float = Field(default=0.0, ge=0)
    """β: the score loses β·|log c| for each source token that got attention c below 1 in all."""
    length: LengthConfig = LengthConfig()
    stop_rule: StopRule | None = None
    """`exact`: when no hypothesis that is still alive could enter the n best. `beam_full`: once
    `beam_size` have ended, as ctranslate2 does (without penalties: once the likeliest has); faster,
    but a model that is sure of itself ends the wrong ones first. Left out: as the model's directory
    says, where training has measured that `beam_full` loses nothing; otherwise `exact`."""
    repetition_penalty: float = Field(default=1.0, ge=1)
    """Multiplies the log-probability of each token that the hypothesis has already."""
    no_repeat_ngram_size: int = Field(default=0, ge=0)
    """No so many tokens in a row twice; 0 allows all."""
    sampling: SamplingConfig | None = None
    num_beam_groups: int = Field(default=1, ge=1)
    """Diverse beam search: groups that share the beam, each turned away from what those before it
    chose."""
    diversity_penalty: float = Field(default=0.0, ge=0)
    """What a token costs for each time that an earlier group chose it in the same step."""

    @property
    def searches_per_input(self) -> int:
        """Searches that each sentence gets: the samples, or the groups."""
        return self.n_best if self.sampling else self.num_beam_groups

    @property
    def beams_per_search(self) -> int:
        """Hypotheses that one of them keeps."""
        return 1 if self.sampling else self.beam_size // self.num_beam_groups

    @property
    def n_best_per_search(self) -> int:
        """Finished hypotheses that one of them must bring home."""
        return min(self.n_best, self.beams_per_search)

    def conflicts(self) -> Iterator[str]:
        """Refuse combinations that would ask for nothing, or for two things at once."""
        if self.sampling:
            yield from self._sampling_conflicts()
        elif self.n_best > self.beam_size:
            yield (
                f"`n_best` must be at most beam_size = {self.beam_size}, "
                f"but is {self.n_best} instead"
            )
        if self.beam_size % self.num_beam_groups:
            yield (
                f"`num_beam_groups` must divide beam_size = {self.beam_size}, "
                f"but is {self.num_beam_groups} instead"
            )
        if self.diversity_penalty and self.num_beam_groups == 1:
            yield (
                "`diversity_penalty` must be 0 if num_beam_groups is 1, "
                f"but is {self.diversity_penalty} instead"
            )
        if self.num_beam_groups > 1 and not self.diversity_penalty:
            yield (
                "`diversity_penalty` must be above 0 if num_beam_groups is above 1, "
                "otherwise all groups find the same translations"
            )

    def _sampling_conflicts(self) -> Iterator[str]:
        if self.beam_size not in {1, DEFAULT_BEAM_SIZE}:
            yield (
                "`beam_size` must be left out with sampling, which keeps no beam, "
                f"but is {self.beam_size} instead"
            )
        if self.num_beam_groups > 1:
            yield (
                f"`num_beam_groups` must be 1 with sampling, but is {self.num_beam_groups} instead"
            )


Phrase = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SearchInput:
    """One sentence to translate, with what its translation must and must not hold."""

    source_length: int
    """Its tokens as the model reads them, the stop symbol included."""
    line_number: int = 0
    """Which line it is: sampling draws from the seed and this number."""
    prefix: Phrase = ()
    """How the translation starts. It stands above every other wish, and leaves room for more."""
    forbidden: tuple[Phrase, ...] = ()
    """What it must not hold; a phrase is one token or several in a row."""
    required: tuple[Phrase, ...] = ()
    """What it must hold, each at least once. The first come first where room is short."""

    def max_target_length(self, length: LengthConfig) -> int:
        """Return the greatest length of its translation: a prefix never fills it alone."""
        return max(length.max_target_length(self.source_length), len(self.prefix) + 1)

    def min_target_length(self, length: LengthConfig) -> int:
        """Return the least length of its translation."""
        return length.min_target_length(self.source_length)


def check_search_inputs(inputs: Sequence[SearchInput], special_ids: frozenset[int]) -> None:
    """Refuse what no translation could have: special ids inside, phrases without a token."""
    for index, source in enumerate(inputs):
        phrases = (*source.forbidden, *source.required)
        if not all(phrases):
            raise InputError(
                f"a phrase must have at least one token, but source {index} has one without"
            )
        taken = special_ids.intersection(chain(source.prefix, *source.required))
        if taken:
            raise InputError(
                f"`prefix` and `terms` must be text, "
                f"but source {index} has the special id {min(taken)} in one"
            )
