"""The translator: text in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, overload

from seq2see.bundle import Bundle, files
from seq2see.cpu import resolve_threads
from seq2see.engines.base import BatchResult, Engine, collect_in_order
from seq2see.engines.batching import add_special_tokens
from seq2see.engines.ctranslate2_engine import Precision
from seq2see.engines.loading import EngineName, load_engine
from seq2see.errors import InputError
from seq2see.search import Hypothesis, SearchInput
from seq2see.text import TokenizerPair
from seq2see.translator.constraints import MAX_FORBIDDEN_SEARCHES, LexicalConstraints
from seq2see.translator.results import ResultBuilder, build_scored_tokens
from seq2see.translator.segmentation import LineSplitter, Segment, SegmentedLine
from seq2see.translator.translation import PairScore, Translation, TranslationOptions


def check_lines(value: Any) -> Iterable[Any]:
    """Return it if it can be lines: a text itself would be taken apart into characters."""
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Iterable):
        raise InputError(f"lines must be a list of texts, but are {_kind(value)} instead")
    return value


def check_pairs(value: Any) -> list[tuple[str, str]]:
    """Return pairs of texts, if they are such."""
    pairs = list(check_lines(value))
    for number, pair in enumerate(pairs, 1):
        two = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not two or not all(isinstance(text, str) for text in pair):
            raise InputError(
                f"pair {number} must be a text and its translation, but is {_kind(pair)} instead"
            )
    return pairs


def _kind(given: Any) -> str:
    """Name what it is, shortly."""
    return f"{repr(given)[:40]} ({type(given).__name__})"


DEFAULT_OPTIONS = TranslationOptions()


DEFAULT_MAX_TOKENS = 512
"""The most tokens of a sentence where it is not known how long those of training were."""


FIRST_CHUNK_LINES, MAX_CHUNK_LINES = 32, 2048
"""A stream is read in parts that double: the first answer comes soon, and the rest is fast."""


SENTENCE_STRIDE = 1 << 40
"""Sampling draws by line; from the second sentence of a line on, so much is added to its number."""


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """A segment to translate."""

    segment: Segment
    search_input: SearchInput
    is_first: bool
    """It begins its line."""


class SegmentResult(NamedTuple):
    """A job's translation."""

    translation: Translation
    token_counts: list[int]
    """The tokens of the translation, then of its alternatives."""


