"""Experiments 15 to 17: does a token look at itself?"""

from __future__ import annotations

from statistics import fmean

import torch
from torch import Tensor

from seq2see.data import fables
from seq2see.engines.batching import add_special_tokens_and_pad
from seq2see.lab.old.attention.steps import attended, dot_product, heads_of, sentence
from seq2see.lab.old.bench import Bench, Lesson, batch_of, pairs
from seq2see.lab.old.ear import Ear
from seq2see.lab.old.expectation import at_least, at_most, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import bars, grids
from seq2see.model import AttentionIntermediates, Transformer

# B batch, L layers, H heads, T queries, S keys

TOKENS = 8


@experiment(
    number=15,
    title=Text("Does each token score itself highest?", "每个 token 给自己的分数最高吗？"),
    notes="S2 S3",
    claim=Text(
        "S2: each token gives itself the highest score. S3: not necessarily; Q and K differ, so "
        "the diagonal need not be the largest.",
        "S2：每个 token 都会给自己最高分。S3：不一定，Q 与 K 不同，对角元素不一定最大。",
    ),
    prediction=Text(
        "With random matrices the diagonal is the largest of eight by chance, 12.5 %. Training "
        "makes heads differ, and none of them has to look at itself.",
        "随机矩阵下，8 个中对角最大只是碰巧，为 12.5 %。训练使各头不同，但没有哪个头必须关注自身。",
    ),
    trains=True,
    translates=True,
)
def looks_at_itself(bench: Bench) -> Finding:
    """Count how often the largest weight of a query is its own, head by head."""
    fables_LH = _fables_shares(bench)
    return Finding(
        Verdict.FALSE,
        Text(
            "S3 is right. With random weights a token is its own favourite as often as chance has "
            "it. Training does not make the diagonal the rule: over all heads most tokens look "
            "most at another.",
            "S3 是对的。随机权重下，token 最关注自己的频率等于碰巧。"
            "训练之后对角最大也没有成为常态：就所有头而言，多数 token 最关注的是别的 token。",
        ),
        (_random_weights(bench), _trained_on_digits(bench), *_trained_on_fables(fables_LH)),
        (_by_head(fables_LH),),
    )


def _random_weights(bench: Bench) -> Measurement:
    fresh = [
        float(share)
        for seed in range(60)
        for share in shares(attended(heads_of(bench, seed), sentence(bench, TOKENS, seed)))
    ]
    return Measurement(
        Text("diagonal largest, random weights", "对角最大的比例，随机权重"),
        sum(fresh) / len(fresh),
        near(1 / TOKENS, 0.03),
    )


def _trained_on_digits(bench: Bench) -> Measurement:
    source_BS = _seven_digits()
    digits = [encoder_shares(each.model, source_BS) for each in bench.learn_all(Lesson())]
    return Measurement.mean(
        Text("diagonal largest, trained on digits", "对角最大的比例，数字任务"),
        [float(found.mean()) for found in digits],
        at_most(0.5),
    )


def _seven_digits() -> Tensor:
    """Return sources of the same length, with their end."""
    return batch_of([p for p in pairs("reverse", "test") if len(p[0]) == TOKENS - 1]).source_BS


def _trained_on_fables(shares_LH: Tensor) -> list[Measurement]:
    return [
        Measurement(
            Text("diagonal largest, trained on fables", "对角最大的比例，寓言"),
            float(shares_LH.mean()),
            at_most(0.5),
        ),
        Measurement(
            Text("… in the head where it is rarest", "……最低的头"),
            float(shares_LH.min()),
            at_most(0.3),
        ),
        Measurement(
            Text("… in the head where it is most frequent", "……最高的头"), float(shares_LH.max())
        ),
    ]


def _by_head(shares_LH: Tensor) -> Figure:
    return bars(
        Text(
            "How often the largest weight of a token is its own, in each head of an "
            "encoder that was trained on fables.",
            "在寓言上训练的编码器中，各个头里 token 的最大权重落在自身上的频率。",
        ),
        {
            Text(
                f"fables, layer {layer + 1}, head {h + 1}", f"寓言，第 {layer + 1} 层，头 {h + 1}"
            ): float(share)
            for layer, row in enumerate(shares_LH)
            for h, share in enumerate(row)
        },
        Text("share of the tokens", "token 的比例"),
    )


def shares(record: AttentionIntermediates, real_BT: Tensor | None = None) -> Tensor:
    """Return how often the largest weight of a query is its own, [H]."""
    best_BHT = record.weights_BHTS.argmax(dim=-1)
    own_BHT = best_BHT == torch.arange(best_BHT.size(-1))
    if real_BT is None:
        return own_BHT.double().mean(dim=(0, 2))
    counted_BHT = own_BHT & real_BT[:, None]
    return counted_BHT.double().sum(dim=(0, 2)) / real_BT.sum()


