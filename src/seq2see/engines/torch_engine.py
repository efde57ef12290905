"""The torch engine: beam search with the PyTorch model on any device.

Batches run in a pool of threads, each of which computes with one torch thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Barrier, Lock, RLock
from typing import Any, TypeVar

import torch
from torch import Tensor

from seq2see.bundle import SpecialTokens
from seq2see.engines.base import (
    BatchResult,
    ProcessorFactory,
    TargetScores,
    TokenIds,
    resolve_search_config,
)
from seq2see.engines.batching import (
    DEFAULT_SPECIAL_TOKENS,
    add_special_tokens,
    batch_by_length,
    build_balanced_batches,
    pad_sequences,
)
from seq2see.engines.torch_decoder import (
    AlignmentConfig,
    CrossAttentionRecorder,
    SupportsLogProbabilities,
    TorchDecoder,
    choose_output_projection,
)
from seq2see.model import NULL_RECORDER, Recorder, Transformer
from seq2see.search import (
    EnsembleDecoder,
    Hypothesis,
    IncrementalDecoder,
    SearchConfig,
    SearchInput,
    SearchObserver,
    StopRule,
    log_mean_probability,
    search,
)

Item = TypeVar("Item")


Result = TypeVar("Result")


class TorchThreadPool:
    """So many workers, who start when they are first needed; all who call share them.

    A crew of one is whoever calls, one after the other.
    """

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        self._turn: AbstractContextManager[Any] = RLock() if num_threads == 1 else nullcontext()
        self._lock = Lock()
        self._started: ThreadPoolExecutor | None = None

    @property
    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._started is None:
                self._started = start_threads(self.num_threads)
            return self._started

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield what the work makes of each item, in order. A single item needs no worker."""
        if self.num_threads == 1 or len(items) < 2:
            return (self.run_in_caller(function, item) for item in items)
        return _in_order(self._pool, function, items)

    def run_in_caller(self, function: Callable[[Item], Result], item: Item) -> Result:
        """Return what the work makes of an item, in the thread of whoever calls."""
        with self._turn:
            return function(item)


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Sequence[Item]
) -> Iterator[Result]:
    """Yield what the threads of a pool make of each item, in the order of the items."""
    futures = [pool.submit(work, item) for item in items]
    try:
        for future in futures:
            yield future.result()
    finally:  # after an error or Ctrl-C nobody wants the rest
        for future in futures:
            future.cancel()


def start_threads(num_threads: int) -> ThreadPoolExecutor:
    """Return so many threads in which torch has one each.

    Torch gives every thread that starts later the number that was set last, whoever set it. So all
    of these start at once, and then others get the number again that they would have had.
    """
    usual, ready = torch.get_num_threads(), Barrier(num_threads)
    pool = ThreadPoolExecutor(num_threads, "seq2see-torch", initializer=_take_one_thread)
    for worker in [pool.submit(ready.wait) for _ in range(num_threads)]:
        worker.result()
    torch.set_num_threads(usual)
    return pool


def _take_one_thread() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # a thread takes what was set last when it first looks


# B sentences, K beams, R = B·K rows, S source tokens, T target tokens, V vocabulary
MAX_BATCH_TOKENS = 16384
"""Places of the memory that are searched at once: sentences × the longest source × beams."""


MIN_BATCH_TOKENS = 1024
"""Fewer places are not worth a worker of their own."""


STEP_COST_TOKENS = 30
"""Beside what grows with the hypotheses, a step takes as long as so many of them: measured with
four layers of 128 features on a CPU."""


SCORING_BATCH_TOKENS = 1024
"""Places that are forced at once: each has a log-probability for every piece."""


