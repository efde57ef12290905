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

from seq2see.documents.markup import (
    ROOT,
    IndexRange,
    InlineTag,
    StandaloneTag,
    TagPosition,
    TextUnit,
)
from seq2see.documents.word_alignment import (
    WORD_PATTERN,
    CopiedSpan,
    WeightedLink,
    is_space_or_punctuation,
    split_alignment_links,
    split_around_core,
    strip_punctuation,
)

_UNALIGNED = -0.1
"""What an atom that came from nowhere costs a stretch: it is bridged, but not sought."""


class AlignedToken(NamedTuple):
    """An atom, and a tie that it has."""

    link: WeightedLink
    token_index: int


class AlignedTokenTable:
    """Where atoms came from, by the places of the source."""

    def __init__(self, tokens: Sequence[IndexRange], links: Sequence[WeightedLink]) -> None:
        rows = sorted(
            AlignedToken(tie, atom) for tie in links for atom in _covered(tokens, tie.target)
        )
        self._by_size = defaultdict[int, list[AlignedToken]](list)
        """Apart by the size of their words, in powers of two: one long link among many short words
        would else have all of them looked at for each mark."""
        self._totals = [0.0] * len(tokens)
        strongest: dict[int, AlignedToken] = {}
        for row in rows:
            self._by_size[_size(row.link)].append(row)
            self._totals[row.token_index] += row.link.weight
            other = strongest.get(row.token_index)
            if other is None or row.link.weight > other.link.weight:
                strongest[row.token_index] = row
        self._hard = sorted(strongest.values(), key=lambda r: (r.link.source.start, -r.link.weight))

    def score_coverage(self, tag: InlineTag) -> dict[int, float]:
        """Return from -1 to 1 how much of an atom came from inside of a mark, if any of it did.

        Those from nowhere cost a little, since they are bridged, but not sought.
        """
        shares = defaultdict[int, float](float)
        for size, rows in self._by_size.items():
            first = bisect_left(rows, tag.start - (1 << size), key=_place)
            for tie, atom in rows[first : bisect_left(rows, tag.end, key=_place)]:
                if share := _share(tie.source, tag):
                    shares[atom] += tie.weight * share
        result = {atom: 2 * s / (self._totals[atom] or 1) - 1 for atom, s in shares.items()}
        for atom in range(min(result, default=0), max(result, default=0)):
            result.setdefault(atom, -1 if self._totals[atom] else _UNALIGNED)
        return result

    def find_neighbors(self, offset: int) -> tuple[AlignedToken | None, AlignedToken | None]:
        """Return what became of the words before and behind a place of the source."""
        at = bisect_left(self._hard, offset, key=_place)
        before = self._hard[at - 1] if at else None
        if before:  # the strongest of the ties of that word
            before = self._hard[bisect_left(self._hard, _place(before), key=_place)]
        return before, self._hard[at] if at < len(self._hard) else None


def _place(origin: AlignedToken) -> int:
    return origin.link.source.start


def _size(tie: WeightedLink) -> int:
    """Return the power of two that the words of a tie are shorter than."""
    return (tie.source.end - tie.source.start).bit_length()


def _covered(atoms: Sequence[IndexRange], extent: IndexRange) -> range:
    """Return the atoms that an extent has a part of."""
    first = bisect_right(atoms, extent.start, key=lambda atom: atom.end)
    return range(first, bisect_left(atoms, extent.end, key=lambda atom: atom.start))


def tokenize_target(
    text: str, links: Iterable[WeightedLink], protected: Sequence[IndexRange]
) -> list[IndexRange]:
    """Cut a text into words and punctuation; what must stay whole is one."""
    cuts = {0, len(text)}
    for chunk in WORD_PATTERN.finditer(text):
        for part in split_around_core(
            IndexRange(*chunk.span()), strip_punctuation(text, IndexRange(*chunk.span()))
        ):
            cuts.update(part)
    for tie in links:
        cuts.update(tie.target)
    row = sorted(cuts)
    for start, end in protected:
        cuts.difference_update(row[bisect_right(row, start) : bisect_left(row, end)])
        cuts.update((start, end))
    kept = set(protected)
    pieces = (IndexRange(*piece) for piece in pairwise(sorted(cuts)))
    atoms = (piece if piece in kept else _trimmed(text, piece) for piece in pieces)
    return [atom for atom in atoms if atom.start < atom.end]


