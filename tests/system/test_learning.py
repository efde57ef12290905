"""The model learns to reverse digits, whatever its parts; without positions it cannot."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest
import torch

from seq2see.cli.reversal import CONFIG, PAD, digits, greedy, learn
from seq2see.model import Transformer

VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm": {"norm": {"placement": "pre"}},
    "additive": {"attention": {"kind": "additive"}},
    "relative": {"positions": {"kind": "relative", "max_distance": 8}},
}
MORE_VARIANTS: dict[str, dict[str, Any]] = {
    "batch norm": {"norm": {"kind": "batch"}},
    "qk norm": {"attention": {"kind": "qk_norm"}},
    "shared qk": {"attention": {"shared_qk": True}},
    "linformer": {"encoder_attention": {"kind": "linformer", "max_length": 8, "rank": 6}},
    "learned": {"positions": {"kind": "learned", "max_length": 10}},
    "gelu, untied": {"activation": "gelu", "embeddings": {"tie": "none"}},
}


def loss_after(steps: int, settings: dict[str, Any]) -> float:
    """Return the mean loss of the last ten updates; guessing digits costs ln 10 = 2.3."""
    model = Transformer.from_config(CONFIG.replace(**settings))
    return mean(list(learn(model, steps))[-10:])


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_loss_falls(variant: str) -> None:
    assert loss_after(200, VARIANTS[variant]) < 1.3


@pytest.mark.slow
@pytest.mark.parametrize("variant", [*VARIANTS, *MORE_VARIANTS])
def test_it_learns_to_reverse(variant: str) -> None:
    model = Transformer.from_config(CONFIG.replace(**{**VARIANTS, **MORE_VARIANTS}[variant]))
    for _ in learn(model, 1500):
        pass
    sources, targets = digits(500)
    answers, _ = greedy(model.eval(), sources)
    length = targets.ne(PAD)
    right = (answers.eq(targets) | ~length).all(dim=1).float().mean().item()
    assert right > 0.97


@pytest.mark.slow
def test_without_positions_it_cannot_reverse() -> None:
    torch.manual_seed(1)
    assert loss_after(1500, {"positions": {"kind": "none"}}) > 0.5
