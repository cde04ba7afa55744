import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import CORPORA

from hardner.errors import HardnerError
from hardner.formats.conll import read_sentences
from hardner.text import Problem, sentences, split, tokenize
from hardner.types import Document, Entity, Passage, Sentence, Span

# Prose with everything that trips splitters, and characters of every kind.
WORDS = """cells The
Fig. et al. e.g. i.v. E. coli 1.5 mg ( ) [12] . .. ! ? … " ' “ ” - / , ; : % p53
c-Myc β-catenin naïve e\u0301 \u0301 👩\u200d🔬 \ud800 \0 _ a_b 中文 ² Ⅳ ٣ İ ß \u200b \ufeff"""
SPACES = [" ", "  ", "\n", "\n\n", "\r\n", "\t", "\x1c", "\x85", "\u00a0", "\u2028", "\n \n"]
PIECES = st.sampled_from([*WORDS.split(), *SPACES])
TEXTS = st.lists(PIECES, max_size=25).map("".join) | st.text(
    st.characters(codec=None, categories=None), max_size=40
)


def solid(text: str) -> list[int]:
    return [place for place, char in enumerate(text) if not char.isspace()]


@settings(max_examples=1500, deadline=None)
@given(TEXTS, st.integers(0, 5))
def test_tokens_tile_the_text(text, start):
    offsets = tokenize(text, start)
    covered = [place for left, right in offsets for place in range(left - start, right - start)]
    assert covered == solid(text)


@settings(max_examples=1500, deadline=None)
@given(TEXTS)
def test_a_token_is_a_run_of_letters_and_digits_or_one_character(text):
    """Against a rule written out character by character."""

    def joins(left: str, right: str) -> bool:
        return (left.isalnum() or is_mark(left)) and (right.isalnum() or is_mark(right))

    def is_mark(char: str) -> bool:
        blocks = ((0x300, 0x36F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF))
        return any(a <= ord(char) <= b for a, b in (*blocks, (0xFE20, 0xFE2F)))

    for left, right in tokenize(text):
        token = text[left:right]
        assert len(token) == 1 or token[0].isalnum()
        assert all(joins(a, b) for a, b in pairwise(token))
        following = text[right : right + 1]
        if following and token[0].isalnum():
            assert not following.isalnum()
            assert not is_mark(following)


@settings(max_examples=1500, deadline=None)
@given(TEXTS)
def test_sentences_hold_every_token_once_and_whole(text):
    found = split(text)
    assert all(text[left:right] == text[left:right].strip() != "" for left, right in found)
    inside = [offset for left, right in found for offset in tokenize(text[left:right], left)]
    assert inside == tokenize(text)


@pytest.mark.parametrize(
    "expected",
    [
        ["As Smith et al. (2005) show in Fig. 2A.", "The rats got 1.5 mg i.v.", "They slept."],
        ["E. coli and S. aureus grew (p < 0.05).", "p53 fell.", "c-Myc rose."],
        ["We saw it (e.g. in cells. Not in mice.) twice.", "Now (see ref. 3) again."],
        ["Vs. placebo, i.e. nothing, No. 5 won, cf. Fig. 3.", "Dr. J. A. Smith vs. Mr. Jones."],
        ["The rat had NF-kappa B.", "Like mice."],
        ["It was isolated from Poncirus trifoliata (L.) Raf.", "Results: none."],
        ["Does it work?", "Yes!", '"It does."', "(Or not.)", "The end"],
        ["1. Introduction", "2. Methods and materials"],
        ["The U.S. Food and Drug Administration agreed.", "In the U.S. it did."],
        ["At pH 7.4 The enzyme, at www.Nature.com or a.b@c.De, works."],
        ["Methanoregula formicica sp. nov., from sludge, was found.", "β-catenin too."],
    ],
)
def test_sentences_of_biomedical_prose(expected):
    gap = "\n" if expected[0].startswith("1.") else " "
    text = gap.join(expected)
    assert [text[left:right] for left, right in split(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in cells.The mice died.", ["in cells.", "The mice died."]),
        ("in cells.3,4 The mice.[5] All.", ["in cells.3,4", "The mice.[5]", "All."]),
        ("A title without a stop\nAbstract\nThe text.", 3),
        ("BACKGROUND\n\nText that is\nwrapped and goes on\nin lines. More.", 3),
        ("Some wrapped text that goes on and\non until we used the mice of\nIL-2 origin.", 1),
        ("Text that goes\non here and\nIL-2 rose.", 1),
        ("One.\r\nTwo.\r\n\r\nThree", ["One.", "Two.", "Three"]),
        ("", []),
        (" \n ", []),
        ("...", ["..."]),
    ],
)
def test_missing_spaces_headings_and_lines(text, expected):
    found = [text[left:right] for left, right in split(text)]
    assert (len(found) if isinstance(expected, int) else found) == expected


