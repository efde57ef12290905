"""Experiments 45 to 49: the padding mask and the causal mask."""

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
    holds_if,
    undecided,
)
from seq2see.lab.figures import Curves, Heatmaps
from seq2see.lab.models import (
    IntermediatesRecorder,
    count_different,
    max_abs_diff,
    record_model,
)
from seq2see.lab.notes_code import parses, run_code
from seq2see.lab.texts import load_all_texts
from seq2see.lab.training import DIGIT_MODEL, REVERSE, Pair, TrainingSpec, loss_of, to_batch
from seq2see.model import (
    CAUSAL_MASK,
    NO_MASK,
    AttentionFunction,
    AttentionFunctionConfig,
    AttentionModuleId,
    DotProductAttention,
    EncoderOutput,
    ModelBuilder,
    ModelConfig,
    Transformer,
    build_padded_key_mask,
    masked_softmax,
)
from seq2see.model.attention import AttentionInputs
from seq2see.text import PAD_ID

# B batch, H heads, T queries or target tokens, S keys or source tokens

SITES = {
    "encoder": AttentionModuleId("encoder", 0, "self"),
    "decoder": AttentionModuleId("decoder", 0, "self"),
    "cross": AttentionModuleId("decoder", 0, "cross"),
}
CPU = torch.device("cpu")


def new_model(context: Context) -> Transformer:
    """Return the model of the digit tasks with initial weights."""
    torch.manual_seed(context.mix_seed("weights"))
    return Transformer.from_config(DIGIT_MODEL).eval()


def add_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the weights with the mask as the notes' attention function adds it."""
    return (scores + mask.float() * -1e9).softmax(dim=-1)


# Hidden keys have weights of exactly 0, others of 1/12 on average; the causal mask has no effect on
# padding after a sentence up to rounding, which is below 1e-6 in float32.
@experiment(
    45,
    Part(
        "padding",
        holds(*(at_most(f"on_padding_{site}", 0) for site in SITES)),
        false(*(at_least(f"on_padding_{site}", 1e-3) for site in SITES)),
    ),
    Part(
        "needed",
        false(at_most("padding_effect", 1e-6)),
        holds(at_least("padding_effect", 1e-3)),
    ),
    Part(
        "causal",
        holds(
            at_most("on_future_decoder", 0),
            at_least("on_future_encoder", 0.1),
            at_least("on_future_cross", 0.1),
        ),
        false(at_least("on_future_decoder", 1e-3)),
    ),
    Part("cut", undecided()),
    figures=[Heatmaps("weights", list(SITES), numbers=False)],
)
def sites_of_masks(context: Context) -> Numbers:
    """Measure the weight that real tokens give to padding and to later tokens, by module."""
    model, batch = new_model(context), to_batch(REVERSE.load_pairs("test")[:100])
    target_BT = batch.decoder_input_BT
    record = record_model(model, batch.source_BS, target_BT)
    padding = {"encoder": batch.source_BS == PAD_ID, "decoder": target_BT == PAD_ID}
    padding["cross"] = padding["encoder"]
    numbers: dict[str, object] = {}
    for name, site in SITES.items():
        real_BT = ~padding["encoder" if name == "encoder" else "decoder"]
        weights_BTS = record.attention[site].weights_BHTS.mean(dim=1)
        on_padding_BT = (weights_BTS * padding[name][:, None]).sum(dim=-1)
        numbers[f"on_padding_{name}"] = float(on_padding_BT[real_BT].mean())
        numbers[f"on_future_{name}"] = float(weights_BTS.triu(1).sum(dim=-1)[real_BT].mean())
        numbers[name] = weights_BTS[0]
    other_BT = target_BT.masked_fill(padding["decoder"], 9)
    changed = record_model(model, batch.source_BS, other_BT).layers["decoder", 1]
    real_BT = ~padding["decoder"]
    effect = max_abs_diff(changed[real_BT], record.layers["decoder", 1][real_BT])
    return {**numbers, "padding_effect": effect}


def restore_padding_mask(printed: str) -> str:
    """Return the notes' function with its description as comments and its body indented."""
    lines = [line for line in printed.splitlines() if line.strip()]
    is_code = [line.startswith(("def ", "seq =", "return ")) for line in lines]
    return "\n".join(
        line if line.startswith("def ") else f"    {line}" if code else f"    # {line}"
        for line, code in zip(lines, is_code, strict=True)
    )


