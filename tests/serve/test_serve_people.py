"""Several annotators: who labelled what, reading alone, agreement, verdicts, their own undo."""

import random
from urllib.parse import quote

import pytest
from serve_bench import TEXT, add, add_type, client, sentence, settings, swept

sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")


def named(name):
    return {"x-annotator": quote(name)}


def seen(http, name, number):
    return http.get(f"/api/sentences/{number}", headers=named(name)).json()


def say(http, name, number, *marks, **more):
    """The annotator labels a sentence as they see it."""
    spans = [{"start": s, "end": e, "type": t} for s, e, t in marks]
    body = {"version": seen(http, name, number)["version"], "spans": spans, **more}
    answer = http.put(f"/api/sentences/{number}", json=body, headers=named(name))
    assert answer.status_code == 200, answer.text
    return answer.json()


def alone(http, whether=True):
    assert http.patch("/api/people", json={"alone": whether}).json()["alone"] == whether


def marks(shown):
    return [(s["start"], s["end"], s["type"]) for s in shown["spans"]]


def state(http, number):
    """What the project holds: who has read nothing sees no labels of their own."""
    alone(http, False)
    found = sentence(http, number)
    alone(http)
    return found["state"], marks(found)


@pytest.fixture
def two_types(http):
    add(http, TEXT)
    return add_type(http), add_type(http, "Device")


def test_events_and_sentences_say_who(http, two_types):
    disease, _ = two_types
    say(http, "Anna", 1, (3, 4, disease))
    assert sentence(http, 1)["readers"] == ["Anna"]
    say(http, "Bénédicte Ω", 1, (2, 4, disease))
    assert sentence(http, 1)["readers"] == ["Bénédicte Ω"]  # who was the last to change it
    events = http.get("/api/sentences/1/history").json()["events"]
    assert [event["by"] for event in events] == ["Bénédicte Ω", "Anna"]
    people = {one["name"]: one for one in http.get("/api/people").json()["people"]}
    assert (people["Anna"]["sentences"], people["Bénédicte Ω"]["mentions"]) == (0, 1)
    number = people["Anna"]["id"]
    answer = http.patch(f"/api/people/{number}", json={"name": "Ann"})
    assert "Ann" in {one["name"] for one in answer.json()["people"]}
    events = http.get("/api/sentences/1/history").json()["events"]
    assert events[-1]["by"] == "Ann"
    taken = http.patch(f"/api/people/{number}", json={"name": "me"})
    assert taken.status_code == 409
    odd = http.get("/api/people", headers={"x-annotator": quote("x" * 61)})
    assert (odd.status_code, "at most 60" in odd.json()["error"]) == (422, True)


def test_an_undo_is_of_ones_own_and_leaves_what_others_did(http, two_types):
    disease, device = two_types
    say(http, "Anna", 1, (3, 4, disease))
    say(http, "Ben", 1, (1, 2, device), (3, 4, disease))
    say(http, "Ben", 2, (1, 2, device))
    answer = http.post("/api/undo", json={}, headers=named("Anna"))
    assert answer.json()["event"]["by"] == "Anna"
    assert marks(sentence(http, 1)) == [(1, 2, device)]
    assert marks(sentence(http, 2)) == [(1, 2, device)]
    http.post("/api/redo", json={}, headers=named("Anna"))
    assert marks(sentence(http, 1)) == [(1, 2, device), (3, 4, disease)]
    for _ in range(2):
        http.post("/api/undo", json={}, headers=named("Ben"))
    assert (marks(sentence(http, 1)), marks(sentence(http, 2))) == ([(3, 4, disease)], [])
    assert http.post("/api/undo", json={}, headers=named("Ben")).status_code == 409


def test_an_undo_brings_back_nothing_that_would_overlap(http, two_types):
    disease, _ = two_types
    say(http, "Anna", 1, (3, 4, disease))
    say(http, "Anna", 1)
    say(http, "Ben", 1, (2, 5, disease))
    http.post("/api/undo", json={}, headers=named("Anna"))
    assert marks(sentence(http, 1)) == [(2, 5, disease)]


