"""Experiment 60: the figures of the notes, whose files are missing, drawn from loaded models."""

import re

import torch
from matplotlib.figure import Figure
from torch import Tensor

from seq2see.draw import BLUE
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
    near,
)
from seq2see.lab.diagrams import draw_head_widths, draw_stacks, draw_sublayers
from seq2see.lab.figures import Animation, DeclaredFigure, Drawing, FigureData, Heatmaps
from seq2see.lab.models import max_abs_diff, record_model
from seq2see.lab.runner import Result, load_experiment
from seq2see.lab.texts import load_all_texts
from seq2see.lab.training import FIRST_DIGIT_ID, REVERSE, to_batch
from seq2see.model import (
    AttentionModuleId,
    ModelConfig,
    Transformer,
    compute_sinusoids,
    count_parameters,
)
from seq2see.model.layers import EncoderLayer
from seq2see.text import EOS_ID

# H heads, T target tokens, S source tokens, D features of a head, M features of the model

DIGITS = ["3", "1", "4", "1", "5", "9"]
SOURCE, OUTPUT = [*DIGITS, "</s>"], [*DIGITS[::-1], "</s>"]
PAIR = ([FIRST_DIGIT_ID + int(d) for d in DIGITS], [FIRST_DIGIT_ID + int(d) for d in DIGITS[::-1]])
SENTENCE = "The animal didn't cross the street because it was too tired."
FIGURES_OF_LINKS: dict[int, dict[str, str]] = {
    60: {
        "stacks": "transformer tf1 ed ed2 res3",
        "sublayers": "ed3 ed4 res1",
        "path": "vec2 encoding1 res2",
        "input": "vec1 tf-attention1 position_encoding",
        "four": "position_encoding2",
        "halves": "position_encoding3",
        "interleaved": "position_encoding4",
        "head": "self-attention2 self-attention4 self-attention5 self-attention6 self-attention7 "
        "self-attention8 tf-attention4 tf-attention5",
        "head_widths": "self-attention3",
        "heads": "m-attention1 m-attention2 m-attention3 m-attention4",
        "it": "self-attention1 m-attention5 m-attention6",
        "output": "linear_softmax",
        "steps": "decoder",
    },
    1: {"growth": "202407172129809 202407172129682 202407172130492"},
    4: {"curve": "WEBRESOURCE48b5ffd69370097792369ba490fca743image"},
    6: {"matrices": "202407172129351 202407172129465 202407172129530 202407172129487 "
        "202407172129219 202407172129023"},
    20: {"graphs": "tf-attention2 tf-attention3"},
    24: {"weights": "tf-attention6"},
    56: {"distributions": "word word2 loss2 loss3", "merci": "loss1"},
}  # fmt: skip
"""For each experiment and figure, the names of the links that it replaces."""


def find_links() -> list[str]:
    """Return the names of the figures that the notes link to, without folder and suffix."""
    sources = load_all_texts()[60].sources
    links = re.findall(r"!\[.*?\]\((.*?)\)", "\n".join(sources.values()))
    return [link.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0] for link in links]


def _draw_it(figure: Figure, data: FigureData) -> None:
    axes, weights = figure.subplots(), data.array("it_weights")
    image = axes.imshow(weights, cmap="Blues", aspect="auto", vmin=0)
    pieces = data.array("pieces")
    axes.set_xticks(range(len(pieces)), pieces, rotation=90)
    axes.set_yticks(range(len(weights)), data.array("it_heads"))
    figure.colorbar(image, ax=axes)


def _draw_step(figure: Figure, data: FigureData, index: int) -> None:
    """Draw attention to the source and the probabilities of the next token at a step."""
    figure.suptitle("<s> " + " ".join(OUTPUT[:index]))
    attention, words = (data.array(name)[index] for name in ("attention", "words"))
    shown = {
        "attention": (SOURCE, attention),
        "words": ([*map(str, range(10)), "</s>"], [*words[FIRST_DIGIT_ID:], words[EOS_ID]]),
    }
    for place, (name, (labels, values)) in enumerate(shown.items(), 1):
        axes = figure.add_subplot(1, 2, place)
        axes.bar(range(len(values)), values, color=BLUE)
        axes.set_xticks(range(len(labels)), labels)
        axes.set(ylim=(0, 1), title=data.label(name))


