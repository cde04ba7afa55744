"""BioC: what we write the library reads, what it writes we read, and files of the wild."""

import json
from pathlib import Path

import pytest
from bioc import (
    BioCAnnotation,
    BioCCollection,
    BioCDocument,
    BioCLocation,
    BioCPassage,
    BioCRelation,
    BioCSentence,
    biocjson,
    biocxml,
    validate,
)

from hardner.errors import FileError
from hardner.formats import Report, detect, read, write
from hardner.types import Document, Entity, Passage

DOCUMENT = Document(
    "17",
    "Title <here>\nLeft & right lung.",
    (
        Entity(13, 31, "Organ", "Left lung.", 0.25, ((13, 17), (26, 31)), "UBERON:1"),
        Entity(0, 5, "Word", "Title"),
        Entity(6, 17, "Across", "<here>\nLeft"),
    ),
    passages=(Passage(0, 12, "title"), Passage(13, 31, "abstract")),
)


def load(path: Path, format: str) -> BioCCollection:
    with path.open(encoding="utf-8") as file:
        return biocxml.loads(file.read()) if format == "bioc" else biocjson.load(file)


@pytest.mark.parametrize(("format", "name"), [("bioc", "a.xml"), ("biocjson", "a.bioc.json")])
def test_the_library_reads_what_we_write(tmp_path: Path, format: str, name: str) -> None:
    path = tmp_path / name
    write([DOCUMENT, DOCUMENT], path, format, strict=True)
    assert detect(path).name == format
    collection = load(path, format)
    validate(collection)
    assert len(collection.documents) == 2
    (across,) = collection.documents[0].annotations
    assert across.text == "<here>\nLeft"
    title, abstract = collection.documents[0].passages
    assert (title.offset, title.text, title.infons) == (0, "Title <here>", {"type": "title"})
    assert (abstract.offset, abstract.text) == (13, "Left & right lung.")
    (annotation,) = abstract.annotations
    assert annotation.infons == {"type": "Organ", "identifier": "UBERON:1", "score": "0.25"}
    assert annotation.text == "Left & right lung."
    assert [(at.offset, at.length) for at in annotation.locations] == [(13, 4), (26, 5)]


def made_by_the_library() -> BioCCollection:
    """Sentences, relations, an annotation without a place, a passage far off."""
    document = BioCDocument()
    document.id, document.infons["journal"] = "x", "J"
    passage = BioCPassage()
    passage.offset, passage.infons["section_type"] = 5, "INTRO"
    passage.text = ""
    for offset, text in ((5, "One."), (10, "Two.")):
        sentence = BioCSentence.of_text(text, offset)
        annotation = BioCAnnotation()
        annotation.id, annotation.text = f"T{offset}", text[:3]
        annotation.infons |= {"type": "Number", "Identifier": "N:1", "note": "n"}
        annotation.add_location(BioCLocation(offset, 3))
        sentence.add_annotation(annotation)
        passage.add_sentence(sentence)
    nowhere = BioCAnnotation()
    nowhere.id, nowhere.text, nowhere.infons["type"] = "M", "", "Topic"
    document.add_annotation(nowhere)
    relation = BioCRelation()
    relation.id = "R1"
    document.add_relation(relation)
    document.add_passage(passage)
    return BioCCollection.of_documents(document)


@pytest.mark.parametrize("format", ["bioc", "biocjson"])
def test_we_read_what_the_library_writes(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a"
    with path.open("w") as file:
        (biocxml if format == "bioc" else biocjson).dump(made_by_the_library(), file)
    report = Report()
    (document,) = read(path, report=report)
    assert document == Document(
        "x",
        "\n\n\n\n\nOne.\nTwo.",
        (
            Entity(5, 8, "Number", "One", identifier="N:1"),
            Entity(10, 13, "Number", "Two", identifier="N:1"),
        ),
    )
    assert report.counts == {
        "sentence bounds not kept": 1,
        "annotation without a location left out": 1,
        "relation left out": 1,
        "infons of a document or passage not kept": 1,
        "infons of a mention beside type, identifier and score not kept": 2,
    }
    with pytest.raises(FileError, match="left out"):
        list(read(path, strict=True))


def test_pubtator3_json(tmp_path: Path) -> None:
    collection = biocjson.toJSON(made_by_the_library())
    (tmp_path / "a.json").write_text(json.dumps({"PubTator3": collection["documents"]}))
    assert detect(tmp_path / "a.json").name == "biocjson"
    assert len(list(read(tmp_path / "a.json", report=Report()))) == 1


def test_doctype_and_entities_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    path = tmp_path / "a.xml"
    path.write_text(
        f'<!DOCTYPE collection SYSTEM "BioC.dtd" [<!ENTITY x SYSTEM "{tmp_path}/secret">]>\n'
        "<collection><document><id>1</id><passage><offset>0</offset><text>a&x;b</text></passage>"
        "</document></collection>"
    )
    try:
        (document,) = read(path)
    except FileError:
        return
    assert "secret" not in document.text


def test_gaps_of_text_are_kept_without_a_type(tmp_path: Path) -> None:
    given = Document("1", "a: b; c", passages=(Passage(0, 1, "t"), Passage(3, 4, "u")))
    write([given], tmp_path / "a.xml", strict=True)
    assert list(read(tmp_path / "a.xml", strict=True)) == [given]


def test_overlapping_passages_are_said(tmp_path: Path) -> None:
    report = Report()
    given = Document("1", "abc", passages=(Passage(0, 2, "t"), Passage(1, 3, "u")))
    write([given], tmp_path / "a.xml", report=report)
    assert list(report.counts) == ["passages that overlap not kept"]
    (document,) = read(tmp_path / "a.xml")
    assert document == Document("1", "abc")


def test_control_characters_are_refused_in_xml_only(tmp_path: Path) -> None:
    given = Document("1", "a\x0bb")
    with pytest.raises(FileError, match="document '1': holds a control character"):
        write([given], tmp_path / "a.xml")
    assert not list(tmp_path.iterdir())
    write([given], tmp_path / "a.bioc.json")
    assert list(read(tmp_path / "a.bioc.json")) == [given]


def test_memory_stays_flat(tmp_path: Path) -> None:
    import tracemalloc

    write((DOCUMENT for _ in range(5000)), tmp_path / "a.xml")
    tracemalloc.start()
    for _ in read(tmp_path / "a.xml"):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
