"""Types of a trace: everything that was recorded while one sentence was translated.

The command line, notebooks and web pages read these types. `docs/trace.md` describes the JSON.
Raise `TRACE_VERSION` when a change would break a reader of the old format. Layers, heads, tokens and
steps are counted from 0.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema
from torch import Tensor

from seq2see import __version__
from seq2see.config import Config
from seq2see.errors import ConfigError, InputError
from seq2see.explain.interventions import Intervention
from seq2see.search import SearchConfig

# T target tokens (steps), S source tokens, H heads, D features of a head, M of the model,
# W source words, R rows of the beam

_KINDS: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "uint8": np.dtype("u1")}


def encode_tensor(array: NDArray[Any]) -> dict[str, object]:
    """Return the JSON form: uint8 for masks, float32 for all else."""
    kind = "uint8" if array.dtype.kind in "ub" else "float32"
    data = np.ascontiguousarray(array, _KINDS[kind]).tobytes()
    return {"shape": list(array.shape), "dtype": kind, "data": b64encode(data).decode("ascii")}


def decode_tensor(value: object) -> NDArray[Any]:
    """Return the array of a JSON form, or the array itself; anything else is refused."""
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, dict) or value.get("dtype") not in _KINDS:
        raise ConfigError(["`dtype` must be float32 or uint8, of a tensor with shape and data"])
    kind = _KINDS[value["dtype"]]
    try:
        numbers = np.frombuffer(b64decode(value["data"], validate=True), kind)
        shape = [int(size) for size in value["shape"]]
    except (Base64Error, KeyError, TypeError, ValueError) as error:
        raise ConfigError([f"`data` must be base64 of such numbers, but: {error}"]) from None
    if numbers.size != prod(shape):
        raise ConfigError(
            [f"`data` must have {prod(shape)} numbers, but has {numbers.size} instead"]
        )
    found: NDArray[Any] = numbers.reshape(shape)
    return found


def to_numpy(tensor: Tensor, dtype: Any = np.float32) -> NDArray[Any]:
    """Return a tensor as NumPy has it."""
    return tensor.detach().cpu().numpy().astype(dtype)


JsonTensor = Annotated[
    NDArray[Any],
    PlainValidator(decode_tensor),
    PlainSerializer(encode_tensor, when_used="json"),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "shape": {"type": "array", "items": {"type": "integer"}},
                "dtype": {"enum": list(_KINDS)},
                "data": {"type": "string", "contentEncoding": "base64"},
            },
            "required": ["shape", "dtype", "data"],
        }
    ),
]
"""A NumPy array that is a packed tensor in JSON."""


TRACE_FORMAT: Literal["seq2see-trace"] = "seq2see-trace"


TRACE_VERSION = 2


TokenAxis = Literal["source", "decoder_input", "target", "projection"]


AttributionMethod = Literal[
    "attention", "rollout", "gradient_x_input", "integrated_gradients", "occlusion"
]


class TraceBaseModel(Config):
    """The base of what a trace holds."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True,
        strict=False,  # lists are tuples here
        extra="ignore",  # a later version may say more
    )


class SentenceToken(TraceBaseModel):
    """A piece of a sentence, as the model has it."""

    id: int
    piece: str
    """As the tokenizer has it, ▁ for a space."""
    text: str
    """As one would show it."""
    word: int | None
    """The word that it is a part of; None for what stands around a sentence."""


class SentenceWord(TraceBaseModel):
    """Some pieces in a row."""

    text: str
    first_token: int
    """Its first token ..."""
    end_token: int
    """... and the one behind its last."""


class TokenizedSentence(TraceBaseModel):
    """A text with its pieces and words; the tokens include what stands around the sentence."""

    language: str
    text: str
    tokens: tuple[SentenceToken, ...]
    words: tuple[SentenceWord, ...]


class TokenCandidate(TraceBaseModel):
    """A token that might come next."""

    id: int
    piece: str
    text: str
    log_prob: float
    probability: float


class DecodingStep(TraceBaseModel):
    """How one token of the translation was chosen."""

    input_piece: str
    """The piece that the decoder was given: the token before, at first the start symbol."""
    log_prob: float
    probability: float
    rank: int
    """How many tokens the model liked better."""
    entropy: float
    """Of the whole distribution, in nats."""
    top_candidates: tuple[TokenCandidate, ...]
    """The likeliest, best first."""


