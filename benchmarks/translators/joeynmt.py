"""JoeyNMT 2.3 with its own model and search, and the weights of seq2see; runs in .peers.

    joeynmt.py WEIGHTS JOB

For each turn it reads the job file (ids of the sentences, beam size, batch size) and writes the ids
of the translations to a file with the extension .found.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from joeynmt.batch import Batch  # type: ignore[import-not-found]
from joeynmt.model import build_model  # type: ignore[import-not-found]
from joeynmt.search import search  # type: ignore[import-not-found]
from safetensors.torch import load_file

from benchmarks.trainers.joeynmt import IdVocabulary, stack_settings
from benchmarks.turns import take_turns


def build(weights: dict[str, torch.Tensor], job: dict[str, Any]) -> Any:
    """Return its model with these weights and, if they have one, an output bias."""
    size, features = weights["src_embed.lut.weight"].shape
    vocab = IdVocabulary(size)
    vocab.bos_index, vocab.eos_index, vocab.pad_index = job["start"], job["end"], job["pad"]
    shape = stack_settings(job["layers"], job["heads"], features, job["inner"])
    settings = {
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": shape,
        "decoder": shape,
    }
    model = build_model(settings, vocab, vocab)
    if "decoder.output_layer.bias" in weights:
        model.decoder.output_layer.bias = torch.nn.Parameter(torch.zeros(size))
    max_length = weights["encoder.pe.pe"].size(1)
    for part in (model.encoder, model.decoder):
        part.pe.pe = torch.zeros(1, max_length, features)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = job["eps"]
    model.load_state_dict(weights)
    return model.eval()


def translate(model: Any, job: dict[str, Any]) -> list[list[int]]:
    """Return the ids of the translation of each sentence."""
    sentences = job["sentences"]
    translations: list[list[int]] = [[] for _ in sentences]
    order = sorted(range(len(sentences)), key=lambda index: -len(sentences[index]))
    for first in range(0, len(order), job["batch"]):
        indices = order[first : first + job["batch"]]
        rows = [sentences[index] for index in indices]
        width = max(map(len, rows))
        source = torch.tensor([[*row, *[job["pad"]] * (width - len(row))] for row in rows])
        lengths = torch.tensor([*map(len, rows)])
        batch = Batch(
            source,
            lengths,
            None,
            None,
            None,
            torch.arange(len(rows)),
            torch.device("cpu"),
            job["pad"],
            job["end"],
            is_train=False,
        )
        with torch.inference_mode():
            output, _, _ = search(model, batch, 2 * width + 20, job["beam"], job["alpha"])
        for index, tokens in zip(indices, output.tolist(), strict=True):
            translations[index] = tokens
    return translations


def main() -> None:
    """Translate the sentences of the job once per turn."""
    weights, job = load_file(sys.argv[1]), Path(sys.argv[2])
    model = build(weights, json.loads(job.read_text()))

    def work() -> None:
        translations = translate(model, json.loads(job.read_text()))
        job.with_suffix(".found").write_text(json.dumps(translations))

    take_turns(work)


if __name__ == "__main__":
    main()
