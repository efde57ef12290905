"""Experiments 30 to 33, 35 and 37: what position vectors are, and what attention does with them."""

import numpy as np
import torch
from torch import Tensor

from seq2see.lab.core import (
    Context,
    Numbers,
    Part,
    at_least,
    at_most,
    experiment,
    false,
    holds,
    near,
)
from seq2see.lab.figures import Heatmaps
from seq2see.lab.models import (
    attend,
    attend_dot_product,
    build_self_attention,
    count_different,
    max_abs_diff,
)
from seq2see.lab.notes_code import parses, restore_class, run_code
from seq2see.lab.texts import load_all_texts
from seq2see.lab.training import DIGIT_MODEL, REVERSE
from seq2see.model import (
    AbsolutePositions,
    ModelBuilder,
    ModelConfig,
    Transformer,
    compute_sinusoids,
    count_parameters,
)
from seq2see.model.basic_modules import XavierLinear

# B batch, H heads, T tokens or queries, S source tokens, M features of the model, F frequencies

ROUNDING, VISIBLE = 1e-12, 1e-3
"""Rounding errors in float64 are below 1e-12; a change of a vector is far above 1e-3."""
D_MODEL = 512
SHUFFLED = torch.tensor([5, 2, 7, 0, 3, 6, 1, 4])
SOURCE = torch.arange(4, 12)[None]


def build_digit_model(context: Context, positions: str, decoder_layers: int = 2) -> Transformer:
    """Return a new model in float64 with this kind of positions."""
    torch.manual_seed(context.mix_seed("weights"))
    config = DIGIT_MODEL.replace(positions={"kind": positions}, decoder_layers=decoder_layers)
    return Transformer.from_config(config).double().eval()


# "Sees order": vectors of size 1 change by a tenth and more (encoder), or visibly (decoder).
@experiment(
    30,
    Part(
        "attention",
        holds(at_most("shuffled", ROUNDING), at_least("keys_only", 0.1)),
        false(at_least("shuffled", VISIBLE)),
    ),
    Part(
        "encoder",
        holds(at_most("encoder_none", ROUNDING), at_least("encoder_sinusoid", 0.1)),
        false(at_least("encoder_none", VISIBLE)),
    ),
    Part(
        "decoder",
        false(at_least("decoder_2", VISIBLE), at_most("decoder_1", ROUNDING)),
        holds(at_most("decoder_2", ROUNDING)),
    ),
)
@torch.no_grad()
def attention_without_positions(context: Context) -> Numbers:
    """Shuffle keys and values, a source, and the first tokens of a target."""
    q, k, v = (context.normal(name, 4, 2, 8, 16, dtype=torch.float64) for name in "qkv")
    output, both, keys_only = (
        attend_dot_product(q, *key_values, 0.25)[0]
        for key_values in (
            (k, v),
            (k[:, :, SHUFFLED], v[:, :, SHUFFLED]),
            (k[:, :, SHUFFLED], v),
        )
    )
    return {
        "shuffled": max_abs_diff(both, output),
        "keys_only": max_abs_diff(keys_only, output),
        **{
            f"encoder_{kind}": _change_by_shuffling(build_digit_model(context, kind))
            for kind in ("none", "sinusoid")
        },
        **{
            f"decoder_{layers}": _change_by_swapping(build_digit_model(context, "none", layers))
            for layers in (1, 2)
        },
    }


def _change_by_shuffling(model: Transformer) -> float:
    """Return how far the encoder of a shuffled source is from the shuffled encoder output."""
    states_SM, shuffled_SM = (
        model.encode(ids_BS).states_BSM[0] for ids_BS in (SOURCE, SOURCE[:, SHUFFLED])
    )
    return max_abs_diff(shuffled_SM, states_SM[SHUFFLED])


def _change_by_swapping(model: Transformer) -> float:
    """Return how far the decoder's last state moves when two earlier tokens change places."""
    memory = model.encode(SOURCE)
    one, other = (
        model.decode(torch.tensor([target]), memory)[:, -1]
        for target in ([2, 4, 5, 6, 7], [2, 5, 4, 6, 7])
    )
    return max_abs_diff(one, other)


