"""The command itself, and what is left when it is killed."""

import io
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zipfile
from contextlib import closing, contextmanager
from http.client import HTTPException
from pathlib import Path

import pytest
import tiny

from hardner.cli.serve import serve_command as command
from hardner.errors import HardnerError
from hardner.model.describe import save_model
from hardner.model.encoders import WordEncoder
from hardner.model.tagger import Tagger
from hardner.schemes import TagSet
from hardner.serve.database import APPLICATION_ID, ProjectDatabase
from hardner.serve.server import run_server
from hardner.serve.workbench import WorkbenchSettings
from hardner.tag.guidelines import load

TRAIN = tiny.ROOT / "Disease" / "train.tsv"
ROWS = (
    ("The stent was placed .", 1),
    ("We used a stent today .", 3),
    ("A catheter was used .", 1),
    ("They placed the catheter .", 3),
    ("The patient was well .", None),
    ("A stent was used .", 1),
)
CONLL = "\n\n".join(
    "\n".join(f"{word}\t{'B-Device' if n == at else 'O'}" for n, word in enumerate(row.split()))
    for row, at in ROWS
)
PATIENCE = 180.0
"""Seconds that a busy machine may take to adapt."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A network that knows the words of the example and nothing about them."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    words = tuple(sorted({word for row, _ in ROWS for word in row.split()}))
    encoder = WordEncoder(words, 24, train_words=True, cell="gru", hidden=16)
    network = Tagger(encoder, (TagSet("Gene", ("Gene",), "IOB2"),), "softmax", {})
    save_model(folder, network, network.init(0))
    return folder


class Served:
    """A server in a process of its own."""

    def __init__(self, project: Path, *options: str) -> None:
        command = [sys.executable, "-m", "hardner", "serve", str(project), "--no-browser"]
        self.process = subprocess.Popen(
            [*command, "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdout
        self.address = self.process.stdout.readline().decode().strip()

    def ask(self, method: str, path: str, body=None, raw: bytes | None = None):
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        kind = "application/octet-stream" if raw is not None else "application/json"
        request = urllib.request.Request(
            self.address.rstrip("/") + path, data, {"content-type": kind}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                held = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                held = error.read()
        return held if held[:2] == b"PK" else json.loads(held)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> int:
        self.process.terminate()
        _, errors = self.process.communicate(timeout=20)
        assert b"Traceback" not in errors, errors.decode()
        return self.process.returncode


@contextmanager
def serving(project: Path, model: Path, *options: str):
    server = Served(project, "--model", str(model), *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()


def children(folder: Path) -> list[int]:
    """The processes that adapt and were started by this test's server."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            line = (entry.parent / "cmdline").read_bytes()
            if b"hardner.serve.job" in line and str(folder).encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def waited(check, seconds=PATIENCE):
    ends = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < ends, "waited too long"
        time.sleep(0.05)
    return found


