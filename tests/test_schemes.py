import random
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, IOBES, Entities

from hardner.errors import HardnerError
from hardner.schemes import (
    SCHEMES,
    allowed,
    longest_non_overlapping,
    non_overlapping,
    parse_tag,
    shortest_non_overlapping,
    spans_to_tags,
    tag_set,
    tags_to_spans,
)
from hardner.types import Span

LABELS = ("Gene", "creative-work", "Δ")
EVERY_SCHEME = pytest.mark.parametrize("scheme", SCHEMES)


STEPS = list(product(range(3), range(1, 5), LABELS))


def lay_out(steps: list[tuple[int, int, str]]) -> tuple[list[Span], int]:
    """Spans that do not overlap but may touch, each behind a gap and of a size."""
    spans, position = [], 0
    for gap, size, label in steps:
        spans.append(Span(position + gap, position + gap + size, label))
        position += gap + size
    return spans, position


def tag_sequences(prefixes: str) -> st.SearchStrategy[list[str]]:
    tags = ["O", *(f"{prefix}-{label}" for prefix in prefixes for label in LABELS)]
    return st.lists(st.sampled_from(tags), max_size=12)


@EVERY_SCHEME
@settings(max_examples=1500, deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=8), room=st.integers(0, 2))
def test_spans_survive_the_way_through_tags(scheme, steps, room):
    spans, length = lay_out(steps)
    length += room
    if scheme == "IO":
        touching = {(s.end, s.label) for s in spans} & {(s.start, s.label) for s in spans}
        if touching:
            with pytest.raises(HardnerError, match="touch"):
                spans_to_tags(spans, length, scheme)
            return
    tags = spans_to_tags(spans[::-1], length, scheme)
    assert len(tags) == length
    assert tags_to_spans(tags, scheme) == (tuple(spans), [])
    assert set(tags) <= set(tag_set(LABELS, scheme))


@settings(max_examples=1500, deadline=None)
@given(tag_sequences("BI"))
def test_iob2_agrees_with_seqeval(tags):
    spans, repaired = tags_to_spans(tags, "IOB2")
    lenient = [(label, start, end + 1) for label, start, end in get_entities(tags)]
    assert [(s.label, s.start, s.end) for s in spans] == lenient
    strict = {(e.tag, e.start, e.end) for e in Entities([tags], IOB2).entities[0]}
    assert strict <= set(lenient)
    if not repaired:
        assert strict == set(lenient)
    # A repaired tag is an I- that no B- leads to; strict reading has no entity that starts there.
    assert all(tags[i].startswith("I-") for i in repaired)
    assert {start for _, start, _ in set(lenient) - strict} == set(repaired)


@settings(max_examples=1500, deadline=None)
@given(tag_sequences("BIES"))
def test_any_prefix_is_read_as_conlleval_does(tags):
    ours = [(s.label, s.start, s.end) for s in tags_to_spans(tags, "IOBES")[0]]
    assert ours == [(label, start, end + 1) for label, start, end in get_entities(tags)]
    strict = {(e.tag, e.start, e.end) for e in Entities([tags], IOBES).entities[0]}
    assert strict <= set(ours)


@EVERY_SCHEME
def test_allowed_is_exactly_what_the_scheme_writes(scheme):
    """Against all sequences of four tags over two labels."""
    tags = tag_set(("x", "y"), scheme)
    start, pair, end = allowed(tags, scheme)
    for sequence in product(range(len(tags)), repeat=4):
        says = (
            start[sequence[0]]
            and all(pair[a][b] for a, b in pairwise(sequence))
            and end[sequence[-1]]
        )
        _, repaired = tags_to_spans([tags[i] for i in sequence], scheme)
        assert says == (not repaired), [tags[i] for i in sequence]


@pytest.mark.parametrize(
    ("scheme", "tags", "written"),
    [
        ("IOB2", "I-a I-a O I-b B-a I-b", "B-a I-a O B-b B-a B-b"),
        ("IOB1", "B-a I-a B-a O B-b I-a", "I-a I-a B-a O I-b I-a"),
        ("IOBES", "B-a O I-a I-a E-b S-b I-b", "S-a O B-a E-a S-b S-b S-b"),
        ("IO", "I-a O B-a I-a E-a", "I-a O I-a I-a I-a"),
    ],
)
def test_repairs_point_at_the_tags_that_change(scheme, tags, written):
    before, after = tags.split(), written.split()
    spans, repaired = tags_to_spans(before, scheme)
    assert spans_to_tags(spans, len(before), scheme) == after
    assert repaired == [i for i in range(len(before)) if before[i] != after[i]]


