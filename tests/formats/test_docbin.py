"""spaCy's DocBin: spaCy finds our mentions at our offsets."""

from pathlib import Path

import pytest

from hardner.formats import Report, read, write
from hardner.types import Document, Entity

spacy = pytest.importorskip("spacy", reason="spaCy is an extra")

EXAMPLES = Path(__file__).parents[2] / "examples"


def docs(path: Path) -> list[object]:
    return list(spacy.tokens.DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))


def test_spacy_agrees_on_the_example_data(tmp_path: Path) -> None:
    given = list(read(EXAMPLES / "devices-test.jsonl", strict=True))
    write(given, tmp_path / "a.spacy", strict=True)
    for doc, document in zip(docs(tmp_path / "a.spacy"), given, strict=True):
        assert doc.text == document.text  # type: ignore[attr-defined]
        assert [(e.start_char, e.end_char, e.label_, e.text) for e in doc.ents] == [  # type: ignore[attr-defined]
            (e.start, e.end, e.label, e.text) for e in document.entities
        ]


def test_offsets_agree_with_spacys_own_tokens() -> None:
    """Mentions are whole tokens for spaCy's tokenizer too, on text it tokenizes by itself."""
    nlp = spacy.blank("en")
    for path in sorted((EXAMPLES / "tiny").rglob("train.tsv")):
        for document in read(path, strict=True):
            doc = nlp(document.text)
            for entity in document.entities:
                span = doc.char_span(entity.start, entity.end)
                assert span is not None and span.text == entity.text


def test_overlaps_go_to_a_span_group(tmp_path: Path) -> None:
    text = "lung cancer cell"
    entities = (
        Entity(0, 11, "Disease", "lung cancer", identifier="MESH:1"),
        Entity(5, 16, "Cell", "cancer cell"),
        Entity(0, 16, "Cell", "lung cancer cell"),
    )
    write([Document("d", text, entities)], tmp_path / "a.spacy", strict=True)
    (doc,) = docs(tmp_path / "a.spacy")
    assert [e.text for e in doc.ents] == ["lung cancer cell"]  # type: ignore[attr-defined]
    assert len(doc.spans["sc"]) == 3  # type: ignore[attr-defined]
    (document,) = read(tmp_path / "a.spacy", strict=True)
    assert set(document.entities) == set(entities)


def test_mentions_that_cut_a_token_are_counted(tmp_path: Path) -> None:
    report = Report()
    write([Document("d", "10mg", (Entity(0, 2, "X", "10"),))], tmp_path / "a.spacy", report=report)
    assert report.counts == {"mention left out that cuts a token": 1}


def test_docs_of_other_tools(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    doc = nlp("One stent. Two stents.")
    doc.set_ents([doc.char_span(4, 9, "Device")])
    doc.spans["other"] = [doc.char_span(0, 3, "N")]
    spacy.tokens.DocBin(docs=[doc]).to_disk(tmp_path / "x.spacy")
    report = Report()
    (document,) = read(tmp_path / "x.spacy", report=report)
    assert document.id == "x-1"
    assert document.entities == (Entity(4, 9, "Device", "stent"),)
    assert [s.tokens for s in document.sentences] == [("One", "stent", "."), ("Two", "stents", ".")]
    assert report.counts == {"span group 'other' left out": 1}
