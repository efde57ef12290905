"""The torch engine: beam search with the PyTorch model on any device.

Batches run in a pool of threads, each of which computes with one torch thread. The threads of torch
itself divide a single matrix product, and the products of a small model are too small for that: two
threads wait for each other longer than they compute. Batches are independent of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from itertools import repeat
from threading import Barrier, RLock
from typing import Any, TypeVar

import torch

from seq2see.bundle import StartAndEndTokenIds
from seq2see.engines.base import BatchResult, Engine, ProcessorFactory, TargetScores, TokenIds
from seq2see.engines.batching import (
    DEFAULT_SPECIAL_TOKENS,
    add_special_tokens,
    batch_by_length,
    collect_in_order,
    pad_sequences,
)
from seq2see.engines.torch_decoder import (
    AlignmentConfig,
    LogProbabilityFunction,
    TorchDecoder,
    choose_output_projection,
)
from seq2see.model import NULL_RECORDER, Recorder, Transformer
from seq2see.search import (
    EnsembleDecoder,
    Hypothesis,
    IncrementalDecoder,
    SearchConfig,
    SearchObserver,
    SentenceSearchInput,
    StopRule,
    log_mean_probability,
    search,
)

Item = TypeVar("Item")
Result = TypeVar("Result")

# B sentences, K beams, R = B·K rows, S source tokens, T target tokens, V vocabulary

MAX_BATCH_TOKENS = 16384
"""Maximum size of a batch: sentences × length of the longest source × beams."""
MIN_BATCH_TOKENS = 1024
"""Smaller batches are not worth a thread of their own."""
STEP_COST_TOKENS = 30
"""Fixed cost of a decoding step, in hypotheses, beside the cost that grows with their number.
Measured with four layers of 128 features on a CPU."""
SCORING_BATCH_TOKENS = 1024
"""Target positions per batch of `score_targets`; each has a log-probability per vocabulary item."""


class TorchThreadPool:
    """A pool of threads that all callers share.

    With `num_threads` 1 the work runs in the calling thread, one call at a time.
    """

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        self._caller_lock: AbstractContextManager[Any] = (
            RLock() if num_threads == 1 else nullcontext()
        )
        self._executor = start_threads(num_threads) if num_threads > 1 else None

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of `function` for each item, in order.

        A single item is processed in the calling thread.
        """
        if self._executor is None or len(items) < 2:
            return (self.run_in_caller(function, item) for item in items)
        contexts = [copy_context() for _ in items]  # one each: a context runs in one thread
        # `map` cancels the rest after an error.
        return self._executor.map(
            lambda context, item: context.run(function, item), contexts, items
        )

    def run_in_caller(self, function: Callable[[Item], Result], item: Item) -> Result:
        """Return the result of `function` for one item, computed in the calling thread."""
        with self._caller_lock:
            return function(item)


def start_threads(num_threads: int) -> ThreadPoolExecutor:
    """Return a pool of threads, each of which computes with one torch thread.

    Torch applies `set_num_threads` to all threads that start later, in any part of the process.
    Therefore all threads of the pool start now, and the previous number is restored afterwards.
    """
    previous, all_started = torch.get_num_threads(), Barrier(num_threads)

    def use_one_torch_thread() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # a thread reads the setting on its first access

    executor = ThreadPoolExecutor(num_threads, "seq2see-torch", initializer=use_one_torch_thread)
    for future in [executor.submit(all_started.wait) for _ in range(num_threads)]:
        future.result()
    torch.set_num_threads(previous)
    return executor


