"""Prodigy's tasks, as `prodigy db-out` writes them."""

import json
from pathlib import Path

import pytest

from hardner.errors import FileError
from hardner.formats import Report, read, write
from hardner.text import sentences
from hardner.types import Document, Entity, Sentence, Span

TASK = {
    "text": "A  stent.\n",
    "meta": {"id": "d1"},
    "_input_hash": -1842734674,
    "_task_hash": 636683182,
    "_is_binary": False,
    "tokens": [
        {"text": "A", "start": 0, "end": 1, "id": 0, "ws": True},
        {"text": " ", "start": 2, "end": 3, "id": 1, "ws": False},
        {"text": "stent", "start": 3, "end": 8, "id": 2, "ws": False},
        {"text": ".", "start": 8, "end": 9, "id": 3, "ws": False},
        {"text": "\n", "start": 9, "end": 10, "id": 4, "ws": False},
    ],
    "_view_id": "ner_manual",
    "spans": [{"start": 3, "end": 8, "token_start": 2, "token_end": 2, "label": "Device"}],
    "answer": "accept",
    "_timestamp": 1700000000,
}
DOCUMENT = Document(
    "d1",
    "A  stent.\n",
    (Entity(3, 8, "Device", "stent"),),
    (Sentence(("A", "stent", "."), (Span(1, 2, "Device"),), "", ((0, 1), (3, 8), (8, 9))),),
)


def test_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(TASK))
    for format in ("prodigy", None):
        assert list(read(tmp_path / "a.jsonl", format, strict=True)) == [DOCUMENT]


def test_written_as_prodigy_writes(tmp_path: Path) -> None:
    write([DOCUMENT], tmp_path / "a.jsonl", "prodigy", strict=True)
    assert json.loads((tmp_path / "a.jsonl").read_text()) == {
        "text": "A  stent.\n",
        "meta": {"id": "d1"},
        "tokens": [
            {"text": "A", "start": 0, "end": 1, "id": 0, "ws": True},
            {"text": "stent", "start": 3, "end": 8, "id": 1, "ws": False},
            {"text": ".", "start": 8, "end": 9, "id": 2, "ws": False},
        ],
        "spans": [{"start": 3, "end": 8, "label": "Device", "token_start": 1, "token_end": 1}],
        "answer": "accept",
    }


@pytest.mark.parametrize("tokens", [True, False])
def test_a_rejected_span_is_known_not_to_be_a_mention(tmp_path: Path, tokens: bool) -> None:
    task = {**TASK, "answer": "reject"} | ({} if tokens else {"tokens": []})
    (tmp_path / "a.jsonl").write_text(json.dumps(task))
    (document,) = read(tmp_path / "a.jsonl", strict=True)
    assert document.rejected == DOCUMENT.entities
    assert not document.entities
    (sentence,) = sentences(document)
    assert (sentence.spans, sentence.rejected) == ((), DOCUMENT.sentences[0].spans)
    assert sentence.state == "partial"


@pytest.mark.parametrize("answer", ["reject", "ignore"])
def test_tasks_that_were_not_accepted_are_left_out(tmp_path: Path, answer: str) -> None:
    rows = [TASK, {**TASK, "answer": answer, "spans": []}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    report = Report()
    assert len(list(read(tmp_path / "a.jsonl", report=report))) == 1
    assert report.counts == {f"task answered with {answer!r} left out": 1}
    with pytest.raises(FileError, match=":2: task answered"):
        list(read(tmp_path / "a.jsonl", strict=True))


def test_other_meta_and_relations_are_said(tmp_path: Path) -> None:
    task = {**TASK, "meta": {"source": "x"}, "relations": [{"label": "R"}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(task))
    report = Report()
    list(read(tmp_path / "a.jsonl", report=report))
    assert report.counts == {"relation left out": 1, "field 'meta' not kept, except its id": 1}


def test_several_sentences_become_one(tmp_path: Path) -> None:
    report = Report()
    parts = (Sentence(("a",), offsets=((0, 1),)), Sentence(("b",), offsets=((2, 3),)))
    write([Document("d", "a b", sentences=parts)], tmp_path / "a.jsonl", "prodigy", report=report)
    assert report.counts == {"sentence bounds not kept": 1}
    (document,) = read(tmp_path / "a.jsonl")
    assert document.sentences == (Sentence(("a", "b"), offsets=((0, 1), (2, 3))),)


def test_tokens_that_lie(tmp_path: Path) -> None:
    token = {"text": "A", "start": 1, "end": 2, "id": 0, "ws": True}
    (tmp_path / "a.jsonl").write_text(json.dumps({**TASK, "tokens": [token]}))
    with pytest.raises(FileError, match=":1: the token at 1-2 differs from the text there"):
        list(read(tmp_path / "a.jsonl"))
