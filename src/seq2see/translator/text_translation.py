"""The way from a text to its translation, which all callers share.

A text is split into parts: its lines, or their sentences. The blocks of all parts are translated
together, each different one once; placeholders and other protected text stay as they are. A line
whose translation has fewer sentences than the line is translated again sentence by sentence. The
text around the parts is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from seq2see.errors import InputError
from seq2see.progress_callbacks import ProgressCallback
from seq2see.text import TextSpan
from seq2see.text.languages import find_sentence_separator
from seq2see.text.normalization import check_surrogates
from seq2see.text.sentence_splitting import count_sentences
from seq2see.translator.placeholders import ProtectedBlock, ProtectedTranslation
from seq2see.translator.protected_translation import translate_preserving_placeholders
from seq2see.translator.segmentation import Block, BlockTranslationFunction
from seq2see.translator.text_layout import SourceText, TextPart, find_parts
from seq2see.translator.translation import Translation, TranslationOptions, join_translations

_BATCH_SIZE = 256
"""Number of blocks between two calls of `on_progress`; without it all are one batch."""
_MIN_LENGTH_GAIN = 1.25
"""If the sentences of a line that are translated one by one have as many sentences as the line
translated at once, they cover it better if they are longer by this factor."""


class BlockTranslator(Protocol):
    """Translates blocks: a `Translator` does, and so may a queue or several models in sequence."""

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""

    @property
    def max_sentences_per_line(self) -> int:
        """Maximum number of sentences of a line that is translated at once by default."""

    def translate_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        """Translate blocks in order; see `BlockTranslationFunction`."""


@dataclass(frozen=True, slots=True)
class TranslatedPart:
    """A part of a text with its translations, the best first."""

    span: TextSpan
    candidates: Sequence[ProtectedTranslation]

    def merge_candidates(self, *, has_alignment: bool) -> Translation:
        """Return the best translation with the others as alternatives."""
        best, *others = (
            one.translation
            if has_alignment or not one.translation.alignment
            else replace(one.translation, alignment=())
            for one in self.candidates
        )
        return replace(best, alternatives=tuple(others)) if others or best.alternatives else best


class TextTranslator:
    """Translates texts with the same options.

    Args:
        translator: Translates blocks.
        options: Options of the translation.
        translate_blocks: Called instead of the method of the translator.
        on_progress: Called with the number of translated blocks and their total number.
    """

    def __init__(
        self,
        translator: BlockTranslator,
        options: TranslationOptions | None = None,
        *,
        translate_blocks: BlockTranslationFunction | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self.languages = translator.languages
        self.separator = find_sentence_separator(*translator.languages)
        self._translate_blocks = translate_blocks or translator.translate_blocks
        self._options = options or TranslationOptions()
        self._plain_options = self._options.model_copy(update={"prefix": ""})
        self._alignment_options = self._plain_options.model_copy(update={"alignment": True})
        self._on_progress = on_progress
        self._max_sentences = {
            "auto": translator.max_sentences_per_line,
            "always": 1,
            "never": None,
        }[self._options.split]

    def translate(self, texts: Sequence[SourceText]) -> list[Translation]:
        """Translate texts in order. A text that is invalid has an error in its translation."""
        problems = [self.find_problem(source) for source in texts]
        valid = [one for one, problem in zip(texts, problems, strict=True) if problem is None]
        parts = iter(self.translate_parts([self.find_parts(source) for source in valid]))
        return [
            self.join_parts(source.text, next(parts))
            if problem is None
            else Translation("", 0.0, 0.0, error=problem)
            for source, problem in zip(texts, problems, strict=True)
        ]

    @staticmethod
    def find_problem(source: SourceText) -> str | None:
        """Return why a text cannot be translated, or None."""
        text: object = source.text
        if not isinstance(text, str):
            return f"a line must be a string, but is {type(text).__name__} instead"
        try:
            check_surrogates(text)
        except InputError as error:
            return str(error)
        return None

    def find_parts(self, source: SourceText) -> list[TextPart]:
        """Return the parts of a text that are translated."""
        return find_parts(source, self.languages[0], self._max_sentences)

    def join_parts(self, text: str, parts: Sequence[TranslatedPart]) -> Translation:
        """Return the translation of a text from those of its parts."""
        has_alignment = self._options.alignment
        translations = [part.merge_candidates(has_alignment=has_alignment) for part in parts]
        spans = [part.span for part in parts]
        return join_translations(text, spans, translations, separator=self.separator)

    def translate_parts(self, texts: Sequence[Sequence[TextPart]]) -> list[list[TranslatedPart]]:
        """Translate the parts of several texts together.

        A part that is better translated sentence by sentence is replaced by its sentences.
        """
        candidates = self._translate_different_blocks([part for text in texts for part in text])
        doubtful = [
            part
            for text in texts
            for part in text
            if part.sentences and self._lacks_sentences(part, candidates[part.block][0])
        ]
        retried = self._translate_different_blocks(
            [sentence for part in doubtful for sentence in part.sentences]
        )
        replaced = {
            part.block
            for part in doubtful
            if self._covers_more(part, candidates[part.block][0], retried)
        }
        return [
            [
                TranslatedPart(each.span, (retried if each is not part else candidates)[each.block])
                for part in text
                for each in (part.sentences if part.block in replaced else (part,))
            ]
            for text in texts
        ]

    def _lacks_sentences(self, part: TextPart, result: ProtectedTranslation) -> bool:
        if result.translation.error is not None:
            return False
        return self._count_sentences(result.translation.text) < len(part.sentences)

    def _covers_more(
        self,
        part: TextPart,
        at_once: ProtectedTranslation,
        retried: dict[ProtectedBlock, list[ProtectedTranslation]],
    ) -> bool:
        """Return whether the sentences, translated one by one, cover more of a part.

        The number of their sentences decides, or their length if it is equal.
        """
        translations = [retried[sentence.block][0].translation for sentence in part.sentences]
        spans = [sentence.span for sentence in part.sentences]
        shifted = [replace(span, start=span.start - part.start) for span in spans]
        joined = join_translations(part.block.text, shifted, translations, separator=self.separator)
        if joined.error is not None:
            return False
        counts = [
            min(self._count_sentences(text), len(part.sentences))
            for text in (joined.text, at_once.translation.text)
        ]
        if counts[0] != counts[1]:
            return counts[0] > counts[1]
        return len(joined.text) > _MIN_LENGTH_GAIN * len(at_once.translation.text)

    def _count_sentences(self, text: str) -> int:
        return count_sentences(text, self.languages[1])

    def _translate_different_blocks(
        self, parts: Sequence[TextPart]
    ) -> dict[ProtectedBlock, list[ProtectedTranslation]]:
        """Translate each different block once, with alignment only where it is needed."""
        keep_numbers = self._options.keep_numbers
        needs_alignment: dict[ProtectedBlock, bool] = {}
        for part in parts:
            needs_alignment[part.block] = (
                needs_alignment.get(part.block, False)
                or part.needs_alignment
                or bool(part.block.find_protected_ranges(keep_numbers=keep_numbers))
            )
        results: dict[ProtectedBlock, list[ProtectedTranslation]] = {}
        for has_alignment, options in enumerate((self._plain_options, self._alignment_options)):
            blocks = [block for block, needs in needs_alignment.items() if needs == has_alignment]
            for batch in self._find_batches(blocks):
                found = translate_preserving_placeholders(self._translate_blocks, batch, options)
                results.update(zip(batch, found, strict=True))
                if self._on_progress:
                    self._on_progress(len(results), len(needs_alignment))
        return results

    def _find_batches(self, blocks: Sequence[ProtectedBlock]) -> Iterator[Sequence[ProtectedBlock]]:
        size = _BATCH_SIZE if self._on_progress else max(len(blocks), 1)
        for start in range(0, len(blocks), size):
            yield blocks[start : start + size]
