"""MarianMT, as Hugging Face keeps it: `config.json`, weights, and SentencePiece files."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from seq2see.bundle import Bundle, Provenance, SpecialTokens
from seq2see.engines.loading import STOP_RULE_NOTE
from seq2see.errors import InputError
from seq2see.model import ModelConfig
from seq2see.text import Tokenizer, TokenizerPair
from seq2see.text.sentencepiece_file import replace_vocabulary

_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "swish": "silu",
    "silu": "silu",
}
_OUTPUT_BIAS = "final_logits_bias"
_LANGUAGES = re.compile(r"opus-mt-(?:tc-(?:big|base)-)?(\w+)-(\w+)$")


def import_marian(directory: Path | str, languages: tuple[str, str] | None = None) -> Bundle:
    """Return the model of a directory, or say in one line why it cannot be read."""
    directory = Path(directory)
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "is not there"
        raise InputError(f"`{directory}` {what}: give the directory of a MarianMT model")
    settings = _json(directory / "config.json")
    if "checksums" in settings:
        raise InputError(f"`{directory}` is a model of seq2see already: there is nothing to import")
    if settings.get("model_type") != "marian":
        raise InputError(
            f"`{directory}` must hold a MarianMT model, but its config.json says "
            f"model_type {settings.get('model_type')!r}"
        )
    theirs = _weights(directory)
    config = _config(directory, settings, theirs)
    weights = _renamed(theirs, config)
    return Bundle(
        config,
        _tokenizers(directory),
        languages or _languages(directory, settings),
        weights,
        SpecialTokens(
            source_eos_id=settings["eos_token_id"],
            decoder_start_id=settings["decoder_start_token_id"],
            target_eos_id=settings["eos_token_id"],
        ),
        # Its users know it by such beams.
        provenance=Provenance(
            notes={
                "imported from": f"MarianMT, {directory.resolve().name}",
                STOP_RULE_NOTE: "beam_full",
            }
        ),
    )


def _config(home: Path, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> ModelConfig:
    if problems := list(_refusals(settings)):
        raise InputError(f"`{home / 'config.json'}`: {'; '.join(problems)}")
    shared = settings.get("share_encoder_decoder_embeddings", True)
    target = settings.get("decoder_vocab_size") or settings["vocab_size"]
    tied = settings.get("tie_word_embeddings", True)
    return ModelConfig(
        vocab_size=settings["vocab_size"],
        target_vocab_size=None if shared else target,
        pad_id=settings["pad_token_id"],
        d_model=settings["d_model"],
        heads=settings["encoder_attention_heads"],
        d_ff=settings["encoder_ffn_dim"],
        encoder_layers=settings["encoder_layers"],
        decoder_layers=settings["decoder_layers"],
        activation=_ACTIVATIONS[settings["activation_function"]],  # type: ignore[arg-type]
        positions={"layout": "halves"},  # type: ignore[arg-type]
        norm={"eps": 1e-5},  # type: ignore[arg-type]
        embeddings={  # type: ignore[arg-type]
            "tie": ("all" if shared else "decoder") if tied else "none",
            "scale": settings.get("scale_embedding", False),
            # Often zero, where it would cost a tenth of a search and change nothing.
            "output_bias": bool(weights.get(_OUTPUT_BIAS, torch.ones(1)).any()),
        },
        dropout={  # type: ignore[arg-type]
            "embedding": settings.get("dropout", 0.1),
            "residual": settings.get("dropout", 0.1),
            "attention": settings.get("attention_dropout", 0.0),
            "activation": settings.get("activation_dropout", 0.0),
        },
    )


_NEEDED = (
    *("vocab_size", "d_model", "encoder_layers", "decoder_layers", "activation_function"),
    *("encoder_attention_heads", "decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim"),
    *("pad_token_id", "eos_token_id", "decoder_start_token_id"),
)


def _refusals(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield what our model cannot be."""
    lacking = [name for name in _NEEDED if settings.get(name) is None]
    if lacking:
        yield f"`{'`, `'.join(lacking)}` must be given"
        return
    for name in ("attention_heads", "ffn_dim"):
        both = settings[f"encoder_{name}"], settings[f"decoder_{name}"]
        if both[0] != both[1]:
            yield f"`decoder_{name}` must be that of the encoder, {both[0]}, but is {both[1]}"
    if settings["activation_function"] not in _ACTIVATIONS:
        yield (
            f"`activation_function` must be one of {', '.join(_ACTIVATIONS)}, "
            f"but is {settings['activation_function']} instead"
        )


