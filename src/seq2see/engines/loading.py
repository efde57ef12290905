"""Loading of an inference engine: backend, device, threads and precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from pydantic import Field

from seq2see.bundle import Bundle, StartAndEndTokenIds
from seq2see.config import Config
from seq2see.cpu import MAX_THREADS, resolve_threads, tune_malloc
from seq2see.engines.base import BatchResult, Engine, ProcessorFactory, TargetScores, TokenIds
from seq2see.engines.ctranslate2_conversion import (
    find_ctranslate2_unsupported_features,
    get_cached_conversion,
)
from seq2see.engines.ctranslate2_engine import (
    CPU,
    UNSUPPORTED_INPUT_REASON,
    CTranslate2Engine,
    find_ctranslate2_device_problem,
    int8_quality_problem,
)
from seq2see.engines.torch_decoder import AlignmentConfig
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, InputError, Problem
from seq2see.progress_callbacks import MessageCallback
from seq2see.registries import EngineName, Precision
from seq2see.search import SearchConfig, SearchObserver, SentenceSearchInput, StopRule

STOP_RULE_NOTE = "stop_rule"
"""Key of the stop rule in `provenance.notes` of a model."""


@dataclass
class FallbackEngine(Engine):
    """Searches with CTranslate2, and with torch where CTranslate2 gives another result."""

    load_torch: Callable[[], TorchEngine]
    """Loads the torch engine; called when it is first needed."""
    ctranslate2_engine: CTranslate2Engine
    special_tokens: StartAndEndTokenIds
    stop_rule: StopRule
    max_positions: int | None
    requires_ctranslate2: bool
    """Raise an error for searches that CTranslate2 does not support, instead of searching with
    torch."""

    @property
    def name(self) -> str:
        """Name of the engine, for users, with the engine that runs beam search by default."""
        name = f"{self.ctranslate2_engine.name} ({self.ctranslate2_engine.precision})"
        return name if self.stop_rule == "beam_full" else f"{name}, beam search on torch"

    @cached_property
    def torch_engine(self) -> TorchEngine:
        """The torch engine, loaded on first access."""
        return self.load_torch()

    def search(
        self,
        inputs: Sequence[SentenceSearchInput],
        config: SearchConfig,
        processor_factory: ProcessorFactory | None = None,
        observer: SearchObserver | None = None,
    ) -> Iterator[BatchResult]:
        """Search with CTranslate2, then with torch for the sentences that are left.

        Raises:
            ConfigError: If CTranslate2 is required and does not support the search.
        """
        config = self.resolve_config(config)
        if self.requires_ctranslate2:
            self._check_supported(inputs, config, processor_factory)
        found: set[int] = set()
        for batch in self.ctranslate2_engine.search(inputs, config):
            found.update(batch.indices)
            yield batch
        if rest := [index for index in range(len(inputs)) if index not in found]:
            batches = self.torch_engine.search(
                [inputs[i] for i in rest], config, processor_factory, observer
            )
            for indices, hypotheses in batches:
                yield BatchResult([rest[i] for i in indices], hypotheses)

    def _check_supported(
        self,
        inputs: Sequence[SentenceSearchInput],
        config: SearchConfig,
        processor_factory: ProcessorFactory | None,
    ) -> None:
        """Raise a ConfigError before the first sentence if CTranslate2 lacks a feature."""
        engine = self.ctranslate2_engine
        reasons = [
            engine.unsupported_reason(config),
            UNSUPPORTED_INPUT_REASON if processor_factory else None,
            *(engine.unsupported_input_reason(each, config) for each in inputs),
        ]
        if reason := next(filter(None, reasons), None):
            raise ConfigError(
                Problem("engine", f"must be auto or torch, not ctranslate2: {reason}")
            )

    def score_targets(
        self, pairs: Sequence[tuple[TokenIds, TokenIds]], *, attention: bool = False
    ) -> list[TargetScores]:
        """Return the scores of each target, computed by the torch engine."""
        return self.torch_engine.score_targets(pairs, attention=attention)


class EngineOptions(Config):
    """Checks the arguments of `load_engine`."""

    engine: EngineName
    precision: Precision
    threads: int | None = Field(ge=1, le=MAX_THREADS)


def load_engine(
    bundle: Bundle,
    *,
    engine: EngineName,
    device: str,
    threads: int | None,
    precision: Precision,
    ensemble: Sequence[Bundle] = (),
    on_message: MessageCallback,
) -> Engine:
    """Return the engine for a model.

    Args:
        bundle: The model, loaded from its directory.
        engine: Inference backend; `auto` is CTranslate2 where it gives the same result, else torch.
        device: Device of the model; `auto` is cuda if available, else mps, else cpu.
        threads: Number of CPU threads, for the whole process. None: all available cores.
        precision: Number format of CTranslate2; int8 is used only if it passes a check.
        ensemble: Further models, for an ensemble on torch.
        on_message: Called with messages for the user about the choice of the engine.

    Raises:
        ConfigError: If an argument is invalid.
        InputError: If CTranslate2 is required but cannot run the model.
    """
    EngineOptions(engine=engine, precision=precision, threads=threads)
    torch_device = _resolve_device(device)
    if threads is not None:
        torch.set_num_threads(threads)  # torch has one setting for the whole process
    num_threads = resolve_threads(threads)
    if ensemble and engine == "ctranslate2":
        message = "must be auto or torch, not ctranslate2: it does not support ensembles"
        raise ConfigError(Problem("engine", message))
    if (
        ensemble
        or engine == "torch"
        or (engine == "auto" and torch_device.type not in {"cpu", "cuda"})
    ):
        return load_torch_engine(bundle, torch_device, num_threads, ensemble)
    requires_ctranslate2 = engine == "ctranslate2"
    reason = find_ctranslate2_problem(bundle, torch_device)
    if reason is None:
        try:
            fast = _load_ctranslate2(bundle, precision, torch_device, num_threads, on_message)
        except InputError as error:  # no cache directory is writable
            reason = str(error)
    if reason and requires_ctranslate2:
        raise InputError(f"ctranslate2 cannot run this model: {reason}")
    load_torch = partial(load_torch_engine, bundle, torch_device, num_threads)
    if reason:
        on_message(f"ctranslate2 is not used: {reason}")
        return load_torch()
    stop_rule = "beam_full" if requires_ctranslate2 else read_default_stop_rule(bundle)
    limit = bundle.config.max_positions
    return FallbackEngine(
        load_torch, fast, bundle.special_tokens, stop_rule, limit, requires_ctranslate2
    )


def load_torch_engine(
    bundle: Bundle, device: torch.device = CPU, threads: int = 1, ensemble: Sequence[Bundle] = ()
) -> TorchEngine:
    """Return a torch engine with the model of a bundle. On other devices than a CPU it uses one
    thread.

    This tunes malloc for the whole process: freed memory is kept, because beam search allocates
    tensors of the same sizes in every step.
    """
    tune_malloc()
    for other in ensemble:
        _check_compatible(bundle, other)
    return TorchEngine(
        bundle.build_model().to(device),
        bundle.special_tokens,
        read_alignment_config(bundle),
        read_default_stop_rule(bundle) if not ensemble else "exact",
        threads=threads if device.type == "cpu" else 1,
        ensemble=[other.build_model().to(device) for other in ensemble],
    )


def _check_compatible(bundle: Bundle, other: Bundle) -> None:
    """Raise an InputError if two models cannot form an ensemble."""
    if other.languages != bundle.languages:
        expected, actual = ("→".join(each.languages) for each in (bundle, other))
        raise InputError(
            f"the models of an ensemble must translate {expected}, but one translates {actual}"
        )
    pieces = [(b.tokenizers.source.pieces, b.tokenizers.target.pieces) for b in (bundle, other)]
    if pieces[0] != pieces[1] or bundle.special_tokens != other.special_tokens:
        raise InputError(
            "the models of an ensemble must have the same vocabulary, but theirs are different"
        )


def read_alignment_config(bundle: Bundle) -> AlignmentConfig:
    """Return the alignment heads stored with a model, or the default."""
    config = AlignmentConfig.model_validate(bundle.provenance.notes.get("alignment", {}))
    if problems := list(config.find_problems(bundle.config)):
        raise ConfigError(*(p.with_prefix("provenance.notes.alignment") for p in problems))
    return config


def read_default_stop_rule(bundle: Bundle) -> StopRule:
    """Return the default stop rule stored with a model."""
    return "beam_full" if bundle.provenance.notes.get(STOP_RULE_NOTE) == "beam_full" else "exact"


def find_ctranslate2_problem(bundle: Bundle, device: torch.device = CPU) -> str | None:
    """Return why CTranslate2 cannot run a model on a device of this machine, or None."""
    features = find_ctranslate2_unsupported_features(bundle.config)
    return find_ctranslate2_device_problem(device) or next(features, None)


def _load_ctranslate2(
    bundle: Bundle,
    precision: Precision,
    device: torch.device,
    threads: int,
    on_message: MessageCallback,
) -> CTranslate2Engine:
    """Return the engine, in float32 if int8 is requested but fails its check."""
    conversion = get_cached_conversion(bundle, on_message)
    directory = conversion.directory
    load = partial(CTranslate2Engine, bundle, directory, device=device, threads=threads)
    float32 = load(precision="float32")
    if precision == "float32":
        return float32
    int8 = load(precision="int8")
    assert bundle.directory is not None
    if reason := int8_quality_problem(bundle.directory, conversion, float32, int8):
        on_message(f"int8 is not used: {reason}")
        return float32
    return int8


def _resolve_device(name: str) -> torch.device:
    """Return the device. Raises ConfigError if it is not available."""
    if name == "auto":
        has_mps = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu")
    try:
        torch.zeros(1, device=name).item()  # the device `meta` has no values
    except (AssertionError, ImportError, RuntimeError):  # torch raises each of them
        available = ["auto", "cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        available += ["mps"] * torch.backends.mps.is_available()
        message = f"must be available here ({', '.join(available)}), but is {name} instead"
        raise ConfigError(Problem("device", message)) from None
    return torch.device(name)