@torch.no_grad()
def encoder_shares(model: Transformer, ids_BS: Tensor) -> Tensor:
    """Return the shares of each layer and head, [L, H]; padding is not counted."""
    ear = Ear()
    memory = model.encode(ids_BS, ear)
    return torch.stack([shares(record, ~memory.padding_BS) for record in ear.encoder()])


def _fables_shares(bench: Bench) -> Tensor:
    bundle = bench.fables()
    lines = [fable.source for fable in fables.load_fables_split("test", short=True)[:200]]
    ids = bundle.tokenizers.source.encode_batch(lines)
    return encoder_shares(bundle.build_model(), add_special_tokens_and_pad(ids))


@experiment(
    number=16,
    title=Text("Attention without the matrices", "没有 QKV 矩阵的注意力"),
    notes="S1",
    claim=Text(
        "Without W_Q, W_K and W_V, q·k of a word with itself is the largest, if the vectors are "
        "of the same magnitude; so each word attends to itself.",
        "若不乘 QKV 参数矩阵，在相同量级的情况下，q_i 与 k_i 的点积最大，每个词主要关注自己。",
    ),
    prediction=Text(
        "Always with vectors of equal length (Cauchy–Schwarz). Where lengths vary, a word may "
        "prefer a longer neighbour.",
        "长度相等时必然如此（柯西–施瓦茨不等式）。长度不一时，词可能更偏向更长的邻居。",
    ),
    trains=True,
    translates=True,
)
def without_matrices(bench: Bench) -> Finding:
    """Attend with the vectors themselves, of equal and of varied length."""
    generator = bench.generator(1)
    x = torch.randn(400, 1, TOKENS, 64, generator=generator)
    equal_length = x / x.norm(dim=-1, keepdim=True) * 8
    varied = equal_length * (2 * torch.randn(400, 1, TOKENS, 1, generator=generator)).exp()
    trained = _embedded(bench)
    weights = own_weights(equal_length)
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            'It holds if the vectors are of equal length, as the notes themselves say ("of the '
            'same magnitude"): then x·x is the largest by Cauchy–Schwarz. With lengths that vary '
            "(here log-normal, σ = 2), a short vector prefers its long neighbours. The "
            "embeddings that "
            "were trained on fables are alike enough for it to hold nearly always.",
            "当向量长度相等时成立（笔记自己也说“在相同量级的情况下”）：由柯西–施瓦茨不等式，x·x "
            "最大。"
            "长度不一时（此处为对数正态，σ = 2），短向量会偏向较长的邻居。"
            "在寓言上训练得到的 embedding 长度相近，因此几乎总是成立。",
        ),
        (
            Measurement(
                Text("own weight largest, equal lengths", "自身权重最大，长度相等"),
                float(shares(weights)[0]),
                equal(1),
            ),
            Measurement(
                Text("own weight largest, varied lengths", "自身权重最大，长度不一"),
                float(shares(own_weights(varied))[0]),
                near(0.58, 0.05),
            ),
            Measurement(
                Text("own weight largest, embeddings of fables", "自身权重最大，寓言的 embedding"),
                float(shares(own_weights(trained))[0]),
                at_least(0.95),
            ),
            Measurement(
                Text("mean weight on itself, equal lengths", "自身权重的均值，长度相等"),
                float(weights.weights_BHTS.diagonal(dim1=-2, dim2=-1).mean()),
                at_least(0.9),
            ),
        ),
    )


def own_weights(x: Tensor) -> AttentionIntermediates:
    """Attend with x as queries, keys and values at once."""
    return dot_product(x, x, x, x.size(-1) ** -0.5)[1]


@torch.no_grad()
def _embedded(bench: Bench) -> Tensor:
    """Return sentences of eight distinct pieces as the encoder gets them, without positions."""
    bundle = bench.fables()
    lines = [fable.source for fable in fables.load_fables_split("test", short=True)]
    ids = bundle.tokenizers.source.encode_batch(lines)
    distinct = [list(dict.fromkeys(tokens))[:TOKENS] for tokens in ids]
    chosen = torch.tensor([tokens for tokens in distinct if len(tokens) == TOKENS])
    embeddings = bundle.build_model().encoder.embeddings
    vectors_BTM: Tensor = embeddings.tokens(chosen) * embeddings.factor
    return vectors_BTM[:, None]


