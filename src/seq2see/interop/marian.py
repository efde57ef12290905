"""Import MarianMT models in Hugging Face format: `config.json`, weights and SentencePiece files."""

from __future__ import annotations

import json
import os
import pickle
import re
import reprlib
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from safetensors.torch import load_file
from torch import Tensor

from seq2see.bundle import Bundle, Provenance, StartAndEndTokenIds
from seq2see.config import Config
from seq2see.engines.loading import STOP_RULE_NOTE
from seq2see.errors import ConfigError, InputError, Problem, reading
from seq2see.model import ModelConfig
from seq2see.regular_files import check_regular_file, read_regular_file
from seq2see.text import Tokenizer, TokenizerPair
from seq2see.text.sentencepiece_file import replace_vocabulary

ActivationName = Literal["relu", "gelu", "gelu_new", "swish", "silu"]
_ACTIVATIONS: Mapping[ActivationName, str] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "swish": "silu",
    "silu": "silu",
}
"""Names of activation functions in Hugging Face and in `ModelConfig`."""
MAX_JSON_BYTES = 1 << 25
_STACKS = ("encoder", "decoder")
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
    settings = _read_settings(directory)
    marian_weights = _read_weights(directory)
    with _naming_config_file(directory):
        config = _convert_config(settings, marian_weights)
    return Bundle(
        config,
        _read_tokenizers(directory),
        languages or _find_languages(directory, settings),
        _convert_weights(marian_weights, config),
        StartAndEndTokenIds(
            source_eos_id=settings.eos_token_id,
            decoder_start_id=settings.decoder_start_token_id,
            target_eos_id=settings.eos_token_id,
        ),
        provenance=Provenance(
            notes={
                "imported from": f"MarianMT, {directory.resolve().name}",
                STOP_RULE_NOTE: "beam_full",  # the rule of MarianMT
            }
        ),
    )


class MarianSettings(Config, extra="ignore"):
    """Settings in the `config.json` of a MarianMT model."""

    vocab_size: int
    decoder_vocab_size: int | None = None
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    activation_function: ActivationName
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    scale_embedding: bool = False
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    name_or_path: str = Field(default="", alias="_name_or_path")

    def conflicts(self) -> Iterator[Problem]:
        """Yield a problem for each setting that must be the same in encoder and decoder."""
        for name in ("attention_heads", "ffn_dim"):
            encoder, decoder = (getattr(self, f"{stack}_{name}") for stack in _STACKS)
            if encoder != decoder:
                message = f"must be that of the encoder, {encoder}, but is {decoder}"
                yield Problem(f"decoder_{name}", message)


def _read_settings(directory: Path) -> MarianSettings:
    settings = _read_json_object(directory / "config.json")
    if "checksums" in settings:
        raise InputError(f"`{directory}` is a model of seq2see already: there is nothing to import")
    if settings.get("model_type") != "marian":
        raise InputError(
            f"`{directory}` must contain a model of type marian, but its config.json has "
            f"model_type {reprlib.repr(settings.get('model_type'))}"
        )
    with _naming_config_file(directory):
        return MarianSettings(**{k: v for k, v in settings.items() if v is not None})


@contextmanager
def _naming_config_file(directory: Path) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise InputError(f"`{directory / 'config.json'}`: {error}") from None


def _convert_config(settings: MarianSettings, weights: Mapping[str, Tensor]) -> ModelConfig:
    shared, tied = settings.share_encoder_decoder_embeddings, settings.tie_word_embeddings
    return ModelConfig(
        vocab_size=settings.vocab_size,
        target_vocab_size=None if shared else settings.decoder_vocab_size or settings.vocab_size,
        pad_id=settings.pad_token_id,
        d_model=settings.d_model,
        heads=settings.encoder_attention_heads,
        d_ff=settings.encoder_ffn_dim,
        encoder_layers=settings.encoder_layers,
        decoder_layers=settings.decoder_layers,
        activation=_ACTIVATIONS[settings.activation_function],  # type: ignore[arg-type]
        positions={"layout": "halves"},  # type: ignore[arg-type]
        norm={"eps": 1e-5},  # type: ignore[arg-type]
        embeddings={  # type: ignore[arg-type]
            "tie": ("all" if shared else "decoder") if tied else "none",
            "scale": settings.scale_embedding,
            # The bias is often zero. Without it the search takes 10 % less time.
            "output_bias": bool(weights.get(_OUTPUT_BIAS, torch.ones(1)).any()),
        },
        dropout={  # type: ignore[arg-type]
            "embedding": settings.dropout,
            "residual": settings.dropout,
            "attention": settings.attention_dropout,
            "activation": settings.activation_dropout,
        },
    )


