"""`transformers`: its own `generate` over sorted batches, with our tokenizer at both ends.

It works in a process of its own: our engine asks the allocator to keep memory, and what speaks for
our engine should not help another.
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
"""Of the process that translates."""


class HuggingFace:
    """A MarianMT model at work in a process of its own."""

    def __init__(self, marian: Path, ours: seq2see.Translator, beam: int, threads: int) -> None:
        self._tokenizers, self._beam = ours.tokenizers, beam
        self.process = ProcessPoolExecutor(1, get_context("spawn"), _load, (marian, threads))

    def translator(self, batch: int) -> Callable[[list[str]], list[str]]:
        """Return what translates in batches of this size."""

        def translate(lines: list[str]) -> list[str]:
            rows = [add_special_tokens(ids) for ids in self._tokenizers.source.encode_batch(lines)]
            found = self.process.submit(_generated, rows, self._beam, batch).result()
            return [self._tokenizers.target.decode(tokens) for tokens in found]

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
def _generated(rows: list[list[int]], beam: int, batch: int) -> list[list[int]]:
    pad = _model.config.pad_token_id
    found: list[list[int]] = [[] for _ in rows]
    lengths = [*map(len, rows)]
    for places in batch_by_length(lengths, batch * max(lengths), batch):
        ids = pad_sequences([rows[place] for place in places], pad)
        tokens = _model.generate(
            input_ids=ids,
            attention_mask=(ids != pad).long(),
            num_beams=beam,
            max_new_tokens=2 * ids.size(1) + 20,
        )
        for place, emitted in zip(places, tokens.tolist(), strict=True):
            found[place] = emitted
    return found