NodeStatus = Literal["alive", "finished", "pruned", "stopped"]


class BeamNode(TraceBaseModel):
    """A hypothesis, by its last token."""

    id: int
    parent: int | None
    """The hypothesis that it goes on from; None for a first token."""
    step: int
    search_index: int
    """Which of several searches it belongs to: a sample, or a group of diverse beam search."""
    token_id: int
    piece: str
    text: str
    token_log_prob: float
    """The model's, of this token. Along a path they sum to `log_prob`."""
    log_prob: float
    penalty: float
    """What processors and coverage take off the score."""
    score: float
    """log_prob / length^α − penalty: what it would be worth, had it ended here."""
    rank: int
    """Its place among the candidates of its step, 0 for the best."""
    status: NodeStatus
    attention_row: int
    """The row of `Beam.attention` that belongs to the choice of this token."""


class BeamLayerAttention(TraceBaseModel):
    """Cross-attention of every hypothesis in one layer."""

    layer: int
    weights: JsonTensor
    """[R, H, S]"""


class BeamTree(TraceBaseModel):
    """The whole search."""

    nodes: tuple[BeamNode, ...]
    best_path: tuple[int, ...]
    """The nodes of the translation, from its first token to its last."""
    mean_attention: JsonTensor
    """[R, S]: where each hypothesis looked in the source, mean over heads and layers."""
    layer_attention: tuple[BeamLayerAttention, ...]
    """The same head by head, for the layers that were asked for."""


class HeadSummary(TraceBaseModel):
    """A head in three numbers, each a mean over its rows."""

    entropy: float
    """In nats: 0 looks at one token, log S at all alike."""
    max_weight: float
    """The largest weight."""
    distance: float | None
    """How far it looks, in tokens; None for cross-attention."""


class AttentionMap(TraceBaseModel):
    """One attention of one layer, all heads; queries are rows."""

    stack: Literal["encoder", "decoder"]
    layer: int
    kind: Literal["self", "cross"]
    query_axis: TokenAxis
    """Which tokens the queries are."""
    key_axis: TokenAxis
    """Which tokens the keys are."""
    weights: JsonTensor
    """[H, queries, keys]"""
    mask: JsonTensor | None
    """[queries, keys], 1 where a query must not look; None if it may look everywhere. Where heads
    differ: [H, queries, keys]."""
    head_summaries: tuple[HeadSummary, ...]
    ablated_heads: tuple[int, ...] = ()
    """Heads that an intervention switched off."""
    scale: float | None
    """The factor on q·k, where that alone makes the scores of every head: not with relative
    positions, nor where an intervention changed it."""
    scores: JsonTensor | None = None
    """[H, queries, keys] before the mask; 0 where a later key did not exist yet."""
    queries: JsonTensor | None = None
    """[H, queries, D]"""
    keys: JsonTensor | None = None
    """[H, keys, D]"""
    values: JsonTensor | None = None
    """[H, keys, D]"""

    @property
    def address(self) -> str:
        """Where it is, such as `decoder.1.cross`."""
        return f"{self.stack}.{self.layer}.{self.kind}"


class LayerOutput(TraceBaseModel):
    """What a layer gives to the next."""

    stack: Literal["encoder", "decoder"]
    layer: int
    norms: JsonTensor
    """[tokens]: the length of each token's vector."""
    states: JsonTensor | None = None
    """[tokens, M], for layers that were asked for."""


class LogitLens(TraceBaseModel):
    """What the model would say if this decoder layer were the last (the logit lens)."""

    layer: int
    probability: JsonTensor
    """[T]: of the tokens that were emitted in the end."""
    top_candidates: tuple[tuple[TokenCandidate, ...], ...]
    """For each step the likeliest, best first."""


class Attribution(TraceBaseModel):
    """How much each source token matters for each step, in the eyes of one method."""

    method: AttributionMethod
    token_scores: JsonTensor | None
    """[T, S]; None for a method that asks about words only."""
    word_scores: JsonTensor
    """[T, W]"""
    is_signed: bool
    """Whether a negative number means "speaks against"."""
    convergence_delta: float | None = None
    """integrated_gradients: the largest relative gap between the sum and what it should be."""


class MethodCorrelation(TraceBaseModel):
    """Spearman's rank correlation between methods, of absolute values over source words."""

    methods: tuple[AttributionMethod, ...]
    correlation: JsonTensor
    """[methods, methods]: mean over steps."""


