"""Spans <-> tags in IOB2, IOB1, IOBES and IO. A scheme is a table; a new one is a row.

A tag is ``O`` or a prefix and a label (``B-Disease``), or the prefix alone where the label is
empty, as in files that mark one type only.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise, product
from typing import Any, NamedTuple, Protocol, TypeVar

from hardner.errors import HardnerError
from hardner.types import Offset, Span

OUTSIDE = "O"


class Shape(NamedTuple):
    """The prefixes of a span's tokens by their place in it."""

    first: str
    inner: str
    last: str
    single: str


class Scheme(NamedTuple):
    apart: Shape
    touching: Shape | None
    """For a span that follows one of its label at once; None where the scheme merges the two."""


SCHEMES = {
    "IOB2": Scheme(apart=Shape("B", "I", "I", "B"), touching=Shape("B", "I", "I", "B")),
    "IOB1": Scheme(apart=Shape("I", "I", "I", "I"), touching=Shape("B", "I", "I", "B")),
    "IOBES": Scheme(apart=Shape("B", "I", "E", "S"), touching=Shape("B", "I", "E", "S")),
    "IO": Scheme(apart=Shape("I", "I", "I", "I"), touching=None),
}
ALIASES = {"BIO": "IOB2", "BIOES": "IOBES"}

# How conlleval reads any prefix: these open a span, these close one, whatever the neighbours.
_OPENS, _CLOSES = frozenset("BS"), frozenset("ES")


def scheme_named(name: str) -> Scheme:
    try:
        return SCHEMES[ALIASES.get(name, name)]
    except KeyError:
        known = ", ".join((*SCHEMES, *ALIASES))
        raise HardnerError(f"unknown tag scheme {name!r}; known are {known}") from None


@lru_cache(maxsize=4096)
def parse_tag(tag: str) -> tuple[str, str]:
    """The prefix and the label of a tag."""
    prefix, _, label = tag.partition("-")
    if tag != OUTSIDE and (len(prefix) != 1 or prefix not in "BIES"):
        raise HardnerError(f"{tag!r} is not a tag: expected O, or B-, I-, E- or S- and a label")
    return prefix, label


def _join(prefix: str, label: str) -> str:
    return f"{prefix}-{label}" if label else prefix


def spans_to_tags(spans: Sequence[Span], length: int, scheme: str = "IOB2") -> list[str]:
    """The tags of ``length`` tokens; spans that overlap, or that the scheme merges, fail."""
    table = scheme_named(scheme)
    ordered = sorted(spans)
    for span in ordered:
        if not 0 <= span.start < span.end <= length:
            raise HardnerError(f"{span} does not lie within {length} tokens")
    for left, right in pairwise(ordered):
        if right.start < left.end:
            raise HardnerError(f"{left} and {right} overlap: tags cannot hold both")
        if table.touching is None and right.start == left.end and right.label == left.label:
            raise HardnerError(f"{left} and {right} touch: {scheme} cannot separate them")
    return _write(ordered, length, table)


def _write(ordered: Iterable[Span], length: int, table: Scheme) -> list[str]:
    tags = [OUTSIDE] * length
    before = None
    for span in ordered:
        touches = before == (span.start, span.label)
        shape = (table.touching if touches else None) or table.apart
        size = span.end - span.start
        inner = [shape.inner] * (size - 2)
        prefixes = [shape.single] if size == 1 else [shape.first, *inner, shape.last]
        tags[span.start : span.end] = [_join(prefix, span.label) for prefix in prefixes]
        before = (span.end, span.label)
    return tags


def tags_to_spans(tags: Sequence[str], scheme: str = "IOB2") -> tuple[tuple[Span, ...], list[int]]:
    """The spans, read as conlleval reads them, and the indices of tags that had to be repaired.

    A tag is repaired where writing the spans back in the scheme gives another one.
    """
    table = scheme_named(scheme)
    spans: list[Span] = []
    start, open_label, closed = -1, "", True
    for index, tag in enumerate(tags):
        prefix, label = parse_tag(tag)
        if start >= 0 and (tag == OUTSIDE or closed or prefix in _OPENS or label != open_label):
            spans.append(Span(start, index, open_label))
            start = -1
        if start < 0 and tag != OUTSIDE:
            start, open_label = index, label
        closed = prefix in _CLOSES
    if start >= 0:
        spans.append(Span(start, len(tags), open_label))
    written = _write(spans, len(tags), table)
    repaired = [
        index
        for index, (tag, right) in enumerate(zip(tags, written, strict=True))
        if parse_tag(tag) != parse_tag(right)
    ]
    return tuple(spans), repaired