# Weights in float32 agree to 1e-6. "Needed": without the mask the loss doubles, and changes by 0.01
# with the padding of the batch; 5 % is not a difference.
@experiment(
    46,
    Part(
        "weights",
        holds(at_most("difference", 1e-6), at_most("parses", 0)),
        false(at_least("difference", 1e-3)),
    ),
    Part(
        "every",
        holds(at_least("loss_ratio", 2), at_least("batch_change", 0.01)),
        false(at_most("loss_ratio", 1.05)),
        controls=[at_most("masked_loss", 0.3)],
    ),
    trainings={"reverse": REVERSE},
    log=["masked_loss", "bare_loss", "loss_ratio"],
)
def padding_mask_code(context: Context) -> Numbers:
    """Compare the notes' mask with the model's; remove the mask of a trained cross-attention."""
    printed = load_all_texts()[46].sources["S3"].split("```")[1].strip()
    create_padding_mask = run_code(restore_padding_mask(printed))["create_padding_mask"]
    pairs = REVERSE.load_pairs("test")[:300]
    source_BS = to_batch(pairs).source_BS
    scores_BHTS = context.normal("scores", len(pairs), 4, 6, source_BS.size(1))
    notes_BHTS = add_mask(scores_BHTS, create_padding_mask(source_BS))
    masked = build_padded_key_mask(source_BS == PAD_ID).masked
    model = context.trained["reverse"].model
    (kept, bare), short = _losses(model, pairs), [pair for pair in pairs if len(pair[0]) <= 6]
    return {
        "difference": max_abs_diff(notes_BHTS, masked_softmax(scores_BHTS, masked)),
        "parses": parses(printed),
        "masked_loss": kept,
        "bare_loss": bare,
        "loss_ratio": bare / kept,
        "batch_change": abs(_losses(model, short, padding=8)[1] - _losses(model, short)[1]),
    }


@torch.no_grad()
def _losses(model: Transformer, pairs: list[Pair], padding: int = 0) -> tuple[float, float]:
    """Return the loss with and without the mask on the encoder output, with more padding."""
    batch = to_batch(pairs)
    source_BS = torch.nn.functional.pad(batch.source_BS, (0, padding), value=PAD_ID)
    memory, losses = model.encode(source_BS), []
    bare = EncoderOutput(memory.states_BSM, torch.zeros_like(memory.padding_BS))
    for output in (memory, bare):
        logits_BTV = model.output(model.decode(batch.decoder_input_BT, output))
        losses.append(
            torch.nn.functional.cross_entropy(
                logits_BTV.flatten(0, 1), batch.labels_BT.flatten(), ignore_index=PAD_ID
            )
        )
    return float(losses[0]), float(losses[1])


class KeepMaskAttention(DotProductAttention):
    """Attention with a mask of 1 where a query may attend, added as `mask * -1e9`."""

    def prepare_inputs(self, inputs: AttentionInputs) -> AttentionInputs:
        """Remove the causal mask."""
        return inputs._replace(mask=NO_MASK)

    def fused_forward(self, inputs: AttentionInputs) -> Tensor:
        """Use the plain form."""
        return self.plain_forward(inputs, None)

    def compute_scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Add −1e9 on and below the diagonal; the last query is at the last key."""
        scores_BHTS = super().compute_scores(queries_BHTD, keys_BHSD)
        num_queries, num_keys = scores_BHTS.shape[-2:]
        return scores_BHTS + lower_triangle(num_queries, num_keys) * -1e9


def lower_triangle(num_queries: int, num_keys: int) -> Tensor:
    """Return 1 on and below the diagonal, which ends at the last query and key, and 0 above."""
    return torch.ones(num_queries, num_keys).tril(num_keys - num_queries)


class KeepMaskBuilder(ModelBuilder):
    """Builds a model whose decoder has the mask of `KeepMaskAttention`."""

    def build_attention_function(
        self, attention: AttentionFunctionConfig, site: AttentionModuleId
    ) -> AttentionFunction:
        """Replace the attention function of the decoder's self-attention."""
        usual = super().build_attention_function(attention, site)
        if site.stack == "encoder" or site.kind == "cross":
            return usual
        assert isinstance(usual, DotProductAttention)
        return KeepMaskAttention(usual.scale, usual.dropout)


def build_keep_mask_model(config: ModelConfig) -> Transformer:
    """Build a model with the inverted mask."""
    return KeepMaskBuilder(config).build_transformer()


CAUSAL_TRAINING = TrainingSpec("reverse", updates=200)


# 2.4 is the loss of a model that guesses; 0.1 is a learned task. Without seeing the source's digits
# in order, hardly a sentence of 12 digits is right by chance.
@experiment(
    47,
    Part(
        "triangle",
        holds_if(at_most("future_keep", 1e-6), at_least("future_added", 0.99)),
        holds(at_most("future_added", 1e-6)),
    ),
    Part(
        "noticed",
        false(at_most("wrong_loss", 0.1), at_most("wrong_exact", 0.1)),
        holds(at_least("wrong_loss", 1)),
        controls=[at_least("right_exact", 0.5)],
    ),
    trainings={
        "right": CAUSAL_TRAINING,
        "wrong": CAUSAL_TRAINING.replace(build=build_keep_mask_model),
    },
    log=["wrong_loss", "right_loss"],
    figures=[
        Curves("training", "update", ["right", "wrong"], "loss", y_scale="log"),
        Heatmaps("weights", ["keep_TS", "added_TS"], [str(i) for i in range(1, 7)]),
    ],
)
def triangle_of_ones(context: Context) -> Numbers:
    """Use a lower triangle of ones as the keys to keep, and as the keys to hide."""
    scores_BTS, keep_TS = context.normal("scores", 500, 6, 6), lower_triangle(6, 6)
    keep_BTS, added_BTS = masked_softmax(scores_BTS, keep_TS == 0), add_mask(scores_BTS, keep_TS)
    right, wrong = context.trained["right"], context.trained["wrong"]
    longest = [pair for pair in REVERSE.load_pairs("test") if len(pair[0]) == 12]  # no padding
    return {
        "future_keep": float(keep_BTS[:, :5].triu(1).sum(dim=-1).mean()),
        "future_added": float(added_BTS[:, :5].triu(1).sum(dim=-1).mean()),
        "right_loss": loss_of(right.model, longest),
        "wrong_loss": loss_of(wrong.model, longest),
        "right_exact": right.exact_match,
        "wrong_exact": wrong.exact_match,
        "update": list(range(10, 10 * len(right.smoothed_losses()) + 1, 10)),
        "right": right.smoothed_losses(),
        "wrong": wrong.smoothed_losses(),
        "keep_TS": keep_BTS[0],
        "added_TS": added_BTS[0],
    }


