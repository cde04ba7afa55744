"""Review: which candidates are asked about, many accepted at once, and undo of all that changes."""

import random
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from serve_bench import adapting, add, add_type, client, label, sentence, settings, swept, until
from starlette.testclient import TestClient

from hardner.serve.database import APPLICATION_ID
from hardner.serve.integrity import Damaged, check_rows
from hardner.serve.learning import only_labels
from hardner.serve.runs import AdaptationOrder
from hardner.types import Sentence, Span

TEXT = "Asthma hurts. The asthma and the fever came back. She had no fever."


@pytest.fixture
def review(http: TestClient) -> Any:
    """A project with a type that the model knows, and what asks for candidates."""
    add_type(http)
    add(http, TEXT)
    swept(http)

    def ask(path: str = "", **body: Any) -> Any:
        answer = http.post(f"/api/review{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


def places(found: dict[str, Any]) -> list[tuple[int, int, int]]:
    return [(c["sentence"], c["start"], c["end"]) for c in found["candidates"]]


def undo(http: TestClient) -> dict[str, Any]:
    answer = http.post("/api/undo", json={})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_candidates_come_with_sentences_and_what_is_around(review: Any) -> None:
    found = review(order="as in the text")
    assert places(found) == [(2, 1, 2), (2, 4, 5), (3, 3, 4)]
    assert found["total"] == 3
    assert [one["id"] for one in found["sentences"]] == [2, 3]
    assert found["around"]["2"] == {
        "name": "document-1", "before": "Asthma hurts.", "after": "She had no fever."
    }  # fmt: skip
    assert found["around"]["3"]["after"] == ""
    assert [c["score"] for c in found["candidates"]] == [0.9] * 3


def test_answers_and_skips_are_not_asked_again(http: TestClient, review: Any) -> None:
    label(http, 2, (1, 2, 1), partial=True)
    rejected = [{"start": 3, "end": 4, "type": 1}]
    label(http, 3, rejected=rejected)
    assert places(review()) == [(2, 4, 5)]
    skip = [{"sentence": 2, "start": 4, "end": 5, "type": 1}]
    assert review(skip=skip)["total"] == 0
    assert sentence(http, 3)["state"] == "partial"  # a rejection says nothing of the rest


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({"low": 0.95}, []),
        ({"high": 0.9}, [2, 2, 3]),
        ({"types": [1]}, [2, 2, 3]),
        ({"types": [99]}, []),
        ({"state": "open"}, [3]),
        ({"state": "partial"}, [2, 2]),
        ({"state": "done"}, []),
        ({"query": "nothing"}, []),
        ({"query": "asth"}, [2, 2, 3]),
        ({"query": 'fever" OR "x'}, []),
    ],
)
def test_filters(http: TestClient, review: Any, question: Any, expected: Any) -> None:
    label(http, 2, rejected=[{"start": 0, "end": 1, "type": 1}])
    found = review(order="as in the text", **question)
    assert [one for one, _, _ in places(found)] == expected


def test_differences_of_model_and_labels_go_both_ways(http: TestClient, review: Any) -> None:
    label(http, 2, (0, 1, 1), (1, 2, 1))
    found = review(source="differences", order="as in the text")
    shown = [(c["start"], c["end"], c["kind"]) for c in found["candidates"]]
    assert shown == [(0, 1, "extra"), (4, 5, "missing")]
    label(http, 2, (1, 2, 1), rejected=[{"start": 4, "end": 5, "type": 1}])
    assert review(source="differences")["total"] == 0
    assert not sentence(http, 2)["disagrees"]


def test_matches_score_by_what_was_said_before(http: TestClient, review: Any) -> None:
    other = add_type(http, "Symptom")
    label(http, 2, (1, 2, 1), (4, 5, other))
    found = review(source="matches", order="as in the text")
    assert places(found) == [(1, 0, 1), (3, 3, 4)]
    assert [(c["type"], c["score"]) for c in found["candidates"]] == [(1, 1.0), (other, 1.0)]
    label(http, 1, rejected=[{"start": 0, "end": 1, "type": 1}])
    add(http, "Once more asthma.")
    found = review(source="matches", types=[1])
    assert [(c["sentence"], c["score"]) for c in found["candidates"]] == [(4, 0.5)]


def test_held_out_documents_are_not_suggested(http: TestClient, review: Any) -> None:
    http.patch("/api/documents/1", json={"held_out": True})
    assert review()["total"] == review(source="matches")["total"] == 0


