"""Fifty clients that tag at once through ``hardner serve``: errors, latency, memory.

    python benchmarks/serve.py [MODEL]

MODEL is a model folder; without one, the bundled model. Each client sends one abstract after the
other for a minute; appends to benchmarks/results.jsonl. Fails on any error, and where the server's
memory grows by more than 20 MB once it is warm.
"""

import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from record import record

CLIENTS, SECONDS, WARM = 50, 60.0, 15.0
MOST_GROWTH = 20.0
DEVICE = "cpu, 2 cores, clients included"
ABSTRACT = (
    "Naloxone reverses the antihypertensive effect of clonidine. In unanesthetized rats the "
    "decrease in blood pressure and heart rate produced by intravenous clonidine was inhibited "
    "or reversed by naloxone. The hypotensive effect of alpha-methyldopa was also partially "
    "reversed. Naloxone alone did not affect either blood pressure or heart rate."
)


@dataclass
class Seen:
    """What the clients saw."""

    milliseconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def main(model: Path | None) -> int:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), model) as (port, pid):
        seen = Seen()
        ends = time.monotonic() + SECONDS
        threads = [
            threading.Thread(target=client, args=(number, port, ends, seen))
            for number in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        time.sleep(WARM)
        warm = megabytes(pid)
        for thread in threads:
            thread.join()
        grown = megabytes(pid) - warm
    case = f"{CLIENTS} clients, {SECONDS:.0f} s"
    cuts = quantiles(seen.milliseconds, n=100)
    figures = [
        ("requests", len(seen.milliseconds) / SECONDS, "requests/s"),
        *((f"latency, {p} %", cuts[p - 1], "ms") for p in (50, 95, 99)),
        ("errors", float(len(seen.errors)), "errors"),
        ("memory when warm", warm, "MB"),
        ("growth of memory", grown, "MB"),
    ]
    for name, value, unit in figures:
        record("serve", f"{case}: {name}", DEVICE, round(value, 2), None, "", unit)
    for error in seen.errors[:5]:
        print(error, file=sys.stderr)
    return int(bool(seen.errors) or grown > MOST_GROWTH)


@contextmanager
def serving(folder: Path, model: Path | None) -> Iterator[tuple[int, int]]:
    """A server of an empty project: its port and its process."""
    command = [sys.executable, "-m", "hardner", "serve", str(folder / "bench.hardner")]
    options = ["--port", "0", "--no-browser", *(["--model", str(model)] if model else [])]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline()
        try:
            yield int(address.strip().strip("/").rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def client(number: int, port: int, ends: float, seen: Seen) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while time.monotonic() < ends:
        text = f"Case {number}. {ABSTRACT}"
        started = time.perf_counter()
        try:
            connection.request(
                "POST",
                "/api/tag",
                json.dumps({"texts": [text]}),
                {"content-type": "application/json"},
            )
            answer = connection.getresponse()
            found = json.loads(answer.read())
            if answer.status != 200:
                raise ValueError(found["error"])
            for entity in found["results"][0]["entities"]:
                if text[entity["start"] : entity["end"]] != entity["text"]:
                    raise ValueError("an answer to another client's text")
        except (OSError, ValueError, http.client.HTTPException) as error:
            seen.errors.append(repr(error))
            connection.close()
            continue
        seen.milliseconds.append(1000 * (time.perf_counter() - started))


def megabytes(pid: int) -> float:
    """The memory that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
