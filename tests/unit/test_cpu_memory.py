"""Tests of malloc tuning and of the frozen garbage collector."""

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
from seq2see.training.builder import RunBuilder
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.run_directory import RunDirectory
from seq2see.training.training_session import train_as_worker

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
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
huge = open("/proc/self/smaps_rollup").read().split("AnonHugePages:")[1].split()[0]
print(*faults, huge)
"""


def measure_page_faults(max_bytes: int | None = None) -> list[int]:
    """Return the page faults of allocating 100 MB three times, and the kB of huge pages."""

    def limit_memory() -> None:
        if max_bytes is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (max_bytes, max_bytes))

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, preexec_fn=limit_memory
    )
    return [*map(int, done.stdout.split())]


needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")


@needs_glibc
def test_freed_memory_is_reused() -> None:
    first, second, third, _ = measure_page_faults()
    assert second + third < first


@needs_glibc
@pytest.mark.skipif(
    not HUGE_PAGES.exists() or "[never]" in HUGE_PAGES.read_text(), reason="no huge pages"
)
def test_heap_uses_huge_pages() -> None:
    first, *_, huge = measure_page_faults()
    assert huge > 50_000
    assert first < 5_000  # 25,000 with small pages


@needs_glibc
def test_memory_is_reused_with_limited_address_space() -> None:
    first, second, third, huge = measure_page_faults(max_bytes=800_000_000)
    assert second + third < first
    assert huge == 0


def test_gc_frozen_excludes_objects_until_block_ends() -> None:
    gc.unfreeze()  # other tests may have frozen objects
    garbage, loaded = SelfReference(), SelfReference()
    garbage_ref, loaded_ref = ref(garbage), ref(loaded)
    del garbage
    with gc_frozen():
        assert garbage_ref() is None
        del loaded
        gc.collect()
        assert loaded_ref() is not None
    gc.collect()
    assert loaded_ref() is None


def test_training_runs_with_frozen_gc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = []
    unused: Any = None
    directory = RunDirectory(tmp_path)
    directory.cache.mkdir()

    def start(*_: object) -> None:
        frozen.append(gc.get_freeze_count() > 100_000)
        raise InterruptedError

    monkeypatch.setattr("seq2see.training.training_session.tune_malloc", start)
    with pytest.raises(InterruptedError):
        train_as_worker(RunBuilder(unused, tmp_path, directory, WorkerCommunicator()), unused)
    assert frozen == [True]
    assert gc.get_freeze_count() < 100_000


class SelfReference:
    """Refers to itself, so that only the garbage collector frees it."""

    def __init__(self) -> None:
        self.reference = self
