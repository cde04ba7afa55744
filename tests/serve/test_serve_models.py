"""Adapting beside the server, the models that come of it, tagging, and what to label next."""

import io
import os
import signal
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import reduce
from types import SimpleNamespace

import pytest
from serve_bench import (
    TEXT,
    Words,
    adapting,
    add,
    add_type,
    client,
    label,
    settings,
    swept,
    until,
)

from hardner.adapt.forecast import Forecast, Interval
from hardner.adapt.report import AdaptationRefused, AdaptationReport, TypeReport
from hardner.adapt.workflow import AdaptationResult
from hardner.errors import HardnerError
from hardner.model.encoders import WordEncoder
from hardner.model.tagger import Tagger
from hardner.schemes import TagSet
from hardner.serve import job, queue
from hardner.serve import learning as learning_types
from hardner.serve.errors import Busy
from hardner.serve.model_thread import TaggingThread
from hardner.serve.models import MODELS_KEPT, add_first_model
from hardner.serve.runs import AdaptationOrder
from hardner.tag.heads import Heads, keep_labels
from hardner.tag.predictor import Predictor
from hardner.types import Sentence, Span


def labelled(http):
    disease = add_type(http)
    add(http, TEXT)
    label(http, 1, (3, 4, disease))


def ended(http, number=1):
    def check():
        run = http.get(f"/api/runs/{number}").json()
        return run if run["state"] != "running" else None

    return until(check)


def started(tmp_path, does=""):
    return client(settings(tmp_path, adapt=adapting(tmp_path, does)))


def test_a_run_leaves_a_model_that_can_be_taken_away(tmp_path):
    with started(tmp_path) as http:
        labelled(http)
        run = http.post("/api/adapt", json={})
        assert run.status_code == 202
        assert (run.json()["sentences"], run.json()["types"]) == (1, ["Disease"])
        done = ended(http)
        assert (done["state"], done["result"]["f1"]) == ("done", 0.5)
        listed = http.get("/api/models").json()
        assert listed["current"] == done["model"] == listed["models"][0]["id"]
        answer = http.get(f"/api/models/{done['model']}/zip")
        files = zipfile.ZipFile(io.BytesIO(answer.content))
        assert files.testzip() is None
        assert files.read("project-run-1/weights.safetensors") == b"weights of the model"
        assert http.get("/api/models/1/zip").status_code == 409
        point = http.get("/api/curve").json()["points"][0]
        assert (point["sentences"], point["f1"], point["low"]) == (1, 0.5, 0.25)
        page = http.get("/api/report").text
        assert "<svg" in page and "Disease" in page and "<script" not in page
    with started(tmp_path) as http:
        assert http.get("/api/models").json()["current"] == done["model"]
        assert http.get("/api/status").json()["run"]["state"] == "done"


def test_one_run_at_a_time_and_it_can_be_cancelled(tmp_path):
    with started(tmp_path, "time.sleep(60)") as http:
        labelled(http)
        http.post("/api/adapt", json={})
        until(lambda: http.get("/api/status").json()["run"]["done"] == 1)
        assert http.post("/api/adapt", json={}).status_code == 409
        label(http, 2, none=True)  # the page stays usable
        cancelled = http.post("/api/runs/1/cancel", json={})
        assert cancelled.json()["state"] == "cancelled"
        assert http.post("/api/runs/1/cancel", json={}).status_code == 409
        assert http.get("/api/models").json()["models"][0]["kind"] == "base"
        assert http.post("/api/adapt", json={}).status_code == 202


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("say(error='the sentences are odd'); sys.exit(1)", "the sentences are odd"),
        ("import os; os.kill(os.getpid(), 9)", "ended unexpectedly"),
        ("print('not JSON', flush=True)", "could not be read"),
        ("sys.exit(0)", "ended unexpectedly"),
    ],
)
def test_a_run_that_fails_says_why(tmp_path, does, says):
    with started(tmp_path, does) as http:
        labelled(http)
        http.post("/api/adapt", json={})
        run = ended(http)
        assert run["state"] == "failed"
        assert says in run["message"]
        assert run["model"] is None
        assert http.post("/api/adapt", json={}).status_code == 202


