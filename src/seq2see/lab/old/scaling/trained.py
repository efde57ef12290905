"""Experiments 10 to 12: the scale in models that learn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import Tensor

from seq2see.lab.old.bench import DIGITS, Bench, Learned, Lesson, batch_of, pairs, untrained
from seq2see.lab.old.ear import Ear
from seq2see.lab.old.expectation import NOTED, at_least, at_most, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import curves
from seq2see.lab.old.timing import cpu_seconds
from seq2see.model import NO_MASK, QKNormAttention, Transformer
from seq2see.model.basic_modules import Dropout

# B batch, S source tokens

LAYERS = 6


@experiment(
    number=10,
    title=Text("What gives q and k unit variance?", "q 与 k 的单位方差从何而来？"),
    notes="S1",
    claim=Text(
        "q and k have mean 0 and variance 1 because the embeddings are scaled.",
        "因为词向量 embedding 之后也做了缩放，所以 Q、K 的均值为 0、方差为 1。",
    ),
    prediction=Text(
        "At the start, Xavier matrices keep the variance of their input, and from the second layer "
        "on that input is a LayerNorm's: 1 with scaled embeddings or without. Training changes it.",
        "初始时，Xavier 矩阵保持输入的方差；从第二层起输入来自 LayerNorm：无论 embedding "
        "是否缩放都约为 1。训练会改变它。",
    ),
    trains=True,
)
def unit_variance(bench: Bench) -> Finding:
    """Listen to q and k in each place, at the start and behind training."""
    scaled, unscaled = (_start_variances(bench, scaled) for scaled in (True, False))
    trained = [Spreads.of(each.model) for each in bench.learn_all(Lesson())]
    return Finding(
        Verdict.FALSE,
        Text(
            "The scale of the embeddings reaches the first layer only, where positions add a half "
            "to it (variance 1.5, not 1). In all others LayerNorm and the Xavier start make the "
            "variance 1, with scaled embeddings or without. And it holds at the start alone: where "
            "training needs sharp attention the variance grows, and q and k are no longer "
            "independent, so that the scores vary more than q's variance times k's would have it.",
            "embedding 的缩放只影响第一层，而且位置编码又加上 0.5（方差是 1.5 而非 1）。"
            "其余各层的单位方差来自 LayerNorm 与 Xavier 初始化，与 embedding 是否缩放无关。"
            "而且它只在训练开始时成立：在需要尖锐注意力之处，训练使方差变大；q 与 k 也不再独立，"
            "分数的方差超过 q 与 k 方差之积。",
        ),
        (*_at_the_start(scaled, unscaled), *_behind_training(Spreads.of(untrained()), trained)),
        (_by_layer(scaled, unscaled),),
    )


def _at_the_start(scaled: list[float], unscaled: list[float]) -> list[Measurement]:
    return [
        Measurement(
            Text("variance of q, layer 1, at the start", "q 的方差，第 1 层，初始"),
            scaled[0],
            near(1.5, 0.15),
        ),
        Measurement(
            Text(
                "variance of q, layer 1, embeddings not scaled",
                "q 的方差，第 1 层，不缩放 embedding",
            ),
            unscaled[0],
            near(0.5, 0.1),
        ),
        Measurement(
            Text("variance of q, layers 2 to 6, at the start", "q 的方差，第 2–6 层，初始"),
            fmean(scaled[1:]),
            near(1, 0.15),
        ),
        Measurement(
            Text(
                "variance of q, layers 2 to 6, embeddings not scaled",
                "q 的方差，第 2–6 层，不缩放 embedding",
            ),
            fmean(unscaled[1:]),
            near(1, 0.15),
        ),
    ]


def _behind_training(fresh: Spreads, trained: list[Spreads]) -> list[Measurement]:
    return [
        Measurement.mean(
            Text("largest variance of q in a place, trained", "各处 q 的方差的最大值，训练后"),
            [max(found.queries) for found in trained],
            at_least(1.8),
        ),
        Measurement(
            Text(
                "variance of scores over that of q × that of k, at the start",
                "分数方差与 q、k 方差之积之比，初始",
            ),
            max(fresh.dependence),
            near(1, 0.35),
        ),
        Measurement.mean(
            Text("… largest, trained", "……最大值，训练后"),
            [max(found.dependence) for found in trained],
            at_least(2),
        ),
    ]


def _by_layer(scaled: list[float], unscaled: list[float]) -> Figure:
    return curves(
        Text(
            "Variance of q in each layer of the encoder, d_model = 512, at the start.",
            "编码器各层 q 的方差，d_model = 512，训练开始时。",
        ),
        list(range(1, LAYERS + 1)),
        {
            Text("embeddings × √d_model", "embedding × √d_model"): scaled,
            Text("embeddings as they are", "embedding 不缩放"): unscaled,
        },
        (Text("layer", "层"), Text("variance of q", "q 的方差")),
        marker="o",
    )


def _start_variances(bench: Bench, scaled: bool) -> list[float]:
    """Return the variance of q in each layer of a fresh encoder of the paper's width."""
    torch.manual_seed(1)
    config = DIGITS.replace(
        vocab_size=1000, d_model=512, heads=8, d_ff=512, encoder_layers=LAYERS, decoder_layers=1
    ).replace(embeddings={"scale": scaled})
    ids_BS = torch.randint(4, 1000, (8, 32), generator=bench.generator(1))
    return variances(Transformer.from_config(config).eval(), ids_BS)


