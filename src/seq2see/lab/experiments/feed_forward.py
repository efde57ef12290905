"""Experiments 41 to 44: dropout, the feed-forward network, non-linearity, and GELU."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.lab.core import (
    Context,
    Numbers,
    Part,
    at_least,
    at_most,
    between,
    experiment,
    false,
    holds,
    near,
)
from seq2see.lab.figures import Bars, Curves
from seq2see.lab.models import (
    IntermediatesRecorder,
    attend,
    build_self_attention,
    count_different,
    max_abs_diff,
)
from seq2see.lab.training import DIGIT_MODEL
from seq2see.model import ModelBuilder, Transformer
from seq2see.model.basic_modules import ACTIVATIONS

# B batch, T tokens, N tokens of the batch, M features of the model

PLACES = ("embedding", "attention", "residual", "activation")
"""Settings of dropout, in the order of computation in the first layer."""


# Half of a sublayer's output is dropped: of 10,000 numbers 0.5 ± 0.005 keep the value of x.
@experiment(
    41,
    Part("places", holds(near("right_places", 4, 0)), false(at_most("right_places", 2))),
    Part(
        "output",
        holds(between("unchanged_share", 0.45, 0.55)),
        false(at_most("unchanged_share", 0.05)),
    ),
)
@torch.no_grad()
def places_of_dropout(context: Context) -> Numbers:
    """Use dropout in one place at a time, and find the first tensor that differs in two passes."""
    first: list[str] = []
    for place in PLACES:
        once, again = _record_twice(context, place)
        names = [name for name in PLACES if not torch.equal(once[name], again[name])]
        first.append(names[0] if names else "none")
    record = _record_twice(context, "residual")[0]
    return {
        "right_places": sum(found == place for found, place in zip(first, PLACES, strict=True)),
        "unchanged_share": float((record["sum"] == record["x"]).double().mean()),
    }


def _record_twice(context: Context, place: str) -> list[dict[str, Tensor]]:
    """Return tensors of the first layer in two passes of training with dropout in one place."""
    torch.manual_seed(context.mix_seed(place))
    rates = {name: 0.5 if name == place else 0.0 for name in PLACES}
    encoder = Transformer.from_config(DIGIT_MODEL.replace(dropout=rates)).train().encoder
    layer: Any = encoder.layers[0]
    records: list[dict[str, Tensor]] = []
    outputs: dict[str, nn.Module] = {
        "embedding": encoder.embeddings,
        "attention": layer.attention.attention.dropout,
        "residual": layer.attention_residual.dropout,
        "activation": layer.feed_forward.dropout,
    }
    for name, module in outputs.items():
        module.register_forward_hook(lambda _, __, y, name=name: records[-1].update({name: y}))
    residual: nn.Module = layer.attention_residual
    for name, module in (("x", residual), ("sum", layer.attention_residual.norm)):
        module.register_forward_pre_hook(lambda _, x, name=name: records[-1].update({name: x[0]}))
    for _ in range(2):
        records.append({})
        encoder(torch.arange(4, 14).repeat(16, 1), recorder=IntermediatesRecorder())
    return records


TOKENS = 12


# Any change of a bit is counted. Equal vectors in the same batch differ by rounding at most.
@experiment(
    42,
    Part("independent", holds(near("by_network", 0, 0)), false(at_least("by_network", 1))),
    Part(
        "attention", holds(near("by_attention", TOKENS - 1, 0)), false(near("by_attention", 0, 0))
    ),
    Part("own_network", false(at_most("twin_error", 1e-12)), holds(at_least("twin_error", 0.01))),
)
@torch.no_grad()
def position_wise_network(context: Context) -> Numbers:
    """Change one token; compare the outputs of the others, and of equal vectors."""
    torch.manual_seed(context.mix_seed("weights"))
    network = ModelBuilder(DIGIT_MODEL).build_feed_forward().double()
    attention = build_self_attention(context, DIGIT_MODEL.d_model, DIGIT_MODEL.heads)
    x_NM = context.normal("tokens", TOKENS, DIGIT_MODEL.d_model, dtype=torch.float64)
    changed_NM, others = x_NM.clone(), torch.arange(TOKENS) != 5
    changed_NM[5] += 1
    attended = [
        attend(attention, tokens_NM[None])[0][0, others] for tokens_NM in (x_NM, changed_NM)
    ]
    return {
        "by_network": count_different(network(x_NM)[others], network(changed_NM)[others]),
        "by_attention": int((attended[0] != attended[1]).any(dim=1).sum()),
        "twin_error": float(network(x_NM[:1].expand(TOKENS, -1)).std(dim=0).max()),
    }


MODULES = ("relu", "gelu", "attention", "norm")


# An affine function has an error of rounding; a twentieth of the output is visible.
@experiment(
    43,
    Part(
        "activation",
        holds(at_least("gelu", 0.05), at_least("relu", 0.05)),
        false(at_most("gelu", 1e-12)),
    ),
    Part("attention", holds(at_least("attention", 0.05)), false(at_most("attention", 1e-12))),
    Part("only", false(at_least("norm", 0.05)), holds(at_most("norm", 1e-12))),
    figures=[Bars("errors", MODULES, "affine_error")],
)
@torch.no_grad()
def sources_of_non_linearity(context: Context) -> Numbers:
    """Measure how far each module of a layer is from an affine function."""
    torch.manual_seed(context.mix_seed("weights"))
    networks = {
        name: ModelBuilder(DIGIT_MODEL.replace(activation=name)).build_feed_forward().double()
        for name in ("relu", "gelu")
    }
    attention = build_self_attention(context, DIGIT_MODEL.d_model, DIGIT_MODEL.heads)
    norm: nn.Module = ModelBuilder(DIGIT_MODEL).build_norm().double()
    functions: Sequence[Callable[[Tensor], Tensor]] = (
        *networks.values(),
        lambda x_NM: attend(attention, x_NM.view(20, TOKENS, -1))[0].flatten(0, 1),
        norm,
    )
    x_NM, y_NM = (
        context.normal(name, 20 * TOKENS, DIGIT_MODEL.d_model, dtype=torch.float64) for name in "xy"
    )
    return {
        name: affine_error(function, x_NM, y_NM)
        for name, function in zip(MODULES, functions, strict=True)
    }


def affine_error(function: Callable[[Tensor], Tensor], x_NM: Tensor, y_NM: Tensor) -> float:
    """Return |f(x + y) − f(x) − f(y) + f(0)| / |f(x + y)|, which is 0 for an affine function."""
    both_NM = function(x_NM + y_NM)
    error_NM = both_NM - function(x_NM) - function(y_NM) + function(torch.zeros_like(x_NM))
    return float(error_NM.norm() / both_NM.norm())


CALLS, DRAWS = 1000, 400_000


# Numbers of size 1 in float64: rounding is below 1e-12, another formula differs above 1e-6. The
# mean of 400,000 draws has a standard error below 1e-3.
@experiment(
    44,
    Part(
        "formula",
        holds(at_most("error", 1e-12), at_most("derivative_error", 1e-12)),
        false(at_least("error", 1e-6)),
    ),
    Part(
        "random",
        false(near("range", 0, 0), at_most("mean_error", 0.005)),
        holds(at_least("range", 1e-6)),
    ),
    Part(
        "approximation",
        false(at_most("error", 1e-12), at_least("tanh_error", 1e-4)),
        holds(at_least("error", 1e-4)),
    ),
    figures=[Curves("functions", "x", ["gelu", "derivative", "relu"], "y")],
)
def gelu(context: Context) -> Numbers:
    """Compare GELU with xΦ(x), with itself in other calls, and with random multiplication."""
    activation = ACTIVATIONS["gelu"]
    x = torch.linspace(-6, 6, 12_001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(activation(x).sum(), x)
    x = x.detach()
    y, phi = activation(x), torch.special.ndtr(x)
    density = torch.distributions.Normal(0.0, 1.0).log_prob(x).exp()
    half = torch.full((DRAWS,), -0.5, dtype=torch.float64)
    drawn = half * torch.bernoulli(torch.special.ndtr(half), generator=context.rng("draws"))
    calls = torch.stack([activation(half[:1]) for _ in range(CALLS)])
    shown = slice(2000, 9000, 50)
    return {
        "error": max_abs_diff(y, x * phi),
        "derivative_error": max_abs_diff(slope, phi + x * density),
        "tanh_error": max_abs_diff(ACTIVATIONS["gelu_tanh"](x), y),
        "range": float(calls.max() - calls.min()),
        "mean_error": max_abs_diff(drawn.mean(), activation(half[0])),
        "x": x[shown],
        "gelu": y[shown],
        "derivative": slope[shown],
        "relu": ACTIVATIONS["relu"](x[shown]),
    }
