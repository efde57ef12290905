"""Groups tokens into words, and finds alternatives for each word of a translation."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from unicodedata import category

import torch
from torch import Tensor

from seq2see.bundle import SpecialTokens
from seq2see.engines.batching import add_special_tokens
from seq2see.engines.torch_decoder import TorchDecoder
from seq2see.explain.explained_model import SPACE_MARKER, ExplainedModel, display_token
from seq2see.explain.trace import (
    SentenceToken,
    SentenceWord,
    TokenCandidate,
    TokenizedSentence,
    Trace,
    WordAlternatives,
)
from seq2see.search import (
    Beam,
    Hypothesis,
    LengthConfig,
    SearchConfig,
    SearchInput,
    StepProcessor,
    search,
)
from seq2see.text import Tokenizer

# B rows, K beams, V vocabulary, W words

_BYTE = re.compile("<0x[0-9A-F]{2}>")


_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Scripts that put no space between words: Thai, Lao, Burmese, Khmer, kana, Han."""


_ELIDING = {"ca", "fr", "it"}


_INSIDE = "'’-‑"
"""Punctuation that does not end a word."""


def build_source_sentence(
    text: str,
    ids: Sequence[int],
    special_tokens: SpecialTokens,
    tokenizer: Tokenizer,
    language: str,
) -> TokenizedSentence:
    """Return a source with what stands around it."""
    before, after = (
        special_tokens.source_bos_id is not None,
        special_tokens.source_eos_id is not None,
    )
    return _sentence(
        text, add_special_tokens(ids, special_tokens), before, after, tokenizer, language
    )


def build_target_sentence(
    text: str, ids: Sequence[int], is_finished: bool, tokenizer: Tokenizer, language: str
) -> TokenizedSentence:
    """Return a target, of which the last token is the stop symbol if it is finished."""
    return _sentence(text, ids, False, is_finished, tokenizer, language)


def build_start_token(special_tokens: SpecialTokens, tokenizer: Tokenizer) -> SentenceToken:
    """Return what the decoder is given first."""
    first = special_tokens.decoder_start_id
    return SentenceToken(id=first, piece=tokenizer.pieces[first], text="⟨start⟩", word=None)


def find_word_starts(pieces: Sequence[str], language: str) -> list[bool]:
    """Return for each piece whether a word begins with it. French "l'animal" is two words."""
    if not pieces:
        return []
    elides = language[:2] in _ELIDING
    return [True, *(_parts(left, right, elides) for left, right in pairwise(pieces))]


def _parts(left: str, right: str, elides: bool) -> bool:
    """Whether there is a border of words between two pieces."""
    if right.startswith(SPACE_MARKER) or (elides and left[-1] in "'’"):
        return True
    if left == SPACE_MARKER or _BYTE.fullmatch(left) or _BYTE.fullmatch(right):
        return False
    if _UNSPACED.match(right) or _UNSPACED.match(left[-1]):
        return True
    if _is_mark(left[-1]) and _is_mark(right[0]):
        return left[-1] != right[0]  # three dots are one
    return _is_mark(left[-1]) != _is_mark(right[0])


def _is_mark(character: str) -> bool:
    return character not in _INSIDE and category(character)[0] in "PS"


def _sentence(
    text: str,
    ids: Sequence[int],
    before: bool,
    after: bool,
    tokenizer: Tokenizer,
    language: str,
) -> TokenizedSentence:
    first, end = int(before), len(ids) - int(after)
    starts = find_word_starts([tokenizer.pieces[number] for number in ids[first:end]], language)
    begins = [first + place for place, start in enumerate(starts) if start]
    spans = list(pairwise([*begins, end]))
    words = tuple(
        SentenceWord(text=tokenizer.decode(ids[a:b]).strip(), first_token=a, end_token=b)
        for a, b in spans
        if a < b
    )
    owner = {place: w for w, (a, b) in enumerate(spans) for place in range(a, b)}
    tokens = tuple(
        SentenceToken(
            id=number,
            piece=tokenizer.pieces[number],
            text=display_token(number, tokenizer) if place in owner else _end(place < first),
            word=owner.get(place),
        )
        for place, number in enumerate(ids)
    )
    return TokenizedSentence(language=language, text=text, tokens=tokens, words=words)


def _end(is_before: bool) -> str:
    return "⟨start⟩" if is_before else "⟨end⟩"


MAX_ALTERNATIVES = 4


MAX_WORD_PIECES = 12
"""A word that has not ended by then is shown as far as it got."""


