"""Why two similar sentences get different translations of one word.

For *il* and *elle* in the translations of two sentences that differ in one word, a
`SentenceContrast` shows which source words change log p(il) − log p(elle), which heads carry the
difference, where these heads attend, and whether the attention of "it" matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seq2see.errors import InputError
from seq2see.explain.activation_patching import (
    ActivationPatcher,
    NextTokenPreference,
    isolate_source_tokens,
)
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.source_attribution import split_source_embeddings
from seq2see.explain.trace_format import SentenceWord, TokenizedSentence, TraceBaseModel
from seq2see.explain.words import build_source_sentence
from seq2see.model import AttentionRecorder, Transformer
from seq2see.model.attention import LinformerAttention

# L layers, H heads, T queries, S source tokens, M features of the model

NUM_PATH_POINTS, POINTS_PER_BATCH = 64, 16
"""Points on the path of integrated gradients, in total and at a time."""
NUM_SHOWN_HEADS = 3
"""Number of heads whose attention is recorded: those with the largest effect."""


class WordEffect(TraceBaseModel):
    """Effect of a source word on the preference, in nats; positive for the first token."""

    text: str
    occlusion: float
    """Preference minus that with the word masked by padding."""
    gradient: float
    """Integrated gradients of the preference for the embeddings of the word."""


class ContrastedSentence(TraceBaseModel):
    """One of the two sentences."""

    text: str
    preference: float
    """log p(first) − log p(second)."""
    words: tuple[WordEffect, ...]
    isolated_preference: float | None
    """Preference if the tokens of the pronoun attend only to each other in the encoder; None if the
    sentence does not have the pronoun, or with Linformer attention."""
    pronoun_attention: tuple[float, ...]
    """Attention from the pronoun to each word in the encoder, mean over layers and heads."""


class PatchingEffect(TraceBaseModel):
    """Effect of taking one activation from the run on the other sentence."""

    address: str
    """`encoder.0.self`, `decoder.1.cross`, `decoder.1.feed_forward` or `encoder.embeddings`."""
    head: int | None
    """Index of the head; None for another module."""
    shift: float
    """Change of the preference toward that on the other sentence, in nats: mean of both directions.
    It has the sign of the difference between the first and the second sentence."""


class ShownHead(PatchingEffect):
    """A head with a large effect, and where it attends."""

    query: str
    """The token at which patching the head has the largest effect: a source token in the encoder
    (of both sentences, if they differ), and the last token of a prefix in the decoder."""
    attention: tuple[tuple[float, ...], tuple[float, ...]]
    """Attention from this token to each source word, in both sentences."""


class SentenceContrast(TraceBaseModel):
    """What decides between two tokens in the translations of two sentences."""

    first_token: str
    second_token: str
    pronoun: str
    """Source word whose attention was measured."""
    sentences: tuple[ContrastedSentence, ContrastedSentence]
    patching: tuple[PatchingEffect, ...]
    shown_heads: tuple[ShownHead, ...]
    """Heads that attend to the source, with the largest effect first."""
    patching_problem: str | None
    """Why no activations were patched, or None."""

    def summary_lines(self) -> Iterator[str]:
        """Yield the preferences, and the largest effects of words and heads, as lines of text."""
        tokens = f"log p({self.first_token}) − log p({self.second_token})"
        for sentence in self.sentences:
            word = max(sentence.words, key=lambda word: abs(word.occlusion))
            yield (
                f"{sentence.text} {tokens} = {sentence.preference:+.2f} nats; the word with the "
                f"largest effect is {word.text} ({word.occlusion:+.2f})."
            )
            if sentence.isolated_preference is not None:
                yield (
                    f"With “{self.pronoun}” isolated in the encoder: "
                    f"{sentence.isolated_preference:+.2f} nats."
                )
        if self.patching_problem:
            yield f"No activations were patched: {self.patching_problem}."
        for head in self.shown_heads:
            yield (
                f"{head.address}.{head.head} from the other sentence moves {tokens} by "
                f"{abs(head.shift):.2f} nats."
            )


def find_preference(
    explained: ExplainedModel, translation: str, contrastive_translation: str
) -> NextTokenPreference:
    """Return the first tokens in which two translations differ, with the prefix before them.

    Raises:
        InputError: If the two translations are equal.
    """
    targets = explained.encode_targets([translation, contrastive_translation])
    start = explained.special_tokens.decoder_start_id
    for step, (first_id, second_id) in enumerate(zip(*targets, strict=False)):
        if first_id != second_id:
            return NextTokenPreference((start, *targets[0][:step]), first_id, second_id)
    raise InputError("the two translations must differ, but are equal")


def contrast_sentences(
    explained: ExplainedModel,
    texts: Sequence[str],
    preference: NextTokenPreference,
    pronoun: str = "it",
) -> SentenceContrast:
    """Measure what decides between two tokens after the same target prefix.

    Args:
        explained: The model.
        texts: Two sentences.
        preference: The target prefix and the two tokens.
        pronoun: Source word whose attention is measured; upper and lower case are equal.

    Raises:
        InputError: If a sentence has no tokens, or more than the model accepts.
    """
    sentences = [_SourceSentence.encode(explained, text) for text in texts]
    patching: list[PatchingEffect] = []
    shown_heads: list[ShownHead] = []
    problem = None
    try:
        patcher = ActivationPatcher(
            explained.model, [each.ids_1S for each in sentences], preference
        )
    except InputError as error:
        problem = str(error)
    else:
        patching = [
            PatchingEffect(
                address=each.address, head=each.head, shift=patcher.measure_shift([each])
            )
            for each in patcher.activations
        ]
        shown_heads = [*_describe_largest_heads(explained, patcher, patching, sentences)]
    return SentenceContrast(
        first_token=explained.display_target_token(preference.first_id)[1],
        second_token=explained.display_target_token(preference.second_id)[1],
        pronoun=pronoun,
        sentences=[
            _measure_sentence(explained.model, each, preference, pronoun) for each in sentences
        ],
        patching=patching,
        shown_heads=shown_heads,
        patching_problem=problem,
    )


class _SourceSentence(NamedTuple):
    parts: TokenizedSentence
    ids_1S: Tensor

    @classmethod
    def encode(cls, explained: ExplainedModel, text: str) -> _SourceSentence:
        """Tokenize a text and split it into words."""
        ids = explained.encode_source(text)
        return cls(build_source_sentence(explained, text, ids), explained.build_source_BS(ids))

    def find_word(self, text: str) -> slice | None:
        """Return the tokens of the first word that is this text, or None."""
        for word in self.parts.words:
            if word.text.lower() == text.lower():
                return _tokens_of(word)
        return None

    def sum_by_word(self, values_S: Tensor) -> tuple[float, ...]:
        """Return the sum over the tokens of each word."""
        return tuple(values_S[_tokens_of(word)].sum().item() for word in self.parts.words)


def _tokens_of(word: SentenceWord) -> slice:
    return slice(word.first_token, word.end_token)


def _measure_sentence(
    model: Transformer, sentence: _SourceSentence, preference: NextTokenPreference, pronoun: str
) -> ContrastedSentence:
    """Measure the effect of each word, and of the attention from the pronoun."""
    with torch.inference_mode():
        value = preference.compute(model, model.encode(sentence.ids_1S)).item()
        occlusions = [
            value - _occlude(model, sentence, _tokens_of(word), preference)
            for word in sentence.parts.words
        ]
    gradients = sentence.sum_by_word(integrate_source_gradients(model, sentence.ids_1S, preference))
    words = [
        WordEffect(text=word.text, occlusion=occlusion, gradient=gradient)
        for word, occlusion, gradient in zip(
            sentence.parts.words, occlusions, gradients, strict=True
        )
    ]
    isolated: float | None = None
    attention: tuple[float, ...] = ()
    if tokens := sentence.find_word(pronoun):
        isolated = _measure_isolated(model, sentence.ids_1S, tokens, preference)
        attention = sentence.sum_by_word(_average_encoder_attention(model, sentence.ids_1S, tokens))
    return ContrastedSentence(
        text=sentence.parts.text,
        preference=value,
        words=words,
        isolated_preference=isolated,
        pronoun_attention=attention,
    )


def _occlude(
    model: Transformer, sentence: _SourceSentence, tokens: slice, preference: NextTokenPreference
) -> float:
    """Return the preference with some tokens replaced by padding."""
    masked_1S = sentence.ids_1S.clone()
    masked_1S[:, tokens] = model.encoder.pad_id
    return preference.compute(model, model.encode(masked_1S)).item()


def integrate_source_gradients(
    model: Transformer, ids_1S: Tensor, preference: NextTokenPreference
) -> Tensor:
    """Return the integrated gradients of the preference for each source token, [S].

    The path starts at the positions without token embeddings (Sundararajan et al., 2017).
    """
    with torch.inference_mode(False), torch.enable_grad():
        baseline_1SM, tokens_1SM = split_source_embeddings(model, ids_1S.clone())
        shares_P = (torch.arange(NUM_PATH_POINTS) + 0.5) / NUM_PATH_POINTS
        total_1SM = torch.zeros_like(tokens_1SM)
        for shares_B in shares_P.to(tokens_1SM).split(POINTS_PER_BATCH):
            x_BSM = (baseline_1SM + shares_B[:, None, None] * tokens_1SM).requires_grad_()
            padding_BS = torch.zeros(x_BSM.shape[:2], dtype=torch.bool, device=x_BSM.device)
            source = model.encoder.encode_embeddings(x_BSM, padding_BS)
            # The rows of the batch are independent.
            (gradient_BSM,) = torch.autograd.grad(preference.compute(model, source).sum(), x_BSM)
            total_1SM += gradient_BSM.sum(0, keepdim=True)
    return (total_1SM / NUM_PATH_POINTS * tokens_1SM).sum(-1)[0]


@torch.inference_mode()
def _measure_isolated(
    model: Transformer, ids_1S: Tensor, tokens: slice, preference: NextTokenPreference
) -> float | None:
    """Return the preference if these tokens attend only to each other, None with Linformer."""
    if any(isinstance(module, LinformerAttention) for module in model.modules()):
        return None
    isolated = isolate_source_tokens(model, tokens)
    return preference.compute(isolated, isolated.encode(ids_1S)).item()


@torch.inference_mode()
def _average_encoder_attention(model: Transformer, ids_1S: Tensor, tokens: slice) -> Tensor:
    """Return the attention from some tokens, mean over tokens, heads and encoder layers, [S]."""
    recorder = AttentionRecorder(lambda site: site.stack == "encoder")
    model.encode(ids_1S, recorder)
    weights_LHTS = torch.cat([*recorder.weights_BHTS.values()])
    return weights_LHTS[:, :, tokens].mean((0, 1, 2))


def _describe_largest_heads(
    explained: ExplainedModel,
    patcher: ActivationPatcher,
    patching: Sequence[PatchingEffect],
    sentences: Sequence[_SourceSentence],
) -> Iterator[ShownHead]:
    """Yield the heads that attend to the source and have the largest effects."""
    pairs = zip(patcher.activations, patching, strict=True)
    heads = [
        (activation, effect)
        for activation, effect in pairs
        if (site := activation.site) and (site.stack, site.kind) != ("decoder", "self")
    ]
    heads.sort(key=lambda head: -abs(head[1].shift))
    recorders = [AttentionRecorder(lambda _: True) for _ in sentences]
    with torch.inference_mode():
        for sentence, recorder in zip(sentences, recorders, strict=True):
            source = patcher.model.encode(sentence.ids_1S, recorder)
            patcher.preference.compute(patcher.model, source, recorder)
    for activation, effect in heads[:NUM_SHOWN_HEADS]:
        assert activation.site
        query = patcher.find_largest_token(activation)
        rows = [
            sentence.sum_by_word(recorder.weights_BHTS[activation.site][0, activation.head, query])
            for sentence, recorder in zip(sentences, recorders, strict=True)
        ]
        if activation.site.stack == "encoder":
            texts = dict.fromkeys(each.parts.tokens[query].text for each in sentences)
            label = "/".join(texts)
        else:
            ids = patcher.preference.prefix[1 : query + 1]
            label = explained.tokenizers.target.decode(ids).rpartition(" ")[2] or "⟨start⟩"
        yield ShownHead(**effect.model_dump(), query=label, attention=rows)
