"""Random sentences: spans that do not overlap, as right and as found."""

from hypothesis import strategies as st

from hardner.types import Span

LABELS = ("Drug", "Gene")


@st.composite
def spans(draw: st.DrawFn, length: int) -> tuple[Span, ...]:
    """Runs of words, each with a label or none."""
    cuts = sorted(draw(st.sets(st.integers(1, length - 1), max_size=6))) if length > 1 else []
    edges = [0, *cuts, length]
    labels = draw(
        st.lists(st.sampled_from((None, *LABELS)), min_size=len(edges) - 1, max_size=len(edges) - 1)
    )
    found = zip(edges[:-1], edges[1:], labels, strict=True)
    return tuple(Span(start, end, label) for start, end, label in found if label)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[int, tuple[Span, ...], tuple[Span, ...]]:
    """The length of a sentence, its right spans and those found."""
    length = draw(st.integers(1, 9))
    return length, draw(spans(length)), draw(spans(length))


corpora = st.lists(pairs(), min_size=1, max_size=5)
