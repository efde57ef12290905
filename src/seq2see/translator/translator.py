"""The translator, and loading it from a model directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, overload

from seq2see.bundle import Bundle
from seq2see.cpu import resolve_threads
from seq2see.engines.base import BatchResult, Engine
from seq2see.engines.batching import add_special_tokens, collect_in_order
from seq2see.engines.loading import load_engine
from seq2see.errors import InputError
from seq2see.registries import EngineName, Precision
from seq2see.search import Hypothesis, SearchObserver, SentenceSearchInput
from seq2see.text import TextSpan, TokenizerPair, split_long_sentence, split_sentences
from seq2see.text.languages import find_sentence_separator
from seq2see.translator.constraints import MAX_FORBIDDEN_SEARCHES, LexicalConstraints
from seq2see.translator.result_builder import ResultBuilder, build_scored_tokens
from seq2see.translator.text_translation import SourceText, TextTranslator
from seq2see.translator.translation import (
    Block,
    PairScore,
    SegmentedBlock,
    SourceSegment,
    Translation,
    TranslationOptions,
    join_translations,
)

DEFAULT_OPTIONS = TranslationOptions()
DEFAULT_MAX_TOKENS = 512
"""Maximum number of tokens of a sentence if the length of the training sentences is not known."""
FIRST_CHUNK_LINES, MAX_CHUNK_LINES = 32, 2048
"""A stream is read in chunks whose size doubles: the first result arrives early."""


def require_iterable_of_lines(value: Any) -> Iterable[Any]:
    """Return the value if it is an iterable of lines, not a single text.

    Raises:
        InputError: If it is a single text or no iterable.
    """
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Iterable):
        raise InputError(f"lines must be a list of texts, but are {_describe(value)} instead")
    return value


def check_pairs(value: Any) -> list[tuple[str, str]]:
    """Return the value as a list if it consists of pairs of texts.

    Raises:
        InputError: If it is no iterable of pairs of texts.
    """
    pairs = list(require_iterable_of_lines(value))
    for number, pair in enumerate(pairs, 1):
        is_pair = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not is_pair or not all(isinstance(text, str) for text in pair):
            raise InputError(
                f"pair {number} must be a text and its translation, "
                f"but is {_describe(pair)} instead"
            )
    return pairs


def _describe(value: Any) -> str:
    """Return a short description of a value, for an error message."""
    return f"{repr(value)[:40]} ({type(value).__name__})"


class Translator:
    """Translates text. It is thread-safe.

    `seq2see.load` returns the translator of a model directory.

    Args:
        engine: The inference engine.
        tokenizers: Tokenizers of both sides.
        languages: Source and target language.
        max_tokens: Maximum number of tokens of a segment. By default 512.
        max_sentences_per_line: Maximum number of sentences of a line that is translated at once by
            default.
        bundle: The model that the engine was loaded from. The statistics of its training text tell
            translations that are too short or too long.
        engine_notes: Messages for the user about the choice of the engine.
        threads: Number of threads for tokenization. The engine has its own threads.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizers: TokenizerPair,
        languages: tuple[str, str] = ("und", "und"),
        max_tokens: int | None = None,
        max_sentences_per_line: int = 1,
        bundle: Bundle | None = None,
        engine_notes: Sequence[str] = (),
        threads: int = 1,
    ) -> None:
        self.engine = engine
        self.tokenizers = tokenizers
        self.languages = languages
        self.max_tokens = max_tokens or DEFAULT_MAX_TOKENS
        self.max_sentences_per_line = max_sentences_per_line
        self.engine_notes = tuple(engine_notes)
        self.threads = threads
        self._bundle = bundle
        self._separator = find_sentence_separator(*languages)

    @property
    def bundle(self) -> Bundle:
        """The model that the translator was loaded from.

        Raises:
            InputError: If the translator was not loaded from a model directory.
        """
        if self._bundle is None:
            raise InputError("this translator was not loaded from a model directory")
        return self._bundle

    @overload
    def translate(
        self, text: str, options: TranslationOptions | None = None, **settings: Any
    ) -> Translation: ...

    @overload
    def translate(
        self, text: Iterable[str], options: TranslationOptions | None = None, **settings: Any
    ) -> list[Translation]: ...

    def translate(
        self, text: str | Iterable[str], options: TranslationOptions | None = None, **settings: Any
    ) -> Translation | list[Translation]:
        """Translate a text, or several texts, and return the results in order.

        A text is translated line by line; white space, list markers and line breaks are copied.
        `settings` are fields of the options and of their search, for example
        `translate(lines, beam_size=5, alignment=True)`.
        """
        options = (options or DEFAULT_OPTIONS).with_settings(settings)
        translate = self._build_translate_function(options)
        if isinstance(text, str):
            return translate([text])[0]
        return translate(list(require_iterable_of_lines(text)))

    def stream(
        self,
        lines: Iterable[str],
        options: TranslationOptions | None = None,
        *,
        chunk_size: int | None = None,
        **settings: Any,
    ) -> Iterator[Translation]:
        """Yield the translation of each line in order, in constant memory.

        Args:
            lines: The lines to translate.
            options: Options of the translation.
            chunk_size: Number of lines that are read before the first result. By default it grows
                from 32 to 2,048.
            **settings: Fields of the options and of their search.
        """
        options = (options or DEFAULT_OPTIONS).with_settings(settings)
        remaining, size = iter(require_iterable_of_lines(lines)), chunk_size or FIRST_CHUNK_LINES
        translate = self._build_translate_function(options)
        while chunk := list(islice(remaining, size)):
            yield from translate(chunk)
            size = chunk_size or min(2 * size, MAX_CHUNK_LINES)

    def score(
        self, pairs: Iterable[tuple[str, str]], length_penalty: float = 1.0
    ) -> list[PairScore]:
        """Return the scores of given translations: `pairs` are (source, translation).

        Sources are not split into sentences.
        """
        sides = zip(*check_pairs(pairs), strict=True)
        sources, targets = [list(side) for side in sides] or ([], [])
        eos = self.engine.special_tokens.target_eos_id
        target_ids = [[*ids, eos] for ids in self.tokenizers.target.encode_batch(targets)]
        source_ids = self.tokenizers.source.encode_batch(sources)
        scores = self.engine.score_targets(list(zip(source_ids, target_ids, strict=True)))
        tokenizer, results = self.tokenizers.target, []
        for ids, target_scores in zip(target_ids, scores, strict=True):
            log_prob, text = sum(target_scores.log_probs), tokenizer.decode(ids[:-1])
            tokens = build_scored_tokens(tokenizer, ids, target_scores.log_probs, text)
            results.append(PairScore(log_prob, log_prob / len(ids) ** length_penalty, tokens))
        return results

    def _build_translate_function(
        self, options: TranslationOptions
    ) -> Callable[[Sequence[str]], list[Translation]]:
        constraints = self._build_constraints(options)
        translate_blocks = partial(self.translate_blocks, constraints=constraints)
        translator = TextTranslator(self, options, translate_blocks=translate_blocks)
        return lambda texts: translator.translate([SourceText(t, options.prefix) for t in texts])

    def _build_constraints(
        self, options: TranslationOptions, *, has_prefix: bool = False
    ) -> LexicalConstraints | None:
        if not (has_prefix or options.prefix or options.forbidden or options.glossary):
            return None
        return LexicalConstraints(options, self.tokenizers.target, self.languages[1])

    def translate_blocks(
        self,
        blocks: Sequence[Block],
        options: TranslationOptions,
        observer: SearchObserver | None = None,
        constraints: LexicalConstraints | None = None,
    ) -> list[Translation]:
        """Translate blocks in order; blocks that are too long are split into segments.

        `observer` and `constraints` are those of `translate_segments`.
        """
        segmented = self.split_blocks(blocks, options)
        segments = [segment for each in segmented for segment in each.segments]
        translations = self.translate_segments(segments, options, observer, constraints)
        return self.merge_segments(segmented, translations)

    def split_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[SegmentedBlock]:
        """Return blocks with their segments, for `translate_segments` and `merge_segments`.

        Unless `split` of the options is `never`, a block that is too long for the model has several
        segments; otherwise it has an error.
        """
        texts = [block.text for block in blocks]
        ids = self.tokenizers.source.encode_batch(texts, self.threads)
        can_split = options.split != "never"
        return [
            self._split_block(*each, can_split=can_split) for each in zip(blocks, ids, strict=True)
        ]

    def _split_block(self, block: Block, ids: list[int], *, can_split: bool) -> SegmentedBlock:
        if len(ids) <= self.max_tokens:
            segments = [SourceSegment(TextSpan(block.text, 0), ids, block.prefix)] if ids else []
            return SegmentedBlock(block, segments)
        if can_split:
            return SegmentedBlock(block, list(self._find_segments(block)))
        limit = f"a line must have at most {self.max_tokens} tokens, but has {len(ids)}"
        return SegmentedBlock(
            block, error=f"{limit}; set `split` to auto or always instead of never"
        )

    def _find_segments(self, block: Block) -> Iterator[SourceSegment]:
        encode, prefix = self.tokenizers.source.encode, block.prefix  # of the first segment only
        for sentence in split_sentences(block.text, self.languages[0]):
            for span in split_long_sentence(sentence, self.max_tokens, lambda x: len(encode(x))):
                if ids := encode(span.text):
                    yield SourceSegment(span, ids, prefix)
                    prefix = ""

    def translate_segments(
        self,
        segments: Sequence[SourceSegment],
        options: TranslationOptions,
        observer: SearchObserver | None = None,
        constraints: LexicalConstraints | None = None,
    ) -> list[Translation]:
        """Translate segments of any blocks, and build the results while the engine searches.

        `observer` receives the steps of a search with the torch engine. `constraints` are those of
        the options, if they were built already. `prefix` of the options is ignored.
        """
        has_prefix = any(segment.prefix for segment in segments)
        constraints = constraints or self._build_constraints(options, has_prefix=has_prefix)
        builder = ResultBuilder(
            self.engine,
            self.tokenizers,
            self.languages,
            self._bundle.training_text if self._bundle else None,
            constraints,
            options,
            self.threads,
        )
        batches: Iterable[BatchResult]
        inputs = [
            SentenceSearchInput(add_special_tokens(segment.ids, self.engine.special_tokens))
            for segment in segments
        ]
        if constraints is None:
            batches = self.engine.search(inputs, options.search, observer=observer)
        else:
            inputs = [
                constraints.constrain_input(one, segment.span.text, segment.prefix)
                for one, segment in zip(inputs, segments, strict=True)
            ]
            found = self._search_with_constraints(inputs, options, constraints, observer)
            batches = [BatchResult(range(len(inputs)), found)]
        return collect_in_order(
            (indices, list(builder.build_translations([segments[i] for i in indices], hypotheses)))
            for indices, hypotheses in batches
        )

    def merge_segments(
        self, blocks: Sequence[SegmentedBlock], translations: Sequence[Translation]
    ) -> list[Translation]:
        """Return the translation of each block from those of all segments."""
        remaining, results = iter(translations), []
        for each in blocks:
            spans = [segment.span for segment in each.segments]
            parts = [next(remaining) for _ in spans]
            joined = join_translations(each.block.text, spans, parts, separator=self._separator)
            results.append(Translation("", 0.0, 0.0, error=each.error) if each.error else joined)
        return results

    def _search_with_constraints(
        self,
        inputs: list[SentenceSearchInput],
        options: TranslationOptions,
        constraints: LexicalConstraints,
        observer: SearchObserver | None,
    ) -> list[list[Hypothesis]]:
        """Search, and repeat the search where a forbidden phrase was produced.

        The pieces of the phrase are forbidden in the next search. Forbidding its usual pieces from
        the start would also forbid longer words that begin with them.
        """
        results: list[list[Hypothesis]] = [[] for _ in inputs]
        indices = list(range(len(inputs)))
        for _ in range(MAX_FORBIDDEN_SEARCHES):
            selected = [inputs[i] for i in indices]
            batches = self.engine.search(
                selected, options.search, constraints.build_processors, observer
            )
            retries = []
            for index, hypotheses in zip(indices, collect_in_order(batches), strict=True):
                results[index] = hypotheses
                violations = {
                    phrase
                    for hypothesis in hypotheses
                    for phrase in constraints.find_violations(hypothesis.tokens_without_eos)
                }
                if new := violations.difference(inputs[index].forbidden):
                    forbidden = (*inputs[index].forbidden, *sorted(new))
                    inputs[index] = replace(inputs[index], forbidden=forbidden)
                    retries.append(index)
            indices = retries
            if not indices:
                break
        return results


