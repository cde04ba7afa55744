"""Property: what goes into a format comes out of it; what it cannot hold is counted."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import (
    CONCEPTS,
    FILE_NAMES,
    SOLID_LABELS,
    bioc_documents,
    common_documents,
    conll_documents,
    documents,
    pubtator_documents,
    rich_documents,
    texts,
    tokenized_documents,
)

from hardner.errors import FileError
from hardner.formats import FORMATS, Place, Report, read, write
from hardner.formats.format import fit_document
from hardner.types import Document, Entity, Offset

many = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def through(given: list[Document], path: Path, format: str, **options: str) -> list[Document]:
    """The documents written and read again, losing nothing."""
    write(given, path, format, strict=True, report=(written := Report()), **options)
    found = list(read(path, format, strict=True, report=(seen := Report()), **options))
    counted = {**written.counts, **seen.counts}
    assert not counted.keys() - {"document id not kept"}, counted
    return found


def by_place(document: Document) -> Document:
    ordered = sorted(document.entities, key=lambda e: (e.start, e.end, e.label, repr(e)))
    return replace(document, entities=tuple(ordered))


@many
@given(st.lists(rich_documents(), min_size=1, max_size=3))
def test_jsonl(tmp_path: Path, given: list[Document]) -> None:
    assert through(given, tmp_path / "x.jsonl", "jsonl") == given


@many
@given(st.lists(tokenized_documents(), min_size=1, max_size=2))
def test_prodigy(tmp_path: Path, given: list[Document]) -> None:
    assert through(given, tmp_path / "x.jsonl", "prodigy") == given


@many
@given(st.lists(documents(), min_size=1, max_size=3))
def test_doccano(tmp_path: Path, given: list[Document]) -> None:
    assert through(given, tmp_path / "x.jsonl", "doccano") == given


@many
@given(st.lists(documents(), min_size=1, max_size=3), st.sampled_from(["x.json", "x.jsonl"]))
def test_labelstudio(tmp_path: Path, given: list[Document], name: str) -> None:
    assert through(given, tmp_path / name, "labelstudio") == given


@many
@given(st.lists(bioc_documents(), min_size=1, max_size=2))
@pytest.mark.parametrize("format", ["bioc", "biocjson"])
def test_bioc(tmp_path: Path, format: str, given: list[Document]) -> None:
    found = through(given, tmp_path / "x", format)
    assert [by_place(d) for d in found] == [by_place(d) for d in given]


@many
@given(st.lists(pubtator_documents(), min_size=1, max_size=3))
def test_pubtator(tmp_path: Path, given: list[Document]) -> None:
    assert through(given, tmp_path / "x.pubtator", "pubtator") == given


@many
@given(
    st.lists(
        documents(names=FILE_NAMES, labels=SOLID_LABELS, concepts=CONCEPTS, pieces=3),
        min_size=1,
        max_size=2,
        unique_by=lambda document: document.id,
    ),
    st.integers(),
)
def test_brat(tmp_path: Path, given: list[Document], number: int) -> None:
    folder = tmp_path / f"brat{number}-{len(list(tmp_path.iterdir()))}"
    found = through(given, folder, "brat")
    assert sorted(found, key=lambda d: d.id) == sorted(given, key=lambda d: d.id)


@many
@given(
    st.lists(conll_documents, min_size=1, max_size=3), st.sampled_from(["IOB2", "IOB1", "IOBES"])
)
def test_conll(tmp_path: Path, given: list[Document], scheme: str) -> None:
    found = through(given, tmp_path / "x.tsv", "conll", scheme=scheme)
    assert [d.text for d in found] == [d.text for d in given]
    assert [d.entities for d in found] == [d.entities for d in given]
    for made, expected in zip(found, given, strict=True):
        assert [(s.tokens, s.spans, s.offsets) for s in made.sentences] == [
            (s.tokens, s.spans, s.offsets) for s in expected.sentences
        ]


@many
@given(texts(min_size=1).filter(str.strip))
def test_text(tmp_path: Path, text: str) -> None:
    assert through([Document("x", text)], tmp_path / "x.txt", "text") == [Document("x", text)]


@many
@given(st.lists(tokenized_documents(most_sentences=3, aligned=True), min_size=1, max_size=2))
def test_docbin(tmp_path: Path, given: list[Document]) -> None:
    pytest.importorskip("spacy", reason="spaCy is an extra")
    found = through(given, tmp_path / "x.spacy", "docbin")
    for made, expected in zip(found, given, strict=True):
        assert (made.id, made.text, made.entities) == (
            expected.id,
            expected.text,
            expected.entities,
        )
        if len(expected.text.split()) > 1:
            assert made.sentences == expected.sentences


BOTH_WAYS = [name for name, row in FORMATS.items() if row.read and row.write]


@pytest.mark.parametrize("second", BOTH_WAYS)
@pytest.mark.parametrize("first", BOTH_WAYS)
@settings(many, max_examples=15)
@given(document=common_documents())
def test_every_pair_of_formats(tmp_path: Path, first: str, second: str, document: Document) -> None:
    """Read from one format and written in another, a document is what that one can hold."""
    given = again(document, tmp_path, first)
    found = again(given, tmp_path, second)
    row = FORMATS[second]
    fitted = fit_document(given, row, Report(), Place("x"))
    if second == "text":
        fitted = replace(fitted, entities=())
    on_one_line = second == "pubtator" and not given.passages
    if on_one_line or (second == "conll" and len(given.sentences) == 1):  # as Prodigy has them
        fitted = replace(fitted, text=given.text.replace("\n", " "))
    assert found.text == fitted.text
    assert by_place(found).entities == by_place(fitted).entities
    if "ids" in row.holds:
        assert found.id == given.id
    if "passages" in row.holds:
        assert found.passages == given.passages
    alone = second == "docbin" and len(given.text.split()) == 1  # spaCy sees no sentence there
    if "sentences" in row.holds and given.sentences and not alone:
        assert tokens_of(found) == tokens_of(given)


def again(document: Document, tmp_path: Path, format: str) -> Document:
    """The document written and read."""
    path = tmp_path / f"x{len(list(tmp_path.iterdir()))}"
    write([document], path, format, report=Report())
    (found,) = read(path, format, report=Report())
    return found


def tokens_of(document: Document) -> list[tuple[str, Offset]]:
    return [
        pair
        for sentence in document.sentences
        for pair in zip(sentence.tokens, sentence.offsets or (), strict=True)
    ]


LEFT_OUT = ("mention left out", "overlapping mention", "discontinuous mention", "mention merged")


@pytest.mark.parametrize("format", BOTH_WAYS)
@settings(many, max_examples=100)
@given(document=rich_documents().filter(lambda document: document.text.split()))
def test_every_mention_is_kept_or_counted(tmp_path: Path, format: str, document: Document) -> None:
    document = replace(document, id="doc-1", sentences=())
    path = tmp_path / ("x" if format != "brat" else f"x{len(list(tmp_path.iterdir()))}")
    report = Report()
    write([document], path, format, report=report)
    kept = [entity for found in read(path, format, report=Report()) for entity in found.entities]
    lost = sum(n for reason, n in report.counts.items() if reason.startswith(LEFT_OUT))
    assert len(kept) + lost == len(document.entities)
    assert not Counter(map(_core, kept)) - Counter(map(_core, document.entities))


def _core(entity: Entity) -> tuple[str, str]:
    return "".join(entity.text.split()), "_".join(entity.label.split())


@pytest.mark.parametrize("format", [name for name, row in FORMATS.items() if row.write])
@settings(many, max_examples=50)
@given(document=rich_documents().filter(lambda document: document.text.split()))
def test_strict_fails_exactly_where_an_annotation_is_lost(
    tmp_path: Path, format: str, document: Document
) -> None:
    document = replace(document, id="doc-1", sentences=())
    number = len(list(tmp_path.iterdir()))
    lenient, strict = tmp_path / f"lenient{number}", tmp_path / f"strict{number}"
    report = Report()
    write([document], lenient, format, report=report)
    harmless = ("document id", "passages", "sentence", "line breaks", "white space")
    losses = [reason for reason in report.counts if not reason.startswith(harmless)]
    try:
        write([document], strict, format, strict=True, report=Report())
    except FileError as error:
        assert str(error) == f"{strict}: document 'doc-1': {losses[0]}"
        assert not strict.exists()
    else:
        assert not losses
