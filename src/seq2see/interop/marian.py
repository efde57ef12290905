"""Import MarianMT models in Hugging Face format: `config.json`, weights and SentencePiece files."""

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

from seq2see.bundle import Bundle, Provenance, StartAndEndTokenIds
from seq2see.engines.loading import STOP_RULE_NOTE
from seq2see.errors import InputError, reading
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
"""Names of activation functions in Hugging Face and in `ModelConfig`."""
_SETTING_NAMES = {
    **{name: name for name in ("vocab_size", "d_model", "encoder_layers", "decoder_layers")},
    "pad_id": "pad_token_id",
    "heads": "encoder_attention_heads",
    "d_ff": "encoder_ffn_dim",
}
"""Names of settings in `ModelConfig`, and in `config.json` of MarianMT."""
_OUTPUT_BIAS = "final_logits_bias"
_MODEL_NAME = re.compile(r"opus-mt-(?:tc-(?:big|base)-)?(\w+)-(\w+)$")


def import_model(directory: Path | str, languages: tuple[str, str] | None = None) -> Bundle:
    """Read a MarianMT model in Hugging Face format.

    Args:
        directory: Directory with `config.json`, the weights and the files of the tokenizer.
        languages: Source and target language. Default: read from the configuration or the name.

    Raises InputError if the model cannot be read or is not supported.
    """
    directory = Path(directory)
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise InputError(f"`{directory}` {what}: give the directory of a MarianMT model")
    settings = _read_json_object(directory / "config.json")
    if "checksums" in settings:
        raise InputError(f"`{directory}` is a model of seq2see already: there is nothing to import")
    if settings.get("model_type") != "marian":
        raise InputError(
            f"`{directory}` must contain a model of type marian, but its config.json has "
            f"model_type {settings.get('model_type')!r}"
        )
    marian_weights = _read_weights(directory)
    config = _convert_config(directory, settings, marian_weights)
    return Bundle(
        config,
        _read_tokenizers(directory),
        languages or _find_languages(directory, settings),
        _convert_weights(marian_weights, config),
        StartAndEndTokenIds(
            source_eos_id=settings["eos_token_id"],
            decoder_start_id=settings["decoder_start_token_id"],
            target_eos_id=settings["eos_token_id"],
        ),
        provenance=Provenance(
            notes={
                "imported from": f"MarianMT, {directory.resolve().name}",
                STOP_RULE_NOTE: "beam_full",  # the rule of MarianMT
            }
        ),
    )


def _convert_config(
    directory: Path, settings: Mapping[str, Any], weights: Mapping[str, Tensor]
) -> ModelConfig:
    if problems := list(_find_problems(settings)):
        raise InputError(f"`{directory / 'config.json'}`: {'; '.join(problems)}")
    shared = settings.get("share_encoder_decoder_embeddings", True)
    target = settings.get("decoder_vocab_size") or settings["vocab_size"]
    tied = settings.get("tie_word_embeddings", True)
    return ModelConfig(
        **{ours: settings[theirs] for ours, theirs in _SETTING_NAMES.items()},
        target_vocab_size=None if shared else target,
        activation=_ACTIVATIONS[settings["activation_function"]],  # type: ignore[arg-type]
        positions={"layout": "halves"},  # type: ignore[arg-type]
        norm={"eps": 1e-5},  # type: ignore[arg-type]
        embeddings={  # type: ignore[arg-type]
            "tie": ("all" if shared else "decoder") if tied else "none",
            "scale": settings.get("scale_embedding", False),
            # The bias is often zero. Without it the search takes 10 % less time.
            "output_bias": bool(weights.get(_OUTPUT_BIAS, torch.ones(1)).any()),
        },
        dropout={  # type: ignore[arg-type]
            "embedding": settings.get("dropout", 0.1),
            "residual": settings.get("dropout", 0.1),
            "attention": settings.get("attention_dropout", 0.0),
            "activation": settings.get("activation_dropout", 0.0),
        },
    )


_REQUIRED_SETTINGS = (
    *(*_SETTING_NAMES.values(), "activation_function", "decoder_attention_heads"),
    *("decoder_ffn_dim", "eos_token_id", "decoder_start_token_id"),
)