def test_many_are_accepted_as_one_change(http: TestClient, review: Any) -> None:
    label(http, 3, rejected=[{"start": 0, "end": 1, "type": 1}])
    found = review("/list")
    assert found["total"] == 3
    assert Counter(one["text"] for one in found["found"]) == {"asthma": 1, "fever": 2}
    assert found["found"][0]["before"] == "The "
    spans = [{k: one[k] for k in ("sentence", "start", "end", "type")} for one in found["found"]]
    inside = {"sentence": 2, "start": 3, "end": 5, "type": 1}  # meets one that is in the list
    assert review("/accept", spans=[*spans, inside]) == {"accepted": 3, "left": 1}
    assert [sentence(http, n)["state"] for n in (2, 3)] == ["partial", "partial"]
    assert http.get("/api/status").json()["undo"]["what"] == "label 3 mentions at once"
    assert review()["total"] == 0
    undo(http)
    assert [len(sentence(http, n)["spans"]) for n in (2, 3)] == [0, 0]
    assert len(sentence(http, 3)["rejected"]) == 1
    http.post("/api/redo", json={})
    assert review()["total"] == 0


def test_the_same_words_everywhere(http: TestClient, review: Any) -> None:
    label(http, 2, (1, 2, 1))
    found = review("/same", sentence=2, start=1, end=2, type=1)
    assert [(one["sentence"], one["text"]) for one in found["found"]] == [(1, "Asthma")]
    label(http, 1, none=True)  # a sentence that is done stays so
    spans = [{"sentence": 1, "start": 0, "end": 1, "type": 1}]
    assert review("/accept", spans=spans)["accepted"] == 1
    assert sentence(http, 1)["state"] == "labelled"


def test_wrong_questions_are_named(http: TestClient, review: Any) -> None:
    for body in ({"source": "x"}, {"order": "x"}, {"state": "x"}, {"query": "!"}, {"low": 2}):
        assert http.post("/api/review", json=body).status_code == 422
    assert http.post("/api/review/accept", json={"spans": []}).status_code == 422
    beyond = [{"sentence": 2, "start": 1, "end": 99, "type": 1}]
    assert http.post("/api/review/accept", json={"spans": beyond}).status_code == 422


def test_undo_goes_back_over_all_that_was_changed(http: TestClient, tmp_path: Path) -> None:
    """Whatever is done in whatever order, undo brings back every state there was, and redo too."""
    add(http, TEXT, "Another fever.")
    kinds = [add_type(http, "Disease")]

    def state() -> Any:
        documents = http.get("/api/documents").json()["documents"]
        types = http.get("/api/types").json()["types"]
        held = [sentence(http, n) for n in range(1, 5)]
        parts = ("spans", "rejected", "state", "notes")
        return (
            [(one["name"], one["held_out"]) for one in documents],
            [{**one, "spans": None} for one in types],
            [[one[part] for part in parts] for one in held],
        )

    chance = random.Random(7)
    actions = [
        lambda: label(http, 2, (1, 2, kinds[0]), partial=True),
        lambda: label(http, 2, rejected=[{"start": 4, "end": 5, "type": kinds[0]}]),
        lambda: http.patch("/api/documents/1", json={"held_out": True}),
        lambda: http.patch("/api/documents/1", json={"held_out": False, "name": "one"}),
        lambda: http.patch(f"/api/types/{kinds[0]}", json={"name": f"D{chance.random()}"}),
        lambda: http.patch(f"/api/types/{kinds[0]}", json={"colour": chance.randrange(8)}),
        lambda: http.patch(f"/api/types/{kinds[0]}", json={"guideline": f"# {chance.random()}"}),
        lambda: add_type(http, f"More {chance.random()}"),
        lambda: http.put(
            "/api/sentences/3/note", json={"start": 0, "end": 2, "text": f"n {chance.random()}"}
        ),
        lambda: http.post(
            "/api/review/accept",
            json={"spans": [{"sentence": 4, "start": 1, "end": 2, "type": kinds[0]}]},
        ),
    ]
    seen = [state()]
    for action in [*actions, *chance.choices(actions, k=30)]:
        action()
        if state() != seen[-1]:
            seen.append(state())
    for before in reversed(seen[:-1]):
        undo(http)
        assert state() == before
    for after in seen[1:]:
        assert http.post("/api/redo", json={}).status_code == 200
        assert state() == after
    with closing(sqlite3.connect(tmp_path / "project.hardner")) as database:
        database.row_factory = sqlite3.Row
        check_rows(database)  # what is looked at when the project is opened
        for wrong in (
            "UPDATE notes SET stop = 99",
            "UPDATE types SET id = 9 WHERE id = 1",
            "INSERT INTO loose_mentions (document, type, pieces) VALUES (1, 1, '[[5, 999]]')",
        ):
            database.execute("PRAGMA foreign_keys = OFF")
            database.execute(wrong)
            with pytest.raises(Damaged):
                check_rows(database)
            database.rollback()


def test_a_type_that_imported_labels_use_stays(http: TestClient) -> None:
    kind = add_type(http)
    entities = [{"start": 0, "end": 6, "label": "Disease"}]
    http.post("/api/documents", json={"documents": [{"text": TEXT, "entities": entities}]})
    undo(http)  # of the type, as documents that were added stay
    assert [one["id"] for one in http.get("/api/types").json()["types"]] == [kind]