def _weights(home: Path) -> dict[str, Tensor]:
    safe, pickled = home / "model.safetensors", home / "pytorch_model.bin"
    path = safe if safe.exists() else pickled
    try:
        if path == safe:
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)  # runs no code
    except FileNotFoundError:
        raise InputError(
            f"`{home}` must hold {safe.name} or {pickled.name}, but has none"
        ) from None
    except pickle.UnpicklingError:
        raise InputError(f"`{path}` holds more than weights, and is not trusted") from None
    except (OSError, SafetensorError, RuntimeError, ValueError, EOFError) as error:
        raise InputError(f"`{path}` cannot be read: {str(error).splitlines()[0]}") from None
    return dict(found)


def _renamed(weights: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Return their weights under our names."""

    def take(*names: str) -> Tensor:
        try:
            return torch.cat([weights[name] for name in names])
        except KeyError as error:
            raise InputError(f"the weights must have {error.args[0]}, but have not") from None

    result = _tables(take, weights, config)
    if config.embeddings.output_bias:
        result["output.bias_V"] = take(_OUTPUT_BIAS).flatten()
    for stack, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(count):
            theirs = f"model.{stack}.layers.{number}"
            for ours, names in _layer_names(stack).items():
                for kind in ("weight", "bias"):
                    given = take(*(f"{theirs}.{name}.{kind}" for name in names))
                    result[f"{stack}.layers.{number}.{ours}.{kind}"] = given
    return result


def _tables(
    take: Callable[..., Tensor], weights: Mapping[str, Tensor], config: ModelConfig
) -> dict[str, Tensor]:
    tie = config.embeddings.tie
    names = {"encoder": "model.shared.weight", "decoder": "model.shared.weight"}
    if tie != "all":
        names = {stack: f"model.{stack}.embed_tokens.weight" for stack in names}
    elif "model.shared.weight" not in weights:
        names = dict.fromkeys(names, "model.encoder.embed_tokens.weight")
    result = {f"{stack}.embeddings.tokens.weight_VM": take(name) for stack, name in names.items()}
    output = "lm_head.weight" if tie == "none" else names["decoder"]
    return {**result, "output.tokens.weight_VM": take(output)}


def _layer_names(stack: str) -> dict[str, tuple[str, ...]]:
    """Return their names of each part of a layer, by ours; several are put into one."""
    names: dict[str, tuple[str, ...]] = {
        "attention.qkv": tuple(f"self_attn.{x}_proj" for x in "qkv"),
        "attention.output": ("self_attn.out_proj",),
        "attention_residual.norm": ("self_attn_layer_norm",),
        "feed_forward.up": ("fc1",),
        "feed_forward.down": ("fc2",),
        "feed_forward_residual.norm": ("final_layer_norm",),
    }
    if stack == "decoder":
        names |= {
            "cross_attention.query": ("encoder_attn.q_proj",),
            "cross_attention.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
            "cross_attention.output": ("encoder_attn.out_proj",),
            "cross_attention_residual.norm": ("encoder_attn_layer_norm",),
        }
    return names


def _tokenizers(home: Path) -> TokenizerPair:
    """Read one SentencePiece file whose ids are the model's, or two and a vocabulary."""
    if not (home / "source.spm").exists():
        both = Tokenizer.load(home / "spm.model")
        return TokenizerPair(both, both)
    sides = []
    for side in ("source", "target"):
        path = home / "vocab.json"
        if side == "target" and (home / "target_vocab.json").exists():
            path = home / "target_vocab.json"
        file = Tokenizer.load(home / f"{side}.spm").serialized_model
        sides.append(Tokenizer(replace_vocabulary(file, _json(path), is_target=side == "target")))
    return TokenizerPair(*sides)


def _languages(home: Path, settings: Mapping[str, Any]) -> tuple[str, str]:
    path = home / "tokenizer_config.json"
    about = _json(path) if path.exists() else {}
    if about.get("source_lang") and about.get("target_lang"):
        return about["source_lang"], about["target_lang"]
    for name in (str(settings.get("_name_or_path", "")), home.resolve().name):
        if found := _LANGUAGES.search(name):
            return found[1], found[2]
    raise InputError(f"`{home}` does not tell its languages: give them (`--languages en,de`)")


def _json(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"`{path}` is missing") from None
    except (OSError, ValueError) as error:
        raise InputError(f"`{path}` cannot be read: {error}") from None
    if not isinstance(table, dict):
        raise InputError(f"`{path}` must be a JSON object, but is {type(table).__name__} instead")
    return table
