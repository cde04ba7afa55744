"""Documents for property tests, each kind holding what its format can hold."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import strategies as st

from hardner.formats import Place
from hardner.formats.conll import join_sentences
from hardner.formats.format import make_mention, make_sentences
from hardner.text import tokenize
from hardner.types import STATES, Document, Entity, Passage, Sentence, Span

SOLID = "abzAZ0189.,-()#|%&<>\"'\\/:é漢😀ﬁ\u0301β"
SPACED = SOLID + "  \n\t\r\u00a0\u2028\x85"
INLINE = SOLID + "  \u00a0"
NAMES = st.sampled_from(["1", "007", "doc-1", "a b", "x.y", "é"])
FILE_NAMES = st.sampled_from(["1", "doc-1", "a b", "x.y", "sub/é", ".hidden"])
LABELS = st.sampled_from(["Disease", "cell line", "B-X", "β", "I"])
SOLID_LABELS = st.sampled_from(["Disease", "cell_line", "B-X", "β", "I"])
CONCEPTS = st.sampled_from(["", "MESH:D003920", "D1|D2", "-1", "é"])
NO_CONCEPT, SURE = st.just(""), st.just(1.0)
SCORES = st.one_of(st.just(1.0), st.floats(0, 1))


def texts(alphabet: str = SPACED, min_size: int = 0) -> st.SearchStrategy[str]:
    return st.text(st.sampled_from(alphabet), min_size=min_size, max_size=40)


@st.composite
def entities(
    draw: st.DrawFn,
    text: str,
    labels: st.SearchStrategy[str] = LABELS,
    concepts: st.SearchStrategy[str] = NO_CONCEPT,
    scores: st.SearchStrategy[float] = SURE,
    pieces: int = 1,
) -> tuple[Entity, ...]:
    """Mentions anywhere in the text, overlapping as they like."""
    if not text:
        return ()
    made = []
    for _ in range(draw(st.integers(0, 3))):
        cuts = draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=2 * pieces))
        marks = sorted(cuts)[: len(cuts) // 2 * 2]
        where = list(zip(marks[::2], marks[1::2], strict=True))
        place = Place("generated")
        made.append(
            make_mention(
                place, text, where, draw(labels), score=draw(scores), identifier=draw(concepts)
            )
        )
    return tuple(dict.fromkeys(made))


@st.composite
def documents(
    draw: st.DrawFn,
    alphabet: str = SPACED,
    names: st.SearchStrategy[str] = NAMES,
    min_size: int = 0,
    **limits: object,
) -> Document:
    text = draw(texts(alphabet, min_size))
    return Document(draw(names), text, draw(entities(text, **limits)))  # type: ignore[arg-type]


@st.composite
def passages(draw: st.DrawFn) -> tuple[str, tuple[Passage, ...]]:
    """A text of passages with line breaks between them."""
    text, found = "", []
    for kind in draw(st.lists(st.sampled_from(["title", "abstract", "fig"]), max_size=3)):
        text += "\n" * draw(st.integers(0, 2))
        part = draw(texts())
        found.append(Passage(len(text), len(text) + len(part), kind))
        text += part
    return (text, tuple(found)) if found else (draw(texts()), ())


@st.composite
def bioc_documents(draw: st.DrawFn) -> Document:
    text, parts = draw(passages())
    found = draw(entities(text, concepts=CONCEPTS, scores=SCORES, pieces=3))
    return Document(draw(NAMES), text, found, passages=parts)


@st.composite
def pubtator_documents(draw: st.DrawFn) -> Document:
    title = draw(texts(INLINE))
    abstract = draw(st.none() | texts(INLINE))
    parts: list[Passage] = []
    text = title
    if abstract is not None:
        parts.append(Passage(0, len(title), "title"))
    if abstract:
        text += "\n" + abstract
        parts.append(Passage(len(title) + 1, len(text), "abstract"))
    name = draw(st.sampled_from(["1", "007", "PMC.1-2"]))
    return Document(name, text, draw(entities(text, concepts=CONCEPTS)), passages=tuple(parts))


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    """Tokens of a CoNLL file and spans over them that do not overlap."""
    token = st.text(st.sampled_from(SOLID + " "), min_size=1, max_size=4)
    tokens = draw(
        st.lists(token.filter(lambda token: token == token.strip()), min_size=1, max_size=8)
    )
    cuts = sorted(draw(st.sets(st.integers(0, len(tokens)), max_size=5)))
    kinds = [draw(st.none() | LABELS) for _ in cuts[1:]]
    ends = zip(cuts, cuts[1:], kinds, strict=False)
    spans = (Span(start, end, label) for start, end, label in ends if label is not None)
    return Sentence(tuple(tokens), tuple(spans))


conll_documents = st.builds(
    join_sentences, st.just("x"), st.lists(sentences(), min_size=1, max_size=3)
)


@st.composite
def tokenized_documents(
    draw: st.DrawFn, most_sentences: int = 1, aligned: bool = False
) -> Document:
    """Documents with the project's own tokens, in one sentence or more, or without any."""
    text = draw(texts(min_size=1))
    offsets = tokenize(text)
    found: tuple[Entity, ...] = draw(entities(text, concepts=CONCEPTS if aligned else NO_CONCEPT))
    if aligned:
        starts, ends = ({offset[side] for offset in offsets} for side in (0, 1))
        found = tuple(e for e in found if e.start in starts and e.end in ends)
    found = tuple(sorted(found, key=lambda e: (e.start, e.end, e.label, e.identifier)))
    cuts = draw(st.sets(st.integers(1, max(1, len(offsets) - 1)), max_size=most_sentences - 1))
    bounds = [0, *sorted(cuts), len(offsets)]
    rows = [offsets[left:right] for left, right in pairwise(bounds)]
    parts = make_sentences(text, rows, found) if draw(st.booleans()) else ()
    return Document(draw(NAMES), text, found, parts)


