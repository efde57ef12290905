"""Item 58: a sentence at once, or word by word."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from seq2see.lab.old import pictures
from seq2see.lab.old.bench import Bench
from seq2see.lab.old.closeness import apart
from seq2see.lab.old.expectation import at_least, at_most
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.timing import seconds
from seq2see.model import ModelConfig, Transformer

# B batch, S source tokens, T target tokens, V vocabulary

LENGTHS = (8, 16, 32, 64)
Way = Callable[[Transformer, Tensor, Tensor], Tensor]


@experiment(
    58,
    Text("Training is parallel, decoding serial", "训练并行，解码串行"),
    "S2",
    Text(
        "In training encoder and decoder are parallel over positions, thanks to the mask; when "
        "decoding the decoder is serial.",
        "在训练阶段，Encoder 和 Decoder 在时间维度都是并行的（靠掩码）；"
        "在测试阶段，Decoder 是串行的。",
    ),
    Text(
        "One pass over the known target gives the same logits as one step a word with a cache, to "
        "rounding, and is several times as fast: a step has little work and waits for the one "
        "before it.",
        "对已知目标一次前向与带缓存逐词计算得到同样的 logits（只差舍入），且快数倍："
        "一步的计算很少，却必须等前一步。",
    ),
)
def at_once_or_step_by_step(bench: Bench) -> Finding:
    """Compare logits in double precision, and times in single."""
    torch.manual_seed(1)
    model = Transformer.from_config(ModelConfig.from_preset("tiny", vocab_size=1000)).eval()
    ids = torch.randint(4, 1000, (2, 8, LENGTHS[-1]), generator=bench.generator())
    source_BS, target_BT = ids
    single = apart(_stepwise(model, source_BS, target_BT), _at_once(model, source_BS, target_BT))
    at_once = _times(_at_once, model, source_BS, target_BT)
    stepwise = _times(_stepwise, model, source_BS, target_BT)
    exact = model.double()
    double = apart(_stepwise(exact, source_BS, target_BT), _at_once(exact, source_BS, target_BT))
    return Finding(
        Verdict.HOLDS,
        Text(
            "they are the same function, computed in two orders. The mask is what makes the "
            "parallel one honest (item 47 shows it without).",
            "它们是同一个函数的两种计算次序。并行之所以诚实，靠的是掩码（第 47 项展示了反例）。",
        ),
        (*_logits(double, single), *_speed(at_once, stepwise)),
        (_by_length(at_once, stepwise),),
    )


def _logits(double: float, single: float) -> list[Measurement]:
    return [
        Measurement(
            Text(
                "logits at once against stepwise, 64 words, double",
                "64 词，双精度：两者 logits 之差",
            ),
            double,
            at_most(1e-10),
        ),
        Measurement(Text("the same in single precision", "同上，单精度"), single, at_most(1e-3)),
    ]


def _speed(at_once: list[float], stepwise: list[float]) -> list[Measurement]:
    return [
        Measurement(
            Text("64 words: time stepwise / at once", "64 词：逐词与一次的用时之比"),
            stepwise[-1] / at_once[-1],
            at_least(1.5),
        ),
        Measurement(
            Text("8 words: time stepwise / at once", "8 词：逐词与一次的用时之比"),
            stepwise[0] / at_once[0],
        ),
    ]


def _by_length(at_once: list[float], stepwise: list[float]) -> Figure:
    return pictures.curves(
        Text(
            "Time for 8 sentences, 4 + 4 layers, against their length",
            "8 个句子（4 + 4 层）的用时与长度",
        ),
        LENGTHS,
        {
            Text("at once (teacher forcing)", "一次（教师强制）"): at_once,
            Text("word by word, with a cache", "逐词，带缓存"): stepwise,
        },
        (Text("words", "词数"), Text("seconds", "秒")),
        marker="o",
    )


def _times(way: Way, model: Transformer, source_BS: Tensor, target_BT: Tensor) -> list[float]:
    """Return the time for the first words of each sentence, for each of the lengths."""
    starts = [(source_BS[:, :length], target_BT[:, :length]) for length in LENGTHS]
    return [seconds(partial(way, model, *start), 3) for start in starts]


@torch.inference_mode()
def _at_once(model: Transformer, source_BS: Tensor, target_BT: Tensor) -> Tensor:
    logits_BTV: Tensor = model(source_BS, target_BT)
    return logits_BTV


@torch.inference_mode()
def _stepwise(model: Transformer, source_BS: Tensor, target_BT: Tensor) -> Tensor:
    cache = model.init_cache(model.encode(source_BS))
    steps = [model.output(model.step(word_B1, cache)) for word_B1 in target_BT.split(1, dim=1)]
    return torch.cat(steps, dim=1)
