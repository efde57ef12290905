"""Experiments 10 to 12: the scale of attention in models that are trained."""

from collections.abc import Mapping
from statistics import fmean

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
from seq2see.lab.models import record_model
from seq2see.lab.training import DIGIT_MODEL, REVERSE, TrainingSpec, to_batch
from seq2see.model import NO_MASK, AttentionIntermediates, QKNormAttention, Transformer
from seq2see.model.basic_modules import Dropout

# B batch, S source tokens

LAYERS = 6


# Eight sentences of 32 tokens with 512 features: variances are exact to about 2 %; weights differ.
@experiment(
    10,
    Part(
        "start",
        holds(
            at_most("largest_error", 0.15),
            *(near(f"mean_{name}", 0, 0.05) for name in "qk"),
        ),
        false(at_least("largest_error", 0.3)),
    ),
    Part(
        "cause",
        false(*(between(f"cause_{name}", 0.9, 1.1) for name in "qk")),
        holds(*(at_least(f"cause_{name}", 2) for name in "qk")),
    ),
    Part("trained", false(at_least("trained_max", 1.8)), holds(between("trained_max", 0.5, 1.3))),
    trainings={"trained": REVERSE},
    log=["cause_*", "trained_max", "dependence_trained"],
    figures=[Curves("by_layer", "layer", ["scaled", "unscaled"], "variance", marker="o")],
)
def variance_of_queries_and_keys(context: Context) -> Numbers:
    """Measure q and k by layer of a new encoder with and without scaled embeddings, and trained."""
    scaled, unscaled = (_initial_records(context, is_scaled) for is_scaled in (True, False))
    numbers: dict[str, float] = {}
    for name in "qk":
        variance, other = (fmean(_variances(r, name)[1:]) for r in (scaled, unscaled))
        means = [float(_get(record, name).mean()) for record in scaled[1:]]
        numbers |= {f"var_{name}": variance, f"mean_{name}": fmean(means)}
        numbers[f"cause_{name}"] = variance / other
    batch = to_batch([pair for pair in REVERSE.load_pairs("test") if len(pair[0]) == 12])
    model = context.trained["trained"].model
    trained = record_model(model, batch.source_BS, batch.decoder_input_BT).attention.values()
    return {
        **numbers,
        "largest_error": max(abs(numbers[f"var_{name}"] - 1) for name in "qk"),
        "first_scaled": _variances(scaled, "q")[0],
        "first_unscaled": _variances(unscaled, "q")[0],
        "trained_max": max(_variances(list(trained), "q")),
        "dependence_trained": fmean(
            float(r.scores_BHTS.var() / (r.queries_BHTD.var() * r.keys_BHSD.var())) for r in trained
        ),
        "layer": list(range(1, LAYERS + 1)),
        "scaled": _variances(scaled, "q"),
        "unscaled": _variances(unscaled, "q"),
    }


def _get(record: AttentionIntermediates, name: str) -> Tensor:
    return record.queries_BHTD if name == "q" else record.keys_BHSD


def _variances(records: list[AttentionIntermediates], name: str) -> list[float]:
    return [float(_get(record, name).var()) for record in records]


def _initial_records(context: Context, is_scaled: bool) -> list[AttentionIntermediates]:
    """Return the self-attention of each layer of a new encoder of the paper's width."""
    torch.manual_seed(context.mix_seed("weights"))
    config = DIGIT_MODEL.replace(
        vocab_size=1000, d_model=512, heads=8, d_ff=512, encoder_layers=LAYERS, decoder_layers=1
    ).replace(embeddings={"scale": is_scaled})
    ids_BS = torch.randint(4, 1000, (8, 32), generator=context.rng("ids"))
    return record_model(Transformer.from_config(config).eval(), ids_BS).encoder()


D_K = 64


# An untrained model has a loss of 2.4; 0.2 means that the task is learned.
@experiment(
    11,
    Part("learns", holds(at_most("norm_loss", 0.2)), false(at_least("norm_loss", 1))),
    Part(
        "only_cost",
        false(at_least("loss_ratio", 1.1)),
        holds(at_most("loss_ratio", 1.05)),
        controls=[at_most("usual_loss", 0.2)],
    ),
    Part(
        "variance",
        false(at_least("score_variance", 0.5 * D_K)),
        holds(at_most("score_variance", 2)),
    ),
    trainings={
        "usual": REVERSE,
        "norm": REVERSE.with_model(attention={"kind": "qk_norm"}),
    },
    log=["usual_loss", "norm_loss", "loss_ratio"],
    figures=[Curves("training", "update", ["usual", "norm"], "loss", y_scale="log")],
)
def norm_of_queries_and_keys(context: Context) -> Numbers:
    """Measure scores of normalized queries and keys, and train with both."""
    q, k = (3 + 5 * context.normal(name, 2000, 1, 8, D_K) for name in "qk")
    records: list[AttentionIntermediates] = []
    with torch.no_grad():
        QKNormAttention(D_K, 1.0, 1e-6, Dropout(0.0))(q, k, k, NO_MASK, records.append)
    usual, norm = context.trained["usual"], context.trained["norm"]
    return {
        "score_variance": float(records[0].scores_BHTS.var()),
        "usual_loss": usual.nll,
        "norm_loss": norm.nll,
        "loss_ratio": norm.nll / usual.nll,
        "added_norms": _count_norms(norm.model) - _count_norms(usual.model),
        "update": list(range(10, len(usual.smoothed_losses()) * 10 + 1, 10)),
        "usual": usual.smoothed_losses(),
        "norm": norm.smoothed_losses(),
    }


def _count_norms(model: Transformer) -> int:
    return sum(isinstance(module, nn.LayerNorm) for module in model.modules())


FACTORS = (1 / 8, 1 / 2, 1.0, 2.0, 8.0)
OWN_SCALE = (DIGIT_MODEL.d_model // DIGIT_MODEL.heads) ** -0.5


def _scale_trainings(full: bool) -> Mapping[str, TrainingSpec]:
    factors = (1 / 64, *FACTORS, 64.0) if full else FACTORS
    spec = REVERSE.replace(updates=200)
    return {f"{f:g}": spec.with_model(attention={"scale": f * OWN_SCALE}) for f in factors}


# "Possible": at most three times the loss; three times and more is "worse".
@experiment(
    12,
    Part("others", holds(at_most("worst_near", 3)), false(at_least("worst_near", 6))),
    Part("any", false(at_least("far_ratio", 3)), holds(at_most("far_ratio", 1.5))),
    Part("stable", false(at_most("instability", 1)), holds(at_least("instability", 2))),
    trainings=_scale_trainings,
    log=["loss_*", "worst_near", "far_ratio", "instability"],
    figures=[Bars("by_factor", [f"loss_{factor:g}" for factor in FACTORS], "loss", "log")],
)
def scales_of_attention(context: Context) -> Numbers:
    """Train the same model with other scales."""
    losses = {name: trained.nll for name, trained in context.trained.items()}
    spreads = {
        name: float(torch.tensor(trained.gradient_norms).log().var())
        for name, trained in context.trained.items()
    }
    return {
        **{f"loss_{name}": loss for name, loss in losses.items()},
        "worst_near": max(losses["0.5"], losses["2"]) / losses["1"],
        "far_ratio": losses["8"] / losses["1"],
        "instability": spreads["8"] / spreads["1"],
    }
