"""Damaged inputs of every kind, and a table of what became of them.

    PYTHONPATH=tests python -m fuzz [--inputs 100000] [--seed 1] [--only jsonl,model] [--record]

Inputs that are neither read nor refused by one line are left in build/fuzz. With --record, a line
for each kind goes to benchmarks/reliability.jsonl, of which docs/reliability.md is made.
"""

import argparse
import re
import sys
import tempfile
import zlib
from pathlib import Path

from fuzz.campaign import Tally, keep, run, smallest
from fuzz.judge import CLEAN, DEFECT, LARGE, REFUSED, SLOW
from fuzz.kinds import Kind
from fuzz.lines import record
from fuzz.registry import all_kinds

OUT = Path("build", "fuzz")
COLUMNS = ("kind", "inputs", "clean", "one-line errors", "defects", "slowest", "largest memory")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="kinds, with commas between")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        kinds = all_kinds(Path(work), set(filter(None, given.only.split(","))))
        each = given.inputs / sum(kind.share for kind in kinds)
        print("|", " | ".join(COLUMNS), "|")
        found = 0
        for kind in kinds:
            tally = run(kind, round(each * kind.share) + 1, given.seed, given.workers)
            print(row(tally), flush=True)
            for line in told(kind, tally, given.seed):
                print(line, file=sys.stderr, flush=True)
            found += len(tally.odd)
            if given.record:
                record("fuzz", line_of(tally, given.seed))
    return 1 if found else 0


def line_of(tally: Tally, seed: int) -> dict[str, object]:
    seconds, megabytes = round(tally.slowest, 2), round(tally.largest)
    return {
        "kind": tally.kind,
        "seed": seed,
        "inputs": tally.inputs,
        **tally.counts,
        "slowest": seconds,
        "largest memory": megabytes,
    }


def row(tally: Tally) -> str:
    counts = tally.counts
    defects = counts[DEFECT] + counts[SLOW] + counts[LARGE]
    numbers = (tally.inputs, counts[CLEAN], counts[REFUSED], defects)
    most = f"{tally.slowest:.1f} s", f"{tally.largest:,.0f} MB"
    return "| " + " | ".join((tally.kind, *(f"{n:,}" for n in numbers), *most)) + " |"


def told(kind: Kind, tally: Tally, seed: int) -> list[str]:
    """A line for each defect; its input is left in a file."""
    lines = []
    for (verdict, what), worst in sorted(tally.odd.items()):
        plain = re.sub(r"\W+", "-", f"{kind.name} {what}")[:60]
        name = f"{plain}-{zlib.crc32(what.encode()):08x}"
        path = keep(smallest(kind, seed, worst), name, OUT)
        lines.append(f"{kind.name}: {verdict}: {what}: {path} ({seed}:{worst.number})")
    return lines


if __name__ == "__main__":
    sys.exit(main())
