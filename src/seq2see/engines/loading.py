"""Loading of an inference engine: backend, device, threads and precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Literal

import torch

from seq2see.bundle import Bundle
from seq2see.cpu import resolve_threads, tune_malloc
from seq2see.engines import ctranslate2_conversion, ctranslate2_engine
from seq2see.engines.base import (
    BatchResult,
    ProcessorFactory,
    TargetScores,
    TokenIds,
    collect_in_order,
    resolve_search_config,
)
from seq2see.engines.batching import add_special_tokens
from seq2see.engines.ctranslate2_conversion import CacheNotWritableError
from seq2see.engines.ctranslate2_engine import CTranslate2Engine, Precision
from seq2see.engines.torch_decoder import AlignmentConfig
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, InputError
from seq2see.search import SearchConfig, SearchInput, StopRule

EngineName = Literal["auto", "torch", "ctranslate2"]


STOP_RULE_NOTE = "stop_rule"
"""The note in a model's directory that names its stop rule."""


ENGINE_NAMES: tuple[EngineName, ...] = ("auto", "torch", "ctranslate2")


class FallbackEngine:
    """Both engines of a model as one. Our own is made when it is first needed."""

    def __init__(
        self,
        load_torch: Callable[[], TorchEngine],
        ctranslate2_engine: CTranslate2Engine,
        stop_rule: StopRule,
        max_positions: int | None,
        *,
        requires_ctranslate2: bool,
    ) -> None:
        self._make = load_torch
        self.ctranslate2_engine = ctranslate2_engine
        """ctranslate2."""
        self._stop: StopRule = stop_rule
        self._longest = max_positions
        """The model's positions, where they are counted."""
        self._strict = requires_ctranslate2
        """Refuse what ctranslate2 cannot do, instead of doing it ourselves."""
        self._lock = Lock()
        self._own: TorchEngine | None = None
        self.special_tokens = ctranslate2_engine.special_tokens

    @property
    def name(self) -> str:
        """What users call it; which engine has the beams is the model's stop rule to say."""
        name = f"{self.ctranslate2_engine.name} ({self.ctranslate2_engine.precision})"
        return name if self._stop == "beam_full" else f"{name}, beams on torch"

    @property
    def torch_engine(self) -> TorchEngine:
        """Our own engine."""
        with self._lock:
            if self._own is None:
                self._own = self._make()
            return self._own

    def resolve_config(self, config: SearchConfig) -> SearchConfig:
        """Return a search with all that was left to the model."""
        return resolve_search_config(config, self._stop, self._longest)

    def search(
        self,
        source_ids: Sequence[TokenIds],
        inputs: Sequence[SearchInput],
        config: SearchConfig,
        processor_factory: ProcessorFactory | None = None,
    ) -> Iterator[BatchResult]:
        """Search with ctranslate2, and what it cannot do or did not find with our own engine."""
        config = self.resolve_config(config)
        if self._strict:
            self._refuse(config, processor_factory)
            quick = list(range(len(inputs)))
        elif self.ctranslate2_engine.unsupported_reason(config):
            quick = []
        else:
            quick = [
                i
                for i, s in enumerate(inputs)
                if not self.ctranslate2_engine.unsupported_reason(config, s)
            ]
        rest = set(range(len(inputs)))
        chosen = [source_ids[i] for i in quick], [inputs[i] for i in quick]
        for batch in self.ctranslate2_engine.search(*chosen, config):
            done = {quick[place]: each for place, each in zip(*batch, strict=True) if each}
            rest.difference_update(done)
            yield BatchResult([*done], [*done.values()])
        if rest:
            slow = sorted(rest)
            chosen = [source_ids[i] for i in slow], [inputs[i] for i in slow]
            for places, found in self.torch_engine.search(*chosen, config, processor_factory):
                yield BatchResult([slow[place] for place in places], found)

    def _refuse(self, config: SearchConfig, processors: ProcessorFactory | None) -> None:
        """Refuse what ctranslate2 cannot do at the first line, not at the first that needs it."""
        reason = self.ctranslate2_engine.unsupported_reason(config)
        if processors is not None:
            reason = "it knows no prefix, forbidden words or glossary"
        if reason:
            raise ConfigError([f"`engine` must be auto or torch, not ctranslate2: {reason}"])

    def score_targets(
        self, pairs: Sequence[tuple[TokenIds, TokenIds]], *, attention: bool = False
    ) -> list[TargetScores]:
        """Return what the model thinks of each target; our own engine tells."""
        return self.torch_engine.score_targets(pairs, attention=attention)


@dataclass(frozen=True, slots=True)
class LoadedEngine:
    """An engine, and what a user should know about its choice."""

    engine: TorchEngine | FallbackEngine
    notes: tuple[str, ...] = ()


def load_engine(
    bundle: Bundle,
    directory: Path,
    config_json: bytes,
    *,
    engine: EngineName,
    device: str,
    threads: int | None,
    precision: Precision,
    ensemble: Sequence[Bundle] = (),
) -> LoadedEngine:
    """Return the engine of a model directory that this request means.

    `config` is the content of its `config.json`; `others` are asked together with it.
    """
    _check(engine, precision, threads)
    device = _device(device)
    if threads is not None:
        torch.set_num_threads(threads)  # of the whole process: torch has no other way
    workers = resolve_threads(threads)
    if ensemble and engine == "ctranslate2":
        raise ConfigError(["`engine` must be auto or torch, not ctranslate2: it asks one model"])
    if ensemble or engine == "torch" or (engine == "auto" and device != "cpu"):
        return LoadedEngine(load_torch_engine(bundle, device, workers, ensemble))
    strict = engine == "ctranslate2"
    reason = ctranslate2_problem(bundle)
    if reason is None:
        try:
            fast, notes = _fast(bundle, directory, config_json, precision, device, workers)
        except CacheNotWritableError as error:
            reason = str(error)
    if reason and strict:
        raise InputError(f"ctranslate2 cannot run this model: {reason}")
    own = partial(load_torch_engine, bundle, device, workers)
    if reason:
        return LoadedEngine(own(), (f"ctranslate2 is not used: {reason}",))
    stop = "beam_full" if strict else read_stop_rule(bundle)
    return LoadedEngine(
        FallbackEngine(own, fast, stop, bundle.config.max_positions, requires_ctranslate2=strict),
        notes,
    )