def _find_problems(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings that are missing or not supported."""
    missing = [name for name in _REQUIRED_SETTINGS if settings.get(name) is None]
    if missing:
        yield f"`{'`, `'.join(missing)}` must be given"
        return
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = settings[f"encoder_{name}"], settings[f"decoder_{name}"]
        if encoder != decoder:
            yield f"`decoder_{name}` must be that of the encoder, {encoder}, but is {decoder}"
    if settings["activation_function"] not in _ACTIVATIONS:
        yield (
            f"`activation_function` must be one of {', '.join(_ACTIVATIONS)}, "
            f"but is {settings['activation_function']} instead"
        )


def _read_weights(directory: Path) -> dict[str, Tensor]:
    safetensors, pickled = directory / "model.safetensors", directory / "pytorch_model.bin"
    path = safetensors if safetensors.exists() else pickled
    try:
        if path == safetensors:
            return load_file(path)
        weights = torch.load(path, map_location="cpu", weights_only=True)  # does not run code
    except FileNotFoundError:
        raise InputError(
            f"`{directory}` must contain {safetensors.name} or {pickled.name}, but has neither"
        ) from None
    except pickle.UnpicklingError:
        raise InputError(
            f"`{path}` must contain only weights, but contains other objects, which are not loaded"
        ) from None
    except (OSError, SafetensorError, RuntimeError, ValueError, EOFError) as error:
        raise InputError(f"`{path}` cannot be read: {str(error).splitlines()[0]}") from None
    return dict(weights)


def _convert_weights(weights: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Return the weights under the names of `Transformer`."""

    def concatenate(*names: str) -> Tensor:
        try:
            return torch.cat([weights[name] for name in names])
        except KeyError as error:
            raise InputError(f"the weights must contain {error.args[0]}, but do not") from None

    result = _convert_embeddings(concatenate, weights, config)
    if config.embeddings.output_bias:
        result["output.bias_V"] = concatenate(_OUTPUT_BIAS).flatten()
    num_layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    for stack, count in num_layers.items():
        for layer in range(count):
            prefix = f"model.{stack}.layers.{layer}"
            for name, marian_names in _layer_names(stack).items():
                for kind in ("weight", "bias"):
                    weight = concatenate(*(f"{prefix}.{one}.{kind}" for one in marian_names))
                    result[f"{stack}.layers.{layer}.{name}.{kind}"] = weight
    return result


def _convert_embeddings(
    concatenate: Callable[..., Tensor], weights: Mapping[str, Tensor], config: ModelConfig
) -> dict[str, Tensor]:
    """Return the embeddings of encoder and decoder and the output matrix."""
    tie = config.embeddings.tie
    names = {"encoder": "model.shared.weight", "decoder": "model.shared.weight"}
    if tie != "all":
        names = {stack: f"model.{stack}.embed_tokens.weight" for stack in names}
    elif "model.shared.weight" not in weights:
        names = dict.fromkeys(names, "model.encoder.embed_tokens.weight")
    result = {
        f"{stack}.embeddings.tokens.weight_VM": concatenate(name) for stack, name in names.items()
    }
    output = "lm_head.weight" if tie == "none" else names["decoder"]
    return {**result, "output.tokens.weight_VM": concatenate(output)}


def _layer_names(stack: str) -> dict[str, tuple[str, ...]]:
    """Return for each module of a layer the MarianMT modules; several are concatenated."""
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


def _read_tokenizers(directory: Path) -> TokenizerPair:
    """Read one SentencePiece file with the ids of the model, or two files and a vocabulary."""
    if not (directory / "source.spm").exists():
        joint = Tokenizer.load(directory / "spm.model")
        return TokenizerPair(joint, joint)
    target_vocab = directory / "target_vocab.json"
    if not target_vocab.exists():
        target_vocab = directory / "vocab.json"
    vocab_files = {"source": directory / "vocab.json", "target": target_vocab}
    tokenizers = []
    for side, path in vocab_files.items():
        model = Tokenizer.load(directory / f"{side}.spm").serialized_model
        vocab, is_target = _read_json_object(path), side == "target"
        tokenizers.append(Tokenizer(replace_vocabulary(model, vocab, is_target=is_target)))
    return TokenizerPair(*tokenizers)


def _find_languages(directory: Path, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the languages in the tokenizer's configuration or in the name of the model."""
    path = directory / "tokenizer_config.json"
    tokenizer_config = _read_json_object(path) if path.exists() else {}
    if tokenizer_config.get("source_lang") and tokenizer_config.get("target_lang"):
        return tokenizer_config["source_lang"], tokenizer_config["target_lang"]
    for name in (str(settings.get("_name_or_path", "")), directory.resolve().name):
        if match := _MODEL_NAME.search(name):
            return match[1], match[2]
    raise InputError(
        f"`{directory}` does not name its languages: give them, for example `--languages en,de`"
    )


def _read_json_object(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file. Raises `InputError` if it is not an object."""
    with reading(f"`{path}`"):
        try:
            content = json.loads(path.read_bytes())
        except ValueError as error:
            raise InputError(f"`{path}` cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"`{path}` must be a JSON object, but is {type(content).__name__} instead")
    return content
