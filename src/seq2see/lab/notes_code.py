"""Runs TensorFlow code of the study notes with torch.

The code is read from the quotations in the TOML files. Text recognition damaged some of it: what an
experiment restores is declared line by line.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor


def _matmul(a: Tensor, b: Tensor, transpose_b: bool = False) -> Tensor:
    return a @ (b.mT if transpose_b else b)


def _softmax(x: Tensor, axis: int) -> Tensor:
    return x.softmax(axis)


def _transpose(x: Tensor, perm: list[int]) -> Tensor:
    return x.permute(perm)


TENSORFLOW = SimpleNamespace(
    float32=torch.float32,
    cast=lambda x, dtype: torch.as_tensor(x, dtype=dtype),
    keras=SimpleNamespace(layers=SimpleNamespace(Dense=lambda _: None, Layer=object)),
    math=SimpleNamespace(equal=torch.eq, sqrt=torch.sqrt),
    matmul=_matmul,
    newaxis=None,
    nn=SimpleNamespace(softmax=_softmax),
    reshape=torch.reshape,
    shape=lambda x: x.shape,
    transpose=_transpose,
)
"""The functions of TensorFlow that the notes' code uses; a `Dense` layer is set after creation."""


def parses(code: str) -> bool:
    """Return whether code is valid Python."""
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def restore_class(name: str, code: str, restored: Mapping[str, str]) -> str:
    """Return a class from the printed code of its methods.

    Args:
        name: Name of the class.
        code: Code as it is printed. Its indentation is replaced: four spaces for methods, and eight
            for their bodies, which have no blocks.
        restored: What to print instead of a line, which may be several lines; keys and values are
            without indentation.
    """
    printed = [line.strip() for line in code.splitlines()]
    assert set(restored) <= set(printed), set(restored) - set(printed)
    lines = "\n".join(restored.get(line, line) for line in printed).splitlines()
    indented = [" " * (4 if line.startswith("def ") else 8) + line for line in lines]
    return "\n".join([f"class {name}(tf.keras.layers.Layer):", *indented])


def run_code(code: str, **names: object) -> Mapping[str, Callable[..., Any]]:
    """Run code of the notes, which defines functions and classes, and return these by name."""
    namespace: dict[str, Any] = {"tf": TENSORFLOW, **names}
    exec(code, namespace)  # noqa: S102 the code is a quotation in a file of this package
    return namespace
