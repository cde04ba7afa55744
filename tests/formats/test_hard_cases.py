"""Files that once broke a reader or a writer, filled the memory or lost something silently."""

import gc
import gzip
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hardner import files
from hardner.errors import FileError
from hardner.formats import FORMATS, Report, html, pubtator, read, write, xml
from hardner.types import Document, Entity, Passage, Sentence, Span

BOTH_WAYS = [name for name, row in FORMATS.items() if row.read and row.write]
PLAIN = Document("1", "A stent", (Entity(2, 7, "Device", "stent"),))


def jsonl(path: Path, **fields: object) -> Path:
    path.write_text(json.dumps({"id": "1", "text": "abc def", **fields}) + "\n")
    return path


def refused(path: Path, message: str, format: str | None = None) -> None:
    with pytest.raises(FileError, match=message) as caught:
        list(read(path, format, report=Report()))
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


SPAN = {"start": 0, "end": 1, "label": "X"}
WRONG_RECORDS: list[tuple[dict[str, Any], str]] = [
    ({"label": [{**SPAN, "labels": ["X"]}, 3]}, '"label" is not a list of objects'),
    (
        {"data": {"text": "a"}, "annotations": [{"result": [3]}]},
        '"result" is not a list of objects',
    ),
    ({"data": {"text": "a"}, "annotations": [3]}, '"annotations" is not a list of objects'),
    ({"entities": [{**SPAN, "score": 10**400}]}, '"score" is not a number'),
    ({"entities": [{**SPAN, "end": 10**20}]}, "is not an offset"),
    ({"entities": [{**SPAN, "label": "X\0Y"}]}, "a NUL character"),
    ({"id": "a\0b"}, "a NUL character"),
    ({"passages": [{"start": 0, "end": 3, "kind": "\ud800"}]}, "a lone surrogate"),
    ({"sentences": [{"tokens": ["a\ud800"]}]}, "a lone surrogate"),
    ({"sentences": [{"tokens": ["a"], "spans": [[0, 1, "\ud800"]]}]}, "a lone surrogate"),
    ({"sentences": [{"tokens": ["a"], "spans": [[0, 2, "X"]]}]}, "outside its 1 tokens"),
    ({"sentences": [{"tokens": ["de"], "offsets": [[-3, -1]]}]}, "-3--1 lies outside"),
    ({"spans": [], "tokens": [{"text": "de", "start": -3, "end": -1}]}, "-3--1 lies outside"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG_RECORDS)
def test_wrong_records(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    refused(jsonl(tmp_path / "a.jsonl", **fields), message)


def test_a_label_studio_task_without_a_label(tmp_path: Path) -> None:
    (found,) = read(jsonl(tmp_path / "a.json"), "labelstudio")
    assert found == Document("1", "abc def")


BIOC = {"id": "1", "infons": {}, "passages": [{"offset": 0, "text": "abc", "infons": {}}]}
FAR = {"offset": 99_999_990, "text": "\U0001f600"}
WRONG_BIOC: list[tuple[dict[str, Any], str]] = [
    ({**BIOC, "id": "a\ud800"}, "a lone surrogate"),
    ({**BIOC, "id": "a\0"}, "a NUL character"),
    ({**BIOC, "passages": [FAR]}, "the passage at 99999990 .* is out of bounds"),
    ({**BIOC, "passages": [{"offset": 0, "text": 3.5}]}, '"text" is not a string'),
    ({**BIOC, "infons": [1]}, '"infons" is not an object'),
]


@pytest.mark.parametrize(("document", "message"), WRONG_BIOC)
def test_wrong_bioc(tmp_path: Path, document: dict[str, Any], message: str) -> None:
    path = tmp_path / "a.bioc.json"
    path.write_text(json.dumps({"documents": [document]}))
    refused(path, message)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", '[{"text": "first"}][{"text": "second is lost"}]'),
        ("a.json", '[{"text": "first"}] }}} garbage'),
        ("a.bioc.json", '{"documents": []} {"documents": []}'),
        ("a.bioc.json", '{"documents": []}]'),
    ],
)
def test_text_behind_the_end_of_json(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    refused(tmp_path / name, ":1: not JSON: text behind its end")


BAD = [
    replace(PLAIN, id="a\0b"),
    replace(PLAIN, entities=(replace(PLAIN.entities[0], label="X\0"),)),
    replace(PLAIN, entities=(replace(PLAIN.entities[0], identifier="X\ud800"),)),
    replace(PLAIN, passages=(Passage(0, 7, "\ud800"),)),
    replace(PLAIN, sentences=(Sentence(("A\ud800",)),)),
    replace(PLAIN, sentences=(Sentence(("A",), (Span(0, 1, "\0"),)),)),
]


@pytest.mark.parametrize("format", [name for name, row in FORMATS.items() if row.write])
@pytest.mark.parametrize("document", BAD)
def test_what_no_reader_takes_is_not_written(
    tmp_path: Path, format: str, document: Document
) -> None:
    with pytest.raises(FileError, match=r"a NUL character|a lone surrogate"):
        write([document], tmp_path / "x", format, report=Report())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format", BOTH_WAYS)
def test_a_text_that_begins_with_a_byte_order_mark(tmp_path: Path, format: str) -> None:
    given = Document("b", "\ufeffaaa b", (Entity(1, 4, "X", "aaa"),))
    path = tmp_path / ("x.txt" if format == "text" else "x")
    write([given], path, format, report=Report())
    (found,) = read(path, format, report=Report())
    if format != "conll":
        assert found.text == given.text
    if format != "text":
        assert [(e.text, found.text[e.start : e.end]) for e in found.entities] == [("aaa", "aaa")]


def test_ids_that_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    given = Document("\ufeff1", "abc", (Entity(0, 1, "X", "a"),))
    write([given], tmp_path / "a.pubtator")
    assert list(read(tmp_path / "a.pubtator")) == [given]


@pytest.mark.parametrize("format", ["brat", "pubtator", "bioc"])
@pytest.mark.parametrize("identifier", [" ", "-", "\t"])
def test_identifiers_without_a_letter(tmp_path: Path, format: str, identifier: str) -> None:
    entity = replace(PLAIN.entities[0], identifier=identifier)
    report = Report()
    write([replace(PLAIN, entities=(entity,))], tmp_path / "x", format, report=report)
    (found,) = read(tmp_path / "x", format)
    assert found.entities[0].identifier == identifier or "identifier" in str(report.counts)


def test_a_conll_file_is_not_written_without_a_token(tmp_path: Path) -> None:
    blank = Document("b", " \n")
    with pytest.raises(FileError, match="document 'b': has no token"):
        write([blank], tmp_path / "x.tsv", report=Report())
    assert not list(tmp_path.iterdir())
    write([blank, PLAIN], tmp_path / "x.tsv", report=Report())
    assert len(list(read(tmp_path / "x.tsv"))) == 1


ROW = "a 0 0 {word} N * - - - - ({label}) -\n"


def test_ontonotes_without_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.gold_conll"
    john, paris = (ROW.format(word=w, label=k) for w, k in (("John", "PERSON"), ("Paris", "GPE")))
    first, second = "#begin document (a); part 000\n", "#begin document (b); part 000\n"
    path.write_text(f"{first}{john}#end document\n{second}{paris}\n#end document\n")
    found = list(read(path))
    assert [document.text for document in found] == ["John", "Paris"]
    assert [[entity.label for entity in document.entities] for document in found] == [
        ["PERSON"],
        ["GPE"],
    ]
    path.write_text(f"{first}{john}{second}{paris}#end document\n")
    refused(path, "a.gold_conll:3: no #end document before it")


def packed_docbin(path: Path, message: dict[str, object]) -> Path:
    srsly = pytest.importorskip("srsly", reason="spaCy is an extra")
    path.write_bytes(zlib.compress(srsly.msgpack_dumps(message)))
    return path


DOCBIN: dict[str, object] = {
    "attrs": [65, 67],
    "strings": [],
    "lengths": b"\1\0\0\0",
    "spaces": b"\0",
    "tokens": b"\7" * 16,
    "cats": [{}],
}


@pytest.mark.parametrize(
    "damage",
    [
        {},  # no string has this hash
        {"attrs": []},
        {"flags": ["x"]},
        {"cats": 3},
        {"span_groups": [b"\x93"]},
        {"user_data": [b"\xc1"]},
        {"attrs": [None, 65]},
    ],
)
def test_docbins_that_spacy_cannot_unpack(tmp_path: Path, damage: dict[str, object]) -> None:
    path = packed_docbin(tmp_path / "a.spacy", {**DOCBIN, **damage})
    refused(path, "a.spacy: not a spaCy DocBin: .")
    assert gc.isenabled()


@pytest.mark.parametrize("name", ["a.spacy", "a.spacy.gz", "a.parquet.gz"])
def test_small_files_that_unpack_to_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("pyarrow" if "parquet" in name else "spacy", reason="an extra")
    monkeypatch.setattr(files, "TEXT_LIMIT", 10_000)
    pack = gzip.compress if name.endswith(".gz") else zlib.compress
    (tmp_path / name).write_bytes(pack(bytes(10_000_000)))
    refused(tmp_path / name, "unpacks to more than .* bytes; split it")


def test_a_docbin_of_many_small_sentences(tmp_path: Path) -> None:
    """Less than it may unpack to otherwise: spaCy makes fifty times as many bytes of these."""
    path = packed_docbin(tmp_path / "a.spacy", {**DOCBIN, "tokens": bytes(5_000_000)})
    assert path.stat().st_size < 10_000
    refused(path, "unpacks to more than 4,000,000 bytes; split it")


@pytest.mark.parametrize("values", [[[1, 2]], [["a"]], [[{"start": 0.5}]], [[[3]]], [b"x"], [1.5]])
@pytest.mark.parametrize("column", ["entities", "passages", "id", "text"])
def test_parquet_columns_of_wrong_types(tmp_path: Path, column: str, values: list[Any]) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra")
    table = pyarrow.table({"text": ["abc"], column: values})
    parquet.write_table(table, tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", "a.parquet:1: ")


@pytest.mark.parametrize(
    ("texts", "size", "said"),
    [
        (2, 600_000, "a row of more than 1,000,000 characters"),
        (1, 1_200_000, "a row of more than 1,000,000 characters"),
        (1, 30_000_000, "unpacks to more than 20,000,000 bytes; split it"),
    ],
)
def test_one_long_text_that_many_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: int, size: int, said: str
) -> None:
    """A dictionary of Parquet holds it once, and rows of a few bytes are of any length."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra")
    monkeypatch.setattr("hardner.formats.parquet.LINE_LIMIT", 1_000_000)
    index = pyarrow.array([0] * texts, pyarrow.int32())
    label = pyarrow.DictionaryArray.from_arrays(index, pyarrow.array(["X" * size]))
    zeros, ones = (pyarrow.array([n] * texts) for n in (0, 1))
    mentions = pyarrow.StructArray.from_arrays([zeros, ones, label], ["start", "end", "label"])
    ends = pyarrow.array([0, texts], pyarrow.int32())
    table = pyarrow.table(
        {"text": ["abc"], "entities": pyarrow.ListArray.from_arrays(ends, mentions)}
    )
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 10_000
    refused(tmp_path / "a.parquet", said)


def test_rows_that_share_a_long_text_come_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra")
    monkeypatch.setattr("hardner.formats.parquet.LINE_LIMIT", 1000)
    parquet.write_table(pyarrow.table({"text": ["a " * 400] * 90}), tmp_path / "a.parquet")
    assert [d.text for d in read(tmp_path / "a.parquet")] == ["a " * 400] * 90


NODES = b"<PubmedArticleSet>" + b"<x/>" * 100_000


def test_xml_nodes_outside_of_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml, "LINE_LIMIT", 100_000)
    (tmp_path / "a.xml.gz").write_bytes(gzip.compress(NODES))
    refused(tmp_path / "a.xml.gz", "a document of more than 100,000 bytes of XML")
    (tmp_path / "a.sgm").write_text("")
    (tmp_path / "a.apf.xml").write_bytes(NODES)
    with pytest.raises(FileError, match=r"a\.apf\.xml: a document of more than 100,000 bytes"):
        list(read(tmp_path / "a.sgm"))
    # The bound is for one document, not for the file.
    write((PLAIN for _ in range(1000)), tmp_path / "b.xml")
    assert (tmp_path / "b.xml").stat().st_size > 100_000
    assert sum(1 for _ in read(tmp_path / "b.xml")) == 1000


@pytest.mark.parametrize(
    "block", ["1|t|abc\n" + "1\t0\t1\ta\tX\n" * 200, "1|t|abc\n" + "1\tCID\tD1\tD2\n" * 200]
)
def test_pubtator_in_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: str) -> None:
    monkeypatch.setattr(pubtator, "LINE_LIMIT", 1000)
    (tmp_path / "a.pubtator").write_text(block)
    refused(tmp_path / "a.pubtator", r"a.pubtator:\d+: no blank line for so long")


def test_pubtator_stops_at_the_first_line_that_is_wrong(tmp_path: Path) -> None:
    """However long the block is: nothing is kept of lines before they are understood."""
    (tmp_path / "a.pubtator.gz").write_bytes(gzip.compress(b"1|t|a\n" + b"x\n" * 5_000_000))
    refused(tmp_path / "a.pubtator.gz", "a.pubtator.gz:2: the id 'x'")


def test_many_annotations_of_one_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hardner.formats.brat.LINE_LIMIT", 1000)
    (tmp_path / "a.txt").write_text("abc")
    rows = (f"T{number}\tX 0 1\ta\n" for number in range(200))
    (tmp_path / "a.ann").write_text("".join(rows))
    with pytest.raises(FileError, match=r"a\.ann:\d+: more than 1,000 characters of annotations"):
        list(read(tmp_path / "a.ann"))


def test_sgml_of_tags_that_never_close(tmp_path: Path) -> None:
    """Linear: at one step for each pair of tags, this test would take hours."""
    (tmp_path / "a.apf.xml").write_text("<source_file/>")
    (tmp_path / "a.sgm").write_text("<a>x</a <b>y" + "<" * 3_000_000)
    (found,) = read(tmp_path / "a.sgm")
    assert found.text == "xy" + "<" * 3_000_000


@pytest.mark.parametrize("name", ["a.sgm", "a.apf.xml"])
def test_character_references_of_thousands_of_digits(tmp_path: Path, name: str) -> None:
    digits = "&#" + "9" * 5000 + ";"
    entity = '<entity><entity_mention><extent><charseq START="0" END="0">{}</charseq></extent>'
    entity += "</entity_mention></entity>"
    quoted = "x" if name == "a.sgm" else digits.replace("&", "&amp;")
    (tmp_path / "a.apf.xml").write_text(f"<source_file>{entity.format(quoted)}</source_file>")
    (tmp_path / "a.sgm").write_text(digits if name == "a.sgm" else "x")
    with pytest.raises(FileError, match=f"{name}.*: not SGML: Exceeds the limit"):
        list(read(tmp_path / "a.sgm"))


def test_nested_mentions_as_html(tmp_path: Path) -> None:
    """Of many mentions one in the other, each has its label and only the outer ones a line."""
    text = "x" * 2000
    nested = tuple(Entity(n, 2000 - n, "X", text[n : 2000 - n]) for n in range(400))
    write([Document("1", text, nested)], tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert page.count('<small class="c0">X</small>') == 400 + 1  # one in the legend
    assert page.count('<span class="m') <= 801 * html._MOST_LANES
    assert len(page) < 3_000_000


def test_all_tasks_rejected(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", spans=[], answer="reject")
    refused(path, r"holds no documents; 1 times: task answered with 'reject' left out")


def test_label_studio_conll_with_spaces_in_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("-DOCSTART- -X- O\nA -X- _ O\nleft -X- _ B-Body Part\nlung -X- _ I-Body Part\n")
    (found,) = read(path, report=Report())
    assert found.entities == (Entity(2, 11, "Body Part", "left lung"),)


TOKENS = ["A", "left", "lung", "stent"]
TAGS = ["O", "B-Body Part", "I-Body Part", "B-Device"]


@pytest.mark.parametrize(
    "record",
    [
        {"id": 5, "tokens": TOKENS, "ner_tags": TAGS},
        {"id": 5, "tokenized_text": TOKENS, "ner": [[1, 2, "Body Part"], [3, 3, "Device"]]},
        ["A left lung stent", {"entities": [[2, 11, "Body Part"], [12, 17, "Device"]]}],
    ],
)
def test_training_data_of_other_libraries(tmp_path: Path, record: object) -> None:
    (tmp_path / "a.json").write_text(json.dumps([record]))
    (found,) = read(tmp_path / "a.json", strict=True)
    assert (found.id, found.text) == ("5" if isinstance(record, dict) else "a-1", " ".join(TOKENS))
    assert [(e.text, e.label) for e in found.entities] == [
        ("left lung", "Body Part"),
        ("stent", "Device"),
    ]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"tokens": ["a"], "ner_tags": [0]}, "numbers, whose names stand elsewhere"),
        ({"tokens": ["a"], "ner_tags": ["what"]}, "'what' is not a tag"),
        ({"tokens": ["a"], "ner_tags": ["O", "O"]}, '1 "tokens" and 2 "ner_tags"'),
        ({"tokens": [1], "ner_tags": ["O"]}, '"tokens" is not a list of strings'),
        ({"tokenized_text": ["a"], "ner": [[0, 1, "X"]]}, "outside the 1 tokens"),
        ({"tokenized_text": ["a"], "ner": [[0, "X"]]}, "not a mention of the form"),
        ({"tokenized_text": ["a"], "ner": [[None, 0, "X"]]}, "is not an offset"),
    ],
)
def test_training_data_that_is_wrong(tmp_path: Path, record: object, message: str) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(record))
    refused(tmp_path / "a.jsonl", message)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_tables_of_texts_are_refused_with_advice(tmp_path: Path, name: str) -> None:
    mark = "," if name.endswith("csv") else "\t"
    (tmp_path / name).write_text(f"id{mark}text\n1{mark}A stent failed.\n")
    refused(tmp_path / name, "of a table of texts, make JSON lines")