class TorchEngine:
    """Searches with a model. Threads may share one whose model is not in training.

    `others` make it an ensemble: models that read and write the same pieces, and are asked for the
    mean of their probabilities.
    """

    name = "torch"

    def __init__(
        self,
        model: Transformer,
        special_tokens: SpecialTokens = DEFAULT_SPECIAL_TOKENS,
        alignment: AlignmentConfig | None = None,
        stop_rule: StopRule = "exact",
        *,
        max_batch_tokens: int = MAX_BATCH_TOKENS,
        max_batch_size: int | None = None,
        threads: int = 1,
        ensemble: Sequence[Transformer] = (),
    ) -> None:
        self.model = model
        self.models = (model, *ensemble)
        self.special_tokens = special_tokens
        self.alignment = alignment or AlignmentConfig()
        self.stop_rule: StopRule = stop_rule
        self._batch_tokens = max_batch_tokens
        self._batch_size = max_batch_size
        self._crew = TorchThreadPool(threads)

    def resolve_config(self, config: SearchConfig) -> SearchConfig:
        """Return a search with the model's stop rule where none was named, and within its
        positions: what loops is cut there, and the others go on."""
        known = [model.decoder.embeddings.positions.max_positions for model in self.models]
        limits = [longest for longest in known if longest is not None]
        return resolve_search_config(config, self.stop_rule, min(limits, default=None))

    def search(
        self,
        source_ids: Sequence[TokenIds],
        inputs: Sequence[SearchInput],
        config: SearchConfig,
        processor_factory: ProcessorFactory | None = None,
        observer: SearchObserver | None = None,
    ) -> Iterator[BatchResult]:
        """Search, and yield batch after batch, those of the longest sentences first.

        Several workers go on meanwhile. A model in training is not until the last batch is there.
        An observer hears of batch after batch; to follow one sentence, give it alone.
        """
        config = self.resolve_config(config)
        rows = [add_special_tokens(sentence, self.special_tokens) for sentence in source_ids]
        hypotheses = len(rows) * config.searches_per_input * config.beams_per_search
        outputs = [choose_output_projection(model.output, hypotheses) for model in self.models]

        @torch.inference_mode()  # of this thread alone
        def work(places: list[int]) -> list[list[Hypothesis]]:
            chosen = [inputs[place] for place in places]
            return search(
                self._decoder([rows[place] for place in places], config, outputs),
                chosen,
                config,
                bos=self.special_tokens.decoder_start_id,
                eos=self.special_tokens.target_eos_id,
                pad=self.pad_id,
                processors=processor_factory(chosen, self.device) if processor_factory else (),
                observer=observer,
                device=self.device,
            )

        batches = self._batches([*map(len, rows)], config)
        with self._evaluating():
            yield from map(BatchResult, batches, self._crew.map(work, batches))

    def _batches(self, lengths: Sequence[int], config: SearchConfig) -> list[list[int]]:
        """Return the places of each batch: if there are few, each worker gets its share."""
        hypotheses, workers = (
            config.searches_per_input * config.beams_per_search,
            self._crew.num_threads,
        )
        share = max(lengths, default=0) * -(-len(lengths) // workers) * hypotheses
        budget = min(self._batch_tokens, max(MIN_BATCH_TOKENS, share)) // hypotheses
        step_cost = STEP_COST_TOKENS // hypotheses
        return build_balanced_batches(lengths, budget, self._batch_size, workers, step_cost)

    @torch.inference_mode()
    def score_targets(
        self, pairs: Sequence[tuple[TokenIds, TokenIds]], *, attention: bool = False
    ) -> list[TargetScores]:
        """Return what the model thinks of each target: emitted tokens, as a hypothesis has them."""
        results: list[TargetScores] = [TargetScores((), None)] * len(pairs)

        def forced_at_once(some: Sequence[tuple[TokenIds, TokenIds]]) -> list[TargetScores]:
            return list(self._forced(some, attention))

        lengths = [max(len(source), len(target)) + 2 for source, target in pairs]
        with self._evaluating():
            for places in batch_by_length(lengths, SCORING_BATCH_TOKENS, self._batch_size):
                found = self._crew.run_in_caller(forced_at_once, [pairs[place] for place in places])
                for place, forced in zip(places, found, strict=True):
                    results[place] = forced
        return results

    def _forced(
        self, pairs: Sequence[tuple[TokenIds, TokenIds]], attention: bool
    ) -> Iterator[TargetScores]:
        sources = [add_special_tokens(source, self.special_tokens) for source, _ in pairs]
        targets = [[self.special_tokens.decoder_start_id, *target] for _, target in pairs]
        target_BT = pad_sequences(targets, self.pad_id).to(self.device)
        source_BS = pad_sequences(sources, self.pad_id).to(self.device)
        ear = self._ear(self.model) if attention else None
        each = [
            _thought(model, source_BS, target_BT, NULL_RECORDER if i else ear or NULL_RECORDER)
            for i, model in enumerate(self.models)
        ]
        own_BT = log_mean_probability(each).cpu()
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            count = len(target) - 1
            weights_ES = None
            if ear is not None:
                assert ear.weights_RTS is not None
                weights_ES = ear.weights_RTS[row, :count, : len(source)].cpu()
            yield TargetScores(tuple(own_BT[row, :count].tolist()), weights_ES)

    def _decoder(
        self,
        rows: Sequence[TokenIds],
        config: SearchConfig,
        outputs: Sequence[SupportsLogProbabilities],
    ) -> IncrementalDecoder:
        source_BS = pad_sequences(rows, self.pad_id).to(self.device)
        listens = config.coverage_penalty > 0
        decoders = [
            TorchDecoder(
                model, source_BS, NULL_RECORDER, self._ear(model) if listens else None, output
            )
            for model, output in zip(self.models, outputs, strict=True)
        ]
        return decoders[0] if len(decoders) == 1 else EnsembleDecoder(decoders)

    def _ear(self, model: Transformer) -> CrossAttentionRecorder:
        """Listen to the heads that were chosen for the model, or to the usual ones of another."""
        alignment = self.alignment if model is self.model else AlignmentConfig()
        return CrossAttentionRecorder(
            alignment.resolve_layer(len(model.decoder.layers)), alignment.heads
        )

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Turn dropout off meanwhile. A model that is not in training is left alone, since another
        thread may be using it."""
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
        """What fills a batch up."""
        return self.model.encoder.pad_id

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device


def _thought(
    model: Transformer, source_BS: Tensor, target_BT: Tensor, recorder: Recorder
) -> Tensor:
    """Return the log-probability of each token of the targets but the first."""
    states_BTM = model.decode(target_BT[:, :-1], model.encode(source_BS), recorder)
    log_probs_BTV = model.output.log_probabilities(states_BTM)
    return log_probs_BTV.gather(2, target_BT[:, 1:, None])[..., 0]
