"""Items 34 and 36: three kinds of positions, within the trained length and past it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import torch

from seq2see.lab.old import pictures
from seq2see.lab.old.bench import Bench, Learned, Lesson, exactness, pairs
from seq2see.lab.old.closeness import apart
from seq2see.lab.old.expectation import at_least, at_most, between
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.model import RelativeAttention, RelativePositionEmbeddings
from seq2see.model.basic_modules import Dropout

# B batch, H heads, T queries, S keys, D features of a head

TRAINED = 12
BEYOND = 20
SINUSOID = Lesson(longest=TRAINED)
LEARNED = SINUSOID.with_model(positions={"kind": "learned", "max_length": 64})
RELATIVE = SINUSOID.with_model(positions={"kind": "relative"})
LAG = 0.05
"""The share of right sources by which one kind must be ahead for the other to lag."""
BANDS = ((1, 4), (5, 8), (9, 12), (13, 13), (14, 14), (15, 16), (17, 20))


@experiment(
    34,
    Text("Learned positions or sinusoids", "可学习的位置还是正弦"),
    "S2 S3",
    Text(
        "Both give the same results, so the sinusoid was chosen: it can represent sequences longer "
        "than any it was trained on, while a learned table cannot.",
        "两者的结果一样，所以选了正弦：它能表示比训练时更长的序列，而可学习的位置受限于训练长度。",
    ),
    Text(
        "Within the trained length both learn to reverse 1 to 12 digits. Past it the sinusoid has "
        "vectors, but a model that has never met them does not know what to do with them: both "
        "fail within a few digits.",
        "在训练长度内，两者都学会反转 1 到 12 个数字。超出之后正弦仍有向量，但模型没见过它们，"
        "不知道怎么用：两者在几个数字之内都失败。",
    ),
    trains=True,
)
def learned_or_sinusoid(bench: Bench) -> Finding:
    """Train both on up to 12 digits, and ask for up to 20."""
    updates = 800 if bench.full else SINUSOID.updates
    sinusoid = bench.learn_all(replace(SINUSOID, updates=updates))
    learned = bench.learn_all(replace(LEARNED, updates=updates))
    ahead = fmean(each.exact for each in sinusoid) - fmean(each.exact for each in learned)
    return Finding(
        Verdict.HOLDS_IF,
        _reason(ahead, updates),
        (
            Measurement.mean(
                Text("sinusoid: right, 1 to 12 digits", "正弦：1–12 位全对的比例"),
                [each.exact for each in sinusoid],
                at_least(0.85),
            ),
            Measurement.mean(
                Text("learned: right, 1 to 12 digits", "可学习：1–12 位全对的比例"),
                [each.exact for each in learned],
                at_least(0.85 if bench.full else 0.4),
            ),
            Measurement(
                Text("sinusoid minus learned, 1 to 12 digits", "正弦减可学习，1–12 位"),
                ahead,
                at_most(LAG) if bench.full else at_least(LAG),
            ),
            Measurement.mean(
                Text("sinusoid: right, 14 digits", "正弦：14 位全对的比例"),
                [_right(each, 14, 14) for each in sinusoid],
                at_most(0.2),
            ),
            _past(sinusoid, Text("sinusoid: right, 15 to 20 digits", "正弦：15–20 位全对的比例")),
            _past(learned, Text("learned: right, 15 to 20 digits", "可学习：15–20 位全对的比例")),
        ),
        (_by_length({Text("sinusoid", "正弦"): sinusoid, Text("learned", "可学习"): learned}),),
    )


def _reason(ahead: float, updates: int) -> Text:
    """Say whether the learned table lags behind so many updates; both fail past the length."""
    within = _LAGS if ahead >= LAG else _EQUAL
    return Text(
        within.en.format(updates=updates) + " Past the length the sinusoid fails within two digits "
        "as well: having a vector is not having learnt its use.",
        within.zh.format(updates=updates)
        + "超出长度之后，正弦也在两个数字之内失败：有向量不等于学会了用它。",
    )


_LAGS = Text(
    "“represent” is not read as “translate”, and the training is long: behind {updates} updates "
    "the learned table lags, since it must learn each position by itself (--full trains longer).",
    "不把“能表示”读作“能翻译”、且训练足够长时成立：{updates} 次更新之后可学习的表仍落后，"
    "因为每个位置都要单独学（--full 训练更久）。",
)
_EQUAL = Text(
    "“represent” is not read as “translate”. Within the trained length the learned table has "
    "caught up behind {updates} updates.",
    "不把“能表示”读作“能翻译”时成立：在训练长度之内，{updates} 次更新之后可学习的表已经赶上。",
)


@experiment(
    36,
    Text("Relative positions", "相对位置（RPR）"),
    "S1",
    Text(
        "“RPR” is a heading with nothing under it. What Shaw et al. (2018) say: distances, clipped "
        "and learned, inside self-attention, can replace absolute positions.",
        "“RPR”只有标题，没有内容。Shaw 等（2018）的说法：在自注意力内部使用可学习、"
        "截断的相对距离，可以取代绝对位置。",
    ),
    Text(
        "Our gathered form equals the formula q·(k + a_K), Σ w(v + a_V). It learns the task, as "
        "the sinusoid does. Past the trained length the clipped distances have all been met, "
        "but reversing still needs to count from the end.",
        "我们的 gather 实现与公式 q·(k + a_K)、Σ w(v + a_V) 相等。它与正弦一样能学会任务。"
        "超出训练长度时截断的距离都见过，但反转仍需从句尾数起。",
    ),
    trains=True,
)
def relative(bench: Bench) -> Finding:
    """Check the formula, train, and ask for more digits than it was trained on."""
    sinusoid, trained = bench.learn_all(SINUSOID), bench.learn_all(RELATIVE)
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "the length stays within what was trained. There, distances replace positions, a "
            "little later in training and though attention to the source has none. Past it they "
            "help this task no more than sinusoids do: a null result for the hope that relative "
            "means unlimited.",
            "长度不超过训练时成立：即使对源端的注意力没有位置，距离也足以取代位置，"
            "只是学得稍慢。"
            "超出之后，它在这个任务上并不比正弦更有用：“相对即无限”的希望在此是零结果。",
        ),
        (
            Measurement(
                Text("our scores against q·(k + a_K)", "我们的分数与 q·(k + a_K) 之差"),
                _formula_gap(bench)[0],
                at_most(1e-12),
            ),
            Measurement(
                Text("our output against Σ w(v + a_V)", "我们的输出与 Σ w(v + a_V) 之差"),
                _formula_gap(bench)[1],
                at_most(1e-12),
            ),
            Measurement.mean(
                Text("relative: right, 1 to 12 digits", "相对：1–12 位全对的比例"),
                [each.exact for each in trained],
                at_least(0.6),
            ),
            Measurement.mean(
                Text("sinusoid: right, 1 to 12 digits", "正弦：1–12 位全对的比例"),
                [each.exact for each in sinusoid],
                at_least(0.85),
            ),
            Measurement(
                Text("sinusoid minus relative, 1 to 12 digits", "正弦减相对，1–12 位"),
                fmean(each.exact for each in sinusoid) - fmean(each.exact for each in trained),
                between(0, 0.3),
            ),
            _past(trained, Text("relative: right, 15 to 20 digits", "相对：15–20 位全对的比例")),
        ),
        (_by_length({Text("sinusoid", "正弦"): sinusoid, Text("relative", "相对"): trained}),),
    )


def _formula_gap(bench: Bench) -> tuple[float, float]:
    """Compare with the formula, for which a tensor of all pairs with features is made."""
    torch.manual_seed(1)
    distances = RelativePositionEmbeddings(8, max_distance=3).double()
    attention = RelativeAttention(1.0, distances, Dropout(0.0))
    queries, keys, values = torch.randn(3, 1, 2, 9, 8, generator=bench.generator()).double()
    row_TS = (torch.arange(9) - torch.arange(9)[:, None]).clamp(-3, 3) + 3
    keys_BHTSD = keys.unsqueeze(2) + distances.key_RD[row_TS]
    values_BHTSD = values.unsqueeze(2) + distances.value_RD[row_TS]
    scores_BHTS = (queries.unsqueeze(3) * keys_BHTSD).sum(dim=-1)
    mixed_BHTD = (scores_BHTS.softmax(dim=-1).unsqueeze(4) * values_BHTSD).sum(dim=3)
    return (
        apart(attention.compute_scores(queries, keys), scores_BHTS),
        apart(attention(queries, keys, values), mixed_BHTD),
    )


def _past(learned: Sequence[Learned], what: Text) -> Measurement:
    return Measurement.mean(what, [_right(each, 15, 20) for each in learned], at_most(0.2))


def _right(learned: Learned, shortest: int, longest: int) -> float:
    """Return the share that is right of sources with so many digits."""
    known = pairs("reverse", "test", BEYOND)
    some = [pair for pair in known if shortest <= len(pair[0]) <= longest]
    return exactness(learned.model, some[:60])


def _by_length(kinds: dict[Text, tuple[Learned, ...]]) -> Figure:
    series = {
        name: [fmean(_right(each, *band) for each in learned) for band in BANDS]
        for name, learned in kinds.items()
    }
    with pictures.sketch(
        Text(
            "Share of sources reversed without a mistake, by their length; trained on 1 to 12",
            "按长度统计反转全对的比例；训练长度为 1 到 12",
        )
    ) as made:
        axes = made.canvas.subplots()
        places = range(len(BANDS))
        for (name, y), colour in zip(series.items(), pictures.COLOURS, strict=False):
            axes.plot(places, y, marker="o", markersize=4, color=colour, label=made.word(name))
        axes.axvline(2.5, color="#8a8f98", linestyle="--", linewidth=1)
        names = [str(low) if low == high else f"{low}–{high}" for low, high in BANDS]
        axes.set_xticks(places, names)
        axes.set_xlabel(made.word(Text("digits of the source", "源句的数字个数")))
        axes.set_ylabel(made.word(Text("share right", "全对的比例")))
        axes.set_ylim(-0.05, 1.05)
        axes.legend()
    return made.figure
