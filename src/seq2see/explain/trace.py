"""Types of a trace: everything that was recorded while one sentence was translated.

The command line, notebooks and web pages read these types. `docs/trace.md` describes the JSON.
Raise `VERSION` when a change would break a reader of the old format. Layers, heads, tokens and
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


def pack(array: NDArray[Any]) -> dict[str, object]:
    """Return the JSON form: uint8 for masks, float32 for all else."""
    kind = "uint8" if array.dtype.kind in "ub" else "float32"
    data = np.ascontiguousarray(array, _KINDS[kind]).tobytes()
    return {"shape": list(array.shape), "dtype": kind, "data": b64encode(data).decode("ascii")}


def unpack(value: object) -> NDArray[Any]:
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


def array(tensor: Tensor, kind: Any = np.float32) -> NDArray[Any]:
    """Return a tensor as NumPy has it."""
    return tensor.detach().cpu().numpy().astype(kind)


Array = Annotated[
    NDArray[Any],
    PlainValidator(unpack),
    PlainSerializer(pack, when_used="json"),
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


FORMAT: Literal["seq2see-trace"] = "seq2see-trace"


VERSION = 1


Axis = Literal["source", "input", "output", "mixture"]


Method = Literal["attention", "rollout", "gradient_x_input", "integrated_gradients", "occlusion"]


class Record(Config):
    """The base of what a trace holds."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True,
        strict=False,  # lists are tuples here
        extra="ignore",  # a later version may say more
    )


class Token(Record):
    """A piece of a sentence, as the model has it."""

    id: int
    piece: str
    """As the tokenizer has it, ▁ for a space."""
    text: str
    """As one would show it."""
    word: int | None
    """The word that it is a part of; None for what stands around a sentence."""


class Word(Record):
    """Some pieces in a row."""

    text: str
    first: int
    """Its first token ..."""
    end: int
    """... and the one behind its last."""


class Sentence(Record):
    """A text with its pieces and words; the tokens include what stands around the sentence."""

    language: str
    text: str
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]


class Candidate(Record):
    """A token that might come next."""

    id: int
    piece: str
    text: str
    log_prob: float
    probability: float


class Step(Record):
    """How one token of the translation was chosen."""

    input: str
    """The piece that the decoder was given: the token before, at first the start symbol."""
    log_prob: float
    probability: float
    rank: int
    """How many tokens the model liked better."""
    entropy: float
    """Of the whole distribution, in nats."""
    top: tuple[Candidate, ...]
    """The likeliest, best first."""


Fate = Literal["alive", "finished", "pruned", "stopped"]


class BeamNode(Record):
    """A hypothesis, by its last token."""

    id: int
    parent: int | None
    """The hypothesis that it goes on from; None for a first token."""
    step: int
    member: int
    """Which of several searches it belongs to: a sample, or a group of diverse beam search."""
    token: int
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
    fate: Fate
    row: int
    """The row of `Beam.attention` that belongs to the choice of this token."""


class LayerRows(Record):
    """Cross-attention of every hypothesis in one layer."""

    layer: int
    weights: Array
    """[R, H, S]"""


class Beam(Record):
    """The whole search."""

    nodes: tuple[BeamNode, ...]
    path: tuple[int, ...]
    """The nodes of the translation, from its first token to its last."""
    attention: Array
    """[R, S]: where each hypothesis looked in the source, mean over heads and layers."""
    layers: tuple[LayerRows, ...]
    """The same head by head, for the layers that were asked for."""


class HeadSummary(Record):
    """A head in three numbers, each a mean over its rows."""

    entropy: float
    """In nats: 0 looks at one token, log S at all alike."""
    peak: float
    """The largest weight."""
    distance: float | None
    """How far it looks, in tokens; None for cross-attention."""


class AttentionMap(Record):
    """One attention of one layer, all heads; queries are rows."""

    stack: Literal["encoder", "decoder"]
    layer: int
    kind: Literal["self", "cross"]
    rows: Axis
    """Which tokens the queries are."""
    columns: Axis
    """Which tokens the keys are."""
    weights: Array
    """[H, queries, keys]"""
    mask: Array | None
    """[queries, keys], 1 where a query must not look; None if it may look everywhere. Where heads
    differ: [H, queries, keys]."""
    heads: tuple[HeadSummary, ...]
    off: tuple[int, ...] = ()
    """Heads that an intervention switched off."""
    scale: float | None
    """The factor on q·k, where that alone makes the scores of every head: not with relative
    positions, nor where an intervention changed it."""
    scores: Array | None = None
    """[H, queries, keys] before the mask; 0 where a later key did not exist yet."""
    queries: Array | None = None
    """[H, queries, D]"""
    keys: Array | None = None
    """[H, keys, D]"""
    values: Array | None = None
    """[H, keys, D]"""

    @property
    def name(self) -> str:
        """Where it is, such as `decoder.1.cross`."""
        return f"{self.stack}.{self.layer}.{self.kind}"


