"""Conversion of a seq2see model to JoeyNMT, and a client of the JoeyNMT process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import seq2see
from benchmarks.turns import System
from seq2see.engines.batching import add_special_tokens
from seq2see.model import Transformer

PEERS = Path(".peers/bin/python")
SIZES = (32, 64, 128)
MAX_LENGTH = 512


def weights(model: Transformer) -> dict[str, Tensor]:
    """Return the weights under JoeyNMT's names, including position encodings."""
    table = model.encoder.embeddings.tokens.weight_VM
    empty = torch.zeros(1, MAX_LENGTH, table.size(1))
    positions = model.encoder.embeddings.positions(empty, 0)
    named: dict[str, Any] = {
        "src_embed.lut.weight": table,
        "trg_embed.lut.weight": table,
        "decoder.output_layer.weight": table,
        "encoder.pe.pe": positions,
        "decoder.pe.pe": positions,
    }
    if model.output.bias_V is not None:
        named["decoder.output_layer.bias"] = model.output.bias_V
    layer: Any
    for i, layer in enumerate(model.encoder.layers):
        prefix = f"encoder.layers.{i}"
        named |= _attention(f"{prefix}.src_src_att", layer.attention.qkv, layer.attention.output)
        named |= _tensors(f"{prefix}.layer_norm", layer.attention_residual.norm)
        named |= _feed_forward(f"{prefix}.feed_forward", layer)
    for i, layer in enumerate(model.decoder.layers):
        prefix, cross = f"decoder.layers.{i}", layer.cross_attention
        named |= _attention(f"{prefix}.trg_trg_att", layer.attention.qkv, layer.attention.output)
        named |= _attention(f"{prefix}.src_trg_att", cross.key_value, cross.output, cross.query)
        named |= _tensors(f"{prefix}.x_layer_norm", layer.attention_residual.norm)
        named |= _tensors(f"{prefix}.dec_layer_norm", layer.cross_attention_residual.norm)
        named |= _feed_forward(f"{prefix}.feed_forward", layer)
    return {name: tensor.detach().clone() for name, tensor in named.items()}


def _tensors(name: str, module: nn.Module) -> dict[str, Any]:
    return {f"{name}.weight": module.weight, f"{name}.bias": module.bias}


def _attention(
    name: str, fused: nn.Module, output: nn.Module, query: nn.Module | None = None
) -> dict[str, Any]:
    """Return the four layers of an attention; `fused` contains Q, K and V, or only K and V."""
    letters = "qkv" if query is None else "kv"
    named = _tensors(f"{name}.output_layer", output)
    named |= _tensors(f"{name}.q_layer", query) if query is not None else {}
    for kind in ("weight", "bias"):
        parts = getattr(fused, kind).chunk(len(letters))
        named |= {f"{name}.{x}_layer.{kind}": p for x, p in zip(letters, parts, strict=True)}
    return named


def _feed_forward(name: str, layer: Any) -> dict[str, Any]:
    return {
        **_tensors(f"{name}.layer_norm", layer.feed_forward_residual.norm),
        **_tensors(f"{name}.pwff_layer.0", layer.feed_forward.up),
        **_tensors(f"{name}.pwff_layer.3", layer.feed_forward.down),
    }


class JoeyNMT:
    """JoeyNMT in a separate process, with the weights of a seq2see model."""

    def __init__(self, ours: seq2see.Translator, directory: Path, beam: int, threads: int) -> None:
        self._tokenizers, self._special_tokens = ours.tokenizers, ours.engine.special_tokens
        self._job = directory / f"job-{beam}.json"
        config = ours.bundle.config
        self._settings = {
            "beam": beam,
            "alpha": 1.0,
            "start": self._special_tokens.decoder_start_id,
            "end": self._special_tokens.target_eos_id,
            "pad": config.pad_id,
            "layers": config.encoder_layers,
            "heads": config.heads,
            "inner": config.d_ff,
            "eps": config.norm.eps,
        }
        save_file(weights(ours.bundle.build_model()), directory / "joeynmt.safetensors")
        self._job.write_text(json.dumps(self._settings))
        script = [str(PEERS), "-m", "benchmarks.translators.joeynmt"]
        command = [*script, str(directory / "joeynmt.safetensors"), str(self._job)]
        self.system = System(command, threads)

    def translator(self, batch: int) -> Callable[[list[str]], list[str]]:
        """Return a function that translates in batches of this size."""

        def translate(lines: list[str]) -> list[str]:
            ids = self._tokenizers.source.encode_batch(lines)
            job = {
                **self._settings,
                "batch": batch,
                "sentences": [
                    add_special_tokens(sentence, self._special_tokens) for sentence in ids
                ],
            }
            self._job.write_text(json.dumps(job))
            self.system.turn()
            outputs = json.loads(self._job.with_suffix(".found").read_text())
            return [self._tokenizers.target.decode([*self._content(tokens)]) for tokens in outputs]

        return translate

    def _content(self, tokens: list[int]) -> Iterator[int]:
        for token in tokens:
            if token == self._special_tokens.target_eos_id:
                return
            yield token
