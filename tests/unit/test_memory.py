"""Memory that is kept."""

from __future__ import annotations

import gc
import platform
import resource
import subprocess
import sys
from pathlib import Path
from weakref import ref

import pytest

from seq2see.engines.memory import keep_what_is_loaded, sparing_what_is_loaded

LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PROGRAM = """
import resource
import torch
from seq2see.engines.memory import keep_freed_memory

keep_freed_memory()
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


pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")


def test_what_was_freed_is_there_for_the_next() -> None:
    first, second, third, _ = kept()
    assert second + third < first


@pytest.mark.skipif(
    not LARGE_PAGES.exists() or "[never]" in LARGE_PAGES.read_text(), reason="no large pages here"
)
def test_the_heap_has_large_pages() -> None:
    first, *_, large = kept()
    assert large > 50_000
    assert first < 5_000  # of 25,000 small ones


def test_few_addresses_are_enough() -> None:
    first, second, third, large = kept(addresses=800_000_000)
    assert second + third < first
    assert large == 0


def test_the_collector_spares_what_was_loaded_until_the_work_is_done() -> None:
    class Thing:
        """Something that refers to itself, so that only the collector frees it."""

        def __init__(self) -> None:
            self.own = self

    gc.unfreeze()  # what other tests may have kept
    loaded, lost = Thing(), ref(thing := Thing())
    del thing
    with sparing_what_is_loaded():
        assert not any(each is loaded for each in gc.get_objects())
        gc.collect()
        assert lost() is not None
    assert not gc.get_freeze_count()
    gc.collect()
    assert lost() is None


def test_what_a_program_keeps_stays_kept() -> None:
    keep_what_is_loaded()
    try:
        with sparing_what_is_loaded():
            pass
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_of_those_who_work_side_by_side_the_last_gives_all_back() -> None:
    gc.unfreeze()
    first, second = sparing_what_is_loaded(), sparing_what_is_loaded()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_freeze_count()
    second.__exit__(None, None, None)
    assert not gc.get_freeze_count()
