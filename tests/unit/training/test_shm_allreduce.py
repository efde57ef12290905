"""Sums through memory that workers share, beside gloo's."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from seq2see.data.batch_loader import Batch
from seq2see.errors import TrainingError
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig, Transformer
from seq2see.text import PackedIds
from seq2see.training import shm_allreduce as module
from seq2see.training.objective import Objective
from seq2see.training.shm_allreduce import ShmAllReduce, create_shm_allreduce
from seq2see.training.workers import DdpWorkerGroup

SMALL = ModelConfig(
    vocab_size=100, d_model=128, d_ff=128, heads=2, encoder_layers=3, decoder_layers=3
)
"""Small, but with gradients for more than one of DDP's buckets."""
SIZES = 7, 1, 30
MEMORY = "memory"
"""A folder that nobody else writes into; on a disk it is as good, but slow."""
REASONS = ["no folder", "no room", "another machine", "other numbers", "too many"]


class Alone:
    """A worker of two, the other of which agrees with all it says but sees other files."""

    rank = 0

    def __init__(self, others_see: bool = True, count: int = 2) -> None:
        self._others_see = others_see
        self.world_size = count

    def broadcast(self, value: Any) -> Any:
        return value

    def all_gather(self, value: Any) -> list[Any]:
        return [value, self._others_see]


@contextmanager
def group_of(count: int, rank: int, store: str) -> Iterator[DdpWorkerGroup]:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    try:
        yield DdpWorkerGroup()
    finally:
        dist.destroy_process_group()


def own_values(rank: int) -> list[Tensor]:
    torch.manual_seed(rank)
    return [torch.randn(size) for size in SIZES]


def gradients(group: DdpWorkerGroup) -> list[Tensor]:
    """Return what a worker has behind two batches of its own, the first of which stays here."""
    torch.manual_seed(1)
    objective = Objective(Transformer.from_config(SMALL), LossConfig(), 0)
    wrapped = group.wrap_module(objective).train()
    batch = Batch.from_packed_ids(
        PackedIds.from_lists([[5, 6 + group.rank]]), PackedIds.from_lists([[7, 8, 9]])
    )
    for is_last in (False, True):
        with group.gradient_sync(wrapped, is_last):
            wrapped(batch).total.backward()
    return [p.grad for p in wrapped.parameters() if p.grad is not None]


def counted(kind: type[ShmAllReduce]) -> list[int]:
    """Let sums tell how many tensors each of them has."""
    sizes, sum_ = [], kind.all_reduce

    def count(self: ShmAllReduce, tensors: Sequence[Tensor], factor: float = 1.0) -> None:
        sizes.append(len(tensors))
        sum_(self, tensors, factor)

    kind.all_reduce = count  # type: ignore[method-assign]
    return sizes


def as_it_began(group: DdpWorkerGroup) -> list[str]:
    """Return what a run that began otherwise gets here, where no memory is shared any more."""
    objective, said = Objective(Transformer.from_config(SMALL), LossConfig(), 0), []
    for began in (False, True):
        group.uses_shared_memory = began
        try:
            group.wrap_module(objective)
        except TrainingError as error:
            said.append(str(error))
    return said


def work(rank: int, count: int, store: str, results: str) -> None:
    """Do all that is compared below, in one worker."""
    module.SHM_DIRECTORY = Path(results) / MEMORY
    with group_of(count, rank, store) as group:
        by_gloo = own_values(rank)
        sums = create_shm_allreduce(group, [torch.empty(sum(SIZES))])
        assert sums
        mine = own_values(rank)
        sums.all_reduce(mine, 0.5)
        again = own_values(rank + 1)
        sums.all_reduce(again[:2])
        for values in by_gloo:
            dist.all_reduce(values)
        sizes = counted(ShmAllReduce)
        shared = gradients(group)
        assert group.uses_shared_memory
        assert sizes[-1] > 1  # buckets in one sum
        before = group._sums
        assert all(a.equal(b) for a, b in zip(shared, gradients(group), strict=True))
        assert group._sums is before  # the same memory for the model that was measured
        left = [path.name for path in module.SHM_DIRECTORY.iterdir()]
        module.SHM_DIRECTORY = Path("/nowhere")
        group.free_shared_memory()
        group.uses_shared_memory = None
        sockets = gradients(group)
        assert group.uses_shared_memory is False
        said = as_it_began(group)
        outcome = mine, again, by_gloo, shared, sockets, left, said
    torch.save(outcome, Path(results) / str(rank))