def compute_table(positions: int, **settings: str) -> Tensor:
    """Return what the model's module adds at each position, [T, M]."""
    config = ModelConfig(vocab_size=1, d_model=D_MODEL).replace(positions=settings)
    zeros_BTM = torch.zeros(1, positions, D_MODEL, dtype=torch.float64)
    added_TM: Tensor = ModelBuilder(config).build_positions()(zeros_BTM)[0]
    return added_TM


def compute_angles(positions: int) -> Tensor:
    """Return pos / 10000^(2⌊i/2⌋/d) of dimension i, as the notes print it, [T, M]."""
    i, pos = torch.arange(D_MODEL), torch.arange(positions, dtype=torch.float64)
    return pos[:, None] / 10_000.0 ** (2 * (i // 2) / D_MODEL).double()


# Sine and cosine of the same angle differ by 1 on average.
@experiment(
    31,
    Part("learned", false(near("parameters", 0, 0)), holds(at_least("parameters", 1))),
    Part("range", holds(at_most("largest", 1)), false(at_least("largest", 1.01))),
    Part(
        "formula",
        holds(at_most("by_dimension", ROUNDING)),
        false(at_least("by_dimension", VISIBLE)),
    ),
    Part(
        "even_positions",
        false(at_least("by_position", 0.1)),
        holds(at_most("by_position", ROUNDING)),
    ),
    figures=[
        Heatmaps("twenty", ["interleaved"], (), (), (-1, 1), "RdBu", False, cell_size=4.0),
        Heatmaps(
            "four_dimensions", ["pe_4"], [f"dimension_{i}" for i in range(4)],
            [str(position) for position in range(6)], (-1, 1), "RdBu", cell_size=3.4,
        ),
    ],
)  # fmt: skip
def sinusoid(_: Context) -> Numbers:
    """Compare the model's position vectors with the formula by dimension and by position."""
    table_TM, angles_TM = compute_table(512), compute_angles(512)
    even_M, even_T1 = torch.arange(D_MODEL) % 2 == 0, torch.arange(512)[:, None] % 2 == 0
    by_dimension_TM, by_position_TM = (
        torch.where(even, angles_TM.sin(), angles_TM.cos()) for even in (even_M, even_T1)
    )
    positions = ModelBuilder(ModelConfig(vocab_size=1, d_model=D_MODEL)).build_positions()
    return {
        "parameters": count_parameters(positions),
        "largest": float(compute_table(10_000).abs().max()),
        "by_dimension": max_abs_diff(table_TM, by_dimension_TM),
        "by_position": max_abs_diff(table_TM, by_position_TM),
        "interleaved": table_TM[:20],
        "pe_4": compute_sinusoids(torch.arange(6), 4),
    }


def compute_timing_signal(positions: int) -> Tensor:
    """Return `get_timing_signal_1d` of Tensor2Tensor, [T, M]."""
    timescales = D_MODEL // 2
    increment = np.log(1.0e4 / 1.0) / (timescales - 1)
    inverse_timescales = np.exp(np.arange(timescales) * -increment)
    scaled_time = np.arange(positions)[:, None] * inverse_timescales[None]
    return torch.from_numpy(np.concatenate([np.sin(scaled_time), np.cos(scaled_time)], axis=1))


# A hundredth of the largest value is far above rounding, and visible in the figure.
@experiment(
    32,
    Part(
        "layout",
        holds(
            at_most("signal_error", ROUNDING),
            at_least("layout_difference", 0.1),
            near("reordered_difference", 0, 0),
        ),
        false(at_least("signal_error", VISIBLE)),
    ),
    Part(
        "only",
        false(at_least("frequency_difference", 0.01), at_least("lowest_ratio", 1.01)),
        holds(at_most("frequency_difference", ROUNDING)),
    ),
    figures=[
        Heatmaps("tables", ["interleaved", "halves", "signal"], (), (), (-1, 1), "RdBu", False, 1,
                 cell_size=3.0),
        Heatmaps("difference", ["signal_minus_halves"], (), (), None, "RdBu", False, cell_size=4.0),
    ],
)  # fmt: skip
def tensor2tensor(_: Context) -> Numbers:
    """Compare both layouts and both kinds of frequencies with the function of Tensor2Tensor."""
    interleaved_TM = compute_table(200)
    halves_TM = compute_table(200, layout="halves")
    own_TM = compute_table(200, layout="halves", frequencies="tensor2tensor")
    signal_TM = compute_timing_signal(200)
    reordered_TM = torch.cat((interleaved_TM[:, 0::2], interleaved_TM[:, 1::2]), dim=1)
    return {
        "signal_error": max_abs_diff(own_TM, signal_TM),
        "layout_difference": max_abs_diff(interleaved_TM, halves_TM),
        "reordered_difference": count_different(reordered_TM, halves_TM),
        "frequency_difference": max_abs_diff(signal_TM, reordered_TM),
        "lowest_ratio": float(halves_TM[1, D_MODEL // 2 - 1] / signal_TM[1, D_MODEL // 2 - 1]),
        "interleaved": interleaved_TM[:20],
        "halves": halves_TM[:20],
        "signal": signal_TM[:20],
        "signal_minus_halves": signal_TM - halves_TM,
    }


OFFSETS = range(1, 64)


# Rotation and products are exact up to rounding. "Readable": positions at one distance have scores
# within a hundredth of the range of all scores; at a tenth, several distances overlap.
@experiment(
    33,
    Part(
        "linear",
        holds(at_most("rotation_error", ROUNDING)),
        false(at_least("rotation_error", VISIBLE)),
    ),
    Part("distance", holds(at_most("spread", 0.01)), false(at_least("spread", 0.1))),
    Part(
        "direction", false(at_most("direction", ROUNDING)), holds(at_least("direction", VISIBLE))
    ),
    Part(
        "projected",
        false(at_least("projected_spread", 0.1)),
        holds(at_most("projected_spread", 0.01)),
    ),
    figures=[Heatmaps("products", ["own", "projected"], (), (), None, "viridis", False)],
)  # fmt: skip
@torch.no_grad()
def shift_as_rotation(context: Context) -> Numbers:
    """Rotate position vectors by one matrix, and compare their products."""
    table_TM, shift = compute_table(300), 37
    products_TT = table_TM @ table_TM.T
    scores_HTT = attend(build_self_attention(context), table_TM[None])[1].scores_BHTS[0]
    range_of_products = float(products_TT.max() - products_TT.min())
    return {
        "rotation_error": max_abs_diff(
            table_TM[:-shift] @ build_rotation(shift).T, table_TM[shift:]
        ),
        "spread": measure_spread(products_TT),
        "direction": max_abs_diff(products_TT[100, 101:200], products_TT[100, 1:100].flip(0))
        / range_of_products,
        "projected_spread": float(
            torch.tensor([measure_spread(scores_TT) for scores_TT in scores_HTT]).mean()
        ),
        "own": products_TT[:64, :64],
        "projected": scores_HTT[0, :64, :64],
    }


def build_rotation(shift: int) -> Tensor:
    """Return the matrix, made from PE(shift) alone, that moves PE(pos) to PE(pos + shift)."""
    sines_F, cosines_F = compute_table(shift + 1)[shift].view(-1, 2).T
    blocks_F22 = torch.stack((cosines_F, sines_F, -sines_F, cosines_F), dim=1).view(-1, 2, 2)
    rotation_MM: Tensor = torch.block_diag(*blocks_F22)
    return rotation_MM


def measure_spread(scores_TT: Tensor) -> float:
    """Return the mean range of scores at the same offset over the range of all scores."""
    diagonals = [scores_TT.diagonal(offset) for offset in OFFSETS]
    spread = torch.stack([d.max() - d.min() for d in diagonals]).mean()
    return float(spread / (scores_TT.max() - scores_TT.min()))


class ConcatenatedPositions(AbsolutePositions):
    """[W₁ W₂][e; p]: embedding and position have matrices of their own."""

    def __init__(self, positions: AbsolutePositions, d_model: int) -> None:
        super().__init__()
        self.positions = positions
        self.weights = XavierLinear(2 * d_model, d_model, bias=False)

    def forward(self, x_BTM: Tensor, offset: int = 0) -> Tensor:
        """Return W₁·x + W₂·position."""
        positions_BTM = self.positions(torch.zeros_like(x_BTM), offset)
        projected_BTM: Tensor = self.weights(torch.cat((x_BTM, positions_BTM), dim=-1))
        return projected_BTM


class ConcatenatingBuilder(ModelBuilder):
    """Builds a Transformer that concatenates embeddings and positions."""

    def build_positions(self) -> AbsolutePositions:
        """Wrap the usual positions."""
        return ConcatenatedPositions(super().build_positions(), self.config.d_model)


def build_with_concatenation(config: ModelConfig) -> Transformer:
    """Build a Transformer that concatenates embeddings and positions."""
    return ConcatenatingBuilder(config).build_transformer()


WORDS, POSITIONS = 10_000, 512


# A quotient of losses between 1.1 and 1.2 is not enough for either conclusion with few seeds.
@experiment(
    35,
    Part(
        "limits",
        holds(at_least("loss_ratio", 1.2)),
        false(at_most("loss_ratio", 1.1)),
        controls=[at_most("sum_loss", 0.5)],
    ),
    Part(
        "recovered",
        holds(at_least("words_found", 0.99), at_least("places_found", 0.99)),
        false(at_most("places_found", 0.9)),
    ),
    trainings={"sum": REVERSE, "concatenation": REVERSE.replace(build=build_with_concatenation)},
    log=["sum_loss", "concatenation_loss", "loss_ratio"],
)  # fmt: skip
def adding_positions(context: Context) -> Numbers:
    """Train with a sum and with concatenation; recover words and positions from random sums."""
    places_TM = compute_table(POSITIONS)
    tokens_VM = context.normal("tokens", WORDS, D_MODEL, dtype=torch.float64)
    words_T = torch.randint(WORDS, (POSITIONS,), generator=context.rng("words"))
    sum_TM = tokens_VM[words_T] + places_TM
    energy_M = torch.linalg.svdvals(places_TM).square()
    offsets_T = ((sum_TM @ places_TM.T).argmax(dim=1) - torch.arange(POSITIONS)).abs()
    losses = {name: trained.nll for name, trained in context.trained.items()}
    return {
        **{f"{name}_loss": loss for name, loss in losses.items()},
        "loss_ratio": losses["sum"] / losses["concatenation"],
        "words_found": float(((sum_TM @ tokens_VM.T).argmax(dim=1) == words_T).double().mean()),
        "places_found": float((offsets_T <= 1).double().mean()),
        "exact_places_found": float((offsets_T == 0).double().mean()),
        "directions": int((energy_M.cumsum(0) < 0.99 * energy_M.sum()).sum()) + 1,
    }


RESTORED = (
    ("nass", "pass"),
    ("\\", ""),
    ("^*", "*"),
    ("angle rads", "angle_rads"),
    ("pos encoding", "pos_encoding"),
    ("d model", "d_model"),
    ("[np.newaxis, :],", "[np.newaxis, :], d_model)"),
)
"""What text recognition damaged; the call leaves out `d_model`. Comments lost their quotes."""


def restore_positions_class(printed: str) -> str:
    """Return the printed class as valid Python."""
    for damaged, right in RESTORED:
        assert damaged in printed, damaged
        printed = printed.replace(damaged, right)
    comments = {line.strip(): "" for line in printed.splitlines() if not line.isascii()}
    without = {"class Positional_Encoding():": "", "input:": ""}
    return restore_class("Positional_Encoding", printed, comments | without)


# The class returns float32, which rounds numbers up to 1 by at most 3e-8.
@experiment(
    37,
    Part("printed", false(near("parses", 0, 0)), holds(near("parses", 1, 0))),
    Part("restored", holds(at_most("error", 1e-7)), false(at_least("error", VISIBLE))),
)
def code_of_positions(_: Context) -> Numbers:
    """Parse the printed class; compare the table of the restored class with the model's."""
    printed = load_all_texts()[37].sources["S3"]
    restored = run_code(restore_positions_class(printed), np=np)["Positional_Encoding"]()
    encoded_BTM = restored.positional_encoding(50, D_MODEL)
    return {
        "parses": parses(printed),
        "restored_spots": len(RESTORED),
        "error": max_abs_diff(encoded_BTM[0].double(), compute_table(50)),
    }
