"""Experiments 34 and 36: kinds of positions, within the trained length and beyond."""

from collections.abc import Mapping

import torch
from torch import Tensor

from seq2see.errors import InputError
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
from seq2see.lab.figures import Curves
from seq2see.lab.models import max_abs_diff, raises
from seq2see.lab.training import DIGIT_MODEL, REVERSE, TrainedModel, TrainingSpec
from seq2see.model import (
    NO_MASK,
    AttentionIntermediates,
    ModelBuilder,
    RelativeAttention,
    RelativePositionEmbeddings,
)
from seq2see.model.basic_modules import Dropout

# B batch, H heads, T queries, S keys, D features of a head

LONGER = range(15, 21)
LENGTHS = (2, 4, 6, 8, 10, 12, 13, 14, 16, 18, 20)
ROWS = 64
"""Rows of the table of learned positions."""
LEARNED = REVERSE.with_model(positions={"kind": "learned", "max_length": ROWS})
RELATIVE = REVERSE.with_model(positions={"kind": "relative"})


def _length_trainings(full: bool) -> Mapping[str, TrainingSpec]:
    """Return both trainings; a learned table needs more updates, as each position is learned."""
    updates = 800 if full else REVERSE.updates
    return {
        "sinusoid": REVERSE.replace(updates=updates),
        "learned": LEARNED.replace(updates=updates),
    }


def measure_by_length(trained: TrainedModel) -> list[float]:
    """Return the share of exact matches for each length."""
    return [trained.exact_match_by_length([length], 40) for length in LENGTHS]


def accepts(positions: Mapping[str, object], tokens: int) -> bool:
    """Return whether a model of digits with these positions accepts this number of tokens."""
    module = ModelBuilder(DIGIT_MODEL.replace(positions=positions)).build_positions()
    return not raises(InputError, lambda: module(torch.zeros(1, tokens, DIGIT_MODEL.d_model)))


# 1,000 sources: the standard error of a share is 0.015, that of a difference 0.02; 0.05 is a
# difference without practical effect. "Translates longer": 0.8 of the sources, and 0.2 is failure.
@experiment(
    34,
    Part(
        "equal",
        holds(between("difference", -0.05, 0.05)),
        false(at_least("difference", 0.1)),
        controls=[at_least("sinusoid", 0.8)],
        needs_full=True,
    ),
    Part(
        "represents",
        holds(near("sinusoid_accepts", 1, 0), near("learned_accepts", 0, 0)),
        false(near("sinusoid_accepts", 0, 0)),
    ),
    Part(
        "vocabulary",
        false(near("rows_accepted", 1, 0), near("learned_accepts", 0, 0)),
        holds(near("rows_accepted", 0, 0)),
    ),
    Part(
        "translates",
        false(at_most("sinusoid_longer", 0.2)),
        holds(at_least("sinusoid_longer", 0.8)),
        controls=[at_least("sinusoid", 0.8)],
    ),
    trainings=_length_trainings,
    figures=[Curves("by_length", "lengths", ["sinusoid_by_length", "learned_by_length"],
                    "exact_match", marker="o")],
)  # fmt: skip
def learned_or_sinusoid(context: Context) -> Numbers:
    """Train both on up to 12 digits, and test them on up to 20."""
    sinusoid, learned = context.trained["sinusoid"], context.trained["learned"]
    table = {"kind": "learned", "max_length": ROWS}
    return {
        "sinusoid": sinusoid.exact_match,
        "learned": learned.exact_match,
        "difference": sinusoid.exact_match - learned.exact_match,
        "sinusoid_longer": sinusoid.exact_match_by_length(LONGER),
        "learned_longer": learned.exact_match_by_length(LONGER),
        "sinusoid_accepts": accepts({"kind": "sinusoid"}, ROWS + 1),
        "learned_accepts": accepts(table, ROWS + 1),
        "rows_accepted": accepts(table, ROWS),
        "lengths": list(LENGTHS),
        "sinusoid_by_length": measure_by_length(sinusoid),
        "learned_by_length": measure_by_length(learned),
    }


# A model without any positions reverses almost nothing: 0.8 means that distances are enough.
@experiment(
    36,
    Part(
        "formula",
        holds(at_most("score_error", 1e-12), at_most("output_error", 1e-12)),
        false(at_least("score_error", 1e-3)),
    ),
    Part("replace", holds(at_least("relative", 0.8)), false(at_most("relative", 0.5))),
    Part(
        "longer",
        false(at_most("relative_longer", 0.2)),
        holds(at_least("relative_longer", 0.8)),
        controls=[at_least("relative", 0.5)],
    ),
    trainings={"relative": RELATIVE, "sinusoid": REVERSE},
    figures=[Curves("by_length", "lengths", ["relative_by_length", "sinusoid_by_length"],
                    "exact_match", marker="o")],
)  # fmt: skip
def relative_positions(context: Context) -> Numbers:
    """Compare with the formula; train on up to 12 digits and test on up to 20."""
    relative, sinusoid = context.trained["relative"], context.trained["sinusoid"]
    scores, output = _errors_of_relative_attention(context)
    return {
        "score_error": scores,
        "output_error": output,
        "relative": relative.exact_match,
        "sinusoid": sinusoid.exact_match,
        "relative_longer": relative.exact_match_by_length(LONGER),
        "sinusoid_longer": sinusoid.exact_match_by_length(LONGER),
        "lengths": list(LENGTHS),
        "relative_by_length": measure_by_length(relative),
        "sinusoid_by_length": measure_by_length(sinusoid),
    }


@torch.no_grad()
def _errors_of_relative_attention(context: Context) -> tuple[float, float]:
    """Compare scores and output with q·(k + a_K) and Σ w(v + a_V), made for all pairs of tokens."""
    torch.manual_seed(context.mix_seed("distances"))
    distances = RelativePositionEmbeddings(8, max_distance=3).double()
    q, k, v = (context.normal(name, 1, 2, 9, 8, dtype=torch.float64) for name in "qkv")
    row_TS = (torch.arange(9) - torch.arange(9)[:, None]).clamp(-3, 3) + 3
    scores_BHTS = (q.unsqueeze(3) * (k.unsqueeze(2) + distances.key_RD[row_TS])).sum(dim=-1)
    values_BHTSD: Tensor = v.unsqueeze(2) + distances.value_RD[row_TS]
    mixed_BHTD = (scores_BHTS.softmax(dim=-1).unsqueeze(4) * values_BHTSD).sum(dim=3)
    records: list[AttentionIntermediates] = []
    output = RelativeAttention(1.0, distances, Dropout(0.0))(q, k, v, NO_MASK, records.append)
    return max_abs_diff(records[0].scores_BHTS, scores_BHTS), max_abs_diff(output, mixed_BHTD)
