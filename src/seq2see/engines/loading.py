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
from seq2see.cpu import keep_freed_memory, threads_of
from seq2see.engines import ctranslate2_conversion, ctranslate2_engine
from seq2see.engines.base import Batch, Forced, Ids, Processors, bounded, in_order
from seq2see.engines.batching import framed
from seq2see.engines.ctranslate2_conversion import NoPlaceError
from seq2see.engines.ctranslate2_engine import CTranslate2Engine, Precision
from seq2see.engines.torch_decoder import AlignmentConfig
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, InputError
from seq2see.search import SearchConfig, Source, Stop

EngineName = Literal["auto", "torch", "ctranslate2"]


STOP = "stop"
"""The note in a model's directory that names its stop rule."""


ENGINES: tuple[EngineName, ...] = ("auto", "torch", "ctranslate2")


class Engines:
    """Both engines of a model as one. Our own is made when it is first needed."""

    def __init__(
        self,
        make: Callable[[], TorchEngine],
        fast: CTranslate2Engine,
        stop: Stop,
        longest: int | None,
        *,
        strict: bool,
    ) -> None:
        self._make = make
        self.fast = fast
        """ctranslate2."""
        self._stop: Stop = stop
        self._longest = longest
        """The model's positions, where they are counted."""
        self._strict = strict
        """Refuse what ctranslate2 cannot do, instead of doing it ourselves."""
        self._lock = Lock()
        self._own: TorchEngine | None = None
        self.framing = fast.framing

    @property
    def name(self) -> str:
        """What users call it; which engine has the beams is the model's stop rule to say."""
        name = f"{self.fast.name} ({self.fast.precision})"
        return name if self._stop == "beam_full" else f"{name}, beams on torch"

    @property
    def own(self) -> TorchEngine:
        """Our own engine."""
        with self._lock:
            if self._own is None:
                self._own = self._make()
            return self._own

    def resolved(self, config: SearchConfig) -> SearchConfig:
        """Return a search with all that was left to the model."""
        return bounded(config, self._stop, self._longest)

    def search(
        self,
        sentences: Sequence[Ids],
        sources: Sequence[Source],
        config: SearchConfig,
        processors: Processors | None = None,
    ) -> Iterator[Batch]:
        """Search with ctranslate2, and what it cannot do or did not find with our own engine."""
        config = self.resolved(config)
        if self._strict:
            self._refuse(config, processors)
            quick = list(range(len(sources)))
        elif self.fast.refusal(config):
            quick = []
        else:
            quick = [i for i, s in enumerate(sources) if not self.fast.refusal(config, s)]
        rest = set(range(len(sources)))
        chosen = [sentences[i] for i in quick], [sources[i] for i in quick]
        for batch in self.fast.search(*chosen, config):
            done = {quick[place]: each for place, each in zip(*batch, strict=True) if each}
            rest.difference_update(done)
            yield Batch([*done], [*done.values()])
        if rest:
            slow = sorted(rest)
            chosen = [sentences[i] for i in slow], [sources[i] for i in slow]
            for places, found in self.own.search(*chosen, config, processors):
                yield Batch([slow[place] for place in places], found)

    def _refuse(self, config: SearchConfig, processors: Processors | None) -> None:
        """Refuse what ctranslate2 cannot do at the first line, not at the first that needs it."""
        reason = self.fast.refusal(config)
        if processors is not None:
            reason = "it knows no prefix, forbidden words or glossary"
        if reason:
            raise ConfigError([f"`engine` must be auto or torch, not ctranslate2: {reason}"])

    def force(self, pairs: Sequence[tuple[Ids, Ids]], *, attention: bool = False) -> list[Forced]:
        """Return what the model thinks of each target; our own engine tells."""
        return self.own.force(pairs, attention=attention)


@dataclass(frozen=True, slots=True)
class Chosen:
    """An engine, and what a user should know about its choice."""

    engine: TorchEngine | Engines
    notes: tuple[str, ...] = ()


def choose(
    bundle: Bundle,
    home: Path,
    config: bytes,
    *,
    engine: EngineName,
    device: str,
    threads: int | None,
    precision: Precision,
    others: Sequence[Bundle] = (),
) -> Chosen:
    """Return the engine of a model directory that this request means.

    `config` is the content of its `config.json`; `others` are asked together with it.
    """
    _check(engine, precision, threads)
    device = _device(device)
    if threads is not None:
        torch.set_num_threads(threads)  # of the whole process: torch has no other way
    workers = threads_of(threads)
    if others and engine == "ctranslate2":
        raise ConfigError(["`engine` must be auto or torch, not ctranslate2: it asks one model"])
    if others or engine == "torch" or (engine == "auto" and device != "cpu"):
        return Chosen(torch_engine(bundle, device, workers, others))
    strict = engine == "ctranslate2"
    reason = unusable(bundle)
    if reason is None:
        try:
            fast, notes = _fast(bundle, home, config, precision, device, workers)
        except NoPlaceError as error:
            reason = str(error)
    if reason and strict:
        raise InputError(f"ctranslate2 cannot run this model: {reason}")
    own = partial(torch_engine, bundle, device, workers)
    if reason:
        return Chosen(own(), (f"ctranslate2 is not used: {reason}",))
    stop = "beam_full" if strict else stop_of(bundle)
    return Chosen(Engines(own, fast, stop, bundle.config.longest, strict=strict), notes)