@st.composite
def common_documents(draw: st.DrawFn) -> Document:
    """What goes through every format unchanged, but for what the format says that it cannot hold.

    Words with a space between them, in one passage or two; mentions are words, or pieces of them.
    """
    words = st.lists(st.text(st.sampled_from("AZ09é漢β"), min_size=1, max_size=4), max_size=5)
    rows = [["X", *draw(words)] for _ in range(draw(st.integers(1, 2)))]
    bare = join_sentences("doc-1", [Sentence(tuple(row)) for row in rows])
    made = []
    for sentence in bare.sentences:
        assert sentence.offsets is not None
        for _ in range(draw(st.integers(0, 3))):
            cuts = draw(st.sets(st.integers(0, len(sentence)), min_size=2, max_size=4))
            marks = sorted(cuts)[: len(cuts) // 2 * 2]
            where = [
                (sentence.offsets[left][0], sentence.offsets[right - 1][1])
                for left, right in zip(marks[::2], marks[1::2], strict=True)
            ]
            more = {"score": draw(SCORES), "identifier": draw(CONCEPTS)}
            label = draw(SOLID_LABELS)
            made.append(make_mention(Place("generated"), bare.text, where, label, **more))
    first = len(" ".join(rows[0]))
    parts = [Passage(0, first, "title"), Passage(first + 1, len(bare.text), "abstract")]
    distinct = {(entity.ranges, entity.label): entity for entity in made}
    return replace(
        bare,
        entities=tuple(distinct.values()),
        sentences=bare.sentences if draw(st.booleans()) else (),
        passages=tuple(parts) if rows[1:] and draw(st.booleans()) else (),
    )


@st.composite
def rich_documents(draw: st.DrawFn) -> Document:
    """Everything a document can hold."""
    text, parts = draw(passages())
    found = draw(entities(text, concepts=CONCEPTS, scores=SCORES, pieces=3))
    own = draw(st.lists(sentences(), max_size=2)) if draw(st.booleans()) else []
    offsets = tokenize(text)
    if offsets and draw(st.booleans()):
        tokens, state = tuple(text[a:b] for a, b in offsets), draw(st.sampled_from(["", *STATES]))
        barred = (Span(0, len(tokens), draw(LABELS)),) if draw(st.booleans()) else ()
        own = [Sentence(tokens, (), "s", tuple(offsets), state, barred)]
    rejected = draw(entities(text)) if draw(st.booleans()) else ()
    return Document(draw(NAMES), text, found, tuple(own), parts, rejected=rejected)