@torch.no_grad()
def variances(model: Transformer, ids_BS: Tensor) -> list[float]:
    """Return the variance of the queries in each layer of the encoder."""
    ear = Ear()
    model.encode(ids_BS, ear)
    return [float(record.queries_BHTD.var()) for record in ear.encoder()]


@dataclass(frozen=True)
class Spreads:
    """How queries and scores vary in each place of a model: encoder, decoder, and between."""

    queries: list[float]
    dependence: list[float]
    """The variance of the scaled scores over var(q)·var(k): 1 if q and k are independent."""

    @classmethod
    @torch.no_grad()
    def of(cls, model: Transformer) -> Spreads:
        """Listen to a model that reads sources of twelve digits."""
        batch = batch_of([pair for pair in pairs("reverse", "test") if len(pair[0]) == 12])
        ear = Ear()
        model(batch.source_BS, batch.decoder_input_BT, ear)
        heard = [
            (r.queries_BHTD.var(), r.keys_BHSD.var(), r.scores_BHTS.var())
            for r in ear.attention.values()
        ]
        return cls([float(q) for q, _, _ in heard], [float(s / (q * k)) for q, k, s in heard])


@experiment(
    number=11,
    title=Text("LayerNorm on q and k instead of √d_k", "以 q、k 上的 LayerNorm 代替 √d_k"),
    notes="S1",
    claim=Text(
        "One may put a LayerNorm on q and k instead of dividing by √d_k; it only costs more.",
        "QK 不除以根号 d_k，而是套一个 LN，也可以，只是会增加计算量。",
    ),
    prediction=Text(
        "It learns. But the norm makes each vector √d_k long, so the variance of the scores is "
        "d²/(d − 1), 65 for d_k = 64, as without any scale.",
        "可以训练。但 LN 使每个向量长度为 √d_k，分数的方差是 d²/(d − 1)：d_k = 64 时为 65，"
        "与完全不缩放时一样。",
    ),
    trains=True,
)
def norm_instead_of_scale(bench: Bench) -> Finding:
    """Measure the scores behind the norms, then let both learn."""
    q, k = (3 + 5 * torch.randn(2000, 1, 8, 64, generator=bench.generator(s)) for s in (1, 2))
    variance = float(_normed_scores(q, k).var())
    usual = bench.learn_all(Lesson())
    normed = bench.learn_all(Lesson().with_model(attention={"kind": "qk_norm"}))
    cost = _time(normed[0]) / _time(usual[0])
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "It trains, if one accepts sharp attention at the start: the norm bounds the scores "
            "(|q·k| ≤ d_k at first) but leaves their variance near d_k. It is a guard against "
            "growth, not a replacement for √d_k; its gains are learned, and can act as the scale. "
            f"On this machine a forward pass took {cost:.2g} times as long.",
            "可以训练，前提是接受初始时很尖锐的注意力：LN 限制了分数的上界（初始时 |q·k| ≤ d_k），"
            "但方差仍接近 d_k。它防止分数增长，并不能代替 √d_k；其可学习的增益可以起到缩放的作用。"
            f"在这台机器上，一次前向的用时是原来的 {cost:.2g} 倍。",
        ),
        (
            Measurement(
                Text(
                    "variance of the scores behind the norms, d_k = 64",
                    "LN 之后分数的方差，d_k = 64",
                ),
                variance,
                near(64**2 / 63, 2),
            ),
            Measurement.mean(
                Text("held-out loss, 1/√d_k", "验证损失，1/√d_k"), _nll(usual), at_most(0.2)
            ),
            Measurement.mean(
                Text("held-out loss, LayerNorm", "验证损失，LayerNorm"), _nll(normed), at_most(0.2)
            ),
            Measurement(
                Text(
                    "time of a forward pass, LayerNorm over 1/√d_k",
                    "前向时间之比，LayerNorm 与 1/√d_k",
                ),
                cost,
                NOTED,
            ),
        ),
        (
            curves(
                Text(
                    "Loss while learning to reverse digits, means over seeds and 10 updates.",
                    "学习反转数字时的损失，对随机种子及每 10 步取平均。",
                ),
                list(range(10, len(smooth(usual)) * 10 + 1, 10)),
                {"1/√d_k": smooth(usual), "LayerNorm": smooth(normed)},
                (Text("update", "更新步"), Text("loss", "损失")),
                y_scale="log",
            ),
        ),
    )


