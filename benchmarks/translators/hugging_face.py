"""`transformers`: its own `generate` over sorted batches, with our tokenizer at both ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import seq2see
from seq2see.engines.batching import by_length, filled, framed

SIZES = (32, 64, 128, 256)


def translator(
    marian: Path, ours: seq2see.Translator, beam: int, batch: int
) -> Callable[[list[str]], list[str]]:
    """Return what translates with a MarianMT model in batches of this size."""
    from transformers import MarianMTModel  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model: Any = MarianMTModel.from_pretrained(marian)
    model.eval()
    source, target = ours.tokenizers.source, ours.tokenizers.target
    pad = model.config.pad_token_id

    @torch.inference_mode()
    def translate(lines: list[str]) -> list[str]:
        rows = [framed(ids) for ids in source.encode_batch(lines)]
        texts = [""] * len(rows)
        lengths = [*map(len, rows)]
        for places in by_length(lengths, batch * max(lengths), batch):
            ids = filled([rows[place] for place in places], pad)
            found = model.generate(
                input_ids=ids,
                attention_mask=(ids != pad).long(),
                num_beams=beam,
                max_new_tokens=2 * ids.size(1) + 20,
            )
            for place, tokens in zip(places, found.tolist(), strict=True):
                texts[place] = target.decode(tokens)
        return texts

    return translate