def torch_engine(
    bundle: Bundle, device: str = "cpu", workers: int = 1, others: Sequence[Bundle] = ()
) -> TorchEngine:
    """Return our own engine with a bundle's model; several workers are for a CPU alone.

    From then on the process keeps memory that it frees: a beam search asks for the same sizes at
    every step.
    """
    keep_freed_memory()
    return TorchEngine(
        bundle.model().to(device),
        bundle.framing,
        alignment_of(bundle),
        stop_of(bundle) if not others else "exact",
        workers=workers if device == "cpu" else 1,
        others=[_fitting(bundle, other).model().to(device) for other in others],
    )


def _fitting(bundle: Bundle, other: Bundle) -> Bundle:
    """Return the other one, if both can be asked for the next piece together."""
    if other.languages != bundle.languages:
        ours, theirs = ("→".join(each.languages) for each in (bundle, other))
        raise InputError(f"an ensemble's models must translate {ours}, but one does {theirs}")
    sides = [(b.tokenizers.source.pieces, b.tokenizers.target.pieces) for b in (bundle, other)]
    if sides[0] != sides[1] or bundle.framing != other.framing:
        raise InputError("an ensemble's models must share their pieces, but have different ones")
    return other


def alignment_of(bundle: Bundle) -> AlignmentConfig:
    """Return the heads that were chosen for a model, where that was done."""
    chosen = AlignmentConfig.model_validate(bundle.origin.notes.get("alignment", {}))
    if problems := list(chosen.misfits(bundle.config)):
        raise ConfigError([p.replace("`", "`origin.notes.alignment.", 1) for p in problems])
    return chosen


def stop_of(bundle: Bundle) -> Stop:
    """Return the rule by which a model's beams stop unless another is named."""
    return "beam_full" if bundle.origin.notes.get(STOP) == "beam_full" else "exact"


def unusable(bundle: Bundle) -> str | None:
    """Return why ctranslate2 cannot run a model here, if so."""
    return ctranslate2_engine.missing() or next(
        ctranslate2_conversion.refusals(bundle.config), None
    )


def _fast(
    bundle: Bundle, home: Path, config: bytes, wanted: Precision, device: str, workers: int
) -> tuple[CTranslate2Engine, tuple[str, ...]]:
    def opened(kind: Precision) -> CTranslate2Engine:
        return CTranslate2Engine.open(
            bundle, home, config, precision=kind, device=device, threads=workers
        )

    full = opened("float32")
    if wanted == "float32":
        return full, ()
    quick = opened("int8")
    probes = [_greedy(engine, bundle.config.longest) for engine in (full, quick)]
    reason = ctranslate2_engine.int8_refusal(home, full.directory, *probes)
    return (full, (f"int8 is not used: {reason}",)) if reason else (quick, ())


def _greedy(engine: CTranslate2Engine, longest: int | None) -> Callable[[list[str]], list[str]]:
    """Return what translates probe sentences; those that are too long come out empty."""
    tokenizers = engine.tokenizers
    config = bounded(SearchConfig(beam_size=1), "beam_full", longest)

    def translate(lines: list[str]) -> list[str]:
        ids = tokenizers.source.encode_batch(lines)
        sources = [Source(len(framed(sentence, engine.framing))) for sentence in ids]
        fitting = [i for i, source in enumerate(sources) if not engine.refusal(config, source)]
        chosen = [ids[i] for i in fitting], [sources[i] for i in fitting]
        found = in_order(engine.search(*chosen, config))
        texts = [""] * len(lines)
        for i, hypotheses in zip(fitting, found, strict=True):
            texts[i] = tokenizers.target.decode(hypotheses[0].content) if hypotheses else ""
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
    if engine not in ENGINES:
        yield f"`engine` must be one of {', '.join(ENGINES)}, but is {engine!r} instead"
    if precision not in {"float32", "int8"}:
        yield f"`precision` must be float32 or int8, but is {precision!r} instead"
    if threads is not None and threads < 1:
        yield f"`threads` must be at least 1, but is {threads} instead"