def load_torch_engine(
    bundle: Bundle, device: str = "cpu", threads: int = 1, ensemble: Sequence[Bundle] = ()
) -> TorchEngine:
    """Return our own engine with a bundle's model; several workers are for a CPU alone.

    From then on the process keeps memory that it frees: a beam search asks for the same sizes at
    every step.
    """
    tune_malloc()
    return TorchEngine(
        bundle.build_model().to(device),
        bundle.special_tokens,
        read_alignment_config(bundle),
        read_stop_rule(bundle) if not ensemble else "exact",
        threads=threads if device == "cpu" else 1,
        ensemble=[_fitting(bundle, other).build_model().to(device) for other in ensemble],
    )


def _fitting(bundle: Bundle, other: Bundle) -> Bundle:
    """Return the other one, if both can be asked for the next piece together."""
    if other.languages != bundle.languages:
        ours, theirs = ("→".join(each.languages) for each in (bundle, other))
        raise InputError(f"an ensemble's models must translate {ours}, but one does {theirs}")
    sides = [(b.tokenizers.source.pieces, b.tokenizers.target.pieces) for b in (bundle, other)]
    if sides[0] != sides[1] or bundle.special_tokens != other.special_tokens:
        raise InputError("an ensemble's models must share their pieces, but have different ones")
    return other


def read_alignment_config(bundle: Bundle) -> AlignmentConfig:
    """Return the heads that were chosen for a model, where that was done."""
    chosen = AlignmentConfig.model_validate(bundle.provenance.notes.get("alignment", {}))
    if problems := list(chosen.find_problems(bundle.config)):
        raise ConfigError([p.replace("`", "`provenance.notes.alignment.", 1) for p in problems])
    return chosen


def read_stop_rule(bundle: Bundle) -> StopRule:
    """Return the rule by which a model's beams stop unless another is named."""
    return "beam_full" if bundle.provenance.notes.get(STOP_RULE_NOTE) == "beam_full" else "exact"


def ctranslate2_problem(bundle: Bundle) -> str | None:
    """Return why ctranslate2 cannot run a model here, if so."""
    return ctranslate2_engine.import_problem() or next(
        ctranslate2_conversion.unsupported_features(bundle.config), None
    )


def _fast(
    bundle: Bundle, home: Path, config: bytes, wanted: Precision, device: str, workers: int
) -> tuple[CTranslate2Engine, tuple[str, ...]]:
    def opened(kind: Precision) -> CTranslate2Engine:
        return CTranslate2Engine.from_bundle(
            bundle, home, config, precision=kind, device=device, threads=workers
        )

    full = opened("float32")
    if wanted == "float32":
        return full, ()
    quick = opened("int8")
    probes = [_greedy(engine, bundle.config.max_positions) for engine in (full, quick)]
    reason = ctranslate2_engine.int8_problem(home, full.directory, *probes)
    return (full, (f"int8 is not used: {reason}",)) if reason else (quick, ())


def _greedy(engine: CTranslate2Engine, longest: int | None) -> Callable[[list[str]], list[str]]:
    """Return what translates probe sentences; those that are too long come out empty."""
    tokenizers = engine.tokenizers
    config = resolve_search_config(SearchConfig(beam_size=1), "beam_full", longest)

    def translate(lines: list[str]) -> list[str]:
        ids = tokenizers.source.encode_batch(lines)
        sources = [
            SearchInput(len(add_special_tokens(sentence, engine.special_tokens)))
            for sentence in ids
        ]
        fitting = [
            i for i, source in enumerate(sources) if not engine.unsupported_reason(config, source)
        ]
        chosen = [ids[i] for i in fitting], [sources[i] for i in fitting]
        found = collect_in_order(engine.search(*chosen, config))
        texts = [""] * len(lines)
        for i, hypotheses in zip(fitting, found, strict=True):
            texts[i] = (
                tokenizers.target.decode(hypotheses[0].tokens_without_eos) if hypotheses else ""
            )
        return texts

    return translate


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (AssertionError, RuntimeError):  # torch raises the one or the other
        here = ", ".join(_devices())
        problem = f"`device` must be one that is here ({here}), but is {name} instead"
        raise ConfigError([problem]) from None
    return name


def _devices() -> Iterator[str]:
    """Yield what the usual devices of this machine are called."""
    yield from ("auto", "cpu")
    yield from (f"cuda:{number}" for number in range(torch.cuda.device_count()))
    if torch.backends.mps.is_available():
        yield "mps"


def _check(engine: str, precision: str, threads: int | None) -> None:
    problems = list(_problems(engine, precision, threads))
    if problems:
        raise ConfigError(problems)


def _problems(engine: str, precision: str, threads: int | None) -> Iterator[str]:
    if engine not in ENGINE_NAMES:
        yield f"`engine` must be one of {', '.join(ENGINE_NAMES)}, but is {engine!r} instead"
    if precision not in {"float32", "int8"}:
        yield f"`precision` must be float32 or int8, but is {precision!r} instead"
    if threads is not None and threads < 1:
        yield f"`threads` must be at least 1, but is {threads} instead"
