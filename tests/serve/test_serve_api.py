"""The tagging server: what it answers, what it refuses, and how it ends."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from serve_bench import BASE, Words, until
from starlette.testclient import TestClient
from tag import small_models

from hardner.cli.serve import _models
from hardner.errors import HardnerError
from hardner.serve.api import API_LIMITS, TaggingServer, create_api, create_api_routes
from hardner.serve.api_schema import TagRequest
from hardner.serve.fast_form import FastForm, load_fast_form
from hardner.serve.metrics import Metrics

TEXTS = ["The patient had asthma.", "A fever, then asthma again.", "Nothing."]


class Labelled(Words):
    """As much of a tagger as the server asks for."""

    def pipe(self, texts, min_score=0.0):
        return super().pipe(texts)

    def least_scores(self, min_score=None):
        return dict.fromkeys(self.labels, min_score or 0.0)

    def check_labels(self, labels):
        if unknown := set(labels or ()) - set(self.labels):
            raise HardnerError(f"the model has no label {unknown.pop()!r}")


def load(folder, *, exact):
    """Models that need no network; one called `drugs` finds others."""
    if folder is not None and folder.name == "drugs":
        return FastForm(Labelled("Drug", ("aspirin",)), "fake", "for tests")
    return FastForm(Labelled(), "fake", "for tests")


@contextmanager
def client(server: TaggingServer, **options) -> Iterator[TestClient]:
    with closing(server), TestClient(create_api(server, **options), BASE) as made:
        until(lambda: made.get("/health", headers={"host": "localhost"}).status_code == 200)
        yield made


@pytest.fixture
def api() -> Iterator[TestClient]:
    models = {"bundled": None, "drugs": Path("drugs")}
    with client(TaggingServer(models, load=load)) as made:
        yield made


def found(answer) -> list[list[tuple[int, int, str]]]:
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    return [[(e["start"], e["end"], e["label"]) for e in one["entities"]] for one in results]


def test_one_text_or_several(api: TestClient) -> None:
    one = api.post("/tag", json={"text": TEXTS[1]})
    assert found(one) == [[(2, 7, "Disease"), (14, 20, "Disease")]]
    assert one.json() == {
        "model": "bundled",
        "results": [
            {
                "entities": [
                    {"start": 2, "end": 7, "label": "Disease", "text": "fever", "score": 0.9},
                    {"start": 14, "end": 20, "label": "Disease", "text": "asthma", "score": 0.9},
                ]
            }
        ],
    }
    several = found(api.post("/tag", json={"texts": TEXTS}))
    assert [len(entities) for entities in several] == [1, 2, 0]
    assert found(api.post("/tag", json={"texts": []})) == []
    assert found(api.post("/tag", json={"texts": TEXTS, "min_score": 0.95})) == [[], [], []]


def test_models_by_name(api: TestClient) -> None:
    listed = api.get("/models").json()["models"]
    assert [(one["name"], one["labels"], one["ready"]) for one in listed] == [
        ("bundled", ["Disease"], True),
        ("drugs", ["Drug"], True),
    ]
    body = {"text": "aspirin for asthma"}
    assert found(api.post("/tag", json=body)) == [[(12, 18, "Disease")]]
    assert found(api.post("/tag", json=body | {"model": "drugs"})) == [[(0, 7, "Drug")]]
    answer = api.post("/tag", json=body | {"model": "genes"})
    assert (answer.status_code, answer.json()) == (404, {"error": "there is no model 'genes'"})


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 422, "give either text or texts"),
        ({"text": "a", "texts": ["b"]}, 422, "give either text or texts"),
        ({"text": "a", "other": 1}, 422, "other"),
        ({"text": "a", "labels": ["Gene"]}, 422, "no label 'Gene'"),
        ({"text": "a", "min_score": 5}, 422, "min_score"),
        ({"text": 5}, 422, "text"),
        ({"text": "a\ud800"}, 422, "surrogate"),
        ({"texts": ["a"] * 1_001}, 422, "texts"),
        ({"text": "x" * 200_001}, 413, "200,000 characters"),
    ],
)
def test_what_cannot_be_done_is_one_line(api, body, status: int, said: str) -> None:
    content = json.dumps(body).encode()
    answer = api.post("/tag", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert said in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_bodies_that_are_no_requests_are_refused(api: TestClient) -> None:
    assert api.get("/nothing").status_code == api.get("/").status_code == 404
    assert api.get("/tag").status_code == 405
    kind = {"content-type": "application/json"}
    assert api.post("/tag", content=b"{", headers=kind).status_code == 422
    assert api.post("/tag", content=b"x" * (API_LIMITS.json_bytes + 1), headers=kind).is_error
    assert api.post("/tag", data={"text": "a"}).status_code == 415
    assert api.post("/tag", json={"text": "a"}, headers={"origin": "http://x.y"}).status_code == 403


def test_a_model_that_is_being_loaded() -> None:
    hold = threading.Event()

    def slowly(folder, *, exact):
        hold.wait(10)
        return load(folder, exact=exact)

    server = TaggingServer({"bundled": None}, load=slowly)
    with closing(server), TestClient(create_api(server), BASE) as http:
        assert http.get("/health").status_code == 503
        assert http.get("/health/live").status_code == 200
        answer = http.post("/tag", json={"text": "asthma"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert http.get("/models").json()["models"][0]["ready"] is False
        hold.set()
        until(lambda: http.get("/health").status_code == 200)
        assert found(http.post("/tag", json={"text": "asthma"})) == [[(0, 6, "Disease")]]


class Held(Labelled):
    """A model that tags once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may, self.began = threading.Event(), threading.Event()

    def pipe(self, texts, min_score=0.0):
        self.began.set()
        self.may.wait(30)
        return super().pipe(texts)


