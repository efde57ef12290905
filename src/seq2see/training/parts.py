"""How the parts of a run give and take their state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from seq2see.data.plan import BEGINNING, Position
from seq2see.errors import InputError
from seq2see.training.sharding import parted, put


class ModelPart:
    """The weights, each under one name, although tied ones have several."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights."""
        return {name: tensor.detach() for name, tensor in untied(self._model).items()}

    def state(self) -> dict[str, Any]:
        """Return nothing: the weights are all."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Take over the weights."""
        del state
        own = untied(self._model)
        if own.keys() != tensors.keys():
            different = sorted(own.keys() ^ tensors.keys())
            raise InputError(f"weights must be those of this model, but differ in {different[0]}")
        for name, tensor in own.items():
            put(tensors[name], tensor)


def untied(module: nn.Module) -> dict[str, Tensor]:
    """Return the state of a module, what is shared under its first name only."""
    seen: set[int] = set()
    state = module.state_dict(keep_vars=True).items()
    return {name: t for name, t in state if id(t) not in seen and not seen.add(id(t))}  # type: ignore[func-returns-value]


class OptimiserPart:
    """The moments of every weight, by its name."""

    def __init__(self, optimiser: Optimizer, model: nn.Module) -> None:
        self._optimiser = optimiser
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}

    def tensors(self) -> dict[str, Tensor]:
        """Return the moments."""
        return {
            f"{self._names[id(parameter)]}/{key}": value
            for parameter, state in self._optimiser.state.items()
            for key, value in state.items()
        }

    def state(self) -> dict[str, Any]:
        """Return nothing: rates come from the schedule."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Take over the moments."""
        del state
        for group in self._optimiser.param_groups:
            for parameter in group["params"]:
                start = f"{self._names[id(parameter)]}/"
                self._optimiser.state[parameter] = {
                    name.removeprefix(start): parted(tensor, parameter)
                    for name, tensor in tensors.items()
                    if name.startswith(start)
                }


class Plain(Protocol):
    """A part whose state JSON can hold."""

    def state(self) -> dict[str, Any]:
        """Return its state."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it over."""
        ...


class PlainPart:
    """A part without tensors."""

    def __init__(self, part: Plain) -> None:
        self._part = part

    def tensors(self) -> dict[str, Tensor]:
        """Return nothing."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return its state."""
        return self._part.state()

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Take it over."""
        del tensors
        self._part.restore(state)


@dataclass(slots=True)
class Progress:
    """How far a run has come."""

    update: int = 0
    """Updates done."""
    epoch: int = 0
    """The epoch of the last one, from 0."""
    position: Position = BEGINNING
    """Where the data goes on."""
    tokens: int = 0
    """Tokens seen, source and target."""
    seconds: float = 0.0
    """Time spent, over all stops."""

    def state(self) -> dict[str, Any]:
        """Return all of it."""
        return asdict(self)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it over."""
        for name, value in state.items():
            setattr(self, name, Position(*value) if name == "position" else value)
