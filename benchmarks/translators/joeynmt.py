"""JoeyNMT 2.3: its own model and search on our weights; runs in .peers.

    joeynmt.py WEIGHTS JOB

For each turn it reads the job anew (ids of sentences, the beam, the size of a batch) and writes
the ids that it found behind it.
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

from benchmarks.trainers.joeynmt import Words, stack
from benchmarks.turns import take_turns


def build(weights: dict[str, torch.Tensor], job: dict[str, Any]) -> Any:
    """Return its model with these weights; of its own it has no bias at the output."""
    size, features = weights["src_embed.lut.weight"].shape
    words = Words(size)
    words.bos_index, words.eos_index, words.pad_index = job["start"], job["end"], job["pad"]
    shape = stack(job["layers"], job["heads"], features, job["inner"])
    settings = {
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": shape,
        "decoder": shape,
    }
    model = build_model(settings, words, words)
    if "decoder.output_layer.bias" in weights:
        model.decoder.output_layer.bias = torch.nn.Parameter(torch.zeros(size))
    longest = weights["encoder.pe.pe"].size(1)
    for part in (model.encoder, model.decoder):
        part.pe.pe = torch.zeros(1, longest, features)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = job["eps"]
    model.load_state_dict(weights)
    return model.eval()


def translated(model: Any, job: dict[str, Any]) -> list[list[int]]:
    """Return what it finds for each sentence."""
    sentences = job["sentences"]
    found: list[list[int]] = [[] for _ in sentences]
    order = sorted(range(len(sentences)), key=lambda place: -len(sentences[place]))
    for first in range(0, len(order), job["batch"]):
        places = order[first : first + job["batch"]]
        rows = [sentences[place] for place in places]
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
        for place, tokens in zip(places, output.tolist(), strict=True):
            found[place] = tokens
    return found


def main() -> None:
    """Translate what the job says, turn by turn."""
    weights, job = load_file(sys.argv[1]), Path(sys.argv[2])
    model = build(weights, json.loads(job.read_text()))

    def work() -> None:
        found = translated(model, json.loads(job.read_text()))
        job.with_suffix(".found").write_text(json.dumps(found))

    take_turns(work)


if __name__ == "__main__":
    main()
