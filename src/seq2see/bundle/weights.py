"""Checks and conversion of weights, and models that are built from them.

A file contains each weight once. An embedding that encoder, decoder and output share has
three names in the model; in the file it has the first.
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

_STORABLE_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class _SkipInitialization(TorchFunctionMode):
    """Skips the random initialization of a new model.

    The values would be discarded. On the meta device, the first such operation also imports 800
    modules, which takes longer than the rest of loading.
    """

    _INITIALIZERS = (Tensor.uniform_, Tensor.normal_, Tensor.mul, Tensor.__mul__)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._INITIALIZERS:
            return args[0]
        func = torch.empty if func is torch.randn else func
        return func(*args, **(kwargs or {}))


def build_meta_model(config: ModelConfig) -> Transformer:
    """Return the model with weights on the meta device: names and shapes without values."""
    with torch.device("meta"), _SkipInitialization():
        return Transformer.from_config(config)


def build_model_with_weights(config: ModelConfig, weights: Mapping[str, Tensor]) -> Transformer:
    """Return a model with copies of weights that `check_and_deduplicate_weights` has returned."""
    model = build_meta_model(config)
    copies = {name: weight.clone() for name, weight in weights.items()}
    state = {name: copies[first] for name, first in _find_first_names(model).items()}
    model.load_state_dict(state, assign=True)
    return model


def check_and_deduplicate_weights(
    config: ModelConfig, weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return each weight once, in order, as float32.

    Raises:
        InputError: If the weights do not fit the config.
    """
    model = build_meta_model(config)
    first_names, expected = _find_first_names(model), model.state_dict()
    problems = _find_problems(first_names, expected, weights)
    if text := _join_first(problems):
        raise InputError(f"the weights must fit the config, but {text}")
    by_first_name = {first_names[name]: weights[name] for name in expected if name in weights}
    return {
        name: _cast(torch.float32, by_first_name[name])
        for name in dict.fromkeys(first_names.values())
    }


def cast_weights(weights: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the weights in the given dtype, for a file.

    Raises:
        InputError: If the dtype is not supported or a weight is not finite in it.
    """
    if dtype not in _STORABLE_DTYPES:
        raise InputError(f"`dtype` must be one of {_STORABLE_DTYPES}, but is {dtype} instead")
    result = {name: _cast(dtype, weight) for name, weight in weights.items()}
    if text := _join_first(name for name, weight in result.items() if not weight.isfinite().all()):
        raise InputError(f"weights must be finite in {dtype}, but these are not: {text}")
    return result


def _find_first_names(model: Transformer) -> dict[str, str]:
    """Map all names of each weight to its first name."""
    first_names: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)  # otherwise each name has another tensor object
    return {name: first_names.setdefault(id(weight), name) for name, weight in state.items()}


def _find_problems(
    first_names: Mapping[str, str], expected: Mapping[str, Tensor], weights: Mapping[str, Tensor]
) -> Iterator[str]:
    yield from (f"{name} is not in the model" for name in weights if name not in expected)
    shared: dict[str, Tensor] = {}
    for name in expected:
        if name in weights:
            weight = weights[name]
            expected_form, form = _describe(expected[name]), _describe(weight)
            if form != expected_form:
                yield f"{name} must be {expected_form}, but is {form} instead"
            elif not _is_equal(weight, shared.setdefault(first_names[name], weight)):
                yield f"{name} must be equal to {first_names[name]}, but is different"
    # A weight may be given under any of its names.
    given = {first for name, first in first_names.items() if name in weights}
    yield from (f"{name} is missing" for name in expected if first_names[name] not in given)


def _is_equal(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() or torch.equal(a, b)


def _describe(weight: Tensor) -> str:
    """Return shape and number type of a weight, for an error message."""
    dtype = "floats" if weight.is_floating_point() else str(weight.dtype)
    return f"{' × '.join(map(str, weight.shape)) or 'one'} {dtype}"


def _cast(dtype: torch.dtype, weight: Tensor) -> Tensor:
    weight = weight.detach().to("cpu").contiguous()
    return weight.to(dtype) if weight.is_floating_point() else weight


def _join_first(problems: Iterable[str]) -> str:
    """Join the first three problems. With a wrong config, there is one per weight."""
    remaining = iter(problems)
    return "; ".join(islice(remaining, 3)) + ("; and so on" if any(remaining) else "")
