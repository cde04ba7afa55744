"""Fifty clients that tag at once through ``hardner serve``: errors, latency, memory.

    python benchmarks/serve.py [MODEL]

MODEL is a model folder; without one, the bundled model. Each client sends one abstract after the
other for a minute; appends to benchmarks/results.jsonl. Fails on any error, and where the server's
memory grows by more than 20 MB once it is warm.
"""

import sys
import tempfile
from pathlib import Path
from statistics import quantiles

from clients import CLIENTS, DEVICE, Seen, ask_for, megabytes, served
from record import record

WARM, REST = 15.0, 45.0
"""Seconds until memory is looked at first, and from then on."""
MOST_GROWTH = 20.0


def main(model: Path | None) -> int:
    with tempfile.TemporaryDirectory() as folder:
        project = str(Path(folder, "bench.hardner"))
        command = [sys.executable, "-m", "hardner", "serve", project, "--port", "0", "--no-browser"]
        command += ["--model", str(model)] if model else []
        with served(command, lambda process: process.stdout) as (port, pid):
            seen = Seen()
            ask_for(WARM, port, "/api/tag", seen)
            warm = megabytes(pid)
            ask_for(REST, port, "/api/tag", seen)
            grown = megabytes(pid) - warm
    case = f"{CLIENTS} clients, {WARM + REST:.0f} s"
    cuts = quantiles(seen.milliseconds, n=100)
    figures = [
        ("requests", len(seen.milliseconds) / (WARM + REST), "requests/s"),
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


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