class LayerOutput(Record):
    """What a layer gives to the next."""

    stack: Literal["encoder", "decoder"]
    layer: int
    norms: Array
    """[tokens]: the length of each token's vector."""
    states: Array | None = None
    """[tokens, M], for layers that were asked for."""


class Lens(Record):
    """What the model would say if this decoder layer were the last (the logit lens)."""

    layer: int
    probability: Array
    """[T]: of the tokens that were emitted in the end."""
    top: tuple[tuple[Candidate, ...], ...]
    """For each step the likeliest, best first."""


class Attribution(Record):
    """How much each source token matters for each step, in the eyes of one method."""

    method: Method
    tokens: Array | None
    """[T, S]; None for a method that asks about words only."""
    words: Array
    """[T, W]"""
    signed: bool
    """Whether a negative number means "speaks against"."""
    gap: float | None = None
    """integrated_gradients: the largest relative gap between the sum and what it should be."""


class Agreement(Record):
    """Spearman's rank correlation between methods, of absolute values over source words."""

    methods: tuple[Method, ...]
    correlation: Array
    """[methods, methods]: mean over steps."""


class WordChoice(Record):
    """A word of the translation, and what might stand in its place."""

    word: int
    log_prob: float
    probability: float
    """Of its pieces, given all that stands before."""
    alternatives: tuple[Candidate, ...]
    """Whole words, likeliest first; the id is that of the first piece."""


class Outcome(Record):
    """A translation with what the model thinks of it."""

    text: str
    log_prob: float
    score: float
    finished: bool
    """The stop symbol was reached."""


class Change(Record):
    """What interventions did, seen from the translation without them."""

    baseline: Outcome
    """The translation without interventions."""
    baseline_now: float
    """The log-probability of the baseline's text under the interventions."""
    words: tuple[tuple[Literal["same", "gone", "new"], str], ...]
    """From the baseline's words to those of the translation."""


class Shape(Record):
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
    parameters: int


class Trace(Record):
    """How a translation came about."""

    format: Literal["seq2see-trace"] = FORMAT
    version: Annotated[int, Field(ge=1, le=VERSION)] = VERSION
    seq2see: str = __version__
    model: Shape
    search: SearchConfig
    forced: bool
    """The tokens were given, not searched for."""
    interventions: tuple[Intervention, ...] = ()
    change: Change | None = None
    source: Sentence
    target: Sentence
    """Its tokens are the steps' outputs, the stop symbol included if it was reached."""
    start: Token
    """What the decoder was given first."""
    translation: Outcome
    steps: tuple[Step, ...]
    beam: Beam
    attention: tuple[AttentionMap, ...]
    layers: tuple[LayerOutput, ...]
    lens: tuple[Lens, ...]
    attributions: tuple[Attribution, ...] = ()
    agreement: Agreement | None = None
    words: tuple[WordChoice, ...] = ()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` has written."""
        return cls.model_validate_json(text)

    def to_json(self) -> str:
        """Return it in the form of `docs/trace.md`, on one line."""
        return self.model_dump_json()

    def labels(self, axis: Axis, size: int = 0) -> list[str]:
        """Return what to write beside the rows or columns of an attention."""
        if axis == "mixture":
            return [f"mixture {number}" for number in range(size)]
        if axis == "source":
            return [token.text for token in self.source.tokens]
        emitted = [token.text for token in self.target.tokens]
        return emitted if axis == "output" else [self.start.text, *emitted[:-1]]

    def at(self, stack: str, layer: int, kind: str) -> AttentionMap:
        """Return one attention."""
        for found in self.attention:
            if (found.stack, found.layer, found.kind) == (stack, layer, kind):
                return found
        raise InputError(
            f"the attention must be one of {', '.join(a.name for a in self.attention)}, "
            f"but is {stack}.{layer}.{kind} instead"
        )

    def cross(self) -> NDArray[np.float32]:
        """Return cross-attention, mean over heads and layers, [T, S]."""
        maps = [each.weights for each in self.attention if each.kind == "cross"]
        mean: NDArray[np.float32] = np.mean([weights.mean(0) for weights in maps], axis=0)
        return mean

    def save(self, path: Path | str) -> None:
        """Write .json, .html, or a picture (.svg, .png, .pdf), as the name says."""
        from seq2see.explain.output import save  # noqa: PLC0415  # it needs this type

        save(self, Path(path))

    def to_html(self) -> str:
        """Return one page that needs nothing but itself."""
        from seq2see.explain.output import page  # noqa: PLC0415

        return page(self)

    def _repr_html_(self) -> str:
        from seq2see.explain.output import frame  # noqa: PLC0415

        return frame(self)