def _trimmed(text: str, piece: IndexRange) -> IndexRange:
    words = text[piece.start : piece.end]
    start = piece.start + len(words) - len(words.lstrip())
    return IndexRange(start, start + len(words.strip()))


def _share(extent: IndexRange, mark: InlineTag) -> float:
    """Return how much of an extent is inside of a mark."""
    common = min(extent.end, mark.end) - max(extent.start, mark.start)
    return max(common, 0) / (extent.end - extent.start)


class TokenAllocation:
    """The atoms of a pair, and which of them are taken by the pairs directly inside it."""

    def __init__(self, token_range: IndexRange) -> None:
        self.token_range = token_range
        self._taken: list[IndexRange] = []
        """In order; neighbours are joined, so that what is free next is found at once."""

    @property
    def is_unused(self) -> bool:
        """Tell if nothing is taken yet."""
        return not self._taken

    def allocate(self, token_range: IndexRange) -> None:
        """Give away a stretch that is free."""
        start, end = token_range
        if start == end:
            return
        first = last = bisect_left(self._taken, token_range)
        if first and self._taken[first - 1].end == start:
            first -= 1
            start = self._taken[first].start
        if last < len(self._taken) and self._taken[last].start == end:
            end = self._taken[last].end
            last += 1
        self._taken[first:last] = [IndexRange(start, end)]

    def find_nearest_free(self, token_index: int) -> int | None:
        """Return the free atom that is nearest to another, the first of two; None: all are gone."""
        start, end = self.token_range
        if start == end:
            return None
        here = min(max(token_index, start), end - 1)
        at = bisect_right(self._taken, here, key=lambda taken: taken.start) - 1
        if at < 0 or here >= self._taken[at].end:
            return here
        around = (self._taken[at].start - 1, self._taken[at].end)
        free = (place for place in around if start <= place < end)
        return min(free, key=lambda place: abs(place - token_index), default=None)


def transfer_tags(
    unit: TextUnit,
    target: str,
    links: Sequence[WeightedLink],
    copied_spans: Sequence[CopiedSpan] = (),
) -> list[TagPosition]:
    """Return where each mark of the passage stands in its translation.

    Each of the kept words must be in an anchor.
    """
    if not unit.tags:
        return []
    return _Projection(unit, target, links, copied_spans).spots()


def find_insertion_offsets(
    source: str, target: str, links: Sequence[WeightedLink], offsets: Sequence[int]
) -> list[int]:
    """Return where in the target things belong that were at these places of the source."""
    things = tuple(InlineTag(place, place, ROOT, StandaloneTag()) for place in offsets)
    return [spot.start for spot in transfer_tags(TextUnit(source, things), target, links)]


