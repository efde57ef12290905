"""Read damaged and hostile model directories and checkpoints: each gives a result or one line.

    python -m benchmarks.fuzz_files [--minutes 15] [--seed 1] [--failures DIRECTORY]

A case copies a directory, changes one of its files at random (bits, length, values and types in
JSON, special files) and reads the directory in a forked process with limits of time and memory.
Half of the changed models get the right checksums, as from an attacker. A traceback, a message of
several lines or with control characters, an exceeded limit or a crash is a failure. The directories
of failures are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file

from seq2see.atomic_files import compute_sha256
from seq2see.bundle import Bundle
from seq2see.data import fables
from seq2see.engines.ctranslate2_conversion import get_cached_conversion
from seq2see.engines.loading import read_alignment_config, read_default_stop_rule
from seq2see.errors import Seq2SeeError
from seq2see.interop import import_model
from seq2see.model import ModelConfig, Transformer
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.training.checkpoints import (
    CheckpointDirectory,
    ExponentialMovingAverage,
    TrainingState,
)
from seq2see.training.config import CheckpointConfig, build_demo_config
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.optimization import LearningRateSchedule, ScheduleConfig
from seq2see.training.run_directory import RunDirectory, RunPlan

SECONDS_PER_CASE = 20
MEGABYTES_PER_CASE = 500
"""Limit of the memory that a case uses beyond that of the process."""
_HOSTILE_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 2**31, 2**63, 2**200, 0.0, -0.5, 1e308, 1e-320),
    *("", "0", "x" * 100_000, "\x1b[31mred\x9b2J\r", "\ud800", "\0", [], {}, [[]], [1, 2], {"": 1}),
    *({"kind": "learned"}, float("nan"), float("inf"), ["a"] * 1000, "../../x", "/dev/zero"),
)


@dataclass(frozen=True)
class FuzzTarget:
    """A directory that is changed, and the function that reads it."""

    name: str
    directory: Path
    read: Callable[[Path], object]
    has_checksums: bool = False


# --- targets ---


def build_bundle() -> Bundle:
    """Return a small model with random weights."""
    cases = fables.load_fables_split("valid", short=True)[:300]
    sides = [case.source for case in cases], [case.target for case in cases]
    tokenizers = TokenizerPair.train(*sides, TokenizerConfig(vocab_size=320))
    sizes: dict[str, Any] = {
        "d_model": 16,
        "d_ff": 16,
        "heads": 2,
        "encoder_layers": 2,
        "decoder_layers": 2,
    }
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **sizes)
    weights = Transformer.from_config(config).state_dict()
    return Bundle(config, tokenizers, ("en", "fr"), weights, max_length=40)


def write_marian_model(bundle: Bundle, directory: Path, *, pickled: bool) -> None:
    """Write a MarianMT model with random weights."""
    from transformers import MarianConfig, MarianMTModel  # noqa: PLC0415 slow

    directory.mkdir()
    pieces = bundle.tokenizers.source.pieces
    sizes: dict[str, Any] = {
        f"{stack}_{name}": value
        for stack in ("encoder", "decoder")
        for name, value in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 24))
    }
    config = MarianConfig(
        vocab_size=len(pieces),
        decoder_vocab_size=len(pieces),
        d_model=16,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=0,
        **sizes,
    )
    MarianMTModel(config).save_pretrained(directory)
    for side in ("source", "target"):
        bundle.tokenizers.source.save(directory / f"{side}.spm")
    ids = {piece: index for index, piece in enumerate(pieces)}
    (directory / "vocab.json").write_text(json.dumps(ids), "utf-8")
    languages = {"source_lang": "en", "target_lang": "fr"}
    (directory / "tokenizer_config.json").write_text(json.dumps(languages), "utf-8")
    if pickled:
        torch.save(load_file(directory / "model.safetensors"), directory / "pytorch_model.bin")
        (directory / "model.safetensors").unlink()


def read_bundle(directory: Path) -> None:
    """Load a model directory and use all of its settings."""
    bundle = Bundle.load(directory)
    bundle.build_model()
    bundle.format_card()
    read_alignment_config(bundle)
    read_default_stop_rule(bundle)
    bundle.tokenizers.target.decode(bundle.tokenizers.source.encode("The dog sleeps."))
    bundle.tokenizers.source.sample("The dog sleeps.", 0.1, 1, 1, 1)


def read_marian_model(directory: Path) -> None:
    """Import a MarianMT model and save it."""
    import_model(directory).save(directory.with_name("imported"))


def read_conversion(directory: Path) -> None:
    """Return a usable conversion of a model, which may have a damaged one."""
    import ctranslate2  # type: ignore[import-untyped] # noqa: PLC0415 slow

    bundle = Bundle.load(directory)
    conversion = get_cached_conversion(bundle, lambda _: None)
    ctranslate2.Translator(str(conversion.directory))


def build_state() -> TrainingState:
    """Return the state of a small run after one update."""
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    schedule = LearningRateSchedule(ScheduleConfig(), 1, 1)
    return TrainingState(model, optimizer, schedule, ExponentialMovingAverage(model, 0.9))


def write_run(directory: Path) -> None:
    """Write the files of a run with two checkpoints."""
    directory.mkdir()
    run, state = RunDirectory(directory), build_state()
    run.cache.mkdir()
    run.write_start(build_demo_config(1, 1), RunPlan(2, 1, 1))
    run.write_corpus_records({})
    run.write_training_text(None)
    for update in (1, 2):
        state.progress.update = update
        CheckpointDirectory(run.checkpoints, CheckpointConfig(interval=1)).save(
            state, WorkerCommunicator()
        )


def read_run(directory: Path) -> None:
    """Resume a run as far as its own files are concerned."""
    run = RunDirectory(directory)
    run.load_plan(build_demo_config(1, 1))
    run.read_corpus_records()
    run.read_training_text()
    checkpoints, state = (
        CheckpointDirectory(run.checkpoints, CheckpointConfig(interval=1)),
        build_state(),
    )
    checkpoints.set_aside_damaged()
    checkpoints.restore_last(state)
    checkpoints.final_weights(state)


def build_targets(home: Path) -> list[FuzzTarget]:
    """Write the directories of all targets below `home`."""
    bundle = build_bundle()
    bundle.save(home / "bundle")
    write_marian_model(bundle, home / "marian", pickled=False)
    write_marian_model(bundle, home / "pickled", pickled=True)
    write_run(home / "run")
    bundle.save(home / "converted")
    get_cached_conversion(Bundle.load(home / "converted"), lambda _: None)
    return [
        FuzzTarget("bundle", home / "bundle", read_bundle, has_checksums=True),
        FuzzTarget("marian", home / "marian", read_marian_model),
        FuzzTarget("pickled", home / "pickled", read_marian_model),
        FuzzTarget("run", home / "run", read_run),
        FuzzTarget("converted", home / "converted", read_conversion),
    ]


# --- changes ---


def change_file(path: Path, generator: random.Random) -> str:
    """Change a file at random; return what was done."""
    changes = [flip_bits, flip_bits, truncate, insert_bytes, replace_by_special_file]
    if path.suffix == ".json":
        changes = [*changes, *[change_json] * 12]
    elif path.suffix == ".safetensors":
        changes = [*changes, *[change_header] * 5]
    elif path.name == "pytorch_model.bin":
        changes = [*changes, *[change_tensors] * 8]
    change = generator.choice(changes)
    change(path, generator)
    return change.__name__


def flip_bits(path: Path, generator: random.Random) -> None:
    """Flip one to sixteen bits, more often at the start."""
    content = bytearray(path.read_bytes())
    for _ in range(generator.choice((1, 1, 2, 16))):
        limit = len(content) if generator.random() < 0.5 else min(len(content), 300)
        if limit:
            content[generator.randrange(limit)] ^= 1 << generator.randrange(8)
    path.write_bytes(content)


def truncate(path: Path, generator: random.Random) -> None:
    """Remove the end of the file."""
    os.truncate(path, generator.randrange(path.stat().st_size + 1))


def insert_bytes(path: Path, generator: random.Random) -> None:
    """Insert, repeat or remove bytes."""
    content = path.read_bytes()
    start = generator.randrange(len(content) + 1)
    end = start + generator.randrange(40)
    path.write_bytes(
        content[:start]
        + generator.choice((generator.randbytes(9), b"", bytes(50), 3 * content[start:end]))
        + content[end:]
    )


def replace_by_special_file(path: Path, generator: random.Random) -> None:
    """Replace the file by a pipe, a device, a directory, a dangling link or a very large file."""
    path.unlink()
    kind = generator.randrange(6)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.symlink_to("/dev/zero")
    elif kind == 2:
        path.mkdir()
    elif kind == 3:
        path.symlink_to("missing")
    elif kind == 4:
        path.symlink_to(path.name)
    else:
        path.touch()
        os.truncate(path, 1 << 40)


def change_json(path: Path, generator: random.Random) -> None:
    """Replace, remove or add a value of a JSON file."""
    content = json.loads(path.read_bytes())
    containers = [*find_containers(content)] or [{}]
    container = generator.choice(containers)
    value: Any = generator.choice(_HOSTILE_VALUES)
    keys = [*container] if isinstance(container, dict) else [*range(len(container))]
    if not keys or generator.random() < 0.05:
        content = value
    elif generator.random() < 0.15:
        del container[generator.choice(keys)]
    elif generator.random() < 0.1 and isinstance(container, dict):
        container["\x1b[2J"] = value
    else:
        container[generator.choice(keys)] = value
    path.write_bytes(json.dumps(content).encode())


def find_containers(value: Any) -> list[Any]:
    """Return all objects and lists in a JSON value."""
    if not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(found for each in inner for found in find_containers(each))]


def change_header(path: Path, generator: random.Random) -> None:
    """Change the JSON header of a safetensors file."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = path.with_suffix(".header")
    header.write_bytes(content[8 : 8 + size])
    change_json(header, generator)
    changed = header.read_bytes()
    header.unlink()
    path.write_bytes(len(changed).to_bytes(8, "little") + changed + content[8 + size :])


