"""The model as a tree: every part that holds weights, their shapes, and how many they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from torch import nn

SummaryRows = Iterator[tuple[str, str, str, str]]


class ModuleGroup(NamedTuple):
    """One line of the tree: a module, or several in a row that are alike."""

    name: str
    modules: Sequence[nn.Module]


def count_parameters(*modules: nn.Module) -> int:
    """Count the weights; one that is shared counts once."""
    return sum(weight.numel() for weight in _weights(modules))


def format_model_summary(model: nn.Module) -> str:
    """Return the tree as text. Layers that are alike stand once, with one layer's numbers below."""
    top = (type(model).__name__, "", "", f"{count_parameters(model):,}")
    rows = [top, *_rows(model, "", set())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {shapes:<{widths[2]}}  {count:>{widths[3]}}"
        for name, kind, shapes, count in rows
    )


def _rows(module: nn.Module, indent: str, seen: set[nn.Parameter]) -> SummaryRows:
    parts = list(_parts(module))
    for i, (name, modules) in enumerate(parts):
        branch, below = ("└─ ", "   ") if i == len(parts) - 1 else ("├─ ", "│  ")
        kind = type(modules[0]).__name__
        weights = _weights(modules)
        new = sum(weight.numel() for weight in weights - seen)
        yield (
            indent + branch + name,
            f"{len(modules)} × {kind}" if len(modules) > 1 else kind,
            _shapes(modules[0]),
            f"{new:,}" if new else "shared",
        )
        yield from _rows(modules[0], indent + below, seen)
        seen |= weights


def _weights(modules: Iterable[nn.Module]) -> set[nn.Parameter]:
    return {weight for module in modules for weight in module.parameters()}


def _parts(module: nn.Module) -> Iterator[ModuleGroup]:
    """Yield the parts that hold weights; layers that are alike as one."""
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList):
            yield from _alike(name, child)
        elif count_parameters(child):
            yield ModuleGroup(name, [child])


def _alike(name: str, layers: nn.ModuleList) -> Iterator[ModuleGroup]:
    first = 0
    for _, run in groupby(layers, key=str):
        modules = list(run)
        last = first + len(modules) - 1
        yield ModuleGroup(f"{name} {first}" if first == last else f"{name} {first}–{last}", modules)
        first = last + 1


def _shapes(module: nn.Module) -> str:
    """Return the shapes of a module's own weights: `512×512 + 512`."""
    own = module.parameters(recurse=False)
    return " + ".join("×".join(map(str, weight.shape)) for weight in own)
