"""Items 47 and 49: the future, shown by a mask the wrong way round and hidden by the right one."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import torch
from torch import Tensor

from seq2see.lab.old import pictures
from seq2see.lab.old.bench import Bench, Learned, Lesson, batch_of, pairs, untrained
from seq2see.lab.old.closeness import apart, differing
from seq2see.lab.old.expectation import at_least, at_most, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.loss import LossConfig, LossSum
from seq2see.model import (
    CAUSAL_MASK,
    AttentionFunction,
    AttentionFunctionConfig,
    AttentionListener,
    AttentionModuleId,
    DotProductAttention,
    ModelBuilder,
    ModelConfig,
    Transformer,
    masked_softmax,
)
from seq2see.model.attention import AttentionInputs
from seq2see.text import PAD_ID
from seq2see.training.objective import Objective

# B batch, H heads, T queries or target tokens, S keys

UPDATES = 200


class KeepMaskAttention(DotProductAttention):
    """The notes' mistake: 1 where a query *may* look, fed to `scores + mask · −1e9`."""

    def fused_forward(self, inputs: AttentionInputs) -> Tensor:
        """Take the plain form always."""
        return self.plain_forward(inputs, None)

    def plain_forward(self, inputs: AttentionInputs, listener: AttentionListener | None) -> Tensor:  # noqa: ARG002
        """Hide what was meant to be kept."""
        queries_BHTD, keys_BHSD, values_BHSD, _ = inputs
        scores_BHTS = self.compute_scores(queries_BHTD, keys_BHSD)
        return self.weighted_sum(keep_mask_softmax(scores_BHTS), values_BHSD)


def keep_mask_softmax(scores_BHTS: Tensor) -> Tensor:
    """Add a large negative number on and below the diagonal; the last query is at the last key."""
    queries, keys = scores_BHTS.shape[-2:]
    keep_TS = torch.ones(queries, keys).tril(keys - queries)
    return (scores_BHTS + keep_TS * -1e9).softmax(dim=-1)


class KeepMaskBuilder(ModelBuilder):
    """Makes a Transformer whose decoder has the mask the wrong way round."""

    def build_attention_function(
        self, attention: AttentionFunctionConfig, site: AttentionModuleId
    ) -> AttentionFunction:
        """Change the decoder's self-attention alone."""
        usual = super().build_attention_function(attention, site)
        if site.stack == "encoder" or site.kind == "cross":
            return usual
        assert isinstance(usual, DotProductAttention)
        return KeepMaskAttention(usual.scale, usual.dropout)


def _wrong_way_round(config: ModelConfig) -> Transformer:
    return KeepMaskBuilder(config).build_transformer()


@experiment(
    47,
    Text("The mask the wrong way round", "方向相反的掩码"),
    "S3",
    Text(
        "The sequence mask is a lower triangle of ones, zeros above it; applied to each sequence "
        "(with the code's mask · −1e9) it hides the future.",
        "sequence mask 是下三角全为 1、上三角全为 0 的矩阵；把它作用在每一个序列上"
        "（代码里是 mask × −1e9）就能隐藏未来。",
    ),
    Text(
        "It hides past and present and shows the future alone. Teacher forcing then reads the "
        "answer off its own input: the loss falls to nothing, and decoding, which has no future "
        "to look at, fails.",
        "它遮住了过去和现在，只露出未来。教师强制时模型从自己的输入里读到答案：损失降到接近零，"
        "而解码时没有未来可看，于是失败。",
    ),
    trains=True,
)
def keep_mask(bench: Bench) -> Finding:
    """Train with either mask and compare the loss with what decoding gives."""
    lesson = Lesson(updates=UPDATES)
    right = bench.learn_all(lesson)
    wrong = bench.learn_all(replace(lesson, variant="keep-mask"), _wrong_way_round)
    scores_BHTS = torch.randn(1, 1, 6, 6, generator=bench.generator())
    wrong_TS = keep_mask_softmax(scores_BHTS)[0, 0]
    right_TS = masked_softmax(scores_BHTS, CAUSAL_MASK.to_tensor(6, 6, scores_BHTS.device))[0, 0]
    return Finding(
        Verdict.FALSE,
        Text(
            "a triangle of ones says what to keep, and mask · −1e9 hides where it is one. The "
            "loss looks better than the right model's, since it sees what it must predict; nothing "
            "but decoding reveals it.",
            "全 1 的下三角说的是“保留”，而 mask × −1e9 遮的正是 1 所在之处。"
            "损失看上去比正确的模型还好，因为它看得到要预测的词；只有解码才会暴露。",
        ),
        (
            Measurement(
                Text(
                    "weight on the future, queries 1 to 5 of 6",
                    "前 5 个查询（共 6 个）落在未来的权重",
                ),
                float(wrong_TS[:5].triu(1).sum() / 5),
                near(1.0, 1e-6),
            ),
            Measurement.mean(
                Text("wrong: last training loss", "错误掩码：末段训练损失"),
                [_last_loss(learned) for learned in wrong],
                at_most(0.1),
            ),
            Measurement.mean(
                Text("wrong: held-out loss, 12 digits", "错误掩码：留出集损失，12 个数字"),
                [_forced_loss(learned) for learned in wrong],
                at_most(0.1),
            ),
            Measurement.mean(
                Text("wrong: sentences decoded right", "错误掩码：解码正确的句子"),
                [learned.exact for learned in wrong],
                at_most(0.1),
            ),
            Measurement.mean(
                Text("right: last training loss", "正确掩码：末段训练损失"),
                [_last_loss(learned) for learned in right],
                at_least(fmean(map(_last_loss, wrong))),
            ),
            Measurement.mean(
                Text("right: sentences decoded right", "正确掩码：解码正确的句子"),
                [learned.exact for learned in right],
                at_least(0.5),
            ),
        ),
        (_losses(right, wrong), _weights(right_TS, wrong_TS)),
    )


