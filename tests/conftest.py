"""What all tests share: a fixed seed, and hypothesis without deadlines (the machine is shared)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, settings

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