@pytest.fixture(scope="module", params=[2, 3])
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Give what each of several workers has at the end."""
    folder = tmp_path_factory.mktemp("sums")
    (folder / MEMORY).mkdir()
    arguments = request.param, str(folder / "store"), str(folder)
    torch.multiprocessing.spawn(work, arguments, nprocs=request.param)
    return [torch.load(folder / str(rank)) for rank in range(request.param)]


def test_sums_are_those_of_the_workers_in_their_order(outcomes: list[Any]) -> None:
    workers = range(len(outcomes))
    for place in range(len(SIZES)):
        wanted = sum(own_values(rank)[place] * 0.5 for rank in workers)
        assert all(outcome[0][place].equal(wanted) for outcome in outcomes)
    for place in range(2):  # the same memory, used anew
        wanted = sum(own_values(rank + 1)[place] for rank in workers)
        assert all(outcome[1][place].equal(wanted) for outcome in outcomes)
    assert all(o[1][2].equal(own_values(r + 1)[2]) for r, o in enumerate(outcomes))


def test_sums_are_those_of_gloo(outcomes: list[Any]) -> None:
    for outcome in outcomes:
        for ours, theirs in zip(outcome[0], outcome[2], strict=True):
            torch.testing.assert_close(2 * ours, theirs)


def test_gradients_are_the_same_through_memory_and_through_sockets(outcomes: list[Any]) -> None:
    for *_, shared, sockets, _, _ in outcomes:
        torch.testing.assert_close(shared, sockets)
        if len(outcomes) == 2:
            assert all(a.equal(b) for a, b in zip(shared, sockets, strict=True))
        first = outcomes[0][3]
        assert all(a.equal(b) for a, b in zip(shared, first, strict=True))
    assert any(bool(gradient.any()) for gradient in outcomes[0][3])


def test_no_file_is_left(outcomes: list[Any]) -> None:
    assert all(not outcome[-2] for outcome in outcomes)


def test_a_run_of_three_goes_on_with_memory_or_not_at_all(outcomes: list[Any]) -> None:
    """The order of their sums would be another; two numbers have one sum."""
    for *_, said in outcomes:
        assert len(said) == (len(outcomes) > 2)
        assert all(
            "to be exact: on the CPU of one machine, with 10 MB free in /dev/shm" in s for s in said
        )


def full(file: int, start: int, size: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("reason", REASONS)
def test_who_shares_no_memory_has_no_such_sums(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "SHM_DIRECTORY", tmp_path / "no" if reason == "no folder" else tmp_path
    )
    if reason == "no room":
        monkeypatch.setattr(os, "posix_fallocate", full)
    dtype = torch.float64 if reason == "other numbers" else torch.float32
    workers = Alone(reason != "another machine", 5 if reason == "too many" else 2)
    assert create_shm_allreduce(workers, [torch.zeros(3, dtype=dtype)]) is None
    assert not any(tmp_path.iterdir())


def test_who_shares_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHM_DIRECTORY", tmp_path)
    sums = create_shm_allreduce(Alone(), [torch.zeros(2, 2), torch.zeros(3)])
    assert isinstance(sums, ShmAllReduce)
    assert not any(tmp_path.iterdir())
    assert sums.can_reduce(torch.zeros(7))
    assert not sums.can_reduce(torch.zeros(8))
    assert not sums.can_reduce(torch.zeros(1, dtype=torch.float64))
