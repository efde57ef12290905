"""Transfer inline tags to a translation by word alignment.

The translation is split into tokens: words, and the punctuation at their edges. Each pair of tags
is placed around the contiguous tokens with the largest sum of coverage scores: +1 for a token that
is aligned to text inside the pair, -1 for a token that is aligned to text outside of it. A pair
stays inside its parent pair and does not overlap its siblings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from seq2see.markup.text_units import (
    ROOT,
    IndexRange,
    InlineTag,
    StandaloneTag,
    TargetTagPosition,
    TextUnit,
)
from seq2see.markup.weighted_links import (
    WORD_PATTERN,
    WeightedRangeLink,
    is_space_or_punctuation_character,
    split_links_into_word_and_punctuation,
    split_range_around_core,
    trim_punctuation_from_range,
)

_UNALIGNED_SCORE = -0.1
"""Coverage score of a token without alignment: small enough to be included between aligned tokens,
but negative, so that a range never ends with one."""
_MAX_TOKEN_DISTANCE = 64
"""Maximum distance of a token from the expected position of a pair without aligned tokens."""


def compute_target_tag_positions(
    unit: TextUnit,
    target: str,
    links: Sequence[WeightedRangeLink],
    copied_links: Sequence[WeightedRangeLink] = (),
) -> list[TargetTagPosition]:
    """Return the position of each tag of a unit in its translation.

    Each protected range of the unit must be inside the source of one of `copied_links`, which link
    text that is the same in source and target.
    """
    if not unit.tags:
        return []
    return _TagTransfer(unit, target, links, copied_links).compute_positions()


def transfer_offsets(
    source: str, target: str, links: Sequence[WeightedRangeLink], offsets: Sequence[int]
) -> list[int]:
    """Return the target offsets that correspond to these source offsets."""
    tags = tuple(InlineTag(offset, offset, ROOT, StandaloneTag()) for offset in offsets)
    return [
        position.start
        for position in compute_target_tag_positions(TextUnit(source, tags), target, links)
    ]


class TargetTokenWithLink(NamedTuple):
    """A token of the translation and one of the links to it."""

    link: WeightedRangeLink
    token_index: int


class AlignedTokenTable:
    """The tokens of a translation, indexed by the source offsets that they are aligned to."""

    def __init__(self, tokens: Sequence[IndexRange], links: Sequence[WeightedRangeLink]) -> None:
        rows = sorted(
            TargetTokenWithLink(link, token)
            for link in links
            for token in _overlapping_tokens(tokens, link.target)
        )
        self._by_size = defaultdict[int, list[TargetTokenWithLink]](list)
        """Rows by the length of their source range, in powers of two. Otherwise one long link among
        many short ones would make every search look at all rows."""
        self._totals = [0.0] * len(tokens)
        strongest: dict[int, TargetTokenWithLink] = {}
        for row in rows:
            self._by_size[_size_class(row.link)].append(row)
            self._totals[row.token_index] += row.link.weight
            other = strongest.get(row.token_index)
            if other is None or row.link.weight > other.link.weight:
                strongest[row.token_index] = row
        self._strongest = sorted(
            strongest.values(), key=lambda row: (row.link.source.start, -row.link.weight)
        )

    def score_coverage(self, tag: InlineTag) -> dict[int, float]:
        """Return a score from -1 to 1 for each token in the range that a pair of tags may cover.

        1 means that the token is aligned only to text inside the tags, -1 only to text outside.
        """
        covered = defaultdict[int, float](float)
        for size, rows in self._by_size.items():
            first = bisect_left(rows, tag.start - (1 << size), key=_source_start)
            last = bisect_left(rows, tag.end, key=_source_start)
            for link, token in rows[first:last]:
                if fraction := _fraction_inside(link.source, tag):
                    covered[token] += link.weight * fraction
        scores = {t: 2 * weight / (self._totals[t] or 1) - 1 for t, weight in covered.items()}
        for token in range(min(scores, default=0), max(scores, default=0)):
            scores.setdefault(token, -1 if self._totals[token] else _UNALIGNED_SCORE)
        return scores

    def find_neighbors(
        self, offset: int
    ) -> tuple[TargetTokenWithLink | None, TargetTokenWithLink | None]:
        """Return the tokens aligned to the words before and after a source offset."""
        index = bisect_left(self._strongest, offset, key=_source_start)
        before = self._strongest[index - 1] if index else None
        if before:  # the first row of a word has its largest weight
            start = _source_start(before)
            before = self._strongest[bisect_left(self._strongest, start, key=_source_start)]
        return before, self._strongest[index] if index < len(self._strongest) else None


def _source_start(row: TargetTokenWithLink) -> int:
    return row.link.source.start


def _size_class(link: WeightedRangeLink) -> int:
    """Return the exponent of the smallest power of two above the length of the source range."""
    return (link.source.end - link.source.start).bit_length()


def _overlapping_tokens(tokens: Sequence[IndexRange], index_range: IndexRange) -> range:
    first = bisect_right(tokens, index_range.start, key=lambda token: token.end)
    return range(first, bisect_left(tokens, index_range.end, key=lambda token: token.start))


def _fraction_inside(index_range: IndexRange, tag: InlineTag) -> float:
    """Return the fraction of a source range that is inside a tag."""
    common = min(index_range.end, tag.end) - max(index_range.start, tag.start)
    return max(common, 0) / (index_range.end - index_range.start)


def tokenize_target(
    text: str, links: Iterable[WeightedRangeLink], protected: Sequence[IndexRange]
) -> list[IndexRange]:
    """Split a text into words and punctuation; each protected range is one token."""
    boundaries = {0, len(text)}
    for match in WORD_PATTERN.finditer(text):
        word = IndexRange(*match.span())
        for part in split_range_around_core(word, trim_punctuation_from_range(text, word)):
            boundaries.update(part)
    for link in links:
        boundaries.update(link.target)
    ordered = sorted(boundaries)
    for start, end in protected:
        inside = ordered[bisect_right(ordered, start) : bisect_left(ordered, end)]
        boundaries.difference_update(inside)
        boundaries.update((start, end))
    protected_set = set(protected)
    parts = (IndexRange(*part) for part in pairwise(sorted(boundaries)))
    tokens = (part if part in protected_set else _strip_spaces(text, part) for part in parts)
    return [token for token in tokens if token.start < token.end]


def _strip_spaces(text: str, index_range: IndexRange) -> IndexRange:
    part = text[index_range.start : index_range.end]
    start = index_range.start + len(part) - len(part.lstrip())
    return IndexRange(start, start + len(part.strip()))


class _TagTransfer:
    """Computes the positions of all tags, from the outermost pairs inwards."""

    def __init__(
        self,
        unit: TextUnit,
        target: str,
        links: Sequence[WeightedRangeLink],
        copied_links: Sequence[WeightedRangeLink],
    ) -> None:
        self._source, self._target = _SourceUnit(unit), target
        self._tags, self._copied_links = unit.tags, sorted(copied_links)
        tag_offsets = sorted({offset for tag in unit.tags for offset in (tag.start, tag.end)})
        split_links = split_links_into_word_and_punctuation(unit.text, target, links, tag_offsets)
        all_links = [*split_links, *copied_links]
        self._tokens = tokenize_target(target, all_links, [link.target for link in copied_links])
        self._aligned = AlignedTokenTable(self._tokens, all_links)
        self._owners = [ROOT] * len(self._tokens)
        """Index of the innermost pair of tags that contains each token."""
        self._token_ranges = {ROOT: IndexRange(0, len(self._tokens))}
        """The tokens of each pair of tags."""
        self._positions: list[TargetTagPosition] = [TargetTagPosition(0, 0, ROOT)] * len(unit.tags)
        self._used_spaces = set[int]()
        """Offsets of the white space at the ends of a pair."""

    def compute_positions(self) -> list[TargetTagPosition]:
        self._place_children(ROOT, IndexRange(0, len(self._target)))
        for index, tag in enumerate(self._tags):
            if tag.is_protected:
                self._positions[index] = self._protected_position(tag)
        return self._positions

    def _place_children(self, parent: int, bounds: IndexRange) -> None:
        """Place the tags inside a pair of tags whose content has these bounds."""
        empty = []
        for index in self._source.children.get(parent, ()):
            tag = self._tags[index]
            if tag.is_pair and self._source.has_text(tag.start, tag.end):
                tokens = self._choose_tokens(tag)
                self._token_ranges[index] = tokens
                self._owners[slice(*tokens)] = [index] * (tokens.end - tokens.start)
                characters = self._to_characters(tag, tokens, bounds)
                self._positions[index] = TargetTagPosition(*characters, parent)
                self._place_children(index, characters)
            elif not tag.is_protected:
                empty.append(index)
        for index in empty:
            self._place_empty(index, bounds)

    def _choose_tokens(self, tag: InlineTag) -> IndexRange:
        """Return the tokens that a pair of tags is placed around."""
        start, end = bounds = self._token_ranges[tag.parent]
        if self._source.contains_all_text(tag):
            return bounds
        scores = self._aligned.score_coverage(tag)
        best = _find_best_range(scores, self._owners, tag.parent, bounds)
        if best.start < best.end:
            return self._strip_punctuation(tag, best)
        free = [t for t in scores if start <= t < end and self._owners[t] == tag.parent]
        if free:
            chosen = max(free, key=lambda token: (scores[token], -token))
        else:  # no free token is aligned to text inside the tags: use the expected position
            expected = self._find_boundary(tag.start, bounds)
            near = range(
                max(start, expected - _MAX_TOKEN_DISTANCE), min(end, expected + _MAX_TOKEN_DISTANCE)
            )
            free = [token for token in near if self._owners[token] == tag.parent]
            if not free:
                return IndexRange(end, end)
            chosen = min(free, key=lambda token: abs(token - expected))
        return IndexRange(chosen, chosen + 1)

    def _strip_punctuation(self, tag: InlineTag, tokens: IndexRange) -> IndexRange:
        """Remove punctuation at the ends, unless the source text of the tag has it too."""
        text = self._source.text[tag.start : tag.end].strip()
        strip_start = not is_space_or_punctuation_character(text[0])
        strip_end = not is_space_or_punctuation_character(text[-1])
        start, end = tokens
        while strip_start and start < end - 1 and self._is_punctuation(start):
            start += 1
        while strip_end and start < end - 1 and self._is_punctuation(end - 1):
            end -= 1
        return IndexRange(start, end)

    def _is_punctuation(self, token: int) -> bool:
        return all(
            map(is_space_or_punctuation_character, self._target[slice(*self._tokens[token])])
        )

    def _to_characters(self, tag: InlineTag, tokens: IndexRange, bounds: IndexRange) -> IndexRange:
        """Return the characters of tokens, with white space at the ends if the source has it."""
        if tokens.start == tokens.end:
            offset = self._token_edge(tokens.start, bounds)
            return IndexRange(offset, offset)
        start, end = self._tokens[tokens.start].start, self._tokens[tokens.end - 1].end
        if self._source.text[tag.start].isspace() and self._use_space(start - 1, bounds):
            start -= 1
        if self._source.text[tag.end - 1].isspace() and self._use_space(end, bounds):
            end += 1
        return IndexRange(start, end)

    def _use_space(self, offset: int, bounds: IndexRange) -> bool:
        """Reserve the white space at an offset; return whether there is any that is not used."""
        is_inside = bounds.start <= offset < bounds.end
        if not is_inside or not self._target[offset].isspace() or offset in self._used_spaces:
            return False
        self._used_spaces.add(offset)
        return True

    def _place_empty(self, index: int, bounds: IndexRange) -> None:
        """Place a standalone tag, or a pair of tags without text and the tags inside it."""
        tag = self._tags[index]
        offset = self._find_empty_offset(tag, bounds)
        self._positions[index] = TargetTagPosition(offset, offset, tag.parent)
        if tag.is_pair:
            end = self._token_ranges[tag.parent].end
            self._token_ranges[index] = IndexRange(end, end)
            self._place_children(index, IndexRange(offset, offset))

    def _find_empty_offset(self, tag: InlineTag, bounds: IndexRange) -> int:
        tokens, around = self._token_ranges[tag.parent], self._source.parent_range(tag)
        if not self._source.has_text(around.start, tag.start):
            before = tag.start - around.start
            return min(bounds.start + before, self._token_edge(tokens.start, bounds))
        if not self._source.has_text(tag.start, around.end):
            after = around.end - tag.start
            return max(bounds.end - after, self._token_edge(tokens.end, bounds, at_end=True))
        token = self._move_out_of_sibling(self._find_boundary(tag.start, tokens), tag.parent)
        return self._token_edge(token, bounds, at_end=self._source.follows_word(tag.start))

    def _token_edge(self, token: int, bounds: IndexRange, *, at_end: bool = False) -> int:
        """Return the offset at which a token starts or, with `at_end`, the previous token ends."""
        if at_end and token > 0:
            offset = self._tokens[token - 1].end
        else:
            offset = self._tokens[token].start if token < len(self._tokens) else bounds.end
        return min(max(offset, bounds.start), bounds.end)

    def _find_boundary(self, offset: int, tokens: IndexRange) -> int:
        """Return the token before which a tag at this source offset is placed."""
        before, after = self._aligned.find_neighbors(offset)
        if before and (self._source.follows_word(offset) or not after):
            token = before.token_index + 1
        elif after:
            token = after.token_index
        else:
            token = round(offset / max(len(self._source.text), 1) * len(self._tokens))
        return min(max(token, tokens.start), tokens.end)

    def _move_out_of_sibling(self, token: int, parent: int) -> int:
        """Return the nearest token boundary that is not inside a sibling pair of tags."""
        if not 0 < token < len(self._tokens):
            return token
        sibling = self._find_child(token, parent)
        if sibling == ROOT or sibling != self._find_child(token - 1, parent):
            return token
        start, end = self._token_ranges[sibling]
        return start if token - start <= end - token else end

    def _find_child(self, token: int, parent: int) -> int:
        """Return the pair of tags directly inside `parent` that contains a token, or ROOT."""
        owner = self._owners[token]
        while owner != ROOT and self._tags[owner].parent != parent:
            owner = self._tags[owner].parent
        return owner

    def _protected_position(self, tag: InlineTag) -> TargetTagPosition:
        """Return the position of protected text, which a copied link contains."""
        index = bisect_right(self._copied_links, tag.start, key=lambda link: link.source.start)
        source, target, _ = self._copied_links[index - 1]
        assert source.start <= tag.start
        assert tag.end <= source.end
        start = target.start + tag.start - source.start
        token = bisect_right(self._tokens, start, key=lambda token: token.start) - 1
        return TargetTagPosition(start, start + tag.end - tag.start, self._owners[token])


class _SourceUnit:
    """The text of a unit, with the tree of its tags."""

    def __init__(self, unit: TextUnit) -> None:
        self.text = unit.text
        self._tags = unit.tags
        self._num_visible = [0, *accumulate(not character.isspace() for character in unit.text)]
        """Number of characters before each offset that are not white space."""
        self.children: dict[int, list[int]] = {}
        for index, tag in enumerate(unit.tags):
            self.children.setdefault(tag.parent, []).append(index)

    def has_text(self, start: int, end: int) -> bool:
        return self._num_visible[end] > self._num_visible[start]

    def parent_range(self, tag: InlineTag) -> IndexRange:
        if tag.parent == ROOT:
            return IndexRange(0, len(self.text))
        return IndexRange(self._tags[tag.parent].start, self._tags[tag.parent].end)

    def contains_all_text(self, tag: InlineTag) -> bool:
        """Return whether a pair of tags contains all text of its parent."""
        start, end = self.parent_range(tag)
        return not self.has_text(start, tag.start) and not self.has_text(tag.end, end)

    def follows_word(self, offset: int) -> bool:
        """Return whether an offset is directly after a word and before punctuation or a space."""
        before, after = self.text[offset - 1 : offset], self.text[offset : offset + 1]
        return bool(before.strip() and after) and is_space_or_punctuation_character(after)


def _find_best_range(
    scores: Mapping[int, float], owners: Sequence[int], owner: int, bounds: IndexRange
) -> IndexRange:
    """Return the free tokens with the largest sum of scores, or an empty range if none is above 0.

    A token is free if its owner is `owner`.
    """
    best_total, best = 0.0, IndexRange(bounds.start, bounds.start)
    total, start = 0.0, bounds.start
    for token in range(max(bounds.start, min(scores, default=bounds.end)), bounds.end):
        if token not in scores:
            break  # no later token is aligned to text inside the tags
        if owners[token] != owner:
            total = 0.0
            continue
        if total <= 0:
            total, start = 0.0, token
        total += scores[token]
        if total > best_total:
            best_total, best = total, IndexRange(start, token + 1)
    return best