def test_a_server_that_ends_interrupts_its_run(tmp_path):
    note = tmp_path / "pid"
    does = f"import os; Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"
    with started(tmp_path, does) as http:
        labelled(http)
        http.post("/api/adapt", json={})
        pid = int(until(lambda: note.exists() and note.read_text()))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    with started(tmp_path) as http:
        assert http.get("/api/runs/1").json()["state"] == "interrupted"


def test_labels_are_needed(http):
    answer = http.post("/api/adapt", json={})
    assert (answer.status_code, "label at least one" in answer.json()["error"]) == (422, True)


def test_the_order_holds_labels_and_nothing_of_the_held_out_part(tmp_path):
    kept = tmp_path / "kept"
    does = f"import shutil; shutil.copytree(folder, {str(kept)!r})"
    with started(tmp_path, does) as http:
        labelled(http)
        add(http, "Another asthma.", held_out=True)
        label(http, 4, (1, 2, 1))
        http.post("/api/adapt", json={"keep": True})
        ended(http)
    order = AdaptationOrder.read(kept)
    assert [s.spans for s in order.labelled] == [(Span(3, 4, "Disease"),)]
    assert [s.tokens[1] for s in order.held_out] == ["asthma"]
    assert {s.id for s in order.unlabelled} == {"2", "3"}
    assert (order.keep, order.force, order.base) == (True, False, tmp_path)


def test_models_can_be_changed_and_let_go(tmp_path):
    with started(tmp_path) as http:
        labelled(http)
        for number in range(1, MODELS_KEPT + 2):
            http.post("/api/adapt", json={})
            assert ended(http, number)["state"] == "done"
        listed = http.get("/api/models").json()["models"]
        assert len(listed) == MODELS_KEPT + 1
        newest, older = listed[0]["id"], listed[1]["id"]
        assert http.delete(f"/api/models/{newest}").status_code == 409
        assert http.post(f"/api/models/{older}/use", json={}).json()["current"]
        assert http.delete(f"/api/models/{newest}").status_code == 200
        assert http.get(f"/api/models/{newest}/zip").status_code == 404
        assert len(http.get("/api/curve").json()["points"]) == MODELS_KEPT + 1
        assert http.delete("/api/models/1").status_code == 409
        swept(http)


def test_without_a_model_labels_can_still_be_made(tmp_path):
    def load(path):
        raise HardnerError("no model comes with this hardner; name a model folder")

    with client(settings(tmp_path, load=load)) as http:
        labelled(http)
        assert http.get("/api/documents/1").json()["sentences"][0]["predicted"] is None
        for route, body in (("tag", {"texts": ["x"]}), ("suggest", {})):
            answer = http.post(f"/api/{route}", json=body)
            assert (answer.status_code, "no model" in answer.json()["error"]) == (409, True)


def test_the_next_model_predicts_where_the_first_could_not_be_loaded(tmp_path):
    asked = []

    def load(path):
        asked.append(path)
        if len(asked) == 1:
            raise HardnerError("a damaged model")
        return Words()

    with client(settings(tmp_path, load=load, adapt=adapting(tmp_path))) as http:
        labelled(http)
        http.post("/api/adapt", json={})
        ended(http)
        swept(http)


def test_tagging_by_script(http):
    body = {"texts": ["😀 asthma and fever", ""], "min_score": 0.5}
    answer = http.post("/api/tag", json=body).json()
    first, second = answer["results"]
    assert [(e["start"], e["end"], e["text"]) for e in first["entities"]] == [
        (2, 8, "asthma"),
        (13, 18, "fever"),
    ]
    assert second["entities"] == []
    for wish in ({"min_score": 0.95}, {"labels": ["Gene"]}):
        assert http.post("/api/tag", json=body | wish).json()["results"][0]["entities"] == []
    assert http.post("/api/tag", json={"texts": ["x" * 200_001]}).status_code == 413


