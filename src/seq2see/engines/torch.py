"""The engine that can do everything: our own model and search, on any device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from seq2see.bundle import Framing
from seq2see.engines.batching import FRAMING, by_length, evened, filled, framed, padded
from seq2see.engines.crew import Crew
from seq2see.engines.encoding import encoded
from seq2see.engines.listening import AlignmentConfig, CrossEar
from seq2see.engines.output import OutputLayer, output_layer
from seq2see.engines.protocol import Batch, Forced, Ids, Processors, bounded
from seq2see.engines.steps import steps
from seq2see.model import SILENCE, Recorder, Transformer
from seq2see.search import (
    Decoder,
    Ensemble,
    Hypothesis,
    Prediction,
    SearchConfig,
    SearchObserver,
    Source,
    Stop,
    mean_log_probability,
    search,
)

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


class TorchDecoder:
    """A model that has read a batch of sources; see `seq2see.search.Decoder`.

    A recorder hears the encoder at once and the decoder at each step. With an ear it tells where
    it looks, which keeps attention from its fused form. The output layer may be another form of
    the model's own.
    """

    def __init__(
        self,
        model: Transformer,
        source_BS: Tensor,
        recorder: Recorder = SILENCE,
        ear: CrossEar | None = None,
        output: OutputLayer | None = None,
    ) -> None:
        self._output: OutputLayer = output or model.output
        self._ear = ear
        self._steps = steps(model, encoded(model, source_BS, recorder), ear or recorder)

    def step(self, tokens_BK: Tensor) -> Prediction:
        """Look one token ahead."""
        states_RM = self._steps.step(tokens_BK.flatten())
        log_probs_RV = self._output.log_probabilities(states_RM)
        log_probs_BKV = log_probs_RV.view(*tokens_BK.shape, -1)
        if self._ear is None:
            return Prediction(log_probs_BKV)
        assert self._ear.weights_RTS is not None
        return Prediction(log_probs_BKV, self._ear.weights_RTS[:, -1].view(*tokens_BK.shape, -1))

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Keep some sentences, and in each the beams that go on."""
        self._steps.follow(rows_B, parents_BK)


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
