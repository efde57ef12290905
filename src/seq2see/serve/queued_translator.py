"""Translators whose work goes through the queue, and pivot translation with two of them.

They translate blocks like a `Translator`. Documents, HTML and plain texts therefore share the same
batches, and a pivot route can be used like a single model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
    options_key: str
    """The options as JSON, because the options themselves cannot be hashed."""
    options: TranslationOptions = field(compare=False)

    def run(self, items: Sequence[SegmentRequest]) -> Sequence[Translation]:
        """Translate segments."""
        return self.translator.translate_segments(items, self.options)


@dataclass(frozen=True, slots=True)
class QueuedRequestTranslator:
    """Translates with one model through the queue, for one request.

    The thread of the request tokenizes the blocks; a worker translates their segments.
    """

    translator: Translator
    queue: WorkQueue
    context: RequestContext
    retry_when_full: bool = False
    """Whether to wait, up to the deadline, if the queue is full."""
    on_error: ErrorCallback = lambda _: None
    """Called with the exception of each segment on which the engine failed."""
    token_weight: TokenWeightFunction = lambda _: 1.0

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.translator.languages

    @property
    def max_sentences_per_line(self) -> int:
        """Maximum number of sentences of a line that is translated at once by default."""
        return self.translator.max_sentences_per_line

    def translate_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        """Translate blocks in order. A block that fails has an error in its translation."""
        window = _WINDOW_BLOCKS if self.retry_when_full else max(len(blocks), 1)
        windows = (blocks[start : start + window] for start in range(0, len(blocks), window))
        return [each for some in windows for each in self._translate_window(some, options)]

    def _translate_window(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        segmented = self.translator.split_blocks(blocks, options)
        requests = self.translator.build_requests(segmented)
        weight = self.token_weight(options.search.beam_size)
        costs = [math.ceil(weight * (len(each.segment.ids) + 1)) for each in requests]
        task = SegmentTask(self.translator, options.model_dump_json(), options)
        results = self._submit_with_retries(task, requests, costs)
        return self.translator.merge_segments(segmented, list(map(self._to_translation, results)))

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


class RouteTranslator:
    """Translates blocks with one or more models in sequence."""

    def __init__(self, translators: Sequence[QueuedRequestTranslator]) -> None:
        self._translators = translators

    @property
    def languages(self) -> tuple[str, str]:
        """Source language of the first model and target language of the last one."""
        return self._translators[0].languages[0], self._translators[-1].languages[1]

    @property
    def max_sentences_per_line(self) -> int:
        """Maximum number of sentences of a line that all models translate at once by default."""
        return min(translator.max_sentences_per_line for translator in self._translators)

    def translate_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        """Translate blocks in order through all pivot languages.

        Raises:
            DirectModelRequired: A glossary is given, and there is a pivot language.
        """
        if options.glossary and len(self._translators) > 1:
            raise DirectModelRequired(
                "a glossary needs a direct model, but this language pair uses a pivot language"
            )
        pivot_options = TranslationOptions(
            alignment=options.alignment, split=options.split
        ).with_settings({"beam_size": options.search.beam_size})
        *pivots, last = self._translators
        translations: list[Translation] = []
        texts = [block.text for block in blocks]
        for translator in pivots:
            results = translator.translate_blocks([Block(text) for text in texts], pivot_options)
            translations = list(map(_combine, translations, results)) if translations else results
            texts = [translation.text for translation in results]
        last_blocks = [Block(text, block.prefix) for text, block in zip(texts, blocks, strict=True)]
        results = last.translate_blocks(last_blocks, options)
        return list(map(_combine, translations, results)) if translations else results


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
