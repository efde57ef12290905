"""Summary of a model as a tree of modules with the shapes and numbers of their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from torch import nn

SummaryRows = Iterator[tuple[str, str, str, str]]


def count_parameters(*modules: nn.Module) -> int:
    """Return the number of parameters; shared parameters count once."""
    return sum(parameter.numel() for parameter in _parameters(modules))


def format_model_summary(model: nn.Module) -> str:
    """Return the tree of modules as text.

    Identical layers are one line with their total; the lines below show one layer.
    """
    top = (type(model).__name__, "", "", f"{count_parameters(model):,}")
    rows = [top, *_rows(model, "", set())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {shapes:<{widths[2]}}  {count:>{widths[3]}}"
        for name, kind, shapes, count in rows
    )


def _rows(module: nn.Module, indent: str, seen: set[nn.Parameter]) -> SummaryRows:
    groups = list(_module_groups(module))
    for i, (name, modules) in enumerate(groups):
        branch, below = ("└─ ", "   ") if i == len(groups) - 1 else ("├─ ", "│  ")
        kind = type(modules[0]).__name__
        parameters = _parameters(modules)
        new = sum(parameter.numel() for parameter in parameters - seen)
        yield (
            indent + branch + name,
            f"{len(modules)} × {kind}" if len(modules) > 1 else kind,
            _format_shapes(modules[0]),
            f"{new:,}" if new else "shared",
        )
        yield from _rows(modules[0], indent + below, seen)
        seen |= parameters


def _parameters(modules: Iterable[nn.Module]) -> set[nn.Parameter]:
    return {parameter for module in modules for parameter in module.parameters()}


def _module_groups(module: nn.Module) -> Iterator[tuple[str, Sequence[nn.Module]]]:
    """Yield the children that have parameters, consecutive identical layers as one group."""
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList):
            for _, group in groupby(enumerate(child), key=lambda layer: str(layer[1])):
                numbers, modules = zip(*group, strict=True)
                ends = dict.fromkeys((str(numbers[0]), str(numbers[-1])))
                yield f"{name} {'–'.join(ends)}", modules
        elif count_parameters(child):
            yield name, [child]


def _format_shapes(module: nn.Module) -> str:
    """Return the shapes of the parameters that the module itself has: `512×512 + 512`."""
    parameters = module.parameters(recurse=False)
    return " + ".join("×".join(map(str, parameter.shape)) for parameter in parameters)