def test_a_full_queue_is_said_with_the_time_to_come_again() -> None:
    model = Held()
    server = TaggingServer(
        {"slow": None}, queued=50, load=lambda folder, exact: FastForm(model, "fake", "")
    )
    with client(server) as http, ThreadPoolExecutor(2) as pool:
        first = pool.submit(http.post, "/tag", json={"text": "asthma"})
        assert model.began.wait(10)
        second = pool.submit(http.post, "/tag", json={"text": "fever " * 8})
        until(lambda: server.models[0].thread.waiting[0] == 1)
        assert 'hardner_queue_requests{model="slow"} 1\n' in http.get("/metrics").text
        assert 'hardner_queue_characters{model="slow"} 48\n' in http.get("/metrics").text
        refused = http.post("/tag", json={"text": "asthma"})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        model.may.set()
        assert [len(found(one.result())[0]) for one in (first, second)] == [1, 8]


def test_only_probes_need_no_token() -> None:
    server = TaggingServer({"bundled": None}, load=load)
    with client(server, hosts=None, token="a-secret") as http:
        for path in ("/models", "/metrics", "/docs", "/openapi.json"):
            assert http.get(path).status_code == 401, path
            assert http.get(path, headers={"authorization": "Bearer guess"}).status_code == 401
            assert http.get(path, headers={"authorization": "Bearer a-secret"}).status_code == 200
        assert http.get("/health").status_code == http.get("/health/live").status_code == 200
        own = {"authorization": "Bearer a-secret", "host": "tagger.internal:8000"}
        assert found(http.post("/tag", json={"text": "fever"}, headers=own)) == [
            [(0, 5, "Disease")]
        ]


def test_without_a_token_only_this_machine_is_answered(api: TestClient) -> None:
    assert api.get("/health", headers={"host": "evil.example"}).status_code == 400


SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)+)\})? ([0-9.e+-]+|\+Inf)')


def samples(text: str) -> dict[tuple[str, str], float]:
    """As Prometheus reads them, every line of which is a comment or a sample."""
    rows = [line for line in text.splitlines() if not line.startswith("# ")]
    matches = [SAMPLE.fullmatch(row) for row in rows]
    assert all(matches), rows
    return {(m[1], m[2] or ""): float(m[3]) for m in matches}