def _normed_scores(q: Tensor, k: Tensor) -> Tensor:
    scores: list[Tensor] = []
    attention = QKNormAttention(64, 1.0, 1e-6, Dropout(0.0))
    attention(q, k, k, NO_MASK, lambda record: scores.append(record.scores_BHTS.detach()))
    return scores[0]


def _nll(learned: tuple[Learned, ...]) -> list[float]:
    return [each.nll for each in learned]


def smooth(learned: tuple[Learned, ...], window: int = 10) -> list[float]:
    """Return the training loss, the mean of all seeds and of so many updates."""
    losses = torch.tensor([each.losses for each in learned]).mean(dim=0)
    return losses[: len(losses) // window * window].view(-1, window).mean(dim=1).tolist()


def _time(learned: Learned) -> float:
    batch = batch_of(pairs("reverse", "test")[:64])
    with torch.inference_mode():
        return cpu_seconds(lambda: learned.model(batch.source_BS, batch.decoder_input_BT))


@experiment(
    number=12,
    title=Text("Is 1/√d_k the best scale?", "1/√d_k 是最佳缩放吗？"),
    notes="S2",
    claim=Text(
        "√64 = 8 is the default and makes gradients stable; other values are possible.",
        "√64 = 8 是默认值，使梯度更稳定；也可以是其它值。",
    ),
    prediction=Text(
        "A broad optimum: W_Q and W_K can learn to make up for a factor, so only extremes hurt.",
        "最优区间很宽：W_Q 与 W_K 可以学会补偿一个常数因子，只有极端值才有害。",
    ),
    trains=True,
)
def sweep_of_scales(bench: Bench) -> Finding:
    """Train the same model with other factors on the scale."""
    own = (DIGITS.d_model // DIGITS.heads) ** -0.5
    factors = (
        (1 / 64, 1 / 8, 1 / 2, 1.0, 2.0, 8.0, 64.0) if bench.full else (1 / 8, 1 / 2, 1.0, 2.0, 8.0)
    )
    lessons = {f: Lesson(updates=200).with_model(attention={"scale": f * own}) for f in factors}
    bench.prepare(replace(each, seed=seed) for each in lessons.values() for seed in bench.seeds)
    losses = {factor: bench.losses(lesson) for factor, lesson in lessons.items()}
    means = {factor: sum(found) / len(found) for factor, found in losses.items()}
    return Finding(
        Verdict.HOLDS,
        Text(
            "Around 1/√d_k there is a broad optimum: with half or double the loss stays below "
            "twice that at 1/√d_k, and factors far from it cost half as much again or more. The "
            "exact value is a default, not a law.",
            "1/√d_k 附近有很宽的最优区间：减半或加倍时，损失不到 1/√d_k 时的两倍；"
            "相差很远的因子则使损失增加一半以上。这个值是默认值，而不是定律。",
        ),
        (
            *(
                Measurement.mean(
                    Text(
                        f"held-out loss, scale {factor:g} × 1/√d_k",
                        f"验证损失，缩放 {factor:g} × 1/√d_k",
                    ),
                    found,
                )
                for factor, found in losses.items()
            ),
            *_own_and_others(means),
        ),
        (_by_factor(losses, means),),
    )


def _own_and_others(means: dict[float, float]) -> list[Measurement]:
    smallest, *_, largest = means
    expected = {smallest: at_least(1.5), 0.5: at_most(2), 2.0: at_most(2), largest: at_least(1.5)}
    return [
        Measurement(
            Text("1/√d_k over the best of them", "1/√d_k 与其中最佳者之比"),
            means[1.0] / min(means.values()),
            at_most(2),
        ),
        *(
            Measurement(
                Text(f"factor {factor:g} over 1", f"因子 {factor:g} 与 1 的损失之比"),
                means[factor] / means[1.0],
                wanted,
            )
            for factor, wanted in expected.items()
        ),
    ]


def _by_factor(losses: dict[float, list[float]], means: dict[float, float]) -> Figure:
    return curves(
        Text(
            "Held-out loss after 200 updates against the factor on 1/√d_k; the band is one "
            "standard deviation over seeds.",
            "200 步之后的验证损失随缩放因子（相对 1/√d_k）的变化；阴影为种子间的一个标准差。",
        ),
        list(means),
        {Text("held-out loss", "验证损失"): list(means.values())},
        (Text("factor on 1/√d_k", "相对 1/√d_k 的因子"), Text("loss", "损失")),
        x_scale="log",
        spreads={Text("held-out loss", "验证损失"): [spread(v) for v in losses.values()]},
        marker="o",
    )


def spread(values: list[float]) -> float:
    """Return the standard deviation over seeds."""
    return float(torch.tensor(values).std())
