"""Experiments 13, 14, 20 and 24: the steps of attention, and what Q, K and V are for."""

import math
from collections.abc import Callable, Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from seq2see.draw import BLUE
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
)
from seq2see.lab.figures import Drawing, FigureData, Heatmaps
from seq2see.lab.models import attend, attend_dot_product, build_self_attention, max_abs_diff
from seq2see.lab.notes_code import run_code
from seq2see.lab.texts import load_all_texts
from seq2see.model import CAUSAL_MASK, NO_MASK, AttentionMask, DotProductAttention, SelfAttention
from seq2see.model.basic_modules import Dropout

# B batch, H heads, T queries, S keys, D features of a head, M features of the model

ROUNDING, WRONG = 1e-12, 1e-6
"""Rounding errors in float64 are below 1e-13; a wrong formula changes the first digits."""


def project(attention: SelfAttention, x_BTM: Tensor) -> list[Tensor]:
    """Return queries, keys and values of all heads, [B, H, T, D], from slices of the matrices."""
    parts = [x_BTM @ matrix.T for matrix in attention.qkv.weight.chunk(3)]
    return [torch.stack(part.chunk(attention.heads, dim=-1), dim=1) for part in parts]


def attend_word_by_word(query: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """Return the output of one head for one query, by steps 2 to 6 of the notes."""
    scores = [float(query @ key) for key in keys]  # 2: a score for each word
    scores = [score / math.sqrt(len(query)) for score in scores]  # 3: divided by √d_k
    powers = [math.exp(score) for score in scores]
    weights = [power / sum(powers) for power in powers]  # 4: softmax
    weighted = [weight * value for weight, value in zip(weights, values, strict=True)]  # 5
    return torch.stack(weighted).sum(dim=0)  # 6


# A formula that is right differs by rounding errors; one with another sum by the size of a row.
@experiment(
    13,
    Part("steps", holds(at_most("error", ROUNDING)), false(at_least("error", WRONG))),
    Part(
        "sum",
        false(at_least("sum_error", 0.1), at_most("matrix_error", ROUNDING)),
        holds(at_most("sum_error", WRONG)),
    ),
    figures=[Heatmaps("head", ["weights"], ["Thinking", "Machines"])],
)
@torch.no_grad()
def six_steps(context: Context) -> Numbers:
    """Compare the six steps, and the matrix form with and without Σ, with the module's output."""
    attention = build_self_attention(context)
    x_BTM = context.normal("words", 1, 2, 512, dtype=torch.float64)
    output_BTM, record = attend(attention, x_BTM)
    heads = list(zip(*(part_BHTD[0] for part_BHTD in project(attention, x_BTM)), strict=True))
    steps_TM = torch.stack(
        [torch.cat([attend_word_by_word(q[word], k, v) for q, k, v in heads]) for word in (0, 1)]
    )
    matrix_TM = apply_formula(attention, x_BTM)[0]
    outputs = {"error": steps_TM, "matrix_error": matrix_TM, "sum_error": matrix_TM.sum(dim=0)}
    return {
        **{
            name: relative_error(attention.output(mixed), output_BTM[0])
            for name, mixed in outputs.items()
        },
        "weights": record.weights_BHTS[0, 0],
    }


def apply_formula(attention: SelfAttention, x_BTM: Tensor) -> Tensor:
    """Return softmax(QKᵀ/√d_k)V of all heads, concatenated, [B, T, M]."""
    q, k, v = project(attention, x_BTM)
    mixed_BHTD: Tensor = (q @ k.mT / k.size(-1) ** 0.5).softmax(dim=-1) @ v
    return mixed_BHTD.transpose(1, 2).flatten(2)


def relative_error(found: Tensor, right: Tensor) -> float:
    """Return the largest difference over the largest number."""
    return max_abs_diff(found, right) / float(right.abs().max())


WORDS = "我爱中国"


# A row of weights has moved if one of its bits has.
@experiment(
    14,
    Part("formula", holds(at_most("error", ROUNDING)), false(at_least("error", WRONG))),
    Part("query", holds(near("rows_by_query", 1, 0)), false(at_least("rows_by_query", 2))),
    Part("key", holds(near("rows_by_key", 4, 0)), false(at_most("rows_by_key", 3))),
    Part(
        "value",
        holds(near("rows_by_value", 0, 0), at_most("share_error", ROUNDING)),
        false(at_least("rows_by_value", 1)),
    ),
    figures=[Heatmaps("all_heads", [f"head {n}" for n in range(1, 9)], WORDS, cell_size=1.9)],
)
@torch.no_grad()
def roles_of_query_key_value(context: Context) -> Numbers:
    """Compare the module with the formula; then change one of q, k and v at a time."""
    attention = build_self_attention(context)
    x_BTM = context.normal("words", 1, len(WORDS), 512, dtype=torch.float64)
    output_BTM, record = attend(attention, x_BTM)
    q, k, v = project(attention, x_BTM)
    scale = k.size(-1) ** -0.5
    before, same = attend_dot_product(q, k, v, scale)
    other_v = _replace_token(v, 3)
    after, by_value = attend_dot_product(q, k, other_v, scale)
    shares_BHT = (after - before).norm(dim=-1) / (other_v - v)[:, :, 3:].norm(dim=-1)
    others = {
        "query": attend_dot_product(_replace_token(q, 0), k, v, scale)[1],
        "key": attend_dot_product(q, _replace_token(k, 3), v, scale)[1],
        "value": by_value,
    }
    return {
        "error": relative_error(attention.output(apply_formula(attention, x_BTM)), output_BTM),
        **{
            f"rows_by_{name}": _count_moved_rows(same.weights_BHTS, other.weights_BHTS)
            for name, other in others.items()
        },
        "share_error": max_abs_diff(shares_BHT, same.weights_BHTS[..., 3]),
        **{f"head {n + 1}": weights_TS for n, weights_TS in enumerate(record.weights_BHTS[0])},
    }


def _replace_token(x_BHTD: Tensor, token: int) -> Tensor:
    """Return a copy in which the vector of one token is another one."""
    other_BHTD = x_BHTD.clone()
    other_BHTD[:, :, token] *= -2
    return other_BHTD


def _count_moved_rows(before_BHTS: Tensor, after_BHTS: Tensor) -> int:
    """Return the number of queries whose weights differ in some head."""
    return int((before_BHTS != after_BHTS).any(dim=-1).any(dim=1).sum())


GRAPH_WORDS = ("The", "animal", "crossed", "the", "street")


def _draw_graphs(figure: Figure, data: FigureData) -> None:
    angles = [math.pi * (0.5 - 2 * i / len(GRAPH_WORDS)) for i in range(len(GRAPH_WORDS))]
    points = [(math.cos(angle), math.sin(angle)) for angle in angles]
    for place, name in enumerate(("encoder", "decoder"), 1):
        axes = figure.add_subplot(1, 2, place)
        axes.set(xlim=(-1.35, 1.35), ylim=(-1.3, 1.3), aspect="equal", title=data.label(name))
        axes.axis("off")
        for start, word, row in zip(points, GRAPH_WORDS, data.array(name), strict=True):
            axes.text(*start, word, ha="center", va="center")
            for end, weight in zip(points, row, strict=True):
                if end != start and weight > 0:
                    style = {"arrowstyle": "-|>", "color": BLUE, "linewidth": 6 * weight}
                    curve = {"connectionstyle": "arc3,rad=0.14", "shrinkA": 18, "shrinkB": 18}
                    axes.annotate("", end, start, arrowprops=style | curve | {"alpha": 0.75})


# Directed: the two weights of a pair differ visibly (0.01 of 1 on average).
@experiment(
    20,
    Part(
        "probabilities",
        holds(at_most("sum_error", ROUNDING), at_least("smallest", 0)),
        false(at_least("sum_error", 1e-3)),
    ),
    Part("directed", holds(at_least("asymmetry", 0.01)), false(at_most("asymmetry", 1e-6))),
    Part("causal", holds(near("later", 0, 0)), false(at_least("later", 1e-3))),
    figures=[Drawing("graphs", _draw_graphs, height=3.6)],
)
@torch.no_grad()
def directed_graph(context: Context) -> Numbers:
    """Read weights as edges, in an encoder and under the decoder's mask."""
    attention = build_self_attention(context)
    x_BTM = context.normal("words", 100, len(GRAPH_WORDS), 512, dtype=torch.float64)
    encoder_BHTS, decoder_BHTS = (
        attend(attention, x_BTM, mask)[1].weights_BHTS for mask in (NO_MASK, CAUSAL_MASK)
    )
    return {
        "sum_error": max_abs_diff(encoder_BHTS.sum(dim=-1), torch.ones(1)),
        "smallest": float(encoder_BHTS.min()),
        "asymmetry": float((encoder_BHTS - encoder_BHTS.mT).abs().mean()),
        "later": float(decoder_BHTS.triu(1).abs().max()),
        "encoder": encoder_BHTS[0, 0],
        "decoder": decoder_BHTS[0, 0],
    }


def load_notes_attention() -> Callable[..., tuple[Tensor, Tensor]]:
    """Return S3's function `scaled_dot_product_attention`."""
    return run_code(load_all_texts()[24].sources["S3"])["scaled_dot_product_attention"]


# The quotient of gradients: a factor of 10 is more than random draws of one width explain.
@experiment(
    24,
    Part(
        "function",
        holds_if(
            at_most("error", ROUNDING),
            at_most("error_padding", ROUNDING),
            at_least("error_masked_row", 0.01),
        ),
        holds(at_most("error", ROUNDING), at_most("error_masked_row", ROUNDING)),
        false(at_least("error", WRONG)),
    ),
    Part(
        "comment", false(at_least("gradient_ratio", 10)), holds(at_most("gradient_ratio", 0.1))
    ),
    log=["gradient_ratio"],
    figures=[Heatmaps("weights", ["no_mask", "padding"], numbers=False)],
)  # fmt: skip
def code_of_attention(context: Context) -> Numbers:
    """Run the function of the notes; then measure gradients with and without the division."""
    notes = load_notes_attention()
    q, k, v = (context.normal(name, 4, 2, 9, 64, dtype=torch.float64) for name in "qkv")
    masks = {"": torch.zeros(9), "_padding": torch.arange(9) >= 6, "_masked_row": torch.ones(9)}
    attention = DotProductAttention(64**-0.5, Dropout(0.0))
    errors = {
        f"error{name}": max_abs_diff(
            attention(q, k, v, AttentionMask(mask.bool()[None, None, None]), lambda _: None),
            notes(q, k, v, mask.double())[0],
        )
        for name, mask in masks.items()
    }
    gradients = [_median_gradient(context, scale) for scale in (512**-0.5, 1.0)]
    return {
        **errors,
        "gradient_ratio": gradients[0] / gradients[1],
        "no_mask": notes(q, k, v, None)[1][0, 0],
        "padding": notes(q, k, v, masks["_padding"].double())[1][0, 0],
    }


def _median_gradient(context: Context, scale: float) -> float:
    """Return the median over queries of the norm of the gradient at the input of softmax."""
    q, k, v = (context.normal(f"gradient {name}", 50, 1, 32, 512) for name in "qkv")
    mixed_BHTD, record = attend_dot_product(q.requires_grad_(), k, v, scale)
    (gradient_BHTS,) = torch.autograd.grad(
        mixed_BHTD, record.scores_BHTS, context.normal("gradient", *mixed_BHTD.shape)
    )
    return float(gradient_BHTS.norm(dim=-1).median())