# Five tokens, two of them padding: with padding on the left, two rows are fully masked. There the
# sum hides a key twice and another once; the model's weights are 0.
@experiment(
    48,
    Part("right", holds(at_most("right", 1e-6)), false(at_least("right", 1e-3))),
    Part(
        "left",
        false(at_least("left", 0.1), at_least("left_future", 0.5)),
        holds(at_most("left", 1e-6)),
    ),
    Part("half", false(at_least("nan_share", 0.99)), holds(at_most("nan_share", 0))),
    figures=[Heatmaps("grids", ["sum_TS", "or_TS"], [str(i) for i in range(1, 6)])],
)
def sum_of_masks(context: Context) -> Numbers:
    """Compare the sum of both masks with the model's mask, with padding on either side."""
    scores_BTS = context.normal("scores", 500, 5, 5)
    later_TS = CAUSAL_MASK.to_tensor(5, 5, CPU)
    assert later_TS is not None
    found: dict[str, tuple[Tensor, Tensor]] = {}
    for side, first in (("right", 3), ("left", 0)):
        padding_S = torch.zeros(5, dtype=torch.bool)
        padding_S[first : first + 2] = True
        mask = (build_padded_key_mask(padding_S[None]) | CAUSAL_MASK).to_tensor(5, 5, CPU)
        weights_BTS = masked_softmax(scores_BTS[None], mask)[0]
        found[side] = add_mask(scores_BTS, later_TS.float() + padding_S.float()), weights_BTS
    mask_TS = later_TS.half()
    half_BTS = scores_BTS.half() + mask_TS * torch.tensor(-1e9).half()
    sum_BTS, or_BTS = found["left"]
    return {
        "right": max_abs_diff(*found["right"]),
        "left": max_abs_diff(sum_BTS, or_BTS),
        "left_future": float(sum_BTS[:, 0, 2:].sum(dim=-1).mean()),
        "nan_share": float(half_BTS[:, ~later_TS].isnan().double().mean()),
        "sum_TS": sum_BTS[0],
        "or_TS": or_BTS[0],
    }


# Bits either change or not; an initial model changes by about 1 where tokens change.
@experiment(
    49,
    Part(
        "past",
        holds(at_most("earlier_changed", 0), at_least("later_change", 0.1)),
        false(at_least("earlier_changed", 1)),
    ),
    Part(
        "encoder",
        holds(at_least("encoder_change", 1e-3)),
        false(at_most("encoder_change", 0)),
    ),
    Part("infinity", holds(at_most("infinity", 1e-6)), false(at_least("infinity", 1e-3))),
)
def causal_mask(context: Context) -> Numbers:
    """Change the second half of targets and count the outputs of the first half that change."""
    model, rng = new_model(context), context.rng("ids")
    source_BS, target_BT = torch.randint(4, 14, (2, 50, 12), generator=rng)
    other_BT = torch.where(torch.arange(12) < 6, target_BT, (target_BT - 3) % 10 + 4)
    one, other = (_decoder_states(model, source_BS, ids) for ids in (target_BT, other_BT))
    with torch.no_grad():
        encoded, changed = (model.encode(ids).states_BSM for ids in (target_BT, other_BT))
    scores_BTS, later_TS = context.normal("scores", 500, 12, 12), CAUSAL_MASK.to_tensor(12, 12, CPU)
    assert later_TS is not None
    infinity_BTS = scores_BTS.masked_fill(later_TS, -torch.inf).softmax(dim=-1)
    return {
        "earlier_changed": count_different(one[:, :6], other[:, :6]),
        "later_change": float((one - other)[:, 6:].abs().mean()),
        "encoder_change": float((encoded - changed)[:, :6].abs().mean()),
        "infinity": max_abs_diff(infinity_BTS, masked_softmax(scores_BTS, later_TS)),
    }


def _decoder_states(model: Transformer, source_BS: Tensor, target_BT: Tensor) -> Tensor:
    recorder: IntermediatesRecorder = record_model(model, source_BS, target_BT)
    return recorder.layers["decoder", 1]
