"""Experiments 15 to 17: which tokens attend to themselves."""

import torch
from torch import Tensor

from seq2see.data import fables
from seq2see.engines.batching import add_special_tokens_and_pad
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
from seq2see.lab.figures import Curves, Heatmaps
from seq2see.lab.models import (
    attend_dot_product,
    diagonal_argmax_share,
    max_abs_diff,
    record_model,
    record_self_attention,
)
from seq2see.lab.training import REVERSE, to_batch
from seq2see.model import Transformer

# B batch, L layers, H heads, T queries, S keys, D features

TOKENS = 8


# Chance is 1/8. "Each token" allows for a tenth of exceptions; a half refutes it.
@experiment(
    15,
    Part(
        "highest",
        false(*(at_most(name, 0.5) for name in ("random", "digits", "fables"))),
        holds(*(at_least(name, 0.9) for name in ("random", "digits", "fables"))),
    ),
    Part("not_always", holds(at_most("fables_least", 0.5)), false(at_least("fables_least", 0.9))),
    Part("chance", holds(near("random", 1 / TOKENS, 0.02)), false(at_least("random", 0.3))),
    trainings={"digits": REVERSE},
    needs_translator=True,
    figures=[Heatmaps("by_head", ["shares"], columns=1, limits=(0, 1))],
)
def tokens_that_attend_to_themselves(context: Context) -> Numbers:
    """Count how often the largest weight of a token is its own."""
    random = record_self_attention(context, TOKENS, sentences=1000)
    digits = [pair for pair in REVERSE.load_pairs("test") if len(pair[0]) == TOKENS - 1]
    fables_LH = _fables_shares(context)
    return {
        "random": float(diagonal_argmax_share(random.weights_BHTS).mean()),
        "digits": float(
            encoder_shares(context.trained["digits"].model, to_batch(digits).source_BS).mean()
        ),
        "fables": float(fables_LH.mean()),
        "fables_least": float(fables_LH.min()),
        "fables_most": float(fables_LH.max()),
        "shares": fables_LH,
    }


@torch.no_grad()
def encoder_shares(model: Transformer, ids_BS: Tensor) -> Tensor:
    """Return the shares of each layer and head, [L, H]; padding is not counted."""
    is_real_BS = ~model.encode(ids_BS).padding_BS
    records = record_model(model, ids_BS).encoder()
    return torch.stack([diagonal_argmax_share(r.weights_BHTS, is_real_BS) for r in records])


def _fables_ids(context: Context, limit: int | None = None) -> list[list[int]]:
    lines = [fable.source for fable in fables.load_fables_split("test", short=True)[:limit]]
    ids: list[list[int]] = context.translator.tokenizers.source.encode_batch(lines)
    return ids


def _fables_shares(context: Context) -> Tensor:
    ids_BS = add_special_tokens_and_pad(_fables_ids(context, 200))
    return encoder_shares(context.translator.build_model(), ids_BS)


SIGMAS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)


# "Attends to itself": 95 % of the tokens. With log-normal lengths of σ = 2, one token in six is
# more than seven times as long as the median.
@experiment(
    16,
    Part(
        "own",
        holds_if(at_least("equal", 0.999), at_most("varied", 0.8)),
        holds(at_least("equal", 0.999), at_least("varied", 0.95)),
        false(at_most("equal", 0.5)),
    ),
    Part(
        "embeddings",
        holds(at_least("fables", 0.95)),
        false(at_most("fables", 0.5)),
    ),
    needs_translator=True,
    figures=[Curves("by_sigma", "sigma", ["share"], marker="o")],
)
def attention_without_projections(context: Context) -> Numbers:
    """Attend with the vectors themselves as queries, keys and values."""
    x_BHTD = context.normal("x", 1000, 1, TOKENS, 64)
    equal_BHTD = x_BHTD / x_BHTD.norm(dim=-1, keepdim=True) * 8
    exponents = context.normal("lengths", 1000, 1, TOKENS, 1)
    shares = [own_share(equal_BHTD * (sigma * exponents).exp()) for sigma in SIGMAS]
    return {
        "equal": shares[0],
        "varied": shares[-1],
        "fables": own_share(_embedded_fables(context)),
        "sigma": list(SIGMAS),
        "share": shares,
    }


def own_share(x_BHTD: Tensor) -> float:
    """Return the share of the vectors whose largest attention weight is their own."""
    _, record = attend_dot_product(x_BHTD, x_BHTD, x_BHTD, x_BHTD.size(-1) ** -0.5)
    return float(diagonal_argmax_share(record.weights_BHTS).mean())


@torch.no_grad()
def _embedded_fables(context: Context) -> Tensor:
    """Return the scaled embeddings of sentences of eight distinct tokens, without positions."""
    distinct = [list(dict.fromkeys(ids))[:TOKENS] for ids in _fables_ids(context)]
    chosen_BT = torch.tensor([ids for ids in distinct if len(ids) == TOKENS])
    embeddings = context.translator.build_model().encoder.embeddings
    vectors_BTM: Tensor = embeddings.tokens(chosen_BT) * embeddings.factor
    return vectors_BTM[:, None]


# Rounding errors of scores are below 1e-14; a ratio of 1.5 is visible in a picture of weights.
# Loss ratios of equal models differ by up to 5 % between seeds.
@experiment(
    17,
    Part("scores", holds(at_most("asymmetry", 1e-12)), false(at_least("asymmetry", 1e-3))),
    Part(
        "weights",
        false(at_least("ratio", 1.5), at_most("asymmetry", 1e-12)),
        holds(at_most("ratio", 1.001)),
    ),
    Part(
        "loss",
        false(at_most("loss_ratio", 1.05)),
        holds(at_least("loss_ratio", 1.2)),
        controls=[at_most("separate_loss", 0.2)],
    ),
    trainings={"separate": REVERSE, "shared": REVERSE.with_model(attention={"shared_qk": True})},
    log=["ratio", "separate_loss", "loss_ratio"],
    figures=[Heatmaps("head", ["scores", "weights"], "我是一个男孩", cell_size=3.4)],
)
def shared_query_key_matrix(context: Context) -> Numbers:
    """Compare scores and weights with their transposes, and losses with one and two matrices."""
    record = record_self_attention(context, tokens=6, sentences=200, shared_qk=True)
    scores_BHTS, weights_BHTS = record.scores_BHTS, record.weights_BHTS
    i, j = torch.triu_indices(6, 6, offset=1)
    shared, separate = (context.trained[name].nll for name in ("shared", "separate"))
    return {
        "asymmetry": max_abs_diff(scores_BHTS, scores_BHTS.mT) / float(scores_BHTS.abs().max()),
        "ratio": float((weights_BHTS / weights_BHTS.mT)[..., i, j].log().abs().median().exp()),
        "separate_loss": separate,
        "loss_ratio": shared / separate,
        "scores": scores_BHTS[0, 0],
        "weights": weights_BHTS[0, 0],
    }