def test_a_bare_prefix_has_an_empty_label():
    assert tags_to_spans(["B", "I", "O"]) == ((Span(0, 2, ""),), [])
    assert spans_to_tags([Span(0, 2, "")], 3) == ["B", "I", "O"]
    assert parse_tag("B-creative-work") == ("B", "creative-work")


def test_o_comes_first_and_aliases_name_the_same_tags():
    assert tag_set(("a", "b")) == ("O", "B-a", "I-a", "B-b", "I-b")
    assert tag_set(("a",), "BIOES") == tag_set(("a",), "IOBES") == ("O", "B-a", "I-a", "E-a", "S-a")
    assert tag_set(("a",), "IO") == ("O", "I-a")


@pytest.mark.parametrize(
    ("spans", "length"),
    [
        ([Span(0, 2, "a"), Span(1, 3, "b")], 3),
        ([Span(0, 3, "a"), Span(1, 2, "a")], 3),
        ([Span(0, 4, "a")], 3),
        ([Span(1, 1, "a")], 3),
        ([Span(-1, 1, "a")], 3),
    ],
)
def test_spans_that_tags_cannot_hold_are_errors(spans, length):
    with pytest.raises(HardnerError):
        spans_to_tags(spans, length)


@pytest.mark.parametrize("tag", ["", "X-a", "GENE", "b-a", "O-a", "BI-a", "-a"])
def test_what_is_no_tag_is_an_error(tag):
    with pytest.raises(HardnerError, match="not a tag"):
        tags_to_spans([tag])


def test_an_unknown_scheme_lists_the_known():
    with pytest.raises(HardnerError, match="IOBES"):
        tag_set(("a",), "BILOU")


def test_non_overlapping_by_brute_force() -> None:
    """No two kept overlap, and each left out overlaps one that is kept and not worse."""
    draw = random.Random(3)
    for _ in range(300):
        starts = sorted(draw.randint(0, 12) for _ in range(6))
        given = [Span(a, a + draw.randint(1, 6), str(n)) for n, a in enumerate(starts)]
        for choose, better in ((longest_non_overlapping, max), (shortest_non_overlapping, min)):
            kept = choose(given)
            assert kept == [span for span in given if span in kept], "in the order given"
            covered = [at for s in kept for at in range(s.start, s.end)]
            assert len(covered) == len(set(covered))
            for lost in (span for span in given if span not in kept):
                rivals = [s for s in kept if s.start < lost.end and lost.start < s.end]
                sizes = [s.end - s.start for s in rivals]
                assert sizes
                assert better(*sizes, lost.end - lost.start) in sizes


def test_of_equally_long_spans_the_first_is_kept() -> None:
    spans = [Span(2, 4, "B"), Span(1, 3, "A"), Span(1, 3, "C"), Span(4, 5, "D")]
    assert longest_non_overlapping(spans) == [Span(1, 3, "A"), Span(4, 5, "D")]
    by_label = non_overlapping(spans, lambda s: -s.start, lambda s: s.label)
    assert by_label == spans, "no two of a label overlap"


def test_long_spans_cost_no_more_than_short_ones() -> None:
    """A span is a pair of edges, not the places between them, which would fill the memory."""
    far = [Span(0, 10**15, "X"), Span(5, 10**15 + 1, "Y"), Span(10**15, 10**15 + 2, "Z")]
    assert non_overlapping(far, lambda span: span.start) == [far[0], far[2]]


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5), st.sampled_from("XY")), max_size=8),
    st.booleans(),
)
def test_no_two_spans_of_a_layer_share_a_place(
    drawn: list[tuple[int, int, str]], layered: bool
) -> None:
    spans = [Span(start, start + size, label) for start, size, label in drawn]
    layer = (lambda span: [span.label]) if layered else (lambda span: [None])
    expected: list[int] = []
    for index, span in sorted(enumerate(spans), key=lambda pair: -pair[1].end):
        rivals = [spans[i] for i in expected if layer(spans[i]) == layer(span)]
        if all(span.end <= rival.start or rival.end <= span.start for rival in rivals):
            expected.append(index)
    found = non_overlapping(spans, lambda span: -span.end, layer)
    assert found == [spans[index] for index in sorted(expected)]
