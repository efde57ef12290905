"""Measure the cost of the recorder interface when nothing is recorded.

    python -m benchmarks.recorder MODEL FILE [--lines 300] [--rounds 9] [--threads 2]

Four variants of the torch engine alternate: with all recorder calls removed from the code of the
model; the same again, which shows the noise; unchanged, with the null recorder; and with an idle
recorder, which looks up each attention site and layer and records none. The figures are medians
over the rounds of the time relative to the first variant in the same round.
"""

from __future__ import annotations
import __future__

import argparse
import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch

import seq2see
from benchmarks.machine import seconds
from seq2see.data.readers import read_lines
from seq2see.engines.base import BatchResult
from seq2see.engines.torch_engine import TorchEngine
from seq2see.model import (
    AttentionListener,
    AttentionModuleId,
    LayerListener,
    StackName,
    Transformer,
)
from seq2see.model.attention import CrossAttention, MultiHeadAttention
from seq2see.model.layers import Decoder, Encoder

BEAMS = (1, 5)
RECORDING_METHODS: tuple[tuple[type, str], ...] = (
    (Encoder, "encode_embeddings"),
    (Decoder, "forward"),
    (MultiHeadAttention, "attend"),
    (CrossAttention, "forward"),
)
"""Methods of the model that call the recorder."""
REMOVED, REMOVED_AGAIN = "calls removed", "calls removed, again"
UNCHANGED, IDLE = "unchanged", "idle recorder"


class IdleRecorder:
    """Recorder that looks up attention sites and layers in empty tables."""

    def __init__(self) -> None:
        self.sites: dict[AttentionModuleId, AttentionListener] = {}
        self.layers: dict[tuple[StackName, int], LayerListener] = {}

    def attention_listener(self, site: AttentionModuleId) -> AttentionListener | None:
        """Look up an attention site."""
        return self.sites.get(site)

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener | None:
        """Look up a layer."""
        return self.layers.get((stack, layer))


class IdleRecorderEngine(TorchEngine):
    """Torch engine with an idle recorder."""

    def search(self, *args: Any, **settings: Any) -> Iterator[BatchResult]:
        """Search with an idle recorder."""
        return super().search(*args, **{**settings, "recorder": IdleRecorder()})


class _RemoveRecorderCalls(ast.NodeTransformer):
    """Replaces the calls of recorder methods by None."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        is_recorder_call = isinstance(node.func, ast.Attribute) and node.func.attr.endswith(
            "_listener"
        )
        return ast.copy_location(ast.Constant(None), node) if is_recorder_call else node


@cache
def without_recorder_calls(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of the model without its recorder calls."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    changed = ast.fix_missing_locations(_RemoveRecorderCalls().visit(tree))
    flags = __future__.annotations.compiler_flag
    names = dict(function.__globals__)
    exec(compile(changed, inspect.getfile(function), "exec", flags), names)  # noqa: S102
    compiled: Callable[..., Any] = names[function.__name__]
    return compiled


@contextmanager
def recorder_calls_removed() -> Iterator[None]:
    """Remove the recorder calls from the model within the context."""
    originals = [(owner, name, getattr(owner, name)) for owner, name in RECORDING_METHODS]
    for owner, name, function in originals:
        setattr(owner, name, without_recorder_calls(function))
    try:
        yield
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)


def check_calls_removed(model: Transformer) -> None:
    """Fail if the model still calls the recorder: the object given has no methods."""
    ids = torch.ones(2, 3, dtype=torch.long)
    invalid_recorder: Any = object()
    with recorder_calls_removed(), torch.inference_mode():
        model(ids, ids, invalid_recorder)


def measure(model_directory: Path, lines: list[str], rounds: int, threads: int) -> None:
    """Print a table for each beam size."""
    translator = seq2see.load(model_directory, "torch", threads=threads)
    engine = translator.engine
    assert isinstance(engine, TorchEngine)
    check_calls_removed(engine.model)
    idle_translator = copy(translator)
    idle_translator.engine = copy(engine)
    idle_translator.engine.__class__ = IdleRecorderEngine  # with the same stop rule and batches
    for beam in BEAMS:
        times = _measure_rounds(translator, idle_translator, lines, beam, rounds)
        print(f"\nbeam {beam}, {len(lines):,} lines, {threads} threads, {rounds} rounds\n")
        print("| recorder | sentences/s | time | quartiles |\n|---|---|---|---|")
        for name in (REMOVED, REMOVED_AGAIN, UNCHANGED, IDLE):
            speed = median(len(lines) / spent[name] for spent in times)
            ratios = [spent[name] / spent[REMOVED] for spent in times]
            low, middle, high = quantiles(ratios, n=4)
            print(f"| {name} | {speed:,.0f} | {middle:.3f} | {low:.3f}–{high:.3f} |")


def _measure_rounds(
    translator: seq2see.Translator,
    idle_translator: seq2see.Translator,
    lines: list[str],
    beam: int,
    rounds: int,
) -> list[dict[str, float]]:
    """Return the seconds of each variant in each round; the order rotates."""

    def unchanged() -> list[str]:
        return [result.text for result in translator.translate(lines, beam_size=beam)]

    def idle() -> list[str]:
        return [result.text for result in idle_translator.translate(lines, beam_size=beam)]

    def removed() -> list[str]:
        with recorder_calls_removed():
            return unchanged()

    variants = [(REMOVED, removed), (UNCHANGED, unchanged), (REMOVED_AGAIN, removed), (IDLE, idle)]
    assert unchanged() == idle() == removed(), "all variants must give the same translations"
    times = []
    for number in range(rounds):
        offset = number % len(variants)
        times.append(
            {name: seconds(work) for name, work in (*variants[offset:], *variants[:offset])}
        )
    return times


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    lines = [line for line, _ in zip(read_lines(options.file), range(options.lines), strict=False)]
    measure(options.model, lines, options.rounds, options.threads)


if __name__ == "__main__":
    main()
