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

from seq2see.bundle import Framing
from seq2see.engines.batching import framed
from seq2see.engines.torch_decoder import TorchDecoder
from seq2see.explain.explained_model import SPACE, Subject, shown
from seq2see.explain.trace import Candidate, Sentence, Token, Trace, Word, WordChoice
from seq2see.search import (
    Beam,
    Hypothesis,
    LengthsConfig,
    SearchConfig,
    Source,
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


def source_sentence(
    text: str, ids: Sequence[int], framing: Framing, tokenizer: Tokenizer, language: str
) -> Sentence:
    """Return a source with what stands around it."""
    before, after = framing.source_start is not None, framing.source_end is not None
    return _sentence(text, framed(ids, framing), before, after, tokenizer, language)


def target_sentence(
    text: str, ids: Sequence[int], finished: bool, tokenizer: Tokenizer, language: str
) -> Sentence:
    """Return a target, of which the last token is the stop symbol if it is finished."""
    return _sentence(text, ids, False, finished, tokenizer, language)


def start_token(framing: Framing, tokenizer: Tokenizer) -> Token:
    """Return what the decoder is given first."""
    first = framing.target_start
    return Token(id=first, piece=tokenizer.pieces[first], text="⟨start⟩", word=None)


def word_starts(pieces: Sequence[str], language: str) -> list[bool]:
    """Return for each piece whether a word begins with it. French "l'animal" is two words."""
    if not pieces:
        return []
    elides = language[:2] in _ELIDING
    return [True, *(_parts(left, right, elides) for left, right in pairwise(pieces))]


def _parts(left: str, right: str, elides: bool) -> bool:
    """Whether there is a border of words between two pieces."""
    if right.startswith(SPACE) or (elides and left[-1] in "'’"):
        return True
    if left == SPACE or _BYTE.fullmatch(left) or _BYTE.fullmatch(right):
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
) -> Sentence:
    first, end = int(before), len(ids) - int(after)
    starts = word_starts([tokenizer.pieces[number] for number in ids[first:end]], language)
    begins = [first + place for place, start in enumerate(starts) if start]
    spans = list(pairwise([*begins, end]))
    words = tuple(
        Word(text=tokenizer.decode(ids[a:b]).strip(), first=a, end=b) for a, b in spans if a < b
    )
    owner = {place: w for w, (a, b) in enumerate(spans) for place in range(a, b)}
    tokens = tuple(
        Token(
            id=number,
            piece=tokenizer.pieces[number],
            text=shown(number, tokenizer) if place in owner else _end(place < first),
            word=owner.get(place),
        )
        for place, number in enumerate(ids)
    )
    return Sentence(language=language, text=text, tokens=tokens, words=words)


def _end(is_before: bool) -> str:
    return "⟨start⟩" if is_before else "⟨end⟩"


ALTERNATIVES = 4


MOST_PIECES = 12
"""A word that has not ended by then is shown as far as it got."""


def word_choices(subject: Subject, trace: Trace) -> list[WordChoice]:
    """Return for each word of a translation what else the model thought of."""
    tokens = [token.id for token in trace.target.tokens]
    beginnings = list(_beginnings(subject, trace))
    ended = _ended(subject, trace, [(*tokens[:first], other) for _, first, other in beginnings])
    others: dict[int, list[Candidate]] = {}
    for (owner, first, _), hypothesis in zip(beginnings, ended, strict=True):
        others.setdefault(owner, []).append(_alternative(subject, hypothesis, first))
    choices = []
    for number, word in enumerate(trace.target.words):
        log_prob = sum(step.log_prob for step in trace.steps[word.first : word.end])
        found = sorted(others.get(number, []), key=lambda each: -each.log_prob)
        choices.append(
            WordChoice(
                word=number,
                log_prob=log_prob,
                probability=math.exp(log_prob),
                alternatives=tuple(found),
            )
        )
    return choices


def _beginnings(subject: Subject, trace: Trace) -> Iterator[tuple[int, int, int]]:
    """Yield word, its first place, and another token that might have stood there."""
    special = {subject.framing.target_end, subject.framing.target_start}
    special.add(subject.model.encoder.pad_id)
    for number, word in enumerate(trace.target.words):
        chosen = trace.target.tokens[word.first].id
        top = [c.id for c in trace.steps[word.first].top if c.id != chosen and c.id not in special]
        yield from ((number, word.first, other) for other in top[:ALTERNATIVES])


def _ended(subject: Subject, trace: Trace, prefixes: Sequence[tuple[int, ...]]) -> list[Hypothesis]:
    """Return the likeliest way from each beginning to the end of its word."""
    if not prefixes:
        return []
    longest = max(map(len, prefixes)) + MOST_PIECES
    source = [token.id for token in trace.source.tokens]
    source_BS = torch.tensor([source] * len(prefixes), device=subject.device)
    lengths = LengthsConfig(max_ratio=0.0, max_extra=longest, max_length=longest)
    found = search(
        TorchDecoder(subject.model, source_BS),
        [Source(len(source), prefix=prefix) for prefix in prefixes],
        SearchConfig(beam_size=1, lengths=lengths),
        bos=trace.start.id,
        eos=subject.framing.target_end,
        pad=subject.model.encoder.pad_id,
        processors=[OneWord.of(subject, prefixes)],
        device=subject.device,
    )
    return [hypotheses[0] for hypotheses in found]


def _alternative(subject: Subject, hypothesis: Hypothesis, first: int) -> Candidate:
    """Return the word that begins at a place."""
    pieces = [subject.shown(number)[0] for number in hypothesis.tokens[first:]]
    starts = word_starts(pieces, subject.languages[1])
    end = next((i for i, start in enumerate(starts) if start and i), len(pieces))
    ids = hypothesis.tokens[first : first + end]
    ids = tuple(number for number in ids if number != subject.framing.target_end)
    log_prob = sum(hypothesis.token_log_probs[first : first + len(ids)])
    return Candidate(
        id=ids[0],
        piece=pieces[0],
        text=subject.tokenizers.target.decode(ids).strip() or pieces[0],
        log_prob=log_prob,
        probability=math.exp(log_prob),
    )


@dataclass(frozen=True, slots=True)
class OneWord(StepProcessor):
    """Lets nothing but the stop symbol follow, once another word has begun."""

    begins_V: Tensor
    lengths_B: Tensor
    """How long the prefixes are, by source."""
    eos: int

    @classmethod
    def of(cls, subject: Subject, prefixes: Sequence[tuple[int, ...]]) -> OneWord:
        """Make it for these prefixes."""
        pieces = subject.tokenizers.target.pieces
        begins = [word_starts(["a", piece], "")[1] for piece in pieces]
        return cls(
            torch.tensor(begins, device=subject.device),
            torch.tensor([len(prefix) for prefix in prefixes], device=subject.device),
            subject.framing.target_end,
        )

    def process(self, beam: Beam, values_BKV: Tensor, own_BKV: Tensor) -> None:  # noqa: ARG002
        """Look at the last token, if it stands behind the prefix."""
        behind_B = beam.length > self.lengths_B[beam.sources_B]
        over_BK = self.begins_V[beam.tokens_BKT[:, :, -1]] & behind_B[:, None]
        end_BK = values_BKV[:, :, self.eos].clone()
        values_BKV.masked_fill_(over_BK[:, :, None], -torch.inf)
        values_BKV[:, :, self.eos] = end_BK
