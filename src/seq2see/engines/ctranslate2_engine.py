"""The CTranslate2 engine: fast search on CPUs with a converted model."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from seq2see.bundle import Bundle
from seq2see.engines import ctranslate2_conversion
from seq2see.engines.base import BatchResult, ProcessorFactory, TokenIds
from seq2see.engines.batching import add_special_tokens, batch_by_length
from seq2see.errors import InputError
from seq2see.search import Hypothesis, SearchConfig, SearchInput

PROBE_FILE = "probes.txt"
"""Source sentences, one a line, in the model directory."""


MIN_INT8_CHRF = 80.0
"""chrF of int8 with float32 as reference. A healthy int8 has above 90; saturation leaves rubble."""


INT8_RESULTS_FILE = "int8.json"
"""In the directory of the converted model: the result of each CPU, and of each set of probes."""


ProbeTranslator = Callable[[list[str]], list[str]]


def read_probe_sentences(model_directory: Path) -> list[str]:
    """Return the probe sentences of a model directory; none, if it has none."""
    try:
        return list(filter(None, (model_directory / PROBE_FILE).read_text("utf-8").split("\n")))
    except OSError:
        return []


def int8_problem(
    model_directory: Path,
    converted_directory: Path,
    translate_float32: ProbeTranslator,
    translate_int8: ProbeTranslator,
) -> str | None:
    """Return why int8 is not used here, if so. What was measured is kept with the conversion."""
    sentences = read_probe_sentences(model_directory)
    if not sentences:
        return (
            f"its quality cannot be checked, for {model_directory} has no {PROBE_FILE}: put some dozens of source "
            "sentences there, one a line"
        )
    path, case = converted_directory / INT8_RESULTS_FILE, _case(sentences)
    known = _read(path)
    if case not in known:
        from seq2see import metrics  # noqa: PLC0415  # scorers take long to import

        found = metrics.score(translate_int8(sentences), translate_float32(sentences), "chrf")
        known[case] = round(found.value, 2)
        with suppress(OSError):  # a directory that cannot be written: measured again next time
            path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    if known[case] >= MIN_INT8_CHRF:
        return None
    return (
        f"it fails on this CPU: chrF {known[case]:.1f} with float32 as reference, "
        f"below {MIN_INT8_CHRF:.0f}"
    )


def _read(path: Path) -> dict[str, float]:
    try:
        table = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(cpu): float(value) for cpu, value in table.items()}


def _case(sentences: list[str]) -> str:
    """Return what the result depends on: the kind of CPU, and what was translated."""
    digest = hashlib.sha256("\n".join(sentences).encode()).hexdigest()
    return f"{_cpu()}, {len(sentences)} probes {digest[:12]}"


def _cpu() -> str:
    """Return what tells this kind of CPU from others."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


Precision = Literal["float32", "int8"]


PieceSequence = Sequence[str]
"""The pieces of a sentence, with its ends."""


MAX_BATCH_TOKENS = 2048
"""Source tokens that a worker searches at once; more only wait for the longest among them."""


QUEUED_BATCHES_PER_THREAD = 4
"""Batches of a call that are under way for each thread, or wait. Its queue knows no order but that
of coming, and nothing is ever taken out of it: more would keep others waiting."""


def import_problem() -> str | None:
    """Return why it cannot be used here at all, if so."""
    try:
        import ctranslate2  # type: ignore[import-untyped] # noqa: F401, PLC0415
    except ImportError:
        return "it is not installed: pip install 'seq2see[fast]'"
    return None