def test_metrics_count_what_was_done(api: TestClient) -> None:
    for _ in range(3):
        api.post("/tag", json={"texts": TEXTS})
    api.post("/tag", json={})
    for number in range(20):
        api.get(f"/unknown/{number}")
    answer = api.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    seen = samples(answer.text)
    assert seen["hardner_requests_total", 'path="/tag",status="200"'] == 3
    assert seen["hardner_requests_total", 'path="/tag",status="422"'] == 1
    assert seen["hardner_requests_total", 'path="other",status="404"'] == 20
    assert seen["hardner_texts_total", 'model="bundled"'] == 9
    assert seen["hardner_words_total", 'model="bundled"'] == 3 * len(" ".join(TEXTS).split())
    assert seen["hardner_entities_total", 'model="bundled",label="Disease"'] == 9
    assert seen["hardner_tag_seconds_bucket", 'le="+Inf"'] == seen["hardner_tag_seconds_count", ""]
    assert seen["hardner_tag_seconds_count", ""] == 3


def test_histograms_are_cumulative_and_labels_escaped() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.005, 0.2, 0.3, 99.0):
        metrics.request("/tag", 200, seconds)
    metrics.tagged('a "b"\\c\n', ["two words"], ["X"])
    text = metrics.render({})
    seen = samples(text)
    rows = [n for (name, _), n in seen.items() if name == "hardner_tag_seconds_bucket"]
    assert rows == [2, 2, 2, 2, 2, 3, 4, 4, 4, 4, 4, 5]
    assert seen["hardner_tag_seconds_sum", ""] == pytest.approx(99.506)
    assert 'hardner_words_total{model="a \\"b\\"\\\\c\\n"} 2\n' in text
    heads = re.findall(r"# TYPE (\w+) (\w+)", text)
    assert len(dict(heads)) == len(heads) == 8


def test_the_description_has_examples_that_can_be_sent(api: TestClient) -> None:
    described = api.get("/openapi.json").json()
    assert {*described["paths"]} == {"/tag", "/models", "/health", "/health/live", "/metrics"}
    examples = described["components"]["schemas"]["TagRequest"]["examples"]
    for example in examples:
        TagRequest(**example)
        assert api.post("/tag", json=example).status_code == 200
    answer = described["components"]["schemas"]["TagAnswer"]["examples"][0]
    (entity,) = answer["results"][0]["entities"]
    assert examples[0]["text"][entity["start"] : entity["end"]] == entity["text"]
    assert "POST" in api.get("/docs").text
    assert api.get("/static/docs.css").status_code == 200
    assert described == create_api_routes(TaggingServer({}, load=load)).openapi()


