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

from seq2see.bundle import Framing
from seq2see.engines.base import Batch, Forced, Ids, Processors, bounded
from seq2see.engines.batching import FRAMING, by_length, evened, filled, framed, padded
from seq2see.engines.torch_decoder import (
    AlignmentConfig,
    CrossEar,
    OutputLayer,
    TorchDecoder,
    output_layer,
)
from seq2see.model import SILENCE, Recorder, Transformer
from seq2see.search import (
    Decoder,
    Ensemble,
    Hypothesis,
    SearchConfig,
    SearchObserver,
    Source,
    Stop,
    mean_log_probability,
    search,
)

Item = TypeVar("Item")


Result = TypeVar("Result")


class Crew:
    """So many workers, who start when they are first needed; all who call share them.

    A crew of one is whoever calls, one after the other.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._turn: AbstractContextManager[Any] = RLock() if count == 1 else nullcontext()
        self._lock = Lock()
        self._started: ThreadPoolExecutor | None = None

    @property
    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._started is None:
                self._started = started(self.count)
            return self._started

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield what the work makes of each item, in order. A single item needs no worker."""
        if self.count == 1 or len(items) < 2:
            return (self.alone(work, item) for item in items)
        return _in_order(self._pool, work, items)

    def alone(self, work: Callable[[Item], Result], item: Item) -> Result:
        """Return what the work makes of an item, in the thread of whoever calls."""
        with self._turn:
            return work(item)


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


def started(count: int) -> ThreadPoolExecutor:
    """Return so many threads in which torch has one each.

    Torch gives every thread that starts later the number that was set last, whoever set it. So all
    of these start at once, and then others get the number again that they would have had.
    """
    usual, ready = torch.get_num_threads(), Barrier(count)
    pool = ThreadPoolExecutor(count, "seq2see-torch", initializer=_take_one_thread)
    for worker in [pool.submit(ready.wait) for _ in range(count)]:
        worker.result()
    torch.set_num_threads(usual)
    return pool


def _take_one_thread() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # a thread takes what was set last when it first looks


__all__ = ["TorchDecoder", "TorchEngine", "padded"]


# B sentences, K beams, R = B·K rows, S source tokens, T target tokens, V vocabulary
BATCH_TOKENS = 16384
"""Places of the memory that are searched at once: sentences × the longest source × beams."""


LEAST_TOKENS = 1024
"""Fewer places are not worth a worker of their own."""


STEP_COST = 30
"""Beside what grows with the hypotheses, a step takes as long as so many of them: measured with
four layers of 128 features on a CPU."""


