"""Item 39: the norm behind the sum, as in the paper, or in front of the sublayer."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from statistics import fmean

from seq2see.lab.old import pictures
from seq2see.lab.old.bench import Bench, Learned, Lesson
from seq2see.lab.old.expectation import at_least
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment

UPDATES = 100


@experiment(
    39,
    Text("Norms behind or in front", "后置还是前置归一化"),
    "S2 S3",
    Text(
        "Each sublayer has a residual connection followed by a normalisation: "
        "layernorm(x + sublayer(x)), eps 1e-6.",
        "每个子层都有残差连接，并跟着 Normalization 层：layernorm(x + sublayer(x))，epsilon=1e-6。",
    ),
    Text(
        "That is the paper's, and our default. It needs a warm-up once it is deep: at the full "
        "rate from the first update two layers a side learn, six do not; with the norm in front "
        "six do.",
        "这是论文的做法，也是我们的默认。层数一多它就需要预热：从第一次更新就用全速学习率，"
        "每侧两层能学，六层学不动；归一化前置时六层也能学。",
    ),
    trains=True,
)
def post_or_pre(bench: Bench) -> Finding:
    """Train without warm-up and with it, shallow and deep, the norm behind and in front."""
    runs = _runs(bench)
    losses = {name: [_last(each) for each in learned] for name, learned in runs.items()}
    shallow, deep, warm, in_front, *_ = map(fmean, losses.values())
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "the rate is warmed up, or the stack is shallow. So the paper's place of the norm and "
            "its warm-up belong together; with the norm in front neither depth nor rate is as "
            "delicate.",
            "学习率有预热、或层数很少时成立。论文中归一化的位置与预热是配套的；"
            "前置归一化对深度和学习率都不那么敏感。",
        ),
        (
            *(
                Measurement.mean(Text(f"loss: {name.en}", f"损失：{name.zh}"), values)
                for name, values in losses.items()
            ),
            Measurement(
                Text("post-norm, no warm-up: 6 layers minus 2", "后置、无预热：6 层减 2 层"),
                deep - shallow,
                at_least(0.2),
            ),
            Measurement(
                Text("6 layers, no warm-up: post minus pre", "6 层、无预热：后置减前置"),
                deep - in_front,
                at_least(0.3),
            ),
            Measurement(
                Text("post-norm, 6 layers: no warm-up minus warm-up", "后置 6 层：无预热减有预热"),
                deep - warm,
                at_least(0.05),
            ),
        ),
        (_curves(runs),),
    )


def _runs(bench: Bench) -> dict[Text, tuple[Learned, ...]]:
    seeds = bench.seeds if bench.full else bench.seeds[:2]  # six layers take their time

    def runs(placement: str, layers: int, warmup: int) -> tuple[Lesson, ...]:
        lesson = Lesson(updates=UPDATES, sentences=32, warmup=warmup)
        sizes = {"encoder_layers": layers, "decoder_layers": layers}
        lesson = lesson.with_model(**sizes, norm={"placement": placement})
        return tuple(replace(lesson, seed=seed) for seed in seeds)

    lessons = {
        Text("post-norm, 2 layers, no warm-up", "后置，2 层，无预热"): runs("post", 2, 0),
        Text("post-norm, 6 layers, no warm-up", "后置，6 层，无预热"): runs("post", 6, 0),
        Text("post-norm, 6 layers, warm-up", "后置，6 层，有预热"): runs("post", 6, 40),
        Text("pre-norm, 6 layers, no warm-up", "前置，6 层，无预热"): runs("pre", 6, 0),
    }
    if bench.full:
        lessons[Text("pre-norm, 12 layers, no warm-up", "前置，12 层，无预热")] = runs("pre", 12, 0)
        lessons[Text("post-norm, 12 layers, warm-up", "后置，12 层，有预热")] = runs("post", 12, 40)
    bench.prepare(chain.from_iterable(lessons.values()))
    return {name: tuple(map(bench.learn, some)) for name, some in lessons.items()}


def _last(learned: Learned) -> float:
    """Return the mean loss of the last updates; the loss of a guess if the training diverged."""
    return fmean(learned.losses[-20:]) if not learned.diverged else 2.4


def _curves(runs: dict[Text, tuple[Learned, ...]]) -> Figure:
    series = {
        name: [fmean(at) for at in zip(*(each.losses for each in learned), strict=False)]
        for name, learned in runs.items()
    }
    shortest = min(map(len, series.values()))
    return pictures.curves(
        Text(
            "Training loss at the full rate from the first update, or warmed up; mean of the seeds",
            "从第一次更新起全速学习，或先预热：训练损失，各种子平均",
        ),
        list(range(1, shortest + 1)),
        {name: y[:shortest] for name, y in series.items()},
        (Text("update", "更新次数"), Text("loss", "损失")),
    )