def test_texts_that_wait_are_tagged_together():
    model, worker = Words(), TaggingThread()
    hold = threading.Event()
    worker.use(1, lambda: hold.wait(10) and model)
    texts = [f"{'asthma ' * n}" for n in range(40)]
    answers = [worker.tag([text]) for text in texts]
    hold.set()
    counts = [len(answer.result(10)[1][0]) for answer in answers]
    worker.stop()
    assert counts == list(range(40))
    assert model.texts == [40]


def test_helpers_share_a_batch_fairly():
    model, worker = Words(), TaggingThread(helpers=2)
    texts = ["asthma " * n for n in (900, 1, 2, 800)]
    worker.use(1, lambda: model)
    _, found = worker.tag(texts).result(10)
    worker.stop()
    assert [len(entities) for entities in found] == [900, 1, 2, 800]
    assert model.texts == [2, 2]


def test_the_queue_is_bounded_and_says_when_to_come_again():
    worker = TaggingThread(queued=100)
    hold = threading.Event()
    worker.use(1, lambda: hold.wait(10) and Words())
    first = worker.tag(["x" * 500])  # one request may always wait
    with pytest.raises(Busy, match="too many texts") as raised:
        worker.tag(["x"])
    assert int(raised.value.headers["retry-after"]) >= 1
    assert worker.waiting == (1, 500)
    hold.set()
    assert first.result(10) == (1, [[]])
    worker.stop()


def test_each_of_many_clients_gets_its_own_answer(http):
    def one(n):
        answer = http.post("/api/tag", json={"texts": ["asthma " * n]})
        return len(answer.json()["results"][0]["entities"])

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(one, range(60))) == list(range(60))


class Offered:
    """As much of a suggestion as is looked at."""

    def __init__(self, sentence):
        self.sentence, mention = sentence, sentence.tokens[1]
        self.uncertain = ((Span(1, 2, "Disease"), 0.5),)
        self.hardness, self.reason = 1.0, f"unsure about {mention}"


def test_never_the_same_entity_twice_in_a_row():
    mentions = ["Asthma", "asthma", "asthma", "fever", "fever", "gout"]
    offered = [Offered(Sentence(("about", mention))) for mention in mentions]
    order = [one.sentence.tokens[1].lower() for one in queue.spread_mentions(offered, {"asthma"})]
    assert order == ["fever", "asthma", "fever", "asthma", "gout", "asthma"]
    assert queue.spread_mentions(offered[:3], {"asthma"}) == []


def test_what_to_label_next(http, monkeypatch):
    asked = {}

    def suggest(model, sentences, n, *, label, known):
        asked.update(ids=[s.id for s in sentences], known=[s.id for s in known], label=label)
        return [Offered(sentence) for sentence in sentences][:n]

    monkeypatch.setattr("hardner.tag.suggest.suggest_sentences", suggest)
    labelled(http)
    add(http, "A longer sentence is harder for this model than others are.", "Held out.")
    http.patch("/api/documents/3", json={"held_out": True})
    swept(http)
    found = http.post("/api/suggest", json={"n": 2, "skip": [2]}).json()["suggestions"]
    assert asked == {"ids": ["4", "3"], "known": ["1"], "label": ("Disease",)}
    assert [one["sentence"]["id"] for one in found] == [4, 3]
    assert found[0]["uncertain"][0]["type"] == 1
    body = {"n": 1, "texts": ["One. Two words."]}
    (offered,) = http.post("/api/suggest", json=body).json()["suggestions"]
    assert (offered["index"], offered["start"], offered["text"]) == (0, 0, "One.")
    assert offered["uncertain"][0]["text"] == "."


def offered(*doubts, hardness=1.0, id="1"):
    words = ["The", "big", "stent", "and", "the", "stent", "caused", "fever", "."]
    uncertain = tuple((Span(*span), score) for *span, score in doubts)
    sentence = Sentence(tuple(words), (), id)
    return SimpleNamespace(sentence=sentence, hardness=hardness, reason="", uncertain=uncertain)