def test_from_an_upload_to_a_model_that_can_be_loaded(tmp_path, model):
    project = tmp_path / "p.hardner"
    with serving(project, model) as server:
        added = server.ask("POST", "/api/uploads?name=t.tsv", raw=CONLL.encode())
        assert added["labelled"] == added["sentences"] == len(ROWS)
        more = [{"text": "The patient had a stent. Then a catheter was used today."}]
        server.ask("POST", "/api/documents", {"documents": more})
        server.ask("POST", "/api/adapt", {"force": True})

        def done():
            run = server.ask("GET", "/api/runs/1")
            return run if run["state"] != "running" else None

        run = waited(done)
        assert run["state"] == "done", run["message"]
        assert 0 <= run["result"]["low"] <= run["result"]["f1"] <= run["result"]["high"] <= 1
        tagged = waited(
            lambda: (
                (answer := server.ask("POST", "/api/tag", {"texts": ["A stent was placed ."]}))[
                    "model"
                ]
                == run["model"]
                and answer
            )
        )
        assert [e["text"] for e in tagged["results"][0]["entities"]] == ["stent"]
        offered = server.ask("POST", "/api/suggest", {"n": 5})["suggestions"]
        assert {one["sentence"]["state"] for one in offered} <= {"open"}
        archive = zipfile.ZipFile(io.BytesIO(server.ask("GET", f"/api/models/{run['model']}/zip")))
        archive.extractall(tmp_path / "taken")
        assert server.end() == 0
    (folder,) = (tmp_path / "taken").iterdir()
    mine = load(folder)
    assert mine.labels == tuple(run["types"])
    assert [path.name for path in tmp_path.glob("p.hardner*")] == ["p.hardner"]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_killed_while_adapting(tmp_path, model, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    project = tmp_path / "p.hardner"
    with serving(project, model) as server:
        server.ask("POST", "/api/uploads?name=t.tsv", raw=TRAIN.read_bytes())
        server.ask("POST", "/api/adapt", {})
        waited(lambda: children(tmp_path))
        server.kill()
    waited(lambda: not children(tmp_path), 20)
    waited(lambda: not list(tmp_path.glob("hardner-adapt-*")), 5)
    with serving(project, model) as server:
        run = server.ask("GET", "/api/runs/1")
        assert (run["state"], run["model"]) == ("interrupted", None)
        assert server.ask("GET", "/api/status")["counts"]["labelled"] > 0
        assert server.ask("POST", "/api/adapt", {})["state"] == "running"
        (child,) = waited(lambda: children(tmp_path))
        os.kill(child, signal.SIGKILL)
        failed = waited(
            lambda: (run := server.ask("GET", "/api/runs/2"))["state"] != "running" and run
        )
        assert failed["state"] == "failed"


def test_killed_while_saving(tmp_path, model):
    """Whatever was answered is there, and each sentence is as one of the two requests left it."""
    project = tmp_path / "p.hardner"
    rng = random.Random(1)
    text = " ".join(f"Sentence number {n} has words." for n in range(20))
    kept: dict[int, tuple[int, int]] = {}
    asked: dict[int, tuple[int, int]] = {}
    for session in range(3):
        with serving(project, model) as server:
            if session == 0:
                server.ask("POST", "/api/types", {"name": "Thing"})
                server.ask("POST", "/api/documents", {"documents": [{"text": text}]})
            held = server.ask("GET", "/api/documents/1?limit=1000")["sentences"]
            for one in held:
                number = one["id"]
                start = one["spans"][0]["start"] if one["spans"] else -1
                now = (one["version"], start)
                if number in kept:
                    assert now in (kept[number], asked[number])
                kept[number] = asked[number] = now
            threading.Timer(rng.uniform(0.1, 0.5), server.process.kill).start()
            try:
                while True:
                    number = rng.choice(list(kept))
                    version, start = kept[number]
                    start = (start + 1) % 4
                    asked[number] = (version + 1, start)
                    spans = [{"start": start, "end": start + 1, "type": 1}]
                    body = {"version": version, "spans": spans}
                    answer = server.ask("PUT", f"/api/sentences/{number}", body)
                    kept[number] = (answer["version"], start)
            except (OSError, HTTPException):  # perhaps in the middle of an answer
                pass
            server.process.communicate()
    database = sqlite3.connect(project)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    database.close()


def test_what_cannot_be_opened_is_one_line(tmp_path):
    (tmp_path / "text").write_text("not a project " * 100)
    with closing(sqlite3.connect(tmp_path / "other")) as other:
        other.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    with closing(sqlite3.connect(tmp_path / "newer")) as newer:
        newer.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 99")
    with closing(ProjectDatabase(tmp_path / "held")):
        for name, says in (
            ("text", "not a project"),
            ("other", "not a project"),
            ("newer", "another version"),
            ("held", "open in another"),
            ("no/where", "cannot be opened"),
        ):
            with pytest.raises(HardnerError, match=says) as refused:
                run_server(WorkbenchSettings(tmp_path / name), "127.0.0.1", 0, print)
            assert "\n" not in str(refused.value)
    ProjectDatabase(tmp_path / "held").close()
    with pytest.raises(HardnerError, match="cannot listen"):
        run_server(WorkbenchSettings(tmp_path / "new"), "nowhere.invalid", 0, print)
    with pytest.raises(HardnerError, match="no such model folder"):
        command(None, tmp_path / "new", model=[str(tmp_path / "missing")])
    assert not (tmp_path / "new").exists()


def test_another_address_comes_with_a_token(tmp_path, model):
    tokens = []
    for _ in range(2):  # a page that is open goes on after a restart
        with serving(tmp_path / "p.hardner", model, "--host", "0.0.0.0") as server:
            address, _, token = server.address.partition("?token=")
            assert len(token) > 20
            tokens.append(token)
            # Not an address that only this machine can open.
            assert not {"//127.", "//0.0.0.0"} & {address[5:11], address[5:14]}
            server.address = address
            assert "token" in server.ask("GET", "/api/status")["error"]
    assert tokens[0] == tokens[1]
    kept = tmp_path / "p.hardner-token"
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == (tokens[0], 0o600)
    kept.write_text("")  # as a crash may leave it: never a token that all know
    with serving(tmp_path / "p.hardner", model, "--host", "0.0.0.0") as server:
        assert len(server.address.partition("?token=")[2]) > 20