class _Projection:
    def __init__(
        self,
        passage: TextUnit,
        target: str,
        ties: Sequence[WeightedLink],
        anchors: Sequence[CopiedSpan],
    ) -> None:
        self._source, self._target = _Source(passage), target
        self._marks, self._anchors = passage.tags, sorted(anchors)
        anchored = [WeightedLink(anchor.source, anchor.target) for anchor in anchors]
        edges = sorted({edge for mark in passage.tags for edge in (mark.start, mark.end)})
        all_ties = [*split_alignment_links(passage.text, target, ties, edges), *anchored]
        self._atoms = tokenize_target(target, all_ties, [anchor.target for anchor in anchors])
        self._origins = AlignedTokenTable(self._atoms, all_ties)
        self._owners = [ROOT] * len(self._atoms)
        """The innermost pair that has each atom so far."""
        self._rooms = {ROOT: TokenAllocation(IndexRange(0, len(self._atoms)))}
        """The atoms of each pair."""
        self._spots: list[TagPosition] = [TagPosition(0, 0, ROOT)] * len(passage.tags)
        self._white = set[int]()
        """White space that a pair has taken in."""

    def spots(self) -> list[TagPosition]:
        self._place_inside(ROOT, IndexRange(0, len(self._target)))
        for number, mark in enumerate(self._marks):
            if mark.is_protected:
                self._spots[number] = self._anchored(mark)
        return self._spots

    def _place_inside(self, parent: int, bounds: IndexRange) -> None:
        """Place the marks inside a pair that has these characters."""
        points = []
        for number in self._source.children.get(parent, ()):
            mark = self._marks[number]
            if mark.is_pair and self._source.has_words(mark.start, mark.end):
                stretch = self._stretch(mark)
                self._take(number, stretch)
                extent = self._characters(mark, stretch, bounds)
                self._spots[number] = TagPosition(*extent, parent)
                self._place_inside(number, extent)
            elif not mark.is_protected:
                points.append(number)
        for number in points:
            self._place_point(number, bounds)

    def _take(self, number: int, stretch: IndexRange) -> None:
        """Give atoms to a pair, out of the room of the pair that it is in."""
        self._rooms[self._marks[number].parent].allocate(stretch)
        self._rooms[number] = TokenAllocation(stretch)
        self._owners[stretch.start : stretch.end] = [number] * (stretch.end - stretch.start)

    def _stretch(self, mark: InlineTag) -> IndexRange:
        """Return the atoms that a pair of tags goes around."""
        room = self._rooms[mark.parent]
        if self._source.is_all(mark) and room.is_unused:
            return room.token_range
        fits = self._origins.score_coverage(mark)
        best = _best_stretch(fits, self._owners, mark.parent, room.token_range)
        if best.start < best.end:
            return self._without_edges(mark, best)
        start, end = room.token_range
        free = [a for a in fits if start <= a < end and self._owners[a] == mark.parent]
        if free:
            likeliest = max(free, key=lambda atom: (fits[atom], -atom))
        else:  # nothing came from inside: go where it would be
            nearest = room.find_nearest_free(self._boundary(mark.start, room.token_range))
            if nearest is None:
                return IndexRange(end, end)
            likeliest = nearest
        return IndexRange(likeliest, likeliest + 1)

    def _without_edges(self, mark: InlineTag, stretch: IndexRange) -> IndexRange:
        """Leave out punctuation at the ends, unless the pair had some there itself."""
        words = self._source.text[mark.start : mark.end].strip()
        start, end = stretch
        while (
            not is_space_or_punctuation(words[0])
            and start < end - 1
            and self._is_punctuation(start)
        ):
            start += 1
        while (
            not is_space_or_punctuation(words[-1])
            and start < end - 1
            and self._is_punctuation(end - 1)
        ):
            end -= 1
        return IndexRange(start, end)

    def _is_punctuation(self, atom: int) -> bool:
        return all(map(is_space_or_punctuation, self._target[slice(*self._atoms[atom])]))

    def _characters(self, mark: InlineTag, stretch: IndexRange, bounds: IndexRange) -> IndexRange:
        """Return the characters of atoms, with the white space that the pair had at its ends."""
        if stretch.start == stretch.end:
            place = self._edge(stretch.start, bounds)
            return IndexRange(place, place)
        start, end = self._atoms[stretch.start].start, self._atoms[stretch.end - 1].end
        if self._source.text[mark.start].isspace() and self._may_take(start - 1, bounds):
            start -= 1
        if self._source.text[mark.end - 1].isspace() and self._may_take(end, bounds):
            end += 1
        return IndexRange(start, end)

    def _may_take(self, place: int, bounds: IndexRange) -> bool:
        inside = bounds.start <= place < bounds.end
        if not inside or not self._target[place].isspace() or place in self._white:
            return False
        self._white.add(place)
        return True

    def _place_point(self, number: int, bounds: IndexRange) -> None:
        """Place a thing, or a pair without words and all inside it."""
        mark = self._marks[number]
        place = self._point(mark, bounds)
        self._spots[number] = TagPosition(place, place, mark.parent)
        if mark.is_pair:
            end = self._rooms[mark.parent].token_range.end
            self._rooms[number] = TokenAllocation(IndexRange(end, end))
            self._place_inside(number, IndexRange(place, place))

    def _point(self, mark: InlineTag, bounds: IndexRange) -> int:
        room, around = self._rooms[mark.parent].token_range, self._source.around(mark)
        if not self._source.has_words(around.start, mark.start):
            before = mark.start - around.start
            return min(bounds.start + before, self._edge(room.start, bounds))
        if not self._source.has_words(mark.start, around.end):
            behind = around.end - mark.start
            return max(bounds.end - behind, self._edge(room.end, bounds, ends=True))
        atom = self._outside(self._boundary(mark.start, room), mark.parent)
        return self._edge(atom, bounds, ends=self._source.is_glued(mark.start))

    def _edge(self, atom: int, bounds: IndexRange, *, ends: bool = False) -> int:
        """Return the character at which an atom starts, or the one before it ends."""
        if ends and atom > 0:
            place = self._atoms[atom - 1].end
        else:
            place = self._atoms[atom].start if atom < len(self._atoms) else bounds.end
        return min(max(place, bounds.start), bounds.end)

    def _boundary(self, place: int, room: IndexRange) -> int:
        """Return the atom before which a thing at this place of the source belongs."""
        before, behind = self._origins.find_neighbors(place)
        if before and (self._source.is_glued(place) or not behind):
            atom = before.token_index + 1
        elif behind:
            atom = behind.token_index
        else:
            atom = round(place / max(len(self._source.text), 1) * len(self._atoms))
        return min(max(atom, room.start), room.end)

    def _outside(self, atom: int, parent: int) -> int:
        """Return the nearest place that is not inside of a neighbour."""
        if not 0 < atom < len(self._atoms):
            return atom
        neighbour = self._child_with(atom, parent)
        if neighbour == ROOT or neighbour != self._child_with(atom - 1, parent):
            return atom
        start, end = self._rooms[neighbour].token_range
        return start if atom - start <= end - atom else end

    def _child_with(self, atom: int, parent: int) -> int:
        """Return the pair directly inside `parent` that has an atom, or ROOT."""
        owner = self._owners[atom]
        while owner != ROOT and self._marks[owner].parent != parent:
            owner = self._marks[owner].parent
        return owner

    def _anchored(self, mark: InlineTag) -> TagPosition:
        """Return where kept words are: an anchor, or a part of one."""
        after = bisect_right(self._anchors, mark.start, key=lambda anchor: anchor.source.start)
        source, target = self._anchors[after - 1]
        assert source.start <= mark.start
        assert mark.end <= source.end
        start = target.start + mark.start - source.start
        atom = bisect_right(self._atoms, start, key=lambda atom: atom.start) - 1
        return TagPosition(start, start + mark.end - mark.start, self._owners[atom])


