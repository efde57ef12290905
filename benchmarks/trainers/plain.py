"""A plain training loop around `torch.nn.Transformer`, as usually written, in its fastest form.

It uses fused attention, the causal hint and an output layer without padding, but none of the
optimizations of memory, dropout and loss of seq2see.
"""

from __future__ import annotations

import sys

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from benchmarks.model import PAD, TorchTransformer
from benchmarks.turns import take_turns
from seq2see.model import ModelConfig


def main() -> None:
    """Train on the batches once per turn."""
    path, preset, vocabulary = sys.argv[1:]
    torch.manual_seed(1)
    config = ModelConfig.from_preset(preset, vocab_size=int(vocabulary))
    model = TorchTransformer(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    tensors = load_file(path)
    pairs = [(tensors[f"source.{i}"], tensors[f"target.{i}"]) for i in range(len(tensors) // 2)]

    def step(source_BS: Tensor, target_BT: Tensor) -> float:
        labels_BT = target_BT[:, 1:]
        real_BT = labels_BT != PAD
        states_NM = model(source_BS, target_BT[:, :-1])[real_BT]
        logits_NV = F.linear(states_NM, model.tokens.weight)
        loss = F.cross_entropy(logits_NV, labels_BT[real_BT], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    take_turns(lambda: [step(*pair) for pair in pairs])


if __name__ == "__main__":
    main()
