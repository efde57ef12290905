"""Shared by all tests: fixed seed, hypothesis without deadlines (for shared machines), Marian."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from transformers import MarianMTModel

settings.register_profile(
    "seq2see",
    deadline=None,
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("seq2see")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(20170612)


@pytest.fixture(scope="session")
def marian() -> Callable[..., MarianMTModel]:
    """Return a function that builds small random models of `transformers`.

    `fields` are further fields of their config.
    """
    from transformers import MarianConfig, MarianMTModel  # noqa: PLC0415 slow, and rarely needed

    def make(
        vocabulary: int,
        pad: int,
        *,
        d_model: int = 32,
        d_ff: int = 48,
        heads: int = 2,
        layers: int = 2,
        **fields: Any,
    ) -> MarianMTModel:
        sizes = {
            f"{stack}_{name}": value
            for stack in ("encoder", "decoder")
            for name, value in (("layers", layers), ("attention_heads", heads), ("ffn_dim", d_ff))
        }
        config = MarianConfig(
            vocab_size=vocabulary,
            decoder_vocab_size=vocabulary,
            d_model=d_model,
            **sizes,
            pad_token_id=pad,
            eos_token_id=0,
            decoder_start_token_id=pad,
            forced_eos_token_id=None,
            **fields,
        )
        return MarianMTModel(config).eval()

    return make