def asked_next(http, monkeypatch, *suggestions):
    def suggest(model, sentences, n, *, label, known):
        return suggestions

    monkeypatch.setattr("hardner.tag.suggest.suggest_sentences", suggest)
    return http.post("/api/suggest", json={"n": 10}).json()["suggestions"]


def test_what_is_asked_is_in_doubt_of_a_type_of_the_project_and_asked_once(http, monkeypatch):
    device, _ = add_type(http, "Device"), add_type(http, "Symptom")
    add(http, "The big stent and the stent caused fever.")
    doubts = (
        (2, 3, "Device", 0.4),
        (5, 6, "Device", 0.3),  # the same words again
        (7, 8, "Disease", 0.5),  # not of the project
        (0, 1, "Symptom", 0.996),  # no doubt at all
    )
    (one,) = asked_next(http, monkeypatch, offered(*doubts))
    assert one["reason"] == "unsure about ‘stent’ (Device 40%)"
    wanted = {"start": 2, "end": 3, "label": "Device", "type": device, "score": 0.4}
    assert one["uncertain"] == [wanted]
    (one,) = asked_next(http, monkeypatch, offered((7, 8, "Disease", 0.5)))
    assert one["reason"] == "unsure about ‘fever’ (a mention 50%)"
    assert (one["uncertain"][0]["label"], one["uncertain"][0]["type"]) == (None, None)
    (one,) = asked_next(http, monkeypatch, offered((0, 1, "Symptom", 0.996)))
    assert (one["reason"], one["uncertain"]) == (
        "unsure about many words, a little about each",
        [],
    )


def test_a_doubt_of_another_type_may_be_one_of_the_only_type(http, monkeypatch):
    device = add_type(http, "Device")
    add(http, "The big stent and the stent caused fever.")
    (one,) = asked_next(http, monkeypatch, offered((2, 3, "Gene", 0.5)))
    assert (one["uncertain"][0]["label"], one["uncertain"][0]["type"]) == ("Device", device)


def test_the_hardest_come_first(http, monkeypatch):
    add_type(http, "Device")
    add(http, *["The big stent and the stent caused fever."] * 4)
    given = [
        offered((at, at + 1, "Device", 0.5), hardness=hardness, id=str(at))
        for at, hardness in ((1, 0.5), (2, 3.0), (3, 1.0), (4, 2.0))
    ]
    found = asked_next(http, monkeypatch, *given)
    assert [one["hardness"] for one in found] == [3.0, 2.0, 1.0, 0.5]


def test_changes_between_two_models():
    sentences = [Sentence(tuple("abcdefghijk"), id="7"), Sentence(tuple("xyz"), id="8")]
    before, after = Words("D"), Words("D")
    before.spans = lambda _: [
        [(Span(0, 1, "D"), 0.9), (Span(9, 10, "D"), 0.4)],
        [(Span(0, 1, "Other"), 1.0)],
    ]
    after.spans = lambda _: [[(Span(0, 1, "D"), 0.8)], [(Span(1, 3, "D"), 0.7)]]
    found = job.compare_models(before, after, sentences, {"D"}, lambda *_: None)
    assert (found["kept"], found["gained_total"], found["lost_total"]) == (1, 1, 1)
    assert found["gained"][0] | {"score": 0} == {
        "sentence": 8, "text": "y z", "label": "D", "score": 0, "before": "x", "after": "",
    }  # fmt: skip
    assert (found["lost"][0]["before"], found["lost"][0]["after"]) == ("d e f g h i", "k")
    assert job.compare_models(before, after, sentences, {"New"}, lambda *_: None) is None