@experiment(
    number=17,
    title=Text("One matrix for queries and keys", "Q 与 K 共用一个矩阵"),
    notes="S1",
    claim=Text(
        "With W_Q = W_K attention is symmetric: 我 attends to 男孩 as 男孩 attends to 我; so the "
        "model generalises worse.",
        "若 Q 与 K 使用相同的权重矩阵，注意力是对称的：我对男孩的关注度和男孩对我的关注度一样，"
        "泛化能力有限。",
    ),
    prediction=Text(
        "The scores are symmetric. The weights are not: softmax divides each row by its own sum, "
        "so w_ij/w_ji = Z_j/Z_i.",
        "分数矩阵对称；权重不对称：softmax 用每行各自的和归一化，因此 w_ij/w_ji = Z_j/Z_i。",
    ),
    trains=True,
)
def shared_matrix(bench: Bench) -> Finding:
    """Compare scores and weights with their transposes, then let both kinds learn."""
    record = attended(heads_of(bench, shared_qk=True), sentence(bench, 6))
    scores, weights = record.scores_BHTS[0, 0], record.weights_BHTS[0, 0]
    return Finding(
        Verdict.FALSE,
        Text(
            "The scores are symmetric, the weights are not: each row is divided by its own sum. "
            "What one matrix does is another thing: q·q is large, so each token looks at itself, "
            "and behind training it still does so far more than with two. In this small task the "
            "model learns about as well all the same: a loss of generalisation is not to be seen "
            "here.",
            "分数对称，权重却不对称：每行除以各自的和。共用矩阵的真正后果是 q·q 很大，"
            "每个 token 都关注自己，训练之后仍远多于使用两个矩阵时。尽管如此，在这个小任务上，"
            "模型学得与两个矩阵差不多一样好：此处看不到泛化能力的损失。",
        ),
        (*_symmetry(scores, weights), *_learned(bench)),
        (_scores_and_weights(scores, weights),),
    )


def _symmetry(scores: Tensor, weights: Tensor) -> list[Measurement]:
    sums = scores.exp().sum(dim=-1)
    ratio = weights / weights.T - sums[None, :] / sums[:, None]
    return [
        Measurement(
            Text("largest |s_ij − s_ji|", "|s_ij − s_ji| 的最大值"),
            float((scores - scores.T).abs().max()),
            at_most(1e-14),
        ),
        Measurement(
            Text("largest |w_ij − w_ji|", "|w_ij − w_ji| 的最大值"),
            float((weights - weights.T).abs().max()),
            at_least(0.01),
        ),
        Measurement(
            Text("largest |w_ij/w_ji − Z_j/Z_i|", "|w_ij/w_ji − Z_j/Z_i| 的最大值"),
            float(ratio.abs().max()),
            at_most(1e-11),
        ),
        Measurement(
            Text(
                "mean weight on itself, one matrix, at the start", "自身权重的均值，一个矩阵，初始"
            ),
            float(weights.diagonal().mean()),
            at_least(0.9),
        ),
    ]


def _learned(bench: Bench) -> list[Measurement]:
    two = bench.learn_all(Lesson())
    one = bench.learn_all(Lesson().with_model(attention={"shared_qk": True}))
    own_with_two, own_with_one = ([own_weight(each.model) for each in kind] for kind in (two, one))
    return [
        Measurement.mean(
            Text("… behind training", "……训练后"), own_with_one, at_least(1.5 * fmean(own_with_two))
        ),
        Measurement.mean(
            Text("… behind training, two matrices", "……训练后，两个矩阵"), own_with_two
        ),
        *_losses([each.nll for each in two], [each.nll for each in one]),
    ]


def _losses(two: list[float], one: list[float]) -> list[Measurement]:
    return [
        Measurement.mean(
            Text("held-out loss, two matrices", "验证损失，两个矩阵"), two, at_most(0.3)
        ),
        Measurement.mean(Text("held-out loss, one matrix", "验证损失，一个矩阵"), one),
        Measurement(
            Text("loss, one matrix over two", "损失之比，一个矩阵与两个"),
            fmean(one) / fmean(two),
            at_most(1.5),
        ),
    ]


@torch.no_grad()
def own_weight(model: Transformer) -> float:
    """Return the mean weight of a token on itself, over the heads of the encoder."""
    ear = Ear()
    model.encode(_seven_digits(), ear)
    weights = [record.weights_BHTS.diagonal(dim1=-2, dim2=-1) for record in ear.encoder()]
    return float(torch.stack(weights).mean())


def _scores_and_weights(scores: Tensor, weights: Tensor) -> Figure:
    return grids(
        Text(
            "One matrix for queries and keys: the scores are symmetric, the weights are not.",
            "Q 与 K 共用矩阵：分数对称，权重不对称。",
        ),
        {Text("scores", "分数"): scores.tolist(), Text("weights", "权重"): weights.tolist()},
        list("我是一个男孩"),
        list("我是一个男孩"),
        limits=None,
        numbers=True,
        size=3.4,
    )
