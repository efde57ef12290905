"""Collective operations of worker groups, in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from seq2see.data.batch_loader import Batch
from seq2see.errors import InputError, TrainingError
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig, Transformer
from seq2see.text import PackedIds
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.objective import Objective

SMALL = ModelConfig(vocab_size=12, d_model=16, d_ff=16, heads=2, encoder_layers=1, decoder_layers=1)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[WorkerCommunicator]:
    """Return a DDP group of one process."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield WorkerCommunicator(is_single=False)
    dist.destroy_process_group()


def raise_no_space() -> None:
    raise OSError(28, "No space left on device", "run.json")


def raise_damaged() -> None:
    raise InputError("damaged")


def test_error_of_main_process_is_raised() -> None:
    with pytest.raises(TrainingError, match="^run.json: No space left on device$"):
        WorkerCommunicator().run_on_main(raise_no_space)
    with pytest.raises(InputError, match="damaged"):
        WorkerCommunicator().run_on_main(raise_damaged)


def test_ddp_buckets_are_built_before_first_update(group: WorkerCommunicator) -> None:
    """Otherwise DDP would rebuild its buckets after the first update of a resumed run."""
    objective = Objective(Transformer.from_config(SMALL), LossConfig(), 0)
    before = [parameter.detach().clone() for parameter in objective.parameters()]
    module = group.wrap_module(objective)
    assert all(p.grad is None for p in module.parameters())
    assert all(a.equal(b) for a, b in zip(before, objective.parameters(), strict=True))
    one = PackedIds.from_lists([[5, 6]])
    module.train()(Batch.from_packed_ids(one, one)).total.backward()
    assert not module.reducer._rebuild_buckets()  # already built
    assert all(torch.isfinite(p.grad).all() for p in module.parameters())
