"""Items 42 to 44: the feed-forward network, what is not linear in a layer, and GELU."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from seq2see.lab.old import pictures
from seq2see.lab.old.bench import DIGITS, Bench
from seq2see.lab.old.closeness import apart, differing
from seq2see.lab.old.expectation import at_least, at_most, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.model import NO_MASK, AttentionModuleId, BatchLayout, ModelBuilder, ModelConfig
from seq2see.model.basic_modules import ACTIVATIONS, Dropout, FeedForward

# N tokens in a row, M features of the model

TOKENS = 12
NO_ACTIVATION = Text("feed-forward network without activation", "去掉激活函数的前馈网络")
FIXED_WEIGHTS = Text("attention whose weights are fixed", "权重固定的注意力")
Part = Callable[[Tensor], Tensor]


@experiment(
    42,
    Text("The feed-forward network is position-wise", "前馈网络逐位置作用"),
    "S2",
    Text(
        "At each position stands a feed-forward network, independent of the others, so all paths "
        "run in parallel; only self-attention makes them depend on one another.",
        "每个输入位置上都有一个前馈神经网络，它们相互独立，各路径可以并行；只有自注意力让路径相互依赖。",
    ),
    Text(
        "Changing one token changes no bit of the others' outputs; attention changes them all. It "
        "is one network with the same weights everywhere: FFN(x) = max(0, xW₁ + b₁)W₂ + b₂.",
        "改动一个词，其他位置的输出一个比特都不变；注意力则全部改变。"
        "而且各处是同一个网络、同一组权重：FFN(x) = max(0, xW₁ + b₁)W₂ + b₂。",
    ),
)
def position_wise(bench: Bench) -> Finding:
    """Change one token and see which outputs follow."""
    torch.manual_seed(1)
    builder = ModelBuilder(DIGITS)
    network, attention = builder.build_feed_forward(), _SelfAttention(builder)
    x_NM = torch.randn(TOKENS, DIGITS.d_model, generator=bench.generator())
    changed_NM = x_NM.clone()
    changed_NM[5] += 1.0
    others = torch.arange(TOKENS) != 5
    with torch.no_grad():
        by_network = differing(network(x_NM)[others], network(changed_NM)[others])
        by_attention = (attention(x_NM) - attention(changed_NM))[others].abs().amax(dim=1)
        formula_NM = (x_NM @ network.up.weight.T + network.up.bias).clamp(min=0)
        formula_NM = formula_NM @ network.down.weight.T + network.down.bias
        twin_NM = network(torch.stack((x_NM[0], x_NM[0])))
    return Finding(
        Verdict.HOLDS,
        Text(
            "no other position notices. “A network at each position” is one network: equal "
            "vectors give equal outputs wherever they stand.",
            "其他位置毫无察觉。“每个位置一个网络”其实是同一个网络：相同的向量在任何位置输出相同。",
        ),
        (
            Measurement(
                Text("numbers changed at the 11 other positions", "其余 11 个位置变化的数的个数"),
                by_network,
                equal(0),
            ),
            Measurement(
                Text(
                    "positions that self-attention changes, of the 11",
                    "自注意力改变的位置数（共 11）",
                ),
                int((by_attention > 1e-6).sum()),
                equal(11),
            ),
            Measurement(
                Text("ours against the formula", "与公式的差"),
                apart(network(x_NM).detach(), formula_NM),
                at_most(1e-5),
            ),
            Measurement(
                Text("the same vector at two positions", "同一向量放在两个位置"),
                apart(twin_NM[0], twin_NM[1]),
                at_most(1e-6),
            ),
        ),
    )


class _SelfAttention(nn.Module):
    """Self-attention over all tokens as one sentence."""

    def __init__(self, builder: ModelBuilder) -> None:
        super().__init__()
        site = AttentionModuleId("encoder", 0, "self")
        self.heads = builder.build_self_attention(builder.config.attention, site)

    def forward(self, x_NM: Tensor) -> Tensor:
        mixed_NM: Tensor
        mixed_NM, _ = self.heads(x_NM, BatchLayout(1, len(x_NM)), NO_MASK)
        return mixed_NM


@experiment(
    43,
    Text("Where the non-linearity is", "非线性来自哪里"),
    "S3",
    Text(
        "The Transformer's non-linearity comes from the GELU of the feed-forward network and from "
        "self-attention, which multiplies and has a softmax.",
        "Transformer 的非线性来自 FFN 的 gelu 激活函数和 self-attention（因为有相乘和 softmax）。",
    ),
    Text(
        "Both are not linear, and neither is LayerNorm, which the notes forget. The paper's "
        "activation is ReLU. Given its weights, attention is linear in the values.",
        "两者确是非线性的，但笔记漏了 LayerNorm。论文用的激活函数是 ReLU。"
        "权重给定时，注意力对 V 是线性的。",
    ),
)
def non_linearity(bench: Bench) -> Finding:
    """Ask of each part whether f(x + y) + f(0) = f(x) + f(y)."""
    bends = {name: _bend(bench, part) for name, part in _parts(bench).items()}
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "LayerNorm is added to the list and GELU is read as ReLU: the paper has ReLU, GELU "
            "came with BERT and GPT.",
            "补上 LayerNorm、并把 gelu 读作 ReLU 时成立：论文用 ReLU，GELU 是随 BERT 和 GPT 来的。",
        ),
        (
            *(
                Measurement(
                    Text(f"bend of {name.en}", f"偏离线性的程度：{name.zh}"),
                    bend,
                    at_most(1e-12) if name in {NO_ACTIVATION, FIXED_WEIGHTS} else at_least(0.05),
                )
                for name, bend in bends.items()
            ),
            Measurement(
                Text(
                    "our default activation is ReLU (1 = yes)",
                    "我们默认的激活函数是 ReLU（1 = 是）",
                ),
                ModelConfig(vocab_size=8).activation == "relu",
                equal(1),
            ),
        ),
        (
            pictures.bars(
                Text(
                    "|f(x + y) − f(x) − f(y) + f(0)| / |f(x + y)|: 0 for whatever is affine",
                    "|f(x+y) − f(x) − f(y) + f(0)| / |f(x+y)|：仿射的为 0",
                ),
                bends,
                Text("bend", "偏离线性的程度"),
            ),
        ),
    )


def _parts(bench: Bench) -> dict[Text, Part]:
    """Return the parts of a layer, and two of them without what bends them."""
    torch.manual_seed(1)
    builder = ModelBuilder(DIGITS)
    linear = FeedForward(64, 128, lambda x: x, Dropout(0.0))
    weights_NN = torch.randn(TOKENS, TOKENS, generator=bench.generator(), dtype=torch.float64)
    weights_NN = weights_NN.softmax(dim=-1)
    return {
        Text("feed-forward network with ReLU", "用 ReLU 的前馈网络"): builder.build_feed_forward(),
        NO_ACTIVATION: linear,
        Text("self-attention", "自注意力"): _SelfAttention(builder),
        FIXED_WEIGHTS: lambda x_NM: weights_NN @ x_NM,
        Text("LayerNorm", "LayerNorm"): builder.build_norm(),
    }


@torch.no_grad()
def _bend(bench: Bench, part: Part) -> float:
    """Return how far f is from affine: |f(x + y) − f(x) − f(y) + f(0)| / |f(x + y)|."""
    if isinstance(part, nn.Module):
        part.double()
    x_NM, y_NM = torch.randn(2, TOKENS, 64, generator=bench.generator(7), dtype=torch.float64)
    both_NM = part(x_NM + y_NM)
    off_NM = both_NM - part(x_NM) - part(y_NM) + part(torch.zeros_like(x_NM))
    return float(off_NM.norm() / both_NM.norm())


@experiment(
    44,
    Text("GELU", "GELU"),
    "S3",
    Text(
        "GELU(x) = xΦ(x) multiplies its input by 0 or 1 at random, the more likely by 0 the "
        "smaller it is; its merit is that it adds randomness to ReLU.",
        "GELU(x) = xΦ(x)：输入乘以 0 还是 1 是取决于自身而随机选择的；"
        "优点就是在 ReLU 上增加随机因素。",
    ),
    Text(
        "The formula is right, and it is the mean of that game of chance, so nothing is random: "
        "two calls agree to the bit. The tanh form is off by up to 4.7e-4.",
        "公式正确，但它是那个随机过程的期望，本身毫无随机：两次调用逐比特相同。"
        "tanh 近似的误差至多 4.7e-4。",
    ),
)
def gelu(bench: Bench) -> Finding:
    """Compare it with its formula, its derivative, its approximation, and the story behind it."""
    x = torch.linspace(-6, 6, 1_200_001, dtype=torch.float64, requires_grad=True)
    y = ACTIVATIONS["gelu"](x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    y, at, normal = y.detach(), x.detach(), torch.distributions.Normal(0.0, 1.0)
    below, density = torch.special.ndtr(at), normal.log_prob(at).exp()
    lowest = int(y.argmin())
    chances = torch.special.ndtr(torch.tensor([-0.5])).expand(400_000)
    played = -0.5 * torch.bernoulli(chances, generator=bench.generator())
    return Finding(
        Verdict.FALSE,
        Text(
            "it is deterministic: xΦ(x) is the expectation of x·m with m ~ Bernoulli(Φ(x)), and "
            "nobody draws an m. The formula and its derivative Φ(x) + xφ(x) are right; Φ has no "
            "closed form but an error function, which is exact.",
            "它是确定性的：xΦ(x) 是 m ~ Bernoulli(Φ(x)) 时 x·m 的期望，没有谁真的去抽 m。"
            "公式及其导数 Φ(x) + xφ(x) 是对的；Φ 没有初等表达式，但可用误差函数精确计算。",
        ),
        (
            Measurement(
                Text("|GELU(x) − xΦ(x)|", "|GELU(x) − xΦ(x)|"), apart(y, at * below), at_most(1e-12)
            ),
            Measurement(
                Text("|GELU′(x) − (Φ(x) + xφ(x))|", "|GELU′(x) − (Φ(x) + xφ(x))|"),
                apart(slope, below + at * density),
                at_most(1e-12),
            ),
            Measurement(
                Text("largest error of the tanh form", "tanh 近似的最大误差"),
                apart(ACTIVATIONS["gelu_tanh"](at), y),
                near(4.73e-4, 5e-6),
            ),
            Measurement(Text("its minimum", "最小值"), float(y[lowest]), near(-0.170, 5e-4)),
            Measurement(Text("where it is", "最小值的位置"), float(at[lowest]), near(-0.752, 2e-3)),
            Measurement(
                Text("two calls: numbers that differ", "两次调用不同的数的个数"),
                differing(ACTIVATIONS["gelu"](at), y),
                equal(0),
            ),
            Measurement(
                Text(
                    "the game played 400,000 times at x = −0.5 (GELU: −0.1543)",
                    "在 x = −0.5 抽 40 万次的平均（GELU：−0.1543）",
                ),
                float(played.double().mean()),
                near(-0.15427, 2e-3),
            ),
        ),
        (_gelu_curves(at[::4000], y[::4000], slope[::4000]),),
    )


def _gelu_curves(x: Tensor, y: Tensor, slope: Tensor) -> Figure:
    near_zero = (x >= -4) & (x <= 3)
    series: dict[pictures.Label, list[float]] = {
        "GELU": y[near_zero].tolist(),
        Text("GELU, derivative", "GELU 的导数"): slope[near_zero].tolist(),
        "ReLU": ACTIVATIONS["relu"](x[near_zero]).tolist(),
    }
    return pictures.curves(
        Text(
            "GELU, its derivative, and ReLU; the minimum is −0.170 at −0.75",
            "GELU、它的导数和 ReLU；最小值 −0.170，位于 −0.75",
        ),
        x[near_zero].tolist(),
        series,
        ("x", "y"),
    )
