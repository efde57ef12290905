"""Whether int8 may be used: on some CPUs its sums saturate, and translations fall apart unseen.

So a few probe sentences, which training leaves in the model directory, are translated on this very
CPU, and int8 is used only if they come out much as in float32.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROBES = "probes.txt"
"""Source sentences, one a line, in the model directory."""
LEAST_CHRF = 80.0
"""chrF of int8 with float32 as reference. A healthy int8 has above 90; saturation leaves rubble."""
RESULTS = "int8.json"
"""In the directory of the converted model: the result of each CPU, and of each set of probes."""

Translate = Callable[[list[str]], list[str]]


def probes(home: Path) -> list[str]:
    """Return the probe sentences of a model directory; none, if it has none."""
    try:
        return list(filter(None, (home / PROBES).read_text("utf-8").split("\n")))
    except OSError:
        return []


def int8_refusal(home: Path, directory: Path, full: Translate, quick: Translate) -> str | None:
    """Return why int8 is not used here, if so. What was measured is kept with the conversion."""
    sentences = probes(home)
    if not sentences:
        return (
            f"its quality cannot be checked, for {home} has no {PROBES}: put some dozens of source "
            "sentences there, one a line"
        )
    path, case = directory / RESULTS, _case(sentences)
    known = _read(path)
    if case not in known:
        from seq2see import metrics  # noqa: PLC0415  # scorers take long to import

        found = metrics.score(quick(sentences), full(sentences), "chrf")
        known[case] = round(found.value, 2)
        with suppress(OSError):  # a directory that cannot be written: measured again next time
            path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
    if known[case] >= LEAST_CHRF:
        return None
    return (
        f"it fails on this CPU: chrF {known[case]:.1f} with float32 as reference, "
        f"below {LEAST_CHRF:.0f}"
    )


def _read(path: Path) -> dict[str, float]:
    try:
        table = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(cpu): float(value) for cpu, value in table.items()}


def _case(sentences: list[str]) -> str:
    """Return what the result depends on: the kind of CPU, and what was translated."""
    digest = hashlib.sha256("\n".join(sentences).encode()).hexdigest()
    return f"{_cpu()}, {len(sentences)} probes {digest[:12]}"


def _cpu() -> str:
    """Return what tells this kind of CPU from others."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
