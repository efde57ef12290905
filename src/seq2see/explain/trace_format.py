"""Types of a trace: everything that was recorded while one sentence was translated.

The command line, notebooks and web pages read these types; `docs/trace-format.md` describes the
JSON. Raise `TRACE_VERSION` when a change would break a reader of the old format. Indices of layers,
heads, tokens and steps start at 0.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from html import escape
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator
from torch import Tensor

from seq2see import __version__, draw
from seq2see.config import Config
from seq2see.errors import ConfigError, InputError, Problem, writing
from seq2see.explain.interventions import Intervention
from seq2see.registries import FIGURE_FORMATS
from seq2see.search import SearchConfig
from seq2see.web import build_single_page

# T target tokens (steps), S source tokens, H heads, D features per head, W source words

_DTYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "uint8": np.dtype("u1")}


def encode_tensor(array: NDArray[Any]) -> dict[str, object]:
    """Return an array as a JSON object: shape, dtype, and little-endian numbers in base64.

    Masks are stored as uint8, all other arrays as float32.
    """
    dtype = "uint8" if array.dtype.kind in "ub" else "float32"
    data = np.ascontiguousarray(array, _DTYPES[dtype]).tobytes()
    return {"shape": list(array.shape), "dtype": dtype, "data": b64encode(data).decode("ascii")}


def decode_tensor(value: object) -> NDArray[Any]:
    """Return the array of a JSON object; an array is returned unchanged.

    Raises:
        ConfigError: If the value is neither.
    """
    if isinstance(value, np.ndarray):
        return value
    try:
        fields: Any = value
        data = b64decode(fields["data"], validate=True)
        return np.frombuffer(data, _DTYPES[fields["dtype"]]).reshape(fields["shape"])
    except (KeyError, TypeError, ValueError) as error:
        allowed = "numbers in base64, next to their shape and the dtype float32 or uint8"
        raise ConfigError(Problem("data", f"must be {allowed}: {error}")) from None


def to_numpy(tensor: Tensor, dtype: Any = np.float32) -> NDArray[Any]:
    """Return a tensor as a NumPy array."""
    return tensor.detach().cpu().numpy().astype(dtype)


JsonTensor = Annotated[
    NDArray[Any], PlainValidator(decode_tensor), PlainSerializer(encode_tensor, when_used="json")
]
"""A NumPy array that is encoded by `encode_tensor` in JSON."""


TRACE_VERSION = 2
MIN_COLOR_SCALE_MAX = 0.25
"""Minimum value of the strongest color of a figure, so that small weights look small."""
OUTPUT_FORMATS = (".json", ".html", *FIGURE_FORMATS)
"""Extensions of the files that a trace or a report can be written to."""


TokenAxis = Literal["source", "decoder_input", "target", "projection"]
"""Tokens along an axis of an attention map; `projection`: projected keys of Linformer."""


AttributionMethod = Literal[
    "attention", "rollout", "gradient_x_input", "integrated_gradients", "occlusion"
]


class TraceBaseModel(Config):
    """Base class of the parts of a trace and of reports."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True,
        strict=False,  # JSON lists become tuples
        extra="ignore",  # a later version may add fields
    )


class SentenceToken(TraceBaseModel):
    """A token of a sentence."""

    id: int
    piece: str
    """Piece of the tokenizer, with ▁ for a space."""
    text: str
    """Text for display."""
    word: int | None
    """Index of its word; None for special tokens at the start and end of a sentence."""


class SentenceWord(TraceBaseModel):
    """A word: consecutive tokens of a sentence."""

    text: str
    first_token: int
    """Index of its first token."""
    end_token: int
    """Index after its last token."""


class TokenizedSentence(TraceBaseModel):
    """A text with its tokens and words. The tokens include special tokens at its start and end."""

    language: str
    text: str
    tokens: tuple[SentenceToken, ...]
    words: tuple[SentenceWord, ...]


class TokenCandidate(TraceBaseModel):
    """A token, or the first token of a word, with its probability."""

    id: int
    piece: str
    text: str
    log_prob: float
    probability: float


