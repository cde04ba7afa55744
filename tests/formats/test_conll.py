"""CoNLL: columns, comments, document starts, schemes, repairs."""

import random
from pathlib import Path

import pytest
from seqeval.metrics.sequence_labeling import get_entities
from shared import CORPORA

from hardner import files
from hardner.errors import FileError, HardnerError
from hardner.formats import Report, read, write
from hardner.formats.conll import read_sentences
from hardner.types import Document, Entity, Sentence, Span

TINY = Path(__file__).parents[2] / "examples" / "tiny"


def sentences(path: Path, content: str, **options: object) -> list[Sentence]:
    path.write_bytes(content.encode())
    return list(read_sentences(path, **options))  # type: ignore[arg-type]


def naive(path: Path) -> list[tuple[list[str], list[str]]]:
    """Another way to read the same file, line by line."""
    found, rows = [], []
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        for line in [*file, "\n"]:
            if line.strip():
                rows.append(line.rstrip("\n").split("\t"))
            elif rows:
                found.append(([row[0] for row in rows], [row[-1] for row in rows]))
                rows = []
    return found


@pytest.mark.parametrize("block", [1, 5, 50, 1 << 18])
def test_agrees_with_a_naive_reader_and_seqeval(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(files, "_BLOCK", block)
    for path in sorted(TINY.rglob("*.tsv")):
        expected = naive(path)
        found = list(read_sentences(path, strict=True))
        assert [list(s.tokens) for s in found] == [tokens for tokens, _ in expected]
        for sentence, (_, tags) in zip(found, expected, strict=True):
            spans = [Span(start, end + 1, label) for label, start, end in get_entities(tags)]
            assert list(sentence.spans) == spans
        assert [s.id for s in found] == [str(n) for n in range(1, len(found) + 1)]


@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
def test_repairs_as_seqeval_reads_random_tags(tmp_path: Path, scheme: str) -> None:
    draw = random.Random(5)
    prefixes = "BI" if scheme == "IOB2" else "BIES"
    choices = ["O", "O", *(f"{prefix}-{label}" for prefix in prefixes for label in "XY")]
    rows = [[draw.choice(choices) for _ in range(draw.randint(1, 9))] for _ in range(500)]
    content = "\n".join("".join(f"w\t{tag}\n" for tag in row) for row in rows)
    report = Report()
    found = sentences(tmp_path / "a.tsv", content, scheme=scheme, report=report)
    for sentence, tags in zip(found, rows, strict=True):
        assert list(sentence.spans) == [Span(a, b + 1, label) for label, a, b in get_entities(tags)]
    (reason,) = report.counts
    assert report.counts[reason] > 100


def test_one_warning_for_all_repairs(tmp_path: Path) -> None:
    report = Report()
    content = "a\tO\nb\tI-X\n\nc\tB-X\nd\tI-Y\n"
    first, second = sentences(tmp_path / "a.tsv", content, report=report)
    assert (first.spans, second.spans) == ((Span(1, 2, "X"),), (Span(0, 1, "X"), Span(1, 2, "Y")))
    (line,) = report.lines()
    assert (
        line == f"{tmp_path}/a.tsv:2: invalid tag sequence repaired as conlleval does, and 1 more"
    )


def test_without_a_report_python_warns(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"a\.tsv:1: invalid tag sequence"):
        sentences(tmp_path / "a.tsv", "a\tI-X\n")


def test_scheme_is_seen_or_said(tmp_path: Path) -> None:
    iobes = "a\tB-X\nb\tE-X\nc\tS-X\n"
    (seen,) = sentences(tmp_path / "a.tsv", iobes, strict=True)
    assert seen.spans == (Span(0, 2, "X"), Span(2, 3, "X"))
    (said,) = sentences(tmp_path / "a.tsv", "a\tI-X\nb\tB-X\n", scheme="IOB1", strict=True)
    assert said.spans == (Span(0, 1, "X"), Span(1, 2, "X"))
    with pytest.raises(FileError, match=r"a\.tsv:1"):
        sentences(tmp_path / "a.tsv", "a\tI-X\nb\tB-X\n", strict=True)
    with pytest.raises(HardnerError, match="unknown tag scheme"):
        sentences(tmp_path / "a.tsv", "a\tI-X\n", scheme="XYZ")


CONLL_2003 = """-DOCSTART- -X- O O

EU NNP I-NP B-ORG
rejects VBZ I-VP O
German  JJ I-NP B-MISC

Peter NNP I-NP B-PER

-DOCSTART- -X- O O

# NN I-NP O
"""


def test_columns_by_spaces_and_documents(tmp_path: Path) -> None:
    path = tmp_path / "eng.conll"
    path.write_text(CONLL_2003)
    report = Report()
    first, second = read(path, report=report)
    assert first.text == "EU rejects German\nPeter"
    assert first.entities == (
        Entity(0, 2, "ORG", "EU"),
        Entity(11, 17, "MISC", "German"),
        Entity(18, 23, "PER", "Peter"),
    )
    assert (second.id, second.text) == ("eng-2", "#")
    assert first.sentences[1].offsets == ((18, 23),)
    assert list(report.counts) == ["columns between the token and the tag not kept"]


def test_comments_and_the_token_number_sign(tmp_path: Path) -> None:
    content = (
        "# made by hand\n# global\tcolumns\n#\tO\n1\tO\n#2\tB-X\n\n# id 7\na\tO\n# within\nb\tI-X\n"
    )
    report = Report()
    first, second = sentences(tmp_path / "a.tsv", content, report=report)
    assert first.tokens == ("#", "1", "#2")
    assert second.tokens == ("a", "b")
    assert report.counts["comment not kept"] == 4
    assert report.lines()[-1].startswith(f"{tmp_path}/a.tsv:10: invalid tag")


def test_tokens_are_kept_to_the_letter(tmp_path: Path) -> None:
    tokens = ["New York", "a\u00a0b", "\u2028", "é", " x"]
    (found,) = sentences(tmp_path / "a.tsv", "".join(f"{token}\tO\n" for token in tokens))
    assert list(found.tokens) == tokens


def test_equal_tokens_are_one_object(tmp_path: Path) -> None:
    first, second = sentences(tmp_path / "a.tsv", "protein\tO\n\nprotein\tB-X\n")
    assert first.tokens[0] is second.tokens[0]


def test_ids_may_have_a_prefix(tmp_path: Path) -> None:
    (found,) = sentences(tmp_path / "a.tsv", "a\tO\n", prefix="corpus/train/")
    assert found.id == "corpus/train/1"


def document(text: str, *entities: Entity, **more: object) -> Document:
    return Document("d", text, entities, **more)  # type: ignore[arg-type]


def test_writer_finds_tokens_and_sentences(tmp_path: Path) -> None:
    given = [
        document("A stent.", Entity(2, 7, "Device", "stent")),
        document("It failed. A second stent followed.", Entity(13, 25, "Device", "second stent")),
        document("Well."),
    ]
    write(given, tmp_path / "a.tsv", report=Report())
    assert (tmp_path / "a.tsv").read_text() == (
        "A\tO\nstent\tB-Device\n.\tO\n\n"
        "-DOCSTART-\tO\n\nIt\tO\nfailed\tO\n.\tO\n\n"
        "A\tO\nsecond\tB-Device\nstent\tI-Device\nfollowed\tO\n.\tO\n\n"
        "-DOCSTART-\tO\n\nWell\tO\n.\tO\n\n"
    )
    assert len(list(read(tmp_path / "a.tsv", report=Report()))) == 3


def test_what_tags_cannot_hold_is_counted(tmp_path: Path) -> None:
    text = "left and right lung cancer in 10mg"
    given = document(
        text,
        Entity(15, 26, "X", "lung cancer"),
        Entity(20, 26, "Y", "cancer"),
        Entity(0, 26, "X", "left lung cancer", fragments=((0, 4), (15, 26))),
        Entity(30, 32, "Z", "10"),
        Entity(5, 8, "odd\tlabel", "and", score=0.5, identifier="M:1"),
    )
    report = Report()
    write([given], tmp_path / "a.tsv", report=report)
    assert set(report.counts.values()) == {1}
    assert set(report.counts) == {
        "document id not kept",
        "overlapping mention left out",
        "discontinuous mention left out",
        "mention left out that cuts a token",
        "score of a mention left out",
        "concept identifier left out",
        "label 'odd\\tlabel' rewritten without white space",
    }
    assert "and\tB-odd_label\n" in (tmp_path / "a.tsv").read_text()


def test_io_merges_what_touches_and_says_so(tmp_path: Path) -> None:
    given = document("a b", Entity(0, 1, "X", "a"), Entity(2, 3, "X", "b"))
    report = Report()
    write([given], tmp_path / "a.tsv", scheme="IO", report=report)
    assert (tmp_path / "a.tsv").read_text() == "a\tI-X\nb\tI-X\n\n"
    assert report.counts["mention merged with the one before it, as IO does"] == 1


@pytest.mark.parametrize("token", ["a\tb", "a\nb", " ", "-DOCSTART-"])
def test_tokens_that_would_break_the_file_are_refused(tmp_path: Path, token: str) -> None:
    given = document("x", sentences=(Sentence((token,)),))
    with pytest.raises(FileError, match="cannot stand in a CoNLL file"):
        write([given], tmp_path / "a.tsv", report=Report())


@pytest.mark.shared("NCBI-disease")
def test_a_real_corpus_comes_back_byte_for_byte(tmp_path: Path) -> None:
    source = CORPORA / "NCBI-disease" / "devel.tsv.xz"
    write(read(source, strict=True), tmp_path / "a.jsonl")
    write(read(tmp_path / "a.jsonl", strict=True), tmp_path / "b.tsv", report=Report())
    assert (tmp_path / "b.tsv").read_text() == files.read_text(source)