@pytest.mark.parametrize(
    "piece",
    ["a", "a ", ".", " ", "\n", "(", "()", "A.b", '."', ".1,1", "x\n", ".[1 ", "a. ", "x \n"],
)
def test_a_million_characters_are_no_burden(piece):
    """Less than a second's work. Were it quadratic anywhere, the system would end the process."""
    resource = pytest.importorskip("resource", reason="only Unix can limit a process's work")
    program = (
        "import sys; from hardner.text import split, tokenize; "
        "text = (sys.argv[1] * 1_000_000)[:1_000_000]; split(text); tokenize(text)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, piece],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.shared(name))
        for name in ("NCBI-disease", "BC5CDR-chem", "BC2GM", "S800")
    ],
)
def test_the_token_rule_is_the_one_of_the_corpora(name):
    for sentence in read_sentences(CORPORA / name / "train.tsv.xz"):
        text = " ".join(sentence.tokens)
        assert [text[left:right] for left, right in tokenize(text)] == list(sentence.tokens)


def entity(text: str, mention: str, label: str = "X", **more) -> Entity:
    start = text.index(mention)
    return Entity(start, start + len(mention), label, mention, **more)


def test_mentions_become_spans_of_the_sentence_that_holds_them():
    text = "IL-2 binds. It binds NF-kappa B in mice."
    document = Document(
        "d", text, (entity(text, "NF-kappa B", "Gene"), entity(text, "IL-2", "Gene"))
    )
    first, second = sentences(document)
    assert first == Sentence(
        ("IL", "-", "2", "binds", "."),
        (Span(0, 3, "Gene"),),
        "d:0",
        ((0, 2), (2, 3), (3, 4), (5, 10), (10, 11)),
    )
    assert [second.tokens[s.start : s.end] for s in second.spans] == [("NF", "-", "kappa", "B")]
    for sentence in (first, second):
        assert [text[a:b] for a, b in sentence.offsets] == list(sentence.tokens)


def test_what_no_sentence_can_hold_is_reported_or_an_error():
    text = "antiIL2 rose. It fell  twice."
    cut, crossing = entity(text, "IL2"), entity(text, "rose. It")
    split_up = entity(text, "fell  twice", fragments=((17, 21), (23, 28)))
    spaced, empty = Entity(16, 22, "X", " fell "), Entity(3, 3, "X", "")
    document = Document("d", text, (cut, crossing, split_up, spaced, spaced, empty))
    problems: list[Problem] = []
    found = sentences(document, problems.append)
    assert [s.spans for s in found] == [(), (Span(1, 2, "X"),)]
    assert [(p.entity, p.reason) for p in problems] == [
        (cut, "cuts a token"),
        (crossing, "crosses the end of a sentence"),
        (split_up, "is discontinuous"),
        (spaced, "repeats another"),
        (empty, "is empty"),
    ]
    with pytest.raises(HardnerError, match=r"d: 'IL2' at 4 cuts a token"):
        sentences(document)


def test_what_is_rejected_lies_in_sentences_known_in_part():
    text = "IL2 rose. It fell."
    cut, crossing = Entity(0, 2, "X", "IL"), Entity(4, 12, "X", text[4:12])
    document = Document("d", text, rejected=(entity(text, "fell"), cut, crossing))
    first, second = sentences(document)  # what no span can stand for needs no rejection
    assert (first.rejected, second.rejected) == ((), (Span(1, 2, "X"),))
    assert [s.state for s in (first, second)] == ["partial", "partial"]
    own = (Sentence(("fell",), offsets=((13, 17),), state="done"),)
    (placed,) = sentences(Document("d", text, sentences=own, rejected=document.rejected))
    assert (placed.rejected, placed.state) == ((Span(0, 1, "X"),), "done")
    assert sentences(Document("d", text, (cut,), (placed,))) == (placed,)


def test_a_passage_ends_a_sentence_and_nothing_outside_passages_is_lost():
    text = "Of mice and men  We saw mice. End"
    document = Document("d", text, passages=(Passage(0, 15, "title"), Passage(17, 29, "abstract")))
    found = [text[s.offsets[0][0] : s.offsets[-1][1]] for s in sentences(document)]
    assert found == ["Of mice and men", "We saw mice.", "End"]


def test_own_sentences_are_kept():
    own = (Sentence(("a.", "B"), id="7", offsets=((0, 2), (3, 4))),)
    text = "a. B"
    assert sentences(Document("d", text, sentences=own)) == own
    mention = Entity(3, 4, "X", "B")
    (with_span,) = sentences(Document("d", text, (mention,), own))
    assert with_span == Sentence(own[0].tokens, (Span(1, 2, "X"),), "7", own[0].offsets)
    tagged = (Sentence(("a", "b"), (Span(0, 1, "Y"),)),)
    assert sentences(Document("d", "a b", (mention,), tagged)) == tagged


@settings(max_examples=1000, deadline=None)
@given(st.text(" .abAB-1", max_size=30), st.data())
def test_spans_are_exactly_the_mentions_made_of_whole_tokens(text, data):
    """Against a search over all runs of tokens."""
    offsets = tokenize(text)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    problems = []
    own = Sentence(tuple(text[a:b] for a, b in offsets), offsets=tuple(offsets))
    document = Document("d", text, (Entity(start, end, "X", text[start:end]),), (own,))
    (spans,) = (sentence.spans for sentence in sentences(document, problems.append))
    by_hand = [
        Span(i, j, "X")
        for i in range(len(offsets))
        for j in range(i + 1, len(offsets) + 1)
        if text[offsets[i][0] : offsets[j - 1][1]] == text[start:end].strip()
        and start <= offsets[i][0]
        and offsets[j - 1][1] <= end
    ]
    assert list(spans) == by_hand
    assert bool(problems) != bool(spans)