def test_the_held_out_part_is_scored(tmp_path):
    made = Words(words=("asthma",))
    gold = [
        Sentence(("asthma", "fever"), (Span(1, 2, "Disease"),), "5"),
        Sentence(("asthma",), (Span(0, 1, "Disease"), Span(0, 1, "Other")), "6"),
    ]
    found = job.score_held_out(made, gold, ["Disease"])
    assert (found["precision"], found["recall"]) == (0.5, 0.5)
    assert {(m["kind"], m["sentence"]) for m in found["mistakes"]} == {
        ("missed", 5),
        ("spurious", 5),
    }
    assert job.score_held_out(made, [], ["Disease"]) is None


BASE = Tagger(
    WordEncoder(("a", "b", "c"), dimension=6, cell="gru", hidden=4),
    (TagSet("Disease", ("Disease",), "IOB2"), TagSet("Gene", ("Gene",), "IOB2")),
    "softmax",
)
BOTH = Sentence(("a", "b"), (Span(0, 1, "Disease"), Span(0, 2, "New")), "1")


def adapted(label, seed=1):
    """The base's network, fitted as adapting does: one head, and an encoder that has moved."""
    tagger = BASE.with_domains([TagSet(f"{label}+", (label,), "IOB2")])
    frozen = {n: value for n, value in BASE.init(0).items() if n.startswith("frozen")}
    return Predictor(tagger, tagger.init(seed) | frozen)


def learning(monkeypatch, folder, known=None, f1=0.5, wrong=(), **options):
    """Runs an order of two types; `known` is what the base does better as it is, by type."""
    said, base = [], Predictor(BASE, BASE.init(0))

    def adapt(model, sentences, labels, *, text, keep, force, on_progress, on_model):
        assert not text
        assert ([s.spans for s in sentences], labels) == ([BOTH.spans], ["Disease", "New"])
        on_progress(1, 2)
        rows, parts = [], [Heads.of(model)] if keep else []
        for kind in labels:
            own = (kind, known[kind]) if kind in (known or {}) else None
            gain, on_text = Interval(0.1, 0.0, 0.2), Interval(f1 / 2, 0.1, 0.9)
            expected = Forecast(Interval(f1, 0.3, 1.0), gain, 10, 0.3, on_text)
            row = TypeReport(kind, "learnt", 1, 3 if kind == "New" else 1, expected, own)
            if kind in wrong:
                outcome = "kept" if kind in model.labels else "left out"
                why = "learning diverged; try another --seed"
                row = replace(row, outcome=outcome, reason=why, expected=None)
            elif keep and kind in model.labels:
                row = TypeReport(kind, "kept", 1, 1)
            elif own and own[1] > f1 and not force:
                row = replace(row, outcome="kept", reason="better")
            rows.append(row)
            if row.outcome == "learnt":
                parts.append(Heads.of(adapted(kind)))
            elif row.outcome == "kept" and not keep:
                parts.append(Heads.of(keep_labels(model, [kind])))
        if not any(row.outcome == "learnt" for row in rows):
            refused = AdaptationRefused("nothing")
            refused.types = rows
            raise refused
        made = reduce(Heads.beside, parts).in_place_of(model)
        result = AdaptationResult(made, AdaptationReport(tuple(rows), 1, 1.0))
        on_model(result)
        return result

    monkeypatch.setattr(job, "Predictor", SimpleNamespace(load=lambda folder: base))
    monkeypatch.setattr(learning_types, "adapt_predictor", adapt)
    order = {"keep": False, "force": False, "base": None, "held_out": []} | options
    AdaptationOrder([BOTH], unlabelled=[], **order).write(folder)
    job.run_order(folder, said.append)
    return base, said, Predictor.load(folder / "model")


def found(model, kind):
    return [
        [(span, pytest.approx(score)) for span, score in spans if span.label == kind]
        for spans in model.spans([BOTH, Sentence(("c", "b", "a"))])
    ]


def test_several_types_are_learnt_and_put_together(tmp_path, monkeypatch):
    _, said, model = learning(monkeypatch, tmp_path, f1=0.5)
    assert {"stage": "adapting", "done": 1, "total": 2} in said
    result = said[-1]["result"]
    assert (result["f1"], result["text_f1"]) == (pytest.approx(0.5), pytest.approx(0.25))
    assert set(model.labels) == {"Disease", "New"}
    for kind in model.labels:
        assert found(model, kind) == found(adapted(kind), kind)