PARTS = ["x", "z", "sum", "norm", "ffn", "output_x"]
HEAD = ["X", "Q", "K", "V", "QKᵀ/√d", "softmax", "Z"]
SIGNED = {"colors": "RdBu", "numbers": False}
DRAWN: list[DeclaredFigure] = [
    Drawing("stacks", draw_stacks, height=5.2),
    Drawing("sublayers", draw_sublayers, height=4.4),
    Heatmaps("path", PARTS, rows=SOURCE, columns=3, **SIGNED),  # type: ignore[arg-type]
    Heatmaps("input", ["embedding", "position", "x"], rows=SOURCE, **SIGNED),  # type: ignore[arg-type]
    Heatmaps("four", ["four_positions"], ["1", "2", "3", "4"], limits=(-1, 1), colors="RdBu"),
    Heatmaps("halves", ["positions_halves"], cell_size=4.5, **SIGNED),  # type: ignore[arg-type]
    Heatmaps("interleaved", ["positions_paper"], cell_size=4.5, **SIGNED),  # type: ignore[arg-type]
    Heatmaps("head", HEAD, **SIGNED),  # type: ignore[arg-type]
    Drawing("head_widths", draw_head_widths),
    Heatmaps(
        "heads",
        [f"{name} {h}" for name in ("W^Q", "Z") for h in range(1, 5)] + ["concat", "W^O", "result"],
        **SIGNED,  # type: ignore[arg-type]
    ),
    Drawing("it", _draw_it, height=5),
    Heatmaps("output", ["state", "logits", "probabilities"], columns=1, **SIGNED),  # type: ignore[arg-type]
    Animation("steps", _draw_step, len(OUTPUT)),
]


# The matrices of the figures follow from one another up to rounding in float32.
@experiment(
    60,
    Part(
        "redrawn",
        holds(near("links", 54, 0), at_most("missing", 0), at_most("empty", 0)),
        false(at_least("missing", 1)),
    ),
    Part(
        "consistent",
        holds(at_most("head_error", 1e-4), at_most("heads_error", 1e-4)),
        false(at_least("head_error", 1e-2)),
    ),
    trainings={"reverse": REVERSE},
    needs_translator=True,
    figures=DRAWN,
)
@torch.no_grad()
def figures_of_the_notes(context: Context) -> Numbers:
    """Draw all figures and look for a figure for each link."""
    model = context.trained["reverse"].model
    tensors: dict[str, Tensor] = {
        **_encoder_arrays(model),
        **_output_arrays(model),
        "four_positions": compute_sinusoids(torch.arange(4), 4),
        "positions_halves": compute_sinusoids(torch.arange(20), 512, "halves", "tensor2tensor"),
        "positions_paper": compute_sinusoids(torch.arange(20), 512),
    }
    arrays: dict[str, object] = {key: tensor.tolist() for key, tensor in tensors.items()}
    arrays |= {**_base_sizes(), **_it_arrays(context)}
    result = Result(load_all_texts()[60], (context.seed,), 0.0, arrays=(arrays,))
    svgs = [each.render(result, "en") for each in DRAWN]
    captions = {(60, each.caption) for each in DRAWN} | {
        (number, each.caption)
        for number in FIGURES_OF_LINKS
        if number != 60
        for each in load_experiment(number).figures
    }
    figure_of = {
        link: (number, caption)
        for number, captions_of in FIGURES_OF_LINKS.items()
        for caption, links in captions_of.items()
        for link in links.split()
    }
    links, weights = find_links(), tensors["softmax"]
    head = tensors["QKᵀ/√d"].softmax(dim=-1) - weights, weights @ tensors["V"] - tensors["Z"]
    result_SM = tensors["concat"] @ tensors["W^O"].T + tensors["bias"]
    return {
        **arrays,
        "links": len(links),
        "missing": sum(figure_of.get(link) not in captions for link in links),
        "empty": sum("<path" not in svg and "<image" not in svg for svg in svgs),
        "head_error": max(float(difference.abs().max()) for difference in head),
        "heads_error": max_abs_diff(result_SM, tensors["result"]),
    }