class _Source:
    """What is asked about the passage itself."""

    def __init__(self, passage: TextUnit) -> None:
        self.text = passage.text
        self._marks = passage.tags
        self._words = [0, *accumulate(not character.isspace() for character in passage.text)]
        """How many characters up to each place are no white space."""
        self.children: dict[int, list[int]] = {}
        for number, mark in enumerate(passage.tags):
            self.children.setdefault(mark.parent, []).append(number)

    def has_words(self, start: int, end: int) -> bool:
        return self._words[end] > self._words[start]

    def around(self, mark: InlineTag) -> IndexRange:
        if mark.parent == ROOT:
            return IndexRange(0, len(self.text))
        return IndexRange(self._marks[mark.parent].start, self._marks[mark.parent].end)

    def is_all(self, mark: InlineTag) -> bool:
        """Tell if a pair holds all words of what it is in."""
        start, end = self.around(mark)
        return not self.has_words(start, mark.start) and not self.has_words(mark.end, end)

    def is_glued(self, place: int) -> bool:
        """Tell if a place belongs to what is before it: no word touches it from behind."""
        before, behind = self.text[place - 1 : place], self.text[place : place + 1]
        return bool(before.strip() and behind) and is_space_or_punctuation(behind)


def _best_stretch(
    fits: Mapping[int, float], owners: Sequence[int], owner: int, room: IndexRange
) -> IndexRange:
    """Return the free stretch of a room with the greatest sum of fits; empty if none is above 0."""
    best, stretch = 0.0, IndexRange(room.start, room.start)
    total, start = 0.0, room.start
    for atom in range(max(room.start, min(fits, default=room.end)), room.end):
        if atom not in fits:
            break  # nothing behind it came from inside
        if owners[atom] != owner:
            total = 0.0
            continue
        if total <= 0:
            total, start = 0.0, atom
        total += fits[atom]
        if total > best:
            best, stretch = total, IndexRange(start, atom + 1)
    return stretch
