"""Fifty clients of ``hardner serve --api`` against `tagger.pipe` in one process on the same text.

    python benchmarks/api.py

The bundled model, served in 8 bits as by default, against `pipe` of the same 8-bit model. The two
take turns, ten seconds each, until the clients have asked for a minute, so that whatever else the
machine does meets both. Appends to benchmarks/results.jsonl. Fails on any error, where less than
70 % of the peer's words a second are reached, and where the server's memory grows by more than 20
MB once it is warm.
"""

import http.client
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles

from clients import CLIENTS, DEVICE, TEXTS, Seen, ask_for, megabytes, served
from record import record

ROUNDS, SECONDS = 6, 10.0
MOST_GROWTH, LEAST_SHARE = 20.0, 0.7
WORDS = sum(len(text.split()) for text in TEXTS) / len(TEXTS)
PEER = "pipe in 8 bits"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        int8 = str(Path(folder, "int8"))
        export = [sys.executable, "-m", "hardner", "export", "--onnx", int8, "--int8"]
        subprocess.run(export, check=True)
        context = multiprocessing.get_context("spawn")
        line, other = context.Pipe()
        context.Process(target=work, args=(int8, other), daemon=True).start()
        line.send(1.0)
        line.recv()
        seen, theirs, memory = Seen(), 0.0, list[float]()
        command = [sys.executable, "-m", "hardner", "serve", "--api", "--port", "0"]
        with served(command, lambda process: process.stderr) as (port, pid):
            while not is_ready(port):
                time.sleep(0.5)
            for _ in range(ROUNDS):
                ask_for(SECONDS, port, "/tag", seen)
                memory.append(megabytes(pid))
                line.send(SECONDS)
                theirs += line.recv() / ROUNDS
        line.send(None)
    grown = memory[-1] - memory[1]
    case = f"{CLIENTS} clients, {ROUNDS * SECONDS:.0f} s"
    ours = len(seen.milliseconds) * WORDS / (ROUNDS * SECONDS)
    record("api", f"{case}: words", DEVICE, round(ours, 1), round(theirs, 1), PEER, "words/s")
    cuts = quantiles(seen.milliseconds, n=100)
    figures = [
        *((f"latency, {p} %", cuts[p - 1], "ms") for p in (50, 95, 99)),
        ("errors", float(len(seen.errors)), "errors"),
        ("memory when warm", memory[1], "MB"),
        ("growth of memory", grown, "MB"),
    ]
    for name, value, unit in figures:
        record("api", f"{case}: {name}", DEVICE, round(value, 2), None, "", unit)
    for error in seen.errors[:5]:
        print(error, file=sys.stderr)
    return int(bool(seen.errors) or grown > MOST_GROWTH or ours < LEAST_SHARE * theirs)


def is_ready(port: int) -> bool:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request("GET", "/health")
    answer = line.getresponse()
    return json.loads(answer.read())["status"] == "ready"


def work(folder: str, line: Connection) -> None:
    """A tagger in a process of its own: words a second, for as many seconds as it is told."""
    import hardner

    tagger = hardner.OnnxPredictor.load(folder)
    while (seconds := line.recv()) is not None:
        started, done = time.perf_counter(), 0
        while time.perf_counter() - started < seconds:
            list(tagger.pipe(TEXTS))
            done += len(TEXTS)
        line.send(done * WORDS / (time.perf_counter() - started))


if __name__ == "__main__":
    sys.exit(main())