def change_tensors(path: Path, generator: random.Random) -> None:
    """Replace a tensor of a pickled file by another kind of object."""
    weights = torch.load(path, weights_only=True)
    name = generator.choice([*weights])
    weight = weights[name]
    weights[name] = generator.choice(
        [
            *(weight.tolist(), None, 3, "text", {"a": weight}, [weight], weight.to("meta")),
            torch.zeros(1).expand(1 << 20, 1 << 20),
            torch.zeros(1).expand(weight.shape),
            torch.sparse_coo_tensor(torch.zeros(2, 1), torch.ones(1), (1 << 30, 1 << 20)),
            torch.zeros(4, 4).to_sparse_csr(),
            torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8),
            *(weight.to(torch.complex64), weight.bool(), weight.long(), weight.double()),
            *(weight.half(), weight * float("nan"), weight[..., None], weight.flatten()),
            *(torch.nn.Parameter(weight), torch.zeros(0), torch.tensor(1.0)),
            torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
        ]
    )
    choice = generator.random()
    if choice < 0.1:
        weights = [weights]
    elif choice < 0.2:
        weights[generator.choice((3, ("a", "b"), None, "\x1b[2J"))] = weight
    torch.save(weights, path)


def correct_checksums(directory: Path) -> None:
    """Write the checksums of the files into `config.json`, if it can be read."""
    path = directory / "config.json"
    try:
        table = json.loads(path.read_bytes())
        for name in table["checksums"]:
            table["checksums"][name] = compute_sha256(directory / name)
    except (OSError, ValueError, LookupError, TypeError):
        return
    path.write_bytes(json.dumps(table).encode())