def test_clients_get_what_the_tagger_says(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from hardner import OnnxPredictor
    from hardner.export.onnx import to_onnx

    folder = tmp_path / "model"
    model = small_models.predictor("transformer")
    to_onnx(model.with_thresholds({model.labels[0]: 0.4})).save(folder)
    first, *others = small_models.predictor("transformer").labels
    tagger = OnnxPredictor.load(folder)
    assert tagger.thresholds == {first: 0.4, **dict.fromkeys(others, 0.0)}
    words = ["Aspirin", "worsens", "asthma", "in", "mice", ".", "p53", "BRCA1"]
    texts = [" ".join(words[(n * i) % 8] for i in range(n % 60)) for n in range(120)]
    texts.append(" ".join(words * 200))
    wish = {"labels": tagger.labels[:1], "min_score": 0.3}
    with client(TaggingServer({"mine": folder})) as http, ThreadPoolExecutor(16) as pool:
        assert http.get("/models").json()["models"][0]["form"] == "onnx"

        def ask(text: str, **more) -> list[tuple[int, int, str, float]]:
            entities = http.post("/tag", json={"text": text, **more}).json()["results"][0]
            return [(e["start"], e["end"], e["label"], e["score"]) for e in entities["entities"]]

        every = list(pool.map(ask, texts))
        some = list(pool.map(lambda text: ask(text, **wish), texts))
    assert sum(map(len, some)) > 20
    for answers, more in ((every, {}), (some, wish)):
        expected = [tagger(text, **more) for text in texts]
        assert answers == [[(e.start, e.end, e.label, e.score) for e in own] for own in expected]


def test_a_model_is_served_in_8_bits_where_that_is_the_same(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    form = load_fast_form(None)
    assert form.form == "onnx int8"
    assert "F1 1.000 ->" in form.note
    assert {e.label for e in form.tagger("Aspirin may worsen asthma.")} == {"Chemical", "Disease"}
    slow = load_fast_form(small_models.folder("bilstm"))
    assert slow.form == "torch"
    assert slow.note.startswith("not in 8 bits: ") and "cannot be written as ONNX" in slow.note
    assert load_fast_form(small_models.folder("bilstm"), exact=True).note == "asked for as it is"


def test_models_are_named_by_their_folders(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert _models(["bundled"]) == {"bundled": None}
    given = [f"mine={tmp_path}/one", f"{tmp_path}/two"]
    assert _models(given) == {"mine": tmp_path / "one", "two": tmp_path / "two"}
    for wrong, said in [
        (given * 2, "two models are named mine"),
        ([f"{tmp_path}/three"], "no such model folder"),
        (["=x"], "needs a name"),
    ]:
        with pytest.raises(HardnerError, match=said):
            _models(wrong)


class Process:
    """`hardner serve --api` itself."""

    def __init__(self, *options: str, **environment: str) -> None:
        command = [sys.executable, "-m", "hardner", "serve", "--api", "--port", "0", *options]
        self.process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        )

    def __enter__(self) -> "Process":
        assert self.process.stderr
        self.address = self.process.stderr.readline().strip()
        return self

    def __exit__(self, *_) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def connection(self) -> http.client.HTTPConnection:
        port = int(self.address.strip("/").rpartition(":")[2])
        return http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body=None, **headers: str) -> tuple[int, dict]:
        with closing(self.connection()) as line:
            headers = {"content-type": "application/json", **headers}
            line.request(method, path, None if body is None else json.dumps(body), headers)
            answer = line.getresponse()
            return answer.status, json.loads(answer.read())


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from hardner.export.onnx import to_onnx

    made = tmp_path_factory.mktemp("api") / "model"
    to_onnx(replace(small_models.predictor("transformer"))).save(made)
    return made


def test_asked_to_end_it_finishes_and_takes_nothing_new(exported: Path) -> None:
    with Process("--model", f"tiny={exported}") as server:
        until(lambda: server.ask("GET", "/health")[0] == 200)
        answers: list[tuple[int, dict]] = []
        body = {"texts": ["Aspirin worsens asthma in mice. " * 60] * 40}
        client = threading.Thread(target=lambda: answers.append(server.ask("POST", "/tag", body)))
        client.start()

        until(lambda: _is_computing(server.process.pid))
        assert not answers
        server.process.send_signal(signal.SIGTERM)
        client.join(60)
        assert [status for status, _ in answers] == [200]
        assert server.process.wait(60) == 0
        with pytest.raises(ConnectionError):
            server.ask("GET", "/health")
        assert server.process.stderr and server.process.stderr.read() == ""


def _is_computing(pid: int, seconds: float = 0.2) -> bool:
    """Whether a process computes just now."""

    def used() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = used()
    time.sleep(seconds)
    return used() - before > 5


def test_a_server_for_other_machines_needs_a_token(exported: Path) -> None:
    with Process("--host", "0.0.0.0") as refused:
        assert refused.process.wait(60) == 1
        assert refused.address.endswith("it needs a token; set HARDNER_TOKEN")
    with Process("--host", "0.0.0.0", "--model", str(exported), HARDNER_TOKEN="s3cret") as server:
        until(lambda: server.ask("GET", "/health")[0] == 200)
        assert "s3cret" not in server.address
        assert server.ask("GET", "/models")[0] == 401
        status, found = server.ask("GET", "/models", authorization="Bearer s3cret")
        assert status == 200 and found["models"][0]["name"] == "model"


def test_a_model_that_cannot_be_read_ends_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with Process("--model", f"broken={tmp_path}") as server:
        assert server.process.wait(120) == 1
        assert server.process.stderr
        (said,) = server.process.stderr.read().splitlines()
        assert "damaged, not JSON" in said


def test_a_port_in_use_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with Process("--port", str(taken.getsockname()[1])) as server:
            assert server.process.wait(60) == 1
            assert "cannot listen at 127.0.0.1" in server.address