def _base_sizes() -> dict[str, object]:
    with torch.device("meta"):
        model = Transformer.from_config(ModelConfig.from_preset("base", vocab_size=37_000))
    stacks = {"encoder": [*model.encoder.layers], "decoder": [*model.decoder.layers]}
    sizes = {name: [count_parameters(each) for each in layers] for name, layers in stacks.items()}
    attention = model.decoder.layers[0].attention
    return {
        "layer_parameters": sizes,
        "widths": [model.output.tokens.weight_VM.size(1), attention.heads],
    }


def _encoder_arrays(model: Transformer) -> dict[str, Tensor]:
    """Return the vectors of the first encoder layer, and the steps of its attention."""
    layer, embeddings = model.encoder.layers[0], model.encoder.embeddings
    assert isinstance(layer, EncoderLayer)
    outputs: dict[str, tuple[Tensor, Tensor]] = {}
    modules: dict[str, torch.nn.Module] = {
        "z": layer.attention, "norm": layer.attention_residual, "ffn": layer.feed_forward,
        "output_x": layer, "concat": layer.attention.output,
    }  # fmt: skip
    hooks = [
        module.register_forward_hook(
            lambda _, inputs, output, name=name: outputs.update({name: (inputs[0], output)})
        )
        for name, module in modules.items()
    ]
    source_BS = to_batch([PAIR]).source_BS
    record = record_model(model, source_BS).encoder()[0]
    for hook in hooks:
        hook.remove()
    x_SM, tokens_SM = embeddings(source_BS)[0], embeddings.tokens(source_BS)[0] * embeddings.factor
    z_SM = outputs["z"][1][0]
    q_SD, k_SD, v_SD = (
        x[0, 0] for x in (record.queries_BHTD, record.keys_BHSD, record.values_BHSD)
    )
    weights_SS = record.weights_BHTS[0, 0]
    concat_SM, matrices = outputs["concat"][0], layer.attention.qkv.weight.chunk(3)[0].chunk(4)
    bias = layer.attention.output.bias
    heads_HSD = concat_SM.chunk(4, dim=-1)
    return {
        "embedding": tokens_SM, "position": x_SM - tokens_SM, "x": x_SM,
        "z": z_SM, "sum": x_SM + z_SM, "norm": outputs["norm"][1], "ffn": outputs["ffn"][1],
        "output_x": outputs["output_x"][1],
        "X": x_SM, "Q": q_SD, "K": k_SD, "V": v_SD, "QKᵀ/√d": record.scores_BHTS[0, 0],
        "softmax": weights_SS, "Z": heads_HSD[0],
        **{f"W^Q {h}": matrix.T for h, matrix in enumerate(matrices, 1)},
        **{f"Z {h}": z_SD for h, z_SD in enumerate(heads_HSD, 1)},
        "concat": concat_SM, "W^O": layer.attention.output.weight, "bias": bias, "result": z_SM,
    }  # fmt: skip


def _output_arrays(model: Transformer) -> dict[str, Tensor]:
    """Return the first output vector with logits and probabilities, and all decoding steps."""
    batch = to_batch([PAIR])
    record = record_model(model, batch.source_BS, batch.decoder_input_BT)
    states_TM = model.decode(batch.decoder_input_BT, model.encode(batch.source_BS))[0]
    log_probs_TV = model.output.log_probabilities(states_TM)
    cross = record.attention[AttentionModuleId("decoder", 1, "cross")]
    return {
        "state": states_TM[:1],
        "logits": model.output(states_TM)[:1],
        "probabilities": log_probs_TV[:1].exp(),
        "words": log_probs_TV.exp(),
        "attention": cross.weights_BHTS[0].mean(dim=0),
    }


def _it_arrays(context: Context) -> dict[str, object]:
    """Return the attention from "it" in all heads of the translator's encoder."""
    bundle = context.translator
    ids = bundle.tokenizers.source.encode(SENTENCE)
    pieces = [bundle.tokenizers.source.pieces[i].replace("▁", "") for i in ids]
    records = record_model(bundle.build_model().eval(), add_special_tokens_and_pad([ids])).encoder()
    rows = torch.cat([record.weights_BHTS[0, :, pieces.index("it")] for record in records])
    heads = records[0].weights_BHTS.size(1)
    names = [f"{layer + 1}.{head + 1}" for layer in range(len(records)) for head in range(heads)]
    return {"it_weights": rows, "pieces": [*pieces, "</s>"], "it_heads": names}