class TorchEngine(Engine):
    """Searches with a PyTorch model. It is thread-safe if the model is not in training mode.

    Args:
        model: The model.
        special_tokens: Ids that start and end a sequence.
        alignment: Layer and heads whose cross-attention is used as word alignment.
        stop_rule: Stop rule of searches whose config has none.
        max_batch_size: Maximum number of sentences per batch. By default there is no limit.
        threads: Number of batches that are searched in parallel.
        ensemble: Further models with the same vocabulary. The search uses the mean of the
            probabilities of all models.
    """

    name = "torch"

    def __init__(
        self,
        model: Transformer,
        special_tokens: StartAndEndTokenIds = DEFAULT_SPECIAL_TOKENS,
        alignment: AlignmentConfig | None = None,
        stop_rule: StopRule = "exact",
        *,
        max_batch_size: int | None = None,
        threads: int = 1,
        ensemble: Sequence[Transformer] = (),
    ) -> None:
        self.model = model
        self.models = (model, *ensemble)
        self.special_tokens = special_tokens
        self.alignment = alignment or AlignmentConfig()
        self.stop_rule: StopRule = stop_rule
        limits = [each.decoder.embeddings.positions.max_positions for each in self.models]
        self.max_positions = min(filter(None, limits), default=None)
        self._max_batch_size = max_batch_size
        self.thread_pool = TorchThreadPool(threads)

    def search(
        self,
        inputs: Sequence[SentenceSearchInput],
        config: SearchConfig,
        processor_factory: ProcessorFactory | None = None,
        observer: SearchObserver | None = None,
        recorder: Recorder = NULL_RECORDER,
    ) -> Iterator[BatchResult]:
        """Search for translations, and yield the result of each batch, longest sentences first.

        Other threads continue with the next batches in the meantime. A model in training mode is
        in evaluation mode until the last batch is complete. `observer` receives the steps of all
        batches, and `recorder` records the model (the first one of an ensemble); to observe one
        sentence, search for it alone.
        """
        config = self.resolve_config(config)
        num_hypotheses = len(inputs) * config.searches_per_input * config.beams_per_search
        outputs = [choose_output_projection(model.output, num_hypotheses) for model in self.models]

        @torch.inference_mode()  # applies to the current thread only
        def search_batch(indices: list[int]) -> list[list[Hypothesis]]:
            batch = [inputs[index] for index in indices]
            return search(
                self._build_decoder([each.source_ids for each in batch], config, outputs, recorder),
                batch,
                config,
                bos=self.special_tokens.decoder_start_id,
                eos=self.special_tokens.target_eos_id,
                pad=self.pad_id,
                processors=processor_factory(batch, self.device) if processor_factory else (),
                observer=observer,
                device=self.device,
            )

        lengths = [max(len(each.source_ids), len(each.prefix)) for each in inputs]
        batches = self._make_batches(lengths, config)
        with self._evaluation_mode():
            yield from map(BatchResult, batches, self.thread_pool.map(search_batch, batches))

    def _make_batches(self, lengths: Sequence[int], config: SearchConfig) -> list[list[int]]:
        """Return the indices of each batch. Few sentences are divided among the threads."""
        hypotheses = config.searches_per_input * config.beams_per_search
        threads = self.thread_pool.num_threads
        share = max(lengths, default=0) * -(-len(lengths) // threads) * hypotheses
        max_tokens = min(MAX_BATCH_TOKENS, max(MIN_BATCH_TOKENS, share)) // hypotheses
        step_cost = STEP_COST_TOKENS // hypotheses
        return batch_by_length(
            lengths, max_tokens, self._max_batch_size, threads=threads, step_cost=step_cost
        )

    @torch.inference_mode()
    def score_targets(
        self, pairs: Sequence[tuple[TokenIds, TokenIds]], *, attention: bool = False
    ) -> list[TargetScores]:
        """Return the scores of each target of `pairs` (source ids, target ids).

        Targets end with the end-of-sentence token. With `attention`, the result contains
        cross-attention weights.
        """
        lengths = [max(len(source), len(target)) + 2 for source, target in pairs]
        batches = batch_by_length(lengths, SCORING_BATCH_TOKENS, self._max_batch_size)
        score_batch = partial(self._score_batch, attention=attention)
        with self._evaluation_mode():
            return collect_in_order(
                (indices, self.thread_pool.run_in_caller(score_batch, [pairs[i] for i in indices]))
                for indices in batches
            )

    def _score_batch(
        self, pairs: Sequence[tuple[TokenIds, TokenIds]], attention: bool
    ) -> list[TargetScores]:
        sources = [add_special_tokens(source, self.special_tokens) for source, _ in pairs]
        targets = [[self.special_tokens.decoder_start_id, *target] for _, target in pairs]
        target_BT = pad_sequences(targets, self.pad_id).to(self.device)
        source_BS = pad_sequences(sources, self.pad_id).to(self.device)
        recorder = self.alignment.create_recorder(self.model) if attention else None
        per_model = []
        for model in self.models:
            model_recorder = recorder if recorder and model is self.model else NULL_RECORDER
            states_BTM = model.decode(target_BT[:, :-1], model.encode(source_BS), model_recorder)
            log_probs_BTV = model.output.log_probabilities(states_BTM)
            per_model.append(log_probs_BTV.gather(2, target_BT[:, 1:, None])[..., 0])
        log_probs_BT = log_mean_probability(per_model).cpu()
        weights_BTS = self.alignment.average_heads(recorder).cpu() if recorder else None
        results = []
        for row, (source, (_, target)) in enumerate(zip(sources, pairs, strict=True)):
            size = len(target)
            weights_ES = None if weights_BTS is None else weights_BTS[row, :size, : len(source)]
            results.append(TargetScores(tuple(log_probs_BT[row, :size].tolist()), weights_ES))
        return results

    def _build_decoder(
        self,
        rows: Sequence[TokenIds],
        config: SearchConfig,
        outputs: Sequence[LogProbabilityFunction],
        recorder: Recorder,
    ) -> IncrementalDecoder:
        source_BS = pad_sequences(rows, self.pad_id).to(self.device)
        others = len(self.models) - 1  # which use the default alignment and are not recorded
        recorders = [recorder, *[NULL_RECORDER] * others]
        alignments: list[AlignmentConfig | None] = [None] * len(self.models)
        if config.coverage_penalty > 0:
            alignments = [self.alignment, *[AlignmentConfig()] * others]
        decoders = list(
            map(TorchDecoder, self.models, repeat(source_BS), recorders, alignments, outputs)
        )
        return decoders[0] if len(decoders) == 1 else EnsembleDecoder(decoders)

    @contextmanager
    def _evaluation_mode(self) -> Iterator[None]:
        """Disable dropout inside the `with` block.

        A model that is in evaluation mode is not touched, because other threads may use it.
        """
        training = [model for model in self.models if model.training]
        for model in training:
            model.eval()
        try:
            yield
        finally:
            for model in training:
                model.train()

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return self.model.encoder.pad_id

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.model.parameters()).device