def test_readers_alone_see_their_own_labels(http, two_types):
    disease, device = two_types
    alone(http)
    say(http, "Anna", 1, (3, 4, disease))
    unread = seen(http, "Ben", 1)
    assert (unread["state"], unread["spans"], unread["readers"]) == ("open", [], ["Anna"])
    assert state(http, 1) == ("labelled", [(3, 4, disease)])
    say(http, "Ben", 1, (3, 4, disease), (1, 2, device))
    assert marks(seen(http, "Anna", 1)) == [(3, 4, disease)]
    # What both say is kept; as long as the rest is undecided, nothing learns from the sentence.
    assert state(http, 1) == ("partial", [(3, 4, disease)])
    http.post("/api/undo", json={}, headers=named("Ben"))
    assert seen(http, "Ben", 1)["state"] == "open"
    assert state(http, 1) == ("labelled", [(3, 4, disease)])
    filtered = {"filter": "unread"}
    assert http.get("/api/documents", params=filtered, headers=named("Anna")).json()["total"] == 1
    for number in (2, 3):
        say(http, "Anna", number, none=True)
    assert http.get("/api/documents", params=filtered, headers=named("Anna")).json()["total"] == 0
    assert http.get("/api/documents", params=filtered, headers=named("Ben")).json()["total"] == 1


def test_of_two_tabs_of_one_reader_the_second_is_told(http, two_types):
    disease, _ = two_types
    alone(http)
    say(http, "Anna", 1, (3, 4, disease))
    say(http, "Ben", 1)  # another reader's change is none of Anna's
    again = {"version": 0, "spans": []}
    answer = http.put("/api/sentences/1", json=again, headers=named("Anna"))
    assert answer.status_code == 409
    assert marks(answer.json()["sentence"]) == [(3, 4, disease)]


def test_differences_are_decided_one_at_a_time(http, two_types):
    disease, device = two_types
    alone(http)
    say(http, "Anna", 1, (3, 4, disease), (1, 2, device))
    say(http, "Ben", 1, (2, 4, disease))
    say(http, "Anna", 2, (1, 2, device))
    say(http, "Ben", 2, none=True)
    found = http.get("/api/differences").json()
    assert found["total"] == 3
    first = found["difference"]
    assert (first["sentence"]["id"], marks({"spans": first["marks"]})) == (1, [(1, 2, device)])
    assert [(r["annotator"], len(r["spans"])) for r in first["readings"]] == [
        ("Anna", 1),
        ("Ben", 0),
    ]
    decide = {"marks": first["marks"], "wanted": first["marks"]}
    found = http.post("/api/differences/1", json=decide, headers=named("Cora")).json()
    second = found["difference"]
    assert marks(second["sentence"]) == [(1, 2, device)]
    assert (found["total"], len(second["marks"])) == (2, 2)
    assert state(http, 1)[0] == "partial"
    both = http.post(
        "/api/differences/1", json={"marks": second["marks"], "wanted": second["marks"]}
    )
    assert (both.status_code, "overlap" in both.json()["error"]) == (422, True)
    bens = second["readings"][1]["spans"]
    http.post("/api/differences/1", json={"marks": second["marks"], "wanted": bens})
    assert state(http, 1) == ("labelled", [(1, 2, device), (2, 4, disease)])
    last = http.get("/api/differences").json()
    assert (last["total"], last["difference"]["sentence"]["id"]) == (1, 2)
    neither = {"marks": last["difference"]["marks"]}
    assert http.post("/api/differences/2", json=neither).json()["total"] == 0
    assert state(http, 2) == ("none", [])
    assert http.post("/api/differences/2", json=neither).status_code == 409
    events = http.get("/api/sentences/1/history").json()["events"]
    assert events[1]["by"] == "Cora" and "decide on" in events[1]["what"]
    http.post("/api/undo", json={}, headers=named("Cora"))
    assert http.get("/api/differences").json()["total"] == 1
    assert state(http, 1) == ("partial", [(2, 4, disease)])


