"""Labels: versions, history, undo and redo, checked against a model in memory."""

import random
import sqlite3

import pytest
from serve_bench import TEXT, add, add_type, client, label, sentence, settings


def put(http, number, version, spans, **more):
    marks = [{"start": s, "end": e, "type": t} for s, e, t in spans]
    body = {"version": version, "spans": marks, **more}
    return http.put(f"/api/sentences/{number}", json=body)


def test_a_sentence_can_be_put_together_again(http):
    text = "  Two\tgaps here.\n\nA 😀 café\u0301 <b>.  "
    add(http, text)
    document = http.get("/api/documents/1").json()
    parts = [
        one["lead"] + "".join(t + g for t, g in zip(one["tokens"], one["gaps"], strict=True))
        for one in document["sentences"]
    ]
    assert "".join(parts) + document["tail"] == text
    part = http.get("/api/documents/1", params={"start": 1}).json()["sentences"]
    assert part == document["sentences"][1:]


def test_labels_are_set_and_versions_count(http):
    disease = add_type(http)
    add(http, TEXT)
    first = label(http, 1, (3, 4, disease))
    assert (first["version"], first["state"]) == (1, "labelled")
    same = put(http, 1, 1, [(3, 4, disease)])
    assert same.json()["version"] == 1
    assert same.headers["etag"] == '"1"'
    none = put(http, 1, 1, [], none=True).json()
    assert (none["version"], none["state"], none["spans"]) == (2, "none", [])


def test_of_two_tabs_the_second_is_told(http):
    disease = add_type(http)
    add(http, TEXT)
    assert put(http, 1, 0, [(3, 4, disease)]).status_code == 200
    late = put(http, 1, 0, [(1, 2, disease)])
    assert late.status_code == 409
    assert late.json()["sentence"]["spans"] == [{"start": 3, "end": 4, "type": disease}]
    assert sentence(http, 1)["version"] == 1


@pytest.mark.parametrize(
    ("spans", "more", "says"),
    [
        ([(0, 6, 1)], {}, "not within the 5 tokens"),
        ([(2, 2, 1)], {}, "not within"),
        ([(0, 1, 7)], {}, "no type 7"),
        ([(0, 2, 1), (1, 3, 1)], {}, "two Disease spans overlap"),
        ([(0, 1, 1)], {"none": True}, "cannot be marked"),
        ([], {"rejected": [{"start": 0, "end": 9, "type": 1}]}, "not within"),
    ],
)
def test_impossible_labels_are_refused(http, spans, more, says):
    add_type(http)
    add(http, TEXT)
    answer = put(http, 1, 0, spans, **more)
    assert answer.status_code == 422
    assert says in answer.json()["error"]
    assert sentence(http, 1)["version"] == 0


def test_types_may_overlap_each_other(http):
    disease, finding = add_type(http), add_type(http, "Finding")
    add(http, TEXT)
    found = label(http, 1, (2, 4, disease), (3, 5, finding))
    assert len(found["spans"]) == 2


def test_undo_and_redo_walk_the_same_way_as_a_list_of_states(tmp_path):
    """Random edits, undos, redos and restarts, against states kept in two lists."""
    rng = random.Random(7)
    made = settings(tmp_path)
    done, undone = [], []
    now = dict.fromkeys((1, 2, 3), ())
    kind = None
    for session in range(3):
        with client(made) as http:
            if session == 0:
                kind = add_type(http)
                now["colour"] = http.get("/api/types").json()["types"][0]["colour"]
                add(http, TEXT)
            for _ in range(25):
                step = rng.choice(["label", "label", "undo", "redo", "type"])
                if step == "label":
                    number = rng.choice([1, 2, 3])
                    start = rng.randrange(4)
                    marks = ((start, start + 1, kind),) if rng.random() < 0.8 else ()
                    if marks != now[number]:
                        done.append((number, now[number], marks))
                        undone.clear()
                    label(http, number, *marks)
                    now[number] = marks
                elif step == "type":
                    colour = rng.randrange(8)
                    http.patch(f"/api/types/{kind}", json={"colour": colour})
                    if colour != now["colour"]:
                        done.append(("colour", now["colour"], colour))
                        undone.clear()
                        now["colour"] = colour
                else:
                    stack, other = (done, undone) if step == "undo" else (undone, done)
                    if not stack and step == "undo":
                        continue  # it would take back that the type was made
                    answer = http.post(f"/api/{step}", json={})
                    if not stack:
                        assert answer.status_code == 409
                        continue
                    number, before, after = change = stack.pop()
                    other.append(change)
                    now[number] = before if step == "undo" else after
                    if number == "colour":
                        assert answer.json()["sentence"] is None
                    else:
                        assert answer.json()["sentence"]["id"] == number
                assert http.get("/api/types").json()["types"][0]["colour"] == now["colour"]
                for number in (1, 2, 3):
                    marks = now[number]
                    spans = sentence(http, number)["spans"]
                    assert tuple((s["start"], s["end"], s["type"]) for s in spans) == marks


