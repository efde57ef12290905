#!/usr/bin/env python
"""Run a benchmark and store its tables in docs/results, from which docs/results.md is made.

    .venv/bin/python scripts/record_result.py training -- python -m benchmarks.training --rounds 9
    .venv/bin/python scripts/update_doc_tables.py

The file has the command, the commit, the date, the machine, the duration, and the tables that the
command prints as Markdown, each with the line above it. If there are uncommitted changes, the
result is rejected.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs/results"


def find_tables(output: str) -> list[dict[str, object]]:
    """Return the Markdown tables in the output of a command: caption, columns and rows."""
    tables: list[dict[str, object]] = []
    for match in re.finditer(r"(?m)((?:^(?!\|).*\n)*)((?:^\|.*\|\n?)+)", output):
        caption = (match[1].strip().splitlines() or [""])[-1]
        columns, _, *rows = [split_row(line) for line in match[2].splitlines()]
        tables.append({"caption": caption, "columns": columns, "rows": rows})
    return tables


def split_row(line: str) -> list[str]:
    """Return the cells of a row of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def describe_machine() -> str:
    """Return the processor, its vector extensions and the number of usable cores."""
    try:
        information = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        information = ""
    name = re.search(r"model name\s*:\s*(.+)", information)
    extensions = [name for name in ("avx512f", "avx2") if f" {name} " in information]
    cores = len(os.sched_getaffinity(0))
    parts = [name[1] if name else platform.machine(), *extensions[:1], f"{cores} cores"]
    return ", ".join(parts)


def git(*arguments: str) -> str:
    """Return the output of a git command."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def record(name: str, command: Sequence[str]) -> Path:
    """Run a command, show its output and write its tables to docs/results."""
    if git("status", "--porcelain", "--untracked-files=no"):
        sys.exit("commit all changes first: the result names the commit")
    started = time.monotonic()
    own = [sys.executable, *command[1:]] if command[0] == "python" else list(command)
    lines = []
    with subprocess.Popen(own, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode or not (tables := find_tables("".join(lines))):
        sys.exit(f"{shlex.join(command)} failed or printed no table")
    result = {
        "command": shlex.join(command),
        "commit": git("rev-parse", "--short", "HEAD").strip(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": describe_machine(),
        "duration": f"{time.monotonic() - started:,.0f} seconds",
        "tables": tables,
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return path


def main() -> None:
    """Run the command after `--`."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("name", help="name of the result, the file in docs/results")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- and the benchmark to run")
    arguments = parser.parse_args()
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        parser.error("a command must follow --")
    print(record(arguments.name, command), file=sys.stderr)


if __name__ == "__main__":
    main()
