"""The CTranslate2 engine: fast search on CPUs with a converted model.

It runs only searches that give the same result as the torch engine; `FallbackEngine` searches all
others with torch, and nothing is approximated. The supported settings are listed below; a setting
that is not listed must have its default value. One difference shows only in the result: CTranslate2
may emit the start token or padding, which the torch engine never does. A trained model gives these
tokens too little probability to displace other hypotheses.

int8 is used only after a check, because its sums saturate on some CPUs, which ruins translations
without an error. A few probe sentences, which training writes to the model directory, are
translated on the current CPU with int8 and float32 and must be similar.
"""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from seq2see.bundle import Bundle
from seq2see.cancellation import check_cancelled
from seq2see.engines.base import BatchResult
from seq2see.engines.batching import add_special_tokens, batch_by_length
from seq2see.engines.ctranslate2_conversion import (
    DEFAULT_MAX_POSITIONS,
    CachedConversion,
    flatten_settings,
)
from seq2see.registries import Precision
from seq2see.search import Hypothesis, LengthConfig, SearchConfig, SentenceSearchInput

CPU: torch.device = torch.device("cpu")
PROBE_FILE = "probes.txt"
"""Name of the file in the model directory with source sentences, one per line."""
MIN_INT8_CHRF = 80.0
"""Minimum chrF of int8 with float32 as reference. Without saturation it is above 90."""
MAX_BATCH_TOKENS = 2048
"""Source tokens per batch. Larger batches only wait for their longest sentence."""
QUEUED_BATCHES_PER_THREAD = 4
"""Batches of one call that run or wait, per thread. CTranslate2 processes its queue in order and
cannot remove batches from it, so more would delay other callers."""

SUPPORTED_SEARCH_SETTINGS = frozenset(
    {"beam_size", "n_best", "length_penalty", "stop_rule"}
    | {"length.max_ratio", "length.max_extra", "length.max_length"}
)
"""Settings of a search that may have any value; of `stop_rule`, see `unsupported_reason`. With the
others, such as samples and penalties, CTranslate2 returns other translations or scores."""
SUPPORTED_INPUT_FIELDS = frozenset({"source_ids"})
"""Fields of `SentenceSearchInput` that may have any value."""
UNSUPPORTED_INPUT_REASON = "it does not support prefix, forbidden phrases or glossary"


class _Sentence(NamedTuple):
    """A sentence to translate."""

    input_index: int
    pieces: Sequence[str]
    """Pieces of the source, with special tokens."""
    max_length: int
    """Maximum length of the translation."""


def read_probe_sentences(model_directory: Path) -> list[str]:
    """Return the probe sentences of a model directory, or an empty list if it has none."""
    try:
        return list(filter(None, (model_directory / PROBE_FILE).read_text("utf-8").split("\n")))
    except OSError:
        return []


def int8_quality_problem(
    model_directory: Path,
    conversion: CachedConversion,
    float32: CTranslate2Engine,
    int8: CTranslate2Engine,
) -> str | None:
    """Return why int8 cannot be used on this CPU, or None.

    The measured result is stored in the manifest of the converted model.
    """
    sentences = read_probe_sentences(model_directory)
    if not sentences:
        return (
            f"its quality cannot be checked, because {model_directory} has no {PROBE_FILE}: "
            "write some dozens of source sentences to this file, one per line"
        )
    digest = hashlib.sha256("\n".join(sentences).encode()).hexdigest()
    key = f"{_cpu_model()}, {len(sentences)} probes {digest[:12]}"
    results = conversion.int8_chrf
    if key not in results:
        from seq2see import metrics  # noqa: PLC0415  # slow to import

        hypotheses, references = (e.translate_greedily(sentences) for e in (int8, float32))
        chrf = metrics.compute_metric_score(hypotheses, references, "chrf").value
        results[key] = round(chrf, 2)
        with suppress(OSError):  # if the directory is not writable, it is measured again next time
            conversion.write_manifest()
    if results[key] >= MIN_INT8_CHRF:
        return None
    return (
        f"it fails on this CPU: chrF {results[key]:.1f} with float32 as reference, "
        f"below {MIN_INT8_CHRF:.0f}"
    )


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def find_ctranslate2_device_problem(device: torch.device = CPU) -> str | None:
    """Return why CTranslate2 cannot be imported or cannot use a device, or None."""
    try:
        import ctranslate2  # type: ignore[import-untyped] # noqa: PLC0415
    except ImportError:
        return "it is not installed: pip install 'seq2see[fast]'"
    try:
        ctranslate2.get_supported_compute_types(device.type, device.index or 0)
    except (RuntimeError, ValueError) as error:
        return f"it cannot use the device {device}: {error}"
    return None