class DecodingStep(TraceBaseModel):
    """One token of the translation and the distribution it was chosen from."""

    input_piece: str
    """Input of the decoder: the piece of the previous token, or of the start token."""
    log_prob: float
    probability: float
    rank: int
    """Number of tokens with a higher probability."""
    entropy: float
    """Entropy of the distribution, in nats."""
    top_candidates: tuple[TokenCandidate, ...]
    """The most likely tokens, best first."""


NodeStatus = Literal["alive", "finished", "pruned", "stopped"]


class BeamNode(TraceBaseModel):
    """A partial or finished hypothesis of the search, identified by its last token."""

    id: int
    parent: int | None
    """Id of the hypothesis that it extends; None for a first token."""
    step: int
    search_index: int
    """Index of its search: of a sample, or of a group of diverse beam search."""
    token_id: int
    piece: str
    text: str
    token_log_prob: float
    """Log-probability of this token; along a path they sum to `log_prob`."""
    log_prob: float
    penalty: float
    """Subtracted from the score by step processors and the coverage penalty."""
    score: float
    """log_prob / length^α − penalty: the score if it ended here."""
    rank: int
    """Rank among the candidates of its step, 0 for the best."""
    status: NodeStatus


class BeamTree(TraceBaseModel):
    """All hypotheses of the search."""

    nodes: tuple[BeamNode, ...]
    best_path: tuple[int, ...]
    """Ids of the nodes of the translation, from its first token to its last."""


class HeadSummary(TraceBaseModel):
    """Three statistics of a head, each the mean over its queries."""

    entropy: float
    """Entropy of the weights in nats: 0 if one key has all weight, log S if all are equal."""
    max_weight: float
    """Largest weight."""
    distance: float | None
    """Distance between query and key in tokens, weighted; None for cross-attention."""


class AttentionModuleTrace(TraceBaseModel):
    """One attention module of one layer with all heads; rows are queries."""

    stack: Literal["encoder", "decoder"]
    layer: int
    kind: Literal["self", "cross"]
    query_axis: TokenAxis
    """Tokens of the queries."""
    key_axis: TokenAxis
    """Tokens of the keys."""
    weights: JsonTensor
    """[H, queries, keys]"""
    mask: JsonTensor | None
    """[queries, keys], 1 where a key is masked; [H, queries, keys] if heads differ; None if no key
    is masked."""
    head_summaries: tuple[HeadSummary, ...]
    ablated_heads: tuple[int, ...] = ()
    """Heads that an intervention ablated."""
    scale: float | None
    """Factor on q·k; None if scores are not the scaled product, as with relative positions, or if
    an intervention changed the scale."""
    scores: JsonTensor | None = None
    """[H, queries, keys] before masking; 0 for keys of later steps. Detailed layers only, as are
    queries, keys and values."""
    queries: JsonTensor | None = None
    """[H, queries, D]"""
    keys: JsonTensor | None = None
    """[H, keys, D]"""
    values: JsonTensor | None = None
    """[H, keys, D]"""

    @property
    def address(self) -> str:
        """Address of the module, such as `decoder.1.cross`."""
        return f"{self.stack}.{self.layer}.{self.kind}"

    def mean_weights(self) -> NDArray[np.float32] | None:
        """Return the mean over the heads that are not ablated, or None if all are."""
        weights = np.delete(self.weights, self.ablated_heads, axis=0)
        return weights.mean(0) if len(weights) else None


class LayerOutputNorms(TraceBaseModel):
    """Output of a layer."""

    stack: Literal["encoder", "decoder"]
    layer: int
    norms: JsonTensor
    """[tokens]: Euclidean norm of each token's vector."""


class LayerLogitLens(TraceBaseModel):
    """Logit lens: the output distribution computed from a decoder layer."""

    layer: int
    probability: JsonTensor
    """[T]: probabilities of the tokens of the translation."""
    top_candidates: tuple[tuple[TokenCandidate, ...], ...]
    """The most likely tokens of each step, best first."""