# --- cases ---


def run_case(target: FuzzTarget, directory: Path, seed: int) -> tuple[str, str]:
    """Change a copy of the target and read it; return the change and the result."""
    generator = random.Random(seed)
    shutil.copytree(target.directory, directory / "model")
    files = sorted(path for path in (directory / "model").rglob("*") if path.is_file())
    path = generator.choice(files)
    done = f"{change_file(path, generator)} {path.name}"
    is_regular = path.is_file() and path.stat().st_size < 1 << 30 and path.name != "config.json"
    if target.has_checksums and generator.random() < 0.7 and is_regular:
        correct_checksums(directory / "model")
    return done, read_in_child(target.read, directory)


def read_in_child(read: Callable[[Path], object], directory: Path) -> str:
    """Read the directory in a forked process; return `valid`, `rejected` or the failure."""
    report = directory / "report"
    child = os.fork()
    if child == 0:
        _read_and_report(read, directory / "model", report)
    deadline = time.monotonic() + SECONDS_PER_CASE
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"hang of {SECONDS_PER_CASE} s"
        time.sleep(0.002)
    return report.read_text("utf-8") if report.exists() else "crash"


def _read_and_report(read: Callable[[Path], object], directory: Path, report: Path) -> None:
    result, output = "valid", os.open(report.with_name("stderr"), os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 2)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_AS, (32 << 30, 32 << 30))
    try:
        read(directory)
    except Seq2SeeError as error:
        result = "rejected" if str(error).isprintable() else f"not printable: {str(error)!r}"
        if len(str(error)) > 2000:
            result = f"long message: {str(error)[:2000]}"
    except BaseException:
        result = traceback.format_exc()
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) >> 10
    if more > MEGABYTES_PER_CASE:
        result = f"{more} MB; {result}"
    if printed := report.with_name("stderr").read_bytes():
        result = f"printed {printed[:500]!r}; {result}"
    report.write_text(result, "utf-8", errors="backslashreplace")
    os._exit(0)


def main() -> None:
    """Run random cases for some minutes and print the numbers of results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["XDG_CACHE_HOME"] = "/dev/null/none"  # conversions are read from the model
    counts: Counter[str] = Counter()
    failures: dict[str, int] = {}
    with TemporaryDirectory() as name:
        targets = build_targets(Path(name))
        targets = [each for each in targets if each.name in (options.target or [each.name])]
        seed, end = options.seed * 1_000_000, time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            seed += 1
            target = targets[seed % len(targets)]
            with TemporaryDirectory(dir=name) as case:
                done, result = run_case(target, Path(case), seed)
                is_passed = result in {"valid", "rejected"}
                counts[f"{target.name}: {result if is_passed else 'FAILURE'}"] += 1
                key = f"{target.name}: {done}: {result.strip().splitlines()[-1][:200]}"
                if not is_passed and key not in failures:
                    print(f"seed {seed}: {key}\n{result}", file=sys.stderr, flush=True)
                    (options.failures / str(seed)).mkdir(parents=True, exist_ok=True)
                    (options.failures / str(seed) / "report").write_text(result, "utf-8")
                failures[key] = failures.get(key, 0) + (not is_passed)
    print(json.dumps({"cases": sum(counts.values()), **dict(sorted(counts.items()))}, indent=1))
    sys.exit(any("FAILURE" in each for each in counts))


if __name__ == "__main__":
    main()
