"""What a tagger finds as records, data frames, and in a notebook."""

import builtins
import copy
import csv
import json
import pickle
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import small_models as models

from hardner.errors import HardnerError
from hardner.formats import FORMATS, Report, read, write
from hardner.tag.records import FoundEntities, data_frame
from hardner.types import Document, Entity

TEXT = "Aspirin may worsen <asthma> in mice & men. BRCA1 is a gene; p53 is one too."


def test_a_record_for_each_entity() -> None:
    predictor = models.predictor()
    texts = [TEXT, "", "BRCA1 in mice"]
    records = predictor.to_records([*texts, Document("paper", TEXT)])
    expected = [
        {"document": name, "start": e.start, "end": e.end, "label": e.label}
        | {"text": e.text, "score": e.score}
        for name, text in ((0, TEXT), (2, texts[2]), ("paper", TEXT))
        for e in predictor(text)
    ]
    assert records == expected != []
    assert json.loads(json.dumps(records)) == records
    one = predictor.to_records([TEXT], labels=["Gene"], min_score=0.5, batch_size=1)
    assert [(r["start"], r["label"]) for r in one] == [
        (e.start, e.label) for e in predictor(TEXT, labels=["Gene"], min_score=0.5)
    ]
    with pytest.raises(HardnerError, match=r"records are of many texts, and this is one; give"):
        predictor.to_records(TEXT)


def test_csv_has_the_columns_of_the_records(tmp_path: Path) -> None:
    predictor = models.predictor()
    document = Document("paper", TEXT)
    write(predictor.documents([document]), tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {name: str(value) for name, value in record.items()}
        for record in predictor.to_records([document])
    ]


def test_a_data_frame_needs_pandas_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = models.predictor()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(HardnerError, match="pandas is not installed; run: pip install pandas"):
        predictor.to_dataframe([TEXT])
    assert predictor.to_records([TEXT])


def test_a_data_frame_has_its_columns_without_any_row() -> None:
    pandas = pytest.importorskip("pandas")
    predictor = models.predictor()
    frame = predictor.to_dataframe([TEXT, TEXT])
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict("records") == predictor.to_records([TEXT, TEXT])
    empty = predictor.to_dataframe([""])
    assert list(empty.columns) == list(frame.columns) == list(predictor.to_records([TEXT])[0])
    assert len(data_frame([])) == 0


def test_what_a_tagger_finds_is_a_list() -> None:
    predictor = models.predictor()
    found = predictor(TEXT)
    assert isinstance(found, list)
    assert found == list(found)
    assert found.text == TEXT
    assert repr(found) == repr(list(found))
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert (type(again), again, again.text) == (FoundEntities, found, TEXT)
    assert [f.text for f in predictor.pipe(["a", "b"])] == ["a", "b"]


class Shown(HTMLParser):
    """What a browser makes of a piece of HTML: its text, and what stands around each piece."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[tuple[str, list[str]]] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in ("div", "span", "small")
        self.open.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1][0] != "small":
            titles = [t for tag, a in self.open if tag == "span" and (t := a["title"])]
            self.pieces.append((data, titles))


def test_a_notebook_shows_the_text_with_its_entities() -> None:
    found = models.predictor()(TEXT)
    shown = Shown(found._repr_html_())
    assert "".join(piece for piece, _ in shown.pieces) == TEXT
    for entity in found:
        inside = [p for p, titles in shown.pieces if any(entity.text in t for t in titles)]
        assert entity.text in "".join(inside)
    assert "<style" not in found._repr_html_()
    assert "class=" not in found._repr_html_()  # notebooks have styles of their own
    assert Shown(FoundEntities()._repr_html_()).pieces == []


NESTED = (
    Entity(0, 13, "Disease", "breast cancer"),
    Entity(0, 25, "CellLine", "breast cancer MCF-7 cells"),
    Entity(14, 19, "Code", "MCF-7"),
)


def test_mentions_of_several_heads_may_lie_in_each_other(tmp_path: Path) -> None:
    text = "breast cancer MCF-7 cells"
    shown = Shown(FoundEntities(NESTED, text)._repr_html_())
    assert [(piece, len(titles)) for piece, titles in shown.pieces] == [
        ("breast cancer", 2),
        (" ", 1),
        ("MCF-7", 2),
        (" cells", 1),
    ]
    document = Document("d", text, NESTED)
    for name, row in FORMATS.items():
        if name == "text" or not (row.read and row.write and "overlaps" in row.holds):
            continue
        if name == "docbin":
            pytest.importorskip("spacy")
        write([document], tmp_path / f"out-{name}", name, report=Report())
        (again,) = read(tmp_path / f"out-{name}", name, report=Report())
        assert {(e.start, e.end, e.label) for e in again.entities} == {
            (e.start, e.end, e.label) for e in NESTED
        }, name


def test_the_library_imports_no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def no_pandas(name: str, *rest: Any) -> Any:
        assert name.partition(".")[0] != "pandas"
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_pandas)
    models.predictor()(TEXT)
