"""Items 51 and 52: token tables that are shared, and how they are scaled."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2see.data import fables
from seq2see.engines.batching import add_special_tokens_and_pad
from seq2see.lab.old import pictures
from seq2see.lab.old.bench import Bench, Lesson
from seq2see.lab.old.expectation import at_least, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.model import ModelConfig, Transformer, compute_sinusoids, count_parameters
from seq2see.model.embeddings import OutputProjection, TokenEmbedding

# N tokens in a row, M features of the model, V vocabulary

WORDS, WIDE = 37_000, 512


@experiment(
    51,
    Text("One table for three", "三处共用一张表"),
    "S1",
    Text(
        "Encoder and decoder share their embeddings, and the decoder's are the output matrix, "
        "which saves parameters. The row that is nearest to the vector x gets the highest "
        "probability.",
        "Encoder 和 Decoder 的 Embedding 共享，Decoder 的 Embedding 又与 FC 层共享，减少参数量。"
        "与向量 x 最接近的那一行对应的词会获得更大的预测概率。",
    ),
    Text(
        "At 37,000 words 63 against 101 million parameters. The winner is the row with the largest "
        "dot product; it is the nearest one only if rows are equally long.",
        "37,000 个词时参数为 6,300 万，不共享为 1.01 亿。赢的是点积最大的一行；"
        "只有各行等长时它才是最近的一行。",
    ),
    trains=True,
    translates=True,
)
def tying(bench: Bench) -> Finding:
    """Count the parameters, and let the nearest row lose."""
    counts = {tie: base_parameters(tie) for tie in ("all", "decoder", "none")}
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "“nearest” is read as “largest dot product”. Two rows suffice to let the nearest "
            "lose. In the trained model here it wins nearly always all the same, though some rows "
            "are several times as long as others.",
            "把“最接近”读作“点积最大”时成立。两行就足以让最近的一行落败。"
            "不过在这里训练好的模型中，尽管各行长短相差数倍，最近的一行几乎总是赢。",
        ),
        (*_parameters(counts), _two_rows(), *_trained_rows(bench)),
        (_parameter_bars(counts),),
    )


def _parameters(counts: dict[str, int]) -> list[Measurement]:
    return [
        Measurement(
            Text("parameters, all tied", "参数，全部共享"), counts["all"], near(63.1e6, 1e5)
        ),
        Measurement(
            Text("parameters, decoder tied", "参数，仅解码端共享"),
            counts["decoder"],
            near(82.0e6, 1e5),
        ),
        Measurement(
            Text("parameters, none tied", "参数，不共享"), counts["none"], near(101.0e6, 1e5)
        ),
        Measurement(
            Text("what tying saves: 2 · 37,000 · 512", "共享节省的：2 × 37,000 × 512"),
            counts["none"] - counts["all"],
            equal(2 * WORDS * WIDE),
        ),
    ]


def _two_rows() -> Measurement:
    return Measurement(
        Text(
            "two rows (1, 0) and (4, 0), x = (1, 0): number of the winner",
            "两行 (1, 0) 与 (4, 0)，x = (1, 0)：赢家是第几行",
        ),
        _winner_of_two(),
        equal(2),
    )


def _trained_rows(bench: Bench) -> list[Measurement]:
    states_NM, table = _trained_states(bench)
    rows_VM = table.weight_VM.detach()
    dots_NV = OutputProjection(table, bias=False)(states_NM).detach()
    lengths_V = rows_VM.norm(dim=-1)
    winners_N = dots_NV.argmax(dim=-1)
    nearest_N = torch.cdist(states_NM, rows_VM).argmin(dim=-1)
    aligned_N = (dots_NV / lengths_V).argmax(dim=-1)
    return [
        Measurement(
            Text("trained: the winner is the nearest row", "训练后：赢家就是最近一行的比例"),
            _share(winners_N, nearest_N),
            at_least(0.9),
        ),
        Measurement(
            Text("trained: the winner has the smallest angle", "训练后：赢家夹角最小的比例"),
            _share(winners_N, aligned_N),
        ),
        Measurement(
            Text("trained: longest row / shortest row", "训练后：最长行 / 最短行"),
            float(lengths_V.max() / lengths_V.min()),
            at_least(2),
        ),
    ]


def _parameter_bars(counts: dict[str, int]) -> Figure:
    return pictures.bars(
        Text(
            "Parameters of base at 37,000 words, in millions", "base 在 37,000 词时的参数量（百万）"
        ),
        {
            Text("all three tied", "三处共享"): counts["all"] / 1e6,
            Text("decoder tied", "解码端共享"): counts["decoder"] / 1e6,
            Text("none tied", "不共享"): counts["none"] / 1e6,
        },
        Text("million parameters", "百万参数"),
    )


def base_parameters(tie: str) -> int:
    """Count the parameters of `base`, without making room for them."""
    config = ModelConfig.from_preset("base", vocab_size=WORDS).replace(embeddings={"tie": tie})
    with torch.device("meta"):
        return count_parameters(Transformer.from_config(config))


@torch.no_grad()
def _trained_states(bench: Bench) -> tuple[Tensor, TokenEmbedding]:
    """Return what a trained decoder hands to the output layer, and the table there."""
    bundle = bench.fables()
    model, some = bundle.build_model().eval(), fables.load_fables_split("test", short=True)[:100]
    source_BS = add_special_tokens_and_pad(
        bundle.tokenizers.source.encode_batch([f.source for f in some])
    )
    target_BT = add_special_tokens_and_pad(
        bundle.tokenizers.target.encode_batch([f.target for f in some])
    )
    states_BTM = model.decode(target_BT, model.encode(source_BS))
    return states_BTM[target_BT != 0], model.output.tokens


def _winner_of_two() -> int:
    """Put a row at x itself and a longer one behind it; return which gets the higher logit."""
    table = TokenEmbedding(2, 2)
    table.weight_VM.data = torch.tensor([[1.0, 0.0], [4.0, 0.0]])
    return int(OutputProjection(table, bias=False)(torch.tensor([1.0, 0.0])).argmax()) + 1


def _share(ours_N: Tensor, theirs_N: Tensor) -> float:
    return float((ours_N == theirs_N).double().mean())


@experiment(
    52,
    Text("Times √d_model", "乘以 √d_model"),
    "S1",
    Text(
        "The table starts at N(0, 1/d_model); times √d_model it has variance 1, which speeds up "
        "convergence.",
        "词嵌入矩阵的初始化是 N(0, 1/d_model)，乘以 √d_model 就调整到 N(0, 1)，以加速收敛。",
    ),
    Text(
        "True for N(0, 1/d), as our table starts. With Xavier the variance is 0.027 at 37,000 "
        "words, far below the positions' 0.5; with N(0, 1) it is 512.",
        "对 N(0, 1/d) 成立，我们的表正是如此。若用 Xavier，37,000 词时方差只有 0.027，"
        "远小于位置编码的 0.5；"
        "若用 N(0, 1)，则是 512。",
    ),
)
def scaling(bench: Bench) -> Finding:
    """Measure the variance for three ways to start."""
    torch.manual_seed(1)
    blank_VM = torch.empty(WORDS, WIDE)
    ours = TokenEmbedding(WORDS, WIDE).weight_VM.detach()
    variances = {
        "ours": WIDE * float(ours.var()),
        "xavier": WIDE * float(nn.init.xavier_uniform_(blank_VM).var()),
        "unit": WIDE * float(nn.init.normal_(blank_VM).var()),
    }
    trained = _trained_both_ways(bench) if bench.full else []
    return Finding(
        Verdict.HOLDS_IF,
        _reason(*trained),
        (
            Measurement(
                Text("variance behind × √d, N(0, 1/d)", "乘 √d 后的方差，N(0, 1/d)"),
                variances["ours"],
                near(1.0, 0.01),
            ),
            Measurement(
                Text("the same, Xavier: 2d/(V + d)", "同上，Xavier：2d/(V + d)"),
                variances["xavier"],
                near(2 * WIDE / (WORDS + WIDE), 3e-4),
            ),
            Measurement(
                Text("the same, N(0, 1)", "同上，N(0, 1)"), variances["unit"], near(512.0, 2.0)
            ),
            Measurement(
                Text("variance of the sinusoid, 50 positions", "正弦位置编码的均方，50 个位置"),
                float(compute_sinusoids(torch.arange(50), WIDE).square().mean()),
                near(0.5, 1e-9),
            ),
            *trained,
        ),
    )


def _reason(*trained: Measurement) -> Text:
    """Say of training what was measured, or that it was not."""
    said = Text("which needs --full.", "需要 --full。")
    if trained:
        with_it, without = (f"{measured.value:.2g}" for measured in trained)
        said = Text(
            f"put here to a small model on a small task: the held-out loss was {with_it} with the "
            f"factor and {without} without it.",
            f"此处用小任务、小模型来看：乘时留出集损失为 {with_it}，不乘时为 {without}。",
        )
    return Text(
        "the table starts at N(0, 1/d). Whether it speeds up training is another question, "
        + said.en,
        "仅当表以 N(0, 1/d) 初始化时成立。是否加速训练则是另一个问题，" + said.zh,
    )


def _trained_both_ways(bench: Bench) -> list[Measurement]:
    """Train with the factor and without it."""
    lesson = Lesson(updates=200)
    ways = {
        Text("held-out loss with × √d", "留出集损失，乘 √d"): lesson,
        Text("held-out loss without", "留出集损失，不乘"): lesson.with_model(
            embeddings={"scale": False}
        ),
    }
    return [Measurement.mean(name, bench.losses(way)) for name, way in ways.items()]
