"""Weights by name: which ones a config wants, which of them are one and the same, and their form.

A file has each weight once. A table that the encoder, the decoder and the output share has three
names in the model; in the file it has the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from seq2see.errors import InputError
from seq2see.model import ModelConfig, Transformer

_STORABLE = (torch.float32, torch.float16, torch.bfloat16)


class _NoNumbers(TorchFunctionMode):
    """Leaves out what only fills a new model with random numbers.

    They would be thrown away. And on the meta device the first such operation imports 800 modules,
    which takes longer than all the rest of loading.
    """

    _FILL = (Tensor.uniform_, Tensor.normal_, Tensor.mul, Tensor.__mul__)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._FILL:
            return args[0]
        func = torch.empty if func is torch.randn else func
        return func(*args, **(kwargs or {}))


def build_meta_model(config: ModelConfig) -> Transformer:
    """Return the model as names and shapes: its weights are on the meta device."""
    with torch.device("meta"), _NoNumbers():
        return Transformer.from_config(config)


def build_model_with_weights(config: ModelConfig, weights: Mapping[str, Tensor]) -> Transformer:
    """Return a model with copies of weights that `fitted` has returned."""
    model = build_meta_model(config)
    own = {name: weight.clone() for name, weight in weights.items()}
    named = {name: own[first] for name, first in _first_names(model).items()}
    model.load_state_dict(named, assign=True)
    return model


def check_weights(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return each weight once, in order, as float32; refuse those that do not fit the config."""
    model = build_meta_model(config)
    first, wanted = _first_names(model), model.state_dict()
    problems = _misfits(first, wanted, weights)
    if text := _few(problems):
        raise InputError(f"the weights must fit the config, but {text}")
    given = {first[name]: weights[name] for name in wanted if name in weights}
    return {name: _floats_as(torch.float32, given[name]) for name in dict.fromkeys(first.values())}


def cast_weights(weights: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the weights as a file takes them."""
    if dtype not in _STORABLE:
        raise InputError(f"`dtype` must be one of {_STORABLE}, but is {dtype} instead")
    result = {name: _floats_as(dtype, weight) for name, weight in weights.items()}
    if text := _few(name for name, weight in result.items() if not weight.isfinite().all()):
        raise InputError(f"weights must be finite in {dtype}, but these are not: {text}")
    return result


def _first_names(model: Transformer) -> dict[str, str]:
    """Return each weight's first name, by all of its names."""
    first: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)  # without, one weight is another object each time
    return {name: first.setdefault(id(weight), name) for name, weight in state.items()}


def _misfits(
    first: Mapping[str, str], wanted: Mapping[str, Tensor], given: Mapping[str, Tensor]
) -> Iterator[str]:
    yield from (f"{name} is not in the model" for name in given if name not in wanted)
    seen: dict[str, Tensor] = {}
    for name in wanted:
        if name in given:
            weight = given[name]
            ours, theirs = _form(wanted[name]), _form(weight)
            if ours != theirs:
                yield f"{name} must be {ours}, but is {theirs} instead"
            elif not _same(weight, seen.setdefault(first[name], weight)):
                yield f"{name} must be the same as {first[name]}, but is another"
    yield from (f"{name} is missing" for name in wanted if not _has(name, first, given))


def _has(name: str, first: Mapping[str, str], given: Mapping[str, Tensor]) -> bool:
    """Tell whether a weight was given under any of its names."""
    return any(other in given for other, shared in first.items() if shared == first[name])


def _same(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() or torch.equal(a, b)


def _form(weight: Tensor) -> str:
    kind = "floats" if weight.is_floating_point() else str(weight.dtype)
    return f"{' × '.join(map(str, weight.shape)) or 'one'} {kind}"


def _floats_as(dtype: torch.dtype, weight: Tensor) -> Tensor:
    weight = weight.detach().to("cpu").contiguous()
    return weight.to(dtype) if weight.is_floating_point() else weight


def _few(problems: Iterable[str]) -> str:
    """Join the first problems. With a wrong config, there are as many as weights."""
    rest = iter(problems)
    return "; ".join(islice(rest, 3)) + ("; and so on" if any(rest) else "")
