"""Item 30: what attention knows of order when nobody tells it."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.lab.old.bench import DIGITS, Bench
from seq2see.lab.old.closeness import apart
from seq2see.lab.old.expectation import at_least, at_most
from seq2see.lab.old.experiment import Finding, Measurement, Text, Verdict, experiment
from seq2see.model import DotProductAttention, ModelConfig, Transformer
from seq2see.model.basic_modules import Dropout

SOURCE = torch.tensor([[4, 5, 6, 7, 8, 9, 10, 11]])
SHUFFLED = torch.tensor([5, 2, 7, 0, 3, 6, 1, 4])
TARGET = torch.tensor([[2, 4, 5, 6, 7]])
SWAPPED = torch.tensor([[2, 5, 4, 6, 7]])
BLIND = DIGITS.replace(positions={"kind": "none"})


@experiment(
    30,
    Text("Order, when nobody tells it", "不告诉模型顺序时"),
    "S3",
    Text(
        "Shuffle the rows of K and V together and attention gives the same: it cannot see order, "
        "so positions must be put in.",
        "将 K、V 按行打乱，Attention 之后的结果是一样的；模型看不到顺序，所以要加入位置编码。",
    ),
    Text(
        "Attention is the same to rounding; an encoder without positions permutes with its input. "
        "A causal decoder is another matter: from two layers on, the mask itself tells order.",
        "注意力结果只差舍入误差；没有位置编码的编码器对输入置换等变。"
        "因果解码器则不同：从两层起，掩码本身就泄露了顺序。",
    ),
)
def order(bench: Bench) -> Finding:
    """Shuffle keys and values, sources, and the tokens before a target."""
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "it is said of attention and of the encoder. The decoder is not blind: with a causal "
            "mask and two layers the swap of two earlier tokens changes what comes after them.",
            "只对注意力和编码器成立。解码器并不“盲”：有因果掩码且不少于两层时，"
            "交换前面的两个词会改变其后的输出。",
        ),
        (*_attention(bench), *_encoders(), *_decoders()),
    )


def _attention(bench: Bench) -> list[Measurement]:
    generator = bench.generator()
    queries, keys, values = torch.randn(3, 1, 4, 8, 16, generator=generator, dtype=torch.float64)
    attention = DotProductAttention(0.25, Dropout(0.0))
    plain = attention(queries, keys, values)
    keys_shuffled = keys[:, :, SHUFFLED]
    both = attention(queries, keys_shuffled, values[:, :, SHUFFLED])
    keys_only = attention(queries, keys_shuffled, values)
    return [
        Measurement(
            Text("change of the output, K and V shuffled together", "K、V 一起打乱，输出的变化"),
            apart(both, plain),
            at_most(1e-12),
        ),
        Measurement(
            Text("the same, K alone shuffled", "只打乱 K，输出的变化"),
            apart(keys_only, plain),
            at_least(0.1),
        ),
    ]


def _encoders() -> list[Measurement]:
    return [
        Measurement(
            Text(
                "encoder without positions: |f(shuffled x) − shuffled f(x)|",
                "无位置编码的编码器：|f(打乱的 x) − 打乱的 f(x)|",
            ),
            _shuffle_gap(BLIND),
            at_most(1e-12),
        ),
        Measurement(
            Text("the same with sinusoids", "同上，加正弦位置编码"),
            _shuffle_gap(DIGITS),
            at_least(0.1),
        ),
    ]


def _decoders() -> list[Measurement]:
    return [
        Measurement(
            Text(
                "decoder without positions, 1 layer: change of the last state, two tokens swapped",
                "无位置编码的 1 层解码器：交换两个前文词，末位状态的变化",
            ),
            _swap_gap(layers=1),
            at_most(1e-12),
        ),
        Measurement(Text("the same, 2 layers", "同上，2 层"), _swap_gap(layers=2), at_least(1e-3)),
    ]


def _model(config: ModelConfig) -> Transformer:
    torch.manual_seed(1)
    return Transformer.from_config(config).double().eval()


@torch.no_grad()
def _shuffle_gap(config: ModelConfig) -> float:
    model = _model(config)
    before, after = (model.encode(ids).states_BSM for ids in (SOURCE, SOURCE[:, SHUFFLED]))
    return apart(after, before[:, SHUFFLED])


@torch.no_grad()
def _swap_gap(layers: int) -> float:
    model = _model(BLIND.replace(decoder_layers=layers))

    def last(target_BT: Tensor) -> Tensor:
        return model.decode(target_BT, model.encode(SOURCE))[:, -1]

    return apart(last(TARGET), last(SWAPPED))
