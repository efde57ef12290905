"""Experiment 28: what several heads are good for."""

from __future__ import annotations

from statistics import fmean

import torch
from torch import Tensor

from seq2see.lab.old.bench import DIGITS, Bench, Learned, Lesson, batch_of, pairs, untrained
from seq2see.lab.old.ear import Ear, encoder_heads, silenced
from seq2see.lab.old.expectation import at_least, at_most, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import bars
from seq2see.loss import LossConfig
from seq2see.model import Transformer
from seq2see.model.attention import MultiHeadAttention
from seq2see.text import PAD_ID
from seq2see.training.objective import Objective

# B batch, H heads, T queries, S keys

NUMBERS = (1, 4, 8)


@experiment(
    number=28,
    title=Text("Why several heads?", "为什么要多个头？"),
    notes="S1 S3",
    claim=Text(
        "Several heads learn in different subspaces and catch richer features, like an ensemble; "
        "one head would be worse.",
        "多头允许模型在不同的表示子空间里学习，捕捉更丰富的特征，类似集成；只用一个头会更差。",
    ),
    prediction=Text(
        "If the claim is right, 8 heads have a lower loss than 1 at equal size, heads differ from "
        "each other more behind training than at its start, and removing one hurts.",
        "若该说法正确：同等规模下 8 个头的损失应低于 1 个头，训练后头与头之间的差异应比初始时更大，"
        "去掉一个头会有损害。",
    ),
    trains=True,
)
def several_heads(bench: Bench) -> Finding:
    """Learn with 1, 4 and 8 heads; remove each head; compare what heads look at."""
    learned = {n: bench.learn_all(_lesson(n)) for n in NUMBERS}
    added = [_added_without_each(each) for each in learned[4]]
    return Finding(
        Verdict.OPEN,
        Text(
            "A null result. On this task one head does about as well as four or eight at equal "
            "size, or better. Heads look at different places, but they do so before training as "
            "much, so that is no sign of subspaces that were learned. None of them is idle: to "
            "remove any one costs. A task that needs several relations at once might decide it.",
            "零结果。在这个任务上，同等规模时一个头与四个、八个头差不多一样好，甚至更好。"
            "各个头确实关注不同位置，但训练之前就已同样如此，并不能说明学到了不同的子空间。"
            "没有一个头是闲置的：去掉任何一个都有代价。"
            "需要同时利用多种关系的任务或许能给出定论。",
        ),
        (
            *_by_number({n: [each.nll for each in found] for n, found in learned.items()}),
            *_removed(added),
            *_between_heads(
                [diversity(untrained(seed)) for seed in bench.seeds],
                [diversity(each.model) for each in learned[4]],
            ),
        ),
        (_by_head(added[0]),),
    )


def _by_number(losses: dict[int, list[float]]) -> list[Measurement]:
    one, *several = (fmean(losses[n]) for n in NUMBERS)
    return [
        *(
            Measurement.mean(
                Text(f"held-out loss, {n} heads", f"验证损失，{n} 个头"), losses[n], at_most(1.5)
            )
            for n in NUMBERS
        ),
        Measurement(
            Text("loss, 1 head over the best of several", "损失之比，一个头与最佳的多个头"),
            one / min(several),
            at_most(1.5),
        ),
    ]


def _removed(added: list[dict[Text, float]]) -> list[Measurement]:
    return [
        Measurement.mean(
            Text("loss added without the head that matters most", "去掉最重要的头所增加的损失"),
            [max(found.values()) for found in added],
            at_least(0.05),
        ),
        Measurement.mean(
            Text(
                "share of heads that add less than 0.01 when removed",
                "去掉后损失增加不足 0.01 的头的比例",
            ),
            [sum(loss < 0.01 for loss in found.values()) / len(found) for found in added],
            equal(0),
        ),
    ]


def _between_heads(start: list[float], trained: list[float]) -> list[Measurement]:
    return [
        Measurement.mean(
            Text("distance between heads' weights, at the start", "各头权重之间的距离，初始"), start
        ),
        Measurement.mean(
            Text("distance between heads' weights, trained", "各头权重之间的距离，训练后"), trained
        ),
        Measurement(
            Text("… trained over at the start", "……训练后与初始之比"),
            fmean(trained) / fmean(start),
            near(1, 0.2),
        ),
    ]


def _by_head(added: dict[Text, float]) -> Figure:
    return bars(
        Text(
            "The loss that is added by removing a head, model of seed 1, four heads in each place.",
            "去掉一个头所增加的损失，种子 1 的模型，每处四个头。",
        ),
        added,
        Text("loss added", "增加的损失"),
    )


def _lesson(heads: int) -> Lesson:
    return Lesson() if heads == DIGITS.heads else Lesson().with_model(heads=heads)


def _added_without_each(learned: Learned) -> dict[Text, float]:
    """Return what is added to the loss of the same pairs with each head switched off."""
    added, whole = {}, _nll(learned.model)
    for name, place in _places(learned.model).items():
        for head in range(place.heads):
            with silenced(place, head):
                label = Text(f"{name.en}, head {head + 1}", f"{name.zh}，头 {head + 1}")
                added[label] = _nll(learned.model) - whole
    return added


def _places(model: Transformer) -> dict[Text, MultiHeadAttention]:
    places: dict[Text, MultiHeadAttention] = {}
    for i, heads in enumerate(encoder_heads(model), 1):
        places[Text(f"encoder {i}", f"编码器 {i}")] = heads
    for i, decoder in enumerate(model.decoder.layers, 1):
        places[Text(f"decoder {i}, self", f"解码器 {i}，自注意力")] = decoder.attention
        places[Text(f"decoder {i}, cross", f"解码器 {i}，交叉")] = decoder.cross_attention
    return places


@torch.no_grad()
def _nll(model: Transformer) -> float:
    objective = Objective(model, LossConfig(label_smoothing=0.0), PAD_ID).eval()
    loss = objective(batch_of(pairs("reverse", "test")[:400]))
    return float(loss.nll) / int(loss.num_tokens)


@torch.no_grad()
def diversity(model: Transformer) -> float:
    """Return the mean total variation between the weights of two heads in the same place."""
    batch = batch_of([pair for pair in pairs("reverse", "test") if len(pair[0]) == 12])
    ear = Ear()
    model(batch.source_BS, batch.decoder_input_BT, ear)
    return fmean(_distance(record.weights_BHTS) for record in ear.attention.values())


def _distance(weights_BHTS: Tensor) -> float:
    heads = weights_BHTS.size(1)
    distances = [
        (weights_BHTS[:, i] - weights_BHTS[:, j]).abs().sum(dim=-1).mean() / 2
        for i in range(heads)
        for j in range(i)
    ]
    return float(torch.stack(distances).mean())
