"""Item 38: residual connections."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import Tensor, nn

from seq2see.lab.old import pictures
from seq2see.lab.old.bench import DIGITS, Bench, Lesson, Make, batch_of, pairs
from seq2see.lab.old.expectation import at_least, at_most
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.loss import LossConfig
from seq2see.model import EncoderOutput, ModelBuilder, ModelConfig, Transformer
from seq2see.model.basic_modules import Residual, Sublayer
from seq2see.text import PAD_ID
from seq2see.training.objective import Objective

# B batch, S source tokens, N tokens in a row, M features of the model

DEEP = DIGITS.replace(encoder_layers=12, decoder_layers=12)


class NoResidual(Residual):
    """norm(sublayer(x)): a layer without the way past it."""

    def forward(self, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
        """Leave x out of the sum."""
        normalised_NM: Tensor = self.norm(self.dropout(sublayer(x_NM)))
        return normalised_NM


class NoResidualBuilder(ModelBuilder):
    """Makes a Transformer without residual connections."""

    def build_residual(self) -> Residual:
        """Take the norm and dropout of the usual one."""
        usual = super().build_residual()
        return NoResidual(usual.norm, usual.dropout)


def without_residual(config: ModelConfig) -> Transformer:
    """Make the whole."""
    return NoResidualBuilder(config).build_transformer()


@experiment(
    38,
    Text("Residual connections", "残差连接"),
    "S2 S3",
    Text(
        "There are residual connections because with many layers gradients vanish or explode.",
        "加入残差模块的动机：transformer 堆叠了很多层，容易梯度消失或者梯度爆炸。",
    ),
    Text(
        "Without them the gradient vanishes in the decoder, whose lower layers reach the output "
        "through queries alone. In the encoder the norms keep it alive at 12 layers: there the "
        "loss is another one, tokens grow alike. Residuals without norms explode.",
        "没有残差，解码器的梯度会消失，因为其下层只能经由查询影响输出。编码器里归一化使梯度"
        "在 12 层时仍不消失：那里的损害是另一种，各个词变得彼此相同。有残差而无归一化，则会爆炸。",
    ),
    trains=True,
)
def residual_connections(bench: Bench) -> Finding:
    """Look at gradients and tokens of deep models before training, and train shallow ones."""
    usual, bare = Transformer.from_config, DEEP.replace(norm={"kind": "none"})
    complete = [_first_gradients(usual, DEEP, seed) for seed in bench.seeds]
    cut = [_first_gradients(without_residual, DEEP, seed) for seed in bench.seeds]
    unnormed = [_first_gradients(usual, bare, seed) for seed in bench.seeds]
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "it is said of the decoder. Without residuals its lower layers get no gradient at "
            "all; the encoder's get theirs, yet its tokens become alike, which is as bad. And it "
            "is norms that keep residual sums from exploding: the two need each other.",
            "指解码器时成立：没有残差，它的下层完全得不到梯度；编码器的下层得到了，但各词趋于相同，一样糟。"
            "而防止残差和爆炸的是归一化：两者互相需要。",
        ),
        (
            *_lowest_over_highest(complete, cut),
            *_tokens_alike(complete, cut),
            _explosion(unnormed),
            *_trained(bench),
        ),
        (_by_layer(complete, cut),),
    )


@dataclass(frozen=True, slots=True)
class FirstGradients:
    """What a model does with one batch before training."""

    log_loss: float
    """log10 of the mean loss."""
    encoder: list[float]
    """The length of each layer's gradient, from the lowest."""
    decoder: list[float]
    difference: float
    """1 − the mean cosine of two tokens of a sentence, behind the encoder."""


def _first_gradients(make: Make, config: ModelConfig, seed: int) -> FirstGradients:
    torch.manual_seed(seed)
    model = make(config).train()
    batch = batch_of(pairs("reverse", "test")[:64])
    loss = Objective(model, LossConfig(label_smoothing=0.0), PAD_ID)(batch)
    (loss.total / loss.num_tokens).backward()
    with torch.no_grad():
        memory = model.encode(batch.source_BS)
    return FirstGradients(
        math.log10(float(loss.nll) / loss.num_tokens),
        [_length(layer) for layer in model.encoder.layers],
        [_length(layer) for layer in model.decoder.layers],
        _difference(memory),
    )


