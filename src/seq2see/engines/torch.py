"""The engine that can do everything: our own model and search, on any device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from seq2see.model import Transformer
from seq2see.search import Hypothesis, Prediction, SearchConfig, Source, search
from seq2see.text import BOS_ID, EOS_ID, PAD_ID

# B sentences, K beams, R = B·K rows, S source tokens, V vocabulary

BATCH_TOKENS = 4096
"""Places of the memory that are searched at once: sentences × the longest source × beams."""


class TorchDecoder:
    """A model that has read a batch of sources; see `seq2see.search.Decoder`."""

    def __init__(self, model: Transformer, source_BS: Tensor) -> None:
        self._model = model
        self._cache = model.start(model.encode(source_BS))
        self._beams = 1

    def step(self, tokens_BK: Tensor) -> Prediction:
        """Look one token ahead."""
        states_R1M = self._model.step(tokens_BK.reshape(-1, 1), self._cache)
        log_probs_RV = self._model.output.log_probabilities(states_R1M.squeeze(1))
        return Prediction(log_probs_RV.view(*tokens_BK.shape, -1))

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Keep some sentences, and in each the beams that go on."""
        self._cache.reorder((rows_B[:, None] * self._beams + parents_BK).flatten())
        self._beams = parents_BK.size(1)


class TorchEngine:
    """Searches with a model. The sources come in any order and number."""

    def __init__(self, model: Transformer) -> None:
        self.model = model

    @torch.inference_mode()
    def search(
        self, sentences: Sequence[Sequence[int]], sources: Sequence[Source], config: SearchConfig
    ) -> list[list[Hypothesis]]:
        """Return the translations of each sentence, given without BOS and EOS."""
        results: list[list[Hypothesis]] = [[] for _ in sentences]
        was_training = self.model.training
        self.model.eval()
        for places in by_length(
            [len(s) + 1 for s in sentences], BATCH_TOKENS // (config.members * config.width)
        ):
            source_BS = padded([sentences[place] for place in places])
            decoder = TorchDecoder(self.model, source_BS.to(self._device))
            chosen = [sources[place] for place in places]
            found = search(
                decoder, chosen, config, bos=BOS_ID, eos=EOS_ID, pad=PAD_ID, device=self._device
            )
            for place, hypotheses in zip(places, found, strict=True):
                results[place] = hypotheses
        self.model.train(was_training)
        return results

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


def by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield places whose lengths are similar, longest first, as many as fit into the budget."""
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    while order:
        count = max(1, budget // lengths[order[0]])
        yield order[:count]
        order = order[count:]


def padded(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Return sentences with their ends as a batch."""
    width = max(len(sentence) for sentence in sentences) + 1
    rows = [[*s, EOS_ID] + [PAD_ID] * (width - len(s) - 1) for s in sentences]
    return torch.tensor(rows)