class CTranslate2Engine:
    """Searches with a converted model. It is thread-safe.

    Args:
        bundle: The model that was converted.
        directory: Directory of the converted model.
        precision: Number format of the weights, float32 or int8.
        device: A CPU or a CUDA device.
        threads: Number of batches that are translated in parallel, with one thread each.
        max_batch_size: Maximum number of sentences per batch. By default there is no limit.
    """

    name = "ctranslate2"

    def __init__(
        self,
        bundle: Bundle,
        directory: Path,
        *,
        precision: Precision = "float32",
        device: torch.device = CPU,
        threads: int = 1,
        max_batch_size: int | None = None,
    ) -> None:
        import ctranslate2  # noqa: PLC0415  # optional dependency

        self.special_tokens = bundle.special_tokens
        self.tokenizers = bundle.tokenizers
        self._source_pieces = bundle.tokenizers.source.pieces
        target_pieces = bundle.tokenizers.target.pieces
        self._target_ids = {piece: i for i, piece in enumerate(target_pieces)}
        suppressed = {bundle.special_tokens.decoder_start_id, bundle.config.pad_id}
        suppressed -= {bundle.special_tokens.target_eos_id}
        self._suppressed_pieces = frozenset(target_pieces[i] for i in suppressed)
        self.precision = precision
        self._max_positions = bundle.config.max_positions or DEFAULT_MAX_POSITIONS
        self._max_batch_size = max_batch_size
        self._max_queued_batches = QUEUED_BATCHES_PER_THREAD * threads
        self.model = ctranslate2.Translator(
            str(directory),
            device=device.type,
            device_index=device.index or 0,
            compute_type=precision,
            inter_threads=threads,  # several threads in one search would wait for each other
            intra_threads=1,
            max_queued_batches=-1,
        )

    def unsupported_reason(self, config: SearchConfig) -> str | None:
        """Return why searches with this config would differ from the torch engine, or None."""
        for setting, value, default in flatten_settings(config):
            if setting not in SUPPORTED_SEARCH_SETTINGS and value != default:
                return f"its results are different with `{setting}`"
        is_exact = config.beam_size == 1 or (not config.length_penalty and config.n_best == 1)
        if config.stop_rule != "beam_full" and not is_exact:
            return "its search stops when the beam is full, not by the stop rule `exact`"
        return None

    def unsupported_input_reason(
        self, search_input: SentenceSearchInput, config: SearchConfig
    ) -> str | None:
        """Return why the search for one sentence would differ from the torch engine, or None."""
        for field in dataclasses.fields(search_input):
            is_set = getattr(search_input, field.name) != field.default
            if is_set and field.name not in SUPPORTED_INPUT_FIELDS:
                return UNSUPPORTED_INPUT_REASON
        max_length = search_input.max_target_length(config.length)
        if max(len(search_input.source_ids), max_length) > self._max_positions:
            return f"it supports at most {self._max_positions} positions"
        return None

    def search(
        self, inputs: Sequence[SentenceSearchInput], config: SearchConfig
    ) -> Iterator[BatchResult]:
        """Search for translations, and yield the result of each batch.

        There is no result for sentences that must be searched with torch: those for which
        `unsupported_reason` or `unsupported_input_reason` returns a reason, and those for which
        CTranslate2 emitted the start token or padding.
        """
        if self.unsupported_reason(config):
            return
        sentences = [
            _Sentence(
                index,
                [self._source_pieces[i] for i in search_input.source_ids],
                search_input.max_target_length(config.length),
            )
            for index, search_input in enumerate(inputs)
            if not self.unsupported_input_reason(search_input, config)
        ]
        # Without a length penalty, requesting all hypotheses would change when the search stops.
        has_one_limit = config.beam_size > 1 and not config.length_penalty
        yield from self._search_batches(self._make_batches(sentences, has_one_limit), config)

    def translate_greedily(self, lines: Sequence[str]) -> list[str]:
        """Return the translation of each line; sentences that are too long become empty."""
        length = LengthConfig(max_length=min(self._max_positions, LengthConfig().max_length))
        inputs = [
            SentenceSearchInput(add_special_tokens(ids, self.special_tokens))
            for ids in self.tokenizers.source.encode_batch(lines)
        ]
        texts = [""] * len(lines)
        config = SearchConfig(beam_size=1, stop_rule="beam_full", length=length)
        for batch in self.search(inputs, config):
            for i, (best, *_) in zip(*batch, strict=True):
                texts[i] = self.tokenizers.target.decode(best.tokens_without_eos)
        return texts

    def _search_batches(
        self, batches: Iterator[list[_Sentence]], config: SearchConfig
    ) -> Iterator[BatchResult]:
        """Yield the results of all batches.

        A call of CTranslate2 has one length limit for all its sentences. If a translation ends
        before the limit of its own sentence, a higher limit makes no difference. Otherwise it has
        exceeded its limit and is repeated in a batch of sentences with the same limit.
        """
        retries: deque[list[_Sentence]] = deque()
        running: deque[tuple[list[_Sentence], int, list[Any]]] = deque()
        while True:
            check_cancelled()
            while len(running) < self._max_queued_batches:
                batch = retries.popleft() if retries else next(batches, None)
                if batch is None:
                    break
                max_length = max(sentence.max_length for sentence in batch)
                rows = [sentence.pieces for sentence in batch]
                running.append((batch, max_length, self._start_batch(rows, max_length, config)))
            if not running:
                return
            batch, max_length, futures = running.popleft()
            complete: dict[int, list[Hypothesis]] = {}
            exceeded = []
            for sentence, future in zip(batch, futures, strict=True):
                result = future.result()
                hypotheses = result.hypotheses  # the property builds a new list on each access
                if max_length > sentence.max_length <= max(map(len, hypotheses)):
                    exceeded.append(sentence)
                elif not self._has_suppressed_token(hypotheses):
                    scored = islice(zip(hypotheses, result.scores, strict=True), config.n_best)
                    complete[sentence.input_index] = [
                        self._build_hypothesis(*each, config.length_penalty) for each in scored
                    ]
            retries.extend(self._make_batches(exceeded, has_one_limit=True))
            yield BatchResult([*complete], [*complete.values()])

    def _make_batches(
        self, sentences: Sequence[_Sentence], has_one_limit: bool
    ) -> Iterator[list[_Sentence]]:
        """Yield batches; with `has_one_limit`, all sentences of a batch have the same limit."""
        groups: dict[int, list[_Sentence]] = {}
        for sentence in sentences:
            groups.setdefault(sentence.max_length if has_one_limit else 0, []).append(sentence)
        for group in groups.values():
            lengths = [len(sentence.pieces) for sentence in group]
            for batch in batch_by_length(lengths, MAX_BATCH_TOKENS, self._max_batch_size):
                yield [group[i] for i in batch]

    def _start_batch(
        self, rows: Sequence[Sequence[str]], max_length: int, config: SearchConfig
    ) -> list[Any]:
        """Start the translation of a batch, and return the futures of its results."""
        returns_beam = config.beam_size > 1 and config.length_penalty > 0
        futures: list[Any] = self.model.translate_batch(
            rows,
            asynchronous=True,
            beam_size=config.beam_size,
            num_hypotheses=config.beam_size if returns_beam else config.n_best,
            length_penalty=config.length_penalty,
            max_input_length=0,  # otherwise long sources are truncated without an error
            max_decoding_length=max_length,
            min_decoding_length=0,  # 1 would exclude the end token from the first softmax
            return_scores=True,
            return_end_token=True,
        )
        return futures

    def _build_hypothesis(self, pieces: Sequence[str], score: float, alpha: float) -> Hypothesis:
        tokens = tuple(self._target_ids[piece] for piece in pieces)
        is_finished = tokens[-1:] == (self.special_tokens.target_eos_id,)
        return Hypothesis(tokens, is_finished, score, score * len(tokens) ** alpha, ())

    def _has_suppressed_token(self, hypotheses: Sequence[Sequence[str]]) -> bool:
        """Return whether a hypothesis contains a token that the torch engine never emits."""
        return not all(map(self._suppressed_pieces.isdisjoint, hypotheses))
