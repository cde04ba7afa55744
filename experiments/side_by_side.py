"""python experiments/side_by_side.py COMMANDS [--jobs 6] [--minutes 9] [--done FILE]

Runs the shell commands of a file (or - for standard input), one a line, several at a time on one
GPU, for so many minutes. What is not done by then is interrupted as Ctrl-C would, and goes on when
the same file is run again; commands that ended well stand in the file of --done with the seconds
they took, all sittings together, and are not run again. Ends with 0 when all are done, 3 when some
are left, 1 when one failed.

    sh experiments/runs.sh few-shot --list | python experiments/side_by_side.py - --jobs 8
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

GRACE = 60
"""Seconds that an interrupted command has to save where it stands."""


class Sittings(NamedTuple):
    """What a command took so far."""

    seconds: float
    done: bool


def sittings(path: Path) -> dict[str, Sittings]:
    """Of each command that was begun."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    found = map(json.loads, lines)
    return {made["command"]: Sittings(made["seconds"], made["done"]) for made in found}


def run(commands: Sequence[str], jobs: int, minutes: float, done: Path, logs: Path) -> int:
    """Run what is not done yet; the exit status."""
    held, new = sittings(done), Sittings(0.0, False)
    waiting = [command for command in dict.fromkeys(commands) if not held.get(command, new).done]
    running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
    end, failed, left = time.monotonic() + 60 * minutes, 0, 0
    logs.mkdir(parents=True, exist_ok=True)
    done.parent.mkdir(parents=True, exist_ok=True)

    def close(command: str, process: subprocess.Popen[bytes], began: float) -> int:
        seconds = round(time.monotonic() - began + held.get(command, new).seconds, 1)
        well = process.returncode == 0
        with done.open("a", encoding="utf-8") as file:
            line = {"command": command, "seconds": seconds, "done": well}
            file.write(json.dumps(line) + "\n")
        print(f"{'done' if well else 'left'} after {seconds:,.0f} s: {command}", flush=True)
        return int(process.returncode)

    while (waiting and time.monotonic() < end) or running:
        while waiting and len(running) < jobs and time.monotonic() < end:
            command = waiting.pop(0)
            name = hashlib.sha256(command.encode()).hexdigest()[:12]
            with (logs / f"{name}.log").open("ab") as log:
                process = subprocess.Popen(
                    command, shell=True, stdout=log, stderr=log, start_new_session=True
                )
            running[command] = process, time.monotonic()
        for command, (process, began) in list(running.items()):
            if process.poll() is not None:
                del running[command]
                status = close(command, process, began)
                failed += status not in (0, 130, -signal.SIGINT)
                left += status in (130, -signal.SIGINT)
        if running and time.monotonic() >= end:
            for process, _ in running.values():
                _interrupt(process)
            limit = time.monotonic() + GRACE
            while time.monotonic() < limit and any(p.poll() is None for p, _ in running.values()):
                time.sleep(0.05)
            for process, _ in running.values():
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        time.sleep(0.02)
    left += len(waiting)
    print(f"{left} left, {failed} failed", flush=True)
    return 1 if failed else 3 if left else 0


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)


def main(
    commands: Annotated[str, typer.Argument(help="A file of commands, or -.")],
    jobs: int = 6,
    minutes: float = 9.0,
    done: Path = Path("runs/done.jsonl"),
    logs: Path = Path("runs/logs"),
) -> None:
    text = sys.stdin.read() if commands == "-" else Path(commands).read_text("utf-8")
    lines = [line.strip() for line in text.splitlines()]
    wanted = [line for line in lines if line and not line.startswith("#")]
    raise SystemExit(run(wanted, jobs, minutes, done, logs))


if __name__ == "__main__":
    typer.run(main)