def test_rejections_are_exported_imported_and_learnt_from(tmp_path: Path) -> None:
    look = """
order = json.loads((folder / "order.json").read_text())
held = {s["id"]: s for s in order["labelled"]}
assert held.keys() == {"1", "2", "4"}, held
assert held["2"]["state"] == "partial" and held["2"]["rejected"] == [[4, 5, "Disease"]], held
assert held["4"]["state"] == "partial" and held["4"]["spans"] == [], held
assert held["1"]["state"] == "done", held
"""
    with client(settings(tmp_path, adapt=adapting(tmp_path, look))) as http:
        kind = add_type(http)
        add(http, TEXT, "A fever.")
        label(http, 2, (1, 2, kind), partial=True, rejected=[{"start": 4, "end": 5, "type": kind}])
        label(http, 4, rejected=[{"start": 1, "end": 2, "type": kind}])
        answer = http.post("/api/adapt", json={})  # nothing is labelled to its end
        assert answer.status_code == 422 and "to its end" in answer.json()["error"]
        label(http, 1, (0, 1, kind))
        run = http.post("/api/adapt", json={}).json()["id"]
        ended = until(lambda: (r := http.get(f"/api/runs/{run}").json())["ended"] and r)
        assert (ended["state"], ended["sentences"]) == ("done", 1), ended
        exported = http.get("/api/export?format=jsonl").content
        assert http.get("/api/export?format=conll").headers["x-left-out"] == ""
        kind_of = {"content-type": "application/octet-stream"}
        http.post("/api/uploads?name=a.jsonl", content=exported, headers=kind_of)
        for old, new in ((1, 5), (2, 6), (3, 7), (4, 8)):
            one, other = sentence(http, old), sentence(http, new)
            for name in ("state", "spans", "rejected"):
                assert one[name] == other[name], (old, name)
    with client(settings(tmp_path)) as http:  # every row is as it should be
        assert http.get("/api/status").status_code == 200


def test_the_order_of_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    known = Sentence(("a", "b"), (Span(0, 1, "X"),), "7", None, "partial", (Span(1, 2, "X"),))
    order = AdaptationOrder([known], [], [Sentence(("c",), (), "8")], False, True, None)
    order.write(tmp_path)
    assert AdaptationOrder.read(tmp_path) == order
    assert only_labels(known, {"Y"}) == replace(known, spans=(), rejected=())


def test_there_may_be_more_types_than_keys(http: TestClient) -> None:
    numbers = [add_type(http, f"T{n}") for n in range(50)]
    types = http.get("/api/types").json()["types"]
    keys = [one["key"] for one in types if one["key"]]
    assert (len(types), len(keys), len(set(keys))) == (50, 36, 36)
    http.patch(f"/api/types/{numbers[0]}", json={"key": ""})
    freed = (set("0123456789abcdefghijklmnopqrstuvwxyz") - set(keys)) | {keys[0]}
    answer = http.patch(f"/api/types/{numbers[-1]}", json={"key": freed.pop()})
    assert answer.status_code == 200


def test_notes_and_guidelines(http: TestClient, review: Any) -> None:
    note = {"start": 1, "end": 2, "text": " look again \N{GRINNING FACE}"}
    shown = http.put("/api/sentences/2/note", json=note).json()
    assert shown["notes"] == [{"start": 1, "end": 2, "text": "look again \N{GRINNING FACE}"}]
    assert shown["version"] == 0
    assert http.get("/api/sentences/2/history").json()["events"] == []
    http.put("/api/sentences/2/note", json={**note, "text": ""})
    assert sentence(http, 2)["notes"] == []
    assert http.put("/api/sentences/2/note", json={**note, "end": 99}).status_code == 422
    http.patch("/api/types/1", json={"guideline": "# What it is\nNot *this*."})
    assert http.get("/api/types").json()["types"][0]["guideline"].startswith("# What")
    label(http, 2, (1, 2, 1), (4, 5, 1))
    label(http, 3, (3, 4, 1))
    (first, second) = http.get("/api/types/1/examples").json()["examples"]
    assert (first["text"], first["count"], second["text"]) == ("fever", 2, "asthma")
    assert http.get("/api/types/9/examples").status_code == 404


def test_a_project_of_the_version_before_opens(tmp_path: Path) -> None:
    steps = [files("hardner.serve").joinpath("schema", f"{n}.sql").read_text() for n in (1, 2)]
    with sqlite3.connect(tmp_path / "project.hardner") as old:
        old.executescript("".join(steps))
        old.execute("INSERT INTO types (name, key, colour) VALUES ('Disease', 'd', 0)")
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        old.execute("PRAGMA user_version = 2")
    old.close()
    with client(settings(tmp_path)) as http:
        (kind,) = http.get("/api/types").json()["types"]
    assert (kind["name"], kind["key"], kind["guideline"]) == ("Disease", "d", "")
