"""`transformers` with its own `generate` on sorted batches and the tokenizer of seq2see.

It runs in a separate process: the torch engine of seq2see tunes malloc, which would also speed up
`transformers`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import seq2see
from seq2see.engines.batching import add_special_tokens, batch_by_length, pad_sequences

SIZES = (32, 64, 128, 256)

_model: Any = None
"""Model of the worker process."""


class HuggingFace:
    """A MarianMT model in a separate process."""

    def __init__(self, marian: Path, ours: seq2see.Translator, beam: int, threads: int) -> None:
        self._tokenizers, self._beam = ours.tokenizers, beam
        self.process = ProcessPoolExecutor(1, get_context("spawn"), _load, (marian, threads))

    def translator(self, batch: int) -> Callable[[list[str]], list[str]]:
        """Return a function that translates in batches of this size."""

        def translate(lines: list[str]) -> list[str]:
            rows = [add_special_tokens(ids) for ids in self._tokenizers.source.encode_batch(lines)]
            outputs = self.process.submit(_generate, rows, self._beam, batch).result()
            return [self._tokenizers.target.decode(tokens) for tokens in outputs]

        return translate


def _load(marian: Path, threads: int) -> None:
    from transformers import MarianMTModel  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    global _model  # noqa: PLW0603
    torch.set_num_threads(threads)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    _model = MarianMTModel.from_pretrained(marian)
    _model.eval()


@torch.inference_mode()
def _generate(rows: list[list[int]], beam: int, batch: int) -> list[list[int]]:
    pad = _model.config.pad_token_id
    outputs: list[list[int]] = [[] for _ in rows]
    lengths = [*map(len, rows)]
    for indices in batch_by_length(lengths, batch * max(lengths), batch):
        ids = pad_sequences([rows[index] for index in indices], pad)
        tokens = _model.generate(
            input_ids=ids,
            attention_mask=(ids != pad).long(),
            num_beams=beam,
            max_new_tokens=2 * ids.size(1) + 20,
        )
        for index, output in zip(indices, tokens.tolist(), strict=True):
            outputs[index] = output
    return outputs