def test_the_first_model_is_handed_over_unless_it_is_worse(tmp_path, monkeypatch):
    (tmp_path / "better").mkdir()
    _, said, model = learning(monkeypatch, tmp_path / "better")
    place = said.index({"first": ["Disease", "New"]})
    assert 0 < place < len(said) - 1
    first = Predictor.load(tmp_path / "better" / "first")
    assert found(first, "New") == found(model, "New")

    worse = iter([{"f1": 0.4}, {"f1": 0.5}] * 2)
    monkeypatch.setattr(job, "score_held_out", lambda *_: next(worse))
    (tmp_path / "worse").mkdir()
    _, said, _ = learning(monkeypatch, tmp_path / "worse", held_out=[BOTH])
    assert not any("first" in line for line in said)
    assert not (tmp_path / "worse" / "first").exists()
    assert (said[-1]["result"]["held_out"], said[-1]["result"]["held_out_before"]) == (
        {"f1": 0.4},
        0.5,
    )


def test_a_type_that_the_model_knows_better_keeps_its_head(tmp_path, monkeypatch):
    base, said, model = learning(monkeypatch, tmp_path, known={"Disease": 0.9})
    types = {one["label"]: one for one in said[-1]["result"]["types"]}
    assert (types["Disease"]["kept"], types["New"]["kept"]) == (True, False)
    assert said[-1]["result"]["f1"] == pytest.approx((0.9 + 3 * 0.5) / 4)
    assert said[-1]["result"]["low"] is None
    (note,) = said[-1]["result"]["notes"]
    assert "does better as it is" in note and "--" not in note
    assert set(model.labels) == {"Disease", "New"}  # and no Gene, which nobody asked for
    assert found(model, "Disease") == found(base, "Disease")
    assert found(model, "New") == found(adapted("New"), "New")


def test_a_type_that_cannot_be_learnt_takes_nothing_from_the_others(tmp_path, monkeypatch):
    _, said, model = learning(monkeypatch, tmp_path, wrong=("New",))
    (note,) = said[-1]["result"]["notes"]
    assert note == "New could not be learnt: learning diverged; label a few more sentences."
    assert (model.labels, said[-1]["result"]["f1"]) == (("Disease",), pytest.approx(0.5))
    with pytest.raises(HardnerError, match="New could not be learnt"):
        learning(monkeypatch, tmp_path, wrong=("New", "Disease"), keep=True)
    base, said, model = learning(monkeypatch, tmp_path, wrong=("New", "Disease"))
    assert model.labels == ("Disease",) and found(model, "Disease") == found(base, "Disease")
    assert "the model's own stays" in said[-1]["result"]["notes"][0]


def test_what_was_to_be_kept_is_kept(tmp_path, monkeypatch):
    base, said, model = learning(monkeypatch, tmp_path, known={"Disease": 0.1}, keep=True)
    assert set(model.labels) == {"Disease", "Gene", "New"}
    assert found(model, "Disease") == found(base, "Disease")
    assert "was to keep" in said[-1]["result"]["notes"][0]


def test_force_adapts_what_is_better_as_it_is(tmp_path, monkeypatch):
    _, _, model = learning(monkeypatch, tmp_path, known={"Disease": 0.9}, force=True)
    assert found(model, "Disease") == found(adapted("Disease"), "Disease")


FIRST_COMES = """
(folder / "first").mkdir()
(folder / "first" / "weights.safetensors").write_bytes(b"weights of the first model")
say(first=["Disease"])
import time
while not Path({!r}).exists():
    time.sleep(0.02)
"""


