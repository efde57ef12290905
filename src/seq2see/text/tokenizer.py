"""Tokenizers: text to ids and back, and the character offsets of pieces.

A tokenizer is a SentencePiece file. A file that seq2see trained contains its config and works on
text normalized by `seq2see.text.normalization`, so that `decode(encode(x)) == normalize(x)` for any
text. Any other SentencePiece file works as it does in SentencePiece, with its own normalization.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Self

from sentencepiece import SentencePieceProcessor

from seq2see.errors import InputError
from seq2see.progress import MessageCallback
from seq2see.text import sentencepiece_file
from seq2see.text.batch_encoding import CachedWordEncoder, PackedIds
from seq2see.text.normalization import (
    check_surrogates,
    normalize,
    normalize_and_escape,
    unescape_meta_space,
)
from seq2see.text.subword_sampling import (
    BpeSegmenter,
    Segmenter,
    SubwordSampler,
    SubwordVocabulary,
    UnigramSegmenter,
)
from seq2see.text.tokenizer_training import (
    SpecialIds,
    TokenizerConfig,
    train_sentencepiece,
)

_SEGMENTERS: dict[str, Callable[[SubwordVocabulary], Segmenter]] = {
    "bpe": BpeSegmenter,
    "unigram": UnigramSegmenter,
}


_FILES = ("tokenizer.model", "source.model", "target.model")


class Tokenizer:
    """Cuts text into pieces and gives their ids. Threads may share it: it only remembers words."""

    def __init__(self, serialized_model: bytes) -> None:
        self.serialized_model = serialized_model
        self._processor = _processor(serialized_model)
        about = sentencepiece_file.read_sentencepiece_info(serialized_model)
        self.model_type = about.model_type
        """`bpe` or `unigram`."""
        self.user_defined_symbols = about.user_defined_symbols
        """Placeholders that are never cut."""
        self.config = (
            TokenizerConfig(**json.loads(about.config_json)) if about.config_json else None
        )
        """How it was trained; None for a file from elsewhere."""

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        config: TokenizerConfig,
        on_message: MessageCallback | None = None,
    ) -> Self:
        """Learn from these lines; see `learn`."""
        return cls(train_sentencepiece(lines, config, on_message))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a SentencePiece file, ours or any other."""
        try:
            return cls(Path(path).read_bytes())
        except OSError as error:
            raise InputError(f"`{path}` cannot be read: {error.strerror}") from None
        except InputError as error:
            raise InputError(f"`{path}`: {error}") from None

    def save(self, path: Path | str) -> None:
        """Write the file, whole or not at all."""
        aside = Path(f"{path}.partial")
        aside.write_bytes(self.serialized_model)
        aside.replace(path)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""
        (prepared,) = self._prepared([text])
        try:
            ids: list[int] = self._processor.encode(prepared)
        except RuntimeError:
            check_surrogates(text)
            raise
        return ids

    def encode_batch(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Return the ids of many texts, the same as one by one."""
        return self.encode_packed(lines, threads).to_lists()

    def encode_packed(self, lines: Sequence[str], threads: int = 1) -> PackedIds:
        """Return the ids of many texts, one behind the other."""
        prepared, threads = self._prepared(lines), min(threads, max(1, len(lines)))
        try:
            if self._is_word_by_word:
                return self._word_encoder(prepared, threads)
            ids: list[list[int]] = self._processor.encode(prepared, num_threads=threads)
        except (RuntimeError, TypeError):
            for number, line in enumerate(lines, start=1):
                check_surrogates(line, f" of line {number}")
            raise
        return PackedIds.from_lists(ids)

    @cached_property
    def _word_encoder(self) -> CachedWordEncoder:
        return CachedWordEncoder(self._processor.encode)

    @cached_property
    def _is_word_by_word(self) -> bool:
        """Whether a line's ids are its words' ids: no merge reaches across a space, and there is
        one space between words. (Unigram adds up whole lines, and may round another way.)"""
        ours = self.config is not None and self.config.normalization != "none"
        return ours and self.model_type == "bpe" and self._has_apart_words

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of any ids. PAD, BOS and EOS have none; broken bytes give U+FFFD."""
        text: str = self._processor.decode(self._own(ids))
        return unescape_meta_space(text) if self.config else text

    def decode_batch(self, rows: Sequence[Sequence[int]], threads: int = 1) -> list[str]:
        """Return the texts of many rows of ids, the same as one by one."""
        if not rows:
            return []
        own = [self._own(ids) for ids in rows]
        texts: list[str] = self._processor.decode(own, num_threads=min(threads, len(own)))
        return [*map(unescape_meta_space, texts)] if self.config else texts

    def _own(self, ids: Sequence[int]) -> list[int]:
        """Return ids that are some: SentencePiece takes no numbers of NumPy or torch."""
        own = [*map(int, ids)]
        if own and not 0 <= min(own) <= max(own) < self.vocab_size:
            limit = f"ids must be from 0 to {self.vocab_size - 1}"
            raise InputError(f"{limit}, but are from {min(own)} to {max(own)} instead")
        return own

    def sample(self, text: str, dropout: float, seed: int, epoch: int, line: int) -> list[int]:
        """Return the ids of another cut of the text, by subword dropout; see `sampling`.

        It depends on the text, the rate and these three numbers, and on nothing else. Rate 0 gives
        `encode(text)`, rate 1 single characters.
        """
        if not 0 <= dropout <= 1:
            raise InputError(f"`dropout` must be from 0 to 1, but is {dropout} instead")
        if dropout == 0:
            return self.encode(text)
        ids = self._sampler.sample(self._words(text), dropout, (seed, epoch, line))
        unk = self.special_ids.unk  # SentencePiece writes a run of unknown characters as one
        if unk not in ids:
            return ids
        return [i for k, i in enumerate(ids) if i != unk or ids[k - 1 : k] != [unk]]

    def normalize(self, text: str) -> str:
        """Return the text as it comes back. A file from elsewhere may change it further."""
        return normalize(text, self.config.normalization) if self.config else text

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The pieces, by id."""
        return tuple(self._processor.id_to_piece(list(range(self.vocab_size))))

    @property
    def vocab_size(self) -> int:
        """The number of pieces."""
        return len(self._processor)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the model, its config included."""
        return hashlib.sha256(self.serialized_model).hexdigest()

    @cached_property
    def special_ids(self) -> SpecialIds:
        """The ids that stand for no text."""
        own = self._processor
        ids = (own.pad_id(), own.unk_id(), own.bos_id(), own.eos_id())
        return SpecialIds(*(None if i < 0 else i for i in ids))

    @cached_property
    def byte_ids(self) -> tuple[int, ...]:
        """The pieces that write characters without a piece of their own, byte by byte."""
        return tuple(i for i in range(self.vocab_size) if self._processor.is_byte(i))

    def __reduce__(self) -> tuple[Callable[[bytes], Tokenizer], tuple[bytes]]:
        return type(self), (self.serialized_model,)

    def _prepared(self, lines: Sequence[str]) -> list[str]:
        return (
            normalize_and_escape(lines, self.config.normalization) if self.config else list(lines)
        )

    def _words(self, text: str) -> list[str]:
        """Cut a text, as SentencePiece sees it, where no piece can reach across."""
        check_surrogates(text)
        (prepared,) = self._prepared([text])
        words: list[str] = self._word.findall(self._processor.normalize(prepared))
        return words

    @cached_property
    def _has_apart_words(self) -> bool:
        return all("▁" not in piece[1:] for piece in self._in_text)

    @cached_property
    def _word(self) -> re.Pattern[str]:
        start, inside = ("▁?", "[^▁]") if self._has_apart_words else ("", "(?s:.)")
        if self.user_defined_symbols:
            longest_first = sorted(self.user_defined_symbols, key=len, reverse=True)
            symbol = "|".join(map(re.escape, longest_first))
            return re.compile(f"{symbol}|{start}(?:(?!{symbol}){inside})+|▁")
        return re.compile(f"{start}{inside}+|▁")

    @cached_property
    def _in_text(self) -> dict[str, int]:
        """The pieces that may be found in a text, with their ids."""
        own = self._processor
        return {
            piece: i
            for i, piece in enumerate(self.pieces)
            if not (own.is_control(i) or own.is_unknown(i) or own.is_byte(i))
        }

    @cached_property
    def _sampler(self) -> SubwordSampler:
        if self.model_type not in _SEGMENTERS:
            raise InputError(
                f"only {', '.join(_SEGMENTERS)} can be sampled, but not {self.model_type}"
            )
        own, unk = self._processor, self.special_ids.unk
        assert unk is not None  # SentencePiece loads no model without
        scores = {
            p: own.get_score(i)
            for p, i in self._in_text.items()
            if p not in self.user_defined_symbols
        }
        segmenter = _SEGMENTERS[self.model_type](
            SubwordVocabulary(self._in_text, scores, self.byte_ids, unk)
        )
        return SubwordSampler(
            segmenter, {symbol: self._in_text[symbol] for symbol in self.user_defined_symbols}
        )


@dataclass(frozen=True, slots=True)
class TokenizerPair:
    """The tokenizers of both sides; where they are joint, one and the same."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def train(
        cls,
        source: Iterable[str],
        target: Iterable[str],
        config: TokenizerConfig,
        on_message: MessageCallback | None = None,
    ) -> Self:
        """Learn from the lines of both sides, together or one by one as the config says."""
        if config.joint:
            both = Tokenizer.train(chain(source, target), config, on_message)
            return cls(both, both)
        return cls(*(Tokenizer.train(lines, config, on_message) for lines in (source, target)))

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Read what `save` has written."""
        joint, source, target = (Path(directory, name) for name in _FILES)
        if joint.exists():
            both = Tokenizer.load(joint)
            return cls(both, both)
        return cls(Tokenizer.load(source), Tokenizer.load(target))

    def save(self, directory: Path | str) -> None:
        """Write `tokenizer.model`, or `source.model` and `target.model`."""
        joint, source, target = (Path(directory, name) for name in _FILES)
        if self.is_joint:
            self.source.save(joint)
            return
        self.source.save(source)
        self.target.save(target)
        joint.unlink(missing_ok=True)  # it would be taken for ours

    @property
    def is_joint(self) -> bool:
        """Both sides have the same tokenizer."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """SHA-256 of both."""
        both = self.source.fingerprint + self.target.fingerprint
        return hashlib.sha256(both.encode()).hexdigest()


def _processor(model: bytes) -> SentencePieceProcessor:
    processor = SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError:
        raise InputError("this must be a SentencePiece model, but is something else") from None
    return processor


Offsets = tuple[int, int]


def find_piece_offsets(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[Offsets]:
    """Return the characters of each id in the text that they decode to, without spaces before.

    A character that several ids spell out, byte by byte, belongs to the last of them.
    """
    ends = [0]
    for count in range(1, len(ids) + 1):
        so_far = tokenizer.decode(ids[:count])
        ends.append(len(so_far) if text.startswith(so_far) else ends[-1])  # half a character
    ends[-1] = len(text)
    return [(_behind_space(text, a, b), b) for a, b in pairwise(ends)]


def find_source_offsets(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[Offsets]:
    """Return the characters of each id in the text that they were made from."""
    read = tokenizer.decode(ids)
    carry = build_offset_mapper(read, text)
    return [(carry(start), carry(end)) for start, end in find_piece_offsets(tokenizer, ids, read)]


def build_offset_mapper(normalized: str, text: str) -> Callable[[int], int]:
    """Return what leads from a place in a normalised text to the place in the text itself."""
    start = text.find(normalized)
    if start >= 0:
        return lambda place: place + start
    blocks = SequenceMatcher(None, normalized, text, autojunk=False).get_matching_blocks()

    def carry(place: int) -> int:
        best = blocks[0]
        for block in blocks:
            if block.a <= place:
                best = block
        return min(best.b + min(place - best.a, best.size), len(text)) if place >= best.a else 0

    return carry


def _behind_space(text: str, start: int, end: int) -> int:
    return start + len(text[start:end]) - len(text[start:end].lstrip())
