"""JoeyNMT 2.3 with its own model, batch, loss and training step; runs in .peers."""

from __future__ import annotations

import sys
from typing import Any

import torch
from joeynmt.batch import Batch  # type: ignore[import-not-found]
from joeynmt.model import build_model  # type: ignore[import-not-found]
from joeynmt.vocabulary import Vocabulary  # type: ignore[import-not-found]
from safetensors.torch import load_file

from benchmarks.turns import take_turns

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SIZES = {"tiny": (4, 4, 128, 256), "base": (6, 8, 512, 2048)}
"""Layers, heads, model size and feed-forward size of the presets of seq2see."""


class IdVocabulary(Vocabulary):  # type: ignore[misc]
    """Vocabulary of ids with the special ids of seq2see, whose order JoeyNMT's class rejects."""

    def __init__(self, size: int) -> None:
        self.specials = ["<unk>", "<pad>", "<s>", "</s>"]
        self.lang_tags: list[str] = []
        self._itos = ["<pad>", "<unk>", "<s>", "</s>", *map(str, range(4, size))]
        self._stoi = {word: number for number, word in enumerate(self._itos)}
        self.pad_index, self.unk_index, self.bos_index, self.eos_index = PAD, UNK, BOS, EOS
        self.sep_index = None


def stack_settings(layers: int, heads: int, features: int, inner: int) -> dict[str, Any]:
    """Return the settings of an encoder or decoder."""
    return {
        "type": "transformer",
        "num_layers": layers,
        "num_heads": heads,
        "hidden_size": features,
        "ff_size": inner,
        "dropout": 0.1,
        "layer_norm": "post",
        "embeddings": {"embedding_dim": features, "scale": True, "dropout": 0.1},
    }


def main() -> None:
    """Train on the batches once per turn."""
    path, preset, vocabulary = sys.argv[1:]
    torch.manual_seed(1)
    vocab = IdVocabulary(int(vocabulary))
    settings = {
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": stack_settings(*SIZES[preset]),
        "decoder": stack_settings(*SIZES[preset]),
    }
    model = build_model(settings, vocab, vocab)
    model.loss_function = ("crossentropy", 0.1)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    tensors = load_file(path)
    pairs = [(tensors[f"source.{i}"], tensors[f"target.{i}"]) for i in range(len(tensors) // 2)]

    def step(source_BS: torch.Tensor, target_BT: torch.Tensor) -> float:
        count = len(source_BS)
        lengths_B = (source_BS != PAD).sum(1)
        cpu = torch.device("cpu")
        batch = Batch(
            source_BS, lengths_B, None, target_BT, None, torch.arange(count), cpu, PAD, EOS
        )
        batch.sort_by_src_length()
        loss, _, _, correct = model(return_type="loss", **vars(batch))
        loss = batch.normalize(loss, normalization="tokens")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.item() + 0 * correct.item())

    take_turns(lambda: [step(*pair) for pair in pairs])


if __name__ == "__main__":
    main()
