"""A workbench for tests: a model that needs no network, and a process that only seems to adapt."""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from starlette.testclient import TestClient

from hardner.serve.app import create_app
from hardner.serve.workbench import Workbench, WorkbenchSettings
from hardner.types import Entity, Span

BASE = "http://localhost"
TEXT = "The patient had asthma. A stent was placed in the artery. No fever was seen."


class Words:
    """A model that finds the words it was told of; longer sentences are harder for it."""

    def __init__(self, label="Disease", words=("asthma", "fever")):
        self.labels, self._words, self.texts = (label,), words, []

    def pipe(self, texts):
        texts = list(texts)
        self.texts.append(len(texts))
        pattern = "|".join(map(re.escape, self._words))
        for text in texts:
            found = re.finditer(pattern, text)
            yield [Entity(m.start(), m.end(), self.labels[0], m[0], 0.9) for m in found]

    def spans(self, sentences):
        return [
            [
                (Span(i, i + 1, self.labels[0]), 0.9)
                for i, token in enumerate(sentence.tokens)
                if token in self._words
            ]
            for sentence in sentences
        ]

    def hardness(self, sentences, *, labels=None):
        return [float(len(sentence)) for sentence in sentences]

    def save(self, path):
        Path(path).mkdir()
        Path(path, "weights.safetensors").write_bytes(b"weights")


def settings(folder: Path, **changes) -> WorkbenchSettings:
    made = WorkbenchSettings(folder / "project.hardner", model=folder, load=lambda path: Words())
    return replace(made, **changes)


@contextmanager
def client(of: WorkbenchSettings, **options) -> Iterator[TestClient]:
    with closing(Workbench(of)) as bench, TestClient(create_app(bench, **options), BASE) as made:
        yield made


def add(http: TestClient, *texts: str, **more) -> dict:
    body = {"documents": [{"text": text} for text in texts], **more}
    answer = http.post("/api/documents", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def add_type(http: TestClient, name: str = "Disease") -> int:
    answer = http.post("/api/types", json={"name": name})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def sentence(http: TestClient, number: int) -> dict:
    return http.get(f"/api/sentences/{number}").json()


def label(http: TestClient, number: int, *marks: tuple[int, int, int], **more) -> dict:
    version = sentence(http, number)["version"]
    spans = [{"start": s, "end": e, "type": t} for s, e, t in marks]
    body = {"version": version, "spans": spans, **more}
    answer = http.put(f"/api/sentences/{number}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def until(check, seconds: float = 120.0):
    """What the check gives once it is true."""
    ends = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < ends, "waited too long"
        time.sleep(0.02)
    return found


def swept(http: TestClient) -> None:
    def done():
        sweep = http.get("/api/status").json()["sweep"]
        return sweep["done"] == sweep["total"]

    until(done)


FAKE = """
import json, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
say = lambda **line: print(json.dumps(line), flush=True)
say(stage="adapting", done=1, total=4)
{}
(folder / "model").mkdir()
(folder / "model" / "weights.safetensors").write_bytes(b"weights of the model")
result = dict(f1=0.5, low=0.25, high=0.75, gain=0.1, types=[], notes=[], changes=None,
              held_out=None)
say(result=result, labels=["Disease"])
"""


def adapting(folder: Path, does: str = "") -> tuple[str, ...]:
    """A command that looks like the one that adapts, and does something on the way."""
    script = folder / "fake.py"
    script.write_text(FAKE.format(does))
    return sys.executable, str(script)
