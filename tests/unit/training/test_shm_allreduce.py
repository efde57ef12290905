"""All-reduce in shared memory, compared with gloo."""

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
from seq2see.training.distributed import DdpCommunicator
from seq2see.training.objective import Objective
from seq2see.training.shm_allreduce import ShmAllReduce, create_shm_allreduce

SMALL = ModelConfig(
    vocab_size=100, d_model=128, d_ff=128, heads=2, encoder_layers=3, decoder_layers=3
)
"""A small model whose gradients fill more than one DDP bucket."""
SIZES = 7, 1, 30
MEMORY = "memory"
"""Directory that replaces /dev/shm in the tests; on a disk it works too, but is slower."""
REASONS = ["no directory", "no space", "another machine", "other dtype", "too many workers"]


class FakeCollectives:
    """One of two workers; the other one sees the file or not."""

    rank = 0

    def __init__(self, others_see: bool = True, count: int = 2) -> None:
        self._others_see = others_see
        self.world_size = count

    def broadcast(self, value: Any) -> Any:
        return value

    def all_gather(self, value: Any) -> list[Any]:
        return [value, self._others_see]


@contextmanager
def group_of(count: int, rank: int, store: str) -> Iterator[DdpCommunicator]:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    try:
        yield DdpCommunicator()
    finally:
        dist.destroy_process_group()


def own_values(rank: int) -> list[Tensor]:
    torch.manual_seed(rank)
    return [torch.randn(size) for size in SIZES]


def gradients(group: DdpCommunicator) -> list[Tensor]:
    """Return the gradients of a worker after two batches, of which the second is synchronized."""
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


def record_sizes(kind: type[ShmAllReduce]) -> list[int]:
    """Return a list to which each all-reduce appends its number of tensors."""
    sizes, sum_ = [], kind.all_reduce

    def count(self: ShmAllReduce, tensors: Sequence[Tensor], factor: float = 1.0) -> None:
        sizes.append(len(tensors))
        sum_(self, tensors, factor)

    kind.all_reduce = count  # type: ignore[method-assign]
    return sizes


def resume_errors(group: DdpCommunicator) -> list[str]:
    """Return the errors of resuming a run without shared memory that started with or without it."""
    objective, errors = Objective(Transformer.from_config(SMALL), LossConfig(), 0), []
    for used_at_start in (False, True):
        group.uses_shared_memory = used_at_start
        try:
            group.wrap_module(objective)
        except TrainingError as error:
            errors.append(str(error))
    return errors


def work(rank: int, count: int, store: str, results: str) -> None:
    """Compute everything that the tests compare, in one worker."""
    module.SHM_DIRECTORY = Path(results) / MEMORY
    with group_of(count, rank, store) as group:
        by_gloo = own_values(rank)
        sums = create_shm_allreduce(group, [torch.empty(sum(SIZES))])
        assert sums
        own = own_values(rank)
        sums.all_reduce(own, 0.5)
        again = own_values(rank + 1)
        sums.all_reduce(again[:2])
        for values in by_gloo:
            dist.all_reduce(values)
        sizes = record_sizes(ShmAllReduce)
        shared = gradients(group)
        assert group.uses_shared_memory
        assert sizes[-1] > 1  # several buckets in one all-reduce
        before = group._shm_allreduce
        assert all(a.equal(b) for a, b in zip(shared, gradients(group), strict=True))
        assert group._shm_allreduce is before  # the memory is used again for the next model
        left = [path.name for path in module.SHM_DIRECTORY.iterdir()]
        module.SHM_DIRECTORY = Path("/nowhere")
        group.free_shared_memory()
        group.uses_shared_memory = None
        sockets = gradients(group)
        assert group.uses_shared_memory is False
        errors = resume_errors(group)
        outcome = own, again, by_gloo, shared, sockets, left, errors
    torch.save(outcome, Path(results) / str(rank))


@pytest.fixture(scope="module", params=[2, 3])
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return the results of each of several workers."""
    directory = tmp_path_factory.mktemp("sums")
    (directory / MEMORY).mkdir()
    arguments = request.param, str(directory / "store"), str(directory)
    torch.multiprocessing.spawn(work, arguments, nprocs=request.param)
    return [torch.load(directory / str(rank)) for rank in range(request.param)]


def test_sum_is_computed_in_order_of_ranks(outcomes: list[Any]) -> None:
    workers = range(len(outcomes))
    for index in range(len(SIZES)):
        expected = sum(own_values(rank)[index] * 0.5 for rank in workers)
        assert all(outcome[0][index].equal(expected) for outcome in outcomes)
    for index in range(2):  # the same memory, used again
        expected = sum(own_values(rank + 1)[index] for rank in workers)
        assert all(outcome[1][index].equal(expected) for outcome in outcomes)
    assert all(o[1][2].equal(own_values(r + 1)[2]) for r, o in enumerate(outcomes))


def test_sum_equals_sum_of_gloo(outcomes: list[Any]) -> None:
    for outcome in outcomes:
        for ours, theirs in zip(outcome[0], outcome[2], strict=True):
            torch.testing.assert_close(2 * ours, theirs)


def test_gradients_in_shared_memory_equal_gradients_of_gloo(outcomes: list[Any]) -> None:
    for *_, shared, sockets, _, _ in outcomes:
        torch.testing.assert_close(shared, sockets)
        if len(outcomes) == 2:
            assert all(a.equal(b) for a, b in zip(shared, sockets, strict=True))
        first = outcomes[0][3]
        assert all(a.equal(b) for a, b in zip(shared, first, strict=True))
    assert any(bool(gradient.any()) for gradient in outcomes[0][3])


def test_workers_leave_no_file(outcomes: list[Any]) -> None:
    assert all(not outcome[-2] for outcome in outcomes)


def test_three_workers_require_shared_memory_to_resume(outcomes: list[Any]) -> None:
    """The order of summation would change; the sum of two values does not depend on it."""
    for *_, errors in outcomes:
        assert len(errors) == (len(outcomes) > 2)
        assert all(
            "to resume it, run all processes on the CPU of one machine with 10 MB free in /dev/shm"
            in s
            for s in errors
        )


def raise_no_space(file: int, start: int, size: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("reason", REASONS)
def test_no_allreduce_without_shared_memory(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "SHM_DIRECTORY", tmp_path / "no" if reason == "no directory" else tmp_path
    )
    if reason == "no space":
        monkeypatch.setattr(os, "posix_fallocate", raise_no_space)
    dtype = torch.float64 if reason == "other dtype" else torch.float32
    workers = FakeCollectives(reason != "another machine", 5 if reason == "too many workers" else 2)
    assert create_shm_allreduce(workers, [torch.zeros(3, dtype=dtype)]) is None
    assert not any(tmp_path.iterdir())


def test_created_allreduce_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHM_DIRECTORY", tmp_path)
    sums = create_shm_allreduce(FakeCollectives(), [torch.zeros(2, 2), torch.zeros(3)])
    assert isinstance(sums, ShmAllReduce)
    assert not any(tmp_path.iterdir())
    assert sums.can_reduce(torch.zeros(7))
    assert not sums.can_reduce(torch.zeros(8))
    assert not sums.can_reduce(torch.zeros(1, dtype=torch.float64))