def test_an_undo_that_would_hit_another_change_is_refused(http):
    disease = add_type(http)
    add(http, TEXT)
    label(http, 1, (3, 4, disease))
    top = http.get("/api/status").json()["undo"]
    label(http, 2, (1, 2, disease))
    answer = http.post("/api/undo", json={"event": top["id"]})
    assert answer.status_code == 409
    assert answer.json()["undo"]["sentence"] == 2
    assert sentence(http, 1)["state"] == "labelled"


def test_the_history_of_a_sentence(http):
    disease = add_type(http)
    add(http, TEXT)
    label(http, 1, (3, 4, disease))
    label(http, 1, none=True)
    http.post("/api/undo", json={})
    events = http.get("/api/sentences/1/history").json()["events"]
    assert [event["kind"] for event in events] == ["undo", "label", "label"]
    assert [event["none"] for event in events] == [False, True, False]
    assert events[0]["spans"] == events[2]["spans"] != []
    assert 'label "asthma" Disease' in {event["what"] for event in events}


def test_nobody_changes_the_history(tmp_path):
    made = settings(tmp_path)
    with client(made) as http:
        add(http, TEXT)
    database = sqlite3.connect(made.project)
    for statement in ("UPDATE events SET kind = 'x'", "DELETE FROM events"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            database.execute(statement)
    database.close()


def test_a_removed_document_comes_back(http):
    disease = add_type(http)
    add(http, TEXT, "Another one.")
    label(http, 1, (3, 4, disease))
    assert http.delete("/api/documents/1").status_code == 200
    assert http.get("/api/documents/1").status_code == 404
    assert http.get("/api/sentences/1").status_code == 404
    assert http.get("/api/documents").json()["total"] == 1
    undone = http.post("/api/undo", json={}).json()
    assert (undone["document"], undone["sentence"]) == (1, None)
    assert http.get("/api/documents/1").json()["sentences"][0]["state"] == "labelled"
    http.post("/api/redo", json={})
    assert http.get("/api/documents").json()["total"] == 1


def test_types_have_keys_and_colours_of_their_own(http):
    made = [http.post("/api/types", json={"name": n}).json() for n in ("Drug", "Dose", "D")]
    assert [kind["key"] for kind in made] == ["d", "o", "1"]
    assert [kind["colour"] for kind in made] == [0, 1, 2]
    assert http.post("/api/types", json={"name": "Drug"}).status_code == 409
    assert http.post("/api/types", json={"name": "X", "key": "d"}).status_code == 409
    changed = http.patch(f"/api/types/{made[0]['id']}", json={"name": "Medicine", "key": "m"})
    assert (changed.json()["name"], changed.json()["key"]) == ("Medicine", "m")


def test_a_used_type_stays_and_an_undo_brings_one_back(http):
    disease = add_type(http)
    add(http, TEXT)
    label(http, 1, (3, 4, disease))
    assert http.delete(f"/api/types/{disease}").status_code == 409
    label(http, 1)
    assert http.delete(f"/api/types/{disease}").json()["types"] == []
    for labels in (0, 1):  # the type comes back first, then its label
        http.post("/api/undo", json={})
        assert [kind["spans"] for kind in http.get("/api/types").json()["types"]] == [labels]


def types_of(http):
    return {kind["name"]: kind["spans"] for kind in http.get("/api/types").json()["types"]}


def test_labels_are_counted_for_each_type(http):
    disease, device = add_type(http), add_type(http, "Device")
    add(http, TEXT)
    label(http, 1, (1, 2, device), (3, 4, disease))
    label(http, 2, (1, 2, device))
    label(http, 3, (1, 2, disease), partial=True)
    assert types_of(http) == {"Disease": 2, "Device": 2}


def test_a_type_goes_with_its_labels_and_an_undo_brings_both_back(http):
    disease, device = add_type(http), add_type(http, "Device")
    add(http, TEXT)
    label(http, 1, (1, 2, device), (3, 4, disease))
    label(http, 2, (1, 2, device), rejected=[{"start": 3, "end": 4, "type": disease}])
    label(http, 3, (1, 2, disease))
    before = [sentence(http, n) for n in (1, 2, 3)]
    since = http.get("/api/status").json()["event"]
    left = http.delete(f"/api/types/{disease}", params={"with_labels": True}).json()["types"]
    assert [kind["name"] for kind in left] == ["Device"]
    now = http.get("/api/status", params={"since": since}).json()
    assert now["types_changed"] and now["documents_changed"]
    assert now["undo"]["what"] == "delete the type Disease"
    assert (now["counts"]["labelled"], now["counts"]["mentions"]) == (2, 2)
    after = [sentence(http, n) for n in (1, 2, 3)]
    assert [len(one["spans"]) for one in after] == [1, 1, 0]
    assert (after[1]["rejected"], after[2]["state"]) == ([], "open")
    for step, wanted in (("undo", before), ("redo", after), ("undo", before)):
        http.post(f"/api/{step}", json={})
        for number, one in enumerate(wanted, 1):
            found = sentence(http, number)
            assert {**found, "version": 0} == {**one, "version": 0}
    assert types_of(http) == {"Disease": 2, "Device": 2}


def test_names_and_held_out_marks_are_undone(http):
    add(http, TEXT)
    http.patch("/api/documents/1", json={"name": "Renamed", "held_out": True})
    row = http.get("/api/documents", params={"query": "renamed"}).json()["documents"][0]
    assert row["held_out"]
    http.post("/api/undo", json={})
    row = http.get("/api/documents").json()["documents"][0]
    assert (row["name"], row["held_out"]) == ("document-1", False)
    assert http.get("/api/documents", params={"query": "renamed"}).json()["total"] == 0
    http.post("/api/redo", json={})
    assert http.get("/api/documents", params={"query": "renamed"}).json()["total"] == 1


def test_a_sentence_is_open_partly_reviewed_or_done(http):
    disease = add_type(http)
    add(http, TEXT)
    mark = {"start": 3, "end": 4, "type": disease}
    for body, state, counts in (
        ({"rejected": [mark]}, "partial", (3, 1, 0)),
        ({"spans": [mark], "partial": True}, "partial", (3, 1, 0)),
        ({"spans": [mark]}, "labelled", (2, 0, 1)),
        ({"spans": [mark], "partial": True}, "partial", (3, 1, 0)),
        ({"none": True, "partial": True}, "none", (2, 0, 0)),
        ({"partial": True}, "open", (3, 0, 0)),
    ):
        version = sentence(http, 1)["version"]
        found = http.put("/api/sentences/1", json={"version": version, **body}).json()
        now = http.get("/api/status").json()["counts"]
        assert found["state"] == state
        assert (now["open"], now["partial"], now["labelled"]) == counts
    for _ in range(3):
        http.post("/api/undo", json={})
    assert sentence(http, 1)["state"] == "labelled"
    http.post("/api/undo", json={})
    assert sentence(http, 1)["state"] == "partial"
    events = http.get("/api/sentences/1/history").json()["events"]
    assert "mark as done" in {event["what"] for event in events}


def test_status_names_what_others_changed(http):
    disease = add_type(http)
    add(http, TEXT)
    since = http.get("/api/status").json()["event"]
    label(http, 2, (1, 2, disease))
    found = http.get("/api/status", params={"since": since}).json()
    assert found["changed"] == [2]
    assert not found["documents_changed"] and not found["types_changed"]
    add(http, "More.")
    assert http.get("/api/status", params={"since": found["event"]}).json()["documents_changed"]
    assert found["counts"]["labelled"] == found["counts"]["mentions"] == 1
