"""Mentions that no run of words of one sentence stands for are kept, shown, and not learnt from."""

import json
from pathlib import Path
from typing import Any

import pytest
from serve_bench import adapting, add, add_type, client, label, sentence, settings, until
from starlette.testclient import TestClient

from hardner.formats import Report, read, write
from hardner.types import Document, Entity

TEXT = "The antiHER2 drug helped. It was seen. Left and right lung failed."
WITHIN = Entity(8, 12, "Gene", "HER2", identifier="NCBI:2064")
ACROSS = Entity(13, 28, "Gene", "drug helped. It")
PIECES = Entity(39, 58, "Organ", "Left lung", fragments=((39, 43), (54, 58)))
PLAIN = Entity(13, 17, "Gene", "drug")
DOCUMENT = Document("d", TEXT, (WITHIN, PLAIN, ACROSS, PIECES))


def upload(http: TestClient, document: Document, folder: Path) -> dict[str, Any]:
    write([document], folder / "given.jsonl", "jsonl")
    data = (folder / "given.jsonl").read_bytes()
    kind = {"content-type": "application/octet-stream"}
    answer = http.post("/api/uploads?name=given.jsonl", content=data, headers=kind)
    assert answer.status_code == 201, answer.text
    return answer.json()


def exported(http: TestClient, folder: Path, **asked: str) -> tuple[list[Document], str]:
    answer = http.get("/api/export", params={"format": "jsonl", **asked})
    assert answer.status_code == 200, answer.text
    (folder / "labels.jsonl").write_bytes(answer.content)
    return list(read(folder / "labels.jsonl", report=Report())), answer.headers["x-left-out"]


def mentions(document: Document) -> set[tuple[str, str, str, tuple[Any, ...]]]:
    return {(e.text, e.label, e.identifier, e.fragments) for e in document.entities}


def test_they_survive_import_and_export_twice(http: TestClient, tmp_path: Path) -> None:
    added = upload(http, DOCUMENT, tmp_path)
    assert added["mentions"] == 4
    assert "3 × a mention that fits no words" in added["warnings"][0]
    (first,), lost = exported(http, tmp_path)
    assert lost == ""
    assert mentions(first) == mentions(DOCUMENT)
    upload(http, first, tmp_path)
    (_, second), _ = exported(http, tmp_path)
    assert mentions(second) == mentions(DOCUMENT)


def test_their_letters_are_shown(http: TestClient, tmp_path: Path) -> None:
    upload(http, DOCUMENT, tmp_path)

    def letters(number: int) -> list[tuple[str, str]]:
        held = sentence(http, number)
        return [
            (
                "|".join(held["tokens"][at][start:end] for at, start, end in one["letters"]),
                one["why"],
            )
            for one in held["loose"]
        ]

    assert letters(1) == [("HER2", "within a word"), ("drug|helped|.", "across")]
    assert letters(2) == [("It", "across")]
    assert letters(3) == [("Left|lung", "in pieces")]


def test_what_a_cut_or_a_format_cannot_hold_is_said(http: TestClient, tmp_path: Path) -> None:
    upload(http, DOCUMENT, tmp_path)
    label(http, 2)  # open again
    documents, lost = exported(http, tmp_path, unit="sentence")
    assert [sorted(e.text for e in one.entities) for one in documents] == [
        ["HER2", "drug"], ["Left lung"]
    ]  # fmt: skip
    assert "1%20%C3%97%20mention%20across%20sentences%20left%20out" in lost
    answer = http.get("/api/export", params={"format": "conll"})
    assert answer.status_code == 200
    assert b"B-Gene" in answer.content
    assert "left%20out" in answer.headers["x-left-out"]
    for name in ("brat", "pubtator", "bioc-xml", "csv"):
        assert http.get("/api/export", params={"format": name}).status_code in (200, 422)


def test_removal_is_undone(http: TestClient, tmp_path: Path) -> None:
    upload(http, DOCUMENT, tmp_path)
    kinds = {one["name"]: one["spans"] for one in http.get("/api/types").json()["types"]}
    assert kinds == {"Gene": 3, "Organ": 1}
    (one,) = sentence(http, 3)["loose"]
    undo = http.delete(f"/api/loose/{one['id']}").json()["undo"]
    assert undo["what"] == "remove 'Left … lung'"
    assert sentence(http, 3)["loose"] == []
    assert http.delete(f"/api/loose/{one['id']}").status_code == 404
    http.post("/api/undo", json={})
    assert sentence(http, 3)["loose"] == [one]
    http.delete(f"/api/types/{one['type']}?with_labels=true")
    assert sentence(http, 3)["loose"] == []
    http.post("/api/undo", json={})
    assert sentence(http, 3)["loose"] == [one]


def test_their_sentences_are_not_learnt_and_counted(tmp_path: Path) -> None:
    look = """
order = json.loads((folder / "order.json").read_text())
assert [s["id"] for s in order["labelled"]] == ["4"], order["labelled"]
"""
    with client(settings(tmp_path, adapt=adapting(tmp_path, look))) as http:
        upload(http, DOCUMENT, tmp_path)
        kind = add_type(http, "Disease")
        add(http, "The asthma came.")
        label(http, 4, (1, 2, kind))
        assert http.get("/api/status").json()["loose"] == {"mentions": 3, "sentences": 3}
        run = http.post("/api/adapt", json={}).json()["id"]
        ended = until(lambda: (r := http.get(f"/api/runs/{run}").json())["ended"] and r)
        assert ended["state"] == "done", ended


@pytest.mark.parametrize("text", ["\N{GRINNING FACE}antiHER2 fell.", "e\u0301antiHER2 fell."])
def test_letters_are_characters(http: TestClient, text: str) -> None:
    start = text.index("HER2")
    body = {"text": text, "entities": [{"start": start, "end": start + 4, "label": "Gene"}]}
    http.post("/api/documents", json={"documents": [body]})
    held = sentence(http, 1)
    (one,) = held["loose"]
    assert [held["tokens"][at][a:b] for at, a, b in one["letters"]] == ["HER2"]
    assert json.loads(http.get("/api/export?format=jsonl").text)["entities"][0]["text"] == "HER2"
