"""Compare forward and backward of the Transformer with `torch.nn.Transformer` of the same size.

    python -m benchmarks.model [--presets tiny base] [--rounds 15]

Both compute the logits of all target tokens except padding, and all gradients from the same
gradient of these logits, without a loss. Both get the same batches, the same dropout (on embeddings
and residual connections, as in the paper) and three-way tied embeddings. Each runs in its fastest
form: fused attention, the causal hint, freed memory kept. The runs alternate batch by batch, with a
matrix product that measures the peak; all figures are medians.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.machine import matmul_work, seconds
from seq2see.cpu import tune_malloc
from seq2see.model import ModelConfig, Transformer, compute_sinusoids

# Lengths in tokens (joint BPE of 8,000, end token included) of the 29,000 training pairs of
# multi30k en–de: source length, target length, count.
LENGTHS = Path(__file__).parent / "data" / "multi30k-lengths.tsv"
VOCABULARY = {"tiny": 8_000, "small": 8_000, "base": 37_000, "big": 37_000}
BATCHES = {"tiny": 4, "small": 4, "base": 1, "big": 1}  # per round
PAD = 0

Run = Callable[["Pair"], object]

# B batch, S source tokens, T target tokens, N real target tokens, M features, V vocabulary


class Pair(NamedTuple):
    """A source and a target batch; the target begins with the start token."""

    src_BS: Tensor
    tgt_BT: Tensor
    gradient_NV: Tensor
    """Gradient of the logits."""

    @property
    def tokens(self) -> tuple[int, int]:
        """Number of source tokens and of target tokens to predict, without padding."""
        return int((self.src_BS != PAD).sum()), int((self.tgt_BT[:, 1:] != PAD).sum())


def ragged_batches(vocab_size: int, budget: int, count: int, bucketed: bool) -> Iterator[Pair]:
    """Yield random batches with lengths of a real corpus, sorted by length if `bucketed`."""
    rng = random.Random(1)
    with LENGTHS.open(encoding="utf-8") as file:
        rows = [tuple(map(int, row)) for row in csv.reader(file, delimiter="\t")]
    pairs = [(s, t) for s, t, n in rows for _ in range(n)]
    rng.shuffle(pairs)
    if bucketed:
        pairs.sort()
    for i in range(count):
        start = int((i + rng.random()) / count * (len(pairs) - budget))
        lengths = list(within(budget, pairs[start:]))
        sources, targets = (
            [_sentence(n, vocab_size) for n in side] for side in zip(*lengths, strict=True)
        )
        gradient_NV = torch.randn(sum(t for _, t in lengths), vocab_size)
        yield Pair(_pad(sources), F.pad(_pad(targets), (1, 0), value=2), gradient_NV)


def within(budget: int, pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield pairs while all of them, padded to the longest, have at most `budget` tokens."""
    max_lengths = (0, 0)
    for i, pair in enumerate(pairs, 1):
        max_lengths = (max(max_lengths[0], pair[0]), max(max_lengths[1], pair[1]))
        if i * sum(max_lengths) > budget:
            return
        yield pair


def _sentence(length: int, vocab_size: int) -> Tensor:
    return torch.randint(4, vocab_size, (length,))


