"""Models of all variants learn to reverse digits; without positions they cannot."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from seq2see.model import ModelConfig, Transformer

# B batch, T target tokens

PAD, START, STOP, ZERO = 0, 1, 2, 3
MAX_LENGTH = 8
CONFIG = ModelConfig(
    vocab_size=ZERO + 10, d_model=64, d_ff=128, heads=2, encoder_layers=2, decoder_layers=2
)


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


def learn(model: Transformer, steps: int) -> Iterator[float]:
    """Train the model for a number of updates; yield the loss of each."""
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-3, total_steps=steps, pct_start=0.1, cycle_momentum=False
    )
    for _ in range(steps):
        source, target = digits(64)
        logits = model.train()(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        yield loss.item()


def digits(count: int) -> tuple[Tensor, Tensor]:
    """Return sentences of 3 to 8 digits, and the reversed digits between start and stop."""
    source = torch.full((count, MAX_LENGTH), PAD)
    target = torch.full((count, MAX_LENGTH + 2), PAD)
    lengths = torch.randint(3, MAX_LENGTH + 1, (count,)).tolist()
    for row, length in enumerate(lengths):
        sentence = torch.randint(ZERO, ZERO + 10, (length,))
        source[row, :length] = sentence
        target[row, 0] = START
        target[row, 1 : length + 1] = sentence.flip(0)
        target[row, length + 1] = STOP
    return source, target


def greedy(model: Transformer, source: Tensor) -> Tensor:
    """Decode greedily with the cache."""
    with torch.inference_mode():
        cache = model.init_cache(model.encode(source))
        steps = [torch.full((len(source), 1), START)]
        for _ in range(MAX_LENGTH + 1):
            steps.append(model.output(model.step(steps[-1], cache)).argmax(-1))
    return torch.cat(steps, dim=1)


def loss_after(steps: int, settings: dict[str, Any]) -> float:
    """Return the mean loss of the last ten updates; random digits have ln 10 = 2.3."""
    model = Transformer.from_config(CONFIG.replace(**settings))
    return mean(list(learn(model, steps))[-10:])


@pytest.mark.parametrize("variant", VARIANTS)
def test_loss_decreases(variant: str) -> None:
    assert loss_after(200, VARIANTS[variant]) < 1.3


@pytest.mark.slow
@pytest.mark.parametrize("variant", [*VARIANTS, *MORE_VARIANTS])
def test_model_learns_to_reverse(variant: str) -> None:
    model = Transformer.from_config(CONFIG.replace(**{**VARIANTS, **MORE_VARIANTS}[variant]))
    for _ in learn(model, 1500):
        pass
    sources, targets = digits(500)
    answers = greedy(model.eval(), sources)
    length = targets.ne(PAD)
    accuracy = (answers.eq(targets) | ~length).all(dim=1).float().mean().item()
    assert accuracy > 0.97


@pytest.mark.slow
def test_model_without_positions_cannot_reverse() -> None:
    torch.manual_seed(1)
    assert loss_after(1500, {"positions": {"kind": "none"}}) > 0.5