def _read_weights(directory: Path) -> dict[str, Tensor]:
    safetensors, pickled = directory / "model.safetensors", directory / "pytorch_model.bin"
    path = safetensors if os.path.lexists(safetensors) else pickled
    if not os.path.lexists(path):
        raise InputError(
            f"`{directory}` must contain {safetensors.name} or {pickled.name}, but has neither"
        )
    with reading(f"`{path}`"):
        check_regular_file(path)
    try:
        weights: Any = load_file(path) if path == safetensors else _load_pickled_file(path)
    except pickle.UnpicklingError:
        raise InputError(
            f"`{path}` must contain only weights, but contains other objects, which are not loaded"
        ) from None
    except Exception as error:  # a damaged pickle can raise any of them
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"`{path}` cannot be read: {reason}") from None
    if problem := _find_weights_problem(weights, path.stat().st_size):
        raise InputError(f"`{path}` must contain only weights, but {problem}")
    return dict(weights)


def _load_pickled_file(path: Path) -> object:
    """Return the object in a pickled file, which may consist of tensors and containers.

    No code runs. Raise InputError if the file is larger in memory than on the disk.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise InputError("it is compressed, as torch never writes it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kinds of tensors that are rejected
        return torch.load(path, map_location="cpu", weights_only=True)


_MAX_NAMES_PER_WEIGHT = 8
"""Maximum size of all weights, relative to the file, in which shared weights are stored once."""


def _find_weights_problem(weights: object, file_bytes: int) -> str | None:
    """Return why the content of a file of weights cannot be used, or None."""
    if not isinstance(weights, dict):
        return f"has a {type(weights).__name__} instead of a table"
    for name, weight in weights.items():
        if problem := _find_tensor_problem(weight):
            return f"{name} {problem}"
        if not isinstance(name, str):
            return f"has a name of type {type(name).__name__}"
    total = sum(weight.numel() * weight.element_size() for weight in weights.values())
    if total > _MAX_NAMES_PER_WEIGHT * file_bytes:
        return f"has {total:,} bytes of weights in a file of {file_bytes:,}"
    return None


def _find_tensor_problem(weight: object) -> str | None:
    if not isinstance(weight, Tensor):
        return f"is a {type(weight).__name__} instead of a tensor"
    is_plain = weight.layout == torch.strided and not weight.is_nested
    if not is_plain or weight.device.type != "cpu" or not weight.is_floating_point():
        kind = f"{weight.layout}, {weight.dtype}, {weight.device}".replace("torch.", "")
        return f"is not a tensor of stored floats ({kind})"
    num_bytes = weight.numel() * weight.element_size()
    if num_bytes > weight.untyped_storage().nbytes():
        return f"has {num_bytes:,} bytes, which are not stored"
    return None


def _convert_weights(weights: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Return the weights under the names of `Transformer`."""

    def concatenate(*names: str) -> Tensor:
        try:
            return torch.cat([weights[name] for name in names])
        except KeyError as error:
            raise InputError(f"the weights must contain {error.args[0]}, but do not") from None
        except RuntimeError:  # of torch, in several lines
            shapes = " and ".join(str(tuple(weights[name].shape)) for name in names)
            raise InputError(f"{names[0]} has shapes that do not fit: {shapes}") from None

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
    if not os.path.lexists(directory / "source.spm"):
        joint = Tokenizer.load(directory / "spm.model")
        return TokenizerPair(joint, joint)
    target_vocab = directory / "target_vocab.json"
    if not os.path.lexists(target_vocab):
        target_vocab = directory / "vocab.json"
    vocab_files = {"source": directory / "vocab.json", "target": target_vocab}
    tokenizers = []
    for side, path in vocab_files.items():
        model = Tokenizer.load(directory / f"{side}.spm").serialized_model
        vocab, is_target = _read_vocabulary(path), side == "target"
        tokenizers.append(Tokenizer(replace_vocabulary(model, vocab, is_target=is_target)))
    return TokenizerPair(*tokenizers)


def _read_vocabulary(path: Path) -> dict[str, int]:
    """Return the ids of the pieces. Raises InputError if the file has other values."""
    vocabulary = _read_json_object(path)
    for piece, number in vocabulary.items():
        if type(number) is not int:
            raise InputError(f"`{path}`: the id of {piece!r} must be an integer")
    return vocabulary


def _find_languages(directory: Path, settings: MarianSettings) -> tuple[str, str]:
    """Return the languages in the tokenizer's configuration or in the name of the model."""
    path = directory / "tokenizer_config.json"
    tokenizer_config = _read_json_object(path) if os.path.lexists(path) else {}
    source, target = (tokenizer_config.get(f"{side}_lang") for side in ("source", "target"))
    if source and target and isinstance(source, str) and isinstance(target, str):
        return source, target
    for name in (settings.name_or_path, directory.resolve().name):
        if match := _MODEL_NAME.search(name):
            return match[1], match[2]
    raise InputError(
        f"`{directory}` does not name its languages: give them, for example `--languages en,de`"
    )


def _read_json_object(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file. Raises `InputError` if it is not an object of Unicode."""
    with reading(f"`{path}`"):
        try:
            content = json.loads(read_regular_file(path, MAX_JSON_BYTES))
            json.dumps(content, ensure_ascii=False).encode()  # no halves of surrogate pairs
        except (ValueError, RecursionError) as error:
            raise InputError(f"`{path}` cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"`{path}` must be a JSON object, but is {type(content).__name__} instead")
    return content