def _pad(sentences: list[Tensor]) -> Tensor:
    return nn.utils.rnn.pad_sequence(sentences, batch_first=True, padding_value=PAD)


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` with embeddings, positions and an output layer."""

    table_NM: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.dropout.embedding)
        self.scale = math.sqrt(config.d_model)
        table_NM = compute_sinusoids(torch.arange(512), config.d_model).float()
        self.register_buffer("table_NM", table_NM, persistent=False)
        self.stacks = nn.Transformer(
            config.d_model,
            config.heads,
            config.encoder_layers,
            config.decoder_layers,
            config.d_ff,
            config.dropout.residual,
            layer_norm_eps=config.norm.eps,
            batch_first=True,
        )
        # Its post-norm stacks end with one more norm than in the paper, and it has two more
        # dropouts, one of which would prevent the fused attention kernel.
        self.stacks.encoder.norm = self.stacks.decoder.norm = None
        for module in self.stacks.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = config.dropout.attention
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = config.dropout.activation

    def embed(self, ids_BT: Tensor) -> Tensor:
        """Return the embeddings of tokens with positions."""
        return self.dropout(self.tokens(ids_BT) * self.scale + self.table_NM[: ids_BT.size(1)])

    def forward(self, src_BS: Tensor, tgt_BT: Tensor) -> Tensor:
        """Return the decoder states."""
        padding_BS = src_BS == PAD
        return self.stacks(
            self.embed(src_BS),
            self.embed(tgt_BT),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(tgt_BT.size(1)),
            tgt_is_causal=True,
            src_key_padding_mask=padding_BS,
            memory_key_padding_mask=padding_BS,
        )


def step(states: Callable[[Tensor, Tensor], Tensor], weight_VM: Tensor, pair: Pair) -> None:
    """Run forward and backward once; the output layer is applied to tokens without padding only."""
    real_BT = pair.tgt_BT[:, 1:] != PAD
    states_NM = states(pair.src_BS, pair.tgt_BT[:, :-1])[real_BT]
    F.linear(states_NM, weight_VM).backward(pair.gradient_NV)


def flops(config: ModelConfig, pairs: list[Pair]) -> float:
    """Return 6 × the number of weights that each token uses, summed over all tokens."""
    square, feed_forward = config.d_model**2, 2 * config.d_model * config.d_ff
    source = config.encoder_layers * (4 * square + feed_forward)
    source += config.decoder_layers * 2 * square  # keys and values of the encoder output
    target = config.decoder_layers * (6 * square + feed_forward)
    target += config.d_model * config.output_vocab_size
    sources, targets = (sum(n) for n in zip(*(pair.tokens for pair in pairs), strict=True))
    return 6.0 * (source * sources + target * targets)


class Times(NamedTuple):
    """Median seconds of both systems over all batches, and of the matrix product."""

    ours: float
    theirs: float
    matmul: float


def alternate(ours: Run, theirs: Run, matmul: Run, pairs: list[Pair], rounds: int) -> Times:
    """Run both systems alternately on each batch; the order alternates as well."""
    times: dict[tuple[int, str], list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for i, pair in enumerate(pairs):
            order = [("ours", ours), ("theirs", theirs), ("matmul", matmul)]
            for name, run in order if (number + i) % 2 else reversed(order):
                times[i, name].append(seconds(partial(run, pair)))
    medians = {key: median(values[1:]) for key, values in times.items()}  # without the warm-up
    total = {n: sum(medians[i, n] for i in range(len(pairs))) for n in ("ours", "theirs", "matmul")}
    return Times(total["ours"], total["theirs"], total["matmul"] / len(pairs))


def compare(preset: str, bucketed: bool, budget: int, rounds: int) -> None:
    """Time both systems on the same batches and print a row."""
    config = ModelConfig.from_preset(preset, vocab_size=VOCABULARY[preset])
    ours, theirs = Transformer.from_config(config), TorchTransformer(config)
    pairs = list(ragged_batches(config.vocab_size, budget, BATCHES[preset], bucketed))
    matmul, matmul_flops = matmul_work()

    def our_step(pair: Pair) -> None:
        step(lambda s, t: ours.decode(t, ours.encode(s)), ours.output.tokens.weight_VM, pair)
        ours.zero_grad()

    def their_step(pair: Pair) -> None:
        step(theirs, theirs.tokens.weight, pair)
        theirs.zero_grad()

    times = alternate(our_step, their_step, lambda _: matmul(), pairs, rounds)
    tokens = sum(sum(pair.tokens) for pair in pairs)
    padding = 1 - tokens / sum(p.src_BS.numel() + p.tgt_BT[:, 1:].numel() for p in pairs)
    peak = matmul_flops / times.matmul
    print(
        f"| {preset} | {'similar' if bucketed else 'mixed'} | {padding:.1%} "
        f"| {tokens / times.ours:,.0f} | {tokens / times.theirs:,.0f} "
        f"| {times.theirs / times.ours:.2f} | {flops(config, pairs) / times.ours / peak:.0%} "
        f"| {peak / 1e9:.0f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--presets", nargs="+", default=["tiny", "base"], choices=list(VOCABULARY))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--tokens", type=int, default=4096, help="source and target tokens per batch (default 4096)"
    )
    args = parser.parse_args()
    torch.manual_seed(1)
    tune_malloc()
    print(
        "| preset | lengths | padding | seq2see, tokens/s | torch.nn, tokens/s | ratio "
        "| of the peak | peak, GFLOP/s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for preset in args.presets:
        for bucketed in (True, False):
            compare(preset, bucketed, args.tokens, args.rounds)


if __name__ == "__main__":
    main()
