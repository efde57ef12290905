"""A model with its tokenizers, whose translations are explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seq2see.engines.batching import add_special_tokens
from seq2see.engines.loading import load_torch_engine
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError
from seq2see.explain.interventions import Intervention, copy_model_with_interventions
from seq2see.model import NULL_RECORDER, Transformer
from seq2see.search import (
    Hypothesis,
    LengthConfig,
    SearchConfig,
    SentenceSearchInput,
    StepProcessor,
)
from seq2see.search.step_processors import ForcedPrefix
from seq2see.text import Tokenizer
from seq2see.text.sentence_splitting import count_sentences
from seq2see.translator import Translator

if TYPE_CHECKING:
    from seq2see.explain.trace_builder import TraceRecorder

# B batch, S source tokens

SPACE_MARKER = "▁"
"""SentencePiece's mark for a space."""


def display_token(token_id: int, tokenizer: Tokenizer) -> str:
    """Return a token as text for display: without the space marker, special tokens in brackets."""
    ids = tokenizer.special_ids
    names = {ids.unk: "⟨unk⟩", ids.pad: "⟨pad⟩", ids.bos: "⟨start⟩", ids.eos: "⟨end⟩"}
    piece = tokenizer.pieces[token_id]
    return names.get(token_id) or piece.replace(SPACE_MARKER, " ").strip() or SPACE_MARKER


class ExplainedModel:
    """A model in the torch engine, with the tokenizers and settings of a translator.

    Args:
        translator: With another engine than torch, its model is loaded again.
        model: Model to use instead of that of the translator.

    Raises:
        InputError: If the translator has an ensemble.
    """

    def __init__(self, translator: Translator, model: Transformer | None = None) -> None:
        engine = translator.engine
        if not isinstance(engine, TorchEngine):
            engine = load_torch_engine(translator.bundle)
        if len(engine.models) > 1:
            raise InputError("an ensemble cannot be explained: load one of its models")
        self.model = model or engine.model
        self.special_tokens = engine.special_tokens
        # It does not wait for batches of the translator.
        self.engine = TorchEngine(
            self.model, engine.special_tokens, engine.alignment, engine.stop_rule
        )
        self.translator = copy(translator)
        self.translator.engine = self.engine
        self.tokenizers = translator.tokenizers
        self.languages = translator.languages

    def with_interventions(self, interventions: Sequence[Intervention]) -> ExplainedModel:
        """Return a copy with a patched model. Without interventions, attention runs unfused."""
        patched = copy_model_with_interventions(self.model, interventions)
        return ExplainedModel(self.translator, patched)

    def check_sentences(self, text: str) -> None:
        """Raise InputError if a text has more sentences than the training lines of the model."""
        number = count_sentences(text, self.languages[0])
        allowed = self.translator.max_sentences_per_line
        if number > allowed:
            raise InputError(
                f"the text must have at most {allowed:,} sentence{'s' if allowed > 1 else ''} "
                f"to be explained, but has {number:,}: enter one sentence"
            )

    def encode_source(self, text: str) -> list[int]:
        """Return the token ids of a source text, without special tokens.

        Raises:
            InputError: If the text has no tokens, or more than the model accepts.
        """
        ids, max_tokens = self.tokenizers.source.encode(text), self.translator.max_tokens
        if not ids:
            raise InputError("the sentence must contain text, but is empty")
        if len(ids) > max_tokens:
            raise InputError(
                f"the text must have at most {max_tokens} tokens to be explained, "
                f"but has {len(ids)}: enter one sentence"
            )
        return ids

    def build_source_BS(self, ids: Sequence[int]) -> Tensor:
        """Return the source with special tokens as a batch of one."""
        return torch.tensor(
            [add_special_tokens(ids, self.special_tokens)], device=self.engine.device
        )

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of translations, each with the end token."""
        ids = self.tokenizers.target.encode_batch(list(texts))
        return [[*sentence, self.special_tokens.target_eos_id] for sentence in ids]

    def display_target_token(self, token_id: int) -> tuple[str, str]:
        """Return the piece of a target token, and its text for display."""
        tokenizer = self.tokenizers.target
        is_eos = token_id == self.special_tokens.target_eos_id
        text = "⟨end⟩" if is_eos else display_token(token_id, tokenizer)
        return tokenizer.pieces[token_id], text

    def search(
        self,
        ids: Sequence[int],
        config: SearchConfig,
        *,
        prefix: Sequence[int] = (),
        forced_tokens: Sequence[int] = (),
        recorder: TraceRecorder | None = None,
    ) -> Hypothesis:
        """Return the best hypothesis.

        Args:
            ids: Source ids without special tokens.
            config: Search configuration.
            prefix: Ids that the translation must start with.
            forced_tokens: All ids of the translation including the end token (forced decoding).
            recorder: Records the search.

        Raises:
            InputError: If no translation satisfies the prefix and the length limits.
        """
        processors: Callable[..., list[StepProcessor]] | None = None
        if forced_tokens:  # a greedy search of exactly this length with the same length penalty
            length = len(forced_tokens)
            limits = LengthConfig(max_ratio=0.0, max_extra=length, max_length=length)
            config = SearchConfig(beam_size=1, length_penalty=config.length_penalty, length=limits)
            processors = lambda _, device: [  # noqa: E731
                ForcedPrefix.from_prefixes([tuple(forced_tokens)], device)
            ]
        source_ids = add_special_tokens(ids, self.special_tokens)
        (batch,) = self.engine.search(
            [SentenceSearchInput(source_ids, prefix=tuple(prefix))],
            config,
            processors,
            recorder,
            recorder or NULL_RECORDER,
        )
        (hypotheses,) = batch.hypotheses
        if not hypotheses or len(hypotheses[0].tokens) < len(forced_tokens):
            raise InputError("no translation satisfies the forced prefix and the length limits")
        return hypotheses[0]