def load(
    path: Path | str | Sequence[Path | str],
    engine: EngineName = "auto",
    device: str = "auto",
    threads: int | None = None,
    precision: Precision = "float32",
) -> Translator:
    """Load a translator.

    Args:
        path: A model directory, or several for an ensemble, which runs on torch.
        engine: Inference backend: `torch`, `ctranslate2`, or `auto`, which uses CTranslate2 where
            it gives the same result, otherwise torch.
        device: Device of the model; `auto` is cuda if available, else mps, else cpu.
        threads: Number of CPU threads. By default all available cores.
        precision: Number format of CTranslate2. int8 is faster and slightly less accurate; it is
            used only if it passes a check on this CPU.

    Returns:
        The translator. Its `engine_notes` say which requests could not be satisfied.

    Raises:
        InputError: If a model directory cannot be loaded.
        ConfigError: If another argument is invalid.
    """
    directories = [Path(path)] if isinstance(path, str | Path) else [*map(Path, path)]
    if not directories:
        raise InputError("`path` must have at least one model directory, but has none")
    bundle = Bundle.load(directories[0])
    ensemble = [Bundle.load(directory) for directory in directories[1:]]
    engine_notes: list[str] = []
    loaded_engine = load_engine(
        bundle,
        engine=engine,
        device=device,
        threads=threads,
        precision=precision,
        ensemble=ensemble,
        on_message=engine_notes.append,
    )
    limits = [limit for each in (bundle, *ensemble) for limit in _length_limits(each)]
    return Translator(
        loaded_engine,
        bundle.tokenizers,
        bundle.languages,
        min(limits, default=None),
        min(each.max_sentences_per_line for each in (bundle, *ensemble)),
        bundle,
        engine_notes,
        resolve_threads(threads),
    )


def _length_limits(bundle: Bundle) -> Iterator[int]:
    """Yield the limits of the tokens of a sentence: its length in training, and the positions."""
    if bundle.max_length is not None:
        yield bundle.max_length
    if bundle.config.max_positions is not None:
        yield bundle.config.max_positions - len(add_special_tokens([], bundle.special_tokens))
