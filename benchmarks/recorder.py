"""What explaining costs when nobody asks for it: a recorder that is present and listens nowhere.

    python -m benchmarks.recorder MODEL FILE [--lines 300] [--rounds 9] [--threads 2]

Four forms of the torch engine take turns: with every question to the recorder cut out of the
model's code; the same once more, which shows the noise; as it is, with the silent recorder; and
with a recorder of the sort that a trace has, which looks at each place before it declines. The
figures are medians over rounds of the time against the first form in the same round.
"""

from __future__ import annotations
import __future__

import argparse
import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
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
from seq2see.engines.base import TokenIds
from seq2see.engines.batching import pad_sequences
from seq2see.engines.torch_decoder import SupportsLogProbabilities, TorchDecoder
from seq2see.engines.torch_engine import TorchEngine
from seq2see.model import AttentionListener, AttentionSite, LayerListener, StackName, Transformer
from seq2see.model.attention import CrossAttention, MultiHeadAttention
from seq2see.model.layers import Decoder, Encoder
from seq2see.search import SearchConfig

BEAMS = (1, 5)
ASKED: tuple[tuple[type, str], ...] = (
    (Encoder, "encode_embeddings"),
    (Decoder, "forward"),
    (MultiHeadAttention, "attend"),
    (CrossAttention, "forward"),
)
"""Where the model asks the recorder."""
UNASKED, AGAIN, AS_IT_IS, IDLE = "not asked", "not asked, again", "as it is", "idle recorder"


class Idle:
    """Keeps the places that it was asked to hear, which are none."""

    def __init__(self) -> None:
        self.sites: dict[AttentionSite, AttentionListener] = {}
        self.layers: dict[tuple[StackName, int], LayerListener] = {}

    def attention_listener(self, site: AttentionSite) -> AttentionListener | None:
        """Look the place up."""
        return self.sites.get(site)

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener | None:
        """Look the layer up."""
        return self.layers.get((stack, layer))


class IdlyHeard(TorchEngine):
    """The engine with a recorder that hears nothing."""

    def _build_decoder(
        self,
        rows: Sequence[TokenIds],
        config: SearchConfig,
        outputs: Sequence[SupportsLogProbabilities],
    ) -> TorchDecoder:
        del config
        source_BS = pad_sequences(rows, self.pad_id).to(self.device)
        return TorchDecoder(self.model, source_BS, Idle(), output_projection=outputs[0])


class _NoQuestions(ast.NodeTransformer):
    """Puts None in the place of what a recorder answers."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        asks = isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_listener")
        return ast.copy_location(ast.Constant(None), node) if asks else node


@cache
def without_questions(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the model whose code has no recorder."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    changed = ast.fix_missing_locations(_NoQuestions().visit(tree))
    lazy = __future__.annotations.compiler_flag
    names = dict(function.__globals__)
    exec(compile(changed, inspect.getfile(function), "exec", lazy), names)  # noqa: S102
    made: Callable[..., Any] = names[function.__name__]
    return made


@contextmanager
def nobody_asks() -> Iterator[None]:
    """Give the model the code without questions meanwhile."""
    before = [(owner, name, getattr(owner, name)) for owner, name in ASKED]
    for owner, name, function in before:
        setattr(owner, name, without_questions(function))
    try:
        yield
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def refuse_questions(model: Transformer) -> None:
    """Fail if the code still asks: what it is given has no answers."""
    ids = torch.ones(2, 3, dtype=torch.long)
    nothing: Any = object()
    with nobody_asks(), torch.inference_mode():
        model(ids, ids, nothing)


def measure(home: Path, lines: list[str], rounds: int, threads: int) -> None:
    """Print a table for each beam."""
    translator = seq2see.load(home, "torch", threads=threads)
    engine = translator.engine
    assert isinstance(engine, TorchEngine)
    refuse_questions(engine.model)
    heard = copy(translator)
    heard.engine = copy(engine)
    heard.engine.__class__ = IdlyHeard  # its stop rule and batches are the same
    for beam in BEAMS:
        times = _times(translator, heard, lines, beam, rounds)
        print(f"\nbeam {beam}, {len(lines):,} lines, {threads} threads, {rounds} rounds\n")
        print("| recorder | sentences/s | time | quartiles |\n|---|---|---|---|")
        for name in (UNASKED, AGAIN, AS_IT_IS, IDLE):
            speed = median(len(lines) / spent[name] for spent in times)
            shares = [spent[name] / spent[UNASKED] for spent in times]
            low, middle, high = quantiles(shares, n=4)
            print(f"| {name} | {speed:,.0f} | {middle:.3f} | {low:.3f}–{high:.3f} |")


def _times(
    translator: seq2see.Translator,
    heard: seq2see.Translator,
    lines: list[str],
    beam: int,
    rounds: int,
) -> list[dict[str, float]]:
    """Return the seconds of each form in each round; each round begins with another."""

    def plain() -> list[str]:
        return [found.text for found in translator.translate(lines, beam_size=beam)]

    def idle() -> list[str]:
        return [found.text for found in heard.translate(lines, beam_size=beam)]

    def unasked() -> list[str]:
        with nobody_asks():
            return plain()

    forms = [(UNASKED, unasked), (AS_IT_IS, plain), (AGAIN, unasked), (IDLE, idle)]
    assert plain() == idle() == unasked(), "the forms must say the same"
    times = []
    for number in range(rounds):
        turn = number % len(forms)
        times.append({name: seconds(work) for name, work in (*forms[turn:], *forms[:turn])})
    return times


def main() -> None:
    """Run what was asked for."""
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
