"""Translation of a text with partial results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seq2see.search.hypotheses import StepRecord
from seq2see.serve.layout_preserving_translation import TextTranslationOptions
from seq2see.serve.work_queue import RequestContext
from seq2see.translator import (
    Block,
    TextTranslator,
    Translation,
    TranslationOptions,
    Translator,
)
from seq2see.translator.text_translation import TranslatedPart

PartialTextCallback = Callable[[str], None]
"""Called with the text so far. Earlier words may change, so it is the full text."""


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
        translator,
        options.translation_options,
        translate_blocks=observer.translate_blocks,
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
            for request in self._translator.build_requests([each]):
                span = request.segment.span
                self._finished_text += each.block.text[end : span.start]
                translations += self._translator.translate_segments([request], options, self)
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
