"""Tokenizers: text to ids and back, and the character offsets of pieces.

A tokenizer is a SentencePiece file. A file that seq2see trained contains its config and works on
text normalized by `seq2see.text.normalization`, so that `decode(encode(x)) == normalize(x)` for any
text. Any other SentencePiece file works as it does in SentencePiece, with its own normalization.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from functools import cached_property
from itertools import chain, pairwise, takewhile
from pathlib import Path
from typing import Self

from sentencepiece import SentencePieceProcessor

from seq2see.atomic_files import atomic_write
from seq2see.errors import InputError, reading
from seq2see.regular_files import read_regular_file
from seq2see.text import sentencepiece_file
from seq2see.text.normalization import (
    check_surrogates,
    normalize_and_escape,
    normalize_unicode_and_spaces,
    unescape_meta_space,
)
from seq2see.text.packed_ids import CachedWordEncoder, EncodeFunction, PackedIds
from seq2see.text.subword_sampling import SEGMENTERS, SegmenterVocabulary, SubwordSampler
from seq2see.text.tokenizer_training import SpecialIds, TokenizerConfig, train_sentencepiece

JOINT_FILE, SOURCE_FILE, TARGET_FILE = "tokenizer.model", "source.model", "target.model"
MAX_TOKENIZER_BYTES = 1 << 28
"""Maximum size of a tokenizer file."""
TOKENIZER_FILES = (JOINT_FILE, SOURCE_FILE, TARGET_FILE)
"""Names of the files of a joint tokenizer, and of the tokenizers of each side."""


class Tokenizer:
    """Encodes text as ids of pieces, and decodes ids. It is thread-safe.

    Args:
        serialized_model: Content of a SentencePiece model file.

    Raises:
        InputError: If it is no SentencePiece model.
    """

    def __init__(self, serialized_model: bytes) -> None:
        self.serialized_model = serialized_model
        self._processor = _load_processor(serialized_model)
        try:
            info = sentencepiece_file.read_sentencepiece_info(serialized_model)
            config = json.loads(info.config_json) if info.config_json else None
            self.config = TokenizerConfig.model_validate(config) if config is not None else None
            """Settings of its training; None for a model of another system."""
            _ = self.pieces  # all of them must be valid UTF-8
        except (ValueError, LookupError, TypeError, RecursionError, struct.error) as error:
            raise InputError(
                f"this must be a SentencePiece model, but is damaged: {error}"
            ) from None
        self.model_type = info.model_type
        """`bpe` or `unigram`."""
        self.user_defined_symbols = info.user_defined_symbols
        """Placeholders that are never split."""

    @classmethod
    def train(cls, lines: Iterable[str], config: TokenizerConfig) -> Self:
        """Train a tokenizer; see `train_sentencepiece`."""
        return cls(train_sentencepiece(lines, config))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Load a SentencePiece model, of seq2see or another system.

        Raises:
            InputError: If the file cannot be read or is no SentencePiece model.
        """
        with reading(f"`{path}`"):
            content = read_regular_file(Path(path), MAX_TOKENIZER_BYTES)
        try:
            return cls(content)
        except InputError as error:
            raise InputError(f"`{path}`: {error}") from None

    def save(self, path: Path | str) -> None:
        """Write the model to a file, atomically."""
        with atomic_write(Path(path)) as partial:
            partial.write_bytes(self.serialized_model)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens.

        Raises:
            InputError: If the text is not valid Unicode.
        """
        (prepared,) = self._normalize_and_escape([text])
        try:
            ids: list[int] = self._processor.encode(prepared)
        except RuntimeError:
            check_surrogates(text)
            raise
        return ids

    def encode_batch(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Return the ids of many texts; equal to `encode` for each text."""
        encode: EncodeFunction = self._processor.encode
        if self._encodes_words_separately:
            encode = self._word_encoder
        try:
            num_threads = min(threads, max(1, len(lines)))
            return encode(self._normalize_and_escape(lines), num_threads=num_threads)
        except (RuntimeError, TypeError):
            for number, line in enumerate(lines, start=1):
                check_surrogates(line, f" of line {number}")
            raise

    def encode_packed(self, lines: Sequence[str], threads: int = 1) -> PackedIds:
        """Return the ids of many texts, concatenated."""
        return PackedIds.from_lists(self.encode_batch(lines, threads))

    @cached_property
    def _word_encoder(self) -> CachedWordEncoder:
        return CachedWordEncoder(self._processor.encode)

    @cached_property
    def _encodes_words_separately(self) -> bool:
        """Whether the ids of a line are the ids of its words.

        This holds if no merge crosses a space and words are separated by one space. (Unigram sums
        scores over whole lines, where rounding may differ.)
        """
        is_normalized = self.config is not None and self.config.normalization != "none"
        return is_normalized and self.model_type == "bpe" and self._has_no_inner_spaces

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids. Special tokens have no text; invalid bytes become U+FFFD.

        Raises:
            InputError: If an id is not in the vocabulary.
        """
        text: str = self._processor.decode(self._check_ids(ids))
        return unescape_meta_space(text) if self.config else text

    def decode_batch(self, rows: Sequence[Sequence[int]], threads: int = 1) -> list[str]:
        """Return the texts of many rows of ids; equal to `decode` for each row."""
        if not rows:
            return []
        checked = [self._check_ids(ids) for ids in rows]
        num_threads = min(threads, len(checked))
        texts: list[str] = self._processor.decode(checked, num_threads=num_threads)
        return [*map(unescape_meta_space, texts)] if self.config else texts

    def _check_ids(self, ids: Sequence[int]) -> list[int]:
        """Return the ids as Python numbers, as SentencePiece requires, if they are valid."""
        checked = [*map(int, ids)]
        if checked and not 0 <= min(checked) <= max(checked) < self.vocab_size:
            allowed = f"ids must be from 0 to {self.vocab_size - 1}"
            raise InputError(f"{allowed}, but are from {min(checked)} to {max(checked)} instead")
        return checked

    def sample(self, text: str, dropout: float, seed: int, epoch: int, line: int) -> list[int]:
        """Return the ids of a random segmentation; see `seq2see.text.subword_sampling`.

        The result depends only on the arguments. With `dropout` 0 it is `encode(text)`, with 1 the
        pieces are single characters.
        """
        if not 0 <= dropout <= 1:
            raise InputError(f"`dropout` must be from 0 to 1, but is {dropout} instead")
        if dropout == 0:
            return self.encode(text)
        ids = self._sampler.sample(self._split_words(text), dropout, (seed, epoch, line))
        unk = self.special_ids.unk  # SentencePiece encodes a run of unknown characters as one id
        if unk not in ids:
            return ids
        return [i for k, i in enumerate(ids) if i != unk or ids[k - 1 : k] != [unk]]

    def normalize(self, text: str) -> str:
        """Return the text as it is after encoding and decoding.

        A model of another system may normalize it further.
        """
        return (
            normalize_unicode_and_spaces(text, self.config.normalization) if self.config else text
        )

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """All pieces, in the order of their ids."""
        return tuple(self._processor.id_to_piece(list(range(self.vocab_size))))

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return len(self._processor)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the serialized model, including its config."""
        return hashlib.sha256(self.serialized_model).hexdigest()

    @cached_property
    def special_ids(self) -> SpecialIds:
        """Ids of the special tokens; None for those that the model lacks."""
        processor = self._processor
        ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        return SpecialIds(*(None if i < 0 else i for i in ids))

    @cached_property
    def byte_ids(self) -> frozenset[int]:
        """Ids of the bytes that encode characters without a piece."""
        return frozenset(i for i in range(self.vocab_size) if self._processor.is_byte(i))

    def __reduce__(self) -> tuple[Callable[[bytes], Tokenizer], tuple[bytes]]:
        return type(self), (self.serialized_model,)

    def _normalize_and_escape(self, lines: Sequence[str]) -> list[str]:
        return (
            normalize_and_escape(lines, self.config.normalization) if self.config else list(lines)
        )

    def _split_words(self, text: str) -> list[str]:
        """Split a normalized text at boundaries that no piece crosses."""
        check_surrogates(text)
        (prepared,) = self._normalize_and_escape([text])
        words: list[str] = self._word_pattern.findall(self._processor.normalize(prepared))
        return words

    @cached_property
    def _has_no_inner_spaces(self) -> bool:
        return all("▁" not in piece[1:] for piece in self._text_pieces)

    @cached_property
    def _word_pattern(self) -> re.Pattern[str]:
        start, inside = ("▁?", "[^▁]") if self._has_no_inner_spaces else ("", "(?s:.)")
        if self.user_defined_symbols:
            longest_first = sorted(self.user_defined_symbols, key=len, reverse=True)
            symbol = "|".join(map(re.escape, longest_first))
            return re.compile(f"{symbol}|{start}(?:(?!{symbol}){inside})+|▁")
        return re.compile(f"{start}{inside}+|▁")

    @cached_property
    def _text_pieces(self) -> dict[str, int]:
        """Ids of the pieces that can occur in a text."""
        processor = self._processor
        return {
            piece: i
            for i, piece in enumerate(self.pieces)
            if not (processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))
        }

    @cached_property
    def _sampler(self) -> SubwordSampler:
        if self.model_type not in SEGMENTERS:
            raise InputError(
                f"only {', '.join(SEGMENTERS)} models can be sampled, "
                f"but this one is {self.model_type}"
            )
        processor, unk = self._processor, self.special_ids.unk
        assert unk is not None  # SentencePiece requires it
        scores = {
            p: processor.get_score(i)
            for p, i in self._text_pieces.items()
            if p not in self.user_defined_symbols
        }
        vocabulary = SegmenterVocabulary(self._text_pieces, scores, sorted(self.byte_ids), unk)
        symbols = {symbol: self._text_pieces[symbol] for symbol in self.user_defined_symbols}
        return SubwordSampler(SEGMENTERS[self.model_type], vocabulary, symbols)