def find_word_alternatives(explained: ExplainedModel, trace: Trace) -> list[WordAlternatives]:
    """Return for each word of a translation what else the model thought of."""
    tokens = [token.id for token in trace.target.tokens]
    beginnings = list(_beginnings(explained, trace))
    ended = _ended(explained, trace, [(*tokens[:first], other) for _, first, other in beginnings])
    others: dict[int, list[TokenCandidate]] = {}
    for (owner, first, _), hypothesis in zip(beginnings, ended, strict=True):
        others.setdefault(owner, []).append(_alternative(explained, hypothesis, first))
    choices = []
    for number, word in enumerate(trace.target.words):
        log_prob = sum(step.log_prob for step in trace.steps[word.first_token : word.end_token])
        found = sorted(others.get(number, []), key=lambda each: -each.log_prob)
        choices.append(
            WordAlternatives(
                word_index=number,
                log_prob=log_prob,
                probability=math.exp(log_prob),
                alternatives=tuple(found),
            )
        )
    return choices


def _beginnings(subject: ExplainedModel, trace: Trace) -> Iterator[tuple[int, int, int]]:
    """Yield word, its first place, and another token that might have stood there."""
    special = {subject.special_tokens.target_eos_id, subject.special_tokens.decoder_start_id}
    special.add(subject.model.encoder.pad_id)
    for number, word in enumerate(trace.target.words):
        chosen = trace.target.tokens[word.first_token].id
        top = [
            c.id
            for c in trace.steps[word.first_token].top_candidates
            if c.id != chosen and c.id not in special
        ]
        yield from ((number, word.first_token, other) for other in top[:MAX_ALTERNATIVES])


def _ended(
    subject: ExplainedModel, trace: Trace, prefixes: Sequence[tuple[int, ...]]
) -> list[Hypothesis]:
    """Return the likeliest way from each beginning to the end of its word."""
    if not prefixes:
        return []
    longest = max(map(len, prefixes)) + MAX_WORD_PIECES
    source = [token.id for token in trace.source.tokens]
    source_BS = torch.tensor([source] * len(prefixes), device=subject.device)
    lengths = LengthConfig(max_ratio=0.0, max_extra=longest, max_length=longest)
    found = search(
        TorchDecoder(subject.model, source_BS),
        [SearchInput(len(source), prefix=prefix) for prefix in prefixes],
        SearchConfig(beam_size=1, length=lengths),
        bos=trace.start_token.id,
        eos=subject.special_tokens.target_eos_id,
        pad=subject.model.encoder.pad_id,
        processors=[StopAfterWord.from_prefixes(subject, prefixes)],
        device=subject.device,
    )
    return [hypotheses[0] for hypotheses in found]


def _alternative(subject: ExplainedModel, hypothesis: Hypothesis, first: int) -> TokenCandidate:
    """Return the word that begins at a place."""
    pieces = [subject.display_target_token(number)[0] for number in hypothesis.tokens[first:]]
    starts = find_word_starts(pieces, subject.languages[1])
    end = next((i for i, start in enumerate(starts) if start and i), len(pieces))
    ids = hypothesis.tokens[first : first + end]
    ids = tuple(number for number in ids if number != subject.special_tokens.target_eos_id)
    log_prob = sum(hypothesis.token_log_probs[first : first + len(ids)])
    return TokenCandidate(
        id=ids[0],
        piece=pieces[0],
        text=subject.tokenizers.target.decode(ids).strip() or pieces[0],
        log_prob=log_prob,
        probability=math.exp(log_prob),
    )


@dataclass(frozen=True, slots=True)
class StopAfterWord(StepProcessor):
    """Lets nothing but the stop symbol follow, once another word has begun."""

    starts_word_V: Tensor
    prefix_lengths_B: Tensor
    """How long the prefixes are, by source."""
    eos: int

    @classmethod
    def from_prefixes(
        cls, explained: ExplainedModel, prefixes: Sequence[tuple[int, ...]]
    ) -> StopAfterWord:
        """Make it for these prefixes."""
        pieces = explained.tokenizers.target.pieces
        begins = [find_word_starts(["a", piece], "")[1] for piece in pieces]
        return cls(
            torch.tensor(begins, device=explained.device),
            torch.tensor([len(prefix) for prefix in prefixes], device=explained.device),
            explained.special_tokens.target_eos_id,
        )

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:  # noqa: ARG002
        """Look at the last token, if it stands behind the prefix."""
        behind_B = beam.length > self.prefix_lengths_B[beam.input_index_B]
        over_BK = self.starts_word_V[beam.tokens_BKT[:, :, -1]] & behind_B[:, None]
        end_BK = step_scores_BKV[:, :, self.eos].clone()
        step_scores_BKV.masked_fill_(over_BK[:, :, None], -torch.inf)
        step_scores_BKV[:, :, self.eos] = end_BK
