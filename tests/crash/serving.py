"""The workbench, stopped while sentences are saved: what was answered is in the file afterwards."""

import json
import os
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from random import Random
from signal import SIGKILL, SIGTERM
from typing import Any

from crash.bench import Bench, Ended

PATIENCE = 120.0
"""Seconds that a busy machine may take to start."""
PROJECT = "p.hardner"
ARGUMENTS = ("serve", PROJECT, "--no-browser", "--port", "0", "--model", "model")
TEXT = " ".join(f"Sentence number {n} has words." for n in range(8))

Held = dict[int, tuple[int, int]]
"""By sentence, its version and where its mention starts."""


class Workbench:
    """A workbench in a process of its own."""

    def __init__(self, bench: Bench, name: str = "said") -> None:
        self.bench, self.name = bench, name
        self.pid = bench.begin(ARGUMENTS, name)
        said = bench.folder.with_name(f"{name}.out")
        end = time.monotonic() + PATIENCE
        while not (address := said.read_text().strip()) and self._runs():
            assert time.monotonic() < end, "the workbench did not start"
            time.sleep(0.01)
        self.address = address

    def _runs(self) -> bool:
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] != "Z"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What it answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.address}api/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def end(self, number: int = SIGTERM) -> Ended:
        """Stop it."""
        os.kill(self.pid, number)
        return self.bench.end(self.pid, self.name)


def stopped(bench: Bench, rng: Random, number: int) -> list[str]:
    """Stop it at any moment, and open the project again."""
    bench.reset()
    first = Workbench(bench)
    first.ask("POST", "types", {"name": "Thing"})
    first.ask("POST", "documents", {"documents": [{"text": TEXT}]})
    kept, asked = _held(first), dict[int, tuple[int, int]]()
    threading.Timer(rng.uniform(0, 0.3), os.kill, (first.pid, number)).start()
    _label(first, rng, kept, asked)
    ended = bench.end(first.pid)
    found = [] if ended.code in _codes(number) else [f"exit {ended.code}"]
    if "Traceback" in ended.err:
        found.append(f"traceback: {ended.err.splitlines()[-1]}")
    return found + _looked_at(bench, kept, asked)


def _codes(number: int) -> tuple[int, ...]:
    return (-SIGKILL,) if number == SIGKILL else (0, 128 + number)


def _held(workbench: Workbench) -> Held:
    sentences = workbench.ask("GET", "documents/1?limit=100")["sentences"]
    return {
        one["id"]: (one["version"], one["spans"][0]["start"] if one["spans"] else -1)
        for one in sentences
    }


def _label(workbench: Workbench, rng: Random, kept: Held, asked: Held) -> None:
    """Until there is no answer; ``kept`` is what was answered, ``asked`` what may be done."""
    try:
        while True:
            number = rng.choice(list(kept))
            version, start = kept[number]
            start = (start + 1) % 4
            asked[number] = (version + 1, start)
            body = {"version": version, "spans": [{"start": start, "end": start + 1, "type": 1}]}
            answer = workbench.ask("PUT", f"sentences/{number}", body)
            kept[number] = (answer["version"], start)
    except (OSError, HTTPException):  # perhaps in the middle of an answer
        pass


def _looked_at(bench: Bench, kept: Held, asked: Held) -> list[str]:
    """What is wrong with the project, and with what lies beside it once it is closed."""
    again = Workbench(bench)
    if not again.address:
        return [f"opened again: {bench.end(again.pid).err.strip()}"]
    now = _held(again)
    found = [
        f"lost: sentence {n} is {now.get(n)}, not {kept[n]}"
        for n in kept
        if now.get(n) not in (kept[n], asked.get(n))
    ]
    ended = again.end()
    found += [f"opened again: exit {ended.code}"] if ended.code not in (0, 143) else []
    with closing(sqlite3.connect(bench.folder / PROJECT)) as database:
        if database.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            found.append("the file is damaged")
    beside = {path.name for path in bench.folder.iterdir()} - {
        p.name for p in bench.inputs.iterdir()
    }
    return found + [f"left behind: {name}" for name in sorted(beside - {PROJECT})]


def two_workbenches(bench: Bench) -> list[str]:
    """The second is refused by a line."""
    bench.reset()
    first = Workbench(bench, "one")
    second = Workbench(bench, "two")
    ended = bench.end(second.pid, "two") if not second.address else second.end()
    found = [] if ended.code == 1 and ended.err.count("\n") == 1 else [f"exit {ended.code}"]
    ended = first.end()
    return found + ([f"the first ended with {ended.code}"] if ended.code not in (0, 143) else [])