def test_labels_set_together_decide_what_readers_differed_on(http, two_types):
    disease, device = two_types
    alone(http)
    say(http, "Anna", 1, (3, 4, disease))
    say(http, "Ben", 1, (1, 2, device))
    alone(http, False)
    say(http, "Cora", 1, (2, 4, disease))
    assert http.get("/api/differences").json()["total"] == 0
    assert http.get("/api/people").json()["agreement"][0]["f1"] == 0  # the readings stay
    alone(http)
    say(http, "Ben", 1, (1, 2, device), (3, 4, disease))
    assert state(http, 1)[1] == [(2, 4, disease)]


def test_agreement_is_that_of_a_second_library(http, two_types):
    disease, device = two_types
    draw = random.Random(5)
    add(http, *["One two three four five. Six seven eight nine ten eleven."] * 20)
    alone(http)
    labels = {"Anna": {}, "Ben": {}}
    lengths = {}
    for number in range(4, 44):
        tokens = len(seen(http, "Anna", number)["tokens"])
        lengths[number] = tokens
        truth = [(draw.randrange(tokens), t) for t in (disease, device) if draw.random() < 0.6]
        for name, own in labels.items():
            if name == "Ben" and number > 38:
                continue  # what only one has read does not count
            given = {(at, min(tokens, at + draw.choice((1, 1, 2))), t) for at, t in truth}
            own[number] = {mark for mark in given if draw.random() < 0.8}
            say(http, name, number, *own[number], none=not own[number])
    (found,) = http.get("/api/people").json()["agreement"]
    both = sorted(labels["Ben"])
    assert (found["one"], found["other"], found["sentences"]) == ("Anna", "Ben", len(both))
    for types, part in (
        ({disease}, found["types"][0]),
        ({device}, found["types"][1]),
        ({disease, device}, found),
    ):
        sides = [
            {(n, *mark) for n in both for mark in own[n] if mark[2] in types}
            for own in labels.values()
        ]
        precision = len(sides[0] & sides[1]) / len(sides[0])
        recall = len(sides[0] & sides[1]) / len(sides[1])
        assert part["f1"] == pytest.approx(2 * precision * recall / (precision + recall))
        tokens = [
            [
                "+".join(sorted(str(t) for n, s, e, t in side if n == number and s <= at < e))
                for number in both
                for at in range(lengths[number])
            ]
            for side in sides
        ]
        assert 0 < part["kappa"] < 1
        assert part["kappa"] == pytest.approx(sklearn.cohen_kappa_score(*tokens))


def test_suggestions_are_those_a_reader_has_not_answered(http, two_types):
    disease, _ = two_types
    swept(http)
    alone(http)
    say(http, "Anna", 1, (3, 4, disease))
    mine, theirs = seen(http, "Anna", 1), seen(http, "Ben", 1)
    assert (mine["suggested"], mine["disagrees"]) == (False, False)
    assert theirs["suggested"]
    assert say(http, "Ben", 1, none=True)["disagrees"]


def test_the_door_asks_for_a_name_where_others_can_come_in(tmp_path):
    with client(settings(tmp_path)) as http:
        assert http.get("/api/project").json()["asks_name"] is False
        assert http.get("/api/project").json()["me"] == "me"
    with client(settings(tmp_path), token="secret") as http:
        headers = {"authorization": "Bearer secret", **named("Anna")}
        found = http.get("/api/project", headers=headers).json()
        assert (found["asks_name"], found["me"]) == (True, "Anna")


def test_a_deleted_type_leaves_the_readings_and_comes_back(http, two_types):
    disease, device = two_types
    alone(http)
    say(http, "Anna", 1, (3, 4, disease))
    say(http, "Ben", 1, (3, 4, disease), (1, 2, device))
    http.delete(f"/api/types/{device}", params={"with_labels": True})
    assert http.get("/api/differences").json()["total"] == 0
    assert marks(seen(http, "Ben", 1)) == [(3, 4, disease)]
    http.post("/api/undo", json={})
    assert http.get("/api/differences").json()["total"] == 1
    assert marks(seen(http, "Ben", 1)) == [(1, 2, device), (3, 4, disease)]