def _last_loss(learned: Learned) -> float:
    return sum(learned.losses[-20:]) / 20


@torch.no_grad()
def _forced_loss(learned: Learned) -> float:
    """Return the loss of teacher forcing over held-out sources of equal length.

    Without padding, that is: the wrong mask shows it too, as a part of the future.
    """
    longest = [pair for pair in pairs("reverse", "test") if len(pair[0]) == 12]
    objective = Objective(learned.model, LossConfig(label_smoothing=0.0), PAD_ID).eval()
    loss: LossSum = objective(batch_of(longest))
    return float(loss.nll) / loss.num_tokens


def _losses(right: tuple[Learned, ...], wrong: tuple[Learned, ...]) -> Figure:
    def mean(learned: tuple[Learned, ...]) -> list[float]:
        return [sum(at) / len(at) for at in zip(*(each.losses for each in learned), strict=True)]

    return pictures.curves(
        Text(
            "Training loss: the wrong mask seems to learn faster, and cannot decode",
            "训练损失：错误的掩码看似学得更快，却不能解码",
        ),
        list(range(1, UPDATES + 1)),
        {
            Text("mask the wrong way round", "方向相反的掩码"): mean(wrong),
            Text("causal mask", "因果掩码"): mean(right),
        },
        (Text("update", "更新次数"), Text("loss", "损失")),
    )


def _weights(right_TS: Tensor, wrong_TS: Tensor) -> Figure:
    return pictures.grids(
        Text(
            "Attention of six queries: what was meant, and what the notes' mask gives. Its last "
            "row is hidden whole, so −1e9 makes it uniform",
            "六个查询的注意力：本意，以及笔记的掩码得到的。最后一行全被遮住，−1e9 使之均匀",
        ),
        {Text("meant", "本意"): right_TS.tolist(), Text("as written", "照写"): wrong_TS.tolist()},
        [str(position + 1) for position in range(6)],
        [str(position + 1) for position in range(6)],
        numbers=True,
        size=2.8,
    )


@experiment(
    49,
    Text("The future leaves the past alone", "未来不影响过去"),
    "S2",
    Text(
        "In the decoder a position may look at earlier ones only: later positions are masked with "
        "−inf before the softmax.",
        "解码器的 Self-Attention 只允许关注历史位置：在 softmax 前把未来位置设为 −inf。",
    ),
    Text(
        "Whatever stands later, the logits of earlier positions stay the same to the last bit. "
        "In the encoder every position feels the change.",
        "后面的词怎么变，前面位置的 logits 逐比特不变。编码器里则每个位置都会受影响。",
    ),
)
def causality(_: Bench) -> Finding:
    """Change the tokens behind a position and count what changes in front of it."""
    model = untrained()
    source_BS = torch.tensor([[4, 5, 6, 7, 8, 3]])
    target_BT = torch.tensor([[2, 8, 7, 6, 5, 4]])
    other_BT = torch.tensor([[2, 8, 7, 13, 12, 11]])
    with torch.no_grad():
        logits_BTV, others_BTV = model(source_BS, target_BT), model(source_BS, other_BT)
        states_BSM, changed_BSM = (model.encode(ids).states_BSM for ids in (target_BT, other_BT))
    return Finding(
        Verdict.HOLDS,
        Text(
            "not one bit of the earlier logits changes, in our model: the causal weights are "
            "exactly 0, and shapes do not depend on what stands later.",
            "在我们的模型里，前面的 logits 一个比特都不变：被遮处的权重恰为 0，"
            "张量形状也不依赖后面的内容。",
        ),
        (
            Measurement(
                Text("earlier logits that changed, of 42", "前面位置变化的 logits（共 42 个）"),
                differing(logits_BTV[:, :3], others_BTV[:, :3]),
                equal(0),
            ),
            Measurement(
                Text("change of the later logits", "后面位置 logits 的变化"),
                apart(logits_BTV[:, 3:], others_BTV[:, 3:]),
                at_least(0.1),
            ),
            Measurement(
                Text(
                    "the same tokens in the encoder: change of position 1", "编码器：位置 1 的变化"
                ),
                apart(states_BSM[:, 0], changed_BSM[:, 0]),
                at_least(1e-3),
            ),
        ),
    )