class WordAlternatives(TraceBaseModel):
    """A word of the translation, and what might stand in its place."""

    word_index: int
    log_prob: float
    probability: float
    """Of its pieces, given all that stands before."""
    alternatives: tuple[TokenCandidate, ...]
    """Whole words, likeliest first; the id is that of the first piece."""


class ScoredTranslation(TraceBaseModel):
    """A translation with what the model thinks of it."""

    text: str
    log_prob: float
    score: float
    is_finished: bool
    """The stop symbol was reached."""


class InterventionEffect(TraceBaseModel):
    """What interventions did, seen from the translation without them."""

    baseline: ScoredTranslation
    """The translation without interventions."""
    baseline_log_prob_after: float
    """The log-probability of the baseline's text under the interventions."""
    word_diff: tuple[tuple[Literal["same", "removed", "added"], str], ...]
    """From the baseline's words to those of the translation."""


class ModelShape(TraceBaseModel):
    """The model in a few numbers."""

    encoder_layers: int
    decoder_layers: int
    heads: int
    d_model: int
    d_head: int
    vocab_size: int
    positions: str
    norm: str
    """Such as `post layer`."""
    num_parameters: int


class Trace(TraceBaseModel):
    """How a translation came about."""

    format: Literal["seq2see-trace"] = TRACE_FORMAT
    version: Annotated[int, Field(ge=TRACE_VERSION, le=TRACE_VERSION)] = TRACE_VERSION
    seq2see_version: str = __version__
    model: ModelShape
    search: SearchConfig
    is_forced: bool
    """The tokens were given, not searched for."""
    interventions: tuple[Intervention, ...] = ()
    intervention_effect: InterventionEffect | None = None
    source: TokenizedSentence
    target: TokenizedSentence
    """Its tokens are the steps' outputs, the stop symbol included if it was reached."""
    start_token: SentenceToken
    """What the decoder was given first."""
    translation: ScoredTranslation
    steps: tuple[DecodingStep, ...]
    beam: BeamTree
    attention: tuple[AttentionMap, ...]
    layer_outputs: tuple[LayerOutput, ...]
    logit_lens: tuple[LogitLens, ...]
    attributions: tuple[Attribution, ...] = ()
    rank_correlation: MethodCorrelation | None = None
    word_alternatives: tuple[WordAlternatives, ...] = ()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` has written."""
        return cls.model_validate_json(text)

    def to_json(self) -> str:
        """Return it in the form of `docs/trace.md`, on one line."""
        return self.model_dump_json()

    def axis_labels(self, axis: TokenAxis, size: int = 0) -> list[str]:
        """Return what to write beside the rows or columns of an attention."""
        if axis == "projection":
            return [f"projection {number}" for number in range(size)]
        if axis == "source":
            return [token.text for token in self.source.tokens]
        emitted = [token.text for token in self.target.tokens]
        return emitted if axis == "target" else [self.start_token.text, *emitted[:-1]]

    def attention_map(self, stack: str, layer: int, kind: str) -> AttentionMap:
        """Return one attention."""
        for found in self.attention:
            if (found.stack, found.layer, found.kind) == (stack, layer, kind):
                return found
        raise InputError(
            f"the attention must be one of {', '.join(a.address for a in self.attention)}, "
            f"but is {stack}.{layer}.{kind} instead"
        )

    def mean_cross_attention(self) -> NDArray[np.float32]:
        """Return cross-attention, mean over heads and layers, [T, S]."""
        maps = [each.weights for each in self.attention if each.kind == "cross"]
        mean: NDArray[np.float32] = np.mean([weights.mean(0) for weights in maps], axis=0)
        return mean

    def save(self, path: Path | str) -> None:
        """Write .json, .html, or a picture (.svg, .png, .pdf), as the name says."""
        from seq2see.explain.output import save_trace  # noqa: PLC0415  # it needs this type

        save_trace(self, Path(path))

    def to_html(self) -> str:
        """Return one page that needs nothing but itself."""
        from seq2see.explain.output import render_trace_html  # noqa: PLC0415

        return render_trace_html(self)

    def _repr_html_(self) -> str:
        from seq2see.explain.output import render_notebook_iframe  # noqa: PLC0415

        return render_notebook_iframe(self)
