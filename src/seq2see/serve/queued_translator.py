"""A translator whose work goes through the queue, also through a pivot language.

It translates blocks like a `Translator`. Documents, HTML and plain texts therefore share the same
batches, and a pivot route can be used like a single model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seq2see.errors import Seq2SeeError
from seq2see.serve.errors import (
    ENGINE_FAILED_MESSAGE,
    DirectModelRequired,
    EngineError,
    Overloaded,
)
from seq2see.serve.work_queue import RequestContext, WorkItem, WorkQueue
from seq2see.translator import (
    AlignmentLink,
    Block,
    SegmentRequest,
    Translation,
    TranslationOptions,
    Translator,
)

_WINDOW_BLOCKS = 256
"""Blocks of a file that are in the queue at the same time."""

ErrorCallback = Callable[[BaseException], None]
TokenWeightFunction = Callable[[int], float]
"""Returns the cost of a token for a beam size."""


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """Translation of segments by one translator, which has split them, with the same options."""

    translator: Translator
    options: TranslationOptions

    def run(self, items: Sequence[SegmentRequest]) -> Sequence[Translation]:
        """Translate segments."""
        return self.translator.translate_segments(items, self.options)


@dataclass(frozen=True, slots=True)
class QueuedTranslator:
    """Translates with one or more models in sequence through the queue, for one request.

    The thread of the request tokenizes the blocks; a worker translates their segments.
    """

    translators: Sequence[Translator]
    queue: WorkQueue
    context: RequestContext
    retry_when_full: bool = False
    """Whether to wait, up to the deadline, if the queue is full."""
    on_error: ErrorCallback = lambda _: None
    """Called with the exception of each segment on which the engine failed."""
    token_weight: TokenWeightFunction = lambda _: 1.0

    @property
    def languages(self) -> tuple[str, str]:
        """Source language of the first model and target language of the last one."""
        return self.translators[0].languages[0], self.translators[-1].languages[1]

    @property
    def max_sentences_per_line(self) -> int:
        """Maximum number of sentences of a line that all models translate at once by default."""
        return min(translator.max_sentences_per_line for translator in self.translators)

    def translate_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        """Translate blocks in order. A block that fails has an error in its translation.

        Raises:
            DirectModelRequired: A glossary is given, and there is a pivot language.
        """
        *pivots, last = self.translators
        if options.glossary and pivots:
            raise DirectModelRequired(
                "a glossary needs a direct model, but this language pair uses a pivot language"
            )
        pivot_options = TranslationOptions(
            alignment=options.alignment, split=options.split
        ).with_settings({"beam_size": options.search.beam_size})
        translations: list[Translation] = []
        texts = [block.text for block in blocks]
        for translator in pivots:
            pivot_blocks = [Block(text) for text in texts]
            results = self.translate_with_model(translator, pivot_blocks, pivot_options)
            translations = list(map(_combine, translations, results)) if translations else results
            texts = [translation.text for translation in results]
        last_blocks = [Block(text, block.prefix) for text, block in zip(texts, blocks, strict=True)]
        results = self.translate_with_model(last, last_blocks, options)
        return list(map(_combine, translations, results)) if translations else results

    def translate_with_model(
        self, translator: Translator, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        """Translate blocks with one of the models."""
        size = _WINDOW_BLOCKS if self.retry_when_full else max(len(blocks), 1)
        weight = self.token_weight(options.search.beam_size)
        task = SegmentTask(translator, options)
        translations: list[Translation] = []
        for start in range(0, len(blocks), size):
            segmented = translator.split_blocks(blocks[start : start + size], options)
            requests = translator.build_requests(segmented)
            costs = [math.ceil(weight * (len(each.segment.ids) + 1)) for each in requests]
            results = self._submit_with_retries(task, requests, costs)
            translations += translator.merge_segments(
                segmented, [self._to_translation(result) for result in results]
            )
        return translations

    def _submit_with_retries(
        self, task: SegmentTask, requests: Sequence[SegmentRequest], costs: Sequence[int]
    ) -> list[Any]:
        """Submit work, also again while the queue is full, so that a started file is finished."""
        while True:
            try:
                return self.queue.submit(WorkItem(self.context, task, requests, costs))
            except Overloaded as error:
                pause = min(1.0, error.retry_after or 1.0)
                is_late = not self.context.is_active or self.context.seconds_left < pause
                if is_late or not self.retry_when_full:
                    raise
                time.sleep(pause)

    def _to_translation(self, result: Any) -> Translation:
        if isinstance(result, Translation):
            return result
        if isinstance(result, Seq2SeeError):
            return Translation("", 0.0, 0.0, error=str(result))
        self.on_error(result)
        code = EngineError.error_code
        return Translation("", 0.0, 0.0, error=ENGINE_FAILED_MESSAGE, error_code=code)


def _combine(first: Translation, second: Translation) -> Translation:
    """Return the pivot translation of a block from the translations of two models."""
    if first.error:
        return first
    flags = tuple(dict.fromkeys([*first.flags, *second.flags]))
    links = tuple(_compose_alignments(first.alignment, second.alignment))
    return replace(
        second,
        alternatives=tuple(_combine(first, other) for other in second.alternatives),
        alignment=links,
        flags=flags,
        unmet_constraints=(*first.unmet_constraints, *second.unmet_constraints),
        sentences=(),
    )


def _compose_alignments(
    first: Sequence[AlignmentLink], second: Sequence[AlignmentLink]
) -> Iterator[AlignmentLink]:
    """Yield links from source words to target words, joined at overlapping pivot words."""
    weights: dict[tuple[int, int, int, int], float] = {}
    for right in second:
        for left in first:
            if left.target_start < right.source_end and right.source_start < left.target_end:
                key = (left.source_start, left.source_end, right.target_start, right.target_end)
                weights[key] = weights.get(key, 0.0) + left.weight * right.weight
    order = sorted(weights.items(), key=lambda item: (item[0][2], -item[1], item[0][0]))
    yield from (AlignmentLink(*key, min(weight, 1.0)) for key, weight in order)
