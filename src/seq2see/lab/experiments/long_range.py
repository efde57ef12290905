"""Experiment 21: how far gradients reach in a sentence."""

from collections.abc import Callable
from functools import partial
from math import nan

import torch
from torch import Tensor, nn

from seq2see.lab.core import (
    Context,
    Numbers,
    Part,
    at_least,
    at_most,
    between,
    experiment,
    false,
    holds,
    holds_if,
    near,
)
from seq2see.lab.figures import Curves
from seq2see.lab.models import SITE, attend
from seq2see.model import (
    CAUSAL_MASK,
    NO_MASK,
    AttentionFunctionConfig,
    BatchLayout,
    ModelBuilder,
    ModelConfig,
)

# B batch, T tokens, M features

WIDTH, LENGTH, FAR = 64, 64, 48
STARTS, SENTENCES = 12, 32
"""Random initial weights per seed, and sentences per initialization."""
FORGET_BIASES = (0, 1, 2, 3)
BUILDER = ModelBuilder(ModelConfig(vocab_size=1, d_model=WIDTH, heads=4))
Network = Callable[[Tensor], Tensor]
"""Computes an output for each token, [B, T, M]; later tokens have no effect."""


class CausalConvolution(nn.Module):
    """Two causal layers of width 3, which see windows of five tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3) for _ in range(2))

    def forward(self, x_BTM: Tensor) -> Tensor:
        """Return the outputs of the second layer."""
        y_BMT = x_BTM.mT
        for layer in self.layers:
            y_BMT = layer(nn.functional.pad(y_BMT, (2, 0))).relu()
        return y_BMT.mT


def build_recurrent(network: nn.RNNBase, forget_bias: float = 0) -> Network:
    """Return a recurrent network; `forget_bias` adds to the forget gate of an LSTM."""
    if forget_bias:
        with torch.no_grad():
            network.get_parameter("bias_ih_l0")[WIDTH : 2 * WIDTH] += forget_bias
    return lambda x_BTM: network(x_BTM)[0]


def build_networks() -> dict[str, Network]:
    """Return networks with initial weights, which depend on the global generator of torch."""
    attention = BUILDER.build_self_attention(AttentionFunctionConfig(), SITE)
    recurrent = partial(nn.LSTM, WIDTH, WIDTH, batch_first=True)
    return {
        "attention": lambda x_BTM: attend(attention, x_BTM, CAUSAL_MASK)[0],
        **{f"lstm_{bias}": build_recurrent(recurrent(), bias) for bias in FORGET_BIASES},
        "gru": build_recurrent(nn.GRU(WIDTH, WIDTH, batch_first=True)),
        "rnn": build_recurrent(nn.RNN(WIDTH, WIDTH, batch_first=True)),
        "cnn": CausalConvolution(),
    }


# "Nothing": a millionth of the gradient at the last word; "much": a tenth. Equal for all distances:
# within a factor of 1.6, which allows for standard errors of the means over 384 sentences.
@experiment(
    21,
    Part("cnn", holds(near("cnn", 0, 0)), false(at_least("cnn", 1e-3))),
    Part("rnn", holds(at_most("rnn", 1e-6)), false(at_least("rnn", 1e-2))),
    Part(
        "gates",
        holds_if(at_most("lstm_0", 1e-6), at_most("gru", 1e-6), at_least("lstm_3", 0.1)),
        holds(at_most("lstm_0", 1e-6), at_most("lstm_3", 0.01)),
        false(at_least("lstm_0", 0.1)),
    ),
    Part("attention", holds(between("attention", 0.6, 1.6)), false(at_most("attention", 0.1))),
    Part("cross", holds(near("cross", 0, 0)), false(at_least("cross", 1e-3))),
    log=["rnn", "gru", "lstm_*", "attention"],
    figures=[
        Curves(
            "curves", "distance",
            [f"curve of {name}" for name in ("attention", "lstm_3", "lstm_1", "lstm_0", "rnn")],
            "gradient", y_scale="log",
        ),
    ],
)  # fmt: skip
def gradient_by_distance(context: Context) -> Numbers:
    """Send a gradient from the last token back to each earlier one, with initial weights."""
    torch.manual_seed(context.mix_seed("starts"))
    found: dict[str, list[Tensor]] = {}
    for _ in range(STARTS):
        for name, network in build_networks().items():
            found.setdefault(name, []).append(_measure_gradients(network))
    reached = {name: torch.stack(each).mean(dim=0) for name, each in found.items()}
    relative = {name: each_T / each_T[int(name == "attention")] for name, each_T in reached.items()}
    return {
        **{name: float(each_T[FAR]) for name, each_T in relative.items()},
        "cross": _measure_between_targets(context),
        "distance": list(range(LENGTH)),
        **{f"curve of {name}": [v or nan for v in x.tolist()] for name, x in relative.items()},
    }


def _measure_gradients(network: Network) -> Tensor:
    """Return the mean norm of the gradient of the last output at each token, nearest first."""
    x_BTM = torch.randn(SENTENCES, LENGTH, WIDTH, requires_grad=True)
    (gradient_BTM,) = torch.autograd.grad(
        network(x_BTM)[:, -1], x_BTM, torch.randn(SENTENCES, WIDTH)
    )
    norms_T: Tensor = gradient_BTM.norm(dim=-1).mean(dim=0)
    return norms_T.flip(0)


def _measure_between_targets(context: Context) -> float:
    """Return the gradient of a target word at the others through cross-attention alone."""
    attention = BUILDER.build_cross_attention(AttentionFunctionConfig(), SITE)
    layout = BatchLayout(1, 6)
    target_TM = context.normal("target", 6, WIDTH).requires_grad_()
    memory = attention.project_memory(context.normal("source", 6, WIDTH), layout)
    output_TM = attention(target_TM, memory, layout, NO_MASK)
    (gradient_TM,) = torch.autograd.grad(output_TM[-1].sum(), target_TM)
    return float(gradient_TM[:-1].abs().max() / gradient_TM[-1].abs().max())
