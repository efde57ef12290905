"""A translation while it grows: sentence after sentence, and with our own engine token by token.

With a beam the best beginning may change its mind, so each event has the whole text so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seq2see.bundle import Framing
from seq2see.engines.protocol import Batch, Forced, Ids, Processors
from seq2see.engines.torch import TorchEngine
from seq2see.search import SearchConfig, Source
from seq2see.search.observer import StepRecord
from seq2see.serve.paragraphs import Paragraph, cut, joined
from seq2see.serve.tickets import Call
from seq2see.text import Tokenizer, split
from seq2see.translator import Translation, TranslationOptions, Translator

Emit = Callable[[str], None]


def stream(
    translator: Translator, text: str, options: TranslationOptions, call: Call, emit: Emit
) -> Translation:
    """Translate a text and emit what there is of it at every step, while somebody waits."""
    done = ""
    parts: list[Translation] = []

    def tell(beginning: str) -> None:
        call.still_wanted()
        emit(done + beginning)

    sentences = list(_sentences(text, translator.languages[0]))
    listening = _listening(translator, tell)
    end = 0
    for sentence in sentences:
        done += text[end : sentence.start]
        part = listening.translate(sentence.text, options.model_copy(update={"split": "long"}))
        parts.append(part)
        tell(part.text)
        done, end = done + part.text, sentence.end
    return joined(text, sentences, parts)


def _sentences(text: str, language: str) -> Sequence[Paragraph]:
    return [
        Paragraph(span.text, line.start + span.start)
        for line in cut(text, language)
        for span in split(line.text, language)
    ]


def _listening(translator: Translator, tell: Emit) -> Translator:
    """Return the same translator with ears, if its engine has a place for them."""
    if not isinstance(translator.engine, TorchEngine):
        return translator
    return Translator(
        _ListeningEngine(translator.engine, translator.tokenizers.target, tell),
        translator.tokenizers,
        translator.languages,
        translator.limit,
    )


class _ListeningEngine:
    """Our own engine; whoever listens hears the best beginning at every step."""

    def __init__(self, engine: TorchEngine, tokenizer: Tokenizer, tell: Emit) -> None:
        self._engine, self._tokenizer, self._tell = engine, tokenizer, tell
        self.name = engine.name
        self.framing: Framing = engine.framing

    def resolved(self, config: SearchConfig) -> SearchConfig:
        """Decide, as the engine does."""
        return self._engine.resolved(config)

    def search(
        self,
        sentences: Sequence[Ids],
        sources: Sequence[Source],
        config: SearchConfig,
        processors: Processors | None = None,
    ) -> Iterator[Batch]:
        """Search, and be heard."""
        return self._engine.search(sentences, sources, config, processors, self)

    def force(self, pairs: Sequence[tuple[Ids, Ids]], *, attention: bool = False) -> list[Forced]:
        """Score, as the engine does."""
        return self._engine.force(pairs, attention=attention)

    def step(self, record: StepRecord) -> None:
        """Tell the best candidate of the first row."""
        parent = int(record.candidates.parents_BC[0, 0])
        ids: list[Any] = record.beam.emitted_BKE[0, parent].tolist()
        ids.append(int(record.candidates.tokens_BC[0, 0]))
        self._tell(self._tokenizer.decode([i for i in ids if i != self.framing.target_end]))
