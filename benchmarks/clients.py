"""Many clients of a server at once, in one thread, so that they cost the machine little."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

CLIENTS = 50
DEVICE = "cpu, 2 cores, clients included"
ABSTRACT = (
    "Naloxone reverses the antihypertensive effect of clonidine. In unanesthetized rats the "
    "decrease in blood pressure and heart rate produced by intravenous clonidine was inhibited "
    "or reversed by naloxone. The hypotensive effect of alpha-methyldopa was also partially "
    "reversed. Naloxone alone did not affect either blood pressure or heart rate."
)
TEXTS = [f"Case {number}. {ABSTRACT}" for number in range(CLIENTS)]
"""One for each client."""


@dataclass
class Seen:
    """What the clients saw."""

    milliseconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def ask_for(seconds: float, port: int, path: str, seen: Seen) -> None:
    """Have every client send its text over and over."""

    async def every() -> None:
        ends = time.monotonic() + seconds
        await asyncio.gather(*(_client(text, ends, port, path, seen) for text in TEXTS))

    asyncio.run(every())


async def _client(text: str, ends: float, port: int, path: str, seen: Seen) -> None:
    body = json.dumps({"texts": [text]}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.monotonic() < ends:
        started = time.perf_counter()
        try:
            writer.write(head.encode() + body)
            said = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(said.partition("content-length: ")[2].partition("\r\n")[0])
            found = json.loads(await reader.readexactly(length))
            if " 200 " not in said.partition("\r\n")[0]:
                raise ValueError(found["error"])
            for entity in found["results"][0]["entities"]:
                if text[entity["start"] : entity["end"]] != entity["text"]:
                    raise ValueError("an answer to another client's text")
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            seen.errors.append(repr(error))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        seen.milliseconds.append(1000 * (time.perf_counter() - started))
    writer.close()


@contextmanager
def served(
    command: Sequence[str], line: Callable[[subprocess.Popen[str]], IO[str] | None]
) -> Iterator[tuple[int, int]]:
    """A server that says its address on a line: its port and its process."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        stream = line(process)
        assert stream is not None
        address = stream.readline()
        try:
            yield int(address.strip().strip("/").rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def megabytes(pid: int) -> float:
    """The memory that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    row = next(row for row in status.splitlines() if row.startswith("VmRSS"))
    return int(row.split()[1]) / 1024
