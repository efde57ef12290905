"""Translates the texts of a request: through the work queue, as HTML, and with partial results.

`QueuedTranslator` translates blocks like a `Translator`, also through a pivot language. Documents,
HTML and plain texts therefore share the same batches.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seq2see.documents import (
    DocumentLanguages,
    DocumentReport,
    ParsedDocument,
    TextUnitTranslator,
    UnitTranslation,
    parse_html,
)
from seq2see.errors import Seq2SeeError
from seq2see.search.hypotheses import StepRecord
from seq2see.serve.errors import (
    ENGINE_FAILED_MESSAGE,
    DirectModelRequired,
    EngineError,
    Overloaded,
)
from seq2see.serve.request_cost import SearchCost, SearchCostEstimator, check_search_cost
from seq2see.serve.work_queue import RequestContext, WorkItem, WorkQueue
from seq2see.translator import (
    AlignmentLink,
    Block,
    BlockTranslator,
    SourceSegment,
    SourceText,
    TextTranslator,
    Translation,
    TranslationFlag,
    TranslationOptions,
    Translator,
)
from seq2see.translator.text_translation import TranslatedPart

_WINDOW_BLOCKS = 256
"""Blocks of a file that are in the queue at the same time."""

PartialTextCallback = Callable[[str], None]
"""Called with the text so far. Earlier words may change, so it is the full text."""


@dataclass(frozen=True, slots=True)
class TextTranslationOptions:
    """How the texts of a request are translated."""

    translation_options: TranslationOptions
    is_html: bool = False
    prefixes: Mapping[int, str] = field(default_factory=dict)
    """Prefixes of the translations of sentences, by their offsets in the text."""

    def build_source(self, text: str) -> SourceText:
        """Return a plain text with its prefixes."""
        return SourceText(text, self.translation_options.prefix, self.prefixes)


def translate_texts(
    translator: BlockTranslator, texts: Sequence[str], options: TextTranslationOptions
) -> list[Translation]:
    """Translate texts in order."""
    if options.is_html:
        return _translate_pages(translator, texts, options.translation_options)
    text_translator = TextTranslator(translator, options.translation_options)
    return text_translator.translate([options.build_source(text) for text in texts])


def _translate_pages(
    translator: BlockTranslator, pages: Sequence[str], options: TranslationOptions
) -> list[Translation]:
    """Translate HTML fragments with their tags, also in each alternative.

    Score and log-probability of the results are 0.
    """
    documents = [parse_html(page) for page in pages]
    unit_translator = TextUnitTranslator(translator, options)
    languages = unit_translator.languages
    units = [unit for document in documents for unit in document.units]
    all_translated = iter(unit_translator.translate_n_best(units))
    results = []
    for document in documents:
        translated = [next(all_translated) for _ in document.units]
        best, *alternatives = (
            _build_page(document, [one[min(rank, len(one) - 1)] for one in translated], languages)
            for rank in range(max(map(len, translated), default=1))
        )
        results.append(replace(best, alternatives=tuple(alternatives)))
    return results


def _build_page(
    document: ParsedDocument[str],
    translations: Sequence[UnitTranslation],
    languages: DocumentLanguages,
) -> Translation:
    """Return the translation of a page of one rank."""
    report = DocumentReport.from_translations(document, translations)
    messages = {issue.message for issue in report.flags}
    return Translation(
        document.render(translations, languages),
        0.0,
        0.0,
        flags=tuple(flag for flag in TranslationFlag if flag in messages),
        unmet_constraints=tuple(dict.fromkeys(issue.message for issue in report.unmet_constraints)),
        error=report.errors[0].message if report.errors else None,
    )


def translate_and_report_partial_text(
    translator: Translator,
    text: str,
    options: TextTranslationOptions,
    context: RequestContext,
    on_partial_text: PartialTextCallback,
) -> Translation:
    """Translate a text part by part and report the text so far.

    With the torch engine the text is reported after every step of the search, with other engines
    after every part.

    Raises:
        ClientDisconnected, DeadlineExceeded: The request was canceled, or its deadline passed.
    """
    finished_text = ""

    def report(partial_text: str) -> None:
        context.raise_if_canceled()
        on_partial_text(finished_text + partial_text)

    observer = _SearchReporter(translator, report)
    text_translator = TextTranslator(
        translator, options.translation_options, translate_blocks=observer.translate_blocks
    )
    source = options.build_source(text)
    if text_translator.find_problem(source):
        return text_translator.translate([source])[0]
    translated: list[TranslatedPart] = []
    for part in text_translator.find_parts(source):
        finished_text = text_translator.join_parts(text[: part.start], translated).text
        (own,) = text_translator.translate_parts([[part]])
        translated += own
        end = part.span.end
        report(text_translator.join_parts(text[:end], translated).text[len(finished_text) :])
    return text_translator.join_parts(text, translated)


class _SearchReporter:
    """Searches for one segment at a time and reports the text of its block at each step."""

    def __init__(self, translator: Translator, on_partial_text: Callable[[str], None]) -> None:
        self._translator, self._on_partial_text = translator, on_partial_text
        self._finished_text = ""
        """Translation of the previous segments of the block."""

    def translate_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        """Translate blocks one after another."""
        segmented = self._translator.split_blocks(blocks, options)
        translations: list[Translation] = []
        for each in segmented:
            self._finished_text, end = "", 0
            for segment in each.segments:
                span = segment.span
                self._finished_text += each.block.text[end : span.start]
                translations += self._translator.translate_segments([segment], options, self)
                self._finished_text, end = self._finished_text + translations[-1].text, span.end
        return self._translator.merge_segments(segmented, translations)

    def step(self, record: StepRecord) -> None:
        """Report the best candidate of a step of the search."""
        parent = int(record.candidates.parents_BC[0, 0])
        ids: list[int] = record.beam.emitted_BKE[0, parent].tolist()
        ids.append(int(record.candidates.tokens_BC[0, 0]))
        eos = self._translator.engine.special_tokens.target_eos_id
        partial = self._translator.tokenizers.target.decode([i for i in ids if i != eos])
        self._on_partial_text(self._finished_text + partial)


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """Translation of segments by one translator, which has split them, with the same options."""

    translator: Translator
    options: TranslationOptions

    def run(self, items: Sequence[SourceSegment]) -> Sequence[Translation]:
        """Translate segments."""
        return self.translator.translate_segments(items, self.options)


def estimate_segment_costs(
    translator: Translator, segments: Sequence[SourceSegment], options: TranslationOptions
) -> list[SearchCost]:
    """Return the cost of each segment with its prefix and the glossary."""

    def count_tokens(text: str) -> int:  # of the target side, whose tokenizer is similar
        return len(translator.tokenizers.source.encode(text))

    estimator = SearchCostEstimator(count_tokens, options.search, options.glossary)
    return [estimator.estimate(each.span.text, len(each.ids), each.prefix) for each in segments]


@dataclass(frozen=True, slots=True)
class QueuedTranslator:
    """Translates with one model, or with two in sequence, through the queue, for one request.

    The thread of the request tokenizes the blocks; a worker translates their segments.
    """

    translators: Sequence[Translator]
    queue: WorkQueue
    context: RequestContext
    retry_when_full: bool = False
    """Whether to wait, up to the deadline, if the queue is full."""
    on_error: Callable[[BaseException], None] = lambda _: None
    """Called with the exception of each segment on which the engine failed."""
    token_weight: Callable[[int], float] = lambda _: 1.0
    """Returns the cost of a token for a beam size."""
    max_steps: int | None = None
    """Limit of the token-steps of a call, if any."""

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
        if not pivots:
            return self.translate_with_model(last, blocks, options)
        if options.glossary:
            raise DirectModelRequired(
                "a glossary needs a direct model, but this language pair uses a pivot language"
            )
        pivot_options = TranslationOptions(
            alignment=options.alignment, split=options.split
        ).with_settings({"beam_size": options.search.beam_size})
        pivot_blocks = [Block(block.text) for block in blocks]
        firsts = self.translate_with_model(pivots[0], pivot_blocks, pivot_options)
        pairs = zip(firsts, blocks, strict=True)
        last_blocks = [Block(first.text, block.prefix) for first, block in pairs]
        return list(map(_combine, firsts, self.translate_with_model(last, last_blocks, options)))

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
            segments = [segment for each in segmented for segment in each.segments]
            estimates = estimate_segment_costs(translator, segments, options)
            if self.max_steps is not None:
                check_search_cost(estimates, options.search, self.max_steps)
            costs = [math.ceil(weight * each.num_tokens) for each in estimates]
            results = self._submit_with_retries(task, segments, costs)
            translations += translator.merge_segments(
                segmented, [self._to_translation(result) for result in results]
            )
        return translations

    def _submit_with_retries(
        self, task: SegmentTask, segments: Sequence[SourceSegment], costs: Sequence[int]
    ) -> list[Any]:
        """Submit work, also again while the queue is full, so that a started file is finished."""
        while True:
            try:
                return self.queue.submit(WorkItem(self.context, task, segments, costs))
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
    return replace(
        second,
        alternatives=tuple(_combine(first, other) for other in second.alternatives),
        alignment=tuple(_compose_alignments(first.alignment, second.alignment)),
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
