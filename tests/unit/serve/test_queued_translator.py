"""Translators that work through the queue, and pivot translation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from seq2see.serve.errors import ENGINE_FAILED_MESSAGE, BadRequest
from seq2see.serve.model_registry import ModelRegistry
from seq2see.serve.request_translation import QueuedTranslator
from seq2see.serve.service import Service
from seq2see.serve.work_queue import RequestContext, WorkerThreads, WorkItem, WorkQueue
from seq2see.translator import Block, SourceText, TextTranslator, Translation, TranslationOptions

Registry = Callable[..., ModelRegistry]


def create_translator(service: Service, source: str, target: str, **options: Any) -> Any:
    route = service.models.find_route(source, target)
    assert route is not None
    context = RequestContext.with_timeout(10, "a")
    translators = [model.translator for model in route.models]
    return QueuedTranslator(translators, service.queue, context, **options)


def translate(translator: Any, lines: Sequence[str], **settings: Any) -> list[Translation]:
    options = TranslationOptions().with_settings(settings)
    sources = [SourceText(line, options.prefix) for line in lines]
    return TextTranslator(translator, options).translate(sources)


def test_pivot_translation_combines_texts_and_alignments(service: Service) -> None:
    line = "le chat dort"
    (translation,) = translate(create_translator(service, "fr", "de"), [line], alignment=True)
    assert translation.text == "le-en-de chat-en-de dort-en-de"
    words = {
        (
            line[link.source_start : link.source_end],
            translation.text[link.target_start : link.target_end],
        )
        for link in translation.alignment
    }
    assert words == {("le", "le-en-de"), ("chat", "chat-en-de"), ("dort", "dort-en-de")}


def test_only_last_model_gets_prefix_and_n_best(service: Service) -> None:
    translator = create_translator(service, "fr", "de")
    translate(translator, ["a"], prefix="Ein", n_best=2, beam_size=4)
    first, second = (service.models.find(n).translator.options[-1] for n in ("fr-en", "en-de"))  # type: ignore[union-attr]
    assert (first.prefix, first.search.n_best, first.search.beam_size) == ("", 1, 4)
    assert (second.prefix, second.search.n_best) == ("Ein", 2)


@pytest.mark.parametrize(("beam_size", "cost"), [(1, 3), (5, 3), (20, 12)])
def test_cost_grows_with_beam_size(service: Service, beam_size: int, cost: int) -> None:
    costs: list[int] = []
    enqueue = service.queue.enqueue

    def record_costs(work_item: WorkItem) -> None:
        costs.extend(work_item.costs)
        enqueue(work_item)

    service.queue.enqueue = record_costs  # type: ignore[method-assign]
    route = service.models.find_route("en", "de")
    translator = service.create_translator(route, RequestContext.with_timeout(9))
    translate(translator, ["two words"], beam_size=beam_size)
    assert costs == [cost]


def test_glossary_requires_direct_model(service: Service) -> None:
    with pytest.raises(BadRequest, match="direct model"):
        translate(create_translator(service, "fr", "de"), ["a"], glossary={"chat": "Katze"})


def test_failing_lines_do_not_affect_other_lines(service: Service) -> None:
    failures: list[BaseException] = []
    translator = create_translator(service, "fr", "de", on_error=failures.append)
    translations = translate(translator, ["a b", "poison", "unfit", "c"])
    assert [each.text for each in translations] == ["a-en-de b-en-de", "", "", "c-en-de"]
    errors = [each.error for each in translations]
    assert errors == [None, ENGINE_FAILED_MESSAGE, "unfit", None]
    assert len(failures) == 1


def test_file_waits_while_queue_is_full(registry: Registry) -> None:
    queue = WorkQueue(8, 8)
    translator = registry("en-de").first.translator
    workers = WorkerThreads(queue)
    context = RequestContext.with_timeout(20, "file")
    queued = QueuedTranslator([translator], queue, context, retry_when_full=True)
    blocks = [Block(f"line {n}") for n in range(600)]
    translations = queued.translate_blocks(blocks, TranslationOptions())
    assert [each.text for each in translations] == [f"line-de {n}-de" for n in range(600)]
    workers.stop(5)
