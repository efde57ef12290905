"""Estimates the cost of a request before it starts, in token-steps and in bytes.

A token-step is one decoder step of one hypothesis. The estimates are upper bounds of the length: a
model may never end a translation. They depend only on the request and on the size of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from seq2see.explain.source_attribution import (
    INITIAL_SEGMENTS,
    MAX_BATCH_LOGITS,
    QUADRATURE_POINTS,
)
from seq2see.explain.trace_builder import TraceOptions
from seq2see.model import ModelConfig
from seq2see.search import SearchConfig
from seq2see.serve.errors import RequestTooExpensive

_CONSTRAINT_OPERATIONS_PER_STEP = 1_000_000
"""Comparisons of tokens with required phrases that take as long as a token-step."""
_NODE_BYTES = 3_000
"""Bytes of the objects of a recorded hypothesis per decoder layer, in addition to its values."""
_JSON_BYTES = 12
"""Bytes per value of a trace in memory, in all of its forms: tensor, array, base64, JSON."""

_LOGIT_BYTES = 12
"""Bytes per logit of a batch of gradients: logits, log-probabilities and a gradient."""


@dataclass(frozen=True, slots=True)
class SearchCost:
    """Cost of the search for the translation of one sentence."""

    num_tokens: int
    """Tokens of the source and of the prefix, and the steps of the constraints."""
    max_steps: int
    """Largest number of token-steps."""

    @classmethod
    def estimate(
        cls,
        source_tokens: int,
        prefix_tokens: int,
        phrase_lengths: Sequence[int],
        search: SearchConfig,
    ) -> SearchCost:
        """Return the cost of a sentence.

        Args:
            source_tokens: Tokens of the source, without the end token.
            prefix_tokens: Tokens that the translation must start with.
            phrase_lengths: Tokens of each phrase that the translation must contain.
            search: Settings of the search.
        """
        beams = search.beam_size
        length = max(search.length.max_target_length(source_tokens + 1), prefix_tokens + 1)
        num_phrases = len(phrase_lengths)
        # The tensors of all candidates have all phrases, padded to the longest, at each offset.
        candidates = beams * (beams + 2 + num_phrases) if phrase_lengths else 0
        operations = candidates * length * num_phrases * max(phrase_lengths, default=0)
        constraint_steps = length * operations // _CONSTRAINT_OPERATIONS_PER_STEP
        num_tokens = source_tokens + 1 + prefix_tokens + constraint_steps // max(beams, 1)
        return cls(num_tokens, beams * length + constraint_steps)


class SearchCostEstimator:
    """Estimates the costs of sentences with the same options."""

    def __init__(
        self,
        count_tokens: Callable[[str], int],
        search: SearchConfig,
        glossary: Mapping[str, str],
    ) -> None:
        self._count_tokens, self._search = count_tokens, search
        self._phrases = [(term.casefold(), count_tokens(text)) for term, text in glossary.items()]
        self._prefix_tokens: dict[str, int] = {"": 0}

    def estimate(self, text: str, source_tokens: int, prefix: str) -> SearchCost:
        """Return the cost of a sentence with its prefix."""
        if prefix not in self._prefix_tokens:
            self._prefix_tokens[prefix] = self._count_tokens(prefix)
        folded = text.casefold() if self._phrases else ""
        phrase_lengths = [length for term, length in self._phrases if term in folded]
        prefix_tokens = self._prefix_tokens[prefix]
        return SearchCost.estimate(source_tokens, prefix_tokens, phrase_lengths, self._search)


def check_search_cost(costs: Iterable[SearchCost], search: SearchConfig, limit: int) -> None:
    """Raise RequestTooExpensive if searches may need more token-steps than the limit."""
    steps = [cost.max_steps for cost in costs]
    if sum(steps) > limit:
        raise RequestTooExpensive(
            f"the request needs up to {sum(steps):,} token-steps for {len(steps):,} sentences with "
            f"beam size {search.beam_size}, but at most {limit:,} are allowed: send fewer texts, "
            "a shorter prefix or glossary, or a smaller beam size",
            limit,
        )


@dataclass(frozen=True, slots=True)
class TraceCost:
    """Cost of a trace."""

    num_bytes: int
    """Largest size in memory."""
    max_steps: int
    """Largest number of token-steps, forward or backward, if attributions converge early."""

    @classmethod
    def estimate(
        cls,
        config: ModelConfig,
        source_tokens: int,
        target_tokens: int | None,
        search: SearchConfig,
        options: TraceOptions,
    ) -> TraceCost:
        """Return the cost of the trace of a sentence.

        Args:
            config: Config of the model.
            source_tokens: Tokens of the source, without the end token.
            target_tokens: Tokens of a translation to force, None for a search.
            search: Settings of the search.
            options: Contents of the trace.
        """
        source, beams = source_tokens + 1, search.beam_size
        target = search.length.max_target_length(source)
        if target_tokens is not None:
            target, beams = target_tokens + 1, 1
        names = options.layers if isinstance(options.layers, tuple) else ()
        encoder, decoder = config.encoder_layers, config.decoder_layers
        num_detailed = {"none": 0, "last": 2, "all": encoder + decoder}.get(
            str(options.layers), len(names)
        )
        share = min(1.0, num_detailed / (encoder + decoder))
        # Weights and masks, and in detailed layers scores; queries, keys and values.
        keys = config.heads * (1.25 + share)
        node_values = decoder * (keys * (target / 2 + source) + config.d_model * (1 + 3 * share))
        recorded = beams * target * (4 * node_values + decoder * _NODE_BYTES)
        maps = keys * (encoder * source**2 + decoder * (target**2 + target * source))
        steps = beams * target
        gradients = 0
        for method in options.attributions:
            if method == "occlusion":
                steps += source * target
            elif method in {"gradient_x_input", "integrated_gradients"}:
                points = INITIAL_SEGMENTS * QUADRATURE_POINTS if "integrated" in method else 1
                steps += 2 * points * target * (source + target)
                logits = QUADRATURE_POINTS * target * config.output_vocab_size
                gradients = _LOGIT_BYTES * max(logits, MAX_BATCH_LOGITS)
        return cls(math.ceil(recorded + _JSON_BYTES * maps + gradients), steps)

    def check(self, max_bytes: int, max_steps: int) -> None:
        """Raise RequestTooExpensive if the cost exceeds a limit."""
        for number, limit, unit in (
            (self.num_bytes, max_bytes, "bytes"),
            (self.max_steps, max_steps, "token-steps"),
        ):
            if number > limit:
                raise RequestTooExpensive(
                    f"the trace needs up to {number:,} {unit}, but at most {limit:,} are allowed: "
                    "send a shorter text, or ask for a smaller beam size, fewer layers or fewer "
                    "attributions",
                    limit,
                )
