"""Translation of a text with partial results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seq2see.bundle import StartAndEndTokenIds
from seq2see.engines.base import BatchResult, ProcessorFactory, TargetScores, TokenIds
from seq2see.engines.torch_engine import TorchEngine
from seq2see.search import SearchConfig, SearchObserver, SentenceSearchInput
from seq2see.search.observer import StepRecord
from seq2see.serve.layout_preserving_translation import find_translatable_spans
from seq2see.serve.work_queue import RequestContext
from seq2see.text import TextSpan, Tokenizer, split_sentences
from seq2see.translator import Translation, TranslationOptions, Translator, join_translations

PartialTextCallback = Callable[[str], None]
"""Called with the text so far. With a beam, earlier words may change, so it is the full text."""


def translate_and_report_partial_text(
    translator: Translator,
    text: str,
    options: TranslationOptions,
    context: RequestContext,
    on_partial_text: PartialTextCallback,
) -> Translation:
    """Translate a text sentence by sentence and report the text so far.

    With the torch engine the text is reported after every step of the search, with other engines
    after every sentence.

    Raises:
        ClientDisconnected, DeadlineExceeded: The request was canceled, or its deadline passed.
    """
    finished_text = ""
    translations: list[Translation] = []

    def report(partial_text: str) -> None:
        context.raise_if_canceled()
        on_partial_text(finished_text + partial_text)

    sentences = list(_find_sentences(text, translator.languages[0]))
    observed = _observe_search(translator, report)
    end = 0
    for sentence in sentences:
        finished_text += text[end : sentence.start]
        translation = observed.translate(
            sentence.text, options.model_copy(update={"split": "long"})
        )
        translations.append(translation)
        report(translation.text)
        finished_text, end = finished_text + translation.text, sentence.end
    return join_translations(text, sentences, translations)


def _find_sentences(text: str, language: str) -> Sequence[TextSpan]:
    return [
        TextSpan(sentence.text, span.start + sentence.start)
        for span in find_translatable_spans(text, language)
        for sentence in split_sentences(span.text, language)
    ]


def _observe_search(translator: Translator, on_partial_text: PartialTextCallback) -> Translator:
    """Return a translator that reports partial translations if it uses the torch engine."""
    if not isinstance(translator.engine, TorchEngine):
        return translator
    return Translator(
        _ObservedEngine(translator.engine, translator.tokenizers.target, on_partial_text),
        translator.tokenizers,
        translator.languages,
        translator.max_tokens,
    )


class _ObservedEngine:
    """The torch engine; reports the best partial hypothesis at every step."""

    def __init__(
        self, engine: TorchEngine, tokenizer: Tokenizer, on_partial_text: PartialTextCallback
    ) -> None:
        self._engine, self._tokenizer = engine, tokenizer
        self._on_partial_text = on_partial_text
        self.name = engine.name
        self.special_tokens: StartAndEndTokenIds = engine.special_tokens

    def resolve_config(self, config: SearchConfig) -> SearchConfig:
        """Resolve the defaults of a search config as the engine does."""
        return self._engine.resolve_config(config)

    def search(
        self,
        inputs: Sequence[SentenceSearchInput],
        config: SearchConfig,
        processor_factory: ProcessorFactory | None = None,
        observer: SearchObserver | None = None,
    ) -> Iterator[BatchResult]:
        """Search with this object as the observer."""
        assert observer is None
        return self._engine.search(inputs, config, processor_factory, self)

    def score_targets(
        self, pairs: Sequence[tuple[TokenIds, TokenIds]], *, attention: bool = False
    ) -> list[TargetScores]:
        """Score targets as the engine does."""
        return self._engine.score_targets(pairs, attention=attention)

    def step(self, record: StepRecord) -> None:
        """Report the best candidate of the first input."""
        parent = int(record.candidates.parents_BC[0, 0])
        ids: list[Any] = record.beam.emitted_BKE[0, parent].tolist()
        ids.append(int(record.candidates.tokens_BC[0, 0]))
        text_ids = [i for i in ids if i != self.special_tokens.target_eos_id]
        self._on_partial_text(self._tokenizer.decode(text_ids))
