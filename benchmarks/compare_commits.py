"""Compare the speed of two commits: training, translation and `seq2see --help`.

    python -m benchmarks.compare_commits A B [--rounds 5] [--updates 150] [--lines 2000]

Each commit is checked out into a temporary git worktree and run through its own command line with
its own recipe, so that internal names may differ between the commits. Both commits run at the same
time, each on its own core, because the speed of a shared machine changes within seconds; the cores
are exchanged after each round. Needs Linux and two cores. All figures are medians over the rounds;
the ratio is the median of the ratios of each round.

- training: updates per second of `recipes/reverse.toml` on one process, without startup
- translation: lines per second of the model trained in the first round, without startup
- help: seconds of `seq2see --help`

A recipe key that has another name in one of the commits can be set with --override-a or
--override-b, for example `--override-a train.updates=150`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
RECIPE = Path("recipes/reverse.toml")
UPDATE_LIMIT_KEYS = ("max_updates", "updates")
"""Names that the key for the number of updates has had; the recipe shows which one is valid."""
TRANSLATE_OPTIONS = ("--engine", "torch", "--threads", "1")
HELP_RUNS = 3
"""Runs of `seq2see --help` per round."""


@dataclass
class Measurements:
    """Figures of one commit, one value per round."""

    updates_per_second: list[float] = field(default_factory=list)
    lines_per_second: list[float] = field(default_factory=list)
    help_seconds: list[float] = field(default_factory=list)


class Checkout:
    """One commit in its own worktree, run through its own command line."""

    def __init__(
        self, commit: str, directory: Path, data: Path, updates: int, overrides: Sequence[str]
    ) -> None:
        self.commit = commit
        self.measurements = Measurements()
        self.translations = ""
        """Output of the last translation."""
        self._directory = directory
        self._data = data
        self._updates = updates
        self._overrides = overrides
        self._core = 0
        self._model: Path | None = None
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(directory / "src"),
            "OMP_NUM_THREADS": "1",
        }
        self._check_import()

    def _check_import(self) -> None:
        """Raise SystemExit if the package would not be imported from the worktree."""
        code = "import seq2see; print(seq2see.__file__)"
        path = self._run([sys.executable, "-c", code]).stdout.strip()
        if not Path(path).is_relative_to(self._directory):
            raise SystemExit(f"{self.commit} imports seq2see from {path}, not from its checkout")

    def measure(self, core: int) -> None:
        """Run everything once on a core and append the figures."""
        self._core = core
        self.measurements.updates_per_second.append(self._measure_training())
        self.measurements.lines_per_second.append(self._measure_translation())
        seconds = [self._time_command("--help")[0] for _ in range(HELP_RUNS)]
        self.measurements.help_seconds.append(median(seconds))

    def _measure_training(self) -> float:
        """Train a new model; return the updates per second between first and last log record."""
        number = len(self.measurements.updates_per_second)
        output = self._data / f"{self._directory.name}-run-{number}"
        overrides = (*self._default_overrides(), *self._overrides)
        self._time_command("train", str(RECIPE), "-o", str(output), *overrides)
        self._model = self._model or output
        lines = (output / "log.jsonl").read_text("utf-8").splitlines()
        records = [record for record in map(json.loads, lines) if record["kind"] == "train"]
        first, last = records[0], records[-1]
        return float((last["update"] - first["update"]) / (last["seconds"] - first["seconds"]))

    def _default_overrides(self) -> list[str]:
        recipe = (self._directory / RECIPE).read_text("utf-8")
        keys = {line.partition("=")[0].strip(" #") for line in recipe.splitlines() if "=" in line}
        limit = next(key for key in UPDATE_LIMIT_KEYS if key in keys)
        evaluation_set = self._data / "valid.tsv"
        return [
            f"train.{limit}={self._updates}",
            "train.processes=1",
            "train.threads=1",
            "train.tensorboard=false",
            f"data.valid.files=['{evaluation_set}']",
            f"data.test.files=['{evaluation_set}']",
        ]

    def _measure_translation(self) -> float:
        """Return lines per second; the time of a run with one line is subtracted."""
        assert self._model is not None
        command = ("translate", str(self._model), *TRANSLATE_OPTIONS)
        text = (self._data / "input.txt").read_text("utf-8")
        num_lines = text.count("\n")
        startup, _ = self._time_command(*command, text=text[: text.index("\n") + 1])
        seconds, self.translations = self._time_command(*command, text=text)
        return (num_lines - 1) / (seconds - startup)

    def _time_command(self, *arguments: str, text: str = "") -> tuple[float, str]:
        """Run `seq2see` with these arguments; return seconds and standard output."""
        start = time.perf_counter()
        done = self._run([sys.executable, "-m", "seq2see", *arguments], text)
        return time.perf_counter() - start, done.stdout

    def _run(self, command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["taskset", "--cpu-list", str(self._core), *command],  # noqa: S607
            cwd=self._directory,
            env=self._environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{self.commit}: {' '.join(command)} failed:\n{done.stderr}")
        return done


@contextmanager
def worktree(commit: str, directory: Path) -> Iterator[Path]:
    """Check a commit out into a directory and remove the worktree at the end."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(directory), commit], check=True)
    try:
        yield directory
    finally:
        subprocess.run([*git, "remove", "--force", str(directory)], check=True)


