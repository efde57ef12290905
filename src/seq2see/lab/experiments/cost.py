"""Experiments 18, 22, 27 and 59: kinds of attention and what they cost."""

from collections.abc import Callable
from functools import partial
from math import log2
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.lab.core import (
    Context,
    Numbers,
    Part,
    at_least,
    at_most,
    experiment,
    false,
    holds,
    holds_if,
    near,
    undecided,
)
from seq2see.lab.figures import Bars, Curves
from seq2see.lab.models import (
    attend,
    attend_dot_product,
    build_self_attention,
    count_flops,
    max_abs_diff,
    saved_bytes,
)
from seq2see.lab.training import REVERSE
from seq2see.model import (
    NO_MASK,
    NULL_RECORDER,
    AdditiveAttention,
    AttentionFunction,
    BatchLayout,
    DotProductAttention,
    SelfAttention,
)
from seq2see.model.basic_modules import Dropout

# B batch, H heads, T tokens, D features of a head, M features of the model

KINDS = ("scaled_dot", "dot", "additive")
NARROW, WIDE = 8, 64
"""Widths of heads in a model of width 64."""
TRAININGS = {
    f"{kind}_{d}": REVERSE.with_model(attention={"kind": kind}, heads=64 // d)
    for kind in KINDS
    for d in (NARROW, WIDE)
}


# Losses of equal models differ by up to 5 % between seeds. "Cheaper": a quarter of the memory.
@experiment(
    18,
    Part(
        "unscaled",
        holds(at_least("unscaled_64", 2), at_most("unscaled_8", 1.5)),
        false(at_most("unscaled_64", 1.05)),
    ),
    Part("better", holds(at_most("scaled_64", 0.95)), false(at_least("scaled_64", 1))),
    Part("cause", undecided()),
    Part(
        "theory",
        holds(*(near(f"{name}_exponent", 2, 0.1) for name in ("additive", "product"))),
        false(at_least("additive_exponent", 2.5)),
    ),
    Part("practice", holds(at_least("bytes_ratio", 4)), false(at_most("bytes_ratio", 1.5))),
    trainings=TRAININGS,
    log=["loss_*", "unscaled_*", "scaled_*"],
    figures=[Bars("by_kind", [f"loss_{name}" for name in TRAININGS], "loss", "log")],
)
def additive_attention(context: Context) -> Numbers:
    """Train with each kind in narrow and wide heads; count what each kind computes and keeps."""
    losses = {name: trained.nll for name, trained in context.trained.items()}
    kinds: dict[str, AttentionFunction] = {
        "additive": AdditiveAttention(1, WIDE, Dropout(0.0)),
        "product": DotProductAttention(WIDE**-0.5, Dropout(0.0)),
    }
    kept = {name: saved_bytes(partial(_attend, kind, 64)) for name, kind in kinds.items()}
    return {
        **{f"loss_{name}": loss for name, loss in losses.items()},
        "unscaled_8": losses["dot_8"] / losses["additive_8"],
        "unscaled_64": losses["dot_64"] / losses["additive_64"],
        "scaled_8": losses["additive_8"] / losses["scaled_dot_8"],
        "scaled_64": losses["additive_64"] / losses["scaled_dot_64"],
        **{
            f"{name}_exponent": exponent(partial(_count_attention_flops, kind), 128)
            for name, kind in kinds.items()
        },
        "bytes_ratio": kept["additive"] / kept["product"],
    }


def exponent(cost: Callable[[int], float], length: int = 512) -> float:
    """Return the power of n by which a cost grows when the length doubles."""
    return log2(cost(2 * length) / cost(length))


def _count_attention_flops(attention: AttentionFunction, tokens: int) -> int:
    return count_flops(partial(_attend, attention, tokens))


@torch.enable_grad()
def _attend(attention: AttentionFunction, tokens: int, is_fused: bool = False) -> Tensor:
    q, k, v = (torch.ones(1, 1, tokens, 64, requires_grad=True) for _ in range(3))
    listener = None if is_fused else lambda _: None
    output_BHTD: Tensor = attention(q, k, v, NO_MASK, listener)
    return output_BHTD


LENGTHS = (32, 64, 128, 256)


# Serial: the depth grows nearly as the length (8 times); parallel: it does not grow.
@experiment(
    22,
    Part("rnn", holds(at_least("rnn_growth", 7)), false(at_most("rnn_growth", 2))),
    Part(
        "attention",
        holds(near("attention_growth", 1, 0), at_most("alone_error", 1e-12)),
        false(at_least("attention_growth", 2)),
    ),
    figures=[Curves("depths", "length", ["rnn", "attention"], "depth", "log", "log", "o")],
)
def sequential_operations(context: Context) -> Numbers:
    """Count the longest chain of dependent operations, and compute queries alone and together."""
    attention, rnn = build_self_attention(context, 64, 4), nn.RNN(64, 64).double()
    networks: dict[str, Callable[[Tensor], Tensor]] = {
        "rnn": lambda x_BTM: rnn(x_BTM[0])[0],
        "attention": lambda x_BTM: attend(attention, x_BTM)[0],
    }
    x_BTM = context.normal("x", 1, LENGTHS[-1], 64, dtype=torch.float64).requires_grad_()
    depths = {
        name: [dependency_depth(network(x_BTM[:, :length])) for length in LENGTHS]
        for name, network in networks.items()
    }
    flops = {name: count_flops(partial(f, x_BTM)) for name, f in networks.items()}
    return {
        **{f"{name}_growth": values[-1] / values[0] for name, values in depths.items()},
        "alone_error": _compute_queries_alone(attention, x_BTM),
        "flops_ratio": flops["attention"] / flops["rnn"],
        "length": list(LENGTHS),
        **depths,
    }


@torch.no_grad()
def _compute_queries_alone(attention: SelfAttention, x_BTM: Tensor) -> float:
    """Return the largest difference of outputs if each query is computed without the others."""
    queries, memory = attention.project(x_BTM[0], BatchLayout(1, x_BTM.size(1)))
    alone = [
        attention.attend(query, memory, BatchLayout(1, 1), NO_MASK, NULL_RECORDER)
        for query in queries.split(1, dim=2)
    ]
    return max_abs_diff(torch.cat(alone), attend(attention, x_BTM)[0][0])


def dependency_depth(output: Tensor) -> int:
    """Return the number of operations in the longest chain that autograd recorded."""
    depths: dict[object, int] = {None: 0}
    stack: list[Any] = [output.grad_fn]
    while stack:
        inputs = [node for node, _ in stack[-1].next_functions]
        if missing := [node for node in inputs if node not in depths]:
            stack.extend(missing)
        else:
            depths[stack.pop()] = 1 + max((depths[node] for node in inputs), default=0)
    return max(depths.values())


# Counts of operations are exact.
@experiment(
    27,
    Part("split", holds(near("split_ratio", 1, 0)), false(at_least("split_ratio", 1.5))),
    Part("wide", holds(at_least("wide_ratio", 4)), false(at_most("wide_ratio", 1.5))),
)
@torch.no_grad()
def cost_of_heads(context: Context) -> Numbers:
    """Count the operations of one head, of eight, and of eight heads of the full width."""
    tokens, width = 256, 512
    x_BTM = context.normal("x", 1, tokens, width, dtype=torch.float64)
    flops = {
        heads: count_flops(partial(attend, build_self_attention(context, width, heads), x_BTM))
        for heads in (1, 8)
    }
    wide = count_flops(partial(_attend_with_wide_heads, context, x_BTM, 8))
    return {
        "split_ratio": flops[8] / flops[1],
        "wide_ratio": wide / flops[1],
        "attention_share": 4 * tokens**2 * width / flops[1],
    }


def _attend_with_wide_heads(context: Context, x_BTM: Tensor, heads: int) -> Tensor:
    """Return the output of heads that are each as wide as the model."""
    width = x_BTM.size(-1)
    queries, keys, values = (
        x_BTM @ context.normal(f"{name}", heads, width, width, dtype=x_BTM.dtype) for name in "qkv"
    )
    mixed_BHTD, _ = attend_dot_product(queries[None], keys[None], values[None], width**-0.5)
    matrix = context.normal("output", heads * width, width, dtype=x_BTM.dtype)
    return mixed_BHTD.transpose(1, 2).flatten(2) @ matrix


# The exponent between 512 and 1,024 tokens; 0.1 allows for terms of a lower order, and 1.6 for
# memory of the inputs, which grows linearly.
@experiment(
    59,
    Part("operations", holds(near("flops_plain", 2, 0.1)), false(at_most("flops_plain", 1.5))),
    Part(
        "memory",
        holds_if(at_least("bytes_plain", 1.6), near("bytes_fused", 1, 0.1)),
        holds(at_least("bytes_plain", 1.6), at_least("bytes_fused", 1.6)),
        false(at_most("bytes_plain", 1.1)),
    ),
    Part(
        "linformer",
        holds(near("flops_linformer", 1, 0.1), at_least("linformer_difference", 0.1)),
        false(at_least("flops_linformer", 1.5)),
    ),
    figures=[Curves("growth", "length", ["plain", "linformer"], "operations", "log", "log", "o")],
)
@torch.no_grad()
def cost_by_length(context: Context) -> Numbers:
    """Count operations and saved bytes of attention and of Linformer for growing sentences."""
    linformer = build_self_attention(context, 64, 1, kind="linformer", max_length=2048, rank=64)
    plain = DotProductAttention(1 / 8, Dropout(0.0))
    flops = {
        "plain": partial(_count_attention_flops, plain),
        "linformer": partial(_count_attention_flops, linformer.float().attention),
    }
    lengths = [128, 256, 512, 1024]
    draws = [context.normal(name, 1, 1, 512, 64) for name in "qkv"]
    output_BHTD = plain(*draws)
    difference = max_abs_diff(linformer.attention(*draws), output_BHTD)
    return {
        **{f"flops_{name}": exponent(cost) for name, cost in flops.items()},
        "bytes_plain": exponent(lambda n: saved_bytes(partial(_attend, plain, n))),
        "bytes_fused": exponent(lambda n: saved_bytes(partial(_attend, plain, n, is_fused=True))),
        "linformer_difference": difference / float(output_BHTD.abs().max()),
        "length": lengths,
        **{name: [cost(n) for n in lengths] for name, cost in flops.items()},
    }