def _length(layer: nn.Module) -> float:
    lengths = [p.grad.norm() for p in layer.parameters() if p.grad is not None]
    return float(torch.stack(lengths).norm())


def _difference(memory: EncoderOutput) -> float:
    """Return 1 − the mean cosine between two tokens of the same sentence."""
    unit_BSM = nn.functional.normalize(memory.states_BSM.double(), dim=-1)
    real_BS = (~memory.padding_BS).double()
    pairs_BSS = real_BS.unsqueeze(2) * real_BS.unsqueeze(1) * (1 - torch.eye(real_BS.size(1)))
    return 1 - float((unit_BSM @ unit_BSM.mT * pairs_BSS).sum() / pairs_BSS.sum())


def _lowest_over_highest(
    complete: Sequence[FirstGradients], cut: Sequence[FirstGradients]
) -> list[Measurement]:
    return [
        Measurement.mean(
            Text(
                "decoder, gradient of layer 1 / layer 12, with",
                "解码器，第 1 层与第 12 层梯度之比，有残差",
            ),
            [g.decoder[0] / g.decoder[-1] for g in complete],
            at_least(1e-4),
        ),
        Measurement.mean(
            Text("the same, without", "同上，无残差"),
            [g.decoder[0] / g.decoder[-1] for g in cut],
            at_most(1e-12),
        ),
        Measurement.mean(
            Text("encoder, the same, with", "编码器，同上，有残差"),
            [g.encoder[0] / g.encoder[-1] for g in complete],
            at_least(0.05),
        ),
        Measurement.mean(
            Text("encoder, the same, without", "编码器，同上，无残差"),
            [g.encoder[0] / g.encoder[-1] for g in cut],
            at_least(0.02),
        ),
    ]


def _tokens_alike(
    complete: Sequence[FirstGradients], cut: Sequence[FirstGradients]
) -> list[Measurement]:
    return [
        Measurement.mean(
            Text(
                "1 − cosine of two tokens behind 12 layers, with", "12 层后两词的 1 − 余弦，有残差"
            ),
            [g.difference for g in complete],
            at_least(1e-5),
        ),
        Measurement.mean(
            Text("the same, without", "同上，无残差"), [g.difference for g in cut], at_most(1e-6)
        ),
    ]


def _explosion(unnormed: Sequence[FirstGradients]) -> Measurement:
    return Measurement.mean(
        Text(
            "residuals without norms: log10 of the loss before training",
            "有残差、无归一化：训练前损失的 log10",
        ),
        [g.log_loss for g in unnormed],
        at_least(2.0),
    )


def _trained(bench: Bench) -> list[Measurement]:
    lesson = Lesson(updates=200)
    complete = bench.learn_all(lesson)
    cut = bench.learn_all(replace(lesson, variant="no residual"), without_residual)
    return [
        Measurement.mean(
            Text("2 + 2 layers, 200 updates: loss with", "2 + 2 层、200 次更新：损失，有残差"),
            [each.nll for each in complete],
            at_most(1.0),
        ),
        Measurement.mean(
            Text("the same, without", "同上，无残差"), [each.nll for each in cut], at_least(1.2)
        ),
    ]


def _by_layer(complete: Sequence[FirstGradients], cut: Sequence[FirstGradients]) -> Figure:
    def mean(rows: Sequence[Sequence[float]]) -> list[float]:
        return [max(fmean(column), 1e-30) for column in zip(*rows, strict=True)]

    return pictures.curves(
        Text(
            "Gradient of each layer's weights before training, 12 + 12 layers; below 1e-30 it is 0",
            "训练前各层权重的梯度，12 + 12 层；低于 1e-30 即为 0",
        ),
        list(range(1, 13)),
        {
            Text("encoder, with", "编码器，有残差"): mean([g.encoder for g in complete]),
            Text("encoder, without", "编码器，无残差"): mean([g.encoder for g in cut]),
            Text("decoder, with", "解码器，有残差"): mean([g.decoder for g in complete]),
            Text("decoder, without", "解码器，无残差"): mean([g.decoder for g in cut]),
        },
        (Text("layer, 1 is the lowest", "层，1 为最低层"), Text("gradient", "梯度")),
        y_scale="log",
        marker="o",
    )