@pytest.mark.parametrize("ending", ["done", "cancelled", "failed"])
def test_a_first_model_is_in_use_while_the_run_goes_on(tmp_path, ending):
    go_on = tmp_path / "go-on"
    fails = "say(error='no good'); sys.exit(1)" if ending == "failed" else ""
    with started(tmp_path, FIRST_COMES.format(str(go_on)) + fails) as http:
        labelled(http)
        swept(http)
        http.post("/api/adapt", json={})
        first = until(lambda: http.get("/api/runs/1").json()["model"])
        assert http.get("/api/runs/1").json()["state"] == "running"
        listed = http.get("/api/models").json()
        assert (listed["current"], listed["models"][0]["name"]) == (first, "run 1, first model")
        found = http.get("/api/documents/1").json()["sentences"]  # what is looked at is tagged
        until(lambda: http.get("/api/sentences/1").json()["predicted"])
        assert len(found) == 3
        if ending == "cancelled":
            http.post("/api/runs/1/cancel", json={})
        else:
            go_on.touch()
        assert ended(http)["state"] == ending
        listed = http.get("/api/models").json()
        names = [model["name"] for model in listed["models"] if model["kind"] == "adapted"]
        assert names == (["run 1"] if ending == "done" else [])
        assert (listed["current"] == 1) == (ending != "done")
        swept(http)


def test_a_first_model_of_a_server_that_died_is_let_go(tmp_path):
    with started(tmp_path) as http:
        labelled(http)
        database = http.app._app.state.bench.project
        with database.writing() as writer:
            writer.execute(
                "INSERT INTO runs (state, started, sentences, mentions, types) "
                "VALUES ('running', '', 1, 1, '[]')"
            )
            add_first_model(writer, ["Disease"], 1, tmp_path)
    with started(tmp_path) as http:
        assert http.get("/api/models").json()["current"] == 1
        assert http.get("/api/runs/1").json()["state"] == "interrupted"


@pytest.mark.parametrize(("before", "switched"), [(0.9, False), (0.5, True), (None, True)])
def test_a_model_that_is_worse_on_the_held_out_part_is_not_used(tmp_path, before, switched):
    held_out = {"sentences": 1, "precision": 0.7, "recall": 0.7, "f1": 0.7, "mistakes": []}
    wrapped = (
        "old = say\n"
        "def say(**line):\n"
        "    if 'result' in line:\n"
        f"        line['result'] |= dict(held_out={held_out!r}, held_out_before={before!r})\n"
        "    old(**line)"
    )
    with started(tmp_path, wrapped) as http:
        labelled(http)
        http.post("/api/adapt", json={})
        run = ended(http)
        assert run["result"]["held_out"]["f1"] == 0.7
        models = http.get("/api/models").json()
        assert (models["current"] == run["model"]) == switched
        assert run["model"] in {model["id"] for model in models["models"]}  # kept, to be tried


def test_what_is_held_out_is_not_counted_as_learnt_from(tmp_path):
    with started(tmp_path) as http:
        labelled(http)
        add(http, "Another asthma. And none.", held_out=True)
        label(http, 4, (1, 2, 1))
        counts = http.get("/api/status").json()["counts"]
        assert (counts["labelled"], counts["held_out_labelled"]) == (2, 1)
        assert (counts["mentions"], counts["held_out_mentions"]) == (2, 1)
        assert http.post("/api/adapt", json={}).json()["sentences"] == 1
        ended(http)
        assert http.get("/api/curve").json()["points"][0]["sentences"] == 1


def test_what_is_looked_at_is_tagged_before_all_else(tmp_path):
    order = []

    class Noting(Words):
        def spans(self, sentences):
            order.append([int(sentence.id) for sentence in sentences])
            return super().spans(sentences)

    gate = threading.Event()
    given = settings(tmp_path, load=lambda path: gate.wait(60) and Noting())
    with client(given) as http:
        add(http, *[TEXT] * 200)
        http.get("/api/documents/200")  # its sentences are the last ones
        gate.set()
        swept(http)
    assert 598 in order[0] + order[1] and len(order) > 10
    assert order[-1][0] < 598
