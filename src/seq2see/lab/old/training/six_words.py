"""Item 56: the famous vocabulary of six words, its targets, and what a model makes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from seq2see.data.batch_loader import Batch
from seq2see.engines.batching import collect_in_order
from seq2see.engines.torch_engine import TorchEngine
from seq2see.lab.old import pictures
from seq2see.lab.old.bench import Bench, batch_of
from seq2see.lab.old.closeness import apart
from seq2see.lab.old.expectation import at_least, at_most, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.loss import LossConfig, smoothed_cross_entropy
from seq2see.model import EmbeddingAndOutputConfig, ModelConfig, Transformer
from seq2see.search import SearchConfig, SentenceSearchInput
from seq2see.text import EOS_ID, PAD_ID
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.objective import Objective
from seq2see.training.optimization import (
    LearningRateSchedule,
    OptimizerConfig,
    ScheduleConfig,
    build_optimizer,
)
from seq2see.training.trainer import ModelUpdater

# B batch, T target tokens, V vocabulary

ENGLISH = {"a": 4, "am": 5, "i": 6, "thanks": 7, "student": 8, "<eos>": EOS_ID}
FRENCH = {"merci": 4, "je": 5, "suis": 6, "étudiant": 7}
MERCI = ("merci", "thanks")
STUDENT = ("je suis étudiant", "i am a student")
PIECES = 9
"""The six words, and the three special ids beside <eos>."""
TINY = ModelConfig(
    vocab_size=8,
    target_vocab_size=PIECES,
    d_model=32,
    heads=2,
    d_ff=64,
    encoder_layers=1,
    decoder_layers=1,
    embeddings=EmbeddingAndOutputConfig(tie="decoder"),
).replace(dropout={"embedding": 0.0, "residual": 0.0})
SMOOTHING = 0.1


@experiment(
    56,
    Text("Six words", "六个词的词表"),
    "S2",
    Text(
        "The outputs are a, am, i, thanks, student, <eos>. “merci” should give “thanks”, and five "
        "distributions for “je suis étudiant” should point at i am a student <eos>. Two "
        "distributions are compared by simply subtracting one from the other.",
        "输出词表为 a、am、i、thanks、student、<eos>。“merci”应得“thanks”；"
        "“je suis étudiant”的五个分布应依次指向 i am a student <eos>。"
        "怎么对比两个概率分布？简单相减就好。",
    ),
    Text(
        "A tiny model learns both pairs. A difference of distributions always sums to 0 and cannot "
        "be made small; cross-entropy can, and its gradient by the logits is that difference. With "
        "label smoothing the right word is to get 0.911 of 9 pieces, not 1.",
        "极小的模型就能学会这两对。两个分布之差的总和恒为 0，无法作为损失；交叉熵可以，"
        "而它对 logits 的梯度正是这个差。用标签平滑时，9 个子词中正确词的目标是 0.911 而不是 1。",
    ),
    trains=True,
)
def six_words(bench: Bench) -> Finding:
    """Train on the two pairs, plainly and with smoothing, and draw the distributions."""
    batch = _batch()
    untrained_TV = _distributions(_model(1), batch)
    plain = [_taught(seed, 0.0) for seed in bench.seeds]
    smoothed = [_taught(seed, SMOOTHING) for seed in bench.seeds]
    plain_TV, smoothed_TV = (_distributions(models[0], batch) for models in (plain, smoothed))
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "“subtract” is read as the gradient and not as the loss. Everything else comes out as "
            "drawn, but a trained model never puts a probability of exactly 1 anywhere.",
            "把“相减”理解为梯度而不是损失时成立。其余与图中所画一致，只是训练好的模型"
            "从不会在哪里给出恰好为 1 的概率。",
        ),
        (
            Measurement(
                Text("place of “am” in its one-hot vector, of 6", "“am”在独热向量中的位置（共 6）"),
                1 + list(ENGLISH).index("am"),
                equal(2),
            ),
            Measurement(
                Text(
                    "untrained: probability of “thanks” for “merci”",
                    "未训练：“merci”→“thanks”的概率",
                ),
                float(untrained_TV[0, 3]),
                at_most(0.7),
            ),
            Measurement.mean(
                Text("trained: least probability of a right word", "训练后：正确词概率的最小值"),
                [_least(model, batch) for model in plain],
                at_least(0.98),
            ),
            Measurement.mean(
                Text("trained with smoothing: the same (0.911)", "用平滑训练后：同上（0.911）"),
                [_least(model, batch) for model in smoothed],
                near(1 - SMOOTHING + SMOOTHING / PIECES, 0.03),
            ),
            Measurement.mean(
                Text("translations right, of 2", "翻译正确的句子（共 2）"),
                [_right(model) for model in plain],
                equal(2),
            ),
            *subtraction(bench),
        ),
        (_grids(plain_TV, smoothed_TV, untrained_TV),),
    )


def subtraction(bench: Bench) -> list[Measurement]:
    """Compare two guesses with a target: by difference, by cross-entropy, by its gradient."""
    logits_1V = torch.randn(1, 6, generator=bench.generator()).double().requires_grad_()
    label_1 = torch.tensor([3])
    target_1V = torch.nn.functional.one_hot(label_1, 6).double()
    (gradient_1V,) = torch.autograd.grad(smoothed_cross_entropy(logits_1V, label_1), logits_1V)
    difference_1V = logits_1V.detach().softmax(dim=-1) - target_1V
    sure, unsure = (
        torch.tensor([[*p, 0.1, 0.1, 0.1, 0.1]]).log() for p in ((0.5, 0.1), (0.1, 0.5))
    )
    first = torch.tensor([0])
    return [
        Measurement(
            Text("sum of the difference to the target", "与目标之差的总和"),
            float(difference_1V.sum()),
            near(0.0, 1e-12),
        ),
        Measurement(
            Text(
                "the same for any other guess: right 0.5, or right 0.1",
                "换任何猜测也一样：总和之差",
            ),
            float((sure.exp() - unsure.exp()).sum()),
            near(0.0, 1e-6),
        ),
        Measurement(
            Text("cross-entropy tells them apart by ln 5", "交叉熵能区分它们，相差 ln 5"),
            float(smoothed_cross_entropy(unsure, first) - smoothed_cross_entropy(sure, first)),
            near(math.log(5), 1e-6),
        ),
        Measurement(
            Text(
                "its gradient by the logits against the difference",
                "其对 logits 的梯度与差之间的距离",
            ),
            apart(gradient_1V, difference_1V),
            at_most(1e-12),
        ),
    ]


def _batch() -> Batch:
    return batch_of([_ids(*pair) for pair in (MERCI, STUDENT)])


def _ids(source: str, target: str) -> tuple[list[int], list[int]]:
    return [FRENCH[word] for word in source.split()], [ENGLISH[word] for word in target.split()]


def _model(seed: int) -> Transformer:
    torch.manual_seed(seed)
    return Transformer.from_config(TINY).eval()


def _taught(seed: int, smoothing: float, updates: int = 80) -> Transformer:
    """Train on the two pairs, over and over."""
    model = _model(seed)
    objective = Objective(model, LossConfig(label_smoothing=smoothing), PAD_ID)
    schedule = ScheduleConfig(kind="cosine", peak_lr=0.02, warmup_updates=10)
    stepper = ModelUpdater(
        objective,
        build_optimizer(OptimizerConfig(), objective),
        LearningRateSchedule(schedule, TINY.d_model, updates),
        0.0,
        seed,
        WorkerCommunicator(),
    )
    for number in range(1, updates + 1):
        stepper(number, [_batch()])
    return model.eval()


@torch.no_grad()
def _distributions(model: Transformer, batch: Batch) -> Tensor:
    """Return the probabilities of the six words: for “thanks”, then for the five of the other."""
    logits_BTV = model(batch.source_BS, batch.decoder_input_BT)
    six = list(ENGLISH.values())
    probabilities_BTV = logits_BTV.softmax(dim=-1)[..., six]
    return torch.cat((probabilities_BTV[0, :1], probabilities_BTV[1]))


def _least(model: Transformer, batch: Batch) -> float:
    """Return the least probability that a right word gets."""
    with torch.no_grad():
        logits_BTV = model(batch.source_BS, batch.decoder_input_BT)
    right_BT = logits_BTV.softmax(dim=-1).gather(-1, batch.labels_BT.unsqueeze(-1)).squeeze(-1)
    return float(right_BT[batch.labels_BT != PAD_ID].min())


def _right(model: Transformer) -> int:
    examples = [_ids(*pair) for pair in (MERCI, STUDENT)]
    lines = [SentenceSearchInput([*source, EOS_ID]) for source, _ in examples]
    found = collect_in_order(TorchEngine(model).search(lines, SearchConfig(beam_size=1)))
    return sum(
        list(f[0].tokens_without_eos) == t for f, (_, t) in zip(found, examples, strict=True)
    )


def six_word_grids() -> Figure:
    """Draw the grids alone, for the gallery."""
    batch, models = _batch(), [_model(1), _taught(1, 0.0), _taught(1, SMOOTHING)]
    untrained_TV, plain_TV, smoothed_TV = (_distributions(model, batch) for model in models)
    return _grids(plain_TV, smoothed_TV, untrained_TV)


def _grids(plain_TV: Tensor, smoothed_TV: Tensor, untrained_TV: Tensor) -> Figure:
    def rows(table_TV: Tensor) -> Sequence[Sequence[float]]:
        return table_TV[1:].tolist()

    wanted = ["i", "am", "a", "student", "<eos>"]
    target = [[float(word == right) for word in ENGLISH] for right in wanted]
    return pictures.grids(
        Text(
            "“je suis étudiant”: the distribution wanted at each of five positions, and what the "
            "model gives before training, behind it, and with label smoothing",
            "“je suis étudiant”：五个位置各自的目标分布，以及训练前、训练后、标签平滑训练后的分布",
        ),
        {
            Text("wanted", "目标"): target,
            Text("untrained", "未训练"): rows(untrained_TV),
            Text("trained", "训练后"): rows(plain_TV),
            Text("trained, smoothed", "标签平滑训练后"): rows(smoothed_TV),
        },
        [f"{position}" for position in range(1, 6)],
        list(ENGLISH),
        numbers=True,
        across=2,
        size=3.2,
    )