class CTranslate2Engine:
    """Searches with a converted model. Threads may share it."""

    name = "ctranslate2"

    def __init__(
        self,
        bundle: Bundle,
        directory: Path,
        *,
        precision: Precision = "float32",
        device: str = "cpu",
        threads: int = 1,
        max_batch_tokens: int = MAX_BATCH_TOKENS,
        max_batch_size: int | None = None,
    ) -> None:
        import ctranslate2  # noqa: PLC0415  # an extra

        self.special_tokens = bundle.special_tokens
        self.tokenizers = bundle.tokenizers
        self.directory = directory
        self.precision = precision
        self._pad = bundle.config.pad_id
        self._longest = ctranslate2_conversion.get_max_positions(bundle.config)
        self._batch_tokens = max_batch_tokens
        self._batch_size = max_batch_size
        self._ahead = QUEUED_BATCHES_PER_THREAD * threads
        self.model = ctranslate2.Translator(
            str(directory),
            device=device,
            compute_type=precision,
            inter_threads=threads,  # several threads in one search wait for each other
            intra_threads=1,
            max_queued_batches=-1,
        )

    @classmethod
    def from_bundle(
        cls, bundle: Bundle, model_directory: Path, config_json: bytes, **settings: Any
    ) -> CTranslate2Engine:
        """Return the engine of a model directory, converted on first use.

        `config` is the content of its `config.json`, by which a replaced model is noticed.
        """
        name = ctranslate2_conversion.compute_conversion_key(
            config_json, ctranslate2_conversion.CONVERTER_VERSION
        )
        directory = ctranslate2_conversion.get_cached_conversion(
            model_directory,
            name,
            lambda path: ctranslate2_conversion.write_ctranslate2_model(bundle, path),
        )
        return cls(bundle, directory, **settings)

    def unsupported_reason(
        self, config: SearchConfig, search_input: SearchInput | None = None
    ) -> str | None:
        """Return why a search would not come out as with our own engine, if so."""
        return next(self._refusals(config, search_input), None)

    def _refusals(self, config: SearchConfig, source: SearchInput | None) -> Iterator[str]:
        if config.sampling:
            yield "it draws other samples"
        if config.num_beam_groups > 1:
            yield "it has no diverse beams"
        if config.coverage_penalty:
            yield "it counts coverage in another way"
        if config.repetition_penalty > 1 or config.no_repeat_ngram_size:
            yield "its scores would hold the penalty for repetition"
        if config.length.min_ratio:
            yield "its scores would leave out what a least length forbids"
        exact_anyway = config.beam_size == 1 or (not config.length_penalty and config.n_best == 1)
        if config.stop_rule != "beam_full" and not exact_anyway:
            yield "its beams stop when they are full, not when nothing better can come"
        if source is None:
            return
        if source.prefix or source.forbidden or source.required:
            yield "it does not know our constraints"
        if max(source.source_length, source.max_target_length(config.length)) > self._longest:
            yield f"it has no more than {self._longest} positions"

    def search(
        self,
        source_ids: Sequence[TokenIds],
        inputs: Sequence[SearchInput],
        config: SearchConfig,
        processor_factory: ProcessorFactory | None = None,  # noqa: ARG002  # only constraints have some
    ) -> Iterator[BatchResult]:
        """Search, and yield batch after batch; no translation where it found the impossible."""
        for source in inputs:
            if reason := self.unsupported_reason(config, source):
                raise InputError(f"ctranslate2 cannot do this: {reason}")
        limits = [source.max_target_length(config.length) for source in inputs]
        rows = [
            [self._source_pieces[i] for i in add_special_tokens(s, self.special_tokens)]
            for s in source_ids
        ]
        # Without a length penalty, to ask for all hypotheses would change when the search stops.
        alone = config.beam_size > 1 and not config.length_penalty
        yield from self._search(rows, limits, config, alone)

    def _search(
        self,
        rows: Sequence[PieceSequence],
        limits: Sequence[int],
        config: SearchConfig,
        alone: bool,
    ) -> Iterator[BatchResult]:
        """Yield what is found.

        A call has one limit for all of its sentences. A search that ends before the limit of its
        own sentence is not touched by a higher one; one that does not is late, and is repeated
        alone, with none but sentences of the same limit.
        """

        def started(part: list[int]) -> tuple[list[int], list[Any]]:
            highest = max(limits[place] for place in part)
            return part, self._start([rows[place] for place in part], highest, config)

        fresh = self._parts(rows, limits, range(len(rows)), alone)
        again: deque[list[int]] = deque()
        running: deque[tuple[list[int], list[Any]]] = deque()
        while True:
            while len(running) < self._ahead and (part := _next(again, fresh)):
                running.append(started(part))
            if not running:
                return
            part, futures = running.popleft()
            results = [future.result() for future in futures]
            done, late = self._sorted_out(part, results, limits, config)
            again.extend(self._parts(rows, limits, late, alone=True))
            yield BatchResult([*done], [*done.values()])

    def _sorted_out(
        self,
        part: Sequence[int],
        results: Sequence[Any],
        limits: Sequence[int],
        config: SearchConfig,
    ) -> tuple[dict[int, list[Hypothesis]], list[int]]:
        """Return what was found at these places, and where it must be searched again."""
        highest = max(limits[place] for place in part)
        done: dict[int, list[Hypothesis]] = {}
        late = []
        for place, result in zip(part, results, strict=True):
            found = result.hypotheses  # made anew whenever it is looked at
            if limits[place] < highest and max(map(len, found)) >= limits[place]:
                late.append(place)
            elif self._is_impossible(found):
                done[place] = []
            else:
                scored = islice(zip(found, result.scores, strict=True), config.n_best)
                done[place] = [self._hypothesis(*each, config.length_penalty) for each in scored]
        return done, late

    def _parts(
        self,
        rows: Sequence[PieceSequence],
        limits: Sequence[int],
        places: Sequence[int],
        alone: bool,
    ) -> Iterator[list[int]]:
        """Yield places that are searched at once."""
        groups: dict[int, list[int]] = {}
        for place in places:
            groups.setdefault(limits[place] if alone else 0, []).append(place)
        for group in groups.values():
            lengths = [len(rows[place]) for place in group]
            for part in batch_by_length(lengths, self._batch_tokens, self._batch_size):
                yield [group[place] for place in part]

    def _start(self, rows: Sequence[PieceSequence], limit: int, config: SearchConfig) -> list[Any]:
        """Let a worker begin, and return what will have the results."""
        several = config.beam_size > 1 and config.length_penalty > 0
        futures: list[Any] = self.model.translate_batch(
            rows,
            asynchronous=True,
            beam_size=config.beam_size,
            num_hypotheses=config.beam_size if several else config.n_best,
            length_penalty=config.length_penalty,
            max_input_length=0,  # it would cut in silence
            max_decoding_length=limit,
            min_decoding_length=0,  # 1 would take the stop symbol out of the first step's sum
            return_scores=True,
            return_end_token=True,
        )
        return futures

    def _hypothesis(self, pieces: Sequence[str], score: float, alpha: float) -> Hypothesis:
        tokens = tuple(self._target_ids[piece] for piece in pieces)
        finished = tokens[-1:] == (self.special_tokens.target_eos_id,)
        return Hypothesis(tokens, finished, score, score * len(tokens) ** alpha, 0.0, ())

    def _is_impossible(self, hypotheses: Sequence[Sequence[str]]) -> bool:
        """Tell whether it emitted a start symbol or padding, which our own search never does."""
        return not all(map(self._never.isdisjoint, hypotheses))

    @cached_property
    def _never(self) -> frozenset[str]:
        ids = {self.special_tokens.decoder_start_id, self._pad} - {
            self.special_tokens.target_eos_id
        }
        return frozenset(self.tokenizers.target.pieces[i] for i in ids)

    @cached_property
    def _source_pieces(self) -> tuple[str, ...]:
        return self.tokenizers.source.pieces

    @cached_property
    def _target_ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.tokenizers.target.pieces)}


def _next(again: deque[list[int]], fresh: Iterator[list[int]]) -> list[int] | None:
    """Return the part to start now, if there is one: first what must be searched again."""
    return again.popleft() if again else next(fresh, None)