def tag_set(labels: Iterable[str], scheme: str = "IOB2") -> tuple[str, ...]:
    """Every tag of the scheme over these labels, ``O`` first."""
    table = scheme_named(scheme)
    used = {*table.apart, *(table.touching or ())}
    return OUTSIDE, *(_join(p, label) for label in labels for p in "BIES" if p in used)


@dataclass(frozen=True)
class TagSet:
    """The labels of one domain and the tags that spell them."""

    domain: str
    labels: tuple[str, ...]
    scheme: str = "IOB2"

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags, ``O`` first."""
        return tag_set(self.labels, self.scheme)


def allowed(
    tags: Sequence[str], scheme: str = "IOB2"
) -> tuple[list[bool], list[list[bool]], list[bool]]:
    """Which tags may start a sentence, which may follow which (``[from][to]``), which may end it.

    A sequence is one the scheme writes exactly if it starts, goes on and ends as allowed.
    """
    steps = _steps(scheme)
    outside = parse_tag(OUTSIDE)
    parsed = [parse_tag(tag) for tag in tags]
    return (
        [_step(outside, tag) in steps for tag in parsed],
        [[_step(left, right) in steps for right in parsed] for left in parsed],
        [_step(tag, outside) in steps for tag in parsed],
    )


def continues(tags: Sequence[str]) -> list[list[bool]]:
    """Whether a tag (column) goes on with the mention of the tag before it (row)."""
    parsed = [(tag, *parse_tag(tag)) for tag in tags]
    return [
        [
            OUTSIDE not in (left, right)
            and left_label == right_label
            and not (left_prefix in _CLOSES or right_prefix in _OPENS)
            for right, right_prefix, right_label in parsed
        ]
        for left, left_prefix, left_label in parsed
    ]


@lru_cache
def _steps(scheme: str) -> frozenset[tuple[str, str, bool]]:
    """All steps from tag to tag in what the scheme writes; longer spans bring no others."""
    table = scheme_named(scheme)
    steps = set()
    for sizes, labels in product(product((1, 2, 3, 4), repeat=3), product("XY", repeat=3)):
        edges = pairwise(accumulate(sizes, initial=1))
        spans = [Span(*edge, label) for edge, label in zip(edges, labels, strict=True)]
        tags = map(parse_tag, _write(spans, sum(sizes) + 3, table))
        steps |= {_step(left, right) for left, right in pairwise(tags)}
    return frozenset(steps)


def _step(left: tuple[str, str], right: tuple[str, str]) -> tuple[str, str, bool]:
    """Two prefixes, and whether both stand before one label."""
    prefixes = left[0], right[0]
    return *prefixes, OUTSIDE not in prefixes and left[1] == right[1]


class _Extent(Protocol):
    """Anything with a start and an end, such as a span or an entity."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


_S = TypeVar("_S", bound=_Extent)


def non_overlapping(
    spans: Iterable[_S],
    preference: Callable[[_S], Any],
    layers: Callable[[_S], Iterable[Hashable]] = lambda _: (None,),
) -> list[_S]:
    """Spans chosen greedily so that no two of them overlap, in the order given.

    Args:
        spans: Spans, entities or the like.
        preference: What spans are sorted by: the smallest comes first, of equal ones the first.
        layers: Spans that share no layer may overlap; by default, all are on one.
    """
    given = list(spans)
    taken: defaultdict[Hashable, list[Offset]] = defaultdict(list)  # sorted, of each layer
    kept = []
    for index in sorted(range(len(given)), key=lambda i: preference(given[i])):
        start, end = given[index].start, given[index].end
        rows = [taken[layer] for layer in layers(given[index])]
        before = [bisect_left(row, (end, 0)) for row in rows]  # how many start before its end
        if all(not at or row[at - 1][1] <= start for row, at in zip(rows, before, strict=True)):
            for row, at in zip(rows, before, strict=True):
                row.insert(at, (start, end))
            kept.append(index)
    return [given[index] for index in sorted(kept)]


def longest_non_overlapping(spans: Iterable[_S]) -> list[_S]:
    """Spans of which no two overlap, the longer rather than the shorter, in the order given."""
    return non_overlapping(spans, lambda span: (span.start - span.end, span.start))


def shortest_non_overlapping(spans: Iterable[_S]) -> list[_S]:
    """Spans of which no two overlap, the shorter rather than the longer, in the order given."""
    return non_overlapping(spans, lambda span: (span.end - span.start, span.start))