def write_inputs(directory: Path, num_lines: int) -> None:
    """Write a validation set of 20 pairs and the lines to translate: rows of random digits."""
    generator = random.Random(1)
    rows = [
        [str(generator.randrange(10)) for _ in range(generator.randint(5, 12))]
        for _ in range(num_lines)
    ]
    pairs = [f"{' '.join(row)}\t{' '.join(reversed(row))}\n" for row in rows[:20]]
    (directory / "valid.tsv").write_text("".join(pairs), "utf-8")
    (directory / "input.txt").write_text("".join(f"{' '.join(row)}\n" for row in rows), "utf-8")


def print_table(a: Checkout, b: Checkout) -> None:
    """Print medians and the median ratio of each measurement."""
    print(f"| measurement | unit | {a.commit} | {b.commit} | {b.commit} / {a.commit} |")
    print("|---|---|---|---|---|")
    rows = [
        ("training", "updates/s", "updates_per_second"),
        ("translation", "lines/s", "lines_per_second"),
        ("seq2see --help", "s", "help_seconds"),
    ]
    for name, unit, key in rows:
        ours, theirs = getattr(a.measurements, key), getattr(b.measurements, key)
        ratio = median(y / x for x, y in zip(ours, theirs, strict=True))
        print(f"| {name} | {unit} | {median(ours):.3f} | {median(theirs):.3f} | {ratio:.3f} |")
    same = "identical" if a.translations == b.translations else "different"
    print(f"\nThe translations of both commits are {same}.")


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("a", help="first commit")
    parser.add_argument("b", help="second commit")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (default 5)")
    parser.add_argument("--updates", type=int, default=150, help="updates per run (default 150)")
    parser.add_argument("--lines", type=int, default=2000, help="lines to translate (default 2000)")
    for name in ("a", "b"):
        parser.add_argument(
            f"--override-{name}",
            action="append",
            default=[],
            metavar="SECTION.KEY=VALUE",
            help=f"recipe setting for commit {name.upper()} only; may be repeated",
        )
    return parser.parse_args()


def main() -> None:
    """Compare the commits and print the table."""
    args = parse_arguments()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        data = Path(name)
        write_inputs(data, args.lines)
        commits = {"a": args.a, "b": args.b}
        a, b = (
            Checkout(
                commit,
                stack.enter_context(worktree(commit, data / label)),
                data,
                args.updates,
                getattr(args, f"override_{label}"),
            )
            for label, commit in commits.items()
        )
        cores = sorted(os.sched_getaffinity(0))[:2]
        with ThreadPoolExecutor(max_workers=2) as pool:
            for number in range(args.rounds):
                for _ in pool.map(Checkout.measure, (a, b), cores):
                    pass
                cores.reverse()
                print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        print_table(a, b)


if __name__ == "__main__":
    main()