class SourceAttribution(TraceBaseModel):
    """Attribution of target tokens to source tokens and words by one method."""

    method: AttributionMethod
    token_scores: JsonTensor | None
    """[T, S]; None for occlusion, which masks whole words."""
    word_scores: JsonTensor
    """[T, W]"""
    is_signed: bool
    """Whether negative scores mean that a word decreases the log-probability."""
    convergence_delta: float | None = None
    """integrated_gradients: largest relative error of the sum of a row."""


class MethodCorrelationMatrix(TraceBaseModel):
    """Spearman's rank correlation between methods, of absolute word scores."""

    methods: tuple[AttributionMethod, ...]
    correlation: JsonTensor
    """[methods, methods]: mean over steps."""


class WordAlternatives(TraceBaseModel):
    """A word of the translation and alternatives for it."""

    word_index: int
    log_prob: float
    probability: float
    """Product over its tokens, given all tokens before."""
    alternatives: tuple[TokenCandidate, ...]
    """Whole words, most likely first; `id` is the id of the first token."""


class ScoredTranslation(TraceBaseModel):
    """A translation with its log-probability and score."""

    text: str
    log_prob: float
    score: float
    is_finished: bool
    """Whether it ends with the end token."""


class InterventionEffect(TraceBaseModel):
    """Effect of interventions, compared with the translation without them."""

    baseline: ScoredTranslation
    """Translation without interventions."""
    baseline_log_prob_after: float
    """Log-probability of the baseline's text with the interventions."""
    word_diff: tuple[tuple[Literal["same", "removed", "added"], str], ...]
    """Differences between the words of the baseline and of the translation."""


class ModelShape(TraceBaseModel):
    """Size and kind of the model."""

    encoder_layers: int
    decoder_layers: int
    heads: int
    d_model: int
    d_head: int
    vocab_size: int
    positions: str
    norm: str
    """Placement and kind of the norm, such as `post layer`."""
    num_parameters: int