class Translator:
    """Translates lines. Threads may share it.

    `seq2see.load` makes one from a model directory; the constructor takes the parts themselves.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizers: TokenizerPair,
        languages: tuple[str, str] = ("und", "und"),
        max_tokens: int | None = None,
        bundle: Bundle | None = None,
        engine_notes: Sequence[str] = (),
        threads: int = 1,
    ) -> None:
        self.engine = engine
        self.tokenizers = tokenizers
        self.languages = languages
        self.max_tokens = max_tokens or DEFAULT_MAX_TOKENS
        """The most tokens that are translated at once."""
        self.engine_notes = tuple(engine_notes)
        """What a user should know about the choice of the engine."""
        self.threads = threads
        """How many cut text into pieces, and put it together; the engine has its own."""
        self._bundle = bundle

    @property
    def bundle(self) -> Bundle:
        """What it was loaded from."""
        if self._bundle is None:
            raise InputError("this translator was made from parts, not from a model directory")
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
        self,
        text: str | Iterable[str],
        options: TranslationOptions | None = None,
        **settings: Any,
    ) -> Translation | list[Translation]:
        """Translate a line, or lines in their order. `settings` are fields of the options and of
        their search: `translate(lines, beam_size=5, alignment=True)`."""
        options = (options or DEFAULT_OPTIONS).with_settings(settings)
        wishes = self._wishes(options)
        if isinstance(text, str):
            return self._translated([text], options, wishes, 0)[0]
        return self._translated(list(check_lines(text)), options, wishes, 0)

    def stream(
        self,
        lines: Iterable[str],
        options: TranslationOptions | None = None,
        *,
        first_line: int = 0,
        chunk_size: int | None = None,
        **settings: Any,
    ) -> Iterator[Translation]:
        """Yield the translation of each line in order; memory does not grow with their number.

        `first_line` is the number of the first, for sampling that goes on. `at_once` lines are
        read before the first answer; left out, few at first and more later.
        """
        options = (options or DEFAULT_OPTIONS).with_settings(settings)
        wishes = self._wishes(options)
        rest, size = iter(check_lines(lines)), chunk_size or FIRST_CHUNK_LINES
        while part := list(islice(rest, size)):
            yield from self._translated(part, options, wishes, first_line)
            first_line += len(part)
            size = chunk_size or min(2 * size, MAX_CHUNK_LINES)

    def score(
        self, pairs: Iterable[tuple[str, str]], length_penalty: float = 1.0
    ) -> list[PairScore]:
        """Return what the model thinks of given translations, whole as they are."""
        sides = zip(*check_pairs(pairs), strict=True)
        sources, targets = [list(side) for side in sides] or ([], [])
        ids = self.tokenizers.target.encode_batch(targets)
        ended = [[*target, self.engine.special_tokens.target_eos_id] for target in ids]
        given = list(zip(self.tokenizers.source.encode_batch(sources), ended, strict=True))
        found = self.engine.score_targets(given)
        return [
            self._scored(target, forced.log_probs, length_penalty)
            for (_, target), forced in zip(given, found, strict=True)
        ]

    def _scored(
        self, target: Sequence[int], log_probs: Sequence[float], length_penalty: float
    ) -> PairScore:
        tokenizer, log_prob = self.tokenizers.target, sum(log_probs)
        text = tokenizer.decode(target[:-1])
        pieces = build_scored_tokens(tokenizer, target, log_probs, text)
        return PairScore(log_prob, log_prob / len(target) ** length_penalty, pieces)

    def _translated(
        self,
        lines: Sequence[str],
        options: TranslationOptions,
        wishes: LexicalConstraints | None,
        first_line: int,
    ) -> list[Translation]:
        cutter = LineSplitter(
            self.tokenizers.source, self.languages, self.max_tokens, options.split, self.threads
        )
        cut = cutter.split(lines)
        done = iter(self._done(list(self._jobs(cut, first_line)), options, wishes))
        result = []
        for line in cut:
            own = [next(done) for _ in line.segments]
            result.append(
                cutter.merge(line, [d.translation for d in own], [d.token_counts for d in own])
            )
        return result

    def _done(
        self,
        jobs: Sequence[SegmentRequest],
        options: TranslationOptions,
        wishes: LexicalConstraints | None,
    ) -> list[SegmentResult]:
        """Do the jobs, and describe what is found; most engines have others in hand meanwhile."""
        describer = ResultBuilder(
            self.engine, self.tokenizers, self._same_language, wishes, self.threads
        )
        done: dict[int, SegmentResult] = {}
        for places, found in self._searched(jobs, options, wishes):
            segments = [jobs[place].segment for place in places]
            translations = describer.build_translations(segments, found, options)
            sizes = [[len(hypothesis.tokens) for hypothesis in some] or [1] for some in found]
            done.update(zip(places, map(SegmentResult, translations, sizes), strict=True))
        return [done[place] for place in range(len(jobs))]

    def _jobs(self, lines: Sequence[SegmentedLine], first_line: int) -> Iterator[SegmentRequest]:
        framing = self.engine.special_tokens
        ends = sum(end is not None for end in (framing.source_bos_id, framing.source_eos_id))
        for number, line in enumerate(lines, first_line):
            for place, segment in enumerate(line.segments):
                source = SearchInput(len(segment.ids) + ends, number + place * SENTENCE_STRIDE)
                yield SegmentRequest(segment, source, is_first=place == 0)

    def _wishes(self, options: TranslationOptions) -> LexicalConstraints | None:
        return (
            LexicalConstraints(options, self.tokenizers.target, self.languages[1])
            if options.has_constraints
            else None
        )

    def _searched(
        self,
        jobs: Sequence[SegmentRequest],
        options: TranslationOptions,
        wishes: LexicalConstraints | None,
    ) -> Iterator[BatchResult]:
        sentences = [job.segment.ids for job in jobs]
        sources = [job.search_input for job in jobs]
        if wishes is None:
            yield from self.engine.search(sentences, sources, options.search)
            return
        sources = [
            wishes.constrain_input(job.search_input, job.segment.span.text, job.is_first)
            for job in jobs
        ]
        found = self._without_forbidden(sentences, sources, options, wishes)
        yield BatchResult(range(len(jobs)), found)

    def _without_forbidden(
        self,
        sentences: Sequence[Sequence[int]],
        sources: list[SearchInput],
        options: TranslationOptions,
        wishes: LexicalConstraints,
    ) -> list[list[Hypothesis]]:
        """Search, and search anew where a forbidden word came up, now without those pieces.

        To forbid its usual pieces from the start would also forbid longer words that begin so.
        """
        results: list[list[Hypothesis]] = [[] for _ in sentences]
        places = list(range(len(sentences)))
        for _ in range(MAX_FORBIDDEN_SEARCHES):
            chosen = [sentences[place] for place in places], [sources[place] for place in places]
            found = collect_in_order(
                self.engine.search(*chosen, options.search, wishes.build_processors)
            )
            again = []
            for place, hypotheses in zip(places, found, strict=True):
                results[place] = hypotheses
                wrong = {v for h in hypotheses for v in self._violations(h, wishes)}
                if new := wrong.difference(sources[place].forbidden):
                    more = (*sources[place].forbidden, *sorted(new))
                    sources[place] = replace(sources[place], forbidden=more)
                    again.append(place)
            places = again
            if not places:
                break
        return results

    def _violations(
        self, hypothesis: Hypothesis, wishes: LexicalConstraints
    ) -> Iterator[tuple[int, ...]]:
        ids = hypothesis.tokens_without_eos
        yield from wishes.find_violations(ids, self.tokenizers.target.decode(ids))

    @property
    def _same_language(self) -> bool:
        return self.languages[0] == self.languages[1]


def load(
    path: Path | str | Sequence[Path | str],
    engine: EngineName = "auto",
    device: str = "auto",
    threads: int | None = None,
    precision: Precision = "float32",
) -> Translator:
    """Return the translator of a model directory, or of several as one: an ensemble, on torch.

    `engine` is torch, ctranslate2, or auto: ctranslate2 for whatever it does in the same way,
    torch for the rest. `threads` is how many of the CPU's it uses; left out, all. `precision`
    int8 is faster and a little less exact; it is used only if it passes a check on this CPU.
    What came of these wishes is in `Translator.notes`.
    """
    homes = [Path(path)] if isinstance(path, str | Path) else [*map(Path, path)]
    if not homes:
        raise InputError("there must be a model directory at least, but there is none")
    bundle, config = _read(homes[0])
    others = [Bundle.load(home) for home in homes[1:]]
    chosen = load_engine(
        bundle,
        homes[0],
        config,
        engine=engine,
        device=device,
        threads=threads,
        precision=precision,
        ensemble=others,
    )
    known = [limit for each in (bundle, *others) for limit in _limits(each)]
    return Translator(
        chosen.engine,
        bundle.tokenizers,
        bundle.languages,
        min(known, default=None),
        bundle,
        chosen.notes,
        resolve_threads(threads),
    )


def _limits(bundle: Bundle) -> Iterator[int]:
    """Yield how many tokens a sentence may have: as in training, and where the positions end."""
    if bundle.max_length is not None:
        yield bundle.max_length
    if bundle.config.max_positions is not None:
        yield bundle.config.max_positions - len(add_special_tokens([], bundle.special_tokens))


def _read(home: Path) -> tuple[Bundle, bytes]:
    """Return a bundle and its `config.json`; another model may come in between."""
    while True:
        config = files.read_config(home)
        bundle = Bundle.load(home)
        if config == files.read_config(home):
            return bundle, config
