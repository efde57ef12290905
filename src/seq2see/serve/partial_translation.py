"""Translation of a text with partial results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from seq2see.search.hypotheses import StepRecord
from seq2see.serve.layout_preserving_translation import (
    TextTranslationOptions,
    find_sentence_spans,
    join_sentences,
    translate_sentences,
)
from seq2see.serve.work_queue import RequestContext
from seq2see.translator import Translation, TranslationOptions, Translator

PartialTextCallback = Callable[[str], None]
"""Called with the text so far. With a beam, earlier words may change, so it is the full text."""


def translate_and_report_partial_text(
    translator: Translator,
    text: str,
    options: TextTranslationOptions,
    context: RequestContext,
    on_partial_text: PartialTextCallback,
) -> Translation:
    """Translate a text sentence by sentence and report the text so far.

    With the torch engine the text is reported after every step of the search, with other engines
    after every sentence.

    Raises:
        ClientDisconnected, DeadlineExceeded: The request was canceled, or its deadline passed.
    """
    finished_text, end = "", 0
    translations: list[Translation] = []

    def report(partial_text: str) -> None:
        context.raise_if_canceled()
        on_partial_text(finished_text + partial_text)

    observed = _ObservedTranslator(translator, report)
    sentences = find_sentence_spans(text, translator.languages[0])
    for index, sentence in enumerate(sentences):
        finished_text += text[end : sentence.start]
        pair = (sentence.text, options.find_prefix(index))
        translations += translate_sentences(observed, [pair], options)
        report(translations[-1].text)
        finished_text, end = finished_text + translations[-1].text, sentence.end
    return join_sentences(translator, text, sentences, translations)


class _ObservedTranslator:
    """A translator that searches for one segment at a time and reports each step."""

    def __init__(self, translator: Translator, on_partial_text: PartialTextCallback) -> None:
        self._translator, self._on_partial_text = translator, on_partial_text
        self._finished_text = ""
        """Translation of the previous segments of the line."""

    @property
    def languages(self) -> tuple[str, str]:
        return self._translator.languages

    def translate(
        self, text: Sequence[str], options: TranslationOptions | None = None, **settings: Any
    ) -> list[Translation]:
        options = (options or TranslationOptions()).with_settings(settings)
        segmented = self._translator.split_lines(text, options)
        translations: list[Translation] = []
        for line in segmented:
            self._finished_text, end = "", 0
            for request in self._translator.build_requests([line]):
                span = request.segment.span
                self._finished_text += line.text[end : span.start]
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