class SavableResult(TraceBaseModel):
    """Base class of a trace and of reports: results that can be written to a file."""

    def to_json(self) -> str:
        """Return one line of JSON; `docs/trace-format.md` describes that of a trace."""
        return self.model_dump_json()

    def to_html(self) -> str:
        """Return a self-contained HTML page."""
        raise NotImplementedError

    def save_figure(self, path: Path) -> None:
        """Write a figure in the format of the extension."""
        raise NotImplementedError

    def save(self, path: Path | str) -> None:
        """Write a file in the format of its extension: .json, .html, .svg, .png or .pdf.

        Raises:
            InputError: If the extension is unknown or the file cannot be written.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in OUTPUT_FORMATS:
            allowed = ", ".join(OUTPUT_FORMATS)
            raise InputError(
                f"the output file must end with one of {allowed}, but is {path} instead"
            )
        if suffix in FIGURE_FORMATS:
            self.save_figure(path)
            return
        with writing(path):
            path.write_text(self.to_json() if suffix == ".json" else self.to_html(), "utf-8")


class Trace(SavableResult):
    """Everything that was recorded while one sentence was translated."""

    format: Literal["seq2see-trace"] = "seq2see-trace"
    version: Annotated[int, Field(ge=TRACE_VERSION, le=TRACE_VERSION)] = TRACE_VERSION
    seq2see_version: str = __version__
    model: ModelShape
    search: SearchConfig
    is_forced: bool
    """Whether the tokens were given (forced decoding) instead of searched for."""
    interventions: tuple[Intervention, ...] = ()
    intervention_effect: InterventionEffect | None = None
    source: TokenizedSentence
    target: TokenizedSentence
    """Its tokens are the outputs of the steps, including the end token if it was reached."""
    start_token: SentenceToken
    """First input of the decoder."""
    translation: ScoredTranslation
    steps: tuple[DecodingStep, ...]
    beam: BeamTree
    attention: tuple[AttentionModuleTrace, ...]
    layer_outputs: tuple[LayerOutputNorms, ...]
    logit_lens: tuple[LayerLogitLens, ...]
    attributions: tuple[SourceAttribution, ...] = ()
    rank_correlation: MethodCorrelationMatrix | None = None
    word_alternatives: tuple[WordAlternatives, ...] = ()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a trace from JSON. Raise ConfigError if it is invalid or of another version."""
        return cls.model_validate_json(text)

    def axis_labels(self, axis: TokenAxis, size: int = 0) -> list[str]:
        """Return the labels of an axis of an attention map; `size` is used by `projection`."""
        if axis == "projection":
            return [f"projection {number}" for number in range(size)]
        if axis == "source":
            return [token.text for token in self.source.tokens]
        target = [token.text for token in self.target.tokens]
        return target if axis == "target" else [self.start_token.text, *target[:-1]]

    def attention_map(self, stack: str, layer: int, kind: str) -> AttentionModuleTrace:
        """Return one attention map. Raise InputError if the trace does not contain it."""
        for attention_map in self.attention:
            if attention_map.address == f"{stack}.{layer}.{kind}":
                return attention_map
        raise InputError(
            f"the attention must be one of {', '.join(a.address for a in self.attention)}, "
            f"but is {stack}.{layer}.{kind} instead"
        )

    def mean_cross_attention(self) -> NDArray[np.float32]:
        """Return the cross-attention weights, mean over heads and layers, [T, S].

        Ablated heads do not count; without any other heads the weights are zero.
        """
        means = [each.mean_weights() for each in self.attention if each.kind == "cross"]
        used = [mean for mean in means if mean is not None]
        if not used:
            return np.zeros((len(self.steps), len(self.source.tokens)), np.float32)
        result: NDArray[np.float32] = np.mean(used, axis=0)
        return result

    def to_html(self) -> str:
        """Return a self-contained HTML page."""
        data = f'{{"trace": {self.to_json()}}}'
        return build_single_page("trace.js", f"{self.source.text} – seq2see", data)

    def save_figure(self, path: Path) -> None:
        """Draw the cross-attention (mean and all heads), with the probability of each token.

        Raises:
            InputError: If all decoder layers are ablated.
        """
        maps = [each for each in self.attention if each.kind == "cross"]
        if not maps:
            raise InputError("the figure needs cross-attention, but all decoder layers are ablated")
        labels = self.axis_labels("target")
        heatmap = _build_heatmap(
            "mean cross-attention, and the probability of each token",
            [f"{t}  {s.probability:.1%}" for t, s in zip(labels, self.steps, strict=True)],
            self.axis_labels("source"),
            self.mean_cross_attention(),
        )
        thumbnails = draw.HeatmapThumbnails(
            "All heads",
            [f"layer {each.layer}" for each in reversed(maps)],
            [f"head {head}" for head in range(len(maps[0].weights))],
            [list(each.weights) for each in reversed(maps)],
        )
        title = f"{self.source.text}\n{self.translation.text}"
        draw.save_attention_figure(path, title, heatmap, thumbnails)

    def save_attention_map_figure(
        self, path: Path, attention_map: AttentionModuleTrace, head: int | None
    ) -> None:
        """Draw one head of an attention map, or the mean of its heads if `head` is None.

        Raises:
            InputError: If the map does not have this head.
        """
        weights = attention_map.weights
        if head is not None and head >= len(weights):
            raise InputError(f"`head` must be below {len(weights)}, but is {head} instead")
        name = "mean over heads" if head is None else f"head {head}"
        shown = weights.mean(0) if head is None else weights[head]
        rows = self.axis_labels(attention_map.query_axis, shown.shape[0])
        columns = self.axis_labels(attention_map.key_axis, shown.shape[1])
        heatmap = _build_heatmap(f"{attention_map.address}, {name}", rows, columns, shown)
        draw.save_attention_figure(path, self.source.text, heatmap)

    def _repr_html_(self) -> str:
        """Return the page in an iframe, so that it does not share styles with the notebook."""
        return (
            f'<iframe srcdoc="{escape(self.to_html())}" style="width:100%;height:900px;border:0" '
            f'title="{escape(self.source.text)}"></iframe>'
        )


def _build_heatmap(
    title: str, rows: list[str], columns: list[str], weights: NDArray[np.float32]
) -> draw.Heatmap:
    max_value = max(MIN_COLOR_SCALE_MAX, float(weights.max()))
    full_title = f"{title} (darkest: {max_value:.2f})"
    return draw.Heatmap(full_title, rows, columns, weights.tolist(), max_value)