FORCED_TOKENS = 1024
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
        framing: Framing = FRAMING,
        alignment: AlignmentConfig | None = None,
        stop: Stop = "exact",
        *,
        batch_tokens: int = BATCH_TOKENS,
        batch_size: int | None = None,
        workers: int = 1,
        others: Sequence[Transformer] = (),
    ) -> None:
        self.model = model
        self.models = (model, *others)
        self.framing = framing
        self.alignment = alignment or AlignmentConfig()
        self.stop: Stop = stop
        self._batch_tokens = batch_tokens
        self._batch_size = batch_size
        self._crew = Crew(workers)

    def resolved(self, config: SearchConfig) -> SearchConfig:
        """Return a search with the model's stop rule where none was named, and within its
        positions: what loops is cut there, and the others go on."""
        known = [model.decoder.embeddings.positions.longest for model in self.models]
        limits = [longest for longest in known if longest is not None]
        return bounded(config, self.stop, min(limits, default=None))

    def search(
        self,
        sentences: Sequence[Ids],
        sources: Sequence[Source],
        config: SearchConfig,
        processors: Processors | None = None,
        observer: SearchObserver | None = None,
    ) -> Iterator[Batch]:
        """Search, and yield batch after batch, those of the longest sentences first.

        Several workers go on meanwhile. A model in training is not until the last batch is there.
        An observer hears of batch after batch; to follow one sentence, give it alone.
        """
        config = self.resolved(config)
        rows = [framed(sentence, self.framing) for sentence in sentences]
        hypotheses = len(rows) * config.members * config.width
        outputs = [output_layer(model.output, hypotheses) for model in self.models]

        @torch.inference_mode()  # of this thread alone
        def work(places: list[int]) -> list[list[Hypothesis]]:
            chosen = [sources[place] for place in places]
            return search(
                self._decoder([rows[place] for place in places], config, outputs),
                chosen,
                config,
                bos=self.framing.target_start,
                eos=self.framing.target_end,
                pad=self.pad,
                processors=processors(chosen, self.device) if processors else (),
                observer=observer,
                device=self.device,
            )

        batches = self._batches([*map(len, rows)], config)
        with self._evaluating():
            yield from map(Batch, batches, self._crew.map(work, batches))

    def _batches(self, lengths: Sequence[int], config: SearchConfig) -> list[list[int]]:
        """Return the places of each batch: if there are few, each worker gets its share."""
        hypotheses, workers = config.members * config.width, self._crew.count
        share = max(lengths, default=0) * -(-len(lengths) // workers) * hypotheses
        budget = min(self._batch_tokens, max(LEAST_TOKENS, share)) // hypotheses
        step_cost = STEP_COST // hypotheses
        return evened(lengths, budget, self._batch_size, workers, step_cost)

    @torch.inference_mode()
    def force(self, pairs: Sequence[tuple[Ids, Ids]], *, attention: bool = False) -> list[Forced]:
        """Return what the model thinks of each target: emitted tokens, as a hypothesis has them."""
        results: list[Forced] = [Forced((), None)] * len(pairs)

        def forced_at_once(some: Sequence[tuple[Ids, Ids]]) -> list[Forced]:
            return list(self._forced(some, attention))

        lengths = [max(len(source), len(target)) + 2 for source, target in pairs]
        with self._evaluating():
            for places in by_length(lengths, FORCED_TOKENS, self._batch_size):
                found = self._crew.alone(forced_at_once, [pairs[place] for place in places])
                for place, forced in zip(places, found, strict=True):
                    results[place] = forced
        return results

    def _forced(self, pairs: Sequence[tuple[Ids, Ids]], attention: bool) -> Iterator[Forced]:
        sources = [framed(source, self.framing) for source, _ in pairs]
        targets = [[self.framing.target_start, *target] for _, target in pairs]
        target_BT = filled(targets, self.pad).to(self.device)
        source_BS = filled(sources, self.pad).to(self.device)
        ear = self._ear(self.model) if attention else None
        each = [
            _thought(model, source_BS, target_BT, SILENCE if i else ear or SILENCE)
            for i, model in enumerate(self.models)
        ]
        own_BT = mean_log_probability(each).cpu()
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            count = len(target) - 1
            weights_ES = None
            if ear is not None:
                assert ear.weights_RTS is not None
                weights_ES = ear.weights_RTS[row, :count, : len(source)].cpu()
            yield Forced(tuple(own_BT[row, :count].tolist()), weights_ES)

    def _decoder(
        self, rows: Sequence[Ids], config: SearchConfig, outputs: Sequence[OutputLayer]
    ) -> Decoder:
        source_BS = filled(rows, self.pad).to(self.device)
        listens = config.coverage_penalty > 0
        decoders = [
            TorchDecoder(model, source_BS, SILENCE, self._ear(model) if listens else None, output)
            for model, output in zip(self.models, outputs, strict=True)
        ]
        return decoders[0] if len(decoders) == 1 else Ensemble(decoders)

    def _ear(self, model: Transformer) -> CrossEar:
        """Listen to the heads that were chosen for the model, or to the usual ones of another."""
        alignment = self.alignment if model is self.model else AlignmentConfig()
        return CrossEar(alignment.resolved(len(model.decoder.layers)), alignment.heads)

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
    def pad(self) -> int:
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
