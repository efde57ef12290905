"""Memory that is kept."""

from __future__ import annotations

import gc
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from seq2see.cpu import gc_frozen
from seq2see.training.run_directory import RunDirectory
from seq2see.training.train import run_training
from seq2see.training.workers import WorkerGroup

LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PROGRAM = """
import resource
import torch
from seq2see.cpu import tune_malloc

tune_malloc()
faults = []
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [torch.ones(1_000_000) for _ in range(25)]
    del tensors
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
large = open("/proc/self/smaps_rollup").read().split("AnonHugePages:")[1].split()[0]
print(*faults, large)
"""


def kept(addresses: int | None = None) -> list[int]:
    """Return the page faults of taking 100 MB three times, and the kB of large pages then."""

    def bounded() -> None:
        if addresses is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (addresses, addresses))

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, preexec_fn=bounded
    )
    return [*map(int, done.stdout.split())]


of_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")


@of_glibc
def test_what_was_freed_is_there_for_the_next() -> None:
    first, second, third, _ = kept()
    assert second + third < first


@of_glibc
@pytest.mark.skipif(
    not LARGE_PAGES.exists() or "[never]" in LARGE_PAGES.read_text(), reason="no large pages here"
)
def test_the_heap_has_large_pages() -> None:
    first, *_, large = kept()
    assert large > 50_000
    assert first < 5_000  # of 25,000 small ones


@of_glibc
def test_few_addresses_are_enough() -> None:
    first, second, third, large = kept(addresses=800_000_000)
    assert second + third < first
    assert large == 0


def test_the_collector_spares_what_was_loaded_until_the_work_is_done() -> None:
    gc.unfreeze()  # what other tests may have kept
    garbage, loaded = Itself(), Itself()
    gone, known = ref(garbage), ref(loaded)
    del garbage
    with gc_frozen():
        assert gone() is None
        del loaded
        gc.collect()
        assert known() is not None
    gc.collect()
    assert known() is None


def test_a_run_is_spared_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = []
    unused: Any = None

    def begun(*_: object) -> None:
        frozen.append(gc.get_freeze_count() > 100_000)
        raise InterruptedError

    monkeypatch.setattr("seq2see.training.train.tune_malloc", begun)
    with pytest.raises(InterruptedError):
        run_training(unused, RunDirectory(tmp_path), WorkerGroup(), unused)
    assert frozen == [True]
    assert gc.get_freeze_count() < 100_000


class Itself:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.own = self