@dataclass(frozen=True, slots=True)
class TokenizerPair:
    """Tokenizers of both sides. A joint tokenizer is the same object on both sides."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def train(cls, source: Iterable[str], target: Iterable[str], config: TokenizerConfig) -> Self:
        """Train a joint tokenizer or one per side, as `config.joint` says."""
        if config.joint:
            tokenizer = Tokenizer.train(chain(source, target), config)
            return cls(tokenizer, tokenizer)
        return cls(*(Tokenizer.train(lines, config) for lines in (source, target)))

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Load the files that `save` has written, or a SentencePiece file for both sides."""
        if not Path(directory).is_dir():
            return cls.from_files({JOINT_FILE: Tokenizer.load(directory)})
        is_joint = Path(directory, JOINT_FILE).exists()
        names = (JOINT_FILE,) if is_joint else (SOURCE_FILE, TARGET_FILE)
        return cls.from_files({name: Tokenizer.load(Path(directory, name)) for name in names})

    @classmethod
    def from_files(cls, tokenizers: Mapping[str, Tokenizer]) -> Self:
        """Return the tokenizers with these names of files; see `files`."""
        joint = tokenizers.get(JOINT_FILE)
        return cls(joint or tokenizers[SOURCE_FILE], joint or tokenizers[TARGET_FILE])

    @property
    def files(self) -> dict[str, Tokenizer]:
        """The joint tokenizer, or both tokenizers, by the names of their files."""
        if self.is_joint:
            return {JOINT_FILE: self.source}
        return {SOURCE_FILE: self.source, TARGET_FILE: self.target}

    def save(self, directory: Path | str) -> None:
        """Write `tokenizer.model`, or `source.model` and `target.model`."""
        for name, tokenizer in self.files.items():
            tokenizer.save(Path(directory, name))
        if not self.is_joint:
            Path(directory, JOINT_FILE).unlink(missing_ok=True)  # otherwise `load` would use it

    @property
    def is_joint(self) -> bool:
        """Whether both sides have the same tokenizer."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """SHA-256 of both fingerprints."""
        fingerprints = self.source.fingerprint + self.target.fingerprint
        return hashlib.sha256(fingerprints.encode()).hexdigest()


def _load_processor(model: bytes) -> SentencePieceProcessor:
    processor = SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, ValueError):  # the message of SentencePiece may be invalid Unicode
        raise InputError("this must be a SentencePiece model, but is not") from None
    return processor


Offsets = tuple[int, int]
"""Start and end (exclusive) in a text, in characters."""


def find_offsets_in_decoded_text(
    tokenizer: Tokenizer, ids: Sequence[int], text: str
) -> list[Offsets]:
    """Return the offsets of each id in the text that they decode to, without leading spaces.

    A character that is encoded as several bytes belongs to the last of them.
    """
    ends = [0]
    for num_ids in range(1, len(ids) + 1):
        decoded = tokenizer.decode(ids[:num_ids])
        ends.append(len(decoded) if text.startswith(decoded) else ends[-1])  # incomplete character
    ends[-1] = len(text)
    return [(_skip_spaces(text, start, end), end) for start, end in pairwise(ends)]


def find_offsets_in_original_text(
    tokenizer: Tokenizer, ids: Sequence[int], text: str
) -> list[Offsets]:
    """Return the offsets of each id in the text that was encoded, before normalization."""
    normalized = tokenizer.decode(ids)
    map_offset = build_offset_mapper(normalized, text)
    offsets = find_offsets_in_decoded_text(tokenizer, ids, normalized)
    return [(map_offset(start), map_offset(end)) for start, end in offsets]


def build_offset_mapper(normalized: str, text: str) -> Callable[[int], int]:
    """Return a function that maps an offset in a normalized text to the original text."""
    start = text.find(normalized)
    if start >= 0:
        return lambda offset: offset + start
    blocks = _find_matching_blocks(normalized, text)

    def map_offset(offset: int) -> int:
        index = bisect_right(blocks, offset, key=lambda block: block.a)
        if not index:
            return 0
        best = blocks[index - 1]
        return min(best.b + min(offset - best.a, best.size), len(text))

    return map_offset


_MATCHING_WINDOW = 256
"""Number of characters that are compared at once. `SequenceMatcher` takes time in the order of n³
for a text that repeats a few characters."""


def _find_matching_blocks(normalized: str, text: str) -> list[Match]:
    """Return the equal parts of two texts in order, and an empty one at their ends.

    The texts are compared in overlapping windows, so a longer part that only one text has is not
    recognized.
    """
    blocks: list[Match] = []
    a = b = 0
    while max(len(normalized) - a, len(text) - b) > _MATCHING_WINDOW:
        own, other = normalized[a : a + _MATCHING_WINDOW], text[b : b + _MATCHING_WINDOW]
        if not own or not other:
            return [*blocks, Match(len(normalized), len(text), 0)]
        if num_equal := _count_equal_characters(own, other):
            blocks.append(Match(a, b, num_equal))
            a, b = a + num_equal, b + num_equal
            continue
        if other[0].isspace() and not own[0].isspace():
            b += len(other) - len(other.lstrip())
            continue
        half = a + _MATCHING_WINDOW // 2
        found = _match_window(own, other, a, b)
        inside = [
            Match(each.a, each.b, min(each.size, half - each.a)) for each in found if each.a < half
        ]
        blocks += inside
        if inside:
            a, b = inside[-1].a + inside[-1].size, inside[-1].b + inside[-1].size
        elif found:
            a, b = found[0].a, found[0].b
        else:
            a, b = a + _MATCHING_WINDOW // 2, b + _MATCHING_WINDOW // 2
    blocks += _match_window(normalized[a:], text[b:], a, b)
    return [*blocks, Match(len(normalized), len(text), 0)]


def _count_equal_characters(text: str, other: str) -> int:
    """Return the length of the beginning that two texts share."""
    pairs = zip(text, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _match_window(normalized: str, text: str, a: int, b: int) -> list[Match]:
    """Return the equal parts of two texts that start at these offsets."""
    matcher = SequenceMatcher(None, normalized, text, autojunk=False)
    return [Match(a + i, b + j, size) for i, j, size in matcher.get_matching_blocks() if size]


def _skip_spaces(text: str, start: int, end: int) -> int:
    return start + len(text[start:end]) - len(text[start:end].lstrip())
